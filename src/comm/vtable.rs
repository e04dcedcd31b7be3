//! The functions by which the host program sends messages between ranks. bindings/mpi/ implements them with MPI,
//! `threads` with shared memory.

use core::ffi::c_void;

/// A message to another rank and a message from the same rank. Either may be empty.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rrbsolver_message {
    /// The other rank.
    pub peer: i32,
    /// Tag, equal on both sides. An exchange has one message in each direction per peer and tag.
    pub tag: i32,
    /// Bytes to send; 0: none.
    pub send_bytes: i64,
    /// Bytes to receive; 0: none.
    pub receive_bytes: i64,
    /// Values to send.
    pub send: *const c_void,
    /// Buffer for the received values.
    pub receive: *mut c_void,
}

/// Sum, in any order, as `operation` of `allreduce`.
pub const SUM: i32 = 0;
/// Maximum.
pub const MAX: i32 = 1;
/// Minimum.
pub const MIN: i32 = 2;

/// Functions that send messages between the ranks of a domain, for `rrb_create_distributed`.
///
/// `exchange`, `allreduce` and `allgather` create a plan: a communication that can be repeated on the same buffers.
/// `start` starts a plan, `test` checks whether it is complete, and `release` frees it. `test` and `release` must not
/// wait. A plan may be released before it is complete.
///
/// - All functions return 0 for success and another number for failure.
/// - All ranks start the plans of `allreduce` and `allgather` in the same order. Ranks may create a plan at different
///   times, so creating a plan must not wait for other ranks.
/// - Only the thread that called the library calls these functions.
/// - The library copies the table. `context` must remain valid until all handles that use it are destroyed.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rrbsolver_comm {
    /// `sizeof(rrbsolver_comm)`.
    pub struct_size: i64,
    /// First argument of all functions.
    pub context: *mut c_void,
    /// Number of this rank, from 0.
    pub rank: i32,
    /// Number of ranks.
    pub size: i32,
    /// Must be 0. Reserved for later versions: 1: device pointers are accepted; 2: `start` enqueues on the stream.
    pub flags: i32,
    /// Must be 0.
    pub reserved: i32,
    /// Creates a plan for `count` messages. The list `messages` is read in this call only; the buffers are used in each
    /// start.
    pub exchange: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            count: i64,
            messages: *const rrbsolver_message,
            plan: *mut *mut c_void,
        ) -> i32,
    >,
    /// Creates a plan that reduces `count` doubles over all ranks, in place and in any order. `operation`: 0 sum, 1
    /// maximum, 2 minimum.
    pub allreduce: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            count: i64,
            values: *mut f64,
            operation: i32,
            plan: *mut *mut c_void,
        ) -> i32,
    >,
    /// Creates a plan that gathers `bytes[rank]` bytes of each rank into `receive`, in the order of the ranks. The list
    /// `bytes` is read in this call only.
    pub allgather: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            send: *const c_void,
            receive: *mut c_void,
            bytes: *const i64,
            plan: *mut *mut c_void,
        ) -> i32,
    >,
    /// Starts a plan. `cuda_stream` is NULL for host memory.
    pub start: Option<unsafe extern "C" fn(context: *mut c_void, plan: *mut c_void, cuda_stream: *mut c_void) -> i32>,
    /// Sets `done` to 1 if the plan is complete, else to 0.
    pub test: Option<unsafe extern "C" fn(context: *mut c_void, plan: *mut c_void, done: *mut i32) -> i32>,
    /// Frees a plan.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void, plan: *mut c_void) -> i32>,
}

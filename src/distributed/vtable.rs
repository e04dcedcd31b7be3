//! The functions by which the host program sends messages between ranks. bindings/mpi/ implements them with MPI,
//! `threads` with shared memory.

use core::ffi::c_void;

/// A pair of messages: a message to another rank, and a message from this other rank. Each of the two messages may be
/// empty.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rrbsolver_message {
    /// Number of the other rank.
    pub peer: i32,
    /// Tag of the messages, equal on both ranks. For each peer and tag, an exchange has one pair of messages.
    pub tag: i32,
    /// Number of bytes to send; 0 if there is no message to send.
    pub send_bytes: i64,
    /// Number of bytes to receive; 0 if there is no message to receive.
    pub receive_bytes: i64,
    /// Buffer with the values to send.
    pub send: *const c_void,
    /// Buffer for the received values.
    pub receive: *mut c_void,
}

/// Value of `operation` in `allreduce` for a sum in any order.
pub const SUM: i32 = 0;
/// Value of `operation` in `allreduce` for a maximum.
pub const MAX: i32 = 1;
/// Value of `operation` in `allreduce` for a minimum.
pub const MIN: i32 = 2;

/// Table of functions that send messages between the ranks of a domain, for `rrb_create_distributed`.
///
/// The functions `exchange`, `allreduce` and `allgather` create a plan. A plan is a communication that can be repeated
/// with the same buffers. The function `start` starts a plan, `test` checks whether the plan is complete, and `release`
/// frees the plan. The functions `test` and `release` must not wait. The library may release a plan before the plan is
/// complete.
///
/// - All functions return 0 after success and another number after failure.
/// - All ranks start the plans of `allreduce` and `allgather` in the same order. Ranks may create a plan at different
///   times. The creation of a plan must therefore not wait for other ranks.
/// - The library calls these functions only on the thread that called the library.
/// - The library copies the table. The pointer `context` must remain valid until all handles that were created with the
///   table are destroyed.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rrbsolver_comm {
    /// `sizeof(rrbsolver_comm)`.
    pub struct_size: i64,
    /// Pointer that the library passes as the first argument of all functions.
    pub context: *mut c_void,
    /// Number of this rank, counted from 0.
    pub rank: i32,
    /// Number of ranks.
    pub size: i32,
    /// Must be 0. Later versions of the library may define 1 for functions that accept device pointers, and 2 for a
    /// function `start` that enqueues its work on the CUDA stream.
    pub flags: i32,
    /// Must be 0.
    pub reserved: i32,
    /// Creates a plan for `count` pairs of messages. The list `messages` is valid only during this call. Each start of
    /// the plan sends from and receives into the buffers of the pairs.
    pub exchange: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            count: i64,
            messages: *const rrbsolver_message,
            plan: *mut *mut c_void,
        ) -> i32,
    >,
    /// Creates a plan that reduces `count` doubles over all ranks, in place and in any order. The values of `operation`
    /// are 0 (sum), 1 (maximum) and 2 (minimum).
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
    /// `bytes` is valid only during this call.
    pub allgather: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            send: *const c_void,
            receive: *mut c_void,
            bytes: *const i64,
            plan: *mut *mut c_void,
        ) -> i32,
    >,
    /// Starts a plan. If the buffers are in host memory, `cuda_stream` is NULL.
    pub start: Option<unsafe extern "C" fn(context: *mut c_void, plan: *mut c_void, cuda_stream: *mut c_void) -> i32>,
    /// Sets `done` to 1 if the plan is complete, otherwise to 0.
    pub test: Option<unsafe extern "C" fn(context: *mut c_void, plan: *mut c_void, done: *mut i32) -> i32>,
    /// Frees a plan.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void, plan: *mut c_void) -> i32>,
}

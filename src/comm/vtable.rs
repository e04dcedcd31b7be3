//! What the host program gives for messages between ranks. bindings/mpi/ fills it in by MPI, `threads` by memory.

use core::ffi::c_void;

/// A message that is sent to a rank and one that comes from it; either may be empty.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rrbsolver_message {
    /// The other rank.
    pub peer: i32,
    /// Both sides have the same; one message a peer and tag goes each way in an exchange.
    pub tag: i32,
    /// 0: nothing is sent.
    pub send_bytes: i64,
    /// 0: nothing comes.
    pub receive_bytes: i64,
    /// What is sent.
    pub send: *const c_void,
    /// Where it comes to.
    pub receive: *mut c_void,
}

/// Sums, in any order: what `operation` of `allreduce` is.
pub const SUM: i32 = 0;
/// The largest.
pub const MAX: i32 = 1;
/// The smallest.
pub const MIN: i32 = 2;

/// Messages between the ranks of a domain. `exchange`, `allreduce` and `allgather` make plans of what `start` does
/// again and again on the same memory, `test` answers whether it is done, without waiting, and `release` frees a plan,
/// also one that is not done, without waiting. All ranks start the plans of the latter two in the same order; they may
/// be made at different times, so that making one waits for nobody. Functions answer 0, or another number where they
/// fail. One thread at a time calls them, that which called the library. The library keeps a copy; `context` stays
/// alive until all handles made with it are destroyed.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rrbsolver_comm {
    /// `sizeof(rrbsolver_comm)`.
    pub struct_size: i64,
    /// The first argument of all functions.
    pub context: *mut c_void,
    /// This rank, from 0.
    pub rank: i32,
    /// Ranks.
    pub size: i32,
    /// 0. Later: 1: takes device pointers, 2: `start` enqueues on the stream.
    pub flags: i32,
    /// 0.
    pub reserved: i32,
    /// `count` messages; the list is read by this call, the memory by each start.
    pub exchange: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            count: i64,
            messages: *const rrbsolver_message,
            plan: *mut *mut c_void,
        ) -> i32,
    >,
    /// `count` doubles of every rank in place; `operation`: 0 sum, 1 largest, 2 smallest; any order.
    pub allreduce: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            count: i64,
            values: *mut f64,
            operation: i32,
            plan: *mut *mut c_void,
        ) -> i32,
    >,
    /// `bytes[rank]` of every rank, one behind the other in `receive`; `bytes` is read by this call.
    pub allgather: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            send: *const c_void,
            receive: *mut c_void,
            bytes: *const i64,
            plan: *mut *mut c_void,
        ) -> i32,
    >,
    /// `cuda_stream`: NULL for memory of the host.
    pub start: Option<unsafe extern "C" fn(context: *mut c_void, plan: *mut c_void, cuda_stream: *mut c_void) -> i32>,
    /// `done`: 0 or 1.
    pub test: Option<unsafe extern "C" fn(context: *mut c_void, plan: *mut c_void, done: *mut i32) -> i32>,
    /// Frees a plan.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void, plan: *mut c_void) -> i32>,
}

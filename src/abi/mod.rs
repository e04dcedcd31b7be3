//! The C ABI: pointer checks, handles, panic guard and status values, but no algorithms.
//!
//! Every function is `extern "C"`, never unwinds, and returns a status; see `docs/reference/conventions.md`.

mod entries;
pub(crate) mod environment;
pub(crate) mod guard;
pub(crate) mod handle;
mod library;
mod line;
mod log;
pub(crate) mod messages;
pub(crate) mod shape;
pub(crate) mod spaces;
pub(crate) mod system;
pub(crate) mod watch;

pub use crate::abi::entries::*;
pub use crate::abi::library::*;
pub use crate::distributed::vtable::{rrbsolver_comm, rrbsolver_message};
pub use crate::dpcg::entries::*;
pub use crate::rrb::entries::*;
pub use crate::smoother::entries::*;
pub use crate::sparse::entries::*;

/// Status of a call. The value 0 means success. A positive value means that the outputs are usable, but the call did
/// not do everything that was requested. A negative value means failure.
#[allow(non_camel_case_types)]
pub type rrb_status = i32;

/// Type of the log callback. The callback receives one log line without a newline character.
///
/// The argument `level` is 0 for a warning, 1 for a line about a solve, and 2 for a line about an iteration. The
/// pointer `message` is valid only during the call.
#[allow(non_camel_case_types)]
pub type rrb_log_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut libc::c_void, level: i32, message: *const libc::c_char)>;

/// Type of the monitor. The library calls the monitor before the first iteration, with `iteration` equal to 0, and
/// after each iteration.
///
/// The argument `relative_residual` is the residual norm of the stopping test, divided by the reference of this test.
/// In `smoother_apply`, the argument is the residual norm divided by the residual norm before the first sweep. A
/// nonzero return value stops the solve.
#[allow(non_camel_case_types)]
pub type rrb_monitor_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut libc::c_void, iteration: i64, relative_residual: f64) -> i32>;

/// Type of the ghost function. Before each sweep, the ghost function fills the ghost cells that no patch covers.
///
/// The argument `sweep` is the number of the sweep, counted from 0; it is -1 before a residual is computed. The
/// argument `u` contains one pointer per patch to the array of the patch. A nonzero return value stops the call.
#[allow(non_camel_case_types)]
pub type smoother_ghost_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut libc::c_void, sweep: i32, u: *const *mut f64) -> i32>;

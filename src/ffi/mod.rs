//! The C ABI: pointer checks, handles, panic guard, status numbers; nothing else.
//!
//! Every function is `extern "C"`, never unwinds, and returns a status; see `docs/reference/conventions.md`.

mod box_arrays;
mod device_rows;
mod dpcg;
mod ending;
mod entries;
mod environment;
mod guard;
mod handle;
mod led;
mod library;
mod line;
mod log;
mod ranks;
mod rrb;
mod smoother;
mod spaces;
mod sparse;
mod system;
mod watch;

pub use crate::comm::vtable::{rrbsolver_comm, rrbsolver_message};
pub use crate::ffi::dpcg::*;
pub use crate::ffi::entries::*;
pub use crate::ffi::library::*;
pub use crate::ffi::rrb::*;
pub use crate::ffi::smoother::*;
pub use crate::ffi::sparse::*;

/// Status of a call: 0 for success, positive for success with a caveat, negative for failure.
#[allow(non_camel_case_types)]
pub type rrb_status = i32;

/// Log callback: receives one line without a newline.
///
/// `level` is 0 for a warning, 1 for a line about a solve, and 2 for a line about an iteration. `message` is valid
/// during the call only.
#[allow(non_camel_case_types)]
pub type rrb_log_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut libc::c_void, level: i32, message: *const libc::c_char)>;

/// Monitor: called before the first iteration with iteration 0, and after each iteration.
///
/// `relative_residual` is the residual of the stopping test, relative to its reference. A nonzero return value stops
/// the solve.
#[allow(non_camel_case_types)]
pub type rrb_monitor_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut libc::c_void, iteration: i64, relative_residual: f64) -> i32>;

/// Ghost function: fills the ghost cells that no patch covers, before each sweep.
///
/// `sweep` is the number of the sweep, counted from 0; it is -1 before a residual is computed. `u` contains the
/// pointers to the arrays of all patches. A nonzero return value stops the call.
#[allow(non_camel_case_types)]
pub type smoother_ghost_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut libc::c_void, sweep: i32, u: *const *mut f64) -> i32>;

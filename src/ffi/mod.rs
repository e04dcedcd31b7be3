//! The C ABI: pointer checks, handles, panic guard, status numbers; nothing else.
//!
//! Every function is `extern "C"`, never unwinds, and answers a status; see `docs/c-api.md`.

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

/// Status of a call: 0 done, positive finished with a caveat, negative failed.
#[allow(non_camel_case_types)]
pub type rrb_status = i32;

/// Receives log lines; `level` is 0 for warnings, 1 for lines per solve, 2 for lines per iteration.
#[allow(non_camel_case_types)]
pub type rrb_log_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut libc::c_void, level: i32, message: *const libc::c_char)>;

/// Called after every iteration with the tested relative residual, from iteration 0; nonzero stops.
#[allow(non_camel_case_types)]
pub type rrb_monitor_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut libc::c_void, iteration: i64, relative_residual: f64) -> i32>;

/// Called before each sweep with its number and the arrays of all patches: fills the ghost cells that no patch covers;
/// nonzero stops.
#[allow(non_camel_case_types)]
pub type smoother_ghost_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut libc::c_void, sweep: i32, u: *const *mut f64) -> i32>;

//! Functions of the whole library: prefix `rrbsolver_`.

use crate::error::{Error, STATUSES};
use crate::ffi::guard::{entry_ok, last_error};
use crate::ffi::{log, rrb_log_fn, rrb_status};
use libc::c_char;

/// Version of the library, such as "0.1.0". The text lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn rrbsolver_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Name and meaning of a status. The text lives as long as the program; an unknown number has one too.
#[unsafe(no_mangle)]
pub extern "C" fn rrbsolver_status_string(status: rrb_status) -> *const c_char {
    STATUSES.iter().find(|s| s.value == status).map_or(c"unknown status".as_ptr(), |s| s.text.as_ptr().cast())
}

/// The sentence of this thread's last failing call, node indices counted from 0. Writes at most `capacity`
/// bytes, always ended by NUL if `capacity` > 0, and returns the bytes needed, NUL included; 1 means that no
/// call failed. `buffer` may be NULL with `capacity` 0.
///
/// # Safety
/// `buffer` must have room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrbsolver_last_error(buffer: *mut c_char, capacity: i64) -> i64 {
    // SAFETY: as our caller promised.
    unsafe { rrbsolver_last_error_based(0, buffer, capacity) }
}

/// As `rrbsolver_last_error`, with node indices counted from `index_base`: 1 for Fortran.
///
/// # Safety
/// `buffer` must have room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrbsolver_last_error_based(index_base: i32, buffer: *mut c_char, capacity: i64) -> i64 {
    last_error(i64::from(index_base), |text| {
        if !buffer.is_null() && capacity > 0 {
            let mut cut = text.len().min(capacity as usize - 1);
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            // SAFETY: cut < capacity, and the caller gave that much room.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), cut);
                *buffer.add(cut) = 0;
            }
        }
        text.len() as i64 + 1
    })
}

/// Number of CUDA devices; 0 without a driver, and in a build without kernels. Errors: `RRB_ERR_NULL`.
///
/// # Safety
/// `count` must be NULL or point to an `int32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrbsolver_cuda_device_count(count: *mut i32) -> rrb_status {
    entry_ok(|| {
        if count.is_null() {
            return Err(Error::Null("count".into()));
        }
        // SAFETY: not NULL, and the caller gave an int32_t.
        unsafe { *count = crate::backend::cuda::driver::device_count() };
        Ok(())
    })
}

/// Sets (or with NULL removes) the function that receives log lines of all handles whose option `log` is `callback`. It
/// may be called from any thread that uses the library, from several at the same time, but on one thread never inside
/// another call of itself: lines of library calls that it makes are dropped. It must not use the handle that is
/// solving. When this call returns, the former function does not run and will not be called again: calls that other
/// threads are in are waited for, so the caller must hold no lock that the former function wants. Only from inside a
/// log function nothing is waited for.
#[unsafe(no_mangle)]
pub extern "C" fn rrbsolver_set_log(callback: rrb_log_fn, user: *mut libc::c_void) -> rrb_status {
    entry_ok(|| {
        log::set_callback(callback, user);
        Ok(())
    })
}

//! Functions of the whole library: prefix `rrbsolver_`.

use crate::abi::guard::{entry_ok, last_error};
use crate::abi::{log, rrb_log_fn, rrb_status};
use crate::error::{Error, STATUSES};
use libc::c_char;

/// Returns the version of the library, such as "0.1.0".
///
/// # Parameters
/// None.
///
/// # Returns
/// The function returns a text that ends with NUL. The pointer to this text is valid until the program ends.
///
/// # Errors
/// None.
///
/// # Notes
/// The macros `RRBSOLVER_VERSION_MAJOR`, `RRBSOLVER_VERSION_MINOR` and `RRBSOLVER_VERSION_PATCH` contain the version of
/// the header at compile time.
///
/// # Fortran
/// `rrbsolver_version()`
///
/// The function returns `character(:), allocatable`.
///
/// # C++
/// `std::string rrbsolver::version()`
///
/// # Example
/// ```c
/// printf("rrbsolver %s\n", rrbsolver_version());
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn rrbsolver_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns a short description of a status.
///
/// # Parameters
/// - `status` (in): any number. If the number is not a status, the function returns "unknown status".
///
/// # Returns
/// The function returns a text that ends with NUL. The pointer to this text is valid until the program ends.
///
/// # Errors
/// None.
///
/// # Notes
/// For the details of an error or the stop reason of a solve, call `rrbsolver_last_error`.
///
/// # Fortran
/// `rrbsolver_status_string(status)`
///
/// The function returns `character(:), allocatable`.
///
/// # C++
/// `std::string rrbsolver::status_string(rrb_status status)`
///
/// # Example
/// ```c
/// printf("%s\n", rrbsolver_status_string(RRB_NOT_CONVERGED));
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn rrbsolver_status_string(status: rrb_status) -> *const c_char {
    STATUSES.iter().find(|s| s.value == status).map_or(c"unknown status".as_ptr(), |s| s.text.as_ptr().cast())
}

/// Copies the message about the last call of this thread that did not return `RRB_OK`.
///
/// An error message names the argument, its value and the allowed range. Indices in messages count from 0. After
/// `RRB_NOT_CONVERGED` or `RRB_STOPPED`, the message contains the number of iterations, the residual, the tolerance and
/// the stop reason.
///
/// # Parameters
/// - `buffer` (out): array that receives at most `capacity` bytes of the message, including NUL at the end. NULL is
///   allowed if `capacity` is 0.
/// - `capacity` (in): size of `buffer` in bytes.
///
/// # Returns
/// The function returns the number of bytes of the complete message, including NUL. If there is no message, the
/// function returns 1.
///
/// # Errors
/// None.
///
/// # Notes
/// A successful call does not clear the message. Test the status of a call before you use the message.
///
/// # Fortran
/// No procedure: every procedure accepts the arguments `stat` and `errmsg`, and `errmsg` receives the message.
///
/// # C++
/// `std::string rrbsolver::last_error()`
///
/// A failed call throws an exception `rrbsolver::error`. The function `what()` of this exception returns the message.
///
/// # Example
/// ```c
/// if (rrb_create(0, 10, NULL) < 0) { // no grid
///     char message[256];
///     rrbsolver_last_error(message, sizeof message);
///     fprintf(stderr, "%s\n", message);
/// }
/// ```
///
/// # Safety
/// `buffer` must have room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrbsolver_last_error(buffer: *mut c_char, capacity: i64) -> i64 {
    // SAFETY: guaranteed by the caller.
    unsafe { rrbsolver_last_error_based(0, buffer, capacity) }
}

/// Copies the message of `rrbsolver_last_error`, with indices that count from `index_base`.
///
/// # Parameters
/// - `index_base` (in): index of the first element in each direction: 0 as in C, or 1 as in Fortran.
/// - `buffer` (out): array that receives at most `capacity` bytes of the message, including NUL at the end. NULL is
///   allowed if `capacity` is 0.
/// - `capacity` (in): size of `buffer` in bytes.
///
/// # Returns
/// The function returns the number of bytes of the complete message, including NUL. If there is no message, the
/// function returns 1.
///
/// # Errors
/// None.
///
/// # Notes
/// This function is intended for bindings to languages in which indices start at 1.
///
/// # Fortran
/// No procedure: `errmsg` receives the message, with indices that count from 1.
///
/// # C++
/// No function: `what()` of an exception `rrbsolver::error` returns the message, with indices that count from 0.
///
/// # Example
/// ```c
/// if (rrb_create(0, 10, NULL) < 0) {
///     char message[256];
///     rrbsolver_last_error_based(1, message, sizeof message);
///     fprintf(stderr, "%s\n", message);
/// }
/// ```
///
/// # Safety
/// `buffer` must have room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrbsolver_last_error_based(index_base: i32, buffer: *mut c_char, capacity: i64) -> i64 {
    last_error(i64::from(index_base), |text| {
        if !buffer.is_null() && capacity > 0 {
            let mut copied_bytes = text.len().min(capacity as usize - 1);
            while !text.is_char_boundary(copied_bytes) {
                copied_bytes -= 1;
            }
            // SAFETY: `copied_bytes` < `capacity`, and the caller guarantees the capacity.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), copied_bytes);
                *buffer.add(copied_bytes) = 0;
            }
        }
        text.len() as i64 + 1
    })
}

/// Counts the CUDA devices that the library can use.
///
/// # Parameters
/// - `count` (out): number of devices. The number is 0 if there is no CUDA driver, or if the library was built without
///   CUDA kernels.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `count` is NULL.
///
/// # Notes
/// The first call loads the CUDA driver if the driver is installed. Later calls set `count` to the same number as the
/// first call.
///
/// # Fortran
/// `rrbsolver_cuda_device_count()`
///
/// The function returns `integer`.
///
/// # C++
/// `int rrbsolver::cuda_device_count()`
///
/// # Example
/// ```c
/// int32_t count = 0;
/// status = rrbsolver_cuda_device_count(&count);
/// printf("%d devices\n", (int)count);
/// ```
///
/// # Safety
/// `count` must be NULL or point to an `int32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrbsolver_cuda_device_count(count: *mut i32) -> rrb_status {
    entry_ok(|| {
        if count.is_null() {
            return Err(Error::Null("count".into()));
        }
        // SAFETY: not NULL, and the caller guarantees a pointer to an int32_t.
        unsafe { *count = crate::cuda::driver::device_count() };
        Ok(())
    })
}

/// Sets or removes the callback that receives the log lines of all handles with `log=callback`.
///
/// The call waits until no other thread runs the previous callback. When the call returns, the previous callback is not
/// running and will not be called again. The caller must hold no lock that the previous callback needs.
///
/// # Parameters
/// - `callback` (in): the function that receives each log line with its level; NULL removes the callback.
/// - `user` (in): pointer that is passed to the callback; may be NULL.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// None.
///
/// # Notes
/// - The library may call the callback on any thread that uses the library, and on several threads at the same time.
/// - The callback may call the library with other handles, but not with the handle that writes the log line. The
///   library drops the log lines of calls inside the callback. A thread therefore never runs the callback recursively.
/// - The callback must remain valid until it is replaced. If the callback itself calls `rrbsolver_set_log`, this call
///   does not wait.
/// - The option `verbosity` of a handle selects the log lines of this handle. Without a callback, the library drops the
///   log lines.
///
/// # Fortran
/// No procedure: use the option `log=stderr` or the option `log=FILE`, where FILE is a path, or call the C function
/// with a `bind(c)` procedure.
///
/// # C++
/// No function: call the C function.
///
/// # Example
/// ```c
/// // void print_line(void *user, int32_t level, const char *line) {
/// //     printf("[%d] %s\n", (int)level, line);
/// // }
/// status = rrbsolver_set_log(print_line, NULL);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn rrbsolver_set_log(callback: rrb_log_fn, user: *mut libc::c_void) -> rrb_status {
    entry_ok(|| {
        log::set_callback(callback, user);
        Ok(())
    })
}

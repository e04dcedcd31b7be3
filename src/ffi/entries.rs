//! The entry points that every family has, written once. cbindgen sees no macros: `rrbsolver-generate` puts the names
//! of each `entries!` below into this text and hands it what results.

use crate::error::{Error, Result};
use crate::ffi::guard::entry_ok;
use crate::ffi::handle::{Handle, get, settable, with_ok, with_ref};
use crate::ffi::spaces::check_array;
use crate::ffi::{dpcg_handle, rrb_handle, rrb_monitor_fn, rrb_status, smoother_handle, sparse_handle};
use libc::{c_char, c_void};
use std::ffi::CStr;

macro_rules! entries {
    ($handle:ident $destroy:ident $set_int:ident $set_real:ident $set_options:ident $get_int:ident $get_real:ident
     $set_stream:ident $set_monitor:ident $get_history:ident) => {
        /// Frees the handle and sets the pointer to NULL. NULL, and a pointer to NULL, are no errors.
        ///
        /// # Safety
        /// `h` must be NULL or point to NULL or to a handle of this family that no other thread uses.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $destroy(h: *mut *mut $handle) -> rrb_status {
            entry_ok(|| {
                if h.is_null() {
                    return Ok(());
                }
                // SAFETY: not NULL; what it points to is NULL or ours, and set to NULL so that it is freed once.
                unsafe {
                    let inner = std::mem::replace(&mut *h, std::ptr::null_mut());
                    if !inner.is_null() {
                        let handle = Box::from_raw(inner);
                        if !handle.base().in_their_process() {
                            // After a fork the threads of the team are not there to be joined.
                            std::mem::forget(handle);
                        }
                    }
                }
                Ok(())
            })
        }

        /// Sets a whole-number option or a choice. Options that act at the next `factorize` or `set_patches` are told
        /// apart in docs/c-api.md: until then calls that solve or apply answer `RRB_ERR_STATE`. Those of a format of
        /// `sparse_` act with the next product, too, which makes it anew. What others need is made here (smoother_:
        /// block inverses of `stagger`, a second array of `block_jacobi`), with the errors of that call. Errors:
        /// `RRB_ERR_NULL`, `RRB_ERR_OPTION` (unknown key, or one that the family does not have), `RRB_ERR_ARGUMENT`
        /// (out of range).
        ///
        /// # Safety
        /// `h` must be NULL or a handle of this family.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_int(h: *mut $handle, key: i32, value: i64) -> rrb_status {
            // SAFETY: as our caller promised.
            unsafe { with_ok(h, |h| settable(h, key).and_then(|()| h.set(|o| o.set_int(key, value)))) }
        }

        /// Sets a real option. Errors as for whole-number options.
        ///
        /// # Safety
        /// `h` must be NULL or a handle of this family.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_real(h: *mut $handle, key: i32, value: f64) -> rrb_status {
            // SAFETY: as our caller promised.
            unsafe { with_ok(h, |h| settable(h, key).and_then(|()| h.set(|o| o.set_real(key, value)))) }
        }

        /// Sets options from text, such as "rel_tol=1e-8 lumping=m1m" or "method=block_jacobi omega=0.8"; all of
        /// them, or with an error none. Errors: as for whole-number options, `RRB_ERR_ARGUMENT` for a text that is
        /// not UTF-8 too, and `RRB_ERR_IO` for a log file that cannot be opened.
        ///
        /// # Safety
        /// `h` must be NULL or a handle of this family; `text` must be NULL or end with NUL.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_options(h: *mut $handle, text: *const c_char) -> rrb_status {
            let set = |h: &mut $handle| {
                if text.is_null() {
                    return Err(Error::Null("text".into()));
                }
                // SAFETY: not NULL, and the caller promised NUL at the end.
                let text = unsafe { CStr::from_ptr(text) };
                // A path with other bytes in place of its own would be another path.
                let wrong = |_| Error::range("text", format!("'{}'", text.to_string_lossy()), "be UTF-8");
                let text = text.to_str().map_err(wrong)?;
                h.set(|o| o.set_text(text))
            };
            // SAFETY: as our caller promised.
            unsafe { with_ok(h, set) }
        }

        /// Reads a whole-number option or result. Errors: `RRB_ERR_NULL`, `RRB_ERR_OPTION`. Results of calls that
        /// were not made are 0; `initial_residual` and `final_residual` of a smoother are refused with
        /// `RRB_ERR_STATE` unless the last apply had a monitor (or `verbosity=2`): nothing else computes them.
        ///
        /// # Safety
        /// `h` must be NULL or a handle of this family; `value` must be NULL or point to an `int64_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_int(h: *const $handle, key: i32, value: *mut i64) -> rrb_status {
            let find = |h: &$handle| match h.result(key) {
                Some((r, _)) if r.real => Err(Error::Option(format!("{} is real: use get_real", r.name))),
                Some((_, v)) => v.map(|v| v as i64),
                None => h.base().options.get_int(key),
            };
            // SAFETY: as our caller promised.
            unsafe { get(h, value, find) }
        }

        /// Reads a real option or result; whole numbers are converted. Errors as for whole numbers.
        ///
        /// # Safety
        /// `h` must be NULL or a handle of this family; `value` must be NULL or point to a `double`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_real(h: *const $handle, key: i32, value: *mut f64) -> rrb_status {
            let find = |h: &$handle| h.result(key).map_or_else(|| h.base().options.get_real(key), |(_, v)| v);
            // SAFETY: as our caller promised.
            unsafe { get(h, value, find) }
        }

        /// The CUDA stream to work on; NULL: the handle's own, a non-blocking one. Without effect on the CPU. Device
        /// arrays that other streams (the default one too) still write must be synchronized by the caller before a
        /// call. A stream is replaced by this call before it is destroyed. Errors: `RRB_ERR_NULL`, and of a smoother
        /// `RRB_ERR_DEVICE` (a stream of another device or context; the one before stays).
        ///
        /// # Safety
        /// `h` must be NULL or a handle of this family.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_stream(h: *mut $handle, cuda_stream: *mut c_void) -> rrb_status {
            // SAFETY: as our caller promised.
            unsafe { with_ok(h, |h| h.set_stream(cuda_stream)) }
        }

        /// Sets (or with NULL removes) the monitor: called on the calling thread, in order, from iteration or sweep
        /// 0, between iterations or sweeps, with the residual of the stopping test relative to its reference; nonzero
        /// ends the call with `RRB_STOPPED`. It must not use this handle, and should not unwind; a C++ exception must
        /// not leave it. A smoother's gets ||f - A u||_2 relative to its value before the first sweep, which costs a
        /// pass over u and f per sweep, with ghost cells exchanged and filled for it; so these end as after the last
        /// sweep, and without a monitor as the last sweep read them; an apply of no sweeps calls it once. Errors:
        /// `RRB_ERR_NULL`, `RRB_ERR_MEMORY`.
        ///
        /// # Safety
        /// `h` must be NULL or a handle of this family; `callback` must accept `user` until it is replaced.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_monitor(
            h: *mut $handle,
            callback: rrb_monitor_fn,
            user: *mut c_void,
        ) -> rrb_status {
            // SAFETY: as our caller promised.
            unsafe { with_ok(h, |h| h.set_monitor(callback, user)) }
        }

        /// Tested relative residuals of the last solve, from iteration 0 (at most `max_iter` + 1 and 1,000,000 are
        /// kept), or what the monitor of a smoother was given in the last apply (100,000): writes at most `capacity`
        /// of them, and their number to `count`. `residuals` may be NULL with `capacity` 0. Errors: `RRB_ERR_NULL`,
        /// `RRB_ERR_ARGUMENT`.
        ///
        /// # Safety
        /// `h` must be NULL or a handle of this family; `residuals` must have room for `capacity` values; `count`
        /// must be NULL or point to an `int64_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_history(
            h: *const $handle,
            residuals: *mut f64,
            capacity: i64,
            count: *mut i64,
        ) -> rrb_status {
            let copy = |h: &$handle| -> Result<()> {
                if count.is_null() {
                    return Err(Error::Null("count".into()));
                }
                if capacity < 0 {
                    return Err(Error::range("capacity", capacity, "be >= 0"));
                }
                if capacity > 0 {
                    check_array("residuals", residuals)?;
                }
                let kept = h.base().history.residuals();
                let n = kept.len().min(capacity as usize);
                // SAFETY: neither is NULL where written, n <= capacity, and the caller gave that much room.
                unsafe {
                    if n > 0 {
                        std::ptr::copy_nonoverlapping(kept.as_ptr(), residuals, n);
                    }
                    *count = kept.len() as i64;
                }
                Ok(())
            };
            // SAFETY: as our caller promised.
            unsafe { with_ref(h, copy) }
        }
    };
}

entries! { rrb_handle rrb_destroy rrb_set_int rrb_set_real rrb_set_options rrb_get_int rrb_get_real
rrb_set_stream rrb_set_monitor rrb_get_history }

entries! { smoother_handle smoother_destroy smoother_set_int smoother_set_real smoother_set_options smoother_get_int
smoother_get_real smoother_set_stream smoother_set_monitor smoother_get_history }

entries! { dpcg_handle dpcg_destroy dpcg_set_int dpcg_set_real dpcg_set_options dpcg_get_int dpcg_get_real
dpcg_set_stream dpcg_set_monitor dpcg_get_history }

entries! { sparse_handle sparse_destroy sparse_set_int sparse_set_real sparse_set_options sparse_get_int sparse_get_real
sparse_set_stream sparse_set_monitor sparse_get_history }

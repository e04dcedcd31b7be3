//! The entry points that every family has, defined by one macro.
//!
//! cbindgen does not expand macros. For each `entries!` below, `rrbsolver-generate` therefore expands the macro itself:
//! it substitutes the names, also in comments, and replaces `$family` by the name of the family. A paragraph or list
//! item that begins with prefixes such as `(rrb_, dpcg_)` applies only to these families. A code block with the
//! language `c,rrb_,dpcg_` also applies only to these families.

use crate::abi::handle::{Handle, destroy, get, set, with_handle_ok, with_handle_ref};
use crate::abi::messages::cannot_read_real_as_integer;
use crate::abi::spaces::check_array;
use crate::abi::{dpcg_handle, rrb_handle, rrb_monitor_fn, rrb_status, smoother_handle, sparse_handle};
use crate::error::Error;
use libc::{c_char, c_void};
use std::ffi::CStr;

macro_rules! entries {
    ($handle:ident $destroy:ident $set_int:ident $set_real:ident $set_options:ident $get_int:ident $get_real:ident
     $set_stream:ident $set_monitor:ident $get_history:ident) => {
        /// Frees the handle and sets the pointer to NULL.
        ///
        /// NULL and a pointer to NULL are allowed and have no effect.
        ///
        /// # Parameters
        /// - `h` (in/out): address of the pointer to the handle. On return, this pointer is NULL.
        ///
        /// # Returns
        /// `RRB_OK`.
        ///
        /// # Errors
        /// None.
        ///
        /// # Notes
        /// - (rrb_) The call does not wait for other ranks.
        /// - In a child process, the call does not free a handle that was created before the fork. In this case, the
        ///   call only sets the pointer to NULL.
        ///
        /// # Fortran
        /// `call solver%destroy()`
        ///
        /// A handle is destroyed automatically when its variable goes out of scope.
        ///
        /// # C++
        /// No function: the destructor of `rrbsolver::$family` frees the handle.
        ///
        /// # Example
        /// ```c
        /// status = $destroy(&solver); // now solver is NULL
        /// ```
        ///
        /// # Safety
        /// `h` must be NULL, point to NULL, or point to a handle of the `$family_` functions that no other thread uses.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $destroy(h: *mut *mut $handle) -> rrb_status {
            // SAFETY: guaranteed by the caller.
            unsafe { destroy(h) }
        }

        /// Sets an option whose value is an integer or a named choice.
        ///
        /// The [options](options.md) page lists the keys and ranges. The column "acts" of that page states when a new
        /// value of an option takes effect.
        ///
        /// (rrb_, dpcg_) After a change of an option that acts "at factorize", call `$family_factorize` before the next
        /// solve.
        /// (smoother_) After a change of an option that acts "at set_patches", call `smoother_set_patches` before the
        /// next `smoother_apply`.
        /// (sparse_) After a change of an option that acts "at factorize", call `sparse_factorize` before the next
        /// solve.
        ///
        /// # Parameters
        /// - `h` (in/out): handle of the `$family_` functions.
        /// - `key` (in): one of the constants `RRB_OPT_<NAME>`.
        /// - `value` (in): the new value. If the option has named choices, the value is one of the constants
        ///   `RRB_<OPTION>_<CHOICE>`.
        ///
        /// # Returns
        /// `RRB_OK`.
        ///
        /// # Errors
        /// - `RRB_ERR_NULL`: `h` is NULL.
        /// - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option
        ///   that accepts only text.
        /// - `RRB_ERR_ARGUMENT`: the value is out of range.
        /// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
        /// - `RRB_ERR_MEMORY`: allocation failed. For example, a larger `max_iter` needs a larger residual history.
        /// - (smoother_) `RRB_ERR_MATRIX`: `stagger` is not 0, and a shifted block is singular.
        /// - (smoother_) `RRB_ERR_DEVICE`: the CUDA driver reported an error.
        ///
        /// After an error all options are unchanged.
        ///
        /// # Notes
        /// - The call also accepts the key of a real option. The call then converts the integer value to a real value.
        /// - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable
        ///   sets the same option, the value in the variable overrides the change.
        /// - (smoother_) If `stagger` is not 0, this call creates the additional inverses of the shifted blocks. If
        ///   `method=block_jacobi` is set, this call creates a second array for u.
        /// - (sparse_) After a change of an option of the storage format, the next product converts the matrix again.
        ///
        /// # Fortran
        /// `call solver%set(key, value [, stat] [, errmsg])`
        ///
        /// The value is `integer(int32)` or `integer(int64)`.
        ///
        /// # C++
        /// `void rrbsolver::$family::set(std::int32_t key, Integer value)`
        ///
        /// `Integer` is any integer type. If the value does not fit `int64_t`, the function throws an error with the
        /// status `RRB_ERR_ARGUMENT`.
        ///
        /// # Example
        /// ```c,rrb_,dpcg_,sparse_
        /// status = $set_int(solver, RRB_OPT_MAX_ITER, 200);
        /// ```
        /// ```c,smoother_
        /// status = smoother_set_int(solver, RRB_OPT_METHOD, RRB_METHOD_BLOCK_JACOBI);
        /// ```
        ///
        /// # Safety
        /// `h` must be NULL or a handle of the `$family_` functions.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_int(h: *mut $handle, key: i32, value: i64) -> rrb_status {
            // SAFETY: guaranteed by the caller.
            unsafe { set(h, key, |o| o.set_int(key, value)) }
        }

        /// Sets a real option.
        ///
        /// # Parameters
        /// - `h` (in/out): handle of the `$family_` functions.
        /// - `key` (in): one of the constants `RRB_OPT_<NAME>` of a real option.
        /// - `value` (in): the new value. It must be 0 or a normal double.
        ///
        /// # Returns
        /// `RRB_OK`.
        ///
        /// # Errors
        /// - `RRB_ERR_NULL`: `h` is NULL.
        /// - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a result or of an option
        ///   that is not real.
        /// - `RRB_ERR_ARGUMENT`: the value is out of range, subnormal, infinite or NaN.
        /// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
        /// - `RRB_ERR_MEMORY`: allocation failed.
        ///
        /// After an error all options are unchanged.
        ///
        /// # Notes
        /// - A subnormal value usually means that a 4-byte real was passed instead of an 8-byte real.
        /// - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable
        ///   sets the same option, the value in the variable overrides the change.
        ///
        /// # Fortran
        /// `call solver%set(key, value [, stat] [, errmsg])`
        ///
        /// The value is `real(c_double)`.
        ///
        /// # C++
        /// `void rrbsolver::$family::set(std::int32_t key, double value)`
        ///
        /// # Example
        /// ```c,rrb_,dpcg_,sparse_
        /// status = $set_real(solver, RRB_OPT_REL_TOL, 1e-8);
        /// ```
        /// ```c,smoother_
        /// status = smoother_set_real(solver, RRB_OPT_OMEGA, 0.8);
        /// ```
        ///
        /// # Safety
        /// `h` must be NULL or a handle of the `$family_` functions.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_real(h: *mut $handle, key: i32, value: f64) -> rrb_status {
            // SAFETY: guaranteed by the caller.
            unsafe { set(h, key, |o| o.set_real(key, value)) }
        }

        /// Sets options from a text such as "name=value name=value".
        ///
        /// Blanks or commas separate the entries of the text. If one entry is wrong, no option changes.
        ///
        /// # Parameters
        /// - `h` (in/out): handle of the `$family_` functions.
        /// - `text` (in): UTF-8 text that ends with NUL. The [options](options.md) page lists the names, ranges and
        ///   choices.
        ///
        /// # Returns
        /// `RRB_OK`.
        ///
        /// # Errors
        /// - `RRB_ERR_NULL`: `h` or `text` is NULL.
        /// - `RRB_ERR_OPTION`: an entry lacks the `=`, or contains an unknown name or choice.
        /// - `RRB_ERR_ARGUMENT`: a value is out of range, or the text is not UTF-8.
        /// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
        /// - `RRB_ERR_MEMORY`: allocation failed.
        /// - `RRB_ERR_IO`: the file that the option `log` names cannot be opened.
        /// - (smoother_) `RRB_ERR_MATRIX`: `stagger` is not 0, and a shifted block is singular.
        /// - (smoother_) `RRB_ERR_DEVICE`: the CUDA driver reported an error.
        ///
        /// # Notes
        /// - After the change, the library applies the environment variable `RRBSOLVER_OPTIONS` again. If this variable
        ///   sets the same option, the value in the variable overrides the change.
        /// - If the text contains several entries for one option, the last of these entries applies.
        ///
        /// # Fortran
        /// `call solver%set(text [, stat] [, errmsg])`
        ///
        /// # C++
        /// ```cpp
        /// void rrbsolver::$family::set(const char *text)
        /// void rrbsolver::$family::set(const std::string &text)
        /// ```
        ///
        /// # Example
        /// ```c,rrb_
        /// status = rrb_set_options(solver, "rel_tol=1e-8 max_iter=200 cycle=v");
        /// ```
        /// ```c,dpcg_
        /// status = dpcg_set_options(solver, "rel_tol=1e-8 max_iter=200 preconditioner=multigrid");
        /// ```
        /// ```c,smoother_
        /// status = smoother_set_options(solver, "method=block_jacobi omega=0.8");
        /// ```
        /// ```c,sparse_
        /// status = sparse_set_options(solver, "rel_tol=1e-8 solver=cg preconditioner=ic0");
        /// ```
        ///
        /// # Safety
        /// `h` must be NULL or a handle of the `$family_` functions. `text` must be NULL or end with NUL.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_options(h: *mut $handle, text: *const c_char) -> rrb_status {
            let set_from_text = |h: &mut Handle<$handle>| {
                if text.is_null() {
                    return Err(Error::Null("text".into()));
                }
                // SAFETY: not NULL; the caller guarantees a NUL-terminated string.
                let text = unsafe { CStr::from_ptr(text) };
                // Invalid UTF-8 must not be replaced, because a modified path would name another file.
                let not_utf8 = |_| Error::range("text", format!("'{}'", text.to_string_lossy()), "be UTF-8");
                let text = text.to_str().map_err(not_utf8)?;
                h.base.set_options(|o| o.set_text(text))
            };
            // SAFETY: guaranteed by the caller.
            unsafe { with_handle_ok(h, set_from_text) }
        }

        /// Reads an option or a result whose value is an integer or a named choice.
        ///
        /// # Parameters
        /// - `h` (in): handle of the `$family_` functions.
        /// - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the [table of options](options.md)) or of a result
        ///   (`RRB_INFO_<NAME>`, see the [table of results](results.md)).
        /// - `value` (out): value of the option or result; unchanged after an error.
        ///
        /// # Returns
        /// `RRB_OK`.
        ///
        /// # Errors
        /// - `RRB_ERR_NULL`: `h` or `value` is NULL.
        /// - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a real option, a real
        ///   result or a text option.
        /// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
        ///
        /// # Notes
        /// - A result is 0 until a call has computed it.
        /// - (rrb_, dpcg_, smoother_) `RRB_INFO_DEVICE` is -1 if the handle uses no device.
        /// - If the environment variable `RRBSOLVER_OPTIONS` sets an option, the call returns the value from this
        ///   variable.
        ///
        /// # Fortran
        /// `call solver%get(key, value [, stat] [, errmsg])`
        ///
        /// The variable is `integer(int32)` or `integer(int64)`. If the value does not fit this type, the status is
        /// `RRB_ERR_ARGUMENT`.
        ///
        /// # C++
        /// `std::int64_t rrbsolver::$family::get_int(std::int32_t key) const`
        ///
        /// # Example
        /// ```c
        /// int64_t iterations = 0;
        /// status = $get_int(solver, RRB_INFO_ITERATIONS, &iterations);
        /// ```
        ///
        /// # Safety
        /// `h` must be NULL or a handle of the `$family_` functions. `value` must be NULL or point to an `int64_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_int(h: *const $handle, key: i32, value: *mut i64) -> rrb_status {
            let read_value = |h: &Handle<$handle>| match h.result(key) {
                Some((r, _)) if r.is_real => Err(cannot_read_real_as_integer(r.name)),
                Some((_, v)) => v.map(|v| v as i64),
                None => h.base.options.get_int(key),
            };
            // SAFETY: guaranteed by the caller.
            unsafe { get(h, value, read_value) }
        }

        /// Reads an option or a result and converts its value to a real number.
        ///
        /// # Parameters
        /// - `h` (in): handle of the `$family_` functions.
        /// - `key` (in): key of an option (`RRB_OPT_<NAME>`, see the [table of options](options.md)) or of a result
        ///   (`RRB_INFO_<NAME>`, see the [table of results](results.md)).
        /// - `value` (out): value of the option or result; unchanged after an error.
        ///
        /// # Returns
        /// `RRB_OK`.
        ///
        /// # Errors
        /// - `RRB_ERR_NULL`: `h` or `value` is NULL.
        /// - `RRB_ERR_OPTION`: `key` is unknown, belongs to another family, or is the key of a text option.
        /// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
        /// - (smoother_) `RRB_ERR_STATE`: `key` is the key of a residual, but the last `smoother_apply` computed no
        ///   residuals. `smoother_apply` computes residuals only with a monitor or with `verbosity=2`.
        ///
        /// # Notes
        /// A result is 0 until a call has computed it.
        ///
        /// # Fortran
        /// `call solver%get(key, value [, stat] [, errmsg])`
        ///
        /// The variable is `real(c_double)`.
        ///
        /// # C++
        /// `double rrbsolver::$family::get_real(std::int32_t key) const`
        ///
        /// # Example
        /// ```c
        /// double seconds = 0;
        /// status = $get_real(solver, RRB_INFO_SECONDS_SOLVE, &seconds);
        /// ```
        ///
        /// # Safety
        /// `h` must be NULL or a handle of the `$family_` functions. `value` must be NULL or point to a `double`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_real(h: *const $handle, key: i32, value: *mut f64) -> rrb_status {
            let read_value =
                |h: &Handle<$handle>| h.result(key).map_or_else(|| h.base.options.get_real(key), |(_, v)| v);
            // SAFETY: guaranteed by the caller.
            unsafe { get(h, value, read_value) }
        }

        /// Sets the CUDA stream on which the handle computes.
        ///
        /// The stream has no effect if the solver runs on the CPU.
        ///
        /// # Parameters
        /// - `h` (in/out): handle of the `$family_` functions.
        /// - `cuda_stream` (in): stream of type `cudaStream_t`. NULL selects the handle's own non-blocking stream,
        ///   which is the default.
        ///
        /// # Returns
        /// `RRB_OK`.
        ///
        /// # Errors
        /// - `RRB_ERR_NULL`: `h` is NULL.
        /// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
        /// - (smoother_) `RRB_ERR_DEVICE`: the stream belongs to another device or CUDA context. After this error, the
        ///   handle still uses the previous stream.
        ///
        /// # Notes
        /// - (rrb_, dpcg_, sparse_) If the stream belongs to another device or CUDA context, the next call that
        ///   computes returns `RRB_ERR_DEVICE`.
        /// - If other streams, such as the default stream, write to the arrays of a call,
        ///   synchronize these streams before the call.
        /// - Before you destroy the stream, set another stream or NULL with this function.
        ///
        /// # Fortran
        /// `call solver%set_stream(stream [, stat] [, errmsg])`
        ///
        /// The stream is `type(c_ptr)`; `c_null_ptr` selects the handle's own stream.
        ///
        /// # C++
        /// `void rrbsolver::$family::set_stream(void *cuda_stream)`
        ///
        /// # Example
        /// ```c
        /// status = $set_stream(solver, NULL); // the handle's own stream
        /// ```
        ///
        /// # Safety
        /// `h` must be NULL or a handle of the `$family_` functions.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_stream(h: *mut $handle, cuda_stream: *mut c_void) -> rrb_status {
            // SAFETY: guaranteed by the caller.
            unsafe { with_handle_ok(h, |h| h.base.set_stream(cuda_stream)) }
        }

        /// Sets or removes the monitor, a callback that receives the residuals and may stop the iteration.
        ///
        /// (rrb_, dpcg_, sparse_) `$family_solve` calls the monitor with iteration 0 before the first iteration, and
        /// then after each iteration. The monitor receives the relative residual of the stopping test.
        /// (smoother_) `smoother_apply` calls the monitor with sweep 0 before the first sweep, and then after each
        /// sweep. The monitor receives the 2-norm of f - A u, divided by the value of this norm before the first sweep.
        ///
        /// # Parameters
        /// - `h` (in/out): handle of the `$family_` functions.
        /// - (rrb_, dpcg_, sparse_) `callback` (in): the monitor. If the monitor returns a nonzero value,
        ///   `$family_solve` stops and returns `RRB_STOPPED`. NULL removes the monitor.
        /// - (smoother_) `callback` (in): the monitor. If the monitor returns a nonzero value, `smoother_apply` stops
        ///   and returns `RRB_STOPPED`. NULL removes the monitor.
        /// - `user` (in): pointer that is passed to the monitor; may be NULL.
        ///
        /// # Returns
        /// `RRB_OK`.
        ///
        /// # Errors
        /// - `RRB_ERR_NULL`: `h` is NULL.
        /// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
        /// - (smoother_) `RRB_ERR_MEMORY`: allocation of the residual history failed.
        ///
        /// # Notes
        /// - The library calls the monitor on the calling thread, in the order of the iterations. The library holds no
        ///   lock while the monitor runs.
        /// - The monitor must not use this handle. The monitor must not throw a C++ exception and must not unwind the
        ///   stack in another way.
        /// - (rrb_) On a distributed handle, a rank may set a monitor even if other ranks set none. If one monitor
        ///   stops the solve, the solve stops on all ranks.
        /// - (smoother_) With a monitor, `smoother_apply` updates the ghost cells after each sweep and reads u and f
        ///   once more to compute the residual. On return, ghost cells therefore hold the values after the last sweep.
        ///   Without a monitor, ghost cells hold the values that the last sweep read.
        /// - (smoother_) A call of `smoother_apply` with 0 sweeps calls the monitor once.
        ///
        /// # Fortran
        /// `call solver%set_monitor([monitor] [, stat] [, errmsg])`
        ///
        /// The monitor is a function with the interface `rrb_monitor`. Omit the argument to remove the monitor. The
        /// arguments of the monitor are `integer, intent(in) :: iteration` and `real(c_double), intent(in) ::
        /// relative_residual`. The result of the monitor is logical; `.true.` stops the call. Use a module procedure,
        /// because an internal procedure makes the stack of the program executable.
        ///
        /// # C++
        /// `void rrbsolver::$family::set_monitor(monitor callback)`
        ///
        /// `rrbsolver::monitor` is `std::function<bool(std::int64_t iteration, double relative_residual)>`. If the
        /// callback throws an exception, the call stops and the exception propagates to the caller. `nullptr` removes
        /// the monitor.
        ///
        /// # Example
        /// ```c
        /// // int32_t print_residual(void *user, int64_t iteration, double relative_residual) {
        /// //     printf("%d %.2e\n", (int)iteration, relative_residual);
        /// //     return 0; // go on
        /// // }
        /// status = $set_monitor(solver, print_residual, NULL);
        /// ```
        ///
        /// # Safety
        /// `h` must be NULL or a handle of the `$family_` functions. It must be safe to call `callback` with
        /// `user` until another callback replaces `callback` or the handle is destroyed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_monitor(
            h: *mut $handle,
            callback: rrb_monitor_fn,
            user: *mut c_void,
        ) -> rrb_status {
            // SAFETY: guaranteed by the caller.
            unsafe { with_handle_ok(h, |h| h.base.set_monitor(callback, user)) }
        }

        /// Copies the residual history of the handle.
        ///
        /// (rrb_, dpcg_, sparse_) The values are the relative residuals of the stopping test in the last solve. The
        /// first value belongs to iteration 0.
        /// (smoother_) The values are the relative residuals that the monitor
        /// received in the last `smoother_apply`. The first value is the relative residual before the first sweep.
        ///
        /// # Parameters
        /// - `h` (in): handle of the `$family_` functions.
        /// - `residuals` (out): array that receives the first min(`capacity`, `count`) values. NULL is allowed if
        ///   `capacity` is 0.
        /// - `capacity` (in): length of `residuals`, at least 0.
        /// - `count` (out): number of values that the handle stores.
        ///
        /// # Returns
        /// `RRB_OK`.
        ///
        /// # Errors
        /// - `RRB_ERR_NULL`: `h` or `count` is NULL, or `residuals` is NULL and `capacity` is positive.
        /// - `RRB_ERR_ARGUMENT`: `capacity` is negative, or `residuals` is not 8-byte aligned.
        /// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
        ///
        /// # Notes
        /// (rrb_, dpcg_, sparse_) The handle stores at most min(`max_iter` + 1, 1,000,000) values.
        /// (smoother_) The handle stores at most 100,000 values.
        ///
        /// # Fortran
        /// `call solver%history(residuals, count [, stat] [, errmsg])`
        ///
        /// # C++
        /// `std::vector<double> rrbsolver::$family::history() const`
        ///
        /// # Example
        /// ```c
        /// double residuals[100];
        /// int64_t count = 0;
        /// status = $get_history(solver, residuals, 100, &count);
        /// ```
        ///
        /// # Safety
        /// `h` must be NULL or a handle of the `$family_` functions. `residuals` must have room for `capacity` values.
        /// `count` must be NULL or point to an `int64_t`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_history(
            h: *const $handle,
            residuals: *mut f64,
            capacity: i64,
            count: *mut i64,
        ) -> rrb_status {
            let copy_history = |h: &Handle<$handle>| {
                if count.is_null() {
                    return Err(Error::Null("count".into()));
                }
                if capacity < 0 {
                    return Err(Error::range("capacity", capacity, "be >= 0"));
                }
                if capacity > 0 {
                    check_array("residuals", residuals)?;
                }
                let residual_history = h.base.history.residuals();
                let n = residual_history.len().min(capacity as usize);
                // SAFETY: both pointers are non-NULL where they are written, n <= capacity, and the caller guarantees
                // the capacity.
                unsafe {
                    if n > 0 {
                        std::ptr::copy_nonoverlapping(residual_history.as_ptr(), residuals, n);
                    }
                    *count = residual_history.len() as i64;
                }
                Ok(())
            };
            // SAFETY: guaranteed by the caller.
            unsafe { with_handle_ref(h, copy_history) }
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

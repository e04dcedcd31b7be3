//! Entry points on the matrix of a handle: values, arrays, factorization, solves and products.

use crate::abi::handle::{with_handle_ok, with_handle_ref};
use crate::abi::rrb_status;
use crate::abi::system::call;
use crate::krylov::solve::Function;
use crate::sparse::entries::sparse_handle;

/// Replaces the values of all entries and keeps the sparsity pattern.
///
/// If the arrays of the storage format are on a device, the call updates them; otherwise, the next product or
/// `sparse_factorize` does. `sparse_solve` and `sparse_apply` return `RRB_ERR_STATE` until `sparse_factorize` is called
/// again.
///
/// # Parameters
/// - `h` (in/out): handle from a `sparse_create_` function or from `sparse_read`.
/// - `values` (in): the new values, in host memory or, if the solver runs on a device, on this device. Pass as many
///   values as for the creation of the matrix, in the same order. For a matrix from a file, pass `RRB_INFO_NONZEROS`
///   values in CSR order. NULL is allowed if the matrix has no entries.
///
/// If a device already stores the matrix, the device permutes the values, and one of its threads adds the duplicates of
/// an entry. During the call, the device needs 8 bytes per passed value and per entry, and the host 8 bytes per entry.
/// The handle keeps 4 bytes per passed value and per stored value on the device.
///
/// For a matrix from `sparse_create_from`, omit the zeros that `sparse_create_from` treated as padding. For a symmetric
/// matrix in the format skyline, pass each off-diagonal value twice in succession.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or `values` is NULL.
/// - `RRB_ERR_ARGUMENT`: `values` is not 8-byte aligned, is in device memory although the solver runs on the CPU, is on
///   another device than the option `device` selects, or is in host memory although `memory=device` is set.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
/// - `RRB_ERR_NOT_FINITE`: a value, or the sum of the values with the same row and column, is NaN or infinite.
/// - `RRB_ERR_MEMORY`: allocation failed. The call allocates memory only if the matrix was created from unsorted or
///   repeated entries, or if the solver runs on a device.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_DEVICE`: the CUDA driver could not locate, copy or permute `values`.
///
/// After an error the values are unchanged. A factorization remains valid, except after `RRB_ERR_DEVICE`.
///
/// # Fortran
/// `call solver%set_values(values [, stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::sparse::set_values(input values)`
///
/// # Example
/// ```c
/// // Time-dependent coefficients on a fixed mesh: a matrix of 2 rows, twice.
/// const int32_t row_ptr[] = {0, 2, 4}, col[] = {0, 1, 0, 1};
/// const double first[] = {2, -1, -1, 2}, second[] = {3, -1, -1, 3};
/// sparse_handle *matrix = NULL;
/// status = sparse_create_csr(2, 2, 4, row_ptr, col, first, 4, 0, &matrix);
/// if (status == RRB_OK) {
///     status = sparse_set_values(matrix, second);
/// }
/// sparse_destroy(&matrix);
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `sparse_` functions. `values` must be NULL or contain the number of values given
/// above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_set_values(h: *mut sparse_handle, values: *const f64) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, |h| h.set_values(values)) }
}

/// Computes the lengths of the arrays that store this matrix in a given storage format.
///
/// `sparse_arrays` writes these arrays. The lengths depend on the options `block_size`, `slice` and `sigma`. The option
/// `format_memory` limits the memory of these arrays.
///
/// # Parameters
/// - `h` (in): handle from a `sparse_create_` function or from `sparse_read`.
/// - `format` (in): storage format of the arrays, one of the constants `RRB_FORMAT_COO` to `RRB_FORMAT_DIAGONAL`.
/// - `sizes` (out): array that receives four integers, the lengths of `i0`, `i1`, `i2` and `values`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or `sizes` is NULL.
/// - `RRB_ERR_ARGUMENT`: `format` is not one of these constants.
/// - `RRB_ERR_ARGUMENT`: `sizes` is not 8-byte aligned, or is in device memory.
/// - `RRB_ERR_ARGUMENT`: `format` is `RRB_FORMAT_DIAGONAL`, but the matrix has an off-diagonal entry. The message names
///   this entry.
/// - `RRB_ERR_DIMENSION`: `format` is `RRB_FORMAT_SKYLINE`, but the matrix is not square.
/// - `RRB_ERR_MEMORY`: the arrays need more memory than the option `format_memory` allows, or allocation failed.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_DEVICE`: the CUDA driver could not locate `sizes`.
///
/// # Fortran
/// No procedure: `call solver%arrays(format, i0, i1, i2, values [, stat] [, errmsg])` allocates the arrays.
///
/// # C++
/// No member: `format_arrays rrbsolver::sparse::arrays(std::int32_t format) const` allocates the arrays.
///
/// # Example
/// ```c
/// int64_t sizes[4];
/// status = sparse_sizes(solver, RRB_FORMAT_CSR, sizes);
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `sparse_` functions. `sizes` must be NULL or have room for four integers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_sizes(h: *const sparse_handle, format: i32, sizes: *mut i64) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ref(h, |h| h.sizes(format, sizes)) }
}

/// Writes the arrays that store this matrix in a given storage format, with indices that count from 0.
///
/// The section of `sparse_create_from` lists the arrays of each format. Before this call, call `sparse_sizes` with the
/// same options to determine the lengths.
///
/// # Parameters
/// - `h` (in): handle from a `sparse_create_` function or from `sparse_read`.
/// - `format` (in): storage format of the arrays, one of the constants `RRB_FORMAT_COO` to `RRB_FORMAT_DIAGONAL`.
/// - `i0`, `i1`, `i2` (out): index arrays with the lengths that `sparse_sizes` returns; an array of length 0 may be
///   NULL.
/// - `values` (out): array for the values, including padding.
///
/// The arrays must be in host memory and must not overlap.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL, or an array of nonzero length is NULL.
/// - `RRB_ERR_ARGUMENT`: two arrays overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is in device memory.
/// - `RRB_ERR_ARGUMENT`: `format` is not one of these constants.
/// - `RRB_ERR_ARGUMENT`: `format` is `RRB_FORMAT_DIAGONAL`, but the matrix has an off-diagonal entry.
/// - `RRB_ERR_DIMENSION`: `format` is `RRB_FORMAT_SKYLINE`, but the matrix is not square.
/// - `RRB_ERR_MEMORY`: the arrays need more memory than the option `format_memory` allows, or allocation failed.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_DEVICE`: the CUDA driver could not locate an array.
///
/// # Fortran
/// `call solver%arrays(format, i0, i1, i2, values [, stat] [, errmsg])`
///
/// The procedure allocates the arrays, which must be allocatable.
///
/// # C++
/// `format_arrays rrbsolver::sparse::arrays(std::int32_t format) const`
///
/// The function allocates and returns the arrays.
///
/// # Example
/// ```c
/// int64_t sizes[4];
/// status = sparse_sizes(solver, RRB_FORMAT_CSR, sizes);
/// if (status == RRB_OK) {
///     int64_t *row_ptr = malloc((size_t)sizes[0] * sizeof *row_ptr);
///     int64_t *col = malloc((size_t)sizes[1] * sizeof *col);
///     double *values = malloc((size_t)sizes[3] * sizeof *values);
///     status = sparse_arrays(solver, RRB_FORMAT_CSR, row_ptr, col, NULL, values);
///     free(row_ptr);
///     free(col);
///     free(values);
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `sparse_` functions. Each array must be NULL or have the length that
/// `sparse_sizes` returned. The options must not have changed since `sparse_sizes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_arrays(
    h: *const sparse_handle,
    format: i32,
    i0: *mut i64,
    i1: *mut i64,
    i2: *mut i64,
    values: *mut f64,
) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ref(h, |h| h.arrays(format, [i0, i1, i2], values)) }
}

/// Checks a square matrix and sets up the method, the storage format, the preconditioner and the workspace.
///
/// `RRB_INFO_SOLVER`, `RRB_INFO_PRECONDITIONER` and `RRB_INFO_FORMAT` report the choices of `auto`. With `verbosity=1`,
/// a log line also reports these choices. A second call, for example after `sparse_set_values`, reuses the memory of
/// the first call. After an error, the handle has the matrix but no factorization.
///
/// # Parameters
/// - `h` (in/out): handle with a square matrix of at least one row.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL.
/// - `RRB_ERR_DIMENSION`: the matrix is not square, or has no rows.
/// - `RRB_ERR_MATRIX`: a row or column has no nonzero entry.
/// - `RRB_ERR_MATRIX`: the matrix is not symmetric, but the method is cg, steepest_descent or minres, or the
///   preconditioner is ic0. The message names an entry a_ij that differs from a_ji.
/// - `RRB_ERR_MATRIX`: a diagonal entry is zero or missing, but the method or the preconditioner divides by this entry.
///   The methods jacobi, gauss_seidel and sor divide by diagonal entries. The preconditioners jacobi, ssor, ic0,
///   neumann, chebyshev and amg also divide by diagonal entries. With ilu0, each diagonal entry must exist but may be
///   zero.
/// - `RRB_ERR_MATRIX`: the preconditioner is ic0, but a diagonal entry or a pivot is not positive.
/// - `RRB_ERR_MATRIX`: the preconditioner is ilu0, but a pivot is zero.
/// - `RRB_ERR_MATRIX`: `precision=f32` is set, but an entry of M is outside the range of single precision.
/// - `RRB_ERR_MATRIX`: `precision=single` is set, but the infinity norm of the matrix is below 1e-30 or above 1e30, or
///   an entry of M is outside the range of single precision.
/// - `RRB_ERR_UNSUPPORTED`: the method does not accept the preconditioner. The methods jacobi, gauss_seidel and sor
///   accept only `preconditioner=none`. The method minres accepts only `preconditioner=none` and
///   `preconditioner=jacobi`. The preconditioner amg requires the method cg or steepest_descent.
/// - `RRB_ERR_UNSUPPORTED`: the preconditioner is amg, but the matrix has 2^32 - 1 rows or more.
/// - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the storage format, the preconditioner or the order of the rows
///   has no kernel on a device. The methods gauss_seidel and sor and the preconditioners ssor, ic0 and ilu0 require
///   `ordering=multicolour`. The message names what has kernels.
/// - `RRB_ERR_UNSUPPORTED`: the method is bicg, A is not symmetric, and a device stores A in another format than dia
///   and diagonal. Either `transpose=none` is set, or `transpose=auto` is set and a copy of A' exceeds `format_memory`.
/// - `RRB_ERR_UNSUPPORTED`: `precision=single` is set, but the solver runs on the CPU.
/// - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the matrix has 2^31 rows or more, or the library was built
///   without kernels.
/// - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_ARGUMENT`: `sor_omega=2` is set.
/// - `RRB_ERR_ARGUMENT`: `format=diagonal` is set, but the matrix has an off-diagonal entry.
/// - `RRB_ERR_MEMORY`: the storage format needs more memory than the option `format_memory` allows, or allocation
///   failed.
/// - `RRB_ERR_MEMORY`: with `transpose=copy`, the copy of A' for bicg needs more memory than `format_memory` allows.
///
/// # Notes
/// - If `auto` selects ic0 or ilu0, but the factorization fails at a pivot or leaves the range of the precision, the
///   call uses `preconditioner=jacobi` instead. If a diagonal entry is zero or missing, the call uses no
///   preconditioner.
/// - A log line warns if the matrix has off-diagonal entries in one triangle only. A log line also warns if the method
///   is jacobi, gauss_seidel or sor, but the matrix is not diagonally dominant.
/// - The call costs as much as a few matrix-vector products and the setup of the preconditioner.
/// - Sources: Saad, Iterative Methods for Sparse Linear Systems, 2003 (methods, ic0, ilu0); Napov and Notay, SIAM J.
///   Sci. Comput. 34 (2012), A1079-A1109 (amg).
///
/// # Fortran
/// `call solver%factorize([stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::sparse::factorize()`
///
/// # Example
/// ```c
/// status = sparse_set_options(solver, "solver=cg preconditioner=ic0");
/// if (status == RRB_OK) {
///     status = sparse_factorize(solver);
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `sparse_` functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_factorize(h: *mut sparse_handle) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, |h| h.factorize()) }
}

/// Solves A x = b with the method of `sparse_factorize`.
///
/// The solve stops when norm(b - A x) <= max(rel_tol * reference, abs_tol). The norm is the 2-norm, and the option
/// `reference` selects the reference value.
///
/// The residual is recomputed from x before convergence is reported. For b = 0, the result is x = 0. If the initial
/// guess satisfies the stopping test, the call returns the guess after 0 iterations.
///
/// # Parameters
/// - `h` (in/out): handle with a matrix from `sparse_factorize`.
/// - `b` (in): right-hand side, with as many values as the matrix has rows.
/// - `x` (in/out): initial guess on entry, solution on return; must not overlap `b`.
///
/// On the CPU, both arrays must be in host memory. If the solver runs on a device, each array may be in host memory or
/// on this device.
///
/// # Returns
/// - `RRB_OK`: the solve has converged.
/// - `RRB_NOT_CONVERGED`: the solve has not converged; `RRB_INFO_STOP_REASON` reports the reason. If the reason is
///   `max_iter`, `x` is the last iterate, or an earlier iterate with a smaller residual. If the reason is `stagnated`
///   or `diverged`, `x` is the iterate with the smallest known residual, which may be the initial guess.
/// - `RRB_STOPPED`: the monitor stopped the solve; `x` is the current iterate.
///
/// After `RRB_NOT_CONVERGED` and `RRB_STOPPED`, the message of `rrbsolver_last_error` contains the number of
/// iterations, the residual, the tolerance and the stop reason.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, `b` or `x` is NULL.
/// - `RRB_ERR_ARGUMENT`: `b` and `x` overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: an array is in device memory, but the solver runs on the CPU. Or an array is on another device
///   than the solver, or in host memory although `memory=device` is set.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
/// - `RRB_ERR_ARGUMENT`: the matrix was factorized with `precision=single`, but `rel_tol` is below 1e-5.
/// - `RRB_ERR_ARGUMENT`: the initial guess x is so large that max abs(x) is above 1e150 * max abs(b) / d. Here d is
///   half of the largest row sum of abs(a_ij).
/// - `RRB_ERR_STATE`: `sparse_factorize` has not succeeded since the last change of the values or of an option that
///   acts "at factorize".
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `b` or `x` contains NaN or infinity.
/// - `RRB_ERR_NOT_FINITE`: the solution is too large for a double.
/// - `RRB_ERR_RANGE`: the values of the solution are so small that they underflow.
/// - `RRB_ERR_BREAKDOWN`: the method is cg or steepest_descent, but A or M is indefinite. If A is indefinite, use
///   `solver=minres`.
/// - `RRB_ERR_BREAKDOWN`: the iteration overflowed.
/// - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and `b` contains NaN or infinity.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error. After this error on a device, the output is undefined.
///
/// After an error `x` is unchanged.
///
/// # Notes
/// - If `solver=auto` selected cg, and this method detects that the matrix is indefinite, the solve continues with the
///   method minres. `RRB_INFO_SOLVER` then reports minres.
/// - The results are bitwise identical for any number of threads.
/// - On the CPU, the call starts no thread and allocates no memory. On a device, the first call with arrays on the host
///   allocates buffers and starts up to seven threads.
///
/// # Fortran
/// `call solver%solve(b, x [, stat] [, errmsg])`
///
/// # C++
/// `rrb_status rrbsolver::sparse::solve(input b, output x)`
///
/// # Example
/// ```c
/// status = sparse_solve(solver, b, x);
/// if (status != RRB_OK) {
///     char message[256];
///     rrbsolver_last_error(message, sizeof message);
///     fprintf(stderr, "%s\n", message);
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `sparse_` functions. Each array must be NULL or contain as many values as the
/// matrix has rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_solve(h: *mut sparse_handle, b: *const f64, x: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { call(h, Function::Solve, ("b", b), ("x", x)) }
}

/// Computes z = M^-1 r with the preconditioner of `sparse_factorize`, for a Krylov method of the caller.
///
/// With `preconditioner=amg` on the CPU, M depends on r, so use a flexible Krylov method. Otherwise, M does not depend
/// on r.
///
/// # Parameters
/// - `h` (in/out): handle with a matrix from `sparse_factorize`.
/// - `r` (in): residual, with as many values as the matrix has rows.
/// - `z` (out): result, with as many values as the matrix has rows; must not overlap `r`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, `r` or `z` is NULL.
/// - `RRB_ERR_ARGUMENT`: `r` and `z` overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: an array is in device memory, but the solver runs on the CPU. Or an array is on another device
///   than the solver, or in host memory although `memory=device` is set.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
/// - `RRB_ERR_STATE`: `sparse_factorize` has not succeeded since the last change of the values or of an option that
///   acts "at factorize".
/// - `RRB_ERR_UNSUPPORTED`: the method is jacobi, gauss_seidel or sor, which has no preconditioner.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `r` contains NaN or infinity.
/// - `RRB_ERR_NOT_FINITE`: `z` is too large for a double.
/// - `RRB_ERR_RANGE`: the values of `z` are so small that they underflow.
/// - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and `r` contains NaN or infinity.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error. After this error on a device, the output is undefined.
///
/// After an error `z` is unchanged.
///
/// # Fortran
/// `call solver%apply(r, z [, stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::sparse::apply(input r, output z)`
///
/// # Example
/// ```c
/// status = sparse_apply(solver, r, z); // z = M^-1 r
/// ```
///
/// # Safety
/// The requirements are those of `sparse_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_apply(h: *mut sparse_handle, r: *const f64, z: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { call(h, Function::Apply, ("r", r), ("z", z)) }
}

/// Computes the product y = A x.
///
/// The call needs no factorization, and the matrix may be rectangular. If the matrix is not yet in the storage format
/// that the option `format` selects, the call first converts it. Later products use the converted matrix until the
/// values or the options of the format change.
///
/// # Parameters
/// - `h` (in/out): handle from a `sparse_create_` function or from `sparse_read`.
/// - `x` (in): vector with as many values as the matrix has columns.
/// - `y` (out): vector with as many values as the matrix has rows; must not overlap `x`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL, or an array of nonzero length is NULL.
/// - `RRB_ERR_ARGUMENT`: `x` and `y` overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: an array is in device memory, but the solver runs on the CPU. Or an array is on another device
///   than the solver, or in host memory although `memory=device` is set.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
/// - `RRB_ERR_ARGUMENT`: `format=diagonal` is set, but the matrix has an off-diagonal entry.
/// - `RRB_ERR_DIMENSION`: `format=skyline` is set, but the matrix is not square.
/// - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the storage format has no kernel on a device, the matrix has
///   2^31 or more rows or columns, or the library was built without kernels.
/// - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `x` contains NaN or infinity.
/// - `RRB_ERR_MEMORY`: the storage format needs more memory than the option `format_memory` allows, or allocation
///   failed.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error. After this error on a device, the output is undefined.
///
/// After an error `y` is unchanged.
///
/// # Notes
/// - The call moves `RRB_INFO_BYTES_PER_NONZERO` bytes of memory per entry of the matrix and performs 2 flops per
///   stored value.
/// - Products in the formats coo, jds, tjds and skyline use one thread. Products in the other formats use as many
///   threads as the option `threads` specifies.
///
/// # Fortran
/// `call solver%multiply(x, y [, stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::sparse::multiply(input x, output y)`
///
/// # Example
/// ```c
/// status = sparse_multiply(solver, x, y); // y = A x
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `sparse_` functions. Each array must be NULL or have the size given above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_multiply(h: *mut sparse_handle, x: *const f64, y: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, |h| h.multiply(x, y, false)) }
}

/// Computes the product y = A' x with the transpose A' of A.
///
/// Except for the transpose, the description of `sparse_multiply` also applies to this call.
///
/// # Parameters
/// - `h` (in/out): handle from a `sparse_create_` function or from `sparse_read`.
/// - `x` (in): vector with as many values as the matrix has rows.
/// - `y` (out): vector with as many values as the matrix has columns; must not overlap `x`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL, or an array of nonzero length is NULL.
/// - `RRB_ERR_ARGUMENT`: `x` and `y` overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: an array is in device memory, but the solver runs on the CPU. Or an array is on another device
///   than the solver, or in host memory although `memory=device` is set.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
/// - `RRB_ERR_ARGUMENT`: `format=diagonal` is set, but the matrix has an off-diagonal entry.
/// - `RRB_ERR_DIMENSION`: `format=skyline` is set, but the matrix is not square.
/// - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the storage format has no kernel on a device, the matrix has
///   2^31 or more rows or columns, or the library was built without kernels.
/// - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `x` contains NaN or infinity.
/// - `RRB_ERR_MEMORY`: the storage format needs more memory than the option `format_memory` allows, or allocation
///   failed.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error. After this error on a device, the output is undefined.
///
/// After an error `y` is unchanged.
///
/// # Notes
/// - On the CPU, the call does not copy A'. The call needs up to 64 bytes per column for partial sums. This memory
///   remains allocated after the call.
/// - On a device, the first call copies A' to the device, in CSR. The formats dia and diagonal need no copy.
///
/// # Fortran
/// `call solver%multiply_transposed(x, y [, stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::sparse::multiply_transposed(input x, output y)`
///
/// # Example
/// ```c
/// status = sparse_multiply_transposed(solver, x, y); // y = A' x
/// ```
///
/// # Safety
/// The requirements are those of `sparse_multiply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparse_multiply_transposed(h: *mut sparse_handle, x: *const f64, y: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, |h| h.multiply(x, y, true)) }
}

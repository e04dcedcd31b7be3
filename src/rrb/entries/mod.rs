//! Family `rrb_`: symmetric matrices with a 5-point or 9-point stencil in 2D.
//!
//! Entry (i, j) of an array is `a[j * ld + i]`, which is Fortran's `a(nx, ny)`. `east[i, j]` is the matrix entry that
//! couples (i, j) to (i + 1, j); the other arrays are analogous. Pointers are borrowed only for the duration of the
//! call.

mod box_arrays;
mod boxes;
mod device_rows;
mod distributed;
mod handle;

pub use distributed::*;
pub use handle::{make_backend, rrb_handle};

use crate::abi::handle::{Handle, create, with_handle_ok};
use crate::abi::rrb_status;
use crate::abi::system::{SolveOnceArguments, solve_once};
use crate::krylov::solve::Function;
use boxes::run_function;
use handle::new_handle;

/// Creates a solver for symmetric matrices with a 5-point or 9-point stencil on nx x ny nodes.
///
/// The handle has the default options; the environment variable `RRBSOLVER_OPTIONS` overrides these defaults.
/// `rrb_factorize` allocates the memory for the matrix. `rrb_destroy` frees the handle.
///
/// # Parameters
/// - `nx`, `ny` (in): numbers of nodes in x and y. Each must be at least 1, and nx * ny must be at most 2^32 - 1.
/// - `out` (out): the new handle; unchanged after an error.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `out` is NULL.
/// - `RRB_ERR_DIMENSION`: `nx` or `ny` is below 1, or nx * ny is above 2^32 - 1.
/// - `RRB_ERR_MEMORY`: allocation failed.
///
/// # Fortran
/// `call solver%create(nx, ny [, stat] [, errmsg])`
///
/// The variable is `type(rrb_solver) :: solver`.
///
/// # C++
/// `rrbsolver::rrb::rrb(std::int64_t nx, std::int64_t ny)`
///
/// # Example
/// ```c
/// rrb_handle *pressure = NULL;
/// status = rrb_create(nx, ny, &pressure);
/// if (status == RRB_OK) {
///     status = rrb_set_options(pressure, "rel_tol=1e-8 max_iter=200");
/// }
/// rrb_destroy(&pressure);
/// ```
///
/// # Safety
/// `out` must be NULL or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_create(nx: i64, ny: i64, out: *mut *mut rrb_handle) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { create(out, || new_handle(nx, ny)) }
}

/// Copies the coefficients of A and computes the preconditioner M.
///
/// With `cycle=v`, `cycle=amli` or `cycle=k`, M is the incomplete RRB factorization L D L^T = A - R, where R is the
/// error of the factorization. With `cycle=aggregation`, M is an aggregation-based multigrid method. The sign
/// convention is that of -div(k grad u): `center` is positive, and couplings are normally negative.
///
/// After success, the handle holds the new matrix. After an error, the handle holds no matrix. A second call reuses the
/// memory of the first call if possible.
///
/// # Parameters
/// - `h` (in/out): handle from `rrb_create` or `rrb_create_distributed`.
/// - `center` (in): diagonal entries of A, which must be positive.
/// - `east` (in): entries of A that couple the nodes (i, j) and (i+1, j).
/// - `north` (in): entries of A that couple the nodes (i, j) and (i, j+1).
/// - `northeast` (in): entries of A that couple the nodes (i, j) and (i+1, j+1); NULL for a 5-point stencil.
/// - `northwest` (in): entries of A that couple the nodes (i, j) and (i-1, j+1); NULL for a 5-point stencil.
///
/// Each array has (ny - 1) * ld + nx values, where ld is the option `leading_dimension` (by default nx). The arrays are
/// in host memory or in the memory of the handle's device. The call does not read the padding between rows.
///
/// The call ignores array values that couple a node of the grid to a node outside the grid. The option `check_input`
/// determines whether nonzero values of this kind are logged or cause an error.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or a required array is NULL, or exactly one of `northeast` and `northwest` is NULL.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
///   specifies.
/// - `RRB_ERR_ARGUMENT`: `cycle_spacing` is odd.
/// - `RRB_ERR_ARGUMENT`: with the values of `cycle_steps` and `cycle_spacing`, one AMLI-cycle or K-cycle would cost
///   more than 100 V-cycles.
/// - `RRB_ERR_ARGUMENT`: `check_input=2` is set, and a coupling to a node outside the grid is not zero.
/// - `RRB_ERR_DIMENSION`: `leading_dimension` is so large that the length of an array overflows.
/// - `RRB_ERR_UNSUPPORTED`: the solver runs on a device, and `cycle=k` is set.
/// - `RRB_ERR_UNSUPPORTED`: `cycle=aggregation` is set together with `precision=bf16`, `precision=mixed` or
///   `backend=reference`.
/// - `RRB_ERR_UNSUPPORTED`: `null_space=constant` is set, but a connected component of the matrix is not singular.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver does not run on a device.
/// - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the library was built without CUDA kernels.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_MATRIX`: a center or a pivot is not positive, or a pivot underflows in the selected `precision`.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and an array contains NaN or infinity.
/// - `RRB_ERR_MEMORY`: allocation failed, or the exact factor of the coarsest system needs more memory than
///   `coarse_memory` allows.
/// - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
///   `comm` failed. This error occurs only on handles of `rrb_create_distributed`.
///
/// # Notes
/// - The choices of `precision=auto` and `cycle=auto` depend on the matrix. The [rules of auto](auto.md) describe these
///   choices. `RRB_INFO_PRECISION` and `RRB_INFO_CYCLE` report the choices.
/// - `auto` changes some choices after a failed factorization or a slow solve. The new choices also apply to later
///   matrices, until an option that affects these choices changes.
/// - The call performs about 40 flops per node. With `cycle=amli`, the call also performs 6 to 16 CG steps on each grid
///   on which the cycle recurses. With the default `cycle_spacing`, the largest of these grids has 1/16 of all nodes.
/// - A second call allocates memory only if the precision or the cycle has changed, or if the matrix has more connected
///   components than before.
/// - With `cycle=aggregation` on the CPU, the call tests the quality of the aggregates of the previous matrix for the
///   new matrix. The call reuses each aggregate that passes this test.
/// - On a distributed handle, the call is collective: all ranks must make this call. A rank with one box passes the
///   arrays of that box.
/// - Source: M. de Jong, C. Vuik, report 16-06, Delft University of Technology, 2016, section 2.2.
///
/// # Fortran
/// `call solver%factorize(center, east, north [, northeast, northwest] [, stat] [, errmsg])`
///
/// The arrays have the shape (ld, ny) and must be contiguous.
///
/// # C++
/// ```cpp
/// void rrbsolver::rrb::factorize(input center, input east, input north)
/// void rrbsolver::rrb::factorize(input center, input east, input north, input northeast, input northwest)
/// ```
///
/// # Example
/// ```c
/// status = rrb_factorize(solver, center, east, north, NULL, NULL); // 5 points
/// if (status == RRB_OK) {
///     status = rrb_factorize(solver, center, east, north, northeast, northwest); // 9 points
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or come from `rrb_create` or `rrb_create_distributed`. Each array must be NULL or have the size
/// given above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_factorize(
    h: *mut rrb_handle,
    center: *const f64,
    east: *const f64,
    north: *const f64,
    northeast: *const f64,
    northwest: *const f64,
) -> rrb_status {
    // SAFETY: guaranteed by the caller; the documentation states the sizes.
    unsafe { with_handle_ok(h, |h| h.factorize([center, east, north, northeast, northwest])) }
}

/// Solves A x = b by conjugate gradients with the preconditioner M.
///
/// The solve stops when norm(b - A x) <= max(rel_tol * reference, abs_tol). The options `norm` and `reference` select
/// the norm and the reference value. `x` and the stopping test are in double precision, regardless of the option
/// `precision`.
///
/// # Parameters
/// - `h` (in/out): handle with a factorized matrix.
/// - `b` (in): right-hand side, an array of (ny - 1) * ld + nx values in host memory or in the memory of the handle's
///   device.
/// - `x` (in/out): initial guess on entry, solution on return. The array has the size of `b` and must not overlap `b`.
///
/// # Returns
/// - `RRB_OK`: the solve has converged. If b = 0, the call returns x = 0 after 0 iterations. If the initial guess
///   satisfies the stopping test, the call returns the guess after 0 iterations.
/// - `RRB_NOT_CONVERGED`: the solve reached the limit `max_iter`, or it stagnated. x is the last iterate, or an earlier
///   iterate with a smaller residual. `RRB_INFO_STOP_REASON` reports the stop reason.
/// - `RRB_STOPPED`: the monitor stopped the solve; x is the current iterate.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or an array is NULL.
/// - `RRB_ERR_ARGUMENT`: the arrays overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
///   specifies.
/// - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts "at factorize" has changed since the last
///   `rrb_factorize`.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_ARGUMENT`: the initial guess x is so large that max abs(x) is above 1e150 * max abs(b) / max abs(center).
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and b or x contains NaN or infinity.
/// - `RRB_ERR_NOT_FINITE`: the solution is too large for a double.
/// - `RRB_ERR_RANGE`: the values of the solution are so small that they underflow.
/// - `RRB_ERR_BREAKDOWN`: the matrix or the preconditioner is indefinite, or the iteration overflowed.
/// - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and b contains NaN or infinity.
/// - `RRB_ERR_INCOMPATIBLE`: `check_compatibility=1` is set, and b has a component in the null space.
/// - `RRB_ERR_MEMORY`: allocation failed. This error occurs only if the solver runs on a device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
///   `comm` failed. This error occurs only on handles of `rrb_create_distributed`.
///
/// After an error x is unchanged, except after `RRB_ERR_DEVICE`.
///
/// # Notes
/// - On each singular component, the solver subtracts the mean of b from b. On this component, the solution has the
///   same mean as the initial guess.
/// - With `precision=f32`, `precision=bf16` or `precision=mixed`, the solver replaces the initial guess with zero if
///   max |x| > 1e15 max |b| / max center.
/// - With `cycle=auto`, CG may detect that the selected cycle is indefinite. In this case, the solve continues with
///   `cycle=v`. All later solves before the next `rrb_factorize` also use `cycle=v`.
/// - With `cycle=auto`, a slow solve may switch to `cycle=aggregation`, which allocates memory. The option
///   `switch_memory` limits this memory; `switch_memory=0` prevents the switch. The [rules of auto](auto.md) describe
///   the switch.
/// - If `cycle` is not `auto`, or if `switch_memory=0` is set, a solve on the CPU allocates no memory and starts no
///   thread.
/// - On a distributed handle with `precision=auto`, a solve with `precision=mixed` may stagnate. The call then
///   factorizes the matrix again with `precision=bf16` and continues the solve.
/// - If the solver runs on a device, the first call with pageable host arrays allocates page-locked buffers. This call
///   also starts threads that copy the arrays to and from these buffers.
/// - With a 5-point stencil and `fusion=on`, an iteration reads and writes 48 to 122 bytes of memory per unknown,
///   depending on `cycle` and `precision`.
/// - On a distributed handle, the call is collective: all ranks must make this call.
/// - Source: M. de Jong, C. Vuik, report 16-06, Delft University of Technology, 2016, algorithms 1 and 3.
///
/// # Fortran
/// `call solver%solve(b, x [, stat] [, errmsg])`
///
/// The arrays have the shape (ld, ny) and must be contiguous.
///
/// # C++
/// `rrb_status rrbsolver::rrb::solve(input b, output x)`
///
/// # Example
/// ```c
/// status = rrb_solve(solver, b, x);
/// if (status < 0) {
///     char message[256];
///     rrbsolver_last_error(message, sizeof message);
///     fprintf(stderr, "%s\n", message);
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or come from `rrb_create` or `rrb_create_distributed`. Each array must be NULL or have the size
/// given above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_solve(h: *mut rrb_handle, b: *const f64, x: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller; the documentation of the functions that create the handle states the sizes.
    unsafe { run_function(h, Function::Solve, ("b", b), ("x", x)) }
}

/// Computes z = M^-1 r with the preconditioner M.
///
/// M is symmetric and positive definite, except with `cycle=k`. If the matrix has singular components, the call
/// subtracts the means of r and z on each of these components. In this case, M^-1 is positive definite on the
/// complement of the null space.
///
/// # Parameters
/// - `h` (in/out): handle with a factorized matrix.
/// - `r` (in): array of (ny - 1) * ld + nx values in host memory or in the memory of the handle's device.
/// - `z` (out): array of the size of `r`; must not overlap `r`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or an array is NULL.
/// - `RRB_ERR_ARGUMENT`: the arrays overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
///   specifies.
/// - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts "at factorize" has changed since the last
///   `rrb_factorize`.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and r contains NaN or infinity.
/// - `RRB_ERR_NOT_FINITE`: z is too large for a double.
/// - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and r contains NaN or infinity.
/// - `RRB_ERR_RANGE`: the values of z are so small that they underflow.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
///   `comm` failed. This error occurs only on handles of `rrb_create_distributed`.
///
/// After an error z is unchanged.
///
/// # Notes
/// - With `cycle=k`, z is not a linear function of r. In this case, use M only in a flexible Krylov method. With all
///   other cycles, M is a fixed matrix up to rounding errors.
/// - With `precision=f64`, z has double precision. With any other precision, z has single precision.
/// - On a distributed handle, the call is collective: all ranks must make this call.
///
/// # Fortran
/// `call solver%apply(r, z [, stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::rrb::apply(input r, output z)`
///
/// # Example
/// ```c
/// status = rrb_apply(solver, r, z);
/// ```
///
/// # Safety
/// The requirements are those of `rrb_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_apply(h: *mut rrb_handle, r: *const f64, z: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller; the documentation of the functions that create the handle states the sizes.
    unsafe { run_function(h, Function::Apply, ("r", r), ("z", z)) }
}

/// Computes y = A x with the matrix A of the last `rrb_factorize`.
///
/// # Parameters
/// - `h` (in/out): handle with a factorized matrix.
/// - `x` (in): array of (ny - 1) * ld + nx values in host memory or in the memory of the handle's device.
/// - `y` (out): array of the size of `x`; must not overlap `x`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or an array is NULL.
/// - `RRB_ERR_ARGUMENT`: the arrays overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
///   specifies.
/// - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts "at factorize" has changed since the last
///   `rrb_factorize`.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and x contains NaN or infinity.
/// - `RRB_ERR_NOT_FINITE`: y is too large for a double.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
///   `comm` failed. This error occurs only on handles of `rrb_create_distributed`.
///
/// After an error y is unchanged.
///
/// # Notes
/// - The product is computed in double precision, regardless of the option `precision`.
/// - On a distributed handle, the call is collective: all ranks must make this call.
///
/// # Fortran
/// `call solver%multiply(x, y [, stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::rrb::multiply(input x, output y)`
///
/// # Example
/// ```c
/// status = rrb_multiply(solver, x, y);
/// ```
///
/// # Safety
/// The requirements are those of `rrb_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_multiply(h: *mut rrb_handle, x: *const f64, y: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller; the documentation of the functions that create the handle states the sizes.
    unsafe { run_function(h, Function::Multiply, ("x", x), ("y", y)) }
}

/// Solves one system A x = b without a handle.
///
/// The function can replace a call to an ICCG routine in an existing program. It creates a handle, factorizes the
/// matrix, solves the system and frees the handle. If you solve repeatedly on the same grid, use a handle, because a
/// handle reuses the memory and the factorization.
///
/// # Parameters
/// - `nx`, `ny` (in): numbers of nodes in x and y, as for `rrb_create`.
/// - `center`, `east`, `north` (in): coefficients, as for `rrb_factorize`, with ld = nx.
/// - `northeast`, `northwest` (in): additional coefficients of a 9-point stencil; NULL for a 5-point stencil.
/// - `b` (in): right-hand side, an array of nx * ny values.
/// - `x` (in/out): initial guess on entry, solution on return; must not overlap another array.
/// - `rel_tol` (in): relative tolerance in (0, 1): the solve stops when ||b - A x||_2 <= rel_tol * ||b||_2.
/// - `max_iter` (in): iteration limit, at least 0.
/// - `iterations` (out): number of iterations; may be NULL.
///
/// # Returns
/// `RRB_OK` or `RRB_NOT_CONVERGED`, with the same meaning as for `rrb_solve`.
///
/// # Errors
/// - all errors of `rrb_create`, `rrb_factorize` and `rrb_solve`.
/// - `RRB_ERR_ARGUMENT`: `rel_tol` or `max_iter` is out of range.
///
/// After an error x is unchanged.
///
/// # Notes
/// The environment variable `RRBSOLVER_OPTIONS` overrides the arguments `rel_tol` and `max_iter`. It also overrides the
/// defaults of all other options.
///
/// # Fortran
/// ```fortran
/// call rrb_solve_once(center, east, north, b, x, rel_tol, max_iter, iterations [, northeast] [, northwest] &
///                     [, stat] [, errmsg])
/// ```
///
/// # C++
/// ```cpp
/// rrbsolver::once rrbsolver::solve_once(std::int64_t nx, std::int64_t ny, input center, input east, input north,
///                                       input b, output x, double rel_tol, std::int64_t max_iter,
///                                       input northeast = {nullptr, 0}, input northwest = {nullptr, 0})
/// ```
///
/// The result has the members `status` and `iterations`.
///
/// # Example
/// ```c
/// int64_t iterations = 0;
/// status = rrb_solve_once(nx, ny, center, east, north, NULL, NULL, b, x, 1e-8, 200, &iterations);
/// ```
///
/// # Safety
/// The requirements are those of `rrb_factorize` and `rrb_solve`. `iterations` must be NULL or point to an `int64_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_solve_once(
    nx: i64,
    ny: i64,
    center: *const f64,
    east: *const f64,
    north: *const f64,
    northeast: *const f64,
    northwest: *const f64,
    b: *const f64,
    x: *mut f64,
    rel_tol: f64,
    max_iter: i64,
    iterations: *mut i64,
) -> rrb_status {
    let corners = [("northeast", northeast), ("northwest", northwest)].into_iter().filter(|c| !c.1.is_null());
    let matrix = [("center", center), ("east", east), ("north", north)].into_iter().chain(corners);
    let arguments = SolveOnceArguments { b, x, rel_tol, max_iter, iterations };
    // SAFETY: guaranteed by the caller.
    let factorize = |h: &mut Handle<rrb_handle>| unsafe { h.factorize([center, east, north, northeast, northwest]) };
    // SAFETY: guaranteed by the caller; the documentation states the sizes.
    unsafe { solve_once(|| new_handle(nx, ny), matrix, arguments, factorize) }
}

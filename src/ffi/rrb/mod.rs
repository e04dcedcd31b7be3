//! Family `rrb_`: 2D 5- and 9-point symmetric stencils.
//!
//! Arrays are `a[j * ld + i]`, i = 0 .. nx - 1 fastest: Fortran's `a(nx, ny)`. `east[i, j]` is the matrix entry
//! between (i, j) and (i + 1, j), and so on. Pointers are borrowed for the call only.

mod boxes;
mod distributed;
mod handle;

pub use boxes::call_box;
pub use distributed::*;
pub use handle::*;

use crate::ffi::handle::{create, with_ok};
use crate::ffi::ranks::Function;
use crate::ffi::rrb_status;
use crate::ffi::system::{Task, run, solve, solve_once};
use crate::solver::rrb::Rrb;

/// Creates a solver for symmetric matrices with a 5-point or 9-point stencil on nx x ny nodes.
///
/// The handle has the default options; the environment variable `RRBSOLVER_OPTIONS` overrides them. `rrb_factorize`
/// allocates the memory for the matrix. `rrb_destroy` frees the handle.
///
/// # Parameters
/// - `nx`, `ny` (in): nodes in x and y; each at least 1, and nx * ny at most 2^32 - 1.
/// - `out` (out): the new handle; unchanged after an error.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `out` is NULL.
/// - `RRB_ERR_DIMENSION`: an extent is below 1, or nx * ny is above 2^32 - 1.
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
    // SAFETY: as our caller promised.
    unsafe { create(out, || rrb_handle::new(nx, ny)) }
}

/// Copies the coefficients of A and computes the preconditioner M.
///
/// With `cycle` v, amli or k, M = L D L^T = A - R is the incomplete RRB factorization. With `cycle=aggregation`, M is
/// aggregation-based multigrid. The sign convention is that of -div(k grad u): `center` is positive, and couplings are
/// normally negative.
///
/// After success, the handle holds the new matrix. After an error, it holds no matrix. A second call with a similar
/// matrix reuses all memory.
///
/// # Parameters
/// - `h` (in/out): handle from `rrb_create` or `rrb_create_distributed`.
/// - `center` (in): diagonal of A, positive.
/// - `east` (in): entries between (i, j) and (i+1, j).
/// - `north` (in): entries between (i, j) and (i, j+1).
/// - `northeast` (in): entries between (i, j) and (i+1, j+1); NULL with 5 points.
/// - `northwest` (in): entries between (i, j) and (i-1, j+1); NULL with 5 points.
///
/// Each array holds (ny - 1) * ld + nx values, on the host or on the handle's device. Padding is not read. Couplings to
/// nodes outside the grid are ignored; `check_input` selects whether nonzero ones are logged or are an error.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or a required array is NULL, or exactly one of `northeast` and `northwest` is NULL.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that `memory` specifies.
/// - `RRB_ERR_ARGUMENT`: `cycle_spacing` is odd, or one recursive cycle would cost more than 100 V-cycles.
/// - `RRB_ERR_ARGUMENT`: with `check_input=2`, a coupling to a node outside the grid is not zero.
/// - `RRB_ERR_DIMENSION`: the leading dimension makes the length of an array overflow.
/// - `RRB_ERR_UNSUPPORTED`: `cycle=k` on a device; `cycle=aggregation` with `precision` bf16 or mixed, or with `backend=reference`.
/// - `RRB_ERR_UNSUPPORTED`: `null_space=constant`, and a component is regular.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` without a device; `backend=cuda` in a build without kernels; or the handle was created before a fork.
/// - `RRB_ERR_MATRIX`: a center or a pivot is not positive, or a pivot underflows in the selected `precision`.
/// - `RRB_ERR_NOT_FINITE`: an array holds NaN or infinity (with `check_input`).
/// - `RRB_ERR_MEMORY`: allocation failed, or the exact factor needs more than `coarse_memory`.
/// - `RRB_ERR_NO_DEVICE`: with `backend=cuda`, there is no driver or device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_COMMUNICATION`: another rank is missing or late; for handles of `rrb_create_distributed` only.
///
/// # Notes
/// - The choices of `precision=auto` and `cycle=auto` depend on the matrix; see the [rules of auto](auto.md).
///   `RRB_INFO_PRECISION` and `RRB_INFO_CYCLE` report them.
/// - Choices that `auto` made after a failed or slow attempt also apply to later matrices, until an option that affects
///   them changes.
/// - The cost is about 40 flops per node. `cycle=amli` adds 6 to 16 applications of M on coarse grids, which have at
///   most 1/16 of the nodes.
/// - A second call allocates memory only if it needs another precision or cycle, or if the matrix has more connected
///   components than before.
/// - With `cycle=aggregation`, the CPU reuses those aggregates of the previous matrix that still pass the quality test.
/// - On a distributed handle the call is collective. A rank with one box passes the arrays of that box.
/// - Source: M. de Jong, C. Vuik, report 16-06, Delft University of Technology, 2016, section 2.2.
///
/// # Fortran
/// `call solver%factorize(center, east, north [, northeast, northwest] [, stat] [, errmsg])`
///
/// The arrays have the shape (ld, ny) and are contiguous.
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
/// `h` must be NULL or come from `rrb_create` or `rrb_create_distributed`; the arrays must be NULL or have the size
/// named.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_factorize(
    h: *mut rrb_handle,
    center: *const f64,
    east: *const f64,
    north: *const f64,
    northeast: *const f64,
    northwest: *const f64,
) -> rrb_status {
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { with_ok(h, |h| h.factorize([center, east, north, northeast, northwest])) }
}

/// Solves A x = b by conjugate gradients with the preconditioner M.
///
/// The iteration stops when norm(b - A x) <= max(rel_tol * reference, abs_tol). The options `norm` and `reference`
/// define the norm and the reference. `x` and the stopping test are in double precision, regardless of the option
/// `precision`.
///
/// # Parameters
/// - `h` (in/out): handle with a factorized matrix.
/// - `b` (in): right-hand side; (ny - 1) * ld + nx values, on the host or on the handle's device.
/// - `x` (in/out): initial guess on entry, solution on return; same size as `b`; must not overlap it.
///
/// # Returns
/// - `RRB_OK`: the solve has converged. With b = 0 (then x = 0), or if the initial guess satisfies the test, it ends
///   after 0 iterations.
/// - `RRB_NOT_CONVERGED`: the iteration limit is reached, or the iteration stagnated; x is the last iterate or a better
///   one. `RRB_INFO_STOP_REASON` reports the reason.
/// - `RRB_STOPPED`: the monitor stopped the solve; x is the current iterate.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or an array is NULL.
/// - `RRB_ERR_ARGUMENT`: the arrays overlap, an array is not 8-byte aligned, or it is not in the memory space that
///   `memory` specifies.
/// - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts at factorize has changed.
/// - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
/// - `RRB_ERR_ARGUMENT`: max abs(x) of the guess is above 1e150 * max abs(b) / max abs(center).
/// - `RRB_ERR_NOT_FINITE`: b or x holds NaN or infinity, or the solution is too large for a double.
/// - `RRB_ERR_RANGE`: the solution is so small that it would underflow.
/// - `RRB_ERR_BREAKDOWN`: the matrix or the preconditioner is indefinite, or the iteration overflowed.
/// - `RRB_ERR_INCOMPATIBLE`: with `check_compatibility=1`, b has a component in the null space.
/// - `RRB_ERR_MEMORY`: allocation failed on a device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_COMMUNICATION`: another rank is missing or late; for handles of `rrb_create_distributed` only.
///
/// After an error x is unchanged, except after `RRB_ERR_DEVICE`.
///
/// # Notes
/// - On a singular component, the mean of b is subtracted, and x has the mean of the initial guess.
/// - With `precision` f32, bf16 or mixed, an initial guess with max |x| > 1e15 max |b| / max center is replaced with
///   zero.
/// - If the cycle that `cycle=auto` selected is indefinite, this solve and later ones use v, until the next
///   `rrb_factorize`.
/// - With `cycle=auto`, a slow solve may switch to aggregation, which allocates memory; see the [rules of
///   auto](auto.md). `switch_memory` limits this memory. `switch_memory=0` prevents the switch.
/// - With an explicit `cycle` or `switch_memory=0`, a solve on the CPU allocates no memory and starts no thread.
/// - On a distributed handle with `precision=auto`, a solve that stagnates with mixed factorizes again with bf16 and continues.
/// - On a device, the first call with pageable host arrays allocates page-locked buffers and starts threads.
/// - With five points and fused stages, an iteration reads and writes 48 to 122 bytes of memory per unknown, depending
///   on `cycle` and `precision`.
/// - On a distributed handle the call is collective.
/// - Source: M. de Jong, C. Vuik, report 16-06, Delft University of Technology, 2016, algorithms 1 and 3.
///
/// # Fortran
/// `call solver%solve(b, x [, stat] [, errmsg])`
///
/// The arrays have the shape (ld, ny) and are contiguous.
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
/// `h` must be NULL or come from `rrb_create` or `rrb_create_distributed`; the arrays must be NULL or hold the values
/// named.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_solve(h: *mut rrb_handle, b: *const f64, x: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    if unsafe { is_distributed(h) } {
        // SAFETY: as our caller promised; the size is that of the doc of `rrb_create_distributed`.
        return unsafe { call_box(h, Function::Solve, ("b", b), ("x", x)) };
    }
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { solve(h, ("b", b), ("x", x), Rrb::solve) }
}

/// Computes z = M^-1 r with the preconditioner M.
///
/// M is symmetric and positive definite. On singular components, the means of r and z are subtracted; M^-1 is then
/// positive definite on the complement of the null space.
///
/// # Parameters
/// - `h` (in/out): handle with a factorized matrix.
/// - `r` (in): (ny - 1) * ld + nx values, on the host or on the handle's device.
/// - `z` (out): same size as `r`; must not overlap it.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or an array is NULL.
/// - `RRB_ERR_ARGUMENT`: the arrays overlap, an array is not 8-byte aligned, or it is not in the memory space that
///   `memory` specifies.
/// - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts at factorize has changed.
/// - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
/// - `RRB_ERR_NOT_FINITE`: r holds NaN or infinity, or z is too large for a double.
/// - `RRB_ERR_RANGE`: z is so small that it would underflow.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_COMMUNICATION`: another rank is missing or late; for handles of `rrb_create_distributed` only.
///
/// After an error z is unchanged.
///
/// # Notes
/// - With `cycle` v, amli or aggregation, M is a fixed matrix up to rounding. With `cycle=k`, z is not a linear
///   function of r: use a flexible Krylov method.
/// - With `precision=f64` the result has double precision, else single precision.
/// - On a distributed handle the call is collective.
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
/// As for `rrb_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_apply(h: *mut rrb_handle, r: *const f64, z: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    if unsafe { is_distributed(h) } {
        // SAFETY: as our caller promised; the size is that of the doc of `rrb_create_distributed`.
        return unsafe { call_box(h, Function::Apply, ("r", r), ("z", z)) };
    }
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { run(h, ("r", r), ("z", z), Rrb::apply) }
}

/// Computes y = A x with the factorized matrix.
///
/// # Parameters
/// - `h` (in/out): handle with a factorized matrix.
/// - `x` (in): (ny - 1) * ld + nx values, on the host or on the handle's device.
/// - `y` (out): same size as `x`; must not overlap it.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or an array is NULL.
/// - `RRB_ERR_ARGUMENT`: the arrays overlap, an array is not 8-byte aligned, or it is not in the memory space that
///   `memory` specifies.
/// - `RRB_ERR_STATE`: the handle holds no matrix, or an option that acts at factorize has changed.
/// - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
/// - `RRB_ERR_NOT_FINITE`: x holds NaN or infinity (with `check_input`), or y is too large for a double.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_COMMUNICATION`: another rank is missing or late; for handles of `rrb_create_distributed` only.
///
/// After an error y is unchanged.
///
/// # Notes
/// - The product is computed in double precision, regardless of the option `precision`.
/// - On a distributed handle the call is collective.
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
/// As for `rrb_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_multiply(h: *mut rrb_handle, x: *const f64, y: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    if unsafe { is_distributed(h) } {
        // SAFETY: as our caller promised; the size is that of the doc of `rrb_create_distributed`.
        return unsafe { call_box(h, Function::Multiply, ("x", x), ("y", y)) };
    }
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { run(h, ("x", x), ("y", y), Rrb::multiply) }
}

/// Solves one system A x = b without a handle.
///
/// The function replaces a call to an ICCG routine. It creates a handle, factorizes, solves and frees the handle. If
/// you solve repeatedly on the same grid, use a handle: it reuses memory and the factorization.
///
/// # Parameters
/// - `nx`, `ny` (in): nodes in x and y, as for `rrb_create`.
/// - `center`, `east`, `north` (in): coefficients, as for `rrb_factorize`, with ld = nx.
/// - `northeast`, `northwest` (in): the same for 9 points; NULL with 5 points.
/// - `b` (in): right-hand side, nx * ny values.
/// - `x` (in/out): initial guess on entry, solution on return; must not overlap another array.
/// - `rel_tol` (in): tolerance relative to ||b||_2, in (0, 1).
/// - `max_iter` (in): iteration limit, at least 0.
/// - `iterations` (out): number of iterations; may be NULL.
///
/// # Returns
/// `RRB_OK`, `RRB_NOT_CONVERGED` or `RRB_STOPPED`, as `rrb_solve`.
///
/// # Errors
/// - all errors of `rrb_create`, `rrb_factorize` and `rrb_solve`.
/// - `RRB_ERR_ARGUMENT`: also if `rel_tol` or `max_iter` is out of range.
///
/// After an error x is unchanged.
///
/// # Notes
/// The environment variable `RRBSOLVER_OPTIONS` overrides `rel_tol` and `max_iter`, and the defaults of all other
/// options.
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
/// As for `rrb_factorize` and `rrb_solve`; `iterations` must be NULL or point to an `int64_t`.
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
    let task = Task { b, x, rel_tol, max_iter, iterations };
    // SAFETY: as our caller promised.
    let factorize = |h: &mut rrb_handle| unsafe { h.factorize([center, east, north, northeast, northwest]) };
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { solve_once(|| rrb_handle::new(nx, ny), matrix, task, factorize, Rrb::solve) }
}

/// Whether the domain of a handle lies on several ranks.
///
/// # Safety
/// `h` must be NULL or a live handle of this thread.
unsafe fn is_distributed(h: *const rrb_handle) -> bool {
    // SAFETY: as our caller promised.
    unsafe { h.as_ref() }.is_some_and(|h| h.ranks.is_some())
}

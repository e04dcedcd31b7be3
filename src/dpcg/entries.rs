//! Family `dpcg_`: symmetric matrices with a 7-point stencil in 3D.
//!
//! Entry (i, j, k) of an array is `a[k * lp + j * ld + i]`, which is Fortran's `a(nx, ny, nz)`. `east[i, j, k]` is the
//! matrix entry that couples (i, j, k) to (i + 1, j, k); north and top are analogous. Pointers are borrowed only for
//! the duration of the call.

use crate::abi::handle::{Family, Handle, create, with_handle_ok};
use crate::abi::rrb_status;
use crate::abi::shape::{Layout, Shape};
use crate::abi::spaces::{check_array, check_on_host};
use crate::abi::system::{ArrayLocation, SolveOnceArguments, SolverFamily, call, solve_once};
use crate::base::heap::boxed;
use crate::base::machine::Machine;
use crate::dpcg::backend::DpcgBackend;
use crate::dpcg::{Dpcg, choose_machine};
use crate::error::{Error, Location, RRB_ERR_ARGUMENT, Result, reserve};
use crate::krylov::solve::Function;
use crate::krylov::solve_steps::Arrays;
use crate::options::{self, Backend, Options};
use crate::report::{Observer, Outcome};
use crate::stencil::cells::{CellValues, CellView, Cells};

/// Handle of a solver for 3D systems with a 7-point stencil. The handle contains the options, the deflation regions,
/// the factorization and the workspace. Only one thread at a time may use a handle.
#[allow(non_camel_case_types)]
pub struct dpcg_handle(());

impl Family for dpcg_handle {
    const FAMILY: options::Family = options::Family::Dpcg;
    type Core = Dpcg;
    /// The label of each cell; empty if the caller set none.
    type FamilyParts = Vec<i32>;

    fn bytes(labels: &Vec<i32>) -> [usize; 2] {
        [labels.capacity() * size_of::<i32>(), 0]
    }
}

impl SolverFamily for dpcg_handle {
    fn run(
        core: &mut Dpcg,
        _: &Vec<i32>,
        function: Function,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        core.run_function(function, arrays, options, observer)
    }
}

/// Creates a solver for symmetric matrices with a 7-point stencil on nx x ny x nz cells.
///
/// The handle has the default options; the environment variable `RRBSOLVER_OPTIONS` overrides these defaults.
/// `dpcg_factorize` allocates the memory for the matrix. `dpcg_destroy` frees the handle.
///
/// # Parameters
/// - `nx`, `ny`, `nz` (in): numbers of cells in x, y and z. Each must be at least 1, and nx * ny * nz must be at most
///   2^32 - 1.
/// - `out` (out): the new handle; unchanged after an error.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `out` is NULL.
/// - `RRB_ERR_DIMENSION`: `nx`, `ny` or `nz` is below 1, or nx * ny * nz is above 2^32 - 1.
/// - `RRB_ERR_MEMORY`: allocation failed.
///
/// # Notes
/// - One process solves the whole system, because `dpcg_` does not run over several MPI ranks. If the matrix is
///   distributed, gather it on one rank.
/// - Periodic boundaries are not supported. The solver ignores the couplings of the last cell in each direction to
///   cells outside the grid.
///
/// # Fortran
/// `call solver%create(nx, ny, nz [, stat] [, errmsg])`
///
/// The variable is `type(dpcg_solver) :: solver`.
///
/// # C++
/// `rrbsolver::dpcg::dpcg(std::int64_t nx, std::int64_t ny, std::int64_t nz)`
///
/// # Example
/// ```c
/// dpcg_handle *pressure = NULL;
/// status = dpcg_create(nx, ny, nz, &pressure);
/// if (status == RRB_OK) {
///     status = dpcg_set_options(pressure, "rel_tol=1e-8 max_iter=200");
/// }
/// dpcg_destroy(&pressure);
/// ```
///
/// # Safety
/// `out` must be NULL or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_create(nx: i64, ny: i64, nz: i64, out: *mut *mut dpcg_handle) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { create(out, || new_handle(nx, ny, nz)) }
}

/// Sets the deflation regions of `deflation=levelset` and `deflation=levelset_subdomain` by one label per cell.
///
/// Cells with the same label form one region, such as one bubble. Each region has one deflation vector. The call copies
/// the labels, and the next `dpcg_factorize` uses the labels. Before this factorization, `dpcg_solve` returns
/// `RRB_ERR_STATE`. Without labels, `dpcg_factorize` determines the regions from the strong couplings of the matrix.
///
/// # Parameters
/// - `h` (in/out): handle from `dpcg_create`.
/// - `labels` (in): label of each cell, in the same layout as the arrays of `dpcg_factorize`. The array must be in host
///   memory. A label is the number of a region, counted from 0; -1 marks a cell outside all regions. NULL removes the
///   regions.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL.
/// - `RRB_ERR_ARGUMENT`: a label is below -1; or `labels` is not 4-byte aligned; or `labels` is in device memory.
/// - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of the array overflows.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_MEMORY`: allocation of the copy of the labels failed.
/// - `RRB_ERR_DEVICE`: the CUDA driver could not locate `labels`.
///
/// After an error the regions are unchanged.
///
/// # Notes
/// - Labels need not be consecutive. `dpcg_factorize` splits a region that extends over several connected components of
///   the matrix.
/// - The call does not read the padding between rows and planes.
/// - If there are more than 65,535 regions, `dpcg_factorize` returns `RRB_ERR_ARGUMENT`. With `deflation=none` or
///   `deflation=subdomain`, `dpcg_factorize` ignores the labels.
///
/// # Fortran
/// `call solver%set_regions([labels] [, stat] [, errmsg])`
///
/// The array is `integer(c_int32_t) :: labels(nx, ny, nz)`. Pass `stat` by keyword.
///
/// # C++
/// `void rrbsolver::dpcg::set_regions(view<const std::int32_t> labels)`
///
/// A call without an argument removes the regions.
///
/// # Example
/// ```c
/// int32_t *labels = malloc((size_t)(nx * ny * nz) * sizeof *labels);
/// for (int64_t k = 0; k < nz; k++)
///     for (int64_t j = 0; j < ny; j++)
///         for (int64_t i = 0; i < nx; i++)
///             labels[(k * ny + j) * nx + i] = i < 2 && j < 2 && k < 2 ? 0 : -1; // one bubble in a corner
/// status = dpcg_set_regions(solver, labels);
/// if (status == RRB_OK) {
///     status = dpcg_factorize(solver, center, east, north, top);
/// }
/// free(labels);
/// ```
///
/// # Safety
/// `h` must be NULL or come from `dpcg_create`. `labels` must be NULL or have the size of the arrays of
/// `dpcg_factorize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_set_regions(h: *mut dpcg_handle, labels: *const i32) -> rrb_status {
    // SAFETY: guaranteed by the caller; the documentation states the sizes.
    unsafe { with_handle_ok(h, |h| h.set_regions(labels)) }
}

/// Copies the coefficients of A and computes the preconditioner M, the deflation vectors Z and the coarse matrix E =
/// Z^T A Z.
///
/// The sign convention is that of -div(k grad x): `center` is positive, and couplings are normally negative. For a
/// Neumann problem, the center is minus the sum of the six couplings of the cell. A second call replaces the matrix and
/// reuses the memory of the first call. After an error the handle holds no matrix.
///
/// # Parameters
/// - `h` (in/out): handle from `dpcg_create`.
/// - `center` (in): diagonal entry of cell (i, j, k), which must be positive.
/// - `east` (in): matrix entry that couples the cells (i, j, k) and (i + 1, j, k).
/// - `north` (in): matrix entry that couples the cells (i, j, k) and (i, j + 1, k).
/// - `top` (in): matrix entry that couples the cells (i, j, k) and (i, j, k + 1).
///
/// Entry (i, j, k) of an array `a` is `a[k*lp + j*ld + i]`. The option `leading_dimension` sets ld; the default is nx.
/// The option `leading_plane` sets lp; the default is ny * ld.
///
/// Each array has (nz - 1) * lp + (ny - 1) * ld + nx values. The arrays are in host memory or in the memory of the
/// handle's device.
///
/// All four arrays are required, even if nz = 1. The call does not read the padding between rows and planes.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or an array is NULL.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
///   specifies.
/// - `RRB_ERR_ARGUMENT`: `subdomains_x` is greater than nx, `subdomains_y` is greater than ny, or `subdomains_z` is
///   greater than nz.
/// - `RRB_ERR_ARGUMENT`: there are more than 65,535 deflation regions.
/// - `RRB_ERR_ARGUMENT`: `check_input=2` is set, and a coupling to a cell outside the grid is not zero.
/// - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of an array overflows.
/// - `RRB_ERR_DIMENSION`: the solver runs on a device, but the grid has more than 2^31 cells in total, or more than
///   2^31 - 1 cells in one direction.
/// - `RRB_ERR_MATRIX`: a center is not positive, or is below the smallest positive normal double. If all centers are
///   negative, the message suggests that the arrays may hold -A and -b.
/// - `RRB_ERR_MATRIX`: a pivot is not positive in the ic0 or ric factorization, or in the factorization of E or of the
///   coarsest-grid matrix. With `ric_omega=1`, every singular matrix has a pivot that is not positive.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and a coefficient is NaN or infinite.
/// - `RRB_ERR_UNSUPPORTED`: the solver runs on a device, but `preconditioner=ic0`, `preconditioner=ric` or
///   `coarse_solver=cg` is set.
/// - `RRB_ERR_UNSUPPORTED`: `preconditioner=amg` is set together with `backend=reference`.
/// - `RRB_ERR_UNSUPPORTED`: `preconditioner=amg` is set, but there are too many cells for 32-bit indices.
/// - `RRB_ERR_UNSUPPORTED`: `null_space=constant` is set, but the row sums of the matrix are not zero.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
/// - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the library was built without CUDA kernels.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
/// - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Notes
/// - Positive couplings are accepted. If the caller passes couplings with the wrong sign, the library therefore reports
///   no error, and `dpcg_solve` computes a wrong solution.
/// - Couplings to cells outside the grid are ignored. If a coupling of this kind is a nonzero number, the library
///   writes one log line per handle.
/// - To exclude a solid cell, pass zero couplings and a positive center for this cell.
/// - If all boundaries have Neumann conditions, the matrix is singular. The option `null_space` determines which
///   connected components of the matrix are treated as singular.
/// - The values that `auto` selects depend on the matrix, the options and the machine, but not on measured times.
///   `RRB_INFO_PRECONDITIONER`, `RRB_INFO_DEFLATION`, `RRB_INFO_COARSENING` and `RRB_INFO_COARSE_SOLVER` report the
///   selected values. `RRB_INFO_AUTO_REASON` reports the reason for the selection.
/// - Sources: Tang, Nabben, Vuik and Erlangga, J. Sci. Comput. 39 (2009), 340-370 (deflated CG); van der Vorst, SIAM J.
///   Sci. Stat. Comput. 3 (1982), 350-356 (Neumann series).
/// - Sources: Dendy, J. Comput. Phys. 48 (1982), 366-386 (multigrid); Napov and Notay, SIAM J. Sci. Comput. 34 (2012),
///   A1079-A1109 (amg).
///
/// # Fortran
/// `call solver%factorize(center, east, north, top [, stat] [, errmsg])`
///
/// All arrays have the shape (nx, ny, nz).
///
/// # C++
/// `void rrbsolver::dpcg::factorize(input center, input east, input north, input top)`
///
/// # Example
/// ```c
/// // The interface has moved: new coefficients, the same handle.
/// status = dpcg_factorize(solver, center, east, north, top);
/// if (status < 0) {
///     char message[256];
///     rrbsolver_last_error(message, sizeof message);
///     fprintf(stderr, "%s\n", message);
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or come from `dpcg_create`. Each array must be NULL or have the size given above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_factorize(
    h: *mut dpcg_handle,
    center: *const f64,
    east: *const f64,
    north: *const f64,
    top: *const f64,
) -> rrb_status {
    // SAFETY: guaranteed by the caller; the documentation states the sizes.
    unsafe { with_handle_ok(h, |h| h.factorize(center, [east, north, top])) }
}

/// Solves A x = b by deflated preconditioned conjugate gradients.
///
/// The solve stops when norm(b - A x) <= max(rel_tol * reference, abs_tol). The options `norm` and `reference` select
/// the norm and the reference value. With the default `norm=true2`, A is the caller's matrix, not the deflated matrix.
///
/// The residual is recomputed from x before convergence is reported. For b = 0, the result is x = 0. If the initial
/// guess satisfies the stopping test, the call returns the guess after 0 iterations.
///
/// # Parameters
/// - `h` (in/out): handle with a matrix from `dpcg_factorize`.
/// - `b` (in): right-hand side, with the sign of -div(k grad x) = b.
/// - `x` (in/out): initial guess on entry, solution on return; must not overlap `b`.
///
/// Both arrays have the layout described at `dpcg_factorize`. They are in host memory or in the memory of the handle's
/// device.
///
/// # Returns
/// - `RRB_OK`: the solve has converged.
/// - `RRB_NOT_CONVERGED`: the solve reached the limit `max_iter`, or it stagnated. `x` is the last iterate, or an
///   earlier iterate with a smaller residual.
/// - `RRB_STOPPED`: the monitor stopped the solve; `x` is the current iterate.
///
/// After `RRB_NOT_CONVERGED` and `RRB_STOPPED`, the message of `rrbsolver_last_error` contains the number of
/// iterations, the residual, the tolerance and the stop reason. `RRB_INFO_ITERATIONS`, `RRB_INFO_STOP_REASON` and
/// `RRB_INFO_FINAL_RESIDUAL` return the number of iterations, the stop reason and the residual as numbers.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, `b` or `x` is NULL.
/// - `RRB_ERR_ARGUMENT`: `b` and `x` overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
///   specifies.
/// - `RRB_ERR_ARGUMENT`: the initial guess x is so large that max abs(x) is above 1e150 * max abs(b) / max abs(center).
/// - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of an array overflows.
/// - `RRB_ERR_STATE`: `dpcg_factorize` has not succeeded since the last change of the regions or of an option that acts
///   "at factorize".
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `b` or `x` contains NaN or infinity.
/// - `RRB_ERR_NOT_FINITE`: the solution is too large for a double.
/// - `RRB_ERR_RANGE`: the values of the solution are so small that they underflow.
/// - `RRB_ERR_BREAKDOWN`: A or M is indefinite, or the iteration overflowed.
/// - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and `b` contains NaN or infinity.
/// - `RRB_ERR_INCOMPATIBLE`: `check_compatibility=1` is set, and `b` does not sum to zero over a singular component.
/// - `RRB_ERR_MEMORY`: allocation of transfer buffers failed. This error occurs only if the solver runs on a device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// After an error `x` is unchanged.
///
/// # Notes
/// - On each singular component, the solver subtracts the mean of b from b. On this component, the solution has the
///   same mean as the initial guess.
/// - `x` and the stopping test are in double precision, regardless of the option `precision`.
/// - On the CPU, the call allocates no memory and starts no thread. On a device, the first solve with pageable host
///   arrays allocates page-locked buffers. This solve also starts threads that copy the arrays to and from these
///   buffers.
/// - Source: Tang, Nabben, Vuik and Erlangga, J. Sci. Comput. 39 (2009), 340-370.
///
/// # Fortran
/// `call solver%solve(b, x [, stat] [, errmsg])`
///
/// # C++
/// `rrb_status rrbsolver::dpcg::solve(input b, output x)`
///
/// # Example
/// ```c
/// status = dpcg_solve(solver, b, x);
/// if (status != RRB_OK) {
///     char message[256];
///     rrbsolver_last_error(message, sizeof message);
///     fprintf(stderr, "%s\n", message);
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or come from `dpcg_create`. The arrays must be NULL or hold (nz - 1) * lp + (ny - 1) * ld + nx
/// values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_solve(h: *mut dpcg_handle, b: *const f64, x: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller; the documentation states the sizes.
    unsafe { call(h, Function::Solve, ("b", b), ("x", x)) }
}

/// Computes z = M^-1 r or, with deflation, z = (P^T M^-1 P + Z E^-1 Z^T) r, for a Krylov method of the caller.
///
/// The projection is P = I - A Z E^-1 Z^T. The operator that maps r to z is fixed, symmetric and positive definite,
/// except with `preconditioner=amg` on the CPU. These properties hold up to rounding errors in the selected
/// `precision`. With `coarse_solver=cg`, they hold up to errors of relative size `coarse_tol`.
///
/// With `preconditioner=amg` on the CPU, the operator depends on r. In this case, use the operator only in a flexible
/// Krylov method, such as flexible CG.
///
/// # Parameters
/// - `h` (in/out): handle with a matrix from `dpcg_factorize`.
/// - `r` (in): residual, in the layout described at `dpcg_factorize`.
/// - `z` (out): result, in the layout of `r`; must not overlap `r`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, `r` or `z` is NULL.
/// - `RRB_ERR_ARGUMENT`: `r` and `z` overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
///   specifies.
/// - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of an array overflows.
/// - `RRB_ERR_STATE`: `dpcg_factorize` has not succeeded since the last change of the regions or of an option that acts
///   "at factorize".
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `r` contains NaN or infinity.
/// - `RRB_ERR_NOT_FINITE`: `z` is too large for a double.
/// - `RRB_ERR_RANGE`: the values of `z` are so small that they underflow.
/// - `RRB_ERR_BREAKDOWN`: `check_input=0` is set, and `r` contains NaN or infinity.
/// - `RRB_ERR_MEMORY`, `RRB_ERR_DEVICE`: these errors occur under the same conditions as in `dpcg_solve`.
///
/// After an error `z` is unchanged.
///
/// # Notes
/// If the matrix has singular components, the call subtracts the means of r and z on each of these components. In this
/// case, the operator is positive definite on the complement of the null space.
///
/// # Fortran
/// `call solver%apply(r, z [, stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::dpcg::apply(input r, output z)`
///
/// # Example
/// ```c
/// status = dpcg_apply(solver, r, z); // z = M^-1 r
/// ```
///
/// # Safety
/// The requirements are those of `dpcg_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_apply(h: *mut dpcg_handle, r: *const f64, z: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller; the documentation states the sizes.
    unsafe { call(h, Function::Apply, ("r", r), ("z", z)) }
}

/// Computes y = A x with the matrix of the last `dpcg_factorize`, without deflation.
///
/// # Parameters
/// - `h` (in/out): handle with a matrix from `dpcg_factorize`.
/// - `x` (in): vector to multiply, in the layout described at `dpcg_factorize`.
/// - `y` (out): product, in the layout of `x`; must not overlap `x`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, `x` or `y` is NULL.
/// - `RRB_ERR_ARGUMENT`: `x` and `y` overlap.
/// - `RRB_ERR_ARGUMENT`: an array is not 8-byte aligned, or is not in the memory space that the option `memory`
///   specifies.
/// - `RRB_ERR_DIMENSION`: `leading_dimension` or `leading_plane` is so large that the length of an array overflows.
/// - `RRB_ERR_STATE`: `dpcg_factorize` has not succeeded since the last change of the regions or of an option that acts
///   "at factorize".
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the solver runs on the CPU.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and `x` contains NaN or infinity.
/// - `RRB_ERR_NOT_FINITE`: `y` is too large for a double.
/// - `RRB_ERR_MEMORY`, `RRB_ERR_DEVICE`: these errors occur under the same conditions as in `dpcg_solve`.
///
/// After an error `y` is unchanged.
///
/// # Fortran
/// `call solver%multiply(x, y [, stat] [, errmsg])`
///
/// # C++
/// `void rrbsolver::dpcg::multiply(input x, output y)`
///
/// # Example
/// ```c
/// status = dpcg_multiply(solver, x, y); // y = A x
/// ```
///
/// # Safety
/// The requirements are those of `dpcg_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_multiply(h: *mut dpcg_handle, x: *const f64, y: *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller; the documentation states the sizes.
    unsafe { call(h, Function::Multiply, ("x", x), ("y", y)) }
}

/// Solves one system A x = b without a handle.
///
/// The function can replace a call to an ICCG routine in an existing program. It creates a handle, factorizes the
/// matrix, solves the system and frees the handle. If you solve repeatedly on the same grid, use a handle, because a
/// handle reuses the memory, the threads and the factorization.
///
/// # Parameters
/// - `nx`, `ny`, `nz` (in): numbers of cells in x, y and z, as for `dpcg_create`.
/// - `center`, `east`, `north`, `top` (in): coefficients, as for `dpcg_factorize`. The arrays have no padding: entry
///   (i, j, k) is `a[(k * ny + j) * nx + i]`.
/// - `b` (in): right-hand side, an array without padding.
/// - `x` (in/out): initial guess on entry, solution on return. The array has no padding and must not overlap another
///   array.
/// - `rel_tol` (in): relative tolerance in (0, 1): the solve stops when norm(b - A x) <= rel_tol * norm(b).
/// - `max_iter` (in): iteration limit, in [0, 2147483647].
/// - `iterations` (out): number of iterations; unchanged after an error. The pointer may be NULL.
///
/// # Returns
/// `RRB_OK` or `RRB_NOT_CONVERGED`, with the same meaning as for `dpcg_solve`.
///
/// # Errors
/// - `RRB_ERR_ARGUMENT`: `rel_tol` or `max_iter` is out of range, or `x` overlaps another array.
/// - all errors of `dpcg_create`, `dpcg_factorize` and `dpcg_solve`, except `RRB_ERR_STATE`.
///
/// After an error `x` is unchanged.
///
/// # Notes
/// The environment variable `RRBSOLVER_OPTIONS` overrides the arguments `rel_tol` and `max_iter`. It also overrides the
/// defaults of all other options.
///
/// # Fortran
/// `call dpcg_solve_once(center, east, north, top, b, x, rel_tol, max_iter, iterations [, stat] [, errmsg])`
///
/// # C++
/// `once rrbsolver::solve_once(std::int64_t nx, std::int64_t ny, std::int64_t nz, input center, input east, input
/// north, input top, input b, output x, double rel_tol, std::int64_t max_iter)`
///
/// # Example
/// ```c
/// int64_t iterations = 0;
/// status = dpcg_solve_once(nx, ny, nz, center, east, north, top, b, x, 1e-8, 200, &iterations);
/// printf("status %d\n", status);
/// ```
///
/// # Safety
/// The requirements are those of `dpcg_factorize` and `dpcg_solve`. `iterations` must be NULL or point to an `int64_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dpcg_solve_once(
    nx: i64,
    ny: i64,
    nz: i64,
    center: *const f64,
    east: *const f64,
    north: *const f64,
    top: *const f64,
    b: *const f64,
    x: *mut f64,
    rel_tol: f64,
    max_iter: i64,
    iterations: *mut i64,
) -> rrb_status {
    let matrix = [("center", center), ("east", east), ("north", north), ("top", top)];
    let arguments = SolveOnceArguments { b, x, rel_tol, max_iter, iterations };
    // SAFETY: guaranteed by the caller.
    let factorize = |h: &mut Handle<dpcg_handle>| unsafe { h.factorize(center, [east, north, top]) };
    // SAFETY: guaranteed by the caller; the documentation states the sizes.
    unsafe { solve_once(|| new_handle(nx, ny, nz), matrix, arguments, factorize) }
}

fn new_handle(nx: i64, ny: i64, nz: i64) -> Result<Handle<dpcg_handle>> {
    Handle::new(Shape::grid(&[("nx", nx), ("ny", ny), ("nz", nz)])?, Vec::new())
}

impl Handle<dpcg_handle> {
    /// # Safety
    /// `labels` must be NULL, or point to an array in the layout of this handle (`Layout`).
    unsafe fn set_regions(&mut self, labels: *const i32) -> Result<()> {
        self.family_parts = if labels.is_null() {
            Vec::new()
        } else {
            let layout = self.base.layout()?;
            check_array("labels", labels)?;
            check_on_host("labels", labels as usize)?;
            // SAFETY: not NULL, aligned, not on a device; the caller guarantees the length.
            let caller_labels = unsafe { std::slice::from_raw_parts(labels, layout.len) };
            copy_labels(caller_labels, self.base.shape.cells, &layout)?
        };
        self.base.mark_data_set("regions");
        Ok(())
    }

    /// # Safety
    /// Each array must be NULL, or be in the layout of this handle (`Layout`).
    unsafe fn factorize(&mut self, center: *const f64, forward: [*const f64; 3]) -> Result<()> {
        let Self { base, family_parts } = self;
        base.begin_setup();
        let (cells, layout) = (base.shape.cells, base.layout()?);
        let Layout { ld, plane, .. } = layout;
        let machine = choose_machine(&base.options, cells, base.threads(), crate::cuda::driver::device_count());
        let locate_values = |name, array: *const f64| {
            // SAFETY: guaranteed by the caller.
            Ok(match unsafe { base.locate_input((name, array), &layout, machine)? } {
                ArrayLocation::Host(values) => CellValues::new(name, values, cells, ld, plane),
                ArrayLocation::Device(address) => CellValues::on_device(name, address, cells, ld, plane),
            })
        };
        let center = locate_values("center", center)?;
        let [east, north, top] = forward;
        let a = CellView {
            cells,
            center,
            forward: [locate_values("east", east)?, locate_values("north", north)?, locate_values("top", top)?],
        };
        let labels = (!family_parts.is_empty()).then_some(&family_parts[..]);
        let factorize = |previous, options: &_, stream| {
            Dpcg::factorize(previous, &a, labels, options, machine, stream, make_backend)
        };
        base.factorize(factorize, |core| core.find_outward_couplings(&a))?;
        if base.core.as_ref().is_some_and(|core| core.results.lacked_aggregation_memory) {
            base.log_line(0, format_args!("not enough memory for amg, the choice of auto: uses multigrid"));
        }
        Ok(())
    }
}

const LABELS_ALLOCATION: &str = "a copy of the labels";

/// Copies the labels of the cells, without padding.
fn copy_labels(caller_labels: &[i32], cells: Cells, layout: &Layout) -> Result<Vec<i32>> {
    let mut labels = Vec::new();
    reserve(&mut labels, cells.count(), LABELS_ALLOCATION)?;
    for k in 0..cells.nz {
        for j in 0..cells.ny {
            let row = &caller_labels[k * layout.plane + j * layout.ld..][..cells.nx];
            if let Some(i) = row.iter().position(|&label| label < -1) {
                let message_start = format!("labels must be -1 (no region) or at least 0, got {} at ", row[i]);
                return Err(Error::at(RRB_ERR_ARGUMENT, message_start, Location::point(i, j, k), ""));
            }
            labels.extend_from_slice(row);
        }
    }
    Ok(labels)
}

const BACKEND_ALLOCATION: &str = "a backend";

/// Creates the backend for a machine. No other function of this family names a concrete backend.
fn make_backend(machine: Machine) -> Result<Box<dyn DpcgBackend>> {
    Ok(match machine.backend {
        Backend::Cuda => boxed(crate::dpcg::cuda::Cuda::new(machine.device, machine.threads)?, BACKEND_ALLOCATION)?,
        // `backend=reference` is the CPU backend with one thread; `Plan::setup` disables its fused passes.
        Backend::Reference => boxed(crate::dpcg::cpu::Cpu::new(1), BACKEND_ALLOCATION)?,
        Backend::Cpu | Backend::Auto => boxed(crate::dpcg::cpu::Cpu::new(machine.threads), BACKEND_ALLOCATION)?,
    })
}

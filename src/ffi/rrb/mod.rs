//! Family `rrb_`: 2D 5- and 9-point symmetric stencils.
//!
//! Arrays are `a[j * ld + i]`, i = 0 .. nx - 1 fastest: Fortran's `a(nx, ny)`. `east[i, j]` is the matrix entry
//! between (i, j) and (i + 1, j), and so on. Pointers are borrowed for the call only.

mod distributed;
mod handle;

pub use distributed::*;
pub use handle::*;

use crate::ffi::handle::{create, with_ok};
use crate::ffi::ranks::Function;
use crate::ffi::rrb_status;
use crate::ffi::system::{Task, run, solve, solve_once};
use crate::solver::rrb::Rrb;

/// Makes a handle for matrices on nx x ny nodes, with the default options and those of `RRBSOLVER_OPTIONS`.
/// Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION`, `RRB_ERR_MEMORY`. Cost: none worth naming; memory for the
/// matrix is taken at `rrb_factorize`.
///
/// # Safety
/// `out` must be NULL or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_create(nx: i64, ny: i64, out: *mut *mut rrb_handle) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { create(out, || rrb_handle::new(nx, ny)) }
}

/// Copies the coefficients and factorizes M = L D L^T = A - R. With `northeast` and `northwest` NULL the stencil has 5
/// points. Entries that point outside the grid are ignored: where some are neither zero nor NaN, a log line says so,
/// once a handle, and `check_input=2` refuses them. Padding is not read. Host arrays of (ny - 1) * ld + nx values,
/// read. Afterwards, or after a failure, the handle holds the new matrix or none. M is stored in the format
/// `precision`, A in double precision. auto: bf16 from 16384 points on, where the centers differ by at most 1e6 and
/// `lumping` and `relaxation` are the defaults, else f64; and f64 where a pivot is lost in bf16. mixed: M in bf16 and,
/// where CG runs on 5 points of a regular system on the CPU, its vectors in single precision with residual replacement
/// in double; else, and on a device, taken as bf16. `cycle`: v applies the levels once, amli and k solve the coarse
/// systems by `cycle_steps` iterations every `cycle_spacing` levels. auto: amli where estimated eigenvalues say that
/// this pays, else v; v on fewer than 16384 points, on singular systems and with other `lumping` or `relaxation`. What
/// auto came to by trying, v or f64, holds for the matrices after it until an option of the choice changes: a new
/// handle tries again. aggregation: multigrid by aggregation in place of the levels, in f32 (auto) or f64; the options
/// of the levels have no effect beside it, which a log line says once; aggregates of the matrix before are kept where
/// each still does (`RRB_INFO_AGGREGATES_KEPT`; on the CPU), which takes two thirds of the time. A solve that turns out
/// slow with auto goes over to it (`rrb_solve`), and so do the matrices after it. `RRB_INFO_PRECISION` and
/// `RRB_INFO_CYCLE` tell what is in use. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (an array at no multiple of 8
/// bytes, odd `cycle_spacing`, recursions that take the work of more than 100 V-cycles, couplings out of the grid),
/// `RRB_ERR_UNSUPPORTED` (`cycle=k` on a device, aggregation with bf16, mixed or `backend=reference`, and what this
/// build lacks), `RRB_ERR_MATRIX` (also a pivot below the range of a `precision` asked for), `RRB_ERR_NOT_FINITE`,
/// `RRB_ERR_MEMORY`. Cost: about 40 flops a point; for amli besides 6 to 16 applications of M on coarse grids of a
/// sixteenth of the points and less. A second call reuses all memory, but where it needs another format or cycle (auto:
/// a singular matrix after a regular one, a contrast beyond 1e6) or knows more pieces of land and closed basins. Arrays
/// of two kinds stay; matrices of more kinds in turn take memory at each change. Where auto took amli and a matrix
/// comes for which it takes v, the levels and the exact factor of v are made anew, once. Source: report 16-06, section
/// 2.2.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`; the arrays must be NULL or have the size named.
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

/// Solves A x = b by RRB-PCG. `x` is the initial guess on entry and the solution on return; `b` is not written. Stops
/// when norm(b - A x) <= max(rel_tol * reference, abs_tol). b = 0 gives x = 0 at once; a guess that meets the test is
/// returned in 0 iterations. On singular components b is projected and x keeps the guess's mean. With M in single
/// precision or shorter a guess of max |x| > 1e15 max |b| / max center counts as zero. Returns `RRB_OK`,
/// `RRB_NOT_CONVERGED`, `RRB_STOPPED`; errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; an array at no multiple of
/// 8 bytes), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE` (an input, or x too large for a double), `RRB_ERR_RANGE` (x too
/// small), `RRB_ERR_BREAKDOWN`, `RRB_ERR_INCOMPATIBLE`, all with x as given. x and the test are in double precision
/// whatever `precision` is. Where a cycle that `cycle=auto` chose turns out to be indefinite, the solve goes on with v,
/// and so do later ones until the next `rrb_factorize`. Takes no memory and starts no thread, but where `cycle=auto`
/// turns out slow (`norm=true2`, `precision` auto, f64 or f32): from the 16th iteration on, on a device the 32nd, a
/// solve may go over to aggregation, where that promises less work, once as long as the options of the choice hold,
/// with about 150 bytes a point (400 with 9 points; 400 and 800 on a device) while it is made, if that is at most
/// `switch_memory`; and over many ranks, where `precision=auto` took mixed and conjugate gradients in single precision
/// stagnate: the solve then factorizes anew for those in double and goes on, as matrices to come are factorized until
/// an option of the choice changes. That takes the memory of a factorization and, on one rank alone, 24 bytes a point
/// meanwhile; where it is refused the solve ends as stagnated. On a device, pageable arrays of the host get buffers and
/// threads with the first solve that has them (docs/gpu.md). Cost of an iteration: 48 to 122 bytes of memory traffic
/// per unknown with 5 points and fused stages (docs/performance.md has the counts), two waits for all threads and two
/// per shared grid, more with recursion. Source: report 16-06, algorithms 1 and 3.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`; the arrays must be NULL or hold (ny - 1) * ld + nx values.
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

/// z = M^-1 r, for a foreign Krylov loop; symmetric and positive definite (on the complement of the null space where
/// singular: r and z are projected). With `cycle=v` and amli a fixed matrix, to the rounding of the sweeps: double
/// precision, and single with `precision` f32, bf16 or mixed; with aggregation too, whose coarse systems are solved
/// here with fixed coefficients. With `cycle=k` not linear in r: for flexible methods only. Errors: `RRB_ERR_NULL`,
/// `RRB_ERR_ARGUMENT` (as for `rrb_solve`), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE`, `RRB_ERR_RANGE` (z too small for a
/// double). Source: report 16-06, section 2.6.
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

/// y = A x with the matrix of the last `rrb_factorize`. Errors as for `rrb_apply`.
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

/// The one-line replacement of an ICCG call: creates, factorizes, solves to `rel_tol` in at most `max_iter`
/// iterations, frees. Arrays have ld = nx; x must overlap none of the others. `iterations` may be NULL. Statuses and
/// errors of `rrb_create`, `rrb_factorize` and `rrb_solve`.
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

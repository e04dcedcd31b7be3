//! `rrb_create_distributed` and the calls on boxes: one domain over many ranks.
//!
//! Each rank passes the values of its boxes and receives its part of the solution. With `reproducible=1`, results are
//! bitwise identical for any distribution of the boxes.

use crate::abi::handle::{Handle, create, with_handle_ok};
use crate::abi::rrb_status;
use crate::abi::spaces::caller_list;
use crate::base::heap::boxed;
use crate::distributed::vtable::rrbsolver_comm;
use crate::error::Error;
use crate::krylov::solve::Function;
use crate::options::opt;
use crate::rrb::entries::boxes::{leading_dimensions_of, run_on_boxes};
use crate::rrb::entries::handle::{new_handle, rrb_handle};
use crate::rrb::ranks::Ranks;
use crate::stencil::cells::Cells;

/// Creates a solver for one domain of nx x ny nodes that is distributed over several ranks.
///
/// Each rank owns zero, one or several boxes of nodes. Boxes must not overlap. Nodes outside all boxes are land; the
/// solver ignores couplings to land nodes. With MPI, the function `rrbsolver_mpi_comm` fills the table `comm`; see the
/// [guide to MPI](../guides/mpi.md).
///
/// # Parameters
/// - `nx`, `ny` (in): numbers of nodes of the whole domain in x and y. They must be the same on all ranks; the limits
///   are those of `rrb_create`.
/// - `count` (in): number of boxes of this rank, at least 0.
/// - `lower` (in): for each box, the indices in x and y of its first node, counted from 0. NULL is allowed if `count`
///   is 0.
/// - `size` (in): for each box, the numbers of nodes in x and y, each at least 1. NULL is allowed if `count` is 0.
/// - `comm` (in): table of functions that send messages between the ranks. The library copies the table.
/// - `out` (out): the new handle; unchanged after an error.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `out`, `comm` or a function of `comm` is NULL.
/// - `RRB_ERR_NULL`: `lower` or `size` is NULL, but `count` is not 0.
/// - `RRB_ERR_DIMENSION`: `nx` or `ny` is below 1, or nx * ny is above 2^32 - 1.
/// - `RRB_ERR_ARGUMENT`: a box extends beyond the domain, boxes overlap, no rank has a box, or `nx` or `ny` differs
///   between ranks.
/// - `RRB_ERR_ARGUMENT`: `count` is negative, or the field `struct_size`, `rank`, `size`, `flags` or `reserved` of
///   `comm` is not valid.
/// - `RRB_ERR_MEMORY`: allocation failed.
/// - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
///   `comm` failed.
///
/// # Notes
/// - This call is collective: all ranks must make this call. With this handle, `rrb_factorize`, `rrb_solve`,
///   `rrb_apply`, `rrb_multiply` and the functions for boxes are also collective. All ranks must make these calls in
///   the same order and with the same options.
/// - Only the options `threads`, `verbosity`, `log`, `leading_dimension`, `memory`, `device` and `comm_timeout` may
///   differ between ranks.
/// - The call returns the same status on all ranks. If one rank fails, the messages on the other ranks begin with the
///   number of the failed rank. A rank whose `comm` is incomplete cannot notify the other ranks.
/// - After `RRB_ERR_COMMUNICATION`, the only valid call with the handle is `rrb_destroy`.
/// - A rank with one box calls `rrb_factorize`, `rrb_solve`, `rrb_apply` and `rrb_multiply` with the arrays of its box.
///   A rank without a box calls these functions with NULL. A rank with several boxes calls the functions whose names
///   end with `_boxes`.
/// - The rank that owns node (i, j) passes `east[i, j]`, even if node (i + 1, j) is in another box. Here i and j are
///   indices in the whole domain.
/// - With `reproducible=1`, results are bitwise identical for any partition into boxes, any number of ranks and any
///   number of threads.
/// - On a distributed handle, `cycle=auto` selects `cycle=v` or `cycle=amli`, but never `cycle=aggregation`.
/// - With `backend=cuda`, rank 0 solves on the devices that its options `device` and `devices` select. The other ranks
///   transfer their data to rank 0 and receive their results from rank 0.
/// - The pointer `context` in `comm` must remain valid until the handle is destroyed.
///
/// # Fortran
/// `call solver%create_distributed(nx, ny, lower, size, comm [, stat] [, errmsg])`
///
/// `lower` and `size` have the shape (2, boxes). `comm` is `type(rrb_comm)` of the module `rrbsolver_mpi`.
///
/// # C++
/// ```cpp
/// static rrb rrbsolver::rrb::distributed(std::int64_t nx, std::int64_t ny, view<const box> boxes,
///                                        const rrbsolver_comm &comm)
/// ```
///
/// # Example
/// ```c
/// // One rank with one box, the whole domain. `one_rank` is a comm of one process.
/// const int64_t lower[1][2] = {{0, 0}}, size[1][2] = {{nx, ny}};
/// rrb_handle *domain = NULL;
/// status = rrb_create_distributed(nx, ny, 1, lower, size, &one_rank, &domain);
/// rrb_destroy(&domain);
/// ```
///
/// # Safety
/// `out` must be NULL or point to a pointer. `lower` and `size` must be NULL or hold `count` pairs. `comm` must be NULL
/// or point to a table whose functions work as described at `rrbsolver_comm`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_create_distributed(
    nx: i64,
    ny: i64,
    count: i64,
    lower: *const [i64; 2],
    size: *const [i64; 2],
    comm: *const rrbsolver_comm,
    out: *mut *mut rrb_handle,
) -> rrb_status {
    let make = || {
        // SAFETY: guaranteed by the caller.
        let table = unsafe { comm.as_ref() };
        // An error of this rank is sent to the other ranks, which is possible only if the table `comm` is valid.
        let new_solver = if out.is_null() { Err(Error::Null("out".into())) } else { new_handle(nx, ny) };
        let plane_and_timeout =
            new_solver.as_ref().ok().map(|h| (h.base.shape.plane(), h.base.options.real(opt::COMM_TIMEOUT)));
        let boxes = new_solver.as_ref().map_err(Clone::clone).and_then(|_| {
            if count < 0 {
                return Err(Error::range("count", count, "be at least 0"));
            }
            let (list_if_any, count) = (|list: *const [i64; 2]| Some(list).filter(|_| count > 0), count as usize);
            // SAFETY: guaranteed by the caller.
            unsafe {
                Ok([caller_list("lower", list_if_any(lower), count)?, caller_list("size", list_if_any(size), count)?])
            }
        });
        let ranks = Ranks::new(table.ok_or(Error::Null("comm".into()))?, plane_and_timeout, boxes)?;
        let mut h = new_solver?;
        h.base.shape.arrays = match ranks.own_boxes() {
            [only_box] => Cells { nx: only_box.extents().nx, ny: only_box.extents().ny, nz: 1 },
            _ => Cells { nx: 1, ny: 1, nz: 1 },
        };
        h.family_parts.ranks = Some(boxed(ranks, "boxes of ranks")?);
        Ok(h)
    };
    // SAFETY: guaranteed by the caller.
    unsafe { create(out, make) }
}

/// Copies the coefficients of A and computes M like `rrb_factorize`, with one array per coefficient and box of this
/// rank.
///
/// The call is collective. Each list argument has one entry per box of this rank, in the order of the boxes in
/// `rrb_create_distributed`.
///
/// # Parameters
/// - `h` (in/out): handle from `rrb_create_distributed`.
/// - `leading_dimensions` (in): for each box, the distance between consecutive rows of its arrays, counted in values.
///   NULL means that the arrays have no padding.
/// - `center`, `east`, `north` (in): lists with one array of coefficients per box, as for `rrb_factorize`.
/// - `northeast`, `northwest` (in): lists of the additional arrays of a 9-point stencil. For a 5-point stencil, all
///   ranks pass NULL.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - all errors of `rrb_factorize`.
/// - `RRB_ERR_NULL`: `center`, `east` or `north` is NULL on a rank with boxes.
/// - `RRB_ERR_NULL`: an array in a list is NULL.
/// - `RRB_ERR_ARGUMENT`: a leading dimension is less than the number of nodes in a row of the box.
/// - `RRB_ERR_ARGUMENT`: the options differ between ranks.
/// - `RRB_ERR_ARGUMENT`: `northeast` and `northwest` are NULL on some ranks, but not on all ranks.
/// - `RRB_ERR_STATE`: the handle comes from `rrb_create`, or the ranks make different calls.
/// - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
///   `comm` failed.
///
/// # Notes
/// The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is the leading dimension of the box.
///
/// # Fortran
/// No procedure: for one box per rank, use `factorize`. For several boxes, call the C function with `solver%handle`.
///
/// # C++
/// No member: call the C function with `solver.handle()`.
///
/// # Example
/// ```c
/// const int64_t lower[1][2] = {{0, 0}}, size[1][2] = {{nx, ny}}; // one rank, one box
/// rrb_handle *domain = NULL;
/// status = rrb_create_distributed(nx, ny, 1, lower, size, &one_rank, &domain);
/// const double *centers[] = {center}, *easts[] = {east}, *norths[] = {north};
/// status = rrb_factorize_boxes(domain, NULL, centers, easts, norths, NULL, NULL);
/// rrb_destroy(&domain);
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `rrb_` functions. Each list that is not NULL must have one entry per box of
/// this rank. Each array must contain the values of its box.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_factorize_boxes(
    h: *mut rrb_handle,
    leading_dimensions: *const i64,
    center: *const *const f64,
    east: *const *const f64,
    north: *const *const f64,
    northeast: *const *const f64,
    northwest: *const *const f64,
) -> rrb_status {
    let factorize = |h: &mut Handle<rrb_handle>| {
        let count = h.boxes()?.len();
        h.base.begin_setup();
        let array_lists = [center, east, north, northeast, northwest];
        let has_corners = !(northeast.is_null() && northwest.is_null());
        // SAFETY: guaranteed by the caller.
        unsafe { h.factorize_boxes(has_corners, leading_dimensions_of(leading_dimensions, count), array_lists) }
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, factorize) }
}

/// Solves A x = b like `rrb_solve`, with one array per box of this rank.
///
/// The call is collective. Each list argument has one entry per box of this rank, in the order of the boxes in
/// `rrb_create_distributed`.
///
/// # Parameters
/// - `h` (in/out): handle from `rrb_create_distributed`.
/// - `leading_dimensions` (in): for each box, the distance between consecutive rows of its arrays, counted in values.
///   NULL means that the arrays have no padding.
/// - `b` (in): list of the arrays of the right-hand side, one array per box.
/// - `x` (in/out): list of the arrays of x, one array per box. The arrays contain the initial guess on entry and the
///   solution on return.
///
/// # Returns
/// `RRB_OK`, `RRB_NOT_CONVERGED` or `RRB_STOPPED`, with the same meaning as for `rrb_solve`. The call returns the same
/// status on all ranks.
///
/// # Errors
/// - all errors of `rrb_solve`.
/// - `RRB_ERR_NULL`: `b`, `x` or an array in these lists is NULL on a rank with boxes.
/// - `RRB_ERR_ARGUMENT`: a leading dimension is less than the number of nodes in a row of the box.
/// - `RRB_ERR_ARGUMENT`: the options differ between ranks.
/// - `RRB_ERR_STATE`: the handle comes from `rrb_create`, or the ranks make different calls.
/// - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
///   `comm` failed.
///
/// # Notes
/// The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is the leading dimension of the box.
/// An output array must not overlap another array.
///
/// # Fortran
/// No procedure: for one box per rank, use `solve`. For several boxes, call the C function with `solver%handle`.
///
/// # C++
/// No member: call the C function with `solver.handle()`.
///
/// # Example
/// ```c
/// const int64_t lower[1][2] = {{0, 0}}, size[1][2] = {{nx, ny}}; // one rank, one box
/// rrb_handle *domain = NULL;
/// status = rrb_create_distributed(nx, ny, 1, lower, size, &one_rank, &domain);
/// const double *centers[] = {center}, *easts[] = {east}, *norths[] = {north};
/// status = rrb_factorize_boxes(domain, NULL, centers, easts, norths, NULL, NULL);
/// const double *bs[] = {b};
/// double *xs[] = {x};
/// status = rrb_solve_boxes(domain, NULL, bs, xs);
/// rrb_destroy(&domain);
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `rrb_` functions. Each list that is not NULL must have one entry per box of
/// this rank. Each array must contain the values of its box.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_solve_boxes(
    h: *mut rrb_handle,
    leading_dimensions: *const i64,
    b: *const *const f64,
    x: *const *mut f64,
) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { run_on_boxes(h, Function::Solve, leading_dimensions, ("b", b), ("x", x)) }
}

/// Computes z = M^-1 r like `rrb_apply`, with one array per box of this rank.
///
/// The call is collective. Each list argument has one entry per box of this rank, in the order of the boxes in
/// `rrb_create_distributed`.
///
/// # Parameters
/// - `h` (in/out): handle from `rrb_create_distributed`.
/// - `leading_dimensions` (in): for each box, the distance between consecutive rows of its arrays, counted in values.
///   NULL means that the arrays have no padding.
/// - `r` (in): list of the arrays of r, one array per box.
/// - `z` (out): list of the arrays for the result, one array per box.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - all errors of `rrb_apply`.
/// - `RRB_ERR_NULL`: `r`, `z` or an array in these lists is NULL on a rank with boxes.
/// - `RRB_ERR_ARGUMENT`: a leading dimension is less than the number of nodes in a row of the box.
/// - `RRB_ERR_ARGUMENT`: the options differ between ranks.
/// - `RRB_ERR_STATE`: the handle comes from `rrb_create`, or the ranks make different calls.
/// - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
///   `comm` failed.
///
/// # Notes
/// The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is the leading dimension of the box.
/// An output array must not overlap another array.
///
/// # Fortran
/// No procedure: for one box per rank, use `apply`. For several boxes, call the C function with `solver%handle`.
///
/// # C++
/// No member: call the C function with `solver.handle()`.
///
/// # Example
/// ```c
/// const int64_t lower[1][2] = {{0, 0}}, size[1][2] = {{nx, ny}}; // one rank, one box
/// rrb_handle *domain = NULL;
/// status = rrb_create_distributed(nx, ny, 1, lower, size, &one_rank, &domain);
/// const double *centers[] = {center}, *easts[] = {east}, *norths[] = {north};
/// status = rrb_factorize_boxes(domain, NULL, centers, easts, norths, NULL, NULL);
/// const double *rs[] = {r};
/// double *zs[] = {z};
/// status = rrb_apply_boxes(domain, NULL, rs, zs);
/// rrb_destroy(&domain);
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `rrb_` functions. Each list that is not NULL must have one entry per box of
/// this rank. Each array must contain the values of its box.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_apply_boxes(
    h: *mut rrb_handle,
    leading_dimensions: *const i64,
    r: *const *const f64,
    z: *const *mut f64,
) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { run_on_boxes(h, Function::Apply, leading_dimensions, ("r", r), ("z", z)) }
}

/// Computes y = A x like `rrb_multiply`, with one array per box of this rank.
///
/// The call is collective. Each list argument has one entry per box of this rank, in the order of the boxes in
/// `rrb_create_distributed`.
///
/// # Parameters
/// - `h` (in/out): handle from `rrb_create_distributed`.
/// - `leading_dimensions` (in): for each box, the distance between consecutive rows of its arrays, counted in values.
///   NULL means that the arrays have no padding.
/// - `x` (in): list of the arrays of x, one array per box.
/// - `y` (out): list of the arrays for the product, one array per box.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - all errors of `rrb_multiply`.
/// - `RRB_ERR_NULL`: `x`, `y` or an array in these lists is NULL on a rank with boxes.
/// - `RRB_ERR_ARGUMENT`: a leading dimension is less than the number of nodes in a row of the box.
/// - `RRB_ERR_ARGUMENT`: the options differ between ranks.
/// - `RRB_ERR_STATE`: the handle comes from `rrb_create`, or the ranks make different calls.
/// - `RRB_ERR_COMMUNICATION`: another rank did not respond within `comm_timeout` seconds, or a function of the table
///   `comm` failed.
///
/// # Notes
/// The arrays of a box of sx x sy nodes have (sy - 1) * ld + sx values, where ld is the leading dimension of the box.
/// An output array must not overlap another array.
///
/// # Fortran
/// No procedure: for one box per rank, use `multiply`. For several boxes, call the C function with `solver%handle`.
///
/// # C++
/// No member: call the C function with `solver.handle()`.
///
/// # Example
/// ```c
/// const int64_t lower[1][2] = {{0, 0}}, size[1][2] = {{nx, ny}}; // one rank, one box
/// rrb_handle *domain = NULL;
/// status = rrb_create_distributed(nx, ny, 1, lower, size, &one_rank, &domain);
/// const double *centers[] = {center}, *easts[] = {east}, *norths[] = {north};
/// status = rrb_factorize_boxes(domain, NULL, centers, easts, norths, NULL, NULL);
/// const double *xs[] = {x};
/// double *ys[] = {y};
/// status = rrb_multiply_boxes(domain, NULL, xs, ys);
/// rrb_destroy(&domain);
/// ```
///
/// # Safety
/// `h` must be NULL or a handle of the `rrb_` functions. Each list that is not NULL must have one entry per box of
/// this rank. Each array must contain the values of its box.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_multiply_boxes(
    h: *mut rrb_handle,
    leading_dimensions: *const i64,
    x: *const *const f64,
    y: *const *mut f64,
) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { run_on_boxes(h, Function::Multiply, leading_dimensions, ("x", x), ("y", y)) }
}

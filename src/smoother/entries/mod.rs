//! Family `smoother_`: block relaxation on 3D patches with constant-coefficient stencils.
//!
//! A patch covers the cells lower .. lower + size - 1 of a level's index space. Its array `u` includes one layer of
//! ghost cells: (nx+2)(ny+2)(nz+2) values, x fastest. Its arrays `f` and `r` have nx*ny*nz values. Arguments are tables
//! with one pointer per patch.

mod arrays;
mod handle;
mod watch;

pub use handle::smoother_handle;

use crate::abi::handle::{Handle, create, with_handle, with_handle_ok};
use crate::abi::spaces::check_array;
use crate::abi::{rrb_status, smoother_ghost_fn};
use crate::error::Error;
use arrays::CallerTables;
use handle::{create_handle, sweep_status};
use libc::c_void;
use watch::GhostFill;

/// Creates a block smoother for an operator with a constant stencil. A block has bx x by x bz cells.
///
/// The operator is (A u)[c] = sum over k of stencil[k] u[c + offset[k]], with the same stencil in every cell. The call
/// copies the stencil. Later, `smoother_set_patches` computes the inverses of the blocks.
///
/// # Parameters
/// - `stencil_points` (in): number of points of the stencil, 7 or 27.
/// - `stencil` (in): array of the `stencil_points` coefficients, which must be finite. The order of 7 values is center,
///   west, east, south, north, bottom, top. If there are 27 values, they form a 3 x 3 x 3 cube in which the index in x
///   varies fastest. The center of the cube has index 13.
/// - `bx`, `by`, `bz` (in): numbers of cells of a block in x, y and z, each in [1, 8].
/// - `out` (out): the new handle; unchanged after an error.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `stencil` or `out` is NULL.
/// - `RRB_ERR_ARGUMENT`: `stencil_points` is not 7 or 27, or `stencil` is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: `bx`, `by` or `bz` is above 8.
/// - `RRB_ERR_DIMENSION`: `bx`, `by` or `bz` is below 1.
/// - `RRB_ERR_NOT_FINITE`: a value of the stencil is NaN or infinite.
/// - `RRB_ERR_MEMORY`: allocation failed.
///
/// # Notes
/// - The stencil may be nonsymmetric, and its center may be positive or negative. If a block is singular,
///   `smoother_set_patches` returns an error.
/// - A handle does not extend over several MPI ranks. In an MPI program, each rank creates its own handle. The ghost
///   function, which `smoother_set_ghost_fill` sets, must then copy the values of ghost cells from other ranks.
///
/// # Fortran
/// `call s%create(stencil, block [, stat] [, errmsg])`
///
/// The variable is `type(smoother) :: s`. The array `block` contains the three values bx, by and bz.
///
/// # C++
/// `rrbsolver::smoother::smoother(input stencil, std::int64_t bx, std::int64_t by, std::int64_t bz)`
///
/// # Example
/// ```c
/// const double poisson[7] = {6, -1, -1, -1, -1, -1, -1};
/// smoother_handle *smoother = NULL;
/// status = smoother_create(7, poisson, 8, 8, 8, &smoother);
/// smoother_destroy(&smoother);
/// ```
///
/// # Safety
/// `stencil` must be NULL or hold `stencil_points` values. `out` must be NULL or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_create(
    stencil_points: i32,
    stencil: *const f64,
    bx: i64,
    by: i64,
    bz: i64,
    out: *mut *mut smoother_handle,
) -> rrb_status {
    let make_handle = || {
        check_array("stencil", stencil)?;
        if ![7, 27].contains(&stencil_points) {
            return Err(Error::range("stencil_points", stencil_points, "be 7 or 27"));
        }
        // SAFETY: not NULL, aligned, and the caller guarantees the number of values.
        let values = unsafe { std::slice::from_raw_parts(stencil, stencil_points as usize) };
        create_handle(values, [("bx", bx), ("by", by), ("bz", bz)])
    };
    // SAFETY: guaranteed by the caller.
    unsafe { create(out, make_handle) }
}

/// Sets the list of patches and computes the inverses of their blocks.
///
/// In each direction, patch p covers the cells lower[p] .. lower[p] + size[p] - 1 of a global index space. Blocks end
/// where the global index is a multiple of the block size, and at the edges of patches.
///
/// The call also determines which patch covers which ghost cells. A call after regridding is cheap, because it reuses
/// the block inverses of the previous call.
///
/// # Parameters
/// - `h` (in/out): handle from `smoother_create`.
/// - `count` (in): number of patches; 0 is allowed.
/// - `lower` (in): for each patch, the indices (i, j, k) of its first cell, in [-2^60, 2^60]. NULL is allowed if
///   `count` is 0.
/// - `size` (in): for each patch, the numbers of cells in x, y and z, each at least 1. NULL is allowed if `count` is 0.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL.
/// - `RRB_ERR_NULL`: `lower` or `size` is NULL, but `count` is not 0.
/// - `RRB_ERR_ARGUMENT`: two patches overlap, or `lower` or `size` is not 8-byte aligned.
/// - `RRB_ERR_DIMENSION`: `count` is below 0, or a size is below 1.
/// - `RRB_ERR_DIMENSION`: an index, a size or the number of cells is too large. On a device, these numbers must fit
///   into 32-bit integers.
/// - `RRB_ERR_MATRIX`: a block is singular, or the inverse of a block is too large for a double. The message names the
///   size and a cell of the block.
/// - `RRB_ERR_UNSUPPORTED`: `block_solver=fast_diagonalization` is set, but sine transforms are not possible for the
///   stencil, or would lose more than 4 digits.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the smoother runs on the CPU.
/// - `RRB_ERR_UNSUPPORTED`: `backend=cuda` is set, but the library was built without CUDA kernels.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_NO_DEVICE`: `backend=cuda` is set, but there is no CUDA driver or no CUDA device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
///
/// After an error the handle has no patches.
///
/// # Notes
/// - The call frees the arrays of `smoother_upload`.
/// - With dense inverses, the call performs 2 n^3 flops for each distinct block shape, where n is the number of cells
///   of the block. With sine transforms, the cost is negligible.
///
/// # Fortran
/// `call s%set_patches(lower, extents [, stat] [, errmsg])`
///
/// The arrays `lower` and `extents` have the shape (3, patches).
///
/// # C++
/// `void rrbsolver::smoother::set_patches(view<const box> boxes)`
///
/// # Example
/// ```c
/// // Two patches of 16^3 cells, side by side in x.
/// const int64_t lower[2][3] = {{0, 0, 0}, {16, 0, 0}};
/// const int64_t size[2][3] = {{16, 16, 16}, {16, 16, 16}};
/// status = smoother_set_patches(solver, 2, lower, size);
/// ```
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`. `lower` and `size` must be NULL or hold `count` triples.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_patches(
    h: *mut smoother_handle,
    count: i64,
    lower: *const [i64; 3],
    size: *const [i64; 3],
) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, |h| h.set_patches(count, lower, size)) }
}

/// Performs `sweeps` sweeps of block relaxation on all patches. For each block b, a sweep computes u_b = u_b + omega
/// A_b^-1 (f - A u)_b.
///
/// The option `method` selects coloured Gauss-Seidel, block Jacobi or chaotic Gauss-Seidel. Before each sweep, each
/// ghost cell that another patch covers receives the value of u from that other patch. The ghost function fills the
/// other ghost cells. On return from a call without a monitor, ghost cells hold the values that the last sweep read.
///
/// # Parameters
/// - `h` (in/out): handle for which `smoother_set_patches` has succeeded.
/// - `u` (in/out): table with one pointer per patch. For a patch of nx x ny x nz cells, its pointer refers to (nx +
///   2) * (ny + 2) * (nz + 2) values. These values include one layer of ghost cells around the patch. The index in x
///   varies fastest.
/// - `f` (in): table with one pointer per patch. Each pointer refers to nx * ny * nz values. The index in x varies
///   fastest.
/// - `sweeps` (in): number of sweeps, at least 0. If `sweeps` is 0, the call only checks the input and calls the
///   monitor once.
///
/// If both tables are NULL, the call works on the copies of u and f that `smoother_upload` made.
///
/// # Returns
/// `RRB_OK`, or `RRB_STOPPED` if the ghost function or the monitor stopped the call. After `RRB_STOPPED`, u is the
/// current iterate.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL, exactly one of the tables `u` and `f` is NULL, or a pointer in a table is NULL.
/// - `RRB_ERR_ARGUMENT`: `sweeps` is below 0.
/// - `RRB_ERR_ARGUMENT`: an array of `u` overlaps another array, or an array or table is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
///   memory, or are on another device.
/// - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts "at
///   set_patches".
/// - `RRB_ERR_STATE`: both tables are NULL, but `smoother_upload` has not been called.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and a value of u or f is NaN or infinite. Values of ghost cells are
///   not checked.
/// - `RRB_ERR_NOT_FINITE`: a monitor is set, and the norm of the residual is too large for a double. After this error,
///   u is the current iterate.
/// - `RRB_ERR_UNSUPPORTED`: `remainder=overlap` is set, and a block extends beyond the edge of a patch. Such blocks
///   require `method=chaotic_gauss_seidel` and `parallel=patch`.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the smoother runs on the CPU.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_MEMORY`: allocation failed. This error occurs only if the smoother runs on a device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Notes
/// - The memory traffic per cell and sweep is 24 bytes, or 32 bytes for block Jacobi. If `check_input` is not 0, the
///   check reads u and f once more per call.
/// - If the smoother runs on the CPU, the arrays must be in host memory. The call does not check whether the pointers
///   are device pointers.
/// - The call allocates no memory and starts no thread, with one exception. If the smoother runs on a device, the first
///   call with host arrays allocates copies of these arrays in device memory.
/// - For periodic boundaries, the ghost function must copy the values from the opposite boundary into the ghost cells.
/// - Source: Rodriguez, Philip, Wang and Berrill, Block-relaxation methods for 3D constant-coefficient stencils on GPUs
///   and multicore CPUs, algorithms 1 to 3.
///
/// # Fortran
/// ```fortran
/// call s%apply(patches, sweeps [, stat] [, errmsg])
/// call s%apply(u, f, sweeps [, stat] [, errmsg])
/// call s%apply(sweeps [, stat] [, errmsg])
/// ```
///
/// The argument `patches` is `type(smoother_patch) :: patches(:)`. The tables `u` and `f` are arrays of `type(c_ptr)`.
/// If you pass no arrays, the call works on the copies of u and f that `upload` made.
///
/// # C++
/// ```cpp
/// rrb_status rrbsolver::smoother::apply(patches u, const_patches f, std::int32_t sweeps)
/// rrb_status rrbsolver::smoother::apply(std::int32_t sweeps)
/// ```
///
/// # Example
/// ```c
/// status = smoother_apply(solver, u, f, 3); // three sweeps
/// ```
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`. `u` and `f` must be NULL or hold one pointer per patch. Each
/// pointer must be NULL or refer to (nx+2)(ny+2)(nz+2) values in `u` and nx*ny*nz values in `f`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_apply(
    h: *mut smoother_handle,
    u: *const *mut f64,
    f: *const *const f64,
    sweeps: i32,
) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle(h, |h| h.apply(u, f, sweeps)) }
}

/// Copies values of u between patches. Each ghost cell that another patch covers receives the value from that other
/// patch.
///
/// The call changes no other values of u. `smoother_apply` and `smoother_residual` also perform this exchange.
///
/// # Parameters
/// - `h` (in/out): handle for which `smoother_set_patches` has succeeded.
/// - `u` (in/out): table with one pointer per patch, as for `smoother_apply`. If `u` is NULL, the call works on the
///   copy of u that `smoother_upload` made.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or a pointer in the table is NULL.
/// - `RRB_ERR_NULL`: `u` is NULL, but `smoother_upload` has not been called.
/// - `RRB_ERR_ARGUMENT`: two arrays overlap, or an array or the table is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
///   memory, or are on another device.
/// - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts "at
///   set_patches".
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the smoother runs on the CPU.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_MEMORY`: allocation failed. This error occurs only if the smoother runs on a device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Fortran
/// ```fortran
/// call s%exchange(patches [, stat] [, errmsg])
/// call s%exchange(u [, stat] [, errmsg])
/// call s%exchange([stat] [, errmsg])
/// ```
///
/// The table `u` is an array of `type(c_ptr)`. If you pass no arrays, the call works on the copy of u that `upload`
/// made.
///
/// # C++
/// ```cpp
/// void rrbsolver::smoother::exchange(patches u)
/// void rrbsolver::smoother::exchange()
/// ```
///
/// # Example
/// ```c
/// status = smoother_exchange(solver, u);
/// ```
///
/// # Safety
/// The requirements are those of `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_exchange(h: *mut smoother_handle, u: *const *mut f64) -> rrb_status {
    let exchange = |h: &mut Handle<smoother_handle>| {
        h.call(CallerTables { u, f: None, r: None }, |core, arrays, callbacks, options| {
            core.exchange_ghosts(arrays, callbacks, options)
        })
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, exchange) }
}

/// Sets or removes the ghost function, a callback that fills the ghost cells that no patch covers.
///
/// The library calls the ghost function on the calling thread before each sweep, after the exchange between patches.
/// The ghost function can implement boundary conditions, or copy values from other levels or other ranks. Without a
/// ghost function, the library does not change the ghost cells that no patch covers.
///
/// # Parameters
/// - `h` (in/out): handle from `smoother_create`.
/// - `callback` (in): the ghost function `int32_t f(void *user, int32_t sweep, double *const *u)`; NULL removes the
///   ghost function.
/// - `user` (in): pointer that is passed to `callback`; may be NULL.
///
/// The argument `sweep` is the number of the sweep, counted from 0. It is -1 before the computation of a residual. The
/// argument `u` contains one pointer per patch to the array of the patch. If the caller passed NULL tables, these
/// arrays are the arrays of `smoother_upload`. If the arrays are in device memory, the pointers are device pointers.
///
/// The callback must write ghost cells only. If the callback returns a nonzero value, `smoother_apply` or
/// `smoother_residual` stops and returns `RRB_STOPPED`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
///
/// # Notes
/// - The callback must not use this handle, and must not throw an exception.
/// - If the callback starts work on a device, this work must run on the stream of `smoother_set_stream` or be complete
///   when the callback returns.
/// - If the smoother runs on a device with host arrays, the library transfers u to the host and back for each call of
///   the ghost function.
///
/// # Fortran
/// `call s%set_ghost_fill([fill] [, stat] [, errmsg])`
///
/// The argument is declared as `procedure(smoother_ghost_fill) :: fill`. Pass `stat` by keyword.
///
/// The arguments of the function `fill` are `integer, intent(in) :: sweep` and `type(smoother_patch), intent(inout) ::
/// patches(:)`. The result of `fill` is logical; `.true.` stops the call.
///
/// # C++
/// `void rrbsolver::smoother::set_ghost_fill(ghost_fill callback)`
///
/// # Example
/// ```c
/// // NULL: ghost cells are not changed, such as those of a Dirichlet condition.
/// status = smoother_set_ghost_fill(solver, NULL, NULL);
/// if (status == RRB_OK) {
///     status = smoother_apply(solver, u, f, 2);
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`. It must be safe to call `callback` with `user` until
/// another callback replaces `callback` or the handle is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_ghost_fill(
    h: *mut smoother_handle,
    callback: smoother_ghost_fn,
    user: *mut c_void,
) -> rrb_status {
    let set_ghost_fill = |h: &mut Handle<smoother_handle>| {
        h.family_parts.ghost_fill = GhostFill { callback, user };
        Ok(())
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, set_ghost_fill) }
}

/// Computes r = f - A u and its 2-norm over all patches.
///
/// Like `smoother_exchange`, the call first copies values of u between patches. The call then calls the ghost function.
/// Both steps change only the ghost cells of u. The norm is bitwise identical for any number of threads.
///
/// # Parameters
/// - `h` (in/out): handle for which `smoother_set_patches` has succeeded.
/// - `u` (in/out): table with one pointer per patch, as for `smoother_apply`. The call writes only the ghost cells.
/// - `f` (in): table with one pointer per patch, as for `smoother_apply`.
/// - `r` (out): table with one pointer per patch. Each pointer refers to nx * ny * nz values. Pass NULL if r is not
///   needed.
/// - `norm2` (out): the 2-norm of r over all patches; unchanged after an error. The pointer may be NULL.
///
/// If both `u` and `f` are NULL, the call works on the copies of u and f that `smoother_upload` made.
///
/// # Returns
/// `RRB_OK`, or `RRB_STOPPED` if the ghost function stopped the call. After `RRB_STOPPED`, `r` and `norm2` are not
/// valid.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL, exactly one of `u` and `f` is NULL, or a pointer in a table is NULL.
/// - `RRB_ERR_ARGUMENT`: an output array overlaps another array, or an array or table is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
///   memory, or are on another device. With the arrays of `smoother_upload`, r must be in device memory.
/// - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts "at
///   set_patches".
/// - `RRB_ERR_STATE`: `u` and `f` are NULL, but `smoother_upload` has not been called.
/// - `RRB_ERR_NOT_FINITE`: `check_input` is not 0, and a value of u or f is NaN or infinite.
/// - `RRB_ERR_NOT_FINITE`: the norm is too large for a double.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` is set, but the smoother runs on the CPU.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_MEMORY`: allocation failed. This error occurs only if the smoother runs on a device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Notes
/// The memory traffic is 16 bytes per cell, or 24 bytes per cell if the call writes r. If the squares in the norm
/// overflow or underflow, a second pass computes the norm with scaling.
///
/// # Fortran
/// ```fortran
/// call s%residual(patches, norm2 [, stat] [, errmsg])
/// call s%residual(u, f, norm2 [, r] [, stat] [, errmsg])
/// call s%residual(norm2 [, r] [, stat] [, errmsg])
/// ```
///
/// The tables `u`, `f` and `r` are arrays of `type(c_ptr)`. If you pass neither `patches` nor `u` and `f`, the call
/// works on the copies of u and f that `upload` made.
///
/// If you pass `patches`, and if the component `r` is associated in all patches, the call writes r to these components.
///
/// # C++
/// ```cpp
/// double rrbsolver::smoother::residual(patches u, const_patches f)
/// double rrbsolver::smoother::residual(patches u, const_patches f, patches r)
/// double rrbsolver::smoother::residual()
/// double rrbsolver::smoother::residual(patches r)
/// ```
///
/// # Example
/// ```c
/// double norm = 0;
/// status = smoother_residual(solver, u, f, NULL, &norm);
/// printf("norm of the residual: %.3e\n", norm);
/// ```
///
/// # Safety
/// The requirements are those of `smoother_apply`. In addition, `r` must be NULL or hold one pointer per patch to
/// nx*ny*nz values. `norm2` must be NULL or point to a `double`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_residual(
    h: *mut smoother_handle,
    u: *const *mut f64,
    f: *const *const f64,
    r: *const *mut f64,
    norm2: *mut f64,
) -> rrb_status {
    let residual = |h: &mut Handle<smoother_handle>| {
        let r = (!r.is_null()).then_some(r);
        let sweep_result = h.call(CallerTables { u, f: Some(f), r }, |core, arrays, callbacks, options| {
            core.compute_residual(arrays, callbacks, options)
        })?;
        if !norm2.is_null() {
            // SAFETY: not NULL, and the caller guarantees a pointer to a double.
            unsafe { *norm2 = sweep_result.residual_norm };
        }
        Ok(sweep_status(&sweep_result))
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle(h, residual) }
}

/// Copies u and f into arrays of the library. The next `smoother_set_patches` frees these arrays.
///
/// If the smoother runs on a device, these arrays are in device memory. Otherwise they are in host memory. If the
/// caller passes NULL tables to the other functions, these functions use the library's arrays. A second call of
/// `smoother_upload` replaces the values in these arrays.
///
/// # Parameters
/// - `h` (in/out): handle for which `smoother_set_patches` has succeeded.
/// - `u` (in): table with one pointer per patch. Each pointer refers to an array with ghost cells, as for
///   `smoother_apply`. If `u` is NULL, the call does not change the values of u in the library. These values are
///   initially zero.
/// - `f` (in): table with one pointer per patch. If `f` is NULL, the call does not change the values of f in the
///   library. These values are initially zero.
///
/// The call only reads the arrays of the caller. Several patches may therefore use the same array.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or a pointer in a table is NULL.
/// - `RRB_ERR_ARGUMENT`: an array or table is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
///   memory, or are on another device.
/// - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts "at
///   set_patches".
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Fortran
/// ```fortran
/// call s%upload(patches [, stat] [, errmsg])
/// call s%upload([u] [, f] [, stat] [, errmsg])
/// ```
///
/// The tables `u` and `f` are arrays of `type(c_ptr)`.
///
/// # C++
/// ```cpp
/// void rrbsolver::smoother::upload(const_patches u, const_patches f)
/// void rrbsolver::smoother::upload_u(const_patches u)
/// void rrbsolver::smoother::upload_f(const_patches f)
/// ```
///
/// # Example
/// ```c
/// status = smoother_upload(solver, (const double *const *)u, f);
/// if (status == RRB_OK) {
///     status = smoother_apply(solver, NULL, NULL, 10);
/// }
/// if (status == RRB_OK) {
///     status = smoother_download(solver, u);
/// }
/// ```
///
/// # Safety
/// The requirements are those of `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_upload(
    h: *mut smoother_handle,
    u: *const *const f64,
    f: *const *const f64,
) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, |h| h.upload(u, f)) }
}

/// Copies u, including ghost cells, from the arrays of `smoother_upload` into the arrays of the caller.
///
/// # Parameters
/// - `h` (in/out): handle with arrays from `smoother_upload`.
/// - `u` (out): table with one pointer per patch, as for `smoother_apply`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, `u` or a pointer in the table is NULL.
/// - `RRB_ERR_ARGUMENT`: two arrays overlap, or an array or the table is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: the smoother runs on a device, but the arrays are partly in host memory and partly in device
///   memory, or are on another device.
/// - `RRB_ERR_STATE`: `smoother_upload` has not succeeded since the last `smoother_set_patches`.
/// - `RRB_ERR_STATE`: an option that acts "at set_patches" has changed since the last `smoother_set_patches`.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
/// - `RRB_ERR_MEMORY`: allocation of an internal list of array sections failed.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Fortran
/// ```fortran
/// call s%download(patches [, stat] [, errmsg])
/// call s%download(u [, stat] [, errmsg])
/// ```
///
/// The table `u` is an array of `type(c_ptr)`.
///
/// # C++
/// `void rrbsolver::smoother::download(patches u)`
///
/// # Example
/// ```c
/// status = smoother_upload(solver, (const double *const *)u, f);
/// if (status == RRB_OK) {
///     status = smoother_apply(solver, NULL, NULL, 1);
/// }
/// if (status == RRB_OK) {
///     status = smoother_download(solver, u); // u: after one sweep
/// }
/// ```
///
/// # Safety
/// The requirements are those of `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_download(h: *mut smoother_handle, u: *const *mut f64) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, |h| h.download(u)) }
}

/// Returns the addresses of the arrays of `smoother_upload`, for kernels of the caller.
///
/// If the smoother runs on a device, the addresses are device pointers. Otherwise they are host pointers. The addresses
/// are valid until the next `smoother_set_patches` or `smoother_destroy`.
///
/// # Parameters
/// - `h` (in): handle with arrays from `smoother_upload`.
/// - `u` (out): table that receives, for each patch, a pointer to the array of u with ghost cells. The table may be
///   NULL.
/// - `f` (out): table that receives, for each patch, a pointer to the array of f. The table may be NULL.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL.
/// - `RRB_ERR_STATE`: `smoother_upload` has not succeeded since the last `smoother_set_patches`.
/// - `RRB_ERR_STATE`: an option that acts "at set_patches" has changed since the last `smoother_set_patches`.
/// - `RRB_ERR_UNSUPPORTED`: a child process uses a handle that was created before the fork.
///
/// # Notes
/// Kernels that write to these arrays must run on the stream of `smoother_set_stream` or be complete before the next
/// call with this handle.
///
/// # Fortran
/// `call s%device_pointers(u, f [, stat] [, errmsg])`
///
/// The tables are declared as `type(c_ptr) :: u(:), f(:)`.
///
/// # C++
/// `resident_patches rrbsolver::smoother::device_pointers()`
///
/// # Example
/// ```c
/// double *resident_u[1], *resident_f[1]; // one patch
/// status = smoother_upload(solver, (const double *const *)u, f);
/// if (status == RRB_OK) {
///     status = smoother_device_pointers(solver, resident_u, resident_f);
/// }
/// ```
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`. `u` and `f` must be NULL or have room for one pointer per patch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_device_pointers(
    h: *mut smoother_handle,
    u: *mut *mut f64,
    f: *mut *mut f64,
) -> rrb_status {
    let pointers = |h: &mut Handle<smoother_handle>| {
        let resident = h.resident()?;
        for (out, table) in [(u, &resident.u), (f, &resident.f_mut)] {
            if !out.is_null() {
                // SAFETY: not NULL, and the caller guarantees room for one pointer per patch.
                unsafe { std::ptr::copy_nonoverlapping(table.as_ptr(), out, table.len()) };
            }
        }
        Ok(())
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, pointers) }
}

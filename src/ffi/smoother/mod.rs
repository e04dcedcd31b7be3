//! Family `smoother_`: block relaxation on 3D patches with constant-coefficient stencils.
//!
//! A patch covers the cells lower .. lower + size - 1 of one level's index space. Its `u` has one layer of ghost cells,
//! (nx+2)(ny+2)(nz+2) values, x fastest; its `f` and `r` have nx*ny*nz. Arguments are tables of one pointer per patch.

mod arrays;
mod handle;
mod watch;

pub use handle::smoother_handle;

use crate::error::Error;
use crate::ffi::handle::{create, with, with_ok};
use crate::ffi::spaces::check_array;
use crate::ffi::{rrb_status, smoother_ghost_fn};
use arrays::Tables;
use handle::status_of;
use libc::c_void;
use watch::GhostFill;

/// Creates a block smoother for a constant stencil and blocks of bx x by x bz cells.
///
/// The operator is (A u)[c] = sum over k of stencil[k] u[c + offset[k]], with the same stencil in every cell. The
/// stencil is copied. `smoother_set_patches` computes the inverses of the blocks.
///
/// # Parameters
/// - `stencil_points` (in): 7 or 27.
/// - `stencil` (in): `stencil_points` finite values. With 7 points: center, west, east, south, north, bottom, top. With
///   27 points: the 3 x 3 x 3 cube, x fastest, with the center at index 13.
/// - `bx`, `by`, `bz` (in): number of cells of a block in x, y and z, each in [1, 8].
/// - `out` (out): the new handle; unchanged after an error.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `stencil` or `out` is NULL.
/// - `RRB_ERR_ARGUMENT`: `stencil_points` is not 7 or 27; a block side is above 8; or `stencil` is not 8-byte aligned.
/// - `RRB_ERR_DIMENSION`: a block side is below 1.
/// - `RRB_ERR_NOT_FINITE`: a value of the stencil is NaN or infinite.
/// - `RRB_ERR_MEMORY`: allocation failed.
///
/// # Notes
/// - The stencil may be nonsymmetric, and its center may be positive or negative. If a block is singular,
///   `smoother_set_patches` returns an error.
/// - A handle does not extend over MPI ranks. Each rank may have its own handle; the ghost function then copies ghost
///   cells from other ranks.
///
/// # Fortran
/// `call s%create(stencil, block [, stat] [, errmsg])` with `type(smoother) :: s`, block(3)
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
/// `stencil` must be NULL or hold `stencil_points` values; `out` must be NULL or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_create(
    stencil_points: i32,
    stencil: *const f64,
    bx: i64,
    by: i64,
    bz: i64,
    out: *mut *mut smoother_handle,
) -> rrb_status {
    let make = || {
        check_array("stencil", stencil)?;
        if ![7, 27].contains(&stencil_points) {
            return Err(Error::range("stencil_points", stencil_points, "be 7 or 27"));
        }
        // SAFETY: not NULL, aligned, and the caller gave that many values.
        let values = unsafe { std::slice::from_raw_parts(stencil, stencil_points as usize) };
        smoother_handle::new(values, [("bx", bx), ("by", by), ("bz", bz)])
    };
    // SAFETY: as our caller promised.
    unsafe { create(out, make) }
}

/// Sets the list of patches and computes the inverses of their blocks.
///
/// Patch p covers the cells lower[p] .. lower[p] + size[p] - 1 of a global index space. Blocks end where the global index
/// is a multiple of the block size, and at the edges of patches.
///
/// The call also determines which ghost cells are covered by which patch. Inverses of a previous call are reused, so a
/// call after regridding is cheap.
///
/// # Parameters
/// - `h` (in/out): handle from `smoother_create`.
/// - `count` (in): number of patches; 0 is allowed.
/// - `lower` (in): for each patch the indices (i, j, k) of its first cell, in [-2^60, 2^60]; may be NULL if `count` is
///   0.
/// - `size` (in): for each patch the number of cells in x, y and z, at least 1; may be NULL if `count` is 0.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, `lower` or `size` is NULL.
/// - `RRB_ERR_ARGUMENT`: two patches overlap; or `lower` or `size` is not 8-byte aligned.
/// - `RRB_ERR_DIMENSION`: `count` is below 0; a size is below 1; or an index, a size or the number of cells is too
///   large (on a device: does not fit 32 bits).
/// - `RRB_ERR_MATRIX`: a block is singular, or its inverse is too large for a double. The message names the cell.
/// - `RRB_ERR_UNSUPPORTED`: `block_solver=fast_diagonalization`, and sine transforms do not apply to the stencil or
///   would lose more than 4 digits.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` without `backend=cuda`; `backend=cuda` in a build without kernels; or the
///   handle was created before a fork.
/// - `RRB_ERR_NO_DEVICE`: with `backend=cuda`, there is no driver or device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
/// - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
///
/// After an error the handle has no patches.
///
/// # Notes
/// - The arrays of `smoother_upload` are freed.
/// - With dense inverses, the cost is 2 n^3 flops for each block shape of n cells. With sine transforms, the cost is
///   negligible.
///
/// # Fortran
/// `call s%set_patches(lower, extents [, stat] [, errmsg])`, both of shape (3, patches)
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
/// `h` must be NULL or come from `smoother_create`; `lower` and `size` must be NULL or hold `count` triples.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_patches(
    h: *mut smoother_handle,
    count: i64,
    lower: *const [i64; 3],
    size: *const [i64; 3],
) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, |h| h.set_patches(count, lower, size)) }
}

/// Performs `sweeps` sweeps of block relaxation on all patches: u_b = u_b + omega A_b^-1 (f - A u)_b for each block b.
///
/// The option `method` selects coloured Gauss-Seidel, block Jacobi or chaotic Gauss-Seidel. Before each sweep, ghost
/// cells that another patch covers are copied from that patch, and the ghost function fills the others. After the call,
/// ghost cells hold the values that the last sweep read.
///
/// # Parameters
/// - `h` (in/out): handle with patches.
/// - `u` (in/out): table of one pointer per patch, to (nx + 2) * (ny + 2) * (nz + 2) values, x fastest; they include
///   one layer of ghost cells around the patch.
/// - `f` (in): table of one pointer per patch, to nx * ny * nz values, x fastest.
/// - `sweeps` (in): number of sweeps, at least 0. With 0, the call only checks the input and calls the monitor once.
///
/// Both tables may be NULL: the call then works on the arrays of `smoother_upload`.
///
/// # Returns
/// `RRB_OK`, or `RRB_STOPPED` if the ghost function or the monitor stopped the call. After `RRB_STOPPED`, u is the
/// current iterate.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, one of the tables, or a pointer in a table is NULL.
/// - `RRB_ERR_ARGUMENT`: `sweeps` is below 0; an array of `u` overlaps another array; or an array or table is not
///   8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: with `backend=cuda`, the arrays are neither all on the host nor all on the device of the
///   handle.
/// - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts there; or
///   both tables are NULL before `smoother_upload`.
/// - `RRB_ERR_NOT_FINITE`: with `check_input`, a cell of u or f is NaN or infinite; ghost cells are not checked.
/// - `RRB_ERR_NOT_FINITE`: with a monitor, the norm of the residual is too large for a double; u is then the current
///   iterate.
/// - `RRB_ERR_UNSUPPORTED`: `remainder=overlap` with a method that updates several blocks at the same time;
///   `memory=device` without `backend=cuda`; or the handle was created before a fork.
/// - `RRB_ERR_MEMORY`: allocation failed (on a device only).
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Notes
/// - The memory traffic per cell and sweep is 24 bytes, or 32 bytes for block Jacobi. `check_input` reads u and f once
///   more per call.
/// - On the CPU, arrays must be in host memory. The call does not check for device pointers.
/// - The call allocates no memory and starts no thread, with one exception: with `backend=cuda`, the first call with
///   host arrays allocates device copies.
/// - For periodic boundaries, the ghost function must fill the ghost cells.
/// - Source: Rodriguez, Philip, Wang and Berrill, Block-relaxation methods for 3D constant-coefficient stencils on GPUs
///   and multicore CPUs, algorithms 1 to 3.
///
/// # Fortran
/// `call s%apply(patches, sweeps [, stat] [, errmsg])` with `type(smoother_patch) :: patches(:)`; or `s%apply(u, f,
/// sweeps ...)` with tables of `type(c_ptr)`; or `s%apply(sweeps ...)`
///
/// # C++
/// `rrb_status rrbsolver::smoother::apply(patches u, const_patches f, std::int32_t sweeps)`; or `apply(std::int32_t
/// sweeps)`
///
/// # Example
/// ```c
/// status = smoother_apply(solver, u, f, 3); // three sweeps
/// ```
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`; `u` and `f` must be NULL or hold a pointer per patch, each NULL or
/// to (nx+2)(ny+2)(nz+2) and nx*ny*nz values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_apply(
    h: *mut smoother_handle,
    u: *const *mut f64,
    f: *const *const f64,
    sweeps: i32,
) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with(h, |h| h.apply(u, f, sweeps)) }
}

/// Copies ghost cells of u that are covered by another patch from that patch.
///
/// Other values are not changed. `smoother_apply` and `smoother_residual` include this exchange.
///
/// # Parameters
/// - `h` (in/out): handle with patches.
/// - `u` (in/out): table of one pointer per patch, as for `smoother_apply`. NULL: the arrays of `smoother_upload`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or a pointer in the table is NULL, or `u` is NULL before `smoother_upload`.
/// - `RRB_ERR_ARGUMENT`: two arrays overlap; an array or the table is not 8-byte aligned; or, with `backend=cuda`, the
///   arrays are neither all on the host nor all on the device.
/// - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts there.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` without `backend=cuda`, or the handle was created before a fork.
/// - `RRB_ERR_MEMORY`: allocation failed (on a device only).
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Fortran
/// `call s%exchange([patches] [, stat] [, errmsg])`; or `s%exchange(u ...)` with a table of `type(c_ptr)`
///
/// # C++
/// `void rrbsolver::smoother::exchange(patches u)`; or `exchange()`
///
/// # Example
/// ```c
/// status = smoother_exchange(solver, u);
/// ```
///
/// # Safety
/// As for `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_exchange(h: *mut smoother_handle, u: *const *mut f64) -> rrb_status {
    let exchange = |h: &mut smoother_handle| {
        h.call(Tables { u, f: None, r: None }, |core, arrays, watcher, options| core.exchange(arrays, watcher, options))
    };
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, exchange) }
}

/// Sets or removes the ghost function, which fills ghost cells that no patch covers.
///
/// The library calls the ghost function on the calling thread before each sweep, after the exchange between patches. It
/// can implement boundary conditions, or copy values from other levels or other ranks. Without a ghost function, the
/// library does not change the ghost cells that no patch covers.
///
/// # Parameters
/// - `h` (in/out): handle from `smoother_create`.
/// - `callback` (in): the ghost function `int32_t f(void *user, int32_t sweep, double *const *u)`; NULL removes it.
/// - `user` (in): pointer that is passed to `callback`; may be NULL.
///
/// `callback` receives the number of the sweep, counted from 0, or -1 before a residual is computed. `u` has one
/// pointer per patch, to the arrays of the call, or to the arrays of `smoother_upload` if the call passed NULL. If the
/// arrays are on a device, these are device pointers.
///
/// The callback must write ghost cells only. A nonzero result stops the call with `RRB_STOPPED`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL.
/// - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
///
/// # Notes
/// - `callback` must not use this handle, and must not throw an exception.
/// - Device work that the callback starts must be on the stream of `smoother_set_stream`, or be complete when the
///   callback returns.
/// - With `backend=cuda` and host arrays, each call of the ghost function transfers u to the host and back.
///
/// # Fortran
/// `call s%set_ghost_fill([fill] [, stat] [, errmsg])` with `procedure(smoother_ghost_fill) :: fill`; pass `stat` by
/// keyword
///
/// `fill` is a function of `integer, intent(in) :: sweep` and `type(smoother_patch), intent(inout) :: patches(:)`. Its
/// result is logical; `.true.` stops the call.
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
/// `h` must be NULL or come from `smoother_create`; `callback` must accept `user` until it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_ghost_fill(
    h: *mut smoother_handle,
    callback: smoother_ghost_fn,
    user: *mut c_void,
) -> rrb_status {
    let set = |h: &mut smoother_handle| {
        h.ghost_fill = GhostFill { callback, user };
        Ok(())
    };
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, set) }
}

/// Computes r = f - A u and its 2-norm over all patches.
///
/// The call first exchanges and fills the ghost cells of u; no other value of u changes. The norm is bitwise identical
/// for any number of threads.
///
/// # Parameters
/// - `h` (in/out): handle with patches.
/// - `u` (in/out): table of one pointer per patch, as for `smoother_apply`; only ghost cells are written.
/// - `f` (in): table of one pointer per patch, as for `smoother_apply`.
/// - `r` (out): table of one pointer per patch, to nx * ny * nz values; NULL if r is not needed.
/// - `norm2` (out): the 2-norm of r; unchanged after an error. May be NULL.
///
/// `u` and `f` may both be NULL: the call then works on the arrays of `smoother_upload`.
///
/// # Returns
/// `RRB_OK`, or `RRB_STOPPED` if the ghost function stopped the call. After `RRB_STOPPED`, `r` and `norm2` are not
/// valid.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, one of `u` and `f`, or a pointer in a table is NULL.
/// - `RRB_ERR_ARGUMENT`: an output array overlaps another array, or an array or table is not 8-byte aligned.
/// - `RRB_ERR_ARGUMENT`: with `backend=cuda`, the arrays are neither all on the host nor all on the device. With
///   uploaded arrays, r must be on the device.
/// - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts there; or
///   `u` and `f` are NULL before `smoother_upload`.
/// - `RRB_ERR_NOT_FINITE`: with `check_input`, a cell of u or f is NaN or infinite; or the norm is too large for a
///   double.
/// - `RRB_ERR_UNSUPPORTED`: `memory=device` without `backend=cuda`, or the handle was created before a fork.
/// - `RRB_ERR_MEMORY`: allocation failed (on a device only).
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Notes
/// The memory traffic is 16 bytes per cell, or 24 bytes with r. If squares overflow or underflow, a second pass
/// computes the norm with scaling.
///
/// # Fortran
/// `call s%residual(patches, norm2 [, stat] [, errmsg])`; or `s%residual(u, f, norm2 [, r] ...)` with tables of
/// `type(c_ptr)`; or `s%residual(norm2 [, r] ...)`
///
/// With `patches`, r is written to the component `r` of the patches, if it is associated in all of them.
///
/// # C++
/// `double rrbsolver::smoother::residual(patches u, const_patches f)`; `residual(u, f, patches r)`; `residual()`;
/// `residual(patches r)`
///
/// # Example
/// ```c
/// double norm = 0;
/// status = smoother_residual(solver, u, f, NULL, &norm);
/// printf("norm of the residual: %.3e\n", norm);
/// ```
///
/// # Safety
/// As for `smoother_apply`; `r` must be NULL or hold a pointer per patch to nx*ny*nz values, `norm2` be NULL or point
/// to a `double`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_residual(
    h: *mut smoother_handle,
    u: *const *mut f64,
    f: *const *const f64,
    r: *const *mut f64,
    norm2: *mut f64,
) -> rrb_status {
    let residual = |h: &mut smoother_handle| {
        let r = (!r.is_null()).then_some(r);
        let swept = h.call(Tables { u, f: Some(f), r }, |core, arrays, watcher, options| {
            core.residual(arrays, watcher, options)
        })?;
        if !norm2.is_null() {
            // SAFETY: not NULL, and the caller gave a double.
            unsafe { *norm2 = swept.residual };
        }
        Ok(status_of(&swept))
    };
    // SAFETY: as our caller promised.
    unsafe { with(h, residual) }
}

/// Copies u and f into arrays of the library, which exist until the next `smoother_set_patches`.
///
/// The arrays are on the device with `backend=cuda`, else on the host. After this call, the other functions accept NULL
/// tables and use these arrays. A second upload replaces the values.
///
/// # Parameters
/// - `h` (in/out): handle with patches.
/// - `u` (in): table of one pointer per patch, with ghost cells, as for `smoother_apply`. With NULL, u in the library
///   is unchanged; its initial value is zero.
/// - `f` (in): table of one pointer per patch. With NULL, f in the library is unchanged; its initial value is zero.
///
/// The arrays are only read, so several patches may use the same array.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` or a pointer in a table is NULL.
/// - `RRB_ERR_ARGUMENT`: an array or table is not 8-byte aligned; or, with `backend=cuda`, the arrays are neither all
///   on the host nor all on the device.
/// - `RRB_ERR_STATE`: `smoother_set_patches` has not succeeded since the last change of an option that acts there.
/// - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
/// - `RRB_ERR_MEMORY`: allocation failed, on the host or on the device.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Fortran
/// `call s%upload(patches [, stat] [, errmsg])`; or `s%upload([u] [, f] ...)` with tables of `type(c_ptr)`
///
/// # C++
/// `void rrbsolver::smoother::upload(const_patches u, const_patches f)`; `upload_u(const_patches u)`;
/// `upload_f(const_patches f)`
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
/// As for `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_upload(
    h: *mut smoother_handle,
    u: *const *const f64,
    f: *const *const f64,
) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, |h| h.upload(u, f)) }
}

/// Copies u from the library into the arrays of the caller, ghost cells included.
///
/// # Parameters
/// - `h` (in/out): handle with arrays from `smoother_upload`.
/// - `u` (out): table of one pointer per patch, as for `smoother_apply`.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h`, `u` or a pointer in the table is NULL.
/// - `RRB_ERR_ARGUMENT`: two arrays overlap; an array or the table is not 8-byte aligned; or, with `backend=cuda`, the
///   arrays are neither all on the host nor all on the device.
/// - `RRB_ERR_STATE`: `smoother_upload` has not succeeded since the last `smoother_set_patches`, or an option that acts
///   at set_patches has changed.
/// - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
/// - `RRB_ERR_MEMORY`: allocation of a list of copies failed.
/// - `RRB_ERR_DEVICE`: the CUDA driver reported an error.
///
/// # Fortran
/// `call s%download(patches [, stat] [, errmsg])`; or `s%download(u ...)` with a table of `type(c_ptr)`
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
/// As for `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_download(h: *mut smoother_handle, u: *const *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, |h| h.download(u)) }
}

/// Returns the addresses of the arrays of `smoother_upload`, for kernels of the caller.
///
/// The addresses are device pointers with `backend=cuda`, else host pointers. They are valid until the next
/// `smoother_set_patches` or `smoother_destroy`.
///
/// # Parameters
/// - `h` (in): handle with arrays from `smoother_upload`.
/// - `u` (out): table for one pointer per patch, to arrays with ghost cells; may be NULL.
/// - `f` (out): table for one pointer per patch; may be NULL.
///
/// # Returns
/// `RRB_OK`.
///
/// # Errors
/// - `RRB_ERR_NULL`: `h` is NULL.
/// - `RRB_ERR_STATE`: `smoother_upload` has not succeeded since the last `smoother_set_patches`, or an option that acts
///   at set_patches has changed.
/// - `RRB_ERR_UNSUPPORTED`: the handle was created before a fork.
///
/// # Notes
/// Kernels that write to the arrays must run on the stream of `smoother_set_stream`, or be complete before the next
/// call.
///
/// # Fortran
/// `call s%device_pointers(u, f [, stat] [, errmsg])` with `type(c_ptr) :: u(:), f(:)`
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
/// `h` must be NULL or come from `smoother_create`; `u` and `f` must be NULL or have room for a pointer per patch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_device_pointers(
    h: *mut smoother_handle,
    u: *mut *mut f64,
    f: *mut *mut f64,
) -> rrb_status {
    let pointers = |h: &mut smoother_handle| {
        let resident = h.resident()?;
        for (out, table) in [(u, &resident.u), (f, &resident.f_mut)] {
            if !out.is_null() {
                // SAFETY: not NULL, and the caller gave room for a pointer per patch.
                unsafe { std::ptr::copy_nonoverlapping(table.as_ptr(), out, table.len()) };
            }
        }
        Ok(())
    };
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, pointers) }
}

//! Family `smoother_`: block relaxation on 3D patches with constant-coefficient stencils.
//!
//! A patch covers cells lower .. lower + size - 1 of one level's index space. Its `u` has one layer of ghost cells,
//! (nx+2)(ny+2)(nz+2) values, x fastest; its `f` and `r` have nx*ny*nz. Arrays come as tables of one pointer a patch.

mod arrays;
mod handle;
mod watch;

pub use handle::smoother_handle;

use crate::error::{Error, RRB_OK, RRB_STOPPED};
use crate::ffi::handle::{create, with, with_ok};
use crate::ffi::spaces::check_array;
use crate::ffi::{rrb_status, smoother_ghost_fn};
use arrays::Tables;
use libc::c_void;
use watch::GhostFill;

/// Makes a smoother for a stencil of 7 points (center, west, east, south, north, bottom, top) or 27 (the 3x3x3 cube, x
/// fastest), (A u)[c] = sum over k of stencil[k] u[c + offset k], and blocks of bx x by x bz cells, 1 to 8 a side.
/// The values are copied. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (other point counts, blocks above 8),
/// `RRB_ERR_DIMENSION` (a block side below 1), `RRB_ERR_NOT_FINITE`, `RRB_ERR_MEMORY`. Cost: none worth naming; blocks
/// are inverted at `smoother_set_patches`.
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

/// Takes a list of `count` patches, cells lower .. lower + size - 1 each, all of one level. Blocks are cut at multiples
/// of the block size of the global index and end at the patches' edges; inverses of new shapes are computed, those
/// there are stay, so that a call after regridding is cheap. Finds which patch has whose ghost cells. 0 patches are
/// allowed. Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION` (a size below 1, too large), `RRB_ERR_ARGUMENT` (patches
/// overlap), `RRB_ERR_MATRIX` (a singular block, by its place), `RRB_ERR_UNSUPPORTED`
/// (`block_solver=fast_diagonalization` for a stencil or blocks for which it is not, or what this build lacks),
/// `RRB_ERR_NO_DEVICE`, `RRB_ERR_MEMORY`. After an error the handle has no patches. Cost: for dense blocks 2 n^3 flops
/// per shape of n cells.
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

/// `sweeps` sweeps of the chosen method on all patches: u is the iterate, in and out; f is not written. Before each
/// sweep ghost cells that other patches cover are read from them, and the ghost function fills the others: cells get
/// what they get by an exchange after each sweep. When the call ends ghost cells are those that its last sweep read:
/// `smoother_exchange` fills them anew, and the next call does so itself. With u and f NULL the patches of
/// `smoother_upload` are relaxed. Returns `RRB_OK`, or `RRB_STOPPED` where the ghost function or the monitor asked.
/// Errors: `RRB_ERR_NULL` (of a table, of a patch), `RRB_ERR_ARGUMENT` (sweeps < 0; arrays overlap, or lie at no
/// multiple of 8 bytes), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE` (with `check_input`, one more pass over u and f; cells,
/// not ghosts; and a residual for the monitor that is too large for a double: u is then as the sweeps before have left
/// it), `RRB_ERR_UNSUPPORTED` (`remainder=overlap` where blocks would race), `RRB_ERR_DEVICE`. With `backend=cuda` the
/// arrays are on the handle's device or on the host, all of a call in one space (else `RRB_ERR_ARGUMENT`); those on the
/// host travel in groups beside the work (`transfer`). Takes no memory, but for the device's copies of host arrays at
/// the first such call; starts no thread. Cost of a sweep: 24 bytes of memory traffic a cell in place, 32 for Jacobi; 8
/// x 8 x 8 blocks about 35 flops a cell. 0 sweeps check the input and call the monitor once. Source: Rodriguez et al.,
/// algorithms 1 to 3.
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

/// Ghost cells of u that another patch of the list covers are read from it; nothing else is written. With u NULL the
/// patches of `smoother_upload`. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap), `RRB_ERR_STATE`.
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

/// Sets (or with NULL removes) the function that fills ghost cells which no patch covers: called on the calling thread
/// before each sweep, after the exchange between patches, with the number of the sweep from 0 and the arrays as they
/// are at that time (those of the call, or the library's own where Jacobi alternates; device pointers where the call's
/// are); what it starts on a device must be on the stream of `smoother_set_stream`, or done when it returns. Arrays of
/// the host travel back and forth for it. Nonzero ends the call with `RRB_STOPPED`. Where a residual is computed
/// instead of a sweep, the number is -1. It must write ghost cells only and must not use this handle. Errors:
/// `RRB_ERR_NULL`.
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

/// r = f - A u with fresh ghost cells (exchange and ghost function), which are written into u, and `norm2`, its 2-norm
/// over all patches, the same bits for any number of threads, at any scale: squares that pass the range of a double are
/// scaled, in a second pass. No other value of u is written. r may be NULL, and norm2 too. With u and f NULL the
/// patches of `smoother_upload`. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; r on the host beside patches of
/// `smoother_upload` on a device), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE` (a norm too large for a double; with
/// `check_input` also NaN and infinity in u and f, by their place). Returns `RRB_STOPPED` where the ghost function
/// asked. Cost: 16 bytes a cell, 24 with r.
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
        Ok(if swept.stopped { RRB_STOPPED } else { RRB_OK })
    };
    // SAFETY: as our caller promised.
    unsafe { with(h, residual) }
}

/// Copies u and f into memory of the library, on the device or, with a CPU backend, on the host, where they stay
/// between calls: `smoother_apply` and the others then take NULL. Called again, it takes new values; u or f may be
/// NULL to leave what is there. u and f are only read: patches may share an array. The copies end with
/// `smoother_set_patches`. Errors: `RRB_ERR_NULL`, `RRB_ERR_STATE`, `RRB_ERR_MEMORY`.
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

/// Copies the library's u, ghost cells included, into the caller's. Errors: `RRB_ERR_NULL`, `RRB_ERR_STATE`.
///
/// # Safety
/// As for `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_download(h: *mut smoother_handle, u: *const *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, |h| h.download(u)) }
}

/// The library's arrays of `smoother_upload`, one pointer a patch, for kernels of the caller: device pointers, or host
/// pointers with a CPU backend. They live until the next `smoother_set_patches` or `smoother_destroy`. u or f may be
/// NULL. Errors: `RRB_ERR_NULL`, `RRB_ERR_STATE`.
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

//! Family `smoother_`: block relaxation on 3D patches with constant-coefficient stencils.
//!
//! A patch covers cells lower .. lower + size - 1 of one level's index space. Its `u` has one layer of ghost cells,
//! (nx+2)(ny+2)(nz+2) values, x fastest; its `f` and `r` have nx*ny*nz. Arrays come as tables of one pointer a patch.

use super::guard::{entry, entry_ok, quietly};
use super::log::Log;
use super::{environment, rrb_monitor_fn, rrb_status, smoother_ghost_fn};
use crate::backend;
use crate::backend::blocks::{BlockBackend, Kept, PatchArrays, Place, Pointers, Swept, Watcher};
use crate::backend::cuda::driver::{Space, space_of};
use crate::error::{Error, RRB_OK, RRB_STOPPED, Result, zeroed};
use crate::grid::block_inverse::Stencil;
use crate::grid::patches::Patch;
use crate::options::{Family, Options, RESULTS, ResultEntry, info, opt};
use crate::report::{History, StopReason};
use crate::solver::smoother::{Machine, Smoother};
use libc::{c_char, c_void};
use std::ffi::CStr;
use std::time::Instant;

/// One stencil and block size, with patches. One thread at a time; different handles are independent.
#[allow(non_camel_case_types)]
pub struct smoother_handle {
    stencil: Stencil,
    block: [usize; 3],
    options: Options,
    core: Option<Smoother>,
    /// Why `apply` must wait for `set_patches`.
    stale: Option<&'static str>,
    ghost_fill: smoother_ghost_fn,
    ghost_user: *mut c_void,
    monitor: rrb_monitor_fn,
    monitor_user: *mut c_void,
    stream: *mut c_void,
    log: Log,
    /// Bad entries of `RRBSOLVER_OPTIONS` were logged.
    complained: bool,
    history: History,
    swept: Swept,
    seconds_setup: f64,
    seconds_solve: f64,
    /// Room to sort the arrays of a call by address.
    extents: Vec<Extent>,
    resident: Option<Resident>,
    known: Known,
    process: u32,
}

const NO_PATCHES: &str = "smoother_set_patches must come before this call";
const FAILED: &str = "the last smoother_set_patches failed: it must succeed before this call";
const CHANGED: &str = "an option that acts at set_patches has changed: smoother_set_patches must come before this call";
const NOT_UPLOADED: &str = "u and f are NULL: smoother_upload must come before this call";

/// Numbers of `memory`.
const MEMORY_HOST: i64 = 1;
const MEMORY_DEVICE: i64 = 2;

/// Cells per side of a block at most.
const MOST_BLOCK: i64 = 8;

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
    entry_ok(|| {
        if out.is_null() {
            return Err(Error::Null("out"));
        }
        if stencil.is_null() {
            return Err(Error::Null("stencil"));
        }
        if ![7, 27].contains(&stencil_points) {
            let (name, value) = ("stencil_points", stencil_points.to_string());
            return Err(Error::Range { name, value, allowed: "be 7 or 27".to_owned() });
        }
        // SAFETY: not NULL, and the caller gave that many values.
        let values = unsafe { std::slice::from_raw_parts(stencil, stencil_points as usize) };
        let handle = Box::new(smoother_handle::new(values, [("bx", bx), ("by", by), ("bz", bz)])?);
        // SAFETY: not NULL, and the caller gave a pointer.
        unsafe { *out = Box::into_raw(handle) };
        Ok(())
    })
}

/// Takes a list of `count` patches, cells lower .. lower + size - 1 each, all of one level. Blocks are cut at multiples
/// of the block size of the global index and end at the patches' edges; inverses of new shapes are computed, those there
/// are stay, so that a call after regridding is cheap. Finds which patch has whose ghost cells. 0 patches are allowed.
/// Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION` (a size below 1, too large), `RRB_ERR_ARGUMENT` (patches overlap),
/// `RRB_ERR_MATRIX` (a singular block, by its place), `RRB_ERR_UNSUPPORTED`, `RRB_ERR_NO_DEVICE`, `RRB_ERR_MEMORY`.
/// After an error the handle has no patches. Cost: for dense blocks 2 n^3 flops per shape of n cells.
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
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        // SAFETY: as our caller promised.
        unsafe { h.set_patches(count, lower, size) }
    })
}

/// `sweeps` sweeps of the chosen method on all patches: u is the iterate, in and out; f is not written. Before each
/// sweep ghost cells that other patches cover are read from them, and the ghost function fills the others. With u and f
/// NULL the patches of `smoother_upload` are relaxed. Returns `RRB_OK`, or `RRB_STOPPED` where the ghost function or the
/// monitor asked. Errors: `RRB_ERR_NULL` (of a table, of a patch), `RRB_ERR_ARGUMENT` (sweeps < 0, arrays overlap),
/// `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE` (with `check_input`, one more pass over u and f; cells, not ghosts),
/// `RRB_ERR_UNSUPPORTED` (`remainder=overlap` where blocks would race), `RRB_ERR_DEVICE`. With `backend=cuda` the arrays are
/// on the handle's device or on the host, all of a call in one space (else `RRB_ERR_ARGUMENT`); those on the host travel in
/// groups beside the work (`transfer`). Takes no memory, but for the device's copies of host arrays at the first such call;
/// starts no thread.
/// Cost of a sweep: 24 bytes of memory traffic a cell in place, 32 for Jacobi; 8 x 8 x 8 blocks about 85 flops a cell.
/// Source: Rodriguez et al., algorithms 1 to 3.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`; `u` and `f` must be NULL or hold a pointer per patch, each NULL or to
/// (nx+2)(ny+2)(nz+2) and nx*ny*nz values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_apply(
    h: *mut smoother_handle,
    u: *const *mut f64,
    f: *const *const f64,
    sweeps: i32,
) -> rrb_status {
    entry(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        // SAFETY: as our caller promised.
        unsafe { h.apply(u, f, sweeps) }
    })
}

/// Ghost cells of u that another patch of the list covers are read from it; nothing else is written. With u NULL the
/// patches of `smoother_upload`. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap), `RRB_ERR_STATE`.
///
/// # Safety
/// As for `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_exchange(h: *mut smoother_handle, u: *const *mut f64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        h.call(Tables { u, f: None, r: None }, |core, arrays, watcher, options| core.exchange(arrays, watcher, options))
    })
}

/// Sets (or with NULL removes) the function that fills ghost cells which no patch covers: called on the calling thread
/// before each sweep, after the exchange between patches, with the number of the sweep from 0 and the arrays as they are
/// at that time (those of the call, or the library's own where Jacobi alternates; device pointers where the call's are); what
/// it starts on a device must be on the stream of `smoother_set_stream`, or done when it returns. Arrays of the host travel
/// back and forth for it. Nonzero ends the call with `RRB_STOPPED`. Where a residual is computed instead of a sweep, the number is -1. It must write ghost
/// cells only and must not use this handle. Errors: `RRB_ERR_NULL`.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`; `callback` must accept `user` until it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_ghost_fill(
    h: *mut smoother_handle,
    callback: smoother_ghost_fn,
    user: *mut c_void,
) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        (h.ghost_fill, h.ghost_user) = (callback, user);
        Ok(())
    })
}

/// r = f - A u with fresh ghost cells (exchange and ghost function), and `norm2`, its 2-norm over all patches, the same
/// bits for any number of threads. r may be NULL, and norm2 too. With u and f NULL the patches of `smoother_upload`.
/// Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; r on the host beside patches of `smoother_upload` on a device),
/// `RRB_ERR_STATE`. Returns `RRB_STOPPED` where the ghost function asked. Cost: 16 bytes a cell, 24 with r.
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
    entry(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        let r = (!r.is_null()).then_some(r);
        let swept = h.call(Tables { u, f: Some(f), r }, |core, arrays, watcher, options| {
            core.residual(arrays, watcher, options)
        })?;
        if !norm2.is_null() {
            // SAFETY: not NULL, and the caller gave a double.
            unsafe { *norm2 = swept.residual };
        }
        Ok(if swept.stopped { RRB_STOPPED } else { RRB_OK })
    })
}

/// Copies u and f into memory of the library, on the device or, with a CPU backend, on the host, where they stay between
/// calls: `smoother_apply` and the others then take NULL. Called again, it takes new values; u or f may be NULL to leave
/// what is there. The copies end with `smoother_set_patches`. Errors: `RRB_ERR_NULL`, `RRB_ERR_STATE`, `RRB_ERR_MEMORY`.
///
/// # Safety
/// As for `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_upload(
    h: *mut smoother_handle,
    u: *const *mut f64,
    f: *const *const f64,
) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        // SAFETY: as our caller promised.
        unsafe { h.upload(u, f) }
    })
}

/// Copies the library's u, ghost cells included, into the caller's. Errors: `RRB_ERR_NULL`, `RRB_ERR_STATE`.
///
/// # Safety
/// As for `smoother_apply`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_download(h: *mut smoother_handle, u: *const *mut f64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        // SAFETY: as our caller promised.
        unsafe { h.download(u) }
    })
}

/// The library's arrays of `smoother_upload`, one pointer a patch, for kernels of the caller: device pointers, or host
/// pointers with a CPU backend. They live until the next `smoother_set_patches` or `smoother_destroy`. u or f may be NULL.
/// Errors: `RRB_ERR_NULL`, `RRB_ERR_STATE`.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`; `u` and `f` must be NULL or have room for a pointer per patch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_device_pointers(
    h: *mut smoother_handle,
    u: *mut *mut f64,
    f: *mut *mut f64,
) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        h.check_fresh()?;
        let resident = h.resident.as_ref().ok_or_else(|| Error::State(NOT_UPLOADED.to_owned()))?;
        for (out, table) in [(u, &resident.u), (f, &resident.f_mut)] {
            if !out.is_null() {
                // SAFETY: not NULL, and the caller gave room for a pointer per patch.
                unsafe { std::ptr::copy_nonoverlapping(table.as_ptr(), out, table.len()) };
            }
        }
        Ok(())
    })
}

/// Frees the handle and sets the pointer to NULL. NULL, and a pointer to NULL, are no errors.
///
/// # Safety
/// `h` must be NULL or point to NULL or to a pointer from `smoother_create` that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_destroy(h: *mut *mut smoother_handle) -> rrb_status {
    entry_ok(|| {
        if h.is_null() {
            return Ok(());
        }
        // SAFETY: not NULL; what it points to is NULL or ours, and set to NULL so that it is freed once.
        unsafe {
            let inner = std::mem::replace(&mut *h, std::ptr::null_mut());
            if !inner.is_null() {
                let handle = Box::from_raw(inner);
                if handle.process != std::process::id() {
                    // After a fork the threads of the team are not there to be joined.
                    std::mem::forget(handle);
                }
            }
        }
        Ok(())
    })
}

/// Sets a whole-number option or a choice. Errors: `RRB_ERR_NULL`, `RRB_ERR_OPTION` (unknown key),
/// `RRB_ERR_ARGUMENT` (out of range); what a value needs (block inverses of `stagger`, a second array of
/// `block_jacobi`) is made here, with the errors of `smoother_set_patches`.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_int(h: *mut smoother_handle, key: i32, value: i64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        unsafe { checked(h)? }.set(|o| o.set_int(key, value))
    })
}

/// Sets a real option. Errors as for `smoother_set_int`.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_real(h: *mut smoother_handle, key: i32, value: f64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        unsafe { checked(h)? }.set(|o| o.set_real(key, value))
    })
}

/// Sets options from text, such as "method=block_jacobi omega=0.8"; all of them, or with an error none.
/// Errors: as for `smoother_set_int`, and `RRB_ERR_IO` for a log file that cannot be opened.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`; `text` must be NULL or end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_options(h: *mut smoother_handle, text: *const c_char) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        if text.is_null() {
            return Err(Error::Null("text"));
        }
        // SAFETY: not NULL, and the caller promised NUL at the end.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        h.set(|o| o.set_text(&text))
    })
}

/// Reads a whole-number option or result. Errors: `RRB_ERR_NULL`, `RRB_ERR_OPTION`. Results of calls that were not made
/// are 0.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`; `value` must be NULL or point to an `int64_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_get_int(h: *const smoother_handle, key: i32, value: *mut i64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked_const(h)? };
        if value.is_null() {
            return Err(Error::Null("value"));
        }
        let v = match h.result(key) {
            Some((r, _)) if r.real => return Err(Error::Option(format!("{} is real: use get_real", r.name))),
            Some((_, v)) => v as i64,
            None => h.options.get_int(key)?,
        };
        // SAFETY: not NULL, and the caller gave an int64_t.
        unsafe { *value = v };
        Ok(())
    })
}

/// Reads a real option or result; whole numbers are converted. Errors as for `smoother_get_int`.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`; `value` must be NULL or point to a `double`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_get_real(h: *const smoother_handle, key: i32, value: *mut f64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked_const(h)? };
        if value.is_null() {
            return Err(Error::Null("value"));
        }
        let v = match h.result(key) {
            Some((_, v)) => v,
            None => h.options.get_real(key)?,
        };
        // SAFETY: not NULL, and the caller gave a double.
        unsafe { *value = v };
        Ok(())
    })
}

/// The CUDA stream to work on; NULL: the handle's own, a non-blocking one. Without effect on the CPU. Device arrays
/// that other streams (the default one too) still write must be synchronized by the caller before a call. A stream is
/// replaced by this call before it is destroyed. Errors: `RRB_ERR_NULL`, `RRB_ERR_DEVICE` (a stream of another device
/// or context; the one before stays).
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_stream(h: *mut smoother_handle, cuda_stream: *mut c_void) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        if let Some(core) = &mut h.core {
            // Before set_patches, which may be for another device, its own will do.
            core.use_stream(if h.stale.is_none() { cuda_stream as usize } else { 0 })?;
        }
        h.stream = cuda_stream;
        Ok(())
    })
}

/// Sets (or with NULL removes) the monitor: called on the calling thread before the first sweep and after each one with
/// ||f - A u||_2 relative to its value before the first; nonzero ends the call with `RRB_STOPPED`. It costs a pass over
/// u and f per sweep. It must not use this handle. Errors: `RRB_ERR_NULL`, `RRB_ERR_MEMORY`.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`; `callback` must accept `user` until it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_set_monitor(
    h: *mut smoother_handle,
    callback: rrb_monitor_fn,
    user: *mut c_void,
) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        h.history.reserve(h.options.int(opt::MAX_ITER) as usize)?;
        (h.monitor, h.monitor_user) = (callback, user);
        Ok(())
    })
}

/// Relative residuals that the monitor was given in the last apply (at most `max_iter` + 1 and 1,000,000 are kept): writes
/// at most `capacity` of them, and their number to `count`. `residuals` may be NULL with `capacity` 0.
/// Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT`.
///
/// # Safety
/// `h` must be NULL or come from `smoother_create`; `residuals` must have room for `capacity` values; `count` must be NULL
/// or point to an `int64_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn smoother_get_history(
    h: *const smoother_handle,
    residuals: *mut f64,
    capacity: i64,
    count: *mut i64,
) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked_const(h)? };
        if count.is_null() {
            return Err(Error::Null("count"));
        }
        if capacity < 0 {
            return Err(Error::Range { name: "capacity", value: capacity.to_string(), allowed: "be >= 0".to_owned() });
        }
        if residuals.is_null() && capacity > 0 {
            return Err(Error::Null("residuals"));
        }
        let kept = h.history.residuals();
        let n = kept.len().min(capacity as usize);
        // SAFETY: neither is NULL where written, n <= capacity, and the caller gave that much room.
        unsafe {
            if n > 0 {
                std::ptr::copy_nonoverlapping(kept.as_ptr(), residuals, n);
            }
            *count = kept.len() as i64;
        }
        Ok(())
    })
}

/// # Safety
/// `h` must be NULL or come from `smoother_create`.
unsafe fn checked<'a>(h: *mut smoother_handle) -> Result<&'a mut smoother_handle> {
    // SAFETY: as our caller promised.
    let h = unsafe { h.as_mut() }.ok_or(Error::Null("handle"))?;
    h.check_process()?;
    Ok(h)
}

/// # Safety
/// `h` must be NULL or come from `smoother_create`.
unsafe fn checked_const<'a>(h: *const smoother_handle) -> Result<&'a smoother_handle> {
    // SAFETY: as our caller promised.
    let h = unsafe { h.as_ref() }.ok_or(Error::Null("handle"))?;
    h.check_process()?;
    Ok(h)
}

/// Addresses of one array.
#[derive(Clone, Copy)]
struct Extent {
    start: usize,
    end: usize,
    written: bool,
    name: &'static str,
    patch: usize,
}

/// The library's own copies of u and f: on the device, or on the host.
struct Resident {
    /// Where they are on the host; empty with a device.
    arrays: Vec<Vec<f64>>,
    u: Vec<*mut f64>,
    f: Vec<*const f64>,
    f_mut: Vec<*mut f64>,
}

impl Resident {
    fn new(core: &mut Smoother) -> Result<Self> {
        let mut arrays = Vec::new();
        let kept = if core.device().is_some() {
            core.keep_arrays()?
        } else {
            let patches = core.patches();
            for len in patches.iter().map(Patch::ghosted).chain(patches.iter().map(Patch::cells)) {
                arrays.push(zeroed(len, "resident patches")?);
            }
            let (u, f) = arrays.split_at_mut(patches.len());
            let pointers = |arrays: &mut [Vec<f64>]| arrays.iter_mut().map(Vec::as_mut_ptr).collect();
            Kept { u: pointers(u), f: pointers(f) }
        };
        Ok(Self { arrays, f: kept.f.iter().map(|p| p.cast_const()).collect(), u: kept.u, f_mut: kept.f })
    }

    fn bytes(&self) -> usize {
        self.arrays.iter().map(|a| a.len() * size_of::<f64>()).sum()
    }
}

/// The caller's tables of one call.
#[derive(Clone, Copy)]
struct Tables {
    u: *const *mut f64,
    /// `None` where the call has no f.
    f: Option<*const *const f64>,
    r: Option<*const *mut f64>,
}

/// Tables that were checked: every pointer is to the values of its patch.
struct Given<'a> {
    patches: &'a [Patch],
    pointers: Pointers<'a>,
    on_device: bool,
}

impl PatchArrays for Given<'_> {
    fn u(&self, patch: usize) -> &[f64] {
        // SAFETY: checked not to be NULL, and of the size that the caller promised; no &mut of it lives, since `u_mut`
        // borrows self.
        unsafe { std::slice::from_raw_parts(self.pointers.u[patch], self.patches[patch].ghosted()) }
    }

    fn u_mut(&mut self, patch: usize) -> &mut [f64] {
        // SAFETY: as above, and checked to overlap no other array.
        unsafe { std::slice::from_raw_parts_mut(self.pointers.u[patch], self.patches[patch].ghosted()) }
    }

    fn f(&self, patch: usize) -> &[f64] {
        // SAFETY: as for u.
        unsafe { std::slice::from_raw_parts(self.pointers.f[patch], self.patches[patch].cells()) }
    }

    fn r_mut(&mut self, patch: usize) -> Option<&mut [f64]> {
        let r = *self.pointers.r.get(patch)?;
        // SAFETY: as for u_mut.
        Some(unsafe { std::slice::from_raw_parts_mut(r, self.patches[patch].cells()) })
    }

    fn pointers(&self) -> Pointers<'_> {
        self.pointers
    }

    fn on_device(&self) -> bool {
        self.on_device
    }
}

impl smoother_handle {
    fn new(stencil: &[f64], sides: [(&'static str, i64); 3]) -> Result<Self> {
        for (name, side) in sides {
            if side < 1 {
                return Err(Error::Dimension(format!("{name} must lie in [1, {MOST_BLOCK}], got {side}")));
            }
            if side > MOST_BLOCK {
                return Err(Error::Range {
                    name,
                    value: side.to_string(),
                    allowed: format!("lie in [1, {MOST_BLOCK}]"),
                });
            }
        }
        if let Some(index) = stencil.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFiniteEntry { name: "stencil", value: stencil[index], index });
        }
        let mut h = Self {
            stencil: Stencil::new(stencil),
            block: sides.map(|(_, side)| side as usize),
            options: Options::new(Family::Smoother),
            core: None,
            stale: Some(NO_PATCHES),
            ghost_fill: None,
            ghost_user: std::ptr::null_mut(),
            monitor: None,
            monitor_user: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            log: Log::default(),
            complained: false,
            history: History::default(),
            swept: Swept::default(),
            seconds_setup: 0.0,
            seconds_solve: 0.0,
            extents: Vec::new(),
            resident: None,
            known: Known::default(),
            process: std::process::id(),
        };
        h.set(|_| Ok(()))?;
        Ok(h)
    }

    fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            Ok(())
        } else {
            Err(Error::Unsupported("the handle was made before a fork: make a new one in the child process".to_owned()))
        }
    }

    fn check_fresh(&self) -> Result<()> {
        self.stale.map_or(Ok(()), |reason| Err(Error::State(reason.to_owned())))
    }

    /// Changes options; `RRBSOLVER_OPTIONS` is applied on top, so that it wins.
    fn set(&mut self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()> {
        let mut next = self.options.clone();
        change(&mut next)?;
        let mut log = self.open_log(&next)?;
        let mut complaints = Vec::new();
        if let Some(text) = environment::options() {
            let own = next.clone();
            next.set_text_leniently(&text, |e| complaints.push(e.clone()));
            if next.log() != own.log() {
                match self.open_log(&next) {
                    Ok(opened) => log = opened,
                    Err(e) => {
                        complaints.push(e);
                        next.take_log(&own);
                    }
                }
            }
        }
        if let Some(log) = log {
            self.log = log;
        }
        // Once a handle, though the text is applied at every change.
        if !std::mem::replace(&mut self.complained, true) {
            for complaint in complaints {
                self.log.line(0, format_args!("RRBSOLVER_OPTIONS: {complaint}"));
            }
        }
        if self.monitor.is_some() {
            self.history.reserve(next.int(opt::MAX_ITER) as usize)?;
        }
        if !next.same_setup(&self.options) && self.stale.is_none() {
            self.stale = Some(CHANGED);
        }
        if let (None, Some(core)) = (self.stale, &mut self.core) {
            core.use_stream(self.stream as usize)?;
            core.prepare(&next)?;
        }
        self.options = next;
        Ok(())
    }

    /// The log of `options`, where it is not the one in use.
    fn open_log(&self, options: &Options) -> Result<Option<Log>> {
        if options.log() == self.options.log() { Ok(None) } else { Log::open(options.log()).map(Some) }
    }

    /// # Safety
    /// `lower` and `size` must be NULL or hold `count` triples.
    unsafe fn set_patches(&mut self, count: i64, lower: *const [i64; 3], size: *const [i64; 3]) -> Result<()> {
        self.stale = Some(FAILED);
        self.resident = None;
        if count < 0 {
            return Err(Error::Dimension(format!("count must be at least 0, got {count}")));
        }
        if count > 0 && lower.is_null() {
            return Err(Error::Null("lower"));
        }
        if count > 0 && size.is_null() {
            return Err(Error::Null("size"));
        }
        let mut patches: Vec<Patch> = Vec::new();
        let no_memory = |_| Error::Memory(format!("no memory for {count} patches"));
        patches.try_reserve_exact(count as usize).map_err(no_memory)?;
        let mut cells = 0usize;
        for p in 0..count as usize {
            // SAFETY: neither is NULL, and p < count.
            let (lower, size) = unsafe { (*lower.add(p), *size.add(p)) };
            let patch = checked_patch(p, lower, size)?;
            cells = cells
                .checked_add(patch.ghosted())
                .filter(|&c| c <= isize::MAX as usize / 8)
                .ok_or_else(|| Error::Dimension("the patches have more cells than can be addressed".to_owned()))?;
            patches.push(patch);
        }
        self.extents.clear();
        let room = 3 * patches.len();
        self.extents.try_reserve(room).map_err(|_| Error::Memory(format!("no memory for {room} addresses")))?;

        let start = Instant::now();
        let threads = environment::threads(self.options.int(opt::THREADS) as usize);
        let operator = (&self.stencil, self.block);
        let machine = Machine { threads, devices: backend::cuda::device_count() };
        let previous = self.core.take();
        self.known.clear();
        let stream = self.stream as usize;
        let options = &self.options;
        self.core = Some(Smoother::set_patches(previous, operator, patches, options, machine, stream, make_backend)?);
        self.stale = None;
        self.seconds_setup = start.elapsed().as_secs_f64();
        Ok(())
    }

    /// # Safety
    /// The tables must be NULL or hold a pointer per patch.
    unsafe fn apply(&mut self, u: *const *mut f64, f: *const *const f64, sweeps: i32) -> Result<i32> {
        if sweeps < 0 {
            return Err(Error::Range { name: "sweeps", value: sweeps.to_string(), allowed: "be >= 0".to_owned() });
        }
        let start = Instant::now();
        self.history.clear();
        self.swept = Swept::default();
        let swept = self.call(Tables { u, f: Some(f), r: None }, |core, arrays, watcher, options| {
            core.apply(arrays, watcher, options, sweeps as usize)
        })?;
        self.swept = swept;
        self.seconds_solve = start.elapsed().as_secs_f64();
        if self.options.int(opt::VERBOSITY) >= 1 {
            let count = self.core.as_ref().map_or(0, |c| c.patches().len());
            let milliseconds = 1e3 * self.seconds_solve;
            self.log.line(1, format_args!("smoother: {count} patches, {} sweeps, {milliseconds:.3} ms", swept.sweeps));
        }
        Ok(if swept.stopped { RRB_STOPPED } else { RRB_OK })
    }

    /// Checks the tables and hands them to `work`.
    fn call<T>(
        &mut self,
        tables: Tables,
        work: impl FnOnce(&mut Smoother, &mut dyn PatchArrays, &mut dyn Watcher, &Options) -> Result<T>,
    ) -> Result<T> {
        self.check_fresh()?;
        let core = self.core.as_mut().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let list = core.list().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let patches = &list.patches[..];
        let count = patches.len();
        let no_f = tables.f.is_none_or(|f| f.is_null());
        let own = tables.u.is_null() && no_f;
        let mut pointers = if own {
            match &self.resident {
                Some(resident) => Pointers { u: &resident.u, f: &resident.f, r: &[] },
                None if count == 0 => Pointers { u: &[], f: &[], r: &[] },
                None if tables.f.is_none() => return Err(Error::Null("u")),
                None => return Err(Error::State(NOT_UPLOADED.to_owned())),
            }
        } else {
            if tables.u.is_null() {
                return Err(Error::Null("u"));
            }
            // SAFETY: not NULL, and the caller gave a pointer per patch.
            let u = unsafe { std::slice::from_raw_parts(tables.u, count) };
            let f = match tables.f {
                None => &[][..],
                Some(f) if f.is_null() => return Err(Error::Null("f")),
                // SAFETY: as above.
                Some(f) => unsafe { std::slice::from_raw_parts(f, count) },
            };
            Pointers { u, f, r: &[] }
        };
        if let Some(r) = tables.r {
            // SAFETY: not NULL, and the caller gave a pointer per patch.
            pointers.r = unsafe { std::slice::from_raw_parts(r, count) };
        }
        check_arrays(patches, &pointers, &mut self.extents)?;
        let spaces = (core.device(), self.options.int(opt::MEMORY));
        let on_device = if own {
            let r = Pointers { u: &[], f: &[], r: pointers.r };
            check_spaces(spaces, &r, true, &mut self.known)?;
            core.device().is_some()
        } else {
            check_spaces(spaces, &pointers, false, &mut self.known)?
        };
        core.use_stream(self.stream as usize)?;
        let mut watch = Watch {
            ghost_fill: self.ghost_fill,
            ghost_user: self.ghost_user,
            monitor: self.monitor,
            monitor_user: self.monitor_user,
            history: &mut self.history,
            log: &mut self.log,
            verbosity: self.options.int(opt::VERBOSITY),
            failed: None,
        };
        let result = work(core, &mut Given { patches, pointers, on_device }, &mut watch, &self.options);
        watch.failed.map_or(result, Err)
    }

    /// # Safety
    /// The tables must be NULL or hold a pointer per patch.
    unsafe fn upload(&mut self, u: *const *mut f64, f: *const *const f64) -> Result<()> {
        self.check_fresh()?;
        let core = self.core.as_mut().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let list = core.list().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let patches = &list.patches[..];
        // SAFETY: where not NULL, the caller gave a pointer per patch.
        let (u, f) = unsafe {
            (
                if u.is_null() { &[][..] } else { std::slice::from_raw_parts(u, patches.len()) },
                if f.is_null() { &[][..] } else { std::slice::from_raw_parts(f, patches.len()) },
            )
        };
        check_arrays(patches, &Pointers { u, f, r: &[] }, &mut self.extents)?;
        let spaces = (core.device(), self.options.int(opt::MEMORY));
        check_spaces(spaces, &Pointers { u, f, r: &[] }, false, &mut self.known)?;
        core.use_stream(self.stream as usize)?;
        let lengths: Vec<(usize, usize)> = patches.iter().map(|p| (p.ghosted(), p.cells())).collect();
        if self.resident.is_none() {
            self.resident = Some(Resident::new(core)?);
        }
        let Some(resident) = &self.resident else { return Ok(()) };
        let u = resident.u.iter().zip(u).zip(&lengths).map(|((to, from), len)| (*to, from.cast_const(), len.0));
        let f = resident.f_mut.iter().zip(f).zip(&lengths).map(|((to, from), len)| (*to, *from, len.1));
        let copies: Vec<_> = u.chain(f).collect();
        copy_all(core, &copies)
    }

    /// # Safety
    /// The table must be NULL or hold a pointer per patch.
    unsafe fn download(&mut self, u: *const *mut f64) -> Result<()> {
        self.check_fresh()?;
        if u.is_null() {
            return Err(Error::Null("u"));
        }
        let core = self.core.as_mut().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let list = core.list().ok_or_else(|| Error::State(NO_PATCHES.to_owned()))?;
        let patches = &list.patches[..];
        let resident = self.resident.as_ref().ok_or_else(|| Error::State(NOT_UPLOADED.to_owned()))?;
        // SAFETY: not NULL, and the caller gave a pointer per patch.
        let u = unsafe { std::slice::from_raw_parts(u, patches.len()) };
        check_arrays(patches, &Pointers { u, f: &[], r: &[] }, &mut self.extents)?;
        let spaces = (core.device(), self.options.int(opt::MEMORY));
        check_spaces(spaces, &Pointers { u, f: &[], r: &[] }, false, &mut self.known)?;
        let copies: Vec<_> = resident
            .u
            .iter()
            .zip(u)
            .zip(patches)
            .map(|((from, to), p)| (*to, from.cast_const(), p.ghosted()))
            .collect();
        core.use_stream(self.stream as usize)?;
        copy_all(core, &copies)
    }

    /// A result with its value; whole numbers fit a double here.
    fn result(&self, key: i32) -> Option<(&'static ResultEntry, f64)> {
        let entry = RESULTS.iter().find(|r| r.key == key && [Family::Common, Family::Smoother].contains(&r.family))?;
        let core = self.core.as_ref();
        let of_core = |get: &dyn Fn(&Smoother) -> f64| core.map_or(0.0, get);
        let relative =
            |norm: f64| if self.swept.initial_residual > 0.0 { norm / self.swept.initial_residual } else { 0.0 };
        let value = match key {
            info::ITERATIONS => self.swept.sweeps as f64,
            info::STOP_REASON if self.swept.stopped => f64::from(StopReason::Monitor as i32),
            info::INITIAL_RESIDUAL => relative(self.swept.initial_residual),
            info::FINAL_RESIDUAL => relative(self.swept.residual),
            info::SECONDS_SETUP => self.seconds_setup,
            info::SECONDS_SOLVE => self.seconds_solve,
            info::BYTES_HOST => {
                of_core(&|c| c.bytes() as f64) + self.resident.as_ref().map_or(0, Resident::bytes) as f64
            }
            info::BACKEND => of_core(&|c| c.backend() as f64),
            info::DEVICE => f64::from(core.and_then(Smoother::device).unwrap_or(-1)),
            info::BYTES_DEVICE => of_core(&|c| c.device_bytes() as f64),
            info::SECONDS_TRANSFER => of_core(&Smoother::seconds_transfer),
            info::THREADS => of_core(&|c| c.threads() as f64),
            info::BLOCK_SOLVER => of_core(&|c| c.block_solver() as f64),
            info::BLOCK_INVERSES => of_core(&|c| c.inverses() as f64),
            info::GHOST_COPIES => of_core(&|c| c.ghost_copies() as f64),
            info::CELLS => of_core(&|c| c.patches().iter().map(Patch::cells).sum::<usize>() as f64),
            _ => 0.0,
        };
        Some((entry, value))
    }
}

/// Patch p with sizes of at least 1, and ends and products that can be counted.
fn checked_patch(p: usize, lower: [i64; 3], size: [i64; 3]) -> Result<Patch> {
    // Far from where neighbours' indices would overflow.
    const FARTHEST: u64 = 1 << 60;
    let mut values = 1usize;
    for d in 0..3 {
        let axis = ["x", "y", "z"][d];
        if size[d] < 1 {
            return Err(Error::PatchSize { patch: p, axis, size: size[d] });
        }
        if lower[d].unsigned_abs() > FARTHEST {
            return Err(Error::PatchLower { patch: p, axis, lower: lower[d] });
        }
        if size[d].unsigned_abs() > FARTHEST {
            return Err(Error::PatchSize { patch: p, axis, size: size[d] });
        }
        values = values
            .checked_mul(size[d] as usize + 2)
            .filter(|&v| v <= isize::MAX as usize / 8)
            .ok_or(Error::PatchSize { patch: p, axis, size: size[d] })?;
    }
    Ok(Patch { lower, size: size.map(|n| n as usize) })
}

/// No pointer is NULL, and no array that is written overlaps another.
fn check_arrays(patches: &[Patch], pointers: &Pointers, extents: &mut Vec<Extent>) -> Result<()> {
    extents.clear();
    let mut add = |name: &'static str, patch: usize, start: usize, len: usize, written: bool| {
        if start == 0 {
            return Err(Error::NullOfPatch { name, patch });
        }
        extents.push(Extent { start, end: start.saturating_add(len * size_of::<f64>()), written, name, patch });
        Ok(())
    };
    for (p, patch) in patches.iter().enumerate() {
        if let Some(u) = pointers.u.get(p) {
            add("u", p, *u as usize, patch.ghosted(), true)?;
        }
        if let Some(f) = pointers.f.get(p) {
            add("f", p, *f as usize, patch.cells(), false)?;
        }
        if let Some(r) = pointers.r.get(p) {
            add("r", p, *r as usize, patch.cells(), true)?;
        }
    }
    extents.sort_unstable_by_key(|e| e.start);
    // Of those before, the one that ends last, and the written one that ends last.
    let (mut last, mut last_written): (Option<Extent>, Option<Extent>) = (None, None);
    for &e in extents.iter() {
        let other = if e.written { last } else { last_written };
        if let Some(other) = other.filter(|o| o.end > e.start) {
            return Err(Error::OverlapOfPatches { first: (other.name, other.patch), second: (e.name, e.patch) });
        }
        for slot in [Some(&mut last), e.written.then_some(&mut last_written)].into_iter().flatten() {
            if slot.is_none_or(|s| s.end < e.end) {
                *slot = Some(e);
            }
        }
    }
    Ok(())
}

/// Copies arrays of patches that were checked: not NULL, in a space that the backend reaches.
fn copy_all(core: &mut Smoother, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
    if core.device().is_some() {
        return core.copy(copies);
    }
    for &(to, from, count) in copies {
        // SAFETY: of the sizes that the caller promised, on the host; they may be the same.
        unsafe { std::ptr::copy(from, to, count) };
    }
    Ok(())
}

/// Concrete backends are named here and nowhere else in this family.
fn make_backend(place: Place) -> Result<Box<dyn BlockBackend>> {
    Ok(match place {
        Place::Reference => Box::new(backend::reference::ReferenceBlocks::default()),
        Place::Cpu(threads) => Box::new(backend::cpu::CpuBlocks::new(threads)),
        Place::Cuda(device) => Box::new(backend::cuda::CudaBlocks::new(device)?),
    })
}

/// Addresses of a call whose space was found out, and what was asked about them.
#[derive(Default)]
struct Known {
    addresses: Vec<usize>,
    memory: i64,
    resident: bool,
    on_device: bool,
}

impl Known {
    fn clear(&mut self) {
        self.addresses.clear();
    }
}

/// Whether the arrays of a call are on the handle's device, all of them, or on the host. Beside `resident` patches they
/// must be where these are. The driver is asked once for the addresses of calls that follow each other.
fn check_spaces(
    (device, memory): (Option<i32>, i64),
    pointers: &Pointers,
    resident: bool,
    known: &mut Known,
) -> Result<bool> {
    let u = pointers.u.iter().map(|u| ("u", *u as usize));
    let f = pointers.f.iter().map(|f| ("f", *f as usize));
    let r = pointers.r.iter().map(|r| ("r", *r as usize));
    let count = pointers.u.len().max(pointers.f.len()).max(pointers.r.len());
    let all = || u.clone().chain(f.clone()).chain(r.clone());
    let Some(own) = device else { return Ok(false) };
    if memory == MEMORY_HOST && !resident {
        return Ok(false);
    }
    let asked = known.memory == memory && known.resident == resident && known.addresses.len() == all().count();
    if asked && all().zip(&known.addresses).all(|(a, k)| a.1 == *k) {
        return Ok(known.on_device);
    }
    known.clear();
    let mut first = resident.then_some(Space::Device(own));
    for (number, (name, address)) in all().enumerate() {
        let (patch, space) = (number % count.max(1), space_of(address)?);
        let wrong = |allowed: String| {
            let place = match space {
                Space::Device(d) => format!("device {d}"),
                Space::Host => "the host".to_owned(),
            };
            Error::SpaceOfPatch { name, patch, place, allowed }
        };
        match space {
            _ if resident && space != Space::Device(own) => {
                return Err(wrong(format!("on device {own}, where the patches of smoother_upload are")));
            }
            Space::Device(d) if d != own => return Err(wrong(format!("on device {own} or on the host"))),
            Space::Host if memory == MEMORY_DEVICE => return Err(wrong(format!("on device {own} (memory=device)"))),
            _ => {}
        }
        if *first.get_or_insert(space) != space {
            return Err(wrong("where the first patch's u is: all arrays of a call in one space".to_owned()));
        }
    }
    known.addresses.try_reserve(all().count()).map_err(|_| Error::Memory("no memory for addresses".to_owned()))?;
    known.addresses.extend(all().map(|a| a.1));
    (known.memory, known.resident) = (memory, resident);
    known.on_device = matches!(first, Some(Space::Device(_)));
    Ok(known.on_device)
}

/// Ghost function, monitor, history and log of one call.
struct Watch<'a> {
    ghost_fill: smoother_ghost_fn,
    ghost_user: *mut c_void,
    monitor: rrb_monitor_fn,
    monitor_user: *mut c_void,
    history: &'a mut History,
    log: &'a mut Log,
    verbosity: i64,
    failed: Option<Error>,
}

impl Watch<'_> {
    /// Answer of a callback; one that panics stops the call.
    fn answer(&mut self, what: &str, answer: Result<i32>) -> bool {
        match answer {
            Ok(stop) => stop != 0,
            Err(error) => {
                self.failed = Some(Error::Internal(format!("{what} failed: {error}")));
                true
            }
        }
    }
}

impl Watcher for Watch<'_> {
    fn fills(&self) -> bool {
        self.ghost_fill.is_some()
    }

    fn fill(&mut self, sweep: i32, u: &[*mut f64]) -> bool {
        let Some(callback) = self.ghost_fill else { return false };
        let user = self.ghost_user;
        // SAFETY: the caller of `smoother_set_ghost_fill` gave a function of this signature that accepts `user`.
        let answer = quietly(|| Ok(unsafe { callback(user, sweep, u.as_ptr()) }));
        self.answer("the ghost function", answer)
    }

    fn watched(&self) -> bool {
        self.monitor.is_some() || self.verbosity >= 2
    }

    fn show(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.history.push(relative_residual);
        if self.verbosity >= 2 {
            self.log.line(2, format_args!("smoother: sweep {sweep}: relative residual {relative_residual:.6e}"));
        }
        let Some(monitor) = self.monitor else { return false };
        let user = self.monitor_user;
        // SAFETY: the caller of `smoother_set_monitor` gave a function of this signature that accepts `user`.
        let answer = quietly(|| Ok(unsafe { monitor(user, sweep as i64, relative_residual) }));
        self.answer("the monitor", answer)
    }
}

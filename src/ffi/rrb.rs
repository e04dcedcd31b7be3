//! Family `rrb_`: 2D 5- and 9-point symmetric stencils.
//!
//! Arrays are `a[j * ld + i]`, i = 0 .. nx - 1 fastest: Fortran's `a(nx, ny)`. `east[i, j]` is the matrix entry
//! between (i, j) and (i + 1, j), and so on. Pointers are borrowed for the call only.

use crate::backend;
use crate::backend::cuda::driver::Space;
use crate::backend::steps::rrb::Arrays;
use crate::error::{Error, RRB_NOT_CONVERGED, RRB_OK, RRB_STOPPED, Result};
use crate::ffi::guard::{callback, entry, entry_ok};
use crate::ffi::log::Log;
use crate::ffi::settings;
use crate::ffi::settings::{Handle, Settings, check_array, checked};
use crate::ffi::{environment, rrb_monitor_fn, rrb_status};
use crate::grid::levels::Grid;
use crate::grid::stencil::{StencilView, View};
use crate::options::{BACKENDS, CYCLES, Family, Options, PRECISIONS, RESULTS, ResultEntry, info, name_of, opt};
use crate::report::{History, Nobody, Observer, Outcome, StopReason};
use crate::runtime::heap::boxed;
use crate::solver::rrb::{BackendKind, Rrb, choose_backend};
use crate::spectrum::lanczos_extremes;
use libc::{c_char, c_void};
use std::time::Instant;

/// One matrix with its factorization. One thread at a time; different handles are independent.
#[allow(non_camel_case_types)]
pub struct rrb_handle {
    grid: Grid,
    settings: Settings,
    core: Option<Rrb>,
    /// Why `solve` must wait for a `factorize`.
    stale: Option<&'static str>,
    /// Couplings that point out of the grid were logged.
    outward_seen: bool,
    outcome: Outcome,
    seconds_setup: f64,
    seconds_solve: f64,
}

/// Numbers of the option `memory`.
const MEMORY_AUTO: i64 = 0;
const MEMORY_HOST: i64 = 1;

const NO_FACTORIZATION: &str = "rrb_factorize must come before this call";
const FAILED: &str = "the last rrb_factorize failed: it must succeed before this call";
const CHANGED: &str = "an option that acts at factorize has changed: rrb_factorize must come before this call";

/// More nodes than this are refused: node numbers are 32 bits wide.
const MOST_NODES: i128 = u32::MAX as i128;

/// Makes a handle for matrices on nx x ny nodes, with the default options and those of `RRBSOLVER_OPTIONS`.
/// Errors: `RRB_ERR_NULL`, `RRB_ERR_DIMENSION`, `RRB_ERR_MEMORY`. Cost: none worth naming; memory for the
/// matrix is taken at `rrb_factorize`.
///
/// # Safety
/// `out` must be NULL or point to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_create(nx: i64, ny: i64, out: *mut *mut rrb_handle) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { settings::create(out, || rrb_handle::new(nx, ny)) }
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
/// handle tries again. `RRB_INFO_PRECISION` and `RRB_INFO_CYCLE` tell what is in use. Errors: `RRB_ERR_NULL`,
/// `RRB_ERR_ARGUMENT` (an array at no multiple of 8 bytes, odd `cycle_spacing`, recursions that take the work of more
/// than 100 V-cycles, couplings out of the grid), `RRB_ERR_UNSUPPORTED` (`cycle=k` on a device, and what this build
/// lacks), `RRB_ERR_MATRIX` (also a pivot below the range of a `precision` asked for), `RRB_ERR_NOT_FINITE`,
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
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        // SAFETY: as our caller promised; the size is that of the doc.
        unsafe { h.factorize(center, east, north, northeast, northwest) }
    })
}

/// Solves A x = b by RRB-PCG. `x` is the initial guess on entry and the solution on return; `b` is not written. Stops
/// when norm(b - A x) <= max(rel_tol * reference, abs_tol). b = 0 gives x = 0 at once; a guess that meets the test is
/// returned in 0 iterations. On singular components b is projected and x keeps the guess's mean. With M in single
/// precision or shorter a guess of max |x| > 1e15 max |b| / max center counts as zero. Returns `RRB_OK`,
/// `RRB_NOT_CONVERGED`, `RRB_STOPPED`; errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (overlap; an array at no multiple of
/// 8 bytes), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE` (an input, or x too large for a double), `RRB_ERR_RANGE` (x too
/// small), `RRB_ERR_BREAKDOWN`, `RRB_ERR_INCOMPATIBLE`, all with x as given. x and the test are in double precision
/// whatever `precision` is. Where a cycle that `cycle=auto` chose turns out to be indefinite, the solve goes on with v,
/// and so do later ones until the next `rrb_factorize`. Takes no memory, starts no thread; on a device, pageable arrays
/// of the host get buffers and threads with the first solve that has them (docs/gpu.md). Cost of an iteration: 48 to
/// 122 bytes of memory traffic per unknown with 5 points and fused stages (docs/performance.md has the counts), two
/// waits for all threads and two per shared grid, more with recursion. Source: report 16-06, algorithms 1 and 3.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`; the arrays must be NULL or hold (ny - 1) * ld + nx values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_solve(h: *mut rrb_handle, b: *const f64, x: *mut f64) -> rrb_status {
    entry(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        // SAFETY: as our caller promised; the size is that of the doc.
        let arrays = unsafe { h.arrays(("b", b), ("x", x))? };
        h.solve(arrays)
    })
}

/// z = M^-1 r, for a foreign Krylov loop; symmetric and positive definite (on the complement of the null space where
/// singular: r and z are projected). With `cycle=v` and amli a fixed matrix, to the rounding of the sweeps: double
/// precision, and single with `precision` f32, bf16 or mixed. With `cycle=k` not linear in r: for flexible methods
/// only. Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT` (as for `rrb_solve`), `RRB_ERR_STATE`, `RRB_ERR_NOT_FINITE`,
/// `RRB_ERR_RANGE` (z too small for a double). Source: report 16-06, section 2.6.
///
/// # Safety
/// As for `rrb_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_apply(h: *mut rrb_handle, r: *const f64, z: *mut f64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        // SAFETY: as our caller promised; the size is that of the doc.
        let arrays = unsafe { h.arrays(("r", r), ("z", z))? };
        let core = h.core.as_mut().ok_or_else(no_core)?;
        core.use_stream(h.settings.stream as usize)?;
        core.apply(arrays, &h.settings.options, &mut Nobody)
    })
}

/// y = A x with the matrix of the last `rrb_factorize`. Errors as for `rrb_apply`.
///
/// # Safety
/// As for `rrb_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_multiply(h: *mut rrb_handle, x: *const f64, y: *mut f64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        // SAFETY: as our caller promised; the size is that of the doc.
        let arrays = unsafe { h.arrays(("x", x), ("y", y))? };
        let core = h.core.as_mut().ok_or_else(no_core)?;
        core.use_stream(h.settings.stream as usize)?;
        core.multiply(arrays, &h.settings.options, &mut Nobody)
    })
}

/// Frees the handle and sets the pointer to NULL. NULL, and a pointer to NULL, are no errors.
///
/// # Safety
/// `h` must be NULL or point to NULL or to a pointer from `rrb_create` that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_destroy(h: *mut *mut rrb_handle) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { settings::destroy(h) }
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
    entry(|| {
        let mut h = rrb_handle::new(nx, ny)?;
        h.set(|o| o.set_real(opt::REL_TOL, rel_tol).and_then(|()| o.set_int(opt::MAX_ITER, max_iter)))?;
        let len = h.array_len()?;
        for (name, array) in [("b", b), ("center", center), ("east", east), ("north", north)] {
            check_pair((name, array), ("x", x), len)?;
        }
        for (name, array) in [("northeast", northeast), ("northwest", northwest)] {
            if !array.is_null() {
                check_pair((name, array), ("x", x), len)?;
            }
        }
        // SAFETY: as our caller promised.
        unsafe { h.factorize(center, east, north, northeast, northwest)? };
        // SAFETY: as our caller promised.
        let arrays = unsafe { h.arrays(("b", b), ("x", x))? };
        let status = h.solve(arrays)?;
        if !iterations.is_null() {
            // SAFETY: not NULL, and the caller gave an int64_t.
            unsafe { *iterations = h.outcome.iterations as i64 };
        }
        Ok(status)
    })
}

/// Sets a whole-number option or a choice. Errors: `RRB_ERR_NULL`, `RRB_ERR_OPTION` (unknown key),
/// `RRB_ERR_ARGUMENT` (out of range).
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_set_int(h: *mut rrb_handle, key: i32, value: i64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { settings::set_int(h, key, value) }
}

/// Sets a real option. Errors as for `rrb_set_int`.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_set_real(h: *mut rrb_handle, key: i32, value: f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { settings::set_real(h, key, value) }
}

/// Sets options from text, such as "levels=12 rel_tol=1e-8 lumping=m1m"; all of them, or with an error none. Errors: as
/// for `rrb_set_int`, `RRB_ERR_ARGUMENT` for a text that is not UTF-8 too, and `RRB_ERR_IO` for a log file that cannot
/// be opened.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`; `text` must be NULL or end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_set_options(h: *mut rrb_handle, text: *const c_char) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { settings::set_options(h, text) }
}

/// Reads a whole-number option or result. Errors: `RRB_ERR_NULL`, `RRB_ERR_OPTION`. Results of a factorize or a
/// solve that was not done are 0.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`; `value` must be NULL or point to an `int64_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_get_int(h: *const rrb_handle, key: i32, value: *mut i64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { settings::get_int(h, key, value) }
}

/// Reads a real option or result; whole numbers are converted. Errors as for `rrb_get_int`.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`; `value` must be NULL or point to a `double`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_get_real(h: *const rrb_handle, key: i32, value: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { settings::get_real(h, key, value) }
}

/// The CUDA stream to work on; NULL: the handle's own. Without effect on the CPU. Errors: `RRB_ERR_NULL`.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_set_stream(h: *mut rrb_handle, cuda_stream: *mut c_void) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        unsafe { checked(h)? }.settings.stream = cuda_stream;
        Ok(())
    })
}

/// Sets (or with NULL removes) the monitor: called on the calling thread, in order, from iteration 0, between
/// iterations. It must not use this handle, and should not unwind; a C++ exception must not leave it.
/// Errors: `RRB_ERR_NULL`.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`; `callback` must accept `user` until it is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_set_monitor(
    h: *mut rrb_handle,
    callback: rrb_monitor_fn,
    user: *mut c_void,
) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        (h.settings.monitor, h.settings.monitor_user) = (callback, user);
        Ok(())
    })
}

/// Tested relative residuals of the last solve, from iteration 0: writes at most `capacity` of them, and their
/// number (at most `max_iter` + 1 and 1,000,000 are kept) to `count`. `residuals` may be NULL with `capacity` 0.
/// Errors: `RRB_ERR_NULL`, `RRB_ERR_ARGUMENT`.
///
/// # Safety
/// `h` must be NULL or come from `rrb_create`; `residuals` must have room for `capacity` values; `count` must
/// be NULL or point to an `int64_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_get_history(
    h: *const rrb_handle,
    residuals: *mut f64,
    capacity: i64,
    count: *mut i64,
) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { settings::get_history(h, residuals, capacity, count) }
}

/// Both are arrays of doubles, and the one that is written overlaps no other.
fn check_pair(
    (input_name, input): (&'static str, *const f64),
    (output_name, output): (&'static str, *mut f64),
    len: usize,
) -> Result<()> {
    check_array(input_name, input)?;
    check_array(output_name, output)?;
    let bytes = len * size_of::<f64>();
    let (from, to) = (input as usize, output as usize);
    if from < to.saturating_add(bytes) && to < from.saturating_add(bytes) {
        return Err(Error::Overlap(input_name.into(), output_name.into()));
    }
    Ok(())
}

fn no_core() -> Error {
    Error::State(NO_FACTORIZATION.to_owned())
}

impl rrb_handle {
    fn new(nx: i64, ny: i64) -> Result<Self> {
        for (name, extent) in [("nx", nx), ("ny", ny)] {
            if extent < 1 {
                return Err(Error::Dimension(format!("{name} must be at least 1, got {extent}")));
            }
        }
        if i128::from(nx) * i128::from(ny) > MOST_NODES {
            return Err(Error::Dimension(format!("nx * ny must be at most {MOST_NODES}, got {nx} * {ny}")));
        }
        let mut h = Self {
            grid: Grid { nx: nx as usize, ny: ny as usize },
            settings: Settings::new(Family::Rrb),
            core: None,
            stale: Some(NO_FACTORIZATION),
            outward_seen: false,
            outcome: Outcome::default(),
            seconds_setup: 0.0,
            seconds_solve: 0.0,
        };
        h.set(|_| Ok(()))?;
        Ok(h)
    }

    fn check_leading_dimension(grid: Grid, options: &Options) -> Result<()> {
        let ld = options.int(opt::LEADING_DIMENSION);
        if ld == 0 || ld >= grid.nx as i64 {
            return Ok(());
        }
        let allowed = format!("be 0 or at least nx = {}", grid.nx);
        Err(Error::range("leading_dimension", ld, allowed))
    }

    fn ld(&self) -> usize {
        match self.settings.options.int(opt::LEADING_DIMENSION) {
            0 => self.grid.nx,
            ld => ld as usize,
        }
    }

    /// Values of one array: (ny - 1) * ld + nx, checked.
    fn array_len(&self) -> Result<usize> {
        (self.grid.ny - 1)
            .checked_mul(self.ld())
            .and_then(|n| n.checked_add(self.grid.nx))
            .filter(|&n| n <= isize::MAX as usize / size_of::<f64>())
            .ok_or_else(|| {
                Error::Dimension(format!(
                    "(ny - 1) * leading_dimension + nx overflows with ny = {}, leading_dimension = {}",
                    self.grid.ny,
                    self.ld()
                ))
            })
    }

    /// # Safety
    /// The arrays must be NULL or hold `array_len` values.
    unsafe fn factorize(
        &mut self,
        center: *const f64,
        east: *const f64,
        north: *const f64,
        northeast: *const f64,
        northwest: *const f64,
    ) -> Result<()> {
        self.stale = Some(FAILED);
        let (grid, ld, len) = (self.grid, self.ld(), self.array_len()?);
        let kind = choose_backend(&self.settings.options, grid, backend::cuda::driver::device_count());
        let view = |name, pointer: *const f64| {
            check_array(name, pointer)?;
            let device = self.device_address(name, pointer, kind)?;
            if device != 0 {
                return Ok(View::on_device(name, device, grid, ld, len));
            }
            // SAFETY: not NULL, aligned, not on a device, and our caller promised the length.
            Ok(View::new(name, unsafe { std::slice::from_raw_parts(pointer, len) }, grid, ld))
        };
        let corners = match (northeast.is_null(), northwest.is_null()) {
            (true, true) => None,
            _ => Some((view("northeast", northeast)?, view("northwest", northwest)?)),
        };
        let a = StencilView {
            grid,
            center: view("center", center)?,
            east: view("east", east)?,
            north: view("north", north)?,
            corners,
        };

        let start = Instant::now();
        let threads = environment::threads(self.settings.options.int(opt::THREADS) as usize);
        let stream = self.settings.stream as usize;
        let mut core =
            Rrb::factorize(self.core.take(), &a, &self.settings.options, kind, threads, stream, make_backend)?;
        self.heed_outward(&mut core, &a)?;
        self.core = Some(core);
        self.stale = None;
        self.seconds_setup = start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Couplings that point out of the grid are refused, or said to be ignored, the first time, or passed over.
    fn heed_outward(&mut self, core: &mut Rrb, a: &StencilView) -> Result<()> {
        match self.settings.options.int(opt::CHECK_INPUT) {
            1 if !self.outward_seen => {
                let outward = core.outward(a)?;
                self.outward_seen = !outward.is_empty();
                if self.outward_seen {
                    self.settings.log.line(0, format_args!("rrb: {outward}"));
                }
                Ok(())
            }
            2 => core.outward(a)?.refuse(),
            _ => Ok(()),
        }
    }

    /// # Safety
    /// The arrays must be NULL or hold `array_len` values.
    unsafe fn arrays<'a>(
        &self,
        (input_name, input): (&'static str, *const f64),
        (output_name, output): (&'static str, *mut f64),
    ) -> Result<Arrays<'a>> {
        if let Some(reason) = self.stale {
            return Err(Error::State(reason.to_owned()));
        }
        let len = self.array_len()?;
        check_pair((input_name, input), (output_name, output), len)?;
        let on_device = self.core.as_ref().is_some_and(|c| c.device().is_some());
        let kind = if on_device { BackendKind::Cuda } else { BackendKind::Cpu };
        let device_input = self.device_address(input_name, input, kind)?;
        let device_output = self.device_address(output_name, output, kind)?;
        // SAFETY: not NULL, aligned, not on a device, of the promised length, and just seen to be disjoint.
        let input = if device_input == 0 { unsafe { std::slice::from_raw_parts(input, len) } } else { &[] };
        // SAFETY: as above.
        let output = if device_output == 0 { unsafe { std::slice::from_raw_parts_mut(output, len) } } else { &mut [] };
        Ok(Arrays { input_name, input, ld: self.ld(), output, device_input, device_output, len })
    }

    /// Address of an array that lies on the handle's device; 0 for one on the host.
    fn device_address(&self, name: &'static str, array: *const f64, kind: BackendKind) -> Result<u64> {
        let memory = self.settings.options.int(opt::MEMORY);
        if memory == MEMORY_HOST || (memory == MEMORY_AUTO && kind != BackendKind::Cuda) {
            return Ok(0);
        }
        let wrong = |value: String, allowed: String| Err(Error::range(name, value, allowed));
        if kind != BackendKind::Cuda {
            return Err(Error::Unsupported(format!(
                "memory=device needs a handle that works on a device (backend=cuda): {name} cannot be read on the host"
            )));
        }
        let own = self.core.as_ref().and_then(Rrb::device).map_or(self.settings.options.int(opt::DEVICE), i64::from);
        match backend::cuda::driver::space_of(array as usize)? {
            Space::Device(ordinal) if i64::from(ordinal) == own => Ok(array as u64),
            Space::Device(ordinal) => {
                wrong(format!("an array on device {ordinal}"), format!("lie on device {own} or on the host"))
            }
            // Without a device, factorize will say so.
            Space::Host if memory == MEMORY_AUTO || backend::cuda::driver::device_count() == 0 => Ok(0),
            Space::Host => wrong("an array on the host".to_owned(), format!("lie on device {own} (memory=device)")),
        }
    }

    fn solve(&mut self, arrays: Arrays) -> Result<i32> {
        let start = Instant::now();
        self.settings.history.clear();
        self.outcome = Outcome::default();
        let verbosity = self.settings.options.int(opt::VERBOSITY);
        let mut watch = Watch {
            history: &mut self.settings.history,
            monitor: self.settings.monitor,
            user: self.settings.monitor_user,
            log: &mut self.settings.log,
            verbosity,
            failed: None,
        };
        let core = self.core.as_mut().ok_or_else(no_core)?;
        core.use_stream(self.settings.stream as usize)?;
        let result = core.solve(arrays, &self.settings.options, &mut watch);
        if let Some(error) = watch.failed {
            return Err(error);
        }
        self.seconds_solve = start.elapsed().as_secs_f64();
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => {
                if let Error::Breakdown { iteration, .. } = error {
                    self.outcome =
                        Outcome { iterations: iteration, reason: StopReason::Breakdown, ..Outcome::default() };
                }
                return Err(error);
            }
        };
        self.outcome = outcome;
        if verbosity >= 1 {
            let done = &core.done;
            self.settings.log.line(
                1,
                format_args!(
                    "rrb: {} x {}, {} {} {}, {} iterations, relative residual {:.3e} -> {:.3e}, {:.3} ms",
                    self.grid.nx,
                    self.grid.ny,
                    name_of(BACKENDS, done.backend),
                    name_of(PRECISIONS, done.precision),
                    name_of(CYCLES, done.cycle),
                    outcome.iterations,
                    outcome.initial_residual,
                    outcome.final_residual,
                    1e3 * self.seconds_solve
                ),
            );
        }
        Ok(match outcome.reason {
            StopReason::MaxIter | StopReason::Stagnated => RRB_NOT_CONVERGED,
            StopReason::Monitor => RRB_STOPPED,
            _ => RRB_OK,
        })
    }
}

impl Handle for rrb_handle {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn set(&mut self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()> {
        let grid = self.grid;
        let changed = self.settings.changed(change, |asked| Self::check_leading_dimension(grid, asked))?;
        let next = &changed.options;
        self.settings.history.reserve(next.int(opt::MAX_ITER) as usize)?;
        if !next.same_setup(&self.settings.options) && self.stale.is_none() {
            self.stale = Some(CHANGED);
        }
        self.settings.take(changed);
        Ok(())
    }

    fn result(&self, key: i32) -> Option<(&'static ResultEntry, Result<f64>)> {
        let entry = RESULTS.iter().find(|r| r.key == key && Family::Rrb.knows(r.family))?;
        let done = self.core.as_ref().map(|c| c.done).unwrap_or_default();
        let used = |yes: f64| if self.core.is_some() { yes } else { 0.0 };
        let extremes = || lanczos_extremes(self.settings.history.coefficients()).unwrap_or((0.0, 0.0));
        let value = match key {
            info::ITERATIONS => self.outcome.iterations as f64,
            info::STOP_REASON => f64::from(self.outcome.reason as i32),
            info::INITIAL_RESIDUAL => self.outcome.initial_residual,
            info::FINAL_RESIDUAL => self.outcome.final_residual,
            info::SECONDS_SETUP => self.seconds_setup,
            info::SECONDS_SOLVE => self.seconds_solve,
            info::BYTES_HOST => self.core.as_ref().map_or(0, Rrb::bytes) as f64,
            info::LAMBDA_MIN => extremes().0,
            info::LAMBDA_MAX => extremes().1,
            info::BACKEND => done.backend as f64,
            info::SECONDS_TRANSFER => self.core.as_ref().map_or(0.0, Rrb::seconds_transfer),
            info::BYTES_DEVICE => self.core.as_ref().map_or(0, Rrb::device_bytes) as f64,
            info::DEVICE => f64::from(self.core.as_ref().and_then(Rrb::device).unwrap_or(-1)),
            info::CUDA_KERNELS => f64::from(u8::from(backend::cuda::driver::HAS_KERNELS)),
            info::THREADS => self.core.as_ref().map_or(0, Rrb::threads) as f64,
            info::LEVELS => done.levels as f64,
            info::PRECISION => used(done.precision as f64),
            info::CYCLE => used(done.cycle as f64),
            info::COMPONENTS => done.components as f64,
            info::SINGULAR_COMPONENTS => done.singular_components as f64,
            info::COMPENSATED_COUPLINGS => done.compensated_couplings as f64,
            info::GRIDS => self.core.as_ref().map_or(0, Rrb::grids) as f64,
            _ => 0.0,
        };
        Some((entry, Ok(value)))
    }
}

/// For errors.
const BACKEND: &str = "a backend";

/// Concrete backends are named here and nowhere else.
#[doc(hidden)]
pub fn make_backend(
    kind: BackendKind,
    threads: usize,
    device: i64,
) -> Result<Box<dyn backend::steps::rrb::RrbBackend>> {
    Ok(match kind {
        BackendKind::Reference => boxed(backend::reference::rrb::Reference::default(), BACKEND)?,
        BackendKind::Cpu => boxed(backend::cpu::rrb::Cpu::new(threads), BACKEND)?,
        BackendKind::Cuda => boxed(backend::cuda::rrb::Cuda::new(device, threads)?, BACKEND)?,
    })
}

/// History, log and monitor of one solve.
struct Watch<'a> {
    history: &'a mut History,
    monitor: rrb_monitor_fn,
    user: *mut c_void,
    log: &'a mut Log,
    verbosity: i64,
    failed: Option<Error>,
}

impl Observer for Watch<'_> {
    fn iteration(&mut self, iteration: usize, relative_residual: f64) -> bool {
        self.passed(iteration, relative_residual);
        let Some(monitor) = self.monitor else { return false };
        let user = self.user;
        // SAFETY: the caller of `rrb_set_monitor` gave a function of this signature that accepts `user`.
        let answer = callback(|| unsafe { monitor(user, iteration as i64, relative_residual) });
        match answer {
            Ok(stop) => stop != 0,
            Err(error) => {
                self.failed = Some(Error::Internal(format!("the monitor failed in iteration {iteration}: {error}")));
                true
            }
        }
    }

    fn passed(&mut self, iteration: usize, relative_residual: f64) {
        self.history.push(relative_residual);
        if self.verbosity >= 2 {
            self.log.line(2, format_args!("rrb: iteration {iteration}: relative residual {relative_residual:.6e}"));
        }
    }

    fn coefficients(&mut self, alpha: f64, beta: f64) {
        self.history.push_coefficients(alpha, beta);
    }

    fn may_stop(&self) -> bool {
        self.monitor.is_some()
    }
}

//! Family `rrb_`: 2D 5- and 9-point symmetric stencils.
//!
//! Arrays are `a[j * ld + i]`, i = 0 .. nx - 1 fastest: Fortran's `a(nx, ny)`. `east[i, j]` is the matrix entry
//! between (i, j) and (i + 1, j), and so on. Pointers are borrowed for the call only.

use crate::backend;
use crate::backend::steps::rrb::RrbBackend;
use crate::backend::steps::solve::Arrays;
use crate::error::{Error, RRB_NOT_CONVERGED, RRB_OK, RRB_STOPPED, Result};
use crate::ffi::guard::entry;
use crate::ffi::handle::{Base, Handle, create, with, with_ok};
use crate::ffi::spaces::{Extent, check_array, on_device};
use crate::ffi::watch::Words;
use crate::ffi::{environment, rrb_status};
use crate::grid::levels::Grid;
use crate::grid::stencil::{StencilView, View};
use crate::options::{Backend, Choice, Family, Memory, Options, ResultEntry, info, opt};
use crate::report::{Nobody, Outcome, StopReason};
use crate::runtime::heap::boxed;
use crate::solver::machine::{Core, Machine};
use crate::solver::rrb::{Rrb, machine};
use crate::spectrum::lanczos_extremes;

/// One matrix with its factorization. One thread at a time; different handles are independent.
#[allow(non_camel_case_types)]
pub struct rrb_handle {
    grid: Grid,
    base: Base<Rrb>,
    /// Couplings that point out of the grid were logged.
    outward_seen: bool,
    outcome: Outcome,
}

const WORDS: Words =
    Words { family: Family::Rrb, name: "rrb", setup: "rrb_factorize", at: "factorize", step: "iteration" };

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
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { with_ok(h, |h| h.factorize(center, east, north, northeast, northwest)) }
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
    // SAFETY: as our caller promised; the size is that of the doc.
    unsafe { with(h, |h| h.arrays(("b", b), ("x", x)).and_then(|arrays| h.solve(arrays))) }
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
    let apply = |h: &mut rrb_handle| {
        // SAFETY: as our caller promised; the size is that of the doc.
        let arrays = unsafe { h.arrays(("r", r), ("z", z))? };
        h.base.run(|core, options, _| core.apply(arrays, options, &mut Nobody))
    };
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, apply) }
}

/// y = A x with the matrix of the last `rrb_factorize`. Errors as for `rrb_apply`.
///
/// # Safety
/// As for `rrb_solve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rrb_multiply(h: *mut rrb_handle, x: *const f64, y: *mut f64) -> rrb_status {
    let multiply = |h: &mut rrb_handle| {
        // SAFETY: as our caller promised; the size is that of the doc.
        let arrays = unsafe { h.arrays(("x", x), ("y", y))? };
        h.base.run(|core, options, _| core.multiply(arrays, options, &mut Nobody))
    };
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, multiply) }
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
        let given = [("b", b), ("center", center), ("east", east), ("north", north)];
        let corners = [("northeast", northeast), ("northwest", northwest)].into_iter().filter(|c| !c.1.is_null());
        for input in given.into_iter().chain(corners) {
            check_pair(input, ("x", x), len)?;
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

/// Both are arrays of doubles, and the one that is written overlaps the other nowhere.
fn check_pair(input: (&'static str, *const f64), output: (&'static str, *mut f64), len: usize) -> Result<()> {
    Extent::new(input.0, input.1, len, false)?.check_apart(&Extent::new(output.0, output.1, len, true)?)
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
            base: Base::new(&WORDS),
            outward_seen: false,
            outcome: Outcome::default(),
        };
        h.set(|_| Ok(()))?;
        Ok(h)
    }

    fn ld(&self) -> usize {
        match self.base.options.int(opt::LEADING_DIMENSION) {
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
        self.base.begin_setup();
        let (grid, ld, len) = (self.grid, self.ld(), self.array_len()?);
        let threads = environment::threads(self.base.options.int(opt::THREADS) as usize);
        let machine = machine(&self.base.options, grid, threads, backend::cuda::driver::device_count());
        let view = |name, pointer: *const f64| {
            check_array(name, pointer)?;
            let device = self.device_address(name, pointer, machine.is_device())?;
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
        let outward_seen = &mut self.outward_seen;
        self.base.set_up(|base, previous| {
            let stream = base.stream as usize;
            let mut core = Rrb::factorize(previous, &a, &base.options, machine, stream, make_backend)?;
            heed_outward(base, &mut core, &a, outward_seen)?;
            Ok(core)
        })
    }

    /// # Safety
    /// The arrays must be NULL or hold `array_len` values.
    unsafe fn arrays<'a>(
        &self,
        (input_name, input): (&'static str, *const f64),
        (output_name, output): (&'static str, *mut f64),
    ) -> Result<Arrays<'a>> {
        self.base.check_fresh()?;
        let len = self.array_len()?;
        check_pair((input_name, input), (output_name, output), len)?;
        let on_device = self.base.core.as_ref().is_some_and(|c| c.device().is_some());
        let device_input = self.device_address(input_name, input, on_device)?;
        let device_output = self.device_address(output_name, output, on_device)?;
        // SAFETY: not NULL, aligned, not on a device, of the promised length, and just seen to be disjoint.
        let input = if device_input == 0 { unsafe { std::slice::from_raw_parts(input, len) } } else { &[] };
        // SAFETY: as above.
        let output = if device_output == 0 { unsafe { std::slice::from_raw_parts_mut(output, len) } } else { &mut [] };
        let (ld, plane) = (self.ld(), self.grid.ny.saturating_mul(self.ld()));
        Ok(Arrays { input_name, input, ld, plane, output, device_input, device_output, len })
    }

    /// Address of an array that lies on the handle's device; 0 for one on the host.
    fn device_address(&self, name: &'static str, array: *const f64, works_on_device: bool) -> Result<u64> {
        let memory = self.base.options.choice(opt::MEMORY);
        if !works_on_device && memory == Memory::Device {
            return Err(Error::Unsupported(format!(
                "memory=device needs a handle that works on a device (backend=cuda): {name} cannot be read on the host"
            )));
        }
        let own = self.base.core.as_ref().and_then(Rrb::device);
        let own = own.map_or(self.base.options.int(opt::DEVICE), i64::from);
        let there = works_on_device && on_device(name.into(), array as usize, own, memory)?;
        Ok(if there { array as u64 } else { 0 })
    }

    fn solve(&mut self, arrays: Arrays) -> Result<i32> {
        let start = self.base.begin_solve();
        self.outcome = Outcome::default();
        let result = self.base.run(|core, options, watch| core.solve(arrays, options, watch));
        self.base.end_solve(start);
        if let Err(Error::Breakdown { iteration, .. }) = result {
            self.outcome = Outcome { iterations: iteration, reason: StopReason::Breakdown, ..Outcome::default() };
        }
        self.outcome = result?;
        self.log_line();
        Ok(match self.outcome.reason {
            StopReason::MaxIter | StopReason::Stagnated => RRB_NOT_CONVERGED,
            StopReason::Monitor => RRB_STOPPED,
            _ => RRB_OK,
        })
    }

    fn log_line(&mut self) {
        let Some(core) = &self.base.core else { return };
        let (Grid { nx, ny }, done, outcome) = (self.grid, core.done, self.outcome);
        let (backend, precision, cycle) = (core.machine().backend.name(), done.precision.name(), done.cycle.name());
        self.base.log_solve(format_args!(
            "{nx} x {ny}, {backend} {precision} {cycle}, {} iterations, relative residual {:.3e} -> {:.3e}",
            outcome.iterations, outcome.initial_residual, outcome.final_residual
        ));
    }
}

/// Couplings that point out of the grid are refused, or said to be ignored, the first time, or passed over.
fn heed_outward(base: &mut Base<Rrb>, core: &mut Rrb, a: &StencilView, seen: &mut bool) -> Result<()> {
    match base.options.int(opt::CHECK_INPUT) {
        1 if !*seen => {
            let outward = core.outward(a)?;
            *seen = !outward.is_empty();
            if *seen {
                base.log.line(0, format_args!("rrb: {outward}"));
            }
            Ok(())
        }
        2 => core.outward(a)?.refuse(),
        _ => Ok(()),
    }
}

impl Handle for rrb_handle {
    type Core = Rrb;

    fn base(&self) -> &Base<Rrb> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<Rrb> {
        &mut self.base
    }

    fn check(&self, asked: &Options) -> Result<()> {
        let (ld, nx) = (asked.int(opt::LEADING_DIMENSION), self.grid.nx);
        if ld == 0 || ld >= nx as i64 {
            return Ok(());
        }
        Err(Error::range("leading_dimension", ld, format!("be 0 or at least nx = {nx}")))
    }

    fn prepare(&mut self, next: &Options, _: bool) -> Result<()> {
        self.base.history.reserve(next.int(opt::MAX_ITER) as usize)
    }

    fn own_result(&self, entry: &ResultEntry) -> Result<f64> {
        let core = self.base.core.as_ref();
        let done = core.map(|c| c.done).unwrap_or_default();
        let extremes = || lanczos_extremes(self.base.history.coefficients()).unwrap_or((0.0, 0.0));
        Ok(match entry.key {
            info::ITERATIONS => self.outcome.iterations as f64,
            info::STOP_REASON => self.outcome.reason.number() as f64,
            info::INITIAL_RESIDUAL => self.outcome.initial_residual,
            info::FINAL_RESIDUAL => self.outcome.final_residual,
            info::LAMBDA_MIN => extremes().0,
            info::LAMBDA_MAX => extremes().1,
            info::LEVELS => done.levels as f64,
            info::PRECISION => done.precision.number() as f64,
            info::CYCLE => done.cycle.number() as f64,
            info::COMPONENTS => done.components as f64,
            info::SINGULAR_COMPONENTS => done.singular_components as f64,
            info::COMPENSATED_COUPLINGS => done.compensated_couplings as f64,
            info::GRIDS => core.map_or(0, Rrb::grids) as f64,
            _ => 0.0,
        })
    }
}

/// For errors.
const BACKEND: &str = "a backend";

/// Concrete backends are named here and nowhere else.
#[doc(hidden)]
pub fn make_backend(machine: Machine) -> Result<Box<dyn RrbBackend>> {
    let Machine { backend, threads, device } = machine;
    Ok(match backend {
        Backend::Reference => boxed(backend::reference::rrb::Reference::default(), BACKEND)?,
        Backend::Cuda => boxed(backend::cuda::rrb::Cuda::new(device, threads)?, BACKEND)?,
        Backend::Cpu | Backend::Auto => boxed(backend::cpu::rrb::Cpu::new(threads), BACKEND)?,
    })
}

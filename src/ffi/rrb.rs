//! Family `rrb_`: 2D 5- and 9-point symmetric stencils.
//!
//! Arrays are `a[j * ld + i]`, i = 0 .. nx - 1 fastest: Fortran's `a(nx, ny)`. `east[i, j]` is the matrix entry
//! between (i, j) and (i + 1, j), and so on. Pointers are borrowed for the call only.

use crate::backend;
use crate::backend::cpu::rrb::Domain;
use crate::backend::steps::rrb::{Prediction, RrbBackend};
use crate::error::Result;
use crate::ffi::distributed::call_box;
use crate::ffi::handle::{Handle, create, with_ok};
use crate::ffi::ranks::{Function, Ranks};
use crate::ffi::system::{Layout, Located, System, SystemHandle, Task, run, solve, solve_once};
use crate::ffi::watch::Words;
use crate::ffi::{environment, rrb_status};
use crate::grid::stencil::{StencilView, View};
use crate::options::{Backend, Choice, Family, info, opt};
use crate::runtime::heap::boxed;
use crate::solver::machine::Machine;
use crate::solver::rrb::{MakeBackend, Rrb, idle_beside_aggregation, machine};

/// One matrix with its factorization. One thread at a time; different handles are independent.
#[allow(non_camel_case_types)]
pub struct rrb_handle {
    pub(super) system: System<Rrb>,
    /// That an option has no effect was logged.
    idle_told: bool,
    /// Where the domain lies on several ranks.
    pub(super) ranks: Option<Ranks>,
}

const WORDS: Words =
    Words { family: Family::Rrb, name: "rrb", setup: "rrb_factorize", at: "factorize", step: "iteration" };

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
/// `switch_memory`. On a device, pageable arrays of the host get buffers and threads with the first solve that has them
/// (docs/gpu.md). Cost of an iteration: 48 to 122 bytes of memory traffic per unknown with 5 points and fused stages
/// (docs/performance.md has the counts), two waits for all threads and two per shared grid, more with recursion.
/// Source: report 16-06, algorithms 1 and 3.
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

impl rrb_handle {
    pub(super) fn new(nx: i64, ny: i64) -> Result<Self> {
        let system = System::new(&WORDS, &[("nx", nx), ("ny", ny)])?;
        let mut h = Self { system, idle_told: false, ranks: None };
        h.set(|_| Ok(()))?;
        Ok(h)
    }

    /// Center, east, north, northeast, northwest.
    ///
    /// # Safety
    /// The arrays must be NULL or hold the values of the layout.
    unsafe fn factorize(&mut self, arrays: [*const f64; 5]) -> Result<()> {
        self.system.base.begin_setup();
        if self.ranks.is_some() {
            // SAFETY: as our caller promised.
            return unsafe { self.factorize_box(arrays) };
        }
        let system = &mut self.system;
        let layout = system.layout()?;
        let Layout { ld, len, .. } = layout;
        let grid = system.grid();
        let machine = machine(&system.base.options, grid, threads(system), backend::cuda::driver::device_count());
        let view = |k: usize| {
            let (name, array) = (NAMES[k], arrays[k]);
            // SAFETY: as our caller promised.
            Ok(match unsafe { system.located((name, array), &layout, machine.is_device())? } {
                Located::Host(values) => View::new(name, values, grid, ld),
                Located::Device(address) => View::on_device(name, address, grid, ld, len),
            })
        };
        let corners = match (arrays[3].is_null(), arrays[4].is_null()) {
            (true, true) => None,
            _ => Some((view(3)?, view(4)?)),
        };
        let a = StencilView { grid, center: view(0)?, east: view(1)?, north: view(2)?, corners };
        self.factorize_view(&a, machine, &make_backend)
    }

    /// Factorizes on this machine, and tells what is to be told.
    pub(super) fn factorize_view(&mut self, a: &StencilView, machine: Machine, make: MakeBackend) -> Result<()> {
        let system = &mut self.system;
        let make = |previous, options: &_, stream| Rrb::factorize(previous, a, options, machine, stream, make);
        system.set_up(make, |core| core.outward(a))?;
        if system.base.core.as_ref().is_some_and(|core| core.done.went_without) {
            let sentence =
                "rrb: no memory for aggregation, which cycle=auto would take: levels, until an option changes";
            system.base.log.line(0, format_args!("{sentence}"));
        }
        log_prediction(system);
        let idle = idle_beside_aggregation(&system.base.options);
        if !idle.is_empty() && !self.idle_told {
            self.idle_told = true;
            let names = idle.join(", ");
            let sentence = format_args!("rrb: without effect beside cycle=aggregation, which makes no levels: {names}");
            system.base.log.line(0, sentence);
        }
        Ok(())
    }
}

/// The arrays of a matrix.
pub(super) const NAMES: [&str; 5] = ["center", "east", "north", "northeast", "northwest"];

/// Threads that a handle may use.
pub(super) fn threads(system: &System<Rrb>) -> usize {
    environment::threads(system.base.options.int(opt::THREADS) as usize)
}

/// Whether the domain of a handle lies on several ranks.
///
/// # Safety
/// `h` must be NULL or a live handle of this thread.
unsafe fn is_distributed(h: *const rrb_handle) -> bool {
    // SAFETY: as our caller promised.
    unsafe { h.as_ref() }.is_some_and(|h| h.ranks.is_some())
}

/// What `cycle=auto` has chosen by, from `verbosity=1` on.
fn log_prediction(system: &mut System<Rrb>) {
    let base = &mut system.base;
    let verbose = base.options.int(opt::VERBOSITY) >= 1;
    let Some(done) = base.core.as_ref().map(|core| core.done).filter(|_| verbose) else { return };
    let Some(Prediction { anisotropy, reduction, levels, aggregation }) = done.prediction else { return };
    let sentence = format_args!(
        "rrb: cycle {}: anisotropy {anisotropy:.1}; expected for {reduction:.0e}: levels {:.0} iterations, cost {:.0}, \
         aggregation {:.0}, cost {:.0}, in iterations with levels",
        done.cycle.name(),
        levels.iterations,
        levels.cost,
        aggregation.iterations,
        aggregation.cost
    );
    base.log.line(1, sentence);
}

impl SystemHandle for rrb_handle {
    type Core = Rrb;

    fn system(&self) -> &System<Rrb> {
        &self.system
    }

    fn system_mut(&mut self) -> &mut System<Rrb> {
        &mut self.system
    }

    fn in_use(core: &Rrb) -> [&'static str; 2] {
        [core.done.precision.name(), core.done.cycle.name()]
    }

    fn result_of(core: &Rrb, key: i32) -> f64 {
        let done = core.done;
        match key {
            info::LEVELS => done.levels as f64,
            info::PRECISION => done.precision.number() as f64,
            info::CYCLE => done.cycle.number() as f64,
            info::COMPONENTS => done.components as f64,
            info::SINGULAR_COMPONENTS => done.singular_components as f64,
            info::COMPENSATED_COUPLINGS => done.compensated_couplings as f64,
            info::AGGREGATES_KEPT => done.aggregates_kept as f64,
            info::GRIDS => core.grids() as f64,
            _ => 0.0,
        }
    }

    fn own_bytes(&self) -> usize {
        self.ranks.as_ref().map_or(0, Ranks::bytes)
    }

    fn own_result_of(&self, key: i32) -> Option<f64> {
        let sent = || self.ranks.as_ref().map_or([0; 2], Ranks::sent);
        match key {
            info::MESSAGES_SENT => Some(sent()[0] as f64),
            info::BYTES_SENT => Some(sent()[1] as f64),
            _ => None,
        }
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

/// One rank of those that share a grid.
pub(super) fn on_rank(threads: usize, domain: &Domain) -> Result<Box<dyn RrbBackend>> {
    Ok(boxed(backend::cpu::rrb::Cpu::over(threads, domain.clone()), BACKEND)?)
}

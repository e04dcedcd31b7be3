//! The handle of family `rrb_`, and its factorization.

use crate::backend;
use crate::backend::steps::rrb::{Prediction, RrbBackend};
use crate::comm::domain::Domain;
use crate::error::{Result, collected};
use crate::ffi::environment;
use crate::ffi::handle::Handle;
use crate::ffi::ranks::Ranks;
use crate::ffi::system::{Layout, Located, System, SystemHandle};
use crate::ffi::watch::Words;
use crate::grid::stencil::{StencilView, View};
use crate::options::{Backend, Choice, Devices, Family, info, opt};
use crate::runtime::heap::boxed;
use crate::solver::machine::Machine;
use crate::solver::rrb::{MakeBackend, Rrb, idle_beside_aggregation, machine};

/// Handle of a solver for 2D systems with a 5-point or 9-point stencil. The handle contains the options, the
/// factorization and the workspace. Only one thread at a time may use a handle.
#[allow(non_camel_case_types)]
pub struct rrb_handle {
    pub(super) system: System<Rrb>,
    /// The log has reported options without effect.
    idle_told: bool,
    /// The ranks that share the domain, if it is distributed.
    pub(super) ranks: Option<Box<Ranks>>,
}

const WORDS: Words =
    Words { family: Family::Rrb, name: "rrb", setup: "rrb_factorize", at: "factorize", step: "iteration" };

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
    pub(super) unsafe fn factorize(&mut self, arrays: [*const f64; 5]) -> Result<()> {
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
            Ok(match unsafe { system.located((name, array), &layout, machine)? } {
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

    /// Factorizes locally and logs the choices.
    pub(super) fn factorize_view(&mut self, a: &StencilView, machine: Machine, make: MakeBackend) -> Result<()> {
        let system = &mut self.system;
        let make = |previous, options: &_, stream| Rrb::factorize(previous, a, options, machine, stream, make);
        system.set_up(make, |core| core.outward(a))?;
        if system.base.core.as_ref().is_some_and(|core| core.done.went_without) {
            let what = "not enough memory for aggregation, the choice of cycle=auto";
            system.base.log.line(0, format_args!("rrb: {what}: uses levels until an option changes"));
        }
        log_prediction(system);
        let idle = idle_beside_aggregation(&system.base.options);
        if !idle.is_empty() && !self.idle_told {
            self.idle_told = true;
            let names = idle.join(", ");
            let sentence = format_args!("rrb: no effect with cycle=aggregation, which has no levels: {names}");
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

/// Logs the estimates of `cycle=auto`, with `verbosity` 1 or more.
fn log_prediction(system: &mut System<Rrb>) {
    let base = &mut system.base;
    let verbose = base.options.int(opt::VERBOSITY) >= 1;
    let Some(done) = base.core.as_ref().map(|core| core.done).filter(|_| verbose) else { return };
    let Some(Prediction { anisotropy, reduction, levels, aggregation }) = done.prediction else { return };
    let sentence = format_args!(
        "rrb: cycle {}: anisotropy {anisotropy:.1}; expected for a reduction by {reduction:.0e}: levels {:.0} \
         iterations, cost {:.0}; aggregation {:.0} iterations, cost {:.0} (unit: one iteration with levels)",
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
        self.ranks.as_ref().map_or(0, |ranks| ranks.bytes())
    }

    fn own_device_bytes(&self) -> usize {
        self.ranks.as_ref().map_or(0, |ranks| ranks.device_bytes())
    }

    fn own_result_of(&self, key: i32) -> Option<f64> {
        let sent = || self.ranks.as_ref().map_or([0; 2], |ranks| ranks.sent());
        match key {
            info::MESSAGES_SENT => Some(sent()[0] as f64),
            info::BYTES_SENT => Some(sent()[1] as f64),
            _ => None,
        }
    }
}

const BACKEND: &str = "a backend";

/// Concrete backends are named here and nowhere else.
#[doc(hidden)]
pub fn make_backend(machine: Machine) -> Result<Box<dyn RrbBackend>> {
    let Machine { backend, threads, device, devices } = machine;
    Ok(match backend {
        Backend::Reference => boxed(backend::reference::rrb::Reference::default(), BACKEND)?,
        Backend::Cuda if devices == Devices::default() => {
            boxed(backend::cuda::rrb::Cuda::new(device, threads)?, BACKEND)?
        }
        Backend::Cuda => {
            let ordinals = collected(devices.ordinals(), "devices")?;
            boxed(backend::cuda::rrb::Cuda::on_all(&ordinals, threads)?, BACKEND)?
        }
        Backend::Cpu | Backend::Auto => boxed(backend::cpu::rrb::Cpu::new(threads), BACKEND)?,
    })
}

/// One rank of those that share a grid.
pub(super) fn on_rank(threads: usize, domain: &Domain) -> Result<Box<dyn RrbBackend>> {
    Ok(boxed(backend::cpu::rrb::Cpu::over(threads, domain.clone()), BACKEND)?)
}

//! The handle of family `rrb_`, and its factorization.

use crate::abi::handle::{Base, Family, Handle};
use crate::abi::shape::{Layout, Shape};
use crate::abi::system::{ArrayLocation, SolverFamily};
use crate::base::heap::boxed;
use crate::base::machine::Machine;
use crate::distributed::box_transfer::MATRIX_ARRAY_NAMES;
use crate::error::{Result, collected};
use crate::krylov::solve::Function;
use crate::krylov::solve_steps::Arrays;
use crate::options::{self, Backend, Choice, Devices, Options, ResultEntry, info};
use crate::report::{Observer, Outcome};
use crate::rrb::backend::{Prediction, RrbBackend};
use crate::rrb::domain::Domain;
use crate::rrb::entries::device_rows::DeviceRows;
use crate::rrb::ranks::Ranks;
use crate::rrb::{MakeBackend, Rrb, choose_machine, options_without_effect};
use crate::stencil::matrix::{GridArray, StencilView};

/// Handle of a solver for 2D systems with a 5-point or 9-point stencil. The handle contains the options, the
/// factorization and the workspace. Only one thread at a time may use a handle.
#[allow(non_camel_case_types)]
pub struct rrb_handle(());

/// Data of a handle that other families do not have.
#[derive(Default)]
pub struct RrbParts {
    /// Whether the log has reported options without effect.
    pub(super) idle_options_logged: bool,
    /// Data for the ranks among which the domain is distributed; `None` if the handle is not distributed.
    pub(super) ranks: Option<Box<Ranks>>,
    /// Gathered device arrays, if rank 0 solves on devices.
    pub(super) device_rows: Option<DeviceRows>,
}

impl Family for rrb_handle {
    const FAMILY: options::Family = options::Family::Rrb;
    type Core = Rrb;
    type FamilyParts = RrbParts;

    fn bytes(family_parts: &RrbParts) -> [usize; 2] {
        let host = family_parts.ranks.as_ref().map_or(0, |ranks| ranks.bytes());
        [host, family_parts.device_rows.as_ref().map_or(0, DeviceRows::bytes)]
    }

    fn result(h: &Handle<Self>, entry: &ResultEntry) -> Result<Option<f64>> {
        let sent_count =
            |k: usize| h.family_parts.ranks.as_ref().map_or(0.0, |ranks| ranks.sent_in_last_call()[k] as f64);
        Ok(match entry.key {
            info::MESSAGES_SENT => Some(sent_count(0)),
            info::BYTES_SENT => Some(sent_count(1)),
            _ => None,
        })
    }
}

impl SolverFamily for rrb_handle {
    fn run(
        core: &mut Rrb,
        _: &RrbParts,
        function: Function,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        core.run_function(function, arrays, options, observer)
    }
}

pub(super) fn new_handle(nx: i64, ny: i64) -> Result<Handle<rrb_handle>> {
    Handle::new(Shape::grid(&[("nx", nx), ("ny", ny)])?, RrbParts::default())
}

impl Handle<rrb_handle> {
    /// Factorizes the matrix with the arrays center, east, north, northeast and northwest.
    ///
    /// # Safety
    /// The arrays must be NULL or hold the values of the layout.
    pub(super) unsafe fn factorize(&mut self, arrays: [*const f64; 5]) -> Result<()> {
        self.base.begin_setup();
        if self.family_parts.ranks.is_some() {
            // SAFETY: guaranteed by the caller.
            return unsafe { self.factorize_box(arrays) };
        }
        let Self { base, family_parts } = self;
        let layout = base.layout()?;
        let Layout { ld, len, .. } = layout;
        let grid = base.shape.plane();
        let machine = choose_machine(&base.options, grid, base.threads(), crate::cuda::driver::device_count());
        let view = |k: usize| {
            let (name, array) = (MATRIX_ARRAY_NAMES[k], arrays[k]);
            // SAFETY: guaranteed by the caller.
            Ok(match unsafe { base.locate_input((name, array), &layout, machine)? } {
                ArrayLocation::Host(values) => GridArray::new(name, values, grid, ld),
                ArrayLocation::Device(address) => GridArray::on_device(name, address, grid, ld, len),
            })
        };
        let corners = match (arrays[3].is_null(), arrays[4].is_null()) {
            (true, true) => None,
            _ => Some((view(3)?, view(4)?)),
        };
        let a = StencilView { grid, center: view(0)?, east: view(1)?, north: view(2)?, corners };
        factorize(base, &mut family_parts.idle_options_logged, &a, machine, &make_backend)
    }
}

/// Factorizes on this rank, and logs the choices of `auto`.
pub(super) fn factorize(
    base: &mut Base<Rrb>,
    idle_options_logged: &mut bool,
    a: &StencilView,
    machine: Machine,
    make: MakeBackend,
) -> Result<()> {
    let make_core = |previous, options: &_, stream| Rrb::factorize(previous, a, options, machine, stream, make);
    base.factorize(make_core, |core| core.outward(a))?;
    let Some(results) = base.core.as_ref().map(|core| core.results) else { return Ok(()) };
    if results.lacked_memory {
        let reason = "not enough memory for aggregation, the choice of cycle=auto";
        base.log_line(0, format_args!("{reason}: uses levels until an option changes"));
    }
    if let Some(Prediction { anisotropy, reduction, with_levels: levels, with_aggregation: aggregation }) =
        results.prediction
    {
        let message = format_args!(
            "cycle {}: anisotropy {anisotropy:.1}; expected for a reduction by {reduction:.0e}: levels {:.0} \
             iterations, cost {:.0}; aggregation {:.0} iterations, cost {:.0} (unit: one iteration with levels)",
            results.cycle.name(),
            levels.iterations,
            levels.cost,
            aggregation.iterations,
            aggregation.cost
        );
        base.log_line(1, message);
    }
    let idle_options = options_without_effect(&base.options);
    if !idle_options.is_empty() && !std::mem::replace(idle_options_logged, true) {
        let names = idle_options.join(", ");
        base.log_line(0, format_args!("no effect with cycle=aggregation, which has no levels: {names}"));
    }
    Ok(())
}

const BACKEND_ALLOCATION: &str = "a backend";

/// Creates a backend. Only this function and `make_rank_backend` name concrete backends in this family.
#[doc(hidden)]
pub fn make_backend(machine: Machine) -> Result<Box<dyn RrbBackend>> {
    let Machine { backend, threads, device, devices } = machine;
    Ok(match backend {
        Backend::Reference => boxed(crate::rrb::reference::Reference::default(), BACKEND_ALLOCATION)?,
        Backend::Cuda if devices == Devices::default() => {
            boxed(crate::rrb::cuda::Cuda::new(device, threads)?, BACKEND_ALLOCATION)?
        }
        Backend::Cuda => {
            let ordinals = collected(devices.ordinals(), "devices")?;
            boxed(crate::rrb::cuda::Cuda::on_devices(&ordinals, threads)?, BACKEND_ALLOCATION)?
        }
        Backend::Cpu | Backend::Auto => boxed(crate::rrb::cpu::Cpu::new(threads), BACKEND_ALLOCATION)?,
    })
}

/// Creates the backend of one of the ranks that share a grid.
pub(super) fn make_rank_backend(threads: usize, domain: &Domain) -> Result<Box<dyn RrbBackend>> {
    Ok(boxed(crate::rrb::cpu::Cpu::with_domain(threads, domain.clone()), BACKEND_ALLOCATION)?)
}

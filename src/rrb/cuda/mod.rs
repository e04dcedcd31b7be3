//! RRB-PCG on a CUDA device (docs/theory/rrb.md), with the same steps as the `cpu` backend. All levels are stored by
//! colour: each colour of a grid (r1, r2, b1, b2) is an array of its own, called a plane.
//!
//! Modules of the setup: `division` distributes rows among several devices. `source` stores A, `inspection` inspects A,
//! and `components` counts the connected components of A. `packed` holds the data of a factorization, and `setup`
//! computes these data. `aggregated` is the preconditioner by aggregation, which can replace the levels. `projection`
//! computes means over singular components.
//!
//! Modules of the preconditioner: `program` generates the list of steps, `schedule` groups the steps into kernels,
//! `launches` launches the kernels, and `estimates` chooses the cycle.
//!
//! Modules of a solve: `run` implements the steps of `krylov`. `start` and `looping` execute several steps together;
//! `unfused` executes each step separately. With fewer than two levels and without aggregation, there is no grid to
//! store by colour, and the reference backend solves on the host.

mod aggregated;
mod components;
mod division;
mod estimates;
mod inspection;
mod launches;
mod looping;
mod packed;
mod program;
mod projection;
mod run;
mod schedule;
mod setup;
mod source;
mod start;
mod unfused;

use crate::base::engine::Engine;
use crate::base::heap::boxed;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::session::Session;
use crate::error::{Error, Result, zeroed};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::rrb::backend::{Aggregation, CostOfAggregation, InspectionSetup, Report, RrbBackend, Setup};
use crate::rrb::reference::Reference;
use crate::stencil::cells::Cells;
use crate::stencil::components::Components;
use crate::stencil::inspection::Inspection;
use crate::stencil::matrix::StencilView;
use crate::stencil::outward::OutwardCouplings;
use aggregated::{AggregationPreconditioner, costs_for};
use division::Division;
use inspection::HostMatrix;
use packed::{Packed, Shape};
use run::Run;
use source::{Source, SourceShape, Staging};

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "a solver's lists";

/// The `cuda` backend.
pub struct Cuda {
    // The fields are dropped in this order, so that device memory is freed before the device is closed.
    solver: Solver,
    source: Option<Source>,
    staging: Option<Staging>,
    /// Factor by which b and x were scaled in the last solve with fused stages, if any. The next such solve begins with
    /// this factor.
    last_scale: Option<f64>,
    session: Session,
    division: Division,
}

enum Solver {
    /// There is no factorization.
    Empty,
    /// Factorization on the device.
    Packed(Box<Packed>),
    /// Factorization on the host, for fewer than two levels without aggregation.
    Host(Box<Reference>),
}

impl Cuda {
    /// Opens the device number `ordinal`. At most `threads` CPU threads copy host arrays.
    pub fn new(ordinal: i64, threads: usize) -> Result<Self> {
        Ok(Self::from_session(Session::open(ordinal, &launch::RRB, threads)?, Division::NONE))
    }

    /// Opens one or several devices, among which the rows of large grids are distributed. Results are bitwise identical
    /// for any number of devices. The small grids are not distributed; the first device owns them.
    pub fn on_devices(ordinals: &[i64], threads: usize) -> Result<Self> {
        Ok(Self::from_session(
            Session::open_devices(ordinals, &launch::RRB_DIVIDED, threads)?,
            Division::for_devices(ordinals.len()),
        ))
    }

    /// Waits for work that a failed call has left on the stream.
    fn wait_for_failed_call(&self) {
        self.session.stream().finish_all_work();
    }

    fn from_session(session: Session, division: Division) -> Self {
        Self { solver: Solver::Empty, source: None, staging: None, last_scale: None, session, division }
    }
}

impl Drop for Cuda {
    /// Waits for all kernels, so that none of them uses memory that is freed.
    fn drop(&mut self) {
        self.wait_for_failed_call();
    }
}

impl RrbBackend for Cuda {
    fn inspect_matrix(
        &mut self,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        inspection: &mut Inspection,
    ) -> Result<()> {
        if let Some(session) = self.session.reopen_after_reset()? {
            *self = Self::from_session(session, self.division);
        }
        let _context = self.session.enter()?;
        self.division.has_short_values = self.division.devices > 0 && inspection_setup.may_store_short;
        let shape = SourceShape::new(a, inspection_setup.compute_block, self.division);
        if self.source.as_ref().is_none_or(|s| s.shape != shape) {
            // The old memory is freed before new memory is allocated.
            self.wait_for_failed_call();
            self.solver = Solver::Empty;
            self.source = None;
            self.source = Some(Source::new(self.session.stream(), shape)?);
        }
        let has_host_arrays = a.center.device_address().is_none()
            || a.east.device_address().is_none()
            || a.north.device_address().is_none();
        let has_host_arrays = has_host_arrays
            || a.corners.is_some_and(|(northeast, northwest)| {
                northeast.device_address().is_none() || northwest.device_address().is_none()
            });
        if has_host_arrays && self.staging.is_none() {
            if let Solver::Packed(packed) = &mut self.solver {
                self.staging = packed.staging.take();
            }
            if let (None, Some(source)) = (&self.staging, &self.source) {
                self.staging = Some(Staging::new(self.session.stream(), &self.division, &source.g)?);
            }
        }
        // The planes of the vector b of the old factorization serve as workspace.
        let spare_planes = if let Solver::Packed(packed) = &self.solver { packed.b } else { 0 };
        let source = self.source.as_mut().ok_or_else(missing_source_error)?;
        let (stream, copies, _) = self.session.stream_and_copies();
        source.inspect_matrix(
            stream,
            a,
            inspection_setup,
            (self.staging.as_ref().map(|staging| &staging.memory), copies),
            spare_planes,
            inspection,
        )
    }

    /// Returns whether the option `devices` is set, even if a single device owns all rows.
    fn shares_grids(&self) -> bool {
        self.division.devices > 0
    }

    fn anisotropy(&self, _a: &StencilView, _zero_row_sum: f64) -> f64 {
        self.source.as_ref().map_or(1.0, Source::anisotropy)
    }

    fn cost_of_aggregation(&self, nodes: usize) -> Option<&'static CostOfAggregation> {
        Some(costs_for(nodes))
    }

    fn outward(&mut self, a: &StencilView) -> Result<OutwardCouplings> {
        let _context = self.session.enter()?;
        self.source.as_ref().ok_or_else(missing_source_error)?.outward(self.session.stream(), a)
    }

    fn factorize(&mut self, a: &StencilView, setup: &Setup, components: &Components) -> Result<()> {
        let _context = self.session.enter()?;
        self.wait_for_failed_call();
        let stream = self.session.stream();
        let previous = std::mem::replace(&mut self.solver, Solver::Empty);
        if setup.levels < 2 && setup.aggregation != Aggregation::FromStart {
            let mut host_solver = match previous {
                Solver::Host(host_solver) => host_solver,
                previous => {
                    drop(previous);
                    boxed(Reference::default(), ALLOCATION_NAME)?
                }
            };
            let host_matrix = HostMatrix::new(stream, a)?;
            let host_view = host_matrix.as_ref().map(|matrix| matrix.view(a));
            host_solver.factorize(host_view.as_ref().unwrap_or(a), setup, components)?;
            self.solver = Solver::Host(host_solver);
            return Ok(());
        }
        let source = self.source.as_mut().ok_or_else(missing_source_error)?;
        let shape = Shape::new(a, setup, self.division);
        let mut packed = match previous {
            Solver::Packed(packed) if packed.shape == shape => packed,
            previous => {
                // The old memory is freed before new memory is allocated.
                drop(previous);
                boxed(Packed::new(stream, shape, source)?, ALLOCATION_NAME)?
            }
        };
        if self.staging.is_some() {
            packed.staging = self.staging.take();
        }
        let result =
            packed.factorize(stream, source, a, setup, components).and_then(|()| packed.record_loops(stream, source));
        if result.is_err() {
            // Work on the stream must end before `packed` is freed.
            stream.finish_all_work();
        }
        result?;
        self.solver = Solver::Packed(packed);
        Ok(())
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let _context = self.session.enter()?;
        match &mut self.solver {
            Solver::Empty => Err(Error::State("factorize must come before solve".to_owned())),
            Solver::Host(host_solver) => {
                self.session.seconds_transfer = 0.0;
                run_on_host(host_solver, self.session.stream(), arrays, observer, program)
            }
            Solver::Packed(packed) => {
                let source = self.source.as_mut().ok_or_else(missing_source_error)?;
                let arrays_on_device = arrays.device_input != 0 && arrays.device_output != 0;
                let staging_addresses =
                    if arrays_on_device { [0; 2] } else { packed.staging_addresses(self.session.stream(), source)? };
                let (nx, ny) = (source.shape.grid.nx, source.shape.grid.ny);
                let call = self.session.start_call(arrays, observer, Cells { nx, ny, nz: 1 }, staging_addresses);
                let mut run = Run::new(packed, source, call, &mut self.last_scale);
                let result = program(&mut run);
                let error = run.call.first_error.take();
                let is_looping = run.is_looping();
                let stream = self.session.stream();
                if let Some(error) = error {
                    // Copies of the caller's arrays may still be running. Only the first error is reported.
                    let _ = packed.scalars.reset_findings(stream);
                    let _ = stream.wait();
                    return Err(error);
                }
                if result.is_err() || Outcome::may_leave_infinities(&result) {
                    // Overflow or NaN may have reached the padding.
                    packed.clear_vectors(stream)?;
                }
                if is_looping || result.is_err() {
                    // The next call may use another stream.
                    stream.wait()?;
                }
                result
            }
        }
    }

    fn report(&self) -> Report {
        let packed = match &self.solver {
            Solver::Empty => return Report::V_CYCLE,
            Solver::Host(host_solver) => return host_solver.report(),
            Solver::Packed(packed) => packed,
        };
        let aggregated = packed.aggregated.as_ref();
        let truncated_levels = packed.is_truncated().then_some(2 * packed.grids_in_use);
        Report {
            kind: packed.recursion.kind,
            levels: aggregated.map(AggregationPreconditioner::coarse_level_count).or(truncated_levels),
            uses_aggregation: aggregated.is_some(),
            reused_aggregate_count: aggregated.map_or(0, AggregationPreconditioner::reused_aggregate_count),
            grids: packed.grids_in_use,
        }
    }
}

impl Engine for Cuda {
    fn bytes(&self) -> [usize; 2] {
        let [host, device] = match &self.solver {
            Solver::Empty => [0, 0],
            Solver::Host(host_solver) => host_solver.bytes(),
            Solver::Packed(packed) => [packed.host_bytes(), packed.bytes()],
        };
        let source_bytes = self.source.as_ref().map_or(0, |s| s.memory.bytes);
        [host + self.session.bytes(), device + source_bytes + self.staging.as_ref().map_or(0, |s| s.memory.bytes)]
    }

    fn seconds_transfer(&self) -> f64 {
        self.session.seconds_transfer
    }

    fn use_stream(&mut self, stream: usize) -> Result<()> {
        self.session.use_stream(stream)
    }
}

fn missing_source_error() -> Error {
    Error::Internal("the matrix on the device is missing".to_owned())
}

/// Runs `program` with the reference backend on the host. An array on the device is replaced by a host copy, and the
/// output is copied back to the device.
fn run_on_host(
    host_solver: &mut Reference,
    stream: &Stream,
    arrays: Arrays,
    observer: &mut dyn Observer,
    program: Program,
) -> Result<Outcome> {
    let array_len = arrays.len;
    let (mut input, mut output): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    if arrays.device_input != 0 {
        input = zeroed(array_len, "a copy of an array")?;
        stream.fetch(&mut input, arrays.device_input)?;
    }
    if arrays.device_output != 0 {
        output = zeroed(array_len, "a copy of an array")?;
        stream.fetch(&mut output, arrays.device_output)?;
    }
    stream.wait()?;
    let (device_input, device_output) = (arrays.device_input, arrays.device_output);
    let host_arrays = Arrays {
        input: if device_input != 0 { &input } else { arrays.input },
        output: if device_output != 0 { &mut output } else { &mut *arrays.output },
        device_input: 0,
        device_output: 0,
        ..arrays
    };
    let outcome = host_solver.run(host_arrays, observer, program)?;
    if device_output != 0 {
        stream.send(device_output, &output)?;
        stream.wait()?;
    }
    Ok(outcome)
}

//! The steps of RRB-PCG on the device. A step launches kernels and returns. A step waits for its kernels only if it
//! returns a scalar or stores x. Steps that usually follow each other are launched together: the start, the loop, and
//! the end of a solve. `DeviceResults` records which results of these launches are available. A step whose result is
//! available returns this result. Any other step launches its own kernels, and resets `results` to
//! `DeviceResults::None`.
//!
//! Fused stages are kernels that combine steps of CG with half a cycle on the first grid (kernels/rrb/fused.cuh).

use super::packed::Packed;
use super::source::Source;
use super::unfused::product_args;
use crate::cuda::call::{Call, FallibleSteps};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, LargestArgs, ProductArgs, ReduceArgs, Scalars, Stage, UpdateArgs};
use crate::cuda::looped;
use crate::error::{Error, Result};
use crate::krylov::pcg::{MeansChange, OtherPreconditioner, PcgSteps, Properties, unfused_ascend, unfused_descend};
use crate::krylov::solve_steps::{Criterion, EliminatedVector, Inputs, Load, SolveSteps, Timing};
use crate::krylov::state::{State, TestCode};
use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
use crate::report::Event;
use crate::rrb::recursion::Recursion;
use std::mem::offset_of;

/// State of one run.
pub struct Run<'a> {
    pub packed: &'a mut Packed,
    pub source: &'a mut Source,
    pub stream: &'a Stream,
    pub call: Call<'a>,
    /// Mode of launching: how many steps are launched together.
    pub mode: LaunchMode,
    /// Results of earlier launches that later steps can return.
    pub results: DeviceResults,
    /// Power of two by which the caller's b and x are multiplied when they are loaded.
    pub scale: f64,
    /// Value of `scale` in the last solve, which usually fits the next solve.
    pub last_scale: &'a mut Option<f64>,
    /// Stopping criterion, known before the start so that the loop can begin before the host has read the start's
    /// results.
    pub criterion: Option<Criterion>,
    /// Whether the caller's x already contains an iterate. Kernels must then not overwrite this array, because a later
    /// iterate may be worse.
    pub x_is_stored: bool,
    /// Number of iterations after which a loop pauses, so that the host can check whether the solve is slow.
    pub iterations_until_check: i64,
    /// Number of iterations from the start to the last pause or end of the loop.
    pub loop_iterations: i64,
}

/// Number of iterations before the first check whether a solve is slow. A pause takes as long as one or two iterations.
pub const ITERATIONS_UNTIL_FIRST_CHECK: i64 = crate::options::limits::SWITCH_ITERATIONS_ON_DEVICE;

/// Mode of launching: how many steps are launched together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchMode {
    /// Each step is launched separately.
    Separate,
    /// All steps of the start are launched together, and the device decides when the loop ends (`looping`).
    Together,
    /// As `Together`, and CG runs on S1 in fused stages. The start and the end of a solve are one pass each over the
    /// caller's arrays. After `load`, the black planes of b contain the right-hand side of S1.
    Fused,
}

/// Results on the device that later steps can use.
#[derive(Clone, Copy, Debug)]
pub enum DeviceResults {
    /// There are no such results.
    None,
    /// The caller's arrays were inspected. The value is <b, b> of the caller's b, or `None` if squares of its entries
    /// may overflow or underflow.
    Inspected(Option<f64>),
    /// r contains the right-hand side of CG.
    RhsReduced,
    /// r, p = z and q = A p of a start are available.
    Started(StartResults),
    /// The loop has ended, and the end of the solve has been computed.
    Ended(EndResults),
}

/// Results of the start of CG.
#[derive(Clone, Copy, Debug)]
pub struct StartResults {
    pub origin: ResidualOrigin,
    /// <r, r>.
    pub norm2: f64,
    /// <r, M^-1 r>.
    pub rho: f64,
    /// <p, A p>.
    pub sigma: f64,
    /// Further results, if the start was computed directly from the caller's arrays.
    pub direct_start: Option<DirectStartResults>,
    /// Whether the loop has been launched after the start.
    pub loop_is_launched: bool,
}

impl StartResults {
    pub fn is_finite(&self) -> bool {
        [self.norm2, self.rho, self.sigma].iter().all(|v| v.is_finite())
    }
}

/// Vector from which r at the start was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidualOrigin {
    /// r is the right-hand side of CG.
    Rhs,
    /// r is the residual b - A x of the system of CG.
    Solution,
}

/// Further results of a start that was computed directly from the caller's arrays.
#[derive(Clone, Copy, Debug)]
pub struct DirectStartResults {
    pub scale: f64,
    /// ||b - A x||_2^2 on all nodes.
    pub all_nodes_norm2: f64,
}

/// Results of the end of a solve, after the loop. x is available on all nodes.
#[derive(Clone, Copy, Debug)]
pub struct EndResults {
    /// max |x|.
    pub x_max: f64,
    /// <r, r> of the recomputed residual r = b - A x, if the stopping test requires it.
    pub norm2: Option<f64>,
    /// With a fused end: square of the tested norm of b - A x on all nodes.
    pub tested_norm2: Option<f64>,
    /// Whether x is already in the caller's array.
    pub is_delivered: bool,
}

impl<'a> Run<'a> {
    pub fn new(
        packed: &'a mut Packed,
        source: &'a mut Source,
        call: Call<'a>,
        last_scale: &'a mut Option<f64>,
    ) -> Self {
        packed.grid_seconds.clear();
        Self {
            mode: if packed.recorded_loops.is_some() { LaunchMode::Together } else { LaunchMode::Separate },
            packed,
            source,
            stream: call.stream,
            call,
            results: DeviceResults::None,
            scale: 1.0,
            last_scale,
            criterion: None,
            x_is_stored: false,
            iterations_until_check: ITERATIONS_UNTIL_FIRST_CHECK,
            loop_iterations: 0,
        }
    }

    /// Waits for the kernels on the stream, and returns the scalars.
    pub fn fetch_scalars(&mut self) -> Result<&Scalars> {
        self.packed.scalars.fetch(self.stream)
    }

    /// Computes r with `compute_residual`. If steps are launched together, also computes the other vectors of the
    /// start. Returns <r, r>.
    fn start(&mut self, origin: ResidualOrigin, compute_residual: impl FnOnce(&mut Self) -> Result<()>) -> f64 {
        self.scalar(|s| {
            compute_residual(s)?;
            if s.mode == LaunchMode::Separate {
                s.packed.dot_r(s.stream, offset_of!(Scalars, sum))?;
                return Ok(s.fetch_scalars()?.sum);
            }
            s.packed.compute_start(s.stream, s.source)?;
            let &Scalars { norm2, rho, sigma, .. } = s.fetch_scalars()?;
            s.results = DeviceResults::Started(StartResults {
                origin,
                norm2,
                rho,
                sigma,
                direct_start: None,
                loop_is_launched: false,
            });
            Ok(norm2)
        })
    }

    /// Returns the results of a start, if they are available.
    fn start_results(&self) -> Option<StartResults> {
        if let DeviceResults::Started(start) = self.results { Some(start) } else { None }
    }

    /// Returns the results of the end of the solve, if they are available.
    fn end_results(&self) -> Option<EndResults> {
        if let DeviceResults::Ended(ended) = self.results { Some(ended) } else { None }
    }

    /// Returns whether the loop may still be running on the stream.
    pub fn is_looping(&self) -> bool {
        self.start_results().is_some_and(|start| start.loop_is_launched)
    }

    fn uses_fusion(&self) -> bool {
        self.mode == LaunchMode::Fused
    }

    fn product_args(&self, v: Address, out: Address) -> ProductArgs {
        product_args(self.packed, self.source, v, out)
    }
}

impl FallibleSteps for Run<'_> {
    fn first_error(&mut self) -> &mut Option<Error> {
        &mut self.call.first_error
    }

    fn begin_step(&mut self) {
        self.results = DeviceResults::None;
    }
}

impl Run<'_> {
    /// Returns the address of a vector.
    fn vector_address(&self, v: VectorId) -> Address {
        match v {
            VectorId::X => self.packed.x,
            VectorId::B => self.packed.b,
            VectorId::R => self.packed.r,
            VectorId::P => self.packed.p,
            VectorId::Q => self.packed.q,
            _ => self.packed.z_address(),
        }
    }

    /// Returns the address of p after a loop. Fused stages alternate between two arrays for p; `direction_index` is the
    /// index of the array written last. Each array begins with the plane of b1, which has the number 2. The returned
    /// address is where plane 0 would begin, although this plane does not exist.
    fn current_p(&self) -> Address {
        if !self.packed.uses_fusion() {
            return self.packed.p;
        }
        let plane = 8 * self.packed.grids[0].k.g.plane as u64;
        self.packed.schur_arrays.p_b1[self.packed.scalars.direction_index as usize].wrapping_sub(2 * plane)
    }

    /// Sets r to the right-hand side of CG, which is the residual for x = 0. Returns <r, r>.
    fn residual_from_rhs(&mut self) -> f64 {
        match self.results {
            DeviceResults::Started(StartResults { origin: ResidualOrigin::Rhs, norm2, .. }) => norm2,
            DeviceResults::RhsReduced => self.start(ResidualOrigin::Rhs, |_| Ok(())),
            _ => self.start(ResidualOrigin::Rhs, |s| {
                launch::update_direction(s.stream, &s.packed.update_args(s.packed.r, s.packed.b, 0.0))?;
                s.stream.fill(s.packed.scalars.address + offset_of!(Scalars, parity) as u64, 0, 4)
            }),
        }
    }

    /// Switches to aggregation if this reduces the estimated remaining work. Returns whether the solve has switched.
    fn switch_to_aggregation(&mut self, state: &State) -> bool {
        if !self.packed.may_aggregate || !self.is_switch_worthwhile(state) {
            return false;
        }
        self.packed.may_aggregate = false;
        self.results = DeviceResults::None;
        // Fused stages alternate between two arrays for r on b1. Unfused steps use the first array.
        let parity_address = self.packed.scalars.address + offset_of!(Scalars, parity) as u64;
        let _ = self.attempt(|s| s.stream.fill(parity_address, 0, 4));
        // If the setup of aggregation fails, the solve continues with the levels, unless the device has failed. An
        // error in the matrix is also ignored, because M of the levels can be positive definite although S1 is not.
        let has_switched = self.attempt(|s| match s.packed.replace_levels_by_aggregation(s.stream, s.source) {
            Err(error) if error.is_out_of_memory_or_unsupported() || matches!(error, Error::Matrix { .. }) => Ok(false),
            result => result.map(|()| true),
        });
        if has_switched == Some(true) {
            self.mode = if self.packed.recorded_loops.is_some() { LaunchMode::Together } else { LaunchMode::Separate };
            state.report_preconditioner_change(self.call.observer);
        }
        has_switched == Some(true)
    }

    /// Switches to the V-cycle if the current cycle is recursive and was selected automatically. Returns whether the
    /// cycle has changed.
    fn fall_back_to_v_cycle(&mut self) -> bool {
        if !self.packed.has_automatic_recursion() {
            return false;
        }
        self.step(|s| {
            s.packed.write_programs(s.stream, &Recursion::V)?;
            s.packed.recorded_loops = None;
            s.packed.record_loops(s.stream, s.source)
        });
        true
    }

    /// Computes b = b - A x. Returns <b_r, D_r^-1 b_r>, where b_r contains the values of the new b on red nodes, and
    /// D_r the centers of these nodes.
    fn replace_rhs_by_residual(&mut self) -> f64 {
        if !self.uses_fusion() {
            return self.scalar(|s| {
                launch::rhs_to_residual(s.stream, &s.product_args(s.packed.x, s.packed.b))?;
                Ok(s.fetch_scalars()?.sum)
            });
        }
        // With fused stages, the stored b does not change, and the residual of S1 is stored in r.
        let norm2_on_red = self.scalar(|s| {
            launch::eliminated_residual(s.stream, &s.start_end_args(s.scale, Stage::Nothing, false))?;
            Ok(s.fetch_scalars()?.all_nodes_norm2)
        });
        self.results = DeviceResults::RhsReduced;
        norm2_on_red
    }

    /// Loads b = `scale` times the caller's input, unless fused passes read the caller's array directly.
    fn load_rhs(&mut self, scale: f64) {
        if !self.uses_fusion() {
            self.step(|s| {
                s.clear_planes(s.packed.b)?;
                launch::load_by_colour(s.stream, &s.transfer_args(s.packed.b, s.call.input, scale))
            });
        }
    }
}

impl VectorSteps for Run<'_> {
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64 {
        if let (VectorId::R, VectorId::R, Some(start)) = (a, b, self.start_results()) {
            return start.norm2;
        }
        if (a, b) != (VectorId::Q, VectorId::Q) {
            // An inner product that is computed below resets `results`. <q, q> is an exception: it is computed for a
            // check after a loop, and the results of the loop remain valid.
            self.begin_step();
        }
        let result = self.attempt(|s| {
            let sum_offset = offset_of!(Scalars, sum);
            match (a, b) {
                (VectorId::R, VectorId::Z) => s.packed.dot_z(s.stream, Stage::Nothing, sum_offset)?,
                (VectorId::B, VectorId::B) => s.packed.dot_b(s.stream, sum_offset)?,
                _ => launch::dot(
                    s.stream,
                    &s.packed.dot_args(s.vector_address(a), s.vector_address(b), s.packed.cg_planes(), sum_offset),
                )?,
            }
            Ok(s.fetch_scalars()?.sum)
        });
        result.unwrap_or(f64::NAN)
    }

    fn combine(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let Some(&(factor, source_id)) = terms.first() else {
            return self.step(|s| s.clear_planes(s.vector_address(target)));
        };
        let source = match source_id {
            // After a start, z has been overwritten. p contains the same values, because p = z at a start.
            VectorId::Z if self.start_results().is_some() => self.packed.p,
            VectorId::P if target == VectorId::Q => self.current_p(),
            VectorId::Z => return self.step(|s| s.packed.update_direction(s.stream, s.vector_address(target), scale)),
            _ => self.vector_address(source_id),
        };
        if target != VectorId::Q || self.start_results().is_some() {
            // If `target` is q, the results are reset only if they are those of a start, because no other results
            // include q.
            self.begin_step();
        }
        let _ = self.attempt(|s| {
            let update = s.packed.update_args(s.vector_address(target), source, scale);
            if scale == 1.0 {
                launch::add_scaled(s.stream, &UpdateArgs { factor, ..update })
            } else {
                launch::update_direction(s.stream, &UpdateArgs { per_unit: factor, ..update })
            }
        });
    }

    fn max_abs(&mut self, v: VectorId) -> f64 {
        self.scalar(|s| {
            let (g, v, scalars) = (s.source.g, s.vector_address(v), s.packed.scalars.address);
            launch::find_largest(s.stream, &LargestArgs { g, v, scalars })?;
            Ok(f64::from_bits(s.fetch_scalars()?.largest))
        })
    }

    fn residual(&mut self, iterate: Iterate) -> f64 {
        if iterate == Iterate::Zero {
            return self.residual_from_rhs();
        }
        if let DeviceResults::Ended(ended) = &mut self.results
            && let Some(norm2) = ended.norm2.take()
        {
            // The value is returned only once. If CG restarts afterwards, the start computes <r, r> again, because it
            // adds the squares in another order.
            return norm2;
        }
        match self.results {
            DeviceResults::Started(StartResults { origin: ResidualOrigin::Solution, norm2, .. }) => norm2,
            _ => self.start(ResidualOrigin::Solution, |s| s.packed.residual(s.stream, s.source, Stage::Nothing)),
        }
    }

    fn observe(&mut self, event: Event) -> bool {
        self.call.observer.receive(event)
    }
}

impl PcgSteps for Run<'_> {
    fn properties(&self) -> Properties {
        Properties { eliminates_red: self.packed.shape.uses_schur, ..Properties::default() }
    }

    fn precondition(&mut self) -> f64 {
        if let Some(start) = self.start_results() {
            return start.rho;
        }
        self.scalar(|s| {
            s.packed.apply_unfused(s.stream)?;
            s.packed.dot_z(s.stream, Stage::Nothing, offset_of!(Scalars, sum))?;
            Ok(s.fetch_scalars()?.sum)
        })
    }

    fn change_means(&mut self, v: VectorId, change: MeansChange) {
        self.step(|s| match change {
            MeansChange::Store => s.packed.projection.store_means(s.stream, s.packed.x),
            _ => s.packed.projection.shift_means(s.stream, s.vector_address(v), change == MeansChange::Restore),
        });
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        let weighted_square =
            self.attempt(|s| s.packed.projection.weighted_square_of_means(s.stream, s.packed.r, s.source.m.center));
        weighted_square.unwrap_or(f64::NAN)
    }

    fn multiply(&mut self) -> f64 {
        self.scalar(|s| {
            s.packed.multiply(s.stream, s.source, Stage::Start, 0)?;
            Ok(s.fetch_scalars()?.sigma)
        })
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        match (alpha, self.start_results()) {
            (None, Some(start)) => start.norm2,
            // r is current, but there are no results of a start, for one of three reasons: the confirmation of the
            // stopping test computed r, the means of r were removed after the start, or the steps are launched
            // separately.
            (None, None) => self.start(ResidualOrigin::Solution, |_| Ok(())),
            (Some(_), _) => unfused_descend(self, alpha),
        }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        match (step, self.start_results()) {
            (None, Some(start)) => start.sigma,
            _ => unfused_ascend(self, step),
        }
    }

    fn iterate(&mut self, state: &mut State) -> Option<TestCode> {
        if self.mode == LaunchMode::Separate {
            return None;
        }
        self.attempt(|s| looped::run(s, state))
    }

    fn change_preconditioner(&mut self, choice: OtherPreconditioner) -> bool {
        match choice {
            OtherPreconditioner::Cheaper(state) => self.switch_to_aggregation(state),
            OtherPreconditioner::Definite => self.fall_back_to_v_cycle(),
            OtherPreconditioner::Linear | OtherPreconditioner::AfterBreakdown => false,
        }
    }
}

impl Timing for Run<'_> {
    fn enable_grid_timing(&mut self) {
        self.packed.grid_seconds = vec![[0.0; 2]; self.packed.grids.len() + 1];
    }

    fn grid_seconds(&self) -> &[[f64; 2]] {
        &self.packed.grid_seconds
    }

    fn separate_steps(&mut self) {
        (self.mode, self.results) = (LaunchMode::Separate, DeviceResults::None);
    }

    fn wait_until_done(&mut self) {
        let _ = self.attempt(|s| s.stream.wait());
    }
}

impl SolveSteps for Run<'_> {
    fn timing(&mut self) -> Option<&mut dyn Timing> {
        Some(self)
    }

    fn inspect(&mut self, has_guess: bool, criterion: Option<&Criterion>) -> Inputs {
        self.criterion = criterion.copied();
        if criterion.is_some_and(|criterion| criterion.max_iter == 0) {
            // The residual of the guess needs red values of x, which a fused start does not compute.
            self.mode = LaunchMode::Separate;
        }
        // A guess exists only in a solve, and not in an application of M^-1 or A.
        if has_guess && self.mode == LaunchMode::Together && self.packed.uses_fusion() {
            self.mode = LaunchMode::Fused;
        }
        let inputs = self.attempt(|s| s.inspect_inputs(has_guess)).unwrap_or(Inputs::failed());
        let direct_start = self.start_results().and_then(|start| start.direct_start);
        Inputs { scale: direct_start.map(|direct_start| direct_start.scale), ..inputs }
    }

    fn load(&mut self, scale: f64, load: Load) -> (f64, Option<[f64; 2]>) {
        let Some(has_guess) = load.guess() else {
            self.load_rhs(scale);
            return (0.0, None);
        };
        if matches!(load, Load::Separate(_)) {
            self.separate_steps();
        }
        self.scale = scale;
        if self.uses_fusion() {
            let rhs_norm2 = self.attempt(|s| s.load_fused(scale, has_guess)).unwrap_or(f64::NAN);
            return (rhs_norm2, None);
        }
        let known_norm2 = if let DeviceResults::Inspected(b_norm2) = self.results { b_norm2 } else { None };
        let rhs_norm2 = self.scalar(|s| {
            s.clear_planes(s.packed.b)?;
            launch::load_by_colour(s.stream, &s.transfer_args(s.packed.b, s.call.input, scale))?;
            s.clear_planes(s.packed.x)?;
            if has_guess {
                launch::load_by_colour(s.stream, &s.transfer_args(s.packed.x, s.call.output, scale))?;
            } else if let Some(known_norm2) = known_norm2 {
                // `scale` is a power of two, so the product is exact.
                return Ok(known_norm2 * scale * scale);
            }
            s.packed.dot_b(s.stream, offset_of!(Scalars, b_norm2))?;
            Ok(s.fetch_scalars()?.b_norm2)
        });
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        self.attempt(|s| s.packed.projection.worst_component(s.stream, s.packed.b)).unwrap_or((0, f64::NAN, f64::NAN))
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load_rhs(scale);
        }
        match self.results {
            DeviceResults::Started(StartResults { direct_start: Some(direct_start), .. }) => {
                direct_start.all_nodes_norm2
            }
            DeviceResults::Ended(EndResults { tested_norm2: Some(tested_norm2), .. }) => tested_norm2,
            _ => self.scalar(|s| {
                if s.uses_fusion() {
                    launch::all_nodes_residual(s.stream, &s.start_end_args(s.scale, Stage::Nothing, false))?;
                } else {
                    launch::residual(s.stream, &s.product_args(s.packed.x, 0))?;
                }
                Ok(s.fetch_scalars()?.all_nodes_norm2)
            }),
        }
    }

    fn reduce(&mut self, eliminated_vector: EliminatedVector) -> f64 {
        let norm2_on_red =
            if eliminated_vector == EliminatedVector::Residual { self.replace_rhs_by_residual() } else { 0.0 };
        if self.packed.shape.uses_schur && !self.uses_fusion() {
            let reduce_args = self.packed.reduce_args();
            if eliminated_vector == EliminatedVector::ReloadedRhs {
                self.step(|s| launch::reduce(s.stream, &ReduceArgs { r_b1: 0, r_b2: 0, ..reduce_args }));
            } else {
                self.step(|s| launch::reduce(s.stream, &reduce_args));
                self.results = DeviceResults::RhsReduced;
            }
        }
        norm2_on_red
    }

    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        if let Some(ended) = self.end_results() {
            return (ended.x_max, ended.tested_norm2);
        }
        let x_max = self.scalar(|s| {
            s.packed.back_substitute(s.stream)?;
            Ok(f64::from_bits(s.fetch_scalars()?.largest))
        });
        (x_max, None)
    }

    fn store(&mut self, scale: f64) {
        self.x_is_stored = true;
        let is_delivered = self.end_results().is_some_and(|ended| ended.is_delivered);
        self.step(|s| {
            if !is_delivered {
                launch::store_by_rows(s.stream, &s.transfer_args(s.packed.x, s.call.output, scale.recip()))?;
            } else if s.call.arrays.device_output != 0 {
                return Ok(());
            }
            s.call.fetch_output()
        });
    }

    fn multiply_rhs(&mut self) {
        self.step(|s| {
            launch::multiply(s.stream, &ProductArgs { partial: 0, ..s.product_args(s.packed.b, s.packed.x) })
        });
    }
}

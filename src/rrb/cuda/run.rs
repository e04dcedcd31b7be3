//! The steps of RRB-PCG on the device. A step launches kernels and returns. It waits for them only if it returns a
//! scalar or stores x. Steps that usually follow each other are launched together: the start, the loop, and the end of
//! a solve. `DeviceResults` records which results of these launches are available. A step whose result is available
//! returns it. Any other step launches its own kernels, and resets the results to `None`.

use super::packed::Packed;
use super::source::Source;
use super::textbook::product_args;
use crate::cuda::call::{Attempts, Call};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, LargestArgs, ProductArgs, ReduceArgs, Scalars, Stage, UpdateArgs};
use crate::cuda::looped;
use crate::error::{Error, Result};
use crate::krylov::pcg::{Means, OtherPreconditioner, PcgSteps, Properties, unfused_ascend, unfused_descend};
use crate::krylov::solve_steps::{Criterion, Eliminated, Inputs, Load, SolveSteps, Timing};
use crate::krylov::state::{Code, State};
use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
use crate::report::Event;
use crate::rrb::recursion::Recursion;
use std::mem::offset_of;

/// State of one run.
pub struct Run<'a> {
    pub k: &'a mut Packed,
    pub source: &'a mut Source,
    pub stream: &'a Stream,
    pub call: Call<'a>,
    /// Mode of launching: how many steps are launched together.
    pub mode: LaunchMode,
    /// Results of earlier launches that later steps can return.
    pub results: DeviceResults,
    /// Power of two by which b and x are multiplied when they are loaded.
    pub scale: f64,
    /// Value of `scale` in the last solve, which usually fits the next solve.
    pub last_scale: &'a mut Option<f64>,
    /// Stopping criterion, known before the start so that the loop can begin before the host has read the start's
    /// results.
    pub criterion: Option<Criterion>,
    /// Whether the caller's x already contains an iterate. Kernels must then not overwrite this array, because a later
    /// iterate may be worse.
    pub stored: bool,
    /// Number of iterations after which a loop pauses, so that the host can check whether it is slow.
    pub patience: i64,
    /// Number of iterations since the start, when the loop last paused or ended.
    pub loop_iterations: i64,
}

/// Number of iterations before the first check whether a loop is slow. A pause takes as long as one or two iterations.
pub const PATIENCE: i64 = crate::options::limits::SWITCH_ITERATIONS_ON_DEVICE;

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
    Reduced,
    /// r, p = z and q = A p of a start are available.
    Started(Start),
    /// The loop has ended, and the end of the solve has been computed.
    Ended(Ended),
}

#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub origin: Origin,
    /// <r, r>.
    pub norm2: f64,
    /// <r, M^-1 r>.
    pub rho: f64,
    /// <p, A p>.
    pub sigma: f64,
    /// Further results, if the start was computed directly from the caller's arrays.
    pub begun: Option<DirectStart>,
    /// Whether the loop has been launched after the start.
    pub loop_is_launched: bool,
}

impl Start {
    pub fn is_finite(&self) -> bool {
        [self.norm2, self.rho, self.sigma].iter().all(|v| v.is_finite())
    }
}

/// Vector from which r at the start was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// r is the right-hand side of CG.
    Rhs,
    /// r is the residual b - A x of the system of CG.
    Solution,
}

#[derive(Clone, Copy, Debug)]
pub struct DirectStart {
    pub scale: f64,
    /// ||b - A x||_2^2 on all nodes.
    pub whole_norm2: f64,
}

/// Results of the end of a solve, after the loop. x is available on all nodes.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// max |x|.
    pub largest: f64,
    /// <r, r> of the recomputed residual r = b - A x, if the stopping test requires it.
    pub norm2: Option<f64>,
    /// With a fused end: square of the tested norm of b - A x on all nodes.
    pub square: Option<f64>,
    /// Whether x is already in the caller's array.
    pub delivered: bool,
}

impl<'a> Run<'a> {
    pub fn new(k: &'a mut Packed, source: &'a mut Source, call: Call<'a>, last_scale: &'a mut Option<f64>) -> Self {
        k.grid_seconds.clear();
        Self {
            mode: if k.recorded.is_some() { LaunchMode::Together } else { LaunchMode::Separate },
            k,
            source,
            stream: call.stream,
            call,
            results: DeviceResults::None,
            scale: 1.0,
            last_scale,
            criterion: None,
            stored: false,
            patience: PATIENCE,
            loop_iterations: 0,
        }
    }

    /// Waits for the kernels on the stream, and returns the scalars.
    pub fn fetch(&mut self) -> Result<&Scalars> {
        self.k.scalars.fetch(self.stream)
    }

    /// Computes r with `make`. If steps are launched together, also computes the other vectors of the start. Returns
    /// <r, r>.
    fn start(&mut self, origin: Origin, make: impl FnOnce(&mut Self) -> Result<()>) -> f64 {
        self.scalar(|s| {
            make(s)?;
            if s.mode == LaunchMode::Separate {
                s.k.dot_r(s.stream, offset_of!(Scalars, sum))?;
                return Ok(s.fetch()?.sum);
            }
            s.k.start(s.stream, s.source)?;
            let &Scalars { norm2, rho, sigma, .. } = s.fetch()?;
            s.results =
                DeviceResults::Started(Start { origin, norm2, rho, sigma, begun: None, loop_is_launched: false });
            Ok(norm2)
        })
    }

    fn started(&self) -> Option<Start> {
        if let DeviceResults::Started(start) = self.results { Some(start) } else { None }
    }

    fn ended(&self) -> Option<Ended> {
        if let DeviceResults::Ended(ended) = self.results { Some(ended) } else { None }
    }

    /// Returns whether the loop may still be running on the stream.
    pub fn is_looping(&self) -> bool {
        self.started().is_some_and(|start| start.loop_is_launched)
    }

    fn fused(&self) -> bool {
        self.mode == LaunchMode::Fused
    }

    fn product_args(&self, v: Address, out: Address) -> ProductArgs {
        product_args(self.k, self.source, v, out)
    }
}

impl Attempts for Run<'_> {
    fn failed(&mut self) -> &mut Option<Error> {
        &mut self.call.failed
    }

    fn begin_step(&mut self) {
        self.results = DeviceResults::None;
    }
}

impl Run<'_> {
    fn vector(&self, v: VectorId) -> Address {
        match v {
            VectorId::X => self.k.x,
            VectorId::B => self.k.b,
            VectorId::R => self.k.r,
            VectorId::P => self.k.p,
            VectorId::Q => self.k.q,
            _ => self.k.z(),
        }
    }

    /// Returns the address of p after a loop. Fused stages alternate between two arrays for p; `direction` is the index
    /// of the array written last. Each array begins with the plane of b1. This plane has the number 2, so the returned
    /// address is that of a plane 0 which does not exist.
    fn current_p(&self) -> Address {
        if !self.k.fused() {
            return self.k.p;
        }
        let plane = 8 * self.k.grids[0].k.g.plane as u64;
        self.k.first.p_b1[self.k.scalars.direction as usize].wrapping_sub(2 * plane)
    }

    /// Sets r to the right-hand side of CG, which is the residual for x = 0. Returns <r, r>.
    fn residual_from_rhs(&mut self) -> f64 {
        match self.results {
            DeviceResults::Started(Start { origin: Origin::Rhs, norm2, .. }) => norm2,
            DeviceResults::Reduced => self.start(Origin::Rhs, |_| Ok(())),
            _ => self.start(Origin::Rhs, |s| {
                launch::direction(s.stream, &s.k.update_args(s.k.r, s.k.b, 0.0))?;
                s.stream.fill(s.k.scalars.at + offset_of!(Scalars, parity) as u64, 0, 4)
            }),
        }
    }

    /// Switches to aggregation if the estimated remaining work is then smaller. Returns whether it has switched.
    fn aggregate(&mut self, at: &State) -> bool {
        if !self.k.may_aggregate || !self.is_worthwhile(at) {
            return false;
        }
        self.k.may_aggregate = false;
        self.results = DeviceResults::None;
        // Fused stages alternate between two arrays for r on b1. Unfused steps use the first array.
        let parity = self.k.scalars.at + offset_of!(Scalars, parity) as u64;
        let _ = self.attempt(|s| s.stream.fill(parity, 0, 4));
        // If the setup of aggregation fails, the solve continues with the levels, unless the device has failed. An
        // error in the matrix is also ignored, because M of the levels can be positive definite although S1 is not.
        let made = self.attempt(|s| match s.k.change_to_aggregation(s.stream, s.source) {
            Err(error) if error.is_out_of_memory_or_unsupported() || matches!(error, Error::Matrix { .. }) => Ok(false),
            other => other.map(|()| true),
        });
        if made == Some(true) {
            self.mode = if self.k.recorded.is_some() { LaunchMode::Together } else { LaunchMode::Separate };
            at.report_change(self.call.observer);
        }
        made == Some(true)
    }

    /// Switches to the V-cycle if the current cycle is recursive and was selected automatically. Returns whether it has
    /// switched.
    fn fall_back(&mut self) -> bool {
        if !self.k.chose_recursion() {
            return false;
        }
        self.step(|s| {
            s.k.write_programs(s.stream, &Recursion::V)?;
            s.k.recorded = None;
            s.k.record(s.stream, s.source)
        });
        true
    }

    /// Computes b = b - A x. Returns <b_r, D_r^-1 b_r> of the new b, where b_r are its values on the red nodes, and D_r
    /// their centers.
    fn rhs_to_residual(&mut self) -> f64 {
        if !self.fused() {
            return self.scalar(|s| {
                launch::rhs_to_residual(s.stream, &s.product_args(s.k.x, s.k.b))?;
                Ok(s.fetch()?.sum)
            });
        }
        // With fused stages, the stored b does not change, and the residual of S1 is stored in r.
        let on_red = self.scalar(|s| {
            launch::eliminated_residual(s.stream, &s.start_end_args(s.scale, Stage::Nothing, false))?;
            Ok(s.fetch()?.whole_norm2)
        });
        self.results = DeviceResults::Reduced;
        on_red
    }

    /// Loads b = `scale` times the caller's input, unless fused passes read the caller's array directly.
    fn load_rhs(&mut self, scale: f64) {
        if !self.fused() {
            self.step(|s| {
                s.clear_planes(s.k.b)?;
                launch::load(s.stream, &s.transfer_args(s.k.b, s.call.input, scale))
            });
        }
    }
}

impl VectorSteps for Run<'_> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        if let (VectorId::R, VectorId::R, Some(start)) = (a, b, self.started()) {
            return start.norm2;
        }
        if (a, b) != (VectorId::Q, VectorId::Q) {
            // Every product computed below resets the results, except <q, q>. <q, q> is computed for a check after a
            // loop, and the results of the loop remain valid.
            self.begin_step();
        }
        let product = self.attempt(|s| {
            let sum = offset_of!(Scalars, sum);
            match (a, b) {
                (VectorId::R, VectorId::Z) => s.k.dot_z(s.stream, Stage::Nothing, sum)?,
                (VectorId::B, VectorId::B) => s.k.dot_b(s.stream, sum)?,
                _ => launch::dot(s.stream, &s.k.dot_args(s.vector(a), s.vector(b), s.k.cg_planes(), sum))?,
            }
            Ok(s.fetch()?.sum)
        });
        product.unwrap_or(f64::NAN)
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let Some(&(factor, from)) = terms.first() else { return self.step(|s| s.clear_planes(s.vector(to))) };
        let source = match from {
            // After a start, z has been overwritten, but p = z.
            VectorId::Z if self.started().is_some() => self.k.p,
            VectorId::P if to == VectorId::Q => self.current_p(),
            VectorId::Z => return self.step(|s| s.k.update_direction(s.stream, s.vector(to), scale)),
            _ => self.vector(from),
        };
        if to != VectorId::Q || self.started().is_some() {
            // If `to` is q, the results are reset only after a start, because only the results of a start include q.
            self.begin_step();
        }
        let _ = self.attempt(|s| {
            let update = s.k.update_args(s.vector(to), source, scale);
            if scale == 1.0 {
                launch::add_scaled(s.stream, &UpdateArgs { factor, ..update })
            } else {
                launch::direction(s.stream, &UpdateArgs { per_unit: factor, ..update })
            }
        });
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        self.scalar(|s| {
            let (g, v, scalars) = (s.source.g, s.vector(v), s.k.scalars.at);
            launch::largest(s.stream, &LargestArgs { g, v, scalars })?;
            Ok(f64::from_bits(s.fetch()?.largest))
        })
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        if of == Iterate::Zero {
            return self.residual_from_rhs();
        }
        if let DeviceResults::Ended(ended) = &mut self.results
            && let Some(norm2) = ended.norm2.take()
        {
            // The value is returned only once. At a restart, the sum must be computed again, because a start adds in
            // another order.
            return norm2;
        }
        match self.results {
            DeviceResults::Started(Start { origin: Origin::Solution, norm2, .. }) => norm2,
            _ => self.start(Origin::Solution, |s| s.k.residual(s.stream, s.source, Stage::Nothing)),
        }
    }

    fn observe(&mut self, event: Event) -> bool {
        self.call.observer.receive(event)
    }
}

impl PcgSteps for Run<'_> {
    fn properties(&self) -> Properties {
        Properties { eliminates: self.k.shape.schur, ..Properties::default() }
    }

    fn precondition(&mut self) -> f64 {
        if let Some(start) = self.started() {
            return start.rho;
        }
        self.scalar(|s| {
            s.k.sweeps(s.stream)?;
            s.k.dot_z(s.stream, Stage::Nothing, offset_of!(Scalars, sum))?;
            Ok(s.fetch()?.sum)
        })
    }

    fn means(&mut self, v: VectorId, to: Means) {
        self.step(|s| match to {
            Means::Store => s.k.projection.store_means(s.stream, s.k.x),
            _ => s.k.projection.shift(s.stream, s.vector(v), to == Means::Restore),
        });
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        let squares = self.attempt(|s| s.k.projection.constant_square(s.stream, s.k.r, s.source.m.center));
        squares.unwrap_or(f64::NAN)
    }

    fn multiply(&mut self) -> f64 {
        self.scalar(|s| {
            s.k.multiply(s.stream, s.source, Stage::Start, 0)?;
            Ok(s.fetch()?.sigma)
        })
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        match (alpha, self.started()) {
            (None, Some(start)) => start.norm2,
            // r is current, but there are no results of a start: the confirmation of the stopping test computed r, its
            // means were removed after the start, or the steps are launched separately.
            (None, None) => self.start(Origin::Solution, |_| Ok(())),
            (Some(_), _) => unfused_descend(self, alpha),
        }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        match (step, self.started()) {
            (None, Some(start)) => start.sigma,
            _ => unfused_ascend(self, step),
        }
    }

    fn iterate(&mut self, at: &mut State) -> Option<Code> {
        if self.mode == LaunchMode::Separate {
            return None;
        }
        self.attempt(|s| looped::run(s, at))
    }

    fn change_preconditioner(&mut self, to: OtherPreconditioner) -> bool {
        match to {
            OtherPreconditioner::Cheaper(at) => self.aggregate(at),
            OtherPreconditioner::Definite => self.fall_back(),
            OtherPreconditioner::Linear | OtherPreconditioner::Second => false,
        }
    }
}

impl Timing for Run<'_> {
    fn time_grids(&mut self) {
        self.k.grid_seconds = vec![[0.0; 2]; self.k.grids.len() + 1];
    }

    fn grid_seconds(&self) -> &[[f64; 2]] {
        &self.k.grid_seconds
    }

    fn separate_steps(&mut self) {
        (self.mode, self.results) = (LaunchMode::Separate, DeviceResults::None);
    }

    fn finish(&mut self) {
        let _ = self.attempt(|s| s.stream.wait());
    }
}

impl SolveSteps for Run<'_> {
    fn timing(&mut self) -> Option<&mut dyn Timing> {
        Some(self)
    }

    fn inspect(&mut self, guess: bool, criterion: Option<&Criterion>) -> Inputs {
        self.criterion = criterion.copied();
        if criterion.is_some_and(|criterion| criterion.max_iter == 0) {
            // The residual of the guess needs red values of x, which a fused start does not compute.
            self.mode = LaunchMode::Separate;
        }
        // A guess exists only in a solve, and not in an application of M^-1 or A.
        if guess && self.mode == LaunchMode::Together && self.k.fused() {
            self.mode = LaunchMode::Fused;
        }
        let inputs =
            self.attempt(|s| s.inspect_inputs(guess)).unwrap_or(Inputs { rhs_max: f64::NAN, ..Inputs::none() });
        let begun = self.started().and_then(|start| start.begun);
        Inputs { scale: begun.map(|begun| begun.scale), ..inputs }
    }

    fn load(&mut self, scale: f64, what: Load) -> (f64, Option<[f64; 2]>) {
        let Some(guess) = what.guess() else {
            self.load_rhs(scale);
            return (0.0, None);
        };
        if matches!(what, Load::Separate(_)) {
            self.separate_steps();
        }
        self.scale = scale;
        if self.fused() {
            let rhs_norm2 = self.attempt(|s| s.load_fused(scale, guess)).unwrap_or(f64::NAN);
            return (rhs_norm2, None);
        }
        let known = if let DeviceResults::Inspected(b_norm2) = self.results { b_norm2 } else { None };
        let rhs_norm2 = self.scalar(|s| {
            s.clear_planes(s.k.b)?;
            launch::load(s.stream, &s.transfer_args(s.k.b, s.call.input, scale))?;
            s.clear_planes(s.k.x)?;
            if guess {
                launch::load(s.stream, &s.transfer_args(s.k.x, s.call.output, scale))?;
            } else if let Some(known) = known {
                // `scale` is a power of two, so the product is exact.
                return Ok(known * scale * scale);
            }
            s.k.dot_b(s.stream, offset_of!(Scalars, b_norm2))?;
            Ok(s.fetch()?.b_norm2)
        });
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        self.attempt(|s| s.k.projection.worst(s.stream, s.k.b)).unwrap_or((0, f64::NAN, f64::NAN))
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load_rhs(scale);
        }
        match self.results {
            DeviceResults::Started(Start { begun: Some(begun), .. }) => begun.whole_norm2,
            DeviceResults::Ended(Ended { square: Some(square), .. }) => square,
            _ => self.scalar(|s| {
                if s.fused() {
                    launch::whole_residual(s.stream, &s.start_end_args(s.scale, Stage::Nothing, false))?;
                } else {
                    launch::residual(s.stream, &s.product_args(s.k.x, 0))?;
                }
                Ok(s.fetch()?.whole_norm2)
            }),
        }
    }

    fn reduce(&mut self, what: Eliminated) -> f64 {
        let on_red = if what == Eliminated::Residual { self.rhs_to_residual() } else { 0.0 };
        if self.k.shape.schur && !self.fused() {
            let reduce = self.k.reduce_args();
            if what == Eliminated::ReloadedRhs {
                self.step(|s| launch::reduce(s.stream, &ReduceArgs { r_b1: 0, r_b2: 0, ..reduce }));
            } else {
                self.step(|s| launch::reduce(s.stream, &reduce));
                self.results = DeviceResults::Reduced;
            }
        }
        on_red
    }

    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        if let Some(ended) = self.ended() {
            return (ended.largest, ended.square);
        }
        let largest = self.scalar(|s| {
            s.k.back_substitute(s.stream)?;
            Ok(f64::from_bits(s.fetch()?.largest))
        });
        (largest, None)
    }

    fn store(&mut self, scale: f64) {
        self.stored = true;
        let delivered = self.ended().is_some_and(|ended| ended.delivered);
        self.step(|s| {
            if !delivered {
                launch::store(s.stream, &s.transfer_args(s.k.x, s.call.output, scale.recip()))?;
            } else if s.call.arrays.device_output != 0 {
                return Ok(());
            }
            s.call.fetch_output()
        });
    }

    fn multiply_rhs(&mut self) {
        self.step(|s| launch::multiply(s.stream, &ProductArgs { partial: 0, ..s.product_args(s.k.b, s.k.x) }));
    }
}

//! The preconditioner as a list of steps for the device. At `factorize`, the cycle of `rrb::recursion` runs once on the
//! host with an implementation of `CycleSteps` that records the steps. The coefficients of the cycle are fixed numbers,
//! which are stored in the steps. Pointwise steps are merged into the preceding sweep. `schedule` groups the steps into
//! kernels.
//!
//! rho is <r, M^-1 r> of CG. The vectors r, z, d, q and u of an inner iteration are those of `rrb::recursion`.

use crate::cuda::driver::CooperativeLaunch;
use crate::cuda::launch::{MOST_BLOCKS, Op, flag, kind};
use crate::error::{Error, Result, collected, push};
use crate::rrb::recursion;
use crate::rrb::recursion::{Cycle, CycleSteps, Inner, Kind, Recursion};
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
pub(super) const OPS: &str = "the list of steps";

/// Immediate execution of recorded steps when a scalar is needed, for the estimates of eigenvalue bounds.
pub trait StepExecution {
    /// Executes the steps and returns <a, b> on a grid.
    fn inner_product(&mut self, ops: Vec<Op>, grid: usize, a: Inner, b: Inner) -> Result<f64>;
    /// Executes the steps, and sets d on a grid to a vector that contains all frequencies.
    fn set_all_frequencies(&mut self, ops: Vec<Op>, grid: usize) -> Result<()>;
}

/// Records the steps of a cycle.
pub struct Steps<'a> {
    /// First grid of each section, that is, of the levels from one recursion of the cycle to the next.
    sections: Vec<usize>,
    /// Number of grids.
    grids: usize,
    /// Whether the hierarchy is truncated after the last grid, so that there is no coarsest system (`flag::TRUNCATED`).
    truncated: bool,
    /// Whether the first grid has special steps, because CG runs on S1.
    schur: bool,
    /// Whether the steps on the first grid are fused with those of CG.
    fused: bool,
    /// Sections whose forward half computes a partial sum of rho. The solution of the coarsest system adds the last
    /// partial sum.
    rho: Range<usize>,
    /// Section whose next forward half must store its right-hand side.
    stores_rhs: Option<usize>,
    ops: Vec<Op>,
    /// First error of an allocation or of the device. If there is an error, the list must not be used.
    pub error: Option<Error>,
    execution: Option<&'a mut dyn StepExecution>,
}

impl<'a> Steps<'a> {
    pub fn new(sections: &[usize], grids: usize, schur: bool) -> Result<Self> {
        let (sections, ops) = (collected(sections.iter().copied(), OPS)?, Vec::new());
        let (truncated, fused, rho, stores_rhs) = (false, false, 0..0, None);
        Ok(Self { sections, grids, truncated, schur, fused, rho, stores_rhs, ops, error: None, execution: None })
    }

    /// Sets the object that executes recorded steps when their result is needed at once.
    pub fn with_execution(self, execution: &'a mut dyn StepExecution) -> Self {
        Self { execution: Some(execution), ..self }
    }

    /// Sets whether the hierarchy is truncated after the last grid, so that there is no coarsest system.
    pub fn with_truncation(self, truncated: bool) -> Self {
        Self { truncated, ..self }
    }

    /// Returns the grids of section k.
    fn grids(&self, k: usize) -> Range<usize> {
        self.sections[k]..self.sections.get(k + 1).copied().unwrap_or(self.grids)
    }

    fn push(&mut self, kind: i32, grid: usize, flags: i32) {
        self.add(Op { kind, grid: grid as i32, flags, ..Op::default() });
    }

    fn add(&mut self, op: Op) {
        if let Err(error) = push(&mut self.ops, op, OPS) {
            self.error = Some(error);
        }
    }

    /// Returns the last step if it has this kind and all of `flags`, and is on the first grid of section k.
    fn last(&mut self, kind: i32, k: usize, flags: i32) -> Option<&mut Op> {
        let grid = self.sections[k] as i32;
        self.ops.last_mut().filter(|op| op.kind == kind && op.grid == grid && op.flags & flags == flags)
    }

    /// Calls `f` with the recorded steps and removes them from the list. Returns `None` after an error.
    fn execute_recorded<T>(&mut self, f: impl FnOnce(&mut dyn StepExecution, Vec<Op>) -> Result<T>) -> Option<T> {
        let Some(execution) = self.execution.as_deref_mut() else {
            unreachable!("cycle=k is not supported on a device")
        };
        if self.error.is_some() {
            return None;
        }
        f(execution, std::mem::take(&mut self.ops)).map_err(|error| self.error = Some(error)).ok()
    }

    fn rho_flag(&self, k: usize) -> i32 {
        if self.rho.contains(&k) { flag::RHO } else { 0 }
    }
}

impl CycleSteps for Steps<'_> {
    fn recursions(&self) -> Range<usize> {
        1..self.sections.len()
    }

    fn takes_part(&self, _k: usize) -> bool {
        true
    }

    fn sweep_down(&mut self, k: usize) {
        let rho = self.rho_flag(k);
        for q in self.grids(k) {
            let kind = if q == 0 && self.schur { kind::DESCEND_FIRST } else { kind::DESCEND };
            let store = if q == self.sections[k] && self.stores_rhs.take_if(|section| *section == k).is_some() {
                flag::STORE_RHS
            } else {
                0
            };
            self.push(kind, q, rho | store);
        }
    }

    fn solve_coarsest(&mut self) {
        let last = self.rho_flag(self.sections.len() - 1);
        let update = if last != 0 { last | flag::UPDATE_SCALARS } else { 0 };
        match self.ops.last_mut() {
            Some(op) if self.truncated => op.flags |= update | flag::TRUNCATED,
            _ => self.push(kind::COARSEST, self.grids, update),
        }
    }

    fn sweep_up(&mut self, k: usize) {
        for q in self.grids(k).rev() {
            match (q == 0 && self.schur, self.fused) {
                (true, true) => self.push(kind::ADVANCE_FIRST, 0, 0),
                (true, false) => self.push(kind::ASCEND_FIRST, 0, 0),
                _ => self.push(kind::ASCEND, q, 0),
            }
        }
    }

    fn store_rhs(&mut self, k: usize) {
        self.stores_rhs = Some(k);
    }

    fn update_direction(&mut self, k: usize, beta: Option<f64>) {
        let flags = flag::UPDATE_DIRECTION | if beta.is_some() { flag::WITH_BETA } else { 0 };
        if self.last(kind::ASCEND, k, 0).is_none() {
            self.push(kind::DIRECTION_INNER, self.sections[k], 0);
        }
        if let Some(op) = self.ops.last_mut() {
            op.flags |= flags;
            op.beta = beta.unwrap_or(0.0);
        }
    }

    fn multiply_direction(&mut self, k: usize) {
        self.push(kind::MULTIPLY_INNER, self.sections[k], flag::STORE_PRODUCT);
    }

    fn inner_product(&mut self, k: usize, a: Inner, b: Inner) -> f64 {
        let grid = self.sections[k];
        self.execute_recorded(|execution, ops| execution.inner_product(ops, grid, a, b)).unwrap_or(f64::NAN)
    }

    fn advance(&mut self, k: usize, alpha: f64, first: bool, go_on: bool) {
        let first = if first { flag::FIRST_STEP } else { 0 };
        // If the preceding step is an upward sweep that computes d, this sweep also updates u. The product A d is then
        // subtracted from r at once, and need not be stored.
        let product = if go_on { self.last(kind::MULTIPLY_INNER, k, 0).copied() } else { None };
        if product.is_some() {
            self.ops.pop();
        }
        if (product.is_some() || !go_on)
            && let Some(op) = self.last(kind::ASCEND, k, flag::UPDATE_DIRECTION)
        {
            op.flags |= flag::UPDATE_SOLUTION | first;
            op.alpha = alpha;
            if let Some(product) = product {
                self.add(Op { flags: flag::UPDATE_RESIDUAL, alpha, ..product });
            }
            return;
        }
        if let Some(product) = product {
            self.add(product);
        }
        let flags = first | if go_on { flag::UPDATE_RESIDUAL } else { 0 };
        self.push(kind::ADVANCE_INNER, self.sections[k], flags);
        if let Some(op) = self.ops.last_mut() {
            op.alpha = alpha;
        }
    }

    fn copy_solution(&mut self, k: usize) {
        if let Some(op) = self.last(kind::ASCEND, k, flag::UPDATE_SOLUTION) {
            op.flags |= flag::Z_IS_U;
        } else if self.error.is_none() {
            unreachable!("a recursion ends with a step of its iteration")
        }
    }

    fn set_all_frequencies(&mut self, k: usize) {
        let grid = self.sections[k];
        let _ = self.execute_recorded(|execution, ops| execution.set_all_frequencies(ops, grid));
    }
}

/// Records the steps of an iteration on S1 from r to q if `fused`, and otherwise the steps of an application of M^-1.
pub fn steps_of(steps: Steps, fused: bool, recursion: &Recursion) -> Result<Vec<Op>> {
    let mut s = steps;
    s.fused = fused;
    let recurses = recursion.kind != Kind::V && s.sections.len() > 1;
    if fused {
        s.rho = if recurses { 0..1 } else { 0..s.sections.len() };
    }
    recursion::apply_section(&mut s, 0, recursion);
    if fused && recurses {
        // Let g be the right-hand side at the first recursion, and u the solution. The last sweep of the recursion adds
        // <g, u> to rho, so the first forward half must store g.
        let first = s.sections[1] as i32;
        let of_first = |op: &&mut Op| op.grid == first;
        if let Some(op) = s.ops.iter_mut().filter(of_first).find(|op| op.flags & flag::STORE_RHS != 0) {
            op.flags |= flag::STORE_RHS_IN_Q;
        }
        if let Some(op) = s.ops.iter_mut().filter(of_first).find(|op| op.flags & flag::Z_IS_U != 0) {
            op.flags |= flag::RHO | flag::UPDATE_SCALARS;
        }
    }
    s.error.map_or(Ok(s.ops), Err)
}

/// The lists of steps ("programs") of a factorization, and the grouping of the steps into kernels.
#[derive(Default)]
pub struct Programs {
    pub ops: Vec<Op>,
    /// Index ranges in `ops` of an iteration, and of an application of M^-1. `until_update` is the end of those steps
    /// of the iteration that precede or contain the scalar update, which needs rho.
    pub iteration: Range<usize>,
    pub until_update: usize,
    pub application: Range<usize>,
    /// Launch shape of a kernel that executes several steps.
    pub cooperative: CooperativeLaunch,
    /// First grid whose steps are executed by the kernel for several steps.
    pub base: usize,
    pub cluster_grids: ClusterGrids,
    /// Number of partial sums of rho.
    pub rho_count: usize,
}

/// Grids that are stored in the shared memory of the first cluster (kernels/rrb/cluster.cuh).
#[derive(Clone, Copy, Default)]
pub struct ClusterGrids {
    /// First of these grids.
    pub base: usize,
    /// Number of thread blocks among which the rows of each of these grids are divided; 0 if there are no such grids.
    pub row_blocks: u32,
    /// Shared memory per thread block in bytes.
    pub bytes: u32,
}
/// A part of the lists of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All steps of an iteration on S1, from r to q.
    Iteration,
    /// The steps of an iteration up to the scalar update, which needs rho. In a V-cycle, this update is at the end of
    /// the forward half, or in a backward sweep (`Programs::update_beside`).
    UntilUpdate,
    /// An application of M^-1. The input is z or, if CG runs on S1, the vector passed as `input`. The result is stored
    /// in z.
    Application,
}

impl Programs {
    /// Returns the largest number of steps, and of partial sums of rho, for all cycles that may be selected.
    pub fn max_steps_and_sums(sections: &[usize], grids: usize, schur: bool, cycle: &Cycle) -> Result<(usize, usize)> {
        let count = |kind| {
            let recursion = Recursion { kind, steps: cycle.steps, ..Recursion::V };
            let of = |fused| Ok(steps_of(Steps::new(sections, grids, schur)?, fused, &recursion)?.len());
            Ok(of(false)? + if schur { of(true)? } else { 0 })
        };
        let plain = count(Kind::V)?;
        let ops = if cycle.kind == Some(Kind::V) { plain } else { plain.max(count(Kind::Amli)?) };
        Ok((ops, (grids + 2) * MOST_BLOCKS as usize))
    }

    pub fn range(&self, part: Part) -> Range<usize> {
        match part {
            Part::Iteration => self.iteration.clone(),
            Part::UntilUpdate => self.iteration.start..self.until_update,
            Part::Application => self.application.clone(),
        }
    }
}

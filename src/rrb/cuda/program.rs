//! The preconditioner as a list of steps for the device. At `factorize`, the cycle of `rrb::recursion` runs once on the
//! host with an implementation of `CycleSteps` that records the steps. The coefficients of the cycle are fixed numbers,
//! which are stored in the steps. Pointwise steps are merged into the preceding sweep. `schedule` groups the steps into
//! kernels.
//!
//! rho is <r, M^-1 r> of CG. The vectors r, z, d, q and u of an inner iteration are those of `rrb::recursion`.

use crate::cuda::driver::CooperativeLaunch;
use crate::cuda::launch::{MAX_BLOCKS, Op, flag, kind};
use crate::error::{Error, Result, collected, push};
use crate::rrb::recursion;
use crate::rrb::recursion::{Cycle, CycleKind, CycleSteps, CycleVector, Recursion};
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
pub(super) const ALLOCATION_NAME: &str = "the list of steps";

/// Execution of the recorded steps whenever a scalar is needed during the recording. The estimates of eigenvalue bounds
/// use this trait.
pub trait StepExecution {
    /// Executes the steps, then returns <a, b> on a grid.
    fn inner_product(&mut self, ops: Vec<Op>, grid: usize, a: CycleVector, b: CycleVector) -> Result<f64>;
    /// Executes the steps, then sets d on a grid to a vector that contains all frequencies.
    fn set_all_frequencies(&mut self, ops: Vec<Op>, grid: usize) -> Result<()>;
}

/// Records the steps of a cycle.
pub struct StepRecorder<'a> {
    /// First grid of each section, that is, of the levels from one recursion of the cycle to the next.
    sections: Vec<usize>,
    /// Number of grids.
    grid_count: usize,
    /// Whether the hierarchy is truncated after the last grid, so that there is no coarsest system (`flag::TRUNCATED`).
    is_truncated: bool,
    /// Whether CG runs on S1. The steps on the first grid then differ from those on other grids.
    uses_schur: bool,
    /// Whether the steps on the first grid are fused with those of CG.
    is_fused: bool,
    /// Sections whose forward half computes a partial sum of rho. The step of the coarsest system computes the last
    /// partial sum.
    rho_sections: Range<usize>,
    /// Section whose next forward half must store its right-hand side.
    rhs_section: Option<usize>,
    ops: Vec<Op>,
    /// First error of an allocation or of the device. If there is an error, the list must not be used.
    pub error: Option<Error>,
    execution: Option<&'a mut dyn StepExecution>,
}

impl<'a> StepRecorder<'a> {
    pub fn new(sections: &[usize], grid_count: usize, uses_schur: bool) -> Result<Self> {
        let (sections, ops) = (collected(sections.iter().copied(), ALLOCATION_NAME)?, Vec::new());
        let (is_truncated, is_fused, rho_sections, rhs_section) = (false, false, 0..0, None);
        Ok(Self {
            sections,
            grid_count,
            is_truncated,
            uses_schur,
            is_fused,
            rho_sections,
            rhs_section,
            ops,
            error: None,
            execution: None,
        })
    }

    /// Sets the object that executes the recorded steps whenever a scalar is needed during the recording.
    pub fn with_execution(self, execution: &'a mut dyn StepExecution) -> Self {
        Self { execution: Some(execution), ..self }
    }

    /// Sets whether the hierarchy is truncated after the last grid, so that there is no coarsest system.
    pub fn with_truncation(self, is_truncated: bool) -> Self {
        Self { is_truncated, ..self }
    }

    /// Returns the grids of section k.
    fn section_grids(&self, k: usize) -> Range<usize> {
        self.sections[k]..self.sections.get(k + 1).copied().unwrap_or(self.grid_count)
    }

    fn push_op(&mut self, kind: i32, grid: usize, flags: i32) {
        self.append(Op { kind, grid: grid as i32, flags, ..Op::default() });
    }

    fn append(&mut self, op: Op) {
        if let Err(error) = push(&mut self.ops, op, ALLOCATION_NAME) {
            self.error = Some(error);
        }
    }

    /// Returns the last step if it has this kind and all of `flags`, and is on the first grid of section k.
    fn last_op(&mut self, kind: i32, k: usize, flags: i32) -> Option<&mut Op> {
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
        if self.rho_sections.contains(&k) { flag::RHO } else { 0 }
    }
}

impl CycleSteps for StepRecorder<'_> {
    fn recursions(&self) -> Range<usize> {
        1..self.sections.len()
    }

    fn takes_part(&self, _k: usize) -> bool {
        true
    }

    fn sweep_down(&mut self, k: usize) {
        let rho_flag = self.rho_flag(k);
        for q in self.section_grids(k) {
            let step_kind = if q == 0 && self.uses_schur { kind::DESCEND_FIRST } else { kind::DESCEND };
            let store_flag = if q == self.sections[k] && self.rhs_section.take_if(|section| *section == k).is_some() {
                flag::STORE_RHS
            } else {
                0
            };
            self.push_op(step_kind, q, rho_flag | store_flag);
        }
    }

    fn solve_coarsest(&mut self) {
        let last_rho_flag = self.rho_flag(self.sections.len() - 1);
        let update_flags = if last_rho_flag != 0 { last_rho_flag | flag::UPDATE_SCALARS } else { 0 };
        match self.ops.last_mut() {
            Some(op) if self.is_truncated => op.flags |= update_flags | flag::TRUNCATED,
            _ => self.push_op(kind::COARSEST, self.grid_count, update_flags),
        }
    }

    fn sweep_up(&mut self, k: usize) {
        for q in self.section_grids(k).rev() {
            match (q == 0 && self.uses_schur, self.is_fused) {
                (true, true) => self.push_op(kind::ADVANCE_FIRST, 0, 0),
                (true, false) => self.push_op(kind::ASCEND_FIRST, 0, 0),
                _ => self.push_op(kind::ASCEND, q, 0),
            }
        }
    }

    fn store_rhs(&mut self, k: usize) {
        self.rhs_section = Some(k);
    }

    fn update_direction(&mut self, k: usize, beta: Option<f64>) {
        let flags = flag::UPDATE_DIRECTION | if beta.is_some() { flag::WITH_BETA } else { 0 };
        if self.last_op(kind::ASCEND, k, 0).is_none() {
            self.push_op(kind::DIRECTION_INNER, self.sections[k], 0);
        }
        if let Some(op) = self.ops.last_mut() {
            op.flags |= flags;
            op.beta = beta.unwrap_or(0.0);
        }
    }

    fn multiply_direction(&mut self, k: usize) {
        self.push_op(kind::MULTIPLY_INNER, self.sections[k], flag::STORE_PRODUCT);
    }

    fn inner_product(&mut self, k: usize, a: CycleVector, b: CycleVector) -> f64 {
        let grid = self.sections[k];
        self.execute_recorded(|execution, ops| execution.inner_product(ops, grid, a, b)).unwrap_or(f64::NAN)
    }

    fn advance(&mut self, k: usize, alpha: f64, is_first: bool, continues: bool) {
        let first_step_flag = if is_first { flag::FIRST_STEP } else { 0 };
        // If the preceding step is an upward sweep that computes d, this sweep also updates u. The step that computes
        // A d then also updates r, and A d is not stored.
        let product_op = if continues { self.last_op(kind::MULTIPLY_INNER, k, 0).copied() } else { None };
        if product_op.is_some() {
            self.ops.pop();
        }
        if (product_op.is_some() || !continues)
            && let Some(op) = self.last_op(kind::ASCEND, k, flag::UPDATE_DIRECTION)
        {
            op.flags |= flag::UPDATE_SOLUTION | first_step_flag;
            op.alpha = alpha;
            if let Some(product_op) = product_op {
                self.append(Op { flags: flag::UPDATE_RESIDUAL, alpha, ..product_op });
            }
            return;
        }
        if let Some(product_op) = product_op {
            self.append(product_op);
        }
        let flags = first_step_flag | if continues { flag::UPDATE_RESIDUAL } else { 0 };
        self.push_op(kind::ADVANCE_INNER, self.sections[k], flags);
        if let Some(op) = self.ops.last_mut() {
            op.alpha = alpha;
        }
    }

    fn copy_solution(&mut self, k: usize) {
        if let Some(op) = self.last_op(kind::ASCEND, k, flag::UPDATE_SOLUTION) {
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

/// Records the steps of an iteration on S1 from r to q if `is_fused`, and otherwise the steps of an application of
/// M^-1.
pub fn record_steps(steps: StepRecorder, is_fused: bool, recursion: &Recursion) -> Result<Vec<Op>> {
    let mut recorder = steps;
    recorder.is_fused = is_fused;
    let has_recursions = recursion.kind != CycleKind::V && recorder.sections.len() > 1;
    if is_fused {
        recorder.rho_sections = if has_recursions { 0..1 } else { 0..recorder.sections.len() };
    }
    recursion::apply_section(&mut recorder, 0, recursion);
    if is_fused && has_recursions {
        // Let g be the right-hand side at the first recursion, and u the solution. The last sweep of the recursion adds
        // <g, u> to rho, so the first forward half must store g.
        let recursion_grid = recorder.sections[1] as i32;
        let is_on_recursion_grid = |op: &&mut Op| op.grid == recursion_grid;
        if let Some(op) =
            recorder.ops.iter_mut().filter(is_on_recursion_grid).find(|op| op.flags & flag::STORE_RHS != 0)
        {
            op.flags |= flag::STORE_RHS_IN_Q;
        }
        if let Some(op) = recorder.ops.iter_mut().filter(is_on_recursion_grid).find(|op| op.flags & flag::Z_IS_U != 0) {
            op.flags |= flag::RHO | flag::UPDATE_SCALARS;
        }
    }
    recorder.error.map_or(Ok(recorder.ops), Err)
}

/// The lists of steps ("programs") of a factorization, and the grouping of the steps into kernels.
#[derive(Default)]
pub struct Programs {
    pub ops: Vec<Op>,
    /// Index ranges in `ops`: the steps of an iteration, and the steps of an application of M^-1. `update_end` is the
    /// end of those steps of the iteration that precede or contain the scalar update, which needs rho.
    pub iteration_range: Range<usize>,
    pub update_end: usize,
    pub application_range: Range<usize>,
    /// Launch parameters of the kernel that executes several steps.
    pub cooperative: CooperativeLaunch,
    /// First grid whose steps are executed by the kernel for several steps.
    pub first_joined_grid: usize,
    pub cluster_grids: ClusterGrids,
    /// Number of partial sums of rho.
    pub rho_count: usize,
}

/// Grids that are stored in the shared memory of the first cluster (kernels/rrb/cluster.cuh).
#[derive(Clone, Copy, Default)]
pub struct ClusterGrids {
    /// First of these grids.
    pub first_grid: usize,
    /// Number of thread blocks among which the rows of each of these grids are divided; 0 if there are no such grids.
    pub row_blocks: u32,
    /// Shared memory per thread block in bytes.
    pub bytes: u32,
}
/// Range of steps that `Packed::run` launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramPart {
    /// All steps of an iteration on S1, from r to q.
    Iteration,
    /// The steps of an iteration up to the scalar update, which needs rho. In a V-cycle, this update is at the end of
    /// the forward half, or in a backward sweep (`Programs::move_scalar_update`).
    UntilUpdate,
    /// An application of M^-1. The input is z or, if CG runs on S1, the vector passed as `input`. The result is stored
    /// in z.
    Application,
}

impl Programs {
    /// Returns the largest number of steps, and the largest number of partial sums of rho, of all cycles that may be
    /// selected.
    pub fn max_steps_and_sums(
        sections: &[usize],
        grid_count: usize,
        uses_schur: bool,
        cycle: &Cycle,
    ) -> Result<(usize, usize)> {
        let count_steps = |kind| {
            let recursion = Recursion { kind, steps: cycle.steps, ..Recursion::V };
            let step_count = |is_fused| {
                Ok(record_steps(StepRecorder::new(sections, grid_count, uses_schur)?, is_fused, &recursion)?.len())
            };
            Ok(step_count(false)? + if uses_schur { step_count(true)? } else { 0 })
        };
        let v_cycle_steps = count_steps(CycleKind::V)?;
        let max_steps = if cycle.kind == Some(CycleKind::V) {
            v_cycle_steps
        } else {
            v_cycle_steps.max(count_steps(CycleKind::Amli)?)
        };
        Ok((max_steps, (grid_count + 2) * MAX_BLOCKS as usize))
    }

    pub fn op_range(&self, part: ProgramPart) -> Range<usize> {
        match part {
            ProgramPart::Iteration => self.iteration_range.clone(),
            ProgramPart::UntilUpdate => self.iteration_range.start..self.update_end,
            ProgramPart::Application => self.application_range.clone(),
        }
    }
}

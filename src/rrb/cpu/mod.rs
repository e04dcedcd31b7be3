//! RRB preconditioner and CG on grids stored by colour (r1, r2, b1, b2; report 16-06, section 3.2). With one thread,
//! this is solver S2 of report 16-06. With several threads, it is solver S3 of that report.
//!
//! Each module may use only the modules before it in this list:
//!
//! - `number`: storage formats of M;
//! - `colour_array`, `neighbours`: arrays of one colour, which the threads share, and the neighbours of each colour;
//! - `loops`, `loops_setup`: loops over one row;
//! - `conversion`: conversion between natural rows and colours;
//! - `ranks`: data exchange of distributed grids;
//! - `system`: A and S1;
//! - `couplings`, `aggregated`: couplings and row sums of the matrix on which CG runs, and M by aggregation;
//! - `levels`: grids and their unfused sweeps;
//! - `projection`: singular components;
//! - `packed`: all data of a factorization;
//! - `sweeps`, `cycle`: fused sweeps and the steps of a cycle;
//! - `factor`, `iteration`: the factorization and the steps of a solve.

mod aggregated;
pub mod colour_array;
pub mod conversion;
mod couplings;
mod cycle;
mod factor;
mod iteration;
mod levels;
mod loops;
mod loops_setup;
mod neighbours;
mod number;
mod packed;
mod projection;
mod ranks;
mod sweeps;
mod system;

use crate::base::engine::Engine;
use crate::base::heap::boxed;
use crate::base::team::{Team, TeamThread};
use crate::error::{Error, Result};
use crate::krylov::cpu::caller::CallerArrays;
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::rrb::backend::{
    CostOfAggregation, FivePointMatrix, InspectionSetup, PivotContext, Report, RrbBackend, Setup,
};
use crate::rrb::cpu::conversion::natural_rows;
use crate::rrb::cpu::iteration::thread::ThreadState;
use crate::rrb::domain::Domain;
use crate::rrb::layout::Layout;
use crate::rrb::recursion::CycleKind;
use crate::rrb::reference::Reference;
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::inspection::{Inspection, SpeculationConditions};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;
use crate::stencil::outward::OutwardCouplings;
use aggregated::{AGGREGATION_COST, AggregationCycle, check_components_projected};
use factor::SpeculativeInspection;
use number::{Bf16Format, F32Format, F64Format, Format, MixedFormat};
use packed::PackedSystem;
use std::ops::Range;
use system::{MIN_TEAM_NODES, PackedShape};

/// Name of the memory in error messages about failed allocations.
const SOLVER_ALLOCATION: &str = "a solver's lists";

/// The `cpu` backend: thread team and current factorization.
pub struct Cpu {
    max_threads: usize,
    team: Option<Team>,
    solver: Solver,
    /// Memory of an earlier factorization with another [`PackedShape`]. It is reused if the caller alternates between
    /// matrices of two shapes, for example regular and singular matrices.
    spare_solver: Option<Box<dyn PackedSolver>>,
    /// Distribution of the first grids among ranks; `None` if the handle is not distributed.
    domain: Option<Domain>,
}

/// The current factorization, if any.
enum Solver {
    /// No factorization exists.
    Empty,
    /// Factorization whose first grids are stored by colour, and whose coarser levels are in natural storage.
    Packed(Box<dyn PackedSolver>),
    /// Factorization without a grid that is stored by colour. One thread works on all levels, which are in natural
    /// storage.
    Natural(Box<Reference>),
}

impl Cpu {
    /// Creates a backend with at most `threads` threads. The thread team starts with the first matrix.
    pub fn new(threads: usize) -> Self {
        Self { max_threads: threads, team: None, solver: Solver::Empty, spare_solver: None, domain: None }
    }

    /// Creates the backend of one rank of a distributed grid.
    pub fn with_domain(threads: usize, domain: Domain) -> Self {
        Self { domain: Some(domain), ..Self::new(threads) }
    }

    /// Returns the distribution of the first grids among several ranks; `None` if there is only one rank.
    fn shared_domain(&self) -> Option<&Domain> {
        self.domain.as_ref().filter(|domain| domain.comm.size() > 1)
    }

    /// Returns memory of the shape `shape` for a factorization: the memory of `previous` if that has this shape,
    /// otherwise the spare memory if that has this shape, otherwise new memory.
    fn take_or_allocate(
        &mut self,
        previous: Solver,
        shape: PackedShape,
        setup: &Setup,
    ) -> Result<Box<dyn PackedSolver>> {
        let replaced = match previous {
            Solver::Packed(packed) if packed.shape() == shape => return Ok(packed),
            replaced => replaced,
        };
        let reusable = self.spare_solver.take_if(|spare_solver| spare_solver.shape() == shape);
        // The memory of the previous factorization becomes the spare memory. If no later matrix can have the shape of
        // the previous factorization (`was_replaced`), its memory is freed instead. Memory is freed before new memory
        // is allocated.
        match replaced {
            Solver::Packed(packed) if packed.was_replaced() => drop(packed),
            Solver::Packed(packed) => self.spare_solver = Some(packed),
            _ => self.spare_solver = None,
        }
        if let Some(reusable) = reusable {
            return Ok(reusable);
        }
        let domain = self.shared_domain();
        match setup.storage {
            // With aggregation, `Setup::storage` is only the format of the multigrid hierarchy. The arrays stored by
            // colour contain doubles.
            _ if shape.uses_aggregation => new_packed::<F64Format>(shape, domain),
            Storage::F64 => new_packed::<F64Format>(shape, domain),
            Storage::F32 => new_packed::<F32Format>(shape, domain),
            Storage::Bf16 => new_packed::<Bf16Format>(shape, domain),
            Storage::Mixed => new_packed::<MixedFormat>(shape, domain),
        }
    }
}

impl RrbBackend for Cpu {
    fn run_over_rows(&mut self, grid: Grid, work: &(dyn Fn(usize, Range<usize>) + Sync)) -> Result<()> {
        // The thread team of the last factorization is used, if there is one. Before the first factorization, the
        // number of threads depends on the number of nodes and of rows J.
        if self.team.is_none() {
            let uses_team = grid.nodes() >= MIN_TEAM_NODES;
            Team::with_size(
                &mut self.team,
                if uses_team { self.max_threads.clamp(1, grid.ny.div_ceil(2)) } else { 1 },
            )?;
        }
        let team = Team::require(&mut self.team)?;
        // Each thread gets the same rows as in the factorization.
        let layout = Layout::new(grid, 1);
        let rows = self.domain.as_ref().map_or(0..layout.cy, |domain| domain.rows(0));
        let work_on_share = |thread: TeamThread| {
            let share = thread.share(rows.len());
            work(thread.index, natural_rows(&layout, &(rows.start + share.start..rows.start + share.end)));
        };
        team.run(work_on_share, work_on_share)
    }

    fn inspect_matrix(
        &mut self,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        inspection: &mut Inspection,
    ) -> Result<()> {
        let result = inspection.start(inspection_setup.threads).and_then(|()| {
            let shared_inspection = &*inspection;
            self.run_over_rows(a.grid, &|thread, rows| {
                shared_inspection.inspect(thread, a, rows, &inspection_setup.checks)
            })
        });
        let Some(domain) = &self.domain else {
            return result.and_then(|()| inspection.finish(a, inspection_setup.projects_null_space));
        };
        let own_rank_rows = (domain.comm.rank(), domain.strips.natural_rows(domain.comm.rank()));
        inspection.finish_with_ranks(
            a,
            own_rank_rows,
            result,
            inspection_setup.projects_null_space,
            |rank_result| domain.gather_results(rank_result),
        )?;
        domain.set_center_max(inspection.findings.center_max);
        Ok(())
    }

    fn outward(&mut self, a: &StencilView) -> Result<OutwardCouplings> {
        let own_rows = self.domain.as_ref().map(|domain| domain.strips.natural_rows(domain.comm.rank()));
        Ok(OutwardCouplings::of_rows(a, own_rows.unwrap_or(0..a.grid.ny)))
    }

    fn shares_grids(&self) -> bool {
        self.domain.is_some()
    }

    fn cost_of_aggregation(&self, _nodes: usize) -> Option<&'static CostOfAggregation> {
        Some(&AGGREGATION_COST).filter(|_| self.domain.is_none())
    }

    fn release_spare_memory(&mut self) {
        self.spare_solver = None;
    }

    fn release(&mut self) {
        self.solver = Solver::Empty;
    }

    fn factorize(&mut self, a: &StencilView, setup: &Setup, components: &Components) -> Result<()> {
        let previous = std::mem::replace(&mut self.solver, Solver::Empty);
        if setup.grids == 0 {
            self.spare_solver = None;
            let mut reference = match previous {
                Solver::Natural(reference) => reference,
                other => {
                    drop(other);
                    boxed(Reference::default(), SOLVER_ALLOCATION)?
                }
            };
            Team::with_size(&mut self.team, 1)?;
            reference.factorize(a, setup, components)?;
            self.solver = Solver::Natural(reference);
            return Ok(());
        }
        let shape = PackedShape::new(a, setup);
        let threads = shape.useful_threads(self.max_threads);
        let allocated = self
            .take_or_allocate(previous, shape, setup)
            .and_then(|packed| Team::with_size(&mut self.team, threads).map(|_| packed));
        let mut packed = match self.shared_domain() {
            // If the allocation fails on one rank, all ranks return an error.
            Some(domain) => {
                let mut allocated = allocated;
                let prepared = allocated.as_mut().map_err(|error| error.clone());
                domain.share_error(prepared.and_then(|packed| packed.prepare(setup, components, threads)).err())?;
                allocated?
            }
            None => allocated?,
        };
        packed.set_pivot_center(self.domain.as_ref().map(Domain::center_max));
        packed.factorize(Team::require(&mut self.team)?, a, setup, components)?;
        self.solver = Solver::Packed(packed);
        Ok(())
    }

    fn factorize_speculatively(
        &mut self,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        setup: &Setup,
        inspection: &mut Inspection,
    ) -> Result<bool> {
        let (Solver::Packed(packed), Some(team)) = (&mut self.solver, &mut self.team) else { return Ok(false) };
        let shape = PackedShape::new(a, setup);
        if self.domain.is_some() || packed.shape() != shape || shape.useful_threads(self.max_threads) != team.threads()
        {
            return Ok(false);
        }
        match packed.factorize_speculatively(team, a, inspection_setup, setup, inspection) {
            Ok(is_accepted) => Ok(is_accepted),
            // The caller then factorizes without speculation, which reports the error again. The failed attempt may
            // have left infinities in the padding, so the memory is discarded.
            Err(_) => {
                self.solver = Solver::Empty;
                Ok(false)
            }
        }
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        match &mut self.solver {
            Solver::Empty => Err(Error::State("factorize must come before solve".to_owned())),
            Solver::Natural(reference) => reference.run(arrays, observer, program),
            Solver::Packed(packed) => {
                let team = Team::require(&mut self.team)?;
                packed.run(team, arrays, observer, program)
            }
        }
    }

    fn report(&self) -> Report {
        match &self.solver {
            Solver::Empty => Report::V_CYCLE,
            Solver::Natural(reference) => reference.report(),
            Solver::Packed(packed) => packed.report(),
        }
    }

    fn matrix(&self) -> Result<Option<FivePointMatrix>> {
        match &self.solver {
            Solver::Packed(packed) => packed.matrix(),
            _ => Ok(None),
        }
    }
}

impl Engine for Cpu {
    fn bytes(&self) -> [usize; 2] {
        match &self.solver {
            Solver::Empty => [0, 0],
            Solver::Natural(reference) => reference.bytes(),
            Solver::Packed(packed) => {
                [packed.bytes() + self.spare_solver.as_ref().map_or(0, |spare_solver| spare_solver.bytes()), 0]
            }
        }
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::threads)
    }
}

/// A [`PackedSystem`] of any storage format.
trait PackedSolver: Send {
    fn shape(&self) -> PackedShape;
    /// Allocates the memory that depends on the matrix and on the number of threads.
    fn prepare(&mut self, setup: &Setup, components: &Components, threads: usize) -> Result<()>;
    /// Sets the value of [`PivotContext::center_substitute`] for later factorizations.
    fn set_pivot_center(&mut self, center: Option<f64>);
    /// Returns whether `cycle=auto` selected the V-cycle after a factorization with the levels of a recursive cycle.
    /// Later matrices then have the levels of the V-cycle, which are fewer, so this shape does not occur again.
    fn was_replaced(&self) -> bool {
        self.shape().cycle.kind.is_none() && self.report().kind == CycleKind::V
    }
    fn factorize(&mut self, team: &mut Team, a: &StencilView, setup: &Setup, components: &Components) -> Result<()>;
    /// See [`RrbBackend::factorize_speculatively`].
    fn factorize_speculatively(
        &mut self,
        team: &mut Team,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        setup: &Setup,
        inspection: &mut Inspection,
    ) -> Result<bool>;
    fn run(
        &mut self,
        team: &mut Team,
        arrays: Arrays,
        observer: &mut dyn Observer,
        program: Program,
    ) -> Result<Outcome>;
    /// See [`RrbBackend::report`].
    fn report(&self) -> Report;
    /// See [`RrbBackend::matrix`].
    fn matrix(&self) -> Result<Option<FivePointMatrix>>;
    fn bytes(&self) -> usize;
}

impl<F: Format> PackedSolver for PackedSystem<F> {
    fn shape(&self) -> PackedShape {
        self.shape
    }

    fn prepare(&mut self, setup: &Setup, components: &Components, threads: usize) -> Result<()> {
        Self::prepare(self, setup, components, threads)
    }

    fn set_pivot_center(&mut self, center: Option<f64>) {
        self.pivot_center = center;
    }

    fn factorize(&mut self, team: &mut Team, a: &StencilView, setup: &Setup, components: &Components) -> Result<()> {
        self.prepare(setup, components, team.threads())?;
        let context = PivotContext { a, components, center_substitute: self.pivot_center };
        let shared_self = &*self;
        let result = team.run(
            |thread| drop(shared_self.factorize_on_thread(thread, setup, &context, None)),
            |thread| shared_self.factorize_on_thread(thread, setup, &context, None),
        )?;
        self.is_fresh = false;
        result?;
        if self.shape.uses_aggregation {
            check_components_projected(components)?;
            let kept_aggregates = self.take_reusable_aggregates();
            self.aggregation_cycle =
                self.build_aggregation_cycle(setup.storage, kept_aggregates, team.threads())?.into();
        }
        Ok(())
    }

    fn factorize_speculatively(
        &mut self,
        team: &mut Team,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        setup: &Setup,
        inspection: &mut Inspection,
    ) -> Result<bool> {
        // During the factorization, the threads need the singular components of A, which are not known yet. This
        // function assumes that A has none.
        if self.is_fresh || self.aggregation_cycle.get().is_some() || !self.singular.is_empty() {
            return Ok(false);
        }
        inspection.start(team.threads())?;
        let shared_inspection = &*inspection;
        self.prepare(setup, &shared_inspection.components, team.threads())?;
        // `setup.storage_unit` was computed for the previous matrix. If a center is at least twice this value, the new
        // matrix requires a larger `storage_unit`. With the value in `setup`, M / `storage_unit` could overflow in f32.
        let center_limit = if setup.storage == Storage::F64 { f64::INFINITY } else { 2.0 * setup.storage_unit };
        let speculation = SpeculativeInspection::new(
            shared_inspection,
            SpeculationConditions { zero_row_sum: inspection_setup.checks.zero_row_sum, center_limit },
        );
        let (shared_self, context) = (&*self, PivotContext::new(a, &shared_inspection.components));
        // Zero pivots occur if rows fail the inspection, or if the entries have another magnitude than in the previous
        // matrix. If a row fails or a pivot is rejected, the whole factorization is discarded. After an error, the
        // caller discards it.
        let factorize_speculatively =
            |thread: TeamThread| shared_self.factorize_on_thread(thread, setup, &context, Some(&speculation));
        let result = team.run(|thread| drop(factorize_speculatively(thread)), factorize_speculatively)?;
        let speculation_failed = speculation.has_failed();
        result?;
        if speculation_failed {
            return Ok(false);
        }
        inspection.finish(a, inspection_setup.projects_null_space)?;
        Ok(inspection.components.size.is_empty())
    }

    fn run(
        &mut self,
        team: &mut Team,
        arrays: Arrays,
        observer: &mut dyn Observer,
        program: Program,
    ) -> Result<Outcome> {
        self.observed.begin_run(observer);
        let (shared_self, caller) = (&*self, CallerArrays::new(arrays, usize::MAX));
        let result = team.run(
            |thread| drop(program(&mut ThreadState::new(shared_self, thread, &caller, None))),
            |thread| program(&mut ThreadState::new(shared_self, thread, &caller, Some(observer))),
        )?;
        if Outcome::may_leave_infinities(&result) {
            self.clear_vectors();
        }
        result
    }

    fn report(&self) -> Report {
        let cycle = self.aggregation_cycle.get();
        Report {
            kind: self.recursion().kind,
            levels: cycle.map(|cycle| cycle.levels),
            uses_aggregation: cycle.is_some(),
            reused_aggregate_count: cycle.map_or(0, AggregationCycle::reused_aggregate_count),
            grids: self.shape.grid_count,
        }
    }

    fn matrix(&self) -> Result<Option<FivePointMatrix>> {
        self.natural_matrix()
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

fn new_packed<F: Format + 'static>(shape: PackedShape, domain: Option<&Domain>) -> Result<Box<dyn PackedSolver>> {
    Ok(PackedSystem::<F>::new(shape, domain)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn each_row_belongs_to_one_thread() {
        for (ny, threads) in [(1, 3), (50, 2), (200, 1), (200, 3), (200, 7)] {
            let mut cpu = Cpu::new(threads);
            let grid = Grid { nx: 100, ny };
            for _ in 0..2 {
                let shares = Mutex::new(Vec::new());
                cpu.run_over_rows(grid, &|thread, rows| shares.lock().unwrap().push((thread, rows))).unwrap();
                let mut shares = shares.into_inner().unwrap();
                shares.sort_by_key(|(thread, _)| *thread);
                assert_eq!(shares.len(), if grid.nodes() < MIN_TEAM_NODES { 1 } else { threads });
                let threads: Vec<usize> = shares.iter().map(|(thread, _)| *thread).collect();
                assert_eq!(threads, (0..shares.len()).collect::<Vec<_>>());
                let rows: Vec<usize> = shares.into_iter().flat_map(|(_, rows)| rows).collect();
                assert_eq!(rows, (0..ny).collect::<Vec<_>>());
            }
        }
    }
}

//! RRB preconditioner and CG on grids stored by colour (r1, r2, b1, b2; report 16-06, section 3.2). With one thread,
//! this is the solver that the report calls S2, and with several threads its solver S3.
//!
//! Each module may use only the modules before it in this list:
//!
//! - `number`: storage formats of M;
//! - `colour_array`, `neighbours`: arrays of one colour, which the threads share, and the neighbours of each colour;
//! - `loops`, `loops_setup`: loops over one row;
//! - `conversion`: conversion between natural rows and colours;
//! - `ranks`: data exchange of distributed grids;
//! - `system`: A and S1;
//! - `couplings`, `aggregated`: the matrix in the form that aggregation reads, and M by aggregation;
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
use crate::base::team::{Me, Team};
use crate::error::{Error, Result};
use crate::krylov::cpu::caller::CallerArrays;
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::rrb::backend::{CostOfAggregation, FivePoints, InspectionSetup, PivotContext, Report, RrbBackend, Setup};
use crate::rrb::cpu::conversion::natural_rows;
use crate::rrb::cpu::iteration::thread::ThreadState;
use crate::rrb::domain::Domain;
use crate::rrb::layout::Layout;
use crate::rrb::recursion::Kind;
use crate::rrb::reference::Reference;
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::inspection::{Conditions, Inspection};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;
use crate::stencil::outward::Outward;
use aggregated::{Aggregated, COST, check_unprojected};
use factor::SpeculativeInspection;
use number::{BrainFloat, Double, Format, Mixed, Single};
use packed::Packed;
use std::ops::Range;
use system::{MIN_TEAM_NODES, Shape};

/// Name of the memory in error messages about failed allocations.
const SOLVER: &str = "a solver's lists";

/// The `cpu` backend: thread team and current factorization.
pub struct Cpu {
    wanted_threads: usize,
    team: Option<Team>,
    solver: Solver,
    /// Memory of a previous factorization with another shape. It is reused if the caller alternates between two kinds
    /// of matrices, for example regular and singular ones.
    spare: Option<Box<dyn PackedSolver>>,
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
        Self { wanted_threads: threads, team: None, solver: Solver::Empty, spare: None, domain: None }
    }

    /// Creates the backend of one rank of a distributed grid.
    pub fn with_domain(threads: usize, domain: Domain) -> Self {
        Self { domain: Some(domain), ..Self::new(threads) }
    }

    /// Returns the distribution of the first grids if there are several ranks.
    fn shared_domain(&self) -> Option<&Domain> {
        self.domain.as_ref().filter(|domain| domain.comm.size() > 1)
    }

    /// Returns memory for a factorization. Reuses the memory of a previous factorization with the same shape.
    fn packed_for(&mut self, previous: Solver, shape: Shape, setup: &Setup) -> Result<Box<dyn PackedSolver>> {
        let other = match previous {
            Solver::Packed(packed) if packed.shape() == shape => return Ok(packed),
            other => other,
        };
        let fitting = self.spare.take_if(|spare| spare.shape() == shape);
        // The memory of the previous factorization becomes the spare memory if a later matrix may use it, and otherwise
        // is freed. The old spare memory is freed before more memory is allocated.
        match other {
            Solver::Packed(packed) if packed.was_replaced() => drop(packed),
            Solver::Packed(packed) => self.spare = Some(packed),
            _ => self.spare = None,
        }
        if let Some(fitting) = fitting {
            return Ok(fitting);
        }
        let domain = self.shared_domain();
        match setup.storage {
            // With aggregation, `Setup::storage` is the format of the hierarchy, which has its own arrays.
            _ if shape.aggregates => packed::<Double>(shape, domain),
            Storage::F64 => packed::<Double>(shape, domain),
            Storage::F32 => packed::<Single>(shape, domain),
            Storage::Bf16 => packed::<BrainFloat>(shape, domain),
            Storage::Mixed => packed::<Mixed>(shape, domain),
        }
    }
}

impl RrbBackend for Cpu {
    fn over_rows(&mut self, grid: Grid, work: &(dyn Fn(usize, Range<usize>) + Sync)) -> Result<()> {
        // The thread team of the last factorization is used, if there is one. Before the first factorization, the
        // number of threads depends on the number of nodes and of rows J.
        if self.team.is_none() {
            let with_team = grid.nodes() >= MIN_TEAM_NODES;
            Team::sized(&mut self.team, if with_team { self.wanted_threads.clamp(1, grid.ny.div_ceil(2)) } else { 1 })?;
        }
        let team = Team::started(&mut self.team)?;
        // Each thread gets the same rows as in the factorization.
        let layout = Layout::new(grid, 1);
        let rows = self.domain.as_ref().map_or(0..layout.cy, |domain| domain.rows(0));
        let own = |me: Me| {
            let share = me.share(rows.len());
            work(me.index, natural_rows(&layout, &(rows.start + share.start..rows.start + share.end)));
        };
        team.run(own, own)
    }

    fn examine(
        &mut self,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        inspection: &mut Inspection,
    ) -> Result<()> {
        let inspected = inspection.start(inspection_setup.threads).and_then(|()| {
            let shared = &*inspection;
            self.over_rows(a.grid, &|member, rows| shared.inspect(member, a, rows, &inspection_setup.checks))
        });
        let Some(domain) = &self.domain else {
            return inspected.and_then(|()| inspection.finish(a, inspection_setup.project));
        };
        let own = (domain.comm.rank(), domain.strips.natural(domain.comm.rank()));
        inspection
            .finish_with_ranks(a, own, inspected, inspection_setup.project, |found| domain.gather_found(found))?;
        domain.set_center(inspection.findings.center_max);
        Ok(())
    }

    fn outward(&mut self, a: &StencilView) -> Result<Outward> {
        let own = self.domain.as_ref().map(|domain| domain.strips.natural(domain.comm.rank()));
        Ok(Outward::of_rows(a, own.unwrap_or(0..a.grid.ny)))
    }

    fn shares_grids(&self) -> bool {
        self.domain.is_some()
    }

    fn cost_of_aggregation(&self, _nodes: usize) -> Option<&'static CostOfAggregation> {
        Some(&COST).filter(|_| self.domain.is_none())
    }

    fn release_spare(&mut self) {
        self.spare = None;
    }

    fn release(&mut self) {
        self.solver = Solver::Empty;
    }

    fn factorize(&mut self, a: &StencilView, setup: &Setup, components: &Components) -> Result<()> {
        let previous = std::mem::replace(&mut self.solver, Solver::Empty);
        if setup.grids == 0 {
            self.spare = None;
            let mut natural = match previous {
                Solver::Natural(natural) => natural,
                other => {
                    drop(other);
                    boxed(Reference::default(), SOLVER)?
                }
            };
            Team::sized(&mut self.team, 1)?;
            natural.factorize(a, setup, components)?;
            self.solver = Solver::Natural(natural);
            return Ok(());
        }
        let shape = Shape::new(a, setup);
        let members = shape.useful_threads(self.wanted_threads);
        let made = self
            .packed_for(previous, shape, setup)
            .and_then(|packed| Team::sized(&mut self.team, members).map(|_| packed));
        let mut packed = match self.shared_domain() {
            // If the allocation fails on one rank, all ranks return an error.
            Some(domain) => {
                let mut made = made;
                let ready = made.as_mut().map_err(|error| error.clone());
                domain.share_error(ready.and_then(|packed| packed.prepare(setup, components, members)).err())?;
                made?
            }
            None => made?,
        };
        packed.set_pivot_center(self.domain.as_ref().map(Domain::center));
        packed.factorize(Team::started(&mut self.team)?, a, setup, components)?;
        self.solver = Solver::Packed(packed);
        Ok(())
    }

    fn factorize_again(
        &mut self,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        setup: &Setup,
        inspection: &mut Inspection,
    ) -> Result<bool> {
        let (Solver::Packed(packed), Some(team)) = (&mut self.solver, &mut self.team) else { return Ok(false) };
        let shape = Shape::new(a, setup);
        if self.domain.is_some()
            || packed.shape() != shape
            || shape.useful_threads(self.wanted_threads) != team.members()
        {
            return Ok(false);
        }
        match packed.factorize_again(team, a, inspection_setup, setup, inspection) {
            Ok(done) => Ok(done),
            // The caller repeats the factorization, which then reports the error. This attempt may have left infinities
            // in the padding, so the memory is discarded.
            Err(_) => {
                self.solver = Solver::Empty;
                Ok(false)
            }
        }
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        match &mut self.solver {
            Solver::Empty => Err(Error::State("factorize must come before solve".to_owned())),
            Solver::Natural(natural) => natural.run(arrays, observer, program),
            Solver::Packed(packed) => {
                let team = Team::started(&mut self.team)?;
                packed.run(team, arrays, observer, program)
            }
        }
    }

    fn report(&self) -> Report {
        match &self.solver {
            Solver::Empty => Report::PLAIN,
            Solver::Natural(natural) => natural.report(),
            Solver::Packed(packed) => packed.report(),
        }
    }

    fn matrix(&self) -> Result<Option<FivePoints>> {
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
            Solver::Natural(natural) => natural.bytes(),
            Solver::Packed(packed) => [packed.bytes() + self.spare.as_ref().map_or(0, |spare| spare.bytes()), 0],
        }
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::members)
    }
}

/// A [`Packed`] of any storage format.
trait PackedSolver: Send {
    fn shape(&self) -> Shape;
    /// Allocates the memory that depends on the matrix and on the number of threads.
    fn prepare(&mut self, setup: &Setup, components: &Components, members: usize) -> Result<()>;
    /// Sets the value of [`PivotContext::center`] for later factorizations.
    fn set_pivot_center(&mut self, center: Option<f64>);
    /// Returns whether `cycle=auto` has selected the V-cycle for a factorization with the levels of a recursive cycle.
    /// The V-cycle has fewer levels, so no later matrix is factorized with this shape.
    fn was_replaced(&self) -> bool {
        self.shape().cycle.kind.is_none() && self.report().kind == Kind::V
    }
    fn factorize(&mut self, team: &mut Team, a: &StencilView, setup: &Setup, components: &Components) -> Result<()>;
    /// See [`RrbBackend::factorize_again`].
    fn factorize_again(
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
    fn matrix(&self) -> Result<Option<FivePoints>>;
    fn bytes(&self) -> usize;
}

impl<F: Format> PackedSolver for Packed<F> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn prepare(&mut self, setup: &Setup, components: &Components, members: usize) -> Result<()> {
        Self::prepare(self, setup, components, members)
    }

    fn set_pivot_center(&mut self, center: Option<f64>) {
        self.center = center;
    }

    fn factorize(&mut self, team: &mut Team, a: &StencilView, setup: &Setup, components: &Components) -> Result<()> {
        self.prepare(setup, components, team.members())?;
        let context = PivotContext { a, components, center: self.center };
        let shared = &*self;
        let result = team.run(
            |member| drop(shared.factorize_share(member, setup, &context, None)),
            |member| shared.factorize_share(member, setup, &context, None),
        )?;
        self.fresh = false;
        result?;
        if self.shape.aggregates {
            check_unprojected(components)?;
            let kept = self.take_reusable_aggregates();
            self.aggregated = self.aggregate(setup.storage, kept, team.members())?.into();
        }
        Ok(())
    }

    fn factorize_again(
        &mut self,
        team: &mut Team,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        setup: &Setup,
        inspection: &mut Inspection,
    ) -> Result<bool> {
        // During the factorization, the threads need the singular components of A, which are not known yet. This
        // function assumes that A has none.
        if self.fresh || self.aggregated.get().is_some() || !self.singular.is_empty() {
            return Ok(false);
        }
        inspection.start(team.members())?;
        let seen = &*inspection;
        self.prepare(setup, &seen.components, team.members())?;
        // The unit of `setup` belongs to the previous matrix. A center of 2 `unit` or more requires a larger unit, so
        // `setup` does not apply, and M / `unit` may overflow in f32.
        let center_below = if setup.storage == Storage::F64 { f64::INFINITY } else { 2.0 * setup.unit };
        let speculation = SpeculativeInspection::new(
            seen,
            Conditions { zero_row_sum: inspection_setup.checks.zero_row_sum, center_below },
        );
        let (shared, context) = (&*self, PivotContext::new(a, &seen.components));
        // A rejected row, or entries of another magnitude than in the previous matrix, can cause zero pivots. In these
        // cases, the whole result is discarded.
        let speculative = |member: Me| shared.factorize_share(member, setup, &context, Some(&speculation));
        let result = team.run(|member| drop(speculative(member)), speculative)?;
        let over = speculation.has_failed();
        result?;
        if over {
            return Ok(false);
        }
        inspection.finish(a, inspection_setup.project)?;
        Ok(inspection.components.size.is_empty())
    }

    fn run(
        &mut self,
        team: &mut Team,
        arrays: Arrays,
        observer: &mut dyn Observer,
        program: Program,
    ) -> Result<Outcome> {
        self.observed.begin(observer);
        let (shared, caller) = (&*self, CallerArrays::new(arrays, usize::MAX));
        let result = team.run(
            |member| drop(program(&mut ThreadState::new(shared, member, &caller, None))),
            |member| program(&mut ThreadState::new(shared, member, &caller, Some(observer))),
        )?;
        if Outcome::may_leave_infinities(&result) {
            self.clear_vectors();
        }
        result
    }

    fn report(&self) -> Report {
        let aggregated = self.aggregated.get();
        Report {
            kind: self.recursion().kind,
            levels: aggregated.map(|aggregated| aggregated.levels),
            aggregates: aggregated.is_some(),
            aggregates_kept: aggregated.map_or(0, Aggregated::aggregates_kept),
            grids: self.shape.grids,
        }
    }

    fn matrix(&self) -> Result<Option<FivePoints>> {
        self.natural_matrix()
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

fn packed<F: Format + 'static>(shape: Shape, domain: Option<&Domain>) -> Result<Box<dyn PackedSolver>> {
    Ok(Packed::<F>::new(shape, domain)?)
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
                cpu.over_rows(grid, &|member, rows| shares.lock().unwrap().push((member, rows))).unwrap();
                let mut shares = shares.into_inner().unwrap();
                shares.sort_by_key(|(member, _)| *member);
                assert_eq!(shares.len(), if grid.nodes() < MIN_TEAM_NODES { 1 } else { threads });
                let members: Vec<usize> = shares.iter().map(|(member, _)| *member).collect();
                assert_eq!(members, (0..shares.len()).collect::<Vec<_>>());
                let rows: Vec<usize> = shares.into_iter().flat_map(|(_, rows)| rows).collect();
                assert_eq!(rows, (0..ny).collect::<Vec<_>>());
            }
        }
    }
}

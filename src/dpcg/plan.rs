//! Selection of the methods for a matrix before its factorization: preconditioner, deflation vectors, and solver for E.

use crate::base::machine::Machine;
use crate::deflation::Solver;
use crate::deflation::regions::{Choice, Kind};
use crate::dpcg::backend;
use crate::dpcg::backend::{PUBLISHED_COARSEST_CELLS, RESOLVING_COARSEST_CELLS, Setup};
use crate::dpcg::survey::{MANY, Survey};
use crate::error::{Error, Result};
use crate::krylov::solve::check_all_singular;
use crate::options::limits::{
    DPCG_DEVICE_CELLS, MANY_UNRESOLVED, MOST_INVERTED_VECTORS, MOST_INVERTED_VECTORS_ON_DEVICE, SMALL_COUPLING_RATIO,
    THIN_CELLS,
};
use crate::options::{
    AutoReason, Backend, CoarseSolver, Coarsening, Deflation, Fusion, NullSpace, Options, Precision, Preconditioner,
    opt,
};
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::is_flat;
use crate::stencil::components::{ASSERTED_ZERO_ROW_SUM, ZERO_ROW_SUM};

/// Defaults for boxes: at most `BOXES` boxes per direction, each with at least `CELLS_OF_A_BOX` cells; a direction with
/// fewer cells has one box. `BOXES` is the largest number of boxes per direction in the slides of Vuik and others
/// (2013), where it resulted in the fewest iterations.
const BOXES: usize = 8;
const CELLS_OF_A_BOX: usize = 8;

/// Options that set the number of boxes per direction.
const BOX_OPTIONS: [i32; 3] = [opt::SUBDOMAINS_X, opt::SUBDOMAINS_Y, opt::SUBDOMAINS_Z];

/// Selects the machine for a box of cells, given the numbers of threads and devices. A device is selected by default
/// only if the box is large enough and the device supports the requested options.
pub fn machine(options: &Options, cells: Cells, threads: usize, devices: i32) -> Machine {
    Machine::new(
        options,
        threads,
        devices,
        cells.count() >= DPCG_DEVICE_CELLS && unsupported_on_device(options).is_none(),
    )
}

/// Returns the reason why a device does not support the requested options; `None` if it does.
fn unsupported_on_device(options: &Options) -> Option<&'static str> {
    if matches!(options.choice(opt::PRECONDITIONER), Preconditioner::Ic0 | Preconditioner::Ric) {
        return Some("ic0 and ric run only on the CPU: on a device use preconditioner=neumann or multigrid");
    }
    if options.is(opt::COARSE_SOLVER, CoarseSolver::Cg) {
        return Some("coarse_solver=cg runs only on the CPU: on a device use inverse or cholesky");
    }
    None
}

/// Returns the tolerance, relative to the center, below which a row sum counts as zero. `null_space=none` has the same
/// tolerance as `null_space=auto`: the null space is not projected out, but the singular components must be known,
/// because their deflation vectors may make E singular.
pub fn zero_row_sum(options: &Options) -> f64 {
    match options.choice(opt::NULL_SPACE) {
        NullSpace::Auto | NullSpace::None => ZERO_ROW_SUM,
        NullSpace::Constant => ASSERTED_ZERO_ROW_SUM,
    }
}

/// With `null_space=constant`, returns an error unless all components are singular.
pub fn check_null_space(survey: &Survey, options: &Options) -> Result<()> {
    if options.is(opt::NULL_SPACE, NullSpace::Constant) {
        check_all_singular(survey.components, survey.singular.len())?;
    }
    Ok(())
}

/// Results of a factorization, and times of the last solve.
#[derive(Clone, Copy, Debug, Default)]
pub struct FactorizationResults {
    /// Preconditioner in use.
    pub preconditioner: Preconditioner,
    /// Definition of the regions in use.
    pub deflation: Deflation,
    /// Coarsening in use.
    pub coarsening: Coarsening,
    /// Solver for E in use.
    pub coarse_solver: CoarseSolver,
    /// Number of deflation vectors.
    pub vectors: usize,
    /// Number of regions before those without a deflation vector were removed; 0 if there are no deflation vectors.
    pub regions: usize,
    /// Number of groups of cells that strong couplings connect.
    pub strong: usize,
    /// Number of connected components of two or more cells.
    pub components: usize,
    /// Number of singular components; 0 with `null_space=none`.
    pub singular_components: usize,
    /// Number of aggregates reused from the previous matrix.
    pub aggregates_kept: usize,
    /// Largest row sum of |L D^-1|, where L is the strictly lower triangle of A, and D its diagonal.
    pub row_sum: f64,
    /// Reason for the selection by `auto`.
    pub reason: AutoReason,
    /// Precision of the preconditioner in use.
    pub precision: Precision,
    /// Whether `auto` selected aggregation, but its memory could not be allocated, so that multigrid replaced it.
    pub lacked_memory: bool,
    /// Times of the parts of a factorization and a solve.
    pub seconds: Seconds,
}

/// Times of the parts of a factorization and a solve, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seconds {
    /// Computation of Z and E in the last factorization.
    pub deflation: f64,
    /// Solution of systems with E in the last solve.
    pub coarse: f64,
    /// Remaining time of the last solve.
    pub iterations: f64,
}

/// Methods selected from the options and the matrix.
pub struct Plan<'a> {
    options: &'a Options,
    cells: Cells,
    machine: Machine,
    preconditioner: Preconditioner,
    coarsening: Coarsening,
    passes: usize,
    deflation: Deflation,
    reason: AutoReason,
}

impl<'a> Plan<'a> {
    /// Selects the methods. `labelled`: whether the caller provides labels. Returns an error if the machine does not
    /// support the requested options, or if a direction has more boxes than cells.
    pub fn new(cells: Cells, options: &'a Options, machine: Machine, survey: &Survey, labelled: bool) -> Result<Self> {
        let (preconditioner, preconditioner_reason) = match options.choice(opt::PRECONDITIONER) {
            Preconditioner::Auto if may_aggregate(options, machine, labelled) && prefers_aggregation(cells, survey) => {
                (Preconditioner::Amg, AutoReason::Crowded)
            }
            Preconditioner::Auto => (Preconditioner::Multigrid, AutoReason::Plain),
            asked => (asked, AutoReason::Asked),
        };
        if let Some(why) = unsupported_on_device(options).filter(|_| machine.is_device()) {
            return Err(Error::Unsupported(why.to_owned()));
        }
        if preconditioner == Preconditioner::Amg && machine.backend == Backend::Reference {
            let message = "preconditioner=amg is not available with backend=reference: use backend=cpu, or \
                            preconditioner=multigrid";
            return Err(Error::Unsupported(message.to_owned()));
        }
        check_boxes(options, cells)?;
        Ok(Self::with(cells, (options, machine), (preconditioner, preconditioner_reason), survey, labelled))
    }

    /// Returns the plan in which multigrid replaces the aggregation that `auto` selected.
    pub fn without_aggregates(&self, survey: &Survey, labelled: bool) -> Self {
        let multigrid = (Preconditioner::Multigrid, AutoReason::Plain);
        Self::with(self.cells, (self.options, self.machine), multigrid, survey, labelled)
    }

    fn with(
        cells: Cells,
        (options, machine): (&'a Options, Machine),
        (preconditioner, preconditioner_reason): (Preconditioner, AutoReason),
        survey: &Survey,
        labelled: bool,
    ) -> Self {
        let (coarsening, coarsening_reason) = match preconditioner {
            Preconditioner::Multigrid => choose_coarsening(cells, options, survey),
            _ => (Coarsening::Auto, AutoReason::Asked),
        };
        let (deflation, deflation_reason) = match options.choice(opt::DEFLATION) {
            Deflation::Auto if preconditioner == Preconditioner::Multigrid => {
                deflation_with_multigrid(survey, coarsening, labelled)
            }
            // Aggregation needs no deflation, because aggregates resolve bubbles of any shape.
            Deflation::Auto if preconditioner == Preconditioner::Amg && !labelled => {
                (Deflation::None, AutoReason::Plain)
            }
            Deflation::Auto if preconditioner == Preconditioner::Amg => (Deflation::Levelset, AutoReason::Labels),
            Deflation::Auto => deflation_with_others(survey, labelled),
            asked => (asked, AutoReason::Asked),
        };
        let reason = first_reason([coarsening_reason, deflation_reason, preconditioner_reason]);
        let passes = passes(cells, survey);
        Self { options, cells, machine, preconditioner, coarsening, passes, deflation, reason }
    }

    /// Returns whether `auto` selected aggregation.
    pub fn aggregates_automatically(&self) -> bool {
        self.preconditioner == Preconditioner::Amg && self.options.is(opt::PRECONDITIONER, Preconditioner::Auto)
    }

    /// Returns whether `null_space=none` is set. The null space is then not projected out.
    pub fn skips_projection(&self) -> bool {
        self.options.is(opt::NULL_SPACE, NullSpace::None)
    }

    /// Returns the parameters of the deflation regions, or `None` without deflation.
    pub fn choice<'l>(&self, labels: Option<&'l [i32]>) -> Option<Choice<'l>> {
        let kind = match self.deflation {
            Deflation::Auto | Deflation::None => return None,
            Deflation::Subdomain => Kind::Subdomain,
            Deflation::Levelset => Kind::LevelSet,
            Deflation::LevelsetSubdomain => Kind::LevelSetSubdomain,
        };
        let size = self.cells.size();
        let boxes = std::array::from_fn(|d| match self.options.int(BOX_OPTIONS[d]) {
            0 => (size[d] / CELLS_OF_A_BOX).clamp(1, BOXES),
            asked => asked as usize,
        });
        let dilation = match self.options.int(opt::DILATION) {
            -1 => labels.is_some(),
            asked => asked == 1,
        };
        Some(Choice { kind, boxes, labels, dilation, keep_all: self.options.on(opt::KEEP_ALL) })
    }

    /// Returns the parameters of a factorization with this number of deflation vectors.
    pub fn setup(&self, vectors: usize) -> Setup {
        let options = self.options;
        Setup {
            preconditioner: match self.preconditioner {
                Preconditioner::None => backend::Preconditioner::None,
                Preconditioner::Jacobi => backend::Preconditioner::Jacobi,
                Preconditioner::Neumann => backend::Preconditioner::Neumann { order: options.int(opt::ORDER) as usize },
                Preconditioner::Ic0 => backend::Preconditioner::Incomplete { omega: 0.0 },
                Preconditioner::Ric => backend::Preconditioner::Incomplete { omega: options.real(opt::RIC_OMEGA) },
                Preconditioner::Amg => backend::Preconditioner::Aggregation {
                    passes: self.passes,
                    single: self.precision() == Precision::F32,
                    zero_row_sum: zero_row_sum(options),
                },
                _ => backend::Preconditioner::Multigrid {
                    vertex: self.coarsening == Coarsening::Vertex,
                    sweeps: match options.int(opt::SWEEPS) {
                        0 => 2,
                        asked => asked as usize,
                    },
                    single: self.precision() == Precision::F32,
                    coarsest: if options.is(opt::COARSENING, Coarsening::Auto) {
                        RESOLVING_COARSEST_CELLS
                    } else {
                        PUBLISHED_COARSEST_CELLS
                    },
                },
            },
            coarse_solver: match self.coarse_solver(vectors) {
                CoarseSolver::Cholesky => Solver::Cholesky,
                CoarseSolver::Cg => Solver::Cg,
                _ => Solver::Inverse,
            },
            coarse_tolerance: options.real(opt::COARSE_TOL),
            fused: options.is(opt::FUSION, Fusion::On) && self.machine.backend != Backend::Reference,
        }
    }

    fn coarse_solver(&self, vectors: usize) -> CoarseSolver {
        let inverted = if self.machine.is_device() { MOST_INVERTED_VECTORS_ON_DEVICE } else { MOST_INVERTED_VECTORS };
        match self.options.choice(opt::COARSE_SOLVER) {
            CoarseSolver::Auto if vectors <= inverted => CoarseSolver::Inverse,
            CoarseSolver::Auto => CoarseSolver::Cholesky,
            asked => asked,
        }
    }

    fn precision(&self) -> Precision {
        match self.options.choice(opt::PRECISION) {
            Precision::F64 => Precision::F64,
            _ if [Preconditioner::Multigrid, Preconditioner::Amg].contains(&self.preconditioner) => Precision::F32,
            _ => Precision::F64,
        }
    }

    /// Returns those results of a factorization that the selection determines.
    pub fn planned_results(&self, vectors: usize) -> FactorizationResults {
        let deflates = vectors > 0;
        FactorizationResults {
            preconditioner: self.preconditioner,
            deflation: if deflates { self.deflation } else { Deflation::None },
            coarsening: self.coarsening,
            coarse_solver: if deflates { self.coarse_solver(vectors) } else { CoarseSolver::Auto },
            reason: match self.reason {
                // There are no deflation vectors, for example because the labels cover no cell.
                AutoReason::Labels | AutoReason::Contrast | AutoReason::Thin if !deflates => AutoReason::Plain,
                reason => reason,
            },
            precision: self.precision(),
            ..FactorizationResults::default()
        }
    }
}

/// Converts the solver to its option value.
pub fn coarse_solver_of(solver: Solver) -> CoarseSolver {
    match solver {
        Solver::Inverse => CoarseSolver::Inverse,
        Solver::Cholesky => CoarseSolver::Cholesky,
        Solver::Cg => CoarseSolver::Cg,
    }
}

/// Returns an error if a direction has more boxes than cells. The check is made for any value of `deflation`, since
/// `auto` may select boxes.
fn check_boxes(options: &Options, cells: Cells) -> Result<()> {
    let names = [("subdomains_x", "nx"), ("subdomains_y", "ny"), ("subdomains_z", "nz")];
    for (((name, extent), key), n) in names.into_iter().zip(BOX_OPTIONS).zip(cells.size()) {
        let asked = options.int(key);
        if asked > n as i64 {
            return Err(Error::range(name, asked, format!("be from 1 to {extent} = {n}: each box needs a cell")));
        }
    }
    Ok(())
}

/// Returns the number of pairing passes of aggregation. It is three (aggregates of eight cells), or two (aggregates of
/// four cells) if the box has a single cell in some direction or is not coarsened in some direction.
fn passes(cells: Cells, survey: &Survey) -> usize {
    let coarsened = |d: &usize| cells.size()[*d] > 1 && survey.coarsened[*d];
    if (0..3).filter(coarsened).count() == 3 { 3 } else { 2 }
}

/// Returns whether `auto` may select aggregation instead of multigrid. `deflation` must be `auto` or `none`, and the
/// options must not set the coarsening or the sweeps of multigrid. The caller must not provide labels, and the backend
/// must support aggregation.
fn may_aggregate(options: &Options, machine: Machine, labelled: bool) -> bool {
    let may_omit_deflation = matches!(options.choice(opt::DEFLATION), Deflation::Auto | Deflation::None);
    let of_multigrid = !options.is(opt::COARSENING, Coarsening::Auto) || options.int(opt::SWEEPS) != 0;
    may_omit_deflation && !labelled && !of_multigrid && machine.backend != Backend::Reference
}

/// Returns whether aggregation is expected to converge faster than multigrid. At least `MANY_UNRESOLVED` groups of
/// strong couplings must be hidden from the coarse grids (`Survey::hidden`). In addition, either there are more groups
/// than deflation can use and the phases differ strongly, or the cells are flat (`is_flat`). On flat cells, coarse
/// grids connect the liquid around hidden bubbles even with deflation.
fn prefers_aggregation(cells: Cells, survey: &Survey) -> bool {
    let left_alone = survey.strong > MANY && survey.coupling_ratio <= SMALL_COUPLING_RATIO;
    survey.hidden >= MANY_UNRESOLVED && (left_alone || is_flat(cells, survey.coarsened))
}

/// Selects the coarsening for `preconditioner=multigrid`, and returns the reason.
fn choose_coarsening(cells: Cells, options: &Options, survey: &Survey) -> (Coarsening, AutoReason) {
    match options.choice(opt::COARSENING) {
        Coarsening::Auto => {
            if is_flat(cells, survey.coarsened) {
                (Coarsening::Cell, AutoReason::Anisotropic)
            } else {
                (Coarsening::Vertex, AutoReason::Plain)
            }
        }
        asked => (asked, AutoReason::Asked),
    }
}

/// Selects the deflation for `preconditioner=multigrid`, and returns the reason. If there are labels, they define the
/// regions. Otherwise, each group of strong couplings gets a vector if there are 2 to `MANY` groups and one of these
/// conditions holds: the coupling ratio is at most `SMALL_COUPLING_RATIO`, a group is thinner than `THIN_CELLS` cells,
/// or the grids are coarsened by cells.
fn deflation_with_multigrid(survey: &Survey, coarsening: Coarsening, labelled: bool) -> (Deflation, AutoReason) {
    if labelled {
        return (Deflation::Levelset, AutoReason::Labels);
    }
    if !(2..=MANY).contains(&survey.strong) {
        return (Deflation::None, AutoReason::Plain);
    }
    if survey.coupling_ratio <= SMALL_COUPLING_RATIO {
        return (Deflation::Levelset, AutoReason::Contrast);
    }
    if survey.thinnest < THIN_CELLS {
        return (Deflation::Levelset, AutoReason::Thin);
    }
    let deflation = if coarsening == Coarsening::Cell { Deflation::Levelset } else { Deflation::None };
    (deflation, AutoReason::Plain)
}

/// Selects the deflation for all other preconditioners, and returns the reason. The regions are boxes. If there are
/// labels or groups of strong couplings, they divide the boxes.
fn deflation_with_others(survey: &Survey, labelled: bool) -> (Deflation, AutoReason) {
    if labelled {
        return (Deflation::LevelsetSubdomain, AutoReason::Labels);
    }
    if survey.strong > 0 {
        return (Deflation::LevelsetSubdomain, AutoReason::Contrast);
    }
    (Deflation::Subdomain, AutoReason::Plain)
}

/// Returns the first specific reason, that is, the first one other than `Asked` and `Plain`. Without a specific reason,
/// returns `Plain` if it occurs. Otherwise, the options determine all methods, and the result is `Asked`.
fn first_reason(reasons: [AutoReason; 3]) -> AutoReason {
    let is_specific = |reason: &AutoReason| !matches!(reason, AutoReason::Asked | AutoReason::Plain);
    let fallback = if reasons.contains(&AutoReason::Plain) { AutoReason::Plain } else { AutoReason::Asked };
    reasons.into_iter().find(is_specific).unwrap_or(fallback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dpcg::survey::SurveyData;
    use crate::stencil::cells::SevenPoints;

    const CUBE: Cells = Cells { nx: 24, ny: 24, nz: 24 };

    /// Returns the survey of a cube of water with the given coupling ratio and `strong` bubbles. The thinnest bubble
    /// has `thinnest` cells across.
    fn bubbly(strong: usize, thinnest: usize, coupling_ratio: f64) -> Survey {
        Survey { coarsened: [true; 3], coupling_ratio, components: 1, strong, thinnest, ..Survey::default() }
    }

    /// Returns the results for the options in `text`, with nine deflation vectors.
    fn planned_results(text: &str, cells: Cells, survey: &Survey, labelled: bool) -> FactorizationResults {
        let mut options = Options::new(crate::options::Family::Dpcg);
        options.set_text(text).unwrap();
        let machine = machine(&options, cells, 1, 0);
        Plan::new(cells, &options, machine, survey, labelled).unwrap().planned_results(9)
    }

    #[track_caller]
    fn check(done: FactorizationResults, coarsening: Coarsening, deflation: Deflation, reason: AutoReason) {
        assert_eq!(done.preconditioner, Preconditioner::Multigrid);
        assert_eq!((done.coarsening, done.deflation, done.reason), (coarsening, deflation, reason));
    }

    /// With multigrid, deflation depends on the number of groups, the coupling ratio and the thinnest group.
    #[test]
    fn groups_that_get_deflation_vectors() {
        use AutoReason::{Contrast, Plain, Thin};
        use Deflation::{Levelset, None};
        for (strong, thinnest, coupling_ratio, deflation, reason) in [
            (0, 0, 1.0, None, Plain),
            (9, 4, 1e-3, None, Plain),
            (9, 4, 1.01e-4, None, Plain),
            (9, 4, 1e-4, Levelset, Contrast),
            (9, 3, 1e-3, Levelset, Thin),
            (9, 3, 1e-6, Levelset, Contrast),
            (1, 1, 1e-6, None, Plain),
            (2, 9, 1e-6, Levelset, Contrast),
            (2, 1, 1e-3, Levelset, Thin),
            (1000, 9, 1e-6, Levelset, Contrast),
            (1000, 3, 1e-3, Levelset, Thin),
            (1001, 3, 1e-3, None, Plain),
        ] {
            let survey = bubbly(strong, thinnest, coupling_ratio);
            check(planned_results("", CUBE, &survey, false), Coarsening::Vertex, deflation, reason);
            // `coarsening=cell` needs deflation vectors for groups of any size.
            let deflation = if (2..=1000).contains(&strong) { Levelset } else { None };
            check(planned_results("coarsening=cell", CUBE, &survey, false), Coarsening::Cell, deflation, reason);
        }
    }

    /// `coarsening=cell` is selected if a direction of more than one cell is not coarsened. The reason `Anisotropic`
    /// takes precedence over the reasons for deflation.
    #[test]
    fn flat_cells() {
        let flat = Survey { coarsened: [false, true, true], ..bubbly(9, 3, 1e-6) };
        check(planned_results("", CUBE, &flat, false), Coarsening::Cell, Deflation::Levelset, AutoReason::Anisotropic);
        check(planned_results("", CUBE, &flat, true), Coarsening::Cell, Deflation::Levelset, AutoReason::Anisotropic);
        check(
            planned_results("deflation=none", CUBE, &flat, false),
            Coarsening::Cell,
            Deflation::None,
            AutoReason::Anisotropic,
        );
        check(
            planned_results("coarsening=vertex", CUBE, &flat, false),
            Coarsening::Vertex,
            Deflation::Levelset,
            AutoReason::Contrast,
        );
        let one = Survey { strong: 1, ..flat.clone() };
        check(planned_results("", CUBE, &one, false), Coarsening::Cell, Deflation::None, AutoReason::Anisotropic);
        let plane = Cells { nx: 1, ..CUBE };
        check(planned_results("", plane, &one, false), Coarsening::Vertex, Deflation::None, AutoReason::Plain);
    }

    /// Aggregation is selected if many groups are hidden from the coarse grids and one more condition is true: the
    /// cells are flat, or there are too many groups for deflation and the phases differ strongly. It is not selected if
    /// there are labels, if an option of multigrid or a deflation is set, or if the backend does not support it.
    #[test]
    fn many_groups_select_aggregation() {
        let of = |text: &str, (strong, hidden): (usize, usize), coupling_ratio: f64, flat: bool, labelled: bool| {
            let survey = Survey { coarsened: [true, !flat, true], hidden, ..bubbly(strong, 1, coupling_ratio) };
            let done = planned_results(text, CUBE, &survey, labelled);
            assert_eq!(done.preconditioner == Preconditioner::Amg, done.reason == AutoReason::Crowded, "{text}");
            assert!(done.preconditioner != Preconditioner::Amg || done.deflation == Deflation::None, "{text}");
            done.preconditioner == Preconditioner::Amg
        };
        for text in ["", "deflation=none", "backend=cpu precision=f64"] {
            assert!(of(text, (1001, 12), 1e-4, false, false), "{text}");
            assert!(of(text, (30, 12), 1e-2, true, false), "{text}");
            assert!(!of(text, (1000, 12), 1e-6, false, false), "{text}");
            assert!(!of(text, (1001, 11), 1e-6, true, false), "{text}");
            assert!(!of(text, (1001, 12), 1.01e-4, false, false), "{text}");
            assert!(!of(text, (1001, 12), 1e-6, true, true), "{text} with labels");
        }
        for text in ["backend=reference", "coarsening=vertex", "coarsening=cell", "deflation=levelset"] {
            assert!(!of(text, (1001, 500), 1e-6, true, false), "{text}");
        }
    }

    /// If there are labels, deflation uses them for any matrix.
    #[test]
    fn labels() {
        for survey in [bubbly(0, 0, 1.0), bubbly(9, 3, 1e-6), bubbly(1001, 1, 1e-6)] {
            check(
                planned_results("", CUBE, &survey, true),
                Coarsening::Vertex,
                Deflation::Levelset,
                AutoReason::Labels,
            );
            let done = planned_results("preconditioner=neumann", CUBE, &survey, true);
            assert_eq!((done.deflation, done.reason), (Deflation::LevelsetSubdomain, AutoReason::Labels));
        }
        // With all labels equal to -1, there are no deflation vectors.
        let options = Options::new(crate::options::Family::Dpcg);
        let plan = Plan::new(CUBE, &options, machine(&options, CUBE, 1, 0), &bubbly(9, 4, 1e-3), true).unwrap();
        check(plan.planned_results(0), Coarsening::Vertex, Deflation::None, AutoReason::Plain);
    }

    /// The solver for E depends on the number of deflation vectors and on the backend.
    #[test]
    fn solvers_of_e() {
        use CoarseSolver::{Cholesky, Inverse};
        for (backend, most) in [("cpu", 1024), ("cuda", 4096)] {
            let mut options = Options::new(crate::options::Family::Dpcg);
            options.set_text(&format!("backend={backend}")).unwrap();
            let plan = Plan::new(CUBE, &options, machine(&options, CUBE, 1, 1), &bubbly(9, 4, 1e-3), false).unwrap();
            assert_eq!(
                [most, most + 1].map(|vectors| plan.planned_results(vectors).coarse_solver),
                [Inverse, Cholesky]
            );
        }
    }

    /// Without multigrid, the phases in the matrix divide the boxes.
    #[test]
    fn other_preconditioners() {
        for name in ["none", "jacobi", "neumann", "ic0", "ric"] {
            for (survey, deflation, reason) in [
                (bubbly(0, 0, 1.0), Deflation::Subdomain, AutoReason::Plain),
                (bubbly(1, 9, 1e-3), Deflation::LevelsetSubdomain, AutoReason::Contrast),
                (bubbly(1001, 1, 1e-3), Deflation::LevelsetSubdomain, AutoReason::Contrast),
            ] {
                let done = planned_results(&format!("preconditioner={name}"), CUBE, &survey, false);
                assert_eq!((done.coarsening, done.deflation, done.reason), (Coarsening::Auto, deflation, reason));
            }
        }
    }

    /// `Asked` is reported only if the options set preconditioner and deflation and, for multigrid, also the
    /// coarsening.
    #[test]
    fn reason_is_asked_only_if_options_set_all_methods() {
        let survey = bubbly(9, 9, 1e-3);
        for (text, reason) in [
            ("preconditioner=jacobi deflation=subdomain", AutoReason::Asked),
            ("preconditioner=jacobi coarsening=auto deflation=none", AutoReason::Asked),
            ("preconditioner=multigrid coarsening=cell deflation=none", AutoReason::Asked),
            ("coarsening=cell deflation=levelset", AutoReason::Plain),
            ("preconditioner=multigrid deflation=levelset", AutoReason::Plain),
            ("preconditioner=multigrid coarsening=vertex", AutoReason::Plain),
        ] {
            for labelled in [false, true] {
                let labels = labelled && !text.contains("deflation");
                let reason = if labels { AutoReason::Labels } else { reason };
                assert_eq!(planned_results(text, CUBE, &survey, labelled).reason, reason, "{text}");
            }
        }
    }

    /// Returns the survey of a matrix. The coupling at a face is the harmonic mean of the conductances of two cells,
    /// times the factor of the direction in `faces`.
    fn survey([nx, ny, nz]: [usize; 3], faces: [f64; 3], conductance: impl Fn([usize; 3]) -> f64) -> (Cells, Survey) {
        let cells = Cells { nx, ny, nz };
        let mut center = vec![0.0; cells.count()];
        let mut forward = [(); 3].map(|()| vec![0.0; cells.count()]);
        for c in 0..cells.count() {
            let at = cells.indices(c);
            for d in (0..3).filter(|&d| at[d] + 1 < cells.size()[d]) {
                let mut beside = at;
                beside[d] += 1;
                let [a, b] = [at, beside].map(&conductance);
                let face = faces[d] * 2.0 * a * b / (a + b);
                forward[d][c] = -face;
                center[c] += face;
                center[c + cells.strides()[d]] += face;
            }
        }
        let a = SevenPoints { cells, center: &center, forward: forward.each_ref().map(|f| &f[..]) };
        (cells, SurveyData::of(&a, ZERO_ROW_SUM).unwrap().1)
    }

    /// The rules for deflation and coarsening, tested with matrices: `blocks` blocks of air in a box of water. A block
    /// has `side` cells in x, 8 cells in y and 7 cells in z.
    #[test]
    fn rules_hold_for_inspected_matrices() {
        let of = |side: usize, blocks: usize, coupling_ratio: f64, faces: [f64; 3]| {
            let (cells, survey) = survey([12 * blocks, 16, 14], faces, |[i, j, k]| {
                let air = i % 12 >= 3 && i % 12 < 3 + side && (2..10).contains(&j) && (4..11).contains(&k);
                if air { 1.0 / coupling_ratio } else { 1.0 }
            });
            assert_eq!(survey.strong, if coupling_ratio < 1.0 { blocks } else { 0 });
            let done = planned_results("", cells, &survey, false);
            (done.coarsening, done.deflation, done.reason)
        };
        use Coarsening::{Cell, Vertex};
        let cubes = [1.0; 3];
        assert_eq!(of(4, 2, 1.0, cubes), (Vertex, Deflation::None, AutoReason::Plain));
        assert_eq!(of(4, 2, 1e-3, cubes), (Vertex, Deflation::None, AutoReason::Plain));
        assert_eq!(of(3, 2, 1e-3, cubes), (Vertex, Deflation::Levelset, AutoReason::Thin));
        assert_eq!(of(4, 2, 1e-5, cubes), (Vertex, Deflation::Levelset, AutoReason::Contrast));
        assert_eq!(of(3, 1, 1e-5, cubes), (Vertex, Deflation::None, AutoReason::Plain));
        // The coupling ratio is computed per direction, so anisotropic faces do not reduce it.
        assert_eq!(of(4, 2, 1e-3, [1.0, 1.0, 16.0]), (Cell, Deflation::Levelset, AutoReason::Anisotropic));
        assert_eq!(of(4, 2, 1e-3, [0.5, 1.0, 1.0]), (Vertex, Deflation::None, AutoReason::Plain));
    }
}

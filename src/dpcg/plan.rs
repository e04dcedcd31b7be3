//! Selection of the methods for a matrix before its factorization: preconditioner, deflation vectors, and solver for E.

use crate::base::machine::Machine;
use crate::deflation::Solver;
use crate::deflation::regions::{RegionChoice, RegionKind};
use crate::dpcg::backend;
use crate::dpcg::backend::{PUBLISHED_COARSEST_CELLS, RESOLVING_COARSEST_CELLS, Setup};
use crate::dpcg::survey::{MAX_DEFLATED_COMPONENTS, Survey};
use crate::error::{Error, Result};
use crate::krylov::solve::check_all_singular;
use crate::options::limits::{
    DEFLATION_COUPLING_RATIO, DPCG_DEVICE_CELLS, MAX_INVERTED_VECTORS, MAX_INVERTED_VECTORS_ON_DEVICE,
    MIN_UNRESOLVED_FOR_AMG, THIN_COMPONENT_CELLS,
};
use crate::options::{
    AutoReason, Backend, CoarseSolver, Coarsening, Deflation, Fusion, NullSpace, Options, Precision, Preconditioner,
    opt,
};
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::has_uncoarsened_direction;
use crate::stencil::components::{ASSERTED_ZERO_ROW_SUM, ZERO_ROW_SUM};

/// Default numbers of deflation boxes: at most `MAX_BOXES_PER_DIRECTION` per direction, each with at least
/// `MIN_CELLS_PER_BOX` cells in this direction. A direction with fewer cells has one box. The slides of Vuik and others
/// (2013) use at most 8 boxes per direction, and 8 boxes resulted in the fewest iterations.
const MAX_BOXES_PER_DIRECTION: usize = 8;
const MIN_CELLS_PER_BOX: usize = 8;

/// Options that set the number of deflation boxes per direction.
const BOX_OPTIONS: [i32; 3] = [opt::SUBDOMAINS_X, opt::SUBDOMAINS_Y, opt::SUBDOMAINS_Z];

/// Selects the machine for a box of cells, given the numbers of threads and devices. A device is selected by default
/// only if the box is large enough and the device supports the requested options.
pub fn choose_machine(options: &Options, cells: Cells, threads: usize, devices: i32) -> Machine {
    Machine::new(
        options,
        threads,
        devices,
        cells.count() >= DPCG_DEVICE_CELLS && unsupported_on_device(options).is_none(),
    )
}

/// Returns the reason why a device does not support the requested options, or `None` if a device supports all of them.
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
/// tolerance as `null_space=auto`. With `null_space=none`, the null space is not projected out. The singular components
/// must nevertheless be known, because their deflation vectors may make E singular.
pub fn zero_row_sum_tolerance(options: &Options) -> f64 {
    match options.choice(opt::NULL_SPACE) {
        NullSpace::Auto | NullSpace::None => ZERO_ROW_SUM,
        NullSpace::Constant => ASSERTED_ZERO_ROW_SUM,
    }
}

/// With `null_space=constant`, returns an error unless all components are singular.
pub fn check_null_space(survey: &Survey, options: &Options) -> Result<()> {
    if options.is(opt::NULL_SPACE, NullSpace::Constant) {
        check_all_singular(survey.component_count, survey.singular_first_cells.len())?;
    }
    Ok(())
}

/// Results of a factorization, and times of the last solve.
#[derive(Clone, Copy, Debug, Default)]
pub struct FactorizationResults {
    /// Preconditioner in use.
    pub preconditioner: Preconditioner,
    /// Definition of the deflation regions in use.
    pub deflation: Deflation,
    /// Coarsening in use.
    pub coarsening: Coarsening,
    /// Solver for E in use.
    pub coarse_solver: CoarseSolver,
    /// Number of deflation vectors.
    pub deflation_vector_count: usize,
    /// Number of regions, including those without a deflation vector; 0 if there are no deflation vectors.
    pub region_count: usize,
    /// Number of groups of cells that strong couplings connect.
    pub strong_group_count: usize,
    /// Number of connected components of two or more cells.
    pub component_count: usize,
    /// Number of singular components; 0 with `null_space=none`.
    pub singular_component_count: usize,
    /// Number of aggregates reused from the previous matrix.
    pub reused_aggregate_count: usize,
    /// Largest row sum of |L D^-1|, where L is the strictly lower triangle of A, and D its diagonal.
    pub neumann_row_sum: f64,
    /// Reason for the selection by `auto`.
    pub reason: AutoReason,
    /// Precision of the preconditioner in use.
    pub precision: Precision,
    /// Whether multigrid replaces the aggregation that `auto` selected, because memory for aggregation could not be
    /// allocated.
    pub lacked_aggregation_memory: bool,
    /// Times of the parts of a factorization and a solve.
    pub timings: Timings,
}

/// Times of the parts of a factorization and a solve, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// Computation of Z and E in the last factorization.
    pub deflation_setup_seconds: f64,
    /// Solution of systems with E in the last solve.
    pub coarse_solve_seconds: f64,
    /// Remaining time of the last solve.
    pub iteration_seconds: f64,
}

/// Methods selected from the options and the matrix.
pub struct Plan<'a> {
    options: &'a Options,
    cells: Cells,
    machine: Machine,
    preconditioner: Preconditioner,
    coarsening: Coarsening,
    pairing_passes: usize,
    deflation: Deflation,
    reason: AutoReason,
}

impl<'a> Plan<'a> {
    /// Selects the methods. `has_labels`: whether the caller provides labels. Returns an error if the machine does not
    /// support the requested options, or if the options request more deflation boxes in a direction than it has cells.
    pub fn new(
        cells: Cells,
        options: &'a Options,
        machine: Machine,
        survey: &Survey,
        has_labels: bool,
    ) -> Result<Self> {
        let (preconditioner, preconditioner_reason) = match options.choice(opt::PRECONDITIONER) {
            Preconditioner::Auto
                if may_aggregate(options, machine, has_labels) && prefers_aggregation(cells, survey) =>
            {
                (Preconditioner::Amg, AutoReason::Crowded)
            }
            Preconditioner::Auto => (Preconditioner::Multigrid, AutoReason::Plain),
            requested => (requested, AutoReason::Asked),
        };
        if let Some(reason) = unsupported_on_device(options).filter(|_| machine.is_device()) {
            return Err(Error::Unsupported(reason.to_owned()));
        }
        if preconditioner == Preconditioner::Amg && machine.backend == Backend::Reference {
            let message = "preconditioner=amg is not available with backend=reference: use backend=cpu, or \
                            preconditioner=multigrid";
            return Err(Error::Unsupported(message.to_owned()));
        }
        check_boxes(options, cells)?;
        Ok(Self::with_preconditioner(
            cells,
            (options, machine),
            (preconditioner, preconditioner_reason),
            survey,
            has_labels,
        ))
    }

    /// Returns the plan in which multigrid replaces the aggregation that `auto` selected.
    pub fn without_aggregates(&self, survey: &Survey, has_labels: bool) -> Self {
        let multigrid = (Preconditioner::Multigrid, AutoReason::Plain);
        Self::with_preconditioner(self.cells, (self.options, self.machine), multigrid, survey, has_labels)
    }

    fn with_preconditioner(
        cells: Cells,
        (options, machine): (&'a Options, Machine),
        (preconditioner, preconditioner_reason): (Preconditioner, AutoReason),
        survey: &Survey,
        has_labels: bool,
    ) -> Self {
        let (coarsening, coarsening_reason) = match preconditioner {
            Preconditioner::Multigrid => choose_coarsening(cells, options, survey),
            _ => (Coarsening::Auto, AutoReason::Asked),
        };
        let (deflation, deflation_reason) = match options.choice(opt::DEFLATION) {
            Deflation::Auto if preconditioner == Preconditioner::Multigrid => {
                deflation_with_multigrid(survey, coarsening, has_labels)
            }
            // Aggregation needs no deflation, because aggregates resolve bubbles of any shape.
            Deflation::Auto if preconditioner == Preconditioner::Amg && !has_labels => {
                (Deflation::None, AutoReason::Plain)
            }
            Deflation::Auto if preconditioner == Preconditioner::Amg => (Deflation::Levelset, AutoReason::Labels),
            Deflation::Auto => deflation_with_others(survey, has_labels),
            requested => (requested, AutoReason::Asked),
        };
        let reason = first_reason([coarsening_reason, deflation_reason, preconditioner_reason]);
        let pairing_passes = count_pairing_passes(cells, survey);
        Self { options, cells, machine, preconditioner, coarsening, pairing_passes, deflation, reason }
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
    pub fn region_choice<'l>(&self, labels: Option<&'l [i32]>) -> Option<RegionChoice<'l>> {
        let kind = match self.deflation {
            Deflation::Auto | Deflation::None => return None,
            Deflation::Subdomain => RegionKind::Subdomain,
            Deflation::Levelset => RegionKind::LevelSet,
            Deflation::LevelsetSubdomain => RegionKind::LevelSetSubdomain,
        };
        let size = self.cells.size();
        let boxes = std::array::from_fn(|d| match self.options.int(BOX_OPTIONS[d]) {
            0 => (size[d] / MIN_CELLS_PER_BOX).clamp(1, MAX_BOXES_PER_DIRECTION),
            box_count => box_count as usize,
        });
        let dilation = match self.options.int(opt::DILATION) {
            -1 => labels.is_some(),
            dilation => dilation == 1,
        };
        Some(RegionChoice { kind, boxes, labels, dilation, keep_all: self.options.is_on(opt::KEEP_ALL) })
    }

    /// Returns the parameters of a factorization with this number of deflation vectors.
    pub fn setup(&self, vector_count: usize) -> Setup {
        let options = self.options;
        Setup {
            preconditioner: match self.preconditioner {
                Preconditioner::None => backend::Preconditioner::None,
                Preconditioner::Jacobi => backend::Preconditioner::Jacobi,
                Preconditioner::Neumann => backend::Preconditioner::Neumann { order: options.int(opt::ORDER) as usize },
                Preconditioner::Ic0 => backend::Preconditioner::Incomplete { omega: 0.0 },
                Preconditioner::Ric => backend::Preconditioner::Incomplete { omega: options.real(opt::RIC_OMEGA) },
                Preconditioner::Amg => backend::Preconditioner::Aggregation {
                    pairing_passes: self.pairing_passes,
                    is_single_precision: self.precision() == Precision::F32,
                    zero_row_sum: zero_row_sum_tolerance(options),
                },
                _ => backend::Preconditioner::Multigrid {
                    is_vertex_centered: self.coarsening == Coarsening::Vertex,
                    sweeps: match options.int(opt::SWEEPS) {
                        0 => 2,
                        sweeps => sweeps as usize,
                    },
                    is_single_precision: self.precision() == Precision::F32,
                    max_coarsest_cells: if options.is(opt::COARSENING, Coarsening::Auto) {
                        RESOLVING_COARSEST_CELLS
                    } else {
                        PUBLISHED_COARSEST_CELLS
                    },
                },
            },
            coarse_solver: match self.choose_coarse_solver(vector_count) {
                CoarseSolver::Cholesky => Solver::Cholesky,
                CoarseSolver::Cg => Solver::Cg,
                _ => Solver::Inverse,
            },
            coarse_tolerance: options.real(opt::COARSE_TOL),
            uses_fused_passes: options.is(opt::FUSION, Fusion::On) && self.machine.backend != Backend::Reference,
        }
    }

    fn choose_coarse_solver(&self, vector_count: usize) -> CoarseSolver {
        let max_inverted = if self.machine.is_device() { MAX_INVERTED_VECTORS_ON_DEVICE } else { MAX_INVERTED_VECTORS };
        match self.options.choice(opt::COARSE_SOLVER) {
            CoarseSolver::Auto if vector_count <= max_inverted => CoarseSolver::Inverse,
            CoarseSolver::Auto => CoarseSolver::Cholesky,
            requested => requested,
        }
    }

    fn precision(&self) -> Precision {
        match self.options.choice(opt::PRECISION) {
            Precision::F64 => Precision::F64,
            _ if [Preconditioner::Multigrid, Preconditioner::Amg].contains(&self.preconditioner) => Precision::F32,
            _ => Precision::F64,
        }
    }

    /// Returns the results that are known before the factorization: the selected methods, the reason for the selection,
    /// and the precision.
    pub fn planned_results(&self, vector_count: usize) -> FactorizationResults {
        let uses_deflation = vector_count > 0;
        FactorizationResults {
            preconditioner: self.preconditioner,
            deflation: if uses_deflation { self.deflation } else { Deflation::None },
            coarsening: self.coarsening,
            coarse_solver: if uses_deflation { self.choose_coarse_solver(vector_count) } else { CoarseSolver::Auto },
            reason: match self.reason {
                // There are no deflation vectors, for example because the labels cover no cell.
                AutoReason::Labels | AutoReason::Contrast | AutoReason::Thin if !uses_deflation => AutoReason::Plain,
                reason => reason,
            },
            precision: self.precision(),
            ..FactorizationResults::default()
        }
    }
}

/// Converts the solver to its option value.
pub fn coarse_solver_option(solver: Solver) -> CoarseSolver {
    match solver {
        Solver::Inverse => CoarseSolver::Inverse,
        Solver::Cholesky => CoarseSolver::Cholesky,
        Solver::Cg => CoarseSolver::Cg,
    }
}

/// Returns an error if the options request more deflation boxes in a direction than it has cells. The value of the
/// option `deflation` has no influence on this check, since `auto` may select boxes.
fn check_boxes(options: &Options, cells: Cells) -> Result<()> {
    let names = [("subdomains_x", "nx"), ("subdomains_y", "ny"), ("subdomains_z", "nz")];
    for (((option_name, extent_name), key), n) in names.into_iter().zip(BOX_OPTIONS).zip(cells.size()) {
        let requested = options.int(key);
        if requested > n as i64 {
            return Err(Error::range(
                option_name,
                requested,
                format!("be from 1 to {extent_name} = {n}: each box needs a cell"),
            ));
        }
    }
    Ok(())
}

/// Returns the number of pairing passes of aggregation. It is three (aggregates of eight cells) if the finest grid has
/// several cells in each direction and is coarsened in each direction. Otherwise, it is two (aggregates of four cells).
fn count_pairing_passes(cells: Cells, survey: &Survey) -> usize {
    let is_coarsened = |d: &usize| cells.size()[*d] > 1 && survey.coarsened_directions[*d];
    if (0..3).filter(is_coarsened).count() == 3 { 3 } else { 2 }
}

/// Returns whether `auto` may select aggregation instead of multigrid. `deflation` must be `auto` or `none`, and the
/// options must not set the coarsening or the sweeps of multigrid. The caller must not provide labels, and the backend
/// must support aggregation.
fn may_aggregate(options: &Options, machine: Machine, has_labels: bool) -> bool {
    let may_omit_deflation = matches!(options.choice(opt::DEFLATION), Deflation::Auto | Deflation::None);
    let sets_multigrid_options = !options.is(opt::COARSENING, Coarsening::Auto) || options.int(opt::SWEEPS) != 0;
    may_omit_deflation && !has_labels && !sets_multigrid_options && machine.backend != Backend::Reference
}

/// Returns whether aggregation is expected to converge faster than multigrid. At least `MIN_UNRESOLVED_FOR_AMG` groups
/// of strong couplings must be hidden from the coarse grids (`Survey::hidden_group_count`). In addition, one of these
/// conditions must hold:
/// - there are more groups than deflation can use, and the coupling ratio is at most `DEFLATION_COUPLING_RATIO`;
/// - the cells are flat (`has_uncoarsened_direction`): coarse grids then connect the liquid around hidden bubbles, even
///   with deflation.
fn prefers_aggregation(cells: Cells, survey: &Survey) -> bool {
    let exceeds_deflation_limit =
        survey.strong_group_count > MAX_DEFLATED_COMPONENTS && survey.coupling_ratio <= DEFLATION_COUPLING_RATIO;
    survey.hidden_group_count >= MIN_UNRESOLVED_FOR_AMG
        && (exceeds_deflation_limit || has_uncoarsened_direction(cells, survey.coarsened_directions))
}

/// Selects the coarsening for `preconditioner=multigrid`, and returns the reason.
fn choose_coarsening(cells: Cells, options: &Options, survey: &Survey) -> (Coarsening, AutoReason) {
    match options.choice(opt::COARSENING) {
        Coarsening::Auto => {
            if has_uncoarsened_direction(cells, survey.coarsened_directions) {
                (Coarsening::Cell, AutoReason::Anisotropic)
            } else {
                (Coarsening::Vertex, AutoReason::Plain)
            }
        }
        requested => (requested, AutoReason::Asked),
    }
}

/// Selects the deflation for `preconditioner=multigrid`, and returns the reason. If there are labels, they define the
/// regions. Otherwise, each group of strong couplings gets a deflation vector if there are 2 to
/// `MAX_DEFLATED_COMPONENTS` groups and one of these conditions holds:
/// - the coupling ratio is at most `DEFLATION_COUPLING_RATIO`;
/// - a group is thinner than `THIN_COMPONENT_CELLS` cells;
/// - `coarsening` is `Coarsening::Cell`.
fn deflation_with_multigrid(survey: &Survey, coarsening: Coarsening, has_labels: bool) -> (Deflation, AutoReason) {
    if has_labels {
        return (Deflation::Levelset, AutoReason::Labels);
    }
    if !(2..=MAX_DEFLATED_COMPONENTS).contains(&survey.strong_group_count) {
        return (Deflation::None, AutoReason::Plain);
    }
    if survey.coupling_ratio <= DEFLATION_COUPLING_RATIO {
        return (Deflation::Levelset, AutoReason::Contrast);
    }
    if survey.thinnest_group < THIN_COMPONENT_CELLS {
        return (Deflation::Levelset, AutoReason::Thin);
    }
    let deflation = if coarsening == Coarsening::Cell { Deflation::Levelset } else { Deflation::None };
    (deflation, AutoReason::Plain)
}

/// Selects the deflation for all preconditioners except multigrid and aggregation, and returns the reason. The regions
/// are boxes. The labels, or without labels the groups of strong couplings, divide the boxes.
fn deflation_with_others(survey: &Survey, has_labels: bool) -> (Deflation, AutoReason) {
    if has_labels {
        return (Deflation::LevelsetSubdomain, AutoReason::Labels);
    }
    if survey.strong_group_count > 0 {
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

    /// Returns the survey of a cube of water with the given coupling ratio and `strong_group_count` bubbles. The
    /// thinnest bubble has `thinnest_group` cells across.
    fn bubble_survey(strong_group_count: usize, thinnest_group: usize, coupling_ratio: f64) -> Survey {
        Survey {
            coarsened_directions: [true; 3],
            coupling_ratio,
            component_count: 1,
            strong_group_count,
            thinnest_group,
            ..Survey::default()
        }
    }

    /// Returns the results for the options in `option_text`, with nine deflation vectors.
    fn planned_results(option_text: &str, cells: Cells, survey: &Survey, has_labels: bool) -> FactorizationResults {
        let mut options = Options::new(crate::options::Family::Dpcg);
        options.set_text(option_text).unwrap();
        let machine = choose_machine(&options, cells, 1, 0);
        Plan::new(cells, &options, machine, survey, has_labels).unwrap().planned_results(9)
    }

    #[track_caller]
    fn check_results(results: FactorizationResults, coarsening: Coarsening, deflation: Deflation, reason: AutoReason) {
        assert_eq!(results.preconditioner, Preconditioner::Multigrid);
        assert_eq!((results.coarsening, results.deflation, results.reason), (coarsening, deflation, reason));
    }

    /// With multigrid, deflation depends on the number of groups, the coupling ratio and the thinnest group.
    #[test]
    fn deflation_depends_on_groups_and_coupling_ratio() {
        use AutoReason::{Contrast, Plain, Thin};
        use Deflation::{Levelset, None};
        for (strong_group_count, thinnest_group, coupling_ratio, deflation, reason) in [
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
            let survey = bubble_survey(strong_group_count, thinnest_group, coupling_ratio);
            check_results(planned_results("", CUBE, &survey, false), Coarsening::Vertex, deflation, reason);
            // `coarsening=cell` needs deflation vectors for groups of any size.
            let deflation = if (2..=1000).contains(&strong_group_count) { Levelset } else { None };
            check_results(
                planned_results("coarsening=cell", CUBE, &survey, false),
                Coarsening::Cell,
                deflation,
                reason,
            );
        }
    }

    /// `coarsening=cell` is selected if a direction of more than one cell is not coarsened. The reason `Anisotropic`
    /// takes precedence over the reasons for deflation.
    #[test]
    fn flat_cells_select_cell_coarsening() {
        let flat_survey = Survey { coarsened_directions: [false, true, true], ..bubble_survey(9, 3, 1e-6) };
        check_results(
            planned_results("", CUBE, &flat_survey, false),
            Coarsening::Cell,
            Deflation::Levelset,
            AutoReason::Anisotropic,
        );
        check_results(
            planned_results("", CUBE, &flat_survey, true),
            Coarsening::Cell,
            Deflation::Levelset,
            AutoReason::Anisotropic,
        );
        check_results(
            planned_results("deflation=none", CUBE, &flat_survey, false),
            Coarsening::Cell,
            Deflation::None,
            AutoReason::Anisotropic,
        );
        check_results(
            planned_results("coarsening=vertex", CUBE, &flat_survey, false),
            Coarsening::Vertex,
            Deflation::Levelset,
            AutoReason::Contrast,
        );
        let one_group = Survey { strong_group_count: 1, ..flat_survey.clone() };
        check_results(
            planned_results("", CUBE, &one_group, false),
            Coarsening::Cell,
            Deflation::None,
            AutoReason::Anisotropic,
        );
        let plane_cells = Cells { nx: 1, ..CUBE };
        check_results(
            planned_results("", plane_cells, &one_group, false),
            Coarsening::Vertex,
            Deflation::None,
            AutoReason::Plain,
        );
    }

    /// Aggregation is selected if many groups are hidden from the coarse grids and one more condition is true: the
    /// cells are flat, or there are too many groups for deflation and the phases differ strongly. It is not selected if
    /// there are labels, if an option of multigrid or a deflation is set, or if the backend does not support it.
    #[test]
    fn many_groups_select_aggregation() {
        let selects_aggregation = |option_text: &str,
                                   (strong_group_count, hidden_group_count): (usize, usize),
                                   coupling_ratio: f64,
                                   flat_cells: bool,
                                   has_labels: bool| {
            let survey = Survey {
                coarsened_directions: [true, !flat_cells, true],
                hidden_group_count,
                ..bubble_survey(strong_group_count, 1, coupling_ratio)
            };
            let results = planned_results(option_text, CUBE, &survey, has_labels);
            assert_eq!(
                results.preconditioner == Preconditioner::Amg,
                results.reason == AutoReason::Crowded,
                "{option_text}"
            );
            assert!(
                results.preconditioner != Preconditioner::Amg || results.deflation == Deflation::None,
                "{option_text}"
            );
            results.preconditioner == Preconditioner::Amg
        };
        for option_text in ["", "deflation=none", "backend=cpu precision=f64"] {
            assert!(selects_aggregation(option_text, (1001, 12), 1e-4, false, false), "{option_text}");
            assert!(selects_aggregation(option_text, (30, 12), 1e-2, true, false), "{option_text}");
            assert!(!selects_aggregation(option_text, (1000, 12), 1e-6, false, false), "{option_text}");
            assert!(!selects_aggregation(option_text, (1001, 11), 1e-6, true, false), "{option_text}");
            assert!(!selects_aggregation(option_text, (1001, 12), 1.01e-4, false, false), "{option_text}");
            assert!(!selects_aggregation(option_text, (1001, 12), 1e-6, true, true), "{option_text} with labels");
        }
        for option_text in ["backend=reference", "coarsening=vertex", "coarsening=cell", "deflation=levelset"] {
            assert!(!selects_aggregation(option_text, (1001, 500), 1e-6, true, false), "{option_text}");
        }
    }

    /// If there are labels, deflation uses them for any matrix.
    #[test]
    fn labels_define_the_deflation_regions() {
        for survey in [bubble_survey(0, 0, 1.0), bubble_survey(9, 3, 1e-6), bubble_survey(1001, 1, 1e-6)] {
            check_results(
                planned_results("", CUBE, &survey, true),
                Coarsening::Vertex,
                Deflation::Levelset,
                AutoReason::Labels,
            );
            let results = planned_results("preconditioner=neumann", CUBE, &survey, true);
            assert_eq!((results.deflation, results.reason), (Deflation::LevelsetSubdomain, AutoReason::Labels));
        }
        // With all labels equal to -1, there are no deflation vectors.
        let options = Options::new(crate::options::Family::Dpcg);
        let plan =
            Plan::new(CUBE, &options, choose_machine(&options, CUBE, 1, 0), &bubble_survey(9, 4, 1e-3), true).unwrap();
        check_results(plan.planned_results(0), Coarsening::Vertex, Deflation::None, AutoReason::Plain);
    }

    /// The solver for E depends on the number of deflation vectors and on the backend.
    #[test]
    fn coarse_solver_depends_on_vector_count() {
        use CoarseSolver::{Cholesky, Inverse};
        for (backend, max_inverted) in [("cpu", 1024), ("cuda", 4096)] {
            let mut options = Options::new(crate::options::Family::Dpcg);
            options.set_text(&format!("backend={backend}")).unwrap();
            let plan =
                Plan::new(CUBE, &options, choose_machine(&options, CUBE, 1, 1), &bubble_survey(9, 4, 1e-3), false)
                    .unwrap();
            assert_eq!(
                [max_inverted, max_inverted + 1].map(|vector_count| plan.planned_results(vector_count).coarse_solver),
                [Inverse, Cholesky]
            );
        }
    }

    /// Without multigrid or aggregation, the regions are boxes, which the phases in the matrix divide.
    #[test]
    fn phases_divide_boxes_without_multigrid() {
        for name in ["none", "jacobi", "neumann", "ic0", "ric"] {
            for (survey, deflation, reason) in [
                (bubble_survey(0, 0, 1.0), Deflation::Subdomain, AutoReason::Plain),
                (bubble_survey(1, 9, 1e-3), Deflation::LevelsetSubdomain, AutoReason::Contrast),
                (bubble_survey(1001, 1, 1e-3), Deflation::LevelsetSubdomain, AutoReason::Contrast),
            ] {
                let results = planned_results(&format!("preconditioner={name}"), CUBE, &survey, false);
                assert_eq!(
                    (results.coarsening, results.deflation, results.reason),
                    (Coarsening::Auto, deflation, reason)
                );
            }
        }
    }

    /// `Asked` is reported only if the options set preconditioner and deflation and, for multigrid, also the
    /// coarsening.
    #[test]
    fn reason_is_asked_only_if_options_set_all_methods() {
        let survey = bubble_survey(9, 9, 1e-3);
        for (option_text, reason) in [
            ("preconditioner=jacobi deflation=subdomain", AutoReason::Asked),
            ("preconditioner=jacobi coarsening=auto deflation=none", AutoReason::Asked),
            ("preconditioner=multigrid coarsening=cell deflation=none", AutoReason::Asked),
            ("coarsening=cell deflation=levelset", AutoReason::Plain),
            ("preconditioner=multigrid deflation=levelset", AutoReason::Plain),
            ("preconditioner=multigrid coarsening=vertex", AutoReason::Plain),
        ] {
            for has_labels in [false, true] {
                let uses_labels = has_labels && !option_text.contains("deflation");
                let reason = if uses_labels { AutoReason::Labels } else { reason };
                assert_eq!(planned_results(option_text, CUBE, &survey, has_labels).reason, reason, "{option_text}");
            }
        }
    }

    /// Returns the survey of a matrix. The coupling at a face is the harmonic mean of the conductances of two cells,
    /// times the factor of the direction in `face_factors`.
    fn survey(
        [nx, ny, nz]: [usize; 3],
        face_factors: [f64; 3],
        conductance: impl Fn([usize; 3]) -> f64,
    ) -> (Cells, Survey) {
        let cells = Cells { nx, ny, nz };
        let mut center = vec![0.0; cells.count()];
        let mut forward = [(); 3].map(|()| vec![0.0; cells.count()]);
        for c in 0..cells.count() {
            let indices = cells.indices(c);
            for d in (0..3).filter(|&d| indices[d] + 1 < cells.size()[d]) {
                let mut neighbour_indices = indices;
                neighbour_indices[d] += 1;
                let [a, b] = [indices, neighbour_indices].map(&conductance);
                let coupling = face_factors[d] * 2.0 * a * b / (a + b);
                forward[d][c] = -coupling;
                center[c] += coupling;
                center[c + cells.strides()[d]] += coupling;
            }
        }
        let a = SevenPoints { cells, center: &center, forward: forward.each_ref().map(|f| &f[..]) };
        (cells, SurveyData::of(&a, ZERO_ROW_SUM).unwrap().1)
    }

    /// Tests the rules for deflation and coarsening with matrices: `block_count` blocks of air in a box of water. A
    /// block has `block_width` cells in x, 8 cells in y and 7 cells in z.
    #[test]
    fn rules_hold_for_inspected_matrices() {
        let choices_for = |block_width: usize, block_count: usize, coupling_ratio: f64, face_factors: [f64; 3]| {
            let (cells, survey) = survey([12 * block_count, 16, 14], face_factors, |[i, j, k]| {
                let is_air = i % 12 >= 3 && i % 12 < 3 + block_width && (2..10).contains(&j) && (4..11).contains(&k);
                if is_air { 1.0 / coupling_ratio } else { 1.0 }
            });
            assert_eq!(survey.strong_group_count, if coupling_ratio < 1.0 { block_count } else { 0 });
            let results = planned_results("", cells, &survey, false);
            (results.coarsening, results.deflation, results.reason)
        };
        use Coarsening::{Cell, Vertex};
        let equal_faces = [1.0; 3];
        assert_eq!(choices_for(4, 2, 1.0, equal_faces), (Vertex, Deflation::None, AutoReason::Plain));
        assert_eq!(choices_for(4, 2, 1e-3, equal_faces), (Vertex, Deflation::None, AutoReason::Plain));
        assert_eq!(choices_for(3, 2, 1e-3, equal_faces), (Vertex, Deflation::Levelset, AutoReason::Thin));
        assert_eq!(choices_for(4, 2, 1e-5, equal_faces), (Vertex, Deflation::Levelset, AutoReason::Contrast));
        assert_eq!(choices_for(3, 1, 1e-5, equal_faces), (Vertex, Deflation::None, AutoReason::Plain));
        // The coupling ratio is computed per direction, so anisotropic faces do not reduce it.
        assert_eq!(choices_for(4, 2, 1e-3, [1.0, 1.0, 16.0]), (Cell, Deflation::Levelset, AutoReason::Anisotropic));
        assert_eq!(choices_for(4, 2, 1e-3, [0.5, 1.0, 1.0]), (Vertex, Deflation::None, AutoReason::Plain));
    }
}

//! What is chosen for a matrix before it is factorized: preconditioner, deflation vectors, solver of E.

use crate::backend::coarse::deflation::Solver;
use crate::backend::steps::dpcg::{self, PUBLISHED, SEEING, Setup};
use crate::error::{Error, Result};
use crate::grid::cell_survey::{MANY, Survey, is_flat};
use crate::grid::cells::Cells;
use crate::grid::components::{ASSERTED_ZERO_ROW_SUM, ZERO_ROW_SUM};
use crate::grid::regions::{Choice, Kind};
use crate::options::limits::{DPCG_DEVICE_CELLS, FAR_APART, INVERTED, INVERTED_ON_DEVICE, MANY_HIDDEN, THIN};
use crate::options::{
    AutoReason, Backend, CoarseSolver, Coarsening, Deflation, Fusion, NullSpace, Options, Precision, Preconditioner,
    opt,
};
use crate::solver::machine::Machine;
use crate::solver::solve::check_all_singular;

/// Boxes in a direction at most, and cells of a box at least, where they are chosen: 8 boxes around each of nine
/// bubbles (the slides of 2013).
const BOXES: usize = 8;
const CELLS_OF_A_BOX: usize = 8;

/// Where they are asked for.
const BOXES_ASKED: [i32; 3] = [opt::SUBDOMAINS_X, opt::SUBDOMAINS_Y, opt::SUBDOMAINS_Z];

/// Where to solve on a machine with so many threads and devices. What the device does not offer is no reason to leave
/// the CPU.
pub fn machine(options: &Options, cells: Cells, threads: usize, devices: i32) -> Machine {
    Machine::new(options, threads, devices, cells.count() >= DPCG_DEVICE_CELLS && refused_on_device(options).is_none())
}

/// Why a device does not do what is asked for.
fn refused_on_device(options: &Options) -> Option<&'static str> {
    if matches!(options.choice(opt::PRECONDITIONER), Preconditioner::Ic0 | Preconditioner::Ric) {
        return Some("ic0 and ric run only on the CPU: on a device use preconditioner=neumann or multigrid");
    }
    if options.is(opt::COARSE_SOLVER, CoarseSolver::Cg) {
        return Some("coarse_solver=cg runs only on the CPU: on a device use inverse or cholesky");
    }
    None
}

/// Row sums within this part of the center count as zero, whatever the caller says of the null space: E is singular
/// where the matrix is.
pub fn zero_row_sum(options: &Options) -> f64 {
    match options.choice(opt::NULL_SPACE) {
        NullSpace::Auto | NullSpace::None => ZERO_ROW_SUM,
        NullSpace::Constant => ASSERTED_ZERO_ROW_SUM,
    }
}

/// All components are singular where the options say that they are.
pub fn check_null_space(survey: &Survey, options: &Options) -> Result<()> {
    if options.is(opt::NULL_SPACE, NullSpace::Constant) {
        check_all_singular(survey.components, survey.singular.len())?;
    }
    Ok(())
}

/// Results of a factorization, and times of the last solve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// M in use.
    pub preconditioner: Preconditioner,
    /// Regions in use.
    pub deflation: Deflation,
    /// Coarsening in use.
    pub coarsening: Coarsening,
    /// Solver of E in use.
    pub coarse_solver: CoarseSolver,
    /// Deflation vectors.
    pub vectors: usize,
    /// Regions before any was dropped.
    pub regions: usize,
    /// Components of strong couplings.
    pub strong: usize,
    /// Connected components of two cells or more.
    pub components: usize,
    /// Singular ones.
    pub singular_components: usize,
    /// Aggregates kept from the matrix before.
    pub aggregates_kept: usize,
    /// Largest row sum of |L D^-1|.
    pub row_sum: f64,
    /// Why `auto` chose so.
    pub reason: AutoReason,
    /// Precision of M in use.
    pub precision: Precision,
    /// There was no memory for aggregates, which nobody asked for.
    pub went_without: bool,
    /// Times apart.
    pub seconds: Seconds,
}

/// Times apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seconds {
    /// Of Z and E, in the last factorize.
    pub deflation: f64,
    /// Of systems with E, in the last solve.
    pub coarse: f64,
    /// Of the rest of it.
    pub iterations: f64,
}

/// What the options and the matrix lead to.
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
    /// `labelled`: the caller has regions of his own.
    pub fn new(cells: Cells, options: &'a Options, machine: Machine, survey: &Survey, labelled: bool) -> Result<Self> {
        let (preconditioner, left) = match options.choice(opt::PRECONDITIONER) {
            Preconditioner::Auto if may_aggregate(options, machine, labelled) && is_crowded(cells, survey) => {
                (Preconditioner::Amg, AutoReason::Crowded)
            }
            Preconditioner::Auto => (Preconditioner::Multigrid, AutoReason::Plain),
            asked => (asked, AutoReason::Asked),
        };
        if let Some(why) = refused_on_device(options).filter(|_| machine.is_device()) {
            return Err(Error::Unsupported(why.to_owned()));
        }
        if preconditioner == Preconditioner::Amg && machine.backend == Backend::Reference {
            let sentence = "preconditioner=amg is not available with backend=reference: use backend=cpu, or \
                            preconditioner=multigrid";
            return Err(Error::Unsupported(sentence.to_owned()));
        }
        check_boxes(options, cells)?;
        Ok(Self::with(cells, (options, machine), (preconditioner, left), survey, labelled))
    }

    /// Multigrid in place of aggregates, which nobody has asked for.
    pub fn without_aggregates(&self, survey: &Survey, labelled: bool) -> Self {
        let multigrid = (Preconditioner::Multigrid, AutoReason::Plain);
        Self::with(self.cells, (self.options, self.machine), multigrid, survey, labelled)
    }

    fn with(
        cells: Cells,
        (options, machine): (&'a Options, Machine),
        (preconditioner, left): (Preconditioner, AutoReason),
        survey: &Survey,
        labelled: bool,
    ) -> Self {
        let (coarsening, flat) = match preconditioner {
            Preconditioner::Multigrid => choose_coarsening(cells, options, survey),
            _ => (Coarsening::Auto, AutoReason::Asked),
        };
        let (deflation, worth) = match options.choice(opt::DEFLATION) {
            Deflation::Auto if preconditioner == Preconditioner::Multigrid => {
                beside_multigrid(survey, coarsening, labelled)
            }
            // Aggregates see bubbles of any kind.
            Deflation::Auto if preconditioner == Preconditioner::Amg && !labelled => {
                (Deflation::None, AutoReason::Plain)
            }
            Deflation::Auto if preconditioner == Preconditioner::Amg => (Deflation::Levelset, AutoReason::Labels),
            Deflation::Auto => beside_others(survey, labelled),
            asked => (asked, AutoReason::Asked),
        };
        let reason = first_reason([flat, worth, left]);
        let passes = passes(cells, survey);
        Self { options, cells, machine, preconditioner, coarsening, passes, deflation, reason }
    }

    /// Aggregates, which nobody has asked for.
    pub fn aggregates_unasked(&self) -> bool {
        self.preconditioner == Preconditioner::Amg && self.options.is(opt::PRECONDITIONER, Preconditioner::Auto)
    }

    /// Nobody projects.
    pub fn leaves_singular(&self) -> bool {
        self.options.is(opt::NULL_SPACE, NullSpace::None)
    }

    /// Regions; none where nothing is deflated.
    pub fn choice<'l>(&self, labels: Option<&'l [i32]>) -> Option<Choice<'l>> {
        let kind = match self.deflation {
            Deflation::Auto | Deflation::None => return None,
            Deflation::Subdomain => Kind::Subdomain,
            Deflation::Levelset => Kind::LevelSet,
            Deflation::LevelsetSubdomain => Kind::LevelSetSubdomain,
        };
        let size = self.cells.size();
        let boxes = std::array::from_fn(|d| match self.options.int(BOXES_ASKED[d]) {
            0 => (size[d] / CELLS_OF_A_BOX).clamp(1, BOXES),
            asked => asked as usize,
        });
        let dilation = match self.options.int(opt::DILATION) {
            -1 => labels.is_some(),
            asked => asked == 1,
        };
        Some(Choice { kind, boxes, labels, dilation, keep_all: self.options.on(opt::KEEP_ALL) })
    }

    /// How to factorize with so many deflation vectors.
    pub fn setup(&self, vectors: usize) -> Setup {
        let options = self.options;
        Setup {
            preconditioner: match self.preconditioner {
                Preconditioner::None => dpcg::Preconditioner::None,
                Preconditioner::Jacobi => dpcg::Preconditioner::Jacobi,
                Preconditioner::Neumann => dpcg::Preconditioner::Neumann { order: options.int(opt::ORDER) as usize },
                Preconditioner::Ic0 => dpcg::Preconditioner::Incomplete { omega: 0.0 },
                Preconditioner::Ric => dpcg::Preconditioner::Incomplete { omega: options.real(opt::RIC_OMEGA) },
                Preconditioner::Amg => dpcg::Preconditioner::Aggregation {
                    passes: self.passes,
                    single: self.precision() == Precision::F32,
                    zero_row_sum: zero_row_sum(options),
                },
                _ => dpcg::Preconditioner::Multigrid {
                    vertex: self.coarsening == Coarsening::Vertex,
                    sweeps: match options.int(opt::SWEEPS) {
                        0 => 2,
                        asked => asked as usize,
                    },
                    single: self.precision() == Precision::F32,
                    coarsest: if options.is(opt::COARSENING, Coarsening::Auto) { SEEING } else { PUBLISHED },
                },
            },
            coarse_solver: match self.coarse_solver(vectors) {
                CoarseSolver::Cholesky => Solver::Cholesky,
                CoarseSolver::Cg => Solver::Cg,
                _ => Solver::Inverse,
            },
            coarse_tolerance: options.real(opt::COARSE_TOL),
            fused: options.is(opt::FUSION, Fusion::On),
        }
    }

    fn coarse_solver(&self, vectors: usize) -> CoarseSolver {
        let inverted = if self.machine.is_device() { INVERTED_ON_DEVICE } else { INVERTED };
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

    /// Results that tell of the choice.
    pub fn told(&self, vectors: usize) -> Done {
        let deflates = vectors > 0;
        Done {
            preconditioner: self.preconditioner,
            deflation: if deflates { self.deflation } else { Deflation::None },
            coarsening: self.coarsening,
            coarse_solver: if deflates { self.coarse_solver(vectors) } else { CoarseSolver::Auto },
            reason: match self.reason {
                // Labels of no cell, for one.
                AutoReason::Labels | AutoReason::Contrast | AutoReason::Thin if !deflates => AutoReason::Plain,
                reason => reason,
            },
            precision: self.precision(),
            ..Done::default()
        }
    }
}

/// As results tell it.
pub fn coarse_solver_of(solver: Solver) -> CoarseSolver {
    match solver {
        Solver::Inverse => CoarseSolver::Inverse,
        Solver::Cholesky => CoarseSolver::Cholesky,
        Solver::Cg => CoarseSolver::Cg,
    }
}

/// More boxes than cells in a direction are refused, also where `deflation` has no boxes: `auto` takes them by the
/// matrix.
fn check_boxes(options: &Options, cells: Cells) -> Result<()> {
    let names = [("subdomains_x", "nx"), ("subdomains_y", "ny"), ("subdomains_z", "nz")];
    for (((name, extent), key), n) in names.into_iter().zip(BOXES_ASKED).zip(cells.size()) {
        let asked = options.int(key);
        if asked > n as i64 {
            return Err(Error::range(name, asked, format!("be from 1 to {extent} = {n}: each box needs a cell")));
        }
    }
    Ok(())
}

/// Passes of pairs: aggregates of eight cells in space, of four in a plane and where cells are flat.
fn passes(cells: Cells, survey: &Survey) -> usize {
    let coarsened = |d: &usize| cells.size()[*d] > 1 && survey.coarsened[*d];
    if (0..3).filter(coarsened).count() == 3 { 3 } else { 2 }
}

/// Whether aggregates may take the place of multigrid where that is not asked for by name, nor a part of it: nobody
/// has labels, or vectors of another kind, and the backend has aggregates.
fn may_aggregate(options: &Options, machine: Machine, labelled: bool) -> bool {
    let left = matches!(options.choice(opt::DEFLATION), Deflation::Auto | Deflation::None);
    let of_multigrid = !options.is(opt::COARSENING, Coarsening::Auto) || options.int(opt::SWEEPS) != 0;
    left && !labelled && !of_multigrid && machine.backend != Backend::Reference
}

/// Bubbles that coarse grids do not see and that nothing makes up for: deflation takes no more of them, and the phases
/// are far apart; or flat cells are paired, which ties the liquid around them together whatever is deflated.
fn is_crowded(cells: Cells, survey: &Survey) -> bool {
    let left_alone = survey.strong > MANY && survey.contrast <= FAR_APART;
    survey.hidden >= MANY_HIDDEN && (left_alone || is_flat(cells, survey.coarsened))
}

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

/// Labels, and components of strong couplings that are worth a vector each beside multigrid; and why.
fn beside_multigrid(survey: &Survey, coarsening: Coarsening, labelled: bool) -> (Deflation, AutoReason) {
    if labelled {
        return (Deflation::Levelset, AutoReason::Labels);
    }
    if !(2..=MANY).contains(&survey.strong) {
        return (Deflation::None, AutoReason::Plain);
    }
    if survey.contrast <= FAR_APART {
        return (Deflation::Levelset, AutoReason::Contrast);
    }
    if survey.thinnest < THIN {
        return (Deflation::Levelset, AutoReason::Thin);
    }
    let deflation = if coarsening == Coarsening::Cell { Deflation::Levelset } else { Deflation::None };
    (deflation, AutoReason::Plain)
}

/// Boxes, which the phases cut where there are two; and why.
fn beside_others(survey: &Survey, labelled: bool) -> (Deflation, AutoReason) {
    if labelled {
        return (Deflation::LevelsetSubdomain, AutoReason::Labels);
    }
    if survey.strong > 0 {
        return (Deflation::LevelsetSubdomain, AutoReason::Contrast);
    }
    (Deflation::Subdomain, AutoReason::Plain)
}

/// The first that tells something; `Asked` where all was.
fn first_reason(reasons: [AutoReason; 3]) -> AutoReason {
    let tells = |reason: &AutoReason| !matches!(reason, AutoReason::Asked | AutoReason::Plain);
    let left = if reasons.contains(&AutoReason::Plain) { AutoReason::Plain } else { AutoReason::Asked };
    reasons.into_iter().find(tells).unwrap_or(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::cell_survey::Found;
    use crate::grid::cells::SevenPoints;

    const CUBE: Cells = Cells { nx: 24, ny: 24, nz: 24 };

    /// A cube of water with so many bubbles of so many cells across, and a contrast.
    fn bubbly(strong: usize, thinnest: usize, contrast: f64) -> Survey {
        Survey { coarsened: [true; 3], contrast, components: 1, strong, thinnest, ..Survey::default() }
    }

    /// What is told for the options, with vectors.
    fn told(text: &str, cells: Cells, survey: &Survey, labelled: bool) -> Done {
        let mut options = Options::new(crate::options::Family::Dpcg);
        options.set_text(text).unwrap();
        let machine = machine(&options, cells, 1, 0);
        Plan::new(cells, &options, machine, survey, labelled).unwrap().told(9)
    }

    #[track_caller]
    fn check(done: Done, coarsening: Coarsening, deflation: Deflation, reason: AutoReason) {
        assert_eq!(done.preconditioner, Preconditioner::Multigrid);
        assert_eq!((done.coarsening, done.deflation, done.reason), (coarsening, deflation, reason));
    }

    /// Rule 2: vectors beside multigrid by the number of groups, the contrast and the thinnest group.
    #[test]
    fn groups_that_are_worth_vectors() {
        use AutoReason::{Contrast, Plain, Thin};
        use Deflation::{Levelset, None};
        for (strong, thinnest, contrast, deflation, reason) in [
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
            let survey = bubbly(strong, thinnest, contrast);
            check(told("", CUBE, &survey, false), Coarsening::Vertex, deflation, reason);
            // `cell` needs vectors for groups of any kind.
            let deflation = if (2..=1000).contains(&strong) { Levelset } else { None };
            check(told("coarsening=cell", CUBE, &survey, false), Coarsening::Cell, deflation, reason);
        }
    }

    /// Rule 1: `cell` where a direction of more than one cell is not coarsened. It is the first reason.
    #[test]
    fn flat_cells() {
        let flat = Survey { coarsened: [false, true, true], ..bubbly(9, 3, 1e-6) };
        check(told("", CUBE, &flat, false), Coarsening::Cell, Deflation::Levelset, AutoReason::Anisotropic);
        check(told("", CUBE, &flat, true), Coarsening::Cell, Deflation::Levelset, AutoReason::Anisotropic);
        check(told("deflation=none", CUBE, &flat, false), Coarsening::Cell, Deflation::None, AutoReason::Anisotropic);
        check(
            told("coarsening=vertex", CUBE, &flat, false),
            Coarsening::Vertex,
            Deflation::Levelset,
            AutoReason::Contrast,
        );
        let one = Survey { strong: 1, ..flat.clone() };
        check(told("", CUBE, &one, false), Coarsening::Cell, Deflation::None, AutoReason::Anisotropic);
        let plane = Cells { nx: 1, ..CUBE };
        check(told("", plane, &one, false), Coarsening::Vertex, Deflation::None, AutoReason::Plain);
    }

    /// Aggregates where deflation takes no more components, or flat cells hide many; not beside what says something of
    /// multigrid, and not where the backend has none.
    #[test]
    fn crowds() {
        let of = |text: &str, (strong, hidden): (usize, usize), contrast: f64, flat: bool, labelled: bool| {
            let survey = Survey { coarsened: [true, !flat, true], hidden, ..bubbly(strong, 1, contrast) };
            let done = told(text, CUBE, &survey, labelled);
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

    /// Labels are deflated whatever the matrix is.
    #[test]
    fn labels() {
        for survey in [bubbly(0, 0, 1.0), bubbly(9, 3, 1e-6), bubbly(1001, 1, 1e-6)] {
            check(told("", CUBE, &survey, true), Coarsening::Vertex, Deflation::Levelset, AutoReason::Labels);
            let done = told("preconditioner=neumann", CUBE, &survey, true);
            assert_eq!((done.deflation, done.reason), (Deflation::LevelsetSubdomain, AutoReason::Labels));
        }
        // All of them -1.
        let options = Options::new(crate::options::Family::Dpcg);
        let plan = Plan::new(CUBE, &options, machine(&options, CUBE, 1, 0), &bubbly(9, 4, 1e-3), true).unwrap();
        check(plan.told(0), Coarsening::Vertex, Deflation::None, AutoReason::Plain);
    }

    /// How E is solved, by its vectors and the place.
    #[test]
    fn solvers_of_e() {
        use CoarseSolver::{Cholesky, Inverse};
        for (backend, most) in [("cpu", 1024), ("cuda", 4096)] {
            let mut options = Options::new(crate::options::Family::Dpcg);
            options.set_text(&format!("backend={backend}")).unwrap();
            let plan = Plan::new(CUBE, &options, machine(&options, CUBE, 1, 1), &bubbly(9, 4, 1e-3), false).unwrap();
            assert_eq!([most, most + 1].map(|vectors| plan.told(vectors).coarse_solver), [Inverse, Cholesky]);
        }
    }

    /// Without multigrid boxes are cut by what is in the matrix.
    #[test]
    fn other_preconditioners() {
        for name in ["none", "jacobi", "neumann", "ic0", "ric"] {
            for (survey, deflation, reason) in [
                (bubbly(0, 0, 1.0), Deflation::Subdomain, AutoReason::Plain),
                (bubbly(1, 9, 1e-3), Deflation::LevelsetSubdomain, AutoReason::Contrast),
                (bubbly(1001, 1, 1e-3), Deflation::LevelsetSubdomain, AutoReason::Contrast),
            ] {
                let done = told(&format!("preconditioner={name}"), CUBE, &survey, false);
                assert_eq!((done.coarsening, done.deflation, done.reason), (Coarsening::Auto, deflation, reason));
            }
        }
    }

    /// `asked` means that preconditioner, coarsening and deflation all were.
    #[test]
    fn what_is_asked_for() {
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
                assert_eq!(told(text, CUBE, &survey, labelled).reason, reason, "{text}");
            }
        }
    }

    /// What is found in a matrix of conductances by cell, of faces that differ by direction.
    fn survey([nx, ny, nz]: [usize; 3], faces: [f64; 3], conductance: impl Fn([usize; 3]) -> f64) -> (Cells, Survey) {
        let cells = Cells { nx, ny, nz };
        let mut center = vec![0.0; cells.count()];
        let mut forward = [(); 3].map(|()| vec![0.0; cells.count()]);
        for c in 0..cells.count() {
            let at = cells.place(c);
            for d in (0..3).filter(|&d| at[d] + 1 < cells.size()[d]) {
                let mut beside = at;
                beside[d] += 1;
                let [a, b] = [at, beside].map(&conductance);
                let face = faces[d] * 2.0 * a * b / (a + b);
                forward[d][c] = -face;
                center[c] += face;
                center[c + cells.steps()[d]] += face;
            }
        }
        let a = SevenPoints { cells, center: &center, forward: forward.each_ref().map(|f| &f[..]) };
        (cells, Found::of(&a, ZERO_ROW_SUM).unwrap().1)
    }

    /// The same from matrices: blocks of air of `side` cells, two of them or more, in cubes of water.
    #[test]
    fn rules_by_matrices() {
        let of = |side: usize, blocks: usize, contrast: f64, faces: [f64; 3]| {
            let (cells, survey) = survey([12 * blocks, 16, 14], faces, |[i, j, k]| {
                let air = i % 12 >= 3 && i % 12 < 3 + side && (2..10).contains(&j) && (4..11).contains(&k);
                if air { 1.0 / contrast } else { 1.0 }
            });
            assert_eq!(survey.strong, if contrast < 1.0 { blocks } else { 0 });
            let done = told("", cells, &survey, false);
            (done.coarsening, done.deflation, done.reason)
        };
        use Coarsening::{Cell, Vertex};
        let cubes = [1.0; 3];
        assert_eq!(of(4, 2, 1.0, cubes), (Vertex, Deflation::None, AutoReason::Plain));
        assert_eq!(of(4, 2, 1e-3, cubes), (Vertex, Deflation::None, AutoReason::Plain));
        assert_eq!(of(3, 2, 1e-3, cubes), (Vertex, Deflation::Levelset, AutoReason::Thin));
        assert_eq!(of(4, 2, 1e-5, cubes), (Vertex, Deflation::Levelset, AutoReason::Contrast));
        assert_eq!(of(3, 1, 1e-5, cubes), (Vertex, Deflation::None, AutoReason::Plain));
        // Contrast is of one direction: faces of several sizes add nothing to it.
        assert_eq!(of(4, 2, 1e-3, [1.0, 1.0, 16.0]), (Cell, Deflation::Levelset, AutoReason::Anisotropic));
        assert_eq!(of(4, 2, 1e-3, [0.5, 1.0, 1.0]), (Vertex, Deflation::None, AutoReason::Plain));
    }
}

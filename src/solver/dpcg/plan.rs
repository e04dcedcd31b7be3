//! What is chosen for a matrix before it is factorized: preconditioner, deflation vectors, solver of E.

use crate::backend::coarse::deflation::Solver;
use crate::backend::steps::dpcg::{self, PUBLISHED, SEEING, Setup};
use crate::error::{Error, Result};
use crate::grid::cell_survey::Survey;
use crate::grid::cells::Cells;
use crate::grid::components::{ASSERTED_ZERO_ROW_SUM, ZERO_ROW_SUM};
use crate::grid::regions::{Choice, Kind};
use crate::options::{
    AutoReason, CoarseSolver, Coarsening, Deflation, Fusion, NullSpace, Options, Precision, Preconditioner, opt,
};
use crate::solver::machine::Machine;
use crate::solver::solve::check_all_singular;

/// Up to so many vectors E is inverted: a product with the inverse reads k^2 numbers, 8 MB.
const INVERTED: usize = 1024;

/// `auto` deflates so many components of strong couplings at most: with more, E costs more than it saves.
const MANY: usize = 1000;

/// Multigrid alone takes more iterations where the phases are further apart than this, or where such a component is
/// fewer cells across than `THIN`: a coarse grid may not see it.
const FAR_APART: f64 = 1e-4;
const THIN: usize = 4;

/// Boxes in a direction at most, and cells of a box at least, where they are chosen: 8 boxes around each of nine
/// bubbles (the slides of 2013).
const BOXES: usize = 8;
const CELLS_OF_A_BOX: usize = 8;

/// Where they are asked for.
const BOXES_ASKED: [i32; 3] = [opt::SUBDOMAINS_X, opt::SUBDOMAINS_Y, opt::SUBDOMAINS_Z];

/// From so many cells on, `backend=auto` takes a device where there is one.
const WORTH_A_DEVICE: usize = 20_000;

/// Where to solve on a machine with so many threads and devices. What the device does not offer is no reason to leave
/// the CPU.
pub fn machine(options: &Options, cells: Cells, threads: usize, devices: i32) -> Machine {
    Machine::new(options, threads, devices, cells.count() >= WORTH_A_DEVICE && refused_on_device(options).is_none())
}

/// Why a device does not do what is asked for.
fn refused_on_device(options: &Options) -> Option<&'static str> {
    if matches!(options.choice(opt::PRECONDITIONER), Preconditioner::Ic0 | Preconditioner::Ric) {
        return Some("ic0 and ric run on the CPU: on a device take preconditioner=neumann or multigrid");
    }
    if options.is(opt::COARSE_SOLVER, CoarseSolver::Cg) {
        return Some("coarse_solver=cg runs on the CPU: on a device take inverse or cholesky");
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
    /// Largest row sum of |L D^-1|.
    pub row_sum: f64,
    /// Why `auto` chose so.
    pub reason: AutoReason,
    /// Precision of M in use.
    pub precision: Precision,
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
    preconditioner: Preconditioner,
    coarsening: Coarsening,
    deflation: Deflation,
    reason: AutoReason,
}

impl<'a> Plan<'a> {
    /// `labelled`: the caller has regions of his own.
    pub fn new(cells: Cells, options: &'a Options, machine: Machine, survey: &Survey, labelled: bool) -> Result<Self> {
        let preconditioner = match options.choice(opt::PRECONDITIONER) {
            Preconditioner::Auto => Preconditioner::Multigrid,
            asked => asked,
        };
        if let Some(why) = refused_on_device(options).filter(|_| machine.is_device()) {
            return Err(Error::Unsupported(why.to_owned()));
        }
        check_boxes(options, cells)?;
        let (mut coarsening, mut reason) = (Coarsening::Auto, AutoReason::Asked);
        if preconditioner == Preconditioner::Multigrid {
            (coarsening, reason) = choose_coarsening(cells, options, survey);
        }
        let deflation = match options.choice(opt::DEFLATION) {
            Deflation::Auto if preconditioner == Preconditioner::Multigrid => {
                let (deflates, why) = worth_deflating(survey, coarsening, labelled);
                reason = if reason == AutoReason::Anisotropic { reason } else { why };
                if deflates { Deflation::Levelset } else { Deflation::None }
            }
            Deflation::Auto if survey.strong > 0 || labelled => Deflation::LevelsetSubdomain,
            Deflation::Auto => Deflation::Subdomain,
            asked => asked,
        };
        Ok(Self { options, cells, preconditioner, coarsening, deflation, reason })
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
        match self.options.choice(opt::COARSE_SOLVER) {
            CoarseSolver::Auto if vectors <= INVERTED => CoarseSolver::Inverse,
            CoarseSolver::Auto => CoarseSolver::Cholesky,
            asked => asked,
        }
    }

    fn precision(&self) -> Precision {
        match self.options.choice(opt::PRECISION) {
            Precision::Auto | Precision::F32 if self.preconditioner == Preconditioner::Multigrid => Precision::F32,
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
            reason: self.reason,
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

fn choose_coarsening(cells: Cells, options: &Options, survey: &Survey) -> (Coarsening, AutoReason) {
    match options.choice(opt::COARSENING) {
        Coarsening::Auto => {
            let flat = (0..3).any(|d| cells.size()[d] > 1 && !survey.coarsened[d]);
            if flat { (Coarsening::Cell, AutoReason::Anisotropic) } else { (Coarsening::Vertex, AutoReason::Plain) }
        }
        asked => (asked, AutoReason::Asked),
    }
}

/// Whether components of strong couplings are worth a vector each beside multigrid, and why.
fn worth_deflating(survey: &Survey, coarsening: Coarsening, labelled: bool) -> (bool, AutoReason) {
    if labelled {
        return (true, AutoReason::Asked);
    }
    if !(2..=MANY).contains(&survey.strong) {
        return (false, AutoReason::Plain);
    }
    if survey.contrast <= FAR_APART {
        return (true, AutoReason::Contrast);
    }
    if survey.thinnest < THIN {
        return (true, AutoReason::Thin);
    }
    (coarsening == Coarsening::Cell, AutoReason::Plain)
}

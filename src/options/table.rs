//! The one table of options and results: the header, the Fortran constants, the text names and the
//! documentation are made from it.
//!
//! Numbers are explicit and append-only, in blocks of 100: common options 100, `rrb` options 200, `smoother` options
//! 300, `dpcg` options 400, `sparse` options 500, common results 1000, `rrb` results 1100, `smoother` results 1200,
//! `dpcg` results 1300, `sparse` results 1400.

use super::choices::{
    AutoReason, Backend, BlockSolver, CoarseSolver, Coarsening, Compensation, Cycle, Deflation, Dominance, FileFormat,
    Format, Fusion, Lumping, Memory, Method, Norm, NullSpace, Ordering, Parallel, Precision, Preconditioner, Reference,
    Remainder, Solver, StopReason, Transfer, Transpose, Triangle, Vector,
};
use crate::error::Error;

/// A family of functions, with handles of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `rrb_`: 2D stencils.
    Rrb,
    /// `smoother_`: block relaxation on 3D patches.
    Smoother,
    /// `dpcg_`: 3D stencils.
    Dpcg,
    /// `sparse_`: general sparse matrices.
    Sparse,
}

/// Families that share options or results.
pub type Families = &'static [Family];
const ALL: Families = &[Family::Rrb, Family::Smoother, Family::Dpcg, Family::Sparse];
/// Those that work on grids.
const GRIDS: Families = &[Family::Rrb, Family::Smoother, Family::Dpcg];
/// Those that solve to a tolerance.
const SOLVERS: Families = &[Family::Rrb, Family::Dpcg, Family::Sparse];
/// Of those, the ones that solve on grids.
const STENCILS: Families = &[Family::Rrb, Family::Dpcg];
/// What two families have beside those.
const DPCG_SPARSE: Families = &[Family::Dpcg, Family::Sparse];
const RRB: Families = &[Family::Rrb];
const SMOOTHER: Families = &[Family::Smoother];
const DPCG: Families = &[Family::Dpcg];
const SPARSE: Families = &[Family::Sparse];

/// Those of `sparse_`: a grid has others.
const SPARSE_PRECONDITIONERS: &[(&str, i64)] = {
    const NAMES: &[(&str, i64)] = Preconditioner::NAMES;
    &[NAMES[0], NAMES[1], NAMES[2], NAMES[3], NAMES[4], NAMES[7], NAMES[8], NAMES[9], NAMES[10]]
};

/// Rows and columns of a block of format bsr at most.
pub const MOST_BLOCK: usize = 32;
/// Rows of a slice of format sell at most.
pub const MOST_SLICE: usize = 256;

impl Family {
    /// As functions begin.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Rrb => "rrb_",
            Self::Smoother => "smoother_",
            Self::Dpcg => "dpcg_",
            Self::Sparse => "sparse_",
        }
    }

    /// What it does instead, where others have a common option or result that it has not.
    fn instead(self) -> &'static str {
        match self {
            Self::Rrb => "it solves on 2D grids to a tolerance",
            Self::Dpcg => "it solves on 3D grids to a tolerance",
            Self::Sparse => "it solves general systems on the host, and tests the 2-norm",
            Self::Smoother => "it solves to no tolerance, but does the sweeps that smoother_apply is told",
        }
    }

    /// The family in whose block of numbers a key lies; none: it is common.
    #[must_use]
    pub fn home(key: i32) -> Option<Self> {
        match key {
            200..300 | 1100..1200 => Some(Self::Rrb),
            300..400 | 1200..1300 => Some(Self::Smoother),
            400..500 | 1300..1400 => Some(Self::Dpcg),
            500..600 | 1400..1500 => Some(Self::Sparse),
            _ => None,
        }
    }

    /// The error about an option or result (`what`) that others have.
    pub(super) fn foreign(self, what: &str, name: &str, key: i32, others: &[Self]) -> Error {
        let reason = match Self::home(key) {
            None => self.instead().to_owned(),
            Some(_) => format!("it is one of {}", prefixes(others)),
        };
        Error::Option(format!("{} has no {what} {name}: {reason}", self.prefix()))
    }
}

fn prefixes(families: &[Family]) -> String {
    families.iter().map(|f| f.prefix()).collect::<Vec<_>>().join(" and ")
}

/// `doc` with the families that it does not hold for, or holds for beside that in whose block the key lies.
fn meaning(key: i32, families: impl Fn(Family) -> bool, doc: &str) -> String {
    let home = Family::home(key);
    let told = |f: &&Family| home.map_or(!families(**f), |home| families(**f) && **f != home);
    let told: Vec<_> = ALL.iter().filter(told).map(|f| f.prefix()).collect();
    match (told.is_empty(), home) {
        (true, _) => doc.to_owned(),
        (false, None) => format!("{doc} (not {})", told.join(", ")),
        (false, Some(_)) => format!("{doc} (also {})", told.join(", ")),
    }
}

/// When a new value acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// At the next `factorize` (`smoother_set_patches`); until then `solve` (`smoother_apply`) answers `RRB_ERR_STATE`.
    Factorize,
    /// The same, and of products at the next one.
    Product,
    /// At once.
    Now,
}

/// Type, default and range of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number.
    Int {
        /// Default.
        default: i64,
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
        /// Must be a multiple of this.
        multiple: i64,
    },
    /// A real number; `open` excludes both ends.
    Real {
        /// Default.
        default: f64,
        /// Lower end.
        min: f64,
        /// Upper end.
        max: f64,
        /// Whether the ends are excluded.
        open: bool,
    },
    /// One of a list of names with their numbers; the first is the default.
    Choice(&'static [(&'static str, i64)]),
    /// Text, in `set_options` only.
    Text {
        /// Default.
        default: &'static str,
        /// What it may be.
        range: &'static str,
    },
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionEntry {
    /// Name in C and Fortran without the prefix `RRB_OPT_`.
    pub constant: &'static str,
    /// Number.
    pub key: i32,
    /// Name in text.
    pub name: &'static str,
    /// When it acts.
    pub effect: Effect,
    /// The families that it serves, with type, default and range of each: those may take other choices.
    pub serves: &'static [(Families, Kind)],
    /// Meaning, one sentence.
    pub doc: &'static str,
}

/// One result.
#[derive(Clone, Copy, Debug)]
pub struct ResultEntry {
    /// Name in C and Fortran without the prefix `RRB_INFO_`.
    pub constant: &'static str,
    /// Number.
    pub key: i32,
    /// Name in text.
    pub name: &'static str,
    /// The families that have it.
    pub families: Families,
    /// Read by `get_real`; else by `get_int`.
    pub real: bool,
    /// Names of the values, where the result is one of a list.
    pub choices: &'static [(&'static str, i64)],
    /// Meaning, one sentence.
    pub doc: &'static str,
}

impl OptionEntry {
    /// What `family` takes, if it has the option.
    #[must_use]
    pub fn kind(&self, family: Family) -> Option<Kind> {
        self.serves.iter().find(|(families, _)| families.contains(&family)).map(|&(_, kind)| kind)
    }

    /// The families that have it.
    pub(super) fn families(&self) -> Vec<Family> {
        self.serves.iter().flat_map(|(families, _)| families.iter().copied()).collect()
    }

    /// Meaning, with the families that do not know it.
    #[must_use]
    pub fn meaning(&self) -> String {
        meaning(self.key, |family| self.kind(family).is_some(), self.doc)
    }
}

impl ResultEntry {
    /// The result `key` of `family`.
    #[must_use]
    pub fn find(family: Family, key: i32) -> Option<&'static Self> {
        RESULTS.iter().find(|r| r.key == key && r.families.contains(&family))
    }

    /// Meaning, with the families that do not know it.
    #[must_use]
    pub fn meaning(&self) -> String {
        meaning(self.key, |family| self.families.contains(&family), self.doc)
    }
}

macro_rules! options {
    ($($constant:ident = $key:literal $name:literal $effect:ident $($families:ident $kind:expr),+; $doc:literal;)*) => {
        /// Keys of the options.
        pub mod opt { $(#[doc = $doc] pub const $constant: i32 = $key;)* }
        /// Every option, in the order of the documentation.
        pub static OPTIONS: &[OptionEntry] = &[$(OptionEntry {
            constant: stringify!($constant), key: $key, name: $name, effect: Effect::$effect,
            serves: &[$(($families, $kind)),+], doc: $doc,
        },)*];
    };
}

macro_rules! results {
    ($($constant:ident = $key:literal $name:literal $families:ident $real:literal $choices:expr, $doc:literal;)*) => {
        /// Keys of the results.
        pub mod info { $(#[doc = $doc] pub const $constant: i32 = $key;)* }
        /// Every result, in the order of the documentation.
        pub static RESULTS: &[ResultEntry] = &[$(ResultEntry {
            constant: stringify!($constant), key: $key, name: $name, families: $families,
            real: $real, choices: $choices, doc: $doc,
        },)*];
    };
}

const fn int(default: i64, min: i64, max: i64) -> Kind {
    Kind::Int { default, min, max, multiple: 1 }
}

const fn real(default: f64, min: f64, max: f64, open: bool) -> Kind {
    Kind::Real { default, min, max, open }
}

const SWITCH_OFF: Kind = int(0, 0, 1);

/// The first `count` of the choices: those that a family has of an option that others have more of.
const fn first(names: &'static [(&'static str, i64)], count: usize) -> Kind {
    Kind::Choice(names.split_at(count).0)
}

options! {
    BACKEND = 100 "backend" Factorize GRIDS Kind::Choice(Backend::NAMES), SPARSE first(Backend::NAMES, 2);
        "where the solver runs; auto: cuda where a device is and the problem is large enough (smoother_: where memory \
         = device), else cpu";
    DEVICE = 101 "device" Factorize GRIDS int(0, 0, 1023); "CUDA ordinal";
    THREADS = 102 "threads" Factorize ALL int(0, 0, 4096);
        "threads of the handle's own team; 0: RRBSOLVER_NUM_THREADS, SLURM_CPUS_PER_TASK, OMP_NUM_THREADS, affinity \
         mask, in that order";
    MEMORY = 103 "memory" Now GRIDS Kind::Choice(Memory::NAMES);
        "where the caller's arrays are; auto asks the driver";
    REL_TOL = 104 "rel_tol" Now SOLVERS real(1e-6, 0.0, 1.0, true);
        "stop when norm(r) <= max(rel_tol * reference, abs_tol)";
    ABS_TOL = 105 "abs_tol" Now SOLVERS real(0.0, 0.0, f64::MAX, false); "see rel_tol; unit of the tested norm";
    MAX_ITER = 106 "max_iter" Now SOLVERS int(1000, 0, 2_147_483_647);
        "iterations at most; 0 only evaluates the residual";
    NORM = 107 "norm" Now STENCILS Kind::Choice(Norm::NAMES);
        "true2: 2-norm of b - A x on the whole grid; preconditioned: sqrt(r' M^-1 r), as in the papers";
    REFERENCE = 108 "reference" Now SOLVERS Kind::Choice(Reference::NAMES);
        "rhs: the same norm of b (projected where singular, reduced to S1 for preconditioned); initial: of r0";
    NULL_SPACE = 109 "null_space" Factorize STENCILS Kind::Choice(NullSpace::NAMES);
        "auto: a connected component is singular iff |row sum| <= 1e-12 * center in all its rows; constant: iff <= \
         1e-6 * center";
    CHECK_INPUT = 110 "check_input" Now ALL int(1, 0, 2);
        "1: refuse NaN and infinity in input arrays, log couplings that point out of the grid once a handle, at \
         factorize; 2: refuse those too (smoother_, sparse_: as 1; entries of a sparse matrix are finite always)";
    CHECK_COMPATIBILITY = 111 "check_compatibility" Now STENCILS SWITCH_OFF;
        "refuse b with |sum b| > 1e-10 ||b||_1 over a singular component instead of projecting it";
    VERBOSITY = 112 "verbosity" Now ALL int(0, 0, 2);
        "0: silent; 1: a line a solve (smoother_: an apply; sparse_: and a factorize); 2: a line an iteration (a \
         sweep)";
    LOG = 113 "log" Now ALL Kind::Text { default: "callback", range: "callback, stderr, or a path" };
        "where lines go: callback, stderr, or the path (without blanks and commas) of a file to append to";

    LEVELS = 200 "levels" Factorize RRB int(0, 0, 4096);
        "number of red eliminations; 0: by size; more than the grid has: all it has";
    COARSE_MEMORY = 201 "coarse_memory" Factorize RRB int(1_073_741_824, 8, i64::MAX);
        "bytes the exact factor of the remainder may take";
    GRIDS = 202 "grids" Factorize RRB int(0, 0, 64);
        "number g of r1/r2/b1/b2 grids; 0: by size; more than g_max: g_max";
    COMPUTE_BLOCK = 203 "compute_block" Factorize RRB Kind::Int { default: 16, min: 8, max: 4096, multiple: 8 };
        "row padding and border of the r1/r2/b1/b2 arrays";
    LUMPING = 204 "lumping" Factorize RRB Kind::Choice(Lumping::NAMES);
        "nodes lumped: m1 red, m2 red and black; the text shorthands m1u, m1m, m2u, m2m set relaxation too (0 or 1)";
    RELAXATION = 205 "relaxation" Factorize RRB real(1.0, 0.0, 1.0, false);
        "omega: the part of a dropped coupling that is added to the diagonal";
    FUSION = 206 "fusion" Factorize STENCILS Kind::Choice(Fusion::NAMES);
        "on: fused stages where the backend has them; off: the unfused textbook steps";
    COMPENSATION = 207 "compensation" Factorize RRB Kind::Choice(Compensation::NAMES);
        "positive off-diagonals moved to the diagonals in M; auto: iff there are any";
    PRECISION = 208 "precision" Factorize RRB Kind::Choice(Precision::NAMES), DPCG_SPARSE first(Precision::NAMES, 3);
        "of the stored preconditioner; mixed: of CG too, on a device: taken as bf16";
    CYCLE = 209 "cycle" Factorize RRB Kind::Choice(Cycle::NAMES);
        "v: the papers' RRB; amli, k: recursive; aggregation: multigrid by aggregation in place of RRB";
    CYCLE_SPACING = 210 "cycle_spacing" Factorize RRB int(0, 0, 64); "recursion every so many levels; 0: chosen";
    CYCLE_STEPS = 211 "cycle_steps" Factorize RRB int(2, 1, 8); "inner iterations of a recursion";
    SWITCH_MEMORY = 213 "switch_memory" Factorize RRB int(-1, -1, i64::MAX);
        "bytes that cycle=auto may take for aggregation, at factorize or in a slow solve; -1: what it needs, 0: never";
    LEADING_DIMENSION = 212 "leading_dimension" Factorize STENCILS int(0, 0, i64::MAX);
        "values from one row of the caller's arrays to the next, at least nx; 0: nx";
    DEVICES = 220 "devices" Factorize RRB Kind::Text { default: "none", range: "none, or ordinals as 0+1+2" };
        "up to eight CUDA ordinals, as 0+1+2: these devices share the rows of large grids, in place of device; none: \
         one device";
    REPRODUCIBLE = 218 "reproducible" Factorize RRB int(1, 0, 1);
        "1: the same bits for any number of ranks; 0: for the same number alone, but a sum takes one value a rank";
    COMM_TIMEOUT = 219 "comm_timeout" Now RRB real(60.0, 0.0, 1e9, false);
        "seconds that a rank waits for the others; 0: for ever";

    METHOD = 300 "method" Now SMOOTHER Kind::Choice(Method::NAMES);
        "which block waits for which";
    OMEGA = 301 "omega" Now SMOOTHER real(0.0, 0.0, 2.0, false);
        "relaxation; 0: the method's own, 1, or 0.8 for block_jacobi";
    STAGGER = 302 "stagger" Now SMOOTHER int(0, 0, 2);
        "1: blocks shifted by floor(b/2) on odd sweeps of an apply (the first is even); 2: on even ones";
    REVERSE = 303 "reverse" Now SMOOTHER SWITCH_OFF; "colours (chaotic: blocks) in reverse order, for post-smoothing";
    BLOCK_SOLVER = 304 "block_solver" Factorize SMOOTHER Kind::Choice(BlockSolver::NAMES);
        "auto: fast_diagonalization where sine transforms diagonalize the blocks without loss of digits, else dense; \
         fast_diagonalization is refused where it loses more than four digits";
    REMAINDER = 305 "remainder" Factorize SMOOTHER Kind::Choice(Remainder::NAMES);
        "blocks cut short by a patch's edge: solved as they are, or moved inwards, where they overlap others";
    PARALLEL = 306 "parallel" Now SMOOTHER Kind::Choice(Parallel::NAMES);
        "what threads share: auto one list of all blocks of all patches; chaotic_gauss_seidel with patch is \
         lexicographic in each patch";
    PATCH_THREADS = 307 "patch_threads" Now SMOOTHER int(0, 0, 4096);
        "groups of threads that share the patches of parallel = nested; 0: chosen";
    TRANSFER = 308 "transfer" Now SMOOTHER Kind::Choice(Transfer::NAMES);
        "order of copies and kernels for patches that live on the host while a device relaxes them";

    PRECONDITIONER = 400 "preconditioner" Factorize DPCG first(Preconditioner::NAMES, 8),
        SPARSE Kind::Choice(SPARSE_PRECONDITIONERS);
        "auto: multigrid, or amg where multigrid misses bubbles (sparse_: of cg ic0, or amg from 100,000 rows on where \
         most off-diagonals are negative; of minres jacobi, else ilu0, jacobi where that has no pivot, none where a \
         row has no diagonal); amg: multigrid by aggregation (sparse_: for cg); neumann: a truncated Neumann series of \
         order; ic0, ric (relaxed): incomplete Cholesky without fill, on the CPU; ssor: of sor_omega; ilu0: \
         incomplete LU without fill; chebyshev: a polynomial in D^-1 A of degree";
    ORDER = 401 "order" Factorize DPCG_SPARSE int(2, 0, 8);
        "terms of the Neumann series beside the first; 0: as jacobi";
    RIC_OMEGA = 402 "ric_omega" Factorize DPCG real(0.97, 0.0, 1.0, false);
        "of ric: the part of dropped fill that is subtracted from the diagonal; 0: ic0, 1: modified";
    DEFLATION = 403 "deflation" Factorize DPCG Kind::Choice(Deflation::NAMES);
        "regions with a deflation vector each: boxes of cells, the caller's regions (else components of strong \
         couplings), or the parts of these in boxes; auto: by the matrix";
    SUBDOMAINS_X = 404 "subdomains_x" Factorize DPCG int(0, 0, 65_535); "boxes in x, at most nx; 0: chosen";
    SUBDOMAINS_Y = 405 "subdomains_y" Factorize DPCG int(0, 0, 65_535); "boxes in y, at most ny; 0: chosen";
    SUBDOMAINS_Z = 406 "subdomains_z" Factorize DPCG int(0, 0, 65_535); "boxes in z, at most nz; 0: chosen";
    KEEP_ALL = 407 "keep_all" Factorize DPCG SWITCH_OFF;
        "1: where singular, all vectors with a shifted coarse matrix; 0: without that of a region of weak couplings";
    COARSE_SOLVER = 408 "coarse_solver" Factorize DPCG Kind::Choice(CoarseSolver::NAMES);
        "of the coarse matrix; auto: inverse up to 1024 vectors, on a device up to 4096, else cholesky; cg: inner CG, \
         on the CPU";
    COARSE_TOL = 409 "coarse_tol" Factorize DPCG real(1e-10, 0.0, 1.0, true); "relative, of coarse_solver = cg";
    COARSENING = 410 "coarsening" Factorize DPCG Kind::Choice(Coarsening::NAMES);
        "of multigrid; vertex: every second cell, operator-dependent transfer, Galerkin; cell: pairs of cells, \
         constant transfer, down to 64 cells at most, as published; auto: cell where couplings of a direction are \
         weak, down to 1000 cells at most, else vertex";
    SWEEPS = 411 "sweeps" Factorize DPCG int(0, 0, 2); "of multigrid before and after a coarse grid; 0: chosen";
    DILATION = 412 "dilation" Factorize DPCG int(-1, -1, 1);
        "layers of cells by which regions of levelset grow; -1: 1 for the caller's, 0 for those found";
    LEADING_PLANE = 413 "leading_plane" Factorize DPCG int(0, 0, i64::MAX);
        "values from one plane of the caller's arrays to the next, at least ny * leading_dimension; 0: that many";

    SOLVER = 500 "solver" Factorize SPARSE Kind::Choice(Solver::NAMES);
        "the method; auto: jacobi of a diagonal, cg where symmetric with a positive diagonal (minres where that breaks \
         down), minres where symmetric, else idr; the text shorthands jcbi, gs, gssor are jacobi, gauss_seidel, sor";
    FORMAT = 502 "format" Product SPARSE Kind::Choice(Format::NAMES);
        "how the matrix is stored for products; auto: the one of diagonal, dia, bsr, sell and csr that moves the \
         fewest bytes";
    ORDERING = 503 "ordering" Factorize SPARSE Kind::Choice(Ordering::NAMES);
        "of the rows in a sweep of gauss_seidel and sor: as they are, by colours (of A + A', first fit), in blocks \
         that take old values of the others, or forward and back";
    SOR_OMEGA = 504 "sor_omega" Factorize SPARSE real(0.0, 0.0, 2.0, false);
        "relaxation of jacobi, sor and ssor, below 2; 0: the method's own, 1 (sor: 1.25)";
    BLOCKS = 505 "blocks" Factorize SPARSE int(0, 0, 2_147_483_647); "blocks of ordering = blocks; 0: 16";
    BLOCK_SIZE = 506 "block_size" Product SPARSE int(0, 0, MOST_BLOCK as i64);
        "rows and columns of a block of bsr; 0: those of 2 to 6 and 8 that take the fewest bytes";
    SLICE = 507 "slice" Product SPARSE int(0, 0, MOST_SLICE as i64); "rows of a slice of sell (C); 0: 8";
    SIGMA = 508 "sigma" Product SPARSE int(0, 0, 2_147_483_647);
        "rows of sell that are sorted by length together; 0: 256 where that saves bytes, else 1, unsorted";
    RESTART = 509 "restart" Now SPARSE int(30, 1, 1000); "vectors of gmres between restarts";
    SHADOW = 510 "shadow" Now SPARSE int(4, 1, 64); "dimension s of the shadow space of idr";
    SHIFT = 511 "shift" Factorize SPARSE real(-1.0, -1.0, f64::MAX, false);
        "s of ic0, which factorizes A + s diag(A); below 0: 0, or where a pivot is not positive the first of 1e-3, \
         2e-3, 4e-3, .. without one";
    DEGREE = 513 "degree" Factorize SPARSE int(4, 1, 16); "of the polynomial of chebyshev";
    TRANSPOSE = 514 "transpose" Factorize SPARSE Kind::Choice(Transpose::NAMES);
        "how bicg multiplies with A': by a copy, or without one; auto: by a copy unless that is above format_memory";
    DIVERGENCE_LIMIT = 515 "divergence_limit" Now SPARSE real(0.0, 0.0, f64::MAX, false);
        "a residual above this times its reference, or the first one where that is larger, ends a solve; 0: 1e10, or \
         1e100 of jacobi, gauss_seidel and sor";
    FORMAT_MEMORY = 516 "format_memory" Product SPARSE int(17_179_869_184, 0, i64::MAX);
        "bytes that the arrays of a format other than csr may take";
}

results! {
    ITERATIONS = 1000 "iterations" ALL false &[],
        "iterations of the last solve (smoother_: sweeps of the last apply)";
    STOP_REASON = 1001 "stop_reason" ALL false StopReason::NAMES,
        "why the last solve ended; smoother_: monitor where a callback stopped the last apply, else none";
    INITIAL_RESIDUAL = 1002 "initial_residual" ALL true &[],
        "relative, in the tested norm, of the guess; smoother_: 1, known where the last apply had a monitor, else \
         refused";
    FINAL_RESIDUAL = 1003 "final_residual" ALL true &[],
        "relative, in the tested norm, of x; recomputed as b - A x when a solve ends, other than by a guess that \
         stays; smoother_: as the monitor was told last, refused where the last apply had none";
    SECONDS_SETUP = 1004 "seconds_setup" ALL true &[],
        "wall time of the last factorize (smoother_: set_patches; sparse_: or making of a format by a product)";
    SECONDS_SOLVE = 1005 "seconds_solve" ALL true &[], "wall time of the last solve (smoother_: apply)";
    SECONDS_TRANSFER = 1006 "seconds_transfer" GRIDS true &[], "of that, copies between host and device";
    BYTES_HOST = 1007 "bytes_host" ALL false &[], "host memory of the handle";
    BYTES_DEVICE = 1008 "bytes_device" GRIDS false &[], "device memory of the handle";
    LAMBDA_MIN = 1009 "lambda_min" SOLVERS true &[],
        "smallest eigenvalue of M^-1 A seen by the last solve (Lanczos); 0 before two iterations, and but for cg";
    LAMBDA_MAX = 1010 "lambda_max" SOLVERS true &[],
        "largest eigenvalue of M^-1 A seen by the last solve; 0 before two iterations, and but for cg";
    BACKEND = 1011 "backend" ALL false Backend::NAMES, "the one in use";
    DEVICE = 1012 "device" GRIDS false &[], "CUDA ordinal in use, -1: none";
    THREADS = 1013 "threads" ALL false &[], "threads in use";
    CUDA_KERNELS = 1014 "cuda_kernels" GRIDS false &[],
        "1: this build of the library has CUDA kernels; 0: it was built with RRBSOLVER_CUDA=off";

    LEVELS = 1100 "levels" RRB false &[], "red eliminations in use; with cycle=aggregation its coarse levels";
    PRECISION = 1101 "precision" SOLVERS false Precision::NAMES, "the one in use";
    CYCLE = 1102 "cycle" RRB false Cycle::NAMES, "the one in use; with k, and aggregation on the CPU, M changes with r";
    COMPONENTS = 1103 "components" STENCILS false &[], "connected components of two nodes or more";
    SINGULAR_COMPONENTS = 1104 "singular_components" STENCILS false &[], "of those, singular ones";
    COMPENSATED_COUPLINGS = 1105 "compensated_couplings" RRB false &[],
        "positive couplings moved to the diagonals of M";
    GRIDS = 1106 "grids" RRB false &[], "r1/r2/b1/b2 grids in use";
    AGGREGATES_KEPT = 1108 "aggregates_kept" SOLVERS false &[],
        "of cycle=aggregation or amg: aggregates of all levels that the last factorize kept; 0: they are new";
    MESSAGES_SENT = 1110 "messages_sent" RRB false &[],
        "messages that this rank has sent in the last call, a collective one counted once";
    BYTES_SENT = 1111 "bytes_sent" RRB false &[], "bytes of these messages";
    BLOCK_SOLVER = 1200 "block_solver" SMOOTHER false BlockSolver::NAMES, "the one in use";
    BLOCK_INVERSES = 1201 "block_inverses" SMOOTHER false &[], "different blocks whose inverses are held";
    GHOST_COPIES = 1202 "ghost_copies" SMOOTHER false &[], "boxes of ghost cells copied between patches before a sweep";
    CELLS = 1203 "cells" SMOOTHER false &[], "cells of all patches";
    PRECONDITIONER = 1300 "preconditioner" DPCG_SPARSE false Preconditioner::NAMES, "the one in use";
    AUTO_REASON = 1301 "auto_reason" DPCG false AutoReason::NAMES,
        "why auto took what is in use, the first that holds; crowded: more components of strong couplings than \
         multigrid sees and deflation takes, or some hidden by flat cells, amg; anisotropic: couplings of a direction \
         are weak, coarsening is cell; labels: of the caller, deflated; contrast: couplings of one direction are too \
         far apart; thin: a component of strong couplings is a few cells across; plain: nothing of these; asked: \
         preconditioner, coarsening and deflation were given";
    DEFLATION = 1302 "deflation" DPCG false Deflation::NAMES, "the one in use";
    COARSENING = 1303 "coarsening" DPCG false Coarsening::NAMES, "the one in use; auto: no multigrid is";
    COARSE_SOLVER = 1304 "coarse_solver" DPCG false CoarseSolver::NAMES, "the one in use; auto: nothing is deflated";
    DEFLATION_VECTORS = 1305 "deflation_vectors" DPCG false &[], "deflation vectors in use";
    REGIONS = 1306 "regions" DPCG false &[], "regions found, before those without a vector are left out";
    STRONG_COMPONENTS = 1307 "strong_components" DPCG false &[],
        "components of two cells or more that are joined by strong couplings";
    NEUMANN_ROW_SUM = 1308 "neumann_row_sum" DPCG true &[],
        "of neumann: largest row sum of |L D^-1|; below 1 the series converges whatever its order";
    SECONDS_DEFLATION = 1309 "seconds_deflation" DPCG true &[],
        "of the last factorize: regions, coarse matrix and its factor";
    SECONDS_COARSE = 1310 "seconds_coarse" DPCG true &[], "of the last solve: systems with the coarse matrix";
    SECONDS_ITERATIONS = 1311 "seconds_iterations" DPCG true &[], "of the last solve: iterations of CG";
    ROWS = 1400 "rows" SPARSE false &[], "rows of the matrix";
    COLS = 1401 "cols" SPARSE false &[], "columns of the matrix";
    NONZEROS = 1402 "nonzeros" SPARSE false &[], "entries of the matrix, given zeros too";
    STORED = 1403 "stored" SPARSE false &[], "values of the format in use, padding too; 0 before the first product";
    FORMAT = 1404 "format" SPARSE false Format::NAMES, "the one in use; auto: no product yet";
    SOLVER = 1405 "solver" SPARSE false Solver::NAMES,
        "the method in use, after a solve that of its end; auto: no factorize yet";
    SYMMETRIC = 1407 "symmetric" SPARSE false &[],
        "1: |a_ij - a_ji| <= 1e-12 sqrt(|a_ii a_jj|), or 1e-12 of the largest of row i where that is 0; 0: not so";
    DOMINANCE = 1408 "dominance" SPARSE false Dominance::NAMES,
        "of the diagonal over the other entries of a row";
    ZERO_DIAGONALS = 1409 "zero_diagonals" SPARSE false &[], "rows with a zero or no entry on the diagonal";
    EMPTY_ROWS = 1410 "empty_rows" SPARSE false &[], "rows without entries";
    DUPLICATES = 1411 "duplicates" SPARSE false &[], "entries given at a place that had one, which were added";
    COLOURS = 1412 "colours" SPARSE false &[], "colours of ordering = multicolour";
    SWEEP_LEVELS = 1413 "sweep_levels" SPARSE false &[],
        "levels of pieces of rows that do not wait for each other, in a sweep or a triangular solve; 1 by one thread";
    SHIFT = 1414 "shift" SPARSE true &[], "of ic0 in use";
    BYTES_PER_NONZERO = 1415 "bytes_per_nonzero" SPARSE true &[],
        "of the format in use, with x and y, which a product moves; 0 before the first product";
    LONGEST_ROW = 1416 "longest_row" SPARSE false &[], "entries of the longest row";
    FILE_RHS = 1417 "file_rhs" SPARSE false &[], "right-hand sides of the file that was read";
    TRIANGLE = 1418 "triangle" SPARSE false Triangle::NAMES,
        "where the matrix has entries beside the diagonal: lower or upper alone may be half of a symmetric one, of \
         which both halves are to be given";
}

/// An argument of a function that is one of a list of names.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentEntry {
    /// As its constants begin in C and Fortran, after `RRB_`.
    pub prefix: &'static str,
    /// Names and numbers.
    pub choices: &'static [(&'static str, i64)],
    /// Which argument of which function.
    pub doc: &'static str,
}

/// Every such argument.
pub static ARGUMENTS: &[ArgumentEntry] = &[
    ArgumentEntry { prefix: "VECTOR", choices: Vector::NAMES, doc: "which of sparse_get_vector" },
    ArgumentEntry { prefix: "FILE", choices: FileFormat::NAMES, doc: "file_format of sparse_write" },
];

pub(super) fn choice_list(names: &[(&str, i64)]) -> String {
    let all: Vec<&str> = names.iter().map(|&(n, _)| n).collect();
    format!("one of {}", all.join(", "))
}

/// The allowed range in words, as it stands in error sentences and in the documentation.
#[must_use]
pub fn allowed_range(kind: &Kind) -> String {
    match *kind {
        Kind::Int { min, max, multiple, .. } => {
            let multiple = if multiple > 1 { format!("a multiple of {multiple} ") } else { String::new() };
            if max == i64::MAX { format!("{multiple}>= {min}") } else { format!("{multiple}in [{min}, {max}]") }
        }
        Kind::Real { min, max, open, .. } => match (open, max == f64::MAX) {
            (true, _) => format!("in ({min}, {max})"),
            (false, true) => format!(">= {min} and finite"),
            (false, false) => format!("in [{min}, {max}]"),
        },
        Kind::Choice(names) => choice_list(names),
        Kind::Text { range, .. } => range.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An option that two families have, each with a range of its own.
    #[test]
    fn an_option_of_two_families_names_both() {
        const STEPS: OptionEntry = OptionEntry {
            constant: "STEPS",
            key: 250,
            name: "steps",
            effect: Effect::Now,
            serves: &[(RRB, SWITCH_OFF), (SMOOTHER, int(1, 0, 2))],
            doc: "steps",
        };
        assert_eq!(STEPS.families(), [Family::Rrb, Family::Smoother]);
        assert_eq!(STEPS.kind(Family::Rrb), Some(SWITCH_OFF));
        assert_eq!(STEPS.kind(Family::Smoother), Some(int(1, 0, 2)));
        assert_eq!(STEPS.meaning(), "steps (also smoother_)");
        let error = Family::Smoother.foreign("option", STEPS.name, STEPS.key, &STEPS.families());
        assert_eq!(error.to_string(), "smoother_ has no option steps: it is one of rrb_ and smoother_");
    }

    /// Why a family has no such common option is said of that family.
    #[test]
    fn each_family_has_its_own_reason() {
        let said = |family: Family| family.foreign("option", "steps", 150, &[]).to_string();
        assert_eq!(
            said(Family::Smoother),
            "smoother_ has no option steps: it solves to no tolerance, but does the sweeps that smoother_apply is told"
        );
        assert_eq!(said(Family::Rrb), "rrb_ has no option steps: it solves on 2D grids to a tolerance");
        assert_eq!(said(Family::Dpcg), "dpcg_ has no option steps: it solves on 3D grids to a tolerance");
    }
}

//! Table of all options and results. The header, the Fortran constants, the names in option strings and the
//! documentation are generated from this table.
//!
//! Numbers are explicit and append-only, in blocks of 100:
//! - options: common 100, `rrb` 200, `smoother` 300, `dpcg` 400, `sparse` 500;
//! - results: common 1000, `rrb` 1100, `smoother` 1200, `dpcg` 1300, `sparse` 1400.

use super::choices::{
    AutoReason, Backend, BlockSolver, CoarseSolver, Coarsening, Compensation, Cycle, Deflation, Dominance, FileFormat,
    Format, Fusion, Lumping, Memory, Method, Norm, NullSpace, Ordering, Parallel, Precision, Preconditioner, Reference,
    Remainder, Solver, StopReason, Transfer, Transpose, Triangle, Vector,
};
use crate::error::{ERROR_MESSAGE_NAME, Error, Joined, formatted};

/// A family of functions with its own handle type.
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

/// Families that share an option or a result.
pub type Families = &'static [Family];
const ALL_FAMILIES: Families = &[Family::Rrb, Family::Smoother, Family::Dpcg, Family::Sparse];
/// Families that work on grids.
const GRID_FAMILIES: Families = &[Family::Rrb, Family::Smoother, Family::Dpcg];
/// Families that solve to a tolerance.
const SOLVER_FAMILIES: Families = &[Family::Rrb, Family::Dpcg, Family::Sparse];
/// Families that solve to a tolerance on grids.
const STENCIL_FAMILIES: Families = &[Family::Rrb, Family::Dpcg];
/// Families with the option `preconditioner`.
const DPCG_SPARSE: Families = &[Family::Dpcg, Family::Sparse];
const RRB: Families = &[Family::Rrb];
const SMOOTHER: Families = &[Family::Smoother];
const DPCG: Families = &[Family::Dpcg];
const SPARSE: Families = &[Family::Sparse];

/// Preconditioners of `sparse_`: all but ric and multigrid, which need a grid.
const SPARSE_PRECONDITIONERS: &[(&str, i64)] = {
    const NAMES: &[(&str, i64)] = Preconditioner::NAMES;
    &[NAMES[0], NAMES[1], NAMES[2], NAMES[3], NAMES[4], NAMES[7], NAMES[8], NAMES[9], NAMES[10]]
};

/// `precision` of `sparse_`.
const SPARSE_PRECISIONS: &[(&str, i64)] = {
    const NAMES: &[(&str, i64)] = Precision::NAMES;
    &[NAMES[0], NAMES[1], NAMES[2], NAMES[5]]
};

/// Largest number of rows and columns of a block of format bsr.
pub const MAX_BLOCK_ROWS: usize = 32;
/// Largest number of rows of a slice of format sell.
pub const MAX_SLICE_ROWS: usize = 256;

impl Family {
    /// Returns the prefix of the functions of this family.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Rrb => "rrb_",
            Self::Smoother => "smoother_",
            Self::Dpcg => "dpcg_",
            Self::Sparse => "sparse_",
        }
    }

    /// Returns the name of the family in log lines.
    pub fn name(self) -> &'static str {
        self.prefix().trim_end_matches('_')
    }

    /// Returns the name, without prefix, of the setup function, at which most options take effect.
    pub fn setup(self) -> &'static str {
        if self == Self::Smoother { "set_patches" } else { "factorize" }
    }

    /// Returns the name of the step after which a monitor is called.
    pub fn step(self) -> &'static str {
        if self == Self::Smoother { "sweep" } else { "iteration" }
    }

    /// Returns a clause that states what the family does. The error message about a common option or result that the
    /// family lacks ends with this clause.
    fn purpose(self) -> &'static str {
        match self {
            Self::Rrb => "it solves 2D grid systems to a tolerance",
            Self::Dpcg => "it solves 3D grid systems to a tolerance",
            Self::Sparse => "it solves general systems and tests the 2-norm",
            Self::Smoother => "smoother_apply runs a given number of sweeps and tests no tolerance",
        }
    }

    /// Returns the family to whose block of numbers a key belongs; none for a common key.
    #[must_use]
    pub fn of_key(key: i32) -> Option<Self> {
        match key {
            200..300 | 1100..1200 => Some(Self::Rrb),
            300..400 | 1200..1300 => Some(Self::Smoother),
            400..500 | 1300..1400 => Some(Self::Dpcg),
            500..600 | 1400..1500 => Some(Self::Sparse),
            _ => None,
        }
    }

    /// Returns the error about an entry that this family lacks and `other_families` have. `entry_kind` is "option" or
    /// "result".
    pub(super) fn error_of_foreign_key(
        self,
        entry_kind: &str,
        name: &str,
        key: i32,
        other_families: impl Iterator<Item = Self> + Clone,
    ) -> Error {
        let start = format_args!("{} has no {entry_kind} {name}", self.prefix());
        let message = match Self::of_key(key) {
            None => formatted(format_args!("{start}: {}", self.purpose()), ERROR_MESSAGE_NAME),
            Some(_) => {
                let other_families = Joined(" and ", other_families.map(Self::prefix));
                formatted(format_args!("{start}: it belongs to {other_families}"), ERROR_MESSAGE_NAME)
            }
        };
        message.map_or_else(|error| error, Error::Option)
    }
}

/// Returns `doc` with a note on the families that have or lack the entry. For a common key, the note names the families
/// that lack the entry. For a key in the number block of one family, the note names the other families that also have
/// the entry.
fn describe(key: i32, entry_kind: &str, families: impl Fn(Family) -> bool, doc: &str) -> String {
    let own_family = Family::of_key(key);
    let other_families =
        |f: &&Family| own_family.map_or(!families(**f), |own_family| families(**f) && **f != own_family);
    let other_families: Vec<_> = ALL_FAMILIES.iter().filter(other_families).map(|f| f.prefix()).collect();
    let family_list = other_families.join(" and ");
    let availability = if own_family.is_none() { "not" } else { "also" };
    match (other_families.is_empty(), doc.ends_with('.')) {
        (true, _) => doc.to_owned(),
        (false, false) => format!("{doc} ({availability} in {family_list})"),
        (false, true) => format!("{doc} This {entry_kind} is {availability} available in {family_list}."),
    }
}

/// When a new value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// At the next `factorize` (`smoother_set_patches`). Until then, `solve` (`smoother_apply`) returns
    /// `RRB_ERR_STATE`.
    Factorize,
    /// As `Factorize`, except that products use the new value at their next call.
    Product,
    /// Immediately.
    Now,
}

/// Type, default and range of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// An integer.
    Int {
        /// Default value.
        default: i64,
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
        /// The value must be a multiple of this number.
        multiple: i64,
    },
    /// A real number.
    Real {
        /// Default value.
        default: f64,
        /// Lower bound.
        min: f64,
        /// Upper bound.
        max: f64,
        /// Whether the bounds themselves are excluded.
        excludes_bounds: bool,
    },
    /// A choice from a list of names and numbers; the first is the default.
    Choice(&'static [(&'static str, i64)]),
    /// Text, which only `set_options` can set.
    Text {
        /// Default value.
        default: &'static str,
        /// Allowed values, in words.
        range: &'static str,
    },
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionEntry {
    /// Name in C and Fortran without the prefix `RRB_OPT_`.
    pub constant: &'static str,
    /// Key in C and Fortran.
    pub key: i32,
    /// Name in option strings.
    pub name: &'static str,
    /// When a new value takes effect.
    pub effect: Effect,
    /// Families that have the option, each with its type, default and range.
    pub kinds_by_family: &'static [(Families, Kind)],
    /// Meaning: either one noun phrase without a period, in lower case, or a capitalized noun phrase and sentences,
    /// each with a period.
    pub doc: &'static str,
}

/// One result.
#[derive(Clone, Copy, Debug)]
pub struct ResultEntry {
    /// Name in C and Fortran without the prefix `RRB_INFO_`.
    pub constant: &'static str,
    /// Key in C and Fortran.
    pub key: i32,
    /// Name in the documentation.
    pub name: &'static str,
    /// Families that have the result.
    pub families: Families,
    /// Whether `get_real` reads the result; otherwise `get_int` reads it.
    pub is_real: bool,
    /// Names of the values, if the result is a choice from a list.
    pub choices: &'static [(&'static str, i64)],
    /// Meaning: either one noun phrase without a period, in lower case, or a capitalized noun phrase and sentences,
    /// each with a period.
    pub doc: &'static str,
}

impl OptionEntry {
    /// Returns type, default and range for `family`; none if the family lacks the option.
    #[must_use]
    pub fn kind(&self, family: Family) -> Option<Kind> {
        self.kinds_by_family.iter().find(|(families, _)| families.contains(&family)).map(|&(_, kind)| kind)
    }

    /// Returns the families that have the option.
    pub(super) fn families(&self) -> impl Iterator<Item = Family> + Clone {
        self.kinds_by_family.iter().flat_map(|(families, _)| families.iter().copied())
    }

    /// Returns `doc` with a note on the families; see `describe`.
    #[must_use]
    pub fn description(&self) -> String {
        describe(self.key, "option", |family| self.kind(family).is_some(), self.doc)
    }
}

impl ResultEntry {
    /// Finds the result `key` of `family`.
    #[must_use]
    pub fn find(family: Family, key: i32) -> Option<&'static Self> {
        RESULTS.iter().find(|r| r.key == key && r.families.contains(&family))
    }

    /// Returns `doc` with a note on the families; see `describe`.
    #[must_use]
    pub fn description(&self) -> String {
        describe(self.key, "result", |family| self.families.contains(&family), self.doc)
    }
}

macro_rules! options {
    ($($constant:ident = $key:literal $name:literal $effect:ident $($families:ident $kind:expr),+; $doc:literal;)*) => {
        /// Keys of the options.
        pub mod opt { $(#[doc = $doc] pub const $constant: i32 = $key;)* }
        /// Every option, in the order of the documentation.
        pub static OPTIONS: &[OptionEntry] = &[$(OptionEntry {
            constant: stringify!($constant), key: $key, name: $name, effect: Effect::$effect,
            kinds_by_family: &[$(($families, $kind)),+], doc: $doc,
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
            is_real: $real, choices: $choices, doc: $doc,
        },)*];
    };
}

const fn int(default: i64, min: i64, max: i64) -> Kind {
    Kind::Int { default, min, max, multiple: 1 }
}

const fn real(default: f64, min: f64, max: f64, excludes_bounds: bool) -> Kind {
    Kind::Real { default, min, max, excludes_bounds }
}

const OFF_BY_DEFAULT: Kind = int(0, 0, 1);

/// Returns the `Kind` of an option that has only the first `count` choices of `names`.
const fn first_choices(names: &'static [(&'static str, i64)], count: usize) -> Kind {
    Kind::Choice(names.split_at(count).0)
}

options! {
    BACKEND = 100 "backend" Factorize GRID_FAMILIES Kind::Choice(Backend::NAMES),
        SPARSE first_choices(Backend::NAMES, 3);
        "Backend that runs the solver. `cpu` runs on the CPU, and `cuda` runs on a CUDA device. `reference` is a \
         simple backend for tests, which runs on the CPU with one thread. For `auto`, see the rules of `auto`.";
    DEVICE = 101 "device" Factorize ALL_FAMILIES int(0, 0, 1023); "ordinal of the CUDA device that the handle uses";
    THREADS = 102 "threads" Factorize ALL_FAMILIES int(0, 0, 4096);
        "Number of threads. With 0, the library reads the environment variables RRBSOLVER_NUM_THREADS, \
         SLURM_CPUS_PER_TASK and OMP_NUM_THREADS in this order. The first variable that is set to a positive number \
         determines the number of threads. If there is no such variable, the library uses one thread per core in the \
         affinity mask of the process.";
    MEMORY = 103 "memory" Now ALL_FAMILIES Kind::Choice(Memory::NAMES);
        "Memory space of the caller's arrays. With `auto`, the library queries the CUDA driver for the memory space \
         of each array.";
    REL_TOL = 104 "rel_tol" Now SOLVER_FAMILIES real(1e-6, 0.0, 1.0, true);
        "Relative tolerance. A solve has converged when norm(b - A x) <= max(rel_tol * R, abs_tol), where R is the \
         norm that the option `reference` selects.";
    ABS_TOL = 105 "abs_tol" Now SOLVER_FAMILIES real(0.0, 0.0, f64::MAX, false);
        "absolute tolerance of the stopping test, in the unit of the residual norm (see `rel_tol`)";
    MAX_ITER = 106 "max_iter" Now SOLVER_FAMILIES int(1000, 0, 2_147_483_647);
        "Largest number of iterations per solve. With 0, a solve only computes the residual of the initial guess.";
    NORM = 107 "norm" Now STENCIL_FAMILIES Kind::Choice(Norm::NAMES);
        "Norm of the stopping test. `true2` is the 2-norm of the residual r = b - A x. `preconditioned` is sqrt(r' \
         M^-1 r). For each singular component, this norm subtracts the mean m of r from r and adds the sum of m^2 / \
         center under the root. With deflation, `preconditioned` uses the deflated residual and subtracts no mean.";
    REFERENCE = 108 "reference" Now SOLVER_FAMILIES Kind::Choice(Reference::NAMES);
        "Norm by which residual norms are divided to obtain relative residuals. `rhs` selects the norm of b. In rrb_ \
         and dpcg_, the means of b over singular components are first subtracted from b. If CG runs on the first \
         Schur complement S1, `norm=preconditioned` also reduces b to S1. `initial` selects the norm of the initial \
         residual.";
    NULL_SPACE = 109 "null_space" Factorize STENCIL_FAMILIES Kind::Choice(NullSpace::NAMES);
        "Connected components that are treated as singular. With `auto`, these are the components with |row sum| <= \
         1e-12 * center in every row. With `none`, no component is treated as singular. With `constant`, all \
         components are treated as singular and must have |row sum| <= 1e-6 * center.";
    CHECK_INPUT = 110 "check_input" Now ALL_FAMILIES int(1, 0, 2);
        "Checks of input arrays. With 0, input arrays are not checked. With 1, NaN and infinity are errors, and \
         nonzero couplings to nodes outside the grid are logged once per handle. With 2, these couplings are also \
         errors. In smoother_ and sparse_, 2 has the effect of 1. For any value, sparse_ checks the matrix entries.";
    CHECK_COMPATIBILITY = 111 "check_compatibility" Now STENCIL_FAMILIES OFF_BY_DEFAULT;
        "Check of b on each singular component, before the mean of b is subtracted. With 0, b is not checked. With 1, \
         |sum b| > 1e-10 ||b||_1 is an error.";
    VERBOSITY = 112 "verbosity" Now ALL_FAMILIES int(0, 0, 2);
        "Log lines that the library writes. 0 selects only warnings. 1 adds one line per solve (in smoother_, per \
         apply). In sparse_, 1 also adds one line per factorize. 2 adds one line per iteration (in smoother_, per \
         sweep).";
    LOG = 113 "log" Now ALL_FAMILIES Kind::Text { default: "callback", range: "callback, stderr, or a path" };
        "Destination of log lines: `callback` (see rrbsolver_set_log), `stderr`, or the path of a file. The library \
         appends lines to this file. The path must not contain blanks or commas.";

    LEVELS = 200 "levels" Factorize RRB int(0, 0, 4096);
        "Number of elimination levels. With 0, the number depends on the grid size. Values above the maximum are \
         reduced to the maximum.";
    COARSE_MEMORY = 201 "coarse_memory" Factorize RRB int(1_073_741_824, 8, i64::MAX);
        "memory limit, in bytes, for the exact factor of the coarsest system";
    GRIDS = 202 "grids" Factorize RRB int(0, 0, 64);
        "Number of grids that are stored by colour in the arrays r1, r2, b1 and b2. With 0, the number depends on the \
         grid size. Values above the maximum are reduced to the maximum.";
    COMPUTE_BLOCK = 203 "compute_block" Factorize RRB Kind::Int { default: 16, min: 8, max: 4096, multiple: 8 };
        "row padding and border width of the arrays r1, r2, b1 and b2, in values";
    LUMPING = 204 "lumping" Factorize RRB Kind::Choice(Lumping::NAMES);
        "Nodes whose dropped couplings are lumped into the diagonal. `m1` selects the red nodes, and `m2` selects the \
         red and black nodes. In the text of rrb_set_options, `m1u` and `m2u` also set `relaxation=0`, and `m1m` and \
         `m2m` also set `relaxation=1`.";
    RELAXATION = 205 "relaxation" Factorize RRB real(1.0, 0.0, 1.0, false);
        "relaxation factor omega, the fraction of each dropped coupling that is added to the diagonal";
    FUSION = 206 "fusion" Factorize STENCIL_FAMILIES Kind::Choice(Fusion::NAMES);
        "Fusion of the stages of an iteration. With `on`, the stages are fused if the backend supports fusion. With \
         `off`, the solver uses the unfused reference formulation.";
    COMPENSATION = 207 "compensation" Factorize RRB Kind::Choice(Compensation::NAMES);
        "Treatment of positive off-diagonal entries in M. With `always`, these entries are moved to the diagonal. \
         With `never`, these entries are unchanged. For `auto`, see the rules of `auto`.";
    PRECISION = 208 "precision" Factorize RRB first_choices(Precision::NAMES, 5),
        DPCG first_choices(Precision::NAMES, 3), SPARSE Kind::Choice(SPARSE_PRECISIONS);
        "Precision in which the preconditioner is stored. For regular 5-point systems on the CPU, `mixed` selects \
         bf16 for the preconditioner and single precision for CG. For other systems, `mixed` has the effect of \
         `bf16`. In sparse_, `single` stores the matrix and the vectors in f32, too; it requires a device and a \
         `rel_tol` of at least 1e-5. For `auto`, see the rules of `auto`.";
    CYCLE = 209 "cycle" Factorize RRB Kind::Choice(Cycle::NAMES);
        "Cycle of the preconditioner. `v` is the V-cycle of RRB. `amli` and `k` are recursive cycles of RRB. \
         `aggregation` selects multigrid by aggregation instead of RRB. For `auto`, see the rules of `auto`.";
    CYCLE_SPACING = 210 "cycle_spacing" Factorize RRB int(0, 0, 64);
        "Number of levels between the recursions of a recursive cycle. The number must be even; 0 means 4.";
    CYCLE_STEPS = 211 "cycle_steps" Factorize RRB int(2, 1, 8); "number of inner iterations per recursion of a \
                                                                 recursive cycle";
    SWITCH_MEMORY = 213 "switch_memory" Factorize RRB int(-1, -1, i64::MAX);
        "Memory limit, in bytes, for the aggregation cycle. The limit applies if `cycle=auto` selects aggregation at \
         factorize or during a slow solve. -1 means no limit. With 0, `auto` never selects aggregation.";
    LEADING_DIMENSION = 212 "leading_dimension" Factorize STENCIL_FAMILIES int(0, 0, i64::MAX);
        "Distance, in values, between consecutive rows of the caller's arrays. The distance must be at least nx; 0 \
         means nx.";
    DEVICES = 220 "devices" Factorize RRB Kind::Text { default: "none", range: "none, or ordinals such as 0+1+2" };
        "Ordinals of up to eight CUDA devices that share the rows of large grids, such as 0+1+2. With `none`, the \
         solver uses one device, which the option `device` selects.";
    REPRODUCIBLE = 218 "reproducible" Factorize RRB int(1, 0, 1);
        "Reproducibility of results on several ranks. With 1, results are bitwise identical for any number of ranks. \
         With 0, results are bitwise identical only for equal numbers of ranks, but global sums need less \
         communication.";
    COMM_TIMEOUT = 219 "comm_timeout" Now RRB real(60.0, 0.0, 1e9, false);
        "time in seconds for which a rank waits for other ranks; 0 means no limit";

    METHOD = 300 "method" Now SMOOTHER Kind::Choice(Method::NAMES);
        "relaxation method: coloured block Gauss-Seidel, block Jacobi, or chaotic block Gauss-Seidel";
    OMEGA = 301 "omega" Now SMOOTHER real(0.0, 0.0, 2.0, false);
        "relaxation factor; 0 means 0.8 for `block_jacobi` and 1 for the other methods";
    STAGGER = 302 "stagger" Now SMOOTHER int(0, 0, 2);
        "Sweeps of smoother_apply in which the blocks are shifted by floor(b / 2) cells, where b is the block size. 0 \
         selects no sweeps, 1 selects the even sweeps, and 2 selects the odd sweeps. Sweeps are counted from 1.";
    REVERSE = 303 "reverse" Now SMOOTHER OFF_BY_DEFAULT;
        "Order of the colours in a sweep. With 1, a sweep processes the colours in reverse order, for post-smoothing. \
         With 1 and `method=chaotic_gauss_seidel`, a sweep processes the blocks in reverse order.";
    BLOCK_SOLVER = 304 "block_solver" Factorize SMOOTHER Kind::Choice(BlockSolver::NAMES);
        "Solver of the diagonal blocks. `fast_diagonalization` uses sine transforms; set_patches returns an error if \
         the transforms would lose more than four digits. `dense` uses dense inverses. For `auto`, see the rules of \
         `auto`.";
    REMAINDER = 305 "remainder" Factorize SMOOTHER Kind::Choice(Remainder::NAMES);
        "Treatment of blocks that extend beyond the edge of a patch. With `exact`, these blocks are solved as smaller \
         blocks. With `overlap`, these blocks are moved inwards and overlap other blocks.";
    PARALLEL = 306 "parallel" Now SMOOTHER Kind::Choice(Parallel::NAMES);
        "Distribution of the work among the threads. With `auto`, all blocks of all patches are distributed. With \
         `patch`, whole patches are distributed, and `chaotic_gauss_seidel` is lexicographic in each patch. With \
         `block`, the blocks of one patch at a time are distributed. With `nested`, patches are distributed among \
         groups of threads, and the blocks of a patch among the threads of a group.";
    PATCH_THREADS = 307 "patch_threads" Now SMOOTHER int(0, 0, 4096);
        "number of groups of threads with `parallel=nested`; 0 selects the number automatically";
    TRANSFER = 308 "transfer" Now SMOOTHER Kind::Choice(Transfer::NAMES);
        "Order of copies and kernels if a device processes patches that are in host memory. With `depth_first`, the \
         first sweep of a group of patches overlaps the transfer of the next group. With `breadth_first`, all patches \
         are transferred before the first sweep. For `auto`, see the rules of `auto`.";

    PRECONDITIONER = 400 "preconditioner" Factorize DPCG first_choices(Preconditioner::NAMES, 8),
        SPARSE Kind::Choice(SPARSE_PRECONDITIONERS);
        "Preconditioner. `neumann` is a Neumann series with `order` + 1 terms. `ic0` is incomplete Cholesky without \
         fill; in dpcg_, it runs on the CPU only. `ric` is relaxed incomplete Cholesky without fill, which runs on \
         the CPU only. `multigrid` is geometric multigrid. `amg` is multigrid by aggregation; in sparse_, it requires \
         `solver=cg` or `steepest_descent`. `ssor` is symmetric SOR with the relaxation factor `sor_omega`. `ilu0` \
         is incomplete LU without \
         fill. `chebyshev` is a polynomial in D^-1 A; the option `degree` sets its degree. For `auto`, see the rules \
         of `auto`.";
    ORDER = 401 "order" Factorize DPCG_SPARSE int(2, 0, 8);
        "number of terms of the Neumann series after the first term; 0 has the effect of `preconditioner=jacobi`";
    RIC_OMEGA = 402 "ric_omega" Factorize DPCG real(0.97, 0.0, 1.0, false);
        "Fraction of the dropped fill that `ric` subtracts from the diagonal. 0 has the effect of `ic0`. 1 selects \
         modified incomplete Cholesky.";
    DEFLATION = 403 "deflation" Factorize DPCG Kind::Choice(Deflation::NAMES);
        "Deflation regions; each region has one deflation vector. `subdomain` selects boxes of cells. `levelset` \
         selects the caller's regions or, if there are none, the components of strong couplings. `levelset_subdomain` \
         splits the regions of `levelset` by boxes. For `auto`, see the rules of `auto`.";
    SUBDOMAINS_X = 404 "subdomains_x" Factorize DPCG int(0, 0, 65_535);
        "number of deflation boxes in x, at most nx; 0 selects the number automatically";
    SUBDOMAINS_Y = 405 "subdomains_y" Factorize DPCG int(0, 0, 65_535);
        "number of deflation boxes in y, at most ny; 0 selects the number automatically";
    SUBDOMAINS_Z = 406 "subdomains_z" Factorize DPCG int(0, 0, 65_535);
        "number of deflation boxes in z, at most nz; 0 selects the number automatically";
    KEEP_ALL = 407 "keep_all" Factorize DPCG OFF_BY_DEFAULT;
        "Use of the deflation vectors if the system is singular. With 0, the vector of one region of weak couplings \
         is omitted. With 1, all vectors are used, and the coarse matrix is shifted.";
    COARSE_SOLVER = 408 "coarse_solver" Factorize DPCG Kind::Choice(CoarseSolver::NAMES);
        "Solver of systems with the coarse deflation matrix. `inverse` uses the explicit inverse. `cholesky` uses a \
         Cholesky factorization. `cg` uses inner CG iterations and runs on the CPU only. For `auto`, see the rules of \
         `auto`.";
    COARSE_TOL = 409 "coarse_tol" Factorize DPCG real(1e-10, 0.0, 1.0, true);
        "relative tolerance of `coarse_solver=cg`";
    COARSENING = 410 "coarsening" Factorize DPCG Kind::Choice(Coarsening::NAMES);
        "Coarsening of multigrid. `vertex` keeps every second cell; it uses operator-dependent interpolation and \
         Galerkin coarse grids. `cell` joins pairs of cells; it uses constant interpolation and a coarsest grid of at \
         most 64 cells. For `auto`, see the rules of `auto`.";
    SWEEPS = 411 "sweeps" Factorize DPCG int(0, 0, 2);
        "number of multigrid sweeps before and after each coarse-grid correction; 0 selects the number automatically";
    DILATION = 412 "dilation" Factorize DPCG int(-1, -1, 1);
        "Number of layers of cells by which each region of `levelset` is enlarged. -1 means 1 for the caller's \
         regions and 0 for components of strong couplings.";
    LEADING_PLANE = 413 "leading_plane" Factorize DPCG int(0, 0, i64::MAX);
        "Distance, in values, between consecutive planes of the caller's arrays. The distance must be at least ny * \
         leading_dimension; 0 means ny * leading_dimension.";

    SOLVER = 500 "solver" Factorize SPARSE Kind::Choice(Solver::NAMES);
        "Iterative method. In the text of sparse_set_options, `jcbi`, `gs` and `gssor` are other names for `jacobi`, \
         `gauss_seidel` and `sor`. For `auto`, see the rules of `auto`.";
    FORMAT = 502 "format" Product SPARSE Kind::Choice(Format::NAMES);
        "storage format for products; for `auto`, see the rules of `auto`";
    ORDERING = 503 "ordering" Factorize SPARSE Kind::Choice(Ordering::NAMES);
        "Order of the rows in sweeps of `gauss_seidel` and `sor`, and in the preconditioners `ssor`, `ic0` and `ilu0`. \
         With `natural`, the order is ascending. With `multicolour`, the rows are ordered by first-fit colours of A + \
         A'; a preconditioner is then that of the permuted matrix, which has fewer levels of triangular solves, but \
         usually needs more iterations. With `blocks`, the rows are divided into blocks, and each block uses the old \
         values of the other blocks. With `symmetric`, a descending sweep follows each ascending sweep. The last two \
         values affect sweeps only.";
    SOR_OMEGA = 504 "sor_omega" Factorize SPARSE real(0.0, 0.0, 2.0, false);
        "Relaxation factor of `jacobi`, `sor` and `ssor`, which must be below 2. 0 means 1.25 for `sor` and 1 for \
         `jacobi` and `ssor`.";
    BLOCKS = 505 "blocks" Factorize SPARSE int(0, 0, 2_147_483_647);
        "number of blocks with `ordering=blocks`; 0 means 16";
    BLOCK_SIZE = 506 "block_size" Product SPARSE int(0, 0, MAX_BLOCK_ROWS as i64);
        "Number of rows and columns per block of `format=bsr`. With 0, the library tries the numbers 2 to 6 and 8, \
         and uses the number with which the format needs the fewest bytes.";
    SLICE = 507 "slice" Product SPARSE int(0, 0, MAX_SLICE_ROWS as i64);
        "number of rows per slice of `format=sell`, often called C in the literature; 0 means 8, and 32 for products \
         on a device";
    SIGMA = 508 "sigma" Product SPARSE int(0, 0, 2_147_483_647);
        "Number of rows per sorting window of `format=sell`. 0 means 256 if this number saves bytes, otherwise 1 \
         (unsorted). For products on a device, 4096 replaces 256.";
    RESTART = 509 "restart" Now SPARSE int(30, 1, 1000); "number of iterations of `gmres` between restarts";
    SHADOW = 510 "shadow" Now SPARSE int(4, 1, 64); "dimension s of the shadow space of `idr`";
    SHIFT = 511 "shift" Factorize SPARSE real(-1.0, -1.0, f64::MAX, false);
        "Shift s of `ic0`, which factorizes A + s diag(A). With a negative value, `ic0` starts with s = 0 and \
         continues with s = 1e-3, 2e-3, 4e-3, ... until all pivots are positive.";
    DEGREE = 513 "degree" Factorize SPARSE int(4, 1, 16); "degree of the polynomial of `preconditioner=chebyshev`";
    TRANSPOSE = 514 "transpose" Factorize SPARSE Kind::Choice(Transpose::NAMES);
        "Matrix for products of `bicg` with A'. `copy` uses a stored copy of A'. `none` uses A itself; on a device, an \
         unsymmetric A must then have the format `dia` or `diagonal`. For `auto`, see the rules of `auto`.";
    DIVERGENCE_LIMIT = 515 "divergence_limit" Now SPARSE real(0.0, 0.0, f64::MAX, false);
        "Factor of the divergence test. A solve has diverged when its residual norm exceeds this factor times max(R, \
         initial residual norm), where R is the norm that the option `reference` selects. 0 means 1e100 for `jacobi`, \
         `gauss_seidel` and `sor`, and 1e10 for the other methods.";
    FORMAT_MEMORY = 516 "format_memory" Product SPARSE int(17_179_869_184, 0, i64::MAX);
        "memory limit, in bytes, for the arrays of a format other than `csr`";
}

results! {
    ITERATIONS = 1000 "iterations" ALL_FAMILIES false &[],
        "number of iterations of the last solve; in smoother_, number of sweeps of the last smoother_apply";
    STOP_REASON = 1001 "stop_reason" ALL_FAMILIES false StopReason::NAMES,
        "Reason why the last solve stopped. In smoother_, the value is RRB_STOP_REASON_MONITOR if a callback stopped \
         the last smoother_apply, otherwise RRB_STOP_REASON_NONE.";
    INITIAL_RESIDUAL = 1002 "initial_residual" ALL_FAMILIES true &[],
        "Relative residual of the initial guess, in the norm of the stopping test. In smoother_, the value is 1, but \
         it is available only after a smoother_apply with a monitor or with `verbosity=2`.";
    FINAL_RESIDUAL = 1003 "final_residual" ALL_FAMILIES true &[],
        "Relative residual of x in the norm of the stopping test, computed from b - A x at the end of the solve. In \
         smoother_, the value is the relative residual after the last sweep. It is available only after a \
         smoother_apply with a monitor or with `verbosity=2`.";
    SECONDS_SETUP = 1004 "seconds_setup" ALL_FAMILIES true &[],
        "Wall time, in seconds, of the last factorize (in smoother_, of the last smoother_set_patches). In sparse_, a \
         product that converts the matrix to another format also sets this value, to the time of the conversion.";
    SECONDS_SOLVE = 1005 "seconds_solve" ALL_FAMILIES true &[],
        "wall time, in seconds, of the last solve; in smoother_, wall time of the last smoother_apply";
    SECONDS_TRANSFER = 1006 "seconds_transfer" ALL_FAMILIES true &[],
        "Wall time, in seconds, of copies between host and device in the last solve, product or \
         `sparse_set_values`. In a solve, this time is part of `seconds_solve`.";
    BYTES_HOST = 1007 "bytes_host" ALL_FAMILIES false &[], "number of bytes of host memory that the handle uses";
    BYTES_DEVICE = 1008 "bytes_device" ALL_FAMILIES false &[], "number of bytes of device memory that the handle uses";
    LAMBDA_MIN = 1009 "lambda_min" SOLVER_FAMILIES true &[],
        "Smallest eigenvalue of M^-1 A, estimated in the last solve by the Lanczos method. 0 means that there is no \
         estimate. In this case, the method is not `cg`, or fewer than two CG iterations had positive coefficients.";
    LAMBDA_MAX = 1010 "lambda_max" SOLVER_FAMILIES true &[],
        "largest eigenvalue of M^-1 A, estimated by the same method as `lambda_min`";
    BACKEND = 1011 "backend" ALL_FAMILIES false Backend::NAMES, "backend in use";
    DEVICE = 1012 "device" ALL_FAMILIES false &[],
        "ordinal of the CUDA device in use; -1 means that no device is in use";
    THREADS = 1013 "threads" ALL_FAMILIES false &[], "number of threads in use";
    CUDA_KERNELS = 1014 "cuda_kernels" ALL_FAMILIES false &[],
        "1 if the library was built with CUDA kernels; 0 if the library was built with RRBSOLVER_CUDA=off";

    LEVELS = 1100 "levels" RRB false &[],
        "number of elimination levels in use; with `cycle=aggregation`, number of coarse levels";
    PRECISION = 1101 "precision" SOLVER_FAMILIES false Precision::NAMES, "precision in use";
    CYCLE = 1102 "cycle" RRB false Cycle::NAMES,
        "Cycle in use. With `k`, M depends on the residual r. With `aggregation` on the CPU, M depends on r in \
         rrb_solve, but not in rrb_apply.";
    COMPONENTS = 1103 "components" STENCIL_FAMILIES false &[],
        "number of connected components of the matrix that have at least two nodes";
    SINGULAR_COMPONENTS = 1104 "singular_components" STENCIL_FAMILIES false &[],
        "number of singular components of the matrix that have at least two nodes";
    COMPENSATED_COUPLINGS = 1105 "compensated_couplings" RRB false &[], "number of positive couplings that are moved \
                                                                         to the diagonal of M";
    GRIDS = 1106 "grids" RRB false &[], "number of grids that are stored by colour in the arrays r1, r2, b1 and b2";
    AGGREGATES_KEPT = 1108 "aggregates_kept" SOLVER_FAMILIES false &[],
        "Number of aggregates, on all levels, that the last factorize with `cycle=aggregation` or \
         `preconditioner=amg` reused. 0 means that all aggregates are new.";
    MESSAGES_SENT = 1110 "messages_sent" RRB false &[],
        "Number of messages that this rank sent in the last call. A collective operation counts as one message.";
    BYTES_SENT = 1111 "bytes_sent" RRB false &[], "number of bytes in the messages that `messages_sent` counts";
    BLOCK_SOLVER = 1200 "block_solver" SMOOTHER false BlockSolver::NAMES, "block solver in use";
    BLOCK_INVERSES = 1201 "block_inverses" SMOOTHER false &[], "number of distinct blocks whose inverses are stored";
    GHOST_COPIES = 1202 "ghost_copies" SMOOTHER false &[],
        "number of boxes of ghost cells that are copied between patches before each sweep";
    CELLS = 1203 "cells" SMOOTHER false &[], "total number of cells of all patches";
    PRECONDITIONER = 1300 "preconditioner" DPCG_SPARSE false Preconditioner::NAMES, "preconditioner in use";
    AUTO_REASON = 1301 "auto_reason" DPCG false AutoReason::NAMES,
        "Condition that determined the choices of `auto`. `crowded` means that there are too many components of \
         strong couplings for multigrid and deflation, or that flat cells hide these components. `anisotropic` means \
         that the couplings in one direction are weak. `labels` means that the caller set regions. `contrast` means \
         that the couplings of one direction differ strongly. `thin` means that a component of strong couplings is \
         only a few cells across. `plain` means that none of these conditions holds. `asked` means that the caller \
         set the options preconditioner, coarsening and deflation.";
    DEFLATION = 1302 "deflation" DPCG false Deflation::NAMES, "deflation in use";
    COARSENING = 1303 "coarsening" DPCG false Coarsening::NAMES,
        "coarsening in use; `auto` means that there is no multigrid";
    COARSE_SOLVER = 1304 "coarse_solver" DPCG false CoarseSolver::NAMES,
        "coarse solver in use; `auto` means that there is no deflation";
    DEFLATION_VECTORS = 1305 "deflation_vectors" DPCG false &[], "number of deflation vectors in use";
    REGIONS = 1306 "regions" DPCG false &[], "number of deflation regions, including regions without a vector";
    STRONG_COMPONENTS = 1307 "strong_components" DPCG false &[],
        "number of components that consist of at least two cells joined by strong couplings";
    NEUMANN_ROW_SUM = 1308 "neumann_row_sum" DPCG true &[],
        "Largest row sum of |L D^-1| with `preconditioner=neumann`. If this sum is below 1, the Neumann series \
         converges for any order.";
    SECONDS_DEFLATION = 1309 "seconds_deflation" DPCG true &[],
        "Wall time, in seconds, for the deflation regions, the coarse matrix and the factorization of the coarse \
         matrix. This time is part of `seconds_setup`.";
    SECONDS_COARSE = 1310 "seconds_coarse" DPCG true &[],
        "Wall time, in seconds, for the solution of systems with the coarse matrix. This time is part of \
         `seconds_solve`.";
    SECONDS_ITERATIONS = 1311 "seconds_iterations" DPCG true &[],
        "Wall time, in seconds, of the CG iterations. This time is part of `seconds_solve`.";
    ROWS = 1400 "rows" SPARSE false &[], "number of rows of the matrix";
    COLS = 1401 "cols" SPARSE false &[], "number of columns of the matrix";
    NONZEROS = 1402 "nonzeros" SPARSE false &[], "number of entries of the matrix, including explicit zeros";
    STORED = 1403 "stored" SPARSE false &[],
        "number of values, including padding, that the format in use stores; the number is 0 before the first product";
    FORMAT = 1404 "format" SPARSE false Format::NAMES, "format in use; the value is auto before the first product";
    SOLVER = 1405 "solver" SPARSE false Solver::NAMES,
        "method in use; after a solve, the method with which the solve ended; before the first factorize, the value \
         is auto";
    SYMMETRIC = 1407 "symmetric" SPARSE false &[],
        "1 if the matrix is symmetric, that is, if |a_ij - a_ji| <= 1e-12 sqrt(|a_ii a_jj|) for all entries (for a_ii \
         a_jj = 0, the limit is 1e-12 times the smaller of the largest magnitudes in rows i and j); 0 if the matrix \
         is not symmetric";
    DOMINANCE = 1408 "dominance" SPARSE false Dominance::NAMES, "kind of diagonal dominance of the rows of the matrix";
    ZERO_DIAGONALS = 1409 "zero_diagonals" SPARSE false &[], "number of rows whose diagonal entry is zero or missing";
    EMPTY_ROWS = 1410 "empty_rows" SPARSE false &[], "number of rows without entries";
    DUPLICATES = 1411 "duplicates" SPARSE false &[],
        "number of entries that were added to an earlier entry with the same row and column";
    COLOURS = 1412 "colours" SPARSE false &[],
        "number of colours in a sweep or a triangular solve with `ordering=multicolour`";
    SWEEP_LEVELS = 1413 "sweep_levels" SPARSE false &[],
        "Number of levels in a sweep or a triangular solve. Each level consists of groups of rows that are independent \
         of each other. With one thread, the number is 1. In triangular solves with `ordering=multicolour`, the levels \
         are the colours; for sweeps with `ordering=multicolour` or `ordering=blocks`, the number is 0.";
    SHIFT = 1414 "shift" SPARSE true &[], "shift that ic0 uses";
    BYTES_PER_NONZERO = 1415 "bytes_per_nonzero" SPARSE true &[],
        "number of bytes that a product moves per entry of the matrix, including x and y; the number is 0 before the \
         first product";
    LONGEST_ROW = 1416 "longest_row" SPARSE false &[], "number of entries in the longest row of the matrix";
    FILE_RHS = 1417 "file_rhs" SPARSE false &[], "number of right-hand sides in the file of the matrix";
    TRIANGLE = 1418 "triangle" SPARSE false Triangle::NAMES,
        "triangles of the matrix that have off-diagonal entries; lower or upper may mean that only half of a \
         symmetric matrix was passed, although both halves are needed";
}

/// An argument of a function that is a choice from a list of names.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentEntry {
    /// Prefix of the constants in C and Fortran, after `RRB_`.
    pub prefix: &'static str,
    /// Names and numbers.
    pub choices: &'static [(&'static str, i64)],
    /// Name of the argument and of its function.
    pub doc: &'static str,
}

/// All arguments that are choices.
pub static ARGUMENTS: &[ArgumentEntry] = &[
    ArgumentEntry { prefix: "VECTOR", choices: Vector::NAMES, doc: "argument which of sparse_get_vector" },
    ArgumentEntry { prefix: "FILE", choices: FileFormat::NAMES, doc: "argument file_format of sparse_write" },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Two families have an option with different ranges. The description of the option names the second family, and
    /// the error message names both.
    #[test]
    fn shared_option_names_both_families() {
        const STEPS: OptionEntry = OptionEntry {
            constant: "STEPS",
            key: 250,
            name: "steps",
            effect: Effect::Now,
            kinds_by_family: &[(RRB, OFF_BY_DEFAULT), (SMOOTHER, int(1, 0, 2))],
            doc: "steps",
        };
        assert!(STEPS.families().eq([Family::Rrb, Family::Smoother]));
        assert_eq!(STEPS.kind(Family::Rrb), Some(OFF_BY_DEFAULT));
        assert_eq!(STEPS.kind(Family::Smoother), Some(int(1, 0, 2)));
        assert_eq!(STEPS.description(), "steps (also in smoother_)");
        let error = Family::Smoother.error_of_foreign_key("option", STEPS.name, STEPS.key, STEPS.families());
        assert_eq!(error.to_string(), "smoother_ has no option steps: it belongs to rrb_ and smoother_");
    }

    /// The reason why a family lacks a common option depends on the family.
    #[test]
    fn foreign_key_error_depends_on_family() {
        let error_message =
            |family: Family| family.error_of_foreign_key("option", "steps", 150, std::iter::empty()).to_string();
        assert_eq!(
            error_message(Family::Smoother),
            "smoother_ has no option steps: smoother_apply runs a given number of sweeps and tests no tolerance"
        );
        assert_eq!(error_message(Family::Rrb), "rrb_ has no option steps: it solves 2D grid systems to a tolerance");
        assert_eq!(error_message(Family::Dpcg), "dpcg_ has no option steps: it solves 3D grid systems to a tolerance");
    }
}

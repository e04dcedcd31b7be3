//! The one table of options and results: the header, the Fortran constants, the text names and the
//! documentation are made from it. A leaf: knows no solver.
//!
//! Numbers are explicit and append-only, in blocks of 100: common options 100, `rrb` options 200, `smoother` options
//! 300, common results 1000, `rrb` results 1100, `smoother` results 1200.

use crate::error::{Error, Result, copied};
use crate::runtime::heap::Counted;

/// Which handles know a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Every family.
    Common,
    /// Every family that solves to a tolerance: not `smoother_`.
    Solvers,
    /// `rrb_`: 2D stencils.
    Rrb,
    /// `smoother_`: block relaxation on 3D patches.
    Smoother,
}

impl Family {
    /// Whether handles of this family know keys of `keys`.
    #[must_use]
    pub fn knows(self, keys: Self) -> bool {
        keys == Self::Common || keys == self || (keys == Self::Solvers && self != Self::Smoother)
    }

    /// As functions begin.
    fn prefix(self) -> &'static str {
        match self {
            Self::Common | Self::Solvers => "rrbsolver_",
            Self::Rrb => "rrb_",
            Self::Smoother => "smoother_",
        }
    }

    /// An option or result of another family.
    fn foreign(self, what: &str, name: &str, keys: Self) -> Error {
        let reason = match keys {
            Self::Solvers => "it solves to no tolerance, but does the sweeps that smoother_apply is told".to_owned(),
            _ => format!("it is one of {}", keys.prefix()),
        };
        Error::Option(format!("{} has no {what} {name}: {reason}", self.prefix()))
    }
}

/// `doc` with the families that it does not hold for.
fn meaning(keys: Family, doc: &str) -> String {
    format!("{doc}{}", if keys == Family::Solvers { " (not smoother_)" } else { "" })
}

/// When a new value acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// At the next `factorize` (`smoother_set_patches`); until then `solve` (`smoother_apply`) answers `RRB_ERR_STATE`.
    Factorize,
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
    Text(&'static str),
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
    /// Who knows it.
    pub family: Family,
    /// When it acts.
    pub effect: Effect,
    /// Type, default and range.
    pub kind: Kind,
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
    /// Who knows it.
    pub family: Family,
    /// Read by `get_real`; else by `get_int`.
    pub real: bool,
    /// Names of the values, where the result is one of a list.
    pub choices: &'static [(&'static str, i64)],
    /// Meaning, one sentence.
    pub doc: &'static str,
}

impl OptionEntry {
    /// Meaning, with the families that do not know it.
    #[must_use]
    pub fn meaning(&self) -> String {
        meaning(self.family, self.doc)
    }
}

impl ResultEntry {
    /// Meaning, with the families that do not know it.
    #[must_use]
    pub fn meaning(&self) -> String {
        meaning(self.family, self.doc)
    }
}

macro_rules! options {
    ($(
        $(#[$m:meta])*
        $constant:ident = $key:literal $name:literal $family:ident $effect:ident $kind:expr, $doc:literal;)*) => {
        /// Keys of the options.
        pub mod opt { $(#[doc = $doc] pub const $constant: i32 = $key;)* }
        /// Every option, in the order of the documentation.
        pub static OPTIONS: &[OptionEntry] = &[$(OptionEntry {
            constant: stringify!($constant), key: $key, name: $name, family: Family::$family,
            effect: Effect::$effect, kind: $kind, doc: $doc,
        },)*];
    };
}

macro_rules! results {
    ($($constant:ident = $key:literal $name:literal $family:ident $real:literal $choices:expr, $doc:literal;)*) => {
        /// Keys of the results.
        pub mod info { $(#[doc = $doc] pub const $constant: i32 = $key;)* }
        /// Every result, in the order of the documentation.
        pub static RESULTS: &[ResultEntry] = &[$(ResultEntry {
            constant: stringify!($constant), key: $key, name: $name, family: Family::$family,
            real: $real, choices: $choices, doc: $doc,
        },)*];
    };
}

/// Values of the options and results of these names.
pub const BACKENDS: &[(&str, i64)] = &[("auto", 0), ("cpu", 1), ("cuda", 2), ("reference", 3)];
/// See [`BACKENDS`].
pub const PRECISIONS: &[(&str, i64)] = &[("auto", 0), ("f64", 1), ("f32", 2), ("bf16", 3), ("mixed", 4)];
/// See [`BACKENDS`].
pub const CYCLES: &[(&str, i64)] = &[("auto", 0), ("v", 1), ("amli", 2), ("k", 3)];

/// The name of choice `number`.
pub fn name_of(choices: &[(&'static str, i64)], number: i64) -> &'static str {
    choices.iter().find(|(_, n)| *n == number).map_or("?", |(name, _)| name)
}

const BLOCK_SOLVERS: &[(&str, i64)] = &[("auto", 0), ("fast_diagonalization", 1), ("dense", 2)];

/// Values of the result `stop_reason`.
pub const STOP_REASONS: &[(&str, i64)] = &[
    ("none", 0),
    ("converged", 1),
    ("initial_guess", 2),
    ("zero_rhs", 3),
    ("max_iter", 4),
    ("monitor", 5),
    ("stagnated", 6),
    ("breakdown", 7),
];

const fn int(default: i64, min: i64, max: i64) -> Kind {
    Kind::Int { default, min, max, multiple: 1 }
}

const fn real(default: f64, min: f64, max: f64, open: bool) -> Kind {
    Kind::Real { default, min, max, open }
}

const SWITCH_OFF: Kind = int(0, 0, 1);

options! {
    BACKEND = 100 "backend" Common Factorize Kind::Choice(BACKENDS),
        "where the solver runs; auto: cuda where a device is and the problem is large enough (smoother_: where memory \
         = device), else cpu";
    DEVICE = 101 "device" Common Factorize int(0, 0, 1023), "CUDA ordinal";
    THREADS = 102 "threads" Common Factorize int(0, 0, 4096),
        "threads of the handle's own team; 0: RRBSOLVER_NUM_THREADS, SLURM_CPUS_PER_TASK, OMP_NUM_THREADS, affinity \
         mask, in that order";
    MEMORY = 103 "memory" Common Now Kind::Choice(&[("auto", 0), ("host", 1), ("device", 2)]),
        "where the caller's arrays are; auto asks the driver";
    REL_TOL = 104 "rel_tol" Solvers Now real(1e-6, 0.0, 1.0, true),
        "stop when norm(r) <= max(rel_tol * reference, abs_tol)";
    ABS_TOL = 105 "abs_tol" Solvers Now real(0.0, 0.0, f64::MAX, false), "see rel_tol; unit of the tested norm";
    MAX_ITER = 106 "max_iter" Solvers Now int(1000, 0, 2_147_483_647),
        "iterations at most; 0 only evaluates the residual";
    NORM = 107 "norm" Solvers Now Kind::Choice(&[("true2", 0), ("preconditioned", 1)]),
        "true2: 2-norm of b - A x on the whole grid; preconditioned: sqrt(r' M^-1 r), as in the papers";
    REFERENCE = 108 "reference" Solvers Now Kind::Choice(&[("rhs", 0), ("initial", 1)]),
        "rhs: the same norm of b (projected where singular, reduced to S1 for preconditioned); initial: of r0";
    NULL_SPACE = 109 "null_space" Solvers Factorize Kind::Choice(&[("auto", 0), ("none", 1), ("constant", 2)]),
        "auto: a connected component is singular iff |row sum| <= 1e-12 * center in all its rows; constant: iff <= \
         1e-6 * center";
    CHECK_INPUT = 110 "check_input" Common Now int(1, 0, 2),
        "1: refuse NaN and infinity in input arrays, log couplings that point out of the grid once a handle, at \
         factorize; 2: refuse those too (smoother_: as 1)";
    CHECK_COMPATIBILITY = 111 "check_compatibility" Solvers Now SWITCH_OFF,
        "refuse b with |sum b| > 1e-10 ||b||_1 over a singular component instead of projecting it";
    VERBOSITY = 112 "verbosity" Common Now int(0, 0, 2),
        "0: silent; 1: a line a solve (smoother_: an apply); 2: a line an iteration (a sweep)";
    LOG = 113 "log" Common Now Kind::Text("callback"),
        "where lines go: callback, stderr, or the path (without blanks and commas) of a file to append to";

    LEVELS = 200 "levels" Rrb Factorize int(0, 0, 4096),
        "number of red eliminations; 0: by size; more than the grid has: all it has";
    COARSE_MEMORY = 201 "coarse_memory" Rrb Factorize int(1_073_741_824, 8, i64::MAX),
        "bytes the exact factor of the remainder may take";
    GRIDS = 202 "grids" Rrb Factorize int(0, 0, 64),
        "number g of r1/r2/b1/b2 grids; 0: by size; more than g_max: g_max";
    COMPUTE_BLOCK = 203 "compute_block" Rrb Factorize Kind::Int { default: 16, min: 8, max: 4096, multiple: 8 },
        "row padding and border of the r1/r2/b1/b2 arrays";
    LUMPING = 204 "lumping" Rrb Factorize Kind::Choice(&[("m1", 0), ("m2", 1)]),
        "nodes lumped: m1 red, m2 red and black; the text shorthands m1u, m1m, m2u, m2m set relaxation too (0 or 1)";
    RELAXATION = 205 "relaxation" Rrb Factorize real(1.0, 0.0, 1.0, false),
        "omega: the part of a dropped coupling that is added to the diagonal";
    FUSION = 206 "fusion" Rrb Factorize Kind::Choice(&[("on", 1), ("off", 0)]),
        "on: fused stages where the backend has them; off: the unfused textbook steps";
    COMPENSATION = 207 "compensation" Rrb Factorize Kind::Choice(&[("auto", 0), ("never", 1), ("always", 2)]),
        "positive off-diagonals moved to the diagonals in M; auto: iff there are any";
    PRECISION = 208 "precision" Rrb Factorize Kind::Choice(PRECISIONS),
        "of the stored preconditioner; mixed: of CG too, on a device: taken as bf16";
    CYCLE = 209 "cycle" Rrb Factorize Kind::Choice(CYCLES), "v: the papers' RRB; amli, k: recursive";
    CYCLE_SPACING = 210 "cycle_spacing" Rrb Factorize int(0, 0, 64), "recursion every so many levels; 0: chosen";
    CYCLE_STEPS = 211 "cycle_steps" Rrb Factorize int(2, 1, 8), "inner iterations of a recursion";
    LEADING_DIMENSION = 212 "leading_dimension" Rrb Factorize int(0, 0, i64::MAX),
        "values from one row of the caller's arrays to the next, at least nx; 0: nx";

    METHOD = 300 "method" Smoother Now Kind::Choice(&[("coloured_gauss_seidel", 0), ("block_jacobi", 1),
        ("chaotic_gauss_seidel", 2)]),
        "which block waits for which";
    OMEGA = 301 "omega" Smoother Now real(0.0, 0.0, 2.0, false),
        "relaxation; 0: the method's own, 1, or 0.8 for block_jacobi";
    STAGGER = 302 "stagger" Smoother Now int(0, 0, 2),
        "1: blocks shifted by floor(b/2) on odd sweeps of an apply (the first is even); 2: on even ones";
    REVERSE = 303 "reverse" Smoother Now SWITCH_OFF, "colours (chaotic: blocks) in reverse order, for post-smoothing";
    BLOCK_SOLVER = 304 "block_solver" Smoother Factorize Kind::Choice(BLOCK_SOLVERS),
        "auto: fast_diagonalization where sine transforms diagonalize the blocks without loss of digits, else dense; \
         fast_diagonalization is refused where it loses more than four digits";
    REMAINDER = 305 "remainder" Smoother Factorize Kind::Choice(&[("exact", 0), ("overlap", 1)]),
        "blocks cut short by a patch's edge: solved as they are, or moved inwards, where they overlap others";
    PARALLEL = 306 "parallel" Smoother Now Kind::Choice(&[("auto", 0), ("patch", 1), ("block", 2), ("nested", 3)]),
        "what threads share: auto one list of all blocks of all patches; chaotic_gauss_seidel with patch is \
         lexicographic in each patch";
    PATCH_THREADS = 307 "patch_threads" Smoother Now int(0, 0, 4096),
        "groups of threads that share the patches of parallel = nested; 0: chosen";
    TRANSFER = 308 "transfer" Smoother Now Kind::Choice(&[("auto", 0), ("depth_first", 1), ("breadth_first", 2)]),
        "order of copies and kernels for patches that live on the host while a device relaxes them";
}

results! {
    ITERATIONS = 1000 "iterations" Common false &[],
        "iterations of the last solve (smoother_: sweeps of the last apply)";
    STOP_REASON = 1001 "stop_reason" Common false STOP_REASONS,
        "why the last solve ended; smoother_: monitor where a callback stopped the last apply, else none";
    INITIAL_RESIDUAL = 1002 "initial_residual" Common true &[],
        "relative, in the tested norm, of the guess; smoother_: 1, known where the last apply had a monitor, else \
         refused";
    FINAL_RESIDUAL = 1003 "final_residual" Common true &[],
        "relative, in the tested norm, of x; recomputed as b - A x when a solve ends, other than by a guess that \
         stays; smoother_: as the monitor was told last, refused where the last apply had none";
    SECONDS_SETUP = 1004 "seconds_setup" Common true &[], "wall time of the last factorize (smoother_: set_patches)";
    SECONDS_SOLVE = 1005 "seconds_solve" Common true &[], "wall time of the last solve (smoother_: apply)";
    SECONDS_TRANSFER = 1006 "seconds_transfer" Common true &[], "of that, copies between host and device";
    BYTES_HOST = 1007 "bytes_host" Common false &[], "host memory of the handle";
    BYTES_DEVICE = 1008 "bytes_device" Common false &[], "device memory of the handle";
    LAMBDA_MIN = 1009 "lambda_min" Solvers true &[],
        "smallest eigenvalue of M^-1 A seen by the last solve (Lanczos); 0 before two iterations";
    LAMBDA_MAX = 1010 "lambda_max" Solvers true &[],
        "largest eigenvalue of M^-1 A seen by the last solve; 0 before two iterations";
    BACKEND = 1011 "backend" Common false BACKENDS, "the one in use";
    DEVICE = 1012 "device" Common false &[], "CUDA ordinal in use, -1: none";
    THREADS = 1013 "threads" Common false &[], "threads in use";
    CUDA_KERNELS = 1014 "cuda_kernels" Common false &[],
        "1: this build of the library has CUDA kernels; 0: it was built with RRBSOLVER_CUDA=off";

    LEVELS = 1100 "levels" Rrb false &[], "red eliminations in use";
    PRECISION = 1101 "precision" Rrb false PRECISIONS, "the one in use";
    CYCLE = 1102 "cycle" Rrb false CYCLES, "the one in use; amli and v are fixed linear M, k is not";
    COMPONENTS = 1103 "components" Rrb false &[], "connected components of two nodes or more";
    SINGULAR_COMPONENTS = 1104 "singular_components" Rrb false &[], "of those, singular ones";
    COMPENSATED_COUPLINGS = 1105 "compensated_couplings" Rrb false &[],
        "positive couplings moved to the diagonals of M";
    GRIDS = 1106 "grids" Rrb false &[], "r1/r2/b1/b2 grids in use";
    BLOCK_SOLVER = 1200 "block_solver" Smoother false BLOCK_SOLVERS, "the one in use";
    BLOCK_INVERSES = 1201 "block_inverses" Smoother false &[], "different blocks whose inverses are held";
    GHOST_COPIES = 1202 "ghost_copies" Smoother false &[], "boxes of ghost cells copied between patches before a sweep";
    CELLS = 1203 "cells" Smoother false &[], "cells of all patches";
}

/// Values of all options of one handle.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    family: Family,
    ints: [i64; OPTIONS.len()],
    reals: [f64; OPTIONS.len()],
    /// None: `callback`. Copies of the options share the text.
    log: Option<Counted<String>>,
}

impl Options {
    /// Defaults.
    #[must_use]
    pub fn new(family: Family) -> Self {
        let int_default = |o: &OptionEntry| match o.kind {
            Kind::Int { default, .. } => default,
            Kind::Choice(names) => names[0].1,
            Kind::Real { .. } | Kind::Text(_) => 0,
        };
        let real_default = |o: &OptionEntry| match o.kind {
            Kind::Real { default, .. } => default,
            _ => 0.0,
        };
        Self {
            family,
            ints: std::array::from_fn(|p| int_default(&OPTIONS[p])),
            reals: std::array::from_fn(|p| real_default(&OPTIONS[p])),
            log: None,
        }
    }

    /// Value of a whole-number option or choice. Keys come from [`opt`], so that the lookup cannot fail.
    #[must_use]
    pub fn int(&self, key: i32) -> i64 {
        OPTIONS.iter().position(|o| o.key == key).map_or(0, |p| self.ints[p])
    }

    /// Value of a real option.
    #[must_use]
    pub fn real(&self, key: i32) -> f64 {
        OPTIONS.iter().position(|o| o.key == key).map_or(0.0, |p| self.reals[p])
    }

    /// Where log lines go: `callback`, `stderr`, or a path.
    #[must_use]
    pub fn log(&self) -> &str {
        self.log.as_ref().map_or("callback", |log| log)
    }

    /// Takes the log target of `other`.
    pub fn take_log(&mut self, other: &Self) {
        self.log.clone_from(&other.log);
    }

    fn position(&self, key: i32) -> Result<usize> {
        OPTIONS.iter().position(|o| o.key == key && self.knows(o)).ok_or_else(|| {
            if let Some(o) = OPTIONS.iter().find(|o| o.key == key) {
                return self.family.foreign("option", o.name, o.family);
            }
            let nearest = OPTIONS
                .iter()
                .filter(|o| self.knows(o))
                .min_by_key(|o| o.key.abs_diff(key))
                .expect("the table is not empty");
            Error::Option(format!(
                "unknown option key {key}; did you mean RRB_OPT_{} = {}?",
                nearest.constant, nearest.key
            ))
        })
    }

    fn knows(&self, o: &OptionEntry) -> bool {
        self.family.knows(o.family)
    }

    /// Whether all options that act at the next factorize have the values of `other`.
    #[must_use]
    pub fn same_setup(&self, other: &Self) -> bool {
        let at_factorize = |p: usize| OPTIONS[p].effect == Effect::Factorize;
        (0..OPTIONS.len())
            .filter(|&p| at_factorize(p))
            .all(|p| self.ints[p] == other.ints[p] && self.reals[p] == other.reals[p])
    }

    /// Sets a whole-number option, a choice by its number, or a real option to a whole value.
    pub fn set_int(&mut self, key: i32, value: i64) -> Result<()> {
        let p = self.position(key)?;
        let o = &OPTIONS[p];
        match o.kind {
            Kind::Int { min, max, multiple, .. } => {
                if value < min || value > max || value % multiple != 0 {
                    return Err(range_error(o, value.to_string()));
                }
                self.ints[p] = value;
                Ok(())
            }
            Kind::Choice(names) => {
                if names.iter().all(|&(_, number)| number != value) {
                    return Err(range_error(o, value.to_string()));
                }
                self.ints[p] = value;
                Ok(())
            }
            Kind::Real { .. } => self.set_real(key, value as f64),
            Kind::Text(_) => Err(Error::Option(format!("{} is a text option: use set_options", o.name))),
        }
    }

    /// Sets a real option.
    pub fn set_real(&mut self, key: i32, value: f64) -> Result<()> {
        let p = self.position(key)?;
        let o = &OPTIONS[p];
        let Kind::Real { min, max, open, .. } = o.kind else {
            return Err(Error::Option(format!("{} is not a real option: use set_int or set_options", o.name)));
        };
        let inside = if open { value > min && value < max } else { value >= min && value <= max };
        if !ordinary(value) || !inside {
            return Err(real_error(o, written(value), !ordinary(value)));
        }
        self.reals[p] = value;
        Ok(())
    }

    /// The place of a key that is read: the nearest known one may be a result.
    fn readable(&self, key: i32) -> Result<usize> {
        self.position(key).map_err(|error| {
            if OPTIONS.iter().any(|o| o.key == key) {
                return error;
            }
            if let Some(r) = RESULTS.iter().find(|r| r.key == key) {
                return self.family.foreign("result", r.name, r.family);
            }
            let option = OPTIONS.iter().filter(|o| self.knows(o)).map(|o| o.key.abs_diff(key)).min();
            let known = RESULTS.iter().filter(|r| self.family.knows(r.family));
            match known.min_by_key(|r| r.key.abs_diff(key)) {
                Some(r) if Some(r.key.abs_diff(key)) < option => {
                    Error::Option(format!("unknown key {key}; did you mean RRB_INFO_{} = {}?", r.constant, r.key))
                }
                _ => error,
            }
        })
    }

    /// Value of a whole-number option or choice by key.
    pub fn get_int(&self, key: i32) -> Result<i64> {
        let p = self.readable(key)?;
        match OPTIONS[p].kind {
            Kind::Int { .. } | Kind::Choice(_) => Ok(self.ints[p]),
            Kind::Real { .. } => Err(Error::Option(format!("{} is real: use get_real", OPTIONS[p].name))),
            Kind::Text(_) => Err(Error::Option(format!("{} is text and cannot be read back", OPTIONS[p].name))),
        }
    }

    /// Value of a real option by key; whole numbers are converted.
    pub fn get_real(&self, key: i32) -> Result<f64> {
        let p = self.readable(key)?;
        match OPTIONS[p].kind {
            Kind::Real { .. } => Ok(self.reals[p]),
            _ => self.get_int(key).map(|v| v as f64),
        }
    }

    /// Applies text such as `levels=12 rel_tol=1e-8 backend=cpu`: all of it, or nothing.
    pub fn set_text(&mut self, text: &str) -> Result<()> {
        let mut next = self.clone();
        for entry in entries(text) {
            next.set_entry(entry)?;
        }
        *self = next;
        Ok(())
    }

    /// Applies the entries of `RRBSOLVER_OPTIONS` that this family knows and that are right, hands each sentence about
    /// a wrong one to `complain`.
    pub fn set_text_leniently(&mut self, text: &str, mut complain: impl FnMut(&Error)) {
        for entry in entries(text) {
            let name = entry.split('=').next().unwrap_or("");
            if OPTIONS.iter().any(|o| o.name == name && !self.knows(o)) {
                continue;
            }
            if ["leading_dimension", "memory"].contains(&name) {
                complain(&Error::Option(format!(
                    "{name} says how the program keeps its arrays: only the program can set it"
                )));
                continue;
            }
            if let Err(e) = self.set_entry(entry) {
                complain(&e);
            }
        }
    }

    fn set_entry(&mut self, entry: &str) -> Result<()> {
        let Some((name, value)) = entry.split_once('=') else {
            return Err(Error::Option(format!("'{entry}' is not of the form name=value")));
        };
        let Some(p) = OPTIONS.iter().position(|o| o.name == name && self.knows(o)) else {
            if let Some(o) = OPTIONS.iter().find(|o| o.name == name) {
                return Err(self.family.foreign("option", name, o.family));
            }
            let nearest = nearest_name(name, OPTIONS.iter().filter(|o| self.knows(o)).map(|o| o.name));
            return Err(Error::Option(format!("unknown option '{name}'; did you mean '{nearest}'?")));
        };
        let o = &OPTIONS[p];
        match o.kind {
            Kind::Int { .. } => match value.parse::<i64>() {
                Ok(v) => self.set_int(o.key, v),
                Err(_) => Err(range_error(o, format!("'{value}'"))),
            },
            Kind::Real { .. } => match value.parse::<f64>() {
                // Told as it was given: 1e-400 is 0 as a number.
                Ok(v) if underflows(value, v) => Err(real_error(o, value.to_owned(), true)),
                Ok(v) => self.set_real(o.key, v).map_err(|_| real_error(o, value.to_owned(), !ordinary(v))),
                Err(_) => Err(range_error(o, format!("'{value}'"))),
            },
            Kind::Choice(names) => {
                if o.key == opt::LUMPING
                    && let Some((number, omega)) = lumping_shorthand(value)
                {
                    self.set_int(opt::LUMPING, number)?;
                    return self.set_real(opt::RELAXATION, omega);
                }
                let number = names.iter().find(|&&(n, _)| n == value).map(|&(_, number)| number);
                match number {
                    Some(v) => {
                        self.ints[p] = v;
                        Ok(())
                    }
                    None => {
                        let nearest = nearest_name(value, names.iter().map(|&(n, _)| n));
                        Err(Error::Option(format!(
                            "{name} must be {}, got '{value}'; did you mean '{nearest}'?",
                            choice_list(names)
                        )))
                    }
                }
            }
            Kind::Text(_) => {
                if value.is_empty() {
                    return Err(Error::Option(format!("{name} must be callback, stderr or a path, got nothing")));
                }
                let path = |value| Counted::new(copied(value, LOG_TARGET)?, LOG_TARGET);
                self.log = if value == "callback" { None } else { Some(path(value)?) };
                Ok(())
            }
        }
    }
}

/// For errors.
const LOG_TARGET: &str = "the option log";

/// Ciarlet's names (report, table 1): lumping and relaxation in one.
fn lumping_shorthand(value: &str) -> Option<(i64, f64)> {
    match value {
        "m1u" => Some((0, 0.0)),
        "m1m" => Some((0, 1.0)),
        "m2u" => Some((1, 0.0)),
        "m2m" => Some((1, 1.0)),
        _ => None,
    }
}

fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == ',').filter(|e| !e.is_empty())
}

fn choice_list(names: &[(&str, i64)]) -> String {
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
        Kind::Text(_) => "callback, stderr, or a path".to_owned(),
    }
}

fn range_error(o: &OptionEntry, value: String) -> Error {
    let range = allowed_range(&o.kind);
    let allowed = match o.kind {
        Kind::Int { multiple, .. } if multiple > 1 => format!("be {range}"),
        Kind::Int { .. } | Kind::Real { .. } if range.starts_with("in") => format!("lie {range}"),
        Kind::Choice(names) => {
            let all: Vec<String> = names.iter().map(|(n, v)| format!("{v} ({n})")).collect();
            format!("be one of {}", all.join(", "))
        }
        _ => format!("be {range}"),
    };
    Error::range(o.name, value, allowed)
}

/// Zero and normal numbers. Others are no tolerance that anybody means: the bits of a Fortran real(4), read as a
/// double, are a subnormal one.
fn ordinary(value: f64) -> bool {
    value == 0.0 || value.is_normal()
}

/// Whether text with a digit other than 0 was read as 0.
fn underflows(text: &str, value: f64) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    value == 0.0 && mantissa.contains(|c| ('1'..='9').contains(&c))
}

/// A number as people write it.
fn written(value: f64) -> String {
    let magnitude = value.abs();
    let plain = magnitude == 0.0 || !magnitude.is_finite() || (1e-5..1e16).contains(&magnitude);
    if plain { format!("{value}") } else { format!("{value:e}") }
}

/// The sentence about a real value that was given as `text`; `strange`: no double that anybody means.
fn real_error(o: &OptionEntry, text: String, strange: bool) -> Error {
    let question = if strange { ": is it double precision?" } else { "" };
    range_error(o, text + question)
}

/// The name at the smallest edit distance.
fn nearest_name<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    names.min_by_key(|n| edit_distance(word, n)).unwrap_or("")
}

/// Edit distance with insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut d = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            if i == 0 || j == 0 {
                d[i][j] = i + j;
                continue;
            }
            let replaced = d[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            d[i][j] = replaced.min(d[i - 1][j] + 1).min(d[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d[i][j] = d[i][j].min(d[i - 2][j - 2] + 1);
            }
        }
    }
    d[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_names_are_unique() {
        for (p, o) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[..p].iter().all(|q| q.key != o.key && q.name != o.name), "{}", o.name);
            assert!(RESULTS.iter().all(|r| r.key != o.key), "{}", o.name);
        }
        for (p, r) in RESULTS.iter().enumerate() {
            assert!(RESULTS[..p].iter().all(|q| q.key != r.key && q.name != r.name), "{}", r.name);
        }
    }

    #[test]
    fn text_is_all_or_nothing() {
        let mut o = Options::new(Family::Rrb);
        let before = o.clone();
        let e = o.set_text("rel_tol=1e-8 levls=12").unwrap_err();
        assert_eq!(e.to_string(), "unknown option 'levls'; did you mean 'levels'?");
        assert_eq!(o, before);
        o.set_text("rel_tol=1e-8, check_input=0").unwrap();
        assert!(o.same_setup(&before));
        o.set_text("lumping=m2u").unwrap();
        assert!(!o.same_setup(&before));
        assert_eq!(o.real(opt::REL_TOL), 1e-8);
        assert_eq!((o.int(opt::LUMPING), o.real(opt::RELAXATION)), (1, 0.0));
    }

    #[test]
    fn ranges_are_named() {
        let mut o = Options::new(Family::Rrb);
        let sentence = |e: Error| e.to_string();
        assert_eq!(sentence(o.set_real(opt::REL_TOL, -1.0).unwrap_err()), "rel_tol must lie in (0, 1), got -1");
        assert_eq!(sentence(o.set_real(opt::REL_TOL, -1e-9).unwrap_err()), "rel_tol must lie in (0, 1), got -1e-9");
        assert!(o.set_real(opt::REL_TOL, f64::NAN).is_err());
        assert_eq!(
            sentence(o.set_int(opt::COMPUTE_BLOCK, 12).unwrap_err()),
            "compute_block must be a multiple of 8 in [8, 4096], got 12"
        );
        assert_eq!(
            sentence(o.set_int(opt::CYCLE, 9).unwrap_err()),
            "cycle must be one of 0 (auto), 1 (v), 2 (amli), 3 (k), got 9"
        );
        assert_eq!(
            sentence(o.set_text("backend=cdua").unwrap_err()),
            "backend must be one of auto, cpu, cuda, reference, got 'cdua'; did you mean 'cuda'?"
        );
        assert_eq!(
            sentence(o.set_int(201_000, 1).unwrap_err()),
            "unknown option key 201000; did you mean RRB_OPT_LEADING_DIMENSION = 212?"
        );
    }

    #[test]
    fn values_that_no_double_means() {
        let mut o = Options::new(Family::Rrb);
        let mut sentences = Vec::new();
        for text in ["rel_tol=1e-400", "rel_tol=1e400", "abs_tol=0.001e-400", "abs_tol=1e400", "abs_tol=2e-310"] {
            sentences.push(o.set_text(text).unwrap_err().to_string());
        }
        // The bits of 1e-6 in single precision, alone in a register that is read as a double.
        let single = f64::from_bits(u64::from(1e-6f32.to_bits()));
        for value in [single, f64::NAN] {
            sentences.push(o.set_real(opt::REL_TOL, value).unwrap_err().to_string());
        }
        sentences.push(o.set_real(opt::ABS_TOL, f64::INFINITY).unwrap_err().to_string());
        let (rel_tol, abs_tol) = ("rel_tol must lie in (0, 1)", "abs_tol must be >= 0 and finite");
        let expected = [
            (rel_tol, "1e-400"),
            (rel_tol, "1e400"),
            (abs_tol, "0.001e-400"),
            (abs_tol, "1e400"),
            (abs_tol, "2e-310"),
            (rel_tol, "4.436652885e-315"),
            (rel_tol, "NaN"),
            (abs_tol, "inf"),
        ];
        for (sentence, (range, value)) in sentences.iter().zip(expected) {
            assert_eq!(*sentence, format!("{range}, got {value}: is it double precision?"));
        }
        o.set_text("abs_tol=0 abs_tol=0.0e-400 abs_tol=0e400 abs_tol=2.3e-308").unwrap();
        let mut smoother = Options::new(Family::Smoother);
        assert!(smoother.set_real(opt::OMEGA, single).is_err() && smoother.set_text("omega=1e-400").is_err());
        smoother.set_real(opt::OMEGA, 0.0).unwrap();
    }

    #[test]
    fn lenient_text_keeps_what_is_right() {
        let mut o = Options::new(Family::Rrb);
        let mut complaints = Vec::new();
        o.set_text_leniently("max_iter=7 nonsense rel_tol=2", |e| complaints.push(e.to_string()));
        assert_eq!(o.int(opt::MAX_ITER), 7);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
    }
}

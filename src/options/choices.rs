//! Choices of options and results. Each name and number is defined here only.

/// A value from a list of named and numbered choices.
pub trait Choice: Copy + 'static {
    /// All choices; the first is the default.
    const ALL: &'static [Self];
    /// Returns the name in option strings.
    fn name(self) -> &'static str;
    /// Returns the number in C and Fortran.
    fn number(self) -> i64;
    /// Returns the choice with this number.
    fn of(number: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|choice| choice.number() == number)
    }
}

macro_rules! choices {
    ($($(#[$m:meta])* $kind:ident { $($(#[$d:meta])* $choice:ident = $number:literal $name:literal,)* })*) => {$(
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$d])* #[doc = concat!("`", $name, "`")] $choice = $number,)*
        }

        impl $kind {
            /// Names and numbers, the default first.
            pub const NAMES: &'static [(&'static str, i64)] = &[$(($name, $number),)*];
        }

        impl Choice for $kind {
            const ALL: &'static [Self] = &[$(Self::$choice,)*];

            fn name(self) -> &'static str {
                match self { $(Self::$choice => $name,)* }
            }

            fn number(self) -> i64 {
                self as i64
            }
        }

        impl Default for $kind {
            fn default() -> Self {
                Self::ALL[0]
            }
        }
    )*};
}

choices! {
    /// Where a solver runs.
    Backend { Auto = 0 "auto", Cpu = 1 "cpu", Cuda = 2 "cuda", Reference = 3 "reference", }
    /// Memory space of the caller's arrays.
    Memory { Auto = 0 "auto", Host = 1 "host", Device = 2 "device", }
    /// Norm of the stopping test.
    Norm {
        /// 2-norm of b - A x on the whole grid:
        True2 = 0 "true2",
        /// Preconditioned norm sqrt(r' M^-1 r):
        Preconditioned = 1 "preconditioned",
    }
    /// Quantity that the tested norm is relative to.
    Reference { Rhs = 0 "rhs", Initial = 1 "initial", }
    /// Components that are treated as singular.
    NullSpace { Auto = 0 "auto", None = 1 "none", Constant = 2 "constant", }
    /// Nodes whose dropped couplings are lumped into the diagonal.
    Lumping { M1 = 0 "m1", M2 = 1 "m2", }
    /// Whether stages of an iteration are fused.
    Fusion { On = 1 "on", Off = 0 "off", }
    /// Whether positive off-diagonal entries are moved to the diagonal.
    Compensation { Auto = 0 "auto", Never = 1 "never", Always = 2 "always", }
    /// Number format in which a preconditioner is stored.
    Precision {
        Auto = 0 "auto", F64 = 1 "f64", F32 = 2 "f32", Bf16 = 3 "bf16", Mixed = 4 "mixed",
        Single = 5 "single",
    }
    /// Multigrid cycle.
    Cycle { Auto = 0 "auto", V = 1 "v", Amli = 2 "amli", K = 3 "k", Aggregation = 4 "aggregation", }
    /// Order in which blocks are relaxed.
    Method {
        ColouredGaussSeidel = 0 "coloured_gauss_seidel",
        BlockJacobi = 1 "block_jacobi",
        ChaoticGaussSeidel = 2 "chaotic_gauss_seidel",
    }
    /// How blocks are solved.
    BlockSolver { Auto = 0 "auto", FastDiagonalization = 1 "fast_diagonalization", Dense = 2 "dense", }
    /// Treatment of blocks that extend beyond the edge of a patch.
    Remainder { Exact = 0 "exact", Overlap = 1 "overlap", }
    /// Level at which work is divided among threads.
    Parallel { Auto = 0 "auto", Patch = 1 "patch", Block = 2 "block", Nested = 3 "nested", }
    /// Order of copies and kernels on a device.
    Transfer { Auto = 0 "auto", DepthFirst = 1 "depth_first", BreadthFirst = 2 "breadth_first", }
    /// Preconditioner of 3D systems and of general sparse systems.
    Preconditioner {
        Auto = 0 "auto", None = 1 "none", Jacobi = 2 "jacobi", Neumann = 3 "neumann", Ic0 = 4 "ic0", Ric = 5 "ric",
        Multigrid = 6 "multigrid", Amg = 7 "amg", Ssor = 8 "ssor", Ilu0 = 9 "ilu0", Chebyshev = 10 "chebyshev",
    }
    /// Deflation vectors; each is constant on one region and zero elsewhere.
    Deflation {
        Auto = 0 "auto",
        None = 1 "none",
        /// A region is a box of cells:
        Subdomain = 2 "subdomain",
        /// A region is a set of cells with the same label, or a component of strong couplings:
        Levelset = 3 "levelset",
        /// A region is the part of a `levelset` region, or of the remaining cells, inside a box of cells:
        LevelsetSubdomain = 4 "levelset_subdomain",
    }
    /// Solver for systems with the coarse matrix E of the deflation.
    CoarseSolver { Auto = 0 "auto", Inverse = 1 "inverse", Cholesky = 2 "cholesky", Cg = 3 "cg", }
    /// Position of a coarse grid point relative to the fine grid (vertex-centered or cell-centered).
    Coarsening { Auto = 0 "auto", Vertex = 1 "vertex", Cell = 2 "cell", }
    /// Storage format of a sparse matrix.
    Format {
        /// Format that transfers the fewest bytes:
        Auto = 0 "auto",
        Coo = 1 "coo", Csr = 2 "csr", Csc = 3 "csc", Bsr = 4 "bsr", Dia = 5 "dia", Ell = 6 "ell", Sell = 7 "sell",
        Jds = 8 "jds", Tjds = 9 "tjds", Skyline = 10 "skyline", Diagonal = 11 "diagonal",
    }
    /// Solver of a general sparse system.
    Solver {
        Auto = 0 "auto", Jacobi = 1 "jacobi", GaussSeidel = 2 "gauss_seidel", Sor = 3 "sor", Cg = 4 "cg",
        Bicg = 5 "bicg", Minres = 6 "minres", Bicgstab = 7 "bicgstab", Gmres = 8 "gmres", Idr = 9 "idr",
        SteepestDescent = 10 "steepest_descent",
    }
    /// Order in which a sweep visits the rows.
    Ordering {
        Natural = 0 "natural",
        /// Rows of equal colour are not coupled by an entry of A or A':
        Multicolour = 1 "multicolour",
        /// Each block of rows uses old values of the other blocks:
        Blocks = 2 "blocks",
        /// Forward, then back:
        Symmetric = 3 "symmetric",
    }
    /// How a method multiplies by A'.
    Transpose { Auto = 0 "auto", Copy = 1 "copy", None = 2 "none", }
    /// Diagonal dominance: comparison of |a_ii| with the sum of |a_ij|, j != i, over all rows i.
    Dominance {
        /// |a_ii| is smaller in some row:
        None = 0 "none",
        /// |a_ii| is at least as large in all rows:
        Weak = 1 "weak",
        /// `weak`, with a larger |a_ii| in some row, and A is irreducible:
        Irreducible = 2 "irreducible",
        /// |a_ii| is larger in all rows:
        Strict = 3 "strict",
    }
    /// Triangles of a matrix that have nonzero entries.
    Triangle {
        /// Both triangles, or none:
        Both = 0 "both",
        /// The strictly lower triangle only:
        Lower = 1 "lower",
        /// The strictly upper triangle only:
        Upper = 2 "upper",
    }
    /// Vector that a file contains in addition to the matrix.
    Vector { Rhs = 0 "rhs", Guess = 1 "guess", Solution = 2 "solution", }
    /// File format of a matrix.
    FileFormat {
        /// MatrixMarket:
        Mtx = 0 "mtx",
        /// Harwell-Boeing:
        Hb = 1 "hb",
        /// Rutherford-Boeing:
        Rb = 2 "rb",
    }
    /// Why `auto` selected the preconditioner, coarsening and deflation in use.
    AutoReason {
        /// The caller set preconditioner, coarsening and deflation:
        Asked = 0 "asked",
        /// No other reason applies:
        Plain = 1 "plain",
        /// The contrast of couplings is too large for multigrid alone, or for subdomain deflation without multigrid:
        Contrast = 2 "contrast",
        /// A component of strong couplings is only a few cells thick:
        Thin = 3 "thin",
        /// The couplings of one direction are too weak for coarsening the finest grid in this direction:
        Anisotropic = 4 "anisotropic",
        /// Labels of the caller are deflated:
        Labels = 5 "labels",
        /// There are more components of strong couplings than multigrid resolves and deflation supports, or flat cells
        /// hide the components:
        Crowded = 6 "crowded",
    }
    /// Why a solve ended.
    StopReason {
        /// No solve yet:
        None = 0 "none",
        /// The recomputed residual satisfies the stopping test:
        Converged = 1 "converged",
        /// The initial guess already satisfies the stopping test:
        InitialGuess = 2 "initial_guess",
        /// b = 0, or b is in the null space of A:
        ZeroRhs = 3 "zero_rhs",
        /// `max_iter` was reached:
        MaxIter = 4 "max_iter",
        /// The monitor requested the stop:
        Monitor = 5 "monitor",
        /// The recurred residual satisfied the stopping test or was below the rounding level, but the recomputed
        /// residual did not satisfy it and no longer decreases. Or the method would divide by a vanishing number, and
        /// another method may continue:
        Stagnated = 6 "stagnated",
        /// A quantity that must be positive was not:
        Breakdown = 7 "breakdown",
        /// The residual exceeded `divergence_limit` or is not finite; x is the initial guess:
        Diverged = 8 "diverged",
    }
}

/// CUDA ordinals of the devices that share grids, in the order of the option.
///
/// Byte n contains 1 + the ordinal of entry n; a byte of 0 ends the list. An empty list means one device, selected by
/// the option `device`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Devices(u64);

impl Devices {
    /// Largest number of devices: one per byte.
    pub const MAX_COUNT: usize = 8;
    /// The empty list.
    pub const NONE: Self = Self(0);

    /// Parses `none`, or up to `MAX_COUNT` different ordinals separated by `+`. Returns `None` for other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self(0));
        }
        let mut devices = Self(0);
        for (index, ordinal) in text.split('+').enumerate() {
            let is_digits = !ordinal.is_empty() && ordinal.bytes().all(|c| c.is_ascii_digit());
            let ordinal: u8 = ordinal.parse().ok().filter(|_| is_digits && index < Self::MAX_COUNT)?;
            if devices.contains(ordinal.into()) {
                return None;
            }
            devices.0 |= u64::from(ordinal.checked_add(1)?) << (8 * index);
        }
        Some(devices)
    }

    /// Returns this list as the integer that `Options` stores.
    pub(super) fn number(self) -> i64 {
        self.0.cast_signed()
    }

    /// Returns the list for the integer that `Options` stores.
    pub(super) fn of_number(number: i64) -> Self {
        Self(number.cast_unsigned())
    }

    /// Iterates over the ordinals, in order.
    pub fn ordinals(self) -> impl Iterator<Item = i64> {
        self.0.to_le_bytes().into_iter().take_while(|byte| *byte > 0).map(|byte| i64::from(byte) - 1)
    }

    /// Returns whether a device is in the list.
    #[must_use]
    pub fn contains(self, ordinal: i64) -> bool {
        self.ordinals().any(|listed| listed == ordinal)
    }
}

impl std::fmt::Display for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        for (index, ordinal) in self.ordinals().enumerate() {
            write!(f, "{}{ordinal}", if index > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_parse_accepts_lists_of_ordinals() {
        let parse_ordinals = |text: &str| Devices::parse(text).map(|devices| devices.ordinals().collect::<Vec<_>>());
        assert_eq!(parse_ordinals("none"), Some(Vec::new()));
        assert_eq!(parse_ordinals("3"), Some(vec![3]));
        assert_eq!(parse_ordinals("1+0+254"), Some(vec![1, 0, 254]));
        assert_eq!(Devices::parse("1+0+254").map(|devices| devices.to_string()).as_deref(), Some("1+0+254"));
        assert_eq!(parse_ordinals("0+1+2+3+4+5+6+7").map(|list| list.len()), Some(8));
        for invalid_text in ["", "+", "0+", "0+0", "-1", "0,1", "255", "1e0", "0+1+2+3+4+5+6+7+8", "+1"] {
            assert_eq!(parse_ordinals(invalid_text), None, "{invalid_text}");
        }
    }
}

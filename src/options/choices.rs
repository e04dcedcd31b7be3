//! The choices of options and results: names and numbers, each typed here once.

/// A value that is one of a list of names, each with its number.
pub trait Choice: Copy + 'static {
    /// All of them; the first is the default.
    const ALL: &'static [Self];
    /// Name in text.
    fn name(self) -> &'static str;
    /// Number in C and Fortran.
    fn number(self) -> i64;
    /// The one of this number.
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
    /// Where the caller's arrays are.
    Memory { Auto = 0 "auto", Host = 1 "host", Device = 2 "device", }
    /// Which norm is tested.
    Norm {
        /// The 2-norm of b - A x on the whole grid:
        True2 = 0 "true2",
        /// sqrt(r' M^-1 r), as in the papers:
        Preconditioned = 1 "preconditioned",
    }
    /// What the tested norm is relative to.
    Reference { Rhs = 0 "rhs", Initial = 1 "initial", }
    /// Which components are singular.
    NullSpace { Auto = 0 "auto", None = 1 "none", Constant = 2 "constant", }
    /// Which nodes are lumped.
    Lumping { M1 = 0 "m1", M2 = 1 "m2", }
    /// Whether stages are fused.
    Fusion { On = 1 "on", Off = 0 "off", }
    /// Whether positive off-diagonals are moved to the diagonals.
    Compensation { Auto = 0 "auto", Never = 1 "never", Always = 2 "always", }
    /// How numbers of a preconditioner are stored.
    Precision { Auto = 0 "auto", F64 = 1 "f64", F32 = 2 "f32", Bf16 = 3 "bf16", Mixed = 4 "mixed", }
    /// How levels are visited.
    Cycle { Auto = 0 "auto", V = 1 "v", Amli = 2 "amli", K = 3 "k", Aggregation = 4 "aggregation", }
    /// Which block waits for which.
    Method {
        ColouredGaussSeidel = 0 "coloured_gauss_seidel",
        BlockJacobi = 1 "block_jacobi",
        ChaoticGaussSeidel = 2 "chaotic_gauss_seidel",
    }
    /// How blocks are solved.
    BlockSolver { Auto = 0 "auto", FastDiagonalization = 1 "fast_diagonalization", Dense = 2 "dense", }
    /// What becomes of blocks cut short by a patch's edge.
    Remainder { Exact = 0 "exact", Overlap = 1 "overlap", }
    /// What threads share.
    Parallel { Auto = 0 "auto", Patch = 1 "patch", Block = 2 "block", Nested = 3 "nested", }
    /// The order of copies and kernels.
    Transfer { Auto = 0 "auto", DepthFirst = 1 "depth_first", BreadthFirst = 2 "breadth_first", }
    /// How a 3D system is preconditioned.
    Preconditioner {
        Auto = 0 "auto", None = 1 "none", Jacobi = 2 "jacobi", Neumann = 3 "neumann", Ic0 = 4 "ic0", Ric = 5 "ric",
        Multigrid = 6 "multigrid", Amg = 7 "amg", Ssor = 8 "ssor", Ilu0 = 9 "ilu0", Chebyshev = 10 "chebyshev",
    }
    /// Which deflation vectors there are, each constant on one region and zero elsewhere.
    Deflation {
        Auto = 0 "auto",
        None = 1 "none",
        /// A region is a box of cells:
        Subdomain = 2 "subdomain",
        /// A region is a label of the caller, or a component of strong couplings:
        Levelset = 3 "levelset",
        /// A region is the part of such a one, or of what is in none, in a box of cells:
        LevelsetSubdomain = 4 "levelset_subdomain",
    }
    /// How systems with the coarse matrix of the deflation are solved.
    CoarseSolver { Auto = 0 "auto", Inverse = 1 "inverse", Cholesky = 2 "cholesky", Cg = 3 "cg", }
    /// What a point of a coarse grid of multigrid is.
    Coarsening { Auto = 0 "auto", Vertex = 1 "vertex", Cell = 2 "cell", }
    /// How a sparse matrix is stored.
    Format {
        /// The format that moves the fewest bytes:
        Auto = 0 "auto",
        Coo = 1 "coo", Csr = 2 "csr", Csc = 3 "csc", Bsr = 4 "bsr", Dia = 5 "dia", Ell = 6 "ell", Sell = 7 "sell",
        Jds = 8 "jds", Tjds = 9 "tjds", Skyline = 10 "skyline", Diagonal = 11 "diagonal",
    }
    /// How a general system is solved.
    Solver {
        Auto = 0 "auto", Jacobi = 1 "jacobi", GaussSeidel = 2 "gauss_seidel", Sor = 3 "sor", Cg = 4 "cg",
        Bicg = 5 "bicg", Minres = 6 "minres", Bicgstab = 7 "bicgstab", Gmres = 8 "gmres", Idr = 9 "idr",
    }
    /// In which order a sweep takes the rows.
    Ordering {
        Natural = 0 "natural",
        /// Rows that no entry of A or A' joins have a colour together:
        Multicolour = 1 "multicolour",
        /// Each block takes old values of the others:
        Blocks = 2 "blocks",
        /// Forward, then back:
        Symmetric = 3 "symmetric",
    }
    /// How a method multiplies with A'.
    Transpose { Auto = 0 "auto", Copy = 1 "copy", None = 2 "none", }
    /// How |a_ii| compares with the sum of the other magnitudes of row i.
    Dominance {
        /// It is smaller in some row:
        None = 0 "none",
        /// It is smaller nowhere:
        Weak = 1 "weak",
        /// The same, it is larger in some row, and every row leads to every other:
        Irreducible = 2 "irreducible",
        /// It is larger everywhere:
        Strict = 3 "strict",
    }
    /// Where a matrix has entries beside the diagonal.
    Triangle {
        /// On both sides of it, or nowhere:
        Both = 0 "both",
        /// Below it alone:
        Lower = 1 "lower",
        /// Above it alone:
        Upper = 2 "upper",
    }
    /// What else a file holds beside a matrix.
    Vector { Rhs = 0 "rhs", Guess = 1 "guess", Solution = 2 "solution", }
    /// How a file holds a matrix.
    FileFormat {
        /// MatrixMarket:
        Mtx = 0 "mtx",
        /// Harwell-Boeing:
        Hb = 1 "hb",
        /// Rutherford-Boeing:
        Rb = 2 "rb",
    }
    /// Why `auto` took what is in use.
    AutoReason {
        /// Preconditioner, coarsening and deflation were given:
        Asked = 0 "asked",
        /// Nothing of what follows:
        Plain = 1 "plain",
        /// The smallest and the largest coupling of a direction are too far apart for multigrid alone, or without it
        /// for boxes that the phases do not cut:
        Contrast = 2 "contrast",
        /// A component of strong couplings is only a few cells across:
        Thin = 3 "thin",
        /// The couplings of a direction are too weak for the finest grid to be coarsened in it:
        Anisotropic = 4 "anisotropic",
        /// Labels of the caller are deflated:
        Labels = 5 "labels",
        /// There are more components of strong couplings than multigrid sees and deflation takes:
        Crowded = 6 "crowded",
    }
    /// Why a solve ended.
    StopReason {
        /// No solve yet:
        None = 0 "none",
        /// The recomputed residual meets the test:
        Converged = 1 "converged",
        /// The guess already met it:
        InitialGuess = 2 "initial_guess",
        /// b = 0:
        ZeroRhs = 3 "zero_rhs",
        /// `max_iter` was reached:
        MaxIter = 4 "max_iter",
        /// The monitor asked:
        Monitor = 5 "monitor",
        /// The recurred residual met the test or is rounding alone; the recomputed one missed it and gets no smaller.
        /// Or the method divides by a number that has vanished, and another may go on:
        Stagnated = 6 "stagnated",
        /// A positive quantity was not:
        Breakdown = 7 "breakdown",
        /// The residual grew beyond `divergence_limit`, or is not finite; x is the guess:
        Diverged = 8 "diverged",
    }
}

/// Devices that share grids, by their CUDA ordinals, in their order; none: one device, that of another option. Each has
/// a byte, its ordinal and one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Devices(u64);

impl Devices {
    /// As many as there are bytes.
    pub const MOST: usize = 8;
    /// One device, of another option.
    pub const NONE: Self = Self(0);

    /// `none`, or ordinals with + between them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self(0));
        }
        let mut devices = Self(0);
        for (place, ordinal) in text.split('+').enumerate() {
            let digits = !ordinal.is_empty() && ordinal.bytes().all(|c| c.is_ascii_digit());
            let ordinal: u8 = ordinal.parse().ok().filter(|_| digits && place < Self::MOST)?;
            if devices.contains(ordinal.into()) {
                return None;
            }
            devices.0 |= u64::from(ordinal.checked_add(1)?) << (8 * place);
        }
        Some(devices)
    }

    /// As an option keeps it.
    pub(super) fn number(self) -> i64 {
        self.0.cast_signed()
    }

    /// The inverse.
    pub(super) fn of_number(number: i64) -> Self {
        Self(number.cast_unsigned())
    }

    /// Ordinals in their order.
    pub fn ordinals(self) -> impl Iterator<Item = i64> {
        self.0.to_le_bytes().into_iter().take_while(|byte| *byte > 0).map(|byte| i64::from(byte) - 1)
    }

    /// One of them.
    #[must_use]
    pub fn contains(self, ordinal: i64) -> bool {
        self.ordinals().any(|own| own == ordinal)
    }
}

impl std::fmt::Display for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        for (place, ordinal) in self.ordinals().enumerate() {
            write!(f, "{}{ordinal}", if place > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_devices() {
        let of = |text: &str| Devices::parse(text).map(|devices| devices.ordinals().collect::<Vec<_>>());
        assert_eq!(of("none"), Some(Vec::new()));
        assert_eq!(of("3"), Some(vec![3]));
        assert_eq!(of("1+0+254"), Some(vec![1, 0, 254]));
        assert_eq!(Devices::parse("1+0+254").map(|devices| devices.to_string()).as_deref(), Some("1+0+254"));
        assert_eq!(of("0+1+2+3+4+5+6+7").map(|list| list.len()), Some(8));
        for wrong in ["", "+", "0+", "0+0", "-1", "0,1", "255", "1e0", "0+1+2+3+4+5+6+7+8", "+1"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}

//! Statuses of the C ABI and the errors behind them. A leaf: depends on nothing else in the crate.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

/// Result of every fallible function of the crate.
pub type Result<T> = std::result::Result<T, Error>;

/// One status of the C ABI: zero done, positive finished with a caveat, negative failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusEntry {
    /// Name in C and Fortran.
    pub name: &'static str,
    /// Value in C and Fortran.
    pub value: i32,
    /// What it means, for the documentation.
    pub doc: &'static str,
    /// Name and meaning for `rrbsolver_status_string`, ended by NUL.
    pub text: &'static str,
}

macro_rules! statuses {
    ($($name:ident = $value:literal, $doc:literal;)*) => {
        $(#[doc = $doc] pub const $name: i32 = $value;)*
        /// Every status, in the order of the documentation.
        pub static STATUSES: &[StatusEntry] = &[
            $(StatusEntry {
                name: stringify!($name),
                value: $value,
                doc: $doc,
                text: concat!(stringify!($name), ": ", $doc, "\0"),
            },)*
        ];
    };
}

// Explicit and append-only: a number that was published never changes its meaning.
statuses! {
    RRB_OK = 0, "done";
    RRB_NOT_CONVERGED = 1, "the tolerance was not reached; x is the last iterate, or a better one";
    RRB_STOPPED = 2, "a callback asked to stop; x (or u) is the iterate at the stop";
    RRB_ERR_NULL = -1, "a required pointer is NULL";
    RRB_ERR_ARGUMENT = -2, "a value is out of range, or arrays overlap";
    RRB_ERR_DIMENSION = -3, "an extent is below 1, or their product is too large";
    RRB_ERR_OPTION = -4, "unknown option key, option name or choice";
    RRB_ERR_STATE = -5, "calls in the wrong order: factorize (smoother_: set_patches) must come (again) first";
    RRB_ERR_UNSUPPORTED = -6, "not offered by this build or this method";
    RRB_ERR_MATRIX = -20, "zero or negative center or pivot, or a singular block";
    RRB_ERR_NOT_FINITE = -21, "NaN or infinity in an input array, or a result too large for a double";
    RRB_ERR_BREAKDOWN = -22, "the matrix or the preconditioner is indefinite; x is as given";
    RRB_ERR_INCOMPATIBLE = -23, "singular system whose right-hand side has a component in the null space";
    RRB_ERR_RANGE = -24, "the result is too small for a double: its values would underflow";
    RRB_ERR_MEMORY = -30, "out of memory, or above a memory limit";
    RRB_ERR_NO_DEVICE = -40, "no CUDA driver or device";
    RRB_ERR_DEVICE = -41, "the CUDA driver reported an error";
    RRB_ERR_IO = -50, "a file could not be read or written";
    RRB_ERR_PARSE = -51, "a file or text could not be understood";
    RRB_ERR_INTERNAL = -99, "a defect of this library";
}

/// What went wrong. Indices are 0-based here; [`Error::sentence`] prints them from the caller's base.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A required pointer is NULL.
    Null(&'static str),
    /// An array whose address none of its values can have.
    Alignment(&'static str),
    /// A value outside its allowed range.
    Range {
        /// Name of the value.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is allowed, as in "rel_tol must lie in (0, 1)".
        allowed: String,
    },
    /// Two arrays of one call overlap.
    Overlap {
        /// Name of the one.
        first: &'static str,
        /// Name of the other.
        second: &'static str,
    },
    /// An extent below 1, or a product that overflows.
    Dimension(String),
    /// Unknown option key or name.
    Option(String),
    /// Calls in the wrong order.
    State(String),
    /// Not offered.
    Unsupported(String),
    /// A row or a pivot that no symmetric positive definite matrix has.
    Matrix {
        /// What is wrong, with its value.
        reason: String,
        /// RRB level of the pivot; 0 is the matrix as given.
        level: usize,
        /// Column of the node.
        i: usize,
        /// Row of the node.
        j: usize,
    },
    /// NaN or infinity in an input.
    NotFinite {
        /// Name of the array.
        name: &'static str,
        /// The value found.
        value: f64,
        /// Column of the first such entry.
        i: usize,
        /// Row of the first such entry.
        j: usize,
    },
    /// A coupling that points out of the grid, where such are refused.
    Outward {
        /// Name of the array.
        name: &'static str,
        /// The value found.
        value: f64,
        /// Column of the first such entry.
        i: usize,
        /// Row of the first such entry.
        j: usize,
    },
    /// Every center is negative.
    NegativeCenters {
        /// The first one.
        value: f64,
    },
    /// NaN or infinity in a short list.
    NotFiniteEntry {
        /// Name of the list.
        name: &'static str,
        /// The value found.
        value: f64,
        /// Its place.
        index: usize,
    },
    /// The pointer of a patch is NULL.
    NullOfPatch {
        /// Name of the array.
        name: &'static str,
        /// Number of the patch.
        patch: usize,
    },
    /// An array of a patch lies in a space where it cannot be used.
    SpaceOfPatch {
        /// Name of the array.
        name: &'static str,
        /// Number of the patch.
        patch: usize,
        /// Where it is.
        place: String,
        /// Where it must be.
        allowed: String,
    },
    /// Arrays of patches overlap.
    OverlapOfPatches {
        /// Name and patch of the one.
        first: (&'static str, usize),
        /// Name and patch of the other.
        second: (&'static str, usize),
    },
    /// A patch begins too far out.
    PatchLower {
        /// Number of the patch.
        patch: usize,
        /// x, y or z.
        axis: &'static str,
        /// What was given.
        lower: i64,
    },
    /// A patch without cells, or with more than can be addressed.
    PatchSize {
        /// Number of the patch.
        patch: usize,
        /// x, y or z.
        axis: &'static str,
        /// What was given.
        size: i64,
    },
    /// NaN or infinity in an array of a patch.
    NotFiniteCell {
        /// Name of the array.
        name: &'static str,
        /// The value found.
        value: f64,
        /// Number of the patch.
        patch: usize,
        /// The cell, in the index space of the level.
        cell: [i64; 3],
    },
    /// The norm of a residual of patches.
    NotFiniteResidual {
        /// Its value.
        norm: f64,
        /// Sweeps before it.
        sweeps: usize,
    },
    /// An array of a patch whose address no double can have.
    AlignmentOfPatch {
        /// Name of the array.
        name: &'static str,
        /// Number of the patch.
        patch: usize,
    },
    /// Two patches cover the same cell.
    Patches {
        /// Number of the one.
        first: usize,
        /// Number of the other.
        second: usize,
    },
    /// Blocks moved inwards (`remainder=overlap`) would be written by several threads at once.
    Overlapping {
        /// A patch with such blocks.
        patch: usize,
    },
    /// A diagonal block that has no inverse.
    Block {
        /// Its cells.
        shape: [usize; 3],
        /// A patch with such a block, and the block's first cell in the index space of the level.
        place: Option<(usize, [i64; 3])>,
    },
    /// A quantity that is positive for definite matrices was not.
    Breakdown {
        /// The quantity, such as "p'Ap".
        quantity: &'static str,
        /// Its value.
        value: f64,
        /// Where it happened.
        iteration: usize,
    },
    /// The result does not fit a double.
    Overflow,
    /// Values of the result would be subnormal, or zero.
    Underflow {
        /// Name of the result.
        output: &'static str,
        /// Name of what it is made of, and its largest magnitude.
        input: (&'static str, f64),
        /// Largest magnitude of the centers.
        center: f64,
    },
    /// Right-hand side of a singular system that is not orthogonal to the null space.
    Incompatible {
        /// Sum of b over the component.
        sum: f64,
        /// Sum of |b| over the component.
        norm1: f64,
        /// Column of the component's first node.
        i: usize,
        /// Row of the component's first node.
        j: usize,
    },
    /// Memory could not be had.
    NoMemory(Refused),
    /// A limit or a device forbids it, or a thread could not be started.
    Memory(String),
    /// A CUDA driver or device is missing.
    NoDevice(String),
    /// The CUDA driver reported an error.
    Device(String),
    /// A file could not be written.
    Io(String),
    /// A defect of this library.
    Internal(String),
}

impl Error {
    /// The status that the C ABI answers.
    #[must_use]
    pub fn status(&self) -> i32 {
        match self {
            Self::Null(_) | Self::NullOfPatch { .. } => RRB_ERR_NULL,
            Self::Range { .. }
            | Self::Alignment(_)
            | Self::Overlap { .. }
            | Self::Outward { .. }
            | Self::Patches { .. }
            | Self::OverlapOfPatches { .. }
            | Self::AlignmentOfPatch { .. }
            | Self::SpaceOfPatch { .. } => RRB_ERR_ARGUMENT,
            Self::Dimension(_) | Self::PatchSize { .. } | Self::PatchLower { .. } => RRB_ERR_DIMENSION,
            Self::Option(_) => RRB_ERR_OPTION,
            Self::State(_) => RRB_ERR_STATE,
            Self::Unsupported(_) | Self::Overlapping { .. } => RRB_ERR_UNSUPPORTED,
            Self::Matrix { .. } | Self::NegativeCenters { .. } | Self::Block { .. } => RRB_ERR_MATRIX,
            Self::NotFinite { .. } | Self::NotFiniteEntry { .. } | Self::NotFiniteCell { .. } | Self::Overflow => {
                RRB_ERR_NOT_FINITE
            }
            Self::NotFiniteResidual { .. } => RRB_ERR_NOT_FINITE,
            Self::Breakdown { .. } => RRB_ERR_BREAKDOWN,
            Self::Underflow { .. } => RRB_ERR_RANGE,
            Self::Incompatible { .. } => RRB_ERR_INCOMPATIBLE,
            Self::NoMemory(_) | Self::Memory(_) => RRB_ERR_MEMORY,
            Self::NoDevice(_) => RRB_ERR_NO_DEVICE,
            Self::Device(_) => RRB_ERR_DEVICE,
            Self::Io(_) => RRB_ERR_IO,
            Self::Internal(_) => RRB_ERR_INTERNAL,
        }
    }

    /// The sentence for people, with node indices counted from `base` (0 in C, 1 in Fortran).
    #[must_use]
    pub fn sentence(&self, base: i64) -> String {
        let at = |i: usize, j: usize| format!("({}, {})", i as i64 + base, j as i64 + base);
        match self {
            Self::Null(name) => format!("{name} must not be NULL"),
            Self::Alignment(name) => format!("{name} must lie at a multiple of 8 bytes"),
            Self::Range { name, value, allowed } => format!("{name} must {allowed}, got {value}"),
            Self::Overlap { first, second } => {
                format!("the arrays {first} and {second} must not overlap")
            }
            Self::Matrix { reason, level: 0, i, j } => format!("{reason} at {}", at(*i, *j)),
            Self::Matrix { reason, level, i, j } => {
                format!("{reason} at {}, level {level}", at(*i, *j))
            }
            Self::NotFinite { name, value, i, j } => {
                format!("{name} holds {value} at {}; all inputs must be finite", at(*i, *j))
            }
            Self::Outward { name, value, i, j } => format!(
                "{name} must be 0 where it points out of the grid (check_input = 2), got {value} at {}: \
                 is the grid periodic?",
                at(*i, *j)
            ),
            Self::NegativeCenters { value } => format!(
                "center must be positive, got {value} at {}; every center is negative: do your arrays hold -A and -b?",
                at(0, 0)
            ),
            Self::NotFiniteEntry { name, value, index } => {
                format!("{name} holds {value} at {}; all inputs must be finite", *index as i64 + base)
            }
            Self::NullOfPatch { name, patch } => format!("{name} of patch {} must not be NULL", *patch as i64 + base),
            Self::AlignmentOfPatch { name, patch } => {
                format!("{name} of patch {} must lie at a multiple of 8 bytes", *patch as i64 + base)
            }
            Self::SpaceOfPatch { name, patch, place, allowed } => {
                format!("{name} of patch {} must lie {allowed}, got an array on {place}", *patch as i64 + base)
            }
            Self::OverlapOfPatches { first: (a, p), second: (b, q) } => format!(
                "the arrays {a} of patch {} and {b} of patch {} must not overlap",
                *p as i64 + base,
                *q as i64 + base
            ),
            Self::PatchSize { patch, axis, size } if *size < 1 => {
                format!("the size of patch {} in {axis} must be at least 1, got {size}", *patch as i64 + base)
            }
            Self::PatchLower { patch, axis, lower } => {
                format!("lower of patch {} in {axis} must lie in [-2^60, 2^60], got {lower}", *patch as i64 + base)
            }
            Self::PatchSize { patch, axis, size } => {
                format!("patch {} is too large to be counted: its size in {axis} is {size}", *patch as i64 + base)
            }
            Self::NotFiniteCell { name, value, patch, cell: [i, j, k] } => format!(
                "{name} holds {value} in cell ({i}, {j}, {k}) of patch {}; all inputs must be finite",
                *patch as i64 + base
            ),
            Self::NotFiniteResidual { norm, sweeps } => format!(
                "the norm of the residual after {sweeps} sweeps is {norm}: \
                 its values are too large for double precision \
                 (scale the input down), or ghost cells are not finite"
            ),
            Self::Patches { first, second } => {
                format!("the patches {} and {} overlap", *first as i64 + base, *second as i64 + base)
            }
            Self::Overlapping { patch } => format!(
                "remainder = overlap: blocks of patch {} that are cut short would overlap others and be written at the \
                 same time; use remainder = exact, or method = chaotic_gauss_seidel with parallel = patch",
                *patch as i64 + base
            ),
            Self::Block { shape: [x, y, z], place: None } => format!("the block of {x} x {y} x {z} cells is singular"),
            Self::Block { shape: [x, y, z], place: Some((patch, [i, j, k])) } => format!(
                "the block of {x} x {y} x {z} cells at ({i}, {j}, {k}) of patch {} is singular",
                *patch as i64 + base
            ),
            Self::Breakdown { quantity, value, iteration } if !value.is_finite() => format!(
                "{quantity} = {value} in iteration {iteration}: numbers of this system are too large for double \
                 precision, \
                 or for single where precision is not f64"
            ),
            Self::Breakdown { quantity, value, iteration } => format!(
                "{quantity} = {value:e} in iteration {iteration} must be positive: \
                 the matrix or the preconditioner is indefinite"
            ),
            Self::Overflow => {
                "the result would hold values too large for double precision: scale the input down".to_owned()
            }
            Self::Underflow { output, input: (name, input), center } => format!(
                "{output} would underflow: max abs({name}) / max abs(center) = {}; scale {name} up",
                quotient(*input, *center)
            ),
            Self::Incompatible { sum, norm1, i, j } => format!(
                "b sums to {sum:e} over the singular component of node {}, \
                 more than 1e-10 of its sum of magnitudes {norm1:e}",
                at(*i, *j)
            ),
            Self::NoMemory(refused) => refused.to_string(),
            Self::Dimension(text)
            | Self::Option(text)
            | Self::State(text)
            | Self::Unsupported(text)
            | Self::Memory(text)
            | Self::NoDevice(text)
            | Self::Device(text)
            | Self::Io(text)
            | Self::Internal(text) => text.clone(),
        }
    }
}

/// a / b of positive numbers in two digits, also where it is no double.
fn quotient(a: f64, b: f64) -> String {
    let log = a.log10() - b.log10();
    let exponent = log.floor();
    match (10.0 * 10f64.powf(log - exponent)).round() / 10.0 {
        ten if ten >= 10.0 => format!("1e{}", exponent + 1.0),
        digits => format!("{digits}e{exponent}"),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(0))
    }
}

impl std::error::Error for Error {}

/// Memory that could not be had. Neither this nor its sentence takes any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Bytes asked for.
    pub bytes: u128,
    /// What for.
    pub what: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no memory for {} bytes of {}", self.bytes, self.what)
    }
}

/// The error where there is no memory for `len` values of `T`.
fn refused<T>(len: usize, what: &'static str) -> Error {
    Error::NoMemory(Refused { bytes: (len as u128) * size_of::<T>() as u128, what })
}

/// Room for exactly `more` values, or [`Error::NoMemory`] naming what they are: the host program must survive a full
/// machine. This and the functions below are the only ways to lists whose length depends on the problem.
pub fn reserve<T>(v: &mut Vec<T>, more: usize, what: &'static str) -> Result<()> {
    v.try_reserve_exact(more).map_err(|_| refused::<T>(v.len().saturating_add(more), what))
}

/// A zeroed vector.
pub fn zeroed<T: Clone + Default>(len: usize, what: &'static str) -> Result<Vec<T>> {
    let mut v = Vec::new();
    reserve(&mut v, len, what)?;
    v.resize(len, T::default());
    Ok(v)
}

/// The same in a vector that is there: its memory is used again where it suffices.
pub fn reset<T: Clone + Default>(v: &mut Vec<T>, len: usize, what: &'static str) -> Result<()> {
    if v.capacity() < len {
        *v = zeroed(len, what)?;
    } else {
        v.clear();
        v.resize(len, T::default());
    }
    Ok(())
}

/// One value more, at the cost of `Vec::push`.
pub fn push<T>(v: &mut Vec<T>, value: T, what: &'static str) -> Result<()> {
    v.try_reserve(1).map_err(|_| refused::<T>(v.len() + 1, what))?;
    v.push(value);
    Ok(())
}

/// All values, behind those that are there.
pub fn extend<T>(v: &mut Vec<T>, values: impl IntoIterator<Item = T>, what: &'static str) -> Result<()> {
    let values = values.into_iter();
    reserve(v, values.size_hint().0, what)?;
    for value in values {
        push(v, value, what)?;
    }
    Ok(())
}

/// A vector of all values.
pub fn collected<T>(values: impl IntoIterator<Item = T>, what: &'static str) -> Result<Vec<T>> {
    let mut v = Vec::new();
    extend(&mut v, values, what)?;
    Ok(v)
}

/// An entry in a map; true: it is new.
pub fn insert<K: Eq + Hash, V>(map: &mut HashMap<K, V>, key: K, value: V, what: &'static str) -> Result<bool> {
    map.try_reserve(1).map_err(|_| refused::<(K, V)>(map.len() + 1, what))?;
    Ok(map.insert(key, value).is_none())
}

/// A copy of text.
pub fn copied(text: &str, what: &'static str) -> Result<String> {
    let mut copy = String::new();
    copy.try_reserve_exact(text.len()).map_err(|_| refused::<u8>(text.len(), what))?;
    copy.push_str(text);
    Ok(copy)
}

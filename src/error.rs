//! Statuses of the C ABI, the errors behind them, and fallible allocation. The only other module of the library that
//! this module uses is `base::pages`.

use crate::base::pages::prefer_large_pages;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::Hash;

/// Result of all fallible functions of the crate.
pub type Result<T> = std::result::Result<T, Error>;

/// One status of the C ABI: zero for success, positive for success with a restriction, negative for failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusEntry {
    /// Name in C and Fortran.
    pub name: &'static str,
    /// Value in C and Fortran.
    pub value: i32,
    /// Meaning, for the documentation.
    pub doc: &'static str,
    /// Name and meaning for `rrbsolver_status_string`, terminated by NUL.
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

// Values are explicit and append-only: a published value never changes its meaning.
statuses! {
    RRB_OK = 0, "success";
    RRB_NOT_CONVERGED = 1, "the tolerance was not reached; x is the last iterate or an earlier iterate with a smaller \
                            residual; rrbsolver_last_error gives the reason";
    RRB_STOPPED = 2, "a callback stopped the call; x (in smoother_, u) is the current iterate";
    RRB_ERR_NULL = -1, "a required pointer is NULL";
    RRB_ERR_ARGUMENT = -2, "an argument is out of range, or arrays overlap";
    RRB_ERR_DIMENSION = -3, "a size is too small, sizes are inconsistent, or the product of sizes is too large";
    RRB_ERR_OPTION = -4, "the key or name of an option, the key of a result, or a choice is unknown";
    RRB_ERR_STATE = -5, "the order of calls is wrong; call factorize (in smoother_, set_patches) first";
    RRB_ERR_UNSUPPORTED = -6, "the call is not supported by this build, backend or method";
    RRB_ERR_MATRIX = -20, "a center or pivot is not positive, or a block is singular; sparse_ also returns this \
                           status if the matrix is not symmetric or a row is empty";
    RRB_ERR_NOT_FINITE = -21, "an input array contains NaN or infinity, or a result overflows";
    RRB_ERR_BREAKDOWN = -22, "the matrix or the preconditioner is indefinite; x is unchanged";
    RRB_ERR_INCOMPATIBLE = -23, "the system is singular, and its right-hand side has a component in the null space";
    RRB_ERR_RANGE = -24, "a result underflows";
    RRB_ERR_MEMORY = -30, "there is not enough memory, or a memory limit is exceeded";
    RRB_ERR_NO_DEVICE = -40, "there is no CUDA driver or no CUDA device";
    RRB_ERR_DEVICE = -41, "the CUDA driver reported an error";
    RRB_ERR_IO = -50, "a file cannot be read or written";
    RRB_ERR_PARSE = -51, "a file or text cannot be parsed";
    RRB_ERR_COMMUNICATION = -60, "another rank is missing or late; x is unchanged, and the only valid call with the \
                                  handle is destroy";
    RRB_ERR_INTERNAL = -99, "internal error, which is a bug in this library";
}

/// What a [`Location`] refers to, with its indices, which count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LocationKind {
    /// Level, row and column; level 0 is the input matrix.
    Node(usize, usize, usize),
    /// Plane, row and column of a cell in a box.
    Point(usize, usize, usize),
    Entry(usize),
    Patch(usize),
    Patches(usize, usize),
    /// A patch, and a cell in the caller's index space of the level.
    Cell(usize, [i64; 3]),
}

/// Location of an error in the caller's data. In messages, indices count from 0 unless [`Error::set_base`] sets another
/// base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    kind: LocationKind,
    base: i64,
}

impl Location {
    /// Node (i, j) of the finest grid, for an error on RRB level `level`.
    #[must_use]
    pub fn node(level: usize, i: usize, j: usize) -> Self {
        LocationKind::Node(level, j, i).into()
    }

    /// Returns level, column and row, if the location is a node.
    #[must_use]
    pub fn as_node(self) -> Option<(usize, usize, usize)> {
        if let LocationKind::Node(level, j, i) = self.kind { Some((level, i, j)) } else { None }
    }

    /// Cell (i, j, k) of a box.
    #[must_use]
    pub fn point(i: usize, j: usize, k: usize) -> Self {
        LocationKind::Point(k, j, i).into()
    }

    /// Entry of an array.
    #[must_use]
    pub fn entry(index: usize) -> Self {
        LocationKind::Entry(index).into()
    }

    /// Patch in a list of patches.
    #[must_use]
    pub fn patch(patch: usize) -> Self {
        LocationKind::Patch(patch).into()
    }

    /// Two patches in a list of patches.
    #[must_use]
    pub fn patches(first: usize, second: usize) -> Self {
        LocationKind::Patches(first, second).into()
    }

    /// Cell of a patch, in the index space of the level.
    #[must_use]
    pub fn cell(patch: usize, cell: [i64; 3]) -> Self {
        LocationKind::Cell(patch, cell).into()
    }
}

impl From<LocationKind> for Location {
    fn from(kind: LocationKind) -> Self {
        Self { kind, base: 0 }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from_base = |index: usize| index as i64 + self.base;
        match self.kind {
            LocationKind::Node(level, j, i) => {
                write!(f, "({}, {})", from_base(i), from_base(j))?;
                if level > 0 { write!(f, ", level {level}") } else { Ok(()) }
            }
            LocationKind::Point(k, j, i) => write!(f, "({}, {}, {})", from_base(i), from_base(j), from_base(k)),
            LocationKind::Entry(index) => write!(f, "{}", from_base(index)),
            LocationKind::Patch(patch) => write!(f, "patch {}", from_base(patch)),
            LocationKind::Patches(first, second) => write!(f, "patches {} and {}", from_base(first), from_base(second)),
            LocationKind::Cell(patch, [i, j, k]) => write!(f, "({i}, {j}, {k}) of patch {}", from_base(patch)),
        }
    }
}

/// Name of a value or an array of the caller. If the array belongs to a patch, the index of this patch is also stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentName {
    name: &'static str,
    patch: Option<usize>,
    base: i64,
}

impl ArgumentName {
    /// Name of the array of one patch.
    #[must_use]
    pub fn of_patch(name: &'static str, patch: usize) -> Self {
        Self { name, patch: Some(patch), base: 0 }
    }
}

impl From<&'static str> for ArgumentName {
    fn from(name: &'static str) -> Self {
        Self { name, patch: None, base: 0 }
    }
}

impl fmt::Display for ArgumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.patch.map_or(Ok(()), |patch| write!(f, " of patch {}", patch as i64 + self.base))
    }
}

/// An error of the library. `Display` formats the error message for users.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A required pointer is NULL.
    #[error("{0} must not be NULL")]
    Null(ArgumentName),
    /// An array whose address is not a multiple of the element size.
    #[error("{0} must be {1}-byte aligned")]
    Alignment(ArgumentName, usize),
    /// Two arrays of one call overlap.
    #[error("the arrays {0} and {1} must not overlap")]
    Overlap(ArgumentName, ArgumentName),
    /// A value outside its allowed range.
    #[error("{name} must {allowed}, got {value}")]
    Range {
        /// Name of the value.
        name: ArgumentName,
        /// The value that the caller passed.
        value: String,
        /// Allowed values: the part of the message after "must", such as "lie in (0, 1)".
        allowed: Cow<'static, str>,
    },
    /// Values that are inconsistent with each other.
    #[error("{0}")]
    Argument(String),
    /// An error at a location.
    #[error("{text_before}{location}{text_after}")]
    At {
        /// Status of the C ABI.
        status: i32,
        /// Error message before the location.
        text_before: String,
        /// Location.
        location: Location,
        /// Error message after the location.
        text_after: String,
    },
    /// A row, a pivot or a block that cannot occur in a symmetric positive definite matrix.
    #[error("{}{text_after}", format_located_reason(.reason, *.location))]
    Matrix {
        /// Error message with the offending value. The location replaces `@`, or is appended after "at".
        reason: String,
        /// Location, if known.
        location: Option<Location>,
        /// Error message after the location.
        text_after: &'static str,
    },
    /// A size that is too small or too large, or sizes that do not fit together.
    #[error("{0}")]
    Dimension(String),
    /// An unknown key, name or choice of an option, or a key that the call does not accept.
    #[error("{0}")]
    Option(String),
    /// A call that is not possible in the present state of the handle, for example before `factorize`.
    #[error("{0}")]
    State(String),
    /// A request that the library does not support.
    #[error("{0}")]
    Unsupported(String),
    /// A quantity that is positive for definite matrices was not positive, or was infinite or NaN.
    #[error("{quantity} = {}", format_breakdown(*.value, *.iteration))]
    Breakdown {
        /// Name of the quantity, such as "p'Ap".
        quantity: &'static str,
        /// Value of the quantity.
        value: f64,
        /// Iteration of the breakdown.
        iteration: usize,
    },
    /// As `Breakdown`, in a family that has another method for indefinite matrices.
    #[error("{quantity} = {value:e} in iteration {iteration}: {operator_name} is indefinite; use {alternatives}")]
    Indefinite {
        /// Name of the quantity.
        quantity: &'static str,
        /// Operator whose definiteness implies a positive quantity.
        operator_name: &'static str,
        /// Value of the quantity.
        value: f64,
        /// Iteration of the breakdown.
        iteration: usize,
        /// Methods to use instead of cg.
        alternatives: &'static str,
    },
    /// The result exceeds the range of doubles.
    #[error("{0}")]
    Overflow(String),
    /// Values of the result would be subnormal or zero.
    #[error(
        "{output_name} would underflow: max abs({input_name}) / max abs(diagonal of A) = {}; scale {input_name} up",
        format_quotient(*.input_max, *.center_max)
    )]
    Underflow {
        /// Name of the result.
        output_name: &'static str,
        /// Name of the input that the result depends on.
        input_name: &'static str,
        /// Largest magnitude in that input.
        input_max: f64,
        /// Largest magnitude of the centers.
        center_max: f64,
    },
    /// A memory allocation failed.
    #[error("{0}")]
    NoMemory(FailedAllocation),
    /// A memory limit was exceeded, the device has too little memory, or a thread could not be started.
    #[error("{0}")]
    Memory(String),
    /// The CUDA driver is missing or too old, or the requested device does not exist.
    #[error("{0}")]
    NoDevice(String),
    /// The CUDA driver reported an error.
    #[error("{0}")]
    Device(String),
    /// A file could not be opened or written, or shared memory could not be created or opened.
    #[error("{0}")]
    Io(String),
    /// A file could not be read or parsed.
    #[error("{message}")]
    File {
        /// Status of the C ABI.
        status: i32,
        /// Error message with file name and line.
        message: String,
    },
    /// Other ranks did not join the call in time, or a function of the communicator returned an error. All later calls
    /// with the communicator return the same error.
    #[error("{0}")]
    Communication(String),
    /// Another rank returned an error from the collective call.
    #[error(
        "rank {rank}: {text_before}{}{text_after}",
        .location.map_or_else(String::new, |location| location.to_string())
    )]
    OtherRanks {
        /// Lowest rank with an error.
        rank: usize,
        /// Status on that rank.
        status: i32,
        /// Error message before the location.
        text_before: String,
        /// Location.
        location: Option<Location>,
        /// Error message after the location.
        text_after: String,
    },
    /// A defect of this library.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// Creates the error for a value outside its allowed range. `allowed` is the part of the message after "must", such
    /// as "lie in (0, 1)".
    pub fn range(
        name: impl Into<ArgumentName>,
        value: impl fmt::Display,
        allowed: impl Into<Cow<'static, str>>,
    ) -> Self {
        match formatted(value, ERROR_MESSAGE_NAME) {
            Ok(value) => Self::Range { name: name.into(), value, allowed: allowed.into() },
            Err(error) => error,
        }
    }

    /// Creates the error for a location, with its status and the message around the location.
    pub fn at(status: i32, text_before: impl Into<String>, location: Location, text_after: impl Into<String>) -> Self {
        Self::At { status, text_before: text_before.into(), location, text_after: text_after.into() }
    }

    /// If the location of the error is entry k of an array, changes the location to entry `entry(k)`.
    #[must_use]
    pub fn with_entry(mut self, entry: impl Fn(usize) -> usize) -> Self {
        if let Self::At { location: Location { kind: LocationKind::Entry(index), .. }, .. } = &mut self {
            *index = entry(*index);
        }
        self
    }

    /// Creates the error for a row or pivot at node (i, j) that cannot occur in a symmetric positive definite matrix.
    /// Level 0 means the input matrix.
    pub fn matrix(reason: impl Into<String>, level: usize, i: usize, j: usize) -> Self {
        Self::Matrix { reason: reason.into(), location: Some(Location::node(level, i, j)), text_after: "" }
    }

    /// Creates the error for NaN or infinity in an input, at the first such entry.
    pub fn not_finite(name: &'static str, value: f64, location: Location) -> Self {
        let at = if matches!(location.kind, LocationKind::Cell(..)) { "in cell" } else { "at" };
        Self::at(RRB_ERR_NOT_FINITE, format!("{name} holds {value} {at} "), location, "; all inputs must be finite")
    }

    /// Creates the error that rank `rank` has reported with `status`. The message is added later, when that rank sends
    /// it.
    #[must_use]
    pub fn on_other_rank(rank: usize, status: i32) -> Self {
        Self::OtherRanks { rank, status, text_before: String::new(), location: None, text_after: String::new() }
    }

    /// Splits the error message into the text before the location, the location, and the text after it.
    #[must_use]
    pub fn split_message(&self) -> (String, Option<Location>, String) {
        match self {
            Self::At { text_before, location, text_after, .. } => {
                (text_before.clone(), Some(*location), text_after.clone())
            }
            Self::Matrix { reason, location: Some(location), text_after } => match reason.split_once('@') {
                Some((text_before, reason_end)) => {
                    (text_before.to_owned(), Some(*location), format!("{reason_end}{text_after}"))
                }
                None => (format!("{reason} at "), Some(*location), (*text_after).to_owned()),
            },
            other => (other.to_string(), None, String::new()),
        }
    }

    /// Returns the location of an error about the matrix ([`Error::Matrix`]), if known. Locations are ordered by level,
    /// then by node.
    #[must_use]
    pub fn matrix_location(&self) -> Option<Location> {
        if let Self::Matrix { location, .. } = self { *location } else { None }
    }

    /// Sets the base of the caller's indices: 0 in C, 1 in Fortran.
    pub fn set_base(&mut self, base: i64) {
        match self {
            Self::Null(name) | Self::Alignment(name, _) | Self::Range { name, .. } => name.base = base,
            Self::Overlap(first, second) => (first.base, second.base) = (base, base),
            Self::At { location, .. }
            | Self::Matrix { location: Some(location), .. }
            | Self::OtherRanks { location: Some(location), .. } => location.base = base,
            _ => {}
        }
    }

    /// Returns whether the message depends on [`Self::set_base`].
    #[must_use]
    pub fn has_index(&self) -> bool {
        match self {
            Self::Null(name) | Self::Alignment(name, _) | Self::Range { name, .. } => name.patch.is_some(),
            Self::Overlap(first, second) => first.patch.or(second.patch).is_some(),
            Self::At { .. } | Self::Matrix { .. } | Self::OtherRanks { .. } => true,
            _ => false,
        }
    }

    /// Returns whether memory was insufficient or the request is unsupported. `auto` may then select another choice.
    pub fn is_out_of_memory_or_unsupported(&self) -> bool {
        matches!(self, Self::NoMemory(_) | Self::Memory(_) | Self::Unsupported(_))
    }

    /// Returns the status of the C ABI.
    #[must_use]
    pub fn status(&self) -> i32 {
        match self {
            Self::Null(_) => RRB_ERR_NULL,
            Self::Range { .. } | Self::Argument(_) | Self::Alignment(..) | Self::Overlap(..) => RRB_ERR_ARGUMENT,
            Self::At { status, .. } | Self::File { status, .. } | Self::OtherRanks { status, .. } => *status,
            Self::Communication(_) => RRB_ERR_COMMUNICATION,
            Self::Dimension(_) => RRB_ERR_DIMENSION,
            Self::Option(_) => RRB_ERR_OPTION,
            Self::State(_) => RRB_ERR_STATE,
            Self::Unsupported(_) => RRB_ERR_UNSUPPORTED,
            Self::Matrix { .. } => RRB_ERR_MATRIX,
            Self::Overflow(_) => RRB_ERR_NOT_FINITE,
            Self::Breakdown { .. } | Self::Indefinite { .. } => RRB_ERR_BREAKDOWN,
            Self::Underflow { .. } => RRB_ERR_RANGE,
            Self::NoMemory(_) | Self::Memory(_) => RRB_ERR_MEMORY,
            Self::NoDevice(_) => RRB_ERR_NO_DEVICE,
            Self::Device(_) => RRB_ERR_DEVICE,
            Self::Io(_) => RRB_ERR_IO,
            Self::Internal(_) => RRB_ERR_INTERNAL,
        }
    }
}

/// Formats the error message of a matrix with its location.
fn format_located_reason(reason: &str, location: Option<Location>) -> String {
    match (location, reason.split_once('@')) {
        (Some(location), Some((text_before, text_after))) => format!("{text_before}{location}{text_after}"),
        (Some(location), None) => format!("{reason} at {location}"),
        (None, _) => reason.to_owned(),
    }
}

/// Formats a number: without an exponent for moderate magnitudes, with an exponent otherwise.
#[must_use]
pub fn format_number(value: f64) -> impl fmt::Display {
    struct FormattedNumber(f64);
    impl fmt::Display for FormattedNumber {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let (value, magnitude) = (self.0, self.0.abs());
            let is_plain = magnitude == 0.0 || !magnitude.is_finite() || (1e-5..1e16).contains(&magnitude);
            if is_plain { write!(f, "{value}") } else { write!(f, "{value:e}") }
        }
    }
    FormattedNumber(value)
}

/// A separator (field 0) and items (field 1). `Display` writes the items with the separator between them. `Display`
/// allocates memory only if `Display` of an item does.
pub struct Joined<I>(pub &'static str, pub I);

impl<I: Iterator<Item: fmt::Display> + Clone> fmt::Display for Joined<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.1.clone().enumerate().try_for_each(|(p, item)| {
            let separator = if p == 0 { "" } else { self.0 };
            write!(f, "{separator}{item}")
        })
    }
}

/// Formats the text after "quantity = " in the message of `Error::Breakdown`: the value, the iteration and the likely
/// cause.
fn format_breakdown(value: f64, iteration: usize) -> String {
    if value.is_finite() {
        format!("{value:e} in iteration {iteration} must be positive: the matrix or the preconditioner is indefinite")
    } else {
        format!(
            "{value} in iteration {iteration}: the iteration overflows; scale the system, set precision=f64, or \
             check whether the matrix is singular"
        )
    }
}

/// Formats a / b for positive numbers with two digits, even if the quotient overflows or underflows.
fn format_quotient(a: f64, b: f64) -> String {
    let log10_quotient = a.log10() - b.log10();
    let exponent = log10_quotient.floor();
    match (10.0 * 10f64.powf(log10_quotient - exponent)).round() / 10.0 {
        rounded_digits if rounded_digits >= 10.0 => format!("1e{}", exponent + 1.0),
        digits => format!("{digits}e{exponent}"),
    }
}

/// A failed allocation. Neither this value nor its error message allocates memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAllocation {
    /// Requested bytes; 0 if unknown.
    pub bytes: u128,
    /// Name of the data.
    pub allocation_name: &'static str,
}

impl fmt::Display for FailedAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            0 => write!(f, "failed to allocate memory for {}", self.allocation_name),
            bytes => write!(f, "failed to allocate {bytes} bytes for {}", self.allocation_name),
        }
    }
}

/// Creates the error for a failed allocation of `len` values of `T`.
fn no_memory<T>(len: usize, allocation_name: &'static str) -> Error {
    Error::NoMemory(FailedAllocation { bytes: (len as u128) * size_of::<T>() as u128, allocation_name })
}

/// Reserves memory for exactly `additional` further values, or returns [`Error::NoMemory`] with the name
/// `allocation_name`.
///
/// The host program must survive exhausted memory. All vectors whose length depends on the problem are therefore
/// allocated with this function or with the functions below.
pub fn reserve<T>(v: &mut Vec<T>, additional: usize, allocation_name: &'static str) -> Result<()> {
    v.try_reserve_exact(additional).map_err(|_| no_memory::<T>(v.len().saturating_add(additional), allocation_name))?;
    prefer_large_pages(v.spare_capacity_mut());
    Ok(())
}

/// Allocates a vector of `len` default values.
pub fn zeroed<T: Clone + Default>(len: usize, allocation_name: &'static str) -> Result<Vec<T>> {
    let mut v = Vec::new();
    reserve(&mut v, len, allocation_name)?;
    v.resize(len, T::default());
    Ok(v)
}

/// Sets a vector to `len` default values. Its memory is reused if the capacity suffices.
pub fn reset<T: Clone + Default>(v: &mut Vec<T>, len: usize, allocation_name: &'static str) -> Result<()> {
    if v.capacity() < len {
        *v = zeroed(len, allocation_name)?;
    } else {
        v.clear();
        v.resize(len, T::default());
    }
    Ok(())
}

/// Appends a value. The amortized cost equals that of `Vec::push`.
pub fn push<T>(v: &mut Vec<T>, value: T, allocation_name: &'static str) -> Result<()> {
    v.try_reserve(1).map_err(|_| no_memory::<T>(v.len() + 1, allocation_name))?;
    v.push(value);
    Ok(())
}

/// Appends all values.
pub fn extend<T>(v: &mut Vec<T>, values: impl IntoIterator<Item = T>, allocation_name: &'static str) -> Result<()> {
    let values = values.into_iter();
    reserve(v, values.size_hint().0, allocation_name)?;
    for value in values {
        push(v, value, allocation_name)?;
    }
    Ok(())
}

/// Collects all values into a new vector.
pub fn collected<T>(values: impl IntoIterator<Item = T>, allocation_name: &'static str) -> Result<Vec<T>> {
    let mut v = Vec::new();
    extend(&mut v, values, allocation_name)?;
    Ok(v)
}

/// Inserts an entry into a map. Returns true if the key is new.
pub fn insert<K: Eq + Hash, V>(
    map: &mut HashMap<K, V>,
    key: K,
    value: V,
    allocation_name: &'static str,
) -> Result<bool> {
    map.try_reserve(1).map_err(|_| no_memory::<(K, V)>(map.len() + 1, allocation_name))?;
    Ok(map.insert(key, value).is_none())
}

/// Name of the allocation in `NoMemory` errors, if the memory of an error message cannot be allocated.
pub const ERROR_MESSAGE_NAME: &str = "an error message";

/// Formats a value into a string, with fallible allocation. `Display` of the value must not allocate memory.
pub fn formatted(value: impl fmt::Display, allocation_name: &'static str) -> Result<String> {
    struct Length(usize);
    impl fmt::Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let (mut length, mut text) = (Length(0), String::new());
    // Neither of the two writers can fail.
    let _ = write!(length, "{value}");
    text.try_reserve_exact(length.0).map_err(|_| no_memory::<u8>(length.0, allocation_name))?;
    let _ = write!(text, "{value}");
    Ok(text)
}

//! Allowed ranges of options in words. `Display` allocates no memory, so that error messages can be formatted when
//! memory is exhausted.

use super::table::{Kind, OptionEntry};
use crate::error::{ERROR_MESSAGE_NAME, Error, Joined, formatted};
use std::fmt;

/// The allowed range in words, for error messages and the documentation.
#[derive(Clone, Copy, Debug)]
pub struct AllowedRange<'a>(pub &'a Kind);

impl AllowedRange<'_> {
    /// Returns whether `Display` writes an interval, such as "in [0, 1]".
    #[must_use]
    pub fn is_interval(&self) -> bool {
        match *self.0 {
            Kind::Int { max, multiple, .. } => multiple <= 1 && max != i64::MAX,
            Kind::Real { max, excludes_bounds, .. } => excludes_bounds || max != f64::MAX,
            Kind::Choice(_) | Kind::Text { .. } => false,
        }
    }
}

impl fmt::Display for AllowedRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            Kind::Int { min, max, multiple, .. } => {
                if multiple > 1 {
                    write!(f, "a multiple of {multiple} ")?;
                }
                if max == i64::MAX { write!(f, ">= {min}") } else { write!(f, "in [{min}, {max}]") }
            }
            Kind::Real { min, max, excludes_bounds: true, .. } => write!(f, "in ({min}, {max})"),
            Kind::Real { min, max: f64::MAX, .. } => write!(f, ">= {min} and finite"),
            Kind::Real { min, max, .. } => write!(f, "in [{min}, {max}]"),
            Kind::Choice(names) => write!(f, "one of {}", Joined(", ", names.iter().map(|&(n, _)| n))),
            Kind::Text { range, .. } => f.write_str(range),
        }
    }
}

/// Returns the error for a value outside the range of an option.
pub(super) fn range_error(option: &OptionEntry, kind: Kind, value: impl fmt::Display) -> Error {
    let range = AllowedRange(&kind);
    let allowed = match kind {
        Kind::Choice(names) => formatted(
            format_args!("be one of {}", Joined(", ", names.iter().copied().map(NumberedChoice))),
            ERROR_MESSAGE_NAME,
        ),
        _ if range.is_interval() => formatted(format_args!("lie {range}"), ERROR_MESSAGE_NAME),
        _ => formatted(format_args!("be {range}"), ERROR_MESSAGE_NAME),
    };
    allowed.map_or_else(|error| error, |allowed| Error::range(option.name, value, allowed))
}

/// A choice. `Display` writes its number and name, such as "1 (v)".
struct NumberedChoice((&'static str, i64));

impl fmt::Display for NumberedChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, number) = self.0;
        write!(f, "{number} ({name})")
    }
}

//! Validation of the caller's arrays.

use crate::base::index::Indices;
use crate::error::{Error, Place, RRB_ERR_ARGUMENT, Result};

/// Returns the error for entry k of the array `name`, whose `value` is invalid. `must` states the requirement.
pub fn wrong(name: &str, k: usize, must: impl std::fmt::Display, value: i64) -> Error {
    Error::at(RRB_ERR_ARGUMENT, "entry ", Place::entry(k), format!(" of {name} must {must}, got {value}"))
}

/// Checks that the pointers begin with the base, never decrease, and end with the number of entries plus the base.
pub fn check_pointers(name: &str, ptr: Indices, base: i64, count: usize) -> Result<()> {
    let narrow = matches!(ptr, Indices::Narrow(_));
    let last = ptr.len() - 1;
    let wrong = |k: usize, must: String| {
        let value = ptr.get(k);
        let hint = if narrow && value < 0 { " (2^31 entries or more need 8-byte integers)" } else { ptr.width_hint(k) };
        Err(wrong(name, k, must + hint, value))
    };
    if ptr.get(0) != base {
        let hint = if ptr.get(0) == 1 - base { format!(" (or is base {}?)", 1 - base) } else { String::new() };
        return wrong(0, format!("be the base, {base}{hint}"));
    }
    for k in 1..=last {
        let before = ptr.get(k - 1);
        if ptr.get(k) < before {
            return wrong(k, format!("be at least the previous one, {before}"));
        }
    }
    let (end, found) = (count as i64 + base, ptr.get(last));
    if found == end {
        return Ok(());
    }
    let hint = match found < end {
        true => format!(" (of larger arrays, pass only the first {} entries)", found - base),
        false => String::new(),
    };
    wrong(last, format!("be the number of entries + base = {end}{hint}"))
}

/// Checks that row or column indices are inside the matrix.
pub fn check_indices(name: &str, places: Indices, base: i64, extent: usize) -> Result<()> {
    let end = base + extent as i64;
    let Some(k) = (0..places.len()).find(|&k| !(base..end).contains(&places.get(k))) else { return Ok(()) };
    let value = places.get(k);
    let hint = match (base, value) {
        (0, v) if v == end => " (or is base 1?)",
        (1, 0) => " (or is base 0?)",
        _ => places.width_hint(k),
    };
    let must = if extent == 0 { "not be there".to_owned() } else { format!("lie in [{base}, {}]{hint}", end - 1) };
    Err(wrong(name, k, must, value))
}

/// Checks that all values are finite.
pub fn check_values(values: &[f64]) -> Result<()> {
    check_finite("values", values)
}

/// Checks that all values of the array `name` are finite.
pub fn check_finite(name: &'static str, values: &[f64]) -> Result<()> {
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(k) => Err(Error::not_finite(name, values[k], Place::entry(k))),
    }
}

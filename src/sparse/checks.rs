//! Validation of the caller's arrays.

use crate::base::index::Indices;
use crate::error::{Error, Location, RRB_ERR_ARGUMENT, Result};

/// Returns the error for entry k of the array `name`, whose `value` is invalid. `requirement` completes the error
/// message "entry k of name must ...".
pub fn invalid_entry_error(name: &str, k: usize, requirement: impl std::fmt::Display, value: i64) -> Error {
    Error::at(RRB_ERR_ARGUMENT, "entry ", Location::entry(k), format!(" of {name} must {requirement}, got {value}"))
}

/// Checks that the first pointer is the index base, that no pointer is smaller than the previous one, and that the last
/// pointer is the number of entries plus the index base.
pub fn check_pointers(name: &str, ptr: Indices, base: i64, entry_count: usize) -> Result<()> {
    let has_32_bits = matches!(ptr, Indices::Int32(_));
    let last_index = ptr.len() - 1;
    let invalid_pointer = |k: usize, requirement: String| {
        let value = ptr.get(k);
        let hint =
            if has_32_bits && value < 0 { " (2^31 entries or more need 8-byte integers)" } else { ptr.width_hint(k) };
        Err(invalid_entry_error(name, k, requirement + hint, value))
    };
    if ptr.get(0) != base {
        let hint = if ptr.get(0) == 1 - base { format!(" (or is base {}?)", 1 - base) } else { String::new() };
        return invalid_pointer(0, format!("be the base, {base}{hint}"));
    }
    for k in 1..=last_index {
        let previous = ptr.get(k - 1);
        if ptr.get(k) < previous {
            return invalid_pointer(k, format!("be at least the previous one, {previous}"));
        }
    }
    let (expected_end, last_value) = (entry_count as i64 + base, ptr.get(last_index));
    if last_value == expected_end {
        return Ok(());
    }
    let hint = match last_value < expected_end {
        true => format!(" (of larger arrays, pass only the first {} entries)", last_value - base),
        false => String::new(),
    };
    invalid_pointer(last_index, format!("be the number of entries + base = {expected_end}{hint}"))
}

/// Checks that all row or column indices are at least `base` and less than `base` + `extent`. `extent` is the number of
/// rows or columns of the matrix.
pub fn check_indices(name: &str, indices: Indices, base: i64, extent: usize) -> Result<()> {
    let index_end = base + extent as i64;
    let Some(k) = (0..indices.len()).find(|&k| !(base..index_end).contains(&indices.get(k))) else { return Ok(()) };
    let value = indices.get(k);
    let hint = match (base, value) {
        (0, v) if v == index_end => " (or is base 1?)",
        (1, 0) => " (or is base 0?)",
        _ => indices.width_hint(k),
    };
    let requirement =
        if extent == 0 { "not be there".to_owned() } else { format!("lie in [{base}, {}]{hint}", index_end - 1) };
    Err(invalid_entry_error(name, k, requirement, value))
}

/// Checks that all values are finite.
pub fn check_values(values: &[f64]) -> Result<()> {
    check_finite("values", values)
}

/// Checks that all values of the array `name` are finite.
pub fn check_finite(name: &'static str, values: &[f64]) -> Result<()> {
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(k) => Err(Error::not_finite(name, values[k], Location::entry(k))),
    }
}

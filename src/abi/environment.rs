//! Settings from the process environment: thread counts, `RRBSOLVER_OPTIONS`, and warnings about invalid values.

use crate::base::cores::cores_now;
use crate::base::isa::{ISA_VARIABLE, ignored_isa};
use crate::error::{Result, formatted, push};
use std::ffi::CStr;
use std::fmt;

/// Environment variables that set the number of threads if the option `threads` is 0. The first variable with a valid
/// value decides.
const THREAD_VARIABLES: [&CStr; 3] = [c"RRBSOLVER_NUM_THREADS", c"SLURM_CPUS_PER_TASK", c"OMP_NUM_THREADS"];

/// Passes the value of a variable to `read`. Unlike `std::env::var`, this function allocates no memory.
fn with_variable<T>(name: &CStr, read: impl FnOnce(&CStr) -> T) -> Option<T> {
    // SAFETY: the name is NUL-terminated. As with every use of getenv, the host program must not change its environment
    // concurrently.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: the pointer is not NULL, so it points to a NUL-terminated string.
    if value.is_null() { None } else { Some(read(unsafe { CStr::from_ptr(value) })) }
}

/// Passes the value of a variable to `read`, if the value is UTF-8.
fn with_utf8_variable<T>(name: &CStr, read: impl FnOnce(&str) -> T) -> Option<T> {
    with_variable(name, |value| value.to_str().ok().map(read)).flatten()
}

/// Returns the number of threads for the option value `threads = requested`.
pub fn threads(requested: usize) -> usize {
    if requested > 0 {
        return requested;
    }
    THREAD_VARIABLES
        .iter()
        .find_map(|name| with_utf8_variable(name, parse_thread_count).flatten())
        .unwrap_or_else(cores_now)
}

/// Parses a positive count, limited to 4096. If the text contains several values (OMP_NUM_THREADS=4,2), returns the
/// first one.
fn parse_thread_count(text: &str) -> Option<usize> {
    let first_value = text.split(',').next().unwrap_or("");
    first_value.trim().parse().ok().filter(|&n| n > 0).map(|n: usize| n.min(4096))
}

/// Variable with options for all handles of the process.
const OPTIONS_VARIABLE: &CStr = c"RRBSOLVER_OPTIONS";

/// Returns the value of `RRBSOLVER_OPTIONS`, or `None` if the variable is not set or not UTF-8.
pub fn options() -> Result<Option<String>> {
    with_utf8_variable(OPTIONS_VARIABLE, |text| formatted(text, "the value of RRBSOLVER_OPTIONS")).transpose()
}

/// Name of the allocation in error messages.
const WARNINGS_NAME: &str = "warnings about environment variables";

/// Appends a warning.
pub fn push_warning(warnings: &mut Vec<String>, text: fmt::Arguments) -> Result<()> {
    push(warnings, formatted(text, WARNINGS_NAME)?, WARNINGS_NAME)
}

/// Returns warnings about all environment variables whose value is ignored. Wrong entries inside `RRBSOLVER_OPTIONS`
/// are not included; `Base::validate_change` reports them.
pub fn all_warnings() -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let mut push_warning = |text: fmt::Arguments| push_warning(&mut warnings, text);
    for name in [OPTIONS_VARIABLE, ISA_VARIABLE, THREAD_VARIABLES[0]] {
        let variable_name = name.to_str().unwrap_or_default();
        let check_value = |value: &CStr| {
            let Ok(text) = value.to_str() else {
                let bytes = value.to_bytes().escape_ascii();
                return push_warning(format_args!("{variable_name} is not UTF-8 and is ignored, got '{bytes}'"));
            };
            // An empty value counts as an unset variable.
            if text.trim().is_empty() {
                return Ok(());
            }
            if name == ISA_VARIABLE
                && let Some(reason) = ignored_isa(text)
            {
                push_warning(format_args!("{variable_name}: {reason}"))?;
            }
            if name == THREAD_VARIABLES[0] && parse_thread_count(text).is_none() {
                push_warning(format_args!("{variable_name} must be a positive integer, got '{text}'"))?;
            }
            Ok(())
        };
        with_variable(name, check_value).unwrap_or(Ok(()))?;
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_are_parsed_from_text() {
        assert_eq!(parse_thread_count("4"), Some(4));
        assert_eq!(parse_thread_count(" 8 ,2"), Some(8));
        assert_eq!(parse_thread_count("0"), None);
        assert_eq!(parse_thread_count("many"), None);
        assert_eq!(threads(3), 3);
        assert!(threads(0) >= 1);
    }
}

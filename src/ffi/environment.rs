//! What is read from the process environment: thread counts, `RRBSOLVER_OPTIONS`, and what is wrong in it.

use crate::isa::{ISA_VARIABLE, complaint};
use crate::runtime::team::cores_now;
use std::env::VarError;

/// Variables that say how many threads to use, first found wins (`threads = 0`).
const THREAD_VARIABLES: [&str; 3] = ["RRBSOLVER_NUM_THREADS", "SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"];

/// Threads for `threads = requested`.
pub fn threads(requested: usize) -> usize {
    if requested > 0 {
        return requested;
    }
    THREAD_VARIABLES
        .iter()
        .find_map(|name| std::env::var(name).ok().and_then(|text| count(&text)))
        .unwrap_or_else(cores_now)
}

/// A positive count; of a list (OMP_NUM_THREADS=4,2) the outermost level.
fn count(text: &str) -> Option<usize> {
    let first = text.split(',').next().unwrap_or("");
    first.trim().parse().ok().filter(|&n| n > 0).map(|n: usize| n.min(4096))
}

/// Options for every handle of the process.
const OPTIONS_VARIABLE: &str = "RRBSOLVER_OPTIONS";

/// Its value.
pub fn options() -> Option<String> {
    std::env::var(OPTIONS_VARIABLE).ok()
}

/// Sentences about values that are passed over, beside those about entries of `RRBSOLVER_OPTIONS`.
pub fn complaints() -> Vec<String> {
    // An empty value is none.
    let value = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    let instruction_set = value(ISA_VARIABLE).and_then(|name| complaint(&name));
    let threads = value(THREAD_VARIABLES[0]).filter(|text| count(text).is_none());
    let threads = threads.map(|text| format!("{} must be a positive integer, got '{text}'", THREAD_VARIABLES[0]));
    let unreadable = [OPTIONS_VARIABLE, ISA_VARIABLE, THREAD_VARIABLES[0]].into_iter().filter_map(unreadable);
    let readable = instruction_set.map(|sentence| format!("{ISA_VARIABLE}: {sentence}")).into_iter().chain(threads);
    unreadable.chain(readable).collect()
}

/// Why no character of a variable is read.
fn unreadable(name: &str) -> Option<String> {
    match std::env::var(name) {
        Err(VarError::NotUnicode(text)) => {
            Some(format!("{name} is not UTF-8 and is ignored, got '{}'", text.to_string_lossy()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_from_text() {
        assert_eq!(count("4"), Some(4));
        assert_eq!(count(" 8 ,2"), Some(8));
        assert_eq!(count("0"), None);
        assert_eq!(count("many"), None);
        assert_eq!(threads(3), 3);
        assert!(threads(0) >= 1);
    }
}

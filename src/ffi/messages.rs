//! Error messages about handles.

use crate::error::{Error, MESSAGE, formatted};
use crate::options::Family;

/// Why a call must wait for one that makes a core.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    New,
    Failed,
    Changed,
    /// This came after it.
    Given(&'static str),
}

/// A call that needs a core.
pub fn stale(family: Family, stale: Stale) -> Error {
    let (prefix, at) = (family.prefix(), family.setup());
    Error::State(match stale {
        Stale::New => format!("{prefix}{at} must come before this call"),
        Stale::Failed => format!("the last {prefix}{at} failed: it must succeed before this call"),
        Stale::Changed => {
            format!("an option that acts at {at} has changed: {prefix}{at} must come before this call")
        }
        Stale::Given(what) => {
            format!("{what} were set after the last {prefix}{at}: {prefix}{at} must come before this call")
        }
    })
}

/// The threads of a handle are those of the process that made it.
pub fn forked() -> Error {
    let sentence = "the handle was created before a fork: create a new one in the child process";
    formatted(sentence, MESSAGE).map_or_else(|error| error, Error::Unsupported)
}

/// A key that is set.
pub fn is_result(name: &str) -> Error {
    Error::Option(format!("{name} is a result and cannot be set"))
}

/// A key that is read as a whole number.
pub fn is_real(name: &str) -> Error {
    Error::Option(format!("{name} is real: use get_real"))
}

/// A call on boxes.
pub fn no_boxes() -> Error {
    Error::State("a handle of rrb_create has no boxes: call the function without _boxes".to_owned())
}

/// A call without `_boxes`.
pub fn several_boxes(count: usize) -> Error {
    Error::State(format!("this rank has {count} boxes: call the function whose name ends in _boxes"))
}

/// A call on the library's own copies of u and f.
pub fn not_uploaded() -> Error {
    Error::State("u and f are NULL: smoother_upload must come before this call".to_owned())
}

/// A residual of the smoother that is read.
pub fn not_watched(name: &str) -> Error {
    Error::State(format!(
        "{name} is available only after smoother_apply with a monitor; smoother_residual computes a norm"
    ))
}

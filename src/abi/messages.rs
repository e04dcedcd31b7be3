//! Error messages about handles.

use crate::error::{ERROR_MESSAGE_NAME, Error, formatted};
use crate::options::Family;

/// Reason why a call must be preceded by a setup call, which creates the solver object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Staleness {
    /// No setup yet.
    NoSetup,
    /// The last setup failed.
    SetupFailed,
    /// An option that acts at the setup has changed since the last setup.
    OptionChanged,
    /// The caller has set data with this name after the last setup.
    DataSet(&'static str),
}

/// Error of a call that needs an up-to-date solver object.
pub fn stale(family: Family, reason: Staleness) -> Error {
    let (prefix, setup_name) = (family.prefix(), family.setup());
    Error::State(match reason {
        Staleness::NoSetup => format!("{prefix}{setup_name} must come before this call"),
        Staleness::SetupFailed => format!("the last {prefix}{setup_name} failed: it must succeed before this call"),
        Staleness::OptionChanged => {
            format!("an option that acts at {setup_name} has changed: {prefix}{setup_name} must come before this call")
        }
        Staleness::DataSet(data_name) => {
            format!(
                "{data_name} were set after the last {prefix}{setup_name}: {prefix}{setup_name} must come \
                 before this call"
            )
        }
    })
}

/// Error of a call in a process that did not create the handle. The threads of a handle exist only in the process that
/// created it.
pub fn forked_handle() -> Error {
    let message = "the handle was created before a fork: create a new one in the child process";
    formatted(message, ERROR_MESSAGE_NAME).map_or_else(|error| error, Error::Unsupported)
}

/// Error of setting a result.
pub fn cannot_set_result(name: &str) -> Error {
    Error::Option(format!("{name} is a result and cannot be set"))
}

/// Error of reading a real result as an integer.
pub fn cannot_read_real_as_integer(name: &str) -> Error {
    Error::Option(format!("{name} is real: use get_real"))
}

/// Error of a call on boxes with a handle that has no boxes.
pub fn no_boxes() -> Error {
    Error::State("a handle of rrb_create has no boxes: call the function without _boxes".to_owned())
}

/// Error of a call without `_boxes` on a rank with several boxes.
pub fn several_boxes(count: usize) -> Error {
    Error::State(format!("this rank has {count} boxes: call the function whose name ends in _boxes"))
}

/// Error of a call that uses the resident copies of u and f before `smoother_upload` has created them.
pub fn not_uploaded() -> Error {
    Error::State("u and f are NULL: smoother_upload must come before this call".to_owned())
}

/// Error of reading a residual of the smoother that was not computed.
pub fn not_watched(name: &str) -> Error {
    Error::State(format!(
        "{name} is available only after smoother_apply with a monitor; smoother_residual computes a norm"
    ))
}

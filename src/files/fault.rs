//! Errors about a file. If memory for an error message cannot be allocated, the functions return `Error::NoMemory`.

use crate::base::file::Reason;
use crate::error::{Error, FailedAllocation, MESSAGE, RRB_ERR_IO, RRB_ERR_PARSE, formatted};
use std::fmt::Display;

/// Returns a parse error about a line, counted from 1.
pub fn at(line: usize, reason: impl Display) -> Error {
    error_with_status(RRB_ERR_PARSE, line, reason)
}

/// Returns an error about a line, with another status.
pub fn error_with_status(status: i32, line: usize, reason: impl Display) -> Error {
    file_error(status, format_args!("line {line}: {reason}"))
}

/// Returns an error about the whole file.
pub fn file_error(status: i32, reason: impl Display) -> Error {
    formatted(reason, MESSAGE).map_or_else(|error| error, |message| Error::File { status, message })
}

/// Returns the error of a file that cannot be read.
pub fn read_fault(error: std::io::Error) -> Error {
    io_fault("read", error)
}

/// Returns the error of a file that cannot be `what`, which is "read" or "written". If the system lacks memory, returns
/// `Error::NoMemory` of unknown size.
pub fn io_fault(what: &str, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::OutOfMemory {
        return Error::NoMemory(FailedAllocation { bytes: 0, what: "access to a file" });
    }
    file_error(RRB_ERR_IO, format_args!("cannot be {what}: {}", Reason(&error)))
}

/// Error message for complex matrices.
pub const COMPLEX: &str = "complex matrices are not offered; [Re -Im; Im Re] is real";

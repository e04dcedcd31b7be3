//! Errors about a file. If memory for an error message cannot be allocated, the functions return `Error::NoMemory`.

use crate::base::file::IoErrorText;
use crate::error::{ERROR_MESSAGE_NAME, Error, FailedAllocation, RRB_ERR_IO, RRB_ERR_PARSE, formatted};
use std::fmt::Display;

/// Returns a parse error about a line, counted from 1.
pub fn line_error(line: usize, reason: impl Display) -> Error {
    line_error_with_status(RRB_ERR_PARSE, line, reason)
}

/// Returns an error with the status `status` about a line, counted from 1.
pub fn line_error_with_status(status: i32, line: usize, reason: impl Display) -> Error {
    file_error(status, format_args!("line {line}: {reason}"))
}

/// Returns an error about the whole file.
pub fn file_error(status: i32, reason: impl Display) -> Error {
    formatted(reason, ERROR_MESSAGE_NAME).map_or_else(|error| error, |message| Error::File { status, message })
}

/// Returns the error of a file that cannot be read.
pub fn read_error(error: std::io::Error) -> Error {
    io_error("read", error)
}

/// Returns the error "cannot be `operation`", where `operation` is "read" or "written". If the system lacks memory,
/// returns `Error::NoMemory` without a size.
pub fn io_error(operation: &str, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::OutOfMemory {
        return Error::NoMemory(FailedAllocation { bytes: 0, allocation_name: "access to a file" });
    }
    file_error(RRB_ERR_IO, format_args!("cannot be {operation}: {}", IoErrorText(&error)))
}

/// Error message for complex matrices.
pub const COMPLEX_MESSAGE: &str = "complex matrices are not offered; [Re -Im; Im Re] is real";

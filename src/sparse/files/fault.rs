//! Errors about a file. Their memory can be refused, too: then the error is that of the memory.

use crate::error::{Error, MESSAGE, RRB_ERR_IO, RRB_ERR_PARSE, Refused, formatted};
use crate::runtime::file::Reason;
use std::fmt::Display;

/// A line, counted from 1, that cannot be understood.
pub fn at(line: usize, reason: impl Display) -> Error {
    status_at(RRB_ERR_PARSE, line, reason)
}

/// The same with another status.
pub fn status_at(status: i32, line: usize, reason: impl Display) -> Error {
    whole(status, format_args!("line {line}: {reason}"))
}

/// An error about the whole file.
pub fn whole(status: i32, reason: impl Display) -> Error {
    formatted(reason, MESSAGE).map_or_else(|error| error, |message| Error::File { status, message })
}

/// A file that cannot be read.
pub fn read_fault(error: std::io::Error) -> Error {
    io_fault("read", error)
}

/// A file that cannot be read or written. Memory that the system lacks is an error of memory, whose size is unknown.
pub fn io_fault(what: &str, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::OutOfMemory {
        return Error::NoMemory(Refused { bytes: 0, what: "access to a file" });
    }
    whole(RRB_ERR_IO, format_args!("cannot be {what}: {}", Reason(&error)))
}

/// Where complex numbers come.
pub const COMPLEX: &str = "complex matrices are not offered; [Re -Im; Im Re] is real";

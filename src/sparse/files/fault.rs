//! What is wrong with a file.

use crate::error::{Error, RRB_ERR_IO, RRB_ERR_PARSE, Refused};
use crate::runtime::file::LONGEST_PATH;

/// What is wrong, and where.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// In a line, from 1.
    #[error("line {line}: {reason}")]
    At {
        /// The status.
        status: i32,
        /// The line.
        line: usize,
        /// The sentence.
        reason: String,
    },
    /// In the whole of it.
    #[error("{reason}")]
    Whole {
        /// The status.
        status: i32,
        /// The sentence.
        reason: String,
    },
    /// Of no file: no memory.
    #[error(transparent)]
    Library(#[from] Error),
}

/// Of a file, or of what is made of it.
pub type Parsed<T> = Result<T, Fault>;

/// A line that cannot be understood.
pub fn at(line: usize, reason: impl Into<String>) -> Fault {
    status_at(RRB_ERR_PARSE, line, reason)
}

/// The same with another status.
pub fn status_at(status: i32, line: usize, reason: impl Into<String>) -> Fault {
    Fault::At { status, line, reason: reason.into() }
}

/// The whole file.
pub fn whole(status: i32, reason: impl Into<String>) -> Fault {
    Fault::Whole { status, reason: reason.into() }
}

/// A file that cannot be read.
pub fn read_fault(error: std::io::Error) -> Fault {
    io_fault("read", error)
}

/// A file that cannot be read or written. Memory that the system lacks is an error of memory.
pub fn io_fault(what: &str, error: std::io::Error) -> Fault {
    if error.kind() == std::io::ErrorKind::OutOfMemory {
        return Fault::Library(Error::NoMemory(Refused { bytes: LONGEST_PATH as u128, what: "a path" }));
    }
    whole(RRB_ERR_IO, format!("cannot be {what}: {error}"))
}

/// Where complex numbers come.
pub const COMPLEX: &str = "complex matrices are not offered; [Re -Im; Im Re] is real";

//! Matrix files: MatrixMarket, Harwell-Boeing and Rutherford-Boeing, uncompressed or in gzip.

mod array;
mod fault;
mod fortran;
mod gz;
mod harwell;
mod lines;
mod loaded;
mod market;
mod mirror;
mod number;
mod output;
mod short;
mod unpack;
pub mod write;

use crate::base::file;
use crate::base::file::Reason;
use crate::base::workers::Workers;
use crate::error::{Error, RRB_ERR_IO, RRB_ERR_PARSE, Result, reserve, zeroed};
use crate::options::FileFormat;
use crate::sparse::matrix::Matrix;
pub use loaded::{Loaded, Vectors};

use fault::{file_error, io_fault};
use output::Output;
use std::borrow::Borrow;
use std::ffi::{CStr, OsStr};
use std::fmt::Display;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use write::WriteError;

/// Formats a path for an error message. Only the end of a long path is shown.
fn shown(path: &CStr) -> impl Display {
    let path = path.to_bytes();
    OsStr::from_bytes(&path[path.len().saturating_sub(file::LONGEST_PATH)..]).display()
}

/// Adds the path to an error. `Error::NoMemory` is returned unchanged, because a new message would need memory.
fn add_path(path: &CStr, mut error: Error) -> Error {
    if let Error::NoMemory(_) = error {
        return error;
    }
    // File formats count rows and entries from 1.
    error.set_base(1);
    file_error(error.status(), format_args!("{}: {error}", shown(path)))
}

/// Reads a matrix and the vectors that the file contains.
pub fn load(path: &CStr, workers: &mut Workers) -> Result<Loaded> {
    let read = unpack::read_text(path).and_then(|text| parse(&text, workers));
    read.map_err(|error| add_path(path, error))
}

/// Parses the text of a matrix file.
pub fn parse(text: &[u8], workers: &mut Workers) -> Result<Loaded> {
    if text.starts_with(b"%%") {
        return market::parse(text, workers);
    }
    harwell::parse(text, workers).unwrap_or_else(|| {
        Err(file_error(
            RRB_ERR_PARSE,
            "neither MatrixMarket, whose first line is such as '%%MatrixMarket matrix coordinate real general', nor \
             Harwell- or Rutherford-Boeing, whose second line is 5 or 4 counts",
        ))
    })
}

/// Writes a matrix, compressed with gzip if the name ends with .gz. An existing file is replaced when the new one is
/// complete. Until then, and after an error, it is unchanged.
pub fn save(matrix: &dyn Matrix, path: &CStr, format: FileFormat) -> Result<()> {
    let fault = |error: io::Error| add_path(path, io_fault("written", error));
    // A pipe or a device is written directly, because another file cannot replace it.
    if file::mode(path).is_ok_and(|mode| !file::is_regular_file(mode)) {
        return write_to(matrix, file::open_to_write(path).map_err(fault)?, path, format);
    }
    let partial = IncompleteFile::begin(path)?;
    write_to(matrix, partial.file()?, path, format)?;
    partial.finish().map_err(fault)
}

/// An incomplete file next to the file that it will replace. It is removed when this value is dropped before a
/// successful `finish`.
struct IncompleteFile {
    /// The NUL-terminated target name, followed by the NUL-terminated name of this file.
    names: Vec<u8>,
    /// Bytes of the target name, including NUL.
    target: usize,
    file: Option<File>,
}

/// Maximum number of names that are tried for the incomplete file. A name may already belong to a file of a killed
/// process or of another thread.
const MOST_NAMES: usize = 100;
/// Maximum number of bytes appended to the target name, including NUL.
const MOST_ENDING_BYTES: usize = 64;

impl IncompleteFile {
    fn begin(path: &CStr) -> Result<Self> {
        const NAME: &str = "the name of a file";
        let mut buffer = zeroed(file::LONGEST_PATH, NAME)?;
        // Symbolic links are resolved, so that their target is replaced and the links remain. A name that cannot be
        // resolved is used unchanged, as the name of a new file.
        let target = match file::resolved(path, &mut buffer) {
            Ok(target) => target,
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                return Err(add_path(path, io_fault("written", error)));
            }
            Err(_) => path,
        };
        let target = target.to_bytes();
        let mut names = Vec::new();
        reserve(&mut names, 2 * target.len() + 1 + MOST_ENDING_BYTES, NAME)?;
        let mut partial = Self { names, target: target.len() + 1, file: None };
        let mut tried = 0;
        loop {
            partial.names.clear();
            partial.names.extend_from_slice(target);
            partial.names.push(0);
            partial.names.extend_from_slice(target);
            // The buffer has room for two numbers of 20 digits.
            let _ = write!(partial.names, ".{}.{tried}.partial\0", std::process::id());
            match file::create_new(partial.name()) {
                Ok(file) => {
                    partial.file = Some(file);
                    return Ok(partial);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists && tried + 1 < MOST_NAMES => tried += 1,
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                    return Err(add_path(path, io_fault("written", error)));
                }
                Err(error) => {
                    let (name, error) = (shown(partial.name()), Reason(&error));
                    let reason = format_args!("cannot be written, since {name} cannot: {error}");
                    return Err(add_path(path, file_error(RRB_ERR_IO, reason)));
                }
            }
        }
    }

    fn target(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.names).unwrap_or_default()
    }

    fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.names[self.target..]).unwrap_or_default()
    }

    fn file(&self) -> Result<&File> {
        let closed = "a file was closed before all its data were written: write it again, and report this defect";
        self.file.as_ref().ok_or_else(|| Error::Internal(closed.to_owned()))
    }

    /// Copies the permissions of an existing target to this file, and replaces the target by this file.
    fn finish(mut self) -> io::Result<()> {
        if let (Ok(mode), Some(file)) = (file::mode(self.target()), &self.file) {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        file::rename(self.name(), self.target())?;
        self.file = None;
        Ok(())
    }
}

impl Drop for IncompleteFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            // A failed removal is ignored, since the original error is already reported.
            let _ = file::remove(self.name());
        }
    }
}

fn write_to(matrix: &dyn Matrix, file: impl Borrow<File>, path: &CStr, format: FileFormat) -> Result<()> {
    let (name, ending) = path.to_bytes().split_at(path.count_bytes().saturating_sub(3));
    let packed = ending.eq_ignore_ascii_case(b".gz") && !matches!(name.last(), None | Some(b'/'));
    let mut output = Output::new(file.borrow(), packed)?;
    let written = write::write(matrix.any(), format, &mut output).and_then(|()| Ok(output.finish()?));
    written.map_err(|error| match error {
        WriteError::Io(error) => add_path(path, io_fault("written", error)),
        WriteError::Library(error) => error,
    })
}

#[cfg(test)]
mod tests;

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
use crate::base::file::IoErrorText;
use crate::base::workers::Workers;
use crate::error::{Error, RRB_ERR_IO, RRB_ERR_PARSE, Result, reserve, zeroed};
use crate::options::FileFormat;
use crate::sparse::matrix::Matrix;
pub use loaded::{Loaded, Vectors};

use fault::{file_error, io_error};
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
fn path_end(path: &CStr) -> impl Display {
    let path = path.to_bytes();
    OsStr::from_bytes(&path[path.len().saturating_sub(file::MAX_PATH_BYTES)..]).display()
}

/// Adds the path to an error. `Error::NoMemory` is returned unchanged, because a new message would need memory.
fn add_path(path: &CStr, mut error: Error) -> Error {
    if let Error::NoMemory(_) = error {
        return error;
    }
    // File formats count rows and entries from 1.
    error.set_base(1);
    file_error(error.status(), format_args!("{}: {error}", path_end(path)))
}

/// Reads a matrix and the vectors that the file contains.
pub fn load(path: &CStr, workers: &mut Workers) -> Result<Loaded> {
    let load_result = unpack::read_text(path).and_then(|text| parse(&text, workers));
    load_result.map_err(|error| add_path(path, error))
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

/// Writes a matrix, compressed with gzip if the name ends with .gz. An existing file is replaced when the new file is
/// complete. Until then, and after an error, the existing file is unchanged.
pub fn save(matrix: &dyn Matrix, path: &CStr, format: FileFormat) -> Result<()> {
    let write_error = |error: io::Error| add_path(path, io_error("written", error));
    // A pipe or a device file is written directly, because renaming a file would remove the pipe or device file.
    if file::file_mode(path).is_ok_and(|mode| !file::is_regular_file(mode)) {
        return write_to(matrix, file::open_to_write(path).map_err(write_error)?, path, format);
    }
    let incomplete_file = IncompleteFile::create(path)?;
    write_to(matrix, incomplete_file.file()?, path, format)?;
    incomplete_file.replace_target().map_err(write_error)
}

/// An incomplete file next to the file that it will replace. The incomplete file is removed when this value is dropped
/// before a successful `replace_target`.
struct IncompleteFile {
    /// The NUL-terminated target name, followed by the NUL-terminated name of this file.
    names: Vec<u8>,
    /// Number of bytes of the target name, including NUL.
    target_len: usize,
    file: Option<File>,
}

/// Maximum number of names that are tried for the incomplete file. A name may already belong to a file of a killed
/// process or of another thread.
const MAX_NAMES: usize = 100;
/// Maximum number of bytes appended to the target name, including NUL.
const MAX_ENDING_BYTES: usize = 64;

impl IncompleteFile {
    fn create(path: &CStr) -> Result<Self> {
        const ALLOCATION_NAME: &str = "the name of a file";
        let mut buffer = zeroed(file::MAX_PATH_BYTES, ALLOCATION_NAME)?;
        // Symbolic links are resolved, so that their target is replaced and the links remain. A name that cannot be
        // resolved is used unchanged, as the name of a new file.
        let target = match file::resolve_links(path, &mut buffer) {
            Ok(target) => target,
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                return Err(add_path(path, io_error("written", error)));
            }
            Err(_) => path,
        };
        let target = target.to_bytes();
        let mut names = Vec::new();
        reserve(&mut names, 2 * target.len() + 1 + MAX_ENDING_BYTES, ALLOCATION_NAME)?;
        let mut incomplete_file = Self { names, target_len: target.len() + 1, file: None };
        let mut attempt = 0;
        loop {
            incomplete_file.names.clear();
            incomplete_file.names.extend_from_slice(target);
            incomplete_file.names.push(0);
            incomplete_file.names.extend_from_slice(target);
            // The buffer has room for two numbers of 20 digits.
            let _ = write!(incomplete_file.names, ".{}.{attempt}.partial\0", std::process::id());
            match file::create_new(incomplete_file.name()) {
                Ok(file) => {
                    incomplete_file.file = Some(file);
                    return Ok(incomplete_file);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt + 1 < MAX_NAMES => attempt += 1,
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                    return Err(add_path(path, io_error("written", error)));
                }
                Err(error) => {
                    let (name, error) = (path_end(incomplete_file.name()), IoErrorText(&error));
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
        CStr::from_bytes_until_nul(&self.names[self.target_len..]).unwrap_or_default()
    }

    fn file(&self) -> Result<&File> {
        let message = "a file was closed before all its data were written: write it again, and report this defect";
        self.file.as_ref().ok_or_else(|| Error::Internal(message.to_owned()))
    }

    /// Copies the permissions of an existing target to this file, and replaces the target by this file.
    fn replace_target(mut self) -> io::Result<()> {
        if let (Ok(mode), Some(file)) = (file::file_mode(self.target()), &self.file) {
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
    let (name, extension) = path.to_bytes().split_at(path.count_bytes().saturating_sub(3));
    let is_compressed = extension.eq_ignore_ascii_case(b".gz") && !matches!(name.last(), None | Some(b'/'));
    let mut output = Output::new(file.borrow(), is_compressed)?;
    let write_result = write::write(matrix.any_csr(), format, &mut output).and_then(|()| Ok(output.finish()?));
    write_result.map_err(|error| match error {
        WriteError::Io(error) => add_path(path, io_error("written", error)),
        WriteError::Library(error) => error,
    })
}

#[cfg(test)]
mod tests;

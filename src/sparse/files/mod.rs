//! Matrices in files: MatrixMarket, Harwell-Boeing and Rutherford-Boeing, each as it is or in gz.

mod array;
mod fault;
mod fortran;
mod harwell;
mod lines;
mod loaded;
mod market;
mod mirror;
mod number;
mod unpack;
pub mod write;

use super::matrix::Matrix;
use crate::error::{Error, RRB_ERR_IO, RRB_ERR_PARSE, Result};
use crate::options::FileFormat;
use crate::runtime::workers::Workers;
pub use loaded::{Loaded, Vectors};

use fault::{Fault, Parsed, whole};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use write::WriteResult;

/// An error about a file.
fn about(path: &Path, fault: Fault) -> Error {
    let path = path.display().to_string();
    match fault {
        // Of a row or an entry, which files count from 1.
        Fault::Library(mut error @ Error::At { status, .. }) => {
            error.set_base(1);
            Error::File { status, path, reason: error.to_string() }
        }
        Fault::Library(error) => Error::File { status: error.status(), path, reason: error.to_string() },
        Fault::At { status, line, reason } => Error::File { status, path, reason: format!("line {line}: {reason}") },
        Fault::Whole { status, reason } => Error::File { status, path, reason },
    }
}

/// Reads a matrix, and what comes with it.
pub fn load(path: &Path, workers: &mut Workers) -> Result<Loaded> {
    let read = unpack::text(path).and_then(|text| parse(&text, workers));
    read.map_err(|fault| about(path, fault))
}

/// What a text holds.
pub fn parse(text: &[u8], workers: &mut Workers) -> Parsed<Loaded> {
    if text.starts_with(b"%%") {
        return market::parse(text, workers);
    }
    harwell::parse(text, workers).unwrap_or_else(|| {
        Err(whole(
            RRB_ERR_PARSE,
            "neither MatrixMarket, whose first line is such as '%%MatrixMarket matrix coordinate real general', nor \
             Harwell- or Rutherford-Boeing, whose second line is 5 or 4 counts",
        ))
    })
}

/// Writes a matrix, in gz where the name ends with .gz. The file appears when it is whole: one of that name stays as it
/// is until then, and for good where something fails.
pub fn save(matrix: &dyn Matrix, path: &Path, format: FileFormat) -> Result<()> {
    let fault = |error: std::io::Error| about(path, whole(RRB_ERR_IO, format!("cannot be written: {error}")));
    // What is no ordinary file, such as a pipe, can be no other file's new name.
    let whole_at_once = std::fs::metadata(path).map_or(true, |at| at.is_file());
    if !whole_at_once {
        return into(matrix, OpenOptions::new().write(true).open(path).map_err(fault)?, path, format, fault);
    }
    // A link stays one.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (partial, file) = begin(&target).map_err(|(partial, error)| {
        about(path, whole(RRB_ERR_IO, format!("cannot be written, since {} cannot: {error}", partial.display())))
    })?;
    let done = into(matrix, file, path, format, fault).and_then(|()| {
        if let Ok(there) = std::fs::metadata(&target) {
            std::fs::set_permissions(&partial, there.permissions()).map_err(fault)?;
        }
        std::fs::rename(&partial, &target).map_err(fault)
    });
    if done.is_err() {
        // What is left of it is of no use; that it cannot be removed is not worth another sentence.
        let _ = std::fs::remove_file(&partial);
    }
    done
}

/// Names that are tried: one may be left of a process that was killed, or be another thread's.
const NAMES: usize = 100;

/// A new file beside `target`, and its name; or the last name that was tried.
fn begin(target: &Path) -> std::result::Result<(PathBuf, File), (PathBuf, std::io::Error)> {
    let mut tried = 0;
    loop {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}.{tried}.partial", std::process::id()));
        let name = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && tried + 1 < NAMES => tried += 1,
            Err(error) => return Err((name, error)),
        }
    }
}

fn into(
    matrix: &dyn Matrix,
    file: File,
    path: &Path,
    format: FileFormat,
    fault: impl Fn(std::io::Error) -> Error,
) -> Result<()> {
    let mut file = BufWriter::new(file);
    let written: WriteResult = if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz")) {
        let mut packed = GzEncoder::new(&mut file, Compression::default());
        matrix.write(format, &mut packed).and_then(|()| Ok(packed.finish().map(|_| ())?))
    } else {
        matrix.write(format, &mut file)
    };
    match written.and_then(|()| Ok(file.flush()?)) {
        Ok(()) => Ok(()),
        Err(write::WriteError::Io(error)) => Err(fault(error)),
        Err(write::WriteError::Library(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests;

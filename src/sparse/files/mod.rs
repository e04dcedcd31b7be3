//! Matrices in files: MatrixMarket, Harwell-Boeing and Rutherford-Boeing, each as it is or in gz.

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
pub use loaded::{Loaded, Vectors};

use fault::{Fault, whole};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use write::WriteResult;

/// An error about a file.
fn about(path: &Path, fault: Fault) -> Error {
    let path = path.display().to_string();
    match fault {
        Fault::Library(error) => error,
        Fault::At { status, line, reason } => Error::File { status, path, reason: format!("line {line}: {reason}") },
        Fault::Whole { status, reason } => Error::File { status, path, reason },
    }
}

/// Reads a matrix, and what comes with it.
pub fn load(path: &Path) -> Result<Loaded> {
    read(path).map_err(|fault| about(path, fault))
}

fn read(path: &Path) -> std::result::Result<Loaded, Fault> {
    let text = unpack::text(path)?;
    if text.starts_with(b"%%") {
        return market::parse(&text);
    }
    if harwell::is_one(&text) {
        return harwell::parse(&text);
    }
    Err(whole(
        RRB_ERR_PARSE,
        "neither MatrixMarket, whose first line is such as '%%MatrixMarket matrix coordinate real general', nor \
         Harwell- or Rutherford-Boeing, whose second line is 5 or 4 counts",
    ))
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
    let partial = partial(path);
    let file = OpenOptions::new().write(true).create_new(true).open(&partial).map_err(fault)?;
    let done = into(matrix, file, path, format, fault).and_then(|()| std::fs::rename(&partial, path).map_err(fault));
    if done.is_err() {
        // What is left of it is of no use; that it cannot be removed is not worth another sentence.
        let _ = std::fs::remove_file(&partial);
    }
    done
}

/// The name of a file that is not whole yet, beside it.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    name.into()
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

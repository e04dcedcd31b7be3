//! `rrbsolver convert`: a matrix in another file format.

use std::path::Path;

use anyhow::{Result, bail};
use rrbsolver::options::{Choice as _, FileFormat};

use crate::args::{Convert, FileKind};
use crate::input::{Loaded, shape_of};
use crate::library::about;
use crate::{End, spinner};

pub fn run(options: &Convert) -> Result<End> {
    let format = match options.format {
        Some(FileKind::Mtx) => FileFormat::Mtx,
        Some(FileKind::Hb) => FileFormat::Hb,
        Some(FileKind::Rb) => FileFormat::Rb,
        None => by_name(&options.to)?,
    };
    let lacking = |error| about(&options.from, error);
    let (matrix, own_rhs) = Loaded::read(&options.from)?.into_matrix().map_err(lacking)?;
    let progress = spinner(format!("writing {}", options.to.display()));
    matrix.write(&options.to, format.number() as i32)?;
    progress.finish_and_clear();
    say!("{}: {}", options.to.display(), shape_of(&matrix));
    if own_rhs.is_some() {
        eprintln!("rrbsolver: {}: only the matrix is written, without its right-hand side", options.from.display());
    }
    Ok(End::Well)
}

/// Returns the format for a file name.
fn by_name(path: &Path) -> Result<FileFormat> {
    let name = path.to_string_lossy().to_lowercase();
    let ending = name.strip_suffix(".gz").unwrap_or(&name).rsplit_once('.').map_or("", |(_, ending)| ending);
    Ok(match ending {
        "mtx" => FileFormat::Mtx,
        "hb" => FileFormat::Hb,
        "rb" => FileFormat::Rb,
        _ => bail!(
            "{}: unknown format of the file to write: use a name that ends in .mtx, .hb or .rb, or set \
                    --format",
            path.display()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_determine_formats() {
        for (name, format) in [("a.mtx", FileFormat::Mtx), ("x.y/A.HB", FileFormat::Hb), ("b.rb.gz", FileFormat::Rb)] {
            assert_eq!(by_name(Path::new(name)).unwrap(), format, "{name}");
        }
        for name in ["a", "a.gz", "a.mtx.bz2", "mtx"] {
            assert!(by_name(Path::new(name)).unwrap_err().to_string().contains("--format"), "{name}");
        }
    }
}

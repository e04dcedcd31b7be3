//! Input of a command: the matrix and the right-hand side that a user names.

use std::path::Path;

use anyhow::{Result, ensure};
use rrbsolver::options::info;

use crate::library::{Matrix, Plane, Space, System, filled};
use crate::raw::{Stencil, is_raw};
use crate::spinner;

/// Content of a file.
pub enum Loaded {
    Matrix(Matrix),
    Stencil(Stencil),
}

/// A handle that solves, and b if the file has one.
pub struct Problem {
    pub system: Box<dyn System>,
    pub own_rhs: Option<Vec<f64>>,
    /// Extents and entries in words.
    pub shape: String,
}

impl Loaded {
    pub fn read(path: &Path) -> Result<Self> {
        let progress = spinner(format!("reading {}", path.display()));
        let loaded = if is_raw(path) { Self::Stencil(Stencil::read(path)?) } else { Self::Matrix(Matrix::read(path)?) };
        progress.finish_and_clear();
        Ok(loaded)
    }

    /// Converts to a general matrix, and b if the file has one.
    pub fn into_matrix(self) -> Result<(Matrix, Option<Vec<f64>>)> {
        match self {
            Self::Stencil(stencil) => Ok((Matrix::from_rows(&stencil.rows())?, Some(stencil.rhs))),
            Self::Matrix(matrix) => {
                let own_rhs = if matrix.count(info::FILE_RHS) > 0 { Some(matrix.rhs(0)?) } else { None };
                Ok((matrix, own_rhs))
            }
        }
    }

    /// Creates the handle of the suitable family: `rrb_` for 2D stencils, `dpcg_` for 3D stencils, `sparse_` for all
    /// other matrices.
    pub fn into_problem(self) -> Result<Problem> {
        match self {
            Self::Matrix(_) => {
                let (matrix, own_rhs) = self.into_matrix()?;
                let shape = shape_of(&matrix);
                Ok(Problem { system: Box::new(matrix), own_rhs, shape })
            }
            Self::Stencil(mut stencil) => {
                let own_rhs = Some(std::mem::take(&mut stencil.rhs));
                let [nx, ny, nz] = stencil.n;
                let in_space = stencil.in_space();
                let shape = if in_space {
                    format!("stencil of 7 points on {nx} x {ny} x {nz}")
                } else {
                    format!("stencil of 5 points on {nx} x {ny}")
                };
                let system: Box<dyn System> =
                    if in_space { Box::new(Space::new(stencil)?) } else { Box::new(Plane::new(stencil)?) };
                Ok(Problem { system, own_rhs, shape })
            }
        }
    }
}

/// Describes rows, columns and entries in words.
pub fn shape_of(matrix: &Matrix) -> String {
    let entries = counted(matrix.count(info::NONZEROS), "entry", "entries");
    format!("{} x {}, {entries}", matrix.rows(), matrix.cols())
}

/// Formats a number with its noun.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns b (none for ones), and its origin in words. `asked` is the user's choice.
pub fn right_hand_side(
    asked: Option<&Path>,
    own: Option<Vec<f64>>,
    path: &Path,
    rows: usize,
) -> Result<(Option<Vec<f64>>, String)> {
    match (asked, own) {
        (None, Some(own)) => Ok((Some(own), "of the file".to_owned())),
        (Some(name), _) if name.as_os_str() != "ones" => {
            Ok((Some(column(name, path, rows)?), name.display().to_string()))
        }
        _ => Ok((None, "ones".to_owned())),
    }
}

/// Returns the only column of a file as a dense vector.
fn column(name: &Path, path: &Path, rows: usize) -> Result<Vec<f64>> {
    let (shown, of) = (name.display(), path.display());
    let file = Matrix::read(name)?;
    ensure!(
        file.cols() == 1,
        "{shown}: has {} columns; a right-hand side has one: solve one column at a time",
        file.cols()
    );
    ensure!(
        file.rows() == rows,
        "{shown}: has {} values, but {of} has {rows} rows; a right-hand side needs one value per row",
        file.rows()
    );
    let by_rows = file.csr()?;
    let mut b = filled(0.0, rows)?;
    for (row, bounds) in by_rows.ptr.windows(2).enumerate() {
        // At most one entry per row, because duplicates were added.
        let entries = &by_rows.values[bounds[0] as usize..bounds[1] as usize];
        b[row] = entries.iter().sum();
    }
    Ok(b)
}

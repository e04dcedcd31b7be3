//! Builds the matrix from the entries of a file. If the file stores one triangle, the other triangle is added.

use super::fault::{at, error_with_status};
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::error::{RRB_ERR_NOT_FINITE, Result, reserve};
use crate::sparse::assemble::{Assembled, AssemblyError, Triplets};

/// Symmetry that a file states. It determines how the entries that the file omits are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Symmetry {
    /// All entries are stored.
    General,
    Symmetric,
    /// a_ji = -a_ij; the diagonal is 0.
    Skew,
}

/// Name of an allocation in error messages.
const TRIANGLE: &str = "entries of a triangle";

/// Builds the matrix of these entries; `line_of` returns the line of an entry.
pub fn matrix<I: Index>(
    entries: Triplets<I>,
    symmetry: Symmetry,
    [rows, cols]: [usize; 2],
    line_of: impl Fn(usize) -> usize,
    workers: &mut Workers,
) -> Result<Assembled<I>> {
    let mirrored = match symmetry {
        Symmetry::General => None,
        Symmetry::Symmetric => Some(1.0),
        Symmetry::Skew => Some(-1.0),
    };
    if mirrored.is_some()
        && let Some(k) = in_both_triangles(&entries)?
    {
        let (i, j) = (entries.rows[k].at(), entries.cols[k].at());
        let (a, b) = (i.min(j) + 1, i.max(j) + 1);
        return Err(at(line_of(k), format_args!("({a}, {b}) and ({b}, {a}) both given")));
    }
    match entries.matrix(rows, cols, mirrored, workers) {
        Ok(csr) => Ok(Assembled::of_csr(csr)),
        Err(AssemblyError::Sum { last, place: [i, j], sum }) => {
            let (i, j) = (i + 1, j + 1);
            let reason = format_args!("values given at ({i}, {j}) add up to {sum}; all entries must be finite");
            Err(error_with_status(RRB_ERR_NOT_FINITE, line_of(last), reason))
        }
        Err(AssemblyError::Library(error)) => Err(error),
    }
}

/// Returns the first entry whose mirror image is stored before it, if any. A file may store either triangle.
fn in_both_triangles<I: Index>(entries: &Triplets<I>) -> Result<Option<usize>> {
    let mut off_diagonal = 0;
    let mut both = [false; 2];
    for (i, j) in entries.rows.iter().zip(&entries.cols).filter(|(i, j)| i != j) {
        off_diagonal += 1;
        both[usize::from(i < j)] = true;
    }
    if both == [true; 2] { first_mirrored_entry(entries, off_diagonal) } else { Ok(None) }
}

/// Returns the first entry whose mirror image is stored before it. `off_diagonal` is the number of off-diagonal
/// entries.
fn first_mirrored_entry<I: Index>(entries: &Triplets<I>, off_diagonal: usize) -> Result<Option<usize>> {
    let place = |k: usize| {
        let (i, j) = (entries.rows[k], entries.cols[k]);
        (i.max(j), i.min(j))
    };
    let mut order = Vec::new();
    reserve(&mut order, off_diagonal, TRIANGLE)?;
    order.extend((0..entries.values.len()).filter(|&k| entries.rows[k] != entries.cols[k]));
    // The comparison includes the entry number k, so an unstable sort gives the order of a stable one.
    order.sort_unstable_by_key(|&k| (place(k), k));
    let of_one_place = order.chunk_by(|&a, &b| place(a) == place(b));
    let twice = of_one_place.filter_map(|all| all.iter().find(|&&k| entries.rows[k] != entries.rows[all[0]]));
    Ok(twice.min().copied())
}

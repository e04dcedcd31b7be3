//! Builds a matrix from the entries of a file. If the file contains only one triangle of a symmetric or skew-symmetric
//! matrix, adds the other triangle.

use super::fault::{line_error, line_error_with_status};
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::error::{RRB_ERR_NOT_FINITE, Result, reserve};
use crate::sparse::assemble::{AssembledMatrix, AssemblyError, Triplets};

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
const ALLOCATION_NAME: &str = "entries of a triangle";

/// Builds the matrix with the entries `entries`. `line_of(k)` returns the line number of entry k.
pub fn build_matrix<I: Index>(
    entries: Triplets<I>,
    symmetry: Symmetry,
    [rows, cols]: [usize; 2],
    line_of: impl Fn(usize) -> usize,
    workers: &mut Workers,
) -> Result<AssembledMatrix<I>> {
    let mirror_factor = match symmetry {
        Symmetry::General => None,
        Symmetry::Symmetric => Some(1.0),
        Symmetry::Skew => Some(-1.0),
    };
    if mirror_factor.is_some()
        && let Some(k) = find_mirrored_entry(&entries)?
    {
        let (i, j) = (entries.rows[k].to_usize(), entries.cols[k].to_usize());
        let (a, b) = (i.min(j) + 1, i.max(j) + 1);
        return Err(line_error(line_of(k), format_args!("({a}, {b}) and ({b}, {a}) both given")));
    }
    match entries.into_csr(rows, cols, mirror_factor, workers) {
        Ok(csr) => Ok(AssembledMatrix::from_csr(csr)),
        Err(AssemblyError::InfiniteSum { last_duplicate, position: [i, j], sum }) => {
            let (i, j) = (i + 1, j + 1);
            let reason = format_args!("values given at ({i}, {j}) add up to {sum}; all entries must be finite");
            Err(line_error_with_status(RRB_ERR_NOT_FINITE, line_of(last_duplicate), reason))
        }
        Err(AssemblyError::Library(error)) => Err(error),
    }
}

/// Returns the first entry (i, j) for which the file contains an earlier entry (j, i), if any. A file may contain
/// either triangle, but not both.
fn find_mirrored_entry<I: Index>(entries: &Triplets<I>) -> Result<Option<usize>> {
    let mut off_diagonal_count = 0;
    let mut has_triangle = [false; 2];
    for (i, j) in entries.rows.iter().zip(&entries.cols).filter(|(i, j)| i != j) {
        off_diagonal_count += 1;
        has_triangle[usize::from(i < j)] = true;
    }
    if has_triangle == [true; 2] { first_mirrored_entry(entries, off_diagonal_count) } else { Ok(None) }
}

/// Returns the first entry (i, j) for which the file contains an earlier entry (j, i), by sorting. `off_diagonal_count`
/// is the number of off-diagonal entries.
fn first_mirrored_entry<I: Index>(entries: &Triplets<I>, off_diagonal_count: usize) -> Result<Option<usize>> {
    let unordered_pair = |k: usize| {
        let (i, j) = (entries.rows[k], entries.cols[k]);
        (i.max(j), i.min(j))
    };
    let mut order = Vec::new();
    reserve(&mut order, off_diagonal_count, ALLOCATION_NAME)?;
    order.extend((0..entries.values.len()).filter(|&k| entries.rows[k] != entries.cols[k]));
    // The comparison includes the entry number k, so an unstable sort gives the order of a stable one.
    order.sort_unstable_by_key(|&k| (unordered_pair(k), k));
    let entries_of_pair = order.chunk_by(|&a, &b| unordered_pair(a) == unordered_pair(b));
    let second_entries = entries_of_pair.filter_map(|entries_of_position| {
        entries_of_position.iter().find(|&&k| entries.rows[k] != entries.rows[entries_of_position[0]])
    });
    Ok(second_entries.min().copied())
}

//! Multicolouring: rows of the same colour are not coupled. Orders of rows by colour, and the matrix in such an order.

use crate::base::csr::{Csr, ends_to_pointers, lengths_to_pointers};
use crate::base::index::Index;
use crate::error::{Result, push, reserve, zeroed};

const WHAT: &str = "colours of rows";

/// Colours the rows in ascending order. A row gets the first colour that no earlier neighbour in the graph of A + A^T
/// has (greedy multicoloring; Saad 2003, section 3.3.3). With two colours, this is the red-black ordering. Returns
/// the colour of each row, and the number of colours.
pub fn colours<I: Index>(a: &Csr<I>) -> Result<(Vec<I>, usize)> {
    let readers = readers_before(a)?;
    let mut colour = zeroed::<I>(a.rows(), WHAT)?;
    // For each colour, i + 1 for the latest row i with an earlier neighbour of this colour; 0 if there is no such row.
    let mut taken: Vec<usize> = Vec::new();
    for i in 0..a.rows() {
        let before = a.row(i).map(|(j, _)| j).filter(|&j| j < i);
        for j in before.chain(readers.of(i)) {
            taken[colour[j].at()] = i + 1;
        }
        let free = taken.iter().position(|&row| row != i + 1).unwrap_or(taken.len());
        if free == taken.len() {
            push(&mut taken, 0, WHAT)?;
        }
        colour[i] = I::of(free);
    }
    Ok((colour, taken.len()))
}

/// For each row j, the earlier rows i < j with an entry a_ij.
struct Readers<I> {
    ptr: Vec<usize>,
    row: Vec<I>,
}

impl<I: Index> Readers<I> {
    fn of(&self, i: usize) -> impl Iterator<Item = usize> {
        self.row[self.ptr[i]..self.ptr[i + 1]].iter().map(|row| row.at())
    }
}

fn readers_before<I: Index>(a: &Csr<I>) -> Result<Readers<I>> {
    let upper = || a.entries().filter(|&(i, j, _)| j > i);
    let mut ptr = zeroed(a.rows() + 1, WHAT)?;
    upper().for_each(|(_, j, _)| ptr[j + 1] += 1);
    lengths_to_pointers(&mut ptr);
    let mut row = zeroed(ptr[a.rows()], WHAT)?;
    for (i, j, _) in upper() {
        row[ptr[j]] = I::of(i);
        ptr[j] += 1;
    }
    ends_to_pointers(&mut ptr);
    Ok(Readers { ptr, row })
}

/// Sorts the numbers of rows or pieces by level. Within a level, the numbers ascend. Returns the sorted numbers, and
/// the position at which each level begins; one more entry is the end of the last level.
pub fn by_level<I: Index>(level: &[I], levels: usize) -> Result<(Vec<I>, Vec<usize>)> {
    let (mut sorted, mut starts) = (zeroed(level.len(), WHAT)?, zeroed(levels + 1, WHAT)?);
    for level in level {
        starts[level.at() + 1] += 1;
    }
    lengths_to_pointers(&mut starts);
    for (piece, level) in level.iter().enumerate() {
        let position = &mut starts[level.at()];
        sorted[*position] = I::of(piece);
        *position += 1;
    }
    ends_to_pointers(&mut starts);
    Ok((sorted, starts))
}

/// Returns P A P^T: row k is row `rows[k]` of A, and the columns have the same order as the rows.
pub fn permuted<I: Index>(a: &Csr<I>, rows: &[I]) -> Result<Csr<I>> {
    let mut position = zeroed::<I>(rows.len(), WHAT)?;
    rows.iter().enumerate().for_each(|(k, row)| position[row.at()] = I::of(k));
    let (mut ptr, mut col, mut val) = (Vec::new(), Vec::new(), Vec::new());
    reserve(&mut ptr, rows.len() + 1, WHAT)?;
    reserve(&mut col, a.col.len(), WHAT)?;
    reserve(&mut val, a.val.len(), WHAT)?;
    let mut sorted: Vec<(I, f64)> = Vec::new();
    reserve(&mut sorted, a.longest_row_len(), WHAT)?;
    ptr.push(0);
    for row in rows {
        sorted.clear();
        sorted.extend(a.row(row.at()).map(|(j, value)| (position[j], value)));
        sorted.sort_unstable_by_key(|&(j, _)| j.at());
        col.extend(sorted.iter().map(|&(j, _)| j));
        val.extend(sorted.iter().map(|&(_, value)| value));
        ptr.push(col.len());
    }
    Ok(Csr { cols: a.cols, ptr, col, val })
}

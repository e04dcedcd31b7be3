//! Multicolouring: rows of the same colour are not coupled. Also contains functions that sort rows by colour and
//! permute a matrix to this order.

use crate::base::csr::{Csr, ends_to_pointers, lengths_to_pointers};
use crate::base::index::Index;
use crate::error::{Result, push, reserve, zeroed};

const ALLOCATION_NAME: &str = "colours of rows";

/// Colours the rows in ascending order. A row gets the first colour that no earlier neighbour in the graph of A + A^T
/// has (greedy multicoloring; Saad 2003, section 3.3.3). With two colours, this is the red-black ordering. Returns
/// the colour of each row, and the number of colours.
pub fn colour_rows<I: Index>(a: &Csr<I>) -> Result<(Vec<I>, usize)> {
    let readers = find_earlier_readers(a)?;
    let mut colour = zeroed::<I>(a.rows(), ALLOCATION_NAME)?;
    // For each colour: i + 1, where i is the last visited row with an earlier neighbour of this colour. 0 if no visited
    // row has such a neighbour.
    let mut latest_neighbour: Vec<usize> = Vec::new();
    for i in 0..a.rows() {
        let earlier_columns = a.row(i).map(|(j, _)| j).filter(|&j| j < i);
        for j in earlier_columns.chain(readers.of(i)) {
            latest_neighbour[colour[j].to_usize()] = i + 1;
        }
        let first_free = latest_neighbour.iter().position(|&row| row != i + 1).unwrap_or(latest_neighbour.len());
        if first_free == latest_neighbour.len() {
            push(&mut latest_neighbour, 0, ALLOCATION_NAME)?;
        }
        colour[i] = I::of(first_free);
    }
    Ok((colour, latest_neighbour.len()))
}

/// For each row j, the earlier rows i < j with an entry a_ij.
struct EarlierReaders<I> {
    ptr: Vec<usize>,
    row: Vec<I>,
}

impl<I: Index> EarlierReaders<I> {
    fn of(&self, i: usize) -> impl Iterator<Item = usize> {
        self.row[self.ptr[i]..self.ptr[i + 1]].iter().map(|row| row.to_usize())
    }
}

fn find_earlier_readers<I: Index>(a: &Csr<I>) -> Result<EarlierReaders<I>> {
    let upper_entries = || a.entries().filter(|&(i, j, _)| j > i);
    let mut ptr = zeroed(a.rows() + 1, ALLOCATION_NAME)?;
    upper_entries().for_each(|(_, j, _)| ptr[j + 1] += 1);
    lengths_to_pointers(&mut ptr);
    let mut row = zeroed(ptr[a.rows()], ALLOCATION_NAME)?;
    for (i, j, _) in upper_entries() {
        row[ptr[j]] = I::of(i);
        ptr[j] += 1;
    }
    ends_to_pointers(&mut ptr);
    Ok(EarlierReaders { ptr, row })
}

/// Sorts the indices k of `level` by `level[k]`, for example rows by their levels. Within a level, the indices ascend.
/// Returns two arrays. The first one contains the sorted indices. The second one contains the position in the first
/// array at which each level begins, and as its last element the number of indices.
pub fn sort_by_level<I: Index>(level: &[I], level_count: usize) -> Result<(Vec<I>, Vec<usize>)> {
    let (mut sorted_numbers, mut level_starts) =
        (zeroed(level.len(), ALLOCATION_NAME)?, zeroed(level_count + 1, ALLOCATION_NAME)?);
    for level in level {
        level_starts[level.to_usize() + 1] += 1;
    }
    lengths_to_pointers(&mut level_starts);
    for (number, level) in level.iter().enumerate() {
        let position = &mut level_starts[level.to_usize()];
        sorted_numbers[*position] = I::of(number);
        *position += 1;
    }
    ends_to_pointers(&mut level_starts);
    Ok((sorted_numbers, level_starts))
}

/// Returns P A P^T. Row k of the result is row `rows[k]` of A, and column k is column `rows[k]` of A.
pub fn permute_symmetrically<I: Index>(a: &Csr<I>, rows: &[I]) -> Result<Csr<I>> {
    let mut new_index = zeroed::<I>(rows.len(), ALLOCATION_NAME)?;
    rows.iter().enumerate().for_each(|(k, row)| new_index[row.to_usize()] = I::of(k));
    let (mut ptr, mut col, mut val) = (Vec::new(), Vec::new(), Vec::new());
    reserve(&mut ptr, rows.len() + 1, ALLOCATION_NAME)?;
    reserve(&mut col, a.col.len(), ALLOCATION_NAME)?;
    reserve(&mut val, a.val.len(), ALLOCATION_NAME)?;
    let mut sorted_row: Vec<(I, f64)> = Vec::new();
    reserve(&mut sorted_row, a.longest_row_len(), ALLOCATION_NAME)?;
    ptr.push(0);
    for row in rows {
        sorted_row.clear();
        sorted_row.extend(a.row(row.to_usize()).map(|(j, value)| (new_index[j], value)));
        sorted_row.sort_unstable_by_key(|&(j, _)| j.to_usize());
        col.extend(sorted_row.iter().map(|&(j, _)| j));
        val.extend(sorted_row.iter().map(|&(_, value)| value));
        ptr.push(col.len());
    }
    Ok(Csr { cols: a.cols, ptr, col, val })
}

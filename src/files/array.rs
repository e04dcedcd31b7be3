//! Dense matrices in files: the file contains a value for every position (row, column).

use crate::base::csr::{Csr, ROW_POINTERS_NAME};
use crate::base::index::Index;
use crate::base::memory::check_available;
use crate::error::{Result, reserve};
use crate::sparse::assemble::AssembledMatrix;

/// Name of an allocation in error messages.
pub const ALLOCATION_NAME: &str = "an array of a file";

/// Builds the matrix with an entry `value(i, j)` at each position for which `has_entry(i, j)` is true. `count` is the
/// number of these positions. A zero value is stored as an entry.
pub fn assemble_array<I: Index>(
    rows: usize,
    cols: usize,
    count: usize,
    has_entry: impl Fn(usize, usize) -> bool,
    value: impl Fn(usize, usize) -> f64,
) -> Result<AssembledMatrix<I>> {
    let mut csr = Csr { cols, ptr: Vec::new(), col: Vec::new(), val: Vec::new() };
    check_available((rows as u128 + 1) * size_of::<usize>() as u128, ROW_POINTERS_NAME)?;
    reserve(&mut csr.ptr, rows + 1, ROW_POINTERS_NAME)?;
    reserve(&mut csr.col, count, ALLOCATION_NAME)?;
    reserve(&mut csr.val, count, ALLOCATION_NAME)?;
    csr.ptr.push(0);
    for i in 0..rows {
        for j in (0..cols).filter(|&j| has_entry(i, j)) {
            csr.col.push(I::of(j));
            csr.val.push(value(i, j));
        }
        csr.ptr.push(csr.col.len());
    }
    Ok(AssembledMatrix::from_csr(csr))
}

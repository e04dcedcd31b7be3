//! Rows by their lengths.

use crate::error::{Result, reserve};
use crate::runtime::memory::check_there;

/// Numbers of all rows: in each window of so many those with more entries first, else as they come.
pub fn by_length(
    rows: usize,
    window: usize,
    length: impl Fn(usize) -> usize,
    what: &'static str,
) -> Result<Vec<usize>> {
    check_there(rows as u128 * size_of::<usize>() as u128, what)?;
    let mut order = Vec::new();
    reserve(&mut order, rows, what)?;
    order.extend(0..rows);
    for part in order.chunks_mut(window.max(1)) {
        // Numbers are distinct: this is stable.
        part.sort_unstable_by_key(|&i| (std::cmp::Reverse(length(i)), i));
    }
    Ok(order)
}

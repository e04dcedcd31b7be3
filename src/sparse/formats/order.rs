//! Permutation of rows by length.

use crate::base::memory::check_available;
use crate::base::workers::{Parts, Workers, cut};
use crate::error::{Result, reserve};

/// Returns the row indices, sorted by descending length within each window of `window` rows. The sort is stable.
pub fn by_length(
    rows: usize,
    window: usize,
    length: impl Fn(usize) -> usize + Sync,
    what: &'static str,
    workers: &mut Workers,
) -> Result<Vec<usize>> {
    check_available(rows as u128 * size_of::<usize>() as u128, what)?;
    let mut order = Vec::new();
    reserve(&mut order, rows, what)?;
    order.extend(0..rows);
    if window > 1 {
        let cut = cut(rows.div_ceil(window), workers.pieces(size_of_val(&*order)));
        let mut left = Parts(&mut order);
        workers.each(cut.map(|windows| left.next(windows.len() * window)), |windows| {
            for window in windows.chunks_mut(window) {
                // The comparison includes the row index, so an unstable sort gives the order of a stable one.
                window.sort_unstable_by_key(|&i| (std::cmp::Reverse(length(i)), i));
            }
        })?;
    }
    Ok(order)
}

//! Sorting of rows by their numbers of entries.

use crate::base::memory::check_available;
use crate::base::workers::{SliceSplitter, Workers, divide_range};
use crate::error::{Result, reserve};

/// Returns the row indices, sorted by descending `length` within each window of `window` consecutive rows. The sort is
/// stable.
pub fn sort_rows_by_length(
    rows: usize,
    window: usize,
    length: impl Fn(usize) -> usize + Sync,
    allocation_name: &'static str,
    workers: &mut Workers,
) -> Result<Vec<usize>> {
    check_available(rows as u128 * size_of::<usize>() as u128, allocation_name)?;
    let mut order = Vec::new();
    reserve(&mut order, rows, allocation_name)?;
    order.extend(0..rows);
    if window > 1 {
        let window_ranges = divide_range(rows.div_ceil(window), workers.piece_count(size_of_val(&*order)));
        let mut remaining_rows = SliceSplitter(&mut order);
        workers.for_each_piece(
            window_ranges.map(|windows| remaining_rows.take_front(windows.len() * window)),
            |windows| {
                for window in windows.chunks_mut(window) {
                    // The comparison includes the row index, so an unstable sort gives the order of a stable one.
                    window.sort_unstable_by_key(|&i| (std::cmp::Reverse(length(i)), i));
                }
            },
        )?;
    }
    Ok(order)
}

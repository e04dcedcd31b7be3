//! Block relaxation: each block of rows uses old values of the other blocks. With one row per block, this is Jacobi's
//! method; with a single block, Gauss-Seidel or SOR.

use super::rows::SweepRows;
use super::sweep::Sweep;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::krylov::cpu::chunks::Chunks;
use std::ops::Range;

/// Sweeps over the rows in ascending order, divided into `block_count` blocks. The blocks do not depend on the number
/// of threads.
pub struct BlockSweep<I> {
    rows: SweepRows<I>,
    block_count: usize,
}

impl<I: Index> BlockSweep<I> {
    /// Creates `block_count` blocks, but at least one, and at most one per row.
    pub fn new(a: &Csr<I>, omega: f64, block_count: usize) -> Result<Self> {
        Ok(Self { rows: SweepRows::new(a, None, omega)?, block_count: block_count.clamp(1, a.rows().max(1)) })
    }

    /// Returns the rows of block q: floor(n q / block_count) to floor(n (q + 1) / block_count) - 1.
    fn block(&self, q: usize) -> Range<usize> {
        // The product n q may exceed 2^64, so it is computed with 128 bits.
        let block_end = |q: usize| (self.rows.row_count() as u128 * q as u128 / self.block_count as u128) as usize;
        block_end(q)..block_end(q + 1)
    }

    /// Relaxes all rows of this thread with old values only (Jacobi).
    fn relax_singly(&self, own_rows: Range<usize>, x: &mut [f64], b: &[f64], old_x: &[f64]) {
        for (i, x) in own_rows.zip(x) {
            *x = self.rows.relaxed_value(i, b[i], old_x[i], |j| old_x[j]);
        }
    }

    /// Relaxes the rows of a block in order. `x` contains the values of the block: new values for rows before the
    /// current row, old values for the others. Values outside the block are read from `old_x`.
    fn relax_block(&self, block: Range<usize>, x: &mut [f64], b: &[f64], old_x: &[f64]) {
        let block_start = block.start;
        for i in block {
            let current_value = |j: usize| x.get(j.wrapping_sub(block_start)).copied().unwrap_or_else(|| old_x[j]);
            x[i - block_start] = self.rows.relaxed_value(i, b[i], x[i - block_start], current_value);
        }
    }
}

impl<I: Index> Sweep for BlockSweep<I> {
    fn sweep(&self, thread: &TeamThread, x: &Shared, b: &Shared, old_x: &Shared) {
        let n = self.rows.row_count();
        let own_rows = Chunks::new(n).own_rows(thread);
        // SAFETY: these are rows of this thread. Until the barrier, the other threads use only their own rows
        // (`Sweep::sweep`).
        unsafe {
            old_x.slice_mut(own_rows.start, own_rows.len()).copy_from_slice(x.slice(own_rows.start, own_rows.len()))
        };
        thread.barrier();
        // SAFETY: no thread writes b or `old_x` from here to the last barrier.
        let (b, old_x) = unsafe { (b.slice(0, n), old_x.slice(0, n)) };
        if self.block_count == n {
            // SAFETY: these are rows of this thread, and no thread reads x here.
            let x = unsafe { x.slice_mut(own_rows.start, own_rows.len()) };
            self.relax_singly(own_rows, x, b, old_x);
        } else {
            for block in thread.share(self.block_count).map(|q| self.block(q)) {
                // SAFETY: blocks are disjoint, one thread processes each, and no thread reads another thread's block.
                let x = unsafe { x.slice_mut(block.start, block.len()) };
                self.relax_block(block, x, b, old_x);
            }
        }
        thread.barrier();
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }
}

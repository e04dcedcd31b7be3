//! Block relaxation: each block of rows uses old values of the other blocks. With one row per block, this is Jacobi's
//! method; with a single block, Gauss-Seidel or SOR.

use super::rows::Rows;
use super::sweep::Sweep;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::krylov::cpu::chunks::Chunks;
use std::ops::Range;

/// Rows in ascending order, in `count` blocks. The blocks do not depend on the number of threads.
pub struct Blocks<I> {
    rows: Rows<I>,
    count: usize,
}

impl<I: Index> Blocks<I> {
    /// Creates `count` blocks; at most one block per row.
    pub fn new(a: &Csr<I>, omega: f64, count: usize) -> Result<Self> {
        Ok(Self { rows: Rows::new(a, None, omega)?, count: count.clamp(1, a.rows().max(1)) })
    }

    /// Returns the rows of block q: floor(n q / count) to floor(n (q + 1) / count) - 1.
    fn block(&self, q: usize) -> Range<usize> {
        // The product n * q may exceed 2^64, so it has 128 bits.
        let end = |q: usize| (self.rows.count() as u128 * q as u128 / self.count as u128) as usize;
        end(q)..end(q + 1)
    }

    /// Relaxes all rows of this thread with old values only (Jacobi).
    fn relax_singly(&self, own: Range<usize>, x: &mut [f64], b: &[f64], old: &[f64]) {
        for (i, x) in own.zip(x) {
            *x = self.rows.relaxed(i, b[i], old[i], |j| old[j]);
        }
    }

    /// Relaxes the rows of a block. `x` contains the values of the block, which are new for rows that have been
    /// relaxed. Values outside the block are read from `old`.
    fn relax_block(&self, block: Range<usize>, x: &mut [f64], b: &[f64], old: &[f64]) {
        let start = block.start;
        for i in block {
            let new = |j: usize| x.get(j.wrapping_sub(start)).copied().unwrap_or_else(|| old[j]);
            x[i - start] = self.rows.relaxed(i, b[i], x[i - start], new);
        }
    }
}

impl<I: Index> Sweep for Blocks<I> {
    fn sweep(&self, me: &TeamThread, x: &Shared, b: &Shared, old: &Shared) {
        let n = self.rows.count();
        let own = Chunks::new(n).own(me);
        // SAFETY: these are rows of this thread. Until the barrier, the other threads use only their own rows
        // (`Sweep::sweep`).
        unsafe { old.slice_mut(own.start, own.len()).copy_from_slice(x.slice(own.start, own.len())) };
        me.barrier();
        // SAFETY: no thread writes b or `old` from here to the last barrier.
        let (b, old) = unsafe { (b.slice(0, n), old.slice(0, n)) };
        if self.count == n {
            // SAFETY: these are rows of this thread, and no thread reads x here.
            let x = unsafe { x.slice_mut(own.start, own.len()) };
            self.relax_singly(own, x, b, old);
        } else {
            for block in me.share(self.count).map(|q| self.block(q)) {
                // SAFETY: blocks are disjoint, one thread processes each, and no thread reads another thread's block.
                let x = unsafe { x.slice_mut(block.start, block.len()) };
                self.relax_block(block, x, b, old);
            }
        }
        me.barrier();
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }
}

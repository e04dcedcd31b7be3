//! Blocks of rows that take old values of one another: Jacobi's method has a row in each, Gauss-Seidel's all in one.

use super::rows::Rows;
use super::sweep::Sweep;
use crate::backend::cpu::sparse::chunks::Chunks;
use crate::error::Result;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::{Csr, Index};
use std::ops::Range;

/// Rows in order, in as many blocks as `count` says, whoever does them.
pub struct Blocks<I> {
    rows: Rows<I>,
    count: usize,
}

impl<I: Index> Blocks<I> {
    /// `count` blocks; more than rows are as many as rows, since a block has a row at most then.
    pub fn new(a: &Csr<I>, omega: f64, count: usize) -> Result<Self> {
        Ok(Self { rows: Rows::new(a, None, omega)?, count: count.clamp(1, a.rows().max(1)) })
    }

    /// Rows of block q: floor(n q / count) to floor(n (q + 1) / count) - 1.
    fn block(&self, q: usize) -> Range<usize> {
        // Wide numbers: n times count may be more than 2^64.
        let end = |q: usize| (self.rows.count() as u128 * q as u128 / self.count as u128) as usize;
        end(q)..end(q + 1)
    }

    /// All rows of this member by old values.
    fn relax_singly(&self, own: Range<usize>, x: &mut [f64], b: &[f64], old: &[f64]) {
        for (i, x) in own.zip(x) {
            *x = self.rows.relaxed(i, b[i], old[i], |j| old[j]);
        }
    }

    /// The rows of a block, whose values `x` has: new ones of the rows before, old ones from outside.
    fn relax_block(&self, block: Range<usize>, x: &mut [f64], b: &[f64], old: &[f64]) {
        let start = block.start;
        for i in block {
            let new = |j: usize| x.get(j.wrapping_sub(start)).copied().unwrap_or_else(|| old[j]);
            x[i - start] = self.rows.relaxed(i, b[i], x[i - start], new);
        }
    }
}

impl<I: Index> Sweep for Blocks<I> {
    fn sweep(&self, me: &Me, x: &Shared, b: &Shared, old: &Shared) {
        let n = self.rows.count();
        let own = Chunks::new(n).own(me);
        // SAFETY: rows of this member; the others use rows of theirs until the barrier (`Sweep::sweep`).
        unsafe { old.slice_mut(own.start, own.len()).copy_from_slice(x.slice(own.start, own.len())) };
        me.barrier();
        // SAFETY: nobody writes b or `old` from here to the last barrier.
        let (b, old) = unsafe { (b.slice(0, n), old.slice(0, n)) };
        if self.count == n {
            // SAFETY: rows of this member, and nobody reads x here.
            let x = unsafe { x.slice_mut(own.start, own.len()) };
            self.relax_singly(own, x, b, old);
        } else {
            for block in me.share(self.count).map(|q| self.block(q)) {
                // SAFETY: blocks are disjoint, and one member has each; nobody reads another's here.
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

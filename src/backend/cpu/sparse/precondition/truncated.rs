//! The truncated Neumann series.

use super::apply::Apply;
use super::split::{Part, Split};
use crate::backend::cpu::sparse::chunks::Chunks;
use crate::error::Result;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::Index;
use std::ops::Range;

/// M^-1 = [sum over k <= m of (-U)^k] G [sum over k <= m of (-L)^k] of a `Split`: with that of SSOR, omega = 1, the
/// series of the 3D family, van der Vorst, SIAM J. Sci. Stat. Comput. 3 (1982). m = 0 is Jacobi.
pub struct Truncated<I> {
    split: Split<I>,
    order: usize,
    /// Room for the series.
    room: [Shared; 2],
}

impl<I: Index> Truncated<I> {
    pub fn new(split: Split<I>, order: usize) -> Result<Self> {
        let rows = split.scale.len();
        Ok(Self { split, order, room: [Shared::zeroed(rows)?, Shared::zeroed(rows)?] })
    }

    /// to = first - T from, on these rows.
    ///
    /// # Safety
    /// Nobody may write `first` or `from` meanwhile, or use these rows of `to`.
    unsafe fn step(&self, t: &Part<I>, own: &Range<usize>, first: &Shared, from: &Shared, to: &Shared) {
        let rows = self.split.scale.len();
        // SAFETY: as our caller promised.
        let (first, from) = unsafe { (first.slice(0, rows), from.slice(0, rows)) };
        // SAFETY: as above.
        let to = unsafe { to.slice_mut(own.start, own.len()) };
        for (to, i) in to.iter_mut().zip(own.clone()) {
            *to = first[i] - t.row(i).fold(0.0, |sum, (j, t)| sum + t * from[j]);
        }
    }
}

impl<I: Index> Apply for Truncated<I> {
    /// By Horner's rule: y = r, m times y = r - L y; z = G y, m times z = G y - U z.
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let own = Chunks::new(self.split.scale.len()).own(me);
        let [first, second] = &self.room;
        let mut y = from;
        for k in 0..self.order {
            let next = if k % 2 == 0 { first } else { second };
            // SAFETY: members write rows of their own alone, and no other vector than `next`; a barrier follows.
            unsafe { self.step(&self.split.lower, &own, from, y, next) };
            me.barrier();
            y = next;
        }
        // G y takes the place that y leaves free, `scaled`.
        let scaled = if std::ptr::eq(y, first) { second } else { first };
        {
            // SAFETY: rows of this member.
            let (y, scaled) = unsafe { (y.slice(own.start, own.len()), scaled.slice_mut(own.start, own.len())) };
            for ((scaled, y), g) in scaled.iter_mut().zip(y).zip(&self.split.scale[own.clone()]) {
                *scaled = g * y;
            }
        }
        me.barrier();
        let other = if std::ptr::eq(scaled, first) { second } else { first };
        let mut z = scaled;
        // The last one ends in `to`.
        for k in 0..self.order {
            let next = if (self.order - k) % 2 == 1 { to } else { other };
            // SAFETY: as above.
            unsafe { self.step(&self.split.upper, &own, scaled, z, next) };
            me.barrier();
            z = next;
        }
        if self.order == 0 {
            // SAFETY: rows of this member.
            unsafe { to.slice_mut(own.start, own.len()).copy_from_slice(scaled.slice(own.start, own.len())) };
        }
    }

    fn bytes(&self) -> usize {
        let split = self.split.lower.bytes() + self.split.upper.bytes() + size_of_val(&*self.split.scale);
        split + self.room.iter().map(Shared::bytes).sum::<usize>()
    }
}

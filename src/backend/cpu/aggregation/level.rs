//! A level of the cycle with its vectors, and what members of a team do on it.
//!
//! A member writes rows of its own share of a group, a chunk or the coarser rows alone, and reads what others wrote
//! before a barrier: that is what the unsafe blocks rest on.

use super::rows::{Around, Rows, backwards, forwards, left, multiply};
use crate::backend::aggregation::{Couplings, Means, NONE, Ordered, WHAT, members};
use crate::error::{Result, collected};
use crate::runtime::number::Real;
use crate::runtime::reduce::{Noted, dot};
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::Me;
use crate::runtime::workers::Workers;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows of a chunk, over which the largest value is noted.
pub const CHUNK: usize = 2048;
/// Slices of a chunk, over which sums are.
const SLICES: usize = 128;

/// A level.
pub struct Level<V: Number> {
    pub rows: Rows<V>,
    /// Where groups of rows begin that do not wait for each other, and the end; and the slices of each.
    groups: Vec<usize>,
    slices: Vec<Range<usize>>,
    /// The row of the coarser level that each row belongs to; `NONE`: the smoother alone does it. Empty: the last one.
    aggregate: Vec<u32>,
    /// Where the rows of each coarser row begin, and all of them.
    fine: (Vec<usize>, Vec<u32>),
    pub visits: Visits,
    means: Option<Mutex<Means>>,
    has_nearly: bool,
    noted: Noted,
    pub r: Shared<V>,
    pub z: Shared<V>,
    /// What a sweep leaves.
    left: Shared<V>,
    /// The first direction of the coarse solve and A times it.
    pub c: Shared<V>,
    pub v: Shared<V>,
}

/// What a coarse system is solved by, where it is solved by more than the cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// Flexible CG: the fewest iterations, and another B for every r.
    Flexible,
    /// Chebyshev steps: B is a symmetric positive definite matrix.
    Linear,
}

/// Cycles that solve its system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Visits {
    One,
    /// Two where the whole is to be linear.
    TwoIfLinear,
    Two,
}

/// A member in a cycle.
pub struct Run<'a> {
    pub me: Me<'a>,
    pub way: Way,
    /// Counts reductions.
    turn: usize,
}

impl<'a> Run<'a> {
    pub fn new(me: Me<'a>, way: Way) -> Self {
        Self { me, way, turn: 0 }
    }
}

impl<V: Real + Number> Level<V> {
    /// Of a matrix in this order; `aggregate`: by its rows, with the place of each row of the coarser one.
    pub fn new(
        c: &Couplings,
        order: &Ordered,
        aggregate: Option<(&[u32], &[u32])>,
        means: Option<Means>,
        visits: Visits,
        workers: &mut Workers,
    ) -> Result<Self> {
        let n = c.rows();
        let coarser = |i: &u32| match aggregate {
            Some((of, place)) if of[*i as usize] != NONE => place[of[*i as usize] as usize],
            _ => NONE,
        };
        let of = if aggregate.is_some() { n } else { 0 };
        let aggregate_of = collected(order.row[..of].iter().map(coarser), WHAT)?;
        let count = aggregate.map_or(0, |(_, place)| place.len());
        let room = |is: bool| Shared::zeroed(if is { n } else { 0 });
        let rows = Rows::of(c, order, workers)?;
        Ok(Self {
            groups: collected(order.groups.iter().copied(), WHAT)?,
            slices: collected(order.groups.windows(2).map(|group| rows.slices_of(group)), WHAT)?,
            fine: members(&aggregate_of, count)?,
            has_nearly: means.as_ref().is_some_and(Means::has_nearly),
            means: means.map(Mutex::new),
            noted: Noted::new(rows.slices().div_ceil(SLICES), 2)?,
            rows,
            r: room(true)?,
            z: room(true)?,
            left: room(aggregate.is_some())?,
            c: room(visits != Visits::One)?,
            v: room(visits != Visits::One)?,
            aggregate: aggregate_of,
            visits,
        })
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Slices of a group that are this member's, and their rows.
    fn share(&self, me: &Me, group: usize) -> (Range<usize>, Range<usize>) {
        let of = &self.slices[group];
        let share = me.share(of.len());
        let slices = of.start + share.start..of.start + share.end;
        (slices.clone(), self.rows.rows(&slices))
    }

    /// This member's chunks: slices and rows of each.
    fn chunks(&self, me: &Me) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
        let n = self.rows.slices();
        me.share(n.div_ceil(SLICES)).map(move |chunk| {
            let slices = chunk * SLICES..n.min((chunk + 1) * SLICES);
            (chunk, slices.clone(), self.rows.rows(&slices))
        })
    }

    /// Sums of what `of` gives for slices and rows of all chunks. A barrier stands in it.
    pub fn sums<const N: usize>(
        &self,
        run: &mut Run,
        mut of: impl FnMut(Range<usize>, Range<usize>) -> [f64; N],
    ) -> [f64; N] {
        run.turn += 1;
        let noted = self.noted.reduce(run.turn, self.noted.rows());
        for (chunk, slices, rows) in self.chunks(&run.me) {
            // SAFETY: a chunk of this member, noted once.
            unsafe { noted.note(chunk, of(slices, rows)) };
        }
        noted.sum(Some(run.me))
    }

    /// The means, where some are of components that are nearly singular.
    fn nearly(&self) -> Option<MutexGuard<'_, Means>> {
        let means = self.means.as_ref().filter(|_| self.has_nearly)?;
        Some(means.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// r = what `from` gives of each row; without means, which `give` adds to z, where components are nearly singular.
    /// A barrier stands at its end.
    pub fn load(&self, me: &Me, from: impl Fn(usize) -> f64) {
        if self.has_nearly {
            if let Some(mut means) = self.nearly().filter(|_| me.index == 0) {
                // SAFETY: the others wait at the barrier.
                means.take(from, unsafe { self.r.slice_mut(0, self.len()) });
            }
        } else {
            let own = me.share(self.len());
            // SAFETY: rows of this member.
            let r = unsafe { self.r.slice_mut(own.start, own.len()) };
            own.zip(r).for_each(|(k, r)| *r = V::narrow(from(k)));
        }
        me.barrier();
    }

    /// Tells `to` of this member's rows of z, after a barrier.
    pub fn give(&self, me: &Me, mut to: impl FnMut(usize, f64)) {
        let own = me.share(self.len());
        // SAFETY: nobody writes z until the next cycle.
        let z = unsafe { self.z.slice(0, self.len()) };
        if !self.has_nearly {
            return own.clone().zip(&z[own]).for_each(|(k, z)| to(k, z.wide()));
        }
        if let Some(mut means) = self.nearly().filter(|_| me.index == 0) {
            means.give(z);
        }
        me.barrier();
        if let Some(means) = self.nearly() {
            own.for_each(|k| to(k, z[k].wide() + means.constant(k)));
        }
    }

    /// z = a sweep of Gauss-Seidel from 0.
    pub fn forwards(&self, me: &Me, z: &Shared<V>) {
        for (k, group) in self.groups.windows(2).enumerate() {
            let (slices, own) = self.share(me, k);
            // SAFETY: rows of this member, and rows of groups before the last barrier, which hold all that the slices
            // have couplings with on that side (`lines`).
            let (before, r, z) = unsafe {
                let r = self.r.slice(own.start, own.len());
                (Around::new(z.slice(0, group[0]), 0), r, z.slice_mut(own.start, own.len()))
            };
            forwards(&self.rows, slices, before, r, z);
            me.barrier();
        }
    }

    /// The same in the opposite order, from z.
    pub fn backwards(&self, me: &Me, z: &Shared<V>) {
        for (k, group) in self.groups.windows(2).enumerate().rev() {
            let (slices, own) = self.share(me, k);
            // SAFETY: as above; rows of other groups are not written until the next barrier.
            let (before, after, r, z) = unsafe {
                let before = Around::new(z.slice(0, group[0]), 0);
                let after = Around::new(z.slice(group[1], self.len() - group[1]), group[1]);
                (before, after, self.r.slice(own.start, own.len()), z.slice_mut(own.start, own.len()))
            };
            backwards(&self.rows, slices, before, after, r, z);
            me.barrier();
        }
    }

    /// What the sweep forwards left, summed up to the rows of the coarser level. A barrier stands at its end.
    pub fn restrict(&self, me: &Me, z: &Shared<V>, coarse: &Shared<V>) {
        let n = self.len();
        for (_, slices, rows) in self.chunks(me) {
            // SAFETY: rows of this member; nobody writes z, of which this is all, until the next barrier.
            let (z, out) = unsafe { (Around::new(z.slice(0, n), 0), self.left.slice_mut(rows.start, rows.len())) };
            left(&self.rows, slices, z, out);
        }
        me.barrier();
        let (starts, fine) = &self.fine;
        let own = me.share(starts.len() - 1);
        // SAFETY: coarser rows of this member; nobody writes `left` until the next barrier.
        let (left, coarse) = unsafe { (self.left.slice(0, n), coarse.slice_mut(own.start, own.len())) };
        for (sum, ends) in coarse.iter_mut().zip(starts[own.start..=own.end].windows(2)) {
            *sum = fine[ends[0]..ends[1]].iter().fold(V::default(), |sum, &i| sum + left[i as usize]);
        }
        me.barrier();
    }

    /// z = z + what was found on the coarser level, but for rows of the last group, which the sweep backwards does not
    /// read. A barrier stands at its end.
    pub fn prolong(&self, me: &Me, z: &Shared<V>, coarse: &Shared<V>) {
        let end = self.groups[self.groups.len().saturating_sub(2)];
        let own = me.share(end);
        // SAFETY: rows of this member; nobody writes the coarser level until the next barrier.
        let (z, coarse) = unsafe { (z.slice_mut(own.start, own.len()), coarse.slice(0, coarse.len())) };
        for (z, &k) in z.iter_mut().zip(&self.aggregate[own]).filter(|(_, k)| **k != NONE) {
            *z += coarse[k as usize];
        }
        me.barrier();
    }

    /// r without its means on singular components. Barriers stand before it and at its end.
    pub fn remove_means(&self, me: &Me) {
        let Some(means) = &self.means else { return };
        if me.index == 0 {
            let mut means = means.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the others wait at the barrier.
            means.remove(unsafe { self.r.slice_mut(0, self.len()) });
        }
        me.barrier();
    }

    /// <r, r>. A barrier stands in it.
    pub fn norm2(&self, run: &mut Run) -> f64 {
        let [norm2] = self.sums(run, |_, rows| {
            // SAFETY: nobody writes r in this step.
            let r = unsafe { self.r.slice(rows.start, rows.len()) };
            [dot(r, r)]
        });
        norm2
    }

    /// v = A x, <x, v> and <x, r>. A barrier stands in it.
    pub fn multiply(&self, run: &mut Run, x: &Shared<V>) -> [f64; 2] {
        self.sums(run, |slices, rows| {
            // SAFETY: nobody writes x, of which this is all, or r in this step; rows of v are this member's.
            let (all, from, r, v) = unsafe {
                let (all, r) = (x.slice(0, self.len()), self.r.slice(rows.start, rows.len()));
                (all, Around::new(all, 0), r, self.v.slice_mut(rows.start, rows.len()))
            };
            multiply(&self.rows, slices, all, from, v);
            [dot(&all[rows.clone()], v), dot(&all[rows], r)]
        })
    }

    /// <z, v>. A barrier stands in it.
    pub fn with_direction(&self, run: &mut Run) -> f64 {
        let [product] = self.sums(run, |_, rows| {
            // SAFETY: nobody writes either in this step.
            let (z, v) = unsafe { (self.z.slice(rows.start, rows.len()), self.v.slice(rows.start, rows.len())) };
            [dot(z, v)]
        });
        product
    }

    /// r = r - factor v, and <r, r>. A barrier stands in it.
    pub fn subtract(&self, run: &mut Run, factor: f64) -> f64 {
        let factor = V::narrow(factor);
        let [norm2] = self.sums(run, |_, rows| {
            // SAFETY: rows of this member.
            let (r, v) = unsafe { (self.r.slice_mut(rows.start, rows.len()), self.v.slice(rows.start, rows.len())) };
            r.iter_mut().zip(v).for_each(|(r, &v)| *r -= factor * v);
            [dot(r, r)]
        });
        norm2
    }

    /// z = first c + second z. A barrier stands at its end.
    pub fn combine(&self, me: &Me, first: f64, second: f64) {
        let own = me.share(self.len());
        let first = V::narrow(first);
        // SAFETY: rows of this member.
        let (z, c) = unsafe { (self.z.slice_mut(own.start, own.len()), self.c.slice(own.start, own.len())) };
        if second == 0.0 {
            z.iter_mut().zip(c).for_each(|(z, &c)| *z = first * c);
        } else {
            let second = V::narrow(second);
            z.iter_mut().zip(c).for_each(|(z, &c)| *z = first * c + second * *z);
        }
        me.barrier();
    }

    pub fn bytes(&self) -> usize {
        let vectors = [&self.r, &self.z, &self.left, &self.c, &self.v].map(Shared::bytes).iter().sum::<usize>();
        let means = self.means.as_ref().map_or(0, |m| m.lock().unwrap_or_else(PoisonError::into_inner).bytes());
        let tables = size_of_val(&*self.groups) + size_of_val(&*self.slices) + size_of_val(&*self.aggregate);
        let fine = size_of_val(&*self.fine.0) + size_of_val(&*self.fine.1);
        self.rows.bytes() + tables + fine + vectors + means + 2 * self.noted.bytes()
    }
}

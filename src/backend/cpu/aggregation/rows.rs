//! The matrix of a level in the precision of the cycle, and the loops of a sweep over slices of its rows (`lines`).

use super::lines::{At, LANES, Lines, Slices};
use crate::backend::aggregation::{Couplings, Ordered, WHAT};
use crate::error::{Result, collected};
use crate::isa::for_each_isa;
use crate::runtime::number::Real;
use crate::runtime::workers::Workers;
use std::array::from_fn;
use std::ops::Range;

/// Couplings by slices in the order of the sweeps, excess, 1 / diagonal.
pub struct Rows<V> {
    /// The first row of each slice, and the end.
    first: Vec<u32>,
    lines: Lines<V>,
    excess: Vec<V>,
    inverse: Vec<V>,
    /// Without those that are not there.
    couplings: usize,
}

impl<V: Real> Rows<V> {
    pub fn of(c: &Couplings, order: &Ordered, workers: &mut Workers) -> Result<Self>
    where
        V: Send,
    {
        let slices = Slices::of(order)?;
        let of = |i: &u32| *i as usize;
        Ok(Self {
            lines: Lines::of(c, order, &slices, workers)?,
            first: slices.first,
            excess: collected(order.row.iter().map(|i| V::narrow(c.excess[of(i)])), WHAT)?,
            inverse: collected(order.row.iter().map(|i| inverse(c.diagonal[of(i)])), WHAT)?,
            couplings: c.col.len(),
        })
    }

    pub fn len(&self) -> usize {
        self.inverse.len()
    }

    pub fn slices(&self) -> usize {
        self.first.len() - 1
    }

    pub fn couplings(&self) -> usize {
        self.couplings
    }

    /// The slices of the group that begins and ends with these rows.
    pub fn slices_of(&self, group: &[usize]) -> Range<usize> {
        let of = |row: usize| self.first.partition_point(|&first| (first as usize) < row);
        of(group[0])..of(group[1])
    }

    /// Rows of slices.
    pub fn rows(&self, slices: &Range<usize>) -> Range<usize> {
        self.first[slices.start] as usize..self.first[slices.end] as usize
    }

    pub fn bytes(&self) -> usize {
        let vectors = size_of_val(&*self.first) + size_of_val(&*self.excess) + size_of_val(&*self.inverse);
        self.lines.bytes() + vectors
    }
}

/// Values of all rows from `start` on, which rows of a slice are coupled to.
#[derive(Clone, Copy)]
pub struct Around<'a, V> {
    values: &'a [V],
    start: usize,
}

impl<'a, V: Real> Around<'a, V> {
    /// # Safety
    /// They must be all rows, or those before or after the group of the slices in question: no line of that side reads
    /// others (`Lines::push_distances`, `Lines::push_named`).
    pub unsafe fn new(values: &'a [V], start: usize) -> Self {
        Self { values, start }
    }

    /// The values that a line is multiplied with.
    #[inline(always)]
    fn of(&self, at: At) -> [V; LANES] {
        match at {
            At::From(row) => {
                debug_assert!(self.values.len() >= row as usize - self.start + LANES);
                // SAFETY: `new` was promised that these rows are among them.
                unsafe { self.values.as_ptr().add(row as usize - self.start).cast::<[V; LANES]>().read() }
            }
            At::Rows(rows) => from_fn(|l| self.at(rows[l])),
        }
    }

    #[inline(always)]
    fn at(&self, row: u32) -> V {
        debug_assert!(self.values.get(row as usize - self.start).is_some());
        // Volatile, or the compiler would take gathers of AVX-512, which take longer than loads one by one (a third of
        // a sweep on a Xeon that guards them).
        // SAFETY: `new` was promised that this row is among them.
        unsafe { self.values.as_ptr().add(row as usize - self.start).read_volatile() }
    }
}

/// sums + a z over a line: step by step on all lanes, which the compiler makes vectors of.
#[inline(always)]
fn add<V: Real>(sums: [V; LANES], (at, a): (At, &[V; LANES]), z: &Around<V>) -> [V; LANES] {
    let z = z.of(at);
    let products: [V; LANES] = from_fn(|l| a[l] * z[l]);
    from_fn(|l| sums[l] + products[l])
}

/// sums + a (x - z) over a line.
#[inline(always)]
fn add_differences<V: Real>(sums: [V; LANES], (at, a): (At, &[V; LANES]), x: &[V; LANES], z: &Around<V>) -> [V; LANES] {
    let z = z.of(at);
    let products: [V; LANES] = from_fn(|l| a[l] * (x[l] - z[l]));
    from_fn(|l| sums[l] + products[l])
}

/// The values of a slice, with zeros behind those that it has fewer.
#[inline(always)]
fn slice_of<V: Real>(values: &[V]) -> [V; LANES] {
    match values.first_chunk() {
        Some(all) => *all,
        None => {
            let mut slice = [V::default(); LANES];
            slice[..values.len()].copy_from_slice(values);
            slice
        }
    }
}

/// The same to write.
#[inline(always)]
fn write<V: Real>(values: &mut [V], slice: &[V; LANES]) {
    match values.first_chunk_mut() {
        Some(all) => *all = *slice,
        None => values.copy_from_slice(&slice[..values.len()]),
    }
}

for_each_isa! {
    /// Gauss-Seidel from z = 0 on these slices of a group: `before` are all rows before the group; r and z are these.
    fn forwards<V: Real>(m: &Rows<V>, slices: Range<usize>, before: Around<V>, r: &[V], z: &mut [V]) {
        let start = m.first[slices.start] as usize;
        for s in slices {
            let rows = m.first[s] as usize..m.first[s + 1] as usize;
            let own = rows.start - start..rows.end - start;
            let mut sums = slice_of(&r[own.clone()]);
            for line in m.lines.earlier(s) {
                sums = add(sums, line, &before);
            }
            let inverse = slice_of(&m.inverse[rows]);
            write(&mut z[own], &from_fn(|l| inverse[l] * sums[l]));
        }
    }

    /// What such a sweep leaves: r - A z has the couplings to later rows alone.
    fn left<V: Real>(m: &Rows<V>, slices: Range<usize>, z: Around<V>, left: &mut [V]) {
        let start = m.first[slices.start] as usize;
        for s in slices {
            let own = m.first[s] as usize - start..m.first[s + 1] as usize - start;
            let mut sums = [V::default(); LANES];
            for line in m.lines.later(s) {
                sums = add(sums, line, &z);
            }
            write(&mut left[own], &sums);
        }
    }

    /// Gauss-Seidel on these slices of a group: `before` and `after` are all rows before it and after it.
    fn backwards<V: Real>(
        m: &Rows<V>,
        slices: Range<usize>,
        before: Around<V>,
        after: Around<V>,
        r: &[V],
        z: &mut [V],
    ) {
        let start = m.first[slices.start] as usize;
        for s in slices {
            let rows = m.first[s] as usize..m.first[s + 1] as usize;
            let own = rows.start - start..rows.end - start;
            let mut sums = slice_of(&r[own.clone()]);
            for line in m.lines.earlier(s) {
                sums = add(sums, line, &before);
            }
            for line in m.lines.later(s) {
                sums = add(sums, line, &after);
            }
            let inverse = slice_of(&m.inverse[rows]);
            write(&mut z[own], &from_fn(|l| inverse[l] * sums[l]));
        }
    }

    /// y = A x on these slices, as e_i x_i + sum of a_ij (x_i - x_j): with d_i x_i the excess would drown. x are all
    /// rows.
    fn multiply<V: Real>(m: &Rows<V>, slices: Range<usize>, x: &[V], all: Around<V>, y: &mut [V]) {
        let start = m.first[slices.start] as usize;
        for s in slices {
            let rows = m.first[s] as usize..m.first[s + 1] as usize;
            let own = rows.start - start..rows.end - start;
            let (excess, x) = (slice_of(&m.excess[rows.clone()]), slice_of(&x[rows]));
            let mut sums: [V; LANES] = from_fn(|l| excess[l] * x[l]);
            for line in m.lines.all(s) {
                sums = add_differences(sums, line, &x, &all);
            }
            write(&mut y[own], &sums);
        }
    }
}

/// 1 / d; 0 of a singular component that is one row: its unknown is 0.
fn inverse<V: Real>(d: f64) -> V {
    V::narrow(if d == 0.0 { 0.0 } else { 1.0 / d })
}

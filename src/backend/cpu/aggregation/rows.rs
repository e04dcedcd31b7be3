//! The matrix of a level in the precision of the cycle, its rows in groups for Gauss-Seidel. `LANES` rows of a group
//! are a slice, whose couplings lie side by side, so that loops work on all of them at a time; shorter rows have
//! couplings of zero at their end.

use crate::backend::aggregation::{Couplings, Ordered, WHAT};
use crate::error::{Result, collected, push, zeroed};
use crate::isa::for_each_isa;
use crate::runtime::number::Real;
use crate::runtime::workers::{Parts, Workers, cut_lanes};
use std::array::from_fn;
use std::iter::repeat_n;
use std::ops::Range;

/// Rows of a slice: as many as numbers of single precision fill the widest vector.
const LANES: usize = 16;

/// Couplings by slices in the order of the sweeps, excess, 1 / diagonal.
pub struct Rows<V> {
    /// The first row of each slice, and the end.
    first: Vec<u32>,
    /// In lines of `LANES` couplings, of each slice where those to rows of earlier groups begin and those to later
    /// ones; and the end.
    ends: Vec<usize>,
    /// Of a coupling that is not there a row of the first group, or of the last.
    col: Vec<[u32; LANES]>,
    a: Vec<[V; LANES]>,
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
        let (mut first, mut groups) = (Vec::new(), Vec::new());
        for group in order.groups.windows(2) {
            for row in (group[0]..group[1]).step_by(LANES) {
                push(&mut first, row as u32, WHAT)?;
                push(&mut groups, Group { start: group[0] as u32, end: group[1] as u32 }, WHAT)?;
            }
        }
        push(&mut first, c.rows() as u32, WHAT)?;
        let mut ends: Vec<usize> = zeroed(2 * first.len() - 1, WHAT)?;
        for (slice, rows) in first.windows(2).enumerate() {
            let mut most = [0; 2];
            for k in rows[0]..rows[1] {
                let mut lengths = [0; 2];
                let places = c.row(order.row[k as usize] as usize).map(|(j, _)| order.place[j]);
                places.filter_map(|place| groups[slice].side(place)).for_each(|side| lengths[side] += 1);
                most = [0, 1].map(|side| most[side].max(lengths[side]));
            }
            ends[2 * slice + 1] = ends[2 * slice] + most[0];
            ends[2 * slice + 2] = ends[2 * slice + 1] + most[1];
        }
        let lines = ends[ends.len() - 1];
        let none = |count: usize| repeat_n([V::default(); LANES], count);
        let (mut col, mut a) = (collected(repeat_n([0; LANES], lines), WHAT)?, collected(none(lines), WHAT)?);
        let by_slice = collected(ends.iter().step_by(2).copied(), WHAT)?;
        let (mut cols, mut values) = (Parts(&mut col), Parts(&mut a));
        let bytes = lines * size_of::<([u32; LANES], [V; LANES])>();
        let pieces = cut_lanes(&by_slice, workers.pieces(bytes)).map(|slices| {
            let count = by_slice[slices.end] - by_slice[slices.start];
            (slices, cols.next(count), values.next(count))
        });
        workers.each(pieces, |(slices, col, a)| fill(c, order, (&first, &ends, &groups), slices, (col, a)))?;
        let of = |i: &u32| *i as usize;
        Ok(Self {
            first,
            ends,
            col,
            a,
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

    /// Lines of couplings of a slice to rows of earlier groups, or of later ones.
    #[inline(always)]
    fn lines(&self, slice: usize, later: bool) -> impl Iterator<Item = (&[u32; LANES], &[V; LANES])> {
        let at = 2 * slice + usize::from(later);
        self.lines_in(at, at + 1)
    }

    /// Those between two ends.
    #[inline(always)]
    fn lines_in(&self, start: usize, end: usize) -> impl Iterator<Item = (&[u32; LANES], &[V; LANES])> {
        let range = self.ends[start]..self.ends[end];
        self.col[range.clone()].iter().zip(&self.a[range])
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.first)
            + size_of_val(&*self.ends)
            + size_of_val(&*self.col)
            + size_of_val(&*self.a)
            + size_of_val(&*self.excess)
            + size_of_val(&*self.inverse)
    }
}

/// The rows of a group.
struct Group {
    start: u32,
    end: u32,
}

impl Group {
    /// On which side of it a row lies. A coupling within a group is left out of the sweeps: only a pattern that is not
    /// symmetric has one, whose one-sided entries are rounding.
    fn side(&self, row: u32) -> Option<usize> {
        if row < self.start {
            Some(0)
        } else if row >= self.end {
            Some(1)
        } else {
            None
        }
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
    /// They must be all that couplings of the slices in question lead to, or those of the side in question.
    pub unsafe fn new(values: &'a [V], start: usize) -> Self {
        Self { values, start }
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
fn add<V: Real>(sums: [V; LANES], (col, a): (&[u32; LANES], &[V; LANES]), z: &Around<V>) -> [V; LANES] {
    let z: [V; LANES] = from_fn(|l| z.at(col[l]));
    let products: [V; LANES] = from_fn(|l| a[l] * z[l]);
    from_fn(|l| sums[l] + products[l])
}

/// sums + a (x - z) over a line.
#[inline(always)]
fn add_differences<V: Real>(
    sums: [V; LANES],
    (col, a): (&[u32; LANES], &[V; LANES]),
    x: &[V; LANES],
    z: &Around<V>,
) -> [V; LANES] {
    let z: [V; LANES] = from_fn(|l| z.at(col[l]));
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
            for line in m.lines(s, false) {
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
            for line in m.lines(s, true) {
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
            for line in m.lines(s, false) {
                sums = add(sums, line, &before);
            }
            for line in m.lines(s, true) {
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
            for line in m.lines_in(2 * s, 2 * s + 2) {
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

/// Couplings of these slices, of each row on either side in the order in which they lie.
fn fill<V: Real>(
    c: &Couplings,
    order: &Ordered,
    (first, ends, groups): (&[u32], &[usize], &[Group]),
    slices: Range<usize>,
    (col, a): (&mut [[u32; LANES]], &mut [[V; LANES]]),
) {
    let (start, last) = (ends[2 * slices.start], c.rows().saturating_sub(1) as u32);
    for s in slices {
        let [earlier, later, end] = [0, 1, 2].map(|k| ends[2 * s + k] - start);
        col[later..end].fill([last; LANES]);
        for (lane, k) in (first[s]..first[s + 1]).enumerate() {
            let mut next = [earlier, later];
            for (j, value) in c.row(order.row[k as usize] as usize) {
                let place = order.place[j];
                let Some(side) = groups[s].side(place) else { continue };
                let line = &mut next[side];
                (col[*line][lane], a[*line][lane]) = (place, V::narrow(value));
                *line += 1;
            }
        }
    }
}

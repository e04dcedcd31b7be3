//! Couplings of the rows of a level, in the precision of the cycle. `LANES` rows that a sweep takes one after another
//! are a slice, whose couplings lie side by side in lines, so that loops work on all of them at a time. Where rows of a
//! slice have the same neighbours but for their place, as on a grid, each line has the couplings to the rows at one
//! distance, and reads values side by side; else a line names its columns. A row without a coupling in a line has zero
//! there, times a value that is finite wherever the sweep has not overflowed.

use crate::backend::aggregation::{Couplings, Ordered, WHAT};
use crate::error::{Error, Result, extend, push, reserve};
use crate::runtime::number::Real;
use crate::runtime::workers::{Workers, cut};
use std::array::from_fn;
use std::ops::Range;

/// Rows of a slice: as many as numbers of single precision fill the widest vector.
pub const LANES: usize = 16;
/// Lines by distance that are taken in place of one that names its columns: of a number in single precision they read
/// 68 bytes side by side, it reads 132 and its values one by one.
const WORTH: usize = 2;
/// Distances that are told apart.
const MOST_DISTANCES: usize = 16;
/// Rows of a slice that tell whether it has few.
const TELLING: usize = 4;
/// In `Lines::from`: the line names its columns, at the place in `Lines::col` that the other bits tell.
const NAMED: u32 = 1 << 31;

/// The lines of all slices.
#[derive(Default)]
pub struct Lines<V> {
    /// Of each slice where lines to rows of earlier groups begin and those to later ones; and the end.
    ends: Vec<usize>,
    /// Of each line the row that its first coupling is to, the others to those that follow; or `NAMED`.
    from: Vec<u32>,
    /// Rows that the couplings of a line are to, where it names them.
    col: Vec<[u32; LANES]>,
    a: Vec<[V; LANES]>,
}

/// Slices of all groups.
#[derive(Default)]
pub struct Slices {
    /// The first row of each, and the end.
    pub first: Vec<u32>,
    /// The rows of its group.
    group: Vec<Range<u32>>,
}

impl Slices {
    pub fn of(order: &Ordered) -> Result<Self> {
        let mut slices = Self::default();
        for group in order.groups.windows(2) {
            for row in (group[0]..group[1]).step_by(LANES) {
                push(&mut slices.first, row as u32, WHAT)?;
                push(&mut slices.group, group[0] as u32..group[1] as u32, WHAT)?;
            }
        }
        push(&mut slices.first, order.row.len() as u32, WHAT)?;
        Ok(slices)
    }
}

/// What a line is multiplied with.
pub enum At<'a> {
    /// Values from this row on, side by side.
    From(u32),
    /// Those of these rows.
    Rows(&'a [u32; LANES]),
}

impl<V: Real + Send> Lines<V> {
    pub fn of(c: &Couplings, order: &Ordered, slices: &Slices, workers: &mut Workers) -> Result<Self> {
        if c.rows() >= NAMED as usize {
            let sentence = format!("aggregation supports fewer than 2^31 rows, got {}", c.rows());
            return Err(Error::Unsupported(sentence));
        }
        let (count, bytes) = (slices.group.len(), c.col.len() * size_of::<(u32, V)>());
        let pieces = cut(count, workers.pieces(bytes).min(count).max(1));
        let mut parts = workers.map(pieces, |part| Self::of_slices(c, order, slices, part))?.into_iter();
        let mut all = parts.next().unwrap_or_else(|| Ok(Self::default()))?;
        for part in parts {
            all.append(part?)?;
        }
        Ok(all)
    }

    fn of_slices(c: &Couplings, order: &Ordered, slices: &Slices, part: Range<usize>) -> Result<Self> {
        let (mut lines, n) = (Self::default(), c.rows() as u32);
        let share = c.col.len() * part.len() / slices.group.len().max(1);
        reserve(&mut lines.ends, 2 * part.len() + 1, WHAT)?;
        reserve(&mut lines.from, share / LANES + part.len(), WHAT)?;
        reserve(&mut lines.a, share / LANES + part.len(), WHAT)?;
        lines.ends.push(0);
        let mut sides = [Side::default(), Side::default()];
        for s in part {
            let (first, group) = (slices.first[s], &slices.group[s]);
            let rows = [0..group.start, group.end..n];
            sides.iter_mut().for_each(Side::clear);
            for k in first..slices.first[s + 1] {
                let mut at = [Next::default(); 2];
                for (j, a) in c.row(order.row[k as usize] as usize) {
                    let place = order.place[j];
                    // A coupling within a group is left out of the sweeps: only a pattern that is not symmetric has
                    // one, whose one-sided entries are rounding.
                    if let Some(side) = rows.iter().position(|rows| rows.contains(&place)) {
                        sides[side].add((k - first) as usize, i64::from(place) - i64::from(k), a, &mut at[side])?;
                    }
                }
                sides.iter_mut().zip(at).for_each(|(side, at)| side.end_row(at.nth));
            }
            for (side, rows) in sides.iter().zip(rows) {
                match !side.are_many {
                    true => lines.push_distances(side, first, rows)?,
                    false => lines.push_named(c, order, (first..slices.first[s + 1], side.most), rows)?,
                }
                push(&mut lines.ends, lines.a.len(), WHAT)?;
            }
        }
        Ok(lines)
    }

    /// A line for each distance, for the slice whose first row is `first`. They read values of `rows`.
    fn push_distances(&mut self, side: &Side<V>, first: u32, rows: Range<u32>) -> Result<()> {
        for (distance, values) in side.distances.iter().zip(&side.values) {
            let from = i64::from(first) + distance;
            if from >= i64::from(rows.start) && from + LANES as i64 <= i64::from(rows.end) {
                push(&mut self.from, from as u32, WHAT)?;
            } else {
                // A coupling that is not there is to some row of the side.
                let to = |l: usize| (from + l as i64).clamp(i64::from(rows.start), i64::from(rows.end) - 1) as u32;
                push(&mut self.from, NAMED | self.col.len() as u32, WHAT)?;
                push(&mut self.col, from_fn(to), WHAT)?;
            }
            push(&mut self.a, *values, WHAT)?;
        }
        Ok(())
    }

    /// Lines that name their columns, for a slice of these rows, whose couplings to `rows` are `most` at most.
    fn push_named(
        &mut self,
        c: &Couplings,
        order: &Ordered,
        (slice, most): (Range<u32>, usize),
        rows: Range<u32>,
    ) -> Result<()> {
        let (line, named) = (self.a.len(), self.col.len());
        for k in 0..most {
            push(&mut self.from, NAMED | (named + k) as u32, WHAT)?;
            push(&mut self.col, [rows.start; LANES], WHAT)?;
            push(&mut self.a, [V::default(); LANES], WHAT)?;
        }
        for (lane, k) in slice.enumerate() {
            let couplings = c.row(order.row[k as usize] as usize).map(|(j, a)| (order.place[j], a));
            for (nth, (place, a)) in couplings.filter(|(place, _)| rows.contains(place)).enumerate() {
                (self.col[named + nth][lane], self.a[line + nth][lane]) = (place, V::narrow(a));
            }
        }
        Ok(())
    }

    /// Those of the slices that follow.
    fn append(&mut self, more: Self) -> Result<()> {
        let (lines, named) = (self.a.len(), self.col.len() as u32);
        extend(&mut self.ends, more.ends[1..].iter().map(|end| lines + end), WHAT)?;
        let moved = more.from.iter().map(|&from| if from & NAMED > 0 { from + named } else { from });
        extend(&mut self.from, moved, WHAT)?;
        extend(&mut self.col, more.col.iter().copied(), WHAT)?;
        extend(&mut self.a, more.a.iter().copied(), WHAT)
    }
}

impl<V> Lines<V> {
    /// Of a slice, to rows of earlier groups.
    #[inline(always)]
    pub fn earlier(&self, slice: usize) -> impl Iterator<Item = (At<'_>, &[V; LANES])> {
        self.between(2 * slice, 2 * slice + 1)
    }

    /// To rows of later ones.
    #[inline(always)]
    pub fn later(&self, slice: usize) -> impl Iterator<Item = (At<'_>, &[V; LANES])> {
        self.between(2 * slice + 1, 2 * slice + 2)
    }

    /// All.
    #[inline(always)]
    pub fn all(&self, slice: usize) -> impl Iterator<Item = (At<'_>, &[V; LANES])> {
        self.between(2 * slice, 2 * slice + 2)
    }

    #[inline(always)]
    fn between(&self, start: usize, end: usize) -> impl Iterator<Item = (At<'_>, &[V; LANES])> {
        let range = self.ends[start]..self.ends[end];
        self.from[range.clone()].iter().zip(&self.a[range]).map(|(&from, a)| {
            let at = if from & NAMED == 0 { At::From(from) } else { At::Rows(&self.col[(from ^ NAMED) as usize]) };
            (at, a)
        })
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ends) + size_of_val(&*self.from) + size_of_val(&*self.col) + size_of_val(&*self.a)
    }
}

/// Couplings of a slice to rows of earlier groups, or of later ones.
#[derive(Default)]
struct Side<V> {
    /// Place of a coupling less the row's own, each once; no more than `MOST_DISTANCES`.
    distances: Vec<i64>,
    /// The couplings at each.
    values: Vec<[V; LANES]>,
    /// There are more of them, or too many for lines by distance to be worth it.
    are_many: bool,
    /// Couplings of a row at most.
    most: usize,
    rows: usize,
}

/// Where a row stands in a side: how many couplings it has so far, and the distance that the next is likely to have.
#[derive(Clone, Copy, Default)]
struct Next {
    nth: usize,
    likely: usize,
}

impl<V: Real> Side<V> {
    fn clear(&mut self) {
        self.distances.clear();
        self.values.clear();
        (self.are_many, self.most, self.rows) = (false, 0, 0);
    }

    /// A row with so many couplings ends.
    fn end_row(&mut self, couplings: usize) {
        self.most = self.most.max(couplings);
        self.rows += 1;
        self.are_many |= self.rows >= TELLING && self.distances.len() > WORTH * self.most;
    }

    /// The next coupling of a row.
    #[inline(always)]
    fn add(&mut self, lane: usize, distance: i64, a: f64, next: &mut Next) -> Result<()> {
        if self.are_many {
            next.nth += 1;
            return Ok(());
        }
        let likely = self.distances.get(next.likely).is_some_and(|d| *d == distance);
        let known = if likely { Some(next.likely) } else { self.distances.iter().position(|d| *d == distance) };
        let line = match known {
            Some(line) => line,
            None if self.distances.len() == MOST_DISTANCES => {
                self.are_many = true;
                next.nth += 1;
                return Ok(());
            }
            None => {
                push(&mut self.distances, distance, WHAT)?;
                push(&mut self.values, [V::default(); LANES], WHAT)?;
                self.distances.len() - 1
            }
        };
        self.values[line][lane] = V::narrow(a);
        *next = Next { nth: next.nth + 1, likely: line + 1 };
        Ok(())
    }
}

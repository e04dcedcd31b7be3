//! Triangular systems with unit diagonals by a team, level by level.

use super::apply::{Apply, WHAT};
use super::split::{Part, Split, kept};
use crate::backend::cpu::sparse::stages::{Order, Stages};
use crate::backend::cpu::sparse::values::Values;
use crate::error::{Result, collected, push, reserve};
use crate::runtime::heap::Counted;
use crate::runtime::number::Real;
use crate::runtime::shared::Shared;
use crate::runtime::team::{Me, Team};
use crate::sparse::Index;

/// M^-1 of a `Split`, to rounding.
pub struct Solved<I, V> {
    /// Shared with M^-T.
    order: Counted<Order<I>>,
    stages: Stages,
    /// Rows and entries of `lower` before each unit, and all of them.
    work: Vec<usize>,
    lower: Triangle<I, V>,
    upper: Triangle<I, V>,
    scale: Vec<f64>,
}

impl<I: Index, V: Real + Send> Solved<I, V> {
    /// `split` has no entries but where A or A' has, and `order` is `by_levels` of A.
    pub fn new(order: &Counted<Order<I>>, split: Split<I>, team: &mut Team) -> Result<Self> {
        let Split { lower, upper, scale } = split;
        let (lower, upper) = team.both(|| Triangle::new(&lower, order), || Triangle::new(&upper, order))?;
        let (lower, upper) = (lower?, upper?);
        let before = |unit: usize| order.units[unit] + lower.entries_before(unit);
        let work = collected((0..order.units.len()).map(before), WHAT)?;
        let stages = Stages::new(&order.levels, |unit| work[unit])?;
        Ok(Self { order: order.clone(), stages, work, lower, upper, scale })
    }

    /// How many there are.
    pub fn levels(&self) -> usize {
        self.order.levels.len() - 1
    }

    /// x_i = first(i) - sum over j of t_ij x_j for all rows, from the first to the last, or back. The sum goes by
    /// ascending columns. Starts and ends as `Stages::run` does.
    fn solve<const BACK: bool>(&self, me: &Me, t: &Triangle<I, V>, x: Values, first: impl Fn(usize) -> f64) {
        self.stages.run(
            me,
            BACK,
            |unit| self.work[unit],
            // SAFETY: members write only rows of this stage meanwhile, each those of its own units, and a row reads no
            // others of the stage: its columns are in its unit or in other levels, since levels are those of A + A'
            // (`by_levels`). Joined levels are one member's.
            |unit| unsafe { t.solve_unit::<BACK>(&self.order.rows, unit, x, &first) },
        );
    }
}

/// Rows of a triangle in the order of work.
struct Triangle<I, V> {
    /// Of each unit in turn, and one that begins where all have ended.
    spans: Vec<Span>,
    /// The spans where units begin, and the end.
    units: Vec<usize>,
    col: Vec<I>,
    val: Vec<V>,
}

/// Consecutive places of a unit whose rows have as many entries: a loop without a branch for each row.
#[derive(Clone, Copy)]
struct Span {
    /// Entries of a row.
    width: usize,
    /// Where places and entries begin.
    place: usize,
    entry: usize,
}

impl<I: Index, V: Real> Triangle<I, V> {
    fn new(t: &Part<I>, order: &Order<I>) -> Result<Self> {
        let (mut spans, mut units, mut col) = (Vec::new(), Vec::new(), Vec::new());
        reserve(&mut units, order.units.len(), WHAT)?;
        reserve(&mut col, t.col.len(), WHAT)?;
        let entries = |row: &I| t.ptr[row.at()]..t.ptr[row.at() + 1];
        for unit in order.units.windows(2) {
            units.push(spans.len());
            let mut before = None;
            for place in unit[0]..unit[1] {
                let entries = entries(&order.rows[place]);
                let width = Some(entries.len());
                if width != before {
                    push(&mut spans, Span { width: entries.len(), place, entry: col.len() }, WHAT)?;
                    before = width;
                }
                col.extend_from_slice(&t.col[entries]);
            }
        }
        units.push(spans.len());
        push(&mut spans, Span { width: 0, place: order.rows.len(), entry: col.len() }, WHAT)?;
        let val = kept(order.rows.iter().flat_map(|row| t.val[entries(row)].iter().copied()), t.val.len())?;
        Ok(Self { spans, units, col, val })
    }

    fn entries_before(&self, unit: usize) -> usize {
        self.spans[self.units[unit]].entry
    }

    /// The rows of a unit.
    ///
    /// # Safety
    /// Nobody may write x at their columns, or use x at these rows, meanwhile.
    unsafe fn solve_unit<const BACK: bool>(&self, rows: &[I], unit: usize, x: Values, first: &impl Fn(usize) -> f64) {
        let spans = self.units[unit]..self.units[unit + 1];
        for k in spans.clone() {
            let k = if BACK { spans.start + spans.end - 1 - k } else { k };
            let (span, next) = (self.spans[k], self.spans[k + 1]);
            let (rows, entries) = (&rows[span.place..next.place], span.entry..next.entry);
            let (col, val) = (&self.col[entries.clone()], &self.val[entries]);
            // SAFETY: as our caller promised.
            unsafe {
                match span.width {
                    1 => solve_rows::<I, V, 1, BACK>(rows, col, val, x, first),
                    2 => solve_rows::<I, V, 2, BACK>(rows, col, val, x, first),
                    3 => solve_rows::<I, V, 3, BACK>(rows, col, val, x, first),
                    4 => solve_rows::<I, V, 4, BACK>(rows, col, val, x, first),
                    width => solve_wide_rows::<I, V, BACK>(rows, width, col, val, x, first),
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.spans) + size_of_val(&*self.units) + size_of_val(&*self.col) + size_of_val(&*self.val)
    }
}

/// Rows of N entries.
///
/// # Safety
/// Nobody may write x at their columns, or use x at these rows, meanwhile.
#[inline(always)]
unsafe fn solve_rows<I: Index, V: Real, const N: usize, const BACK: bool>(
    rows: &[I],
    col: &[I],
    val: &[V],
    x: Values,
    first: &impl Fn(usize) -> f64,
) {
    let (col, val) = (&col.as_chunks::<N>().0[..rows.len()], &val.as_chunks::<N>().0[..rows.len()]);
    for k in 0..rows.len() {
        let k = if BACK { rows.len() - 1 - k } else { k };
        // SAFETY: as our caller promised.
        unsafe { solve_row(rows[k].at(), &col[k], &val[k], x, first) };
    }
}

/// The same with any number of entries.
///
/// # Safety
/// As for `solve_rows`.
#[inline(always)]
unsafe fn solve_wide_rows<I: Index, V: Real, const BACK: bool>(
    rows: &[I],
    width: usize,
    col: &[I],
    val: &[V],
    x: Values,
    first: &impl Fn(usize) -> f64,
) {
    for k in 0..rows.len() {
        let k = if BACK { rows.len() - 1 - k } else { k };
        let entries = k * width..(k + 1) * width;
        // SAFETY: as our caller promised.
        unsafe { solve_row(rows[k].at(), &col[entries.clone()], &val[entries], x, first) };
    }
}

/// x_i = first(i) - sum over j of t_ij x_j.
///
/// # Safety
/// Nobody may write x at these columns, or use x at row i, meanwhile.
#[inline(always)]
unsafe fn solve_row<I: Index, V: Real>(i: usize, col: &[I], val: &[V], x: Values, first: &impl Fn(usize) -> f64) {
    // SAFETY: columns of a square matrix, seen to be inside when it was made, are rows, of which x has as many
    // (`apply`); not written, as our caller promised.
    let sum = col.iter().zip(val).fold(0.0, |sum, (j, t)| sum + t.wide() * unsafe { x.get(j.at()) });
    // SAFETY: a row, and used by nobody else, as our caller promised; `first` reads no other value of x than this.
    unsafe { x.set(i, first(i) - sum) };
}

impl<I: Index, V: Real + Send + Sync> Apply for Solved<I, V> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let x = Values::of(to);
        // What is written to, and read from, by row and column.
        assert_eq!(x.count(), self.scale.len());
        // SAFETY: nobody writes `from` meanwhile (`Apply::apply`).
        let from = unsafe { from.slice(0, self.scale.len()) };
        self.solve::<false>(me, &self.lower, x, |i| from[i]);
        // SAFETY: x_i is this member's to read and write in its stage.
        self.solve::<true>(me, &self.upper, x, |i| self.scale[i] * unsafe { x.get(i) });
    }

    fn bytes(&self) -> usize {
        let parts = self.lower.bytes() + self.upper.bytes() + size_of_val(&*self.scale);
        parts + self.order.bytes() + self.stages.bytes() + size_of_val(&*self.work)
    }
}

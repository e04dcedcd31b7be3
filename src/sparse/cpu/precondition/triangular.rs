//! Solution of unit triangular systems by a thread team, level by level.

use super::apply::{Apply, WHAT};
use crate::base::heap::Counted;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::Shared;
use crate::base::team::{Team, TeamThread};
use crate::error::{Result, collected, push, reserve};
use crate::sparse::cpu::stages::{Order, Stages};
use crate::sparse::cpu::values::Values;
use crate::sparse::{Part, Split, converted};

/// M^-1 in the form of [`Split`], applied by triangular solves.
pub struct TriangularSolver<I, V> {
    /// Order of processing, which M^-1 and M^-T share.
    order: Counted<Order<I>>,
    stages: Stages,
    /// Number of rows plus entries of `lower` before each unit. The last element is the total.
    work: Vec<usize>,
    lower: Triangle<I, V>,
    upper: Triangle<I, V>,
    scale: Vec<f64>,
}

impl<I: Index, V: Real + Send> TriangularSolver<I, V> {
    /// Creates the solver. The pattern of `split` must be contained in the pattern of A + A^T, and `order` must be
    /// `by_levels` or `Order::by_colours` of A. In this order, `lower` must be lower and `upper` upper triangular.
    pub fn new(order: &Counted<Order<I>>, split: Split<I>, team: &mut Team) -> Result<Self> {
        let Split { lower, upper, scale } = split;
        let (lower, upper) = team.run_both(|| Triangle::new(&lower, order), || Triangle::new(&upper, order))?;
        let (lower, upper) = (lower?, upper?);
        let before = |unit: usize| order.units[unit] + lower.entries_before(unit);
        let work = collected((0..order.units.len()).map(before), WHAT)?;
        let stages = Stages::new(&order.levels, |unit| work[unit])?;
        Ok(Self { order: order.clone(), stages, work, lower, upper, scale })
    }

    /// Returns the number of levels.
    pub fn levels(&self) -> usize {
        self.order.levels.len() - 1
    }

    /// Solves x_i = first(i) - sum over j of t_ij x_j for all rows, in the order of processing or, if `BACK`, in the
    /// reverse order. The sum is in the order of the stored entries. Barriers are as in `Stages::run`.
    fn solve<const BACK: bool>(&self, me: &TeamThread, t: &Triangle<I, V>, x: Values, first: impl Fn(usize) -> f64) {
        self.stages.run(
            me,
            BACK,
            |unit| self.work[unit],
            // SAFETY: during a stage, each thread writes only rows of its own units. If the stage is one level, a row
            // reads no rows of other units of the stage, because `by_levels` and `by_colours` put connected rows of A +
            // A^T into the same unit or on different levels. If the stage consists of several levels, only thread 0
            // processes it.
            |unit| unsafe { t.solve_unit::<BACK>(&self.order.rows, unit, x, &first) },
        );
    }
}

/// The rows of a triangular matrix in the order of processing.
struct Triangle<I, V> {
    /// The spans of all units, in the order of the units. An empty span at the end of all rows and entries follows.
    spans: Vec<Span>,
    /// Index in `spans` of the first span of each unit; one more element is the index of the empty span.
    units: Vec<usize>,
    col: Vec<I>,
    val: Vec<V>,
}

/// Consecutive positions of a unit whose rows have equal numbers of entries, so that the loop needs no branch per row.
#[derive(Clone, Copy)]
struct Span {
    /// Entries per row.
    width: usize,
    /// Position of the first of these rows in the order of processing.
    position: usize,
    /// Index of the first entry in `col` and `val`.
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
            for position in unit[0]..unit[1] {
                let entries = entries(&order.rows[position]);
                let width = Some(entries.len());
                if width != before {
                    push(&mut spans, Span { width: entries.len(), position, entry: col.len() }, WHAT)?;
                    before = width;
                }
                col.extend_from_slice(&t.col[entries]);
            }
        }
        units.push(spans.len());
        push(&mut spans, Span { width: 0, position: order.rows.len(), entry: col.len() }, WHAT)?;
        let val = converted(order.rows.iter().flat_map(|row| t.val[entries(row)].iter().copied()), t.val.len())?;
        Ok(Self { spans, units, col, val })
    }

    fn entries_before(&self, unit: usize) -> usize {
        self.spans[self.units[unit]].entry
    }

    /// Solves the rows of a unit. `rows` contains all rows in the order of processing.
    ///
    /// # Safety
    /// x must have one value per row of the matrix. During the call, no other thread may access the values of the rows
    /// of this unit, or write values at the columns of these rows. `first(i)` may read only x_i of the vector x.
    unsafe fn solve_unit<const BACK: bool>(&self, rows: &[I], unit: usize, x: Values, first: &impl Fn(usize) -> f64) {
        let spans = self.units[unit]..self.units[unit + 1];
        for k in spans.clone() {
            let k = if BACK { spans.start + spans.end - 1 - k } else { k };
            let (span, next) = (self.spans[k], self.spans[k + 1]);
            let (rows, entries) = (&rows[span.position..next.position], span.entry..next.entry);
            let (col, val) = (&self.col[entries.clone()], &self.val[entries]);
            // SAFETY: guaranteed by the caller.
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

/// Solves consecutive rows of N entries each.
///
/// # Safety
/// As for `Triangle::solve_unit`, for these rows.
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
        // SAFETY: guaranteed by the caller.
        unsafe { solve_row(rows[k].at(), &col[k], &val[k], x, first) };
    }
}

/// Solves consecutive rows of `width` entries each.
///
/// # Safety
/// As for `Triangle::solve_unit`, for these rows.
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
        // SAFETY: guaranteed by the caller.
        unsafe { solve_row(rows[k].at(), &col[entries.clone()], &val[entries], x, first) };
    }
}

/// Computes x_i = first(i) - sum over j of t_ij x_j.
///
/// # Safety
/// As for `Triangle::solve_unit`, for row i.
#[inline(always)]
unsafe fn solve_row<I: Index, V: Real>(i: usize, col: &[I], val: &[V], x: Values, first: &impl Fn(usize) -> f64) {
    // SAFETY: the columns were checked when the matrix was built; the matrix is square, and x has one value per row
    // (checked in `apply`). The caller excludes concurrent writes.
    let sum = col.iter().zip(val).fold(0.0, |sum, (j, t)| sum + t.wide() * unsafe { x.get(j.at()) });
    // SAFETY: i is a row, so x_i exists. The caller excludes accesses by other threads. `first` reads no value of x
    // except x_i.
    unsafe { x.set(i, first(i) - sum) };
}

impl<I: Index, V: Real + Send + Sync> Apply for TriangularSolver<I, V> {
    fn apply(&self, me: &TeamThread, from: &Shared, to: &Shared) {
        let x = Values::of(to);
        // The rows and columns of the matrix are used as indices into this vector.
        assert_eq!(x.count(), self.scale.len());
        // SAFETY: no thread writes `from` (`Apply::apply`).
        let from = unsafe { from.slice(0, self.scale.len()) };
        self.solve::<false>(me, &self.lower, x, |i| from[i]);
        // SAFETY: in its stage, this thread alone accesses x_i.
        self.solve::<true>(me, &self.upper, x, |i| self.scale[i] * unsafe { x.get(i) });
    }

    fn bytes(&self) -> usize {
        let parts = self.lower.bytes() + self.upper.bytes() + size_of_val(&*self.scale);
        parts + self.order.bytes() + self.stages.bytes() + size_of_val(&*self.work)
    }
}

//! Solution of unit triangular systems by a thread team, level by level.

use super::apply::{ALLOCATION_NAME, ApplyInverse};
use crate::base::heap::FallibleArc;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::Shared;
use crate::base::team::{Team, TeamThread};
use crate::error::{Result, collected, push, reserve};
use crate::sparse::cpu::stages::{ProcessingOrder, Stages};
use crate::sparse::cpu::values::SharedValues;
use crate::sparse::{CsrPart, TriangularSplit, convert_values};

/// M^-1 in the form of [`TriangularSplit`], applied by triangular solves.
pub struct TriangularSolver<I, V> {
    /// Order of processing. The solvers for M^-1 and M^-T share it.
    order: FallibleArc<ProcessingOrder<I>>,
    stages: Stages,
    /// Number of rows plus entries of `lower` in the units before each unit. The last element is the total.
    work_before_unit: Vec<usize>,
    lower: SpannedTriangle<I, V>,
    upper: SpannedTriangle<I, V>,
    g_diagonal: Vec<f64>,
}

impl<I: Index, V: Real + Send> TriangularSolver<I, V> {
    /// Creates the solver. The pattern of `split` must be contained in the pattern of A + A^T. `order` must be the
    /// result of `order_by_levels` or `ProcessingOrder::by_colours` for A. With the rows in this order, `split.lower`
    /// must be lower triangular and `split.upper` upper triangular.
    pub fn new(order: &FallibleArc<ProcessingOrder<I>>, split: TriangularSplit<I>, team: &mut Team) -> Result<Self> {
        let TriangularSplit { lower, upper, g_diagonal } = split;
        let (lower, upper) =
            team.run_both(|| SpannedTriangle::new(&lower, order), || SpannedTriangle::new(&upper, order))?;
        let (lower, upper) = (lower?, upper?);
        let work_before = |unit: usize| order.unit_starts[unit] + lower.entries_before(unit);
        let work_before_unit = collected((0..order.unit_starts.len()).map(work_before), ALLOCATION_NAME)?;
        let stages = Stages::new(&order.level_starts, |unit| work_before_unit[unit])?;
        Ok(Self { order: order.clone(), stages, work_before_unit, lower, upper, g_diagonal })
    }

    /// Returns the number of levels.
    pub fn level_count(&self) -> usize {
        self.order.level_starts.len() - 1
    }

    /// Solves x_i = initial_value(i) - sum over j of t_ij x_j for all rows i. Visits the rows in the order of
    /// `self.order` or, if `BACKWARD` is true, in the reverse order. The terms of the sum are added in the order of the
    /// stored entries. Each stage ends with a barrier (`Stages::run`).
    fn solve<const BACKWARD: bool>(
        &self,
        thread: &TeamThread,
        t: &SpannedTriangle<I, V>,
        x: SharedValues,
        initial_value: impl Fn(usize) -> f64,
    ) {
        self.stages.run(
            thread,
            BACKWARD,
            |unit| self.work_before_unit[unit],
            // SAFETY: during a stage, each thread writes only rows of its own units. If the stage is one level, a row
            // reads no rows of other units of the stage, because `order_by_levels` and `by_colours` put connected rows
            // of A + A^T into the same unit or on different levels. If the stage consists of several levels, only
            // thread 0 processes it.
            |unit| unsafe { t.solve_unit::<BACKWARD>(&self.order.rows, unit, x, &initial_value) },
        );
    }
}

/// The rows of a triangular matrix in the order of processing, divided into spans.
struct SpannedTriangle<I, V> {
    /// The spans of all units, in the order of the units. The last element is an empty span, which marks the end of all
    /// rows and entries.
    spans: Vec<Span>,
    /// Index in `spans` of the first span of each unit. The last element is the index of the empty span.
    unit_spans: Vec<usize>,
    col: Vec<I>,
    val: Vec<V>,
}

/// A span: consecutive rows of a unit with equal numbers of entries. The loop over these rows needs no branch per row.
#[derive(Clone, Copy)]
struct Span {
    /// Entries per row.
    row_len: usize,
    /// Position of the first of these rows in the order of processing.
    first_position: usize,
    /// Index in `col` and `val` of the first entry of the span.
    first_entry: usize,
}

impl<I: Index, V: Real> SpannedTriangle<I, V> {
    fn new(t: &CsrPart<I>, order: &ProcessingOrder<I>) -> Result<Self> {
        let (mut spans, mut unit_spans, mut col) = (Vec::new(), Vec::new(), Vec::new());
        reserve(&mut unit_spans, order.unit_starts.len(), ALLOCATION_NAME)?;
        reserve(&mut col, t.col.len(), ALLOCATION_NAME)?;
        let entries_of_row = |row: &I| t.ptr[row.to_usize()]..t.ptr[row.to_usize() + 1];
        for unit in order.unit_starts.windows(2) {
            unit_spans.push(spans.len());
            let mut previous_width = None;
            for first_position in unit[0]..unit[1] {
                let entries = entries_of_row(&order.rows[first_position]);
                let row_len = Some(entries.len());
                if row_len != previous_width {
                    push(
                        &mut spans,
                        Span { row_len: entries.len(), first_position, first_entry: col.len() },
                        ALLOCATION_NAME,
                    )?;
                    previous_width = row_len;
                }
                col.extend_from_slice(&t.col[entries]);
            }
        }
        unit_spans.push(spans.len());
        push(
            &mut spans,
            Span { row_len: 0, first_position: order.rows.len(), first_entry: col.len() },
            ALLOCATION_NAME,
        )?;
        let val =
            convert_values(order.rows.iter().flat_map(|row| t.val[entries_of_row(row)].iter().copied()), t.val.len())?;
        Ok(Self { spans, unit_spans, col, val })
    }

    /// Returns the number of entries in the units before `unit`.
    fn entries_before(&self, unit: usize) -> usize {
        self.spans[self.unit_spans[unit]].first_entry
    }

    /// Solves the rows of a unit. `rows` contains all rows in the order of processing.
    ///
    /// # Safety
    /// x must have one value per row of the matrix. During the call, no other thread may access the values of the rows
    /// of this unit, or write values at the columns of these rows. `initial_value(i)` may read only x_i of the vector
    /// x.
    unsafe fn solve_unit<const BACKWARD: bool>(
        &self,
        rows: &[I],
        unit: usize,
        x: SharedValues,
        initial_value: &impl Fn(usize) -> f64,
    ) {
        let spans = self.unit_spans[unit]..self.unit_spans[unit + 1];
        for k in spans.clone() {
            let k = if BACKWARD { spans.start + spans.end - 1 - k } else { k };
            let (span, next_span) = (self.spans[k], self.spans[k + 1]);
            let (rows, entries) =
                (&rows[span.first_position..next_span.first_position], span.first_entry..next_span.first_entry);
            let (col, val) = (&self.col[entries.clone()], &self.val[entries]);
            // SAFETY: guaranteed by the caller.
            unsafe {
                match span.row_len {
                    1 => solve_rows::<I, V, 1, BACKWARD>(rows, col, val, x, initial_value),
                    2 => solve_rows::<I, V, 2, BACKWARD>(rows, col, val, x, initial_value),
                    3 => solve_rows::<I, V, 3, BACKWARD>(rows, col, val, x, initial_value),
                    4 => solve_rows::<I, V, 4, BACKWARD>(rows, col, val, x, initial_value),
                    row_len => solve_wide_rows::<I, V, BACKWARD>(rows, row_len, col, val, x, initial_value),
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.spans) + size_of_val(&*self.unit_spans) + size_of_val(&*self.col) + size_of_val(&*self.val)
    }
}

/// Solves consecutive rows of N entries each.
///
/// # Safety
/// As for `SpannedTriangle::solve_unit`, for these rows.
#[inline(always)]
unsafe fn solve_rows<I: Index, V: Real, const N: usize, const BACKWARD: bool>(
    rows: &[I],
    col: &[I],
    val: &[V],
    x: SharedValues,
    initial_value: &impl Fn(usize) -> f64,
) {
    let (col, val) = (&col.as_chunks::<N>().0[..rows.len()], &val.as_chunks::<N>().0[..rows.len()]);
    for k in 0..rows.len() {
        let k = if BACKWARD { rows.len() - 1 - k } else { k };
        // SAFETY: guaranteed by the caller.
        unsafe { solve_row(rows[k].to_usize(), &col[k], &val[k], x, initial_value) };
    }
}

/// Solves consecutive rows of `width` entries each.
///
/// # Safety
/// As for `SpannedTriangle::solve_unit`, for these rows.
#[inline(always)]
unsafe fn solve_wide_rows<I: Index, V: Real, const BACKWARD: bool>(
    rows: &[I],
    width: usize,
    col: &[I],
    val: &[V],
    x: SharedValues,
    initial_value: &impl Fn(usize) -> f64,
) {
    for k in 0..rows.len() {
        let k = if BACKWARD { rows.len() - 1 - k } else { k };
        let entries = k * width..(k + 1) * width;
        // SAFETY: guaranteed by the caller.
        unsafe { solve_row(rows[k].to_usize(), &col[entries.clone()], &val[entries], x, initial_value) };
    }
}

/// Computes x_i = initial_value(i) - sum over j of t_ij x_j.
///
/// # Safety
/// As for `SpannedTriangle::solve_unit`, for row i.
#[inline(always)]
unsafe fn solve_row<I: Index, V: Real>(
    i: usize,
    col: &[I],
    val: &[V],
    x: SharedValues,
    initial_value: &impl Fn(usize) -> f64,
) {
    // SAFETY: the columns were checked when the matrix was built; the matrix is square, and x has one value per row
    // (checked in `apply`). The caller excludes concurrent writes.
    let sum = col.iter().zip(val).fold(0.0, |sum, (j, t)| sum + t.to_f64() * unsafe { x.get(j.to_usize()) });
    // SAFETY: i is a row, so x_i exists. The caller excludes accesses by other threads. `initial_value` reads no value
    // of x except x_i.
    unsafe { x.set(i, initial_value(i) - sum) };
}

impl<I: Index, V: Real + Send + Sync> ApplyInverse for TriangularSolver<I, V> {
    fn apply(&self, thread: &TeamThread, r: &Shared, z: &Shared) {
        let x = SharedValues::of(z);
        // The rows and columns of the matrix are used as indices into x.
        assert_eq!(x.count(), self.g_diagonal.len());
        // SAFETY: no thread writes `r` (`ApplyInverse::apply`).
        let r = unsafe { r.slice(0, self.g_diagonal.len()) };
        self.solve::<false>(thread, &self.lower, x, |i| r[i]);
        // SAFETY: during the stage in which row i is solved, only this thread accesses x_i.
        self.solve::<true>(thread, &self.upper, x, |i| self.g_diagonal[i] * unsafe { x.get(i) });
    }

    fn bytes(&self) -> usize {
        let factor_bytes = self.lower.bytes() + self.upper.bytes() + size_of_val(&*self.g_diagonal);
        factor_bytes + self.order.bytes() + self.stages.bytes() + size_of_val(&*self.work_before_unit)
    }
}

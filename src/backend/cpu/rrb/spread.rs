//! Natural rows to r1/r2/b1/b2 grids and back: which of them lie in which rows J, and what a row of values or of a half
//! stencil is spread over.

use super::area::Four;
use super::loops::{deinterleave, interleave, scale_row};
use super::loops_setup::deinterleave_same;
use super::neighbours::{Diagonal, EAST, NORTH, NORTHEAST, NORTHWEST, SOUTH, SOUTHEAST, SOUTHWEST, Straight, WEST};
use super::number::Format;
use crate::grid::layout::{Colour, Layout};
use crate::runtime::number::Real;
use crate::runtime::shared::Number;
use std::ops::Range;

/// The arrays that one row of a natural half stencil is spread over.
pub struct Target<'a, F: Format> {
    pub layout: &'a Layout,
    pub diagonal: &'a Four,
    /// Multiples of what the format stores, over `unit`.
    pub straight: &'a Straight<F::Stored>,
    pub unit: f64,
    /// r1 to r2, b1 to b2; absent with 5 points.
    pub corners: Option<(&'a Diagonal, &'a Diagonal)>,
}

/// Values of one row of a natural array, the first at column `start`.
pub type NaturalRow<'a, R = f64> = (usize, &'a [R]);

/// Even entries i' = shift + k go to `even`, odd ones to `odd`.
pub fn split<R: Real>(row: NaturalRow<R>, even: &mut [R], odd: &mut [R]) {
    split_by(row, even, odd, |v| v, deinterleave);
}

/// The same with entries that `one` converts, and `pairs` pair by pair.
fn split_by<R: Copy, T>(
    (shift, values): NaturalRow<R>,
    even: &mut [T],
    odd: &mut [T],
    one: impl Fn(R) -> T,
    pairs: impl Fn(&[R], &mut [T], &mut [T]),
) {
    let mut k = 0;
    if shift % 2 == 1 && !values.is_empty() {
        odd[shift / 2] = one(values[0]);
        k = 1;
    }
    let first = (shift + k) / 2;
    let values = &values[k..];
    pairs(values, &mut even[first..], &mut odd[first..]);
    if values.len() % 2 == 1 {
        even[first + values.len() / 2] = one(values[values.len() - 1]);
    }
}

impl<F: Format> Target<'_, F> {
    /// Spreads row j: diagonal, east, north, northeast, northwest.
    ///
    /// # Safety
    /// No other thread may use what this row is spread to; other natural rows, and what they are spread to, are for
    /// others.
    pub unsafe fn spread(&self, j: usize, rows: [NaturalRow; 5]) {
        let row = (j + self.layout.shift_y) / 2;
        let odd_row = (j + self.layout.shift_y) % 2 == 1;
        let [diagonal, east, north, northeast, northwest] =
            rows.map(|(start, values)| (start + self.layout.shift_x, values));
        let (d, r1, r2) = (self.diagonal, &self.straight.r1, &self.straight.r2);
        let (unit, per_unit) = (self.unit, self.unit.recip());
        let store = |row: NaturalRow, even: &mut [F::Stored], odd: &mut [F::Stored]| {
            let one = |v: f64| F::same(F::Real::narrow(v * per_unit));
            split_by(row, even, odd, one, |values, even, odd| deinterleave_same::<F>(even, odd, values, unit));
        };
        // Each row of each array gets values from one natural row alone, which one thread spreads: rows J of r1, b2 and
        // row J + 1 of what r2 and b1 couple to the south from j' = 2J + 1, the others from j' = 2J. SAFETY: so no
        // other spreads to them, and the caller promised that no other thread uses them meanwhile: threads that follow
        // use rows that they spread alone.
        unsafe {
            if odd_row {
                split(diagonal, d.r1.row_mut(row, 0), d.b2.row_mut(row, 0));
                store(east, r1[EAST].row_mut(row, 0), r1[WEST].row_mut(row, 1));
                store(north, r1[NORTH].row_mut(row, 0), r2[SOUTH].row_mut(row + 1, 0));
            } else {
                split(diagonal, d.b1.row_mut(row, 0), d.r2.row_mut(row, 0));
                store(east, r2[WEST].row_mut(row, 0), r2[EAST].row_mut(row, 0));
                store(north, r1[SOUTH].row_mut(row, 0), r2[NORTH].row_mut(row, 0));
            }
            let Some((red, black)) = self.corners else { return };
            let (red, black) = (&red.of, &black.of);
            if odd_row {
                split(northeast, red[NORTHEAST].row_mut(row, 0), black[SOUTHWEST].row_mut(row + 1, 1));
                split(northwest, red[NORTHWEST].row_mut(row, 0), black[SOUTHEAST].row_mut(row + 1, 0));
            } else {
                split(northeast, black[NORTHEAST].row_mut(row, 0), red[SOUTHWEST].row_mut(row, 1));
                split(northwest, black[NORTHWEST].row_mut(row, 0), red[SOUTHEAST].row_mut(row, 0));
            }
        }
    }
}

/// Rows j of the natural grid that lie in rows J of the arrays.
pub fn natural_rows(layout: &Layout, rows: &Range<usize>) -> Range<usize> {
    let of = |row: usize| (2 * row).saturating_sub(layout.shift_y).min(layout.grid.ny);
    of(rows.start)..of(rows.end)
}

/// Spreads natural row j, times `scale`, over the colours.
///
/// # Safety
/// Rows J of the two colours of row j must not be used by others in this step.
pub unsafe fn spread<R: Real + Number>(layout: &Layout, j: usize, values: &[R], scale: f64, v: &Four<R>) {
    let row = (j + layout.shift_y) / 2;
    let (even, odd) = colours_of_row(layout, j);
    // SAFETY: by the safety contract of this function.
    let (even, odd) = unsafe { (v[even].row_mut(row, 0), v[odd].row_mut(row, 0)) };
    split((layout.shift_x, values), even, odd);
    if scale != 1.0 {
        scale_row(even, scale);
        scale_row(odd, scale);
    }
}

/// Collects natural row j from the colours.
///
/// # Safety
/// No thread may write rows J of the two colours of row j in this step.
pub unsafe fn collect<R: Real + Number>(layout: &Layout, j: usize, v: &Four<R>, values: &mut [R]) {
    let row = (j + layout.shift_y) / 2;
    let (even, odd) = colours_of_row(layout, j);
    // SAFETY: by the safety contract of this function.
    join(layout, unsafe { (v[even].row(row, 0), v[odd].row(row, 0)) }, values);
}

/// Natural row j of a matrix with 5 points from the colours: center, east, north.
///
/// # Safety
/// No thread may write the matrix meanwhile.
pub unsafe fn collect_matrix(layout: &Layout, j: usize, diagonal: &Four, straight: &Straight, to: [&mut [f64]; 3]) {
    let row = (j + layout.shift_y) / 2;
    let (r1, r2) = (&straight.r1, &straight.r2);
    let [center, east, north] = to;
    // SAFETY: by the safety contract of this function; the places are those of `Target::spread`.
    unsafe {
        collect(layout, j, diagonal, center);
        let (of_east, of_north) = if (j + layout.shift_y) % 2 == 1 {
            ((r1[EAST].row(row, 0), r1[WEST].row(row, 1)), (r1[NORTH].row(row, 0), r2[SOUTH].row(row + 1, 0)))
        } else {
            ((r2[WEST].row(row, 0), r2[EAST].row(row, 0)), (r1[SOUTH].row(row, 0), r2[NORTH].row(row, 0)))
        };
        join(layout, of_east, east);
        join(layout, of_north, north);
    }
}

/// The natural row that even and odd columns make.
pub fn join<R: Real>(layout: &Layout, (even, odd): (&[R], &[R]), values: &mut [R]) {
    if layout.shift_x == 1 {
        // A single column: it is the odd one.
        values[0] = odd[0];
        return;
    }
    interleave(even, odd, values);
    if layout.grid.nx % 2 == 1 {
        values[layout.grid.nx - 1] = even[layout.grid.nx / 2];
    }
}

/// Colours of the even and odd columns of natural row j.
pub fn colours_of_row(layout: &Layout, j: usize) -> (Colour, Colour) {
    if (j + layout.shift_y) % 2 == 1 { (Colour::R1, Colour::B2) } else { (Colour::B1, Colour::R2) }
}

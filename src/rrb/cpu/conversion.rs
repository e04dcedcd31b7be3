//! Conversion between natural rows and the arrays by colour. The functions implement the index rules for rows of
//! values, and for rows of a half stencil (center, east, north, northeast, northwest).

use super::loops::scale_row;
use super::loops_setup::deinterleave_exact;
use super::neighbours::{Diagonal, EAST, NORTH, NORTHEAST, NORTHWEST, SOUTH, SOUTHEAST, SOUTHWEST, Straight, WEST};
use super::number::Format;
use crate::base::loops::{deinterleave, interleave};
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::layout::{Colour, Layout};
use std::ops::Range;

/// Arrays to which the rows of a half stencil are written.
pub struct Target<'a, F: Format> {
    pub layout: &'a Layout,
    /// The first values of the half stencil: centers, or row sums where the caller passes these.
    pub center: &'a FourColours,
    /// Straight couplings, stored divided by `unit`. The input must be exact in the storage format after this division.
    pub straight: &'a Straight<F::Stored>,
    pub unit: f64,
    /// Couplings between r1 and r2, and between b1 and b2; absent with 5 points.
    pub corners: Option<(&'a Diagonal, &'a Diagonal)>,
}

/// A row of a natural array, or a part of it: the column of the first value, and the values.
pub type NaturalRow<'a, R = f64> = (usize, &'a [R]);

/// Distributes a row by the parity of its columns. Entry k has the column i' = shift + k; it is copied to index i' / 2
/// of `even` or `odd`.
pub fn split<R: Real>(row: NaturalRow<R>, even: &mut [R], odd: &mut [R]) {
    split_by(row, even, odd, |v| v, deinterleave);
}

/// Distributes and converts a row: `one` converts a single entry, and `pairs` converts pairs of entries.
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
    pairs(&values[k..], &mut even[first..], &mut odd[first..]);
}

impl<F: Format> Target<'_, F> {
    /// Writes row j of a half stencil to the arrays by colour. `rows` contains center, east, north, northeast and
    /// northwest; the last two are not read if `corners` is `None`.
    ///
    /// # Safety
    /// No other thread may use the entries that receive this row. Other threads may write other natural rows at the
    /// same time.
    pub unsafe fn spread(&self, j: usize, rows: [NaturalRow; 5]) {
        let row = (j + self.layout.shift_y) / 2;
        let odd_row = (j + self.layout.shift_y) % 2 == 1;
        let [center, east, north, northeast, northwest] =
            rows.map(|(start, values)| (start + self.layout.shift_x, values));
        let (d, r1, r2) = (self.center, &self.straight.r1, &self.straight.r2);
        let (unit, per_unit) = (self.unit, self.unit.recip());
        let store = |row: NaturalRow, even: &mut [F::Stored], odd: &mut [F::Stored]| {
            let one = |v: f64| F::same(F::Real::narrow(v * per_unit));
            split_by(row, even, odd, one, |values, even, odd| deinterleave_exact::<F>(even, odd, values, unit));
        };
        // Each row of an array receives values of one natural row only, which one thread writes. The natural row j' =
        // 2J + 1 fills row J of r1 and of b2, and row J + 1 of the couplings from r2 and b1 to the south. The natural
        // row j' = 2J fills the other arrays. SAFETY: no other thread therefore writes these rows. By the safety
        // contract of this function, no other thread uses the rows meanwhile.
        unsafe {
            if odd_row {
                split(center, d.r1.row_mut(row, 0), d.b2.row_mut(row, 0));
                store(east, r1[EAST].row_mut(row, 0), r1[WEST].row_mut(row, 1));
                store(north, r1[NORTH].row_mut(row, 0), r2[SOUTH].row_mut(row + 1, 0));
            } else {
                split(center, d.b1.row_mut(row, 0), d.r2.row_mut(row, 0));
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

/// Returns the natural rows j whose values are stored in the rows J = `rows` of the arrays.
pub fn natural_rows(layout: &Layout, rows: &Range<usize>) -> Range<usize> {
    let of = |row: usize| (2 * row).saturating_sub(layout.shift_y).min(layout.grid.ny);
    of(rows.start)..of(rows.end)
}

/// Writes `scale` times natural row j to the arrays of its two colours.
///
/// # Safety
/// No other thread may use rows J of the two colours of row j in this step.
pub unsafe fn spread<R: Real + Number>(layout: &Layout, j: usize, values: &[R], scale: f64, v: &FourColours<R>) {
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

/// Reads natural row j from the arrays of its two colours.
///
/// # Safety
/// No thread may write rows J of the two colours of row j in this step.
pub unsafe fn collect<R: Real + Number>(layout: &Layout, j: usize, v: &FourColours<R>, values: &mut [R]) {
    let row = (j + layout.shift_y) / 2;
    let (even, odd) = colours_of_row(layout, j);
    // SAFETY: by the safety contract of this function.
    join(layout, unsafe { (v[even].row(row, 0), v[odd].row(row, 0)) }, values);
}

/// Reads natural row j of a 5-point matrix from the arrays by colour. `to` receives center, east and north.
///
/// # Safety
/// No thread may write the matrix meanwhile.
pub unsafe fn collect_matrix(
    layout: &Layout,
    j: usize,
    centers: &FourColours,
    straight: &Straight,
    to: [&mut [f64]; 3],
) {
    let row = (j + layout.shift_y) / 2;
    let (r1, r2) = (&straight.r1, &straight.r2);
    let [center, east, north] = to;
    // SAFETY: by the safety contract of this function. The indices are the same as in `Target::spread`.
    unsafe {
        collect(layout, j, centers, center);
        let (of_east, of_north) = if (j + layout.shift_y) % 2 == 1 {
            ((r1[EAST].row(row, 0), r1[WEST].row(row, 1)), (r1[NORTH].row(row, 0), r2[SOUTH].row(row + 1, 0)))
        } else {
            ((r2[WEST].row(row, 0), r2[EAST].row(row, 0)), (r1[SOUTH].row(row, 0), r2[NORTH].row(row, 0)))
        };
        join(layout, of_east, east);
        join(layout, of_north, north);
    }
}

/// Merges the values of even and of odd columns into a natural row.
pub fn join<R: Real>(layout: &Layout, (even, odd): (&[R], &[R]), values: &mut [R]) {
    if layout.shift_x == 1 {
        // A grid with one column has the odd column only.
        values[0] = odd[0];
        return;
    }
    interleave(even, odd, values);
}

/// Returns two colours: of the nodes in even columns, and of the nodes in odd columns of natural row j.
pub fn colours_of_row(layout: &Layout, j: usize) -> (Colour, Colour) {
    if (j + layout.shift_y) % 2 == 1 { (Colour::R1, Colour::B2) } else { (Colour::B1, Colour::R2) }
}

//! Conversion between natural rows and the arrays by colour. The functions implement the index rules for rows of
//! values, and for rows of a half stencil (center, east, north, northeast, northwest).

use super::loops::scale_row;
use super::loops_setup::deinterleave_exact;
use super::neighbours::{
    AxisCouplings, DiagonalCouplings, EAST, NORTH, NORTHEAST, NORTHWEST, SOUTH, SOUTHEAST, SOUTHWEST, WEST,
};
use super::number::Format;
use crate::base::loops::{deinterleave, interleave};
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::layout::{Colour, Layout};
use std::ops::Range;

/// Arrays to which the rows of a half stencil are written.
pub struct HalfStencilTarget<'a, F: Format> {
    pub layout: &'a Layout,
    /// Receives the first values of the half stencil: centers, or row sums in row-sum form.
    pub center: &'a FourColours,
    /// Straight couplings, stored divided by `storage_unit`. The input must be exact in the storage format after this
    /// division.
    pub axis_couplings: &'a AxisCouplings<F::Stored>,
    pub storage_unit: f64,
    /// Couplings between r1 and r2, and between b1 and b2; absent with 5 points.
    pub corners: Option<(&'a DiagonalCouplings, &'a DiagonalCouplings)>,
}

/// Consecutive values of a row in natural storage: the column of the first value, and the values.
pub type NaturalRow<'a, R = f64> = (usize, &'a [R]);

/// Copies the values of a row to `even` or `odd` by the parity of their columns. The value in column i' is copied to
/// index i' / 2.
pub fn split_by_parity<R: Real>(row: NaturalRow<R>, even: &mut [R], odd: &mut [R]) {
    split_and_convert(row, even, odd, |v| v, deinterleave);
}

/// Distributes a row like `split_by_parity`, and converts its values. `convert_one` converts the first value if its
/// column is odd. `convert_pairs` converts the other values, which begin in an even column.
fn split_and_convert<R: Copy, T>(
    (shift, values): NaturalRow<R>,
    even: &mut [T],
    odd: &mut [T],
    convert_one: impl Fn(R) -> T,
    convert_pairs: impl Fn(&[R], &mut [T], &mut [T]),
) {
    let mut unpaired = 0;
    if shift % 2 == 1 && !values.is_empty() {
        odd[shift / 2] = convert_one(values[0]);
        unpaired = 1;
    }
    let first_index = (shift + unpaired) / 2;
    convert_pairs(&values[unpaired..], &mut even[first_index..], &mut odd[first_index..]);
}

impl<F: Format> HalfStencilTarget<'_, F> {
    /// Writes row j of a half stencil to the arrays by colour. `rows` contains center, east, north, northeast and
    /// northwest; the last two are not read if `corners` is `None`.
    ///
    /// # Safety
    /// No other thread may use the entries that receive this row. Other threads may write other natural rows at the
    /// same time.
    pub unsafe fn store_row(&self, j: usize, rows: [NaturalRow; 5]) {
        let row = (j + self.layout.shift_y) / 2;
        let is_odd_row = (j + self.layout.shift_y) % 2 == 1;
        let [center, east, north, northeast, northwest] =
            rows.map(|(first_column, values)| (first_column + self.layout.shift_x, values));
        let (centers, r1, r2) = (self.center, &self.axis_couplings.r1, &self.axis_couplings.r2);
        let (storage_unit, inverse_unit) = (self.storage_unit, self.storage_unit.recip());
        let store_converted = |row: NaturalRow, even: &mut [F::Stored], odd: &mut [F::Stored]| {
            let convert_one = |v: f64| F::convert_exact(F::Real::from_f64(v * inverse_unit));
            split_and_convert(row, even, odd, convert_one, |values, even, odd| {
                deinterleave_exact::<F>(even, odd, values, storage_unit)
            });
        };
        // Each row of an array receives values of one natural row only, which one thread writes. Let
        // j' = j + `shift_y`. If j' = 2J + 1, natural row j fills row J of r1 and of b2, and row J + 1 of the couplings
        // from r2 and b1 to the south. If j' = 2J, natural row j fills row J of the other arrays.
        // SAFETY: therefore, no other thread writes these rows of the arrays. By the safety contract of this function,
        // no other thread reads them meanwhile.
        unsafe {
            if is_odd_row {
                split_by_parity(center, centers.r1.row_mut(row, 0), centers.b2.row_mut(row, 0));
                store_converted(east, r1[EAST].row_mut(row, 0), r1[WEST].row_mut(row, 1));
                store_converted(north, r1[NORTH].row_mut(row, 0), r2[SOUTH].row_mut(row + 1, 0));
            } else {
                split_by_parity(center, centers.b1.row_mut(row, 0), centers.r2.row_mut(row, 0));
                store_converted(east, r2[WEST].row_mut(row, 0), r2[EAST].row_mut(row, 0));
                store_converted(north, r1[SOUTH].row_mut(row, 0), r2[NORTH].row_mut(row, 0));
            }
            let Some((red_couplings, black_couplings)) = self.corners else { return };
            let (red_couplings, black_couplings) = (&red_couplings.arrays, &black_couplings.arrays);
            if is_odd_row {
                split_by_parity(
                    northeast,
                    red_couplings[NORTHEAST].row_mut(row, 0),
                    black_couplings[SOUTHWEST].row_mut(row + 1, 1),
                );
                split_by_parity(
                    northwest,
                    red_couplings[NORTHWEST].row_mut(row, 0),
                    black_couplings[SOUTHEAST].row_mut(row + 1, 0),
                );
            } else {
                split_by_parity(
                    northeast,
                    black_couplings[NORTHEAST].row_mut(row, 0),
                    red_couplings[SOUTHWEST].row_mut(row, 1),
                );
                split_by_parity(
                    northwest,
                    black_couplings[NORTHWEST].row_mut(row, 0),
                    red_couplings[SOUTHEAST].row_mut(row, 0),
                );
            }
        }
    }
}

/// Returns the natural rows j whose values are stored in the rows J = `rows` of the arrays.
pub fn natural_rows(layout: &Layout, rows: &Range<usize>) -> Range<usize> {
    let first_natural_row = |row: usize| (2 * row).saturating_sub(layout.shift_y).min(layout.grid.ny);
    first_natural_row(rows.start)..first_natural_row(rows.end)
}

/// Writes `scale` times natural row j to the arrays of its two colours.
///
/// # Safety
/// No other thread may use rows J of the two colours of row j in this step.
pub unsafe fn store_natural_row<R: Real + Number>(
    layout: &Layout,
    j: usize,
    values: &[R],
    scale: f64,
    v: &FourColours<R>,
) {
    let row = (j + layout.shift_y) / 2;
    let (even, odd) = colours_of_row(layout, j);
    // SAFETY: by the safety contract of this function.
    let (even, odd) = unsafe { (v[even].row_mut(row, 0), v[odd].row_mut(row, 0)) };
    split_by_parity((layout.shift_x, values), even, odd);
    if scale != 1.0 {
        scale_row(even, scale);
        scale_row(odd, scale);
    }
}

/// Reads natural row j from the arrays of its two colours.
///
/// # Safety
/// No thread may write rows J of the two colours of row j in this step.
pub unsafe fn load_natural_row<R: Real + Number>(layout: &Layout, j: usize, v: &FourColours<R>, values: &mut [R]) {
    let row = (j + layout.shift_y) / 2;
    let (even, odd) = colours_of_row(layout, j);
    // SAFETY: by the safety contract of this function.
    merge_by_parity(layout, unsafe { (v[even].row(row, 0), v[odd].row(row, 0)) }, values);
}

/// Reads natural row j of a 5-point matrix from the arrays by colour. `out` receives center, east and north.
///
/// # Safety
/// No thread may write the matrix meanwhile.
pub unsafe fn load_matrix_row(
    layout: &Layout,
    j: usize,
    centers: &FourColours,
    axis_couplings: &AxisCouplings,
    out: [&mut [f64]; 3],
) {
    let row = (j + layout.shift_y) / 2;
    let (r1, r2) = (&axis_couplings.r1, &axis_couplings.r2);
    let [center, east, north] = out;
    // SAFETY: by the safety contract of this function. The indices are the same as in `HalfStencilTarget::store_row`.
    unsafe {
        load_natural_row(layout, j, centers, center);
        let (east_by_parity, north_by_parity) = if (j + layout.shift_y) % 2 == 1 {
            ((r1[EAST].row(row, 0), r1[WEST].row(row, 1)), (r1[NORTH].row(row, 0), r2[SOUTH].row(row + 1, 0)))
        } else {
            ((r2[WEST].row(row, 0), r2[EAST].row(row, 0)), (r1[SOUTH].row(row, 0), r2[NORTH].row(row, 0)))
        };
        merge_by_parity(layout, east_by_parity, east);
        merge_by_parity(layout, north_by_parity, north);
    }
}

/// Merges the values of even and of odd columns into a natural row.
pub fn merge_by_parity<R: Real>(layout: &Layout, (even, odd): (&[R], &[R]), values: &mut [R]) {
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

//! The sweeps of the levels of one grid, unfused, and how natural rows are spread over colours and collected from them.

use super::area::Four;
use super::format::Format;
use super::kernels::{interleave, scale_in_place, scale_row, subtract, subtract_scaled};
use super::packed::PackedGrid;
use super::spread::split;
use crate::grid::layout::{Colour, Layout};
use crate::runtime::number::Real;
use crate::runtime::shared::Number;
use crate::runtime::team::Me;

const BLACK: [Colour; 2] = [Colour::B1, Colour::B2];

impl<F: Format> PackedGrid<F> {
    /// v = v / d on this member's rows of an eliminated colour.
    fn scale(&self, me: Me, colour: Colour) {
        let m = F::sweep(self);
        for row in self.rows(me) {
            // SAFETY: rows of this member, which no other reads in this step.
            unsafe {
                let a = match colour {
                    Colour::B1 => m.diagonal.couplings(colour, row),
                    _ => m.straight.couplings(colour, row),
                };
                scale_in_place::<F>(self.z[colour].row_mut(row, 0), m.pivot[colour].row(row, 0), a);
            }
        }
    }

    /// The odd level: y_r = r_r / d_r, r_b -= A_br y_r.
    pub(super) fn forward_red(&self, me: Me) {
        self.scale(me, Colour::R1);
        self.scale(me, Colour::R2);
        self.barrier(me);
        for row in self.rows(me) {
            for colour in BLACK {
                // SAFETY: reads red rows, writes black rows of this member.
                unsafe {
                    let a = F::sweep(self).straight.couplings(colour, row);
                    subtract::<F>(self.z[colour].row_mut(row, 0), a, self.z.straight(colour, row));
                }
            }
        }
    }

    /// z_r = y_r - A_rb z_b / d_r.
    pub(super) fn backward_red(&self, me: Me) {
        let m = F::sweep(self);
        for row in self.rows(me) {
            for colour in [Colour::R1, Colour::R2] {
                // SAFETY: reads black rows, writes red rows of this member.
                unsafe {
                    let (pivot, a) = (m.pivot[colour].row(row, 0), m.straight.couplings(colour, row));
                    subtract_scaled::<F>(self.z[colour].row_mut(row, 0), pivot, a, self.z.straight(colour, row));
                }
            }
        }
    }

    /// The even level, from b1 to b2.
    pub(super) fn forward_dropped(&self, me: Me) {
        self.scale(me, Colour::B1);
        self.barrier(me);
        for row in self.rows(me) {
            // SAFETY: reads b1, writes b2 rows of this member.
            unsafe {
                let (a, v) = (F::sweep(self).diagonal.couplings(Colour::B2, row), self.z.diagonal(Colour::B2, row));
                subtract::<F>(self.z.b2.row_mut(row, 0), a, v);
            }
        }
    }

    /// The same backward.
    pub(super) fn backward_dropped(&self, me: Me) {
        let m = F::sweep(self);
        for row in self.rows(me) {
            // SAFETY: reads b2, writes b1 rows of this member.
            unsafe {
                let (a, v) = (m.diagonal.couplings(Colour::B1, row), self.z.diagonal(Colour::B1, row));
                subtract_scaled::<F>(self.z.b1.row_mut(row, 0), m.pivot.b1.row(row, 0), a, v);
            }
        }
    }

    /// Kept values of this grid, spread over the colours of the next.
    pub(super) fn send_down(&self, me: Me, coarse: &Self) {
        for row in self.rows(me) {
            if self.layout.rows(Colour::B2).contains(&row) {
                // SAFETY: reads b2 rows of this member; each row of the next grid gets values from one row.
                unsafe { spread(&coarse.layout, row, &self.z.b2.row(row, 0)[..coarse.layout.grid.nx], 1.0, &coarse.z) };
            }
        }
    }

    /// And back.
    pub(super) fn bring_up(&self, me: Me, coarse: &Self) {
        for row in self.rows(me) {
            if self.layout.rows(Colour::B2).contains(&row) {
                // SAFETY: reads the next grid, writes b2 rows of this member.
                unsafe {
                    collect(&coarse.layout, row, &coarse.z, &mut self.z.b2.row_mut(row, 0)[..coarse.layout.grid.nx])
                };
            }
        }
    }
}

/// Spreads natural row j, times `scale`, over the colours.
///
/// # Safety
/// Rows J of the two colours of row j must not be used by others in this step.
pub(super) unsafe fn spread<R: Real + Number>(layout: &Layout, j: usize, values: &[R], scale: f64, v: &Four<R>) {
    let row = (j + layout.shift_y) / 2;
    let (even, odd) = colours_of_row(layout, j);
    // SAFETY: as the caller promised.
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
/// Nobody may write rows J of the two colours of row j in this step.
pub(super) unsafe fn collect<R: Real + Number>(layout: &Layout, j: usize, v: &Four<R>, values: &mut [R]) {
    let row = (j + layout.shift_y) / 2;
    let (even, odd) = colours_of_row(layout, j);
    // SAFETY: as the caller promised.
    let (even, odd) = unsafe { (v[even].row(row, 0), v[odd].row(row, 0)) };
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
pub(super) fn colours_of_row(layout: &Layout, j: usize) -> (Colour, Colour) {
    if (j + layout.shift_y) % 2 == 1 { (Colour::R1, Colour::B2) } else { (Colour::B1, Colour::R2) }
}

//! The matrix on which CG runs, stored by colour: A, or the Schur complement S1 = D_b - A_br D_r^-1 A_rb (report 16-06,
//! equation 2.9).
//! This module also contains the parameters that determine which arrays are allocated.

use super::loops::{
    five_point_residual, multiply_difference_form, multiply_five_points, multiply_nine_points, nine_point_residual,
};
use super::neighbours::{AxisCouplings, CornerCouplings, DiagonalCouplings, DistantCouplings};
use super::number::{F64Format, Format};
use crate::error::Result;
use crate::rrb::backend::{Aggregation, Setup};
use crate::rrb::cpu::colour_array::{ColourArray, FourColours};
use crate::rrb::layout::{Colour, Layout};
use crate::rrb::recursion::Cycle;
use crate::rrb::storage::Storage;
use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;

/// Number of nodes below which thread 0 alone works on a grid, because a barrier costs more than the work.
pub const MIN_TEAM_NODES: usize = 8192;

/// Parameters that determine which arrays are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedShape {
    pub grid: Grid,
    /// Number of levels before the coarsest system.
    pub levels: usize,
    /// Number of grids that are stored by colour.
    pub grid_count: usize,
    /// Rows are padded to a multiple of this number of values. This number is also the width of the border.
    pub block: usize,
    /// Whether CG runs on S1.
    pub uses_schur: bool,
    /// Whether fused stages replace the unfused steps (option `fusion`). If CG runs on S1 of a regular system, all
    /// stages of a solve are fused. Otherwise, only the sweeps are fused.
    pub is_fused: bool,
    pub has_nine_points: bool,
    pub storage: Storage,
    pub cycle: Cycle,
    /// Whether the factorization builds M by aggregation instead of levels. If `false`, a slow solve may still switch
    /// to aggregation.
    pub uses_aggregation: bool,
}

impl PackedShape {
    pub fn new(a: &StencilView, setup: &Setup) -> Self {
        Self {
            grid: a.grid,
            levels: setup.levels,
            grid_count: setup.grids,
            block: setup.compute_block,
            uses_schur: setup.uses_schur_complement(a),
            is_fused: setup.fused,
            has_nine_points: a.corners.is_some(),
            storage: setup.storage,
            cycle: setup.cycle,
            uses_aggregation: setup.aggregation == Aggregation::FromStart,
        }
    }

    /// Returns the number of threads that a grid of this size can occupy, at most `max_threads`.
    pub fn useful_threads(&self, max_threads: usize) -> usize {
        let rows = Layout::new(self.grid, self.block).cy;
        if self.grid.nodes() >= MIN_TEAM_NODES { max_threads.clamp(1, rows) } else { 1 }
    }
}

/// The matrix A, stored by colour.
pub struct Matrix {
    pub center: FourColours,
    pub axis_couplings: AxisCouplings,
    /// Diagonal couplings; absent for 5-point matrices.
    pub corners: CornerCouplings,
    pub has_nine_points: bool,
}

impl Matrix {
    /// Computes `out` = (A v) in row J of a colour.
    ///
    /// # Safety
    /// No thread may write A or v meanwhile.
    pub unsafe fn multiply_row(&self, colour: Colour, row: usize, v: &FourColours, out: &mut [f64]) {
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (center, own_values) = (self.center[colour].row(row, 0), v[colour].row(row, 0));
            let (a, neighbours) = (self.axis_couplings.couplings(colour, row), v.axis_neighbours(colour, row));
            if self.has_nine_points {
                multiply_nine_points(
                    out,
                    center,
                    own_values,
                    a,
                    neighbours,
                    self.corners.couplings(colour, row),
                    v.diagonal_neighbours(colour, row),
                );
            } else {
                multiply_five_points(out, center, own_values, a, neighbours);
            }
        }
    }

    /// Computes `out` = b - (A x) in row J of a colour.
    ///
    /// # Safety
    /// No thread may write A or x meanwhile.
    pub unsafe fn residual_row(&self, colour: Colour, row: usize, b: &[f64], x: &FourColours, out: &mut [f64]) {
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (center, own_values) = (self.center[colour].row(row, 0), x[colour].row(row, 0));
            let (a, neighbours) = (self.axis_couplings.couplings(colour, row), x.axis_neighbours(colour, row));
            if self.has_nine_points {
                let (e, u) = (self.corners.couplings(colour, row), x.diagonal_neighbours(colour, row));
                nine_point_residual(out, b, center, own_values, a, neighbours, e, u);
            } else {
                five_point_residual(out, b, center, own_values, a, neighbours);
            }
        }
    }
}

/// S1 on the black nodes: a 9-point stencil with couplings at distance two and diagonal couplings. In single precision,
/// S1 is stored in difference form: row sums instead of centers. Rounding the couplings then preserves the row sums
/// (docs/theory/rrb.md, CG in single precision).
pub struct SchurComplement<F: Format> {
    /// Centers at b1 and at b2; row sums in difference form.
    pub center: [ColourArray<F::Vector>; 2],
    /// Couplings between b1 and b2.
    pub diagonal_couplings: DiagonalCouplings<F::Vector>,
    pub b1_distant: DistantCouplings<F::Vector>,
    pub b2_distant: DistantCouplings<F::Vector>,
}

impl<F: Format> SchurComplement<F> {
    /// Allocates S1; without `is_present`, the arrays are absent. `diagonal_couplings` contains the diagonal couplings
    /// that the sweeps read on the first grid. In f64, they are equal to those of S1, so S1 uses the same memory.
    pub fn new(layout: &Layout, diagonal_couplings: &DiagonalCouplings<F::Stored>, is_present: bool) -> Result<Self> {
        let new_distant = || DistantCouplings::zeroed(layout, is_present);
        Ok(Self {
            center: [ColourArray::zeroed_if(layout, is_present)?, ColourArray::zeroed_if(layout, is_present)?],
            diagonal_couplings: diagonal_couplings
                .of_type()
                .map_or_else(|| DiagonalCouplings::zeroed(layout, is_present), Ok)?,
            b1_distant: new_distant()?,
            b2_distant: new_distant()?,
        })
    }

    /// Returns the same arrays as arrays of doubles; `None` if CG runs in single precision.
    pub fn as_doubles(&self) -> Option<SchurComplement<F64Format>> {
        let [b1, b2] = &self.center;
        Some(SchurComplement {
            center: [b1.of_type()?, b2.of_type()?],
            diagonal_couplings: self.diagonal_couplings.of_type()?,
            b1_distant: self.b1_distant.of_type()?,
            b2_distant: self.b2_distant.of_type()?,
        })
    }

    /// Returns the size in bytes without the memory shared with the first grid.
    pub fn bytes(&self) -> usize {
        self.center[0].bytes()
            + self.center[1].bytes()
            + if F::IS_SHORT { self.diagonal_couplings.bytes() } else { 0 }
            + self.b1_distant.bytes()
            + self.b2_distant.bytes()
    }

    /// Computes `out` = (S1 v) in row J of a black colour.
    ///
    /// # Safety
    /// No thread may write S1, or rows J - 1 to J + 1 of v, meanwhile.
    #[inline]
    pub unsafe fn multiply_row(&self, colour: Colour, row: usize, v: &FourColours<F::Vector>, out: &mut [F::Vector]) {
        let (center, distant) = match colour {
            Colour::B1 => (&self.center[0], &self.b1_distant),
            _ => (&self.center[1], &self.b2_distant),
        };
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (c, w) = (center.row(row, 0), v[colour].row(row, 0));
            let (a, distant_values) = (distant.couplings(row), v[colour].distant_neighbours(row));
            let (b, diagonal_values) =
                (self.diagonal_couplings.couplings(colour, row), v.diagonal_neighbours(colour, row));
            if F::CG_IS_SINGLE {
                multiply_difference_form::<F::CgFormat>(out, c, w, a, distant_values, b, diagonal_values);
            } else {
                multiply_nine_points(out, c, w, a, distant_values, b, diagonal_values);
            }
        }
    }
}

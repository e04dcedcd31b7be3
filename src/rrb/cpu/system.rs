//! The matrix on which CG runs, stored by colour: A, or the Schur complement S1 = D_b - A_br D_r^-1 A_rb (report 16-06,
//! equation 2.9).
//! This module also contains the parameters that determine which arrays are allocated.

use super::loops::{difference_form, five_point_residual, five_points, nine_point_residual, nine_points};
use super::neighbours::{Corners, Diagonal, Distant, Straight};
use super::number::{Double, Format};
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
pub struct Shape {
    pub grid: Grid,
    /// Number of levels before the coarsest system.
    pub levels: usize,
    /// Number of grids that are stored by colour.
    pub grids: usize,
    /// Rows are padded to a multiple of this number of values. It is also the width of the border.
    pub block: usize,
    /// Whether CG runs on S1.
    pub schur: bool,
    /// Whether stages are fused. If CG runs on S1 of a regular system, this means all stages of a solve, otherwise only
    /// the sweeps.
    pub fused: bool,
    pub nine_points: bool,
    pub storage: Storage,
    pub cycle: Cycle,
    /// Whether aggregation replaces the levels from the start.
    pub aggregates: bool,
}

impl Shape {
    pub fn new(a: &StencilView, setup: &Setup) -> Self {
        Self {
            grid: a.grid,
            levels: setup.levels,
            grids: setup.grids,
            block: setup.block,
            schur: setup.on_schur_complement(a),
            fused: setup.fused,
            nine_points: a.corners.is_some(),
            storage: setup.storage,
            cycle: setup.cycle,
            aggregates: setup.aggregation == Aggregation::FromStart,
        }
    }

    /// Returns the number of threads that a grid of this size can occupy, at most `wanted`.
    pub fn useful_threads(&self, wanted: usize) -> usize {
        let rows = Layout::new(self.grid, self.block).cy;
        if self.grid.nodes() >= MIN_TEAM_NODES { wanted.clamp(1, rows) } else { 1 }
    }
}

/// The matrix A, stored by colour.
pub struct Matrix {
    pub center: FourColours,
    pub straight: Straight,
    /// Diagonal couplings; absent for 5-point matrices.
    pub corners: Corners,
    pub nine_points: bool,
}

impl Matrix {
    /// Computes `out` = (A v) in row J of a colour.
    ///
    /// # Safety
    /// No thread may write A or v meanwhile.
    pub unsafe fn row(&self, colour: Colour, row: usize, v: &FourColours, out: &mut [f64]) {
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (center, own) = (self.center[colour].row(row, 0), v[colour].row(row, 0));
            let (a, w) = (self.straight.couplings(colour, row), v.straight(colour, row));
            if self.nine_points {
                nine_points(out, center, own, a, w, self.corners.couplings(colour, row), v.diagonal(colour, row));
            } else {
                five_points(out, center, own, a, w);
            }
        }
    }

    /// Computes `out` = b - (A x) in row J of a colour.
    ///
    /// # Safety
    /// No thread may write A or x meanwhile.
    pub unsafe fn residual(&self, colour: Colour, row: usize, b: &[f64], x: &FourColours, out: &mut [f64]) {
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (center, own) = (self.center[colour].row(row, 0), x[colour].row(row, 0));
            let (a, w) = (self.straight.couplings(colour, row), x.straight(colour, row));
            if self.nine_points {
                let (e, u) = (self.corners.couplings(colour, row), x.diagonal(colour, row));
                nine_point_residual(out, b, center, own, a, w, e, u);
            } else {
                five_point_residual(out, b, center, own, a, w);
            }
        }
    }
}

/// S1 on the black nodes: a 9-point stencil with couplings at distance two and diagonal couplings. In single precision,
/// S1 is stored in difference form: row sums instead of centers. Rounding the couplings then preserves the row sums
/// (docs/theory/rrb.md, CG in single precision).
pub struct Schur<F: Format> {
    /// Centers at b1 and at b2; row sums in difference form.
    pub center: [ColourArray<F::Vector>; 2],
    /// Couplings between b1 and b2.
    pub diagonal: Diagonal<F::Vector>,
    pub b1_distant: Distant<F::Vector>,
    pub b2_distant: Distant<F::Vector>,
}

impl<F: Format> Schur<F> {
    /// Allocates S1. `diagonal` contains the diagonal couplings that the sweeps read on the first grid. In f64, they
    /// are equal to those of S1, so S1 uses the same memory.
    pub fn new(layout: &Layout, diagonal: &Diagonal<F::Stored>, present: bool) -> Result<Self> {
        let distant = || Distant::zeroed(layout, present);
        Ok(Self {
            center: [ColourArray::zeroed_if(layout, present)?, ColourArray::zeroed_if(layout, present)?],
            diagonal: diagonal.of_type().map_or_else(|| Diagonal::zeroed(layout, present), Ok)?,
            b1_distant: distant()?,
            b2_distant: distant()?,
        })
    }

    /// Returns the same arrays as arrays of doubles; `None` if CG runs in single precision.
    pub fn doubles(&self) -> Option<Schur<Double>> {
        let [b1, b2] = &self.center;
        Some(Schur {
            center: [b1.of_type()?, b2.of_type()?],
            diagonal: self.diagonal.of_type()?,
            b1_distant: self.b1_distant.of_type()?,
            b2_distant: self.b2_distant.of_type()?,
        })
    }

    /// Returns the size in bytes without the memory shared with the first grid.
    pub fn bytes(&self) -> usize {
        self.center[0].bytes()
            + self.center[1].bytes()
            + if F::SHORT { self.diagonal.bytes() } else { 0 }
            + self.b1_distant.bytes()
            + self.b2_distant.bytes()
    }

    /// Computes `out` = (S1 v) in row J of a black colour.
    ///
    /// # Safety
    /// No thread may write S1, or rows J - 1 to J + 1 of v, meanwhile.
    #[inline]
    pub unsafe fn row(&self, colour: Colour, row: usize, v: &FourColours<F::Vector>, out: &mut [F::Vector]) {
        let (center, distant) = match colour {
            Colour::B1 => (&self.center[0], &self.b1_distant),
            _ => (&self.center[1], &self.b2_distant),
        };
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (c, w) = (center.row(row, 0), v[colour].row(row, 0));
            let (a, far) = (distant.couplings(row), v[colour].distant(row));
            let (b, near) = (self.diagonal.couplings(colour, row), v.diagonal(colour, row));
            if F::SINGLE {
                difference_form::<F::CgFormat>(out, c, w, a, far, b, near);
            } else {
                nine_points(out, c, w, a, far, b, near);
            }
        }
    }
}

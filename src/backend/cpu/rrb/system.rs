//! What CG runs on: A by colour, or S1; and what arrays are made for.

use super::area::{Area, Four};
use super::loops::{difference_form, five_point_residual, five_points, nine_point_residual, nine_points};
use super::neighbours::{Corners, Diagonal, Distant, Straight};
use super::number::{Double, Format};
use crate::backend::steps::cycle::Cycle;
use crate::backend::steps::rrb::{Aggregation, Setup};
use crate::backend::storage::Storage;
use crate::error::Result;
use crate::grid::layout::{Colour, Layout};
use crate::grid::levels::Grid;
use crate::grid::stencil::StencilView;

/// Below this many nodes a grid is left to member 0: a barrier costs more than the work.
pub const WORTH_A_TEAM: usize = 8192;

/// What arrays are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub grid: Grid,
    pub levels: usize,
    pub grids: usize,
    pub block: usize,
    /// CG runs on S1.
    pub schur: bool,
    /// Fused stages: of an iteration where CG runs on S1, else of the sweeps alone.
    pub fused: bool,
    pub nine_points: bool,
    pub storage: Storage,
    /// CG in single precision.
    single: bool,
    pub cycle: Cycle,
    /// Aggregation in place of the levels.
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
            single: setup.single,
            cycle: setup.cycle,
            aggregates: setup.aggregation == Aggregation::Instead,
        }
    }

    /// Members that have something to do.
    pub fn useful_members(&self, wanted: usize) -> usize {
        let rows = Layout::new(self.grid, self.block).cy;
        if self.grid.nodes() >= WORTH_A_TEAM { wanted.clamp(1, rows) } else { 1 }
    }
}

/// A, by colour.
pub struct Matrix {
    pub center: Four,
    pub straight: Straight,
    /// Absent with 5 points.
    pub corners: Corners,
    pub nine_points: bool,
}

impl Matrix {
    /// `out` = row J of A times v.
    ///
    /// # Safety
    /// Nobody may write A or v meanwhile.
    pub unsafe fn row(&self, colour: Colour, row: usize, v: &Four, out: &mut [f64]) {
        // SAFETY: as the caller promised.
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

    /// `out` = b - row J of A times x.
    ///
    /// # Safety
    /// Nobody may write A or x meanwhile.
    pub unsafe fn residual(&self, colour: Colour, row: usize, b: &[f64], x: &Four, out: &mut [f64]) {
        // SAFETY: as the caller promised.
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

/// S1: nine points on black nodes, at distance two and diagonally. In single precision a row takes couplings times
/// differences to its node, so that rounded couplings are those of a matrix with the right row sums.
pub struct Schur<F: Format> {
    /// Of b1 and b2: the diagonal, or in difference form the row sum.
    pub center: [Area<F::Vector>; 2],
    /// b1 to b2.
    pub diagonal: Diagonal<F::Vector>,
    pub b1_distant: Distant<F::Vector>,
    pub b2_distant: Distant<F::Vector>,
}

impl<F: Format> Schur<F> {
    /// `diagonal`: diagonal couplings that sweeps read on the first grid; in f64 they are those of S1.
    pub fn new(layout: &Layout, diagonal: &Diagonal<F::Stored>, present: bool) -> Result<Self> {
        let distant = || Distant::zeroed(layout, present);
        Ok(Self {
            center: [Area::made(layout, present)?, Area::made(layout, present)?],
            diagonal: diagonal.of_type().map_or_else(|| Diagonal::zeroed(layout, present), Ok)?,
            b1_distant: distant()?,
            b2_distant: distant()?,
        })
    }

    /// The same arrays where CG is in double precision.
    pub fn doubles(&self) -> Option<Schur<Double>> {
        let [b1, b2] = &self.center;
        Some(Schur {
            center: [b1.of_type()?, b2.of_type()?],
            diagonal: self.diagonal.of_type()?,
            b1_distant: self.b1_distant.of_type()?,
            b2_distant: self.b2_distant.of_type()?,
        })
    }

    /// Bytes of what is not the first grid's.
    pub fn bytes(&self) -> usize {
        self.center[0].bytes()
            + self.center[1].bytes()
            + if F::SHORT { self.diagonal.bytes() } else { 0 }
            + self.b1_distant.bytes()
            + self.b2_distant.bytes()
    }

    /// out = row J of S1 v.
    ///
    /// # Safety
    /// Nobody may write v rows J - 1 to J + 1 meanwhile.
    #[inline]
    pub unsafe fn row(&self, colour: Colour, row: usize, v: &Four<F::Vector>, out: &mut [F::Vector]) {
        let (center, distant) = match colour {
            Colour::B1 => (&self.center[0], &self.b1_distant),
            _ => (&self.center[1], &self.b2_distant),
        };
        // SAFETY: as the caller promised.
        unsafe {
            let (c, w) = (center.row(row, 0), v[colour].row(row, 0));
            let (a, far) = (distant.couplings(row), v[colour].distant(row));
            let (b, near) = (self.diagonal.couplings(colour, row), v.diagonal(colour, row));
            if F::SINGLE {
                difference_form::<F::OfCg>(out, c, w, a, far, b, near);
            } else {
                nine_points(out, c, w, a, far, b, near);
            }
        }
    }
}

//! What CG runs on: A by colour, or S1; and what arrays are made for.

use super::area::{Area, Four, of_type};
use super::loops::{difference_form, five_point_residual, five_points, nine_point_residual, nine_points};
use super::neighbours::{Corners, Diagonal, Distant, Straight};
use super::number::Format;
use crate::backend::steps::cycle::Cycle;
use crate::backend::steps::rrb::{Aggregation, Setup};
use crate::backend::storage::Storage;
use crate::error::Result;
use crate::grid::layout::{Colour, Layout};
use crate::grid::levels::Grid;
use crate::grid::stencil::StencilView;
use crate::runtime::memory::{copy_past_caches, narrow_past_caches};

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
    /// In the arrays of the factorization of the first grid where they are of this type.
    pub fn new(layout: &Layout, diagonal: &Diagonal, distant: [&Distant; 2], present: bool) -> Result<Self> {
        let zeroed = || Area::made(layout, present);
        let area = |wide: &Area| of_type(wide).map_or_else(zeroed, |area: &Area<_>| Ok(area.clone()));
        let far = |wide: &Distant| -> Result<_> { Ok(Distant { east: area(&wide.east)?, north: area(&wide.north)? }) };
        let [southwest, southeast, northwest, northeast] = &diagonal.of;
        Ok(Self {
            center: [zeroed()?, zeroed()?],
            diagonal: Diagonal { of: [area(southwest)?, area(southeast)?, area(northwest)?, area(northeast)?] },
            b1_distant: far(distant[0])?,
            b2_distant: far(distant[1])?,
        })
    }

    /// Bytes of what is not the first grid's.
    pub fn bytes(&self) -> usize {
        let couplings = self.diagonal.bytes() + self.b1_distant.bytes() + self.b2_distant.bytes();
        self.center[0].bytes() + self.center[1].bytes() + if F::SINGLE { couplings } else { 0 }
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

    /// Part of row J of an array of S1, from column I = start on, past the caches; in single precision times
    /// `per_unit`, a power of two.
    ///
    /// # Safety
    /// The row must be this member's, and nobody may use it.
    pub unsafe fn keep(area: &Area<F::Vector>, row: usize, start: usize, values: &[f64], per_unit: f64) {
        let part = start..start + values.len();
        // SAFETY: as the caller promised.
        unsafe {
            if let Some(area) = of_type::<_, Area>(area) {
                copy_past_caches(&mut area.row_mut(row, 0)[part], values);
            } else if let Some(area) = of_type::<_, Area<f32>>(area) {
                narrow_past_caches(&mut area.row_mut(row, 0)[part], values, per_unit);
            }
        }
    }
}

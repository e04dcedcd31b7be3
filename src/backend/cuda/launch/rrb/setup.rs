//! Argument structures of the kernels of the factorization, and their findings.

use super::geometry::{Geometry, Grid, Matrix};
use crate::backend::cuda::driver::Argument;
use crate::backend::cuda::launch::Address;
use crate::backend::storage::Storage;
use crate::grid::anisotropy::WINDOWS;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Largest number of nodes of a line of the coarsest system (kernels/rrb/remainder.cuh).
pub const LINE: usize = 32;

/// Results of the inspection of a matrix and of the eliminations. Magnitudes are stored as bits of f64.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Findings {
    /// Smallest index (5 j + array) nx + i of a non-finite entry; u64::MAX if there is none.
    pub not_finite: u64,
    /// Smallest index j nx + i of a refused center; u64::MAX if there is none.
    pub bad_center: u64,
    /// Number of positive couplings.
    pub positive: u64,
    pub center_max: u64,
    pub center_min: u64,
    pub coupling_max: u64,
    /// Number of east or north couplings that are zero.
    pub uncoupled: u64,
    /// Numbers of couplings that point out of the grid, per array.
    pub outward: [u64; 4],
    /// Index of the first of these, as in `not_finite`.
    pub first_outward: u64,
    /// 1 if a coupled row has a nonzero row sum.
    pub excess: u64,
    /// Smallest (level << 40) + node of the finest grid with a refused pivot; u64::MAX if there is none.
    pub bad_pivot: u64,
    /// Number of components of at least two nodes.
    pub components: u64,
    /// Number of these with a nonzero row sum.
    pub regular_components: u64,
    /// Largest entry of the coarsest system's inverse.
    pub remainder_inverse: u64,
    /// Largest pivot of the coarsest system.
    pub remainder_pivot: u64,
    /// Number of tiles with equal rows, per grid.
    pub uniform: [u64; MOST_LEFT],
    /// Largest sum_j |a_ij| / c_i of the matrix that remains after each grid.
    pub coupling: [u64; MOST_LEFT],
    /// Anisotropy of each window.
    pub window: [[f64; WINDOWS]; WINDOWS],
}

impl Findings {
    /// Values before any inspection.
    pub const NONE: Self = Self {
        not_finite: u64::MAX,
        bad_center: u64::MAX,
        positive: 0,
        center_max: 0,
        center_min: u64::MAX,
        coupling_max: 0,
        uncoupled: 0,
        outward: [0; 4],
        first_outward: u64::MAX,
        excess: 0,
        bad_pivot: u64::MAX,
        components: 0,
        regular_components: 0,
        remainder_inverse: 0,
        remainder_pivot: 0,
        uniform: [0; MOST_LEFT],
        coupling: [0; MOST_LEFT],
        window: [[1.0; WINDOWS]; WINDOWS],
    };

    /// Resets the findings of a factorization, but keeps those of the matrix.
    pub fn forget_factorization(&mut self) {
        self.bad_pivot = Self::NONE.bad_pivot;
        (self.remainder_inverse, self.remainder_pivot) = (0, 0);
        (self.uniform, self.coupling) = (Self::NONE.uniform, Self::NONE.coupling);
    }
}

/// Largest number of grids that are tested for weak remaining couplings and for tiles with equal rows.
pub const MOST_LEFT: usize = 16;

structures! {
    /// The storage format of M, for the factorization.
    Format { unit: f64, per_unit: f64, storage: i32 }
}

impl Format {
    pub fn new(storage: Storage, unit: f64) -> Self {
        Self { unit, per_unit: unit.recip(), storage: storage as i32 }
    }
}

structures! {
    CopyArgs {
        g: Geometry, m: Matrix, arrays: [Address; 5], ld: [i64; 5], first_row: i32, rows: i32,
        findings: Address
    }
    ExcessArgs {
        g: Geometry, m: Matrix, excess: Address, zero_row_sum: f64, nine_points: i32, findings: Address,
        same: Address
    }
    WindowArgs { g: Geometry, m: Matrix, excess: Address, nine_points: i32, findings: Address }
    UniformArgs { g: Geometry, same: Address, uniform: Address, count: Address, next: Geometry, next_same: Address }
}

impl UniformArgs {
    pub(super) fn threads(&self) -> usize {
        let patches = if self.next_same == 0 { 0 } else { self.next.tiles_and_patches().1 };
        self.g.tiles_and_patches().0.max(patches)
    }
}

structures! {
    ComponentArgs { g: Geometry, m: Matrix, excess: Address, parent: Address, marks: Address, findings: Address }
    CouplingArgs { k: Grid, m: Matrix, format: Format, nine_points: i32, compensate: i32 }
    Rules {
        lost: f64, black_keeps: f64, level: i32, x0: i32, y0: i32, step: i32, fine_nx: i32, fine_ny: i32,
        fine: Geometry, center: Address, label: Address, findings: Address, format: Format
    }
    LevelArgs { k: Grid, rules: Rules, exact: Address, corners: i32, black: i32 }
    CoarseArgs { k: Grid, rules: Rules, next: Grid, natural: Address, nx: i32, ny: i32, weigh: i32 }
    SchurCenterArgs { k: Grid, center: Address, schur: Address }
    LinesArgs {
        rules: Rules, natural: Address, nx: i32, ny: i32, n: i32, step: i32, lines: Lines, unit: f64
    }
}

entries! {
    /// Arrays of the coarsest system's lines during their elimination, its inverse, and the inverse in f32 for f32
    /// sweeps.
    Lines {
        own: Address, left: Address, right: Address, onward: Address, left_excess: Address, right_excess: Address,
        inverse_pivot: Address, inverse: Address, narrow: Address
    }
}

impl LinesArgs {
    /// Returns the number of lines. A line consists of as many rows along the shorter side as `LINE` nodes allow.
    pub fn lines(&self) -> i32 {
        let row = self.nx.min(self.ny);
        (self.n as u32).div_ceil((LINE as i32 / row * row) as u32) as i32
    }

    /// Returns the number of lines that this step eliminates.
    pub(super) fn gone(&self) -> u32 {
        ((self.lines() + self.step) / (2 * self.step)) as u32
    }

    /// Returns the number of lines that remain after this step.
    pub(super) fn stayed(&self) -> u32 {
        (self.lines() / (2 * self.step)) as u32
    }
}

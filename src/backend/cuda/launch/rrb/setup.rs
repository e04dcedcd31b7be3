//! What kernels of a factorization take, and what they find.

use super::geometry::{Geometry, Grid, Matrix};
use crate::backend::cuda::driver::Argument;
use crate::backend::cuda::launch::Address;
use crate::backend::storage::Storage;
use crate::grid::anisotropy::WINDOWS;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Nodes of a line of the remainder at most: kernels/rrb/remainder.cuh.
pub const LINE: usize = 32;

/// What the first look at the matrix and the eliminations find.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Findings {
    pub not_finite: u64,
    pub bad_center: u64,
    pub positive: u64,
    pub center_max: u64,
    pub center_min: u64,
    pub coupling_max: u64,
    pub uncoupled: u64,
    pub outward: [u64; 4],
    pub first_outward: u64,
    pub excess: u64,
    pub bad_pivot: u64,
    pub components: u64,
    pub regular_components: u64,
    pub remainder_inverse: u64,
    pub remainder_pivot: u64,
    pub uniform: [u64; MOST_LEFT],
    pub coupling: [u64; MOST_LEFT],
    pub window: [[f64; WINDOWS]; WINDOWS],
}

impl Findings {
    /// Before anything was seen.
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

    /// Before a factorization of the matrix that was looked at.
    pub fn forget_factorization(&mut self) {
        self.bad_pivot = Self::NONE.bad_pivot;
        (self.remainder_inverse, self.remainder_pivot) = (0, 0);
        (self.uniform, self.coupling) = (Self::NONE.uniform, Self::NONE.coupling);
    }
}

/// Grids whose remains are looked at for weak couplings, and their tiles for rows that are the same.
pub const MOST_LEFT: usize = 16;

structures! {
    /// How M is stored, for the factorization.
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
    /// Of the remainder's lines, while they are eliminated; its inverse, and the same in f32, where sweeps are.
    Lines {
        own: Address, left: Address, right: Address, onward: Address, left_excess: Address, right_excess: Address,
        inverse_pivot: Address, inverse: Address, narrow: Address
    }
}

impl LinesArgs {
    /// A line has as many nodes as rows along the shorter side allow.
    pub fn lines(&self) -> i32 {
        let row = self.nx.min(self.ny);
        (self.n as u32).div_ceil((LINE as i32 / row * row) as u32) as i32
    }

    /// Lines that go with this step.
    pub(super) fn gone(&self) -> u32 {
        ((self.lines() + self.step) / (2 * self.step)) as u32
    }

    /// Lines that are left after it.
    pub(super) fn stayed(&self) -> u32 {
        (self.lines() / (2 * self.step)) as u32
    }
}

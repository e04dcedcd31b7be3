//! What kernels of a factorization take, and what they find.

use super::geometry::{Geometry, Grid, Matrix};
use crate::backend::cuda::driver::Argument;
use crate::backend::cuda::launch::Address;
use crate::backend::storage::Storage;
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

/// How M is stored, for the factorization.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
pub struct Format {
    pub unit: f64,
    pub per_unit: f64,
    pub storage: i32,
}

impl Format {
    pub fn new(storage: Storage, unit: f64) -> Self {
        Self { unit, per_unit: unit.recip(), storage: storage as i32 }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct CopyArgs {
    pub g: Geometry,
    pub m: Matrix,
    pub arrays: [Address; 5],
    pub ld: [i64; 5],
    pub first_row: i32,
    pub rows: i32,
    pub findings: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct ExcessArgs {
    pub g: Geometry,
    pub m: Matrix,
    pub excess: Address,
    pub zero_row_sum: f64,
    pub nine_points: i32,
    pub findings: Address,
    pub same: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct UniformArgs {
    pub g: Geometry,
    pub same: Address,
    pub uniform: Address,
    pub count: Address,
    pub next: Geometry,
    pub next_same: Address,
}

impl UniformArgs {
    pub(super) fn threads(&self) -> usize {
        let patches = if self.next_same == 0 { 0 } else { self.next.tiles_and_patches().1 };
        self.g.tiles_and_patches().0.max(patches)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ComponentArgs {
    pub g: Geometry,
    pub m: Matrix,
    pub excess: Address,
    pub parent: Address,
    pub marks: Address,
    pub findings: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct CouplingArgs {
    pub k: Grid,
    pub m: Matrix,
    pub format: Format,
    pub nine_points: i32,
    pub compensate: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
pub struct Rules {
    pub lost: f64,
    pub black_keeps: f64,
    pub level: i32,
    pub x0: i32,
    pub y0: i32,
    pub step: i32,
    pub fine_nx: i32,
    pub fine_ny: i32,
    pub fine: Geometry,
    pub center: Address,
    pub label: Address,
    pub findings: Address,
    pub format: Format,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct LevelArgs {
    pub k: Grid,
    pub rules: Rules,
    pub exact: Address,
    pub corners: i32,
    pub black: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct CoarseArgs {
    pub k: Grid,
    pub rules: Rules,
    pub next: Grid,
    pub natural: Address,
    pub nx: i32,
    pub ny: i32,
    pub weigh: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SchurCenterArgs {
    pub k: Grid,
    pub center: Address,
    pub schur: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct LinesArgs {
    pub rules: Rules,
    pub natural: Address,
    pub nx: i32,
    pub ny: i32,
    pub n: i32,
    pub step: i32,
    pub own: Address,
    pub left: Address,
    pub right: Address,
    pub onward: Address,
    pub left_excess: Address,
    pub right_excess: Address,
    pub inverse_pivot: Address,
    pub inverse: Address,
    pub narrow: Address,
    pub unit: f64,
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

arguments_with_gaps! {
    ExcessArgs CouplingArgs LevelArgs CoarseArgs LinesArgs
}

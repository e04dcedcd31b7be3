//! Launch sizes of the kernels of the factorization, and the findings that these kernels store.

use super::structures::{Findings, LinesArgs, MAX_TESTED_GRIDS, StorageFormat, UniformArgs};
use crate::rrb::anisotropy::WINDOWS_PER_SIDE;
use crate::rrb::storage::Storage;

/// Largest number of nodes of a line of the coarsest system (kernels/rrb/coarsest.cuh).
pub const LINE_NODES: usize = 32;

impl Findings {
    /// Findings before any kernel has inspected a matrix.
    pub const NONE: Self = Self {
        not_finite: u64::MAX,
        bad_center: u64::MAX,
        positive: 0,
        center_max: 0,
        center_min: u64::MAX,
        coupling_max: 0,
        zero_couplings: 0,
        outward: [0; 4],
        first_outward: u64::MAX,
        has_nonzero_row_sum: 0,
        bad_pivot: u64::MAX,
        components: 0,
        regular_components: 0,
        coarsest_inverse: 0,
        coarsest_pivot: 0,
        uniform: [0; MAX_TESTED_GRIDS],
        coupling: [0; MAX_TESTED_GRIDS],
        window: [1.0; WINDOWS_PER_SIDE * WINDOWS_PER_SIDE],
    };

    /// Resets the findings of a factorization, but keeps those of the matrix.
    pub fn reset_factorization(&mut self) {
        self.bad_pivot = Self::NONE.bad_pivot;
        (self.coarsest_inverse, self.coarsest_pivot) = (0, 0);
        (self.uniform, self.coupling) = (Self::NONE.uniform, Self::NONE.coupling);
    }
}

impl StorageFormat {
    pub fn new(storage: Storage, unit: f64) -> Self {
        Self { unit, per_unit: unit.recip(), storage: storage as i32 }
    }
}

impl UniformArgs {
    pub(super) fn threads(&self) -> usize {
        let patches = if self.next_equal_rows == 0 { 0 } else { self.next.tiles_and_patches().1 };
        self.g.tiles_and_patches().0.max(patches)
    }
}

impl LinesArgs {
    /// Returns the number of lines. A line consists of as many rows along the shorter side as `LINE_NODES` nodes allow.
    pub fn lines(&self) -> i32 {
        let row = self.nx.min(self.ny);
        (self.n as u32).div_ceil((LINE_NODES as i32 / row * row) as u32) as i32
    }

    /// Returns the number of lines that the step of these arguments eliminates.
    pub(super) fn eliminated_lines(&self) -> u32 {
        ((self.lines() + self.step) / (2 * self.step)) as u32
    }

    /// Returns the number of lines that remain after the step of these arguments.
    pub(super) fn remaining_lines(&self) -> u32 {
        (self.lines() / (2 * self.step)) as u32
    }
}

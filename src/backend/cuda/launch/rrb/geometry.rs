//! Grids as kernels see them.

use crate::backend::cuda::driver::{Argument, Blocks};
use crate::backend::cuda::launch::{Address, TILE};
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Places across and down a patch: kernels/rrb/storage.cuh.
const PATCH: u32 = 8;
/// Blocks of a launch at most.
pub const MOST_BLOCKS: u32 = 528;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct Geometry {
    pub nx: i32,
    pub ny: i32,
    pub cx: i32,
    pub cy: i32,
    pub shift_x: i32,
    pub shift_y: i32,
    pub stride: i32,
    pub block: i32,
    pub plane: i64,
    /// A byte for each tile: 1 where one row of each colour stands for those of all its places, and of those around it.
    /// 0: not used.
    pub uniform: Address,
    /// Several devices, or one in their place, have rows of it (kernels/rrb/divided.cuh): its parts begin so many rows
    /// apart. 0: it is not divided.
    pub part_rows: i32,
    /// The first so many devices have rows of it.
    pub sharers: i32,
}

/// Parts of a divided grid, and rows at multiples of which they begin: kernels/rrb/divided.cuh.
pub const PARTS: usize = 8;
pub const PART_ROWS: usize = 16;

impl Geometry {
    /// Tiles, and patches of kernels/rrb/uniform.cuh.
    pub fn tiles_and_patches(&self) -> (usize, usize) {
        let of = |columns: u32, rows: u32| {
            (self.cx as u32).div_ceil(columns) as usize * (self.cy as u32).div_ceil(rows) as usize
        };
        (of(TILE.0, TILE.1), of(PATCH, PATCH))
    }

    /// Blocks of a launch over the compute area.
    pub fn blocks(&self) -> Blocks {
        self.on_all(tiles(self.cx as usize, self.cy as usize))
    }

    /// The same over the caller's rows.
    pub fn blocks_by_rows(&self) -> Blocks {
        self.on_all(tiles(self.nx as usize, self.ny as usize))
    }

    /// So many blocks, on each device where it is divided.
    pub fn on_all(&self, count: u32) -> Blocks {
        Blocks { count, divided: self.is_divided() }
    }

    /// Parts of its sums: a number from each block of a launch for each.
    pub fn parts(&self) -> usize {
        if self.is_divided() { PARTS } else { 1 }
    }

    /// It is divided.
    pub fn is_divided(&self) -> bool {
        self.part_rows != 0
    }

    /// First row of a part. The middle one begins in the middle.
    pub fn first_row(&self, part: usize) -> usize {
        let pieces = (self.cy as usize).div_ceil(PART_ROWS);
        let (middle, away) = (pieces / 2, part.abs_diff(PARTS / 2) * self.part_rows as usize / PART_ROWS);
        match part {
            0 => 0,
            _ if part >= PARTS => self.cy as usize,
            _ if part < PARTS / 2 => middle.saturating_sub(away) * PART_ROWS,
            _ => (middle + away).min(pieces.saturating_sub(1)) * PART_ROWS,
        }
    }

    /// For what one device does with it.
    pub fn whole(self) -> Self {
        Self { part_rows: 0, ..self }
    }

    /// Tiles of so many rows.
    fn big_tiles(&self, rows: i32) -> usize {
        (self.cx as usize).div_ceil(TILE.0 as usize) * (self.cy as usize).div_ceil(rows as usize)
    }

    /// Rows of a tile where what lies around it is computed twice (kernels/rrb/fused.cuh): those with which most blocks
    /// are at work most of the time. Where each has many tiles, the first are as good as others.
    pub fn big_rows(&self) -> i32 {
        if self.is_divided() {
            return BIG_ROWS[0];
        }
        let rounds = |rows| self.big_tiles(rows).div_ceil(MOST_BLOCKS as usize);
        let time = |rows: i32| rounds(rows) * (rows as usize + 2);
        let best = BIG_ROWS.into_iter().min_by_key(|rows| time(*rows)).unwrap_or(BIG_ROWS[0]);
        if rounds(BIG_ROWS[0]) > 2 { BIG_ROWS[0] } else { best }
    }

    /// Of the pass before it, which begins where that has ended: the same, where a block has few tiles of them.
    pub fn big_rows_down(&self) -> i32 {
        let rows = self.big_rows();
        let few = self.big_tiles(rows) <= 8 * MOST_BLOCKS as usize;
        if few { rows } else { TILE.1 as i32 }
    }

    /// Blocks that go over tiles of so many rows.
    pub fn first_blocks(&self, rows: i32) -> Blocks {
        self.on_all(self.big_tiles(rows).clamp(1, MOST_BLOCKS as usize) as u32)
    }
}

/// What there is, the first on large grids.
const BIG_ROWS: [i32; 3] = [16, 8, 24];

/// Blocks of a launch over nx x ny values.
pub fn tiles(nx: usize, ny: usize) -> u32 {
    let tiles = nx.div_ceil(TILE.0 as usize) * ny.div_ceil(TILE.1 as usize);
    tiles.clamp(1, MOST_BLOCKS as usize) as u32
}

structures! {
    /// One grid as the factorization works on it, in f64.
    Grid {
        g: Geometry, h: Address, s: Address, d: Address, excess: Address, corners: Address, far: Address,
        short_h: Address, short_s: Address, short_d: Address, kept_excess: Address, kept_corners: Address,
        kept_black: Address
    }
    Matrix { center: Address, straight: Address, red: Address, black: Address }
}

entries! {
    Kept { g: Geometry, to: Address, from: Address, nx: i32, ny: i32 }
    /// One grid as sweeps and cycles work on it.
    Level {
        g: Geometry, h: Address, s: Address, d: Address, z: Address, y: Address, excess: Address,
        corners: Address, black: Address, r: Address, direction: Address, q: Address, u: Address, kept: Kept
    }
}

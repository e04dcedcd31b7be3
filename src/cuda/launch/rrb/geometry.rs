//! Geometry of a grid in the layout that kernels receive (kernels/rrb/storage.cuh). (I, J) is the position of a 2 x 2
//! group of nodes, one of each colour. A tile consists of adjacent (I, J), and a row of the (I, J) with the same J.

use super::structures::Geometry;
use crate::cuda::driver::Blocks;
use crate::cuda::launch::TILE;

/// Number of (I, J) per direction in a patch (kernels/rrb/storage.cuh).
const PATCH: u32 = 8;
/// Largest number of blocks of a launch. It is the same for all devices, so that the order of summation is the same.
pub const MAX_BLOCKS: u32 = 528;

/// Number of parts into which the rows of a grid are divided if several devices share it (kernels/rrb/divided.cuh).
pub const PARTS: usize = 8;
/// Parts begin at multiples of this number of rows.
pub const PART_ROWS: usize = 16;

impl Geometry {
    /// Returns the numbers of tiles and of patches (kernels/rrb/uniform.cuh).
    pub fn tiles_and_patches(&self) -> (usize, usize) {
        let tile_count = |columns: u32, rows: u32| {
            (self.cx as u32).div_ceil(columns) as usize * (self.cy as u32).div_ceil(rows) as usize
        };
        (tile_count(TILE.0, TILE.1), tile_count(PATCH, PATCH))
    }

    /// Returns the blocks of a launch over all (I, J).
    pub fn blocks(&self) -> Blocks {
        self.on_all_devices(tile_blocks(self.cx as usize, self.cy as usize))
    }

    /// Returns the blocks of a launch over the nodes of the caller's arrays.
    pub fn blocks_by_rows(&self) -> Blocks {
        self.on_all_devices(tile_blocks(self.nx as usize, self.ny as usize))
    }

    /// Returns `count` blocks, on each device if the grid is distributed.
    pub fn on_all_devices(&self, count: u32) -> Blocks {
        Blocks { count, is_divided: self.is_divided() }
    }

    /// Returns the number of parts of a sum. Each block of a launch computes one partial sum per part.
    pub fn part_count(&self) -> usize {
        if self.is_divided() { PARTS } else { 1 }
    }

    /// Returns whether the rows are distributed.
    pub fn is_divided(&self) -> bool {
        self.part_rows != 0
    }

    /// Returns the first row of a part, or the number of rows if `part` is `PARTS`. Part `PARTS` / 2 begins at about
    /// the middle row. From there, a part begins every `part_rows` rows in both directions, within the grid.
    pub fn first_row(&self, part: usize) -> usize {
        let row_chunks = (self.cy as usize).div_ceil(PART_ROWS);
        let (middle, distance_from_middle) =
            (row_chunks / 2, part.abs_diff(PARTS / 2) * self.part_rows as usize / PART_ROWS);
        match part {
            0 => 0,
            _ if part >= PARTS => self.cy as usize,
            _ if part < PARTS / 2 => middle.saturating_sub(distance_from_middle) * PART_ROWS,
            _ => (middle + distance_from_middle).min(row_chunks.saturating_sub(1)) * PART_ROWS,
        }
    }

    /// Returns the geometry for kernels that one device executes for all rows.
    pub fn on_one_device(self) -> Self {
        Self { part_rows: 0, ..self }
    }

    /// Returns the number of tiles into which the grid is divided if a tile has `rows` rows.
    fn tile_count(&self, rows: i32) -> usize {
        (self.cx as usize).div_ceil(TILE.0 as usize) * (self.cy as usize).div_ceil(rows as usize)
    }

    /// Returns the tile height of the backward half on the first grid, which computes the values around a tile twice
    /// (kernels/rrb/fused.cuh). The height minimizes (tiles per block) x (rows + 2). If several devices share the
    /// grid, and if a block has more than two tiles of 16 rows, the height is 16.
    pub fn backward_tile_rows(&self) -> i32 {
        if self.is_divided() {
            return TILE_HEIGHTS[0];
        }
        let rounds = |rows| self.tile_count(rows).div_ceil(MAX_BLOCKS as usize);
        let time = |rows: i32| rounds(rows) * (rows as usize + 2);
        let best = TILE_HEIGHTS.into_iter().min_by_key(|rows| time(*rows)).unwrap_or(TILE_HEIGHTS[0]);
        if rounds(TILE_HEIGHTS[0]) > 2 { TILE_HEIGHTS[0] } else { best }
    }

    /// Returns the tile height of the forward half on the first grid. The forward half begins with the tiles at which
    /// the backward half ended, because the L2 cache still contains their data. Both halves use the same height if a
    /// block has at most 8 tiles. Otherwise, the forward half uses the height of a standard tile.
    pub fn forward_tile_rows(&self) -> i32 {
        let rows = self.backward_tile_rows();
        let has_few_tiles = self.tile_count(rows) <= 8 * MAX_BLOCKS as usize;
        if has_few_tiles { rows } else { TILE.1 as i32 }
    }

    /// Returns the blocks of a launch in which every tile has `rows` rows.
    pub fn blocks_for_tile_rows(&self, rows: i32) -> Blocks {
        self.on_all_devices(self.tile_count(rows).clamp(1, MAX_BLOCKS as usize) as u32)
    }
}

/// Tile heights to choose from. The first one is used on large grids.
const TILE_HEIGHTS: [i32; 3] = [16, 8, 24];

/// Returns the blocks of a launch over nx x ny values.
pub fn tile_blocks(nx: usize, ny: usize) -> u32 {
    let tiles = nx.div_ceil(TILE.0 as usize) * ny.div_ceil(TILE.1 as usize);
    tiles.clamp(1, MAX_BLOCKS as usize) as u32
}

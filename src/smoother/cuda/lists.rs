//! Work lists of a sweep on a device: items, faces that tiles of different patches exchange, and boxes of ghost cells.
//! An item consists of those blocks of a tile that are relaxed in one stage of the sweep: all blocks, or every other
//! one. kernels/smoother/smoother.cu explains tiles, stages, chunks and the order of the items.

use crate::cuda::launch::{BlockCopy, BlockItem};
use crate::error;
use crate::error::{Error, Result, collected, extend, insert, reserve, zeroed};
use crate::smoother::patches::{BlockPartition, GhostCopy, Patch, PatchList};
use crate::smoother::steps::{PatchSystem, colour_count, colour_of};
use std::collections::HashMap;
use std::ops::Range;

/// Cells per side of a tile.
pub const TILE_SIDE: usize = 8;
/// Flags in an item's `shape`, as in kernels/smoother/work.cuh.
const STRIDED_FLAG: u32 = 1 << 24;
const MASKED_FLAG: u32 = 1 << 25;
const ODD_PHASE_FLAG: u32 = 1 << 26;
/// Shape of an item that is one whole block of 8^3 cells.
pub const CUBE_SHAPE: u32 = 0x11_1888;
/// Bits of an item's `faces`. `ADVANCES_FLAG`: the item increments the entry of its chunk in `finished_counts`. From
/// bit `FIRST_FACE_SHIFT` on, the bits contain the number of the first face of the item.
const ADVANCES_FLAG: u32 = 1 << 6;
const FIRST_FACE_SHIFT: u32 = 7;

/// Minimum number of tiles per chunk. With two colours and blocks of 8^3 cells, a stage of such a chunk has 32 items.
/// Chunks of 64 tiles were faster than chunks of 128 and 256 tiles, each measured with the value of `lag` that
/// `build_items` computes.
const MIN_CHUNK_TILES: usize = 64;
/// Number of items that a device executes at a time, about 12 on each of 132 multiprocessors. Between an item and the
/// items of the previous stage that it waits for, at least this number of other items is launched. The item then rarely
/// waits. The data of the items in between should stay in the L2 cache. With the value 2048 instead of 1600, a sweep
/// takes 3 % longer.
const ITEMS_IN_FLIGHT: usize = 1600;
/// Largest number of ghost cells that a thread block copies.
const MAX_BOX_CELLS: usize = 512;
/// Largest number of values of u that a thread block copies.
pub const MAX_SEGMENT_VALUES: usize = 4096;
/// Number of values of a face of a tile.
pub const FACE_VALUES: usize = 64;

/// Order of the blocks in a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOrder {
    /// All blocks at once.
    AllAtOnce,
    /// Colour by colour.
    Colours { reverse: bool },
    /// The result is that of a relaxation of the blocks one after the other, x fastest. Blocks that are not coupled are
    /// relaxed at the same time.
    Lexicographic { reverse: bool },
}

impl BlockOrder {
    /// Returns whether every block is an item of its own.
    fn has_single_block_items(self) -> bool {
        matches!(self, Self::Lexicographic { .. })
    }
}

/// For each stage, two ranges of items that are launched one after the other: the blocks of 8^3 cells, and all other
/// blocks.
pub type Stages = Vec<[Range<usize>; 2]>;

/// Converts a number to the 32-bit type that kernels use. The error message describes the number by `quantity`.
pub fn to_i32(value: usize, quantity: &str) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::Dimension(format!("{quantity} is too large for a device: {value}")))
}

const TILE_ALLOCATION_NAME: &str = "lists of tiles";
const ITEM_ALLOCATION_NAME: &str = "lists of blocks";
const FACE_ALLOCATION_NAME: &str = "lists of faces";
const COPY_ALLOCATION_NAME: &str = "the ghost copy plan";

/// Blocks of one tile along one axis.
#[derive(Clone, Copy, Debug)]
struct AxisTile {
    /// First cell, relative to the patch.
    first_cell: usize,
    /// Number of cells per block.
    block_length: usize,
    /// Number of blocks.
    block_count: usize,
    /// Global index of the first block.
    global_index: i64,
    /// Index of the first block, counted from the first block of the patch.
    index_in_patch: usize,
    /// Number of the slab that contains the tile. A slab is one tile or, with `is_strided` (see `axis_tiles`), the
    /// tiles that together contain at most 2 m consecutive blocks, where m is the number of blocks that fit in eight
    /// cells. Tiles are adjacent only to tiles of the same slab and of the neighbouring slabs.
    slab: usize,
}

/// Divides a patch into tiles along an axis. A tile has as many blocks as fit in eight cells. The blocks of a tile are
/// adjacent or, with `is_strided`, every other block of the patch. With `has_single_blocks`, a tile has one block. A
/// truncated block is a tile of its own.
fn axis_tiles(
    partition: &BlockPartition,
    patch: &Patch,
    axis: usize,
    is_strided: bool,
    has_single_blocks: bool,
) -> Result<Vec<AxisTile>> {
    let (first_block, count) = partition.block_range(patch, axis);
    let block_len = partition.block[axis];
    let max_blocks = if has_single_blocks { 1 } else { TILE_SIDE / block_len };
    let make_tile = |block: usize, block_count: usize, slab: usize| {
        let segment = partition.segment(patch, axis, block);
        AxisTile {
            first_cell: segment.start,
            block_length: segment.len,
            block_count,
            global_index: first_block + block as i64,
            index_in_patch: block,
            slab,
        }
    };
    let is_whole = |block: usize| partition.segment(patch, axis, block).len == block_len;
    let mut tiles = Vec::new();
    if is_strided && max_blocks > 1 {
        for (slab, begin) in (0..count).step_by(2 * max_blocks).enumerate() {
            let end = count.min(begin + 2 * max_blocks);
            for parity in 0..2 {
                let mut block = begin + parity;
                while block < end {
                    let mut blocks_in_tile = 1;
                    while is_whole(block) && block + 2 * blocks_in_tile < end && is_whole(block + 2 * blocks_in_tile) {
                        blocks_in_tile += 1;
                    }
                    error::push(&mut tiles, make_tile(block, blocks_in_tile, slab), TILE_ALLOCATION_NAME)?;
                    block += 2 * blocks_in_tile;
                }
            }
        }
    } else {
        let mut block = 0;
        while block < count {
            let mut blocks_in_tile = 1;
            while is_whole(block)
                && blocks_in_tile < max_blocks
                && block + blocks_in_tile < count
                && is_whole(block + blocks_in_tile)
            {
                blocks_in_tile += 1;
            }
            let slab = tiles.len();
            error::push(&mut tiles, make_tile(block, blocks_in_tile, slab), TILE_ALLOCATION_NAME)?;
            block += blocks_in_tile;
        }
    }
    Ok(tiles)
}

/// An item with its stage and chunk, before the items are sorted.
struct PlacedItem {
    stage: usize,
    chunk: usize,
    /// Number of the item in the order of creation. Items of the same stage and chunk keep this order.
    number: usize,
    item: BlockItem,
}

/// Returns all combinations of an element of `xs`, one of `ys` and one of `zs`. The element of `xs` varies fastest.
pub fn combinations<T: Copy>(xs: &[T], ys: &[T], zs: &[T]) -> impl Iterator<Item = [T; 3]> {
    zs.iter().flat_map(move |z| ys.iter().flat_map(move |y| xs.iter().map(move |x| [*x, *y, *z])))
}

/// Returns the numbers of the one or two stages in which blocks of a tile are relaxed. For each stage, also returns the
/// flags (`STRIDED_FLAG`, `MASKED_FLAG`, `ODD_PHASE_FLAG`) that select its blocks.
fn stages_of_tile(
    order: BlockOrder,
    colours: usize,
    uses_overlap: bool,
    tile: &[AxisTile; 3],
) -> [Option<(usize, u32)>; 2] {
    match order {
        BlockOrder::AllAtOnce => [Some((0, 0)), None],
        BlockOrder::Colours { reverse } => {
            let stage_of = |c: usize| if reverse { colours - 1 - c } else { c };
            let own_colour = colour_of(colours, tile.map(|t| t.global_index));
            let has_several_blocks = tile.iter().any(|t| t.block_count > 1);
            if has_several_blocks && colours == 2 {
                return [0, 1]
                    .map(|c| Some((stage_of(c), MASKED_FLAG | if own_colour == c { 0 } else { ODD_PHASE_FLAG })));
            }
            [Some((stage_of(own_colour), if has_several_blocks { STRIDED_FLAG } else { 0 })), None]
        }
        BlockOrder::Lexicographic { .. } => {
            // The stage is a weighted sum of the block's indices. The weights ensure that, of two coupled blocks, the
            // later one in lexicographic order has the higher stage. Without `uses_overlap`, a 7-point stencil couples
            // blocks that share a face, and a 27-point stencil also those that share an edge or a corner. With
            // `uses_overlap`, a shifted block shares cells with all blocks around it. If a patch has three blocks in a
            // direction, the first and the last block may be shifted towards each other, so that these two blocks
            // overlap, too.
            let weights = match (colours, uses_overlap) {
                (_, true) => [1, 3, 9],
                (2, false) => [1, 1, 1],
                _ => [1, 2, 4],
            };
            [Some(((0..3).map(|d| weights[d] * tile[d].index_in_patch).sum(), 0)), None]
        }
    }
}

/// Builds the items of one sweep over the patches `range`, tile by tile. Returns the items and the number of chunks.
fn place_items(
    patch_system: &PatchSystem,
    range: Range<usize>,
    (partition, order): (&BlockPartition, BlockOrder),
    faces: &Faces,
) -> Result<(Vec<PlacedItem>, usize)> {
    let colours = colour_count(&patch_system.stencil);
    let has_single_blocks = order.has_single_block_items();
    let is_strided = matches!(order, BlockOrder::Colours { .. }) && colours == 8;
    let mut placed_items: Vec<PlacedItem> = Vec::new();
    let (mut chunk, mut tiles_in_chunk) = (0, 0);
    for p in range {
        let patch = &patch_system.patch_list.patches[p];
        let tiles_along = |axis: usize| axis_tiles(partition, patch, axis, is_strided, has_single_blocks);
        let (xs, ys, zs) = (tiles_along(0)?, tiles_along(1)?, tiles_along(2)?);
        let mut slab = usize::MAX;
        for tile in combinations(&xs, &ys, &zs) {
            if tile[2].slab != slab {
                slab = tile[2].slab;
                if tiles_in_chunk >= MIN_CHUNK_TILES && !has_single_blocks {
                    (chunk, tiles_in_chunk) = (chunk + 1, 0);
                }
            }
            tiles_in_chunk += 1;
            let mut item =
                BlockItem { patch: to_i32(p, "the number of patches")?, wait_index: -1, ..BlockItem::default() };
            for (d, t) in tile.iter().enumerate() {
                item.shape |= (t.block_length as u32) << (4 * d) | (t.block_count as u32) << (12 + 4 * d);
            }
            (item.x, item.y) = (to_i32(tile[0].first_cell, "nx")?, to_i32(tile[1].first_cell, "ny")?);
            item.z = to_i32(tile[2].first_cell, "nz")?;
            item.faces = faces.face_word(p, tile.map(|t| t.first_cell));
            for (stage, flags) in stages_of_tile(order, colours, partition.uses_overlap, &tile).into_iter().flatten() {
                let item = BlockItem { shape: item.shape | flags, ..item };
                let number = placed_items.len();
                error::push(&mut placed_items, PlacedItem { stage, chunk, number, item }, ITEM_ALLOCATION_NAME)?;
            }
        }
    }
    Ok((placed_items, chunk + 1))
}

/// Builds the items of one sweep over the patches `range`. In each list, the indices into `finished_counts` begin at 0.
/// Returns three lists:
/// - the sorted items;
/// - the counts of items with which the kernel compares `finished_counts` (`required_counts` of the kernel); empty with
///   `is_by_stage`;
/// - the ranges of items of each stage, if `is_by_stage` is set, which sorts the items by stage; empty otherwise.
pub fn build_items(
    patch_system: &PatchSystem,
    range: Range<usize>,
    (partition, order): (&BlockPartition, BlockOrder),
    faces: &Faces,
    is_by_stage: bool,
) -> Result<(Vec<BlockItem>, Vec<u32>, Stages)> {
    let (mut placed_items, chunk_count) = place_items(patch_system, range, (partition, order), faces)?;
    let stages = placed_items.iter().map(|p| p.stage).max().unwrap_or(0) + 1;
    if order == (BlockOrder::Lexicographic { reverse: true }) {
        placed_items.iter_mut().for_each(|p| p.stage = stages - 1 - p.stage);
    }
    if is_by_stage {
        // A stable sort would allocate memory.
        placed_items.sort_unstable_by_key(|p| (p.stage, p.item.shape != CUBE_SHAPE, p.number));
        let first_index = |stage: usize, is_other: bool| {
            placed_items.partition_point(|p| (p.stage, p.item.shape != CUBE_SHAPE) < (stage, is_other))
        };
        let stage_ranges =
            |s: usize| [first_index(s, false)..first_index(s, true), first_index(s, true)..first_index(s + 1, false)];
        let stages = collected((0..stages).map(stage_ranges), ITEM_ALLOCATION_NAME)?;
        return Ok((collected(placed_items.into_iter().map(|p| p.item), ITEM_ALLOCATION_NAME)?, Vec::new(), stages));
    }
    // Stage s of chunk c is executed in step c + s * lag.
    let items_per_step = placed_items.len().div_ceil(chunk_count);
    let lag = 1 + if chunk_count > 1 { ITEMS_IN_FLIGHT.div_ceil(items_per_step.max(1)) } else { 0 };
    placed_items.sort_unstable_by_key(|p| (p.chunk + p.stage * lag, p.stage, p.number));
    // `required_counts` is a matrix of 1 + `stages` rows. A row has one entry per chunk, and one additional entry at
    // each end. Row 0 counts the items that increment `finished_counts`. Row 1 + s counts the items of all stages below
    // s, for which the items of stage s wait. Items of the last stage are not counted, because no item waits for them.
    let row_length = chunk_count + 2;
    let mut required_counts: Vec<u32> = zeroed((1 + stages) * row_length, ITEM_ALLOCATION_NAME)?;
    for p in placed_items.iter().filter(|p| p.stage + 1 < stages) {
        required_counts[(2 + p.stage) * row_length + p.chunk + 1] += 1;
    }
    for k in 2 * row_length..required_counts.len() {
        required_counts[k] += required_counts[k - row_length];
    }
    required_counts.copy_within(stages * row_length.., 0);
    let mut items = Vec::new();
    reserve(&mut items, placed_items.len(), ITEM_ALLOCATION_NAME)?;
    for PlacedItem { stage, chunk, mut item, .. } in placed_items {
        item.chunk_index = to_i32(chunk + 1, "the number of blocks")?;
        item.faces |= if stage + 1 < stages { ADVANCES_FLAG } else { 0 };
        if stage > 0 {
            item.wait_index = to_i32((1 + stage) * row_length + chunk, "the number of blocks")?;
        }
        items.push(item);
    }
    Ok((items, required_counts, Vec::new()))
}

/// Divides a box of ghost cells into boxes of at most `MAX_BOX_CELLS` cells, and appends these to `boxes`.
fn push_copy_boxes(copy: &GhostCopy, patch_list: &PatchList, boxes: &mut Vec<BlockCopy>) -> Result<()> {
    let [nx, ny, nz] = copy.cell_box.size;
    let (target, source) = (&patch_list.patches[copy.target_patch], &patch_list.patches[copy.source_patch]);
    let x_step = nx.min(MAX_BOX_CELLS);
    let y_step = ny.min(MAX_BOX_CELLS / x_step);
    let z_step = nz.min(MAX_BOX_CELLS / (x_step * y_step));
    for k in (0..nz).step_by(z_step) {
        for j in (0..ny).step_by(y_step) {
            for i in (0..nx).step_by(x_step) {
                let [x, y, z] = copy.cell_box.lower;
                let cell = [x + i as i64, y + j as i64, z + k as i64];
                let copy_box = BlockCopy {
                    target_patch: to_i32(copy.target_patch, "the number of patches")?,
                    source_patch: to_i32(copy.source_patch, "the number of patches")?,
                    target_index: target.index_of(cell) as i64,
                    source_index: source.index_of(cell) as i64,
                    nx: x_step.min(nx - i) as i32,
                    ny: y_step.min(ny - j) as i32,
                    nz: z_step.min(nz - k) as i32,
                    unused: 0,
                };
                error::push(boxes, copy_box, COPY_ALLOCATION_NAME)?;
            }
        }
    }
    Ok(())
}

/// Returns the copies of all ghost cells that other patches cover, as boxes of at most `MAX_BOX_CELLS` cells.
pub fn build_copy_boxes(patch_list: &PatchList) -> Result<Vec<BlockCopy>> {
    let mut boxes = Vec::new();
    for copy in &patch_list.ghost_copies {
        push_copy_boxes(copy, patch_list, &mut boxes)?;
    }
    Ok(boxes)
}

/// A tile of 8^3 cells at the edge of its patch.
struct EdgeTile {
    patch: usize,
    first_cell: [usize; 3],
    /// For each side (west, east, south, north, bottom, top), the adjacent tile of another patch, and the side of that
    /// tile.
    neighbours: [Option<(usize, usize)>; 6],
}

/// Faces between tiles of different patches. A tile writes the values of a face to a buffer, and the adjacent tile
/// reads them in the next sweep. The ghost cells at this face are therefore neither written nor read between these two
/// sweeps. Faces are used only with 7-point stencils, partitions without overlap, and inverses that sine transforms
/// apply.
#[derive(Default)]
pub struct Faces {
    /// For the patch and the first cell of a tile, the `faces` word of the items of this tile. The word contains the
    /// sides at which the tile exchanges a face and, from bit `FIRST_FACE_SHIFT` on, the number of the first face of
    /// the tile.
    face_words: HashMap<(usize, [usize; 3]), u32>,
    /// For each face, the number of the adjacent face.
    pub partners: Vec<i32>,
}

impl Faces {
    /// Finds the pairs of faces of one partition. Two tiles of 8^3 cells in different patches form a pair if they touch
    /// in a plane and their first cells have the same indices in this plane. With 27-point stencils or `uses_overlap`,
    /// there are no pairs.
    pub fn new(patch_system: &PatchSystem, partition: &BlockPartition, order: BlockOrder) -> Result<Self> {
        let patch_list = &*patch_system.patch_list;
        if patch_system.stencil.point_count != 7 || partition.uses_overlap || patch_list.ghost_copies.is_empty() {
            return Ok(Self::default());
        }
        let mut edge_tiles: Vec<EdgeTile> = Vec::new();
        // Faces for which no adjacent face has been found yet.
        let mut unmatched: HashMap<(usize, [i64; 3]), (usize, usize)> = HashMap::new();
        for (patch, patch_box) in patch_list.patches.iter().enumerate() {
            let tiles_along = |axis: usize| {
                let tiles = axis_tiles(partition, patch_box, axis, false, order.has_single_block_items())?;
                collected(
                    tiles.into_iter().filter(|t| t.block_length * t.block_count == TILE_SIDE).map(|t| t.first_cell),
                    TILE_ALLOCATION_NAME,
                )
            };
            let (xs, ys, zs) = (tiles_along(0)?, tiles_along(1)?, tiles_along(2)?);
            for first_cell in combinations(&xs, &ys, &zs) {
                let mut tile_index: Option<usize> = None;
                for side in 0..6 {
                    let (axis, is_upper) = (side / 2, side % 2 == 1);
                    if first_cell[axis] != if is_upper { patch_box.size[axis].wrapping_sub(TILE_SIDE) } else { 0 } {
                        continue;
                    }
                    let mut face_position = [0, 1, 2].map(|d| patch_box.lower[d] + first_cell[d] as i64);
                    face_position[axis] += if is_upper { TILE_SIDE as i64 } else { 0 };
                    if tile_index.is_none() {
                        error::push(
                            &mut edge_tiles,
                            EdgeTile { patch, first_cell, neighbours: [None; 6] },
                            FACE_ALLOCATION_NAME,
                        )?;
                    }
                    let tile = *tile_index.get_or_insert(edge_tiles.len() - 1);
                    if let Some((other_tile, other_side)) = unmatched.remove(&(axis, face_position)) {
                        edge_tiles[tile].neighbours[side] = Some((other_tile, other_side));
                        edge_tiles[other_tile].neighbours[other_side] = Some((tile, side));
                    } else {
                        insert(&mut unmatched, (axis, face_position), (tile, side), FACE_ALLOCATION_NAME)?;
                    }
                }
            }
        }
        // Faces are numbered in the order of the tiles, and for each tile in the order of its sides.
        let mut face_numbers: Vec<[i32; 6]> = zeroed(edge_tiles.len(), FACE_ALLOCATION_NAME)?;
        let (mut face_count, mut face_words) = (0, HashMap::new());
        for (edge_tile, face_numbers) in edge_tiles.iter().zip(&mut face_numbers) {
            let first_face = face_count;
            let mut sides = 0;
            for side in (0..6).filter(|&side| edge_tile.neighbours[side].is_some()) {
                (sides, face_numbers[side]) = (sides | 1 << side, face_count);
                face_count += 1;
            }
            if face_count >= 1 << (31 - FIRST_FACE_SHIFT) {
                return Err(Error::Dimension(format!("too many faces between patches for a device: {face_count}")));
            }
            if sides != 0 {
                insert(
                    &mut face_words,
                    (edge_tile.patch, edge_tile.first_cell),
                    (first_face as u32) << FIRST_FACE_SHIFT | sides,
                    FACE_ALLOCATION_NAME,
                )?;
            }
        }
        let neighbours = edge_tiles.iter().flat_map(|edge_tile| edge_tile.neighbours.iter().flatten());
        Ok(Self {
            face_words,
            partners: collected(neighbours.map(|&(tile, side)| face_numbers[tile][side]), FACE_ALLOCATION_NAME)?,
        })
    }

    /// Returns the `faces` word of the tile whose first cell in patch `patch` is `cell`; 0 if the tile exchanges no
    /// faces.
    fn face_word(&self, patch: usize, cell: [usize; 3]) -> u32 {
        self.face_words.get(&(patch, cell)).copied().unwrap_or(0)
    }

    /// Returns the copies of the ghost cells that no pair of faces covers, as boxes of at most `MAX_BOX_CELLS` cells.
    /// The boxes of ghost cells that a sweep reads come first; their number is also returned. The boxes at edges and
    /// corners, which no 7-point stencil reads, follow.
    pub fn remaining_copies(
        &self,
        patch_list: &PatchList,
        partition: &BlockPartition,
        order: BlockOrder,
    ) -> Result<(Vec<BlockCopy>, usize)> {
        let (mut read_copies, mut unread_copies) = (Vec::new(), Vec::new());
        for copy in &patch_list.ghost_copies {
            let target = &patch_list.patches[copy.target_patch];
            // The box is divided along each axis into the parts before, inside and behind the patch: 27 parts in total.
            for sub_box in 0..27 {
                let mut cell_box = copy.cell_box;
                let mut sides = Vec::new();
                for axis in 0..3 {
                    let (lower, end) = (cell_box.lower[axis], cell_box.lower[axis] + cell_box.size[axis] as i64);
                    let (patch_lower, patch_end) = (target.lower[axis], target.lower[axis] + target.size[axis] as i64);
                    let third = sub_box / 3usize.pow(axis as u32) % 3;
                    let (sub_lower, sub_end) =
                        [(lower, patch_lower), (patch_lower, patch_end), (patch_end, end)][third];
                    (cell_box.lower[axis], cell_box.size[axis]) = (sub_lower.max(lower), 0);
                    cell_box.size[axis] = (sub_end.min(end) - cell_box.lower[axis]).max(0) as usize;
                    if third != 1 {
                        error::push(&mut sides, 2 * axis + third / 2, FACE_ALLOCATION_NAME)?;
                    }
                }
                if cell_box.cell_count() == 0 {
                    continue;
                }
                let copy = GhostCopy { cell_box, ..*copy };
                match sides[..] {
                    [side] => {
                        self.push_unmatched_copies(&copy, patch_list, (partition, order), side, &mut read_copies)?
                    }
                    _ => push_copy_boxes(&copy, patch_list, &mut unread_copies)?,
                }
            }
        }
        let read_count = read_copies.len();
        extend(&mut read_copies, unread_copies, COPY_ALLOCATION_NAME)?;
        Ok((read_copies, read_count))
    }

    /// `copy` contains ghost cells beyond side `side` of its target patch. Adds to `boxes` the copies of those ghost
    /// cells whose adjacent tile of the target patch exchanges no face on this side.
    fn push_unmatched_copies(
        &self,
        copy: &GhostCopy,
        patch_list: &PatchList,
        (partition, order): (&BlockPartition, BlockOrder),
        side: usize,
        boxes: &mut Vec<BlockCopy>,
    ) -> Result<()> {
        let (target, ghost_box) = (&patch_list.patches[copy.target_patch], &copy.cell_box);
        let axis = side / 2;
        let tiles_along = |d: usize| -> Result<Vec<AxisTile>> {
            let mut tiles = axis_tiles(partition, target, d, false, order.has_single_block_items())?;
            if d == axis {
                // Along this axis, only the tile at the edge of the patch is adjacent to these ghost cells.
                let edge_index = if side % 2 == 1 { tiles.len() - 1 } else { 0 };
                tiles.swap(0, edge_index);
                tiles.truncate(1);
            }
            Ok(tiles)
        };
        let (xs, ys, zs) = (tiles_along(0)?, tiles_along(1)?, tiles_along(2)?);
        let mut unmatched_boxes = Vec::new();
        let mut none_matched = true;
        for tile in combinations::<AxisTile>(&xs, &ys, &zs) {
            let mut tile_box = *ghost_box;
            for d in (0..3).filter(|&d| d != axis) {
                let first = target.lower[d] + tile[d].first_cell as i64;
                let lower = first.max(ghost_box.lower[d]);
                let end = (first + (tile[d].block_length * tile[d].block_count) as i64)
                    .min(ghost_box.lower[d] + ghost_box.size[d] as i64);
                (tile_box.lower[d], tile_box.size[d]) = (lower, (end - lower).max(0) as usize);
            }
            if tile_box.cell_count() == 0 {
                continue;
            }
            if self.face_word(copy.target_patch, tile.map(|t| t.first_cell)) >> side & 1 == 1 {
                none_matched = false;
            } else {
                error::push(&mut unmatched_boxes, tile_box, COPY_ALLOCATION_NAME)?;
            }
        }
        if none_matched {
            return push_copy_boxes(copy, patch_list, boxes);
        }
        unmatched_boxes
            .into_iter()
            .try_for_each(|cell_box| push_copy_boxes(&GhostCopy { cell_box, ..*copy }, patch_list, boxes))
    }
}

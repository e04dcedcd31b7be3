//! Work lists of a sweep on a device: items, faces that tiles of different patches exchange, and boxes of ghost cells.
//! An item consists of those blocks of a tile that are relaxed in one stage of the sweep: all blocks, or every other
//! one. kernels/smoother/smoother.cu explains tiles, stages, chunks and the order of the items.

use crate::cuda::launch::{BlockCopy, BlockItem};
use crate::error;
use crate::error::{Error, Result, collected, extend, insert, reserve, zeroed};
use crate::smoother::patches::{Cut, GhostCopy, Patch, PatchList};
use crate::smoother::steps::{PatchSystem, colour_count, colour_of};
use std::collections::HashMap;
use std::ops::Range;

/// Cells per side of a tile.
pub const TILE_SIDE: usize = 8;
/// Flags in an item's `shape`, as in kernels/smoother/work.cuh.
const STRIDED: u32 = 1 << 24;
const MASKED: u32 = 1 << 25;
const PHASE: u32 = 1 << 26;
/// Shape of an item that is one whole block of 8^3 cells.
pub const CUBE_SHAPE: u32 = 0x11_1888;
/// Bits of an item's `faces`. `ADVANCES`: the item increments its entry of `progress`. `FIRST_FACE_SHIFT`: position of
/// the bits that contain the number of its first face.
const ADVANCES: u32 = 1 << 6;
const FIRST_FACE_SHIFT: u32 = 7;

/// Minimum number of tiles per chunk. With two colours and blocks of 8^3 cells, a stage of such a chunk has 32 items.
/// 64 tiles were faster than 128 and 256 tiles, each measured with the lag that `items_of` computes.
const CHUNK_TILES: usize = 64;
/// Number of items that a device executes at a time, about 12 on each of 132 multiprocessors. Between an item and the
/// items of the previous stage that it waits for, at least this number of other items is launched. The item then rarely
/// waits. The data of the items in between should stay in the L2 cache. With the value 2048 instead of 1600, a sweep
/// takes 3 % longer.
const IN_FLIGHT: usize = 1600;
/// Largest number of ghost cells that a thread block copies.
const BOX_CELLS: usize = 512;
/// Largest number of values of u that a thread block copies.
pub const SEGMENT_VALUES: usize = 4096;
/// Number of values of a face of a tile.
pub const FACE_VALUES: usize = 64;

/// Order of the blocks in a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All blocks at once.
    Together,
    /// Colour by colour.
    Colours { reverse: bool },
    /// The result is the same as if the blocks were relaxed one after the other, x fastest. Blocks that are not coupled
    /// are relaxed at the same time.
    Lexicographic { reverse: bool },
}

impl Order {
    /// Returns whether every block is an item of its own.
    fn is_single(self) -> bool {
        matches!(self, Self::Lexicographic { .. })
    }
}

/// For each stage, two ranges of items that are launched one after the other: the blocks of 8^3 cells, and all other
/// blocks.
pub type Stages = Vec<[Range<usize>; 2]>;

pub fn to_i32(value: usize, what: &str) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::Dimension(format!("{what} is too large for a device: {value}")))
}

const TILES: &str = "lists of tiles";
const ITEMS: &str = "lists of blocks";
const FACES: &str = "lists of faces";
const COPIES: &str = "the ghost copy plan";

/// Blocks of one tile along one axis.
#[derive(Clone, Copy, Debug)]
struct AxisTile {
    /// First cell, relative to the patch.
    cell: usize,
    /// Number of cells per block.
    length: usize,
    /// Number of blocks.
    count: usize,
    /// Global index of the first block.
    global_index: i64,
    /// Index of the first block, counted from the first block of the patch.
    index_in_patch: usize,
    /// Number of the slab. A slab is one tile or, with `strided`, the tiles that consist of 2 * (8 / block) consecutive
    /// blocks. Tiles are adjacent only to tiles of the same slab and of the neighbouring slabs.
    slab: usize,
}

/// Divides a patch into tiles along an axis. A tile has as many blocks as fit in eight cells; the blocks are adjacent
/// or, with `strided`, every other one. With `single`, a tile has one block. A truncated block is a tile of its own.
fn axis_tiles(cut: &Cut, patch: &Patch, axis: usize, strided: bool, single: bool) -> Result<Vec<AxisTile>> {
    let (first, count) = cut.block_range(patch, axis);
    let block = cut.block[axis];
    let most = if single { 1 } else { TILE_SIDE / block };
    let tile = |m: usize, count: usize, slab: usize| {
        let segment = cut.segment(patch, axis, m);
        AxisTile {
            cell: segment.start,
            length: segment.len,
            count,
            global_index: first + m as i64,
            index_in_patch: m,
            slab,
        }
    };
    let whole = |m: usize| cut.segment(patch, axis, m).len == block;
    let mut tiles = Vec::new();
    if strided && most > 1 {
        for (slab, begin) in (0..count).step_by(2 * most).enumerate() {
            let end = count.min(begin + 2 * most);
            for parity in 0..2 {
                let mut m = begin + parity;
                while m < end {
                    let mut together = 1;
                    while whole(m) && m + 2 * together < end && whole(m + 2 * together) {
                        together += 1;
                    }
                    error::push(&mut tiles, tile(m, together, slab), TILES)?;
                    m += 2 * together;
                }
            }
        }
    } else {
        let mut m = 0;
        while m < count {
            let mut together = 1;
            while whole(m) && together < most && m + together < count && whole(m + together) {
                together += 1;
            }
            let slab = tiles.len();
            error::push(&mut tiles, tile(m, together, slab), TILES)?;
            m += together;
        }
    }
    Ok(tiles)
}

/// An item with its stage and chunk, before the items are sorted.
struct PlacedItem {
    stage: usize,
    chunk: usize,
    /// Number of the item; within a stage, items keep this order.
    number: usize,
    item: BlockItem,
}

/// Returns all combinations of x, y and z, x fastest.
pub fn combinations<T: Copy>(xs: &[T], ys: &[T], zs: &[T]) -> impl Iterator<Item = [T; 3]> {
    zs.iter().flat_map(move |z| ys.iter().flat_map(move |y| xs.iter().map(move |x| [*x, *y, *z])))
}

/// Returns the numbers of the one or two stages in which blocks of a tile are relaxed. For each stage, also returns the
/// flags (STRIDED, MASKED, PHASE) that select its blocks.
fn stages_of_tile(order: Order, colours: usize, overlap: bool, tile: &[AxisTile; 3]) -> [Option<(usize, u32)>; 2] {
    match order {
        Order::Together => [Some((0, 0)), None],
        Order::Colours { reverse } => {
            let stage_of = |c: usize| if reverse { colours - 1 - c } else { c };
            let own = colour_of(colours, tile.map(|t| t.global_index));
            let several = tile.iter().any(|t| t.count > 1);
            if several && colours == 2 {
                return [0, 1].map(|c| Some((stage_of(c), MASKED | if own == c { 0 } else { PHASE })));
            }
            [Some((stage_of(own), if several { STRIDED } else { 0 })), None]
        }
        Order::Lexicographic { .. } => {
            // The stage is a weighted sum of the block's indices. The weights ensure that, of two coupled blocks, the
            // later one in lexicographic order has the higher stage. Without `overlap`, a 7-point stencil couples
            // blocks that share a face, and a 27-point stencil also those that share an edge or a corner. With
            // `overlap`, a shifted block shares cells with all blocks around it. If a patch has three blocks in a
            // direction, the first and the last one may be shifted towards each other, so that they overlap, too.
            let weights = match (colours, overlap) {
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
    (cut, order): (&Cut, Order),
    faces: &Faces,
) -> Result<(Vec<PlacedItem>, usize)> {
    let colours = colour_count(&patch_system.stencil);
    let single = order.is_single();
    let strided = matches!(order, Order::Colours { .. }) && colours == 8;
    let mut placed: Vec<PlacedItem> = Vec::new();
    let (mut chunk, mut tiles_in_chunk) = (0, 0);
    for p in range {
        let patch = &patch_system.list.patches[p];
        let tiles = |axis: usize| axis_tiles(cut, patch, axis, strided, single);
        let (xs, ys, zs) = (tiles(0)?, tiles(1)?, tiles(2)?);
        let mut slab = usize::MAX;
        for tile in combinations(&xs, &ys, &zs) {
            if tile[2].slab != slab {
                slab = tile[2].slab;
                if tiles_in_chunk >= CHUNK_TILES && !single {
                    (chunk, tiles_in_chunk) = (chunk + 1, 0);
                }
            }
            tiles_in_chunk += 1;
            let mut item =
                BlockItem { patch: to_i32(p, "the number of patches")?, wait_index: -1, ..BlockItem::default() };
            for (d, t) in tile.iter().enumerate() {
                item.shape |= (t.length as u32) << (4 * d) | (t.count as u32) << (12 + 4 * d);
            }
            (item.x, item.y) = (to_i32(tile[0].cell, "nx")?, to_i32(tile[1].cell, "ny")?);
            item.z = to_i32(tile[2].cell, "nz")?;
            item.faces = faces.of(p, tile.map(|t| t.cell));
            for (stage, flags) in stages_of_tile(order, colours, cut.overlap, &tile).into_iter().flatten() {
                let item = BlockItem { shape: item.shape | flags, ..item };
                let number = placed.len();
                error::push(&mut placed, PlacedItem { stage, chunk, number, item }, ITEMS)?;
            }
        }
    }
    Ok((placed, chunk + 1))
}

/// Builds the sorted items of one sweep over some patches. The indices into `progress` begin at 0. Also returns the
/// counts of items with which `progress` is compared (`totals` of the kernel), and the stages. With `in_stages`, the
/// items are sorted by stage, and there are no counts. Otherwise, the list of stages is empty.
pub fn items_of(
    patch_system: &PatchSystem,
    range: Range<usize>,
    (cut, order): (&Cut, Order),
    faces: &Faces,
    in_stages: bool,
) -> Result<(Vec<BlockItem>, Vec<u32>, Stages)> {
    let (mut placed, chunks) = place_items(patch_system, range, (cut, order), faces)?;
    let stages = placed.iter().map(|p| p.stage).max().unwrap_or(0) + 1;
    if order == (Order::Lexicographic { reverse: true }) {
        placed.iter_mut().for_each(|p| p.stage = stages - 1 - p.stage);
    }
    if in_stages {
        // A stable sort would allocate memory.
        placed.sort_unstable_by_key(|p| (p.stage, p.item.shape != CUBE_SHAPE, p.number));
        let index = |stage: usize, other: bool| {
            placed.partition_point(|p| (p.stage, p.item.shape != CUBE_SHAPE) < (stage, other))
        };
        let ends = |s: usize| [index(s, false)..index(s, true), index(s, true)..index(s + 1, false)];
        let stages = collected((0..stages).map(ends), ITEMS)?;
        return Ok((collected(placed.into_iter().map(|p| p.item), ITEMS)?, Vec::new(), stages));
    }
    // Stage s of chunk c is executed in step c + s * lag.
    let in_a_step = placed.len().div_ceil(chunks);
    let lag = 1 + if chunks > 1 { IN_FLIGHT.div_ceil(in_a_step.max(1)) } else { 0 };
    placed.sort_unstable_by_key(|p| (p.chunk + p.stage * lag, p.stage, p.number));
    // `totals` has 1 + `stages` rows. A row has an entry per chunk, one before the first chunk and one after the last.
    // Row 0 counts the items that increment `progress`. Row 1 + s counts the items of all stages below s, for which the
    // items of stage s wait. Items of the last stage are not counted, because no item waits for them.
    let row = chunks + 2;
    let mut totals: Vec<u32> = zeroed((1 + stages) * row, ITEMS)?;
    for p in placed.iter().filter(|p| p.stage + 1 < stages) {
        totals[(2 + p.stage) * row + p.chunk + 1] += 1;
    }
    for k in 2 * row..totals.len() {
        totals[k] += totals[k - row];
    }
    totals.copy_within(stages * row.., 0);
    let mut items = Vec::new();
    reserve(&mut items, placed.len(), ITEMS)?;
    for PlacedItem { stage, chunk, mut item, .. } in placed {
        item.chunk_index = to_i32(chunk + 1, "the number of blocks")?;
        item.faces |= if stage + 1 < stages { ADVANCES } else { 0 };
        if stage > 0 {
            item.wait_index = to_i32((1 + stage) * row + chunk, "the number of blocks")?;
        }
        items.push(item);
    }
    Ok((items, totals, Vec::new()))
}

/// Divides a box of ghost cells into pieces of at most `BOX_CELLS` cells.
fn push_copy_boxes(copy: &GhostCopy, list: &PatchList, out: &mut Vec<BlockCopy>) -> Result<()> {
    let [nx, ny, nz] = copy.cells.size;
    let (to, from) = (&list.patches[copy.to], &list.patches[copy.from]);
    let x_step = nx.min(BOX_CELLS);
    let y_step = ny.min(BOX_CELLS / x_step);
    let z_step = nz.min(BOX_CELLS / (x_step * y_step));
    for k in (0..nz).step_by(z_step) {
        for j in (0..ny).step_by(y_step) {
            for i in (0..nx).step_by(x_step) {
                let [x, y, z] = copy.cells.lower;
                let cell = [x + i as i64, y + j as i64, z + k as i64];
                let copy_box = BlockCopy {
                    to_patch: to_i32(copy.to, "the number of patches")?,
                    from_patch: to_i32(copy.from, "the number of patches")?,
                    to: to.index_of(cell) as i64,
                    from: from.index_of(cell) as i64,
                    nx: x_step.min(nx - i) as i32,
                    ny: y_step.min(ny - j) as i32,
                    nz: z_step.min(nz - k) as i32,
                    unused: 0,
                };
                error::push(out, copy_box, COPIES)?;
            }
        }
    }
    Ok(())
}

/// Returns the copies of all ghost cells that other patches cover, divided into pieces.
pub fn copy_boxes_of(list: &PatchList) -> Result<Vec<BlockCopy>> {
    let mut boxes = Vec::new();
    for copy in &list.copies {
        push_copy_boxes(copy, list, &mut boxes)?;
    }
    Ok(boxes)
}

/// A tile of 8^3 cells at the edge of its patch.
struct EdgeTile {
    patch: usize,
    cell: [usize; 3],
    /// For each side (west, east, south, north, bottom, top), the adjacent tile of another patch, and the side of that
    /// tile.
    neighbours: [Option<(usize, usize)>; 6],
}

/// Faces between tiles of different patches. A tile writes the values of a face to a buffer, and the adjacent tile
/// reads them in the next sweep. The ghost cells at this face are therefore neither written nor read between these two
/// sweeps. Faces are used with 7-point stencils, cuts without overlap, and blocks that sine transforms solve.
#[derive(Default)]
pub struct Faces {
    /// The `faces` word of an item (its sides with a partner, and from bit `FIRST_FACE_SHIFT` on the number of its
    /// first face), by patch and first cell.
    words: HashMap<(usize, [usize; 3]), u32>,
    /// For each face, the number of the adjacent face.
    pub partners: Vec<i32>,
}

impl Faces {
    /// Finds the pairs of faces of one cut. Two tiles of 8^3 cells in different patches form a pair if they touch in a
    /// plane and their first cells have the same indices in this plane. With 27-point stencils or `overlap`, there are
    /// none.
    pub fn new(patch_system: &PatchSystem, cut: &Cut, order: Order) -> Result<Self> {
        let list = &*patch_system.list;
        if patch_system.stencil.points != 7 || cut.overlap || list.copies.is_empty() {
            return Ok(Self::default());
        }
        let mut edges: Vec<EdgeTile> = Vec::new();
        // Faces for which no adjacent face has been found yet.
        let mut unmatched: HashMap<(usize, [i64; 3]), (usize, usize)> = HashMap::new();
        for (patch, own) in list.patches.iter().enumerate() {
            let along = |axis: usize| {
                let tiles = axis_tiles(cut, own, axis, false, order.is_single())?;
                collected(tiles.into_iter().filter(|t| t.length * t.count == TILE_SIDE).map(|t| t.cell), TILES)
            };
            let (xs, ys, zs) = (along(0)?, along(1)?, along(2)?);
            for cell in combinations(&xs, &ys, &zs) {
                let mut edge: Option<usize> = None;
                for side in 0..6 {
                    let (axis, high) = (side / 2, side % 2 == 1);
                    if cell[axis] != if high { own.size[axis].wrapping_sub(TILE_SIDE) } else { 0 } {
                        continue;
                    }
                    let mut cell_index = [0, 1, 2].map(|d| own.lower[d] + cell[d] as i64);
                    cell_index[axis] += if high { TILE_SIDE as i64 } else { 0 };
                    if edge.is_none() {
                        error::push(&mut edges, EdgeTile { patch, cell, neighbours: [None; 6] }, FACES)?;
                    }
                    let tile = *edge.get_or_insert(edges.len() - 1);
                    if let Some((other, other_side)) = unmatched.remove(&(axis, cell_index)) {
                        edges[tile].neighbours[side] = Some((other, other_side));
                        edges[other].neighbours[other_side] = Some((tile, side));
                    } else {
                        insert(&mut unmatched, (axis, cell_index), (tile, side), FACES)?;
                    }
                }
            }
        }
        // Faces are numbered in the order of the tiles, and for each tile in the order of its sides.
        let mut numbers: Vec<[i32; 6]> = zeroed(edges.len(), FACES)?;
        let (mut count, mut words) = (0, HashMap::new());
        for (edge, numbers) in edges.iter().zip(&mut numbers) {
            let first = count;
            let mut sides = 0;
            for side in (0..6).filter(|&side| edge.neighbours[side].is_some()) {
                (sides, numbers[side]) = (sides | 1 << side, count);
                count += 1;
            }
            if count >= 1 << (31 - FIRST_FACE_SHIFT) {
                return Err(Error::Dimension(format!("too many faces between patches for a device: {count}")));
            }
            if sides != 0 {
                insert(&mut words, (edge.patch, edge.cell), (first as u32) << FIRST_FACE_SHIFT | sides, FACES)?;
            }
        }
        let neighbours = edges.iter().flat_map(|edge| edge.neighbours.iter().flatten());
        Ok(Self { words, partners: collected(neighbours.map(|&(tile, side)| numbers[tile][side]), FACES)? })
    }

    fn of(&self, patch: usize, cell: [usize; 3]) -> u32 {
        self.words.get(&(patch, cell)).copied().unwrap_or(0)
    }

    /// Returns the copies of the ghost cells that no pair of faces covers, in pieces. The ghost cells that a sweep
    /// reads come first, and the number of these pieces is returned. Ghost cells at edges and corners, which no 7-point
    /// stencil reads, follow.
    pub fn remaining_copies(&self, list: &PatchList, cut: &Cut, order: Order) -> Result<(Vec<BlockCopy>, usize)> {
        let (mut needed, mut unread) = (Vec::new(), Vec::new());
        for copy in &list.copies {
            let to = &list.patches[copy.to];
            // The box is divided along each axis into the parts before, inside and behind the patch: 27 parts in total.
            for part in 0..27 {
                let mut cells = copy.cells;
                let mut sides = Vec::new();
                for axis in 0..3 {
                    let (lower, end) = (cells.lower[axis], cells.lower[axis] + cells.size[axis] as i64);
                    let (first, last) = (to.lower[axis], to.lower[axis] + to.size[axis] as i64);
                    let third = part / 3usize.pow(axis as u32) % 3;
                    let (from, until) = [(lower, first), (first, last), (last, end)][third];
                    (cells.lower[axis], cells.size[axis]) = (from.max(lower), 0);
                    cells.size[axis] = (until.min(end) - cells.lower[axis]).max(0) as usize;
                    if third != 1 {
                        error::push(&mut sides, 2 * axis + third / 2, FACES)?;
                    }
                }
                if cells.cells() == 0 {
                    continue;
                }
                let copy = GhostCopy { cells, ..*copy };
                match sides[..] {
                    [side] => self.push_unmatched_copies(&copy, list, (cut, order), side, &mut needed)?,
                    _ => push_copy_boxes(&copy, list, &mut unread)?,
                }
            }
        }
        let count = needed.len();
        extend(&mut needed, unread, COPIES)?;
        Ok((needed, count))
    }

    /// Adds to `out` the copies of those ghost cells beyond `side` whose adjacent tile has no partner on this side.
    fn push_unmatched_copies(
        &self,
        copy: &GhostCopy,
        list: &PatchList,
        (cut, order): (&Cut, Order),
        side: usize,
        out: &mut Vec<BlockCopy>,
    ) -> Result<()> {
        let (to, own) = (&list.patches[copy.to], &copy.cells);
        let axis = side / 2;
        let tiles_along = |d: usize| -> Result<Vec<AxisTile>> {
            let mut tiles = axis_tiles(cut, to, d, false, order.is_single())?;
            if d == axis {
                // Along this axis, only the tile at the edge of the patch is adjacent to these ghost cells.
                let at_edge = if side % 2 == 1 { tiles.len() - 1 } else { 0 };
                tiles.swap(0, at_edge);
                tiles.truncate(1);
            }
            Ok(tiles)
        };
        let (xs, ys, zs) = (tiles_along(0)?, tiles_along(1)?, tiles_along(2)?);
        let mut left = Vec::new();
        let mut all = true;
        for tile in combinations::<AxisTile>(&xs, &ys, &zs) {
            let mut part = *own;
            for d in (0..3).filter(|&d| d != axis) {
                let first = to.lower[d] + tile[d].cell as i64;
                let lower = first.max(own.lower[d]);
                let end = (first + (tile[d].length * tile[d].count) as i64).min(own.lower[d] + own.size[d] as i64);
                (part.lower[d], part.size[d]) = (lower, (end - lower).max(0) as usize);
            }
            if part.cells() == 0 {
                continue;
            }
            if self.of(copy.to, tile.map(|t| t.cell)) >> side & 1 == 1 {
                all = false;
            } else {
                error::push(&mut left, part, COPIES)?;
            }
        }
        if all {
            return push_copy_boxes(copy, list, out);
        }
        left.into_iter().try_for_each(|cells| push_copy_boxes(&GhostCopy { cells, ..*copy }, list, out))
    }
}

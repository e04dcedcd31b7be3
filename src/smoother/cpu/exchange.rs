//! Exchange of ghost cells between patches within a fused coloured sweep.
//!
//! A ghost cell has 8 bytes, but each ghost cell at an end of a row of cells is on a cache line of its own. An exchange
//! before the sweep moves 192 bytes per such cell: it reads one line, and reads and writes another line. For a patch of
//! 64^3 cells, this is 25 % of the memory traffic of a sweep.
//!
//! When the values of a row of blocks are final, those that other patches need are therefore copied to a buffer, in the
//! order of the copy plan. In the next sweep, directly before a row of blocks is relaxed, its ghost cells are filled
//! from this buffer. During both copies, the row is in the cache. Two buffers alternate from sweep to sweep, since the
//! patches are swept at different times. Every ghost cell receives the value that an exchange before the sweep would
//! copy.

use crate::base::shared::Shared;
use crate::error::{Result, zeroed};
use crate::smoother::patches::{BlockPartition, Patch, PatchList};

/// The values of a box that is one cell wide in x are stored in groups of this number of planes (see
/// `GhostBuffers::copy_box`). The number is the largest number of planes of a block.
const PLANES_PER_GROUP: usize = 8;

/// Largest number of boxes of the copy plan per patch for the exchange within the sweep. For each row of blocks at an
/// edge of a patch, all boxes of the patch are scanned. With more boxes, the scan would take too long, so ghost cells
/// are exchanged before the sweep.
const MAX_BOXES: usize = 256;

/// The two buffers of the exchange (`buffers`), and the boxes of the copy plan in two orders: by the patch that is
/// written (`target_boxes`), and by the patch that is read (`source_boxes`).
pub struct GhostBuffers {
    target_boxes: CopyBoxes,
    source_boxes: CopyBoxes,
    buffers: [Shared; 2],
}

/// Boxes of the copy plan, sorted by one of their two patches. Within a patch, the boxes that only the outer rows of
/// blocks (those at an edge of the patch in y or z) need are stored last.
struct CopyBoxes {
    boxes: Vec<CopyBox>,
    /// The boxes of patch p are `first_box[p] .. first_box[p + 1]`.
    first_box: Vec<usize>,
    /// Inner rows of blocks scan only the boxes `first_box[p] .. inner_end[p]`.
    inner_end: Vec<usize>,
}

/// A box of `size` cells, whose first cell has the index `lower` relative to the patch.
#[derive(Clone, Copy, Default)]
struct CopyBox {
    lower: [i64; 3],
    size: [usize; 3],
    /// Index of the first value in the buffer.
    start: usize,
}

/// Direction of a copy: `ToBuffer` from the patch to the buffer, `FromBuffer` from the buffer to the ghost cells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToBuffer,
    FromBuffer,
}

/// Cells of a patch in the rows y.0 .. y.1 and the planes z.0 .. z.1. The ends y.1 and z.1 are exclusive.
#[derive(Clone, Copy)]
struct Band {
    y: (i64, i64),
    z: (i64, i64),
}

impl CopyBoxes {
    /// Sorts the boxes of the copy plan by the patch that `patch_of_copy` returns for the number of a copy: the patch
    /// that is written (`target_boxes`) or read (`source_boxes`).
    fn new(patch_list: &PatchList, patch_of_copy: impl Fn(usize) -> usize) -> Result<Self> {
        let patches = patch_list.patches.len();
        let mut first_box: Vec<usize> = zeroed(patches + 1, "ghost cells")?;
        for c in 0..patch_list.ghost_copies.len() {
            first_box[patch_of_copy(c) + 1] += 1;
        }
        for p in 0..patches {
            first_box[p + 1] += first_box[p];
        }
        let mut inner_end: Vec<usize> = zeroed(patches, "ghost cells")?;
        inner_end.copy_from_slice(&first_box[..patches]);
        let mut outer_start: Vec<usize> = zeroed(patches, "ghost cells")?;
        outer_start.copy_from_slice(&first_box[1..]);
        let mut boxes: Vec<CopyBox> = zeroed(patch_list.ghost_copies.len(), "ghost cells")?;
        let mut start = 0;
        for (c, copy) in patch_list.ghost_copies.iter().enumerate() {
            let (p, Patch { lower, size }) = (patch_of_copy(c), copy.cell_box);
            let patch = &patch_list.patches[p];
            let lower = [0, 1, 2].map(|d| lower[d] - patch.lower[d]);
            let is_at_edge = |d: usize| lower[d] + size[d] as i64 <= 1 || lower[d] >= patch.size[d] as i64 - 1;
            let index = if is_at_edge(1) || is_at_edge(2) {
                outer_start[p] -= 1;
                outer_start[p]
            } else {
                inner_end[p] += 1;
                inner_end[p] - 1
            };
            boxes[index] = CopyBox { lower, size, start };
            start += copy.cell_box.cell_count();
        }
        Ok(Self { boxes, first_box, inner_end })
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.boxes[..]) + (self.first_box.len() + self.inner_end.len()) * size_of::<usize>()
    }
}

impl GhostBuffers {
    /// Builds the boxes for the copy plan of `patch_list`. The buffers of `previous` are reused if they are large
    /// enough.
    pub fn new(patch_list: &PatchList, previous: Option<Self>) -> Result<Self> {
        let target_boxes = CopyBoxes::new(patch_list, |c| patch_list.ghost_copies[c].target_patch)?;
        let source_boxes = CopyBoxes::new(patch_list, |c| patch_list.ghost_copies[c].source_patch)?;
        let len = patch_list.ghost_copies.iter().map(|c| c.cell_box.cell_count()).sum();
        let buffers = match previous {
            Some(previous) if previous.buffers[0].len() >= len => previous.buffers,
            previous => {
                // Frees the old buffers before the new ones are allocated.
                drop(previous);
                [Shared::zeroed(len)?, Shared::zeroed(len)?]
            }
        };
        Ok(Self { target_boxes, source_boxes, buffers })
    }

    /// Returns whether the exchange within the sweep can be used: no patch has more than `MAX_BOXES` boxes.
    pub fn is_usable(&self) -> bool {
        [&self.target_boxes, &self.source_boxes]
            .iter()
            .all(|boxes| boxes.first_box.windows(2).all(|pair| pair[1] - pair[0] <= MAX_BOXES))
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.target_boxes.bytes() + self.source_boxes.bytes() + self.buffers.iter().map(Shared::bytes).sum::<usize>()
    }

    /// Copies to the buffer `buffer_index` all values of patch `patch_index` that other patches need.
    ///
    /// # Safety
    /// `u` is the array of this patch. No other thread writes these cells, or accesses their values in the buffer
    /// `buffer_index`.
    pub unsafe fn store_patch(&self, patch_list: &PatchList, patch_index: usize, buffer_index: usize, u: *mut f64) {
        let whole_patch = Band { y: (i64::MIN, i64::MAX), z: (i64::MIN, i64::MAX) };
        for copy_box in &self.source_boxes.boxes
            [self.source_boxes.first_box[patch_index]..self.source_boxes.first_box[patch_index + 1]]
        {
            // SAFETY: the caller guarantees exclusive access to these values; the boxes are in patch `patch_index`.
            unsafe {
                self.copy_box(
                    copy_box,
                    &patch_list.patches[patch_index],
                    whole_patch,
                    buffer_index,
                    u,
                    Direction::ToBuffer,
                )
            };
        }
    }

    /// Copies values for row of blocks number `row` of patch `patch_index`. `Direction::ToBuffer`: copies to the buffer
    /// `buffer_index` those values of the row that other patches need. `Direction::FromBuffer`: copies from this buffer
    /// the values of the ghost cells that the row reads.
    ///
    /// # Safety
    /// `u` is the array of this patch. `Direction::ToBuffer`: the conditions of `store_patch` hold for the cells of
    /// this row. `Direction::FromBuffer`: no other thread accesses the ghost cells of this row or writes the buffer
    /// `buffer_index`.
    pub unsafe fn copy_row(
        &self,
        patch_list: &PatchList,
        partition: &BlockPartition,
        (patch_index, row): (usize, usize),
        buffer_index: usize,
        u: *mut f64,
        direction: Direction,
    ) {
        let boxes = if direction == Direction::ToBuffer { &self.source_boxes } else { &self.target_boxes };
        let patch = &patch_list.patches[patch_index];
        let (first_box, end_box, inner_end) =
            (boxes.first_box[patch_index], boxes.first_box[patch_index + 1], boxes.inner_end[patch_index]);
        if first_box == end_box {
            return;
        }
        let (rows_per_slab, slab_count) = (partition.block_range(patch, 1).1, partition.block_range(patch, 2).1);
        let (jb, kb) = (row % rows_per_slab, row / rows_per_slab);
        // A row of blocks at the edge of the patch also includes the adjacent ghost cells.
        let band_along = |axis: usize, block: usize, block_count: usize| {
            let segment = partition.segment(patch, axis, block);
            let (start, end) = (segment.start as i64, (segment.start + segment.len) as i64);
            (start - i64::from(block == 0), end + i64::from(block + 1 == block_count))
        };
        let band = Band { y: band_along(1, jb, rows_per_slab), z: band_along(2, kb, slab_count) };
        let is_inner = jb > 0 && jb + 1 < rows_per_slab && kb > 0 && kb + 1 < slab_count;
        for copy_box in &boxes.boxes[first_box..if is_inner { inner_end } else { end_box }] {
            // SAFETY: guaranteed by the caller.
            unsafe { self.copy_box(copy_box, patch, band, buffer_index, u, direction) };
        }
    }

    /// Copies those cells of a box that are in `band` between `u` and the buffer `buffer_index`.
    ///
    /// # Safety
    /// The conditions of `copy_row` hold.
    #[inline(always)]
    unsafe fn copy_box(
        &self,
        copy_box: &CopyBox,
        patch: &Patch,
        band: Band,
        buffer_index: usize,
        u: *mut f64,
        direction: Direction,
    ) {
        let (CopyBox { lower: [x, y, z], size: [nx, ny, nz], start }, Band { y: rows, z: planes }) = (*copy_box, band);
        let rows = (y.max(rows.0), (y + ny as i64).min(rows.1));
        let planes = (z.max(planes.0), (z + nz as i64).min(planes.1));
        if rows.0 >= rows.1 || planes.0 >= planes.1 {
            return;
        }
        let (row, plane) = patch.strides();
        let (count, first_row) = ((rows.1 - rows.0) as usize, (rows.0 - y) as usize);
        let values = self.buffers[buffer_index].address(start, nx * ny * nz);
        for k in planes.0..planes.1 {
            let index = (k + 1) as usize * plane + (rows.0 + 1) as usize * row + (x + 1) as usize;
            let k = (k - z) as usize;
            // A box that is one cell wide is stored in groups of `PLANES_PER_GROUP` planes. Within a group, z is the
            // fastest index, then y. If the blocks are `PLANES_PER_GROUP` planes deep and begin with a group, the
            // values of a row of blocks are therefore contiguous, and the values of the next row follow.
            let (start, stride) = if nx == 1 {
                let group_planes = (nz - k / PLANES_PER_GROUP * PLANES_PER_GROUP).min(PLANES_PER_GROUP);
                (
                    k / PLANES_PER_GROUP * PLANES_PER_GROUP * ny + k % PLANES_PER_GROUP + first_row * group_planes,
                    group_planes,
                )
            } else {
                ((k * ny + first_row) * nx, nx)
            };
            // SAFETY: the rows of the box are in the patch or its ghost layer, and the caller guarantees access.
            let (u, values) = unsafe { (u.add(index), values.add(start)) };
            for j in 0..count {
                // SAFETY: j < count, so the row belongs to the box.
                unsafe {
                    let (u, value) = (u.add(j * row), values.add(j * stride));
                    match (direction, nx) {
                        // A call of `copy_nonoverlapping` would take longer than copying one value.
                        (Direction::ToBuffer, 1) => *value = *u,
                        (Direction::FromBuffer, 1) => *u = *value,
                        (Direction::ToBuffer, _) => std::ptr::copy_nonoverlapping(u.cast_const(), value, nx),
                        (Direction::FromBuffer, _) => std::ptr::copy_nonoverlapping(value.cast_const(), u, nx),
                    }
                }
            }
        }
    }
}

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
use crate::smoother::patches::{Cut, Patch, PatchList};

/// The values of a box that is one cell wide in x are stored in groups of this number of planes (see
/// `GhostBuffers::copy_box`). The number is the largest number of planes of a block.
const PLANES_PER_GROUP: usize = 8;

/// Largest number of boxes per patch for the exchange within the sweep, because an outer row of blocks scans all
/// boxes of its patch. If a patch has more boxes, the exchange before the sweep is used.
const MOST_BOXES: usize = 256;

/// The two buffers of the exchange (`values`), and the boxes of the copy plan in two orders: by the patch that is
/// written (`to`), and by the patch that is read (`from`).
pub struct GhostBuffers {
    to: CopyBoxes,
    from: CopyBoxes,
    values: [Shared; 2],
}

/// Boxes of the copy plan, sorted by one of their two patches. Within a patch, the boxes that only the outer rows of
/// blocks (those at an edge of the patch in y or z) need are stored last.
struct CopyBoxes {
    all: Vec<CopyBox>,
    /// The boxes of patch p are `first[p] .. first[p + 1]`.
    first: Vec<usize>,
    /// Inner rows of blocks scan only the boxes `first[p] .. inner_end[p]`.
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

/// Direction of a copy: `Out` from the patch to the buffer, `In` from the buffer to the ghost cells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Out,
    In,
}

/// Cells of a patch in the rows y.0 .. y.1 and the planes z.0 .. z.1; the end is exclusive.
#[derive(Clone, Copy)]
struct Band {
    y: (i64, i64),
    z: (i64, i64),
}

impl CopyBoxes {
    /// Sorts the boxes of the copy plan; `side` returns the patch of a copy.
    fn new(list: &PatchList, side: impl Fn(usize) -> usize) -> Result<Self> {
        let patches = list.patches.len();
        let mut first: Vec<usize> = zeroed(patches + 1, "ghost cells")?;
        for c in 0..list.copies.len() {
            first[side(c) + 1] += 1;
        }
        for p in 0..patches {
            first[p + 1] += first[p];
        }
        let mut inner_end: Vec<usize> = zeroed(patches, "ghost cells")?;
        inner_end.copy_from_slice(&first[..patches]);
        let mut outer: Vec<usize> = zeroed(patches, "ghost cells")?;
        outer.copy_from_slice(&first[1..]);
        let mut all: Vec<CopyBox> = zeroed(list.copies.len(), "ghost cells")?;
        let mut start = 0;
        for (c, copy) in list.copies.iter().enumerate() {
            let (p, Patch { lower, size }) = (side(c), copy.cells);
            let patch = &list.patches[p];
            let lower = [0, 1, 2].map(|d| lower[d] - patch.lower[d]);
            let at_edge = |d: usize| lower[d] + size[d] as i64 <= 1 || lower[d] >= patch.size[d] as i64 - 1;
            let index = if at_edge(1) || at_edge(2) {
                outer[p] -= 1;
                outer[p]
            } else {
                inner_end[p] += 1;
                inner_end[p] - 1
            };
            all[index] = CopyBox { lower, size, start };
            start += copy.cells.cells();
        }
        Ok(Self { all, first, inner_end })
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.all[..]) + (self.first.len() + self.inner_end.len()) * size_of::<usize>()
    }
}

impl GhostBuffers {
    /// Builds the boxes for the copy plan of `list`. The buffers of `old` are reused if they are large enough.
    pub fn new(list: &PatchList, old: Option<Self>) -> Result<Self> {
        let to = CopyBoxes::new(list, |c| list.copies[c].to)?;
        let from = CopyBoxes::new(list, |c| list.copies[c].from)?;
        let len = list.copies.iter().map(|c| c.cells.cells()).sum();
        let values = match old {
            Some(old) if old.values[0].len() >= len => old.values,
            old => {
                // Frees the old buffers before the new ones are allocated.
                drop(old);
                [Shared::zeroed(len)?, Shared::zeroed(len)?]
            }
        };
        Ok(Self { to, from, values })
    }

    /// Returns whether the exchange within the sweep can be used: no patch has more than `MOST_BOXES` boxes.
    pub fn is_usable(&self) -> bool {
        [&self.to, &self.from].iter().all(|p| p.first.windows(2).all(|w| w[1] - w[0] <= MOST_BOXES))
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.to.bytes() + self.from.bytes() + self.values.iter().map(Shared::bytes).sum::<usize>()
    }

    /// Copies to the buffer `which` all values of patch p that other patches need.
    ///
    /// # Safety
    /// `u` is the array of patch p. No other thread writes these cells, or accesses their values in the buffer `which`.
    pub unsafe fn store_patch(&self, list: &PatchList, p: usize, which: usize, u: *mut f64) {
        let all = Band { y: (i64::MIN, i64::MAX), z: (i64::MIN, i64::MAX) };
        for copy_box in &self.from.all[self.from.first[p]..self.from.first[p + 1]] {
            // SAFETY: the caller guarantees exclusive access to these values; the boxes are in patch p.
            unsafe { self.copy_box(copy_box, &list.patches[p], all, which, u, Direction::Out) };
        }
    }

    /// `Direction::Out`: copies to the buffer `which` the values of a row of blocks of patch p that other patches need.
    /// `Direction::In`: copies from this buffer the values of the ghost cells that the row reads.
    ///
    /// # Safety
    /// `u` is the array of patch p. `Direction::Out`: the conditions of `store_patch` hold for the cells of this row.
    /// `Direction::In`: no other thread accesses the ghost cells of this row or writes the buffer `which`.
    pub unsafe fn copy_row(
        &self,
        list: &PatchList,
        cut: &Cut,
        (p, row): (usize, usize),
        which: usize,
        u: *mut f64,
        direction: Direction,
    ) {
        let boxes = if direction == Direction::Out { &self.from } else { &self.to };
        let patch = &list.patches[p];
        let (first, end, inner_end) = (boxes.first[p], boxes.first[p + 1], boxes.inner_end[p]);
        if first == end {
            return;
        }
        let (in_slab, slabs) = (cut.block_range(patch, 1).1, cut.block_range(patch, 2).1);
        let (jb, kb) = (row % in_slab, row / in_slab);
        // A row of blocks at the edge of the patch also includes the adjacent ghost cells.
        let along = |axis: usize, m: usize, count: usize| {
            let segment = cut.segment(patch, axis, m);
            let (start, end) = (segment.start as i64, (segment.start + segment.len) as i64);
            (start - i64::from(m == 0), end + i64::from(m + 1 == count))
        };
        let band = Band { y: along(1, jb, in_slab), z: along(2, kb, slabs) };
        let is_inner = jb > 0 && jb + 1 < in_slab && kb > 0 && kb + 1 < slabs;
        for copy_box in &boxes.all[first..if is_inner { inner_end } else { end }] {
            // SAFETY: guaranteed by the caller.
            unsafe { self.copy_box(copy_box, patch, band, which, u, direction) };
        }
    }

    /// Copies between `u` and the buffer `which`: the cells of a box that are in the band.
    ///
    /// # Safety
    /// The conditions of `copy_row` hold.
    #[inline(always)]
    unsafe fn copy_box(
        &self,
        copy_box: &CopyBox,
        patch: &Patch,
        band: Band,
        which: usize,
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
        let (count, first) = ((rows.1 - rows.0) as usize, (rows.0 - y) as usize);
        let values = self.values[which].address(start, nx * ny * nz);
        for k in planes.0..planes.1 {
            let index = (k + 1) as usize * plane + (rows.0 + 1) as usize * row + (x + 1) as usize;
            let k = (k - z) as usize;
            // A box that is one cell wide is stored in groups of `PLANES_PER_GROUP` planes. Within a group, z is the
            // fastest index, then y. If the blocks are `PLANES_PER_GROUP` planes deep and begin with a group, the
            // values of a row of blocks are therefore contiguous, and the values of the next row follow.
            let (start, stride) = if nx == 1 {
                let deep = (nz - k / PLANES_PER_GROUP * PLANES_PER_GROUP).min(PLANES_PER_GROUP);
                (k / PLANES_PER_GROUP * PLANES_PER_GROUP * ny + k % PLANES_PER_GROUP + first * deep, deep)
            } else {
                ((k * ny + first) * nx, nx)
            };
            // SAFETY: the rows of the box are in the patch or its ghost layer, and the caller guarantees access.
            let (u, values) = unsafe { (u.add(index), values.add(start)) };
            for j in 0..count {
                // SAFETY: j < count, so the row belongs to the box.
                unsafe {
                    let (u, value) = (u.add(j * row), values.add(j * stride));
                    match (direction, nx) {
                        // A call of `copy_nonoverlapping` would take longer than copying one value.
                        (Direction::Out, 1) => *value = *u,
                        (Direction::In, 1) => *u = *value,
                        (Direction::Out, _) => std::ptr::copy_nonoverlapping(u.cast_const(), value, nx),
                        (Direction::In, _) => std::ptr::copy_nonoverlapping(value.cast_const(), u, nx),
                    }
                }
            }
        }
    }
}

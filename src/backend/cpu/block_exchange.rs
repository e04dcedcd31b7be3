//! Ghost cells handed from patch to patch in passing.
//!
//! Ghost cells take 8 bytes each, but those at the ends of rows lie on lines of their own: an exchange of its own moves 192
//! bytes for each, a quarter of what a sweep of 64^3 cells takes. So a row of blocks whose values are final puts those that
//! other patches see into an array in the order of the copy plan, and a row that is about to be relaxed fills its ghost
//! cells from there: both while its lines are in the cache. Two such arrays take turns, since patches are swept at
//! different times. Every ghost cell gets the same values as by an exchange before the sweep.

use super::area::Shared;
use crate::error::{Result, zeroed};
use crate::grid::patches::{Cut, GhostCopy, Patch, PatchList};
use std::ops::Range;

/// The values on their way, and who has which.
pub struct Handover {
    /// Where the values of each copy of the plan begin.
    starts: Vec<usize>,
    /// The copies that write patch p are `to[p] .. to[p + 1]`: the plan is sorted by them.
    to: Vec<usize>,
    /// Those that read it are `readers[from[p] .. from[p + 1]]`.
    from: Vec<usize>,
    readers: Vec<usize>,
    values: [Shared; 2],
}

/// Planes of single ghost cells that are kept together: those of a block.
const LAYER: usize = 8;

/// Rows and planes of a patch, counted from its first own ones.
struct Band {
    y: Range<i64>,
    z: Range<i64>,
}

impl Handover {
    /// For the plan of this list; `old`: its memory serves again where it suffices.
    pub fn new(list: &PatchList, old: Option<Self>) -> Result<Self> {
        let (patches, copies) = (list.patches.len(), &list.copies);
        let mut starts: Vec<usize> = zeroed(copies.len(), "ghost cells")?;
        let mut to: Vec<usize> = zeroed(patches + 1, "ghost cells")?;
        let mut from: Vec<usize> = zeroed(patches + 1, "ghost cells")?;
        let mut len = 0;
        for (start, copy) in starts.iter_mut().zip(copies) {
            *start = len;
            len += copy.cells.cells();
            to[copy.to + 1] += 1;
            from[copy.from + 1] += 1;
        }
        for p in 0..patches {
            to[p + 1] += to[p];
            from[p + 1] += from[p];
        }
        let mut readers: Vec<usize> = zeroed(copies.len(), "ghost cells")?;
        let mut next = from.clone();
        for (c, copy) in copies.iter().enumerate() {
            readers[next[copy.from]] = c;
            next[copy.from] += 1;
        }
        let values = match old {
            Some(old) if old.values[0].len() >= len => old.values,
            old => {
                // Its memory first.
                drop(old);
                [Shared::zeroed(len)?, Shared::zeroed(len)?]
            }
        };
        Ok(Self { starts, to, from, readers, values })
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        let places = self.starts.len() + self.to.len() + self.from.len() + self.readers.len();
        self.values.iter().map(Shared::bytes).sum::<usize>() + places * size_of::<usize>()
    }

    /// Takes what copy `c` reads into the array `which`.
    ///
    /// # Safety
    /// `u` is the array of the patch that the copy reads; nobody writes these cells, nobody else uses this copy's values
    /// in that array.
    pub unsafe fn collect(&self, list: &PatchList, c: usize, which: usize, u: *mut f64) {
        let copy = &list.copies[c];
        let all = Band { y: i64::MIN..i64::MAX, z: i64::MIN..i64::MAX };
        // SAFETY: as our caller promised.
        unsafe { self.part::<true>(copy, c, &list.patches[copy.from], &all, which, u) };
    }

    /// Takes what other patches see of a row of blocks of patch p.
    ///
    /// # Safety
    /// As for `collect`, for the cells of this row.
    pub unsafe fn give(&self, list: &PatchList, cut: &Cut, p: usize, row: usize, which: usize, u: *mut f64) {
        let patch = &list.patches[p];
        let band = band(cut, patch, row, 0);
        for &c in &self.readers[self.from[p]..self.from[p + 1]] {
            // SAFETY: as our caller promised.
            unsafe { self.part::<true>(&list.copies[c], c, patch, &band, which, u) };
        }
    }

    /// Fills the ghost cells that a row of blocks of patch p reads.
    ///
    /// # Safety
    /// `u` is the patch's array; nobody else uses the ghost cells beside this row; nobody writes the array `which`.
    pub unsafe fn take(&self, list: &PatchList, cut: &Cut, p: usize, row: usize, which: usize, u: *mut f64) {
        let patch = &list.patches[p];
        let band = band(cut, patch, row, 1);
        for c in self.to[p]..self.to[p + 1] {
            // SAFETY: as our caller promised.
            unsafe { self.part::<false>(&list.copies[c], c, patch, &band, which, u) };
        }
    }

    /// The cells of a copy that lie in a band of the patch: from u into the array, or back.
    ///
    /// # Safety
    /// As for `give` and `take`.
    unsafe fn part<const OUT: bool>(
        &self,
        copy: &GhostCopy,
        c: usize,
        patch: &Patch,
        band: &Band,
        which: usize,
        u: *mut f64,
    ) {
        let Patch { lower, size: [nx, ny, nz] } = copy.cells;
        let [x, y, z] = [0, 1, 2].map(|d| lower[d] - patch.lower[d]);
        let rows = y.max(band.y.start)..(y + ny as i64).min(band.y.end);
        let planes = z.max(band.z.start)..(z + nz as i64).min(band.z.end);
        if rows.is_empty() || planes.is_empty() {
            return;
        }
        let (row, plane) = patch.strides();
        let (count, first) = ((rows.end - rows.start) as usize, (rows.start - y) as usize);
        // SAFETY: the values of this copy; as our caller promised.
        let values = unsafe { self.values[which].slice_mut(self.starts[c], nx * ny * nz) }.as_mut_ptr();
        for k in planes {
            let place = (k + 1) as usize * plane + (rows.start + 1) as usize * row + (x + 1) as usize;
            let k = (k - z) as usize;
            // Single cells go in layers of eight planes, row after row, so that those of a row of blocks, and of the next, lie
            // one after the other.
            let (start, step) = if nx == 1 {
                let deep = (nz - k / LAYER * LAYER).min(LAYER);
                (k / LAYER * LAYER * ny + k % LAYER + first * deep, deep)
            } else {
                ((k * ny + first) * nx, nx)
            };
            // SAFETY: rows of the copy, which lie in the patch with its ghost layer; as our caller promised.
            let (u, values) = unsafe { (u.add(place), values.add(start)) };
            for j in 0..count {
                // SAFETY: as above.
                unsafe {
                    let (u, value) = (u.add(j * row), values.add(j * step));
                    match (OUT, nx) {
                        // Calls would take longer than the copy.
                        (true, 1) => *value = *u,
                        (false, 1) => *u = *value,
                        (true, _) => std::ptr::copy_nonoverlapping(u.cast_const(), value, nx),
                        (false, _) => std::ptr::copy_nonoverlapping(value.cast_const(), u, nx),
                    }
                }
            }
        }
    }
}

/// Cells of a row of blocks; the patch's first and last ones have `ghosts` more rows and planes outside of it.
fn band(cut: &Cut, patch: &Patch, row: usize, ghosts: i64) -> Band {
    let (slabs, in_slab) = (cut.range(patch, 2).1, cut.range(patch, 1).1);
    let along = |axis: usize, m: usize, count: usize| {
        let segment = cut.segment(patch, axis, m);
        let (start, end) = (segment.start as i64, (segment.start + segment.len) as i64);
        let outside = |at: bool| if at { ghosts } else { 0 };
        start - outside(m == 0)..end + outside(m + 1 == count)
    };
    Band { y: along(1, row % in_slab, in_slab), z: along(2, row / in_slab, slabs) }
}

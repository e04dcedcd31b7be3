//! Ghost cells handed from patch to patch in passing.
//!
//! Ghost cells take 8 bytes each, but those at the ends of rows lie on lines of their own: an exchange of its own moves
//! 192 bytes for each, a quarter of what a sweep of 64^3 cells takes. So a row of blocks whose values are final puts
//! those that other patches see into an array in the order of the copy plan, and a row that is about to be relaxed
//! fills its ghost cells from there: both while its lines are in the cache. Two such arrays take turns, since patches
//! are swept at different times. Every ghost cell gets the same values as by an exchange before the sweep.

use crate::error::{Result, zeroed};
use crate::grid::patches::{Cut, Patch, PatchList};
use crate::runtime::shared::Shared;

/// Planes of single ghost cells that are kept together: those of a block.
const LAYER: usize = 8;

/// Rows of blocks look at all pieces beside them: a patch with so many neighbours has an exchange of its own.
const MOST_PIECES: usize = 256;

/// The values on their way, and who has which.
pub struct Handover {
    to: Pieces,
    from: Pieces,
    values: [Shared; 2],
}

/// Boxes of the copy plan in the patches that are written, or in those that are read, patch after patch. Where a patch
/// has several, those that its inner rows of blocks know nothing of come last.
struct Pieces {
    all: Vec<Piece>,
    /// Patch p has `first[p] .. first[p + 1]`,
    first: Vec<usize>,
    /// of which inner rows look at `first[p] .. inner[p]`.
    inner: Vec<usize>,
}

/// A box: `size` cells from the patch's cell `lower` on.
#[derive(Clone, Copy, Default)]
struct Piece {
    lower: [i64; 3],
    size: [usize; 3],
    /// Where its values begin.
    start: usize,
}

/// What becomes of the cells of a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

/// Cells of a patch: rows y.0 .. y.1 of planes z.0 .. z.1.
#[derive(Clone, Copy)]
struct Band {
    y: (i64, i64),
    z: (i64, i64),
}

impl Pieces {
    fn new(list: &PatchList, side: impl Fn(usize) -> usize) -> Result<Self> {
        let patches = list.patches.len();
        let mut first: Vec<usize> = zeroed(patches + 1, "ghost cells")?;
        for c in 0..list.copies.len() {
            first[side(c) + 1] += 1;
        }
        for p in 0..patches {
            first[p + 1] += first[p];
        }
        let mut inner: Vec<usize> = zeroed(patches, "ghost cells")?;
        inner.copy_from_slice(&first[..patches]);
        let mut outer: Vec<usize> = zeroed(patches, "ghost cells")?;
        outer.copy_from_slice(&first[1..]);
        let mut all: Vec<Piece> = zeroed(list.copies.len(), "ghost cells")?;
        let mut start = 0;
        for (c, copy) in list.copies.iter().enumerate() {
            let (p, Patch { lower, size }) = (side(c), copy.cells);
            let patch = &list.patches[p];
            let lower = [0, 1, 2].map(|d| lower[d] - patch.lower[d]);
            let at_edge = |d: usize| lower[d] + size[d] as i64 <= 1 || lower[d] >= patch.size[d] as i64 - 1;
            let place = if at_edge(1) || at_edge(2) {
                outer[p] -= 1;
                outer[p]
            } else {
                inner[p] += 1;
                inner[p] - 1
            };
            all[place] = Piece { lower, size, start };
            start += copy.cells.cells();
        }
        Ok(Self { all, first, inner })
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.all[..]) + (self.first.len() + self.inner.len()) * size_of::<usize>()
    }
}

impl Handover {
    /// For the plan of this list; `old`: its memory serves again where it suffices.
    pub fn new(list: &PatchList, old: Option<Self>) -> Result<Self> {
        let to = Pieces::new(list, |c| list.copies[c].to)?;
        let from = Pieces::new(list, |c| list.copies[c].from)?;
        let len = list.copies.iter().map(|c| c.cells.cells()).sum();
        let values = match old {
            Some(old) if old.values[0].len() >= len => old.values,
            old => {
                // Its memory first.
                drop(old);
                [Shared::zeroed(len)?, Shared::zeroed(len)?]
            }
        };
        Ok(Self { to, from, values })
    }

    /// Whether ghost cells may be passed on in the sweep.
    pub fn serves(&self) -> bool {
        [&self.to, &self.from].iter().all(|p| p.first.windows(2).all(|w| w[1] - w[0] <= MOST_PIECES))
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.to.bytes() + self.from.bytes() + self.values.iter().map(Shared::bytes).sum::<usize>()
    }

    /// Takes all that others see of patch p.
    ///
    /// # Safety
    /// `u` is the patch's array; nobody writes these cells, or uses their values in the array `which`.
    pub unsafe fn collect(&self, list: &PatchList, p: usize, which: usize, u: *mut f64) {
        let all = Band { y: (i64::MIN, i64::MAX), z: (i64::MIN, i64::MAX) };
        for piece in &self.from.all[self.from.first[p]..self.from.first[p + 1]] {
            // SAFETY: as our caller promised.
            unsafe { self.copy(piece, &list.patches[p], all, which, u, Way::Out) };
        }
    }

    /// Takes what others see of a row of blocks of patch p.
    ///
    /// # Safety
    /// As for `collect`, for the cells of this row.
    pub unsafe fn give(&self, list: &PatchList, cut: &Cut, p: usize, row: usize, which: usize, u: *mut f64) {
        // SAFETY: as our caller promised.
        unsafe { self.row(&self.from, list, cut, (p, row), which, u, Way::Out) };
    }

    /// Fills the ghost cells that a row of blocks of patch p reads.
    ///
    /// # Safety
    /// `u` is the patch's array; nobody else uses the ghost cells beside this row; nobody writes the array `which`.
    pub unsafe fn take(&self, list: &PatchList, cut: &Cut, p: usize, row: usize, which: usize, u: *mut f64) {
        // SAFETY: as our caller promised.
        unsafe { self.row(&self.to, list, cut, (p, row), which, u, Way::In) };
    }

    /// # Safety
    /// As for `give` and `take`.
    #[expect(clippy::too_many_arguments, reason = "the two above, which distinguish them")]
    unsafe fn row(
        &self,
        pieces: &Pieces,
        list: &PatchList,
        cut: &Cut,
        (p, row): (usize, usize),
        which: usize,
        u: *mut f64,
        way: Way,
    ) {
        let patch = &list.patches[p];
        let (first, end, inner) = (pieces.first[p], pieces.first[p + 1], pieces.inner[p]);
        if first == end {
            return;
        }
        let (in_slab, slabs) = (cut.range(patch, 1).1, cut.range(patch, 2).1);
        let (jb, kb) = (row % in_slab, row / in_slab);
        // Rows of blocks at the edge have the ghost cells beyond.
        let along = |axis: usize, m: usize, count: usize| {
            let segment = cut.segment(patch, axis, m);
            let (start, end) = (segment.start as i64, (segment.start + segment.len) as i64);
            (start - i64::from(m == 0), end + i64::from(m + 1 == count))
        };
        let band = Band { y: along(1, jb, in_slab), z: along(2, kb, slabs) };
        let is_inner = jb > 0 && jb + 1 < in_slab && kb > 0 && kb + 1 < slabs;
        for piece in &pieces.all[first..if is_inner { inner } else { end }] {
            // SAFETY: as our caller promised.
            unsafe { self.copy(piece, patch, band, which, u, way) };
        }
    }

    /// The cells of a piece that lie in the band.
    ///
    /// # Safety
    /// As for `give` and `take`.
    #[inline(always)]
    unsafe fn copy(&self, piece: &Piece, patch: &Patch, band: Band, which: usize, u: *mut f64, way: Way) {
        let (Piece { lower: [x, y, z], size: [nx, ny, nz], start }, Band { y: rows, z: planes }) = (*piece, band);
        let rows = (y.max(rows.0), (y + ny as i64).min(rows.1));
        let planes = (z.max(planes.0), (z + nz as i64).min(planes.1));
        if rows.0 >= rows.1 || planes.0 >= planes.1 {
            return;
        }
        let (row, plane) = patch.strides();
        let (count, first) = ((rows.1 - rows.0) as usize, (rows.0 - y) as usize);
        let values = self.values[which].address(start, nx * ny * nz);
        for k in planes.0..planes.1 {
            let place = (k + 1) as usize * plane + (rows.0 + 1) as usize * row + (x + 1) as usize;
            let k = (k - z) as usize;
            // Single cells go in layers of eight planes, row after row, so that those of a row of blocks, and of the
            // next, lie one after the other.
            let (start, step) = if nx == 1 {
                let deep = (nz - k / LAYER * LAYER).min(LAYER);
                (k / LAYER * LAYER * ny + k % LAYER + first * deep, deep)
            } else {
                ((k * ny + first) * nx, nx)
            };
            // SAFETY: rows of the piece, which lie in the patch with its ghost layer; as our caller promised.
            let (u, values) = unsafe { (u.add(place), values.add(start)) };
            for j in 0..count {
                // SAFETY: as above.
                unsafe {
                    let (u, value) = (u.add(j * row), values.add(j * step));
                    match (way, nx) {
                        // Calls would take longer than the copy.
                        (Way::Out, 1) => *value = *u,
                        (Way::In, 1) => *u = *value,
                        (Way::Out, _) => std::ptr::copy_nonoverlapping(u.cast_const(), value, nx),
                        (Way::In, _) => std::ptr::copy_nonoverlapping(value.cast_const(), u, nx),
                    }
                }
            }
        }
    }
}

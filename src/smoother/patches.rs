//! Patches: boxes of cells in the index space of one refinement level, their division into blocks, and the plan of
//! ghost copies between patches. Blocks are defined by global indices. If the same domain is divided at block
//! boundaries into other patches, the blocks and their colours are the same.
//!
//! Array layout: for a patch of nx x ny x nz cells, the values of cell (i, j, k), counted from the first cell of the
//! patch, are `u[((k+1)*(ny+2) + j+1)*(nx+2) + i+1]` and `f[(k*ny + j)*nx + i]`. Ghost cells, which only `u` has, have
//! an index -1 or nx in x, and accordingly in y and z.

use crate::error::{Error, Place, RRB_ERR_ARGUMENT, Result, collected, push, reserve, zeroed};

/// A box with the cells lower .. lower + size - 1 in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Global index of the first cell.
    pub lower: [i64; 3],
    /// Number of cells per direction, at least 1.
    pub size: [usize; 3],
}

impl Patch {
    /// Returns the number of cells.
    pub fn cells(&self) -> usize {
        self.size.iter().product()
    }

    /// Returns the number of values of `u`, including the ghost layer.
    pub fn ghosted_cells(&self) -> usize {
        self.size.iter().map(|n| n + 2).product()
    }

    /// Returns the distances between rows and between planes of `u`, in values.
    pub fn strides(&self) -> (usize, usize) {
        (self.size[0] + 2, (self.size[0] + 2) * (self.size[1] + 2))
    }

    /// Returns the index in `u` of the cell with the global index `cell`, which is in the patch or its ghost layer.
    pub fn index_of(&self, cell: [i64; 3]) -> usize {
        let (row, plane) = self.strides();
        let at = |d: usize| (cell[d] - self.lower[d] + 1) as usize;
        at(2) * plane + at(1) * row + at(0)
    }

    fn end(&self, axis: usize) -> i64 {
        self.lower[axis] + self.size[axis] as i64
    }

    /// Returns the cells that both boxes contain, if any.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let mut common = *self;
        for d in 0..3 {
            common.lower[d] = self.lower[d].max(other.lower[d]);
            let end = self.end(d).min(other.end(d));
            if end <= common.lower[d] {
                return None;
            }
            common.size[d] = (end - common.lower[d]) as usize;
        }
        Some(common)
    }

    fn with_ghosts(&self) -> Self {
        Self { lower: self.lower.map(|l| l - 1), size: self.size.map(|n| n + 2) }
    }
}

/// Division of the index space into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Cells of a block per direction, 1 to 8.
    pub block: [usize; 3],
    /// Blocks begin at multiples of `block` plus `shift`, in cells.
    pub shift: [i64; 3],
    /// Whether a block that the edge of the patch would truncate is shifted inwards instead (the method of Rodriguez et
    /// al.). If the patch is shorter than a block, the block has the length of the patch.
    pub overlap: bool,
}

/// Interval of a block along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First cell, relative to the patch.
    pub start: usize,
    /// Number of cells.
    pub len: usize,
}

impl Cut {
    /// Returns the cut with blocks at multiples of `block`; the edges of the patch truncate blocks.
    pub fn new(block: [usize; 3]) -> Self {
        Self { block, shift: [0; 3], overlap: false }
    }

    /// Returns the cut whose blocks are shifted towards lower indices by half a block, rounded down to whole cells.
    pub fn staggered(self) -> Self {
        Self { shift: self.block.map(|b| -(b as i64 / 2)), ..self }
    }

    /// Returns the global index of the block that contains the cell `cell` along `axis`: floor((cell - shift) / block).
    pub fn block_of(&self, axis: usize, cell: i64) -> i64 {
        (cell - self.shift[axis]).div_euclid(self.block[axis] as i64)
    }

    /// Returns the global index of the patch's first block along `axis`, and the number of blocks.
    pub fn block_range(&self, patch: &Patch, axis: usize) -> (i64, usize) {
        let first = self.block_of(axis, patch.lower[axis]);
        (first, (self.block_of(axis, patch.end(axis) - 1) - first) as usize + 1)
    }

    /// Returns the interval of block `m` along `axis`. The first block of the patch has m = 0.
    pub fn segment(&self, patch: &Patch, axis: usize, m: usize) -> Segment {
        let b = self.block[axis] as i64;
        let begin = (self.block_of(axis, patch.lower[axis]) + m as i64) * b + self.shift[axis] - patch.lower[axis];
        let size = patch.size[axis] as i64;
        let (mut start, mut end) = (begin.max(0), (begin + b).min(size));
        if self.overlap && end - start < b {
            if begin < 0 {
                end = size.min(start + b);
            } else {
                start = 0.max(end - b);
            }
        }
        Segment { start: start as usize, len: (end - start) as usize }
    }

    /// Returns whether the edge of the patch truncates a block, or would truncate it without `overlap`.
    pub fn has_remainder(&self, patch: &Patch) -> bool {
        let whole = Self { overlap: false, ..*self };
        (0..3).any(|d| {
            let (_, count) = whole.block_range(patch, d);
            [0, count - 1].into_iter().any(|m| whole.segment(patch, d, m).len < self.block[d])
        })
    }

    /// Returns the distinct lengths of the patch's segments along `axis`, at most three. Each item is the index of a
    /// segment, and its length.
    pub fn lengths(&self, patch: &Patch, axis: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (cut, patch) = (*self, *patch);
        let (_, count) = self.block_range(&patch, axis);
        let mut tried = [0, 1, count - 1];
        tried[1] = tried[1].min(count - 1);
        let lengths = tried.map(|m| (m, cut.segment(&patch, axis, m).len));
        (0..3).filter(move |&t| lengths[..t].iter().all(|l| l.1 != lengths[t].1)).map(move |t| lengths[t])
    }
}

/// Box of ghost cells of patch `to` that patch `from` covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostCopy {
    /// Index of the patch that is written.
    pub to: usize,
    /// Index of the patch that is read.
    pub from: usize,
    /// The ghost cells as a box of global indices.
    pub cells: Patch,
}

/// The patches of one level, and their ghost copy plan.
#[derive(Clone, Debug, Default)]
pub struct PatchList {
    /// Patches in the caller's order.
    pub patches: Vec<Patch>,
    /// Ghost copies, sorted by the patch that is written.
    pub copies: Vec<GhostCopy>,
    /// For each patch, the number of cells in all patches before it. The last entry is the total number.
    pub cells_before: Vec<usize>,
}

impl PatchList {
    /// Checks that no two patches overlap, and computes the ghost copy plan. To avoid a comparison of all pairs, the
    /// patches are sorted along the axis with the most distinct lower bounds, and only patches whose intervals along
    /// this axis touch are compared.
    pub fn new(patches: Vec<Patch>) -> Result<Self> {
        let mut cells_before: Vec<usize> = zeroed(patches.len() + 1, PATCHES)?;
        for (p, patch) in patches.iter().enumerate() {
            cells_before[p + 1] = cells_before[p] + patch.cells();
        }
        let mut lower_bounds = Vec::new();
        reserve(&mut lower_bounds, patches.len(), PATCHES)?;
        let mut distinct = |d: usize| count_distinct(&mut lower_bounds, patches.iter().map(|p| p.lower[d]));
        let axis = (0..3).max_by_key(|&d| distinct(d)).unwrap_or(0);
        // An unstable sort allocates no memory. Its result is unique, because the keys here and below are distinct.
        let mut order = collected(0..patches.len(), PATCHES)?;
        order.sort_unstable_by_key(|&p| (patches[p].lower[axis], p));

        let mut copies = Vec::new();
        let mut active: Vec<usize> = Vec::new();
        for &p in &order {
            let patch = &patches[p];
            // Keeps the patches that overlap or touch `patch` along the axis. A patch that only touches it may cover
            // ghost cells, because the ghost layer extends one cell beyond the patch.
            active.retain(|&q| patches[q].end(axis) >= patch.lower[axis]);
            let ghosts = patch.with_ghosts();
            for &q in &active {
                let other = &patches[q];
                let Some(cells) = ghosts.intersection(other) else { continue };
                if patch.intersection(other).is_some() {
                    return Err(overlap_error(p.min(q), p.max(q)));
                }
                push(&mut copies, GhostCopy { to: p, from: q, cells }, COPIES)?;
                if let Some(cells) = other.with_ghosts().intersection(patch) {
                    push(&mut copies, GhostCopy { to: q, from: p, cells }, COPIES)?;
                }
            }
            push(&mut active, p, PATCHES)?;
        }
        copies.sort_unstable_by_key(|c| (c.to, c.from));
        Ok(Self { patches, copies, cells_before })
    }

    /// Returns the number of cells of all patches.
    pub fn cells(&self) -> usize {
        self.cells_before.last().copied().unwrap_or(0)
    }

    /// Returns the memory use of the lists in bytes.
    pub fn bytes(&self) -> usize {
        self.patches.len() * (size_of::<Patch>() + size_of::<usize>()) + self.copies.len() * size_of::<GhostCopy>()
    }
}

const PATCHES: &str = "patches";
const COPIES: &str = "copies of ghost cells";

/// Returns the number of distinct values; `all` is a buffer with sufficient capacity.
fn count_distinct(all: &mut Vec<i64>, values: impl Iterator<Item = i64>) -> usize {
    all.clear();
    all.extend(values);
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// Returns the error for two patches that cover the same cell.
fn overlap_error(first: usize, second: usize) -> Error {
    Error::at(RRB_ERR_ARGUMENT, "the ", Place::patches(first, second), " overlap")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(lower: [i64; 3], size: [usize; 3]) -> Patch {
        Patch { lower, size }
    }

    #[test]
    fn segments_cover_a_patch_once_and_begin_at_global_multiples() {
        for b in 1..=8 {
            for lower in -9..9 {
                for n in 1..20 {
                    let p = patch([lower, 0, 0], [n, 1, 1]);
                    for cut in [Cut::new([b; 3]), Cut::new([b; 3]).staggered()] {
                        let (first, count) = cut.block_range(&p, 0);
                        let mut next = 0;
                        for m in 0..count {
                            let s = cut.segment(&p, 0, m);
                            assert_eq!(s.start, next);
                            assert!(s.len >= 1 && s.len <= b);
                            let global = lower + s.start as i64;
                            assert_eq!(cut.block_of(0, global), first + m as i64);
                            assert!(m == 0 || (global - cut.shift[0]).rem_euclid(b as i64) == 0);
                            next += s.len;
                        }
                        assert_eq!(next, n);
                        let lengths: Vec<usize> = cut.lengths(&p, 0).map(|l| l.1).collect();
                        assert!((0..count).all(|m| lengths.contains(&cut.segment(&p, 0, m).len)));
                    }
                }
            }
        }
    }

    #[test]
    fn overlapping_blocks_have_full_size_unless_the_patch_is_smaller() {
        for b in 1..=8 {
            for lower in -9..9 {
                for n in 1..20 {
                    let p = patch([lower, 0, 0], [n, 1, 1]);
                    let cut = Cut { overlap: true, ..Cut::new([b, 1, 1]) };
                    let (_, count) = cut.block_range(&p, 0);
                    let mut covered = vec![false; n];
                    for m in 0..count {
                        let s = cut.segment(&p, 0, m);
                        assert_eq!(s.len, b.min(n));
                        covered[s.start..s.start + s.len].fill(true);
                    }
                    assert!(covered.iter().all(|&c| c));
                }
            }
        }
    }

    /// Every ghost cell that another patch covers is copied once, from the patch that contains it.
    #[test]
    fn ghost_plan_matches_its_definition() {
        let patches = vec![
            patch([0, 0, 0], [4, 3, 2]),
            patch([4, 0, 0], [2, 5, 2]),
            patch([0, 3, 0], [4, 2, 3]),
            patch([-1, -1, -1], [1, 1, 1]),
            patch([7, 0, 0], [2, 2, 2]),
            patch([0, 0, 2], [4, 3, 1]),
        ];
        let list = PatchList::new(patches.clone()).unwrap();
        for (p, to) in patches.iter().enumerate() {
            let ghosts = to.with_ghosts();
            for k in 0..ghosts.size[2] as i64 {
                for j in 0..ghosts.size[1] as i64 {
                    for i in 0..ghosts.size[0] as i64 {
                        let cell = patch([ghosts.lower[0] + i, ghosts.lower[1] + j, ghosts.lower[2] + k], [1; 3]);
                        if to.intersection(&cell).is_some() {
                            continue;
                        }
                        let owner = patches.iter().position(|q| q.intersection(&cell).is_some());
                        let copied: Vec<usize> = list
                            .copies
                            .iter()
                            .filter(|c| c.to == p && c.cells.intersection(&cell).is_some())
                            .map(|c| c.from)
                            .collect();
                        assert_eq!(copied, owner.into_iter().collect::<Vec<_>>());
                    }
                }
            }
        }
        assert_eq!(list.cells(), patches.iter().map(Patch::cells).sum::<usize>());
    }

    #[test]
    fn error_names_overlapping_patches() {
        let e = PatchList::new(vec![patch([0; 3], [4; 3]), patch([9; 3], [1; 3]), patch([3; 3], [4; 3])]).unwrap_err();
        assert_eq!(e, overlap_error(0, 2));
    }

    /// Number of ghost copies between n x n x n patches.
    #[test]
    fn ghost_copies_between_ten_thousand_patches() {
        let n = 22i64;
        let patches: Vec<Patch> =
            (0..n * n * n).map(|q| patch([q % n * 4, q / n % n * 4, q / n / n * 4], [4; 3])).collect();
        let list = PatchList::new(patches).unwrap();
        // In one direction, there are 3n - 2 pairs of patches that are equal or adjacent. The cube therefore has
        // (3n - 2)^3 such pairs. n^3 of them are pairs of equal patches.
        assert_eq!(list.copies.len() as i64, (3 * n - 2).pow(3) - n.pow(3));
    }
}

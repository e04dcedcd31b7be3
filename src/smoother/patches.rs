//! Patches: boxes of cells in the index space of one refinement level, their division into blocks, and the plan of
//! ghost copies between patches. Blocks are defined by global indices. If the same domain is divided at block
//! boundaries into other patches, the blocks and their colours are the same.
//!
//! Array layout: for a patch of nx x ny x nz cells, the values of cell (i, j, k), counted from the first cell of the
//! patch, are `u[((k+1)*(ny+2) + j+1)*(nx+2) + i+1]` and `f[(k*ny + j)*nx + i]`. Only `u` has ghost cells. These are
//! the cells with i = -1 or nx, j = -1 or ny, or k = -1 or nz.

use crate::error::{Error, Location, RRB_ERR_ARGUMENT, Result, collected, push, reserve, zeroed};

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
    pub fn cell_count(&self) -> usize {
        self.size.iter().product()
    }

    /// Returns the number of values of `u`, including the ghost layer.
    pub fn ghosted_cell_count(&self) -> usize {
        self.size.iter().map(|n| n + 2).product()
    }

    /// Returns the distances between rows and between planes of `u`, in values.
    pub fn strides(&self) -> (usize, usize) {
        (self.size[0] + 2, (self.size[0] + 2) * (self.size[1] + 2))
    }

    /// Returns the index in `u` of the cell with the global index `cell`, which is in the patch or its ghost layer.
    pub fn index_of(&self, cell: [i64; 3]) -> usize {
        let (row, plane) = self.strides();
        let ghosted_offset = |d: usize| (cell[d] - self.lower[d] + 1) as usize;
        ghosted_offset(2) * plane + ghosted_offset(1) * row + ghosted_offset(0)
    }

    fn end(&self, axis: usize) -> i64 {
        self.lower[axis] + self.size[axis] as i64
    }

    /// Returns the cells that both boxes contain, if any.
    fn intersection(&self, other: &Self) -> Option<Self> {
        let mut intersection = *self;
        for d in 0..3 {
            intersection.lower[d] = self.lower[d].max(other.lower[d]);
            let end = self.end(d).min(other.end(d));
            if end <= intersection.lower[d] {
                return None;
            }
            intersection.size[d] = (end - intersection.lower[d]) as usize;
        }
        Some(intersection)
    }

    fn with_ghosts(&self) -> Self {
        Self { lower: self.lower.map(|l| l - 1), size: self.size.map(|n| n + 2) }
    }
}

/// Division of the index space into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPartition {
    /// Cells of a block per direction, 1 to 8.
    pub block: [usize; 3],
    /// Blocks begin at the global indices m * `block` + `shift`, for all integers m.
    pub shift: [i64; 3],
    /// Whether a block that the edge of the patch would truncate is shifted inwards instead (the method of Rodriguez et
    /// al.). If the patch is shorter than a block, the block has the length of the patch.
    pub uses_overlap: bool,
}

/// Interval of a block along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First cell, relative to the patch.
    pub start: usize,
    /// Number of cells.
    pub len: usize,
}

impl BlockPartition {
    /// Returns the partition whose blocks begin at multiples of `block`. The edges of a patch truncate blocks.
    pub fn new(block: [usize; 3]) -> Self {
        Self { block, shift: [0; 3], uses_overlap: false }
    }

    /// Returns the partition whose blocks are shifted towards lower indices by half a block, rounded down to whole
    /// cells.
    pub fn staggered(self) -> Self {
        Self { shift: self.block.map(|block_len| -(block_len as i64 / 2)), ..self }
    }

    /// Returns the global index of the block that contains the cell `cell` along `axis`: floor((cell - shift) / block).
    pub fn block_index(&self, axis: usize, cell: i64) -> i64 {
        (cell - self.shift[axis]).div_euclid(self.block[axis] as i64)
    }

    /// Returns the global index of the patch's first block along `axis`, and the number of blocks.
    pub fn block_range(&self, patch: &Patch, axis: usize) -> (i64, usize) {
        let first_block = self.block_index(axis, patch.lower[axis]);
        (first_block, (self.block_index(axis, patch.end(axis) - 1) - first_block) as usize + 1)
    }

    /// Returns the interval of block `block` along `axis`. `block` is counted from 0 at the first block of the patch.
    pub fn segment(&self, patch: &Patch, axis: usize, block: usize) -> Segment {
        let block_len = self.block[axis] as i64;
        let untruncated_start = (self.block_index(axis, patch.lower[axis]) + block as i64) * block_len
            + self.shift[axis]
            - patch.lower[axis];
        let size = patch.size[axis] as i64;
        let (mut start, mut end) = (untruncated_start.max(0), (untruncated_start + block_len).min(size));
        if self.uses_overlap && end - start < block_len {
            if untruncated_start < 0 {
                end = size.min(start + block_len);
            } else {
                start = 0.max(end - block_len);
            }
        }
        Segment { start: start as usize, len: (end - start) as usize }
    }

    /// Returns whether an edge of the patch truncates a block, or would truncate it without `uses_overlap`.
    pub fn has_remainder(&self, patch: &Patch) -> bool {
        let without_overlap = Self { uses_overlap: false, ..*self };
        (0..3).any(|d| {
            let (_, count) = without_overlap.block_range(patch, d);
            [0, count - 1].into_iter().any(|block| without_overlap.segment(patch, d, block).len < self.block[d])
        })
    }

    /// Returns the distinct lengths of the patch's segments along `axis`, at most three. Each item consists of the
    /// index of a segment with this length, and the length.
    pub fn distinct_lengths(&self, patch: &Patch, axis: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (partition, patch) = (*self, *patch);
        let (_, count) = self.block_range(&patch, axis);
        let mut candidates = [0, 1, count - 1];
        candidates[1] = candidates[1].min(count - 1);
        let lengths = candidates.map(|block| (block, partition.segment(&patch, axis, block).len));
        (0..3).filter(move |&t| lengths[..t].iter().all(|l| l.1 != lengths[t].1)).map(move |t| lengths[t])
    }
}

/// Box of ghost cells of patch `target_patch` that patch `source_patch` covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostCopy {
    /// Index of the patch that is written.
    pub target_patch: usize,
    /// Index of the patch that is read.
    pub source_patch: usize,
    /// The ghost cells as a box of global indices.
    pub cell_box: Patch,
}

/// The patches of one level, and their ghost copy plan.
#[derive(Clone, Debug, Default)]
pub struct PatchList {
    /// Patches in the caller's order.
    pub patches: Vec<Patch>,
    /// Ghost copies, sorted by the patch that is written.
    pub ghost_copies: Vec<GhostCopy>,
    /// For each patch, the number of cells in all patches before it. The last entry is the total number.
    pub cells_before: Vec<usize>,
}

impl PatchList {
    /// Checks that no two patches overlap, and computes the ghost copy plan. To avoid a comparison of all pairs, the
    /// patches are sorted along the axis with the most distinct lower bounds, and only patches whose intervals along
    /// this axis touch are compared.
    pub fn new(patches: Vec<Patch>) -> Result<Self> {
        let mut cells_before: Vec<usize> = zeroed(patches.len() + 1, PATCH_ALLOCATION_NAME)?;
        for (p, patch) in patches.iter().enumerate() {
            cells_before[p + 1] = cells_before[p] + patch.cell_count();
        }
        let mut lower_bounds = Vec::new();
        reserve(&mut lower_bounds, patches.len(), PATCH_ALLOCATION_NAME)?;
        let mut count_bounds = |d: usize| count_distinct(&mut lower_bounds, patches.iter().map(|p| p.lower[d]));
        let axis = (0..3).max_by_key(|&d| count_bounds(d)).unwrap_or(0);
        // An unstable sort allocates no memory. Its result is unique, because the keys here and below are distinct.
        let mut sorted_patches = collected(0..patches.len(), PATCH_ALLOCATION_NAME)?;
        sorted_patches.sort_unstable_by_key(|&p| (patches[p].lower[axis], p));

        let mut ghost_copies = Vec::new();
        let mut active_patches: Vec<usize> = Vec::new();
        for &p in &sorted_patches {
            let patch = &patches[p];
            // Keeps the patches that overlap or touch `patch` along the axis. A patch that only touches `patch` may
            // cover ghost cells of `patch`, because the ghost layer is one cell wide.
            active_patches.retain(|&q| patches[q].end(axis) >= patch.lower[axis]);
            let ghosted_patch = patch.with_ghosts();
            for &q in &active_patches {
                let other = &patches[q];
                let Some(cells) = ghosted_patch.intersection(other) else { continue };
                if patch.intersection(other).is_some() {
                    return Err(overlap_error(p.min(q), p.max(q)));
                }
                push(
                    &mut ghost_copies,
                    GhostCopy { target_patch: p, source_patch: q, cell_box: cells },
                    COPY_ALLOCATION_NAME,
                )?;
                if let Some(cells) = other.with_ghosts().intersection(patch) {
                    push(
                        &mut ghost_copies,
                        GhostCopy { target_patch: q, source_patch: p, cell_box: cells },
                        COPY_ALLOCATION_NAME,
                    )?;
                }
            }
            push(&mut active_patches, p, PATCH_ALLOCATION_NAME)?;
        }
        ghost_copies.sort_unstable_by_key(|c| (c.target_patch, c.source_patch));
        Ok(Self { patches, ghost_copies, cells_before })
    }

    /// Returns the number of cells of all patches.
    pub fn cell_count(&self) -> usize {
        self.cells_before.last().copied().unwrap_or(0)
    }

    /// Returns the memory use of the lists in bytes.
    pub fn bytes(&self) -> usize {
        self.patches.len() * (size_of::<Patch>() + size_of::<usize>())
            + self.ghost_copies.len() * size_of::<GhostCopy>()
    }
}

const PATCH_ALLOCATION_NAME: &str = "patches";
const COPY_ALLOCATION_NAME: &str = "copies of ghost cells";

/// Returns the number of distinct values. `buffer` is a workspace; its capacity must be at least the number of values.
fn count_distinct(buffer: &mut Vec<i64>, values: impl Iterator<Item = i64>) -> usize {
    buffer.clear();
    buffer.extend(values);
    buffer.sort_unstable();
    buffer.dedup();
    buffer.len()
}

/// Returns the error for two patches that cover the same cell.
fn overlap_error(first: usize, second: usize) -> Error {
    Error::at(RRB_ERR_ARGUMENT, "the ", Location::patches(first, second), " overlap")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(lower: [i64; 3], size: [usize; 3]) -> Patch {
        Patch { lower, size }
    }

    #[test]
    fn segments_cover_a_patch_once_and_begin_at_global_multiples() {
        for block_len in 1..=8 {
            for lower in -9..9 {
                for n in 1..20 {
                    let p = patch([lower, 0, 0], [n, 1, 1]);
                    for partition in
                        [BlockPartition::new([block_len; 3]), BlockPartition::new([block_len; 3]).staggered()]
                    {
                        let (first, count) = partition.block_range(&p, 0);
                        let mut next_start = 0;
                        for m in 0..count {
                            let segment = partition.segment(&p, 0, m);
                            assert_eq!(segment.start, next_start);
                            assert!(segment.len >= 1 && segment.len <= block_len);
                            let global_start = lower + segment.start as i64;
                            assert_eq!(partition.block_index(0, global_start), first + m as i64);
                            assert!(m == 0 || (global_start - partition.shift[0]).rem_euclid(block_len as i64) == 0);
                            next_start += segment.len;
                        }
                        assert_eq!(next_start, n);
                        let lengths: Vec<usize> = partition.distinct_lengths(&p, 0).map(|length| length.1).collect();
                        assert!((0..count).all(|m| lengths.contains(&partition.segment(&p, 0, m).len)));
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
                    let partition = BlockPartition { uses_overlap: true, ..BlockPartition::new([b, 1, 1]) };
                    let (_, count) = partition.block_range(&p, 0);
                    let mut covered = vec![false; n];
                    for m in 0..count {
                        let segment = partition.segment(&p, 0, m);
                        assert_eq!(segment.len, b.min(n));
                        covered[segment.start..segment.start + segment.len].fill(true);
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
        let patch_list = PatchList::new(patches.clone()).unwrap();
        for (p, target) in patches.iter().enumerate() {
            let ghosted_patch = target.with_ghosts();
            for k in 0..ghosted_patch.size[2] as i64 {
                for j in 0..ghosted_patch.size[1] as i64 {
                    for i in 0..ghosted_patch.size[0] as i64 {
                        let cell = patch(
                            [ghosted_patch.lower[0] + i, ghosted_patch.lower[1] + j, ghosted_patch.lower[2] + k],
                            [1; 3],
                        );
                        if target.intersection(&cell).is_some() {
                            continue;
                        }
                        let owner = patches.iter().position(|q| q.intersection(&cell).is_some());
                        let copy_sources: Vec<usize> = patch_list
                            .ghost_copies
                            .iter()
                            .filter(|c| c.target_patch == p && c.cell_box.intersection(&cell).is_some())
                            .map(|c| c.source_patch)
                            .collect();
                        assert_eq!(copy_sources, owner.into_iter().collect::<Vec<_>>());
                    }
                }
            }
        }
        assert_eq!(patch_list.cell_count(), patches.iter().map(Patch::cell_count).sum::<usize>());
    }

    #[test]
    fn error_names_overlapping_patches() {
        let error =
            PatchList::new(vec![patch([0; 3], [4; 3]), patch([9; 3], [1; 3]), patch([3; 3], [4; 3])]).unwrap_err();
        assert_eq!(error, overlap_error(0, 2));
    }

    /// Number of ghost copies between n x n x n patches.
    #[test]
    fn ghost_copies_of_ten_thousand_patches_are_complete() {
        let n = 22i64;
        let patches: Vec<Patch> =
            (0..n * n * n).map(|q| patch([q % n * 4, q / n % n * 4, q / n / n * 4], [4; 3])).collect();
        let patch_list = PatchList::new(patches).unwrap();
        // In one direction, there are 3n - 2 pairs of patches that are equal or adjacent. The cube therefore has
        // (3n - 2)^3 such pairs. n^3 of them are pairs of equal patches.
        assert_eq!(patch_list.ghost_copies.len() as i64, (3 * n - 2).pow(3) - n.pow(3));
    }
}

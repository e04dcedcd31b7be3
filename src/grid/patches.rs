//! Boxes of cells in the index space of one level, how they are cut into blocks, and which ghost cells a patch takes
//! from its neighbours. Everything comes from global indices, so that the same domain cut at block boundaries into
//! other patches has the same blocks and colours.
//!
//! Array shape: `u` of a patch is `u[((k+1)*(ny+2) + j+1)*(nx+2) + i+1]`, i = -1 .. nx; `f` is `f[(k*ny + j)*nx + i]`.

use crate::error::{Error, Place, RRB_ERR_ARGUMENT, Result, collected, push, reserve, zeroed};

/// Cells lower .. lower + size - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// First cell in the level's index space.
    pub lower: [i64; 3],
    /// Cells per direction, at least 1.
    pub size: [usize; 3],
}

impl Patch {
    /// Cells.
    pub fn cells(&self) -> usize {
        self.size.iter().product()
    }

    /// Values of `u`, ghost layer included.
    pub fn ghosted(&self) -> usize {
        self.size.iter().map(|n| n + 2).product()
    }

    /// Values of `u` from one row, and from one plane, to the next.
    pub fn strides(&self) -> (usize, usize) {
        (self.size[0] + 2, (self.size[0] + 2) * (self.size[1] + 2))
    }

    /// Place in `u` of the cell at the global index `cell`, which lies in the patch or its ghost layer.
    pub fn place(&self, cell: [i64; 3]) -> usize {
        let (row, plane) = self.strides();
        let at = |d: usize| (cell[d] - self.lower[d] + 1) as usize;
        at(2) * plane + at(1) * row + at(0)
    }

    fn end(&self, axis: usize) -> i64 {
        self.lower[axis] + self.size[axis] as i64
    }

    /// The cells of the box that both have, if there are any.
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

/// How the index space is cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Cells of a block per direction, 1 to 8.
    pub block: [usize; 3],
    /// Blocks begin at multiples of `block` plus this.
    pub shift: [i64; 3],
    /// Blocks cut short by the patch's edge are moved inwards instead (the paper's alternative).
    pub overlap: bool,
}

/// Part of a block along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First cell, counted from the patch's own.
    pub start: usize,
    /// Cells.
    pub len: usize,
}

impl Cut {
    /// Blocks at multiples of `block`, ending at the patch's edges.
    pub fn new(block: [usize; 3]) -> Self {
        Self { block, shift: [0; 3], overlap: false }
    }

    /// The same, moved by floor(b/2) cells towards lower indices.
    pub fn staggered(self) -> Self {
        Self { shift: self.block.map(|b| -(b as i64 / 2)), ..self }
    }

    /// Global index of the block with the cell `cell` along `axis`: floor((cell - shift) / b).
    pub fn block_of(&self, axis: usize, cell: i64) -> i64 {
        (cell - self.shift[axis]).div_euclid(self.block[axis] as i64)
    }

    /// Global index of the patch's first block along `axis`, and how many it has.
    pub fn range(&self, patch: &Patch, axis: usize) -> (i64, usize) {
        let first = self.block_of(axis, patch.lower[axis]);
        (first, (self.block_of(axis, patch.end(axis) - 1) - first) as usize + 1)
    }

    /// The `m`-th segment of the patch along `axis`.
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

    /// Whether any block of the patch is cut short.
    pub fn has_remainder(&self, patch: &Patch) -> bool {
        let whole = Self { overlap: false, ..*self };
        (0..3).any(|d| {
            let (_, count) = whole.range(patch, d);
            [0, count - 1].into_iter().any(|m| whole.segment(patch, d, m).len < self.block[d])
        })
    }

    /// Different lengths of the patch's segments along `axis`: at most three.
    pub fn lengths(&self, patch: &Patch, axis: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (cut, patch) = (*self, *patch);
        let (_, count) = self.range(&patch, axis);
        let mut tried = [0, 1, count - 1];
        tried[1] = tried[1].min(count - 1);
        let lengths = tried.map(|m| (m, cut.segment(&patch, axis, m).len));
        (0..3).filter(move |&t| lengths[..t].iter().all(|l| l.1 != lengths[t].1)).map(move |t| lengths[t])
    }
}

/// Cells of the ghost layer of patch `to` that patch `from` covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GhostCopy {
    /// Patch that is written.
    pub to: usize,
    /// Patch that is read.
    pub from: usize,
    /// The cells, as a box.
    pub cells: Patch,
}

/// The patches of one level, and their ghost copy plan.
#[derive(Clone, Debug, Default)]
pub struct PatchList {
    /// In the caller's order.
    pub patches: Vec<Patch>,
    /// Sorted by the patch that is written.
    pub copies: Vec<GhostCopy>,
    /// Cells of the patches before this one; one entry more than patches.
    pub cells_before: Vec<usize>,
}

impl PatchList {
    /// Checks that no two patches overlap and finds out who has whose ghost cells. Cost: patches are sorted along the
    /// axis on which they begin at most places, and only those that meet there are compared.
    pub fn new(patches: Vec<Patch>) -> Result<Self> {
        let mut cells_before: Vec<usize> = zeroed(patches.len() + 1, PATCHES)?;
        for (p, patch) in patches.iter().enumerate() {
            cells_before[p + 1] = cells_before[p] + patch.cells();
        }
        let mut places = Vec::new();
        reserve(&mut places, patches.len(), PATCHES)?;
        let mut distinct = |d: usize| distinct(&mut places, patches.iter().map(|p| p.lower[d]));
        let axis = (0..3).max_by_key(|&d| distinct(d)).unwrap_or(0);
        // A stable sort would take memory; no two keys are equal, here and below.
        let mut order = collected(0..patches.len(), PATCHES)?;
        order.sort_unstable_by_key(|&p| (patches[p].lower[axis], p));

        let mut copies = Vec::new();
        let mut active: Vec<usize> = Vec::new();
        for &p in &order {
            let patch = &patches[p];
            // Ghost layers reach one cell out.
            active.retain(|&q| patches[q].end(axis) >= patch.lower[axis]);
            let ghosts = patch.with_ghosts();
            for &q in &active {
                let other = &patches[q];
                let Some(cells) = ghosts.intersection(other) else { continue };
                if patch.intersection(other).is_some() {
                    return Err(overlapping(p.min(q), p.max(q)));
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

    /// Cells of all patches.
    pub fn cells(&self) -> usize {
        self.cells_before.last().copied().unwrap_or(0)
    }

    /// Bytes of the lists.
    pub fn bytes(&self) -> usize {
        self.patches.len() * (size_of::<Patch>() + size_of::<usize>()) + self.copies.len() * size_of::<GhostCopy>()
    }
}

/// For errors.
const PATCHES: &str = "patches";
const COPIES: &str = "copies of ghost cells";

/// How many different values there are; `all` has room for them.
fn distinct(all: &mut Vec<i64>, values: impl Iterator<Item = i64>) -> usize {
    all.clear();
    all.extend(values);
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// Two patches cover the same cell.
fn overlapping(first: usize, second: usize) -> Error {
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
                        let (first, count) = cut.range(&p, 0);
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
    fn overlapping_blocks_have_full_size_where_the_patch_has() {
        for b in 1..=8 {
            for lower in -9..9 {
                for n in 1..20 {
                    let p = patch([lower, 0, 0], [n, 1, 1]);
                    let cut = Cut { overlap: true, ..Cut::new([b, 1, 1]) };
                    let (_, count) = cut.range(&p, 0);
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

    /// Every ghost cell that another patch covers is copied once, from the patch that has it.
    #[test]
    fn ghost_plan_against_the_definition() {
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
    fn overlapping_patches_are_named() {
        let e = PatchList::new(vec![patch([0; 3], [4; 3]), patch([9; 3], [1; 3]), patch([3; 3], [4; 3])]).unwrap_err();
        assert_eq!(e, overlapping(0, 2));
    }

    /// Ten thousand patches in a cube: the plan is found without comparing all pairs.
    #[test]
    fn ten_thousand_patches() {
        let n = 22i64;
        let patches: Vec<Patch> =
            (0..n * n * n).map(|q| patch([q % n * 4, q / n % n * 4, q / n / n * 4], [4; 3])).collect();
        let list = PatchList::new(patches).unwrap();
        // 26 neighbours inside; the sum over a cube of n^3 is (3n - 2)^3 - n^3.
        assert_eq!(list.copies.len() as i64, (3 * n - 2).pow(3) - n.pow(3));
    }
}

//! Exact factorization of what the eliminations leave: banded L D L^T (report, 2.7).
//!
//! Nodes are numbered line by line along the shorter side. In excess form, like the pivots of the levels:
//! with a_kl the couplings of node k to later nodes l and s_k its row sum over what is left,
//!
//! ```text
//! d_k = s_k - sum_l a_kl,   a_lm -= a_kl a_km / d_k,   s_l -= a_kl s_k / d_k,   l, m > k.
//! ```
//!
//! From both ends, where there are nodes enough: the first nodes in order, the last ones backwards, each end by itself,
//! and then a band's width of nodes between them, which the ends have left with what they hand on: sums over either.
//!
//! Cost n w^2 / 2 multiply-adds for half bandwidth w, of which two threads that take an end each do half at once but
//! for w^3 / 6 in between; 2 n w a solve, by one thread. Where M falls into pieces that A does not, the pivot that is
//! replaced in one of them is the last that is taken out: with two ends another node of it than with one.

use crate::backend::steps::rrb::{Pivot, PivotContext};
use crate::error::{Error, Result, zeroed};
use crate::grid::levels::{Embedding, Remainder, WORTH_ENDS};
use crate::grid::stencil::{HalfStencil, ring_index, ring_len, ring_stride};
use crate::isa::for_each_isa;
use crate::runtime::heap::Counted;
use crate::runtime::reduce::dot;
use std::sync::{Mutex, MutexGuard, PoisonError};

for_each_isa! {
    /// Takes a node out: row, its couplings, from those of the first `count` nodes behind it, `rest`, and their
    /// excesses.
    fn eliminate(rest: &mut [f64], excess: &mut [f64], row: &[f64], inverse: f64, handed: f64, count: usize) {
        let w = row.len();
        for (p, &c) in row.iter().enumerate().take(count) {
            // The couplings of the last nodes to nodes that are not there are zero.
            if c != 0.0 {
                let l = c * inverse;
                let later = &mut rest[p * w..][..w - p - 1];
                for (target, m) in later.iter_mut().zip(&row[p + 1..]) {
                    *target -= l * m;
                }
                excess[p] -= l * handed;
            }
        }
    }

    /// The same with four nodes that follow each other, `rest` and `excess` of the nodes behind the last one, whose
    /// rows are loaded and stored once: value s of a row of `rows` is the coupling to node s behind the last one, and
    /// behind the band stand `LANES` zeros. The operations on each number are those of one node after the other.
    fn eliminate_four(rest: &mut [f64], excess: &mut [f64], rows: [&[f64]; 4], inverse: [f64; 4], handed: [f64; 4]) {
        let len = rows[0].len();
        // Of one length for all, which is then checked once.
        let [r0, r1, r2, r3] = [&rows[0][..len], &rows[1][..len], &rows[2][..len], &rows[3][..len]];
        let w = len - LANES;
        let count = excess.len().min(w);
        for (s, e) in excess[..count].iter_mut().enumerate() {
            let l = [r0[s] * inverse[0], r1[s] * inverse[1], r2[s] * inverse[2], r3[s] * inverse[3]];
            *e = *e - l[0] * handed[0] - l[1] * handed[1] - l[2] * handed[2] - l[3] * handed[3];
        }
        for s in 0..count {
            if r0[s] == 0.0 && r1[s] == 0.0 && r2[s] == 0.0 && r3[s] == 0.0 {
                continue;
            }
            let l = [r0[s] * inverse[0], r1[s] * inverse[1], r2[s] * inverse[2], r3[s] * inverse[3]];
            // Whole vectors: what follows in the next row stays as it is.
            let (first, n) = (s + 1, (w - s - 1).next_multiple_of(LANES));
            let t = &mut rest[s * w..][..n];
            let (m0, m1) = (&r0[first..first + n], &r1[first..first + n]);
            let (m2, m3) = (&r2[first..first + n], &r3[first..first + n]);
            for i in 0..n {
                t[i] = t[i] - l[0] * m0[i] - l[1] * m1[i] - l[2] * m2[i] - l[3] * m3[i];
            }
        }
    }

    /// y = z / d, then z of later nodes without what y couples them to: `rows` of `width` couplings, node by node.
    fn forward(z: &mut [f64], rows: &[f64], inverse: &[f64], width: usize) {
        for (k, inverse) in inverse.iter().enumerate() {
            let (done, later) = z.split_at_mut(k + 1);
            done[k] *= inverse;
            let y = done[k];
            for (v, &c) in later.iter_mut().zip(&rows[k * width..][..width]) {
                *v -= c * y;
            }
        }
    }

    /// z = y - (couplings to later nodes times their z) / d.
    fn backward(z: &mut [f64], rows: &[f64], inverse: &[f64], width: usize) {
        for (k, inverse) in inverse.iter().enumerate().rev() {
            z[k] -= inverse * dot(&rows[k * width..][..width], &z[k + 1..]);
        }
    }
}

/// Nodes that are taken out together.
const TOGETHER: usize = 4;
/// Numbers of the widest vector.
const LANES: usize = 8;

/// Neighbours that a half stencil couples a node to: east, north, northeast, northwest.
const STRAIGHT: [(isize, isize); 4] = [(1, 0), (0, 1), (1, 1), (-1, 1)];
/// The same on black nodes: two columns east, two rows north, and the diagonals.
const SKEW: [(isize, isize); 4] = [(2, 0), (0, 2), (1, 1), (-1, 1)];

/// Nodes in the order in which they are taken out, and those behind them that they are coupled to.
struct Piece {
    width: usize,
    /// Nodes that are taken out.
    count: usize,
    /// Place in a ringed array, and node (i, j), of those.
    place: Vec<usize>,
    node: Vec<(usize, usize)>,
    /// Couplings of node k to k + 1 .. k + width, of nodes behind too; then room for whole vectors.
    couplings: Vec<f64>,
    /// Four rows, see `eliminate_four`.
    four: Vec<f64>,
    excess: Vec<f64>,
    inverse_pivot: Vec<f64>,
    /// `width` values behind those of the nodes taken out.
    z: Vec<f64>,
    /// To be taken out, not yet done.
    waits: bool,
    failure: Option<Error>,
}

impl Piece {
    fn new(count: usize, behind: usize, width: usize) -> Result<Self> {
        let name = "the exact factor";
        Ok(Self {
            width,
            count,
            place: zeroed(count, name)?,
            node: zeroed(count, name)?,
            couplings: zeroed((count + behind) * width + LANES, name)?,
            four: zeroed(TOGETHER * (width + LANES), name)?,
            excess: zeroed(count + behind, name)?,
            inverse_pivot: zeroed(count, name)?,
            z: zeroed(count + width, name)?,
            waits: false,
            failure: None,
        })
    }

    /// No couplings and excesses.
    fn clear(&mut self) {
        self.couplings.fill(0.0);
        self.excess.fill(0.0);
        (self.waits, self.failure) = (false, None);
    }

    fn couple(&mut self, first: usize, distance: usize, value: f64) {
        self.couplings[first * self.width + distance - 1] = value;
    }

    /// Takes the nodes out.
    fn eliminate(&mut self, site: &Site, context: &PivotContext) -> Result<()> {
        let (n, w) = (self.count, self.width);
        for first in (0..n).step_by(TOGETHER) {
            let (mut inverse, mut handed) = ([0.0; TOGETHER], [0.0; TOGETHER]);
            let together = first + TOGETHER <= n;
            for at in 0..TOGETHER.min(n - first) {
                let k = first + at;
                let (done, rest) = self.couplings.split_at_mut((k + 1) * w);
                let row = &done[k * w..];
                let sum = crate::runtime::reduce::sum(row);
                let pivot = Pivot::exact(self.excess[k], sum);
                let floating = row.iter().all(|&c| c == 0.0);
                let (i, j) = self.node[k];
                let d = pivot.accepted(pivot.d, floating, || context.node(site.level, site.embedding.fine(i, j)))?.d;
                (inverse[at], handed[at]) = (1.0 / d, pivot.excess);
                self.inverse_pivot[k] = inverse[at];
                // Of the nodes behind those of this group all together.
                let count = if together { TOGETHER - 1 - at } else { w };
                eliminate(rest, &mut self.excess[k + 1..], row, inverse[at], handed[at], count);
            }
            if together {
                let (done, rest) = self.couplings.split_at_mut((first + TOGETHER) * w);
                for (at, row) in self.four.chunks_exact_mut(w + LANES).enumerate() {
                    let (beside, behind) = done[(first + at) * w..][..w].split_at((TOGETHER - 1 - at).min(w));
                    row[..behind.len()].copy_from_slice(behind);
                    row[behind.len()..][..beside.len()].fill(0.0);
                }
                let row = |at: usize| &self.four[at * (w + LANES)..][..w + LANES];
                let rows = [row(0), row(1), row(2), row(3)];
                eliminate_four(rest, &mut self.excess[first + TOGETHER..], rows, inverse, handed);
            }
        }
        Ok(())
    }

    /// Values of the nodes taken out; of those behind them nothing yet.
    fn take(&mut self, z: &[f64]) {
        let (own, behind) = self.z.split_at_mut(self.count);
        for (v, &place) in own.iter_mut().zip(&self.place) {
            *v = z[place];
        }
        behind.fill(0.0);
    }

    fn forward(&mut self) {
        forward(&mut self.z, &self.couplings[..self.count * self.width], &self.inverse_pivot, self.width);
    }

    fn backward(&mut self) {
        backward(&mut self.z, &self.couplings[..self.count * self.width], &self.inverse_pivot, self.width);
    }

    fn give(&self, z: &mut [f64]) {
        for (v, &place) in self.z.iter().zip(&self.place) {
            z[place] = *v;
        }
    }

    fn bytes(&self) -> usize {
        8 * (self.couplings.len() + self.excess.len() + self.inverse_pivot.len() + self.z.len() + self.four.len())
            + 24 * self.place.len()
    }
}

/// The level of the nodes, and where they lie on the finest grid.
#[derive(Clone, Copy)]
pub struct Site {
    pub level: usize,
    pub embedding: Embedding,
}

/// The ends of a factor, for those who take them out.
#[derive(Clone)]
pub struct Ends {
    pieces: Counted<[Mutex<Piece>; 2]>,
    site: Site,
}

impl Ends {
    pub const COUNT: usize = 2;

    /// Whether the second one has nodes.
    pub fn are_two(&self) -> bool {
        lock(&self.pieces[1]).count > 0
    }

    /// Room in end k for new numbers.
    pub fn clear(&self, k: usize) {
        lock(&self.pieces[k]).clear();
    }

    /// Takes end k out, if that is to be done.
    pub fn eliminate(&self, k: usize, context: &PivotContext) {
        let mut piece = lock(&self.pieces[k]);
        if std::mem::take(&mut piece.waits) {
            piece.failure = piece.eliminate(&self.site, context).err();
        }
    }
}

fn lock(piece: &Mutex<Piece>) -> MutexGuard<'_, Piece> {
    piece.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The factor.
pub struct Band {
    width: usize,
    /// Number + 1 of the node at a place; 0: none.
    number: Vec<u32>,
    /// Place of node k in a ringed array.
    place: Vec<usize>,
    /// The second one without nodes, and none in the middle, where there are few.
    ends: Counted<[Mutex<Piece>; 2]>,
    middle: Piece,
}

impl Band {
    /// Numbers the nodes.
    pub fn new(remainder: Remainder) -> Result<Self> {
        Self::with_ends_from(remainder, WORTH_ENDS)
    }

    /// The same with one end.
    pub fn with_one_end(remainder: Remainder) -> Result<Self> {
        Self::with_ends_from(remainder, usize::MAX)
    }

    /// The same with two ends from so many nodes on.
    fn with_ends_from(remainder: Remainder, worth: usize) -> Result<Self> {
        let (grid, n) = (remainder.grid, remainder.nodes());
        let width = remainder.bandwidth();
        let between = remainder.between_ends(worth);
        let last = if between > 0 { (n - between) / 2 } else { 0 };
        let first = n - between - last;
        let mut place = zeroed(n, "the exact factor")?;
        let mut number = zeroed(ring_len(grid), "the exact factor")?;
        let mut pieces =
            [Piece::new(first, between, width)?, Piece::new(last, between, width)?, Piece::new(between, 0, width)?];
        let black = (grid.ox() + grid.oy()) % 2;
        let (lines, length) = if grid.nx <= grid.ny { (grid.ny, grid.nx) } else { (grid.nx, grid.ny) };
        let mut k = 0;
        for line in 0..lines {
            for along in 0..length {
                let (i, j) = if grid.nx <= grid.ny { (along, line) } else { (line, along) };
                if remainder.skew && (i + j) % 2 != black {
                    continue;
                }
                place[k] = ring_index(grid.nx, i, j);
                number[place[k]] = k as u32 + 1;
                let (piece, at) = match k {
                    k if k < first => (0, k),
                    k if k < first + between => (2, k - first),
                    k => (1, n - 1 - k),
                };
                (pieces[piece].place[at], pieces[piece].node[at]) = (place[k], (i, j));
                k += 1;
            }
        }
        debug_assert_eq!(k, n);
        let [first, last, middle] = pieces;
        let ends = Counted::new([Mutex::new(first), Mutex::new(last)], "the exact factor")?;
        Ok(Self { width, number, place, ends, middle })
    }

    /// Takes the half stencil `a` (excess form) on the numbered nodes, after [`Ends::clear`]: then come
    /// [`Ends::eliminate`] and `finish`.
    pub fn begin(&mut self, a: &HalfStencil, skew: bool) {
        let stride = ring_stride(a.nx) as isize;
        let n = self.place.len();
        let [first, last] = &*self.ends;
        let (mut first, mut last, middle) = (lock(first), lock(last), &mut self.middle);
        middle.clear();
        (first.waits, last.waits) = (true, true);
        // Where the middle begins, and what is behind it.
        let (start, behind) = (first.count, n - last.count);
        let offsets = if skew { SKEW } else { STRAIGHT };
        for (k, &place) in self.place.iter().enumerate() {
            match k {
                k if k < start => first.excess[k] = a.diagonal[place],
                k if k < behind => middle.excess[k - start] = a.diagonal[place],
                k => last.excess[n - 1 - k] = a.diagonal[place],
            }
            let values = [a.east[place], a.north[place], a.northeast[place], a.northwest[place]];
            for ((di, dj), value) in offsets.into_iter().zip(values) {
                let other = self.number[(place as isize + dj * stride + di) as usize];
                if other > 0 {
                    let l = other as usize - 1;
                    let (low, high) = (k.min(l), k.max(l));
                    if low < start {
                        first.couple(low, high - low, value);
                    } else if high >= behind {
                        last.couple(n - 1 - high, high - low, value);
                    } else {
                        middle.couple(low - start, high - low, value);
                    }
                }
            }
        }
    }

    /// The ends.
    pub fn ends(&self, site: Site) -> Ends {
        Ends { pieces: self.ends.clone(), site }
    }

    /// Takes out what the ends have left. The node that is named where one is refused is the first of the first end,
    /// else of the last one, which goes backwards, else of what is between them.
    pub fn finish(&mut self, site: Site, context: &PivotContext) -> Result<()> {
        let [first, last] = &*self.ends;
        let (mut first, mut last, w) = (lock(first), lock(last), self.width);
        if let Some(failure) = first.failure.take().or_else(|| last.failure.take()) {
            return Err(failure);
        }
        let middle = &mut self.middle;
        let count = middle.count;
        let (of_first, of_last) = (&first.couplings[first.count * w..], &last.couplings[last.count * w..]);
        for k in 0..count {
            middle.excess[k] += first.excess[first.count + k] + last.excess[last.count + count - 1 - k];
            for distance in 1..count - k {
                // The last end numbers backwards.
                let from_last = of_last[(count - 1 - k - distance) * w + distance - 1];
                middle.couplings[k * w + distance - 1] += of_first[k * w + distance - 1] + from_last;
            }
        }
        middle.eliminate(&site, context)
    }

    /// Solves in place on the numbered nodes of the ringed array `z`.
    pub fn solve(&mut self, z: &mut [f64]) {
        let [first, last] = &*self.ends;
        let (mut first, mut last, middle) = (lock(first), lock(last), &mut self.middle);
        let count = middle.count;
        first.take(z);
        first.forward();
        last.take(z);
        last.forward();
        middle.take(z);
        for k in 0..count {
            middle.z[k] += first.z[first.count + k] + last.z[last.count + count - 1 - k];
        }
        middle.forward();
        middle.z[count..].fill(0.0);
        middle.backward();
        let between = &middle.z[..count];
        let (behind_first, behind_last) = (first.count, last.count);
        first.z[behind_first..].fill(0.0);
        first.z[behind_first..][..count].copy_from_slice(between);
        // The last end numbers backwards.
        last.z[behind_last..][..count].iter_mut().zip(between.iter().rev()).for_each(|(v, z)| *v = *z);
        first.backward();
        last.backward();
        [&*first, &*last, &*middle].into_iter().for_each(|piece| piece.give(z));
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        let ends: usize = self.ends.iter().map(|end| lock(end).bytes()).sum();
        ends + self.middle.bytes() + 8 * self.place.len() + 4 * self.number.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;
    use crate::grid::inspection::{Inspection, Questions};
    use crate::grid::levels::Grid;
    use crate::grid::stencil::{StencilView, View};

    const SITE: Site = Site { level: 1, embedding: Embedding::FINEST };

    /// A matrix with random couplings where there are nodes, and row sums of `excess`.
    fn half_stencil(grid: Grid, skew: bool, excess: f64) -> HalfStencil {
        let mut state = 7_u64;
        let mut coupling = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            -0.1 - (state >> 40) as f64 / (1 << 24) as f64
        };
        let mut a = HalfStencil::zeroed(grid).unwrap();
        let offsets = if skew { SKEW } else { STRAIGHT };
        let inside = |i: isize, j: isize| (0..grid.nx as isize).contains(&i) && (0..grid.ny as isize).contains(&j);
        for (i, j) in (0..grid.ny).flat_map(|j| (0..grid.nx).map(move |i| (i, j))) {
            let place = ring_index(grid.nx, i, j);
            a.diagonal[place] = excess;
            let arrays = [&mut a.east, &mut a.north, &mut a.northeast, &mut a.northwest];
            for (array, (di, dj)) in arrays.into_iter().zip(offsets) {
                if inside(i as isize + di, j as isize + dj) {
                    array[place] = coupling();
                }
            }
        }
        a
    }

    #[test]
    fn two_ends_solve_what_one_does() {
        let sizes = [(9, 9), (1, 40), (40, 1), (7, 23), (23, 7), (31, 31), (12, 64), (63, 63)];
        for ((nx, ny), skew, regular) in
            sizes.into_iter().flat_map(|size| [(size, false, true), (size, true, true), (size, false, false)])
        {
            let grid = Grid { nx, ny };
            let a = half_stencil(grid, skew, if regular { 0.1 } else { 0.0 });
            // Of what is asked where a pivot is zero: one piece, whose rows all sum to zero.
            let coupled = vec![-1.0; grid.nodes()];
            let mut center_of_neumann = vec![0.0; grid.nodes()];
            for (i, j) in (0..ny).flat_map(|j| (0..nx).map(move |i| (i, j))) {
                let sides = [i > 0, i + 1 < nx, j > 0, j + 1 < ny];
                center_of_neumann[j * nx + i] = sides.iter().filter(|&&side| side).count() as f64;
            }
            let view = |name, values| View::new(name, values, grid, nx);
            let of_context = StencilView {
                grid,
                center: view("center", &center_of_neumann),
                east: view("east", &coupled),
                north: view("north", &coupled),
                corners: None,
            };
            let mut inspection = Inspection::default();
            inspection.start(1).unwrap();
            inspection.look(0, &of_context, 0..ny, &Questions { finite: true, zero_row_sum: 1e-12 });
            inspection.finish(&of_context, true).unwrap();
            let context = PivotContext::new(&of_context, &inspection.components);
            let remainder = Remainder { grid, skew };
            let solved = |worth: usize| {
                let mut band = Band::with_ends_from(remainder, worth).unwrap();
                let mut z = vec![0.0; ring_len(grid)];
                // Twice: nothing of the first matrix stays.
                for _ in 0..2 {
                    (0..Ends::COUNT).for_each(|k| band.ends(SITE).clear(k));
                    band.begin(&a, skew);
                    (0..Ends::COUNT).rev().for_each(|k| band.ends(SITE).eliminate(k, &context));
                    band.finish(SITE, &context).unwrap();
                    z.fill(0.0);
                    let count = band.place.len();
                    for (k, &place) in band.place.iter().enumerate() {
                        z[place] = if k % 2 == 0 { 1.0 } else { -1.0 };
                        // Sums to zero.
                        if k + 1 == count && count % 2 == 1 {
                            z[place] = 0.0;
                        }
                    }
                    band.solve(&mut z);
                }
                let values: Vec<f64> = band.place.iter().map(|&place| z[place]).collect();
                let mean = if regular { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 };
                (values.iter().map(|v| v - mean).collect::<Vec<_>>(), band.middle.count)
            };
            let ((one, without), (two, between)) = (solved(usize::MAX), solved(0));
            let nodes = remainder.nodes();
            assert_eq!((without, between), (0, remainder.between_ends(0)), "{nx} x {ny}");
            let largest = one.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
            for (one, two) in one.iter().zip(&two) {
                // Rounding of so many operations each.
                assert!((one - two).abs() <= 1e-13 * nodes as f64 * largest, "{nx} x {ny}, skew {skew}: {one} {two}");
            }
        }
    }

    #[test]
    fn a_refused_node_of_the_first_end_comes_first() {
        let grid = Grid { nx: 9, ny: 40 };
        let mut a = half_stencil(grid, false, 0.1);
        for j in [3, 35] {
            a.diagonal[ring_index(grid.nx, 4, j)] = -100.0;
        }
        let ones = vec![1.0; grid.nodes()];
        let view = |name| View::new(name, &ones, grid, grid.nx);
        let of_context =
            StencilView { grid, center: view("center"), east: view("east"), north: view("north"), corners: None };
        let context = PivotContext { a: &of_context, components: &Inspection::default().components, center: None };
        let mut band = Band::with_ends_from(Remainder { grid, skew: false }, 0).unwrap();
        for _ in 0..2 {
            (0..Ends::COUNT).for_each(|k| band.ends(SITE).clear(k));
            band.begin(&a, false);
            (0..Ends::COUNT).for_each(|k| band.ends(SITE).eliminate(k, &context));
            let error = band.finish(SITE, &context).unwrap_err();
            assert_eq!(error.matrix_place(), Some(Place::node(SITE.level, 4, 3)));
        }
        // A matrix that is not refused after one that was.
        for j in [3, 35] {
            a.diagonal[ring_index(grid.nx, 4, j)] = 0.1;
        }
        let solved = |band: &mut Band| {
            (0..Ends::COUNT).for_each(|k| band.ends(SITE).clear(k));
            band.begin(&a, false);
            (0..Ends::COUNT).for_each(|k| band.ends(SITE).eliminate(k, &context));
            band.finish(SITE, &context).unwrap();
            let mut z = vec![0.0; ring_len(grid)];
            band.place.iter().for_each(|&place| z[place] = 1.0);
            band.solve(&mut z);
            z
        };
        let mut fresh = Band::with_ends_from(Remainder { grid, skew: false }, 0).unwrap();
        assert_eq!(solved(&mut band), solved(&mut fresh));
    }
}

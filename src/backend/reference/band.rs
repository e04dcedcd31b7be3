//! Exact factorization of what the eliminations leave: banded L D L^T (report, 2.7).
//!
//! Nodes are numbered line by line along the shorter side. In excess form, like the pivots of the levels:
//! with a_kl the couplings of node k to later nodes l and s_k its row sum over what is left,
//!
//! ```text
//! d_k = s_k - sum_l a_kl,   a_lm -= a_kl a_km / d_k,   s_l -= a_kl s_k / d_k,   l, m > k.
//! ```
//!
//! Cost n w^2 / 2 multiply-adds for half bandwidth w, 2 n w a solve.

use crate::backend::sums::dot;
use crate::backend::{Pivot, PivotContext};
use crate::error::{Result, zeroed};
use crate::grid::levels::{Embedding, Remainder};
use crate::grid::stencil::{HalfStencil, ring_index, ring_len, ring_stride};
use crate::isa::for_each_isa;

for_each_isa! {
    /// Takes a node out: row, its couplings, from those of the first `count` nodes behind it, `rest`, and their excesses.
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

    /// The same with four nodes that follow each other, `rest` and `excess` of the nodes behind the last one, whose rows
    /// are loaded and stored once: value s of a row of `rows` is the coupling to node s behind the last one, and behind
    /// the band stand `LANES` zeros. The operations on each number are those of one node after the other.
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
}

/// Nodes that are taken out together.
const TOGETHER: usize = 4;
/// Numbers of the widest vector.
const LANES: usize = 8;

/// Neighbours that a half stencil couples a node to: east, north, northeast, northwest.
const STRAIGHT: [(isize, isize); 4] = [(1, 0), (0, 1), (1, 1), (-1, 1)];
/// The same on black nodes: two columns east, two rows north, and the diagonals.
const SKEW: [(isize, isize); 4] = [(2, 0), (0, 2), (1, 1), (-1, 1)];

/// The factor.
#[derive(Default)]
pub struct Band {
    width: usize,
    /// Place of node k in a ringed array.
    place: Vec<usize>,
    /// Node (i, j) of node k.
    node: Vec<(usize, usize)>,
    /// Number + 1 of the node at a place; 0: none.
    number: Vec<u32>,
    /// Couplings of node k to k + 1 .. k + width; behind them room for whole vectors.
    couplings: Vec<f64>,
    /// Four rows, see `eliminate_four`.
    four: Vec<f64>,
    excess: Vec<f64>,
    inverse_pivot: Vec<f64>,
    z: Vec<f64>,
}

impl Band {
    /// Numbers the nodes.
    pub fn new(remainder: Remainder) -> Result<Self> {
        let (grid, n) = (remainder.grid, remainder.nodes());
        let width = remainder.bandwidth();
        let mut band = Self {
            width,
            place: zeroed(n, "the exact factor")?,
            node: zeroed(n, "the exact factor")?,
            number: zeroed(ring_len(grid), "the exact factor")?,
            couplings: zeroed(n * width + LANES, "the exact factor")?,
            four: zeroed(TOGETHER * (width + LANES), "the exact factor")?,
            excess: zeroed(n, "the exact factor")?,
            inverse_pivot: zeroed(n, "the exact factor")?,
            z: zeroed(n + width, "the exact factor")?,
        };
        let black = (grid.ox() + grid.oy()) % 2;
        let (lines, length) = if grid.nx <= grid.ny { (grid.ny, grid.nx) } else { (grid.nx, grid.ny) };
        let mut k = 0;
        for line in 0..lines {
            for along in 0..length {
                let (i, j) = if grid.nx <= grid.ny { (along, line) } else { (line, along) };
                if remainder.skew && (i + j) % 2 != black {
                    continue;
                }
                band.place[k] = ring_index(grid.nx, i, j);
                band.node[k] = (i, j);
                band.number[band.place[k]] = k as u32 + 1;
                k += 1;
            }
        }
        debug_assert_eq!(k, n);
        Ok(band)
    }

    /// Factorizes the half stencil `a` (excess form) on the numbered nodes.
    pub fn factorize(
        &mut self,
        a: &HalfStencil,
        skew: bool,
        level: usize,
        embedding: Embedding,
        context: &PivotContext,
    ) -> Result<()> {
        self.gather(a, skew);
        let (n, w) = (self.place.len(), self.width);
        for first in (0..n).step_by(TOGETHER) {
            let (mut inverse, mut handed) = ([0.0; TOGETHER], [0.0; TOGETHER]);
            let together = first + TOGETHER <= n;
            for at in 0..TOGETHER.min(n - first) {
                let k = first + at;
                let (done, rest) = self.couplings.split_at_mut((k + 1) * w);
                let row = &done[k * w..];
                let sum = crate::backend::sums::sum(row);
                let pivot = Pivot::exact(self.excess[k], sum);
                let floating = row.iter().all(|&c| c == 0.0);
                let (i, j) = self.node[k];
                let d = pivot.accepted(pivot.d, floating, || context.node(level, embedding.fine(i, j)))?.d;
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

    fn gather(&mut self, a: &HalfStencil, skew: bool) {
        let (w, stride) = (self.width, ring_stride(a.nx) as isize);
        self.couplings.fill(0.0);
        let offsets = if skew { SKEW } else { STRAIGHT };
        for k in 0..self.place.len() {
            let place = self.place[k];
            self.excess[k] = a.diagonal[place];
            let values = [a.east[place], a.north[place], a.northeast[place], a.northwest[place]];
            for ((di, dj), value) in offsets.into_iter().zip(values) {
                let other = self.number[(place as isize + dj * stride + di) as usize];
                if other > 0 {
                    let l = other as usize - 1;
                    let (low, high) = (k.min(l), k.max(l));
                    self.couplings[low * w + high - low - 1] = value;
                }
            }
        }
    }

    /// Solves in place on the numbered nodes of the ringed array `z`.
    pub fn solve(&mut self, z: &mut [f64]) {
        let (n, w) = (self.place.len(), self.width);
        for (v, &place) in self.z.iter_mut().zip(&self.place) {
            *v = z[place];
        }
        self.z[n..].fill(0.0);
        for k in 0..n {
            let (done, rest) = self.z.split_at_mut(k + 1);
            done[k] *= self.inverse_pivot[k];
            let y = done[k];
            for (v, &c) in rest.iter_mut().zip(&self.couplings[k * w..][..w]) {
                *v -= c * y;
            }
        }
        self.z[n..].fill(0.0);
        for k in (0..n).rev() {
            let later = dot(&self.couplings[k * w..][..w], &self.z[k + 1..]);
            self.z[k] -= self.inverse_pivot[k] * later;
        }
        for (v, &place) in self.z.iter().zip(&self.place) {
            z[place] = *v;
        }
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        8 * (self.couplings.len() + self.excess.len() + self.inverse_pivot.len() + self.z.len())
            + 24 * self.place.len()
            + 4 * self.number.len()
    }
}

//! The levels of the RRB factorization over natural storage: the papers' S1, one plain loop per formula.
//!
//! Grid q holds a 9-point half stencil in excess form (`straight`). Level 2q + 1 lumps and eliminates its
//! red nodes; what is left couples black nodes along the diagonals and at distance two (`skew`). Level
//! 2q + 2 does the same to the black nodes that are not kept; what is left is the half stencil of grid
//! q + 1. (Report, section 2.2.)

use super::band::Band;
use crate::backend::{Pivot, PivotContext, Setup, checked_pivot};
use crate::error::{Result, zeroed};
use crate::grid::levels::{Embedding, Grid};
use crate::grid::stencil::{HalfStencil, ring_index, ring_len, ring_stride};

/// One grid and its two levels.
pub struct NaturalGrid {
    grid: Grid,
    embedding: Embedding,
    /// The matrix on all nodes; excess form.
    pub straight: HalfStencil,
    /// The matrix on black nodes after the odd level: couplings to (i + 2, j), (i, j + 2) and the diagonals.
    pub skew: HalfStencil,
    /// 1 / d of the nodes that this grid eliminates.
    pub inverse_pivot: Vec<f64>,
    /// excess / d of those.
    handed_on: Vec<f64>,
    /// Right-hand side in, solution out.
    pub z: Vec<f64>,
}

/// Levels `first_level + 1` to `levels`, and the exact factor of the remainder.
pub struct NaturalLevels {
    /// From the finest down to the remainder's.
    pub grids: Vec<NaturalGrid>,
    first_level: usize,
    levels: usize,
    band: Band,
}

fn black_parity(grid: Grid) -> usize {
    (grid.ox() + grid.oy()) % 2
}

/// Nodes (i, j) of the colour that the odd level eliminates.
pub fn red_nodes(grid: Grid) -> impl Iterator<Item = (usize, usize)> + Clone {
    let black = black_parity(grid);
    (0..grid.ny).flat_map(move |j| ((j + black + 1) % 2..grid.nx).step_by(2).map(move |i| (i, j)))
}

/// Nodes that the odd level leaves.
pub fn black_nodes(grid: Grid) -> impl Iterator<Item = (usize, usize)> + Clone {
    let black = black_parity(grid);
    (0..grid.ny).flat_map(move |j| ((j + black) % 2..grid.nx).step_by(2).map(move |i| (i, j)))
}

/// Black nodes that the even level eliminates.
fn dropped_nodes(grid: Grid) -> impl Iterator<Item = (usize, usize)> {
    (1 - grid.oy()..grid.ny).step_by(2).flat_map(move |j| (1 - grid.ox()..grid.nx).step_by(2).map(move |i| (i, j)))
}

/// Nodes of the next grid.
fn kept_nodes(grid: Grid) -> impl Iterator<Item = (usize, usize)> {
    (grid.oy()..grid.ny).step_by(2).flat_map(move |j| (grid.ox()..grid.nx).step_by(2).map(move |i| (i, j)))
}

impl NaturalGrid {
    fn new(grid: Grid, embedding: Embedding) -> Result<Self> {
        let array = || zeroed(ring_len(grid), "a level of the preconditioner");
        Ok(Self {
            grid,
            embedding,
            straight: HalfStencil::zeroed(grid)?,
            skew: HalfStencil::zeroed(grid)?,
            inverse_pivot: array()?,
            handed_on: array()?,
            z: array()?,
        })
    }

    /// Lumps and eliminates the red nodes. `exact_center`: the red centers are given (first level of a
    /// 5-point matrix, where nothing is lumped).
    fn eliminate_red(
        &mut self,
        level: usize,
        setup: &Setup,
        context: &PivotContext,
        exact_center: Option<&[f64]>,
    ) -> Result<()> {
        let (grid, n) = (self.grid, ring_stride(self.grid.nx));
        let (a, s) = (&self.straight, &mut self.skew);
        let corners = |c: usize| (a.northeast[c] + a.northeast[c - n - 1]) + (a.northwest[c] + a.northwest[c - n + 1]);

        for (i, j) in red_nodes(grid) {
            let c = ring_index(grid.nx, i, j);
            let kept = [a.east[c - 1], a.east[c], a.north[c - n], a.north[c]];
            let pivot = Pivot::new(a.diagonal[c], kept, corners(c), setup.lost());
            let center = pivot_center(a.diagonal[c], kept, corners(c));
            let d = match exact_center {
                Some(centers) => centers[c],
                None => {
                    checked_pivot(pivot, center, kept == [0.0; 4], || context.node(level, self.embedding.fine(i, j)))?
                }
            };
            self.inverse_pivot[c] = 1.0 / d;
            self.handed_on[c] = pivot.excess * self.inverse_pivot[c];
        }
        let (h, t) = (&self.inverse_pivot, &self.handed_on);
        for (i, j) in black_nodes(grid) {
            let c = ring_index(grid.nx, i, j);
            let (west, east, south, north) = (c - 1, c + 1, c - n, c + n);
            let handed =
                (a.east[west] * t[west] + a.east[c] * t[east]) + (a.north[south] * t[south] + a.north[c] * t[north]);
            let lumped = (1.0 - setup.black_keeps()) * setup.lost() * corners(c);
            s.diagonal[c] = a.diagonal[c] - lumped - handed;
            // a - sum over the common red neighbours r of a_br a_rb' / d_r; products as (a / d) a, so that no
            // scale of A overflows.
            s.northeast[c] = setup.black_keeps() * a.northeast[c]
                - (a.east[c] * h[east]) * a.north[east]
                - (a.north[c] * h[north]) * a.east[north];
            s.northwest[c] = setup.black_keeps() * a.northwest[c]
                - (a.east[west] * h[west]) * a.north[west]
                - (a.north[c] * h[north]) * a.east[north - 1];
            s.east[c] = -(a.east[c] * h[east]) * a.east[east];
            s.north[c] = -(a.north[c] * h[north]) * a.north[north];
        }
        Ok(())
    }

    /// Lumps and eliminates the black nodes that are not kept; writes the half stencil of the next grid.
    fn eliminate_dropped(
        &mut self,
        level: usize,
        setup: &Setup,
        context: &PivotContext,
        coarse: &mut HalfStencil,
    ) -> Result<()> {
        let (grid, n) = (self.grid, ring_stride(self.grid.nx));
        let a = &self.skew;
        let distant = |c: usize| (a.east[c] + a.east[c - 2]) + (a.north[c] + a.north[c - 2 * n]);

        for (i, j) in dropped_nodes(grid) {
            let c = ring_index(grid.nx, i, j);
            let kept = [a.northeast[c - n - 1], a.northwest[c - n + 1], a.northwest[c], a.northeast[c]];
            let pivot = Pivot::new(a.diagonal[c], kept, distant(c), setup.lost());
            let center = pivot_center(a.diagonal[c], kept, distant(c));
            let d = checked_pivot(pivot, center, kept == [0.0; 4], || context.node(level, self.embedding.fine(i, j)))?;
            self.inverse_pivot[c] = 1.0 / d;
            self.handed_on[c] = pivot.excess * self.inverse_pivot[c];
        }
        let (h, t) = (&self.inverse_pivot, &self.handed_on);
        for (i, j) in kept_nodes(grid) {
            let c = ring_index(grid.nx, i, j);
            let k = ring_index(coarse.nx, i / 2, j / 2);
            let (sw, se, nw, ne) = (c - n - 1, c - n + 1, c + n - 1, c + n + 1);
            let handed =
                (a.northeast[sw] * t[sw] + a.northwest[se] * t[se]) + (a.northwest[c] * t[nw] + a.northeast[c] * t[ne]);
            let lumped = (1.0 - setup.black_keeps()) * setup.lost() * distant(c);
            coarse.diagonal[k] = a.diagonal[c] - lumped - handed;
            coarse.east[k] = setup.black_keeps() * a.east[c]
                - (a.northeast[c] * h[ne]) * a.northwest[ne - n + 1]
                - (a.northwest[se] * h[se]) * a.northeast[se];
            coarse.north[k] = setup.black_keeps() * a.north[c]
                - (a.northeast[c] * h[ne]) * a.northwest[ne]
                - (a.northwest[c] * h[nw]) * a.northeast[nw];
            coarse.northeast[k] = -(a.northeast[c] * h[ne]) * a.northeast[ne];
            coarse.northwest[k] = -(a.northwest[c] * h[nw]) * a.northwest[nw];
        }
        Ok(())
    }

    /// y_r = r_r / d_r, r_b -= A_br y_r.
    fn forward_red(&mut self) {
        let (a, z, n) = (&self.straight, &mut self.z, ring_stride(self.grid.nx));
        for (i, j) in red_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            z[c] *= self.inverse_pivot[c];
        }
        for (i, j) in black_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            z[c] -=
                (a.east[c - 1] * z[c - 1] + a.east[c] * z[c + 1]) + (a.north[c - n] * z[c - n] + a.north[c] * z[c + n]);
        }
    }

    /// z_r = y_r - A_rb z_b / d_r.
    fn backward_red(&mut self) {
        let (a, z, n) = (&self.straight, &mut self.z, ring_stride(self.grid.nx));
        for (i, j) in red_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            let sum =
                (a.east[c - 1] * z[c - 1] + a.east[c] * z[c + 1]) + (a.north[c - n] * z[c - n] + a.north[c] * z[c + n]);
            z[c] -= self.inverse_pivot[c] * sum;
        }
    }

    /// The same from dropped to kept nodes.
    fn forward_dropped(&mut self) {
        let (a, z, n) = (&self.skew, &mut self.z, ring_stride(self.grid.nx));
        for (i, j) in dropped_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            z[c] *= self.inverse_pivot[c];
        }
        for (i, j) in kept_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            z[c] -= diagonal_sum(a, z, c, n);
        }
    }

    fn backward_dropped(&mut self) {
        let (a, z, n) = (&self.skew, &mut self.z, ring_stride(self.grid.nx));
        for (i, j) in dropped_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            let sum = diagonal_sum(a, z, c, n);
            z[c] -= self.inverse_pivot[c] * sum;
        }
    }
}

/// Sum of coupling times value over the four diagonal neighbours.
fn diagonal_sum(a: &HalfStencil, z: &[f64], c: usize, n: usize) -> f64 {
    let (sw, se, nw, ne) = (c - n - 1, c - n + 1, c + n - 1, c + n + 1);
    (a.northeast[sw] * z[sw] + a.northwest[se] * z[se]) + (a.northwest[c] * z[nw] + a.northeast[c] * z[ne])
}

/// Center of a row in excess form, before lumping.
fn pivot_center(excess: f64, kept: [f64; 4], lumped: f64) -> f64 {
    excess - ((kept[0] + kept[1]) + (kept[2] + kept[3])) - lumped
}

impl NaturalLevels {
    /// Room for levels `first_level + 1 ..= levels` from `grid` on, which lies as `embedding` says.
    pub fn new(grid: Grid, embedding: Embedding, first_level: usize, levels: usize) -> Result<Self> {
        let local = levels - first_level;
        let mut grids = Vec::new();
        let (mut g, mut e) = (grid, embedding);
        for _ in 0..=local / 2 {
            grids.push(NaturalGrid::new(g, e)?);
            e = e.coarse(g);
            g = g.coarse();
        }
        Ok(Self { grids, first_level, levels, band: Band::new(grid.remainder(local))? })
    }

    /// The half stencil (excess form) to fill before `factorize`.
    pub fn input(&mut self) -> &mut HalfStencil {
        &mut self.grids[0].straight
    }

    /// Eliminates level by level. `exact_center`: see [`NaturalGrid::eliminate_red`], first level only.
    pub fn factorize(&mut self, setup: &Setup, context: &PivotContext, exact_center: Option<&[f64]>) -> Result<()> {
        for q in 0..self.grids.len() {
            let level = self.first_level + 2 * q + 1;
            if level <= self.levels {
                self.grids[q].eliminate_red(level, setup, context, exact_center.filter(|_| q == 0))?;
            }
            if level < self.levels {
                let (fine, coarse) = self.grids.split_at_mut(q + 1);
                fine[q].eliminate_dropped(level + 1, setup, context, &mut coarse[0].straight)?;
            }
        }
        let last = self.grids.last().expect("there is always the remainder's grid");
        let skew = (self.levels - self.first_level) % 2 == 1;
        let remainder = if skew { &last.skew } else { &last.straight };
        self.band.factorize(remainder, skew, self.levels + 1, last.embedding, context)
    }

    /// M z = z in place in `grids[0].z`. `schur`: on black nodes alone, from the second level on.
    pub fn apply(&mut self, schur: bool) {
        let local = self.levels - self.first_level;
        for q in 0..self.grids.len() {
            if 2 * q < local && !(schur && q == 0) {
                self.grids[q].forward_red();
            }
            if 2 * q + 1 < local {
                self.grids[q].forward_dropped();
                let (fine, coarse) = self.grids.split_at_mut(q + 1);
                copy_kept(fine[q].grid, |k, c| coarse[0].z[c] = fine[q].z[k]);
            }
        }
        let last = self.grids.last_mut().expect("there is always the remainder's grid");
        self.band.solve(&mut last.z);
        for q in (0..self.grids.len()).rev() {
            if 2 * q + 1 < local {
                let (fine, coarse) = self.grids.split_at_mut(q + 1);
                let (grid, z) = (fine[q].grid, &mut fine[q].z);
                copy_kept(grid, |k, c| z[k] = coarse[0].z[c]);
                fine[q].backward_dropped();
            }
            if 2 * q < local && !(schur && q == 0) {
                self.grids[q].backward_red();
            }
        }
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.grids.iter().map(|g| 13 * 8 * g.z.len()).sum::<usize>() + self.band.bytes()
    }
}

/// Calls `copy` with the places of each kept node on its grid and on the next.
fn copy_kept(grid: Grid, mut copy: impl FnMut(usize, usize)) {
    let coarse = grid.coarse();
    for (i, j) in kept_nodes(grid) {
        copy(ring_index(grid.nx, i, j), ring_index(coarse.nx, i / 2, j / 2));
    }
}

//! Levels of the RRB factorization in natural storage, with one loop per formula (report 16-06, section 2.2;
//! docs/theory/rrb.md, row-sum form).
//!
//! Grid q stores a 9-point half stencil in row-sum form (`matrix`). Level 2q + 1, the odd level, drops and lumps the
//! diagonal couplings of the red nodes of this grid, and eliminates the red nodes. The remaining matrix couples black
//! nodes along the diagonals and at distance two (`skew_matrix`). Level 2q + 2, the even level, eliminates the black
//! nodes that are not in grid q + 1, after it has dropped and lumped their couplings at distance two. The remaining
//! matrix is the half stencil of grid q + 1.
//!
//! For an eliminated node k with the row sum s_k, a level computes
//!
//! ```text
//! s~_k = s_k - (1 - omega) sum_l a_kl (dropped l),   d_k = s~_k - sum_l a_kl (kept l),
//! a_bb' -= a_bk a_kb' / d_k,   s_b -= a_bk s~_k / d_k   for the neighbours b, b' that remain.
//! ```
//!
//! With M2, couplings between remaining nodes b and b' in the directions of the dropped couplings are lumped first:
//! s_b -= (1 - omega) sum_b' a_bb', then a_bb' = 0.

use crate::base::reduce::dot;
use crate::error::{Result, push, reserve, zeroed};
use crate::rrb::backend::{Pivot, PivotContext, Setup};
use crate::rrb::coarsest::EnvelopeSolver;
use crate::rrb::recursion;
use crate::rrb::recursion::{Cycle, CycleKind, CycleSteps, CycleVector, Recursion};
use crate::rrb::storage::Storage;
use crate::stencil::levels::{CoarsestNodes, Embedding, Grid};
use crate::stencil::matrix::{HalfStencil, ring_index, ring_len, ring_stride};
use std::ops::Range;

/// One grid, and the two levels that eliminate nodes of this grid.
pub struct NaturalGrid {
    grid: Grid,
    embedding: Embedding,
    /// Matrix on all nodes in row-sum form; `diagonal` contains the row sums.
    pub matrix: HalfStencil,
    /// Matrix on the black nodes after the odd level: couplings to (i + 2, j), (i, j + 2) and the diagonal neighbours.
    pub skew_matrix: HalfStencil,
    /// 1 / d_k of the eliminated nodes.
    pub inverse_pivot: Vec<f64>,
    /// s~_k / d_k of the eliminated nodes.
    row_sum_over_pivot: Vec<f64>,
    /// Right-hand side before the sweeps, solution after the sweeps.
    pub z: Vec<f64>,
}

/// The levels `first_level + 1` to `levels`, and the exact factor of the coarsest matrix.
pub struct NaturalLevels {
    /// Grids from the finest one to the grid of the coarsest system.
    pub grids: Vec<NaturalGrid>,
    first_level: usize,
    levels: usize,
    coarsest: CoarsestNodes,
    coarsest_solver: EnvelopeSolver,
    /// Sections of the cycle: the levels between two recursions.
    sections: Vec<Section>,
    /// Number of the first section that begins with a recursion: 0 if the first grid is a recursion grid, otherwise 1.
    first_recursion: usize,
    recursion: Recursion,
    /// Whether the cycle was selected automatically.
    kind_is_automatic: bool,
    /// Storage format of M, and the power of two by which values are divided before they are rounded to this format.
    storage_and_unit: (Storage, f64),
    /// Whether CG runs on S1. The sweeps then begin with the second level, on the black nodes of the first grid.
    uses_schur: bool,
}

/// Section of the cycle: its first grid, and four vectors on this grid if it is a recursion grid.
struct Section {
    first_grid: usize,
    vectors: [Vec<f64>; 4],
}

/// Indices in `Section::vectors`. The vector z is `NaturalGrid::z`.
const R: usize = 0;
const D: usize = 1;
const Q: usize = 2;
const U: usize = 3;

/// Returns (i + j) mod 2 of the black nodes.
pub fn black_parity(grid: Grid) -> usize {
    (grid.kept_column_parity() + grid.kept_row_parity()) % 2
}

/// Returns the red nodes (i, j), which the odd level eliminates.
pub fn red_nodes(grid: Grid) -> impl Iterator<Item = (usize, usize)> + Clone {
    let parity = black_parity(grid);
    (0..grid.ny).flat_map(move |j| ((j + parity + 1) % 2..grid.nx).step_by(2).map(move |i| (i, j)))
}

/// Returns the black nodes (i, j), which remain after the odd level.
pub fn black_nodes(grid: Grid) -> impl Iterator<Item = (usize, usize)> + Clone {
    let parity = black_parity(grid);
    (0..grid.ny).flat_map(move |j| ((j + parity) % 2..grid.nx).step_by(2).map(move |i| (i, j)))
}

/// Returns the black nodes that the even level eliminates.
fn eliminated_black_nodes(grid: Grid) -> impl Iterator<Item = (usize, usize)> {
    (1 - grid.kept_row_parity()..grid.ny)
        .step_by(2)
        .flat_map(move |j| (1 - grid.kept_column_parity()..grid.nx).step_by(2).map(move |i| (i, j)))
}

/// Returns the nodes of the next grid.
fn coarse_nodes(grid: Grid) -> impl Iterator<Item = (usize, usize)> {
    (grid.kept_row_parity()..grid.ny)
        .step_by(2)
        .flat_map(move |j| (grid.kept_column_parity()..grid.nx).step_by(2).map(move |i| (i, j)))
}

impl NaturalGrid {
    fn new(grid: Grid, embedding: Embedding) -> Result<Self> {
        let zeroed_array = || zeroed(ring_len(grid), "a level of the preconditioner");
        Ok(Self {
            grid,
            embedding,
            matrix: HalfStencil::zeroed(grid)?,
            skew_matrix: HalfStencil::zeroed(grid)?,
            inverse_pivot: zeroed_array()?,
            row_sum_over_pivot: zeroed_array()?,
            z: zeroed_array()?,
        })
    }

    /// Lumps the dropped couplings of the red nodes, eliminates the red nodes, and computes `skew_matrix`.
    /// `exact_center` contains the centers of A if this is the first level and its elimination is exact (see
    /// [`Setup::uses_schur_complement`]). These centers are then the pivots, because this level drops no couplings.
    fn eliminate_red(
        &mut self,
        level: usize,
        setup: &Setup,
        context: &PivotContext,
        exact_center: Option<&[f64]>,
    ) -> Result<()> {
        let (grid, n) = (self.grid, ring_stride(self.grid.nx));
        let (a, s) = (&self.matrix, &mut self.skew_matrix);
        let corner_sum =
            |c: usize| (a.northeast[c] + a.northeast[c - n - 1]) + (a.northwest[c] + a.northwest[c - n + 1]);

        for (i, j) in red_nodes(grid) {
            let c = ring_index(grid.nx, i, j);
            let kept_couplings = [a.east[c - 1], a.east[c], a.north[c - n], a.north[c]];
            let pivot = Pivot::new(a.diagonal[c], kept_couplings, corner_sum(c), setup.one_minus_omega());
            let center = pivot_center(a.diagonal[c], kept_couplings, corner_sum(c));
            let d = match exact_center {
                Some(centers) => centers[c],
                None => {
                    let locate_node = || context.node(level, self.embedding.fine(i, j));
                    pivot.accept_rounded(center, kept_couplings == [0.0; 4], setup, locate_node)?.d
                }
            };
            self.inverse_pivot[c] = 1.0 / d;
            self.row_sum_over_pivot[c] = pivot.row_sum * self.inverse_pivot[c];
        }
        let (h, t) = (&self.inverse_pivot, &self.row_sum_over_pivot);
        for (i, j) in black_nodes(grid) {
            let c = ring_index(grid.nx, i, j);
            let (west, east, south, north) = (c - 1, c + 1, c - n, c + n);
            let from_eliminated =
                (a.east[west] * t[west] + a.east[c] * t[east]) + (a.north[south] * t[south] + a.north[c] * t[north]);
            let lumped_sum = (1.0 - setup.kept_fraction()) * setup.one_minus_omega() * corner_sum(c);
            s.diagonal[c] = a.diagonal[c] - lumped_sum - from_eliminated;
            // The new coupling of the black nodes b and b' is a_bb' - sum_r a_br a_rb' / d_r over their common red
            // neighbours r. Products are computed as (a / d) a, so that they do not overflow for any scaling of A.
            s.northeast[c] = setup.kept_fraction() * a.northeast[c]
                - (a.east[c] * h[east]) * a.north[east]
                - (a.north[c] * h[north]) * a.east[north];
            s.northwest[c] = setup.kept_fraction() * a.northwest[c]
                - (a.east[west] * h[west]) * a.north[west]
                - (a.north[c] * h[north]) * a.east[north - 1];
            s.east[c] = -(a.east[c] * h[east]) * a.east[east];
            s.north[c] = -(a.north[c] * h[north]) * a.north[north];
        }
        Ok(())
    }

    /// Rounds the diagonal couplings of `skew_matrix` to the storage format. Then eliminates the black nodes that are
    /// not in the next grid, after lumping their dropped couplings, and computes the half stencil `coarse` of the next
    /// grid.
    fn eliminate_black(
        &mut self,
        level: usize,
        setup: &Setup,
        context: &PivotContext,
        coarse: &mut HalfStencil,
    ) -> Result<()> {
        let (grid, n) = (self.grid, ring_stride(self.grid.nx));
        for c in black_nodes(grid).map(|(i, j)| ring_index(grid.nx, i, j)) {
            self.skew_matrix.northeast[c] = setup.rounded(self.skew_matrix.northeast[c]);
            self.skew_matrix.northwest[c] = setup.rounded(self.skew_matrix.northwest[c]);
        }
        let a = &self.skew_matrix;
        let distant_sum = |c: usize| (a.east[c] + a.east[c - 2]) + (a.north[c] + a.north[c - 2 * n]);

        for (i, j) in eliminated_black_nodes(grid) {
            let c = ring_index(grid.nx, i, j);
            let kept_couplings = [a.northeast[c - n - 1], a.northwest[c - n + 1], a.northwest[c], a.northeast[c]];
            let pivot = Pivot::new(a.diagonal[c], kept_couplings, distant_sum(c), setup.one_minus_omega());
            let center = pivot_center(a.diagonal[c], kept_couplings, distant_sum(c));
            let locate_node = || context.node(level, self.embedding.fine(i, j));
            let d = pivot.accept_rounded(center, kept_couplings == [0.0; 4], setup, locate_node)?.d;
            self.inverse_pivot[c] = 1.0 / d;
            self.row_sum_over_pivot[c] = pivot.row_sum * self.inverse_pivot[c];
        }
        let (h, t) = (&self.inverse_pivot, &self.row_sum_over_pivot);
        for (i, j) in coarse_nodes(grid) {
            let c = ring_index(grid.nx, i, j);
            let k = ring_index(coarse.nx, i / 2, j / 2);
            let (sw, se, nw, ne) = (c - n - 1, c - n + 1, c + n - 1, c + n + 1);
            let from_eliminated =
                (a.northeast[sw] * t[sw] + a.northwest[se] * t[se]) + (a.northwest[c] * t[nw] + a.northeast[c] * t[ne]);
            let lumped_sum = (1.0 - setup.kept_fraction()) * setup.one_minus_omega() * distant_sum(c);
            coarse.diagonal[k] = a.diagonal[c] - lumped_sum - from_eliminated;
            let east = setup.kept_fraction() * a.east[c]
                - (a.northeast[c] * h[ne]) * a.northwest[ne - n + 1]
                - (a.northwest[se] * h[se]) * a.northeast[se];
            let north = setup.kept_fraction() * a.north[c]
                - (a.northeast[c] * h[ne]) * a.northwest[ne]
                - (a.northwest[c] * h[nw]) * a.northeast[nw];
            coarse.east[k] = setup.rounded(east);
            coarse.north[k] = setup.rounded(north);
            coarse.northeast[k] = -(a.northeast[c] * h[ne]) * a.northeast[ne];
            coarse.northwest[k] = -(a.northwest[c] * h[nw]) * a.northwest[nw];
        }
        Ok(())
    }

    /// Computes q = A d with q_i = s_i d_i + sum_j a_ij (d_j - d_i). A is `matrix`, including the couplings that the
    /// levels of this grid drop. `round_entry` rounds the entries to the storage format.
    fn multiply(&self, d: &[f64], q: &mut [f64], round_entry: impl Fn(f64) -> f64) {
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        for (i, j) in red_nodes(self.grid).chain(black_nodes(self.grid)) {
            let c = ring_index(self.grid.nx, i, j);
            let term = |coupling: f64, neighbour: usize| round_entry(coupling) * (d[neighbour] - d[c]);
            let axis_sum = (term(a.east[c - 1], c - 1) + term(a.east[c], c + 1))
                + (term(a.north[c - n], c - n) + term(a.north[c], c + n));
            let corner_sum = (term(a.northeast[c - n - 1], c - n - 1) + term(a.northwest[c - n + 1], c - n + 1))
                + (term(a.northwest[c], c + n - 1) + term(a.northeast[c], c + n + 1));
            q[c] = round_entry(a.diagonal[c]) * d[c] + (axis_sum + corner_sum);
        }
    }

    /// Returns the center s_i - sum_j a_ij of `matrix` at index c. `round_entry` rounds the entries to the storage
    /// format.
    fn center(&self, c: usize, round_entry: impl Fn(f64) -> f64) -> f64 {
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        let axis_sum = (round_entry(a.east[c - 1]) + round_entry(a.east[c]))
            + (round_entry(a.north[c - n]) + round_entry(a.north[c]));
        let sum_below = round_entry(a.northeast[c - n - 1]) + round_entry(a.northwest[c - n + 1]);
        round_entry(a.diagonal[c])
            - (axis_sum + (sum_below + (round_entry(a.northwest[c]) + round_entry(a.northeast[c]))))
    }

    /// Computes y_r = D_r^-1 z_r and z_b = z_b - A_br y_r for red nodes r and black nodes b.
    fn forward_red(&mut self) {
        let (a, z, n) = (&self.matrix, &mut self.z, ring_stride(self.grid.nx));
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

    /// Computes z_r = y_r - D_r^-1 A_rb z_b.
    fn backward_red(&mut self) {
        let (a, z, n) = (&self.matrix, &mut self.z, ring_stride(self.grid.nx));
        for (i, j) in red_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            let sum =
                (a.east[c - 1] * z[c - 1] + a.east[c] * z[c + 1]) + (a.north[c - n] * z[c - n] + a.north[c] * z[c + n]);
            z[c] -= self.inverse_pivot[c] * sum;
        }
    }

    /// Computes y_e = D_e^-1 z_e and z_k = z_k - A_ke y_e for nodes e of the even level and nodes k of the next grid.
    fn forward_black(&mut self) {
        let (a, z, n) = (&self.skew_matrix, &mut self.z, ring_stride(self.grid.nx));
        for (i, j) in eliminated_black_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            z[c] *= self.inverse_pivot[c];
        }
        for (i, j) in coarse_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            z[c] -= diagonal_sum(a, z, c, n);
        }
    }

    fn backward_black(&mut self) {
        let (a, z, n) = (&self.skew_matrix, &mut self.z, ring_stride(self.grid.nx));
        for (i, j) in eliminated_black_nodes(self.grid) {
            let c = ring_index(self.grid.nx, i, j);
            let sum = diagonal_sum(a, z, c, n);
            z[c] -= self.inverse_pivot[c] * sum;
        }
    }
}

/// Returns sum_j a_cj z_j over the four diagonal neighbours j of c.
fn diagonal_sum(a: &HalfStencil, z: &[f64], c: usize, n: usize) -> f64 {
    let (sw, se, nw, ne) = (c - n - 1, c - n + 1, c + n - 1, c + n + 1);
    (a.northeast[sw] * z[sw] + a.northwest[se] * z[se]) + (a.northwest[c] * z[nw] + a.northeast[c] * z[ne])
}

/// Returns the center of an eliminated node before lumping: row sum minus the sum of all couplings.
fn pivot_center(row_sum: f64, kept_couplings: [f64; 4], lumped_sum: f64) -> f64 {
    row_sum - ((kept_couplings[0] + kept_couplings[1]) + (kept_couplings[2] + kept_couplings[3])) - lumped_sum
}

impl NaturalLevels {
    /// Allocates levels `first_level + 1 ..= levels`, beginning with `grid`. `embedding` maps nodes of `grid` to the
    /// caller's grid. With `uses_schur`, sweeps begin with the second level, on black nodes only.
    pub fn new(
        grid: Grid,
        embedding: Embedding,
        first_level: usize,
        levels: usize,
        cycle: &Cycle,
        uses_schur: bool,
    ) -> Result<Self> {
        let level_count = levels - first_level;
        let mut grids = Vec::new();
        reserve(&mut grids, level_count / 2 + 1, "the list of levels")?;
        let (mut next_grid, mut next_embedding) = (grid, embedding);
        for _ in 0..=level_count / 2 {
            grids.push(NaturalGrid::new(next_grid, next_embedding)?);
            next_embedding = next_embedding.coarse(next_grid);
            next_grid = next_grid.coarse();
        }
        let first_grid = first_level / 2;
        let recursion_grids = || cycle.recursion_grids(levels).filter_map(|q| q.checked_sub(first_grid));
        let first_recursion = usize::from(recursion_grids().next() != Some(0));
        let mut sections = Vec::new();
        for (section_start, is_recursion) in
            (0..first_recursion).map(|_| (0, false)).chain(recursion_grids().map(|q| (q, true)))
        {
            let len = if is_recursion { grids[section_start].z.len() } else { 0 };
            let zeroed_vector = || zeroed(len, "a vector of the cycle");
            let section = Section {
                first_grid: section_start,
                vectors: [zeroed_vector()?, zeroed_vector()?, zeroed_vector()?, zeroed_vector()?],
            };
            push(&mut sections, section, "sections of the cycle")?;
        }
        Ok(Self {
            grids,
            first_level,
            levels,
            coarsest: grid.coarsest_nodes(level_count),
            coarsest_solver: EnvelopeSolver::new(grid.coarsest_nodes(level_count))?,
            sections,
            first_recursion,
            recursion: Recursion::V,
            kind_is_automatic: cycle.kind.is_none(),
            storage_and_unit: (Storage::F64, 1.0),
            uses_schur,
        })
    }

    /// Returns the matrix of the first grid in row-sum form. The caller sets it before `factorize`.
    pub fn input_matrix(&mut self) -> &mut HalfStencil {
        &mut self.grids[0].matrix
    }

    /// Factorizes level by level, and then the coarsest matrix. If CG runs on S1, `schur_data` contains the centers of
    /// A, which are the pivots of the first level (see [`NaturalGrid::eliminate_red`]), and the array that receives the
    /// couplings of S1. The couplings of S1 are copied before those of M are rounded. Returns an error for the first
    /// rejected pivot.
    pub fn factorize(
        &mut self,
        setup: &Setup,
        context: &PivotContext,
        schur_data: Option<(&[f64], &mut HalfStencil)>,
    ) -> Result<()> {
        let (centers, mut schur_matrix) = schur_data.unzip();
        for q in 0..self.grids.len() {
            let level = self.first_level + 2 * q + 1;
            if level <= self.levels {
                self.grids[q].eliminate_red(level, setup, context, centers.filter(|_| q == 0))?;
            }
            if let Some(schur_matrix) = schur_matrix.take() {
                schur_matrix.copy_from(&self.grids[q].skew_matrix);
            }
            if level < self.levels {
                let (fine_grids, coarse_grids) = self.grids.split_at_mut(q + 1);
                fine_grids[q].eliminate_black(level + 1, setup, context, &mut coarse_grids[0].matrix)?;
            }
        }
        let last_grid = self.grids.last().expect("there is always the grid of the coarsest system");
        let (level, embedding) = (self.levels + 1, last_grid.embedding);
        let a = if self.coarsest.is_skew { &last_grid.skew_matrix } else { &last_grid.matrix };
        self.coarsest_solver.factorize(a, |i, j| context.node(level, embedding.fine(i, j)))?;
        self.storage_and_unit = (setup.storage, setup.storage_unit);
        self.recursion = recursion::prepare_recursion(self, &setup.cycle, 1.0);
        Ok(())
    }

    /// Solves M u = z in place: `grids[0].z` contains z on entry and u on return.
    pub fn apply(&mut self) {
        let recursion = self.recursion;
        if self.first_recursion == 0 {
            recursion::solve_section(self, 0, &recursion);
        } else {
            recursion::apply_section(self, 0, &recursion);
        }
    }

    /// Returns the current cycle and its eigenvalue bounds.
    pub fn recursion(&self) -> &Recursion {
        &self.recursion
    }

    /// Sets the kind of the cycle to the kind that was selected on finer grids.
    pub fn set_kind(&mut self, kind: CycleKind) {
        self.recursion.kind = kind;
    }

    /// Switches to the V-cycle if the cycle was selected automatically. Returns whether the cycle changes.
    pub fn fall_back(&mut self) -> bool {
        let has_changed = self.kind_is_automatic && self.recursion.kind != CycleKind::V;
        if has_changed {
            self.recursion = Recursion::V;
        }
        has_changed
    }

    /// Sets all vectors to zero. This is needed after an overflow, because infinities would remain in the vectors.
    pub fn clear_vectors(&mut self) {
        for grid in &mut self.grids {
            grid.z.fill(0.0);
        }
        for vector in self.sections.iter_mut().flat_map(|s| &mut s.vectors) {
            vector.fill(0.0);
        }
    }

    /// Returns the numbers of the grids of section k. The first grid of section k + 1 is not included.
    fn section(&self, k: usize) -> Range<usize> {
        self.sections[k].first_grid..self.sections.get(k + 1).map_or(self.grids.len(), |next| next.first_grid)
    }

    /// Returns the recursion grid with which section k begins, and its vectors.
    fn recursion_grid(&mut self, k: usize) -> (&mut NaturalGrid, &mut [Vec<f64>; 4]) {
        let section = &mut self.sections[k];
        (&mut self.grids[section.first_grid], &mut section.vectors)
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.grids.iter().map(|g| 13 * 8 * g.z.len()).sum::<usize>()
            + self.sections.iter().map(|s| 4 * 8 * s.vectors[R].len()).sum::<usize>()
            + self.coarsest_solver.bytes()
    }
}

impl CycleSteps for NaturalLevels {
    fn recursions(&self) -> Range<usize> {
        self.first_recursion..self.sections.len()
    }

    fn takes_part(&self, _: usize) -> bool {
        true
    }

    fn sweep_down(&mut self, k: usize) {
        let level_count = self.levels - self.first_level;
        for q in self.section(k) {
            if 2 * q < level_count && !(self.uses_schur && q == 0) {
                self.grids[q].forward_red();
            }
            if 2 * q + 1 < level_count {
                self.grids[q].forward_black();
                let (fine_grids, coarse_grids) = self.grids.split_at_mut(q + 1);
                for_coarse_nodes(fine_grids[q].grid, |k, c| coarse_grids[0].z[c] = fine_grids[q].z[k]);
            }
        }
    }

    fn solve_coarsest(&mut self) {
        let last_grid = self.grids.last_mut().expect("there is always the grid of the coarsest system");
        self.coarsest_solver.solve(&mut last_grid.z);
    }

    fn sweep_up(&mut self, k: usize) {
        let level_count = self.levels - self.first_level;
        for q in self.section(k).rev() {
            if 2 * q + 1 < level_count {
                let (fine_grids, coarse_grids) = self.grids.split_at_mut(q + 1);
                let (grid, z) = (fine_grids[q].grid, &mut fine_grids[q].z);
                for_coarse_nodes(grid, |k, c| z[k] = coarse_grids[0].z[c]);
                fine_grids[q].backward_black();
            }
            if 2 * q < level_count && !(self.uses_schur && q == 0) {
                self.grids[q].backward_red();
            }
        }
    }

    fn store_rhs(&mut self, k: usize) {
        let (grid, vectors) = self.recursion_grid(k);
        vectors[R].copy_from_slice(&grid.z);
    }

    fn update_direction(&mut self, k: usize, beta: Option<f64>) {
        let (grid, vectors) = self.recursion_grid(k);
        for (d, z) in vectors[D].iter_mut().zip(&grid.z) {
            *d = beta.map_or(*z, |beta| z + beta * *d);
        }
    }

    fn multiply_direction(&mut self, k: usize) {
        let (storage, storage_unit) = self.storage_and_unit;
        let (grid, vectors) = self.recursion_grid(k);
        let (d, q) = vectors.split_at_mut(Q);
        grid.multiply(&d[D], &mut q[0], |entry| storage.round(entry / storage_unit) * storage_unit);
    }

    fn inner_product(&mut self, k: usize, a: CycleVector, b: CycleVector) -> f64 {
        let (grid, vectors) = self.recursion_grid(k);
        let vector = |name| match name {
            CycleVector::R => &vectors[R],
            CycleVector::D => &vectors[D],
            CycleVector::Q => &vectors[Q],
            CycleVector::Z => &grid.z,
        };
        dot(vector(a), vector(b))
    }

    fn advance(&mut self, k: usize, alpha: f64, is_first: bool, continues: bool) {
        let (grid, [r, d, q, u]) = self.recursion_grid(k);
        for (u, d) in u.iter_mut().zip(d) {
            *u = if is_first { alpha * *d } else { *u + alpha * *d };
        }
        if continues {
            for ((r, q), z) in r.iter_mut().zip(q).zip(&mut grid.z) {
                *r -= alpha * *q;
                *z = *r;
            }
        }
    }

    fn copy_solution(&mut self, k: usize) {
        let (grid, vectors) = self.recursion_grid(k);
        grid.z.copy_from_slice(&vectors[U]);
    }

    fn set_all_frequencies(&mut self, k: usize) {
        let (storage, storage_unit) = self.storage_and_unit;
        let (grid, vectors) = self.recursion_grid(k);
        vectors[R].fill(0.0);
        for (i, j) in red_nodes(grid.grid).chain(black_nodes(grid.grid)) {
            let c = ring_index(grid.grid.nx, i, j);
            let center = grid.center(c, |entry| storage.round(entry / storage_unit));
            vectors[D][c] = recursion::all_frequencies(i, j, center);
        }
    }
}

/// Calls `f` for each node of the next grid, with its index on this grid and its index on the next grid.
fn for_coarse_nodes(grid: Grid, mut f: impl FnMut(usize, usize)) {
    let coarse = grid.coarse();
    for (i, j) in coarse_nodes(grid) {
        f(ring_index(grid.nx, i, j), ring_index(coarse.nx, i / 2, j / 2));
    }
}

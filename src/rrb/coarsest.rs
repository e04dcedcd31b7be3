//! Direct solver for the coarsest system of RRB (report 16-06, equation 2.7; docs/theory/rrb.md, coarsest system).
//!
//! Nodes are numbered line by line along the shorter side, so that the envelope is a band. With n nodes and half
//! bandwidth w, the factorization costs n w^2 / 2 multiply-adds, and a solve costs 2 n w multiply-adds.

use crate::direct::envelope::{Envelope, PivotCandidate};
use crate::error::{Result, zeroed};
use crate::rrb::backend::{Pivot, PivotNode};
use crate::stencil::levels::CoarsestNodes;
use crate::stencil::matrix::{HalfStencil, ring_index, ring_len, ring_stride};

const ALLOCATION_NAME: &str = "the exact factor";

/// Offsets (di, dj) of the neighbours in a half stencil, in the order east, north, northeast, northwest.
const STENCIL_OFFSETS: [(isize, isize); 4] = [(1, 0), (0, 1), (1, 1), (-1, 1)];
/// Offsets of the neighbours in a skew half stencil on black nodes: two columns east, two rows north, two diagonals.
const SKEW_STENCIL_OFFSETS: [(isize, isize); 4] = [(2, 0), (0, 2), (1, 1), (-1, 1)];

/// Direct solver of the coarsest system: the numbering of its nodes, and the factor of its matrix.
pub struct EnvelopeSolver {
    /// For each index of an array with a ring of zeros: the number of the node there, counted from 1, or 0 if there is
    /// no node.
    node_numbers: Vec<u32>,
    /// For each node, counted from 0: its index in an array with a ring.
    node_indices: Vec<usize>,
    /// For each node, counted from 0: its column i and row j.
    node_positions: Vec<(usize, usize)>,
    /// Differences between the indices of the neighbours and of the node, in an array with a ring.
    neighbour_distances: [isize; 4],
    factor: Envelope,
    z: Vec<f64>,
}

impl EnvelopeSolver {
    /// Numbers the nodes and allocates the factor.
    pub fn new(coarsest: CoarsestNodes) -> Result<Self> {
        let (grid, n) = (coarsest.grid, coarsest.nodes());
        let mut node_indices = zeroed(n, ALLOCATION_NAME)?;
        let mut node_positions = zeroed(n, ALLOCATION_NAME)?;
        let mut node_numbers = zeroed(ring_len(grid), ALLOCATION_NAME)?;
        let black_parity = (grid.kept_column_parity() + grid.kept_row_parity()) % 2;
        let (line_count, line_length) = if grid.nx <= grid.ny { (grid.ny, grid.nx) } else { (grid.nx, grid.ny) };
        let nodes = (0..line_count).flat_map(|line| (0..line_length).map(move |position| (position, line)));
        let nodes = nodes.map(|(position, line)| if grid.nx <= grid.ny { (position, line) } else { (line, position) });
        for (k, (i, j)) in nodes.filter(|(i, j)| !coarsest.is_skew || (i + j) % 2 == black_parity).enumerate() {
            (node_indices[k], node_positions[k]) = (ring_index(grid.nx, i, j), (i, j));
            node_numbers[node_indices[k]] = k as u32 + 1;
        }
        let stride = ring_stride(grid.nx) as isize;
        let neighbour_distances =
            if coarsest.is_skew { SKEW_STENCIL_OFFSETS } else { STENCIL_OFFSETS }.map(|(di, dj)| dj * stride + di);
        let mut first_columns: Vec<u32> = zeroed(n, ALLOCATION_NAME)?;
        first_columns.iter_mut().zip(0..).for_each(|(first_column, k)| *first_column = k);
        for (k, &index) in (0..).zip(&node_indices) {
            for neighbour in neighbour_distances
                .map(|distance| node_numbers[(index as isize + distance) as usize])
                .into_iter()
                .filter(|&neighbour| neighbour > 0)
            {
                let row = k.max(neighbour - 1) as usize;
                first_columns[row] = first_columns[row].min(k.min(neighbour - 1));
            }
        }
        Ok(Self {
            node_numbers,
            node_indices,
            node_positions,
            neighbour_distances,
            factor: Envelope::new(&first_columns)?,
            z: zeroed(n, ALLOCATION_NAME)?,
        })
    }

    /// Factorizes the half stencil `a` (row-sum form) on the numbered nodes. `locate_node(i, j)` maps node (i, j) of
    /// this grid to the finest grid. `locate_node` is called only if the pivot of the node is rejected or replaced.
    /// Returns an error for the first rejected pivot.
    pub fn factorize(&mut self, a: &HalfStencil, locate_node: impl Fn(usize, usize) -> PivotNode) -> Result<()> {
        let Self { node_numbers, node_indices, node_positions, neighbour_distances, factor, .. } = self;
        factor.clear();
        for (k, &index) in node_indices.iter().enumerate() {
            factor.set_row_sum(k, a.diagonal[index]);
            let couplings = [a.east[index], a.north[index], a.northeast[index], a.northwest[index]];
            for (distance, coupling) in neighbour_distances.iter().zip(couplings) {
                let neighbour = node_numbers[(index as isize + distance) as usize];
                if neighbour > 0 {
                    factor.set_coupling(k, neighbour as usize - 1, coupling);
                }
            }
        }
        factor.factorize(|PivotCandidate { k, row_sum, couplings, is_uncoupled }| {
            let pivot = Pivot::exact(row_sum, couplings);
            let (i, j) = node_positions[k];
            Ok(1.0 / pivot.accept(pivot.d, is_uncoupled, || locate_node(i, j))?.d)
        })
    }

    /// Solves in place on the numbered nodes of `z`, an array with a ring.
    pub fn solve(&mut self, z: &mut [f64]) {
        self.z.iter_mut().zip(&self.node_indices).for_each(|(v, &index)| *v = z[index]);
        self.factor.solve(&mut self.z);
        self.z.iter().zip(&self.node_indices).for_each(|(v, &index)| z[index] = *v);
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.factor.bytes() + 32 * self.node_indices.len() + 4 * self.node_numbers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Location;
    use crate::stencil::levels::Grid;

    /// Returns a matrix with random couplings between the nodes of the grid, whose rows all have the sum `row_sum`.
    fn half_stencil(grid: Grid, skew: bool, row_sum: f64) -> HalfStencil {
        let mut random_state = 7_u64;
        let mut draw_coupling = || {
            random_state = random_state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            -0.1 - (random_state >> 40) as f64 / (1 << 24) as f64
        };
        let mut a = HalfStencil::zeroed(grid).unwrap();
        let offsets = if skew { SKEW_STENCIL_OFFSETS } else { STENCIL_OFFSETS };
        let is_inside = |i: isize, j: isize| (0..grid.nx as isize).contains(&i) && (0..grid.ny as isize).contains(&j);
        for (i, j) in (0..grid.ny).flat_map(|j| (0..grid.nx).map(move |i| (i, j))) {
            let index = ring_index(grid.nx, i, j);
            a.diagonal[index] = row_sum;
            let coupling_arrays = [&mut a.east, &mut a.north, &mut a.northeast, &mut a.northwest];
            for (array, (di, dj)) in coupling_arrays.into_iter().zip(offsets) {
                if is_inside(i as isize + di, j as isize + dj) {
                    array[index] = draw_coupling();
                }
            }
        }
        a
    }

    fn locate_node(i: usize, j: usize) -> PivotNode {
        PivotNode { level: 1, i, j, center: 4.0, may_replace_zero_pivot: true }
    }

    #[test]
    fn solution_satisfies_system_on_any_grid() {
        let sizes = [(1, 1), (2, 1), (9, 9), (1, 40), (40, 1), (7, 23), (23, 7), (31, 31), (12, 64)];
        for ((nx, ny), skew, is_regular) in
            sizes.into_iter().flat_map(|size| [(size, false, true), (size, true, true), (size, false, false)])
        {
            let (grid, row_sum) = (Grid { nx, ny }, if is_regular { 0.1 } else { 0.0 });
            let a = half_stencil(grid, skew, row_sum);
            let mut solver = EnvelopeSolver::new(CoarsestNodes { grid, is_skew: skew }).unwrap();
            let (mut b, mut z) = (vec![0.0; ring_len(grid)], vec![0.0; ring_len(grid)]);
            let count = solver.node_indices.len();
            for (k, &index) in solver.node_indices.iter().enumerate() {
                // The sum of b is zero, so that the singular system has a solution.
                b[index] = if k + 1 == count && count % 2 == 1 { 0.0 } else { 1.0 - 2.0 * (k % 2) as f64 };
            }
            // The second factorization must not depend on the first one.
            for _ in 0..2 {
                solver.factorize(&a, locate_node).unwrap();
                z.copy_from_slice(&b);
                solver.solve(&mut z);
            }
            let mut product: Vec<f64> = z.iter().map(|z| row_sum * z).collect();
            for &index in &solver.node_indices {
                let couplings = [a.east[index], a.north[index], a.northeast[index], a.northwest[index]];
                for (distance, coupling) in solver.neighbour_distances.iter().zip(couplings) {
                    let neighbour = (index as isize + distance) as usize;
                    product[index] += coupling * (z[neighbour] - z[index]);
                    product[neighbour] += coupling * (z[index] - z[neighbour]);
                }
            }
            let error = solver
                .node_indices
                .iter()
                .fold(0.0, |largest: f64, &index| largest.max((product[index] - b[index]).abs()));
            assert!(error < 1e-11, "{nx} x {ny}, skew {skew}, regular {is_regular}: {error:e}");
        }
    }

    #[test]
    fn error_names_the_first_rejected_node() {
        let grid = Grid { nx: 9, ny: 40 };
        let mut a = half_stencil(grid, false, 0.1);
        for j in [3, 35] {
            a.diagonal[ring_index(grid.nx, 4, j)] = -100.0;
        }
        let mut solver = EnvelopeSolver::new(CoarsestNodes { grid, is_skew: false }).unwrap();
        for _ in 0..2 {
            let error = solver.factorize(&a, locate_node).unwrap_err();
            assert_eq!(error.matrix_location(), Some(Location::node(1, 4, 3)));
        }
        // After a rejected matrix, the factorization of a valid matrix succeeds.
        for j in [3, 35] {
            a.diagonal[ring_index(grid.nx, 4, j)] = 0.1;
        }
        let solve_for_ones = |solver: &mut EnvelopeSolver| {
            solver.factorize(&a, locate_node).unwrap();
            let mut z = vec![0.0; ring_len(grid)];
            solver.node_indices.iter().for_each(|&index| z[index] = 1.0);
            solver.solve(&mut z);
            z
        };
        let mut new_solver = EnvelopeSolver::new(CoarsestNodes { grid, is_skew: false }).unwrap();
        assert_eq!(solve_for_ones(&mut solver), solve_for_ones(&mut new_solver));
    }
}

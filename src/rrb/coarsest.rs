//! Direct solver for the coarsest system of RRB (report 16-06, equation 2.7; docs/theory/rrb.md, coarsest system).
//!
//! Nodes are numbered line by line along the shorter side, so that the envelope is a band. With n nodes and half
//! bandwidth w, the factorization costs n w^2 / 2 multiply-adds, and a solve costs 2 n w multiply-adds.

use crate::direct::envelope::{Candidate, Envelope};
use crate::error::{Result, zeroed};
use crate::rrb::backend::{Pivot, PivotNode};
use crate::stencil::levels::CoarsestNodes;
use crate::stencil::matrix::{HalfStencil, ring_index, ring_len, ring_stride};

const WHAT: &str = "the exact factor";

/// Offsets (di, dj) of the neighbours in a half stencil, in the order east, north, northeast, northwest.
const STRAIGHT: [(isize, isize); 4] = [(1, 0), (0, 1), (1, 1), (-1, 1)];
/// Offsets of the neighbours in a skew half stencil on black nodes: two columns east, two rows north, two diagonals.
const SKEW: [(isize, isize); 4] = [(2, 0), (0, 2), (1, 1), (-1, 1)];

/// Direct solver of the coarsest system: the numbering of its nodes, and the factor of its matrix.
pub struct EnvelopeSolver {
    /// For each index of an array with a ring of zeros: the number of the node there, counted from 1, or 0 if there is
    /// no node.
    number: Vec<u32>,
    /// For each node, counted from 0: its index in an array with a ring.
    place: Vec<usize>,
    /// For each node, counted from 0: its column i and row j.
    node: Vec<(usize, usize)>,
    /// Differences between the indices of the neighbours and of the node, in an array with a ring.
    steps: [isize; 4],
    factor: Envelope,
    z: Vec<f64>,
}

impl EnvelopeSolver {
    /// Numbers the nodes and allocates the factor.
    pub fn new(coarsest: CoarsestNodes) -> Result<Self> {
        let (grid, n) = (coarsest.grid, coarsest.nodes());
        let mut place = zeroed(n, WHAT)?;
        let mut node = zeroed(n, WHAT)?;
        let mut number = zeroed(ring_len(grid), WHAT)?;
        let black = (grid.kept_column_parity() + grid.kept_row_parity()) % 2;
        let (lines, length) = if grid.nx <= grid.ny { (grid.ny, grid.nx) } else { (grid.nx, grid.ny) };
        let nodes = (0..lines).flat_map(|line| (0..length).map(move |along| (along, line)));
        let nodes = nodes.map(|(along, line)| if grid.nx <= grid.ny { (along, line) } else { (line, along) });
        for (k, (i, j)) in nodes.filter(|(i, j)| !coarsest.skew || (i + j) % 2 == black).enumerate() {
            (place[k], node[k]) = (ring_index(grid.nx, i, j), (i, j));
            number[place[k]] = k as u32 + 1;
        }
        let stride = ring_stride(grid.nx) as isize;
        let steps = if coarsest.skew { SKEW } else { STRAIGHT }.map(|(di, dj)| dj * stride + di);
        let mut first: Vec<u32> = zeroed(n, WHAT)?;
        first.iter_mut().zip(0..).for_each(|(first, k)| *first = k);
        for (k, &at) in (0..).zip(&place) {
            for other in steps.map(|step| number[(at as isize + step) as usize]).into_iter().filter(|&other| other > 0)
            {
                let high = k.max(other - 1) as usize;
                first[high] = first[high].min(k.min(other - 1));
            }
        }
        Ok(Self { number, place, node, steps, factor: Envelope::new(&first)?, z: zeroed(n, WHAT)? })
    }

    /// Factorizes the half stencil `a` (row-sum form) on the numbered nodes. `context(i, j)` returns the location of
    /// node (i, j) of this grid on the finest grid. It is called only if the pivot of the node is rejected or replaced.
    /// Returns an error for the first rejected pivot.
    pub fn factorize(&mut self, a: &HalfStencil, context: impl Fn(usize, usize) -> PivotNode) -> Result<()> {
        let Self { number, place, node, steps, factor, .. } = self;
        factor.clear();
        for (k, &place) in place.iter().enumerate() {
            factor.set_row_sum(k, a.diagonal[place]);
            let values = [a.east[place], a.north[place], a.northeast[place], a.northwest[place]];
            for (step, value) in steps.iter().zip(values) {
                let other = number[(place as isize + step) as usize];
                if other > 0 {
                    factor.set_coupling(k, other as usize - 1, value);
                }
            }
        }
        factor.factorize(|Candidate { k, row_sum, couplings, is_last }| {
            let pivot = Pivot::exact(row_sum, couplings);
            let (i, j) = node[k];
            Ok(1.0 / pivot.accepted(pivot.d, is_last, || context(i, j))?.d)
        })
    }

    /// Solves in place on the numbered nodes of `z`, an array with a ring.
    pub fn solve(&mut self, z: &mut [f64]) {
        self.z.iter_mut().zip(&self.place).for_each(|(v, &place)| *v = z[place]);
        self.factor.solve(&mut self.z);
        self.z.iter().zip(&self.place).for_each(|(v, &place)| z[place] = *v);
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.factor.bytes() + 32 * self.place.len() + 4 * self.number.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;
    use crate::stencil::levels::Grid;

    /// Returns a matrix with random couplings between the nodes of the grid, and row sums `excess`.
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

    fn context(i: usize, j: usize) -> PivotNode {
        PivotNode { level: 1, i, j, center: 4.0, may_replace_zero_pivot: true }
    }

    #[test]
    fn solves_on_any_grid() {
        let sizes = [(1, 1), (2, 1), (9, 9), (1, 40), (40, 1), (7, 23), (23, 7), (31, 31), (12, 64)];
        for ((nx, ny), skew, regular) in
            sizes.into_iter().flat_map(|size| [(size, false, true), (size, true, true), (size, false, false)])
        {
            let (grid, excess) = (Grid { nx, ny }, if regular { 0.1 } else { 0.0 });
            let a = half_stencil(grid, skew, excess);
            let mut band = EnvelopeSolver::new(CoarsestNodes { grid, skew }).unwrap();
            let (mut b, mut z) = (vec![0.0; ring_len(grid)], vec![0.0; ring_len(grid)]);
            let count = band.place.len();
            for (k, &place) in band.place.iter().enumerate() {
                // The sum of b is zero, so that the singular system has a solution.
                b[place] = if k + 1 == count && count % 2 == 1 { 0.0 } else { 1.0 - 2.0 * (k % 2) as f64 };
            }
            // The second factorization must not depend on the first one.
            for _ in 0..2 {
                band.factorize(&a, context).unwrap();
                z.copy_from_slice(&b);
                band.solve(&mut z);
            }
            let mut product: Vec<f64> = z.iter().map(|z| excess * z).collect();
            for &place in &band.place {
                let values = [a.east[place], a.north[place], a.northeast[place], a.northwest[place]];
                for (step, value) in band.steps.iter().zip(values) {
                    let other = (place as isize + step) as usize;
                    product[place] += value * (z[other] - z[place]);
                    product[other] += value * (z[place] - z[other]);
                }
            }
            let off = band.place.iter().fold(0.0, |most: f64, &place| most.max((product[place] - b[place]).abs()));
            assert!(off < 1e-11, "{nx} x {ny}, skew {skew}, regular {regular}: {off:e}");
        }
    }

    #[test]
    fn error_names_the_first_rejected_node() {
        let grid = Grid { nx: 9, ny: 40 };
        let mut a = half_stencil(grid, false, 0.1);
        for j in [3, 35] {
            a.diagonal[ring_index(grid.nx, 4, j)] = -100.0;
        }
        let mut band = EnvelopeSolver::new(CoarsestNodes { grid, skew: false }).unwrap();
        for _ in 0..2 {
            let error = band.factorize(&a, context).unwrap_err();
            assert_eq!(error.matrix_place(), Some(Place::node(1, 4, 3)));
        }
        // After a rejected matrix, the factorization of a valid matrix succeeds.
        for j in [3, 35] {
            a.diagonal[ring_index(grid.nx, 4, j)] = 0.1;
        }
        let solved = |band: &mut EnvelopeSolver| {
            band.factorize(&a, context).unwrap();
            let mut z = vec![0.0; ring_len(grid)];
            band.place.iter().for_each(|&place| z[place] = 1.0);
            band.solve(&mut z);
            z
        };
        let mut fresh = EnvelopeSolver::new(CoarsestNodes { grid, skew: false }).unwrap();
        assert_eq!(solved(&mut band), solved(&mut fresh));
    }
}

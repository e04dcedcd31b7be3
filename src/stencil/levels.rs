//! Repeated red-black levels of a grid with even parity (report 16-06, section 2.1; docs/theory/rrb.md, "Order of
//! elimination").
//!
//! The report's formula for the set B[k] of nodes that remain after k levels has a typo for even k. Its figures show
//! that B[2] contains the nodes with both 1-based indices even. Counted from 0, a grid of nx x ny nodes keeps the nodes
//! with i = ox, j = oy (mod 2). Here ox = 1 if nx >= 2, and ox = 0 if nx = 1; oy depends on ny in the same way. The
//! kept nodes form the next grid. Level 2q + 1 eliminates the red nodes of grid q (i + j = ox + oy + 1 mod 2). Level
//! 2q + 2 eliminates the black nodes that are not kept.

/// Largest number of nodes of a coarsest system that a device solves with an explicit inverse: 31 x 32. A line of nodes
/// along the shorter side of such a grid has at most 31 nodes, and the kernels (kernels/rrb/coarsest.cuh) process
/// lines of at most 32 nodes.
pub const MAX_INVERTED_NODES: usize = 992;

/// A grid of the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Nodes in x.
    pub nx: usize,
    /// Nodes in y.
    pub ny: usize,
}

impl Grid {
    /// Returns the parity of the columns of kept nodes.
    pub fn kept_column_parity(&self) -> usize {
        usize::from(self.nx >= 2)
    }

    /// Returns the parity of the rows of kept nodes.
    pub fn kept_row_parity(&self) -> usize {
        usize::from(self.ny >= 2)
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.nx * self.ny
    }

    /// Returns the number of black nodes. The first of the two levels of this grid keeps them.
    pub fn black_count(&self) -> usize {
        let coarse_grid = self.coarse();
        coarse_grid.nodes() + (self.nx - coarse_grid.nx) * (self.ny - coarse_grid.ny)
    }

    /// Returns the grid of the kept nodes.
    pub fn coarse(&self) -> Self {
        Self {
            nx: (self.nx - self.kept_column_parity()).div_ceil(2),
            ny: (self.ny - self.kept_row_parity()).div_ceil(2),
        }
    }

    /// Returns the grids from this one down to a single node.
    pub fn grid_sequence(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |g| (g.nodes() > 1).then(|| g.coarse()))
    }

    /// Returns the number of levels until one node remains.
    pub fn max_levels(self) -> usize {
        let mut levels = 0;
        let mut grid = self;
        while grid.nodes() > 1 {
            levels += if grid.black_count() == 1 { 1 } else { 2 };
            grid = grid.coarse();
        }
        levels
    }

    /// Returns the nodes of the coarsest system after `levels` levels.
    pub fn coarsest_nodes(self, levels: usize) -> CoarsestNodes {
        let grid = self.grid_sequence().nth(levels / 2).unwrap_or(Self { nx: 1, ny: 1 });
        CoarsestNodes { grid, is_skew: levels % 2 == 1 }
    }

    /// Returns the number of levels for `levels=0`: the smallest even number for which the band factor of the coarsest
    /// system has at most nx ny / 4 entries. An application of M reads the factor twice, which is at most half a word
    /// per node; an iteration reads 18 words per node in total. Fewer levels need fewer iterations, because the
    /// condition number is about 1.23^levels.
    pub fn default_levels(self) -> usize {
        self.even_levels(|coarsest| coarsest.band_entries() <= self.nodes() as u128 / 4)
    }

    /// Returns the default number of levels for recursive cycles. They solve the coarsest system about four times per
    /// iteration, so the band factor has at most nx ny / 64 entries.
    pub fn recursive_levels(self) -> usize {
        self.even_levels(|coarsest| coarsest.band_entries() <= self.nodes() as u128 / 64)
    }

    /// Returns the default number of levels on a device: the smallest even number for which the coarsest system can be
    /// solved with an explicit inverse.
    pub fn default_device_levels(self) -> usize {
        self.even_levels(|coarsest| coarsest.nodes() <= MAX_INVERTED_NODES)
    }

    /// Returns the smallest even number of levels, at least 2, for which `is_small_enough` returns true for the
    /// coarsest system; `max_levels` if there is none.
    fn even_levels(self, is_small_enough: impl Fn(CoarsestNodes) -> bool) -> usize {
        let max_levels = self.max_levels();
        (2..=max_levels).step_by(2).find(|&levels| is_small_enough(self.coarsest_nodes(levels))).unwrap_or(max_levels)
    }

    /// Returns g_max, the largest number of grids stored by colour: the smallest g with `block` 2^g >= max(nx, ny)
    /// (report 16-06, equation 3.1).
    pub fn max_packed_grids(self, block: usize) -> usize {
        let mut g = 0;
        while block << g < self.nx.max(self.ny) {
            g += 1;
        }
        g
    }
}

/// Nodes of the coarsest system: all nodes of `grid`, or with `is_skew` its black nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoarsestNodes {
    /// The grid of the nodes.
    pub grid: Grid,
    /// Only the black nodes remain, as after an odd number of levels.
    pub is_skew: bool,
}

impl CoarsestNodes {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        if self.is_skew { self.grid.black_count() } else { self.grid.nodes() }
    }

    /// Returns the half bandwidth of the coarsest matrix. Its nodes are numbered along the shorter side, line by line.
    /// With 9 points, the farthest neighbour is one line and one node away. If only the black nodes remain, the
    /// farthest neighbour is two lines away, and a line has half as many nodes.
    pub fn bandwidth(&self) -> usize {
        let nodes_per_line = self.grid.nx.min(self.grid.ny);
        let unclamped_bandwidth = if self.is_skew { nodes_per_line.max(1) } else { nodes_per_line + 1 };
        unclamped_bandwidth.min(self.nodes() - 1)
    }

    /// Returns the number of entries of the band factor.
    pub fn band_entries(&self) -> u128 {
        self.nodes() as u128 * self.bandwidth().max(1) as u128
    }
}

/// Position of the nodes of a coarse grid on the finest grid: i_fine = x0 + step * i, j_fine = y0 + step * j.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// Column of the first node on the finest grid.
    pub x0: usize,
    /// Row of the first node on the finest grid.
    pub y0: usize,
    /// Distance between nodes, in nodes of the finest grid.
    pub step: usize,
}

impl Embedding {
    /// Position of the finest grid itself.
    pub const FINEST: Self = Self { x0: 0, y0: 0, step: 1 };

    /// Returns the position of the next coarser grid, where `self` is the position of `grid`.
    pub fn coarse(&self, grid: Grid) -> Self {
        Self {
            x0: self.x0 + self.step * grid.kept_column_parity(),
            y0: self.y0 + self.step * grid.kept_row_parity(),
            step: 2 * self.step,
        }
    }

    /// Returns the indices of node (i, j) on the finest grid.
    pub fn fine(&self, i: usize, j: usize) -> (usize, usize) {
        (self.x0 + self.step * i, self.y0 + self.step * j)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_halve_a_grid_down_to_one_node() {
        assert_eq!(Grid { nx: 63, ny: 63 }.max_levels(), 10);
        assert_eq!(Grid { nx: 1023, ny: 1023 }.max_levels(), 18);
        assert_eq!(Grid { nx: 1, ny: 1 }.max_levels(), 0);
        assert_eq!(Grid { nx: 2, ny: 1 }.max_levels(), 1);
        let sizes: Vec<usize> = Grid { nx: 63, ny: 1 }.grid_sequence().map(|g| g.nx).collect();
        assert_eq!(sizes, [63, 31, 15, 7, 3, 1]);
    }

    #[test]
    fn every_node_is_eliminated_once_or_remains() {
        for nx in 1..20 {
            for ny in 1..20 {
                let grid = Grid { nx, ny };
                for levels in 0..=grid.max_levels() {
                    let mut eliminated = 0;
                    for (q, g) in grid.grid_sequence().enumerate() {
                        if 2 * q < levels {
                            eliminated += g.nodes() - g.black_count();
                        }
                        if 2 * q + 1 < levels {
                            eliminated += g.black_count() - g.coarse().nodes();
                        }
                    }
                    assert_eq!(eliminated + grid.coarsest_nodes(levels).nodes(), grid.nodes(), "{nx} x {ny}, {levels}");
                }
                assert_eq!(grid.coarsest_nodes(grid.max_levels()).nodes(), 1);
            }
        }
    }

    #[test]
    fn max_packed_grids_match_reports_example() {
        assert_eq!(Grid { nx: 411, ny: 277 }.max_packed_grids(32), 4);
        assert_eq!(Grid { nx: 16, ny: 3 }.max_packed_grids(16), 0);
        assert_eq!(Grid { nx: 17, ny: 3 }.max_packed_grids(16), 1);
    }

    #[test]
    fn band_factor_of_two_levels_exceeds_eight_gigabytes() {
        let bytes = Grid { nx: 2047, ny: 2047 }.coarsest_nodes(2).band_entries() * 8;
        assert!((8.5e9..8.7e9).contains(&(bytes as f64)), "{bytes}");
    }

    #[test]
    fn default_levels_grow_with_grid_size() {
        let default_levels = |n| Grid { nx: n, ny: n }.default_levels();
        assert_eq!(
            [
                default_levels(1),
                default_levels(2),
                default_levels(63),
                default_levels(255),
                default_levels(511),
                default_levels(1023),
                default_levels(2047),
                default_levels(4095)
            ],
            [0, 2, 6, 8, 8, 8, 10, 10]
        );
    }
}

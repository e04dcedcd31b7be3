//! Anisotropy of a matrix, estimated in small windows of the grid (docs/theory/aggregation.md, "Cost model of
//! `cycle=auto`").
//!
//! In a window of w x w nodes, the east couplings of a row act as conductances in series, and the rows act in parallel.
//! In the same way, the north couplings of a column act in series, and the columns act in parallel. With the mean row
//! sum e:
//!
//! ```text
//!     E = (1/w) sum_j w / sum_i 1 / |east_ij|,    N = (1/w) sum_i w / sum_j 1 / |north_ij|
//!     anisotropy = max(E, N) / (min(E, N) + e)
//! ```
//!
//! A layered medium is therefore represented by its conductances along and across the layers. Jumps in both directions
//! (checkerboards, noise) do not count as anisotropy. A jump between two halves of a window must not count, either. A
//! window with direction x as the better conductor is therefore divided into parts of 4 x 4 nodes. In at least a
//! quarter of the parts, E / N must be at least the square root of the window's E / N. Otherwise, the window counts as
//! isotropic. Direction y is treated in the same way.
//!
//! With nine points, the two diagonal couplings of a cell are added to its couplings in x and in y, because a diagonal
//! leads one step in both directions.

use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;

/// Number of nodes of a window in each direction.
pub const WINDOW: usize = 32;
/// Number of windows in each direction. They are distributed from border to border.
pub const WINDOWS: usize = 8;
/// Number of windows that may have a larger anisotropy than the result: 10 % of all windows.
const OUTLIERS: usize = WINDOWS * WINDOWS / 10;
/// Number of nodes of a part in each direction.
const PART: usize = 4;
const PARTS: usize = WINDOW / PART;
/// Factor by which the square root of the window's E / N is reduced, to allow for rounding errors.
const ROUNDING_FACTOR: f64 = 0.999;

/// Computes the anisotropy of a matrix in host memory. Row sums of at most `zero_row_sum` times the center count as
/// zero. Returns 1 (isotropic) if a direction has fewer than 34 nodes.
pub fn anisotropy(a: &StencilView, zero_row_sum: f64) -> f64 {
    if !has_windows(a.grid) {
        return 1.0;
    }
    let Grid { nx, ny } = a.grid;
    let of = |x, y| of_window(a, (start(nx, x), start(ny, y)), zero_row_sum).unwrap_or(1.0);
    percentile(std::array::from_fn(|y| std::array::from_fn(|x| of(x, y))))
}

/// Returns whether the grid is large enough for windows whose nodes have neighbours on all sides.
pub fn has_windows(grid: Grid) -> bool {
    grid.nx >= WINDOW + 2 && grid.ny >= WINDOW + 2
}

/// Returns the first node of the k-th window in a direction of n nodes.
fn start(n: usize, k: usize) -> usize {
    1 + (n - 2 - WINDOW) * k / (WINDOWS - 1)
}

/// Returns the 90th percentile of the windows: at most `OUTLIERS` windows exceed it.
pub fn percentile(mut windows: [[f64; WINDOWS]; WINDOWS]) -> f64 {
    let windows = windows.as_flattened_mut();
    windows.sort_unstable_by(|a, b| b.total_cmp(a));
    windows[OUTLIERS]
}

/// Computes the anisotropy of the window that begins at (i, j). Returns `None` if the window counts as isotropic: by
/// the test of its parts, or because a coupling is zero, positive or NaN. The flow can avoid such a coupling, so the
/// model of series and parallel conductances does not apply.
fn of_window(a: &StencilView, (i, j): (usize, usize), zero_row_sum: f64) -> Option<f64> {
    let (mut east, mut north) = ([[0.0; WINDOW]; WINDOW], [[0.0; WINDOW]; WINDOW]);
    let mut excess = 0.0;
    for (y, (east, north)) in east.iter_mut().zip(&mut north).enumerate() {
        let row = Row::new(a, i, j + y);
        for k in 0..WINDOW {
            let corners = row.corner(k);
            (east[k], north[k]) = (-(row.east[k + 1] + corners), -(row.north[k] + corners));
            if !(east[k] > 0.0 && north[k] > 0.0) {
                return None;
            }
            (east[k], north[k]) = (1.0 / east[k], 1.0 / north[k]);
            let sum = row.sum(k);
            excess += if sum.abs() <= zero_row_sum * row.center[k] { 0.0 } else { sum };
        }
    }
    let conductances = |x: usize, y: usize, w: usize| {
        let along_x: f64 = east[y..y + w].iter().map(|row| 1.0 / row[x..x + w].iter().sum::<f64>()).sum();
        let along_y: f64 = (x..x + w).map(|x| 1.0 / north[y..y + w].iter().map(|row| row[x]).sum::<f64>()).sum();
        [along_x, along_y]
    };
    let whole = conductances(0, 0, WINDOW);
    let better = usize::from(whole[1] > whole[0]);
    let excess = f64::max(excess, 0.0) / (WINDOW * WINDOW) as f64;
    let ratio = whole[better] / (whole[1 - better] + excess);
    let enough = ROUNDING_FACTOR * (whole[better] / whole[1 - better]).sqrt();
    let conducts_like_window = |part: usize| {
        let of = conductances(part % PARTS * PART, part / PARTS * PART, PART);
        of[better] >= enough * of[1 - better]
    };
    // The comparison is false if the ratio is NaN, which infinite entries cause.
    (ratio >= 1.0 && 4 * (0..PARTS * PARTS).filter(|&part| conducts_like_window(part)).count() >= PARTS * PARTS)
        .then_some(ratio)
}

/// Entries of a row of a window. The east couplings begin one node before the window.
struct Row<'a> {
    center: &'a [f64],
    east: &'a [f64],
    north: &'a [f64],
    south: &'a [f64],
    /// Northeast and northwest couplings of the cells above and below, which begin one node before the window.
    corners: Option<[[&'a [f64]; 2]; 2]>,
}

impl<'a> Row<'a> {
    fn new(a: &StencilView<'a>, i: usize, j: usize) -> Self {
        let nodes = i..i + WINDOW;
        let cells = i - 1..i + WINDOW;
        let corners = |j: usize| [&a.northeast_row(j)[cells.clone()], &a.northwest_row(j)[cells.clone()]];
        Self {
            center: &a.center.row(j)[nodes.clone()],
            east: &a.east_row(j)[cells.clone()],
            north: &a.north_row(j)[nodes.clone()],
            south: &a.north_row(j - 1)[nodes],
            corners: a.corners.is_some().then(|| [corners(j), corners(j - 1)]),
        }
    }

    /// Returns the sum of both diagonals of the cell northeast of node k.
    #[inline(always)]
    fn corner(&self, k: usize) -> f64 {
        self.corners.as_ref().map_or(0.0, |[above, _]| above[0][k + 1] + above[1][k + 1])
    }

    /// Returns the row sum of node k.
    #[inline(always)]
    fn sum(&self, k: usize) -> f64 {
        let corners = self
            .corners
            .as_ref()
            .map_or(0.0, |[above, below]| (above[0][k + 1] + above[1][k]) + (below[0][k] + below[1][k + 1]));
        self.center[k] + self.east[k] + self.east[k + 1] + self.north[k] + self.south[k] + corners
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::matrix::View;

    /// Returns the anisotropy of a matrix whose east and north couplings are functions of the node, and whose row sums
    /// are e.
    fn anisotropy_of(n: usize, east: impl Fn(usize, usize) -> f64, north: impl Fn(usize, usize) -> f64, e: f64) -> f64 {
        let grid = Grid { nx: n, ny: n };
        let at = |f: &dyn Fn(usize, usize) -> f64| (0..n * n).map(|k| f(k % n, k / n)).collect::<Vec<_>>();
        let (east, north) = (at(&|i, j| -east(i, j)), at(&|i, j| -north(i, j)));
        let center = at(&|i, j| {
            let k = j * n + i;
            let mut sum = e - east[k] - north[k];
            sum -= if i > 0 { east[k - 1] } else { 0.0 };
            sum - if j > 0 { north[k - n] } else { 0.0 }
        });
        let v = |name, values| View::new(name, values, grid, n);
        let (center, east, north) = (v("center", &center), v("east", &east), v("north", &north));
        anisotropy(&StencilView { grid, center, east, north, corners: None }, 1e-12)
    }

    fn assert_close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b, "{a}, expected {b}");
    }

    #[test]
    fn one_direction_conducts_better() {
        for n in [34, 35, 65, 200] {
            assert_close(anisotropy_of(n, |_, _| 1000.0, |_, _| 1.0, 0.0), 1000.0);
            assert_close(anisotropy_of(n, |_, _| 1.0, |_, _| 100.0, 0.0), 100.0);
        }
        // Row sums are added to the smaller conductance.
        assert_close(anisotropy_of(64, |_, _| 1000.0, |_, _| 1.0, 9.0), 100.0);
        // Smaller grids count as isotropic.
        assert_close(anisotropy_of(33, |_, _| 1000.0, |_, _| 1.0, 0.0), 1.0);
    }

    #[test]
    fn layers_conduct_in_series_and_in_parallel() {
        let conducts = |j: usize| if j.is_multiple_of(4) { 1000.0 } else { 1.0 };
        let found = anisotropy_of(34, |_, j| conducts(j), |_, _| 1.0, 0.0);
        assert_close(found, (1000.0 + 3.0) / 4.0);
        // Jumps in both directions do not count.
        let checker = |i: usize, j: usize| if (i / 4 + j / 4).is_multiple_of(2) { 1000.0 } else { 1.0 };
        assert_close(anisotropy_of(66, checker, |i, j| checker(j, i), 0.0), 1.0);
    }

    /// A jump of the coefficients across a circle, on a small grid, where windows are close together.
    #[test]
    fn jump_across_a_circle_is_isotropic() {
        let n = 140;
        for contrast in [1e3, 1e6] {
            let k = |i: usize, j: usize| {
                let (x, y) = (i as f64 - 70.0, j as f64 - 70.0);
                if x * x + y * y < 1600.0 { contrast } else { 1.0 }
            };
            let mean = |a: f64, b: f64| 2.0 * a * b / (a + b);
            let east = |i: usize, j: usize| mean(k(i, j), k(i + 1, j));
            let found = anisotropy_of(n, east, |i, j| mean(k(i, j), k(i, j + 1)), 0.0);
            assert_close(found, 1.0);
        }
        assert_close(
            anisotropy_of(100, |i, _| if i < 50 { 1e6 } else { 1.0 }, |i, _| if i < 50 { 1e6 } else { 1.0 }, 0.0),
            1.0,
        );
    }

    #[test]
    fn few_anisotropic_windows_are_ignored() {
        let inside = |i: usize, j: usize| i < 60 && j < 60;
        assert_close(anisotropy_of(400, |i, j| if inside(i, j) { 1e6 } else { 1.0 }, |_, _| 1.0, 0.0), 1.0);
        // Windows with zero couplings, as at coasts, count as isotropic.
        assert_close(anisotropy_of(100, |i, _| if i % 8 == 0 { 0.0 } else { 1000.0 }, |_, _| 1.0, 0.0), 1.0);
    }

    #[test]
    fn nine_point_diagonals_are_included() {
        let n = 40;
        let grid = Grid { nx: n, ny: n };
        let of = |value: f64| vec![value; n * n];
        let (center, east, north, corner) = (of(2.0 * 12.0), of(-9.0), of(-1.0), of(-0.5));
        let v = |name, values| View::new(name, values, grid, n);
        let corners = Some((v("northeast", &corner), v("northwest", &corner)));
        let (east, north) = (v("east", &east), v("north", &north));
        let a = StencilView { grid, center: v("center", &center), east, north, corners };
        // The row sums are 24 - 20 - 2 = 2.
        assert_close(anisotropy(&a, 1e-12), 10.0 / (2.0 + 2.0));
        assert_close(anisotropy(&a, 0.1), 10.0 / 2.0);
        let nan = of(f64::NAN);
        assert_close(anisotropy(&StencilView { east: v("east", &nan), ..a }, 1e-12), 1.0);
    }
}

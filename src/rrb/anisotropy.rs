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
pub const WINDOW_WIDTH: usize = 32;
/// Number of windows in each direction. The windows are distributed evenly from border to border.
pub const WINDOWS_PER_SIDE: usize = 8;
/// Number of windows that may have a larger anisotropy than the result: 10 % of all windows.
const MAX_OUTLIERS: usize = WINDOWS_PER_SIDE * WINDOWS_PER_SIDE / 10;
/// Number of nodes of a part in each direction.
const PART_WIDTH: usize = 4;
const PARTS_PER_SIDE: usize = WINDOW_WIDTH / PART_WIDTH;
/// Factor by which the square root of the window's E / N is reduced, to allow for rounding errors.
const ROUNDING_FACTOR: f64 = 0.999;

/// Computes the anisotropy of a matrix in host memory. Row sums of at most `zero_row_sum` times the center count as
/// zero. Returns 1 (isotropic) if a direction has fewer than 34 nodes.
pub fn anisotropy(a: &StencilView, zero_row_sum: f64) -> f64 {
    if !has_windows(a.grid) {
        return 1.0;
    }
    let Grid { nx, ny } = a.grid;
    let window_anisotropy =
        |x, y| anisotropy_of_window(a, (window_start(nx, x), window_start(ny, y)), zero_row_sum).unwrap_or(1.0);
    percentile_90(std::array::from_fn(|y| std::array::from_fn(|x| window_anisotropy(x, y))))
}

/// Returns whether the grid is large enough for windows whose nodes have neighbours on all sides.
pub fn has_windows(grid: Grid) -> bool {
    grid.nx >= WINDOW_WIDTH + 2 && grid.ny >= WINDOW_WIDTH + 2
}

/// Returns the first node of the k-th window in a direction of n nodes.
fn window_start(n: usize, k: usize) -> usize {
    1 + (n - 2 - WINDOW_WIDTH) * k / (WINDOWS_PER_SIDE - 1)
}

/// Returns the 90th percentile of the anisotropies of all windows: at most `MAX_OUTLIERS` windows exceed this value.
pub fn percentile_90(mut windows: [[f64; WINDOWS_PER_SIDE]; WINDOWS_PER_SIDE]) -> f64 {
    let windows = windows.as_flattened_mut();
    windows.sort_unstable_by(|a, b| b.total_cmp(a));
    windows[MAX_OUTLIERS]
}

/// Computes the anisotropy of the window that begins at (i, j). Returns `None` if the window counts as isotropic. This
/// is the case if too few parts conduct like the window, or if a coupling is zero, positive or NaN. The flow can avoid
/// such a coupling, so the model of series and parallel conductances does not apply.
fn anisotropy_of_window(a: &StencilView, (i, j): (usize, usize), zero_row_sum: f64) -> Option<f64> {
    let (mut east, mut north) = ([[0.0; WINDOW_WIDTH]; WINDOW_WIDTH], [[0.0; WINDOW_WIDTH]; WINDOW_WIDTH]);
    let mut total_row_sum = 0.0;
    for (y, (east, north)) in east.iter_mut().zip(&mut north).enumerate() {
        let row = WindowRow::new(a, i, j + y);
        for k in 0..WINDOW_WIDTH {
            let diagonals = row.diagonal_sum(k);
            (east[k], north[k]) = (-(row.east[k + 1] + diagonals), -(row.north[k] + diagonals));
            if !(east[k] > 0.0 && north[k] > 0.0) {
                return None;
            }
            (east[k], north[k]) = (1.0 / east[k], 1.0 / north[k]);
            let row_sum = row.row_sum(k);
            total_row_sum += if row_sum.abs() <= zero_row_sum * row.center[k] { 0.0 } else { row_sum };
        }
    }
    let conductances_of_square = |x: usize, y: usize, width: usize| {
        let along_x: f64 = east[y..y + width].iter().map(|row| 1.0 / row[x..x + width].iter().sum::<f64>()).sum();
        let along_y: f64 =
            (x..x + width).map(|x| 1.0 / north[y..y + width].iter().map(|row| row[x]).sum::<f64>()).sum();
        [along_x, along_y]
    };
    let window_conductances = conductances_of_square(0, 0, WINDOW_WIDTH);
    let better_direction = usize::from(window_conductances[1] > window_conductances[0]);
    let mean_row_sum = f64::max(total_row_sum, 0.0) / (WINDOW_WIDTH * WINDOW_WIDTH) as f64;
    let ratio = window_conductances[better_direction] / (window_conductances[1 - better_direction] + mean_row_sum);
    let required_ratio =
        ROUNDING_FACTOR * (window_conductances[better_direction] / window_conductances[1 - better_direction]).sqrt();
    let conducts_like_window = |part: usize| {
        let part_conductances =
            conductances_of_square(part % PARTS_PER_SIDE * PART_WIDTH, part / PARTS_PER_SIDE * PART_WIDTH, PART_WIDTH);
        part_conductances[better_direction] >= required_ratio * part_conductances[1 - better_direction]
    };
    // The comparison is false if the ratio is NaN, which infinite entries cause.
    (ratio >= 1.0
        && 4 * (0..PARTS_PER_SIDE * PARTS_PER_SIDE).filter(|&part| conducts_like_window(part)).count()
            >= PARTS_PER_SIDE * PARTS_PER_SIDE)
        .then_some(ratio)
}

/// Entries of a row of a window. The east couplings begin one node before the window.
struct WindowRow<'a> {
    center: &'a [f64],
    east: &'a [f64],
    north: &'a [f64],
    south: &'a [f64],
    /// Northeast and northwest couplings, first of the cells above the row, then of the cells below. The couplings
    /// begin one node before the window.
    corners: Option<[[&'a [f64]; 2]; 2]>,
}

impl<'a> WindowRow<'a> {
    fn new(a: &StencilView<'a>, i: usize, j: usize) -> Self {
        let nodes = i..i + WINDOW_WIDTH;
        let cells = i - 1..i + WINDOW_WIDTH;
        let diagonal_rows = |j: usize| [&a.northeast_row(j)[cells.clone()], &a.northwest_row(j)[cells.clone()]];
        Self {
            center: &a.center.row(j)[nodes.clone()],
            east: &a.east_row(j)[cells.clone()],
            north: &a.north_row(j)[nodes.clone()],
            south: &a.north_row(j - 1)[nodes],
            corners: a.corners.is_some().then(|| [diagonal_rows(j), diagonal_rows(j - 1)]),
        }
    }

    /// Returns the sum of the two diagonal couplings of the cell northeast of node k.
    #[inline(always)]
    fn diagonal_sum(&self, k: usize) -> f64 {
        self.corners.as_ref().map_or(0.0, |[cells_above, _]| cells_above[0][k + 1] + cells_above[1][k + 1])
    }

    /// Returns the row sum of node k.
    #[inline(always)]
    fn row_sum(&self, k: usize) -> f64 {
        let diagonals = self.corners.as_ref().map_or(0.0, |[cells_above, cells_below]| {
            (cells_above[0][k + 1] + cells_above[1][k]) + (cells_below[0][k] + cells_below[1][k + 1])
        });
        self.center[k] + self.east[k] + self.east[k + 1] + self.north[k] + self.south[k] + diagonals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::matrix::GridArray;

    /// Returns the anisotropy of a matrix whose east and north couplings are functions of the node, and whose row sums
    /// are e.
    fn anisotropy_of(n: usize, east: impl Fn(usize, usize) -> f64, north: impl Fn(usize, usize) -> f64, e: f64) -> f64 {
        let grid = Grid { nx: n, ny: n };
        let values_at_nodes = |f: &dyn Fn(usize, usize) -> f64| (0..n * n).map(|k| f(k % n, k / n)).collect::<Vec<_>>();
        let (east, north) = (values_at_nodes(&|i, j| -east(i, j)), values_at_nodes(&|i, j| -north(i, j)));
        let center = values_at_nodes(&|i, j| {
            let k = j * n + i;
            let mut value = e - east[k] - north[k];
            value -= if i > 0 { east[k - 1] } else { 0.0 };
            value - if j > 0 { north[k - n] } else { 0.0 }
        });
        let view = |name, values| GridArray::new(name, values, grid, n);
        let (center, east, north) = (view("center", &center), view("east", &east), view("north", &north));
        anisotropy(&StencilView { grid, center, east, north, corners: None }, 1e-12)
    }

    fn assert_close(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 * expected, "{value}, expected {expected}");
    }

    #[test]
    fn anisotropy_is_ratio_of_conductances() {
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
        let conductance = |j: usize| if j.is_multiple_of(4) { 1000.0 } else { 1.0 };
        let estimate = anisotropy_of(34, |_, j| conductance(j), |_, _| 1.0, 0.0);
        assert_close(estimate, (1000.0 + 3.0) / 4.0);
        // Jumps in both directions do not count as anisotropy.
        let checkerboard = |i: usize, j: usize| if (i / 4 + j / 4).is_multiple_of(2) { 1000.0 } else { 1.0 };
        assert_close(anisotropy_of(66, checkerboard, |i, j| checkerboard(j, i), 0.0), 1.0);
    }

    /// A jump of the coefficients across a circle, on a small grid, where windows are close together.
    #[test]
    fn jump_across_a_circle_is_isotropic() {
        let n = 140;
        for contrast in [1e3, 1e6] {
            let coefficient = |i: usize, j: usize| {
                let (x, y) = (i as f64 - 70.0, j as f64 - 70.0);
                if x * x + y * y < 1600.0 { contrast } else { 1.0 }
            };
            let harmonic_mean = |a: f64, b: f64| 2.0 * a * b / (a + b);
            let east = |i: usize, j: usize| harmonic_mean(coefficient(i, j), coefficient(i + 1, j));
            let estimate = anisotropy_of(n, east, |i, j| harmonic_mean(coefficient(i, j), coefficient(i, j + 1)), 0.0);
            assert_close(estimate, 1.0);
        }
        assert_close(
            anisotropy_of(100, |i, _| if i < 50 { 1e6 } else { 1.0 }, |i, _| if i < 50 { 1e6 } else { 1.0 }, 0.0),
            1.0,
        );
    }

    #[test]
    fn few_anisotropic_windows_are_ignored() {
        let is_in_corner = |i: usize, j: usize| i < 60 && j < 60;
        assert_close(anisotropy_of(400, |i, j| if is_in_corner(i, j) { 1e6 } else { 1.0 }, |_, _| 1.0, 0.0), 1.0);
        // Windows with zero couplings, as at coasts, count as isotropic.
        assert_close(anisotropy_of(100, |i, _| if i % 8 == 0 { 0.0 } else { 1000.0 }, |_, _| 1.0, 0.0), 1.0);
    }

    #[test]
    fn nine_point_diagonals_are_included() {
        let n = 40;
        let grid = Grid { nx: n, ny: n };
        let constant_array = |value: f64| vec![value; n * n];
        let (center, east, north, diagonal) =
            (constant_array(2.0 * 12.0), constant_array(-9.0), constant_array(-1.0), constant_array(-0.5));
        let view = |name, values| GridArray::new(name, values, grid, n);
        let corners = Some((view("northeast", &diagonal), view("northwest", &diagonal)));
        let (east, north) = (view("east", &east), view("north", &north));
        let a = StencilView { grid, center: view("center", &center), east, north, corners };
        // The row sums are 24 - 20 - 2 = 2.
        assert_close(anisotropy(&a, 1e-12), 10.0 / (2.0 + 2.0));
        assert_close(anisotropy(&a, 0.1), 10.0 / 2.0);
        let nan_array = constant_array(f64::NAN);
        assert_close(anisotropy(&StencilView { east: view("east", &nan_array), ..a }, 1e-12), 1.0);
    }
}

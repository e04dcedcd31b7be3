//! Diagonals, row sums, and strengths of the couplings in each direction, for the caller's matrix and for coarse
//! matrices.

use super::finest::FinestGrid;
use super::grid::Grid;
use super::layout::{CallerRow, DAMPING, ZERO_ROW_SUM};
use super::loops::split_columns;
use super::weights::{LANES, Lane, load_lane, store_lane};
use crate::base::isa::for_each_isa;
use crate::base::loops::combine;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::stencil::cells::SevenPoints;
use crate::stencil::coarsening::CUBE_OFFSETS;

/// Five sums over rows of the matrix. On the finest grid, rows without couplings do not count.
/// - 0, 1 and 2: sum of the conductances of the row in x, in y and in z, divided by the diagonal.
/// - 3: number of rows with a positive diagonal.
/// - 4: number of rows with a positive row sum.
pub type RowStatistics = [f64; 5];

/// Number of neighbours in the 27-point stencil.
const NEIGHBOURS: usize = 26;

/// Adds up the `LANES` partial sums of each statistic in a fixed order.
#[inline(always)]
fn sum_lanes(lanes: &[Lane; 5]) -> RowStatistics {
    let mut statistics = [0.0; 5];
    for (sum, lane) in statistics.iter_mut().zip(lanes) {
        for value in lane {
            *sum += value;
        }
    }
    statistics
}

/// Adds the five terms of a row (see `RowStatistics`) to the partial sums with index l.
#[inline(always)]
fn add_row_terms(lanes: &mut [Lane; 5], l: usize, direction_sums: [f64; 3], diagonal: f64, row_sum: f64) {
    let has_diagonal = diagonal > 0.0;
    let inverse_diagonal = 1.0 / if has_diagonal { diagonal } else { 1.0 };
    for d in 0..3 {
        lanes[d][l] += if has_diagonal { direction_sums[d] * inverse_diagonal } else { 0.0 };
    }
    lanes[3][l] += if has_diagonal { 1.0 } else { 0.0 };
    lanes[4][l] += if row_sum > 0.0 { 1.0 } else { 0.0 };
}

/// Returns the row sum, or zero if it is at most the rounding level, `ZERO_ROW_SUM` times the diagonal.
#[inline(always)]
fn rounded_row_sum(row_sum: f64, diagonal: f64) -> f64 {
    if row_sum > ZERO_ROW_SUM * diagonal { row_sum } else { 0.0 }
}

for_each_isa! {
    /// Computes 1/D and the row sums of a row of cells, and returns its statistics. On entry, `direction_sums` contains
    /// the sums of conductances in x, y and z. On return, its first slice contains 1/D, and its second slice contains
    /// the row sums, both of `scale` times the matrix. Row sums at the rounding level and those of cells without
    /// couplings are set to zero.
    fn finish_matrix_row(direction_sums: &mut [&mut [f64]; 3], center: &[f64], scale: f64) -> RowStatistics {
        let len = center.len();
        let mut lanes = [[0.0; LANES]; 5];
        for start in (0..len).step_by(LANES) {
            let n = LANES.min(len - start);
            let d = load_lane(center, start, n);
            let (x, y) = (load_lane(direction_sums[0], start, n), load_lane(direction_sums[1], start, n));
            let z = load_lane(direction_sums[2], start, n);
            let (mut inverse, mut row_sums) = ([0.0; LANES], [0.0; LANES]);
            for l in 0..LANES {
                let has_couplings = x[l] != 0.0 || y[l] != 0.0 || z[l] != 0.0;
                let coupling_sum = x[l] + y[l] + z[l];
                let g = if has_couplings { rounded_row_sum(d[l] - coupling_sum, d[l]) } else { 0.0 };
                add_row_terms(&mut lanes, l, [x[l], y[l], z[l]], if has_couplings { coupling_sum + g } else { 0.0 }, g);
                inverse[l] = 1.0 / (scale * d[l]);
                row_sums[l] = scale * g;
            }
            store_lane(direction_sums[0], start, n, &inverse);
            store_lane(direction_sums[1], start, n, &row_sums);
        }
        sum_lanes(&lanes)
    }

    /// Computes diagonals and reciprocal Jacobi divisors at points of a coarse grid from their conductances and their
    /// `row_sums`. Sets row sums at the rounding level to zero. Returns the statistics of these rows.
    fn finish_points<R: Real>(
        diagonal: &mut [R], inverse: &mut [R], row_sums: &mut [R], c: &[&[R]; NEIGHBOURS]
    ) -> RowStatistics {
        let len = diagonal.len();
        let mut lanes = [[0.0; LANES]; 5];
        for start in (0..len).step_by(LANES) {
            let n = LANES.min(len - start);
            let mut direction_sums = [[0.0; LANES]; 3];
            let (mut coupling_sum, mut magnitude_sum) = ([0.0; LANES], [0.0; LANES]);
            for (k, c) in c.iter().enumerate() {
                let c = load_lane(c, start, n);
                for l in 0..LANES {
                    coupling_sum[l] += c[l];
                    magnitude_sum[l] += c[l].abs();
                }
                for d in 0..3 {
                    if CUBE_OFFSETS[k / 2][d] != 0 {
                        for l in 0..LANES {
                            direction_sums[d][l] += c[l];
                        }
                    }
                }
            }
            let exact_row_sums = load_lane(row_sums, start, n);
            for l in 0..n {
                let g = rounded_row_sum(exact_row_sums[l], coupling_sum[l] + exact_row_sums[l]);
                let d = coupling_sum[l] + g;
                add_row_terms(&mut lanes, l, [direction_sums[0][l], direction_sums[1][l], direction_sums[2][l]], d, g);
                let divisor = f64::max(d, (d + magnitude_sum[l]) / 2.0) / DAMPING;
                (diagonal[start + l], row_sums[start + l]) = (R::from_f64(d), R::from_f64(g));
                inverse[start + l] = R::from_f64(if divisor > 0.0 { 1.0 / divisor } else { 0.0 });
            }
        }
        sum_lanes(&lanes)
    }
}

/// Loads plane k of the caller's matrix, multiplied by `scale`. `workspace` is workspace of at least three rows of
/// cells. Returns the statistics of the plane.
///
/// # Safety
/// The plane must belong to this thread, and no other thread may read it.
pub unsafe fn load_plane<T: Real + Number>(
    finest: &FinestGrid<T>,
    a: &SevenPoints,
    k: usize,
    scale: f64,
    workspace: &mut [f64],
) -> RowStatistics {
    let (layout, nx) = (&finest.a.split, a.cells.nx);
    let mut statistics = [0.0; 5];
    let (x, remaining_workspace) = workspace.split_at_mut(nx);
    let (y, remaining_workspace) = remaining_workspace.split_at_mut(nx);
    let z = &mut remaining_workspace[..nx];
    for j in 0..a.cells.ny {
        let row = CallerRow::new(a, j, k);
        [&mut *x, &mut *y, &mut *z].into_iter().for_each(|direction_sums| direction_sums.fill(0.0));
        combine(&mut x[1..], 1.0, -1.0, row.x_entries);
        combine(&mut x[..nx - 1], 1.0, -1.0, row.x_entries);
        row.adjacent_entries[0].into_iter().flatten().for_each(|a| combine(y, 1.0, -1.0, a));
        row.adjacent_entries[1].into_iter().flatten().for_each(|a| combine(z, 1.0, -1.0, a));
        let row_statistics = finish_matrix_row(&mut [x, y, z], row.center, scale);
        statistics.iter_mut().zip(row_statistics).for_each(|(sum, term)| *sum += term);
        let half_row_start = |half| layout.row_start(half, j as isize, k as isize);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let store_halves = |array: &Shared<T>, array_start: usize, row: &[f64], scale: f64| {
                let half_row = |half| array.slice_mut(array_start + half_row_start(half), layout.row_points(half));
                split_columns(half_row(0), half_row(1), row, scale);
            };
            store_halves(&finest.inverse_diagonal, 0, x, 1.0);
            store_halves(&finest.a.row_sums, 0, y, 1.0);
            for (d, entries) in a.forward.into_iter().enumerate() {
                store_halves(&finest.a.c, d * layout.len(), &entries[(k * a.cells.ny + j) * nx..][..nx], -scale);
            }
        }
    }
    statistics
}

/// Completes plane k of a coarse matrix after its conductances have been computed: diagonals, Jacobi divisors and row
/// sums. Returns the statistics of the plane.
///
/// # Safety
/// The plane must belong to this thread. During this call, no thread may write conductances, and no other thread may
/// use the diagonals, divisors and row sums of the plane.
pub unsafe fn finish_plane<T: Real + Number>(grid: &Grid<T>, k: usize) -> RowStatistics {
    let mut statistics = [0.0; 5];
    for half in 0..2 {
        let range = grid.a.split.half_plane(half, k);
        // SAFETY: guaranteed by the caller.
        let half_statistics = unsafe {
            let c: [&[T]; NEIGHBOURS] = std::array::from_fn(|t| grid.a.conductances(half, &range, t / 2, t % 2 == 1));
            let out = [&grid.diagonal, &grid.inverse_divisors, &grid.a.row_sums];
            let [diagonal, inverse, row_sums] = out.map(|array| array.slice_mut(range.start, range.len()));
            finish_points(diagonal, inverse, row_sums, &c)
        };
        statistics.iter_mut().zip(half_statistics).for_each(|(sum, term)| *sum += term);
    }
    statistics
}

//! Diagonals, row sums, and strengths of the couplings in each direction, for the caller's matrix and for coarse
//! matrices.

use super::finest::Finest;
use super::grid::Grid;
use super::layout::{CallerRow, DAMPING, ZERO_ROW_SUM};
use super::loops::split;
use super::weights::{LANES, Lane, lane, store};
use crate::base::isa::for_each_isa;
use crate::base::loops::combine;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::stencil::cells::SevenPoints;
use crate::stencil::coarsening::CUBE;

/// Five sums over rows of the matrix: the sums of conductances in x, in y and in z, each divided by the diagonal; the
/// number of rows with a positive diagonal; the number of rows with a positive row sum. On the finest grid, rows
/// without couplings do not count.
pub type RowStatistics = [f64; 5];

/// Number of neighbours in the 27-point stencil.
const NEAR: usize = 26;

/// Sums the lanes in a fixed order.
#[inline(always)]
fn total(lanes: &[Lane; 5]) -> RowStatistics {
    let mut seen = [0.0; 5];
    for (sum, lane) in seen.iter_mut().zip(lanes) {
        for value in lane {
            *sum += value;
        }
    }
    seen
}

/// Adds the five terms of a row (see `RowStatistics`) to lane l.
#[inline(always)]
fn add_row_terms(lanes: &mut [Lane; 5], l: usize, parts: [f64; 3], diagonal: f64, row_sum: f64) {
    let there = diagonal > 0.0;
    let over = 1.0 / if there { diagonal } else { 1.0 };
    for d in 0..3 {
        lanes[d][l] += if there { parts[d] * over } else { 0.0 };
    }
    lanes[3][l] += if there { 1.0 } else { 0.0 };
    lanes[4][l] += if row_sum > 0.0 { 1.0 } else { 0.0 };
}

/// Returns the row sum, or zero if it is at most the rounding level, `ZERO_ROW_SUM` times the diagonal.
#[inline(always)]
fn rounded_row_sum(row_sum: f64, diagonal: f64) -> f64 {
    if row_sum > ZERO_ROW_SUM * diagonal { row_sum } else { 0.0 }
}

for_each_isa! {
    /// Computes 1/D and the row sums of a row of cells, and returns its statistics. On entry, `parts` contains the sums
    /// of conductances in x, y and z. On return, its first slice contains 1/D, and its second slice contains the row
    /// sums, both of `scale` times the matrix. Row sums at the rounding level and those of cells without couplings are
    /// set to zero.
    fn finish_row(parts: &mut [&mut [f64]; 3], center: &[f64], scale: f64) -> RowStatistics {
        let len = center.len();
        let mut lanes = [[0.0; LANES]; 5];
        for at in (0..len).step_by(LANES) {
            let n = LANES.min(len - at);
            let d = lane(center, at, n);
            let (x, y, z) = (lane(parts[0], at, n), lane(parts[1], at, n), lane(parts[2], at, n));
            let (mut inverse, mut row_sums) = ([0.0; LANES], [0.0; LANES]);
            for l in 0..LANES {
                let coupled = x[l] != 0.0 || y[l] != 0.0 || z[l] != 0.0;
                let sum = x[l] + y[l] + z[l];
                let g = if coupled { rounded_row_sum(d[l] - sum, d[l]) } else { 0.0 };
                add_row_terms(&mut lanes, l, [x[l], y[l], z[l]], if coupled { sum + g } else { 0.0 }, g);
                inverse[l] = 1.0 / (scale * d[l]);
                row_sums[l] = scale * g;
            }
            store(parts[0], at, n, &inverse);
            store(parts[1], at, n, &row_sums);
        }
        total(&lanes)
    }

    /// Computes diagonals and reciprocal Jacobi divisors at points of a coarse grid from their conductances and their
    /// `row_sums`. Sets row sums at the rounding level to zero. Returns the statistics of these rows.
    fn finish_points<R: Real>(
        diagonal: &mut [R], inverse: &mut [R], row_sums: &mut [R], c: &[&[R]; NEAR]
    ) -> RowStatistics {
        let len = diagonal.len();
        let mut lanes = [[0.0; LANES]; 5];
        for at in (0..len).step_by(LANES) {
            let n = LANES.min(len - at);
            let (mut parts, mut sum, mut size) = ([[0.0; LANES]; 3], [0.0; LANES], [0.0; LANES]);
            for (k, c) in c.iter().enumerate() {
                let c = lane(c, at, n);
                for l in 0..LANES {
                    sum[l] += c[l];
                    size[l] += c[l].abs();
                }
                for d in 0..3 {
                    if CUBE[k / 2][d] != 0 {
                        for l in 0..LANES {
                            parts[d][l] += c[l];
                        }
                    }
                }
            }
            let exact = lane(row_sums, at, n);
            for l in 0..n {
                let g = rounded_row_sum(exact[l], sum[l] + exact[l]);
                let d = sum[l] + g;
                add_row_terms(&mut lanes, l, [parts[0][l], parts[1][l], parts[2][l]], d, g);
                let divisor = f64::max(d, (d + size[l]) / 2.0) / DAMPING;
                (diagonal[at + l], row_sums[at + l]) = (R::narrow(d), R::narrow(g));
                inverse[at + l] = R::narrow(if divisor > 0.0 { 1.0 / divisor } else { 0.0 });
            }
        }
        total(&lanes)
    }
}

/// Loads plane k of the caller's matrix, multiplied by `scale`. `room` is workspace of at least three rows of cells.
/// Returns the statistics of the plane.
///
/// # Safety
/// The plane must belong to this thread, and no other thread may read it.
pub unsafe fn load<T: Real + Number>(
    to: &Finest<T>,
    a: &SevenPoints,
    k: usize,
    scale: f64,
    room: &mut [f64],
) -> RowStatistics {
    let (layout, nx) = (&to.a.split, a.cells.nx);
    let mut seen = [0.0; 5];
    let (x, rest) = room.split_at_mut(nx);
    let (y, rest) = rest.split_at_mut(nx);
    let z = &mut rest[..nx];
    for j in 0..a.cells.ny {
        let row = CallerRow::new(a, j, k);
        [&mut *x, &mut *y, &mut *z].into_iter().for_each(|part| part.fill(0.0));
        combine(&mut x[1..], 1.0, -1.0, row.along);
        combine(&mut x[..nx - 1], 1.0, -1.0, row.along);
        row.across[0].into_iter().flatten().for_each(|a| combine(y, 1.0, -1.0, a));
        row.across[1].into_iter().flatten().for_each(|a| combine(z, 1.0, -1.0, a));
        let of_row = finish_row(&mut [x, y, z], row.center, scale);
        seen.iter_mut().zip(of_row).for_each(|(sum, of)| *sum += of);
        let start_of_half = |half| layout.at(half, j as isize, k as isize);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let halves = |array: &Shared<T>, start: usize, row: &[f64], scale: f64| {
                let half = |half| array.slice_mut(start + start_of_half(half), layout.points(half));
                split(half(0), half(1), row, scale);
            };
            halves(&to.inverse, 0, x, 1.0);
            halves(&to.a.row_sums, 0, y, 1.0);
            for (d, entries) in a.forward.into_iter().enumerate() {
                halves(&to.a.c, d * layout.len(), &entries[(k * a.cells.ny + j) * nx..][..nx], -scale);
            }
        }
    }
    seen
}

/// Completes plane k of a coarse matrix after its conductances have been computed: diagonals, Jacobi divisors and row
/// sums. Returns the statistics of the plane.
///
/// # Safety
/// The plane must belong to this thread. During this call, no thread may write conductances, and no other thread may
/// use the diagonals, divisors and row sums of the plane.
pub unsafe fn finish<T: Real + Number>(grid: &Grid<T>, k: usize) -> RowStatistics {
    let mut seen = [0.0; 5];
    for half in 0..2 {
        let range = grid.a.split.half_plane(half, k);
        // SAFETY: guaranteed by the caller.
        let of_half = unsafe {
            let c: [&[T]; NEAR] = std::array::from_fn(|t| grid.a.c(half, &range, t / 2, t % 2 == 1));
            let out = [&grid.diagonal, &grid.inverse, &grid.a.row_sums];
            let [diagonal, inverse, row_sums] = out.map(|array| array.slice_mut(range.start, range.len()));
            finish_points(diagonal, inverse, row_sums, &c)
        };
        seen.iter_mut().zip(of_half).for_each(|(sum, of)| *sum += of);
    }
    seen
}

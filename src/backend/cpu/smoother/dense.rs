//! Relaxation of blocks by dense inverses: the product of a matrix with many residuals at once, or with one.

#![allow(clippy::needless_range_loop)] // index loops, since closures are compiled without the instruction set

use super::kernels::{BATCH, Form, Lines, Operator, SCRATCH, Solver, Task, tile_residual, tile_update};
use crate::grid::block_inverse::Shape;
use crate::runtime::lanes::Lanes;

/// The block's cells as tile rows, row by row with the place of the first cell of each.
#[inline(always)]
fn tile_rows([bx, by, bz]: Shape) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..by * bz).map(move |r| (r * bx, r % by, r / by))
}

/// See `relax::relax_dense`.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn relax_dense_text<V: Lanes>(
    tasks: &[Task],
    solver: &Solver,
    a: &Operator,
    scratch: &mut [f64],
    alone: bool,
) {
    let Form::Dense(inverse) = &solver.form else { return };
    let [bx, by, bz] = solver.shape;
    let n = bx * by * bz;
    let inverse = &inverse[..n * n];
    let (r, z) = scratch[..SCRATCH].split_at_mut(SCRATCH / 2);
    // One block: values one after the other. More: value t of task b at r[t * BATCH + b].
    let step = if alone { 1 } else { BATCH };
    for (b, task) in tasks.iter().enumerate() {
        let lines = Lines::new(task, bx);
        for (first, j, k) in tile_rows(solver.shape) {
            let mut values = [0.0; 8];
            // SAFETY: as our caller promised; eight values.
            unsafe { tile_residual::<V>(&lines, task, j, k, a).store(values.as_mut_ptr()) };
            for (i, v) in values.into_iter().enumerate().take(bx) {
                r[(first + i) * step + b] = v;
            }
        }
    }
    if alone {
        for (z, row) in z.iter_mut().zip(inverse.chunks_exact(n)) {
            *z = dense_dot::<V>(row, &r[..n]);
        }
    } else {
        dense_product::<V>(inverse, n, r, z);
    }
    for (b, task) in tasks.iter().enumerate() {
        let lines = Lines::new(task, bx);
        for (first, j, k) in tile_rows(solver.shape) {
            let values: [f64; 8] = std::array::from_fn(|i| if i < bx { z[(first + i) * step + b] } else { 0.0 });
            // SAFETY: as our caller promised; eight values.
            unsafe { tile_update(&lines, task, j, k, V::load(values.as_ptr())) };
        }
    }
}

/// <a, b> in eight lanes.
#[inline(always)]
fn dense_dot<V: Lanes>(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    let mut sum = V::splat(0.0);
    for t in (0..n).step_by(8) {
        let here = (n - t).min(8);
        // SAFETY: t + here <= n.
        sum = unsafe { V::load_first(a.as_ptr().add(t), here).mul_add(V::load_first(b.as_ptr().add(t), here), sum) };
    }
    let mut lanes = [0.0; 8];
    // SAFETY: eight values.
    unsafe { sum.store(lanes.as_mut_ptr()) };
    ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
}

/// z = inverse r for `BATCH` columns: eight rows by two vectors at a time.
#[inline(always)]
fn dense_product<V: Lanes>(inverse: &[f64], n: usize, r: &[f64], z: &mut [f64]) {
    const ROWS: usize = 8;
    let (r, z) = (&r[..n * BATCH], &mut z[..n * BATCH]);
    for first in (0..n).step_by(ROWS) {
        let rows = ROWS.min(n - first);
        let mut sums = [[V::splat(0.0); 2]; ROWS];
        if rows == ROWS {
            let matrix = &inverse[first * n..(first + ROWS) * n];
            for t in 0..n {
                // SAFETY: t < n, and r has n rows of two vectors.
                let columns: [V; 2] =
                    unsafe { [V::load(r.as_ptr().add(t * BATCH)), V::load(r.as_ptr().add(t * BATCH + 8))] };
                for (q, sums) in sums.iter_mut().enumerate() {
                    let entry = V::splat(matrix[q * n + t]);
                    *sums = [entry.mul_add(columns[0], sums[0]), entry.mul_add(columns[1], sums[1])];
                }
            }
        } else {
            for (q, sums) in sums.iter_mut().enumerate().take(rows) {
                for t in 0..n {
                    let entry = V::splat(inverse[(first + q) * n + t]);
                    for (h, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: t < n, and r has n rows of two vectors.
                        *sum = entry.mul_add(unsafe { V::load(r.as_ptr().add(t * BATCH + 8 * h)) }, *sum);
                    }
                }
            }
        }
        for (q, sums) in sums.into_iter().enumerate().take(rows) {
            for (h, sum) in sums.into_iter().enumerate() {
                // SAFETY: first + q < n, and z has n rows of two vectors.
                unsafe { sum.store(z.as_mut_ptr().add((first + q) * BATCH + 8 * h)) };
            }
        }
    }
}

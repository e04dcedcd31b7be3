//! Relaxation of blocks with dense inverses. A batch of blocks is relaxed with one matrix-matrix product, and a single
//! block with a matrix-vector product. See docs/theory/smoother.md, "Dense inverses".

#![allow(clippy::needless_range_loop)] // index loops: closures would be compiled without the target features

use super::kernels::{
    BATCH_BLOCKS, BlockInverse, InverseForm, Operator, SCRATCH_VALUES, Task, TileRowLayout, compute_tile_row_residual,
    update_tile_row,
};
use crate::base::lanes::Lanes;
use crate::smoother::block_inverse::BlockShape;

/// Returns, for each row of cells (., j, k) of a block, the index of its first cell in the block, and j and k.
#[inline(always)]
fn tile_rows([bx, by, bz]: BlockShape) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..by * bz).map(move |r| (r * bx, r % by, r / by))
}

/// Relaxes up to `BATCH_BLOCKS` blocks with the dense inverse: u_b <- u_b + omega A_b^-1 (f - A u)_b. `V` is the type
/// of the vectors of eight values.
///
/// # Safety
/// The conditions of `relax::relax_dense` hold.
#[inline(always)]
pub unsafe fn relax_dense_generic<V: Lanes>(
    tasks: &[Task],
    block_inverse: &BlockInverse,
    a: &Operator,
    scratch: &mut [f64],
    is_sequential: bool,
) {
    let InverseForm::Dense(inverse) = &block_inverse.form else { return };
    let [bx, by, bz] = block_inverse.shape;
    let n = bx * by * bz;
    let inverse = &inverse[..n * n];
    let (r, z) = scratch[..SCRATCH_VALUES].split_at_mut(SCRATCH_VALUES / 2);
    // Value t of block b is stored at r[t] for a single block, and at r[t * BATCH_BLOCKS + b] for a batch.
    let stride = if is_sequential { 1 } else { BATCH_BLOCKS };
    for (b, task) in tasks.iter().enumerate() {
        let layout = TileRowLayout::new(task, bx);
        for (first_cell, j, k) in tile_rows(block_inverse.shape) {
            let mut values = [0.0; 8];
            // SAFETY: the caller guarantees that the cells of the tasks may be read; `values` has room for eight
            // values.
            unsafe { compute_tile_row_residual::<V>(&layout, task, j, k, a).store(values.as_mut_ptr()) };
            for (i, value) in values.into_iter().enumerate().take(bx) {
                r[(first_cell + i) * stride + b] = value;
            }
        }
    }
    if is_sequential {
        for (z, row) in z.iter_mut().zip(inverse.chunks_exact(n)) {
            *z = dot_product::<V>(row, &r[..n]);
        }
    } else {
        multiply_batch::<V>(inverse, n, r, z);
    }
    for (b, task) in tasks.iter().enumerate() {
        let layout = TileRowLayout::new(task, bx);
        for (first_cell, j, k) in tile_rows(block_inverse.shape) {
            let values: [f64; 8] = std::array::from_fn(|i| if i < bx { z[(first_cell + i) * stride + b] } else { 0.0 });
            // SAFETY: the caller guarantees that the cells of the tasks may be written; `values` holds eight values.
            unsafe { update_tile_row(&layout, task, j, k, V::load(values.as_ptr())) };
        }
    }
}

/// Computes the dot product sum_t a_t b_t with eight partial sums, which are then added in a fixed order.
#[inline(always)]
fn dot_product<V: Lanes>(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    let mut sum = V::splat(0.0);
    for t in (0..n).step_by(8) {
        let lane_count = (n - t).min(8);
        // SAFETY: t + lane_count <= n.
        sum = unsafe {
            V::load_first(a.as_ptr().add(t), lane_count).mul_add(V::load_first(b.as_ptr().add(t), lane_count), sum)
        };
    }
    sum.sum()
}

/// Computes the product z = inverse r. r and z have n rows of `BATCH_BLOCKS` values, one column per block. One step
/// multiplies eight rows of the inverse by two vectors of eight columns.
#[inline(always)]
fn multiply_batch<V: Lanes>(inverse: &[f64], n: usize, r: &[f64], z: &mut [f64]) {
    const ROWS_PER_STEP: usize = 8;
    let (r, z) = (&r[..n * BATCH_BLOCKS], &mut z[..n * BATCH_BLOCKS]);
    for first_row in (0..n).step_by(ROWS_PER_STEP) {
        let row_count = ROWS_PER_STEP.min(n - first_row);
        let mut sums = [[V::splat(0.0); 2]; ROWS_PER_STEP];
        if row_count == ROWS_PER_STEP {
            let matrix = &inverse[first_row * n..(first_row + ROWS_PER_STEP) * n];
            for t in 0..n {
                // SAFETY: t < n, and r has n rows of two vectors.
                let row_of_r: [V; 2] = unsafe {
                    [V::load(r.as_ptr().add(t * BATCH_BLOCKS)), V::load(r.as_ptr().add(t * BATCH_BLOCKS + 8))]
                };
                for (q, sums) in sums.iter_mut().enumerate() {
                    let entry = V::splat(matrix[q * n + t]);
                    *sums = [entry.mul_add(row_of_r[0], sums[0]), entry.mul_add(row_of_r[1], sums[1])];
                }
            }
        } else {
            for (q, sums) in sums.iter_mut().enumerate().take(row_count) {
                for t in 0..n {
                    let entry = V::splat(inverse[(first_row + q) * n + t]);
                    for (h, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: t < n, and r has n rows of two vectors.
                        *sum = entry.mul_add(unsafe { V::load(r.as_ptr().add(t * BATCH_BLOCKS + 8 * h)) }, *sum);
                    }
                }
            }
        }
        for (q, sums) in sums.into_iter().enumerate().take(row_count) {
            for (h, sum) in sums.into_iter().enumerate() {
                // SAFETY: first_row + q < n, and z has n rows of two vectors.
                unsafe { sum.store(z.as_mut_ptr().add((first_row + q) * BATCH_BLOCKS + 8 * h)) };
            }
        }
    }
}

//! The functions that relax blocks and compute residuals, compiled for each instruction set.

use super::dense::relax_dense_generic;
use super::kernels::{BlockInverse, Operator, Task, compute_residual};
use super::transforms::relax_generic;
use crate::base::isa::{Isa, isa};
use crate::base::lanes::{Lanes, Portable};

/// Compiles a function that is generic over `Lanes` once per instruction set, and defines a function that calls the
/// variant for this CPU.
macro_rules! for_each_lanes {
    ($($(#[$doc:meta])* unsafe fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?
        = $generic:ident;)*) => {$(
        $(#[$doc])*
        pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                use crate::base::lanes::{Avx2, Avx512};
                #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
                unsafe fn avx512($($argument: $type),*) $(-> $result)? {
                    // SAFETY: the conditions are those of the enclosing function.
                    unsafe { $generic::<Avx512>($($argument),*) }
                }
                #[target_feature(enable = "avx2")]
                unsafe fn avx2($($argument: $type),*) $(-> $result)? {
                    // SAFETY: the conditions are those of the enclosing function.
                    unsafe { $generic::<Avx2>($($argument),*) }
                }
                match isa() {
                    // SAFETY: the conditions are those of the enclosing function; `isa` returns only instruction sets
                    // that the CPU has.
                    Isa::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: as above.
                    Isa::Avx2 => return unsafe { avx2($($argument),*) },
                    Isa::Portable => {}
                }
            }
            // SAFETY: the conditions are those of the enclosing function.
            unsafe { $generic::<Portable>($($argument),*) }
        }
    )*};
}

for_each_lanes! {
    /// Relaxes the blocks of a task by sine transforms: u_b <- u_b + omega A_b^-1 (f - A u)_b.
    ///
    /// # Safety
    /// The arrays are u, f and out of the task. The cells of the task's blocks may be read in u and f and written in
    /// out. The cells between two blocks of the task may be read in u and f. The layer of cells around the blocks may
    /// be read in u.
    unsafe fn relax(task: &Task, block_inverse: &BlockInverse, a: &Operator) = relax_generic;

    /// Relaxes at most `BATCH_BLOCKS` tasks of one block each with the dense inverse. `is_sequential` requires exactly
    /// one task, and selects a matrix-vector product. The matrix-vector product sums in another order than the
    /// matrix-matrix product of a batch. A method therefore passes the same value of `is_sequential` in every call.
    ///
    /// # Safety
    /// The conditions of `relax` hold for each task, and no task writes a cell that another task reads.
    unsafe fn relax_dense(
        tasks: &[Task], block_inverse: &BlockInverse, a: &Operator, scratch: &mut [f64], is_sequential: bool
    )
        = relax_dense_generic;

    /// Computes the residual f - A u on a row of n cells, and stores the residual in r unless r is null. The pointers
    /// u, f and r point to the values of the first cell. Returns the sum of (scale r_i)^2 in a fixed order, where r_i
    /// are the values of the residual.
    ///
    /// # Safety
    /// n values of f, and n cells of u with the layer around them, may be read. r is null, or n values may be written.
    unsafe fn compute_residual_row(
        u: *const f64, f: *const f64, r: *mut f64, n: usize, strides: (usize, usize), a: &Operator, scale: f64
    ) -> f64 = compute_residual_row_generic;
}

#[inline(always)]
unsafe fn compute_residual_row_generic<V: Lanes>(
    u: *const f64,
    f: *const f64,
    r: *mut f64,
    n: usize,
    strides: (usize, usize),
    a: &Operator,
    scale: f64,
) -> f64 {
    let (mut square_sum, scale) = (V::splat(0.0), V::splat(scale));
    for i in (0..n).step_by(8) {
        let lane_count = (n - i).min(8);
        // SAFETY: the caller guarantees access to n cells, and i + lane_count <= n.
        unsafe {
            let v: V = compute_residual(u.add(i), f.add(i), lane_count, strides, a);
            let scaled_residual = v.mul(scale);
            square_sum = scaled_residual.mul_add(scaled_residual, square_sum);
            if !r.is_null() {
                v.store_first(r.add(i), lane_count);
            }
        }
    }
    square_sum.sum()
}

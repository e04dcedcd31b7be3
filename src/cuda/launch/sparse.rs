//! Kernels of `sparse`: argument structures and launches. The files in kernels/sparse describe the fields of the
//! structures.

use super::aggregation::{BLOCK_SIZE, Couplings};
use super::declare::Address;
use super::labelled::cell_blocks;
use super::vectors::{FIRST_FAMILY_KERNEL, Sum, VectorArgs};
use crate::cuda::driver::{Kernel, Stream};
use crate::error::Result;

include!(concat!(env!("OUT_DIR"), "/sparse.rs"));

/// Largest number of inner products, or of terms of a linear combination, per pass (kernels/sparse/steps.cuh).
pub const SUMS_PER_PASS: usize = 8;
/// Marks a position in the sell format to which no row belongs (kernels/sparse/products.cuh).
pub const NO_INDEX: u32 = u32::MAX;

/// Operation that computes the result of row i from s_i = sum_j a_ij x_j (kernels/sparse/rows.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishKind {
    StoreSum = 0,
    Residual = 1,
    ScaledResidual = 2,
    SubtractScaledSum = 3,
    Chebyshev = 4,
    Relax = 5,
    ScaleRhs = 6,
}

/// Precision of the values of a matrix and of the vectors that a product reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reals {
    /// All values are in f64.
    Double = 0,
    /// The matrix is in f32, the vectors are in f64.
    Mixed = 1,
    /// All values are in f32.
    Single = 2,
}

impl Reals {
    /// Returns the precision for a matrix in f32 (`single_matrix`) and vectors in f32 (`single_vectors`). Vectors in
    /// f32 require a matrix in f32.
    pub fn of(single_matrix: bool, single_vectors: bool) -> Self {
        match (single_matrix, single_vectors) {
            (_, true) => Self::Single,
            (true, false) => Self::Mixed,
            (false, false) => Self::Double,
        }
    }
}

/// Returns the number of blocks of a launch with `lanes` threads per row, but at least one block for each of
/// `separate_rows` long rows.
fn row_blocks(rows: i64, lanes: i64, separate_rows: i64) -> u32 {
    cell_blocks((rows * lanes).max(separate_rows * i64::from(BLOCK_SIZE.0)))
}

plain_kernels! {
    PlainKernel from FIRST_FAMILY_KERNEL, in PLAIN_KERNELS:
    /// Computes in f64 a linear combination of vectors in f32.
    CombineToDouble combine_to_double(CombineArgs) = "sparse_combine_to_f64", |a| cell_blocks(a.count), BLOCK_SIZE;
    /// Replaces a matrix in csr by couplings and row sums for aggregation.
    CsrCouplings csr_couplings(CsrCouplingsArgs) = "sparse_agg_couplings_f64", |a| cell_blocks(i64::from(a.c.rows)),
        BLOCK_SIZE;
    /// Permutes values, and adds duplicates.
    Gather gather(GatherArgs) = "sparse_gather_f64", |a| cell_blocks(a.count), BLOCK_SIZE;
    /// Rounds values to f32.
    RoundValues round_values(RoundArgs) = "sparse_round_values_f64", |a| cell_blocks(a.count), BLOCK_SIZE;
}

real_kernels! {
    RealKernel from FIRST_FAMILY_KERNEL + PLAIN_KERNELS.len(), in REAL_KERNELS:
    /// Computes <f a, f b>, where f is a factor.
    VectorDot vector_dot(VectorArgs) = "sparse_dot", |a| cell_blocks(a.count);
    /// Computes r -= alpha q and <r, r>, as a step of the loop.
    VectorAddScaled vector_add_scaled(VectorArgs) = "sparse_add_scaled", |a| cell_blocks(a.count);
    /// Computes x += alpha p and p = z + beta p, as a step of the loop.
    VectorAdvance vector_advance(VectorArgs) = "sparse_advance", |a| cell_blocks(a.count);
    /// Computes several inner products.
    SumInnerProducts sum_inner_products(InnerProductsArgs) = "sparse_sum_inner_products", |a| cell_blocks(a.count);
    /// Computes a linear combination, and the square of its norm.
    Combine combine(CombineArgs) = "sparse_combine", |a| cell_blocks(a.count);
    /// Computes d v and <v, d v>, where d is a diagonal matrix.
    ScaleByDiagonal scale_by_diagonal(DiagonalArgs) = "sparse_scale_by_diagonal", |a| cell_blocks(a.count);
    /// Computes the first step of a Chebyshev polynomial.
    BeginChebyshev begin_chebyshev(DiagonalArgs) = "sparse_begin_chebyshev", |a| cell_blocks(a.count);
    /// Computes out += f d v, where d is a diagonal matrix and f a factor.
    AddScaledByDiagonal add_scaled_by_diagonal(DiagonalArgs) = "sparse_add_scaled_by_diagonal",
        |a| cell_blocks(a.count);
    /// Computes r -= alpha q, <r, r> and <r, d r>, as a step of the loop, where d is a diagonal matrix.
    DescendByDiagonal descend_by_diagonal(DiagonalArgs) = "sparse_descend_by_diagonal", |a| cell_blocks(a.count);
    /// Computes x += alpha p and p = d r + beta p, as a step of the loop, where d is a diagonal matrix.
    AdvanceByDiagonal advance_by_diagonal(DiagonalArgs) = "sparse_advance_by_diagonal", |a| cell_blocks(a.count);
    /// Fills a vector with random numbers.
    FillRandom fill_random(RandomArgs) = "sparse_fill_random", |a| cell_blocks(a.count);
}

format_kernels! {
    FormatKernel from FIRST_FAMILY_KERNEL + PLAIN_KERNELS.len() + REAL_KERNELS.len(), in FORMAT_KERNELS,
        by Reals "_f64" "_f32" "_single":
    /// Computes the results that `FinishKind` selects, for rows of a matrix in csr.
    Csr csr_rows(CsrArgs) = "sparse_csr",
        |a, _s| row_blocks(a.end_position - a.first_position, i64::from(a.threads_per_row), a.long_rows.count),
        BLOCK_SIZE;
    /// As `csr_rows`, for a matrix in sell or ell.
    Sell sell_rows(SellArgs) = "sparse_sell",
        |a, _s| row_blocks(a.position_count, 1, a.long_rows.count), BLOCK_SIZE;
    /// As `csr_rows`, for a matrix in dia.
    Dia dia_rows(DiaArgs) = "sparse_dia", |a, _s| cell_blocks(a.rows), BLOCK_SIZE;
    /// As `csr_rows`, for a matrix in bsr.
    Bsr bsr_rows(BsrArgs) = "sparse_bsr", |a, _s| cell_blocks(a.rows), BLOCK_SIZE;
}

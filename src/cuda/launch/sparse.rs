//! Kernels of `sparse`: argument structures and launches. The files in kernels/sparse describe the fields of the
//! structures.

use super::aggregation::BLOCK;
use super::declare::Address;
use super::labelled::cell_blocks;
use super::vectors::{FIRST, Sum};
use crate::cuda::driver::{Kernel, Stream};
use crate::error::Result;

include!(concat!(env!("OUT_DIR"), "/sparse.rs"));

/// Largest number of inner products, or of terms, per pass (kernels/sparse/steps.cuh).
pub const SUMS_PER_PASS: usize = 8;
/// Marks a position of sell without a row (kernels/sparse/products.cuh).
pub const NOTHING_THERE: u32 = u32::MAX;

/// Use of the sum of a row (kernels/sparse/rows.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Keep = 0,
    Residual = 1,
    Lower = 2,
    Upper = 3,
    Chebyshev = 4,
    Relax = 5,
    Scaled = 6,
}

/// Returns the number of blocks of a launch with `lanes` threads per row and one block per long row.
fn row_blocks(rows: i64, lanes: i64, separate: i64) -> u32 {
    cell_blocks((rows * lanes).max(separate * i64::from(BLOCK.0)))
}

plain_kernels! {
    Number from FIRST, in PLAIN:
    /// Computes rows of a matrix in bsr.
    Bsr bsr_rows(BsrArgs) = "sparse_bsr_f64", |a| cell_blocks(a.rows), BLOCK;
    /// Computes several inner products.
    Inners inners(InnersArgs) = "sparse_inners_f64", |a| cell_blocks(a.count), BLOCK;
    /// Computes a linear combination, and the square of its norm.
    Combine combine(CombineArgs) = "sparse_combine_f64", |a| cell_blocks(a.count), BLOCK;
    /// Computes d v and <v, d v>.
    Scale scale_by_diagonal(DiagonalArgs) = "sparse_scale_f64", |a| cell_blocks(a.count), BLOCK;
    /// Computes the first step of a Chebyshev polynomial.
    BeginChebyshev begin_chebyshev(DiagonalArgs) = "sparse_begin_chebyshev_f64", |a| cell_blocks(a.count), BLOCK;
    /// Computes out += f d v.
    AddScaledByDiagonal add_scaled_by_diagonal(DiagonalArgs) = "sparse_add_scaled_by_diagonal_f64",
        |a| cell_blocks(a.count), BLOCK;
    /// Computes r -= alpha q, <r, r> and <r, d r>, as a step of the loop.
    DescendByDiagonal descend_by_diagonal(DiagonalArgs) = "sparse_descend_f64", |a| cell_blocks(a.count), BLOCK;
    /// Computes x += alpha p and p = d r + beta p, as a step of the loop.
    AdvanceByDiagonal advance_by_diagonal(DiagonalArgs) = "sparse_advance_by_diagonal_f64",
        |a| cell_blocks(a.count), BLOCK;
    /// Copies the values of a matrix to the places of its format.
    Gather gather(GatherArgs) = "sparse_gather_f64", |a| cell_blocks(a.count), BLOCK;
    /// Fills a vector with random numbers.
    Random fill_random(RandomArgs) = "sparse_random_f64", |a| cell_blocks(a.count), BLOCK;
}

real_kernels! {
    RealNumber from FIRST + PLAIN.len(), in REAL:
    /// Computes rows of a matrix in csr.
    Csr csr_rows(CsrArgs) = "sparse_csr", |a| row_blocks(a.end - a.first, i64::from(a.lanes), a.separate.count);
    /// Computes rows of a matrix in sell or ell.
    Sell sell_rows(SellArgs) = "sparse_sell", |a| row_blocks(a.lanes, 1, a.separate.count);
    /// Computes rows of a matrix in dia.
    Dia dia_rows(DiaArgs) = "sparse_dia", |a| cell_blocks(a.rows);
}

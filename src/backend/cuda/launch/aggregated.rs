//! Kernels that extract the couplings of S1 or A for aggregation, and copy vectors to and from its rows
//! (kernels/rrb/aggregated.cuh).

use super::aggregation::{BLOCK, Couplings, row_blocks};
use super::declare::Address;
use super::rrb::{AFTER, Geometry, Matrix};
use crate::backend::cuda::driver::{Argument, Kernel, Stream};
use crate::error::Result;
use bytemuck::AnyBitPattern;

structures! {
    /// The nodes that CG works on: every `step`-th node of a row, in row 0 from node `first` on.
    Numbers { g: Geometry, step: i32, first: i32 }
    CouplingsArgs {
        n: Numbers, m: Matrix, d: Address, far: Address, excess: Address, scale: f64, c: Couplings, place: Address,
        bad: Address
    }
    RowsArgs {
        place: Address, by_colour: Address, z_by_colour: Address, step: Address, r: Address, start: Address,
        z: Address, rows: u32, unused: u32, factor: f64
    }
}

plain_kernels! {
    AggregatedNumber from AFTER, in AGGREGATED:
    /// Computes couplings and row sums of S1 or of A.
    TakeCouplings take_couplings(CouplingsArgs) = "rrb_agg_couplings_f64", |a| row_blocks(a.c.rows), BLOCK;
}

real_kernels! {
    RowsNumber from AFTER + AGGREGATED.len(), in AGGREGATED_REAL:
    /// Copies a vector stored by colour to the rows.
    TakeResidual take_residual(RowsArgs) = "rrb_agg_take", |a| row_blocks(a.rows);
    /// Copies a vector from the rows to the storage by colour.
    GiveSolution give_solution(RowsArgs) = "rrb_agg_give", |a| row_blocks(a.rows);
}

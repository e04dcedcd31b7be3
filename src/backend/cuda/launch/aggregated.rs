//! What CG of `rrb` runs on as couplings, and vectors to and from their rows: kernels/rrb/aggregated.cuh.

use super::aggregation::{BLOCK, Couplings, row_blocks};
use super::declare::Address;
use super::rrb::{AFTER, Geometry, Matrix};
use crate::backend::cuda::driver::{Argument, Kernel, Stream};
use crate::error::Result;
use bytemuck::AnyBitPattern;

structures! {
    /// The nodes that CG works on: every `step`-th of a row, the first one in the first row.
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
    /// Couplings and excess of S1, or of A.
    TakeCouplings take_couplings(CouplingsArgs) = "rrb_agg_couplings_f64", |a| row_blocks(a.c.rows), BLOCK;
}

real_kernels! {
    RowsNumber from AFTER + AGGREGATED.len(), in AGGREGATED_REAL:
    /// A vector to the rows.
    TakeResidual take_residual(RowsArgs) = "rrb_agg_take", |a| row_blocks(a.rows);
    /// And back.
    GiveSolution give_solution(RowsArgs) = "rrb_agg_give", |a| row_blocks(a.rows);
}

//! The kernels of aggregation (kernels/aggregation), in the module of `rrb`: what they take, and their launches.

use super::aggregated::BEFORE;
use super::declare::Address;
use crate::backend::cuda::driver::{Argument, Kernel, Stream};
use crate::error::Result;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Threads of a block, of that which has the small levels, and blocks of a launch at most: kernels/aggregation.
pub const BLOCK: (u32, u32) = (256, 1);
const SMALL_BLOCK: (u32, u32) = (1024, 1);
const MOST_BLOCKS: u32 = 1056;
/// Levels at most.
pub const MOST_LEVELS: usize = 20;
/// Values of a part of a sum of those before each.
pub const PART: usize = 2048;

/// Blocks of a launch over so many rows.
pub fn row_blocks(rows: u32) -> u32 {
    rows.div_ceil(BLOCK.0).clamp(1, MOST_BLOCKS)
}

entries! {
    /// The matrix of a level while levels are made.
    Couplings {
        first: Address, length: Address, col: Address, a: Address, excess: Address, diagonal: Address, rows: u32,
        unused: u32
    }
    /// The same as the cycle reads it, with vectors.
    Level {
        first: Address, entries: Address, excess: Address, step: Address, aggregate: Address, nodes: Address,
        r: Address, start: Address, c: Address, z: Address, rows: u32, width: u16, twice: u16
    }
}

structures! {
    PairArgs {
        c: Couplings, kappa: f64, partner: Address, pointed: Address, struck: Address, of: Address, fine: Couplings,
        nodes: Address, width: i32, unused: i32
    }
    NumberArgs {
        partner: Address, number: Address, of: Address, nodes: Address, joined: Address, rows: u32, width: i32
    }
    ScanArgs { values: Address, parts: Address, count: u32, unused: u32 }
    GalerkinArgs { fine: Couplings, coarse: Couplings, of: Address, nodes: Address, width: i32, unused: i32 }
    InverseArgs { c: Couplings, a: Address, excess: Address, inverse: Address }
    TakeArgs { c: Couplings, first: Address, entries: Address, excess: Address, step: Address, bound: Address }
    DescendArgs { fine: Level, coarse: Level }
    AscendArgs { fine: Level, coarse_z: Address, out: Address, first: f64, second: f64 }
    SubtractArgs { k: Level, factor: f64 }
    SmallArgs { levels: [Level; MOST_LEVELS], inverse: Address, count: i32, unused: i32 }
}

impl ScanArgs {
    /// A block each.
    fn blocks(&self) -> u32 {
        self.count.div_ceil(PART as u32).clamp(1, MOST_BLOCKS)
    }
}

plain_kernels! {
    Number from BEFORE, in PLAIN:
    /// Before the first round: rows that the smoother alone does have themselves as partners.
    SetFree set_free(PairArgs) = "rrb_agg_set_free_f64", |a| row_blocks(a.c.rows), BLOCK;
    /// Free rows point.
    Point point(PairArgs) = "rrb_agg_point_f64", |a| row_blocks(a.c.rows), BLOCK;
    /// Those that point at each other match.
    Match pair_up(PairArgs) = "rrb_agg_match_f64", |a| row_blocks(a.c.rows), BLOCK;
    /// The first rows of pairs, and those alone.
    MarkFirst mark_first(NumberArgs) = "rrb_agg_mark_first_f64", |a| row_blocks(a.rows), BLOCK;
    /// Aggregates by their numbers.
    NumberPairs number_pairs(NumberArgs) = "rrb_agg_number_f64", |a| row_blocks(a.rows), BLOCK;
    /// Sums of the values before each: of parts, over parts, within parts.
    SumParts sum_parts(ScanArgs) = "rrb_agg_sum_parts_f64", |a| a.blocks(), BLOCK;
    ScanParts scan_parts(ScanArgs) = "rrb_agg_scan_parts_f64", |_a| 1, BLOCK;
    ScanValues scan_values(ScanArgs) = "rrb_agg_scan_values_f64", |a| a.blocks(), BLOCK;
    /// Room for coarse rows.
    MakeRoom make_room(GalerkinArgs) = "rrb_agg_make_room_f64", |a| row_blocks(a.coarse.rows), BLOCK;
    /// P' S P.
    SumCouplings sum_couplings(GalerkinArgs) = "rrb_agg_sum_couplings_f64", |a| row_blocks(a.coarse.rows), BLOCK;
}

real_kernels! {
    RealNumber from BEFORE + PLAIN.len(), in REAL:
    /// The inverse of the coarsest matrix.
    Invert invert(InverseArgs) = "rrb_agg_invert", |_a| 1, in SMALL_BLOCK;
    /// Lengths of rows, and the bound of eigenvalues.
    TakeLengths take_lengths(TakeArgs) = "rrb_agg_take_lengths", |a| row_blocks(a.c.rows);
    /// The matrix for the cycle.
    TakeRows take_rows(TakeArgs) = "rrb_agg_take_rows", |a| row_blocks(a.c.rows);
    /// A level down.
    Descend descend(DescendArgs) = "rrb_agg_descend",
        |a| row_blocks(a.coarse.rows.saturating_mul(u32::from(a.coarse.width)));
    /// A level up.
    Ascend ascend(AscendArgs) = "rrb_agg_ascend", |a| row_blocks(a.fine.rows);
    /// r less a part of A c.
    Subtract subtract(SubtractArgs) = "rrb_agg_subtract", |a| row_blocks(a.k.rows);
    /// All small levels.
    SolveSmall solve_small(SmallArgs) = "rrb_agg_solve_small", |_a| 1, in SMALL_BLOCK;
}

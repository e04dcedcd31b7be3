//! The kernels of aggregation (kernels/aggregation), the first ones in the modules of the families that have it: what
//! they take, and their launches.

use super::declare::Address;
use super::inverse::InverseArgs;
use crate::backend::cuda::driver::{Argument, Kernel, Stream};
use crate::error::Result;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Threads of a block, and blocks of a launch at most: kernels/aggregation.
pub const BLOCK: (u32, u32) = (256, 1);
const MOST_BLOCKS: u32 = 1056;
/// Values of a part of a sum of those before each.
pub const PART: usize = 2048;

/// Rows of a coarsest matrix at most, and threads of the block that looks for its singular components.
pub const MOST_PINNED: u32 = 1024;
/// Rows of a slice of a level where a thread has one.
pub const SLICE: u32 = 32;
/// Threads that share a row, and a row that is a warp's.
pub const LANES: u32 = 8;
const WARP: u32 = 32;

/// Blocks of a launch over so many rows.
pub fn row_blocks(rows: u32) -> u32 {
    rows.div_ceil(BLOCK.0).clamp(1, MOST_BLOCKS)
}

/// The same with so many threads a row.
fn blocks_of(rows: u32, threads: u32) -> u32 {
    rows.div_ceil(BLOCK.0 / threads).clamp(1, MOST_BLOCKS)
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
        r: Address, start: Address, c: Address, z: Address, rows: u32, width: u16, twice: u16, lanes: u32, unused: u32
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
    SuitArgs {
        c: Couplings, kappa: f64, of: Address, nodes: Address, failed: Address, count: u32, width: i32
    }
    ScanArgs { values: Address, parts: Address, count: u32, unused: u32 }
    GalerkinArgs { fine: Couplings, coarse: Couplings, of: Address, nodes: Address, width: i32, unused: i32 }
    SpreadArgs { c: Couplings, to: Address, component: Address }
    MeansArgs { from: Address, to: Address, component: Address, rows: u32, unused: u32 }
    TakeArgs {
        c: Couplings, first: Address, entries: Address, excess: Address, step: Address, bound: Address, slice: u32,
        unused: u32
    }
    DescendArgs { fine: Level, coarse: Level }
    AscendArgs { k: Level, coarse_z: Address, out: Address, first: f64, second: f64 }
    SubtractArgs { k: Level, factor: f64 }
    NarrowArgs { from: Address, to: Address, count: u32, unused: u32 }
    CoarsestArgs { k: Level, inverse: Address }
}

impl ScanArgs {
    /// A block each.
    fn blocks(&self) -> u32 {
        self.count.div_ceil(PART as u32).clamp(1, MOST_BLOCKS)
    }
}

plain_kernels! {
    Number from 0, in PLAIN:
    /// Before the first round: rows that the smoother alone does have themselves as partners.
    SetFree set_free(PairArgs) = "agg_set_free_f64", |a| blocks_of(a.c.rows, LANES), BLOCK;
    /// Free rows point.
    Point point(PairArgs) = "agg_point_f64", |a| blocks_of(a.c.rows, LANES), BLOCK;
    /// Those that point at each other match: to two nodes, or to four or eight, whose union is tested.
    MatchTwo match_two(PairArgs) = "agg_match_2_f64", |a| row_blocks(a.c.rows), BLOCK;
    MatchFour match_four(PairArgs) = "agg_match_4_f64", |a| row_blocks(a.c.rows), BLOCK;
    MatchEight match_eight(PairArgs) = "agg_match_8_f64", |a| row_blocks(a.c.rows), BLOCK;
    /// The first rows of pairs, and those alone.
    MarkFirst mark_first(NumberArgs) = "agg_mark_first_f64", |a| row_blocks(a.rows), BLOCK;
    /// Aggregates by their numbers.
    Enumerate number_pairs(NumberArgs) = "agg_number_f64", |a| row_blocks(a.rows), BLOCK;
    /// Aggregates of an earlier matrix that do not suit this one, of four nodes at most and of eight.
    SuitFour suit_four(SuitArgs) = "agg_suit_4_f64", |a| row_blocks(a.c.rows), BLOCK;
    SuitEight suit_eight(SuitArgs) = "agg_suit_8_f64", |a| row_blocks(a.c.rows), BLOCK;
    /// Sums of the values before each: of parts, over parts, within parts.
    SumParts sum_parts(ScanArgs) = "agg_sum_parts_f64", |a| a.blocks(), BLOCK;
    ScanParts scan_parts(ScanArgs) = "agg_scan_parts_f64", |_a| 1, BLOCK;
    ScanValues scan_values(ScanArgs) = "agg_scan_values_f64", |a| a.blocks(), BLOCK;
    /// Room for coarse rows.
    MakeRoom make_room(GalerkinArgs) = "agg_make_room_f64", |a| row_blocks(a.coarse.rows), BLOCK;
    /// P' S P.
    SumCouplings sum_couplings(GalerkinArgs) = "agg_sum_couplings_f64", |a| blocks_of(a.coarse.rows, WARP), BLOCK;
    /// The coarsest matrix as a square.
    Spread spread_rows(SpreadArgs) = "agg_spread_f64", |a| row_blocks(a.c.rows), BLOCK;
    /// Without one unknown of each singular component.
    LeaveOut leave_out(SpreadArgs) = "agg_leave_out_f64", |_a| 1, (MOST_PINNED, 1);
    /// The inverse without means over singular components.
    TakeMeans take_means(MeansArgs) = "agg_take_means_f64", |a| a.rows.max(1), BLOCK;
    /// A step of its inversion.
    InvertCoarsest invert_coarsest(InverseArgs) = "agg_invert_step_f64", |a| a.blocks(), BLOCK;
}

real_kernels! {
    RealNumber from PLAIN.len(), in REAL:
    /// Lengths of rows, and the bound of eigenvalues.
    TakeLengths take_lengths(TakeArgs) = "agg_take_lengths", |a| blocks_of(a.c.rows, LANES);
    /// The matrix for the cycle.
    TakeRows take_rows(TakeArgs) = "agg_take_rows", |a| blocks_of(a.c.rows, LANES);
    /// A level down.
    Descend descend(DescendArgs) = "agg_descend",
        |a| blocks_of(a.coarse.rows, if a.fine.lanes == 1 { u32::from(a.coarse.width) } else { WARP });
    /// A level up.
    Ascend ascend(AscendArgs) = "agg_ascend", |a| blocks_of(a.k.rows, a.k.lanes);
    /// r less a part of A c.
    Subtract subtract(SubtractArgs) = "agg_subtract", |a| blocks_of(a.k.rows, a.k.lanes);
    /// An inverse in the precision of the cycle.
    Narrow narrow_inverse(NarrowArgs) = "agg_narrow", |a| row_blocks(a.count);
    /// The coarsest level.
    Coarsest solve_coarsest(CoarsestArgs) = "agg_coarsest", |a| blocks_of(a.k.rows, WARP);
}

/// How many they are: the number of a family's first own kernel.
pub(super) const COUNT: usize = PLAIN.len() + REAL.len();

//! What kernels of the preconditioner and of the fused iteration take.

use super::geometry::{Geometry, Level};
use crate::backend::cuda::driver::Argument;
use crate::backend::cuda::launch::Address;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Grids at most that one kernel goes over.
pub const MOST_GRIDS: usize = 10;

entries! {
    /// A step of the preconditioner; kinds and flags are those of kernels/rrb/storage.cuh.
    Op { kind: i32, grid: i32, flags: i32, partial: i32, alpha: f64, beta: f64 }
}

/// `Op::kind`.
pub mod kind {
    pub const DESCEND_FIRST: i32 = 0;
    pub const DESCEND: i32 = 1;
    pub const REMAINDER: i32 = 2;
    pub const ASCEND: i32 = 3;
    pub const MULTIPLY_INNER: i32 = 4;
    pub const DIRECT_INNER: i32 = 5;
    pub const ADVANCE_INNER: i32 = 6;
    pub const ADVANCE_FIRST: i32 = 7;
    /// The unfused way up the first grid: launched alone.
    pub const ASCEND_FIRST: i32 = 9;
}

/// `Op::flags`.
pub mod flag {
    pub const KEEP: i32 = 1;
    pub const KEEP_TOO: i32 = 2;
    pub const RHO: i32 = 4;
    pub const UPDATE: i32 = 8;
    pub const DIRECTED: i32 = 16;
    pub const WITH_BETA: i32 = 32;
    pub const FIRST_STEP: i32 = 64;
    pub const TAKE: i32 = 128;
    pub const STORE: i32 = 256;
    pub const GO_ON: i32 = 512;
    pub const ADVANCED: i32 = 1024;
    pub const CLUSTER_ONLY: i32 = 2048;
    pub const CLUSTER_BARRIER: i32 = 4096;
    pub const NO_BARRIER: i32 = 8192;
    pub const PART: i32 = 16384;
    pub const IN_CLUSTER: i32 = 65536;
    pub const ENTERS: i32 = 131_072;
    pub const ALONE: i32 = 262_144;
    /// Not for kernels: `StepArgs::beside`.
    pub const BESIDE: i32 = 524_288;
}

structures! {
    /// The remainder's product.
    Rest { g: Geometry, inverse: Address, r: Address, z: Address, n: i32 }
    /// The end of the way down.
    ScalarArgs {
        scalars: Address, rho_partial: Address, norm_partial: Address, rho_count: i32, norm_count: i32,
        how: i32
    }
    RemainderArgs { rest: Rest, partial: Address, scalar: ScalarArgs }
    StepArgs { k: Level, op: Address, partial: Address, scalar: ScalarArgs, beside: i32 }
    InnerProductArgs { k: Level, a: i32, b: i32, partial: Address, scalars: Address }
    SchurArrays {
        g: Geometry, d: Address, far: Address, center: Address, r_b1: [Address; 2], r_b2: Address,
        x: [Address; 2], q: [Address; 2], p: [[Address; 2]; 2], b: [Address; 2], scalars: Address
    }
    FirstArgs {
        v: SchurArrays, k: Level, input: [Address; 2], partial: Address, norm_partial: Address,
        sigma_partial: Address, how: i32, once: i32, rows: i32, rows_down: i32, with_x: i32, conditional: u64
    }
    CycleArgs {
        ops: Address, count: i32, base: i32, grids: [Level; MOST_GRIDS], rest: Rest, rho_partial: Address,
        norm_partial: Address, sigma_partial: Address, scalar: ScalarArgs, barrier: Address, cluster: i32,
        cluster_base: i32, last: i32, members: i32, slots: Address, for_x: i32, v: SchurArrays
    }
    SolveArgs { cycle: CycleArgs, first: FirstArgs }
}

//! What kernels of the preconditioner and of the fused iteration take.

use super::geometry::{Geometry, Level};
use crate::backend::cuda::driver::Argument;
use crate::backend::cuda::launch::Address;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Grids at most that one kernel goes over.
pub const MOST_GRIDS: usize = 10;

/// A step of the preconditioner; kinds and flags are those of kernels/rrb/storage.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct Op {
    pub kind: i32,
    pub grid: i32,
    pub flags: i32,
    pub partial: i32,
    pub alpha: f64,
    pub beta: f64,
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

/// The remainder's product.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
pub struct Rest {
    pub g: Geometry,
    pub inverse: Address,
    pub r: Address,
    pub z: Address,
    pub n: i32,
}

/// The end of the way down.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
pub struct ScalarArgs {
    pub scalars: Address,
    pub rho_partial: Address,
    pub norm_partial: Address,
    pub rho_count: i32,
    pub norm_count: i32,
    pub how: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct RemainderArgs {
    pub rest: Rest,
    pub partial: Address,
    pub scalar: ScalarArgs,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct StepArgs {
    pub k: Level,
    pub op: Address,
    pub partial: Address,
    pub scalar: ScalarArgs,
    pub beside: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct InnerProductArgs {
    pub k: Level,
    pub a: i32,
    pub b: i32,
    pub partial: Address,
    pub scalars: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct SchurArrays {
    pub g: Geometry,
    pub d: Address,
    pub far: Address,
    pub center: Address,
    pub r_b1: [Address; 2],
    pub r_b2: Address,
    pub x: [Address; 2],
    pub q: [Address; 2],
    pub p: [[Address; 2]; 2],
    pub b: [Address; 2],
    pub scalars: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
pub struct FirstArgs {
    pub v: SchurArrays,
    pub k: Level,
    pub input: [Address; 2],
    pub partial: Address,
    pub norm_partial: Address,
    pub sigma_partial: Address,
    pub how: i32,
    pub once: i32,
    pub rows: i32,
    pub rows_down: i32,
    pub with_x: i32,
    pub conditional: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
pub struct CycleArgs {
    pub ops: Address,
    pub count: i32,
    pub base: i32,
    pub grids: [Level; MOST_GRIDS],
    pub rest: Rest,
    pub rho_partial: Address,
    pub norm_partial: Address,
    pub sigma_partial: Address,
    pub scalar: ScalarArgs,
    pub barrier: Address,
    pub cluster: i32,
    pub cluster_base: i32,
    pub last: i32,
    pub members: i32,
    pub slots: Address,
    pub for_x: i32,
    pub v: SchurArrays,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
pub struct SolveArgs {
    pub cycle: CycleArgs,
    pub first: FirstArgs,
}

arguments_with_gaps! {
    RemainderArgs StepArgs FirstArgs CycleArgs SolveArgs
}

//! The kernels of block smoothers: what they take, and their launches.

use super::{Address, THREADS};
use crate::backend::cuda::driver::{Argument, Device, Kernel, Stream};
use crate::error::Result;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Threads of a tile of blocks, or of a box of ghost cells: kernels/smoother/smoother.cu.
const TILE_THREADS: u32 = 64;
/// Blocks of a product with the dense inverse, its threads, its shared memory (four steps of eight columns of the
/// inverse and right-hand sides, 40 results a thread that multiplies), and blocks of threads that share what they
/// fetch.
const COLUMNS: u32 = 32;
const DENSE_THREADS: u32 = 384;
const DENSE_BYTES: u32 = 8 * (4 * (8 * 512 + 8 * COLUMNS) + 40 * 256);
const CLUSTER: u32 = 2;

/// A patch as block relaxation sees it: the caller's array and the other one of Jacobi.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct BlockPatch {
    pub u: [Address; 2],
    pub f: Address,
    pub r: Address,
    pub nx: i32,
    pub ny: i32,
    pub nz: i32,
    pub unused: i32,
}

/// A tile of blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct BlockItem {
    pub patch: i32,
    pub cell: [i32; 3],
    pub shape: u32,
    pub wait: i32,
    pub done: i32,
    pub faces: u32,
}

/// Inverse of one shape of block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct BlockTables {
    pub reciprocals: Address,
    pub before: Address,
    pub after: Address,
    pub dense: Address,
    pub packed: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct RelaxArgs {
    pub patches: Address,
    pub items: Address,
    pub tables: Address,
    pub progress: Address,
    pub totals: Address,
    pub launches: u32,
    pub from: i32,
    pub to: i32,
    pub own_chunk: i32,
    pub omega: f64,
    pub legs: [f64; 27],
    pub count: u32,
    pub eigenvalues: [f64; 24],
    pub weight: f64,
    pub points: i32,
    pub dense: i32,
    pub arrived: Address,
    pub leaving: Address,
    pub partners: Address,
    pub keep: i32,
}

/// What a launch of block relaxation needs beside.
#[derive(Clone, Copy, Debug)]
pub struct RelaxLaunch {
    /// It may begin while the kernel before ends.
    pub behind: bool,
    /// Multiprocessors.
    pub processors: u32,
}

/// A box of ghost cells.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct BlockCopy {
    pub to_patch: i32,
    pub from_patch: i32,
    pub to: i64,
    pub from: i64,
    pub size: [i32; 3],
    pub unused: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ExchangeArgs {
    pub patches: Address,
    pub copies: Address,
    pub which: i32,
    pub both: i32,
}

/// Part of an array of u.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct BlockSegment {
    pub first: i64,
    pub patch: i32,
    pub count: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct BlockCopyArgs {
    pub patches: Address,
    pub segments: Address,
    pub from: i32,
    pub to: i32,
    pub ghosts: i32,
}

/// A tile of cells.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct BlockRegion {
    pub patch: i32,
    pub cell: [i32; 3],
    pub number: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
pub struct LookArgs {
    pub patches: Address,
    pub regions: Address,
    pub which: i32,
    pub sums: Address,
    pub bad: Address,
    pub legs: [f64; 27],
    pub scale: f64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct NormArgs {
    pub sums: Address,
    pub count: i64,
    pub norm: Address,
}

arguments_with_gaps! {
    RelaxArgs BlockCopyArgs LookArgs
}

plain_kernels! {
    Number from 0, in PLAIN:
    /// Blocks of 8^3 of a 7-point stencil.
    RelaxCubes relax_cubes(RelaxArgs, how: RelaxLaunch) = "smoother_relax_cubes_f64",
        |a| a.count, (TILE_THREADS, 1), behind how.behind;
    /// Any blocks of a 7-point stencil.
    Relax7 relax_7(RelaxArgs, how: RelaxLaunch) = "smoother_relax_7_f64",
        |a| a.count, (TILE_THREADS, 1), behind how.behind;
    /// Any blocks of a 27-point stencil.
    Relax27 relax_27(RelaxArgs, how: RelaxLaunch) = "smoother_relax_27_f64",
        |a| a.count, (TILE_THREADS, 1), behind how.behind;
    /// Dense inverses of blocks of 8^3.
    RelaxDense relax_dense(RelaxArgs, how: RelaxLaunch) = "smoother_relax_dense_f64",
        |a| dense_blocks(a, how), (DENSE_THREADS, 1), shared DENSE_BYTES, behind how.behind;
    /// Ghost cells from other patches.
    Exchange exchange(ExchangeArgs, count: u32, behind: bool) = "smoother_exchange_f64",
        |_a| count, (TILE_THREADS, 1), behind behind;
    /// From one array of u to the other.
    CopyPatches copy_patches(BlockCopyArgs, count: u32) = "smoother_copy_f64", |_a| count, (THREADS, 1);
    /// Looks for values that are not finite.
    InspectPatches inspect_patches(LookArgs, count: u32) = "smoother_inspect_f64", |_a| count, (TILE_THREADS, 1);
    /// f - A u.
    ResidualPatches residual_patches(LookArgs, count: u32) = "smoother_residual_f64", |_a| count, (TILE_THREADS, 1);
    /// Its norm.
    NormPatches norm_patches(NormArgs) = "smoother_norm_f64", |_a| 1, (THREADS, 1);
}

/// What `relax_dense` was compiled for at least: clusters, bulk copies. Older code of it is empty.
const DENSE_ARCHITECTURE: i32 = 90;

/// Whether the device has the shared memory of `relax_dense`, and the library its code: one compiled for older devices
/// alone (`RRBSOLVER_CUDA_ARCHITECTURES=80`) runs on newer ones without it.
pub fn allow_dense(device: &Device) -> bool {
    let kernel = Number::RelaxDense as usize;
    device.architecture(kernel) >= DENSE_ARCHITECTURE && device.allow_shared(kernel, DENSE_BYTES)
}

/// Blocks of threads that stay, as many rounds each, whole clusters of them.
fn dense_blocks(a: &RelaxArgs, how: RelaxLaunch) -> u32 {
    let (groups, most) = (a.count.div_ceil(COLUMNS), (how.processors / CLUSTER * CLUSTER).max(CLUSTER));
    groups.div_ceil(groups.div_ceil(most).max(1)).next_multiple_of(CLUSTER)
}

//! The kernels of block smoothers: what they take, and their launches.

use super::declare::{Address, THREADS};
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

entries! {
    /// A patch as block relaxation sees it: the caller's array and the other one of Jacobi.
    BlockPatch { u: [Address; 2], f: Address, r: Address, nx: i32, ny: i32, nz: i32, unused: i32 }
    /// A tile of blocks.
    BlockItem { patch: i32, cell: [i32; 3], shape: u32, wait: i32, done: i32, faces: u32 }
    /// Inverse of one shape of block.
    BlockTables { reciprocals: Address, before: Address, after: Address, dense: Address, packed: Address }
}

structures! {
    RelaxArgs {
        patches: Address, items: Address, tables: Address, progress: Address, totals: Address, launches: u32,
        from: i32, to: i32, own_chunk: i32, omega: f64, legs: [f64; 27], count: u32, eigenvalues: [f64; 24],
        weight: f64, points: i32, dense: i32, arrived: Address, leaving: Address, partners: Address, keep: i32
    }
}

/// What a launch of block relaxation needs beside.
#[derive(Clone, Copy, Debug)]
pub struct RelaxLaunch {
    /// It may begin while the kernel before ends.
    pub behind: bool,
    /// Multiprocessors.
    pub processors: u32,
}

entries! {
    /// A box of ghost cells.
    BlockCopy { to_patch: i32, from_patch: i32, to: i64, from: i64, size: [i32; 3], unused: i32 }
}

structures! {
    ExchangeArgs { patches: Address, copies: Address, which: i32, both: i32 }
}

entries! {
    /// Part of an array of u.
    BlockSegment { first: i64, patch: i32, count: i32 }
}

structures! {
    BlockCopyArgs { patches: Address, segments: Address, from: i32, to: i32, ghosts: i32 }
}

entries! {
    /// A tile of cells.
    BlockRegion { patch: i32, cell: [i32; 3], number: i64 }
}

structures! {
    LookArgs {
        patches: Address, regions: Address, which: i32, sums: Address, bad: Address, legs: [f64; 27],
        scale: f64
    }
    NormArgs { sums: Address, count: i64, norm: Address }
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

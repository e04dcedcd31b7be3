//! Kernels of the block smoothers (docs/theory/smoother.md): argument structures and launches.

use super::declare::{Address, THREADS_PER_BLOCK};
use crate::cuda::driver::{Device, Kernel, Stream};
use crate::error::Result;

include!(concat!(env!("OUT_DIR"), "/smoother.rs"));

/// Threads of a thread block that processes a tile of blocks or a box of ghost cells (kernels/smoother/smoother.cu).
const TILE_THREADS: u32 = 64;
/// Number of blocks of 8^3 cells that a thread block of `relax_dense` multiplies by the dense inverse at once.
const DENSE_COLUMNS: u32 = 32;
/// Threads of a thread block of `relax_dense`.
const DENSE_THREADS: u32 = 384;
/// Shared memory of `relax_dense` in bytes. It contains, for each of four steps, eight columns of the inverse and eight
/// values of each right-hand side. It also contains 40 results for each of 256 threads.
const DENSE_BYTES: u32 = 8 * (4 * (8 * 512 + 8 * DENSE_COLUMNS) + 40 * 256);
/// Number of thread blocks of a cluster. Each of them loads a part of the inverse for the whole cluster.
const CLUSTER_BLOCKS: u32 = 2;

/// Launch parameters of the relaxation kernels.
#[derive(Clone, Copy, Debug)]
pub struct RelaxLaunch {
    /// Whether the kernel may begin before the previous kernel ends.
    pub follows_kernel: bool,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
}

plain_kernels! {
    PlainKernel from 0, in PLAIN_KERNELS:
    /// Relaxes blocks of 8^3 cells with a 7-point stencil.
    RelaxCubes relax_cubes(RelaxArgs, configuration: RelaxLaunch) = "smoother_relax_cubes_f64",
        |a| a.count, (TILE_THREADS, 1), follows_kernel configuration.follows_kernel;
    /// Relaxes blocks of any size with a 7-point stencil.
    Relax7 relax_7(RelaxArgs, configuration: RelaxLaunch) = "smoother_relax_7_f64",
        |a| a.count, (TILE_THREADS, 1), follows_kernel configuration.follows_kernel;
    /// Relaxes blocks of any size with a 27-point stencil.
    Relax27 relax_27(RelaxArgs, configuration: RelaxLaunch) = "smoother_relax_27_f64",
        |a| a.count, (TILE_THREADS, 1), follows_kernel configuration.follows_kernel;
    /// Relaxes blocks of 8^3 cells with dense inverses.
    RelaxDense relax_dense(RelaxArgs, configuration: RelaxLaunch) = "smoother_relax_dense_f64",
        |a| dense_blocks(a, configuration), (DENSE_THREADS, 1), shared DENSE_BYTES,
        follows_kernel configuration.follows_kernel;
    /// Copies ghost cells from other patches.
    Exchange exchange(ExchangeArgs, count: u32, follows_kernel: bool) = "smoother_exchange_f64",
        |_a| count, (TILE_THREADS, 1), follows_kernel follows_kernel;
    /// Copies u of each patch, or only the ghost layer of u, to the second array of block Jacobi, or back.
    CopyPatches copy_patches(BlockCopyArgs, count: u32) = "smoother_copy_f64", |_a| count, (THREADS_PER_BLOCK, 1);
    /// Finds the first value of u or f that is not finite.
    InspectPatches inspect_patches(PatchArgs, count: u32) = "smoother_inspect_f64", |_a| count, (TILE_THREADS, 1);
    /// Computes r = f - A u and, for each tile, the sum of (scale r)^2.
    ResidualPatches residual_patches(PatchArgs, count: u32) = "smoother_residual_f64", |_a| count, (TILE_THREADS, 1);
    /// Computes the norm of the residual: the square root of the sum of the squared norms of all tiles.
    NormPatches norm_patches(NormArgs) = "smoother_norm_f64", |_a| 1, (THREADS_PER_BLOCK, 1);
}

/// Lowest architecture for which `relax_dense` has code, because the kernel needs clusters and bulk copies. For older
/// architectures, the kernel is empty.
const DENSE_ARCHITECTURE: i32 = 90;

/// Allows `relax_dense` to use its shared memory. Returns false if the device has less, or if the library has no code
/// of this kernel for the device. A library compiled only for older devices (`RRBSOLVER_CUDA_ARCHITECTURES=80`) runs on
/// newer ones without this kernel.
pub fn allow_dense(device: &Device) -> bool {
    let kernel = PlainKernel::RelaxDense as usize;
    device.ptx_architecture(kernel) >= DENSE_ARCHITECTURE && device.allow_shared(kernel, DENSE_BYTES)
}

/// Returns the number of thread blocks of `relax_dense`, a multiple of `CLUSTER_BLOCKS`. All of them are resident at
/// once, and each computes about the same number of groups of right-hand sides.
fn dense_blocks(a: &RelaxArgs, configuration: RelaxLaunch) -> u32 {
    let (groups, max_blocks) = (
        a.count.div_ceil(DENSE_COLUMNS),
        (configuration.multiprocessors / CLUSTER_BLOCKS * CLUSTER_BLOCKS).max(CLUSTER_BLOCKS),
    );
    groups.div_ceil(groups.div_ceil(max_blocks).max(1)).next_multiple_of(CLUSTER_BLOCKS)
}

// Block relaxation on patches: u_b <- u_b + omega A_b^-1 (f - A u)_b for the blocks b of a list of patches. The blocks
// are relaxed by colours, all at once, or in lexicographic order (Rodriguez et al., algorithms 1 to 3). The inverse
// A_b^-1 = D S Lambda^-1 S^-1 D^-1 (src/smoother/block_inverse.rs) is applied as three sine transforms, a scaling and
// three further sine transforms. Stencils without such a factorization use a dense inverse.
//
// Layout: u of a patch is u[((k+1)*(ny+2) + j+1)*(nx+2) + i+1], f is f[(k*ny + j)*nx + i]. A work item is a tile of at
// most 8 x 8 x 8 cells, or every other block of a tile. A tile is one block of 8^3 cells, or as many smaller blocks of
// one shape as fit. The smaller blocks are adjacent or, with eight colours, every other block. Blocks of bx x by x bz
// cells have tables of one of two kinds. For sine transforms, the tables are 1 / Lambda times the factors of the
// inverse transforms, at index (r*by + q)*bx + p, and the diagonals of D^-1 and D, in the order of the cells.
// Otherwise, the table is the dense inverse, stored by columns.
//
// Launch: one thread block of 64 threads per item; dense.cuh describes `smoother_relax_dense_f64`. A thread holds a
// line of eight cells in registers, along z, x or y. The line of thread t has the indices (t & 7, t >> 3) in the other
// two directions. Lines are transposed through shared memory, 4 KB per tile. The index of a cell is permuted so that
// all transposes are free of bank conflicts:
//     shared_index(x, y, z) = z*64 + ((y & 6) | ((y ^ z) & 1))*8 + ((x ^ y) & 7)      (16 banks of 8 bytes)
// Global memory is accessed in rows of eight cells, 64 bytes.
//
// One launch per sweep; `smoother_relax_dense_f64` is launched once per stage. Items are sorted by stages (colours) and
// chunks. A chunk consists of whole slabs of tiles in z, of one or more patches. All chunks but the last have at least
// 64 tiles. Stage 0 of chunk c is followed by stage 1 of chunk c - lag, and so on. Therefore, u and f of a chunk are
// read from memory once, and from the L2 cache for the later colours. An item of stage s waits until all lower stages
// of the previous, own and next chunk are complete. `finished_counts` counts the finished items of each chunk over all
// launches. A chunk may lack a stage (patches of one block along an axis), so waiting for the previous stage alone
// would not suffice. The kernel assumes that thread blocks start in the order of their numbers, as the scans of CUB do.
// An item waits only for items with lower numbers, so a deadlock cannot occur.
//
// A separate launch exchanges ghost cells before the first sweep of a call. In each sweep but the last, whole tiles at
// the edge of a patch write their faces to a buffer (`store_faces`). The adjacent tiles read this buffer in the next
// sweep (`load_faces`). Two such buffers are used alternately. Each tile is relaxed once per sweep, so the buffer
// contains the values that an exchange before the next sweep would copy. The last sweep also stores the values of the
// faces that it reads in the ghost cells. A launch begins while the previous one ends (`allow_next_kernel`).
//
// Memory traffic per cell and sweep: f is read, u is read and written, together 24 bytes. The traffic through L2 with
// 8^3 blocks is 37 bytes, because a row of u in a block occupies three sectors of 32 bytes, and faces are read twice.
// Faces between patches need 16 bytes per value. A separate buffer for the west and east faces of all tiles (512
// contiguous bytes instead of 64 sectors) was slower, because the data that later colours read must stay in L2.
//
// Races: an item reads its own cells, cells of blocks of other colours, and ghost cells. Blocks of one colour are not
// adjacent. The writes of an earlier stage are released by `count_finished_item`, after a barrier of the thread block,
// and acquired by `wait_for_chunks`, before a barrier. An item of a later stage waits for the items of all earlier
// stages around it. The later item therefore overwrites no cell that one of these items still has to read. Block Jacobi
// reads one array and writes the other. Faces between patches are read from one buffer and written to the other, each
// value by one thread. An item of the asynchronous (chaotic) method waits only for items of its own chunk. It reads
// values of other chunks as they are in memory at that moment. These loads and stores are relaxed atomic accesses of
// eight bytes.
#include "../common/device.cuh"
#include "work.cuh"
#include "transforms.cuh"
#include "tiles.cuh"
#include "dense.cuh"

namespace blocks {

// Shape of an item that is one whole block of 8^3 cells.
constexpr unsigned CUBE_SHAPE = 0x111888;

// Returns whether an item fills 8 x 8 x 8 cells with adjacent blocks, whose sides divide 8.
__device__ __forceinline__ bool fills_tile(unsigned shape) {
    const unsigned lengths[3] = {shape & 15, shape >> 4 & 15, shape >> 8 & 15},
                   counts[3] = {shape >> 12 & 15, shape >> 16 & 15, shape >> 20 & 15};
    bool is_filled = !(shape & STRIDED_FLAG);
#pragma unroll
    for (int d = 0; d < 3; ++d) is_filled = is_filled && lengths[d] * counts[d] == 8;
    return is_filled;
}

// Copies the values of a box of ghost cells of one patch from another patch. Both patches use their array
// u[array_index]. With `to_both_arrays`, the values are also written to the array u[1 - array_index]. Each thread reads
// all its values before it writes them.
__device__ __forceinline__ void copy_ghost_box(
    const BlockPatch *patches, const BlockCopy &c, int array_index, bool to_both_arrays) {
    const BlockPatch &target = patches[c.target_patch], &source = patches[c.source_patch];
    const int64_t target_row = target.nx + 2, target_plane = target_row * (target.ny + 2);
    const int64_t source_row = source.nx + 2, source_plane = source_row * (source.ny + 2);
    const double *source_cells = source.u[array_index] + c.source_index;
    const int cells = c.nx * c.ny * c.nz;
    // With m = 2^20 / n + 1, the integer part of q m / 2^20 is that of q / n for all q < 512. x_multiplier and
    // y_multiplier are m for n = nx and n = ny.
    const unsigned x_multiplier = (1u << 20) / c.nx + 1, y_multiplier = (1u << 20) / c.ny + 1;
    double v[MAX_BOX_CELLS / TILE_THREADS];
    int64_t target_indices[MAX_BOX_CELLS / TILE_THREADS];
    wait_for_previous_kernel();
#pragma unroll
    for (int n = 0; n < MAX_BOX_CELLS / TILE_THREADS; ++n) {
        const int q = threadIdx.x + n * TILE_THREADS;
        if (q >= cells) continue;
        const int row_number = q * x_multiplier >> 20, i = q - row_number * c.nx;
        const int k = row_number * y_multiplier >> 20, j = row_number - k * c.ny;
        v[n] = load_relaxed(source_cells + k * source_plane + j * source_row + i);
        target_indices[n] = c.target_index + k * target_plane + j * target_row + i;
    }
#pragma unroll
    for (int n = 0; n < MAX_BOX_CELLS / TILE_THREADS; ++n) {
        if (static_cast<int>(threadIdx.x) + n * TILE_THREADS >= cells) continue;
        store_relaxed(target.u[array_index] + target_indices[n], v[n]);
        if (to_both_arrays) store_relaxed(target.u[1 - array_index] + target_indices[n], v[n]);
    }
}

struct ExchangeArgs {
    const BlockPatch *patches;
    const BlockCopy *copies;
    int array_index;
    int to_both_arrays; // write to both arrays, so that block Jacobi's second array has the same ghost cells
};

// Contiguous values of the array u of one patch.
struct BlockSegment {
    int64_t first_index;
    int patch, value_count;
};
constexpr int SEGMENT_THREADS = 256;

struct BlockCopyArgs {
    const BlockPatch *patches;
    const BlockSegment *segments;
    int source_array, target_array;
    int ghosts_only; // copy only the ghost layer
};

// Tile of at most 8^3 cells of a patch.
struct BlockRegion {
    int patch, x, y, z;
    int64_t first_value; // number of the first value of the patch, as `smoother_inspect_f64` numbers values
};

struct PatchArgs {
    const BlockPatch *patches;
    const BlockRegion *regions;
    int array_index;
    double *sums; // sums of (scale r)^2, one per region
    unsigned long long *first_nonfinite;
    double entries[27];
    double scale;
};

struct NormArgs {
    const double *sums;
    int64_t count;
    double *norm;
};
constexpr int NORM_THREADS = 256;

} // namespace blocks

// Relaxes blocks of 8^3 cells with a 7-point stencil.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS, 12)
    smoother_relax_cubes_f64(const blocks::RelaxArgs a) {
    __shared__ double tile[blocks::TILE_CELLS], halo[blocks::HALO_VALUES];
    __shared__ int partners[6];
    blocks::allow_next_kernel();
    blocks::relax_cube(a, a.items[blockIdx.x], tile, halo, partners);
}

// Relaxes any blocks with a 7-point stencil. Items of 8^3 cells with sine transforms use the specialized functions.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS, 8) smoother_relax_7_f64(const blocks::RelaxArgs a) {
    __shared__ double tile[blocks::TILE_CELLS], halo[blocks::HALO_VALUES];
    __shared__ int partners[6];
    blocks::allow_next_kernel();
    const blocks::BlockItem item = a.items[blockIdx.x];
    if (item.shape == blocks::CUBE_SHAPE && !a.is_dense) blocks::relax_cube(a, item, tile, halo, partners);
    else if (blocks::fills_tile(item.shape) && !a.is_dense) blocks::relax_tile(a, item, tile, halo, partners);
    else if (a.waits_for_own_chunk_only) blocks::relax_any<7, true>(a, item, tile);
    else blocks::relax_any<7, false>(a, item, tile);
}

// Relaxes any blocks with a 27-point stencil.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS, 8) smoother_relax_27_f64(const blocks::RelaxArgs a) {
    __shared__ double tile[blocks::TILE_CELLS];
    blocks::allow_next_kernel();
    const blocks::BlockItem item = a.items[blockIdx.x];
    if (a.waits_for_own_chunk_only) blocks::relax_any<27, true>(a, item, tile);
    else blocks::relax_any<27, false>(a, item, tile);
}

// Relaxes the blocks of 8^3 cells of one stage with dense inverses.
extern "C" __global__ void RRB_CLUSTER __launch_bounds__(blocks::DENSE_THREADS, 1)
    smoother_relax_dense_f64(const blocks::RelaxArgs a) {
#if defined(RRB_EMULATED) || __CUDA_ARCH__ >= 900
#ifdef RRB_EMULATED
    static double memory[blocks::BUFFER_VALUES + blocks::RESULT_VALUES];
#else
    extern __shared__ __align__(128) double memory[];
#endif
    __shared__ blocks::Column columns[3][blocks::COLUMNS];
    __shared__ double weights[27][2];
    __shared__ unsigned long long barriers[blocks::BARRIER_COUNT];
    blocks::allow_next_kernel();
    blocks::relax_dense_cubes(a, memory, columns, weights, barriers);
#else
    __trap();
#endif
}

// Copies ghost cells from other patches: one thread block per box, x fastest. Each ghost cell is written by one thread,
// and the cells that are read are not ghost cells.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS) smoother_exchange_f64(const blocks::ExchangeArgs a) {
    blocks::allow_next_kernel();
    blocks::copy_ghost_box(a.patches, a.copies[blockIdx.x], a.array_index, a.to_both_arrays);
}

// Copies u from one array to the other; with `ghosts_only`, only the ghost layer. Each value is written by one thread.
extern "C" __global__ void __launch_bounds__(blocks::SEGMENT_THREADS) smoother_copy_f64(const blocks::BlockCopyArgs a) {
    const blocks::BlockSegment segment = a.segments[blockIdx.x];
    const blocks::BlockPatch &patch = a.patches[segment.patch];
    const double *source = patch.u[a.source_array];
    double *target = patch.u[a.target_array];
    const int64_t row = patch.nx + 2, rows = patch.ny + 2, planes = patch.nz + 2;
    for (int q = threadIdx.x; q < segment.value_count; q += blocks::SEGMENT_THREADS) {
        const int64_t index = segment.first_index + q;
        if (a.ghosts_only) {
            const int64_t i = index % row, j = index / row % rows, k = index / row / rows;
            if (i > 0 && i < row - 1 && j > 0 && j < rows - 1 && k > 0 && k < planes - 1) continue;
        }
        target[index] = source[index];
    }
}

// Finds the first value of u (without ghost cells) or f that is not finite, and stores its number in `first_nonfinite`.
// Values are numbered patch by patch, u before f.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS) smoother_inspect_f64(const blocks::PatchArgs a) {
    const blocks::BlockRegion region = a.regions[blockIdx.x];
    const blocks::BlockPatch &patch = a.patches[region.patch];
    const int x = region.x + (threadIdx.x & 7), y = region.y + (threadIdx.x >> 3);
    if (x >= patch.nx || y >= patch.ny) return;
    const int64_t row = patch.nx + 2, plane = row * (patch.ny + 2);
    const int64_t f_plane = int64_t(patch.nx) * patch.ny, cells = f_plane * patch.nz;
    for (int z = region.z; z < min(region.z + 8, patch.nz); ++z) {
        const int64_t cell = z * f_plane + int64_t(y) * patch.nx + x;
        const double u = patch.u[a.array_index][(z + 1) * plane + (y + 1) * row + x + 1], f = __ldg(patch.f + cell);
        // For NaN and infinity, u - u is NaN.
        if (!(u - u == 0.0)) atomicMin(a.first_nonfinite, static_cast<unsigned long long>(region.first_value + cell));
        if (!(f - f == 0.0))
            atomicMin(a.first_nonfinite, static_cast<unsigned long long>(region.first_value + cells + cell));
    }
}

// Computes r = f - A u, and the sums of (scale r)^2 per tile in a fixed order.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS) smoother_residual_f64(const blocks::PatchArgs a) {
    __shared__ double warp_sums[2];
    const blocks::BlockRegion region = a.regions[blockIdx.x];
    const blocks::BlockPatch &patch = a.patches[region.patch];
    const int x = region.x + (threadIdx.x & 7), y = region.y + (threadIdx.x >> 3);
    const int64_t row = patch.nx + 2, plane = row * (patch.ny + 2), f_plane = int64_t(patch.nx) * patch.ny;
    double sum = 0.0;
    if (x < patch.nx && y < patch.ny) {
        for (int z = region.z; z < min(region.z + 8, patch.nz); ++z) {
            const double *c = patch.u[a.array_index] + (z + 1) * plane + (y + 1) * row + x + 1;
            const int64_t cell = z * f_plane + int64_t(y) * patch.nx + x;
            double r = __ldg(patch.f + cell);
            for (int q = 0; q < 27; ++q) {
                if (a.entries[q] != 0.0) r -= a.entries[q] * c[(q / 9 - 1) * plane + (q / 3 % 3 - 1) * row + q % 3 - 1];
            }
            if (patch.r) patch.r[cell] = r;
            const double scaled_residual = a.scale * r;
            sum += scaled_residual * scaled_residual;
        }
    }
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) a.sums[blockIdx.x] = warp_sums[0] + warp_sums[1];
}

// Computes the norm of the residual: the square root of the sum of a.sums, which contains the squared norm of each
// tile. One thread block adds the values in a fixed order.
extern "C" __global__ void __launch_bounds__(blocks::NORM_THREADS) smoother_norm_f64(const blocks::NormArgs a) {
    __shared__ double sums[blocks::NORM_THREADS];
    double sum = 0.0;
    for (int64_t q = threadIdx.x; q < a.count; q += blocks::NORM_THREADS) sum += a.sums[q];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int distance = blocks::NORM_THREADS / 2; distance > 0; distance /= 2) {
        if (threadIdx.x < distance) sums[threadIdx.x] += sums[threadIdx.x + distance];
        __syncthreads();
    }
    if (threadIdx.x == 0) *a.norm = sqrt(sums[0]);
}

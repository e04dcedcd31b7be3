// Block relaxation on patches: u_b + omega A_b^-1 (f - A u)_b for the blocks b of a list of patches, by colours, all at
// once, or in an order. Rodriguez et al., algorithms 1 to 3; A_b^-1 = D S Lambda^-1 S^-1 D^-1
// (src/grid/block_inverse.rs): three sine transforms, a scale, three transforms; or a dense inverse.
//
// Layout: u of a patch u[((k+1)*(ny+2) + j+1)*(nx+2) + i+1], f[(k*ny + j)*nx + i]; a table of patches. A work item is a
// tile of at most 8 x 8 x 8 cells: one block of 8^3, or as many smaller ones of one shape as fit, beside each other
// (with eight colours: every other one). Tables of a shape: weighted 1 / Lambda at (r*by + q)*bx + p, D^-1 and D in the
// order of cells, dense inverses by columns.
//
// Launch: one block of 64 threads an item. A thread holds a line of eight cells in registers, along z, x or y: thread t
// has the line at (t & 7, t >> 3) of the other two directions. Lines are turned through shared memory, 4 KB a tile,
// whose places are scrambled so that all turns are free of bank conflicts:
//     place(x, y, z) = z*64 + ((y & 6) | ((y ^ z) & 1))*8 + ((x ^ y) & 7)      (16 banks of 8 bytes)
// Rows of eight cells, 64 bytes, are read and written.
//
// One launch a sweep. Items come in stages (colours) and chunks (about 64 tiles, whole layers of tiles of a patch):
// stage 0 of chunk c, stage 1 of chunk c - lag, ... An item of stage s waits until all lower stages of its own chunk
// and of those before and after are complete (`progress`, counted up from launch to launch), so that u and f of a chunk
// come from memory once and from the L2 cache for the later colours. A chunk may lack a stage (patches of one block
// along an axis), so that it is not enough to wait for the stage before. Blocks of threads start in the order of their
// numbers, as CUB's scans rely on too; an item waits only for items before it, so that somebody can always go on.
//
// Ghost cells are exchanged by a launch of its own before the first sweep of a call. Then whole tiles at the edge of a
// patch hand their faces over to those beyond, for the next sweep, in two sets of faces that alternate (`around`,
// `leave`): each tile is relaxed once a sweep, so that these are the values that an exchange before that sweep would
// copy. The last sweep writes what it reads so to the ghost cells too. A launch begins while the one before ends
// (`let_next_begin`).
//
// Bytes a cell and sweep: f read, u read and written: 24 from memory. Through L2, 8^3 blocks: 37 (rows of u are 96
// bytes with what shares their sectors, faces are read twice). Faces between patches: 16 a value. West and east faces
// of all tiles kept apart, 512 contiguous bytes for 64 sectors, took longer: what lies between the colours must stay in
// L2.
//
// Races: cells that an item reads are its own, or of blocks of other colours, or ghosts. Blocks of one colour do not
// touch. What an earlier stage wrote is released by `advance` (after a barrier of the block) and acquired by `wait`
// (before one). An item of a later stage cannot write what this one reads: it waits for this one. Jacobi reads one
// array and writes the other. Faces between patches are read from one set and written to the other, each value by one
// thread. The asynchronous (chaotic) method waits for its own chunk only: across chunks it reads what is there, by
// relaxed loads and stores of eight bytes.
#include "../common/device.cuh"
#include "work.cuh"
#include "transforms.cuh"
#include "tiles.cuh"
#include "dense.cuh"

namespace blocks {

// One whole block of 8^3.
constexpr unsigned CUBE = 0x111888;

// Eight cells a side in blocks beside each other, whose sides divide 8.
__device__ __forceinline__ bool whole(unsigned shape) {
    const unsigned lengths[3] = {shape & 15, shape >> 4 & 15, shape >> 8 & 15},
                   counts[3] = {shape >> 12 & 15, shape >> 16 & 15, shape >> 20 & 15};
    bool all = !(shape & STRIDED);
#pragma unroll
    for (int d = 0; d < 3; ++d) all = all && lengths[d] * counts[d] == 8;
    return all;
}

// Ghost cells from another patch, x fastest: all that a thread reads, then what it writes.
__device__ __forceinline__ void exchange(const Patch *patches, const Copy &c, int which, bool both) {
    const Patch &to = patches[c.to_patch], &from = patches[c.from_patch];
    const int64_t to_row = to.nx + 2, to_plane = to_row * (to.ny + 2);
    const int64_t from_row = from.nx + 2, from_plane = from_row * (from.ny + 2);
    const double *read = from.u[which] + c.from;
    const int cells = c.nx * c.ny * c.nz;
    // q / n as q m / 2^20, exact below 512.
    const unsigned in_x = (1u << 20) / c.nx + 1, in_y = (1u << 20) / c.ny + 1;
    double v[BOX_CELLS / TILE_THREADS];
    int64_t place[BOX_CELLS / TILE_THREADS];
    wait_for_previous();
#pragma unroll
    for (int n = 0; n < BOX_CELLS / TILE_THREADS; ++n) {
        const int q = threadIdx.x + n * TILE_THREADS;
        if (q >= cells) continue;
        const int rows = q * in_x >> 20, i = q - rows * c.nx, k = rows * in_y >> 20, j = rows - k * c.ny;
        v[n] = load_relaxed(read + k * from_plane + j * from_row + i);
        place[n] = c.to + k * to_plane + j * to_row + i;
    }
#pragma unroll
    for (int n = 0; n < BOX_CELLS / TILE_THREADS; ++n) {
        if (static_cast<int>(threadIdx.x) + n * TILE_THREADS >= cells) continue;
        store_relaxed(to.u[which] + place[n], v[n]);
        if (both) store_relaxed(to.u[1 - which] + place[n], v[n]);
    }
}

struct ExchangeArgs {
    const Patch *patches;
    const Copy *copies;
    int which;
    int both; // written to both arrays, so that Jacobi's other one has the same ghost cells
};

// Part of an array of u.
struct Segment {
    int64_t first;
    int patch, count;
};
constexpr int SEGMENT_THREADS = 256;

struct CopyArgs {
    const Patch *patches;
    const Segment *segments;
    int from, to;
    int ghosts; // the ghost layer alone
};

// A tile of at most 8^3 cells of a patch.
struct Region {
    int patch, x, y, z;
    int64_t number; // of its patch's first value: u (cells only), then f
};

struct LookArgs {
    const Patch *patches;
    const Region *regions;
    int which;
    double *sums; // of (scale r)^2, one a region
    unsigned long long *bad;
    double legs[27];
    double scale;
};

struct NormArgs {
    const double *sums;
    int64_t count;
    double *norm;
};
constexpr int NORM_THREADS = 256;

} // namespace blocks

// Blocks of 8^3 and a 7-point stencil.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS, 12)
    smoother_relax_cubes_f64(const blocks::RelaxArgs a) {
    __shared__ double tile[blocks::TILE_CELLS], halo[blocks::HALO];
    __shared__ int partners[6];
    blocks::let_next_begin();
    blocks::relax_cube(a, a.items[blockIdx.x], tile, halo, partners);
}

// Any blocks and a 7-point stencil; an item of 8^3 with transforms goes the way of the others.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS, 8) smoother_relax_7_f64(const blocks::RelaxArgs a) {
    __shared__ double tile[blocks::TILE_CELLS], halo[blocks::HALO];
    __shared__ int partners[6];
    blocks::let_next_begin();
    const blocks::Item item = a.items[blockIdx.x];
    if (item.shape == blocks::CUBE && !a.dense) blocks::relax_cube(a, item, tile, halo, partners);
    else if (blocks::whole(item.shape) && !a.dense) blocks::relax_tile(a, item, tile, halo, partners);
    else if (a.own_chunk) blocks::relax_any<7, true>(a, item, tile);
    else blocks::relax_any<7, false>(a, item, tile);
}

// Any blocks and a 27-point stencil.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS, 8) smoother_relax_27_f64(const blocks::RelaxArgs a) {
    __shared__ double tile[blocks::TILE_CELLS];
    blocks::let_next_begin();
    const blocks::Item item = a.items[blockIdx.x];
    if (a.own_chunk) blocks::relax_any<27, true>(a, item, tile);
    else blocks::relax_any<27, false>(a, item, tile);
}

// Blocks of 8^3 with dense inverses, of one stage.
extern "C" __global__ void RRB_CLUSTER __launch_bounds__(blocks::DENSE_THREADS, 1)
    smoother_relax_dense_f64(const blocks::RelaxArgs a) {
#if defined(RRB_EMULATED) || __CUDA_ARCH__ >= 900
#ifdef RRB_EMULATED
    static double memory[blocks::PLACES + blocks::RESULTS];
#else
    extern __shared__ __align__(128) double memory[];
#endif
    __shared__ blocks::Column columns[3][blocks::COLUMNS];
    __shared__ double weights[27][2];
    __shared__ unsigned long long barriers[blocks::BARRIERS];
    blocks::let_next_begin();
    blocks::relax_dense_cubes(a, memory, columns, weights, barriers);
#else
    __trap();
#endif
}

// Ghost cells from other patches: one block of threads a box, x fastest. A ghost cell is written by one thread; what is
// read is no ghost cell.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS) smoother_exchange_f64(const blocks::ExchangeArgs a) {
    blocks::let_next_begin();
    blocks::exchange(a.patches, a.copies[blockIdx.x], a.which, a.both);
}

// u of one array to the other; with `ghosts` its outermost layer alone. A value is written by one thread.
extern "C" __global__ void __launch_bounds__(blocks::SEGMENT_THREADS) smoother_copy_f64(const blocks::CopyArgs a) {
    const blocks::Segment segment = a.segments[blockIdx.x];
    const blocks::Patch &patch = a.patches[segment.patch];
    const double *from = patch.u[a.from];
    double *to = patch.u[a.to];
    const int64_t row = patch.nx + 2, rows = patch.ny + 2, planes = patch.nz + 2;
    for (int q = threadIdx.x; q < segment.count; q += blocks::SEGMENT_THREADS) {
        const int64_t at = segment.first + q;
        if (a.ghosts) {
            const int64_t i = at % row, j = at / row % rows, k = at / row / rows;
            if (i > 0 && i < row - 1 && j > 0 && j < rows - 1 && k > 0 && k < planes - 1) continue;
        }
        to[at] = from[at];
    }
}

// The first value of u (no ghosts) and f that is not finite, by its number: patch after patch, u before f.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS) smoother_inspect_f64(const blocks::LookArgs a) {
    const blocks::Region region = a.regions[blockIdx.x];
    const blocks::Patch &patch = a.patches[region.patch];
    const int x = region.x + (threadIdx.x & 7), y = region.y + (threadIdx.x >> 3);
    if (x >= patch.nx || y >= patch.ny) return;
    const int64_t row = patch.nx + 2, plane = row * (patch.ny + 2);
    const int64_t f_plane = int64_t(patch.nx) * patch.ny, cells = f_plane * patch.nz;
    for (int z = region.z; z < min(region.z + 8, patch.nz); ++z) {
        const int64_t cell = z * f_plane + int64_t(y) * patch.nx + x;
        const double u = patch.u[a.which][(z + 1) * plane + (y + 1) * row + x + 1], f = __ldg(patch.f + cell);
        // NaN and infinity minus themselves are NaN.
        if (!(u - u == 0.0)) atomicMin(a.bad, static_cast<unsigned long long>(region.number + cell));
        if (!(f - f == 0.0)) atomicMin(a.bad, static_cast<unsigned long long>(region.number + cells + cell));
    }
}

// r = f - A u, and the squares of scale r, summed by tile in a fixed order.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS) smoother_residual_f64(const blocks::LookArgs a) {
    __shared__ double half[2];
    const blocks::Region region = a.regions[blockIdx.x];
    const blocks::Patch &patch = a.patches[region.patch];
    const int x = region.x + (threadIdx.x & 7), y = region.y + (threadIdx.x >> 3);
    const int64_t row = patch.nx + 2, plane = row * (patch.ny + 2), f_plane = int64_t(patch.nx) * patch.ny;
    double sum = 0.0;
    if (x < patch.nx && y < patch.ny) {
        for (int z = region.z; z < min(region.z + 8, patch.nz); ++z) {
            const double *c = patch.u[a.which] + (z + 1) * plane + (y + 1) * row + x + 1;
            const int64_t cell = z * f_plane + int64_t(y) * patch.nx + x;
            double r = __ldg(patch.f + cell);
            for (int q = 0; q < 27; ++q) {
                if (a.legs[q] != 0.0) r -= a.legs[q] * c[(q / 9 - 1) * plane + (q / 3 % 3 - 1) * row + q % 3 - 1];
            }
            if (patch.r) patch.r[cell] = r;
            const double scaled = a.scale * r;
            sum += scaled * scaled;
        }
    }
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0) half[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) a.sums[blockIdx.x] = half[0] + half[1];
}

// The root of the sum of all tiles, by one block, in a fixed order.
extern "C" __global__ void __launch_bounds__(blocks::NORM_THREADS) smoother_norm_f64(const blocks::NormArgs a) {
    __shared__ double sums[blocks::NORM_THREADS];
    double sum = 0.0;
    for (int64_t q = threadIdx.x; q < a.count; q += blocks::NORM_THREADS) sum += a.sums[q];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int by = blocks::NORM_THREADS / 2; by > 0; by /= 2) {
        if (threadIdx.x < by) sums[threadIdx.x] += sums[threadIdx.x + by];
        __syncthreads();
    }
    if (threadIdx.x == 0) *a.norm = sqrt(sums[0]);
}

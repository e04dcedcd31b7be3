// Storage of grids by colour (r1, r2, b1, b2) on a device: geometry, storage formats, couplings of a colour, and loops
// over the nodes.
//
// The storage is that of src/rrb/layout.rs. One colour of a grid is a plane of (cy + 2) rows with `stride` values each.
// Entry (I, J) has the index (J + 1) * stride + block + I. All values outside the nodes are zero and remain zero, so
// kernels need no tests at the boundary. The planes of an array are stored one after the other, in the order of the
// enumerations below.
//
//     j' odd :  r1(I,J) b2(I,J) r1(I+1,J) b2(I+1,J) ...       i' = i + shift_x = 2 I or 2 I + 1
//     j' even:  b1(I,J) r2(I,J) b1(I+1,J) r2(I+1,J) ...       j' = j + shift_y = 2 J or 2 J + 1
//
// Kernels over the compute area of a grid have at most MAX_BLOCKS thread blocks of TILE_X x TILE_Y threads. A thread
// block processes every n-th tile, where n is the number of thread blocks. Extents have 32 bits. Indices have 64 bits
// on the finest grid and 32 bits in sweeps; src/rrb/cuda/packed.rs rejects larger grids.
#pragma once
#include "../common/barrier.cuh"
#include "program.cuh"
#include "../common/residual.cuh"
#include "../common/scalars.cuh"

// Extents of a tile. A warp reads 256 consecutive bytes of a row. If several rows of a tile need the same row of a
// vector, this row is read from device memory only once.
constexpr int TILE_X = 32;
constexpr int TILE_Y = 8;
constexpr int THREADS = TILE_X * TILE_Y;
// Number of (I, J) per direction in a patch. For each patch, one byte states whether all rows of the matrix in the
// patch are equal (kernels/rrb/uniform.cuh).
constexpr int PATCH = 8;
// Maximum number of thread blocks of a launch: four (RESIDENT_BLOCKS) on each of the 132 multiprocessors of an H200,
// where all of them are resident at the same time. The number does not depend on the device, so that sums have the same
// order on all devices.
constexpr int MAX_BLOCKS = 528;
constexpr int RESIDENT_BLOCKS = 4;
// Number of (I, J) of a tile in a sweep, including the additional row and column of b1. There is one thread per (I, J).
constexpr int SWEEP_GROUPS = (TILE_X + 1) * (TILE_Y + 1);
constexpr int SWEEP_THREADS = (SWEEP_GROUPS + 31) / 32 * 32;
enum Colour { R1, R2, B1, B2 };
enum AxisDirection { W, E, S, N };
enum DiagonalDirection { SW, SE, NW, NE };
// Planes of the couplings at distance two.
enum FarDirection { B1_EAST, B1_NORTH, B2_EAST, B2_NORTH };

// Returns the colour of the node at (ii, jj) = (i + shift_x, j + shift_y).
__device__ inline int colour_of(int ii, int jj) { return (jj & 1) ? ((ii & 1) ? B2 : R1) : ((ii & 1) ? R2 : B1); }

struct Geometry {
    int nx, ny;           // numbers of nodes
    int cx, cy;           // numbers of (I, J) in the compute area, which contains all nodes
    int shift_x, shift_y; // i' - i and j' - j
    int stride, block;    // values from one row to the next; values before the first column
    int64_t plane;        // values from one plane to the next
    // One byte per tile of TILE_X x TILE_Y: 1 if all rows of the matrix in the tile and around it are equal, separately
    // for each colour. Null if there are few such tiles.
    const uint8_t *uniform;
    // For distributed rows (divided.cuh): `part_rows` is the number of rows from one part to the next, or 0 if rows are
    // not distributed; `sharers` is the number of devices that own rows.
    int part_rows, sharers;

    __device__ int64_t at(int i, int j) const { return int64_t(j + 1) * stride + block + i; }
    // Returns the index of node (i, j) in the planes of all colours.
    __device__ int64_t index_of_node(int i, int j) const {
        const int ii = i + shift_x, jj = j + shift_y;
        return colour_of(ii, jj) * plane + at(ii >> 1, jj >> 1);
    }
};

// Storage formats of M (src/rrb/storage.rs). Stored is the type in memory, and Real the type in which sweeps compute.
// CG runs in double precision. Single and BrainFloat, the short formats, store M / unit, where unit is a power of two
// near the largest center. `read` loads a value from device memory and converts it; no kernel of the solve writes this
// value. `widen` converts a value in a register.
struct Double {
    using Stored = double;
    using Real = double;
    static __device__ double read(const double &v) { return ldg(v); }
    static __device__ double widen(double v) { return v; }
};
struct Single {
    using Stored = float;
    using Real = float;
    static __device__ float read(const float &v) { return ldg(v); }
    static __device__ float widen(float v) { return v; }
};
// bf16: the upper half of a float.
struct BrainFloat {
    struct Stored {
        uint16_t bits;
    };
    using Real = float;
    static __device__ float read(const Stored &v) { return __uint_as_float(uint32_t(ldg(v.bits)) << 16); }
    static __device__ float widen(Stored v) { return __uint_as_float(uint32_t(v.bits) << 16); }
};

// RRB_KERNEL defines a kernel that calls BODY with its ARGS. THREADS is the number of threads per block, and BLOCKS the
// number of blocks per multiprocessor. RRB_IN_FORMATS defines a kernel for each of the three storage formats of M:
// NAME_f64, NAME_f32 and NAME_bf16. In the last two, BLOCKS_SHORT replaces BLOCKS.
#define RRB_IN_FORMATS(NAME, ARGS, THREADS, BLOCKS, BLOCKS_SHORT, BODY)                                                \
    RRB_KERNEL(NAME##_f64, ARGS<Double>, THREADS, BLOCKS, BODY)                                                        \
    RRB_KERNEL(NAME##_f32, ARGS<Single>, THREADS, BLOCKS_SHORT, BODY)                                                  \
    RRB_KERNEL(NAME##_bf16, ARGS<BrainFloat>, THREADS, BLOCKS_SHORT, BODY)
#define RRB_KERNEL(NAME, ARGS, THREADS, BLOCKS, BODY)                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(ARGS a) { BODY(a); }

// One grid during the factorization, in double precision. Each coupling is stored once: axis couplings with the red
// nodes (8 planes: W E S N of r1, then of r2), diagonal couplings with b1 (4 planes: SW SE NW NE).
struct Grid {
    Geometry g;
    double *h;             // 1 / pivot of r1, r2, b1; on grids after which M may be truncated, also 1 / center of b2
    double *s;             // axis couplings
    double *d;             // diagonal couplings between black nodes, after the odd level
    double *row_sums;      // row sums; at eliminated nodes, row sum / pivot
    double *corners;       // diagonal couplings between red nodes, stored with r1
    double *far_couplings; // couplings at distance two, after the odd level
    // Copies for sweeps in short formats; null in double precision, where sweeps read the arrays above.
    float *short_h;
    void *short_s, *short_d;
    // On recursion grids: the matrix before the eliminations change it, in the format of M, with 4 planes each.
    void *original_row_sums, *original_corners, *original_black;
};

// Access to the values at the b2 nodes of a grid, which neither of its two levels eliminates. The values are stored in
// vectors of the next grid or of the coarsest system, whose geometry is `g`. (i, j) is the (I, J) of the b2 node.
// Values outside the nodes are zero in these vectors, so `get` needs no test at the boundary.
template <class Real> struct KeptNodes {
    Geometry g;
    Real *rhs;
    const Real *solution;
    int nx, ny;

    __device__ int at(int i, int j) const {
        const int ii = i + g.shift_x, jj = j + g.shift_y;
        return colour_of(ii, jj) * int(g.plane) + ((jj >> 1) + 1) * g.stride + g.block + (ii >> 1);
    }
    __device__ void put(int i, int j, Real value) const {
        if (i < nx && j < ny) rhs[at(i, j)] = value;
    }
    __device__ Real get(int i, int j) const { return solution[at(i, j)]; }
};

// One grid during sweeps and cycles.
template <class F> struct Level {
    using Real = typename F::Real;
    using Stored = typename F::Stored;
    Geometry g;
    const Real *h;                            // 1 / pivot of r1, r2, b1; with TRUNCATED also 1 / center of b2
    const Stored *s, *d;                      // couplings, as in Grid
    Real *z;                                  // right-hand side in the forward half, solution in the backward half
    Real *y;                                  // y of b1 in the forward half
    const Stored *row_sums, *corners, *black; // on recursion grids: the matrix in row-sum form
    Real *r, *direction, *q, *u;              // on recursion grids: vectors of the inner iteration
    KeptNodes<Real> kept_nodes;
};

// Calls f(i, row) for all values in the rows `first` .. `end` - 1 of an array with nx values per row.
template <class F> __device__ inline void for_each_value(int nx, int first, int end, F f) {
    const int tiles_per_row = (nx + TILE_X - 1) / TILE_X, tile_rows = (end - first + TILE_Y - 1) / TILE_Y;
    for (int tile = blockIdx.x; tile < tiles_per_row * tile_rows; tile += gridDim.x) {
        const int i = tile % tiles_per_row * TILE_X + threadIdx.x,
                  row = first + tile / tiles_per_row * TILE_Y + threadIdx.y;
        if (i < nx && row < end) f(i, row);
    }
}

#include "divided.cuh"

// Order of the tiles. The passes of an iteration alternate between ascending and descending tile numbers, so that each
// pass begins with the data that the previous pass left in the L2 cache.
enum TileOrder { FORWARDS, BACKWARDS };

// Flags of the tiles first, first + step, ... of this thread block: whether they are uniform. The flags are loaded
// before the first tile, because loading them tile by tile takes longer. Tiles beyond the first CAPACITY count as not
// uniform.
struct UniformTiles {
    static constexpr int CAPACITY = 512;
    const uint8_t *flags;
    __device__ bool operator[](int k) const { return k < CAPACITY && flags[k]; }
};
struct NoUniformTiles {
    __device__ bool operator[](int) const { return false; }
};

template <bool UNIFORM, class IsUniform>
__device__ inline auto uniform_tiles(int first, int step, int count, IsUniform is_uniform) {
    if constexpr (UNIFORM) {
        __shared__ uint8_t flags[UniformTiles::CAPACITY];
        // Other threads may still read the flags of the previous part.
        if (MAY_BE_DIVIDED) __syncthreads();
        const int threads = blockDim.x * blockDim.y;
        for (int k = thread_of_block(); k < min(count, UniformTiles::CAPACITY); k += threads)
            flags[k] = is_uniform(first + k * step);
        __syncthreads();
        return UniformTiles{flags};
    } else {
        return NoUniformTiles{};
    }
}

// Calls f(I, J) for all (I, J) of those tiles that this thread block of the team processes. Only the first THREADS
// threads of each thread block call f.
template <TileOrder ORDER = FORWARDS, class F>
__device__ inline void for_each_group(const Geometry &g, const Tiles &tiles, Team team, F f) {
    const int t = thread_of_block(), ti = t % TILE_X, tj = t / TILE_X;
    for (int k = first_tile(tiles, team); k < tiles.end; k += team.size()) {
        const int tile = ORDER == FORWARDS ? k : tiles.first + tiles.end - 1 - k,
                  row = quotient(tile, tiles.tiles_per_row);
        const int i = (tile - row * tiles.tiles_per_row) * TILE_X + ti, j = row * TILE_Y + tj;
        if (tj < TILE_Y && i < g.cx && j < g.cy) f(i, j);
    }
}

// Calls f(I, J) for all (I, J) of the compute area, part by part, and end(part) after the last (I, J) of each part.
template <class F, class End> __device__ inline void for_each_group_of_area(const Geometry &g, F f, End end) {
    for_each_part(g, TILE_Y, [&](int part, const Tiles &tiles) {
        for_each_group(g, tiles, all_blocks(), f);
        end(part);
    });
}
template <class F> __device__ inline void for_each_group_of_area(const Geometry &g, F f) {
    for_each_group_of_area(g, f, [](int) {});
}

__device__ inline double axis_sum_b1(const Grid &k, const double *v, int64_t c) {
    const int64_t p = k.g.plane, n = k.g.stride;
    const double *r1 = k.s, *r2 = k.s + 4 * p, *v1 = v + R1 * p, *v2 = v + R2 * p;
    return (r2[E * p + c - 1] * v2[c - 1] + r2[W * p + c] * v2[c]) +
        (r1[N * p + c - n] * v1[c - n] + r1[S * p + c] * v1[c]);
}

__device__ inline double axis_sum_b2(const Grid &k, const double *v, int64_t c) {
    const int64_t p = k.g.plane, n = k.g.stride;
    const double *r1 = k.s, *r2 = k.s + 4 * p, *v1 = v + R1 * p, *v2 = v + R2 * p;
    return (r1[E * p + c] * v1[c] + r1[W * p + c + 1] * v1[c + 1]) +
        (r2[N * p + c] * v2[c] + r2[S * p + c + n] * v2[c + n]);
}

__device__ inline double axis_sum_r1(const Grid &k, const double *v, int64_t c) {
    const int64_t p = k.g.plane, n = k.g.stride;
    const double *a = k.s, *v1 = v + B1 * p, *v2 = v + B2 * p;
    return (a[W * p + c] * v2[c - 1] + a[E * p + c] * v2[c]) + (a[S * p + c] * v1[c] + a[N * p + c] * v1[c + n]);
}

__device__ inline double axis_sum_r2(const Grid &k, const double *v, int64_t c) {
    const int64_t p = k.g.plane, n = k.g.stride;
    const double *a = k.s + 4 * p, *v1 = v + B1 * p, *v2 = v + B2 * p;
    return (a[W * p + c] * v1[c] + a[E * p + c] * v1[c + 1]) + (a[S * p + c] * v2[c - n] + a[N * p + c] * v2[c]);
}

template <class T> __device__ inline void set_four(T *w, T west, T east, T south, T north) {
    w[0] = west;
    w[1] = east;
    w[2] = south;
    w[3] = north;
}

// Stores in `a` the couplings of the node of this colour at index c to its axis neighbours, in the order W E S N.
template <class T>
__device__ inline void load_axis_couplings(const Geometry &g, const T *s, int colour, int64_t c, T *a) {
    const int64_t p = g.plane, n = g.stride;
    const T *r1 = s, *r2 = s + 4 * p;
    switch (colour) {
    case R1: set_four(a, r1[W * p + c], r1[E * p + c], r1[S * p + c], r1[N * p + c]); break;
    case R2: set_four(a, r2[W * p + c], r2[E * p + c], r2[S * p + c], r2[N * p + c]); break;
    case B1: set_four(a, r2[E * p + c - 1], r2[W * p + c], r1[N * p + c - n], r1[S * p + c]); break;
    default: set_four(a, r1[E * p + c], r1[W * p + c + 1], r2[N * p + c], r2[S * p + c + n]); break;
    }
}

// Stores in `a` the couplings of the node of this colour at index c to its diagonal neighbours, in the order SW SE NW
// NE. `couplings` contains the couplings stored with r1 (for r1 and r2) or with b1 (for b1 and b2).
template <class T>
__device__ inline void load_diagonal_couplings(const Geometry &g, const T *couplings, int colour, int64_t c, T *a) {
    const int64_t p = g.plane, n = g.stride;
    switch (colour) {
    case R1:
    case B1:
        set_four(a, couplings[SW * p + c], couplings[SE * p + c], couplings[NW * p + c], couplings[NE * p + c]);
        break;
    case R2:
        set_four(a, couplings[NE * p + c - n], couplings[NW * p + c - n + 1], couplings[SE * p + c],
            couplings[SW * p + c + 1]);
        break;
    default:
        set_four(a, couplings[NE * p + c], couplings[NW * p + c + 1], couplings[SE * p + c + n],
            couplings[SW * p + c + n + 1]);
        break;
    }
}

// Stores in w the values of v at the axis neighbours of the node of this colour at index c, in the order W E S N.
__device__ inline void load_axis_values(const Geometry &g, const double *v, int colour, int64_t c, double *w) {
    const int64_t p = g.plane, n = g.stride;
    const double *r1 = v + R1 * p + c, *r2 = v + R2 * p + c, *b1 = v + B1 * p + c, *b2 = v + B2 * p + c;
    switch (colour) {
    case R1: set_four(w, b2[-1], b2[0], b1[0], b1[n]); break;
    case R2: set_four(w, b1[0], b1[1], b2[-n], b2[0]); break;
    case B1: set_four(w, r2[-1], r2[0], r1[-n], r1[0]); break;
    default: set_four(w, r1[0], r1[1], r2[0], r2[n]); break;
    }
}

// Stores in w the values of v at the diagonal neighbours of the node of this colour at index c, in the order SW SE NW
// NE.
__device__ inline void load_diagonal_values(const Geometry &g, const double *v, int colour, int64_t c, double *w) {
    const int64_t p = g.plane, n = g.stride;
    const double *r1 = v + R1 * p + c, *r2 = v + R2 * p + c, *b1 = v + B1 * p + c, *b2 = v + B2 * p + c;
    switch (colour) {
    case R1: set_four(w, r2[-1], r2[0], r2[n - 1], r2[n]); break;
    case R2: set_four(w, r1[-n], r1[1 - n], r1[0], r1[1]); break;
    case B1: set_four(w, b2[-n - 1], b2[-n], b2[-1], b2[0]); break;
    default: set_four(w, b1[0], b1[1], b1[n], b1[n + 1]); break;
    }
}

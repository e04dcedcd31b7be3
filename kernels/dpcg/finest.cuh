// Multigrid with vertex coarsening on the finest grid: sweeps of red-black Gauss-Seidel, a pass over memory each, and
// the residual with its restriction. r comes in f64 and is rounded to the numbers T of the cycle, after a division by a
// power of two near |r|; z = M^-1 r goes in f64. Storage as in vertex.cuh.
//
// A sweep: a block has a tile of rows of pairs of cells, a thread a pair (2 I, 2 I + 1), and goes up through the planes.
// In step k it relaxes the first colour of plane k, then the second one of plane k - 1. A pair has a cell of either
// colour, and the cell above one has the other colour: values above, below and beside in the pair are the thread's own,
// those of other pairs come through shared memory. A tile has a pair more on either side and rows more, two planes more
// below and above, whose first colour it relaxes too.
//
// Bytes a cell, T of 4: a sweep 28 (from zero 32; after the coarse grid 12 more; the last one 40), residual and
// restriction 37.
//
// Races: sweeps go from one array to another; a cell has one writer.
#pragma once
#include "vertex.cuh"

namespace dpcg {

// Threads of a sweep at most.
constexpr int TILE_THREADS = 768;

// What a sweep begins with.
enum Start {
    ZERO,     // x = 0; r comes in f64
    GIVEN,    // x
    CORRECTED // x + P of the coarse solution
};

struct SweepArgs {
    Level k;
    int colour; // the first one
    int from;   // which x; the sweep writes the other one
    int pairs, rows;          // of a tile, with those around it
    int width, height, depth; // cells of a tile without them
    int across, down, tiles;  // tiles in a plane, and all
    const double *wide; // r
    double *z;          // factor s x, of the last sweep
    double factor;
    const double *scales; // 1 / s and s, outside a loop
    Sum sum;              // <r, z>
};

// The power of two that residuals are divided by: in a loop |r| is known, and s^2 <= |r|^2 < 4 s^2.
__device__ inline double scale_of(const SweepArgs &a) {
    if (!a.sum.in_loop) return a.scales[1];
    const int64_t exponent = int64_t(magnitude(a.sum.scalars->norm2) >> 52);
    if (exponent == 0 || exponent == 2047) return 1.0;
    return __longlong_as_double((1023 + ((exponent - 1023) >> 1)) << 52);
}

// What a cell's equation has beside x: couplings to west, east, south, north, bottom and top.
template <class T> struct Row {
    T r, d, c[6];
    __device__ T solve(T west, T east, T south, T north, T bottom, T top) const {
        const T sum = ((r + c[0] * west) + c[1] * east) + ((c[2] * south + c[3] * north) + (c[4] * bottom + c[5] * top));
        return d == T(0) ? T(0) : sum / d;
    }
};

// A pair's: conductances to the east from before the pair on, to the north and south, to the top.
template <class T> struct Pair {
    T r[2], d[2], east[3], north[2], south[2], top[2];
    __device__ Row<T> at(int q, const T (&bottom)[2]) const {
        return q ? Row<T>{r[1], d[1], {east[1], east[2], south[1], north[1], bottom[1], top[1]}}
                 : Row<T>{r[0], d[0], {east[0], east[1], south[0], north[0], bottom[0], top[0]}};
    }
};

// The column of planes of a thread's pair.
template <class T, Start START> struct Column {
    const SweepArgs &a;
    int i, j;
    bool in[2]; // the grid
    bool own;   // cells of the tile itself
    double per_scale;

    __device__ int64_t place(int k) const { return (int64_t(k) * a.k.box.ny + j) * a.k.box.nx + i; }
    __device__ bool has(int k) const { return in[0] && k >= 0 && k < a.k.box.nz; }
    __device__ bool has(int k, int q) const { return (q ? in[1] : in[0]) && k >= 0 && k < a.k.box.nz; }
    __device__ const T *c(int offset) const { return static_cast<const T *>(a.k.c) + offset * a.k.c_stride; }

    __device__ void take_top(int k, T (&top)[2]) const {
        const int64_t p = place(k);
        top[0] = has(k) ? fixed(c(2)[p]) : T(0);
        top[1] = has(k, 1) ? fixed(c(2)[p + 1]) : T(0);
    }

    __device__ Pair<T> pair(int k) const {
        Pair<T> v = {};
        take_top(k, v.top);
        if (!has(k)) return v;
        const int64_t p = place(k), n = a.k.box.north();
        v.east[0] = fixed(c(0)[p - 1]);
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            if (!in[u]) continue;
            v.r[u] = START == ZERO ? T(per_scale * a.wide[p + u]) : static_cast<const T *>(a.k.r)[p + u];
            v.d[u] = fixed(static_cast<const T *>(a.k.diagonal)[p + u]);
            v.east[1 + u] = fixed(c(0)[p + u]);
            v.north[u] = fixed(c(1)[p + u]);
            v.south[u] = fixed(c(1)[p + u - n]);
        }
        return v;
    }

    // x in the cell of the second colour.
    __device__ T before(int k) const {
        const int q = (a.colour + 1 + j + k) & 1;
        if (START == ZERO || !has(k, q)) return T(0);
        const int64_t p = place(k) + q;
        const T x = static_cast<const T *>(a.k.x[a.from])[p];
        return START == CORRECTED ? x + correction<T>(a.k, p, i + q, j, k) : x;
    }
};

// A tile; returns this thread's part of <r, z>.
template <class T, Start START, bool LAST>
__device__ inline double sweep_tile(const SweepArgs &a, int tile, double scale, T (&planes)[2][2][TILE_THREADS]) {
    const int t = threadIdx.x, row = t / a.pairs, lane = t - row * a.pairs;
    const int halo = START == ZERO ? 1 : 2;
    const int tx = tile % a.across, ty = tile / a.across % a.down, low = tile / (a.across * a.down) * a.depth;
    const int high = min(low + a.depth, a.k.box.nz);
    const int i = tx * a.width + 2 * lane - 2, j = ty * a.height + row - halo;
    const bool there = row < a.rows && j >= 0 && j < a.k.box.ny && i >= 0;
    const Column<T, START> column{a, i, j, {there && i < a.k.box.nx, there && i + 1 < a.k.box.nx},
        lane > 0 && lane + 1 < a.pairs && row >= halo && row < halo + a.height, 1.0 / scale};
    // Beyond the tile's edge a thread reads its own value: what comes of it does not reach the tile's own cells.
    const int west = lane > 0 ? t - 1 : t, east = lane + 1 < a.pairs && row < a.rows ? t + 1 : t;
    const int south = row > 0 ? t - a.pairs : t, north = row + 1 < a.rows ? t + a.pairs : t;
    T bottom[2], given[3] = {column.before(low - 2), column.before(low - 1), T(0)}, relaxed[3] = {0, 0, 0};
    column.take_top(low - 2, bottom);
    Pair<T> now = column.pair(low - 1);
    Row<T> kept = {};
    double sum = 0.0;
    if (START != ZERO) planes[0][(low - 1) & 1][t] = given[1];
    for (int k = low - 1; k <= high; ++k) {
        const Pair<T> next = k < high ? column.pair(k + 1) : Pair<T>{};
        given[2] = column.before(k + 1);
        const bool writes = k > low && column.own;
        const int64_t p = column.place(k - 1);
        double r[2] = {0.0, 0.0};
        for (int u = 0; LAST && u < 2; ++u) r[u] = writes && column.in[u] ? a.wide[p + u] : 0.0;
        __syncthreads();
        // In plane k the first colour is at q; in plane k - 1, the second one.
        const int q = (a.colour + j + k) & 1;
        const T *of = planes[0][k & 1];
        const Row<T> first = now.at(q, bottom);
        relaxed[2] = START == ZERO
            ? first.solve(0, 0, 0, 0, 0, 0)
            : first.solve(
                  q ? given[1] : of[west], q ? of[east] : given[1], of[south], of[north], given[0], given[2]);
        planes[1][k & 1][t] = relaxed[2];
        of = planes[1][(k - 1) & 1];
        if (k > low) {
            const T second = kept.solve(
                q ? relaxed[1] : of[west], q ? of[east] : relaxed[1], of[south], of[north], relaxed[0], relaxed[2]);
            const T x[2] = {q ? relaxed[1] : second, q ? second : relaxed[1]};
            for (int u = 0; u < 2; ++u) {
                if (!writes || !column.in[u]) continue;
                if (LAST) {
                    const double z = a.factor * scale * double(x[u]);
                    a.z[p + u] = z;
                    sum += r[u] * z;
                } else {
                    static_cast<T *>(a.k.x[1 - a.from])[p + u] = x[u];
                }
            }
        }
        for (int u = 0; START == ZERO && u < 2; ++u) {
            if (column.own && column.in[u] && k >= low && k < high) static_cast<T *>(a.k.r)[column.place(k) + u] = now.r[u];
        }
        kept = now.at(1 - q, bottom);
        bottom[0] = now.top[0], bottom[1] = now.top[1];
        now = next;
        given[0] = given[1], given[1] = given[2];
        relaxed[0] = relaxed[1], relaxed[1] = relaxed[2];
        if (START != ZERO) planes[0][(k + 1) & 1][t] = given[1];
    }
    return sum;
}

// x of the second colour from that of the first one, from r - A x of both: x = D^-1 (r - (A - D) x).
template <class T, Start START, bool LAST> __device__ inline void sweep(const SweepArgs &a) {
    __shared__ T planes[2][2][TILE_THREADS];
    double sum = 0.0;
    if (!is_met(a.sum)) {
        const double scale = START == ZERO || LAST ? scale_of(a) : 1.0;
        for (int tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
            __syncthreads();
            sum += sweep_tile<T, START, LAST>(a, tile, scale, planes);
        }
    }
    if (LAST) finish_sum(a.sum, sum);
}

// Coarse points of a block of the restriction.
constexpr int BRICK_X = 16, BRICK_Y = 4, BRICK_Z = 4;
static_assert(BRICK_X * BRICK_Y * BRICK_Z == THREADS, "a thread for each");

struct RestrictArgs {
    Level k;
    int from;          // which x
    int across, down;  // bricks
    int unused;
    Sum sum;
};

// r of the next grid = P^T (r - A x), and the first sweep there. Cells of odd i + j + k were relaxed last: they have no
// residual.
template <class T> __device__ inline void restrict_finest(const RestrictArgs &a) {
    if (is_met(a.sum)) return;
    __shared__ T residuals[(2 * BRICK_X + 1) * (2 * BRICK_Y + 1) * (2 * BRICK_Z + 1)];
    const Level &g = a.k;
    const Box &fine = g.box;
    const T *x = static_cast<const T *>(g.x[a.from]);
    const int brick = blockIdx.x;
    const int I = brick % a.across * BRICK_X, J = brick / a.across % a.down * BRICK_Y;
    const int K = brick / (a.across * a.down) * BRICK_Z;
    const int cx = g.coarsened[0], cy = g.coarsened[1], cz = g.coarsened[2];
    const int i0 = (I << cx) - cx, j0 = (J << cy) - cy, k0 = (K << cz) - cz;
    const int nx = (BRICK_X << cx) + cx, ny = (BRICK_Y << cy) + cy, nz = (BRICK_Z << cz) + cz, half = (nx + 1) / 2;
    for (int item = threadIdx.x; item < half * ny * nz; item += THREADS) {
        const int row = quotient(item, half), k = quotient(row, ny), j = row - k * ny;
        const int i = 2 * (item - row * half) + ((i0 + j0 + j + k0 + k) & 1);
        if (i >= nx) continue;
        const int fi = i0 + i, fj = j0 + j, fk = k0 + k;
        const bool inside = fi >= 0 && fi < fine.nx && fj >= 0 && fj < fine.ny && fk >= 0 && fk < fine.nz;
        const int64_t p = (int64_t(fk) * fine.ny + fj) * fine.nx + fi;
        residuals[row * nx + i] = inside ? residual_at<T, true>(g, x, p) : T(0);
    }
    __syncthreads();
    const int t = threadIdx.x, i = I + t % BRICK_X, j = J + t / BRICK_X % BRICK_Y, k = K + t / (BRICK_X * BRICK_Y);
    if (i >= g.coarse.nx || j >= g.coarse.ny || k >= g.coarse.nz) return;
    const int64_t c = (int64_t(k) * g.coarse.ny + j) * g.coarse.nx + i;
    restrict_at<T>(g, c, i, j, k, [&](int64_t, int fi, int fj, int fk, auto weight) {
        if ((fi + fj + fk) & 1) return 0.0;
        return double(weight() * residuals[((fk - k0) * ny + fj - j0) * nx + fi - i0]);
    });
}

} // namespace dpcg

#define DPCG_SWEEP(NAME, START, LAST)                                                                                  \
    extern "C" __global__ void __launch_bounds__(dpcg::TILE_THREADS) NAME##_f32(                                       \
        const __grid_constant__ dpcg::SweepArgs a) {                                                                   \
        dpcg::sweep<float, dpcg::START, LAST>(a);                                                                      \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(dpcg::TILE_THREADS) NAME##_f64(                                       \
        const __grid_constant__ dpcg::SweepArgs a) {                                                                   \
        dpcg::sweep<double, dpcg::START, LAST>(a);                                                                     \
    }
DPCG_SWEEP(dpcg_sweep_from_zero, ZERO, false)
DPCG_SWEEP(dpcg_sweep, GIVEN, false)
DPCG_SWEEP(dpcg_sweep_corrected, CORRECTED, false)
DPCG_SWEEP(dpcg_last_sweep, GIVEN, true)
DPCG_SWEEP(dpcg_last_sweep_corrected, CORRECTED, true)
DPCG_KERNEL(dpcg_restrict_finest_f32, RestrictArgs, restrict_finest<float>)
DPCG_KERNEL(dpcg_restrict_finest_f64, RestrictArgs, restrict_finest<double>)

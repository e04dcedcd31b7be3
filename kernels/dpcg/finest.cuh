// Finest grid of multigrid with vertex coarsening: sweeps of red-black Gauss-Seidel, each in one pass over memory, and
// restriction of the residual. The sweep from zero reads r in f64. In a cycle in single precision, this sweep also
// divides r by a power of two near its norm, rounds the quotient, and stores it for the other sweeps. The last sweep
// writes z = M^-1 r in f64. vertex.cuh describes the storage.
//
// In a sweep, a thread block processes a tile plane by plane in ascending order, with one thread per pair of cells. The
// cells of a pair have the indices 2 I and 2 I + 1 in x. In step k, the block updates the first colour in plane k, and
// then the second colour in plane k - 1. A pair has one cell of each colour, and the cell above a cell has the other
// colour. The values above, below and in the pair are therefore in registers of the thread. Values of other pairs are
// read from shared memory. The tile is extended by one pair on each side in x, and by two planes below and above. On
// each side in y, it is extended by one row in a sweep from zero, and by two rows in other sweeps. The first colour is
// also updated in the extension.
//
// Memory traffic per cell for T of 4 bytes, in bytes: a sweep 28 (from zero 32; after the coarse-grid correction 7
// more; the last sweep 40); residual and restriction 31. If all directions are coarsened, only the weights of points
// with two odd indices are read. Points with one or three odd indices have the colour that is updated first, so their
// initial x is not needed.
//
// There are no races, because a sweep reads one array x and writes the other one, and each cell is written by one
// thread.
#pragma once
#include "vertex.cuh"

namespace dpcg {

// Largest number of threads per block in a sweep.
constexpr int TILE_THREADS = 768;

// Initial values of x in a sweep.
enum InitialValue {
    ZERO,   // x = 0; r is read in f64
    STORED, // the stored x
    CORRECTED // the stored x plus P times the coarse solution
};

struct SweepTiles {
    int pairs, rows;                  // pairs in x and rows of a tile, including its extension
    int width, height, depth;         // extents of a tile in cells, without its extension
    int tiles_x, tiles_y, tile_count; // numbers of tiles in x and in y, and of all tiles
};

struct FinestSweepArgs {
    VertexGrid grid;
    int colour;       // the colour that is updated first
    int source_array; // index of the array x that is read; the sweep writes the other one
    SweepTiles tiles;
    const double *r_f64; // r in f64
    double *z;           // s * factor * x, written by the last sweep (s: scale_of)
    double factor;
    const double *scales; // 1 / s and s; only read outside a loop
    Sum sum;              // <r, z>
};

// Returns the power of two s by which the residual is divided; 1 in double precision. In a loop, |r| is known, and s
// satisfies s^2 <= |r|^2 < 4 s^2; s is 1 if |r|^2 is zero, subnormal or not finite.
template <class T> __device__ inline double scale_of(const FinestSweepArgs &a) {
    if constexpr (USES_CALLER_MATRIX<T, true>) return 1.0;
    if (!a.sum.in_loop) return a.scales[1];
    const int64_t exponent = int64_t(magnitude(a.sum.scalars->norm2) >> 52);
    if (exponent == 0 || exponent == 2047) return 1.0;
    return __longlong_as_double((1023 + ((exponent - 1023) >> 1)) << 52);
}

// Equation of a cell: right-hand side, 1/D, and conductances to west, east, south, north, bottom and top.
template <class T> struct Row {
    T r, inverse, c[6];
    __device__ T solve(T west, T east, T south, T north, T bottom, T top) const {
        const T x = c[0] * west + c[1] * east, y = c[2] * south + c[3] * north, z = c[4] * bottom + c[5] * top;
        return (r + (x + (y + z))) * inverse;
    }
};

// Initial x in a cell of the second colour, and its correction by up to four coarse points. The index of such a cell is
// odd in at most two directions.
template <class T> struct CorrectedValue {
    T x, weight[4], coarse[4];
    __device__ T value() const {
        return x + ((weight[0] * coarse[0] + weight[1] * coarse[1]) + (weight[2] * coarse[2] + weight[3] * coarse[3]));
    }
};

// The pair of cells (i, j), (i + 1, j) of a thread, in all planes.
template <class T, InitialValue INITIAL_VALUE> struct Column {
    const FinestSweepArgs &a;
    int i, j;
    bool has_low_cell, has_high_cell; // whether cell (i, j) and cell (i + 1, j) are inside the grid
    bool is_in_tile;      // whether the pair is inside the tile
    double inverse_scale;

    __device__ bool is_in_grid(int q) const { return q ? has_high_cell : has_low_cell; }
    __device__ bool is_cell(int k, int q) const { return is_in_grid(q) && k >= 0 && k < a.grid.cells.nz; }
    __device__ uint32_t index(int k, int q) const {
        return (uint32_t(k) * a.grid.cells.ny + j) * a.grid.cells.nx + i + q;
    }
    // Returns the conductance of offset number `offset` that is stored at index p - distance.
    __device__ T c(int offset, int64_t distance, uint32_t p) const {
        const T *stored = static_cast<const T *>(a.grid.c) + offset * a.grid.c_stride - distance;
        return conductance_of<T, true>(ldg(stored[p]), a.grid.per_coupling);
    }

    // Returns the equation of cell q of the pair in plane k. `bottom` is its conductance to the plane below.
    __device__ Row<T> row(int k, int q, T bottom) const {
        Row<T> v = {};
        if (!is_cell(k, q)) return v;
        const uint32_t p = index(k, q);
        v.r = INITIAL_VALUE == ZERO ? T(inverse_scale * a.r_f64[p]) : static_cast<const T *>(a.grid.r)[p];
        v.inverse = ldg(static_cast<const T *>(a.grid.inverse)[p]);
        v.c[0] = c(0, 1, p);
        v.c[1] = c(0, 0, p);
        v.c[2] = c(1, a.grid.cells.north(), p);
        v.c[3] = c(1, 0, p);
        v.c[4] = bottom;
        v.c[5] = c(2, 0, p);
        return v;
    }

    // Returns the initial x of the cell of the second colour in plane k, and its correction.
    __device__ CorrectedValue<T> initial_value(int k) const {
        CorrectedValue<T> v = {};
        const int q = (a.colour + 1 + j + k) & 1;
        if (INITIAL_VALUE == ZERO || !is_cell(k, q)) return v;
        const uint32_t p = index(k, q);
        v.x = static_cast<const T *>(a.grid.x[a.source_array])[p];
        if (INITIAL_VALUE == CORRECTED) {
            const VertexGrid &g = a.grid;
            const Strides &s = g.strides;
            const int x = (i + q) & g.is_coarsened[0], y = j & g.is_coarsened[1], z = k & g.is_coarsened[2];
            const int ci = (i + q) >> g.is_coarsened[0], cj = j >> g.is_coarsened[1], ck = k >> g.is_coarsened[2];
            const bool is_used[4] = {true, (x | y | z) != 0, x + y + z > 1, x + y + z > 1};
            // In each coarsened direction in which its index is odd, the cell is between two coarse points.
            // `first_step`: distance in memory between these two points, in the first such direction. `last_step`: the
            // same in the last such direction; it is used only if there are two such directions. `first_weight_step`
            // and `last_weight_step`: distances between the weights of the two points.
            const int64_t first_step = x ? 1 : y ? g.coarse.north() : g.coarse.top();
            const int64_t last_step = z ? g.coarse.top() : g.coarse.north();
            const int64_t first_weight_step = x ? s.per_digit[0] : y ? s.per_digit[1] : s.per_digit[2];
            const int64_t last_weight_step = z ? s.per_digit[2] : s.per_digit[1];
            const int64_t c = ck * g.coarse.top() + cj * g.coarse.north() + ci;
            const T *weights = static_cast<const T *>(g.weights) + s.index(ci, cj, ck) +
                s.weight_offset(x | y << 1 | z << 2, 0);
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                if (!is_used[m]) continue;
                v.weight[m] =
                    is_used[1] ? ldg(weights[(m & 1 ? first_weight_step : 0) + (m & 2 ? last_weight_step : 0)]) : T(1);
                const int64_t coarse_index = c + (m & 1 ? first_step : 0) + (m & 2 ? last_step : 0);
                v.coarse[m] = g.coarsest_is_next ? coarse_solution<T, true>(g, coarse_index)
                                                 : coarse_solution<T, false>(g, coarse_index);
            }
        }
        return v;
    }
};

// Executes a sweep on a tile. Returns the contribution of this thread to <r, z>.
template <class T, InitialValue INITIAL_VALUE, bool LAST>
__device__ inline double sweep_tile(const FinestSweepArgs &a, int tile, double scale, T (&planes)[2][2][TILE_THREADS]) {
    const int t = threadIdx.x, row = t / a.tiles.pairs, lane = t - row * a.tiles.pairs;
    const int halo_rows = INITIAL_VALUE == ZERO ? 1 : 2;
    const int tx = tile % a.tiles.tiles_x, ty = tile / a.tiles.tiles_x % a.tiles.tiles_y;
    const int first_plane = tile / (a.tiles.tiles_x * a.tiles.tiles_y) * a.tiles.depth;
    const int end_plane = min(first_plane + a.tiles.depth, a.grid.cells.nz);
    const int i = tx * a.tiles.width + 2 * lane - 2, j = ty * a.tiles.height + row - halo_rows;
    const bool is_in_slab = row < a.tiles.rows && j >= 0 && j < a.grid.cells.ny && i >= 0;
    const Column<T, INITIAL_VALUE> column{a, i, j, is_in_slab && i < a.grid.cells.nx,
        is_in_slab && i + 1 < a.grid.cells.nx,
        lane > 0 && lane + 1 < a.tiles.pairs && row >= halo_rows && row < halo_rows + a.tiles.height, 1.0 / scale};
    // At the edge of the extended tile, a thread reads its own value instead of that of a neighbour. The wrong result
    // does not affect the cells inside the tile.
    const int west = lane > 0 ? t - 1 : t, east = lane + 1 < a.tiles.pairs && row < a.tiles.rows ? t + 1 : t;
    const int south = row > 0 ? t - a.tiles.pairs : t, north = row + 1 < a.tiles.rows ? t + a.tiles.pairs : t;
    // In plane k, the cell of the first colour is cell q of the pair, and that of the second colour is cell 1 - q. In
    // plane k - 1, it is the reverse. The cell below a cell has the other colour, and its conductance to the top is the
    // conductance of the upper cell to the bottom.
    int q = (a.colour + j + first_plane - 1) & 1;
    Row<T> first_equation = column.row(first_plane - 1, q,
        column.is_cell(first_plane - 2, q) ? column.c(2, 0, column.index(first_plane - 2, q)) : T(0));
    Row<T> second_equation = column.row(
        first_plane - 1, 1 - q,
            column.is_cell(first_plane - 2, 1 - q) ? column.c(2, 0, column.index(first_plane - 2, 1 - q)) : T(0));
    Row<T> previous_second_equation = {};
    // `previous_second_equation` is the equation of the second colour in plane k - 1. `initial_x` is the initial x of
    // the second colour in the planes k - 1, k and k + 1. `relaxed_x` is the new x of the first colour in the planes
    // k - 2, k - 1 and k.
    T initial_x[3] = {column.initial_value(first_plane - 2).value(), column.initial_value(first_plane - 1).value(),
        column.initial_value(first_plane).value()};
    T relaxed_x[3] = {0, 0, 0};
    double sum = 0.0;
    if (INITIAL_VALUE != ZERO) planes[0][(first_plane - 1) & 1][t] = initial_x[1];
    for (int k = first_plane - 1; k <= end_plane; ++k, q = 1 - q) {
        // The values of the next step are loaded during this step.
        Row<T> next_first_equation = {}, next_second_equation = {};
        if (k < end_plane) {
            next_first_equation = column.row(k + 1, 1 - q, second_equation.c[5]);
            next_second_equation = column.row(k + 1, q, first_equation.c[5]);
        }
        const CorrectedValue<T> next_initial = column.initial_value(k + 2);
        const bool writes_plane = k > first_plane && column.is_in_tile;
        const bool writes_first = writes_plane && column.is_in_grid(1 - q),
            writes_second = writes_plane && column.is_in_grid(q);
        const uint32_t first_index = column.index(k - 1, 1 - q), second_index = column.index(k - 1, q);
        double r[2] = {0.0, 0.0};
        if (LAST) {
            r[0] = writes_first ? a.r_f64[first_index] : 0.0;
            r[1] = writes_second ? a.r_f64[second_index] : 0.0;
        }
        __syncthreads();
        const T *plane = planes[0][k & 1];
        relaxed_x[2] = INITIAL_VALUE == ZERO
            ? first_equation.r * first_equation.inverse
            : first_equation.solve(
                  q ? initial_x[1] : plane[west], q ? plane[east] : initial_x[1], plane[south], plane[north],
                      initial_x[0], initial_x[2]);
        planes[1][k & 1][t] = relaxed_x[2];
        plane = planes[1][(k - 1) & 1];
        const T x = previous_second_equation.solve(
            q ? relaxed_x[1] : plane[west], q ? plane[east] : relaxed_x[1], plane[south], plane[north], relaxed_x[0],
                relaxed_x[2]);
        if (LAST) {
            // <r, z> includes only cells of the tile, since x may be wrong in the extension.
            const double factor = a.factor * scale;
            if (writes_first) {
                a.z[first_index] = factor * double(relaxed_x[1]);
                sum += r[0] * (factor * double(relaxed_x[1]));
            }
            if (writes_second) {
                a.z[second_index] = factor * double(x);
                sum += r[1] * (factor * double(x));
            }
        } else {
            T *out = static_cast<T *>(a.grid.x[1 - a.source_array]);
            if (writes_first) out[first_index] = relaxed_x[1];
            if (writes_second) out[second_index] = x;
        }
        if constexpr (INITIAL_VALUE == ZERO && !USES_CALLER_MATRIX<T, true>) {
            T *out = static_cast<T *>(a.grid.r);
            const bool writes_r = column.is_in_tile && k >= first_plane && k < end_plane;
            if (writes_r && column.is_in_grid(q)) out[column.index(k, q)] = first_equation.r;
            if (writes_r && column.is_in_grid(1 - q)) out[column.index(k, 1 - q)] = second_equation.r;
        }
        previous_second_equation = second_equation, first_equation = next_first_equation,
            second_equation = next_second_equation;
        relaxed_x[0] = relaxed_x[1], relaxed_x[1] = relaxed_x[2];
        initial_x[0] = initial_x[1], initial_x[1] = initial_x[2], initial_x[2] = next_initial.value();
        if (INITIAL_VALUE != ZERO) planes[0][(k + 1) & 1][t] = initial_x[1];
    }
    return sum;
}

// Computes x = D^-1 (r - (A - D) x) in the cells of one colour, then in the cells of the other colour. INITIAL_VALUE
// selects the initial x. If LAST, stores z instead of x, and computes the sum <r, z>.
template <class T, InitialValue INITIAL_VALUE, bool LAST> __device__ inline void sweep(const FinestSweepArgs &a) {
    __shared__ T planes[2][2][TILE_THREADS];
    double sum = 0.0;
    if (!is_converged(a.sum)) {
        const double scale = INITIAL_VALUE == ZERO || LAST ? scale_of<T>(a) : 1.0;
        for (int tile = blockIdx.x; tile < a.tiles.tile_count; tile += gridDim.x) {
            __syncthreads();
            sum += sweep_tile<T, INITIAL_VALUE, LAST>(a, tile, scale, planes);
        }
    }
    if (LAST) finish_sum(a.sum, sum);
}

// Number of coarse points per thread block of the restriction, in each direction.
constexpr int BRICK_X = 16, BRICK_Y = 4, BRICK_Z = 4;
static_assert(BRICK_X * BRICK_Y * BRICK_Z == THREADS, "a thread for each");

struct RestrictFinestArgs {
    VertexGrid grid;
    int source_array;       // index of the array x that is read
    int bricks_x, bricks_y; // number of bricks in x and in y; a brick has BRICK_X x BRICK_Y x BRICK_Z coarse points
    int unused;
    Sum sum;
};

// Computes P^T (r - A x), which is r of the next coarser grid, and the first smoothing step there. The residual of
// cells with odd i + j + k is zero, since they were updated last.
template <class T> __device__ inline void restrict_finest(const RestrictFinestArgs &a) {
    if (is_converged(a.sum)) return;
    __shared__ T residuals[(2 * BRICK_X + 1) * (2 * BRICK_Y + 1) * (2 * BRICK_Z + 1)];
    const VertexGrid &g = a.grid;
    const CellBox &fine = g.cells;
    const T *x = static_cast<const T *>(g.x[a.source_array]);
    const int brick = blockIdx.x;
    const int I = brick % a.bricks_x * BRICK_X, J = brick / a.bricks_x % a.bricks_y * BRICK_Y;
    const int K = brick / (a.bricks_x * a.bricks_y) * BRICK_Z;
    const int cx = g.is_coarsened[0], cy = g.is_coarsened[1], cz = g.is_coarsened[2];
    const int i0 = (I << cx) - cx, j0 = (J << cy) - cy, k0 = (K << cz) - cz;
    const int nx = (BRICK_X << cx) + cx, ny = (BRICK_Y << cy) + cy, nz = (BRICK_Z << cz) + cz, row_pairs = (nx + 1) / 2;
    for (int item = threadIdx.x; item < row_pairs * ny * nz; item += THREADS) {
        const int row = quotient(item, row_pairs), k = quotient(row, ny), j = row - k * ny;
        const int i = 2 * (item - row * row_pairs) + ((i0 + j0 + j + k0 + k) & 1);
        if (i >= nx) continue;
        const int fi = i0 + i, fj = j0 + j, fk = k0 + k;
        const bool is_inside = fi >= 0 && fi < fine.nx && fj >= 0 && fj < fine.ny && fk >= 0 && fk < fine.nz;
        const int64_t p = (int64_t(fk) * fine.ny + fj) * fine.nx + fi;
        residuals[row * nx + i] = is_inside ? residual_at<T, true>(g, x, p) : T(0);
    }
    __syncthreads();
    const int t = threadIdx.x, i = I + t % BRICK_X, j = J + t / BRICK_X % BRICK_Y, k = K + t / (BRICK_X * BRICK_Y);
    if (i >= g.coarse.nx || j >= g.coarse.ny || k >= g.coarse.nz) return;
    const int64_t c = (int64_t(k) * g.coarse.ny + j) * g.coarse.nx + i;
    const int fi = i << cx, fj = j << cy, fk = k << cz, colour = fi + fj + fk;
    const T *r = residuals + ((fk - k0) * ny + fj - j0) * nx + fi - i0;
    restrict_at<T>(
        g, c, i, j, k, [&](int dx, int dy, int dz) { return ((colour + dx + dy + dz) & 1) == 0; },
        [&](int dx, int dy, int dz) { return r[(dz * ny + dy) * nx + dx]; });
}

} // namespace dpcg

#define DPCG_SWEEP(NAME, INITIAL_VALUE, LAST)                                                                          \
    extern "C" __global__ void __launch_bounds__(dpcg::TILE_THREADS) NAME##_f32(                                       \
        const __grid_constant__ dpcg::FinestSweepArgs a) {                                                             \
        dpcg::sweep<float, dpcg::INITIAL_VALUE, LAST>(a);                                                              \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(dpcg::TILE_THREADS) NAME##_f64(                                       \
        const __grid_constant__ dpcg::FinestSweepArgs a) {                                                             \
        dpcg::sweep<double, dpcg::INITIAL_VALUE, LAST>(a);                                                             \
    }
DPCG_SWEEP(dpcg_sweep_from_zero, ZERO, false)
DPCG_SWEEP(dpcg_sweep, STORED, false)
DPCG_SWEEP(dpcg_sweep_corrected, CORRECTED, false)
DPCG_SWEEP(dpcg_last_sweep, STORED, true)
DPCG_SWEEP(dpcg_last_sweep_corrected, CORRECTED, true)
DPCG_KERNEL(dpcg_restrict_finest_f32, RestrictFinestArgs, restrict_finest<float>)
DPCG_KERNEL(dpcg_restrict_finest_f64, RestrictFinestArgs, restrict_finest<double>)

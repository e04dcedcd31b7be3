// Coarse grids of multigrid with vertex coarsening: Jacobi steps, residual, restriction, interpolation, and the product
// with the inverse of the coarsest matrix, in the number type T. finest.cuh contains the finest grid. The formulas are
// those of src/dpcg/cpu/vertex. Matrices are stored as conductances c_o(p) = -A(p, p + o) of the upper half of a
// symmetric stencil. The finest grid has 3 offsets o, the other grids have 13 (Dendy 1982).
//
// Storage: point (i, j, k) is stored at index (k ny + j) nx + i. nx ny + nx + 1 zeros precede and follow each vector,
// and separate the conductances of successive offsets. The kernels therefore need no test for the boundary of the grid.
// On the finest grid, the stencil has 7 points, and nx ny zeros suffice. The solver's vectors have nx ny zeros. The
// interpolation weights of each coarse row are stored as several rows, each of which has as many values as the coarse
// row has points: 26 rows if all directions are coarsened (see Strides). Fine points that are coarse points have no
// weights. Weights of fine points beyond the grid may have any value.
//
// All steps are executed in one cooperative launch with a barrier of all thread blocks after each step, or in one
// launch per step. Thread blocks have CYCLE_THREADS threads and execute grid-stride loops.
//
// Memory traffic per point for T of 4 bytes, in bytes: a sweep 72, residual 68, restriction 18, interpolation 22.
//
// There are no races: in an array that a step writes, a thread reads only the value at its own point. A barrier
// separates each step from the next one.
#pragma once
#include "../common/barrier.cuh"
#include "deflation.cuh"

namespace dpcg {

constexpr int CYCLE_THREADS = 1024;
// Maximum number of grids, as in src/dpcg/cuda/vertex.rs.
constexpr int MAX_GRIDS = 64;

// Index arithmetic of the weights. Let I = floor(p/2) be the coarse index of the fine point p. A weight of p has one
// digit per coarsened direction: 0 if the index of p is even; otherwise 1 if the weight belongs to the coarse point
// before p, and 2 if it belongs to the one after p. There are several rows of weights for each coarse row. The weight
// with the digits x, y, z is stored at index I of row number x + 3 y + 9 z - 1 among them. A direction that is not
// coarsened has no digit, and the factors of the following directions are 3 times smaller.
struct Strides {
    int64_t per_digit[3];   // distance in memory between weights whose digits in a direction differ by 1
    // distance in memory between the weights of neighbouring coarse points in a direction; 1 in x
    int64_t point_step[3];
    __device__ int64_t index(int i, int j, int k) const { return i + j * point_step[1] + k * point_step[2]; }
    // Returns the distance from `index` to the weight of a coarse point. `odd_bits`, which is not 0, has a bit for each
    // direction in which the index of the fine point is odd. In the directions with a bit in `t`, the coarse point is
    // the one after the fine point; in the other odd directions, it is the one before.
    __device__ int64_t weight_offset(int odd_bits, int t) const {
        int64_t sum = -per_digit[0];
#pragma unroll
        for (int d = 0; d < 3; ++d) sum += odd_bits >> d & 1 ? (t >> d & 1 ? 2 * per_digit[d] : per_digit[d]) : 0;
        return sum;
    }
};

// A grid, and the interpolation from the next coarser grid.
struct VertexGrid {
    CellBox cells, coarse;
    int is_coarsened[3];
    int coarsest_is_next; // 1: the next grid is the coarsest grid, whose vectors use f64
    const void *c;        // conductances of the first offset
    int64_t c_stride;     // distance between the conductances of successive offsets
    double per_coupling;  // if USES_CALLER_MATRIX: a conductance is this factor times an entry of A
    const void *diagonal;
    const void *inverse; // reciprocal divisor of a Jacobi step; on the finest grid, 1 / D
    const void *weights;
    Strides strides;
    void *r;
    void *x[2];
    void *coarse_r;
    void *coarse_first_iterate; // x of the next grid after its first smoothing step; null if that grid is the coarsest
    const void *coarse_inverse;
    const void *coarse_x; // solution on the next coarser grid
};

// Returns whether the convergence test after M^-1 r will end the loop: the test uses |r|, which is at most the
// threshold. M^-1 r is then not needed.
__device__ inline bool is_converged(const Sum &s) {
    return s.in_loop && !s.scalars->preconditioned && sqrt(s.scalars->norm2) <= s.scalars->threshold;
}

// Whether a grid uses the solver's arrays: the entries of A (`per_coupling` times an entry is a conductance), and the
// vectors r, q and z. True only for the finest grid of a cycle in double precision.
template <class T, bool FINEST> constexpr bool USES_CALLER_MATRIX = FINEST && sizeof(T) == sizeof(double);

// Returns the conductance for a stored entry of the matrix (see USES_CALLER_MATRIX).
template <class T, bool FINEST> __device__ inline T conductance_of(T c, double per_coupling) {
    if constexpr (USES_CALLER_MATRIX<T, FINEST>) return per_coupling * c;
    return c;
}

// Returns the distance in memory from a point to its neighbour at offset number k. Offsets are numbered in the order of
// the conductance arrays.
template <bool FINEST> __device__ inline int64_t offset_distance(const CellBox &box, int k) {
    if (FINEST) return k == 0 ? 1 : k == 1 ? box.north() : box.top();
    // The 13 offsets after the centre of the 27 points.
    const int m = k + 14, dx = m % 3 - 1, dy = m / 3 % 3 - 1, dz = m / 9 - 1;
    return dx + dy * box.north() + dz * box.top();
}

// Returns r - A x at a point.
template <class T, bool FINEST> __device__ inline T residual_at(const VertexGrid &a, const T *x, int64_t p) {
    const T *c = static_cast<const T *>(a.c) + p;
    T sum = static_cast<const T *>(a.r)[p] - ldg(static_cast<const T *>(a.diagonal)[p]) * x[p];
#pragma unroll
    for (int k = 0; k < (FINEST ? 3 : 13); ++k) {
        const int64_t distance = offset_distance<FINEST>(a.cells, k);
        sum += conductance_of<T, FINEST>(ldg(c[-distance]), a.per_coupling) * x[p - distance];
        sum += conductance_of<T, FINEST>(ldg(c[0]), a.per_coupling) * x[p + distance];
        c += a.c_stride;
    }
    return sum;
}

// Executes a Jacobi step from x, and stores the result in `out`.
template <class T> __device__ inline void relax_level(const VertexGrid &a, const T *x, T *out) {
    const T *inverse = static_cast<const T *>(a.inverse);
    for_each_cell(a.cells.count(),
        [&](int64_t p) { out[p] = x[p] + residual_at<T, false>(a, x, p) * ldg(inverse[p]); });
}

// Computes out = r - A x.
template <class T> __device__ inline void residual_of_level(const VertexGrid &a, const T *x, T *out) {
    for_each_cell(a.cells.count(), [&](int64_t p) { out[p] = residual_at<T, false>(a, x, p); });
}

// Computes the restricted residual at coarse point c = (i, j, k), and the first smoothing step there. The terms of the
// surrounding fine points are added in the order of their indices. `residual(dx, dy, dz)` returns the residual at the
// fine point with this offset from the coarse point. The sum contains this term only if `is_used(dx, dy, dz)`.
template <class T, class IsUsed, class F>
__device__ inline void restrict_at(const VertexGrid &a, int64_t c, int i, int j, int k, IsUsed is_used, F residual) {
    const Strides &s = a.strides;
    const T *weights = static_cast<const T *>(a.weights) + s.index(i, j, k) - s.per_digit[0];
    const int x = a.is_coarsened[0], y = a.is_coarsened[1], z = a.is_coarsened[2];
    const bool has_fine_point[3][3] = {{x && i > 0, true, x && 2 * i + 1 < a.cells.nx},
        {y && j > 0, true, y && 2 * j + 1 < a.cells.ny}, {z && k > 0, true, z && 2 * k + 1 < a.cells.nz}};
    // The weight of a fine point before the coarse point has digit 2 and is stored at the previous coarse point.
    int64_t weight_offsets[3][3];
#pragma unroll
    for (int d = 0; d < 3; ++d)
        weight_offsets[d][0] = 2 * s.per_digit[d] - s.point_step[d], weight_offsets[d][1] = 0,
            weight_offsets[d][2] = s.per_digit[d];
    double sum = 0.0;
#pragma unroll
    for (int m = 0; m < 27; ++m) {
        const int dx = m % 3, dy = m / 3 % 3, dz = m / 9;
        const bool contributes = has_fine_point[0][dx] && has_fine_point[1][dy] && has_fine_point[2][dz] &&
            is_used(dx - 1, dy - 1, dz - 1);
        const int64_t weight_index = weight_offsets[0][dx] + weight_offsets[1][dy] + weight_offsets[2][dz];
        // This is written without branches, so that all loads are issued together.
        sum += contributes ? double((m == 13 ? T(1) : ldg(weights[weight_index])) * residual(dx - 1, dy - 1, dz - 1))
            : 0.0;
    }
    if (a.coarsest_is_next) {
        static_cast<double *>(a.coarse_r)[c] = sum;
        return;
    }
    const T r = T(sum);
    static_cast<T *>(a.coarse_r)[c] = r;
    static_cast<T *>(a.coarse_first_iterate)[c] = r * ldg(static_cast<const T *>(a.coarse_inverse)[c]);
}

// Restricts the residual to the next coarser grid, and computes the first smoothing step there.
template <class T> __device__ inline void restrict_level(const VertexGrid &a, const T *residual) {
    const int64_t north = a.cells.north(), top = a.cells.top();
    for_each_cell_index(a.coarse, [&](int64_t c, int i, int j, int k) {
        const T *r = residual + (k << a.is_coarsened[2]) * top + (j << a.is_coarsened[1]) * north +
            (i << a.is_coarsened[0]);
        restrict_at<T>(a, c, i, j, k, [](int, int, int) { return true; },
            [&](int dx, int dy, int dz) { return r[dx + dy * north + dz * top]; });
    });
}

// Returns the coarse solution at an index. For coarse points beyond the grid, the weight is zero, and the value is
// finite: a zero after the last point, or a value of the next row.
template <class T, bool COARSEST_IS_NEXT> __device__ inline T coarse_solution(const VertexGrid &a, int64_t c) {
    if (COARSEST_IS_NEXT) return T(static_cast<const double *>(a.coarse_x)[c]);
    return static_cast<const T *>(a.coarse_x)[c];
}

// Computes x = x + P times the coarse solution.
template <class T, bool COARSEST_IS_NEXT> __device__ inline void interpolate(const VertexGrid &a, T *x) {
    for_each_cell_index(a.cells, [&](int64_t p, int i, int j, int k) {
        const int odd_bits = (i & a.is_coarsened[0]) | (j & a.is_coarsened[1]) << 1 | (k & a.is_coarsened[2]) << 2;
        const int ci = i >> a.is_coarsened[0], cj = j >> a.is_coarsened[1], ck = k >> a.is_coarsened[2];
        const int64_t c = ck * a.coarse.top() + cj * a.coarse.north() + ci;
        const T *weights = static_cast<const T *>(a.weights) + a.strides.index(ci, cj, ck) +
            a.strides.weight_offset(odd_bits, 0);
        T weight[8], coarse[8];
#pragma unroll
        for (int t = 0; t < 8; ++t) {
            const bool is_interpolated = (t & ~odd_bits) == 0;
            int64_t weight_distance = 0, coarse_distance = 0;
#pragma unroll
            for (int d = 0; d < 3; ++d) {
                weight_distance += t >> d & 1 ? a.strides.per_digit[d] : 0;
                coarse_distance += t >> d & 1 ? (d == 0 ? 1 : d == 1 ? a.coarse.north() : a.coarse.top()) : 0;
            }
            weight[t] = is_interpolated && odd_bits != 0 ? ldg(weights[weight_distance]) : T(1);
            coarse[t] = is_interpolated ? coarse_solution<T, COARSEST_IS_NEXT>(a, c + coarse_distance) : T(0);
        }
        T sum = x[p];
#pragma unroll
        for (int t = 0; t < 8; ++t) sum = (t & ~odd_bits) == 0 ? sum + weight[t] * coarse[t] : sum;
        x[p] = sum;
    });
}

struct VertexCycleArgs {
    const VertexGrid *levels; // all grids except the finest and the coarsest one, in descending order of size
    int count;
    int sweeps;
    int step; // number of the step to execute; -1: all steps
    int unused;
    DenseArgs coarsest;
    BarrierCounts *barrier;
    Sum sum;
};

// Executes the V-cycle on the coarse grids. r and the first smoothing step of the first coarse grid have already been
// computed.
template <class T> __device__ inline void cycle(const VertexCycleArgs &a) {
    if (is_converged(a.sum)) return;
    __shared__ VertexGrid levels[MAX_GRIDS];
    for (int k = threadIdx.x; k < a.count; k += blockDim.x) levels[k] = a.levels[k];
    __syncthreads();
    unsigned phase = 0;
    int step_index = 0;
    auto run_step = [&](auto step) {
        if (a.step < 0 && step_index > 0) grid_barrier(a.barrier, phase, gridDim.x);
        if (a.step < 0 || a.step == step_index) step();
        ++step_index;
    };
    // index in VertexGrid::x of the array with x before the coarse-grid correction
    const int first_half_array = (a.sweeps - 1) & 1;
    for (int l = 0; l < a.count; ++l) {
        const VertexGrid &k = levels[l];
        auto x = [&](int array_index) { return static_cast<T *>(k.x[array_index & 1]); };
        for (int sweep = 1; sweep < a.sweeps; ++sweep) run_step([&] { relax_level<T>(k, x(sweep - 1), x(sweep)); });
        run_step([&] { residual_of_level<T>(k, x(first_half_array), x(first_half_array + 1)); });
        run_step([&] { restrict_level<T>(k, x(first_half_array + 1)); });
    }
    run_step([&] { dense_product<double>(a.coarsest); });
    for (int l = a.count - 1; l >= 0; --l) {
        const VertexGrid &k = levels[l];
        auto x = [&](int array_index) { return static_cast<T *>(k.x[array_index & 1]); };
        run_step([&] {
            k.coarsest_is_next ? interpolate<T, true>(k, x(first_half_array))
                               : interpolate<T, false>(k, x(first_half_array));
        });
        for (int sweep = 0; sweep < a.sweeps; ++sweep)
            run_step([&] { relax_level<T>(k, x(first_half_array + sweep), x(first_half_array + sweep + 1)); });
    }
    if (a.step < 0) leave_barrier(a.barrier, phase, 0, gridDim.x);
}

} // namespace dpcg

#define DPCG_CYCLE(NAME, T)                                                                                            \
    extern "C" __global__ void __launch_bounds__(dpcg::CYCLE_THREADS) NAME(                                            \
        const __grid_constant__ dpcg::VertexCycleArgs a) {                                                             \
        dpcg::cycle<T>(a);                                                                                             \
    }
DPCG_CYCLE(dpcg_vertex_cycle_step_f32, float)
DPCG_CYCLE(dpcg_vertex_cycle_step_f64, double)

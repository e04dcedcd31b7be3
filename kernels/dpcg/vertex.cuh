// The grids of multigrid with vertex coarsening below the finest one (finest.cuh), in the numbers T of the cycle:
// Jacobi, residual, restriction, interpolation, the product with the inverse of the coarsest grid
// (src/backend/reference/dpcg/vertex has the same formulas). Matrices are conductances c_o(p) = -A(p, p + o) of the
// upper half of a symmetric stencil: 3 offsets o on the finest grid, 13 on the others (Dendy 1982).
//
// Storage: point (i, j, k) at (k ny + j) nx + i. Before and after each vector are nx ny + nx + 1 zeros, and as many
// between the conductances of one offset and of the next: no kernel asks for an edge. On the finest grid, whose offsets
// are those of 7 points, nx ny zeros do: the solver's arrays have no more. Weights of the interpolation lie
// in rows of as many values as a coarse row has points, 26 rows for each where all directions are coarsened: Strides.
// Coarse points have none, and places of points beyond the grid hold anything.
//
// Launch shape: all steps in one cooperative launch with a grid-wide barrier after each, or a launch for each step.
// Blocks of CYCLE_THREADS threads walk with the stride of the launch.
//
// Bytes a point, T of 4: a sweep 72, residual 68, restriction 18, interpolation 22.
//
// Races: a step writes arrays that it reads at the thread's own point alone; the barrier is before the next step.
#pragma once
#include "../common/barrier.cuh"
#include "labelled.cuh"

namespace dpcg {

constexpr int CYCLE_THREADS = 1024;
// As in src/backend/cuda/dpcg/vertex.rs.
constexpr int MOST_GRIDS = 64;

// Where weights lie. Point p of coarse place I = floor(p/2) has a digit in each coarsened direction: 0 where its index
// is even, else 1 for the coarse point before it and 2 for that after it. The weight of digits x, y, z lies at I in row
// x + 3 y + 9 z - 1 of those of the coarse row; directions that are not coarsened have no digit, and those after them a
// factor 3 less.
struct Strides {
    int64_t of[3];   // from a digit of a direction to the next one
    int64_t next[3]; // from a coarse place to the next one: 1, then over all rows of a row, and of a plane
    __device__ int64_t place(int i, int j, int k) const { return i + j * next[1] + k * next[2]; }
    // From there to the weight of the coarse point that bits of t set after a point, whose odd indices are those of
    // `odd`, not none.
    __device__ int64_t at(int odd, int t) const {
        int64_t sum = -of[0];
#pragma unroll
        for (int d = 0; d < 3; ++d) sum += odd >> d & 1 ? (t >> d & 1 ? 2 * of[d] : of[d]) : 0;
        return sum;
    }
};

// A grid that is smoothed, and the way to the next one.
struct Level {
    Box box, coarse;
    int coarsened[3];
    int wide;           // the next grid is the coarsest one, whose vectors are in f64
    const void *c;      // of the first offset
    int64_t c_stride;   // from there to those of the next one
    double per_coupling; // OF_SOLVER: a conductance for each unit of a coupling
    const void *diagonal;
    const void *inverse; // 1 / divisor of Jacobi
    const void *weights;
    Strides strides;
    void *r;
    void *x[2];
    void *coarse_r;
    void *coarse_start; // x after the first sweep from zero; null: the coarsest grid has none
    const void *coarse_inverse;
    const void *coarse_x; // the solution there
};

// Whether the convergence check will end the loop, which comes after M^-1 r: then nobody needs that.
__device__ inline bool is_met(const Sum &s) {
    return s.in_loop && !s.scalars->preconditioned && sqrt(s.scalars->norm2) <= s.scalars->threshold;
}

// In double precision the finest grid reads the caller's matrix, whose couplings times `per_coupling` are conductances,
// and works in r, q and z of the solver.
template <class T, bool FINEST> constexpr bool OF_SOLVER = FINEST && sizeof(T) == sizeof(double);

template <class T, bool FINEST> __device__ inline T conductance_of(T c, double per_coupling) {
    if constexpr (OF_SOLVER<T, FINEST>) return per_coupling * c;
    return c;
}

// The steps through memory of the offsets, in the order of their arrays.
template <bool FINEST> __device__ inline int64_t step_of(const Box &box, int k) {
    if (FINEST) return k == 0 ? 1 : k == 1 ? box.north() : box.top();
    // Of the 27 points around one, the 13 after it.
    const int m = k + 14, dx = m % 3 - 1, dy = m / 3 % 3 - 1, dz = m / 9 - 1;
    return dx + dy * box.north() + dz * box.top();
}

// r - A x in a point.
template <class T, bool FINEST> __device__ inline T residual_at(const Level &a, const T *x, int64_t p) {
    const T *c = static_cast<const T *>(a.c) + p;
    T sum = static_cast<const T *>(a.r)[p] - fixed(static_cast<const T *>(a.diagonal)[p]) * x[p];
#pragma unroll
    for (int k = 0; k < (FINEST ? 3 : 13); ++k) {
        const int64_t step = step_of<FINEST>(a.box, k);
        sum += conductance_of<T, FINEST>(fixed(c[-step]), a.per_coupling) * x[p - step];
        sum += conductance_of<T, FINEST>(fixed(c[0]), a.per_coupling) * x[p + step];
        c += a.c_stride;
    }
    return sum;
}

// A sweep of Jacobi.
template <class T> __device__ inline void relax(const Level &a, const T *x, T *out) {
    const T *inverse = static_cast<const T *>(a.inverse);
    over_cells(a.box.count(),
        [&](int64_t p) { out[p] = x[p] + residual_at<T, false>(a, x, p) * fixed(inverse[p]); });
}

// out = r - A x.
template <class T> __device__ inline void residual_of_level(const Level &a, const T *x, T *out) {
    over_cells(a.box.count(), [&](int64_t p) { out[p] = residual_at<T, false>(a, x, p); });
}

// P^T of residuals in coarse point c = (i, j, k), and the first sweep there: the points around it, in the order of
// their places. residual(dx, dy, dz) tells that of one that has(dx, dy, dz) one, so far from the coarse point.
template <class T, class Has, class F>
__device__ inline void restrict_at(const Level &a, int64_t c, int i, int j, int k, Has has, F residual) {
    const Strides &s = a.strides;
    const T *weights = static_cast<const T *>(a.weights) + s.place(i, j, k) - s.of[0];
    const int x = a.coarsened[0], y = a.coarsened[1], z = a.coarsened[2];
    const bool in[3][3] = {{x && i > 0, true, x && 2 * i + 1 < a.box.nx}, {y && j > 0, true, y && 2 * j + 1 < a.box.ny},
        {z && k > 0, true, z && 2 * k + 1 < a.box.nz}};
    // A point before the coarse one has it after itself, and the place of the one before.
    int64_t to[3][3];
#pragma unroll
    for (int d = 0; d < 3; ++d) to[d][0] = 2 * s.of[d] - s.next[d], to[d][1] = 0, to[d][2] = s.of[d];
    double sum = 0.0;
#pragma unroll
    for (int m = 0; m < 27; ++m) {
        const int dx = m % 3, dy = m / 3 % 3, dz = m / 9;
        const bool there = in[0][dx] && in[1][dy] && in[2][dz] && has(dx - 1, dy - 1, dz - 1);
        const int64_t at = to[0][dx] + to[1][dy] + to[2][dz];
        // Without branches, so that all loads are on their way at once.
        sum += there ? double((m == 13 ? T(1) : fixed(weights[at])) * residual(dx - 1, dy - 1, dz - 1)) : 0.0;
    }
    if (a.wide) {
        static_cast<double *>(a.coarse_r)[c] = sum;
        return;
    }
    const T r = T(sum);
    static_cast<T *>(a.coarse_r)[c] = r;
    static_cast<T *>(a.coarse_start)[c] = r * fixed(static_cast<const T *>(a.coarse_inverse)[c]);
}

template <class T> __device__ inline void restrict_level(const Level &a, const T *residual) {
    const int64_t north = a.box.north(), top = a.box.top();
    over_places(a.coarse, [&](int64_t c, int i, int j, int k) {
        const T *r = residual + (k << a.coarsened[2]) * top + (j << a.coarsened[1]) * north + (i << a.coarsened[0]);
        restrict_at<T>(a, c, i, j, k, [](int, int, int) { return true; },
            [&](int dx, int dy, int dz) { return r[dx + dy * north + dz * top]; });
    });
}

// The coarse solution at a place. Weights of coarse points beyond the grid are zero, and so are values behind the last
// one; the next row's are finite.
template <class T, bool WIDE> __device__ inline T coarse_solution(const Level &a, int64_t c) {
    if (WIDE) return T(static_cast<const double *>(a.coarse_x)[c]);
    return static_cast<const T *>(a.coarse_x)[c];
}

// x += P of the coarse solution.
template <class T, bool WIDE> __device__ inline void interpolate(const Level &a, T *x) {
    over_places(a.box, [&](int64_t p, int i, int j, int k) {
        const int odd = (i & a.coarsened[0]) | (j & a.coarsened[1]) << 1 | (k & a.coarsened[2]) << 2;
        const int ci = i >> a.coarsened[0], cj = j >> a.coarsened[1], ck = k >> a.coarsened[2];
        const int64_t c = ck * a.coarse.top() + cj * a.coarse.north() + ci;
        const T *weights = static_cast<const T *>(a.weights) + a.strides.place(ci, cj, ck) + a.strides.at(odd, 0);
        T weight[8], coarse[8];
#pragma unroll
        for (int t = 0; t < 8; ++t) {
            const bool is = (t & ~odd) == 0;
            int64_t to = 0, beside = 0;
#pragma unroll
            for (int d = 0; d < 3; ++d) {
                to += t >> d & 1 ? a.strides.of[d] : 0;
                beside += t >> d & 1 ? (d == 0 ? 1 : d == 1 ? a.coarse.north() : a.coarse.top()) : 0;
            }
            weight[t] = is && odd != 0 ? fixed(weights[to]) : T(1);
            coarse[t] = is ? coarse_solution<T, WIDE>(a, c + beside) : T(0);
        }
        T sum = x[p];
#pragma unroll
        for (int t = 0; t < 8; ++t) sum = (t & ~odd) == 0 ? sum + weight[t] * coarse[t] : sum;
        x[p] = sum;
    });
}

struct CycleArgs {
    const Level *levels; // below the finest grid
    int count;
    int sweeps;
    int step; // which one alone; -1: all
    int unused;
    DenseArgs coarsest;
    BarrierCounts *barrier;
    Sum sum;
};

// The V-cycle below the finest grid: r and the first sweep of its first grid are there.
template <class T> __device__ inline void cycle(const CycleArgs &a) {
    if (is_met(a.sum)) return;
    __shared__ Level levels[MOST_GRIDS];
    for (int k = threadIdx.x; k < a.count; k += blockDim.x) levels[k] = a.levels[k];
    __syncthreads();
    unsigned phase = 0;
    int at = 0;
    auto take = [&](auto step) {
        if (a.step < 0 && at > 0) grid_barrier(a.barrier, phase, gridDim.x);
        if (a.step < 0 || a.step == at) step();
        ++at;
    };
    const int down = (a.sweeps - 1) & 1; // where x is before the coarse grid
    for (int l = 0; l < a.count; ++l) {
        const Level &k = levels[l];
        auto x = [&](int which) { return static_cast<T *>(k.x[which & 1]); };
        for (int sweep = 1; sweep < a.sweeps; ++sweep) take([&] { relax<T>(k, x(sweep - 1), x(sweep)); });
        take([&] { residual_of_level<T>(k, x(down), x(down + 1)); });
        take([&] { restrict_level<T>(k, x(down + 1)); });
    }
    take([&] { dense_product<double>(a.coarsest); });
    for (int l = a.count - 1; l >= 0; --l) {
        const Level &k = levels[l];
        auto x = [&](int which) { return static_cast<T *>(k.x[which & 1]); };
        take([&] { k.wide ? interpolate<T, true>(k, x(down)) : interpolate<T, false>(k, x(down)); });
        for (int sweep = 0; sweep < a.sweeps; ++sweep) take([&] { relax<T>(k, x(down + sweep), x(down + sweep + 1)); });
    }
    if (a.step < 0) leave(a.barrier, phase, 0, gridDim.x);
}

} // namespace dpcg

#define DPCG_CYCLE(NAME, T)                                                                                            \
    extern "C" __global__ void __launch_bounds__(dpcg::CYCLE_THREADS) NAME(                                            \
        const __grid_constant__ dpcg::CycleArgs a) {                                                                   \
        dpcg::cycle<T>(a);                                                                                             \
    }
DPCG_CYCLE(dpcg_cycle_f32, float)
DPCG_CYCLE(dpcg_cycle_f64, double)

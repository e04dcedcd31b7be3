// The cycle, z = B r, about A^-1 r: one step of damped Jacobi before the coarser level and one after it; the coarse
// system by two Chebyshev steps with fixed bounds (AMLI), or by the cycle alone where a level has more than half the
// couplings of the one before, and exactly on the coarsest. No scalar is formed: B is a matrix, symmetric and positive
// definite. Small levels are one block's work.
#pragma once
#include "couplings.cuh"

namespace aggregation {

// Threads of the block that has the small levels.
constexpr int SMALL_THREADS = 1024;
// Levels at most.
constexpr int MOST_LEVELS = 20;

// Bounds of the eigenvalues of B A on every level: src/backend/cpu/aggregation/cycle.rs says why these.
constexpr double LOW = 0.3, HIGH = 1.225;
constexpr double T = 0.5 * (LOW + HIGH), H = 0.5 * (HIGH - LOW);
constexpr double P = 1.0 / (2.0 * T / H - H / T);

// A coupling as the cycle reads it.
template <class V> struct alignas(2 * sizeof(V)) Entry {
    uint32_t col;
    V a;
};

// A level but the coarsest, which has r and z alone.
template <class V> struct Level {
    const uint32_t *first; // one more than there are rows
    const Entry<V> *entries;
    const V *excess, *step; // step: omega / d
    const uint32_t *aggregate; // of each row; NONE: the smoother alone does it. Null: nothing is below
    const uint32_t *nodes;     // of each row, the `width` rows of the finer level that it stands for, then NONE
    V *r, *start;              // start: step * r
    V *c, *z;
    uint32_t rows;
    uint16_t width;
    uint16_t twice; // the system is solved by two cycles
};

// Calls f(k) with this thread's places of 0 .. count - 1: of all blocks, or of the one that is at work.
struct AllBlocks {
    template <class F> __device__ static void over(uint32_t count, F f) { aggregation::over(count, f); }
    __device__ static uint32_t first() { return blockIdx.x * blockDim.x + threadIdx.x; }
    __device__ static uint32_t step() { return gridDim.x * blockDim.x; }
};
struct OneBlock {
    template <class F> __device__ static void over(uint32_t count, F f) {
        for (uint32_t k = threadIdx.x; k < count; k += blockDim.x) f(k);
    }
    __device__ static uint32_t first() { return threadIdx.x; }
    __device__ static uint32_t step() { return blockDim.x; }
};

// (A x)_i as e_i x_i + sum of a_ij (x_i - x_j): a small excess beside large couplings keeps its digits.
template <class V, class X> __device__ inline V product(const Level<V> &k, uint32_t i, V own, X x) {
    V sum = k.excess[i] * own;
    const uint32_t end = k.first[i + 1];
    for (uint32_t e = k.first[i]; e < end; ++e) {
        const Entry<V> v = k.entries[e];
        sum += v.a * (own - x(v.col));
    }
    return sum;
}

// Down: z = a step from zero, and what is left of r summed to the aggregates, a lane a node; the first step there.
template <class On, class V> __device__ inline void descend(const Level<V> &k, const Level<V> &coarse) {
    const uint32_t lanes = coarse.width, lane = threadIdx.x % lanes;
    const uint64_t count = uint64_t(coarse.rows) * lanes;
    // All threads of a warp come along.
    for (uint64_t item = On::first(); item - threadIdx.x % 32 < count; item += On::step()) {
        const uint32_t i = item < count ? coarse.nodes[item] : NONE;
        V left = V(0);
        if (i != NONE) left = k.r[i] - product(k, i, k.start[i], [&](uint32_t j) { return k.start[j]; });
        for (uint32_t by = 1; by < lanes; by *= 2) left += __shfl_xor_sync(0xffffffffu, left, by);
        if (item < count && lane == 0) {
            const uint32_t to = uint32_t(item / lanes);
            coarse.r[to] = left;
            if (coarse.step) coarse.start[to] = coarse.step[to] * left;
        }
    }
}

// Up: that z with the coarse correction, and another step. out = first * c + second * z.
template <class On, class V>
__device__ inline void ascend(const Level<V> &k, const V *coarse_z, V *out, V first, V second) {
    const auto corrected = [&](uint32_t j) {
        const uint32_t of = coarse_z && k.aggregate ? k.aggregate[j] : NONE;
        return k.start[j] + (of == NONE ? V(0) : coarse_z[of]);
    };
    On::over(k.rows, [&](uint32_t i) {
        const V own = corrected(i);
        const V z = own + k.step[i] * (k.r[i] - product(k, i, own, corrected));
        out[i] = first == V(0) ? z : first * k.c[i] + second * z;
    });
}

// r = r - factor A c, and the first step from there.
template <class On, class V> __device__ inline void subtract(const Level<V> &k, V factor) {
    On::over(k.rows, [&](uint32_t i) {
        const V r = k.r[i] - factor * product(k, i, k.c[i], [&](uint32_t j) { return k.c[j]; });
        k.r[i] = r;
        k.start[i] = k.step[i] * r;
    });
}

template <class V> struct DescendArgs {
    Level<V> fine, coarse;
};
template <class V> struct AscendArgs {
    Level<V> fine;
    const V *coarse_z;
    V *out;
    double first, second;
};
template <class V> struct SubtractArgs {
    Level<V> k;
    double factor;
};

// Levels from one on: those before it have been descended.
template <class V> struct SmallArgs {
    Level<V> levels[MOST_LEVELS];
    const V *inverse; // of the coarsest; null: its smoother is all
    int count, unused;
};

// z = inverse r on the coarsest level, a warp a row.
template <class V> __device__ inline void solve_coarsest(const Level<V> &k, const V *inverse) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t i = threadIdx.x / 32; i < k.rows; i += blockDim.x / 32) {
        V sum = V(0);
        for (uint32_t j = lane; j < k.rows; j += 32) sum += inverse[i * k.rows + j] * k.r[j];
        sum = warp_sum(sum);
        if (lane == 0) k.z[i] = sum;
    }
}

// The system of the first of these levels and all below it, by one block: where a level stands says what comes next.
template <class V> __device__ inline void solve_small(const SmallArgs<V> &a) {
    enum Stands { NEW, FIRST, SECOND };
    uint64_t stands = 0; // two bits a level
    const auto at = [&](int k) { return Stands(stands >> 2 * k & 3); };
    const auto set = [&](int k, Stands s) { stands = (stands & ~(uint64_t(3) << 2 * k)) | uint64_t(s) << 2 * k; };
    int k = 0;
    while (k >= 0) {
        const Level<V> &own = a.levels[k];
        if (k + 1 == a.count) {
            __syncthreads();
            if (a.inverse) solve_coarsest(own, a.inverse);
            else ascend<OneBlock>(own, static_cast<const V *>(nullptr), own.z, V(0), V(1));
            --k;
            continue;
        }
        const Level<V> &coarse = a.levels[k + 1];
        __syncthreads();
        if (at(k) == NEW) {
            descend<OneBlock>(own, coarse);
            set(k, FIRST);
            set(k + 1, NEW);
            ++k;
        } else if (at(k) == FIRST && own.twice) {
            ascend<OneBlock>(own, coarse.z, own.c, V(0), V(1));
            __syncthreads();
            subtract<OneBlock>(own, V(1.0 / T));
            __syncthreads();
            descend<OneBlock>(own, coarse);
            set(k, SECOND);
            set(k + 1, NEW);
            ++k;
        } else {
            const bool second = at(k) == SECOND;
            ascend<OneBlock>(own, coarse.z, own.z, second ? V((1.0 + P * H / T) / T) : V(0), V(2.0 * P / H));
            --k;
        }
    }
}

// The matrix of a level as the cycle reads it, from that which levels are made of.
template <class V> struct TakeArgs {
    Couplings c;
    uint32_t *first; // lengths, then sums of those before
    Entry<V> *entries;
    V *excess, *step;
    uint64_t *bound; // bits of the largest 1 + sum over j of |a_ij| / d_i of a row: of eigenvalues of D^-1 A
};

template <class V> __device__ inline void take_lengths(const TakeArgs<V> &t) {
    uint64_t most = 0;
    over(t.c.rows, [&](uint32_t i) {
        t.first[i] = t.c.length[i];
        double sum = 0.0;
        for (uint32_t e = t.c.first[i]; e < t.c.first[i] + t.c.length[i]; ++e) sum += fabs(t.c.a[e]);
        const double bound = 1.0 + sum / t.c.diagonal[i];
        if (is_finite(bound)) most = max(most, magnitude(bound));
    });
    note_largest(t.bound, most);
}

template <class V> __device__ inline void take_rows(const TakeArgs<V> &t) {
    // Gershgorin: eigenvalues are at most 2 where couplings and excess are positive.
    const double omega = 4.0 / 3.0 / max(2.0, __longlong_as_double((long long)*t.bound));
    over(t.c.rows, [&](uint32_t i) {
        const uint32_t to = t.first[i], from = t.c.first[i];
        for (uint32_t e = 0; e < t.c.length[i]; ++e) t.entries[to + e] = {t.c.col[from + e], V(t.c.a[from + e])};
        t.excess[i] = V(t.c.excess[i]);
        const V step = V(omega / t.c.diagonal[i]);
        t.step[i] = is_finite(double(step)) ? step : V(0);
    });
}

} // namespace aggregation

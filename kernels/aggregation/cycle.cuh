// The cycle, z = B r, about A^-1 r: one step of damped Jacobi before the coarser level and one after it; the coarse
// system by two Chebyshev steps with fixed bounds (AMLI), or by the cycle alone where a level has more than half the
// couplings of the one before, and by its inverse on the coarsest. No scalar is formed: B is a matrix, symmetric and
// positive definite.
#pragma once
#include "couplings.cuh"

namespace aggregation {

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

// (A x)_i as e_i x_i + sum of a_ij (x_i - x_j): a small excess beside large couplings keeps its digits. By the lanes of
// the row.
template <class V, class X> __device__ inline V product(const Level<V> &k, uint32_t i, uint32_t lane, V own, X x) {
    V sum = lane == 0 ? k.excess[i] * own : V(0);
    const uint32_t end = k.first[i + 1];
    for (uint32_t e = k.first[i] + lane; e < end; e += LANES) {
        const Entry<V> v = k.entries[e];
        sum += v.a * (own - x(v.col));
    }
    return lane_sum(sum);
}

// Down: z = a step from zero, and what is left of r summed to the aggregates; the first step there. A warp an
// aggregate, LANES of which have a node.
template <class V> struct DescendArgs {
    Level<V> fine, coarse;
};
template <class V> __device__ inline void descend(const DescendArgs<V> &a) {
    const Level<V> &k = a.fine, &coarse = a.coarse;
    const uint32_t thread = threadIdx.x % 32, lane = thread % LANES, warps = gridDim.x * (blockDim.x / 32);
    for (uint64_t to = (blockIdx.x * blockDim.x + threadIdx.x) / 32; to < coarse.rows; to += warps) {
        V left = V(0);
        for (uint32_t w = thread / LANES; w - thread / LANES < coarse.width; w += 32 / LANES) {
            const uint32_t i = w < coarse.width ? coarse.nodes[to * coarse.width + w] : NONE;
            const uint32_t of = i == NONE ? 0 : i;
            const V spent = product(k, of, lane, k.start[of], [&](uint32_t j) { return k.start[j]; });
            if (i != NONE && lane == 0) left += k.r[i] - spent;
        }
        left = warp_sum(left);
        if (thread == 0) {
            coarse.r[to] = left;
            coarse.start[to] = coarse.step[to] * left;
        }
    }
}

// Up: that z with the coarse correction, and another step. out = first * c + second * z.
template <class V> struct AscendArgs {
    Level<V> k;
    const V *coarse_z; // null: nothing is below
    V *out;
    double first, second;
};
template <class V> __device__ inline void ascend(const AscendArgs<V> &a) {
    const Level<V> &k = a.k;
    const V first = V(a.first), second = V(a.second);
    const auto corrected = [&](uint32_t j) {
        const uint32_t of = a.coarse_z ? k.aggregate[j] : NONE;
        return k.start[j] + (of == NONE ? V(0) : a.coarse_z[of]);
    };
    over_rows(k.rows, [&](uint32_t i, uint32_t lane, bool is) {
        const V own = corrected(i);
        const V z = own + k.step[i] * (k.r[i] - product(k, i, lane, own, corrected));
        if (is && lane == 0) a.out[i] = first == V(0) ? z : first * k.c[i] + second * z;
    });
}

// r = r - factor A c, and the first step from there.
template <class V> struct SubtractArgs {
    Level<V> k;
    double factor;
};
template <class V> __device__ inline void subtract(const SubtractArgs<V> &a) {
    const Level<V> &k = a.k;
    const V factor = V(a.factor);
    over_rows(k.rows, [&](uint32_t i, uint32_t lane, bool is) {
        const V spent = product(k, i, lane, k.c[i], [&](uint32_t j) { return k.c[j]; });
        if (!is || lane != 0) return;
        const V r = k.r[i] - factor * spent;
        k.r[i] = r;
        k.start[i] = k.step[i] * r;
    });
}

// z = A^-1 r on the coarsest level, a warp a row.
template <class V> struct CoarsestArgs {
    Level<V> k;
    const V *inverse;
};
template <class V> __device__ inline void solve_coarsest(const CoarsestArgs<V> &a) {
    const uint32_t n = a.k.rows, lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    for (uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < n; i += warps) {
        const V *row = a.inverse + uint64_t(i) * n;
        V sum = V(0);
        for (uint32_t j = lane; j < n; j += 32) sum += row[j] * a.k.r[j];
        sum = warp_sum(sum);
        if (lane == 0) a.k.z[i] = sum;
    }
}

// An inverse in the precision of the cycle.
template <class V> struct NarrowArgs {
    const double *from;
    V *to;
    uint32_t count, unused;
};
template <class V> __device__ inline void narrow(const NarrowArgs<V> &a) {
    over(a.count, [&](uint32_t k) { a.to[k] = V(a.from[k]); });
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
    over_rows(t.c.rows, [&](uint32_t i, uint32_t lane, bool is) {
        double sum = 0.0;
        for (uint32_t e = t.c.first[i] + lane; e < t.c.first[i] + t.c.length[i]; e += LANES) sum += fabs(t.c.a[e]);
        const double bound = 1.0 + lane_sum(sum) / t.c.diagonal[i];
        if (is_finite(bound)) most = max(most, magnitude(bound));
        if (is && lane == 0) t.first[i] = t.c.length[i];
    });
    note_largest(t.bound, most);
}

template <class V> __device__ inline void take_rows(const TakeArgs<V> &t) {
    // Gershgorin: eigenvalues are at most 2 where couplings and excess are positive.
    const double omega = 4.0 / 3.0 / max(2.0, __longlong_as_double((long long)*t.bound));
    over_rows(t.c.rows, [&](uint32_t i, uint32_t lane, bool is) {
        const uint32_t to = t.first[i], from = t.c.first[i];
        for (uint32_t e = lane; is && e < t.c.length[i]; e += LANES)
            t.entries[to + e] = {t.c.col[from + e], V(t.c.a[from + e])};
        if (!is || lane != 0) return;
        t.excess[i] = V(t.c.excess[i]);
        const V step = V(omega / t.c.diagonal[i]);
        t.step[i] = is_finite(double(step)) ? step : V(0);
    });
}

} // namespace aggregation

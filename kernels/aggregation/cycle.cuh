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

// Rows of a slice, where a thread has one: their w-th couplings lie side by side, and rows shorter than the longest one
// of their slice end with couplings of nothing to themselves. Where LANES threads share a row it is a slice.
constexpr uint32_t SLICE = 32;

// A level but the coarsest, which has r and z alone.
template <class V> struct Level {
    const uint32_t *first; // of each slice, where its entries begin; behind the last slice where they end
    const Entry<V> *entries;
    const V *excess, *step; // step: omega / d
    const uint32_t *aggregate; // of each row; NONE: the smoother alone does it. Null: nothing is below
    const uint32_t *nodes;     // of each row, the `width` rows of the finer level that it stands for, then NONE
    V *r, *start;              // start: step * r
    V *c, *z;
    uint32_t rows;
    uint16_t width;
    uint16_t twice; // the system is solved by two cycles
    uint32_t lanes; // threads of a row: one, or LANES where there are few rows
    uint32_t unused;
};

// (A x)_i as e_i x_i + sum of a_ij (x_i - x_j): a small excess beside large couplings keeps its digits. By the lanes of
// the row.
template <int ROW, class V, class X>
__device__ inline V product(const Level<V> &k, uint32_t i, uint32_t lane, V own, X x) {
    V sum = lane == 0 ? k.excess[i] * own : V(0);
    constexpr uint32_t ROWS = ROW == 1 ? SLICE : 1;
    const uint32_t slice = i / ROWS, start = k.first[slice], length = (k.first[slice + 1] - start) / ROWS;
    const Entry<V> *row = k.entries + start + i % ROWS;
#pragma unroll 4
    for (uint32_t w = lane; w < length; w += ROW) {
        const Entry<V> v = row[ROWS * w];
        sum += v.a * (own - x(v.col));
    }
    return lane_sum<ROW>(sum);
}

// Down: z = a step from zero, and what is left of r summed to the aggregates; the first step there. Its rows share a
// warp with those of other aggregates, or have one for themselves.
template <class V> struct DescendArgs {
    Level<V> fine, coarse;
};
template <int ROW, class V> __device__ inline void descend(const DescendArgs<V> &a) {
    const Level<V> &k = a.fine, &coarse = a.coarse;
    // Rows of a warp at once, and the threads of an aggregate.
    const uint32_t thread = threadIdx.x % 32, lane = thread % ROW, width = coarse.width;
    const uint32_t together = ROW == 1 ? width : 32, of_warp = 32 / together, slot = thread % together / ROW;
    const uint32_t warps = gridDim.x * (blockDim.x / 32);
    uint64_t first = uint64_t((blockIdx.x * blockDim.x + threadIdx.x) / 32) * of_warp;
    for (; first < coarse.rows; first += uint64_t(warps) * of_warp) {
        const uint64_t to = first + thread / together;
        const bool is = to < coarse.rows;
        V left = V(0);
        for (uint32_t w = slot; w - slot < width; w += 32 / ROW) {
            const uint32_t i = is && w < width ? coarse.nodes[to * width + w] : NONE;
            const uint32_t of = i == NONE ? 0 : i;
            const V spent = product<ROW>(k, of, lane, k.start[of], [&](uint32_t j) { return k.start[j]; });
            if (i != NONE && lane == 0) left += k.r[i] - spent;
        }
        for (uint32_t by = together / 2; by > 0; by /= 2) left += __shfl_xor_sync(0xffffffffu, left, by);
        if (is && thread % together == 0) {
            coarse.r[to] = left;
            coarse.start[to] = coarse.step[to] * left;
        }
    }
}
template <class V> __device__ inline void descend(const DescendArgs<V> &a) {
    if (a.fine.lanes == 1) descend<1>(a);
    else descend<LANES>(a);
}

// Up: that z with the coarse correction, and another step. out = first * c + second * z.
template <class V> struct AscendArgs {
    Level<V> k;
    const V *coarse_z; // null: nothing is below
    V *out;
    double first, second;
};
template <int ROW, class V> __device__ inline void ascend(const AscendArgs<V> &a) {
    const Level<V> &k = a.k;
    const V first = V(a.first), second = V(a.second);
    const auto corrected = [&](uint32_t j) {
        const uint32_t of = a.coarse_z ? k.aggregate[j] : NONE;
        return k.start[j] + (of == NONE ? V(0) : a.coarse_z[of]);
    };
    over_rows<ROW>(k.rows, [&](uint32_t i, uint32_t lane, bool is) {
        const V own = corrected(i);
        const V z = own + k.step[i] * (k.r[i] - product<ROW>(k, i, lane, own, corrected));
        if (is && lane == 0) a.out[i] = first == V(0) ? z : first * k.c[i] + second * z;
    });
}
template <class V> __device__ inline void ascend(const AscendArgs<V> &a) {
    if (a.k.lanes == 1) ascend<1>(a);
    else ascend<LANES>(a);
}

// r = r - factor A c, and the first step from there.
template <class V> struct SubtractArgs {
    Level<V> k;
    double factor;
};
template <int ROW, class V> __device__ inline void subtract(const SubtractArgs<V> &a) {
    const Level<V> &k = a.k;
    const V factor = V(a.factor);
    over_rows<ROW>(k.rows, [&](uint32_t i, uint32_t lane, bool is) {
        const V spent = product<ROW>(k, i, lane, k.c[i], [&](uint32_t j) { return k.c[j]; });
        if (!is || lane != 0) return;
        const V r = k.r[i] - factor * spent;
        k.r[i] = r;
        k.start[i] = k.step[i] * r;
    });
}
template <class V> __device__ inline void subtract(const SubtractArgs<V> &a) {
    if (a.k.lanes == 1) subtract<1>(a);
    else subtract<LANES>(a);
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
    uint32_t *first; // of slices: lengths, then sums of those before; behind them couplings, which are zero before
    Entry<V> *entries;
    V *excess, *step;
    uint64_t *bound; // bits of the largest 1 + sum over j of |a_ij| / d_i of a row: of eigenvalues of D^-1 A
    uint32_t slice, unused; // rows of one: SLICE or 1
};

template <class V> __device__ inline void take_lengths(const TakeArgs<V> &t) {
    uint64_t most = 0;
    over_rows<LANES>(t.c.rows, [&](uint32_t i, uint32_t lane, bool is) {
        double sum = 0.0;
        for (uint32_t e = t.c.first[i] + lane; e < t.c.first[i] + t.c.length[i]; e += LANES) sum += fabs(t.c.a[e]);
        const double bound = 1.0 + lane_sum<LANES>(sum) / t.c.diagonal[i];
        if (is_finite(bound)) most = max(most, magnitude(bound));
    });
    note_largest(t.bound, most);
    const uint32_t slices = (t.c.rows + t.slice - 1) / t.slice;
    over_rows<1>(t.c.rows, [&](uint32_t i, uint32_t, bool is) {
        const uint32_t length = is ? t.c.length[i] : 0, couplings = warp_sum(length);
        uint32_t longest = length;
        for (uint32_t by = t.slice / 2; by > 0; by /= 2)
            longest = max(longest, __shfl_xor_sync(0xffffffffu, longest, by));
        if (is && i % t.slice == 0) t.first[i / t.slice] = t.slice * longest;
        if (is && i % 32 == 0) atomicAdd(&t.first[slices + 1], couplings); // a whole number: in any order
    });
}

template <class V> __device__ inline void take_rows(const TakeArgs<V> &t) {
    // Gershgorin: eigenvalues are at most 2 where couplings and excess are positive.
    const double omega = 4.0 / 3.0 / max(2.0, __longlong_as_double((long long)*t.bound));
    over_rows<LANES>(t.c.rows, [&](uint32_t i, uint32_t lane, bool is) {
        const uint32_t slice = i / t.slice, start = t.first[slice], from = t.c.first[i];
        const uint32_t length = (t.first[slice + 1] - start) / t.slice, own = t.c.length[i];
        for (uint32_t w = lane; is && w < length; w += LANES) {
            Entry<V> entry{i, V(0)};
            if (w < own) entry = {t.c.col[from + w], V(t.c.a[from + w])};
            t.entries[start + i % t.slice + t.slice * w] = entry;
        }
        if (!is || lane != 0) return;
        t.excess[i] = V(t.c.excess[i]);
        const V step = V(omega / t.c.diagonal[i]);
        t.step[i] = is_finite(double(step)) ? step : V(0);
    });
}

} // namespace aggregation

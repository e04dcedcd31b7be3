// The cycle computes z = B r, an approximation of A^-1 r. Each level executes one step of damped Jacobi before the
// coarse correction, and one after it. The system of a coarse level is solved by two Chebyshev steps with fixed bounds,
// each of which executes one cycle (AMLI), if the level is among the finest coarse levels and has at most about half of
// the couplings of the previous level. The system of any other coarse level is solved by one cycle. The coarsest system
// is solved with the inverse of its matrix or, if it is too large, approximately by two Jacobi steps. The cycle
// computes no dot products, so B is a fixed symmetric positive definite matrix.
#pragma once
#include "couplings.cuh"

namespace aggregation {

// A coupling in the storage format of the cycle.
template <class V> struct alignas(2 * sizeof(V)) Entry {
    uint32_t col;
    V a;
};

// Number of rows of a slice in sliced ELLPACK format, which is used with one thread per row. For each w, coupling
// number w of row 0 of the slice is followed by coupling number w of rows 1, 2, and so on. Shorter rows are padded with
// zero couplings to themselves. If LANES threads share a row, a slice has only one row.
constexpr uint32_t SLICE = 32;

// A level of the cycle. If the inverse of the coarsest matrix is used, the coarsest level uses only r and z.
template <class V> struct Level {
    const uint32_t *first; // slice s has the entries first[s] .. first[s + 1] - 1
    const Entry<V> *entries;
    const V *row_sum, *step; // row_sum: e_i; step: omega / d_i
    const uint32_t *aggregate; // aggregate of each row, or NONE; a null pointer on the coarsest level
    const uint32_t *nodes;     // rows of the finer level that form each row: `width` entries, padded with NONE
    V *r, *start;              // r: right-hand side; start: step_i r_i, the first Jacobi step from zero
    V *c, *z;                  // z: result; c: result of the first of two cycles
    uint32_t rows;
    uint16_t width;
    uint16_t uses_two_cycles; // 1: the system of this level is solved by two cycles; 0: by one
    uint32_t lanes; // threads per row: one, or LANES on levels with few rows
    uint32_t unused;
};

// Computes (A x)_i = e_i x_i + sum_j a_ij (x_i - x_j). In this form, a small row sum loses no digits to large
// couplings. The threads that share a row each compute a part of the sum.
template <int ROW, class V, class X>
__device__ inline V product(const Level<V> &k, uint32_t i, uint32_t lane, V own, X x) {
    V sum = lane == 0 ? k.row_sum[i] * own : V(0);
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

// First half of the cycle on a level. Computes z = omega D^-1 r, a Jacobi step from zero, and the sum of r - A z over
// each aggregate, which is r of the coarser level. Also computes the first Jacobi step of the coarser level. With small
// aggregates and one thread per row, several aggregates share a warp; otherwise, a warp processes one aggregate.
template <class V> struct DescendArgs {
    Level<V> fine, coarse;
};
template <int ROW, class V> __device__ inline void descend(const DescendArgs<V> &a) {
    const Level<V> &k = a.fine, &coarse = a.coarse;
    // `together`: threads per aggregate; `of_warp`: aggregates per warp; `slot`: index of the thread's first node in
    // its aggregate.
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
            const V product_of_row = product<ROW>(k, of, lane, k.start[of], [&](uint32_t j) { return k.start[j]; });
            if (i != NONE && lane == 0) left += k.r[i] - product_of_row;
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

// Second half of the cycle on a level. Adds the coarse correction to z, executes a Jacobi step, and computes out =
// first * c + second * z, or out = z if `first` is 0.
template <class V> struct AscendArgs {
    Level<V> level;
    const V *coarse_z; // null pointer: coarsest level
    V *out;
    double first, second;
};
template <int ROW, class V> __device__ inline void ascend(const AscendArgs<V> &a) {
    const Level<V> &k = a.level;
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
    if (a.level.lanes == 1) ascend<1>(a);
    else ascend<LANES>(a);
}

// Computes r = r - factor A c, and the Jacobi step from zero for the new r.
template <class V> struct SubtractArgs {
    Level<V> level;
    double factor;
};
template <int ROW, class V> __device__ inline void subtract(const SubtractArgs<V> &a) {
    const Level<V> &k = a.level;
    const V factor = V(a.factor);
    over_rows<ROW>(k.rows, [&](uint32_t i, uint32_t lane, bool is) {
        const V product_of_row = product<ROW>(k, i, lane, k.c[i], [&](uint32_t j) { return k.c[j]; });
        if (!is || lane != 0) return;
        const V r = k.r[i] - factor * product_of_row;
        k.r[i] = r;
        k.start[i] = k.step[i] * r;
    });
}
template <class V> __device__ inline void subtract(const SubtractArgs<V> &a) {
    if (a.level.lanes == 1) subtract<1>(a);
    else subtract<LANES>(a);
}

// Computes z = A^-1 r on the coarsest level, one warp per row.
template <class V> struct CoarsestArgs {
    Level<V> level;
    const V *inverse;
};
template <class V> __device__ inline void solve_coarsest(const CoarsestArgs<V> &a) {
    const uint32_t n = a.level.rows, lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    for (uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < n; i += warps) {
        const V *row = a.inverse + uint64_t(i) * n;
        V sum = V(0);
        for (uint32_t j = lane; j < n; j += 32) sum += row[j] * a.level.r[j];
        sum = warp_sum(sum);
        if (lane == 0) a.level.z[i] = sum;
    }
}

// Converts the inverse to the precision of the cycle.
template <class V> struct NarrowArgs {
    const double *from;
    V *to;
    uint32_t count, unused;
};
template <class V> __device__ inline void narrow(const NarrowArgs<V> &a) {
    over(a.count, [&](uint32_t k) { a.to[k] = V(a.from[k]); });
}

// Arguments of compute_slice_lengths and convert_rows, which convert the matrix of a level from the format of the setup
// to that of the cycle.
template <class V> struct ConvertArgs {
    Couplings c;
    // One number per slice, its number of entries and later the sum for the previous slices. Two further numbers
    // follow: the total numbers of entries and of couplings.
    uint32_t *first;
    Entry<V> *entries;
    V *row_sum, *step;
    uint64_t *bound; // bits of max_i (1 + sum_j |a_ij| / d_i), an upper bound of the eigenvalues of D^-1 A
    uint32_t slice, unused; // `slice`: rows per slice, SLICE or 1
};

// Computes `bound`, the length of each slice, and the number of couplings.
template <class V> __device__ inline void compute_slice_lengths(const ConvertArgs<V> &t) {
    uint64_t most = 0;
    over_rows<LANES>(t.c.rows, [&](uint32_t i, uint32_t lane, bool is) {
        double sum = 0.0;
        for (uint32_t e = t.c.first[i] + lane; e < t.c.first[i] + t.c.length[i]; e += LANES) sum += fabs(t.c.a[e]);
        const double bound = 1.0 + lane_sum<LANES>(sum) / t.c.diagonal[i];
        if (is_finite(bound)) most = max(most, magnitude(bound));
    });
    update_largest(t.bound, most);
    const uint32_t slices = (t.c.rows + t.slice - 1) / t.slice;
    over_rows<1>(t.c.rows, [&](uint32_t i, uint32_t, bool is) {
        const uint32_t length = is ? t.c.length[i] : 0, couplings = warp_sum(length);
        uint32_t longest = length;
        for (uint32_t by = t.slice / 2; by > 0; by /= 2)
            longest = max(longest, __shfl_xor_sync(0xffffffffu, longest, by));
        if (is && i % t.slice == 0) t.first[i / t.slice] = t.slice * longest;
        if (is && i % 32 == 0) atomicAdd(&t.first[slices + 1], couplings); // integers, so the order is irrelevant
    });
}

// Converts the rows, and computes the Jacobi step omega / d_i with omega = (4/3) / max(2, bound).
template <class V> __device__ inline void convert_rows(const ConvertArgs<V> &t) {
    // By Gershgorin's theorem, `bound` is an upper bound of the eigenvalues. It is at most 2 if no coupling and no row
    // sum is negative.
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
        t.row_sum[i] = V(t.c.row_sum[i]);
        const V step = V(omega / t.c.diagonal[i]);
        t.step[i] = is_finite(double(step)) ? step : V(0);
    });
}

} // namespace aggregation

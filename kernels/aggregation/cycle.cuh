// The cycle computes z = B r, an approximation of A^-1 r. Each level executes steps of damped Jacobi before the coarse
// correction, and the same steps after it: two on the finest level, and one on a coarse level. Two Chebyshev steps with
// fixed bounds (AMLI), each of which executes one cycle, solve the system of a coarse level that satisfies two
// conditions: it is one of the finest coarse levels, and it has at most about half of the couplings of the previous
// level. One cycle solves the system of any other coarse level. The coarsest system is solved with the inverse of its
// matrix or, if it is too large, approximately by two Jacobi steps. The cycle computes no dot products, so B is a fixed
// symmetric positive definite matrix. Formulas: docs/theory/aggregation.md.
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
    const uint32_t *slice_start; // slice s has the entries slice_start[s] .. slice_start[s + 1] - 1
    const Entry<V> *entries;
    const V *row_sum, *jacobi_factor; // row_sum: e_i; jacobi_factor: f_i of the first Jacobi step (`convert_rows`)
    const uint32_t *aggregate; // aggregate of each row, or NONE; a null pointer on the coarsest level
    const uint32_t *nodes; // rows of the finer level that form each row: `width` entries, padded with NONE
    // r: right-hand side; first_iterate: f_i r_i, the first Jacobi step from zero. On the finest level, the first step
    // after the coarse correction overwrites first_iterate.
    V *r, *first_iterate;
    V *c, *z; // z: result; c: result of the first of two cycles, a null pointer on the finest level
    uint32_t rows;
    uint16_t width;
    uint16_t uses_two_cycles; // 1: the system of this level is solved by two cycles; 0: by one
    uint32_t lanes; // threads per row: one, or LANES on levels with few rows
    uint32_t unused;
};

// Computes (A x)_i = e_i x_i + sum_j a_ij (x_i - x_j). In this form, a small row sum loses no digits to large
// couplings. The threads that share a row each compute a part of the sum.
template <int ROW_THREADS, class V, class X>
__device__ inline V multiply_row(const Level<V> &k, uint32_t i, uint32_t lane, V x_i, X x) {
    V sum = lane == 0 ? k.row_sum[i] * x_i : V(0);
    constexpr uint32_t ROWS = ROW_THREADS == 1 ? SLICE : 1;
    const uint32_t slice = i / ROWS, start = k.slice_start[slice], length = (k.slice_start[slice + 1] - start) / ROWS;
    const Entry<V> *row = k.entries + start + i % ROWS;
#pragma unroll 4
    for (uint32_t w = lane; w < length; w += ROW_THREADS) {
        const Entry<V> entry = row[ROWS * w];
        sum += entry.a * (x_i - x(entry.col));
    }
    return sum_lanes<ROW_THREADS>(sum);
}

// Computes the sum of r - A z over each aggregate, which is r of the coarser level. Here, z is `iterate`, the result of
// the Jacobi steps before the coarse correction. Also computes the first Jacobi step of the coarser level. If one
// thread processes a row, several aggregates share a warp; otherwise, a warp processes one aggregate.
template <class V> struct DescendArgs {
    Level<V> fine, coarse;
    const V *iterate;
};
template <int ROW_THREADS, class V> __device__ inline void descend(const DescendArgs<V> &a) {
    const Level<V> &k = a.fine, &coarse = a.coarse;
    // `slot`: index of the thread's first node in its aggregate.
    const uint32_t thread = threadIdx.x % 32, lane = thread % ROW_THREADS, width = coarse.width;
    const uint32_t aggregate_threads = ROW_THREADS == 1 ? width : 32, aggregates_per_warp = 32 / aggregate_threads;
    const uint32_t slot = thread % aggregate_threads / ROW_THREADS;
    const uint32_t warps = gridDim.x * (blockDim.x / 32);
    uint64_t warp_aggregate = uint64_t((blockIdx.x * blockDim.x + threadIdx.x) / 32) * aggregates_per_warp;
    for (; warp_aggregate < coarse.rows; warp_aggregate += uint64_t(warps) * aggregates_per_warp) {
        const uint64_t aggregate = warp_aggregate + thread / aggregate_threads;
        const bool has_aggregate = aggregate < coarse.rows;
        V residual_sum = V(0);
        for (uint32_t w = slot; w - slot < width; w += 32 / ROW_THREADS) {
            const uint32_t i = has_aggregate && w < width ? coarse.nodes[aggregate * width + w] : NONE;
            const uint32_t safe_row = i == NONE ? 0 : i;
            const V product_of_row = multiply_row<ROW_THREADS>(
                k, safe_row, lane, a.iterate[safe_row], [&](uint32_t j) { return a.iterate[j]; });
            if (i != NONE && lane == 0) residual_sum += k.r[i] - product_of_row;
        }
        for (uint32_t offset = aggregate_threads / 2; offset > 0; offset /= 2)
            residual_sum += __shfl_xor_sync(0xffffffffu, residual_sum, offset);
        if (has_aggregate && thread % aggregate_threads == 0) {
            coarse.r[aggregate] = residual_sum;
            coarse.first_iterate[aggregate] = coarse.jacobi_factor[aggregate] * residual_sum;
        }
    }
}
template <class V> __device__ inline void descend(const DescendArgs<V> &a) {
    if (a.fine.lanes == 1) descend<1>(a);
    else descend<LANES>(a);
}

// Adds the coarse correction, if any, to `iterate`, and executes a Jacobi step with `step_factor` times the factors of
// the level. For the result z, computes out = z if `first_weight` is 0, and otherwise
// out = first_weight * c + second_weight * z. `out` must differ from `iterate`, because other rows read `iterate`.
template <class V> struct SmoothArgs {
    Level<V> level;
    const V *iterate;
    const V *coarse_z; // null pointer: no correction
    V *out;
    double step_factor, first_weight, second_weight;
};
template <int ROW_THREADS, class V> __device__ inline void smooth(const SmoothArgs<V> &a) {
    const Level<V> &k = a.level;
    const V step_factor = V(a.step_factor), first_weight = V(a.first_weight), second_weight = V(a.second_weight);
    const auto corrected_z = [&](uint32_t j) {
        const uint32_t aggregate = a.coarse_z ? k.aggregate[j] : NONE;
        return a.iterate[j] + (aggregate == NONE ? V(0) : a.coarse_z[aggregate]);
    };
    for_each_row<ROW_THREADS>(k.rows, [&](uint32_t i, uint32_t lane, bool has_row) {
        const V z_i = corrected_z(i), factor = step_factor * k.jacobi_factor[i];
        const V z = z_i + factor * (k.r[i] - multiply_row<ROW_THREADS>(k, i, lane, z_i, corrected_z));
        if (has_row && lane == 0) a.out[i] = first_weight == V(0) ? z : first_weight * k.c[i] + second_weight * z;
    });
}
template <class V> __device__ inline void smooth(const SmoothArgs<V> &a) {
    if (a.level.lanes == 1) smooth<1>(a);
    else smooth<LANES>(a);
}

// Computes r = r - factor A c, and the Jacobi step from zero for the new r.
template <class V> struct SubtractArgs {
    Level<V> level;
    double factor;
};
template <int ROW_THREADS, class V> __device__ inline void subtract(const SubtractArgs<V> &a) {
    const Level<V> &k = a.level;
    const V factor = V(a.factor);
    for_each_row<ROW_THREADS>(k.rows, [&](uint32_t i, uint32_t lane, bool has_row) {
        const V product_of_row = multiply_row<ROW_THREADS>(k, i, lane, k.c[i], [&](uint32_t j) { return k.c[j]; });
        if (!has_row || lane != 0) return;
        const V r = k.r[i] - factor * product_of_row;
        k.r[i] = r;
        k.first_iterate[i] = k.jacobi_factor[i] * r;
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
    const double *source;
    V *target;
    uint32_t count, unused;
};
template <class V> __device__ inline void narrow_inverse(const NarrowArgs<V> &a) {
    for_each_index(a.count, [&](uint32_t k) { a.target[k] = V(a.source[k]); });
}

// Arguments of compute_slice_lengths and convert_rows, which convert the matrix of a level from the format of the setup
// to that of the cycle.
template <class V> struct ConvertArgs {
    Couplings c;
    // For each slice, its number of entries; after the scan, the number of entries of all previous slices. Two numbers
    // follow: the total numbers of entries and of couplings.
    uint32_t *slice_start;
    Entry<V> *entries;
    V *row_sum, *jacobi_factor;
    double step_weight; // weight of the first Jacobi step
    uint32_t slice, unused; // `slice`: rows per slice, SLICE or 1
};

// Computes the length of each slice, and the number of couplings.
template <class V> __device__ inline void compute_slice_lengths(const ConvertArgs<V> &t) {
    const uint32_t slices = (t.c.rows + t.slice - 1) / t.slice;
    for_each_row<1>(t.c.rows, [&](uint32_t i, uint32_t, bool has_row) {
        const uint32_t length = has_row ? t.c.length[i] : 0, couplings = warp_sum(length);
        uint32_t longest_row = length;
        for (uint32_t offset = t.slice / 2; offset > 0; offset /= 2)
            longest_row = max(longest_row, __shfl_xor_sync(0xffffffffu, longest_row, offset));
        if (has_row && i % t.slice == 0) t.slice_start[i / t.slice] = t.slice * longest_row;
        if (has_row && i % 32 == 0) atomicAdd(&t.slice_start[slices + 1], couplings); // integer sums
    });
}

// Upper bound of the weights in src/aggregation/cuda/mod.rs. The product of jacobi_factor and step_factor (`smooth`)
// must not overflow.
constexpr double MAX_STEP_WEIGHT = 3.0;

// Converts the rows, and computes jacobi_factor = step_weight / s_i with s_i = max(2 d_i, d_i + sum_j |a_ij|). Let S be
// the diagonal matrix of the s_i. The eigenvalues of S^-1 A are at most 1, by Gershgorin's theorem. Jacobi steps with
// the weights of src/aggregation/cuda/mod.rs therefore contract the error in the A-norm. If no coupling and no row sum
// is negative, s_i = 2 d_i. If a factor of a row could overflow, jacobi_factor is 0, and Jacobi steps do not change
// this row.
template <class V> __device__ inline void convert_rows(const ConvertArgs<V> &t) {
    for_each_row<LANES>(t.c.rows, [&](uint32_t i, uint32_t lane, bool has_row) {
        const uint32_t slice = i / t.slice, start = t.slice_start[slice], first_coupling = t.c.row_start[i];
        const uint32_t length = (t.slice_start[slice + 1] - start) / t.slice, row_length = t.c.length[i];
        double coupling_sum = 0.0;
        for (uint32_t w = lane; has_row && w < length; w += LANES) {
            Entry<V> entry{i, V(0)};
            if (w < row_length) {
                const double a = t.c.a[first_coupling + w];
                entry = {t.c.col[first_coupling + w], V(a)};
                coupling_sum += fabs(a);
            }
            t.entries[start + i % t.slice + t.slice * w] = entry;
        }
        coupling_sum = sum_lanes<LANES>(coupling_sum);
        if (!has_row || lane != 0) return;
        t.row_sum[i] = V(t.c.row_sum[i]);
        const double diagonal = t.c.diagonal[i], s = max(2.0 * diagonal, diagonal + coupling_sum);
        t.jacobi_factor[i] = is_finite(double(V(MAX_STEP_WEIGHT / s))) ? V(t.step_weight / s) : V(0);
    });
}

} // namespace aggregation

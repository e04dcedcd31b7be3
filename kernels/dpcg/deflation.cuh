// Deflation: the product A Z t, and the coarse matrix E = Z^T A Z (src/deflation/mod.rs):
//
//     E_rs = sum of a_ij,   E_rr = sum of e_i - sum of a_ij over all couplings that leave r,
//
// with cell i in region r, cell j in region s != r, and the row sum e_i of row i of A. e_i is set to zero in singular
// components, and where it is a rounding error. Each value is split into three integers that are added to integer sums,
// so the order of additions does not matter. Each value is exact up to 2^-94 times a power of two near the largest
// center.
//
// Memory traffic: 34 bytes read per cell, and an atomic addition to 24 bytes for each coupling between regions.
#pragma once
#include "dense.cuh"
#include "labelled.cuh"

namespace dpcg {

using labelled::CellLabels;

struct CoarseMatrixArgs {
    CellBox cells;
    CellMatrix m;
    const uint16_t *region; // region of each cell; n: no region
    CellLabels singular;    // singular component of each cell
    double scale;           // 1 / s, where s is a power of two near the largest center
    // Three words per pair r <= s of regions, from index 3 (r (n + 1) + s) on, where s = n represents no region. They
    // contain the sum of -a_ij if r < s, and the sum of e_i if r = s, multiplied by `scale` and split by add_exactly.
    unsigned long long *sums;
    const uint32_t *null_vector_of;  // null vector of each unknown, 0: none; IS_REMOVED is set for removed unknowns
    double *matrix, *diagonal;
    int n, unused;
};

// Adds v as three words with weights 2^-30, 2^-62 and 2^-94. Sums of up to 2^32 values do not overflow.
__device__ inline void add_exactly(unsigned long long *words, double v) {
    double remainder = v * 1073741824.0;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        const double integer_part = floor(remainder);
        if (integer_part != 0.0) atomicAdd(words + k, (unsigned long long)(long long)integer_part);
        remainder = (remainder - integer_part) * 4294967296.0;
    }
}

// A sum of values that `add_exactly` has split.
struct SplitSum {
    uint64_t words[3];
    __device__ void add(const unsigned long long *summand) {
        for (int k = 0; k < 3; ++k) words[k] += summand[k];
    }
    __device__ double value() const {
        const uint64_t middle_word = words[1] + (words[2] >> 32);
        int64_t high_word = int64_t(words[0]) + int64_t(middle_word >> 32);
        uint64_t low_word = middle_word << 32 | (words[2] & 0xffffffffu);
        const bool is_negative = high_word < 0;
        if (is_negative) {
            high_word = -high_word - (low_word != 0);
            low_word = -low_word;
        }
        // `high_word` has the weight 2^-30, and `low_word` has the weight 2^-94.
        const double magnitude = double(high_word) * 0x1p-30 + double(low_word) * 0x1p-94;
        return is_negative ? -magnitude : magnitude;
    }
};

// A row sum below this fraction of the center is a rounding error of the sum of seven numbers.
constexpr double ROUNDING = 8.0 * 0x1p-52;

// Adds the couplings between different regions, and the row sums, to the integer sums of E, with one thread per cell.
__device__ inline void add_couplings(const CoarseMatrixArgs &a) {
    const int64_t n = a.cells.north(), t = a.cells.top(), matrix_size = a.n + 1;
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const int r = a.region[c], no_region = a.n;
        auto add_coupling = [&](int64_t distance, double coupling) {
            const int s = a.region[c + distance];
            if (r == s || coupling == 0.0) return;
            add_exactly(a.sums + 3 * (min(r, s) * matrix_size + max(r, s)), -a.scale * coupling);
        };
        const double east = a.m.east[c], north = a.m.north[c], top = a.m.top[c];
        add_coupling(1, east);
        add_coupling(n, north);
        add_coupling(t, top);
        if (r == no_region || a.singular.at(c) < a.singular.count) return;
        const double center = a.m.center[c];
        const double sum = center + east + a.m.east[c - 1] + north + a.m.north[c - n] + top + a.m.top[c - t];
        if (fabs(sum) > ROUNDING * center) add_exactly(a.sums + 3 * (r * matrix_size + r), a.scale * sum);
    });
}

// Computes E with zeros in the removed rows and columns, and the diagonal of E, including its entries in removed rows.
// One warp processes a row.
__device__ inline void round_coarse_matrix(const CoarseMatrixArgs &a) {
    const int n = a.n, lane = threadIdx.x % 32;
    const int64_t matrix_size = n + 1;
    for (int r = blockIdx.x * WARPS + threadIdx.x / 32; r < n; r += gridDim.x * WARPS) {
        const bool is_removed = a.null_vector_of[r] & IS_REMOVED;
        SplitSum diagonal = {};
        for (int s = lane; s <= n; s += 32) {
            SplitSum entry = {};
            entry.add(a.sums + 3 * (min(r, s) * matrix_size + max(r, s)));
            for (int k = 0; k < 3; ++k) diagonal.words[k] += entry.words[k];
            if (s == r || s == n) continue;
            const bool is_zero = is_removed || a.null_vector_of[s] & IS_REMOVED;
            a.matrix[int64_t(r) * n + s] = is_zero ? 0.0 : -entry.value() / a.scale;
        }
        for (int k = 0; k < 3; ++k) diagonal.words[k] = warp_sum(diagonal.words[k]);
        if (lane != 0) continue;
        a.diagonal[r] = diagonal.value() / a.scale;
        a.matrix[int64_t(r) * n + r] = is_removed ? 0.0 : a.diagonal[r];
    }
}

struct DenseArgs {
    const double *matrix; // stored by rows
    const double *input;
    double *out;
    int n, unused;
    uint64_t *clock; // accumulates the nanoseconds of the first block; may be null
    Sum sum;
};

// Computes out = matrix * input, with one warp per row, and the sum <input, out>. For deflation, input is g = Z^T v,
// out is t = E^-1 g, and the sum is <g, t>.
template <class In> __device__ inline void dense_product(const DenseArgs &a) {
    if (is_over(a.sum)) return;
    const uint64_t start_time = a.clock ? nanoseconds() : 0;
    double product = 0.0;
    const In *in = reinterpret_cast<const In *>(a.input);
    const int warps = blockDim.x / 32;
    for (int row = blockIdx.x * warps + threadIdx.x / 32; row < a.n; row += gridDim.x * warps) {
        const double *entries = a.matrix + int64_t(row) * a.n;
        double sum = 0.0;
        for (int k = threadIdx.x % 32; k < a.n; k += 32) sum += ldg(entries[k]) * double(in[k]);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) {
            reinterpret_cast<In *>(a.out)[row] = In(sum);
            product += double(in[row]) * sum;
        }
    }
    finish_sum(a.sum, product);
    if (a.clock && blockIdx.x == 0 && threadIdx.x == 0) *a.clock += nanoseconds() - start_time;
}

struct DeflatedArgs {
    CellBox cells;
    CellMatrix m;
    const uint16_t *region; // region of each cell; guard cells have the region number for which t is 0
    const double *t;
    double *v;
    const double *p; // p in the sum <p, v>
    Sum sum;
};

// Computes v = v - A Z t, which is P v for t = E^-1 Z^T v (Tang, Nabben, Vuik and Erlangga 2009), and the sum <p, v>.
__device__ inline void subtract_deflated(const DeflatedArgs &a) {
    if (is_over(a.sum)) return;
    const int64_t n = a.cells.north(), t = a.cells.top();
    double sum = 0.0;
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const uint16_t *r = a.region + c;
        const NeighbourValues neighbours = {{ldg(a.m.east[c - 1]), ldg(a.m.east[c]), ldg(a.m.north[c - n]),
                                 ldg(a.m.north[c]), ldg(a.m.top[c - t]), ldg(a.m.top[c])},
            {a.t[r[-1]], a.t[r[1]], a.t[r[-n]], a.t[r[n]], a.t[r[-t]], a.t[r[t]]}};
        const double v = a.v[c] - (ldg(a.m.center[c]) * a.t[r[0]] + sum_of_products(neighbours));
        a.v[c] = v;
        sum += a.p[c] * v;
    });
    finish_sum(a.sum, sum);
}

// Computes v = v + Z t.
__device__ inline void add_deflated(const DeflatedArgs &a) {
    for_each_cell(a.cells.count(), [&](int64_t c) { a.v[c] += a.t[a.region[c]]; });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_add_couplings_f64, CoarseMatrixArgs, add_couplings)
DPCG_KERNEL(dpcg_round_coarse_matrix_f64, CoarseMatrixArgs, round_coarse_matrix)
DPCG_KERNEL(dpcg_multiply_dense_f64, DenseArgs, dense_product<double>)
DPCG_KERNEL(dpcg_multiply_dense_f32, DenseArgs, dense_product<float>)
DPCG_KERNEL(dpcg_subtract_deflated_f64, DeflatedArgs, subtract_deflated)
DPCG_KERNEL(dpcg_add_deflated_f64, DeflatedArgs, add_deflated)

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
    unsigned long long *sums; // 3 words at 3 (r (n + 1) + s): sum of -a_ij for r < s, of e_i for r = s
    const uint32_t *null_of;  // null vector of each unknown, 0: none; LEFT_OUT is set for removed unknowns
    double *matrix, *diagonal;
    int n, unused;
};

// Adds v as three words with weights 2^-30, 2^-62 and 2^-94. Sums of up to 2^32 values do not overflow.
__device__ inline void add_exactly(unsigned long long *words, double v) {
    double part = v * 1073741824.0;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        const double whole = floor(part);
        if (whole != 0.0) atomicAdd(words + k, (unsigned long long)(long long)whole);
        part = (part - whole) * 4294967296.0;
    }
}

// A sum of values that `add_exactly` has split.
struct Words {
    uint64_t of[3];
    __device__ void add(const unsigned long long *words) {
        for (int k = 0; k < 3; ++k) of[k] += words[k];
    }
    __device__ double value() const {
        const uint64_t middle = of[1] + (of[2] >> 32);
        int64_t high = int64_t(of[0]) + int64_t(middle >> 32);
        uint64_t low = middle << 32 | (of[2] & 0xffffffffu);
        const bool negative = high < 0;
        if (negative) {
            high = -high - (low != 0);
            low = -low;
        }
        // `high` has the weight 2^-30, and `low` has the weight 2^-94.
        const double magnitude = double(high) * 0x1p-30 + double(low) * 0x1p-94;
        return negative ? -magnitude : magnitude;
    }
};

// A row sum below this fraction of the center is a rounding error of the sum of seven numbers.
constexpr double ROUNDING = 8.0 * 0x1p-52;

// Adds the couplings between different regions, and the row sums, to the integer sums of E, with one thread per cell.
__device__ inline void add_couplings(const CoarseMatrixArgs &a) {
    const int64_t n = a.cells.north(), t = a.cells.top(), side = a.n + 1;
    over_cells(a.cells.count(), [&](int64_t c) {
        const int r = a.region[c], none = a.n;
        auto couple = [&](int64_t step, double coupling) {
            const int s = a.region[c + step];
            if (r == s || coupling == 0.0) return;
            add_exactly(a.sums + 3 * (min(r, s) * side + max(r, s)), -a.scale * coupling);
        };
        const double east = a.m.east[c], north = a.m.north[c], top = a.m.top[c];
        couple(1, east);
        couple(n, north);
        couple(t, top);
        if (r == none || a.singular.at(c) < a.singular.count) return;
        const double center = a.m.center[c];
        const double sum = center + east + a.m.east[c - 1] + north + a.m.north[c - n] + top + a.m.top[c - t];
        if (fabs(sum) > ROUNDING * center) add_exactly(a.sums + 3 * (r * side + r), a.scale * sum);
    });
}

// Computes E with zeros in the removed rows and columns, and the diagonal of E, including its entries in removed rows.
// One warp processes a row.
__device__ inline void round_coarse_matrix(const CoarseMatrixArgs &a) {
    const int n = a.n, lane = threadIdx.x % 32;
    const int64_t side = n + 1;
    for (int r = blockIdx.x * WARPS + threadIdx.x / 32; r < n; r += gridDim.x * WARPS) {
        const bool out = a.null_of[r] & LEFT_OUT;
        Words diagonal = {};
        for (int s = lane; s <= n; s += 32) {
            Words entry = {};
            entry.add(a.sums + 3 * (min(r, s) * side + max(r, s)));
            for (int k = 0; k < 3; ++k) diagonal.of[k] += entry.of[k];
            if (s == r || s == n) continue;
            const bool none = out || a.null_of[s] & LEFT_OUT;
            a.matrix[int64_t(r) * n + s] = none ? 0.0 : -entry.value() / a.scale;
        }
        for (int k = 0; k < 3; ++k) diagonal.of[k] = warp_sum(diagonal.of[k]);
        if (lane != 0) continue;
        a.diagonal[r] = diagonal.value() / a.scale;
        a.matrix[int64_t(r) * n + r] = out ? 0.0 : a.diagonal[r];
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

// Computes out = matrix * in, with one warp per row, and the sum <in, out>. For deflation, this is t = E^-1 g and
// <g, t>.
template <class In> __device__ inline void dense_product(const DenseArgs &a) {
    if (is_over(a.sum)) return;
    const uint64_t started = a.clock ? nanoseconds() : 0;
    double product = 0.0;
    const In *in = reinterpret_cast<const In *>(a.input);
    const int warps = blockDim.x / 32;
    for (int row = blockIdx.x * warps + threadIdx.x / 32; row < a.n; row += gridDim.x * warps) {
        const double *entries = a.matrix + int64_t(row) * a.n;
        double sum = 0.0;
        for (int k = threadIdx.x % 32; k < a.n; k += 32) sum += fixed(entries[k]) * double(in[k]);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) {
            reinterpret_cast<In *>(a.out)[row] = In(sum);
            product += double(in[row]) * sum;
        }
    }
    finish_sum(a.sum, product);
    if (a.clock && blockIdx.x == 0 && threadIdx.x == 0) *a.clock += nanoseconds() - started;
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
    over_cells(a.cells.count(), [&](int64_t c) {
        const uint16_t *r = a.region + c;
        const Around near = {{fixed(a.m.east[c - 1]), fixed(a.m.east[c]), fixed(a.m.north[c - n]),
                                 fixed(a.m.north[c]), fixed(a.m.top[c - t]), fixed(a.m.top[c])},
            {a.t[r[-1]], a.t[r[1]], a.t[r[-n]], a.t[r[n]], a.t[r[-t]], a.t[r[t]]}};
        const double v = a.v[c] - (fixed(a.m.center[c]) * a.t[r[0]] + sum_of_products(near));
        a.v[c] = v;
        sum += a.p[c] * v;
    });
    finish_sum(a.sum, sum);
}

// Computes v = v + Z t.
__device__ inline void add_deflated(const DeflatedArgs &a) {
    over_cells(a.cells.count(), [&](int64_t c) { a.v[c] += a.t[a.region[c]]; });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_add_couplings_f64, CoarseMatrixArgs, add_couplings)
DPCG_KERNEL(dpcg_take_coarse_matrix_f64, CoarseMatrixArgs, round_coarse_matrix)
DPCG_KERNEL(dpcg_dense_f64, DenseArgs, dense_product<double>)
DPCG_KERNEL(dpcg_dense_f32, DenseArgs, dense_product<float>)
DPCG_KERNEL(dpcg_subtract_deflated_f64, DeflatedArgs, subtract_deflated)
DPCG_KERNEL(dpcg_add_deflated_f64, DeflatedArgs, add_deflated)

// Dense symmetric positive definite matrices in f64, inverted by kernels/common/inverse.cuh: E with up to MOST_VECTORS
// unknowns, and the coarsest matrix with up to MOST_UNKNOWNS unknowns.
//
// For each null vector u of the matrix A, one unknown is removed: its row and column are zero. Let G be the inverse for
// the remaining unknowns, and k = u^T u. Then (I - u u^T / k) G (I - u u^T / k) is the pseudoinverse. For E + c u u^T,
// the term u u^T / (c k^2) is added.
#pragma once
#include "../common/inverse.cuh"
#include "box.cuh"

namespace dpcg {

constexpr int MOST_UNKNOWNS = 1024, MOST_VECTORS = 4096;
// Bit of `null_of` for the removed unknown. The other bits are the number of the null vector, from 1 on; 0: none.
constexpr uint32_t LEFT_OUT = 1u << 31;

using inverse::InverseArgs;
__device__ inline void invert_step(const InverseArgs &a) { inverse::step(a); }

struct NullArgs {
    const double *from;
    double *to;
    const double *diagonal;
    const uint32_t *null_of;
    const uint32_t *nulls; // number of null vectors
    double *shift;         // 1 / (c k^2) and c of each null vector; null: no shift
    uint64_t *largest;     // maximum of the inverse, and of the diagonal with c
    int n, add;
};

// Computes c for each null vector. c k^2 is the sum of the diagonal, so c u u^T is about as large as E. A single vector
// has E = 0, and t is then set to 0. Any other c would amplify the rounding error of u^T A p.
__device__ inline void find_shifts(const NullArgs &a) {
    for (uint32_t u = 1; u <= *a.nulls; ++u) {
        double size = 0.0, sum = 0.0;
        for (int r = threadIdx.x; r < a.n; r += THREADS) {
            const bool in = (a.null_of[r] & ~LEFT_OUT) == u;
            size += in ? 1.0 : 0.0;
            sum += in ? a.diagonal[r] : 0.0;
        }
        size = block_sum(size);
        sum = block_sum(sum);
        if (threadIdx.x != 0) continue;
        const double c = sum / (size * size);
        a.shift[2 * u - 2] = c > 0.0 ? 1.0 / (c * size * size) : 0.0;
        a.shift[2 * u - 1] = c;
    }
}

// Subtracts from each row its mean over each null vector, adds the shift with `add`, and transposes. One block per row.
__device__ inline void take_means(const NullArgs &a) {
    constexpr int EACH = MOST_VECTORS / THREADS;
    const int n = a.n, t = threadIdx.x;
    const uint32_t nulls = *a.nulls;
    for (int row = blockIdx.x; row < n; row += gridDim.x) {
        double v[EACH];
        const uint32_t of_row = a.null_of[row] & ~LEFT_OUT;
#pragma unroll
        for (int q = 0; q < EACH; ++q) {
            const int c = t + THREADS * q;
            v[q] = c < n ? a.from[int64_t(row) * n + c] : 0.0;
        }
        for (uint32_t u = 1; u <= nulls; ++u) {
            const auto is_part = [&](int c) { return c < n && (fixed(a.null_of[c]) & ~LEFT_OUT) == u; };
            double size = 0.0, sum = 0.0;
#pragma unroll
            for (int q = 0; q < EACH; ++q) {
                const bool in = is_part(t + THREADS * q);
                size += in ? 1.0 : 0.0;
                sum += in ? v[q] : 0.0;
            }
            size = block_sum(size);
            const double change = (a.add && of_row == u ? a.shift[2 * u - 2] : 0.0) - block_sum(sum) / size;
#pragma unroll
            for (int q = 0; q < EACH; ++q) v[q] += is_part(t + THREADS * q) ? change : 0.0;
        }
#pragma unroll
        for (int q = 0; q < EACH; ++q) {
            const int c = t + THREADS * q;
            if (c < n) a.to[int64_t(c) * n + row] = v[q];
        }
    }
}

// Computes max |(A^-1)_rs|, and max A_rr including c.
__device__ inline void find_condition(const NullArgs &a) {
    uint64_t inverse = 0, diagonal = 0;
    over_cells(int64_t(a.n) * a.n, [&](int64_t k) {
        inverse = max(inverse, magnitude(a.from[k]));
        if (k >= a.n) return;
        const uint32_t u = a.null_of[k] & ~LEFT_OUT;
        diagonal = max(diagonal, magnitude(a.diagonal[k] + (u > 0 ? a.shift[2 * u - 1] : 0.0)));
    });
    note_largest(a.largest, inverse);
    note_largest(a.largest + 1, diagonal);
}

} // namespace dpcg

DPCG_LARGE_KERNEL(dpcg_invert_step_f64, InverseArgs, invert_step)
DPCG_KERNEL(dpcg_find_shifts_f64, NullArgs, find_shifts)
DPCG_KERNEL(dpcg_take_means_f64, NullArgs, take_means)
DPCG_KERNEL(dpcg_find_condition_f64, NullArgs, find_condition)

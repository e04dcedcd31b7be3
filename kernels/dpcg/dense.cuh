// Dense symmetric positive semidefinite matrices in f64, inverted by kernels/common/inverse.cuh: E with up to
// MOST_VECTORS unknowns (src/cuda/launch/dpcg.rs), and the coarsest matrix of multigrid with up to MOST_UNKNOWNS
// unknowns. For each null vector u of E, E + c u u^T is inverted: the term u u^T / (c k^2), with k = u^T u, is added to
// the pseudoinverse.
#pragma once
#include "../common/inverse.cuh"
#include "box.cuh"

namespace dpcg {

using inverse::LEFT_OUT;
using inverse::MOST_UNKNOWNS;
using inverse::NullVectorArgs;

// Computes c for each null vector, with one thread block. c k^2 is the sum of the diagonal entries of E on the null
// vector, so c u u^T is about as large as E. For a null vector that is a single deflation vector, these entries are
// zero, and the entry of t = E^-1 Z^T A p for this vector is set to 0. Any other value would amplify the rounding error
// of u^T Z^T A p.
__device__ inline void find_shifts(const NullVectorArgs &a) {
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

// Computes max |(A^-1)_rs| and max (A_rr + c), where c is the shift of the null vector of unknown r, or 0.
__device__ inline void find_condition(const NullVectorArgs &a) {
    uint64_t inverse = 0, diagonal = 0;
    over_cells(int64_t(a.n) * a.n, [&](int64_t k) {
        inverse = max(inverse, magnitude(a.from[k]));
        if (k >= a.n) return;
        const uint32_t u = a.null_of[k] & ~LEFT_OUT;
        diagonal = max(diagonal, magnitude(a.diagonal[k] + (u > 0 ? a.shift[2 * u - 1] : 0.0)));
    });
    update_largest(a.largest, inverse);
    update_largest(a.largest + 1, diagonal);
}

} // namespace dpcg

DPCG_KERNEL(dpcg_find_shifts_f64, NullVectorArgs, find_shifts)
DPCG_KERNEL(dpcg_find_condition_f64, NullVectorArgs, find_condition)

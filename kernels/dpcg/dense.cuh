// Dense symmetric positive semidefinite matrices in f64, inverted by kernels/common/inverse.cuh: E with up to
// MAX_VECTORS unknowns (src/cuda/launch/dpcg.rs), and the coarsest matrix of multigrid with up to MAX_UNKNOWNS
// unknowns. If E has null vectors u, a shift c u u^T is added to E for each of them before the inversion. With the
// pseudoinverse E^+ of E and k = u^T u, the inverse of the shifted matrix is
//
//     E^+ + sum over all null vectors u of u u^T / (c k^2).
#pragma once
#include "../common/inverse.cuh"
#include "box.cuh"

namespace dpcg {

using inverse::IS_REMOVED;
using inverse::MAX_UNKNOWNS;
using inverse::NullVectorArgs;

// Computes c for each null vector u, with one thread block. c k^2 is the sum of the diagonal entries of E over the
// unknowns of u, so c u u^T is about as large as E. If u has a single unknown, its diagonal entry and c are zero. 0 is
// then stored instead of 1 / (c k^2), so that t = E^-1 Z^T A p is 0 at this unknown. Any other value would amplify the
// rounding error of u^T Z^T A p.
__device__ inline void find_shifts(const NullVectorArgs &a) {
    for (uint32_t u = 1; u <= *a.null_vector_count; ++u) {
        double vector_count = 0.0, diagonal_sum = 0.0;
        for (int r = threadIdx.x; r < a.n; r += THREADS) {
            const bool is_in_null_vector = (a.null_vector_of[r] & ~IS_REMOVED) == u;
            vector_count += is_in_null_vector ? 1.0 : 0.0;
            diagonal_sum += is_in_null_vector ? a.diagonal[r] : 0.0;
        }
        vector_count = block_sum(vector_count);
        diagonal_sum = block_sum(diagonal_sum);
        if (threadIdx.x != 0) continue;
        const double c = diagonal_sum / (vector_count * vector_count);
        a.shift[2 * u - 2] = c > 0.0 ? 1.0 / (c * vector_count * vector_count) : 0.0;
        a.shift[2 * u - 1] = c;
    }
}

// Computes the two values of `largest`: the largest magnitude of all entries of the inverse `source`, and the largest
// |E_rr + c| of all unknowns r. Here c is the factor of the shift of the null vector that contains unknown r, or 0 if
// there is none.
__device__ inline void find_condition(const NullVectorArgs &a) {
    uint64_t largest_inverse = 0, largest_diagonal = 0;
    for_each_cell(int64_t(a.n) * a.n, [&](int64_t k) {
        largest_inverse = max(largest_inverse, magnitude(a.source[k]));
        if (k >= a.n) return;
        const uint32_t u = a.null_vector_of[k] & ~IS_REMOVED;
        largest_diagonal = max(largest_diagonal, magnitude(a.diagonal[k] + (u > 0 ? a.shift[2 * u - 1] : 0.0)));
    });
    update_largest(a.largest, largest_inverse);
    update_largest(a.largest + 1, largest_diagonal);
}

} // namespace dpcg

DPCG_KERNEL(dpcg_find_shifts_f64, NullVectorArgs, find_shifts)
DPCG_KERNEL(dpcg_find_condition_f64, NullVectorArgs, find_condition)

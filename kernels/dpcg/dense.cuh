// Dense symmetric positive semidefinite matrices in f64, inverted by kernels/common/inverse.cuh: E with up to
// MOST_VECTORS unknowns (src/cuda/launch/dpcg.rs), and the coarsest matrix of multigrid with up to MOST_UNKNOWNS
// unknowns. For each null vector u of E, E + c u u^T is inverted: the term u u^T / (c k^2), with k = u^T u, is added to
// the pseudoinverse.
#pragma once
#include "../common/inverse.cuh"
#include "box.cuh"

namespace dpcg {

using inverse::IS_REMOVED;
using inverse::MAX_UNKNOWNS;
using inverse::NullVectorArgs;

// Computes c for each null vector, with one thread block. c k^2 is the sum of the diagonal entries of E on the null
// vector, so c u u^T is about as large as E. For a null vector that is a single deflation vector, these entries are
// zero, and the entry of t = E^-1 Z^T A p for this vector is set to 0. Any other value would amplify the rounding error
// of u^T Z^T A p.
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

// Computes max |(A^-1)_rs| and max (A_rr + c), where c is the shift of the null vector of unknown r, or 0.
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

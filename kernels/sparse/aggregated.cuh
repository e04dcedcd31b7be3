// Conversion of a matrix in csr for multigrid by aggregation (kernels/aggregation).
#pragma once
#include "../aggregation/aggregation.cuh"
#include "products.cuh"

namespace sparse {

struct CsrCouplingsArgs {
    // On entry, row i has the columns col[k] and the values a[k] for k = row_start[i], ..., row_start[i + 1] - 1.
    aggregation::Couplings c;
    double scale; // a power of two
};

// Replaces the rows of a symmetric matrix in csr by the couplings and row sums of `scale` times this matrix. One thread
// processes a row, so the sums have the order of Couplings::of in src/direct/couplings.rs. The thread loads BATCH
// entries before it stores their couplings, and stores no coupling behind the entry from which it is computed.
__device__ inline void replace_by_couplings(const CsrCouplingsArgs &t) {
    for_each_cell(t.c.rows, [&](int64_t i) {
        const uint32_t start = t.c.row_start[i], end = t.c.row_start[i + 1];
        uint32_t next = start;
        double row_sum = 0.0, coupling_sum = 0.0;
        for (uint64_t k = start; k < end; k += BATCH) {
            uint32_t col[BATCH];
            double value[BATCH];
#pragma unroll
            for (uint32_t b = 0; b < BATCH; b++) {
                col[b] = k + b < end ? t.c.col[k + b] : uint32_t(i);
                value[b] = k + b < end ? t.c.a[k + b] : 0.0;
            }
#pragma unroll
            for (uint32_t b = 0; b < BATCH; b++) {
                const double coupling = -t.scale * value[b];
                row_sum -= coupling;
                if (col[b] == i || value[b] == 0.0) continue;
                coupling_sum += coupling;
                t.c.col[next] = col[b];
                t.c.a[next++] = coupling;
            }
        }
        aggregation::end_row(t.c, uint32_t(i), next - start, row_sum, coupling_sum);
    });
}

} // namespace sparse

SPARSE_KERNEL(sparse_agg_couplings_f64, CsrCouplingsArgs, replace_by_couplings)

AGGREGATION_KERNELS(sparse)

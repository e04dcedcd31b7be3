// Input of the preconditioner by aggregation (kernels/aggregation): compute_couplings converts the matrix to couplings
// and row sums. load_cycle_input and store_cycle_output (kernels/common/vectors.cuh) copy vectors to and from the
// cycle. The rows of the cycle are the cells in natural order.
//
// Memory traffic per cell in single precision, in bytes: compute_couplings reads 32 and writes 96; load_cycle_input
// moves 20; store_cycle_output moves 20.
#pragma once
#include "../aggregation/aggregation.cuh"
#include "box.cuh"

namespace dpcg {

struct CellCouplingsArgs {
    CellBox cells;
    CellMatrix m;
    double scale;             // power of two by which the matrix is multiplied
    double zero_row_sum;      // row sums below this fraction of the center count as zero
    aggregation::Couplings c; // memory for six couplings per row
};

// Converts the matrix with one thread per cell. The columns of a row are ascending. Couplings that leave the box are
// zero, and are omitted.
__device__ inline void compute_couplings(const CellCouplingsArgs &a) {
    const int64_t n = a.cells.north(), t = a.cells.top();
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const int64_t neighbours[6] = {c - t, c - n, c - 1, c + 1, c + n, c + t};
        const double entries[6] = {ldg(a.m.top[c - t]), ldg(a.m.north[c - n]), ldg(a.m.east[c - 1]),
            ldg(a.m.east[c]), ldg(a.m.north[c]), ldg(a.m.top[c])};
        const uint32_t row_start = 6 * uint32_t(c);
        uint32_t length = 0;
        const double center = a.scale * ldg(a.m.center[c]);
        double row_sum = center, coupling_sum = 0.0;
        for (int k = 0; k < 6; ++k) {
            if (entries[k] == 0.0) continue;
            const double coupling = -a.scale * entries[k];
            a.c.col[row_start + length] = uint32_t(neighbours[k]);
            a.c.a[row_start + length++] = coupling;
            row_sum -= coupling;
            coupling_sum += coupling;
        }
        if (fabs(row_sum) <= a.zero_row_sum * center) row_sum = 0.0;
        a.c.row_start[c] = row_start;
        aggregation::end_row(a.c, uint32_t(c), length, row_sum, coupling_sum);
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_agg_couplings_f64, CellCouplingsArgs, compute_couplings)

AGGREGATION_KERNELS(dpcg)

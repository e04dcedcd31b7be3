// Input and output of the preconditioner by aggregation (kernels/aggregation). These kernels convert the matrix to
// couplings and row sums, and copy vectors to and from the cycle. The rows of the cycle are the cells in natural order.
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
    over_cells(a.cells.count(), [&](int64_t c) {
        const int64_t beside[6] = {c - t, c - n, c - 1, c + 1, c + n, c + t};
        const double entries[6] = {fixed(a.m.top[c - t]), fixed(a.m.north[c - n]), fixed(a.m.east[c - 1]),
            fixed(a.m.east[c]), fixed(a.m.north[c]), fixed(a.m.top[c])};
        const uint32_t first = 6 * uint32_t(c);
        uint32_t length = 0;
        const double center = a.scale * fixed(a.m.center[c]);
        double row_sum = center, sum = 0.0;
        for (int k = 0; k < 6; ++k) {
            if (entries[k] == 0.0) continue;
            const double coupling = -a.scale * entries[k];
            a.c.col[first + length] = uint32_t(beside[k]);
            a.c.a[first + length++] = coupling;
            row_sum -= coupling;
            sum += coupling;
        }
        if (fabs(row_sum) <= a.zero_row_sum * center) row_sum = 0.0;
        a.c.first[c] = first;
        aggregation::end_row(a.c, uint32_t(c), length, row_sum, sum);
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_agg_couplings_f64, CellCouplingsArgs, compute_couplings)

AGGREGATION_KERNELS(dpcg)

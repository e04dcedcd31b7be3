// Input and output of the preconditioner by aggregation (kernels/aggregation). These kernels convert the matrix to
// couplings and row sums, and copy vectors to and from the cycle. The rows of the cycle are the cells in natural order.
//
// Memory traffic per cell in single precision, in bytes: take_couplings reads 32 and writes 96; take_cells moves 20;
// give_cells moves 20.
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
__device__ inline void take_couplings(const CellCouplingsArgs &a) {
    const int64_t n = a.cells.north(), t = a.cells.top();
    over_cells(a.cells.count(), [&](int64_t c) {
        const int64_t beside[6] = {c - t, c - n, c - 1, c + 1, c + n, c + t};
        const double entries[6] = {fixed(a.m.top[c - t]), fixed(a.m.north[c - n]), fixed(a.m.east[c - 1]),
            fixed(a.m.east[c]), fixed(a.m.north[c]), fixed(a.m.top[c])};
        const uint32_t first = 6 * uint32_t(c);
        uint32_t length = 0;
        const double center = a.scale * fixed(a.m.center[c]);
        double excess = center, sum = 0.0;
        for (int k = 0; k < 6; ++k) {
            if (entries[k] == 0.0) continue;
            const double coupling = -a.scale * entries[k];
            a.c.col[first + length] = uint32_t(beside[k]);
            a.c.a[first + length++] = coupling;
            excess -= coupling;
            sum += coupling;
        }
        if (fabs(excess) <= a.zero_row_sum * center) excess = 0.0;
        a.c.first[c] = first;
        aggregation::end_row(a.c, uint32_t(c), length, excess, sum);
    });
}

// Arguments of take_cells and give_cells. take_cells divides r by the scale s and computes the first smoothing step.
// give_cells computes z = factor * s * of_z and <r, z>.
template <class V> struct CellCycleArgs {
    int64_t count;
    const double *r;
    double *z;
    const double *scales; // 1 / s and s, where s is a power of two near max |r_i|
    const V *step;
    V *of_r, *start;
    const V *of_z;
    double factor; // power of two by which the matrix of the cycle is multiplied
    Sum sum;       // <r, z>
};

// Computes of_r = r / s and start = step * of_r.
template <class V> __device__ inline void take_cells(const CellCycleArgs<V> &a) {
    const double per_scale = a.scales[0];
    over_cells(a.count, [&](int64_t c) {
        const V r = V(a.r[c] * per_scale);
        a.of_r[c] = r;
        a.start[c] = a.step[c] * r;
    });
}

// Computes z = factor * s * of_z, and the sum <r, z>.
template <class V> __device__ inline void give_cells(const CellCycleArgs<V> &a) {
    if (is_over(a.sum)) return;
    const double factor = a.factor * a.scales[1];
    double sum = 0.0;
    over_cells(a.count, [&](int64_t c) {
        const double z = factor * double(a.of_z[c]);
        a.z[c] = z;
        sum += a.r[c] * z;
    });
    finish_sum(a.sum, sum);
}

} // namespace dpcg

DPCG_KERNEL(dpcg_agg_couplings_f64, CellCouplingsArgs, take_couplings)
DPCG_KERNEL(dpcg_agg_take_f64, CellCycleArgs<double>, take_cells)
DPCG_KERNEL(dpcg_agg_take_f32, CellCycleArgs<float>, take_cells)
DPCG_KERNEL(dpcg_agg_give_f64, CellCycleArgs<double>, give_cells)
DPCG_KERNEL(dpcg_agg_give_f32, CellCycleArgs<float>, give_cells)

AGGREGATION_KERNELS(dpcg)

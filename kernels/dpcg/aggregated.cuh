// M by aggregation (kernels/aggregation): the matrix as couplings and excess, and vectors to and from the cycle, whose
// rows are the cells in their order.
//
// Bytes a cell, in single precision: couplings 32 in and 96 out; take 20; give 20.
#pragma once
#include "../aggregation/aggregation.cuh"
#include "box.cuh"

namespace dpcg {

struct CellCouplingsArgs {
    Box box;
    Matrix m;
    double scale;             // a power of two
    double zero_row_sum;      // row sums within this part of the center are zero
    aggregation::Couplings c; // with room for six couplings a row
};

// One thread a cell, by ascending columns. Couplings that leave the box are zero.
__device__ inline void take_couplings(const CellCouplingsArgs &a) {
    const int64_t n = a.box.north(), t = a.box.top();
    over_cells(a.box.count(), [&](int64_t c) {
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

// A vector of cells to the cycle, over the scale of its largest value, with the first step; and z = `factor` times what
// the cycle makes of it, with <r, z>.
template <class V> struct CellCycleArgs {
    int64_t count;
    const double *r;
    double *z;
    const double *scales; // 1 / s and s
    const V *step;
    V *of_r, *start;
    const V *of_z;
    double factor;
    Sum sum;
};

template <class V> __device__ inline void take_cells(const CellCycleArgs<V> &a) {
    const double per_scale = a.scales[0];
    over_cells(a.count, [&](int64_t c) {
        const V r = V(a.r[c] * per_scale);
        a.of_r[c] = r;
        a.start[c] = a.step[c] * r;
    });
}

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

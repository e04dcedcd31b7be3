// Sums over labelled cells: of singular components, and of deflation regions (Z^T v); and A Z t.
//
// Cells come in chunks of whole rows. A run is consecutive cells of one label in a chunk, a slot all runs of one label
// in one chunk. A warp adds the cells of a slot, four runs at a time; a block adds the slots of a label, in order. Runs
// and slots depend on the matrix alone.
#pragma once
#include "box.cuh"

namespace dpcg {

struct Run {
    uint32_t start, len, label;
};

struct LabelledArgs {
    const Run *runs;
    const uint32_t *slot_start; // runs of slot s: slot_start[s] .. slot_start[s + 1]
    const uint32_t *by_label;   // slots, sorted by label
    const uint32_t *label_start;
    const double *cells; // of each label
    double *sums;        // of each slot: sum, and sum of magnitudes
    double *totals;      // of each label: sum, sum of magnitudes, mean, kept mean
    double *g;           // the sums alone; may be null
    double *v;
    const double *center; // not null: of mean^2 / center in place of v
    uint32_t count;       // runs, slots or labels
    int restore;          // shift to the kept means
    Sum sum;
};

// Adds up each slot. 8 lanes a run: most are short.
__device__ inline void slot_sums(const LabelledArgs &a) {
    if (is_over(a.sum)) return;
    const int lane = threadIdx.x % 8, group = threadIdx.x % 32 / 8;
    for (uint32_t slot = blockIdx.x * WARPS + threadIdx.x / 32; slot < a.count; slot += gridDim.x * WARPS) {
        double sum = 0.0, magnitudes = 0.0;
        for (uint32_t k = a.slot_start[slot] + group; k < a.slot_start[slot + 1]; k += 4) {
            const Run run = a.runs[k];
            const double mean = a.center ? a.totals[4 * int64_t(run.label) + 2] : 0.0;
            for (uint32_t i = lane; i < run.len; i += 8) {
                const int64_t c = int64_t(run.start) + i;
                const double v = a.center ? mean * mean / a.center[c] : a.v[c];
                sum += v;
                magnitudes += fabs(v);
            }
        }
        sum = warp_sum(sum);
        magnitudes = warp_sum(magnitudes);
        if (threadIdx.x % 32 == 0) {
            a.sums[2 * int64_t(slot)] = sum;
            a.sums[2 * int64_t(slot) + 1] = magnitudes;
        }
    }
}

// A block for each label.
__device__ inline void label_sums(const LabelledArgs &a) {
    if (is_over(a.sum)) return;
    for (uint32_t label = blockIdx.x; label < a.count; label += gridDim.x) {
        double sum = 0.0, magnitudes = 0.0;
        for (uint32_t k = a.label_start[label] + threadIdx.x; k < a.label_start[label + 1]; k += THREADS) {
            sum += a.sums[2 * int64_t(a.by_label[k])];
            magnitudes += a.sums[2 * int64_t(a.by_label[k]) + 1];
        }
        sum = block_sum(sum);
        magnitudes = block_sum(magnitudes);
        if (threadIdx.x == 0) {
            double *totals = a.totals + 4 * int64_t(label);
            totals[0] = sum;
            totals[1] = magnitudes;
            totals[2] = sum / a.cells[label];
            if (a.g) a.g[label] = sum;
        }
    }
}

// v -= mean, plus the kept mean with `restore`.
__device__ inline void shift(const LabelledArgs &a) {
    for (uint32_t k = blockIdx.x * WARPS + threadIdx.x / 32; k < a.count; k += gridDim.x * WARPS) {
        const Run run = a.runs[k];
        const double *totals = a.totals + 4 * int64_t(run.label);
        const double to = (a.restore ? totals[3] : 0.0) - totals[2];
        for (uint32_t i = threadIdx.x % 32; i < run.len; i += 32) a.v[int64_t(run.start) + i] += to;
    }
}

// Remembers the means.
__device__ inline void keep_means(const LabelledArgs &a) {
    over_cells(a.count, [&](int64_t label) { a.totals[4 * label + 3] = a.totals[4 * label + 2]; });
}

struct DenseArgs {
    const double *matrix; // by rows
    const double *in;
    double *out;
    int n, unused;
    Sum sum;
};

// out = matrix in, a warp a row: t = E^-1 g. Rows are spread over all blocks; eight entries are on their way at once.
template <class In> __device__ inline void dense_product(const DenseArgs &a) {
    if (is_over(a.sum)) return;
    const In *in = reinterpret_cast<const In *>(a.in);
    const int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    for (int row = threadIdx.x / 32 * gridDim.x + blockIdx.x; row < a.n; row += warps) {
        const double *entries = a.matrix + int64_t(row) * a.n;
        double sum = 0.0;
#pragma unroll 8
        for (int k = lane; k < a.n; k += 32) sum += fixed(entries[k]) * double(in[k]);
        sum = warp_sum(sum);
        if (lane == 0) reinterpret_cast<In *>(a.out)[row] = In(sum);
    }
}

struct DeflatedArgs {
    Box box;
    Matrix m;
    const uint16_t *region; // of each cell, and around them the one whose t is zero: no region
    const double *t;
    double *v;
    const double *p; // of the sum
    Sum sum;
};

// v -= A Z t, from v to P v with t = E^-1 Z^T v; <p, v>. (Tang, Nabben, Vuik and Erlangga 2009.)
__device__ inline void subtract_deflated(const DeflatedArgs &a) {
    if (is_over(a.sum)) return;
    const int64_t n = a.box.north(), t = a.box.top();
    double sum = 0.0;
    over_cells(a.box.count(), [&](int64_t c) {
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

// v += Z t.
__device__ inline void add_deflated(const DeflatedArgs &a) {
    over_cells(a.box.count(), [&](int64_t c) { a.v[c] += a.t[a.region[c]]; });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_slot_sums_f64, LabelledArgs, slot_sums)
DPCG_KERNEL(dpcg_label_sums_f64, LabelledArgs, label_sums)
DPCG_KERNEL(dpcg_shift_f64, LabelledArgs, shift)
DPCG_KERNEL(dpcg_keep_means_f64, LabelledArgs, keep_means)
DPCG_KERNEL(dpcg_dense_f64, DenseArgs, dense_product<double>)
DPCG_KERNEL(dpcg_dense_f32, DenseArgs, dense_product<float>)
DPCG_KERNEL(dpcg_subtract_deflated_f64, DeflatedArgs, subtract_deflated)
DPCG_KERNEL(dpcg_add_deflated_f64, DeflatedArgs, add_deflated)

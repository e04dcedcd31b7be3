// Sums over labelled cells: of singular components, and of deflation regions (Z^T v); and A Z t.
//
// A slot is the cells of one label in a chunk of consecutive cells. A warp adds those of a slot; a block adds the slots
// of a label, in order. Slots depend on the labels alone; they are listed once for a matrix.
#pragma once
#include "box.cuh"

namespace dpcg {

constexpr int CHUNK = 1024;

// Of cells, or of all of them 0.
struct Labels {
    const void *of; // null: all have label 0
    int wide;       // 32 bits, else 16
    uint32_t count; // labels from here on are none
    __device__ uint32_t at(int64_t c) const {
        if (!of) return 0;
        return wide ? static_cast<const uint32_t *>(of)[c] : static_cast<const uint16_t *>(of)[c];
    }
};

struct ListArgs {
    Labels labels;
    int64_t cells;
    uint32_t *chunk_start; // slots of each chunk; after their scan the first one, and the end
    uint32_t *slot_label;  // null: slots are counted
    uint32_t *label_start; // the same of each label
    uint32_t *by_label;    // slots, sorted by label; null: all are of one label
    unsigned long long *cells_of; // of each label
};

// Sum of the threads before this one; `all` of all of them.
__device__ inline uint32_t block_scan(uint32_t v, uint32_t &all) {
    __shared__ uint32_t sums[THREADS];
    const int t = threadIdx.x;
    __syncthreads();
    sums[t] = v;
    for (int d = 1; d < THREADS; d *= 2) {
        __syncthreads();
        const uint32_t before = t >= d ? sums[t - d] : 0;
        __syncthreads();
        sums[t] += before;
    }
    __syncthreads();
    all = sums[THREADS - 1];
    return sums[t] - v;
}

// The labels of each chunk, in the order of their first cells: how many, or which.
__device__ inline void list_slots(const ListArgs &a) {
    constexpr int EACH = CHUNK / THREADS;
    __shared__ uint32_t label[CHUNK], of_run[CHUNK], run_start[CHUNK + 1];
    const int t = threadIdx.x;
    for (int64_t chunk = blockIdx.x; chunk * CHUNK < a.cells; chunk += gridDim.x) {
        const int64_t first = chunk * CHUNK;
        const int len = int(min(int64_t(CHUNK), a.cells - first));
        __syncthreads();
        for (int i = t; i < len; i += THREADS) label[i] = a.labels.at(first + i);
        __syncthreads();
        auto begins = [&](int i) { return i < len && (i == 0 || label[i] != label[i - 1]); };
        uint32_t mine = 0, runs;
        for (int i = EACH * t; i < EACH * (t + 1); ++i) mine += begins(i);
        uint32_t place = block_scan(mine, runs);
        for (int i = EACH * t; i < EACH * (t + 1); ++i) {
            if (!begins(i)) continue;
            of_run[place] = label[i];
            run_start[place++] = i;
        }
        if (t == 0) run_start[runs] = len;
        __syncthreads();
        // Runs of a label that none before has.
        uint32_t place_of_chunk = a.slot_label ? a.chunk_start[chunk] : 0, slots;
        for (uint32_t low = 0; low < runs; low += THREADS) {
            const uint32_t k = low + t, of = k < runs ? of_run[k] : a.labels.count;
            bool is_first = of < a.labels.count;
            if (is_first && a.slot_label) {
                atomicAdd(a.cells_of + of, (unsigned long long)(run_start[k + 1] - run_start[k]));
            }
            for (uint32_t l = 0; l < k && is_first; ++l) is_first = of_run[l] != of;
            const uint32_t place = place_of_chunk + block_scan(is_first, slots);
            place_of_chunk += slots;
            if (!is_first || !a.slot_label) continue;
            a.slot_label[place] = of;
            atomicAdd(a.label_start + of, 1u);
        }
        if (t == 0 && !a.slot_label) a.chunk_start[chunk] = place_of_chunk;
    }
}

struct ScanArgs {
    uint32_t *values; // one more than there are
    int64_t count;
};

// Each becomes the sum of those before it. One block.
__device__ inline void scan(const ScanArgs &a) {
    uint32_t before = 0, all;
    for (int64_t first = 0; first < a.count; first += THREADS) {
        const int64_t k = first + threadIdx.x;
        const uint32_t v = k < a.count ? a.values[k] : 0, sum = before + block_scan(v, all);
        if (k < a.count) a.values[k] = sum;
        before += all;
    }
    if (threadIdx.x == 0) a.values[a.count] = before;
}

// Slots by label, in order. A warp a label.
__device__ inline void sort_slots(const ListArgs &a) {
    constexpr uint32_t AT_ONCE = 8;
    const uint32_t slots = a.chunk_start[(a.cells + CHUNK - 1) / CHUNK], lane = threadIdx.x % 32;
    for (uint32_t label = blockIdx.x * WARPS + threadIdx.x / 32; label < a.labels.count; label += gridDim.x * WARPS) {
        uint32_t next = a.label_start[label];
        for (uint32_t first = lane; next < a.label_start[label + 1]; first += 32 * AT_ONCE) {
            uint32_t of[AT_ONCE];
#pragma unroll
            for (uint32_t q = 0; q < AT_ONCE; ++q) {
                of[q] = first + 32 * q < slots ? fixed(a.slot_label[first + 32 * q]) : a.labels.count;
            }
            for (uint32_t q = 0; q < AT_ONCE; ++q) {
                const int mine = of[q] == label;
                if (!__any_sync(0xffffffffu, mine)) continue;
                uint32_t before = 0, all = 0;
                for (uint32_t k = 0; k < 32; ++k) {
                    const int one = __shfl_sync(0xffffffffu, mine, k);
                    before += k < lane ? one : 0;
                    all += one;
                }
                if (mine) a.by_label[next + before] = first + 32 * q;
                next += all;
            }
        }
    }
}

struct LabelledArgs {
    Labels labels;
    int64_t of; // cells
    const uint32_t *chunk_start, *slot_label, *label_start, *by_label;
    const unsigned long long *cells; // of each label
    double *sums;                    // of each slot: sum, and sum of magnitudes
    double *totals;                  // of each label: sum, sum of magnitudes, mean, kept mean
    double *g;                       // the sums alone; may be null
    double *v;
    const double *center; // not null: of mean^2 / center in place of v
    int restore;    // shift to the kept means
    int magnitudes; // are wanted
    Sum sum;
};

// Adds up each slot. A warp adds the cells of each run in its 32 cells by halves, at the run's last cell; then a warp
// the runs of a slot, a lane those of 32 cells.
__device__ inline void slot_sums(const LabelledArgs &a) {
    if (is_over(a.sum)) return;
    constexpr int EACH = CHUNK / THREADS, WARPFULS = CHUNK / 32;
    constexpr unsigned ALL = 0xffffffffu;
    static_assert(WARPFULS == 32, "a lane for each");
    // Of a lane each row: a value more, so that lanes read from different banks.
    __shared__ double of_run[WARPFULS][33];
    __shared__ uint32_t label[WARPFULS][33];
    __shared__ int runs[WARPFULS];
    const int t = threadIdx.x, lane = t % 32;
    const unsigned up_to_lane = ALL >> (31 - lane);
    for (int64_t chunk = blockIdx.x; chunk * CHUNK < a.of; chunk += gridDim.x) {
        double v[EACH];
        uint32_t of[EACH];
#pragma unroll
        for (int q = 0; q < EACH; ++q) {
            const int64_t c = chunk * CHUNK + THREADS * q + t;
            of[q] = c < a.of ? a.labels.at(c) : a.labels.count;
            v[q] = 0.0;
            if (of[q] >= a.labels.count) continue;
            const double mean = a.center ? a.totals[4 * int64_t(of[q]) + 2] : 0.0;
            v[q] = a.center ? mean * mean / a.center[c] : a.v[c];
        }
        // Sums, then those of magnitudes.
        for (int which = 0; which <= a.magnitudes; ++which) {
#pragma unroll
            for (int q = 0; q < EACH; ++q) {
                const int warpful = (THREADS * q + t) / 32;
                double sum = which == 0 ? v[q] : fabs(v[q]);
                const uint32_t before = __shfl_up_sync(ALL, of[q], 1);
                const unsigned heads = __ballot_sync(ALL, lane == 0 || of[q] != before);
                const int first = 31 - __clz(int(heads & up_to_lane));
                for (int d = 1; d < 32; d *= 2) {
                    const double other = __shfl_up_sync(ALL, sum, d);
                    if (lane - d >= first) sum += other;
                }
                if (lane == 31 || heads >> (lane + 1) & 1) {
                    const int run = __popc(heads & up_to_lane) - 1;
                    of_run[warpful][run] = sum;
                    label[warpful][run] = of[q];
                }
                if (lane == 0) runs[warpful] = __popc(heads);
            }
            __syncthreads();
            for (uint32_t slot = a.chunk_start[chunk] + t / 32; slot < a.chunk_start[chunk + 1]; slot += WARPS) {
                const uint32_t own = a.slot_label[slot];
                double sum = 0.0;
                for (int k = 0; k < runs[lane]; ++k) sum += label[lane][k] == own ? of_run[lane][k] : 0.0;
                sum = warp_sum(sum);
                if (lane == 0) a.sums[2 * int64_t(slot) + which] = sum;
            }
            __syncthreads();
        }
    }
}

// A block for each label.
__device__ inline void label_sums(const LabelledArgs &a) {
    if (is_over(a.sum)) return;
    for (uint32_t label = blockIdx.x; label < a.labels.count; label += gridDim.x) {
        double sum = 0.0, magnitudes = 0.0;
        for (uint32_t k = a.label_start[label] + threadIdx.x; k < a.label_start[label + 1]; k += THREADS) {
            const int64_t slot = a.by_label ? a.by_label[k] : k;
            sum += a.sums[2 * slot];
            if (a.magnitudes) magnitudes += a.sums[2 * slot + 1];
        }
        sum = block_sum(sum);
        magnitudes = block_sum(magnitudes);
        if (threadIdx.x == 0) {
            double *totals = a.totals + 4 * int64_t(label);
            totals[0] = sum;
            totals[1] = magnitudes;
            totals[2] = sum / double(a.cells[label]);
            if (a.g) a.g[label] = sum;
        }
    }
}

// v -= mean, plus the kept mean with `restore`.
__device__ inline void shift(const LabelledArgs &a) {
    over_cells(a.of, [&](int64_t c) {
        const uint32_t label = a.labels.at(c);
        if (label >= a.labels.count) return;
        const double *totals = a.totals + 4 * int64_t(label);
        a.v[c] += (a.restore ? totals[3] : 0.0) - totals[2];
    });
}

// Remembers the means.
__device__ inline void keep_means(const LabelledArgs &a) {
    over_cells(a.labels.count, [&](int64_t label) { a.totals[4 * label + 3] = a.totals[4 * label + 2]; });
}

struct DenseArgs {
    const double *matrix; // by rows
    const double *in;
    double *out;
    int n, unused;
    Sum sum;
};

// out = matrix in, a warp a row, and <in, out> where it is wanted: t = E^-1 g, <g, t>.
template <class In> __device__ inline void dense_product(const DenseArgs &a) {
    if (is_over(a.sum)) return;
    double product = 0.0;
    const In *in = reinterpret_cast<const In *>(a.in);
    const int warps = blockDim.x / 32;
    for (int row = blockIdx.x * warps + threadIdx.x / 32; row < a.n; row += gridDim.x * warps) {
        const double *entries = a.matrix + int64_t(row) * a.n;
        double sum = 0.0;
        for (int k = threadIdx.x % 32; k < a.n; k += 32) sum += fixed(entries[k]) * double(in[k]);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) {
            reinterpret_cast<In *>(a.out)[row] = In(sum);
            product += double(in[row]) * sum;
        }
    }
    finish_sum(a.sum, product);
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

DPCG_KERNEL(dpcg_list_slots_f64, ListArgs, list_slots)
DPCG_KERNEL(dpcg_scan_f64, ScanArgs, scan)
DPCG_KERNEL(dpcg_sort_slots_f64, ListArgs, sort_slots)
DPCG_KERNEL(dpcg_slot_sums_f64, LabelledArgs, slot_sums)
DPCG_KERNEL(dpcg_label_sums_f64, LabelledArgs, label_sums)
DPCG_KERNEL(dpcg_shift_f64, LabelledArgs, shift)
DPCG_KERNEL(dpcg_keep_means_f64, LabelledArgs, keep_means)
DPCG_KERNEL(dpcg_dense_f64, DenseArgs, dense_product<double>)
DPCG_KERNEL(dpcg_dense_f32, DenseArgs, dense_product<float>)
DPCG_KERNEL(dpcg_subtract_deflated_f64, DeflatedArgs, subtract_deflated)
DPCG_KERNEL(dpcg_add_deflated_f64, DeflatedArgs, add_deflated)

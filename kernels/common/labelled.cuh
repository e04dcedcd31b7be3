// Sums over labelled cells, that is, over singular components and over deflation regions (Z^T v). Cells are the values
// of a vector, in any storage.
//
// The cells are divided into slots. All cells of a slot have the same label. `slot_sums` adds the cells of each slot,
// and `label_sums` adds the sums of the slots of each label, in a fixed order. The slots depend on the labels only, and
// are listed once per matrix. Each family has its own slots, and its own kernels `slot_sums` and `shift`
// (kernels/dpcg/labelled.cuh, kernels/rrb/projection.cuh).
#pragma once
#include "scalars.cuh"

namespace labelled {

constexpr int THREADS = 256, WARPS = THREADS / 32;

// Labels of the cells of `dpcg`.
struct CellLabels {
    const void *label_of_cell; // null: all cells have label 0
    int has_32_bit_labels;     // 1: labels have 32 bits; 0: 16 bits
    uint32_t count;            // number of labels; cells with a label of at least `count` are not summed
    __device__ uint32_t at(int64_t c) const {
        if (!label_of_cell) return 0;
        return has_32_bit_labels ? static_cast<const uint32_t *>(label_of_cell)[c]
                                 : static_cast<const uint16_t *>(label_of_cell)[c];
    }
};

// What is summed over the cells of a label: v, |v| or 1 / v.
enum SummandKind { VALUES, MAGNITUDES, INVERSES };

// A slot of `rrb`: consecutive cells.
struct Run {
    int64_t first; // index of the first cell in the vector
    uint32_t len, label;
};

struct Slot; // a slot of `dpcg` (kernels/dpcg/labelled.cuh)

struct LabelledArgs {
    CellLabels labels;
    const Run *runs;   // null in `dpcg`
    int64_t count;     // number of runs; in `dpcg`, number of cells
    const Slot *slots; // null in `rrb`, as are `items` and `index_by_label`
    const uint32_t *items, *index_by_label;
    const uint32_t *label_start;     // index of the first slot of each label; slots are ordered by label
    const unsigned long long *cells; // number of cells of each label
    double *sums;                    // sum of each slot; slots are ordered by label
    double *totals;                  // of each label: sum, sum of magnitudes, mean, stored mean
    double *g;                       // receives the sum of each label; may be null
    void *v;                         // the vector, in double or single precision
    int restores_mean;               // 1: `shift` also adds the stored means
    int summand_kind;
    const Scalars *scalars; // null, or the scalars of a recorded loop: sums are computed only until the loop ends
};

__device__ inline bool is_over(const LabelledArgs &a) { return a.scalars && a.scalars->code != RUNNING; }

// Returns v, |v| or 1 / v, as `summand_kind` states; returns 0 for 1 / 0.
__device__ inline double summand(const LabelledArgs &a, double v) {
    return a.summand_kind == VALUES ? v : a.summand_kind == MAGNITUDES ? fabs(v) : v != 0.0 ? 1.0 / v : 0.0;
}

// Returns the number that `shift` adds to the values of a label: the negative of their mean, plus the stored mean if
// `restores_mean` is set.
__device__ inline double shift_of(const LabelledArgs &a, uint32_t label) {
    const double *totals = a.totals + 4 * int64_t(label);
    return (a.restores_mean ? totals[3] : 0.0) - totals[2];
}

// For each label, adds the sums of its slots. `summand_kind` determines what is stored. VALUES: sum and mean.
// MAGNITUDES: sum of magnitudes. INVERSES: sum of inverses, times the square of the mean from the last call with
// VALUES. A thread block processes a label.
__device__ inline void label_sums(const LabelledArgs &a) {
    if (is_over(a)) return;
    for (uint32_t label = blockIdx.x; label < a.labels.count; label += gridDim.x) {
        double sum = 0.0;
        for (uint32_t k = a.label_start[label] + threadIdx.x; k < a.label_start[label + 1]; k += THREADS) {
            sum += a.sums[k];
        }
        sum = block_sum(sum);
        if (threadIdx.x != 0) continue;
        double *totals = a.totals + 4 * int64_t(label);
        // A label may have no cells.
        if (a.summand_kind == VALUES) totals[2] = a.cells[label] > 0 ? sum / double(a.cells[label]) : 0.0;
        if (a.summand_kind == INVERSES) sum *= totals[2] * totals[2];
        totals[a.summand_kind == MAGNITUDES] = sum;
        if (a.g) a.g[label] = sum;
    }
}

// Copies the means of all labels to the stored means, which `shift` adds with `restores_mean`.
__device__ inline void store_means(const LabelledArgs &a) {
    for_each_cell(a.labels.count, [&](int64_t label) { a.totals[4 * label + 3] = a.totals[4 * label + 2]; });
}

} // namespace labelled

// Defines a kernel that calls labelled::BODY with its ARGS.
#define LABELLED_KERNEL(NAME, ARGS, BLOCKS, ...)                                                                       \
    extern "C" __global__ void __launch_bounds__(labelled::THREADS, BLOCKS) NAME(labelled::ARGS a) {                   \
        labelled::__VA_ARGS__(a);                                                                                      \
    }

// Defines the kernels of a family that sum labelled values. FAMILY is the beginning of their names, and SUMS and SHIFT
// are functions of the family. SUMMING thread blocks of SUMS are resident on a multiprocessor at the same time.
#define LABELLED_KERNELS(FAMILY, SUMS, SHIFT, SUMMING)                                                                 \
    LABELLED_KERNEL(FAMILY##_slot_sums_f64, LabelledArgs, SUMMING, SUMS<double>)                                       \
    LABELLED_KERNEL(FAMILY##_slot_sums_f32, LabelledArgs, SUMMING, SUMS<float>)                                        \
    LABELLED_KERNEL(FAMILY##_label_sums_f64, LabelledArgs, 4, label_sums)                                              \
    LABELLED_KERNEL(FAMILY##_shift_f64, LabelledArgs, 4, SHIFT<double>)                                                \
    LABELLED_KERNEL(FAMILY##_shift_f32, LabelledArgs, 4, SHIFT<float>)                                                 \
    LABELLED_KERNEL(FAMILY##_store_means_f64, LabelledArgs, 4, store_means)

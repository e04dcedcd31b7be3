// Numbering of the components, for matrices with several components or with cells without couplings. Components are
// numbered in the order of their first cells, which are the roots of survey.cuh. list_components is executed twice:
// first it counts the roots in each chunk of CHUNK cells, then it numbers them. Afterwards each cell copies the number
// of its root. The data of a component are integer sums or flags, so they do not depend on the order of the threads.
//
// Bytes per cell: 4 to count the roots, 4 to number them, 40 to number the other cells, 8 for the labels.
#pragma once
#include "labelled.cuh"
#include "survey.cuh"

namespace dpcg {

using labelled::scan_block;
using labelled::CHUNK;

struct CellComponent {
    uint32_t first_cell, cell_count;
    uint32_t is_regular;             // 1: the component has a nonzero row sum
};

struct CellComponentArgs {
    CellBox cells;
    CellMatrix m;
    double zero_row_sum;
    const uint32_t *root; // root of each cell
    uint32_t *component_of_cell; // component of each cell; NO_COMPONENT initially, and for cells without component
    uint32_t *chunk_start; // number of components that begin in each chunk; after the scan, in all previous chunks
    CellComponent *components; // null: the components are only counted
    // Number of each component among the singular components; `regular_label` for regular components.
    const uint32_t *singular_number;
    uint32_t *labels;         // number of the singular component of each cell, or `regular_label`
    uint32_t regular_label, unused;
};

constexpr uint32_t NO_COMPONENT = ~0u;

// If `components` is null, counts the components that begin in each chunk. Otherwise, numbers the components, and
// stores their first cells. A thread block processes a chunk.
__device__ inline void list_components(const CellComponentArgs &a) {
    constexpr int CELLS_PER_THREAD = CHUNK / THREADS;
    const int64_t count = a.cells.count();
    for (int64_t chunk = blockIdx.x; chunk * CHUNK < count; chunk += gridDim.x) {
        const int64_t first_cell = chunk * CHUNK + CELLS_PER_THREAD * threadIdx.x;
        unsigned root_bits = 0;
        for (int q = 0; q < CELLS_PER_THREAD; ++q) {
            const int64_t c = first_cell + q;
            // A root is the first cell of its component. A root without couplings to following cells is an uncoupled
            // cell. Such a cell belongs to no component and is not counted.
            if (c < count && a.root[c] == uint32_t(c) && joins_next_cell(a.m, c, {})) root_bits |= 1u << q;
        }
        uint32_t chunk_total, next_number = scan_block(__popc(root_bits), chunk_total);
        if (!a.components) {
            if (threadIdx.x == 0) a.chunk_start[chunk] = chunk_total;
            continue;
        }
        next_number += a.chunk_start[chunk];
        for (int q = 0; q < CELLS_PER_THREAD; ++q) {
            if (!(root_bits >> q & 1)) continue;
            a.components[next_number] = {uint32_t(first_cell + q), 0, 0};
            a.component_of_cell[first_cell + q] = next_number++;
        }
    }
}

// Stores the component of each cell, and collects the data of the components. A warp processes 32 consecutive cells. It
// adds the data of consecutive cells of one component before it writes the sum to memory. The entries of
// `component_of_cell` at roots are already set: this kernel reads these entries and writes the others.
__device__ inline void number_components(const CellComponentArgs &a) {
    const int64_t count = a.cells.count();
    for_each_segment_cell(count, [&](int64_t c) {
        uint32_t component = NO_COMPONENT;
        if (c < count) {
            const uint32_t root = a.root[c];
            component = a.component_of_cell[root];
            if (root != uint32_t(c)) a.component_of_cell[c] = component;
        }
        const MatrixRow row = component == NO_COMPONENT ? MatrixRow{} : load_row(a.cells, a.m, c);
        const uint32_t sums = __ballot_sync(ALL_LANES, fabs(row.sum()) > a.zero_row_sum * row.center);
        const uint32_t previous_component = __shfl_sync(ALL_LANES, component, lane() > 0 ? lane() - 1 : 0);
        const uint32_t run_starts = __ballot_sync(ALL_LANES, lane() == 0 || component != previous_component);
        if (component == NO_COMPONENT || !(run_starts >> lane() & 1)) return;
        const int length = run_length(run_starts);
        atomicAdd(&a.components[component].cell_count, unsigned(length));
        volatile uint32_t &is_regular = a.components[component].is_regular;
        if ((sums >> lane() & ALL_LANES >> (32 - length)) && !is_regular) is_regular = 1;
    });
}

// Stores in `labels` the singular component of each cell, or `regular_label`.
__device__ inline void label_singular(const CellComponentArgs &a) {
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const uint32_t number = a.component_of_cell[c];
        a.labels[c] = number == NO_COMPONENT ? a.regular_label : a.singular_number[number];
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_list_components_f64, CellComponentArgs, list_components)
DPCG_KERNEL(dpcg_number_components_f64, CellComponentArgs, number_components)
DPCG_KERNEL(dpcg_label_singular_f64, CellComponentArgs, label_singular)

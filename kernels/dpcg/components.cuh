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

using labelled::block_scan;
using labelled::CHUNK;

struct CellComponent {
    uint32_t first, cells; // the first cell, and the number of cells
    uint32_t regular;      // 1: the component has a nonzero row sum
};

struct CellComponentArgs {
    CellBox cells;
    CellMatrix m;
    double zero_row_sum;
    const uint32_t *root;     // root of each cell
    uint32_t *number;         // component of each cell; NO_COMPONENT initially, and for cells without component
    uint32_t *chunk_start;    // number of components that begin in each chunk; after the scan, in all previous chunks
    CellComponent *components; // null: the components are only counted
    const uint32_t *singular; // number of each component among the singular components; `none` for regular components
    uint32_t *labels;         // singular component of each cell
    uint32_t none, unused;
};

constexpr uint32_t NO_COMPONENT = ~0u;

// Counts the components that begin in each chunk if `components` is null. Otherwise, numbers them, and stores their
// first cells. A thread block processes a chunk.
__device__ inline void list_components(const CellComponentArgs &a) {
    constexpr int EACH = CHUNK / THREADS;
    const int64_t count = a.cells.count();
    for (int64_t chunk = blockIdx.x; chunk * CHUNK < count; chunk += gridDim.x) {
        const int64_t first = chunk * CHUNK + EACH * threadIdx.x;
        unsigned begins = 0;
        for (int q = 0; q < EACH; ++q) {
            const int64_t c = first + q;
            // A root is the first cell of its component. A root without couplings to following cells is an uncoupled
            // cell. Such a cell belongs to no component and is not counted.
            if (c < count && a.root[c] == uint32_t(c) && joins_ahead(a.m, c, {})) begins |= 1u << q;
        }
        uint32_t all, next = block_scan(__popc(begins), all);
        if (!a.components) {
            if (threadIdx.x == 0) a.chunk_start[chunk] = all;
            continue;
        }
        next += a.chunk_start[chunk];
        for (int q = 0; q < EACH; ++q) {
            if (!(begins >> q & 1)) continue;
            a.components[next] = {uint32_t(first + q), 0, 0};
            a.number[first + q] = next++;
        }
    }
}

// Numbers all cells, and collects the data of the components. A warp processes 32 consecutive cells. Before it writes
// the data of consecutive cells of one component, it sums them. The roots already have their numbers, so this kernel
// reads only entries of `number` that it does not write.
__device__ inline void number_components(const CellComponentArgs &a) {
    const int64_t count = a.cells.count();
    over_segments(count, [&](int64_t c) {
        uint32_t own = NO_COMPONENT;
        if (c < count) {
            const uint32_t root = a.root[c];
            own = a.number[root];
            if (root != uint32_t(c)) a.number[c] = own;
        }
        const MatrixRow row = own == NO_COMPONENT ? MatrixRow{} : row_of(a.cells, a.m, c);
        const uint32_t sums = __ballot_sync(ALL_LANES, fabs(row.sum()) > a.zero_row_sum * row.center);
        const uint32_t before = __shfl_sync(ALL_LANES, own, lane() > 0 ? lane() - 1 : 0);
        const uint32_t starts = __ballot_sync(ALL_LANES, lane() == 0 || own != before);
        if (own == NO_COMPONENT || !(starts >> lane() & 1)) return;
        const int length = run_length(starts);
        atomicAdd(&a.components[own].cells, unsigned(length));
        volatile uint32_t &regular = a.components[own].regular;
        if ((sums >> lane() & ALL_LANES >> (32 - length)) && !regular) regular = 1;
    });
}

// Stores in `labels` the singular component of each cell, or `none`.
__device__ inline void label_singular(const CellComponentArgs &a) {
    over_cells(a.cells.count(), [&](int64_t c) {
        const uint32_t number = a.number[c];
        a.labels[c] = number == NO_COMPONENT ? a.none : a.singular[number];
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_list_components_f64, CellComponentArgs, list_components)
DPCG_KERNEL(dpcg_number_components_f64, CellComponentArgs, number_components)
DPCG_KERNEL(dpcg_label_singular_f64, CellComponentArgs, label_singular)

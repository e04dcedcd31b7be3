// Components of a matrix that has several, or cells without couplings. They are numbered in the order of their first
// cells, which are their roots (survey.cuh): roots by chunks of cells, twice, for how many come before and for their
// numbers; then every cell asks its root. What is noted of a component is a sum of whole numbers, or set once.
//
// Bytes a cell: 4 to count and 4 to number roots, 40 for the other cells, 8 for labels.
#pragma once
#include "labelled.cuh"
#include "survey.cuh"

namespace dpcg {

struct Component {
    uint32_t first, cells; // the first cell, and how many
    uint32_t regular;      // the sum of a row is not zero
};

struct ComponentArgs {
    Box box;
    Matrix m;
    double zero_row_sum;
    const uint32_t *root;     // of each cell
    uint32_t *number;         // of each cell's component; NO_COMPONENT before, and where there is none
    uint32_t *chunk_start;    // components that begin in each chunk; after their scan those before it
    Component *components;    // null: they are counted
    const uint32_t *singular; // of each component its number among the singular ones; `none` of the others
    uint32_t *labels;         // the same of each cell
    uint32_t none, unused;
};

constexpr uint32_t NO_COMPONENT = ~0u;

// Components, those that begin in a chunk by its block: how many, or which.
__device__ inline void list_components(const ComponentArgs &a) {
    constexpr int EACH = CHUNK / THREADS;
    const int64_t count = a.box.count();
    for (int64_t chunk = blockIdx.x; chunk * CHUNK < count; chunk += gridDim.x) {
        const int64_t first = chunk * CHUNK + EACH * threadIdx.x;
        unsigned begins = 0;
        for (int q = 0; q < EACH; ++q) {
            const int64_t c = first + q;
            // A root is joined to cells after it, or to none.
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

// The component of every cell, and what is noted of it, by runs of a warp's cells. Roots have their numbers: entries of
// others are written.
__device__ inline void number_components(const ComponentArgs &a) {
    const int64_t count = a.box.count();
    over_segments(count, [&](int64_t c) {
        uint32_t own = NO_COMPONENT;
        if (c < count) {
            const uint32_t root = a.root[c];
            own = a.number[root];
            if (root != uint32_t(c)) a.number[c] = own;
        }
        const MatrixRow row = own == NO_COMPONENT ? MatrixRow{} : row_of(a.box, a.m, c);
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

// Labels of singular components.
__device__ inline void label_singular(const ComponentArgs &a) {
    over_cells(a.box.count(), [&](int64_t c) {
        const uint32_t number = a.number[c];
        a.labels[c] = number == NO_COMPONENT ? a.none : a.singular[number];
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_list_components_f64, ComponentArgs, list_components)
DPCG_KERNEL(dpcg_number_components_f64, ComponentArgs, number_components)
DPCG_KERNEL(dpcg_label_singular_f64, ComponentArgs, label_singular)

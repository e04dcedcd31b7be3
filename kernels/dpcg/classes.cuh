// Classes of cells, from which deflation regions are formed (src/deflation/regions.rs). The phase of a cell is its
// label or, without labels, its strong group. A class is the set of cells of one component, one box and one phase. The
// keys of the classes are stored in a hash table with open addressing, whose size is a power of two. The slot of a
// class may differ from run to run, but the data of the class do not. A warp processes 32 consecutive cells, run by
// run. A run consists of consecutive cells with equal keys, of which either all or none are in strong groups.
//
// Memory traffic per cell, in bytes: 8; 4 more with labels; 4 more with several components; 6 more for the region
// numbers.
#pragma once
#include "components.cuh"

namespace dpcg {

struct CellClass {
    uint32_t first, first_heavy; // first cell; first cell in no strong group, or all ones if there is none
    uint32_t cells;
    int32_t unlabelled; // whether the class has no phase
    uint32_t component;
};

struct ClassArgs {
    CellBox cells;
    CellMatrix m;
    const uint32_t *component; // component of each cell (components.cuh); null: a single component
    // For each cell, the root of its strong group, or the cell itself if it is in no group. At a root, IS_GROUP plus
    // the number of the group. Read by group_root and in_group (survey.cuh).
    const uint32_t *group;
    const int32_t *labels; // the caller's labels; null: strong groups are the phases
    int boxes[3];     // number of boxes in each direction
    int by_phase;     // 1: classes distinguish phases; 0: all cells count as cells without phase
    int labelled;     // 1: cells without label belong to no class
    int dilation;     // 1: labels also apply to coupled neighbours without label
    int slots, guard; // size of the hash table; number of guard cells before and after `regions`
    uint64_t *keys;
    uint32_t *first, *first_heavy, *class_cells; // per slot: first, first_heavy and cells of its class (see CellClass)
    uint32_t *class_of_slot;                       // number of the class in each slot, in the order of insertion
    uint32_t *slot_of;                     // slot of each cell; NO_SLOT for cells in no class
    CellClass *classes;
    const uint16_t *region_of_class; // region number of each class, by its number in `class_of_slot`
    uint16_t *regions;       // region of each cell
    int none, unused;        // region number of cells without region
    CellFindings *findings;
};

constexpr uint64_t NO_KEY = ~0ull;
constexpr uint32_t NO_SLOT = ~0u, MOST_CLASSES = 65535;

// Returns the smallest label among the neighbours to which a cell is coupled. Labels are compared as unsigned numbers,
// so that -1 (no label) is the largest.
__device__ inline int32_t neighbour_label(const ClassArgs &a, int64_t c) {
    const int64_t step[3] = {1, a.cells.north(), a.cells.top()};
    const double *forward[3] = {a.m.east, a.m.north, a.m.top};
    uint32_t smallest = ~0u;
    for (int d = 0; d < 3; ++d) {
        if (ldg(forward[d][c]) != 0.0) smallest = min(smallest, uint32_t(a.labels[c + step[d]]));
        if (ldg(forward[d][c - step[d]]) != 0.0) smallest = min(smallest, uint32_t(a.labels[c - step[d]]));
    }
    return int32_t(smallest);
}

// Returns the phase of a cell: its label + 1 or the root of its strong group + 1; 0: no phase, or phases are not
// distinguished.
__device__ inline uint32_t phase_of(const ClassArgs &a, int64_t c) {
    if (!a.by_phase) return 0;
    if (!a.labels) return in_group(a.group, c) ? group_root(a.group, c) + 1 : 0;
    const int32_t label = a.labels[c];
    return uint32_t(label < 0 && a.dilation ? neighbour_label(a, c) : label) + 1;
}

// Returns the box that contains index i, if n cells are divided into `count` boxes.
__device__ inline uint32_t box_of(uint32_t i, int count, int n) {
    const uint64_t product = uint64_t(i) * unsigned(count);
    // In most cases, the 32-bit division suffices, which is much faster.
    return product >> 32 ? uint32_t(product / unsigned(n)) : uint32_t(product) / unsigned(n);
}

__device__ inline uint32_t boxes_of(const ClassArgs &a) { return uint32_t(a.boxes[0]) * a.boxes[1] * a.boxes[2]; }

// Returns the key of a cell. Component and box are in the upper 32 bits, the phase is in the lower 32 bits. The upper
// bits are never all set, so that no key equals NO_KEY: either there are at most MOST_CLASSES components and
// MOST_CLASSES boxes, or there is only one box.
__device__ inline uint64_t key_of(const ClassArgs &a, int64_t c) {
    const uint32_t component = a.component ? a.component[c] : 0;
    if (component == NO_COMPONENT) return NO_KEY;
    const uint32_t phase = phase_of(a, c);
    if (a.labelled && phase == 0) return NO_KEY;
    const uint32_t row = uint32_t(c) / unsigned(a.cells.nx), k = row / unsigned(a.cells.ny);
    const uint32_t x = box_of(uint32_t(c) - row * a.cells.nx, a.boxes[0], a.cells.nx);
    const uint32_t y = box_of(row - k * a.cells.ny, a.boxes[1], a.cells.ny), z = box_of(k, a.boxes[2], a.cells.nz);
    return uint64_t(component * boxes_of(a) + (z * a.boxes[1] + y) * a.boxes[0] + x) << 32 | phase;
}

// Returns the slot of a key; inserts the key if it is new. After there are too many classes, returns an arbitrary slot
// for a new key.
__device__ inline uint32_t slot_of(const ClassArgs &a, uint64_t key) {
    const uint32_t mask = uint32_t(a.slots) - 1;
    uint32_t slot = uint32_t(key * 0x9e3779b97f4a7c15ull >> 32);
    for (;; ++slot) {
        slot &= mask;
        const uint64_t seen = *static_cast<volatile uint64_t *>(a.keys + slot);
        if (seen == key) return slot;
        if (seen != NO_KEY) continue;
        // Threads stop inserting keys as soon as they read that there are too many classes. The table is large enough
        // for all keys that are inserted until then.
        const volatile unsigned long long &classes = a.findings->classes;
        if (classes > MOST_CLASSES) return slot;
        const uint64_t was = atomicCAS(
            reinterpret_cast<unsigned long long *>(a.keys + slot), (unsigned long long)NO_KEY, (unsigned long long)key);
        if (was == NO_KEY) a.class_of_slot[slot] = uint32_t(atomicAdd(&a.findings->classes, 1ull));
        if (was == NO_KEY || was == key) return slot;
    }
}

// Replaces `first` by the minimum of it and c.
__device__ inline void update_first(uint32_t *first, int64_t c) {
    const volatile uint32_t &seen = *first;
    if (uint32_t(c) < seen) atomicMin(first, uint32_t(c));
}

// Determines the class of each cell.
__device__ inline void classify(const ClassArgs &a) {
    const int64_t count = a.cells.count();
    over_segments(count, [&](int64_t c) {
        const uint64_t key = c < count ? key_of(a, c) : NO_KEY;
        const int heavy = c < count && !in_group(a.group, c), before = lane() > 0 ? lane() - 1 : 0;
        // All lanes must execute the shuffles.
        const uint64_t key_before = __shfl_sync(ALL_LANES, key, before);
        const int heavy_before = __shfl_sync(ALL_LANES, heavy, before);
        const bool goes_on = lane() > 0 && key_before == key && heavy_before == heavy;
        const uint32_t starts = ~__ballot_sync(ALL_LANES, goes_on);
        uint32_t slot = NO_SLOT;
        if (!goes_on && key != NO_KEY) {
            slot = slot_of(a, key);
            atomicAdd(a.class_cells + slot, unsigned(run_length(starts)));
            update_first(a.first + slot, c);
            if (heavy) update_first(a.first_heavy + slot, c);
        }
        slot = __shfl_sync(ALL_LANES, slot, lane() - lanes_back(starts));
        if (c < count) a.slot_of[c] = slot;
    });
}

// Copies the data of each class from its slot to `classes`, at the number of the class (`class_of_slot`).
__device__ inline void gather_classes(const ClassArgs &a) {
    over_cells(a.slots, [&](int64_t slot) {
        if (a.keys[slot] == NO_KEY || a.class_of_slot[slot] >= MOST_CLASSES) return;
        const uint64_t key = a.keys[slot];
        a.classes[a.class_of_slot[slot]] = {a.first[slot], a.first_heavy[slot], a.class_cells[slot], uint32_t(key) == 0,
            uint32_t(key >> 32) / boxes_of(a)};
    });
}

// Stores the region number of each cell, and of the guard cells.
__device__ inline void number_cells(const ClassArgs &a) {
    const int64_t count = a.cells.count();
    over_cells(count + 2 * int64_t(a.guard), [&](int64_t position) {
        const int64_t c = position - a.guard;
        const uint32_t slot = c >= 0 && c < count ? a.slot_of[c] : NO_SLOT;
        a.regions[c] = slot == NO_SLOT ? uint16_t(a.none) : a.region_of_class[a.class_of_slot[slot]];
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_classify_f64, ClassArgs, classify)
DPCG_KERNEL(dpcg_gather_classes_f64, ClassArgs, gather_classes)
DPCG_KERNEL(dpcg_number_cells_f64, ClassArgs, number_cells)

// Classes of cells, from which deflation regions are formed (src/deflation/regions.rs). The phase of a cell is its
// label or, without labels, its strong group. A class is the set of cells of one component, one box and one phase. The
// keys of the classes are stored in a hash table with open addressing, whose size is a power of two. The slot of a
// class may differ between executions, but the data of the class do not. A warp processes 32 consecutive cells, run by
// run. A run consists of consecutive cells with equal keys, of which either all or none are in strong groups.
//
// Memory traffic per cell, in bytes: 8; 4 more with labels; 4 more with several components; 6 more for the region
// numbers.
#pragma once
#include "components.cuh"

namespace dpcg {

struct CellClass {
    uint32_t first_cell, first_heavy_cell; // first cell; first cell in no strong group, or all ones if there is none
    uint32_t cell_count;
    int32_t is_unlabelled; // whether the class has no phase
    uint32_t component;
};

struct ClassArgs {
    CellBox cells;
    CellMatrix m;
    const uint32_t *component; // component of each cell (components.cuh); null: a single component
    // For each cell, the root of its strong group, or the cell itself if it is in no group. At a root, GROUP_FLAG plus
    // the number of the group. Read by group_root and is_in_group (survey.cuh).
    const uint32_t *group;
    const int32_t *labels;       // the caller's labels; null: strong groups are the phases
    int boxes[3];                // number of boxes in each direction
    int distinguishes_phases;    // 1: classes distinguish phases; 0: all cells count as cells without phase
    int requires_label;          // 1: cells without label belong to no class
    int dilation;                // 1: a cell without label gets the smallest label of its coupled neighbours
    int slot_count, guard_cells; // size of the hash table; number of guard cells before and after `regions`
    uint64_t *keys;
    // Per slot: first_cell, first_heavy_cell and cell_count of its class (see CellClass).
    uint32_t *first_cell, *first_heavy_cell, *class_cell_count;
    uint32_t *class_of_slot; // number of the class in each slot, in the order of insertion
    uint32_t *slot_of_cell;  // slot of each cell; NO_SLOT for cells in no class
    CellClass *classes;
    const uint16_t *region_of_class; // region number of each class, by its number in `class_of_slot`
    uint16_t *regions;               // region of each cell
    int no_region, unused;           // region number of cells without region
    CellFindings *findings;
};

constexpr uint64_t NO_KEY = ~0ull;
constexpr uint32_t NO_SLOT = ~0u, MAX_CLASSES = 65535;

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
    if (!a.distinguishes_phases) return 0;
    if (!a.labels) return is_in_group(a.group, c) ? group_root(a.group, c) + 1 : 0;
    const int32_t label = a.labels[c];
    return uint32_t(label < 0 && a.dilation ? neighbour_label(a, c) : label) + 1;
}

// Returns the box that contains index i, if n cells are divided into `count` boxes.
__device__ inline uint32_t box_of(uint32_t i, int count, int n) {
    const uint64_t product = uint64_t(i) * unsigned(count);
    // In most cases, the 32-bit division suffices, which is much faster.
    return product >> 32 ? uint32_t(product / unsigned(n)) : uint32_t(product) / unsigned(n);
}

__device__ inline uint32_t box_count(const ClassArgs &a) { return uint32_t(a.boxes[0]) * a.boxes[1] * a.boxes[2]; }

// Returns the key of a cell. Component and box are in the upper 32 bits, the phase is in the lower 32 bits. The upper
// bits are never all set, so that no key equals NO_KEY: either there are at most MAX_CLASSES components and MAX_CLASSES
// boxes, or there is only one box.
__device__ inline uint64_t class_key(const ClassArgs &a, int64_t c) {
    const uint32_t component = a.component ? a.component[c] : 0;
    if (component == NO_COMPONENT) return NO_KEY;
    const uint32_t phase = phase_of(a, c);
    if (a.requires_label && phase == 0) return NO_KEY;
    const uint32_t row = uint32_t(c) / unsigned(a.cells.nx), k = row / unsigned(a.cells.ny);
    const uint32_t x = box_of(uint32_t(c) - row * a.cells.nx, a.boxes[0], a.cells.nx);
    const uint32_t y = box_of(row - k * a.cells.ny, a.boxes[1], a.cells.ny), z = box_of(k, a.boxes[2], a.cells.nz);
    return uint64_t(component * box_count(a) + (z * a.boxes[1] + y) * a.boxes[0] + x) << 32 | phase;
}

// Returns the slot of a key; inserts the key if it is new. If there are already more than MAX_CLASSES classes, does not
// insert a new key, and returns an arbitrary slot for it.
__device__ inline uint32_t find_or_insert_slot(const ClassArgs &a, uint64_t key) {
    const uint32_t mask = uint32_t(a.slot_count) - 1;
    uint32_t slot = uint32_t(key * 0x9e3779b97f4a7c15ull >> 32);
    for (;; ++slot) {
        slot &= mask;
        const uint64_t stored_key = *static_cast<volatile uint64_t *>(a.keys + slot);
        if (stored_key == key) return slot;
        if (stored_key != NO_KEY) continue;
        // Threads stop inserting keys as soon as they read that there are too many classes. The table is large enough
        // for all keys that are inserted until then.
        const volatile unsigned long long &class_count = a.findings->class_count;
        if (class_count > MAX_CLASSES) return slot;
        const uint64_t previous_key = atomicCAS(
            reinterpret_cast<unsigned long long *>(a.keys + slot), (unsigned long long)NO_KEY, (unsigned long long)key);
        if (previous_key == NO_KEY) a.class_of_slot[slot] = uint32_t(atomicAdd(&a.findings->class_count, 1ull));
        if (previous_key == NO_KEY || previous_key == key) return slot;
    }
}

// Computes *minimum = min(*minimum, c) atomically.
__device__ inline void update_minimum(uint32_t *minimum, int64_t c) {
    const volatile uint32_t &current_value = *minimum;
    if (uint32_t(c) < current_value) atomicMin(minimum, uint32_t(c));
}

// Determines the class of each cell.
__device__ inline void classify(const ClassArgs &a) {
    const int64_t count = a.cells.count();
    for_each_segment_cell(count, [&](int64_t c) {
        const uint64_t key = c < count ? class_key(a, c) : NO_KEY;
        const int is_heavy = c < count && !is_in_group(a.group, c), previous_lane = lane() > 0 ? lane() - 1 : 0;
        // All lanes must execute the shuffles.
        const uint64_t previous_key = __shfl_sync(ALL_LANES, key, previous_lane);
        const int previous_is_heavy = __shfl_sync(ALL_LANES, is_heavy, previous_lane);
        const bool continues_run = lane() > 0 && previous_key == key && previous_is_heavy == is_heavy;
        const uint32_t run_starts = ~__ballot_sync(ALL_LANES, continues_run);
        uint32_t slot = NO_SLOT;
        if (!continues_run && key != NO_KEY) {
            slot = find_or_insert_slot(a, key);
            atomicAdd(a.class_cell_count + slot, unsigned(run_length(run_starts)));
            update_minimum(a.first_cell + slot, c);
            if (is_heavy) update_minimum(a.first_heavy_cell + slot, c);
        }
        slot = __shfl_sync(ALL_LANES, slot, lane() - distance_to_bit(run_starts));
        if (c < count) a.slot_of_cell[c] = slot;
    });
}

// Copies the data of each class from its slot to `classes`, at the number of the class (`class_of_slot`).
__device__ inline void gather_classes(const ClassArgs &a) {
    for_each_cell(a.slot_count, [&](int64_t slot) {
        if (a.keys[slot] == NO_KEY || a.class_of_slot[slot] >= MAX_CLASSES) return;
        const uint64_t key = a.keys[slot];
        a.classes[a.class_of_slot[slot]] =
            {a.first_cell[slot], a.first_heavy_cell[slot], a.class_cell_count[slot], uint32_t(key) == 0,
            uint32_t(key >> 32) / box_count(a)};
    });
}

// Stores the region number of each cell, and of the guard cells.
__device__ inline void number_cells(const ClassArgs &a) {
    const int64_t count = a.cells.count();
    for_each_cell(count + 2 * int64_t(a.guard_cells), [&](int64_t position) {
        const int64_t c = position - a.guard_cells;
        const uint32_t slot = c >= 0 && c < count ? a.slot_of_cell[c] : NO_SLOT;
        a.regions[c] = slot == NO_SLOT ? uint16_t(a.no_region) : a.region_of_class[a.class_of_slot[slot]];
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_classify_cells_f64, ClassArgs, classify)
DPCG_KERNEL(dpcg_gather_classes_f64, ClassArgs, gather_classes)
DPCG_KERNEL(dpcg_number_cells_f64, ClassArgs, number_cells)

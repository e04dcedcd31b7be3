// The first look at a matrix: the caller's arrays become ours, and what is found in them.
//
// Components, and groups that strong couplings join, are trees of parents over cells (ECL-CC: J. Jaiganesh, M.
// Burtscher, A high-performance connected components implementation for GPUs, HPDC 2018): the smaller root wins, by
// compare-and-swap, so that in the end the root of a cell is the first cell of its component, whoever hooked whom. The
// cells of a warp's segment, 32 in a row of memory, begin as runs; of the contacts between two runs one is enough.
// Couplings that leave the box are zero: segments need not know where rows end.
//
// Bytes a cell: take 64, look 40 + 8, unite 32 and parents, settle 40, extents 4.
#pragma once
#include "box.cuh"

namespace dpcg {

// What is found. Magnitudes by their bits.
struct Findings {
    uint64_t unusual; // an entry is not finite, or a center is none
    uint64_t center_max;
    uint64_t smallest[3], largest[3]; // couplings of each direction that are not zero
    uint64_t outward[3];              // entries that point out of the box
    uint64_t first_outward;           // the first of them: row by row, in a row array by array
    uint64_t row_sum;                 // largest sum of |L D^-1| over a row
    double strength[3];               // sums over rows of the couplings of each direction over the center
    unsigned long long alone, components, regular; // cells without couplings; components; joined rows with sums
    unsigned long long groups;                     // of strong couplings
    unsigned long long classes;                    // classes.cuh
    unsigned ticket, unused;
};

struct SurveyArgs {
    Box box;
    Array input[4]; // center, east, north, top: the caller's, or ours
    double *to[4];
    double zero_row_sum; // row sums within this part of the center are none
    uint32_t *component, *group; // parent of each cell
    uint32_t *extents;           // of the first MOST_GROUPS groups
    double *partial;             // 3 values a block
    Findings *findings;
    __device__ Matrix matrix() const { return {to[0], to[1], to[2], to[3]}; }
};

// Groups whose extents are noted.
constexpr uint32_t MOST_GROUPS = 1000;
// A coupling is strong when it is so many times the smallest one of its direction (src/grid/cell_components.rs).
constexpr double STRONG = 30.0;
// The parent of a group's root is its number with this bit: the parents of all cells in groups are other cells'.
constexpr uint32_t IS_GROUP = 1u << 31;

constexpr uint64_t INFINITE = 0x7ff0000000000000ull, SMALLEST_NORMAL = 1ull << 52;
constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ inline int lane() { return threadIdx.x % 32; }
// Lanes from here back to the last one, up to this, that has a bit.
__device__ inline int lanes_back(uint32_t bits) { return __clz(bits << (31 - lane())); }

// Calls f(c) with this warp's segments; places from `count` on are not there.
template <class F> __device__ inline void over_segments(int64_t count, F f) {
    for (int64_t first = 32 * (int64_t(blockIdx.x) * WARPS + threadIdx.x / 32); first < count;
         first += 32 * int64_t(gridDim.x) * WARPS)
        f(first + lane());
}

// The sum of a block's threads, to `place`.
__device__ inline void note_count(unsigned long long *place, unsigned n) {
    __shared__ unsigned sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (n) atomicAdd(&sum, n);
    __syncthreads();
    if (threadIdx.x == 0 && sum) atomicAdd(place, (unsigned long long)sum);
}

// The smallest of a block's threads, to `place`.
__device__ inline void note_smallest(uint64_t *place, uint64_t v) {
    __shared__ unsigned long long smallest;
    if (threadIdx.x == 0) smallest = ~0ull;
    __syncthreads();
    if (v != ~0ull) atomicMin(&smallest, (unsigned long long)v);
    __syncthreads();
    if (threadIdx.x == 0 && smallest != ~0ull) atomic_min(place, smallest);
}

// The arrays become ours, zero where entries leave the box.
__device__ inline void take(const SurveyArgs &a) {
    Findings &f = *a.findings;
    const int size[3] = {a.box.nx, a.box.ny, a.box.nz};
    uint64_t center_max = 0, smallest[3], largest[3] = {0, 0, 0}, first_outward = ~0ull;
    unsigned outward[3] = {0, 0, 0}, unusual = 0;
    for (int d = 0; d < 3; ++d) smallest[d] = ~0ull;
    over_places(a.box, [&](int64_t c, int i, int j, int k) {
        const double center = *a.input[0].at(i, j, k);
        a.to[0][c] = center;
        center_max = max(center_max, magnitude(center));
        unusual |= !(center > 0.0 && magnitude(center) >= SMALLEST_NORMAL && is_finite(center));
        const int at[3] = {i, j, k};
        for (int d = 0; d < 3; ++d) {
            const double v = *a.input[d + 1].at(i, j, k);
            const uint64_t m = magnitude(v);
            const bool inside = at[d] + 1 < size[d];
            a.to[d + 1][c] = inside ? v : 0.0;
            if (inside) {
                unusual |= m >= INFINITE;
                largest[d] = max(largest[d], m);
                if (m) smallest[d] = min(smallest[d], m);
            } else if (m && m <= INFINITE) {
                ++outward[d];
                first_outward = min(first_outward, ((uint64_t(k) * size[1] + j) * 3 + d) * size[0] + i);
            }
        }
    });
    if (unusual) f.unusual = 1;
    note_largest(&f.center_max, center_max);
    note_smallest(&f.first_outward, first_outward);
    for (int d = 0; d < 3; ++d) {
        note_largest(&f.largest[d], largest[d]);
        note_smallest(&f.smallest[d], smallest[d]);
        note_count(reinterpret_cast<unsigned long long *>(&f.outward[d]), outward[d]);
    }
}

// Couplings above these join the cells of a component, and of a group.
struct Limits {
    double component, group[3];
};
__device__ inline Limits limits_of(const Findings &f) {
    Limits limits = {0.0, {0.0, 0.0, 0.0}};
    for (int d = 0; d < 3; ++d)
        limits.group[d] = f.smallest[d] == ~0ull ? 0.0 : STRONG * __longlong_as_double(f.smallest[d]);
    return limits;
}

// The first cell of the run of a segment that a lane is in; `joined`: to the lane before.
__device__ inline uint32_t run_start(int64_t c, bool joined) {
    return uint32_t(c) - lanes_back(~__ballot_sync(ALL_LANES, joined && lane() > 0));
}

// Row sums, and what is made of rows; runs.
__device__ inline void look(const SurveyArgs &a) {
    Findings &f = *a.findings;
    const Limits limits = limits_of(f);
    const Matrix m = a.matrix();
    const int64_t count = a.box.count(), n = a.box.north(), t = a.box.top();
    double strength[3] = {0.0, 0.0, 0.0};
    uint64_t row_sum = 0;
    unsigned alone = 0, regular = 0;
    over_segments(count, [&](int64_t c) {
        double west = 0.0;
        if (c < count) {
            const double center = fixed(m.center[c]);
            const double forward[3] = {fixed(m.east[c]), fixed(m.north[c]), fixed(m.top[c])};
            const double back[3] = {fixed(m.east[c - 1]), fixed(m.north[c - n]), fixed(m.top[c - t])};
            const double *before[3] = {m.center + c - 1, m.center + c - n, m.center + c - t};
            west = back[0];
            double sum = center, quotients = 0.0;
            bool joined = false;
            for (int d = 0; d < 3; ++d) {
                sum = sum + forward[d] + back[d];
                strength[d] -= (forward[d] + back[d]) / center;
                if (back[d] != 0.0) quotients += fabs(back[d]) / fixed(*before[d]);
                joined |= forward[d] != 0.0 || back[d] != 0.0;
            }
            row_sum = max(row_sum, magnitude(quotients));
            alone += !joined;
            regular += joined && fabs(sum) > a.zero_row_sum * center;
        }
        const uint32_t component = run_start(c, fabs(west) > limits.component);
        const uint32_t group = run_start(c, fabs(west) > limits.group[0]);
        if (c >= count) return;
        a.component[c] = component;
        a.group[c] = group;
    });
    note_largest(&f.row_sum, row_sum);
    note_count(&f.alone, alone);
    note_count(&f.regular, regular);
    for (int d = 0; d < 3; ++d) {
        const double sum = block_sum(strength[d]);
        if (threadIdx.x == 0) a.partial[d * MOST_BLOCKS + blockIdx.x] = sum;
    }
    if (!last_block(&f.ticket)) return;
    for (int d = 0; d < 3; ++d) {
        const double sum = sum_of(a.partial + d * MOST_BLOCKS, gridDim.x);
        if (threadIdx.x == 0) f.strength[d] = sum;
    }
}

__device__ inline uint32_t root_of(volatile uint32_t *parent, uint32_t cell) {
    uint32_t up = parent[cell];
    while (up != cell && !(up & IS_GROUP)) {
        const uint32_t above = parent[up];
        // Shorter, at a cell that is no root any more and that nobody else hooks.
        if (above < up) atomicMin(const_cast<uint32_t *>(parent) + cell, above);
        cell = up;
        up = above;
    }
    return cell;
}

__device__ inline void join(uint32_t *parent, uint32_t a, uint32_t b) {
    a = root_of(parent, a);
    b = root_of(parent, b);
    while (a != b) {
        const uint32_t low = min(a, b), high = max(a, b), was = atomicCAS(parent + high, high, low);
        if (was == high) return;
        // Somebody else has hooked it.
        a = root_of(parent, was);
        b = low;
    }
}

// Joins runs. `west`: this cell is joined to the one before; `ahead` and `ahead_west`: to that of the row, or plane,
// after, and that one to the one before it.
__device__ inline void join_ahead(uint32_t *parent, int64_t c, int64_t step, bool west, bool ahead, bool ahead_west) {
    const uint32_t contacts = __ballot_sync(ALL_LANES, ahead);
    const bool known = lane() > 0 && west && ahead_west && (contacts >> (lane() - 1) & 1);
    if (ahead && !known) join(parent, uint32_t(c), uint32_t(c + step));
}

__device__ inline void unite(const SurveyArgs &a) {
    const Limits limits = limits_of(*a.findings);
    const Matrix m = a.matrix();
    const int64_t count = a.box.count(), n = a.box.north(), t = a.box.top();
    over_segments(count, [&](int64_t c) {
        double west = 0.0, ahead[2] = {0.0, 0.0}, ahead_west[2] = {0.0, 0.0};
        const int64_t step[2] = {n, t};
        if (c < count) {
            west = fabs(fixed(m.east[c - 1]));
            ahead[0] = fabs(fixed(m.north[c]));
            ahead[1] = fabs(fixed(m.top[c]));
            for (int d = 0; d < 2; ++d)
                if (ahead[d] != 0.0) ahead_west[d] = fabs(fixed(m.east[c + step[d] - 1]));
        }
        if (lane() == 0 && west > limits.component) join(a.component, uint32_t(c - 1), uint32_t(c));
        if (lane() == 0 && west > limits.group[0]) join(a.group, uint32_t(c - 1), uint32_t(c));
        for (int d = 0; d < 2; ++d) {
            const double to_component = limits.component, to_group = limits.group[0];
            join_ahead(a.component, c, step[d], west > to_component, ahead[d] > to_component,
                ahead_west[d] > to_component);
            join_ahead(a.group, c, step[d], west > to_group, ahead[d] > limits.group[d + 1], ahead_west[d] > to_group);
        }
    });
}

// Every cell's parent becomes its root; roots with another cell are counted.
__device__ inline void settle(const SurveyArgs &a) {
    Findings &f = *a.findings;
    const Limits limits = limits_of(f);
    const Matrix m = a.matrix();
    unsigned components = 0;
    over_cells(a.box.count(), [&](int64_t c) {
        const uint32_t cell = uint32_t(c);
        const double forward[3] = {fabs(fixed(m.east[c])), fabs(fixed(m.north[c])), fabs(fixed(m.top[c]))};
        const uint32_t component = root_of(a.component, cell), group = root_of(a.group, cell);
        bool joins = false, strongly = false;
        for (int d = 0; d < 3; ++d) {
            joins |= forward[d] > limits.component;
            strongly |= forward[d] > limits.group[d];
        }
        if (component != cell) a.component[c] = component;
        else components += joins;
        if (group != cell) a.group[c] = group;
        else if (strongly) a.group[c] = IS_GROUP | min(uint32_t(atomicAdd(&f.groups, 1ull)), MOST_GROUPS);
    });
    note_count(&f.components, components);
}

// The root of a cell's group, or the cell where it is in none.
__device__ inline uint32_t group_root(const uint32_t *group, int64_t c) {
    return group[c] & IS_GROUP ? uint32_t(c) : group[c];
}
__device__ inline bool in_group(const uint32_t *group, int64_t c) { return group[c] != uint32_t(c); }

// The extents of groups: the first cell in each direction, and the complement of the last one.
__device__ inline void extents(const SurveyArgs &a) {
    over_places(a.box, [&](int64_t c, int i, int j, int k) {
        if (!in_group(a.group, c)) return;
        const uint32_t number = a.group[group_root(a.group, c)] & ~IS_GROUP;
        if (number >= MOST_GROUPS) return;
        const unsigned at[6] = {unsigned(i), unsigned(j), unsigned(k), ~unsigned(i), ~unsigned(j), ~unsigned(k)};
        for (int d = 0; d < 6; ++d) {
            const volatile uint32_t &seen = a.extents[6 * number + d];
            if (at[d] < seen) atomicMin(a.extents + 6 * number + d, at[d]);
        }
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_take_f64, SurveyArgs, take)
DPCG_KERNEL(dpcg_look_f64, SurveyArgs, look)
DPCG_KERNEL(dpcg_unite_f64, SurveyArgs, unite)
DPCG_KERNEL(dpcg_settle_f64, SurveyArgs, settle)
DPCG_KERNEL(dpcg_extents_f64, SurveyArgs, extents)

// Survey of a matrix. These kernels copy the caller's arrays, and find components, strong groups and extreme values.
//
// Components, and groups of cells that strong couplings connect, are trees of parents over the cells
// (kernels/common/forest.cuh). The root of a cell is the first cell of its component or group.
//
// A warp processes segments of 32 consecutive cells. `inspect_rows` joins the cells of each segment to runs, and
// `unite` joins the runs. If several couplings connect two runs, only one of these contacts is used. Couplings that
// leave the box are zero, so segments may extend over the ends of rows.
//
// Memory traffic per cell of the kernels, in bytes: copy 64, inspect_rows 40, unite 24, settle 16, extents 4, hidden
// 12.
#pragma once
#include "../common/forest.cuh"
#include "box.cuh"

namespace dpcg {

using forest::join;
using forest::root_of;

// Results of the survey. Magnitudes are stored as bit patterns.
struct CellFindings {
    uint64_t unusual; // 1: an entry is not finite, or a center is not a positive normal number
    uint64_t center_max;
    uint64_t smallest[3], largest[3]; // magnitudes of the nonzero couplings of each direction
    uint64_t outward[3];              // number of entries that point out of the box
    uint64_t first_outward;           // the first of these, ordered by row of cells, then array, then column
    uint64_t row_sum;                 // largest row sum of |L D^-1|
    double strength[3];               // per direction, the sum over rows of -couplings / center
    // Numbers of uncoupled cells, of components, and of coupled cells with a nonzero row sum.
    unsigned long long alone, components, regular;
    unsigned long long groups;                     // number of groups of strong couplings
    unsigned long long classes;                    // number of classes of cells (classes.cuh)
    unsigned long long hidden;                     // number of groups that are hidden from coarse grids
    unsigned ticket, unused;
};

struct SurveyArgs {
    CellBox cells;
    CellArray input[4]; // center, east, north, top: the caller's arrays, or their copies on the device
    double *to[4];
    double zero_row_sum; // row sums below this fraction of the center count as zero
    uint32_t *component, *group; // parent of each cell in the trees of components and of groups
    uint32_t *extents;           // extents of the first MOST_GROUPS groups
    double *partial;             // 3 values per thread block
    CellFindings *findings;
    uint32_t *coarsest_points; // at the root of each group: coarsest grid with points in it, and their number
    int grids, step;  // number of coarse grids; step of `hidden`
    __device__ CellMatrix matrix() const { return {to[0], to[1], to[2], to[3]}; }
};

// Largest number of groups whose extents are stored.
constexpr uint32_t MOST_GROUPS = 1000;
// A coupling is strong if it exceeds this multiple of the smallest coupling of its direction
// (src/stencil/cell_components.rs).
constexpr double STRONG = 30.0;
// After `settle`, the entry of `group` at the root of a group is the number of the group, at most MOST_GROUPS, with
// this bit set. The entry of any other cell is its root. A cell in no group is its own root.
constexpr uint32_t IS_GROUP = forest::IS_ROOT;

constexpr uint64_t INFINITE = 0x7ff0000000000000ull, SMALLEST_NORMAL = 1ull << 52;
constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ inline int lane() { return threadIdx.x % 32; }
// Finds the last lane up to and including this lane whose bit is set, and returns the distance from it to this lane.
__device__ inline int lanes_back(uint32_t bits) { return __clz(bits << (31 - lane())); }

// Returns the length of the run that starts at this lane; the bits of `starts` mark the first lanes of runs.
__device__ inline int run_length(uint32_t starts) {
    const uint32_t after = lane() == 31 ? 0 : starts >> (lane() + 1);
    return after ? __ffs(after) : 32 - lane();
}

// Calls f(c) for the cells of the segments of this warp. f must ignore indices c >= `count`.
template <class F> __device__ inline void over_segments(int64_t count, F f) {
    for (int64_t first = 32 * (int64_t(blockIdx.x) * WARPS + threadIdx.x / 32); first < count;
         first += 32 * int64_t(gridDim.x) * WARPS)
        f(first + lane());
}

// Adds the sum of n over the threads of a thread block to the value at `to`.
__device__ inline void add_count(unsigned long long *to, unsigned n) {
    __shared__ unsigned sum;
    __syncthreads();
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (n) atomicAdd(&sum, n);
    __syncthreads();
    if (threadIdx.x == 0 && sum) atomicAdd(to, (unsigned long long)sum);
}

// Replaces the value at `to` by the minimum of it and of v over all threads of the thread block.
__device__ inline void update_smallest(uint64_t *to, uint64_t v) {
    __shared__ unsigned long long smallest;
    __syncthreads();
    if (threadIdx.x == 0) smallest = ~0ull;
    __syncthreads();
    if (v != ~0ull) atomicMin(&smallest, (unsigned long long)v);
    __syncthreads();
    if (threadIdx.x == 0 && smallest != ~0ull) atomic_min(to, smallest);
}

// Copies the caller's arrays; entries that leave the box become zero. Also finds extreme and unusual entries.
__device__ inline void copy_matrix(const SurveyArgs &a) {
    CellFindings &f = *a.findings;
    const int size[3] = {a.cells.nx, a.cells.ny, a.cells.nz};
    uint64_t center_max = 0, smallest[3], largest[3] = {0, 0, 0}, first_outward = ~0ull;
    unsigned outward[3] = {0, 0, 0}, unusual = 0;
    for (int d = 0; d < 3; ++d) smallest[d] = ~0ull;
    over_places(a.cells, [&](int64_t c, int i, int j, int k) {
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
    update_largest(&f.center_max, center_max);
    update_smallest(&f.first_outward, first_outward);
    for (int d = 0; d < 3; ++d) {
        update_largest(&f.largest[d], largest[d]);
        update_smallest(&f.smallest[d], smallest[d]);
        add_count(reinterpret_cast<unsigned long long *>(&f.outward[d]), outward[d]);
    }
}

// Data to find components or groups: the parent of each cell, and, for each direction, the limit above which a coupling
// joins two cells.
struct Forest {
    uint32_t *parent;
    double limit[3];
};
constexpr int COMPONENTS = 0, GROUPS = 1;
__device__ inline Forest forest_of(const SurveyArgs &a, int which) {
    if (which == COMPONENTS) return {a.component, {0.0, 0.0, 0.0}};
    Forest groups = {a.group, {0.0, 0.0, 0.0}};
    const CellFindings &f = *a.findings;
    for (int d = 0; d < 3; ++d)
        if (f.smallest[d] != ~0ull) groups.limit[d] = STRONG * __longlong_as_double(f.smallest[d]);
    return groups;
}

// Entries of a row of the matrix.
struct MatrixRow {
    double center, forward[3], back[3];
    __device__ double sum() const {
        double sum = center;
        for (int d = 0; d < 3; ++d) sum = sum + forward[d] + back[d];
        return sum;
    }
};
__device__ inline MatrixRow row_of(const CellBox &box, const CellMatrix &m, int64_t c) {
    const int64_t n = box.north(), t = box.top();
    return {ldg(m.center[c]), {ldg(m.east[c]), ldg(m.north[c]), ldg(m.top[c])},
        {ldg(m.east[c - 1]), ldg(m.north[c - n]), ldg(m.top[c - t])}};
}

// Returns the first cell of the run that contains the cell of this lane. `joined`: whether this cell is joined to the
// previous cell.
__device__ inline uint32_t run_start(int64_t c, bool joined) {
    return uint32_t(c) - lanes_back(~__ballot_sync(ALL_LANES, joined && lane() > 0));
}

// Computes the statistics of the rows (`row_sum`, `strength`, `alone` and `regular` of CellFindings). Also joins
// adjacent connected cells into runs: a warp processes a segment of 32 consecutive cells, and joins cells of this
// segment only.
__device__ inline void inspect_rows(const SurveyArgs &a) {
    CellFindings &f = *a.findings;
    const Forest forests[2] = {forest_of(a, COMPONENTS), forest_of(a, GROUPS)};
    const CellMatrix m = a.matrix();
    const int64_t count = a.cells.count(), n = a.cells.north(), t = a.cells.top();
    double strength[3] = {0.0, 0.0, 0.0};
    uint64_t row_sum = 0;
    unsigned alone = 0, regular = 0;
    over_segments(count, [&](int64_t c) {
        MatrixRow row = {};
        const double *back = row.back;
        if (c < count) {
            row = row_of(a.cells, m, c);
            const double *before[3] = {m.center + c - 1, m.center + c - n, m.center + c - t};
            double quotients = 0.0;
            bool joined = false;
            for (int d = 0; d < 3; ++d) {
                strength[d] -= (row.forward[d] + back[d]) / row.center;
                if (back[d] != 0.0) quotients += fabs(back[d]) / ldg(*before[d]);
                joined |= fabs(row.forward[d]) > 0.0 || fabs(back[d]) > 0.0;
            }
            row_sum = max(row_sum, magnitude(quotients));
            alone += !joined;
            regular += joined && fabs(row.sum()) > a.zero_row_sum * row.center;
        }
#pragma unroll
        for (const Forest &forest : forests) {
            const bool west = fabs(back[0]) > forest.limit[0];
            const uint32_t start = run_start(c, west);
            if (c >= count) continue;
            // The cells of a run become children of its first cell. If the first cell is joined to its neighbour to the
            // south or to the bottom, or to the west in the previous segment, it becomes a child of this neighbour.
            forest.parent[c] = start != uint32_t(c) ? start
                : fabs(back[1]) > forest.limit[1]   ? uint32_t(c - n)
                : fabs(back[2]) > forest.limit[2]   ? uint32_t(c - t)
                : west                              ? uint32_t(c - 1)
                                                    : uint32_t(c);
        }
    });
    update_largest(&f.row_sum, row_sum);
    add_count(&f.alone, alone);
    add_count(&f.regular, regular);
    sums_of_blocks(strength, a.partial, &f.ticket, f.strength);
}

// Joins the trees that `inspect_rows` has not joined. A contact is a coupling that joins two cells. A contact between
// two cells may be omitted if both cells are joined to preceding cells between which there is another contact. The
// preceding cells are:
// - for a contact within a plane: the previous cells of the two segments;
// - for a contact between planes: the previous cells of the two segments, or the cells of the previous row;
// - for a contact between segments: the cells of the previous row or plane.
// No two contacts are omitted because of each other.
__device__ inline void unite(const SurveyArgs &a) {
    const Forest forests[2] = {forest_of(a, COMPONENTS), forest_of(a, GROUPS)};
    const CellMatrix m = a.matrix();
    const int64_t count = a.cells.count(), n = a.cells.north(), t = a.cells.top();
    over_segments(count, [&](int64_t c) {
        double west = 0.0, north = 0.0, top = 0.0, west_north = 0.0, west_top = 0.0;
        if (c < count) {
            west = fabs(ldg(m.east[c - 1]));
            north = fabs(ldg(m.north[c]));
            top = fabs(ldg(m.top[c]));
            if (north != 0.0) west_north = fabs(ldg(m.east[c + n - 1]));
            if (top != 0.0) west_top = fabs(ldg(m.east[c + t - 1]));
        }
#pragma unroll
        for (const Forest &forest : forests) {
            const double *limit = forest.limit;
            auto x = [&](int64_t cell) { return fabs(ldg(m.east[cell])) > limit[0]; };
            auto y = [&](int64_t cell) { return fabs(ldg(m.north[cell])) > limit[1]; };
            auto z = [&](int64_t cell) { return fabs(ldg(m.top[cell])) > limit[2]; };
            const bool joined = west > limit[0], to_north = north > limit[1], to_top = top > limit[2];
            // Whether this cell is in the same run as the previous cell. The next two variables state the same for its
            // neighbours to the north and to the top.
            const bool goes_on = lane() > 0 && joined;
            const bool north_goes_on = (c + n) % 32 > 0 && west_north > limit[0];
            const bool top_goes_on = (c + t) % 32 > 0 && west_top > limit[0];
            const uint32_t norths = __ballot_sync(ALL_LANES, to_north), tops = __ballot_sync(ALL_LANES, to_top);
            const int before = lane() > 0 ? lane() - 1 : 0;
            // If the neighbour to the north is the first cell of a run, `inspect_rows` has already joined it to this
            // cell.
            if (to_north && north_goes_on && !(goes_on && (norths >> before & 1)))
                join(forest.parent, uint32_t(c), uint32_t(c + n));
            if (to_top && !(top_goes_on && goes_on && (tops >> before & 1))) {
                const bool from_south = y(c + t - n);
                const bool hooked = !top_goes_on && !from_south;
                if (!hooked && !(from_south && y(c - n) && z(c - n))) join(forest.parent, uint32_t(c), uint32_t(c + t));
            }
            if (lane() == 0 && joined) {
                const bool from_south = y(c - n), from_bottom = z(c - t);
                const bool hooked = !from_south && !from_bottom;
                const bool known = (from_south && y(c - n - 1) && x(c - n - 1)) ||
                    (from_bottom && z(c - t - 1) && x(c - t - 1));
                if (!hooked && !known) join(forest.parent, uint32_t(c - 1), uint32_t(c));
            }
        }
    });
}

// Returns whether a cell is joined to the next cell in at least one direction.
__device__ inline bool joins_ahead(const CellMatrix &m, int64_t c, const Forest &forest) {
    return fabs(ldg(m.east[c])) > forest.limit[0] || fabs(ldg(m.north[c])) > forest.limit[1] ||
        fabs(ldg(m.top[c])) > forest.limit[2];
}

// Returns the root of a cell. If its parent is the first cell of a run in the same segment, the cell uses the root that
// the parent finds.
__device__ inline uint32_t root_in_segment(uint32_t *parent, int64_t c, int64_t count) {
    const int64_t first = c - lane();
    const uint32_t up = c < count ? parent[c] : 0;
    const uint32_t inside = __ballot_sync(ALL_LANES, c < count && up >= first && up < c);
    const bool asks = (inside >> lane() & 1) && !(inside >> (up - first) & 1);
    const uint32_t root = asks || c >= count ? 0 : root_of(parent, uint32_t(c));
    return __shfl_sync(ALL_LANES, root, asks ? int(up - first) : lane());
}

// Sets the parent of each cell to its root. Counts the components and groups of two or more cells, and numbers the
// groups.
__device__ inline void settle(const SurveyArgs &a) {
    CellFindings &f = *a.findings;
    const CellMatrix m = a.matrix();
    const int64_t count = a.cells.count();
    unsigned components = 0;
    for (int which = COMPONENTS; which <= GROUPS; ++which) {
        const Forest forest = forest_of(a, which);
        over_segments(count, [&](int64_t c) {
            const uint32_t root = root_in_segment(forest.parent, c, count);
            if (c >= count) return;
            if (root != uint32_t(c)) {
                forest.parent[c] = root;
                return;
            }
            if (!joins_ahead(m, c, forest)) return;
            if (which == COMPONENTS) ++components;
            else forest.parent[c] = IS_GROUP | min(uint32_t(atomicAdd(&f.groups, 1ull)), MOST_GROUPS);
        });
    }
    add_count(&f.components, components);
}

// Returns the root of a cell's group, or the cell itself if it is in no group.
__device__ inline uint32_t group_root(const uint32_t *group, int64_t c) {
    return group[c] & IS_GROUP ? uint32_t(c) : group[c];
}
__device__ inline bool in_group(const uint32_t *group, int64_t c) { return group[c] != uint32_t(c); }

// Computes the extents of the groups: smallest index in each direction, and bitwise complement of the largest index.
__device__ inline void extents(const SurveyArgs &a) {
    const int size[3] = {a.cells.nx, a.cells.ny, a.cells.nz};
    const int64_t step[3] = {1, a.cells.north(), a.cells.top()};
    over_places(a.cells, [&](int64_t c, int i, int j, int k) {
        if (!in_group(a.group, c)) return;
        const uint32_t root = group_root(a.group, c), number = a.group[root] & ~IS_GROUP;
        if (number >= MOST_GROUPS) return;
        const int at[3] = {i, j, k};
        auto note = [&](int entry, unsigned v) {
            const volatile uint32_t &seen = a.extents[6 * number + entry];
            if (v < seen) atomicMin(a.extents + 6 * number + entry, v);
        };
        // Only cells at the boundary of the group may have an extreme index.
        for (int d = 0; d < 3; ++d) {
            if (at[d] == 0 || group_root(a.group, c - step[d]) != root) note(d, at[d]);
            if (at[d] + 1 == size[d] || group_root(a.group, c + step[d]) != root) note(3 + d, ~unsigned(at[d]));
        }
    });
}

// Counts the hidden groups (src/stencil/cell_components.rs). A group is hidden if a coarse grid has several points in
// it, and the next coarser grid has none. Step 0 finds, for each group, the coarsest grid with points in the group.
// Step 1 counts these points, but only distinguishes one from several. Step 2 counts the hidden groups. At the root of
// a group, the upper bits of `coarsest_points` contain the number of the grid, and the lower GRID_SHIFT bits the number
// of points.
constexpr int GRID_SHIFT = 27;
constexpr uint32_t POINTS = (1u << GRID_SHIFT) - 1;
__device__ inline void hidden(const SurveyArgs &a) {
    unsigned found = 0;
    over_places(a.cells, [&](int64_t c, int i, int j, int k) {
        if (!in_group(a.group, c)) return;
        if (a.step == 2) {
            const uint32_t points = a.group[c] & IS_GROUP ? a.coarsest_points[c] : 0;
            const int grid = int(points >> GRID_SHIFT);
            found += grid > 0 && grid < a.grids && (points & POINTS) > 1;
            return;
        }
        const int all = i | j | k, grid = all ? min(__ffs(all) - 1, a.grids) : a.grids;
        if (grid == 0) return;
        uint32_t *points = a.coarsest_points + group_root(a.group, c);
        const uint32_t now = *static_cast<volatile uint32_t *>(points), least = uint32_t(grid) << GRID_SHIFT;
        if (a.step == 0 && now < least) atomicMax(points, least);
        if (a.step == 1 && now >> GRID_SHIFT == uint32_t(grid) && (now & POINTS) < 2) atomicAdd(points, 1u);
    });
    add_count(&a.findings->hidden, found);
}

} // namespace dpcg

DPCG_KERNEL(dpcg_copy_f64, SurveyArgs, copy_matrix)
DPCG_KERNEL(dpcg_inspect_rows_f64, SurveyArgs, inspect_rows)
DPCG_KERNEL(dpcg_unite_f64, SurveyArgs, unite)
DPCG_KERNEL(dpcg_settle_f64, SurveyArgs, settle)
DPCG_KERNEL(dpcg_extents_f64, SurveyArgs, extents)
DPCG_KERNEL(dpcg_hidden_f64, SurveyArgs, hidden)

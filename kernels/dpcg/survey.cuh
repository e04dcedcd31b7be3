// Survey of a matrix. These kernels copy the caller's arrays, and find components, strong groups and extreme values.
//
// Components, and groups of cells that strong couplings connect, are stored as trees: each cell has a parent
// (kernels/common/forest.cuh). The root of a cell is the first cell of its component or group.
//
// A warp processes segments of 32 consecutive cells. `inspect_rows` joins the cells of each segment to runs, and
// `unite` joins the runs. If several couplings connect two runs, `unite` uses only one of them. Couplings that leave
// the box are zero, so segments may extend over the ends of rows.
//
// Memory traffic per cell of the kernels, in bytes: copy_matrix 64, inspect_rows 40, unite 24, set_roots 16,
// compute_extents 4, count_hidden_groups 12.
#pragma once
#include "../common/forest.cuh"
#include "box.cuh"

namespace dpcg {

using forest::join;
using forest::root_of;

// Results of the survey. Magnitudes are stored as bit patterns.
struct CellFindings {
    uint64_t has_invalid_entry; // 1: an entry is not finite, or a center is not a positive normal number
    uint64_t center_max;
    uint64_t smallest[3], largest[3]; // magnitudes of the nonzero couplings of each direction
    uint64_t outward_counts[3];       // number of entries that point out of the box
    uint64_t first_outward;           // the first of these, ordered by row of cells, then array, then column
    uint64_t neumann_row_sum;         // largest row sum of |L D^-1|
    double strength[3];               // per direction: sum over all rows of -(sum of the couplings) / center
    // Numbers of uncoupled cells, of components, and of coupled cells with a nonzero row sum.
    unsigned long long uncoupled_cells, component_count, regular_cells;
    unsigned long long group_count;   // number of groups of strong couplings
    unsigned long long class_count;   // number of classes of cells (classes.cuh)
    unsigned long long hidden_groups; // number of groups that are hidden from coarse grids
    unsigned ticket, unused;
};

struct SurveyArgs {
    CellBox cells;
    CellArray input[4]; // center, east, north, top: the caller's arrays, or their copies on the device
    double *copies[4];
    double zero_row_sum;                       // row sums below this fraction of the center count as zero
    uint32_t *component_parent, *group_parent; // parent of each cell in the trees of components and of groups
    uint32_t *extents;                         // extents of the first MAX_GROUPS groups
    double *partial;                           // 3 values per thread block
    CellFindings *findings;
    uint32_t *coarsest_points;          // at the root of each group: see count_hidden_groups
    int coarse_grid_count, hidden_step; // hidden_step: step of count_hidden_groups
    __device__ CellMatrix matrix() const { return {copies[0], copies[1], copies[2], copies[3]}; }
};

// Largest number of groups whose extents are stored.
constexpr uint32_t MAX_GROUPS = 1000;
// A coupling is strong if it exceeds this multiple of the smallest coupling of its direction
// (src/stencil/cell_components.rs).
constexpr double STRONG_COUPLING_RATIO = 30.0;
// After `set_roots`, the entry of `group_parent` at the root of a group is the number of the group, at most MAX_GROUPS,
// with this bit set. The entry of any other cell is its root. A cell in no group is its own root.
constexpr uint32_t GROUP_FLAG = forest::IS_ROOT;

constexpr uint64_t INFINITY_BITS = 0x7ff0000000000000ull, SMALLEST_NORMAL_BITS = 1ull << 52;
constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ inline int lane() { return threadIdx.x % 32; }
// Finds the last lane up to and including this lane whose bit is set, and returns the distance from it to this lane.
__device__ inline int distance_to_bit(uint32_t bits) { return __clz(bits << (31 - lane())); }

// Returns the length of the run that starts at this lane; the bits of `run_starts` mark the first lanes of runs.
__device__ inline int run_length(uint32_t run_starts) {
    const uint32_t later_starts = lane() == 31 ? 0 : run_starts >> (lane() + 1);
    return later_starts ? __ffs(later_starts) : 32 - lane();
}

// Calls f(c) for the cells of the segments of this warp. f must ignore indices c >= `count`.
template <class F> __device__ inline void for_each_segment_cell(int64_t count, F f) {
    for (int64_t first = 32 * (int64_t(blockIdx.x) * WARPS + threadIdx.x / 32); first < count;
         first += 32 * int64_t(gridDim.x) * WARPS)
        f(first + lane());
}

// Adds the sum of n over the threads of a thread block to *target.
__device__ inline void add_count(unsigned long long *target, unsigned n) {
    __shared__ unsigned sum;
    __syncthreads();
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (n) atomicAdd(&sum, n);
    __syncthreads();
    if (threadIdx.x == 0 && sum) atomicAdd(target, (unsigned long long)sum);
}

// Computes *target = min(*target, v) for the v of all threads of the thread block.
__device__ inline void update_smallest(uint64_t *target, uint64_t v) {
    __shared__ unsigned long long smallest;
    __syncthreads();
    if (threadIdx.x == 0) smallest = ~0ull;
    __syncthreads();
    if (v != ~0ull) atomicMin(&smallest, (unsigned long long)v);
    __syncthreads();
    if (threadIdx.x == 0 && smallest != ~0ull) atomic_min(target, smallest);
}

// Copies the caller's arrays; entries that leave the box become zero. Also finds extreme and unusual entries.
__device__ inline void copy_matrix(const SurveyArgs &a) {
    CellFindings &f = *a.findings;
    const int size[3] = {a.cells.nx, a.cells.ny, a.cells.nz};
    uint64_t center_max = 0, smallest[3], largest[3] = {0, 0, 0}, first_outward = ~0ull;
    unsigned outward_counts[3] = {0, 0, 0}, has_invalid_entry = 0;
    for (int d = 0; d < 3; ++d) smallest[d] = ~0ull;
    for_each_cell_index(a.cells, [&](int64_t c, int i, int j, int k) {
        const double center = *a.input[0].at(i, j, k);
        a.copies[0][c] = center;
        center_max = max(center_max, magnitude(center));
        has_invalid_entry |= !(center > 0.0 && magnitude(center) >= SMALLEST_NORMAL_BITS && is_finite(center));
        const int index[3] = {i, j, k};
        for (int d = 0; d < 3; ++d) {
            const double v = *a.input[d + 1].at(i, j, k);
            const uint64_t value_bits = magnitude(v);
            const bool is_inside = index[d] + 1 < size[d];
            a.copies[d + 1][c] = is_inside ? v : 0.0;
            if (is_inside) {
                has_invalid_entry |= value_bits >= INFINITY_BITS;
                largest[d] = max(largest[d], value_bits);
                if (value_bits) smallest[d] = min(smallest[d], value_bits);
            } else if (value_bits && value_bits <= INFINITY_BITS) {
                ++outward_counts[d];
                first_outward = min(first_outward, ((uint64_t(k) * size[1] + j) * 3 + d) * size[0] + i);
            }
        }
    });
    if (has_invalid_entry) f.has_invalid_entry = 1;
    update_largest(&f.center_max, center_max);
    update_smallest(&f.first_outward, first_outward);
    for (int d = 0; d < 3; ++d) {
        update_largest(&f.largest[d], largest[d]);
        update_smallest(&f.smallest[d], smallest[d]);
        add_count(reinterpret_cast<unsigned long long *>(&f.outward_counts[d]), outward_counts[d]);
    }
}

// Data to find components or groups: the parent of each cell, and, for each direction, the limit above which a coupling
// joins two cells.
struct JoiningForest {
    uint32_t *parent;
    double join_limits[3];
};
constexpr int COMPONENTS = 0, GROUPS = 1;
__device__ inline JoiningForest forest_of(const SurveyArgs &a, int forest_kind) {
    if (forest_kind == COMPONENTS) return {a.component_parent, {0.0, 0.0, 0.0}};
    JoiningForest groups = {a.group_parent, {0.0, 0.0, 0.0}};
    const CellFindings &f = *a.findings;
    for (int d = 0; d < 3; ++d)
        if (f.smallest[d] != ~0ull) groups.join_limits[d] = STRONG_COUPLING_RATIO * __longlong_as_double(f.smallest[d]);
    return groups;
}

// Entries of a row of the matrix.
struct MatrixRow {
    double center, forward[3], backward[3];
    __device__ double sum() const {
        double sum = center;
        for (int d = 0; d < 3; ++d) sum = sum + forward[d] + backward[d];
        return sum;
    }
};
__device__ inline MatrixRow load_row(const CellBox &box, const CellMatrix &m, int64_t c) {
    const int64_t n = box.north(), t = box.top();
    return {ldg(m.center[c]), {ldg(m.east[c]), ldg(m.north[c]), ldg(m.top[c])},
        {ldg(m.east[c - 1]), ldg(m.north[c - n]), ldg(m.top[c - t])}};
}

// Returns the first cell of the run that contains the cell of this lane. `is_joined`: whether this cell is joined to
// the previous cell.
__device__ inline uint32_t run_start(int64_t c, bool is_joined) {
    return uint32_t(c) - distance_to_bit(~__ballot_sync(ALL_LANES, is_joined && lane() > 0));
}

// Computes the statistics of the rows (`neumann_row_sum`, `strength`, `uncoupled_cells` and `regular_cells` of
// CellFindings). Also joins adjacent connected cells into runs: a warp processes a segment of 32 consecutive cells, and
// joins cells of this segment only.
__device__ inline void inspect_rows(const SurveyArgs &a) {
    CellFindings &f = *a.findings;
    const JoiningForest forests[2] = {forest_of(a, COMPONENTS), forest_of(a, GROUPS)};
    const CellMatrix m = a.matrix();
    const int64_t count = a.cells.count(), n = a.cells.north(), t = a.cells.top();
    double strength[3] = {0.0, 0.0, 0.0};
    uint64_t neumann_row_sum = 0;
    unsigned uncoupled_cells = 0, regular_cells = 0;
    for_each_segment_cell(count, [&](int64_t c) {
        MatrixRow row = {};
        const double *backward = row.backward;
        if (c < count) {
            row = load_row(a.cells, m, c);
            const double *previous_center[3] = {m.center + c - 1, m.center + c - n, m.center + c - t};
            double quotient_sum = 0.0;
            bool is_joined = false;
            for (int d = 0; d < 3; ++d) {
                strength[d] -= (row.forward[d] + backward[d]) / row.center;
                if (backward[d] != 0.0) quotient_sum += fabs(backward[d]) / ldg(*previous_center[d]);
                is_joined |= fabs(row.forward[d]) > 0.0 || fabs(backward[d]) > 0.0;
            }
            neumann_row_sum = max(neumann_row_sum, magnitude(quotient_sum));
            uncoupled_cells += !is_joined;
            regular_cells += is_joined && fabs(row.sum()) > a.zero_row_sum * row.center;
        }
#pragma unroll
        for (const JoiningForest &forest : forests) {
            const bool is_joined_west = fabs(backward[0]) > forest.join_limits[0];
            const uint32_t start = run_start(c, is_joined_west);
            if (c >= count) continue;
            // The cells of a run become children of its first cell. If the first cell is joined to its neighbour to the
            // south or to the bottom, or to the west in the previous segment, it becomes a child of this neighbour.
            forest.parent[c] = start != uint32_t(c) ? start
                : fabs(backward[1]) > forest.join_limits[1]   ? uint32_t(c - n)
                : fabs(backward[2]) > forest.join_limits[2]   ? uint32_t(c - t)
                : is_joined_west                              ? uint32_t(c - 1)
                                                    : uint32_t(c);
        }
    });
    update_largest(&f.neumann_row_sum, neumann_row_sum);
    add_count(&f.uncoupled_cells, uncoupled_cells);
    add_count(&f.regular_cells, regular_cells);
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
    const JoiningForest forests[2] = {forest_of(a, COMPONENTS), forest_of(a, GROUPS)};
    const CellMatrix m = a.matrix();
    const int64_t count = a.cells.count(), n = a.cells.north(), t = a.cells.top();
    for_each_segment_cell(count, [&](int64_t c) {
        double west = 0.0, north = 0.0, top = 0.0, west_north = 0.0, west_top = 0.0;
        if (c < count) {
            west = fabs(ldg(m.east[c - 1]));
            north = fabs(ldg(m.north[c]));
            top = fabs(ldg(m.top[c]));
            if (north != 0.0) west_north = fabs(ldg(m.east[c + n - 1]));
            if (top != 0.0) west_top = fabs(ldg(m.east[c + t - 1]));
        }
#pragma unroll
        for (const JoiningForest &forest : forests) {
            const double *join_limits = forest.join_limits;
            auto joins_x = [&](int64_t cell) { return fabs(ldg(m.east[cell])) > join_limits[0]; };
            auto joins_y = [&](int64_t cell) { return fabs(ldg(m.north[cell])) > join_limits[1]; };
            auto joins_z = [&](int64_t cell) { return fabs(ldg(m.top[cell])) > join_limits[2]; };
            const bool is_joined = west > join_limits[0], joins_north = north > join_limits[1],
                joins_top = top > join_limits[2];
            // Whether this cell is in the same run as the previous cell. The next two variables state the same for its
            // neighbours to the north and to the top.
            const bool continues_run = lane() > 0 && is_joined;
            const bool north_continues_run = (c + n) % 32 > 0 && west_north > join_limits[0];
            const bool top_continues_run = (c + t) % 32 > 0 && west_top > join_limits[0];
            const uint32_t north_joins = __ballot_sync(ALL_LANES, joins_north),
                top_joins = __ballot_sync(ALL_LANES, joins_top);
            const int previous_lane = lane() > 0 ? lane() - 1 : 0;
            // If the neighbour to the north is the first cell of a run, `inspect_rows` has already joined it to this
            // cell.
            if (joins_north && north_continues_run && !(continues_run && (north_joins >> previous_lane & 1)))
                join(forest.parent, uint32_t(c), uint32_t(c + n));
            if (joins_top && !(top_continues_run && continues_run && (top_joins >> previous_lane & 1))) {
                const bool joined_from_south = joins_y(c + t - n);
                const bool is_united = !top_continues_run && !joined_from_south;
                if (!is_united && !(joined_from_south && joins_y(c - n) && joins_z(c - n)))
                    join(forest.parent, uint32_t(c), uint32_t(c + t));
            }
            if (lane() == 0 && is_joined) {
                const bool joined_from_south = joins_y(c - n), joined_from_bottom = joins_z(c - t);
                const bool is_united = !joined_from_south && !joined_from_bottom;
                const bool has_other_contact = (joined_from_south && joins_y(c - n - 1) && joins_x(c - n - 1)) ||
                    (joined_from_bottom && joins_z(c - t - 1) && joins_x(c - t - 1));
                if (!is_united && !has_other_contact) join(forest.parent, uint32_t(c - 1), uint32_t(c));
            }
        }
    });
}

// Returns whether a cell is joined to the next cell in at least one direction.
__device__ inline bool joins_next_cell(const CellMatrix &m, int64_t c, const JoiningForest &forest) {
    return fabs(ldg(m.east[c])) > forest.join_limits[0] || fabs(ldg(m.north[c])) > forest.join_limits[1] ||
        fabs(ldg(m.top[c])) > forest.join_limits[2];
}

// Returns the root of a cell. If the parent of the cell is the first cell of a run in the same segment, the lane of the
// parent finds the root for both cells.
__device__ inline uint32_t root_in_segment(uint32_t *parent, int64_t c, int64_t count) {
    const int64_t first = c - lane();
    const uint32_t parent_cell = c < count ? parent[c] : 0;
    const uint32_t inside_segment = __ballot_sync(ALL_LANES, c < count && parent_cell >= first && parent_cell < c);
    const bool uses_parent_root = (inside_segment >> lane() & 1) && !(inside_segment >> (parent_cell - first) & 1);
    const uint32_t root = uses_parent_root || c >= count ? 0 : root_of(parent, uint32_t(c));
    return __shfl_sync(ALL_LANES, root, uses_parent_root ? int(parent_cell - first) : lane());
}

// Sets the parent of each cell to its root. Counts the components and groups of two or more cells, and numbers the
// groups.
__device__ inline void set_roots(const SurveyArgs &a) {
    CellFindings &f = *a.findings;
    const CellMatrix m = a.matrix();
    const int64_t count = a.cells.count();
    unsigned component_count = 0;
    for (int forest_kind = COMPONENTS; forest_kind <= GROUPS; ++forest_kind) {
        const JoiningForest forest = forest_of(a, forest_kind);
        for_each_segment_cell(count, [&](int64_t c) {
            const uint32_t root = root_in_segment(forest.parent, c, count);
            if (c >= count) return;
            if (root != uint32_t(c)) {
                forest.parent[c] = root;
                return;
            }
            if (!joins_next_cell(m, c, forest)) return;
            if (forest_kind == COMPONENTS) ++component_count;
            else forest.parent[c] = GROUP_FLAG | min(uint32_t(atomicAdd(&f.group_count, 1ull)), MAX_GROUPS);
        });
    }
    add_count(&f.component_count, component_count);
}

// Returns the root of a cell's group, or the cell itself if it is in no group.
__device__ inline uint32_t group_root(const uint32_t *group, int64_t c) {
    return group[c] & GROUP_FLAG ? uint32_t(c) : group[c];
}
__device__ inline bool is_in_group(const uint32_t *group, int64_t c) { return group[c] != uint32_t(c); }

// Computes the extents of the groups: smallest index in each direction, and bitwise complement of the largest index.
__device__ inline void compute_extents(const SurveyArgs &a) {
    const int size[3] = {a.cells.nx, a.cells.ny, a.cells.nz};
    const int64_t step[3] = {1, a.cells.north(), a.cells.top()};
    for_each_cell_index(a.cells, [&](int64_t c, int i, int j, int k) {
        if (!is_in_group(a.group_parent, c)) return;
        const uint32_t root = group_root(a.group_parent, c), group_number = a.group_parent[root] & ~GROUP_FLAG;
        if (group_number >= MAX_GROUPS) return;
        const int index[3] = {i, j, k};
        auto update_extent = [&](int entry, unsigned v) {
            const volatile uint32_t &current_value = a.extents[6 * group_number + entry];
            if (v < current_value) atomicMin(a.extents + 6 * group_number + entry, v);
        };
        // Only cells at the boundary of the group may have an extreme index.
        for (int d = 0; d < 3; ++d) {
            if (index[d] == 0 || group_root(a.group_parent, c - step[d]) != root) update_extent(d, index[d]);
            if (index[d] + 1 == size[d] || group_root(a.group_parent, c + step[d]) != root)
                update_extent(3 + d, ~unsigned(index[d]));
        }
    });
}

// Counts the hidden groups (src/stencil/cell_components.rs). A group is hidden if a coarse grid has several points in
// it, and the next coarser grid has none. Step 0 finds, for each group, the coarsest grid with points in the group.
// Step 1 counts these points, but only distinguishes one from several. Step 2 counts the hidden groups. At the root of
// a group, the upper bits of `coarsest_points` contain the number of the grid, and the lower GRID_SHIFT bits the number
// of points.
constexpr int GRID_SHIFT = 27;
constexpr uint32_t POINT_COUNT_MASK = (1u << GRID_SHIFT) - 1;
__device__ inline void count_hidden_groups(const SurveyArgs &a) {
    unsigned hidden_count = 0;
    for_each_cell_index(a.cells, [&](int64_t c, int i, int j, int k) {
        if (!is_in_group(a.group_parent, c)) return;
        if (a.hidden_step == 2) {
            const uint32_t points = a.group_parent[c] & GROUP_FLAG ? a.coarsest_points[c] : 0;
            const int grid = int(points >> GRID_SHIFT);
            hidden_count += grid > 0 && grid < a.coarse_grid_count && (points & POINT_COUNT_MASK) > 1;
            return;
        }
        const int index_bits = i | j | k,
            grid = index_bits ? min(__ffs(index_bits) - 1, a.coarse_grid_count) : a.coarse_grid_count;
        if (grid == 0) return;
        uint32_t *points = a.coarsest_points + group_root(a.group_parent, c);
        const uint32_t current_points = *static_cast<volatile uint32_t *>(points),
            grid_bits = uint32_t(grid) << GRID_SHIFT;
        if (a.hidden_step == 0 && current_points < grid_bits) atomicMax(points, grid_bits);
        if (a.hidden_step == 1 && current_points >> GRID_SHIFT == uint32_t(grid) &&
            (current_points & POINT_COUNT_MASK) < 2)
            atomicAdd(points, 1u);
    });
    add_count(&a.findings->hidden_groups, hidden_count);
}

} // namespace dpcg

DPCG_KERNEL(dpcg_copy_matrix_f64, SurveyArgs, copy_matrix)
DPCG_KERNEL(dpcg_inspect_rows_f64, SurveyArgs, inspect_rows)
DPCG_KERNEL(dpcg_unite_cells_f64, SurveyArgs, unite)
DPCG_KERNEL(dpcg_replace_parents_by_roots_f64, SurveyArgs, set_roots)
DPCG_KERNEL(dpcg_group_extents_f64, SurveyArgs, compute_extents)
DPCG_KERNEL(dpcg_hidden_groups_f64, SurveyArgs, count_hidden_groups)

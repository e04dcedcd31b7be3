// Connected components of a box: cell (i, j, k) has the number (k ny + j) nx + i. In 2D nz = 1, and a cell may also be
// coupled to its diagonal neighbours.
//
// Components are trees of parents over the cells (forest.cuh). The root of a cell is the first cell of its component.
// A warp processes segments of 32 consecutive cells. `hook` joins the cells of each segment to runs, and `unite` joins
// the runs. If several couplings connect two runs, only one of these contacts is used. Couplings that leave the box
// count as zero, so segments may extend over the ends of rows.
#pragma once
#include "forest.cuh"

namespace components {

using forest::join;
using forest::root_of;

constexpr int WARPS = 8; // number of warps per thread block
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

// Returns the first cell of the run that contains the cell of this lane. `joined`: whether this cell is joined to the
// previous cell.
__device__ inline uint32_t run_start(int64_t c, bool joined) {
    return uint32_t(c) - lanes_back(~__ballot_sync(ALL_LANES, joined && lane() > 0));
}

// Distances between the numbers of neighbouring cells: n in y, the number of cells of a row, and t in z, the number of
// cells of a plane.
struct Steps {
    int64_t n, t;
};

// Sets the parent of a cell. `west`, `south` and `bottom`: whether the cell is joined to these neighbours. The cells of
// a run become children of its first cell. If the first cell is joined to its neighbour to the south or to the bottom,
// or to the west in the previous segment, it becomes a child of this neighbour.
__device__ inline void hook(
    uint32_t *parent, int64_t c, int64_t count, const Steps &s, bool west, bool south, bool bottom) {
    const uint32_t start = run_start(c, west);
    if (c >= count) return;
    parent[c] = start != uint32_t(c) ? start
        : south                      ? uint32_t(c - s.n)
        : bottom                     ? uint32_t(c - s.t)
        : west                       ? uint32_t(c - 1)
                                     : uint32_t(c);
}

// `west`, `north` and `top`: whether a cell is joined to these neighbours. `west_north`: whether the neighbour to the
// north is joined to its own neighbour to the west. `west_top`: the same for the neighbour to the top.
struct Contacts {
    bool west, north, top, west_north, west_top;
};

// Joins the trees that `hook` has not joined. x(c), y(c) and z(c) return whether a cell is joined to its neighbour to
// the east, north and top. A contact is a coupling that joins two cells. A contact between two cells may be omitted if
// both cells are joined to preceding cells between which there is another contact. The preceding cells are:
// - for a contact within a plane: the previous cells of the two segments;
// - for a contact between planes: the previous cells of the two segments, or the cells of the previous row;
// - for a contact between segments: the cells of the previous row or plane.
// No two contacts are omitted because of each other.
template <class X, class Y, class Z>
__device__ inline void unite(uint32_t *parent, int64_t c, const Steps &s, const Contacts &to, X x, Y y, Z z) {
    const int64_t n = s.n, t = s.t;
    // Whether this cell is in the same run as the previous cell. The next two variables state the same for its
    // neighbours to the north and to the top.
    const bool goes_on = lane() > 0 && to.west;
    const bool north_goes_on = (c + n) % 32 > 0 && to.west_north;
    const bool top_goes_on = (c + t) % 32 > 0 && to.west_top;
    const uint32_t norths = __ballot_sync(ALL_LANES, to.north), tops = __ballot_sync(ALL_LANES, to.top);
    const int before = lane() > 0 ? lane() - 1 : 0;
    // If the neighbour to the north is the first cell of a run, `hook` has already joined it to this cell.
    if (to.north && north_goes_on && !(goes_on && (norths >> before & 1))) join(parent, uint32_t(c), uint32_t(c + n));
    if (to.top && !(top_goes_on && goes_on && (tops >> before & 1))) {
        const bool from_south = y(c + t - n);
        const bool hooked = !top_goes_on && !from_south;
        if (!hooked && !(from_south && y(c - n) && z(c - n))) join(parent, uint32_t(c), uint32_t(c + t));
    }
    if (lane() == 0 && to.west) {
        const bool from_south = y(c - n), from_bottom = z(c - t);
        const bool hooked = !from_south && !from_bottom;
        const bool known =
            (from_south && y(c - n - 1) && x(c - n - 1)) || (from_bottom && z(c - t - 1) && x(c - t - 1));
        if (!hooked && !known) join(parent, uint32_t(c - 1), uint32_t(c));
    }
}

// Joins a cell to its neighbours to the north-east and north-west, if it is coupled to them. A contact may be omitted
// if a neighbour in the same row or column is joined to both cells.
template <class X, class Y>
__device__ inline void unite_corners(uint32_t *parent, int64_t c, int64_t n, bool east, bool west, X x, Y y) {
    const bool to_north = (east || west) && y(c);
    if (east && !(to_north && x(c + n)) && !(x(c) && y(c + 1))) join(parent, uint32_t(c), uint32_t(c + n + 1));
    if (west && !(to_north && x(c + n - 1)) && !(x(c - 1) && y(c - 1))) join(parent, uint32_t(c), uint32_t(c + n - 1));
}

} // namespace components

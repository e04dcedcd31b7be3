// Counts the connected components of at least two nodes in the graph of A, and those of them that contain a row with a
// nonzero row sum. If the counts are equal, no component is singular. Otherwise, the host determines the components
// (src/rrb/cuda/inspection.rs).
//
// Components are trees of parents over the nodes (kernels/common/forest.cuh). The first kernel joins the nodes of each
// tile in shared memory. The second kernel joins the trees of adjacent tiles (O. Stava, B. Benes, Connected component
// labeling in CUDA, GPU Computing Gems, 2011).
//
// The parents depend on the order of the threads; the counts do not. The header of storage.cuh describes the launch.
// Memory traffic per node, in bytes: 32 (48 with 9 points) in the first kernel, and less than half of this number in
// the other two.
#include "../common/forest.cuh"
#include "storage.cuh"

struct ComponentArgs {
    Geometry g;
    Matrix m;
    const double *row_sums; // row sums of A; a row sum that counts as zero is stored as 0
    // One value per node, 4 planes. The number of a node is colour * plane + index, and is below 2^31.
    uint32_t *parent, *marks;
    Findings *findings;
};

namespace components {
using forest::join;
using forest::root_of;
// Properties of a component, stored at its root. COUPLED: the component has at least two nodes. REGULAR: the component
// has a row with a nonzero row sum. The lower bits describe the part of a component in a tile, and ROOT_OF_TILE marks
// the root of this part. The bits from COMPONENT_SHIFT on describe the whole component.
enum ComponentMark : uint32_t { COUPLED = 1, REGULAR = 2, COUPLED_AND_REGULAR = 3, ROOT_OF_TILE = 4 };
constexpr int COMPONENT_SHIFT = 3;

// Calls f(coupling, from, to, di, dj) for the couplings that A stores at index c. `from` and `to` are the colours of
// the two nodes, and (di, dj) is the offset from the (I, J) of the first node to that of the second node.
template <class F> __device__ inline void for_each_coupling(const Matrix &m, int64_t p, int64_t c, F f) {
    const double *r1 = m.axis_couplings + c, *r2 = r1 + 4 * p;
    f(r1[W * p], R1, B2, -1, 0);
    f(r1[E * p], R1, B2, 0, 0);
    f(r1[S * p], R1, B1, 0, 0);
    f(r1[N * p], R1, B1, 0, 1);
    f(r2[W * p], R2, B1, 0, 0);
    f(r2[E * p], R2, B1, 1, 0);
    f(r2[S * p], R2, B2, 0, -1);
    f(r2[N * p], R2, B2, 0, 0);
    if (!m.red_couplings) return;
    const double *red = m.red_couplings + c, *black = m.black_couplings + c;
    f(red[SW * p], R1, R2, -1, 0);
    f(red[SE * p], R1, R2, 0, 0);
    f(red[NW * p], R1, R2, -1, 1);
    f(red[NE * p], R1, R2, 0, 1);
    f(black[SW * p], B1, B2, -1, -1);
    f(black[SE * p], B1, B2, 0, -1);
    f(black[NW * p], B1, B2, -1, 0);
    f(black[NE * p], B1, B2, 0, 0);
}

// Returns whether an (I, J) is in a tile. (ti, tj) is the offset from the first (I, J) of the tile to this (I, J).
__device__ inline bool is_in_tile(int ti, int tj) { return unsigned(ti) < TILE_X && unsigned(tj) < TILE_Y; }
} // namespace components

// Computes the components of each tile separately.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_tile_components_f64(ComponentArgs a) {
    using namespace components;
    __shared__ uint32_t parent[4 * THREADS];
    __shared__ bool is_coupled[4 * THREADS], is_regular[4 * THREADS];
    const Geometry &g = a.g;
    const int64_t p = g.plane;
    const int tiles_per_row = (g.cx + TILE_X - 1) / TILE_X, tile_rows = (g.cy + TILE_Y - 1) / TILE_Y;
    const int t = thread_of_block(), ti = threadIdx.x, tj = threadIdx.y;
    for (int tile = blockIdx.x; tile < tiles_per_row * tile_rows; tile += gridDim.x) {
        const int i0 = tile % tiles_per_row * TILE_X, j0 = tile / tiles_per_row * TILE_Y;
        const int64_t c = g.at(i0 + ti, j0 + tj);
        const bool is_inside = i0 + ti < g.cx && j0 + tj < g.cy;
        for (int k = t; k < 4 * THREADS; k += THREADS) {
            parent[k] = k;
            is_coupled[k] = is_regular[k] = false;
        }
        __syncthreads();
        if (is_inside) {
            for_each_coupling(a.m, p, c, [&](const double &coupling, int from_colour, int to_colour, int di, int dj) {
                if (is_in_tile(ti + di, tj + dj) && coupling != 0.0)
                    join(parent, from_colour * THREADS + t, to_colour * THREADS + t + dj * TILE_X + di);
            });
        }
        __syncthreads();
        uint32_t root[4];
        for (int colour = 0; colour < 4 && is_inside; ++colour) {
            const uint32_t own_index = colour * THREADS + t;
            root[colour] = root_of(parent, own_index);
            // All threads that write this value write the same value.
            if (root[colour] != own_index) is_coupled[root[colour]] = true;
            if (a.row_sums[colour * p + c] != 0.0) is_regular[root[colour]] = true;
        }
        __syncthreads();
        for (int colour = 0; colour < 4 && is_inside; ++colour) {
            const int own_index = colour * THREADS + t, root_index = root[colour], root_thread = root_index % THREADS;
            a.parent[colour * p + c] =
                root_index / THREADS * p + g.at(i0 + root_thread % TILE_X, j0 + root_thread / TILE_X);
            a.marks[colour * p + c] = root_index != own_index
                ? 0
                : ROOT_OF_TILE | (is_coupled[own_index] ? COUPLED : 0) | (is_regular[own_index] ? REGULAR : 0);
        }
    }
}

// Joins the components of adjacent tiles.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_join_components_f64(ComponentArgs a) {
    using namespace components;
    const Geometry &g = a.g;
    const int64_t p = g.plane;
    for_each_group_of_area(g, [&](int i, int j) {
        const int ti = i % TILE_X, tj = j % TILE_Y;
        if (ti > 0 && ti < TILE_X - 1 && tj > 0 && tj < TILE_Y - 1) return;
        const int64_t c = g.at(i, j);
        for_each_coupling(a.m, p, c, [&](const double &coupling, int from_colour, int to_colour, int di, int dj) {
            if (!is_in_tile(ti + di, tj + dj) && coupling != 0.0)
                join(a.parent, from_colour * p + c, to_colour * p + c + dj * g.stride + di);
        });
    });
}

// Counts the components of at least two nodes (COUPLED), and those that also have a nonzero row sum
// (COUPLED_AND_REGULAR). The roots of the tiles transfer their properties to the roots of the components. The thread
// that sets the last property required for a count increments this count.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_count_components_f64(ComponentArgs a) {
    using namespace components;
    __shared__ unsigned coupled_count, regular_count;
    const Geometry &g = a.g;
    if (thread_of_block() == 0) coupled_count = regular_count = 0;
    __syncthreads();
    for_each_group_of_area(g, [&](int i, int j) {
        for (int colour = 0; colour < 4; ++colour) {
            const uint32_t node = colour * g.plane + g.at(i, j), mark = a.marks[node];
            if (!(mark & ROOT_OF_TILE)) continue;
            const uint32_t root = root_of(a.parent, node),
                           bits = (mark & COUPLED_AND_REGULAR) | (root != node ? COUPLED : 0);
            // Usually another thread has set the properties already.
            const volatile uint32_t &root_mark = a.marks[root];
            if (((root_mark >> COMPONENT_SHIFT) & bits) == bits) continue;
            const uint32_t old_bits = atomicOr(a.marks + root, bits << COMPONENT_SHIFT) >> COMPONENT_SHIFT,
                           new_bits = old_bits | bits;
            if (!(old_bits & COUPLED) && (new_bits & COUPLED)) atomicAdd(&coupled_count, 1u);
            if (old_bits != COUPLED_AND_REGULAR && new_bits == COUPLED_AND_REGULAR) atomicAdd(&regular_count, 1u);
        }
    });
    __syncthreads();
    if (thread_of_block() > 0) return;
    if (coupled_count)
        atomicAdd(reinterpret_cast<unsigned long long *>(&a.findings->components), (unsigned long long)coupled_count);
    if (regular_count)
        atomicAdd(
            reinterpret_cast<unsigned long long *>(&a.findings->regular_components), (unsigned long long)regular_count);
}

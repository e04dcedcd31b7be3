// Counts the connected components of at least two nodes in the graph of A, and those of them that contain a row with a
// nonzero row sum. If the counts are equal, no component is singular, and nothing else is needed.
//
// Components are trees of parents over the nodes (kernels/common/forest.cuh). The first kernel joins the nodes of each
// tile in shared memory. The second kernel joins the trees of adjacent tiles (O. Stava, B. Benes, Connected component
// labeling in CUDA, GPU Computing Gems, 2011).
//
// The parents depend on the order of the threads; the counts do not. The header of storage.cuh describes the launch.
// Bytes per node: 32 (48 with 9 points) in the first kernel, and less than half of this number in the other two.
#include "../common/forest.cuh"
#include "storage.cuh"

struct ComponentArgs {
    Geometry g;
    Matrix m;
    const double *excess; // row sums of A; a row sum that counts as zero is stored as 0
    // One value per node, 4 planes. The number of a node is colour * plane + index, and is below 2^31.
    uint32_t *parent, *marks;
    Findings *findings;
};

namespace components {
using forest::join;
using forest::root_of;
// Properties of a component, stored at its root. COUPLED: it has at least two nodes. REGULAR: it has a row with a
// nonzero row sum. The lower bits describe the part of a component in a tile, and ROOT_OF_TILE marks the root of this
// part. The bits from WHOLE_SHIFT on describe the whole component.
enum Mark : uint32_t { COUPLED = 1, REGULAR = 2, BOTH = 3, ROOT_OF_TILE = 4 };
constexpr int WHOLE_SHIFT = 3;

// Calls f(coupling, from, to, di, dj) for the couplings that A stores at an index. `from` and `to` are the colours of
// the two nodes, and (di, dj) is the offset from the place of the first node to that of the second.
template <class F> __device__ inline void couplings_at(const Matrix &m, int64_t p, int64_t c, F f) {
    const double *r1 = m.straight + c, *r2 = r1 + 4 * p;
    f(r1[W * p], R1, B2, -1, 0);
    f(r1[E * p], R1, B2, 0, 0);
    f(r1[S * p], R1, B1, 0, 0);
    f(r1[N * p], R1, B1, 0, 1);
    f(r2[W * p], R2, B1, 0, 0);
    f(r2[E * p], R2, B1, 1, 0);
    f(r2[S * p], R2, B2, 0, -1);
    f(r2[N * p], R2, B2, 0, 0);
    if (!m.red) return;
    const double *red = m.red + c, *black = m.black + c;
    f(red[SW * p], R1, R2, -1, 0);
    f(red[SE * p], R1, R2, 0, 0);
    f(red[NW * p], R1, R2, -1, 1);
    f(red[NE * p], R1, R2, 0, 1);
    f(black[SW * p], B1, B2, -1, -1);
    f(black[SE * p], B1, B2, 0, -1);
    f(black[NW * p], B1, B2, -1, 0);
    f(black[NE * p], B1, B2, 0, 0);
}

// Returns whether a place, relative to the first place of a tile, is in this tile.
__device__ inline bool in_tile(int ti, int tj) { return unsigned(ti) < TILE_X && unsigned(tj) < TILE_Y; }
} // namespace components

// Computes the components of each tile separately.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_tile_components_f64(ComponentArgs a) {
    using namespace components;
    __shared__ uint32_t parent[4 * THREADS];
    __shared__ bool coupled[4 * THREADS], regular[4 * THREADS];
    const Geometry &g = a.g;
    const int64_t p = g.plane;
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    const int t = thread_of_block(), ti = threadIdx.x, tj = threadIdx.y;
    for (int tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
        const int i0 = tile % across * TILE_X, j0 = tile / across * TILE_Y;
        const int64_t c = g.at(i0 + ti, j0 + tj);
        const bool inside = i0 + ti < g.cx && j0 + tj < g.cy;
        for (int k = t; k < 4 * THREADS; k += THREADS) {
            parent[k] = k;
            coupled[k] = regular[k] = false;
        }
        __syncthreads();
        if (inside) {
            couplings_at(a.m, p, c, [&](const double &coupling, int from, int to, int di, int dj) {
                if (in_tile(ti + di, tj + dj) && coupling != 0.0)
                    join(parent, from * THREADS + t, to * THREADS + t + dj * TILE_X + di);
            });
        }
        __syncthreads();
        uint32_t root[4];
        for (int colour = 0; colour < 4 && inside; ++colour) {
            const uint32_t own = colour * THREADS + t;
            root[colour] = root_of(parent, own);
            // All threads that write this value write the same value.
            if (root[colour] != own) coupled[root[colour]] = true;
            if (a.excess[colour * p + c] != 0.0) regular[root[colour]] = true;
        }
        __syncthreads();
        for (int colour = 0; colour < 4 && inside; ++colour) {
            const int own = colour * THREADS + t, r = root[colour], there = r % THREADS;
            a.parent[colour * p + c] = r / THREADS * p + g.at(i0 + there % TILE_X, j0 + there / TILE_X);
            a.marks[colour * p + c] =
                r != own ? 0 : ROOT_OF_TILE | (coupled[own] ? COUPLED : 0) | (regular[own] ? REGULAR : 0);
        }
    }
}

// Joins the components of adjacent tiles.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_join_components_f64(ComponentArgs a) {
    using namespace components;
    const Geometry &g = a.g;
    const int64_t p = g.plane;
    over_area(g, [&](int i, int j) {
        const int ti = i % TILE_X, tj = j % TILE_Y;
        if (ti > 0 && ti < TILE_X - 1 && tj > 0 && tj < TILE_Y - 1) return;
        const int64_t c = g.at(i, j);
        couplings_at(a.m, p, c, [&](const double &coupling, int from, int to, int di, int dj) {
            if (!in_tile(ti + di, tj + dj) && coupling != 0.0)
                join(a.parent, from * p + c, to * p + c + dj * g.stride + di);
        });
    });
}

// Counts the components of at least two nodes (COUPLED), and those that also have a nonzero row sum (BOTH). The roots
// of the tiles transfer their properties to the roots of the components. The thread that sets the last property
// required for a count increments this count.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_count_components_f64(ComponentArgs a) {
    using namespace components;
    __shared__ unsigned count, with_sums;
    const Geometry &g = a.g;
    if (thread_of_block() == 0) count = with_sums = 0;
    __syncthreads();
    over_area(g, [&](int i, int j) {
        for (int colour = 0; colour < 4; ++colour) {
            const uint32_t node = colour * g.plane + g.at(i, j), own = a.marks[node];
            if (!(own & ROOT_OF_TILE)) continue;
            const uint32_t root = root_of(a.parent, node), bits = (own & BOTH) | (root != node ? COUPLED : 0);
            // Usually another thread has set the properties already.
            const volatile uint32_t &seen = a.marks[root];
            if (((seen >> WHOLE_SHIFT) & bits) == bits) continue;
            const uint32_t before = atomicOr(a.marks + root, bits << WHOLE_SHIFT) >> WHOLE_SHIFT, after = before | bits;
            if (!(before & COUPLED) && (after & COUPLED)) atomicAdd(&count, 1u);
            if (before != BOTH && after == BOTH) atomicAdd(&with_sums, 1u);
        }
    });
    __syncthreads();
    if (thread_of_block() > 0) return;
    if (count) atomicAdd(reinterpret_cast<unsigned long long *>(&a.findings->components), (unsigned long long)count);
    if (with_sums)
        atomicAdd(
            reinterpret_cast<unsigned long long *>(&a.findings->regular_components), (unsigned long long)with_sums);
}

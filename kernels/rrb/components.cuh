// Counts the connected components of the graph of A, and those that contain a row with a nonzero row sum. These counts
// suffice if no component is singular.
//
// Nodes are numbered row by row. The points of the padding are numbered, too, but have no couplings
// (kernels/common/components.cuh). The parents differ between runs; the counts do not. A launch has one thread per
// node. Bytes per node: 20, 24 (40 with 9 points) and 16 in the three kernels.
#include "../common/components.cuh"
#include "storage.cuh"

struct ComponentArgs {
    Geometry g;
    Matrix m;
    const double *excess; // row sums of A; a row sum that counts as zero is stored as 0
    // One value per node. The index is the number of the node, which is below 2^31.
    uint32_t *parent, *marks;
    Findings *findings;
};

namespace components {
// Properties of a component, stored at its root. COUPLED: it has at least two nodes. REGULAR: it has a row with a
// nonzero row sum.
enum Mark : uint32_t { COUPLED = 1, REGULAR = 2, BOTH = 3 };

// Entries of A by the numbers of the nodes; zero if there is no such node.
struct Nodes {
    const ComponentArgs &k;
    __device__ int64_t columns() const { return 2 * int64_t(k.g.cx); }
    __device__ int64_t count() const { return columns() * 2 * k.g.cy; }

    // Returns f(colour, index) for the node with this number, where `index` is its index in a plane. Returns 0 if there
    // is no such node.
    template <class F> __device__ double at(int64_t node, F f) const {
        if (node < 0 || node >= count()) return 0.0;
        const int row = int(uint32_t(node) / uint32_t(columns())), column = int(node - row * columns());
        return f(colour_of(column, row), k.g.at(column >> 1, row >> 1));
    }
    __device__ bool joins(int64_t node, Straight to) const {
        return at(node, [&](int colour, int64_t c) {
            double a[4];
            straight_couplings(k.g, k.m.straight, colour, c, a);
            return a[to];
        }) != 0.0;
    }
    __device__ bool joins(int64_t node, Diagonal to) const {
        return at(node, [&](int colour, int64_t c) {
            double a[4];
            diagonal_couplings(k.g, colour <= R2 ? k.m.red : k.m.black, colour, c, a);
            return a[to];
        }) != 0.0;
    }
    __device__ double excess(int64_t node) const {
        return at(node, [&](int colour, int64_t c) { return k.excess[colour * k.g.plane + c]; });
    }
};

// Joins the nodes of each segment to runs.
__device__ inline void hook_nodes(const ComponentArgs &a) {
    const Nodes nodes{a};
    const int64_t count = nodes.count(), n = nodes.columns();
    over_segments(count, [&](int64_t c) {
        if (c < count) a.marks[c] = 0;
        hook(a.parent, c, count, {n, count}, nodes.joins(c, W), nodes.joins(c, S), false);
    });
}

// Joins the runs to components.
__device__ inline void unite_nodes(const ComponentArgs &a) {
    const Nodes nodes{a};
    const int64_t count = nodes.count(), n = nodes.columns();
    auto x = [&](int64_t c) { return nodes.joins(c, E); };
    auto y = [&](int64_t c) { return nodes.joins(c, N); };
    over_segments(count, [&](int64_t c) {
        const bool north = y(c);
        const Contacts to = {nodes.joins(c, W), north, false, north && x(c + n - 1), false};
        unite(a.parent, c, {n, count}, to, x, y, [](int64_t) { return false; });
        if (a.m.red) unite_corners(a.parent, c, n, nodes.joins(c, NE), nodes.joins(c, NW), x, y);
    });
}

// Counts the components of at least two nodes (COUPLED), and those that also have a nonzero row sum (BOTH). The thread
// that sets the last property required for a count increments this count.
__device__ inline void count_components(const ComponentArgs &a) {
    __shared__ unsigned count, with_sums;
    if (threadIdx.x == 0) count = with_sums = 0;
    __syncthreads();
    const Nodes nodes{a};
    over_cells(nodes.count(), [&](int64_t c) {
        const uint32_t root = root_of(a.parent, uint32_t(c));
        const uint32_t bits = (root != uint32_t(c) ? COUPLED : 0) | (nodes.excess(c) != 0.0 ? REGULAR : 0);
        // Usually another thread has set the properties already.
        const volatile uint32_t &seen = a.marks[root];
        if ((seen & bits) == bits) return;
        const uint32_t before = atomicOr(a.marks + root, bits), after = before | bits;
        if (!(before & COUPLED) && (after & COUPLED)) atomicAdd(&count, 1u);
        if (before != BOTH && after == BOTH) atomicAdd(&with_sums, 1u);
    });
    __syncthreads();
    if (threadIdx.x > 0) return;
    auto add = [](uint64_t *to, unsigned n) {
        if (n) atomicAdd(reinterpret_cast<unsigned long long *>(to), (unsigned long long)n);
    };
    add(&a.findings->components, count);
    add(&a.findings->regular_components, with_sums);
}
} // namespace components

RRB_KERNEL(rrb_hook_nodes_f64, ComponentArgs, THREADS, RESIDENT, components::hook_nodes)
RRB_KERNEL(rrb_unite_nodes_f64, ComponentArgs, THREADS, RESIDENT, components::unite_nodes)
RRB_KERNEL(rrb_count_components_f64, ComponentArgs, THREADS, RESIDENT, components::count_components)

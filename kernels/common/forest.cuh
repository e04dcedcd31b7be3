// Connected components by trees over numbered nodes, as in ECL-CC (J. Jaiganesh, M. Burtscher, A high-performance
// connected components implementation for GPUs, HPDC 2018).
//
// The parent of a node is in the same component and does not have a larger number. The entry of a root is its own
// number, or the bit IS_ROOT with other data. Two trees are joined by compare-and-swap, and the root with the smaller
// number remains the root. The final root of a node is therefore the first node of its component, for any order of the
// threads.
#pragma once
#include "device.cuh"

namespace forest {

constexpr uint32_t IS_ROOT = 1u << 31;

// Returns the root of a node, and shortens the path to it.
__device__ inline uint32_t root_of(volatile uint32_t *parent, uint32_t node) {
    uint32_t up = parent[node];
    while (up != node && !(up & IS_ROOT)) {
        const uint32_t above = parent[up];
        // Path compression: `above` replaces `up` as the parent of `node`. The node is no longer a root, so no thread
        // joins its tree through this entry.
        if (above < up) atomicMin(const_cast<uint32_t *>(parent) + node, above);
        node = up;
        up = above;
    }
    return node;
}

// Joins the trees of nodes a and b. The larger root becomes a child of the smaller root.
__device__ inline void join(uint32_t *parent, uint32_t a, uint32_t b) {
    a = root_of(parent, a);
    b = root_of(parent, b);
    while (a != b) {
        const uint32_t low = min(a, b), high = max(a, b), was = atomicCAS(parent + high, high, low);
        if (was == high) return;
        // Another thread has already joined `high` to a parent, `was`.
        a = root_of(parent, was);
        b = low;
    }
}

} // namespace forest

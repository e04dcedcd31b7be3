// Connected components by trees over numbered nodes, as in ECL-CC (J. Jaiganesh, M. Burtscher, A high-performance
// connected components implementation for GPUs, HPDC 2018).
//
// The parent of a node is in the same component and does not have a larger number. In the array `parent`, the entry of
// a node is the number of its parent. The entry of a root is its own number, or the bit IS_ROOT with other data. Two
// trees are joined by compare-and-swap, and the root with the smaller number remains the root. The final root of a node
// is therefore the first node of its component, for any order of the threads.
#pragma once
#include "device.cuh"

namespace forest {

constexpr uint32_t IS_ROOT = 1u << 31;

// Returns the root of a node, and shortens the path to it.
__device__ inline uint32_t root_of(volatile uint32_t *parent, uint32_t node) {
    uint32_t ancestor = parent[node];
    while (ancestor != node && !(ancestor & IS_ROOT)) {
        const uint32_t next_ancestor = parent[ancestor];
        // Path compression: `next_ancestor` replaces `ancestor` as the parent of `node`. The node is no longer a root,
        // so no thread joins its tree through this entry.
        if (next_ancestor < ancestor) atomicMin(const_cast<uint32_t *>(parent) + node, next_ancestor);
        node = ancestor;
        ancestor = next_ancestor;
    }
    return node;
}

// Joins the trees of nodes a and b. The larger root becomes a child of the smaller root.
__device__ inline void join(uint32_t *parent, uint32_t a, uint32_t b) {
    a = root_of(parent, a);
    b = root_of(parent, b);
    while (a != b) {
        const uint32_t low_root = min(a, b), high_root = max(a, b),
                       old_parent = atomicCAS(parent + high_root, high_root, low_root);
        if (old_parent == high_root) return;
        // Another thread has already joined `high_root` to a parent, `old_parent`.
        a = root_of(parent, old_parent);
        b = low_root;
    }
}

} // namespace forest

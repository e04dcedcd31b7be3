// Barriers of a whole launch and of a thread-block cluster.
#pragma once
#include "device.cuh"

// Counts of a barrier of all blocks of a launch; zero before and after it.
struct BarrierCounts {
    unsigned arrived;
    unsigned epoch;  // products with the inverse of the remainder by a cluster, from the first launch on
    unsigned summed; // blocks whose parts of the sums are there
};

#ifdef RRB_EMULATED
__device__ inline unsigned arrive(unsigned *place) { return atomicAdd(place, 1u); }
__device__ inline unsigned look(const unsigned *place) { return *place; }
#else
// What the block wrote before is seen by who sees this.
__device__ inline unsigned arrive(unsigned *place) {
    unsigned old;
    asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(old) : "l"(place) : "memory");
    return old;
}
__device__ inline unsigned look(const unsigned *place) {
    unsigned v;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(place) : "memory");
    return v;
}
#endif

// All `count` blocks come here before any goes on.
__device__ inline void grid_barrier(BarrierCounts *m, unsigned &phase, unsigned count) {
    ++phase;
    __syncthreads();
    if (thread_of_block() == 0) {
        arrive(&m->arrived);
        while (look(&m->arrived) < count * phase) {}
    }
    __syncthreads();
}

// The blocks of a cluster, all of which come here before any goes on, in a third of the time.
__device__ inline void cluster_barrier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" : : : "memory");
#else
    __syncthreads();
#endif
}

// This block's parts of scalar update number `updates` are there. The last block waits for those of all.
__device__ inline void bring_parts(BarrierCounts *m, unsigned updates, unsigned count) {
    __syncthreads();
    if (thread_of_block() == 0) {
        arrive(&m->summed);
        while (blockIdx.x == count - 1 && look(&m->summed) < count * updates) {}
    }
    __syncthreads();
}

// The last thing a block does: nobody waits any more when all have come.
__device__ inline void leave(BarrierCounts *m, unsigned phase, unsigned epoch, unsigned count) {
    __syncthreads();
    if (thread_of_block() == 0 && arrive(&m->arrived) + 1 == count * (phase + 1)) {
        m->arrived = 0;
        m->summed = 0;
        m->epoch = epoch;
    }
}

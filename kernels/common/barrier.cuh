// Barriers of all thread blocks of a launch, and of a thread-block cluster.
#pragma once
#include "device.cuh"

// Counters of a barrier of all thread blocks of a launch; `arrived_blocks` and `summed_blocks` are zero at the
// beginning and at the end of a launch.
struct BarrierCounts {
    unsigned arrived_blocks;
    unsigned epoch; // number of products with the coarsest inverse in all launches with a cluster (rrb/cluster.cuh)
    unsigned summed_blocks; // number of calls of `wait_for_partial_sums` in this launch
};

#ifdef RRB_EMULATED
__device__ inline unsigned arrive(unsigned *address) { return atomicAdd(address, 1u); }
__device__ inline unsigned load_acquire(const unsigned *address) { return *address; }
#else
// `arrive` releases and `load_acquire` acquires: a thread that reads the new value with `load_acquire` also sees all
// earlier writes of the thread block that called `arrive`.
__device__ inline unsigned arrive(unsigned *address) {
    unsigned old_count;
    asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(old_count) : "l"(address) : "memory");
    return old_count;
}
__device__ inline unsigned load_acquire(const unsigned *address) {
    unsigned count;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(count) : "l"(address) : "memory");
    return count;
}
#endif

// Waits until all `count` thread blocks of the launch have called this function as often as this thread block. `phase`
// is the number of earlier calls by this thread block; the function increments `phase`.
__device__ inline void grid_barrier(BarrierCounts *counts, unsigned &phase, unsigned count) {
    ++phase;
    __syncthreads();
    if (thread_of_block() == 0) {
        arrive(&counts->arrived_blocks);
        while (load_acquire(&counts->arrived_blocks) < count * phase) {}
    }
    __syncthreads();
}

// Waits until all thread blocks of the cluster have called this function, which is 3 times faster than grid_barrier.
// Devices below compute capability 9.0 have no clusters; there, this function synchronizes the threads of the block.
__device__ inline void cluster_barrier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" : : : "memory");
#else
    __syncthreads();
#endif
}

// Reports that this thread block has written its partial sums for the scalar update number `updates`, counted from 1.
// The thread block with the largest index waits until all `count` thread blocks have reported this.
__device__ inline void wait_for_partial_sums(BarrierCounts *counts, unsigned updates, unsigned count) {
    __syncthreads();
    if (thread_of_block() == 0) {
        arrive(&counts->summed_blocks);
        while (blockIdx.x == count - 1 && load_acquire(&counts->summed_blocks) < count * updates) {}
    }
    __syncthreads();
}

// Ends the use of the barrier. Each of the `count` thread blocks must call this function as its last use of the
// barrier. When the last thread block calls this function, no thread block waits at the barrier any longer. The last
// thread block therefore stores `epoch`, and resets the other counters for the next launch.
__device__ inline void leave_barrier(BarrierCounts *counts, unsigned phase, unsigned epoch, unsigned count) {
    __syncthreads();
    if (thread_of_block() == 0 && arrive(&counts->arrived_blocks) + 1 == count * (phase + 1)) {
        counts->arrived_blocks = 0;
        counts->summed_blocks = 0;
        counts->epoch = epoch;
    }
}

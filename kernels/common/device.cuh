// Functions shared by the kernels of all families: loads and stores with a cache policy, sums in a fixed order, and
// division of work among thread blocks.
#pragma once
#ifndef RRB_EMULATED
#include <cuda_runtime.h>
#endif
#include <cstddef>
#include <cstdint>

// Reads a value in device memory with the instruction of `__ldg`. No thread may write the value while the kernel runs.
// The compiler may therefore reorder the read with writes.
template <class T> __device__ inline T ldg(const T &v) { return __ldg(&v); }

// Like `ldg`, for a value that the kernel reads only once. The caches evict the value before others.
#ifdef RRB_EMULATED
template <class T> __device__ inline T ldcs(const T &v) { return v; }
#else
template <class T> __device__ inline T ldcs(const T &v) { return __ldcs(&v); }
#endif

// Accesses to values that a pass reads or writes only once. If ONCE is set, and the device has compute capability 8.0
// or higher, the L2 cache evicts their lines before others. The compiler may reorder reads by `ldg_once` with writes,
// like reads by `ldg`.
#if !defined(RRB_EMULATED) && __CUDA_ARCH__ >= 800
__device__ inline uint64_t evict_first() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
    return policy;
}
template <bool ONCE> __device__ inline double ldg_once(const double &v) {
    if (!ONCE) return ldg(v);
    double r;
    asm("ld.global.nc.L2::cache_hint.f64 %0, [%1], %2;" : "=d"(r) : "l"(&v), "l"(evict_first()));
    return r;
}
template <bool ONCE> __device__ inline double read_once(const double &v) {
    if (!ONCE) return v;
    double r;
    asm volatile("ld.global.L2::cache_hint.f64 %0, [%1], %2;" : "=d"(r) : "l"(&v), "l"(evict_first()) : "memory");
    return r;
}
template <bool ONCE> __device__ inline void write_once(double &target, double v) {
    if (!ONCE) target = v;
    else
        asm volatile("st.global.L2::cache_hint.f64 [%0], %1, %2;"
            :
            : "l"(&target), "d"(v), "l"(evict_first())
            : "memory");
}
#else
template <bool> __device__ inline double ldg_once(const double &v) { return ldg(v); }
template <bool> __device__ inline double read_once(const double &v) { return v; }
template <bool> __device__ inline void write_once(double &target, double v) { target = v; }
#endif

// Requests that the cache line of an address is loaded into the L2 cache.
__device__ inline void prefetch(const void *address) {
#ifndef RRB_EMULATED
    asm volatile("prefetch.global.L2 [%0];" : : "l"(address));
#endif
}

// Returns a clock of the device in nanoseconds.
__device__ inline uint64_t nanoseconds() {
#ifdef RRB_EMULATED
    return emulated_nanoseconds();
#else
    uint64_t nanoseconds_now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds_now) : : "memory");
    return nanoseconds_now;
#endif
}

// Computes the sum of v over a warp in a fixed order, by pairwise exchange.
template <class T> __device__ inline T warp_sum(T v) {
    for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(0xffffffffu, v, k);
    return v;
}

// Computes the sum of v over a thread block in a fixed order: pairwise within warps, and then over the warps in order.
// The function returns the same value in all threads.
__device__ inline double block_sum(double v) {
    __shared__ double warp_sums[32];
    const int t = threadIdx.x + blockDim.x * threadIdx.y;
    const int warp_count = (blockDim.x * blockDim.y + 31) / 32;
    v = warp_sum(v);
    __syncthreads();
    if (t % 32 == 0) warp_sums[t / 32] = v;
    __syncthreads();
    double sum = 0.0;
    for (int k = 0; k < warp_count; ++k) sum += warp_sums[k];
    return sum;
}

// A team: the thread blocks `first` .. `end` - 1 of a launch, which share a part of the work of the launch.
struct Team {
    int first, end;
    __device__ int index() const { return int(blockIdx.x) - first; }
    __device__ int size() const { return end - first; }
    __device__ bool contains_this_block() const { return unsigned(index()) < unsigned(size()); }
};
__device__ inline Team all_blocks() { return {0, int(gridDim.x)}; }

__device__ inline int thread_of_block() { return threadIdx.x + blockDim.x * threadIdx.y; }

// Returns whether this thread block is the last of the launch to call this function. The last thread block can read all
// values that the other thread blocks have written before. Which thread block is the last may differ from run to run,
// but results do not depend on this.
__device__ inline bool is_last_block(unsigned *ticket) {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (thread_of_block() == 0) is_last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (is_last) __threadfence();
    return is_last;
}

// Computes this thread's part of the sum of an array: the thread with index t in its block of T threads adds the
// elements t, t + T, t + 2 T, ... in this order, with eight loads in flight.
__device__ inline double thread_sum(const double *values, int count) {
    const int thread_count = blockDim.x * blockDim.y;
    double sum = 0.0;
    for (int index = thread_of_block(); index < count; index += 8 * thread_count) {
        double v[8];
#pragma unroll
        for (int u = 0; u < 8; ++u)
            v[u] = index + u * thread_count < count ? __ldcg(values + index + u * thread_count) : 0.0;
#pragma unroll
        for (int u = 0; u < 8; ++u) sum += v[u];
    }
    return sum;
}

// Computes the sum of an array with one thread block.
__device__ inline double sum_of(const double *values, int count) { return block_sum(thread_sum(values, count)); }

// Adds the values `sum` of all threads of the launch. Each thread block stores one partial sum in `partial`. The last
// thread block computes the total, and one of its threads calls use_total(total).
template <class Then> __device__ inline void sum_blocks(double sum, double *partial, unsigned *ticket, Then use_total) {
    sum = block_sum(sum);
    if (thread_of_block() == 0) partial[blockIdx.x] = sum;
    if (!is_last_block(ticket)) return;
    sum = sum_of(partial, gridDim.x);
    if (thread_of_block() == 0) use_total(sum);
}

// Returns the bits of |v|. As integers, these bits have the order of the magnitudes; NaN is the largest.
__device__ inline uint64_t magnitude(double v) { return uint64_t(__double_as_longlong(v)) & 0x7fffffffffffffffull; }

// The following atomic operations are system-wide, because several devices may update the same location at the same
// time.
__device__ inline void atomic_max(uint64_t *address, uint64_t v) {
    if (v) atomicMax_system(reinterpret_cast<unsigned long long *>(address), static_cast<unsigned long long>(v));
}
__device__ inline void atomic_min(uint64_t *address, uint64_t v) {
    atomicMin_system(reinterpret_cast<unsigned long long *>(address), static_cast<unsigned long long>(v));
}
__device__ inline void atomic_add(uint64_t *address, uint64_t v) {
    if (v) atomicAdd_system(reinterpret_cast<unsigned long long *>(address), static_cast<unsigned long long>(v));
}

// Replaces the value at `address` by the maximum of this value and of v over all threads of the thread block. All
// threads of the block call this function.
__device__ inline void update_largest(uint64_t *address, uint64_t v) {
    __shared__ unsigned long long largest;
    if (thread_of_block() == 0) largest = 0;
    __syncthreads();
    if (v) atomicMax(&largest, (unsigned long long)v);
    __syncthreads();
    if (thread_of_block() == 0) atomic_max(address, largest);
}

__device__ inline bool is_finite(double v) { return magnitude(v) < 0x7ff0000000000000ull; }

__device__ inline double sum4(double a, double b, double c, double d) { return (a + b) + (c + d); }
__device__ inline double sum4(const double a[4]) { return sum4(a[0], a[1], a[2], a[3]); }

// Computes n / d with fewer instructions than an integer division, for n >= 0 and d > 0. The quotient must be so small
// that its approximation in single precision is off by at most 1.
__device__ inline int quotient(int n, int d) {
#ifdef RRB_EMULATED
    return n / d;
#else
    int q = int(__fdividef(float(n), float(d)));
    if (q * d > n) --q;
    else if ((q + 1) * d <= n) ++q;
    return q;
#endif
}

// Calls f(c) for those of the indices 0 .. count - 1 that belong to this thread.
template <class F> __device__ inline void for_each_cell(int64_t count, F f) {
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t c = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; c < count; c += step) f(c);
}

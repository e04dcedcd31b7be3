// CUDA C++ on the host, as far as kernels/ uses it: threads of a block are coroutines, blocks run one after the other.
// Slow and without caches, but with every barrier, so that a missing one or a wrong index shows on a machine without a GPU.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__
#define __shared__ static
using std::max;
using std::min;

struct double2 {
    double x, y;
};
struct dim3 {
    unsigned x, y, z;
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
void emulated_warp_barrier();
extern double emulated_lanes[1024];
void emulated_set_conditional(uint64_t handle, bool value);

inline void __threadfence() {}
inline unsigned atomicInc(unsigned *place, unsigned most) {
    const unsigned old = *place;
    *place = old >= most ? 0 : old + 1;
    return old;
}
inline unsigned atomicAdd(unsigned *place, unsigned v) {
    const unsigned old = *place;
    *place += v;
    return old;
}
inline unsigned atomicOr(unsigned *place, unsigned v) { return std::exchange(*place, *place | v); }
inline unsigned atomicCAS(unsigned *place, unsigned expected, unsigned v) { return *place == expected ? std::exchange(*place, v) : *place; }
inline float __uint_as_float(uint32_t v) {
    float r;
    std::memcpy(&r, &v, 4);
    return r;
}
inline uint32_t __float_as_uint(float v) {
    uint32_t r;
    std::memcpy(&r, &v, 4);
    return r;
}
inline unsigned long long atomicAdd(unsigned long long *place, unsigned long long v) {
    const unsigned long long old = *place;
    *place += v;
    return old;
}
inline unsigned long long atomicCAS(unsigned long long *place, unsigned long long expected, unsigned long long v) {
    return *place == expected ? std::exchange(*place, v) : *place;
}
inline int __clz(unsigned v) { return v ? __builtin_clz(v) : 32; }
inline int __ffs(unsigned v) { return __builtin_ffs(v); }
inline unsigned long long atomicMax(unsigned long long *place, unsigned long long v) { return std::exchange(*place, std::max(*place, v)); }
inline unsigned atomicMin(unsigned *place, unsigned v) { return std::exchange(*place, std::min(*place, v)); }
inline unsigned long long atomicMin(unsigned long long *place, unsigned long long v) { return std::exchange(*place, std::min(*place, v)); }
template <class T> inline T __ldcg(const T *p) { return *p; }
template <class T> inline T __ldg(const T *p) { return *p; }
inline long long __double_as_longlong(double v) {
    long long r;
    std::memcpy(&r, &v, 8);
    return r;
}
inline int __double2hiint(double v) { return static_cast<int>(__double_as_longlong(v) >> 32); }
inline double __longlong_as_double(long long v) {
    double r;
    std::memcpy(&r, &v, 8);
    return r;
}
inline void __syncwarp() { emulated_warp_barrier(); }
template <class T> inline T emulated_shuffle(T v, int from) {
    const int t = threadIdx.x + blockDim.x * threadIdx.y;
    emulated_warp_barrier();
    std::memcpy(&emulated_lanes[t], &v, sizeof(T));
    emulated_warp_barrier();
    T r;
    std::memcpy(&r, &emulated_lanes[t / 32 * 32 + from], sizeof(T));
    return r;
}
inline int emulated_lane() { return (threadIdx.x + blockDim.x * threadIdx.y) % 32; }
template <class T> inline T __shfl_xor_sync(unsigned, T v, int mask) { return emulated_shuffle(v, emulated_lane() ^ mask); }
inline int __any_sync(unsigned, int v) {
    for (int k = 16; k > 0; k /= 2) v |= emulated_shuffle(v, emulated_lane() ^ k);
    return v != 0;
}
inline unsigned __ballot_sync(unsigned, int v) {
    unsigned bits = unsigned(v != 0) << emulated_lane();
    for (int k = 16; k > 0; k /= 2) bits |= emulated_shuffle(bits, emulated_lane() ^ k);
    return bits;
}
template <class T> inline T __shfl_sync(unsigned, T v, int from) { return emulated_shuffle(v, from % 32); }
template <class T> inline T __shfl_down_sync(unsigned, T v, int by) { return emulated_shuffle(v, emulated_lane() + by < 32 ? emulated_lane() + by : emulated_lane()); }
template <class T> inline T __shfl_up_sync(unsigned, T v, int by) { return emulated_shuffle(v, emulated_lane() < by ? emulated_lane() : emulated_lane() - by); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }

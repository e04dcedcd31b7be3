// Emulation on the host of the part of CUDA C++ that kernels/ uses. The threads of a block are coroutines, and blocks
// run one after the other. The emulation is slow and has no caches, but it executes every barrier. Tests therefore
// detect a missing barrier or a wrong index on a machine without a GPU.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include "threads.h"

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
void emulated_set_conditional(uint64_t handle, bool value);

inline uint64_t emulated_nanoseconds() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

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
inline unsigned atomicCAS(unsigned *place, unsigned expected, unsigned v) {
    return *place == expected ? std::exchange(*place, v) : *place;
}
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
inline unsigned atomicMax(unsigned *place, unsigned v) { return std::exchange(*place, std::max(*place, v)); }
inline unsigned long long atomicMax(unsigned long long *place, unsigned long long v) {
    return std::exchange(*place, std::max(*place, v));
}
inline unsigned atomicMin(unsigned *place, unsigned v) { return std::exchange(*place, std::min(*place, v)); }
inline unsigned long long atomicMin(unsigned long long *place, unsigned long long v) {
    return std::exchange(*place, std::min(*place, v));
}
template <class T> inline T atomicAdd_system(T *place, T v) { return atomicAdd(place, v); }
template <class T> inline T atomicMax_system(T *place, T v) { return atomicMax(place, v); }
template <class T> inline T atomicMin_system(T *place, T v) { return atomicMin(place, v); }
inline unsigned atomicInc_system(unsigned *place, unsigned most) { return atomicInc(place, most); }
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
template <class T> inline T __shfl_sync(unsigned, T v, int from) { return emulator::shuffle(v, from % emulator::WARP); }
template <class T> inline T __shfl_xor_sync(unsigned, T v, int mask) {
    return emulator::shuffle(v, emulator::lane() ^ mask);
}
template <class T> inline T __shfl_down_sync(unsigned, T v, int by) {
    const int lane = emulator::lane();
    return emulator::shuffle(v, lane + by < emulator::WARP ? lane + by : lane);
}
template <class T> inline T __shfl_up_sync(unsigned, T v, int by) {
    const int lane = emulator::lane();
    return emulator::shuffle(v, lane < by ? lane : lane - by);
}
inline unsigned __ballot_sync(unsigned, int v) { return emulator::ballot(v != 0); }
inline int __any_sync(unsigned, int v) { return emulator::ballot(v != 0) != 0; }
template <class T> inline unsigned __match_any_sync(unsigned, T v) {
    unsigned same = 0;
    for (int k = 0; k < emulator::WARP; ++k) same |= emulator::shuffle(v, k) == v ? 1u << k : 0u;
    return same;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }

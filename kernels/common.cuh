// What all kernels share: the r1/r2/b1/b2 storage, the scalars of a solve, sums of fixed shape.
//
// Storage (src/grid/layout.rs): a colour of a grid is a plane of (cy + 2) rows of `stride` values; entry (I, J) lies at
// (J + 1) * stride + block + I. Everything outside of the nodes is zero and stays zero, so that no kernel asks for an
// edge. Planes of one array lie one after the other, in the order of the enumerations below.
//
//     j' odd :  r1(I,J) b2(I,J) r1(I+1,J) b2(I+1,J) ...       i' = i + shift_x = 2 I or 2 I + 1
//     j' even:  b1(I,J) r2(I,J) b1(I+1,J) r2(I+1,J) ...       j' = j + shift_y = 2 J or 2 J + 1
//
// Launch shape of all kernels over the compute area of a grid: blocks of TILE_X x TILE_Y threads, each of which walks over
// tiles with the stride of the launch, at most MOST_BLOCKS of them. 32-bit extents, 64-bit places.
#pragma once
#ifndef RRB_EMULATED
#include <cuda_runtime.h>
#endif
#include <cstdint>

// A warp reads 256 consecutive bytes of a row; eight rows share what they read of the rows between them.
constexpr int TILE_X = 32;
constexpr int TILE_Y = 8;
constexpr int THREADS = TILE_X * TILE_Y;
// Fixed, so that sums have one shape on every device: four blocks for each of 132 multiprocessors, which hold them all at
// once (RESIDENT), so that none waits for a second turn.
constexpr int MOST_BLOCKS = 528;
constexpr int RESIDENT = 4;
enum Colour { R1, R2, B1, B2 };
enum Straight { W, E, S, N };
enum Diagonal { SW, SE, NW, NE };
// Planes of couplings at distance two.
enum Far { B1_EAST, B1_NORTH, B2_EAST, B2_NORTH };

struct Geometry {
    int nx, ny;
    int cx, cy;
    int shift_x, shift_y;
    int stride, block;
    int64_t plane;

    __device__ int64_t at(int i, int j) const { return int64_t(j + 1) * stride + block + i; }
};

// One grid of the preconditioner. Couplings are kept once: straight ones with the red nodes (8 planes: W E S N of r1, of
// r2), diagonal ones with b1 (4 planes: SW SE NW NE).
struct Grid {
    Geometry g;
    double *h;        // 1 / d of r1, r2, b1
    double *s;        // straight couplings
    double *d;        // diagonal couplings between black nodes, after the odd level
    double *excess;   // row sums; of eliminated nodes excess / d; setup alone
    double *corners;  // diagonal couplings between red nodes, kept with r1; setup alone
    double *far;      // couplings at distance two, after the odd level
    double *z;        // right-hand side on the way down, solution on the way up
    double *y;        // b1 on the way down
};

// Where the kept values of a grid go and come from: the four colours of the next grid, or (`next.g.nx` = 0) the plain
// vectors of the remainder, i fastest.
struct Kept {
    Geometry g;
    double *z;
    const double *from;
    double *to;
    int nx, ny;

    __device__ int64_t at(int i, int j) const {
        const int ii = i + g.shift_x, jj = j + g.shift_y;
        const int colour = (jj & 1) ? ((ii & 1) ? B2 : R1) : ((ii & 1) ? R2 : B1);
        return colour * g.plane + g.at(ii >> 1, jj >> 1);
    }
    __device__ void put(int i, int j, double value) const {
        if (i >= nx || j >= ny) return;
        if (to) to[int64_t(j) * nx + i] = value;
        else z[at(i, j)] = value;
    }
    __device__ double get(int i, int j) const {
        if (unsigned(i) >= unsigned(nx) || unsigned(j) >= unsigned(ny)) return 0.0;
        return from ? from[int64_t(j) * nx + i] : z[at(i, j)];
    }
};

// How the loop of PCG stands; numbers as in src/backend/cuda/steps.rs.
enum Code { RUNNING, MET, MAX_ITER, SPENT, SIGMA_VANISHED, RHO_NEGATIVE, RHO_BAD, SIGMA_BAD, PAUSED };

// Entries of the ring of iterations; the loop pauses when it is full.
constexpr int RING = 1024;

struct Step {
    double norm, alpha, beta;
};

// The scalars of a solve, on the device. The host writes the first part before the loop.
struct Scalars {
    double threshold;
    double vanishing;         // residuals of at most this 2-norm may have squares that vanish
    int64_t iteration;
    int64_t max_iter;
    int64_t pause_at;
    int32_t preconditioned;   // the tested norm
    int32_t code;
    double rho, sigma, alpha, beta, norm2, norm;
    int32_t ring_used;
    int32_t parity;           // which of the two r of b1 is current; from here on the host only reads
    double sum;               // of the last dot product
    double b_norm2, whole_norm2;  // <b, b> and |b - A x|^2
    uint64_t largest, largest_guess, not_finite;
    unsigned ticket;
    unsigned unused;
    Step ring[RING];
};

// Sum over the block of THREADS threads: by halves in a warp, warps in order. The same on every thread.
__device__ inline double block_sum(double v) {
    __shared__ double warps[32];
    const int t = threadIdx.x + blockDim.x * threadIdx.y;
    const int count = (blockDim.x * blockDim.y + 31) / 32;
    for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(0xffffffffu, v, k);
    __syncthreads();
    if (t % 32 == 0) warps[t / 32] = v;
    __syncthreads();
    double sum = 0.0;
    for (int k = 0; k < count; ++k) sum += warps[k];
    return sum;
}

__device__ inline int thread_of_block() { return threadIdx.x + blockDim.x * threadIdx.y; }

// Says whether this block is the last of the launch to come here: then all that the others wrote can be read. Which block
// it is changes from run to run; what it does with fixed arrays does not.
__device__ inline bool last_block(unsigned *ticket) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (thread_of_block() == 0) last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last) __threadfence();
    return last;
}

// Sum of an array by one block, each thread its places in order.
__device__ inline double sum_of(const double *values, int count) {
    double sum = 0.0;
    for (int k = thread_of_block(); k < count; k += blockDim.x * blockDim.y) sum += __ldcg(values + k);
    return block_sum(sum);
}

// Order of magnitudes by their bits, NaN on top.
__device__ inline uint64_t magnitude(double v) { return uint64_t(__double_as_longlong(v)) & 0x7fffffffffffffffull; }

__device__ inline void atomic_max(uint64_t *place, uint64_t v) {
    if (v) atomicMax(reinterpret_cast<unsigned long long *>(place), static_cast<unsigned long long>(v));
}
__device__ inline void atomic_min(uint64_t *place, uint64_t v) {
    atomicMin(reinterpret_cast<unsigned long long *>(place), static_cast<unsigned long long>(v));
}

__device__ inline bool is_finite(double v) { return magnitude(v) < 0x7ff0000000000000ull; }

__device__ inline double sum4(double a, double b, double c, double d) { return (a + b) + (c + d); }
__device__ inline double sum4(const double a[4]) { return sum4(a[0], a[1], a[2], a[3]); }

// What a kernel does with its sums.
enum Turn { NOTHING, START, LOOP };

// From the way down to the way up, by one thread: <r, M^-1 r> and <r, r> are known. The decisions of
// src/solver/krylov.rs. The fused way down has written the other r of b1.
__device__ inline void turn(Scalars &s, double rho, double norm2, int how) {
    s.norm2 = norm2;
    if (how == START) {
        s.rho = rho;
        return;
    }
    s.iteration += 1;
    if (s.preconditioned && rho <= 0.0 && sqrt(norm2) <= s.vanishing) rho = 0.0;
    s.norm = sqrt(s.preconditioned ? rho : norm2);
    Step &step = s.ring[s.ring_used++];
    step.norm = s.norm;
    step.alpha = s.alpha;
    step.beta = s.beta;
    s.sum = rho;
    if (s.preconditioned && !(rho >= 0.0 && is_finite(rho))) s.code = RHO_NEGATIVE;
    else if (s.norm <= s.threshold) s.code = MET;
    else if (s.iteration >= s.max_iter) s.code = MAX_ITER;
    else if (rho <= 0.0 && sqrt(norm2) <= s.vanishing) s.code = SPENT;
    else if (!(rho > 0.0 && is_finite(rho))) s.code = RHO_BAD;
    else {
        s.beta = rho / s.rho;
        s.rho = rho;
    }
}

// The end of the way up, by one thread: <p, A p> is known.
__device__ inline void end_of_iteration(Scalars &s, double sigma, int how) {
    s.sigma = sigma;
    if (how == LOOP) {
        if (sigma <= 0.0 && sqrt(s.norm2) <= s.vanishing) s.code = SIGMA_VANISHED;
        else if (!(sigma > 0.0 && is_finite(sigma))) s.code = SIGMA_BAD;
        else if (s.iteration >= s.pause_at) s.code = PAUSED;
    } else {
        s.beta = 0.0;
    }
    s.alpha = s.rho / sigma;
}

// Calls f(I, J) for the compute area; every thread of a block makes the same number of rounds, `inside` or not.
template <class F>
__device__ inline void over_area(const Geometry &g, F f) {
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    for (int tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
        const int i = tile % across * TILE_X + threadIdx.x, j = tile / across * TILE_Y + threadIdx.y;
        if (i < g.cx && j < g.cy) f(i, j);
    }
}

__device__ inline double straight_b1(const Grid &k, const double *v, int64_t c) {
    const int64_t p = k.g.plane, n = k.g.stride;
    const double *r1 = k.s, *r2 = k.s + 4 * p, *v1 = v + R1 * p, *v2 = v + R2 * p;
    return (r2[E * p + c - 1] * v2[c - 1] + r2[W * p + c] * v2[c]) + (r1[N * p + c - n] * v1[c - n] + r1[S * p + c] * v1[c]);
}

__device__ inline double straight_b2(const Grid &k, const double *v, int64_t c) {
    const int64_t p = k.g.plane, n = k.g.stride;
    const double *r1 = k.s, *r2 = k.s + 4 * p, *v1 = v + R1 * p, *v2 = v + R2 * p;
    return (r1[E * p + c] * v1[c] + r1[W * p + c + 1] * v1[c + 1]) + (r2[N * p + c] * v2[c] + r2[S * p + c + n] * v2[c + n]);
}

__device__ inline double straight_r1(const Grid &k, const double *v, int64_t c) {
    const int64_t p = k.g.plane, n = k.g.stride;
    const double *a = k.s, *v1 = v + B1 * p, *v2 = v + B2 * p;
    return (a[W * p + c] * v2[c - 1] + a[E * p + c] * v2[c]) + (a[S * p + c] * v1[c] + a[N * p + c] * v1[c + n]);
}

__device__ inline double straight_r2(const Grid &k, const double *v, int64_t c) {
    const int64_t p = k.g.plane, n = k.g.stride;
    const double *a = k.s + 4 * p, *v1 = v + B1 * p, *v2 = v + B2 * p;
    return (a[W * p + c] * v1[c] + a[E * p + c] * v1[c + 1]) + (a[S * p + c] * v2[c - n] + a[N * p + c] * v2[c]);
}

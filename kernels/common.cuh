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
// tiles with the stride of the launch, at most MOST_BLOCKS of them. 32-bit extents; places are 64-bit on the finest grid and
// 32-bit in sweeps (src/backend/cuda/rrb/packed.rs refuses what does not fit).
#pragma once
#ifndef RRB_EMULATED
#include <cuda_runtime.h>
#endif
#include <cstddef>
#include <cstdint>

// A warp reads 256 consecutive bytes of a row; eight rows share what they read of the rows between them.
constexpr int TILE_X = 32;
constexpr int TILE_Y = 8;
constexpr int THREADS = TILE_X * TILE_Y;
// Places across and down, for which a byte says whether their rows of the matrix are the same (kernels/uniform.cu).
constexpr int PATCH = 8;
// Fixed, so that sums have one shape on every device: four blocks for each of 132 multiprocessors, which hold them all at
// once (RESIDENT), so that none waits for a second turn.
constexpr int MOST_BLOCKS = 528;
constexpr int RESIDENT = 4;
// A tile of a sweep with the row and column of b1 beyond it, and a thread for each value of it.
constexpr int HALO = (TILE_X + 1) * (TILE_Y + 1);
constexpr int SWEEP_THREADS = (HALO + 31) / 32 * 32;
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
    // A byte for each TILE_X x TILE_Y places: 1 where all rows of the matrix there and around are the same, colour by colour. Null
    // where they are few.
    const uint8_t *uniform;

    __device__ int64_t at(int i, int j) const { return int64_t(j + 1) * stride + block + i; }
    // The place where couplings of (i, j) and those around it are read: where rows are the same, one for all, which stays at hand.
    __device__ int64_t rows_at(int i, int j) const {
        if (!uniform || !uniform[j / TILE_Y * ((cx + TILE_X - 1) / TILE_X) + i / TILE_X]) return at(i, j);
        return at(i / TILE_X * TILE_X, j / TILE_Y * TILE_Y);
    }
};

// A value in device memory that no kernel of a solve writes: reads of it need not keep their place among writes.
template <class T> __device__ inline T fixed(const T &v) { return __ldg(&v); }

// A value that a pass reads or writes once, when ONCE is set: its line is the first that the L2 cache gives up. Reads of `fixed_once`
// need not keep their place among writes, as those of `fixed`.
#if !defined(RRB_EMULATED) && __CUDA_ARCH__ >= 800
__device__ inline uint64_t given_up_first() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
    return policy;
}
template <bool ONCE> __device__ inline double fixed_once(const double &v) {
    if (!ONCE) return fixed(v);
    double r;
    asm("ld.global.nc.L2::cache_hint.f64 %0, [%1], %2;" : "=d"(r) : "l"(&v), "l"(given_up_first()));
    return r;
}
template <bool ONCE> __device__ inline double read_once(const double &v) {
    if (!ONCE) return v;
    double r;
    asm volatile("ld.global.L2::cache_hint.f64 %0, [%1], %2;" : "=d"(r) : "l"(&v), "l"(given_up_first()) : "memory");
    return r;
}
template <bool ONCE> __device__ inline void write_once(double &to, double v) {
    if (!ONCE) to = v;
    else asm volatile("st.global.L2::cache_hint.f64 [%0], %1, %2;" : : "l"(&to), "d"(v), "l"(given_up_first()) : "memory");
}
#else
template <bool> __device__ inline double fixed_once(const double &v) { return fixed(v); }
template <bool> __device__ inline double read_once(const double &v) { return v; }
template <bool> __device__ inline void write_once(double &to, double v) { to = v; }
#endif

// Formats of M (src/backend/storage.rs): what is stored, and what sweeps compute in; CG is in double precision. The short
// ones keep M / unit. `read`: from device memory, as above; `widen`: of a value at hand.
struct Double {
    using Stored = double;
    using Real = double;
    static __device__ double read(const double &v) { return fixed(v); }
    static __device__ double widen(double v) { return v; }
};
struct Single {
    using Stored = float;
    using Real = float;
    static __device__ float read(const float &v) { return fixed(v); }
    static __device__ float widen(float v) { return v; }
};
// The upper half of a float.
struct Brain {
    struct Stored {
        uint16_t bits;
    };
    using Real = float;
    static __device__ float read(const Stored &v) { return __uint_as_float(uint32_t(fixed(v.bits)) << 16); }
    static __device__ float widen(Stored v) { return __uint_as_float(uint32_t(v.bits) << 16); }
};
// One grid as the factorization works on it, in double precision. Couplings are kept once: straight ones with the red
// nodes (8 planes: W E S N of r1, of r2), diagonal ones with b1 (4 planes: SW SE NW NE).
struct Grid {
    Geometry g;
    double *h;        // 1 / d of r1, r2, b1; beyond the first grid and of b2, 1 / center of what the grid leaves
    double *s;        // straight couplings
    double *d;        // diagonal couplings between black nodes, after the odd level
    double *excess;   // row sums; of eliminated nodes excess / d
    double *corners;  // diagonal couplings between red nodes, kept with r1
    double *far;      // couplings at distance two, after the odd level
    // What sweeps read, in short formats; null with double precision, where they read the above.
    float *short_h;
    void *short_s, *short_d;
    // Where a cycle recurses, the matrix before the levels change it, in the format of M: 4 planes each.
    void *kept_excess, *kept_corners, *kept_black;
};

// Where the kept values of a grid go and come from: the four colours of the next grid, or of the remainder's vectors. What
// lies beside the nodes there is zero, so that `get` asks for no edge.
template <class Real> struct Kept {
    Geometry g;
    Real *to;
    const Real *from;
    int nx, ny;

    __device__ int at(int i, int j) const {
        const int ii = i + g.shift_x, jj = j + g.shift_y;
        const int colour = (jj & 1) ? ((ii & 1) ? B2 : R1) : ((ii & 1) ? R2 : B1);
        return colour * int(g.plane) + ((jj >> 1) + 1) * g.stride + g.block + (ii >> 1);
    }
    __device__ void put(int i, int j, Real value) const {
        if (i < nx && j < ny) to[at(i, j)] = value;
    }
    __device__ Real get(int i, int j) const { return from[at(i, j)]; }
};

// One grid as sweeps and cycles work on it.
template <class F> struct Level {
    using Real = typename F::Real;
    using Stored = typename F::Stored;
    Geometry g;
    const Real *h;                          // 1 / d of r1, r2, b1, and of b2 where ALONE is said of the grid
    const Stored *s, *d;                    // couplings, as in Grid
    Real *z;                                // right-hand side on the way down, solution on the way up
    Real *y;                                // b1 on the way down
    const Stored *excess, *corners, *black; // where a cycle recurses: its matrix, in excess form
    Real *r, *direction, *q, *u;            // and the vectors of the iteration
    Kept<Real> kept;
};

// A step of the preconditioner (src/backend/cuda/rrb/program.rs). A program is an array of them in device memory.
enum Kind { DESCEND_FIRST, DESCEND, REMAINDER, ASCEND, MULTIPLY_INNER, DIRECT_INNER, ADVANCE_INNER, ADVANCE_FIRST };
enum Flag {
    KEEP = 1,        // down: r = right-hand side
    KEEP_TOO = 2,    // down: and q
    RHO = 4,         // a part of <r, M^-1 r>
    TURN = 8,        // the last such part
    DIRECTED = 16,   // up, or as a step: d = z, with WITH_BETA + beta d
    WITH_BETA = 32,
    FIRST_STEP = 64, // u = alpha d, else u + alpha d
    TAKE = 128,      // up: z = u
    STORE = 256,     // product: q = A d
    GO_ON = 512,     // product, step: r -= alpha q, z = r
    ADVANCED = 1024, // up: u as above
    // In a kernel of several steps (cycle.cu):
    CREW = 2048,        // the blocks of the first cluster alone do it
    CREW_MEETS = 4096,  // and they alone meet after it
    UNMET = 8192,       // no meeting after it: the step that follows has one
    PART = 16384,       // the last part of rho of this kernel
    IN_CREW = 65536,    // in the shared memory of the crew (crew.cu)
    ENTERS = 131072,    // the first such step: z is in device memory
    ALONE = 262144,     // down: z of b2 by its pivot, its couplings are left out
};
struct Op {
    int32_t kind, grid, flags, partial;  // partial: where its blocks put their sums
    double alpha, beta;
};

// How the loop of PCG stands; numbers as in src/backend/cuda/rrb/steps.rs.
enum Code { RUNNING, MET, MAX_ITER, SPENT, SIGMA_VANISHED, RHO_NEGATIVE, RHO_BAD, SIGMA_BAD, PAUSED };

// Entries of the ring of iterations; the loop pauses when it is full.
constexpr int RING = 1024;

struct Step {
    double norm, alpha, beta;
};

// The scalars of a solve, on the device. The host, or rrb_set_out, writes the first part before the loop.
struct Standing {
    double per_unit;          // short formats keep M / unit
    double threshold;
    double vanishing;         // residuals of at most this 2-norm may have squares that vanish
    int64_t iteration;
    int64_t max_iter;
    int64_t pause_at;
    int64_t done;             // the loop is over and x is there: what the graph has of it does nothing any more
    int32_t preconditioned;   // the tested norm
    int32_t code;
    double rho, sigma, alpha, beta, norm2, norm;
    int64_t met;              // the test of this iteration is met: the way down has found it, and its turn will say so
    int32_t ring_used;
    int32_t parity;           // which of the two r of b1 is current; from here on they only read
    double sum;               // of the last dot product
    int64_t direction;        // which of the two p is current, and alpha that of
    int64_t waits;            // the step of x along it is done with that along the next p
    int64_t behind;           // so x lacks the step along the other p
    double alpha_before;      // whose alpha this is
    double b_norm2, whole_norm2;  // <b, b> and |b - A x|^2
    uint64_t largest, largest_guess;
    uint64_t not_finite;      // complement of the first place; 0: none
    unsigned ticket;
    unsigned unused;
};
struct Scalars : Standing {
    Step ring[RING];
};

// What a turn and the end of an iteration change, at once: field by field, each write would make the next read wait. By the first
// threads of a block.
__device__ inline void copy_standing(Standing &to, const Standing &from) {
    const int t = threadIdx.x + blockDim.x * threadIdx.y;
    if (t < int(offsetof(Standing, b_norm2) / sizeof(uint64_t))) reinterpret_cast<uint64_t *>(&to)[t] = reinterpret_cast<const uint64_t *>(&from)[t];
}

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

// The blocks of a launch that do some of its work: those from `first` to `end`.
struct Team {
    int first, end;
    __device__ int place() const { return int(blockIdx.x) - first; }
    __device__ int size() const { return end - first; }
    __device__ bool is_mine() const { return unsigned(place()) < unsigned(size()); }
};
__device__ inline Team all_blocks() { return {0, int(gridDim.x)}; }

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

// Sum of this thread's places of an array, in order; eight loads at once.
__device__ inline double part_of(const double *values, int count) {
    const int step = blockDim.x * blockDim.y;
    double sum = 0.0;
    for (int first = thread_of_block(); first < count; first += 8 * step) {
        double v[8];
#pragma unroll
        for (int u = 0; u < 8; ++u) v[u] = first + u * step < count ? __ldcg(values + first + u * step) : 0.0;
#pragma unroll
        for (int u = 0; u < 8; ++u) sum += v[u];
    }
    return sum;
}

// Sum of an array by one block.
__device__ inline double sum_of(const double *values, int count) { return block_sum(part_of(values, count)); }

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

// b - (center v_0 + sum of a_j v_j), from differences (sums, for positive couplings), as src/backend/residual.rs has it.
template <int N> __device__ inline double residual_of_row(double b, double center, double v_0, const double (&a)[N], const double (&v)[N]) {
    double excess = center, lost = 0.0, flow = 0.0;
    for (int j = 0; j < N; ++j) {
        const double to = -fabs(a[j]), sum = excess + to, added = sum - excess;
        lost += (excess - (sum - added)) + (to - added);
        excess = sum;
        flow += a[j] * (v[j] + copysign(1.0, a[j]) * v_0);
    }
    return b - (excess * v_0 + (lost * v_0 + flow));
}

// What a kernel does with its sums.
// CONFIRM: as START, after a loop that does not go on.
enum Turn { NOTHING, START, LOOP, CONFIRM };

// From the way down to the way up, by one thread: <r, M^-1 r> and <r, r> are known. The decisions of
// src/solver/krylov.rs. The fused way down has written the other r of b1. `ring`: of the scalars, by who writes it; else null.
__device__ inline void turn(Standing &s, Step *ring, double rho, double norm2, int how) {
    if (how == CONFIRM && (s.code == PAUSED || s.code == RUNNING)) return;
    s.norm2 = norm2;
    if (how != LOOP) {
        s.rho = rho;
        return;
    }
    s.iteration += 1;
    if (s.preconditioned && rho <= 0.0 && sqrt(norm2) <= s.vanishing) rho = 0.0;
    s.norm = sqrt(s.preconditioned ? rho : norm2);
    if (ring) {
        Step &step = ring[s.ring_used];
        step.norm = s.norm;
        step.alpha = s.alpha;
        step.beta = s.beta;
    }
    s.ring_used += 1;
    s.sum = rho;
    if (s.preconditioned && !(rho >= 0.0 && is_finite(rho))) s.code = RHO_NEGATIVE;
    else if (s.met || s.norm <= s.threshold) s.code = MET;
    else if (s.iteration >= s.max_iter) s.code = MAX_ITER;
    else if (rho <= 0.0 && sqrt(norm2) <= s.vanishing) s.code = SPENT;
    else if (!(rho > 0.0 && is_finite(rho))) s.code = RHO_BAD;
    else {
        s.beta = rho / s.rho;
        s.rho = rho;
    }
}

// The end of the way up, by one thread: <p, A p> is known. `pairs`: x may take two steps at once, every other iteration; not in one
// that is the last before the host looks, or may be.
__device__ inline void end_of_iteration(Standing &s, double sigma, int how, bool pairs = false) {
    s.sigma = sigma;
    s.direction = s.parity;
    s.behind = how == LOOP && s.waits;
    s.alpha_before = s.alpha;
    if (how == LOOP) {
        if (sigma <= 0.0 && sqrt(s.norm2) <= s.vanishing) s.code = SIGMA_VANISHED;
        else if (!(sigma > 0.0 && is_finite(sigma))) s.code = SIGMA_BAD;
        else if (s.iteration >= s.pause_at) s.code = PAUSED;
        if (s.code != RUNNING) s.done = 1;
    } else {
        s.beta = 0.0;
    }
    s.waits = pairs && how == LOOP && s.code == RUNNING && !s.behind && s.iteration + 1 < s.max_iter && s.iteration + 1 < s.pause_at;
    s.alpha = s.rho / sigma;
}

// n / d of small numbers, in fewer steps than a division.
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

// The passes of an iteration go over their tiles in turns forwards and backwards, each beginning with what the one before it
// has left in the L2 cache.
enum Way { FORWARDS, BACKWARDS };

// The same by blocks: the last one of a block's tiles, from which it goes back; -1: it has none.
__device__ inline int last_tile(int tiles, Team team) {
    const int place = team.is_mine() ? team.place() : tiles;
    return place < tiles ? place + quotient(tiles - 1 - place, team.size()) * team.size() : -1;
}

// Of the tiles first, first + step, ... of this block, those that are uniform: looked up before the first, since whoever waits for it tile
// by tile takes longer. Those beyond count as others.
struct UniformTiles {
    static constexpr int MOST = 512;
    const uint8_t *of;
    __device__ bool operator[](int k) const { return k < MOST && of[k]; }
};
struct NoUniformTiles {
    __device__ bool operator[](int) const { return false; }
};

template <bool UNIFORM, class IsUniform> __device__ inline auto uniform_tiles(int first, int step, int count, IsUniform is_uniform) {
    if constexpr (UNIFORM) {
        __shared__ uint8_t known[UniformTiles::MOST];
        const int threads = blockDim.x * blockDim.y;
        for (int k = thread_of_block(); k < min(count, UniformTiles::MOST); k += threads) known[k] = is_uniform(first + k * step);
        __syncthreads();
        return UniformTiles{known};
    } else {
        return NoUniformTiles{};
    }
}

// Calls f(I, J) for the compute area, by the first THREADS threads of each block.
template <Way WAY = FORWARDS, class F>
__device__ inline void over_area(const Geometry &g, F f, Team team = all_blocks()) {
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y, tiles = across * down;
    const int t = thread_of_block(), ti = t % TILE_X, tj = t / TILE_X;
    for (int k = team.is_mine() ? team.place() : tiles; k < tiles; k += team.size()) {
        const int tile = WAY == FORWARDS ? k : tiles - 1 - k, row = quotient(tile, across);
        const int i = (tile - row * across) * TILE_X + ti, j = row * TILE_Y + tj;
        if (tj < TILE_Y && i < g.cx && j < g.cy) f(i, j);
    }
}

// The end of the way down: what makes <r, M^-1 r> and <r, r>.
struct TurnArgs {
    Scalars *scalars;
    const double *rho_partial, *norm_partial;
    int rho_count, norm_count;
    int how;
};

// By one block, when the parts are there; or by all, each for itself.
__device__ inline void turn_of(const TurnArgs &a, Standing &s, Step *ring) {
    if (a.how == LOOP && s.done) return;
    double rho = part_of(a.rho_partial, a.rho_count), norm2 = part_of(a.norm_partial, a.norm_count);
    rho = block_sum(rho);
    norm2 = block_sum(norm2);
    if (thread_of_block() == 0) {
        // The way down of the loop has written the other r of b1.
        if (a.how == LOOP) s.parity ^= 1;
        turn(s, ring, rho * s.per_unit, norm2, a.how);
    }
}

__device__ inline void turn_of(const TurnArgs &a) {
    __shared__ Standing now;
    copy_standing(now, *a.scalars);
    __syncthreads();
    turn_of(a, now, a.scalars->ring);
    __syncthreads();
    copy_standing(*a.scalars, now);
}

// By one block, once the parts of <r, r> are there: whether the turn will end the loop. The small grids are left out then.
__device__ inline void foresee(const TurnArgs &a) {
    Standing &s = *a.scalars;
    if (a.how == LOOP && s.done) return;
    const double norm2 = sum_of(a.norm_partial, a.norm_count);
    if (thread_of_block() == 0) s.met = a.how == LOOP && !s.preconditioned && sqrt(norm2) <= s.threshold;
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

// Couplings of a colour to its straight neighbours, as they are stored.
template <class T> __device__ inline void straight_couplings(const Geometry &g, const T *s, int colour, int64_t c, T a[4]) {
    const int64_t p = g.plane, n = g.stride;
    const T *r1 = s, *r2 = s + 4 * p;
    switch (colour) {
    case R1: for (int k = 0; k < 4; ++k) a[k] = r1[k * p + c]; break;
    case R2: for (int k = 0; k < 4; ++k) a[k] = r2[k * p + c]; break;
    case B1: a[0] = r2[E * p + c - 1]; a[1] = r2[W * p + c]; a[2] = r1[N * p + c - n]; a[3] = r1[S * p + c]; break;
    default: a[0] = r1[E * p + c]; a[1] = r1[W * p + c + 1]; a[2] = r2[N * p + c]; a[3] = r2[S * p + c + n]; break;
    }
}

// To its diagonal ones. `of`: those kept with r1 (colours r1, r2) or with b1 (colours b1, b2).
template <class T> __device__ inline void diagonal_couplings(const Geometry &g, const T *of, int colour, int64_t c, T a[4]) {
    const int64_t p = g.plane, n = g.stride;
    switch (colour) {
    case R1: case B1: for (int k = 0; k < 4; ++k) a[k] = of[k * p + c]; break;
    case R2: a[0] = of[NE * p + c - n]; a[1] = of[NW * p + c - n + 1]; a[2] = of[SE * p + c]; a[3] = of[SW * p + c + 1]; break;
    default: a[0] = of[NE * p + c]; a[1] = of[NW * p + c + 1]; a[2] = of[SE * p + c + n]; a[3] = of[SW * p + c + n + 1]; break;
    }
}

// v at the straight neighbours of a colour, in the order of its couplings.
template <class T> __device__ inline void straight_values(const Geometry &g, const T *v, int colour, int64_t c, T w[4]) {
    const int64_t p = g.plane, n = g.stride;
    const T *r1 = v + R1 * p + c, *r2 = v + R2 * p + c, *b1 = v + B1 * p + c, *b2 = v + B2 * p + c;
    switch (colour) {
    case R1: w[0] = b2[-1]; w[1] = b2[0]; w[2] = b1[0]; w[3] = b1[n]; break;
    case R2: w[0] = b1[0]; w[1] = b1[1]; w[2] = b2[-n]; w[3] = b2[0]; break;
    case B1: w[0] = r2[-1]; w[1] = r2[0]; w[2] = r1[-n]; w[3] = r1[0]; break;
    default: w[0] = r1[0]; w[1] = r1[1]; w[2] = r2[0]; w[3] = r2[n]; break;
    }
}

// And at the diagonal ones.
template <class T> __device__ inline void diagonal_values(const Geometry &g, const T *v, int colour, int64_t c, T w[4]) {
    const int64_t p = g.plane, n = g.stride;
    const T *r1 = v + R1 * p + c, *r2 = v + R2 * p + c, *b1 = v + B1 * p + c, *b2 = v + B2 * p + c;
    switch (colour) {
    case R1: w[0] = r2[-1]; w[1] = r2[0]; w[2] = r2[n - 1]; w[3] = r2[n]; break;
    case R2: w[0] = r1[-n]; w[1] = r1[1 - n]; w[2] = r1[0]; w[3] = r1[1]; break;
    case B1: w[0] = b2[-n - 1]; w[1] = b2[-n]; w[2] = b2[-1]; w[3] = b2[0]; break;
    default: w[0] = b1[0]; w[1] = b1[1]; w[2] = b1[n]; w[3] = b1[n + 1]; break;
    }
}

// Where the blocks of a launch meet: counts of one launch, zero before and after it.
struct Meeting {
    unsigned arrived;
    unsigned visit;   // of the remainder by a crew, from the first launch on
    unsigned summed;  // blocks whose parts of a turn are there
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
__device__ inline void meet(Meeting *m, unsigned &phase, unsigned count) {
    ++phase;
    __syncthreads();
    if (thread_of_block() == 0) {
        arrive(&m->arrived);
        while (look(&m->arrived) < count * phase) {}
    }
    __syncthreads();
}

// The blocks of a cluster, all of which come here before any goes on, in a third of the time.
__device__ inline void meet_crew() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" : : : "memory");
#else
    __syncthreads();
#endif
}

// A line is on its way to the L2 cache.
__device__ inline void prefetch(const void *place) {
#ifndef RRB_EMULATED
    asm volatile("prefetch.global.L2 [%0];" : : "l"(place));
#endif
}

// This block's parts of turn number `turns` are there. The last block waits for those of all.
__device__ inline void bring_parts(Meeting *m, unsigned turns, unsigned count) {
    __syncthreads();
    if (thread_of_block() == 0) {
        arrive(&m->summed);
        while (blockIdx.x == count - 1 && look(&m->summed) < count * turns) {}
    }
    __syncthreads();
}

// The last thing a block does: nobody waits any more when all have come.
__device__ inline void leave(Meeting *m, unsigned phase, unsigned visit, unsigned count) {
    __syncthreads();
    if (thread_of_block() == 0 && arrive(&m->arrived) + 1 == count * (phase + 1)) {
        m->arrived = 0;
        m->summed = 0;
        m->visit = visit;
    }
}

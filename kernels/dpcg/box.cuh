// Boxes of cells on a device: extents, loops over cells, where sums go.
//
// Storage: cell (i, j, k) of a vector or of an array of the matrix lies at (k ny + j) nx + i. Before and after each
// array are zeros, at least as many as a plane has cells, and couplings that leave the box are zero: no kernel asks for
// an edge. Numbers of cells fit 32 bits; places are 64-bit.
//
// Launch shape of all kernels over cells: blocks of THREADS threads if not said otherwise, at most MOST_BLOCKS of them,
// each of which walks with the stride of the launch. A value has one writer, the thread of its cell, and a kernel that
// reads neighbours reads arrays that it does not write, unless it says otherwise.
#pragma once
#include "../common/residual.cuh"
#include "../common/scalars.cuh"

namespace dpcg {

constexpr int THREADS = 256;
// Fixed, so that sums have one shape on every device: four blocks for each of 132 multiprocessors.
constexpr int MOST_BLOCKS = 528;
constexpr int RESIDENT = 4;
constexpr int WARPS = THREADS / 32;

struct Box {
    int nx, ny, nz, unused;
    __device__ int64_t count() const { return int64_t(nx) * ny * nz; }
    __device__ int64_t north() const { return nx; }
    __device__ int64_t top() const { return int64_t(nx) * ny; }
};

// Calls f(c) with this thread's places of 0 .. count - 1.
template <class F> __device__ inline void over_cells(int64_t count, F f) {
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t c = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; c < count; c += step) f(c);
}

// Calls f(c, i, j, k) with this thread's cells.
template <class F> __device__ inline void over_places(const Box &box, F f) {
    over_cells(box.count(), [&](int64_t c) {
        const unsigned row = unsigned(c) / unsigned(box.nx);
        f(c, int(unsigned(c) - row * unsigned(box.nx)), int(row % unsigned(box.ny)), int(row / unsigned(box.ny)));
    });
}

// Calls f(c) with this thread's cells of a colour, (i + j + k) % 2.
template <class F> __device__ inline void over_colour(const Box &box, int colour, F f) {
    const unsigned half = unsigned(box.nx + 1) / 2;
    over_cells(int64_t(half) * box.ny * box.nz, [&](int64_t item) {
        const unsigned row = unsigned(item) / half;
        const unsigned i = 2 * (unsigned(item) - row * half) +
            (unsigned(colour) + row % unsigned(box.ny) + row / unsigned(box.ny)) % 2;
        if (i < unsigned(box.nx)) f(int64_t(row) * box.nx + i);
    });
}

// The caller's array: a[k plane + j ld + i].
struct Array {
    double *values;
    int64_t ld, plane;
    __device__ double *at(int i, int j, int k) const { return values + k * plane + j * ld + i; }
};

// The matrix, at its first cell.
struct Matrix {
    const double *center, *east, *north, *top;
};

// What becomes of a sum over all cells.
enum Use {
    KEPT,      // it is kept
    RHO,       // <r, M^-1 r> of an iteration: the scalar update
    LAST_SIGMA, // <p, P A p>: the end of an iteration
    LAST_PART  // <Z^T q, t>, which <p, q> is larger by than <p, P A p>: the end, too
};

struct Sum {
    double *partial; // a value a block; null: there is no sum
    Scalars *scalars;
    double *to; // KEPT
    int use, in_loop;
    uint64_t conditional; // handle of the WHILE node; 0: none
};

// Whether a kernel of a recorded loop finds it over. The last one of an iteration says so.
__device__ inline bool is_over(const Sum &s) {
    if (!s.in_loop || s.scalars->code == RUNNING) return false;
    if (s.use >= LAST_SIGMA && blockIdx.x == 0 && threadIdx.x == 0) {
        s.scalars->done = 1;
        if (s.conditional) set_loop(s.conditional, *s.scalars);
    }
    return true;
}

__device__ inline void finish_sum(const Sum &s, double sum) {
    if (!s.partial) return;
    sum_blocks(sum, s.partial, &s.scalars->ticket, [&](double all) {
        Scalars &now = *s.scalars;
        if (s.use == RHO) {
            update(now, now.ring, all, now.norm2, LOOP);
        } else if (s.use >= LAST_SIGMA) {
            end_of_iteration(now, s.use == LAST_PART ? now.sigma - all : all, LOOP);
            if (s.conditional) set_loop(s.conditional, now);
        } else {
            *s.to = all;
        }
    });
}

// N sums of all blocks, added by the last one, to `to`; `partial` has a value for each block, sum after sum.
template <int N>
__device__ inline void sums_of_blocks(const double (&sums)[N], double *partial, unsigned *ticket, double *to) {
    for (int k = 0; k < N; ++k) {
        const double sum = block_sum(sums[k]);
        if (threadIdx.x == 0) partial[k * gridDim.x + blockIdx.x] = sum;
    }
    if (!last_block(ticket)) return;
    for (int k = 0; k < N; ++k) {
        const double sum = sum_of(partial + k * gridDim.x, gridDim.x);
        if (threadIdx.x == 0) to[k] = sum;
    }
}

// Couplings of a cell to west, east, south, north, bottom and top, and the values there.
struct Around {
    double a[6], v[6];
};
__device__ inline Around around(const Box &box, const Matrix &m, const double *v, int64_t c) {
    const int64_t n = box.north(), t = box.top();
    return {{fixed(m.east[c - 1]), fixed(m.east[c]), fixed(m.north[c - n]), fixed(m.north[c]), fixed(m.top[c - t]),
                fixed(m.top[c])},
        {v[c - 1], v[c + 1], v[c - n], v[c + n], v[c - t], v[c + t]}};
}

__device__ inline double sum_of_products(const Around &k) {
    return (k.a[0] * k.v[0] + k.a[1] * k.v[1]) +
        ((k.a[2] * k.v[2] + k.a[3] * k.v[3]) + (k.a[4] * k.v[4] + k.a[5] * k.v[5]));
}

} // namespace dpcg

// A kernel that calls a function (the last arguments) with its ARGS.
#define DPCG_KERNEL(NAME, ARGS, ...)                                                                                   \
    extern "C" __global__ void __launch_bounds__(dpcg::THREADS, dpcg::RESIDENT) NAME(dpcg::ARGS a) {                   \
        dpcg::__VA_ARGS__(a);                                                                                          \
    }
// The same with more registers a thread: for two blocks on a multiprocessor at least.
#define DPCG_LARGE_KERNEL(NAME, ARGS, ...)                                                                             \
    extern "C" __global__ void __launch_bounds__(dpcg::THREADS, 2) NAME(dpcg::ARGS a) { dpcg::__VA_ARGS__(a); }

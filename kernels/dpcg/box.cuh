// Boxes of cells on a device: extents, loops over cells, and reductions.
//
// Storage: cell (i, j, k) of a vector or a matrix array is stored at index (k ny + j) nx + i. At least one plane of
// zeros precedes and follows each array, and couplings that leave the box are zero. The kernels therefore need no test
// for the boundary of the box. Cell numbers have 32 bits, array indices 64 bits.
//
// Unless stated otherwise, kernels over cells have at most MOST_BLOCKS thread blocks of THREADS threads, and a
// grid-stride loop.
//
// There are no races, because each value is written only by the thread of its cell. Unless stated otherwise, a kernel
// that reads values at neighbours does not write the array that it reads.
#pragma once
#include "../common/residual.cuh"
#include "../common/scalars.cuh"

namespace dpcg {

constexpr int THREADS = 256;
// Maximum number of thread blocks. It does not depend on the device, so that sums have the same order on every device.
// It is four blocks per multiprocessor of a device with 132 multiprocessors.
constexpr int MOST_BLOCKS = 528;
// Number of thread blocks per multiprocessor that DPCG_KERNEL guarantees.
constexpr int RESIDENT = 4;
constexpr int WARPS = THREADS / 32;

struct CellBox {
    int nx, ny, nz, unused;
    __device__ int64_t count() const { return int64_t(nx) * ny * nz; }
    __device__ int64_t north() const { return nx; }
    __device__ int64_t top() const { return int64_t(nx) * ny; }
};

// Calls f(c, i, j, k) for the cells of this thread.
template <class F> __device__ inline void over_places(const CellBox &box, F f) {
    over_cells(box.count(), [&](int64_t c) {
        const unsigned row = unsigned(c) / unsigned(box.nx);
        f(c, int(unsigned(c) - row * unsigned(box.nx)), int(row % unsigned(box.ny)), int(row / unsigned(box.ny)));
    });
}

// Calls f(c) for those cells of this thread whose colour (i + j + k) % 2 is `colour`.
template <class F> __device__ inline void over_colour(const CellBox &box, int colour, F f) {
    const unsigned half = unsigned(box.nx + 1) / 2;
    over_cells(int64_t(half) * box.ny * box.nz, [&](int64_t item) {
        const unsigned row = unsigned(item) / half;
        const unsigned i = 2 * (unsigned(item) - row * half) +
            (unsigned(colour) + row % unsigned(box.ny) + row / unsigned(box.ny)) % 2;
        if (i < unsigned(box.nx)) f(int64_t(row) * box.nx + i);
    });
}

// An array of the caller: the value of cell (i, j, k) is values[k * plane + j * ld + i].
struct CellArray {
    double *values;
    int64_t ld, plane;
    __device__ double *at(int i, int j, int k) const { return values + k * plane + j * ld + i; }
};

// Pointers to the first cell of the matrix arrays.
struct CellMatrix {
    const double *center, *east, *north, *top;
};

// How a sum over all cells is used by the thread block that finishes last.
enum Use {
    KEPT,      // the block stores the sum in `to`
    RHO,       // the sum is <r, M^-1 r> of an iteration; the block updates the scalars
    LAST_SIGMA, // the sum is <p, P A p>; the block ends the iteration
    LAST_PART  // the sum is <Z^T q, t> = <p, q> - <p, P A p>; the block ends the iteration
};

struct Sum {
    double *partial; // one value per thread block; null: there is no sum
    Scalars *scalars;
    double *to; // result of KEPT
    int how, in_loop; // how: a value of Use; in_loop: 1 in the loop of a recorded graph, 0 otherwise
    uint64_t conditional; // condition handle of the WHILE node of the graph; 0: none
};

// Returns whether the loop of a recorded graph has ended. If it has, the kernel that computes the last sum of the
// iteration also sets `done` and ends the WHILE node.
__device__ inline bool is_over(const Sum &s) {
    if (!s.in_loop || s.scalars->code == RUNNING) return false;
    if (s.how >= LAST_SIGMA && blockIdx.x == 0 && threadIdx.x == 0) {
        s.scalars->done = 1;
        if (s.conditional) set_loop_condition(s.conditional, *s.scalars);
    }
    return true;
}

// Adds `sum` over all thread blocks, and uses the result as `s.how` states.
__device__ inline void finish_sum(const Sum &s, double sum) {
    if (!s.partial) return;
    sum_blocks(sum, s.partial, &s.scalars->ticket, [&](double all) {
        Scalars &now = *s.scalars;
        if (s.how == RHO) {
            update(now, now.ring, all, now.norm2, LOOP);
        } else if (s.how >= LAST_SIGMA) {
            end_of_iteration(now, s.how == LAST_PART ? now.sigma - all : all, LOOP);
            if (s.conditional) set_loop_condition(s.conditional, now);
        } else {
            *s.to = all;
        }
    });
}

// Adds N sums over all thread blocks. The last thread block stores the results in `to`. `partial` contains one value
// per block for the first sum, then for the second sum, and so on.
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

// Couplings of a cell to west, east, south, north, bottom and top, and the values at these neighbours.
struct Around {
    double a[6], v[6];
};
__device__ inline Around around(const CellBox &box, const CellMatrix &m, const double *v, int64_t c) {
    const int64_t n = box.north(), t = box.top();
    return {{fixed(m.east[c - 1]), fixed(m.east[c]), fixed(m.north[c - n]), fixed(m.north[c]), fixed(m.top[c - t]),
                fixed(m.top[c])},
        {v[c - 1], v[c + 1], v[c - n], v[c + n], v[c - t], v[c + t]}};
}

// Returns the sum of the products of couplings and values, in a fixed order.
__device__ inline double sum_of_products(const Around &k) {
    return (k.a[0] * k.v[0] + k.a[1] * k.v[1]) +
        ((k.a[2] * k.v[2] + k.a[3] * k.v[3]) + (k.a[4] * k.v[4] + k.a[5] * k.v[5]));
}

} // namespace dpcg

// Defines the kernel NAME, whose only argument is a struct ARGS. The kernel passes it to the function that the last
// macro arguments name: several arguments, because the name may contain commas.
#define DPCG_KERNEL(NAME, ARGS, ...)                                                                                   \
    extern "C" __global__ void __launch_bounds__(dpcg::THREADS, dpcg::RESIDENT) NAME(dpcg::ARGS a) {                   \
        dpcg::__VA_ARGS__(a);                                                                                          \
    }
// Like DPCG_KERNEL, but with more registers per thread: only two thread blocks per multiprocessor are guaranteed.
#define DPCG_LARGE_KERNEL(NAME, ARGS, ...)                                                                             \
    extern "C" __global__ void __launch_bounds__(dpcg::THREADS, 2) NAME(dpcg::ARGS a) { dpcg::__VA_ARGS__(a); }

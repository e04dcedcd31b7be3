// Boxes of cells on a device: storage, couplings, and kernel definitions.
//
// Storage: cell (i, j, k) of a vector or a matrix array is stored at index (k ny + j) nx + i. At least one plane of
// zeros precedes and follows each array, and couplings that leave the box are zero. The kernels therefore need no test
// for the boundary of the box. Cell numbers have 32 bits, array indices 64 bits. For the launch configuration, and why
// there are no races, see kernels/common/vectors.cuh.
#pragma once
#include "../common/residual.cuh"
#include "../common/vectors.cuh"

namespace dpcg {

using namespace vectors;
using vectors::THREADS;
using vectors::WARPS;

// Calls f(c) for those cells of this thread whose colour (i + j + k) % 2 is `colour`.
template <class F> __device__ inline void for_each_cell_of_colour(const CellBox &box, int colour, F f) {
    const unsigned row_items = unsigned(box.nx + 1) / 2;
    for_each_cell(int64_t(row_items) * box.ny * box.nz, [&](int64_t item) {
        const unsigned row = unsigned(item) / row_items;
        const unsigned i = 2 * (unsigned(item) - row * row_items) +
            (unsigned(colour) + row % unsigned(box.ny) + row / unsigned(box.ny)) % 2;
        if (i < unsigned(box.nx)) f(int64_t(row) * box.nx + i);
    });
}

// Pointers to the first cell of the matrix arrays.
struct CellMatrix {
    const double *center, *east, *north, *top;
};

// Couplings of a cell to west, east, south, north, bottom and top, and the values at these neighbours.
struct NeighbourValues {
    double a[6], v[6];
};
__device__ inline NeighbourValues load_neighbours(const CellBox &box, const CellMatrix &m, const double *v, int64_t c) {
    const int64_t n = box.north(), t = box.top();
    return {{ldg(m.east[c - 1]), ldg(m.east[c]), ldg(m.north[c - n]), ldg(m.north[c]), ldg(m.top[c - t]),
                ldg(m.top[c])},
        {v[c - 1], v[c + 1], v[c - n], v[c + n], v[c - t], v[c + t]}};
}

// Returns the sum of the products of couplings and values, in a fixed order.
__device__ inline double sum_of_products(const NeighbourValues &k) {
    return (k.a[0] * k.v[0] + k.a[1] * k.v[1]) +
        ((k.a[2] * k.v[2] + k.a[3] * k.v[3]) + (k.a[4] * k.v[4] + k.a[5] * k.v[5]));
}

} // namespace dpcg

// Defines a kernel as CELL_KERNEL does.
#define DPCG_KERNEL(NAME, ARGS, ...) CELL_KERNEL(dpcg, NAME, ARGS, __VA_ARGS__)
// Like DPCG_KERNEL, but with more registers per thread: only two thread blocks per multiprocessor are guaranteed.
#define DPCG_LARGE_KERNEL(NAME, ARGS, ...)                                                                             \
    extern "C" __global__ void __launch_bounds__(dpcg::THREADS, 2) NAME(dpcg::ARGS a) { dpcg::__VA_ARGS__(a); }

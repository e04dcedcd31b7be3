// Multigrid by aggregation on a device (docs/theory/aggregation.md; src/aggregation contains the CPU version). This
// file defines the matrix of a level during the setup, in double precision, and loops over its rows.
//
// A symmetric matrix S is stored as couplings a_ij = -s_ij and row sums e_i = sum_j s_ij. The diagonal entries are
// d_i = e_i + sum_j a_ij. Row i has length[i] couplings, which begin at index row_start[i], in ascending order of the
// columns. Unused memory may follow the couplings of a row.
//
// Kernels have up to MAX_BLOCKS thread blocks of THREADS threads and grid-stride loops, unless they state that they
// use one thread block. In loops over the couplings of a row, LANES threads share the row, so that several loads are in
// flight. The first of these threads writes the result. On large levels of a cycle, one thread processes a row. Unless
// stated otherwise, each value is written by the thread of its row, and no other thread of the same kernel reads it.
// Indices of rows and couplings have 32 bits.
#pragma once
#include "../common/device.cuh"

namespace aggregation {

constexpr int THREADS = 256;
constexpr int MAX_BLOCKS = 1056;
// Value that represents no row, or no aggregate.
constexpr uint32_t NONE = ~0u;
// A row sum whose magnitude is below this fraction of the diagonal entry is a rounding error and is set to zero.
constexpr double ROUNDING = 1e-12;

struct Couplings {
    uint32_t *row_start, *length;
    uint32_t *col;
    double *a;
    double *row_sum, *diagonal;
    uint32_t rows, unused;
};

// Calls f(k) for those indices k of 0 .. count - 1 that belong to this thread.
template <class F> __device__ inline void for_each_index(uint32_t count, F f) {
    const uint32_t step = gridDim.x * blockDim.x;
    for (uint64_t k = blockIdx.x * blockDim.x + threadIdx.x; k < count; k += step) f(uint32_t(k));
}

// Number of threads that share a row in loops over its couplings. Most rows have at most this many couplings.
constexpr int LANES = 8;

// Calls f(i, lane, has_row) for the rows i of this thread. ROW_THREADS threads share a row, and `lane` is the number of
// this thread among them. All threads of a warp call f equally often, because f may contain warp shuffles. If no row is
// left for a thread, `has_row` is false, and i is the number of the last row.
template <int ROW_THREADS, class F> __device__ inline void for_each_row(uint32_t rows, F f) {
    const uint32_t group = (blockIdx.x * blockDim.x + threadIdx.x) / ROW_THREADS;
    const uint32_t groups = gridDim.x * blockDim.x / ROW_THREADS;
    constexpr uint32_t ROWS_PER_WARP = 32 / ROW_THREADS;
    for (uint64_t warp_row = group - group % ROWS_PER_WARP; warp_row < rows; warp_row += groups) {
        const uint64_t i = warp_row + group % ROWS_PER_WARP;
        f(uint32_t(i < rows ? i : rows - 1), threadIdx.x % ROW_THREADS, i < rows);
    }
}

// Adds v over the threads that share a row. Each of these threads gets the sum.
template <int ROW_THREADS, class V> __device__ inline V sum_lanes(V v) {
    for (int offset = ROW_THREADS / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

// Ends row i: stores its length, its row sum and its diagonal entry. A row sum at the rounding level is set to
// zero. `coupling_sum` is the sum of the couplings of the row.
__device__ inline void end_row(const Couplings &c, uint32_t i, uint32_t length, double row_sum, double coupling_sum) {
    if (fabs(row_sum) < ROUNDING * (row_sum + coupling_sum)) row_sum = 0.0;
    c.length[i] = length;
    c.row_sum[i] = row_sum;
    c.diagonal[i] = row_sum + coupling_sum;
}

} // namespace aggregation

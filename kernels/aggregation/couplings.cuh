// Multigrid by aggregation on a device (src/backend/aggregation has the method): the matrix of a level while levels
// are made, in double precision, and loops over its rows.
//
// A symmetric matrix by its couplings and the excess of its rows: a_ij = -s_ij, e_i = sum of row i of S, and
// d_i = e_i + sum over j of a_ij. Row i has `length` couplings from `first` on, by ascending columns; behind them there
// may be room that nobody reads.
//
// Launch shape of all kernels that are not said to be one block: blocks of THREADS threads, at most MOST_BLOCKS of
// them, each of which walks with the stride of the launch. Where a row's couplings are gone over, LANES threads share
// it, whose loads are on their way together, and its first lane writes; in large levels of a cycle a thread has a row.
// A value has one writer, the thread of its row, and nobody else reads it in that kernel, unless it says otherwise.
// Rows and couplings count with 32 bits.
#pragma once
#include "../common/device.cuh"

namespace aggregation {

constexpr int THREADS = 256;
constexpr int MOST_BLOCKS = 1056;
// No row, no aggregate.
constexpr uint32_t NONE = ~0u;
// An excess below this part of the diagonal is rounding.
constexpr double ROUNDING = 1e-12;

struct Couplings {
    uint32_t *first, *length;
    uint32_t *col;
    double *a;
    double *excess, *diagonal;
    uint32_t rows, unused;
};

// Calls f(k) with this thread's places of 0 .. count - 1.
template <class F> __device__ inline void over(uint32_t count, F f) {
    const uint32_t step = gridDim.x * blockDim.x;
    for (uint64_t k = blockIdx.x * blockDim.x + threadIdx.x; k < count; k += step) f(uint32_t(k));
}

// Threads of a row where there is more than one: most have no more couplings.
constexpr int LANES = 8;

// Calls f(i, lane, is) with the rows of this thread, ROW of which share one, and which of their lanes it is. All
// threads of a warp come along: those beyond the last row have that one, and `is` not set.
template <int ROW, class F> __device__ inline void over_rows(uint32_t rows, F f) {
    const uint32_t group = (blockIdx.x * blockDim.x + threadIdx.x) / ROW, groups = gridDim.x * blockDim.x / ROW;
    constexpr uint32_t TOGETHER = 32 / ROW;
    for (uint64_t first = group - group % TOGETHER; first < rows; first += groups) {
        const uint64_t i = first + group % TOGETHER;
        f(uint32_t(i < rows ? i : rows - 1), threadIdx.x % ROW, i < rows);
    }
}

// The sum over the lanes of a row, the same on each.
template <int ROW, class V> __device__ inline V lane_sum(V v) {
    for (int by = ROW / 2; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffffu, v, by);
    return v;
}

// Row i has all its couplings, whose sum this is.
__device__ inline void end_row(const Couplings &c, uint32_t i, uint32_t length, double excess, double sum) {
    if (fabs(excess) < ROUNDING * (excess + sum)) excess = 0.0;
    c.length[i] = length;
    c.excess[i] = excess;
    c.diagonal[i] = excess + sum;
}

} // namespace aggregation

// Galerkin matrices P^T A P of the coarser levels (docs/theory/aggregation.md). Couplings and row sums are added over
// aggregates in a fixed order.
#pragma once
#include "couplings.cuh"

namespace aggregation {

// Exclusive prefix sums of `count` values, in place; the total is stored after the last value. The values are divided
// into parts of PART values. sum_parts computes the sum of each part with one thread block. scan_parts computes the
// prefix sums of these sums with a single thread block. scan_values computes the prefix sums within each part.
constexpr int VALUES_PER_THREAD = 8;
constexpr uint32_t PART = THREADS * VALUES_PER_THREAD;
struct ScanArgs {
    uint32_t *values, *part_sums;
    uint32_t count, unused;
};

// Returns the sum of v over the previous threads of the thread block. Stores the sum over all its threads in
// `block_sum`.
__device__ inline uint32_t sum_of_previous_threads(uint32_t v, uint32_t &block_sum) {
    __shared__ uint32_t sums[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t sum = v;
    for (int offset = 1; offset < 32; offset *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, sum, offset);
        if (lane >= offset) sum += other;
    }
    __syncthreads();
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    uint32_t previous_sum = 0;
    block_sum = 0;
    for (int k = 0; k < THREADS / 32; ++k) {
        if (k < warp) previous_sum += sums[k];
        block_sum += sums[k];
    }
    return previous_sum + sum - v;
}

__device__ inline uint32_t load_values(const ScanArgs &a, uint32_t part, uint32_t v[VALUES_PER_THREAD]) {
    uint32_t sum = 0;
    for (int k = 0; k < VALUES_PER_THREAD; ++k) {
        const uint32_t index = part * PART + threadIdx.x * VALUES_PER_THREAD + k;
        v[k] = index < a.count ? a.values[index] : 0;
        sum += v[k];
    }
    return sum;
}

// Computes the sum of each part.
__device__ inline void sum_parts(const ScanArgs &a) {
    const uint32_t parts = (a.count + PART - 1) / PART;
    for (uint32_t part = blockIdx.x; part < parts; part += gridDim.x) {
        uint32_t v[VALUES_PER_THREAD], block_sum;
        sum_of_previous_threads(load_values(a, part, v), block_sum);
        if (threadIdx.x == 0) a.part_sums[part] = block_sum;
    }
}

// Computes the exclusive prefix sums of the sums of all parts. One thread block executes this function.
__device__ inline void scan_parts(const ScanArgs &a) {
    const uint32_t parts = (a.count + PART - 1) / PART;
    uint32_t previous_sum = 0;
    for (uint32_t first_part = 0; first_part < parts; first_part += THREADS) {
        const uint32_t k = first_part + threadIdx.x;
        uint32_t block_sum;
        const uint32_t sum = previous_sum + sum_of_previous_threads(k < parts ? a.part_sums[k] : 0, block_sum);
        if (k < parts) a.part_sums[k] = sum;
        previous_sum += block_sum;
    }
    if (threadIdx.x == 0) a.values[a.count] = previous_sum;
}

// Computes the prefix sums within each part, and adds to them the sum of all previous parts.
__device__ inline void scan_values(const ScanArgs &a) {
    const uint32_t parts = (a.count + PART - 1) / PART;
    for (uint32_t part = blockIdx.x; part < parts; part += gridDim.x) {
        uint32_t v[VALUES_PER_THREAD], unused_block_sum;
        uint32_t sum = a.part_sums[part] + sum_of_previous_threads(load_values(a, part, v), unused_block_sum);
        for (int k = 0; k < VALUES_PER_THREAD; ++k) {
            const uint32_t index = part * PART + threadIdx.x * VALUES_PER_THREAD + k;
            if (index < a.count) a.values[index] = sum;
            sum += v[k];
        }
    }
}

struct GalerkinArgs {
    Couplings fine, coarse;           // coarse.rows: number of aggregates
    const uint32_t *aggregate_of_row; // aggregate of each fine row, or NONE
    const uint32_t *nodes;            // nodes of each aggregate, `width` entries, padded with NONE
    int width, unused;
};

// Stores in coarse.row_start[k] an upper bound of the number of couplings of coarse row k: the number of couplings of
// all nodes of its aggregate. The prefix sums of these bounds become the starts of the rows.
__device__ inline void bound_row_lengths(const GalerkinArgs &g) {
    for_each_index(g.coarse.rows, [&](uint32_t k) {
        uint32_t length_bound = 0;
        for (int w = 0; w < g.width; ++w) {
            const uint32_t i = g.nodes[uint64_t(k) * g.width + w];
            if (i != NONE) length_bound += g.fine.length[i];
        }
        g.coarse.row_start[k] = length_bound;
    });
}

// The following functions compute P^T S P, where P_ik is 1 if node i is in aggregate k, and 0 otherwise: sums of
// couplings and of row sums over aggregates. Terms are added in the order of the nodes of an aggregate, and of the
// columns within a node.
//
// Each function sum_by_... computes one coarse row from its `count` fine couplings. `sum_by_warp` allows up to
// MAX_WARP_COUPLINGS of them. coarse.row_start must contain the start of each row. A function
// - stores the couplings of the coarse row, and returns the number of these couplings;
// - adds the values of these couplings to `sum`;
// - adds the values of the fine couplings to nodes outside all aggregates to `row_sum`.
// If a warp executes the function, each lane has its own partial sums `sum` and `row_sum`.
constexpr int MAX_WARP_COUPLINGS = 64;
// A fine coupling, and the aggregate of its column.
struct FineCoupling {
    uint32_t aggregate;
    double a;
};

// Returns coupling number k of coarse row `row`; the couplings of all nodes of its aggregate are counted consecutively.
// `aggregate` of the result is NONE if there is no such coupling, if the coupling is inside the aggregate, or if it
// leads to a node outside all aggregates. In the last case, adds the coupling to `row_sum`.
__device__ inline FineCoupling fine_coupling(const GalerkinArgs &g, uint32_t row, uint32_t k, double &row_sum) {
    for (int w = 0; w < g.width; ++w) {
        const uint32_t i = g.nodes[uint64_t(row) * g.width + w];
        if (i == NONE) break;
        const uint32_t length = g.fine.length[i];
        if (k >= length) {
            k -= length;
            continue;
        }
        const uint32_t e = g.fine.row_start[i] + k, aggregate = g.aggregate_of_row[g.fine.col[e]];
        const double a = g.fine.a[e];
        if (aggregate == NONE) row_sum += a;
        return {aggregate == row ? NONE : aggregate, a};
    }
    return {NONE, 0.0};
}

// Sums the couplings of a coarse row with one thread, for rows with more than MAX_WARP_COUPLINGS fine
// couplings.
__device__ inline uint32_t sum_by_one_thread(const GalerkinArgs &g, uint32_t row, uint32_t count, double &row_sum,
    double &sum) {
    uint32_t *col = g.coarse.col + g.coarse.row_start[row], length = 0;
    double *a = g.coarse.a + g.coarse.row_start[row];
    for (uint32_t k = 0; k < count; ++k) {
        const FineCoupling coupling = fine_coupling(g, row, k, row_sum);
        if (coupling.aggregate == NONE) continue;
        uint32_t position = 0;
        while (position < length && col[position] < coupling.aggregate) ++position;
        if (position < length && col[position] == coupling.aggregate) {
            a[position] += coupling.a;
            continue;
        }
        for (uint32_t q = length++; q > position; --q) {
            col[q] = col[q - 1];
            a[q] = a[q - 1];
        }
        col[position] = coupling.aggregate;
        a[position] = coupling.a;
    }
    for (uint32_t k = 0; k < length; ++k) sum += a[k];
    return length;
}

// Sums the couplings of a coarse row with one warp. Each lane has up to two fine couplings. For each neighbouring
// aggregate, the lane with the first coupling to this aggregate sums all couplings to this aggregate. The index of the
// sum in the coarse row is the number of neighbouring aggregates with a lower number.
__device__ inline uint32_t sum_by_warp(const GalerkinArgs &g, uint32_t row, uint32_t count, double &row_sum,
    double &sum) {
    constexpr int COUPLINGS_PER_LANE = MAX_WARP_COUPLINGS / 32;
    const uint32_t lane = threadIdx.x % 32, row_start = g.coarse.row_start[row];
    FineCoupling fine[COUPLINGS_PER_LANE];
    double sums[COUPLINGS_PER_LANE];
    bool is_leader[COUPLINGS_PER_LANE];
    uint32_t position[COUPLINGS_PER_LANE], length = 0;
#pragma unroll
    for (int q = 0; q < COUPLINGS_PER_LANE; ++q) {
        const uint32_t k = q * 32 + lane;
        fine[q] = k < count ? fine_coupling(g, row, k, row_sum) : FineCoupling{NONE, 0.0};
        is_leader[q] = fine[q].aggregate != NONE;
        sums[q] = 0.0;
        position[q] = 0;
    }
#pragma unroll
    for (int source = 0; source < COUPLINGS_PER_LANE; ++source) {
        for (int k = 0; k < 32 && source * 32 + k < count; ++k) {
            const uint32_t aggregate = __shfl_sync(0xffffffffu, fine[source].aggregate, k);
            const double a = __shfl_sync(0xffffffffu, fine[source].a, k);
#pragma unroll
            for (int q = 0; q < COUPLINGS_PER_LANE; ++q) {
                if (fine[q].aggregate != aggregate) continue;
                sums[q] += a;
                if (source * 32 + k < q * 32 + int(lane)) is_leader[q] = false;
            }
        }
    }
#pragma unroll
    for (int source = 0; source < COUPLINGS_PER_LANE; ++source) {
        unsigned leaders = __ballot_sync(0xffffffffu, is_leader[source]);
        length += __popc(leaders);
        for (; leaders; leaders &= leaders - 1) {
            const uint32_t aggregate = __shfl_sync(0xffffffffu, fine[source].aggregate, __ffs(leaders) - 1);
#pragma unroll
            for (int q = 0; q < COUPLINGS_PER_LANE; ++q) position[q] += aggregate < fine[q].aggregate;
        }
    }
#pragma unroll
    for (int q = 0; q < COUPLINGS_PER_LANE; ++q) {
        if (!is_leader[q]) continue;
        g.coarse.col[row_start + position[q]] = fine[q].aggregate;
        g.coarse.a[row_start + position[q]] = sums[q];
        sum += sums[q];
    }
    return length;
}

// Node of an aggregate; each lane has one. `first_coupling`: index of its first coupling. `coupling_count`: number of
// its couplings. `previous_couplings`: number of couplings of all previous nodes of the aggregate.
struct Node {
    uint32_t first_coupling, coupling_count, previous_couplings;
};

// Sums the couplings of a coarse row with one warp, if there is at most one fine coupling per lane. For each
// neighbouring aggregate, the first lane with a coupling to this aggregate sums all couplings to this aggregate, in the
// order of the lanes. The index of the sum in the coarse row is the number of neighbouring aggregates with a lower
// number.
__device__ inline uint32_t sum_by_lanes(const GalerkinArgs &g, uint32_t row, uint32_t count, const Node &node,
    double &row_sum, double &sum) {
    const uint32_t lane = threadIdx.x % 32, row_start = g.coarse.row_start[row];
    uint32_t e = 0;
    for (int w = 0; w < g.width; ++w) {
        const uint32_t first_coupling = __shfl_sync(0xffffffffu, node.first_coupling, w);
        const uint32_t length = __shfl_sync(0xffffffffu, node.coupling_count, w);
        const uint32_t previous_couplings = __shfl_sync(0xffffffffu, node.previous_couplings, w);
        if (lane - previous_couplings < length) e = first_coupling + (lane - previous_couplings);
    }
    const bool has_coupling = lane < count;
    const uint32_t column_aggregate = has_coupling ? g.aggregate_of_row[g.fine.col[e]] : NONE;
    const double a = has_coupling ? g.fine.a[e] : 0.0;
    if (has_coupling && column_aggregate == NONE) row_sum += a;
    const uint32_t aggregate = column_aggregate == row ? NONE : column_aggregate;
    const unsigned same_lanes = __match_any_sync(0xffffffffu, aggregate);
    const bool is_leader = aggregate != NONE && __ffs(same_lanes) - 1 == int(lane);
    double total = 0.0;
    for (unsigned other_lanes = is_leader ? same_lanes : 0; __any_sync(0xffffffffu, other_lanes);) {
        const double value = __shfl_sync(0xffffffffu, a, other_lanes ? __ffs(other_lanes) - 1 : 0);
        if (other_lanes) total += value;
        other_lanes &= other_lanes - 1;
    }
    unsigned leaders = __ballot_sync(0xffffffffu, is_leader);
    const uint32_t length = __popc(leaders);
    uint32_t position = 0;
    for (; leaders; leaders &= leaders - 1)
        position += __shfl_sync(0xffffffffu, aggregate, __ffs(leaders) - 1) < aggregate;
    if (is_leader) {
        g.coarse.col[row_start + position] = aggregate;
        g.coarse.a[row_start + position] = total;
        sum += total;
    }
    return length;
}

// Computes the coarse rows with one warp per row. The number of fine couplings of a row selects the algorithm.
__device__ inline void sum_couplings(const GalerkinArgs &g) {
    const uint32_t lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    for (uint64_t row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; row < g.coarse.rows; row += warps) {
        const uint32_t i = lane < g.width ? g.nodes[row * g.width + lane] : NONE;
        Node node{i == NONE ? 0 : g.fine.row_start[i], i == NONE ? 0 : g.fine.length[i], 0};
        const double node_row_sum = i == NONE ? 0.0 : g.fine.row_sum[i];
        double row_sum = 0.0, sum = 0.0;
        uint32_t count = 0;
        for (int w = 0; w < g.width; ++w) {
            if (w == int(lane)) node.previous_couplings = count;
            count += __shfl_sync(0xffffffffu, node.coupling_count, w);
            const double e = __shfl_sync(0xffffffffu, node_row_sum, w);
            if (lane == 0) row_sum += e;
        }
        uint32_t length = 0;
        if (count <= 32) length = sum_by_lanes(g, uint32_t(row), count, node, row_sum, sum);
        else if (count <= MAX_WARP_COUPLINGS) length = sum_by_warp(g, uint32_t(row), count, row_sum, sum);
        else if (lane == 0) length = sum_by_one_thread(g, uint32_t(row), count, row_sum, sum);
        row_sum = warp_sum(row_sum);
        sum = warp_sum(sum);
        if (lane == 0) end_row(g.coarse, uint32_t(row), length, row_sum, sum);
    }
}

// Arguments of spread_rows and remove_null_unknowns, which store the coarsest matrix in `dense`. The entries of
// `dense` must be zero on entry.
struct SpreadArgs {
    Couplings c;
    double *dense;
    // Null vector of each row, as in kernels/common/inverse.cuh; only for remove_null_unknowns.
    uint32_t *null_vector_of;
};
// Stores the entries of the coarsest matrix in `dense`: a_ii = diagonal_i, a_ij = -coupling_ij.
__device__ inline void spread_rows(const SpreadArgs &s) {
    for_each_index(s.c.rows, [&](uint32_t i) {
        double *row = s.dense + uint64_t(i) * s.c.rows;
        row[i] = s.c.diagonal[i];
        for (uint32_t k = s.c.row_start[i]; k < s.c.row_start[i] + s.c.length[i]; ++k) row[s.c.col[k]] = -s.c.a[k];
    });
}

// Removes one unknown of each null vector (kernels/common/inverse.cuh): sets its row and column to zero.
__device__ inline void remove_null_unknowns(const SpreadArgs &s) {
    const uint32_t n = s.c.rows, i = threadIdx.x;
    const uint32_t row_start = i < n ? s.c.row_start[i] : 0, length = i < n ? s.c.length[i] : 0;
    const uint32_t *null_vector_of = inverse::find_null_vectors(int(n), i < n && s.c.row_sum[i] != 0.0, [&](auto f) {
        for (uint32_t k = row_start; k < row_start + length; ++k)
            if (s.c.a[k] != 0.0) f(s.c.col[k]);
    });
    if (i >= n) return;
    s.null_vector_of[i] = null_vector_of[i];
    if (!(null_vector_of[i] & inverse::IS_REMOVED)) return;
    s.dense[uint64_t(i) * n + i] = 0.0;
    for (uint32_t k = row_start; k < row_start + length; ++k) {
        const uint64_t j = s.c.col[k];
        s.dense[uint64_t(i) * n + j] = s.dense[j * n + i] = 0.0;
    }
}

} // namespace aggregation

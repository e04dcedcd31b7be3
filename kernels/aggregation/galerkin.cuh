// Galerkin matrices of the coarser levels. Couplings and row sums are added over aggregates in a fixed order.
#pragma once
#include "couplings.cuh"

namespace aggregation {

// Exclusive prefix sums of `count` values, in place; the total is stored after the last value. The values are divided
// into parts of PART values. sum_parts computes the sum of each part with one thread block. scan_parts computes the
// prefix sums of these sums with a single thread block. scan_values computes the prefix sums within each part.
constexpr int EACH = 8;
constexpr uint32_t PART = THREADS * EACH;
struct ScanArgs {
    uint32_t *values, *parts;
    uint32_t count, unused;
};

// Returns the sum of v over the previous threads of the thread block. Stores the sum over all its threads in `all`.
__device__ inline uint32_t sum_before(uint32_t v, uint32_t &all) {
    __shared__ uint32_t sums[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t sum = v;
    for (int by = 1; by < 32; by *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, sum, by);
        if (lane >= by) sum += other;
    }
    __syncthreads();
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    uint32_t before = 0;
    all = 0;
    for (int k = 0; k < THREADS / 32; ++k) {
        if (k < warp) before += sums[k];
        all += sums[k];
    }
    return before + sum - v;
}

__device__ inline uint32_t values_of(const ScanArgs &a, uint32_t part, uint32_t v[EACH]) {
    uint32_t sum = 0;
    for (int k = 0; k < EACH; ++k) {
        const uint32_t at = part * PART + threadIdx.x * EACH + k;
        v[k] = at < a.count ? a.values[at] : 0;
        sum += v[k];
    }
    return sum;
}

// Computes the sum of each part.
__device__ inline void sum_parts(const ScanArgs &a) {
    const uint32_t parts = (a.count + PART - 1) / PART;
    for (uint32_t part = blockIdx.x; part < parts; part += gridDim.x) {
        uint32_t v[EACH], all;
        sum_before(values_of(a, part, v), all);
        if (threadIdx.x == 0) a.parts[part] = all;
    }
}

// Computes the exclusive prefix sums of the sums of all parts. One thread block executes this function.
__device__ inline void scan_parts(const ScanArgs &a) {
    const uint32_t parts = (a.count + PART - 1) / PART;
    uint32_t before = 0;
    for (uint32_t first = 0; first < parts; first += THREADS) {
        const uint32_t k = first + threadIdx.x;
        uint32_t all;
        const uint32_t sum = before + sum_before(k < parts ? a.parts[k] : 0, all);
        if (k < parts) a.parts[k] = sum;
        before += all;
    }
    if (threadIdx.x == 0) a.values[a.count] = before;
}

// Computes the prefix sums within each part, and adds to them the sum of all previous parts.
__device__ inline void scan_values(const ScanArgs &a) {
    const uint32_t parts = (a.count + PART - 1) / PART;
    for (uint32_t part = blockIdx.x; part < parts; part += gridDim.x) {
        uint32_t v[EACH], all;
        uint32_t sum = a.parts[part] + sum_before(values_of(a, part, v), all);
        for (int k = 0; k < EACH; ++k) {
            const uint32_t at = part * PART + threadIdx.x * EACH + k;
            if (at < a.count) a.values[at] = sum;
            sum += v[k];
        }
    }
}

struct GalerkinArgs {
    Couplings fine, coarse; // coarse.rows: number of aggregates
    const uint32_t *of;    // aggregate of each fine row, or NONE
    const uint32_t *nodes; // nodes of each aggregate, `width` entries, padded with NONE
    int width, unused;
};

// Stores in coarse.first[k] the number of couplings for which coarse row k needs memory: the number of couplings of all
// nodes of its aggregate, which is an upper bound.
__device__ inline void bound_row_lengths(const GalerkinArgs &g) {
    over(g.coarse.rows, [&](uint32_t k) {
        uint32_t room = 0;
        for (int w = 0; w < g.width; ++w) {
            const uint32_t i = g.nodes[uint64_t(k) * g.width + w];
            if (i != NONE) room += g.fine.length[i];
        }
        g.coarse.first[k] = room;
    });
}

// The following functions compute P^T S P with one warp per row, where P is piecewise constant (1 for each node and its
// aggregate, 0 elsewhere): sums of couplings and of row sums over aggregates. Couplings to nodes outside all aggregates
// are added to the row sum. Terms are added in the order of the nodes of an aggregate, and of the columns within a
// node. `coarse.first` must contain the start of each coarse row. `sum_together` can process coarse rows with up to
// MOST_TOGETHER fine couplings. The functions sum_... store the couplings of a coarse row, and return their number.
// They add these couplings to `sum`, and couplings to nodes outside all aggregates to `row_sum`. If a warp executes
// them, each lane adds its part only.
constexpr int MOST_TOGETHER = 64;
// A fine coupling, and the aggregate of its column.
struct Summed {
    uint32_t to;
    double a;
};

// Returns coupling number k of aggregate `row`; the couplings of all its nodes are counted consecutively. `to` is NONE
// if there is no such coupling, if it is inside the aggregate, or if it leads to a node outside all aggregates. In the
// last case, adds it to `row_sum`.
__device__ inline Summed coupling_of(const GalerkinArgs &g, uint32_t row, uint32_t k, double &row_sum) {
    for (int w = 0; w < g.width; ++w) {
        const uint32_t i = g.nodes[uint64_t(row) * g.width + w];
        if (i == NONE) break;
        const uint32_t length = g.fine.length[i];
        if (k >= length) {
            k -= length;
            continue;
        }
        const uint32_t e = g.fine.first[i] + k, to = g.of[g.fine.col[e]];
        const double a = g.fine.a[e];
        if (to == NONE) row_sum += a;
        return {to == row ? NONE : to, a};
    }
    return {NONE, 0.0};
}

// Sums the couplings of a coarse row with one thread, for rows with more than MOST_TOGETHER fine couplings.
__device__ inline uint32_t sum_one_by_one(const GalerkinArgs &g, uint32_t row, uint32_t count, double &row_sum,
    double &sum) {
    uint32_t *col = g.coarse.col + g.coarse.first[row], length = 0;
    double *a = g.coarse.a + g.coarse.first[row];
    for (uint32_t k = 0; k < count; ++k) {
        const Summed s = coupling_of(g, row, k, row_sum);
        if (s.to == NONE) continue;
        uint32_t at = 0;
        while (at < length && col[at] < s.to) ++at;
        if (at < length && col[at] == s.to) {
            a[at] += s.a;
            continue;
        }
        for (uint32_t q = length++; q > at; --q) {
            col[q] = col[q - 1];
            a[q] = a[q - 1];
        }
        col[at] = s.to;
        a[at] = s.a;
    }
    for (uint32_t k = 0; k < length; ++k) sum += a[k];
    return length;
}

// Sums the couplings of a coarse row with one warp. Each lane has up to two fine couplings. For each neighbouring
// aggregate, the lane that has the first coupling to it adds all couplings to it. The position of a sum in the row is
// the number of neighbouring aggregates with a lower number.
__device__ inline uint32_t sum_together(const GalerkinArgs &g, uint32_t row, uint32_t count, double &row_sum,
    double &sum) {
    constexpr int EACH = MOST_TOGETHER / 32;
    const uint32_t lane = threadIdx.x % 32, first = g.coarse.first[row];
    Summed own[EACH];
    double all[EACH];
    bool leads[EACH];
    uint32_t place[EACH], length = 0;
#pragma unroll
    for (int q = 0; q < EACH; ++q) {
        const uint32_t k = q * 32 + lane;
        own[q] = k < count ? coupling_of(g, row, k, row_sum) : Summed{NONE, 0.0};
        leads[q] = own[q].to != NONE;
        all[q] = 0.0;
        place[q] = 0;
    }
#pragma unroll
    for (int from = 0; from < EACH; ++from) {
        for (int k = 0; k < 32 && from * 32 + k < count; ++k) {
            const uint32_t to = __shfl_sync(0xffffffffu, own[from].to, k);
            const double a = __shfl_sync(0xffffffffu, own[from].a, k);
#pragma unroll
            for (int q = 0; q < EACH; ++q) {
                if (own[q].to != to) continue;
                all[q] += a;
                if (from * 32 + k < q * 32 + int(lane)) leads[q] = false;
            }
        }
    }
#pragma unroll
    for (int from = 0; from < EACH; ++from) {
        unsigned leaders = __ballot_sync(0xffffffffu, leads[from]);
        length += __popc(leaders);
        for (; leaders; leaders &= leaders - 1) {
            const uint32_t to = __shfl_sync(0xffffffffu, own[from].to, __ffs(leaders) - 1);
#pragma unroll
            for (int q = 0; q < EACH; ++q) place[q] += to < own[q].to;
        }
    }
#pragma unroll
    for (int q = 0; q < EACH; ++q) {
        if (!leads[q]) continue;
        g.coarse.col[first + place[q]] = own[q].to;
        g.coarse.a[first + place[q]] = all[q];
        sum += all[q];
    }
    return length;
}

// Node of an aggregate; each lane has one. The fields are its first coupling, its number of couplings, and the number
// of couplings of all previous nodes.
struct Node {
    uint32_t first, length, before;
};

// Sums the couplings of a coarse row with one warp, if there is at most one fine coupling per lane. For each
// neighbouring aggregate, the first lane with a coupling to it adds all couplings to it, in the order of the lanes. The
// position of a sum in the row is the number of neighbouring aggregates with a lower number.
__device__ inline uint32_t sum_by_lanes(const GalerkinArgs &g, uint32_t row, uint32_t count, const Node &node,
    double &row_sum, double &sum) {
    const uint32_t lane = threadIdx.x % 32, first = g.coarse.first[row];
    uint32_t e = 0;
    for (int w = 0; w < g.width; ++w) {
        const uint32_t from = __shfl_sync(0xffffffffu, node.first, w);
        const uint32_t length = __shfl_sync(0xffffffffu, node.length, w);
        const uint32_t before = __shfl_sync(0xffffffffu, node.before, w);
        if (lane - before < length) e = from + (lane - before);
    }
    const bool has = lane < count;
    const uint32_t of = has ? g.of[g.fine.col[e]] : NONE;
    const double a = has ? g.fine.a[e] : 0.0;
    if (has && of == NONE) row_sum += a;
    const uint32_t to = of == row ? NONE : of;
    const unsigned same = __match_any_sync(0xffffffffu, to);
    const bool leads = to != NONE && __ffs(same) - 1 == int(lane);
    double all = 0.0;
    for (unsigned others = leads ? same : 0; __any_sync(0xffffffffu, others);) {
        const double value = __shfl_sync(0xffffffffu, a, others ? __ffs(others) - 1 : 0);
        if (others) all += value;
        others &= others - 1;
    }
    unsigned leaders = __ballot_sync(0xffffffffu, leads);
    const uint32_t length = __popc(leaders);
    uint32_t place = 0;
    for (; leaders; leaders &= leaders - 1) place += __shfl_sync(0xffffffffu, to, __ffs(leaders) - 1) < to;
    if (leads) {
        g.coarse.col[first + place] = to;
        g.coarse.a[first + place] = all;
        sum += all;
    }
    return length;
}

// Computes the coarse rows with one warp per row. The number of fine couplings of a row selects the algorithm.
__device__ inline void sum_couplings(const GalerkinArgs &g) {
    const uint32_t lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    for (uint64_t row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; row < g.coarse.rows; row += warps) {
        const uint32_t i = lane < g.width ? g.nodes[row * g.width + lane] : NONE;
        Node node{i == NONE ? 0 : g.fine.first[i], i == NONE ? 0 : g.fine.length[i], 0};
        const double of_node = i == NONE ? 0.0 : g.fine.row_sum[i];
        double row_sum = 0.0, sum = 0.0;
        uint32_t count = 0;
        for (int w = 0; w < g.width; ++w) {
            if (w == int(lane)) node.before = count;
            count += __shfl_sync(0xffffffffu, node.length, w);
            const double e = __shfl_sync(0xffffffffu, of_node, w);
            if (lane == 0) row_sum += e;
        }
        uint32_t length = 0;
        if (count <= 32) length = sum_by_lanes(g, uint32_t(row), count, node, row_sum, sum);
        else if (count <= MOST_TOGETHER) length = sum_together(g, uint32_t(row), count, row_sum, sum);
        else if (lane == 0) length = sum_one_by_one(g, uint32_t(row), count, row_sum, sum);
        row_sum = warp_sum(row_sum);
        sum = warp_sum(sum);
        if (lane == 0) end_row(g.coarse, uint32_t(row), length, row_sum, sum);
    }
}

// Arguments of spread_rows and remove_null_unknowns, which store the coarsest matrix as the dense matrix `to`. Its
// entries must be zero on entry.
struct SpreadArgs {
    Couplings c;
    double *to;
    uint32_t *null_of; // null vector of each row, as in kernels/common/inverse.cuh; only for remove_null_unknowns
};
__device__ inline void spread_rows(const SpreadArgs &s) {
    over(s.c.rows, [&](uint32_t i) {
        double *row = s.to + uint64_t(i) * s.c.rows;
        row[i] = s.c.diagonal[i];
        for (uint32_t k = s.c.first[i]; k < s.c.first[i] + s.c.length[i]; ++k) row[s.c.col[k]] = -s.c.a[k];
    });
}

// Removes one unknown of each null vector (kernels/common/inverse.cuh): sets its row and column to zero.
__device__ inline void remove_null_unknowns(const SpreadArgs &s) {
    const uint32_t n = s.c.rows, i = threadIdx.x, first = i < n ? s.c.first[i] : 0, length = i < n ? s.c.length[i] : 0;
    const uint32_t *null = inverse::find_null_vectors(int(n), i < n && s.c.row_sum[i] != 0.0, [&](auto f) {
        for (uint32_t k = first; k < first + length; ++k)
            if (s.c.a[k] != 0.0) f(s.c.col[k]);
    });
    if (i >= n) return;
    s.null_of[i] = null[i];
    if (!(null[i] & inverse::LEFT_OUT)) return;
    s.to[uint64_t(i) * n + i] = 0.0;
    for (uint32_t k = first; k < first + length; ++k) {
        const uint64_t j = s.c.col[k];
        s.to[uint64_t(i) * n + j] = s.to[j * n + i] = 0.0;
    }
}

} // namespace aggregation

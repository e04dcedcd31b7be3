// The matrices of the next levels: sums over aggregates, in a fixed order.
#pragma once
#include "couplings.cuh"

namespace aggregation {

// Sums of those before each of `count` values, in place, and of all behind them: parts of PART values by a block each,
// sums of parts by one block, and parts again.
constexpr int EACH = 8;
constexpr uint32_t PART = THREADS * EACH;
struct ScanArgs {
    uint32_t *values, *parts;
    uint32_t count, unused;
};

// Sum of the values of the threads before this one, and of all.
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

__device__ inline void sum_parts(const ScanArgs &a) {
    const uint32_t parts = (a.count + PART - 1) / PART;
    for (uint32_t part = blockIdx.x; part < parts; part += gridDim.x) {
        uint32_t v[EACH], all;
        sum_before(values_of(a, part, v), all);
        if (threadIdx.x == 0) a.parts[part] = all;
    }
}

// One block.
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
    Couplings fine, coarse; // coarse.rows: aggregates
    const uint32_t *of;
    const uint32_t *nodes; // of an aggregate, `width` of them, then NONE
    int width, unused;
};

// Room for a coarse row: as many couplings as its nodes have.
__device__ inline void make_room(const GalerkinArgs &g) {
    over(g.coarse.rows, [&](uint32_t k) {
        uint32_t room = 0;
        for (int w = 0; w < g.width; ++w) {
            const uint32_t i = g.nodes[uint64_t(k) * g.width + w];
            if (i != NONE) room += g.fine.length[i];
        }
        g.coarse.first[k] = room;
    });
}

// P' S P: sums of couplings and of excess; couplings to what is in no aggregate are excess of those who have them. In
// the order of the nodes of an aggregate and of their columns; then by columns. `coarse.first` is there.
__device__ inline void sum_couplings(const GalerkinArgs &g) {
    const Couplings &fine = g.fine;
    over(g.coarse.rows, [&](uint32_t k) {
        uint32_t *col = g.coarse.col + g.coarse.first[k], length = 0;
        double *a = g.coarse.a + g.coarse.first[k], excess = 0.0;
        for (int w = 0; w < g.width; ++w) {
            const uint32_t i = g.nodes[uint64_t(k) * g.width + w];
            if (i == NONE) continue;
            excess += fine.excess[i];
            for (uint32_t e = fine.first[i]; e < fine.first[i] + fine.length[i]; ++e) {
                const uint32_t to = g.of[fine.col[e]];
                const double v = fine.a[e];
                if (to == NONE) {
                    excess += v;
                } else if (to != k) {
                    uint32_t at = 0;
                    while (at < length && col[at] < to) ++at;
                    if (at < length && col[at] == to) {
                        a[at] += v;
                        continue;
                    }
                    for (uint32_t q = length++; q > at; --q) {
                        col[q] = col[q - 1];
                        a[q] = a[q - 1];
                    }
                    col[at] = to;
                    a[at] = v;
                }
            }
        }
        end_row(g.coarse, k, length, excess);
    });
}

// The coarsest matrix as a square, which holds zeros before.
struct SpreadArgs {
    Couplings c;
    double *to;
};
__device__ inline void spread_rows(const SpreadArgs &s) {
    over(s.c.rows, [&](uint32_t i) {
        double *row = s.to + uint64_t(i) * s.c.rows;
        row[i] = s.c.diagonal[i];
        for (uint32_t k = s.c.first[i]; k < s.c.first[i] + s.c.length[i]; ++k) row[s.c.col[k]] = -s.c.a[k];
    });
}

} // namespace aggregation

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

template <class V> struct InverseArgs {
    Couplings c;
    double *a, *excess; // room: rows^2, rows
    V *inverse;         // rows^2
};

// A pivot below this part of its diagonal is the zero that a singular component ends with.
constexpr double VANISHED = 1e-12;

// The inverse of the coarsest matrix by Gauss and Jordan, in place. Pivots come from couplings and excess, which each
// elimination hands on as sums: a_pq += a_rp a_rq / d_r and e_p += a_rp e_r / d_r. A pivot that vanishes is taken as
// infinite: its unknown is 0. One block.
template <class V> __device__ inline void invert(const InverseArgs<V> &g) {
    const uint32_t n = g.c.rows, threads = blockDim.x, t = threadIdx.x;
    double *m = g.a, *excess = g.excess;
    __shared__ double pivot;
    for (uint32_t k = t; k < n * n; k += threads) m[k] = 0.0;
    __syncthreads();
    for (uint32_t i = t; i < n; i += threads) {
        excess[i] = g.c.excess[i];
        for (uint32_t k = g.c.first[i]; k < g.c.first[i] + g.c.length[i]; ++k) m[i * n + g.c.col[k]] = -g.c.a[k];
    }
    __syncthreads();
    for (uint32_t r = 0; r < n; ++r) {
        double part = 0.0;
        for (uint32_t q = r + 1 + t; q < n; q += threads) part -= m[r * n + q];
        const double sum = block_sum(part);
        if (t == 0) {
            const double d = excess[r] + sum;
            pivot = fabs(d) > VANISHED * g.c.diagonal[r] ? 1.0 / d : 0.0;
        }
        __syncthreads();
        const double inverse = pivot;
        if (inverse == 0.0) {
            // Row and column of zeros.
            __syncthreads();
            for (uint32_t q = t; q < n; q += threads) m[r * n + q] = m[q * n + r] = 0.0;
            __syncthreads();
            continue;
        }
        // What other rows take: not the row, the column or diagonals below, which are made of sums.
        for (uint32_t k = t; k < n * n; k += threads) {
            const uint32_t p = k / n, q = k % n;
            if (p == r || q == r || (p == q && p > r)) continue;
            m[k] -= m[p * n + r] * inverse * m[r * n + q];
        }
        for (uint32_t p = r + 1 + t; p < n; p += threads) excess[p] -= m[p * n + r] * inverse * excess[r];
        __syncthreads();
        for (uint32_t q = t; q < n; q += threads) {
            if (q == r) continue;
            m[r * n + q] *= inverse;
            m[q * n + r] *= -inverse;
        }
        if (t == 0) m[r * n + r] = inverse;
        __syncthreads();
    }
    for (uint32_t k = t; k < n * n; k += threads) g.inverse[k] = V(m[k]);
}

} // namespace aggregation

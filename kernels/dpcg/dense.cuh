// Inverses of symmetric positive matrices of up to 1024 unknowns, row by row, in f64: of E, and of the coarsest grid.
//
// Gauss-Jordan elimination by blocks of PIVOTS unknowns, without exchanges. Step k, P = A_kk:
//
//     A_kk = P^-1,   A_kj = P^-1 A_kj,   A_ik = -A_ik P^-1,   A_ij = A_ij - A_ik P^-1 A_kj.
//
// A block of threads makes a tile of SIDE x SIDE, from one buffer to another, so that none reads what another writes.
// The block that has the next pivots inverts them too: 32 steps that wait for one another.
//
// Null vectors u of A: one unknown of each is left out, its row and column are zero. The inverse G of the others
// becomes (I - u u^T / k) G (I - u u^T / k), k = u^T u, and for E + c u u^T that plus u u^T / (c k^2).
#pragma once
#include "box.cuh"

namespace dpcg {

constexpr int PIVOTS = 32, SIDE = 64, MOST_UNKNOWNS = 1024;
// A pivot that is at most this part of its diagonal is rounding: its unknown is left out.
constexpr double ZERO_PIVOT = 1e-14;
// Of `null_of`: the unknown that is left out. The other bits are the null vector, from 1 on; 0: none.
constexpr uint32_t LEFT_OUT = 1u << 31;

struct InverseArgs {
    const double *from;
    double *to;
    const double *diagonal;
    double *pivots; // inverses of this step's and of the next one's, by parity
    int n, step;    // step -1 inverts the first pivots
};

// The inverse of two pivots, [a b; b d]; zero in what is left out.
struct TwoPivots {
    double a, b, d;
    __device__ void invert(double least_a, double least_d) {
        const double determinant = a * d - b * b;
        const bool no_a = !(a > least_a), no_d = no_a ? !(d > least_d) : !(determinant > least_d * a);
        const double one = 1.0 / (no_a ? (no_d ? 1.0 : d) : no_d ? a : determinant);
        const double old = a;
        a = no_a ? 0.0 : no_d ? one : d * one;
        b = no_a || no_d ? 0.0 : -b * one;
        d = no_d ? 0.0 : no_a ? one : old * one;
    }
};

// Inverts 32 x 32 entries, two pivots at a time: a thread has column threadIdx.x % 32 of rows threadIdx.x / 32 + 8 q.
__device__ inline void invert_pivots(double (&e)[4], const double *diagonal, int count) {
    __shared__ double rows[2][2][PIVOTS], columns[2][2][PIVOTS];
    __shared__ double least[PIVOTS];
    const int column = threadIdx.x % PIVOTS, first = threadIdx.x / PIVOTS;
    if (threadIdx.x < PIVOTS) least[column] = column < count ? ZERO_PIVOT * fixed(diagonal[column]) : 0.0;
#pragma unroll
    for (int p = 0; p < PIVOTS; p += 2) {
        double(*row)[PIVOTS] = rows[p / 2 % 2], (*across)[PIVOTS] = columns[p / 2 % 2];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int i = first + 8 * q;
            if (i / 2 == p / 2) row[i % 2][column] = e[q];
            if (column / 2 == p / 2) across[column % 2][i] = e[q];
        }
        __syncthreads();
        TwoPivots inverse = {row[0][p], row[0][p + 1], row[1][p + 1]};
        inverse.invert(least[p], least[p + 1]);
        // P^-1 A_pj, and P^-1 in the columns of the pivots.
        const double x = column / 2 == p / 2 ? double(column == p) : row[0][column];
        const double y = column / 2 == p / 2 ? double(column == p + 1) : row[1][column];
        const double scaled[2] = {inverse.a * x + inverse.b * y, inverse.b * x + inverse.d * y};
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int i = first + 8 * q;
            const double own = column / 2 == p / 2 ? 0.0 : e[q];
            const double rest = own - (across[0][i] * scaled[0] + across[1][i] * scaled[1]);
            e[q] = i == p ? scaled[0] : i == p + 1 ? scaled[1] : rest;
        }
    }
}

__device__ inline void invert_step(const InverseArgs &a) {
    __shared__ double pivots[PIVOTS][PIVOTS + 1], across[PIVOTS][SIDE], along[SIDE][PIVOTS + 1];
    const int n = a.n, tiles = (n + SIDE - 1) / SIDE, t = threadIdx.x, x = t % 16, y = t / 16;
    // The first block has the next pivots.
    const int next = PIVOTS * (a.step + 1), own = next / SIDE;
    const int tile = (blockIdx.x + own * (tiles + 1)) % (tiles * tiles);
    const int row = tile / tiles * SIDE, column = tile % tiles * SIDE, begin = PIVOTS * a.step;
    auto entry = [&](int i, int j) { return i < n && j < n ? a.from[int64_t(i) * n + j] : 0.0; };
    auto is_pivot = [&](int i) { return i >= begin && i < begin + PIVOTS; };
    double out[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const int j = column + x + 16 * c;
            out[r][c] = is_pivot(j) ? 0.0 : entry(row + 4 * y + r, j);
        }
    }
    if (a.step >= 0) {
        const double *inverse = a.pivots + a.step % 2 * PIVOTS * PIVOTS;
#pragma unroll
        for (int k = t; k < PIVOTS * PIVOTS; k += THREADS) pivots[k / PIVOTS][k % PIVOTS] = inverse[k];
#pragma unroll
        for (int q = 0; q < PIVOTS * SIDE / THREADS; ++q) {
            const int k = t + THREADS * q, i = begin + k / SIDE, j = column + k % SIDE;
            across[k / SIDE][k % SIDE] = is_pivot(j) ? double(i == j) : entry(i, j);
            along[k / PIVOTS][k % PIVOTS] = entry(row + k / PIVOTS, begin + k % PIVOTS);
        }
        __syncthreads();
        // P^-1 A_kj, and P^-1 in the columns of the pivots.
        double product[2][4] = {};
#pragma unroll 8
        for (int k = 0; k < PIVOTS; ++k) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
#pragma unroll
                for (int r = 0; r < 2; ++r) product[r][c] += pivots[2 * y + r][k] * across[k][x + 16 * c];
            }
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            for (int r = 0; r < 2; ++r) across[2 * y + r][x + 16 * c] = product[r][c];
        }
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < PIVOTS; ++k) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const double factor = along[4 * y + r][k];
#pragma unroll
                for (int c = 0; c < 4; ++c) out[r][c] -= factor * across[k][x + 16 * c];
            }
        }
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int i = row + 4 * y + r;
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                const int j = column + x + 16 * c;
                if (is_pivot(i)) out[r][c] = across[i - begin][x + 16 * c];
                if (i < n && j < n) a.to[int64_t(i) * n + j] = out[r][c];
            }
        }
    }
    if (blockIdx.x != 0 || next >= n) return;
    __syncthreads();
    // Beyond the matrix is the identity.
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const int i = row + 4 * y + r - next, j = column + x + 16 * c - next;
            if (i < 0 || i >= PIVOTS || j < 0 || j >= PIVOTS) continue;
            pivots[i][j] = next + i < n && next + j < n ? out[r][c] : double(i == j);
        }
    }
    __syncthreads();
    double e[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) e[q] = pivots[t / PIVOTS + 8 * q][t % PIVOTS];
    invert_pivots(e, a.diagonal + next, n - next);
#pragma unroll
    for (int q = 0; q < 4; ++q) a.pivots[(a.step + 1) % 2 * PIVOTS * PIVOTS + t + THREADS * q] = e[q];
}

struct NullArgs {
    const double *from;
    double *to;
    const double *diagonal;
    const uint32_t *null_of;
    const uint32_t *nulls; // how many null vectors there are
    double *shift;         // of each null vector: 1 / (c k^2), and c; null: c is none
    uint64_t *largest;     // of the inverse, and of the diagonal with c
    int n, add;
};

// c k^2 is the sum of the diagonal: c u u^T is about as large as E. A lone vector has E = 0, and t = 0: any other c
// would add what rounding leaves of u^T A p, whatever the size of A.
__device__ inline void find_shifts(const NullArgs &a) {
    for (uint32_t u = 1; u <= *a.nulls; ++u) {
        double size = 0.0, sum = 0.0;
        for (int r = threadIdx.x; r < a.n; r += THREADS) {
            const bool in = (a.null_of[r] & ~LEFT_OUT) == u;
            size += in ? 1.0 : 0.0;
            sum += in ? a.diagonal[r] : 0.0;
        }
        size = block_sum(size);
        sum = block_sum(sum);
        if (threadIdx.x != 0) continue;
        const double c = sum / (size * size);
        a.shift[2 * u - 2] = c > 0.0 ? 1.0 / (c * size * size) : 0.0;
        a.shift[2 * u - 1] = c;
    }
}

// Takes means over null vectors from rows, with `add` plus the shift, and turns rows to columns. A block a row.
__device__ inline void take_means(const NullArgs &a) {
    const int n = a.n, t = threadIdx.x;
    const uint32_t nulls = *a.nulls;
    for (int row = blockIdx.x; row < n; row += gridDim.x) {
        double v[MOST_UNKNOWNS / THREADS];
        uint32_t of[MOST_UNKNOWNS / THREADS];
        const uint32_t of_row = a.null_of[row] & ~LEFT_OUT;
#pragma unroll
        for (int q = 0; q < MOST_UNKNOWNS / THREADS; ++q) {
            const int c = t + THREADS * q;
            v[q] = c < n ? a.from[int64_t(row) * n + c] : 0.0;
            of[q] = c < n ? a.null_of[c] & ~LEFT_OUT : 0;
        }
        for (uint32_t u = 1; u <= nulls; ++u) {
            double size = 0.0, sum = 0.0;
#pragma unroll
            for (int q = 0; q < MOST_UNKNOWNS / THREADS; ++q) {
                size += of[q] == u ? 1.0 : 0.0;
                sum += of[q] == u ? v[q] : 0.0;
            }
            size = block_sum(size);
            const double change = (a.add && of_row == u ? a.shift[2 * u - 2] : 0.0) - block_sum(sum) / size;
#pragma unroll
            for (int q = 0; q < MOST_UNKNOWNS / THREADS; ++q) v[q] += of[q] == u ? change : 0.0;
        }
#pragma unroll
        for (int q = 0; q < MOST_UNKNOWNS / THREADS; ++q) {
            const int c = t + THREADS * q;
            if (c < n) a.to[int64_t(c) * n + row] = v[q];
        }
    }
}

// max |A^-1_rs|, and max A_rr, with the shift.
__device__ inline void find_condition(const NullArgs &a) {
    uint64_t inverse = 0, diagonal = 0;
    over_cells(int64_t(a.n) * a.n, [&](int64_t k) {
        inverse = max(inverse, magnitude(a.from[k]));
        if (k >= a.n) return;
        const uint32_t u = a.null_of[k] & ~LEFT_OUT;
        diagonal = max(diagonal, magnitude(a.diagonal[k] + (u > 0 ? a.shift[2 * u - 1] : 0.0)));
    });
    note_largest(a.largest, inverse);
    note_largest(a.largest + 1, diagonal);
}

} // namespace dpcg

DPCG_LARGE_KERNEL(dpcg_invert_step_f64, InverseArgs, invert_step)
DPCG_KERNEL(dpcg_find_shifts_f64, NullArgs, find_shifts)
DPCG_KERNEL(dpcg_take_means_f64, NullArgs, take_means)
DPCG_KERNEL(dpcg_find_condition_f64, NullArgs, find_condition)

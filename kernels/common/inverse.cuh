// Computes the inverse of a symmetric positive semidefinite matrix of up to some thousand unknowns, stored by rows, in
// f64.
//
// Gauss-Jordan elimination by blocks of PIVOTS unknowns, without row exchanges. Step k, P = A_kk:
//
//     A_kk = P^-1,   A_kj = P^-1 A_kj,   A_ik = -A_ik P^-1,   A_ij = A_ij - A_ik P^-1 A_kj.
//
// A thread block computes a tile of SIDE x SIDE entries. It reads one buffer and writes another, so that no thread
// block reads what another one writes. The thread block with the next pivots also inverts them, in 16 dependent steps.
#pragma once
#include "device.cuh"

namespace inverse {

constexpr int THREADS = 256;
constexpr int PIVOTS = 32, SIDE = 64;
// A pivot of at most this fraction of its diagonal entry is a rounding error. Row and column of its unknown become
// zero.
constexpr double ZERO_PIVOT = 1e-14;
struct InverseArgs {
    const double *from;
    double *to;
    const double *diagonal;
    double *pivots; // inverses of the pivot blocks of this step and of the next step, by parity
    int n, step;    // step -1 only inverts the first pivot block
};

// Inverse of the 2 x 2 matrix [a b; b d]; the entries of unknowns with a vanishing pivot are zero.
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

// Inverts 32 x 32 entries, two pivots at a time. A thread has column threadIdx.x % 32 of the rows threadIdx.x / 32 + 8
// q.
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
        // Computes P^-1 A_pj, and P^-1 in the columns of the pivots.
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

// One step of the elimination, one thread block per tile of SIDE x SIDE. Step -1 needs one thread block.
__device__ inline void step(const InverseArgs &a) {
    __shared__ double pivots[PIVOTS][PIVOTS + 1], across[PIVOTS][SIDE], along[SIDE][PIVOTS + 1];
    const int n = a.n, tiles = (n + SIDE - 1) / SIDE, t = threadIdx.x, x = t % 16, y = t / 16;
    // The first thread block has the tile with the next pivots.
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
        // Computes P^-1 A_kj, and P^-1 in the columns of the pivots.
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
    // Beyond the edge of the matrix, the pivot block is padded with the identity.
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

} // namespace inverse

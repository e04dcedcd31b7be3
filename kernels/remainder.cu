// What the eliminations leave, at most MOST_REMAINDER nodes: banded L D L^T in excess form (the formulas of
// src/backend/reference/band.rs), from it the explicit inverse, and its product with a vector.
//
//     d_k = s_k - sum_l a_kl,   a_lm -= a_kl a_km / d_k,   s_l -= a_kl s_k / d_k,   l, m > k.
//
// Node k = line * length + along, lines along the shorter side; `couplings` holds w values a node: those to k + 1 .. k + w.
#include "common.cuh"

constexpr int MOST_REMAINDER = 1024;
// Half bandwidth at most: lines of 32 nodes and the diagonal neighbour on the next.
constexpr int MOST_BAND = 33;

struct BandArgs {
    Rules rules;
    const double *natural;  // diagonal (excess), east, north, northeast, northwest: nx * ny values each
    int nx, ny, n, w;
    double *couplings;      // n * w
    double *inverse_pivot;  // n
};

// Node k in natural order, i fastest.
__device__ inline int natural_of(int k, int nx, int ny) {
    if (nx <= ny) return k;
    return k % ny * nx + k / ny;
}

// One block: gathers and factorizes. The rows that the pivot changes, and its own, are in shared memory.
extern "C" __global__ void __launch_bounds__(1024) rrb_band_f64(BandArgs a) {
    __shared__ double window[(MOST_BAND + 1) * MOST_BAND], row_excess[MOST_BAND + 1], pivot_row[MOST_BAND];
    __shared__ double pivot_inverse, pivot_excess;
    const int t = threadIdx.x, m = a.n, w = a.w, rows = w + 1;
    const bool along_x = a.nx <= a.ny;
    const int length = along_x ? a.nx : a.ny;
    const double *east = a.natural + m, *north = a.natural + 2 * m, *northeast = a.natural + 3 * m, *northwest = a.natural + 4 * m;
    // Coupling of node k to k + 1 + p.
    auto coupling = [&](int k, int p) -> double {
        const int l = k + 1 + p;
        if (k >= m || l >= m) return 0.0;
        const int lines = l / length - k / length, along = l % length - k % length;
        const int at = natural_of(k, a.nx, a.ny), to = natural_of(l, a.nx, a.ny);
        if (lines == 0 && along == 1) return along_x ? east[at] : north[at];
        if (lines == 1 && along == 0) return along_x ? north[at] : east[at];
        if (lines == 1 && along == 1) return northeast[at];
        // Along x: to (i - 1, j + 1). Along y: to (i + 1, j - 1), whose northwest neighbour is this one.
        if (lines == 1 && along == -1) return along_x ? northwest[at] : northwest[to];
        return 0.0;
    };
    for (int e = t; e < rows * w; e += blockDim.x) window[e] = coupling(e / w, e % w);
    for (int k = t; k < rows; k += blockDim.x) row_excess[k] = k < m ? a.natural[natural_of(k, a.nx, a.ny)] : 0.0;
    __syncthreads();
    int slot = 0;
    for (int k = 0; k < m; ++k) {
        if (t < 32) {
            double *row = window + slot * w;
            double sum = 0.0;
            int nonzero = 0;
            for (int p = t; p < w; p += 32) {
                const double v = row[p];
                sum += v;
                nonzero |= v != 0.0;
                pivot_row[p] = v;
                a.couplings[int64_t(k) * w + p] = v;
                row[p] = coupling(k + rows, p);
            }
            for (int step = 16; step > 0; step /= 2) {
                sum += __shfl_xor_sync(0xffffffffu, sum, step);
                nonzero |= __shfl_xor_sync(0xffffffffu, nonzero, step);
            }
            if (t == 0) {
                const double s = row_excess[slot], d = s - sum;
                const int at = natural_of(k, a.nx, a.ny);
                pivot_inverse = d > 0.0 && is_finite(d) ? 1.0 / d : checked(a.rules, at % a.nx, at / a.nx, d, s, d, nonzero == 0).inverse;
                pivot_excess = s;
                a.inverse_pivot[k] = pivot_inverse;
                row_excess[slot] = k + rows < m ? a.natural[natural_of(k + rows, a.nx, a.ny)] : 0.0;
            }
        }
        __syncthreads();
        // Row k + 1 + p, column k + 1 + q, q > p; its place in that row is q - p - 1.
        for (int p = t / 32; p < w; p += 32) {
            int to = slot + 1 + p;
            if (to >= rows) to -= rows;
            const double scaled = pivot_row[p] * pivot_inverse;
            for (int q = t % 32; q < w; q += 32) {
                if (q > p) window[to * w + q - p - 1] -= scaled * pivot_row[q];
                else if (q == p) row_excess[to] -= scaled * pivot_excess;
            }
        }
        slot = slot + 1 == rows ? 0 : slot + 1;
        __syncthreads();
    }
}

struct InverseArgs {
    const double *couplings, *inverse_pivot;
    double *inverse;  // n * n values, symmetric, natural order
    int nx, ny, n, w;
};

// Columns of the inverse: L D L^T z = e_c, one thread a column, so that a warp shares what it reads of the factor. The
// last w values of each column are in shared memory.
constexpr int COLUMNS = 32;

extern "C" __global__ void __launch_bounds__(COLUMNS) rrb_inverse_f64(InverseArgs a) {
    __shared__ double window[MOST_BAND + 1][COLUMNS];
    const int t = threadIdx.x, w = a.w, rows = w + 1, m = a.n, first = blockIdx.x * COLUMNS, column = first + t;
    const bool present = column < m;
    double *out = a.inverse + (present ? natural_of(column, a.nx, a.ny) : 0);
    for (int p = 0; p < rows; ++p) window[p][t] = 0.0;
    // Forward from the first column of this block on; before, all is zero. y_k = (e_k - sum_l a_lk y_l) / d_k.
    for (int k = 0; k < first; ++k) {
        if (present) out[int64_t(natural_of(k, a.nx, a.ny)) * m] = 0.0;
    }
    int slot = 0;
    for (int k = first; k < m; ++k) {
        double sum[2] = {0.0, 0.0};
        const int back = min(w, k - first);
        const double *row = a.couplings + int64_t(k - back) * w + back - 1;
        int from = slot - back;
        if (from < 0) from += rows;
        for (int p = 0; p < back; ++p) {
            // p-th of the nodes k - back .. k - 1.
            const double term = row[int64_t(p) * (w - 1)] * window[from][t];
            if (p & 1) sum[1] += term;
            else sum[0] += term;
            from = from + 1 == rows ? 0 : from + 1;
        }
        const double y = ((k == column ? 1.0 : 0.0) - (sum[0] + sum[1])) * a.inverse_pivot[k];
        window[slot][t] = y;
        slot = slot + 1 == rows ? 0 : slot + 1;
        if (present) out[int64_t(natural_of(k, a.nx, a.ny)) * m] = y;
    }
    // Backward: z_k = y_k - (sum_l a_kl z_l) / d_k.
    for (int p = 0; p < rows; ++p) window[p][t] = 0.0;
    slot = 0;
    for (int k = m - 1; k >= 0; --k) {
        double sum[2] = {0.0, 0.0};
        const double *row = a.couplings + int64_t(k) * w;
        int from = slot;
        for (int p = 0; p < w; ++p) {
            // Node k + 1 + p was p + 1 rounds ago; rounds before the first left zeros.
            from = from == 0 ? rows - 1 : from - 1;
            const double term = row[p] * window[from][t];
            if (p & 1) sum[1] += term;
            else sum[0] += term;
        }
        const int64_t place = int64_t(natural_of(k, a.nx, a.ny)) * m;
        const double z = (present ? out[place] : 0.0) - (sum[0] + sum[1]) * a.inverse_pivot[k];
        window[slot][t] = z;
        slot = slot + 1 == rows ? 0 : slot + 1;
        if (present) out[place] = z;
    }
}

struct RemainderArgs {
    const double *inverse, *r;
    double *z;
    int n;
    double *partial;          // r' z, a value a block
    Scalars *scalars;
    // The sums that make rho and <r, r>: all of the way down, contiguous.
    const double *rho_partial, *norm_partial;
    int rho_count, norm_count;
    int how;                  // NOTHING: z alone; START, LOOP: turn to the way up
    int flip;                 // the way down has written the other r of b1
};

// Rows of the inverse a block does: one a warp.
constexpr int ROWS = THREADS / 32;

// z = M^-1 r of the remainder; then the turn from the way down to the way up. 8 n^2 bytes, from the L2 cache.
extern "C" __global__ void __launch_bounds__(THREADS) rrb_remainder_f64(RemainderArgs a) {
    const int t = threadIdx.x, row = blockIdx.x * ROWS + t / 32;
    double sum = 0.0;
    if (row < a.n) {
        const double *values = a.inverse + int64_t(row) * a.n;
        for (int k = t % 32; k < a.n; k += 32) sum += values[k] * a.r[k];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    double product = 0.0;
    if (row < a.n && t % 32 == 0) {
        a.z[row] = sum;
        product = sum * a.r[row];
    }
    if (a.how == NOTHING) return;
    product = block_sum(product);
    if (t == 0) a.partial[blockIdx.x] = product;
    if (!last_block(&a.scalars->ticket)) return;
    const double rho = sum_of(a.rho_partial, a.rho_count), norm2 = sum_of(a.norm_partial, a.norm_count);
    if (t == 0) {
        if (a.flip) a.scalars->parity ^= 1;
        turn(*a.scalars, rho, norm2, a.how);
    }
}

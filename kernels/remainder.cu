// What the eliminations leave, at most MOST_REMAINDER nodes: banded L D L^T in excess form (the formulas of
// src/backend/reference/band.rs), from it the explicit inverse, and its product with a vector.
//
//     d_k = s_k - sum_l a_kl,   a_lm -= a_kl a_km / d_k,   s_l -= a_kl s_k / d_k,   l, m > k.
//
// Node k = line * length + along, lines along the shorter side; `couplings` holds w values a node: those to k + 1 .. k + w.
#include "common.cuh"

constexpr int MOST_REMAINDER = 992;
// Half bandwidth at most: lines of 31 nodes and the diagonal neighbour on the next. A warp has a row of the band.
constexpr int BAND = 32;

struct BandArgs {
    Rules rules;
    const double *natural;  // diagonal (excess), east, north, northeast, northwest: nx * ny values each
    int nx, ny, n;
    double *couplings;      // n * BAND: of node k to k + 1 + p
    double *back;           // n * BAND: of node k to k - 1 - p
    double *inverse_pivot;  // n
};

// Node k in natural order, i fastest.
__device__ inline int natural_of(int k, int nx, int ny) {
    if (nx <= ny) return k;
    return k % ny * nx + k / ny;
}

// One block: gathers and factorizes. Row k of the band and those that it changes are in shared memory; warp p changes row
// k + 1 + p, and warp 0, whose row is the next pivot's, goes on to that pivot, so that a step has one barrier.
constexpr int WINDOW = BAND + 2;

extern "C" __global__ void __launch_bounds__(1024) rrb_band_f64(BandArgs a) {
    __shared__ double window[WINDOW][BAND], row_excess[WINDOW], inverse_of[2], excess_of[2], sum_of_row[2], next_sum[2];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, m = a.n;
    const bool along_x = a.nx <= a.ny;
    const int length = along_x ? a.nx : a.ny;
    const double *east = a.natural + m, *north = a.natural + 2 * m, *northeast = a.natural + 3 * m, *northwest = a.natural + 4 * m;
    for (int e = t; e < m * BAND; e += 1024) {
        const int k = e / BAND, l = k + 1 + e % BAND;
        double v = 0.0;
        if (l < m) {
            const int lines = l / length - k / length, along = l % length - k % length;
            const int at = natural_of(k, a.nx, a.ny), to = natural_of(l, a.nx, a.ny);
            if (lines == 0 && along == 1) v = along_x ? east[at] : north[at];
            if (lines == 1 && along == 0) v = along_x ? north[at] : east[at];
            if (lines == 1 && along == 1) v = northeast[at];
            // Along x: to (i - 1, j + 1). Along y: to (i + 1, j - 1), whose northwest neighbour is this one.
            if (lines == 1 && along == -1) v = along_x ? northwest[at] : northwest[to];
        }
        a.couplings[e] = v;
        a.back[e] = 0.0;
    }
    __syncthreads();
    auto raw = [&](int k) { return k < m ? a.couplings[k * BAND + lane] : 0.0; };
    auto raw_excess = [&](int k) { return k < m ? a.natural[natural_of(k, a.nx, a.ny)] : 0.0; };
    for (int k = warp; k < WINDOW - 1; k += 32) {
        window[k][lane] = raw(k);
        if (lane == 0) row_excess[k] = raw_excess(k);
    }
    auto whole = [&](double v) {
        for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
        return v;
    };
    // The pivot of node k, by warp 0: `a` is its row, one value a lane, v their sum, `s` its excess.
    auto pivot = [&](int k, double a_row, double v, double s) {
        const int nonzero = __any_sync(0xffffffffu, a_row != 0.0);
        if (lane == 0) {
            if (!nonzero) v = 0.0;
            const double d = s - v;
            sum_of_row[k & 1] = v;
            const int at = natural_of(k, a.nx, a.ny);
            const double inverse = d > 0.0 && is_finite(d) ? 1.0 / d : checked(a.rules, at % a.nx, at / a.nx, s, v, s, d, nonzero == 0).inverse;
            inverse_of[k & 1] = inverse;
            excess_of[k & 1] = s;
            a.inverse_pivot[k] = inverse;
        }
    };
    __syncthreads();
    if (warp == 0) pivot(0, window[0][lane], whole(window[0][lane]), row_excess[0]);
    if (warp == 1) {
        const double sum = whole(m > 1 ? window[1][lane] : 0.0);
        if (lane == 0) next_sum[0] = sum;
    }
    int slot = 0;
    for (int k = 0; k < m; ++k) {
        const double next = warp == 31 ? raw(k + WINDOW - 1) : 0.0;
        const double next_excess = warp == 31 && lane == 0 ? raw_excess(k + WINDOW - 1) : 0.0;
        __syncthreads();
        const double *row = window[slot];
        const double l = row[warp] * inverse_of[k & 1];
        int to = slot + 1 + warp;
        if (to >= WINDOW) to -= WINDOW;
        double v = window[to][lane];
        if (lane + warp + 1 < BAND) {
            v -= l * row[lane + warp + 1];
            window[to][lane] = v;
        }
        const double s = row_excess[to] - l * excess_of[k & 1];
        __syncwarp();
        if (lane == 0) row_excess[to] = s;
        // The sum of the next pivot's row, without waiting for it: that of the row after is taken a step ahead.
        if (warp == 0 && k + 1 < m) pivot(k + 1, v, next_sum[k & 1] - l * (sum_of_row[k & 1] - row[0]), s);
        if (warp == 1) {
            const double sum = whole(v);
            if (lane == 0) next_sum[(k + 1) & 1] = sum;
        }
        if (warp == 30) {
            a.couplings[k * BAND + lane] = row[lane];
            if (k + 1 + lane < m) a.back[(k + 1 + lane) * BAND + lane] = row[lane];
        }
        // The row before this one is done with: its place is that of the row which the next step needs first.
        const int before = slot == 0 ? WINDOW - 1 : slot - 1;
        if (warp == 31) {
            window[before][lane] = next;
            if (lane == 0) row_excess[before] = next_excess;
        }
        slot = slot + 1 == WINDOW ? 0 : slot + 1;
    }
}

struct InverseArgs {
    const double *couplings, *back, *inverse_pivot;
    double *inverse;  // n * n values, symmetric, natural order
    float *narrow;    // and in single precision, where sweeps are
    int nx, ny, n;
    double unit;      // sweeps solve with M / unit
};

// Columns of the inverse, L D L^T z = unit e_c, one warp each: a lane holds what is to be taken from one of the next 32 nodes,
// and hands it on to the lane before from node to node. Column c is written as row c.
constexpr int COLUMNS = 4;

extern "C" __global__ void __launch_bounds__(32 * COLUMNS) rrb_inverse_f64(InverseArgs a) {
    const int lane = threadIdx.x % 32, m = a.n, column = blockIdx.x * COLUMNS + threadIdx.x / 32;
    if (column >= m) return;
    const int64_t place = int64_t(natural_of(column, a.nx, a.ny)) * m;
    double *out = a.inverse + place;
    float *narrow = a.narrow ? a.narrow + place : nullptr;
    // Forward from the column's own node on: y_k = v_k / d_k, v_(k+1+l) -= a_kl y_k. Lane l holds v_(k+l).
    double v = lane == 0 ? a.unit : 0.0, kept = 0.0;
    for (int k = lane; k < column; k += 32) out[natural_of(k, a.nx, a.ny)] = 0.0;
    constexpr int AHEAD = 4;
    for (int k0 = column; k0 < m; k0 += AHEAD) {
        double row[AHEAD], inverse[AHEAD];
        for (int u = 0; u < AHEAD; ++u) {
            const int k = min(k0 + u, m - 1);
            row[u] = a.couplings[k * BAND + lane];
            inverse[u] = a.inverse_pivot[k];
        }
        for (int u = 0; u < AHEAD && k0 + u < m; ++u) {
            const int k = k0 + u;
            const double y = __shfl_sync(0xffffffffu, v, 0) * inverse[u];
            double up = __shfl_down_sync(0xffffffffu, v, 1);
            if (lane == 31) up = 0.0;
            v = up - row[u] * y;
            if (lane == k % 32) kept = y;
            if (k % 32 == 31 || k == m - 1) {
                const int own = k / 32 * 32 + lane;
                if (own <= k && own >= column) out[natural_of(own, a.nx, a.ny)] = kept;
            }
        }
    }
    // Backward: z_k = y_k - v_k / d_k, v_(k-1-l) += a_(k-1-l)l z_k. Lane l holds v_(k-l).
    v = 0.0;
    double y = 0.0;
    for (int k0 = m - 1; k0 >= 0; k0 -= AHEAD) {
        double row[AHEAD], inverse[AHEAD];
        for (int u = 0; u < AHEAD; ++u) {
            const int k = max(k0 - u, 0);
            row[u] = a.back[k * BAND + lane];
            inverse[u] = a.inverse_pivot[k];
        }
        for (int u = 0; u < AHEAD && k0 - u >= 0; ++u) {
            const int k = k0 - u, own = k / 32 * 32 + lane;
            if (k == m - 1 || k % 32 == 31) y = own < m ? out[natural_of(own, a.nx, a.ny)] : 0.0;
            const double z = __shfl_sync(0xffffffffu, y, k % 32) - inverse[u] * __shfl_sync(0xffffffffu, v, 0);
            double up = __shfl_down_sync(0xffffffffu, v, 1);
            if (lane == 31) up = 0.0;
            v = up + row[u] * z;
            if (lane == k % 32) kept = z;
            if (k % 32 == 0 && own < m) {
                const int at = natural_of(own, a.nx, a.ny);
                out[at] = kept;
                if (narrow) narrow[at] = float(kept);
            }
        }
    }
}

template <class Real> struct Rest {
    Geometry g;           // of the vectors, by colour
    const Real *inverse;
    const Real *r;
    Real *z;
    int n;
};

// z = M^-1 r of the remainder, one row a warp; returns r' z on the first thread of each warp. n^2 values, from the L2 cache.
template <class Real> __device__ inline double multiply_remainder(const Rest<Real> &a) {
    __shared__ Real r[MOST_REMAINDER];
    const int t = thread_of_block(), threads = blockDim.x * blockDim.y, lane = t % 32;
    const auto place = [&](int k) {
        const int j = k / a.g.nx, ii = k - j * a.g.nx + a.g.shift_x, jj = j + a.g.shift_y;
        const int colour = (jj & 1) ? ((ii & 1) ? B2 : R1) : ((ii & 1) ? R2 : B1);
        return colour * a.g.plane + a.g.at(ii >> 1, jj >> 1);
    };
    double product = 0.0;
    int row = blockIdx.x * (threads / 32) + t / 32;
    // Sixteen loads at once, so that few wait for others; the first ones before r is there.
    Real v[16];
    const auto load = [&](int first) {
        const Real *values = a.inverse + int64_t(row) * a.n;
#pragma unroll
        for (int u = 0; u < 16; ++u) v[u] = first + 32 * u < a.n ? values[first + 32 * u] : Real(0);
    };
    if (row < a.n) load(lane);
    for (int k = t; k < a.n; k += threads) r[k] = a.r[place(k)];
    __syncthreads();
    for (bool first_row = true; row < a.n; row += gridDim.x * (threads / 32), first_row = false) {
        Real sum = 0;
        for (int first = lane; first < a.n; first += 32 * 16) {
            if (!first_row || first != lane) load(first);
#pragma unroll
            for (int u = 0; u < 16; ++u) sum += v[u] * (first + 32 * u < a.n ? r[first + 32 * u] : Real(0));
        }
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane == 0) {
            a.z[place(row)] = sum;
            product += double(sum) * r[row];
        }
    }
    return product;
}

template <class Real> struct RemainderArgs {
    Rest<Real> rest;
    double *partial;  // r' z, a value a block
    TurnArgs turn;    // to the way up, unless `how` says nothing
};

// z = M^-1 r of the remainder; then the turn from the way down to the way up.
template <class Real> __device__ inline void remainder_step(const RemainderArgs<Real> &a) {
    double product = multiply_remainder(a.rest);
    if (a.turn.how == NOTHING) return;
    product = block_sum(product);
    if (thread_of_block() == 0) a.partial[blockIdx.x] = product;
    if (last_block(&a.turn.scalars->ticket)) turn_of(a.turn);
}

extern "C" __global__ void __launch_bounds__(THREADS) rrb_remainder_f64(RemainderArgs<double> a) { remainder_step(a); }
extern "C" __global__ void __launch_bounds__(THREADS) rrb_remainder_f32(RemainderArgs<float> a) { remainder_step(a); }

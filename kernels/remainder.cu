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

// Elimination begins at both ends and ends with the SEAM nodes in the middle, which couple the two: half as many steps one
// after the other. Nodes 0 .. left - 1 have their couplings to nodes after them, those of the seam too; the others, to nodes
// before them. Few nodes are eliminated from one end, without a seam.
constexpr int SEAM = BAND;
constexpr int WORTH_TWO_ENDS = 3 * SEAM;

struct BandArgs {
    Rules rules;
    const double *natural;  // diagonal (excess), east, north, northeast, northwest: nx * ny values each
    int nx, ny, n;
    double *couplings;      // n * BAND: of node k to k + 1 + p, or k - 1 - p
    double *back;           // n * BAND: to node k from k - 1 - p, or k + 1 + p
    double *across;         // SEAM * BAND: to node left + k from left + SEAM + p
    double *met;            // 2 * SEAM * (BAND + 1): what each end leaves of the seam, rows and their excess
    double *inverse_pivot;  // n
    unsigned *ticket;
};

// Node k in natural order, i fastest.
__device__ inline int natural_of(int k, int nx, int ny) {
    if (nx <= ny) return k;
    return k % ny * nx + k / ny;
}

// Nodes eliminated from the front.
__device__ inline int left_of(int n) { return n < WORTH_TWO_ENDS ? n : (n - SEAM + 1) / 2; }
__device__ inline int seam_of(int n) { return n < WORTH_TWO_ENDS ? 0 : SEAM; }

// One block an end. Row k of the band and those that it changes are in shared memory; warp p changes row k + 1 + p, and warp
// 0, whose row is the next pivot's, goes on to that pivot, so that a step has one barrier.
constexpr int WINDOW = BAND + 2;

extern "C" __global__ void __launch_bounds__(1024) rrb_band_f64(BandArgs a) {
    __shared__ double window[WINDOW][BAND], row_excess[WINDOW], inverse_of[2], excess_of[2], sum_of_row[2], next_sum[2];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, m = a.n, side = blockIdx.x;
    const bool along_x = a.nx <= a.ny;
    const int length = along_x ? a.nx : a.ny, left = left_of(m), seam = seam_of(m), right = m - left - seam;
    const double *east = a.natural + m, *north = a.natural + 2 * m, *northeast = a.natural + 3 * m, *northwest = a.natural + 4 * m;
    // Between nodes k < l.
    auto coupling = [&](int k, int l) {
        const int lines = l / length - k / length, along = l % length - k % length;
        const int at = natural_of(k, a.nx, a.ny), to = natural_of(l, a.nx, a.ny);
        if (lines == 0 && along == 1) return along_x ? east[at] : north[at];
        if (lines == 1 && along == 0) return along_x ? north[at] : east[at];
        if (lines == 1 && along == 1) return northeast[at];
        // Along x: to (i - 1, j + 1). Along y: to (i + 1, j - 1), whose northwest neighbour is this one.
        if (lines == 1 && along == -1) return along_x ? northwest[at] : northwest[to];
        return 0.0;
    };
    const int first_row = side == 0 ? 0 : left + seam, end_row = side == 0 ? left + seam : m;
    for (int e = first_row * BAND + t; e < end_row * BAND; e += 1024) {
        const int k = e / BAND, p = e % BAND;
        double v = 0.0;
        if (side == 0 && k + 1 + p < end_row) v = coupling(k, k + 1 + p);
        if (side == 1) v = coupling(k - 1 - p, k);
        a.couplings[e] = v;
        a.back[e] = 0.0;
    }
    if (side == 1) {
        for (int e = t; e < SEAM * BAND; e += 1024) a.across[e] = 0.0;
    }
    __syncthreads();
    // By turn: the nodes of this end and of the seam, of which the other end knows nothing; at last those of the seam.
    int turns = side == 0 ? left : right, stage = side;
    auto node = [&](int k) { return stage == 0 ? k : stage == 1 ? m - 1 - k : left + k; };
    auto known = [&](int k) { return stage == 0 ? k < left + seam : stage == 1 && k < right; };
    auto raw = [&](int k) { return known(k) ? a.couplings[node(k) * BAND + lane] : 0.0; };
    auto raw_excess = [&](int k) { return known(k) ? a.natural[natural_of(node(k), a.nx, a.ny)] : 0.0; };
    for (int k = warp; k < WINDOW - 1; k += 32) {
        window[k][lane] = raw(k);
        if (lane == 0) row_excess[k] = raw_excess(k);
    }
    auto whole = [&](double v) {
        for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
        return v;
    };
    // The pivot of node k, by warp 0: `row` is its row, one value a lane, v their sum, `s` its excess.
    auto pivot = [&](int k, double row, double v, double s) {
        const int nonzero = __any_sync(0xffffffffu, row != 0.0);
        if (lane == 0) {
            if (!nonzero) v = 0.0;
            const double d = s - v;
            sum_of_row[k & 1] = v;
            const int at = natural_of(node(k), a.nx, a.ny);
            const double inverse = d > 0.0 && is_finite(d) ? 1.0 / d : checked(a.rules, at % a.nx, at / a.nx, s, v, s, d, nonzero == 0).inverse;
            inverse_of[k & 1] = inverse;
            excess_of[k & 1] = s;
            a.inverse_pivot[node(k)] = inverse;
        }
    };
    for (;;) {
        __syncthreads();
        if (warp == 0 && turns > 0) pivot(0, window[0][lane], whole(window[0][lane]), row_excess[0]);
        if (warp == 1) {
            const double sum = whole(window[1][lane]);
            if (lane == 0) next_sum[0] = sum;
        }
        int slot = 0;
        for (int k = 0; k < turns; ++k) {
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
            if (warp == 0 && k + 1 < turns) pivot(k + 1, v, next_sum[k & 1] - l * (sum_of_row[k & 1] - row[0]), s);
            if (warp == 1) {
                const double sum = whole(v);
                if (lane == 0) next_sum[(k + 1) & 1] = sum;
            }
            if (warp == 30) {
                const int own = node(k), other = stage == 1 ? own - 1 - lane : own + 1 + lane;
                a.couplings[own * BAND + lane] = row[lane];
                if (stage == 1 && other < left + seam) {
                    if (other >= left) a.across[(other - left) * BAND + own - left - seam] = row[lane];
                } else if (other < (stage == 1 ? m : left + seam)) {
                    a.back[other * BAND + lane] = row[lane];
                }
            }
            // The row before this one is done with: its place is that of the row which the next step needs first.
            const int before = slot == 0 ? WINDOW - 1 : slot - 1;
            if (warp == 31) {
                window[before][lane] = next;
                if (lane == 0) row_excess[before] = next_excess;
            }
            slot = slot + 1 == WINDOW ? 0 : slot + 1;
        }
        if (seam == 0 || stage == 2) return;
        __syncthreads();
        double *mine = a.met + side * SEAM * (BAND + 1);
        const int from = slot + warp < WINDOW ? slot + warp : slot + warp - WINDOW;
        mine[warp * BAND + lane] = window[from][lane];
        if (lane == 0) mine[SEAM * BAND + warp] = row_excess[from];
        if (!last_block(a.ticket)) return;
        // What both ends have left of the seam; of the far one, in its order.
        const double *near = a.met, *far = a.met + SEAM * (BAND + 1);
        const int other = warp + 1 + lane;
        window[warp][lane] = other < SEAM ? __ldcg(near + warp * BAND + lane) + __ldcg(far + (SEAM - 1 - other) * BAND + lane) : 0.0;
        if (lane == 0) row_excess[warp] = __ldcg(near + SEAM * BAND + warp) + __ldcg(far + SEAM * BAND + SEAM - 1 - warp);
        if (warp < WINDOW - SEAM) {
            window[SEAM + warp][lane] = 0.0;
            if (lane == 0) row_excess[SEAM + warp] = 0.0;
        }
        stage = 2;
        turns = SEAM;
    }
}

struct InverseArgs {
    const double *couplings, *back, *across, *inverse_pivot;
    double *inverse;  // n * n values, symmetric, natural order
    float *narrow;    // and in single precision, where sweeps are
    int nx, ny, n;
    double unit;      // sweeps solve with M / unit
    Findings *findings;
};

// Columns of the inverse, L D L^T z = unit e_c, one warp each: a lane holds what is to be taken from one of the next 32 nodes,
// and hands it on to the lane before from node to node. Column c is written as row c.
constexpr int COLUMNS = 4;

extern "C" __global__ void __launch_bounds__(32 * COLUMNS) rrb_inverse_f64(InverseArgs a) {
    const int lane = threadIdx.x % 32, m = a.n, column = blockIdx.x * COLUMNS + threadIdx.x / 32;
    if (column >= m) return;
    const int left = left_of(m), seam = seam_of(m), middle = left + seam;
    const int64_t place = int64_t(natural_of(column, a.nx, a.ny)) * m;
    double *out = a.inverse + place;
    float *narrow = a.narrow ? a.narrow + place : nullptr;
    for (int k = lane; k < m; k += 32) out[natural_of(k, a.nx, a.ny)] = 0.0;
    __syncwarp();
    double v = lane == 0 ? a.unit : 0.0;
    constexpr int AHEAD = 4;
    // Forward from the column's own node on, away from its end: y_k = v_k / d_k, v_l -= a_kl y_k. Lane p holds v of node
    // k + p, or k - p.
    auto forward = [&](int k0, int step, int count) {
        for (int first = 0; first < count; first += AHEAD) {
            double row[AHEAD], inverse[AHEAD];
            for (int u = 0; u < AHEAD; ++u) {
                const int k = k0 + step * min(first + u, count - 1);
                row[u] = a.couplings[k * BAND + lane];
                inverse[u] = a.inverse_pivot[k];
            }
            for (int u = 0; u < AHEAD && first + u < count; ++u) {
                const double y = __shfl_sync(0xffffffffu, v, 0) * inverse[u];
                double up = __shfl_down_sync(0xffffffffu, v, 1);
                if (lane == 31) up = 0.0;
                v = up - row[u] * y;
                if (lane == 0) out[natural_of(k0 + step * (first + u), a.nx, a.ny)] = y;
            }
        }
    };
    if (column < middle) {
        forward(column, 1, middle - column);
    } else {
        forward(column, -1, column - middle + 1);
        v = __shfl_sync(0xffffffffu, v, 31 - lane);
        forward(left, 1, seam);
    }
    __syncwarp();
    // Backward, from the seam to both ends at once: z_k = y_k - v_k / d_k, v_l += a_lk z_k.
    double w = 0.0;
    v = 0.0;
    auto put = [&](int k, double z) {
        const int at = natural_of(k, a.nx, a.ny);
        out[at] = z;
        if (narrow) narrow[at] = float(z);
    };
    for (int k = middle - 1; k >= left; --k) {
        const double row = a.back[k * BAND + lane], over = a.across[(k - left) * BAND + lane];
        const double z = out[natural_of(k, a.nx, a.ny)] - a.inverse_pivot[k] * __shfl_sync(0xffffffffu, v, 0);
        double up = __shfl_down_sync(0xffffffffu, v, 1);
        if (lane == 31) up = 0.0;
        v = up + row * z;
        w += over * z;
        __syncwarp();
        if (lane == 0) put(k, z);
    }
    const int right = m - middle, turns = max(left, right);
    for (int first = 0; first < turns; first += AHEAD) {
        double row[AHEAD], row2[AHEAD], inverse[AHEAD], inverse2[AHEAD], y[AHEAD], y2[AHEAD];
        for (int u = 0; u < AHEAD; ++u) {
            const int k = max(left - 1 - first - u, 0), k2 = min(middle + first + u, m - 1);
            row[u] = a.back[k * BAND + lane];
            inverse[u] = a.inverse_pivot[k];
            y[u] = out[natural_of(k, a.nx, a.ny)];
            row2[u] = a.back[k2 * BAND + lane];
            inverse2[u] = a.inverse_pivot[k2];
            y2[u] = out[natural_of(k2, a.nx, a.ny)];
        }
        __syncwarp();
        for (int u = 0; u < AHEAD; ++u) {
            const double z = y[u] - inverse[u] * __shfl_sync(0xffffffffu, v, 0), z2 = y2[u] - inverse2[u] * __shfl_sync(0xffffffffu, w, 0);
            double up = __shfl_down_sync(0xffffffffu, v, 1), up2 = __shfl_down_sync(0xffffffffu, w, 1);
            if (lane == 31) up = up2 = 0.0;
            v = up + row[u] * z;
            w = up2 + row2[u] * z2;
            if (lane == 0 && first + u < left) put(left - 1 - first - u, z);
            if (lane == 0 && first + u < right) put(middle + first + u, z2);
        }
        __syncwarp();
    }
    if (lane == 0) {
        // M being definite, no value of a column is larger than both diagonals.
        atomic_max(&a.findings->remainder_inverse, magnitude(out[natural_of(column, a.nx, a.ny)] / a.unit));
        atomic_max(&a.findings->remainder_pivot, magnitude(1.0 / a.inverse_pivot[column]));
    }
}

template <class Real, class Stored = Real> struct Rest {
    Geometry g;           // of the vectors, by colour
    const Stored *inverse;
    const Real *r;
    Real *z;
    int n;
};

// Place of node k, row by row, in vectors by colour.
template <class Real, class Stored> __device__ inline int64_t place_of_rest(const Rest<Real, Stored> &a, int k) {
    const int j = quotient(k, a.g.nx), ii = k - j * a.g.nx + a.g.shift_x, jj = j + a.g.shift_y;
    const int colour = (jj & 1) ? ((ii & 1) ? B2 : R1) : ((ii & 1) ? R2 : B1);
    return colour * a.g.plane + a.g.at(ii >> 1, jj >> 1);
}

// z = M^-1 r of the remainder, one row a warp; returns r' z on the first thread of each warp. n^2 values, from the L2 cache.
// Blocks before `team` have no rows. `ready` comes back when r is there, or when `fill`, which copies it, may wait for
// it: rows are read before that. `put` takes values of z. CHUNK: values of a row that a thread reads at once.
template <int CHUNK, class Real, class Stored, class Ready, class Fill, class Put>
__device__ inline double multiply_remainder(const Rest<Real, Stored> &a, Team team, Ready ready, Fill fill, Put put) {
    __shared__ Real r[MOST_REMAINDER];
    const int t = thread_of_block(), threads = blockDim.x * blockDim.y, lane = t % 32;
    double product = 0.0;
    const int own = team.place(), blocks = team.size(), rows = threads / 32;
    int row = own * rows + t / 32;
    const bool any = own >= 0 && own * rows < a.n;
    // The first before r is there, and the rest of the row is on its way then.
    Stored v[CHUNK];
    const auto load = [&](int first) {
        const Stored *values = a.inverse + int64_t(row) * a.n;
#pragma unroll
        for (int u = 0; u < CHUNK; ++u) v[u] = first + 32 * u < a.n ? values[first + 32 * u] : Stored(0);
    };
    if (any && row < a.n) {
        load(lane);
        const int rest = 32 * CHUNK + lane * CHUNK;
        if (rest < a.n) prefetch(a.inverse + int64_t(row) * a.n + rest);
    }
    ready();
    if (!any) return 0.0;
    fill(r);
    __syncthreads();
    for (bool first_row = true; row < a.n; row += blocks * rows, first_row = false) {
        Stored sum = 0;
        for (int first = lane; first < a.n; first += 32 * CHUNK) {
            if (!first_row || first != lane) load(first);
#pragma unroll
            for (int u = 0; u < CHUNK; ++u) sum += v[u] * (first + 32 * u < a.n ? r[first + 32 * u] : Real(0));
        }
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane == 0) {
            put(row, sum);
            product += double(sum) * r[row];
        }
    }
    return product;
}

// The same in device memory, by colour. A row, or half of it in double precision, at once.
template <class Real, class Stored, class Ready>
__device__ inline double multiply_remainder(const Rest<Real, Stored> &a, Team team, Ready ready) {
    return multiply_remainder<128 / sizeof(Stored)>(
        a, team, ready,
        [&](Real *r) {
            for (int k = thread_of_block(); k < a.n; k += blockDim.x * blockDim.y) r[k] = a.r[place_of_rest(a, k)];
        },
        [&](int row, Real sum) { a.z[place_of_rest(a, row)] = sum; });
}

template <class Real, class Stored = Real> struct RemainderArgs {
    Rest<Real, Stored> rest;
    double *partial;  // r' z, a value a block
    TurnArgs turn;    // to the way up, unless `how` says nothing
};

// z = M^-1 r of the remainder; then the turn from the way down to the way up.
template <class Real, class Stored> __device__ inline void remainder_step(const RemainderArgs<Real, Stored> &a) {
    if (a.turn.how == LOOP && a.turn.scalars->done) return;
    double product = multiply_remainder(a.rest, all_blocks(), [] {});
    if (a.turn.how == NOTHING) return;
    product = block_sum(product);
    if (thread_of_block() == 0) a.partial[blockIdx.x] = product;
    if (last_block(&a.turn.scalars->ticket)) turn_of(a.turn);
}

extern "C" __global__ void __launch_bounds__(THREADS) rrb_remainder_f64(RemainderArgs<double> a) { remainder_step(a); }
extern "C" __global__ void __launch_bounds__(THREADS) rrb_remainder_f32(RemainderArgs<float> a) { remainder_step(a); }
extern "C" __global__ void __launch_bounds__(THREADS) rrb_remainder_wide_f32(RemainderArgs<float, double> a) { remainder_step(a); }

// First grid if CG runs on S1, the Schur complement of A on the black nodes: the fused stages F0 (forward half) and B0
// (backward half), and the unfused steps on b1 and b2 (src/rrb/cpu/iteration/fused.rs).
//
// There are two arrays for r of b1, because the forward half reads the old r of neighbours that other threads update.
// `parity` in the scalars is the index of the current array. There are also two arrays for p, because the backward half
// reads the old p of neighbours and recomputes their new p. Per (I, J), F0 reads and writes 12 values. B0 reads and
// writes 23 values, or 19 without x, and the values around each tile.
#include "storage.cuh"

// Maximum number of rows of a tile of B0. Tiles are higher than in sweeps, because the values around a tile are
// computed twice. The launch selects the number of rows (src/cuda/launch/rrb/geometry.rs).
constexpr int MOST_ROWS = 24;
// Number of (I, J) in a tile and in the layer around it.
template <int ROWS> constexpr int PLACES = (TILE_X + 2) * (ROWS + 2);

struct SchurArrays {
    Geometry g;            // of the first grid
    const double *d, *far; // couplings of S1
    const double *center;  // diagonal entries of S1: planes of b1 and b2
    double *r_b1[2], *r_b2;
    double *x_b1, *x_b2;
    double *q_b1, *q_b2;
    double *p_b1[2], *p_b2[2]; // unfused steps, and the start of a solve, use only the first array
    double *b_b1, *b_b2;
    Scalars *scalars;
};

template <class F> struct FirstArgs {
    SchurArrays v;
    Level<F> k;
    const double *in_b1, *in_b2;    // input of unfused steps; null: the current r
    double *partial, *norm_partial; // partial sums of rho and of <r, r>; null: none
    double *sigma_partial;
    int how;              // START: r does not change; LOOP: first computes r -= alpha q
    int once;             // 1: L2 can hold the data of an iteration only without those that are read once
    int rows, rows_down;  // numbers of rows of a tile of B0, and of F0
    int with_x;           // 1: B0 also updates x
    uint64_t conditional; // condition handle of the WHILE node of the graph; 0: none
};

// Determines which of the tiles first, first + step, ... are uniform. A tile of `rows` rows consists of smaller tiles
// with a byte in Geometry::uniform each, and is uniform if all of them are.
template <bool UNIFORM>
__device__ inline auto uniform_big_tiles(const Geometry &g, int first, int step, int count, int rows) {
    const int across = (g.cx + TILE_X - 1) / TILE_X;
    return uniform_tiles<UNIFORM>(first, step, count, [=](int tile) {
        const int row = quotient(tile, across), j = row * rows;
        const uint8_t *part = g.uniform + (j / TILE_Y * across + tile - row * across);
        unsigned all = 1;
#pragma unroll
        for (int k = 0; k < MOST_ROWS / TILE_Y; ++k) {
            if (k * TILE_Y < rows && j + k * TILE_Y < g.cy) all &= part[k * across];
        }
        return all;
    });
}

// Here and below, UNIFORM selects the variant for matrices with uniform tiles (uniform.cuh). In such a tile, the
// couplings are read at its first (I, J) only.

// F0, the forward half on the first grid. Computes r -= alpha q, y_b1 = r_b1, kept = r_b2 - A_b2,b1 D^-1 r_b1, and
// partial sums of rho and <r, r>.
//
// SPARE: whether there are enough registers for all values of an (I, J) at the same time. If so, loads that do not
// depend on the scalars come first. A thread block processes its tiles from the last to the first, because the L2 cache
// still contains the tiles that B0 has written last.
template <bool SPARE, bool UNIFORM, class F> __device__ inline void descend_first(
    const FirstArgs<F> &a, const Tiles &tiles, const LoopScalars &s, double &rho, double &norm2) {
    using Real = typename F::Real;
    const Geometry &g = a.v.g;
    const int64_t p = g.plane, n = g.stride;
    const bool update = a.how == LOOP, over = update && s.done;
    const double alpha = update ? s.alpha : 0.0;
    const int parity = s.parity;
    // In a loop, the scalar update changes the parity after this kernel.
    const double *in1 = a.in_b1 ? a.in_b1 : a.v.r_b1[parity], *in2 = a.in_b2 ? a.in_b2 : a.v.r_b2;
    double *out1 = a.v.r_b1[parity ^ 1];
    const double *q1 = a.v.q_b1, *q2 = a.v.q_b2;
    const Real *h = a.k.h + B1 * p;
    const typename F::Stored *d = a.k.d;
    // Values that a thread loads for one (I, J): q and r at the four b1 neighbours of b2, in the order SW, SE, NW, NE,
    // and at b2 itself; 1 / d of the b1 neighbours, and their couplings to b2.
    struct Place {
        int64_t c;
        double q[5], r[5];
        Real h[4], d[4];
    };
    const auto couplings = [&](int64_t m, Place &v) {
        const int64_t of[4] = {m, m + 1, m + n, m + n + 1};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v.h[k] = fixed(h[of[k]]);
            v.d[k] = F::read(d[(3 - k) * p + of[k]]);
        }
    };
    // `all`: index of the couplings of a uniform tile; -1: the tile is not uniform.
    const auto load = [&](int i, int j, int64_t all, Place &v) {
        const int64_t c = v.c = g.at(i, j), of[4] = {c, c + 1, c + n, c + n + 1};
        if (SPARE) couplings(UNIFORM && all >= 0 ? all : c, v);
#pragma unroll
        for (int k = 0; k < 4; ++k) v.q[k] = update ? q1[of[k]] : 0.0;
        v.q[4] = update ? q2[c] : 0.0;
#pragma unroll
        for (int k = 0; k < 4; ++k) v.r[k] = in1[of[k]];
        v.r[4] = in2[c];
    };
    const auto store = [&](int i, int j, Place &v) {
        if (update) {
#pragma unroll
            for (int k = 0; k < 5; ++k) v.r[k] -= alpha * v.q[k];
            out1[v.c] = v.r[0];
            a.v.r_b2[v.c] = v.r[4];
        }
        if (!SPARE) couplings(v.c, v);
        const Real scaled = v.h[0] * Real(v.r[0]);
        rho += v.r[0] * scaled;
        norm2 += v.r[0] * v.r[0] + v.r[4] * v.r[4];
        const Real near = (v.d[0] * scaled + v.d[1] * (v.h[1] * Real(v.r[1]))) +
            (v.d[2] * (v.h[2] * Real(v.r[2])) + v.d[3] * (v.h[3] * Real(v.r[3])));
        a.k.kept.put(i, j, Real(v.r[4]) - near);
    };
    if constexpr (!SPARE) {
        over_places<BACKWARDS>(g, tiles, all_blocks(), [&](int i, int j) {
            Place v;
            load(i, j, -1, v);
            store(i, j, v);
        });
        return;
    }
    const int t = thread_of_block(), ti = t % TILE_X, tj = t / TILE_X, rows = a.rows_down;
    const int last = last_tile(tiles, all_blocks()), step = gridDim.x;
    const auto uniform = uniform_big_tiles<UNIFORM>(g, last, -step, (last - tiles.first + step) / step, rows);
    for (int tile = last, nth = 0; tile >= tiles.first; tile -= step, ++nth) {
        const int row = quotient(tile, tiles.across), i = (tile - row * tiles.across) * TILE_X + ti;
        const int64_t all = uniform[nth] ? g.at(i - ti, row * rows) : -1;
        for (int j = (row + 1) * rows - TILE_Y + tj; j >= row * rows; j -= TILE_Y) {
            const bool inside = i < g.cx && j < g.cy;
            Place v;
            if (inside) load(i, j, all, v);
            if (over) return;
            if (inside) store(i, j, v);
        }
    }
}

// Computes z_b1 = (r_b1 - A_b1,b2 z_b2) / d, where z_b2 are the kept values. `c` is the index of the couplings.
template <class F> __device__ inline typename F::Real solve_first(
    const FirstArgs<F> &a, int i, int j, int64_t c, double r, typename F::Real own) {
    using Real = typename F::Real;
    const int64_t p = a.v.g.plane;
    const typename F::Stored *d = a.k.d;
    const Real near =
        (F::read(d[SW * p + c]) * a.k.kept.get(i - 1, j - 1) + F::read(d[SE * p + c]) * a.k.kept.get(i, j - 1)) +
        (F::read(d[NW * p + c]) * a.k.kept.get(i - 1, j) + F::read(d[NE * p + c]) * own);
    return fixed(a.k.h[B1 * p + c]) * (Real(r) - near);
}

// Computes z on b1 and b2 from the kept values, for the unfused steps.
template <class F> __device__ inline void ascend_first(const FirstArgs<F> &a) {
    const Geometry &g = a.v.g;
    const double *in1 = a.in_b1 ? a.in_b1 : a.v.r_b1[a.v.scalars->parity];
    over_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        const typename F::Real own = a.k.kept.get(i, j);
        a.k.z[B1 * g.plane + c] = solve_first(a, i, j, c, in1[c], own);
        a.k.z[B2 * g.plane + c] = own;
    });
}

template <bool UNIFORM, class F> __device__ inline void descend_first_step(const FirstArgs<F> &a) {
    over_parts(a.v.g, a.rows_down, [&](int part, const Tiles &tiles) {
        double rho = 0.0, norm2 = 0.0;
        descend_first<true, UNIFORM>(a, tiles, *a.v.scalars, rho, norm2);
        if (!a.partial) return;
        store_part_sum(a.partial, part, rho);
        store_part_sum(a.norm_partial, part, norm2);
    });
}

RRB_IN_FORMATS(rrb_descend_first, FirstArgs, THREADS, RESIDENT, RESIDENT, descend_first_step<false>)
RRB_IN_FORMATS(rrb_descend_first_uniform, FirstArgs, THREADS, RESIDENT, RESIDENT, descend_first_step<true>)
RRB_IN_FORMATS(rrb_ascend_first, FirstArgs, THREADS, RESIDENT, RESIDENT, ascend_first)

// Computes the entries of S1 v at b1 and b2 of one (I, J). `c` is the index of the couplings. v1 and v2 point to v at
// this (I, J), in arrays with rows of `m` values.
template <bool ONCE = false> __device__ inline void schur_rows(
    const SchurArrays &a, const double *v1, const double *v2, int m, int64_t c, double &q1, double &q2) {
    const auto fixed = [](const double &v) { return fixed_once<ONCE>(v); };
    const int64_t p = a.g.plane, n = a.g.stride;
    const double *d = a.d, *far = a.far;
    const auto of = [&](int plane, int64_t at) { return fixed(far[plane * p + at]); };
    const double far1 = (of(B1_EAST, c - 1) * v1[-1] + of(B1_EAST, c) * v1[1]) +
        (of(B1_NORTH, c - n) * v1[-m] + of(B1_NORTH, c) * v1[m]);
    const double ne = fixed(d[NE * p + c]);
    const double near1 = (fixed(d[SW * p + c]) * v2[-m - 1] + fixed(d[SE * p + c]) * v2[-m]) +
        (fixed(d[NW * p + c]) * v2[-1] + ne * v2[0]);
    q1 = fixed(a.center[c]) * v1[0] + (far1 + near1);
    const double far2 = (of(B2_EAST, c - 1) * v2[-1] + of(B2_EAST, c) * v2[1]) +
        (of(B2_NORTH, c - n) * v2[-m] + of(B2_NORTH, c) * v2[m]);
    const double near2 = (ne * v1[0] + fixed(d[NW * p + c + 1]) * v1[1]) +
        (fixed(d[SE * p + c + n]) * v1[m] + fixed(d[SW * p + c + n + 1]) * v1[m + 1]);
    q2 = fixed(a.center[p + c]) * v2[0] + (far2 + near2);
}

// B0, the backward half on the first grid. Computes z, x += alpha p (if `with_x`), p = z / unit + beta p, and q = S1 p.
// Returns the partial sum of <p, q> of this thread.
//
// After the end of the loop, computes nothing except the update of x, if `with_x` is set. A thread block stores p at
// the TILE_X x ROWS (I, J) of a tile, and at those around the tile, in shared memory. If AT_ONCE threads suffice for
// all of them, separate threads compute the values around the tile. ONCE: see `read_once`.
template <int ROWS, int AT_ONCE, bool ONCE, bool UNIFORM, class F> __device__ inline double advance_first(
    const FirstArgs<F> &a, const Tiles &tiles, const LoopScalars &s, double *p1, double *p2) {
    constexpr int M = TILE_X + 2;
    const int rows = min(a.rows, ROWS), inside = rows * TILE_X, around = 2 * M + 2 * rows;
    const int apart = inside + around <= AT_ONCE ? inside : 0;
    const Geometry &g = a.v.g;
    const bool loops = a.how == LOOP, ended = loops && s.code != RUNNING, with_x = loops && a.with_x;
    if (loops && (s.done || (ended && !with_x))) return 0.0;
    const double alpha = s.alpha, beta = s.beta, per_unit = s.per_unit;
    const int parity = s.parity;
    const double *r1 = a.v.r_b1[parity], *old1 = a.v.p_b1[parity ^ 1], *old2 = a.v.p_b2[parity ^ 1];
    double *new1 = a.v.p_b1[parity], *new2 = a.v.p_b2[parity];
    const int t = thread_of_block(), threads = blockDim.x * blockDim.y;
    double sigma = 0.0;
    const int first = first_tile(tiles, all_blocks()), step = gridDim.x;
    const auto known = uniform_big_tiles<UNIFORM>(g, first, step, (tiles.end - first + step - 1) / step, rows);
    for (int tile = first, nth = 0; tile < tiles.end; tile += step, ++nth) {
        const int row = quotient(tile, tiles.across), i0 = (tile - row * tiles.across) * TILE_X, j0 = row * rows;
        const bool uniform = known[nth];
        const int64_t all = g.at(i0, j0);
        const auto one = [&](int di, int dj, bool own) {
            const int i = i0 + di, j = j0 + dj;
            double v1 = 0.0, v2 = 0.0;
            if (unsigned(i) < unsigned(g.cx) && unsigned(j) < unsigned(g.cy)) {
                const int64_t c = g.at(i, j);
                const double o1 = loops ? read_once<ONCE>(old1[c]) : 0.0, o2 = loops ? read_once<ONCE>(old2[c]) : 0.0;
                const double x1 = own && with_x ? read_once<ONCE>(a.v.x_b1[c]) : 0.0,
                             x2 = own && with_x ? read_once<ONCE>(a.v.x_b2[c]) : 0.0;
                if (!ended) {
                    const typename F::Real here = a.k.kept.get(i, j),
                                           z1 = solve_first(a, i, j, UNIFORM && uniform ? all : c, r1[c], here);
                    v1 = loops ? per_unit * z1 + beta * o1 : per_unit * z1;
                    v2 = loops ? per_unit * here + beta * o2 : per_unit * here;
                }
                if (own && with_x) {
                    write_once<ONCE>(a.v.x_b1[c], x1 + alpha * o1);
                    write_once<ONCE>(a.v.x_b2[c], x2 + alpha * o2);
                }
                if (own && !ended) {
                    new1[c] = v1;
                    new2[c] = v2;
                }
            }
            const int at = (dj + 1) * M + di + 1;
            p1[at] = v1;
            p2[at] = v2;
        };
        for (int e = t; e < inside; e += threads) one(e % TILE_X, e / TILE_X, true);
        if (ended) continue;
        for (int e = t < apart ? around : t - apart; e < around; e += threads) {
            if (e < 2 * M) one(e % M - 1, e < M ? -1 : rows, false);
            else one((e & 1) ? TILE_X : -1, (e - 2 * M) / 2, false);
        }
        __syncthreads();
        for (int e = t; e < inside; e += threads) {
            const int di = e % TILE_X, dj = e / TILE_X, i = i0 + di, j = j0 + dj, at = (dj + 1) * M + di + 1;
            if (i >= g.cx || j >= g.cy) continue;
            const int64_t c = g.at(i, j);
            double q1, q2;
            schur_rows<ONCE>(a.v, p1 + at, p2 + at, M, UNIFORM && uniform ? all : c, q1, q2);
            a.v.q_b1[c] = q1;
            a.v.q_b2[c] = q2;
            sigma += p1[at] * q1 + p2[at] * q2;
        }
        __syncthreads();
    }
    return sigma;
}

// Ends an iteration. The last thread block executes this function, when all partial sums of <p, q> have been stored.
template <class Args> __device__ inline void end_by_last(const Args &a, const double *partial) {
    Scalars &s = *a.v.scalars;
    if (!last_block_over(a.v.g, &s.ticket)) return;
    __shared__ LoopScalars now;
    copy_loop_scalars(now, s);
    const double sigma = sum_over(a.v.g, partial);
    if (thread_of_block() == 0) {
        end_of_iteration(now, sigma, a.how);
        if (a.how == LOOP && a.conditional) set_loop_condition(a.conditional, now);
    }
    __syncthreads();
    copy_loop_scalars(s, now);
}

template <bool UNIFORM, class F> __device__ inline void advance_first_step(const FirstArgs<F> &a) {
    Scalars &s = *a.v.scalars;
    const bool ended = a.how == LOOP && s.code != RUNNING;
    // The variant with `read_once` saves no time in double precision, and a kernel that contains both variants is 1 %
    // slower. This variant therefore exists only for the short formats.
    constexpr bool SHORT = sizeof(typename F::Real) < sizeof(double);
    __shared__ double p1[PLACES<MOST_ROWS>], p2[PLACES<MOST_ROWS>];
    over_parts(a.v.g, a.rows, [&](int part, const Tiles &tiles) {
        double sigma = SHORT && a.once ? advance_first<MOST_ROWS, THREADS, SHORT, UNIFORM>(a, tiles, s, p1, p2)
                                       : advance_first<MOST_ROWS, THREADS, false, UNIFORM>(a, tiles, s, p1, p2);
        if (!ended) store_part_sum(a.sigma_partial, part, sigma);
    });
    if (!ended) {
        end_by_last(a, a.sigma_partial);
    } else if (last_block_over(a.v.g, &s.ticket) && thread_of_block() == 0) {
        s.done = 1;
        if (a.conditional) set_loop_condition(a.conditional, s);
    }
}

RRB_IN_FORMATS(rrb_advance_first, FirstArgs, THREADS, RESIDENT, RESIDENT, advance_first_step<false>)
RRB_IN_FORMATS(rrb_advance_first_uniform, FirstArgs, THREADS, RESIDENT, RESIDENT, advance_first_step<true>)

// Computes x += alpha p at the same time as other thread blocks execute steps on small grids, which do not use the
// whole memory bandwidth. Each lane of a warp has AT_ONCE loads per array in flight, in one row. All accesses use the
// cache policy of `read_once`. The data of the forward half therefore remain in the L2 cache for the backward half on
// the larger grids.
__device__ inline void advance_x(const SchurArrays &a, Team team) {
    constexpr int AT_ONCE = 4, LENGTH = 32 * AT_ONCE;
    // Other thread blocks may update the scalars at the same time. The update does not change the scalars that this
    // function reads.
    const Scalars &s = *a.scalars;
    if (s.done) return;
    const double alpha = s.alpha, *p[2] = {a.p_b1[s.direction], a.p_b2[s.direction]};
    double *x[2] = {a.x_b1, a.x_b2};
    const int warps = blockDim.x * blockDim.y / 32, t = thread_of_block(), pieces = (a.g.cx + LENGTH - 1) / LENGTH,
              all = pieces * a.g.cy;
    // The order is reversed, so that the beginning of p is read last, shortly before the backward half reads it again.
    for (int k = all - 1 - (team.index() * warps + t / 32); k >= 0; k -= team.size() * warps) {
        const int j = quotient(k, pieces), first = (k - j * pieces) * LENGTH + t % 32;
        const int64_t c = a.g.at(first, j);
        double old[2][AT_ONCE], step[2][AT_ONCE];
#pragma unroll
        for (int u = 0; u < 2 * AT_ONCE; ++u) {
            if (first + u / 2 * 32 >= a.g.cx) continue;
            old[u % 2][u / 2] = read_once<true>(x[u % 2][c + u / 2 * 32]);
            step[u % 2][u / 2] = read_once<true>(p[u % 2][c + u / 2 * 32]);
        }
#pragma unroll
        for (int u = 0; u < 2 * AT_ONCE; ++u) {
            if (first + u / 2 * 32 >= a.g.cx) continue;
            write_once<true>(x[u % 2][c + u / 2 * 32], old[u % 2][u / 2] + alpha * step[u % 2][u / 2]);
        }
    }
}

struct SchurArgs {
    SchurArrays v;
    double *partial;
    int how;
    uint64_t conditional; // condition handle of the WHILE node of the graph; 0: none
};

// Computes q = S1 p and sigma = <p, q> for the unfused steps, and ends the iteration.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_multiply_first_f64(SchurArgs a) {
    Scalars &s = *a.v.scalars;
    if (a.how == LOOP && s.code != RUNNING) {
        if (blockIdx.x == 0 && thread_of_block() == 0) {
            s.done = 1;
            if (a.conditional) set_loop_condition(a.conditional, s);
        }
        return;
    }
    const double *p1 = a.v.p_b1[0], *p2 = a.v.p_b2[0];
    double sigma = 0.0;
    over_area(
        a.v.g,
        [&](int i, int j) {
            const int64_t c = a.v.g.at(i, j);
            double q1, q2;
            schur_rows(a.v, p1 + c, p2 + c, a.v.g.stride, c, q1, q2);
            a.v.q_b1[c] = q1;
            a.v.q_b2[c] = q2;
            sigma += p1[c] * q1 + p2[c] * q2;
        },
        [&](int part) { store_part_sum(a.partial, part, sigma); });
    end_by_last(a, a.partial);
}

// Computes the residual r of S1 and <r, r>. The black planes of b contain the right-hand side of S1. r of b1 is stored
// in the first of its two arrays, which becomes the current one.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_residual_first_f64(SchurArgs a) {
    Scalars &s = *a.v.scalars;
    // If the loop continues, the kernel must not change r.
    if (a.how == LOOP && (s.code == PAUSED || s.code == RUNNING)) return;
    double *r1 = a.v.r_b1[0];
    double norm2 = 0.0;
    over_area(
        a.v.g,
        [&](int i, int j) {
            const int64_t c = a.v.g.at(i, j);
            double q1, q2;
            schur_rows(a.v, a.v.x_b1 + c, a.v.x_b2 + c, a.v.g.stride, c, q1, q2);
            q1 = a.v.b_b1[c] - q1;
            q2 = a.v.b_b2[c] - q2;
            r1[c] = q1;
            a.v.r_b2[c] = q2;
            norm2 += q1 * q1 + q2 * q2;
        },
        [&](int part) { store_part_sum(a.partial, part, norm2); });
    sum_parts(a.v.g, a.partial, &s.ticket, [&](double all) {
        s.norm2 = all;
        s.parity = 0;
    });
}

// Sweeps on one grid of the preconditioner: the forward half and the backward half, each with both levels in one pass
// (report 16-06, section 2.6; docs/theory/rrb.md, preconditioner of each cycle). This file also contains the inner
// iterations on a recursion grid (src/rrb/recursion.rs).
//
//     forward:  y_b1 = r_b1 - A_b1,red D^-1 r_red
//               kept = r_b2 - A_b2,red D^-1 r_red - A_b2,b1 D^-1 y_b1
//               rho += r_red' D^-1 r_red + y_b1' D^-1 y_b1
//     backward: z_b1  = (y_b1 - A_b1,b2 z_b2) / d
//               z_red = (r_red - A_red,black z_black) / d
//
// `kept` is the right-hand side of the next grid. If the couplings of the next grid are weak (TRUNCATED), the forward
// half ends with z_b2 = kept / d and rho += kept' D^-1 kept, where d is the center of b2.
//
// A thread block processes a tile of TILE_X x TILE_Y (I, J) with one thread per (I, J). It also computes the values at
// b1 in one more row and column. Threads exchange these values through shared memory. There are no races, because the
// values of an (I, J) are written only by the thread of this (I, J). The forward half reads z and writes `y` and the
// next grid. In the backward half, a thread reads red z only at its own (I, J), before it writes this value.
//
// Per (I, J), the forward half reads and writes 21 values (16 couplings minus 4 shared with a neighbour, 3 pivots, 4
// inputs, 2 outputs), and the backward half 23 values. On small grids, latency determines the time; therefore all loads
// come first.
#include "storage.cuh"

// Access to the values of an (I, J). Global: they are in device memory, and the threads of a tile read all values
// before they write any. Shared: they are in the shared memory of a cluster, and a thread block also computes b1 in the
// row after its rows (cluster.cuh). No step changes the data that `read` and `pivot` read.
struct Global {
    static constexpr bool TILES = true;
    template <class F> static __device__ typename F::Real read(const typename F::Stored &v) { return F::read(v); }
    template <class Real> static __device__ Real pivot(const Real &v) { return fixed(v); }
};
struct Shared {
    static constexpr bool TILES = false;
    template <class F> static __device__ typename F::Real read(const typename F::Stored &v) { return F::widen(v); }
    template <class Real> static __device__ Real pivot(const Real &v) { return v; }
};

// Pointers to the vectors, couplings and pivots of one (I, J), in planes of p values and rows of n values.
template <class F> struct PlacePointers {
    using Real = typename F::Real;
    using Stored = typename F::Stored;
    int p, n;
    Real *z, *y, *r, *direction, *q, *u;
    const Real *h;
    const Stored *s, *d, *excess, *corners, *black;
};

// Returns the pointers for vectors at index c and couplings at index m. `k` is a Level or a Window.
template <class F, class K> __device__ inline PlacePointers<F> pointers_at(const K &k, int p, int n, int c, int m) {
    return {p, n, k.z + c, k.y + c, k.r + c, k.direction + c, k.q + c, k.u + c, k.h + m, k.s + m, k.d + m, k.excess + m,
        k.corners + m, k.black + m};
}

// Values of the forward half before y_b1 of the neighbours is known: y / d of b1, `kept` without its terms of b1, and
// the couplings of b2 to b1.
template <class Real> struct ForwardValues {
    Real scaled, kept, near[4];
};

// Computes y_b1, and `kept` without its terms of b1. `own`: whether (I, J) belongs to the tile, or in a cluster to the
// rows, of this thread block. Only then, the thread adds to rho and copies the right-hand side (STORE_RHS,
// STORE_RHS_IN_Q).
template <class Place, class F> __device__ inline ForwardValues<typename F::Real> begin_forward(
    const PlacePointers<F> &k, const Op &op, bool own, double &rho) {
    using Real = typename F::Real;
    const auto of = [](const typename F::Stored &v) -> Real { return Place::template read<F>(v); };
    const auto pivot = [](const Real &v) -> Real { return Place::pivot(v); };
    const int p = k.p, n = k.n;
    const Real *z1 = k.z, *z2 = z1 + R2 * p, *h1 = k.h, *h2 = h1 + R2 * p;
    const typename F::Stored *r1 = k.s, *r2 = r1 + 4 * p, *d = k.d;
    const Real in1 = z1[0], in2 = z2[0], b1 = z1[B1 * p], b2 = z1[B2 * p];
    const Real own1 = pivot(h1[0]) * in1, own2 = pivot(h2[0]) * in2;
    const Real y = b1 -
        ((of(r2[E * p - 1]) * (pivot(h2[-1]) * z2[-1]) + of(r2[W * p]) * own2) +
            (of(r1[N * p - n]) * (pivot(h1[-n]) * z1[-n]) + of(r1[S * p]) * own1));
    ForwardValues<Real> v = {pivot(h1[B1 * p]) * y, 0, {0, 0, 0, 0}};
    if (own || Place::TILES) {
        v.kept = b2 -
            ((of(r1[E * p]) * own1 + of(r1[W * p + 1]) * (pivot(h1[1]) * z1[1])) +
                (of(r2[N * p]) * own2 + of(r2[S * p + n]) * (pivot(h2[n]) * z2[n])));
        set(v.near, of(d[NE * p]), of(d[NW * p + 1]), of(d[SE * p + n]), of(d[SW * p + n + 1]));
    }
    if (own || !Place::TILES) k.y[0] = y;
    if (!own) return v;
    rho += (double(own1) * in1 + double(own2) * in2) + double(y) * v.scaled;
    if (op.flags & STORE_RHS) {
        const Real all[4] = {in1, in2, b1, b2};
        for (int colour = 0; colour < 4; ++colour) {
            k.r[colour * p] = all[colour];
            if (op.flags & STORE_RHS_IN_Q) k.q[colour * p] = all[colour];
        }
    }
    return v;
}

// Computes `kept` at b2. `w` points to y / d of b1 at this (I, J), in an array with rows of n values.
template <class Real> __device__ inline Real end_forward(const ForwardValues<Real> &v, const Real *w, int n) {
    return v.kept - ((v.near[0] * w[0] + v.near[1] * w[1]) + (v.near[2] * w[n] + v.near[3] * w[n + 1]));
}

// The (I, J) of a thread in a tile of a sweep, or in the additional row or column. Vectors are accessed at the index c,
// and couplings at the index m. `inside`: whether (I, J) is in the compute area. `own`: whether it is also in the tile
// itself.
struct InTile {
    int i, j, c, m;
    bool inside, own;
};

// Calls f(InTile) for each tile of this thread block in the team, until f returns false.
template <TileOrder ORDER, bool UNIFORM, class F>
__device__ inline void over_tiles(const Geometry &g, const Tiles &tiles, Team team, F f) {
    const int t = thread_of_block(), di = t % (TILE_X + 1), dj = t / (TILE_X + 1), n = g.stride;
    const int first = ORDER == BACKWARDS ? last_tile(tiles, team) : first_tile(tiles, team);
    const int step = ORDER == FORWARDS ? team.size() : -team.size();
    const int count = (ORDER == FORWARDS ? tiles.end - first + step - 1 : first - tiles.first - step) / team.size();
    const auto uniform = uniform_tiles<UNIFORM>(first, step, count, [&](int tile) { return g.uniform[tile]; });
    for (int tile = first, nth = 0; ORDER == FORWARDS ? tile < tiles.end : tile >= tiles.first; tile += step, ++nth) {
        const int row = quotient(tile, tiles.across), i = (tile - row * tiles.across) * TILE_X + di,
                  j = row * TILE_Y + dj;
        const bool inside = t < SWEEP_PLACES && i < g.cx && j < g.cy;
        const int c = (j + 1) * n + g.block + i;
        if (!f(InTile{i, j, c, uniform[nth] ? c - dj * n - di : c, inside, inside && di < TILE_X && dj < TILE_Y}))
            break;
    }
}

// Computes the forward half of both levels. Returns the partial sum of rho of this thread.
//
// If `over` is set, the loop has ended, and nothing is written. Without this flag, the remaining iterations of the loop
// body would execute the sweep. The flag is tested when the loads of the first tile are in flight, so the test takes no
// time.
template <bool UNIFORM = false, class F>
__device__ inline double descend(const Level<F> &k, const Tiles &tiles, const Op &op, Team team, bool over = false) {
    using Real = typename F::Real;
    __shared__ Real w[SWEEP_PLACES];
    const int p = int(k.g.plane), n = k.g.stride, t = thread_of_block();
    double rho = 0.0;
    over_tiles<FORWARDS, UNIFORM>(k.g, tiles, team, [&](const InTile &at) {
        const bool own = at.own && !over;
        ForwardValues<Real> v = {0, 0, {0, 0, 0, 0}};
        if (at.inside) v = begin_forward<Global>(pointers_at<F>(k, p, n, at.c, at.m), op, own, rho);
        if (t < SWEEP_PLACES) w[t] = v.scaled;
        __syncthreads();
        if (own) {
            Real kept = end_forward(v, w + t, TILE_X + 1);
            if (op.flags & TRUNCATED) {
                const Real right = kept;
                kept *= fixed(k.h[B2 * p + at.c]);
                rho += double(kept) * right;
            }
            k.kept.put(at.i, at.j, kept);
        }
        __syncthreads();
        return !over;
    });
    return rho;
}

// Values of the inner iteration for one colour; g is the right-hand side, which q contains. A thread reads all of them
// before it writes any.
template <class Real> struct InnerValues {
    Real direction, u, g;
};

template <class F>
__device__ inline InnerValues<typename F::Real> load_inner_values(const PlacePointers<F> &k, const Op &op, int colour) {
    InnerValues<typename F::Real> b = {0, 0, 0};
    if (!(op.flags & UPDATE_DIRECTION)) return b;
    if (op.flags & WITH_BETA) b.direction = k.direction[colour * k.p];
    if ((op.flags & (UPDATE_SOLUTION | FIRST_STEP)) == UPDATE_SOLUTION) b.u = k.u[colour * k.p];
    if (op.flags & RHO) b.g = k.q[colour * k.p];
    return b;
}

// Ends the backward half for one colour. On entry, v contains z. The flags of the step determine whether the direction
// d and the solution u of the inner iteration are also computed. Returns `true` if v is to be stored in z: the given z
// without UPDATE_DIRECTION, or u with Z_IS_U. Otherwise returns `false`, and v contains d.
template <class F> __device__ inline bool finish(const PlacePointers<F> &k, const Op &op, int colour,
    const InnerValues<typename F::Real> &b, typename F::Real &v, double &rho) {
    using Real = typename F::Real;
    if (!(op.flags & UPDATE_DIRECTION)) return true;
    v += Real(op.beta) * b.direction;
    if (!(op.flags & UPDATE_SOLUTION)) return false;
    const Real u = Real(op.alpha) * v + b.u;
    rho += double(b.g) * u;
    if (op.flags & Z_IS_U) v = u;
    else k.u[colour * k.p] = u;
    return op.flags & Z_IS_U;
}

// Values of the backward half before z_b1 of the neighbours is known: z_b1, r_red - A_red,b2 z_b2, pivots, and the
// couplings of r1 and r2 to b1.
template <class Real> struct BackwardValues {
    Real b1, rhs1, rhs2, pivot1, pivot2, couplings1[2], couplings2[2];
};

// Computes z_b1 and the right-hand sides of the red nodes. `known` contains z_b2 to the southwest, to the south, to the
// west, and here. `own`: whether the red values belong to this thread. In a cluster, a thread may have an (I, J) in the
// row after the rows of its thread block. Other threads may be writing the red values of that row, so this thread does
// not read them.
template <class Place, class F> __device__ inline BackwardValues<typename F::Real> begin_backward(
    const PlacePointers<F> &k, const typename F::Real (&known)[4], bool own) {
    using Real = typename F::Real;
    const auto of = [](const typename F::Stored &v) -> Real { return Place::template read<F>(v); };
    const int p = k.p;
    const typename F::Stored *r1 = k.s, *r2 = r1 + 4 * p, *d = k.d;
    const Real near =
        (of(d[SW * p]) * known[0] + of(d[SE * p]) * known[1]) + (of(d[NW * p]) * known[2] + of(d[NE * p]) * known[3]);
    BackwardValues<Real> v = {Place::pivot(k.h[B1 * p]) * (k.y[0] - near), 0, 0, Place::pivot(k.h[0]),
        Place::pivot(k.h[R2 * p]), {of(r1[S * p]), of(r1[N * p])}, {of(r2[W * p]), of(r2[E * p])}};
    if (own || Place::TILES) {
        v.rhs1 = k.z[0] - (of(r1[W * p]) * known[2] + of(r1[E * p]) * known[3]);
        v.rhs2 = k.z[R2 * p] - (of(r2[S * p]) * known[1] + of(r2[N * p]) * known[3]);
    }
    return v;
}

// Computes z of all colours. `w` points to z_b1 at this (I, J), in an array with rows of n values.
template <class Real>
__device__ inline void end_backward(const BackwardValues<Real> &v, const Real *w, int n, Real here, Real (&z)[4]) {
    z[R1] = v.pivot1 * (v.rhs1 - (v.couplings1[0] * w[0] + v.couplings1[1] * w[n]));
    z[R2] = v.pivot2 * (v.rhs2 - (v.couplings2[0] * w[0] + v.couplings2[1] * w[1]));
    z[B1] = v.b1;
    z[B2] = here;
}

// Computes the backward half of both levels. With RHO, returns the partial sum of <g, u> of this thread, where g is the
// right-hand side, which the forward half has stored in q; otherwise 0. `over` is as in `descend`.
template <bool UNIFORM = false, class F>
__device__ inline double ascend(const Level<F> &k, const Tiles &tiles, const Op &op, Team team, bool over = false) {
    using Real = typename F::Real;
    __shared__ Real w[SWEEP_PLACES];
    const int p = int(k.g.plane), n = k.g.stride, t = thread_of_block();
    double rho = 0.0;
    over_tiles<BACKWARDS, UNIFORM>(k.g, tiles, team, [&](const InTile &at) {
        // The pointers are recomputed after the barrier, because keeping them would spill registers.
        const auto spot = [&] { return pointers_at<F>(k, p, n, at.c, at.m); };
        const int i = at.i, j = at.j;
        Real known[4] = {0, 0, 0, 0};
        BackwardValues<Real> v = {0, 0, 0, 0, 0, {0, 0}, {0, 0}};
        InnerValues<Real> had[4] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
        if (at.own) {
            for (int colour = 0; colour < 4; ++colour) had[colour] = load_inner_values(spot(), op, colour);
        }
        if (at.inside) {
            set(known, k.kept.get(i - 1, j - 1), k.kept.get(i, j - 1), k.kept.get(i - 1, j), k.kept.get(i, j));
            v = begin_backward<Global>(spot(), known, at.own);
        }
        if (t < SWEEP_PLACES) w[t] = v.b1;
        __syncthreads();
        if (at.own && !over) {
            Real z[4];
            end_backward(v, w + t, TILE_X + 1, known[3], z);
            for (int colour = 0; colour < 4; ++colour) {
                const bool is_z = finish(spot(), op, colour, had[colour], z[colour], rho);
                if (is_z) k.z[colour * p + at.c] = z[colour];
                else k.direction[colour * p + at.c] = z[colour];
            }
        }
        __syncthreads();
        return !over;
    });
    return rho;
}

// Computes q = A_k d at the four colours of an (I, J), in difference form: q_i = s_i d_i + sum_j a_ij (d_j - d_i).
template <class F, class Place> __device__ inline void inner_rows(const typename F::Real *r1,
    const typename F::Stored *s1, const typename F::Stored *red, const typename F::Stored *black,
    const typename F::Stored *excess, int p, int n, typename F::Real q[4]) {
    using Real = typename F::Real;
    const auto of = [](const typename F::Stored &v) -> Real { return Place::template read<F>(v); };
    const Real *r2 = r1 + p, *b1 = r2 + p, *b2 = b1 + p;
    const typename F::Stored *s2 = s1 + 4 * p;
    // Values of d at r1, r2, b1 and b2 of this (I, J), and at those neighbours that have other (I, J).
    const Real o1 = r1[0], o2 = r2[0], p1 = b1[0], p2 = b2[0];
    const Real r1_e = r1[1], r1_s = r1[-n], r1_se = r1[1 - n], r2_w = r2[-1], r2_n = r2[n], r2_nw = r2[n - 1];
    const Real b1_e = b1[1], b1_n = b1[n], b1_ne = b1[n + 1], b2_w = b2[-1], b2_s = b2[-n], b2_sw = b2[-n - 1];
    const Real w1 = of(s1[W * p]), e1 = of(s1[E * p]), d1 = of(s1[S * p]), u1 = of(s1[N * p]);
    const Real w2 = of(s2[W * p]), e2 = of(s2[E * p]), d2 = of(s2[S * p]), u2 = of(s2[N * p]);
    const Real e2_w = of(s2[E * p - 1]), u1_s = of(s1[N * p - n]), w1_e = of(s1[W * p + 1]), d2_n = of(s2[S * p + n]);
    const Real c1[4] = {of(red[SW * p]), of(red[SE * p]), of(red[NW * p]), of(red[NE * p])};
    const Real c2[4] = {of(red[NE * p - n]), of(red[NW * p - n + 1]), c1[SE], of(red[SW * p + 1])};
    const Real f1[4] = {of(black[SW * p]), of(black[SE * p]), of(black[NW * p]), of(black[NE * p])};
    const Real f2[4] = {f1[NE], of(black[NW * p + 1]), of(black[SE * p + n]), of(black[SW * p + n + 1])};
    const Real s[4] = {of(excess[0]), of(excess[p]), of(excess[2 * p]), of(excess[3 * p])};
    q[R1] = s[0] * o1 +
        (((w1 * (b2_w - o1) + e1 * (p2 - o1)) + (d1 * (p1 - o1) + u1 * (b1_n - o1))) +
            ((c1[0] * (r2_w - o1) + c1[1] * (o2 - o1)) + (c1[2] * (r2_nw - o1) + c1[3] * (r2_n - o1))));
    q[R2] = s[1] * o2 +
        (((w2 * (p1 - o2) + e2 * (b1_e - o2)) + (d2 * (b2_s - o2) + u2 * (p2 - o2))) +
            ((c2[0] * (r1_s - o2) + c2[1] * (r1_se - o2)) + (c2[2] * (o1 - o2) + c2[3] * (r1_e - o2))));
    q[B1] = s[2] * p1 +
        (((e2_w * (r2_w - p1) + w2 * (o2 - p1)) + (u1_s * (r1_s - p1) + d1 * (o1 - p1))) +
            ((f1[0] * (b2_sw - p1) + f1[1] * (b2_s - p1)) + (f1[2] * (b2_w - p1) + f1[3] * (p2 - p1))));
    q[B2] = s[3] * p2 +
        (((e1 * (o1 - p2) + w1_e * (r1_e - p2)) + (u2 * (o2 - p2) + d2_n * (r2_n - p2))) +
            ((f2[0] * (p1 - p2) + f2[1] * (b1_e - p2)) + (f2[2] * (b1_n - p2) + f2[3] * (b1_ne - p2))));
}

// Executes a step of the inner iteration at one (I, J). MULTIPLY_INNER (with PRODUCT) computes A_k d, and stores it in
// q if the flag STORE_PRODUCT is set. DIRECTION_INNER computes d = z or d = z + beta d, and ADVANCE_INNER updates u
// with d. With the flag UPDATE_RESIDUAL, the step also computes r -= alpha A_k d and z = r. put(vector, v) stores the
// values v of all colours in a vector.
template <class Place, bool PRODUCT, class F, class Put>
__device__ inline void iterate_at(const PlacePointers<F> &k, const Op &op, Put put) {
    using Real = typename F::Real;
    const int p = k.p;
    const Real alpha = Real(op.alpha);
    Real q[4], r[4];
    if (!PRODUCT && op.kind == DIRECTION_INNER) {
        for (int colour = 0; colour < 4; ++colour) {
            r[colour] = k.z[colour * p];
            if (op.flags & WITH_BETA) r[colour] += Real(op.beta) * k.direction[colour * p];
        }
        put(k.direction, r);
        return;
    }
    if (PRODUCT) {
        inner_rows<F, Place>(k.direction, k.s, k.corners, k.black, k.excess, p, k.n, q);
        for (int colour = 0; colour < 4; ++colour) {
            if (op.flags & STORE_PRODUCT) k.q[colour * p] = q[colour];
        }
    } else {
        for (int colour = 0; colour < 4; ++colour) {
            Real &u = k.u[colour * p];
            q[colour] = op.flags & UPDATE_RESIDUAL ? k.q[colour * p] : Real(0);
            u = op.flags & FIRST_STEP ? alpha * k.direction[colour * p] : u + alpha * k.direction[colour * p];
        }
    }
    if (!(op.flags & UPDATE_RESIDUAL)) return;
    for (int colour = 0; colour < 4; ++colour) r[colour] = k.r[colour * p] - alpha * q[colour];
    for (int colour = 0; colour < 4; ++colour) k.r[colour * p] = r[colour];
    put(k.z, r);
}

template <bool PRODUCT, class F>
__device__ inline void iterate(const Level<F> &k, const Tiles &tiles, const Op &op, Team team) {
    const int p = int(k.g.plane), n = k.g.stride;
    over_places(k.g, tiles, team, [&](int i, int j) {
        const int c = (j + 1) * n + k.g.block + i;
        iterate_at<Global, PRODUCT>(pointers_at<F>(k, p, n, c, c), op, [&](auto *to, const auto *v) {
            for (int colour = 0; colour < 4; ++colour) to[colour * p] = v[colour];
        });
    });
}

template <class F> struct StepArgs {
    Level<F> k;
    const Op *op;
    double *partial;   // partial sums of rho
    ScalarArgs scalar; // arguments of the scalar update after the last partial sum of rho; `how` may be NOTHING
    int scalar_block;  // 1: thread block 0 processes no tiles. In the forward half, it checks ahead whether the loop
                       // ends; in the backward half it updates the scalars
};

// Executes a step part by part. step(tiles) executes it on tiles and returns a partial sum of rho, which is stored with
// the flag RHO. With UPDATE_SCALARS, the last thread block then updates the scalars. If `how` is NOTHING, neither is
// done.
template <class F, class Do> __device__ inline void over_parts_of_rho(const StepArgs<F> &a, const Op &op, Do step) {
    const bool sums = (op.flags & RHO) && a.scalar.how != NOTHING;
    over_parts(a.k.g, TILE_Y, [&](int part, const Tiles &tiles) {
        double rho = step(tiles);
        if (sums) store_part_sum(a.partial, part, rho);
    });
    if (sums && (op.flags & UPDATE_SCALARS) && last_block_over(a.k.g, &a.scalar.scalars->ticket))
        update_scalars(a.scalar);
}

template <bool UNIFORM, class F> __device__ inline void descend_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    if (a.scalar_block && blockIdx.x == 0 && a.scalar.how != NOTHING) check_ahead(a.scalar);
    const bool over = a.scalar.how == LOOP && a.scalar.scalars->done;
    over_parts_of_rho(a, op,
        [&](const Tiles &tiles) { return descend<UNIFORM>(a.k, tiles, op, {a.scalar_block, int(gridDim.x)}, over); });
}

template <bool UNIFORM, class F> __device__ inline void ascend_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    if (a.scalar_block && blockIdx.x == 0) {
        if (a.scalar.how != NOTHING) update_scalars(a.scalar);
        return;
    }
    const bool over = a.scalar.how == LOOP && (a.scalar.scalars->done || a.scalar.scalars->met);
    over_parts_of_rho(a, op,
        [&](const Tiles &tiles) { return ascend<UNIFORM>(a.k, tiles, op, {a.scalar_block, int(gridDim.x)}, over); });
}

template <class F> __device__ inline void inner_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    over_parts(a.k.g, TILE_Y, [&](int, const Tiles &tiles) {
        if (op.kind == MULTIPLY_INNER) iterate<true>(a.k, tiles, op, all_blocks());
        else iterate<false>(a.k, tiles, op, all_blocks());
    });
}

RRB_IN_FORMATS(rrb_descend, StepArgs, SWEEP_THREADS, 3, 4, descend_step<false>)
RRB_IN_FORMATS(rrb_descend_uniform, StepArgs, SWEEP_THREADS, 3, 4, descend_step<true>)
RRB_IN_FORMATS(rrb_ascend, StepArgs, SWEEP_THREADS, 3, 4, ascend_step<false>)
RRB_IN_FORMATS(rrb_ascend_uniform, StepArgs, SWEEP_THREADS, 3, 4, ascend_step<true>)
RRB_IN_FORMATS(rrb_inner, StepArgs, THREADS, RESIDENT, RESIDENT, inner_step)

template <class F> struct InnerProductArgs {
    Level<F> k;
    int a, b; // the two vectors, each as a number: 0 is r, 1 is z, 2 is the direction d, 3 is q
    double *partial;
    Scalars *scalars;
};

// Computes <a, b> on a recursion grid, and stores the result in `sum`.
template <class F> __device__ inline void inner_product(const InnerProductArgs<F> &a) {
    const typename F::Real *vectors[4] = {a.k.r, a.k.z, a.k.direction, a.k.q};
    const typename F::Real *v = vectors[a.a], *w = vectors[a.b];
    double sum = 0.0;
    over_area(
        a.k.g,
        [&](int i, int j) {
            const int64_t c = a.k.g.at(i, j);
            for (int colour = 0; colour < 4; ++colour)
                sum += double(v[colour * a.k.g.plane + c]) * w[colour * a.k.g.plane + c];
        },
        [&](int part) { store_part_sum(a.partial, part, sum); });
    sum_parts(a.k.g, a.partial, &a.scalars->ticket, [&](double all) { a.scalars->sum = all; });
}

RRB_IN_FORMATS(rrb_inner_product, InnerProductArgs, THREADS, RESIDENT, RESIDENT, inner_product)

// Sets d to the vector that contains all frequencies (src/rrb/recursion.rs, all_frequencies), and r to zero.
template <class F> __device__ inline void set_all_frequencies(const StepArgs<F> &a) {
    using Real = typename F::Real;
    const Level<F> &k = a.k;
    over_area(k.g, [&](int i, int j) {
        const int64_t c = k.g.at(i, j);
        for (int colour = 0; colour < 4; ++colour) {
            typename F::Stored straight[4], diagonal[4];
            straight_couplings(k.g, k.s, colour, c, straight);
            diagonal_couplings(k.g, colour < B1 ? k.corners : k.black, colour, c, diagonal);
            const int64_t at = colour * k.g.plane + c;
            const auto sum = [](const typename F::Stored t[4]) {
                return (double(F::widen(t[0])) + F::widen(t[1])) + (double(F::widen(t[2])) + F::widen(t[3]));
            };
            const double center = double(F::read(k.excess[at])) - (sum(straight) + sum(diagonal));
            const int x = grid_column(k.g, colour, i), y = grid_row(k.g, colour, j);
            const bool node = is_node(k.g, colour, i, j);
            uint32_t h = uint32_t(x) * 73856093u ^ uint32_t(y) * 19349663u;
            h = (h ^ (h >> 13) ^ 0x9e3779b9u) * 0x5bd1e995u;
            h = (h ^ (h >> 15)) * 0x27d4eb2du;
            const double v = double(h ^ (h >> 16)) / 2147483648.0 - 1.0;
            k.direction[at] = node ? Real(center > 0.0 ? v / sqrt(center) : v) : Real(0);
            k.r[at] = Real(0);
        }
    });
}

RRB_IN_FORMATS(rrb_set_all_frequencies, StepArgs, THREADS, RESIDENT, RESIDENT, set_all_frequencies)

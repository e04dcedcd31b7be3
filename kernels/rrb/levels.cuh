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
// d denotes the pivots, and D the diagonal matrix of the pivots. `kept` is the right-hand side of the next grid. The
// flag TRUNCATED is set if the couplings of the next grid are so weak that M ignores them. The forward half then ends
// with z_b2 = kept / d and rho += kept' D^-1 kept, where d is the center of b2.
//
// A thread block processes a tile of TILE_X x TILE_Y (I, J) with one thread per (I, J). It also computes the values at
// b1 in the row above and in the column to the right of the tile. Threads exchange these values through shared memory.
// There are no races, because the values of an (I, J) are written only by the thread of this (I, J). The forward half
// reads z and writes `y` and the next grid. In the backward half, a thread reads red z only at its own (I, J), before
// it writes this value.
//
// Per (I, J), the forward half reads and writes 21 values (16 couplings minus 4 shared with a neighbour, 3 pivots, 4
// inputs, 2 outputs), and the backward half 23 values. On small grids, latency determines the time; therefore all loads
// come first.
#include "storage.cuh"

// How a sweep accesses the values of an (I, J). GlobalAccess: the values are in device memory, and the threads of a
// tile read all of them before they write any. SharedAccess: the values are in the shared memory of a cluster, and a
// thread block also computes b1 in the row after its own rows (cluster.cuh). `read` loads a coupling, and `pivot` the
// inverse of a pivot; no step of the preconditioner changes either.
struct GlobalAccess {
    static constexpr bool IN_TILES = true;
    template <class F> static __device__ typename F::Real read(const typename F::Stored &v) { return F::read(v); }
    template <class Real> static __device__ Real pivot(const Real &v) { return ldg(v); }
};
struct SharedAccess {
    static constexpr bool IN_TILES = false;
    template <class F> static __device__ typename F::Real read(const typename F::Stored &v) { return F::widen(v); }
    template <class Real> static __device__ Real pivot(const Real &v) { return v; }
};

// Pointers to the vectors, couplings and pivots of one (I, J), in planes of p values and rows of n values.
template <class F> struct GroupPointers {
    using Real = typename F::Real;
    using Stored = typename F::Stored;
    int p, n;
    Real *z, *y, *r, *direction, *q, *u;
    const Real *h;
    const Stored *s, *d, *row_sums, *corners, *black;
};

// Returns the pointers for vectors at index c and couplings at index m. `k` is a Level or a Window.
template <class F, class K> __device__ inline GroupPointers<F> pointers_at(const K &k, int p, int n, int c, int m) {
    return {p, n, k.z + c, k.y + c, k.r + c, k.direction + c, k.q + c, k.u + c, k.h + m, k.s + m, k.d + m,
        k.row_sums + m, k.corners + m, k.black + m};
}

// Values that a thread computes in the forward half before y_b1 of the neighbours is known: y / d of b1, the couplings
// of b2 to b1, and `kept_rhs`, the right-hand side `kept` without its terms of b1.
template <class Real> struct ForwardValues {
    Real scaled_y, kept_rhs, b1_couplings[4];
};

// Computes y_b1, and `kept_rhs` without its terms of b1. `is_own`: whether (I, J) belongs to the tile of this thread
// block or, in a cluster, to the rows of this thread block. The thread adds to rho and copies the right-hand side
// (STORE_RHS, STORE_RHS_IN_Q) only if `is_own` is true.
template <class Access, class F> __device__ inline ForwardValues<typename F::Real> begin_forward(
    const GroupPointers<F> &k, const Op &op, bool is_own, double &rho) {
    using Real = typename F::Real;
    const auto widen = [](const typename F::Stored &v) -> Real { return Access::template read<F>(v); };
    const auto pivot = [](const Real &v) -> Real { return Access::pivot(v); };
    const int p = k.p, n = k.n;
    const Real *z1 = k.z, *z2 = z1 + R2 * p, *h1 = k.h, *h2 = h1 + R2 * p;
    const typename F::Stored *r1 = k.s, *r2 = r1 + 4 * p, *d = k.d;
    const Real in1 = z1[0], in2 = z2[0], b1 = z1[B1 * p], b2 = z1[B2 * p];
    const Real own1 = pivot(h1[0]) * in1, own2 = pivot(h2[0]) * in2;
    const Real y = b1 -
        ((widen(r2[E * p - 1]) * (pivot(h2[-1]) * z2[-1]) + widen(r2[W * p]) * own2) +
            (widen(r1[N * p - n]) * (pivot(h1[-n]) * z1[-n]) + widen(r1[S * p]) * own1));
    ForwardValues<Real> v = {pivot(h1[B1 * p]) * y, 0, {0, 0, 0, 0}};
    if (is_own || Access::IN_TILES) {
        v.kept_rhs = b2 -
            ((widen(r1[E * p]) * own1 + widen(r1[W * p + 1]) * (pivot(h1[1]) * z1[1])) +
                (widen(r2[N * p]) * own2 + widen(r2[S * p + n]) * (pivot(h2[n]) * z2[n])));
        set_four(
            v.b1_couplings, widen(d[NE * p]), widen(d[NW * p + 1]), widen(d[SE * p + n]), widen(d[SW * p + n + 1]));
    }
    if (is_own || !Access::IN_TILES) k.y[0] = y;
    if (!is_own) return v;
    rho += (double(own1) * in1 + double(own2) * in2) + double(y) * v.scaled_y;
    if (op.flags & STORE_RHS) {
        const Real rhs[4] = {in1, in2, b1, b2};
        for (int colour = 0; colour < 4; ++colour) {
            k.r[colour * p] = rhs[colour];
            if (op.flags & STORE_RHS_IN_Q) k.q[colour * p] = rhs[colour];
        }
    }
    return v;
}

// Computes the right-hand side `kept` at b2. `b1_values` points to y / d of b1 at this (I, J), in an array with rows of
// n values.
template <class Real> __device__ inline Real end_forward(const ForwardValues<Real> &v, const Real *b1_values, int n) {
    return v.kept_rhs -
        ((v.b1_couplings[0] * b1_values[0] + v.b1_couplings[1] * b1_values[1]) +
            (v.b1_couplings[2] * b1_values[n] + v.b1_couplings[3] * b1_values[n + 1]));
}

// The (I, J) of a thread in a tile of a sweep, or in the additional row or column. Vectors are accessed at the index c,
// and couplings at the index m. `is_inside`: whether (I, J) is in the compute area. `is_own`: whether it is also in the
// tile itself.
struct TileIndex {
    int i, j, c, m;
    bool is_inside, is_own;
};

// Calls f(TileIndex) for each tile of this thread block in the team, until f returns false.
template <TileOrder ORDER, bool UNIFORM, class F>
__device__ inline void for_each_tile(const Geometry &g, const Tiles &tiles, Team team, F f) {
    const int t = thread_of_block(), di = t % (TILE_X + 1), dj = t / (TILE_X + 1), n = g.stride;
    const int first = ORDER == BACKWARDS ? last_tile(tiles, team) : first_tile(tiles, team);
    const int step = ORDER == FORWARDS ? team.size() : -team.size();
    const int count = (ORDER == FORWARDS ? tiles.end - first + step - 1 : first - tiles.first - step) / team.size();
    const auto is_uniform_tile = uniform_tiles<UNIFORM>(first, step, count, [&](int tile) { return g.uniform[tile]; });
    for (int tile = first, nth_tile = 0; ORDER == FORWARDS ? tile < tiles.end : tile >= tiles.first;
        tile += step, ++nth_tile) {
        const int row = quotient(tile, tiles.tiles_per_row), i = (tile - row * tiles.tiles_per_row) * TILE_X + di,
                  j = row * TILE_Y + dj;
        const bool is_inside = t < SWEEP_GROUPS && i < g.cx && j < g.cy;
        const int c = (j + 1) * n + g.block + i;
        if (!f(TileIndex{i, j, c, is_uniform_tile[nth_tile] ? c - dj * n - di : c, is_inside,
                is_inside && di < TILE_X && dj < TILE_Y}))
            break;
    }
}

// Computes the forward half of both levels. Returns the partial sum of rho of this thread.
//
// If `loop_has_ended` is true, nothing is written. The body of a recorded loop contains several iterations, so sweeps
// may be launched after the loop has ended. The flag is tested while the loads of the first tile are in flight, so the
// test takes no time.
template <bool UNIFORM = false, class F> __device__ inline double descend(
    const Level<F> &k, const Tiles &tiles, const Op &op, Team team, bool loop_has_ended = false) {
    using Real = typename F::Real;
    __shared__ Real b1_values[SWEEP_GROUPS];
    const int p = int(k.g.plane), n = k.g.stride, t = thread_of_block();
    double rho = 0.0;
    for_each_tile<FORWARDS, UNIFORM>(k.g, tiles, team, [&](const TileIndex &index) {
        const bool is_own = index.is_own && !loop_has_ended;
        ForwardValues<Real> v = {0, 0, {0, 0, 0, 0}};
        if (index.is_inside)
            v = begin_forward<GlobalAccess>(pointers_at<F>(k, p, n, index.c, index.m), op, is_own, rho);
        if (t < SWEEP_GROUPS) b1_values[t] = v.scaled_y;
        __syncthreads();
        if (is_own) {
            Real kept_rhs = end_forward(v, b1_values + t, TILE_X + 1);
            if (op.flags & TRUNCATED) {
                const Real unscaled_rhs = kept_rhs;
                kept_rhs *= ldg(k.h[B2 * p + index.c]);
                rho += double(kept_rhs) * unscaled_rhs;
            }
            k.kept_nodes.put(index.i, index.j, kept_rhs);
        }
        __syncthreads();
        return !loop_has_ended;
    });
    return rho;
}

// Values of the inner iteration at one node: direction d, solution u, and right-hand side g, which the forward half has
// stored in q. A thread reads these values for all colours before it writes any of them.
template <class Real> struct InnerValues {
    Real direction, u, g;
};

template <class F>
__device__ inline InnerValues<typename F::Real> load_inner_values(const GroupPointers<F> &k, const Op &op, int colour) {
    InnerValues<typename F::Real> inner = {0, 0, 0};
    if (!(op.flags & UPDATE_DIRECTION)) return inner;
    if (op.flags & WITH_BETA) inner.direction = k.direction[colour * k.p];
    if ((op.flags & (UPDATE_SOLUTION | FIRST_STEP)) == UPDATE_SOLUTION) inner.u = k.u[colour * k.p];
    if (op.flags & RHO) inner.g = k.q[colour * k.p];
    return inner;
}

// Ends the backward half for one colour. On entry, v contains z.
// - With the flag UPDATE_DIRECTION, computes d = z + beta d. On return, v contains d instead of z.
// - With UPDATE_SOLUTION in addition, also computes u = u + alpha d, and adds g u to rho.
// - With Z_IS_U in addition, v contains u on return. Otherwise, u is stored in its own vector.
//
// Returns true if the caller must store v in z, and false if the caller must store v in `direction`.
template <class F> __device__ inline bool finish_backward(const GroupPointers<F> &k, const Op &op, int colour,
    const InnerValues<typename F::Real> &inner, typename F::Real &v, double &rho) {
    using Real = typename F::Real;
    if (!(op.flags & UPDATE_DIRECTION)) return true;
    v += Real(op.beta) * inner.direction;
    if (!(op.flags & UPDATE_SOLUTION)) return false;
    const Real u = Real(op.alpha) * v + inner.u;
    rho += double(inner.g) * u;
    if (op.flags & Z_IS_U) v = u;
    else k.u[colour * k.p] = u;
    return op.flags & Z_IS_U;
}

// Values that a thread computes in the backward half before z_b1 of the neighbours is known: the couplings of r1 and r2
// to b1, pivots, z_b1, and r_red - A_red,b2 z_b2.
template <class Real> struct BackwardValues {
    Real z_b1, rhs1, rhs2, pivot1, pivot2, couplings1[2], couplings2[2];
};

// Computes z_b1 and the right-hand sides of the red nodes. `z_b2` contains z of the b2 nodes at (I-1, J-1), (I, J-1),
// (I-1, J) and (I, J). `is_own`: whether this thread computes the red values of (I, J). In a cluster, a thread may have
// an (I, J) in the row after the rows of its thread block. Other threads may be writing the red values of that row, so
// a thread reads red values only if `is_own` is true.
template <class Access, class F> __device__ inline BackwardValues<typename F::Real> begin_backward(
    const GroupPointers<F> &k, const typename F::Real (&z_b2)[4], bool is_own) {
    using Real = typename F::Real;
    const auto widen = [](const typename F::Stored &v) -> Real { return Access::template read<F>(v); };
    const int p = k.p;
    const typename F::Stored *r1 = k.s, *r2 = r1 + 4 * p, *d = k.d;
    const Real b2_terms = (widen(d[SW * p]) * z_b2[0] + widen(d[SE * p]) * z_b2[1]) +
        (widen(d[NW * p]) * z_b2[2] + widen(d[NE * p]) * z_b2[3]);
    BackwardValues<Real> v = {Access::pivot(k.h[B1 * p]) * (k.y[0] - b2_terms), 0, 0, Access::pivot(k.h[0]),
        Access::pivot(k.h[R2 * p]), {widen(r1[S * p]), widen(r1[N * p])}, {widen(r2[W * p]), widen(r2[E * p])}};
    if (is_own || Access::IN_TILES) {
        v.rhs1 = k.z[0] - (widen(r1[W * p]) * z_b2[2] + widen(r1[E * p]) * z_b2[3]);
        v.rhs2 = k.z[R2 * p] - (widen(r2[S * p]) * z_b2[1] + widen(r2[N * p]) * z_b2[3]);
    }
    return v;
}

// Computes z of all colours. `b1_values` points to z_b1 at this (I, J), in an array with rows of n values.
template <class Real> __device__ inline void end_backward(
    const BackwardValues<Real> &v, const Real *b1_values, int n, Real own_z_b2, Real (&z)[4]) {
    z[R1] = v.pivot1 * (v.rhs1 - (v.couplings1[0] * b1_values[0] + v.couplings1[1] * b1_values[n]));
    z[R2] = v.pivot2 * (v.rhs2 - (v.couplings2[0] * b1_values[0] + v.couplings2[1] * b1_values[1]));
    z[B1] = v.z_b1;
    z[B2] = own_z_b2;
}

// Computes the backward half of both levels. With RHO, returns the partial sum of <g, u> of this thread, where g is the
// right-hand side, which the forward half has stored in q; otherwise 0. `loop_has_ended` is as in `descend`.
template <bool UNIFORM = false, class F> __device__ inline double ascend(
    const Level<F> &k, const Tiles &tiles, const Op &op, Team team, bool loop_has_ended = false) {
    using Real = typename F::Real;
    __shared__ Real b1_values[SWEEP_GROUPS];
    const int p = int(k.g.plane), n = k.g.stride, t = thread_of_block();
    double rho = 0.0;
    for_each_tile<BACKWARDS, UNIFORM>(k.g, tiles, team, [&](const TileIndex &index) {
        // The pointers are recomputed after the barrier, because keeping them would spill registers.
        const auto pointers = [&] { return pointers_at<F>(k, p, n, index.c, index.m); };
        const int i = index.i, j = index.j;
        Real z_b2[4] = {0, 0, 0, 0};
        BackwardValues<Real> v = {0, 0, 0, 0, 0, {0, 0}, {0, 0}};
        InnerValues<Real> inner_values[4] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
        if (index.is_own) {
            for (int colour = 0; colour < 4; ++colour) inner_values[colour] = load_inner_values(pointers(), op, colour);
        }
        if (index.is_inside) {
            set_four(z_b2, k.kept_nodes.get(i - 1, j - 1), k.kept_nodes.get(i, j - 1), k.kept_nodes.get(i - 1, j),
                k.kept_nodes.get(i, j));
            v = begin_backward<GlobalAccess>(pointers(), z_b2, index.is_own);
        }
        if (t < SWEEP_GROUPS) b1_values[t] = v.z_b1;
        __syncthreads();
        if (index.is_own && !loop_has_ended) {
            Real z[4];
            end_backward(v, b1_values + t, TILE_X + 1, z_b2[3], z);
            for (int colour = 0; colour < 4; ++colour) {
                const bool is_z = finish_backward(pointers(), op, colour, inner_values[colour], z[colour], rho);
                if (is_z) k.z[colour * p + index.c] = z[colour];
                else k.direction[colour * p + index.c] = z[colour];
            }
        }
        __syncthreads();
        return !loop_has_ended;
    });
    return rho;
}

// Computes q = A_k d at the four colours of an (I, J), where A_k is the matrix of the recursion grid. `r1` points to d.
// The product is computed in difference form: q_i = s_i d_i + sum_j a_ij (d_j - d_i).
template <class F, class Access> __device__ inline void multiply_inner_rows(const typename F::Real *r1,
    const typename F::Stored *s1, const typename F::Stored *red, const typename F::Stored *black,
    const typename F::Stored *row_sums, int p, int n, typename F::Real q[4]) {
    using Real = typename F::Real;
    const auto widen = [](const typename F::Stored &v) -> Real { return Access::template read<F>(v); };
    const Real *r2 = r1 + p, *b1 = r2 + p, *b2 = b1 + p;
    const typename F::Stored *s2 = s1 + 4 * p;
    // Values of d at r1, r2, b1 and b2 of this (I, J), and at those neighbours that have other (I, J).
    const Real o1 = r1[0], o2 = r2[0], p1 = b1[0], p2 = b2[0];
    const Real r1_e = r1[1], r1_s = r1[-n], r1_se = r1[1 - n], r2_w = r2[-1], r2_n = r2[n], r2_nw = r2[n - 1];
    const Real b1_e = b1[1], b1_n = b1[n], b1_ne = b1[n + 1], b2_w = b2[-1], b2_s = b2[-n], b2_sw = b2[-n - 1];
    const Real w1 = widen(s1[W * p]), e1 = widen(s1[E * p]), d1 = widen(s1[S * p]), u1 = widen(s1[N * p]);
    const Real w2 = widen(s2[W * p]), e2 = widen(s2[E * p]), d2 = widen(s2[S * p]), u2 = widen(s2[N * p]);
    const Real e2_w = widen(s2[E * p - 1]), u1_s = widen(s1[N * p - n]), w1_e = widen(s1[W * p + 1]),
               d2_n = widen(s2[S * p + n]);
    const Real c1[4] = {widen(red[SW * p]), widen(red[SE * p]), widen(red[NW * p]), widen(red[NE * p])};
    const Real c2[4] = {widen(red[NE * p - n]), widen(red[NW * p - n + 1]), c1[SE], widen(red[SW * p + 1])};
    const Real f1[4] = {widen(black[SW * p]), widen(black[SE * p]), widen(black[NW * p]), widen(black[NE * p])};
    const Real f2[4] = {f1[NE], widen(black[NW * p + 1]), widen(black[SE * p + n]), widen(black[SW * p + n + 1])};
    const Real s[4] = {widen(row_sums[0]), widen(row_sums[p]), widen(row_sums[2 * p]), widen(row_sums[3 * p])};
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

// Executes a step of the inner iteration at one (I, J):
// - MULTIPLY_INNER (PRODUCT is true) computes A_k d. With the flag STORE_PRODUCT, it stores A_k d in q.
// - DIRECTION_INNER computes d = z or, with the flag WITH_BETA, d = z + beta d.
// - ADVANCE_INNER computes u += alpha d or, with the flag FIRST_STEP, u = alpha d.
//
// With the flag UPDATE_RESIDUAL, MULTIPLY_INNER and ADVANCE_INNER also compute r -= alpha A_k d and z = r.
// ADVANCE_INNER reads A_k d from q. put(vector, v) stores the values v of all colours in a vector.
template <class Access, bool PRODUCT, class F, class Put>
__device__ inline void iterate_inner_at(const GroupPointers<F> &k, const Op &op, Put put) {
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
        multiply_inner_rows<F, Access>(k.direction, k.s, k.corners, k.black, k.row_sums, p, k.n, q);
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
__device__ inline void iterate_inner(const Level<F> &k, const Tiles &tiles, const Op &op, Team team) {
    const int p = int(k.g.plane), n = k.g.stride;
    for_each_group(k.g, tiles, team, [&](int i, int j) {
        const int c = (j + 1) * n + k.g.block + i;
        iterate_inner_at<GlobalAccess, PRODUCT>(pointers_at<F>(k, p, n, c, c), op, [&](auto *vector, const auto *v) {
            for (int colour = 0; colour < 4; ++colour) vector[colour * p] = v[colour];
        });
    });
}

template <class F> struct StepArgs {
    Level<F> k;
    const Op *op;
    double *partial;   // partial sums of rho
    ScalarArgs scalar; // arguments of the scalar update after the last partial sum of rho; `stage` may be NOTHING
    int scalar_block;  // 1: thread block 0 processes no tiles. In the forward half, it tests in advance whether the
                       // loop will converge; in the backward half, it updates the scalars
};

// Executes a step on all parts of the grid. step(tiles) processes the tiles of a part, and returns this thread's
// partial sum of rho. With the flag RHO, stores the partial sums of the thread blocks. With UPDATE_SCALARS, the last
// thread block then updates the scalars. If `stage` is NOTHING, no sum is stored and no scalar is updated.
template <class F, class StepFunction>
__device__ inline void for_each_part_of_rho(const StepArgs<F> &a, const Op &op, StepFunction step) {
    const bool stores_sums = (op.flags & RHO) && a.scalar.stage != NOTHING;
    for_each_part(a.k.g, TILE_Y, [&](int part, const Tiles &tiles) {
        double rho = step(tiles);
        if (stores_sums) store_part_sum(a.partial, part, rho);
    });
    if (stores_sums && (op.flags & UPDATE_SCALARS) && is_last_block_of_all_devices(a.k.g, &a.scalar.scalars->ticket))
        update_scalars(a.scalar);
}

template <bool UNIFORM, class F> __device__ inline void descend_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    if (a.scalar_block && blockIdx.x == 0 && a.scalar.stage != NOTHING) check_convergence_ahead(a.scalar);
    const bool loop_has_ended = a.scalar.stage == LOOP && a.scalar.scalars->loop_ended;
    for_each_part_of_rho(a, op, [&](const Tiles &tiles) {
        return descend<UNIFORM>(a.k, tiles, op, {a.scalar_block, int(gridDim.x)}, loop_has_ended);
    });
}

template <bool UNIFORM, class F> __device__ inline void ascend_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    if (a.scalar_block && blockIdx.x == 0) {
        if (a.scalar.stage != NOTHING) update_scalars(a.scalar);
        return;
    }
    const bool loop_has_ended =
        a.scalar.stage == LOOP && (a.scalar.scalars->loop_ended || a.scalar.scalars->will_converge);
    for_each_part_of_rho(a, op, [&](const Tiles &tiles) {
        return ascend<UNIFORM>(a.k, tiles, op, {a.scalar_block, int(gridDim.x)}, loop_has_ended);
    });
}

template <class F> __device__ inline void inner_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    for_each_part(a.k.g, TILE_Y, [&](int, const Tiles &tiles) {
        if (op.kind == MULTIPLY_INNER) iterate_inner<true>(a.k, tiles, op, all_blocks());
        else iterate_inner<false>(a.k, tiles, op, all_blocks());
    });
}

RRB_IN_FORMATS(rrb_descend, StepArgs, SWEEP_THREADS, 3, 4, descend_step<false>)
RRB_IN_FORMATS(rrb_descend_uniform, StepArgs, SWEEP_THREADS, 3, 4, descend_step<true>)
RRB_IN_FORMATS(rrb_ascend, StepArgs, SWEEP_THREADS, 3, 4, ascend_step<false>)
RRB_IN_FORMATS(rrb_ascend_uniform, StepArgs, SWEEP_THREADS, 3, 4, ascend_step<true>)
RRB_IN_FORMATS(rrb_inner_step, StepArgs, THREADS, RESIDENT_BLOCKS, RESIDENT_BLOCKS, inner_step)

template <class F> struct InnerProductArgs {
    Level<F> k;
    int a, b; // the two vectors, each as a number: 0 is r, 1 is z, 2 is the direction d, 3 is q
    double *partial;
    Scalars *scalars;
};

// Computes <a, b> on a recursion grid, and stores the result in Scalars::sum.
template <class F> __device__ inline void inner_product(const InnerProductArgs<F> &a) {
    const typename F::Real *vectors[4] = {a.k.r, a.k.z, a.k.direction, a.k.q};
    const typename F::Real *v = vectors[a.a], *w = vectors[a.b];
    double sum = 0.0;
    for_each_group_of_area(
        a.k.g,
        [&](int i, int j) {
            const int64_t c = a.k.g.at(i, j);
            for (int colour = 0; colour < 4; ++colour)
                sum += double(v[colour * a.k.g.plane + c]) * w[colour * a.k.g.plane + c];
        },
        [&](int part) { store_part_sum(a.partial, part, sum); });
    sum_parts(a.k.g, a.partial, &a.scalars->ticket, [&](double total) { a.scalars->sum = total; });
}

RRB_IN_FORMATS(rrb_inner_product, InnerProductArgs, THREADS, RESIDENT_BLOCKS, RESIDENT_BLOCKS, inner_product)

// Sets d to the vector that contains all frequencies (src/rrb/recursion.rs, all_frequencies), and r to zero.
template <class F> __device__ inline void set_all_frequencies(const StepArgs<F> &a) {
    using Real = typename F::Real;
    const Level<F> &k = a.k;
    for_each_group_of_area(k.g, [&](int i, int j) {
        const int64_t c = k.g.at(i, j);
        for (int colour = 0; colour < 4; ++colour) {
            typename F::Stored axis_couplings[4], diagonal[4];
            load_axis_couplings(k.g, k.s, colour, c, axis_couplings);
            load_diagonal_couplings(k.g, colour < B1 ? k.corners : k.black, colour, c, diagonal);
            const int64_t at = colour * k.g.plane + c;
            const auto sum = [](const typename F::Stored t[4]) {
                return (double(F::widen(t[0])) + F::widen(t[1])) + (double(F::widen(t[2])) + F::widen(t[3]));
            };
            const double center = double(F::read(k.row_sums[at])) - (sum(axis_couplings) + sum(diagonal));
            const int x = grid_column(k.g, colour, i), y = grid_row(k.g, colour, j);
            const bool has_node = is_node(k.g, colour, i, j);
            uint32_t hash = uint32_t(x) * 73856093u ^ uint32_t(y) * 19349663u;
            hash = (hash ^ (hash >> 13) ^ 0x9e3779b9u) * 0x5bd1e995u;
            hash = (hash ^ (hash >> 15)) * 0x27d4eb2du;
            const double v = double(hash ^ (hash >> 16)) / 2147483648.0 - 1.0;
            k.direction[at] = has_node ? Real(center > 0.0 ? v / sqrt(center) : v) : Real(0);
            k.r[at] = Real(0);
        }
    });
}

RRB_IN_FORMATS(rrb_set_all_frequencies, StepArgs, THREADS, RESIDENT_BLOCKS, RESIDENT_BLOCKS, set_all_frequencies)

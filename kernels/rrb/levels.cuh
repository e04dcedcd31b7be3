// One grid of the preconditioner, both levels in one step, down and up (report, section 2.6; docs/method.md), and the
// iteration on a recursion grid (src/backend/steps/cycle.rs).
//
//     down   y_b1 = r_b1 - A_b1,red D^-1 r_red                          up   z_b1 = (y_b1 - A_b1,b2 z_b2) / d
//            kept = r_b2 - A_b2,red D^-1 r_red - A_b2,b1 D^-1 y_b1           z_red = (r_red - A_red,black z_black) / d
//            rho += r_red' D^-1 r_red + y_b1' D^-1 y_b1
//
// Where couplings of what is left are weak (ALONE), z_b2 = kept / d and rho += kept' D^-1 kept end the way down.
//
// A block has a tile of TILE_X x TILE_Y and a row and column of b1 values beyond, one thread each: b1 goes through
// shared memory. Races: a value is written by the thread of its (I, J) alone; the way down reads z and writes `y` and
// the next grid, the way up reads red z of its own (I, J) alone before it writes it. Values per (I, J): down 21 (16
// couplings less 4 with an edge in common, 3 pivots, 4 in, 2 out), up 23. On small grids, latency is all: loads stand
// before everything else.
#include "../common/barrier.cuh"
#include "program.cuh"
#include "scalars.cuh"
#include "storage.cuh"

// Both levels down; returns this thread's part of rho. `over`: nobody needs it, and nothing is written, or it would be
// swept again each time that a loop which is over goes round. That is known once the first tile's values are on their
// way, not before, so that it costs no time.
template <bool UNIFORM = false, class F>
__device__ inline double descend(const Level<F> &k, const Op &op, Team team, bool over = false) {
    using Real = typename F::Real;
    __shared__ Real w[HALO];
    const Geometry &g = k.g;
    const int p = int(g.plane), n = g.stride;
    const int t = thread_of_block(), di = t % (TILE_X + 1), dj = t / (TILE_X + 1);
    double rho = 0.0;
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    const int first = team.is_mine() ? team.place() : across * down,
              count = (across * down - first + team.size() - 1) / team.size();
    const auto uniform = uniform_tiles<UNIFORM>(first, team.size(), count, [&](int tile) { return g.uniform[tile]; });
    for (int tile = first, nth = 0; tile < across * down; tile += team.size(), ++nth) {
        const int row = quotient(tile, across), i = (tile - row * across) * TILE_X + di, j = row * TILE_Y + dj;
        const bool inside = t < HALO && i < g.cx && j < g.cy, own = inside && di < TILE_X && dj < TILE_Y && !over;
        const int c = (j + 1) * n + g.block + i;
        Real kept = 0, scaled = 0, near[4] = {0, 0, 0, 0};
        if (inside) {
            const int m = uniform[nth] ? c - dj * n - di : c;
            const Real *z1 = k.z + c, *z2 = k.z + (R2 * p + c), *h1 = k.h + m, *h2 = k.h + (R2 * p + m);
            const typename F::Stored *r1 = k.s + m, *r2 = k.s + (4 * p + m), *d = k.d + m;
            const Real in1 = z1[0], in1_east = z1[1], in1_south = z1[-n], in2 = z2[0], in2_west = z2[-1],
                       in2_north = z2[n];
            const Real pivot1 = fixed(h1[0]), pivot1_east = fixed(h1[1]), pivot1_south = fixed(h1[-n]);
            const Real pivot2 = fixed(h2[0]), pivot2_west = fixed(h2[-1]), pivot2_north = fixed(h2[n]);
            const Real b1 = z1[B1 * p], b2 = z1[B2 * p], pivot = fixed(h1[B1 * p]);
            const Real from_west = F::read(r2[E * p - 1]), from_east = F::read(r2[W * p]);
            const Real from_south = F::read(r1[N * p - n]), from_north = F::read(r1[S * p]);
            const Real to_west = F::read(r1[E * p]), to_east = F::read(r1[W * p + 1]);
            const Real to_south = F::read(r2[N * p]), to_north = F::read(r2[S * p + n]);
            near[0] = F::read(d[NE * p]);
            near[1] = F::read(d[NW * p + 1]);
            near[2] = F::read(d[SE * p + n]);
            near[3] = F::read(d[SW * p + n + 1]);
            const Real own1 = pivot1 * in1, own2 = pivot2 * in2;
            const Real y = b1 -
                ((from_west * (pivot2_west * in2_west) + from_east * own2) +
                    (from_south * (pivot1_south * in1_south) + from_north * own1));
            scaled = pivot * y;
            if (own) {
                kept = b2 -
                    ((to_west * own1 + to_east * (pivot1_east * in1_east)) +
                        (to_south * own2 + to_north * (pivot2_north * in2_north)));
                rho += (double(own1) * in1 + double(own2) * in2) + double(y) * scaled;
                k.y[c] = y;
                if (op.flags & KEEP) {
                    const Real all[4] = {in1, in2, b1, b2};
                    for (int colour = 0; colour < 4; ++colour) {
                        k.r[colour * p + c] = all[colour];
                        if (op.flags & KEEP_TOO) k.q[colour * p + c] = all[colour];
                    }
                }
            }
        }
        if (t < HALO) w[t] = scaled;
        __syncthreads();
        if (own) {
            const Real *v = w + t;
            kept -= (near[0] * v[0] + near[1] * v[1]) + (near[2] * v[TILE_X + 1] + near[3] * v[TILE_X + 2]);
            if (op.flags & ALONE) {
                const Real right = kept;
                kept *= fixed(k.h[B2 * p + c]);
                rho += double(kept) * right;
            }
            k.kept.put(i, j, kept);
        }
        __syncthreads();
        if (over) break;
    }
    return rho;
}

// What the iteration on a recursion grid has at one place, as far as a step reads it: all of it is read before any is
// written.
template <class Real> struct Before {
    Real direction, u, g;
};

template <class F> __device__ inline Before<typename F::Real> before(const Level<F> &k, const Op &op, int at) {
    Before<typename F::Real> b = {0, 0, 0};
    if (op.flags & WITH_BETA) b.direction = k.direction[at];
    if ((op.flags & (ADVANCED | FIRST_STEP)) == ADVANCED) b.u = k.u[at];
    if (op.flags & RHO) b.g = k.q[at];
    return b;
}

// What becomes of z at one place on the way up.
template <class F> __device__ inline void finish(
    const Level<F> &k, const Op &op, int at, typename F::Real v, const Before<typename F::Real> &b, double &rho) {
    using Real = typename F::Real;
    if (!(op.flags & DIRECTED)) {
        k.z[at] = v;
        return;
    }
    v += Real(op.beta) * b.direction;
    if (op.flags & ADVANCED) {
        const Real u = Real(op.alpha) * v + b.u;
        rho += double(b.g) * u;
        if (op.flags & TAKE) {
            k.z[at] = u;
            return;
        }
        k.u[at] = u;
    }
    k.direction[at] = v;
}

// Both levels up; returns this thread's part of <g, u>, g the right-hand side that the way down has kept in q.
template <bool UNIFORM = false, class F>
__device__ inline double ascend(const Level<F> &k, const Op &op, Team team, bool over = false) {
    using Real = typename F::Real;
    __shared__ Real w[HALO];
    const Geometry &g = k.g;
    const int p = int(g.plane), n = g.stride;
    const int t = thread_of_block(), di = t % (TILE_X + 1), dj = t / (TILE_X + 1);
    double rho = 0.0;
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    const int last = last_tile(across * down, team), count = (last + team.size()) / team.size();
    const auto uniform = uniform_tiles<UNIFORM>(last, -team.size(), count, [&](int tile) { return g.uniform[tile]; });
    for (int tile = last, nth = 0; tile >= 0; tile -= team.size(), ++nth) {
        const int row = quotient(tile, across), i = (tile - row * across) * TILE_X + di, j = row * TILE_Y + dj;
        const bool inside = t < HALO && i < g.cx && j < g.cy, own = inside && di < TILE_X && dj < TILE_Y;
        const int c = (j + 1) * n + g.block + i;
        Real left1 = 0, left2 = 0, pivot1 = 0, pivot2 = 0, to1[2] = {0, 0}, to2[2] = {0, 0}, here = 0, b1 = 0;
        Before<Real> had[4] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
        if (own && (op.flags & DIRECTED)) {
            for (int colour = 0; colour < 4; ++colour) had[colour] = before(k, op, colour * p + c);
        }
        if (inside) {
            const int m = uniform[nth] ? c - dj * n - di : c;
            const Real *z = k.z + c, *h = k.h + m;
            const typename F::Stored *r1 = k.s + m, *r2 = k.s + (4 * p + m), *d = k.d + m;
            const Real southwest = k.kept.get(i - 1, j - 1), south = k.kept.get(i, j - 1), west = k.kept.get(i - 1, j);
            here = k.kept.get(i, j);
            const Real y = k.y[c], pivot = fixed(h[B1 * p]), red1 = z[0], red2 = z[R2 * p];
            const Real near[4] = {F::read(d[SW * p]), F::read(d[SE * p]), F::read(d[NW * p]), F::read(d[NE * p])};
            const Real a1[2] = {F::read(r1[W * p]), F::read(r1[E * p])},
                       a2[2] = {F::read(r2[S * p]), F::read(r2[N * p])};
            pivot1 = fixed(h[0]);
            pivot2 = fixed(h[R2 * p]);
            to1[0] = F::read(r1[S * p]);
            to1[1] = F::read(r1[N * p]);
            to2[0] = F::read(r2[W * p]);
            to2[1] = F::read(r2[E * p]);
            b1 = pivot * (y - ((near[0] * southwest + near[1] * south) + (near[2] * west + near[3] * here)));
            left1 = red1 - (a1[0] * west + a1[1] * here);
            left2 = red2 - (a2[0] * south + a2[1] * here);
        }
        if (t < HALO) w[t] = b1;
        __syncthreads();
        if (own && !over) {
            const Real *v = w + t;
            finish(k, op, B1 * p + c, b1, had[B1], rho);
            finish(k, op, B2 * p + c, here, had[B2], rho);
            finish(k, op, c, pivot1 * (left1 - (to1[0] * v[0] + to1[1] * v[TILE_X + 1])), had[R1], rho);
            finish(k, op, R2 * p + c, pivot2 * (left2 - (to2[0] * v[0] + to2[1] * v[1])), had[R2], rho);
        }
        __syncthreads();
        if (over) break;
    }
    return rho;
}

// Values that no step changes: in device memory, or in that of the block.
struct Global {
    template <class F> static __device__ typename F::Real read(const typename F::Stored &v) { return F::read(v); }
};
struct Shared {
    template <class F> static __device__ typename F::Real read(const typename F::Stored &v) { return F::widen(v); }
};

// Rows of A_k d in difference form, s d + sum of a (v - d), at a place of planes of p values in rows of n: q of the
// colours.
template <class F, class Place> __device__ inline void inner_rows(const typename F::Real *r1,
    const typename F::Stored *s1, const typename F::Stored *red, const typename F::Stored *black,
    const typename F::Stored *excess, int p, int n, typename F::Real q[4]) {
    using Real = typename F::Real;
    const auto of = [](const typename F::Stored &v) -> Real { return Place::template read<F>(v); };
    const Real *r2 = r1 + p, *b1 = r2 + p, *b2 = b1 + p;
    const typename F::Stored *s2 = s1 + 4 * p;
    // Of d: r1 r2 b1 b2 here, then what lies west, east, south, north and at the corners of them.
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

// q = A_k d.
template <class F> __device__ inline void multiply_inner(const Level<F> &k, const Op &op, Team team) {
    using Real = typename F::Real;
    const int p = int(k.g.plane), n = k.g.stride;
    const Real alpha = Real(op.alpha);
    over_area(
        k.g,
        [&](int i, int j) {
            const int c = (j + 1) * n + k.g.block + i;
            Real q[4];
            inner_rows<F, Global>(k.direction + c, k.s + c, k.corners + c, k.black + c, k.excess + c, p, n, q);
            if (op.flags & STORE) {
                for (int colour = 0; colour < 4; ++colour) k.q[colour * p + c] = q[colour];
            }
            if (op.flags & GO_ON) {
                Real r[4];
                for (int colour = 0; colour < 4; ++colour) r[colour] = k.r[colour * p + c];
                for (int colour = 0; colour < 4; ++colour) {
                    r[colour] -= alpha * q[colour];
                    k.r[colour * p + c] = r[colour];
                    k.z[colour * p + c] = r[colour];
                }
            }
        },
        team);
}

// d = z or z + beta d, as a step of its own.
template <class F> __device__ inline void direct_inner(const Level<F> &k, const Op &op, Team team) {
    using Real = typename F::Real;
    over_area(
        k.g,
        [&](int i, int j) {
            for (int colour = 0; colour < 4; ++colour) {
                const int64_t at = colour * k.g.plane + k.g.at(i, j);
                k.direction[at] = op.flags & WITH_BETA ? k.z[at] + Real(op.beta) * k.direction[at] : k.z[at];
            }
        },
        team);
}

// u, r and z from d and q, as a step of its own.
template <class F> __device__ inline void advance_inner(const Level<F> &k, const Op &op, Team team) {
    using Real = typename F::Real;
    const Real alpha = Real(op.alpha);
    over_area(
        k.g,
        [&](int i, int j) {
            for (int colour = 0; colour < 4; ++colour) {
                const int64_t at = colour * k.g.plane + k.g.at(i, j);
                k.u[at] = op.flags & FIRST_STEP ? alpha * k.direction[at] : k.u[at] + alpha * k.direction[at];
                if (op.flags & GO_ON) {
                    const Real r = k.r[at] - alpha * k.q[at];
                    k.r[at] = r;
                    k.z[at] = r;
                }
            }
        },
        team);
}

template <class F> struct StepArgs {
    Level<F> k;
    const Op *op;
    double *partial;   // of rho
    ScalarArgs scalar; // when the last part of rho is there; `how` may say nothing
    int beside; // 1: block 0 leaves the grid to the others; down it checks ahead whether the loop ends, up it updates
                // the scalars
};

// The end of a step that has a part of rho.
template <class F> __device__ inline void part_of_rho(const StepArgs<F> &a, const Op &op, double rho) {
    if (!(op.flags & RHO) || a.scalar.how == NOTHING) return;
    rho = block_sum(rho);
    if (thread_of_block() == 0) a.partial[blockIdx.x] = rho;
    if ((op.flags & UPDATE) && last_block(&a.scalar.scalars->ticket)) update_scalars(a.scalar);
}

template <bool UNIFORM, class F> __device__ inline void descend_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    if (a.beside && blockIdx.x == 0 && a.scalar.how != NOTHING) check_ahead(a.scalar);
    part_of_rho(
        a, op, descend<UNIFORM>(a.k, op, {a.beside, int(gridDim.x)}, a.scalar.how == LOOP && a.scalar.scalars->done));
}

template <bool UNIFORM, class F> __device__ inline void ascend_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    if (a.beside && blockIdx.x == 0) {
        if (a.scalar.how != NOTHING) update_scalars(a.scalar);
        return;
    }
    part_of_rho(a, op,
        ascend<UNIFORM>(a.k, op, {a.beside, int(gridDim.x)},
            a.scalar.how == LOOP && (a.scalar.scalars->done || a.scalar.scalars->met)));
}

template <class F> __device__ inline void inner_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    if (op.kind == MULTIPLY_INNER) multiply_inner(a.k, op, all_blocks());
    else if (op.kind == DIRECT_INNER) direct_inner(a.k, op, all_blocks());
    else advance_inner(a.k, op, all_blocks());
}

RRB_IN_FORMATS(rrb_descend, StepArgs, SWEEP_THREADS, 3, 4, descend_step<false>)
RRB_IN_FORMATS(rrb_descend_uniform, StepArgs, SWEEP_THREADS, 3, 4, descend_step<true>)
RRB_IN_FORMATS(rrb_ascend, StepArgs, SWEEP_THREADS, 3, 4, ascend_step<false>)
RRB_IN_FORMATS(rrb_ascend_uniform, StepArgs, SWEEP_THREADS, 3, 4, ascend_step<true>)
RRB_IN_FORMATS(rrb_inner, StepArgs, THREADS, RESIDENT, RESIDENT, inner_step)

template <class F> struct InnerProductArgs {
    Level<F> k;
    int a, b; // which vectors: r, z, d, q
    double *partial;
    Scalars *scalars;
};

// <a, b> on a recursion grid, to `sum`.
template <class F> __device__ inline void inner_product(const InnerProductArgs<F> &a) {
    const typename F::Real *vectors[4] = {a.k.r, a.k.z, a.k.direction, a.k.q};
    const typename F::Real *v = vectors[a.a], *w = vectors[a.b];
    double sum = 0.0;
    over_area(a.k.g, [&](int i, int j) {
        const int64_t c = a.k.g.at(i, j);
        for (int colour = 0; colour < 4; ++colour)
            sum += double(v[colour * a.k.g.plane + c]) * w[colour * a.k.g.plane + c];
    });
    sum_blocks(sum, a.partial, &a.scalars->ticket, [&](double all) { a.scalars->sum = all; });
}

RRB_IN_FORMATS(rrb_inner_product, InnerProductArgs, THREADS, RESIDENT, RESIDENT, inner_product)

// d = a vector with all frequencies (src/backend/steps/cycle.rs, all_frequencies), r = 0.
template <class F> __device__ inline void draw(const StepArgs<F> &a) {
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
            const int x = column(k.g, colour, i), y = line(k.g, colour, j);
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

RRB_IN_FORMATS(rrb_draw, StepArgs, THREADS, RESIDENT, RESIDENT, draw)

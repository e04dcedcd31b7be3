// One grid of the preconditioner, both levels in one step, down and up (report, section 2.6; docs/method.md), and the
// iteration on a recursion grid (src/backend/cycle.rs).
//
//     down   y_b1 = r_b1 - A_b1,red D^-1 r_red                          up   z_b1 = (y_b1 - A_b1,b2 z_b2) / d
//            kept = r_b2 - A_b2,red D^-1 r_red - A_b2,b1 D^-1 y_b1           z_red = (r_red - A_red,black z_black) / d
//            rho += r_red' D^-1 r_red + y_b1' D^-1 y_b1
//
// A tile's b1 values, and those of one row and column more, are computed into shared memory and used from there. Races: a
// value is written by the thread of its (I, J) alone; the way down reads z and writes `y` and the next grid, the way up
// reads red z of its own (I, J) alone before it writes it. Values per (I, J): down 21 (16 couplings, 3 pivots, 4 in, 2
// out, less 4 of the couplings with an edge in common), up 23.
#include "common.cuh"

// Both levels down; returns this thread's part of rho. All loads of a tile stand before its barrier, so that they wait for
// memory once.
template <class F> __device__ inline double descend(const Level<F> &k, const Op &op) {
    using Real = typename F::Real;
    __shared__ Real w[HALO];
    const Geometry &g = k.g;
    const int64_t p = g.plane, n = g.stride;
    const Real *h1 = k.h + R1 * p, *h2 = k.h + R2 * p, *hb = k.h + B1 * p, *in1 = k.z + R1 * p, *in2 = k.z + R2 * p;
    const typename F::Stored *r1 = k.s, *r2 = k.s + 4 * p, *d = k.d;
    const int t = thread_of_block(), di = t % (TILE_X + 1), dj = t / (TILE_X + 1), ti = t % TILE_X, tj = t / TILE_X;
    double rho = 0.0;
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    for (int tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
        const int i0 = tile % across * TILE_X, j0 = tile / across * TILE_Y;
        const int hi = i0 + di, hj = j0 + dj, i = i0 + ti, j = j0 + tj;
        const bool own = t < THREADS && i < g.cx && j < g.cy;
        Real kept = 0, near[4] = {0, 0, 0, 0};
        if (own) {
            const int64_t c = g.at(i, j);
            near[0] = F::read(d[NE * p + c]);
            near[1] = F::read(d[NW * p + c + 1]);
            near[2] = F::read(d[SE * p + c + n]);
            near[3] = F::read(d[SW * p + c + n + 1]);
            const Real in[2] = {in1[c], in2[c]}, b[2] = {k.z[B1 * p + c], k.z[B2 * p + c]};
            const Real own1 = h1[c] * in[0], own2 = h2[c] * in[1];
            rho += double(own1) * in[0] + double(own2) * in[1];
            const Real west = F::read(r1[E * p + c]) * own1, east = F::read(r1[W * p + c + 1]) * (h1[c + 1] * in1[c + 1]);
            const Real south = F::read(r2[N * p + c]) * own2, north = F::read(r2[S * p + c + n]) * (h2[c + n] * in2[c + n]);
            kept = b[1] - ((west + east) + (south + north));
            if (op.flags & (KEEP | KEEP_TOO)) {
                const Real all[4] = {in[0], in[1], b[0], b[1]};
                for (int colour = 0; colour < 4; ++colour) {
                    k.r[colour * p + c] = all[colour];
                    if (op.flags & KEEP_TOO) k.q[colour * p + c] = all[colour];
                }
            }
        }
        if (t < HALO) {
            Real scaled = 0;
            if (hi < g.cx && hj < g.cy) {
                const int64_t c = g.at(hi, hj);
                const Real west = F::read(r2[E * p + c - 1]) * (h2[c - 1] * in2[c - 1]), east = F::read(r2[W * p + c]) * (h2[c] * in2[c]);
                const Real south = F::read(r1[N * p + c - n]) * (h1[c - n] * in1[c - n]), north = F::read(r1[S * p + c]) * (h1[c] * in1[c]);
                const Real y = k.z[B1 * p + c] - ((west + east) + (south + north));
                scaled = hb[c] * y;
                if (di < TILE_X && dj < TILE_Y) {
                    k.y[c] = y;
                    rho += double(y) * scaled;
                }
            }
            w[t] = scaled;
        }
        __syncthreads();
        if (own) {
            const Real *v = w + tj * (TILE_X + 1) + ti;
            k.kept.put(i, j, kept - ((near[0] * v[0] + near[1] * v[1]) + (near[2] * v[TILE_X + 1] + near[3] * v[TILE_X + 2])));
        }
        __syncthreads();
    }
    return rho;
}

// What becomes of z at one place on the way up.
template <class F> __device__ inline void finish(const Level<F> &k, const Op &op, int64_t at, typename F::Real v, double &rho) {
    using Real = typename F::Real;
    if (!(op.flags & DIRECTED)) {
        k.z[at] = v;
        return;
    }
    if (op.flags & WITH_BETA) v += Real(op.beta) * k.direction[at];
    if (op.flags & ADVANCED) {
        Real u = Real(op.alpha) * v;
        if (!(op.flags & FIRST_STEP)) u += k.u[at];
        if (op.flags & RHO) rho += double(k.q[at]) * u;
        if (op.flags & TAKE) {
            k.z[at] = u;
            return;
        }
        k.u[at] = u;
    }
    k.direction[at] = v;
}

// Both levels up; returns this thread's part of <g, u>, g the right-hand side that the way down has kept in q.
template <class F> __device__ inline double ascend(const Level<F> &k, const Op &op) {
    using Real = typename F::Real;
    __shared__ Real w[HALO];
    const Geometry &g = k.g;
    const int64_t p = g.plane;
    const Real *h1 = k.h + R1 * p, *h2 = k.h + R2 * p, *hb = k.h + B1 * p;
    const typename F::Stored *r1 = k.s, *r2 = k.s + 4 * p, *d = k.d;
    double rho = 0.0;
    const int t = thread_of_block(), di = t % (TILE_X + 1), dj = t / (TILE_X + 1), ti = t % TILE_X, tj = t / TILE_X;
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    for (int tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
        const int i0 = tile % across * TILE_X, j0 = tile / across * TILE_Y;
        const int hi = i0 + di, hj = j0 + dj, i = i0 + ti, j = j0 + tj;
        const bool own = t < THREADS && i < g.cx && j < g.cy;
        Real left1 = 0, left2 = 0, pivot1 = 0, pivot2 = 0, a1[2] = {0, 0}, a2[2] = {0, 0}, b2 = 0;
        const int64_t c = g.at(i, j);
        if (own) {
            b2 = k.kept.get(i, j);
            left1 = k.z[R1 * p + c] - (F::read(r1[W * p + c]) * k.kept.get(i - 1, j) + F::read(r1[E * p + c]) * b2);
            left2 = k.z[R2 * p + c] - (F::read(r2[S * p + c]) * k.kept.get(i, j - 1) + F::read(r2[N * p + c]) * b2);
            pivot1 = h1[c];
            pivot2 = h2[c];
            a1[0] = F::read(r1[S * p + c]);
            a1[1] = F::read(r1[N * p + c]);
            a2[0] = F::read(r2[W * p + c]);
            a2[1] = F::read(r2[E * p + c]);
        }
        if (t < HALO) {
            Real v = 0;
            if (hi < g.cx && hj < g.cy) {
                const int64_t e = g.at(hi, hj);
                const Real near = (F::read(d[SW * p + e]) * k.kept.get(hi - 1, hj - 1) + F::read(d[SE * p + e]) * k.kept.get(hi, hj - 1)) +
                                  (F::read(d[NW * p + e]) * k.kept.get(hi - 1, hj) + F::read(d[NE * p + e]) * k.kept.get(hi, hj));
                v = hb[e] * (k.y[e] - near);
                if (di < TILE_X && dj < TILE_Y) finish(k, op, B1 * p + e, v, rho);
            }
            w[t] = v;
        }
        __syncthreads();
        if (own) {
            const Real *b1 = w + tj * (TILE_X + 1) + ti;
            finish(k, op, B2 * p + c, b2, rho);
            finish(k, op, R1 * p + c, pivot1 * (left1 - (a1[0] * b1[0] + a1[1] * b1[TILE_X + 1])), rho);
            finish(k, op, R2 * p + c, pivot2 * (left2 - (a2[0] * b1[0] + a2[1] * b1[1])), rho);
        }
        __syncthreads();
    }
    return rho;
}

// A_k d in difference form: s w + sum of a (v - w).
template <class F> __device__ inline void multiply_inner(const Level<F> &k, const Op &op) {
    using Real = typename F::Real;
    const int64_t p = k.g.plane;
    const Real alpha = Real(op.alpha);
    over_area(k.g, [&](int i, int j) {
        const int64_t c = k.g.at(i, j);
        for (int colour = 0; colour < 4; ++colour) {
            const int64_t at = colour * p + c;
            typename F::Stored a[4], b[4];
            Real v[4], u[4];
            straight_couplings(k.g, k.s, colour, c, a);
            diagonal_couplings(k.g, colour < B1 ? k.corners : k.black, colour, c, b);
            straight_values(k.g, k.direction, colour, c, v);
            diagonal_values(k.g, k.direction, colour, c, u);
            const Real w = k.direction[at];
            const Real near = (F::read(a[0]) * (v[0] - w) + F::read(a[1]) * (v[1] - w)) + (F::read(a[2]) * (v[2] - w) + F::read(a[3]) * (v[3] - w));
            const Real far = (F::read(b[0]) * (u[0] - w) + F::read(b[1]) * (u[1] - w)) + (F::read(b[2]) * (u[2] - w) + F::read(b[3]) * (u[3] - w));
            const Real q = F::read(k.excess[at]) * w + (near + far);
            if (op.flags & STORE) k.q[at] = q;
            if (op.flags & GO_ON) {
                const Real r = k.r[at] - alpha * q;
                k.r[at] = r;
                k.z[at] = r;
            }
        }
    });
}

// d = z or z + beta d, as a step of its own.
template <class F> __device__ inline void direct_inner(const Level<F> &k, const Op &op) {
    using Real = typename F::Real;
    over_area(k.g, [&](int i, int j) {
        for (int colour = 0; colour < 4; ++colour) {
            const int64_t at = colour * k.g.plane + k.g.at(i, j);
            k.direction[at] = op.flags & WITH_BETA ? k.z[at] + Real(op.beta) * k.direction[at] : k.z[at];
        }
    });
}

// u, r and z from d and q, as a step of its own.
template <class F> __device__ inline void advance_inner(const Level<F> &k, const Op &op) {
    using Real = typename F::Real;
    const Real alpha = Real(op.alpha);
    over_area(k.g, [&](int i, int j) {
        for (int colour = 0; colour < 4; ++colour) {
            const int64_t at = colour * k.g.plane + k.g.at(i, j);
            k.u[at] = op.flags & FIRST_STEP ? alpha * k.direction[at] : k.u[at] + alpha * k.direction[at];
            if (op.flags & GO_ON) {
                const Real r = k.r[at] - alpha * k.q[at];
                k.r[at] = r;
                k.z[at] = r;
            }
        }
    });
}

template <class F> struct StepArgs {
    Level<F> k;
    const Op *op;
    double *partial;  // of rho
    TurnArgs turn;    // when the last part of rho is there; `how` may say nothing
};

// The end of a step that has a part of rho.
template <class F> __device__ inline void part_of_rho(const StepArgs<F> &a, const Op &op, double rho) {
    if (!(op.flags & RHO) || a.turn.how == NOTHING) return;
    rho = block_sum(rho);
    if (thread_of_block() == 0) a.partial[blockIdx.x] = rho;
    if ((op.flags & TURN) && last_block(&a.turn.scalars->ticket)) turn_of(a.turn);
}

template <class F> __device__ inline void descend_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    part_of_rho(a, op, descend(a.k, op));
}

template <class F> __device__ inline void ascend_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    part_of_rho(a, op, ascend(a.k, op));
}

template <class F> __device__ inline void inner_step(const StepArgs<F> &a) {
    const Op op = *a.op;
    if (op.kind == MULTIPLY_INNER) multiply_inner(a.k, op);
    else if (op.kind == DIRECT_INNER) direct_inner(a.k, op);
    else advance_inner(a.k, op);
}

extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) rrb_descend_f64(StepArgs<Double> a) { descend_step(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) rrb_descend_f32(StepArgs<Single> a) { descend_step(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) rrb_descend_bf16(StepArgs<Brain> a) { descend_step(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) rrb_ascend_f64(StepArgs<Double> a) { ascend_step(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) rrb_ascend_f32(StepArgs<Single> a) { ascend_step(a); }
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) rrb_ascend_bf16(StepArgs<Brain> a) { ascend_step(a); }
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_inner_f64(StepArgs<Double> a) { inner_step(a); }
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_inner_f32(StepArgs<Single> a) { inner_step(a); }
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_inner_bf16(StepArgs<Brain> a) { inner_step(a); }

template <class F> struct InnerProductArgs {
    Level<F> k;
    int a, b;         // which vectors: r, z, d, q
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
        for (int colour = 0; colour < 4; ++colour) sum += double(v[colour * a.k.g.plane + c]) * w[colour * a.k.g.plane + c];
    });
    sum = block_sum(sum);
    if (thread_of_block() == 0) a.partial[blockIdx.x] = sum;
    if (!last_block(&a.scalars->ticket)) return;
    sum = sum_of(a.partial, gridDim.x);
    if (thread_of_block() == 0) a.scalars->sum = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_inner_product_f64(InnerProductArgs<Double> a) { inner_product(a); }
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_inner_product_f32(InnerProductArgs<Single> a) { inner_product(a); }
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_inner_product_bf16(InnerProductArgs<Brain> a) { inner_product(a); }

// d = a vector with all frequencies (src/backend/cycle.rs, all_frequencies), r = 0.
template <class F> __device__ inline void draw(const Level<F> &k) {
    using Real = typename F::Real;
    over_area(k.g, [&](int i, int j) {
        const int64_t c = k.g.at(i, j);
        for (int colour = 0; colour < 4; ++colour) {
            typename F::Stored a[4], b[4];
            straight_couplings(k.g, k.s, colour, c, a);
            diagonal_couplings(k.g, colour < B1 ? k.corners : k.black, colour, c, b);
            const int64_t at = colour * k.g.plane + c;
            const auto sum = [](const typename F::Stored t[4]) {
                return (double(F::read(t[0])) + F::read(t[1])) + (double(F::read(t[2])) + F::read(t[3]));
            };
            const double center = double(F::read(k.excess[at])) - (sum(a) + sum(b));
            const int x = 2 * i + (colour == B2 || colour == R2) - k.g.shift_x, y = 2 * j + (colour == B2 || colour == R1) - k.g.shift_y;
            const bool node = unsigned(x) < unsigned(k.g.nx) && unsigned(y) < unsigned(k.g.ny);
            uint32_t h = uint32_t(x) * 73856093u ^ uint32_t(y) * 19349663u;
            h = (h ^ (h >> 13) ^ 0x9e3779b9u) * 0x5bd1e995u;
            h = (h ^ (h >> 15)) * 0x27d4eb2du;
            const double v = double(h ^ (h >> 16)) / 2147483648.0 - 1.0;
            k.direction[at] = node ? Real(center > 0.0 ? v / sqrt(center) : v) : Real(0);
            k.r[at] = Real(0);
        }
    });
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_draw_f64(StepArgs<Double> a) { draw(a.k); }
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_draw_f32(StepArgs<Single> a) { draw(a.k); }
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_draw_bf16(StepArgs<Brain> a) { draw(a.k); }

// Start and end of a solve if CG runs on S1, the Schur complement of A on the black nodes. Each is one pass over the
// caller's arrays. The start replaces rrb_inspect, rrb_load and rrb_reduce; the end replaces rrb_back_substitute,
// rrb_load and rrb_residual (kernels/rrb/steps.cuh).
//
// The start reads and writes 56 bytes per node; its results include r of S1 and |b - A x|. The end reads and writes 44
// bytes per node, and another 16 bytes per node for the caller's x. rrb_start_loop sets the stopping test of the loop
// on the device, and writes the scalars to host memory without a copy. The loop can therefore begin without the host.
#include "storage.cuh"

// UNIFORM selects the variant for matrices with uniform tiles (uniform.cuh). In the kernels below, `m` is the index
// from which the couplings of an (I, J) are read.

struct StartEndArgs {
    Grid k;               // `s`: couplings of A; `h`: 1 / center of red nodes
    const double *center; // centers of A
    double *b, *x;        // 4 planes; the black planes of b contain the right-hand side of S1
    double *r_b1, *r_b2;  // residual of S1
    const double *input;  // the caller's b
    double *output;       // the caller's x
    int64_t input_ld, output_ld;
    double scale;        // scale of b and x in the planes; a power of two
    double least, limit; // x is stored without a check by the host if max |x| is within these bounds
    int how;
    double *partial, *whole_partial;
    Scalars *scalars;
};

// Returns the caller's b at (i, j), scaled; zero outside the grid.
__device__ inline double scaled_rhs(const StartEndArgs &a, int i, int j) {
    return i >= 0 && j >= 0 && i < a.k.g.nx && j < a.k.g.ny ? a.scale * a.input[j * a.input_ld + i] : 0.0;
}

// Stores the largest magnitudes of b and x, and the squared norms of b and b - A x, in the scalars. The array 0 of r on
// b1 becomes the current one.
__device__ inline void store_findings(const StartEndArgs &a, const uint64_t largest[2]) {
    Scalars &s = *a.scalars;
    update_largest(&s.largest, largest[0]);
    update_largest(&s.largest_guess, largest[1]);
    if (!last_block_over(a.k.g, &s.ticket)) return;
    const double sum = sum_over(a.k.g, a.partial), whole = sum_over(a.k.g, a.whole_partial);
    if (thread_of_block() == 0) {
        s.b_norm2 = sum;
        s.whole_norm2 = whole;
        s.parity = 0;
    }
}

// Number of thread blocks per multiprocessor. It is smaller than `RESIDENT`, so that each thread has more registers.
constexpr int END_RESIDENT = 3;

// Row length of arrays of SWEEP_PLACES values, which contain values of the red nodes in a tile and around it. For r1,
// these arrays also contain the row below and the column to the right of the tile; for r2, the row above and the column
// to the left.
constexpr int ACROSS = TILE_X + 1;

// Calls f(I0, J0, uniform) for each tile of the compute area, where (I0, J0) is its first (I, J). Calls end(part) after
// each part.
template <bool UNIFORM, class F, class End> __device__ inline void over_tiles(const Geometry &g, F f, End end) {
    over_parts(g, TILE_Y, [&](int part, const Tiles &tiles) {
        const int first = first_tile(tiles, all_blocks()), step = gridDim.x;
        const auto uniform = uniform_tiles<UNIFORM>(
            first, step, (tiles.end - first + step - 1) / step, [&](int tile) { return g.uniform[tile]; });
        for (int tile = first, nth = 0; tile < tiles.end; tile += step, ++nth) {
            const int row = quotient(tile, tiles.across);
            f((tile - row * tiles.across) * TILE_X, row * TILE_Y, uniform[nth]);
        }
        end(part);
    });
}

// Calls f(first, I, J, index among the SWEEP_PLACES values) for the red nodes around a tile: r1 below and to the right,
// r2 above and to the left. `first` is true for r1.
template <class F> __device__ inline void around_tile(int I0, int J0, F f) {
    for (int e = thread_of_block(); e < 2 * (TILE_X + TILE_Y); e += THREADS) {
        const bool rows = e < 2 * TILE_X, first = rows ? e < TILE_X : e < 2 * TILE_X + TILE_Y;
        const int along = rows ? e % TILE_X : e % TILE_Y;
        const int I = I0 + (rows ? along : first ? TILE_X : -1), J = J0 + (!rows ? along : first ? -1 : TILE_Y);
        f(first, I, J, first ? (J - J0 + 1) * ACROSS + I - I0 : (J - J0) * ACROSS + I - I0 + 1);
    }
}

// Largest magnitudes of the caller's b and x, and <b, b> of the scaled b.
struct InputFindings {
    uint64_t largest[2];
    double sum;
};

// Loads the caller's b and x at (i, j), scales them, and updates `findings`.
__device__ inline void inspect_inputs(
    const StartEndArgs &a, int i, int j, InputFindings &findings, double &b, double &x) {
    const Geometry &g = a.k.g;
    const bool inside = unsigned(i) < unsigned(g.nx) && unsigned(j) < unsigned(g.ny);
    const double given_b = inside ? fixed(a.input[j * a.input_ld + i]) : 0.0;
    const double given_x = inside ? fixed(a.output[j * a.output_ld + i]) : 0.0;
    const uint64_t of_b = magnitude(given_b), of_x = magnitude(given_x), line = uint64_t(j) * 2;
    findings.largest[0] = max(findings.largest[0], of_b);
    findings.largest[1] = max(findings.largest[1], of_x);
    if (of_b >= 0x7ff0000000000000ull) atomic_max(&a.scalars->not_finite, ~(line * g.nx + i));
    if (of_x >= 0x7ff0000000000000ull) atomic_max(&a.scalars->not_finite, ~((line + 1) * g.nx + i));
    b = a.scale * given_b;
    x = a.scale * given_x;
    findings.sum += b * b;
}

// For the red nodes in and around a tile, the values that their black neighbours read: D_r^-1 b_r in `b`, D_r^-1 A_rb
// x_b in `near`, and x_r in `x`.
struct RedRows {
    double b[SWEEP_PLACES], near[SWEEP_PLACES], x[SWEEP_PLACES];

    __device__ void store(int e, double center, double of_b, double of_near, double of_x) {
        const double h = center != 0.0 ? 1.0 / center : 0.0;
        b[e] = of_b * h;
        near[e] = h * of_near;
        x[e] = of_x;
    }
};

// Computes, in one pass:
// - the largest magnitudes, the first entry that is not finite, and <b, b>, as rrb_inspect does;
// - b and the black values of the guess by colour, where the black planes of b receive b_S = b_b - A_br D_r^-1 b_r, the
//   right-hand side of S1 (report 16-06, equation 2.10);
// - r = b_S - S1 x for these black values, from A, and |b - A x|^2 on all nodes.
//
// The black neighbours of a red node read three numbers from it: D_r^-1 b_r, D_r^-1 A_rb x_b, and x_r. The residual r
// of S1 does not depend on x_r.
template <bool UNIFORM> __device__ inline void begin(const StartEndArgs &a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double *to_r1 = a.k.s, *to_r2 = a.k.s + 4 * p;
    __shared__ RedRows red1, red2;
    const auto value = [&](const double *of, int64_t ld, int i, int j) {
        return unsigned(i) < unsigned(g.nx) && unsigned(j) < unsigned(g.ny) ? fixed(of[j * ld + i]) : 0.0;
    };
    const auto guess = [&](int i, int j) { return a.scale * value(a.output, a.output_ld, i, j); };
    const int t = thread_of_block(), ti = t % TILE_X, tj = t / TILE_X;
    InputFindings findings{};
    double whole = 0.0;
    const auto begin_tile = [&](int I0, int J0, bool uniform) {
        __syncthreads();
        const int I = I0 + ti, J = J0 + tj, i = 2 * I - g.shift_x, j = 2 * J - g.shift_y;
        const bool own = t < THREADS && I < g.cx && J < g.cy;
        const int64_t c = g.at(I, J);
        double b1 = 0.0, b2 = 0.0, x1 = 0.0, x2 = 0.0, center1 = 0.0, center2 = 0.0, v[8];
        if (own) {
            double b_r1, b_r2, x_r1, x_r2;
            inspect_inputs(a, i, j, findings, b1, x1);
            inspect_inputs(a, i + 1, j, findings, b_r2, x_r2);
            inspect_inputs(a, i, j + 1, findings, b_r1, x_r1);
            inspect_inputs(a, i + 1, j + 1, findings, b2, x2);
            const int64_t m = uniform ? g.at(I0, J0) : c;
            const double *center = a.center + m;
            v[3] = fixed(to_r1[S * p + m]);
            v[4] = fixed(to_r1[E * p + m]);
            v[1] = fixed(to_r2[W * p + m]);
            v[6] = fixed(to_r2[N * p + m]);
            const double t1[4] = {fixed(to_r1[W * p + m]), v[4], v[3], fixed(to_r1[N * p + m])};
            const double t2[4] = {v[1], fixed(to_r2[E * p + m]), fixed(to_r2[S * p + m]), v[6]};
            const double u1[4] = {guess(i - 1, j + 1), x2, x1, guess(i, j + 2)},
                         u2[4] = {x1, guess(i + 2, j), guess(i + 1, j - 1), x2};
            const double near1 = (t1[0] * u1[0] + t1[1] * u1[1]) + (t1[2] * u1[2] + t1[3] * u1[3]);
            const double near2 = (t2[0] * u2[0] + t2[1] * u2[1]) + (t2[2] * u2[2] + t2[3] * u2[3]);
            const double center_r1 = fixed(center[R1 * p]), center_r2 = fixed(center[R2 * p]);
            const double on_r1 = residual_of_row(b_r1, center_r1, x_r1, t1, u1),
                         on_r2 = residual_of_row(b_r2, center_r2, x_r2, t2, u2);
            whole += on_r1 * on_r1 + on_r2 * on_r2;
            red1.store((tj + 1) * ACROSS + ti, center_r1, b_r1, near1, x_r1);
            red2.store(tj * ACROSS + ti + 1, center_r2, b_r2, near2, x_r2);
            a.b[R1 * p + c] = b_r1;
            a.b[R2 * p + c] = b_r2;
            v[0] = fixed(to_r2[E * p + m - 1]);
            v[2] = fixed(to_r1[N * p + m - n]);
            v[5] = fixed(to_r1[W * p + m + 1]);
            v[7] = fixed(to_r2[S * p + m + n]);
            center1 = fixed(center[B1 * p]);
            center2 = fixed(center[B2 * p]);
        } else if (t < THREADS) {
            // Couplings to points outside the grid are zero, but the values at these points must be finite.
            red1.store((tj + 1) * ACROSS + ti, 0.0, 0.0, 0.0, 0.0);
            red2.store(tj * ACROSS + ti + 1, 0.0, 0.0, 0.0, 0.0);
        }
        around_tile(I0, J0, [&](bool first, int I, int J, int to) {
            RedRows &red = first ? red1 : red2;
            if (I < 0 || J < 0 || I >= g.cx || J >= g.cy) return red.store(to, 0.0, 0.0, 0.0, 0.0);
            const int64_t c = g.at(I, J);
            const int i = 2 * I - g.shift_x + !first, j = 2 * J - g.shift_y + first;
            const double *s = first ? to_r1 : to_r2;
            const double near = (fixed(s[W * p + c]) * guess(i - 1, j) + fixed(s[E * p + c]) * guess(i + 1, j)) +
                (fixed(s[S * p + c]) * guess(i, j - 1) + fixed(s[N * p + c]) * guess(i, j + 1));
            const double center = fixed(a.center[(first ? R1 : R2) * p + c]);
            red.store(to, center, a.scale * value(a.input, a.input_ld, i, j), near, guess(i, j));
        });
        __syncthreads();
        if (!own) return;
        const int e1 = (tj + 1) * ACROSS + ti, e2 = tj * ACROSS + ti + 1;
        const auto near_b1 = [&](const double *r1, const double *r2) {
            return (v[0] * r2[e2 - 1] + v[1] * r2[e2]) + (v[2] * r1[e1 - ACROSS] + v[3] * r1[e1]);
        };
        const auto near_b2 = [&](const double *r1, const double *r2) {
            return (v[5] * r1[e1 + 1] + v[4] * r1[e1]) + (v[7] * r2[e2 + ACROSS] + v[6] * r2[e2]);
        };
        const double t1[4] = {v[0], v[1], v[2], v[3]}, t2[4] = {v[4], v[5], v[6], v[7]};
        const double u1[4] = {red2.x[e2 - 1], red2.x[e2], red1.x[e1 - ACROSS], red1.x[e1]};
        const double u2[4] = {red1.x[e1], red1.x[e1 + 1], red2.x[e2], red2.x[e2 + ACROSS]};
        const double on_b1 = residual_of_row(b1, center1, x1, t1, u1), on_b2 = residual_of_row(b2, center2, x2, t2, u2);
        whole += on_b1 * on_b1 + on_b2 * on_b2;
        b1 -= near_b1(red1.b, red2.b);
        b2 -= near_b2(red1.b, red2.b);
        a.b[B1 * p + c] = b1;
        a.b[B2 * p + c] = b2;
        a.x[B1 * p + c] = x1;
        a.x[B2 * p + c] = x2;
        a.r_b1[c] = b1 - (center1 * x1 - near_b1(red1.near, red2.near));
        a.r_b2[c] = b2 - (center2 * x2 - near_b2(red1.near, red2.near));
    };
    over_tiles<UNIFORM>(g, begin_tile, [&](int part) {
        store_part_sum(a.partial, part, findings.sum);
        store_part_sum(a.whole_partial, part, whole);
    });
    store_findings(a, findings.largest);
}

RRB_KERNEL(rrb_begin_f64, StartEndArgs, THREADS, END_RESIDENT, begin<false>)
RRB_KERNEL(rrb_begin_uniform_f64, StartEndArgs, THREADS, END_RESIDENT, begin<true>)

// Values at a red node: x, the residual of its row, and this residual divided by the center.
struct RedNode {
    double x, residual, scaled_residual;
};

// Results that `whole_residual` can compute from r = b - A x on all nodes.
enum ResidualResult { SQUARE, ELIMINATED };

// Computes r = b - A x on all nodes, from the caller's b.
//
// SQUARE: stores |r|^2 in `whole_norm2`. ELIMINATED: stores r_b - A_br D_r^-1 r_r, the residual of S1, in `r_b1` and
// `r_b2`, and <r_r, D_r^-1 r_r> in `whole_norm2` (docs/theory/rrb.md, stopping test). With SUBSTITUTE, first computes
// x_r = D_r^-1 (b_r - A_rb x_b), and stores max |x| in the scalars, which must contain zero on entry. Does nothing if
// the loop continues.
template <bool SUBSTITUTE, ResidualResult RESULT, bool UNIFORM>
__device__ inline void whole_residual(const StartEndArgs &a) {
    Scalars &s = *a.scalars;
    if (a.how == LOOP && (s.code == PAUSED || s.code == RUNNING)) return;
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double *to_r1 = a.k.s, *to_r2 = a.k.s + 4 * p, *b1 = a.x + B1 * p, *b2 = a.x + B2 * p;
    // Values of x_r and of D_r^-1 r_r in a tile and around it.
    constexpr int LEFT_VALUES = RESULT == ELIMINATED ? SWEEP_PLACES : 1;
    __shared__ double red1[SWEEP_PLACES], red2[SWEEP_PLACES], left1[LEFT_VALUES], left2[LEFT_VALUES];
    const int t = thread_of_block(), ti = t % TILE_X, tj = t / TILE_X;
    const auto red = [&](int colour, int64_t c, int64_t m, double b) {
        const double *to = colour == R1 ? to_r1 : to_r2;
        const double t[4] = {fixed(to[W * p + m]), fixed(to[E * p + m]), fixed(to[S * p + m]), fixed(to[N * p + m])};
        double u[4] = {fixed(b2[c - 1]), fixed(b2[c]), fixed(b1[c]), fixed(b1[c + n])};
        if (colour == R2) {
            u[0] = fixed(b1[c]);
            u[1] = fixed(b1[c + 1]);
            u[2] = fixed(b2[c - n]);
            u[3] = fixed(b2[c]);
        }
        const double h = SUBSTITUTE || RESULT == ELIMINATED ? fixed(a.k.h[colour * p + m]) : 0.0;
        RedNode red;
        red.x =
            SUBSTITUTE ? h * (b - ((t[0] * u[0] + t[1] * u[1]) + (t[2] * u[2] + t[3] * u[3]))) : a.x[colour * p + c];
        red.residual = residual_of_row(b, fixed(a.center[colour * p + m]), red.x, t, u);
        red.scaled_residual = h * red.residual;
        return red;
    };
    double norm2 = 0.0;
    uint64_t largest = 0;
    const auto end_tile = [&](int I0, int J0, bool uniform) {
        const int I = I0 + ti, J = J0 + tj, i = 2 * I - g.shift_x, j = 2 * J - g.shift_y;
        const int at1 = (tj + 1) * ACROSS + ti, at2 = tj * ACROSS + ti + 1;
        const bool own = I < g.cx && J < g.cy;
        const int64_t c = g.at(I, J);
        double b_b1 = 0.0, b_b2 = 0.0, x_b1 = 0.0, x_b2 = 0.0, center_b1 = 0.0, center_b2 = 0.0, t1[4], t2[4];
        RedNode r1{}, r2{};
        // All loads of this thread's own values come before the loads of neighbouring values.
        if (own) {
            const int64_t m = uniform ? g.at(I0, J0) : c;
            b_b1 = scaled_rhs(a, i, j);
            b_b2 = scaled_rhs(a, i + 1, j + 1);
            center_b1 = fixed(a.center[B1 * p + m]);
            center_b2 = fixed(a.center[B2 * p + m]);
            straight_couplings(g, a.k.s, B1, m, t1);
            straight_couplings(g, a.k.s, B2, m, t2);
            x_b1 = fixed(b1[c]);
            x_b2 = fixed(b2[c]);
            r1 = red(R1, c, m, scaled_rhs(a, i, j + 1));
            r2 = red(R2, c, m, scaled_rhs(a, i + 1, j));
        }
        __syncthreads();
        red1[at1] = r1.x;
        red2[at2] = r2.x;
        if (RESULT == ELIMINATED) {
            left1[at1] = r1.scaled_residual;
            left2[at2] = r2.scaled_residual;
        }
        around_tile(I0, J0, [&](bool first, int I, int J, int to) {
            RedNode beside{};
            if (I >= 0 && J >= 0 && I < g.cx && J < g.cy) {
                const double of = scaled_rhs(a, 2 * I - g.shift_x + !first, 2 * J - g.shift_y + first);
                beside = red(first ? R1 : R2, g.at(I, J), uniform ? g.at(I0, J0) : g.at(I, J), of);
            }
            (first ? red1 : red2)[to] = beside.x;
            if (RESULT == ELIMINATED) (first ? left1 : left2)[to] = beside.scaled_residual;
        });
        __syncthreads();
        if (!own) return;
        const double u1[4] = {red2[at2 - 1], r2.x, red1[at1 - ACROSS], r1.x},
                     u2[4] = {r1.x, red1[at1 + 1], r2.x, red2[at2 + ACROSS]};
        const double on_b1 = residual_of_row(b_b1, center_b1, x_b1, t1, u1),
                     on_b2 = residual_of_row(b_b2, center_b2, x_b2, t2, u2);
        if (RESULT == ELIMINATED) {
            norm2 += r1.residual * r1.scaled_residual + r2.residual * r2.scaled_residual;
            const double of_b1 = (t1[0] * left2[at2 - 1] + t1[1] * r2.scaled_residual) +
                (t1[2] * left1[at1 - ACROSS] + t1[3] * r1.scaled_residual);
            const double of_b2 = (t2[0] * r1.scaled_residual + t2[1] * left1[at1 + 1]) +
                (t2[2] * r2.scaled_residual + t2[3] * left2[at2 + ACROSS]);
            a.r_b1[c] = on_b1 - of_b1;
            a.r_b2[c] = on_b2 - of_b2;
        } else {
            norm2 += (r1.residual * r1.residual + r2.residual * r2.residual) + (on_b1 * on_b1 + on_b2 * on_b2);
        }
        if (SUBSTITUTE) {
            largest = max(max(largest, max(magnitude(r1.x), magnitude(r2.x))), max(magnitude(x_b1), magnitude(x_b2)));
            a.x[R1 * p + c] = r1.x;
            a.x[R2 * p + c] = r2.x;
        }
    };
    over_tiles<UNIFORM>(g, end_tile, [&](int part) { store_part_sum(a.partial, part, norm2); });
    if (SUBSTITUTE) update_largest(&s.largest, largest);
    sum_parts(g, a.partial, &s.ticket, [&](double all) {
        s.whole_norm2 = all;
        if (RESULT == ELIMINATED) s.parity = 0;
    });
}

RRB_KERNEL(rrb_whole_residual_f64, StartEndArgs, THREADS, END_RESIDENT, (whole_residual<false, SQUARE, false>))
RRB_KERNEL(rrb_eliminated_residual_f64, StartEndArgs, THREADS, END_RESIDENT, (whole_residual<false, ELIMINATED, false>))
RRB_KERNEL(rrb_finish_f64, StartEndArgs, THREADS, END_RESIDENT, (whole_residual<true, SQUARE, false>))
RRB_KERNEL(rrb_finish_uniform_f64, StartEndArgs, THREADS, END_RESIDENT, (whole_residual<true, SQUARE, true>))
RRB_KERNEL(rrb_finish_eliminated_f64, StartEndArgs, THREADS, END_RESIDENT, (whole_residual<true, ELIMINATED, false>))
RRB_KERNEL(
    rrb_finish_eliminated_uniform_f64, StartEndArgs, THREADS, END_RESIDENT, (whole_residual<true, ELIMINATED, true>))

// Stores output = x / scale if krylov/solve will accept the result without further steps. The loop must have satisfied
// the stopping test, also with the residual on all nodes, or have reached the iteration limit. In addition, max |x|
// must be within the bounds. With the preconditioned norm, `rho` already belongs to the residual on all nodes.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_deliver_f64(StartEndArgs a) {
    const Scalars &s = *a.scalars;
    const double square = s.preconditioned ? s.whole_norm2 + fabs(s.rho) : s.whole_norm2;
    const bool ends = s.code == MAX_ITER || (s.code == CONVERGED && sqrt(square) <= s.threshold);
    const double largest = __longlong_as_double(s.largest);
    if (!ends || !(largest >= a.least && largest <= a.limit)) return;
    TransferArgs t{};
    t.g = a.k.g;
    t.colours = a.x;
    t.natural = a.output;
    t.ld = a.output_ld;
    t.scale = 1.0 / a.scale;
    transfer<true>(t);
}

// Upper limit of the ratio of the last solve's scale to the scale for the new b. The same constant is in
// src/krylov/solve/given.rs.
constexpr double NEAR_SCALE = 256.0;

// Writes the scalars and the iterations in the ring buffer to host memory, which has less latency than a copy. The
// findings in the input arrays are reported once, and then reset to zero. Called by one thread block.
__device__ inline void report(Scalars &s, uint64_t *host_scalars, int steps) {
    const uint64_t *words = reinterpret_cast<const uint64_t *>(&s);
    const int count = (sizeof(LoopScalars) + min(steps, s.ring_used) * sizeof(Step)) / sizeof(uint64_t);
    for (int k = thread_of_block(); k < count; k += blockDim.x) host_scalars[k] = words[k];
    __syncthreads();
    if (thread_of_block() == 0) s.largest = s.largest_guess = s.not_finite = 0;
}

struct StartLoopArgs {
    Scalars *scalars;
    uint64_t *host_scalars; // all scalars except the ring buffer, in host memory
    // Fields of `Criterion` (src/krylov/solve_steps.rs); abs_tol is scaled.
    double scale, rel_tol, abs_tol, least_threshold_fraction, vanishing, rounding_fraction;
    int64_t max_iter, pause_at;
    int preconditioned, of_initial;
};

// Sets the scalars of the loop after the start, with the same decisions as src/krylov/solve and krylov/. If the loop
// must not begin according to these decisions, marks it as ended. Called by one thread.
__device__ inline void start_loop(const StartLoopArgs &a) {
    Scalars &s = *a.scalars;
    const double b = sqrt(s.b_norm2), norm = sqrt(a.preconditioned ? s.rho : s.norm2);
    const bool guess = s.largest_guess != 0;
    const double initial = a.preconditioned ? norm : guess ? sqrt(s.whole_norm2) : b;
    const double reference = a.preconditioned || a.of_initial ? initial : b;
    const double asked = fmax(a.rel_tol * reference, a.abs_tol),
                 threshold = fmax(asked, a.least_threshold_fraction * (a.preconditioned ? norm : b));
    const bool positive = s.rho > 0.0 && is_finite(s.rho) && s.sigma > 0.0 && is_finite(s.sigma) && is_finite(s.norm2);
    // If the scale of the last solve does not fit, the host repeats the start (`Inputs::scale`).
    const double largest = a.scale * __longlong_as_double(s.largest);
    const bool expected = largest >= 1.0 && largest < 2.0 * NEAR_SCALE && s.not_finite == 0;
    // With an initial guess and the preconditioned norm, the reference value requires an additional start from b.
    const bool referred = !(a.preconditioned && guess);
    const bool based = !a.preconditioned || sqrt(s.norm2) > a.rounding_fraction * b;
    const bool misses = norm > threshold && initial > asked;
    const bool begins = expected && referred && positive && based && misses && a.max_iter > 0;
    s.threshold = threshold;
    s.vanishing = a.vanishing * fmax(b, 1.0);
    s.iterations = 0;
    s.max_iter = a.max_iter;
    s.pause_at = a.pause_at;
    s.preconditioned = a.preconditioned;
    s.beta = 0.0;
    s.code = begins ? RUNNING : PAUSED;
    s.done = !begins;
    s.met = 0;
    s.ring_used = 0;
}

extern "C" __global__ void __launch_bounds__(32) rrb_start_loop_f64(StartLoopArgs a) {
    if (thread_of_block() == 0) start_loop(a);
    __syncthreads();
    report(*a.scalars, a.host_scalars, 0);
}

struct ReportArgs {
    Scalars *scalars;
    uint64_t *host_scalars;
    int steps; // maximum number of iterations that are copied from the ring buffer
};

extern "C" __global__ void __launch_bounds__(THREADS) rrb_report_f64(ReportArgs a) {
    report(*a.scalars, a.host_scalars, a.steps);
}

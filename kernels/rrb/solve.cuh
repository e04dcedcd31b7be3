// Start and end of a solve if CG runs on S1, the Schur complement of A on the black nodes. The start is one pass over
// the caller's arrays, and so is the end. The start replaces rrb_inspect, rrb_load_by_colour and rrb_reduce; the end
// replaces rrb_back_substitute, rrb_load_by_colour and rrb_residual (kernels/rrb/steps.cuh).
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
    double scale;                        // scale of b and x in the planes; a power of two
    double min_magnitude, max_magnitude; // x is stored without a check by the host if max |x| is within these bounds
    int stage;
    double *partial, *all_nodes_partial;
    Scalars *scalars;
};

// Returns the caller's b at (i, j), scaled; zero outside the grid.
__device__ inline double scaled_rhs(const StartEndArgs &a, int i, int j) {
    return i >= 0 && j >= 0 && i < a.k.g.nx && j < a.k.g.ny ? a.scale * a.input[j * a.input_ld + i] : 0.0;
}

// Stores the largest magnitudes of b and x, and the squared norms of b and b - A x, in the scalars. Array 0 of the two
// arrays for r at b1 becomes the current one.
__device__ inline void store_findings(const StartEndArgs &a, const uint64_t largest[2]) {
    Scalars &s = *a.scalars;
    update_largest(&s.largest, largest[0]);
    update_largest(&s.largest_guess, largest[1]);
    if (!is_last_block_of_all_devices(a.k.g, &s.ticket)) return;
    const double b_norm2 = sum_of_parts(a.k.g, a.partial), residual_norm2 = sum_of_parts(a.k.g, a.all_nodes_partial);
    if (thread_of_block() == 0) {
        s.b_norm2 = b_norm2;
        s.all_nodes_norm2 = residual_norm2;
        s.parity = 0;
    }
}

// Number of thread blocks per multiprocessor. It is smaller than `RESIDENT_BLOCKS`, so that each thread has more
// registers.
constexpr int END_RESIDENT_BLOCKS = 3;

// Row length of arrays of SWEEP_GROUPS values, which contain values of the red nodes in a tile and around it. For r1,
// these arrays also contain the row below and the column to the right of the tile; for r2, the row above and the column
// to the left.
constexpr int RED_ROW_LENGTH = TILE_X + 1;

// Calls f(I0, J0, uniform) for each tile of the compute area, where (I0, J0) is the first (I, J) of the tile, and
// `uniform` states whether the tile is uniform. Calls end(part) after each part of the grid.
template <bool UNIFORM, class F, class End> __device__ inline void for_each_tile(const Geometry &g, F f, End end) {
    for_each_part(g, TILE_Y, [&](int part, const Tiles &tiles) {
        const int first = first_tile(tiles, all_blocks()), step = gridDim.x;
        const auto uniform = uniform_tiles<UNIFORM>(
            first, step, (tiles.end - first + step - 1) / step, [&](int tile) { return g.uniform[tile]; });
        for (int tile = first, nth = 0; tile < tiles.end; tile += step, ++nth) {
            const int row = quotient(tile, tiles.tiles_per_row);
            f((tile - row * tiles.tiles_per_row) * TILE_X, row * TILE_Y, uniform[nth]);
        }
        end(part);
    });
}

// Calls f(is_r1, I, J, index among the SWEEP_GROUPS values) for the red nodes around a tile: r1 below and to the right,
// r2 above and to the left. `is_r1` is true for r1.
template <class F> __device__ inline void for_each_halo_node(int I0, int J0, F f) {
    for (int e = thread_of_block(); e < 2 * (TILE_X + TILE_Y); e += THREADS) {
        const bool in_row = e < 2 * TILE_X, is_r1 = in_row ? e < TILE_X : e < 2 * TILE_X + TILE_Y;
        const int position = in_row ? e % TILE_X : e % TILE_Y;
        const int I = I0 +
            (in_row ? position
                    : is_r1 ? TILE_X
                            : -1),
                  J = J0 +
            (!in_row        ? position
                    : is_r1 ? -1
                            : TILE_Y);
        f(is_r1, I, J, is_r1 ? (J - J0 + 1) * RED_ROW_LENGTH + I - I0 : (J - J0) * RED_ROW_LENGTH + I - I0 + 1);
    }
}

// Largest magnitudes of the caller's b and x, and <b, b> of the scaled b.
struct InputFindings {
    uint64_t largest[2];
    double b_norm2;
};

// Loads the caller's b and x at (i, j), scales them, and updates `findings`.
__device__ inline void inspect_inputs(
    const StartEndArgs &a, int i, int j, InputFindings &findings, double &b, double &x) {
    const Geometry &g = a.k.g;
    const bool is_inside = unsigned(i) < unsigned(g.nx) && unsigned(j) < unsigned(g.ny);
    const double caller_b = is_inside ? ldg(a.input[j * a.input_ld + i]) : 0.0;
    const double caller_x = is_inside ? ldg(a.output[j * a.output_ld + i]) : 0.0;
    const uint64_t b_bits = magnitude(caller_b), x_bits = magnitude(caller_x), array_row = uint64_t(j) * 2;
    findings.largest[0] = max(findings.largest[0], b_bits);
    findings.largest[1] = max(findings.largest[1], x_bits);
    if (b_bits >= 0x7ff0000000000000ull) atomic_max(&a.scalars->not_finite, ~(array_row * g.nx + i));
    if (x_bits >= 0x7ff0000000000000ull) atomic_max(&a.scalars->not_finite, ~((array_row + 1) * g.nx + i));
    b = a.scale * caller_b;
    x = a.scale * caller_x;
    findings.b_norm2 += b * b;
}

// Values at the red nodes in a tile and around it, which the black neighbours of these nodes read. The array `b`
// contains D_r^-1 b_r, `coupling_sum` contains D_r^-1 A_rb x_b, and `x` contains x_r.
struct RedRows {
    double b[SWEEP_GROUPS], coupling_sum[SWEEP_GROUPS], x[SWEEP_GROUPS];

    __device__ void store_node(int e, double center, double b_value, double coupling_value, double x_value) {
        const double h = center != 0.0 ? 1.0 / center : 0.0;
        b[e] = b_value * h;
        coupling_sum[e] = h * coupling_value;
        x[e] = x_value;
    }
};

// Computes, in one pass:
// - the largest magnitudes, the first entry that is not finite, and <b, b>, as rrb_inspect does;
// - b and the black values of the guess by colour, where the black planes of b receive b_S = b_b - A_br D_r^-1 b_r, the
//   right-hand side of S1 (report 16-06, equation 2.10);
// - r = b_S - S1 x for the black values x of the guess, computed from A, and |b - A x|^2 on all nodes.
//
// The black neighbours of a red node read three numbers from it: D_r^-1 b_r, D_r^-1 A_rb x_b, and x_r. The residual r
// of S1 does not depend on x_r.
template <bool UNIFORM> __device__ inline void begin_solve(const StartEndArgs &a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double *couplings_r1 = a.k.s, *couplings_r2 = a.k.s + 4 * p;
    __shared__ RedRows red1, red2;
    const auto load_value = [&](const double *array, int64_t ld, int i, int j) {
        return unsigned(i) < unsigned(g.nx) && unsigned(j) < unsigned(g.ny) ? ldg(array[j * ld + i]) : 0.0;
    };
    const auto guess = [&](int i, int j) { return a.scale * load_value(a.output, a.output_ld, i, j); };
    const int t = thread_of_block(), ti = t % TILE_X, tj = t / TILE_X;
    InputFindings findings{};
    double residual_norm2 = 0.0;
    const auto begin_tile = [&](int I0, int J0, bool is_uniform) {
        __syncthreads();
        const int I = I0 + ti, J = J0 + tj, i = 2 * I - g.shift_x, j = 2 * J - g.shift_y;
        const bool is_own = t < THREADS && I < g.cx && J < g.cy;
        const int64_t c = g.at(I, J);
        double b1 = 0.0, b2 = 0.0, x1 = 0.0, x2 = 0.0, center1 = 0.0, center2 = 0.0, v[8];
        if (is_own) {
            double b_r1, b_r2, x_r1, x_r2;
            inspect_inputs(a, i, j, findings, b1, x1);
            inspect_inputs(a, i + 1, j, findings, b_r2, x_r2);
            inspect_inputs(a, i, j + 1, findings, b_r1, x_r1);
            inspect_inputs(a, i + 1, j + 1, findings, b2, x2);
            const int64_t m = is_uniform ? g.at(I0, J0) : c;
            const double *center = a.center + m;
            v[3] = ldg(couplings_r1[S * p + m]);
            v[4] = ldg(couplings_r1[E * p + m]);
            v[1] = ldg(couplings_r2[W * p + m]);
            v[6] = ldg(couplings_r2[N * p + m]);
            const double t1[4] = {ldg(couplings_r1[W * p + m]), v[4], v[3], ldg(couplings_r1[N * p + m])};
            const double t2[4] = {v[1], ldg(couplings_r2[E * p + m]), ldg(couplings_r2[S * p + m]), v[6]};
            const double u1[4] = {guess(i - 1, j + 1), x2, x1, guess(i, j + 2)},
                         u2[4] = {x1, guess(i + 2, j), guess(i + 1, j - 1), x2};
            const double coupling_sum1 = (t1[0] * u1[0] + t1[1] * u1[1]) + (t1[2] * u1[2] + t1[3] * u1[3]);
            const double coupling_sum2 = (t2[0] * u2[0] + t2[1] * u2[1]) + (t2[2] * u2[2] + t2[3] * u2[3]);
            const double center_r1 = ldg(center[R1 * p]), center_r2 = ldg(center[R2 * p]);
            const double residual_r1 = residual_of_row(b_r1, center_r1, x_r1, t1, u1),
                         residual_r2 = residual_of_row(b_r2, center_r2, x_r2, t2, u2);
            residual_norm2 += residual_r1 * residual_r1 + residual_r2 * residual_r2;
            red1.store_node((tj + 1) * RED_ROW_LENGTH + ti, center_r1, b_r1, coupling_sum1, x_r1);
            red2.store_node(tj * RED_ROW_LENGTH + ti + 1, center_r2, b_r2, coupling_sum2, x_r2);
            a.b[R1 * p + c] = b_r1;
            a.b[R2 * p + c] = b_r2;
            v[0] = ldg(couplings_r2[E * p + m - 1]);
            v[2] = ldg(couplings_r1[N * p + m - n]);
            v[5] = ldg(couplings_r1[W * p + m + 1]);
            v[7] = ldg(couplings_r2[S * p + m + n]);
            center1 = ldg(center[B1 * p]);
            center2 = ldg(center[B2 * p]);
        } else if (t < THREADS) {
            // Couplings to points outside the grid are zero, but the values at these points must be finite.
            red1.store_node((tj + 1) * RED_ROW_LENGTH + ti, 0.0, 0.0, 0.0, 0.0);
            red2.store_node(tj * RED_ROW_LENGTH + ti + 1, 0.0, 0.0, 0.0, 0.0);
        }
        for_each_halo_node(I0, J0, [&](bool is_r1, int I, int J, int entry) {
            RedRows &red = is_r1 ? red1 : red2;
            if (I < 0 || J < 0 || I >= g.cx || J >= g.cy) return red.store_node(entry, 0.0, 0.0, 0.0, 0.0);
            const int64_t c = g.at(I, J);
            const int i = 2 * I - g.shift_x + !is_r1, j = 2 * J - g.shift_y + is_r1;
            const double *s = is_r1 ? couplings_r1 : couplings_r2;
            const double coupling_sum = (ldg(s[W * p + c]) * guess(i - 1, j) + ldg(s[E * p + c]) * guess(i + 1, j)) +
                (ldg(s[S * p + c]) * guess(i, j - 1) + ldg(s[N * p + c]) * guess(i, j + 1));
            const double center = ldg(a.center[(is_r1 ? R1 : R2) * p + c]);
            red.store_node(entry, center, a.scale * load_value(a.input, a.input_ld, i, j), coupling_sum, guess(i, j));
        });
        __syncthreads();
        if (!is_own) return;
        const int e1 = (tj + 1) * RED_ROW_LENGTH + ti, e2 = tj * RED_ROW_LENGTH + ti + 1;
        const auto red_sum_b1 = [&](const double *r1, const double *r2) {
            return (v[0] * r2[e2 - 1] + v[1] * r2[e2]) + (v[2] * r1[e1 - RED_ROW_LENGTH] + v[3] * r1[e1]);
        };
        const auto red_sum_b2 = [&](const double *r1, const double *r2) {
            return (v[5] * r1[e1 + 1] + v[4] * r1[e1]) + (v[7] * r2[e2 + RED_ROW_LENGTH] + v[6] * r2[e2]);
        };
        const double t1[4] = {v[0], v[1], v[2], v[3]}, t2[4] = {v[4], v[5], v[6], v[7]};
        const double u1[4] = {red2.x[e2 - 1], red2.x[e2], red1.x[e1 - RED_ROW_LENGTH], red1.x[e1]};
        const double u2[4] = {red1.x[e1], red1.x[e1 + 1], red2.x[e2], red2.x[e2 + RED_ROW_LENGTH]};
        const double residual_b1 = residual_of_row(b1, center1, x1, t1, u1),
                     residual_b2 = residual_of_row(b2, center2, x2, t2, u2);
        residual_norm2 += residual_b1 * residual_b1 + residual_b2 * residual_b2;
        b1 -= red_sum_b1(red1.b, red2.b);
        b2 -= red_sum_b2(red1.b, red2.b);
        a.b[B1 * p + c] = b1;
        a.b[B2 * p + c] = b2;
        a.x[B1 * p + c] = x1;
        a.x[B2 * p + c] = x2;
        a.r_b1[c] = b1 - (center1 * x1 - red_sum_b1(red1.coupling_sum, red2.coupling_sum));
        a.r_b2[c] = b2 - (center2 * x2 - red_sum_b2(red1.coupling_sum, red2.coupling_sum));
    };
    for_each_tile<UNIFORM>(g, begin_tile, [&](int part) {
        store_part_sum(a.partial, part, findings.b_norm2);
        store_part_sum(a.all_nodes_partial, part, residual_norm2);
    });
    store_findings(a, findings.largest);
}

RRB_KERNEL(rrb_begin_solve_f64, StartEndArgs, THREADS, END_RESIDENT_BLOCKS, begin_solve<false>)
RRB_KERNEL(rrb_begin_uniform_f64, StartEndArgs, THREADS, END_RESIDENT_BLOCKS, begin_solve<true>)

// Values at a red node: x, the residual of its row, and this residual divided by the center.
struct RedNode {
    double x, residual, scaled_residual;
};

// Results that `all_nodes_residual` can compute from r = b - A x on all nodes.
enum ResidualResult { SQUARE, ELIMINATED };

// Computes r = b - A x on all nodes, from the caller's b.
//
// - SQUARE: stores |r|^2 in Scalars::all_nodes_norm2.
// - ELIMINATED: stores r_b - A_br D_r^-1 r_r, the residual of S1, in `r_b1` and `r_b2`. Stores <r_r, D_r^-1 r_r> in
//   Scalars::all_nodes_norm2 (docs/theory/rrb.md, stopping test).
// - SUBSTITUTE: first computes x_r = D_r^-1 (b_r - A_rb x_b). Stores max |x| in Scalars::largest, which must be zero on
//   entry.
//
// Does nothing if the loop continues.
template <bool SUBSTITUTE, ResidualResult RESULT, bool UNIFORM>
__device__ inline void all_nodes_residual(const StartEndArgs &a) {
    Scalars &s = *a.scalars;
    if (a.stage == LOOP && (s.code == PAUSED || s.code == RUNNING)) return;
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double *couplings_r1 = a.k.s, *couplings_r2 = a.k.s + 4 * p, *b1 = a.x + B1 * p, *b2 = a.x + B2 * p;
    // Values of x_r and of D_r^-1 r_r in a tile and around it.
    constexpr int RESIDUAL_VALUES = RESULT == ELIMINATED ? SWEEP_GROUPS : 1;
    __shared__ double x_r1[SWEEP_GROUPS], x_r2[SWEEP_GROUPS], residual_terms1[RESIDUAL_VALUES],
        residual_terms2[RESIDUAL_VALUES];
    const int t = thread_of_block(), ti = t % TILE_X, tj = t / TILE_X;
    const auto compute_red = [&](int colour, int64_t c, int64_t m, double b) {
        const double *couplings = colour == R1 ? couplings_r1 : couplings_r2;
        const double t[4] = {
            ldg(couplings[W * p + m]), ldg(couplings[E * p + m]), ldg(couplings[S * p + m]), ldg(couplings[N * p + m])};
        double u[4] = {ldg(b2[c - 1]), ldg(b2[c]), ldg(b1[c]), ldg(b1[c + n])};
        if (colour == R2) {
            u[0] = ldg(b1[c]);
            u[1] = ldg(b1[c + 1]);
            u[2] = ldg(b2[c - n]);
            u[3] = ldg(b2[c]);
        }
        const double h = SUBSTITUTE || RESULT == ELIMINATED ? ldg(a.k.h[colour * p + m]) : 0.0;
        RedNode node;
        node.x =
            SUBSTITUTE ? h * (b - ((t[0] * u[0] + t[1] * u[1]) + (t[2] * u[2] + t[3] * u[3]))) : a.x[colour * p + c];
        node.residual = residual_of_row(b, ldg(a.center[colour * p + m]), node.x, t, u);
        node.scaled_residual = h * node.residual;
        return node;
    };
    double norm2 = 0.0;
    uint64_t largest = 0;
    const auto end_tile = [&](int I0, int J0, bool is_uniform) {
        const int I = I0 + ti, J = J0 + tj, i = 2 * I - g.shift_x, j = 2 * J - g.shift_y;
        const int entry1 = (tj + 1) * RED_ROW_LENGTH + ti, entry2 = tj * RED_ROW_LENGTH + ti + 1;
        const bool is_own = I < g.cx && J < g.cy;
        const int64_t c = g.at(I, J);
        double b_b1 = 0.0, b_b2 = 0.0, x_b1 = 0.0, x_b2 = 0.0, center_b1 = 0.0, center_b2 = 0.0, t1[4], t2[4];
        RedNode r1{}, r2{};
        // All loads of this thread's own values come before the loads of neighbouring values.
        if (is_own) {
            const int64_t m = is_uniform ? g.at(I0, J0) : c;
            b_b1 = scaled_rhs(a, i, j);
            b_b2 = scaled_rhs(a, i + 1, j + 1);
            center_b1 = ldg(a.center[B1 * p + m]);
            center_b2 = ldg(a.center[B2 * p + m]);
            load_axis_couplings(g, a.k.s, B1, m, t1);
            load_axis_couplings(g, a.k.s, B2, m, t2);
            x_b1 = ldg(b1[c]);
            x_b2 = ldg(b2[c]);
            r1 = compute_red(R1, c, m, scaled_rhs(a, i, j + 1));
            r2 = compute_red(R2, c, m, scaled_rhs(a, i + 1, j));
        }
        __syncthreads();
        x_r1[entry1] = r1.x;
        x_r2[entry2] = r2.x;
        if (RESULT == ELIMINATED) {
            residual_terms1[entry1] = r1.scaled_residual;
            residual_terms2[entry2] = r2.scaled_residual;
        }
        for_each_halo_node(I0, J0, [&](bool is_r1, int I, int J, int entry) {
            RedNode neighbour{};
            if (I >= 0 && J >= 0 && I < g.cx && J < g.cy) {
                const double b = scaled_rhs(a, 2 * I - g.shift_x + !is_r1, 2 * J - g.shift_y + is_r1);
                neighbour = compute_red(is_r1 ? R1 : R2, g.at(I, J), is_uniform ? g.at(I0, J0) : g.at(I, J), b);
            }
            (is_r1 ? x_r1 : x_r2)[entry] = neighbour.x;
            if (RESULT == ELIMINATED) (is_r1 ? residual_terms1 : residual_terms2)[entry] = neighbour.scaled_residual;
        });
        __syncthreads();
        if (!is_own) return;
        const double u1[4] = {x_r2[entry2 - 1], r2.x, x_r1[entry1 - RED_ROW_LENGTH], r1.x},
                     u2[4] = {r1.x, x_r1[entry1 + 1], r2.x, x_r2[entry2 + RED_ROW_LENGTH]};
        const double residual_b1 = residual_of_row(b_b1, center_b1, x_b1, t1, u1),
                     residual_b2 = residual_of_row(b_b2, center_b2, x_b2, t2, u2);
        if (RESULT == ELIMINATED) {
            norm2 += r1.residual * r1.scaled_residual + r2.residual * r2.scaled_residual;
            const double eliminated_b1 = (t1[0] * residual_terms2[entry2 - 1] + t1[1] * r2.scaled_residual) +
                (t1[2] * residual_terms1[entry1 - RED_ROW_LENGTH] + t1[3] * r1.scaled_residual);
            const double eliminated_b2 = (t2[0] * r1.scaled_residual + t2[1] * residual_terms1[entry1 + 1]) +
                (t2[2] * r2.scaled_residual + t2[3] * residual_terms2[entry2 + RED_ROW_LENGTH]);
            a.r_b1[c] = residual_b1 - eliminated_b1;
            a.r_b2[c] = residual_b2 - eliminated_b2;
        } else {
            norm2 += (r1.residual * r1.residual + r2.residual * r2.residual) +
                (residual_b1 * residual_b1 + residual_b2 * residual_b2);
        }
        if (SUBSTITUTE) {
            largest = max(max(largest, max(magnitude(r1.x), magnitude(r2.x))), max(magnitude(x_b1), magnitude(x_b2)));
            a.x[R1 * p + c] = r1.x;
            a.x[R2 * p + c] = r2.x;
        }
    };
    for_each_tile<UNIFORM>(g, end_tile, [&](int part) { store_part_sum(a.partial, part, norm2); });
    if (SUBSTITUTE) update_largest(&s.largest, largest);
    sum_parts(g, a.partial, &s.ticket, [&](double total) {
        s.all_nodes_norm2 = total;
        if (RESULT == ELIMINATED) s.parity = 0;
    });
}

RRB_KERNEL(
    rrb_all_nodes_residual_f64, StartEndArgs, THREADS, END_RESIDENT_BLOCKS, (all_nodes_residual<false, SQUARE, false>))
RRB_KERNEL(rrb_eliminated_residual_f64, StartEndArgs, THREADS, END_RESIDENT_BLOCKS,
    (all_nodes_residual<false, ELIMINATED, false>))
RRB_KERNEL(rrb_finish_solve_f64, StartEndArgs, THREADS, END_RESIDENT_BLOCKS, (all_nodes_residual<true, SQUARE, false>))
RRB_KERNEL(rrb_finish_uniform_f64, StartEndArgs, THREADS, END_RESIDENT_BLOCKS, (all_nodes_residual<true, SQUARE, true>))
RRB_KERNEL(rrb_finish_solve_eliminated_f64, StartEndArgs, THREADS, END_RESIDENT_BLOCKS,
    (all_nodes_residual<true, ELIMINATED, false>))
RRB_KERNEL(rrb_finish_eliminated_uniform_f64, StartEndArgs, THREADS, END_RESIDENT_BLOCKS,
    (all_nodes_residual<true, ELIMINATED, true>))

// Stores output = x / scale if src/krylov/solve will accept this x without further steps. This requires that max |x| is
// within the bounds of the arguments, and that the loop has converged or has reached the iteration limit. If the loop
// has converged, the residual on all nodes must also satisfy the stopping test. With the preconditioned norm, the
// squared norm of this residual is the sum of `all_nodes_norm2` and `rho`, which was computed from the same residual.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_store_accepted_x_f64(StartEndArgs a) {
    const Scalars &s = *a.scalars;
    const double norm2 = s.preconditioned ? s.all_nodes_norm2 + fabs(s.rho) : s.all_nodes_norm2;
    const bool accepts_result = s.code == MAX_ITER || (s.code == CONVERGED && sqrt(norm2) <= s.threshold);
    const double largest = __longlong_as_double(s.largest);
    if (!accepts_result || !(largest >= a.min_magnitude && largest <= a.max_magnitude)) return;
    TransferArgs t{};
    t.g = a.k.g;
    t.by_colour = a.x;
    t.natural = a.output;
    t.ld = a.output_ld;
    t.scale = 1.0 / a.scale;
    copy_by_colour<true>(t);
}

// Upper limit of the ratio of the last solve's scale to the scale for the new b. The same constant is in
// src/krylov/solve/given.rs.
constexpr double SCALE_RATIO_LIMIT = 256.0;

// Writes the scalars and the iterations in the ring buffer to host memory. This has less latency than a copy by the
// driver. Then resets the findings about the input arrays (`largest`, `largest_guess`, `not_finite`) to zero. Called by
// one thread block.
__device__ inline void report_scalars(Scalars &s, uint64_t *host_scalars, int steps) {
    const uint64_t *words = reinterpret_cast<const uint64_t *>(&s);
    const int word_count = (sizeof(LoopScalars) + min(steps, s.ring_used) * sizeof(Step)) / sizeof(uint64_t);
    for (int k = thread_of_block(); k < word_count; k += blockDim.x) host_scalars[k] = words[k];
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

// Sets the scalars of the loop after the start, with the same decisions as in src/krylov and src/krylov/solve. If the
// loop must not begin, marks the loop as ended. Called by one thread.
__device__ inline void start_loop(const StartLoopArgs &a) {
    Scalars &s = *a.scalars;
    const double b_norm = sqrt(s.b_norm2), norm = sqrt(a.preconditioned ? s.rho : s.norm2);
    const bool has_guess = s.largest_guess != 0;
    const double initial_norm = a.preconditioned ? norm : has_guess ? sqrt(s.all_nodes_norm2) : b_norm;
    const double reference_norm = a.preconditioned || a.of_initial ? initial_norm : b_norm;
    const double requested_threshold = fmax(a.rel_tol * reference_norm, a.abs_tol),
                 threshold = fmax(requested_threshold, a.least_threshold_fraction * (a.preconditioned ? norm : b_norm));
    const bool is_positive =
        s.rho > 0.0 && is_finite(s.rho) && s.sigma > 0.0 && is_finite(s.sigma) && is_finite(s.norm2);
    // If the scale of the last solve is not suitable for the new b, the host repeats the start with another scale
    // (`Inputs::scale`).
    const double largest = a.scale * __longlong_as_double(s.largest);
    const bool scale_fits = largest >= 1.0 && largest < 2.0 * SCALE_RATIO_LIMIT && s.not_finite == 0;
    // With an initial guess and the preconditioned norm, the reference norm is that of the residual for x = 0, which
    // the host must compute.
    const bool has_reference = !(a.preconditioned && has_guess);
    const bool is_above_rounding = !a.preconditioned || sqrt(s.norm2) > a.rounding_fraction * b_norm;
    const bool is_above_threshold = norm > threshold && initial_norm > requested_threshold;
    const bool starts_loop =
        scale_fits && has_reference && is_positive && is_above_rounding && is_above_threshold && a.max_iter > 0;
    s.threshold = threshold;
    s.vanishing = a.vanishing * fmax(b_norm, 1.0);
    s.iterations = 0;
    s.max_iter = a.max_iter;
    s.pause_at = a.pause_at;
    s.preconditioned = a.preconditioned;
    s.beta = 0.0;
    s.code = starts_loop ? RUNNING : PAUSED;
    s.loop_ended = !starts_loop;
    s.will_converge = 0;
    s.ring_used = 0;
}

extern "C" __global__ void __launch_bounds__(32) rrb_start_loop_f64(StartLoopArgs a) {
    if (thread_of_block() == 0) start_loop(a);
    __syncthreads();
    report_scalars(*a.scalars, a.host_scalars, 0);
}

struct ReportArgs {
    Scalars *scalars;
    uint64_t *host_scalars;
    int steps; // maximum number of iterations that are copied from the ring buffer
};

extern "C" __global__ void __launch_bounds__(THREADS) rrb_report_f64(ReportArgs a) {
    report_scalars(*a.scalars, a.host_scalars, a.steps);
}

// CG in single precision (Mixed): its residual made anew in double precision, from A (docs/method.md; src/solver/krylov.rs says
// when). Values per (I, J): x, p, q, r and 2 of x back; then 12 of A, 2 of x and b each, r.
#include "common.cuh"

struct RenewalArgs {
    SchurArrays<float> v;
    Grid k;                // `s`: couplings of A; `h`: 1 / center of red nodes
    const double *center;  // of A
    const double *x;       // 4 planes
    double *partial;
    int how;
};

// The step that the next iteration would do, x += alpha p, and |r - alpha q|^2 to `sum`.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_step_first_mixed(RenewalArgs a) {
    Scalars &s = *a.v.scalars;
    const int parity = s.parity;
    const float *p1 = a.v.p_b1[parity], *p2 = a.v.p_b2[parity], *r1 = a.v.r_b1[parity], alpha_q = float(s.alpha);
    const double alpha = s.alpha * Scales<float>::of_p(s.per_unit);
    double norm2 = 0.0;
    over_area(a.v.g, [&](int i, int j) {
        const int64_t c = a.v.g.at(i, j);
        a.v.x_b1[c] += alpha * p1[c];
        a.v.x_b2[c] += alpha * p2[c];
        const float recurred1 = r1[c] - alpha_q * a.v.q_b1[c], recurred2 = a.v.r_b2[c] - alpha_q * a.v.q_b2[c];
        norm2 += double(recurred1) * recurred1 + double(recurred2) * recurred2;
    });
    norm2 = block_sum(norm2);
    if (thread_of_block() == 0) a.partial[blockIdx.x] = norm2;
    if (!last_block(&s.ticket)) return;
    norm2 = sum_of(a.partial, gridDim.x);
    if (thread_of_block() == 0) s.sum = norm2;
}

// r = b1 - S1 x, <r, r>. RENEWED: p and r stay where they are, and the step of this iteration is done; else the first r of b1
// becomes the current one.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_residual_first_mixed(RenewalArgs a) {
    Scalars &s = *a.v.scalars;
    // After the loop: not if it goes on.
    if (a.how == LOOP && (s.code == PAUSED || s.code == RUNNING)) return;
    const Geometry &g = a.v.g;
    const int64_t p = g.plane;
    float *to = a.v.r_b1[a.how == RENEWED ? s.parity : 0];
    // D_r^-1 A_rb x of the tile, of r1 a row below and a column to the right of it too, of r2 a row above and a column to the left.
    constexpr int ACROSS = TILE_X + 1;
    __shared__ double red1[HALO], red2[HALO];
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y, t = thread_of_block();
    double norm2 = 0.0;
    for (int tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
        const int I0 = tile % across * TILE_X, J0 = tile / across * TILE_Y;
        __syncthreads();
        for (int e = t; e < HALO; e += THREADS) {
            const auto red = [&](int colour, int I, int J) {
                if (I < 0 || J < 0 || I >= g.cx || J >= g.cy) return 0.0;
                const int64_t c = g.at(I, J);
                return a.k.h[colour * p + c] * (colour == R1 ? straight_r1(a.k, a.x, c) : straight_r2(a.k, a.x, c));
            };
            red1[e] = red(R1, I0 + e % ACROSS, J0 - 1 + e / ACROSS);
            red2[e] = red(R2, I0 - 1 + e % ACROSS, J0 + e / ACROSS);
        }
        __syncthreads();
        const int ti = t % TILE_X, tj = t / TILE_X, I = I0 + ti, J = J0 + tj;
        if (I >= g.cx || J >= g.cy) continue;
        const int64_t c = g.at(I, J);
        const double *y1 = red1 + (tj + 1) * ACROSS + ti, *y2 = red2 + tj * ACROSS + ti + 1;
        double v[4];
        straight_couplings(g, a.k.s, B1, c, v);
        const double near1 = (v[0] * y2[-1] + v[1] * y2[0]) + (v[2] * y1[-ACROSS] + v[3] * y1[0]);
        const float r1 = a.v.b_b1[c] - (a.center[B1 * p + c] * a.x[B1 * p + c] - near1);
        straight_couplings(g, a.k.s, B2, c, v);
        const double near2 = (v[0] * y1[0] + v[1] * y1[1]) + (v[2] * y2[0] + v[3] * y2[ACROSS]);
        const float r2 = a.v.b_b2[c] - (a.center[B2 * p + c] * a.x[B2 * p + c] - near2);
        to[c] = r1;
        a.v.r_b2[c] = r2;
        norm2 += double(r1) * r1 + double(r2) * r2;
    }
    norm2 = block_sum(norm2);
    if (t == 0) a.partial[blockIdx.x] = norm2;
    if (!last_block(&s.ticket)) return;
    norm2 = sum_of(a.partial, gridDim.x);
    if (t == 0) {
        s.norm2 = norm2;
        if (a.how == RENEWED) {
            s.alpha = 0.0;
        } else {
            s.parity = 0;
            s.largest = 0;
        }
    }
}

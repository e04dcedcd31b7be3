// One grid of the preconditioner, both levels in one kernel, down and up (report, section 2.6; docs/method.md).
//
//     down   y_b1 = r_b1 - A_b1,red D^-1 r_red                          up   z_b1 = (y_b1 - A_b1,b2 z_b2) / d
//            kept = r_b2 - A_b2,red D^-1 r_red - A_b2,b1 D^-1 y_b1           z_red = (r_red - A_red,black z_black) / d
//            rho += r_red' D^-1 r_red + y_b1' D^-1 y_b1
//
// A tile's b1 values, and those of one row and column more, are computed into shared memory and used from there. Races: a
// value is written by the thread of its (I, J) alone; the way down reads `in` and writes `y` and the next grid, the way up
// reads red `in` of its own (I, J) alone before it writes z there. Bytes per (I, J): down 8 (16 couplings, 3 pivots, 4 in,
// 2 out), up 8 (12 + 3 + 4 + 4).
#include "common.cuh"

constexpr int HALO = (TILE_X + 1) * (TILE_Y + 1);
// A thread for each value of a tile and its halo.
constexpr int SWEEP_THREADS = (HALO + 31) / 32 * 32;

struct SweepArgs {
    Grid k;
    Kept kept;
    const double *in;   // 4 planes: the right-hand side
    double *partial;    // rho, a value a block; may be null
};

// All loads of a tile stand before its barrier, so that they wait for memory once.
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) rrb_descend_f64(SweepArgs a) {
    __shared__ double w[HALO];
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double *h1 = a.k.h + R1 * p, *h2 = a.k.h + R2 * p, *hb = a.k.h + B1 * p;
    const double *r1 = a.k.s, *r2 = a.k.s + 4 * p, *d = a.k.d;
    const double *in1 = a.in + R1 * p, *in2 = a.in + R2 * p;
    const int t = threadIdx.x, di = t % (TILE_X + 1), dj = t / (TILE_X + 1), ti = t % TILE_X, tj = t / TILE_X;
    double rho = 0.0;
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    for (int tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
        const int i0 = tile % across * TILE_X, j0 = tile / across * TILE_Y;
        const int hi = i0 + di, hj = j0 + dj, i = i0 + ti, j = j0 + tj;
        const bool own = t < THREADS && i < g.cx && j < g.cy;
        double kept = 0.0, near[4] = {0.0, 0.0, 0.0, 0.0};
        if (own) {
            const int64_t c = g.at(i, j);
            near[0] = d[NE * p + c];
            near[1] = d[NW * p + c + 1];
            near[2] = d[SE * p + c + n];
            near[3] = d[SW * p + c + n + 1];
            const double own1 = h1[c] * in1[c], own2 = h2[c] * in2[c];
            rho += own1 * in1[c] + own2 * in2[c];
            const double west = r1[E * p + c] * own1, east = r1[W * p + c + 1] * (h1[c + 1] * in1[c + 1]);
            const double south = r2[N * p + c] * own2, north = r2[S * p + c + n] * (h2[c + n] * in2[c + n]);
            kept = a.in[B2 * p + c] - ((west + east) + (south + north));
        }
        if (t < HALO) {
            double scaled = 0.0;
            if (hi < g.cx && hj < g.cy) {
                const int64_t c = g.at(hi, hj);
                const double west = r2[E * p + c - 1] * (h2[c - 1] * in2[c - 1]), east = r2[W * p + c] * (h2[c] * in2[c]);
                const double south = r1[N * p + c - n] * (h1[c - n] * in1[c - n]), north = r1[S * p + c] * (h1[c] * in1[c]);
                const double y = a.in[B1 * p + c] - ((west + east) + (south + north));
                scaled = hb[c] * y;
                if (di < TILE_X && dj < TILE_Y) {
                    a.k.y[c] = y;
                    rho += y * scaled;
                }
            }
            w[t] = scaled;
        }
        __syncthreads();
        if (own) {
            const double *v = w + tj * (TILE_X + 1) + ti;
            a.kept.put(i, j, kept - ((near[0] * v[0] + near[1] * v[1]) + (near[2] * v[TILE_X + 1] + near[3] * v[TILE_X + 2])));
        }
        __syncthreads();
    }
    if (!a.partial) return;
    rho = block_sum(rho);
    if (t == 0) a.partial[blockIdx.x] = rho;
}

extern "C" __global__ void __launch_bounds__(SWEEP_THREADS) rrb_ascend_f64(SweepArgs a) {
    __shared__ double w[HALO];
    const Geometry &g = a.k.g;
    const int64_t p = g.plane;
    const double *h1 = a.k.h + R1 * p, *h2 = a.k.h + R2 * p, *hb = a.k.h + B1 * p;
    const double *r1 = a.k.s, *r2 = a.k.s + 4 * p, *d = a.k.d;
    double *z = a.k.z;
    const int t = threadIdx.x, di = t % (TILE_X + 1), dj = t / (TILE_X + 1), ti = t % TILE_X, tj = t / TILE_X;
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    for (int tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
        const int i0 = tile % across * TILE_X, j0 = tile / across * TILE_Y;
        const int hi = i0 + di, hj = j0 + dj, i = i0 + ti, j = j0 + tj;
        const bool own = t < THREADS && i < g.cx && j < g.cy;
        double left1 = 0.0, left2 = 0.0, pivot1 = 0.0, pivot2 = 0.0, a1[2] = {0.0, 0.0}, a2[2] = {0.0, 0.0}, b2 = 0.0;
        const int64_t c = g.at(i, j);
        if (own) {
            b2 = a.kept.get(i, j);
            left1 = a.in[R1 * p + c] - (r1[W * p + c] * a.kept.get(i - 1, j) + r1[E * p + c] * b2);
            left2 = a.in[R2 * p + c] - (r2[S * p + c] * a.kept.get(i, j - 1) + r2[N * p + c] * b2);
            pivot1 = h1[c];
            pivot2 = h2[c];
            a1[0] = r1[S * p + c];
            a1[1] = r1[N * p + c];
            a2[0] = r2[W * p + c];
            a2[1] = r2[E * p + c];
        }
        if (t < HALO) {
            double v = 0.0;
            if (hi < g.cx && hj < g.cy) {
                const int64_t e = g.at(hi, hj);
                const double near = (d[SW * p + e] * a.kept.get(hi - 1, hj - 1) + d[SE * p + e] * a.kept.get(hi, hj - 1)) +
                                    (d[NW * p + e] * a.kept.get(hi - 1, hj) + d[NE * p + e] * a.kept.get(hi, hj));
                v = hb[e] * (a.k.y[e] - near);
                if (di < TILE_X && dj < TILE_Y) z[B1 * p + e] = v;
            }
            w[t] = v;
        }
        __syncthreads();
        if (own) {
            const double *b1 = w + tj * (TILE_X + 1) + ti;
            z[B2 * p + c] = b2;
            z[R1 * p + c] = pivot1 * (left1 - (a1[0] * b1[0] + a1[1] * b1[TILE_X + 1]));
            z[R2 * p + c] = pivot2 * (left2 - (a2[0] * b1[0] + a2[1] * b1[1]));
        }
        __syncthreads();
    }
}

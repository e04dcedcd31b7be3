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

struct SweepArgs {
    Grid k;
    Kept kept;
    const double *in;   // 4 planes: the right-hand side
    double *partial;    // rho, a value a block; may be null
};

extern "C" __global__ void __launch_bounds__(THREADS) rrb_descend_f64(SweepArgs a) {
    __shared__ double w[HALO];
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double *h1 = a.k.h + R1 * p, *h2 = a.k.h + R2 * p, *hb = a.k.h + B1 * p;
    const double *r1 = a.k.s, *r2 = a.k.s + 4 * p, *d = a.k.d;
    const double *in1 = a.in + R1 * p, *in2 = a.in + R2 * p;
    double rho = 0.0;
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    for (int tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
        const int i0 = tile % across * TILE_X, j0 = tile / across * TILE_Y;
        for (int e = thread_of_block(); e < HALO; e += THREADS) {
            const int di = e % (TILE_X + 1), dj = e / (TILE_X + 1), i = i0 + di, j = j0 + dj;
            double scaled = 0.0;
            if (i < g.cx && j < g.cy) {
                const int64_t c = g.at(i, j);
                const double west = r2[E * p + c - 1] * (h2[c - 1] * in2[c - 1]), east = r2[W * p + c] * (h2[c] * in2[c]);
                const double south = r1[N * p + c - n] * (h1[c - n] * in1[c - n]), north = r1[S * p + c] * (h1[c] * in1[c]);
                const double y = a.in[B1 * p + c] - ((west + east) + (south + north));
                scaled = hb[c] * y;
                if (di < TILE_X && dj < TILE_Y) {
                    a.k.y[c] = y;
                    rho += y * scaled;
                }
            }
            w[e] = scaled;
        }
        __syncthreads();
        const int i = i0 + threadIdx.x, j = j0 + threadIdx.y;
        if (i < g.cx && j < g.cy) {
            const int64_t c = g.at(i, j);
            const double own1 = h1[c] * in1[c], own2 = h2[c] * in2[c];
            rho += own1 * in1[c] + own2 * in2[c];
            const double west = r1[E * p + c] * own1, east = r1[W * p + c + 1] * (h1[c + 1] * in1[c + 1]);
            const double south = r2[N * p + c] * own2, north = r2[S * p + c + n] * (h2[c + n] * in2[c + n]);
            const double *v = w + threadIdx.y * (TILE_X + 1) + threadIdx.x;
            const double near = (d[NE * p + c] * v[0] + d[NW * p + c + 1] * v[1]) +
                                (d[SE * p + c + n] * v[TILE_X + 1] + d[SW * p + c + n + 1] * v[TILE_X + 2]);
            a.kept.put(i, j, a.in[B2 * p + c] - ((west + east) + (south + north)) - near);
        }
        __syncthreads();
    }
    if (!a.partial) return;
    rho = block_sum(rho);
    if (thread_of_block() == 0) a.partial[blockIdx.x] = rho;
}

extern "C" __global__ void __launch_bounds__(THREADS) rrb_ascend_f64(SweepArgs a) {
    __shared__ double w[HALO];
    const Geometry &g = a.k.g;
    const int64_t p = g.plane;
    const double *h1 = a.k.h + R1 * p, *h2 = a.k.h + R2 * p, *hb = a.k.h + B1 * p;
    const double *r1 = a.k.s, *r2 = a.k.s + 4 * p, *d = a.k.d;
    double *z = a.k.z;
    const int across = (g.cx + TILE_X - 1) / TILE_X, down = (g.cy + TILE_Y - 1) / TILE_Y;
    for (int tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
        const int i0 = tile % across * TILE_X, j0 = tile / across * TILE_Y;
        for (int e = thread_of_block(); e < HALO; e += THREADS) {
            const int di = e % (TILE_X + 1), dj = e / (TILE_X + 1), i = i0 + di, j = j0 + dj;
            double v = 0.0;
            if (i < g.cx && j < g.cy) {
                const int64_t c = g.at(i, j);
                const double near = (d[SW * p + c] * a.kept.get(i - 1, j - 1) + d[SE * p + c] * a.kept.get(i, j - 1)) +
                                    (d[NW * p + c] * a.kept.get(i - 1, j) + d[NE * p + c] * a.kept.get(i, j));
                v = hb[c] * (a.k.y[c] - near);
                if (di < TILE_X && dj < TILE_Y) z[B1 * p + c] = v;
            }
            w[e] = v;
        }
        __syncthreads();
        const int i = i0 + threadIdx.x, j = j0 + threadIdx.y;
        if (i < g.cx && j < g.cy) {
            const int64_t c = g.at(i, j);
            const double *b1 = w + threadIdx.y * (TILE_X + 1) + threadIdx.x;
            const double own = a.kept.get(i, j);
            const double sum1 = (r1[W * p + c] * a.kept.get(i - 1, j) + r1[E * p + c] * own) +
                                (r1[S * p + c] * b1[0] + r1[N * p + c] * b1[TILE_X + 1]);
            const double sum2 = (r2[W * p + c] * b1[0] + r2[E * p + c] * b1[1]) +
                                (r2[S * p + c] * a.kept.get(i, j - 1) + r2[N * p + c] * own);
            z[B2 * p + c] = own;
            z[R1 * p + c] = h1[c] * (a.in[R1 * p + c] - sum1);
            z[R2 * p + c] = h2[c] * (a.in[R2 * p + c] - sum2);
        }
        __syncthreads();
    }
}

// Steps of PCG on A x = b, each of which is one pass over memory: products, residuals, and the truncated Neumann
// series. Vector updates are in kernels/common/vectors.cuh.
//
// D is the diagonal and L the strictly lower triangle of A. A kernel moves 8 bytes per cell for each vector that it
// reads or writes and for D, 24 bytes for L or L^T, and 32 bytes for A.
#include "box.cuh"

namespace dpcg {

struct CellProductArgs {
    CellBox cells;
    CellMatrix m;
    const double *v, *b;
    double *out;
    Sum sum;
};

// Computes out = A v, and the sum <v, A v>.
__device__ inline void multiply(const CellProductArgs &a) {
    if (is_over(a.sum)) return;
    double sum = 0.0;
    over_cells(a.cells.count(), [&](int64_t c) {
        const double here = a.v[c];
        const double q = fixed(a.m.center[c]) * here + sum_of_products(around(a.cells, a.m, a.v, c));
        a.out[c] = q;
        sum += here * q;
    });
    finish_sum(a.sum, sum);
}

// Computes out = b - A v, and the sum <out, out>.
__device__ inline void residual(const CellProductArgs &a) {
    double sum = 0.0;
    over_cells(a.cells.count(), [&](int64_t c) {
        const Around near = around(a.cells, a.m, a.v, c);
        const double r = residual_of_row(a.b[c], fixed(a.m.center[c]), a.v[c], near.a, near.v);
        a.out[c] = r;
        sum += r * r;
    });
    finish_sum(a.sum, sum);
}

struct TriangleArgs {
    CellBox cells;
    CellMatrix m;
    const double *v, *from;
    double *to;
    const double *r; // the vector r in the sum <r, to>
    Sum sum;
};

// Computes to = D^-1 v and, if `sum` is used, the sum <r, to>.
__device__ inline void over_center(const TriangleArgs &a) {
    double sum = 0.0;
    over_cells(a.cells.count(), [&](int64_t c) {
        const double z = a.v[c] / fixed(a.m.center[c]);
        a.to[c] = z;
        if (a.sum.partial) sum += a.r[c] * z;
    });
    finish_sum(a.sum, sum);
}

// Computes to = D^-1 (v - L from), one step of Horner's rule for K = sum_m (-L D^-1)^m (van der Vorst 1982).
__device__ inline void lower(const TriangleArgs &a) {
    const int64_t n = a.cells.north(), t = a.cells.top();
    over_cells(a.cells.count(), [&](int64_t c) {
        const double sum = fixed(a.m.east[c - 1]) * a.from[c - 1] + fixed(a.m.north[c - n]) * a.from[c - n] +
            fixed(a.m.top[c - t]) * a.from[c - t];
        a.to[c] = (a.v[c] - sum) / fixed(a.m.center[c]);
    });
}

// Computes to = v - D^-1 L^T from, one step of Horner's rule for K^T. If `sum` is used, also computes the sum <r, to>.
__device__ inline void upper(const TriangleArgs &a) {
    const int64_t n = a.cells.north(), t = a.cells.top();
    double all = 0.0;
    over_cells(a.cells.count(), [&](int64_t c) {
        const double sum = fixed(a.m.east[c]) * a.from[c + 1] + fixed(a.m.north[c]) * a.from[c + n] +
            fixed(a.m.top[c]) * a.from[c + t];
        const double z = a.v[c] - sum / fixed(a.m.center[c]);
        a.to[c] = z;
        if (a.sum.partial) all += a.r[c] * z;
    });
    finish_sum(a.sum, all);
}

} // namespace dpcg

DPCG_KERNEL(dpcg_multiply_f64, CellProductArgs, multiply)
DPCG_KERNEL(dpcg_residual_f64, CellProductArgs, residual)
DPCG_KERNEL(dpcg_over_center_f64, TriangleArgs, over_center)
DPCG_KERNEL(dpcg_lower_f64, TriangleArgs, lower)
DPCG_KERNEL(dpcg_upper_f64, TriangleArgs, upper)

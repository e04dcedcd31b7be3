// Steps of PCG on A x = b, each of which is one pass over memory: products, residuals, and the truncated Neumann
// series (docs/theory/dpcg.md). Vector updates are in kernels/common/vectors.cuh.
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
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const double v_c = a.v[c];
        const double q = ldg(a.m.center[c]) * v_c + sum_of_products(load_neighbours(a.cells, a.m, a.v, c));
        a.out[c] = q;
        sum += v_c * q;
    });
    finish_sum(a.sum, sum);
}

// Computes out = b - A v, and the sum <out, out>.
__device__ inline void residual(const CellProductArgs &a) {
    double sum = 0.0;
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const NeighbourValues neighbours = load_neighbours(a.cells, a.m, a.v, c);
        const double r = residual_of_row(a.b[c], ldg(a.m.center[c]), a.v[c], neighbours.a, neighbours.v);
        a.out[c] = r;
        sum += r * r;
    });
    finish_sum(a.sum, sum);
}

struct TriangleArgs {
    CellBox cells;
    CellMatrix m;
    const double *v, *input;
    double *out;
    const double *r; // the vector r in the sum <r, out>
    Sum sum;
};

// Computes out = D^-1 v. If `sum.partial` is not null, also computes the sum <r, out>.
__device__ inline void divide_by_center(const TriangleArgs &a) {
    double sum = 0.0;
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const double z = a.v[c] / ldg(a.m.center[c]);
        a.out[c] = z;
        if (a.sum.partial) sum += a.r[c] * z;
    });
    finish_sum(a.sum, sum);
}

// Computes out = D^-1 (v - L input), one step of Horner's rule for K = sum_m (-L D^-1)^m (van der Vorst 1982).
__device__ inline void apply_lower_triangle(const TriangleArgs &a) {
    const int64_t n = a.cells.north(), t = a.cells.top();
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const double sum = ldg(a.m.east[c - 1]) * a.input[c - 1] + ldg(a.m.north[c - n]) * a.input[c - n] +
            ldg(a.m.top[c - t]) * a.input[c - t];
        a.out[c] = (a.v[c] - sum) / ldg(a.m.center[c]);
    });
}

// Computes out = v - D^-1 L^T input, one step of Horner's rule for K^T. If `sum.partial` is not null, also computes
// the sum <r, out>.
__device__ inline void apply_upper_triangle(const TriangleArgs &a) {
    const int64_t n = a.cells.north(), t = a.cells.top();
    double total = 0.0;
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const double sum = ldg(a.m.east[c]) * a.input[c + 1] + ldg(a.m.north[c]) * a.input[c + n] +
            ldg(a.m.top[c]) * a.input[c + t];
        const double z = a.v[c] - sum / ldg(a.m.center[c]);
        a.out[c] = z;
        if (a.sum.partial) total += a.r[c] * z;
    });
    finish_sum(a.sum, total);
}

} // namespace dpcg

DPCG_KERNEL(dpcg_multiply_f64, CellProductArgs, multiply)
DPCG_KERNEL(dpcg_residual_f64, CellProductArgs, residual)
DPCG_KERNEL(dpcg_divide_by_center_f64, TriangleArgs, divide_by_center)
DPCG_KERNEL(dpcg_solve_lower_f64, TriangleArgs, apply_lower_triangle)
DPCG_KERNEL(dpcg_apply_upper_f64, TriangleArgs, apply_upper_triangle)

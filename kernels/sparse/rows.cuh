// Operations that compute the results of a row from its sum s_i = sum_j a_ij x_j, and the sums of long rows. Formulas:
// docs/theory/sparse.md.
//
// Launch shape of all kernels of this family: at most MAX_BLOCKS blocks of THREADS threads, with a grid-stride loop.
//
// There are no races: only the thread that has the complete sum of a row writes the results of this row. With RELAX and
// in triangular solves, `out` is x. In this case, the rows of a launch are not coupled. A row then reads only its own
// x_i, and values that this launch does not write.
#pragma once
#include "../common/vectors.cuh"

namespace sparse {

using namespace vectors;
using vectors::THREADS;
using vectors::WARPS;

// Operation that computes the results of row i from s_i = sum_j a_ij x_j. `sum` is the sum over all rows of the launch.
enum FinishKind {
    STORE_SUM,           // out_i = s_i; sum = <x, out>
    RESIDUAL,            // out_i = b_i - s_i; sum = <out, out>
    SCALED_RESIDUAL,     // out_i = d_i (b_i - s_i)
    SUBTRACT_SCALED_SUM, // out_i = b_i - d_i s_i; sum = <sum_operand, out>
    CHEBYSHEV,           // scaled_residual_i -= d_i s_i, out_i = step_factor x_i + residual_factor scaled_residual_i,
                         // z_i += out_i; sum = <sum_operand, z>
    RELAX,               // out_i += d_i (b_i - s_i)
    SCALE_RHS            // out_i = d_i b_i - s_i
};

// A FinishKind with its operands. Operands that this kind does not use are ignored. X is the type of the vectors and of
// the row sums. Sums over all rows are in double.
template <class X> struct RowFinish {
    int kind, unused; // kind: a value of FinishKind
    const X *b, *d, *sum_operand;
    X *out, *scaled_residual, *z;
    double step_factor, residual_factor;
    Sum sum;
};

// Computes the results of row i from its sum s. Returns the term of row i in the sum over all rows.
template <class X> __device__ inline double finish_row(const RowFinish<X> &a, const X *x, unsigned i, X s) {
    const bool needs_sum = a.sum.partial != nullptr;
    switch (a.kind) {
    case STORE_SUM: a.out[i] = s; return needs_sum ? double(x[i]) * s : 0.0;
    case RESIDUAL: {
        const X r = a.b[i] - s;
        a.out[i] = r;
        return double(r) * r;
    }
    case SCALED_RESIDUAL: a.out[i] = a.d[i] * (a.b[i] - s); return 0.0;
    case SUBTRACT_SCALED_SUM: {
        const X v = a.b[i] - a.d[i] * s;
        a.out[i] = v;
        return needs_sum ? double(a.sum_operand[i]) * v : 0.0;
    }
    case CHEBYSHEV: {
        const X scaled_residual = a.scaled_residual[i] - a.d[i] * s;
        const X step = X(a.step_factor * x[i] + a.residual_factor * scaled_residual), z = a.z[i] + step;
        a.scaled_residual[i] = scaled_residual;
        a.out[i] = step;
        a.z[i] = z;
        return needs_sum ? double(a.sum_operand[i]) * z : 0.0;
    }
    case RELAX: a.out[i] += a.d[i] * (a.b[i] - s); return 0.0;
    default: a.out[i] = a.d[i] * a.b[i] - s; return 0.0;
    }
}

// Long rows. A whole thread block computes each of them.
struct LongRows {
    const unsigned *rows; // rows[k]: row index of long row k
    const int64_t *entry_ranges; // long row k has the entries entry_ranges[2 k], ..., entry_ranges[2 k + 1] - 1
    int64_t count;
};

// Computes the long rows of this thread block. Each thread adds every THREADS-th entry of a row, in order. Then the
// block adds the sums of its threads in a fixed order. Returns the terms of these rows in the sum over all rows.
template <class V, class X>
__device__ inline double compute_long_rows(
    const LongRows &a, const unsigned *col, const V *val, const X *x, const RowFinish<X> &finish) {
    double sum = 0.0;
    for (int64_t k = blockIdx.x; k < a.count; k += gridDim.x) {
        double s = 0.0;
        for (int64_t e = a.entry_ranges[2 * k] + threadIdx.x; e < a.entry_ranges[2 * k + 1]; e += THREADS)
            s += double(ldg(val[e])) * x[ldg(col[e])];
        s = block_sum(s);
        if (threadIdx.x == 0) sum += finish_row(finish, x, a.rows[k], X(s));
    }
    return sum;
}

} // namespace sparse

// SPARSE_KERNEL defines the kernel NAME, which has an argument of type ARGS and passes it to the function in the last
// macro argument. SPARSE_REAL defines one kernel for vectors in f64 and one for vectors in f32. SPARSE_IN_FORMATS
// defines three kernels: for matrix values and vectors in f64, for matrix values in f32 and vectors in f64, and for
// both in f32.
#define SPARSE_KERNEL(NAME, ARGS, ...) CELL_KERNEL(sparse, NAME, ARGS, __VA_ARGS__)
#define SPARSE_REAL(NAME, ARGS, BODY)                                                                                  \
    SPARSE_KERNEL(NAME##_f64, ARGS<double>, BODY)                                                                      \
    SPARSE_KERNEL(NAME##_f32, ARGS<float>, BODY)
#define SPARSE_IN_FORMATS(NAME, ARGS, BODY)                                                                            \
    SPARSE_KERNEL(NAME##_f64, ARGS<double>, BODY<double, double>)                                                      \
    SPARSE_KERNEL(NAME##_f32, ARGS<double>, BODY<float, double>)                                                       \
    SPARSE_KERNEL(NAME##_single, ARGS<float>, BODY<float, float>)

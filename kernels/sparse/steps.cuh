// Vector steps of the methods for general matrices: inner products, linear combinations, diagonal preconditioners, the
// start of a Chebyshev polynomial, random vectors, and the passes of CG with a diagonal M.
//
// Per row, a kernel moves 8 bytes (f32: 4) for each vector that it reads, and for each vector that it writes. V is the
// type of the vectors, except x, which is in double. Scalars and sums over all rows are in double.
#include "rows.cuh"

namespace sparse {

constexpr int SUMS_PER_PASS = 8; // largest number of inner products, or of terms of a linear combination, per launch

template <class V> struct InnerProductsArgs {
    int64_t count;
    const V *a, *b[8];
    int64_t n; // number of vectors b[k], at most SUMS_PER_PASS
    double *partial_sums, *products; // partial_sums: SUMS_PER_PASS values per block
    Scalars *scalars;
};

// Computes products[k] = <a, b[k]> for k < n.
template <class V> __device__ inline void inner_products(const InnerProductsArgs<V> &a) {
    double sums[SUMS_PER_PASS] = {};
    for_each_cell(a.count, [&](int64_t i) {
        const double v = a.a[i];
#pragma unroll
        for (int k = 0; k < SUMS_PER_PASS; ++k)
            if (k < a.n) sums[k] += v * a.b[k][i];
    });
    for (int k = 0; k < SUMS_PER_PASS; ++k) {
        if (k >= a.n) break;
        double thread_sum = 0.0;
#pragma unroll
        for (int u = 0; u < SUMS_PER_PASS; ++u)
            if (u == k) thread_sum = sums[u];
        const double sum = block_sum(thread_sum);
        if (threadIdx.x == 0) a.partial_sums[k * gridDim.x + blockIdx.x] = sum;
    }
    if (!is_last_block(&a.scalars->ticket)) return;
    for (int k = 0; k < a.n; ++k) {
        const double sum = sum_of(a.partial_sums + k * gridDim.x, gridDim.x);
        if (threadIdx.x == 0) a.products[k] = sum;
    }
}

template <class V> struct CombineArgs {
    int64_t count;
    void *target;
    const V *v[8];
    double factor[8];
    double scale;
    int64_t n; // number of vectors v[k], at most SUMS_PER_PASS
    Sum sum;
};

// Computes target = scale target + sum_k factor[k] v[k], and <target, target>. If scale = 0, the old values of `target`
// are not read. T is the type of the elements of `target`.
template <class V, class T> __device__ inline void combine(const CombineArgs<V> &a) {
    T *target = static_cast<T *>(a.target);
    double sum = 0.0;
    for_each_cell(a.count, [&](int64_t i) {
        double v = a.scale == 0.0 ? 0.0 : a.scale * target[i];
#pragma unroll
        for (int k = 0; k < SUMS_PER_PASS; ++k)
            if (k < a.n) v += a.factor[k] * a.v[k][i];
        const T out = T(v);
        target[i] = out;
        sum += double(out) * out;
    });
    finish_sum(a.sum, sum);
}

template <class V> struct DiagonalArgs {
    int64_t count;
    const V *d, *v; // d: diagonal of a matrix; NULL: the identity
    V *out, *step, *z;
    double *x;
    double factor;
    Sum sum;
};

template <class V> __device__ inline double diagonal_entry(const DiagonalArgs<V> &a, int64_t i) {
    return a.d ? double(ldg(a.d[i])) : 1.0;
}

// Computes out = d v, and the sum <v, out>.
template <class V> __device__ inline void multiply_by_diagonal(const DiagonalArgs<V> &a) {
    if (is_over(a.sum)) return;
    double sum = 0.0;
    for_each_cell(a.count, [&](int64_t i) {
        const V v = a.v[i], out = V(diagonal_entry(a, i) * v);
        a.out[i] = out;
        sum += double(v) * out;
    });
    finish_sum(a.sum, sum);
}

// Computes out = d v, step = factor out and z = step, and the sum <v, z>.
template <class V> __device__ inline void begin_chebyshev(const DiagonalArgs<V> &a) {
    if (is_over(a.sum)) return;
    double sum = 0.0;
    for_each_cell(a.count, [&](int64_t i) {
        const V v = a.v[i], scaled_residual = V(diagonal_entry(a, i) * v), step = V(a.factor * scaled_residual);
        a.out[i] = scaled_residual;
        a.step[i] = step;
        a.z[i] = step;
        sum += double(v) * step;
    });
    finish_sum(a.sum, sum);
}

// Computes out = out + factor d v.
template <class V> __device__ inline void add_scaled_by_diagonal(const DiagonalArgs<V> &a) {
    for_each_cell(a.count, [&](int64_t i) {
        a.out[i] = V(a.out[i] + a.factor * diagonal_entry(a, i) * a.v[i]);
    });
}

// First pass of an iteration of CG with M^-1 = diag(d): computes r = r - alpha q, where out = r and v = q. Then updates
// the scalars of CG with <r, r> and rho = <r, d r>. `partial_sums` contains two values per block.
template <class V> __device__ inline void descend_by_diagonal(const DiagonalArgs<V> &a) {
    if (is_over(a.sum)) return;
    const double alpha = a.sum.scalars->alpha;
    double norm2 = 0.0, rho = 0.0;
    for_each_cell(a.count, [&](int64_t i) {
        const V r = V(a.out[i] - alpha * a.v[i]);
        a.out[i] = r;
        norm2 += double(r) * r;
        rho += diagonal_entry(a, i) * r * r;
    });
    norm2 = block_sum(norm2);
    rho = block_sum(rho);
    double *partial_sums = a.sum.partial;
    if (threadIdx.x == 0) {
        partial_sums[blockIdx.x] = norm2;
        partial_sums[gridDim.x + blockIdx.x] = rho;
    }
    if (!is_last_block(&a.sum.scalars->ticket)) return;
    norm2 = sum_of(partial_sums, gridDim.x);
    rho = sum_of(partial_sums + gridDim.x, gridDim.x);
    if (threadIdx.x == 0) update_with_sums(*a.sum.scalars, a.sum.scalars->ring, rho, norm2, LOOP);
}

// Second pass of an iteration of CG with M^-1 = diag(d): computes x = x + alpha p and p = d r + beta p, where out = p
// and v = r. If the loop has ended, computes only x.
template <class V> __device__ inline void advance_by_diagonal(const DiagonalArgs<V> &a) {
    const double alpha = a.sum.scalars->alpha, beta = a.sum.scalars->beta;
    const bool has_ended = a.sum.scalars->code != RUNNING;
    for_each_cell(a.count, [&](int64_t i) {
        const V p = a.out[i];
        a.x[i] += alpha * p;
        if (!has_ended) a.out[i] = V(diagonal_entry(a, i) * a.v[i] + beta * p);
    });
}

template <class V> struct RandomArgs {
    int64_t count;
    V *target;
    uint64_t seed;
};

// Computes target_i = 2 u_i - 1, where u_i in [0, 1) is output i of the generator SplitMix64 (Steele, Lea, Flood,
// OOPSLA 2014).
template <class V> __device__ inline void fill_random(const RandomArgs<V> &a) {
    for_each_cell(a.count, [&](int64_t i) {
        uint64_t z = a.seed + (uint64_t(i) + 1) * 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        a.target[i] = V(2.0 * (double((z ^ (z >> 31)) >> 11) / 9007199254740992.0) - 1.0);
    });
}

} // namespace sparse

SPARSE_REAL(sparse_sum_inner_products, InnerProductsArgs, inner_products)
SPARSE_KERNEL(sparse_combine_f64, CombineArgs<double>, combine<double, double>)
SPARSE_KERNEL(sparse_combine_f32, CombineArgs<float>, combine<float, float>)
SPARSE_KERNEL(sparse_combine_to_f64, CombineArgs<float>, combine<float, double>)
SPARSE_REAL(sparse_scale_by_diagonal, DiagonalArgs, multiply_by_diagonal)
SPARSE_REAL(sparse_begin_chebyshev, DiagonalArgs, begin_chebyshev)
SPARSE_REAL(sparse_add_scaled_by_diagonal, DiagonalArgs, add_scaled_by_diagonal)
SPARSE_REAL(sparse_descend_by_diagonal, DiagonalArgs, descend_by_diagonal)
SPARSE_REAL(sparse_advance_by_diagonal, DiagonalArgs, advance_by_diagonal)
SPARSE_REAL(sparse_fill_random, RandomArgs, fill_random)
// VECTOR_KERNELS defines the f64 variants of the following kernels.
SPARSE_KERNEL(sparse_dot_f32, VectorArgs<float>, dot)
SPARSE_KERNEL(sparse_add_scaled_f32, VectorArgs<float>, add_scaled)
SPARSE_KERNEL(sparse_advance_f32, VectorArgs<float>, advance)

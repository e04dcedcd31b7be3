// Products with a matrix in the formats csr, sell (and ell, which is sell with one slice), dia (and diagonal) and bsr.
// docs/theory/sparse.md defines the formats. Column indices have 32 bits, offsets into the arrays 64 bits.
//
// For each stored value, a product reads the value, of 8 bytes (f32: 4), and a column index of 4 bytes. In bsr, there
// is one column index per block. In dia, there are no column indices. X is the type of the vectors and of the row sums,
// and V the type of the matrix values.
#pragma once
#include "rows.cuh"

namespace sparse {

template <class X> struct CsrArgs {
    int64_t first_position, end_position; // positions of the rows to compute
    const int64_t *ptr; // the row at position p has the entries ptr[p], ..., ptr[p + 1] - 1
    const unsigned *col, *rows; // rows: row at each position; NULL: row and position are equal
    const void *val;
    int64_t max_row_len; // rows with more entries are in `long_rows`
    LongRows long_rows;
    int threads_per_row, unused; // threads_per_row: a power of two, at most 32
    const X *x;
    RowFinish<X> finish;
};

// Number of entries of a row that a thread loads before it uses the first one.
constexpr int BATCH = 8;
constexpr unsigned NO_INDEX = 0xffffffffu;

// Returns the sum of val[k] x[col[k]] over k = 0, stride, ..., (BATCH - 1) stride, without the terms k >= end.
template <class V, class X, class Index>
__device__ inline X sum_batch(const V *val, const unsigned *col, const X *x, Index end, Index stride) {
    X v[BATCH];
    unsigned j[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
        const bool is_inside = u * stride < end;
        v[u] = is_inside ? X(ldcs(val[u * stride])) : X(0);
        j[u] = is_inside ? ldcs(col[u * stride]) : NO_INDEX;
    }
    X s = 0;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) s += v[u] * (j[u] != NO_INDEX ? x[j[u]] : X(0));
    return s;
}

// Computes the rows of a matrix in csr. `threads_per_row` threads compute a row and add their partial sums pairwise.
template <class V, class X> __device__ inline void multiply_csr(const CsrArgs<X> &a) {
    if (is_over(a.finish.sum)) return;
    const V *val = static_cast<const V *>(a.val);
    const int rows_per_warp = 32 / a.threads_per_row, lane = threadIdx.x % a.threads_per_row;
    const int row_in_warp = threadIdx.x % 32 / a.threads_per_row;
    const int64_t grid_stride = int64_t(gridDim.x) * (THREADS / 32) * rows_per_warp;
    double sum = 0.0;
    // All threads of a warp execute the same number of rounds, because each shuffle needs all threads of the warp.
    const int64_t warp_index = int64_t(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    for (int64_t warp_position = a.first_position + warp_index * rows_per_warp; warp_position < a.end_position;
         warp_position += grid_stride) {
        const int64_t position = warp_position + row_in_warp;
        const bool has_row = position < a.end_position;
        const int64_t row_start = has_row ? ldg(a.ptr[position]) : 0, row_end = has_row ? ldg(a.ptr[position + 1]) : 0;
        const bool is_long = row_end - row_start > a.max_row_len;
        X s = 0;
        if (!is_long) {
            for (int64_t entry = row_start + lane; entry < row_end; entry += BATCH * a.threads_per_row)
                s += sum_batch(val + entry, a.col + entry, a.x, int(row_end - entry), a.threads_per_row);
        }
        for (int k = a.threads_per_row / 2; k > 0; k /= 2) s += __shfl_xor_sync(0xffffffffu, s, k);
        if (has_row && !is_long && lane == 0)
            sum += finish_row(a.finish, a.x, a.rows ? ldg(a.rows[position]) : unsigned(position), s);
    }
    sum += compute_long_rows(a.long_rows, a.col, val, a.x, a.finish);
    finish_sum(a.finish.sum, sum);
}

template <class X> struct SellArgs {
    int64_t position_count; // number of slices times slice_rows
    const int64_t *offset; // slice s has the values offset[s], ..., offset[s + 1] - 1
    // rows: row at each position, or NO_INDEX for padding and long rows; NULL: row and position are equal
    const unsigned *col, *rows;
    const void *val;
    LongRows long_rows;
    int64_t slice_rows;
    const X *x;
    RowFinish<X> finish;
};

// Computes the rows that are stored in slices of `slice_rows` rows, one thread per row. Index is the type of indices
// relative to the first value of a batch. These indices are at most BATCH slice_rows.
template <class V, class X, class Index>
__device__ inline double compute_sell_rows(const SellArgs<X> &a, Index slice_rows) {
    const V *val = static_cast<const V *>(a.val);
    double sum = 0.0;
    for_each_cell(a.position_count, [&](int64_t position) {
        const unsigned p = unsigned(position), row = a.rows ? ldg(a.rows[p]) : p, slice = p / unsigned(slice_rows);
        if (row == NO_INDEX) return;
        const int64_t end = ldg(a.offset[slice + 1]), step = BATCH * int64_t(slice_rows);
        X s = 0;
        for (int64_t entry = ldg(a.offset[slice]) + (p - slice * unsigned(slice_rows)); entry < end; entry += step)
            s += sum_batch(val + entry, a.col + entry, a.x, Index(min(end - entry, step)), slice_rows);
        sum += finish_row(a.finish, a.x, row, s);
    });
    return sum;
}

// Computes the rows of a matrix in sell, including the long rows.
template <class V, class X> __device__ inline void multiply_sell(const SellArgs<X> &a) {
    if (is_over(a.finish.sum)) return;
    // With a slice of 32 rows, the compiler replaces divisions by shifts, and 32-bit indices suffice.
    double sum = a.slice_rows == 32 ? compute_sell_rows<V>(a, 32) : compute_sell_rows<V>(a, a.slice_rows);
    sum += compute_long_rows(a.long_rows, a.col, static_cast<const V *>(a.val), a.x, a.finish);
    finish_sum(a.finish.sum, sum);
}

// Maximum number of diagonals whose offsets are kernel arguments, which are faster to read than device memory.
constexpr int INLINE_OFFSET_COUNT = 32;

template <class X> struct DiaArgs {
    int64_t rows, input_len; // lengths of the result and of x, both below 2^31
    int64_t diagonal_len;    // values per diagonal
    int64_t diagonal_count;
    const int *offset;       // column minus row
    int inline_offsets[32];  // the first INLINE_OFFSET_COUNT offsets
    const void *val;         // a(i, i + offset[d]) = val[d diagonal_len + i]
    int64_t transposed;      // 1: computes A^T x; 0: computes A x
    const X *x;
    RowFinish<X> finish;
};

// Returns the sum of the terms of row i for the diagonals first_diagonal to first_diagonal + BATCH - 1. offset(d)
// returns the offset of diagonal d. Column indices are computed modulo 2^32, so that a negative index becomes larger
// than the last column.
template <class V, class X, class F>
__device__ inline X sum_diagonals(const DiaArgs<X> &a, const V *val, unsigned i, int first_diagonal, F offset) {
    const unsigned input_len = unsigned(a.input_len), diagonal_len = unsigned(a.diagonal_len);
    X v[BATCH], x[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
        const int d = first_diagonal + u;
        const bool exists = d < a.diagonal_count;
        const unsigned distance = exists ? unsigned(offset(d)) : 0u;
        const unsigned j = a.transposed ? i - distance : i + distance, index = a.transposed ? j : i;
        const bool is_inside = exists && j < input_len && index < diagonal_len;
        v[u] = is_inside ? X(ldcs(val[d * a.diagonal_len + index])) : X(0);
        x[u] = is_inside ? a.x[j] : X(0);
    }
    X s = 0;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) s += v[u] * x[u];
    return s;
}

// Computes the rows of A x, or of A^T x if `transposed` is 1, for a matrix in dia. One thread computes a row.
template <class V, class X> __device__ inline void multiply_dia(const DiaArgs<X> &a) {
    if (is_over(a.finish.sum)) return;
    const V *val = static_cast<const V *>(a.val);
    const int diagonal_count = int(a.diagonal_count), inline_count = min(diagonal_count, INLINE_OFFSET_COUNT);
    double sum = 0.0;
    for_each_cell(a.rows, [&](int64_t row) {
        const unsigned i = unsigned(row);
        X s = 0;
        for (int first_diagonal = 0; first_diagonal < inline_count; first_diagonal += BATCH)
            s += sum_diagonals(a, val, i, first_diagonal, [&](int d) { return a.inline_offsets[d]; });
        for (int first_diagonal = INLINE_OFFSET_COUNT; first_diagonal < diagonal_count; first_diagonal += BATCH)
            s += sum_diagonals(a, val, i, first_diagonal, [&](int d) { return ldg(a.offset[d]); });
        sum += finish_row(a.finish, a.x, i, s);
    });
    finish_sum(a.finish.sum, sum);
}

template <class X> struct BsrArgs {
    int64_t rows, cols;
    const int64_t *ptr; // block row k has the blocks ptr[k], ..., ptr[k + 1] - 1
    const unsigned *col; // block column of each block
    const void *val;
    int64_t block_size;
    const X *x;
    RowFinish<X> finish;
};

// Computes the rows of a matrix in bsr with N x N blocks, one thread per row. N = 0 means that the block size is
// a.block_size.
template <int N, class V, class X> __device__ inline double compute_bsr_rows(const BsrArgs<X> &a) {
    const int b = N > 0 ? N : int(a.block_size);
    double sum = 0.0;
    for_each_cell(a.rows, [&](int64_t i) {
        const unsigned row = unsigned(i) / unsigned(b), row_in_block = unsigned(i) - row * unsigned(b);
        X s = 0;
        for (int64_t e = ldg(a.ptr[row]); e < ldg(a.ptr[row + 1]); ++e) {
            const V *values = static_cast<const V *>(a.val) + (e * b + row_in_block) * b;
            const int64_t first_column = int64_t(ldg(a.col[e])) * b;
            for (int k = 0; k < b; ++k)
                if (first_column + k < a.cols) s += X(ldg(values[k])) * a.x[first_column + k];
        }
        sum += finish_row(a.finish, a.x, unsigned(i), s);
    });
    return sum;
}

// Computes s_i = sum_j a_ij x_j in bsr, by the kernel for the size of the blocks (docs/theory/sparse.md).
template <class V, class X> __device__ inline void multiply_bsr(const BsrArgs<X> &a) {
    if (is_over(a.finish.sum)) return;
    double sum = 0.0;
    switch (a.block_size) {
    case 2: sum = compute_bsr_rows<2, V>(a); break;
    case 3: sum = compute_bsr_rows<3, V>(a); break;
    case 4: sum = compute_bsr_rows<4, V>(a); break;
    case 6: sum = compute_bsr_rows<6, V>(a); break;
    default: sum = compute_bsr_rows<0, V>(a);
    }
    finish_sum(a.finish.sum, sum);
}

struct GatherArgs {
    int64_t count; // length of `to`
    // to[k] is the sum of the values with the indices order[start[k]], ..., order[start[k + 1] - 1]. NULL: to[k] is the
    // single value with the index order[k].
    const unsigned *start;
    const unsigned *order; // indices in `values`; NO_INDEX: padding
    const double *values;
    double *to;
};

// Computes to[k] = sum of values[order[i]] over i = start[k], ..., start[k + 1] - 1, in this order. If `start` is NULL,
// computes to[k] = values[order[k]], or 0 for padding. Moves 20 bytes per value and, with `start`, 4 bytes per sum. A
// sum starts from -0, because -0 + v = v for every v, including -0.
__device__ inline void gather_values(const GatherArgs &a) {
    for_each_cell(a.count, [&](int64_t k) {
        if (a.start == nullptr) {
            const unsigned index = ldg(a.order[k]);
            a.to[k] = index == NO_INDEX ? 0.0 : a.values[index];
            return;
        }
        double sum = -0.0;
        for (unsigned i = ldg(a.start[k]); i < ldg(a.start[k + 1]); ++i)
            sum += a.values[ldg(a.order[i])];
        a.to[k] = sum;
    });
}

struct RoundArgs {
    int64_t count;
    const double *source;
    float *target;
};

// Computes target = source, rounded to f32.
__device__ inline void round_to_f32(const RoundArgs &a) {
    for_each_cell(a.count, [&](int64_t k) { a.target[k] = float(a.source[k]); });
}

} // namespace sparse

SPARSE_IN_FORMATS(sparse_csr, CsrArgs, multiply_csr)
SPARSE_IN_FORMATS(sparse_sell, SellArgs, multiply_sell)
SPARSE_IN_FORMATS(sparse_dia, DiaArgs, multiply_dia)
SPARSE_IN_FORMATS(sparse_bsr, BsrArgs, multiply_bsr)
SPARSE_KERNEL(sparse_gather_f64, GatherArgs, gather_values)
SPARSE_KERNEL(sparse_round_values_f64, RoundArgs, round_to_f32)

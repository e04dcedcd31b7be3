// Products with a matrix in the formats csr, sell (and ell, which is sell with one slice), dia (and diagonal) and bsr.
// docs/theory/sparse.md defines the formats. Column indices have 32 bits, offsets into the arrays 64 bits.
//
// A product reads, in addition to the vectors, for each stored value its 8 bytes (f32: 4) and the 4 bytes of its column
// index. In bsr, only each block has a column index, and in dia there are none. X is the type of the vectors and of the
// row sums. V is the type of the values.
#include "rows.cuh"

namespace sparse {

template <class X> struct CsrArgs {
    int64_t first, end;    // positions of the rows to compute
    const int64_t *ptr;    // start of the row at each position, and the end of the last row
    const unsigned *col, *rows; // rows: row at each position; null: the position
    const void *val;
    int64_t longest; // rows with more entries belong to the long rows
    LongRows separate;
    int lanes, unused; // threads per row: a power of two, at most 32
    const X *x;
    RowFinish<X> finish;
};

// Number of entries of a row whose loads a thread issues together.
constexpr int BATCH = 8;
constexpr unsigned NOTHING_THERE = 0xffffffffu;

// Returns the sum of v_k x_(j_k) over k = 0, step, 2 step, ... below `end`: the first BATCH terms.
template <class V, class X, class Index>
__device__ inline X batch(const V *val, const unsigned *col, const X *x, Index end, Index step) {
    X v[BATCH];
    unsigned j[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
        const bool here = u * step < end;
        v[u] = here ? X(ldcs(val[u * step])) : X(0);
        j[u] = here ? ldcs(col[u * step]) : NOTHING_THERE;
    }
    X s = 0;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) s += v[u] * (j[u] != NOTHING_THERE ? x[j[u]] : X(0));
    return s;
}

// Computes rows in csr. `lanes` threads compute a row and add their partial sums pairwise.
template <class V, class X> __device__ inline void csr(const CsrArgs<X> &a) {
    if (is_over(a.finish.sum)) return;
    const V *val = static_cast<const V *>(a.val);
    const int per_warp = 32 / a.lanes, lane = threadIdx.x % a.lanes, own = threadIdx.x % 32 / a.lanes;
    const int64_t step = int64_t(gridDim.x) * (THREADS / 32) * per_warp;
    double sum = 0.0;
    // All threads of a warp execute the same number of rounds, because shuffles need all of them.
    for (int64_t warp = a.first + (int64_t(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32) * per_warp; warp < a.end;
         warp += step) {
        const int64_t position = warp + own;
        const bool here = position < a.end;
        const int64_t start = here ? ldg(a.ptr[position]) : 0, end = here ? ldg(a.ptr[position + 1]) : 0;
        const bool is_long = end - start > a.longest;
        X s = 0;
        if (!is_long) {
            for (int64_t first = start + lane; first < end; first += BATCH * a.lanes)
                s += batch(val + first, a.col + first, a.x, int(end - first), a.lanes);
        }
        for (int k = a.lanes / 2; k > 0; k /= 2) s += __shfl_xor_sync(0xffffffffu, s, k);
        if (here && !is_long && lane == 0)
            sum += finish_row(a.finish, a.x, a.rows ? ldg(a.rows[position]) : unsigned(position), s);
    }
    sum += long_rows(a.separate, a.col, val, a.x, a.finish);
    finish_sum(a.finish.sum, sum);
}

template <class X> struct SellArgs {
    int64_t lanes; // number of positions: slices times rows per slice
    const int64_t *offset; // start of each slice, and the end of the last slice
    const unsigned *col, *rows; // rows: row at each position, or NOTHING_THERE; null: the position
    const void *val;
    LongRows separate;
    int64_t slice; // rows per slice
    const X *x;
    RowFinish<X> finish;
};

// Computes the rows at all positions in sell, one thread per row, where a slice consists of `slice` rows.
template <class V, class X, class Index> __device__ inline double sell_rows(const SellArgs<X> &a, Index slice) {
    const V *val = static_cast<const V *>(a.val);
    double sum = 0.0;
    over_cells(a.lanes, [&](int64_t position) {
        const unsigned p = unsigned(position), row = a.rows ? ldg(a.rows[p]) : p, number = p / unsigned(slice);
        if (row == NOTHING_THERE) return;
        const int64_t end = ldg(a.offset[number + 1]), step = BATCH * int64_t(slice);
        X s = 0;
        for (int64_t first = ldg(a.offset[number]) + (p - number * unsigned(slice)); first < end; first += step)
            s += batch(val + first, a.col + first, a.x, Index(min(end - first, step)), slice);
        sum += finish_row(a.finish, a.x, row, s);
    });
    return sum;
}

// Computes rows in sell.
template <class V, class X> __device__ inline void sell(const SellArgs<X> &a) {
    if (is_over(a.finish.sum)) return;
    // With a slice of 32 rows, the compiler replaces divisions by shifts, and 32-bit indices suffice.
    double sum = a.slice == 32 ? sell_rows<V>(a, 32) : sell_rows<V>(a, a.slice);
    sum += long_rows(a.separate, a.col, static_cast<const V *>(a.val), a.x, a.finish);
    finish_sum(a.finish.sum, sum);
}

// Number of diagonals whose offsets the arguments contain. They are faster to read than device memory.
constexpr int NEAR = 32;

template <class X> struct DiaArgs {
    int64_t rows, inputs;  // lengths of the result and of x, below 2^31
    int64_t length;        // values per diagonal
    int64_t count;         // number of diagonals
    const int *offset;     // column minus row
    int near[32];          // the first NEAR offsets
    const void *val;       // a(i, i + offset[d]) = val[d length + i]
    int64_t transposed;
    const X *x;
    RowFinish<X> finish;
};

// Adds the terms of the diagonals `first` to first + BATCH - 1 to the sum of row i. `offset` returns the offset of a
// diagonal. Column indices are computed modulo 2^32: the indices before the first column become larger than the last.
template <class V, class X, class F>
__device__ inline X diagonals(const DiaArgs<X> &a, const V *val, unsigned i, int first, F offset) {
    const unsigned inputs = unsigned(a.inputs), length = unsigned(a.length);
    X v[BATCH], x[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
        const int d = first + u;
        const bool exists = d < a.count;
        const unsigned distance = exists ? unsigned(offset(d)) : 0u;
        const unsigned j = a.transposed ? i - distance : i + distance, index = a.transposed ? j : i;
        const bool here = exists && j < inputs && index < length;
        v[u] = here ? X(ldcs(val[d * a.length + index])) : X(0);
        x[u] = here ? a.x[j] : X(0);
    }
    X s = 0;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) s += v[u] * x[u];
    return s;
}

// Computes rows in dia, or with `transposed` rows of the product with A^T, one thread per row.
template <class V, class X> __device__ inline void dia(const DiaArgs<X> &a) {
    if (is_over(a.finish.sum)) return;
    const V *val = static_cast<const V *>(a.val);
    const int count = int(a.count), near = min(count, NEAR);
    double sum = 0.0;
    over_cells(a.rows, [&](int64_t row) {
        const unsigned i = unsigned(row);
        X s = 0;
        for (int first = 0; first < near; first += BATCH)
            s += diagonals(a, val, i, first, [&](int d) { return a.near[d]; });
        for (int first = NEAR; first < count; first += BATCH)
            s += diagonals(a, val, i, first, [&](int d) { return ldg(a.offset[d]); });
        sum += finish_row(a.finish, a.x, i, s);
    });
    finish_sum(a.finish.sum, sum);
}

template <class X> struct BsrArgs {
    int64_t rows, cols;
    const int64_t *ptr; // start of each block row, and the end of the last block row
    const unsigned *col; // block columns
    const void *val;
    int64_t block;
    const X *x;
    RowFinish<X> finish;
};

// Computes rows in bsr with N x N blocks, one thread per row. With N = 0, the arguments contain the block size.
template <int N, class V, class X> __device__ inline double bsr_rows(const BsrArgs<X> &a) {
    const int b = N > 0 ? N : int(a.block);
    double sum = 0.0;
    over_cells(a.rows, [&](int64_t i) {
        const unsigned row = unsigned(i) / unsigned(b), within = unsigned(i) - row * unsigned(b);
        X s = 0;
        for (int64_t e = ldg(a.ptr[row]); e < ldg(a.ptr[row + 1]); ++e) {
            const V *values = static_cast<const V *>(a.val) + (e * b + within) * b;
            const int64_t first = int64_t(ldg(a.col[e])) * b;
            for (int k = 0; k < b; ++k)
                if (first + k < a.cols) s += X(ldg(values[k])) * a.x[first + k];
        }
        sum += finish_row(a.finish, a.x, unsigned(i), s);
    });
    return sum;
}

template <class V, class X> __device__ inline void bsr(const BsrArgs<X> &a) {
    if (is_over(a.finish.sum)) return;
    double sum = 0.0;
    switch (a.block) {
    case 2: sum = bsr_rows<2, V>(a); break;
    case 3: sum = bsr_rows<3, V>(a); break;
    case 4: sum = bsr_rows<4, V>(a); break;
    case 6: sum = bsr_rows<6, V>(a); break;
    default: sum = bsr_rows<0, V>(a);
    }
    finish_sum(a.finish.sum, sum);
}

struct GatherArgs {
    int64_t count; // length of `to`
    // The elements start[k] .. start[k + 1] - 1 of `order` belong to to[k]; NULL: the element k belongs to to[k].
    const unsigned *start;
    const unsigned *order; // index in `values`, or NOTHING_THERE for padding
    const double *values;
    double *to;
};

// Permutes values and adds duplicates, in the order in which `order` lists them. Cost: 20 bytes per value, and 4 bytes
// per sum. A sum starts from -0, because -0 + v = v for every v, including -0.
__device__ inline void gather(const GatherArgs &a) {
    over_cells(a.count, [&](int64_t k) {
        if (a.start == nullptr) {
            const unsigned index = ldg(a.order[k]);
            a.to[k] = index == NOTHING_THERE ? 0.0 : a.values[index];
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
    const double *from;
    float *to;
};

// Rounds `from` to f32.
__device__ inline void round(const RoundArgs &a) {
    over_cells(a.count, [&](int64_t k) { a.to[k] = float(a.from[k]); });
}

} // namespace sparse

SPARSE_IN_FORMATS(sparse_csr, CsrArgs, csr)
SPARSE_IN_FORMATS(sparse_sell, SellArgs, sell)
SPARSE_IN_FORMATS(sparse_dia, DiaArgs, dia)
SPARSE_IN_FORMATS(sparse_bsr, BsrArgs, bsr)
SPARSE_KERNEL(sparse_gather_f64, GatherArgs, gather)
SPARSE_KERNEL(sparse_round_f64, RoundArgs, round)

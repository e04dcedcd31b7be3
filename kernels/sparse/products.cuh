// Products with a matrix in the formats csr, sell (and ell, which is sell with one slice), dia (and diagonal) and bsr.
// docs/theory/sparse.md defines the formats. Column indices have 32 bits, offsets into the arrays 64 bits.
//
// A product reads, in addition to the vectors, for each stored value its 8 bytes (f32: 4) and the 4 bytes of its column
// index, which dia does not have. X is the type of the vectors and of the row sums. V is the type of the values.
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
    Then<X> then;
};

// Computes rows in csr. `lanes` threads compute a row and add their partial sums pairwise.
template <class V, class X> __device__ inline void csr(const CsrArgs<X> &a) {
    if (is_over(a.then.sum)) return;
    const V *val = static_cast<const V *>(a.val);
    const int per_warp = 32 / a.lanes, lane = threadIdx.x % a.lanes, own = threadIdx.x % 32 / a.lanes;
    const int64_t step = int64_t(gridDim.x) * (THREADS / 32) * per_warp;
    double sum = 0.0;
    // All threads of a warp execute the same number of rounds, because shuffles need all of them.
    for (int64_t warp = a.first + (int64_t(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32) * per_warp; warp < a.end;
         warp += step) {
        const int64_t place = warp + own;
        const bool here = place < a.end;
        const int64_t start = here ? fixed(a.ptr[place]) : 0, end = here ? fixed(a.ptr[place + 1]) : 0;
        const bool is_long = end - start > a.longest;
        X s = 0;
        if (!is_long) {
#pragma unroll 4
            for (int64_t e = start + lane; e < end; e += a.lanes) s += X(fixed(val[e])) * a.x[fixed(a.col[e])];
        }
        for (int k = a.lanes / 2; k > 0; k /= 2) s += __shfl_xor_sync(0xffffffffu, s, k);
        if (here && !is_long && lane == 0)
            sum += finish_row(a.then, a.x, a.rows ? fixed(a.rows[place]) : unsigned(place), s);
    }
    sum += long_rows(a.separate, a.col, val, a.x, a.then);
    finish_sum(a.then.sum, sum);
}

template <class X> struct SellArgs {
    int64_t lanes; // number of positions: slices times rows per slice
    const int64_t *offset; // start of each slice, and the end of the last slice
    const unsigned *col, *rows; // rows: row at each position, or NOTHING_THERE; null: the position
    const void *val;
    LongRows separate;
    int64_t slice; // rows per slice
    const X *x;
    Then<X> then;
};

constexpr unsigned NOTHING_THERE = 0xffffffffu;

// Computes rows in sell, one thread per row. A thread issues the loads of eight entries together.
template <class V, class X> __device__ inline void sell(const SellArgs<X> &a) {
    if (is_over(a.then.sum)) return;
    const V *val = static_cast<const V *>(a.val);
    const unsigned slice = unsigned(a.slice);
    double sum = 0.0;
    over_cells(a.lanes, [&](int64_t p) {
        const unsigned row = a.rows ? fixed(a.rows[p]) : unsigned(p);
        if (row == NOTHING_THERE) return;
        const unsigned number = unsigned(p) / slice;
        const int64_t end = fixed(a.offset[number + 1]);
        X s = 0;
        for (int64_t first = fixed(a.offset[number]) + (unsigned(p) - number * slice); first < end;
             first += 8 * a.slice) {
            X v[8];
            unsigned j[8];
#pragma unroll
            for (int u = 0; u < 8; ++u) {
                const int64_t e = first + u * a.slice;
                v[u] = e < end ? X(fixed(val[e])) : X(0);
                j[u] = e < end ? fixed(a.col[e]) : NOTHING_THERE;
            }
#pragma unroll
            for (int u = 0; u < 8; ++u) s += v[u] * (j[u] != NOTHING_THERE ? a.x[j[u]] : X(0));
        }
        sum += finish_row(a.then, a.x, row, s);
    });
    sum += long_rows(a.separate, a.col, val, a.x, a.then);
    finish_sum(a.then.sum, sum);
}

template <class X> struct DiaArgs {
    int64_t rows, inputs;  // lengths of the result and of x
    int64_t length;        // values per diagonal
    int64_t count;         // number of diagonals
    const int64_t *offset; // column minus row
    const void *val;       // a(i, i + offset[d]) = val[d length + i]
    int64_t transposed;
    const X *x;
    Then<X> then;
};

// Computes rows in dia, or with `transposed` rows of the product with A^T, one thread per row. A thread issues the
// loads of eight diagonals together.
template <class V, class X> __device__ inline void dia(const DiaArgs<X> &a) {
    if (is_over(a.then.sum)) return;
    const V *val = static_cast<const V *>(a.val);
    double sum = 0.0;
    over_cells(a.rows, [&](int64_t i) {
        X s = 0;
        for (int64_t first = 0; first < a.count; first += 8) {
            X v[8], x[8];
#pragma unroll
            for (int u = 0; u < 8; ++u) {
                const int64_t d = first + u;
                const int64_t offset = d < a.count ? fixed(a.offset[d]) : 0;
                const int64_t j = a.transposed ? i - offset : i + offset, place = a.transposed ? j : i;
                const bool here = d < a.count && j >= 0 && j < a.inputs && place < a.length;
                v[u] = here ? X(fixed(val[d * a.length + place])) : X(0);
                x[u] = here ? a.x[j] : X(0);
            }
#pragma unroll
            for (int u = 0; u < 8; ++u) s += v[u] * x[u];
        }
        sum += finish_row(a.then, a.x, unsigned(i), s);
    });
    finish_sum(a.then.sum, sum);
}

template <class X> struct BsrArgs {
    int64_t rows, cols;
    const int64_t *ptr; // start of each block row, and the end of the last block row
    const unsigned *col; // block columns
    const void *val;
    int64_t block;
    const X *x;
    Then<X> then;
};

// Computes rows in bsr with N x N blocks, one thread per row. With N = 0, the arguments contain the block size.
template <int N, class V, class X> __device__ inline double bsr_rows(const BsrArgs<X> &a) {
    const int b = N > 0 ? N : int(a.block);
    double sum = 0.0;
    over_cells(a.rows, [&](int64_t i) {
        const unsigned row = unsigned(i) / unsigned(b), within = unsigned(i) - row * unsigned(b);
        X s = 0;
        for (int64_t e = fixed(a.ptr[row]); e < fixed(a.ptr[row + 1]); ++e) {
            const V *values = static_cast<const V *>(a.val) + (e * b + within) * b;
            const int64_t first = int64_t(fixed(a.col[e])) * b;
            for (int k = 0; k < b; ++k)
                if (first + k < a.cols) s += X(fixed(values[k])) * a.x[first + k];
        }
        sum += finish_row(a.then, a.x, unsigned(i), s);
    });
    return sum;
}

template <class V, class X> __device__ inline void bsr(const BsrArgs<X> &a) {
    if (is_over(a.then.sum)) return;
    double sum = 0.0;
    switch (a.block) {
    case 2: sum = bsr_rows<2, V>(a); break;
    case 3: sum = bsr_rows<3, V>(a); break;
    case 4: sum = bsr_rows<4, V>(a); break;
    case 6: sum = bsr_rows<6, V>(a); break;
    default: sum = bsr_rows<0, V>(a);
    }
    finish_sum(a.then.sum, sum);
}

struct GatherArgs {
    int64_t count;         // number of values of the format
    const unsigned *order; // number of the entry, or NOTHING_THERE for padding
    const double *values;  // values of the entries
    double *to;
};

// Copies the values of the entries to the places of a format: 20 bytes per value.
__device__ inline void gather(const GatherArgs &a) {
    over_cells(a.count, [&](int64_t k) {
        const unsigned entry = fixed(a.order[k]);
        a.to[k] = entry == NOTHING_THERE ? 0.0 : a.values[entry];
    });
}

struct RoundArgs {
    int64_t count;
    const double *from;
    float *to;
};

// Rounds `from` to single precision.
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

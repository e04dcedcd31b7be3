// Inverse of a symmetric positive semidefinite matrix of up to some thousand unknowns, stored by rows in f64.
//
// The method is Gauss-Jordan elimination by blocks of PIVOTS unknowns, without row exchanges. With P = A_kk, step k
// computes
//
//     A_kk = P^-1,   A_kj = P^-1 A_kj,   A_ik = -A_ik P^-1,   A_ij = A_ij - A_ik P^-1 A_kj.
//
// A thread block computes a tile of SIDE x SIDE entries. It reads the matrix from one buffer and writes the result to
// another buffer, so that no thread block reads values that other thread blocks write. The thread block whose tile
// contains the next pivot block also inverts this block, in 16 dependent steps.
//
// For each null vector u of the matrix, whose entries are 0 and 1, the caller removes one unknown by setting its row
// and column to zero. Let G be the inverse for the remaining unknowns, let k = u^T u, and let Q be the product of the
// projections I - u u^T / k. Then Q G Q is the pseudoinverse. Without the projections, G would treat the sum of a
// right-hand side, which is a rounding error, as a source at the removed unknown.
#pragma once
#include "device.cuh"

namespace inverse {

constexpr int THREADS = 256;
constexpr int PIVOTS = 32, SIDE = 64;
// A pivot that is at most this fraction of the unknown's diagonal entry before the elimination is a rounding error. The
// row and the column of this unknown are then set to zero in the inverse.
constexpr double ZERO_PIVOT = 1e-14;
struct InverseArgs {
    const double *source;
    double *target;
    const double *diagonal; // diagonal of the matrix before the elimination
    double *pivots;         // two buffers for inverses of pivot blocks; step k reads buffer k % 2, writes the other one
    int n, step;            // step -1 only inverts the first pivot block
};

// Inverse of the 2 x 2 matrix [a b; b d]; entries of an unknown whose pivot is too small are zero.
struct TwoPivots {
    double a, b, d;
    __device__ void invert(double least_a, double least_d) {
        const double determinant = a * d - b * b;
        const bool drops_a = !(a > least_a), drops_d = drops_a ? !(d > least_d) : !(determinant > least_d * a);
        const double reciprocal = 1.0 / (drops_a ? (drops_d ? 1.0 : d) : drops_d ? a : determinant);
        const double old_a = a;
        a = drops_a ? 0.0 : drops_d ? reciprocal : d * reciprocal;
        b = drops_a || drops_d ? 0.0 : -b * reciprocal;
        d = drops_d ? 0.0 : drops_a ? reciprocal : old_a * reciprocal;
    }
};

// Inverts a block of 32 x 32 entries, two pivots at a time. e[q] is the entry in row threadIdx.x / 32 + 8 q and column
// threadIdx.x % 32. `count` is the number of unknowns of the matrix from the first unknown of this block on. If `count`
// is below 32, the remaining rows and columns of the block are padding.
__device__ inline void invert_pivots(double (&e)[4], const double *diagonal, int count) {
    __shared__ double rows[2][2][PIVOTS], columns[2][2][PIVOTS];
    __shared__ double least_pivots[PIVOTS];
    const int column = threadIdx.x % PIVOTS, first_row = threadIdx.x / PIVOTS;
    if (threadIdx.x < PIVOTS) least_pivots[column] = column < count ? ZERO_PIVOT * ldg(diagonal[column]) : 0.0;
#pragma unroll
    for (int p = 0; p < PIVOTS; p += 2) {
        double (*pivot_rows)[PIVOTS] = rows[p / 2 % 2], (*pivot_columns)[PIVOTS] = columns[p / 2 % 2];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int i = first_row + 8 * q;
            if (i / 2 == p / 2) pivot_rows[i % 2][column] = e[q];
            if (column / 2 == p / 2) pivot_columns[column % 2][i] = e[q];
        }
        __syncthreads();
        TwoPivots inverse = {pivot_rows[0][p], pivot_rows[0][p + 1], pivot_rows[1][p + 1]};
        inverse.invert(least_pivots[p], least_pivots[p + 1]);
        // Computes P^-1 A_pj, and P^-1 in the columns of the pivots.
        const double x = column / 2 == p / 2 ? double(column == p) : pivot_rows[0][column];
        const double y = column / 2 == p / 2 ? double(column == p + 1) : pivot_rows[1][column];
        const double scaled[2] = {inverse.a * x + inverse.b * y, inverse.b * x + inverse.d * y};
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int i = first_row + 8 * q;
            const double old_entry = column / 2 == p / 2 ? 0.0 : e[q];
            const double updated_entry =
                old_entry - (pivot_columns[0][i] * scaled[0] + pivot_columns[1][i] * scaled[1]);
            e[q] = i == p ? scaled[0] : i == p + 1 ? scaled[1] : updated_entry;
        }
    }
}

// Executes one step of the elimination with one thread block per tile of SIDE x SIDE entries. Step -1 needs a single
// thread block.
__device__ inline void execute_step(const InverseArgs &a) {
    __shared__ double pivots[PIVOTS][PIVOTS + 1], pivot_rows[PIVOTS][SIDE], pivot_columns[SIDE][PIVOTS + 1];
    const int n = a.n, tiles = (n + SIDE - 1) / SIDE, t = threadIdx.x, x = t % 16, y = t / 16;
    // The first thread block processes the tile with the next pivots.
    const int next_pivot = PIVOTS * (a.step + 1), pivot_tile = next_pivot / SIDE;
    const int tile = (blockIdx.x + pivot_tile * (tiles + 1)) % (tiles * tiles);
    const int row = tile / tiles * SIDE, column = tile % tiles * SIDE, first_pivot = PIVOTS * a.step;
    auto matrix_entry = [&](int i, int j) { return i < n && j < n ? a.source[int64_t(i) * n + j] : 0.0; };
    auto is_pivot = [&](int i) { return i >= first_pivot && i < first_pivot + PIVOTS; };
    double tile_entries[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const int j = column + x + 16 * c;
            tile_entries[r][c] = is_pivot(j) ? 0.0 : matrix_entry(row + 4 * y + r, j);
        }
    }
    if (a.step >= 0) {
        const double *inverse = a.pivots + a.step % 2 * PIVOTS * PIVOTS;
#pragma unroll
        for (int k = t; k < PIVOTS * PIVOTS; k += THREADS) pivots[k / PIVOTS][k % PIVOTS] = inverse[k];
#pragma unroll
        for (int q = 0; q < PIVOTS * SIDE / THREADS; ++q) {
            const int k = t + THREADS * q, i = first_pivot + k / SIDE, j = column + k % SIDE;
            pivot_rows[k / SIDE][k % SIDE] = is_pivot(j) ? double(i == j) : matrix_entry(i, j);
            pivot_columns[k / PIVOTS][k % PIVOTS] = matrix_entry(row + k / PIVOTS, first_pivot + k % PIVOTS);
        }
        __syncthreads();
        // Computes P^-1 A_kj, and P^-1 in the columns of the pivots.
        double product[2][4] = {};
#pragma unroll 8
        for (int k = 0; k < PIVOTS; ++k) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
#pragma unroll
                for (int r = 0; r < 2; ++r) product[r][c] += pivots[2 * y + r][k] * pivot_rows[k][x + 16 * c];
            }
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            for (int r = 0; r < 2; ++r) pivot_rows[2 * y + r][x + 16 * c] = product[r][c];
        }
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < PIVOTS; ++k) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const double factor = pivot_columns[4 * y + r][k];
#pragma unroll
                for (int c = 0; c < 4; ++c) tile_entries[r][c] -= factor * pivot_rows[k][x + 16 * c];
            }
        }
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int i = row + 4 * y + r;
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                const int j = column + x + 16 * c;
                if (is_pivot(i)) tile_entries[r][c] = pivot_rows[i - first_pivot][x + 16 * c];
                if (i < n && j < n) a.target[int64_t(i) * n + j] = tile_entries[r][c];
            }
        }
    }
    if (blockIdx.x != 0 || next_pivot >= n) return;
    __syncthreads();
    // Beyond the edge of the matrix, the pivot block is padded with the identity.
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const int i = row + 4 * y + r - next_pivot, j = column + x + 16 * c - next_pivot;
            if (i < 0 || i >= PIVOTS || j < 0 || j >= PIVOTS) continue;
            pivots[i][j] = next_pivot + i < n && next_pivot + j < n ? tile_entries[r][c] : double(i == j);
        }
    }
    __syncthreads();
    double e[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) e[q] = pivots[t / PIVOTS + 8 * q][t % PIVOTS];
    invert_pivots(e, a.diagonal + next_pivot, n - next_pivot);
#pragma unroll
    for (int q = 0; q < 4; ++q) a.pivots[(a.step + 1) % 2 * PIVOTS * PIVOTS + t + THREADS * q] = e[q];
}

// The array `null_vector_of` has one word per unknown. The bit IS_REMOVED of this word marks the unknown that is
// removed for a null vector. The other bits contain the number of the null vector to which the unknown belongs, counted
// from 1, or 0 if the unknown belongs to no null vector.
constexpr uint32_t IS_REMOVED = 1u << 31;
// Largest number of unknowns for `find_null_vectors`, which uses one thread per unknown.
constexpr int MAX_UNKNOWNS = 1024;

// Finds the null vectors of a matrix. There is one null vector for each component of at least two unknowns in which all
// row sums are zero. Its entries are 1 in this component, and 0 elsewhere. Returns `null_vector_of` of all unknowns, in
// shared memory. Executed by one thread block of MAX_UNKNOWNS threads; thread k < n has unknown k. `has_row_sum`:
// whether the row sum of this thread's unknown is not zero. If the thread has an unknown, for_each_neighbour(f) must
// call f(q) for each unknown q that is coupled to it.
template <class Each>
__device__ inline const uint32_t *find_null_vectors(int n, bool has_row_sum, Each for_each_neighbour) {
    __shared__ unsigned root[MAX_UNKNOWNS], last_unknown[MAX_UNKNOWNS], null_vector_of[MAX_UNKNOWNS],
        component_has_row_sum[MAX_UNKNOWNS], has_changed;
    const unsigned p = threadIdx.x;
    root[p] = p;
    component_has_row_sum[p] = last_unknown[p] = 0;
    // The smallest number of each component propagates from neighbour to neighbour.
    for (bool is_changing = true; is_changing;) {
        __syncthreads();
        if (p == 0) has_changed = 0;
        unsigned least_root = root[p];
        for_each_neighbour([&](unsigned q) { least_root = min(least_root, root[q]); });
        least_root = min(least_root, root[least_root]);
        __syncthreads();
        if (least_root < root[p]) {
            root[p] = least_root;
            atomicOr(&has_changed, 1u);
        }
        __syncthreads();
        is_changing = has_changed != 0;
    }
    const unsigned own_root = root[p];
    if (has_row_sum) atomicOr(&component_has_row_sum[own_root], 1u);
    if (p < unsigned(n)) atomicMax(&last_unknown[own_root], p);
    __syncthreads();
    const bool is_null = p < unsigned(n) && !component_has_row_sum[own_root] && last_unknown[own_root] != own_root;
    null_vector_of[p] = !is_null ? 0 : last_unknown[own_root] == p ? (own_root + 1) | IS_REMOVED : own_root + 1;
    __syncthreads();
    return null_vector_of;
}

struct NullVectorArgs {
    const double *source;
    double *target;
    const double *diagonal;
    const uint32_t *null_vector_of;
    const uint32_t *null_vector_count; // points to the number of null vectors
    // 1 / (c k^2) and c of each null vector u, where k = u^T u, if E + c u u^T replaces the matrix E; otherwise null.
    double *shift;
    uint64_t *largest; // largest magnitudes of the inverse, and of the diagonal of E + c u u^T
    int n, adds_shift;
};

// Processes the rows whose unknown belongs to a null vector u. In such a row, only the entries in the columns of the
// unknowns of u change. The mean of these entries is subtracted from each of them. With `adds_shift`, 1 / (c k^2) is
// added to each. Stores the transpose of the result for all rows, so that a second call does the same for the columns.
// One thread block processes a row.
__device__ inline void project_inverse(const NullVectorArgs &a) {
    for (int row = blockIdx.x; row < a.n; row += gridDim.x) {
        const double *source = a.source + int64_t(row) * a.n;
        const uint32_t null_vector = a.null_vector_of[row] & ~IS_REMOVED;
        const auto is_in_null_vector = [&](int c) {
            return null_vector > 0 && (ldg(a.null_vector_of[c]) & ~IS_REMOVED) == null_vector;
        };
        double unknown_count = 0.0, sum = 0.0;
        for (int c = threadIdx.x; c < a.n; c += THREADS) {
            if (!is_in_null_vector(c)) continue;
            unknown_count += 1.0;
            sum += source[c];
        }
        unknown_count = block_sum(unknown_count);
        const double change =
            (a.adds_shift && null_vector > 0 ? a.shift[2 * null_vector - 2] : 0.0) - block_sum(sum) / unknown_count;
        for (int c = threadIdx.x; c < a.n; c += THREADS)
            a.target[int64_t(c) * a.n + row] = source[c] + (is_in_null_vector(c) ? change : 0.0);
    }
}

} // namespace inverse

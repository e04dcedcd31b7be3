// Coarsest system, which has at most MAX_COARSEST_NODES nodes. These kernels compute the explicit inverse Z of its
// matrix by cyclic reduction over lines in row-sum form, and products of Z with a vector. a_kl are the couplings, s_k
// the row sums, and d_k the pivots.
//
// Nodes are numbered along the shorter side. A line consists of as many grid rows in this direction as fit into
// LINE_NODES nodes; the last line may have fewer. Each step eliminates the first, third, ... of the remaining lines,
// until no line remains. Let P be an eliminated line whose neighbours among the remaining lines are L and R. The nodes
// k of P are eliminated in order. With nodes l and m after k in P, or in L or in R,
//
//     d_k = s_k - sum_l a_kl,   a_lm -= a_kl a_km / d_k,   s_l -= a_kl s_k / d_k
//
// (docs/theory/rrb.md, coarsest system; src/rrb/coarsest.rs eliminates in the order of the nodes). Rows of P above the
// pivot are reduced too (Gauss-Jordan elimination). This yields P^-1, the inverse of the diagonal block of line P, and
// the products G_L = P^-1 A_PL and G_R = P^-1 A_PR. The rows of Z are then computed from the last eliminated lines back
// to the first ones. For Q = P, and for each line Q whose columns of Z are known,
//
//     Z_PQ = -G_L Z_LQ - G_R Z_RQ + (P^-1 if Q = P).
//
// If all a_kl <= 0 and all s_k >= 0, no formula adds numbers of different sign, so no digits cancel. Each launch
// eliminates half of the remaining lines. For 31 x 31 nodes, there are five launches for the elimination and five for
// Z.
#include "storage.cuh"

constexpr int MAX_COARSEST_NODES = 992;
// Maximum number of nodes of a line. A warp processes a row of a block of the matrix, and a lane one value of this row.
constexpr int LINE_NODES = 32;

// Arrays of the lines during their elimination.
struct LineArrays {
    // n * LINE_NODES values each, one row per node. Before a line is eliminated, `left_block` contains the changes of
    // the couplings within this line that were caused by the elimination of lines on its left. `right_block` contains
    // those caused by lines on its right. `next_couplings` contains the couplings to the next remaining line. After the
    // elimination of the line, `own_block` contains P^-1, and `left_block` and `right_block` contain G_L and G_R.
    double *own_block, *left_block, *right_block, *next_couplings;
    double *left_row_sums, *right_row_sums, *inverse_pivot; // n values each
    double *inverse;                                        // n * n values, symmetric, natural order
    float *inverse_f32;                                     // the inverse in single precision, for sweeps in f32
};

struct LinesArgs {
    PivotRules rules;
    const double *natural; // row sums, east, north, northeast, northwest: nx * ny values each
    int nx, ny, n;
    int step; // lines step - 1, 3 step - 1, ... are eliminated; the remaining lines are 2 step apart
    LineArrays arrays;
    double unit; // sweeps solve with M / unit

    __device__ int row_length() const { return min(nx, ny); }
    __device__ int line_length() const { return LINE_NODES / row_length() * row_length(); }
    __device__ int line_count() const { return (n + line_length() - 1) / line_length(); }
    // Returns the number of nodes of a line, 0 if the line does not exist.
    __device__ int node_count(int line) const {
        return line < 0 ? 0 : max(0, min(line_length(), n - line * line_length()));
    }
    __device__ int natural_index(int k) const { return nx <= ny ? k : k % ny * nx + k / ny; }
    // Returns the coupling between nodes k < l.
    __device__ double coupling(int k, int l) const {
        const double *east = natural + n, *north = natural + 2 * n, *northeast = natural + 3 * n,
                     *northwest = natural + 4 * n;
        const bool along_x = nx <= ny;
        const int w = row_length(), row_distance = l / w - k / w, column_distance = l % w - k % w,
                  k_index = natural_index(k), l_index = natural_index(l);
        if (row_distance == 0 && column_distance == 1) return along_x ? east[k_index] : north[k_index];
        if (row_distance == 1 && column_distance == 0) return along_x ? north[k_index] : east[k_index];
        if (row_distance == 1 && column_distance == 1) return northeast[k_index];
        // Let k be node (i, j). If nodes are numbered along x, l is (i - 1, j + 1), the northwest neighbour of k. Along
        // y, l is (i + 1, j - 1), whose northwest neighbour is k.
        if (row_distance == 1 && column_distance == -1) return along_x ? northwest[k_index] : northwest[l_index];
        return 0.0;
    }
};

// Eliminates every second of the remaining lines, with one thread block per line.
extern "C" __global__ void __launch_bounds__(LINE_NODES *LINE_NODES) rrb_eliminate_lines_f64(LinesArgs a) {
    __shared__ double couplings_left[LINE_NODES][LINE_NODES], couplings_right[LINE_NODES][LINE_NODES],
        g_left[LINE_NODES][LINE_NODES], g_right[LINE_NODES][LINE_NODES];
    __shared__ double initial_row_sums[LINE_NODES], pivot_row[2][4][LINE_NODES], pivot_inverse[2], pivot_row_sum[2];
    constexpr unsigned ALL_LANES = 0xffffffffu;
    const int c = threadIdx.x % LINE_NODES, j = threadIdx.x / LINE_NODES, w = a.line_length(),
              line = a.step - 1 + 2 * a.step * blockIdx.x;
    const int own_nodes = a.node_count(line), left_nodes = a.node_count(line - a.step),
              right_nodes = a.node_count(line + a.step);
    const bool is_first_step = a.step == 1, has_entry = j < own_nodes && c < own_nodes;
    const int k = line * w + j, west_node = k - a.step * w, east_node = k + a.step * w;
    const int64_t entry_index = int64_t(k) * LINE_NODES + c;
    double own_entry = 0.0, left_entry = 0.0, right_entry = 0.0, unit_entry = has_entry && j == c ? 1.0 : 0.0,
           row_sum = 0.0, inverse = 0.0;
    if (j < own_nodes) {
        // Each line that remains after the first launch has been updated by an eliminated line before this line. Except
        // for the last line, it has also been updated by an eliminated line after this line.
        const bool has_next_line = line + 1 < a.line_count();
        if (has_entry && j != c) {
            own_entry = a.coupling(line * w + min(j, c), line * w + max(j, c));
            if (!is_first_step)
                own_entry +=
                    a.arrays.left_block[entry_index] + (has_next_line ? a.arrays.right_block[entry_index] : 0.0);
        }
        row_sum = a.natural[a.natural_index(k)];
        if (!is_first_step) row_sum += a.arrays.left_row_sums[k] + (has_next_line ? a.arrays.right_row_sums[k] : 0.0);
        if (c < left_nodes)
            left_entry = is_first_step ? a.coupling((line - 1) * w + c, k)
                                       : a.arrays.next_couplings[(int64_t(line - a.step) * w + c) * LINE_NODES + j];
        if (c < right_nodes)
            right_entry = is_first_step ? a.coupling(k, (line + 1) * w + c) : a.arrays.next_couplings[entry_index];
    }
    couplings_left[j][c] = left_entry;
    couplings_right[j][c] = right_entry;
    if (c == 0) initial_row_sums[j] = row_sum;
    for (int i = 0; i < own_nodes; ++i) {
        double (*row)[LINE_NODES] = pivot_row[i & 1];
        if (j == i) {
            const double remaining_entry = c > i ? own_entry : 0.0;
            const bool is_coupled =
                __any_sync(ALL_LANES, remaining_entry != 0.0 || left_entry != 0.0 || right_entry != 0.0);
            double sum = remaining_entry + (left_entry + right_entry);
            sum = warp_sum(sum);
            if (c == 0) {
                if (!is_coupled) sum = 0.0;
                const double d = row_sum - sum;
                const int node = a.natural_index(k);
                inverse = d > 0.0 && is_finite(d)
                    ? 1.0 / d
                    : checked(a.rules, node % a.nx, node / a.nx, row_sum, sum, row_sum, d, !is_coupled).inverse;
                a.arrays.inverse_pivot[k] = inverse;
                pivot_inverse[i & 1] = inverse;
                pivot_row_sum[i & 1] = row_sum;
            }
            row[0][c] = remaining_entry;
            row[1][c] = left_entry;
            row[2][c] = right_entry;
            row[3][c] = unit_entry;
        }
        __syncthreads();
        const double inverse_of_pivot = pivot_inverse[i & 1],
                     factor = __shfl_sync(ALL_LANES, own_entry, i) * inverse_of_pivot;
        if (j == i) {
            inverse = inverse_of_pivot;
            continue;
        }
        own_entry = c == i || c == j ? 0.0 : own_entry - factor * row[0][c];
        left_entry -= factor * row[1][c];
        right_entry -= factor * row[2][c];
        unit_entry -= factor * row[3][c];
        if (j > i) row_sum -= factor * pivot_row_sum[i & 1];
    }
    left_entry *= inverse;
    right_entry *= inverse;
    g_left[j][c] = left_entry;
    g_right[j][c] = right_entry;
    __syncthreads();
    if (j < own_nodes) {
        a.arrays.own_block[entry_index] = unit_entry * inverse;
        a.arrays.left_block[entry_index] = left_entry;
        a.arrays.right_block[entry_index] = right_entry;
    }
    // Updates of the neighbouring lines, in row j and column c of their blocks. Rows beyond the nodes of this line are
    // zero.
    double left_update = 0.0, right_update = 0.0, neighbour_update = 0.0, row_sum_left = 0.0, row_sum_right = 0.0;
#pragma unroll 8
    for (int u = 0; u < LINE_NODES; ++u) {
        left_update -= couplings_left[u][j] * g_left[u][c];
        right_update -= couplings_right[u][j] * g_right[u][c];
        neighbour_update -= couplings_left[u][j] * g_right[u][c];
        row_sum_left -= g_left[u][j] * initial_row_sums[u];
        row_sum_right -= g_right[u][j] * initial_row_sums[u];
    }
    const int64_t west_index = int64_t(west_node) * LINE_NODES + c, east_index = int64_t(east_node) * LINE_NODES + c;
    if (j < left_nodes) {
        a.arrays.right_block[west_index] = is_first_step ? left_update : a.arrays.right_block[west_index] + left_update;
        a.arrays.next_couplings[west_index] = neighbour_update;
        if (c == 0) {
            double &row_sum_of_west = a.arrays.right_row_sums[west_node];
            row_sum_of_west = is_first_step ? row_sum_left : row_sum_of_west + row_sum_left;
        }
    }
    if (j < right_nodes) {
        a.arrays.left_block[east_index] = is_first_step ? right_update : a.arrays.left_block[east_index] + right_update;
        if (c == 0) {
            double &row_sum_of_east = a.arrays.left_row_sums[east_node];
            row_sum_of_east = is_first_step ? row_sum_right : row_sum_of_east + row_sum_right;
        }
    }
}

// Computes the rows of the inverse for the lines P that were eliminated with `step`. There is one thread block for each
// pair of P and Q. Here Q is a line that remained after this step, or a line that was eliminated with the same `step`
// and is P or comes after P. Each thread block writes two blocks of Z, which are transposes of each other.
extern "C" __global__ void __launch_bounds__(LINE_NODES *LINE_NODES) rrb_invert_lines_f64(LinesArgs a) {
    __shared__ double g_left[LINE_NODES][LINE_NODES + 1], g_right[LINE_NODES][LINE_NODES + 1],
        z_left_column[LINE_NODES][LINE_NODES], z_right_column[LINE_NODES][LINE_NODES];
    const int c = threadIdx.x % LINE_NODES, j = threadIdx.x / LINE_NODES, w = a.line_length(), step = a.step;
    const int eliminated_count = (a.line_count() + step) / (2 * step), remaining_count = a.line_count() / (2 * step);
    const int p_index = blockIdx.x % eliminated_count, q_index = blockIdx.x / eliminated_count;
    if (q_index >= remaining_count && q_index - remaining_count < p_index) return;
    const int p = step - 1 + 2 * step * p_index,
              q = q_index < remaining_count ? 2 * step * (q_index + 1) - 1
                                            : step - 1 + 2 * step * (q_index - remaining_count);
    const bool has_row = j < a.node_count(p);
    const auto index_of = [&](int row_line, int row, int column_line, int column) {
        return int64_t(a.natural_index(row_line * w + row)) * a.n + a.natural_index(column_line * w + column);
    };
    // Returns this thread's entry of the block of Z for two remaining lines, or zero if a line does not exist.
    const auto get_z = [&](int row_line, int column_line) {
        if (j >= a.node_count(row_line) || c >= a.node_count(column_line)) return 0.0;
        return a.arrays.inverse[index_of(row_line, j, column_line, c)];
    };
    // Returns this thread's entry of the product of `rows` and the transpose of `columns`. Rows and columns beyond the
    // nodes of a line are zero.
    const auto multiply_by_transpose = [&](const double (*rows)[LINE_NODES], const double (*columns)[LINE_NODES + 1]) {
        double sum = 0.0;
#pragma unroll 8
        for (int u = 0; u < LINE_NODES; ++u) sum += rows[j][u] * columns[c][u];
        return sum;
    };
    const int64_t p_entry = (int64_t(p) * w + j) * LINE_NODES + c, q_entry = (int64_t(q) * w + j) * LINE_NODES + c;
    const double p_left = has_row ? a.arrays.left_block[p_entry] : 0.0,
                 p_right = has_row ? a.arrays.right_block[p_entry] : 0.0;
    double z_left, z_right;
    if (q_index < remaining_count) {
        z_left = get_z(p - step, q);
        z_right = get_z(p + step, q);
    } else {
        // Z_LQ is the transpose of Z_QL, which results from the neighbours of Q.
        g_left[j][c] = j < a.node_count(q) ? a.arrays.left_block[q_entry] : 0.0;
        g_right[j][c] = j < a.node_count(q) ? a.arrays.right_block[q_entry] : 0.0;
        z_left_column[j][c] = get_z(p - step, q - step);
        z_right_column[j][c] = get_z(p - step, q + step);
        __syncthreads();
        z_left = -multiply_by_transpose(z_left_column, g_left) - multiply_by_transpose(z_right_column, g_right);
        __syncthreads();
        z_left_column[j][c] = get_z(p + step, q - step);
        z_right_column[j][c] = get_z(p + step, q + step);
        __syncthreads();
        z_right = -multiply_by_transpose(z_left_column, g_left) - multiply_by_transpose(z_right_column, g_right);
        __syncthreads();
    }
    z_left_column[j][c] = z_left;
    z_right_column[j][c] = z_right;
    g_left[j][c] = p_left;
    g_right[j][c] = p_right;
    __syncthreads();
    if (!has_row || c >= a.node_count(q)) return;
    double z = p == q ? a.unit * a.arrays.own_block[p_entry] : 0.0;
#pragma unroll 8
    for (int u = 0; u < LINE_NODES; ++u) z -= g_left[j][u] * z_left_column[u][c] + g_right[j][u] * z_right_column[u][c];
    const int64_t z_index = index_of(p, j, q, c), transposed_index = index_of(q, c, p, j);
    a.arrays.inverse[z_index] = z;
    if (a.arrays.inverse_f32) a.arrays.inverse_f32[z_index] = float(z);
    if (p != q) {
        a.arrays.inverse[transposed_index] = z;
        if (a.arrays.inverse_f32) a.arrays.inverse_f32[transposed_index] = float(z);
    } else if (j == c) {
        // Z is positive definite, so its largest entry is on the diagonal.
        atomic_max(&a.rules.findings->coarsest_inverse, magnitude(z / a.unit));
        atomic_max(&a.rules.findings->coarsest_pivot, magnitude(1.0 / a.arrays.inverse_pivot[p * w + j]));
    }
}

template <class Real, class Stored = Real> struct CoarsestSystem {
    Geometry g; // geometry of the vectors, which are stored by colour
    const Stored *inverse;
    const Real *r;
    Real *z;
    int n;
};

// Nodes are numbered row by row. Returns the index of node k in vectors that are stored by colour.
template <class Real, class Stored>
__device__ inline int64_t index_of_coarsest_node(const CoarsestSystem<Real, Stored> &a, int k) {
    const int j = quotient(k, a.g.nx);
    return a.g.index_of_node(k - j * a.g.nx, j);
}

// Computes z = Z r for the coarsest system, with one row per warp. Returns this thread's contribution to r' z, which is
// nonzero only in the first thread of a warp. Reads the n^2 values of Z, which are in the L2 cache.
//
// Thread blocks outside `team` have no rows. The first values of a row are loaded before r is available. Then
// `wait_for_r` is called, and afterwards `load_r`, which copies r to shared memory. `wait_for_r` waits until all of r
// is available, unless `load_r` waits for each value. `store_z` stores the values of z. CHUNK is the number of values
// of a row that a thread loads together.
template <int CHUNK, class Real, class Stored, class Ready, class Fill, class Put>
__device__ inline double multiply_coarsest(
    const CoarsestSystem<Real, Stored> &a, Team team, Ready wait_for_r, Fill load_r, Put store_z) {
    __shared__ Real r[MAX_COARSEST_NODES];
    const int t = thread_of_block(), threads = blockDim.x * blockDim.y, lane = t % 32;
    double r_dot_z = 0.0;
    const int team_index = team.index(), blocks = team.size(), rows_per_block = threads / 32;
    int row = team_index * rows_per_block + t / 32;
    const bool has_rows = team_index >= 0 && team_index * rows_per_block < a.n;
    // The first values are loaded before r is available, and the rest of the row is prefetched.
    Stored v[CHUNK];
    const auto load_chunk = [&](int column) {
        const Stored *values = a.inverse + int64_t(row) * a.n;
#pragma unroll
        for (int u = 0; u < CHUNK; ++u) v[u] = column + 32 * u < a.n ? values[column + 32 * u] : Stored(0);
    };
    if (has_rows && row < a.n) {
        load_chunk(lane);
        const int prefetch_start = 32 * CHUNK + lane * CHUNK;
        if (prefetch_start < a.n) prefetch(a.inverse + int64_t(row) * a.n + prefetch_start);
    }
    wait_for_r();
    if (!has_rows) return 0.0;
    load_r(r);
    __syncthreads();
    for (bool is_first_row = true; row < a.n; row += blocks * rows_per_block, is_first_row = false) {
        Stored sum = 0;
        for (int column = lane; column < a.n; column += 32 * CHUNK) {
            if (!is_first_row || column != lane) load_chunk(column);
#pragma unroll
            for (int u = 0; u < CHUNK; ++u) sum += v[u] * (column + 32 * u < a.n ? r[column + 32 * u] : Real(0));
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            store_z(row, sum);
            r_dot_z += double(sum) * r[row];
        }
    }
    return r_dot_z;
}

// Computes the product for vectors in device memory, stored by colour. A warp loads all values of a row together or, in
// double precision, half of the values at a time.
template <class Real, class Stored, class Ready>
__device__ inline double multiply_coarsest(const CoarsestSystem<Real, Stored> &a, Team team, Ready wait_for_r) {
    return multiply_coarsest<128 / sizeof(Stored)>(
        a, team, wait_for_r,
        [&](Real *r) {
            for (int k = thread_of_block(); k < a.n; k += blockDim.x * blockDim.y)
                r[k] = a.r[index_of_coarsest_node(a, k)];
        },
        [&](int row, Real sum) { a.z[index_of_coarsest_node(a, row)] = sum; });
}

template <class Real, class Stored = Real> struct MultiplyCoarsestArgs {
    CoarsestSystem<Real, Stored> coarsest;
    double *partial;   // r' z, one value per thread block
    ScalarArgs scalar; // arguments of the scalar update before the backward half; `stage` = NOTHING: no update
};

// Computes z = Z r for the coarsest system. If `stage` is not NOTHING, also computes r' z and updates the scalars, as
// required between the forward and the backward half. Does nothing if the loop has ended.
template <class Real, class Stored> __device__ inline void coarsest_step(const MultiplyCoarsestArgs<Real, Stored> &a) {
    if (a.scalar.stage == LOOP && a.scalar.scalars->loop_ended) return;
    double r_dot_z = multiply_coarsest(a.coarsest, all_blocks(), [] {});
    if (a.scalar.stage == NOTHING) return;
    r_dot_z = block_sum(r_dot_z);
    if (thread_of_block() == 0) a.partial[blockIdx.x] = r_dot_z;
    if (is_last_block(&a.scalar.scalars->ticket)) update_scalars(a.scalar);
}

extern "C" __global__ void __launch_bounds__(THREADS) rrb_multiply_coarsest_f64(MultiplyCoarsestArgs<double> a) {
    coarsest_step(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) rrb_multiply_coarsest_f32(MultiplyCoarsestArgs<float> a) {
    coarsest_step(a);
}
extern "C" __global__ void __launch_bounds__(THREADS)
    rrb_multiply_coarsest_wide_f32(MultiplyCoarsestArgs<float, double> a) {
    coarsest_step(a);
}

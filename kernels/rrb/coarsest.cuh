// Coarsest system, which has at most MOST_INVERTED nodes. These kernels compute the explicit inverse Z of its matrix
// by cyclic reduction over lines in row-sum form, and products of Z with a vector. a_kl are the couplings, s_k the row
// sums, and d_k the pivots.
//
// Nodes are numbered along the shorter side. A line consists of as many grid rows in this direction as fit into
// LINE_NODES nodes; the last line may have fewer. Each step eliminates the first, third, ... of the remaining lines,
// until no line remains. Let P be an eliminated line whose neighbours among the remaining lines are L and R. The nodes
// k of P are eliminated in order. With nodes l and m after k in P, or in L or in R,
//
//     d_k = s_k - sum_l a_kl,   a_lm -= a_kl a_km / d_k,   s_l -= a_kl s_k / d_k
//
// (docs/theory/rrb.md, coarsest system; src/rrb/coarsest.rs eliminates in the order of the nodes). Rows of P above the
// pivot are reduced too (Gauss-Jordan elimination), which yields P^-1, the inverse of the block of the line P, and G_L
// = P^-1 A_PL, G_R = P^-1 A_PR. The rows of Z are then computed from the last eliminated lines back to the first ones.
// For Q = P, and for each line Q whose columns of Z are known,
//
//     Z_PQ = -G_L Z_LQ - G_R Z_RQ + (P^-1 if Q = P).
//
// If all a_kl <= 0 and all s_k >= 0, no formula adds numbers of different sign, so no digits cancel. Each launch
// eliminates half of the remaining lines. For 31 x 31 nodes, there are five launches for the elimination and five for
// Z.
#include "storage.cuh"

constexpr int MOST_INVERTED = 992;
// Maximum number of nodes of a line. A warp processes a row of a block of the matrix, and a lane one value of this row.
constexpr int LINE_NODES = 32;

// Arrays of the lines during their elimination.
struct Lines {
    // n * LINE_NODES values each, one row per node. Before the elimination of a line, `left` and `right` contain the
    // changes of the couplings within this line that the elimination of lines on its left and on its right has caused.
    // `onward` contains the couplings to the next remaining line. After the elimination, `own` contains P^-1, and
    // `left` and `right` contain G_L and G_R.
    double *own, *left, *right, *onward;
    double *left_excess, *right_excess, *inverse_pivot; // n values each
    double *inverse;                                    // n * n values, symmetric, natural order
    float *inverse_f32;                                 // the inverse in single precision, for sweeps in f32
};

struct LinesArgs {
    Rules rules;
    const double *natural; // row sums, east, north, northeast, northwest: nx * ny values each
    int nx, ny, n;
    int step; // lines step - 1, 3 step - 1, ... are eliminated; the remaining lines are 2 step apart
    Lines arrays;
    double unit; // sweeps solve with M / unit

    __device__ int row_length() const { return min(nx, ny); }
    __device__ int line_length() const { return LINE_NODES / row_length() * row_length(); }
    __device__ int line_count() const { return (n + line_length() - 1) / line_length(); }
    // Returns the number of nodes of a line, 0 if the line does not exist.
    __device__ int nodes_of(int line) const {
        return line < 0 ? 0 : max(0, min(line_length(), n - line * line_length()));
    }
    __device__ int natural_of(int k) const { return nx <= ny ? k : k % ny * nx + k / ny; }
    // Returns the coupling between nodes k < l.
    __device__ double coupling(int k, int l) const {
        const double *east = natural + n, *north = natural + 2 * n, *northeast = natural + 3 * n,
                     *northwest = natural + 4 * n;
        const bool along_x = nx <= ny;
        const int w = row_length(), rows = l / w - k / w, along = l % w - k % w, at = natural_of(k), to = natural_of(l);
        if (rows == 0 && along == 1) return along_x ? east[at] : north[at];
        if (rows == 1 && along == 0) return along_x ? north[at] : east[at];
        if (rows == 1 && along == 1) return northeast[at];
        // Let k be node (i, j). If nodes are numbered along x, l is (i - 1, j + 1), the northwest neighbour of k. Along
        // y, l is (i + 1, j - 1), whose northwest neighbour is k.
        if (rows == 1 && along == -1) return along_x ? northwest[at] : northwest[to];
        return 0.0;
    }
};

// Eliminates every second of the remaining lines, with one thread block per line.
extern "C" __global__ void __launch_bounds__(LINE_NODES *LINE_NODES) rrb_eliminate_lines_f64(LinesArgs a) {
    __shared__ double to_left[LINE_NODES][LINE_NODES], to_right[LINE_NODES][LINE_NODES],
        through_left[LINE_NODES][LINE_NODES], through_right[LINE_NODES][LINE_NODES];
    __shared__ double before[LINE_NODES], pivot_row[2][4][LINE_NODES], pivot_inverse[2], pivot_excess[2];
    constexpr unsigned ALL = 0xffffffffu;
    const int c = threadIdx.x % LINE_NODES, j = threadIdx.x / LINE_NODES, w = a.line_length(),
              line = a.step - 1 + 2 * a.step * blockIdx.x;
    const int own_nodes = a.nodes_of(line), left_nodes = a.nodes_of(line - a.step),
              right_nodes = a.nodes_of(line + a.step);
    const bool first = a.step == 1, inside = j < own_nodes && c < own_nodes;
    const int k = line * w + j, to_west = k - a.step * w, to_east = k + a.step * w;
    const int64_t at = int64_t(k) * LINE_NODES + c;
    double own = 0.0, left = 0.0, right = 0.0, unit = inside && j == c ? 1.0 : 0.0, excess = 0.0, inverse = 0.0;
    if (j < own_nodes) {
        // Lines that remain after the first launch have been updated by an eliminated line before them and, except for
        // the last line, by one after them.
        const bool behind = line + 1 < a.line_count();
        if (inside && j != c) {
            own = a.coupling(line * w + min(j, c), line * w + max(j, c));
            if (!first) own += a.arrays.left[at] + (behind ? a.arrays.right[at] : 0.0);
        }
        excess = a.natural[a.natural_of(k)];
        if (!first) excess += a.arrays.left_excess[k] + (behind ? a.arrays.right_excess[k] : 0.0);
        if (c < left_nodes)
            left = first ? a.coupling((line - 1) * w + c, k)
                         : a.arrays.onward[(int64_t(line - a.step) * w + c) * LINE_NODES + j];
        if (c < right_nodes) right = first ? a.coupling(k, (line + 1) * w + c) : a.arrays.onward[at];
    }
    to_left[j][c] = left;
    to_right[j][c] = right;
    if (c == 0) before[j] = excess;
    for (int i = 0; i < own_nodes; ++i) {
        double (*row)[LINE_NODES] = pivot_row[i & 1];
        if (j == i) {
            const double rest = c > i ? own : 0.0;
            const bool coupled = __any_sync(ALL, rest != 0.0 || left != 0.0 || right != 0.0);
            double sum = rest + (left + right);
            sum = warp_sum(sum);
            if (c == 0) {
                if (!coupled) sum = 0.0;
                const double d = excess - sum;
                const int place = a.natural_of(k);
                inverse = d > 0.0 && is_finite(d)
                    ? 1.0 / d
                    : checked(a.rules, place % a.nx, place / a.nx, excess, sum, excess, d, !coupled).inverse;
                a.arrays.inverse_pivot[k] = inverse;
                pivot_inverse[i & 1] = inverse;
                pivot_excess[i & 1] = excess;
            }
            row[0][c] = rest;
            row[1][c] = left;
            row[2][c] = right;
            row[3][c] = unit;
        }
        __syncthreads();
        const double inverse_of_pivot = pivot_inverse[i & 1], part = __shfl_sync(ALL, own, i) * inverse_of_pivot;
        if (j == i) {
            inverse = inverse_of_pivot;
            continue;
        }
        own = c == i || c == j ? 0.0 : own - part * row[0][c];
        left -= part * row[1][c];
        right -= part * row[2][c];
        unit -= part * row[3][c];
        if (j > i) excess -= part * pivot_excess[i & 1];
    }
    left *= inverse;
    right *= inverse;
    through_left[j][c] = left;
    through_right[j][c] = right;
    __syncthreads();
    if (j < own_nodes) {
        a.arrays.own[at] = unit * inverse;
        a.arrays.left[at] = left;
        a.arrays.right[at] = right;
    }
    // Updates of the neighbouring lines, in row j and column c of their blocks. Rows beyond the nodes of this line are
    // zero.
    double in_left = 0.0, in_right = 0.0, between = 0.0, excess_left = 0.0, excess_right = 0.0;
#pragma unroll 8
    for (int u = 0; u < LINE_NODES; ++u) {
        in_left -= to_left[u][j] * through_left[u][c];
        in_right -= to_right[u][j] * through_right[u][c];
        between -= to_left[u][j] * through_right[u][c];
        excess_left -= through_left[u][j] * before[u];
        excess_right -= through_right[u][j] * before[u];
    }
    const int64_t west = int64_t(to_west) * LINE_NODES + c, east = int64_t(to_east) * LINE_NODES + c;
    if (j < left_nodes) {
        a.arrays.right[west] = first ? in_left : a.arrays.right[west] + in_left;
        a.arrays.onward[west] = between;
        if (c == 0) a.arrays.right_excess[to_west] = first ? excess_left : a.arrays.right_excess[to_west] + excess_left;
    }
    if (j < right_nodes) {
        a.arrays.left[east] = first ? in_right : a.arrays.left[east] + in_right;
        if (c == 0) a.arrays.left_excess[to_east] = first ? excess_right : a.arrays.left_excess[to_east] + excess_right;
    }
}

// Computes the rows of the inverse for the lines P that were eliminated with `step`. There is one thread block for each
// pair of P and Q. Here Q is a line that remained after this step, or a line that was eliminated with the same `step`
// and is P or comes after P. Each thread block writes two blocks of Z, which are transposes of each other.
extern "C" __global__ void __launch_bounds__(LINE_NODES *LINE_NODES) rrb_invert_lines_f64(LinesArgs a) {
    __shared__ double from_left[LINE_NODES][LINE_NODES + 1], from_right[LINE_NODES][LINE_NODES + 1],
        column_left[LINE_NODES][LINE_NODES], column_right[LINE_NODES][LINE_NODES];
    const int c = threadIdx.x % LINE_NODES, j = threadIdx.x / LINE_NODES, w = a.line_length(), step = a.step;
    const int gone = (a.line_count() + step) / (2 * step), stayed = a.line_count() / (2 * step);
    const int b = blockIdx.x % gone, other = blockIdx.x / gone;
    if (other >= stayed && other - stayed < b) return;
    const int p = step - 1 + 2 * step * b,
              q = other < stayed ? 2 * step * (other + 1) - 1 : step - 1 + 2 * step * (other - stayed);
    const bool has_row = j < a.nodes_of(p);
    const auto place = [&](int row_line, int row, int column_line, int column) {
        return int64_t(a.natural_of(row_line * w + row)) * a.n + a.natural_of(column_line * w + column);
    };
    // Returns this thread's entry of the block of Z for two remaining lines, or zero if a line does not exist.
    const auto known = [&](int row_line, int column_line) {
        if (j >= a.nodes_of(row_line) || c >= a.nodes_of(column_line)) return 0.0;
        return a.arrays.inverse[place(row_line, j, column_line, c)];
    };
    // Returns this thread's entry of the product of `rows` and the transpose of `columns`. Rows and columns beyond the
    // nodes of a line are zero.
    const auto turned = [&](const double (*rows)[LINE_NODES], const double (*columns)[LINE_NODES + 1]) {
        double sum = 0.0;
#pragma unroll 8
        for (int u = 0; u < LINE_NODES; ++u) sum += rows[j][u] * columns[c][u];
        return sum;
    };
    const int64_t at = (int64_t(p) * w + j) * LINE_NODES + c, at_q = (int64_t(q) * w + j) * LINE_NODES + c;
    const double own_left = has_row ? a.arrays.left[at] : 0.0, own_right = has_row ? a.arrays.right[at] : 0.0;
    double z_left, z_right;
    if (other < stayed) {
        z_left = known(p - step, q);
        z_right = known(p + step, q);
    } else {
        // Z_LQ is the transpose of Z_QL, which results from the neighbours of Q.
        from_left[j][c] = j < a.nodes_of(q) ? a.arrays.left[at_q] : 0.0;
        from_right[j][c] = j < a.nodes_of(q) ? a.arrays.right[at_q] : 0.0;
        column_left[j][c] = known(p - step, q - step);
        column_right[j][c] = known(p - step, q + step);
        __syncthreads();
        z_left = -turned(column_left, from_left) - turned(column_right, from_right);
        __syncthreads();
        column_left[j][c] = known(p + step, q - step);
        column_right[j][c] = known(p + step, q + step);
        __syncthreads();
        z_right = -turned(column_left, from_left) - turned(column_right, from_right);
        __syncthreads();
    }
    column_left[j][c] = z_left;
    column_right[j][c] = z_right;
    from_left[j][c] = own_left;
    from_right[j][c] = own_right;
    __syncthreads();
    if (!has_row || c >= a.nodes_of(q)) return;
    double z = p == q ? a.unit * a.arrays.own[at] : 0.0;
#pragma unroll 8
    for (int u = 0; u < LINE_NODES; ++u)
        z -= from_left[j][u] * column_left[u][c] + from_right[j][u] * column_right[u][c];
    const int64_t here = place(p, j, q, c), mirrored = place(q, c, p, j);
    a.arrays.inverse[here] = z;
    if (a.arrays.inverse_f32) a.arrays.inverse_f32[here] = float(z);
    if (p != q) {
        a.arrays.inverse[mirrored] = z;
        if (a.arrays.inverse_f32) a.arrays.inverse_f32[mirrored] = float(z);
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

// Returns the index of node k, numbered row by row, in vectors by colour.
template <class Real, class Stored>
__device__ inline int64_t index_of_coarsest_node(const CoarsestSystem<Real, Stored> &a, int k) {
    const int j = quotient(k, a.g.nx);
    return a.g.index_of_node(k - j * a.g.nx, j);
}

// Computes z = Z r for the coarsest system, with one row per warp. Returns the contribution to r' z on the first thread
// of each warp. Reads n^2 values, which are in the L2 cache.
//
// Thread blocks outside `team` have no rows. The first values of a row are loaded before r is available. Then `ready`
// is called, and after it `fill`, which copies r to shared memory. `ready` waits until all of r is available, unless
// `fill` waits for each value. `put` stores the values of z. CHUNK is the number of values of a row that a thread loads
// together.
template <int CHUNK, class Real, class Stored, class Ready, class Fill, class Put>
__device__ inline double multiply_coarsest(
    const CoarsestSystem<Real, Stored> &a, Team team, Ready ready, Fill fill, Put put) {
    __shared__ Real r[MOST_INVERTED];
    const int t = thread_of_block(), threads = blockDim.x * blockDim.y, lane = t % 32;
    double product = 0.0;
    const int own = team.index(), blocks = team.size(), rows = threads / 32;
    int row = own * rows + t / 32;
    const bool any = own >= 0 && own * rows < a.n;
    // The first values are loaded before r is available, and the rest of the row is prefetched.
    Stored v[CHUNK];
    const auto load = [&](int first) {
        const Stored *values = a.inverse + int64_t(row) * a.n;
#pragma unroll
        for (int u = 0; u < CHUNK; ++u) v[u] = first + 32 * u < a.n ? values[first + 32 * u] : Stored(0);
    };
    if (any && row < a.n) {
        load(lane);
        const int rest = 32 * CHUNK + lane * CHUNK;
        if (rest < a.n) prefetch(a.inverse + int64_t(row) * a.n + rest);
    }
    ready();
    if (!any) return 0.0;
    fill(r);
    __syncthreads();
    for (bool first_row = true; row < a.n; row += blocks * rows, first_row = false) {
        Stored sum = 0;
        for (int first = lane; first < a.n; first += 32 * CHUNK) {
            if (!first_row || first != lane) load(first);
#pragma unroll
            for (int u = 0; u < CHUNK; ++u) sum += v[u] * (first + 32 * u < a.n ? r[first + 32 * u] : Real(0));
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            put(row, sum);
            product += double(sum) * r[row];
        }
    }
    return product;
}

// Computes the product for vectors in device memory, stored by colour. A warp loads all values of a row together or, in
// double precision, half of the values at a time.
template <class Real, class Stored, class Ready>
__device__ inline double multiply_coarsest(const CoarsestSystem<Real, Stored> &a, Team team, Ready ready) {
    return multiply_coarsest<128 / sizeof(Stored)>(
        a, team, ready,
        [&](Real *r) {
            for (int k = thread_of_block(); k < a.n; k += blockDim.x * blockDim.y)
                r[k] = a.r[index_of_coarsest_node(a, k)];
        },
        [&](int row, Real sum) { a.z[index_of_coarsest_node(a, row)] = sum; });
}

template <class Real, class Stored = Real> struct MultiplyCoarsestArgs {
    CoarsestSystem<Real, Stored> coarsest;
    double *partial;   // r' z, one value per thread block
    ScalarArgs scalar; // for the scalar update before the backward half, unless `how` is NOTHING
};

// Computes z = Z r for the coarsest system. Unless `how` is NOTHING, then updates the scalars, as required between the
// forward and the backward half. Does nothing if the loop has ended.
template <class Real, class Stored> __device__ inline void coarsest_step(const MultiplyCoarsestArgs<Real, Stored> &a) {
    if (a.scalar.how == LOOP && a.scalar.scalars->done) return;
    double product = multiply_coarsest(a.coarsest, all_blocks(), [] {});
    if (a.scalar.how == NOTHING) return;
    product = block_sum(product);
    if (thread_of_block() == 0) a.partial[blockIdx.x] = product;
    if (last_block(&a.scalar.scalars->ticket)) update_scalars(a.scalar);
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

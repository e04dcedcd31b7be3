// Setup of multigrid with vertex coarsening, grid after grid: conductances of the caller's matrix, strengths of the
// directions, interpolation weights, Galerkin product P^T A P with 27 points, smoother (Dendy 1982). The formulas are
// in src/dpcg/cpu/vertex. Products are computed in f64, conductances are stored in T. vertex.cuh describes the storage;
// unrounded weights and products have arrays of their own.
//
// An edge is a pair (p, q) of neighbouring fine points. Each edge is assigned to one cube between 8 coarse points. The
// lowest corner of this cube is the last coarse point at or before the componentwise minimum of p and q. Up to 8 edges
// of each offset are assigned to a cube. A thread or a group of 8 lanes computes the 8 x 8 matrix of a cube. The thread
// of a coarse point then adds the matrices of its cubes in the order of the cubes. The sum for a pair of coarse points
// therefore has the same order in the threads of both points. The grid is processed slab by slab. A slab consists of as
// many planes of points as the workspace allows, and of the planes of cubes next to them.
//
// Bytes per fine point for T of 4 bytes: conductances 64, strengths 20 on the finest grid and 60 on other grids,
// weights 100 in three launches. The product moves 80 bytes on the finest grid and 240 on other grids through the L1
// cache, and 36 from memory. compute_coarse_grid moves 72 bytes.
#include "vertex.cuh"

namespace dpcg {

// A row sum of at most this fraction of the diagonal counts as zero: it is a rounding error of single precision.
constexpr double ZERO_ROW_SUM = 1e-6;
// Damping factor of Jacobi.
constexpr double DAMPING = 0.8;

struct CoarseningArgs {
    CellBox fine, coarse;
    int is_coarsened[3];
    int odd_count; // compute_weights: number of odd indices of the points to process
    CellMatrix m; // the caller's matrix
    double scale; // factor by which the caller's matrix is multiplied
    void *c; // conductances of the fine grid, or couplings (see conductance_of)
    int64_t c_stride; // distance between the conductances of successive offsets
    void *diagonal, *inverse; // of the finest grid in compute_conductances, of the coarse grid in compute_coarse_grid
    double *row_sums; // row sums of the fine grid
    double *weights; // unrounded weights
    void *rounded_weights; // weights rounded to T
    Strides strides; // of both arrays of weights
    double *cubes; // matrices of the cubes of a slab: entry 0 of all cubes, then entry 1 of all cubes, ...
    int first_cube_plane, cube_planes; // planes of cubes in the slab
    int first_point_plane, point_planes; // planes of points in the slab
    void *coarse_conductances;
    int64_t coarse_c_stride;
    double *coarse_row_sums;
    double *partial;   // of compute_strengths, 4 values per block
    double *strengths; // result of compute_strengths: three sums, then the number of rows
    Scalars *scalars;
};

// Returns the row sum diagonal - sum, or zero if it is at most ZERO_ROW_SUM times the diagonal.
__device__ inline double row_sum_of(double diagonal, double sum) {
    const double row_sum = diagonal - sum;
    return row_sum > ZERO_ROW_SUM * diagonal ? row_sum : 0.0;
}

struct Offset {
    int d[3];
};

// Returns offset k of the upper half of the 7-point or 27-point stencil.
template <bool FINEST> __device__ inline Offset stencil_offset(int k) {
    if (FINEST) return {{k == 0, k == 1, k == 2}};
    const int m = k + 14;
    return {{m % 3 - 1, m / 3 % 3 - 1, m / 9 - 1}};
}

// Returns the distance in memory of an offset.
__device__ inline int64_t memory_step(const CellBox &box, const Offset &o) {
    return o.d[0] + o.d[1] * box.north() + o.d[2] * box.top();
}

// Calls f(offset, conductance) for the neighbours of p with a nonzero conductance.
template <class T, bool FINEST, class F>
__device__ inline void for_each_neighbour(const CoarseningArgs &a, int64_t p, F f) {
    const T *c = static_cast<const T *>(a.c) + p;
    for (int k = 0; k < (FINEST ? 3 : 13); ++k, c += a.c_stride) {
        const Offset o = stencil_offset<FINEST>(k);
        const double upper_conductance = conductance_of<T, FINEST>(c[0], -a.scale);
        const double lower_conductance = conductance_of<T, FINEST>(c[-memory_step(a.fine, o)], -a.scale);
        if (upper_conductance != 0.0) f(o, upper_conductance);
        if (lower_conductance != 0.0) f(Offset{{-o.d[0], -o.d[1], -o.d[2]}}, lower_conductance);
    }
}

// Computes row sums, diagonals, and reciprocal centers for Gauss-Seidel on the finest grid. Also computes the
// conductances, unless the cycle uses the entries of A instead (see USES_CALLER_MATRIX). If a cell has no couplings,
// its diagonal entry is its center.
template <class T> __device__ inline void compute_conductances(const CoarseningArgs &a) {
    const int64_t n = a.fine.north(), t = a.fine.top();
    [[maybe_unused]] T *c = static_cast<T *>(a.c);
    T *diagonal = static_cast<T *>(a.diagonal), *inverse = static_cast<T *>(a.inverse);
    for_each_cell(a.fine.count(), [&](int64_t p) {
        const double entries[6] = {a.m.east[p], a.m.east[p - 1], a.m.north[p], a.m.north[p - n], a.m.top[p],
            a.m.top[p - t]};
        double sum = 0.0, magnitude_sum = 0.0, rounded_sum = 0.0;
        for (int k = 0; k < 6; ++k) {
            sum += -entries[k];
            magnitude_sum += fabs(entries[k]);
            const T value = T(-a.scale * entries[k]);
            rounded_sum += double(value);
            if constexpr (!USES_CALLER_MATRIX<T, true>) {
                if (k % 2 == 0) c[k / 2 * a.c_stride + p] = value;
            }
        }
        const double center = a.scale * a.m.center[p];
        const double row_sum = magnitude_sum > 0.0 ? row_sum_of(center, a.scale * sum) : 0.0;
        const T d = T(rounded_sum + row_sum);
        a.row_sums[p] = row_sum;
        diagonal[p] = d == T(0) ? T(center) : d;
        inverse[p] = T(1.0 / center);
    });
}

// Computes, for each direction, the sum of c / d over all rows with a positive diagonal d, where c is the sum of the
// conductances to those neighbours whose index in this direction differs. Also counts these rows.
template <class T, bool FINEST> __device__ inline void compute_strengths(const CoarseningArgs &a) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    for_each_cell(a.fine.count(), [&](int64_t p) {
        double row_strength[3] = {0.0, 0.0, 0.0}, diagonal = 0.0;
        for_each_neighbour<T, FINEST>(a, p, [&](const Offset &o, double c) {
            diagonal += c;
            for (int d = 0; d < 3; ++d) row_strength[d] += o.d[d] != 0 ? c : 0.0;
        });
        diagonal += a.row_sums[p];
        if (!(diagonal > 0.0)) return;
        for (int d = 0; d < 3; ++d) sums[d] += row_strength[d] / diagonal;
        sums[3] += 1.0;
    });
    sums_of_blocks(sums, a.partial, &a.scalars->ticket, a.strengths);
}

// Returns the distance between the weights of two corners of a cube: the lowest corner, and the corner that is on the
// upper side in the directions whose bits are set in `side`.
__device__ inline int64_t weight_distance(const Strides &s, int side) {
    return (side & 1) + (side & 2 ? s.point_step[1] : 0) + (side & 4 ? s.point_step[2] : 0);
}

// Returns the weight of a coarse point in the interpolation to a fine point p. Bit d of `odd_bits` is set if direction
// d is coarsened and the index of p in this direction is odd. Bit d of `coarse_side` is set if the coarse point is
// after p in direction d. The weight is zero if `coarse_side` has a bit that `odd_bits` does not have, because p is
// then not interpolated from this coarse point. `coarse_index` is Strides::index of the coarse index of p.
__device__ inline double weight_at(const CoarseningArgs &a, int odd_bits, int coarse_side, int64_t coarse_index) {
    if (coarse_side & ~odd_bits) return 0.0;
    return odd_bits == 0 ? 1.0 : a.weights[a.strides.weight_offset(odd_bits, coarse_side) + coarse_index];
}

// Computes the weights of point p. `odd_bits` and `coarse_index` are those of p (see weight_at).
template <class T, bool FINEST>
__device__ inline void compute_weights_of(const CoarseningArgs &a, int odd_bits, int64_t p, int64_t coarse_index) {
    double numerator[8] = {}, sum = 0.0, diagonal = a.row_sums[p];
    for_each_neighbour<T, FINEST>(a, p, [&](const Offset &o, double c) {
        diagonal += c;
        // `moved_directions`: the directions of `odd_bits` in which the offset is nonzero. In these directions, the
        // index of the neighbour is even, so the odd_bits of the neighbour do not contain them. `side`: those of these
        // directions in which the neighbour is after p.
        int moved_directions = 0, side = 0;
        for (int d = 0; d < 3; ++d) {
            moved_directions |= (odd_bits >> d & 1 && o.d[d] != 0) << d;
            side |= (odd_bits >> d & 1 && o.d[d] > 0) << d;
        }
        if (moved_directions == 0) return;
        sum += c;
        const int64_t neighbour_index = coarse_index + weight_distance(a.strides, side);
#pragma unroll
        for (int t = 0; t < 8; ++t) {
            if ((t & moved_directions) == side)
                numerator[t] += c * weight_at(a, odd_bits & ~moved_directions, t & ~side, neighbour_index);
        }
    });
    // If the sum of the couplings towards coarse points is not positive, p is not interpolated: all its weights are
    // zero.
    const double divisor_sum = sum + a.row_sums[p] > ZERO_ROW_SUM * diagonal ? sum + a.row_sums[p] : sum;
    const double divisor = sum > 0.0 ? divisor_sum : 0.0;
#pragma unroll
    for (int t = 0; t < 8; ++t) {
        if (t & ~odd_bits) continue;
        const double weight = divisor != 0.0 ? numerator[t] / divisor : 0.0;
        const int64_t weight_index = a.strides.weight_offset(odd_bits, t) + coarse_index;
        a.weights[weight_index] = weight;
        static_cast<T *>(a.rounded_weights)[weight_index] = T(weight);
    }
}

// Computes the interpolation weights of the points that have `odd_count` odd indices in coarsened directions, from the
// weights of points with fewer odd indices. A warp processes points with equal odd_bits (see weight_at). Neighbouring
// warps process the other values of odd_bits at the same coarse points.
template <class T, bool FINEST> __device__ inline void compute_weights(const CoarseningArgs &a) {
    const int coarsened_bits = a.is_coarsened[0] | a.is_coarsened[1] << 1 | a.is_coarsened[2] << 2,
        pattern_count = a.odd_count == 3 ? 1 : 3;
    const unsigned count = unsigned(a.coarse.count());
    for_each_cell(int64_t((count - 1) / 32 + 1) * 32 * pattern_count, [&](int64_t item) {
        const unsigned warp = unsigned(item / 32), chunk = warp / unsigned(pattern_count),
            pattern = warp - chunk * pattern_count;
        const int odd_bits = a.odd_count == 1 ? 1 << pattern : a.odd_count == 2 ? 7 ^ 1 << pattern : 7;
        const unsigned coarse_index = 32 * chunk + unsigned(item) % 32;
        const unsigned nx = a.coarse.nx, ny = a.coarse.ny, row = coarse_index / nx;
        if (coarse_index >= count || odd_bits & ~coarsened_bits) return;
        const int I = int(coarse_index - row * nx), J = int(row % ny), K = int(row / ny);
        const int i = (I << a.is_coarsened[0]) + (odd_bits & 1), j = (J << a.is_coarsened[1]) + (odd_bits >> 1 & 1);
        const int k = (K << a.is_coarsened[2]) + (odd_bits >> 2);
        if (i >= a.fine.nx || j >= a.fine.ny || k >= a.fine.nz) return;
        const int64_t p = (int64_t(k) * a.fine.ny + j) * a.fine.nx + i;
        compute_weights_of<T, FINEST>(a, odd_bits, p, a.strides.index(I, J, K));
    });
}

// Number of stored entries of the matrix of a cube: the diagonal, then the upper triangle by rows.
constexpr int CUBE_ENTRIES = 36;
__device__ constexpr int entry_of(int row, int column) {
    return row == column ? row : 8 + 7 * row - row * (row - 1) / 2 + column - row - 1;
}
// The matrix of a cube. Off-diagonal entries are stored with the opposite sign, as conductances.
struct CubeMatrix {
    double entries[CUBE_ENTRIES];
    // Adds c v v^T.
    __device__ void add(double c, const double (&v)[8]) {
#pragma unroll
        for (int row = 0; row < 8; ++row) {
            const double scaled_entry = c * v[row];
            entries[row] += scaled_entry * v[row];
#pragma unroll
            for (int column = row + 1; column < 8; ++column) entries[entry_of(row, column)] -= scaled_entry * v[column];
        }
    }
};

// Computes P^T A P for the cubes of a slab. On the finest grid, one thread computes a cube. On other grids, 8 lanes
// compute a cube, and each lane processes one edge of each offset.
template <class T, bool FINEST> __device__ inline void compute_product(const CoarseningArgs &a) {
    constexpr int LANES_PER_CUBE = FINEST ? 1 : 8, CORNERS_PER_LANE = 8 / LANES_PER_CUBE;
    const CellBox &coarse = a.coarse;
    const T *c = static_cast<const T *>(a.c);
    const int size[3] = {a.fine.nx, a.fine.ny, a.fine.nz};
    const int64_t cube_count = a.cube_planes * coarse.top(), first_cube = a.first_cube_plane * coarse.top();
    const int64_t warp_count = (LANES_PER_CUBE * cube_count + 31) / 32;
    // The number of threads is a multiple of 32, since all lanes of a warp take part in the shuffles.
    for_each_cell(32 * warp_count, [&](int64_t item) {
        const int64_t slab_index = min(item / LANES_PER_CUBE, cube_count - 1), cube = first_cube + slab_index;
        const unsigned row = unsigned(cube) / unsigned(coarse.nx);
        const int I = int(unsigned(cube) - row * unsigned(coarse.nx)), J = int(row % unsigned(coarse.ny));
        const int K = int(row / unsigned(coarse.ny));
        const int low_corner[3] = {I << a.is_coarsened[0], J << a.is_coarsened[1], K << a.is_coarsened[2]};
        const int64_t weights = a.strides.index(I, J, K);
        CubeMatrix e = {};
        auto point_index = [&](const int (&offset)[3]) {
            return (int64_t(low_corner[2] + offset[2]) * a.fine.ny + low_corner[1] + offset[1]) * a.fine.nx +
                low_corner[0] + offset[0];
        };
        // Returns the weight of corner t in the interpolation to the point at `offset` from the lowest corner.
        auto weights_at = [&](const int (&offset)[3], int t) {
            int side = 0, odd_bits = 0;
            for (int d = 0; d < 3; ++d) {
                side |= (offset[d] == 1 + a.is_coarsened[d]) << d;
                odd_bits |= (offset[d] & a.is_coarsened[d]) << d;
            }
            return (t & side) == side ? weight_at(a, odd_bits, t & ~side, weights + weight_distance(a.strides, side))
                                      : 0.0;
        };
        for (int corner = 0; corner < CORNERS_PER_LANE; ++corner) {
            const int bits = corner + int(item % LANES_PER_CUBE);
            const int offset[3] = {bits & 1, bits >> 1 & 1, bits >> 2};
            // In a direction that is not coarsened, edges begin only at the lowest point of a cube.
            bool edge_begins = true, is_inside = true;
            for (int d = 0; d < 3; ++d) {
                edge_begins &= offset[d] <= a.is_coarsened[d];
                is_inside &= low_corner[d] + offset[d] < size[d];
            }
            if (!edge_begins) continue;
            const int64_t point = point_index(offset);
            if (is_inside && a.row_sums[point] != 0.0) {
                double v[8];
#pragma unroll
                for (int t = 0; t < 8; ++t) v[t] = weights_at(offset, t);
                e.add(a.row_sums[point], v);
            }
            for (int k = 0; k < (FINEST ? 3 : 13); ++k) {
                const Offset o = stencil_offset<FINEST>(k);
                int edge_start[3], edge_end[3];
                bool is_inside_grid = true;
                for (int d = 0; d < 3; ++d) {
                    edge_start[d] = offset[d] + (o.d[d] < 0);
                    edge_end[d] = edge_start[d] + o.d[d];
                    is_inside_grid &= low_corner[d] + edge_start[d] < size[d] && low_corner[d] + edge_end[d] < size[d];
                }
                if (!is_inside_grid) continue;
                const double conductance =
                    conductance_of<T, FINEST>(c[k * a.c_stride + point_index(edge_start)], -a.scale);
                if (conductance == 0.0) continue;
                double v[8];
#pragma unroll
                for (int t = 0; t < 8; ++t) v[t] = weights_at(edge_start, t) - weights_at(edge_end, t);
                e.add(conductance, v);
            }
        }
#pragma unroll
        for (int k = 0; k < CUBE_ENTRIES; ++k) {
            double sum = e.entries[k];
            for (int d = 1; d < LANES_PER_CUBE; d *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
            if (item % LANES_PER_CUBE == k % LANES_PER_CUBE && item < LANES_PER_CUBE * cube_count)
                a.cubes[k * cube_count + slab_index] = sum;
        }
    });
}

// Computes the coarse grid in the planes of a slab: conductances c in T, row sums, diagonals D, and the reciprocals of
// the Jacobi divisors
//
//     max(D, (D + sum |c|) / 2) / 0.8.
//
// D is computed from the rounded conductances, so that constants remain in the null space if the row sums are zero.
template <class T> __device__ inline void compute_coarse_grid(const CoarseningArgs &a) {
    T *c = static_cast<T *>(a.coarse_conductances), *diagonal = static_cast<T *>(a.diagonal);
    T *inverse = static_cast<T *>(a.inverse);
    const int64_t top = a.coarse.top(), cube_count = a.cube_planes * top;
    for_each_cell_index({a.coarse.nx, a.coarse.ny, a.point_planes, 0},
        [&](int64_t slab_index, int I, int J, int plane) {
        const int K = a.first_point_plane + plane;
        const int64_t p = a.first_point_plane * top + slab_index;
        // Sums of entries of the cube matrices: the entry for this point, and those for its 26 neighbours, in the order
        // of the 27-point stencil. Corners beyond the grid have zero weights.
        double sums[27] = {};
#pragma unroll
        for (int corner = 7; corner >= 0; --corner) {
            const int x = corner & 1, y = corner >> 1 & 1, z = corner >> 2;
            if (I < x || J < y || K < z) continue;
            const double *entries = a.cubes + p - a.first_cube_plane * top - x - y * a.coarse.north() - z * top;
#pragma unroll
            for (int t = 0; t < 8; ++t) {
                const int stencil_number = 13 + 9 * ((t >> 2) - z) + 3 * ((t >> 1 & 1) - y) + (t & 1) - x;
                sums[stencil_number] += entries[entry_of(min(corner, t), max(corner, t)) * cube_count];
            }
        }
        double exact_sum = 0.0, sum = 0.0, magnitude_sum = 0.0;
#pragma unroll
        for (int k = 0; k < 13; ++k) {
            const double upper_sum = sums[14 + k], lower_sum = sums[12 - k];
            const T rounded_conductance = T(upper_sum);
            c[k * a.coarse_c_stride + p] = rounded_conductance;
            const double rounded_upper = rounded_conductance, rounded_lower = T(lower_sum);
            exact_sum += upper_sum;
            exact_sum += lower_sum;
            sum += rounded_upper;
            sum += rounded_lower;
            magnitude_sum += fabs(rounded_upper);
            magnitude_sum += fabs(rounded_lower);
        }
        const double row_sum = row_sum_of(sums[13], exact_sum);
        const double d = sum + row_sum, divisor = max(d, (d + magnitude_sum) / 2.0) / DAMPING;
        a.coarse_row_sums[p] = row_sum;
        diagonal[p] = T(d);
        inverse[p] = T(divisor > 0.0 ? 1.0 / divisor : 0.0);
    });
}

struct CoarsestArgs {
    CellBox cells;
    const void *c; // conductances; if SEVEN, couplings, which are negative conductances
    int64_t c_stride;
    const void *center; // if SEVEN: centers
    double factor;      // if SEVEN: factor by which couplings and centers are multiplied
    const double *row_sums;
    double *matrix; // contains zeros on entry
    double *diagonal;
    uint32_t *null_vector_of;
};

// Stores the coarsest matrix as a dense matrix for its inversion. Also finds its null vectors, each of which is one on
// a component whose row sums are zero. The row and the column of one unknown of each null vector are set to zero.
// Executed by one thread block with one thread per point. SEVEN: whether the matrix has 7 points per row.
template <class T, bool SEVEN> __device__ inline void spread_coarsest(const CoarsestArgs &a) {
    const int n = int(a.cells.count()), p = threadIdx.x;
    const T *c = static_cast<const T *>(a.c);
    // Calls f(q, conductance) for the neighbours of p.
    auto for_each_coupling = [&](auto f) {
        for (int k = 0; p < n && k < (SEVEN ? 3 : 13); ++k) {
            const int distance = int(memory_step(a.cells, stencil_offset<SEVEN>(k)));
            const double sign = SEVEN ? -a.factor : 1.0;
            const double upper_conductance = sign * c[k * a.c_stride + p],
                lower_conductance = sign * c[k * a.c_stride + p - distance];
            if (upper_conductance != 0.0) f(p + distance, upper_conductance);
            if (lower_conductance != 0.0) f(p - distance, lower_conductance);
        }
    };
    double diagonal = 0.0;
    for_each_coupling([&](int, double conductance) { diagonal += conductance; });
    const bool is_regular = p < n && a.row_sums[p] > 0.0;
    diagonal += is_regular ? a.row_sums[p] : 0.0;
    // In single precision, the rounding error of a center may exceed the couplings of the heavy phase. The diagonal
    // entry is therefore the sum of the conductances and the row sum, if this sum is positive.
    const bool uses_center = SEVEN && (sizeof(T) == sizeof(double) || !(diagonal > 0.0));
    if (uses_center && p < n) diagonal = a.factor * static_cast<const T *>(a.center)[p];
    const uint32_t *null_vector_of =
        inverse::find_null_vectors(n, is_regular,
            [&](auto f) { for_each_coupling([&](int q, double) { f(unsigned(q)); }); });
    if (p >= n) return;
    const bool is_removed = null_vector_of[p] & IS_REMOVED;
    for_each_coupling([&](int q, double conductance) {
        a.matrix[int64_t(p) * n + q] = is_removed || null_vector_of[q] & IS_REMOVED ? 0.0 : -conductance;
    });
    a.null_vector_of[p] = null_vector_of[p];
    a.diagonal[p] = diagonal;
    a.matrix[int64_t(p) * n + p] = is_removed ? 0.0 : diagonal;
}

} // namespace dpcg

DPCG_KERNEL(dpcg_compute_conductances_f64, CoarseningArgs, compute_conductances<double>)
DPCG_KERNEL(dpcg_compute_conductances_f32, CoarseningArgs, compute_conductances<float>)
DPCG_KERNEL(dpcg_compute_finest_strengths_f64, CoarseningArgs, compute_strengths<double, true>)
DPCG_KERNEL(dpcg_compute_finest_strengths_f32, CoarseningArgs, compute_strengths<float, true>)
DPCG_KERNEL(dpcg_compute_strengths_f64, CoarseningArgs, compute_strengths<double, false>)
DPCG_KERNEL(dpcg_compute_strengths_f32, CoarseningArgs, compute_strengths<float, false>)
DPCG_KERNEL(dpcg_compute_finest_weights_f64, CoarseningArgs, compute_weights<double, true>)
DPCG_KERNEL(dpcg_compute_finest_weights_f32, CoarseningArgs, compute_weights<float, true>)
DPCG_KERNEL(dpcg_compute_weights_f64, CoarseningArgs, compute_weights<double, false>)
DPCG_KERNEL(dpcg_compute_weights_f32, CoarseningArgs, compute_weights<float, false>)
DPCG_LARGE_KERNEL(dpcg_multiply_finest_f64, CoarseningArgs, compute_product<double, true>)
DPCG_LARGE_KERNEL(dpcg_multiply_finest_f32, CoarseningArgs, compute_product<float, true>)
DPCG_LARGE_KERNEL(dpcg_multiply_coarse_f64, CoarseningArgs, compute_product<double, false>)
DPCG_LARGE_KERNEL(dpcg_multiply_coarse_f32, CoarseningArgs, compute_product<float, false>)
DPCG_LARGE_KERNEL(dpcg_compute_coarse_grid_f64, CoarseningArgs, compute_coarse_grid<double>)
DPCG_LARGE_KERNEL(dpcg_compute_coarse_grid_f32, CoarseningArgs, compute_coarse_grid<float>)
#define DPCG_POINT_KERNEL(NAME, ...)                                                                                   \
    extern "C" __global__ void __launch_bounds__(dpcg::MAX_UNKNOWNS) NAME(dpcg::CoarsestArgs a) {                     \
        dpcg::spread_coarsest<__VA_ARGS__>(a);                                                                         \
    }
DPCG_POINT_KERNEL(dpcg_spread_coarsest_f64, double, false)
DPCG_POINT_KERNEL(dpcg_spread_coarsest_f32, float, false)
DPCG_POINT_KERNEL(dpcg_spread_cells_f64, double, true)
DPCG_POINT_KERNEL(dpcg_spread_cells_f32, float, true)

// Setup of multigrid with vertex coarsening, grid after grid: conductances of the caller's matrix, strengths of the
// directions, interpolation weights, Galerkin product P^T A P with 27 points, smoother (Dendy 1982). The formulas are
// in src/dpcg/cpu/vertex. Products are computed in f64, conductances are stored in T. vertex.cuh describes the storage;
// unrounded weights and products have arrays of their own.
//
// An edge is a pair (p, q) of neighbouring fine points. Each edge is assigned to one cube between 8 coarse points. The
// lowest corner of this cube is the last coarse point at or before the componentwise minimum of p and q. A cube has up
// to 8 such edges of each offset. A thread or a group of 8 lanes computes the 8 x 8 matrix of a cube. The thread of a
// coarse point then adds the matrices of its cubes in the order of the cubes. The sum for a pair of coarse points
// therefore has the same order in the threads of both points. Cubes are computed and added by slabs. A slab consists of
// as many planes of points as the workspace allows, and of the planes of cubes next to them.
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
    int coarsened[3];
    int which;        // compute_weights: number of odd indices of the points to process
    CellMatrix m;         // the caller's matrix
    double scale;     // factor of the caller's matrix
    void *c;          // conductances of the fine grid, or couplings (see conductance_of)
    int64_t c_stride; // distance between the conductances of successive offsets
    void *diagonal, *inverse; // of the finest grid in compute_conductances, of the coarse grid in compute_coarse_grid
    double *excess;           // row sums of the fine grid
    double *weights;          // unrounded weights
    void *narrow;             // weights rounded to T
    Strides strides;          // of both arrays of weights
    double *cubes;            // matrices of the cubes of a slab, entry by entry
    int cubes_from, cube_planes;   // planes of cubes in the slab
    int points_from, point_planes; // planes of points in the slab
    void *coarse_c;
    int64_t coarse_stride;
    double *coarse_excess;
    double *partial;   // 4 values per block
    double *strengths; // result of compute_strengths: three sums, then the number of rows
    Scalars *scalars;
};

// Returns the row sum diagonal - sum, or zero if it is at most ZERO_ROW_SUM times the diagonal.
__device__ inline double excess_of(double diagonal, double sum) {
    const double excess = diagonal - sum;
    return excess > ZERO_ROW_SUM * diagonal ? excess : 0.0;
}

struct Offset {
    int d[3];
};

// Returns offset k of the upper half of the 7-point or 27-point stencil.
template <bool FINEST> __device__ inline Offset offset_of_number(int k) {
    if (FINEST) return {{k == 0, k == 1, k == 2}};
    const int m = k + 14;
    return {{m % 3 - 1, m / 3 % 3 - 1, m / 9 - 1}};
}

// Returns the distance in memory of an offset.
__device__ inline int64_t step_of_offset(const CellBox &box, const Offset &o) {
    return o.d[0] + o.d[1] * box.north() + o.d[2] * box.top();
}

// Calls f(offset, conductance) for the neighbours of p with a nonzero conductance.
template <class T, bool FINEST, class F>
__device__ inline void each_neighbour(const CoarseningArgs &a, int64_t p, F f) {
    const T *c = static_cast<const T *>(a.c) + p;
    for (int k = 0; k < (FINEST ? 3 : 13); ++k, c += a.c_stride) {
        const Offset o = offset_of_number<FINEST>(k);
        const double up = conductance_of<T, FINEST>(c[0], -a.scale);
        const double down = conductance_of<T, FINEST>(c[-step_of_offset(a.fine, o)], -a.scale);
        if (up != 0.0) f(o, up);
        if (down != 0.0) f(Offset{{-o.d[0], -o.d[1], -o.d[2]}}, down);
    }
}

// Computes row sums, diagonals, and reciprocal centers for Gauss-Seidel on the finest grid. Also computes the
// conductances, unless the cycle uses the entries of the solver's matrix instead (see OF_SOLVER). If a cell has no
// couplings, its diagonal entry is its center.
template <class T> __device__ inline void compute_conductances(const CoarseningArgs &a) {
    const int64_t n = a.fine.north(), t = a.fine.top();
    [[maybe_unused]] T *c = static_cast<T *>(a.c);
    T *diagonal = static_cast<T *>(a.diagonal), *inverse = static_cast<T *>(a.inverse);
    over_cells(a.fine.count(), [&](int64_t p) {
        const double entries[6] = {a.m.east[p], a.m.east[p - 1], a.m.north[p], a.m.north[p - n], a.m.top[p],
            a.m.top[p - t]};
        double sum = 0.0, size = 0.0, rounded = 0.0;
        for (int k = 0; k < 6; ++k) {
            sum += -entries[k];
            size += fabs(entries[k]);
            const T value = T(-a.scale * entries[k]);
            rounded += double(value);
            if constexpr (!OF_SOLVER<T, true>) {
                if (k % 2 == 0) c[k / 2 * a.c_stride + p] = value;
            }
        }
        const double center = a.scale * a.m.center[p];
        const double excess = size > 0.0 ? excess_of(center, a.scale * sum) : 0.0;
        const T d = T(rounded + excess);
        a.excess[p] = excess;
        diagonal[p] = d == T(0) ? T(center) : d;
        inverse[p] = T(1.0 / center);
    });
}

// Computes, for each direction, the sum of c / d over all rows with a positive diagonal d, where c is the sum of the
// conductances to those neighbours whose index in this direction differs. Also counts these rows.
template <class T, bool FINEST> __device__ inline void compute_strengths(const CoarseningArgs &a) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    over_cells(a.fine.count(), [&](int64_t p) {
        double row[3] = {0.0, 0.0, 0.0}, diagonal = 0.0;
        each_neighbour<T, FINEST>(a, p, [&](const Offset &o, double c) {
            diagonal += c;
            for (int d = 0; d < 3; ++d) row[d] += o.d[d] != 0 ? c : 0.0;
        });
        diagonal += a.excess[p];
        if (!(diagonal > 0.0)) return;
        for (int d = 0; d < 3; ++d) sums[d] += row[d] / diagonal;
        sums[3] += 1.0;
    });
    sums_of_blocks(sums, a.partial, &a.scalars->ticket, a.strengths);
}

// Returns the distance between the weights of two corners of a cube: the lowest corner, and the corner that is on the
// upper side in the directions whose bits are set in `side`.
__device__ inline int64_t step_to_side(const Strides &s, int side) {
    return (side & 1) + (side & 2 ? s.next[1] : 0) + (side & 4 ? s.next[2] : 0);
}

// Returns the weight of a coarse point in the interpolation to a fine point. `type` has a bit for each coarsened
// direction in which the index of the fine point is odd. `t` has a bit for each direction in which the coarse point is
// after the fine point. If `t` has a bit that `type` does not have, the fine point is not interpolated from this coarse
// point, and the weight is zero. `at`: Strides::place of the coarse index of the fine point.
__device__ inline double weight_at(const CoarseningArgs &a, int type, int t, int64_t at) {
    if (t & ~type) return 0.0;
    return type == 0 ? 1.0 : a.weights[a.strides.at(type, t) + at];
}

// Computes the weights of point p, whose type is `type` (see weight_at). `at`: Strides::place of its coarse index.
template <class T, bool FINEST>
__device__ inline void compute_weights_of(const CoarseningArgs &a, int type, int64_t p, int64_t at) {
    double row[8] = {}, sum = 0.0, diagonal = a.excess[p];
    each_neighbour<T, FINEST>(a, p, [&](const Offset &o, double c) {
        diagonal += c;
        // If the offset is nonzero in a direction of `type`, the index of the neighbour is even in this direction. The
        // type of the neighbour does not have this bit.
        int moved = 0, side = 0;
        for (int d = 0; d < 3; ++d) {
            moved |= (type >> d & 1 && o.d[d] != 0) << d;
            side |= (type >> d & 1 && o.d[d] > 0) << d;
        }
        if (moved == 0) return;
        sum += c;
        const int64_t there = at + step_to_side(a.strides, side);
#pragma unroll
        for (int t = 0; t < 8; ++t) {
            if ((t & moved) == side) row[t] += c * weight_at(a, type & ~moved, t & ~side, there);
        }
    });
    // If the sum of the couplings towards coarse points is not positive, p is not interpolated: all its weights are
    // zero.
    const double sound = sum + a.excess[p] > ZERO_ROW_SUM * diagonal ? sum + a.excess[p] : sum;
    const double divisor = sum > 0.0 ? sound : 0.0;
#pragma unroll
    for (int t = 0; t < 8; ++t) {
        if (t & ~type) continue;
        const double weight = divisor != 0.0 ? row[t] / divisor : 0.0;
        const int64_t to = a.strides.at(type, t) + at;
        a.weights[to] = weight;
        static_cast<T *>(a.narrow)[to] = T(weight);
    }
}

// Computes the interpolation weights of the points that have `which` odd indices in coarsened directions, from the
// weights of points with fewer odd indices. A warp processes points of one type (see weight_at). Neighbouring warps
// process the other types at the same coarse points.
template <class T, bool FINEST> __device__ inline void compute_weights(const CoarseningArgs &a) {
    const int all = a.coarsened[0] | a.coarsened[1] << 1 | a.coarsened[2] << 2, types = a.which == 3 ? 1 : 3;
    const unsigned count = unsigned(a.coarse.count());
    over_cells(int64_t((count - 1) / 32 + 1) * 32 * types, [&](int64_t item) {
        const unsigned warp = unsigned(item / 32), chunk = warp / unsigned(types), number = warp - chunk * types;
        const int type = a.which == 1 ? 1 << number : a.which == 2 ? 7 ^ 1 << number : 7;
        const unsigned place = 32 * chunk + unsigned(item) % 32, nx = a.coarse.nx, ny = a.coarse.ny, row = place / nx;
        if (place >= count || type & ~all) return;
        const int I = int(place - row * nx), J = int(row % ny), K = int(row / ny);
        const int i = (I << a.coarsened[0]) + (type & 1), j = (J << a.coarsened[1]) + (type >> 1 & 1);
        const int k = (K << a.coarsened[2]) + (type >> 2);
        if (i >= a.fine.nx || j >= a.fine.ny || k >= a.fine.nz) return;
        const int64_t p = (int64_t(k) * a.fine.ny + j) * a.fine.nx + i;
        compute_weights_of<T, FINEST>(a, type, p, a.strides.place(I, J, K));
    });
}

// Number of stored entries of the matrix of a cube: the diagonal, then the upper triangle by rows.
constexpr int CUBE_ENTRIES = 36;
__device__ constexpr int entry_of(int first, int second) {
    return first == second ? first : 8 + 7 * first - first * (first - 1) / 2 + second - first - 1;
}
// The matrix of a cube. Off-diagonal entries are stored with the opposite sign, as conductances.
struct CubeMatrix {
    double entries[CUBE_ENTRIES];
    // Adds c v v^T.
    __device__ void add(double c, const double (&v)[8]) {
#pragma unroll
        for (int first = 0; first < 8; ++first) {
            const double scaled = c * v[first];
            entries[first] += scaled * v[first];
#pragma unroll
            for (int second = first + 1; second < 8; ++second) entries[entry_of(first, second)] -= scaled * v[second];
        }
    }
};

// Computes P^T A P for the cubes of a slab. On the finest grid, one thread computes a cube. On other grids, 8 lanes
// compute a cube, and each lane processes one edge of each offset.
template <class T, bool FINEST> __device__ inline void compute_product(const CoarseningArgs &a) {
    constexpr int LANES = FINEST ? 1 : 8, CORNERS = 8 / LANES;
    const CellBox &coarse = a.coarse;
    const T *c = static_cast<const T *>(a.c);
    const int size[3] = {a.fine.nx, a.fine.ny, a.fine.nz};
    const int64_t cubes = a.cube_planes * coarse.top(), first = a.cubes_from * coarse.top();
    const int64_t warpfuls = (LANES * cubes + 31) / 32;
    // The number of threads is a multiple of 32, since all lanes of a warp take part in the shuffles.
    over_cells(32 * warpfuls, [&](int64_t item) {
        const int64_t in_slab = min(item / LANES, cubes - 1), cube = first + in_slab;
        const unsigned row = unsigned(cube) / unsigned(coarse.nx);
        const int I = int(unsigned(cube) - row * unsigned(coarse.nx)), J = int(row % unsigned(coarse.ny));
        const int K = int(row / unsigned(coarse.ny));
        const int low[3] = {I << a.coarsened[0], J << a.coarsened[1], K << a.coarsened[2]};
        const int64_t weights = a.strides.place(I, J, K);
        CubeMatrix e = {};
        auto place = [&](const int (&in)[3]) {
            return (int64_t(low[2] + in[2]) * a.fine.ny + low[1] + in[1]) * a.fine.nx + low[0] + in[0];
        };
        // Returns the weight of corner t in the interpolation to the point at the offset `in` from the lowest corner.
        auto weights_at = [&](const int (&in)[3], int t) {
            int side = 0, type = 0;
            for (int d = 0; d < 3; ++d) {
                side |= (in[d] == 1 + a.coarsened[d]) << d;
                type |= (in[d] & a.coarsened[d]) << d;
            }
            return (t & side) == side ? weight_at(a, type, t & ~side, weights + step_to_side(a.strides, side))
                                      : 0.0;
        };
        for (int part = 0; part < CORNERS; ++part) {
            const int bits = part + int(item % LANES);
            const int in[3] = {bits & 1, bits >> 1 & 1, bits >> 2};
            // In a direction that is not coarsened, edges begin only at the lowest point of a cube.
            bool begins = true, inside = true;
            for (int d = 0; d < 3; ++d) {
                begins &= in[d] <= a.coarsened[d];
                inside &= low[d] + in[d] < size[d];
            }
            if (!begins) continue;
            const int64_t here = place(in);
            if (inside && a.excess[here] != 0.0) {
                double v[8];
#pragma unroll
                for (int t = 0; t < 8; ++t) v[t] = weights_at(in, t);
                e.add(a.excess[here], v);
            }
            for (int k = 0; k < (FINEST ? 3 : 13); ++k) {
                const Offset o = offset_of_number<FINEST>(k);
                int from[3], to[3];
                bool has = true;
                for (int d = 0; d < 3; ++d) {
                    from[d] = in[d] + (o.d[d] < 0);
                    to[d] = from[d] + o.d[d];
                    has &= low[d] + from[d] < size[d] && low[d] + to[d] < size[d];
                }
                if (!has) continue;
                const double conductance = conductance_of<T, FINEST>(c[k * a.c_stride + place(from)], -a.scale);
                if (conductance == 0.0) continue;
                double v[8];
#pragma unroll
                for (int t = 0; t < 8; ++t) v[t] = weights_at(from, t) - weights_at(to, t);
                e.add(conductance, v);
            }
        }
#pragma unroll
        for (int k = 0; k < CUBE_ENTRIES; ++k) {
            double sum = e.entries[k];
            for (int d = 1; d < LANES; d *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
            if (item % LANES == k % LANES && item < LANES * cubes) a.cubes[k * cubes + in_slab] = sum;
        }
    });
}

// Computes the coarse grid in the planes of a slab: conductances in T, row sums, diagonals and Jacobi divisors max(D,
// (D + sum |c|)/2) / 0.8. D is computed from the rounded conductances, so that constants remain in the null space if
// the row sums are zero.
template <class T> __device__ inline void compute_coarse_grid(const CoarseningArgs &a) {
    T *c = static_cast<T *>(a.coarse_c), *diagonal = static_cast<T *>(a.diagonal);
    T *inverse = static_cast<T *>(a.inverse);
    const int64_t top = a.coarse.top(), cubes = a.cube_planes * top;
    over_places({a.coarse.nx, a.coarse.ny, a.point_planes, 0}, [&](int64_t in_slab, int I, int J, int plane) {
        const int K = a.points_from + plane;
        const int64_t p = a.points_from * top + in_slab;
        // Sums for this point and its 26 neighbours, in the order of the 27-point stencil. Corners beyond the grid have
        // zero weights.
        double sums[27] = {};
#pragma unroll
        for (int own = 7; own >= 0; --own) {
            const int x = own & 1, y = own >> 1 & 1, z = own >> 2;
            if (I < x || J < y || K < z) continue;
            const double *entries = a.cubes + p - a.cubes_from * top - x - y * a.coarse.north() - z * top;
#pragma unroll
            for (int t = 0; t < 8; ++t) {
                const int number = 13 + 9 * ((t >> 2) - z) + 3 * ((t >> 1 & 1) - y) + (t & 1) - x;
                sums[number] += entries[entry_of(min(own, t), max(own, t)) * cubes];
            }
        }
        double exact = 0.0, sum = 0.0, size = 0.0;
#pragma unroll
        for (int k = 0; k < 13; ++k) {
            const double up = sums[14 + k], down = sums[12 - k];
            const T rounded = T(up);
            c[k * a.coarse_stride + p] = rounded;
            const double rounded_up = rounded, rounded_down = T(down);
            exact += up;
            exact += down;
            sum += rounded_up;
            sum += rounded_down;
            size += fabs(rounded_up);
            size += fabs(rounded_down);
        }
        const double excess = excess_of(sums[13], exact);
        const double d = sum + excess, divisor = max(d, (d + size) / 2.0) / DAMPING;
        a.coarse_excess[p] = excess;
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
    const double *excess;
    double *matrix; // contains zeros on entry
    double *diagonal;
    uint32_t *null_of;
};

// Stores the coarsest matrix as a dense matrix for its inversion, and finds the null vectors: components whose row sums
// are zero. The row and the column of one unknown of each null vector are set to zero. Executed by one thread block
// with one thread per point. SEVEN: whether the matrix has 7 points per row.
template <class T, bool SEVEN> __device__ inline void spread_coarsest(const CoarsestArgs &a) {
    const int n = int(a.cells.count()), p = threadIdx.x;
    const T *c = static_cast<const T *>(a.c);
    // Calls f(q, conductance) for the neighbours of p.
    auto each = [&](auto f) {
        for (int k = 0; p < n && k < (SEVEN ? 3 : 13); ++k) {
            const int step = int(step_of_offset(a.cells, offset_of_number<SEVEN>(k)));
            const double sign = SEVEN ? -a.factor : 1.0;
            const double up = sign * c[k * a.c_stride + p], down = sign * c[k * a.c_stride + p - step];
            if (up != 0.0) f(p + step, up);
            if (down != 0.0) f(p - step, down);
        }
    };
    double diagonal = 0.0;
    each([&](int, double conductance) { diagonal += conductance; });
    const bool has_excess = p < n && a.excess[p] > 0.0;
    diagonal += has_excess ? a.excess[p] : 0.0;
    // In single precision, the rounding error of a center may exceed the couplings of the heavy phase. The diagonal
    // entry is therefore the sum of the conductances and the row sum, if this sum is positive.
    const bool is_given = SEVEN && (sizeof(T) == sizeof(double) || !(diagonal > 0.0));
    if (is_given && p < n) diagonal = a.factor * static_cast<const T *>(a.center)[p];
    const uint32_t *null =
        inverse::find_null_vectors(n, has_excess, [&](auto f) { each([&](int q, double) { f(unsigned(q)); }); });
    if (p >= n) return;
    const bool out = null[p] & LEFT_OUT;
    each([&](int q, double conductance) {
        a.matrix[int64_t(p) * n + q] = out || null[q] & LEFT_OUT ? 0.0 : -conductance;
    });
    a.null_of[p] = null[p];
    a.diagonal[p] = diagonal;
    a.matrix[int64_t(p) * n + p] = out ? 0.0 : diagonal;
}

} // namespace dpcg

DPCG_KERNEL(dpcg_take_conductances_f64, CoarseningArgs, compute_conductances<double>)
DPCG_KERNEL(dpcg_take_conductances_f32, CoarseningArgs, compute_conductances<float>)
DPCG_KERNEL(dpcg_finest_strengths_f64, CoarseningArgs, compute_strengths<double, true>)
DPCG_KERNEL(dpcg_finest_strengths_f32, CoarseningArgs, compute_strengths<float, true>)
DPCG_KERNEL(dpcg_strengths_f64, CoarseningArgs, compute_strengths<double, false>)
DPCG_KERNEL(dpcg_strengths_f32, CoarseningArgs, compute_strengths<float, false>)
DPCG_KERNEL(dpcg_finest_weights_f64, CoarseningArgs, compute_weights<double, true>)
DPCG_KERNEL(dpcg_finest_weights_f32, CoarseningArgs, compute_weights<float, true>)
DPCG_KERNEL(dpcg_weights_f64, CoarseningArgs, compute_weights<double, false>)
DPCG_KERNEL(dpcg_weights_f32, CoarseningArgs, compute_weights<float, false>)
DPCG_LARGE_KERNEL(dpcg_finest_product_f64, CoarseningArgs, compute_product<double, true>)
DPCG_LARGE_KERNEL(dpcg_finest_product_f32, CoarseningArgs, compute_product<float, true>)
DPCG_LARGE_KERNEL(dpcg_product_f64, CoarseningArgs, compute_product<double, false>)
DPCG_LARGE_KERNEL(dpcg_product_f32, CoarseningArgs, compute_product<float, false>)
DPCG_LARGE_KERNEL(dpcg_take_coarse_f64, CoarseningArgs, compute_coarse_grid<double>)
DPCG_LARGE_KERNEL(dpcg_take_coarse_f32, CoarseningArgs, compute_coarse_grid<float>)
#define DPCG_POINT_KERNEL(NAME, ...)                                                                                   \
    extern "C" __global__ void __launch_bounds__(dpcg::MOST_UNKNOWNS) NAME(dpcg::CoarsestArgs a) {                     \
        dpcg::spread_coarsest<__VA_ARGS__>(a);                                                                         \
    }
DPCG_POINT_KERNEL(dpcg_spread_coarsest_f64, double, false)
DPCG_POINT_KERNEL(dpcg_spread_coarsest_f32, float, false)
DPCG_POINT_KERNEL(dpcg_spread_cells_f64, double, true)
DPCG_POINT_KERNEL(dpcg_spread_cells_f32, float, true)

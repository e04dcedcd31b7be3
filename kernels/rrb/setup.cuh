// Inspection of the matrix, and factorization colour by colour (report 16-06, section 2.2; docs/theory/rrb.md, row-sum
// form), with the formulas of src/rrb/cpu/factor/formulas.rs. Each step is a launch. In a step, each value is written
// by one thread, and no thread reads values that another thread writes. storage.cuh describes the launches. Memory
// traffic per node of the first grid, in bytes: copy 48, row sums 32, eliminations about 60.
#include "storage.cuh"

// Maximum number of grids after which the remaining matrix is tested for weak couplings.
constexpr int MAX_TESTED_GRIDS = 16;
// Number of windows per direction in which the anisotropy is computed.
constexpr int WINDOWS_PER_SIDE = 8;
// Constants of src/rrb/anisotropy.rs: number of nodes per direction of a window and of a part of a window, and a factor
// that allows for rounding errors.
constexpr int WINDOW_WIDTH = 32, PART_WIDTH = 4, PARTS_PER_SIDE = WINDOW_WIDTH / PART_WIDTH;
constexpr double ROUNDING_FACTOR = 0.999;

// Results of the inspection of the matrix and of the eliminations.
struct Findings {
    uint64_t not_finite; // smallest ((j * 5 + array) * nx + i) of an entry that is not finite
    uint64_t bad_center; // smallest j * nx + i of a center that is not a positive normal number
    uint64_t positive;   // number of positive couplings
    uint64_t center_max, center_min, coupling_max; // bit patterns of the largest and the smallest center, and of the
                                                   // largest |coupling|
    uint64_t zero_couplings;                       // number of nodes whose east or north coupling is zero
    uint64_t outward[4];          // number of couplings that point out of the grid and are neither 0 nor NaN, per array
                                  // (src/stencil/outward.rs)
    uint64_t first_outward;       // index of the first such coupling, encoded as in `not_finite`
    uint64_t has_nonzero_row_sum; // 1 if a node with couplings has a nonzero row sum
    uint64_t bad_pivot;           // smallest (level << 40 | node of the finest grid) of a rejected pivot
    uint64_t components, regular_components; // components of two nodes or more: kernels/rrb/components.cuh
    uint64_t coarsest_inverse,
        coarsest_pivot; // bit patterns of the largest entry of the inverse of the coarsest matrix, and of the largest
                        // pivot of this matrix
    uint64_t uniform[MAX_TESTED_GRIDS];  // number of uniform tiles of each grid: kernels/rrb/uniform.cuh
    uint64_t coupling[MAX_TESTED_GRIDS]; // for the matrix after each grid: largest ratio of the sum of |couplings| of
                                         // a row to its center, as bit pattern
    double window[WINDOWS_PER_SIDE * WINDOWS_PER_SIDE]; // anisotropy of each window: src/rrb/anisotropy.rs
};

#include "uniform.cuh"

struct Matrix {
    double *center;          // 4 planes
    double *axis_couplings;  // 8 planes
    double *red_couplings;   // 4 planes, couplings of r1 to r2; null with 5 points
    double *black_couplings; // 4 planes, couplings of b1 to b2; null with 5 points
};

// Stores the half stencil of node (i, j), that is, its center and its couplings to the east, north, northeast and
// northwest, in the arrays by colour. Null arrays are skipped.
__device__ inline void store_half_stencil(const Geometry &g, int i, int j, double *centers, double *s, double *red,
    double *black, double center, double east, double north, double northeast, double northwest) {
    const int ii = i + g.shift_x, jj = j + g.shift_y;
    const int64_t p = g.plane, n = g.stride, c = g.at(ii >> 1, jj >> 1);
    double *r1 = s, *r2 = s + 4 * p;
    if (jj & 1) {
        if (ii & 1) {
            centers[B2 * p + c] = center;
            r1[W * p + c + 1] = east;
            r2[S * p + c + n] = north;
            if (black) {
                black[SW * p + c + n + 1] = northeast;
                black[SE * p + c + n] = northwest;
            }
        } else {
            centers[R1 * p + c] = center;
            r1[E * p + c] = east;
            r1[N * p + c] = north;
            if (red) {
                red[NE * p + c] = northeast;
                red[NW * p + c] = northwest;
            }
        }
    } else {
        if (ii & 1) {
            centers[R2 * p + c] = center;
            r2[E * p + c] = east;
            r2[N * p + c] = north;
            if (red) {
                red[SW * p + c + 1] = northeast;
                red[SE * p + c] = northwest;
            }
        } else {
            centers[B1 * p + c] = center;
            r2[W * p + c] = east;
            r1[S * p + c] = north;
            if (black) {
                black[NE * p + c] = northeast;
                black[NW * p + c] = northwest;
            }
        }
    }
}

struct CopyMatrixArgs {
    Geometry g;
    Matrix m;
    const double *center, *east, *north, *northeast, *northwest; // caller's arrays from row `first_row` on
    int64_t ld[5]; // leading dimensions; host arrays are transferred without the gaps between rows
    int first_row, rows;
    Findings *findings;
};

// Counts the nonzero entries of node (i, j) that point out of the grid. Only boundary nodes have such entries.
__device__ inline void count_outward(const CopyMatrixArgs &a, int i, int j, int row) {
    const Geometry &g = a.g;
    const bool has_east = i + 1 < g.nx, has_north = j + 1 < g.ny;
    if (has_east && has_north && i > 0) return;
    const double *arrays[4] = {a.east, a.north, a.northeast, a.northwest};
    const bool points_inside[4] = {has_east, has_north, has_east && has_north, i > 0 && has_north};
    for (int e = 0; e < 4; ++e) {
        if (points_inside[e] || !arrays[e] || !(fabs(arrays[e][row * a.ld[e + 1] + i]) > 0.0)) continue;
        atomic_add(&a.findings->outward[e], 1);
        atomic_min(&a.findings->first_outward, (uint64_t(j) * 5 + e + 1) * g.nx + i);
    }
}

// Copies A from the caller's arrays, and inspects it, with one thread per node. Entries that point out of the grid are
// stored as zero.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_copy_matrix_f64(CopyMatrixArgs a) {
    const Geometry &g = a.g;
    uint64_t positive_count = 0, zero_couplings = 0, largest_center = 0, smallest_center = ~0ull, largest_coupling = 0;
    for_each_value(g.nx, 0, a.rows, [&](int i, int row) {
        const int j = a.first_row + row;
        const auto index = [&](int e) { return row * a.ld[e] + i; };
        const bool has_east = i + 1 < g.nx, has_north = j + 1 < g.ny, has_corners = a.northeast != nullptr;
        const double v[5] = {a.center[index(0)], has_east ? a.east[index(1)] : 0.0, has_north ? a.north[index(2)] : 0.0,
            has_corners && has_east && has_north ? a.northeast[index(3)] : 0.0,
            has_corners && i > 0 && has_north ? a.northwest[index(4)] : 0.0};
        for (int e = 0; e < 5; ++e) {
            const uint64_t m = magnitude(v[e]);
            if (m >= 0x7ff0000000000000ull) atomic_min(&a.findings->not_finite, (uint64_t(j) * 5 + e) * g.nx + i);
            if (e == 0) continue;
            positive_count += v[e] > 0.0;
            largest_coupling = max(largest_coupling, m);
        }
        if (!(v[0] >= 2.2250738585072014e-308)) atomic_min(&a.findings->bad_center, uint64_t(j) * g.nx + i);
        largest_center = max(largest_center, magnitude(v[0]));
        smallest_center = min(smallest_center, magnitude(v[0]));
        zero_couplings += (has_east && v[1] == 0.0) || (has_north && v[2] == 0.0);
        count_outward(a, i, j, row);
        store_half_stencil(g, i, j, a.m.center, a.m.axis_couplings, a.m.red_couplings, a.m.black_couplings, v[0], v[1],
            v[2], v[3], v[4]);
    });
    // The combined values are integers and maxima, so the result does not depend on the order of the threads.
    __shared__ unsigned long long block_values[5];
    if (thread_of_block() < 5) block_values[thread_of_block()] = thread_of_block() == 1 ? ~0ull : 0;
    __syncthreads();
    if (largest_center) atomicMax(&block_values[0], (unsigned long long)largest_center);
    if (smallest_center != ~0ull) atomicMin(&block_values[1], (unsigned long long)smallest_center);
    if (largest_coupling) atomicMax(&block_values[2], (unsigned long long)largest_coupling);
    if (positive_count) atomicAdd(&block_values[3], (unsigned long long)positive_count);
    if (zero_couplings) atomicAdd(&block_values[4], (unsigned long long)zero_couplings);
    __syncthreads();
    if (thread_of_block() == 0) {
        atomic_max(&a.findings->center_max, block_values[0]);
        atomic_min(&a.findings->center_min, block_values[1]);
        atomic_max(&a.findings->coupling_max, block_values[2]);
        atomic_add(&a.findings->positive, block_values[3]);
        atomic_add(&a.findings->zero_couplings, block_values[4]);
    }
}

struct RowSumArgs {
    Geometry g;
    Matrix m;
    double *row_sums; // 4 planes
    double zero_row_sum;
    int nine_points;
    Findings *findings;
    // Per patch: 1 on entry, set to 0 if a row of the patch differs from the row of its west or south neighbour of the
    // same colour.
    uint8_t *equal_rows;
};

// Compares a value of a plane with its west and south neighbours; returns 0 if all three are bitwise identical.
__device__ inline uint64_t compare_with_neighbours(const double *plane, int64_t c, int64_t n) {
    const auto value_bits = [&](int64_t index) { return uint64_t(__double_as_longlong(plane[index])); };
    return (value_bits(c) ^ value_bits(c - 1)) | (value_bits(c) ^ value_bits(c - n));
}

// Computes the row sums of M: s_k = c_k + sum_l a_kl, or 0 if this sum has a magnitude of at most zero_row_sum c_k. The
// compensation of positive couplings does not change row sums. Also sets `equal_rows` and
// `Findings::has_nonzero_row_sum`.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_row_sums_f64(RowSumArgs a) {
    const Geometry &g = a.g;
    const int64_t p = g.plane;
    bool has_row_sum = false;
    for_each_group_of_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        for (int colour = 0; colour < 4; ++colour) {
            double t[4], corner_sum = 0.0;
            load_axis_couplings(g, a.m.axis_couplings, colour, c, t);
            const double axis_sum = sum4(t);
            bool is_coupled = t[0] != 0.0 || t[1] != 0.0 || t[2] != 0.0 || t[3] != 0.0;
            if (a.nine_points) {
                load_diagonal_couplings(g, colour < B1 ? a.m.red_couplings : a.m.black_couplings, colour, c, t);
                corner_sum = sum4(t);
                is_coupled = is_coupled || t[0] != 0.0 || t[1] != 0.0 || t[2] != 0.0 || t[3] != 0.0;
            }
            const double center = a.m.center[colour * p + c], row_sum = center + (axis_sum + corner_sum);
            const bool is_zero = fabs(row_sum) <= a.zero_row_sum * center;
            has_row_sum = has_row_sum || (is_coupled && !is_zero);
            a.row_sums[colour * p + c] = is_zero ? 0.0 : row_sum;
        }
        uint64_t differs = 0;
        for (int e = 0; e < 4 && !differs; ++e) {
            differs = compare_with_neighbours(a.m.center + e * p, c, g.stride) |
                compare_with_neighbours(a.m.axis_couplings + e * p, c, g.stride) |
                compare_with_neighbours(a.m.axis_couplings + (4 + e) * p, c, g.stride);
            if (a.nine_points)
                differs |= compare_with_neighbours(a.m.red_couplings + e * p, c, g.stride) |
                    compare_with_neighbours(a.m.black_couplings + e * p, c, g.stride);
        }
        if (differs) a.equal_rows[patch_index(g, i, j)] = 0;
    });
    if (has_row_sum) a.findings->has_nonzero_row_sum = 1;
}

struct WindowArgs {
    Geometry g;
    Matrix m;
    const double *row_sums;
    int nine_points;
    Findings *findings;
};

// Returns the row sum of node (i, j), and its couplings to the east and to the north, which `store_half_stencil` has
// stored. With 9 points, adds the two diagonal couplings of the cell northeast of the node to both couplings.
__device__ inline void load_row_sum_and_couplings(
    const WindowArgs &a, int i, int j, double &east, double &north, double &row_sum) {
    const Geometry &g = a.g;
    const int ii = i + g.shift_x, jj = j + g.shift_y, x = ii & 1, y = jj & 1;
    const int64_t p = g.plane, n = g.stride, c = g.at(ii >> 1, jj >> 1);
    const double *r1 = a.m.axis_couplings, *r2 = r1 + 4 * p;
    const int colour = y ? (x ? B2 : R1) : (x ? R2 : B1);
    // The couplings of a black node are stored with the red nodes.
    east = y ? (x ? r1[W * p + c + 1] : r1[E * p + c]) : (x ? r2[E * p + c] : r2[W * p + c]);
    north = y ? (x ? r2[S * p + c + n] : r1[N * p + c]) : (x ? r2[N * p + c] : r1[S * p + c]);
    row_sum = a.row_sums[colour * p + c];
    if (!a.nine_points) return;
    // The grid cell to the northeast of the node contains two diagonal couplings. One of them is the northwest coupling
    // of the node to the east.
    const double *own_corners = x == y ? a.m.black_couplings : a.m.red_couplings,
                 *other_corners = x == y ? a.m.red_couplings : a.m.black_couplings;
    const int64_t east_index = g.at((ii + 1) >> 1, jj >> 1);
    const int64_t row_above = y ? n : 0;
    const double northeast = x ? own_corners[SW * p + c + row_above + 1] : own_corners[NE * p + c];
    const double northwest = x ? other_corners[NW * p + east_index] : other_corners[SE * p + east_index + row_above];
    east += northeast + northwest;
    north += northeast + northwest;
}

// Conductances of w x w nodes, one column per lane. Along x, the resistances of a row act in series, and the rows act
// in parallel. Along y, columns replace rows.
struct Conductances {
    double along_x = 0.0, column_resistance = 0.0;
    // Adds a row of nodes. `east` and `north` are the resistances of the two couplings of the node in this lane.
    __device__ void add(double east, double north, int w) {
        along_x += 1.0 / sum_over_lanes(east, w);
        column_resistance += north;
    }
    __device__ double along_y(int w) const { return sum_over_lanes(1.0 / column_resistance, w); }
    static __device__ double sum_over_lanes(double v, int w) {
        for (int lane_distance = w / 2; lane_distance > 0; lane_distance /= 2)
            v += __shfl_xor_sync(0xffffffffu, v, lane_distance);
        return v;
    }
};

// Computes the anisotropy in windows of 32 x 32 nodes (docs/theory/aggregation.md, cost model; src/rrb/anisotropy.rs).
// The anisotropy of a window is the larger of its conductances in x and y, divided by the sum of the smaller one and
// the mean row sum. A negative mean row sum counts as 0. Let q be the ratio of the larger to the smaller conductance of
// the window. A part of 4 x 4 nodes matches the window if the ratio of its conductances in the same two directions is
// at least sqrt(q). If less than a quarter of the parts match, if a coupling is zero or positive, or if the anisotropy
// would be smaller than 1, the anisotropy is set to 1. There is one thread block of one warp per window, and one lane
// per column.
extern "C" __global__ void __launch_bounds__(WINDOW_WIDTH) rrb_compute_anisotropy_f64(WindowArgs a) {
    const int lane = thread_of_block(), window = blockIdx.x;
    const auto window_start = [](int n, int k) {
        return 1 + int(int64_t(n - 2 - WINDOW_WIDTH) * k / (WINDOWS_PER_SIDE - 1));
    };
    const int i = window_start(a.g.nx, window % WINDOWS_PER_SIDE) + lane,
              first = window_start(a.g.ny, window / WINDOWS_PER_SIDE);
    Conductances window_sums;
    double ratios[PARTS_PER_SIDE], row_sum_total = 0.0;
    bool has_bad_coupling = false;
    for (int part = 0; part < PARTS_PER_SIDE; ++part) {
        Conductances part_sums;
        for (int j = first + PART_WIDTH * part; j < first + PART_WIDTH * (part + 1); ++j) {
            double east, north, row_sum;
            load_row_sum_and_couplings(a, i, j, east, north, row_sum);
            has_bad_coupling = has_bad_coupling || !(east < 0.0 && north < 0.0);
            window_sums.add(-1.0 / east, -1.0 / north, WINDOW_WIDTH);
            part_sums.add(-1.0 / east, -1.0 / north, PART_WIDTH);
            row_sum_total += row_sum;
        }
        ratios[part] = part_sums.along_x / part_sums.along_y(PART_WIDTH);
    }
    const double along_x = window_sums.along_x, along_y = window_sums.along_y(WINDOW_WIDTH);
    const double mean_row_sum = fmax(warp_sum(row_sum_total), 0.0) / (WINDOW_WIDTH * WINDOW_WIDTH);
    const double anisotropy = fmax(along_x, along_y) / (fmin(along_x, along_y) + mean_row_sum),
                 axis_ratio = along_x / along_y;
    int matching_parts = 0;
    for (int part = 0; part < PARTS_PER_SIDE; ++part)
        matching_parts += axis_ratio >= 1.0 ? ratios[part] >= ROUNDING_FACTOR * sqrt(axis_ratio)
                                            : ratios[part] <= sqrt(axis_ratio) / ROUNDING_FACTOR;
    // The columns of a part are assigned to PART_WIDTH lanes, each of which counts the part once. Counted in this way,
    // the number of all parts is WINDOW_WIDTH * PARTS_PER_SIDE.
    const bool is_reliable = !__any_sync(~0u, has_bad_coupling) && anisotropy >= 1.0 &&
        4 * warp_sum(matching_parts) >= WINDOW_WIDTH * PARTS_PER_SIDE;
    if (lane == 0) a.findings->window[window] = is_reliable ? anisotropy : 1.0;
}

// Storage formats; the numbers are those of src/rrb/storage.rs.
enum Storage { F64, F32, BF16 };

struct StorageFormat {
    double unit, per_unit; // scale factor of M, and 1 / unit: F32 and BF16 store M / unit
    int storage;
};

// Returns v in single precision, or zero if the result is subnormal (src/rrb/storage.rs).
__device__ inline float flush_to_f32(double v) {
    const float f = float(v);
    return fabsf(f) < 1.1754943508222875e-38f ? 0.0f : f;
}

// Rounds to the nearest bf16 number; ties to even.
__device__ inline uint16_t to_bf16(float v) {
    const uint32_t bits = __float_as_uint(v);
    if (v != v) return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + (0x7fffu + (bits >> 16 & 1u))) >> 16);
}

// Returns a number of M rounded to the storage format.
__device__ inline double round_to_format(const StorageFormat &f, double v) {
    if (f.storage == F64) return v;
    const float v_f32 = flush_to_f32(v * f.per_unit);
    const float stored = f.storage == F32 ? v_f32 : __uint_as_float(uint32_t(to_bf16(v_f32)) << 16);
    return double(stored) * f.unit;
}

// Stores a number of M in the storage format, if the array is not null.
__device__ inline void store_rounded(const StorageFormat &f, void *array, int64_t index, double v) {
    if (!array) return;
    if (f.storage == F64) static_cast<double *>(array)[index] = v;
    else if (f.storage == F32) static_cast<float *>(array)[index] = flush_to_f32(v * f.per_unit);
    else static_cast<uint16_t *>(array)[index] = to_bf16(flush_to_f32(v * f.per_unit));
}

struct StartCouplingsArgs {
    Grid k;
    Matrix m;
    StorageFormat format;
    int nine_points, compensate;
};

// Sets the initial couplings of M to those of A, if CG runs on A. With compensation, positive couplings become zero.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_start_couplings_f64(StartCouplingsArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane;
    for_each_group_of_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        for (int e = 0; e < 8; ++e) {
            const double v = a.m.axis_couplings[e * p + c];
            a.k.s[e * p + c] = round_to_format(a.format, a.compensate ? fmin(v, 0.0) : v);
        }
        for (int e = 0; e < 4 && a.nine_points; ++e) {
            const double red = a.m.red_couplings[e * p + c], black = a.m.black_couplings[e * p + c];
            a.k.corners[e * p + c] = a.compensate ? fmin(red, 0.0) : red;
            a.k.d[e * p + c] = a.compensate ? fmin(black, 0.0) : black;
        }
    });
}

struct PivotRules {
    double one_minus_omega;
    double kept_fraction; // kept fraction of the couplings between black nodes: 1 (M1) or 0 (M2)
    int level;
    int x0, y0, step; // node (i, j) is node (x0 + step i, y0 + step j) of the finest grid
    int fine_nx, fine_ny;
    Geometry fine_geometry; // geometry of the planes of `center`, the centers of A on the finest grid
    const double *center;
    const uint32_t *label; // nonzero at nodes where a zero pivot is an error (Components::labels_to_refuse); null: none
    Findings *findings;
    StorageFormat format;
};

// If a node has no kept couplings, and its pivot would be below this fraction of its center, the center becomes the
// pivot (see MIN_ROW_SUM_FRACTION in src/rrb/backend.rs).
constexpr double MIN_ROW_SUM_FRACTION = 0.1;
constexpr double EPSILON = 2.220446049250313e-16;

struct PivotResult {
    double inverse, sum_over_pivot; // 1 / d and row_sum / d, where d is the pivot
};

// Checks the pivot d = stored - kept_sum of node (i, j), where `stored` is the row sum that sweeps read, and `kept_sum`
// the sum of the kept couplings (src/rrb/backend.rs, Pivot::accept).
// - Rejects d if d <= EPSILON * center, or if d is not finite.
// - Exception: d = 0 at a node without kept couplings (`is_floating`), which is the last node of a singular component
//   of M. The center of A replaces this pivot. If `rules.label` marks the node, the pivot is rejected nevertheless.
// - Rounds `stored` to the storage format, and rejects a pivot that underflows in this format.
//
// For a rejected pivot, returns d and the center, for the error message.
__device__ inline PivotResult checked(const PivotRules &rules, int i, int j, double stored, double kept_sum,
    double row_sum, double center, bool is_floating) {
    const int fi = rules.x0 + rules.step * i, fj = rules.y0 + rules.step * j;
    double d = stored - kept_sum;
    bool is_valid = d > EPSILON * center && is_finite(d);
    if (!is_valid && is_floating && d == 0.0 && (!rules.label || rules.label[int64_t(fj) * rules.fine_nx + fi] == 0)) {
        stored = rules.center[rules.fine_geometry.index_of_node(fi, fj)];
        is_valid = true;
    }
    if (is_valid) {
        const double exact_pivot = d;
        d = round_to_format(rules.format, stored) - kept_sum;
        if (rules.format.storage == F64 || d >= rules.format.unit * 1.1754943508222875e-38)
            return {1.0 / d, row_sum * (1.0 / d)};
        d = exact_pivot;
    }
    atomic_min(&rules.findings->bad_pivot, (uint64_t(rules.level) << 40) | (uint64_t(fj) * rules.fine_nx + fi));
    return {d, center};
}

// Computes the pivot of a node, d = (row_sum - one_minus_omega * lumped) - sum(kept_couplings), where `lumped` is the
// sum of the lumped couplings of the node (src/rrb/backend.rs, Pivot).
__device__ inline PivotResult eliminate(
    const PivotRules &rules, int i, int j, double row_sum, const double kept_couplings[4], double lumped) {
    const bool has_no_kept =
        kept_couplings[0] == 0.0 && kept_couplings[1] == 0.0 && kept_couplings[2] == 0.0 && kept_couplings[3] == 0.0;
    const double sum = sum4(kept_couplings), center = row_sum - sum - lumped,
                 lumped_row_sum = row_sum - rules.one_minus_omega * lumped;
    if (has_no_kept && lumped_row_sum < MIN_ROW_SUM_FRACTION * (row_sum - lumped))
        return checked(rules, i, j, row_sum - lumped, 0.0, row_sum, center, true);
    return checked(rules, i, j, lumped_row_sum, sum, lumped_row_sum, center, has_no_kept);
}

__device__ inline int grid_column(const Geometry &g, int colour, int i) {
    return 2 * i + (colour == B2 || colour == R2) - g.shift_x;
}
__device__ inline int grid_row(const Geometry &g, int colour, int j) {
    return 2 * j + (colour == B2 || colour == R1) - g.shift_y;
}
__device__ inline bool is_node(const Geometry &g, int colour, int i, int j) {
    return unsigned(grid_column(g, colour, i)) < unsigned(g.nx) && unsigned(grid_row(g, colour, j)) < unsigned(g.ny);
}

struct LevelArgs {
    Grid k;
    PivotRules rules;
    const double *exact_centers; // centers of A if the elimination is exact; otherwise null
    int has_corners;             // 1: there are couplings between red nodes
    int has_black_couplings; // 1: there are couplings between black nodes; 0: there are none, and `d` is not an input
};

// Odd level: lumps and eliminates r1 and r2. With M2, couplings between black nodes are dropped, too; 1 - omega times
// these couplings is subtracted from the row sums of the black nodes. Also stores the copies of the matrix that sweeps
// in short formats and recursions read.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_eliminate_reds_f64(LevelArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane;
    const double dropped_fraction = (1.0 - a.rules.kept_fraction) * a.rules.one_minus_omega;
    const StorageFormat &format = a.rules.format;
    for_each_group_of_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        for (int e = 0; e < 8 && a.k.short_s; ++e) store_rounded(format, a.k.short_s, e * p + c, a.k.s[e * p + c]);
        for (int e = 0; e < 4 && a.k.original_row_sums; ++e) {
            store_rounded(format, a.k.original_row_sums, e * p + c, a.k.row_sums[e * p + c]);
            store_rounded(format, a.k.original_corners, e * p + c, a.k.corners[e * p + c]);
            store_rounded(format, a.k.original_black, e * p + c, a.k.d[e * p + c]);
        }
        for (int colour = R1; colour <= R2; ++colour) {
            if (!is_node(g, colour, i, j)) continue;
            double *row_sum = a.k.row_sums + colour * p + c, *h = a.k.h + colour * p + c;
            if (a.exact_centers) {
                *h = 1.0 / a.exact_centers[colour * p + c];
                *row_sum *= *h;
                continue;
            }
            double kept_couplings[4], t[4] = {0.0, 0.0, 0.0, 0.0};
            load_axis_couplings(g, a.k.s, colour, c, kept_couplings);
            if (a.has_corners) load_diagonal_couplings(g, a.k.corners, colour, c, t);
            const PivotResult v = eliminate(
                a.rules, grid_column(g, colour, i), grid_row(g, colour, j), *row_sum, kept_couplings, sum4(t));
            *h = v.inverse;
            *row_sum = v.sum_over_pivot;
            if (a.k.short_h) a.k.short_h[colour * p + c] = float(v.inverse * format.unit);
        }
        if (dropped_fraction > 0.0 && a.has_black_couplings) {
            for (int colour = B1; colour <= B2; ++colour) {
                double t[4];
                load_diagonal_couplings(g, a.k.d, colour, c, t);
                a.k.row_sums[colour * p + c] -= dropped_fraction * sum4(t);
            }
        }
    });
}

// Computes the matrix on black nodes after the odd level, a skew 9-point stencil: a_bb' -= sum_k a_bk a_kb' / d_k over
// the red nodes k, and s_b -= sum_k a_bk s_k / d_k. Diagonal couplings are stored in `d`, those at distance two in
// `far_couplings`.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_form_skew_f64(LevelArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double kept_fraction = a.rules.kept_fraction;
    const double *r1 = a.k.s, *r2 = a.k.s + 4 * p, *h1 = a.k.h + R1 * p, *h2 = a.k.h + R2 * p;
    for_each_group_of_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        a.k.row_sums[B1 * p + c] -= axis_sum_b1(a.k, a.k.row_sums, c);
        a.k.row_sums[B2 * p + c] -= axis_sum_b2(a.k, a.k.row_sums, c);
        // Factors a_bk / d_k for the red neighbours k of b1. Below, they are multiplied by the couplings of k to its
        // other neighbours.
        const double west = r2[E * p + c - 1] * h2[c - 1], east = r2[W * p + c] * h2[c];
        const double south = r1[N * p + c - n] * h1[c - n], north = r1[S * p + c] * h1[c];
        double *d = a.k.d + c;
        if (!a.has_black_couplings) d[SW * p] = d[SE * p] = d[NW * p] = d[NE * p] = 0.0;
        d[SW * p] = kept_fraction * d[SW * p] - west * r2[S * p + c - 1] - south * r1[W * p + c - n];
        d[SE * p] = kept_fraction * d[SE * p] - east * r2[S * p + c] - south * r1[E * p + c - n];
        d[NW * p] = kept_fraction * d[NW * p] - west * r2[N * p + c - 1] - north * r1[W * p + c];
        d[NE * p] = kept_fraction * d[NE * p] - east * r2[N * p + c] - north * r1[E * p + c];
        for (int e = 0; e < 4 && a.k.short_d; ++e) store_rounded(a.rules.format, a.k.short_d, e * p + c, d[e * p]);
        a.k.far_couplings[B1_EAST * p + c] = -east * r2[E * p + c];
        a.k.far_couplings[B1_NORTH * p + c] = -north * r1[N * p + c];
        a.k.far_couplings[B2_EAST * p + c] = -(r1[W * p + c + 1] * h1[c + 1]) * r1[E * p + c + 1];
        a.k.far_couplings[B2_NORTH * p + c] = -(r2[S * p + c + n] * h2[c + n]) * r2[N * p + c + n];
    });
}

// Even level: lumps and eliminates b1.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_eliminate_dropped_f64(LevelArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    for_each_group_of_area(g, [&](int i, int j) {
        if (!is_node(g, B1, i, j)) return;
        const int64_t c = g.at(i, j);
        double kept_couplings[4];
        load_diagonal_couplings(g, a.k.d, B1, c, kept_couplings);
        for (int e = 0; e < 4; ++e) kept_couplings[e] = round_to_format(a.rules.format, kept_couplings[e]);
        const double *east = a.k.far_couplings + B1_EAST * p, *north = a.k.far_couplings + B1_NORTH * p;
        const double far_sum = sum4(east[c - 1], east[c], north[c - n], north[c]);
        double *row_sum = a.k.row_sums + B1 * p + c;
        const PivotResult v =
            eliminate(a.rules, grid_column(g, B1, i), grid_row(g, B1, j), *row_sum, kept_couplings, far_sum);
        a.k.h[B1 * p + c] = v.inverse;
        *row_sum = v.sum_over_pivot;
        if (a.k.short_h) a.k.short_h[B1 * p + c] = float(v.inverse * a.rules.format.unit);
    });
}

struct CoarseArgs {
    Grid k;
    PivotRules rules;
    Grid next; // used if `natural` is null; otherwise, the matrix is stored in `natural`, as five arrays of nx * ny
               // values
    double *natural;
    int nx, ny;
    int ratio_index; // index in Findings::coupling of the largest ratio for this grid; -1: the ratio is not computed
};

// Returns the sum of |couplings| of a b1 node to its black neighbours.
__device__ inline double magnitude_sum(const double v[4]) {
    return sum4(fabs(v[0]), fabs(v[1]), fabs(v[2]), fabs(v[3]));
}

// Computes the matrix of the next grid, whose nodes are the b2 nodes, and stores it by colour, or row by row for the
// coarsest system. If `ratio_index` is not -1, also stores the reciprocals of the centers of this matrix in h (b2). In
// this case, `Findings::coupling` receives an upper bound of the largest ratio of the sum of |couplings| of a node to
// the center of the node. Let b be a neighbour of the node in b1, and a_b the coupling between the two. The elimination
// of b adds to the row of the node couplings whose sum is -a_b (sum of the other couplings of b) / d_b. The bound adds
// the magnitudes of these couplings and of the couplings that are kept. Their signs may differ, so the sum of the
// |couplings| may be smaller.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_form_coarse_f64(CoarseArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double kept_fraction = a.rules.kept_fraction,
                 dropped_fraction = (1.0 - kept_fraction) * a.rules.one_minus_omega;
    const StorageFormat &format = a.rules.format;
    const double *d = a.k.d, *h = a.k.h + B1 * p, *far_east = a.k.far_couplings + B2_EAST * p,
                 *far_north = a.k.far_couplings + B2_NORTH * p;
    uint64_t largest = 0;
    for_each_group_of_area(g, [&](int i, int j) {
        if (i >= a.nx || j >= a.ny) return;
        const int64_t c = g.at(i, j), ne = c + n + 1, nw = c + n, se = c + 1;
        const auto rounded_d = [&](int direction, int64_t index) {
            return round_to_format(format, d[direction * p + index]);
        };
        const double b1_couplings[4] = {rounded_d(NE, c), rounded_d(NW, se), rounded_d(SE, nw), rounded_d(SW, ne)};
        const double *b1_row_sums = a.k.row_sums + B1 * p;
        const double from_eliminated = (b1_couplings[0] * b1_row_sums[c] + b1_couplings[1] * b1_row_sums[c + 1]) +
            (b1_couplings[2] * b1_row_sums[c + n] + b1_couplings[3] * b1_row_sums[c + n + 1]);
        const double far_sum = sum4(far_east[c - 1], far_east[c], far_north[c - n], far_north[c]);
        const double through_ne = b1_couplings[3] * h[ne], through_nw = b1_couplings[2] * h[nw];
        const double row_sum = a.k.row_sums[B2 * p + c] - dropped_fraction * far_sum - from_eliminated;
        const double east = round_to_format(format,
            kept_fraction * far_east[c] - through_ne * rounded_d(SE, ne) -
                (b1_couplings[1] * h[se]) * rounded_d(NE, se));
        const double north = round_to_format(
            format, kept_fraction * far_north[c] - through_ne * rounded_d(NW, ne) - through_nw * rounded_d(NE, nw));
        const double northeast = -through_ne * rounded_d(NE, ne), northwest = -through_nw * rounded_d(NW, nw);
        if (a.natural) {
            const int64_t k = int64_t(j) * a.nx + i, m = int64_t(a.nx) * a.ny;
            const double v[5] = {row_sum, east, north, northeast, northwest};
            for (int e = 0; e < 5; ++e) a.natural[e * m + k] = v[e];
        } else {
            store_half_stencil(a.next.g, i, j, a.next.row_sums, a.next.s, a.next.corners, a.next.d, row_sum, east,
                north, northeast, northwest);
        }
        if (a.ratio_index < 0) return;
        const int64_t b1_nodes[4] = {c, se, nw, ne};
        double coupling_sum = kept_fraction * far_sum;
        double magnitude_bound =
            kept_fraction * sum4(fabs(far_east[c - 1]), fabs(far_east[c]), fabs(far_north[c - n]), fabs(far_north[c]));
        for (int u = 0; u < 4; ++u) {
            const double v[4] = {rounded_d(SW, b1_nodes[u]), rounded_d(SE, b1_nodes[u]), rounded_d(NW, b1_nodes[u]),
                rounded_d(NE, b1_nodes[u])};
            const double factor = b1_couplings[u] * h[b1_nodes[u]];
            coupling_sum -= factor * (sum4(v) - b1_couplings[u]);
            magnitude_bound += fabs(factor) * (magnitude_sum(v) - fabs(b1_couplings[u]));
        }
        const double center = row_sum - coupling_sum, inverse = 1.0 / center;
        largest = max(largest, magnitude(center > 0.0 ? magnitude_bound * inverse : NAN));
        a.k.h[B2 * p + c] = inverse;
        if (a.k.short_h) a.k.short_h[B2 * p + c] = float(inverse * format.unit);
    });
    if (a.ratio_index >= 0) update_largest(&a.rules.findings->coupling[a.ratio_index], largest);
}

struct SchurCenterArgs {
    Grid k; // `s`: couplings of A
    const double *center;
    double *schur; // diagonal entries of S1: planes of b1 and b2
};

// Computes the diagonal of S1 = D_b - A_br D_r^-1 A_rb (report 16-06, equation 2.9).
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_schur_center_f64(SchurCenterArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double *h1 = a.k.h + R1 * p, *h2 = a.k.h + R2 * p;
    for_each_group_of_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        double t[4];
        load_axis_couplings(g, a.k.s, B1, c, t);
        a.schur[c] = a.center[B1 * p + c] -
            (t[0] * (t[0] * h2[c - 1]) + t[1] * (t[1] * h2[c]) + (t[2] * (t[2] * h1[c - n]) + t[3] * (t[3] * h1[c])));
        load_axis_couplings(g, a.k.s, B2, c, t);
        a.schur[p + c] = a.center[B2 * p + c] -
            (t[0] * (t[0] * h1[c]) + t[1] * (t[1] * h1[c + 1]) + (t[2] * (t[2] * h2[c]) + t[3] * (t[3] * h2[c + n])));
    });
}

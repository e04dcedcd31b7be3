// Inspection of the matrix, and factorization colour by colour (report 16-06, section 2.2; docs/theory/rrb.md, row-sum
// form), with the formulas of src/rrb/cpu/factor/formulas.rs. Each step is a launch. In a step, each value is written
// by one thread, and no thread reads values that another thread writes. storage.cuh describes the launches. Memory
// traffic per node of the first grid, in bytes: copy 48, row sums 32, eliminations about 60.
#include "storage.cuh"

// Maximum number of grids after which the remaining matrix is tested for weak couplings.
constexpr int MOST_TESTED_GRIDS = 16;
// Number of windows per direction in which the anisotropy is computed.
constexpr int WINDOWS = 8;
// Number of nodes of a window, and of its parts, per direction, and a factor that allows for rounding errors: WINDOW,
// PART and ROUNDING_FACTOR of src/rrb/anisotropy.rs.
constexpr int WINDOW = 32, WINDOW_PART = 4, WINDOW_PARTS = WINDOW / WINDOW_PART;
constexpr double ROUNDING_FACTOR = 0.999;

// Results of the inspection of the matrix and of the eliminations.
struct Findings {
    uint64_t not_finite; // smallest ((j * 5 + array) * nx + i) of an entry that is not finite
    uint64_t bad_center; // smallest j * nx + i of a center that is not a positive normal number
    uint64_t positive;   // number of positive couplings
    uint64_t center_max, center_min, coupling_max; // as bit patterns
    uint64_t zero_couplings;                       // number of nodes whose east or north coupling is zero
    uint64_t outward[4];    // number of couplings that point out of the grid and are neither 0 nor NaN, per array
                            // (src/stencil/outward.rs)
    uint64_t first_outward; // index of the first of them, as in `not_finite`
    uint64_t excess;        // 1 if a node with couplings has a nonzero row sum
    uint64_t bad_pivot;     // smallest (level << 40 | node of the finest grid) of a rejected pivot
    uint64_t components, regular_components; // components of two nodes or more: kernels/rrb/components.cuh
    uint64_t coarsest_inverse,
        coarsest_pivot; // largest entry of the inverse of the coarsest system and largest of its pivots, bit
                        // patterns
    uint64_t uniform[MOST_TESTED_GRIDS];  // number of uniform tiles of each grid: kernels/rrb/uniform.cuh
    uint64_t coupling[MOST_TESTED_GRIDS]; // for the matrix after each grid: largest ratio of the sum of |couplings| of
                                          // a row to its center, as bit pattern
    double window[WINDOWS * WINDOWS];     // anisotropy of each window: src/rrb/anisotropy.rs
};

#include "uniform.cuh"

struct Matrix {
    double *center;   // 4 planes
    double *straight; // 8 planes
    double *red;      // 4 planes, couplings of r1 to r2; absent with 5 points
    double *black;    // 4 planes, couplings of b1 to b2; absent with 5 points
};

// Stores the half stencil of node (i, j) in the arrays by colour. Null arrays are skipped.
__device__ inline void spread(const Geometry &g, int i, int j, double *diagonal, double *s, double *red, double *black,
    double center, double east, double north, double northeast, double northwest) {
    const int ii = i + g.shift_x, jj = j + g.shift_y;
    const int64_t p = g.plane, n = g.stride, c = g.at(ii >> 1, jj >> 1);
    double *r1 = s, *r2 = s + 4 * p;
    if (jj & 1) {
        if (ii & 1) {
            diagonal[B2 * p + c] = center;
            r1[W * p + c + 1] = east;
            r2[S * p + c + n] = north;
            if (black) {
                black[SW * p + c + n + 1] = northeast;
                black[SE * p + c + n] = northwest;
            }
        } else {
            diagonal[R1 * p + c] = center;
            r1[E * p + c] = east;
            r1[N * p + c] = north;
            if (red) {
                red[NE * p + c] = northeast;
                red[NW * p + c] = northwest;
            }
        }
    } else {
        if (ii & 1) {
            diagonal[R2 * p + c] = center;
            r2[E * p + c] = east;
            r2[N * p + c] = north;
            if (red) {
                red[SW * p + c + 1] = northeast;
                red[SE * p + c] = northwest;
            }
        } else {
            diagonal[B1 * p + c] = center;
            r2[W * p + c] = east;
            r1[S * p + c] = north;
            if (black) {
                black[NE * p + c] = northeast;
                black[NW * p + c] = northwest;
            }
        }
    }
}

struct CopyArgs {
    Geometry g;
    Matrix m;
    const double *center, *east, *north, *northeast, *northwest; // caller's arrays from row `first_row` on
    int64_t ld[5]; // leading dimensions; host arrays are transferred without the gaps between rows
    int first_row, rows;
    Findings *findings;
};

// Counts the nonzero entries of node (i, j) that point out of the grid. Only boundary nodes have such entries.
__device__ inline void count_outward(const CopyArgs &a, int i, int j, int row) {
    const Geometry &g = a.g;
    const bool east_is = i + 1 < g.nx, north_is = j + 1 < g.ny;
    if (east_is && north_is && i > 0) return;
    const double *arrays[4] = {a.east, a.north, a.northeast, a.northwest};
    const bool inside[4] = {east_is, north_is, east_is && north_is, i > 0 && north_is};
    for (int e = 0; e < 4; ++e) {
        if (inside[e] || !arrays[e] || !(fabs(arrays[e][row * a.ld[e + 1] + i]) > 0.0)) continue;
        atomic_add(&a.findings->outward[e], 1);
        atomic_min(&a.findings->first_outward, (uint64_t(j) * 5 + e + 1) * g.nx + i);
    }
}

// Copies A from the caller's arrays, and inspects it, with one thread per node. Entries that point out of the grid are
// stored as zero.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_copy_f64(CopyArgs a) {
    const Geometry &g = a.g;
    uint64_t positive = 0, zero_couplings = 0, largest = 0, smallest = ~0ull, coupling = 0;
    over_rows(g.nx, 0, a.rows, [&](int i, int row) {
        const int j = a.first_row + row;
        const auto at = [&](int e) { return row * a.ld[e] + i; };
        const bool east_is = i + 1 < g.nx, north_is = j + 1 < g.ny, corners = a.northeast != nullptr;
        const double v[5] = {a.center[at(0)], east_is ? a.east[at(1)] : 0.0, north_is ? a.north[at(2)] : 0.0,
            corners && east_is && north_is ? a.northeast[at(3)] : 0.0,
            corners && i > 0 && north_is ? a.northwest[at(4)] : 0.0};
        for (int e = 0; e < 5; ++e) {
            const uint64_t m = magnitude(v[e]);
            if (m >= 0x7ff0000000000000ull) atomic_min(&a.findings->not_finite, (uint64_t(j) * 5 + e) * g.nx + i);
            if (e == 0) continue;
            positive += v[e] > 0.0;
            coupling = max(coupling, m);
        }
        if (!(v[0] >= 2.2250738585072014e-308)) atomic_min(&a.findings->bad_center, uint64_t(j) * g.nx + i);
        largest = max(largest, magnitude(v[0]));
        smallest = min(smallest, magnitude(v[0]));
        zero_couplings += (east_is && v[1] == 0.0) || (north_is && v[2] == 0.0);
        count_outward(a, i, j, row);
        spread(g, i, j, a.m.center, a.m.straight, a.m.red, a.m.black, v[0], v[1], v[2], v[3], v[4]);
    });
    // The combined values are integers and maxima, so the result does not depend on the order.
    __shared__ unsigned long long block[5];
    if (thread_of_block() < 5) block[thread_of_block()] = thread_of_block() == 1 ? ~0ull : 0;
    __syncthreads();
    if (largest) atomicMax(&block[0], (unsigned long long)largest);
    if (smallest != ~0ull) atomicMin(&block[1], (unsigned long long)smallest);
    if (coupling) atomicMax(&block[2], (unsigned long long)coupling);
    if (positive) atomicAdd(&block[3], (unsigned long long)positive);
    if (zero_couplings) atomicAdd(&block[4], (unsigned long long)zero_couplings);
    __syncthreads();
    if (thread_of_block() == 0) {
        atomic_max(&a.findings->center_max, block[0]);
        atomic_min(&a.findings->center_min, block[1]);
        atomic_max(&a.findings->coupling_max, block[2]);
        atomic_add(&a.findings->positive, block[3]);
        atomic_add(&a.findings->zero_couplings, block[4]);
    }
}

struct RowSumArgs {
    Geometry g;
    Matrix m;
    double *excess; // 4 planes
    double zero_row_sum;
    int nine_points;
    Findings *findings;
    // Per patch: 1 on entry, set to 0 if a row differs from a west or south neighbour of its colour.
    uint8_t *equal_rows;
};

// Compares a value of a plane with its west and south neighbours; returns 0 if all three are bitwise identical.
__device__ inline uint64_t difference(const double *plane, int64_t c, int64_t n) {
    const auto bits = [&](int64_t at) { return uint64_t(__double_as_longlong(plane[at])); };
    return (bits(c) ^ bits(c - 1)) | (bits(c) ^ bits(c - n));
}

// Computes the row sums of M: s_k = c_k + sum_l a_kl, or 0 if this sum has a magnitude of at most zero_row_sum c_k. The
// compensation of positive couplings does not change row sums. Also sets `equal_rows` and `Findings::excess`.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_row_sums_f64(RowSumArgs a) {
    const Geometry &g = a.g;
    const int64_t p = g.plane;
    bool counts = false;
    over_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        for (int colour = 0; colour < 4; ++colour) {
            double t[4], corners = 0.0;
            straight_couplings(g, a.m.straight, colour, c, t);
            const double couplings = sum4(t);
            bool coupled = t[0] != 0.0 || t[1] != 0.0 || t[2] != 0.0 || t[3] != 0.0;
            if (a.nine_points) {
                diagonal_couplings(g, colour < B1 ? a.m.red : a.m.black, colour, c, t);
                corners = sum4(t);
                coupled = coupled || t[0] != 0.0 || t[1] != 0.0 || t[2] != 0.0 || t[3] != 0.0;
            }
            const double center = a.m.center[colour * p + c], excess = center + (couplings + corners);
            const bool zero = fabs(excess) <= a.zero_row_sum * center;
            counts = counts || (coupled && !zero);
            a.excess[colour * p + c] = zero ? 0.0 : excess;
        }
        uint64_t differs = 0;
        for (int e = 0; e < 4 && !differs; ++e) {
            differs = difference(a.m.center + e * p, c, g.stride) | difference(a.m.straight + e * p, c, g.stride) |
                difference(a.m.straight + (4 + e) * p, c, g.stride);
            if (a.nine_points)
                differs |= difference(a.m.red + e * p, c, g.stride) | difference(a.m.black + e * p, c, g.stride);
        }
        if (differs) a.equal_rows[patch_of(g, i, j)] = 0;
    });
    if (counts) a.findings->excess = 1;
}

struct WindowArgs {
    Geometry g;
    Matrix m;
    const double *excess;
    int nine_points;
    Findings *findings;
};

// Returns the row sum of node (i, j), and its couplings to the east and to the north, which `spread` has stored. With 9
// points, adds the two diagonal couplings of the cell northeast of the node to both couplings.
__device__ inline void load_row_sum_and_couplings(
    const WindowArgs &a, int i, int j, double &east, double &north, double &excess) {
    const Geometry &g = a.g;
    const int ii = i + g.shift_x, jj = j + g.shift_y, x = ii & 1, y = jj & 1;
    const int64_t p = g.plane, n = g.stride, c = g.at(ii >> 1, jj >> 1);
    const double *r1 = a.m.straight, *r2 = r1 + 4 * p;
    const int colour = y ? (x ? B2 : R1) : (x ? R2 : B1);
    // The couplings of a black node are stored with the red nodes.
    east = y ? (x ? r1[W * p + c + 1] : r1[E * p + c]) : (x ? r2[E * p + c] : r2[W * p + c]);
    north = y ? (x ? r2[S * p + c + n] : r1[N * p + c]) : (x ? r2[N * p + c] : r1[S * p + c]);
    excess = a.excess[colour * p + c];
    if (!a.nine_points) return;
    // The grid cell to the northeast of the node contains two diagonal couplings. One of them is the northwest coupling
    // of the node to the east.
    const double *own = x == y ? a.m.black : a.m.red, *other = x == y ? a.m.red : a.m.black;
    const int64_t to = g.at((ii + 1) >> 1, jj >> 1);
    const int64_t above = y ? n : 0;
    const double northeast = x ? own[SW * p + c + above + 1] : own[NE * p + c];
    const double northwest = x ? other[NW * p + to] : other[SE * p + to + above];
    east += northeast + northwest;
    north += northeast + northwest;
}

// Conductances of w x w nodes, one column per lane. Along x, the resistances of a row act in series, and the rows act
// in parallel. Along y, columns replace rows.
struct Conductances {
    double along_x = 0.0, column_resistance = 0.0;
    // Adds a row with these resistances.
    __device__ void add(double east, double north, int w) {
        along_x += 1.0 / sum(east, w);
        column_resistance += north;
    }
    __device__ double along_y(int w) const { return sum(1.0 / column_resistance, w); }
    static __device__ double sum(double v, int w) {
        for (int by = w / 2; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffffu, v, by);
        return v;
    }
};

// Computes the anisotropy in windows of 32 x 32 nodes (docs/theory/aggregation.md, cost model; src/rrb/anisotropy.rs).
// The anisotropy of a window is the larger of its conductances in x and y, divided by the sum of the smaller one and
// the mean row sum (or 0 if this mean is negative). The ratio of the conductances of a part of 4 x 4 nodes must favour
// the same direction as the ratio of the window, and be at least its square root. If less than a quarter of the parts
// satisfy this condition, or if a coupling is zero or positive, the anisotropy is 1. It is also 1 if the quotient is
// smaller than 1. There is one thread block of one warp per window, and one lane per column.
extern "C" __global__ void __launch_bounds__(WINDOW) rrb_windows_f64(WindowArgs a) {
    const int lane = thread_of_block(), window = blockIdx.x;
    const auto start = [](int n, int k) { return 1 + int(int64_t(n - 2 - WINDOW) * k / (WINDOWS - 1)); };
    const int i = start(a.g.nx, window % WINDOWS) + lane, first = start(a.g.ny, window / WINDOWS);
    Conductances whole;
    double ratios[WINDOW_PARTS], sums = 0.0;
    bool missing = false;
    for (int part = 0; part < WINDOW_PARTS; ++part) {
        Conductances own;
        for (int j = first + WINDOW_PART * part; j < first + WINDOW_PART * (part + 1); ++j) {
            double east, north, excess;
            load_row_sum_and_couplings(a, i, j, east, north, excess);
            missing = missing || !(east < 0.0 && north < 0.0);
            whole.add(-1.0 / east, -1.0 / north, WINDOW);
            own.add(-1.0 / east, -1.0 / north, WINDOW_PART);
            sums += excess;
        }
        ratios[part] = own.along_x / own.along_y(WINDOW_PART);
    }
    const double along_x = whole.along_x, along_y = whole.along_y(WINDOW);
    const double mean = fmax(warp_sum(sums), 0.0) / (WINDOW * WINDOW);
    const double ratio = fmax(along_x, along_y) / (fmin(along_x, along_y) + mean), own = along_x / along_y;
    int enough = 0;
    for (int part = 0; part < WINDOW_PARTS; ++part)
        enough +=
            own >= 1.0 ? ratios[part] >= ROUNDING_FACTOR * sqrt(own) : ratios[part] <= sqrt(own) / ROUNDING_FACTOR;
    // The columns of a part are assigned to WINDOW_PART lanes, each of which counts the part once. The number of all
    // parts, counted in this way, is WINDOW * WINDOW_PARTS.
    const bool counts = !__any_sync(~0u, missing) && ratio >= 1.0 && 4 * warp_sum(enough) >= WINDOW * WINDOW_PARTS;
    if (lane == 0) a.findings->window[window] = counts ? ratio : 1.0;
}

// Storage formats; the numbers are those of src/rrb/storage.rs.
enum Storage { F64, F32, BF16 };

struct Format {
    double unit, per_unit;
    int storage;
};

// Returns v in single precision, or zero if the result is subnormal (src/rrb/storage.rs).
__device__ inline float flushed(double v) {
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
__device__ inline double rounded(const Format &f, double v) {
    if (f.storage == F64) return v;
    const float narrow = flushed(v * f.per_unit);
    const float kept = f.storage == F32 ? narrow : __uint_as_float(uint32_t(to_bf16(narrow)) << 16);
    return double(kept) * f.unit;
}

// Stores a number of M in the storage format, if the array is not null.
__device__ inline void store_rounded(const Format &f, void *place, int64_t at, double v) {
    if (!place) return;
    if (f.storage == F64) static_cast<double *>(place)[at] = v;
    else if (f.storage == F32) static_cast<float *>(place)[at] = flushed(v * f.per_unit);
    else static_cast<uint16_t *>(place)[at] = to_bf16(flushed(v * f.per_unit));
}

struct StartCouplingsArgs {
    Grid k;
    Matrix m;
    Format format;
    int nine_points, compensate;
};

// Sets the initial couplings of M to those of A, if CG runs on A. With compensation, positive couplings become zero.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_start_couplings_f64(StartCouplingsArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane;
    over_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        for (int e = 0; e < 8; ++e) {
            const double v = a.m.straight[e * p + c];
            a.k.s[e * p + c] = rounded(a.format, a.compensate ? fmin(v, 0.0) : v);
        }
        for (int e = 0; e < 4 && a.nine_points; ++e) {
            const double red = a.m.red[e * p + c], black = a.m.black[e * p + c];
            a.k.corners[e * p + c] = a.compensate ? fmin(red, 0.0) : red;
            a.k.d[e * p + c] = a.compensate ? fmin(black, 0.0) : black;
        }
    });
}

struct Rules {
    double one_minus_omega;
    double kept_fraction; // kept fraction of the couplings between black nodes: 1 (M1) or 0 (M2)
    int level;
    int x0, y0, step; // node (i, j) is node (x0 + step i, y0 + step j) of the finest grid
    int fine_nx, fine_ny;
    Geometry fine; // geometry of the finest grid, for its centers
    const double *center;
    const uint32_t *label; // nonzero at nodes where a zero pivot is an error (Components::labels_to_refuse); null: none
    Findings *findings;
    Format format;
};

// If a node has no kept couplings, and its pivot would be below this fraction of its center, the center becomes the
// pivot (see MIN_ROW_SUM_FRACTION in src/rrb/backend.rs).
constexpr double MIN_ROW_SUM_FRACTION = 0.1;
constexpr double EPSILON = 2.220446049250313e-16;

struct Pivoted {
    double inverse, sum_over_pivot; // 1 / d and excess / d, where d is the pivot
};

// Checks the pivot d = stored - kept of node (i, j), where `stored` is the row sum that sweeps read, and `kept` the sum
// of the kept couplings: rejects it if it is at most eps * center or is not finite. If it is the last pivot of a
// singular component of M, which requires a node without kept couplings (`floating`), replaces it by the center of A
// instead (src/rrb/backend.rs, Pivot::checked). Then rounds the row sum to the storage format, and also rejects the
// pivot if it underflows in this format. For a rejected pivot, returns d and the center instead of 1 / d and excess /
// d, for the error message.
__device__ inline Pivoted checked(
    const Rules &rules, int i, int j, double stored, double kept, double excess, double center, bool floating) {
    const int fi = rules.x0 + rules.step * i, fj = rules.y0 + rules.step * j;
    double d = stored - kept;
    bool fine = d > EPSILON * center && is_finite(d);
    if (!fine && floating && d == 0.0 && (!rules.label || rules.label[int64_t(fj) * rules.fine_nx + fi] == 0)) {
        stored = rules.center[rules.fine.index_of_node(fi, fj)];
        fine = true;
    }
    if (fine) {
        const double exact = d;
        d = rounded(rules.format, stored) - kept;
        if (rules.format.storage == F64 || d >= rules.format.unit * 1.1754943508222875e-38)
            return {1.0 / d, excess * (1.0 / d)};
        d = exact;
    }
    atomic_min(&rules.findings->bad_pivot, (uint64_t(rules.level) << 40) | (uint64_t(fj) * rules.fine_nx + fi));
    return {d, center};
}

// Lumps the couplings of a node, and computes its pivot d = (excess - one_minus_omega * lumped) - sum(kept)
// (src/rrb/backend.rs, Pivot).
__device__ inline Pivoted eliminate(
    const Rules &rules, int i, int j, double excess, const double kept[4], double lumped) {
    const bool alone = kept[0] == 0.0 && kept[1] == 0.0 && kept[2] == 0.0 && kept[3] == 0.0;
    const double sum = sum4(kept), center = excess - sum - lumped, left = excess - rules.one_minus_omega * lumped;
    if (alone && left < MIN_ROW_SUM_FRACTION * (excess - lumped))
        return checked(rules, i, j, excess - lumped, 0.0, excess, center, true);
    return checked(rules, i, j, left, sum, left, center, alone);
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
    Rules rules;
    const double *exact; // centers of A if the elimination is exact; otherwise null
    int corners;         // 1: there are couplings between red nodes
    int black;           // 1: there are couplings between black nodes; 0: there are none, and `d` is not an input
};

// Odd level: lumps and eliminates r1 and r2. With M2, couplings between black nodes are dropped, too; 1 - omega times
// these couplings is subtracted from the row sums of the black nodes. Also stores the copies of the matrix that sweeps
// in short formats and recursions read.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_eliminate_reds_f64(LevelArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane;
    const double black_loss = (1.0 - a.rules.kept_fraction) * a.rules.one_minus_omega;
    const Format &format = a.rules.format;
    over_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        for (int e = 0; e < 8 && a.k.short_s; ++e) store_rounded(format, a.k.short_s, e * p + c, a.k.s[e * p + c]);
        for (int e = 0; e < 4 && a.k.original_excess; ++e) {
            store_rounded(format, a.k.original_excess, e * p + c, a.k.excess[e * p + c]);
            store_rounded(format, a.k.original_corners, e * p + c, a.k.corners[e * p + c]);
            store_rounded(format, a.k.original_black, e * p + c, a.k.d[e * p + c]);
        }
        for (int colour = R1; colour <= R2; ++colour) {
            if (!is_node(g, colour, i, j)) continue;
            double *excess = a.k.excess + colour * p + c, *h = a.k.h + colour * p + c;
            if (a.exact) {
                *h = 1.0 / a.exact[colour * p + c];
                *excess *= *h;
                continue;
            }
            double kept[4], t[4] = {0.0, 0.0, 0.0, 0.0};
            straight_couplings(g, a.k.s, colour, c, kept);
            if (a.corners) diagonal_couplings(g, a.k.corners, colour, c, t);
            const Pivoted v =
                eliminate(a.rules, grid_column(g, colour, i), grid_row(g, colour, j), *excess, kept, sum4(t));
            *h = v.inverse;
            *excess = v.sum_over_pivot;
            if (a.k.short_h) a.k.short_h[colour * p + c] = float(v.inverse * format.unit);
        }
        if (black_loss > 0.0 && a.black) {
            for (int colour = B1; colour <= B2; ++colour) {
                double t[4];
                diagonal_couplings(g, a.k.d, colour, c, t);
                a.k.excess[colour * p + c] -= black_loss * sum4(t);
            }
        }
    });
}

// Computes the matrix on black nodes after the odd level, a skew 9-point stencil: a_bb' -= sum_k a_bk a_kb' / d_k over
// the red nodes k, and s_b -= sum_k a_bk s_k / d_k. Diagonal couplings are stored in `d`, those at distance two in
// `far`.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_form_skew_f64(LevelArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double kept_fraction = a.rules.kept_fraction;
    const double *r1 = a.k.s, *r2 = a.k.s + 4 * p, *h1 = a.k.h + R1 * p, *h2 = a.k.h + R2 * p;
    over_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        a.k.excess[B1 * p + c] -= straight_b1(a.k, a.k.excess, c);
        a.k.excess[B2 * p + c] -= straight_b2(a.k, a.k.excess, c);
        // Factors a_bk / d_k for the red neighbours k of b1. Below, they are multiplied by the couplings of k to its
        // other neighbours.
        const double west = r2[E * p + c - 1] * h2[c - 1], east = r2[W * p + c] * h2[c];
        const double south = r1[N * p + c - n] * h1[c - n], north = r1[S * p + c] * h1[c];
        double *d = a.k.d + c;
        if (!a.black) d[SW * p] = d[SE * p] = d[NW * p] = d[NE * p] = 0.0;
        d[SW * p] = kept_fraction * d[SW * p] - west * r2[S * p + c - 1] - south * r1[W * p + c - n];
        d[SE * p] = kept_fraction * d[SE * p] - east * r2[S * p + c] - south * r1[E * p + c - n];
        d[NW * p] = kept_fraction * d[NW * p] - west * r2[N * p + c - 1] - north * r1[W * p + c];
        d[NE * p] = kept_fraction * d[NE * p] - east * r2[N * p + c] - north * r1[E * p + c];
        for (int e = 0; e < 4 && a.k.short_d; ++e) store_rounded(a.rules.format, a.k.short_d, e * p + c, d[e * p]);
        a.k.far[B1_EAST * p + c] = -east * r2[E * p + c];
        a.k.far[B1_NORTH * p + c] = -north * r1[N * p + c];
        a.k.far[B2_EAST * p + c] = -(r1[W * p + c + 1] * h1[c + 1]) * r1[E * p + c + 1];
        a.k.far[B2_NORTH * p + c] = -(r2[S * p + c + n] * h2[c + n]) * r2[N * p + c + n];
    });
}

// Even level: lumps and eliminates b1.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_eliminate_dropped_f64(LevelArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    over_area(g, [&](int i, int j) {
        if (!is_node(g, B1, i, j)) return;
        const int64_t c = g.at(i, j);
        double kept[4];
        diagonal_couplings(g, a.k.d, B1, c, kept);
        for (int e = 0; e < 4; ++e) kept[e] = rounded(a.rules.format, kept[e]);
        const double *east = a.k.far + B1_EAST * p, *north = a.k.far + B1_NORTH * p;
        const double lumped = sum4(east[c - 1], east[c], north[c - n], north[c]);
        double *excess = a.k.excess + B1 * p + c;
        const Pivoted v = eliminate(a.rules, grid_column(g, B1, i), grid_row(g, B1, j), *excess, kept, lumped);
        a.k.h[B1 * p + c] = v.inverse;
        *excess = v.sum_over_pivot;
        if (a.k.short_h) a.k.short_h[B1 * p + c] = float(v.inverse * a.rules.format.unit);
    });
}

struct CoarseArgs {
    Grid k;
    Rules rules;
    Grid next; // next.g.nx = 0: the result is stored in `natural`, five arrays of nx * ny values
    double *natural;
    int nx, ny;
    int ratio_index; // index in Findings::coupling of the largest ratio for this grid; -1: the ratio is not computed
};

// Returns the sum of |couplings| of a b1 node to its black neighbours.
__device__ inline double magnitude_sum(const double v[4]) {
    return sum4(fabs(v[0]), fabs(v[1]), fabs(v[2]), fabs(v[3]));
}

// Computes the matrix of the next grid and stores it by colour, or row by row for the coarsest system. If `ratio_index`
// is not -1, also stores the reciprocal of its centers, which are those of b2, in h, and the largest ratio of a sum of
// |couplings| to its center in `Findings::coupling`. The elimination of b, a neighbour of a b2 node in b1, adds
// couplings to this node whose sum is -a_b (sum of the other couplings of b) / d_b, where a_b is the coupling between
// the two.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_form_coarse_f64(CoarseArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double kept_fraction = a.rules.kept_fraction, black_loss = (1.0 - kept_fraction) * a.rules.one_minus_omega;
    const Format &format = a.rules.format;
    const double *d = a.k.d, *h = a.k.h + B1 * p, *far_east = a.k.far + B2_EAST * p,
                 *far_north = a.k.far + B2_NORTH * p;
    uint64_t largest = 0;
    over_area(g, [&](int i, int j) {
        if (i >= a.nx || j >= a.ny) return;
        const int64_t c = g.at(i, j), ne = c + n + 1, nw = c + n, se = c + 1;
        const auto at = [&](int to, int64_t from) { return rounded(format, d[to * p + from]); };
        const double own[4] = {at(NE, c), at(NW, se), at(SE, nw), at(SW, ne)};
        const double *e1 = a.k.excess + B1 * p;
        const double from_eliminated =
            (own[0] * e1[c] + own[1] * e1[c + 1]) + (own[2] * e1[c + n] + own[3] * e1[c + n + 1]);
        const double lumped = sum4(far_east[c - 1], far_east[c], far_north[c - n], far_north[c]);
        const double through_ne = own[3] * h[ne], through_nw = own[2] * h[nw];
        const double excess = a.k.excess[B2 * p + c] - black_loss * lumped - from_eliminated;
        const double east =
            rounded(format, kept_fraction * far_east[c] - through_ne * at(SE, ne) - (own[1] * h[se]) * at(NE, se));
        const double north =
            rounded(format, kept_fraction * far_north[c] - through_ne * at(NW, ne) - through_nw * at(NE, nw));
        const double northeast = -through_ne * at(NE, ne), northwest = -through_nw * at(NW, nw);
        if (a.natural) {
            const int64_t k = int64_t(j) * a.nx + i, m = int64_t(a.nx) * a.ny;
            const double v[5] = {excess, east, north, northeast, northwest};
            for (int e = 0; e < 5; ++e) a.natural[e * m + k] = v[e];
        } else {
            spread(a.next.g, i, j, a.next.excess, a.next.s, a.next.corners, a.next.d, excess, east, north, northeast,
                northwest);
        }
        if (a.ratio_index < 0) return;
        const int64_t through[4] = {c, se, nw, ne};
        double couplings = kept_fraction * lumped;
        double weighed =
            kept_fraction * sum4(fabs(far_east[c - 1]), fabs(far_east[c]), fabs(far_north[c - n]), fabs(far_north[c]));
        for (int u = 0; u < 4; ++u) {
            const double v[4] = {at(SW, through[u]), at(SE, through[u]), at(NW, through[u]), at(NE, through[u])};
            const double part = own[u] * h[through[u]];
            couplings -= part * (sum4(v) - own[u]);
            weighed += fabs(part) * (magnitude_sum(v) - fabs(own[u]));
        }
        const double center = excess - couplings, inverse = 1.0 / center;
        largest = max(largest, magnitude(center > 0.0 ? weighed * inverse : NAN));
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
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_schur_center_f64(SchurCenterArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double *h1 = a.k.h + R1 * p, *h2 = a.k.h + R2 * p;
    over_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        double t[4];
        straight_couplings(g, a.k.s, B1, c, t);
        a.schur[c] = a.center[B1 * p + c] -
            (t[0] * (t[0] * h2[c - 1]) + t[1] * (t[1] * h2[c]) + (t[2] * (t[2] * h1[c - n]) + t[3] * (t[3] * h1[c])));
        straight_couplings(g, a.k.s, B2, c, t);
        a.schur[p + c] = a.center[B2 * p + c] -
            (t[0] * (t[0] * h1[c]) + t[1] * (t[1] * h1[c + 1]) + (t[2] * (t[2] * h2[c]) + t[3] * (t[3] * h2[c + n])));
    });
}

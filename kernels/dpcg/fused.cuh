// A PCG iteration in two passes over memory, as in src/dpcg/cpu/fused.rs. The preconditioner is M^-1 = K^T D^-1 K,
// where K = sum_{m=0..ORDER} (-L D^-1)^m is a truncated Neumann series, and A = L + D + L^T. ORDER = 0 is Jacobi.
//
//     descend, planes upwards:    r = r - alpha P A p,  v = D^-1 K r,  <r, r>,  <r, M^-1 r> = <v, D v>
//     ascend, planes downwards:   z = K^T v,  x = x + alpha p,  p = z + beta p,  q = A p,  <p, q>
//
// Here P A p = q - A Z t with t = E^-1 Z^T q, and <p, P A p> = <p, q> - <Z^T q, t>. The kernel that multiplies by E^-1
// also computes <Z^T q, t>. For other preconditioners, `ascend` has order 0 and reads z instead of v. r is then
// computed without v: with deflation, `descend` computes r - alpha P A p; without deflation, `advance_residual`
// computes r - alpha q.
//
// A thread block processes tiles of TILE_WIDTH x TILE_HEIGHT columns, with one thread per column of the tile and of its
// neighbourhood. A piece consists of `planes_per_piece` planes of a tile, which the block processes plane by plane.
// Each term of the series needs one more plane, column and row next to the piece, and so do A Z t and A p. The block
// computes the values there itself, so it reads no values that another block writes. For this purpose, there are two
// arrays p and, for ORDER > 0, two arrays r: a pass reads one of them and writes the other one (`direction_index` and
// `parity` of the scalars). The current plane is in shared memory, the previous plane is in registers, and the next
// plane is being loaded.
//
// Memory traffic per cell, in bytes: descend 66 (reads r, q, region and 4 matrix entries; writes r and v), ascend 80
// (reads v, p, x and 4 matrix entries; writes p, x and q).
//
// At the start of a solve, when `sum.in_loop` is 0, r is the input and p = z. r and x are then not updated, and rho,
// <p, q> and <Z^T q, t> are stored.
//
// There are no races: each value of r, v, p, x and q is written only by the thread of its column in the tile. x, and r
// of order 0, are read only by the thread that writes them.
#pragma once
#include "box.cuh"

namespace dpcg {

constexpr int TILE_WIDTH = 32, TILE_HEIGHT = 16;

// Columns of a tile and of its neighbourhood, which in x and in y consists of ORDER + 1 columns at one end and one
// column at the other end.
template <int ORDER> struct Tile {
    static constexpr int WIDTH = TILE_WIDTH + ORDER + 2, HEIGHT = TILE_HEIGHT + ORDER + 2;
    static constexpr int THREADS = (WIDTH * HEIGHT + 31) / 32 * 32;
    // Size of a plane of values in shared memory. It includes guard values, which threads at the edge read but do not
    // use.
    static constexpr int PLANE_VALUES = THREADS + 2 * WIDTH;
};

struct FusedArgs {
    CellBox cells;
    CellMatrix m;
    double *r[2], *p[2]; // the two addresses of r are equal if r is not read at neighbours
    double *q, *x;
    double *v;              // null: v is not computed; permitted only in a loop
    const uint16_t *region; // null: no deflation
    const double *t;
    double *norm_partial; // one value per thread block
    int planes_per_piece, unused;
    Sum sum;
};

// The column of a thread in a piece of a tile.
struct TileColumn {
    int plane_index; // index of the column in a plane of values (see PLANE_VALUES)
    int di, dj;      // indices of the column in x and y, counted from the first column of the tile
    int64_t c;       // number of the cell of this column in plane 0 of the box
    bool is_inside;  // whether the column is inside the box
    bool is_in_tile; // whether the column is inside the box and the tile
    int k0, k1;      // the piece consists of the planes k0 .. k1 - 1
};

// Returns the column of this thread. `leading_columns`: number of columns of the neighbourhood before the tile, in x
// and in y.
template <int ORDER> __device__ inline TileColumn column_of(const FusedArgs &a, int piece, int leading_columns) {
    using T = Tile<ORDER>;
    const int tiles_x = (a.cells.nx + TILE_WIDTH - 1) / TILE_WIDTH,
        tiles_y = (a.cells.ny + TILE_HEIGHT - 1) / TILE_HEIGHT;
    const int row = piece / tiles_x, t = threadIdx.x;
    TileColumn col;
    col.di = t % T::WIDTH - leading_columns;
    col.dj = t / T::WIDTH - leading_columns;
    col.plane_index = T::WIDTH + t;
    const int i = (piece - row * tiles_x) * TILE_WIDTH + col.di, j = row % tiles_y * TILE_HEIGHT + col.dj;
    col.c = int64_t(j) * a.cells.nx + i;
    col.is_inside = t < T::WIDTH * T::HEIGHT && unsigned(i) < unsigned(a.cells.nx) &&
        unsigned(j) < unsigned(a.cells.ny);
    col.is_in_tile = col.is_inside && unsigned(col.di) < unsigned(TILE_WIDTH) &&
        unsigned(col.dj) < unsigned(TILE_HEIGHT);
    col.k0 = row / tiles_y * a.planes_per_piece;
    col.k1 = min(col.k0 + a.planes_per_piece, a.cells.nz);
    return col;
}

// Returns the number of pieces of all tiles.
__device__ inline int piece_count(const FusedArgs &a) {
    return (a.cells.nx + TILE_WIDTH - 1) / TILE_WIDTH * ((a.cells.ny + TILE_HEIGHT - 1) / TILE_HEIGHT) *
        ((a.cells.nz + a.planes_per_piece - 1) / a.planes_per_piece);
}

// Data of a cell: its matrix row without the coupling to the plane below, and two vector values, r and q in `descend`,
// v (or z) and p in `ascend`. They are zero outside the box.
struct CellRow {
    double center, east, west, north, south, top, first_vector, second_vector;
};
__device__ inline void read_row(const FusedArgs &a, int64_t c, CellRow &cell) {
    cell.center = ldg(a.m.center[c]);
    cell.east = ldg(a.m.east[c]);
    cell.west = ldg(a.m.east[c - 1]);
    cell.north = ldg(a.m.north[c]);
    cell.south = ldg(a.m.north[c - a.cells.north()]);
    cell.top = ldg(a.m.top[c]);
}

// Ends `descend` and `advance_residual`: the last thread block adds the contributions of all blocks to <r, r> and
// <r, M^-1 r>. In a loop, this block then updates the scalars or, if v is not computed, stores <r, r>. At the start of
// a solve, it stores <r, M^-1 r>.
__device__ inline void finish_residual(const FusedArgs &a, double norm2, double rho) {
    Scalars &s = *a.sum.scalars;
    norm2 = block_sum(norm2);
    rho = block_sum(rho);
    if (threadIdx.x == 0) {
        a.sum.partial[blockIdx.x] = rho;
        a.norm_partial[blockIdx.x] = norm2;
    }
    if (!is_last_block(&s.ticket)) return;
    norm2 = sum_of(a.norm_partial, gridDim.x);
    rho = sum_of(a.sum.partial, gridDim.x);
    if (threadIdx.x != 0) return;
    if (!a.sum.in_loop) {
        *a.sum.result = rho;
        return;
    }
    s.parity ^= 1;
    if (a.v) update_with_sums(s, s.ring, rho, norm2, LOOP);
    else s.norm2 = norm2;
}

// Computes r = r - alpha P A p and <r, r>. If `v` is not null, also computes v = D^-1 K r and <r, M^-1 r>.
template <int ORDER> __device__ inline void descend(const FusedArgs &a) {
    using T = Tile<ORDER>;
    __shared__ double deflated[2][T::PLANE_VALUES], terms[ORDER > 2 ? ORDER : 2][T::PLANE_VALUES];
    if (is_over(a.sum)) return;
    const int64_t top = a.cells.top();
    const bool is_start = !a.sum.in_loop, has_deflation = a.region && !is_start;
    const int parity = is_start ? 0 : a.sum.scalars->parity;
    const double alpha = is_start ? 0.0 : a.sum.scalars->alpha, *r_old = a.r[parity];
    double *r_new = a.r[parity ^ 1], norm2 = 0.0, rho = 0.0;
    int buffer = 0;
    for (int piece = blockIdx.x; piece < piece_count(a); piece += gridDim.x) {
        const TileColumn col = column_of<ORDER>(a, piece, ORDER + 1);
        const bool needs_row = col.is_inside && col.di >= -ORDER && col.dj >= -ORDER && col.di < TILE_WIDTH &&
            col.dj < TILE_HEIGHT;
        const bool needs_t = col.is_inside && has_deflation;
        const auto load = [&](int64_t c) {
            CellRow cell = {};
            if (needs_row) {
                read_row(a, c, cell);
                cell.first_vector = r_old[c];
                if (!is_start) cell.second_vector = ldg(a.q[c]);
            }
            return cell;
        };
        // Cells in the planes next to the box have a region number for which t is 0.
        const auto region_of = [&](int64_t c) { return needs_t ? int(ldg(a.region[c])) : 0; };
        const auto t_of = [&](int64_t c) { return needs_t ? ldg(a.t[region_of(c)]) : 0.0; };
        const int first_plane = max(col.k0 - ORDER, 0);
        int64_t c = col.c + first_plane * top;
        double t_below = t_of(c - top), t_cell = t_of(c), t_above = t_of(c + top);
        double coupling_below = needs_row ? ldg(a.m.top[c - top]) : 0.0, term_below[ORDER > 0 ? ORDER : 1] = {};
        CellRow cell = load(c);
        // Region of the cell two planes above.
        int region = first_plane + 2 <= col.k1 ? region_of(c + 2 * top) : 0;
        for (int k = first_plane; k < col.k1; ++k, c += top) {
            // The values of the following planes are loaded one plane before they are used, because a warp that waits
            // for one value waits for all others, too.
            const CellRow next = k + 1 < col.k1 ? load(c + top) : CellRow{};
            const double t_next = needs_t ? ldg(a.t[region]) : 0.0;
            if (k + 3 <= col.k1) region = region_of(c + 3 * top);
            // Two arrays alternate. There is only one barrier per plane, so other threads may still read the array of
            // the previous plane.
            buffer ^= 1;
            double r = cell.second_vector;
            if (has_deflation) {
                double *plane = deflated[buffer];
                plane[col.plane_index] = t_cell;
                __syncthreads();
                r -= cell.center * t_cell +
                    ((cell.west * plane[col.plane_index - 1] + cell.east * plane[col.plane_index + 1]) +
                        ((cell.south * plane[col.plane_index - T::WIDTH] +
                            cell.north * plane[col.plane_index + T::WIDTH]) +
                            (coupling_below * t_below + cell.top * t_above)));
            }
            r = cell.first_vector - alpha * r;
            const double inverse = needs_row ? 1.0 / cell.center : 0.0;
            double u = inverse * r;
            // u = D^-1 (r - L u), ORDER times.
#pragma unroll
            for (int term = 0; term < ORDER; ++term) {
                double *plane = terms[ORDER == 1 ? buffer : term];
                plane[col.plane_index] = u;
                __syncthreads();
                const double sum = cell.west * plane[col.plane_index - 1] +
                    cell.south * plane[col.plane_index - T::WIDTH] +
                    coupling_below * term_below[term];
                term_below[term] = u;
                u = inverse * (r - sum);
            }
            if (col.is_in_tile && k >= col.k0) {
                if (!is_start) r_new[c] = r;
                norm2 += r * r;
                if (a.v) {
                    a.v[c] = u;
                    rho += cell.center * u * u;
                }
            }
            t_below = t_cell;
            t_cell = t_above;
            t_above = t_next;
            coupling_below = cell.top;
            cell = next;
        }
        // The next piece overwrites arrays that other threads may still read in the last plane of this piece.
        __syncthreads();
    }
    finish_residual(a, norm2, rho);
}

// Computes r = r - alpha q and <r, r>.
__device__ inline void advance_residual(const FusedArgs &a) {
    if (is_over(a.sum)) return;
    const double alpha = a.sum.scalars->alpha;
    double norm2 = 0.0, *residual = a.r[0];
    for_each_cell(a.cells.count(), [&](int64_t c) {
        const double r = residual[c] - alpha * a.q[c];
        residual[c] = r;
        norm2 += r * r;
    });
    finish_residual(a, norm2, 0.0);
}

// Computes z = K^T v, x = x + alpha p, p = z + beta p, q = A p, and the sum <p, q>. After the end of the loop, only
// updates x.
template <int ORDER> __device__ inline void ascend(const FusedArgs &a) {
    using T = Tile<ORDER>;
    __shared__ double directions[2][T::PLANE_VALUES], terms[ORDER > 0 ? ORDER : 1][T::PLANE_VALUES];
    const int64_t top = a.cells.top();
    const bool is_start = !a.sum.in_loop;
    const int direction = is_start ? 1 : int(a.sum.scalars->direction_index);
    const double alpha = a.sum.scalars->alpha, beta = is_start ? 0.0 : a.sum.scalars->beta, *p_old = a.p[direction];
    double *p_new = a.p[direction ^ 1], sigma = 0.0;
    if (is_over(a.sum)) {
        for_each_cell(a.cells.count(), [&](int64_t c) { a.x[c] += alpha * p_old[c]; });
        return;
    }
    int buffer = 0;
    for (int piece = blockIdx.x; piece < piece_count(a); piece += gridDim.x) {
        const TileColumn col = column_of<ORDER>(a, piece, 1);
        // `has_p`: whether p of the last iteration is needed in this column. `has_row`: whether the rows of the matrix
        // are needed in it, for the series or for A p.
        const bool has_p = !is_start && col.is_inside && col.di <= TILE_WIDTH && col.dj <= TILE_HEIGHT;
        const bool has_row = ORDER > 0 ? col.is_inside && col.di < TILE_WIDTH + ORDER && col.dj < TILE_HEIGHT + ORDER
            : col.is_in_tile;
        const auto load = [&](int64_t c) {
            CellRow cell = {};
            if (col.is_inside) cell.first_vector = ldg(a.v[c]);
            if (has_p) cell.second_vector = ldg(p_old[c]);
            if (has_row) read_row(a, c, cell);
            return cell;
        };
        const bool has_x = !is_start && col.is_in_tile;
        const auto x_of = [&](int k, int64_t c) { return has_x && k >= col.k0 && k < col.k1 ? a.x[c] : 0.0; };
        const int last_plane = min(col.k1 + ORDER, a.cells.nz - 1);
        int64_t c = col.c + last_plane * top;
        // `term_above` and `p_above` are the terms of the series and p in the plane above. `q_above` is q in that
        // plane, still without the coupling to the plane below it.
        double term_above[ORDER > 0 ? ORDER : 1] = {}, p_above = 0.0, q_above = 0.0;
        CellRow cell = load(c);
        double x = x_of(last_plane, c);
        for (int k = last_plane; k >= col.k0 - 1; --k, c -= top) {
            const bool has_next = k > 0 && k >= col.k0;
            const CellRow next = has_next ? load(c - top) : CellRow{};
            const double x_next = has_next ? x_of(k - 1, c - top) : 0.0;
            const double inverse = has_row && k >= 0 ? 1.0 / cell.center : 0.0;
            double z = cell.first_vector;
            // z = v - D^-1 L^T z, ORDER times.
#pragma unroll
            for (int term = 0; term < ORDER; ++term) {
                double *plane = terms[term];
                plane[col.plane_index] = z;
                __syncthreads();
                const double sum = cell.east * plane[col.plane_index + 1] +
                    cell.north * plane[col.plane_index + T::WIDTH] +
                    cell.top * term_above[term];
                term_above[term] = z;
                z = cell.first_vector - inverse * sum;
            }
            const double p = z + beta * cell.second_vector;
            double *plane = directions[buffer ^= 1];
            plane[col.plane_index] = p;
            __syncthreads();
            if (col.is_in_tile) {
                if (k >= col.k0 && k < col.k1) {
                    p_new[c] = p;
                    if (!is_start) a.x[c] = x + alpha * cell.second_vector;
                }
                if (k + 1 >= col.k0 && k + 1 < col.k1) {
                    const double q = q_above + cell.top * p;
                    a.q[c + top] = q;
                    sigma += p_above * q;
                }
            }
            q_above = cell.center * p + cell.top * p_above +
                ((cell.west * plane[col.plane_index - 1] + cell.east * plane[col.plane_index + 1]) +
                    (cell.south * plane[col.plane_index - T::WIDTH] + cell.north * plane[col.plane_index + T::WIDTH]));
            p_above = p;
            cell = next;
            x = x_next;
        }
        __syncthreads();
    }
    finish_sum(a.sum, sigma);
}

} // namespace dpcg

// There is one thread block per multiprocessor, so that the values of two planes fit into registers.
#define DPCG_FUSED_KERNEL(NAME, STAGE, ORDER)                                                                          \
    extern "C" __global__ void __launch_bounds__(dpcg::Tile<ORDER>::THREADS, 1) NAME(dpcg::FusedArgs a) {              \
        dpcg::STAGE<ORDER>(a);                                                                                         \
    }
DPCG_FUSED_KERNEL(dpcg_descend_0_f64, descend, 0)
DPCG_FUSED_KERNEL(dpcg_descend_1_f64, descend, 1)
DPCG_FUSED_KERNEL(dpcg_descend_2_f64, descend, 2)
DPCG_FUSED_KERNEL(dpcg_ascend_0_f64, ascend, 0)
DPCG_FUSED_KERNEL(dpcg_ascend_1_f64, ascend, 1)
DPCG_FUSED_KERNEL(dpcg_ascend_2_f64, ascend, 2)
DPCG_KERNEL(dpcg_advance_residual_f64, FusedArgs, advance_residual)

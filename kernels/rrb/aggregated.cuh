// Input and output of the preconditioner by aggregation, which replaces the preconditioner with elimination levels
// (kernels/aggregation; docs/theory/aggregation.md, hierarchy). CG runs on A, or on S1, the Schur complement of A on
// the black nodes. These kernels convert this matrix to couplings and row sums, and permute vectors between the storage
// by colour and the order of the matrix rows. S1 has a row for each black node, and A for each node. The matrix rows
// are numbered along the rows of the grid.
#pragma once
#include "../aggregation/aggregation.cuh"
#include "storage.cuh"

struct GridNode {
    int i, j;
};

// Numbering of the nodes on which CG runs: every `spacing`-th node of a grid row.
struct RowNumbering {
    Geometry g;
    int spacing, row_0_start; // row_0_start: column of the first such node in grid row 0

    __device__ int row_start(int j) const { return (j + row_0_start) % spacing; }
    __device__ int row_length(int j) const { return (g.nx + spacing - 1 - row_start(j)) / spacing; }
    // Returns the column and the row of the node with this number.
    __device__ GridNode node(uint32_t number) const {
        const uint32_t even_row_length = row_length(0), row_pair_length = even_row_length + row_length(1);
        const int j = int(number / row_pair_length) * 2;
        const uint32_t index_in_pair = number % row_pair_length;
        if (index_in_pair < even_row_length) return {row_start(j) + spacing * int(index_in_pair), j};
        return {row_start(j + 1) + spacing * int(index_in_pair - even_row_length), j + 1};
    }
    __device__ uint32_t number(int i, int j) const {
        return uint32_t(j / 2) * uint32_t(row_length(0) + row_length(1)) + (j % 2) * row_length(0) + i / spacing;
    }
};

// Arguments for the conversion of S1 or A. S1 has couplings to diagonal neighbours (`d`) and couplings at distance two
// (`far_couplings`).
struct RowCouplingsArgs {
    RowNumbering numbering;
    Matrix m;                        // A
    const double *d, *far_couplings; // couplings of S1; null if CG runs on A
    const double *row_sums;
    double scale;
    aggregation::Couplings c; // eight entries per row are allocated
    uint32_t *node_index;     // for each row, index of its node in the planes of all colours
    uint64_t *bad_row;        // smallest row whose diagonal entry is negative or not finite
};

// Computes the couplings and row sums of all rows, with one thread per row. The columns of a row are in ascending
// order.
extern "C" __global__ void __launch_bounds__(aggregation::THREADS) rrb_agg_couplings_f64(RowCouplingsArgs a) {
    const Geometry &g = a.numbering.g;
    aggregation::for_each_index(a.c.rows, [&](uint32_t k) {
        const GridNode node = a.numbering.node(k);
        const int i = node.i, j = node.j, ii = i + g.shift_x, jj = j + g.shift_y, colour = colour_of(ii, jj);
        const int64_t p = g.plane, n = g.stride, c = g.at(ii >> 1, jj >> 1);
        double axis_couplings[4] = {0.0, 0.0, 0.0, 0.0}, diagonal[4] = {0.0, 0.0, 0.0, 0.0};
        if (a.d) {
            const double *east = a.far_couplings + (colour == B1 ? B1_EAST : B2_EAST) * p + c;
            const double *north = a.far_couplings + (colour == B1 ? B1_NORTH : B2_NORTH) * p + c;
            set_four(axis_couplings, east[-1], east[0], north[-n], north[0]);
            load_diagonal_couplings(g, a.d, colour, c, diagonal);
        } else {
            load_axis_couplings(g, a.m.axis_couplings, colour, c, axis_couplings);
            if (a.m.black_couplings)
                load_diagonal_couplings(g, colour <= R2 ? a.m.red_couplings : a.m.black_couplings, colour, c, diagonal);
        }
        a.node_index[k] = uint32_t(colour * p + c);
        const uint32_t row_begin = 8 * k;
        a.c.row_start[k] = row_begin;
        uint32_t length = 0;
        double sum = 0.0;
        const auto push_coupling = [&](int east, int north, double coupling) {
            if (coupling == 0.0) return;
            a.c.col[row_begin + length] = a.numbering.number(i + east, j + north);
            a.c.a[row_begin + length++] = -a.scale * coupling;
            sum -= a.scale * coupling;
        };
        const int axis_distance = a.d ? 2 : 1;
        if (axis_distance == 2) push_coupling(0, -2, axis_couplings[S]);
        push_coupling(-1, -1, diagonal[SW]);
        if (axis_distance == 1) push_coupling(0, -1, axis_couplings[S]);
        push_coupling(1, -1, diagonal[SE]);
        push_coupling(-axis_distance, 0, axis_couplings[W]);
        push_coupling(axis_distance, 0, axis_couplings[E]);
        push_coupling(-1, 1, diagonal[NW]);
        if (axis_distance == 1) push_coupling(0, 1, axis_couplings[N]);
        push_coupling(1, 1, diagonal[NE]);
        if (axis_distance == 2) push_coupling(0, 2, axis_couplings[N]);
        aggregation::end_row(a.c, k, length, a.scale * a.row_sums[colour * p + c], sum);
        if (!(a.c.diagonal[k] >= 0.0 && is_finite(a.c.diagonal[k]))) atomic_min(a.bad_row, k);
    });
}

// Arguments for the permutation of vectors between the storage by colour and the order of the rows. `gather_residual`
// also computes the first smoothing step. `scatter_solution` also multiplies z by `factor`.
template <class V> struct RowsArgs {
    const uint32_t *node_index;
    double *r_by_colour;
    V *z_by_colour;
    const V *jacobi_factor;
    V *r, *first_iterate, *z;
    uint32_t rows, unused;
    double factor;
};

// Gathers r in the order of the rows. With `first_iterate`, also computes the first smoothing step of the cycle from
// z = 0: z_k = jacobi_factor_k r_k.
template <class V> __device__ inline void gather_residual(const RowsArgs<V> &a) {
    aggregation::for_each_index(a.rows, [&](uint32_t k) {
        const V r = V(a.r_by_colour[a.node_index[k]]);
        a.r[k] = r;
        if (a.first_iterate) a.first_iterate[k] = a.jacobi_factor[k] * r;
    });
}

template <class V> __device__ inline void scatter_solution(const RowsArgs<V> &a) {
    aggregation::for_each_index(
        a.rows, [&](uint32_t k) { a.z_by_colour[a.node_index[k]] = V(a.factor * double(a.z[k])); });
}

RRB_KERNEL(rrb_agg_gather_f64, RowsArgs<double>, aggregation::THREADS, 1, gather_residual)
RRB_KERNEL(rrb_agg_gather_f32, RowsArgs<float>, aggregation::THREADS, 1, gather_residual)
RRB_KERNEL(rrb_agg_scatter_f64, RowsArgs<double>, aggregation::THREADS, 1, scatter_solution)
RRB_KERNEL(rrb_agg_scatter_f32, RowsArgs<float>, aggregation::THREADS, 1, scatter_solution)

AGGREGATION_KERNELS(rrb)

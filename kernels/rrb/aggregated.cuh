// Input and output of the preconditioner by aggregation, which replaces the levels (kernels/aggregation;
// docs/theory/aggregation.md, hierarchy). These kernels convert the matrix on which CG runs to couplings and row sums,
// and permute vectors between the storage by colour and the order of the matrix rows. The rows are the black nodes for
// S1 and all nodes for A, numbered along the rows of the grid.
#pragma once
#include "../aggregation/aggregation.cuh"
#include "storage.cuh"

struct GridNode {
    int i, j;
};

// Numbering of the nodes on which CG runs: every `spacing`-th node of a grid row.
struct Numbers {
    Geometry g;
    int spacing, first; // index of the first such node in grid row 0

    __device__ int start(int j) const { return (j + first) % spacing; }
    __device__ int of_row(int j) const { return (g.nx + spacing - 1 - start(j)) / spacing; }
    // Returns the column and the row of the node with this number.
    __device__ GridNode node(uint32_t number) const {
        const uint32_t even = of_row(0), both = even + of_row(1);
        const int j = int(number / both) * 2;
        const uint32_t rest = number % both;
        if (rest < even) return {start(j) + spacing * int(rest), j};
        return {start(j + 1) + spacing * int(rest - even), j + 1};
    }
    __device__ uint32_t number(int i, int j) const {
        return uint32_t(j / 2) * uint32_t(of_row(0) + of_row(1)) + (j % 2) * of_row(0) + i / spacing;
    }
};

// Arguments for the conversion of S1 or A. S1 has couplings to diagonal neighbours (`d`) and couplings at distance two
// (`far`).
struct RowCouplingsArgs {
    Numbers n;
    Matrix m;              // A
    const double *d, *far; // couplings of S1; null if CG runs on A
    const double *excess;
    double scale;
    aggregation::Couplings c; // eight entries per row are allocated
    uint32_t *node_index;     // for each row, index of its node in the planes of all colours
    uint64_t *bad;            // smallest row whose diagonal entry is negative or not finite
};

// Computes the couplings and row sums of all rows, with one thread per row. The columns of a row are in ascending
// order.
extern "C" __global__ void __launch_bounds__(aggregation::THREADS) rrb_agg_couplings_f64(RowCouplingsArgs a) {
    const Geometry &g = a.n.g;
    aggregation::over(a.c.rows, [&](uint32_t k) {
        const GridNode node = a.n.node(k);
        const int i = node.i, j = node.j, ii = i + g.shift_x, jj = j + g.shift_y, colour = colour_of(ii, jj);
        const int64_t p = g.plane, n = g.stride, c = g.at(ii >> 1, jj >> 1);
        double straight[4] = {0.0, 0.0, 0.0, 0.0}, diagonal[4] = {0.0, 0.0, 0.0, 0.0};
        if (a.d) {
            const double *east = a.far + (colour == B1 ? B1_EAST : B2_EAST) * p + c;
            const double *north = a.far + (colour == B1 ? B1_NORTH : B2_NORTH) * p + c;
            set(straight, east[-1], east[0], north[-n], north[0]);
            diagonal_couplings(g, a.d, colour, c, diagonal);
        } else {
            straight_couplings(g, a.m.straight, colour, c, straight);
            if (a.m.black) diagonal_couplings(g, colour <= R2 ? a.m.red : a.m.black, colour, c, diagonal);
        }
        a.node_index[k] = uint32_t(colour * p + c);
        const uint32_t first = 8 * k;
        a.c.first[k] = first;
        uint32_t length = 0;
        double sum = 0.0;
        const auto push = [&](int east, int north, double s) {
            if (s == 0.0) return;
            a.c.col[first + length] = a.n.number(i + east, j + north);
            a.c.a[first + length++] = -a.scale * s;
            sum -= a.scale * s;
        };
        const int far = a.d ? 2 : 1;
        if (far == 2) push(0, -2, straight[S]);
        push(-1, -1, diagonal[SW]);
        if (far == 1) push(0, -1, straight[S]);
        push(1, -1, diagonal[SE]);
        push(-far, 0, straight[W]);
        push(far, 0, straight[E]);
        push(-1, 1, diagonal[NW]);
        if (far == 1) push(0, 1, straight[N]);
        push(1, 1, diagonal[NE]);
        if (far == 2) push(0, 2, straight[N]);
        aggregation::end_row(a.c, k, length, a.scale * a.excess[colour * p + c], sum);
        if (!(a.c.diagonal[k] >= 0.0 && is_finite(a.c.diagonal[k]))) atomic_min(a.bad, k);
    });
}

// Arguments for the permutation of vectors between the storage by colour and the order of the rows. `gather_residual`
// also computes the first smoothing step. `scatter_solution` also multiplies z by `factor`.
template <class V> struct RowsArgs {
    const uint32_t *node_index;
    double *by_colour;
    V *z_by_colour;
    const V *step;
    V *r, *start, *z;
    uint32_t rows, unused;
    double factor;
};

template <class V> __device__ inline void gather_residual(const RowsArgs<V> &a) {
    aggregation::over(a.rows, [&](uint32_t k) {
        const V r = V(a.by_colour[a.node_index[k]]);
        a.r[k] = r;
        if (a.start) a.start[k] = a.step[k] * r;
    });
}

template <class V> __device__ inline void scatter_solution(const RowsArgs<V> &a) {
    aggregation::over(a.rows, [&](uint32_t k) { a.z_by_colour[a.node_index[k]] = V(a.factor * double(a.z[k])); });
}

RRB_KERNEL(rrb_agg_gather_f64, RowsArgs<double>, aggregation::THREADS, 1, gather_residual)
RRB_KERNEL(rrb_agg_gather_f32, RowsArgs<float>, aggregation::THREADS, 1, gather_residual)
RRB_KERNEL(rrb_agg_scatter_f64, RowsArgs<double>, aggregation::THREADS, 1, scatter_solution)
RRB_KERNEL(rrb_agg_scatter_f32, RowsArgs<float>, aggregation::THREADS, 1, scatter_solution)

AGGREGATION_KERNELS(rrb)

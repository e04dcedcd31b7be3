// Unfused steps on the first grid: permutation between the caller's arrays and the storage by colour, products with A,
// reduction to S1 (the Schur complement on the black nodes), back-substitution, and vector updates. Each kernel is one
// pass over memory. One thread processes an (I, J), or a node (i, j), and only this thread writes the values there. No
// thread reads values that another thread of the kernel writes. Each array of a kernel is read or written once.
// Formulas: docs/theory/rrb.md.
#include "storage.cuh"

struct InspectArgs {
    const double *input, *output; // output may be null
    int64_t ld;
    int nx, rows, first_row;
    Scalars *scalars;
    double *partial; // partial sums of squares of the input; null: the sum is not needed
};

// Computes max |input|, max |output|, the sum of squares of the input, and the first entry that is not finite. The
// entries are ordered by row, and within a row, the input precedes the output.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_inspect_f64(InspectArgs a) {
    uint64_t largest[2] = {0, 0};
    double sum = 0.0;
    for_each_value(a.nx, 0, a.rows, [&](int i, int row) {
        for (int k = 0; k < 2; ++k) {
            const double *array = k == 0 ? a.input : a.output;
            if (!array) continue;
            const double v = array[row * a.ld + i];
            const uint64_t m = magnitude(v);
            largest[k] = max(largest[k], m);
            if (k == 0) sum += v * v;
            if (m >= 0x7ff0000000000000ull)
                atomic_max(&a.scalars->not_finite, ~((uint64_t(a.first_row + row) * 2 + k) * a.nx + i));
        }
    });
    update_largest(&a.scalars->largest, largest[0]);
    update_largest(&a.scalars->largest_guess, largest[1]);
    if (!a.partial) return;
    sum_blocks(sum, a.partial, &a.scalars->ticket, [&](double total) { a.scalars->b_norm2 = total; });
}

struct TransferArgs {
    Geometry g;
    double *by_colour; // 4 planes
    double *natural;
    int64_t ld;
    double scale;
    const Scalars *loop_guard; // if not null, values are copied only if the loop has converged
};

// Copies a vector between the caller's rows and the storage by colour (docs/development/storage.md), and multiplies it
// by `scale`. STORE: to the caller's rows.
template <bool STORE> __device__ inline void copy_by_colour(const TransferArgs &a) {
    if (a.loop_guard && a.loop_guard->code != CONVERGED) return;
    for_each_own_node(a.g, [&](int i, int row) {
        double *natural = a.natural + row * a.ld + i, *by_colour = a.by_colour + a.g.index_of_node(i, row);
        if (STORE) *natural = *by_colour * a.scale;
        else *by_colour = *natural * a.scale;
    });
}

RRB_KERNEL(rrb_load_by_colour_f64, TransferArgs, THREADS, RESIDENT_BLOCKS, copy_by_colour<false>)
RRB_KERNEL(rrb_store_by_rows_f64, TransferArgs, THREADS, RESIDENT_BLOCKS, copy_by_colour<true>)

// Computes max |v| over whole planes, whose padding is zero.
struct LargestArgs {
    Geometry g;
    const double *v; // 4 planes
    Scalars *scalars;
};

// Stores max |v| in `scalars`.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_find_largest_f64(LargestArgs a) {
    uint64_t largest = 0;
    for_each_group_of_area(a.g, [&](int i, int j) {
        const int64_t c = a.g.at(i, j);
        for (int colour = 0; colour < 4; ++colour) largest = max(largest, magnitude(a.v[colour * a.g.plane + c]));
    });
    update_largest(&a.scalars->largest, largest);
}

struct DotArgs {
    Geometry g;
    const double *a, *b;
    int first_plane, plane_count; // the planes first_plane .. first_plane + plane_count - 1
    double *partial;
    Scalars *scalars;
    const double *norm_partial;
    int norm_count;
    int stage; // NOTHING: stores the product in `result`; otherwise updates the scalars with rho = <a, b>
    double *result;
    double factor; // factor of the product; a scalar update uses Scalars::per_unit instead
};

// Computes factor * <a, b> over the planes from `first_plane` on. Real is the type of b: double, or the type in which
// sweeps compute.
template <class Real> __device__ inline void dot(const DotArgs &a) {
    const Real *b = reinterpret_cast<const Real *>(a.b);
    double sum = 0.0;
    for_each_group_of_area(
        a.g,
        [&](int i, int j) {
            const int64_t c = a.g.at(i, j), first = a.first_plane * a.g.plane + c;
            for (int k = 0; k < a.plane_count; ++k) sum += a.a[first + k * a.g.plane] * b[first + k * a.g.plane];
        },
        [&](int part) { store_part_sum(a.partial, part, sum); });
    if (!is_last_block_of_all_devices(a.g, &a.scalars->ticket)) return;
    sum = sum_of_parts(a.g, a.partial) * (a.stage == NOTHING ? a.factor : a.scalars->per_unit);
    const double norm2 = a.stage == NOTHING ? 0.0 : sum_of(a.norm_partial, a.norm_count);
    if (thread_of_block() == 0) {
        if (a.stage == NOTHING) *a.result = sum;
        else update_with_sums(*a.scalars, a.scalars->ring, sum, norm2, a.stage);
    }
}

RRB_KERNEL(rrb_dot_f64, DotArgs, THREADS, RESIDENT_BLOCKS, dot<double>)
RRB_KERNEL(rrb_dot_f32, DotArgs, THREADS, RESIDENT_BLOCKS, dot<float>)

struct UpdateArgs {
    Geometry g;
    int first_plane, plane_count; // the planes first_plane .. first_plane + plane_count - 1
    double *target, *x;
    const double *source;
    double factor;   // used if `scalars` is null
    double per_unit; // factor of the source, used if `scalars` is null
    double *partial; // partial sums of <target, target>, one per thread block; may be null
    const Scalars *scalars;
};

// Computes target += factor * source. With `scalars`, the factor is -alpha of the loop, for r -= alpha q. With
// `partial`, also computes partial sums of <target, target>.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_add_scaled_f64(UpdateArgs a) {
    const double factor = a.scalars ? -a.scalars->alpha : a.factor;
    double norm2 = 0.0;
    for_each_group_of_area(
        a.g,
        [&](int i, int j) {
            const int64_t c = a.g.at(i, j);
            for (int k = 0; k < a.plane_count; ++k) {
                const int64_t e = (a.first_plane + k) * a.g.plane + c;
                const double v = a.target[e] + factor * a.source[e];
                a.target[e] = v;
                norm2 += v * v;
            }
        },
        [&](int part) {
            if (a.partial) store_part_sum(a.partial, part, norm2);
        });
}

// Computes x += alpha p and p = z / unit + beta p with the scalars of the loop. `target` is p, `source` is z, and
// Scalars::per_unit is 1 / unit. After the end of the loop, only updates x.
template <class Real> __device__ inline void advance_x_and_p(const UpdateArgs &a) {
    const Real *z = reinterpret_cast<const Real *>(a.source);
    const double per_unit = a.scalars->per_unit, alpha = a.scalars->alpha, beta = a.scalars->beta;
    const bool ended = a.scalars->code != RUNNING;
    for_each_group_of_area(a.g, [&](int i, int j) {
        const int64_t c = a.g.at(i, j);
        for (int k = 0; k < a.plane_count; ++k) {
            const int64_t e = (a.first_plane + k) * a.g.plane + c;
            const double p_old = a.target[e];
            a.x[e] += alpha * p_old;
            if (!ended) a.target[e] = per_unit * z[e] + beta * p_old;
        }
    });
}

RRB_KERNEL(rrb_advance_f64, UpdateArgs, THREADS, RESIDENT_BLOCKS, advance_x_and_p<double>)
RRB_KERNEL(rrb_advance_f32, UpdateArgs, THREADS, RESIDENT_BLOCKS, advance_x_and_p<float>)

// Computes target = per_unit * source + factor * target; a copy if factor = 0.
template <class Target, class Source> __device__ inline void update_direction(const UpdateArgs &a) {
    Target *target = reinterpret_cast<Target *>(a.target);
    const Source *source = reinterpret_cast<const Source *>(a.source);
    for_each_group_of_area(a.g, [&](int i, int j) {
        const int64_t c = a.g.at(i, j);
        for (int k = 0; k < a.plane_count; ++k) {
            const int64_t e = (a.first_plane + k) * a.g.plane + c;
            const double v = a.per_unit * double(source[e]);
            target[e] = Target(a.factor == 0.0 ? v : v + a.factor * double(target[e]));
        }
    });
}

// The suffix of a name is the precision of the source; for rrb_round_to_f32, it is the precision of the target.
RRB_KERNEL(rrb_update_direction_f64, UpdateArgs, THREADS, RESIDENT_BLOCKS, (update_direction<double, double>))
RRB_KERNEL(rrb_update_direction_f32, UpdateArgs, THREADS, RESIDENT_BLOCKS, (update_direction<double, float>))
RRB_KERNEL(rrb_round_to_f32, UpdateArgs, THREADS, RESIDENT_BLOCKS, (update_direction<float, double>))

struct ProductArgs {
    Geometry g;
    Matrix m;
    int nine_points;
    const double *v, *b; // 4 planes
    double *out;         // null: only the sums are computed
    double *partial;     // null: no sums
    Scalars *scalars;
    int stage;
    uint64_t conditional;
};

// Stores the couplings of a node in t, and v at the corresponding neighbours in u. Entries 0 to 3 belong to the
// axis couplings, entries 4 to 7 to the diagonal couplings. With a 5-point stencil, entries 4 to 7 are zero.
__device__ inline void load_neighbours(const ProductArgs &a, int colour, int64_t c, double (&t)[8], double (&u)[8]) {
    load_axis_couplings(a.g, a.m.axis_couplings, colour, c, t);
    load_axis_values(a.g, a.v, colour, c, u);
    if (!a.nine_points) {
        for (int k = 4; k < 8; ++k) t[k] = u[k] = 0.0;
        return;
    }
    load_diagonal_couplings(a.g, colour < B1 ? a.m.red_couplings : a.m.black_couplings, colour, c, t + 4);
    load_diagonal_values(a.g, a.v, colour, c, u + 4);
}

__device__ inline double multiply_row(const ProductArgs &a, int colour, int64_t c) {
    double t[8], u[8];
    load_neighbours(a, colour, c, t, u);
    const double axis_sum = (t[0] * u[0] + t[1] * u[1]) + (t[2] * u[2] + t[3] * u[3]);
    const double diagonal_sum = (t[4] * u[4] + t[5] * u[5]) + (t[6] * u[6] + t[7] * u[7]);
    return a.m.center[colour * a.g.plane + c] * a.v[colour * a.g.plane + c] + (axis_sum + diagonal_sum);
}

// Returns the entry of b - A v at a node.
__device__ inline double residual_of_row(const ProductArgs &a, int colour, int64_t c) {
    const int64_t e = colour * a.g.plane + c;
    double t[8], u[8];
    load_neighbours(a, colour, c, t, u);
    return residual_of_row(a.b[e], a.m.center[e], a.v[e], t, u);
}

// Computes out = A v. With `partial`, also computes sigma = <v, A v>, and ends the iteration.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_multiply_f64(ProductArgs a) {
    if (a.stage == LOOP && a.scalars->code != RUNNING) {
        if (a.conditional && blockIdx.x == 0 && thread_of_block() == 0) set_loop_condition(a.conditional, *a.scalars);
        return;
    }
    double sigma = 0.0;
    for_each_group_of_area(
        a.g,
        [&](int i, int j) {
            const int64_t c = a.g.at(i, j);
            for (int colour = 0; colour < 4; ++colour) {
                const double q = multiply_row(a, colour, c);
                a.out[colour * a.g.plane + c] = q;
                sigma += q * a.v[colour * a.g.plane + c];
            }
        },
        [&](int part) {
            if (a.partial) store_part_sum(a.partial, part, sigma);
        });
    if (!a.partial) return;
    sum_parts(a.g, a.partial, &a.scalars->ticket, [&](double total) {
        end_iteration(*a.scalars, total, a.stage);
        if (a.stage == LOOP && a.conditional) set_loop_condition(a.conditional, *a.scalars);
    });
}

// Computes out = b - A v, and stores the squared norm of `out` in Scalars::norm2. If `out` is null, only computes the
// squared norm of b - A v, and stores it in Scalars::all_nodes_norm2.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_residual_f64(ProductArgs a) {
    // The kernel does nothing if the loop continues. If `out` is null, it also does nothing if the loop has not
    // converged.
    if (a.stage == LOOP &&
        (a.scalars->code == PAUSED || a.scalars->code == RUNNING || (!a.out && a.scalars->code != CONVERGED)))
        return;
    double norm2 = 0.0;
    for_each_group_of_area(
        a.g,
        [&](int i, int j) {
            const int64_t c = a.g.at(i, j);
            for (int colour = 0; colour < 4; ++colour) {
                const double r = residual_of_row(a, colour, c);
                if (a.out) a.out[colour * a.g.plane + c] = r;
                norm2 += r * r;
            }
        },
        [&](int part) { store_part_sum(a.partial, part, norm2); });
    sum_parts(a.g, a.partial, &a.scalars->ticket,
        [&](double total) { (a.out ? a.scalars->norm2 : a.scalars->all_nodes_norm2) = total; });
}

// Computes b = b - A v, and stores <b_r, D_r^-1 b_r> of the new b in Scalars::sum.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_rhs_to_residual_f64(ProductArgs a) {
    double red_sum = 0.0;
    for_each_group_of_area(
        a.g,
        [&](int i, int j) {
            const int64_t c = a.g.at(i, j);
            for (int colour = 0; colour < 4; ++colour) {
                const int64_t e = colour * a.g.plane + c;
                const double r = residual_of_row(a, colour, c);
                a.out[e] = r;
                if (colour < B1 && a.m.center[e] != 0.0) red_sum += r * (r / a.m.center[e]);
            }
        },
        [&](int part) { store_part_sum(a.partial, part, red_sum); });
    sum_parts(a.g, a.partial, &a.scalars->ticket, [&](double total) { a.scalars->sum = total; });
}

struct ReduceArgs {
    Grid k;              // `s`: couplings of A
    double *b, *x;       // 4 planes
    double *r_b1, *r_b2; // residual of S1; null: r does not change
    Scalars *scalars;
};

// Replaces b_b in the black planes by b_b - A_br D_r^-1 b_r, the right-hand side of S1 (report 16-06, equation 2.10).
// Unless `r_b1` is null, this right-hand side is also stored in r, because it is the residual of S1 for x = 0.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_reduce_f64(ReduceArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane, n = g.stride;
    const double *h1 = a.k.h + R1 * p, *h2 = a.k.h + R2 * p, *b1 = a.b + R1 * p, *b2 = a.b + R2 * p;
    for_each_group_of_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        double t[4];
        load_axis_couplings(g, a.k.s, B1, c, t);
        const double b_b1 = a.b[B1 * p + c] -
            ((t[0] * (b2[c - 1] * h2[c - 1]) + t[1] * (b2[c] * h2[c])) +
                (t[2] * (b1[c - n] * h1[c - n]) + t[3] * (b1[c] * h1[c])));
        load_axis_couplings(g, a.k.s, B2, c, t);
        const double b_b2 = a.b[B2 * p + c] -
            ((t[0] * (b1[c] * h1[c]) + t[1] * (b1[c + 1] * h1[c + 1])) +
                (t[2] * (b2[c] * h2[c]) + t[3] * (b2[c + n] * h2[c + n])));
        a.b[B1 * p + c] = b_b1;
        a.b[B2 * p + c] = b_b2;
        if (!a.r_b1) return;
        a.r_b1[c] = b_b1;
        a.r_b2[c] = b_b2;
    });
    if (a.r_b1 && blockIdx.x == 0 && thread_of_block() == 0) a.scalars->parity = 0;
}

// Computes x_r = D_r^-1 (b_r - A_rb x_b), and stores max |x| in Scalars::largest, which must be zero on entry.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_back_substitute_f64(ReduceArgs a) {
    const Geometry &g = a.k.g;
    const int64_t p = g.plane;
    uint64_t largest = 0;
    for_each_group_of_area(g, [&](int i, int j) {
        const int64_t c = g.at(i, j);
        const double r1 = a.k.h[R1 * p + c] * (a.b[R1 * p + c] - axis_sum_r1(a.k, a.x, c));
        const double r2 = a.k.h[R2 * p + c] * (a.b[R2 * p + c] - axis_sum_r2(a.k, a.x, c));
        a.x[R1 * p + c] = r1;
        a.x[R2 * p + c] = r2;
        largest = max(max(largest, max(magnitude(r1), magnitude(r2))),
            max(magnitude(a.x[B1 * p + c]), magnitude(a.x[B2 * p + c])));
    });
    update_largest(&a.scalars->largest, largest);
}

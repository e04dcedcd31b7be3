// A V-cycle of multigrid with vertex coarsening, grid by grid: smoothing, residual, restriction, interpolation, in the
// numbers T of the cycle (src/backend/reference/dpcg/vertex has the same formulas). Matrices are conductances c_o(p) =
// -A(p, p + o) of the upper half of a symmetric stencil: 3 offsets o on the finest grid, 13 on the others (Dendy 1982).
//
// Storage: point (i, j, k) at (k ny + j) nx + i. Before and after each vector are nx ny + nx + 1 zeros, and as many
// between the conductances of one offset and of the next: no kernel asks for an edge. Weights of the interpolation lie
// in 8 arrays: bit d of the number says which of the two coarse points in direction d.
//
// Bytes a point, T of 4: relaxation of the finest grid 24, a sweep of Jacobi 72, residual 68, restriction and
// interpolation 36 each.
//
// Races: a half-sweep of Gauss-Seidel writes points of one colour and reads their own value and those of the other
// colour. All else writes arrays that it reads at the thread's own point alone.
#include "box.cuh"

namespace dpcg {

struct GridArgs {
    Box box;
    const void *c;      // of the first offset
    int64_t c_stride;   // from there to those of the next one
    const void *diagonal;
    const void *inverse; // 1 / divisor of the smoother
    const void *r;
    void *x, *out;
    int colour;
    int from_zero; // x is zero, whatever is there
};

// The steps through memory of the offsets, in the order of their arrays.
template <bool FINEST> __device__ inline int64_t step_of(const Box &box, int k) {
    if (FINEST) return k == 0 ? 1 : k == 1 ? box.north() : box.top();
    // Of the 27 points around one, the 13 after it.
    const int m = k + 14, dx = m % 3 - 1, dy = m / 3 % 3 - 1, dz = m / 9 - 1;
    return dx + dy * box.north() + dz * box.top();
}

// `sum` - (A - D) x in a point.
template <class T, bool FINEST> __device__ inline T with_neighbours(const GridArgs &a, int64_t p, T sum) {
    const T *x = static_cast<const T *>(a.x), *c = static_cast<const T *>(a.c) + p;
#pragma unroll
    for (int k = 0; k < (FINEST ? 3 : 13); ++k) {
        const int64_t step = step_of<FINEST>(a.box, k);
        sum += c[-step] * x[p - step];
        sum += c[0] * x[p + step];
        c += a.c_stride;
    }
    return sum;
}

// r - A x in a point.
template <class T, bool FINEST> __device__ inline T residual_at(const GridArgs &a, int64_t p) {
    const T *x = static_cast<const T *>(a.x), *diagonal = static_cast<const T *>(a.diagonal);
    return static_cast<const T *>(a.r)[p] + with_neighbours<T, FINEST>(a, p, -diagonal[p] * x[p]);
}

// A half-sweep of Gauss-Seidel: x = D^-1 (r - (A - D) x) in the points of a colour. From zero, the other colour is zero
// after it.
template <class T> __device__ inline void relax_colour(const GridArgs &a) {
    const T *r = static_cast<const T *>(a.r), *inverse = static_cast<const T *>(a.inverse);
    T *x = static_cast<T *>(a.x);
    if (a.from_zero) {
        over_places(a.box, [&](int64_t p, int i, int j, int k) {
            x[p] = (i + j + k) % 2 == a.colour ? r[p] * inverse[p] : T(0);
        });
    } else {
        over_colour(a.box, a.colour, [&](int64_t p) { x[p] = with_neighbours<T, true>(a, p, r[p]) * inverse[p]; });
    }
}

// A sweep of Jacobi, from x to out.
template <class T> __device__ inline void relax(const GridArgs &a) {
    const T *r = static_cast<const T *>(a.r), *x = static_cast<const T *>(a.x);
    const T *inverse = static_cast<const T *>(a.inverse);
    T *out = static_cast<T *>(a.out);
    over_cells(a.box.count(), [&](int64_t p) {
        out[p] = a.from_zero ? r[p] * inverse[p] : x[p] + residual_at<T, false>(a, p) * inverse[p];
    });
}

// out = r - A x.
template <class T, bool FINEST> __device__ inline void residual_of_grid(const GridArgs &a) {
    T *out = static_cast<T *>(a.out);
    over_cells(a.box.count(), [&](int64_t p) { out[p] = residual_at<T, FINEST>(a, p); });
}

struct InterpolationArgs {
    Box fine, coarse;
    int coarsened[3];
    int unused;
    const void *weights; // 8 arrays
    void *of_fine, *of_coarse;
};

// of_coarse = P^T of_fine: the points around a coarse one, in the order of their places.
template <class T, class Coarse> __device__ inline void restrict_to(const InterpolationArgs &a) {
    const T *weights = static_cast<const T *>(a.weights), *of_fine = static_cast<const T *>(a.of_fine);
    Coarse *of_coarse = static_cast<Coarse *>(a.of_coarse);
    const int64_t n = a.fine.count();
    const int x = a.coarsened[0], y = a.coarsened[1], z = a.coarsened[2];
    over_places(a.coarse, [&](int64_t c, int i, int j, int k) {
        Coarse sum = 0;
        for (int dz = -z; dz <= z; ++dz) {
            const int fk = (k << z) + dz;
            if (fk < 0 || fk >= a.fine.nz) continue;
            for (int dy = -y; dy <= y; ++dy) {
                const int fj = (j << y) + dy;
                if (fj < 0 || fj >= a.fine.ny) continue;
                for (int dx = -x; dx <= x; ++dx) {
                    const int fi = (i << x) + dx;
                    if (fi < 0 || fi >= a.fine.nx) continue;
                    // A point before the coarse one has it after itself.
                    const int side = (dx < 0 ? 1 : 0) + (dy < 0 ? 2 : 0) + (dz < 0 ? 4 : 0);
                    const int64_t p = (int64_t(fk) * a.fine.ny + fj) * a.fine.nx + fi;
                    sum += Coarse(weights[side * n + p] * of_fine[p]);
                }
            }
        }
        of_coarse[c] = sum;
    });
}

// of_fine += P of_coarse.
template <class T, class Coarse> __device__ inline void interpolate(const InterpolationArgs &a) {
    const T *weights = static_cast<const T *>(a.weights);
    const Coarse *of_coarse = static_cast<const Coarse *>(a.of_coarse);
    T *of_fine = static_cast<T *>(a.of_fine);
    const int64_t n = a.fine.count(), north = a.coarse.north(), top = a.coarse.top();
    over_places(a.fine, [&](int64_t p, int i, int j, int k) {
        const int64_t c = (int64_t(k >> a.coarsened[2]) * a.coarse.ny + (j >> a.coarsened[1])) * a.coarse.nx +
            (i >> a.coarsened[0]);
        T sum = of_fine[p];
        for (int t = 0; t < 8; ++t) {
            const T weight = weights[t * n + p];
            if (weight != T(0)) sum += weight * T(of_coarse[c + (t & 1) + (t >> 1 & 1) * north + (t >> 2) * top]);
        }
        of_fine[p] = sum;
    });
}

struct NarrowArgs {
    int64_t count;
    const double *scales; // 1 / s and s, a power of two near the largest value of r
    double *wide;
    void *narrow;
    double factor;
    const double *r; // of the sum
    Sum sum;
};

// narrow = wide / s.
template <class T> __device__ inline void narrow(const NarrowArgs &a) {
    const double factor = a.scales[0];
    over_cells(a.count, [&](int64_t c) { static_cast<T *>(a.narrow)[c] = T(factor * a.wide[c]); });
}

// wide = factor s narrow, and <r, wide>.
template <class T> __device__ inline void widen(const NarrowArgs &a) {
    const double factor = a.factor * a.scales[1];
    double sum = 0.0;
    over_cells(a.count, [&](int64_t c) {
        const double z = factor * double(static_cast<const T *>(a.narrow)[c]);
        a.wide[c] = z;
        sum += a.r[c] * z;
    });
    finish_sum(a.sum, sum);
}

} // namespace dpcg

DPCG_KERNEL(dpcg_relax_colour_f32, GridArgs, relax_colour<float>)
DPCG_KERNEL(dpcg_relax_colour_f64, GridArgs, relax_colour<double>)
DPCG_KERNEL(dpcg_relax_f32, GridArgs, relax<float>)
DPCG_KERNEL(dpcg_relax_f64, GridArgs, relax<double>)
DPCG_KERNEL(dpcg_finest_residual_f32, GridArgs, residual_of_grid<float, true>)
DPCG_KERNEL(dpcg_finest_residual_f64, GridArgs, residual_of_grid<double, true>)
DPCG_KERNEL(dpcg_grid_residual_f32, GridArgs, residual_of_grid<float, false>)
DPCG_KERNEL(dpcg_grid_residual_f64, GridArgs, residual_of_grid<double, false>)
DPCG_KERNEL(dpcg_restrict_f32, InterpolationArgs, restrict_to<float, float>)
DPCG_KERNEL(dpcg_restrict_f64, InterpolationArgs, restrict_to<double, double>)
DPCG_KERNEL(dpcg_restrict_wide_f32, InterpolationArgs, restrict_to<float, double>)
DPCG_KERNEL(dpcg_interpolate_f32, InterpolationArgs, interpolate<float, float>)
DPCG_KERNEL(dpcg_interpolate_f64, InterpolationArgs, interpolate<double, double>)
DPCG_KERNEL(dpcg_interpolate_wide_f32, InterpolationArgs, interpolate<float, double>)
DPCG_KERNEL(dpcg_narrow_f32, NarrowArgs, narrow<float>)
DPCG_KERNEL(dpcg_narrow_f64, NarrowArgs, narrow<double>)
DPCG_KERNEL(dpcg_widen_f32, NarrowArgs, widen<float>)
DPCG_KERNEL(dpcg_widen_f64, NarrowArgs, widen<double>)

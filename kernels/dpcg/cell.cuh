// V-cycle of multigrid with cell coarsening for 7-point matrices, grid by grid: red-black Gauss-Seidel and piecewise
// constant interpolation. The formulas are in src/dpcg/cpu/cell.rs. The finest grid uses f64, coarse grids use T.
// box.cuh describes the storage.
//
// Memory traffic per cell for T of 4 bytes, in bytes: relaxation 16 to 24, restriction 24, interpolation 8.
//
// There are no races, because a half-sweep writes cells of one colour and reads cells of the other colour.
#include "box.cuh"

namespace dpcg {

struct CellArgs {
    CellBox cells;
    const void *center, *forward[3];
    const void *r;
    void *x;
    int colour;    // 0: red; 1: black
    int from_zero; // 1: uses x = 0 instead of the content of the array
};

// Returns r - (A - D) x in a cell.
template <class T> __device__ inline T off_diagonal_residual(const CellArgs &a, int64_t c) {
    const T *x = static_cast<const T *>(a.x);
    const int64_t strides[3] = {1, a.cells.north(), a.cells.top()};
    T value = static_cast<const T *>(a.r)[c];
#pragma unroll
    for (int d = 0; d < 3; ++d) {
        const T *forward = static_cast<const T *>(a.forward[d]) + c;
        value -= forward[-strides[d]] * x[c - strides[d]];
        value -= forward[0] * x[c + strides[d]];
    }
    return value;
}

// Computes x = D^-1 (r - (A - D) x) in the cells of a colour.
template <class T> __device__ inline void relax_cells(const CellArgs &a) {
    const T *center = static_cast<const T *>(a.center), *r = static_cast<const T *>(a.r);
    T *x = static_cast<T *>(a.x);
    for_each_cell_of_colour(a.cells, a.colour, [&](int64_t c) {
        const T value = a.from_zero ? r[c] : off_diagonal_residual<T>(a, c);
        x[c] = value / center[c];
    });
}

struct GridTransferArgs {
    CellArgs fine;
    CellBox coarse;
    int ratio[3];
    int unused;
    void *coarse_vector;
    const double *scales; // 1 / s and s, where s is a power of two near max |r_i|; null: s = 1
    double factor;        // power of two by which the coarse matrix is multiplied, relative to the fine matrix
};

// Computes coarse_vector = R (r - A x) / s, where R adds the values of the fine cells of a coarse cell. The residual of
// black cells is zero, since they were updated last.
template <class T, class Coarse> __device__ inline void restrict_cells(const GridTransferArgs &a) {
    const CellArgs &fine = a.fine;
    const T *x = static_cast<const T *>(fine.x), *center = static_cast<const T *>(fine.center);
    Coarse *coarse_vector = static_cast<Coarse *>(a.coarse_vector);
    const double inverse_scale = a.scales ? a.scales[0] : 1.0;
    for_each_cell_index(a.coarse, [&](int64_t c, int i, int j, int k) {
        Coarse sum = 0;
        for (int fk = k * a.ratio[2]; fk < min((k + 1) * a.ratio[2], fine.cells.nz); ++fk) {
            for (int fj = j * a.ratio[1]; fj < min((j + 1) * a.ratio[1], fine.cells.ny); ++fj) {
                for (int fi = i * a.ratio[0]; fi < min((i + 1) * a.ratio[0], fine.cells.nx); ++fi) {
                    if ((fi + fj + fk) % 2 != 0) continue;
                    const int64_t p = (int64_t(fk) * fine.cells.ny + fj) * fine.cells.nx + fi;
                    const T residual = off_diagonal_residual<T>(fine, p) - center[p] * x[p];
                    sum += Coarse(double(residual) * inverse_scale);
                }
            }
        }
        coarse_vector[c] = sum;
    });
}

// Computes x = x + s * factor * P coarse_vector.
template <class T, class Coarse> __device__ inline void interpolate_cells(const GridTransferArgs &a) {
    T *x = static_cast<T *>(a.fine.x);
    const Coarse *coarse_vector = static_cast<const Coarse *>(a.coarse_vector);
    const double factor = a.scales ? a.factor * a.scales[1] : a.factor;
    for_each_cell_index(a.fine.cells, [&](int64_t p, int i, int j, int k) {
        const int64_t c = (int64_t(k / a.ratio[2]) * a.coarse.ny + j / a.ratio[1]) * a.coarse.nx + i / a.ratio[0];
        x[p] += T(double(coarse_vector[c]) * factor);
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_relax_cells_f32, CellArgs, relax_cells<float>)
DPCG_KERNEL(dpcg_relax_cells_f64, CellArgs, relax_cells<double>)
DPCG_KERNEL(dpcg_restrict_cells_f32, GridTransferArgs, restrict_cells<float, float>)
DPCG_KERNEL(dpcg_restrict_cells_f64, GridTransferArgs, restrict_cells<double, double>)
DPCG_KERNEL(dpcg_restrict_cells_to_f32, GridTransferArgs, restrict_cells<double, float>)
DPCG_KERNEL(dpcg_interpolate_cells_f32, GridTransferArgs, interpolate_cells<float, float>)
DPCG_KERNEL(dpcg_interpolate_cells_f64, GridTransferArgs, interpolate_cells<double, double>)
DPCG_KERNEL(dpcg_interpolate_cells_from_f32, GridTransferArgs, interpolate_cells<double, float>)

// The grids of cell-centred multigrid, one after the other (src/backend/reference/dpcg/grids.rs has the formulas): what
// rows are more than their couplings, centers, strengths of directions, sums over the cells of a coarse cell. Sums of a
// value are in f64 and in the order of the reference, cell after cell: matrices have its bits. Storage as in box.cuh.
//
// Bytes a cell: finest look 40, coarsening 32 and what the coarse cells take, 20 each, T of 4; coarse look 24.
#include "box.cuh"

namespace dpcg {

struct CellGridArgs {
    Box box, coarse;
    int ratio[3];
    int unused;
    const void *forward[3]; // of the grid
    void *center;
    double *excess; // what its rows are more than their couplings
    void *coarse_forward[3];
    double *coarse_excess;
    double factor;       // what the coarse matrix is multiplied by: a power of two
    double zero_row_sum; // an excess within this part of the center is none
    double *partial;     // 3 values a block
    double *strengths;   // sums over rows of each direction's part of the center
    Scalars *scalars;
};

// The finest grid: the excess of rows. Another one: centers, of the couplings as they were rounded, so that constants
// stay in the kernel of a singular matrix; of a row without anything, 1. Strengths of directions on both. A cell
// without couplings is solved by the smoother: coarse grids are not to see it.
template <class T, bool FINEST> __device__ inline void look_at_cells(const CellGridArgs &a) {
    const int64_t steps[3] = {1, a.box.north(), a.box.top()};
    T *center = static_cast<T *>(a.center);
    double strengths[3] = {0.0, 0.0, 0.0};
    over_cells(a.box.count(), [&](int64_t c) {
        double part[3];
        for (int d = 0; d < 3; ++d) {
            const T *forward = static_cast<const T *>(a.forward[d]) + c;
            part[d] = -double(forward[0]) - double(forward[-steps[d]]);
        }
        const double couplings = part[0] + part[1] + part[2];
        const bool any = part[0] != 0.0 || part[1] != 0.0 || part[2] != 0.0;
        double own;
        if (FINEST) {
            own = center[c];
            const double more = own - couplings;
            a.excess[c] = any && more > a.zero_row_sum * own ? more : 0.0;
        } else {
            own = couplings + a.excess[c];
            own = own > 0.0 ? own : 1.0;
            if (!any) a.excess[c] = 0.0;
            center[c] = T(own);
        }
        for (int d = 0; d < 3; ++d) strengths[d] += fabs(part[d]) / own;
    });
    sums_of_blocks(strengths, a.partial, &a.scalars->ticket, a.strengths);
}

// The next grid: couplings of the faces between two coarse cells, as many times weaker as those are farther apart, and
// the excess of all cells.
template <class Fine, class T> __device__ inline void coarsen_cells(const CellGridArgs &a) {
    double factor[3];
    for (int d = 0; d < 3; ++d) factor[d] = a.ratio[d] == 2 ? 0.5 * a.factor : a.factor;
    over_places(a.coarse, [&](int64_t c, int I, int J, int K) {
        // The last cells in each direction, and where the box ends before.
        const int last[3] = {(I + 1) * a.ratio[0] - 1, (J + 1) * a.ratio[1] - 1, (K + 1) * a.ratio[2] - 1};
        const int end[3] = {min(last[0], a.box.nx - 1), min(last[1], a.box.ny - 1), min(last[2], a.box.nz - 1)};
        double sums[3] = {0.0, 0.0, 0.0}, excess = 0.0;
        for (int k = K * a.ratio[2]; k <= end[2]; ++k) {
            for (int j = J * a.ratio[1]; j <= end[1]; ++j) {
                for (int i = I * a.ratio[0]; i <= end[0]; ++i) {
                    const int64_t p = (int64_t(k) * a.box.ny + j) * a.box.nx + i;
                    const bool at_face[3] = {i == last[0], j == last[1], k == last[2]};
                    excess += a.excess[p] * a.factor;
                    for (int d = 0; d < 3; ++d) {
                        if (at_face[d]) sums[d] += double(static_cast<const Fine *>(a.forward[d])[p]) * factor[d];
                    }
                }
            }
        }
        for (int d = 0; d < 3; ++d) static_cast<T *>(a.coarse_forward[d])[c] = T(sums[d]);
        a.coarse_excess[c] = excess;
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_look_at_finest_f64, CellGridArgs, look_at_cells<double, true>)
DPCG_KERNEL(dpcg_look_at_cells_f32, CellGridArgs, look_at_cells<float, false>)
DPCG_KERNEL(dpcg_look_at_cells_f64, CellGridArgs, look_at_cells<double, false>)
DPCG_KERNEL(dpcg_coarsen_cells_to_f32, CellGridArgs, coarsen_cells<double, float>)
DPCG_KERNEL(dpcg_coarsen_cells_f32, CellGridArgs, coarsen_cells<float, float>)
DPCG_KERNEL(dpcg_coarsen_cells_f64, CellGridArgs, coarsen_cells<double, double>)

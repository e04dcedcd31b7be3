// Setup of multigrid with cell coarsening, grid after grid: row sums, centers, strengths of the directions, and coarse
// couplings. The formulas are in src/dpcg/cell_grids.rs. Each value is summed in f64 in the same order as on the CPU,
// so the matrices are bitwise identical. box.cuh describes the storage.
//
// Bytes per cell for T of 4 bytes: centers_and_strengths 40 on the finest grid and 24 on coarse grids; coarsen_cells
// 32, and 20 per coarse cell.
#include "box.cuh"

namespace dpcg {

struct CellGridArgs {
    CellBox cells, coarse;
    int ratio[3];
    int unused;
    const void *forward[3]; // couplings of the fine grid to the east, north and top
    void *center;
    double *row_sums; // row sums of the fine grid
    void *coarse_forward[3];
    double *coarse_row_sums;
    double factor;       // power of two by which the coarse matrix is multiplied
    double zero_row_sum; // row sums of at most this fraction of the center, also negative ones, count as zero
    double *partial;     // 3 values per block
    double *strengths;   // per direction d: sum over rows of |sum of the couplings in d| / center
    Scalars *scalars;
};

// Computes the strengths of the directions. If FINEST, also computes the row sums. Otherwise, computes the centers from
// the row sums and the rounded couplings, so that constants remain in the null space of a singular matrix. A coarse
// center that would not be positive is set to 1, for example in a row without couplings and with a zero row sum. On all
// grids, the row sum of a cell without couplings is set to zero, so that coarse grids omit the cell. The smoother
// solves the equation of such a cell exactly.
template <class T, bool FINEST> __device__ inline void centers_and_strengths(const CellGridArgs &a) {
    const int64_t strides[3] = {1, a.cells.north(), a.cells.top()};
    T *center = static_cast<T *>(a.center);
    double strengths[3] = {0.0, 0.0, 0.0};
    for_each_cell(a.cells.count(), [&](int64_t c) {
        double coupling_sums[3];
        for (int d = 0; d < 3; ++d) {
            const T *forward = static_cast<const T *>(a.forward[d]) + c;
            coupling_sums[d] = -double(forward[0]) - double(forward[-strides[d]]);
        }
        const double coupling_total = coupling_sums[0] + coupling_sums[1] + coupling_sums[2];
        const bool has_couplings = coupling_sums[0] != 0.0 || coupling_sums[1] != 0.0 || coupling_sums[2] != 0.0;
        double own_center;
        if (FINEST) {
            own_center = center[c];
            const double row_sum = own_center - coupling_total;
            a.row_sums[c] = has_couplings && row_sum > a.zero_row_sum * own_center ? row_sum : 0.0;
        } else {
            own_center = coupling_total + a.row_sums[c];
            own_center = own_center > 0.0 ? own_center : 1.0;
            if (!has_couplings) a.row_sums[c] = 0.0;
            center[c] = T(own_center);
        }
        for (int d = 0; d < 3; ++d) strengths[d] += fabs(coupling_sums[d]) / own_center;
    });
    sums_of_blocks(strengths, a.partial, &a.scalars->ticket, a.strengths);
}

// Computes the next coarser grid. A coarse coupling is the sum of the fine couplings at the faces between two coarse
// cells, divided by `ratio`, because the centres of coarse cells are `ratio` times as far apart. A coarse row sum is
// the sum of the row sums of the fine cells in the coarse cell.
template <class Fine, class T> __device__ inline void coarsen_cells(const CellGridArgs &a) {
    double factor[3];
    for (int d = 0; d < 3; ++d) factor[d] = a.ratio[d] == 2 ? 0.5 * a.factor : a.factor;
    for_each_cell_index(a.coarse, [&](int64_t c, int I, int J, int K) {
        // `last_fine` is the index of the last fine cell of the coarse cell in each direction, and `end_fine` is
        // limited to the box.
        const int last_fine[3] = {(I + 1) * a.ratio[0] - 1, (J + 1) * a.ratio[1] - 1, (K + 1) * a.ratio[2] - 1};
        const int end_fine[3] =
            {min(last_fine[0], a.cells.nx - 1), min(last_fine[1], a.cells.ny - 1), min(last_fine[2], a.cells.nz - 1)};
        double sums[3] = {0.0, 0.0, 0.0}, row_sum = 0.0;
        for (int k = K * a.ratio[2]; k <= end_fine[2]; ++k) {
            for (int j = J * a.ratio[1]; j <= end_fine[1]; ++j) {
                for (int i = I * a.ratio[0]; i <= end_fine[0]; ++i) {
                    const int64_t p = (int64_t(k) * a.cells.ny + j) * a.cells.nx + i;
                    const bool at_face[3] = {i == last_fine[0], j == last_fine[1], k == last_fine[2]};
                    row_sum += a.row_sums[p] * a.factor;
                    for (int d = 0; d < 3; ++d) {
                        if (at_face[d]) sums[d] += double(static_cast<const Fine *>(a.forward[d])[p]) * factor[d];
                    }
                }
            }
        }
        for (int d = 0; d < 3; ++d) static_cast<T *>(a.coarse_forward[d])[c] = T(sums[d]);
        a.coarse_row_sums[c] = row_sum;
    });
}

} // namespace dpcg

DPCG_KERNEL(dpcg_row_sums_of_finest_f64, CellGridArgs, centers_and_strengths<double, true>)
DPCG_KERNEL(dpcg_centers_and_strengths_f32, CellGridArgs, centers_and_strengths<float, false>)
DPCG_KERNEL(dpcg_centers_and_strengths_f64, CellGridArgs, centers_and_strengths<double, false>)
DPCG_KERNEL(dpcg_coarsen_cells_to_f32, CellGridArgs, coarsen_cells<double, float>)
DPCG_KERNEL(dpcg_coarsen_cells_f32, CellGridArgs, coarsen_cells<float, float>)
DPCG_KERNEL(dpcg_coarsen_cells_f64, CellGridArgs, coarsen_cells<double, double>)

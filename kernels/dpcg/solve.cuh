// Start and end of a solve: inspection of the caller's arrays, and copies between them and the vectors. A kernel moves
// 8 bytes per cell for each array in its description.
#include "box.cuh"

namespace dpcg {

struct CellInspectArgs {
    CellBox cells;
    CellArray input, output; // output.values may be null
    Scalars *scalars;
};

// Computes max |input|, max |output|, and the first entry that is not finite. The entries are ordered by row, and
// within a row, the input precedes the output.
__device__ inline void inspect(const CellInspectArgs &a) {
    uint64_t largest[2] = {0, 0};
    over_places(a.cells, [&](int64_t, int i, int j, int k) {
        for (int which = 0; which < 2; ++which) {
            const CellArray &array = which == 0 ? a.input : a.output;
            if (!array.values) continue;
            const uint64_t m = magnitude(*array.at(i, j, k));
            largest[which] = max(largest[which], m);
            if (m >= 0x7ff0000000000000ull) {
                const uint64_t row = uint64_t(k) * a.cells.ny + j;
                atomic_max(&a.scalars->not_finite, ~((row * 2 + which) * a.cells.nx + i));
            }
        }
    });
    update_largest(&a.scalars->largest, largest[0]);
    update_largest(&a.scalars->largest_guess, largest[1]);
}

struct CellTransferArgs {
    CellBox cells;
    CellArray array;
    double *vector; // null: `store` writes zeros
    double factor;
    Sum sum;
};

// Computes vector = factor * array, and the sum <vector, vector>.
__device__ inline void load(const CellTransferArgs &a) {
    double sum = 0.0;
    over_places(a.cells, [&](int64_t c, int i, int j, int k) {
        const double v = a.factor * *a.array.at(i, j, k);
        a.vector[c] = v;
        sum += v * v;
    });
    finish_sum(a.sum, sum);
}

// Computes array = factor * vector, or array = 0 if `vector` is null.
__device__ inline void store(const CellTransferArgs &a) {
    over_places(a.cells, [&](int64_t c, int i, int j, int k) {
        *a.array.at(i, j, k) = a.vector ? a.factor * a.vector[c] : 0.0;
    });
}

struct CellLargestArgs {
    int64_t count;
    const double *v;
    Scalars *scalars;
};

// Computes max |v_i|, and stores it in the scalars, which must contain zero on entry.
__device__ inline void largest(const CellLargestArgs &a) {
    uint64_t largest = 0;
    over_cells(a.count, [&](int64_t c) { largest = max(largest, magnitude(a.v[c])); });
    update_largest(&a.scalars->largest, largest);
}

struct ScaleArgs {
    int64_t count;
    const double *v;
    uint64_t *partial; // one value per thread block
    double *scales;    // 1 / s and s
    Scalars *scalars;
};

// Returns the maximum over the threads of a block.
__device__ inline uint64_t block_largest(uint64_t mine) {
    __shared__ unsigned long long largest;
    __syncthreads();
    if (threadIdx.x == 0) largest = 0;
    __syncthreads();
    if (mine) atomicMax(&largest, (unsigned long long)mine);
    __syncthreads();
    return largest;
}

// Computes s, the largest power of two not above max |v_i|, limited such that s and 1 / s are normal numbers.
__device__ inline void scale(const ScaleArgs &a) {
    uint64_t most = 0;
    over_cells(a.count, [&](int64_t c) { most = max(most, magnitude(a.v[c])); });
    most = block_largest(most);
    if (threadIdx.x == 0) a.partial[blockIdx.x] = most;
    if (!last_block(&a.scalars->ticket)) return;
    most = 0;
    for (unsigned k = threadIdx.x; k < gridDim.x; k += THREADS)
        most = max(most, uint64_t(__ldcg(reinterpret_cast<const unsigned long long *>(a.partial) + k)));
    most = block_largest(most);
    if (threadIdx.x != 0) return;
    const int64_t exponent = max(int64_t(2), min(int64_t(2045), int64_t(most >> 52)));
    a.scales[0] = __longlong_as_double((2046 - exponent) << 52);
    a.scales[1] = __longlong_as_double(exponent << 52);
}

} // namespace dpcg

DPCG_KERNEL(dpcg_inspect_f64, CellInspectArgs, inspect)
DPCG_KERNEL(dpcg_load_f64, CellTransferArgs, load)
DPCG_KERNEL(dpcg_store_f64, CellTransferArgs, store)
DPCG_KERNEL(dpcg_largest_f64, CellLargestArgs, largest)
DPCG_KERNEL(dpcg_scale_f64, ScaleArgs, scale)

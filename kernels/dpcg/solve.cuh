// Scale of a vector: 8 bytes per cell.
#include "box.cuh"

namespace dpcg {

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

DPCG_KERNEL(dpcg_scale_f64, ScaleArgs, scale)

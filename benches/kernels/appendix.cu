// Block relaxation in the form that the appendix of Rodriguez et al. describes, for comparison: one thread a cell, one
// block of threads a block of cells, the residual in shared memory, the dense inverse read from global memory by every
// block. In place, blocks in whatever order; one launch a patch. A: the inverse by columns; extents are multiples of
// the block.
#include <cuda_runtime.h>

struct Arguments {
    const double *inverse;
    double *u;
    const double *f;
    double omega;
    double legs[7];   // center, west, east, south, north, bottom, top
};

extern "C" __global__ void __launch_bounds__(512) appendix_f64(const Arguments a) {
    extern __shared__ double residual[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    const int k = blockIdx.z * blockDim.z + threadIdx.z;
    const int nx = gridDim.x * blockDim.x, ny = gridDim.y * blockDim.y, row = nx + 2, plane = row * (ny + 2);
    const int own = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int cells = blockDim.x * blockDim.y * blockDim.z;
    double *c = a.u + (k + 1) * plane + (j + 1) * row + i + 1;
    double r = a.f[(k * ny + j) * nx + i];
    r -= a.legs[6] * c[plane];
    r -= a.legs[5] * c[-plane];
    r -= a.legs[4] * c[row];
    r -= a.legs[3] * c[-row];
    r -= a.legs[2] * c[1];
    r -= a.legs[1] * c[-1];
    r -= a.legs[0] * c[0];
    residual[own] = r;
    __syncthreads();
    double sum = 0.0;
#pragma unroll 8
    for (int g = 0; g < cells; ++g) sum += a.inverse[g * cells + own] * residual[g];
    *c += a.omega * sum;
}

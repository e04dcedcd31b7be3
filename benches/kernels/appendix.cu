// Block relaxation as in the appendix of Rodriguez et al., for comparison. One thread block processes one block of
// cells, with one thread per cell. The residual is in shared memory, and every thread block reads the dense inverse,
// stored by columns, from global memory. Blocks are updated in place, in any order. One launch processes one patch,
// whose extents are multiples of the block size.
#include <cuda_runtime.h>

struct Arguments {
    const double *inverse;
    double *u;
    const double *f;
    double omega;
    double entries[7];   // center, west, east, south, north, bottom, top
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
    r -= a.entries[6] * c[plane];
    r -= a.entries[5] * c[-plane];
    r -= a.entries[4] * c[row];
    r -= a.entries[3] * c[-row];
    r -= a.entries[2] * c[1];
    r -= a.entries[1] * c[-1];
    r -= a.entries[0] * c[0];
    residual[own] = r;
    __syncthreads();
    double sum = 0.0;
#pragma unroll 8
    for (int g = 0; g < cells; ++g) sum += a.inverse[g * cells + own] * residual[g];
    *c += a.omega * sum;
}

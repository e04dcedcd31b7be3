// Kernels of the family sparse_: one translation unit, one module.
#include "products.cuh"
#include "steps.cuh"
#include "aggregated.cuh"

VECTOR_KERNELS(sparse)

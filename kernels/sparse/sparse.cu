// Kernels of the family sparse_: one translation unit, one module.
#include "products.cuh"
#include "steps.cuh"

VECTOR_KERNELS(sparse)

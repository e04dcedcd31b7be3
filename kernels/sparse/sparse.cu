// Kernels of the family sparse_: one translation unit, one module.
#include "../aggregation/aggregation.cuh"
#include "products.cuh"
#include "steps.cuh"

AGGREGATION_KERNELS(sparse)
VECTOR_KERNELS(sparse)

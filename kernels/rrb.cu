// All kernels of the library, one translation unit, so that they are one module.
#include "common.cuh"
#include "setup.cu"
#include "remainder.cu"
#include "levels.cu"
#include "fused.cu"
#include "cycle.cu"
#include "steps.cu"
#include "projection.cu"

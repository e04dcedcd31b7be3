// Kernels of the family dpcg_, in one translation unit and one module.
#include "box.cuh"
#include "steps.cuh"
#include "fused.cuh"
#include "survey.cuh"
#include "components.cuh"
#include "classes.cuh"
#include "dense.cuh"
#include "deflation.cuh"
#include "vertex.cuh"
#include "finest.cuh"
#include "cell.cuh"
#include "cell_grids.cuh"
#include "coarsening.cuh"
#include "aggregated.cuh"

VECTOR_KERNELS(dpcg)

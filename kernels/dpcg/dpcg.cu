// The kernels of `dpcg`: one translation unit, one module.
#include "box.cuh"
#include "steps.cuh"
#include "ends.cuh"
#include "labelled.cuh"
#include "vertex.cuh"
#include "finest.cuh"
#include "cell.cuh"
#include "coarsening.cuh"

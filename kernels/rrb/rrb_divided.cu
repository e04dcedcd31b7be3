// The kernels of `rrb` for grids whose rows are divided among devices (divided.cuh): a module of its own, since asking
// for that costs those of one device 3 to 5 % of a solve (docs/development/experiments.md).
#define RRB_DIVIDED
#include "rrb.cu"

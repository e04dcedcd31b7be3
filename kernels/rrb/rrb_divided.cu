// Kernels of `rrb` for grids whose rows are distributed among devices (divided.cuh). They form a separate module: the
// test for distributed rows costs 3 to 5 % of a solve on one device (docs/development/experiments.md).
#define RRB_DIVIDED
#include "rrb.cu"

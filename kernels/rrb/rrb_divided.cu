// Kernels of `rrb` for grids whose rows are distributed among devices (divided.cuh). They form a separate module,
// because the test for distributed rows takes 3 to 5 % of the time of a solve on one device
// (docs/development/experiments.md).
#define RRB_DIVIDED
#include "rrb.cu"

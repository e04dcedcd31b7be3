// The residual of a row.
#pragma once
#include "device.cuh"

// b - (center v_0 + sum of a_j v_j), from differences (sums, for positive couplings), as src/backend/residual.rs has
// it.
template <int N> __device__ inline double residual_of_row(
    double b, double center, double v_0, const double (&a)[N], const double (&v)[N]) {
    double excess = center, lost = 0.0, flow = 0.0;
    for (int j = 0; j < N; ++j) {
        const double to = -fabs(a[j]), sum = excess + to, added = sum - excess;
        lost += (excess - (sum - added)) + (to - added);
        excess = sum;
        flow += a[j] * (v[j] + copysign(1.0, a[j]) * v_0);
    }
    return b - (excess * v_0 + (lost * v_0 + flow));
}

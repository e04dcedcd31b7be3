// Residual of a row of A in double precision.
#pragma once
#include "device.cuh"

// Returns b - (center v_0 + sum_j a_j v_j), computed as b - (s v_0 + sum_j a_j (v_j - v_0)) with s = center - sum_j
// |a_j|. For positive a_j, v_j + v_0 replaces v_j - v_0. s is computed with compensated summation: `lost` contains the
// rounding errors of the additions.
// src/stencil/residual.rs states the reasons.
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

// Residual of a row of A in double precision.
#pragma once
#include "device.cuh"

// Returns b - (center v_0 + sum_j a_j v_j), computed as b - (s v_0 + sum_j a_j (v_j - v_0)) with
// s = center - sum_j |a_j|. For positive a_j, v_j + v_0 replaces v_j - v_0. s is computed with compensated summation:
// `rounding` contains the rounding errors of the additions. src/stencil/residual.rs states the reasons.
template <int N> __device__ inline double residual_of_row(
    double b, double center, double v_0, const double (&a)[N], const double (&v)[N]) {
    double row_sum = center, rounding = 0.0, differences = 0.0;
    for (int j = 0; j < N; ++j) {
        const double minus_magnitude = -fabs(a[j]), sum = row_sum + minus_magnitude, added = sum - row_sum;
        rounding += (row_sum - (sum - added)) + (minus_magnitude - added);
        row_sum = sum;
        differences += a[j] * (v[j] + copysign(1.0, a[j]) * v_0);
    }
    return b - (row_sum * v_0 + (rounding * v_0 + differences));
}

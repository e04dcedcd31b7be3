// Sums over the nodes of singular components (docs/theory/rrb.md, singular systems; kernels/common/labelled.cuh). A
// slot is a set of nodes with one partial sum. In `rrb`, each slot is a run: at most 512 consecutive nodes of one row,
// one colour and one component (src/rrb/cuda/projection.rs). The sums of components therefore do not depend on the
// distances between rows and between planes in memory. A warp processes a run.
#include "../common/labelled.cuh"
#include "storage.cuh"

namespace labelled {

// Calls f(k, run, lane) for each run k of this warp.
template <class F> __device__ inline void for_each_run(const LabelledArgs &a, F f) {
    for (int64_t k = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32; k < a.count; k += int64_t(gridDim.x) * WARPS)
        f(k, a.runs[k], int(threadIdx.x % 32));
}

// Calls f(value, index) for each value of a run that this lane processes. `v` points to the first value of the run,
// which has index 0. `len` is the number of values of the run.
template <class Real, class F> __device__ inline void for_each_value(const Real *v, uint32_t len, int lane, F f) {
    // Number of values whose loads are issued together.
    constexpr int LOADS = 8;
    for (uint32_t first = lane; first < len; first += 32 * LOADS) {
        Real value[LOADS];
#pragma unroll
        for (uint32_t u = 0; u < LOADS; ++u) value[u] = first + 32 * u < len ? v[first + 32 * u] : Real(0);
#pragma unroll
        for (uint32_t u = 0; u < LOADS; ++u) {
            if (first + 32 * u < len) f(value[u], first + 32 * u);
        }
    }
}

// Computes the sum over each run.
template <class Real> __device__ inline void run_sums(const LabelledArgs &a) {
    for_each_run(a, [&](int64_t k, const Run &run, int lane) {
        double sum = 0.0;
        for_each_value(static_cast<const Real *>(a.v) + run.first, run.len, lane,
            [&](Real v, uint32_t) { sum += summand(a, double(v)); });
        sum = warp_sum(sum);
        if (lane == 0) a.sums[k] = sum;
    });
}

// Subtracts from each node of v the mean of its component. With `restores_mean`, also adds the stored mean.
template <class Real> __device__ inline void shift_runs(const LabelledArgs &a) {
    for_each_run(a, [&](int64_t, const Run &run, int lane) {
        const double shift = shift_of(a, run.label);
        Real *values = static_cast<Real *>(a.v) + run.first;
        for_each_value(values, run.len, lane, [&](Real v, uint32_t i) { values[i] = Real(v + shift); });
    });
}

} // namespace labelled

LABELLED_KERNELS(rrb, run_sums, shift_runs, 4)

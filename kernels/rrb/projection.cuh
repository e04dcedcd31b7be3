// Means over singular components (docs/theory/rrb.md, singular systems). A run consists of consecutive nodes of one
// component and one colour. One warp computes the sum over a run. One thread block per component then adds the sums of
// its runs in a fixed order.
#include "storage.cuh"

struct Run {
    int32_t colour, row, start, len, component;
};

struct ProjectionArgs {
    Geometry g;
    const Run *runs;
    int count;
    const uint32_t *by_component;    // run indices, sorted by component
    const uint32_t *component_start; // first entry of each component in `by_component`
    const double *nodes;             // number of nodes of each component
    double *sums;                    // for each run: sum, and sum of magnitudes
    double *means;                   // for each component: sum, sum of magnitudes, mean, stored mean
    double *v;                       // 4 planes, in double precision or in the precision of sweeps
    int restore;                     // 1: adds the stored means after the subtraction
    const double *center;            // centers of A, 4 planes
};

// Calls f(k, run, index of the first node of the run, lane) for each run k, with one warp per run.
template <class F> __device__ inline void over_runs(const ProjectionArgs &a, F f) {
    const int warps = THREADS / 32, lane = thread_of_block() % 32;
    for (int k = blockIdx.x * warps + thread_of_block() / 32; k < a.count; k += gridDim.x * warps) {
        const Run run = a.runs[k];
        f(int64_t(k), run, run.colour * a.g.plane + a.g.at(run.start, run.row), lane);
    }
}

template <class Real> __device__ inline void run_sums(const ProjectionArgs &a) {
    over_runs(a, [&](int64_t k, const Run &run, int64_t first, int lane) {
        const Real *v = reinterpret_cast<const Real *>(a.v) + first;
        double sum = 0.0, magnitudes = 0.0;
        for (int i = lane; i < run.len; i += 32) {
            sum += v[i];
            magnitudes += fabs(double(v[i]));
        }
        sum = warp_sum(sum);
        magnitudes = warp_sum(magnitudes);
        if (lane == 0) {
            a.sums[2 * k] = sum;
            a.sums[2 * k + 1] = magnitudes;
        }
    });
}

extern "C" __global__ void __launch_bounds__(THREADS) rrb_run_sums_f64(ProjectionArgs a) { run_sums<double>(a); }
extern "C" __global__ void __launch_bounds__(THREADS) rrb_run_sums_f32(ProjectionArgs a) { run_sums<float>(a); }

extern "C" __global__ void __launch_bounds__(THREADS) rrb_component_means_f64(ProjectionArgs a) {
    const int component = blockIdx.x;
    double sum = 0.0, magnitudes = 0.0;
    for (uint32_t k = a.component_start[component] + thread_of_block(); k < a.component_start[component + 1];
        k += THREADS) {
        sum += a.sums[2 * int64_t(a.by_component[k])];
        magnitudes += a.sums[2 * int64_t(a.by_component[k]) + 1];
    }
    sum = block_sum(sum);
    magnitudes = block_sum(magnitudes);
    if (thread_of_block() == 0) {
        double *means = a.means + 4 * int64_t(component);
        means[0] = sum;
        means[1] = magnitudes;
        means[2] = sum / a.nodes[component];
    }
}

// Replaces the sum of each run by mean^2 sum_i 1 / center_i over the run. `rrb_component_means` then adds these values.
extern "C" __global__ void __launch_bounds__(THREADS) rrb_constant_squares_f64(ProjectionArgs a) {
    over_runs(a, [&](int64_t k, const Run &run, int64_t first, int lane) {
        const double *center = a.center + first;
        const double mean = a.means[4 * int64_t(run.component) + 2];
        double sum = 0.0;
        for (int i = lane; i < run.len; i += 32) sum += mean * mean / center[i];
        sum = warp_sum(sum);
        if (lane == 0) a.sums[2 * k] = sum;
    });
}

// Subtracts from v the mean of its component. With `restore`, also adds the stored mean.
template <class Real> __device__ inline void shift_runs(const ProjectionArgs &a) {
    over_runs(a, [&](int64_t, const Run &run, int64_t first, int lane) {
        const double *means = a.means + 4 * int64_t(run.component);
        const double shift = (a.restore ? means[3] : 0.0) - means[2];
        Real *v = reinterpret_cast<Real *>(a.v) + first;
        for (int i = lane; i < run.len; i += 32) v[i] = Real(v[i] + shift);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS) rrb_shift_runs_f64(ProjectionArgs a) { shift_runs<double>(a); }
extern "C" __global__ void __launch_bounds__(THREADS) rrb_shift_runs_f32(ProjectionArgs a) { shift_runs<float>(a); }

// Stores the mean of each component, for `shift_runs`.
extern "C" __global__ void __launch_bounds__(THREADS) rrb_keep_means_f64(ProjectionArgs a) {
    for (int k = blockIdx.x * THREADS + thread_of_block(); k < a.count; k += gridDim.x * THREADS)
        a.means[4 * int64_t(k) + 3] = a.means[4 * int64_t(k) + 2];
}

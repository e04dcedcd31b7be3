// Labels of the nodes of singular components, for the means over these (docs/theory/rrb.md, singular systems;
// kernels/common/labelled.cuh). A run is a sequence of consecutive nodes of one component and one colour.
#include "../common/labelled.cuh"
#include "storage.cuh"

struct Run {
    int32_t colour, row, start, len, component;
};

struct RunArgs {
    Geometry g;
    const Run *runs;
    int count;
    int wide;     // 1: labels have 32 bits; 0: 16 bits
    void *labels; // 4 planes; initially all bits are 1, which means no label
};

// Stores, as the label of each node, the number of its component. There is one warp per run.
__device__ inline void label_runs(const RunArgs &a) {
    const int warps = THREADS / 32, lane = thread_of_block() % 32;
    for (int k = blockIdx.x * warps + thread_of_block() / 32; k < a.count; k += gridDim.x * warps) {
        const Run run = a.runs[k];
        const int64_t first = run.colour * a.g.plane + a.g.at(run.start, run.row);
        for (int64_t node = first + lane; node < first + run.len; node += 32) {
            if (a.wide) static_cast<uint32_t *>(a.labels)[node] = uint32_t(run.component);
            else static_cast<uint16_t *>(a.labels)[node] = uint16_t(run.component);
        }
    }
}

RRB_KERNEL(rrb_label_runs_f64, RunArgs, THREADS, 1, label_runs)
LABELLED_KERNELS(rrb)

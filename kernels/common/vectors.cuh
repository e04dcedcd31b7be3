// Vectors of a solve, for the families whose vectors are arrays of cells: loops over cells, sums over all cells, vector
// operations of PCG, and copies between the caller's arrays and vectors. For a general matrix, the box of cells
// (`CellBox`) is a single row, with one cell per unknown.
//
// Unless stated otherwise, kernels over cells have at most MAX_BLOCKS thread blocks of THREADS threads, and a
// grid-stride loop. A kernel moves 8 bytes per cell for each array in its description.
//
// There are no races, because each value is written only by the thread of its cell. Unless stated otherwise, a kernel
// that reads values at neighbours does not write the array that it reads.
#pragma once
#include "scalars.cuh"

namespace vectors {

constexpr int THREADS = 256;
// Maximum number of thread blocks. It does not depend on the device, so that sums have the same order on every device.
// The number is four blocks per multiprocessor on a device with 132 multiprocessors.
constexpr int MAX_BLOCKS = 528;
// Number of thread blocks per multiprocessor that CELL_KERNEL guarantees.
constexpr int RESIDENT_BLOCKS = 4;
constexpr int WARPS = THREADS / 32;

struct CellBox {
    int nx, ny, nz, unused;
    __device__ int64_t count() const { return int64_t(nx) * ny * nz; }
    __device__ int64_t north() const { return nx; }
    __device__ int64_t top() const { return int64_t(nx) * ny; }
};

// Calls f(c, i, j, k) for the cells of this thread.
template <class F> __device__ inline void for_each_cell_index(const CellBox &box, F f) {
    for_each_cell(box.count(), [&](int64_t c) {
        const unsigned row = unsigned(c) / unsigned(box.nx);
        f(c, int(unsigned(c) - row * unsigned(box.nx)), int(row % unsigned(box.ny)), int(row / unsigned(box.ny)));
    });
}

// An array of the caller: the value of cell (i, j, k) is values[k * plane + j * ld + i].
struct CellArray {
    double *values;
    int64_t ld, plane;
    __device__ double *at(int i, int j, int k) const { return values + k * plane + j * ld + i; }
};

// How a sum over all cells is used by the thread block that finishes last.
enum SumUse {
    STORED,     // the block stores the sum in `result`
    RHO,        // the sum is <r, M^-1 r> of an iteration; the block updates the scalars
    LAST_SIGMA, // the sum is <p, P A p>; the block ends the iteration
    LAST_PART   // the sum is <Z^T q, t> = <p, q> - <p, P A p>; the block ends the iteration
};

// Arguments of a reduction in a kernel.
struct Sum {
    double *partial; // one partial sum per thread block; null: the kernel computes no sum
    Scalars *scalars;
    double *result;       // STORED: address at which the sum is stored
    int sum_use, in_loop; // sum_use: a value of SumUse; in_loop: 1 in the loop of a recorded graph, 0 otherwise
    uint64_t conditional; // condition handle of the WHILE node of the graph; 0: none
};

// Returns whether the loop of a recorded graph has ended. If the loop has ended, the kernel that computes the last sum
// of the iteration also sets `loop_ended` and ends the WHILE node.
__device__ inline bool is_over(const Sum &s) {
    if (!s.in_loop || s.scalars->code == RUNNING) return false;
    if (s.sum_use >= LAST_SIGMA && blockIdx.x == 0 && threadIdx.x == 0) {
        s.scalars->loop_ended = 1;
        if (s.conditional) set_loop_condition(s.conditional, *s.scalars);
    }
    return true;
}

// Adds the values `sum` of all threads of the launch, and uses the total as `s.sum_use` states.
__device__ inline void finish_sum(const Sum &s, double sum) {
    if (!s.partial) return;
    sum_blocks(sum, s.partial, &s.scalars->ticket, [&](double total) {
        Scalars &scalars = *s.scalars;
        if (s.sum_use == RHO) {
            update_with_sums(scalars, scalars.ring, total, scalars.norm2, LOOP);
        } else if (s.sum_use >= LAST_SIGMA) {
            end_iteration(scalars, s.sum_use == LAST_PART ? scalars.sigma - total : total, LOOP);
            if (s.conditional) set_loop_condition(s.conditional, scalars);
        } else {
            *s.result = total;
        }
    });
}

// Adds N sums over all thread blocks. The last thread block stores the results in `results`. `partial` contains one
// value per block for the first sum, then for the second sum, and so on.
template <int N>
__device__ inline void sums_of_blocks(const double (&sums)[N], double *partial, unsigned *ticket, double *results) {
    for (int k = 0; k < N; ++k) {
        const double sum = block_sum(sums[k]);
        if (threadIdx.x == 0) partial[k * gridDim.x + blockIdx.x] = sum;
    }
    if (!is_last_block(ticket)) return;
    for (int k = 0; k < N; ++k) {
        const double sum = sum_of(partial + k * gridDim.x, gridDim.x);
        if (threadIdx.x == 0) results[k] = sum;
    }
}

// V is the type of the vectors except x, which is in double.
template <class V> struct VectorArgs {
    int64_t count;
    const V *a, *b;
    V *out;
    double *x;
    double factor;
    Sum sum;
};

// Computes the sum <f a, f b> with f = `factor`.
template <class V> __device__ inline void dot(const VectorArgs<V> &a) {
    if (is_over(a.sum)) return;
    double sum = 0.0;
    for_each_cell(a.count, [&](int64_t c) { sum += (a.factor * a.a[c]) * (a.factor * a.b[c]); });
    finish_sum(a.sum, sum);
}

// Computes out = out + f a, and the sum <out, out>. f is `factor`, or -alpha in a loop.
template <class V> __device__ inline void add_scaled(const VectorArgs<V> &a) {
    if (is_over(a.sum)) return;
    const double factor = a.sum.in_loop ? -a.sum.scalars->alpha : a.factor;
    double sum = 0.0;
    for_each_cell(a.count, [&](int64_t c) {
        const V v = V(a.out[c] + factor * a.a[c]);
        a.out[c] = v;
        sum += double(v) * v;
    });
    finish_sum(a.sum, sum);
}

// Computes out = a + f out with f = `factor`. With f = 0, copies a.
__device__ inline void update_direction(const VectorArgs<double> &a) {
    for_each_cell(a.count, [&](int64_t c) { a.out[c] = a.factor == 0.0 ? a.a[c] : a.a[c] + a.factor * a.out[c]; });
}

// Computes x = x + alpha p and p = z + beta p in a loop, where out = p and a = z. If the loop has ended,
// only updates x.
template <class V> __device__ inline void advance(const VectorArgs<V> &a) {
    const double alpha = a.sum.scalars->alpha, beta = a.sum.scalars->beta;
    const bool loop_has_ended = a.sum.scalars->code != RUNNING;
    for_each_cell(a.count, [&](int64_t c) {
        const V p = a.out[c];
        a.x[c] += alpha * p;
        if (!loop_has_ended) a.out[c] = V(a.a[c] + beta * p);
    });
}

struct CellInspectArgs {
    CellBox cells;
    CellArray input, output; // output.values may be null
    Scalars *scalars;
};

// Computes max |input|, max |output|, and the first entry that is not finite. The entries are ordered by row, and
// within a row, the input precedes the output.
__device__ inline void inspect(const CellInspectArgs &a) {
    uint64_t largest[2] = {0, 0};
    for_each_cell_index(a.cells, [&](int64_t, int i, int j, int k) {
        for (int array_index = 0; array_index < 2; ++array_index) {
            const CellArray &array = array_index == 0 ? a.input : a.output;
            if (!array.values) continue;
            const uint64_t m = magnitude(*array.at(i, j, k));
            largest[array_index] = max(largest[array_index], m);
            if (m >= 0x7ff0000000000000ull) {
                const uint64_t row = uint64_t(k) * a.cells.ny + j;
                atomic_max(&a.scalars->not_finite, ~((row * 2 + array_index) * a.cells.nx + i));
            }
        }
    });
    update_largest(&a.scalars->largest, largest[0]);
    update_largest(&a.scalars->largest_guess, largest[1]);
}

struct CellTransferArgs {
    CellBox cells;
    CellArray array;
    double *vector; // null: `store_array` writes zeros
    double factor;
    Sum sum;
};

// Computes vector = factor * array, and the sum <vector, vector>.
__device__ inline void load_array(const CellTransferArgs &a) {
    double sum = 0.0;
    for_each_cell_index(a.cells, [&](int64_t c, int i, int j, int k) {
        const double v = a.factor * *a.array.at(i, j, k);
        a.vector[c] = v;
        sum += v * v;
    });
    finish_sum(a.sum, sum);
}

// Computes array = factor * vector, or array = 0 if `vector` is null.
__device__ inline void store_array(const CellTransferArgs &a) {
    for_each_cell_index(a.cells,
        [&](int64_t c, int i, int j, int k) { *a.array.at(i, j, k) = a.vector ? a.factor * a.vector[c] : 0.0; });
}

struct CellLargestArgs {
    int64_t count;
    const double *v;
    Scalars *scalars;
};

// Computes max |v_i|, and stores it in the scalars, which must contain zero on entry.
__device__ inline void find_largest(const CellLargestArgs &a) {
    uint64_t largest = 0;
    for_each_cell(a.count, [&](int64_t c) { largest = max(largest, magnitude(a.v[c])); });
    update_largest(&a.scalars->largest, largest);
}

struct ScaleArgs {
    int64_t count;
    const double *v;
    uint64_t *partial; // one value per thread block
    double *scales;    // 1 / s and s
    Scalars *scalars;
};

// Returns the maximum over the threads of a block.
__device__ inline uint64_t block_largest(uint64_t value) {
    __shared__ unsigned long long largest;
    __syncthreads();
    if (threadIdx.x == 0) largest = 0;
    __syncthreads();
    if (value) atomicMax(&largest, (unsigned long long)value);
    __syncthreads();
    return largest;
}

// Computes s, the largest power of two not above max |v_i|, limited such that s and 1 / s are normal numbers.
__device__ inline void find_scale(const ScaleArgs &a) {
    uint64_t largest = 0;
    for_each_cell(a.count, [&](int64_t c) { largest = max(largest, magnitude(a.v[c])); });
    largest = block_largest(largest);
    if (threadIdx.x == 0) a.partial[blockIdx.x] = largest;
    if (!is_last_block(&a.scalars->ticket)) return;
    largest = 0;
    for (unsigned k = threadIdx.x; k < gridDim.x; k += THREADS)
        largest = max(largest, uint64_t(__ldcg(reinterpret_cast<const unsigned long long *>(a.partial) + k)));
    largest = block_largest(largest);
    if (threadIdx.x != 0) return;
    const int64_t exponent = max(int64_t(2), min(int64_t(2045), int64_t(largest >> 52)));
    a.scales[0] = __longlong_as_double((2046 - exponent) << 52);
    a.scales[1] = __longlong_as_double(exponent << 52);
}

// Arguments of load_cycle_input and store_cycle_output. load_cycle_input divides r by the scale s and computes the
// first smoothing step. store_cycle_output computes z = factor * s * cycle_z and <r, z>.
template <class V> struct CycleTransferArgs {
    int64_t count;
    const double *r;
    double *z;
    const double *scales;   // 1 / s and s, where s is a power of two near max |r_i|
    const V *jacobi_factor; // factors of the first smoothing step
    V *cycle_r, *first_iterate;
    const V *cycle_z;
    double factor; // power of two by which the matrix of the cycle is multiplied
    Sum sum;       // <r, z>
};

// Computes cycle_r = r / s and first_iterate = jacobi_factor * cycle_r.
template <class V> __device__ inline void load_cycle_input(const CycleTransferArgs<V> &a) {
    const double per_scale = a.scales[0];
    for_each_cell(a.count, [&](int64_t c) {
        const V r = V(a.r[c] * per_scale);
        a.cycle_r[c] = r;
        a.first_iterate[c] = a.jacobi_factor[c] * r;
    });
}

// Computes z = factor * s * cycle_z, and the sum <r, z>.
template <class V> __device__ inline void store_cycle_output(const CycleTransferArgs<V> &a) {
    if (is_over(a.sum)) return;
    const double factor = a.factor * a.scales[1];
    double sum = 0.0;
    for_each_cell(a.count, [&](int64_t c) {
        const double z = factor * double(a.cycle_z[c]);
        a.z[c] = z;
        sum += a.r[c] * z;
    });
    finish_sum(a.sum, sum);
}

} // namespace vectors

// Defines the kernel NAME, whose only argument is a struct ARGS of the namespace SPACE. The kernel passes this
// structure to the function that the remaining macro arguments name. There may be several remaining arguments, because
// the name of the function may contain commas.
#define CELL_KERNEL(SPACE, NAME, ARGS, ...)                                                                            \
    extern "C" __global__ void __launch_bounds__(vectors::THREADS, vectors::RESIDENT_BLOCKS)                           \
        NAME(const __grid_constant__ SPACE::ARGS a) {                                                                  \
        SPACE::__VA_ARGS__(a);                                                                                         \
    }

// Defines the kernels of this file for the module of a family.
#define VECTOR_KERNELS(FAMILY)                                                                                         \
    CELL_KERNEL(vectors, FAMILY##_dot_f64, VectorArgs<double>, dot)                                                    \
    CELL_KERNEL(vectors, FAMILY##_add_scaled_f64, VectorArgs<double>, add_scaled)                                      \
    CELL_KERNEL(vectors, FAMILY##_update_direction_f64, VectorArgs<double>, update_direction)                          \
    CELL_KERNEL(vectors, FAMILY##_advance_f64, VectorArgs<double>, advance)                                            \
    CELL_KERNEL(vectors, FAMILY##_inspect_f64, CellInspectArgs, inspect)                                               \
    CELL_KERNEL(vectors, FAMILY##_load_f64, CellTransferArgs, load_array)                                              \
    CELL_KERNEL(vectors, FAMILY##_store_f64, CellTransferArgs, store_array)                                            \
    CELL_KERNEL(vectors, FAMILY##_largest_f64, CellLargestArgs, find_largest)                                          \
    CELL_KERNEL(vectors, FAMILY##_find_scale_f64, ScaleArgs, find_scale)                                               \
    CELL_KERNEL(vectors, FAMILY##_agg_load_cycle_input_f64, CycleTransferArgs<double>, load_cycle_input)               \
    CELL_KERNEL(vectors, FAMILY##_agg_load_cycle_input_f32, CycleTransferArgs<float>, load_cycle_input)                \
    CELL_KERNEL(vectors, FAMILY##_agg_store_cycle_output_f64, CycleTransferArgs<double>, store_cycle_output)           \
    CELL_KERNEL(vectors, FAMILY##_agg_store_cycle_output_f32, CycleTransferArgs<float>, store_cycle_output)

// Dense inverses of blocks of 8^3 cells: the product of a 512 x 512 and a 512 x COLUMNS matrix on the tensor cores.
// Persistent thread blocks process groups of COLUMNS blocks one after the other, one group per round.
//
// Roles of the warps: eight warps multiply, two per quarter of a multiprocessor. Each of them has 64 rows of the result
// in registers. Four helper warps compute right-hand sides, load the inverse, and write results. One step processes
// eight columns of the inverse (32 KB), and the right-hand sides of one row of eight cells in each of COLUMNS blocks.
// Shared memory has room for the data of BUFFER_COUNT steps. In this file, the memory of one step is called a buffer.
//
// The inverse is loaded by bulk copies. Each of the two thread blocks of a cluster loads one half for both. The inverse
// is therefore read from L2 once per 64 columns, which is 16 flops per byte. The helpers load the operands of
// right-hand sides several steps ahead, because some of the loads have a long latency.
//
// Of the 64 results of a multiplying thread, DELAYED_RESULTS are stored in shared memory, and are written to u while
// the next group is computed. The others are written to u immediately. There is no barrier of the whole thread block.
// Instead, barriers in shared memory signal which data are available and which have been read.
//
// The result is the new u itself, so that u need not be read when the result is written. The right-hand side contains
// (1 - omega) A_b u_b instead of -omega A_b u_b:
//     u_b + omega A_b^-1 (f - A u)_b = A_b^-1 (omega (f_b - contribution from outside b) + (1 - omega) A_b u_b).
// With omega = 1 and 7 points (UNIT_OMEGA), only f and the faces around a block are read.
//
// `packed` contains the inverse in the order in which the lanes of a warp read it, 16 bytes per lane l: the element in
// row 16 m + l/4 + 8 e and column 8 q + 2 (l%4) + h is at index (((q*32 + m)*2 + h)*32 + l)*2 + e. A step has eight
// right-hand-side values per column.
//
// `relax_any`, which reads the inverse once per block, is used if the device has less than DENSE_BYTES
// (src/cuda/launch/smoother.rs) of shared memory. It is also used if the code was compiled for an architecture before
// 9.0.
namespace blocks {

constexpr int COLUMNS = 32, MULTIPLYING_WARPS = 8, HELPER_WARPS = 4, WARP_ROW_TILES = 32 / MULTIPLYING_WARPS,
              DENSE_THREADS = (MULTIPLYING_WARPS + HELPER_WARPS) * 32;
constexpr int INVERSE_STEP_VALUES = 8 * TILE_CELLS, RHS_STEP_VALUES = 8 * COLUMNS, STEP_COUNT = TILE_CELLS / 8,
              BUFFER_COUNT = HELPER_WARPS, DELAYED_RESULTS = 40, CLUSTER_BLOCKS = 2;
// Sizes in shared memory, in values. BUFFER_VALUES: all buffers. RESULT_VALUES: the results that are written during the
// next group.
constexpr int BUFFER_VALUES = BUFFER_COUNT * (INVERSE_STEP_VALUES + RHS_STEP_VALUES),
              RESULT_VALUES = DELAYED_RESULTS * MULTIPLYING_WARPS * 32;
// A helper warp prepares every HELPER_WARPS-th step. Its work for one such step is called a turn. RESULTS_PER_TURN:
// number of results per turn that a thread of a helper warp writes for each of two multiplying threads. PAUSE_TURNS:
// number of turns of the next group before a helper writes the first results. During these turns, the multiplying warps
// still store their results.
constexpr int RESULTS_PER_TURN = 4, PAUSE_TURNS = 2;

#if defined(RRB_EMULATED) || __CUDA_ARCH__ >= 900
// Computes c += a b in a warp, for matrices a (16 x 8), b (8 x 8) and c (16 x 8). Lane l has these matrix elements:
//     a[e]: row l/4 + 8 (e%2), column l%4 + 4 (e/2)
//     b[e]: row l%4 + 4 e, column l/4
//     c[e]: row l/4 + 8 (e/2), column 2 (l%4) + e%2
__device__ __forceinline__ void multiply_add(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#ifdef RRB_EMULATED
    static double warps_a[MULTIPLYING_WARPS][32][4], warps_b[MULTIPLYING_WARPS][32][2];
    double (&all_a)[32][4] = warps_a[threadIdx.x / 32];
    double (&all_b)[32][2] = warps_b[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    for (int e = 0; e < 4; ++e) all_a[lane][e] = a[e];
    for (int e = 0; e < 2; ++e) all_b[lane][e] = b[e];
    __syncwarp();
    for (int e = 0; e < 4; ++e) {
        for (int k = 0; k < 8; ++k)
            c[e] +=
                all_a[lane / 4 * 4 + k % 4][e / 2 + 2 * (k / 4)] * all_b[(2 * (lane % 4) + e % 2) * 4 + k % 4][k / 4];
    }
    __syncwarp();
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#endif
}

// Barriers. BUFFER_FULL and BUFFER_EMPTY: one barrier per buffer. BUFFER_FULL: the inverse and the right-hand sides of
// the buffer are available. BUFFER_EMPTY: the multiplying warps of both thread blocks have read the buffer.
// RESULTS_STORED: the DELAYED_RESULTS results of each thread are in shared memory. RESULTS_READ: the helpers have read
// these results from shared memory.
constexpr int BUFFER_FULL = 0, BUFFER_EMPTY = BUFFER_COUNT, RESULTS_STORED = 2 * BUFFER_COUNT,
              RESULTS_READ = RESULTS_STORED + 1;
constexpr int BARRIER_COUNT = RESULTS_READ + 1;

#ifdef RRB_EMULATED
#define RRB_CLUSTER
struct Pipeline {
    double *memory;
    const double *packed;
    static inline unsigned long long arrival_counts[BARRIER_COUNT];

    Pipeline(double *values, unsigned long long *, const double *packed) : memory(values), packed(packed) {
        if (threadIdx.x < BARRIER_COUNT) arrival_counts[threadIdx.x] = 0;
        __syncthreads();
    }
    static void sync_cluster() {}
    // Waits until use number `use_number` of a barrier is complete. The lanes of a warp continue together.
    void wait_for(int barrier, unsigned use_number) const {
        const unsigned count = barrier < BUFFER_EMPTY ? 1 : barrier == RESULTS_READ ? HELPER_WARPS : MULTIPLYING_WARPS;
        while (!__shfl_sync(0xffffffffu, arrival_counts[barrier] >= count * (use_number + 1ull), 0)) {}
    }
    void arrive(int barrier) const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) ++arrival_counts[barrier];
        __syncwarp();
    }
    void release_buffer(int buffer, unsigned) const { arrive(BUFFER_EMPTY + buffer); }
    void fetch_inverse(unsigned, int) const {}
    void store_rhs(int buffer, int index, double r) const {
        memory[buffer * (INVERSE_STEP_VALUES + RHS_STEP_VALUES) + INVERSE_STEP_VALUES + index] = r;
    }
    void load_pair(unsigned q, int buffer, int index, double &first, double &second) const {
        const double *source = index < INVERSE_STEP_VALUES ? packed + q % STEP_COUNT * INVERSE_STEP_VALUES + index
                                              : memory + buffer * (INVERSE_STEP_VALUES + RHS_STEP_VALUES) + index;
        first = source[0];
        second = source[1];
    }
};
#else
#define RRB_CLUSTER __cluster_dims__(blocks::CLUSTER_BLOCKS, 1, 1)
struct Pipeline {
    unsigned memory, barriers, rank; // two addresses in shared memory; rank of the thread block in the cluster
    const double *packed;
    static constexpr unsigned BUFFER_BYTES = 8 * (INVERSE_STEP_VALUES + RHS_STEP_VALUES);

    __device__ __forceinline__ Pipeline(double *values, unsigned long long *barrier_memory, const double *packed)
        : memory(__cvta_generic_to_shared(values)), barriers(__cvta_generic_to_shared(barrier_memory)), packed(packed) {
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        if (threadIdx.x == 0) {
            auto init_barrier = [&](int barrier, unsigned count) {
                asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barriers + 8 * barrier), "r"(count)
                    : "memory");
            };
            for (int buffer = 0; buffer < BUFFER_COUNT; ++buffer) {
                init_barrier(BUFFER_FULL + buffer, 2);
                init_barrier(BUFFER_EMPTY + buffer, CLUSTER_BLOCKS * MULTIPLYING_WARPS);
            }
            init_barrier(RESULTS_STORED, MULTIPLYING_WARPS);
            init_barrier(RESULTS_READ, HELPER_WARPS);
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        sync_cluster();
    }

    static __device__ __forceinline__ void sync_cluster() {
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    }

    // Waits until use number `use_number` of a barrier is complete.
    __device__ __forceinline__ void wait_for(int barrier, unsigned use_number) const {
        asm volatile("{\n.reg .pred done;\n"
                     "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                     "@done bra over;\nbra again;\nover:\n}" ::"r"(barriers + 8 * barrier),
            "r"(use_number & 1)
            : "memory");
    }

    // Arrives at a barrier, once per warp.
    __device__ __forceinline__ void arrive(int barrier) const {
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barriers + 8 * barrier) : "memory");
    }

    // Signals to both thread blocks of the cluster, which write to each other's buffers, that this warp has read a
    // buffer. `zero` is computed from the last values read. Without this dependence, the compiler moves the signal
    // before the reads.
    __device__ __forceinline__ void release_buffer(int buffer, unsigned zero) const {
        __syncwarp();
        const int lane = threadIdx.x & 31;
        if (lane < CLUSTER_BLOCKS) {
            asm volatile(
                "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(
                    barriers + 8 * (BUFFER_EMPTY + buffer) + zero),
                "r"(lane)
                : "memory");
        }
    }

    // Called by one thread: loads this thread block's half of the inverse's columns of step q into the buffers of both
    // thread blocks.
    __device__ __forceinline__ void fetch_inverse(unsigned q, int buffer) const {
        constexpr unsigned HALF_BYTES = 8 * INVERSE_STEP_VALUES / CLUSTER_BLOCKS;
        const unsigned full_barrier = barriers + 8 * (BUFFER_FULL + buffer);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full_barrier),
            "n"(8 * INVERSE_STEP_VALUES)
            : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1], %2, [%3], %4;" ::"r"(memory + buffer * BUFFER_BYTES + rank * HALF_BYTES),
            "l"(packed + q % STEP_COUNT * INVERSE_STEP_VALUES + rank * (INVERSE_STEP_VALUES / CLUSTER_BLOCKS)),
            "n"(HALF_BYTES), "r"(full_barrier), "h"(static_cast<uint16_t>((1 << CLUSTER_BLOCKS) - 1))
            : "memory");
    }

    __device__ __forceinline__ void store_rhs(int buffer, int index, double r) const {
        const unsigned address = memory + buffer * BUFFER_BYTES + 8 * (INVERSE_STEP_VALUES + index);
        asm volatile("st.shared.f64 [%0], %1;" ::"r"(address), "d"(r)
            : "memory");
    }

    // Reads two adjacent values of a step. The values of the inverse are stored before the right-hand sides.
    __device__ __forceinline__ void load_pair(unsigned, int buffer, int index, double &first, double &second) const {
        asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];"
            : "=d"(first), "=d"(second)
            : "r"(memory + buffer * BUFFER_BYTES + 8 * index));
    }
};
#endif

// Addresses and strides of one block, which is a column of the product.
struct Column {
    const double *u, *f;
    double *out;
    int64_t row, plane, f_row, f_plane;
};

// The right-hand side of a cell: omega f plus weighted values of u. Each stencil entry has two weights: (1 - omega)
// times the entry if the neighbour is in the block, and -omega times the entry otherwise.
template <int POINTS, bool UNIT_OMEGA> struct RightHandSide {
    // f at the cell, and u at the stencil's points. With UNIT_OMEGA and 7 points: f, and for each of x, y and z the
    // value of u at the neighbour outside the block, or 0 if both neighbours are in the block.
    static constexpr int OPERANDS = POINTS == 7 ? (UNIT_OMEGA ? 4 : 8) : 28;
    double v[OPERANDS];

    static __device__ __forceinline__ bool is_in_range(int i) { return unsigned(i) < 8u; }
    static __device__ __forceinline__ bool is_in_block(int q, int i, int j, int k) {
        return is_in_range(i + q % 3 - 1) && is_in_range(j + q / 3 % 3 - 1) && is_in_range(k + q / 9 - 1);
    }

    // Starts the loads of the operands.
    __device__ __forceinline__ void start_loads(const Column &c, int i, int j, int k) {
        const double *u = c.u + k * c.plane + j * c.row + i;
        v[0] = __ldg(c.f + k * c.f_plane + j * c.f_row + i);
        if (POINTS == 7 && UNIT_OMEGA) {
            v[1] = v[2] = v[3] = 0.0;
            if (i == 0 || i == 7) v[1] = u[i == 0 ? -1 : 1];
            if (j == 0 || j == 7) v[2] = u[j == 0 ? -c.row : c.row];
            if (k == 0 || k == 7) v[3] = u[k == 0 ? -c.plane : c.plane];
        } else if (POINTS == 7) {
            v[1] = u[0], v[2] = u[-1], v[3] = u[1], v[4] = u[-c.row], v[5] = u[c.row], v[6] = u[-c.plane],
            v[7] = u[c.plane];
        } else {
#pragma unroll
            for (int q = 0; q < 27; ++q) v[q + 1] = u[(q / 9 - 1) * c.plane + (q / 3 % 3 - 1) * c.row + q % 3 - 1];
        }
    }

    __device__ __forceinline__ double value(
        const RelaxArgs &a, const volatile double (*weights)[2], int i, int j, int k) const {
        if (POINTS == 7 && UNIT_OMEGA) {
            double r = v[0] - (i == 0 ? a.entries[12] : a.entries[14]) * v[1];
            if (j == 0 || j == 7) r -= (j == 0 ? a.entries[10] : a.entries[16]) * v[2];
            if (k == 0 || k == 7) r -= (k == 0 ? a.entries[4] : a.entries[22]) * v[3];
            return r;
        }
        constexpr int ENTRY_ORDER[7] = {13, 12, 14, 10, 16, 4, 22};
        double r = a.omega * v[0];
#pragma unroll
        for (int n = 1; n < OPERANDS; ++n) {
            const int q = POINTS == 7 ? ENTRY_ORDER[(n - 1) % 7] : n - 1;
            // The weights are read again for each cell, because there are not enough registers for all of them.
            r += weights[q][is_in_block(q, i, j, k)] * v[n];
        }
        return r;
    }
};

// A line of eight results along y: results 8 n, ..., 8 n + 7 of one thread. The product has one row per cell of a
// block: row 64 w + 16 m + 8 e + g belongs to the cell x = g, y = 2 m + e, z = w. Warp w computes the rows from 64 w
// on, and g is lane / 4. `out` is the address of the first result, or NULL beyond the last block.
struct ResultLine {
    double *out;
    int64_t row, plane;
    __device__ __forceinline__ ResultLine(
        const RelaxArgs &a, const Column *columns, unsigned round, int n, int lane, int z) {
        const int column_number = n / 2 * 8 + lane % 4 * 2 + n % 2;
        const Column &c = columns[column_number];
        row = c.row;
        plane = c.plane;
        const unsigned block_number = (round * gridDim.x + blockIdx.x) * COLUMNS + column_number;
        out = block_number < a.count ? c.out + z * plane + lane / 4 : nullptr;
    }
};

// Work of a helper warp: right-hand sides, loads of the inverse, and the delayed results of the previous group.
template <int POINTS, bool UNIT_OMEGA> __device__ __forceinline__ void run_helper_warp(const RelaxArgs &a,
    const Pipeline &pipeline, const double *results, Column (*columns)[COLUMNS], double (*weights)[2],
    unsigned round_count) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32 - MULTIPLYING_WARPS, x = lane & 7;
    // All helper warps write the same values, so no synchronization is needed.
    if (lane < 27) weights[lane][0] = -a.omega * a.entries[lane], weights[lane][1] = (1.0 - a.omega) * a.entries[lane];
    __syncwarp();
    // Destinations of the results of two multiplying threads: `out`, and `out` + `plane_distance`.
    double *out = nullptr;
    int64_t row = 0, plane_distance = 0;
    auto write_results = [&](unsigned round, int first_result) {
        if (first_result % 8 == 0) {
            const ResultLine line(a, columns[round % 3], round, first_result / 8, lane, warp);
            out = line.out, row = line.row, plane_distance = HELPER_WARPS * line.plane;
        }
        if (!out) return;
        const double *source = results + first_result * MULTIPLYING_WARPS * 32 + warp * 32 + lane;
        double v[RESULTS_PER_TURN][2];
#pragma unroll
        for (int r = 0; r < RESULTS_PER_TURN; ++r)
            v[r][0] = source[r * MULTIPLYING_WARPS * 32], v[r][1] = source[(r * MULTIPLYING_WARPS + HELPER_WARPS) * 32];
#pragma unroll
        for (int r = 0; r < RESULTS_PER_TURN; ++r) {
            out[0] = v[r][0];
            out[plane_distance] = v[r][1];
            out += row;
        }
    };
#pragma unroll 1
    for (unsigned round = 0; round < round_count; ++round) {
        Column *const group_columns = columns[round % 3];
        // All helper warps compute the addresses of all columns, and write the same values to shared memory.
        {
            // For indices beyond the last block, the last block is computed again, so that the loops need no bounds
            // check.
            const BlockItem &item = a.items[min((round * gridDim.x + blockIdx.x) * COLUMNS + lane, a.count - 1)];
            const BlockPatch &patch = a.patches[item.patch];
            const int64_t stride = patch.nx + 2, plane = stride * (patch.ny + 2),
                          f_plane = int64_t(patch.nx) * patch.ny;
            const int64_t index = (item.z + 1) * plane + (item.y + 1) * stride + item.x + 1;
            group_columns[lane] = {patch.u[a.source_array] + index,
                patch.f + item.z * f_plane + int64_t(item.y) * patch.nx + item.x,
                patch.u[a.target_array] + index, stride, plane, patch.nx, f_plane};
            __syncwarp();
        }
        // A helper warp has its own buffer, and processes every fourth row of cells.
#pragma unroll 1
        for (int turn = 0; turn < STEP_COUNT / HELPER_WARPS; ++turn) {
            const int s = turn * HELPER_WARPS + warp, j = s % 8, k = s / 8;
            constexpr int SIDES_AT_ONCE = POINTS == 27 ? 2 : UNIT_OMEGA ? 8 : 4;
            double r[8];
#pragma unroll
            for (int first_column = 0; first_column < 8; first_column += SIDES_AT_ONCE) {
                RightHandSide<POINTS, UNIT_OMEGA> right_hand_sides[SIDES_AT_ONCE];
#pragma unroll
                for (int n = 0; n < SIDES_AT_ONCE; ++n)
                    right_hand_sides[n].start_loads(group_columns[(first_column + n) * 4 + lane / 8], x, j, k);
#pragma unroll
                for (int n = 0; n < SIDES_AT_ONCE; ++n)
                    r[first_column + n] = right_hand_sides[n].value(a, weights, x, j, k);
            }
            const unsigned use_number = round * (STEP_COUNT / HELPER_WARPS) + turn;
            if (use_number > 0) pipeline.wait_for(BUFFER_EMPTY + warp, use_number - 1);
            if (lane == 0) pipeline.fetch_inverse(s, warp);
#pragma unroll
            for (int n = 0; n < 8; ++n) pipeline.store_rhs(warp, n * 32 + lane, r[n]);
            pipeline.arrive(BUFFER_FULL + warp);
            const int first_result = (turn - PAUSE_TURNS) * RESULTS_PER_TURN;
            if (round > 0 && first_result >= 0 && first_result < DELAYED_RESULTS) {
                if (first_result == 0) pipeline.wait_for(RESULTS_STORED, round - 1);
                write_results(round - 1, first_result);
                if (first_result + RESULTS_PER_TURN == DELAYED_RESULTS) pipeline.arrive(RESULTS_READ);
            }
        }
    }
    pipeline.wait_for(RESULTS_STORED, round_count - 1);
#pragma unroll 1
    for (int first_result = 0; first_result < DELAYED_RESULTS; first_result += RESULTS_PER_TURN)
        write_results(round_count - 1, first_result);
}

// Work of a multiplying warp: 64 rows of z = A_b^-1 r for COLUMNS blocks, accumulated over STEP_COUNT steps.
__device__ __forceinline__ void run_multiplying_warp(
    const RelaxArgs &a, const Pipeline &pipeline, double *results, Column (*columns)[COLUMNS], unsigned round_count) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, g = lane >> 2, t = lane & 3;
    double sums[WARP_ROW_TILES][COLUMNS / 8][4], inverse_tiles[2][4], rhs_tiles[COLUMNS / 8][2];
    // `zero` is always 0, but the compiler cannot deduce this.
    const unsigned zero = round_count >> 31;
    auto load_inverse_tile = [&](int s, int m) {
#pragma unroll
        for (int h = 0; h < 2; ++h)
            pipeline.load_pair(s, s % BUFFER_COUNT, (((warp * WARP_ROW_TILES + m) * 2 + h) * 32 + lane) * 2,
                inverse_tiles[m % 2][2 * h], inverse_tiles[m % 2][2 * h + 1]);
    };
#pragma unroll 1
    for (unsigned round = 0; round < round_count; ++round) {
#pragma unroll
        for (int m = 0; m < WARP_ROW_TILES; ++m) {
#pragma unroll
            for (int c = 0; c < COLUMNS / 8; ++c) {
#pragma unroll
                for (int e = 0; e < 4; ++e) sums[m][c][e] = 0.0;
            }
        }
#pragma unroll 1
        for (int s = 0; s < STEP_COUNT; ++s) {
            const int buffer = s % BUFFER_COUNT;
            pipeline.wait_for(BUFFER_FULL + buffer, round * (STEP_COUNT / BUFFER_COUNT) + s / BUFFER_COUNT);
#pragma unroll
            for (int c = 0; c < COLUMNS / 8; ++c)
                pipeline.load_pair(
                    s, buffer, INVERSE_STEP_VALUES + (c * 8 + g) * 8 + 2 * t, rhs_tiles[c][0], rhs_tiles[c][1]);
            load_inverse_tile(s, 0);
#pragma unroll
            for (int m = 0; m < WARP_ROW_TILES; ++m) {
                if (m + 1 < WARP_ROW_TILES) load_inverse_tile(s, m + 1);
#pragma unroll
                for (int c = 0; c < COLUMNS / 8; ++c) multiply_add(sums[m][c], inverse_tiles[m % 2], rhs_tiles[c]);
            }
            const double *last_tile = inverse_tiles[(WARP_ROW_TILES - 1) % 2];
            pipeline.release_buffer(buffer, (__double2hiint(last_tile[1]) ^ __double2hiint(last_tile[3])) & zero);
        }
        if (round > 0) pipeline.wait_for(RESULTS_READ, round - 1);
#pragma unroll
        for (int n = 0; n < COLUMNS / 4; ++n) {
            auto result = [&](int j) { return sums[j / 2][n / 2][j % 2 * 2 + n % 2]; };
            if (8 * n < DELAYED_RESULTS) {
#pragma unroll
                for (int j = 0; j < 8; ++j) results[(8 * n + j) * MULTIPLYING_WARPS * 32 + threadIdx.x] = result(j);
                if (8 * n + 8 == DELAYED_RESULTS) pipeline.arrive(RESULTS_STORED);
            } else {
                const ResultLine line(a, columns[round % 3], round, n, lane, warp);
                if (line.out) {
#pragma unroll
                    for (int j = 0; j < 8; ++j) line.out[j * line.row] = result(j);
                }
            }
        }
    }
}

// Relaxes all items of a launch. The caller provides shared memory: BUFFER_VALUES + RESULT_VALUES values at `memory`,
// the columns of three groups, the weights, and the barriers.
__device__ __forceinline__ void relax_dense_cubes(const RelaxArgs &a, double *memory, Column (*columns)[COLUMNS],
    double (*weights)[2], unsigned long long *barriers) {
    const unsigned group_count = (a.count + COLUMNS - 1) / COLUMNS,
                   round_count = (group_count + gridDim.x - 1) / gridDim.x;
    const Pipeline pipeline(memory, barriers, a.tables[TILE_CELLS - 1].packed);
    double *const results = memory + BUFFER_VALUES;
    wait_for_previous_kernel();
    if (threadIdx.x < MULTIPLYING_WARPS * 32) run_multiplying_warp(a, pipeline, results, columns, round_count);
    else if (a.points == 7 && a.omega == 1.0)
        run_helper_warp<7, true>(a, pipeline, results, columns, weights, round_count);
    else if (a.points == 7) run_helper_warp<7, false>(a, pipeline, results, columns, weights, round_count);
    else run_helper_warp<27, false>(a, pipeline, results, columns, weights, round_count);
    // No thread block exits while the other thread block of the cluster may still write to its shared memory.
    // __syncwarp() is required because lanes may have diverged: lanes for indices beyond the last block write no
    // results.
    __syncwarp();
    Pipeline::sync_cluster();
}
#else
// The kernel only traps, because it is never launched on these architectures (`allow_dense`).
#define RRB_CLUSTER
#endif

} // namespace blocks

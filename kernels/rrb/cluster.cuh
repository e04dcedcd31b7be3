// Small grids in the shared memory of a thread-block cluster.
//
// The rows of each of these grids are divided among the thread blocks of the first cluster. A thread processes at most
// one (I, J) of a grid, that is, one 2 x 2 group of nodes (storage.cuh). Couplings are copied to shared memory once per
// launch, and vectors remain in shared memory between steps. The thread that computes a value in a boundary row of a
// block also writes it into the shared memory of the neighbouring block (distributed shared memory). The formulas are
// those of levels.cuh.
//
// The thread blocks outside the first cluster multiply by the inverse of the coarsest matrix, and hold the rows of this
// inverse in registers. The vectors of the coarsest system are exchanged through an array of `EpochValue`. An entry
// contains a value and its epoch, that is, the number of the product with the inverse to which the value belongs. A
// reader therefore waits only for the values that it needs.
//
// Thread block b of the cluster owns the rows first[b] .. first[b + 1] - 1 of a grid. The window of the block
// (`Window`) also contains the row before and the row after these rows. On the next grid, the rows of block b begin at
// first'[b] = (first[b] + shift_y) / 2. While block b processes its rows of a grid, it reads and writes values of the
// next grid. Each of these values is then in the window of block b or of block b + 1.
#pragma once
#include "storage.cuh"

// Maximum number of grids of one kernel.
constexpr int MAX_GRIDS = 10;
// Maximum number of thread blocks of a cluster, and number of threads of a thread block.
constexpr int MAX_CLUSTER_BLOCKS = 16;
constexpr int CLUSTER_THREADS = 512;

#ifdef RRB_EMULATED
alignas(16) static unsigned char cluster_memory[16]; // no clusters on an emulated device
#else
extern __shared__ __align__(16) unsigned char cluster_memory[];
#endif

// A value in f32 or f64 and its epoch, written by one 16-byte store. Each half of the value has a copy of the epoch
// next to it.
struct EpochValue {
    unsigned words[4];
#ifdef RRB_EMULATED
    void put(double v, unsigned epoch) {
        std::memcpy(words, &v, sizeof v);
        words[2] = epoch;
    }
    template <class Real> bool get(unsigned epoch, Real &v) const {
        double value;
        std::memcpy(&value, words, sizeof value);
        v = Real(value);
        return words[2] == epoch;
    }
#else
    __device__ void put(double v, unsigned epoch) {
        const unsigned low = __double2loint(v), high = __double2hiint(v);
        asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %2};"
            :
            : "l"(this), "r"(low), "r"(epoch), "r"(high)
            : "memory");
    }
    template <class Real> __device__ bool get(unsigned epoch, Real &v) const {
        unsigned low, low_epoch, high, high_epoch;
        asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(low), "=r"(low_epoch), "=r"(high), "=r"(high_epoch)
            : "l"(this)
            : "memory");
        v = Real(__hiloint2double(high, low));
        return low_epoch == epoch && high_epoch == epoch;
    }
#endif
};

// Returns the distance in bytes from the shared memory of this thread block to that of another block of the cluster.
__device__ inline unsigned bytes_to_block(int block) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const unsigned own_address = unsigned(__cvta_generic_to_shared(cluster_memory));
    unsigned block_address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(block_address) : "r"(own_address), "r"(block));
    return block_address - own_address;
#else
    return 0;
#endif
}

// Stores v in the shared memory of another thread block, at the address that corresponds to `address` in this
// block.
template <class T> __device__ inline void store_in_block(T *address, unsigned distance, T v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const unsigned block_address = unsigned(__cvta_generic_to_shared(address)) + distance;
    if (sizeof(T) == 8)
        asm volatile("st.shared::cluster.f64 [%0], %1;" : : "r"(block_address), "d"(double(v)) : "memory");
    else asm volatile("st.shared::cluster.f32 [%0], %1;" : : "r"(block_address), "f"(float(v)) : "memory");
#endif
}

// Layout of a grid in shared memory, which is the same in all thread blocks. A plane has one row before and one row
// after the rows of the block, and one column on either side.
struct ClusterGrid {
    int offset, plane;
    int first_row[MAX_CLUSTER_BLOCKS + 1];
};

// Window of a grid in the shared memory of this thread block. The index of entry (I, J) is
// (J - first_row + 1) * stride + 1 + I.
template <class F> struct Window {
    using Real = typename F::Real;
    using Stored = typename F::Stored;
    int cx, first_row, rows, stride, plane;
    // `row_blocks`: number of thread blocks of the cluster that own rows. `rows_before` and `rows_after`: numbers of
    // rows that the previous and the next thread block own; 0 if there is no such block.
    int row_blocks, rows_before, rows_after;
    Real *h, *z, *y, *r, *direction, *q, *u;
    Stored *s, *d, *row_sums, *corners, *black;

    // Converts the index e of an entry in the window to the index of this entry in a plane in device memory.
    __device__ int index_in_grid(const Geometry &g, int e) const {
        const int row = quotient(e, stride);
        return (first_row + row) * g.stride + g.block + e - row * stride - 1;
    }

    // Stores v[k] in plane k of a vector, for k = 0 .. COUNT - 1. `entry` points to the entry of plane 0, which is in
    // row `row` of the window. Row 1 of the window is the first row that this thread block owns. If windows of other
    // thread blocks contain the row, also stores the values in these windows. `block` is the index of this thread
    // block.
    template <int COUNT> __device__ void put(Real *entry, int row, const Real *v, int block) const {
        for (int k = 0; k < COUNT; ++k) entry[k * plane] = v[k];
        if (row == 1 && rows_before > 0) {
            const unsigned distance = bytes_to_block(block - 1);
            for (int k = 0; k < COUNT; ++k) store_in_block(entry + (k * plane + rows_before * stride), distance, v[k]);
        }
        if (row >= rows && rows_after > 0) {
            const unsigned distance = bytes_to_block(block + 1);
            for (int k = 0; k < COUNT; ++k) store_in_block(entry + (k * plane - rows * stride), distance, v[k]);
            // If the next block has only one row, the window of the block after it also contains this row.
            if (row > rows && rows_after == 1 && block + 2 < row_blocks) {
                const unsigned third_block = bytes_to_block(block + 2);
                for (int k = 0; k < COUNT; ++k) store_in_block(entry + (k * plane - row * stride), third_block, v[k]);
            }
        }
    }
};

// Returns the number of columns with nodes. In device memory, a row has Geometry::cx columns, including padding. The
// padding does not correspond to entries of the next grid.
__device__ inline int columns_of(const Geometry &g) { return (g.nx + g.shift_x + 1) / 2; }

template <class F> struct CycleArgs;

template <class F> struct Cluster {
    using Real = typename F::Real;
    using Stored = typename F::Stored;
    const CycleArgs<F> &a;
    const ClusterGrid *layouts; // layouts of the grids a.cluster_first_grid, a.cluster_first_grid + 1, ...
    int block, row_blocks;      // row_blocks: number of blocks that own rows
    int b1_offset;              // offset in bytes of the b1 values of a step in shared memory

    __device__ bool has_rows() const { return block < row_blocks; }
    __device__ Real *b1_values() const { return reinterpret_cast<Real *>(cluster_memory + b1_offset); }

    __device__ Window<F> window(int grid) const {
        const ClusterGrid &layout = layouts[grid - a.cluster_first_grid];
        const Level<F> &level = a.grids[grid - a.base_grid];
        Window<F> k;
        k.cx = columns_of(level.g);
        k.stride = k.cx + 2;
        k.plane = layout.plane;
        k.row_blocks = row_blocks;
        k.first_row = layout.first_row[block];
        k.rows = layout.first_row[block + 1] - k.first_row;
        k.rows_before = block > 0 ? k.first_row - layout.first_row[block - 1] : 0;
        k.rows_after = block + 1 < row_blocks ? layout.first_row[block + 2] - layout.first_row[block + 1] : 0;
        Real *values = reinterpret_cast<Real *>(cluster_memory + layout.offset);
        const int p = layout.plane;
        k.h = values;
        k.z = values + 3 * p;
        k.y = values + 7 * p;
        k.r = values + 8 * p;
        k.direction = values + 12 * p;
        k.q = values + 16 * p;
        k.u = values + 20 * p;
        k.s = reinterpret_cast<Stored *>(values + (level.r ? 24 : 8) * p);
        k.d = k.s + 8 * p;
        k.row_sums = k.s + 12 * p;
        k.corners = k.s + 16 * p;
        k.black = k.s + 20 * p;
        return k;
    }
};

__device__ inline double load_stored(const double &v) { return ldg(v); }
__device__ inline float load_stored(const float &v) { return ldg(v); }
__device__ inline BrainFloat::Stored load_stored(const BrainFloat::Stored &v) { return {ldg(v.bits)}; }

// Computes the layout of all grids, copies to shared memory the data that no step changes, and sets all vectors to
// zero. The host computes the same sizes (ClusterGrids::of, src/rrb/cuda/schedule.rs).
template <class F> __device__ inline Cluster<F> lay_out_cluster(const CycleArgs<F> &a) {
    using Real = typename F::Real;
    using Stored = typename F::Stored;
    __shared__ ClusterGrid layouts[MAX_GRIDS];
    __shared__ int memory_end;
    const int t = thread_of_block(), threads = blockDim.x, grid_count = a.last_grid + 1 - a.cluster_first_grid;
    const int row_blocks = min(a.row_blocks, a.team_size());
    Cluster<F> cluster{a, layouts, int(blockIdx.x), row_blocks, 0};
    if (!cluster.has_rows()) return cluster;
    if (t <= row_blocks) {
        int first_row = 0;
        for (int q = 0; q < grid_count; ++q) {
            const Geometry &g = a.grids[a.cluster_first_grid + q - a.base_grid].g;
            first_row = q == 0 ? t * g.cy / row_blocks : (first_row + g.shift_y) / 2;
            layouts[q].first_row[t] = t == row_blocks ? g.cy : first_row;
        }
    }
    __syncthreads();
    if (t == 0) {
        int offset = 0, largest_plane = 0;
        for (int q = 0; q < grid_count; ++q) {
            const Level<F> &level = a.grids[a.cluster_first_grid + q - a.base_grid];
            int rows = 0;
            for (int b = 0; b < row_blocks; ++b)
                rows = max(rows, layouts[q].first_row[b + 1] - layouts[q].first_row[b]);
            const int plane = (rows + 2) * (columns_of(level.g) + 2);
            layouts[q].plane = plane;
            layouts[q].offset = offset;
            largest_plane = max(largest_plane, plane);
            const int grid_bytes =
                plane * int((level.r ? 24 : 8) * sizeof(Real) + (level.r ? 24 : 12) * sizeof(Stored));
            offset += (grid_bytes + 15) / 16 * 16;
        }
        memory_end = offset;
    }
    __syncthreads();
    cluster.b1_offset = memory_end;
    for (int q = 0; q < grid_count; ++q) {
        const Level<F> &level = a.grids[a.cluster_first_grid + q - a.base_grid];
        const Window<F> k = cluster.window(a.cluster_first_grid + q);
        const int p = k.plane, grid_plane = int(level.g.plane), window_size = (k.rows + 2) * k.stride;
        for (int e = t; e < window_size; e += threads) {
            const int c = k.index_in_grid(level.g, e);
            Real h[3];
            Stored s[12];
            for (int u = 0; u < 3; ++u) h[u] = ldg(level.h[u * grid_plane + c]);
            for (int u = 0; u < 8; ++u) s[u] = load_stored(level.s[u * grid_plane + c]);
            for (int u = 0; u < 4; ++u) s[8 + u] = load_stored(level.d[u * grid_plane + c]);
            for (int u = 0; u < 3; ++u) k.h[u * p + e] = h[u];
            for (int u = 0; u < 12; ++u) k.s[u * p + e] = s[u];
            for (int u = 0; u < 5; ++u) k.z[u * p + e] = 0;
            cluster.b1_values()[e] = 0;
            if (!level.r) continue;
            for (int u = 0; u < 4; ++u) {
                s[u] = load_stored(level.row_sums[u * grid_plane + c]);
                s[4 + u] = load_stored(level.corners[u * grid_plane + c]);
                s[8 + u] = load_stored(level.black[u * grid_plane + c]);
            }
            for (int u = 0; u < 12; ++u) k.row_sums[u * p + e] = s[u];
            for (int u = 0; u < 16; ++u) k.r[u * p + e] = 0;
        }
    }
    __syncthreads();
    return cluster;
}

// Calls `lay_out_cluster`, and then waits at the barrier of the cluster. Afterwards, thread blocks may write to the
// shared memory of other blocks, because every block has initialized its own.
template <class F> __device__ inline Cluster<F> join_cluster(const CycleArgs<F> &a) {
    const Cluster<F> cluster = lay_out_cluster(a);
    if (a.row_blocks > 0 && int(blockIdx.x) < a.blocks_per_cluster) cluster_barrier();
    return cluster;
}

// Loads z of the first grid of the cluster, which steps on the previous grid have written to device memory.
template <class F> __device__ inline void load_z(const Cluster<F> &cluster) {
    const Level<F> &level = cluster.a.grids[cluster.a.cluster_first_grid - cluster.a.base_grid];
    const Window<F> k = cluster.window(cluster.a.cluster_first_grid);
    const int p = k.plane, grid_plane = int(level.g.plane), window_size = (k.rows + 2) * k.stride;
#pragma unroll 2
    for (int e = thread_of_block(); e < window_size; e += CLUSTER_THREADS) {
        const int c = k.index_in_grid(level.g, e);
        typename F::Real z[4];
        for (int u = 0; u < 4; ++u) z[u] = __ldcg(level.z + (u * grid_plane + c));
        for (int u = 0; u < 4; ++u) k.z[u * p + e] = z[u];
    }
    __syncthreads();
}

// The (I, J) of this thread in the window of its thread block. If the thread has no (I, J), `row` is beyond the last
// row of the window.
template <class F> struct WindowIndex {
    int row, i, c;
    GroupPointers<F> pointers;

    __device__ WindowIndex(const Window<F> &k)
        : row(quotient(thread_of_block(), k.cx)), i(thread_of_block() - row * k.cx), c((row + 1) * k.stride + 1 + i),
          pointers(pointers_at<F>(k, k.plane, k.stride, c, c)) {}
};

// Computes the same as `descend` of levels.cuh, in shared memory.
template <class F>
__device__ inline double descend_in_cluster(const Cluster<F> &cluster, const Op &op, unsigned epoch) {
    using Real = typename F::Real;
    const CycleArgs<F> &a = cluster.a;
    const Window<F> k = cluster.window(op.grid);
    const WindowIndex<F> index(k);
    const int row = index.row, i = index.i;
    Real *b1_values = cluster.b1_values() + index.c;
    double rho = 0.0;
    ForwardValues<Real> v = {0, 0, {0, 0, 0, 0}};
    if (row <= k.rows) {
        v = begin_forward<SharedAccess>(index.pointers, op, row < k.rows, rho);
        b1_values[0] = v.scaled_y;
    }
    const KeptNodes<Real> &kept_nodes = a.grids[op.grid - a.base_grid].kept_nodes;
    const bool is_last = op.grid == a.last_grid;
    const Window<F> next = cluster.window(is_last ? op.grid : op.grid + 1);
    const int j = k.first_row + row, ii = i + kept_nodes.g.shift_x, jj = j + kept_nodes.g.shift_y;
    __syncthreads();
    if (row < k.rows && i < kept_nodes.nx && j < kept_nodes.ny) {
        const Real out = end_forward(v, b1_values, k.stride);
        if (is_last) {
            a.exchange[j * kept_nodes.nx + i].put(out, epoch);
        } else {
            const int next_row = (jj >> 1) - next.first_row + 1;
            next.template put<1>(next.z + (colour_of(ii, jj) * next.plane + next_row * next.stride + 1 + (ii >> 1)),
                next_row, &out, cluster.block);
        }
    }
    return rho;
}

// Computes the same as `ascend` of levels.cuh, in shared memory.
template <class F> __device__ inline double ascend_in_cluster(const Cluster<F> &cluster, const Op &op, unsigned epoch) {
    using Real = typename F::Real;
    const CycleArgs<F> &a = cluster.a;
    const Window<F> k = cluster.window(op.grid);
    const Level<F> &level = a.grids[op.grid - a.base_grid];
    const WindowIndex<F> index(k);
    const int p = k.plane, row = index.row, i = index.i, j = k.first_row + row;
    const KeptNodes<Real> &kept_nodes = level.kept_nodes;
    Real *b1_values = cluster.b1_values() + index.c;
    Real z_b2[4] = {0, 0, 0, 0};
    BackwardValues<Real> values = {0, 0, 0, 0, 0, {0, 0}, {0, 0}};
    if (row <= k.rows) {
        if (op.grid == a.last_grid) {
            const EpochValue *z_values = a.exchange + a.coarsest.n;
            const int node = j * kept_nodes.nx + i;
            const bool x = i < kept_nodes.nx, y = j < kept_nodes.ny, x1 = i > 0 && i <= kept_nodes.nx,
                       y1 = j > 0 && j <= kept_nodes.ny;
            const bool exists[4] = {x1 && y1, x && y1, x1 && y, x && y};
            const int nodes[4] = {node - kept_nodes.nx - 1, node - kept_nodes.nx, node - 1, node};
            bool all_arrived;
            do {
                all_arrived = true;
                for (int u = 0; u < 4; ++u) {
                    if (exists[u]) all_arrived &= z_values[nodes[u]].get(epoch, z_b2[u]);
                }
            } while (!all_arrived);
        } else {
            const Window<F> next = cluster.window(op.grid + 1);
            const int x = i + kept_nodes.g.shift_x, y = j + kept_nodes.g.shift_y;
            const auto get_z = [&](int ii, int jj) {
                return next
                    .z[colour_of(ii, jj) * next.plane + ((jj >> 1) - next.first_row + 1) * next.stride + 1 + (ii >> 1)];
            };
            set_four(z_b2, get_z(x - 1, y - 1), get_z(x, y - 1), get_z(x - 1, y), get_z(x, y));
        }
        values = begin_backward<SharedAccess>(index.pointers, z_b2, row < k.rows);
        b1_values[0] = values.z_b1;
    }
    __syncthreads();
    if (row >= k.rows) return 0.0;
    Real v[4];
    end_backward(values, b1_values, k.stride, z_b2[3], v);
    double rho = 0.0;
    bool is_z = true;
    for (int colour = 0; colour < 4; ++colour)
        is_z =
            finish_backward(index.pointers, op, colour, load_inner_values(index.pointers, op, colour), v[colour], rho);
    if (!is_z) {
        k.template put<4>(k.direction + index.c, row + 1, v, cluster.block);
    } else if (op.grid == a.cluster_first_grid) {
        for (int colour = 0; colour < 4; ++colour) {
            index.pointers.z[colour * p] = v[colour];
            level.z[colour * int(level.g.plane) + (j + 1) * level.g.stride + level.g.block + i] = v[colour];
        }
    } else {
        k.template put<4>(k.z + index.c, row + 1, v, cluster.block);
    }
    return rho;
}

// Computes the same as `iterate_inner` of levels.cuh, in shared memory.
template <class F> __device__ inline void iterate_inner_in_cluster(const Cluster<F> &cluster, const Op &op) {
    using Real = typename F::Real;
    const Window<F> k = cluster.window(op.grid);
    const WindowIndex<F> index(k);
    if (index.row >= k.rows) return;
    const auto put = [&](Real *vector, const Real *v) { k.template put<4>(vector, index.row + 1, v, cluster.block); };
    if (op.kind == MULTIPLY_INNER) iterate_inner_at<SharedAccess, true>(index.pointers, op, put);
    else iterate_inner_at<SharedAccess, false>(index.pointers, op, put);
}

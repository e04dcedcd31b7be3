// Sums over labelled cells of a box (kernels/common/labelled.cuh), for Z^T v of deflation (docs/theory/dpcg.md).
//
// The cells are divided into chunks of CHUNK consecutive cells, and a chunk into segments of SEGMENT = 16 cells. A slot
// is the set of cells of one chunk that have the same label. It is stored as a list of items. An item is one segment in
// which the slot has cells: the number of the segment, and one bit per cell. LANES_PER_SLOT lanes add the cells of a
// slot.
//
// The sums read 8 bytes of v per cell and 4 bytes per item: 8 + 4 / 16 = 8.25 bytes per cell if each segment has a
// single label. A slot needs 20 bytes, in addition to its items.
#pragma once
#include "../common/labelled.cuh"

namespace labelled {

constexpr int CHUNK = 1024;
constexpr int SEGMENT = 16, SEGMENTS_PER_CHUNK = CHUNK / SEGMENT;
// Number of lanes per slot. Each lane adds two cells of a segment.
constexpr int LANES_PER_SLOT = 8;
// Number of thread blocks of `slot_sums` that are resident on a multiprocessor at the same time.
constexpr int RESIDENT_BLOCKS = 6;

// The items of a slot: the index of the first one, and one word that contains the chunk and the number of items.
struct alignas(8) Slot {
    uint32_t first_item, chunk_and_count;
    __device__ int64_t chunk() const { return chunk_and_count / (2 * SEGMENTS_PER_CHUNK); }
    __device__ uint32_t count() const { return chunk_and_count % (2 * SEGMENTS_PER_CHUNK); }
};

struct ListArgs {
    CellLabels labels;
    int64_t cell_count;
    // Numbers of slots and of items of each chunk. After `scan`: of all previous chunks; the last entry is the total.
    uint32_t *chunk_slot_counts, *chunk_item_counts;
    Slot *slots;     // null: slots and items are only counted
    uint32_t *items; // 65536 times the number of the segment + a bit per cell
    uint32_t *slot_label;
    uint32_t *label_start; // number of slots per label; after `scan`: of all previous labels; last entry: total
    uint32_t *index_by_label; // index of each slot in the order of labels; null: a single label
    unsigned long long *cells_of_label; // number of cells of each label
};

// Returns the sum of v over the preceding threads of the thread block. Sets `block_sum` to the sum over all its
// threads.
__device__ inline uint32_t scan_block(uint32_t v, uint32_t &block_sum) {
    __shared__ uint32_t sums[THREADS];
    const int t = threadIdx.x;
    __syncthreads();
    sums[t] = v;
    for (int d = 1; d < THREADS; d *= 2) {
        __syncthreads();
        const uint32_t previous_sum = t >= d ? sums[t - d] : 0;
        __syncthreads();
        sums[t] += previous_sum;
    }
    __syncthreads();
    block_sum = sums[THREADS - 1];
    return sums[t] - v;
}

// The cells of a chunk while its slots are listed.
struct ListedChunk {
    // Each row has one unused value more, so that lanes that read different rows use different banks.
    uint32_t label[SEGMENTS_PER_CHUNK][SEGMENT + 1], run_labels[CHUNK], slot_labels[CHUNK], item_count;
    __device__ uint32_t label_at(int i) const { return label[i / SEGMENT][i % SEGMENT]; }
};

// Lists the labels of a chunk in the order of their first cells; returns their number.
__device__ inline uint32_t find_slots(ListedChunk &c, uint32_t labels) {
    constexpr int CELLS_PER_THREAD = CHUNK / THREADS;
    const int t = threadIdx.x;
    const auto begins_run = [&](int i) { return i == 0 || c.label_at(i) != c.label_at(i - 1); };
    uint32_t own_runs = 0, run_count, slot_count = 0;
    for (int i = CELLS_PER_THREAD * t; i < CELLS_PER_THREAD * (t + 1); ++i) own_runs += begins_run(i);
    uint32_t run = scan_block(own_runs, run_count);
    for (int i = CELLS_PER_THREAD * t; i < CELLS_PER_THREAD * (t + 1); ++i) {
        if (begins_run(i)) c.run_labels[run++] = c.label_at(i);
    }
    __syncthreads();
    // Selects the runs whose label occurs in no preceding run.
    for (uint32_t first_run = 0; first_run < run_count; first_run += THREADS) {
        const uint32_t k = first_run + t, run_label = k < run_count ? c.run_labels[k] : labels;
        bool is_first = run_label < labels;
        for (uint32_t l = 0; l < k && is_first; ++l) is_first = c.run_labels[l] != run_label;
        uint32_t new_slots;
        const uint32_t slot = slot_count + scan_block(is_first, new_slots);
        if (is_first) c.slot_labels[slot] = run_label;
        slot_count += new_slots;
    }
    __syncthreads();
    return slot_count;
}

// Lists the items of a slot; each lane tests two segments.
__device__ inline void list_items(const ListArgs &a, ListedChunk &c, int64_t chunk, uint32_t k) {
    constexpr unsigned ALL = 0xffffffffu;
    static_assert(SEGMENTS_PER_CHUNK == 64, "two segments a lane");
    const int lane = threadIdx.x % 32;
    const uint32_t slot_label = c.slot_labels[k];
    uint32_t low_bits = 0, high_bits = 0;
    for (int i = 0; i < SEGMENT; ++i) {
        low_bits |= uint32_t(c.label[lane][i] == slot_label) << i;
        high_bits |= uint32_t(c.label[lane + 32][i] == slot_label) << i;
    }
    const unsigned low_lanes = __ballot_sync(ALL, low_bits != 0), high_lanes = __ballot_sync(ALL, high_bits != 0);
    const uint32_t low_count = __popc(low_lanes), count = low_count + __popc(high_lanes);
    // The position of the list of this slot may differ between executions, but the contents of the list do not.
    uint32_t first = lane == 0 ? atomicAdd(&c.item_count, count) : 0;
    if (!a.slots) return;
    first = a.chunk_item_counts[chunk] + __shfl_sync(ALL, first, 0);
    const unsigned earlier_lanes = (1u << lane) - 1;
    if (low_bits) a.items[first + __popc(low_lanes & earlier_lanes)] = uint32_t(lane) << 16 | low_bits;
    if (high_bits)
        a.items[first + low_count + __popc(high_lanes & earlier_lanes)] = uint32_t(lane + 32) << 16 | high_bits;
    const uint32_t cells = warp_sum(uint32_t(__popc(low_bits) + __popc(high_bits)));
    if (lane != 0) return;
    const uint32_t slot = a.chunk_slot_counts[chunk] + k;
    a.slots[slot] = {first, uint32_t(chunk) * (2 * SEGMENTS_PER_CHUNK) + count};
    a.slot_label[slot] = slot_label;
    atomicAdd(a.label_start + slot_label, 1u);
    atomicAdd(a.cells_of_label + slot_label, (unsigned long long)(cells));
}

// If `slots` is null, counts the slots and items of each chunk. Otherwise, lists them.
__device__ inline void list_slots(const ListArgs &a) {
    __shared__ ListedChunk c;
    const int t = threadIdx.x;
    for (int64_t chunk = blockIdx.x; chunk * CHUNK < a.cell_count; chunk += gridDim.x) {
        __syncthreads();
        for (int i = t; i < CHUNK; i += THREADS) {
            const int64_t cell = chunk * CHUNK + i;
            c.label[i / SEGMENT][i % SEGMENT] = cell < a.cell_count ? a.labels.at(cell) : a.labels.count;
        }
        if (t == 0) c.item_count = 0;
        __syncthreads();
        const uint32_t slot_count = find_slots(c, a.labels.count);
        for (uint32_t k = t / 32; k < slot_count; k += WARPS) list_items(a, c, chunk, k);
        __syncthreads();
        if (t != 0 || a.slots) continue;
        a.chunk_slot_counts[chunk] = slot_count;
        a.chunk_item_counts[chunk] = c.item_count;
    }
}

struct ScanArgs {
    uint32_t *values; // the arrays one after the other; each has `count` values and a further entry for their sum
    int64_t count, arrays;
};

// Replaces each value by the sum of the preceding values. A thread block processes an array.
__device__ inline void scan(const ScanArgs &a) {
    uint32_t previous_sum = 0, block_sum, *values = a.values + blockIdx.x * (a.count + 1);
    for (int64_t first = 0; first < a.count; first += THREADS) {
        const int64_t k = first + threadIdx.x;
        const uint32_t v = k < a.count ? values[k] : 0, sum = previous_sum + scan_block(v, block_sum);
        if (k < a.count) values[k] = sum;
        previous_sum += block_sum;
    }
    if (threadIdx.x == 0) values[a.count] = previous_sum;
}

// Computes the index of each slot in the order of labels. A warp processes a label.
__device__ inline void sort_slots(const ListArgs &a) {
    constexpr uint32_t ITEMS_AT_ONCE = 8;
    const uint32_t slot_count = a.chunk_slot_counts[(a.cell_count + CHUNK - 1) / CHUNK], lane = threadIdx.x % 32;
    for (uint32_t label = blockIdx.x * WARPS + threadIdx.x / 32; label < a.labels.count; label += gridDim.x * WARPS) {
        uint32_t next = a.label_start[label];
        for (uint32_t first = lane; next < a.label_start[label + 1]; first += 32 * ITEMS_AT_ONCE) {
            uint32_t item_labels[ITEMS_AT_ONCE];
#pragma unroll
            for (uint32_t q = 0; q < ITEMS_AT_ONCE; ++q) {
                item_labels[q] = first + 32 * q < slot_count ? ldg(a.slot_label[first + 32 * q]) : a.labels.count;
            }
            for (uint32_t q = 0; q < ITEMS_AT_ONCE; ++q) {
                const int has_label = item_labels[q] == label;
                if (!__any_sync(0xffffffffu, has_label)) continue;
                uint32_t previous_count = 0, match_count = 0;
                for (uint32_t k = 0; k < 32; ++k) {
                    const int lane_has_label = __shfl_sync(0xffffffffu, has_label, k);
                    previous_count += k < lane ? lane_has_label : 0;
                    match_count += lane_has_label;
                }
                if (has_label) a.index_by_label[first + 32 * q] = next + previous_count;
                next += match_count;
            }
        }
    }
}

// Returns the sum over a slot. LANES_PER_SLOT lanes compute it: each lane adds every LANES_PER_SLOT-th cell of a
// segment, then the sums of the lanes are added pairwise.
template <class Real> __device__ inline double slot_sum(const LabelledArgs &a, const Slot &slot, int lane) {
    // Number of items whose loads are issued together.
    constexpr int ITEMS_AT_ONCE = 4, CELLS_PER_LANE = SEGMENT / LANES_PER_SLOT;
    const Real *v = static_cast<const Real *>(a.v) + slot.chunk() * CHUNK + lane;
    double sum = 0.0;
    for (uint32_t first = 0; first < slot.count(); first += ITEMS_AT_ONCE) {
        uint32_t item[ITEMS_AT_ONCE];
        double value[ITEMS_AT_ONCE * CELLS_PER_LANE];
#pragma unroll
        for (int u = 0; u < ITEMS_AT_ONCE; ++u) {
            item[u] = first + u < slot.count() ? ldg(a.items[slot.first_item + first + u]) : 0;
        }
#pragma unroll
        for (int u = 0; u < ITEMS_AT_ONCE * CELLS_PER_LANE; ++u) {
            const uint32_t segment_item = item[u / CELLS_PER_LANE],
                cell_in_segment = u % CELLS_PER_LANE * LANES_PER_SLOT;
            value[u] = segment_item >> (cell_in_segment + lane) & 1
                ? double(v[(segment_item >> 16) * SEGMENT + cell_in_segment]) : 0.0;
        }
#pragma unroll
        for (double v_cell : value) {
            // With INVERSES, the values are centers, which are positive. A zero therefore belongs to a cell with
            // another label, and its summand is zero.
            sum += summand(a, v_cell);
        }
    }
    for (int d = LANES_PER_SLOT / 2; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    return sum;
}

// Computes the sum over each slot.
template <class Real> __device__ inline void slot_sums(const LabelledArgs &a) {
    if (is_over(a)) return;
    const uint32_t slot_count = a.label_start[a.labels.count], step = gridDim.x * (THREADS / LANES_PER_SLOT);
    const int lane = threadIdx.x % LANES_PER_SLOT, slot_in_warp = threadIdx.x % 32 / LANES_PER_SLOT;
    uint32_t warp_slot = (blockIdx.x * THREADS + threadIdx.x - threadIdx.x % 32) / LANES_PER_SLOT;
    // All lanes of a warp take part in its shuffles.
    for (; warp_slot < slot_count; warp_slot += step) {
        const uint32_t k = warp_slot + slot_in_warp;
        const bool has_slot = k < slot_count;
        const Slot slot = has_slot ? a.slots[k] : Slot{0, 0};
        const uint32_t index = a.index_by_label && has_slot ? a.index_by_label[k] : k;
        const double sum = slot_sum<Real>(a, slot, lane);
        if (lane == 0 && has_slot) a.sums[index] = sum;
    }
}

// Subtracts from the value of each cell the mean of its label. With `restores_mean`, also adds the stored mean of this
// label.
template <class Real> __device__ inline void subtract_means(const LabelledArgs &a) {
    Real *v = static_cast<Real *>(a.v);
    for_each_cell(a.count, [&](int64_t c) {
        const uint32_t label = a.labels.at(c);
        if (label >= a.labels.count) return;
        v[c] = Real(v[c] + shift_of(a, label));
    });
}

} // namespace labelled

LABELLED_KERNEL(dpcg_list_slots_f64, ListArgs, 4, list_slots)
LABELLED_KERNEL(dpcg_scan_prefix_sums_f64, ScanArgs, 4, scan)
LABELLED_KERNEL(dpcg_sort_slots_f64, ListArgs, 4, sort_slots)
LABELLED_KERNELS(dpcg, slot_sums, subtract_means, labelled::RESIDENT_BLOCKS)

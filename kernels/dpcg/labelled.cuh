// Sums over labelled cells of a box (kernels/common/labelled.cuh).
//
// The cells are divided into chunks of CHUNK consecutive cells, and a chunk into segments of SEGMENT = 16 cells. A slot
// is the set of cells of one chunk that have the same label. It is stored as a list of items. An item is one segment in
// which the slot has cells: the number of the segment, and one bit per cell. GROUP lanes add the cells of a slot.
//
// The sums read 8 bytes of v per cell and 4 bytes per item: 8 + 4 / 16 = 8.25 bytes per cell if each segment has a
// single label. A slot needs 20 bytes, in addition to its items.
#pragma once
#include "../common/labelled.cuh"

namespace labelled {

constexpr int CHUNK = 1024;
constexpr int SEGMENT = 16, SEGMENTS = CHUNK / SEGMENT;
// Number of lanes per slot; each lane adds two cells of a segment.
constexpr int GROUP = 8;
// Number of thread blocks of `slot_sums` that are resident on a multiprocessor at the same time.
constexpr int SUMMING = 6;

// The items of a slot: the index of the first one, and one word that contains the chunk and the number of items.
struct alignas(8) Slot {
    uint32_t first, chunk_and_count;
    __device__ int64_t chunk() const { return chunk_and_count / (2 * SEGMENTS); }
    __device__ uint32_t count() const { return chunk_and_count % (2 * SEGMENTS); }
};

struct ListArgs {
    CellLabels labels;
    int64_t cells;
    // Numbers of slots and of items of each chunk. After `scan`: of all previous chunks; the last entry is the total.
    uint32_t *chunk_slots, *chunk_items;
    Slot *slots;     // null: slots and items are only counted
    uint32_t *items; // 65536 times the number of the segment + a bit per cell
    uint32_t *slot_label;
    uint32_t *label_start; // number of slots per label; after `scan`: of all previous labels; last entry: total
    uint32_t *index_by_label; // index of each slot in the order of labels; null: a single label
    unsigned long long *cells_of; // number of cells of each label
};

// Returns the sum of v over the preceding threads of the thread block. Sets `all` to the sum over all its threads.
__device__ inline uint32_t block_scan(uint32_t v, uint32_t &all) {
    __shared__ uint32_t sums[THREADS];
    const int t = threadIdx.x;
    __syncthreads();
    sums[t] = v;
    for (int d = 1; d < THREADS; d *= 2) {
        __syncthreads();
        const uint32_t before = t >= d ? sums[t - d] : 0;
        __syncthreads();
        sums[t] += before;
    }
    __syncthreads();
    all = sums[THREADS - 1];
    return sums[t] - v;
}

// The cells of a chunk while its slots are listed.
struct ListedChunk {
    // One value more per row, so that lanes that read different rows use different banks.
    uint32_t label[SEGMENTS][SEGMENT + 1], of_run[CHUNK], of_slot[CHUNK], items;
    __device__ uint32_t at(int i) const { return label[i / SEGMENT][i % SEGMENT]; }
};

// Lists the labels of a chunk in the order of their first cells; returns their number.
__device__ inline uint32_t find_slots(ListedChunk &c, uint32_t labels) {
    constexpr int EACH = CHUNK / THREADS;
    const int t = threadIdx.x;
    const auto begins = [&](int i) { return i == 0 || c.at(i) != c.at(i - 1); };
    uint32_t mine = 0, runs, slots = 0;
    for (int i = EACH * t; i < EACH * (t + 1); ++i) mine += begins(i);
    uint32_t run = block_scan(mine, runs);
    for (int i = EACH * t; i < EACH * (t + 1); ++i) {
        if (begins(i)) c.of_run[run++] = c.at(i);
    }
    __syncthreads();
    // Selects the runs whose label occurs in no preceding run.
    for (uint32_t low = 0; low < runs; low += THREADS) {
        const uint32_t k = low + t, of = k < runs ? c.of_run[k] : labels;
        bool is_first = of < labels;
        for (uint32_t l = 0; l < k && is_first; ++l) is_first = c.of_run[l] != of;
        uint32_t more;
        const uint32_t slot = slots + block_scan(is_first, more);
        if (is_first) c.of_slot[slot] = of;
        slots += more;
    }
    __syncthreads();
    return slots;
}

// Lists the items of a slot; each lane tests two segments.
__device__ inline void list_items(const ListArgs &a, ListedChunk &c, int64_t chunk, uint32_t k) {
    constexpr unsigned ALL = 0xffffffffu;
    static_assert(SEGMENTS == 64, "two segments a lane");
    const int lane = threadIdx.x % 32;
    const uint32_t own = c.of_slot[k];
    uint32_t low = 0, high = 0;
    for (int i = 0; i < SEGMENT; ++i) {
        low |= uint32_t(c.label[lane][i] == own) << i;
        high |= uint32_t(c.label[lane + 32][i] == own) << i;
    }
    const unsigned some_low = __ballot_sync(ALL, low != 0), some_high = __ballot_sync(ALL, high != 0);
    const uint32_t count_low = __popc(some_low), count = count_low + __popc(some_high);
    // The position of the list of this slot may differ from run to run, but the contents of the list do not.
    uint32_t first = lane == 0 ? atomicAdd(&c.items, count) : 0;
    if (!a.slots) return;
    first = a.chunk_items[chunk] + __shfl_sync(ALL, first, 0);
    const unsigned before = (1u << lane) - 1;
    if (low) a.items[first + __popc(some_low & before)] = uint32_t(lane) << 16 | low;
    if (high) a.items[first + count_low + __popc(some_high & before)] = uint32_t(lane + 32) << 16 | high;
    const uint32_t cells = warp_sum(uint32_t(__popc(low) + __popc(high)));
    if (lane != 0) return;
    const uint32_t slot = a.chunk_slots[chunk] + k;
    a.slots[slot] = {first, uint32_t(chunk) * (2 * SEGMENTS) + count};
    a.slot_label[slot] = own;
    atomicAdd(a.label_start + own, 1u);
    atomicAdd(a.cells_of + own, (unsigned long long)(cells));
}

// Counts the slots and items of each chunk, or lists them.
__device__ inline void list_slots(const ListArgs &a) {
    __shared__ ListedChunk c;
    const int t = threadIdx.x;
    for (int64_t chunk = blockIdx.x; chunk * CHUNK < a.cells; chunk += gridDim.x) {
        __syncthreads();
        for (int i = t; i < CHUNK; i += THREADS) {
            const int64_t cell = chunk * CHUNK + i;
            c.label[i / SEGMENT][i % SEGMENT] = cell < a.cells ? a.labels.at(cell) : a.labels.count;
        }
        if (t == 0) c.items = 0;
        __syncthreads();
        const uint32_t slots = find_slots(c, a.labels.count);
        for (uint32_t k = t / 32; k < slots; k += WARPS) list_items(a, c, chunk, k);
        __syncthreads();
        if (t != 0 || a.slots) continue;
        a.chunk_slots[chunk] = slots;
        a.chunk_items[chunk] = c.items;
    }
}

struct ScanArgs {
    uint32_t *values; // the arrays one after the other; each has `count` values and a further entry for their sum
    int64_t count, arrays;
};

// Replaces each value by the sum of the preceding values. A thread block processes an array.
__device__ inline void scan(const ScanArgs &a) {
    uint32_t before = 0, all, *values = a.values + blockIdx.x * (a.count + 1);
    for (int64_t first = 0; first < a.count; first += THREADS) {
        const int64_t k = first + threadIdx.x;
        const uint32_t v = k < a.count ? values[k] : 0, sum = before + block_scan(v, all);
        if (k < a.count) values[k] = sum;
        before += all;
    }
    if (threadIdx.x == 0) values[a.count] = before;
}

// Computes the index of each slot in the order of labels. A warp processes a label.
__device__ inline void sort_slots(const ListArgs &a) {
    constexpr uint32_t AT_ONCE = 8;
    const uint32_t slots = a.chunk_slots[(a.cells + CHUNK - 1) / CHUNK], lane = threadIdx.x % 32;
    for (uint32_t label = blockIdx.x * WARPS + threadIdx.x / 32; label < a.labels.count; label += gridDim.x * WARPS) {
        uint32_t next = a.label_start[label];
        for (uint32_t first = lane; next < a.label_start[label + 1]; first += 32 * AT_ONCE) {
            uint32_t of[AT_ONCE];
#pragma unroll
            for (uint32_t q = 0; q < AT_ONCE; ++q) {
                of[q] = first + 32 * q < slots ? ldg(a.slot_label[first + 32 * q]) : a.labels.count;
            }
            for (uint32_t q = 0; q < AT_ONCE; ++q) {
                const int mine = of[q] == label;
                if (!__any_sync(0xffffffffu, mine)) continue;
                uint32_t before = 0, all = 0;
                for (uint32_t k = 0; k < 32; ++k) {
                    const int one = __shfl_sync(0xffffffffu, mine, k);
                    before += k < lane ? one : 0;
                    all += one;
                }
                if (mine) a.index_by_label[first + 32 * q] = next + before;
                next += all;
            }
        }
    }
}

// Returns the sum over a slot, computed by its group: each lane adds every GROUP-th cell of a segment, then the lanes
// are added pairwise.
template <class Real> __device__ inline double slot_sum(const LabelledArgs &a, const Slot &slot, int lane) {
    // Number of items whose loads are issued together.
    constexpr int AT_ONCE = 4, EACH = SEGMENT / GROUP;
    const Real *v = static_cast<const Real *>(a.v) + slot.chunk() * CHUNK + lane;
    double sum = 0.0;
    for (uint32_t first = 0; first < slot.count(); first += AT_ONCE) {
        uint32_t item[AT_ONCE];
        double value[AT_ONCE * EACH];
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            item[u] = first + u < slot.count() ? ldg(a.items[slot.first + first + u]) : 0;
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE * EACH; ++u) {
            const uint32_t of = item[u / EACH], at = u % EACH * GROUP;
            value[u] = of >> (at + lane) & 1 ? double(v[(of >> 16) * SEGMENT + at]) : 0.0;
        }
#pragma unroll
        for (double of : value) {
            // Inverses are computed of centers, which are positive. A zero therefore belongs to a cell with another
            // label.
            sum += summand(a, of);
        }
    }
    for (int d = GROUP / 2; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    return sum;
}

// Computes the sum over each slot.
template <class Real> __device__ inline void slot_sums(const LabelledArgs &a) {
    if (is_over(a)) return;
    const uint32_t slots = a.label_start[a.labels.count], step = gridDim.x * (THREADS / GROUP);
    const int lane = threadIdx.x % GROUP, in_warp = threadIdx.x % 32 / GROUP;
    uint32_t of_warp = (blockIdx.x * THREADS + threadIdx.x - threadIdx.x % 32) / GROUP;
    // All lanes of a warp take part in its shuffles.
    for (; of_warp < slots; of_warp += step) {
        const uint32_t k = of_warp + in_warp;
        const bool is_one = k < slots;
        const Slot slot = is_one ? a.slots[k] : Slot{0, 0};
        const uint32_t index = a.index_by_label && is_one ? a.index_by_label[k] : k;
        const double sum = slot_sum<Real>(a, slot, lane);
        if (lane == 0 && is_one) a.sums[index] = sum;
    }
}

// Subtracts from each cell of v the mean of its label. With `restore`, also adds the stored mean of this label.
template <class Real> __device__ inline void shift(const LabelledArgs &a) {
    Real *v = static_cast<Real *>(a.v);
    over_cells(a.count, [&](int64_t c) {
        const uint32_t label = a.labels.at(c);
        if (label >= a.labels.count) return;
        v[c] = Real(v[c] + shift_of(a, label));
    });
}

} // namespace labelled

LABELLED_KERNEL(dpcg_list_slots_f64, ListArgs, 4, list_slots)
LABELLED_KERNEL(dpcg_scan_f64, ScanArgs, 4, scan)
LABELLED_KERNEL(dpcg_sort_slots_f64, ListArgs, 4, sort_slots)
LABELLED_KERNELS(dpcg, slot_sums, shift, labelled::SUMMING)

// Grids whose rows are distributed among devices (docs/development/kernels.md). Each device runs the same kernels on
// its own rows. All devices see the memory under the same addresses. The host starts a kernel only after the previous
// kernel has ended on all devices.
//
// Rows are divided into PARTS parts, regardless of the number of devices. The thread blocks of a part store one partial
// sum each. The last thread block of all devices adds the partial sums of all parts in a fixed order. The sums are
// therefore bitwise identical for any number of devices.
#pragma once

// Index of this device among `count` devices. The host writes both into the module of the device.
struct Share {
    int index, count;
};
#ifdef RRB_EMULATED
inline Share rrb_share{0, 1};
inline void __threadfence_system() {}
#else
extern "C" __constant__ Share rrb_share;
__constant__ Share rrb_share = {0, 1};
#endif

// Kernels for one device are compiled without the test for distributed rows.
#if defined(RRB_DIVIDED) || defined(RRB_EMULATED)
constexpr bool MAY_BE_DIVIDED = true;
#else
constexpr bool MAY_BE_DIVIDED = false;
#endif
__device__ inline bool is_divided(const Geometry &g) { return MAY_BE_DIVIDED && g.part_rows != 0; }

constexpr int PARTS = 8;
// Parts begin at multiples of this number of rows. The tiles of a distributed grid have 8 or 16 rows, so each part
// begins at the first row of a tile.
constexpr int PART_ROWS = 16;

// The tiles first .. end - 1 of a grid. Tiles are numbered row by row, and a row has `tiles_per_row` tiles.
struct Tiles {
    int first, end, tiles_per_row;
};

__device__ inline int part_count(const Geometry &g) { return is_divided(g) ? PARTS : 1; }

// Returns the first row of a part. Part PARTS / 2 begins in the middle of the grid. The host selects the number of rows
// from one part to the next, Geometry::part_rows (src/rrb/cuda/division.rs).
__device__ inline int first_row_of_part(const Geometry &g, int part) {
    if (part <= 0) return 0;
    if (part >= PARTS) return g.cy;
    const int row_chunks = (g.cy + PART_ROWS - 1) / PART_ROWS;
    const int row = row_chunks / 2 * PART_ROWS + (part - PARTS / 2) * g.part_rows;
    return min(max(row, 0), (row_chunks - 1) * PART_ROWS);
}

// Returns the tiles into which the whole grid is divided if a tile has `rows` rows.
__device__ inline Tiles all_tiles(const Geometry &g, int rows) {
    const int tiles_per_row = (g.cx + TILE_X - 1) / TILE_X;
    return {0, tiles_per_row * ((g.cy + rows - 1) / rows), tiles_per_row};
}

// Calls f(part, tiles) for each part of this device, where `tiles` are the tiles of the part, with `rows` rows each. If
// the rows are not distributed, calls f once, for the whole grid.
template <class F> __device__ inline void for_each_part(const Geometry &g, int rows, F f) {
    if constexpr (!MAY_BE_DIVIDED) return f(0, all_tiles(g, rows));
    int part = 0, end = 1;
    if (is_divided(g)) {
        if (rrb_share.index >= g.sharers) return;
        part = PARTS * rrb_share.index / g.sharers;
        end = PARTS * (rrb_share.index + 1) / g.sharers;
    }
    for (; part < end; ++part) {
        Tiles tiles = all_tiles(g, rows);
        if (is_divided(g)) {
            tiles.first = tiles.tiles_per_row * (first_row_of_part(g, part) / rows);
            tiles.end = tiles.tiles_per_row * ((first_row_of_part(g, part + 1) + rows - 1) / rows);
        }
        f(part, tiles);
    }
}

// Calls f(i, row) for those nodes of the caller's arrays whose rows belong to this device.
template <class F> __device__ inline void for_each_own_node(const Geometry &g, F f) {
    if (!is_divided(g)) return for_each_value(g.nx, 0, g.ny, f);
    if (rrb_share.index >= g.sharers) return;
    const auto first_row = [&](int sharer) {
        const int row = first_row_of_part(g, PARTS * sharer / g.sharers);
        return min(max(2 * row - g.shift_y, 0), g.ny);
    };
    for_each_value(g.nx, first_row(rrb_share.index), first_row(rrb_share.index + 1), f);
}

// The thread block with index k in a team of n thread blocks processes the tiles whose numbers modulo n are equal to k.
// `first_tile` returns the first tile of this thread block, or a number beyond all tiles if the block has none.
// `last_tile` returns the last tile of this thread block, with which backward loops begin, or a number below all tiles.
__device__ inline int first_tile(const Tiles &tiles, Team team) {
    if (!team.contains_this_block()) return tiles.end;
    if (tiles.first == 0) return team.index();
    const int remainder = tiles.first % team.size(), index = team.index();
    return tiles.first - remainder + index + (index < remainder ? team.size() : 0);
}
__device__ inline int last_tile(const Tiles &tiles, Team team) {
    const int first = first_tile(tiles, team);
    return first < tiles.end ? first + quotient(tiles.end - 1 - first, team.size()) * team.size() : tiles.first - 1;
}

// Ends a part: stores the sum of `sum` over the threads of this block, and sets `sum` to zero for the next part.
__device__ inline void store_part_sum(double *partial, int part, double &sum) {
    const double block_total = block_sum(sum);
    if (thread_of_block() == 0) partial[part * gridDim.x + blockIdx.x] = block_total;
    sum = 0.0;
}

// Like `is_last_block`, but for the thread blocks of all devices that share a grid.
__device__ inline bool is_last_block_of_all_devices(const Geometry &g, unsigned *ticket) {
    const int count = is_divided(g) ? rrb_share.count : 1;
    if (count == 1) return is_last_block(ticket);
    __shared__ bool is_last;
    __threadfence_system();
    __syncthreads();
    if (thread_of_block() == 0) is_last = atomicInc_system(ticket, count * gridDim.x - 1) == count * gridDim.x - 1;
    __syncthreads();
    if (is_last) __threadfence_system();
    return is_last;
}

// Returns the sum of the partial sums of all thread blocks and parts of a launch. Called by one thread block.
__device__ inline double sum_of_parts(const Geometry &g, const double *partial) {
    return sum_of(partial, part_count(g) * gridDim.x);
}

// All thread blocks call this function. The last one computes `sum_of_parts`, and one of its threads calls
// use_total(sum).
template <class Then>
__device__ inline void sum_parts(const Geometry &g, const double *partial, unsigned *ticket, Then use_total) {
    if (!is_last_block_of_all_devices(g, ticket)) return;
    const double sum = sum_of_parts(g, partial);
    if (thread_of_block() == 0) use_total(sum);
}

struct DeviceBarrierArgs {
    uint64_t *arrivals; // counters of device 0; the counters of device k begin k * ARRIVALS_DISTANCE words later
    Scalars *scalars;
};

// ARRIVALS_DISTANCE: distance between the counters of consecutive devices in 8-byte words: one granule (GRANULE_BYTES
// of src/cuda/driver/memory.rs). BARRIER_TIMEOUT_NS: timeout in nanoseconds.
constexpr int64_t ARRIVALS_DISTANCE = (1 << 21) / sizeof(uint64_t);
constexpr uint64_t BARRIER_TIMEOUT_NS = 10000000000ull;

// Synchronizes all devices. Afterwards, each device sees the earlier writes of the others. Each device launches one
// warp. In the memory of each device, counter k contains the number of arrivals of device k, which device k writes.
// Counter PARTS contains the number of calls that the owner of the memory has completed. On an emulated device,
// launches run one after the other.
extern "C" __global__ void __launch_bounds__(32) rrb_synchronize_devices_f64(DeviceBarrierArgs a) {
#ifndef RRB_EMULATED
    const int t = threadIdx.x, index = rrb_share.index;
    uint64_t *own_counters = a.arrivals + index * ARRIVALS_DISTANCE;
    const uint64_t arrival_number = own_counters[PARTS] + 1;
    // After a timeout, no device waits any longer.
    bool is_waiting = !a.scalars->sync_failed;
    if (t < rrb_share.count) {
        uint64_t *remote_counter = a.arrivals + t * ARRIVALS_DISTANCE + index;
        __threadfence_system();
        asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(remote_counter), "l"(arrival_number) : "memory");
        const uint64_t start_time = nanoseconds();
        while (is_waiting) {
            uint64_t remote_arrival_number;
            asm volatile("ld.acquire.sys.u64 %0, [%1];"
                : "=l"(remote_arrival_number)
                : "l"(own_counters + t)
                : "memory");
            is_waiting = remote_arrival_number < arrival_number;
            if (is_waiting && nanoseconds() - start_time > BARRIER_TIMEOUT_NS) {
                a.scalars->sync_failed = 1;
                is_waiting = false;
            }
        }
    }
    __syncwarp();
    if (t == 0) own_counters[PARTS] = arrival_number;
#endif
}

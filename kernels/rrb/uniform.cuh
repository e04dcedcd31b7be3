// Where rows of the matrix are the same, colour by colour: sweeps and the ends of a solve read one of them there
// (`uniform_tiles`). The factorization makes each number from rows of A nearby alone, by the same instructions
// wherever it is: where those are the same to the bit, so is it. On a grid a number comes from rows of the grid's
// matrix at most three places away, couplings that the next grid has from at most four. So a look at A is enough; each
// grid then takes it from the one before.
#pragma once
#include "storage.cuh"

__device__ inline int patches(int extent) { return (extent + PATCH - 1) / PATCH; }
__device__ inline int patch_of(const Geometry &g, int i, int j) { return j / PATCH * patches(g.cx) + i / PATCH; }

struct UniformArgs {
    Geometry g;
    const uint8_t *same; // of its patches
    uint8_t *uniform;    // of its tiles
    uint64_t *count;     // of those that are
    Geometry next;       // its nodes are those of b2 here
    uint8_t *next_same;  // null: there is none
};

// One thread for each tile of the grid, and one for each patch of the next. A tile with the patches around it; of the
// next grid, a patch has two here across and down, less a place for its shift.
__device__ inline void spread_uniform(const UniformArgs &a, int k) {
    const int across = patches(a.g.cx), down = patches(a.g.cy);
    const auto all = [&](int x0, int y0, int x1, int y1) {
        if (x0 < 0 || y0 < 0 || x1 > across || y1 > down) return false;
        for (int y = y0; y < y1; ++y) {
            for (int x = x0; x < x1; ++x) {
                if (!a.same[y * across + x]) return false;
            }
        }
        return true;
    };
    const int columns = (a.g.cx + TILE_X - 1) / TILE_X, tiles = columns * ((a.g.cy + TILE_Y - 1) / TILE_Y);
    constexpr int ACROSS = TILE_X / PATCH, DOWN = TILE_Y / PATCH;
    if (k < tiles) {
        const int x = k % columns * ACROSS, y = k / columns * DOWN;
        const bool uniform = all(x - 1, y - 1, x + ACROSS + 1, y + DOWN + 1);
        a.uniform[k] = uniform;
        if (uniform) atomicAdd(reinterpret_cast<unsigned long long *>(a.count), 1ull);
    }
    if (a.next_same && k < patches(a.next.cx) * patches(a.next.cy)) {
        const int x = k % patches(a.next.cx) * 2, y = k / patches(a.next.cx) * 2;
        a.next_same[k] = all(x - 1, y - 1, x + 3, y + 3);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) rrb_uniform_f64(UniformArgs a) {
    spread_uniform(a, blockIdx.x * THREADS + thread_of_block());
}

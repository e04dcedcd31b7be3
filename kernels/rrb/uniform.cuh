// Uniform tiles: tiles in which all rows of the matrix are equal, separately for each colour. In such a tile, sweeps,
// and the kernels at the start and at the end of a solve, read the couplings of its first (I, J) only (`uniform_tiles`
// in storage.cuh).
//
// The factorization computes each number only from nearby rows of A, with the same instructions everywhere. If these
// rows are bitwise identical, the computed numbers are bitwise identical, too. The stored numbers of a grid depend on
// rows of the grid's matrix at a distance of at most three (I, J). The couplings of the next grid depend on rows at a
// distance of at most four. It is therefore sufficient to inspect A; the flags of each grid are derived from those of
// the previous grid.
#pragma once
#include "storage.cuh"

__device__ inline int patch_count(int extent) { return (extent + PATCH - 1) / PATCH; }
__device__ inline int patch_index(const Geometry &g, int i, int j) { return j / PATCH * patch_count(g.cx) + i / PATCH; }

struct UniformArgs {
    Geometry g;
    const uint8_t *equal_rows; // per patch: 1 if all rows in the patch are equal, separately for each colour
    uint8_t *uniform;          // per tile: whether it is uniform
    uint64_t *count;           // number of uniform tiles
    Geometry next;             // the next grid; its nodes are the b2 nodes of this grid
    uint8_t *next_equal_rows;  // null: there is no next grid
};

// There is one thread for each tile of the grid, and one for each patch of the next grid. A tile is uniform if the rows
// in its patches and in the patches around it are equal. A patch of the next grid corresponds to two patches of this
// grid in each direction, up to an offset of one (I, J). Its rows are equal if the rows in these patches and in the
// patches around them are equal.
__device__ inline void find_uniform_tiles(const UniformArgs &a, int k) {
    const int patches_per_row = patch_count(a.g.cx), patch_rows = patch_count(a.g.cy);
    const auto all_equal = [&](int x0, int y0, int x1, int y1) {
        if (x0 < 0 || y0 < 0 || x1 > patches_per_row || y1 > patch_rows) return false;
        for (int y = y0; y < y1; ++y) {
            for (int x = x0; x < x1; ++x) {
                if (!a.equal_rows[y * patches_per_row + x]) return false;
            }
        }
        return true;
    };
    const int tile_columns = (a.g.cx + TILE_X - 1) / TILE_X,
              tile_count = tile_columns * ((a.g.cy + TILE_Y - 1) / TILE_Y);
    constexpr int PATCHES_X = TILE_X / PATCH, PATCHES_Y = TILE_Y / PATCH;
    if (k < tile_count) {
        const int x = k % tile_columns * PATCHES_X, y = k / tile_columns * PATCHES_Y;
        const bool uniform = all_equal(x - 1, y - 1, x + PATCHES_X + 1, y + PATCHES_Y + 1);
        a.uniform[k] = uniform;
        if (uniform) atomicAdd(reinterpret_cast<unsigned long long *>(a.count), 1ull);
    }
    if (a.next_equal_rows && k < patch_count(a.next.cx) * patch_count(a.next.cy)) {
        const int x = k % patch_count(a.next.cx) * 2, y = k / patch_count(a.next.cx) * 2;
        a.next_equal_rows[k] = all_equal(x - 1, y - 1, x + 3, y + 3);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS) rrb_find_uniform_tiles_f64(UniformArgs a) {
    find_uniform_tiles(a, blockIdx.x * THREADS + thread_of_block());
}

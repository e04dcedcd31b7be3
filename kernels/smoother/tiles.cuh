// Relaxation of one item by 64 threads. An item is a tile of at most 8 x 8 x 8 cells: one block of 8^3 cells
// (`relax_cube`), smaller blocks that fill a tile (`relax_tile`), or other blocks (`relax_any`). The file
// kernels/smoother/smoother.cu describes lines, transposes and shared memory.
namespace blocks {

// Returns the index of a cell in shared memory; all transposes are free of bank conflicts
// (kernels/smoother/smoother.cu).
__device__ __forceinline__ int shared_index(int x, int y, int z) {
    return z * 64 + ((y & 6) | ((y ^ z) & 1)) * 8 + ((x ^ y) & 7);
}

// store_line writes the eight cells of a thread's line to shared memory, and load_line reads them. index_of(k) is the
// index of cell k in shared memory.
template <class IndexOf>
__device__ __forceinline__ void store_line(double *tile, const double (&v)[8], IndexOf index_of) {
#pragma unroll
    for (int k = 0; k < 8; ++k) tile[index_of(k)] = v[k];
}
template <class IndexOf>
__device__ __forceinline__ void load_line(double (&v)[8], const double *tile, IndexOf index_of) {
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = tile[index_of(k)];
}

// Exchanges lines between the threads through shared memory. On entry, v contains the cells of the thread's line at the
// indices source_index(k). On return, v contains the cells at the indices target_index(k).
template <class SourceIndex, class TargetIndex>
__device__ __forceinline__ void transpose_lines(
    double *tile, double (&v)[8], SourceIndex source_index, TargetIndex target_index) {
    store_line(tile, v, source_index);
    __syncthreads();
    load_line(v, tile, target_index);
}

// Multiplies the active cells of a line by the table of their block, unless `table` is NULL. Cell k is active if bit k
// of `active_cells` is set, and table_index(k) is its index in the table.
template <class TableIndex>
__device__ __forceinline__ void scale_by(
    double (&v)[8], const double *table, TableIndex table_index, unsigned active_cells = 255) {
    if (!table) return;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (active_cells >> k & 1) v[k] *= __ldg(table + table_index(k));
    }
}

// Applies S Lambda^-1 S^-1 to the blocks of a tile: transforms along z, x and y, the scaling by Lambda^-1, and
// transforms along y, x and z. With s = threadIdx.x & 7 and t = threadIdx.x >> 3, a thread processes three lines: the
// line along z at (x, y) = (s, t), the line along x at (y, z) = (s, t), and the line along y at (x, z) = (s, t).
template <class TransformLine, class ScaleLine>
__device__ __forceinline__ void solve_lines(
    double *tile, double (&v)[8], TransformLine transform_line, ScaleLine scale_line) {
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
#pragma unroll 1
    for (int step = 0; step < 6; ++step) {
        const int axis = step < 3 ? step : 5 - step;
        const auto cell_index = [&](int q) {
            return axis == 0 ? shared_index(s, t, q) : axis == 1 ? shared_index(q, s, t) : shared_index(s, q, t);
        };
        if (step != 0 && step != 3) load_line(v, tile, cell_index);
        if (step == 3) scale_line(v);
        transform_line(v, axis);
        if (step != 2 && step != 5) {
            store_line(tile, v, cell_index);
            __syncthreads();
        }
    }
}

// Returns where the values of an item's face on side `side` begin: the index of the first value in a buffer of faces.
// `faces` is the member of BlockItem with this name.
__device__ __forceinline__ int64_t face_start(unsigned faces, int side) {
    return int64_t(FACE_VALUES) * ((faces >> FIRST_FACE_SHIFT) + bit_count(faces & ((1u << side) - 1)));
}

// The values that a thread holds of the six faces around a tile of 8^3 cells, one value per face. The position in a
// face is (y, z) = (s, t) for west and east, (x, z) = (s, t) for south and north, and (x, y) = (s, t) for bottom and
// top, with s and t as in `solve_lines`.
struct FaceValues {
    double west, east, south, north, bottom, top;
};

// Reads the six faces around a tile. Faces that tiles of other patches wrote in the previous sweep are read from the
// buffer of faces, and all other faces from u. `corner` is the index of the tile's first cell in u. With
// `a.stores_ghosts`, the values from the buffer are also stored in the ghost cells.
__device__ __forceinline__ FaceValues load_faces(
    const RelaxArgs &a, const BlockItem &item, const BlockPatch &patch, int64_t corner) {
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3, row = patch.nx + 2;
    const int64_t plane = int64_t(row) * (patch.ny + 2);
    const unsigned sides = a.faces_read ? item.faces & SIDE_BITS : 0;
    const double *u = patch.u[a.source_array] + corner;
    const int64_t x = t * plane + s * row, y = t * plane + s, z = t * row + s;
    auto load = [&](int side, int64_t cell) {
        return load_relaxed(sides >> side & 1 ? a.faces_read + face_start(item.faces, side) + threadIdx.x : u + cell);
    };
    const FaceValues v = {load(0, x - 1), load(1, x + 8), load(2, y - row), load(3, y + 8 * row), load(4, z - plane),
        load(5, z + 8 * plane)};
    if (a.stores_ghosts && sides) {
        double *ghosts = patch.u[a.target_array] + corner;
        if (sides & 1) store_relaxed(ghosts + x - 1, v.west);
        if (sides & 2) store_relaxed(ghosts + x + 8, v.east);
        if (sides & 4) store_relaxed(ghosts + y - row, v.south);
        if (sides & 8) store_relaxed(ghosts + y + 8 * row, v.north);
        if (sides & 16) store_relaxed(ghosts + z - plane, v.bottom);
        if (sides & 32) store_relaxed(ghosts + z + 8 * plane, v.top);
    }
    return v;
}

// For each face that this tile exchanges, reads the number of the adjacent face of another patch, early enough to hide
// the latency. The caller executes a barrier of the thread block before `store_faces`.
__device__ __forceinline__ void load_partners(const RelaxArgs &a, const BlockItem &item, int *partners) {
    if (a.faces_written && threadIdx.x < bit_count(item.faces & SIDE_BITS))
        partners[threadIdx.x] = __ldg(a.partners + (item.faces >> FIRST_FACE_SHIFT) + threadIdx.x);
}

// Writes the active cells of the line along z at (x, y) = (s, t) to the faces for adjacent tiles of other patches,
// which read the faces in the next sweep. Each cell is active in one item of a sweep, so the faces are complete after
// the sweep.
__device__ __forceinline__ void store_faces(
    const RelaxArgs &a, const BlockItem &item, const int *partners, const double (&v)[8], unsigned active_cells) {
    const unsigned sides = item.faces & SIDE_BITS;
    if (!a.faces_written || !sides) return;
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
    auto face_address = [&](int side) {
        return a.faces_written + int64_t(FACE_VALUES) * partners[bit_count(sides & ((1u << side) - 1))];
    };
    auto write_line = [&](double *target) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (active_cells >> k & 1) target[k * 8] = v[k];
        }
    };
    if (sides & 1 && s == 0) write_line(face_address(0) + t);
    if (sides & 2 && s == 7) write_line(face_address(1) + t);
    if (sides & 4 && t == 0) write_line(face_address(2) + s);
    if (sides & 8 && t == 7) write_line(face_address(3) + s);
    if (sides & 16 && active_cells & 1) face_address(4)[threadIdx.x] = v[0];
    if (sides & 32 && active_cells >> 7 & 1) face_address(5)[threadIdx.x] = v[7];
}

// One block of 8 x 8 x 8 cells and a 7-point stencil. The right-hand side omits A_b u_b:
//     u_b + omega A_b^-1 (f - A u)_b = (1 - omega) u_b + omega A_b^-1 (f_b - contribution of the cells outside b).
// If omega is 1, only the six faces around the block are therefore read from u. In `halo`, west and east faces are
// stored at z*8 + y, south and north faces at z*8 + x. EAST_OFFSET is 72 and not 64, so that west and east faces use
// different banks of shared memory.
constexpr int EAST_OFFSET = 72, SOUTH_OFFSET = 136, NORTH_OFFSET = 200, HALO_VALUES = 264;

__device__ __forceinline__ void relax_cube(
    const RelaxArgs &a, const BlockItem &item, double *tile, double *halo, int *partners) {
    const BlockPatch &patch = a.patches[item.patch];
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
    const int row = patch.nx + 2;
    const int64_t plane = int64_t(row) * (patch.ny + 2);
    const int64_t corner = (item.z + 1) * plane + int64_t(item.y + 1) * row + item.x + 1;
    const BlockTables &tables = a.tables[TILE_CELLS - 1];

    double v[8];
    {
        const int64_t f_plane = int64_t(patch.nx) * patch.ny;
        const double *f = patch.f + item.z * f_plane + int64_t(item.y + t) * patch.nx + item.x + s;
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = __ldg(f + k * f_plane);
    }
    load_partners(a, item, partners);
    wait_for_previous_kernel();
    wait_for_chunks(a, item);
    {
        const FaceValues u = load_faces(a, item, patch, corner);
        halo[threadIdx.x] = u.west;
        halo[EAST_OFFSET + threadIdx.x] = u.east;
        halo[SOUTH_OFFSET + threadIdx.x] = u.south;
        halo[NORTH_OFFSET + threadIdx.x] = u.north;
        v[0] -= a.entries[4] * u.bottom;
        v[7] -= a.entries[22] * u.top;
    }
    __syncthreads();
    if (s == 0 || s == 7) {
        const double *halo_face = halo + (s == 0 ? 0 : EAST_OFFSET) + t, entry = s == 0 ? a.entries[12] : a.entries[14];
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] -= entry * halo_face[k * 8];
    }
    if (t == 0 || t == 7) {
        const double *halo_face = halo + (t == 0 ? SOUTH_OFFSET : NORTH_OFFSET) + s,
                     entry = t == 0 ? a.entries[10] : a.entries[16];
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] -= entry * halo_face[k * 8];
    }
    const auto table_index = [](int k) { return k * 64 + threadIdx.x; };
    // Lines along z at (x, y) = (s, t), along x at (y, z) = (s, t), and along y at (x, z) = (s, t).
    const auto z = [=](int k) { return shared_index(s, t, k); };
    const auto x = [=](int i) { return shared_index(i, s, t); };
    const auto y = [=](int j) { return shared_index(s, j, t); };
    scale_by(v, tables.inverse_diagonal, table_index);
    transform8(v);
    transpose_lines(tile, v, z, x);
    transform8(v);
    transpose_lines(tile, v, x, y);
    // Transform along y, scaling, and inverse transform along y. Lambda is computed and not read from a table, because
    // every `wait_for_chunks` invalidates the L1 cache. Reading a table would increase the traffic from L2 by one
    // eighth.
    transform8(v);
    const double lambda = a.eigenvalue_terms[s] + a.eigenvalue_terms[16 + t];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] *= a.weight * reciprocal(lambda + a.eigenvalue_terms[8 + j]);
    transform8(v);
    transpose_lines(tile, v, y, x);
    transform8(v);
    transpose_lines(tile, v, x, z);
    transform8(v);
    scale_by(v, tables.diagonal, table_index);
    double *out = patch.u[a.target_array] + corner + t * row + s;
    if (a.omega != 1.0) {
        const double *own_cells = patch.u[a.source_array] + corner + t * row + s;
        double u[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) u[k] = load_relaxed(own_cells + k * plane);
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = (1.0 - a.omega) * u[k] + a.omega * v[k];
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) store_relaxed(out + k * plane, v[k]);
    count_finished_item(a, item);
    store_faces(a, item, partners, v, 255);
}

// Cells of an item along one direction. `length`: cells of a block. `cell_count`: cells of all blocks.
// `block_distance`: distance in cells from the start of a block to the start of the next block of the item.
struct Axis {
    int length, cell_count, block_distance;
    __device__ __forceinline__ Axis(int block_length, int block_count, bool is_strided)
        : length(block_length), cell_count(block_length * block_count),
          block_distance(is_strided ? 2 * block_length : block_length) {}
    __device__ __forceinline__ int cell_offset(int q) const { return q / length * block_distance + q % length; }
};

// Computes v = A_b^-1 v for the active cells of a line, with the dense inverse of its blocks, column by column.
__device__ __forceinline__ void multiply_dense(double *tile, double (&v)[8], const double *dense_inverse, const Axis &x,
    const Axis &y, const Axis &z, unsigned active_cells) {
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
    const auto table_index = [&](int k) { return (k % z.length * y.length + t % y.length) * x.length + s % x.length; };
    store_line(tile, v, [=](int k) { return shared_index(s, t, k); });
    __syncthreads();
    const int block_cells = x.length * y.length * z.length;
    // First cell of this thread's block in the tile.
    const int first_i = s - s % x.length, first_j = t - t % y.length;
    if (z.length == z.cell_count) {
        // The whole line belongs to one block.
        double sum[8] = {};
        const double *inverse_column = dense_inverse + (active_cells ? table_index(0) : 0);
        const int plane_cells = x.length * y.length;
        for (int kk = 0; kk < z.length; ++kk) {
            for (int jj = 0; jj < y.length; ++jj) {
                for (int ii = 0; ii < x.length; ++ii, inverse_column += block_cells) {
                    const double r = tile[shared_index(first_i + ii, first_j + jj, kk)];
#pragma unroll
                    for (int k = 0; k < 8; ++k) {
                        if (active_cells >> k & 1) sum[k] += __ldg(inverse_column + k * plane_cells) * r;
                    }
                }
            }
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = sum[k];
    } else {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (!(active_cells >> k & 1)) continue;
            const double *inverse_column = dense_inverse + table_index(k);
            double sum = 0.0;
            for (int kk = k - k % z.length; kk < k - k % z.length + z.length; ++kk) {
                for (int jj = 0; jj < y.length; ++jj) {
                    for (int ii = 0; ii < x.length; ++ii, inverse_column += block_cells)
                        sum += __ldg(inverse_column) * tile[shared_index(first_i + ii, first_j + jj, kk)];
                }
            }
            v[k] = sum;
        }
    }
}

// Relaxes blocks of any shape with any stencil. RELAXED selects relaxed atomic loads and stores of u, because other
// items may write adjacent cells at the same time.
template <int POINTS, bool RELAXED>
__device__ __forceinline__ void relax_any(const RelaxArgs &a, const BlockItem &item, double *tile) {
    const BlockPatch &patch = a.patches[item.patch];
    const bool is_strided = item.shape & STRIDED_FLAG;
    const Axis x(item.shape & 15, item.shape >> 12 & 15, is_strided),
        y(item.shape >> 4 & 15, item.shape >> 16 & 15, is_strided),
        z(item.shape >> 8 & 15, item.shape >> 20 & 15, is_strided);
    const BlockTables &tables = a.tables[((z.length - 1) * 8 + y.length - 1) * 8 + x.length - 1];
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
    const int64_t row = patch.nx + 2, plane = row * (patch.ny + 2), f_plane = int64_t(patch.nx) * patch.ny;
    const bool is_inside = s < x.cell_count && t < y.cell_count;
    const int64_t first_index =
        (item.z + 1) * plane + (item.y + y.cell_offset(t) + 1) * row + item.x + x.cell_offset(s) + 1;
    const double *u = patch.u[a.source_array] + first_index;
    const double *f =
        patch.f + item.z * f_plane + int64_t(item.y + y.cell_offset(t)) * patch.nx + item.x + x.cell_offset(s);
    const int parity = s / x.length + t / y.length + (item.shape & ODD_PHASE_FLAG ? 1 : 0);
    const bool is_masked = item.shape & MASKED_FLAG;
    auto load = [](const double *p) { return RELAXED ? load_relaxed(p) : *p; };

    wait_for_previous_kernel();
    wait_for_chunks(a, item);
    double own_values[8], v[8];
    unsigned active_cells = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        own_values[k] = v[k] = 0.0;
        if (!is_inside || k >= z.cell_count || (is_masked && (parity + k / z.length & 1))) continue;
        active_cells |= 1u << k;
        const double *cell = u + z.cell_offset(k) * plane;
        own_values[k] = load(cell);
        double r = __ldg(f + z.cell_offset(k) * f_plane);
        if (POINTS == 7) {
            r -= a.entries[13] * own_values[k];
            r -= a.entries[12] * load(cell - 1);
            r -= a.entries[14] * load(cell + 1);
            r -= a.entries[10] * load(cell - row);
            r -= a.entries[16] * load(cell + row);
            r -= a.entries[4] * load(cell - plane);
            r -= a.entries[22] * load(cell + plane);
        } else {
#pragma unroll
            for (int q = 0; q < 27; ++q)
                r -= a.entries[q] *
                     (q == 13 ? own_values[k] : load(cell + (q / 9 - 1) * plane + (q / 3 % 3 - 1) * row + q % 3 - 1));
        }
        v[k] = r;
    }
    auto table_index = [&](int k) { return (k % z.length * y.length + t % y.length) * x.length + s % x.length; };
    if (tables.dense) {
        multiply_dense(tile, v, tables.dense, x, y, z, active_cells);
    } else {
        scale_by(v, tables.inverse_diagonal, table_index, active_cells);
        solve_lines(
            tile, v,
            [&](double (&v)[8], int axis) {
                transform_line(v, axis == 0 ? z.length : axis == 1 ? x.length : y.length);
            },
            [&](double (&v)[8]) {
                const double *reciprocals = tables.reciprocals + t % z.length * y.length * x.length + s % x.length;
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const bool is_in_tile = s < x.cell_count && j < y.cell_count && t < z.cell_count;
                    v[j] = is_in_tile ? v[j] * __ldg(reciprocals + j % y.length * x.length) : 0.0;
                }
            });
        scale_by(v, tables.diagonal, table_index, active_cells);
    }
    double *out = patch.u[a.target_array] + first_index;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (!(active_cells >> k & 1)) continue;
        double *cell = out + z.cell_offset(k) * plane;
        const double value = own_values[k] + a.omega * v[k];
        if (RELAXED) store_relaxed(cell, value);
        else *cell = value;
    }
    count_finished_item(a, item);
}

// Relaxes a whole tile of 8 x 8 x 8 cells with a 7-point stencil; the sides of the blocks divide 8. The result is
// bitwise identical to that of `relax_any`, but u is read once, into shared memory.
__device__ __forceinline__ void relax_tile(
    const RelaxArgs &a, const BlockItem &item, double *tile, double *halo, int *partners) {
    const BlockPatch &patch = a.patches[item.patch];
    const int lx = item.shape & 15, ly = item.shape >> 4 & 15, lz = item.shape >> 8 & 15;
    // Binary logarithms of the block sides.
    const int sx = (lx >> 1) - (lx >> 3), sy = (ly >> 1) - (ly >> 3), sz = (lz >> 1) - (lz >> 3);
    const BlockTables &tables = a.tables[((lz - 1) * 8 + ly - 1) * 8 + lx - 1];
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
    const int row = patch.nx + 2;
    const int64_t plane = int64_t(row) * (patch.ny + 2);
    const int64_t corner = (item.z + 1) * plane + int64_t(item.y + 1) * row + item.x + 1;
    const int parity = (s >> sx) + (t >> sy) + (item.shape & ODD_PHASE_FLAG ? 1 : 0);
    const bool is_masked = item.shape & MASKED_FLAG;
    unsigned active_cells = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) active_cells |= is_masked && (parity + (k >> sz) & 1) ? 0u : 1u << k;

    double line[10], v[8];
    {
        const int64_t f_plane = int64_t(patch.nx) * patch.ny;
        const double *f = patch.f + item.z * f_plane + int64_t(item.y + t) * patch.nx + item.x + s;
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = active_cells >> k & 1 ? __ldg(f + k * f_plane) : 0.0;
    }
    load_partners(a, item, partners);
    wait_for_previous_kernel();
    wait_for_chunks(a, item);
    {
        const double *own_cells = patch.u[a.source_array] + corner + t * row + s;
#pragma unroll
        for (int k = 1; k < 9; ++k) line[k] = load_relaxed(own_cells + (k - 1) * plane);
        const FaceValues u = load_faces(a, item, patch, corner);
        line[0] = u.bottom;
        line[9] = u.top;
        halo[threadIdx.x] = u.west;
        halo[EAST_OFFSET + threadIdx.x] = u.east;
        halo[SOUTH_OFFSET + threadIdx.x] = u.south;
        halo[NORTH_OFFSET + threadIdx.x] = u.north;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) tile[shared_index(s, t, k)] = line[k + 1];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        double r = v[k];
        r -= a.entries[13] * line[k + 1];
        r -= a.entries[12] * (s == 0 ? halo[k * 8 + t] : tile[shared_index(s - 1, t, k)]);
        r -= a.entries[14] * (s == 7 ? halo[EAST_OFFSET + k * 8 + t] : tile[shared_index(s + 1, t, k)]);
        r -= a.entries[10] * (t == 0 ? halo[SOUTH_OFFSET + k * 8 + s] : tile[shared_index(s, t - 1, k)]);
        r -= a.entries[16] * (t == 7 ? halo[NORTH_OFFSET + k * 8 + s] : tile[shared_index(s, t + 1, k)]);
        r -= a.entries[4] * line[k];
        r -= a.entries[22] * line[k + 2];
        v[k] = active_cells >> k & 1 ? r : 0.0;
    }
    __syncthreads();
    auto table_index = [&](int k) { return (((k & (lz - 1)) << sy) + (t & (ly - 1)) << sx) + (s & (lx - 1)); };
    scale_by(v, tables.inverse_diagonal, table_index);
    solve_lines(
        tile, v,
        [&](double (&v)[8], int axis) {
            const int length = axis == 0 ? lz : axis == 1 ? lx : ly;
            if (length == 8) transform8(v);
            else if (length == 4) transform_blocks<4>(v);
            else if (length == 2) transform_blocks<2>(v);
        },
        [&](double (&v)[8]) {
            const double *reciprocals = tables.reciprocals + ((t & (lz - 1)) << sx + sy) + (s & (lx - 1));
#pragma unroll
            for (int j = 0; j < 8; ++j) v[j] *= __ldg(reciprocals + ((j & (ly - 1)) << sx));
        });
    scale_by(v, tables.diagonal, table_index);
    double *out = patch.u[a.target_array] + corner + t * row + s;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        v[k] = line[k + 1] + a.omega * v[k];
        if (active_cells >> k & 1) store_relaxed(out + k * plane, v[k]);
    }
    count_finished_item(a, item);
    store_faces(a, item, partners, v, active_cells);
}

} // namespace blocks

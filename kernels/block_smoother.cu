// Block relaxation on patches: u_b + omega A_b^-1 (f - A u)_b for the blocks b of a list of patches, by colours, all at
// once, or in an order. Rodriguez et al., algorithms 1 to 3; A_b^-1 = D S Lambda^-1 S^-1 D^-1 (src/grid/block_inverse.rs):
// three sine transforms, a scale, three transforms; or a dense inverse.
//
// Layout: u of a patch u[((k+1)*(ny+2) + j+1)*(nx+2) + i+1], f[(k*ny + j)*nx + i]; a table of patches. A work item is a tile
// of at most 8 x 8 x 8 cells: one block of 8^3, or as many smaller ones of one shape as fit, beside each other (with eight
// colours: every other one). Tables of a shape: weighted 1 / Lambda at (r*by + q)*bx + p, D^-1 and D in the order of cells,
// dense inverses by columns.
//
// Launch: one block of 64 threads an item. A thread holds a line of eight cells in registers, along z, x or y: thread t has
// the line at (t & 7, t >> 3) of the other two directions. Lines are turned through shared memory, 4 KB a tile, whose places
// are scrambled so that all turns are free of bank conflicts:
//     place(x, y, z) = z*64 + ((y & 6) | ((y ^ z) & 1))*8 + ((x ^ y) & 7)      (16 banks of 8 bytes)
// Rows of eight cells, 64 bytes, are read and written.
//
// One launch a sweep. Items come in stages (colours) and chunks (about 64 tiles, whole layers of tiles of a patch): stage 0
// of chunk c, stage 1 of chunk c - lag, ... An item of stage s waits until all lower stages of its own chunk and of those
// before and after are complete (`progress`, counted up from launch to launch), so that u and f of a chunk come from memory
// once and from the L2 cache for the later colours. A chunk may lack a stage (patches of one block along an axis), so that
// it is not enough to wait for the stage before. Blocks of threads start in the order of their numbers, as CUB's scans rely
// on too; an item waits only for items before it, so that somebody can always go on.
//
// Ghost cells are exchanged by a launch of its own before the first sweep of a call. Then whole tiles at the edge of a patch
// hand their faces over to those beyond, for the next sweep, in two sets of faces that alternate (`around`, `leave`): each
// tile is relaxed once a sweep, so that these are the values that an exchange before that sweep would copy. The last sweep
// writes what it reads so to the ghost cells too. A launch begins while the one before ends (`let_next_begin`).
//
// Bytes a cell and sweep: f read, u read and written: 24 from memory. Through L2, 8^3 blocks: 37 (rows of u are 96 bytes
// with what shares their sectors, faces are read twice). Faces between patches: 16 a value. West and east faces of all tiles
// kept apart, 512 contiguous bytes for 64 sectors, took longer: what lies between the colours must stay in L2.
//
// Races: cells that an item reads are its own, or of blocks of other colours, or ghosts. Blocks of one colour do not touch.
// What an earlier stage wrote is released by `advance` (after a barrier of the block) and acquired by `wait` (before one). An
// item of a later stage cannot write what this one reads: it waits for this one. Jacobi reads one array and writes the other.
// Faces between patches are read from one set and written to the other, each value by one thread.
// The asynchronous (chaotic) method waits for its own chunk only: across chunks it reads what is there, by relaxed loads and
// stores of eight bytes.
namespace blocks {

constexpr int TILE_THREADS = 64;
constexpr int TILE_CELLS = 512;

struct Patch {
    double *u[2];      // the caller's, and the other one of Jacobi
    const double *f;
    double *r;         // residual, or NULL
    int nx, ny, nz, unused;
};

// Blocks of lx x ly x lz cells, cx x cy x cz of them, from a first cell. `shape`: lx, ly, lz, cx, cy, cz in four bits each,
// then flags. Every other block: strided. Of the blocks of a masked item those with ix + iy + iz + phase even are relaxed.
struct Item {
    int patch, x, y, z;
    unsigned shape;
    int wait;          // place in `totals` of what must be done in the chunk before, the own one and the next; -1: nothing
    int done;          // place of the own chunk in `progress` and `totals`
    unsigned faces;    // sides that touch a tile of another patch, of which this one's first face has a number from bit 7 on
};
constexpr unsigned STRIDED = 1u << 24, MASKED = 1u << 25, PHASE = 1u << 26;
// Sides in the order west, east, south, north, bottom, top; whether an item counts in `progress`.
constexpr unsigned SIDES = 63, ADVANCES = 64, FIRST_FACE = 7;

// Tables of a shape, at ((lz-1)*8 + ly-1)*8 + lx-1.
struct Tables {
    const double *reciprocals, *before, *after, *dense, *packed;
};

// Part of the ghost layer of one patch that another covers, at most BOX_CELLS cells.
struct Copy {
    int to_patch, from_patch;
    int64_t to, from;
    int nx, ny, nz, unused;
};
constexpr int BOX_CELLS = 512;

struct RelaxArgs {
    const Patch *patches;
    const Item *items;
    const Tables *tables;
    unsigned *progress;
    const unsigned *totals;   // items of a chunk that count in one launch; then, stage by stage, those of lower stages
    unsigned launches;        // of this plan, this one counted
    int from, to;             // which of the two arrays is read, is written
    int own_chunk;            // wait for the own chunk only
    double omega;
    double legs[27];          // (c+1)*9 + (b+1)*3 + a+1
    unsigned count;           // items
    double eigenvalues[24];   // of 8^3 blocks of a 7-point stencil: Lambda = x[p] + y[q] + z[r]
    double weight;            // of three inverse transforms
    int points, dense;        // dense inverses
    // Faces between tiles of different patches, 64 values each: those that came with the sweep before, to be read instead of
    // ghost cells, and those for the next sweep; or NULL. Whose face it is on the other side.
    const double *arrived;
    double *leaving;
    const int *partners;
    int keep;                 // what arrived is written to the ghost cells too
};
constexpr int FACE = 64;

#ifdef RRB_EMULATED
__device__ __forceinline__ double load_relaxed(const double *p) { return *p; }
__device__ __forceinline__ void store_relaxed(double *p, double v) { *p = v; }
__device__ __forceinline__ unsigned load_acquire(const unsigned *p) { return *p; }
__device__ __forceinline__ void add_release(unsigned *p) { ++*p; }
__device__ __forceinline__ void pause() {}
__device__ __forceinline__ double reciprocal(double x) { return 1.0 / x; }
__device__ __forceinline__ int bits(unsigned v) { return __builtin_popcount(v); }
__device__ __forceinline__ void let_next_begin() {}
__device__ __forceinline__ void wait_for_previous() {}
#else
__device__ __forceinline__ int bits(unsigned v) { return __popc(v); }
// A launch that is allowed to (`Stream::launch`) begins when all blocks of the one before have begun, and fills the places of
// those that end; what that one writes is there, and what it reads may be written, after the second function.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ double load_relaxed(const double *p) {
    double v;
    asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];" : "=d"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ void store_relaxed(double *p, double v) { asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(p), "d"(v)); }
__device__ __forceinline__ unsigned load_acquire(const unsigned *p) {
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void add_release(unsigned *p) { asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory"); }
__device__ __forceinline__ void pause() { __nanosleep(40); }
// To rounding: 20 bits, doubled twice.
__device__ __forceinline__ double reciprocal(double x) {
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
    r = fma(fma(-x, r, 1.0), r, r);
    return fma(fma(-x, r, 1.0), r, r);
}
#endif

// Waits for all lower stages of the chunk before, the own one and the next. Items that count do so after those of lower
// stages in their chunk, so that a count tells which stages are complete.
__device__ __forceinline__ void wait(const RelaxArgs &a, const Item &item) {
    if (item.wait < 0) return;
    if (threadIdx.x < 3 && (!a.own_chunk || threadIdx.x == 1)) {
        const int chunk = item.done - 1 + threadIdx.x;
        const unsigned target = a.totals[chunk] * (a.launches - 1) + a.totals[item.wait + threadIdx.x];
        while (static_cast<int>(load_acquire(a.progress + chunk) - target) < 0) pause();
    }
    __syncthreads();
}

__device__ __forceinline__ void advance(const RelaxArgs &a, const Item &item) {
    if (!(item.faces & ADVANCES)) return;
    __syncthreads();
    if (threadIdx.x == 0) add_release(a.progress + item.done);
}

__device__ __forceinline__ int place(int x, int y, int z) { return z * 64 + ((y & 6) | ((y ^ z) & 1)) * 8 + ((x ^ y) & 7); }

// Where the first values of the face on a side begin.
__device__ __forceinline__ int64_t face_of(unsigned faces, int side) { return int64_t(FACE) * ((faces >> FIRST_FACE) + bits(faces & ((1u << side) - 1))); }

// The six faces around a tile of 8^3, a value of each: of (y, z), (x, z) or (x, y) = (s, t).
struct Around {
    double west, east, south, north, bottom, top;
};

// From the cells at `corner` of u, or from what arrived from other patches.
__device__ __forceinline__ Around around(const RelaxArgs &a, const Item &item, const Patch &patch, int64_t corner) {
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3, row = patch.nx + 2;
    const int64_t plane = int64_t(row) * (patch.ny + 2);
    const unsigned sides = a.arrived ? item.faces & SIDES : 0;
    const double *u = patch.u[a.from] + corner;
    const int64_t x = t * plane + s * row, y = t * plane + s, z = t * row + s;
    auto load = [&](int side, int64_t cell) {
        return load_relaxed(sides >> side & 1 ? a.arrived + face_of(item.faces, side) + threadIdx.x : u + cell);
    };
    const Around v = {load(0, x - 1), load(1, x + 8), load(2, y - row), load(3, y + 8 * row), load(4, z - plane), load(5, z + 8 * plane)};
    if (a.keep && sides) {
        double *ghosts = patch.u[a.to] + corner;
        if (sides & 1) store_relaxed(ghosts + x - 1, v.west);
        if (sides & 2) store_relaxed(ghosts + x + 8, v.east);
        if (sides & 4) store_relaxed(ghosts + y - row, v.south);
        if (sides & 8) store_relaxed(ghosts + y + 8 * row, v.north);
        if (sides & 16) store_relaxed(ghosts + z - plane, v.bottom);
        if (sides & 32) store_relaxed(ghosts + z + 8 * plane, v.top);
    }
    return v;
}

// Who gets the faces of this tile; read long before they are known. Followed by a barrier of the block before `leave`.
__device__ __forceinline__ void find_partners(const RelaxArgs &a, const Item &item, int *partners) {
    if (a.leaving && threadIdx.x < bits(item.faces & SIDES)) partners[threadIdx.x] = __ldg(a.partners + (item.faces >> FIRST_FACE) + threadIdx.x);
}

// The relaxed values of the line along z at (x, y) = (s, t) go to the tiles of other patches that touch this one, for their
// next sweep: each cell is relaxed once a sweep.
__device__ __forceinline__ void leave(const RelaxArgs &a, const Item &item, const int *partners, const double (&v)[8], unsigned active) {
    const unsigned sides = item.faces & SIDES;
    if (!a.leaving || !sides) return;
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
    auto face = [&](int side) { return a.leaving + int64_t(FACE) * partners[bits(sides & ((1u << side) - 1))]; };
    auto line = [&](double *to) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (active >> k & 1) to[k * 8] = v[k];
        }
    };
    if (sides & 1 && s == 0) line(face(0) + t);
    if (sides & 2 && s == 7) line(face(1) + t);
    if (sides & 4 && t == 0) line(face(2) + s);
    if (sides & 8 && t == 7) line(face(3) + s);
    if (sides & 16 && active & 1) face(4)[threadIdx.x] = v[0];
    if (sides & 32 && active >> 7 & 1) face(5)[threadIdx.x] = v[7];
}

// sin(20 k degrees), k = 1, 2, 3; the fourth is the sum of the first two.
constexpr double S1 = 0.34202014332566873304, S2 = 0.64278760968653932632, S3 = 0.86602540378443864676;

// The sine transform of length 8, 36 operations: mirror images, then two of length 4.
__device__ __forceinline__ void transform8(double (&v)[8]) {
    const double p1 = v[0] + v[7], p2 = v[1] + v[6], p3 = v[2] + v[5], p4 = v[3] + v[4];
    const double m1 = v[0] - v[7], m2 = v[1] - v[6], m3 = v[2] - v[5], m4 = v[3] - v[4];
    double t = S3 * p3;
    double a = p1 + p4, b = p2 + p4, c = p1 - p2;
    v[0] = S1 * a + (S2 * b + t);
    v[2] = S3 * (p1 + p2 - p4);
    v[4] = S1 * c + (S2 * a - t);
    v[6] = S2 * c + (t - S1 * b);
    t = S3 * m3;
    a = m1 + m2, b = m2 + m4, c = m1 - m4;
    v[1] = S2 * a + (S1 * b + t);
    v[3] = S1 * a + (S2 * c - t);
    v[5] = S3 * (m1 - m2 + m4);
    v[7] = S1 * c + (t - S2 * b);
}

// sin(k pi / n), n <= 8; a literal where k and n are.
__device__ __forceinline__ double sine(int n, int k) {
    k %= 2 * n;
    const double sign = k > n ? -1.0 : 1.0;
    k = k > n ? k - n : k;
    k = 2 * k > n ? n - k : k;
    switch (n * 8 + k) {
        case 2 * 8 + 1: case 4 * 8 + 2: case 6 * 8 + 3: case 8 * 8 + 4: return sign;
        case 3 * 8 + 1: case 6 * 8 + 2: return sign * S3;
        case 4 * 8 + 1: case 8 * 8 + 2: return sign * 0.70710678118654752440;
        case 5 * 8 + 1: return sign * 0.58778525229247312917;
        case 5 * 8 + 2: return sign * 0.95105651629515357212;
        case 6 * 8 + 1: return sign * 0.5;
        case 7 * 8 + 1: return sign * 0.43388373911755812048;
        case 7 * 8 + 2: return sign * 0.78183148246802980871;
        case 7 * 8 + 3: return sign * 0.97492791218182360702;
        case 8 * 8 + 1: return sign * 0.38268343236508977173;
        case 8 * 8 + 3: return sign * 0.92387953251128675613;
        default: return 0.0;
    }
}

// Transforms of length B, as many as a line has room for: mirror images, then row by row.
template <int B> __device__ __forceinline__ void transforms(double (&v)[8]) {
#pragma unroll
    for (int first = 0; first + B <= 8; first += B) {
        double plus[(B + 1) / 2], minus[(B + 1) / 2];
#pragma unroll
        for (int q = 0; q < (B + 1) / 2; ++q) {
            const double x = v[first + q], y = v[first + B - 1 - q];
            const bool middle = 2 * q + 1 == B;
            plus[q] = middle ? x : x + y;
            minus[q] = middle ? 0.0 : x - y;
        }
#pragma unroll
        for (int r = 0; r < B; ++r) {
            double sum = 0.0;
#pragma unroll
            for (int q = 0; q < (B + 1) / 2; ++q) {
                if (r % 2 == 1 && 2 * q + 1 == B) continue;
                const double term = r % 2 == 0 ? plus[q] : minus[q], factor = sine(B + 1, (r + 1) * (q + 1));
                sum = q == 0 ? factor * term : sum + factor * term;
            }
            v[first + r] = sum;
        }
    }
}

__device__ __forceinline__ void transform(double (&v)[8], int length) {
    switch (length) {
        case 1: break;
        case 2: transforms<2>(v); break;
        case 3: transforms<3>(v); break;
        case 4: transforms<4>(v); break;
        case 5: transforms<5>(v); break;
        case 6: transforms<6>(v); break;
        case 7: transforms<7>(v); break;
        default: transform8(v);
    }
}

// One block of 8 x 8 x 8 and a 7-point stencil. With A_b u_b taken out of the residual,
//     u_b + omega A_b^-1 (f - A u)_b = (1 - omega) u_b + omega A_b^-1 (f_b - the part of A u from outside of the block),
// so that of u only the six faces around the block are read where omega is 1. West and east faces lie in `halo` at z*8 + y,
// south and north at z*8 + x.
constexpr int EAST = 72, SOUTH = 136, NORTH = 200, HALO = 264;   // the west and east of one lane in different banks

__device__ __forceinline__ void relax_cube(const RelaxArgs &a, const Item &item, double *tile, double *halo, int *partners) {
    const Patch &patch = a.patches[item.patch];
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
    const int row = patch.nx + 2;
    const int64_t plane = int64_t(row) * (patch.ny + 2);
    const int64_t corner = (item.z + 1) * plane + int64_t(item.y + 1) * row + item.x + 1;
    const Tables &tables = a.tables[TILE_CELLS - 1];

    double v[8];
    {
        const int64_t f_plane = int64_t(patch.nx) * patch.ny;
        const double *f = patch.f + item.z * f_plane + int64_t(item.y + t) * patch.nx + item.x + s;
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = __ldg(f + k * f_plane);
    }
    find_partners(a, item, partners);
    wait_for_previous();
    wait(a, item);
    {
        const Around u = around(a, item, patch, corner);
        halo[threadIdx.x] = u.west;
        halo[EAST + threadIdx.x] = u.east;
        halo[SOUTH + threadIdx.x] = u.south;
        halo[NORTH + threadIdx.x] = u.north;
        v[0] -= a.legs[4] * u.bottom;
        v[7] -= a.legs[22] * u.top;
    }
    __syncthreads();
    if (s == 0 || s == 7) {
        const double *face = halo + (s == 0 ? 0 : EAST) + t, leg = s == 0 ? a.legs[12] : a.legs[14];
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] -= leg * face[k * 8];
    }
    if (t == 0 || t == 7) {
        const double *face = halo + (t == 0 ? SOUTH : NORTH) + s, leg = t == 0 ? a.legs[10] : a.legs[16];
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] -= leg * face[k * 8];
    }
    if (tables.before) {
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] *= __ldg(tables.before + k * 64 + threadIdx.x);
    }
    // Lines along z, of (x, y) = (s, t).
    transform8(v);
#pragma unroll
    for (int k = 0; k < 8; ++k) tile[place(s, t, k)] = v[k];
    __syncthreads();
    // Along x, of (y, z) = (s, t).
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = tile[place(i, s, t)];
    transform8(v);
#pragma unroll
    for (int i = 0; i < 8; ++i) tile[place(i, s, t)] = v[i];
    __syncthreads();
    // Along y, of (x, z) = (s, t): there, the scale, and back. Lambda is computed: a table would not stay in a first-level
    // cache, which every `wait` empties, and would be an eighth of what L2 delivers.
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = tile[place(s, j, t)];
    transform8(v);
    const double lambda = a.eigenvalues[s] + a.eigenvalues[16 + t];
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] *= a.weight * reciprocal(lambda + a.eigenvalues[8 + j]);
    transform8(v);
#pragma unroll
    for (int j = 0; j < 8; ++j) tile[place(s, j, t)] = v[j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = tile[place(i, s, t)];
    transform8(v);
#pragma unroll
    for (int i = 0; i < 8; ++i) tile[place(i, s, t)] = v[i];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = tile[place(s, t, k)];
    transform8(v);
    if (tables.after) {
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] *= __ldg(tables.after + k * 64 + threadIdx.x);
    }
    double *out = patch.u[a.to] + corner + t * row + s;
    if (a.omega != 1.0) {
        const double *own = patch.u[a.from] + corner + t * row + s;
        double u[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) u[k] = load_relaxed(own + k * plane);
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = (1.0 - a.omega) * u[k] + a.omega * v[k];
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) store_relaxed(out + k * plane, v[k]);
    advance(a, item);
    leave(a, item, partners, v, 255);
}

// Cells of an item along one direction.
struct Axis {
    int length, cells, pitch;
    __device__ __forceinline__ Axis(int length, int count, bool strided) : length(length), cells(length * count), pitch(strided ? 2 * length : length) {}
    __device__ __forceinline__ int at(int q) const { return q / length * pitch + q % length; }
};

// Any shape, any stencil. RELAXED: neighbours may be written at the same time.
template <int POINTS, bool RELAXED> __device__ __forceinline__ void relax_any(const RelaxArgs &a, const Item &item, double *tile) {
    const Patch &patch = a.patches[item.patch];
    const bool strided = item.shape & STRIDED;
    const Axis x(item.shape & 15, item.shape >> 12 & 15, strided), y(item.shape >> 4 & 15, item.shape >> 16 & 15, strided),
        z(item.shape >> 8 & 15, item.shape >> 20 & 15, strided);
    const Tables &tables = a.tables[((z.length - 1) * 8 + y.length - 1) * 8 + x.length - 1];
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
    const int64_t row = patch.nx + 2, plane = row * (patch.ny + 2), f_plane = int64_t(patch.nx) * patch.ny;
    const bool inside = s < x.cells && t < y.cells;
    const int64_t first = (item.z + 1) * plane + (item.y + y.at(t) + 1) * row + item.x + x.at(s) + 1;
    const double *u = patch.u[a.from] + first;
    const double *f = patch.f + item.z * f_plane + int64_t(item.y + y.at(t)) * patch.nx + item.x + x.at(s);
    const int phase = s / x.length + t / y.length + (item.shape & PHASE ? 1 : 0);
    const bool masked = item.shape & MASKED;
    auto load = [](const double *p) { return RELAXED ? load_relaxed(p) : *p; };

    wait_for_previous();
    wait(a, item);
    double own[8], v[8];
    unsigned active = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        own[k] = v[k] = 0.0;
        if (!inside || k >= z.cells || (masked && (phase + k / z.length & 1))) continue;
        active |= 1u << k;
        const double *c = u + z.at(k) * plane;
        own[k] = load(c);
        double r = __ldg(f + z.at(k) * f_plane);
        if (POINTS == 7) {
            r -= a.legs[13] * own[k];
            r -= a.legs[12] * load(c - 1);
            r -= a.legs[14] * load(c + 1);
            r -= a.legs[10] * load(c - row);
            r -= a.legs[16] * load(c + row);
            r -= a.legs[4] * load(c - plane);
            r -= a.legs[22] * load(c + plane);
        } else {
#pragma unroll
            for (int q = 0; q < 27; ++q) r -= a.legs[q] * (q == 13 ? own[k] : load(c + (q / 9 - 1) * plane + (q / 3 % 3 - 1) * row + q % 3 - 1));
        }
        v[k] = r;
    }
    auto cell = [&](int k) { return (k % z.length * y.length + t % y.length) * x.length + s % x.length; };
    if (tables.dense) {
#pragma unroll
        for (int k = 0; k < 8; ++k) tile[place(s, t, k)] = v[k];
        __syncthreads();
        const int cells = x.length * y.length * z.length;
        // First cell of this thread's block in the tile.
        const int i0 = s - s % x.length, j0 = t - t % y.length;
        if (z.length == z.cells) {
            // All of the line in one block.
            double sum[8] = {};
            const double *column = tables.dense + (active ? cell(0) : 0);
            const int layer = x.length * y.length;
            for (int kk = 0; kk < z.length; ++kk) {
                for (int jj = 0; jj < y.length; ++jj) {
                    for (int ii = 0; ii < x.length; ++ii, column += cells) {
                        const double r = tile[place(i0 + ii, j0 + jj, kk)];
#pragma unroll
                        for (int k = 0; k < 8; ++k) {
                            if (active >> k & 1) sum[k] += __ldg(column + k * layer) * r;
                        }
                    }
                }
            }
#pragma unroll
            for (int k = 0; k < 8; ++k) v[k] = sum[k];
        } else {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                if (!(active >> k & 1)) continue;
                const double *column = tables.dense + cell(k);
                double sum = 0.0;
                for (int kk = k - k % z.length; kk < k - k % z.length + z.length; ++kk) {
                    for (int jj = 0; jj < y.length; ++jj) {
                        for (int ii = 0; ii < x.length; ++ii, column += cells) sum += __ldg(column) * tile[place(i0 + ii, j0 + jj, kk)];
                    }
                }
                v[k] = sum;
            }
        }
    } else {
        if (tables.before) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                if (active >> k & 1) v[k] *= __ldg(tables.before + cell(k));
            }
        }
        // Along z, x, y, the scale, along y, x, z. Lines of (x, y), (y, z), (x, z) = (s, t).
#pragma unroll 1
        for (int step = 0; step < 6; ++step) {
            const int axis = step < 3 ? step : 5 - step;
            auto at = [&](int q) { return axis == 0 ? place(s, t, q) : axis == 1 ? place(q, s, t) : place(s, q, t); };
            if (step != 0 && step != 3) {
#pragma unroll
                for (int q = 0; q < 8; ++q) v[q] = tile[at(q)];
            }
            if (step == 3) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const bool there = s < x.cells && j < y.cells && t < z.cells;
                    v[j] = there ? v[j] * __ldg(tables.reciprocals + (t % z.length * y.length + j % y.length) * x.length + s % x.length) : 0.0;
                }
            }
            transform(v, axis == 0 ? z.length : axis == 1 ? x.length : y.length);
            if (step != 2 && step != 5) {
#pragma unroll
                for (int q = 0; q < 8; ++q) tile[at(q)] = v[q];
                __syncthreads();
            }
        }
        if (tables.after) {
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                if (active >> k & 1) v[k] *= __ldg(tables.after + cell(k));
            }
        }
    }
    double *out = patch.u[a.to] + first;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (!(active >> k & 1)) continue;
        double *c = out + z.at(k) * plane;
        const double value = own[k] + a.omega * v[k];
        if (RELAXED) store_relaxed(c, value);
        else *c = value;
    }
    advance(a, item);
}

// A whole tile of 8 x 8 x 8 cells in blocks whose sides divide 8, and a 7-point stencil: as `relax_any` does it, to every
// bit, but u comes once, into shared memory.
__device__ __forceinline__ void relax_tile(const RelaxArgs &a, const Item &item, double *tile, double *halo, int *partners) {
    const Patch &patch = a.patches[item.patch];
    const int lx = item.shape & 15, ly = item.shape >> 4 & 15, lz = item.shape >> 8 & 15;
    // Logarithms.
    const int sx = (lx >> 1) - (lx >> 3), sy = (ly >> 1) - (ly >> 3), sz = (lz >> 1) - (lz >> 3);
    const Tables &tables = a.tables[((lz - 1) * 8 + ly - 1) * 8 + lx - 1];
    const int s = threadIdx.x & 7, t = threadIdx.x >> 3;
    const int row = patch.nx + 2;
    const int64_t plane = int64_t(row) * (patch.ny + 2);
    const int64_t corner = (item.z + 1) * plane + int64_t(item.y + 1) * row + item.x + 1;
    const int phase = (s >> sx) + (t >> sy) + (item.shape & PHASE ? 1 : 0);
    const bool masked = item.shape & MASKED;
    unsigned active = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) active |= masked && (phase + (k >> sz) & 1) ? 0u : 1u << k;

    double line[10], v[8];
    {
        const int64_t f_plane = int64_t(patch.nx) * patch.ny;
        const double *f = patch.f + item.z * f_plane + int64_t(item.y + t) * patch.nx + item.x + s;
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = active >> k & 1 ? __ldg(f + k * f_plane) : 0.0;
    }
    find_partners(a, item, partners);
    wait_for_previous();
    wait(a, item);
    {
        const double *column = patch.u[a.from] + corner + t * row + s;
#pragma unroll
        for (int k = 1; k < 9; ++k) line[k] = load_relaxed(column + (k - 1) * plane);
        const Around u = around(a, item, patch, corner);
        line[0] = u.bottom;
        line[9] = u.top;
        halo[threadIdx.x] = u.west;
        halo[EAST + threadIdx.x] = u.east;
        halo[SOUTH + threadIdx.x] = u.south;
        halo[NORTH + threadIdx.x] = u.north;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) tile[place(s, t, k)] = line[k + 1];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        double r = v[k];
        r -= a.legs[13] * line[k + 1];
        r -= a.legs[12] * (s == 0 ? halo[k * 8 + t] : tile[place(s - 1, t, k)]);
        r -= a.legs[14] * (s == 7 ? halo[EAST + k * 8 + t] : tile[place(s + 1, t, k)]);
        r -= a.legs[10] * (t == 0 ? halo[SOUTH + k * 8 + s] : tile[place(s, t - 1, k)]);
        r -= a.legs[16] * (t == 7 ? halo[NORTH + k * 8 + s] : tile[place(s, t + 1, k)]);
        r -= a.legs[4] * line[k];
        r -= a.legs[22] * line[k + 2];
        v[k] = active >> k & 1 ? r : 0.0;
    }
    __syncthreads();
    auto cell = [&](int k) { return (((k & (lz - 1)) << sy) + (t & (ly - 1)) << sx) + (s & (lx - 1)); };
    if (tables.before) {
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] *= __ldg(tables.before + cell(k));
    }
#pragma unroll 1
    for (int step = 0; step < 6; ++step) {
        const int axis = step < 3 ? step : 5 - step;
        auto at = [&](int q) { return axis == 0 ? place(s, t, q) : axis == 1 ? place(q, s, t) : place(s, q, t); };
        if (step != 0 && step != 3) {
#pragma unroll
            for (int q = 0; q < 8; ++q) v[q] = tile[at(q)];
        }
        if (step == 3) {
            const double *reciprocals = tables.reciprocals + ((t & (lz - 1)) << sx + sy) + (s & (lx - 1));
#pragma unroll
            for (int j = 0; j < 8; ++j) v[j] *= __ldg(reciprocals + ((j & (ly - 1)) << sx));
        }
        const int length = axis == 0 ? lz : axis == 1 ? lx : ly;
        if (length == 8) transform8(v);
        else if (length == 4) transforms<4>(v);
        else if (length == 2) transforms<2>(v);
        if (step != 2 && step != 5) {
#pragma unroll
            for (int q = 0; q < 8; ++q) tile[at(q)] = v[q];
            __syncthreads();
        }
    }
    if (tables.after) {
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] *= __ldg(tables.after + cell(k));
    }
    double *out = patch.u[a.to] + corner + t * row + s;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        v[k] = line[k + 1] + a.omega * v[k];
        if (active >> k & 1) store_relaxed(out + k * plane, v[k]);
    }
    advance(a, item);
    leave(a, item, partners, v, active);
}

// Dense inverses of blocks of 8^3: 512 x 512 times 512 x COLUMNS by the tensor cores, by blocks of threads that stay and take
// group after group of COLUMNS blocks. Eight warps multiply, each with 64 rows of the result in registers, two a quarter of a
// multiprocessor; four others compute right-hand sides, fetch the inverse, and write results. Eight columns of the inverse,
// 32 KB, and the right-hand sides of a row of eight cells make a step; STAGES of them are in shared memory. The inverse comes by
// bulk copies: the two blocks of threads of a cluster fetch one half each and get both, so that L2 delivers it once for 64
// columns, 16 flops a byte. What right-hand sides are made of is asked for steps before, since some of it always comes late.
// LATER of the 64 results of a thread that multiplies wait in shared memory and are written during the next group, the others
// at once. Nobody waits for all: barriers in shared memory say what is there and what was read.
//
// The result is u itself, so that nothing is read when it is written: A_b is taken out of the residual,
//     u_b + omega A_b^-1 (f - A u)_b = A_b^-1 (omega (f_b - what comes from outside) + (1 - omega) A_b u_b),
// and with omega = 1 and 7 points (ONE) only f and the faces around a block are read.
//
// `packed` of the tables: the inverse in the order in which a warp's lanes take it, 16 bytes a lane: element (row, column) =
// (16 m + l/4 + 8 e, 8 q + 2 (l%4) + h) at (((q*32 + m)*2 + h)*32 + l)*2 + e. Right-hand sides: eight values a column.
//
// Devices with less than DENSE_BYTES (src/backend/cuda/launch.rs) of shared memory take `relax_any`, which reads the inverse
// once a block.
constexpr int COLUMNS = 32, WARPS = 8, HELPERS = 4, DENSE_THREADS = (WARPS + HELPERS) * 32, TILES = 32 / WARPS;
constexpr int STEP = 8 * TILE_CELLS, RIGHT = 8 * COLUMNS, STEPS = TILE_CELLS / 8, STAGES = HELPERS, LATER = 40, CLUSTER = 2;
// Shared memory, in values: steps, results that wait.
constexpr int PLACES = STAGES * (STEP + RIGHT), RESULTS = LATER * WARPS * 32;
// Results of two threads that a helper writes a step, after the first steps of the next group: those who multiply are not done
// with theirs before.
constexpr int AT_ONCE = 4, PAUSE = 2;

#if defined(RRB_EMULATED) || __CUDA_ARCH__ >= 900
// c += a b, 16 x 8 x 8. Lane l has a(l/4 + 8 (e%2), l%4 + 4 (e/2)), b(l%4 + 4 e, l/4), c(l/4 + 8 (e/2), 2 (l%4) + e%2).
__device__ __forceinline__ void multiply_add(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#ifdef RRB_EMULATED
    static double warps_a[WARPS][32][4], warps_b[WARPS][32][2];
    double(&all_a)[32][4] = warps_a[threadIdx.x / 32];
    double(&all_b)[32][2] = warps_b[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    for (int e = 0; e < 4; ++e) all_a[lane][e] = a[e];
    for (int e = 0; e < 2; ++e) all_b[lane][e] = b[e];
    __syncwarp();
    for (int e = 0; e < 4; ++e) {
        for (int k = 0; k < 8; ++k) c[e] += all_a[lane / 4 * 4 + k % 4][e / 2 + 2 * (k / 4)] * all_b[(2 * (lane % 4) + e % 2) * 4 + k % 4][k / 4];
    }
    __syncwarp();
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#endif
}

// Barriers: for each place of a step one that says it is there (the inverse, and right-hand sides of all helpers) and one that
// all who multiply, in both blocks of threads, have read it; results are there; they are written.
constexpr int FULL = 0, EMPTY = STAGES, THERE = 2 * STAGES, GONE = THERE + 1, BARRIERS = GONE + 1;

#ifdef RRB_EMULATED
#define RRB_CLUSTER
struct Pipeline {
    double *memory;
    const double *packed;
    static inline unsigned long long arrived[BARRIERS];

    Pipeline(double *places, unsigned long long *, const double *packed) : memory(places), packed(packed) {
        if (threadIdx.x < BARRIERS) arrived[threadIdx.x] = 0;
        __syncthreads();
    }
    static void meet() {}
    // Use number `use` of a barrier is over. The lanes of a warp go on together.
    void until(int barrier, unsigned use) const {
        const unsigned count = barrier < EMPTY ? 1 : barrier == GONE ? HELPERS : WARPS;
        while (!__shfl_sync(0xffffffffu, arrived[barrier] >= count * (use + 1ull), 0)) {}
    }
    void arrive(int barrier) const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) ++arrived[barrier];
        __syncwarp();
    }
    void release(int place, unsigned) const { arrive(EMPTY + place); }
    void fetch(unsigned, int) const {}
    void put(int place, int at, double r) const { memory[place * (STEP + RIGHT) + STEP + at] = r; }
    void load(unsigned q, int place, int at, double &first, double &second) const {
        const double *from = at < STEP ? packed + q % STEPS * STEP + at : memory + place * (STEP + RIGHT) + at;
        first = from[0];
        second = from[1];
    }
};
#else
#define RRB_CLUSTER __cluster_dims__(blocks::CLUSTER, 1, 1)
struct Pipeline {
    unsigned memory, barriers, rank;   // addresses in shared memory; of the block in the cluster
    const double *packed;
    static constexpr unsigned BYTES = 8 * (STEP + RIGHT);

    __device__ __forceinline__ Pipeline(double *places, unsigned long long *all, const double *packed)
        : memory(__cvta_generic_to_shared(places)), barriers(__cvta_generic_to_shared(all)), packed(packed) {
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        if (threadIdx.x == 0) {
            auto begin = [&](int barrier, unsigned count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barriers + 8 * barrier), "r"(count) : "memory"); };
            for (int place = 0; place < STAGES; ++place) {
                begin(FULL + place, 2);
                begin(EMPTY + place, CLUSTER * WARPS);
            }
            begin(THERE, WARPS);
            begin(GONE, HELPERS);
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        meet();
    }

    static __device__ __forceinline__ void meet() {
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    }

    // Use number `use` of a barrier is over.
    __device__ __forceinline__ void until(int barrier, unsigned use) const {
        asm volatile(
            "{\n.reg .pred done;\n"
            "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@done bra over;\nbra again;\nover:\n}" ::"r"(barriers + 8 * barrier), "r"(use & 1)
            : "memory");
    }

    // Of a warp.
    __device__ __forceinline__ void arrive(int barrier) const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barriers + 8 * barrier) : "memory");
    }

    // This warp has read a place, which both blocks of threads write. `zero` comes of what was read last: without it the
    // compiler sends the message before the reads have come.
    __device__ __forceinline__ void release(int place, unsigned zero) const {
        __syncwarp();
        const int lane = threadIdx.x & 31;
        if (lane < CLUSTER) {
            asm volatile(
                "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barriers + 8 * (EMPTY + place) + zero),
                "r"(lane)
                : "memory");
        }
    }

    // By one thread: its half of the inverse, for both blocks.
    __device__ __forceinline__ void fetch(unsigned q, int place) const {
        constexpr unsigned HALF = 8 * STEP / CLUSTER;
        const unsigned full = barriers + 8 * (FULL + place);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "n"(8 * STEP) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(
                memory + place * BYTES + rank * HALF),
            "l"(packed + q % STEPS * STEP + rank * (STEP / CLUSTER)), "n"(HALF), "r"(full), "h"(static_cast<uint16_t>((1 << CLUSTER) - 1))
            : "memory");
    }

    __device__ __forceinline__ void put(int place, int at, double r) const {
        asm volatile("st.shared.f64 [%0], %1;" ::"r"(memory + place * BYTES + 8 * (STEP + at)), "d"(r) : "memory");
    }

    // Two neighbouring values of a step, the inverse first.
    __device__ __forceinline__ void load(unsigned, int place, int at, double &first, double &second) const {
        asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(first), "=d"(second) : "r"(memory + place * BYTES + 8 * at));
    }
};
#endif

// Where a column's block lies.
struct Column {
    const double *u, *f;
    double *out;
    int64_t row, plane, f_row, f_plane;
};

// A cell's right-hand side: omega f plus weights times values of u. Of each leg there are two weights: 1 - omega times the leg
// within the block, minus omega times it outside.
template <int POINTS, bool ONE> struct RightHandSide {
    // f and the values of legs; with ONE and 7 points: f and what lies beyond the block in x, y and z.
    static constexpr int VALUES = POINTS == 7 ? (ONE ? 4 : 8) : 28;
    double v[VALUES];

    static __device__ __forceinline__ bool inside(int i) { return unsigned(i) < 8u; }
    static __device__ __forceinline__ bool own(int q, int i, int j, int k) { return inside(i + q % 3 - 1) && inside(j + q / 3 % 3 - 1) && inside(k + q / 9 - 1); }

    // Asks for what it is made of.
    __device__ __forceinline__ void begin(const Column &c, int i, int j, int k) {
        const double *u = c.u + k * c.plane + j * c.row + i;
        v[0] = __ldg(c.f + k * c.f_plane + j * c.f_row + i);
        if (POINTS == 7 && ONE) {
            v[1] = v[2] = v[3] = 0.0;
            if (i == 0 || i == 7) v[1] = u[i == 0 ? -1 : 1];
            if (j == 0 || j == 7) v[2] = u[j == 0 ? -c.row : c.row];
            if (k == 0 || k == 7) v[3] = u[k == 0 ? -c.plane : c.plane];
        } else if (POINTS == 7) {
            v[1] = u[0], v[2] = u[-1], v[3] = u[1], v[4] = u[-c.row], v[5] = u[c.row], v[6] = u[-c.plane], v[7] = u[c.plane];
        } else {
#pragma unroll
            for (int q = 0; q < 27; ++q) v[q + 1] = u[(q / 9 - 1) * c.plane + (q / 3 % 3 - 1) * c.row + q % 3 - 1];
        }
    }

    __device__ __forceinline__ double end(const RelaxArgs &a, const volatile double (*weights)[2], int i, int j, int k) const {
        if (POINTS == 7 && ONE) {
            double r = v[0] - (i == 0 ? a.legs[12] : a.legs[14]) * v[1];
            if (j == 0 || j == 7) r -= (j == 0 ? a.legs[10] : a.legs[16]) * v[2];
            if (k == 0 || k == 7) r -= (k == 0 ? a.legs[4] : a.legs[22]) * v[3];
            return r;
        }
        constexpr int ORDER[7] = {13, 12, 14, 10, 16, 4, 22};
        double r = a.omega * v[0];
#pragma unroll
        for (int n = 1; n < VALUES; ++n) {
            const int q = POINTS == 7 ? ORDER[(n - 1) % 7] : n - 1;
            // Read again for each cell: there are no registers for all of them.
            r += weights[q][own(q, i, j, k)] * v[n];
        }
        return r;
    }
};

// A line of results, along y: those of number 8 n, ..., 8 n + 7 of the thread that has row 64 w + 16 m + 8 e + g of the product,
// the cell x = g, y = 2 m + e, z = w. NULL beyond the last block.
struct Line {
    double *out;
    int64_t row, plane;
    __device__ __forceinline__ Line(const RelaxArgs &a, const Column *columns, unsigned round, int n, int lane, int z) {
        const int number = n / 2 * 8 + lane % 4 * 2 + n % 2;
        const Column &c = columns[number];
        row = c.row;
        plane = c.plane;
        out = (round * gridDim.x + blockIdx.x) * COLUMNS + number < a.count ? c.out + z * plane + lane / 4 : nullptr;
    }
};

template <int POINTS, bool ONE>
__device__ __forceinline__ void help(const RelaxArgs &a, const Pipeline &pipeline, const double *results, Column (*columns)[COLUMNS], double (*weights)[2], unsigned rounds) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32 - WARPS, cell = lane & 7;
    // All helpers write the same.
    if (lane < 27) weights[lane][0] = -a.omega * a.legs[lane], weights[lane][1] = (1.0 - a.omega) * a.legs[lane];
    __syncwarp();
    // Results of two threads that multiply.
    double *out = nullptr;
    int64_t row = 0, apart = 0;
    auto write = [&](unsigned round, int first) {
        if (first % 8 == 0) {
            const Line line(a, columns[round % 3], round, first / 8, lane, warp);
            out = line.out, row = line.row, apart = HELPERS * line.plane;
        }
        if (!out) return;
        const double *from = results + first * WARPS * 32 + warp * 32 + lane;
        double v[AT_ONCE][2];
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) v[r][0] = from[r * WARPS * 32], v[r][1] = from[(r * WARPS + HELPERS) * 32];
#pragma unroll
        for (int r = 0; r < AT_ONCE; ++r) {
            out[0] = v[r][0];
            out[apart] = v[r][1];
            out += row;
        }
    };
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        Column *const group = columns[round % 3];
        // All helpers find all columns, and write the same.
        {
            // Those beyond the last one repeat it, so that loops need not ask.
            const Item &item = a.items[min((round * gridDim.x + blockIdx.x) * COLUMNS + lane, a.count - 1)];
            const Patch &patch = a.patches[item.patch];
            const int64_t stride = patch.nx + 2, plane = stride * (patch.ny + 2), f_plane = int64_t(patch.nx) * patch.ny;
            const int64_t at = (item.z + 1) * plane + (item.y + 1) * stride + item.x + 1;
            group[lane] = {patch.u[a.from] + at, patch.f + item.z * f_plane + int64_t(item.y) * patch.nx + item.x, patch.u[a.to] + at,
                           stride,               plane,                                                            patch.nx, f_plane};
            __syncwarp();
        }
        // A helper has a place, and every fourth row of cells.
#pragma unroll 1
        for (int turn = 0; turn < STEPS / HELPERS; ++turn) {
            const int s = turn * HELPERS + warp, j = s % 8, k = s / 8;
            constexpr int TOGETHER = POINTS == 27 ? 2 : ONE ? 8 : 4;
            double r[8];
#pragma unroll
            for (int first = 0; first < 8; first += TOGETHER) {
                RightHandSide<POINTS, ONE> sides[TOGETHER];
#pragma unroll
                for (int n = 0; n < TOGETHER; ++n) sides[n].begin(group[(first + n) * 4 + lane / 8], cell, j, k);
#pragma unroll
                for (int n = 0; n < TOGETHER; ++n) r[first + n] = sides[n].end(a, weights, cell, j, k);
            }
            const unsigned use = round * (STEPS / HELPERS) + turn;
            if (use > 0) pipeline.until(EMPTY + warp, use - 1);
            if (lane == 0) pipeline.fetch(s, warp);
#pragma unroll
            for (int n = 0; n < 8; ++n) pipeline.put(warp, n * 32 + lane, r[n]);
            pipeline.arrive(FULL + warp);
            const int first = (turn - PAUSE) * AT_ONCE;
            if (round > 0 && first >= 0 && first < LATER) {
                if (first == 0) pipeline.until(THERE, round - 1);
                write(round - 1, first);
                if (first + AT_ONCE == LATER) pipeline.arrive(GONE);
            }
        }
    }
    pipeline.until(THERE, rounds - 1);
#pragma unroll 1
    for (int first = 0; first < LATER; first += AT_ONCE) write(rounds - 1, first);
}

__device__ __forceinline__ void multiply(const RelaxArgs &a, const Pipeline &pipeline, double *results, Column (*columns)[COLUMNS], unsigned rounds) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, g = lane >> 2, t = lane & 3;
    double sum[TILES][COLUMNS / 8][4], left[2][4], right[COLUMNS / 8][2];
    // Which the compiler does not know.
    const unsigned zero = rounds >> 31;
    auto load_left = [&](int s, int m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) pipeline.load(s, s % STAGES, (((warp * TILES + m) * 2 + h) * 32 + lane) * 2, left[m % 2][2 * h], left[m % 2][2 * h + 1]);
    };
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
#pragma unroll
            for (int c = 0; c < COLUMNS / 8; ++c) {
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[m][c][e] = 0.0;
            }
        }
#pragma unroll 1
        for (int s = 0; s < STEPS; ++s) {
            const int place = s % STAGES;
            pipeline.until(FULL + place, round * (STEPS / STAGES) + s / STAGES);
#pragma unroll
            for (int c = 0; c < COLUMNS / 8; ++c) pipeline.load(s, place, STEP + (c * 8 + g) * 8 + 2 * t, right[c][0], right[c][1]);
            load_left(s, 0);
#pragma unroll
            for (int m = 0; m < TILES; ++m) {
                if (m + 1 < TILES) load_left(s, m + 1);
#pragma unroll
                for (int c = 0; c < COLUMNS / 8; ++c) multiply_add(sum[m][c], left[m % 2], right[c]);
            }
            const double *last = left[(TILES - 1) % 2];
            pipeline.release(place, (__double2hiint(last[1]) ^ __double2hiint(last[3])) & zero);
        }
        if (round > 0) pipeline.until(GONE, round - 1);
#pragma unroll
        for (int n = 0; n < COLUMNS / 4; ++n) {
            auto result = [&](int j) { return sum[j / 2][n / 2][j % 2 * 2 + n % 2]; };
            if (8 * n < LATER) {
#pragma unroll
                for (int j = 0; j < 8; ++j) results[(8 * n + j) * WARPS * 32 + threadIdx.x] = result(j);
                if (8 * n + 8 == LATER) pipeline.arrive(THERE);
            } else {
                const Line line(a, columns[round % 3], round, n, lane, warp);
                if (line.out) {
#pragma unroll
                    for (int j = 0; j < 8; ++j) line.out[j * line.row] = result(j);
                }
            }
        }
    }
}

// Shared memory as PLACES and RESULTS say, the columns of three groups, weights, barriers.
__device__ __forceinline__ void relax_dense_cubes(const RelaxArgs &a, double *memory, Column (*columns)[COLUMNS], double (*weights)[2], unsigned long long *barriers) {
    const unsigned groups = (a.count + COLUMNS - 1) / COLUMNS, rounds = (groups + gridDim.x - 1) / gridDim.x;
    const Pipeline pipeline(memory, barriers, a.tables[TILE_CELLS - 1].packed);
    double *const results = memory + PLACES;
    wait_for_previous();
    if (threadIdx.x < WARPS * 32) multiply(a, pipeline, results, columns, rounds);
    else if (a.points == 7 && a.omega == 1.0) help<7, true>(a, pipeline, results, columns, weights, rounds);
    else if (a.points == 7) help<7, false>(a, pipeline, results, columns, weights, rounds);
    else help<27, false>(a, pipeline, results, columns, weights, rounds);
    // Nobody leaves while the other one may still write here. Lanes have parted where a group's last columns are none.
    __syncwarp();
    Pipeline::meet();
}
#else
// No device of these has the shared memory.
#define RRB_CLUSTER
#endif

// One whole block of 8^3.
constexpr unsigned CUBE = 0x111888;

// Eight cells a side in blocks beside each other, whose sides divide 8.
__device__ __forceinline__ bool whole(unsigned shape) {
    const unsigned lengths[3] = {shape & 15, shape >> 4 & 15, shape >> 8 & 15}, counts[3] = {shape >> 12 & 15, shape >> 16 & 15, shape >> 20 & 15};
    bool all = !(shape & STRIDED);
#pragma unroll
    for (int d = 0; d < 3; ++d) all = all && lengths[d] * counts[d] == 8;
    return all;
}

// Ghost cells from another patch, x fastest: all that a thread reads, then what it writes.
__device__ __forceinline__ void exchange(const Patch *patches, const Copy &c, int which, bool both) {
    const Patch &to = patches[c.to_patch], &from = patches[c.from_patch];
    const int64_t to_row = to.nx + 2, to_plane = to_row * (to.ny + 2);
    const int64_t from_row = from.nx + 2, from_plane = from_row * (from.ny + 2);
    const double *read = from.u[which] + c.from;
    const int cells = c.nx * c.ny * c.nz;
    // q / n as q m / 2^20, exact below 512.
    const unsigned in_x = (1u << 20) / c.nx + 1, in_y = (1u << 20) / c.ny + 1;
    double v[BOX_CELLS / TILE_THREADS];
    int64_t place[BOX_CELLS / TILE_THREADS];
    wait_for_previous();
#pragma unroll
    for (int n = 0; n < BOX_CELLS / TILE_THREADS; ++n) {
        const int q = threadIdx.x + n * TILE_THREADS;
        if (q >= cells) continue;
        const int rows = q * in_x >> 20, i = q - rows * c.nx, k = rows * in_y >> 20, j = rows - k * c.ny;
        v[n] = load_relaxed(read + k * from_plane + j * from_row + i);
        place[n] = c.to + k * to_plane + j * to_row + i;
    }
#pragma unroll
    for (int n = 0; n < BOX_CELLS / TILE_THREADS; ++n) {
        if (static_cast<int>(threadIdx.x) + n * TILE_THREADS >= cells) continue;
        store_relaxed(to.u[which] + place[n], v[n]);
        if (both) store_relaxed(to.u[1 - which] + place[n], v[n]);
    }
}

struct ExchangeArgs {
    const Patch *patches;
    const Copy *copies;
    int which;
    int both;          // written to both arrays, so that Jacobi's other one has the same ghost cells
};

// Part of an array of u.
struct Segment {
    int64_t first;
    int patch, count;
};
constexpr int SEGMENT_THREADS = 256;

struct CopyArgs {
    const Patch *patches;
    const Segment *segments;
    int from, to;
    int ghosts;        // the ghost layer alone
};

// A tile of at most 8^3 cells of a patch.
struct Region {
    int patch, x, y, z;
    int64_t number;    // of its patch's first value: u (cells only), then f
};

struct LookArgs {
    const Patch *patches;
    const Region *regions;
    int which;
    double *sums;      // of r^2, one a region
    unsigned long long *bad;
    double legs[27];
};

struct NormArgs {
    const double *sums;
    int64_t count;
    double *norm;
};
constexpr int NORM_THREADS = 256;

}  // namespace blocks

// Blocks of 8^3 and a 7-point stencil.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS, 12) smoother_relax_cubes_f64(const blocks::RelaxArgs a) {
    __shared__ double tile[blocks::TILE_CELLS], halo[blocks::HALO];
    __shared__ int partners[6];
    blocks::let_next_begin();
    blocks::relax_cube(a, a.items[blockIdx.x], tile, halo, partners);
}

// Any blocks and a 7-point stencil; an item of 8^3 with transforms goes the way of the others.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS, 8) smoother_relax_7_f64(const blocks::RelaxArgs a) {
    __shared__ double tile[blocks::TILE_CELLS], halo[blocks::HALO];
    __shared__ int partners[6];
    blocks::let_next_begin();
    const blocks::Item item = a.items[blockIdx.x];
    if (item.shape == blocks::CUBE && !a.dense) blocks::relax_cube(a, item, tile, halo, partners);
    else if (blocks::whole(item.shape) && !a.dense) blocks::relax_tile(a, item, tile, halo, partners);
    else if (a.own_chunk) blocks::relax_any<7, true>(a, item, tile);
    else blocks::relax_any<7, false>(a, item, tile);
}

// Any blocks and a 27-point stencil.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS, 8) smoother_relax_27_f64(const blocks::RelaxArgs a) {
    __shared__ double tile[blocks::TILE_CELLS];
    blocks::let_next_begin();
    const blocks::Item item = a.items[blockIdx.x];
    if (a.own_chunk) blocks::relax_any<27, true>(a, item, tile);
    else blocks::relax_any<27, false>(a, item, tile);
}

// Blocks of 8^3 with dense inverses, of one stage.
extern "C" __global__ void RRB_CLUSTER __launch_bounds__(blocks::DENSE_THREADS, 1) smoother_relax_dense_f64(const blocks::RelaxArgs a) {
#if defined(RRB_EMULATED) || __CUDA_ARCH__ >= 900
#ifdef RRB_EMULATED
    static double memory[blocks::PLACES + blocks::RESULTS];
#else
    extern __shared__ __align__(128) double memory[];
#endif
    __shared__ blocks::Column columns[3][blocks::COLUMNS];
    __shared__ double weights[27][2];
    __shared__ unsigned long long barriers[blocks::BARRIERS];
    blocks::let_next_begin();
    blocks::relax_dense_cubes(a, memory, columns, weights, barriers);
#else
    __trap();
#endif
}

// Ghost cells from other patches: one block of threads a box, x fastest. A ghost cell is written by one thread; what is read
// is no ghost cell.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS) smoother_exchange_f64(const blocks::ExchangeArgs a) {
    blocks::let_next_begin();
    blocks::exchange(a.patches, a.copies[blockIdx.x], a.which, a.both);
}

// u of one array to the other; with `ghosts` its outermost layer alone. A value is written by one thread.
extern "C" __global__ void __launch_bounds__(blocks::SEGMENT_THREADS) smoother_copy_f64(const blocks::CopyArgs a) {
    const blocks::Segment segment = a.segments[blockIdx.x];
    const blocks::Patch &patch = a.patches[segment.patch];
    const double *from = patch.u[a.from];
    double *to = patch.u[a.to];
    const int64_t row = patch.nx + 2, rows = patch.ny + 2, planes = patch.nz + 2;
    for (int q = threadIdx.x; q < segment.count; q += blocks::SEGMENT_THREADS) {
        const int64_t at = segment.first + q;
        if (a.ghosts) {
            const int64_t i = at % row, j = at / row % rows, k = at / row / rows;
            if (i > 0 && i < row - 1 && j > 0 && j < rows - 1 && k > 0 && k < planes - 1) continue;
        }
        to[at] = from[at];
    }
}

// The first value of u (no ghosts) and f that is not finite, by its number: patch after patch, u before f.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS) smoother_inspect_f64(const blocks::LookArgs a) {
    const blocks::Region region = a.regions[blockIdx.x];
    const blocks::Patch &patch = a.patches[region.patch];
    const int x = region.x + (threadIdx.x & 7), y = region.y + (threadIdx.x >> 3);
    if (x >= patch.nx || y >= patch.ny) return;
    const int64_t row = patch.nx + 2, plane = row * (patch.ny + 2);
    const int64_t f_plane = int64_t(patch.nx) * patch.ny, cells = f_plane * patch.nz;
    for (int z = region.z; z < min(region.z + 8, patch.nz); ++z) {
        const int64_t cell = z * f_plane + int64_t(y) * patch.nx + x;
        const double u = patch.u[a.which][(z + 1) * plane + (y + 1) * row + x + 1], f = __ldg(patch.f + cell);
        // NaN and infinity minus themselves are NaN.
        if (!(u - u == 0.0)) atomicMin(a.bad, static_cast<unsigned long long>(region.number + cell));
        if (!(f - f == 0.0)) atomicMin(a.bad, static_cast<unsigned long long>(region.number + cells + cell));
    }
}

// r = f - A u, and its squares, summed by tile in a fixed order.
extern "C" __global__ void __launch_bounds__(blocks::TILE_THREADS) smoother_residual_f64(const blocks::LookArgs a) {
    __shared__ double half[2];
    const blocks::Region region = a.regions[blockIdx.x];
    const blocks::Patch &patch = a.patches[region.patch];
    const int x = region.x + (threadIdx.x & 7), y = region.y + (threadIdx.x >> 3);
    const int64_t row = patch.nx + 2, plane = row * (patch.ny + 2), f_plane = int64_t(patch.nx) * patch.ny;
    double sum = 0.0;
    if (x < patch.nx && y < patch.ny) {
        for (int z = region.z; z < min(region.z + 8, patch.nz); ++z) {
            const double *c = patch.u[a.which] + (z + 1) * plane + (y + 1) * row + x + 1;
            const int64_t cell = z * f_plane + int64_t(y) * patch.nx + x;
            double r = __ldg(patch.f + cell);
            for (int q = 0; q < 27; ++q) {
                if (a.legs[q] != 0.0) r -= a.legs[q] * c[(q / 9 - 1) * plane + (q / 3 % 3 - 1) * row + q % 3 - 1];
            }
            if (patch.r) patch.r[cell] = r;
            sum += r * r;
        }
    }
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0) half[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) a.sums[blockIdx.x] = half[0] + half[1];
}

// The root of the sum of all tiles, by one block, in a fixed order.
extern "C" __global__ void __launch_bounds__(blocks::NORM_THREADS) smoother_norm_f64(const blocks::NormArgs a) {
    __shared__ double sums[blocks::NORM_THREADS];
    double sum = 0.0;
    for (int64_t q = threadIdx.x; q < a.count; q += blocks::NORM_THREADS) sum += a.sums[q];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int by = blocks::NORM_THREADS / 2; by > 0; by /= 2) {
        if (threadIdx.x < by) sums[threadIdx.x] += sums[threadIdx.x + by];
        __syncthreads();
    }
    if (threadIdx.x == 0) *a.norm = sqrt(sums[0]);
}

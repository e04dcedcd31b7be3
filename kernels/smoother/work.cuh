// What a launch of block relaxation is given (kernels/smoother/smoother.cu has the layout and the order), and how its
// items wait for each other.
namespace blocks {

constexpr int TILE_THREADS = 64;
constexpr int TILE_CELLS = 512;

struct Patch {
    double *u[2]; // the caller's, and the other one of Jacobi
    const double *f;
    double *r; // residual, or NULL
    int nx, ny, nz, unused;
};

// Blocks of lx x ly x lz cells, cx x cy x cz of them, from a first cell. `shape`: lx, ly, lz, cx, cy, cz in four bits
// each, then flags. Every other block: strided. Of the blocks of a masked item those with ix + iy + iz + phase even are
// relaxed.
struct Item {
    int patch, x, y, z;
    unsigned shape;
    int wait; // place in `totals` of what must be done in the chunk before, the own one and the next; -1: nothing
    int done; // place of the own chunk in `progress` and `totals`
    unsigned
        faces; // sides that touch a tile of another patch, of which this one's first face has a number from bit 7 on
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
    const unsigned *totals; // items of a chunk that count in one launch; then, stage by stage, those of lower stages
    unsigned launches;      // of this plan, this one counted
    int from, to;           // which of the two arrays is read, is written
    int own_chunk;          // wait for the own chunk only
    double omega;
    double legs[27];        // (c+1)*9 + (b+1)*3 + a+1
    unsigned count;         // items
    double eigenvalues[24]; // of 8^3 blocks of a 7-point stencil: Lambda = x[p] + y[q] + z[r]
    double weight;          // of three inverse transforms
    int points, dense;      // dense inverses
    // Faces between tiles of different patches, 64 values each: those that came with the sweep before, to be read
    // instead of ghost cells, and those for the next sweep; or NULL. Whose face it is on the other side.
    const double *arrived;
    double *leaving;
    const int *partners;
    int keep; // what arrived is written to the ghost cells too
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
// A launch that is allowed to (`Stream::launch`) begins when all blocks of the one before have begun, and fills the
// places of those that end; what that one writes is there, and what it reads may be written, after the second function.
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
__device__ __forceinline__ void store_relaxed(double *p, double v) {
    asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(p), "d"(v));
}
__device__ __forceinline__ unsigned load_acquire(const unsigned *p) {
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void add_release(unsigned *p) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory");
}
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

} // namespace blocks

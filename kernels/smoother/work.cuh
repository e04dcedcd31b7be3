// Arguments and work lists of the block relaxation kernels, and the synchronization between items.
// kernels/smoother/smoother.cu describes the layout and the order.
namespace blocks {

constexpr int TILE_THREADS = 64;
constexpr int TILE_CELLS = 512;

// A patch: addresses of its arrays in device memory, and its extents in cells.
struct BlockPatch {
    double *u[2]; // the caller's array, and the second array of block Jacobi
    const double *f;
    double *r; // array for the residual, or NULL
    int nx, ny, nz, unused;
};

// An item: cx x cy x cz blocks of lx x ly x lz cells, beginning at the cell (x, y, z) of the patch. `shape` contains
// lx, ly, lz, cx, cy, cz in four bits each, then flags. STRIDED_FLAG: the item consists of every other block along each
// axis. MASKED_FLAG: only every other block of the item is relaxed, namely those whose indices (ix, iy, iz) in the item
// have an even sum or, with ODD_PHASE_FLAG, an odd sum.
struct BlockItem {
    int patch, x, y, z;
    unsigned shape;
    // Index in `required_counts` of three successive counts: of the previous, the own and the next chunk; -1: no wait.
    int wait_index;
    int chunk_index; // index of the own chunk in `finished_counts` and `required_counts`
    // SIDE_BITS: the sides at which the tile exchanges a face with a tile of another patch. ADVANCES_FLAG. From bit
    // FIRST_FACE_SHIFT on: the number of the first face of the tile.
    unsigned faces;
};
constexpr unsigned STRIDED_FLAG = 1u << 24, MASKED_FLAG = 1u << 25, ODD_PHASE_FLAG = 1u << 26;
// SIDE_BITS: bits of the sides west, east, south, north, bottom, top. ADVANCES_FLAG: the item increments
// `finished_counts`.
constexpr unsigned SIDE_BITS = 63, ADVANCES_FLAG = 64, FIRST_FACE_SHIFT = 7;

// Addresses of the tables for blocks of lx x ly x lz cells, at index ((lz-1)*8 + ly-1)*8 + lx-1. The address of a table
// that this shape does not use is NULL.
struct BlockTables {
    const double *reciprocals, *inverse_diagonal, *diagonal, *dense, *packed;
};

// Box of ghost cells of one patch that another patch covers, at most MAX_BOX_CELLS cells.
struct BlockCopy {
    int target_patch, source_patch;
    int64_t target_index, source_index; // indices of the first cell in u of the two patches
    int nx, ny, nz, unused;
};
constexpr int MAX_BOX_CELLS = 512;

struct RelaxArgs {
    const BlockPatch *patches;
    const BlockItem *items;
    const BlockTables *tables;
    unsigned *finished_counts;
    // `finished_counts`: for each chunk, the number of its finished items of all stages but the last, over all
    // launches. `required_counts`: a matrix, stored by rows, with one column per chunk, and one additional column at
    // each end. Row 0 contains the number of items that increment `finished_counts` in one launch, row 1 + s the number
    // of items of all stages below s.
    const unsigned *required_counts;
    unsigned launch_count;  // number of launches with this list of items, including this one
    int source_array, target_array; // indices of the arrays that are read and written
    int waits_for_own_chunk_only; // 1: blocks wait for items of their own chunk only
    double omega;
    double entries[27];     // stencil entries at (c+1)*9 + (b+1)*3 + a+1
    unsigned count;         // number of items
    double eigenvalue_terms[24]; // of 8^3 blocks with a 7-point stencil: Lambda = x[p] + y[q] + z[r]
    double weight;          // product of the factors 2 / (8 + 1) of three inverse transforms of length 8
    int points, is_dense;   // 7 or 27; whether the inverses are dense
    // Faces between tiles of different patches, 64 values each. `faces_read`: the previous sweep has written these
    // faces, and this sweep reads them instead of ghost cells. `faces_written`: this sweep writes these faces for the
    // next sweep. Both may be NULL. `partners`: for each face, the number of the adjacent face.
    const double *faces_read;
    double *faces_written;
    const int *partners;
    int stores_ghosts; // 1: the values of the faces that are read are also stored in the ghost cells
};
constexpr int FACE_VALUES = 64;

#ifdef RRB_EMULATED
__device__ __forceinline__ double load_relaxed(const double *p) { return *p; }
__device__ __forceinline__ void store_relaxed(double *p, double v) { *p = v; }
__device__ __forceinline__ unsigned load_acquire(const unsigned *p) { return *p; }
__device__ __forceinline__ void add_release(unsigned *p) { ++*p; }
__device__ __forceinline__ void pause() {}
__device__ __forceinline__ double reciprocal(double x) { return 1.0 / x; }
__device__ __forceinline__ int bit_count(unsigned v) { return __builtin_popcount(v); }
__device__ __forceinline__ void allow_next_kernel() {}
__device__ __forceinline__ void wait_for_previous_kernel() {}
#else
__device__ __forceinline__ int bit_count(unsigned v) { return __popc(v); }
// If the launch allows an early start (`Stream::launch`), a kernel starts when every thread block of the previous
// kernel has called allow_next_kernel() or has ended. The thread blocks of the new kernel use resources that thread
// blocks of the previous kernel have released. After wait_for_previous_kernel(), the previous kernel's results are
// visible, and the data that it read may be overwritten.
__device__ __forceinline__ void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void wait_for_previous_kernel() {
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
// Computes 1 / x to rounding accuracy: an approximation with 20 bits, then two Newton steps.
__device__ __forceinline__ double reciprocal(double x) {
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
    r = fma(fma(-x, r, 1.0), r, r);
    return fma(fma(-x, r, 1.0), r, r);
}
#endif

// Waits until all stages below the stage of `item` are complete in the previous, the own and the next chunk or, with
// `waits_for_own_chunk_only`, in the own chunk. An item increments the count of its chunk only after all lower stages
// of this chunk are complete. The count of a chunk therefore shows which stages are complete.
__device__ __forceinline__ void wait_for_chunks(const RelaxArgs &a, const BlockItem &item) {
    if (item.wait_index < 0) return;
    if (threadIdx.x < 3 && (!a.waits_for_own_chunk_only || threadIdx.x == 1)) {
        const int chunk = item.chunk_index - 1 + threadIdx.x;
        const unsigned target =
            a.required_counts[chunk] * (a.launch_count - 1) + a.required_counts[item.wait_index + threadIdx.x];
        while (static_cast<int>(load_acquire(a.finished_counts + chunk) - target) < 0) pause();
    }
    __syncthreads();
}

// Increments the count of finished items of the item's chunk in `finished_counts`, if other items wait for this item.
__device__ __forceinline__ void count_finished_item(const RelaxArgs &a, const BlockItem &item) {
    if (!(item.faces & ADVANCES_FLAG)) return;
    __syncthreads();
    if (threadIdx.x == 0) add_release(a.finished_counts + item.chunk_index);
}

} // namespace blocks

// A libcuda.so for machines without a GPU: the driver calls that the library makes, with the kernels compiled for the
// host (device.h). Device memory is host memory that is filled with NaN when it is allocated. Streams execute their
// work immediately, and graphs are lists of launches.
//
//     EMULATED_DEVICES=n       number of devices (1)
//     EMULATED_MEMORY=bytes    memory per device (unlimited)
//     EMULATED_COOPERATIVE=0   no cooperative launches
//     EMULATED_CLUSTERS=0      no clusters
//     EMULATED_SHARED=1        memory that other processes can open
//     EMULATED_PTX=80          architecture that kernels report (90)
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <chrono>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#define RRB_EMULATED
#include "device.h"
#include "rrb/rrb.cu"
#include "smoother/smoother.cu"
#include "dpcg/dpcg.cu"
#include "sparse/sparse.cu"
#define __CUDA_API_VERSION_INTERNAL
// Only the driver calls are exported.
#define __CUDA_API_PUSH_VISIBILITY_DEFAULT
#include <cuda.h>

// Scalars that decide about the next iteration, for the tests of src/krylov/decisions.rs.
struct Decided {
    double threshold, vanishing, rho, sigma, alpha, beta, norm2, norm;
    int64_t iterations, max_iter;
    int32_t preconditioned, code;
};
extern "C" __attribute__((visibility("default"))) void emulated_iteration(Decided *d, double rho, double norm2,
                                                                           double sigma) {
    LoopScalars s{};
    s.threshold = d->threshold, s.vanishing = d->vanishing, s.preconditioned = d->preconditioned;
    s.iterations = d->iterations, s.max_iter = d->max_iter, s.pause_at = INT64_MAX;
    s.rho = d->rho, s.alpha = d->alpha, s.beta = d->beta;
    update_with_sums(s, nullptr, rho, norm2, LOOP);
    if (s.code == RUNNING) end_iteration(s, sigma, LOOP);
    *d = {s.threshold, s.vanishing, s.rho, s.sigma, s.alpha, s.beta, s.norm2, s.norm, s.iterations, s.max_iter,
          s.preconditioned, s.code};
}

namespace {
struct Kernel {
    std::string name;
    const void *function;
    void (*call)(const void *, const void *);
    size_t size;
};

template <class A> Kernel kernel(const char *name, void (*function)(A)) {
    const auto call = [](const void *f, const void *a) {
        reinterpret_cast<void (*)(A)>(const_cast<void *>(f))(*static_cast<const A *>(a));
    };
    return {name, reinterpret_cast<const void *>(function), call, sizeof(A)};
}
#define K(name) kernel(#name, name)

// Code that was loaded for a device, and one of its kernels.
struct Module {
    Share share{0, 1};
};
struct Function {
    const Kernel *kernel;
    const Module *module;
};

std::vector<Kernel> &kernels() {
    static std::vector<Kernel> all = {
#include "kernels.inc"
    };
    return all;
}

struct Node {
    const Kernel *kernel;
    const Module *module;
    dim3 grid, block;
    std::vector<char> arguments;
    std::shared_ptr<std::vector<Node>> loop;
    uint64_t handle;
};

using Graph = std::vector<Node>;
std::map<uint64_t, bool> conditionals;
uint64_t next_handle = 1;
std::recursive_mutex lock;
struct Context;
struct Stream {
    Graph *capturing;
    Context *context;
};
std::set<Stream *> streams;
// Graphs into which several streams record.
std::set<Graph *> recording;
// The default stream is null and records nothing.
bool capturing(CUstream stream) { return stream && reinterpret_cast<Stream *>(stream)->capturing; }
std::map<uintptr_t, std::pair<size_t, int>> memory;
// Memory that other processes can open or have opened.
struct Shared {
    int file;
    size_t bytes;
};
std::map<uintptr_t, Shared> shared;
void *map(int file, size_t n) {
    void *m = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (m == MAP_FAILED) return nullptr;
    shared[reinterpret_cast<uintptr_t>(m)] = {file, n};
    return m;
}
void *share(size_t n) {
    const int file = memfd_create("emulated device", MFD_CLOEXEC);
    return file < 0 || ftruncate(file, n) != 0 ? nullptr : map(file, n);
}
bool unshare(CUdeviceptr p) {
    auto found = shared.find(p);
    if (found == shared.end()) return false;
    munmap(reinterpret_cast<void *>(found->first), found->second.bytes);
    close(found->second.file);
    shared.erase(found);
    return true;
}
size_t used[16];
// Page-locked memory.
std::map<uintptr_t, size_t> locked;
struct Context {
    int device;
    unsigned long long id;  // 0: not active
} contexts[16];
unsigned long long next_id = 1;
thread_local std::vector<Context *> pushed;

// With EMULATED_ORDER=adverse, each block of a smoother sweep is delayed until the dependencies among the next 2048
// blocks require it. A device may choose this schedule. Tests therefore detect a missing wait.
bool run_adversely(const Node &n) {
    static const bool adverse = std::getenv("EMULATED_ORDER") != nullptr;
    const std::string &name = n.kernel->name;
    if (!adverse || name.rfind("smoother_relax", 0) != 0 || name.find("dense") != std::string::npos) return false;
    const auto &a = *reinterpret_cast<const blocks::RelaxArgs *>(n.arguments.data());
    auto may_run = [&](const blocks::BlockItem &item) {
        for (int q = 0; item.wait_index >= 0 && q < 3; ++q) {
            const int chunk = item.chunk_index - 1 + q;
            const unsigned target =
                a.required_counts[chunk] * (a.launch_count - 1) + a.required_counts[item.wait_index + q];
            if (a.waits_for_own_chunk_only && q != 1) continue;
            if (static_cast<int>(a.finished_counts[chunk] - target) < 0) return false;
        }
        return true;
    };
    std::vector<bool> done(n.grid.x);
    for (unsigned first = 0; first < n.grid.x;) {
        unsigned b = std::min(n.grid.x, first + 2048) - 1;
        while (done[b] || !may_run(a.items[b])) {
            if (b-- == first) {
                std::fprintf(stderr, "emulator: a block waits for one after it\n");
                std::abort();
            }
        }
        blockIdx = {b, 0, 0};
        emulator::run_block();
        done[b] = true;
        while (first < n.grid.x && done[first]) ++first;
    }
    return true;
}

void run(const Node &n) {
    if (n.loop) {
        conditionals[n.handle] = true;
        while (conditionals[n.handle]) {
            for (const Node &inner : *n.loop) run(inner);
        }
        return;
    }
    gridDim = n.grid;
    blockDim = n.block;
    rrb_share = n.module->share;
    emulator::body = {n.kernel->call, n.kernel->function, n.arguments.data()};
    if (run_adversely(n)) return;
    for (unsigned b = 0; b < n.grid.x; ++b) {
        blockIdx = {b, 0, 0};
        emulator::run_block();
    }
}

int devices() {
    const char *text = std::getenv("EMULATED_DEVICES");
    return text ? std::atoi(text) : 1;
}
size_t capacity() {
    const char *text = std::getenv("EMULATED_MEMORY");
    return text ? std::strtoull(text, nullptr, 10) : size_t(1) << 60;
}
}  // namespace

void emulated_set_conditional(uint64_t handle, bool value) { conditionals[handle] = value; }

#define GUARD std::lock_guard<std::recursive_mutex> guard(lock)
#define CONTEXT                                            \
    if (pushed.empty()) return CUDA_ERROR_INVALID_CONTEXT; \
    const int device = pushed.back()->device;              \
    (void)device

extern "C" {
CUresult cuInit(unsigned) { return devices() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE; }
CUresult cuDriverGetVersion(int *v) {
    *v = 13000;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *n) {
    *n = devices();
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *d, int ordinal) {
    if (ordinal >= devices()) return CUDA_ERROR_INVALID_DEVICE;
    *d = ordinal;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int len, CUdevice) {
    std::snprintf(name, len, "emulated device");
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
    GUARD;
    contexts[d].device = d;
    if (contexts[d].id == 0) contexts[d].id = next_id++;
    *c = reinterpret_cast<CUcontext>(&contexts[d]);
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
// Contexts that the program creates, one per device.
CUresult cuCtxCreate_v4(CUcontext *c, CUctxCreateParams *, unsigned, CUdevice d) {
    GUARD;
    Context &own = contexts[8 + d];
    own.device = d;
    own.id = next_id++;
    *c = reinterpret_cast<CUcontext>(&own);
    pushed.push_back(&own);
    return CUDA_SUCCESS;
}
CUresult cuCtxDestroy_v2(CUcontext) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active) {
    GUARD;
    *flags = 0;
    *active = contexts[d].id != 0;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetId(CUcontext c, unsigned long long *id) {
    GUARD;
    *id = reinterpret_cast<Context *>(c)->id;
    return CUDA_SUCCESS;
}
// Discards all memory of the device.
CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) {
    GUARD;
    contexts[d].id = 0;
    for (auto m = memory.begin(); m != memory.end();) {
        if (m->second.second == d) {
            if (!unshare(CUdeviceptr(m->first))) std::free(reinterpret_cast<void *>(m->first));
            m = memory.erase(m);
        } else {
            ++m;
        }
    }
    used[d] = 0;
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext c) {
    pushed.push_back(reinterpret_cast<Context *>(c));
    return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext *c) {
    if (pushed.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    *c = reinterpret_cast<CUcontext>(pushed.back());
    pushed.pop_back();
    return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *c) {
    *c = pushed.empty() ? nullptr : reinterpret_cast<CUcontext>(pushed.back());
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext c) {
    if (!pushed.empty()) pushed.pop_back();
    if (c) pushed.push_back(reinterpret_cast<Context *>(c));
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule *m, const void *) {
    *m = reinterpret_cast<CUmodule>(new Module);
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule m) {
    delete reinterpret_cast<Module *>(m);
    return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *n, CUmodule m, const char *name) {
    if (std::strcmp(name, "rrb_share") != 0) return CUDA_ERROR_NOT_FOUND;
    *p = reinterpret_cast<CUdeviceptr>(&reinterpret_cast<Module *>(m)->share);
    *n = sizeof(Share);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr d, const void *s, size_t n) {
    std::memcpy(reinterpret_cast<void *>(d), s, n);
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
    GUARD;
    for (Kernel &k : kernels()) {
        if (k.name == name) {
            *f = reinterpret_cast<CUfunction>(new Function{&k, reinterpret_cast<Module *>(m)});
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}
// Each kernel takes one structure.
CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size) {
    if (index > 0) return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    if (size) *size = reinterpret_cast<const Function *>(f)->kernel->size;
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
// Returns the PTX version of the kernels, the only attribute that the library queries.
CUresult cuFuncGetAttribute(int *v, CUfunction_attribute, CUfunction) {
    const char *text = std::getenv("EMULATED_PTX");
    *v = text ? std::atoi(text) : 90;
    return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    GUARD;
    CONTEXT;
    if (n == 0) return CUDA_ERROR_INVALID_VALUE;
    if (used[device] + n > capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
    void *m = std::getenv("EMULATED_SHARED") ? share(n) : std::aligned_alloc(256, (n + 255) / 256 * 256);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(m, 0xff, n);
    used[device] += n;
    memory[reinterpret_cast<uintptr_t>(m)] = {n, device};
    *p = reinterpret_cast<CUdeviceptr>(m);
    return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr p) {
    GUARD;
    auto found = memory.find(p);
    if (found == memory.end()) return CUDA_ERROR_INVALID_VALUE;
    used[found->second.second] -= found->second.first;
    memory.erase(found);
    if (!unshare(p)) std::free(reinterpret_cast<void *>(p));
    return CUDA_SUCCESS;
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n, CUdeviceptr p) {
    GUARD;
    auto after = memory.upper_bound(p);
    if (after == memory.begin() || p >= (--after)->first + after->second.first) return CUDA_ERROR_NOT_FOUND;
    *base = after->first;
    *n = after->second.first;
    return CUDA_SUCCESS;
}
// Content of an IPC handle: process, file and length.
struct IpcHandle {
    int process, file;
    size_t bytes;
};
CUresult cuIpcGetMemHandle(CUipcMemHandle *h, CUdeviceptr p) {
    GUARD;
    auto found = shared.find(p);
    if (found == shared.end()) return CUDA_ERROR_NOT_SUPPORTED;
    const IpcHandle handle = {getpid(), found->second.file, found->second.bytes};
    std::memcpy(h, &handle, sizeof handle);
    return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *p, CUipcMemHandle h, unsigned) {
    GUARD;
    CONTEXT;
    IpcHandle handle;
    std::memcpy(&handle, &h, sizeof handle);
    if (handle.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
    const int file = open(path.c_str(), O_RDWR);
    if (file < 0) return CUDA_ERROR_INVALID_VALUE;
    void *m = map(file, handle.bytes);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    memory[reinterpret_cast<uintptr_t>(m)] = {handle.bytes, device};
    *p = reinterpret_cast<CUdeviceptr>(m);
    return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
    GUARD;
    memory.erase(p);
    return unshare(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
// Address ranges to which memory of several devices is mapped; all devices have access.
CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t alignment, CUdeviceptr, unsigned long long) {
    GUARD;
    void *m = std::aligned_alloc(alignment, n);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(m, 0xff, n);
    memory[reinterpret_cast<uintptr_t>(m)] = {n, 0};
    *p = reinterpret_cast<CUdeviceptr>(m);
    return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t) {
    GUARD;
    memory.erase(p);
    std::free(reinterpret_cast<void *>(p));
    return CUDA_SUCCESS;
}
struct Piece {
    size_t bytes;
    int device;
};
std::map<uintptr_t, Piece> pieces;
CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *p, unsigned long long) {
    GUARD;
    if (used[p->location.id] + n > capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
    used[p->location.id] += n;
    *h = reinterpret_cast<CUmemGenericAllocationHandle>(new Piece{n, p->location.id});
    return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr p, size_t, size_t, CUmemGenericAllocationHandle h, unsigned long long) {
    GUARD;
    pieces[p] = *reinterpret_cast<Piece *>(h);
    return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
    delete reinterpret_cast<Piece *>(h);
    return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t n) {
    GUARD;
    for (auto at = pieces.lower_bound(p); at != pieces.end() && at->first < p + n; at = pieces.erase(at))
        used[at->second.device] -= at->second.bytes;
    return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t) { return CUDA_SUCCESS; }
CUresult cuDeviceGetP2PAttribute(int *v, CUdevice_P2PAttribute, CUdevice, CUdevice) {
    const char *text = std::getenv("EMULATED_LINKS");
    *v = !text || std::atoi(text);
    return CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
CUresult cuMemHostAlloc(void **p, size_t n, unsigned) {
    GUARD;
    *p = std::malloc(n);
    locked[reinterpret_cast<uintptr_t>(*p)] = n;
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void *p) {
    GUARD;
    locked.erase(reinterpret_cast<uintptr_t>(p));
    std::free(p);
    return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream stream) {
    // Copies cannot be recorded, because the library records only kernels.
    if (capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    std::memset(reinterpret_cast<void *>(p), v, n);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, CUstream stream) {
    // Copies cannot be recorded, because the library records only kernels.
    if (capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    std::memcpy(reinterpret_cast<void *>(d), s, n);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, CUstream stream) {
    // Copies cannot be recorded, because the library records only kernels.
    if (capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    std::memcpy(d, reinterpret_cast<void *>(s), n);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream stream) {
    // Copies cannot be recorded, because the library records only kernels.
    if (capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    std::memmove(reinterpret_cast<void *>(d), reinterpret_cast<const void *>(s), n);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream stream) {
    // Copies cannot be recorded, because the library records only kernels.
    if (capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    std::memmove(reinterpret_cast<void *>(d), reinterpret_cast<const void *>(s), n);
    return CUDA_SUCCESS;
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream) {
    // Copies cannot be recorded, because the library records only kernels.
    if (capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    const bool from_host = c->srcMemoryType == CU_MEMORYTYPE_HOST, to_host = c->dstMemoryType == CU_MEMORYTYPE_HOST;
    const char *s = static_cast<const char *>(from_host ? c->srcHost : reinterpret_cast<const void *>(c->srcDevice));
    char *d = static_cast<char *>(to_host ? c->dstHost : reinterpret_cast<void *>(c->dstDevice));
    for (size_t j = 0; j < c->Height; ++j) std::memcpy(d + j * c->dstPitch, s + j * c->srcPitch, c->WidthInBytes);
    return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *s, unsigned) {
    CONTEXT;
    GUARD;
    Stream *stream = new Stream{nullptr, pushed.back()};
    streams.insert(stream);
    *s = reinterpret_cast<CUstream>(stream);
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream s) {
    GUARD;
    streams.erase(reinterpret_cast<Stream *>(s));
    delete reinterpret_cast<Stream *>(s);
    return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamGetCtx(CUstream s, CUcontext *c) {
    *c = reinterpret_cast<CUcontext>(reinterpret_cast<Stream *>(s)->context);
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned, CUstream s, void **arguments, void **) {
    GUARD;
    const unsigned threads = bx * by * bz;
    if (gx == 0 || gy != 1 || gz != 1 || bz != 1) return CUDA_ERROR_INVALID_VALUE;
    if (threads == 0 || threads > emulator::MOST) return CUDA_ERROR_INVALID_VALUE;
    const Function *function = reinterpret_cast<const Function *>(f);
    const Kernel *k = function->kernel;
    const char *a = static_cast<const char *>(arguments[0]);
    Node node{k, function->module, {gx, 1, 1}, {bx, by, 1}, std::vector<char>(a, a + k->size), nullptr, 0};
    Stream *stream = reinterpret_cast<Stream *>(s);
    if (stream->capturing) stream->capturing->push_back(node);
    else run(node);
    return CUDA_SUCCESS;
}
// Cooperative launches run with one block. Kernels adapt to the number of blocks.
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **arguments, void **) {
    unsigned blocks = c->gridDimX;
    for (unsigned k = 0; k < c->numAttrs; ++k) {
        if (c->attrs[k].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) blocks = 1;
    }
    return cuLaunchKernel(f, blocks, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
                          c->sharedMemBytes, c->hStream, arguments, nullptr);
}
// Clusters of at most eight blocks, the portable size. Clusters with shared memory are not supported, because one block
// cannot emulate them.
CUresult cuOccupancyMaxActiveClusters(int *v, CUfunction, const CUlaunchConfig *c) {
    *v = c->gridDimX <= 8 && c->sharedMemBytes == 0 ? 1 : 0;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute attribute, CUdevice) {
    const char *text = std::getenv("EMULATED_COOPERATIVE"), *clusters = std::getenv("EMULATED_CLUSTERS");
    if (attribute == CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) *v = !text || std::atoi(text);
    else if (attribute == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) *v = !clusters || std::atoi(clusters);
    else if (attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) *v = 0;
    else *v = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 4 : 9;
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *v, CUfunction, int, size_t) {
    *v = 2;
    return CUDA_SUCCESS;
}
CUresult cuGraphCreate(CUgraph *g, unsigned) {
    *g = reinterpret_cast<CUgraph>(new Graph);
    return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph g) {
    delete reinterpret_cast<Graph *>(g);
    return CUDA_SUCCESS;
}
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *h, CUgraph, CUcontext, unsigned, unsigned) {
    GUARD;
    *h = next_handle++;
    return CUDA_SUCCESS;
}
CUresult cuGraphAddNode_v2(CUgraphNode *, CUgraph g, const CUgraphNode *, const CUgraphEdgeData *, size_t,
                           CUgraphNodeParams *p) {
    if (p->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return CUDA_ERROR_INVALID_VALUE;
    Node node{nullptr, nullptr, {}, {}, {}, std::make_shared<Graph>(), p->conditional.handle};
    // Each node has its own graph object, because handles of two threads may create graphs at the same time.
    p->conditional.phGraph_out = new CUgraph(reinterpret_cast<CUgraph>(node.loop.get()));
    reinterpret_cast<Graph *>(g)->push_back(node);
    return CUDA_SUCCESS;
}
CUresult cuStreamBeginCaptureToGraph(CUstream s, CUgraph g, const CUgraphNode *, const CUgraphEdgeData *, size_t,
                                     CUstreamCaptureMode) {
    reinterpret_cast<Stream *>(s)->capturing = reinterpret_cast<Graph *>(g);
    return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode) {
    GUARD;
    Graph *graph = new Graph;
    recording.insert(graph);
    reinterpret_cast<Stream *>(s)->capturing = graph;
    return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
    GUARD;
    Graph *graph = reinterpret_cast<Stream *>(s)->capturing;
    *g = reinterpret_cast<CUgraph>(graph);
    recording.erase(graph);
    for (Stream *stream : streams) {
        if (stream->capturing == graph) stream->capturing = nullptr;
    }
    return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long) {
    *e = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph *>(g)));
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec e) {
    delete reinterpret_cast<Graph *>(e);
    return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec e, CUstream) {
    GUARD;
    for (const Node &n : *reinterpret_cast<Graph *>(e)) run(n);
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *v, CUpointer_attribute attribute, CUdeviceptr p) {
    GUARD;
    auto host = locked.upper_bound(p);
    if (host != locked.begin() && p < (--host)->first + host->second && attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
        *static_cast<unsigned *>(v) = CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    }
    auto after = memory.upper_bound(p);
    if (after == memory.begin()) return CUDA_ERROR_INVALID_VALUE;
    --after;
    if (p >= after->first + after->second.first) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *static_cast<unsigned *>(v) = CU_MEMORYTYPE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int *>(v) = after->second.second; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *static_cast<int *>(v) = 1; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult e, const char **text) {
    switch (e) {
    case CUDA_ERROR_OUT_OF_MEMORY: *text = "out of memory"; break;
    case CUDA_ERROR_NO_DEVICE: *text = "no CUDA-capable device is detected"; break;
    case CUDA_ERROR_INVALID_DEVICE: *text = "invalid device ordinal"; break;
    default: *text = "emulated error";
    }
    return CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    CONTEXT;
    *total = capacity();
    *free = capacity() - used[device];
    return CUDA_SUCCESS;
}
using Clock = std::chrono::steady_clock;
struct Event {
    Clock::time_point time;
    Graph *capturing;
};
CUresult cuEventCreate(CUevent *e, unsigned) {
    *e = reinterpret_cast<CUevent>(new Event{});
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream s) {
    *reinterpret_cast<Event *>(e) = {Clock::now(), s ? reinterpret_cast<Stream *>(s)->capturing : nullptr};
    return CUDA_SUCCESS;
}
// A stream that waits for a recording stream also records, as long as that stream records.
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned) {
    GUARD;
    Graph *graph = reinterpret_cast<Event *>(e)->capturing;
    if (graph && recording.count(graph)) reinterpret_cast<Stream *>(s)->capturing = graph;
    return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventSynchronize(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventElapsedTime_v2(float *ms, CUevent a, CUevent b) {
    const auto from = reinterpret_cast<Event *>(a)->time, to = reinterpret_cast<Event *>(b)->time;
    *ms = std::chrono::duration<float, std::milli>(to - from).count();
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent e) {
    delete reinterpret_cast<Event *>(e);
    return CUDA_SUCCESS;
}
}

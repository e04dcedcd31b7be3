// waves_on_device.cu for the host: functions of the CUDA runtime that act on memory of the host, and loops instead of
// kernels. The loops run backwards: an array that threads change while others read it would give wrong results.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __host__
#define __device__

namespace {

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation, cudaErrorInsufficientDriver, cudaErrorNoDevice };
enum { cudaMemcpyDefault, cudaStreamNonBlocking, cudaEventDisableTiming };
using cudaStream_t = void *;
using cudaEvent_t = void *;

const char *cudaGetErrorString(cudaError_t) { return "out of memory"; }
cudaError_t cudaMalloc(void **memory, size_t bytes) {
    *memory = std::malloc(bytes);
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaMallocHost(void **memory, size_t bytes) { return cudaMalloc(memory, bytes); }
void cudaFree(void *memory) { std::free(memory); }
void cudaFreeHost(void *memory) { std::free(memory); }
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t) {
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t bytes, int, cudaStream_t) {
    std::memmove(target, source, bytes);
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, int) {
    *stream = nullptr;
    return cudaSuccess;
}
void cudaStreamDestroy(cudaStream_t) {}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, int) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
void cudaEventDestroy(cudaEvent_t) {}
cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }

template <class Body> void for_each(cudaStream_t, int64_t count, const Body &body) {
    for (int64_t thread = count - 1; thread >= 0; --thread) body(thread);
}

template <class Body> void reduce(cudaStream_t, int blocks, const Body &body, typename Body::Value *parts) {
    constexpr int block_size = 256;
    typename Body::Value value[block_size];
    for (int block = blocks - 1; block >= 0; --block) {
        for (int lane = 0; lane < block_size; ++lane) value[lane] = body(block, lane);
        for (int half = block_size / 2; half > 0; half /= 2) {
            for (int lane = 0; lane < half; ++lane) value[lane].join(value[lane + half]);
        }
        parts[block] = value[0];
    }
}

}     // namespace

#include "waves_on_device.cu"

/* The CUDA runtime's functions that this project uses: devices, copies, errors. Memory and streams: see fake.h.
 *
 * Stricter than CUDA where CUDA leaves things to chance: a copy whose direction does not fit its addresses, or which
 * crosses the end of an allocation, is refused with a line; pinned memory is read and written when the copy runs,
 * pageable memory is read at the call (CUDA stages it) and written before the call returns (runtime API, "API
 * synchronization behavior"). */
#include "tests/simt/fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

static cudaError_t last_error, async_error;
static int current_device;

int fake_device(void) { return current_device; }
int fake_n_devices(void) {
    const char *text = getenv("SIMT_GPUS");
    int n = text ? atoi(text) : 8;
    return n < 0 ? 0 : n > 64 ? 64 : n;
}

cudaError_t fake_fail(cudaError_t error, const char *format, ...) {
    last_error = error;
    if (!format) return error;
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "simt: %s\n", text);
    return error;
}

/* An error of queued work (for kernels: from tests/simt) appears at the next synchronization, and as the last error.
 * CUDA then refuses all later calls; here the next test can continue. */
cudaError_t fake_async_error(void) {
    if (simt_take_error && simt_take_error()) async_error = last_error = cudaErrorLaunchFailure;
    cudaError_t error = async_error;
    async_error = cudaSuccess;
    return error;
}

/* ---- copies ---- */
static const char *place_name(struct range r) {
    static const char *const names[] = {"pageable host memory", "device memory", "pinned host memory", "freed memory"};
    return names[r.place];
}
static bool is_host(struct range r) { return r.place == PLACE_PAGEABLE || r.place == PLACE_PINNED; }

static cudaError_t check_side(const char *call, const char *side, struct range r, bool device_wanted, int device) {
    if ((r.place == PLACE_DEVICE) != device_wanted || r.place == PLACE_FREED)
        return fake_fail(cudaErrorInvalidValue, "%s: %s is %s", call, side, place_name(r));
    if (!r.fits) return fake_fail(cudaErrorInvalidValue, "%s: %s crosses the end of its allocation", call, side);
    if (device_wanted && r.device != device)
        return fake_fail(cudaErrorInvalidValue, "%s: %s is memory of GPU %d, and the stream is GPU %d's", call, side,
                         r.device, device);
    return cudaSuccess;
}

static cudaError_t check_copy(const void *to, const void *from, size_t n, enum cudaMemcpyKind kind, int device) {
    static const char call[] = "cudaMemcpyAsync";
    struct range target = fake_range(to, n), source = fake_range(from, n);
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) to_device = !is_host(target), from_device = !is_host(source);
    cudaError_t error = check_side(call, "the target", target, to_device, device);
    if (error == cudaSuccess) error = check_side(call, "the source", source, from_device, device);
    if (error != cudaSuccess) return error;
    if ((const char *)to < (const char *)from + n && (const char *)from < (const char *)to + n)
        return fake_fail(cudaErrorInvalidValue, "%s: source and target overlap", call);
    return cudaSuccess;
}

/* Pinned memory may have been freed since the call. */
static bool copy_now(void *to, const void *from, size_t n) {
    if (fake_range(to, n).place == PLACE_FREED || fake_range(from, n).place == PLACE_FREED)
        async_error = fake_fail(cudaErrorIllegalAddress, "a copy runs after its memory has been freed");
    else memcpy(to, from, n);
    return true;
}

extern "C" {

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t stream) {
    int device = fake_stream_device(stream);
    if (device < 0) return fake_fail(cudaErrorInvalidResourceHandle, "cudaMemcpyAsync: no such stream");
    if (n == 0) return cudaSuccess;
    cudaError_t error = check_copy(to, from, n, kind, device);
    if (error != cudaSuccess) return error;
    if (fake_range(from, n).place == PLACE_PAGEABLE) {
        auto staged = std::make_shared<std::vector<char>>((const char *)from, (const char *)from + n);
        return fake_enqueue(stream, "copy", [=] { return copy_now(to, staged->data(), n); });
    }
    error = fake_enqueue(stream, "copy", [=] { return copy_now(to, from, n); });
    if (error != cudaSuccess || fake_range(to, n).place != PLACE_PAGEABLE) return error;
    return cudaStreamSynchronize(stream);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind) {
    cudaError_t error = cudaMemcpyAsync(to, from, n, kind, NULL);
    return error == cudaSuccess ? cudaStreamSynchronize(NULL) : error;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t n, cudaStream_t stream) {
    int device = fake_stream_device(stream);
    if (device < 0) return fake_fail(cudaErrorInvalidResourceHandle, "cudaMemsetAsync: no such stream");
    if (n == 0) return cudaSuccess;
    cudaError_t error = check_side("cudaMemsetAsync", "the target", fake_range(to, n), true, device);
    if (error != cudaSuccess) return error;
    return fake_enqueue(stream, "memset", [=] {
        memset(to, value, n);
        return true;
    });
}
cudaError_t cudaMemset(void *to, int value, size_t n) { return cudaMemsetAsync(to, value, n, NULL); }

/* ---- errors ---- */
cudaError_t cudaPeekAtLastError(void) {
    cudaError_t late = fake_async_error();
    return late == cudaSuccess ? last_error : late;
}
cudaError_t cudaGetLastError(void) {
    cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}
const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    default: return "unrecognized error code";
    }
}
const char *cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

/* ---- devices ---- */
cudaError_t cudaGetDeviceCount(int *n) {
    *n = fake_n_devices();
    return *n > 0 ? cudaSuccess : fake_fail(cudaErrorNoDevice, NULL);
}
cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= fake_n_devices()) return fake_fail(cudaErrorInvalidDevice, NULL);
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    *device = current_device;
    return cudaSuccess;
}

/* An H100's limits, so that the fake refuses what an H100 refuses. Its libraries are played for SIMT_CAPABILITY. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    if (device < 0 || device >= fake_n_devices()) return fake_fail(cudaErrorInvalidDevice, NULL);
    size_t unused;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "simt (CPU)");
    cudaMemGetInfo(&unused, &p->totalGlobalMem);
    memcpy(p->uuid.bytes, "simt gpu", 8);
    p->uuid.bytes[15] = (char)device;
    const char *capability = getenv("SIMT_CAPABILITY");
    p->major = capability ? atoi(capability) / 10 : 10, p->minor = capability ? atoi(capability) % 10 : 0;
    p->multiProcessorCount = 132;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = 227 << 10;
    p->sharedMemPerMultiprocessor = 228 << 10;
    p->regsPerBlock = 65536;
    p->maxThreadsPerMultiProcessor = 2048;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
    if (!kernel) return fake_fail(cudaErrorInvalidValue, "cudaFuncSetAttribute: no kernel");
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value > 227 << 10)
        return fake_fail(cudaErrorInvalidValue, "%d bytes of dynamic shared memory; a block has at most %d", value,
                         227 << 10);
    return cudaSuccess;
}

}

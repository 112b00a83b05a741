/* A GPU as a device: one compute stream, on which everything that a step does is queued in order.
 *
 * The stream is created "non-blocking": it never waits for the legacy default stream, which this file does not use. The
 * only calls that wait are upload, download and finish; a training step uses none of them (it pins, starts, marks).
 *
 * A likely mistake: the host overwrites a pinned buffer before the copy from it has run. The GPU reads the buffer later
 * than the line of code that started the copy. The buffer is free when a mark set after the copy is done. */
#include "lib/device/device.h"

#include "lib/device/cuda_try.h"
#include "lib/device/fill.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_GPUS = 64, MAX_BLOCKS = 64 };

struct gpu {
    struct device device;
    char name[128];
    struct { char *at; int64_t bytes; } block[MAX_BLOCKS];   /* what allocate gave out */
    cudaStream_t beside;                                     /* stream of copy_beside; NULL before its first call */
    struct device_mark fork;
};
static struct gpu *gpus[MAX_GPUS];

static struct gpu *gpu_of(const struct device *d) { return gpus[d->index]; }
static cudaStream_t stream_of(const struct device *d) { return (cudaStream_t)d->stream; }

/* ---- memory ---- */
static enum status remember(struct gpu *g, void *at, int64_t bytes) {
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (!g->block[i].at) {
            g->block[i].at = at;
            g->block[i].bytes = bytes;
            return OK;
        }
    return FAIL(E_INTERNAL, "more than %d allocations at a time on %s; memory comes in arenas", MAX_BLOCKS,
                g->device.name);
}

static enum status cuda_allocate(const struct device *d, int64_t bytes, void **out) {
    *out = NULL;
    if (bytes < 0) return FAIL(E_INTERNAL, "asked for %" PRId64 " bytes of device memory", bytes);
    cudaError_t error = cudaMalloc(out, bytes > 0 ? (size_t)bytes : 1);
    if (error != cudaSuccess) {
        size_t free_bytes = 0, total = 0;
        cudaGetLastError();
        cudaMemGetInfo(&free_bytes, &total);
        return FAIL(E_MEMORY, "%s refused %" PRId64 " bytes: %s (%zu of %zu bytes are free)", d->name, bytes,
                    cudaGetErrorString(error), free_bytes, total);
    }
    enum status status = remember(gpu_of(d), *out, bytes);
    if (status != OK) cudaFree(*out);
    return status;
}

static void cuda_release(const struct device *d, void *memory, int64_t bytes) {
    (void)bytes;
    struct gpu *g = gpu_of(d);
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (g->block[i].at == memory) g->block[i].at = NULL;
    cudaStreamSynchronize(stream_of(d));
    cudaFree(memory);
}

static bool cuda_owns(const struct device *d, const void *address) {
    const struct gpu *g = gpu_of(d);
    const char *a = address;
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (g->block[i].at && a >= g->block[i].at && a < g->block[i].at + g->block[i].bytes) return true;
    return false;
}

static void cuda_memory(const struct device *d, int64_t *used_bytes, int64_t *total_bytes) {
    (void)d;
    size_t free_bytes = 0, total = 0;
    cudaMemGetInfo(&free_bytes, &total);
    *used_bytes = (int64_t)(total - free_bytes);
    *total_bytes = (int64_t)total;
}

/* ---- in order on the compute stream ---- */
static enum status cuda_fill(const struct device *d, void *to, uint64_t pattern, int64_t bytes) {
    return fill_words(to, pattern, bytes / 8, d->stream);
}
static enum status cuda_clear(const struct device *d, void *to, int64_t bytes) {
    if (bytes > 0) CUDA_TRY(cudaMemsetAsync(to, 0, (size_t)bytes, stream_of(d)));
    return OK;
}
static enum status cuda_copy(const struct device *d, void *to, const void *from, int64_t bytes) {
    if (bytes > 0) CUDA_TRY(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, stream_of(d)));
    return OK;
}
static enum status cuda_upload_start(const struct device *d, void *to, const void *from, int64_t bytes) {
    if (bytes > 0) CUDA_TRY(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, stream_of(d)));
    return OK;
}
static enum status cuda_download_start(const struct device *d, void *to, const void *from, int64_t bytes) {
    if (bytes > 0) CUDA_TRY(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, stream_of(d)));
    return OK;
}

/* ---- complete on return ---- */
static enum status cuda_finish(const struct device *d) {
    CUDA_TRY(cudaStreamSynchronize(stream_of(d)));
    return OK;
}
static enum status cuda_upload(const struct device *d, void *to, const void *from, int64_t bytes) {
    TRY(cuda_upload_start(d, to, from, bytes));
    return cuda_finish(d);
}
static enum status cuda_download(const struct device *d, void *to, const void *from, int64_t bytes) {
    TRY(cuda_download_start(d, to, from, bytes));
    return cuda_finish(d);
}

/* ---- pinned memory ---- */
static enum status cuda_pin(const struct device *d, int64_t bytes, void **out) {
    cudaError_t error = cudaMallocHost(out, bytes > 0 ? (size_t)bytes : 1);
    if (error == cudaSuccess) return OK;
    cudaGetLastError();
    return FAIL(E_MEMORY, "no %" PRId64 " bytes of pinned host memory for %s: %s; raise ulimit -l", bytes, d->name,
                cudaGetErrorString(error));
}
static void cuda_unpin(const struct device *d, void *memory) {
    (void)d;
    cudaFreeHost(memory);
}

/* ---- marks ---- */
static enum status record_on(cudaStream_t stream, struct device_mark *mark, unsigned flags) {
    cudaEvent_t event = (cudaEvent_t)mark->event;
    if (!event) CUDA_TRY(cudaEventCreateWithFlags(&event, flags));
    mark->event = event;
    CUDA_TRY(cudaEventRecord(event, stream));
    return OK;
}
static enum status cuda_mark_set(const struct device *d, struct device_mark *mark) {
    return record_on(stream_of(d), mark, cudaEventDisableTiming);
}
static enum status cuda_mark_timed(const struct device *d, void *stream, struct device_mark *mark) {
    return record_on(stream ? (cudaStream_t)stream : stream_of(d), mark, cudaEventDefault);
}
static enum status cuda_mark_seconds(const struct device *d, const struct device_mark *from,
                                     const struct device_mark *to, double *seconds) {
    (void)d;
    float ms = 0;
    CUDA_TRY(cudaEventElapsedTime(&ms, (cudaEvent_t)from->event, (cudaEvent_t)to->event));
    *seconds = 1e-3 * ms;
    return OK;
}
static enum status cuda_mark_done(const struct device *d, const struct device_mark *mark, bool *done) {
    (void)d;
    *done = true;
    if (!mark->event) return OK;
    cudaError_t error = cudaEventQuery((cudaEvent_t)mark->event);
    *done = error == cudaSuccess;
    if (error == cudaSuccess || error == cudaErrorNotReady) return OK;
    return FAIL(E_DEVICE, "%s: work on the GPU failed: %s", d->name, cudaGetErrorString(error));
}
static void cuda_mark_fini(const struct device *d, struct device_mark *mark) {
    (void)d;
    if (mark->event) cudaEventDestroy((cudaEvent_t)mark->event);
    mark->event = NULL;
}

/* ---- other streams ---- */
/* Later work on a stream waits for a mark that was set on another stream. */
static enum status stream_waits(cudaStream_t stream, const struct device_mark *mark) {
    if (mark->event) CUDA_TRY(cudaStreamWaitEvent(stream, (cudaEvent_t)mark->event, 0));
    return OK;
}

static enum status cuda_copy_beside(const struct device *d, void *to, const void *from, int64_t bytes,
                                    struct device_mark *mark) {
    struct gpu *g = gpu_of(d);
    if (!g->beside) CUDA_TRY(cudaStreamCreateWithFlags(&g->beside, cudaStreamNonBlocking));
    TRY(cuda_mark_set(d, &g->fork));
    TRY(stream_waits(g->beside, &g->fork));
    enum cudaMemcpyKind way = cuda_owns(d, to) ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    if (bytes > 0) CUDA_TRY(cudaMemcpyAsync(to, from, (size_t)bytes, way, g->beside));
    return record_on(g->beside, mark, cudaEventDisableTiming);
}

static enum status cuda_copy_join(const struct device *d, const struct device_mark *mark) {
    return stream_waits(stream_of(d), mark);
}

/* ---- opening ---- */
int device_cuda_count(void) {
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return n < MAX_GPUS ? n : MAX_GPUS;
}

static enum status open_gpu(int index, struct gpu *g) {
    struct cudaDeviceProp properties;
    cudaStream_t stream;
    CUDA_TRY(cudaSetDevice(index));
    CUDA_TRY(cudaGetDeviceProperties(&properties, index));
    CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    snprintf(g->name, sizeof g->name, "cuda %d (%.100s)", index, properties.name);
    g->device = (struct device){
        .kind = DEVICE_CUDA, .name = g->name, .stream = stream, .index = index,
        .capability = 10 * properties.major + properties.minor, .allocate = cuda_allocate,
        .release = cuda_release, .owns = cuda_owns, .fill = cuda_fill, .clear = cuda_clear, .copy = cuda_copy,
        .upload_start = cuda_upload_start, .download_start = cuda_download_start,
        .copy_beside = cuda_copy_beside, .copy_join = cuda_copy_join, .upload = cuda_upload,
        .download = cuda_download, .finish = cuda_finish, .pin = cuda_pin, .unpin = cuda_unpin,
        .mark_set = cuda_mark_set, .mark_done = cuda_mark_done, .mark_fini = cuda_mark_fini,
        .mark_timed = cuda_mark_timed, .mark_seconds = cuda_mark_seconds, .memory = cuda_memory};
    return OK;
}

enum status device_cuda(int index, const struct device **out) {
    int n = device_cuda_count();
    if (n == 0) return FAIL(E_DEVICE, "there is no GPU here, or no driver for it; use --device cpu");
    if (index < 0 || index >= n)
        return FAIL(E_DEVICE, "GPU %d of %d was requested; they are numbered from 0", index, n);
    if (!gpus[index]) {
        struct gpu *g = calloc(1, sizeof *g);
        if (!g) return FAIL(E_MEMORY, "no memory for the state of GPU %d", index);
        gpus[index] = g;
        enum status status = open_gpu(index, g);
        if (status != OK) {
            gpus[index] = NULL;
            free(g);
            return status;
        }
    }
    *out = &gpus[index]->device;
    return OK;
}

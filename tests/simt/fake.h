/* What the fakes of NVIDIA's libraries share. The fakes are for tests on a machine with no GPU.
 *
 *   fake_memory.cpp   device memory and pinned memory: the owner of an address, and accesses
 *   fake_streams.cpp  streams and events: queues of pieces of work that run later
 *   fake_cudart.cpp   the CUDA runtime's functions, on those two
 *   fake_mpi.cpp      MPI calls that also move the streams forward
 *   fake_nccl*.cpp    NCCL, over fake_wire.cpp: MPI, or files
 *   fake_cublaslt.cpp cuBLASLt; its work goes through fake_enqueue
 *
 * A GPU runs its queue later than the host fills it. A fake that ran everything at once would pass programs that forget
 * to wait. So here work runs only when the host waits or queries, and then in the least convenient order that CUDA
 * allows: a missing wait shows as wrong numbers. Settings are environment variables:
 *
 *   SIMT_STREAMS  late (default)  work runs when the host waits or queries: the youngest stream first, each as far as
 *                                 possible, but only until the awaited work is done
 *                 oldest          the same with the oldest stream first: the compute stream before those that send and
 *                                 copy
 *                 eager           everything that can run runs when it is issued
 *                 random          any order that CUDA allows, drawn with SIMT_SEED (default 1)
 *   SIMT_GPUS     number of GPUs (8)
 *   SIMT_CAPABILITY  their compute capability (100 is 10.0, the default): what the fake of cuBLASLt takes
 *   SIMT_MEMORY   bytes of each, with K, M or G after it (2G)
 *   SIMT_GUARD    1 (default): host code that touches device memory ends with a line on stderr; 0: it may touch it */
#pragma once

#include <cuda_runtime_api.h>
#include <functional>
#include <memory>
#include <stddef.h>
#include <stdint.h>

/* ---- fake_cudart.cpp ---- */
/** Store an error for cudaGetLastError, and return it. With a text: also write a line to stderr. */
cudaError_t fake_fail(cudaError_t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** The error of queued work since the last call. */
cudaError_t fake_async_error(void);
int fake_device(void);                                    /* the device of cudaSetDevice */
int fake_n_devices(void);

/* ---- fake_memory.cpp ---- */
enum place { PLACE_PAGEABLE, PLACE_DEVICE, PLACE_PINNED, PLACE_FREED };
struct range {                                              /* the place of [at, at + bytes) */
    enum place place;
    int device;                                             /* of device memory */
    bool fits;                                              /* lies in one allocation; true for pageable memory */
};
struct range fake_range(const void *at, size_t bytes);
/** Allow kernels and copies to touch device memory, until fake_memory_close. Call them before and after work runs. */
void fake_memory_open(void);
void fake_memory_close(void);

/* ---- fake_streams.cpp ---- */
/** Work of a stream. Returns whether it is done; false: the stream calls it again later. */
typedef std::function<bool()> piece;
/** Queue a piece. touches: open device memory for it; a piece that seldom touches memory opens it itself. @errors
 *  cudaErrorInvalidResourceHandle: no such stream of this device */
cudaError_t fake_enqueue(cudaStream_t, const char *what, piece, bool touches = true);
int fake_stream_device(cudaStream_t);                     /* -1: no such stream */
/** Let streams run, for a query that does not wait. */
void fake_poke(void);
/** Let streams run until done() is true. Counts as a wait of the host (simt_host_waits). */
void fake_wait(const std::function<bool()> &done);

extern "C" {
/** How often the host has waited for a GPU: in synchronisations, and in copies that are complete on return. */
int64_t simt_host_waits(void);
/** For events, the work that runs now takes `seconds` longer. */
void simt_pretend(double seconds) __attribute__((weak));
/* tests/simt/simt.cpp */
extern void (*simt_submit)(void *stream, void (*run)(void *), void *context, size_t bytes) __attribute__((weak));
void simt_memory_allocated(void *at, size_t bytes) __attribute__((weak));
void simt_memory_freed(void *at) __attribute__((weak));
int simt_take_error(void) __attribute__((weak));
}

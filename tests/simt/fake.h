/* The fakes of NVIDIA's libraries, for tests on a machine with no GPU: what they share.
 *
 *   fake_memory.cpp   device memory and pinned memory: the owner of an address, and accesses
 *   fake_streams.cpp  streams and events: queues of pieces of work that run later
 *   fake_cudart.cpp   the CUDA runtime's functions, on those two
 *   fake_mpi.cpp      MPI calls that also move the streams forward
 *   fake_nccl*.cpp    NCCL, over fake_wire.cpp: MPI, or files
 *   fake_cublaslt.cpp cuBLASLt; its work goes through fake_enqueue
 *
 * A GPU runs its queue some time later, and the host runs ahead. A double that did everything at once would pass
 * every program that forgets to wait. So here nothing runs until somebody waits or asks, and then in the least
 * convenient order that CUDA allows; what was not waited for shows as wrong numbers. Settings, all by environment:
 *
 *   SIMT_STREAMS  late (default)  work runs when somebody waits or asks: the youngest stream first, each as far as it
 *                                 can go, and no further than what was asked for
 *                 oldest          the same with the oldest stream first: the compute stream before those that send and
 *                                 copy
 *                 eager           everything that can run runs when it is issued
 *                 random          any order that CUDA allows, drawn with SIMT_SEED (default 1)
 *   SIMT_GPUS     how many GPUs there are (8)
 *   SIMT_MEMORY   bytes of each, with K, M or G after it (2G)
 *   SIMT_GUARD    1 (default): host code that touches device memory is ended with a line on stderr; 0: it may */
#pragma once

#include <cuda_runtime_api.h>
#include <functional>
#include <memory>
#include <stddef.h>
#include <stdint.h>

/* ---- fake_cudart.cpp ---- */
/** Remember an error for cudaGetLastError, and return it. With a text: also a line on stderr. */
cudaError_t fake_fail(cudaError_t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** What queued work did wrong since the last call. */
cudaError_t fake_async_error(void);
int fake_device(void);                                    /* what cudaSetDevice chose */
int fake_n_devices(void);

/* ---- fake_memory.cpp ---- */
enum place { PLACE_PAGEABLE, PLACE_DEVICE, PLACE_PINNED, PLACE_FREED };
struct range {                                              /* what is known of [at, at + bytes) */
    enum place place;
    int device;                                             /* of device memory */
    bool fits;                                              /* lies in one allocation; true for pageable memory */
};
struct range fake_range(const void *at, size_t bytes);
/** Device memory may be touched until fake_memory_close: called before work runs, and after it. */
void fake_memory_open(void);
void fake_memory_close(void);

/* ---- fake_streams.cpp ---- */
/** Something that a stream does. Returns whether it is done; false: it was tried, and must be tried again. */
typedef std::function<bool()> piece;
/** Queue a piece. It may touch device memory; one that does so seldom opens it itself (touches false). @errors
 *  cudaErrorInvalidResourceHandle: no such stream of this device */
cudaError_t fake_enqueue(cudaStream_t, const char *what, piece, bool touches = true);
int fake_stream_device(cudaStream_t);                     /* -1: no such stream */
/** Let streams run, for somebody who asks and does not wait. */
void fake_poke(void);
/** Let streams run until `done` says yes. What it costs the host is counted (simt_host_waits). */
void fake_wait(const std::function<bool()> &done);

extern "C" {
/** How often the host has waited for a GPU: synchronisations, and copies that are complete on return. */
int64_t simt_host_waits(void);
/** Work that runs on a stream has taken so much longer, as events see it. */
void simt_pretend(double seconds) __attribute__((weak));
/* tests/simt/simt.cpp */
extern void (*simt_submit)(void *stream, void (*run)(void *), void *context, size_t bytes) __attribute__((weak));
void simt_memory_allocated(void *at, size_t bytes) __attribute__((weak));
void simt_memory_freed(void *at) __attribute__((weak));
int simt_take_error(void) __attribute__((weak));
}

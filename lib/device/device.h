/* A device holds memory and runs rows in order: the order of issue is the order of execution on its compute stream.
 *
 * On a CPU a piece of work is done when the call returns. On a GPU the call only enqueues it: the host runs ahead, and
 * a mark tells when a piece is done. A training step may never wait for the whole device, only for a mark. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

enum device_kind { DEVICE_CPU, DEVICE_CUDA, N_DEVICES, DEVICE_DISK = N_DEVICES };   /* a disk has no kernels */

/* A place in the compute stream: all work issued before it. The caller owns the storage. Zero is a mark that was never
 * set, and counts as done. */
struct device_mark { void *event; };

struct device {
    enum device_kind kind;
    const char *name;                /* "cpu", "cuda 0 (NVIDIA H200)" */
    void *stream;                    /* the compute stream (a cudaStream_t); NULL on the CPU */
    int index;                       /* which GPU; 0 on the CPU */
    int capability;                  /* a GPU's compute capability: 90 is 9.0; 0 on the CPU */

    /* Allocate device memory, aligned to 4096 bytes. The caller owns *out, and returns it with `release`. @errors
     * E_MEMORY */
    enum status (*allocate)(const struct device *, int64_t bytes, void **out);
    void (*release)(const struct device *, void *memory, int64_t bytes);
    /* Did `allocate` give out the memory of this address? Only the CPU device owns host memory. */
    bool (*owns)(const struct device *, const void *address);

    /* ---- in order on the compute stream; the host does not wait ---- */
    /* Fill with a repeating 64-bit pattern; bytes a multiple of 8. */
    enum status (*fill)(const struct device *, void *to, uint64_t pattern, int64_t bytes);
    /* Set all bytes to zero; any number of bytes. */
    enum status (*clear)(const struct device *, void *to, int64_t bytes);
    /* Copy within the device's memory; the two parts do not overlap. */
    enum status (*copy)(const struct device *, void *to, const void *from, int64_t bytes);
    /* Copy to or from pinned host memory, which must not change until a later mark is done. */
    enum status (*upload_start)(const struct device *, void *to, const void *from_pinned, int64_t bytes);
    enum status (*download_start)(const struct device *, void *to_pinned, const void *from, int64_t bytes);

    /* ---- other streams ---- */
    /* Copy between the device's memory and pinned host memory, after all work issued so far. Neither the host nor later
     * work waits for the copy; copy_join of its mark makes later work wait. Copies run one after another. */
    enum status (*copy_beside)(const struct device *, void *to, const void *from, int64_t bytes, struct device_mark *);
    enum status (*copy_join)(const struct device *, const struct device_mark *);

    /* ---- complete on return, because they wait for the compute stream. For set-up, tests, checkpoints; never inside a
     * step ---- */
    enum status (*upload)(const struct device *, void *to, const void *from_host, int64_t bytes);
    enum status (*download)(const struct device *, void *to_host, const void *from, int64_t bytes);
    enum status (*finish)(const struct device *);        /* waits for all issued work, and returns its late errors */

    /* ---- pinned host memory: copies do not need the host ---- */
    enum status (*pin)(const struct device *, int64_t bytes, void **out);
    void (*unpin)(const struct device *, void *memory);

    /* ---- marks ---- */
    /* set at the stream's present end; replaces an older mark */
    enum status (*mark_set)(const struct device *, struct device_mark *);
    enum status (*mark_done)(const struct device *, const struct device_mark *, bool *done); /* does not wait */
    void (*mark_fini)(const struct device *, struct device_mark *);
    /* Set a mark that records the time, in a stream (a cudaStream_t; NULL: the compute stream); and the seconds between
     * two such marks that are done (stopwatch.h). NULL on the CPU, where a clock suffices. */
    enum status (*mark_timed)(const struct device *, void *stream, struct device_mark *);
    enum status (*mark_seconds)(const struct device *, const struct device_mark *from, const struct device_mark *to,
                                double *seconds);

    /* The device's own count of its memory, for `unaccounted`; -1 where it has none. */
    void (*memory)(const struct device *, int64_t *used_bytes, int64_t *total_bytes);
};

/** The host itself: plain memory, OpenMP threads. Static; never destroyed. */
const struct device *device_cpu(void);

/** Do `ranks` processes of `bytes` each fit into this host's memory with its swap, or into its container's? If not, the
 *  system would kill one of them in the middle of a step. @errors E_MEMORY @collective{none} */
enum status device_cpu_room(int64_t bytes, int ranks);

/** The CUDA device `index` of this process. The first call opens it, and later calls return the same one. NULL out:
 *  only check that it can be opened. @errors E_DEVICE: no driver, no such GPU, or this build has no CUDA (with the
 *  remedy) */
enum status device_cuda(int index, const struct device **out);
/** The number of GPUs; 0 also if this build has no CUDA, or the machine no driver. */
int device_cuda_count(void);

/* A device holds memory and runs rows in order: the order of issue is the order of execution on its compute stream.
 *
 * The CPU is done with a piece of work when the call returns. For a GPU the call only enqueues it: the host runs ahead,
 * and a mark tells when a piece is done. Nothing in a training step may wait for the whole device; what waits, waits
 * for a mark. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

enum device_kind { DEVICE_CPU, DEVICE_CUDA, N_DEVICES, DEVICE_DISK = N_DEVICES };   /* a disk has no kernels */

/* A place in the compute stream: everything issued before it. Storage is the caller's; zero means never set, which is
 * done. */
struct device_mark { void *event; };

struct device {
    enum device_kind kind;
    const char *name;                /* "cpu", "cuda 0 (NVIDIA H200)" */
    void *stream;                    /* the compute stream (a cudaStream_t); NULL on the CPU */
    int index;                       /* which GPU; 0 on the CPU */
    int capability;                  /* what a GPU can do: 90 of compute capability 9.0; 0 on the CPU */

    /* 4096-byte aligned memory of the device. *out is owned by the caller, returned with `release`. @errors E_MEMORY */
    enum status (*allocate)(const struct device *, int64_t bytes, void **out);
    void (*release)(const struct device *, void *memory, int64_t bytes);
    /* Is this address in memory that `allocate` gave out? Host memory is the CPU's alone. */
    bool (*owns)(const struct device *, const void *address);

    /* ---- in order on the compute stream; the host does not wait ---- */
    /* Fill with a repeating 64-bit pattern; bytes a multiple of 8. */
    enum status (*fill)(const struct device *, void *to, uint64_t pattern, int64_t bytes);
    /* Set all bytes to zero; any number of bytes. */
    enum status (*clear)(const struct device *, void *to, int64_t bytes);
    /* From the device's memory to the device's memory; they do not overlap. */
    enum status (*copy)(const struct device *, void *to, const void *from, int64_t bytes);
    /* To and from pinned host memory, which must stay as it is until a later mark is done. */
    enum status (*upload_start)(const struct device *, void *to, const void *from_pinned, int64_t bytes);
    enum status (*download_start)(const struct device *, void *to_pinned, const void *from, int64_t bytes);

    /* ---- other streams ---- */
    /* Copy between the device's memory and pinned host memory, after everything issued so far. The host does not wait,
     * nor does what is issued from now on: until copy_join of the same mark, which makes it wait. Copies run one after
     * another. */
    enum status (*copy_beside)(const struct device *, void *to, const void *from, int64_t bytes, struct device_mark *);
    enum status (*copy_join)(const struct device *, const struct device_mark *);

    /* ---- complete on return: they wait for the compute stream. Set-up, tests, checkpoints; never inside a step
     * ---- */
    enum status (*upload)(const struct device *, void *to, const void *from_host, int64_t bytes);
    enum status (*download)(const struct device *, void *to_host, const void *from, int64_t bytes);
    enum status (*finish)(const struct device *);        /* everything issued is done; late errors show here */

    /* ---- pinned host memory, which copies can reach without the host ---- */
    enum status (*pin)(const struct device *, int64_t bytes, void **out);
    void (*unpin)(const struct device *, void *memory);

    /* ---- marks ---- */
    /* here, now; replaces an older one */
    enum status (*mark_set)(const struct device *, struct device_mark *);
    enum status (*mark_done)(const struct device *, const struct device_mark *, bool *done); /* a look; does not wait */
    void (*mark_fini)(const struct device *, struct device_mark *);
    /* The same mark with the time in it, in a stream (a cudaStream_t; NULL: the compute stream), and the seconds
     * between two such marks that are done (stopwatch.h). NULL on the CPU, where a clock will do. */
    enum status (*mark_timed)(const struct device *, void *stream, struct device_mark *);
    enum status (*mark_seconds)(const struct device *, const struct device_mark *from, const struct device_mark *to,
                                double *seconds);

    /* What the device itself says of its memory, for `unaccounted`; -1 where it does not. */
    void (*memory)(const struct device *, int64_t *used_bytes, int64_t *total_bytes);
};

/** The host itself: plain memory, OpenMP threads. Static; never destroyed. */
const struct device *device_cpu(void);

/** The CUDA device `index` of this process, opened at the first call and then the same one. NULL out: only ask whether
 *  it could be. @errors E_DEVICE: no driver, no such GPU, or this build has no CUDA (with the remedy) */
enum status device_cuda(int index, const struct device **out);
/** How many GPUs there are: 0 also where this build has no CUDA, or the machine no driver. */
int device_cuda_count(void);

/** Wait for a mark, at most timeout_s; `idle` is called over and over meanwhile (NULL: sched_yield).
 *  @errors E_TIMEOUT naming what was waited for, E_DEVICE */
enum status device_wait(const struct device *, const struct device_mark *, double timeout_s, void (*idle)(void),
                        const char *what);

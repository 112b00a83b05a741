/* The interface of tests/simt for tests and the runtime's fake: reports, orders, barriers, memory. Clean C; the rest of
 * the interface is CUDA's own and is for .cu files (simt.h). See docs/simt.md.
 *
 * A report is a line about something that a kernel must not do: a race, an access out of bounds, a barrier that not all
 * threads come to. Each place is reported once. A process with a report that was not cleared ends with exit code 66. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For files that are also in builds without tests/simt: `if (simt_reports && simt_reports() > 0)`. */
#ifdef SIMT_WEAK
#define SIMT_API __attribute__((weak))
#else
#define SIMT_API
#endif

/* ---- reports ---- */
/** The number of reports since the start or the last clear. */
SIMT_API int simt_reports(void);
/** The newest report, without newline; "" if there is none. Borrowed until the next report. */
SIMT_API const char *simt_report_text(void);
/** Report i (from 0) of the first 64. */
SIMT_API const char *simt_report(int i);
/** Drop all reports; every place may be reported again. */
SIMT_API void simt_reports_clear(void);
/** 1 (default): write reports to stderr, too, at most 10. 0: only count them, for a test that expects
 *  reports. */
SIMT_API void simt_reports_show(int on);
/** Called after each report, on the stack of the thread that it is about; NULL (default): no call. */
SIMT_API void simt_on_report(void (*)(void));
/** 1 in a build that checks every access to memory (SIMT=check), else 0. Only a checked build finds races, bounds and
 *  reads before writes; both builds watch barriers, warps and launches. */
SIMT_API int simt_checked(void);

/* ---- order ---- */
/** The order in which the threads of a block run between barriers, and the blocks of a grid. A kernel without races has
 *  the same result in both. At start: SIMT_ORDER=forward|reverse in the environment, else forward. */
enum simt_order { SIMT_FORWARD, SIMT_REVERSE };
SIMT_API void simt_set_order(enum simt_order);
SIMT_API enum simt_order simt_get_order(void);

/* ---- barriers ---- */
/** A __syncthreads or __syncwarp in the text of a kernel, or of a function that it calls: one for each kernel that
 *  passes it. Numbered from 0 in the order of first passing; numbers never change. */
struct simt_barrier { const char *kernel, *what, *file; int line; };
SIMT_API int simt_barriers(void);
/** Valid until the process ends. NULL: no such number. */
SIMT_API const struct simt_barrier *simt_barrier(int number);
/** Threads pass this barrier without waiting, and without order between them; -1: all barriers hold again. A test of a
 *  kernel with any of its barriers off must fail, in one of the orders or by a report. At start:
 *  SIMT_NO_BARRIER=file:line, or file:line,kernel for one kernel only. */
SIMT_API void simt_barrier_off(int number);

/* ---- traffic ---- */
/** The memory traffic of kernels' warps, in a GPU's units (traffic.cpp). requests: each is one access by the lanes of
 *  one warp. units: sectors of 32 bytes; for shared memory, wavefronts (1 per request without bank conflicts). bytes:
 *  those that the lanes access. shared: reads and writes together. Fewer units for the same bytes are better; the least
 *  is bytes / 32. */
struct simt_traffic { int64_t requests, units, bytes; };
struct simt_counts {
    struct simt_traffic load, store, shared;
    struct simt_traffic fragment;                            /* of tensor cores, in shared memory; requests: fragments,
                                                              * loaded or stored. In global memory: load and store */
    int64_t conflicts;                                       /* wavefronts, of shared and fragment, beyond those that
                                                              * their different words need */
    int64_t products;                                        /* of tensor cores, 16 x 16 x 16: 8192 flops each */
    int64_t block_shared;                                    /* bytes of shared memory of the block that has most */
};
/** Count from zero, or stop. Checked builds only: all zero elsewhere. At start: SIMT_COUNT=1 counts, and writes a table
 *  for each launch to stderr. */
SIMT_API void simt_count(int on);
SIMT_API struct simt_counts simt_counts(void);

/* ---- limits ---- */
/** The limits of a launch; bytes are of one block. Defaults are an H100's. */
struct simt_limits { int64_t threads, grid_x, grid_yz, block_z, shared_bytes, shared_bytes_opt_in; };
SIMT_API void simt_set_limits(const struct simt_limits *);   /* NULL: the defaults */
SIMT_API struct simt_limits simt_get_limits(void);

/* ---- for the runtime's fake ---- */
/** If set, LAUNCH calls this function instead of running the kernel. `context` is `bytes` bytes that may be
 *  copied to any 16-byte aligned place; run(copy) then runs the whole grid. NULL (default): launches run at once. */
extern void (*simt_submit)(void *stream, void (*run)(void *context), void *context, size_t bytes);
/** Return and clear the cudaError_t of the last launch that was refused or given up; 0: none. */
SIMT_API int simt_take_error(void);
/** A sentence about that error: "layernorm_block: 2048 threads in a block; the limit is 1024". "" if there is none. */
SIMT_API const char *simt_error_text(void);
/** Register and remove device memory that kernels may touch, `bytes` from `at` on. Checked builds take the bounds from
 *  here. */
SIMT_API void simt_memory_allocated(void *at, size_t bytes);
SIMT_API void simt_memory_freed(void *at);

#ifdef __cplusplus
}
#endif

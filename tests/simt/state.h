/* Shared by the files of tests/simt; kernels do not see it.
 *
 *   simt.cpp       a launch: is it allowed; its blocks, one after the other
 *   schedule.cpp   the threads of a block: which run, which wait; __syncthreads
 *   warp.cpp       operations of a warp's lanes together
 *   site.cpp       places in the text of kernels: barriers with numbers
 *   shared.cpp     shared memory of the running block
 *   report.cpp     reports; place.cpp: file and line of an address of code
 *   check*.cpp     checks of every memory access (SIMT=check); traffic.cpp: memory traffic in a GPU's units */
#pragma once

#include "tests/simt/simt.h"
#include "tests/simt/simt_test.h"

namespace simt {

enum { MAX_THREADS = 1024, WARP = 32, MAX_WARPS = MAX_THREADS / WARP };

/* ---- the launch and the block that run (simt.cpp, schedule.cpp) ---- */
struct running {
    const struct simt_launch *launch;                       /* NULL: no kernel runs */
    uint64_t launch_number;
    uint32_t first_serial;                                  /* the number of this launch's first block */
    int n_threads, n_live;                                  /* of the block; those that have not ended */
    uint16_t block_epoch, warp_epoch[MAX_WARPS];            /* how many barriers the block and its warps have passed */
    unsigned ended[MAX_WARPS], arrived[MAX_WARPS];          /* lanes that have ended; that wait for others of their
                                                             * warp */
    int thread;                                             /* the running thread: threadIdx as one number */
    bool reverse;
};
extern struct running now;

/** The index of the block that ran as the n-th of this launch (block number serial - first_serial). */
struct uint3 block_index(uint32_t n);
struct uint3 thread_index(int thread);
/** Run all threads of one block. false: they deadlock, and the block is given up. */
bool block_run(void (*thread)(void *), void *context);

/* ---- schedule.cpp, for warp.cpp ---- */
/** The running thread waits until threads_wake. */
void thread_wait(const struct simt_site *);
void threads_wake(int first_thread, unsigned lanes);

/* ---- warp.cpp ---- */
void warps_start(int n_threads);
/** A thread has ended; waiting lanes of its warp may wait for it. */
void warp_thread_ends(int thread);

/* ---- site.cpp ---- */
/** Is this barrier on, in this kernel? Looked up once per launch. */
bool site_look_up(struct simt_site *);
static inline bool site_is_on(struct simt_site *site) {
    return site->on_in_launch == now.launch_number || site_look_up(site);
}
const char *site_file(const struct simt_site *);
bool site_same_place(const struct simt_site *, const struct simt_site *);

/* ---- shared.cpp ---- */
void shared_start(size_t dynamic_bytes);
/** The shared memory of the running block so far: dynamic, and the declarations that its threads have reached. */
int64_t shared_bytes(void);

/* ---- report.cpp ---- */
/** A report about the running thread, "simt: KIND in KERNEL (PLACE): block (x,y,z): ...". The same kind at the same two
 *  places (addresses of code, or of sites) is reported once; only a new report looks up its place. */
void report(const char *kind, const void *code, const void *other_code, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
void report_at(const char *kind, const struct simt_site *, const struct simt_site *other, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
/** Is this report known? Then its text need not be made. */
bool report_known(const char *kind, const void *code, const void *other_code);
/** "thread 17", in a block of more than one dimension "thread 17 (1,0,1)"; "file:line". Static storage, 8 in turn. */
const char *thread_text(int thread) __attribute__((cold));
const char *site_text(const struct simt_site *) __attribute__((cold));
char *turn_text(void);
enum { TURN_BYTES = 512 };

/* ---- place.cpp ---- */
/** "lib/ops/x.cu:41", or for inlined code also its caller: "lib/ops/cuda.h:57, from lib/ops/x.cu:41"; the address
 *  itself if its place is unknown. Looked up once for each address; valid until the process ends. */
const char *place_of(const void *code);

/* ---- check.cpp (empty in a build without checks) ---- */
/** Make a region of a declaration's shared memory; its `zone` must not be touched. */
void check_shared(unsigned char *from, unsigned char *to, unsigned char *zone, size_t zone_bytes,
                  const uint32_t *serial);
void check_dynamic(unsigned char *from, size_t capacity, size_t bytes);
void check_forget(void);

/* ---- traffic.cpp (likewise) ---- */
bool traffic_counts(void);
void traffic_access(uintptr_t at, size_t bytes, bool is_write, bool is_shared, bool is_fragment, const void *code);
void traffic_block_ends(void);
void traffic_launch_starts(void);
void traffic_launch_ends(void);

}

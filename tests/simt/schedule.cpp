/* The threads of a block, on one OS thread.
 *
 * A worker is a fiber that runs threads from their first line to their last, one after the other, as long as none has
 * to wait: a kernel without barriers needs one stack. A thread that waits (at a barrier, for lanes of its warp) keeps
 * its stack, and another worker continues: first with ready threads, then with threads that have not begun. So a
 * block of n threads with a barrier holds n stacks, and passing the barrier is one switch of stacks for each thread.
 *
 * Order: threads begin in ascending order (SIMT_FORWARD) or descending order, and continue in the order of their
 * arrival. If no thread is ready and not all have ended, they wait for one another forever: the block is given up with
 * a report. */
#include "fiber.h"
#include "tests/simt/state.h"

#include <stdio.h>

using namespace simt;

/* ---- ready threads, in turn: a ring; every thread is in it at most once ---- */
static int rings[2][MAX_THREADS], *ready = rings[0], *at_barrier = rings[1];
static unsigned ready_first, n_ready, n_at_barrier;

static inline void ready_put(int thread) { ready[(ready_first + n_ready++) % MAX_THREADS] = thread; }
static inline int ready_take(void) {
    int thread = ready[ready_first];
    ready_first = (ready_first + 1) % MAX_THREADS;
    n_ready--;
    return thread;
}

/* Make all threads at the barrier ready. In most kernels no other thread is ready then, so the two lists are
 * swapped. */
static void ready_put_barrier(void) {
    if (n_ready == 0) {
        int *full = at_barrier;
        at_barrier = ready;
        ready = full;
        ready_first = 0;
        n_ready = n_at_barrier;
    } else {
        for (unsigned i = 0; i < n_at_barrier; i++) ready_put(at_barrier[i]);
    }
    n_at_barrier = 0;
}

/* ---- the block ---- */
static void (*kernel)(void *);
static void *arguments;
static int n_begun;
static bool given_up;
static struct fiber launcher;                                /* the caller of block_run */
static struct fiber *current, *fiber_of[MAX_THREADS];        /* the running thread's; those of waiting threads */
static const struct simt_site *waits_at[MAX_THREADS];        /* where each of them waits */

static struct simt_site *barrier_site;
static int barrier_votes, barrier_result;                    /* of the barrier that fills, and of the last one that
                                                              * opened */

/* threadIdx of every thread, for the present blockDim */
static struct uint3 index_of[MAX_THREADS];
static dim3 index_dim(0, 0, 0);

static void make_indices(void) {
    if (index_dim.x == blockDim.x && index_dim.y == blockDim.y && index_dim.z == blockDim.z) return;
    index_dim = blockDim;
    for (int t = 0; t < now.n_threads; t++)
        index_of[t] = {(unsigned)t % blockDim.x, (unsigned)t / blockDim.x % blockDim.y,
                       (unsigned)t / blockDim.x / blockDim.y};
}

namespace simt {
struct uint3 thread_index(int thread) { return index_of[thread]; }
}

static inline void become(int thread) {
    now.thread = thread;
    threadIdx = index_of[thread];
}

static void go_to(struct fiber *to) {
    struct fiber *from = current;
    current = to;
    fiber_switch(from, to);
}

/* ---- waiting ---- */
static void give_up(void) {
    given_up = true;
    go_to(&launcher);
}

static bool waits(int thread) { return !(now.ended[thread / WARP] >> thread % WARP & 1); }

/* Report a deadlock: two threads that wait at different places, if there are such two. */
__attribute__((noinline, cold)) static void stuck(void) {
    int first = 0, other;
    while (!waits(first)) first++;
    for (other = first + 1; other < now.n_threads; other++)
        if (waits(other) && waits_at[other] != waits_at[first]) break;
    const struct simt_site *a = waits_at[first], *b = other < now.n_threads ? waits_at[other] : NULL;
    if (b)
        report_at("deadlock", a, b, "%s waits at %s, %s at %s%s, and no thread can go on; the launch is given up",
                  thread_text(first), a->what, thread_text(other), b->what, site_text(b));
    else
        report_at("deadlock", a, NULL, "%s waits at %s, and no thread can go on; the launch is given up",
                  thread_text(first), a->what);
    give_up();
}

static inline void wait_here(const struct simt_site *site) {
    int me = now.thread;
    fiber_of[me] = current;
    waits_at[me] = site;
    if (n_ready > 0) {
        int next = ready_take();
        if (next != me) go_to(fiber_of[next]);
    } else if (n_begun < now.n_threads) {
        go_to(fiber_take());
    } else {
        stuck();
    }
    become(me);
}

namespace simt {
void thread_wait(const struct simt_site *site) { wait_here(site); }

void threads_wake(int first_thread, unsigned lanes) {
    while (lanes) {
        int lane = now.reverse ? 31 - __builtin_clz(lanes) : __builtin_ctz(lanes);
        lanes &= ~(1u << lane);
        ready_put(first_thread + lane);
    }
}
}

/* ---- __syncthreads ---- */
static void barrier_opens(void) {
    now.block_epoch++;
    barrier_result = barrier_votes;
    barrier_votes = 0;
    ready_put_barrier();
}

__attribute__((noinline, cold)) static void check_arrival(const struct simt_site *site) {
    if (now.n_live < now.n_threads)
        report_at("divergent barrier", site, NULL,
                  "%s waits at %s, and %d of the block's %d threads have ended before it", thread_text(now.thread),
                  site->what, now.n_threads - now.n_live, now.n_threads);
    if (n_at_barrier > 0 && !site_same_place(site, barrier_site))
        report_at("divergent barrier", site, barrier_site, "%s waits at %s, %s at another %s%s",
                  thread_text(now.thread), site->what, thread_text(at_barrier[0]), barrier_site->what,
                  site_text(barrier_site));
}

static inline void block_barrier(struct simt_site *site) {
    if ((n_at_barrier > 0 && site != barrier_site) || now.n_live < now.n_threads) check_arrival(site);
    barrier_site = site;
    at_barrier[n_at_barrier++] = now.thread;
    if (n_at_barrier == (unsigned)now.n_live) barrier_opens();
    wait_here(site);
}

void simt_block_barrier(struct simt_site *site) {
    if (site_is_on(site)) block_barrier(site);
}

/* A count is a result, so this barrier cannot be off. */
int simt_block_count(struct simt_site *site, int predicate) {
    barrier_votes += predicate;
    block_barrier(site);
    return barrier_result;
}

void simt_trap(struct simt_site *site) {
    report_at("trap", site, NULL, "%s stops the launch", thread_text(now.thread));
    give_up();
    __builtin_unreachable();
}

/* ---- running ---- */
__attribute__((noinline, cold)) static void barrier_without_me(void) {
    report_at("divergent barrier", barrier_site, NULL, "%s has ended, while the other %u threads wait at %s",
              thread_text(now.thread), n_at_barrier, barrier_site->what);
    barrier_opens();
}

static inline void thread_ends(void) {
    int warp = now.thread / WARP;
    now.n_live--;
    now.ended[warp] |= 1u << now.thread % WARP;
    if (now.arrived[warp]) warp_thread_ends(now.thread);
    if (n_at_barrier > 0 && n_at_barrier == (unsigned)now.n_live) barrier_without_me();
}

namespace simt {
void fiber_main(void) {
    for (;;) {
        while (n_ready == 0 && n_begun < now.n_threads) {
            int n = n_begun++;
            become(now.reverse ? now.n_threads - 1 - n : n);
            kernel(arguments);
            thread_ends();
        }
        struct fiber *me = current;
        if (n_ready > 0) {
            fiber_give_back(me);
            go_to(fiber_of[ready_take()]);
        } else if (now.n_live == 0) {
            fiber_give_back(me);
            go_to(&launcher);
        } else {
            stuck();
        }
    }
}

bool block_run(void (*thread)(void *), void *context) {
    kernel = thread;
    arguments = context;
    n_begun = n_ready = n_at_barrier = barrier_votes = 0;
    now.n_live = now.n_threads;
    now.block_epoch = 0;
    make_indices();
    warps_start(now.n_threads);
    given_up = false;
    current = &launcher;
    go_to(fiber_take());
    if (!given_up) return true;
    fiber_reset_all();
    return false;
}
}

/* Operations of a warp's lanes together. Each lane stores its value and waits; the last lane of the mask computes the
 * results of all and wakes them.
 *
 * Errors: a lane outside of its own mask; lanes at different operations, or with different masks; a mask that names a
 * lane that has ended; a shuffle whose source takes no part. A mask may name lanes that the block does not have (48
 * threads: half a warp), as on a GPU, but a shuffle may not read them. */
#include "tests/simt/state.h"

#include <string.h>

using namespace simt;

struct warp;
/* The operation, which the last lane executes for all lanes. */
typedef void finish_function(struct warp *, unsigned lanes);

struct warp {
    int first;                                               /* the thread that is lane 0 */
    unsigned all;                                            /* the lanes that exist */
    bool differ;                                             /* waiting lanes have different operations or masks */
    unsigned mask[WARP];                                     /* of each waiting lane, as the arrays below */
    struct simt_site *site[WARP];
    finish_function *finish[WARP];
    uint64_t value[WARP], result[WARP];
    int source[WARP];                                        /* of a shuffle */
};
static struct warp warps[MAX_WARPS];

static inline struct warp *my_warp(void) { return &warps[now.thread / WARP]; }
static inline int first_lane(unsigned lanes) { return __builtin_ctz(lanes); }

int simt_lane(void) { return now.thread % WARP; }
static inline unsigned live_lanes(const struct warp *w) { return w->all & ~now.ended[w->first / WARP]; }
static inline unsigned *arrived(const struct warp *w) { return &now.arrived[w->first / WARP]; }

unsigned simt_warp_active(void) { return live_lanes(my_warp()); }

namespace simt {
void warps_start(int n_threads) {
    for (int w = 0; w * WARP < n_threads; w++) {
        int n = n_threads - w * WARP;
        warps[w].first = w * WARP;
        warps[w].all = n >= WARP ? ~0u : (1u << n) - 1;
        now.warp_epoch[w] = 0;
        now.ended[w] = now.arrived[w] = 0;
        warps[w].differ = false;
    }
}
}

/* ---- the wrong lane ---- */
static const char *lane_text(const struct warp *w, int lane) { return thread_text(w->first + lane); }

/* Do all lanes execute the same operation? */
__attribute__((cold)) static bool check_lanes(const struct warp *w, unsigned lanes) {
    int a = first_lane(lanes);
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        int b = first_lane(rest);
        const struct simt_site *at = w->site[b], *other = w->site[a];
        if (at == other && w->mask[b] == w->mask[a]) continue;
        if (!site_same_place(at, other))
            report_at("missing lanes", at, other, "%s is at %s, and %s of the same warp at %s%s", lane_text(w, b),
                      at->what, lane_text(w, a), other->what, site_text(other));
        else if (w->mask[b] != w->mask[a])
            report_at("missing lanes", at, other, "%s names lanes %08x at %s, and %s names %08x", lane_text(w, b),
                      w->mask[b], at->what, lane_text(w, a), w->mask[a]);
        else continue;
        return false;
    }
    return true;
}

__attribute__((cold)) static void check_ended(const struct warp *w, int lane) {
    unsigned ended = w->mask[lane] & w->all & ~live_lanes(w);
    if (ended)
        report_at("missing lanes", w->site[lane], NULL, "%s waits at %s for lanes %08x, and %s has ended",
                  lane_text(w, lane), w->site[lane]->what, w->mask[lane], lane_text(w, first_lane(ended)));
}

/* ---- the operations ---- */
static void finish_shuffle(struct warp *w, unsigned lanes) {
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        int lane = first_lane(rest), source = w->source[lane];
        w->result[lane] = lanes >> source & 1 ? w->value[source] : ~(uint64_t)0;
        if (!(lanes >> source & 1))
            report_at("missing lanes", w->site[lane], NULL, "%s reads from lane %d at %s, which takes no part",
                      lane_text(w, lane), source, w->site[lane]->what);
    }
}

static void finish_ballot(struct warp *w, unsigned lanes) {
    unsigned votes = 0;
    for (unsigned rest = lanes; rest; rest &= rest - 1)
        votes |= (unsigned)w->value[first_lane(rest)] << first_lane(rest);
    for (unsigned rest = lanes; rest; rest &= rest - 1) w->result[first_lane(rest)] = votes;
}

/* Lanes outside of the mask count as arrived, so a race between them and the others is not found. */
static void finish_barrier(struct warp *w, unsigned) { now.warp_epoch[w->first / WARP]++; }

typedef void together_function(void *const lanes[32]);
static together_function *together;

static void finish_together(struct warp *w, unsigned lanes) {
    void *mine[WARP];
    for (int i = 0; i < WARP; i++) mine[i] = (void *)(uintptr_t)w->value[i];
    if (lanes != ~0u)
        report_at("missing lanes", w->site[first_lane(lanes)], NULL, "%s needs all 32 lanes, and only %08x are there",
                  w->site[first_lane(lanes)]->what, lanes);
    else if (together) together(mine);
}

/* ---- arrival ---- */
/* Lanes that disagree get their own values. */
__attribute__((cold)) static void keep_own(struct warp *w, unsigned lanes) {
    for (unsigned rest = lanes; rest; rest &= rest - 1) w->result[first_lane(rest)] = w->value[first_lane(rest)];
}

/* If all lanes that this lane waits for have arrived, compute their results and wake them. */
static inline void try_complete(struct warp *w, int lane) {
    unsigned live = live_lanes(w), lanes = w->mask[lane] & live;
    if ((*arrived(w) & lanes) != lanes) return;
    bool same = !w->differ || check_lanes(w, lanes);
    if (w->all != live) check_ended(w, lane);
    if (same) w->finish[lane](w, lanes);
    else keep_own(w, lanes);
    *arrived(w) &= ~lanes;
    if (*arrived(w) == 0) w->differ = false;
    threads_wake(w->first, lanes);
}

static bool in_own_mask(const struct simt_site *site, unsigned mask) {
    if (mask >> simt_lane() & 1) return true;
    report_at("missing lanes", site, NULL, "%s is not in its own mask %08x at %s", thread_text(now.thread), mask,
              site->what);
    return false;
}

static inline uint64_t come(struct simt_site *site, unsigned mask, uint64_t value, int source,
                            finish_function *finish) {
    struct warp *w = my_warp();
    int lane = simt_lane();
    if (!(mask >> lane & 1) && !in_own_mask(site, mask)) return value;
    unsigned before = *arrived(w);
    if (before && (w->site[first_lane(before)] != site || w->mask[first_lane(before)] != mask)) w->differ = true;
    *arrived(w) = before | 1u << lane;
    w->mask[lane] = mask;
    w->site[lane] = site;
    w->finish[lane] = finish;
    w->value[lane] = value;
    w->source[lane] = source;
    try_complete(w, lane);
    thread_wait(site);
    return w->result[lane];
}

namespace simt {
void warp_thread_ends(int thread) {
    struct warp *w = &warps[thread / WARP];
    for (unsigned rest = *arrived(w); rest; rest &= rest - 1)
        if (*arrived(w) >> first_lane(rest) & 1) try_complete(w, first_lane(rest));
}
}

uint64_t simt_warp_exchange(struct simt_site *site, unsigned mask, uint64_t value, int source) {
    return come(site, mask, value, source & 31, finish_shuffle);
}
unsigned simt_warp_ballot(struct simt_site *site, unsigned mask, int predicate) {
    return (unsigned)come(site, mask, predicate != 0, 0, finish_ballot);
}
void simt_warp_barrier(struct simt_site *site, unsigned mask) {
    if (site_is_on(site)) come(site, mask, 0, 0, finish_barrier);
}
void simt_warp_together(struct simt_site *site, void *mine, together_function *function) {
    together = function;
    come(site, ~0u, (uint64_t)(uintptr_t)mine, 0, finish_together);
}

void simt_fragment_place(struct simt_site *site, const void *at, size_t stride_bytes) {
    if ((uintptr_t)at % 32)
        report_at("misaligned access", site, NULL, "%s gives %s an address that is %d bytes after a multiple of 32",
                  thread_text(now.thread), site->what, (int)((uintptr_t)at % 32));
    else if (stride_bytes % 16)
        report_at("misaligned access", site, NULL, "%s gives %s a stride of %zu bytes, no multiple of 16",
                  thread_text(now.thread), site->what, stride_bytes);
}

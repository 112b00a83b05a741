/* Counts the memory traffic of a kernel's warps, in the units that a GPU moves. For lessons and tests; only in the
 * checked build.
 *
 * A GPU serves a warp, not a thread. The addresses of a warp's lanes at one load are one *request*, which costs as many
 * *sectors* (32 bytes, aligned) as they touch: 32 lanes that read 32 neighboring floats touch 4; 32 lanes that read
 * floats 4 KiB apart touch 32, and use 4 bytes of each. Shared memory has 32 banks, word w in bank w % 32, and gives
 * one word a bank at a time: a request takes as many *wavefronts* as the busiest bank has different words.
 *
 * Lanes run one after the other here, so requests must be reconstructed: between two barriers, the n-th access of each
 * lane of a warp at one place in the code is part of the same request. If lanes run a loop different numbers of times,
 * this is right as long as the extra rounds come last. The compiler may split a vector load (float4) into four: an
 * access from another place in the code that continues one of the lane's last accesses, within the same aligned 16
 * bytes, joins that access again. Four scalar accesses side by side look the same, and count as one vector.
 *
 * A fragment of tensor cores that is loaded or stored counts as one request of its warp: CUDA does not say which lane
 * has which elements. In shared memory it takes at least as many wavefronts as its busiest bank has words; a GPU, which
 * takes it in several requests, may need more.
 *
 * Sectors are requests to the L1 cache; only a GPU can tell what misses it, and what DRAM moves. Atomics count as
 * stores. */
#include "check.h"
#include "tests/simt/state.h"

#include <algorithm>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <tuple>
#include <vector>

#ifdef SIMT_CHECK
using namespace simt;

enum { SECTOR = 32, WORD = 4, BANKS = 32, VECTOR = 16, OPEN = 8, OF_A_LANE = 8 /* elements of a fragment */ };

namespace {
/* A request's name: its warp, the barriers passed, the place in the code, the turn at that place. */
typedef std::tuple<int, uint32_t, const void *, int> name;
/* Requests of one warp: sectors, or words of shared memory, with repetitions. */
struct request { bool is_write, is_shared, is_fragment; std::vector<uintptr_t> units; };
/* A lane's last access, which the next one may continue. */
struct access { uintptr_t end; const void *code; struct request *request; };
struct lane { uint32_t epoch; std::map<const void *, int> turns; struct access open[OPEN]; unsigned n; };
}

static bool counting, show, asked;
static std::map<name, request> requests;                     /* of the running block */
static std::vector<lane> lanes;                              /* by thread */
static struct simt_counts counts, before;                    /* since simt_count; when the running launch began */

static struct request *request_continued(struct lane *l, uintptr_t at, bool is_write, bool is_shared,
                                         const void *code) {
    for (int i = 0; i < OPEN; i++) {
        struct access *a = &l->open[i];
        if (!a->request || a->end != at || at % VECTOR == 0 || a->code == code) continue;
        if (a->request->is_write == is_write && a->request->is_shared == is_shared) {
            struct request *r = a->request;
            a->request = NULL;
            return r;
        }
    }
    return NULL;
}

static struct request *request_of(struct lane *l, int warp, bool is_write, bool is_shared, bool is_fragment,
                                  const void *code, int turn) {
    struct request *r = &requests[name(warp, l->epoch, code, turn)];
    r->is_write = is_write;
    r->is_shared = is_shared;
    r->is_fragment = is_fragment;
    return r;
}

static struct simt_traffic *traffic_of(const struct request *r) {
    if (r->is_shared) return r->is_fragment ? &counts.fragment : &counts.shared;
    return r->is_write ? &counts.store : &counts.load;
}

namespace simt {
bool traffic_counts(void) { return counting; }

void traffic_access(uintptr_t at, size_t bytes, bool is_write, bool is_shared, bool is_fragment, const void *code) {
    if (lanes.size() < MAX_THREADS) lanes.resize(MAX_THREADS);
    struct lane *l = &lanes[now.thread];
    int warp = now.thread / WARP;
    uint32_t epoch = (uint32_t)now.block_epoch << 16 | now.warp_epoch[warp];
    if (l->epoch != epoch) *l = {}, l->epoch = epoch;
    int turn = l->turns[code]++;
    if (is_fragment) turn /= OF_A_LANE;
    struct request *r = is_fragment ? NULL : request_continued(l, at, is_write, is_shared, code);
    if (!r) r = request_of(l, warp, is_write, is_shared, is_fragment, code, turn);
    if (!is_fragment) l->open[l->n++ % OPEN] = {at + bytes, code, r};
    size_t unit = is_shared ? WORD : SECTOR;
    for (uintptr_t u = at / unit; u <= (at + bytes - 1) / unit; u++) r->units.push_back(u);
    traffic_of(r)->bytes += (int64_t)bytes;
}
}

/* ---- the end of a block, of a launch ---- */
static int64_t wavefronts(const std::vector<uintptr_t> &words) {
    int64_t in_bank[BANKS] = {0};
    for (uintptr_t w : words) in_bank[w % BANKS]++;
    return *std::max_element(in_bank, in_bank + BANKS);
}

namespace simt {
void traffic_block_ends(void) {
    for (auto &one : requests) {
        std::vector<uintptr_t> &units = one.second.units;
        std::sort(units.begin(), units.end());
        units.erase(std::unique(units.begin(), units.end()), units.end());
        struct simt_traffic *t = traffic_of(&one.second);
        int64_t n = (int64_t)units.size(), taken = one.second.is_shared ? wavefronts(units) : n;
        t->requests++;
        t->units += taken;
        if (one.second.is_shared) counts.conflicts += taken - (n + BANKS - 1) / BANKS;
    }
    if (counting) counts.block_shared = std::max(counts.block_shared, shared_bytes());
    requests.clear();
    lanes.clear();
}
}

static void show_part(const char *name, const struct simt_traffic *after, const struct simt_traffic *then,
                      const char *unit) {
    long long n = after->requests - then->requests, units = after->units - then->units,
              bytes = after->bytes - then->bytes;
    if (n > 0)
        fprintf(stderr, "simt:   %-6s %7lld requests %8lld %s (%.1f a request) for %lld bytes\n", name, n, units, unit,
                (double)units / (double)n, bytes);
}

namespace simt {
void traffic_launch_starts(void) {
    const char *text = asked ? NULL : getenv("SIMT_COUNT");
    asked = true;
    if (text && *text && *text != '0') counting = show = true;
    before = counts;
}
void traffic_launch_ends(void) {
    if (!show) return;
    const struct simt_launch *l = now.launch;
    fprintf(stderr, "simt: %s, %llu x %d threads\n", l->kernel->name,
            (unsigned long long)l->grid.x * l->grid.y * l->grid.z, now.n_threads);
    show_part("load", &counts.load, &before.load, "sectors");
    show_part("store", &counts.store, &before.store, "sectors");
    show_part("shared", &counts.shared, &before.shared, "wavefronts");
    show_part("matrix", &counts.fragment, &before.fragment, "wavefronts");
    if (counts.products > before.products)
        fprintf(stderr, "simt:   tensor %7lld products of 16 x 16 x 16\n",
                (long long)(counts.products - before.products));
}
}

void simt_count(int on) {
    asked = true;
    counting = on != 0;
    counts = {};
    requests.clear();
    lanes.clear();
}
struct simt_counts simt_counts(void) { return counts; }

extern "C" void simt_check_product(void);
void simt_check_product(void) { counts.products += counting; }

#else
namespace simt {
bool traffic_counts(void) { return false; }
void traffic_block_ends(void) {}
void traffic_launch_starts(void) {}
void traffic_launch_ends(void) {}
}
void simt_count(int) {}
struct simt_counts simt_counts(void) { return {}; }
#endif

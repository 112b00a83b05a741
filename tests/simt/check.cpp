/* Checks every memory access of kernels. Compiled with -fsanitize=thread, kernels call the functions at the end of this
 * file (__tsan_read4 and the like) before each access; the sanitizer's own runtime is not linked.
 *
 * Race: two accesses to the same bytes by different threads, at least one of them a write, not both atomic, and not
 * ordered. A __syncthreads orders the threads of one block, and a __syncwarp also the lanes of one warp. Blocks of one
 * launch are never ordered. Launches count as ordered, because streams are the fake's task. So the check needs only how
 * many barriers the block and the warp have passed at either access:
 *
 *   ordered(old, new)   same thread, or old.block_epoch < new.block_epoch,
 *                       or same warp and old.warp_epoch < new.warp_epoch
 *
 * A cell stores the last write, and two reads: the newest of one warp and one of another warp. Two are enough, because
 * one of them is not of the warp of a later writer, and no barrier lies between. Several lanes of one warp that read at
 * one epoch are one read with the flag ANY_LANE. */
#include "check.h"
#include "fiber.h"
#include "tests/simt/state.h"

#include <stdio.h>

#ifndef SIMT_CHECK
int simt_checked(void) { return 0; }
#else
int simt_checked(void) { return 1; }

using namespace simt;

extern "C" const char __executable_start[], _end[];          /* the program, as the linker laid it out */

enum flags {
    ATOMIC = 1,
    ANY_LANE = 2,                                            /* more lanes than the one that is named, or unknown
                                                                lanes */
    ANY_WARP = 4, ANY_BLOCK = 8,                             /* atomics: warps of the block, blocks of the launch before
                                                              * it */
    FRAGMENT = 16, INPUT = 32,                               /* by a tensor core (simt_wmma.h); its inputs, not
                                                              * accumulators */
    SPLIT = 64                                               /* the word's bytes have cells of their own */
};

/* An access. */
struct touch {
    uintptr_t at;
    size_t bytes;
    bool is_write;
    const void *code;
    struct region *region;
    uint32_t first_serial;                                   /* marks of blocks before it do not count */
    struct mark mark;
};

/* ---- reports ---- */
static const char *memory_text(const struct touch *t) {
    static const char *const names[] = {"global", "shared", "dynamic shared"};
    return names[t->region->kind];
}
static const char *verb(const struct touch *t) {
    return t->mark.flags & ATOMIC ? "changes" : t->is_write ? "writes" : "reads";
}
static const char *code_of(const struct mark *m) { return m->code ? (const char *)__executable_start + m->code : NULL; }

static const char *offset_text(const struct touch *t) {
    char *text = turn_text();
    text[0] = 0;
    if (t->region->kind != STATIC_SHARED)
        snprintf(text, TURN_BYTES, ", byte %zu of %zu,", (size_t)(t->at - t->region->from), t->region->bytes);
    return text;
}

static const char *missing_order(const struct touch *t, const struct mark *old) {
    if (old->serial != t->mark.serial || old->flags & ANY_BLOCK) return "in the same launch; blocks are in no order";
    if (old->thread / WARP != t->mark.thread / WARP || old->flags & ANY_WARP)
        return "with no __syncthreads between them";
    if ((old->flags | t->mark.flags) & FRAGMENT)
        return "with no __syncwarp between them; which lane has which element is not known";
    return "with no barrier between them";
}

/* The other thread of a race. If its mark stands for several threads, not the present one. */
static const char *other_text(const struct touch *t, const struct mark *old) {
    char *text = turn_text();
    int thread = old->thread, warp = thread / WARP;
    bool myself = thread == t->mark.thread && old->serial == t->mark.serial;
    if (myself && old->flags & FRAGMENT) snprintf(text, TURN_BYTES, "another lane of warp %d", warp);
    else if (myself && old->flags & ANY_WARP) snprintf(text, TURN_BYTES, "another warp than %d", warp);
    else snprintf(text, TURN_BYTES, "%s", thread_text(myself ? warp * WARP + old->other_lane : thread));
    if (old->serial != t->mark.serial) {
        struct uint3 b = block_index(old->serial - now.first_serial);
        size_t n = strlen(text);
        snprintf(text + n, TURN_BYTES - n, " of block (%u,%u,%u)", b.x, b.y, b.z);
    }
    return text;
}

static void race(const struct touch *t, const struct mark *old, const char *did) {
    const char *here = (const char *)t->code, *there = code_of(old);
    if (report_known("data race", here, there)) return;
    report("data race", here, there, "%s %s %s memory%s that %s %s (%s) %s", thread_text(t->mark.thread), verb(t),
           memory_text(t), offset_text(t), other_text(t, old), did, place_of(there), missing_order(t, old));
}

static void out_of_bounds(const struct touch *t, const char *where) {
    report("out of bounds", t->code, NULL, "%s %s %zu bytes at %p: %s", thread_text(now.thread), verb(t), t->bytes,
           (void *)t->at, where);
}

/* ---- one cell ---- */
static inline bool unordered(const struct touch *t, const struct mark *old) {
    const struct mark *m = &t->mark;
    if (old->serial < t->first_serial) return false;
    if (old->serial != m->serial || old->flags & ANY_BLOCK) return true;
    if (old->block_epoch != m->block_epoch) return false;
    if (old->thread / WARP != m->thread / WARP || old->flags & ANY_WARP) return true;
    if (old->warp_epoch != m->warp_epoch) return false;
    return old->thread != m->thread || (old->flags | m->flags) & ANY_LANE;
}

/* A tensor core's accumulators lie in the same lanes whenever they are loaded and stored. */
static inline bool harmless(const struct touch *t, const struct mark *old) {
    unsigned both = old->flags & t->mark.flags, either = old->flags | t->mark.flags;
    if (both & ATOMIC) return true;
    return both & FRAGMENT && !(either & INPUT) && old->thread == t->mark.thread && old->serial == t->mark.serial;
}

static inline bool races(const struct touch *t, const struct mark *old) {
    return unordered(t, old) && !harmless(t, old);
}

/* The newest atomic's mark also stands for older atomics that are not ordered before it. */
static void note_atomic(const struct touch *t, struct mark *write) {
    struct mark old = *write;
    *write = t->mark;
    if (!(old.flags & ATOMIC) || !unordered(t, &old)) return;
    write->flags |= old.flags & (ANY_LANE | ANY_WARP | ANY_BLOCK);
    if (old.serial != write->serial) write->flags |= ANY_BLOCK;
    else if (old.block_epoch != write->block_epoch) return;
    else if (old.thread / WARP != write->thread / WARP) write->flags |= ANY_WARP;
    else if (old.thread != write->thread) write->flags |= ANY_LANE, write->other_lane = (uint8_t)(old.thread % WARP);
}

static inline void note_read(const struct touch *t, struct mark read[2]) {
    const struct mark *m = &t->mark;
    struct mark *place = NULL;
    for (int i = 0; i < 2; i++) {
        struct mark *r = &read[i];
        bool mine = r->serial == m->serial,
             stale = r->serial < t->first_serial || (mine && r->block_epoch != m->block_epoch);
        if (stale) {
            if (!place) place = r;
        } else if (mine && r->thread / WARP == m->thread / WARP) {
            bool others = r->warp_epoch == m->warp_epoch && (r->thread != m->thread || r->flags & ANY_LANE);
            bool fragments = r->flags & FRAGMENT && r->thread == m->thread;
            uint8_t other = r->thread == m->thread ? r->other_lane : (uint8_t)(r->thread % WARP);
            *r = *m;
            r->other_lane = other;
            if (others && !fragments) r->flags = ANY_LANE;
            return;
        }
    }
    if (place) *place = *m;
}

/* Returns false after a report: one report per access is enough. */
static inline bool touch_cell(const struct touch *t, struct cell *c) {
    const struct mark *m = &t->mark;
    if (t->region->kind != GLOBAL_MEMORY && c->write.serial != m->serial && (!t->is_write || m->flags & ATOMIC)) {
        report("uninitialised shared memory", t->code, NULL,
               "%s %s %s memory%s that no thread of this block has written", thread_text(m->thread), verb(t),
               memory_text(t), offset_text(t));
        return false;
    }
    bool good = !races(t, &c->write);
    if (!good) race(t, &c->write, c->write.flags & ATOMIC ? "changed" : "wrote");
    if (!t->is_write) {
        note_read(t, c->read);
        return good;
    }
    for (int i = 0; good && i < 2; i++)
        if (races(t, &c->read[i])) {
            race(t, &c->read[i], "read");
            good = false;
        }
    if (m->flags & ATOMIC) note_atomic(t, &c->write);
    else c->write = *m;
    return good;
}

/* ---- one word ---- */
static struct cell *split(const struct touch *t, size_t word) {
    struct cell *whole = &t->region->words[word], *part = region_parts(t->region, word);
    bool is_split = whole->write.flags & SPLIT && whole->write.serial >= t->first_serial;
    if (is_split) return part;
    for (int i = 0; i < 4; i++) part[i] = *whole;
    whole->write = t->mark;
    whole->write.flags = SPLIT;
    return part;
}

static inline bool touch_word(const struct touch *t, size_t word, unsigned first_byte, unsigned n) {
    struct cell *whole = &t->region->words[word];
    if (n == 4 && !(whole->write.flags & SPLIT && whole->write.serial >= t->first_serial)) return touch_cell(t, whole);
    struct cell *part = split(t, word);
    for (unsigned i = first_byte; i < first_byte + n; i++)
        if (!touch_cell(t, &part[i])) return false;
    return true;
}

/* ---- one access ---- */
static bool is_elsewhere(const struct touch *t) {
    /* constants, host's tables */
    if (t->at - (uintptr_t)__executable_start < (uintptr_t)(_end - __executable_start)) return true;
    out_of_bounds(t, t->at < 4096 ? "a null pointer"
                                  : "no memory of the device, or freed, or beyond the end of an allocation");
    return true;
}

static bool is_outside(const struct touch *t) {
    const struct region *r = t->region;
    uintptr_t end = t->at + t->bytes;
    char text[TURN_BYTES];
    if (r->kind == DYNAMIC_SHARED ? end > r->from + r->bytes : end > r->to) {
        snprintf(text, sizeof text, "byte %zu of %zu bytes of %s memory", (size_t)(t->at - r->from), r->bytes,
                 memory_text(t));
        out_of_bounds(t, text);
    } else if (t->at < r->zone_end && end > r->zone) {
        out_of_bounds(t, "before or behind a shared array");
    } else if (r->kind == STATIC_SHARED && *r->serial != simt_serial) {
        out_of_bounds(t, "shared memory that this block has not declared");
    } else return false;
    return true;
}

static void check_access(const void *address, size_t bytes, bool is_write, unsigned flags, const void *code) {
    if (!now.launch || fiber_owns(address)) return;
    uintptr_t at = (uintptr_t)address;
    uint16_t thread = (uint16_t)now.thread;
    uint32_t distance = (uintptr_t)code - (uintptr_t)__executable_start <= UINT32_MAX
                            ? (uint32_t)((uintptr_t)code - (uintptr_t)__executable_start) : 0;
    struct touch t = {at, bytes, is_write, code, region_of(at), simt_serial,
                      {simt_serial, thread, now.block_epoch, now.warp_epoch[thread / WARP], (uint8_t)flags, 0,
                       distance}};
    if (!t.region) {
        is_elsewhere(&t);
        return;
    }
    if (t.region->kind == GLOBAL_MEMORY) t.first_serial = now.first_serial;
    if (is_outside(&t)) return;
    if (traffic_counts())
        traffic_access(at, bytes, is_write, t.region->kind != GLOBAL_MEMORY, flags & FRAGMENT, code);
    size_t word = (at - t.region->from) / 4;
    unsigned first_byte = (unsigned)(at & 3);
    while (bytes > 0) {
        unsigned n = bytes < 4 - first_byte ? (unsigned)bytes : 4 - first_byte;
        if (!touch_word(&t, word++, first_byte, n)) return;
        bytes -= n;
        first_byte = 0;
    }
}

static void check_aligned(const void *address, size_t bytes, bool is_write, const void *code) {
    if (now.launch && (uintptr_t)address % bytes && !fiber_owns(address))
        report("misaligned access", code, NULL, "%s %s %zu bytes at %p, %zu bytes after a multiple of %zu",
               thread_text(now.thread), is_write ? "writes" : "reads", bytes, address,
               (size_t)((uintptr_t)address % bytes), bytes);
    check_access(address, bytes, is_write, 0, code);
}

/* ---- what simt_atomic.h and simt_wmma.h call ---- */
extern "C" {
void simt_check_atomic(const void *at, size_t bytes, const void *code);
void simt_check_fragment(const void *at, size_t bytes, int use, const void *code);
void simt_check_atomic(const void *at, size_t bytes, const void *code) { check_access(at, bytes, true, ATOMIC, code); }
void simt_check_fragment(const void *at, size_t bytes, int use, const void *code) {
    check_access(at, bytes, use == SIMT_STORE, FRAGMENT | ANY_LANE | (use == SIMT_INPUT ? INPUT : 0), code);
}
}

/* ---- what the compiler calls ---- */
#define CODE __builtin_return_address(0)
#define SIMT_TSAN(n)                                                                                                   \
    void __tsan_read##n(void *at) { check_aligned(at, n, false, CODE); }                                               \
    void __tsan_write##n(void *at) { check_aligned(at, n, true, CODE); }                                               \
    void __tsan_volatile_read##n(void *at) { check_aligned(at, n, false, CODE); }                                      \
    void __tsan_volatile_write##n(void *at) { check_aligned(at, n, true, CODE); }                                      \
    void __tsan_unaligned_read##n(void *at) { check_access(at, n, false, 0, CODE); }                                   \
    void __tsan_unaligned_write##n(void *at) { check_access(at, n, true, 0, CODE); }
#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {
SIMT_TSAN(1)
SIMT_TSAN(2)
SIMT_TSAN(4)
SIMT_TSAN(8)
SIMT_TSAN(16)
void __tsan_read_range(void *at, size_t bytes) { check_access(at, bytes, false, 0, CODE); }
void __tsan_write_range(void *at, size_t bytes) { check_access(at, bytes, true, 0, CODE); }
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_init(void) {}
/* How a guard is read: gcc gives one to shared memory of a class, such as __nv_bfloat16. */
uint8_t __tsan_atomic8_load(const volatile void *at, int) { return *(const volatile uint8_t *)at; }
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
}
#endif

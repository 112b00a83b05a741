/* One arena per role. The purpose of a byte decides its arena, so that `show memory` and the measurement have the same
 * rows. All offsets are fixed before the first step (lib/program); an arena only owns the bytes and watches them.
 *
 * Watching: a fresh arena is filled with a canary, with a guard after its end. The highest byte that no longer holds
 * the canary is the measured high-water mark; it is found without the plan, so it can contradict the plan. */
#pragma once

#include "lib/base/integer.h"
#include "lib/device/device.h"

/* Where bytes are kept, from near to far: the device's memory, the host's, or a file on a disk. On a CPU the first two
 * are both the host's memory, in arenas of their own. */
enum tier { TIER_DEVICE, TIER_HOST, TIER_DISK, N_TIERS };

enum role {
    ROLE_PARAM,  /* parameters, in the precision that the model computes with */
    ROLE_GRAD,   /* gradients of parameters */
    ROLE_OPTIM,  /* optimizer moments and master weights */
    ROLE_ACT,    /* values of the program: what forward saves for backward, and gradients of values */
    ROLE_COMM,   /* buckets, gathered parameters, pipeline staging */
    ROLE_WORK,   /* scratch of ops, alive during one row; and batches of tokens */
    ROLE_SAVE,   /* the copy that an asynchronous checkpoint writes from */
    N_ROLES
};
const char *role_name(enum role); /* "param" "grad" "optim" "act" "comm" "work" "save" */
/** The sum of the bytes of all roles. @collective{none} */
int64_t roles_total(const int64_t bytes[N_ROLES]);

/* Every offset is a multiple of this. On a CPU it is a cache line and a vector register. On a GPU it is two cache
 * lines, cudaMalloc's alignment, and cuBLASLt's requirement for its workspace. */
enum { ARENA_ALIGN = 64, ARENA_ALIGN_CUDA = 256 };
static inline int64_t arena_align_on(enum device_kind on, int64_t bytes) {
    int64_t align = on == DEVICE_CUDA ? ARENA_ALIGN_CUDA : ARENA_ALIGN;
    return round_up(bytes, align);
}
/** Round up for an offset in host memory, or within one array of a device. */
static inline int64_t arena_align(int64_t bytes) { return arena_align_on(DEVICE_CPU, bytes); }

/* The canary is NaN in fp64, fp32, bf16 and fp16 alike, and its top byte occurs in no sane number. So the last written
 * byte is found exactly, and a read before the first write poisons the result. DEAD is painted over values that have
 * died (debug and tests). */
#define ARENA_CANARY UINT64_C(0x7ff97ff97ff97ff9)
#define ARENA_DEAD UINT64_C(0xfffbfffbfffbfffb)

struct arena {
    const struct device *device;
    enum role role;
    int64_t bytes;               /* planned size; the guard follows */
    char *base;
    bool watched;                /* filled with the canary: arena_measure works */
    const struct device *pins;   /* host memory is pinned by this device; NULL: not pinned */
};

/** Allocate `bytes` >= 0 plus guard on the device. With `watch`, fill them with the canary (costs one pass over
 *  the memory and touches every page). @errors E_MEMORY naming role and bytes  @collective{none} */
enum status arena_init(struct arena *, const struct device *, enum role, int64_t bytes, bool watch);
/** As arena_init, in host memory that is pinned for `pins` (device.h: pin). @errors E_MEMORY @collective{none} */
enum status arena_init_pinned(struct arena *, const struct device *pins, enum role role, int64_t bytes, bool watch);
void arena_fini(struct arena *);
/** Bytes that an arena of `bytes` allocates, with its guard. */
int64_t arena_held_bytes(int64_t bytes);

/** Address of a planned offset. */
static inline void *arena_at(const struct arena *a, int64_t offset) { return a->base + offset; }

/** High-water mark in bytes: the end of the last byte that is no longer canary, searched from the guard downward; exact
 *  to the byte (see ARENA_CANARY). More than `bytes`: a write went past the plan. @errors E_INTERNAL without `watch` */
enum status arena_measure(const struct arena *, int64_t *bytes);

/** Paint dead values with ARENA_DEAD: memory[0..bytes) of a watched arena, up to the last byte that was written. The
 *  rest stays canary, so painting does not move the high-water mark. @errors of the device @collective{none} */
enum status arena_paint(const struct arena *, void *memory, int64_t bytes);

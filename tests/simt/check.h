/* Shared by the two files of the checker: check_memory.cpp keeps the list of memory, check.cpp decides which
 * thread may touch it when. */
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace simt {

/* The thread that touched a piece of memory, and when: the number of its block, and how many barriers the block and the
 * warp had passed. */
struct mark {
    uint32_t serial;                                         /* 0: no thread */
    uint16_t thread, block_epoch, warp_epoch;
    uint8_t flags, other_lane;                               /* with ANY_LANE: the other lane */
    uint32_t code;                                           /* where in the program: its distance from
                                                              * __executable_start */
};
/* The last write, and reads that a later write would race with. */
struct cell { struct mark write, read[2]; };

/* Memory that kernels may touch. One cell for each 4 bytes; where parts of a word are touched, one for each byte. */
enum region_kind { GLOBAL_MEMORY, STATIC_SHARED, DYNAMIC_SHARED };
struct region {
    uintptr_t from, to;                                      /* addresses */
    enum region_kind kind;
    size_t bytes;                                            /* requested */
    uintptr_t zone, zone_end;                                /* the part that must not be touched */
    const uint32_t *serial;                                  /* of static shared memory: the block that declared it
                                                              * last */
    struct cell *words, *parts;                              /* parts: NULL until one is needed */
};

/** The region of an address; NULL: kernels may not touch the address. */
struct region *region_of(uintptr_t at);
/** The four cells of the bytes of a word, created at the first call. */
struct cell *region_parts(struct region *, size_t word);

}

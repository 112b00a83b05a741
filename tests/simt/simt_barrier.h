/* Barriers, fences, and shared memory.
 *
 * Every barrier in the text is a site: an object of its own, with its file and line. Shared memory is static memory
 * in linker sections, one for each line (and element type) of the source: blocks run one after the other, so one copy
 * serves all. The first thread of a block that reaches a declaration fills its memory with 0xff bytes, NaN in every
 * floating type. */
#pragma once

struct simt_site {
    const char *what, *file;
    int line;
    uint64_t on_in_launch;                                   /* the last launch that looked it up and found
                                                              * it on */
};
#define SIMT_SITE(what)                                                                                                \
    ({                                                                                                                 \
        static struct simt_site simt_site_ = {what, __FILE__, __LINE__, 0};                                   \
        &simt_site_;                                                                                                   \
    })

extern "C" {
/** __syncthreads: wait for every thread of the block that has not returned. */
void simt_block_barrier(struct simt_site *);
/** @return the number of threads with a nonzero predicate */
int simt_block_count(struct simt_site *, int predicate);
void simt_warp_barrier(struct simt_site *, unsigned mask);
void simt_trap(struct simt_site *) __attribute__((noreturn));
}

#define __syncthreads() simt_block_barrier(SIMT_SITE("__syncthreads"))
#define __syncthreads_count(predicate) simt_block_count(SIMT_SITE("__syncthreads_count"), (predicate) != 0)
#define __syncthreads_or(predicate) (simt_block_count(SIMT_SITE("__syncthreads_or"), (predicate) != 0) > 0)
#define __syncthreads_and(predicate) (simt_block_count(SIMT_SITE("__syncthreads_and"), (predicate) == 0) == 0)
#define __syncwarp(...) simt_warp_barrier(SIMT_SITE("__syncwarp"), simt_mask(__VA_ARGS__))
static inline unsigned simt_mask(unsigned mask = 0xffffffffu) { return mask; }

/* Memory is always in order here, so a missing fence shows no effect (docs/simt.md). */
static inline void __threadfence(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
#define __trap() simt_trap(SIMT_SITE("__trap"))

/* ---- shared memory ---- */
extern "C" {
extern uint32_t simt_serial;                                 /* the number of the running block, over all launches */
extern unsigned char *simt_dynamic;                          /* its dynamic shared memory, 128-byte aligned */
/** This block reaches a declaration for the first time: fill its bytes, from .. to, as unwritten memory; no
 *  thread may touch the zone around them. *serial becomes simt_serial. */
void simt_shared_enter(uint32_t *serial, unsigned char *from, unsigned char *to, unsigned char *zone,
                       size_t zone_bytes);
}

#ifdef ELEM
#define SIMT_UNIT ELEM
#else
#define SIMT_UNIT once
#endif

/* In a checked build a zone that must not be touched lies between any two declarations. */
#ifdef SIMT_CHECK
#define SIMT_ZONE(section_name)                                                                                        \
    static unsigned char simt_zone_[64] __attribute__((section(section_name), used, aligned(16)));
#else
#define SIMT_ZONE(section_name) static unsigned char *const simt_zone_ = NULL;
#endif

#undef __shared__
#define __shared__ SIMT_SHARED_LINE(SIMT_UNIT, __LINE__)
#define SIMT_SHARED_LINE(unit, line) SIMT_SHARED_EXPANDED(unit, line)
#define SIMT_SHARED_EXPANDED(unit, line)                                                                               \
    SIMT_SHARED("simt_shared_" #unit "_" #line, simt_from_##unit##_##line, simt_to_##unit##_##line)
#define SIMT_SHARED(section_name, from, to)                                                                            \
    {                                                                                                                  \
        extern unsigned char from[] __asm__("__start_" section_name), to[] __asm__("__stop_" section_name);            \
        static uint32_t simt_entered_;                                                                                 \
        SIMT_ZONE(section_name)                                                                                        \
        if (simt_entered_ != simt_serial) simt_shared_enter(&simt_entered_, from, to, simt_zone_, sizeof simt_zone_);  \
    }                                                                                                                  \
    static __attribute__((section(section_name), used))

/* The block's dynamic shared memory, under a name: SHARED_DYNAMIC(float, row); */
#define SHARED_DYNAMIC(type, name) type *name = (type *)simt_dynamic

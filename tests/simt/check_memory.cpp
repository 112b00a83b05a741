/* Memory that kernels may touch: allocations of the runtime's fake, declarations of shared memory, the dynamic piece.
 * Each is a region with cells of its own, 12 bytes for each byte; pages of cells appear when the memory is touched. */
#include "check.h"
#include "tests/simt/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef SIMT_CHECK
using namespace simt;

enum { MAX_REGIONS = 8192, RECENT = 4 };

static struct region *regions[MAX_REGIONS];                  /* by address */
static int n_regions;
static struct region *recent[RECENT];                        /* regions of the last accesses */

/* ---- cells ---- */
static struct cell *map_cells(size_t n) {
    void *at =
        mmap(NULL, n * sizeof(struct cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) return (struct cell *)at;
    perror("simt: no address space for the checker's notes");
    abort();
}
static size_t words_of(const struct region *r) { return (r->to - r->from + 3) / 4; }
static void unmap_cells(struct cell *cells, size_t n) {
    if (cells) munmap(cells, n * sizeof(struct cell));
}
static void forget_cells(struct cell *cells, size_t n) {
    if (cells) madvise(cells, n * sizeof(struct cell), MADV_DONTNEED);
}

namespace simt {
struct cell *region_parts(struct region *r, size_t word) {
    if (!r->parts) r->parts = map_cells(4 * words_of(r));
    return r->parts + 4 * word;
}

void check_forget(void) {
    for (int i = 0; i < n_regions; i++) {
        forget_cells(regions[i]->words, words_of(regions[i]));
        forget_cells(regions[i]->parts, 4 * words_of(regions[i]));
    }
}
}

/* ---- the table ---- */
/* The first region that begins after the address. */
static int region_behind(uintptr_t at) {
    int low = 0, high = n_regions;
    while (low < high) {
        int middle = (low + high) / 2;
        if (regions[middle]->from <= at) low = middle + 1;
        else high = middle;
    }
    return low;
}

static struct region *region_add(uintptr_t from, uintptr_t to, enum region_kind kind) {
    if (n_regions == MAX_REGIONS) {
        fprintf(stderr, "simt: more than %d pieces of memory; raise MAX_REGIONS\n", MAX_REGIONS);
        abort();
    }
    struct region *r = (struct region *)calloc(1, sizeof *r);
    r->from = from & ~(uintptr_t)3;
    r->to = to;
    r->kind = kind;
    r->bytes = to - from;
    r->words = map_cells(words_of(r));
    int place = region_behind(from);
    memmove(regions + place + 1, regions + place, (size_t)(n_regions - place) * sizeof *regions);
    regions[place] = r;
    n_regions++;
    return r;
}

static void region_remove(int place) {
    struct region *r = regions[place];
    n_regions--;
    memmove(regions + place, regions + place + 1, (size_t)(n_regions - place) * sizeof *regions);
    memset(recent, 0, sizeof recent);
    unmap_cells(r->words, words_of(r));
    unmap_cells(r->parts, 4 * words_of(r));
    free(r);
}

static inline bool holds(const struct region *r, uintptr_t at) { return r && at - r->from < r->to - r->from; }

namespace simt {
struct region *region_of(uintptr_t at) {
    for (int i = 0; i < RECENT; i++)
        if (holds(recent[i], at)) return recent[i];
    int place = region_behind(at) - 1;
    if (place < 0 || !holds(regions[place], at)) return NULL;
    static unsigned turn;
    return recent[turn++ % RECENT] = regions[place];
}

/* ---- owners of memory ---- */
void check_shared(unsigned char *from, unsigned char *to, unsigned char *zone, size_t zone_bytes,
                  const uint32_t *serial) {
    struct region *r = region_of((uintptr_t)from);
    if (!r) r = region_add((uintptr_t)from, (uintptr_t)to, STATIC_SHARED);
    r->zone = (uintptr_t)zone;
    r->zone_end = (uintptr_t)zone + zone_bytes;
    r->serial = serial;
}

void check_dynamic(unsigned char *from, size_t capacity, size_t bytes) {
    struct region *r = region_of((uintptr_t)from);
    if (!r) r = region_add((uintptr_t)from, (uintptr_t)from + capacity, DYNAMIC_SHARED);
    r->bytes = bytes;
}
}

/* Zero bytes make no region. A region that lies there and was never freed is removed. */
void simt_memory_allocated(void *at, size_t bytes) {
    simt_memory_freed(at);
    if (bytes > 0) region_add((uintptr_t)at, (uintptr_t)at + bytes, GLOBAL_MEMORY);
}
void simt_memory_freed(void *at) {
    int place = region_behind((uintptr_t)at) - 1;
    if (place >= 0 && regions[place]->from == (uintptr_t)at && regions[place]->kind == GLOBAL_MEMORY)
        region_remove(place);
}

#else
namespace simt {
void check_shared(unsigned char *, unsigned char *, unsigned char *, size_t, const uint32_t *) {}
void check_dynamic(unsigned char *, size_t, size_t) {}
void check_forget(void) {}
}
void simt_memory_allocated(void *, size_t) {}
void simt_memory_freed(void *) {}
#endif

/* Shared memory of the running block: sections of the program for the static kind, one piece of memory for the dynamic
 * kind. Each is filled with 0xff bytes before a block uses it: NaN for floats, an invalid index for integers. */
#include "tests/simt/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

using namespace simt;

unsigned char *simt_dynamic;

enum { MAX_SECTIONS = 4096, DYNAMIC_CAPACITY = 1 << 20 };

/* Two declarations on the same line of two files are one section; it is filled once per block, by the first thread. */
struct section { unsigned char *from; uint32_t serial; };
static struct section sections[MAX_SECTIONS];
static int n_sections;
static int64_t of_block;                                     /* bytes */

static struct section *section_of(unsigned char *from) {
    for (int i = 0; i < n_sections; i++)
        if (sections[i].from == from) return &sections[i];
    if (n_sections == MAX_SECTIONS) {
        fprintf(stderr, "simt: more than %d declarations of shared memory; raise MAX_SECTIONS\n", MAX_SECTIONS);
        abort();
    }
    sections[n_sections].from = from;
    return &sections[n_sections++];
}

/* memset through a volatile pointer, because the compiler must not see that this memory is never read. */
static void *(*volatile fill)(void *, int, size_t) = memset;

void simt_shared_enter(uint32_t *serial, unsigned char *from, unsigned char *to, unsigned char *zone,
                       size_t zone_bytes) {
    struct section *s = section_of(from);
    *serial = simt_serial;
    check_shared(from, to, zone, zone_bytes, &s->serial);
    if (s->serial == simt_serial) return;
    s->serial = simt_serial;
    of_block += to - from - (int64_t)zone_bytes;
    fill(from, 0xff, (size_t)(to - from));
}

namespace simt {
void shared_start(size_t dynamic_bytes) {
    if (!simt_dynamic) {
        simt_dynamic = (unsigned char *)mmap(NULL, DYNAMIC_CAPACITY, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (simt_dynamic == MAP_FAILED) {
            perror("simt: no memory for dynamic shared memory");
            abort();
        }
    }
    of_block = (int64_t)dynamic_bytes;
    check_dynamic(simt_dynamic, DYNAMIC_CAPACITY, dynamic_bytes);
    if (dynamic_bytes > 0) fill(simt_dynamic, 0xff, dynamic_bytes);
}
int64_t shared_bytes(void) { return of_block; }
}

/* parses: lib/base lib/device/dtype.c lib/checkpoint/safetensors_read.c lib/checkpoint/safetensors_write.c
 * oracle/kept.c oracle/place.c oracle/recording.c */
/* A step of a recording. The input is the header of its file; its first two bytes are the number of bytes of tensors
 * that follow. An accepted file can be assembled, or its pieces are not of one tensor. */
#include "oracle/recording.h"
#include "tests/fuzz/fuzz.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void put_together(struct kept *k) {
    int first;
    kept_find(k, "", &first);
    for (int i = 0; i < k->n; i++) {
        const struct kept_piece *p = &k->piece[i];
        struct whole w;
        MUST(box_n(&p->box) > 0 && p->at + box_n(&p->box) <= k->n_values && p->part < p->parts);
        if (box_whole_n(&p->box) > 1 << 16) continue;                /* slow, and nothing new */
        enum status status = kept_whole(k, p->name, &w);
        MUST(status == OK || status == E_FORMAT);
        /* even all elements may be missing, if each lacks a summand */
        MUST(status != OK || (w.missing >= 0 && w.missing <= w.n && w.apart >= 0));
        whole_fini(&w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes in = {data, size};
    size_t n_data = fuzz_number(&in, 2);
    uint64_t header = in.left;
    unsigned char *file = calloc(1, 8 + header + n_data);
    struct recording r = {.steps = 1};
    struct kept k = {0};
    char step[sizeof r.folder + 16];
    MUST(file);
    memcpy(file, &header, 8);
    if (header) memcpy(file + 8, in.at, header);
    for (size_t i = 0; i < n_data; i++) file[8 + header + i] = (unsigned char)i;
    snprintf(r.folder, sizeof r.folder, "%s", fuzz_folder());
    snprintf(step, sizeof step, "%s/step-1", r.folder);
    mkdir(step, 0777);
    fuzz_write("step-1/rank-0.safetensors", file, 8 + header + n_data);
    fuzz_write("step-1/rank-1.safetensors", file, 8 + header + n_data);
    enum status status = recording_read(&r, 1, &k);
    MUST(status == OK || status == E_FORMAT);
    if (status == OK) put_together(&k);
    kept_fini(&k);
    free(file);
    return 0;
}

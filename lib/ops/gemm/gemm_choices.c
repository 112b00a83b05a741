#include "lib/ops/gemm/gemm_choices.h"

#include "lib/base/grow.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static struct gemm_choice *choices;
static int n_choices;
static int64_t version;
static bool timing, added;           /* products are being timed; a row was added meanwhile */

const struct gemm_choice *gemm_choices(int *n) {
    *n = n_choices;
    return choices;
}

static struct gemm_choice *find(const char *product) {
    for (int i = 0; i < n_choices; i++)
        if (!strcmp(choices[i].product, product)) return &choices[i];
    return NULL;
}
const struct gemm_choice *gemm_choice_find(const char *product) { return find(product); }

bool gemm_choice_use(const char *product) {
    struct gemm_choice *there = find(product);
    if (there) there->used = true;
    return there != NULL;
}

void gemm_choice_add(const struct gemm_choice *c) {
    if (find(c->product)) {
        if (c->used) gemm_choice_use(c->product);
        return;
    }
    choices = table_grow(choices, n_choices, sizeof *choices);
    choices[n_choices++] = *c;
    added |= timing;
    version += !timing;
}

void gemm_choices_keep(int n) {
    version += n < n_choices;
    if (n < n_choices) n_choices = n;
    if (n_choices > 0) return;
    free(choices);
    choices = NULL;
}

int64_t gemm_choices_version(void) { return version; }

/* A sum of hashes, so that the order of the rows does not matter. */
uint64_t gemm_choices_hash(void) {
    uint64_t hash = 0;
    for (int i = 0; i < n_choices; i++)
        if (choices[i].used)
            hash += XXH3_64bits_withSeed(choices[i].algorithm, GEMM_ALGORITHM_BYTES,
                                         XXH3_64bits(choices[i].product, strlen(choices[i].product)));
    return hash;
}

void gemm_choices_time(bool on) {
    version += !on && added;
    added &= on;
    timing = on;
}
bool gemm_choices_timing(void) { return timing; }

#ifdef TRIVIUM_CUDA
int64_t gemm_library_version(void) { return gemm_cuda_version(); }
#else
int64_t gemm_library_version(void) { return 0; }
#endif

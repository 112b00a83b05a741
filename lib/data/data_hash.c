/* The hash of a token stream. A checkpoint records it, so that a run cannot silently continue with other tokens. */
#include "lib/base/integer.h"
#include "lib/data/data_private.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { END_TOKENS = 1 << 18 };

/* If the stream has at most 2^19 tokens, all of them are hashed. */
static enum status hash_now(const struct data_file *f, uint64_t *hash) {
    int64_t n = f->n_tokens, first = min64(n, END_TOKENS), last = min64(n - first, END_TOKENS);
    size_t bytes = sizeof n + (size_t)(first + last) * sizeof(int32_t);
    char *all = malloc(bytes), *at = all;
    if (!all) return FAIL(E_MEMORY, "no memory to look at %s; close other programs", f->path);
    memcpy(at, &n, sizeof n);
    at += sizeof n;
    for (int64_t i = 0; i < first + last; i++, at += sizeof(int32_t)) {
        int32_t token = (int32_t)data_token(f, i < first ? i : n - last + i - first);
        memcpy(at, &token, sizeof token);
    }
    *hash = XXH3_64bits(all, bytes);
    free(all);
    return OK;
}

enum status data_hash_tokens(struct data_file *f) { return hash_now(f, &f->hash); }

enum status data_check_hash(const struct data_file *f) {
    uint64_t hash;
    TRY(hash_now(f, &hash));
    if (hash == f->hash) return OK;
    return FAIL(E_DATA, "%s was written to after it was opened, and its tokens are others now; put back what was "
                "there, and go on from a checkpoint (new data belong into a new file)", f->path);
}

#define _GNU_SOURCE /* fmemopen, strdup */
#include "lib/base/kept.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MOST_BYTES = 64 << 20 };

static struct kept { struct kept *next; char *path, *text; size_t n; } *first, **end = &first;
static bool keeps;

void kept_begin(void) { keeps = true; }

static void destroy(struct kept *k) {
    if (!k) return;
    free(k->path);
    free(k->text);
    free(k);
}

void kept_end(void) {
    for (struct kept *k = first, *next; k; k = next) {
        next = k->next;
        destroy(k);
    }
    first = NULL, end = &first, keeps = false;
}

/* The file may be a pipe, as in --config <(...), so its size is unknown before the end. */
static enum status read_text(struct kept *k, const char *what, FILE *f) {
    for (size_t room = 4096; !feof(f); room *= 2) {
        char *more = realloc(k->text, room);
        if (!more) return FAIL(E_MEMORY, "no memory to read %s%.512s", what, k->path);
        k->text = more;
        k->n += fread(k->text + k->n, 1, room - k->n, f);
        if (ferror(f)) return FAIL(E_IO, "cannot read %s%.512s: %s", what, k->path, strerror(errno));
        if (k->n > MOST_BYTES)
            return FAIL(E_FORMAT, "%s%.512s has more than %d bytes, which is the limit; is this the right file?", what,
                        k->path, MOST_BYTES);
    }
    return OK;
}

static enum status read_file(const char *what, const char *path, enum input_kind kind, struct kept **out) {
    FILE *f;
    TRY(input_file(what, path, kind, &f));
    struct kept *k = calloc(1, sizeof *k);
    if (k) k->path = strdup(path);
    enum status status = k && k->path ? read_text(k, what, f)
                                       : FAIL(E_MEMORY, "no memory to read %s%.512s", what, path);
    fclose(f);
    if (status != OK) destroy(k);
    else *out = k;
    return status;
}

static enum status keep(const char *what, const char *path, enum input_kind kind, struct kept **out) {
    struct kept *k = first;
    while (k && strcmp(k->path, path) != 0) k = k->next;
    if (!k) {
        TRY(read_file(what, path, kind, &k));
        *end = k;
        end = &k->next;
    }
    *out = k;
    return OK;
}

enum status kept_file(const char *what, const char *path, enum input_kind kind, FILE **out) {
    struct kept *k;
    *out = NULL;
    if (!keeps) return input_file(what, path, kind, out);
    TRY(keep(what, path, kind, &k));
    *out = k->n ? fmemopen(k->text, k->n, "r") : fopen("/dev/null", "r");
    return *out ? OK : FAIL(E_MEMORY, "no memory to read %s%.512s", what, path);
}

void kept_early(const char *path) {
    struct kept *k;
    if (keeps && keep("", path, INPUT_FILE, &k) != OK) status_clear();
}

uint64_t kept_hash(void) {
    uint64_t hash = 0;
    for (const struct kept *k = first; k; k = k->next) hash = XXH3_64bits_withSeed(k->text, k->n, hash);
    return hash;
}

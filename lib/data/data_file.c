/* A token stream: open the files, read each with its format's reader (data_read.c), and find token i. The readers check
 * the sizes in headers and indices once; later code relies on them. */
#include "lib/data/data_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how a token is stored ---- */

static const struct { int bytes; const char *name; } ELEMENTS[] = {
    [DATA_U8] = {1, "u8"},   [DATA_I8] = {1, "i8"},   [DATA_U16] = {2, "u16"}, [DATA_I16] = {2, "i16"},
    [DATA_U32] = {4, "u32"}, [DATA_I32] = {4, "i32"}, [DATA_I64] = {8, "i64"},
};
int data_element_bytes(enum data_element e) { return ELEMENTS[e].bytes; }
const char *data_element_name(enum data_element e) { return ELEMENTS[e].name; }

/* Copies the token, because its address in the file may be unaligned. */
#define READ(type) do { type x; memcpy(&x, s->at + (int64_t)sizeof x * i, sizeof x); return (int64_t)x; } while (0)
static int64_t element_at(const struct data_stretch *s, int64_t i) {
    switch (s->element) {
    case DATA_I8: READ(int8_t);
    case DATA_U16: READ(uint16_t);
    case DATA_I16: READ(int16_t);
    case DATA_U32: READ(uint32_t);
    case DATA_I32: READ(int32_t);
    case DATA_I64: READ(int64_t);
    default: return s->at[i];
    }
}
#undef READ

/* ---- opening ---- */

/* Adjacent sequences become one stretch, so that an ordinary file is one stretch, however many sequences it has. */
enum status data_add(struct data_file *f, const unsigned char *at, int64_t n, enum data_element element) {
    struct data_stretch *last = f->n_stretches > 0 ? &f->stretches[f->n_stretches - 1] : NULL;
    int64_t first = f->n_tokens;
    if (__builtin_add_overflow(f->n_tokens, n, &f->n_tokens))
        return FAIL(E_FORMAT, "%s has 2^63 tokens or more; its index is damaged: write it again", f->path);
    if (last && last->element == element && last->first >= f->parts[f->n_parts - 1].first &&
        at == last->at + (first - last->first) * data_element_bytes(element)) return OK;
    if (f->n_stretches == f->room) {
        int64_t room = f->room ? 2 * f->room : 1;
        void *bigger = realloc(f->stretches, (size_t)room * sizeof *f->stretches);
        if (!bigger)
            return FAIL(E_MEMORY, "no memory for the %" PRId64 " pieces that %s lies in; write it again, in order",
                        room, f->path);
        f->stretches = bigger;
        f->room = room;
    }
    f->stretches[f->n_stretches++] = (struct data_stretch){at, first, element};
    return OK;
}

static enum status read_part(struct data_file *f, const char *path, enum data_as as) {
    struct data_part *part = &f->parts[f->n_parts++];
    enum data_format before = f->format;
    part->first = f->n_tokens;
    TRY(data_map(path, "--data", &part->map));
    if (part->map.bytes == 0) {
        data_unmap(&part->map);
        f->n_parts--, f->n_empty++;
        return OK;
    }
    TRY(data_read(f, part, as));
    if (f->n_parts > 1 && f->format != before)
        return FAIL(E_DATA,
                    "%s and %s are of several formats, and a list has one; convert them with trivium data tokenize, or "
                    "train on one",
                    f->parts[0].map.path, path);
    return OK;
}

static enum status read_parts(struct data_file *f, const struct data_list *list, enum data_as as) {
    f->parts = calloc((size_t)list->n, sizeof *f->parts);
    if (!f->parts) return FAIL(E_MEMORY, "no memory to describe %d files; close other programs", list->n);
    for (int i = 0; i < list->n; i++) TRY(read_part(f, list->path[i], as));
    if (f->n_parts > 0) return OK;
    return FAIL(E_DATA, "%s is empty: 0 bytes, and one sample needs seq+1 tokens; give --data another file", f->path);
}

enum status data_open_as(const char *names, enum data_as as, struct bpe *tokenizer, struct data_file **out) {
    enum status status = OK;
    struct data_list list = {0, NULL};
    struct data_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(names))) {
        status = FAIL(E_MEMORY, "no memory to describe %s; close other programs", names);
        goto done;
    }
    TRY_DONE(data_list_init(&list, names));
    TRY_DONE(read_parts(f, &list, as));
    if (tokenizer) TRY_DONE(data_tokenize(f, tokenizer));
    TRY_DONE(data_hash_tokens(f));
done:
    data_list_fini(&list);
    if (status != OK) data_close(&f);
    *out = f;
    return status;
}

enum status data_open(const char *names, struct data_file **out) {
    return data_open_as(names, DATA_AS_AUTO, NULL, out);
}

void data_close(struct data_file **file) {
    struct data_file *f = *file;
    *file = NULL;
    if (!f) return;
    for (int i = 0; i < f->n_parts; i++) {
        data_unmap(&f->parts[i].map);
        free(f->parts[i].tokens);
    }
    free(f->parts);
    free(f->stretches);
    free(f->path);
    free(f);
}

/* ---- asking ---- */

int64_t data_n_tokens(const struct data_file *f) { return f->n_tokens; }
enum data_format data_format_of(const struct data_file *f) { return f->format; }
const char *data_path(const struct data_file *f) { return f->path; }
int64_t data_vocab(const struct data_file *f) { return f->vocab; }
int data_n_files(const struct data_file *f) { return f->n_parts; }
int data_n_empty(const struct data_file *f) { return f->n_empty; }
uint64_t data_hash(const struct data_file *f) { return f->hash; }
int64_t data_n_documents(const struct data_file *f) { return f->n_documents; }
int64_t data_n_sequences(const struct data_file *f) { return f->n_sequences; }

const char *data_format_name(const struct data_file *f) {
    static char text[48];
    if (f->format == DATA_TEXT) return f->parts[0].tokens ? "text, tokenized" : "text, one token a byte";
    if (f->format == DATA_CLICKS) return "clicks";
    const char *what = f->format == DATA_MEGATRON ? "Megatron" : f->format == DATA_NPY ? "npy"
                     : f->format == DATA_RAW      ? "no header" : "llm.c";
    snprintf(text, sizeof text, "%s, %s tokens", what, data_element_name(f->stretches[0].element));
    return text;
}

const char *data_text(const struct data_file *f, int i, int64_t *bytes) {
    *bytes = f->parts[i].map.bytes;
    return (const char *)f->parts[i].map.at;
}

/* The last stretch that begins at or before token i. */
static const struct data_stretch *stretch_of(const struct data_file *f, int64_t i) {
    int64_t low = 0, high = f->n_stretches;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (f->stretches[middle].first <= i) low = middle;
        else high = middle;
    }
    return &f->stretches[low];
}

int64_t data_token(const struct data_file *f, int64_t i) {
    const struct data_stretch *s = stretch_of(f, i);
    return element_at(s, i - s->first);
}

const char *data_file_of(const struct data_file *f, int64_t i, int64_t *place) {
    int p = f->n_parts - 1;
    while (p > 0 && f->parts[p].first > i) p--;
    *place = i - f->parts[p].first;
    return f->parts[p].map.path;
}

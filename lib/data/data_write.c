#define _GNU_SOURCE /* asprintf */
#include "lib/data/data_write.h"

#include "lib/base/replace.h"
#include "lib/base/shared.h"
#include "lib/data/megatron.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct output { char *path, *beside; FILE *file; };   /* `beside`: the temporary name, until the file is complete */

struct data_writer {
    enum data_target target;
    enum data_element element;
    int64_t vocab, n_tokens;
    struct output bin, index;            /* index: only for Megatron */
    int32_t *lengths;                    /* tokens of each document; a document is one sequence */
    int64_t n_documents, room, document_at;   /* document_at: number of the current document's first token */
};

/* ---- one file ---- */

static enum status refused(const struct output *o, const char *what) {
    return FAIL(E_IO, "%s %s: %s", what, o->path, strerror(errno));
}

static enum status open_output(struct output *o, const char *path) {
    o->path = strdup(path);
    if (!o->path || asprintf(&o->beside, "%s.tmp-%ld", path, (long)getpid()) < 0)
        return FAIL(E_MEMORY, "no memory to write %s; close other programs", path);
    o->file = shared_create(o->beside);
    return o->file ? OK : refused(o, "cannot create");
}

static enum status put(struct output *o, const void *from, size_t bytes) {
    return fwrite(from, 1, bytes, o->file) == bytes ? OK : refused(o, "writing");
}

static enum status flush(struct output *o) {
    FILE *file = o->file;
    bool failed = fflush(file) != 0 || fsync(fileno(file)) != 0;
    int why = errno;
    o->file = NULL;
    if (fclose(file) != 0 && !failed) failed = true, why = errno;
    errno = why;
    return failed ? refused(o, "writing") : OK;
}

static enum status give_name(struct output *o) {
    if (rename(o->beside, o->path) != 0) return refused(o, "cannot give its name to");
    free(o->beside);
    o->beside = NULL;
    return durable_name(o->path);
}

static void close_output(struct output *o) {
    if (o->file) {
        fclose(o->file);
        o->file = NULL;
    }
    if (o->beside) unlink(o->beside);
    free(o->beside), free(o->path);
}

/* ---- llm.c ---- */

static enum status put_llmc_header(struct data_writer *w) {
    bool narrow = w->element == DATA_U16;
    unsigned char bytes[LLMC_HEADER_BYTES] = {0};
    struct llmc_header header = {narrow ? LLMC_MAGIC_U16 : LLMC_MAGIC_U32, narrow ? LLMC_VERSION_U16 : LLMC_VERSION_U32,
                                 (int32_t)w->n_tokens};
    memcpy(bytes, &header, sizeof header);
    return put(&w->bin, bytes, sizeof bytes);
}

/* ---- Megatron ---- */

static enum status put_u64(struct output *o, uint64_t x) { return put(o, &x, sizeof x); }

static enum status put_index(struct data_writer *w) {
    struct output *o = &w->index;
    unsigned char code = (unsigned char)megatron_code(w->element);
    TRY(put(o, megatron_magic, MEGATRON_MAGIC_BYTES));
    TRY(put_u64(o, MEGATRON_VERSION));
    TRY(put(o, &code, 1));
    TRY(put_u64(o, (uint64_t)w->n_documents));
    TRY(put_u64(o, (uint64_t)w->n_documents + 1));
    TRY(put(o, w->lengths, (size_t)w->n_documents * sizeof *w->lengths));
    uint64_t at = 0;
    for (int64_t i = 0; i < w->n_documents; at += (uint64_t)w->lengths[i++] * (uint64_t)data_element_bytes(w->element))
        TRY(put_u64(o, at));
    for (int64_t i = 0; i <= w->n_documents; i++) TRY(put_u64(o, (uint64_t)i));
    return flush(o);
}

/* ---- writing ---- */

static enum data_element element_for(enum data_target target, int64_t vocab) {
    if (target == DATA_TO_LLMC) return vocab <= 65536 ? DATA_U16 : DATA_U32;
    return vocab < 65500 ? DATA_U16 : DATA_I32;
}

static enum status begin(struct data_writer *w, const char *path) {
    if (w->target == DATA_TO_MEGATRON) {
        char *index = megatron_index_path(path);
        enum status status = index
                                 ? open_output(&w->index, index)
                                 : FAIL(E_CONFIG, "%s does not end in .bin, as the tokens of Megatron data must", path);
        free(index);
        TRY(status);
    }
    TRY(open_output(&w->bin, path));
    return w->target == DATA_TO_LLMC ? put_llmc_header(w) : OK;     /* `complete` rewrites it with n_tokens */
}

enum status data_write_create(const char *path, enum data_target target, int64_t vocab, struct data_writer **out) {
    struct data_writer *w = *out = calloc(1, sizeof *w);
    if (!w) return FAIL(E_MEMORY, "no memory to write %s; close other programs", path);
    w->target = target;
    w->vocab = vocab;
    w->element = element_for(target, vocab);
    enum status status = begin(w, path);
    if (status != OK) data_write_abandon(out);
    return status;
}

static enum status check_count(const struct data_writer *w, int64_t n) {
    if (w->target == DATA_TO_LLMC && n > INT32_MAX - w->n_tokens)
        return FAIL(E_DATA,
                    "%s would have more than %d tokens, llm.c's limit for a file; write several, or --format megatron",
                    w->bin.path, INT32_MAX);
    if (n > INT32_MAX - (w->n_tokens - w->document_at))
        return FAIL(E_DATA, "document %" PRId64 " of %s would have more than %d tokens, Megatron's limit; cut the text",
                    w->n_documents + 1, w->bin.path, INT32_MAX);
    return OK;
}

enum status data_write_tokens(struct data_writer *w, const int32_t *tokens, int64_t n) {
    int bytes = data_element_bytes(w->element);
    TRY(check_count(w, n));
    for (int64_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= w->vocab)
            return FAIL(E_INTERNAL, "token %d for %s, of a vocabulary of %" PRId64 "; please report this", tokens[i],
                        w->bin.path, w->vocab);
        TRY(put(&w->bin, &tokens[i], (size_t)bytes));       /* the low bytes: the host is little-endian */
    }
    w->n_tokens += n;
    return OK;
}

enum status data_write_end_document(struct data_writer *w) {
    if (w->n_tokens == w->document_at) return OK;
    if (w->n_documents == w->room) {
        int64_t room = w->room ? 2 * w->room : 64;
        int32_t *bigger = realloc(w->lengths, (size_t)room * sizeof *bigger);
        if (!bigger)
            return FAIL(E_MEMORY, "no memory for the lengths of %" PRId64 " documents; write several files", room);
        w->lengths = bigger;
        w->room = room;
    }
    w->lengths[w->n_documents++] = (int32_t)(w->n_tokens - w->document_at);
    w->document_at = w->n_tokens;
    return OK;
}

int64_t data_write_n_tokens(const struct data_writer *w) { return w->n_tokens; }
int64_t data_write_n_documents(const struct data_writer *w) { return w->n_documents; }

static enum status complete(struct data_writer *w) {
    TRY(data_write_end_document(w));
    if (w->n_tokens == 0)
        return FAIL(E_DATA, "there are no tokens to write to %s; give a text that is not empty", w->bin.path);
    if (w->target == DATA_TO_LLMC) {
        if (fseek(w->bin.file, 0, SEEK_SET) != 0) return refused(&w->bin, "writing");
        TRY(put_llmc_header(w));
    }
    TRY(flush(&w->bin));
    if (w->target == DATA_TO_MEGATRON) {
        TRY(put_index(w));
        unlink(w->bin.path);
        TRY(give_name(&w->index));
    }
    return give_name(&w->bin);
}

enum status data_write_finish(struct data_writer **writer) {
    enum status status = complete(*writer);
    data_write_abandon(writer);
    return status;
}

void data_write_abandon(struct data_writer **writer) {
    struct data_writer *w = *writer;
    *writer = NULL;
    if (!w) return;
    close_output(&w->bin);
    close_output(&w->index);
    free(w->lengths);
    free(w);
}

#include "models/gpt/gpt_llmc.h"

#include "lib/base/input.h"
#include "lib/base/integer.h"
#include "models/gpt/gpt_weights.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC = 20240326, VERSION_FP32 = 3, VERSION_BF16 = 5, PADDED_TO = 128, HEADER_INTS = 256,
       HEADER_BYTES = HEADER_INTS * 4 };
/* Indices in the header. */
enum { AT_MAGIC, AT_VERSION, AT_SEQ, AT_VOCAB, AT_LAYERS, AT_HEADS, AT_CHANNELS, AT_PADDED_VOCAB };

/* ---- reading a file ---- */

struct llmc_file {
    const char *path;
    FILE *file;
    int64_t bytes, padded_vocab;
    enum dtype dtype;
    struct gpt_weights weights;
};

static enum status open_file(struct llmc_file *f) {
    struct stat info;
    TRY(input_file("", f->path, INPUT_FILE, &f->file));
    if (fstat(fileno(f->file), &info) != 0) return FAIL(E_DATA, "cannot open %s: %s", f->path, strerror(errno));
    f->bytes = info.st_size;
    return OK;
}

static enum status read_bytes(const struct llmc_file *f, int64_t at, int64_t bytes, void *to) {
    if (fseeko(f->file, (off_t)at, SEEK_SET) == 0 && fread(to, 1, (size_t)bytes, f->file) == (size_t)bytes) return OK;
    return FAIL(E_IO, "reading %s at byte %" PRId64 ": %s", f->path, at,
                ferror(f->file) ? strerror(errno) : "it ends there");
}

static enum status read_version(struct llmc_file *f, const int32_t *header) {
    if (header[AT_MAGIC] != MAGIC)
        return FAIL(E_FORMAT, "%s begins with %d; an llm.c model begins with %d", f->path, header[AT_MAGIC], MAGIC);
    if (header[AT_VERSION] != VERSION_FP32 && header[AT_VERSION] != VERSION_BF16)
        return FAIL(E_FORMAT, "%s is an llm.c model of version %d; versions %d (fp32) and %d (bf16) can be read",
                    f->path, header[AT_VERSION], VERSION_FP32, VERSION_BF16);
    f->dtype = header[AT_VERSION] == VERSION_FP32 ? FP32 : BF16;
    return OK;
}

static enum status read_header(struct llmc_file *f, struct checkpoint_model *m) {
    int32_t header[HEADER_INTS];
    if (f->bytes < HEADER_BYTES)
        return FAIL(E_FORMAT, "%s has %" PRId64 " bytes; the header of an llm.c model has %d", f->path, f->bytes,
                    HEADER_BYTES);
    TRY(read_bytes(f, 0, HEADER_BYTES, header));
    TRY(read_version(f, header));
    *m = (struct checkpoint_model){.layers = header[AT_LAYERS], .hidden = header[AT_CHANNELS],
                                   .heads = header[AT_HEADS], .seq = header[AT_SEQ], .vocab = header[AT_VOCAB]};
    f->padded_vocab = header[AT_PADDED_VOCAB];
    TRY(checkpoint_model_check(m, f->path));
    if (f->padded_vocab >= m->vocab) return OK;
    return FAIL(E_FORMAT, "%s: padded_vocab_size is %" PRId64 ", less than vocab_size %" PRId64, f->path,
                f->padded_vocab, m->vocab);
}

static int64_t elements(const struct gpt_weights *g, int i) { return shape_n(&g->weight[i].shape); }
static int64_t most_elements(const struct gpt_weights *g) {
    int64_t most = 0;
    for (int i = 0; i < g->n; i++) most = elements(g, i) > most ? elements(g, i) : most;
    return most;
}
/* Elements in the file: the first weight is the embedding, with rows of padding. */
static int64_t elements_there(const struct gpt_weights *g, int i, int64_t padded_vocab) {
    return i == 0 ? padded_vocab * g->model.hidden : elements(g, i);
}

/* The header determines where the last weight ends, which must be the end of the file. */
static enum status check_end(const struct llmc_file *f) {
    int64_t end = HEADER_BYTES;
    for (int i = 0; i < f->weights.n; i++)
        end += elements_there(&f->weights, i, f->padded_vocab) * (int64_t)dtype_size(f->dtype);
    if (end == f->bytes) return OK;
    return FAIL(E_FORMAT, "%s is %s: its header makes %" PRId64 " bytes, and it has %" PRId64, f->path,
                f->bytes < end ? "truncated" : "too long", end, f->bytes);
}

/* ---- import ---- */

static enum status copy_weights(const struct llmc_file *f, struct checkpoint_writer *w) {
    const struct gpt_weights *g = &f->weights;
    int64_t at = HEADER_BYTES, size = (int64_t)dtype_size(f->dtype);
    void *room = malloc((size_t)(most_elements(g) * size));
    enum status status = room ? OK : FAIL(E_MEMORY, "no memory for the largest weight of %s", f->path);
    for (int i = 0; i < g->n && status == OK; i++) {
        status = read_bytes(f, at, elements(g, i) * size, room);
        at += elements_there(g, i, f->padded_vocab) * size;
        if (status == OK && !dtype_all_finite(room, f->dtype, elements(g, i)))
            status = FAIL(E_FORMAT, "%s: %s holds a number that is not finite", f->path, g->weight[i].name);
        if (status == OK) status = checkpoint_weights_append(w, room, elements(g, i) * size);
    }
    free(room);
    return status;
}

static enum status create(const struct llmc_file *f, const char *save, struct checkpoint_writer **w) {
    const struct gpt_weights *g = &f->weights;
    struct checkpoint_weight *list = calloc((size_t)g->n, sizeof *list);
    if (!list) return FAIL(E_MEMORY, "no memory for the list of %d weights", g->n);
    for (int i = 0; i < g->n; i++)
        list[i] = (struct checkpoint_weight){g->weight[i].name, g->weight[i].shape, f->dtype};
    enum status status = checkpoint_weights_create(save, &g->model, list, g->n, w);
    free(list);
    return status;
}

static enum status import(struct llmc_file *f, const char *save, struct checkpoint_model *out) {
    struct checkpoint_writer *w = NULL;
    TRY(open_file(f));
    TRY(read_header(f, out));
    TRY(gpt_weights_init(&f->weights, out));
    TRY(check_end(f));
    TRY(create(f, save, &w));
    enum status status = copy_weights(f, w);
    if (status == OK) return checkpoint_weights_finish(&w);
    checkpoint_weights_abandon(&w);
    return status;
}

enum status gpt_llmc_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out) {
    if (heads) return FAIL(E_USAGE, "heads=%" PRId64 ", and an llm.c file says its heads itself; leave it out", heads);
    struct llmc_file f = {.path = path};
    enum status status = import(&f, save, out);
    gpt_weights_fini(&f.weights);
    if (f.file) fclose(f.file);
    return status;
}

/* ---- export ---- */

struct llmc_output { const char *path; FILE *file; int64_t padded_vocab; enum dtype dtype; };

static enum status put_bytes(const struct llmc_output *o, const void *from, int64_t bytes) {
    return fwrite(from, 1, (size_t)bytes, o->file) == (size_t)bytes
               ? OK
               : FAIL(E_IO, "writing %s: %s", o->path, strerror(errno));
}

static enum status put_padding(const struct llmc_output *o, int64_t bytes) {
    static const char zeros[4096];
    for (int64_t n; bytes > 0; bytes -= n) {
        n = bytes < (int64_t)sizeof zeros ? bytes : (int64_t)sizeof zeros;
        TRY(put_bytes(o, zeros, n));
    }
    return OK;
}

static enum status put_header(const struct llmc_output *o, const struct checkpoint_model *m) {
    int32_t header[HEADER_INTS] = {0};
    header[AT_MAGIC] = MAGIC;
    header[AT_VERSION] = o->dtype == FP32 ? VERSION_FP32 : VERSION_BF16;
    header[AT_SEQ] = (int32_t)m->seq;
    header[AT_VOCAB] = (int32_t)m->vocab;
    header[AT_LAYERS] = (int32_t)m->layers;
    header[AT_HEADS] = (int32_t)m->heads;
    header[AT_CHANNELS] = (int32_t)m->hidden;
    header[AT_PADDED_VOCAB] = (int32_t)o->padded_vocab;
    return put_bytes(o, header, sizeof header);
}

static enum status put_weights(const struct gpt_weights *g, const struct checkpoint_reader *r,
                               const struct llmc_output *o) {
    int64_t size = (int64_t)dtype_size(o->dtype);
    void *room = malloc((size_t)(most_elements(g) * size));
    enum status status = room ? OK : FAIL(E_MEMORY, "no memory for the largest weight of %s", o->path);
    for (int i = 0; i < g->n && status == OK; i++) {
        int64_t n = elements(g, i), there = elements_there(g, i, o->padded_vocab);
        status = checkpoint_read_weight(r, g->weight[i].name, &g->weight[i].shape, o->dtype, room);
        if (status == OK) status = put_bytes(o, room, n * size);
        if (status == OK) status = put_padding(o, (there - n) * size);
    }
    free(room);
    return status;
}

static enum status write_file(const struct gpt_weights *g, const struct checkpoint_reader *r, struct llmc_output *o) {
    TRY(put_header(o, &g->model));
    TRY(put_weights(g, r, o));
    return fflush(o->file) == 0 && fsync(fileno(o->file)) == 0 ? OK
                                                               : FAIL(E_IO, "writing %s: %s", o->path, strerror(errno));
}

/* All sizes are int32 in the header; within checkpoint_model_check's limits only the padded vocabulary can overflow. */
static enum status export(const struct gpt_weights *g, const struct checkpoint_reader *r, struct llmc_output *o) {
    o->padded_vocab = round_up(g->model.vocab, PADDED_TO);
    if (o->padded_vocab > INT32_MAX) return FAIL(E_CONFIG, "vocab=%" PRId64 " does not fit into llm.c's header",
                                                 g->model.vocab);
    o->file = fopen(o->path, "wbx");
    if (!o->file) return FAIL(E_IO, "cannot create %s: %s", o->path, strerror(errno));
    enum status status = write_file(g, r, o);
    if (fclose(o->file) != 0 && status == OK) status = FAIL(E_IO, "closing %s: %s", o->path, strerror(errno));
    if (status != OK) unlink(o->path);
    return status;
}

enum status gpt_llmc_check(const struct checkpoint_model *m) {
    if (m->more[0])
        return FAIL(E_CONFIG, "this gpt has %s, and llm.c files have norm-eps=1e-5 and gelu-tanh, and say neither; use "
                    "--to hf", m->more);
    return gpt_weights_check(m, "llm.c files");
}

enum status gpt_llmc_export(const struct checkpoint_reader *r, enum dtype dtype, const char *path) {
    struct checkpoint_model model = checkpoint_model_of(r);
    struct gpt_weights weights;
    struct llmc_output o = {.path = path, .dtype = dtype == N_DTYPES ? FP32 : dtype};
    if (o.dtype != FP32 && o.dtype != BF16)
        return FAIL(E_USAGE, "precision=%s, and llm.c files have fp32 or bf16", dtype_name(o.dtype));
    TRY(gpt_llmc_check(&model));
    TRY(gpt_weights_init(&weights, &model));
    enum status status = export(&weights, r, &o);
    gpt_weights_fini(&weights);
    return status;
}

#include "models/gpt/gpt_hf.h"

#include "lib/checkpoint/hf_files.h"
#include "models/gpt/gpt_hf_config.h"
#include "models/gpt/gpt_weights.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PREFIX[] = "transformer.";

/* prefix: PREFIX, or "" in a file that has none. */
static void name_of(const struct gpt_weight *w, const char *prefix, char name[PUBLISHED_NAME_MAX]) {
    published_name(w->row->theirs[0] + strlen(PREFIX) - strlen(prefix), w->layer, 0, name);
}

/* ---- reading a file ---- */

struct hf_file {
    const char *path, *prefix;               /* path: of the file, or of the index */
    struct hf_files *files;
    struct gpt_weights weights;
    struct hf_tensor *tensor;                /* for each weight */
    void *buffer;                            /* a matrix before its transposition */
};

/* The name after "h.N.", and N; NULL if the name has no such prefix. */
static const char *in_layer(const struct hf_file *f, const char *name, int64_t *layer) {
    size_t n = strlen(f->prefix);
    if (strncmp(name, f->prefix, n) != 0 || strncmp(name + n, "h.", 2) != 0) return NULL;
    const char *digits = name + n + 2;
    size_t length = strspn(digits, "0123456789");
    if (length == 0 || length > 9 || digits[length] != '.') return NULL;
    *layer = strtoll(digits, NULL, 10);
    return digits + length + 1;
}

static enum status find_matrix(const struct hf_file *f, const char *what, const struct safetensors_entry **out) {
    char name[PUBLISHED_NAME_MAX];
    snprintf(name, sizeof name, "%s%s", f->prefix, what);
    const struct safetensors_entry *e = *out = hf_files_find(f->files, name).entry;
    if (!e)
        return FAIL(E_FORMAT, "%s: tensor %s is missing; without another model_type in config.json it is read as a "
                    "gpt2", f->path, name);
    return e->n_axes == 2 ? OK : FAIL(E_FORMAT, "%s: tensor %s has %d axes, not 2", f->path, name, e->n_axes);
}

/* Compares config.json with the tensors. */
static enum status compare_sizes(const char *path, const struct checkpoint_model *said,
                                 const struct checkpoint_model *found) {
    const struct { const char *key; int64_t said, found; } sizes[] = {{"n_layer", said->layers, found->layers},
                                                                      {"n_embd", said->hidden, found->hidden},
                                                                      {"n_positions", said->seq, found->seq},
                                                                      {"vocab_size", said->vocab, found->vocab}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].said != sizes[i].found)
            return FAIL(E_FORMAT, "%s says %s=%" PRId64 ", and the tensors next to it say %" PRId64, path, sizes[i].key,
                        sizes[i].said, sizes[i].found);
    return OK;
}

/* Without config.json heads are of 64 channels, as all published ones, if the user does not say them. */
static enum status guess_heads(const struct hf_file *f, const char *config, int64_t heads, struct checkpoint_model *m) {
    m->heads = heads ? heads : m->hidden % 64 ? 0 : m->hidden / 64;
    if (m->heads > 0 && m->hidden % m->heads == 0) return OK;
    if (m->heads == 0)
        return FAIL(E_CONFIG,
                    "%s has hidden=%" PRId64 ", no multiple of 64, and there is no %s to say the heads; give --heads",
                    f->path, m->hidden, config);
    return FAIL(E_CONFIG, "heads=%" PRId64 " does not divide hidden=%" PRId64 " of %s; give --heads that do", m->heads,
                m->hidden, f->path);
}

static enum status choose_heads(const struct hf_file *f, int64_t heads, struct checkpoint_model *m) {
    char config[CHECKPOINT_PATH_MAX];
    struct checkpoint_model said;
    TRY(hf_config_path(f->path, config));
    if (access(config, F_OK) != 0) return guess_heads(f, config, heads, m);
    TRY(gpt_hf_config_read(config, &said));
    TRY(compare_sizes(config, &said, m));
    m->heads = said.heads;
    if (heads == 0 || heads == said.heads) return OK;
    return FAIL(E_CONFIG, "heads=%" PRId64 ", and %s says n_head=%" PRId64 ": leave --heads out", heads, config,
                said.heads);
}

static enum status read_model(struct hf_file *f, int64_t heads, struct checkpoint_model *m) {
    const struct safetensors_entry *wte, *wpe;
    f->prefix = hf_files_find(f->files, "transformer.wte.weight").entry ? PREFIX : "";
    TRY(find_matrix(f, "wte.weight", &wte));
    TRY(find_matrix(f, "wpe.weight", &wpe));
    *m = (struct checkpoint_model){.hidden = wte->shape[1], .heads = 1, .seq = wpe->shape[0], .vocab = wte->shape[0]};
    for (int i = 0; i < hf_files_n(f->files); i++) {
        int64_t layer = 0;
        if (in_layer(f, hf_files_at(f->files, i).entry->name, &layer) && layer >= m->layers) m->layers = layer + 1;
    }
    TRY(checkpoint_model_check(m, f->path));
    return choose_heads(f, heads, m);
}

/* ---- all tensors, and no others ---- */

static enum status find_weight(struct hf_file *f, int i) {
    const struct gpt_weight *w = &f->weights.weight[i];
    char name[PUBLISHED_NAME_MAX];
    name_of(w, f->prefix, name);
    f->tensor[i] = hf_files_find(f->files, name);
    const struct safetensors_entry *e = f->tensor[i].entry;
    if (!e) return FAIL(E_FORMAT, "%s: tensor %s is missing", f->path, name);
    if (e->dtype > FP16)
        return FAIL(E_FORMAT, "%s: tensor %s is %s; weights are F64, F32, BF16 or F16", f->path, name, e->dtype_name);
    if (e->n_axes != w->n_axes)
        return FAIL(E_FORMAT, "%s: tensor %s has %d axes, not %d", f->path, name, e->n_axes, w->n_axes);
    for (int a = 0; a < w->n_axes; a++)
        if (e->shape[a] != w->theirs[a])
            return FAIL(E_FORMAT, "%s: axis %d of tensor %s is %" PRId64 ", not %" PRId64, f->path, a, name,
                        e->shape[a], w->theirs[a]);
    return OK;
}

static bool is_mask(const struct hf_file *f, const char *name) {
    int64_t layer;
    const char *rest = in_layer(f, name, &layer);
    return rest && (!strcmp(rest, "attn.bias") || !strcmp(rest, "attn.masked_bias"));
}

static bool is_weight(const struct hf_file *f, const struct safetensors_entry *e) {
    for (int i = 0; i < f->weights.n; i++)
        if (f->tensor[i].entry == e) return true;
    return false;
}

/* An untied head is another model. */
static enum status check_head(const struct hf_file *f, struct hf_tensor tensor) {
    const struct safetensors_entry *wte = f->tensor[0].entry, *head = tensor.entry;
    enum { PART = 1 << 16 };
    static char a[PART], b[PART];
    int64_t bytes = wte->end - wte->begin;
    bool same = head->dtype == wte->dtype && head->n_axes == 2 && head->shape[0] == wte->shape[0] &&
                head->shape[1] == wte->shape[1];
    for (int64_t at = 0; same && at < bytes; at += PART) {
        int64_t n = bytes - at < PART ? bytes - at : PART;
        TRY(safetensors_read(f->tensor[0].file, wte, at, n, a));
        TRY(safetensors_read(tensor.file, head, at, n, b));
        same = !memcmp(a, b, (size_t)n);
    }
    return same ? OK
                : FAIL(E_FORMAT, "%s: lm_head.weight is not wte.weight; Trivium's head is tied to the embedding",
                       f->path);
}

static enum status check_others(const struct hf_file *f) {
    for (int i = 0; i < hf_files_n(f->files); i++) {
        const struct safetensors_entry *e = hf_files_at(f->files, i).entry;
        if (!strcmp(e->name, "lm_head.weight")) TRY(check_head(f, hf_files_at(f->files, i)));
        else if (!is_mask(f, e->name) && !is_weight(f, e))
            return FAIL(E_FORMAT, "%s: tensor %.80s is none of a GPT-2's", f->path, e->name);
    }
    return OK;
}

static enum status find_all(struct hf_file *f) {
    f->tensor = calloc((size_t)f->weights.n, sizeof *f->tensor);
    if (!f->tensor) return FAIL(E_MEMORY, "no memory for the list of %d tensors", f->weights.n);
    for (int i = 0; i < f->weights.n; i++) TRY(find_weight(f, i));
    return check_others(f);
}

/* ---- import ---- */

static enum status make_buffer(struct hf_file *f) {
    int64_t most = 0;
    for (int i = 0; i < f->weights.n; i++)
        if (f->tensor[i].entry->end - f->tensor[i].entry->begin > most)
            most = f->tensor[i].entry->end - f->tensor[i].entry->begin;
    f->buffer = malloc((size_t)most);
    return f->buffer ? OK : FAIL(E_MEMORY, "no memory for a tensor of %" PRId64 " bytes", most);
}

static enum dtype source_dtype(const struct gpt_source *s, int i) {
    return ((const struct hf_file *)s->self)->tensor[i].entry->dtype;
}

static enum status source_read(const struct gpt_source *s, int i, void *to) {
    const struct hf_file *f = s->self;
    const struct gpt_weight *w = &f->weights.weight[i];
    const struct safetensors_entry *e = f->tensor[i].entry;
    TRY(safetensors_read(f->tensor[i].file, e, 0, e->end - e->begin, w->transposed ? f->buffer : to));
    if (w->transposed) gpt_transpose(to, f->buffer, w->columns, w->rows, e->dtype);
    return OK;
}

static enum status import(struct hf_file *f, int64_t heads, const char *save, struct checkpoint_model *out) {
    TRY(hf_files_open(f->path, &f->files));
    f->path = hf_files_path(f->files);
    TRY(read_model(f, heads, out));
    TRY(gpt_weights_init(&f->weights, out));
    TRY(find_all(f));
    TRY(make_buffer(f));
    struct gpt_source source = {f->path, source_dtype, source_read, f};
    return gpt_weights_import(&f->weights, &source, save);
}

enum status gpt_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out) {
    struct hf_file f = {.path = path};
    enum status status = import(&f, heads, save, out);
    free(f.buffer);
    free(f.tensor);
    gpt_weights_fini(&f.weights);
    hf_files_close(&f.files);
    return status;
}

/* ---- export ---- */

struct hf_output { struct safetensors_writer *writer; void *buffer; enum dtype dtype; };

static enum status put(void *self, const struct gpt_weight *w, const void *elements) {
    struct hf_output *o = self;
    if (w->transposed) gpt_transpose(o->buffer, elements, w->rows, w->columns, o->dtype);
    return safetensors_append(o->writer, w->transposed ? o->buffer : elements,
                              gpt_weight_n(w) * (int64_t)dtype_size(o->dtype));
}

static enum status create(const struct gpt_weights *g, const char *path, struct hf_output *o) {
    struct safetensors_entry *entries = calloc((size_t)g->n, sizeof *entries);
    char(*names)[PUBLISHED_NAME_MAX] = calloc((size_t)g->n, sizeof *names);
    const struct safetensors_pair metadata = {"format", "pt"};
    enum status status = entries && names ? OK : FAIL(E_MEMORY, "no memory for the list of %d tensors", g->n);
    for (int i = 0; i < g->n && status == OK; i++) {
        name_of(&g->weight[i], PREFIX, names[i]);
        entries[i] = (struct safetensors_entry){.name = names[i], .dtype = o->dtype, .n_axes = g->weight[i].n_axes};
        memcpy(entries[i].shape, g->weight[i].theirs, sizeof g->weight[i].theirs);
    }
    if (status == OK) status = safetensors_create(path, entries, g->n, &metadata, 1, &o->writer);
    free(names);
    free(entries);
    return status;
}

static enum status write_file(const struct gpt_weights *g, const struct checkpoint_reader *r, struct hf_output *o) {
    int64_t bytes = 4 * g->model.hidden * g->model.hidden * (int64_t)dtype_size(o->dtype), written;
    uint64_t hash;
    o->buffer = malloc((size_t)bytes);                               /* the largest transposed matrix */
    if (!o->buffer) return FAIL(E_MEMORY, "no memory for a tensor of %" PRId64 " bytes", bytes);
    TRY(gpt_weights_export(g, r, o->dtype, put, o));
    return safetensors_finish(&o->writer, &written, &hash);
}

static enum status export(const struct gpt_weights *g, const struct checkpoint_reader *r, const char *path) {
    char config[CHECKPOINT_PATH_MAX];
    struct hf_output o = {0};
    enum dtype stored;
    TRY(hf_config_path(path, config));
    if (access(config, F_OK) == 0) return FAIL(E_IO, "%s is there already; give a file in a folder of its own", config);
    TRY(checkpoint_weight_dtype(r, g->weight[0].name, &stored));
    o.dtype = stored == FP64 ? FP64 : FP32;
    TRY(create(g, path, &o));
    enum status status = write_file(g, r, &o);
    if (status == OK) status = gpt_hf_config_write(config, &g->model, o.dtype);
    safetensors_abandon(&o.writer);
    free(o.buffer);
    if (status != OK) unlink(path);
    return status;
}

enum status gpt_hf_check(const struct checkpoint_model *m) { return gpt_weights_check(m, "hf files of gpt2"); }

enum status gpt_hf_export(const struct checkpoint_reader *r, enum dtype dtype, const char *path) {
    if (dtype != N_DTYPES)
        return FAIL(E_USAGE, "precision=%s, and hf files have fp32, or fp64 where the checkpoint has: leave it out",
                    dtype_name(dtype));
    struct checkpoint_model model = checkpoint_model_of(r);
    struct gpt_weights weights;
    TRY(gpt_hf_check(&model));
    TRY(gpt_weights_init(&weights, &model));
    enum status status = export(&weights, r, path);
    gpt_weights_fini(&weights);
    return status;
}

#include "lib/checkpoint/hf_weights.h"

#include "lib/base/log.h"
#include "lib/checkpoint/hf_blocks.h"
#include "lib/checkpoint/hf_tokens.h"
#include "lib/run/recipe.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AT_A_TIME = 1 << 16 };

/* ---- names ---- */

/* The number of their tensors that one row names, for each expert if there are experts. */
static int of_each(const struct published *row) {
    int n = 1;
    while (n < PUBLISHED_PARTS && row->theirs[n]) n++;
    return n;
}
static int n_parts(const struct published *row, const struct shape *ours) {
    return of_each(row) * (strstr(row->theirs[0], "%e") ? (int)ours->axis[0].n : 1);
}

static void name_of(const struct published *row, int part, int layer, char name[PUBLISHED_NAME_MAX]) {
    published_name(row->theirs[part % of_each(row)], layer, part / of_each(row), name);
}

/* ---- the model's weights: those of a program that is built but not compiled ---- */

static enum status build(const struct hf_weights *kind, const struct checkpoint_model *m, struct program *p) {
    const struct recipe recipe = {NULL, 0, &kind->model, 1, NULL};
    struct plan plan;
    program_init(p);
    TRY(checkpoint_model_plan(m, &recipe, &plan));
    return kind->model->build(&plan, p);
}

/* The row of the table that names weight i, and the weight's layer. files: of import, or NULL */
static enum status row_at(const struct hf_weights *kind, const struct hf_files *files, const struct program *p, int i,
                          const struct published **row, int *layer) {
    char name[PUBLISHED_NAME_MAX];
    *row = files && kind->fused ? published_find(kind->fused, p->params[i].name, layer) : NULL;
    if (*row) published_name((*row)->theirs[0], *layer, 0, name);
    if (!*row || !hf_files_find(files, name).entry) *row = published_find(kind->names, p->params[i].name, layer);
    return *row ? OK : FAIL(E_INTERNAL, "the model's %s has no name of Hugging Face's", p->params[i].name);
}

/* ---- import ---- */

struct import {
    const struct hf_weights *kind;
    struct hf_files *files;
    struct checkpoint_model model;
    struct program program;
    struct checkpoint_weight *list;
    const struct safetensors_entry **part;   /* tensors in the files: all parts of all weights */
    struct checkpoint_writer *writer;
    char room[AT_A_TIME * sizeof(double)];
};

/* A tensor of the files. scales.entry NULL: it has numbers; otherwise codes in blocks (hf_blocks.h), whose numbers are
 * bf16. */
struct part { struct hf_tensor at, scales; enum dtype dtype; };

static enum status find_part(const struct import *m, int i, int part, struct part *out) {
    const char *path = hf_files_path(m->files);
    const struct published *row;
    int layer;
    int64_t shape[PUBLISHED_AXES];
    char name[PUBLISHED_NAME_MAX];
    TRY(row_at(m->kind, m->files, &m->program, i, &row, &layer));
    name_of(row, part, layer, name);
    *out = (struct part){.at = hf_again_find(m->kind, m->files, &m->model, name), .dtype = BF16};
    const struct safetensors_entry *e = out->at.entry;
    int n_axes = published_shape(row, &m->program.params[i].type.shape, shape);
    if (!e) return FAIL(E_FORMAT, "%s: tensor %s is missing", path, name);
    if (hf_blocks_named(name)) return hf_blocks_find(m->files, e, n_axes, shape, &out->scales);
    out->dtype = e->dtype;
    if (e->dtype > FP16)
        return FAIL(E_FORMAT, "%s: tensor %s is %s; weights are F64, F32, BF16 or F16", path, e->name, e->dtype_name);
    return hf_check_axes(path, e, n_axes, shape);
}

static void add_found(struct import *m, const struct safetensors_entry *e, int *found) {
    if (e && *found < hf_files_n(m->files)) m->part[*found] = e;             /* true: no two parts are one tensor */
    if (e) ++*found;
}

/* Find the tensors of a weight. If there are several, they must have the same dtype. */
static enum status find_weight(struct import *m, int i, int *found) {
    const struct param *w = &m->program.params[i];
    const struct published *row;
    int layer;
    struct part first, part;
    TRY(row_at(m->kind, m->files, &m->program, i, &row, &layer));
    TRY(find_part(m, i, 0, &first));
    for (int j = 0; j < n_parts(row, &w->type.shape); j++) {
        TRY(find_part(m, i, j, &part));
        if (part.dtype != first.dtype)
            return FAIL(E_FORMAT, "%s: %s and %s are of different types", hf_files_path(m->files), first.at.entry->name,
                        part.at.entry->name);
        add_found(m, part.at.entry, found);
        add_found(m, part.scales.entry, found);
    }
    m->list[i] = (struct checkpoint_weight){w->name, w->type.shape, first.dtype};
    return OK;
}

static bool is_part(const struct import *m, int found, const struct safetensors_entry *e) {
    for (int i = 0; i < found && i < hf_files_n(m->files); i++)
        if (m->part[i] == e) return true;
    return false;
}

static enum status refuse_others(const struct import *m, int found) {
    int n_left_out = 0;
    for (int i = 0; i < hf_files_n(m->files); i++) {
        struct hf_tensor t = hf_files_at(m->files, i);
        bool extra, left_out = m->kind->is_left_out && m->kind->is_left_out(t.entry->name);
        TRY(hf_again_check(m->kind, m->files, &m->model, t, &extra));
        int layer = -1;
        bool taken = left_out || extra || is_part(m, found, t.entry);
        if (!taken && sscanf(t.entry->name, "model.layers.%9d.", &layer) == 1 && layer >= m->model.layers)
            return FAIL(E_FORMAT, "%s: tensor %.80s is of layer %d, and num_hidden_layers is %" PRId64 "; layers "
                        "behind these (num_nextn_predict_layers, multi-token prediction) are not read: leave their "
                        "tensors out of the file", hf_files_path(m->files), t.entry->name, layer, m->model.layers);
        if (!taken)
            return FAIL(E_FORMAT, "%s: tensor %.80s is none of a %s's of these sizes, or there twice; is config.json "
                        "its own?", hf_files_path(m->files), t.entry->name, m->kind->name);
        if (left_out && n_left_out++ == 0) log_info("%s: %s is left out", hf_files_path(m->files), t.entry->name);
    }
    if (n_left_out > 1) log_info("%s: %d more are left out likewise", hf_files_path(m->files), n_left_out - 1);
    return OK;
}

/* Read `bytes` bytes of a part's numbers, from byte `from` on. */
static enum status read_part(const struct import *m, const struct part *p, int64_t from, int64_t bytes, void *to) {
    const char *path = hf_files_path(m->files);
    int64_t size = (int64_t)dtype_size(p->dtype);
    if (p->scales.entry) return hf_blocks_read(path, p->at, p->scales, from / size, bytes / size, to);
    TRY(safetensors_read(p->at.file, p->at.entry, from, bytes, to));
    if (dtype_all_finite(to, p->dtype, bytes / size)) return OK;
    return FAIL(E_FORMAT, "%s: %s holds a number that is not finite", path, p->at.entry->name);
}

/* Copy a tensor. One of another order is permuted in memory, by itself for each index of a first axis that both orders
 * have; others are copied in pieces. */
static enum status copy_permuted(struct import *m, const struct part *p, const struct published *row,
                                 const struct shape *ours, int64_t bytes) {
    int axis[MAX_AXES];
    struct shape one = *ours;
    int64_t n = 1, size = (int64_t)dtype_size(p->dtype);
    (void)published_order(row, ours, axis);
    if (axis[0] == 0) n = ours->axis[0].n, one.axis[0] = axis_whole(ours->axis[0].tag, 1);
    bytes /= n;
    char *room = malloc((size_t)(2 * bytes));
    enum status status = room ? OK : FAIL(E_MEMORY, "no memory to permute %s, %" PRId64 " bytes at a time",
                                          p->at.entry->name, bytes);
    for (int64_t i = 0; i < n && status == OK; i++) {
        status = read_part(m, p, i * bytes, bytes, room);
        if (status == OK) published_permute(row, &one, true, room + bytes, room, size);
        if (status == OK) status = checkpoint_weights_append(m->writer, room + bytes, bytes);
    }
    free(room);
    return status;
}

static enum status copy_part(struct import *m, const struct part *p, int64_t bytes) {
    int64_t most = AT_A_TIME * (int64_t)dtype_size(p->dtype);
    for (int64_t at = 0; at < bytes; at += most) {
        int64_t now = bytes - at < most ? bytes - at : most;
        TRY(read_part(m, p, at, now, m->room));
        TRY(checkpoint_weights_append(m->writer, m->room, now));
    }
    return OK;
}

static enum status copy_all(struct import *m) {
    for (int i = 0; i < m->program.n_params; i++) {
        const struct shape *ours = &m->program.params[i].type.shape;
        const struct published *row;
        int layer, axis[MAX_AXES];
        TRY(row_at(m->kind, m->files, &m->program, i, &row, &layer));
        for (int j = 0; j < n_parts(row, ours); j++) {
            struct part p;
            TRY(find_part(m, i, j, &p));
            int64_t bytes = (p.at.entry->end - p.at.entry->begin) * (p.scales.entry ? 4 : 1);    /* codes: 4 bits */
            TRY(published_order(row, ours, axis) ? copy_permuted(m, &p, row, ours, bytes) : copy_part(m, &p, bytes));
        }
    }
    return OK;
}

static enum status read_sizes(struct import *m, int64_t heads) {
    char config[CHECKPOINT_PATH_MAX];
    TRY(hf_config_path(hf_files_path(m->files), config));
    if (m->kind->sizes_read) return m->kind->sizes_read(m->files, config, heads, &m->model);
    return m->kind->config_read(config, &m->model);
}

static enum status import(struct import *m, const char *path, int64_t heads, const char *save) {
    int found = 0;
    TRY(hf_files_open(path, &m->files));
    TRY(read_sizes(m, heads));
    TRY(build(m->kind, &m->model, &m->program));
    m->list = calloc((size_t)m->program.n_params, sizeof *m->list);
    m->part = calloc((size_t)hf_files_n(m->files) + 1, sizeof *m->part);
    if (!m->list || !m->part) return FAIL(E_MEMORY, "no memory for the list of %d weights", m->program.n_params);
    for (int i = 0; i < m->program.n_params; i++) TRY(find_weight(m, i, &found));
    TRY(refuse_others(m, found));
    TRY(checkpoint_weights_create(save, &m->model, m->list, m->program.n_params, &m->writer));
    TRY(copy_all(m));
    TRY(hf_tokens_keep(hf_files_path(m->files), m->model.vocab, checkpoint_weights_folder(m->writer)));
    return checkpoint_weights_finish(&m->writer);
}

enum status hf_weights_import(const struct hf_weights *kind, const char *path, int64_t heads, const char *save,
                              struct checkpoint_model *out) {
    if (heads && !kind->sizes_read)
        return FAIL(E_USAGE, "heads=%" PRId64 ", and config.json says the heads of a %s: leave it out", heads,
                    kind->name);
    struct import *m = calloc(1, sizeof *m);
    if (!m) return FAIL(E_MEMORY, "no memory to import %s", path);
    m->kind = kind;
    enum status status = import(m, path, heads, save);
    *out = m->model;
    if (m->writer) checkpoint_weights_abandon(&m->writer);
    hf_files_close(&m->files);
    program_fini(&m->program);
    free(m->list);
    free(m->part);
    free(m);
    return status;
}

/* ---- export ---- */

struct export {
    const struct hf_weights *kind;
    const struct checkpoint_reader *from;
    enum dtype dtype;
    bool untied;
    struct program program;
    struct safetensors_entry *entries;
    char (*names)[PUBLISHED_NAME_MAX];
    int n;
    struct hf_writer *writer;
};

static void add_entry(struct export *e, const struct published *row, const struct param *w, const char *name) {
    struct safetensors_entry *entry = &e->entries[e->n];
    snprintf(e->names[e->n], PUBLISHED_NAME_MAX, "%s", name);
    *entry = (struct safetensors_entry){.name = e->names[e->n++], .dtype = e->dtype};
    entry->n_axes = published_shape(row, &w->type.shape, entry->shape);
}

static enum status list_weight(struct export *e, int i) {
    const struct param *w = &e->program.params[i];
    const struct published *row;
    int layer;
    char name[PUBLISHED_NAME_MAX];
    TRY(row_at(e->kind, NULL, &e->program, i, &row, &layer));
    for (int j = 0; j < n_parts(row, &w->type.shape); j++) {
        name_of(row, j, layer, name);
        add_entry(e, row, w, name);
    }
    return OK;
}

/* The weight that export also writes under the name `a->name`; NULL: there is none. */
static const struct param *written_again(const struct export *e, const struct hf_again *a,
                                         const struct published **row) {
    int layer;
    for (int i = 0; i < e->program.n_params && a->when == HF_AGAIN_READ_IF_UNTIED && e->untied; i++)
        if (row_at(e->kind, NULL, &e->program, i, row, &layer) == OK && !strcmp((*row)->theirs[0], a->as))
            return &e->program.params[i];
    return NULL;
}

static enum status list_entries(struct export *e, int64_t experts) {
    size_t most = (size_t)e->program.n_params * PUBLISHED_PARTS * (size_t)(experts > 1 ? experts : 1) + HF_AGAIN_MAX;
    const struct published *row;
    e->entries = calloc(most, sizeof *e->entries);
    e->names = calloc(most, sizeof *e->names);
    if (!e->entries || !e->names) return FAIL(E_MEMORY, "no memory for the list of %d weights", e->program.n_params);
    for (int i = 0; i < e->program.n_params; i++) TRY(list_weight(e, i));
    for (const struct hf_again *a = e->kind->again; a && a->name; a++) {
        const struct param *w = written_again(e, a, &row);
        if (w) add_entry(e, row, w, a->name);
    }
    return OK;
}

static enum status write_weight(struct export *e, const struct param *w) {
    const struct shape *shape = &w->type.shape;
    int64_t size = (int64_t)dtype_size(e->dtype), bytes = type_n(&w->type) * size;
    const struct published *row;
    int layer, axis[MAX_AXES];
    TRY(row_at(e->kind, NULL, &e->program, (int)(w - e->program.params), &row, &layer));
    bool permuted = published_order(row, shape, axis);
    char *room = malloc((size_t)(permuted ? 2 * bytes : bytes));
    enum status status = room ? checkpoint_read_weight(e->from, w->name, shape, e->dtype, room)
                              : FAIL(E_MEMORY, "no memory for %s of %" PRId64 " bytes", w->name, bytes);
    if (status == OK && permuted) published_permute(row, shape, false, room + bytes, room, size);
    if (status == OK) status = hf_files_append(e->writer, permuted ? room + bytes : room, bytes);
    free(room);
    return status;
}

static enum status export(struct export *e, const char *path, int64_t shard_bytes) {
    char config[CHECKPOINT_PATH_MAX];
    struct checkpoint_model model = checkpoint_model_of(e->from);
    const struct published *row;
    e->untied = model.untied;
    TRY(e->kind->check(&model));
    TRY(hf_config_path(path, config));
    if (access(config, F_OK) == 0) return FAIL(E_IO, "%s is there already; give a file in a folder of its own", config);
    TRY(build(e->kind, &model, &e->program));
    if (e->dtype == N_DTYPES) {
        TRY(checkpoint_weight_dtype(e->from, e->program.params[0].name, &e->dtype));
        if (e->dtype != FP64) e->dtype = FP32;
    }
    TRY(list_entries(e, model.experts));
    TRY(hf_files_create(path, e->entries, e->n, shard_bytes, &e->writer));
    for (int i = 0; i < e->program.n_params; i++) TRY(write_weight(e, &e->program.params[i]));
    for (const struct hf_again *a = e->kind->again; a && a->name; a++) {
        const struct param *w = written_again(e, a, &row);
        if (w) TRY(write_weight(e, w));
    }
    TRY(hf_files_finish(&e->writer));
    return e->kind->config_write(config, &model, e->dtype);
}

enum status hf_weights_export(const struct hf_weights *kind, const struct checkpoint_reader *r, enum dtype dtype,
                              const char *path, int64_t shard_bytes) {
    struct export e = {.kind = kind, .from = r, .dtype = dtype};
    enum status status = export(&e, path, shard_bytes);
    if (e.writer) hf_files_abandon(&e.writer);
    program_fini(&e.program);
    free(e.entries);
    free(e.names);
    return status;
}

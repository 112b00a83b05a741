#include "models/gpt/gpt_weights.h"

#include "models/gpt/gpt.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

/* The model's params are in another order, but neighbors are near: the search continues where the last one ended. */
static const struct shape *shape_named(const struct program *p, const char *name, int *at) {
    for (int i = 0; i < p->n_params; i++, *at = (*at + 1) % p->n_params)
        if (!strcmp(p->params[*at].name, name)) return &p->params[*at].type.shape;
    return NULL;
}

/* Their matrix is transposed where it does not begin with our first axis. */
static enum status add_weight(struct gpt_weights *g, const struct program *p, const struct published *row,
                              int64_t layer, int *at) {
    struct gpt_weight w = {.row = row, .layer = layer};
    published_name(row->ours, layer, 0, w.name);
    const struct shape *shape = shape_named(p, w.name, at);
    if (!shape) return FAIL(E_INTERNAL, "the model has no weight %s, and gpt_published.c has", w.name);
    w.shape = *shape;
    w.n_axes = published_shape(row, shape, w.theirs);
    w.transposed = row->axes[0] != shape->axis[0].tag;
    w.columns = w.theirs[w.n_axes - 1 - w.transposed];
    w.rows = shape_n(shape) / w.columns;
    g->weight[g->n++] = w;
    return OK;
}

/* The table's rows of slots come after those of weights. */
static enum status add_all(struct gpt_weights *g, const struct program *p) {
    int at = 0;
    g->weight = calloc((size_t)p->n_params, sizeof *g->weight);
    if (!g->weight) return FAIL(E_MEMORY, "no memory for the list of %d weights", p->n_params);
    for (const struct published *row = gpt_published; g->n < p->n_params; row++)
        for (int64_t l = 0; l < (strchr(row->ours, '%') ? g->model.layers : 1); l++)
            TRY(add_weight(g, p, row, l, &at));
    return OK;
}

enum status gpt_weights_check(const struct checkpoint_model *m, const char *files) {
    if (m->untied)
        return FAIL(E_CONFIG,
                    "this gpt has a head of its own (tie=off), and %s are written with a tied one; train with tie=on",
                    files);
    if (m->ffn)
        return FAIL(E_CONFIG, "this gpt has ffn=%" PRId64 ", and %s are written with 4 x hidden, %" PRId64 "; train "
                    "with that", m->ffn, files, 4 * m->hidden);
    if (m->experts)
        return FAIL(E_CONFIG, "this gpt has experts=%" PRId64 ", and %s have none; train with arch=mixtral",
                    m->experts, files);
    return OK;
}

enum status gpt_weights_init(struct gpt_weights *g, const struct checkpoint_model *m) {
    struct plan plan = {.layers = m->layers, .hidden = m->hidden, .heads = m->heads, .seq = m->seq, .vocab = m->vocab,
                        .micro_batch = 1, .global_batch = 1};
    struct program p;
    model_options(&plan)->tie = 1;
    *g = (struct gpt_weights){.model = *m};
    program_init(&p);
    enum status status = gpt_build(&plan, &p);
    if (status == OK) status = add_all(g, &p);
    program_fini(&p);
    if (status != OK) gpt_weights_fini(g);
    return status;
}

void gpt_weights_fini(struct gpt_weights *g) {
    free(g->weight);
    *g = (struct gpt_weights){0};
}

/* ---- elements ---- */

enum { TILE = 32 };                      /* a tile of both matrices fits in the cache */

void gpt_transpose(void *to, const void *from, int64_t rows, int64_t columns, enum dtype dtype) {
    size_t size = dtype_size(dtype);
    char *t = to;
    const char *f = from;
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < columns; c0 += TILE)
            for (int64_t r = r0; r < rows && r < r0 + TILE; r++)
                for (int64_t c = c0; c < columns && c < c0 + TILE; c++)
                    memcpy(t + (size_t)(c * rows + r) * size, f + (size_t)(r * columns + c) * size, size);
}

static bool all_finite(const void *x, enum dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(dtype_get(x, dtype, i))) return false;
    return true;
}

static int64_t most_elements(const struct gpt_weights *g) {
    int64_t most = 0;
    for (int i = 0; i < g->n; i++)
        if (gpt_weight_n(&g->weight[i]) > most) most = gpt_weight_n(&g->weight[i]);
    return most;
}

/* A buffer for any one weight. */
static enum status make_room(const struct gpt_weights *g, enum dtype dtype, void **room) {
    size_t bytes = (size_t)most_elements(g) * dtype_size(dtype);
    *room = malloc(bytes);
    return *room ? OK : FAIL(E_MEMORY, "no memory for a weight of %zu bytes", bytes);
}

/* ---- import and export ---- */

static enum status copy_weights(const struct gpt_weights *g, const struct gpt_source *s, struct checkpoint_writer *w,
                                void *room) {
    for (int i = 0; i < g->n; i++) {
        enum dtype dtype = s->dtype(s, i);
        int64_t n = gpt_weight_n(&g->weight[i]);
        TRY(s->read(s, i, room));
        if (!all_finite(room, dtype, n))
            return FAIL(E_FORMAT, "%s: %s holds a number that is not finite", s->path, g->weight[i].name);
        TRY(checkpoint_weights_append(w, room, n * (int64_t)dtype_size(dtype)));
    }
    return OK;
}

static enum status create_checkpoint(const struct gpt_weights *g, const struct gpt_source *s, const char *save,
                                     struct checkpoint_writer **w) {
    struct checkpoint_weight *list = calloc((size_t)g->n, sizeof *list);
    if (!list) return FAIL(E_MEMORY, "no memory for the list of %d weights", g->n);
    for (int i = 0; i < g->n; i++) list[i] = (struct checkpoint_weight){g->weight[i].name, g->weight[i].shape,
                                                                        s->dtype(s, i)};
    enum status status = checkpoint_weights_create(save, &g->model, list, g->n, w);
    free(list);
    return status;
}

enum status gpt_weights_import(const struct gpt_weights *g, const struct gpt_source *s, const char *save) {
    struct checkpoint_writer *w = NULL;
    void *room = NULL;
    enum status status = make_room(g, FP64, &room);
    if (status == OK) status = create_checkpoint(g, s, save, &w);
    if (status == OK) status = copy_weights(g, s, w, room);
    free(room);
    if (status == OK) return checkpoint_weights_finish(&w);
    checkpoint_weights_abandon(&w);
    return status;
}

enum status gpt_weights_export(const struct gpt_weights *g, const struct checkpoint_reader *r, enum dtype dtype,
                               gpt_sink *sink, void *self) {
    void *room = NULL;
    TRY(make_room(g, dtype, &room));
    enum status status = OK;
    for (int i = 0; i < g->n && status == OK; i++) {
        status = checkpoint_read_weight(r, g->weight[i].name, &g->weight[i].shape, dtype, room);
        if (status == OK) status = sink(self, &g->weight[i], room);
    }
    free(room);
    return status;
}

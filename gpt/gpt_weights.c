#include "gpt/gpt_weights.h"

#include "gpt/gpt.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct gpt_weight_kind KINDS[] = {
    {"embed.wte", "wte.weight", 'C', false, false},
    {"embed.wpe", "wpe.weight", 'C', false, false},
    {"ln1.g", "ln_1.weight", 0, true, false},
    {"ln1.b", "ln_1.bias", 0, true, false},
    {"qkv.w", "attn.c_attn.weight", 'C', true, true},
    {"qkv.b", "attn.c_attn.bias", 0, true, false},
    {"proj.w", "attn.c_proj.weight", 'C', true, true},
    {"proj.b", "attn.c_proj.bias", 0, true, false},
    {"ln2.g", "ln_2.weight", 0, true, false},
    {"ln2.b", "ln_2.bias", 0, true, false},
    {"fc.w", "mlp.c_fc.weight", 'C', true, true},
    {"fc.b", "mlp.c_fc.bias", 0, true, false},
    {"fc2.w", "mlp.c_proj.weight", 'K', true, true},
    {"fc2.b", "mlp.c_proj.bias", 0, true, false},
    {"head.lnf.g", "ln_f.weight", 0, false, false},
    {"head.lnf.b", "ln_f.bias", 0, false, false},
};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

/* ---- the list ---- */

/* The model's params are in another order, but neighbors are near: the search continues where the last one ended. */
static const struct shape *shape_named(const struct program *p, const char *name, int *at) {
    for (int i = 0; i < p->n_params; i++, *at = (*at + 1) % p->n_params)
        if (!strcmp(p->params[*at].name, name)) return &p->params[*at].type.shape;
    return NULL;
}

static enum status add_weight(struct gpt_weights *g, const struct program *p, const struct gpt_weight_kind *kind,
                              int64_t layer, int *at) {
    struct gpt_weight *w = &g->weight[g->n++];
    *w = (struct gpt_weight){.kind = kind, .layer = layer};
    if (kind->in_layers) snprintf(w->name, sizeof w->name, "h%" PRId64 ".%s", layer, kind->ours);
    else snprintf(w->name, sizeof w->name, "%s", kind->ours);
    const struct shape *shape = shape_named(p, w->name, at);
    if (!shape) return FAIL(E_INTERNAL, "the model has no weight %s", w->name);
    w->shape = *shape;
    w->columns = kind->input == 'C' ? g->model.hidden : kind->input == 'K' ? 4 * g->model.hidden : shape_n(shape);
    w->rows = shape_n(shape) / w->columns;
    return OK;
}

static enum status add_all(struct gpt_weights *g, const struct program *p) {
    int at = 0;
    g->weight = calloc((size_t)p->n_params, sizeof *g->weight);
    if (!g->weight) return FAIL(E_MEMORY, "no memory for the list of %d weights", p->n_params);
    for (int k = 0; k < N_KINDS; k++)
        for (int64_t l = 0; l < (KINDS[k].in_layers ? g->model.layers : 1); l++) {
            if (g->n == p->n_params)
                return FAIL(E_INTERNAL, "the model has %d weights, and there are more in the list", p->n_params);
            TRY(add_weight(g, p, &KINDS[k], l, &at));
        }
    return g->n == p->n_params
               ? OK
               : FAIL(E_INTERNAL, "the model has %d weights, and %d are in the list", p->n_params, g->n);
}

enum status gpt_weights_check(const struct checkpoint_model *m, const char *files) {
    if (m->untied)
        return FAIL(E_CONFIG,
                    "this checkpoint was trained with tie=off, and %s have no head; train with tie=on to export",
                    files);
    if (m->experts)
        return FAIL(E_CONFIG, "this gpt has experts=%" PRId64 ", and %s have none; train with arch=mixtral to export",
                    m->experts, files);
    return OK;
}

enum status gpt_weights_init(struct gpt_weights *g, const struct checkpoint_model *m) {
    struct plan plan = {.layers = m->layers, .hidden = m->hidden, .heads = m->heads, .seq = m->seq, .vocab = m->vocab,
                        .micro_batch = 1, .global_batch = 1, .tie = 1};
    struct program p;
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

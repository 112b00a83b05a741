#include "models/gpt/gpt_weights.h"

#include "models/gpt/gpt.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The model has another order of params. The next name is close to the last one, so the search goes on from there. */
static const struct shape *shape_named(const struct program *p, const char *name, int *at) {
    for (int i = 0; i < p->n_params; i++, *at = (*at + 1) % p->n_params)
        if (!strcmp(p->params[*at].name, name)) return &p->params[*at].type.shape;
    return NULL;
}

static enum status add_weight(struct gpt_weights *g, const struct program *p, const char *pattern, int64_t layer,
                              int *at) {
    struct gpt_weight *w = &g->weight[g->n++];
    published_name(pattern, layer, 0, w->name);
    const struct shape *shape = shape_named(p, w->name, at);
    if (!shape) return FAIL(E_INTERNAL, "the model has no weight %s, and gpt_published.c has", w->name);
    w->shape = *shape;
    return OK;
}

/* gpt_published has weights first, then slots: the loop ends before the slots. */
static enum status add_all(struct gpt_weights *g, const struct program *p) {
    int at = 0;
    g->weight = calloc((size_t)p->n_params, sizeof *g->weight);
    if (!g->weight) return FAIL(E_MEMORY, "no memory for the list of %d weights", p->n_params);
    for (const struct published *row = gpt_published; g->n < p->n_params; row++)
        for (int64_t l = 0; l < (strchr(row->ours, '%') ? g->model.layers : 1); l++)
            TRY(add_weight(g, p, row->ours, l, &at));
    return OK;
}

enum status gpt_weights_check_dense(const struct checkpoint_model *m, const char *files) {
    if (!m->experts) return OK;
    return FAIL(E_CONFIG, "this gpt has experts=%" PRId64 ", and %s have none; train with arch=mixtral", m->experts,
                files);
}

enum status gpt_weights_check(const struct checkpoint_model *m, const char *files) {
    if (m->untied)
        return FAIL(E_CONFIG,
                    "this gpt has a head of its own (tie=off), and %s are written with a tied one; train with tie=on",
                    files);
    if (m->ffn)
        return FAIL(E_CONFIG, "this gpt has ffn=%" PRId64 ", and %s are written with 4 x hidden, %" PRId64 "; train "
                    "with that", m->ffn, files, 4 * m->hidden);
    return gpt_weights_check_dense(m, files);
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

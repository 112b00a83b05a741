#include "oracle/suspect.h"

#include "lib/checkpoint/safetensors.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most specific first. */
static const struct { const char *id; signature *fits; const char *what, *confirm; } SIGNATURES[] = {
    {"unsummed", suspect_unsummed, "parts that were never summed: the all-reduce over these ranks is missing",
     "sum it over the ranks by hand, and compare again"},
    {"unaveraged", suspect_unaveraged, "each rank has what its own samples say: the mean over ranks is missing",
     "is this parameter, or this microbatch, left out of the synchronisation?"},
    {"untied", suspect_untied, "the head and the embedding are two parameters, and should be one",
     "are they the same object in every process that has them?"},
    {"one rank", suspect_one_rank, "some ranks are right", "look at what this rank does differently"},
    {"zero", suspect_zero, "never computed, or not reached by backward", "does this parameter require a gradient?"},
    {"stale", suspect_stale, "not updated, or gathered before the update",
     "is it in the optimizer's groups; is the gather after the step?"},
    {"norm counts", suspect_norm_counts, "the norm is not a sum over each element once",
     "shards are summed over ranks, replicas counted on one of them"},
    {"unclipped", suspect_unclipped, "gradients reach the optimizer as they were before clipping",
     "are the clipped gradients those that the optimizer reads?"},
    {"coupled decay", suspect_coupled_decay, "Adam with L2, not AdamW", "torch.optim.AdamW, or adamw_mode on"},
    {"decay", suspect_decay, "weight decay on the wrong parameters", "which group of the optimizer is it in?"},
    {"rate", suspect_rate, "another learning rate", "print it just before the optimizer's step"},
    {"bias correction", suspect_bias_correction, "Adam without its correction", "the optimizer's bias_correction"},
    {"epsilon", suspect_epsilon, "another epsilon, or in another place", "the optimizer's eps"},
    {"ratio", suspect_ratio, "summed for averaged, averaged twice, or counted more than once",
     "which divisor has this number: ranks, microbatches, tokens?"},
    {"dropout", suspect_dropout, "dropout is on", "model.eval(), or probabilities of 0"},
    {"constant vector", suspect_constant_vector, "a bias that is added once by each of several ranks, or not at all",
     "the bias of a row-parallel layer belongs to the sum, not to each part"},
    {"shifted", suspect_shifted, "off by one", "compare the first and the last place"},
    {"transposed", suspect_transposed, "a matrix that was transposed, or not", "(in, out) or (out, in)?"},
    {"permuted", suspect_permuted, "another order: heads, experts, or the halves of a fused matrix",
     "compare the order in which parts are put together"},
    {"positions", suspect_positions, "mask or positions", "where does this rank's part of the sequence begin?"},
    {"region", suspect_region, "one part of it", "which rank, expert or padding has this part?"},
};
enum { N_SIGNATURES = sizeof SIGNATURES / sizeof *SIGNATURES };

int suspect_all(const struct evidence *e, struct suspicion out[MAX_SUSPECTS]) {
    int n = 0;
    for (int i = 0; i < N_SIGNATURES && n < MAX_SUSPECTS; i++) {
        out[n] = (struct suspicion){SIGNATURES[i].id, SIGNATURES[i].what, SIGNATURES[i].confirm, ""};
        n += SIGNATURES[i].fits(e, out[n].detail);
    }
    return n;
}

/* ---- of a check ---- */
/* Read a starting weight from the reference's model/. If it is not there, e->before stays empty. */
static void read_start(const struct check *k, struct evidence *e) {
    char path[RECORDING_PATH_MAX];
    struct safetensors *f;
    size_t n = strlen(e->c.name) - strlen(".param");
    snprintf(path, sizeof path, "%s/model/model.safetensors", k->reference.folder);
    if (safetensors_open(path, &f) != OK) return;
    for (int i = 0; i < safetensors_n(f); i++) {
        const struct safetensors_entry *entry = safetensors_at(f, i);
        if (strlen(entry->name) != n || strncmp(entry->name, e->c.name, n) || entry->dtype != FP64) continue;
        e->before.n = (entry->end - entry->begin) / 8;
        e->before.x = malloc((size_t)(entry->end - entry->begin));
        if (e->before.x && safetensors_read(f, entry, 0, entry->end - entry->begin, e->before.x) != OK)
            whole_fini(&e->before);
    }
    safetensors_close(&f);
}

/* Read the tensor as it was a step before; for a moment the weight instead, because of weight decay. */
static void read_before(const struct check *k, struct evidence *e) {
    struct kept before = {0};
    char name[PUBLISHED_NAME_MAX + 16];
    const char *dot = strrchr(e->c.name, '.');
    bool moment = dot && !strncmp(dot, ".moment", 7);
    snprintf(name, sizeof name, "%.*s%s", (int)(moment ? dot - e->c.name : (int)strlen(e->c.name)), e->c.name,
             moment ? ".param" : "");
    struct evidence of = {.c = {.name = name}};
    if (e->c.step == 1 && strlen(name) > 6 && !strcmp(name + strlen(name) - 6, ".param")) read_start(k, &of);
    else if (e->c.step > 1 && recording_read(&k->reference, e->c.step - 1, &before) == OK)
        (void)kept_whole(&before, name, &of.before);
    e->before = of.before;
    if (e->before.n != e->y.n) whole_fini(&e->before);
    kept_fini(&before);
    status_clear();
}

static int count_ranks(const struct kept *k) {
    int most = 0;
    for (int i = 0; i < k->n; i++)
        if (k->piece[i].rank > most) most = k->piece[i].rank;
    return most + 1;
}

static enum status gather(const struct check *k, struct evidence *e) {
    struct whole clip;
    TRY(recording_read(&k->run, e->c.step, e->run));
    TRY(recording_read(&k->reference, e->c.step, e->reference));
    TRY(kept_whole(e->run, e->c.name, &e->x));
    TRY(kept_whole(e->reference, e->c.name, &e->y));
    e->adamw = json_object_get(k->reference.head, "optimizer");
    e->ranks = count_ranks(e->run);
    double most = 0;
    for (int64_t i = 0; i < e->y.n; i++) most = fmax(most, fabs(e->y.x[i]));
    e->limit = CHECK_FACTOR * e->c.scale * (most > 0 ? most : 1);
    e->clip_factor = kept_whole(e->reference, "clip_factor", &clip) == OK ? clip.x[0] : 1;
    whole_fini(&clip);
    status_clear();
    read_before(k, e);
    return OK;
}

enum status suspect_first(const struct check *k, struct suspicion out[MAX_SUSPECTS], int *n) {
    struct kept run = {0}, reference = {0};
    struct evidence e = {.c = k->row[k->first], .run = &run, .reference = &reference};
    *n = 0;
    enum status status = gather(k, &e);
    bool comparable = e.c.verdict == TENSOR_WRONG || e.c.verdict == TENSOR_APART;
    if (status == OK && comparable) *n = suspect_all(&e, out);
    whole_fini(&e.x);
    whole_fini(&e.y);
    whole_fini(&e.before);
    kept_fini(&run);
    kept_fini(&reference);
    return status;
}

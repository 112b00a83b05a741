#include "oracle/suspect.h"

#include "oracle/causes/causes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most specific first. */
static const struct { const char *id; signature *fits; const char *what, *confirm; } SIGNATURES[] = {
    {"wrong group", suspect_group, "it was summed over other ranks than it should be",
     "print the ranks of the group that this all-reduce is given"},
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
    {"stale weights", suspect_stale_weights, "forward has weights of the step before",
     "does this rank wait for the gather or broadcast that follows the update?"},
    {"own norms", suspect_own_norms, "each rank has the norm of its own parts", "are their squares summed over ranks?"},
    {"accumulated", suspect_accumulated, "gradients of the step before are added", "are all buffers zeroed each step?"},
    {"mean of means", suspect_mean_of_means, "each part's mean has the same weight, whatever the number of its tokens",
     "divide the sum over all ranks and microbatches by the number of their targets"},
    {"counted logits", suspect_counted_logits, "each term of the softmax is counted by several ranks",
     "are logits gathered, and summed over the ranks of the vocabulary again?"},
    {"norm counts", suspect_norm_counts, "the norm is not a sum over each element once",
     "shards are summed over ranks, replicas counted on one of them"},
    {"norm counts", suspect_norm_of_family, "the norm is not a sum over each element once",
     "are these parameters in the list that the norm is taken of, and once?"},
    {"unclipped", suspect_unclipped, "gradients reach the optimizer as they were before clipping",
     "are the clipped gradients those that the optimizer reads?"},
    {"begun again", suspect_begun_again, "the optimizer's state was lost", "is it in the checkpoint, and loaded?"},
    {"coupled decay", suspect_coupled_decay, "Adam with L2, not AdamW", "torch.optim.AdamW, or adamw_mode on"},
    {"decay", suspect_decay, "weight decay on the wrong parameters", "which group of the optimizer is it in?"},
    {"rate", suspect_rate, "another learning rate", "print it just before the optimizer's step"},
    {"rate", suspect_other_step, "another learning rate", "does the scheduler step before the optimizer, or after?"},
    {"bias correction", suspect_bias_correction, "Adam without its correction", "the optimizer's bias_correction"},
    {"epsilon", suspect_epsilon, "another epsilon, or in another place", "the optimizer's eps"},
    {"betas", suspect_betas, "another beta of Adam", "print the betas of the optimizer's groups"},
    {"ratio", suspect_ratio, "summed for averaged, averaged twice, or counted more than once",
     "which divisor has this number: ranks, microbatches, tokens?"},
    {"rounded", suspect_rounded, "it went through a narrower type", "in which type is it reduced, sent or kept?"},
    {"dropout", suspect_dropout, "dropout is on", "model.eval(), or probabilities of 0"},
    {"unmasked rows", suspect_unmasked_rows, "rows for other ranks' tokens are not 0", "the mask of the embedding"},
    {"constant vector", suspect_constant_vector, "a bias that is added once by each of several ranks, or not at all",
     "the bias of a row-parallel layer belongs to the sum, not to each part"},
    {"shifted", suspect_shifted, "off by one", "compare the first and the last place"},
    {"transposed", suspect_transposed, "a matrix that was transposed, or not", "(in, out) or (out, in)?"},
    {"permuted", suspect_permuted, "another order: heads, experts, or the halves of a fused matrix",
     "compare the order in which parts are put together"},
    {"other samples", suspect_other_samples, "it has read others", "which samples does the loader give each rank?"},
    {"token by token", suspect_by_token, "each token's vector has a factor of its own",
     "the epsilon of this norm, the channels of its mean, or a weight of each token"},
    {"scores", suspect_scores, "mask, rotary angles, or the scores' scale", "compare the scores at position 1"},
    {"positions", suspect_positions, "mask, positions, or the sum of an attention's parts",
     "where does this rank's part of the sequence begin, and what weight has it?"},
    {"region", suspect_region, "one part of it", "which rank, expert or padding has this part?"},
};
enum { N_SIGNATURES = sizeof SIGNATURES / sizeof *SIGNATURES };

/* Noise that takes a tensor little beyond its limit is within the limit of much else, too. So a relation must explain
 * three quarters of the error. */
static double limit_of_relations(const struct evidence *e) {
    double error = 0;
    for (int64_t i = 0; i < e->y.n && e->c.verdict == TENSOR_WRONG; i++)
        error = fmax(error, fabs(e->x.x[i] - e->y.x[i]));
    return error > 0 ? fmin(e->limit, error / 4) : e->limit;
}

int suspect_all(const struct evidence *of, struct suspicion out[MAX_SUSPECTS]) {
    struct evidence e = *of;
    int n = 0;
    e.limit = limit_of_relations(of);
    for (int i = 0; i < N_SIGNATURES && n < MAX_SUSPECTS; i++) {
        out[n] = (struct suspicion){SIGNATURES[i].id, SIGNATURES[i].what, SIGNATURES[i].confirm, ""};
        n += SIGNATURES[i].fits(&e, out[n].detail);
    }
    return n;
}

/* ---- of a check ---- */
static void read_step(const struct check *k, int64_t step, struct kept *out) {
    if (step >= 0) (void)recording_read(&k->reference, step, out);
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
    const char *dot = strrchr(e->c.name, '.');
    TRY(recording_read(&k->run, e->c.step, e->run));
    TRY(recording_read(&k->reference, e->c.step, e->reference));
    TRY(kept_whole(e->run, e->c.name, &e->x));
    TRY(kept_whole(e->reference, e->c.name, &e->y));
    e->adamw = json_object_get(k->reference.head, "optimizer");
    e->ranks = count_ranks(e->run), e->dtype = k->run.dtype;
    double most = 0;
    for (int64_t i = 0; i < e->y.n; i++) most = fmax(most, fabs(e->y.x[i]));
    e->limit = CHECK_FACTOR * e->c.scale * (most > 0 ? most : 1);
    e->clip_factor = kept_sibling(e->reference, "clip_factor", NULL, &clip) ? clip.x[0] : 1;
    whole_fini(&clip);
    read_step(k, e->c.step - 1, e->last);
    read_step(k, e->c.step - 2, e->older);
    /* a moment's is the weight, because of weight decay */
    kept_sibling(e->last, e->c.name, dot && !strncmp(dot, ".moment", 7) ? ".param" : NULL, &e->before);
    if (e->before.n != e->y.n) whole_fini(&e->before);
    return OK;
}

enum status suspect_first(const struct check *k, struct suspicion out[MAX_SUSPECTS], int *n) {
    struct kept of[4] = {{0}};
    struct evidence e = {.c = k->row[k->first], .run = of, .reference = of + 1, .last = of + 2, .older = of + 3,
                         .calls = &k->calls};
    *n = 0;
    enum status status = gather(k, &e);
    bool comparable = e.c.verdict == TENSOR_WRONG || e.c.verdict == TENSOR_APART;
    if (status == OK && comparable) *n = suspect_all(&e, out);
    whole_fini(&e.x);
    whole_fini(&e.y);
    whole_fini(&e.before);
    for (int i = 0; i < 4; i++) kept_fini(&of[i]);
    return status;
}

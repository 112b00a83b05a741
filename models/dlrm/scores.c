#include "models/dlrm/scores.h"

#include <stdlib.h>

static enum status make_room(struct scores **s, int64_t n) {
    int64_t used = *s ? (*s)->n : 0, had = *s ? (*s)->room : 0, room = 2 * had > used + n ? 2 * had : used + n;
    if (had >= used + n) return OK;
    struct scores *bigger = realloc(*s, sizeof *bigger + (size_t)room * sizeof *bigger->at);
    if (!bigger) return FAIL(E_MEMORY, "no memory for the scores of an evaluation; lower --eval-batches");
    bigger->n = used, bigger->room = room;
    *s = bigger;
    return OK;
}

enum status scores_add(struct scores **scores, const void *logits, enum dtype dtype, const int32_t *labels, int64_t n) {
    TRY(make_room(scores, n));
    struct scores *s = *scores;
    for (int64_t i = 0; i < n; i++)
        if (labels[i] >= 0) s->at[s->n++] = (struct score){dtype_get(logits, dtype, i), labels[i]};
    return OK;
}

/* Ranks may have remembered different numbers: filled up with labels below 0, which are left out again. */
static enum status gather(const struct scores *s, const struct group *group, int64_t each, struct score *own,
                          struct score *all, double *auc) {
    int64_t n = 0;
    for (int64_t i = 0; i < each; i++) own[i] = s && i < s->n ? s->at[i] : (struct score){0, -1};
    TRY(comm_all_gather(group, own, all, each * (int64_t)(sizeof *own / sizeof(double)), FP64));
    for (int64_t i = 0; i < each * group_size(group); i++)
        if (all[i].label >= 0) all[n++] = all[i];
    *auc = auc_of(all, n);
    return OK;
}

enum status scores_auc(const struct scores *s, const struct group *group, double *auc) {
    double most = s ? (double)s->n : 0;
    TRY(comm_all_reduce(group, &most, 1, FP64, COMM_MAX));
    size_t each = (size_t)most;
    struct score *own = malloc((each + 1) * sizeof *own);
    struct score *all = malloc((each * (size_t)group_size(group) + 1) * sizeof *all);
    enum status status = own && all ? gather(s, group, (int64_t)each, own, all, auc)
                                    : FAIL(E_MEMORY, "no memory for the scores of an evaluation; lower --eval-batches");
    free(own);
    free(all);
    return status;
}

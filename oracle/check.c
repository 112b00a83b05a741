#include "oracle/check.h"

#include "lib/base/grow.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static enum status compare(struct check *k, struct kept *run, struct kept *reference, struct checked *c) {
    struct whole x, y = {.x = NULL};
    const double *slack = NULL;
    int first;
    c->verdict = TENSOR_NOT_RECORDED;
    if (kept_find(run, c->name, &first) == 0) return OK;
    enum status status = kept_whole(run, c->name, &x);
    if (status == OK) status = kept_whole(reference, c->name, &y);
    if (status == OK) status = check_slack(k, reference, c, &slack);
    if (status == OK) verdict_of(&x, &y, slack, c);
    whole_fini(&x);
    whole_fini(&y);
    return status;
}

static enum status compare_step(struct check *k, int64_t step) {
    struct kept run = {0}, reference = {0};
    json_t *order = json_object_get(k->reference.head, "order"), *entry;
    size_t i;
    enum status status = recording_read(&k->run, step, &run);
    if (status == OK) status = recording_read(&k->reference, step, &reference);
    json_array_foreach(order, i, entry) {
        struct checked c = {.step = step, .name = json_string_value(json_object_get(entry, "name")),
                            .phase = json_string_value(json_object_get(entry, "phase"))};
        if (status != OK) break;
        c.scale = scale_of(k->scale, step, c.name);
        if (isnan(c.scale))
            status = FAIL(E_FORMAT, "%s has no scale for %s of step %" PRId64, k->reference.folder, c.name, step);
        else status = compare(k, &run, &reference, &c);
        k->row = table_grow(k->row, k->n, sizeof *k->row);
        k->row[k->n++] = c;
    }
    kept_fini(&run);
    kept_fini(&reference);
    return status;
}

/* The order comes from a file: every entry must name a tensor, and a known phase. */
static enum status check_order(const char *folder, const json_t *order) {
    static const char *const PHASES[] = {"forward", "loss", "backward", "norm", "update"};
    json_t *entry;
    size_t i;
    json_array_foreach(order, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *phase = json_string_value(json_object_get(entry, "phase"));
        bool known = false;
        for (size_t k = 0; phase && k < sizeof PHASES / sizeof *PHASES; k++) known |= !strcmp(phase, PHASES[k]);
        if (!name || !known)
            return FAIL(E_FORMAT, "%s: entry %zu of order has name %.80s and phase %.20s; give a tensor's name, and "
                                  "forward, loss, backward, norm or update",
                        folder, i, name ? name : "(none)", phase ? phase : "(none)");
    }
    return OK;
}

enum status check_recordings(const char *run, const char *reference, struct check *k) {
    *k = (struct check){.first = -1};
    TRY(recording_open(run, &k->run));
    TRY(recording_open(reference, &k->reference));
    if (!json_is_array(json_object_get(k->reference.head, "order")))
        return FAIL(E_DATA,
                    "%s is a recording, and no reference: it does not say in which order tensors are made; give the "
                    "run first and the reference second, which oracle record makes of a single rank in fp64",
                    reference);
    TRY(check_order(reference, json_object_get(k->reference.head, "order")));
    TRY(scale_read(reference, k->run.dtype, &k->scale));
    int64_t steps = k->run.steps < k->reference.steps ? k->run.steps : k->reference.steps;
    for (int64_t step = 1; step <= steps; step++) TRY(compare_step(k, step));
    k->first = verdict_first(k->row, k->n, &k->n_compared, &k->n_wrong);
    TRY(calls_check(run, &k->calls));
    if (k->n_compared == 0)
        return FAIL(E_DATA, "%s and %s have no tensor in common; see docs/oracle-format.md for the names", run,
                    reference);
    return OK;
}

void check_close(struct check *k) {
    recording_close(&k->run);
    recording_close(&k->reference);
    json_decref(k->scale);
    check_slack_fini(k);
    calls_close(&k->calls);
    free(k->row);
    *k = (struct check){.n = 0};
}

/* ranks: 2 4  device: cpu
 *
 * Checkpoints of replicas that train apart, saved at an average. The same layout resumes to the bit, with outer
 * momentum and every replica's moments. Another layout of as many replicas resumes to rounding. Another number of
 * replicas, or plain dp, takes the mean of the moments. Between two averages saving fails. */
#include "dp_variants/local/local.h"
#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/comm/comm.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

static void *outer_of(const struct param *w) {
    const struct param_array *a = param_array(w, "outer momentum");
    return a ? a->at : NULL;
}

enum { H = 2, BEFORE = 2 * H, AFTER = 2 * H };

static struct plan plan_of(int dp, int tp) {
    struct plan p = parity_plan();
    p.layers = 2;
    p.steps = BEFORE + AFTER;
    p.mesh.dp = dp, p.mesh.tp = tp;
    p.micro_batch = 2;
    *local_options(&p) = (struct local_options){H, 0, 0.7, 0.9};
    return p;
}

static void shared_path(const char *name, char path[CHECKPOINT_PATH_MAX]) {
    snprintf(path, CHECKPOINT_PATH_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, CHECKPOINT_PATH_MAX, UINT8, 0);
}

static enum status steps(struct run *r, int n, double *losses) {
    for (int i = 0; i < n; i++) {
        TRY(run_step(r));
        if (losses) losses[i] = r->last.loss;
    }
    return OK;
}

static enum status resume(struct run *r, struct plan p, const char *folder) {
    char step[CHECKPOINT_PATH_MAX];
    TRY(layout_open(r, p, WATCH_NOTHING));
    TRY(checkpoint_resolve(folder, step));
    return checkpoint_load(r, step, CHECKPOINT_ALL);
}

/* A hash of all arrays that this rank updates. */
static uint64_t bits_of(const struct run *r) {
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        const void *arrays[] = {w->weight, param_state(w, 0), param_state(w, 1), outer_of(w)};
        for (size_t a = 0; a < sizeof arrays / sizeof *arrays && arrays[a]; a++)
            for (int64_t k = 0; k < w->own_n * (int64_t)sizeof(double); k++)
                h = (h ^ ((const unsigned char *)arrays[a])[k]) * 1099511628211u;
    }
    return h;
}

struct told { double loss[AFTER]; uint64_t bits; };

static enum status save_and_go_on(struct plan p, const char *folder, struct told *out) {
    struct run r;
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    if (status == OK) status = steps(&r, BEFORE, NULL);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = steps(&r, AFTER, out->loss);
    if (status == OK) out->bits = bits_of(&r);
    run_destroy(&r);
    return status;
}

static enum status take_and_go_on(struct plan p, const char *folder, struct told *out) {
    struct run r;
    enum status status = resume(&r, p, folder);
    if (status == OK) status = steps(&r, AFTER, out->loss);
    if (status == OK) out->bits = bits_of(&r);
    run_destroy(&r);
    return status;
}

TEST(test_the_same_layout_goes_on_to_the_bit) {
    char folder[CHECKPOINT_PATH_MAX];
    struct told whole, again;
    for (int tp = 1; tp <= 2 && 2 * tp <= comm_world_size(); tp++) {
        struct plan p = plan_of(comm_world_size() / tp, tp);
        shared_path(tp == 1 ? "dp" : "dp-tp", folder);
        assert_true(agree_all(save_and_go_on(p, folder, &whole) == OK));
        assert_true(agree_all(take_and_go_on(p, folder, &again) == OK));
        assert_true(agree_all(!memcmp(whole.loss, again.loss, sizeof whole.loss)));
        assert_true(agree_all(whole.bits == again.bits));
    }
}

/* The same number of replicas, each in another layout. */
TEST(test_another_layout_of_as_many_replicas_goes_on) {
    if (comm_world_size() < 4) skip();
    char folder[CHECKPOINT_PATH_MAX];
    struct told whole, again;
    struct plan tp = plan_of(2, 2), pp = plan_of(2, 1);
    pp.mesh.pp = 2;
    shared_path("tp", folder);
    assert_true(agree_all(save_and_go_on(tp, folder, &whole) == OK));
    assert_true(agree_all(take_and_go_on(pp, folder, &again) == OK));
    for (int i = 0; i < AFTER; i++) assert_close(again.loss[i] / whole.loss[i], 1, 1e-10);
}

/* ---- another number of replicas: the mean of the moments ---- */
/* x: a moment of a param. With tp 1 every rank has all of its elements. */
static enum status mean_over_replicas(const double *x, int64_t n, double *mean) {
    memcpy(mean, x, (size_t)n * sizeof *x);
    TRY(comm_all_reduce(group_world(), mean, n, FP64, COMM_SUM));
    for (int64_t k = 0; k < n; k++) mean[k] /= comm_world_size();
    return OK;
}

static double distance(const double *a, const double *b, int64_t n) {
    double d = 0, most = 0;
    for (int64_t k = 0; k < n; k++) d = fmax(d, fabs(a[k] - b[k])), most = fmax(most, fabs(b[k]));
    return most > 0 ? d / most : d;
}

struct kept { double *moment1, *moment2, *u, *own; };

/* Keep the state that every rank must load. own: this replica's first moment, which is not the mean. */
static enum status keep(const struct run *r, struct kept *all) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        size_t bytes = (size_t)w->own_n * sizeof(double);
        all[i] = (struct kept){malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes)};
        TRY(mean_over_replicas(param_state(w, 0), w->own_n, all[i].moment1));
        TRY(mean_over_replicas(param_state(w, 1), w->own_n, all[i].moment2));
        memcpy(all[i].u, outer_of(w), bytes);
        memcpy(all[i].own, param_state(w, 0), bytes);
    }
    return OK;
}

static bool has_the_means(const struct run *r, const struct kept *all) {
    bool ok = true;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        ok &= distance(param_state(w, 0), all[i].moment1, w->own_n) < 1e-14;
        ok &= distance(param_state(w, 1), all[i].moment2, w->own_n) < 1e-14;
        if (r->program.n_apart) ok &= distance(outer_of(w), all[i].u, w->own_n) == 0;
    }
    return ok;
}

TEST(test_other_replicas_take_the_mean_of_the_moments) {
    char folder[CHECKPOINT_PATH_MAX];
    struct run r, other;
    struct kept all[MAX_PARAMS] = {{0}};
    struct plan p = plan_of(comm_world_size(), 1), plain = p, halved = plan_of(comm_world_size() / 2, 1);
    *local_options(&plain) = (struct local_options){0, 0, 1, 0};
    halved.mesh.cp = 2;
    shared_path("mean", folder);
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    if (status == OK) status = steps(&r, BEFORE, NULL);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = keep(&r, all);
    int n = r.program.n_params;
    const struct param *w = &r.program.params[0];
    bool differ = status == OK && distance(param_state(w, 0), all[0].moment1, w->own_n) > 1e-3;
    run_destroy(&r);
    assert_ok(status);
    assert_true(agree_all(differ));
    status = resume(&other, plain, folder);
    bool mean = status == OK && has_the_means(&other, all);
    run_destroy(&other);
    assert_true(agree_all(mean));
    if (comm_world_size() >= 4) {                                    /* from n replicas to n / 2 */
        status = resume(&other, halved, folder);
        mean = status == OK && has_the_means(&other, all);
        run_destroy(&other);
        assert_true(agree_all(mean));
    }
    for (int i = 0; i < n; i++) free(all[i].moment1), free(all[i].moment2), free(all[i].u), free(all[i].own);
}

/* From a plain run's checkpoint replicas begin with equal weights, and without outer momentum. */
TEST(test_it_begins_from_a_plain_checkpoint) {
    char folder[CHECKPOINT_PATH_MAX];
    struct told whole;
    struct run r;
    struct plan p = plan_of(comm_world_size(), 1), plain = p;
    *local_options(&plain) = (struct local_options){0, 0, 1, 0};
    shared_path("plain", folder);
    assert_true(agree_all(save_and_go_on(plain, folder, &whole) == OK));
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    if (status == OK) status = steps(&r, H, NULL);                   /* makes outer momentum, which loading clears */
    char step[CHECKPOINT_PATH_MAX];
    if (status == OK) status = steps(&r, 1, NULL);
    bool apart = r.apart;
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    bool ok = status == OK && apart && !r.apart;
    for (int i = 0; i < r.program.n_params && ok; i++)
        for (int64_t k = 0; k < r.program.params[i].own_n; k++)
            ok &= ((double *)outer_of(&r.program.params[i]))[k] == 0;
    double loss = 0;
    if (ok) ok = steps(&r, 1, &loss) == OK && fabs(loss / whole.loss[0] - 1) < 1e-10;   /* the same weights */
    run_destroy(&r);
    assert_true(agree_all(ok));
}

TEST(test_nothing_is_saved_between_two_averages) {
    char folder[CHECKPOINT_PATH_MAX];
    struct run r;
    shared_path("between", folder);
    enum status status = layout_open(&r, plan_of(comm_world_size(), 1), WATCH_NOTHING);
    if (status == OK) status = steps(&r, 1, NULL);
    enum status saved = status == OK ? checkpoint_save(&r, folder, 0) : OK;
    bool says = strstr(status_message(), "differ until they average") != NULL;
    status_clear();
    if (status == OK) status = steps(&r, H - 1, NULL);
    enum status later = status == OK ? checkpoint_save(&r, folder, 0) : status;
    run_destroy(&r);
    assert_true(agree_all(saved == E_INTERNAL && says));
    assert_true(agree_all(later == OK));
}

TESTS(unit_test(test_the_same_layout_goes_on_to_the_bit),
      unit_test(test_another_layout_of_as_many_replicas_goes_on),
      unit_test(test_other_replicas_take_the_mean_of_the_moments), unit_test(test_it_begins_from_a_plain_checkpoint),
      unit_test(test_nothing_is_saved_between_two_averages))

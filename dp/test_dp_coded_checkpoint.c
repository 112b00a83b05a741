/* ranks: 2 4  device: cpu
 *
 * Residuals of error feedback in checkpoints. In the same layout training continues with the same bits. In another
 * layout the sum of the residuals over all ranks is the same. The copy of --save-async has the planned size. */
#include "dp/dp.h"
#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint_save.h"
#include "lib/checkpoint/checkpoint_terms.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <math.h>

enum { BEFORE = 2, AFTER = 2 };

static void shared_path(const char *name, char path[CHECKPOINT_PATH_MAX]) {
    snprintf(path, CHECKPOINT_PATH_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, CHECKPOINT_PATH_MAX, UINT8, 0);
}

static struct plan plan_of(enum codec_kind codec, enum plan_feedback feedback) {
    struct plan plan = parity_plan();
    struct grad_options *g = grad_options(&plan);
    plan.layers = 2;
    plan.hidden = 24;                                                /* gaps between gradients */
    plan.precision = PRECISION_FP32;
    plan.mesh.dp = comm_world_size();
    plan.micro_batch = 1;
    g->bucket_mb = 0.008;
    g->codec = codec;
    g->feedback = feedback;
    if (codec == CODEC_TOPK) g->topk = 5;
    return plan;
}

/* A layout of fewer ranks leaves the others idle. */
static bool is_used(const struct run *r) { return comm_world_rank() < plan_ranks(&r->plan); }

static enum status open_run(struct run *r, struct plan p) {
    memset(r, 0, sizeof *r);
    TRY(plan_settle(&p, (int)p.mesh.dp));
    p.threads = 1;
    r->plan = p;
    if (comm_world_rank() >= plan_ranks(&p)) return run_idle(r, &p);
    TRY(run_compile(r, &train_recipe, &p, comm_world_rank(), NULL, NULL));
    TRY(run_open(r, WATCH_PEAKS));
    return layout_use_demo(r);
}

static enum status steps(struct run *r, int n) {
    for (int i = 0; i < n; i++) TRY(run_step(r));
    return OK;
}

/* A hash of the state that a step leaves to the next: weights and residuals. */
static uint64_t hash_of(const struct run *r) {
    uint64_t h = 1469598103934665603u;
    struct rank_term t;
    for (int i = 0; i < r->program.n_params; i++)
        for (int64_t k = 0, n = type_bytes(&r->program.params[i].type); k < n; k++)
            h = (h ^ ((const unsigned char *)r->program.params[i].weight)[k]) * 1099511628211u;
    for (int i = 0; checkpoint_term(r, i, &t); i++)
        for (int64_t k = 0; k < t.piece.n * (int64_t)sizeof(float); k++)
            h = (h ^ ((const unsigned char *)t.at)[k]) * 1099511628211u;
    return h;
}

/* ---- the same layout ---- */
static enum status go_on(const char *folder, struct plan p, uint64_t *hash) {
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    enum status status = open_run(&r, p);
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK) status = steps(&r, AFTER);
    if (status == OK) *hash = hash_of(&r);
    run_destroy(&r);
    return status;
}

static bool goes_on_with_the_same_bits(enum codec_kind codec) {
    char folder[CHECKPOINT_PATH_MAX];
    uint64_t expected = 0, found = 1;
    struct run r;
    shared_path(codec_name(codec), folder);
    enum status status = open_run(&r, plan_of(codec, FEEDBACK_ON));
    if (status == OK) status = steps(&r, BEFORE);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = steps(&r, AFTER);
    if (status == OK) expected = hash_of(&r);
    run_destroy(&r);
    if (status == OK) status = go_on(folder, plan_of(codec, FEEDBACK_ON), &found);
    if (status != OK) print_error("%s: %s\n", codec_name(codec), status_text());
    return agree_all(status == OK && found == expected);
}

TEST(test_coded_training_goes_on_with_the_same_bits) {
    for (enum codec_kind codec = CODEC_BF16; codec <= CODEC_TOPK; codec++)
        assert_true(goes_on_with_the_same_bits(codec));
}

/* ---- another layout ---- */
/* For each element, the sum of the residuals of all ranks, and the sum of their magnitudes. A layout of dp has whole
 * params. */
enum { MOST = 40000 };
struct sums { double sum[MOST], magnitude[MOST]; int64_t n; };

static enum status residuals(const struct run *r, struct sums *out) {
    int64_t first[MAX_PARAMS];
    struct rank_term t;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < r->program.n_params; i++) {
        first[i] = out->n;
        out->n += type_n(&r->program.params[i].type);
    }
    assert_true(out->n <= MOST);
    for (int i = 0; checkpoint_term(r, i, &t); i++)
        for (int64_t k = 0; k < t.piece.n; k++) {
            out->sum[first[i / 2] + t.piece.first + k] += (double)t.at[k];
            out->magnitude[first[i / 2] + t.piece.first + k] += fabs((double)t.at[k]);
        }
    const struct group *mesh = r->mesh.group[AXIS_MESH];
    TRY(comm_all_reduce(mesh, out->sum, out->n, FP64, COMM_SUM));
    return comm_all_reduce(mesh, out->magnitude, out->n, FP64, COMM_SUM);
}

/* Loading adds floats file by file, which makes n_terms roundings of at most 2^-24 of the magnitudes. */
static bool are_equal(const struct sums *a, const struct sums *b, int n_terms) {
    double largest = 0;
    bool same = a->n == b->n;
    for (int64_t i = 0; same && i < a->n; i++) {
        same = fabs(a->sum[i] - b->sum[i]) <= n_terms * ldexp(a->magnitude[i], -24);
        largest = fmax(largest, fabs(a->sum[i]));
    }
    return same && largest > 0;
}

/* Does rank 0 have all residuals, and no rank a residual of the sum? */
static bool lies_with_rank_0(const struct run *r) {
    struct rank_term t;
    double most = 0;
    for (int i = 0; checkpoint_term(r, i, &t); i++)
        for (int64_t k = 0; k < t.piece.n; k++)
            if (!comm_is_rank_0() || i % 2) most = fmax(most, fabs((double)t.at[k]));
    return most == 0;
}

static enum status take_over(const char *step, struct plan p, const struct sums *before, bool *same) {
    static struct sums after;
    struct run r;
    enum status status = open_run(&r, p);
    if (is_used(&r)) {
        if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
        if (status == OK) status = residuals(&r, &after);
        *same = status == OK && lies_with_rank_0(&r) && are_equal(before, &after, 2 * comm_world_size());
        if (status == OK) status = steps(&r, 1);
        (void)comm_barrier(group_world());
    } else status = comm_idle(group_world());
    run_destroy(&r);
    return status;
}

TEST(test_coded_residuals_are_conserved_in_another_layout) {
    static struct sums before;
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    struct run r;
    struct plan p = plan_of(CODEC_SIGN, FEEDBACK_ON);
    bool same[3] = {true, true, true};
    shared_path("conserved", folder);
    enum status status = open_run(&r, p);
    if (status == OK) status = steps(&r, BEFORE);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = residuals(&r, &before);
    run_destroy(&r);
    if (status == OK) status = checkpoint_resolve(folder, step);
    grad_options(&p)->bucket_mb = 0.02;                                              /* ranks sum other parts */
    if (status == OK) status = take_over(step, p, &before, &same[0]);
    grad_options(&p)->codec = CODEC_INT8;
    if (status == OK) status = take_over(step, p, &before, &same[1]);
    p.mesh.dp = 2;
    if (comm_world_size() > 2 && status == OK) status = take_over(step, p, &before, &same[2]);
    if (status != OK) print_error("%s\n", status_text());
    assert_true(agree_all(status == OK && same[0] && same[1] && same[2]));
}

/* ---- from and to a run without residuals ---- */
static enum status resume(const char *folder, struct plan p, bool *warned, const char *words) {
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    enum status status = open_run(&r, p);
    if (status == OK) status = steps(&r, 1);                         /* makes residuals, which loading must clear */
    test_stderr_keep();
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    *warned = (strstr(test_stderr_text(), words) != NULL) == comm_is_rank_0();
    struct rank_term t;
    for (int i = 0; checkpoint_term(&r, i, &t); i++)
        for (int64_t k = 0; k < t.piece.n; k++) *warned &= t.at[k] == 0;
    if (status == OK) status = steps(&r, 1);
    run_destroy(&r);
    return status;
}

static enum status save(const char *folder, struct plan p) {
    struct run r;
    enum status status = open_run(&r, p);
    if (status == OK) status = steps(&r, 1);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    run_destroy(&r);
    return status;
}

TEST(test_coded_resumes_from_what_has_no_residuals) {
    char none[CHECKPOINT_PATH_MAX], some[CHECKPOINT_PATH_MAX];
    bool begun = false, dropped = false;
    shared_path("none", none);
    shared_path("some", some);
    enum status status = save(none, plan_of(CODEC_SIGN, FEEDBACK_OFF));
    if (status == OK) status = save(some, plan_of(CODEC_SIGN, FEEDBACK_ON));
    if (status == OK) status = resume(none, plan_of(CODEC_SIGN, FEEDBACK_ON), &begun, "they begin as zero");
    if (status == OK) status = resume(some, plan_of(CODEC_SIGN, FEEDBACK_OFF), &dropped, "they are dropped");
    if (status != OK) print_error("%s\n", status_text());
    assert_true(agree_all(status == OK && begun && dropped));
}

/* ---- during training ---- */
TEST(test_coded_copy_has_the_planned_size) {
    struct plan p = plan_of(CODEC_SIGN, FEEDBACK_ON);
    struct shard_plan s = {0};
    struct run r;
    int64_t bytes[N_TIERS][N_ROLES], *host = bytes[TIER_HOST];
    plan_set_number(&p, "save-async", true);
    snprintf(p.save, sizeof p.save, "somewhere");
    enum status status = open_run(&r, p);
    if (status == OK) status = steps(&r, 1);
    if (status == OK) status = checkpoint_plan_shard(&r, &s);
    const struct arena *save = &r.arenas[TIER_HOST][ROLE_SAVE];
    if (status == OK) status = checkpoint_take_copy(&s, arena_at(save, 0), save->bytes);
    if (status == OK) status = run_measure(&r, bytes);
    bool ok = status == OK && host[ROLE_SAVE] == r.memory.bytes[TIER_HOST][ROLE_SAVE] &&
              r.bill.technique_save_bytes > 0;
    checkpoint_shard_plan_fini(&s);
    run_destroy(&r);
    assert_true(agree_all(ok));
}

TESTS(unit_test(test_coded_training_goes_on_with_the_same_bits),
      unit_test(test_coded_residuals_are_conserved_in_another_layout),
      unit_test(test_coded_resumes_from_what_has_no_residuals), unit_test(test_coded_copy_has_the_planned_size))

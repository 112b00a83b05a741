/* ranks: 1 2  more: 4 8  device: cpu  threads: 1
 *
 * A run of any layout loads snapshots of any other layout, from their owners or from the ranks with the copies. The
 * losses are equal to the bit if the layouts are the same, and otherwise within 1e-10. Bytes of memory and wire are
 * those of the bill. No process dies here; tests/elastic.sh kills processes. */
#include "elastic/elastic_job.h"

#include "driver/recipe.h"
#include "lib/checkpoint/snapshot.h"
#include "lib/comm/comm.h"
#include "tests/layouts.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEFORE = 3, AFTER = 2, MOST_RANKS = 8, SMALL = 4096 /* many windows */ };

static struct plan nth_plan(int i) {
    struct plan p = layout_in_company(parity_plan(), i);
    elastic_options(&p)->every = 1;
    return p;
}

static enum status steps(struct run *r, int n, double *losses) {
    for (int i = 0; i < n; i++) {
        TRY(run_step(r));
        TRY(elastic_keep(r));
        if (losses) losses[i] = r->last.loss;
    }
    return OK;
}

static enum status open_run(struct run *r, struct plan p, enum run_watch watch) {
    p.steps = 100;
    TRY(layout_open(r, p, watch));
    return elastic_begin(r);
}

/* ---- the snapshots that a rank has of a step: its own, and its left neighbor's ---- */
struct kept { char *own_header, *left_header, *own, *left; int left_rank; double losses[AFTER]; };

static char *copy_of(const char *from, int64_t bytes) { return memcpy(malloc((size_t)bytes + 1), from, (size_t)bytes); }

static void kept_free(struct kept *k) {
    free(k->own_header);
    free(k->left_header);
    free(k->own);
    free(k->left);
}

static enum status train_and_keep(struct plan p, struct kept *out) {
    struct run r;
    enum status status = open_run(&r, p, WATCH_NOTHING);
    if (status == OK) status = steps(&r, BEFORE, NULL);
    struct generation *g = status == OK ? elastic_of(&r) : NULL;
    if (g) status = elastic_finish(g);
    const struct membership_snapshot *x = membership_find(&elastic_job()->store, 0, BEFORE);
    if (g && (!x || x->left_step != BEFORE)) status = FAIL(E_INTERNAL, "no snapshot of step %d", BEFORE);
    if (status == OK && g) {
        int at = x->own_step == elastic_job()->store.kept[0].of[1].own_step;
        bool alone = comm_world_size() == 1;
        out->own_header = strdup(g->own_header);
        out->own = copy_of(g->own[at], g->own_bytes);
        out->left_header = strdup(alone ? g->own_header : g->left_header);
        out->left = alone ? copy_of(g->own[at], g->own_bytes) : copy_of(g->left[at], g->left_bytes);
        out->left_rank = g->left_rank;
        status = steps(&r, AFTER, out->losses);
    }
    run_destroy(&r);
    return status;
}

/* Broadcast the headers of all ranks, as elastic_membership.c does when no rank has died. */
static enum status share_headers(const struct kept *k, const int *holder, bool copies, struct snapshot_set *set) {
    for (int i = 0; i < set->n; i++) {
        bool mine = holder[i] == comm_world_rank();
        const char *header = copies ? k->left_header : k->own_header;
        int64_t n = mine ? (int64_t)strlen(header) + 1 : 0;
        TRY(comm_broadcast(group_world(), &n, (int64_t)sizeof n, UINT8, holder[i]));
        set->header[i] = malloc((size_t)n);
        if (mine) memcpy(set->header[i], header, (size_t)n);
        TRY(comm_broadcast(group_world(), set->header[i], n, UINT8, holder[i]));
        if (mine) set->here[i] = copies ? k->left : k->own;
    }
    return OK;
}

static enum status take(struct run *r, const struct kept *k, bool copies) {
    int n = comm_world_size(), holder[MOST_RANKS];
    char *header[MOST_RANKS] = {NULL}, manifest[8 * SNAPSHOT_TEXT_BYTES] = "";
    const char *here[MOST_RANKS] = {NULL};
    struct snapshot_set set = {n, header, holder, here, manifest, .window = SMALL};
    int32_t left = k->left_rank, all[MOST_RANKS];
    TRY(comm_all_gather(group_world(), &left, all, 1, INT32));
    for (int p = 0; p < n; p++) holder[copies ? all[p] : p] = p;
    enum status status = share_headers(k, holder, copies, &set);
    if (here[0]) snprintf(manifest, sizeof manifest, "%s", here[0]);
    if (status == OK) status = comm_broadcast(group_world(), manifest, (int64_t)sizeof manifest, UINT8, holder[0]);
    if (status == OK) status = snapshot_load(r, &set);
    for (int i = 0; i < n; i++) free(header[i]);
    return status;
}

static enum status take_and_train(struct plan p, const struct kept *from, bool copies, double losses[AFTER]) {
    struct run r;
    enum status status = open_run(&r, p, WATCH_NOTHING);
    if (status == OK) status = take(&r, from, copies);
    if (status == OK && r.n_done != BEFORE) status = FAIL(E_INTERNAL, "goes on at step %d", (int)r.n_done);
    if (status == OK) status = steps(&r, AFTER, losses);
    run_destroy(&r);
    return status;
}

static double difference(const double *a, const double *b) {
    double worst = 0;
    for (int i = 0; i < AFTER; i++) worst = fmax(worst, fabs(a[i] / b[i] - 1));
    return worst;
}

TEST(test_snapshots_of_any_layout_are_taken_in_any_other) {
    struct kept kept[N_COMPANIES] = {{0}};
    bool ok = true;
    for (int i = 0; i < N_COMPANIES && ok; i++) {
        ok = agree_all(train_and_keep(nth_plan(i), &kept[i]) == OK);
        ok = ok && difference(kept[i].losses, kept[0].losses) < 1e-10;
    }
    for (int i = 0; i < N_COMPANIES && ok; i++)
        for (int from = 0; from < N_COMPANIES && ok; from++) {
            double found[AFTER] = {0}, d = 0;
            bool copies = (i + from) % 4 < 2;
            if (!layouts_want_all() && from != i && from != (i * 3 + 5) % N_COMPANIES) continue;
            ok = agree_all(take_and_train(nth_plan(i), &kept[from], copies, found) == OK);
            if (ok) d = difference(found, kept[i].losses);
            if (ok && d > (from == i ? 0 : 1e-10)) {
                if (comm_is_rank_0()) print_message("layout %d from %d: the losses differ by %g\n", i, from, d);
                ok = false;
            }
        }
    for (int i = 0; i < N_COMPANIES; i++) kept_free(&kept[i]);
    assert_true(agree_all(ok));
}

/* From own snapshots, and from the neighbors' copies, a run goes on to the bit. */
static void check_goes_on(struct plan p) {
    struct kept kept = {0};
    double found[AFTER] = {0};
    elastic_options(&p)->every = 1;
    bool ok = agree_all(train_and_keep(p, &kept) == OK);
    for (int copies = 0; copies < 2 && ok; copies++) {
        ok = agree_all(take_and_train(p, &kept, copies, found) == OK);
        ok = ok && !memcmp(found, kept.losses, sizeof found);
    }
    kept_free(&kept);
    assert_true(agree_all(ok));
}

/* Each rank's residuals are part of its snapshot. Without them the next step's codes would differ. */
TEST(test_residuals_are_taken_along) {
    if (comm_world_size() == 1) skip();
    struct plan p = parity_plan();
    p.precision = PRECISION_FP32;
    p.mesh.dp = comm_world_size();
    p.micro_batch = 1;
    p.hidden = 24;                                                   /* sizes that are no powers of two */
    grad_options(&p)->codec = CODEC_SIGN;
    grad_options(&p)->feedback = FEEDBACK_ON;
    check_goes_on(p);
}

/* The amax history is text in the manifest, which has more than SNAPSHOT_TEXT_BYTES then. */
TEST(test_a_long_history_of_fp8_is_taken_along) {
    struct plan p = parity_plan();
    p.mesh.dp = comm_world_size();
    p.micro_batch = 1;
    plan_set_number(&p, "fp8", 1), plan_set_number(&p, "fp8-history", 100);
    check_goes_on(p);
}

/* ---- bytes ---- */
/* Check the memory of role save, and the messages over the mesh, of a run with a snapshot after each of n steps. */
static void check_bytes(struct plan p, int n) {
    int64_t bytes[N_TIERS][N_ROLES] = {{0}};
    struct run r;
    double sent = 0, billed = 0;
    elastic_options(&p)->every = 1;
    enum status status = open_run(&r, p, WATCH_PEAKS);
    if (status == OK) status = steps(&r, 1, NULL);                   /* the headers are not counted */
    if (status == OK) status = elastic_finish(elastic_of(&r));
    if (status == OK) group_ledger_reset(r.mesh.group[AXIS_MESH]);
    if (status == OK) status = steps(&r, n, NULL);
    if (status == OK) status = elastic_finish(elastic_of(&r));
    if (status == OK) status = run_measure(&r, bytes);
    if (status == OK) {
        sent = group_ledger(r.mesh.group[AXIS_MESH])->entry[COMM_SEND].bytes;
        billed = n * (double)snapshot_bytes(&r.program, &r.bill);
    }
    int64_t planned = r.memory.bytes[TIER_HOST][ROLE_SAVE];
    bool ok = status == OK && bytes[TIER_HOST][ROLE_SAVE] == planned && planned >= r.bill.snapshot_bytes &&
              sent == (comm_world_size() > 1 ? billed : 0);
    bool in_bill = false;
    for (int i = 0; i < r.bill.n_exchanges; i++) {
        const struct exchange *x = &r.bill.exchanges[i];
        in_bill |= x->axis == AXIS_MESH && x->op == COMM_SEND && n * exchange_bytes(x, comm_world_size()) == sent;
    }
    run_destroy(&r);
    assert_true(agree_all(ok && in_bill));
}

TEST(test_bytes_are_those_of_the_bill) {
    for (int i = 0; i < N_COMPANIES; i += 3) check_bytes(layout_in_company(parity_plan(), i), 2);
    struct plan p = layout_in_company(parity_plan(), 0);
    plan_set_number(&p, "save-async", true);                           /* its copy lies before the snapshots */
    snprintf(p.save, sizeof p.save, "somewhere");
    check_bytes(p, 1);
}

/* ---- when ---- */
TEST(test_every_third_step_is_kept) {
    struct plan p = layout_in_company(parity_plan(), 1);
    struct run r;
    elastic_options(&p)->every = 3;
    enum status status = open_run(&r, p, WATCH_NOTHING);
    int64_t newest[8] = {0};
    for (int i = 0; i < 8 && status == OK; i++) {
        status = steps(&r, 1, NULL);
        if (status == OK) status = elastic_finish(elastic_of(&r));
        newest[i] = membership_newest(&elastic_job()->store, 0);
    }
    bool both = membership_find(&elastic_job()->store, 0, 3) && membership_find(&elastic_job()->store, 0, 6);
    run_destroy(&r);
    assert_true(agree_all(status == OK));
    for (int i = 0; i < 8; i++) assert_int_equal(newest[i], (i + 1) / 3 * 3);
    assert_true(both);
    assert_int_equal(membership_newest(&elastic_job()->store, 0), -1);    /* the job is over: no snapshot is kept */
}

/* A snapshot counts only after its copy has arrived, for which the next step waits before its all-reduce. */
TEST(test_a_copy_counts_when_it_is_there) {
    struct run r;
    enum status status = open_run(&r, nth_plan(0), WATCH_NOTHING);
    if (status == OK) status = steps(&r, 1, NULL);
    int64_t before = membership_newest(&elastic_job()->store, 0);
    if (status == OK) status = run_step(&r);
    int64_t after = membership_newest(&elastic_job()->store, 0);
    run_destroy(&r);
    assert_true(agree_all(status == OK));
    assert_int_equal(before, comm_world_size() == 1 ? 1 : 0);
    assert_int_equal(after, 1);
}

/* ---- an epoch that ends while it begins ---- */
TEST(test_what_has_kept_nothing_takes_nothing_along) {
    struct run r;
    enum status status = open_run(&r, nth_plan(0), WATCH_NOTHING);
    if (status == OK) status = steps(&r, 2, NULL);
    if (status == OK) status = elastic_finish(elastic_of(&r));
    elastic_leave(&r);
    run_destroy(&r);
    if (status == OK) status = layout_open(&r, nth_plan(0), WATCH_NOTHING);     /* here another rank would die */
    elastic_leave(&r);
    run_destroy(&r);
    int64_t newest = membership_newest(&elastic_job()->store, 0);
    if (status == OK) status = layout_open(&r, nth_plan(0), WATCH_NOTHING);
    run_destroy(&r);                                                 /* the end of the job */
    assert_true(agree_all(status == OK));
    assert_int_equal(newest, 2);
    assert_int_equal(membership_newest(&elastic_job()->store, 0), -1);
}

/* ---- what it cannot do ---- */
TEST(test_what_has_no_edge_between_steps_is_refused) {
    struct plan p = nth_plan(0);
    struct run r;
    plan_set_number(&p, "spike-guard", 3);
    p.save_every = 1;
    snprintf(p.save, sizeof p.save, "somewhere");
    assert_ok(plan_settle(&p, comm_world_size()));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "replicate-every=1", "spike-guard=3");
    run_destroy(&r);
}

TESTS(unit_test(test_snapshots_of_any_layout_are_taken_in_any_other), unit_test(test_residuals_are_taken_along),
      unit_test(test_a_long_history_of_fp8_is_taken_along),
      unit_test(test_bytes_are_those_of_the_bill), unit_test(test_every_third_step_is_kept),
      unit_test(test_a_copy_counts_when_it_is_there),
      unit_test(test_what_has_kept_nothing_takes_nothing_along),
      unit_test(test_what_has_no_edge_between_steps_is_refused))

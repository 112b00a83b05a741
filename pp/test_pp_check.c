/* ranks: 1  device: cpu
 *
 * The checker passes the schedules of pp_schedule.c, and names stage, action and fault of a broken schedule. */
#include "pp/pp_check.h"
#include "pp/pp_orders.h"
#include "pp/pp_schedule.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_P = 16, P = 4, V = 2, M = 8 };
struct table { int p, v; struct schedule stage[MAX_P]; };

static void table_init(struct table *t, const struct pp_schedule *row, int p, int v, int m) {
    *t = (struct table){.p = p, .v = v};
    for (int i = 0; i < p; i++) pp_schedule_make(row, &(struct pp_shape){p, v, m, {0}, NULL}, i, &t->stage[i]);
}
static void table_fini(struct table *t) {
    for (int i = 0; i < t->p; i++) schedule_fini(&t->stage[i]);
}

static void check_sound(const struct pp_schedule *row, int p, int v, int m) {
    struct table t;
    table_init(&t, row, p, v, m);
    assert_ok(pp_check_schedules(t.stage, p, v, 1));
    table_fini(&t);
}

TEST(test_every_schedule_is_sound_with_one_buffer) {
    for (int p = 1; p <= MAX_P; p++)
        for (int m = 1; m <= 4 * p; m += p > 4 ? 3 : 1) {
            check_sound(&pp_gpipe, p, 1, m);
            check_sound(&pp_1f1b, p, 1, m);
        }
    for (int p = 2; p <= MAX_P; p++)
        for (int v = 1; v <= 4; v++)
            for (int m = p; m <= 4 * p; m += p) check_sound(&pp_interleaved, p, v, m);
}

/* Split backwards, as zero-bubble schedules do: W may come any time after its B. */
static void split_weights(struct schedule *s, int m) {
    s->split_weight = true;
    for (int k = 0; k < m; k++) schedule_add(s, ACTION_W, 0, k);
}
TEST(test_split_weight_gradients_are_sound) {
    struct table t;
    table_init(&t, &pp_1f1b, 2, 1, 4);
    for (int i = 0; i < 2; i++) split_weights(&t.stage[i], 4);
    assert_ok(pp_check_schedules(t.stage, 2, 1, 1));
    t.stage[1].n--;
    assert_fails(pp_check_schedules(t.stage, 2, 1, 1), E_INTERNAL, "stage 1", "W of chunk 0, microbatch 3 is missing");
    table_fini(&t);
}

/* ---- breaking ---- */
static int find(const struct schedule *s, enum action_kind kind, int chunk, int microbatch) {
    for (int i = 0; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        if (a->kind == kind && a->chunk == chunk && a->microbatch == microbatch) return i;
    }
    fail_msg("no %s of chunk %d, microbatch %d", action_name(kind), chunk, microbatch);
    return -1;
}

static void erase(struct schedule *s, int i) {
    memmove(&s->actions[i], &s->actions[i + 1], (size_t)(--s->n - i) * sizeof *s->actions);
}
static void swap(struct schedule *s, int i, int j) {
    struct action a = s->actions[i];
    s->actions[i] = s->actions[j];
    s->actions[j] = a;
}

static void rename_microbatch(struct schedule *s, int chunk, int from, int to) {
    for (int i = 0; i < s->n; i++)
        if (s->actions[i].chunk == chunk && s->actions[i].microbatch == from) s->actions[i].microbatch = to;
}

/* After the break, the checker names this stage and action. */
static void assert_found(struct table *t, int stage, int action, const char *what) {
    char where[48];
    snprintf(where, sizeof where, "stage %d, action %d", stage, action);
    assert_fails(pp_check_schedules(t->stage, t->p, t->v, 2), E_INTERNAL, where, what);
    table_fini(t);
    table_init(t, &pp_interleaved, P, V, M);
}

TEST(test_faults_of_one_stage_are_named) {
    struct table t;
    table_init(&t, &pp_interleaved, P, V, M);
    struct schedule *s = &t.stage[1];
    int f = find(s, ACTION_F, 1, 2), b = find(s, ACTION_B, 1, 2);

    s->actions[f].chunk = V;
    assert_found(&t, 1, f, "chunk that does not exist");
    s->actions[f].microbatch = M;
    assert_found(&t, 1, f, "microbatch that does not exist");
    s->actions[f].microbatch = 1;
    assert_found(&t, 1, f, "F of chunk 1, microbatch 1 comes a second time");
    swap(s, f, b);
    assert_found(&t, 1, f, "B of chunk 1, microbatch 2 comes before its forward");
    s->actions[b].kind = ACTION_W;
    assert_found(&t, 1, b, "does not split");
    erase(s, f - 1);
    assert_found(&t, 1, f - 1, "no receive directly before it");
    erase(s, f + 1);
    assert_found(&t, 1, f, "no send directly after it");
    s->n_microbatches = M - 1;
    assert_found(&t, 1, 0, "of 7 microbatches, and stage 0's of 8");
    s->n -= 3;   /* receive, backward, send */
    assert_found(&t, 1, s->n, "B of chunk 0, microbatch 7 is missing");
    table_fini(&t);
}

TEST(test_transfers_that_belong_to_nothing_are_named) {
    struct table t;
    table_init(&t, &pp_interleaved, P, V, M);
    int end = t.stage[0].n;
    schedule_add(&t.stage[0], SEND_F, 0, M - 1);
    assert_found(&t, 0, end, "send_F of chunk 0, microbatch 7 does not stand directly at its action");
    end = t.stage[P - 1].n;
    schedule_add(&t.stage[P - 1], SEND_F, V - 1, 0);
    assert_found(&t, P - 1, end, "goes beyond the end");
    table_fini(&t);
}

/* Stage 2 takes two microbatches of chunk 0 in the other order: sound by itself, but its neighbors do not match. */
TEST(test_messages_out_of_order_are_named) {
    struct table t;
    table_init(&t, &pp_interleaved, P, V, M);
    struct schedule *s = &t.stage[2];
    rename_microbatch(s, 0, 0, M);
    rename_microbatch(s, 0, 1, 0);
    rename_microbatch(s, 0, M, 1);
    assert_found(&t, 2, 0, "recv_F of chunk 0, microbatch 1 meets the message for recv_F of chunk 0, microbatch 0");
    table_fini(&t);
}

/* Around the end of the ring microbatches come in the right order for both chunks: only the chunk tells them apart. */
TEST(test_the_chunk_of_a_message_is_checked) {
    struct table t = {.p = 2, .v = 3};
    for (int i = 0; i < 2; i++)
        pp_schedule_make(&pp_interleaved, &(struct pp_shape){2, 3, 2, {0}, NULL}, i, &t.stage[i]);
    for (int m = 0; m < 2; m++) {                                    /* stage 0: swap chunks 1 and 2 */
        int f1 = find(&t.stage[0], ACTION_F, 1, m), f2 = find(&t.stage[0], ACTION_F, 2, m);
        for (int by = -1; by <= 1; by++) swap(&t.stage[0], f1 + by, f2 + by);
    }
    assert_fails(pp_check_schedules(t.stage, 2, 3, 4), E_INTERNAL, "stage 0",
                 "recv_F of chunk 2, microbatch 0 meets the message for recv_F of chunk 1");
    table_fini(&t);
}

/* All forwards first on stage 0, 1F1B on stage 1: each is sound, but with one buffer each waits for the other. */
TEST(test_deadlock_is_named) {
    struct table t = {.p = 2, .v = 1};
    pp_schedule_make(&pp_gpipe, &(struct pp_shape){2, 1, 4, {0}, NULL}, 0, &t.stage[0]);
    pp_schedule_make(&pp_1f1b, &(struct pp_shape){2, 1, 4, {0}, NULL}, 1, &t.stage[1]);
    assert_ok(pp_check_schedules(t.stage, 2, 1, 2));
    assert_fails(pp_check_schedules(t.stage, 2, 1, 1), E_INTERNAL, "stage 0, action 7: send_F of chunk 0, microbatch 3",
                 "waits forever for stage 1, which does not receive", "1 staging buffer a direction");
    table_fini(&t);
}

/* How far a stage may go on weights that may be wrong: over all synchronous schedules. */
enum { MOST_P = 8 };

/* The index, in the sender's table, of the send of a forward to this virtual stage; -1: none. */
static int send_of(const struct schedule *sender, const struct hop *from, int microbatch) {
    for (int i = 0; i < sender->n; i++) {
        const struct action *a = &sender->actions[i];
        if (a->kind == SEND_F && a->chunk == from->chunk && a->microbatch == microbatch) return i;
    }
    return -1;
}

static void check_cut(const struct schedule *all, int p, int stage) {
    const struct schedule *s = &all[stage];
    int under_way[N_CHANNELS] = {0};
    for (int i = 0; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        if (i < s->n_early) assert_true(a->kind == ACTION_F || a->kind == SEND_F || a->kind == RECV_F);
        if (a->kind != RECV_F) continue;
        struct hop from = schedule_hop(s, a);
        int sent = send_of(&all[from.rank], &from, a->microbatch);
        assert_true(from.rank < p && sent >= 0);
        bool sent_early = sent < all[from.rank].n_early;
        if (i < s->n_early) assert_true(sent_early);
        else under_way[schedule_channel(s, a)] += sent_early;
    }
    for (int c = 0; c < N_CHANNELS; c++) assert_int_equal(s->under_way[c], under_way[c]);
}

static void make(int kind, int p, int m, struct schedule *all) {
    const struct pp_schedule *row = pp_schedule_at(kind);
    struct pp_shape x = pp_shape_of(row, p, row->chunked && p > 1 ? 2 : 1, m);
    pp_schedules_make(row, &x, all);
    for (int i = 0; i < p; i++) pp_validate(row, &x, &all[i]);
}

TEST(test_early_actions_are_a_consistent_cut) {
    for (int kind = 0; kind < N_SYNCHRONOUS; kind++)
        for (int p = 1; p <= MOST_P; p++)
            for (int m = p; m <= 3 * p; m += p) {
                const struct pp_schedule *row = pp_schedule_at(kind);
                struct pp_shape x = pp_shape_of(row, p, row->chunked && p > 1 ? 2 : 1, m);
                struct schedule all[MOST_P];
                if (pp_schedule_legal(row, &x) != OK) {
                    status_clear();
                    continue;
                }
                make(kind, p, m, all);
                assert_true(all[0].validates && all[0].n_early > 0);
                for (int i = 0; i < p; i++) check_cut(all, p, i);
                for (int i = 0; i < p; i++) schedule_fini(&all[i]);
            }
}

/* Check the numbers of ZB-H2 in the comment of pp_validate.c. */
TEST(test_zb_h2_is_early_with_its_warm_up) {
    struct schedule all[4];
    make(SCHEDULE_ZB_H2, 4, 8, all);
    for (int i = 0; i < 4; i++) {
        int forwards = 0;
        for (int k = 0; k < all[i].n_early; k++) forwards += all[i].actions[k].kind == ACTION_F;
        assert_int_equal(forwards, 7 - 2 * i);
        assert_int_equal(all[i].under_way[0], i > 0 ? 2 : 0);
        assert_int_equal(all[i].under_way[2], 0);
    }
    for (int i = 0; i < 4; i++) schedule_fini(&all[i]);
}

TESTS(unit_test(test_every_schedule_is_sound_with_one_buffer), unit_test(test_split_weight_gradients_are_sound),
      unit_test(test_faults_of_one_stage_are_named), unit_test(test_transfers_that_belong_to_nothing_are_named),
      unit_test(test_messages_out_of_order_are_named), unit_test(test_the_chunk_of_a_message_is_checked),
      unit_test(test_deadlock_is_named), unit_test(test_early_actions_are_a_consistent_cut),
      unit_test(test_zb_h2_is_early_with_its_warm_up))

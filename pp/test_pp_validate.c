/* ranks: 1  device: cpu
 *
 * How far a stage may go on weights that may be wrong: over all synchronous schedules. */
#include "pp/pp_orders.h"
#include "tests/test.h"
#include <stdlib.h>

enum { MAX_P = 8 };

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
        for (int p = 1; p <= MAX_P; p++)
            for (int m = p; m <= 3 * p; m += p) {
                const struct pp_schedule *row = pp_schedule_at(kind);
                struct pp_shape x = pp_shape_of(row, p, row->chunked && p > 1 ? 2 : 1, m);
                struct schedule all[MAX_P];
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

TESTS(unit_test(test_early_actions_are_a_consistent_cut), unit_test(test_zb_h2_is_early_with_its_warm_up))

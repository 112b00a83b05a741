/* ranks: 1 2 4 8  device: cpu
 *
 * Five steps with replicas, with ZeRO and without. The whole of nano's weights does not divide by 8: the last shard has
 * padding. */
#define YOURS_UPDATE
#include "lessons/29-nano/training.h"

static const struct layout_of_run LAYOUTS[] = {
    {1, 1, 1, 1, 0, 1}, {1, 2, 1, 1, 0, 1}, {1, 2, 1, 0, 0, 1}, {1, 4, 1, 1, 0, 1}, {1, 2, 2, 1, 1, 1},
    {1, 8, 1, 1, 0, 1}, {1, 4, 2, 1, 0, 1}, {1, 4, 2, 0, 0, 2},
};

TEST(test_update_keeps_to_its_shard) {
    for_each(i, LAYOUTS) {
        const struct outcome *o = outcome_of(LAYOUTS, i);
        char why[400] = "";
        if (o->hung[0] || o->foreign || !isfinite(o->norm[STEPS - 1]))
            snprintf(why, sizeof why, "%s: %s", name_of(&LAYOUTS[i]), o->hung[0] ? o->hung :
                     "it reads or writes moments beyond those of its shard");
        agree_on(why);
    }
}

TEST(test_update_replicas_agree) {
    for_each(i, LAYOUTS) {
        const struct outcome *o = outcome_of(LAYOUTS, i);
        char why[400] = "";
        if (o->hung[0] || o->apart)
            snprintf(why, sizeof why, "%s: %s", name_of(&LAYOUTS[i]), o->hung[0] ? o->hung :
                     "after five steps this replica's weights are not replica 0's");
        agree_on(why);
    }
}

TEST(test_update_sends_each_number_twice) {
    for_each(i, LAYOUTS) {
        const struct layout_of_run *l = &LAYOUTS[i];
        const struct outcome *o = outcome_of(LAYOUTS, i);
        const struct counts *c = &o->counts;
        int64_t shard = o->shard;
        char why[400] = "";
        bool with = c->dp_sums == 0 && c->scatters == 1 && c->gathers == 1;
        if (l->zero ? !with : c->dp_sums != 1 || c->scatters || c->gathers)
            snprintf(why, sizeof why, "%s: a step calls dp_sum %d times, dp_reduce_scatter %d times, dp_all_gather %d "
                     "times; it takes %s", name_of(l), c->dp_sums, c->scatters, c->gathers,
                     l->zero ? "0, 1 and 1" : "1, 0 and 0");
        else if (l->zero ? c->scattered != shard || c->gathered != shard : c->dp_numbers != shard * l->d)
            snprintf(why, sizeof why, "%s: shards of %lld and %lld numbers; they have %lld", name_of(l),
                     (long long)c->scattered, (long long)c->gathered, (long long)shard);
        if (o->hung[0]) snprintf(why, sizeof why, "%s: %s", name_of(l), o->hung);
        agree_on(why);
    }
}

TEST(test_update_losses) {
    char why[400];
    for_each(i, LAYOUTS) {
        look_at_losses(&LAYOUTS[i], outcome_of(LAYOUTS, i), why);
        agree_on(why);
    }
}

TEST(test_update_norms) {
    for_each(i, LAYOUTS) {
        const struct outcome *o = outcome_of(LAYOUTS, i), *serial = one_rank();
        char why[400] = "";
        for (int s = STEPS - 1; s >= 0; s--)
            if (!(fabs(o->norm[s] - serial->norm[s]) <= 1e-10 * serial->norm[s]))
                snprintf(why, sizeof why, "%s: the norm of step %d is %.12f, and on one rank %.12f",
                         name_of(&LAYOUTS[i]), s + 1, o->norm[s], serial->norm[s]);
        if (o->hung[0]) snprintf(why, sizeof why, "%s: %s", name_of(&LAYOUTS[i]), o->hung);
        agree_on(why);
    }
}

TESTS(unit_test(test_update_norms), unit_test(test_update_keeps_to_its_shard), unit_test(test_update_replicas_agree),
      unit_test(test_update_sends_each_number_twice), unit_test(test_update_losses))

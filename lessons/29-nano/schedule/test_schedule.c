/* ranks: 1 2 4 8  device: cpu
 *
 * Five steps in layouts with pipelines. What a stage does, in which order and with which activations, is of the last
 * step. */
#define YOURS_SCHEDULE
#include "lessons/29-nano/training.h"

/* {1, 1, 4, 0, 0, 4} has two microbatches for four stages. */
static const struct layout_of_run LAYOUTS[] = {
    {1, 1, 1, 0, 0, 1}, {1, 1, 2, 0, 0, 1}, {1, 1, 4, 0, 0, 1}, {1, 2, 2, 0, 1, 1}, {1, 1, 4, 0, 0, 4},
    {1, 2, 4, 0, 0, 1}, {1, 4, 2, 0, 0, 2},
};

static int microbatches(const struct layout_of_run *l) { return 8 / (l->micro * l->d); }
static int stage_of(const struct layout_of_run *l) {
    int rank;
    MPI_Comm_rank(all_ranks(), &rank);
    return rank / (l->t * l->d);
}
static int least(int a, int b) { return a < b ? a : b; }

/* Fails if the layout has hung. */
static const struct outcome *ended(const struct layout_of_run *l, int i) {
    const struct outcome *o = outcome_of(LAYOUTS, i);
    char why[400] = "";
    if (o->hung[0]) snprintf(why, sizeof why, "%s: %s", name_of(l), o->hung);
    agree_on(why);
    return o;
}

TEST(test_schedule_runs_each_once) {
    for_each(i, LAYOUTS) {
        const struct layout_of_run *l = &LAYOUTS[i];
        const struct outcome *o = ended(l, i);
        int n = microbatches(l), seen[2][MOST] = {{0}};
        char why[400] = "";
        for (const struct event *e = o->counts.events; e < o->counts.events + o->counts.n_events; e++) {
            seen[e->what == 'B'][e->k]++;
            if (e->what == 'B' && !seen[0][e->k])
                snprintf(why, sizeof why, "%s: stage %d runs backward of microbatch %d before its forward", name_of(l),
                         stage_of(l), e->k);
        }
        for (int k = n - 1; k >= 0; k--)
            if (seen[0][k] != 1 || seen[1][k] != 1)
                snprintf(why, sizeof why, "%s: stage %d runs microbatch %d of 0 to %d %d times forward and %d backward",
                         name_of(l), stage_of(l), k, n - 1, seen[0][k], seen[1][k]);
        agree_on(why);
    }
}

/* A backward needs the activations of its own forward: their entry is not free in between. */
TEST(test_schedule_keeps_what_backward_needs) {
    for_each(i, LAYOUTS) {
        const struct layout_of_run *l = &LAYOUTS[i];
        const struct outcome *o = ended(l, i);
        const struct kept *at[MOST] = {NULL};
        char why[400] = "";
        for (int j = 0; j < o->counts.n_events && !*why; j++) {
            const struct event *e = &o->counts.events[j];
            for (int k = 0; e->what == 'F' && k < MOST; k++)
                if (at[k] == e->kept)
                    snprintf(why, sizeof why, "%s: stage %d keeps microbatch %d where %d lies, which has not been "
                             "backward", name_of(l), stage_of(l), e->k, k);
            if (e->what == 'B' && at[e->k] != e->kept)
                snprintf(why, sizeof why, "%s: stage %d runs backward of microbatch %d with another one's activations",
                         name_of(l), stage_of(l), e->k);
            at[e->k] = e->what == 'F' ? e->kept : NULL;
        }
        agree_on(why);
    }
}

TEST(test_schedule_is_1f1b) {
    for_each(i, LAYOUTS) {
        const struct layout_of_run *l = &LAYOUTS[i];
        const struct outcome *o = ended(l, i);
        int n = microbatches(l), warm = least(l->p - 1 - stage_of(l), n);
        char right[2 * MOST + 1] = "", own[EVENTS + 1] = "", why[400] = "";
        for (int k = 0; k < n + warm; k++) {
            if (k < n) strcat(right, "F");
            if (k >= warm) strcat(right, "B");
        }
        for (int j = 0; j < o->counts.n_events; j++) own[j] = o->counts.events[j].what;
        if (strcmp(own, right))
            snprintf(why, sizeof why, "%s: stage %d runs %s, and 1F1B is %s", name_of(l), stage_of(l), own, right);
        agree_on(why);
    }
}

TEST(test_schedule_has_few_in_flight) {
    for_each(i, LAYOUTS) {
        const struct layout_of_run *l = &LAYOUTS[i];
        const struct outcome *o = ended(l, i);
        int now = 0, most = 0, right = least(l->p - stage_of(l), microbatches(l));
        char why[400] = "";
        for (int j = 0; j < o->counts.n_events; j++) {
            now += o->counts.events[j].what == 'F' ? 1 : -1;
            if (now > most) most = now;
        }
        if (most != right)
            snprintf(why, sizeof why, "%s: stage %d has %d microbatches in flight; min(p - i, n) is %d", name_of(l),
                     stage_of(l), most, right);
        agree_on(why);
    }
}

TEST(test_schedule_leaves_nothing_under_way) {
    for_each(i, LAYOUTS) {
        const struct outcome *o = ended(&LAYOUTS[i], i);
        char why[400] = "";
        if (o->counts.unfinished)
            snprintf(why, sizeof why, "%s: stage %d returns while a send may be under way", name_of(&LAYOUTS[i]),
                     stage_of(&LAYOUTS[i]));
        agree_on(why);
    }
}

TEST(test_schedule_losses) {
    char why[400];
    for_each(i, LAYOUTS) {
        look_at_losses(&LAYOUTS[i], outcome_of(LAYOUTS, i), why);
        agree_on(why);
    }
}

TESTS(unit_test(test_schedule_runs_each_once), unit_test(test_schedule_keeps_what_backward_needs),
      unit_test(test_schedule_is_1f1b), unit_test(test_schedule_has_few_in_flight),
      unit_test(test_schedule_leaves_nothing_under_way), unit_test(test_schedule_losses))

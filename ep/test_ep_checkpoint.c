/* ranks: 2 4
 *
 * A checkpoint of experts in one layout loads in another. Each layout loads the checkpoint of the layout before it in
 * the list, and has the loss of the run that was not interrupted. */
#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include <stdio.h>

static const struct layout { int ranks, ep, dp, cp, tp, pp, zero; } LAYOUTS[] = {
    {2, .ep = 2, .dp = 2}, {2, .ep = 1, .dp = 2, .zero = 3}, {2, .ep = 2, .cp = 2, .zero = 1}, {2, .tp = 2},
    {4, .ep = 4, .dp = 4, .zero = 2}, {4, .ep = 2, .dp = 4, .zero = 3}, {4, .ep = 2, .dp = 2, .pp = 2},
    {4, .ep = 2, .dp = 2, .tp = 2, .zero = 1}, {4, .dp = 4},
};
enum { N_LAYOUTS = sizeof LAYOUTS / sizeof *LAYOUTS };

static struct plan plan_of(const struct layout *l) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.layers = 4;
    m->experts = 8, m->moe_group = 2, m->capacity = 1;
    p.mesh = (struct mesh_sizes){.tp = l->tp, .cp = l->cp, .dp = l->dp ? l->dp : 1, .pp = l->pp, .ep = l->ep};
    plan_set_number(&p, "zero", l->zero);
    p.micro_batch = 2;
    return p;
}

static enum status open_run(const struct layout *l, struct run *r) {
    return layout_open(r, plan_of(l), WATCH_NOTHING);
}

/* A step, a checkpoint, a step. */
static enum status save(const struct layout *l, const char *folder, double *loss) {
    struct run r;
    enum status status = open_run(l, &r);
    if (status == OK) status = run_step(&r);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = run_step(&r);
    *loss = r.last.loss;
    run_destroy(&r);
    return status;
}

static enum status load(const struct layout *l, const char *folder, double *loss) {
    struct run r;
    char step[CHECKPOINT_PATH_MAX];
    enum status status = open_run(l, &r);
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK) status = run_step(&r);
    *loss = r.last.loss;
    run_destroy(&r);
    return status;
}

static void folder_of(int i, char path[CHECKPOINT_PATH_MAX]) {
    char name[32];
    snprintf(name, sizeof name, "ep-layout-%d", i);
    snprintf(path, CHECKPOINT_PATH_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, CHECKPOINT_PATH_MAX, UINT8, 0);
}

TEST(test_checkpoints_of_experts_load_in_any_layout) {
    double expected = 0, found;
    int before = -1;
    bool ok = true;
    for (int i = 0; i < N_LAYOUTS; i++) {
        if (LAYOUTS[i].ranks != comm_world_size()) continue;
        char folder[CHECKPOINT_PATH_MAX];
        if (before >= 0) {
            folder_of(before, folder);
            ok = ok && agree_all(load(&LAYOUTS[i], folder, &found) == OK);
            ok = ok && fabs(found - expected) < 1e-10 * expected;
        }
        folder_of(i, folder);
        ok = ok && agree_all(save(&LAYOUTS[i], folder, &expected) == OK);
        before = i;
    }
    status_report();
    assert_true(agree_all(ok));
    assert_true(before >= 0);
}

TESTS(unit_test(test_checkpoints_of_experts_load_in_any_layout))

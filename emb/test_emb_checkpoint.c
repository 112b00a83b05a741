/* ranks: 1 2 4
 *
 * A checkpoint of tables in one layout loads in every other layout with the same delay. The loaded run's loss equals
 * that of the run that was not interrupted. */
#include "driver/recipe.h"
#include "emb/emb.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/data/clicks.h"
#include "models/dlrm/dlrm.h"
#include "tests/test.h"
#include <stdio.h>

enum { FEATURES = 8, VOCAB = 40 };
static const struct layout { int by, zero, delay; } LAYOUTS[] = {
    {EMB_BY_TABLE, 0, 0}, {EMB_BY_ROW, 3, 0}, {EMB_BY_TABLE, 2, 2}, {EMB_BY_ROW, 0, 2}, {EMB_BY_TABLE, 0, 2},
};
enum { N_LAYOUTS = sizeof LAYOUTS / sizeof *LAYOUTS };

static enum status open_run(const struct layout *l, struct run *r) {
    static struct data_file *file;
    struct data_split train, val;
    struct plan p;
    double best;
    *r = (struct run){0};
    if (!file) {
        TRY(clicks_synth(test_path("clicks"), &(struct clicks_layout){3, FEATURES, 2, VOCAB, 0}, 300, 5, &best));
        TRY(data_open(test_path("clicks"), &file));
    }
    TRY(recipe_plan(&p));
    TRY(recipe_arch(&p, "wide-deep"));
    *dlrm_options(&p) = (struct dlrm_options){.features = FEATURES, .bag = 2, .dense = 3, .emb_lr = 0.05};
    p.layers = p.heads = p.seq = 1;
    p.hidden = 4, p.vocab = VOCAB, p.global_batch = 16, p.steps = 10, p.precision = PRECISION_FP64;
    p.device = PLAN_DEVICE_CPU;
    emb_options(&p)->by = l->by, emb_options(&p)->delay = l->delay, plan_set_number(&p, "zero", l->zero);
    TRY(plan_settle(&p, comm_world_size()));
    TRY(run_create(r, &train_recipe, &p, WATCH_NOTHING));
    TRY(clicks_split(file, 0.1, &train, &val));
    run_set_data(r, &train, &val);
    return OK;
}

static enum status steps(struct run *r, int n) {
    for (int i = 0; i < n; i++) TRY(run_step(r));
    return OK;
}

/* Three steps, a checkpoint, five more. A late update that the checkpoint lost would change their losses. */
static enum status save(const struct layout *l, const char *folder, double *loss) {
    struct run r;
    enum status status = open_run(l, &r);
    if (status == OK) status = steps(&r, 3);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = steps(&r, 5);
    *loss = r.last.loss;
    run_destroy(&r);
    return status;
}

/* Load into a run that has late updates waiting, as --spike-guard does. */
static enum status load(const struct layout *l, const char *folder, double *loss) {
    struct run r;
    char step[CHECKPOINT_PATH_MAX];
    enum status status = open_run(l, &r);
    if (status == OK) status = steps(&r, 4);
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK) status = steps(&r, 5);
    *loss = r.last.loss;
    run_destroy(&r);
    return status;
}

TEST(test_checkpoints_of_tables_load_in_any_layout) {
    for (int i = 0; i < N_LAYOUTS; i++)
        for (int k = 0; k < N_LAYOUTS; k++) {
            char folder[CHECKPOINT_PATH_MAX], name[32];
            double expected, found;
            if (LAYOUTS[i].delay != LAYOUTS[k].delay) continue;
            snprintf(name, sizeof name, "tables-%d-%d", i, k);
            snprintf(folder, sizeof folder, "%s", test_path(name));
            assert_ok(comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0));
            bool ok = agree_all(save(&LAYOUTS[i], folder, &expected) == OK);
            ok = ok && agree_all(load(&LAYOUTS[k], folder, &found) == OK);
            status_report();
            assert_true(ok);
            assert_close(found, expected, 1e-12);
        }
}

TESTS(unit_test(test_checkpoints_of_tables_load_in_any_layout))

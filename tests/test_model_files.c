/* ranks: 8  device: cpu
 *
 * Eight ranks (dp2 tp2 pp2, zero 1) train a model, which is exported, imported and exported again; weights and files
 * are the same to the byte. The imported model trains the same in every layout (--init), while --resume refuses it. */
#include "driver/recipe.h"
#include "models/gpt/gpt_hf.h"
#include "models/gpt/gpt_llmc.h"
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint_tensor.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEPS = 2 };

/* A path that all ranks share: in rank 0's folder for tests. */
static void shared_path(const char *name, char path[CHECKPOINT_PATH_MAX]) {
    snprintf(path, CHECKPOINT_PATH_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, CHECKPOINT_PATH_MAX, UINT8, 0);
}

static struct plan plan_of(bool parallel, int precision) {
    struct plan p = parity_plan();
    p.precision = precision;
    p.layers = 2;
    p.global_batch = 8;
    p.micro_batch = 2;
    if (parallel) p.mesh.dp = p.mesh.tp = p.mesh.pp = 2, plan_set_number(&p, "zero", 1);
    return p;
}

static enum status open_run(struct run *r, struct plan p) {
    memset(r, 0, sizeof *r);
    TRY(plan_settle(&p, plan_ranks(&p)));
    TRY(run_create(r, &train_recipe, &p, WATCH_NOTHING));
    return layout_use_demo(r);
}

static enum status train_and_save(int precision, const char *save) {
    struct run r;
    enum status status = open_run(&r, plan_of(true, precision));
    for (int i = 0; i < STEPS && status == OK; i++) status = run_step(&r);
    if (status == OK) status = checkpoint_save(&r, save, 0);
    run_destroy(&r);
    return status;
}

/* ---- bytes ---- */

/* Is every weight of one checkpoint equal to the other's? The names and shapes come from a run of one rank. */
static enum status same_weights(const struct run *serial, const char *a, const char *b, bool *same) {
    struct checkpoint_reader *r = NULL, *s = NULL;
    enum status status = checkpoint_open(a, &r);
    if (status == OK) status = checkpoint_open(b, &s);
    for (int i = 0; i < serial->program.n_params && status == OK; i++) {
        const struct param *w = &serial->program.params[i];
        size_t bytes = (size_t)type_n(&w->type) * sizeof(double);
        double *x = malloc(bytes), *y = malloc(bytes);
        status = checkpoint_read_weight(r, w->name, &w->type.shape, FP64, x);
        if (status == OK) status = checkpoint_read_weight(s, w->name, &w->type.shape, FP64, y);
        *same &= status == OK && !memcmp(x, y, bytes);
        free(x);
        free(y);
    }
    checkpoint_close(&r);
    checkpoint_close(&s);
    return status;
}

/* ---- export, import, export ---- */

struct places { char file[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX], imported[CHECKPOINT_PATH_MAX]; };

static struct places places_of(const char *name) {
    struct places p;
    char folder[64];
    snprintf(folder, sizeof folder, "%s-1", name);
    snprintf(p.file, sizeof p.file, "%s/model", test_path(folder));
    mkdir(test_path(folder), 0777);
    folder[strlen(folder) - 1] = '2';
    snprintf(p.again, sizeof p.again, "%s/model", test_path(folder));
    mkdir(test_path(folder), 0777);
    shared_path(name, p.imported);
    return p;
}

static enum status export_to(const char *save, const char *path, bool hf, enum dtype dtype) {
    struct checkpoint_reader *r;
    TRY(checkpoint_open(save, &r));
    enum status status = hf ? gpt_hf_export(r, N_DTYPES, path) : gpt_llmc_export(r, dtype, path);
    checkpoint_close(&r);
    return status;
}

static enum status round_trip(const char *save, const struct places *p, bool hf, enum dtype dtype) {
    struct checkpoint_model m;
    TRY(export_to(save, p->file, hf, dtype));
    TRY(hf ? gpt_hf_import(p->file, 0, p->imported, &m) : gpt_llmc_import(p->file, 0, p->imported, &m));
    return export_to(p->imported, p->again, hf, dtype);
}

/* Rank 0 does the work; `exact`: the format holds the checkpoint's precision. */
static bool comes_back(const char *save, int precision, bool hf, enum dtype dtype, bool exact,
                       char imported[CHECKPOINT_PATH_MAX]) {
    char name[32];
    snprintf(name, sizeof name, "%s-%d-%d", hf ? "hf" : "llmc", precision, dtype);
    struct places p = places_of(name);
    strcpy(imported, p.imported);
    if (!comm_is_rank_0()) return agree_all(true);
    struct run serial;
    struct plan plan = plan_of(false, precision);
    bool same = plan_settle(&plan, 1) == OK && run_compile(&serial, &train_recipe, &plan, 0, NULL, NULL) == OK;
    bool weights_same = same;
    enum status status = same ? round_trip(save, &p, hf, dtype) : E_INTERNAL;
    if (status == OK && exact) status = same_weights(&serial, save, p.imported, &weights_same);
    same = status == OK && weights_same && test_same_files(p.file, p.again);
    if (!same) print_message("%s: %s\n", name, status == OK ? "other bytes" : status_text());
    run_destroy(&serial);
    return agree_all(same);
}

/* ---- a run that begins with an imported model ---- */

static enum status losses_from(const char *save, struct plan p, double losses[STEPS]) {
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    enum status status = open_run(&r, p);
    if (status == OK) status = checkpoint_resolve(save, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_WEIGHTS);
    for (int i = 0; i < STEPS && status == OK; i++) {
        status = run_step(&r);
        losses[i] = r.last.loss;
    }
    run_destroy(&r);
    return status;
}

/* `limit`: of the relative difference. If the model itself rounds (bf16 and fp32), losses of a first step agree
 * to its precision. */
static bool trains_the_same(const char *save, int precision, int n, double limit) {
    double serial[STEPS] = {0}, parallel[STEPS] = {0};
    bool ok = agree_all(losses_from(save, plan_of(false, precision), serial) == OK);
    ok = ok && agree_all(losses_from(save, plan_of(true, precision), parallel) == OK);
    for (int i = 0; i < n && ok; i++) ok = fabs(parallel[i] / serial[i] - 1) <= limit;
    if (!ok && comm_is_rank_0())
        print_message("precision %d: losses %.17g and %.17g\n", precision, serial[0], parallel[0]);
    return agree_all(ok);
}

static bool cannot_be_resumed(const char *save, struct plan p) {
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    bool ok = agree_all(open_run(&r, p) == OK && checkpoint_resolve(save, step) == OK);
    test_stderr_keep();
    enum status status = ok ? checkpoint_load(&r, step, CHECKPOINT_ALL) : E_INTERNAL;
    const char *text = test_stderr_text();
    bool said = agree_max(strstr(text, "holds weights alone") && strstr(text, "--init")) == 1;
    run_destroy(&r);
    return agree_all(status == E_FORMAT && said);
}

TEST(test_an_fp64_model_goes_out_and_in) {
    char save[CHECKPOINT_PATH_MAX], imported[CHECKPOINT_PATH_MAX];
    shared_path("fp64", save);
    bool ok = agree_all(train_and_save(PRECISION_FP64, save) == OK);
    ok = ok && comes_back(save, PRECISION_FP64, true, FP64, true, imported);
    ok = ok && trains_the_same(imported, PRECISION_FP64, STEPS, 1e-10);
    ok = ok && trains_the_same(imported, PRECISION_FP32, 1, ldexp(1, -16));
    ok = ok && comes_back(save, PRECISION_FP64, false, BF16, false, imported);
    ok = ok && trains_the_same(imported, PRECISION_FP64, STEPS, 1e-10);
    assert_true(agree_all(ok));
}

/* bf16: export takes the masters, in fp32, and llm.c's format holds fp32, too. */
TEST(test_a_bf16_models_masters_go_out_and_in) {
    char save[CHECKPOINT_PATH_MAX], imported[CHECKPOINT_PATH_MAX];
    shared_path("bf16", save);
    bool ok = agree_all(train_and_save(PRECISION_BF16, save) == OK);
    ok = ok && comes_back(save, PRECISION_BF16, true, FP32, true, imported);
    ok = ok && comes_back(save, PRECISION_BF16, false, FP32, true, imported);
    ok = ok && trains_the_same(imported, PRECISION_BF16, 1, ldexp(1, -6));
    ok = ok && cannot_be_resumed(imported, plan_of(true, PRECISION_BF16));
    assert_true(agree_all(ok));
}

TESTS(unit_test(test_an_fp64_model_goes_out_and_in), unit_test(test_a_bf16_models_masters_go_out_and_in))

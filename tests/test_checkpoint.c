/* ranks: 1 2  more: 4 8  device: any  threads: 1
 *
 * Promise 5: a checkpoint of any layout loads in any other. Eighteen layouts that cover all techniques train two steps,
 * save, and train three more. Then each layout loads another's checkpoint, and its next three losses must be those of
 * the uninterrupted run: within 1e-10 (fp64), and to the bit if the layouts are the same. LONG=1: every pair. Anything
 * but a whole checkpoint of this model is refused in one line. */
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/checkpoint_tensor.h"
#include "mixed_precision/mixed_precision.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECOND = N_COMPANIES, COPIES, N_LAYOUTS, BEFORE = 2, AFTER = 3 };

/* A path that all ranks share: in rank 0's folder for tests. */
static void shared_path(const char *name, char path[CHECKPOINT_PATH_MAX]) {
    snprintf(path, CHECKPOINT_PATH_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, CHECKPOINT_PATH_MAX, UINT8, 0);
}

static enum status open_run(struct run *r, struct plan p) {
    p.device = test_device()->kind == DEVICE_CUDA ? PLAN_DEVICE_CUDA : PLAN_DEVICE_CPU;
    return layout_open(r, p, WATCH_NOTHING);
}

static enum status steps(struct run *r, int n, double *losses) {
    for (int i = 0; i < n; i++) {
        TRY(run_step(r));
        if (losses) losses[i] = r->last.loss;
    }
    return OK;
}

/* After the companies: replicas, of which each two share a second copy of weights, or a state (ZeRO). */
static struct plan nth_plan(int i) {
    struct plan p = parity_plan();
    if (i < N_COMPANIES) return layout_in_company(p, i);
    p.mesh.dp = comm_world_size(), p.micro_batch = 2;
    plan_set_number(&p, "zero", 3);
    if (p.mesh.dp > 2) *(i == SECOND ? &zero_options(&p)->secondary : &zero_options(&p)->shard) = 2;
    return p;
}

/* Only copies lie between the files and a GPU. So there two layouts are enough, on up to two ranks, and the refusals
 * are tested on the CPU only. */
static bool on_cuda(void) { return test_device()->kind == DEVICE_CUDA; }

/* ---- any layout from any other ---- */

static void folder_of(int layout, char path[CHECKPOINT_PATH_MAX]) {
    char name[32];
    snprintf(name, sizeof name, "layout-%d", layout);
    shared_path(name, path);
}

static enum status train_and_save(int layout, double losses[AFTER]) {
    char folder[CHECKPOINT_PATH_MAX];
    struct run r;
    folder_of(layout, folder);
    enum status status = open_run(&r, nth_plan(layout));
    if (status == OK) status = steps(&r, BEFORE, NULL);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = steps(&r, AFTER, losses);
    run_destroy(&r);
    return status;
}

static enum status load_and_train(int layout, int from, double losses[AFTER]) {
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    struct run r;
    folder_of(from, folder);
    enum status status = open_run(&r, nth_plan(layout));
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK && r.n_done != BEFORE) status = FAIL(E_INTERNAL, "resumed at step %d", (int)r.n_done);
    if (status == OK) status = steps(&r, AFTER, losses);
    run_destroy(&r);
    return status;
}

static double difference(const double *a, const double *b) {
    double worst = 0;
    for (int i = 0; i < AFTER; i++) worst = fmax(worst, fabs(a[i] - b[i]) / fabs(b[i]));
    return worst;
}

static bool same_losses(const double *found, const double *expected, bool to_the_bit, int layout, int from) {
    double d = difference(found, expected);
    bool ok = to_the_bit ? d == 0 : d < 1e-10;
    if (!ok && comm_is_rank_0()) print_message("layout %d from %d: the losses differ by %g\n", layout, from, d);
    return ok;
}

TEST(test_a_checkpoint_of_any_layout_loads_in_any_other) {
    if (on_cuda() && comm_world_size() > 2) skip();
    double expected[N_LAYOUTS][AFTER], found[AFTER];
    int n = on_cuda() ? 2 : N_LAYOUTS;
    bool ok = true, every = on_cuda() || layouts_want_all();
    for (int i = 0; i < n; i++) {
        ok &= agree_all(train_and_save(i, expected[i]) == OK);
        ok = ok && same_losses(expected[i], expected[0], false, i, 0);
    }
    for (int i = 0; i < n && ok; i++)
        for (int from = 0; from < n; from++) {
            if (!every && from != i && from != (i * 3 + 5) % n) continue;
            bool loaded = agree_all(load_and_train(i, from, found) == OK);
            ok &= loaded && same_losses(found, expected[i], from == i, i, from);
        }
    assert_true(agree_all(ok));
}

/* ---- other precisions ---- */

static struct plan plan_in(int precision) {
    struct plan p = nth_plan(1);
    p.precision = precision;
    p.micro_batch = 2;
    mixed_precision_options(&p)->init = 65536;
    mixed_precision_options(&p)->min = 1;
    mixed_precision_options(&p)->window = 3;
    mixed_precision_options(&p)->hysteresis = 2;
    return p;
}

/* Record the loss and the loss scale of each step. */
static enum status scaled_steps(struct run *r, double losses[AFTER], double scales[AFTER]) {
    for (int i = 0; i < AFTER; i++) {
        TRY(run_step(r));
        losses[i] = r->last.loss;
        scales[i] = r->last.loss_scale;
    }
    return OK;
}

/* fp16: the loss scale continues, too, here across its doubling after three clean steps, two of them before the
 * save. */
TEST(test_a_loss_scale_goes_on_where_it_was) {
    if (on_cuda()) skip();
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    double expected[AFTER], found[AFTER], scales[2][AFTER] = {{0}};
    struct run r;
    shared_path("fp16", folder);
    enum status status = open_run(&r, plan_in(PRECISION_FP16));
    if (status == OK) status = steps(&r, BEFORE, NULL);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = scaled_steps(&r, expected, scales[0]);
    run_destroy(&r);
    bool ok = agree_all(status == OK);
    status = open_run(&r, plan_in(PRECISION_FP16));
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK) status = scaled_steps(&r, found, scales[1]);
    run_destroy(&r);
    ok &= agree_all(status == OK) && difference(found, expected) == 0 && difference(scales[0], scales[1]) == 0;
    ok &= scales[0][0] == 65536 && scales[0][1] == 2 * 65536;
    assert_true(agree_all(ok));
}

/* A bf16 run saves its masters, in fp32. An fp32 run that loads them has the bf16 run's validation loss, up to
 * bf16's rounding. */
TEST(test_a_bf16_checkpoint_loads_in_fp32) {
    if (on_cuda() && comm_world_size() > 2) skip();
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    double narrow = 0, wide = 1;
    struct run r;
    shared_path("bf16", folder);
    enum status status = open_run(&r, plan_in(PRECISION_BF16));
    if (status == OK) status = steps(&r, BEFORE, NULL);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = run_evaluate(&r, 1, &narrow);
    run_destroy(&r);
    bool ok = agree_all(status == OK);
    status = open_run(&r, plan_in(PRECISION_FP32));
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_WEIGHTS);
    ok &= r.n_done == 0;
    if (status == OK) status = run_evaluate(&r, 1, &wide);
    run_destroy(&r);
    ok &= agree_all(status == OK) && fabs(narrow / wide - 1) < ldexp(1, -8);
    assert_true(agree_all(ok));
}

/* ---- what is refused ---- */

/* Rank 0 damages the files; all ranks wait. */
typedef void damage(const char *step);
static void do_damage(damage *what, const char *step) {
    if (comm_is_rank_0()) what(step);
    (void)comm_barrier(group_world());
}

static void shard_of(const char *step, char path[CHECKPOINT_PATH_MAX]) {
    snprintf(path, CHECKPOINT_PATH_MAX, "%s/rank-00000.safetensors", step);
}

static void flip(const char *path, long at) {
    FILE *f = fopen(path, "r+");
    if (!f) return;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    fseek(f, at % n, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at % n, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
}
static void flip_at(const char *step, long at) {
    char path[CHECKPOINT_PATH_MAX];
    shard_of(step, path);
    flip(path, at);
}
static void flip_in_length(const char *step) { flip_at(step, 1); }
static void flip_in_header(const char *step) { flip_at(step, 100); }
static void flip_in_tensor(const char *step) { flip_at(step, 123457); }
static void cut_off(const char *step) {
    char path[CHECKPOINT_PATH_MAX];
    shard_of(step, path);
    if (truncate(path, 1000) != 0) print_message("cannot cut off %s\n", path);
}
static void take_away(const char *step) {
    char path[CHECKPOINT_PATH_MAX];
    shard_of(step, path);
    remove(path);
}
static void spoil_manifest(const char *step) {
    char path[CHECKPOINT_PATH_MAX];
    snprintf(path, sizeof path, "%s/manifest.json", step);
    if (truncate(path, 200) != 0) print_message("cannot cut off %s\n", path);
}

static enum status save_steps(const char *folder, int n) {
    struct run r;
    enum status status = open_run(&r, nth_plan(0));
    for (int i = 0; i < n && status == OK; i++) {
        status = steps(&r, 1, NULL);
        if (status == OK) status = checkpoint_save(&r, folder, 0);
    }
    run_destroy(&r);
    return status;
}

static enum status try_to_load(const char *step, struct plan p) {
    struct run r;
    enum status status = open_run(&r, p);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    run_destroy(&r);
    return status;
}

/* Every rank is refused with this code, and one of them prints a line with these words. */
static bool is_refused(const char *step, struct plan p, enum status expected, const char *words) {
    test_stderr_keep();
    bool same = agree_all(try_to_load(step, p) == expected);
    const char *text = test_stderr_text();
    bool said = agree_max(strstr(text, words) != NULL) == 1;
    if (!said && *text) print_message("expected '%s' in: %s\n", words, text);
    return same && said;
}

/* A save that fails prints nothing: each rank keeps the line. */
static bool is_not_saved(struct run *r, const char *folder, enum status expected, const char *words) {
    bool ok = checkpoint_save(r, folder, 0) == expected && strstr(status_text(), words) != NULL;
    if (!ok) print_message("expected '%s' in: %s\n", words, status_text());
    status_clear();
    return agree_all(ok);
}

TEST(test_what_is_not_a_whole_checkpoint_is_refused) {
    if (on_cuda()) skip();
    static const struct { damage *what; enum status status; const char *words; } cases[] = {
        {flip_in_length, E_FORMAT, "is damaged"}, {flip_in_header, E_FORMAT, "is damaged"},
        {flip_in_tensor, E_FORMAT, "is damaged"},
        {cut_off, E_FORMAT, "truncated"}, {take_away, E_DATA, "which the manifest lists"},
        {spoil_manifest, E_FORMAT, "is not JSON"}};
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[CHECKPOINT_PATH_MAX], name[32], first[CHECKPOINT_PATH_MAX + 16], second[CHECKPOINT_PATH_MAX];
        snprintf(name, sizeof name, "refused-%zu", i);
        shared_path(name, folder);
        ok &= agree_all(save_steps(folder, 2) == OK) && agree_all(checkpoint_resolve(folder, second) == OK);
        do_damage(cases[i].what, second);
        ok &= is_refused(second, nth_plan(0), cases[i].status, cases[i].words);
        snprintf(first, sizeof first, "%s/step-00000001", folder);
        ok &= agree_all(try_to_load(first, nth_plan(0)) == OK);      /* the one before is untouched */
    }
    assert_true(agree_all(ok));
}

TEST(test_another_model_is_refused) {
    if (on_cuda()) skip();
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    shared_path("model", folder);
    bool ok = agree_all(save_steps(folder, 1) == OK) && agree_all(checkpoint_resolve(folder, step) == OK);
    struct plan p = nth_plan(0);
    p.vocab = 137;
    ok &= is_refused(step, p, E_FORMAT, "vocab is 131 there and 137 here");
    p = nth_plan(0);
    p.seed = 77;
    ok &= is_refused(step, p, E_FORMAT, "seed=1234, and seed=77");
    assert_true(agree_all(ok));
}

/* ---- another length of sequences: the run saves 8 positions, and a shorter one loads the table's first ---- */
static struct plan plan_of_seq(const char *arch, int company, int64_t seq) {
    struct plan p = parity_plan();
    (void)recipe_arch(&p, arch);
    p.seq = seq;
    return layout_in_company(p, company);
}

static enum status save_arch(const char *arch, char step[CHECKPOINT_PATH_MAX]) {
    char folder[CHECKPOINT_PATH_MAX];
    struct run r;
    shared_path(arch, folder);
    enum status status = open_run(&r, plan_of_seq(arch, 5, 8));
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = checkpoint_resolve(folder, step);
    run_destroy(&r);
    return status;
}

/* The largest difference of this rank's weights from the files'. Element i of a cropped table is the whole's. */
static double far_from_files(const struct run *r, const char *step) {
    struct checkpoint_reader *files;
    double far = 0;
    if (checkpoint_open(step, &files) != OK) return NAN;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        struct shape shape = w->type.shape;
        if (!param_is_stored(w)) continue;
        for (int a = 0; a < shape.n_axes; a++)
            if (shape.axis[a].tag == 'T') shape.axis[a].global = 8;
        double *whole = calloc((size_t)shape_global_n(&shape) + 1, sizeof *whole);
        enum status status = checkpoint_read_weight(files, w->name, &shape, FP64, whole);
        far = status == OK ? fmax(far, layout_own_difference(r, w, false, whole)) : NAN;
        free(whole);
    }
    checkpoint_close(&files);
    return far;
}

static bool begins_with_it(const char *step, struct plan p, bool said) {
    struct run r;
    test_stderr_keep();
    enum status status = open_run(&r, p);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_WEIGHTS);
    bool line = strstr(test_stderr_text(), "positions 0 to 3 of 8 are taken");
    bool ok = status == OK && line == (said && comm_is_rank_0()) && far_from_files(&r, step) == 0;
    if (ok) ok = run_step(&r) == OK;
    if (!ok) print_message("%s of seq %d: %s\n", p.arch->name, (int)p.seq, status_text());
    run_destroy(&r);
    return agree_all(ok);
}

static enum status begin(const char *step, struct plan p) {
    struct run r;
    enum status status = open_run(&r, p);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_WEIGHTS);
    run_destroy(&r);
    return status;
}

TEST(test_weights_serve_another_length_of_sequences) {
    if (on_cuda()) skip();
    char gpt[CHECKPOINT_PATH_MAX], llama[CHECKPOINT_PATH_MAX];
    enum log_level level = log_get_level();
    bool ok = agree_all(save_arch("gpt", gpt) == OK) && agree_all(save_arch("llama", llama) == OK);
    log_set_level(LOG_INFO);
    for (int company = 0; company < N_COMPANIES && ok; company += 3) {
        ok &= begins_with_it(gpt, plan_of_seq("gpt", company, 4), true);
        ok &= begins_with_it(llama, plan_of_seq("llama", company, 4), false);
    }
    log_set_level(level);
    ok = ok && begins_with_it(llama, plan_of_seq("llama", 0, 16), false);
    ok = ok && is_refused(gpt, plan_of_seq("gpt", 0, 4), E_FORMAT, "--init");
    ok = ok && is_refused(llama, plan_of_seq("llama", 0, 4), E_FORMAT, "seq=8, and seq=4 is requested");
    test_stderr_keep();
    ok = ok && agree_all(begin(gpt, plan_of_seq("gpt", 0, 16)) == E_FORMAT);
    bool said = strstr(test_stderr_text(), "use --seq 8 or less");
    assert_true(agree_all(ok) && agree_max(said) == 1);
}

/* The save stores the weight, so the file is whole; loading refuses the file. */
TEST(test_a_weight_that_is_no_number_is_refused) {
    if (on_cuda()) skip();
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    struct run r;
    double nan = NAN;
    shared_path("nan", folder);
    enum status status = open_run(&r, nth_plan(0));
    for (int i = 0; i < r.program.n_params && status == OK; i++) {
        const struct param *w = &r.program.params[i];
        if (w->present && w->own_n > 2)
            status = r.device->upload(r.device, (double *)param_own_weight(w) + 1, &nan, sizeof nan);
    }
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    run_destroy(&r);
    bool ok = agree_all(status == OK) && agree_all(checkpoint_resolve(folder, step) == OK);
    ok &= is_refused(step, nth_plan(0), E_FORMAT, "not finite");
    assert_true(agree_all(ok));
}

/* ---- folders ---- */

static bool is_there(const char *folder, const char *name) {
    char path[CHECKPOINT_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

TEST(test_old_checkpoints_go_and_unfinished_ones_too) {
    if (on_cuda()) skip();
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX], left[2 * CHECKPOINT_PATH_MAX + 128];
    struct run r;
    shared_path("keep", folder);
    bool ok = agree_all(open_run(&r, nth_plan(0)) == OK);
    for (int i = 0; i < 4; i++) {
        ok &= agree_all(steps(&r, 1, NULL) == OK);
        if (i == 3 && comm_is_rank_0()) {                      /* as if a save had been killed */
            snprintf(left, sizeof left, "mkdir -p %s/.step-00000002 && touch %s/.step-00000002/rank-00000.safetensors",
                     folder, folder);
            ok &= system(left) == 0;
        }
        ok &= agree_all(checkpoint_save(&r, folder, 2) == OK);
    }
    run_destroy(&r);
    ok &= !is_there(folder, "step-00000001") && !is_there(folder, "step-00000002") &&
          is_there(folder, "step-00000003") && is_there(folder, "step-00000004") && !is_there(folder, ".step-00000002");
    ok &= checkpoint_resolve(folder, step) == OK && strstr(step, "step-00000004") != NULL;
    assert_true(agree_all(ok));
}

/* Save twice at the same step: the second checkpoint replaces the first. */
TEST(test_a_step_may_be_saved_twice) {
    if (on_cuda()) skip();
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    shared_path("twice", folder);
    bool ok = agree_all(save_steps(folder, 1) == OK) && agree_all(save_steps(folder, 1) == OK);
    ok &= agree_all(checkpoint_resolve(folder, step) == OK) && agree_all(try_to_load(step, nth_plan(0)) == OK) &&
          !is_there(folder, ".step-00000001");
    assert_true(agree_all(ok));
}

TEST(test_a_place_that_cannot_be_written_is_named) {
    if (on_cuda()) skip();
    struct run r;
    bool ok = agree_all(open_run(&r, nth_plan(0)) == OK) && agree_all(steps(&r, 1, NULL) == OK);
    ok &= is_not_saved(&r, "/proc/nowhere", E_IO, "/proc/nowhere");
    ok &= agree_all(steps(&r, 1, NULL) == OK);                       /* training continues */
    run_destroy(&r);
    assert_true(agree_all(ok));
}

TESTS(unit_test(test_a_checkpoint_of_any_layout_loads_in_any_other), unit_test(test_a_loss_scale_goes_on_where_it_was),
      unit_test(test_a_bf16_checkpoint_loads_in_fp32), unit_test(test_what_is_not_a_whole_checkpoint_is_refused),
      unit_test(test_another_model_is_refused), unit_test(test_weights_serve_another_length_of_sequences),
      unit_test(test_a_weight_that_is_no_number_is_refused),
      unit_test(test_old_checkpoints_go_and_unfinished_ones_too), unit_test(test_a_step_may_be_saved_twice),
      unit_test(test_a_place_that_cannot_be_written_is_named))

/* ranks: 1 2 4 8  device: any  threads: 1
 *
 * A checkpoint that is written during training has the state of the step at whose edge it begins, even if the weights
 * change before it is on the disk: its files equal those of a synchronous save. Its copy takes the planned memory. If
 * one rank cannot write a file, every rank fails, and training continues. */
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint_save.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BEFORE = 2, AFTER = 3 };

static void shared_path(const char *name, char path[CHECKPOINT_PATH_MAX]) {
    snprintf(path, CHECKPOINT_PATH_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, CHECKPOINT_PATH_MAX, UINT8, 0);
}

static enum status steps(struct run *r, int n) {
    for (int i = 0; i < n; i++) TRY(run_step(r));
    return OK;
}

/* Open a run and train BEFORE steps. */
static enum status open_run(struct run *r, int layout, int precision) {
    struct plan p = layout_in_company(parity_plan(), layout);
    p.device = test_device()->kind == DEVICE_CUDA ? PLAN_DEVICE_CUDA : PLAN_DEVICE_CPU;
    p.precision = precision;
    plan_set_number(&p, "save-async", true);
    snprintf(p.save, sizeof p.save, "somewhere");
    TRY(layout_open(r, p, WATCH_PEAKS));
    return steps(r, BEFORE);
}

/* ---- the same bytes ---- */

static bool same_shards(const char *a, const char *b) {
    char x[CHECKPOINT_PATH_MAX + 64], y[CHECKPOINT_PATH_MAX + 64];
    int rank = comm_world_rank();
    snprintf(x, sizeof x, "%s/step-%08d/rank-%05d.safetensors", a, BEFORE, rank);
    snprintf(y, sizeof y, "%s/step-%08d/rank-%05d.safetensors", b, BEFORE, rank);
    bool same = test_same_files(x, y);
    snprintf(x, sizeof x, "%s/step-%08d/manifest.json", a, BEFORE);
    snprintf(y, sizeof y, "%s/step-%08d/manifest.json", b, BEFORE);
    return same && test_same_files(x, y);
}

/* Train while the checkpoint is written, and poll at every edge. */
static enum status save_beside(struct run *r, const char *folder, bool *ended) {
    struct checkpoint_saver *saver;
    struct checkpoint_saved saved = {0};
    TRY(checkpoint_save_start(r, folder, 0, &saver));
    enum status status = OK;
    for (int i = 0; i < AFTER && status == OK; i++) {
        status = run_step(r);
        if (status == OK && saver) status = checkpoint_save_poll(&saver, false, &saved);
    }
    if (status == OK && saver) status = checkpoint_save_poll(&saver, true, &saved);
    *ended = saved.ended && saved.step == BEFORE && saver == NULL;
    checkpoint_save_abandon(&saver);
    return status;
}

static bool copy_is_as_planned(const struct run *r) {
    int64_t bytes[N_TIERS][N_ROLES], *host = bytes[TIER_HOST], planned = r->memory.bytes[TIER_HOST][ROLE_SAVE];
    bool ok = run_measure(r, bytes) == OK && host[ROLE_SAVE] == planned &&
              planned == memory_save_bytes(&r->program, r->bill.technique_save_bytes);
    if (!ok) print_message("the copy: %" PRId64 " bytes planned, %" PRId64 " measured\n", planned, host[ROLE_SAVE]);
    return ok;
}

static bool beside_equals_at_once(int layout, int precision) {
    char at_once[CHECKPOINT_PATH_MAX], beside[CHECKPOINT_PATH_MAX];
    bool ended = false;
    struct run r;
    shared_path("at-once", at_once);
    shared_path("beside", beside);
    enum status status = open_run(&r, layout, precision);
    if (status == OK) status = checkpoint_save(&r, at_once, 0);
    if (status == OK) status = save_beside(&r, beside, &ended);
    bool ok = status == OK && ended && copy_is_as_planned(&r) && same_shards(at_once, beside);
    run_destroy(&r);
    return agree_all(ok);
}

/* Only copies lie between the files and a GPU, so there a small world is enough. */
static bool leaves_it_to_the_cpu(void) { return test_device()->kind == DEVICE_CUDA && comm_world_size() > 2; }

TEST(test_what_is_written_beside_training_is_of_its_step) {
    if (leaves_it_to_the_cpu()) skip();
    static const int layouts[] = {0, 3, 5, 8, 11};
    int n = test_device()->kind == DEVICE_CUDA ? 2 : 5;
    bool ok = true;
    for (int i = 0; i < n; i++) ok &= beside_equals_at_once(layouts[i], i == 1 ? PRECISION_BF16 : PRECISION_FP64);
    assert_true(agree_all(ok));
}

/* The thread may come to a tensor late: here it writes everything after a step that changed every weight. */
static enum status write_after_a_step(struct run *r, const char *late, struct shard *out) {
    struct shard_plan plan;
    const struct arena *save = &r->arenas[TIER_HOST][ROLE_SAVE];
    enum status status = checkpoint_plan_shard(r, &plan);
    if (status == OK) status = checkpoint_take_copy(&plan, arena_at(save, 0), save->bytes);
    if (status == OK) checkpoint_use_copy(&plan, arena_at(save, 0));
    if (status == OK) status = run_step(r);
    if (status == OK) status = checkpoint_write_shard(&plan, late, out);
    checkpoint_shard_plan_fini(&plan);
    return status;
}

TEST(test_the_copy_does_not_change) {
    if (leaves_it_to_the_cpu()) skip();
    char at_once[CHECKPOINT_PATH_MAX], late[CHECKPOINT_PATH_MAX], now[CHECKPOINT_PATH_MAX + 64];
    struct shard shard;
    struct run r;
    shared_path("now", at_once);
    shared_path("late", late);
    snprintf(late + strlen(late), 16, "-%d", comm_world_rank());
    snprintf(now, sizeof now, "%s/step-%08d/rank-%05d.safetensors", at_once, BEFORE, comm_world_rank());
    enum status status = open_run(&r, 2, PRECISION_FP64);
    if (status == OK) status = checkpoint_save(&r, at_once, 0);
    if (status == OK) status = write_after_a_step(&r, late, &shard);
    run_destroy(&r);
    assert_true(agree_all(status == OK && test_same_files(now, late)));
}

/* ---- failures ---- */

/* Limit files of this process to `bytes`, so that the thread meets a full disk. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(test_a_file_that_cannot_be_written_fails_on_every_rank) {
    if (test_device()->kind == DEVICE_CUDA) skip();
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    bool ended = false;
    struct run r;
    shared_path("limited", folder);
    bool ok = agree_all(open_run(&r, 0, PRECISION_FP64) == OK);
    if (comm_world_rank() == comm_world_size() - 1) limit_files(4096);
    enum status status = save_beside(&r, folder, &ended);
    ok &= agree_all(status == E_IO && !ended && strstr(status_text(), "File too large") != NULL);
    status_clear();
    limit_files(RLIM_INFINITY);
    ok &= checkpoint_resolve(folder, step) == E_DATA;                /* nothing is named `latest`, */
    status_clear();
    if (comm_is_rank_0()) ok &= rmdir(folder) == 0;            /* and nothing takes room */
    (void)comm_barrier(group_world());
    ok &= agree_all(checkpoint_save(&r, folder, 0) == OK && checkpoint_resolve(folder, step) == OK);
    run_destroy(&r);
    assert_true(agree_all(ok));
}

/* A save that is abandoned half-way: the thread ends before its memory is freed, and nothing is named `latest`. */
TEST(test_a_save_that_is_given_up_names_nothing) {
    if (leaves_it_to_the_cpu()) skip();
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    struct checkpoint_saver *saver = NULL;
    struct run r;
    shared_path("given-up", folder);
    bool ok = agree_all(open_run(&r, 0, PRECISION_FP64) == OK) &&
              agree_all(checkpoint_save_start(&r, folder, 0, &saver) == OK);
    checkpoint_save_abandon(&saver);
    run_destroy(&r);
    ok &= saver == NULL && checkpoint_resolve(folder, step) == E_DATA;
    status_clear();
    assert_true(agree_all(ok));
}

/* Without planned memory there is no place for the copy. */
TEST(test_a_copy_that_was_not_planned_is_refused) {
    if (leaves_it_to_the_cpu()) skip();
    char folder[CHECKPOINT_PATH_MAX];
    struct checkpoint_saver *saver = NULL;
    struct run r;
    shared_path("unplanned", folder);
    bool ok = agree_all(open_run(&r, 0, PRECISION_FP64) == OK);
    r.arenas[TIER_HOST][ROLE_SAVE].bytes = 64;
    ok &= agree_all(checkpoint_save_start(&r, folder, 0, &saver) == E_INTERNAL && saver == NULL);
    status_clear();
    run_destroy(&r);
    assert_true(agree_all(ok));
}

TESTS(unit_test(test_what_is_written_beside_training_is_of_its_step), unit_test(test_the_copy_does_not_change),
      unit_test(test_a_file_that_cannot_be_written_fails_on_every_rank),
      unit_test(test_a_save_that_is_given_up_names_nothing), unit_test(test_a_copy_that_was_not_planned_is_refused))

/* ranks: 1 2  device: cpu  threads: 1
 *
 * Samples that a thread reads ahead: how many are late, counted and not timed, and runs that have the same bits with
 * the thread and without. */
#include "lib/data/data_ahead.h"

#include "driver/recipe.h"
#include "lib/data/clicks.h"
#include "lib/data/data_write.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- a slow file: the thread's reads wait while the gate is closed, and the step's do not ---- */
enum { WORDS = 3, BAD_SAMPLE = 77 };
static struct { pthread_t step; atomic_bool closed; atomic_int begun, by_thread, by_step; } slow;

static void nap(void) { usleep(1000); }

static bool slow_read(void *self, int64_t sample, int32_t *words) {
    assert_ptr_equal(self, &slow);
    bool step = pthread_equal(pthread_self(), slow.step);
    if (!step) atomic_fetch_add(&slow.begun, 1);
    while (!step && atomic_load(&slow.closed)) nap();
    for (int i = 0; i < WORDS; i++) words[i] = (int32_t)(10 * sample + i);
    atomic_fetch_add(step ? &slow.by_step : &slow.by_thread, 1);
    return sample != BAD_SAMPLE;
}

static struct data_ahead *open_slow(int n_slots, bool closed) {
    struct data_ahead *a;
    memset(&slow, 0, sizeof slow);
    slow.step = pthread_self();
    atomic_store(&slow.closed, closed);
    assert_ok(data_ahead_create(n_slots, WORDS, test_block((size_t)(n_slots * WORDS) * sizeof(int32_t)),
                                (struct data_ahead_reader){&slow, slow_read}, &a));
    return a;
}

static void until(atomic_int *count, int n) {
    while (atomic_load(count) < n) nap();
}

static void expect_words(const int32_t *words, int64_t sample) {
    assert_non_null(words);
    for (int i = 0; i < WORDS; i++) assert_int_equal(words[i], 10 * sample + i);
}

static void expect_late(const struct data_ahead *a, int64_t taken, int64_t late) {
    assert_int_equal(data_ahead_counts(a).taken, taken);
    assert_int_equal(data_ahead_counts(a).late, late);
}

TEST(test_steps_of_a_slow_file_wait_for_no_sample_that_was_read_ahead) {
    enum { STEPS = 6, N = 4, WINDOW = 2 };
    struct data_ahead *a = open_slow(WINDOW * N, false);
    for (int step = 0; step < STEPS; step++)                         /* without the thread every sample is a wait */
        for (int k = 0; k < N; k++) assert_null(data_ahead_take(a, step * N + k));
    expect_late(a, STEPS * N, STEPS * N);
    for (int step = 0; step < STEPS; step++) {
        for (int ahead = step; ahead < step + WINDOW; ahead++)
            for (int k = 0; k < N; k++) data_ahead_put(a, ahead % WINDOW * N + k, ahead * N + k);
        until(&slow.by_thread, (step + WINDOW) * N);                 /* the step before took long enough */
        for (int k = 0; k < N; k++) expect_words(data_ahead_take(a, step * N + k), step * N + k);
    }
    expect_late(a, 2 * STEPS * N, STEPS * N);
    assert_int_equal(slow.by_step, 0);
    assert_int_equal(slow.by_thread, (STEPS + WINDOW - 1) * N);      /* each sample once */
    data_ahead_destroy(&a);
    assert_null(a);
}

TEST(test_a_step_reads_what_the_thread_has_not_begun) {
    struct data_ahead *a = open_slow(3, true);
    for (int k = 0; k < 3; k++) data_ahead_put(a, k, k);
    until(&slow.begun, 1);                                           /* it reads sample 0 */
    expect_words(data_ahead_take(a, 1), 1);
    expect_words(data_ahead_take(a, 1), 1);                          /* now the slot has it */
    expect_late(a, 2, 1);
    assert_int_equal(slow.by_step, 1);
    atomic_store(&slow.closed, false);
    expect_words(data_ahead_take(a, 0), 0);                          /* waits, if the read is not over */
    until(&slow.by_thread, 2);
    expect_words(data_ahead_take(a, 2), 2);
    assert_int_equal(slow.by_step, 1);
    data_ahead_destroy(&a);
}

static void *open_gate(void *unused) {
    for (int i = 0; i < 20; i++) nap();
    atomic_store(&slow.closed, false);
    return unused;
}

TEST(test_a_step_waits_for_the_end_of_a_read) {
    struct data_ahead *a = open_slow(2, true);
    pthread_t opener;
    data_ahead_put(a, 0, 5);
    until(&slow.begun, 1);
    assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
    expect_words(data_ahead_take(a, 5), 5);
    expect_late(a, 1, 1);
    assert_int_equal(slow.by_thread, 1);
    assert_int_equal(slow.by_step, 0);
    pthread_join(opener, NULL);
    data_ahead_destroy(&a);
}

TEST(test_a_sample_that_cannot_be_read_is_left_to_the_step) {
    struct data_ahead *a = open_slow(2, false);
    data_ahead_put(a, 0, BAD_SAMPLE);
    data_ahead_put(a, 1, 8);
    until(&slow.by_thread, 2);
    assert_null(data_ahead_take(a, BAD_SAMPLE));
    expect_words(data_ahead_take(a, 8), 8);
    data_ahead_destroy(&a);
}

TEST(test_another_order_and_other_data_leave_nothing_behind) {
    struct data_ahead *a = open_slow(2, false);
    data_ahead_put(a, 0, 1);
    data_ahead_put(a, 1, 2);
    until(&slow.by_thread, 2);
    data_ahead_put(a, 0, 1);                                         /* it has it */
    data_ahead_put(a, 1, 9);
    until(&slow.by_thread, 3);
    assert_null(data_ahead_take(a, 2));
    expect_words(data_ahead_take(a, 9), 9);
    expect_words(data_ahead_take(a, 1), 1);
    data_ahead_forget(a);
    assert_null(data_ahead_take(a, 1));
    assert_null(data_ahead_take(a, 0));                              /* a free slot is not sample 0 */
    data_ahead_put(a, 0, 1);
    until(&slow.by_thread, 4);
    expect_words(data_ahead_take(a, 1), 1);
    data_ahead_destroy(&a);
}

static int n_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *e; tasks && (e = readdir(tasks));) n += e->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return n;
}

TEST(test_no_thread_is_left) {
    int before = n_threads();
    struct data_ahead *a = open_slow(8, false);
    if (before > 0) assert_int_equal(n_threads(), before + 1);
    for (int k = 0; k < 8; k++) data_ahead_put(a, k, k);             /* ends with samples unread */
    data_ahead_destroy(&a);
    for (int i = 0; i < 1000 && n_threads() > before; i++) nap();
    assert_int_equal(n_threads(), before);
}

/* ---- runs ---- */
enum { TOKENS = 3000, RUN_STEPS = 3 };

static int32_t token(int i) { return (i * 7 + i / 11 * 3) % 97; }

static void write_tokens(const char *path, enum data_target target, int first, int n) {
    struct data_writer *w;
    assert_ok(data_write_create(path, target, 97, &w));
    for (int i = first; i < first + n; i++) {
        int32_t x = token(i);
        assert_ok(data_write_tokens(w, &x, 1));
        if (i % 500 == 499) assert_ok(data_write_end_document(w));
    }
    assert_ok(data_write_end_document(w));
    assert_ok(data_write_finish(&w));
}

static const char *write_text(const char *name) {
    const char *path = test_path(name);
    FILE *f = fopen(path, "w");
    for (int i = 0; i < TOKENS; i++) fputc(' ' + token(i) % 60, f);
    fclose(f);
    return path;
}

/* The files of data: text, llm.c's and Megatron's tokens, a list. */
enum { N_FILES = 4 };
static struct data_file *file_of(int which) {
    static struct data_file *files[N_FILES];
    char list[4096];
    if (files[which]) return files[which];
    if (which == 0) assert_ok(data_open(write_text("a.txt"), &files[0]));
    if (which == 1 || which == 2) {
        char path[2048];
        snprintf(path, sizeof path, "%s", test_path(which == 1 ? "a.bin" : "m.bin"));
        write_tokens(path, which == 1 ? DATA_TO_LLMC : DATA_TO_MEGATRON, 0, TOKENS);
        assert_ok(data_open(path, &files[which]));
    }
    if (which == 3) {
        char one[2000], two[2000];
        snprintf(one, sizeof one, "%s", test_path("one.bin"));
        snprintf(two, sizeof two, "%s", test_path("two.bin"));
        write_tokens(one, DATA_TO_LLMC, 0, 1234);
        write_tokens(two, DATA_TO_LLMC, 1234, TOKENS - 1234);
        snprintf(list, sizeof list, "%s,%s", one, two);
        assert_ok(data_open(list, &files[3]));
    }
    return files[which];
}

static enum status open_run(struct run *r, struct plan p, int file, int ahead) {
    struct data_split train, val;
    memset(r, 0, sizeof *r);
    p.vocab = 131;
    plan_set_number(&p, "data-ahead", ahead);
    TRY(plan_settle(&p, comm_world_size()));
    TRY(run_create(r, &train_recipe, &p, WATCH_PEAKS));
    TRY(data_split_tail(file_of(file), p.seq, 0.1, &train, &val));
    run_set_data(r, &train, &val);
    return OK;
}

/* Steps, an evaluation, a skip of 5 samples, steps. Sums up all losses' bits. */
static enum status train_around(struct run *r, uint64_t *bits) {
    double loss[2 * RUN_STEPS + 1];
    int n = 0;
    for (int i = 0; i < RUN_STEPS; i++, loss[n++] = r->last.loss) TRY(run_step(r));
    TRY(run_evaluate(r, 0, &loss[n++]));
    run_go_on_at_sample(r, run_samples_used(r) + 5);
    for (int i = 0; i < RUN_STEPS; i++, loss[n++] = r->last.loss) TRY(run_step(r));
    for (int i = 0; i < n; i++) {
        uint64_t one;
        memcpy(&one, &loss[i], sizeof one);
        *bits = *bits * 31 + one;
    }
    return OK;
}

/* How many samples of the last step have a slot. */
static int64_t n_held(const struct run *r) {
    int64_t late = data_ahead_counts(r->train.ahead).late, B = r->plan.global_batch, before = run_samples_used(r) - B;
    for (int64_t s = before; s < before + B; s++)
        (void)data_ahead_take(r->train.ahead, data_shuffled(&r->train, (uint64_t)r->plan.seed, s));
    return B - (data_ahead_counts(r->train.ahead).late - late);
}

static int64_t n_read(const struct run *r) {
    for (int d = 0; d < N_DATA; d++)
        for (int k = 0; k < r->program.n_chunks; k++)
            if (r->chunks[k].data[d] >= 0) return 2 * RUN_STEPS * r->plan.n_microbatches * r->plan.micro_batch;
    return 0;
}

/* The bits of a run, and whether all its samples came through the ring, and its bytes are those that were planned. */
static bool same_run(struct plan p, int file, int ahead, uint64_t *bits) {
    struct run r;
    int64_t bytes[N_TIERS][N_ROLES];
    *bits = 0;
    enum status status = open_run(&r, p, file, ahead);
    if (status == OK) status = train_around(&r, bits);
    if (status == OK) status = run_measure(&r, bytes);
    status_report();
    bool ok = status == OK;
    if (ok && ahead) {
        struct data_ahead_counts n = data_ahead_counts(r.train.ahead);
        int64_t planned = r.memory.bytes[TIER_HOST][ROLE_WORK];
        int64_t samples = n_read(&r), words = (ahead + 1) * samples / 2 / RUN_STEPS * (p.seq + 1);
        ok = n.taken == samples && (!samples || n_held(&r) == samples / 2 / RUN_STEPS);
        ok = ok && planned == 4 * words && bytes[TIER_HOST][ROLE_WORK] == planned;
        if (!ok) fprintf(stderr, "file %d ahead %d: %d taken of %d, %d bytes planned, %d measured\n", file, ahead,
                         (int)n.taken, (int)samples, (int)planned, (int)bytes[TIER_HOST][ROLE_WORK]);
    }
    run_destroy(&r);
    return agree_all(ok);
}

static struct plan layout(int which) {
    struct plan p = parity_plan();
    int n = comm_world_size();
    p.steps = 2 * RUN_STEPS;
    p.micro_batch = 1;
    p.global_batch = 4;
    p.mesh.dp = which == 0 ? n : 1;
    if (which == 1) p.mesh.pp = n;
    if (which == 2) p.mesh.tp = n;
    return p;
}

TEST(test_runs_have_the_same_bits_with_every_file_and_layout) {
    for (int file = 0; file < N_FILES; file++) {                     /* on two ranks each file has its layout */
        uint64_t without, with;
        int which = comm_world_size() == 1 ? 0 : file % 3;
        assert_true(same_run(layout(which), file, 0, &without));
        assert_true(same_run(layout(which), file, 1 + file % 2, &with));
        assert_true(without == with);
    }
}

/* ---- a token that is not in the vocabulary ends the run as before ---- */
static struct data_file *damaged(void) {
    static struct data_file *file;
    if (file) return file;
    FILE *f = fopen(test_path("damaged.txt"), "w");
    for (int i = 0; i < TOKENS; i++) fputc(i / 8 == 40 ? 'z' : ' ' + token(i) % 60, f);
    fclose(f);
    assert_ok(data_open(test_path("damaged.txt"), &file));
    return file;
}

static int64_t steps_to_failure(int ahead, char why[512]) {
    struct run r = {.n_done = 0};
    struct data_split train, val;
    struct plan p = layout(0);
    p.vocab = 100, p.steps = 200;
    plan_set_number(&p, "data-ahead", ahead);
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_create(&r, &train_recipe, &p, WATCH_NOTHING));
    assert_ok(data_split_tail(damaged(), p.seq, 0, &train, &val));
    run_set_data(&r, &train, &val);
    enum status status = OK;
    while (r.n_done < 200 && status == OK) status = run_step(&r);
    assert_int_equal(status, E_DATA);
    snprintf(why, 512, "%s", status_message());
    status_clear();
    int64_t done = r.n_done;
    run_destroy(&r);
    return done;
}

TEST(test_a_bad_token_ends_the_same_step_with_the_same_line) {
    char without[512], with[512];
    if (comm_world_size() > 1) return;
    int64_t done = steps_to_failure(0, without);
    assert_true(done > 2 && strstr(without, "token 122 at position") && strstr(without, "use --vocab"));
    assert_int_equal(steps_to_failure(2, with), done);
    assert_string_equal(with, without);
}

/* ---- clicks ---- */
static const struct clicks_layout CLICKS = {3, 4, 2, 60, 0};

static enum status run_clicks(int by_row, int ahead, double loss[RUN_STEPS], int64_t *held) {
    static struct data_file *file;
    struct data_split train, val;
    struct run r = {.n_done = 0};
    struct plan p;
    double best;
    if (!file) TRY(clicks_synth(test_path("clicks"), &CLICKS, 600, 7, &best));
    if (!file) TRY(data_open(test_path("clicks"), &file));
    TRY(recipe_plan(&p));
    TRY(recipe_arch(&p, "dlrm"));
    plan_set_number(&p, "features", 4), plan_set_number(&p, "bag", 2), plan_set_number(&p, "dense", 3);
    plan_set_word(&p, "mlp-bottom", "7", 0), plan_set_word(&p, "mlp-top", "9-5", 0);
    p.layers = p.heads = p.seq = 1, p.hidden = 4, p.vocab = 60, p.global_batch = 16, p.micro_batch = 2;
    p.steps = RUN_STEPS, p.precision = PRECISION_FP64, p.device = PLAN_DEVICE_CPU;
    plan_set_number(&p, "emb-by", by_row);
    plan_set_number(&p, "data-ahead", ahead);
    enum status status = plan_settle(&p, comm_world_size());
    if (status == OK) status = run_create(&r, &train_recipe, &p, WATCH_NOTHING);
    if (status == OK) status = clicks_split(file, 0.1, &train, &val);
    if (status == OK) run_set_data(&r, &train, &val);
    for (int i = 0; status == OK && i < RUN_STEPS; i++) {
        status = run_step(&r);
        loss[i] = r.last.loss;
    }
    *held = status == OK && ahead ? n_held(&r) : 0;
    run_destroy(&r);
    return status;
}

TEST(test_clicks_have_the_same_bits) {
    for (int by_row = 0; by_row < 2; by_row++) {
        double without[RUN_STEPS], with[RUN_STEPS];
        int64_t none, held;
        bool ok = run_clicks(by_row, 0, without, &none) == OK;
        ok &= run_clicks(by_row, 2, with, &held) == OK;
        status_report();
        assert_true(agree_all(ok));
        assert_int_equal(none, 0);
        assert_int_equal(held, 16);                                  /* its tables' ids are of all replicas */
        assert_memory_equal(with, without, sizeof with);
    }
}

TESTS(unit_test(test_steps_of_a_slow_file_wait_for_no_sample_that_was_read_ahead),
      unit_test(test_a_step_reads_what_the_thread_has_not_begun), unit_test(test_a_step_waits_for_the_end_of_a_read),
      unit_test(test_a_sample_that_cannot_be_read_is_left_to_the_step),
      unit_test(test_another_order_and_other_data_leave_nothing_behind), unit_test(test_no_thread_is_left),
      unit_test(test_runs_have_the_same_bits_with_every_file_and_layout),
      unit_test(test_a_bad_token_ends_the_same_step_with_the_same_line), unit_test(test_clicks_have_the_same_bits))

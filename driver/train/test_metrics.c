/* ranks: 1  device: cpu */
#include "driver/train/metrics.h"
#include "tests/test.h"
#include <fcntl.h>
#include <float.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct metrics_row example(void) {
    return (struct metrics_row){.step = 12, .steps = 2000, .loss = 2.31072, .grad_norm = 0.8312, .lr = 6e-4,
                                .step_s = 0.0412, .tokens_per_s = 49710.2, .mfu = 0.3812, .flops_per_token = 1.25e6,
                                .mem_peak_bytes = (int64_t)412 << 20, .comm_bytes = 1e6 / 3, .comm_s = 0.0031,
                                .bubble_s = 0.0017, .data_s = 0.0003, .loss_scale = 1, .tokens_seen = 24576};
}

/* ---- the file ---- */
static const char *path;

static const struct metrics_manner fresh = {.append = false}, append = {.append = true};

static struct metrics open_file(void) {
    struct metrics m;
    path = test_path("metrics.jsonl");
    assert_ok(metrics_open(&m, path, fresh));
    return m;
}

/* Line n of the file, from 0. Static storage. */
static const char *line(int n) {
    static char text[4096];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    bool got = true;
    for (int i = 0; got && i <= n; i++) got = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    return got ? text : NULL;
}

static json_t *parse(int n) {
    json_error_t error;
    json_t *row = json_loads(line(n), 0, &error);
    if (!row) fail_msg("line %d is no JSON: %s", n, error.text);
    return row;
}

/* Write a file with one training row. */
static json_t *written(const struct metrics_row *r) {
    struct metrics m = open_file();
    enum status status = metrics_step(&m, r);
    metrics_close(&m);
    assert_ok(status);
    return parse(0);
}

static void check_keys(json_t *row, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!json_object_get(row, keys[i])) fail_msg("the row has no %s", keys[i]);
    assert_int_equal(json_object_size(row), n);
}

TEST(test_training_row_has_exactly_the_promised_keys) {
    const char *const keys[] = {"step",           "loss",         "grad_norm",  "lr",
                                "step_ms",        "tokens_per_s", "mfu",        "flops_per_token",
                                "mem_peak_bytes", "comm_bytes",   "comm_ms",    "bubble_ms",
                                "data_wait_ms",   "skipped",      "loss_scale", "tokens_seen"};
    struct metrics_row r = example();
    json_t *row = written(&r);
    check_keys(row, keys, sizeof keys / sizeof *keys);
    assert_true(json_is_integer(json_object_get(row, "step")) &&
                json_is_integer(json_object_get(row, "mem_peak_bytes")) &&
                json_is_integer(json_object_get(row, "tokens_seen")) && json_is_false(json_object_get(row, "skipped")));
    json_decref(row);
}

TEST(test_a_row_with_experts_says_what_they_lose) {
    struct metrics_row r = example();
    r.experts = true, r.aux_loss = 0.0125, r.expert_load = 1.5, r.dropped = 0.0625;
    json_t *row = written(&r);
    assert_int_equal(json_object_size(row), 19);
    assert_close(json_real_value(json_object_get(row, "aux_loss")), 0.0125, 0);
    assert_close(json_real_value(json_object_get(row, "expert_load")), 1.5, 0);
    assert_close(json_real_value(json_object_get(row, "dropped")), 0.0625, 0);
    json_decref(row);
}

static double real_of(const json_t *row, const char *key) { return json_real_value(json_object_get(row, key)); }
static int64_t integer_of(const json_t *row, const char *key) { return json_integer_value(json_object_get(row, key)); }

TEST(test_every_value_lands_under_its_key_and_in_its_unit) {
    struct metrics_row r = example();
    r.skipped = true;
    r.loss_scale = 65536;
    json_t *row = written(&r);
    assert_int_equal(integer_of(row, "step"), 12);
    assert_int_equal(integer_of(row, "mem_peak_bytes"), r.mem_peak_bytes);
    assert_int_equal(integer_of(row, "tokens_seen"), 24576);
    assert_close(real_of(row, "loss"), r.loss, 0);
    assert_close(real_of(row, "grad_norm"), r.grad_norm, 0);
    assert_close(real_of(row, "lr"), r.lr, 0);
    assert_close(real_of(row, "step_ms"), 1e3 * r.step_s, 0);
    assert_close(real_of(row, "tokens_per_s"), r.tokens_per_s, 0);
    assert_close(real_of(row, "mfu"), r.mfu, 0);
    assert_close(real_of(row, "flops_per_token"), r.flops_per_token, 0);
    assert_close(real_of(row, "comm_bytes"), r.comm_bytes, 0);
    assert_close(real_of(row, "comm_ms"), 1e3 * r.comm_s, 0);
    assert_close(real_of(row, "bubble_ms"), 1e3 * r.bubble_s, 0);
    assert_close(real_of(row, "data_wait_ms"), 1e3 * r.data_s, 0);
    assert_close(real_of(row, "loss_scale"), 65536, 0);
    assert_true(json_is_true(json_object_get(row, "skipped")));
    json_decref(row);
}

TEST(test_a_row_with_a_disk_says_what_went_there) {
    struct metrics_row r = example();
    r.on_disk = true, r.disk = (struct disk_traffic){40960, 8192, 0.5};
    json_t *row = written(&r);
    assert_true(json_integer_value(json_object_get(row, "disk_read_bytes")) == 40960 &&
                json_integer_value(json_object_get(row, "disk_write_bytes")) == 8192);
    assert_close(real_of(row, "disk_wait_ms"), 500, 0);
    json_decref(row);
}

TEST(test_evaluation_row_has_val_loss_and_never_loss) {
    const char *const keys[] = {"step", "val_loss"};
    struct metrics m = open_file();
    enum status status = metrics_evaluation(&m, 250, 1.0 / 3, NAN);
    metrics_close(&m);
    assert_ok(status);
    json_t *row = parse(0);
    check_keys(row, keys, 2);
    assert_int_equal(integer_of(row, "step"), 250);
    assert_close(real_of(row, "val_loss"), 1.0 / 3, 0);
    json_decref(row);
}

/* 17 digits identify every double, so that runs can be compared bit for bit by their files. */
TEST(test_doubles_come_back_bit_for_bit) {
    const double values[] = {0.1, 1.0 / 3, 2, -0.0, 1e22, DBL_MAX, DBL_MIN, 5e-324, 1 + DBL_EPSILON, 6.02214076e23};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct metrics_row r = example();
        r.loss = values[i];
        json_t *row = written(&r);
        double back = real_of(row, "loss");
        json_decref(row);
        assert_memory_equal(&back, &values[i], sizeof back);
    }
    struct metrics_row r = example();
    r.loss = 0.1;
    json_decref(written(&r));
    assert_non_null(strstr(line(0), "\"loss\":0.10000000000000001,"));
}

TEST(test_what_is_no_number_becomes_null) {
    const double values[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
        struct metrics_row r = example();
        r.loss = r.mfu = r.step_s = values[i];
        json_t *row = written(&r);
        assert_true(json_is_null(json_object_get(row, "loss")) && json_is_null(json_object_get(row, "mfu")) &&
                    json_is_null(json_object_get(row, "step_ms")));
        assert_close(real_of(row, "lr"), r.lr, 0);
        json_decref(row);
    }
}

/* A reader may follow the file during training: each row is a whole line, and written at once. */
TEST(test_each_row_is_one_line_and_there_at_once) {
    struct metrics m = open_file();
    struct metrics_row r = example();
    for (int i = 0; i < 3; i++) {
        r.step = i + 1;
        enum status status = i == 1 ? metrics_evaluation(&m, r.step, 2, NAN) : metrics_step(&m, &r);
        assert_ok(status);
        json_t *row = parse(i);
        assert_int_equal(integer_of(row, "step"), i + 1);
        json_decref(row);
        assert_null(line(i + 1));
    }
    metrics_close(&m);
}

/* ---- files of other runs ---- */
static void write_text(const char *name, const char *text) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void check_text(const char *name, const char *text) {
    char read[256] = "";
    FILE *f = fopen(name, "r");
    if (!f) fail_msg("there is no %s", name);
    size_t n = fread(read, 1, sizeof read - 1, f);
    read[n] = 0;
    fclose(f);
    assert_string_equal(read, text);
}

/* The first row sets the old rows aside, and replaces no other file. */
TEST(test_rows_of_an_earlier_run_get_another_name) {
    char first[512], second[512], link[512];
    path = test_path("kept.jsonl");
    snprintf(first, sizeof first, "%s", test_path("kept-1.jsonl"));
    snprintf(second, sizeof second, "%s", test_path("kept-2.jsonl"));
    snprintf(link, sizeof link, "%s", test_path("link.jsonl"));
    path = test_path("kept.jsonl");
    write_text(path, "old\n");
    write_text(first, "older\n");
    assert_int_equal(symlink(path, link), 0);
    struct metrics m;
    assert_ok(metrics_open(&m, link, fresh));
    check_text(path, "old\n");
    assert_ok(metrics_evaluation(&m, 1, 2, NAN));
    metrics_close(&m);
    check_text(path, "{\"step\":1,\"val_loss\":2.0}\n");
    check_text(link, "{\"step\":1,\"val_loss\":2.0}\n");
    check_text(first, "older\n");
    check_text(second, "old\n");
}

TEST(test_a_run_without_a_row_leaves_no_trace) {
    struct metrics m;
    path = test_path("untouched.jsonl");
    write_text(path, "old\n");
    assert_ok(metrics_open(&m, path, fresh));
    metrics_close(&m);
    check_text(path, "old\n");
    unlink(path);
    assert_ok(metrics_open(&m, path, append));
    metrics_close(&m);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Locks of a renamed file, and of the file that replaces it. A rank that replaces another rank waits for no lock. */
TEST(test_two_jobs_do_not_write_one_file) {
    struct metrics m, other;
    path = test_path("shared.jsonl");
    write_text(path, "old\n");
    assert_ok(metrics_open(&m, path, fresh));
    assert_fails(metrics_open(&other, path, append), E_IO, "shared.jsonl", "another job writes", "--metrics");
    metrics_close(&other);
    assert_ok(metrics_evaluation(&m, 1, 2, NAN));
    assert_fails(metrics_open(&other, path, fresh), E_IO, "shared.jsonl", "another job writes", "--metrics");
    metrics_close(&other);
    assert_ok(metrics_open(&other, path, (struct metrics_manner){.append = true, .take_over = true}));
    assert_ok(metrics_evaluation(&other, 2, 2, NAN));
    assert_ok(metrics_evaluation(&m, 3, 2, NAN));                    /* a late row overwrites none */
    metrics_close(&other);
    metrics_close(&m);
    check_text(path, "{\"step\":1,\"val_loss\":2.0}\n{\"step\":2,\"val_loss\":2.0}\n"
                     "{\"step\":3,\"val_loss\":2.0}\n");
    assert_ok(metrics_open(&m, path, append));
    metrics_close(&m);
}

/* ---- no file, bad file ---- */
TEST(test_an_empty_path_means_no_file) {
    struct metrics m;
    struct metrics_row r = example();
    assert_ok(metrics_open(&m, "", fresh));
    assert_null(m.file);
    assert_ok(metrics_step(&m, &r));
    assert_ok(metrics_evaluation(&m, 1, 2, NAN));
    metrics_close(&m);
}

TEST(test_a_path_that_cannot_be_written_is_refused) {
    struct metrics m;
    const char *nowhere = "/nowhere/at/all.jsonl";
    assert_fails(metrics_open(&m, nowhere, fresh), E_USAGE, "metrics=/nowhere/at/all.jsonl", "No such file",
                 "another path");
    assert_null(m.file);
}

TEST(test_a_full_disk_is_said) {
    struct metrics m;
    struct metrics_row r = example();
    assert_ok(metrics_open(&m, "/dev/full", fresh));
    enum status status = metrics_step(&m, &r);
    metrics_close(&m);
    assert_fails(status, E_IO, "metrics=/dev/full", "No space left");
}

/* A row that is cut off does not damage later rows, for which there is room. */
TEST(test_rows_go_on_when_there_is_room_again) {
    struct rlimit limit;
    struct metrics m = open_file();
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    assert_ok(metrics_evaluation(&m, 1, 2, NAN));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){40, limit.rlim_max}), 0);
    enum status cut = metrics_evaluation(&m, 2, 0.5, NAN), none = metrics_evaluation(&m, 3, 0.5, NAN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(cut == E_IO && none == E_IO);
    assert_ok(metrics_evaluation(&m, 4, 0.25, NAN));
    metrics_close(&m);
    assert_string_equal(line(0), "{\"step\":1,\"val_loss\":2.0}\n");
    assert_string_equal(line(2), "{\"step\":4,\"val_loss\":0.25}\n");
}

TEST(test_a_pipe_without_a_reader_is_not_waited_for) {
    struct metrics m;
    const char *pipe = test_path("metrics-unread");
    assert_int_equal(mkfifo(pipe, 0666), 0);
    alarm(20);
    assert_fails(metrics_open(&m, pipe, fresh), E_USAGE, "metrics-unread", "no process reads", "start its reader");
    alarm(0);
    metrics_close(&m);
}

TEST(test_a_reader_that_leaves_is_said) {
    struct metrics m;
    const char *pipe = test_path("metrics-pipe");
    assert_int_equal(mkfifo(pipe, 0666), 0);
    int reader = open(pipe, O_RDONLY | O_NONBLOCK);
    assert_ok(metrics_open(&m, pipe, fresh));
    assert_ok(metrics_evaluation(&m, 1, 2, NAN));
    close(reader);
    assert_fails(metrics_evaluation(&m, 2, 2, NAN), E_IO, "metrics-pipe", "Broken pipe");
    metrics_close(&m);
}

/* ---- the line on the terminal ---- */
static char *printed(const struct metrics_row *r) {
    char *text = NULL;
    size_t bytes;
    FILE *terminal = stdout, *memory = open_memstream(&text, &bytes);
    assert_non_null(memory);
    stdout = memory;                                                 /* glibc allows the assignment */
    metrics_print(r);
    stdout = terminal;
    fclose(memory);
    return text;
}

static void check_printed(const struct metrics_row *r, const char *expected) {
    char *text = printed(r);
    assert_string_equal(text, expected);
    free(text);
}

#define EXAMPLE_LINE \
    "step 12/2000 | loss 2.3107 | norm 0.83 | lr 6.00e-04 | 41.2 ms | 49710 tok/s | mfu 38.1% | mem 412 MiB"

TEST(test_printed_line_is_the_promised_one) {
    struct metrics_row r = example();
    check_printed(&r, EXAMPLE_LINE "\n");
    r.loss_scale = 65536;
    check_printed(&r, EXAMPLE_LINE " | scale 65536\n");
    r.skipped = true;
    check_printed(&r, EXAMPLE_LINE " | scale 65536 | skipped\n");
}

/* After an incomplete line of a killed run, new rows begin on a new line. */
TEST(test_appended_rows_follow_what_is_there) {
    struct metrics m = open_file();
    assert_ok(metrics_evaluation(&m, 1, 2, NAN));
    fputs("{\"st", m.file);
    metrics_close(&m);
    assert_ok(metrics_open(&m, path, append));
    assert_ok(metrics_evaluation(&m, 2, 0.5, NAN));
    metrics_close(&m);
    assert_ok(metrics_open(&m, path, append));
    assert_ok(metrics_evaluation(&m, 3, 0.25, NAN));
    metrics_close(&m);
    assert_string_equal(line(0), "{\"step\":1,\"val_loss\":2.0}\n");
    assert_string_equal(line(1), "{\"st\n");
    assert_string_equal(line(2), "{\"step\":2,\"val_loss\":0.5}\n");
    assert_string_equal(line(3), "{\"step\":3,\"val_loss\":0.25}\n");
    assert_null(line(4));
}

TESTS(unit_test(test_appended_rows_follow_what_is_there), unit_test(test_training_row_has_exactly_the_promised_keys),
      unit_test(test_a_row_with_a_disk_says_what_went_there),
      unit_test(test_a_row_with_experts_says_what_they_lose),
      unit_test(test_every_value_lands_under_its_key_and_in_its_unit),
      unit_test(test_evaluation_row_has_val_loss_and_never_loss), unit_test(test_doubles_come_back_bit_for_bit),
      unit_test(test_what_is_no_number_becomes_null), unit_test(test_each_row_is_one_line_and_there_at_once),
      unit_test(test_rows_of_an_earlier_run_get_another_name),
      unit_test(test_a_run_without_a_row_leaves_no_trace), unit_test(test_two_jobs_do_not_write_one_file),
      unit_test(test_an_empty_path_means_no_file),
      unit_test(test_a_path_that_cannot_be_written_is_refused), unit_test(test_a_full_disk_is_said),
      unit_test(test_rows_go_on_when_there_is_room_again), unit_test(test_a_reader_that_leaves_is_said),
      unit_test(test_a_pipe_without_a_reader_is_not_waited_for),
      unit_test(test_printed_line_is_the_promised_one))

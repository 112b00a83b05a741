/* ranks: 1  device: cpu */
#include "driver/recipe.h"
#include "driver/train/train_options.h"
#include "launch/launch_restart.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

/* ---- why ---- */
static const char *reason(const char *line) {
    static char text[256];
    launch_reason(line, text, sizeof text);
    return text;
}

TEST(test_reason_is_code_and_sentence) {
    assert_string_equal(reason("[rank 5/8 pp0 dp1 tp1 @node03] E_COMM launch.c:41 explain: rank 2 was killed: by 9; do "
                               "this\n"),
                        "E_COMM, rank 2 was killed: by 9");
    assert_string_equal(reason("E_IO a.c:1 f: no room\n"), "E_IO, no room");
    assert_string_equal(reason(""), "it gave no reason");
}

/* ---- whether ---- */
static struct launch_outcome ended(int code, const char *line) {
    struct launch_outcome o = {.code = code};
    snprintf(o.line, sizeof o.line, "%s", line);
    return o;
}

TEST(test_only_what_died_is_started_again) {
    struct launch_outcome died = ended(1, "[rank 0/2] E_TIMEOUT comm.c:7 f: no answer; look"), done = ended(0, ""),
                          later = ended(75, ""), bad = ended(2, "E_CONFIG a.c:1 f: x"),
                          nan = ended(1, "[rank 0/2 @a] E_NUMERIC run.c:7 f: the loss; lower lr");
    assert_int_equal(launch_judge(&died, 0, 3, 0), ATTEMPT_AGAIN);
    assert_int_equal(launch_judge(&done, 0, 3, 0), ATTEMPT_DONE);
    assert_int_equal(launch_judge(&later, 0, 3, 0), ATTEMPT_DONE);
    assert_int_equal(launch_judge(&bad, 0, 3, 0), ATTEMPT_DONE);
    assert_int_equal(launch_judge(&nan, 0, 3, 0), ATTEMPT_DONE);
    died.end.asked = true; /* a signal to launch means that it should end */
    assert_int_equal(launch_judge(&died, 0, 3, 0), ATTEMPT_DONE);
}

TEST(test_a_loss_that_is_not_finite_is_tried_once_more) {
    struct launch_outcome nan = ended(1, "[rank 0/2 @a] E_NUMERIC run.c:7 f: the loss of step 12 is nan; lower lr"),
                          fp16 = ended(1, "E_NUMERIC m.c:7 f: fp8: gradients overflow at step 7, for the 4th time"),
                          died = ended(1, "E_COMM a.c:1 f: step 3"), none = ended(1, "E_NUMERIC a.c:1 f: weird");
    assert_int_equal(launch_numeric_step(&nan), 12);
    assert_int_equal(launch_numeric_step(&fp16), 7);
    assert_int_equal(launch_numeric_step(&died), 0);
    assert_int_equal(launch_numeric_step(&none), 0);
    nan.end.asked = true;
    assert_int_equal(launch_numeric_step(&nan), 0);
    assert_int_equal(launch_judge_numeric(12, 0, true, 0, 3), ATTEMPT_AGAIN);
    assert_int_equal(launch_judge_numeric(12, 0, false, 0, 3), ATTEMPT_DONE);
    assert_int_equal(launch_judge_numeric(12, 12, true, 1, 3), ATTEMPT_DIVERGED);
    assert_int_equal(launch_judge_numeric(11, 12, true, 1, 3), ATTEMPT_DIVERGED);
    assert_int_equal(launch_judge_numeric(99, 12, true, 1, 3), ATTEMPT_AGAIN);  /* a later step: a new failure */
    assert_int_equal(launch_judge_numeric(99, 12, true, 3, 3), ATTEMPT_NO_MORE);
}

TEST(test_restarts_end) {
    struct launch_outcome died = ended(1, "E_COMM a.c:1 f: x");
    assert_int_equal(launch_judge(&died, 2, 3, 1), ATTEMPT_AGAIN);
    assert_int_equal(launch_judge(&died, 3, 3, 0), ATTEMPT_NO_MORE);
    assert_int_equal(launch_judge(&died, 2, 9, 2), ATTEMPT_STUCK);
}

TEST(test_checkpoint_is_new_by_name_or_time) {
    struct launch_latest none = {0}, old = {"step-00000100", 5}, again = {"step-00000100", 6},
    next = {"step-00000200", 7};
    assert_true(launch_is_newer(&old, &none));
    assert_true(launch_is_newer(&next, &old));
    assert_true(launch_is_newer(&again, &old)); /* another run's step 100, replaced by this one's */
    assert_false(launch_is_newer(&old, &old));
    assert_false(launch_is_newer(&none, &old));
}

TEST(test_progress_is_a_further_step_of_this_job) {
    struct launch_latest none = {0}, old = {"step-00000900", 5}, first = {"step-00000100", 6},
    again = {"step-00000100", 7}, next = {"step-00000200", 8};
    int64_t best = -1;
    assert_false(launch_is_further(&none, &none, &best));
    assert_false(launch_is_further(&old, &old, &best)); /* an older run's checkpoint */
    assert_true(launch_is_further(&first, &old, &best));
    assert_false(launch_is_further(&again, &old, &best));
    assert_true(launch_is_further(&next, &old, &best));
    assert_false(launch_is_further(&again, &old, &best));
    assert_int_equal(best, 200);
}

TEST(test_wait_doubles_up_to_a_minute) {
    assert_close(launch_backoff_s(1, 0), 1, 0);
    assert_close(launch_backoff_s(1, 3), 8, 0);
    assert_close(launch_backoff_s(1, 6), 60, 0);
    assert_close(launch_backoff_s(0.5, 1000000), 60, 0);
    assert_close(launch_backoff_s(0, 1000), 0, 0);
}

/* ---- with how many ---- */
TEST(test_fewer_ranks_keep_tp_pp_and_divide_the_batch) {
    struct plan p = {.mesh = {.tp = 1, .pp = 1}, .global_batch = 8};
    assert_int_equal(launch_fewer_ranks(&p, 8, 1), 4);
    assert_int_equal(launch_fewer_ranks(&p, 4, 3), 0); /* 3 does not divide 8 */
    assert_int_equal(launch_fewer_ranks(&p, 1, 1), 0);
    p.mesh.tp = p.mesh.pp = 2;
    p.global_batch = 12;
    assert_int_equal(launch_fewer_ranks(&p, 16, 1), 12);
    assert_int_equal(launch_fewer_ranks(&p, 4, 1), 0);  /* dp is 1 already */
    p.micro_batch = 4;
    assert_int_equal(launch_fewer_ranks(&p, 24, 1), 12); /* 12 / 4 is no multiple of the microbatch, 12 / 3 is */
    assert_int_equal(launch_fewer_ranks(&p, 24, 13), 0);
}

/* ---- without which host ---- */
static const char *failed_host(struct launch_facts facts, const char *line) {
    static char host[64];
    struct launch_outcome o = ended(1, line);
    o.facts = facts;
    launch_failed_host(&o, host);
    return host;
}

TEST(test_a_host_fails_by_its_own_ranks) {
    const struct launch_facts killed = {.host = "n02", .signal = 9}, told = {.host = "n02", .error_seen = true};
    assert_string_equal(failed_host(killed, "E_COMM launch.c:1 explain: rank 1 of 2 on host n02 was killed"), "n02");
    assert_string_equal(failed_host(told, "[rank 5/8 pp0 dp1 tp1 @n03] E_DEVICE a.c:1 f: the GPU is gone"), "n03");
    assert_string_equal(failed_host(told, "[rank 0/8 @n03] E_TIMEOUT a.c:1 f: no answer from rank 2"), "");
    assert_string_equal(failed_host((struct launch_facts){0}, "E_COMM a.c:1 f: x"), "");
}

/* ---- whose process ---- */
TEST(test_mark_is_a_whole_variable) {
    static const char environment[] = "A=1\0TRIVIUM_JOB=12.5\0B=TRIVIUM_JOB=12.6";
    assert_true(launch_mark_in(environment, sizeof environment, "TRIVIUM_JOB=12.5"));
    assert_false(launch_mark_in(environment, sizeof environment, "TRIVIUM_JOB=12."));
    assert_false(launch_mark_in(environment, sizeof environment, "TRIVIUM_JOB=12.6"));
    assert_false(launch_mark_in("TRIVIUM_JOB=12.5", 16, "TRIVIUM_JOB=12.5")); /* without NUL, the value may be longer */
    assert_false(launch_mark_in("", 0, "TRIVIUM_JOB=12.5"));
}

static const char *config(const char *name, const char *text) {
    const char *path = test_path(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

/* The settled words of command `text`, with `path` for each @, after launch_change(resume, dp); joined. Check that they
 * set the same options when parsed again. */
static const char *changed(const char *text, const char *path, const char *resume, int64_t dp, struct plan *before,
                           struct plan *after) {
    static char joined[4096];
    char copy[4096] = "", *command[32] = {NULL};
    int n = 0;
    for (char one[2] = ""; (one[0] = *text); text++) strcat(copy, *text == '@' ? path : one);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) command[n++] = word;
    struct options *read, *again;
    struct settled_words words, same;
    assert_ok(recipe_options_create(NULL, before, &read));
    assert_ok(options_parse(read, n - 1, command + 1));
    assert_ok(launch_change(read, resume, dp));
    assert_ok(launch_settle(command[0], read, &words));
    assert_null(words.at[words.n]);
    assert_ok(recipe_options_create(NULL, after, &again));
    assert_ok(options_parse(again, words.n - 1, words.at + 1));
    assert_ok(launch_settle(command[0], again, &same));
    joined[0] = 0;
    for (int i = 0; i < words.n; i++) {
        assert_string_equal(same.at[i], words.at[i]);
        strcat(strcat(joined, i ? " " : ""), words.at[i]);
    }
    settled_words_free(&same);
    settled_words_free(&words);
    options_destroy(&again);
    options_destroy(&read);
    return joined;
}

static const char *settled(const char *text, const char *path, struct plan *before, struct plan *after) {
    return changed(text, path, NULL, 0, before, after);
}

TEST(test_what_config_files_say_is_in_the_words) {
    struct plan before, after;
    const char *path = config("c.ini", "lr = 0.1\nsteps = 7\nmicro-batch = auto\nmetrics =\n");
    assert_string_equal(settled("train --dp 2 --config @ --steps 9", path, &before, &after),
                        "train --steps=9 --micro-batch=auto --lr=0.1 --dp=2 --metrics=");
    assert_int_equal(after.steps, 9);
    assert_true(after.lr == before.lr && after.micro_batch == before.micro_batch && !*train_options(&after)->metrics);
    settled("train --config=@", path, &before, &after);
    assert_int_equal(after.steps, 7);
    assert_string_equal(settled("train --dp 2", path, &before, &after), "train --dp=2");
    assert_non_null(strstr(settled("train --config demo", path, &before, &after), " --eval-every=100"));   /* by name */
    assert_non_null(strstr(settled("train --from @ --ignore a --ignore b", path, &before, &after), " --ignore=a,b"));
    assert_string_equal(train_options(&after)->from, path);        /* a rank that starts again reads the file, too */
}

/* A value of 160 characters in a config file is not cut. */
TEST(test_a_long_value_is_whole) {
    char text[256] = "schedule = file:";
    struct plan before, after;
    memset(text + strlen(text), 'x', 160);
    const char *path = config("long.ini", text);
    assert_string_equal(strstr(settled("train --config @", path, &before, &after), "file:"), strstr(text, "file:"));
}

TEST(test_another_attempt_goes_on_from_the_save_folder) {
    struct plan before, after;
    assert_string_equal(changed("train --save S --init w --dp 2", "", NULL, 0, &before, &after),
                        "train --dp=2 --save=S --init=w");
    assert_string_equal(changed("train --save S", "", "S", 0, &before, &after),
                        "train --save=S --resume=S --init= --metrics-append=on");
    assert_string_equal(changed("train --resume=other --init w --save S --sp", "", "S", 0, &before, &after),
                        "train --save=S --resume=S --init= --metrics-append=on --sp=on");
    assert_string_equal(train_options(&after)->resume, "S");
    assert_string_equal(train_options(&after)->init, "");
}

TEST(test_another_attempt_changes_nothing_else) {
    struct plan before, after;
    assert_string_equal(changed("train --dp 4 --resume o --steps 4", "", NULL, 3, &before, &after),
                        "train --steps=4 --dp=3 --resume=o");
    assert_int_equal(after.mesh.dp, 3);
}

TESTS(unit_test(test_reason_is_code_and_sentence), unit_test(test_only_what_died_is_started_again),
      unit_test(test_a_loss_that_is_not_finite_is_tried_once_more), unit_test(test_restarts_end),
      unit_test(test_checkpoint_is_new_by_name_or_time), unit_test(test_progress_is_a_further_step_of_this_job),
      unit_test(test_wait_doubles_up_to_a_minute), unit_test(test_fewer_ranks_keep_tp_pp_and_divide_the_batch),
      unit_test(test_a_host_fails_by_its_own_ranks), unit_test(test_mark_is_a_whole_variable),
      unit_test(test_what_config_files_say_is_in_the_words),
      unit_test(test_a_long_value_is_whole), unit_test(test_another_attempt_goes_on_from_the_save_folder),
      unit_test(test_another_attempt_changes_nothing_else))

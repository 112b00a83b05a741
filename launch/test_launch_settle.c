/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "driver/recipe.h"
#include "driver/train/train_options.h"
#include "launch/launch_settle.h"

#include <stdio.h>
#include <string.h>

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

TESTS(unit_test(test_what_config_files_say_is_in_the_words), unit_test(test_a_long_value_is_whole),
      unit_test(test_another_attempt_goes_on_from_the_save_folder),
      unit_test(test_another_attempt_changes_nothing_else))

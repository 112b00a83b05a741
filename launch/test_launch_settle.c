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

/* The words of `text`, with the file's path for each @, settled and joined. Parsed again, they set the same options. */
static const char *settled(const char *text, const char *path, struct plan *before, struct plan *after) {
    static char joined[4096];
    char copy[4096] = "", *command[32] = {NULL};
    int n = 0;
    for (char one[2] = ""; (one[0] = *text); text++) strcat(copy, *text == '@' ? path : one);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) command[n++] = word;
    struct options *read, *again;
    struct settled_words words;
    assert_ok(recipe_options_create(NULL, before, &read));
    assert_ok(options_parse(read, n - 1, command + 1));
    assert_ok(launch_settle(command, n, read, &words));
    assert_null(words.at[words.n]);
    assert_ok(recipe_options_create(NULL, after, &again));
    assert_ok(options_parse(again, words.n - 1, words.at + 1));
    joined[0] = 0;
    for (int i = 0; i < words.n; i++) strcat(strcat(joined, i ? " " : ""), words.at[i]);
    settled_words_free(&words);
    options_destroy(&again);
    options_destroy(&read);
    return joined;
}

TEST(test_what_config_files_say_is_in_the_words) {
    struct plan before, after;
    const char *path = config("c.ini", "lr = 0.1\nsteps = 7\nmicro-batch = auto\nmetrics =\n");
    assert_string_equal(settled("train --dp 2 --config @ --steps 9", path, &before, &after),
                        "train --micro-batch=auto --lr=0.1 --metrics= --dp 2 --steps 9");
    assert_int_equal(after.steps, 9);
    assert_true(after.lr == before.lr && after.micro_batch == before.micro_batch && !*train_options(&after)->metrics);
    settled("train --config=@", path, &before, &after);
    assert_int_equal(after.steps, 7);
    assert_string_equal(settled("train --dp 2", path, &before, &after), "train --dp 2");
}

/* The file that a config file may name has at most this line's length. */
TEST(test_a_long_value_is_whole) {
    char text[256] = "schedule = file:";
    struct plan before, after;
    memset(text + strlen(text), 'x', 160);
    const char *path = config("long.ini", text);
    assert_string_equal(strstr(settled("train --config @", path, &before, &after), "file:"), strstr(text, "file:"));
}

TESTS(unit_test(test_what_config_files_say_is_in_the_words), unit_test(test_a_long_value_is_whole))

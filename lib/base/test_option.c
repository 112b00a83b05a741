/* ranks: 1  device: cpu */
#include "lib/base/option.h"
#include "lib/base/option_private.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

struct target {
    int64_t layers, seed;
    double lr, tokens;
    int sp, recompute, recompute_n, schedule, after_schedule;
    char data[OPTION_TEXT_MAX];
    int order;
    char order_path[OPTION_TEXT_MAX];
    int64_t micro;
};

static const struct option MODEL[] = {
    {"layers", OPTION_INT, "4", 1, 1000, NULL, "", "transformer layers", "model", offsetof(struct target, layers)},
    {"tokens", OPTION_REAL, NULL, 0, INFINITY, NULL, "tokens", "to train on", "training",
     offsetof(struct target, tokens)},
};
static const struct option TRAINING[] = {
    {"seed", OPTION_INT, "1234", -9.3e18, 9.3e18, NULL, "", "of everything", "training", offsetof(struct target, seed)},
    {"lr", OPTION_REAL, "0.001", 0, 1, NULL, "", "peak learning rate", "training", offsetof(struct target, lr)},
    {"sp", OPTION_BOOL, "off", 0, 0, NULL, "", "shard the sequence too", "parallelism", offsetof(struct target, sp)},
    {"recompute", OPTION_CHOICE, "none", 0, 0, "none|selective|uniform:N", "", "what to replay", "memory",
     offsetof(struct target, recompute)},
    {"schedule", OPTION_CHOICE, "1f1b", 0, 0, "gpipe|1f1b", "", "order of microbatches", "parallelism",
     offsetof(struct target, schedule)},
    {"data", OPTION_TEXT, "", 0, 0, NULL, "", "file of tokens", "data", offsetof(struct target, data)},
    {"order", OPTION_CHOICE, "one", 0, 0, "one|file:PATH", "", "which order", "data", offsetof(struct target, order)},
};
/* "auto" becomes -1; users cannot type -1 */
static const struct option CHOSEN[] = {
    {"micro", OPTION_INT, "0", -1, 64, "auto", "", "sequences at a time", "training", offsetof(struct target, micro)},
};
static const struct option_table TABLES[] = {{MODEL, 2}, {TRAINING, 7}, {CHOSEN, 1}};

static struct target target;
static struct options *options;

static void begin(void) {
    memset(&target, 0x55, sizeof target); /* shows a field that is never set */
    assert_ok(options_create(TABLES, 3, &target, &options));
}
static void end(void) { options_destroy(&options); }

/* Split a line into words as a shell does, and parse them. */
static enum status parse(const char *line) {
    char words[4096], *argv[64];
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    return options_parse(options, argc, argv);
}

static const char *write_bytes(const char *name, const char *text, size_t n) {
    const char *path = test_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(text, 1, n, file);
    fclose(file);
    return path;
}
static const char *write_file(const char *name, const char *text) { return write_bytes(name, text, strlen(text)); }

/* ---- defaults, and each type of value ---- */

TEST(test_defaults_fill_every_field) {
    begin();
    assert_int_equal(target.layers, 4);
    assert_int_equal(target.seed, 1234);
    assert_close(target.lr, 0.001, 0);
    assert_close(target.tokens, 0, 0);
    assert_int_equal(target.sp, 0);
    assert_int_equal(target.recompute, 0);
    assert_int_equal(target.recompute_n, 0);
    assert_int_equal(target.schedule, 1);
    assert_int_equal(target.after_schedule, 0x55555555); /* only a choice with :N writes the int after its field */
    assert_string_equal(target.data, "");
    assert_int_equal(options_source(options, "layers"), FROM_DEFAULT);
    assert_int_equal(options_source(options, "no-such"), FROM_DEFAULT);
    end();
}

TEST(test_command_line_takes_both_forms) {
    begin();
    assert_ok(parse("--layers 12 --lr=3e-4 --tokens 7.5e9 --data=a=b.bin --seed -5 --schedule gpipe"));
    assert_int_equal(target.layers, 12);
    assert_close(target.lr, 3e-4, 0);
    assert_close(target.tokens, 7.5e9, 0);
    assert_string_equal(target.data, "a=b.bin");
    assert_int_equal(target.seed, -5);
    assert_int_equal(target.schedule, 0);
    assert_int_equal(options_source(options, "layers"), FROM_COMMAND_LINE);
    end();
}

TEST(test_flags_take_a_word_or_none) {
    static const struct { const char *line; int sp; } cases[] = {
        {"--sp", 1}, {"--sp on", 1}, {"--sp --layers 2", 1}, {"--sp=on", 1}, {"--sp true", 1}, {"--sp 1", 1},
        {"--sp off", 0}, {"--sp=false", 0}, {"--sp 0", 0}, {"--sp --sp off", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        assert_ok(parse(cases[i].line));
        assert_int_equal(target.sp, cases[i].sp);
        end();
    }
}

TEST(test_choice_with_a_number) {
    begin();
    assert_ok(parse("--recompute uniform:12"));
    assert_int_equal(target.recompute, 2);
    assert_int_equal(target.recompute_n, 12);
    assert_ok(parse("--recompute selective"));
    assert_int_equal(target.recompute, 1);
    assert_int_equal(target.recompute_n, 0);
    static const char *const wrong[] = {"uniform", "uniform:", "uniform:0", "uniform:-1", "uniform:2x", "uniform:N",
                                        "uniform:99999999999", "selective:2", "sel"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(options_set(options, "recompute", wrong[i], FROM_COMMAND_LINE), E_USAGE, wrong[i], "not a choice",
                     "use one of none, selective, uniform:N");
    end();
}

TEST(test_choice_with_a_path) {
    char text[64];
    begin();
    assert_ok(parse("--order file:a/b.csv"));
    assert_int_equal(target.order, 1);
    assert_string_equal(target.order_path, "a/b.csv");
    option_print_value(&TRAINING[6], &target.order, text, sizeof text);
    assert_string_equal(text, "file:a/b.csv");
    assert_ok(parse("--order one"));
    assert_int_equal(target.order, 0);
    assert_string_equal(target.order_path, "");
    static const char *const wrong[] = {"file", "file:", "fil:x", "one:x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(options_set(options, "order", wrong[i], FROM_COMMAND_LINE), E_USAGE, wrong[i], "not a choice",
                     "use one of one, file:PATH");
    end();
}

/* ---- refusals ---- */

TEST(test_numbers_that_are_refused) {
    static const struct { const char *line, *words[3]; } cases[] = {
        {"--layers abc", {"--layers abc", "is not an integer", "use an integer from 1 to 1000"}},
        {"--layers 3.5", {"--layers 3.5", "is not an integer", "from 1 to 1000"}},
        {"--layers 1e2", {"--layers 1e2", "is not an integer", "from 1 to 1000"}},
        {"--layers 0x10", {"--layers 0x10", "is not an integer", "from 1 to 1000"}},
        {"--layers=", {"--layers ", "is not an integer", "from 1 to 1000"}},
        {"--layers 0", {"--layers 0", "is out of range", "from 1 to 1000"}},
        {"--layers -3", {"--layers -3", "is out of range", "from 1 to 1000"}},
        {"--layers 1001", {"--layers 1001", "is out of range", "from 1 to 1000"}},
        {"--micro -1", {"--micro -1", "is out of range", "an integer from 0 to 64, or auto"}},
        {"--micro aut", {"--micro aut", "is not an integer", "or auto"}},
        {"--seed 9223372036854775808", {"9223372036854775808", "is out of range", "an integer from"}},
        {"--lr x", {"--lr x", "is not a number", "use a number from 0 to 1"}},
        {"--lr nan", {"--lr nan", "is not a number", "from 0 to 1"}},
        {"--lr inf", {"--lr inf", "is not a number", "from 0 to 1"}},
        {"--lr 0x1p3", {"--lr 0x1p3", "is not a number", "from 0 to 1"}},
        {"--lr 1e", {"--lr 1e", "is not a number", "from 0 to 1"}},
        {"--lr -1e-9", {"--lr -1e-9", "is out of range", "from 0 to 1"}},
        {"--lr 1.5", {"--lr 1.5", "is out of range", "from 0 to 1"}},
        {"--lr 1e999", {"--lr 1e999", "too large or too small", "from 0 to 1"}},
        {"--lr 1e-999", {"--lr 1e-999", "too large or too small", "from 0 to 1"}},
        {"--tokens -1", {"--tokens -1", "is out of range", "use a number of at least 0 (tokens)"}},
        {"--sp maybe", {"--sp maybe", "neither on nor off", "use on or off"}},
        {"--schedule 2f2b", {"--schedule 2f2b", "is not a choice", "use one of gpipe, 1f1b"}},
    };
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(parse(cases[i].line), E_USAGE, cases[i].words[0], cases[i].words[1], cases[i].words[2]);
    assert_int_equal(target.layers, 4); /* a refused value leaves the field as it was */
    assert_close(target.lr, 0.001, 0);
    end();
}

/* "auto" stands for a number that users cannot type. */
TEST(test_an_integer_may_be_a_word) {
    char text[16];
    begin();
    assert_ok(parse("--micro auto"));
    assert_int_equal(target.micro, -1);
    option_print_value(&CHOSEN[0], &target.micro, text, sizeof text);
    assert_string_equal(text, "auto");
    assert_ok(parse("--micro 64"));
    assert_int_equal(target.micro, 64);
    end();
}

TEST(test_integers_keep_all_64_bits) {
    begin();
    assert_ok(parse("--seed 9223372036854775807"));
    assert_true(target.seed == INT64_MAX);
    assert_ok(parse("--seed -9223372036854775808"));
    assert_true(target.seed == INT64_MIN);
    end();
}

TEST(test_missing_values_and_stray_words) {
    begin();
    assert_fails(parse("--layers"), E_USAGE, "--layers has no value", "an integer from 1 to 1000");
    assert_fails(parse("--layers --sp"), E_USAGE, "--layers has no value");
    assert_fails(parse("--config"), E_USAGE, "--config has no value", "ini file");
    assert_fails(parse("layers 3"), E_USAGE, "layers is not an option", "--name value");
    assert_fails(parse("-l 3"), E_USAGE, "-l is not an option");
    end();
}

TEST(test_unknown_options_get_the_nearest_name) {
    begin();
    assert_fails(parse("--layrs 3"), E_USAGE, "unknown option --layrs; did you mean --layers?");
    assert_fails(parse("--alyers=3"), E_USAGE, "unknown option --alyers; did you mean --layers?");
    assert_fails(parse("--confg x"), E_USAGE, "did you mean --config?");
    assert_fails(parse("--l 3"), E_USAGE, "did you mean --lr?");
    assert_fails(parse("--zzzzzz 3"), E_USAGE, "unknown option --zzzzzz; --help lists all of them");
    assert_fails(parse("--"), E_USAGE, "unknown option --");
    assert_fails(options_set(options, "layer", "3", FROM_PRESET), E_USAGE,
                 "unknown option layer; did you mean layers?");
    char longest[300] = "--";
    memset(longest + 2, 'x', sizeof longest - 3);
    longest[sizeof longest - 1] = 0;
    assert_fails(parse(longest), E_USAGE, "unknown option --xxx");
    end();
}

TEST(test_edit_distance) {
    assert_int_equal(edit_distance("", ""), 0);
    assert_int_equal(edit_distance("abc", ""), 3);
    assert_int_equal(edit_distance("kitten", "sitting"), 3);
    assert_int_equal(edit_distance("layers", "alyers"), 1); /* a swap of neighbors counts as one edit */
    assert_int_equal(edit_distance("global_batch", "global-batch"), 1);
}

TEST(test_text_that_does_not_fit_is_refused) {
    char text[OPTION_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    text[OPTION_TEXT_MAX] = 0;
    begin();
    assert_fails(options_set(options, "data", text, FROM_COMMAND_LINE), E_USAGE, "is too long", "at most 1023 bytes");
    text[OPTION_TEXT_MAX - 1] = 0;
    assert_ok(options_set(options, "data", text, FROM_COMMAND_LINE));
    assert_string_equal(target.data, text);
    end();
}

/* ---- precedence ---- */

TEST(test_the_stronger_source_wins_in_any_order) {
    static const enum option_source sources[] = {FROM_DATA, FROM_PRESET, FROM_FILE, FROM_COMMAND_LINE};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            begin();
            assert_ok(options_set(options, "layers", "10", sources[a]));
            assert_ok(options_set(options, "layers", "20", sources[b]));
            assert_int_equal(target.layers, b >= a ? 20 : 10);
            assert_int_equal(options_source(options, "layers"), b >= a ? sources[b] : sources[a]);
            end();
        }
}

TEST(test_config_is_below_the_command_line_wherever_it_stands) {
    char line[2][256];
    const char *path = write_file("a.ini", "layers = 10\nlr = 0.5\n");
    snprintf(line[0], sizeof line[0], "--layers 20 --config %s", path);
    snprintf(line[1], sizeof line[1], "--config=%s --layers 20", path);
    for (int i = 0; i < 2; i++) {
        begin();
        assert_ok(parse(line[i]));
        assert_int_equal(target.layers, 20);
        assert_close(target.lr, 0.5, 0);
        assert_int_equal(options_source(options, "lr"), FROM_FILE);
        end();
    }
}

TEST(test_an_overruled_value_is_checked_all_the_same) {
    begin();
    assert_ok(parse("--layers 20"));
    assert_fails(options_set(options, "layers", "0", FROM_FILE), E_USAGE, "layers = 0", "out of range");
    assert_int_equal(target.layers, 20);
    end();
}

/* ---- files ---- */

TEST(test_file_with_everything_that_is_allowed) {
    const char *path = write_file("good.ini", "\xEF\xBB\xBF; a comment first\r\n"
                                              "# another\n"
                                              "[model]\n"
                                              "   layers =  12  \r\n"
                                              "\tlr=0.25\n"
                                              "\n"
                                              "  # an indented comment\n"
                                              "[other section]\n"
                                              "sp = on\n"
                                              "recompute = uniform:3\n"
                                              "data = a file=with#odd|name");
    begin();
    assert_ok(options_read_file(options, path));
    assert_int_equal(target.layers, 12);
    assert_close(target.lr, 0.25, 0); /* inih by itself joins an indented line to the line before */
    assert_int_equal(target.sp, 1);
    assert_int_equal(target.recompute_n, 3);
    assert_string_equal(target.data, "a file=with#odd|name");
    end();
}

TEST(test_file_faults_name_file_and_line) {
    static const struct { const char *text; enum status code; const char *words[3]; } cases[] = {
        {"lr = 0.1\nlayers = 4 ; four\n", E_FORMAT, {"bad.ini:2", "comment inside a line", "a line of its own"}},
        {"lr = 0.1\nlayers = 4;four\n", E_FORMAT, {"bad.ini:2", "comment inside a line", "a line of its own"}},
        {"data = x # why\n", E_FORMAT, {"bad.ini:1", "comment inside a line", "a line of its own"}},
        {"layers = 4\n\nlr = 1\nlayers = 5\n", E_FORMAT, {"bad.ini:4", "layers was set on line 1", "keep one"}},
        {"[a]\nlayers = 4\n[b]\nlayers = 4\n", E_FORMAT, {"bad.ini:4", "layers was set on line 2", "keep one"}},
        {"# fine\nlayers\n", E_FORMAT, {"bad.ini:2", "\"layers\"", "is not key = value"}},
        {"layers: 4\n", E_FORMAT, {"bad.ini:1", "\"layers: 4\"", "is not key = value"}},
        {"[model\n", E_FORMAT, {"bad.ini:1", "a section is", "[name]"}},
        {"[model] layers = 4\n", E_FORMAT, {"bad.ini:1", "a section is", "[name]"}},
        {"lr = 0.1\nlayrs = 4\n", E_USAGE, {"bad.ini:2", "unknown option layrs", "did you mean layers?"}},
        {"= 4\n", E_USAGE, {"bad.ini:1", "unknown option", ""}},
        {"lr = 0.1\n\nlayers = 0\n", E_USAGE, {"bad.ini:3: layers = 0", "out of range", "from 1 to 1000"}},
        {"layers =\n", E_USAGE, {"bad.ini:1: layers = ", "is not an integer", "from 1 to 1000"}},
        {"config = other.ini\n", E_USAGE, {"bad.ini:1", "config is an option", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_file("bad.ini", cases[i].text);
        begin();
        assert_fails(options_read_file(options, path), cases[i].code, cases[i].words[0], cases[i].words[1],
                     cases[i].words[2]);
        end();
    }
}

TEST(test_file_lines_are_never_cut) {
    char text[1200];
    snprintf(text, sizeof text, "lr = 0.1\ndata = %0190d\n", 7); /* 7 + 190 = 197 bytes: inih's longest line */
    begin();
    assert_ok(options_read_file(options, write_file("long.ini", text)));
    assert_int_equal(strlen(target.data), 190);
    snprintf(text, sizeof text, "lr = 0.1\ndata = %0191d\n", 7);
    assert_fails(options_read_file(options, write_file("long.ini", text)), E_FORMAT, "long.ini:2", "198 bytes",
                 "at most 197");
    snprintf(text, sizeof text, "# %01000d\n", 7);
    assert_fails(options_read_file(options, write_file("long.ini", text)), E_FORMAT, "long.ini:1", "at most 197");
    end();
}

/* The parser stops at the limit and does not search for the line's end, because /dev/zero has no end. */
TEST(test_a_line_without_end_is_refused) {
    begin();
    assert_fails(options_read_file(options, "/dev/zero"), E_FORMAT, "/dev/zero, line 1", "more than 65536 bytes");
    end();
}

TEST(test_files_that_are_no_text) {
    begin();
    assert_fails(options_read_file(options, write_bytes("zero.ini", "lr = 0.1\nlay\0ers = 2\n", 21)), E_FORMAT,
                 "zero.ini, line 2", "zero byte");
    assert_fails(options_read_file(options, write_bytes("zero.ini", "\0\0\0\0", 4)), E_FORMAT,
                 "zero.ini, line 1", "zero byte");
    assert_fails(options_read_file(options, test_path("absent.ini")), E_DATA, "absent.ini", "No such file");
    assert_fails(options_read_file(options, "/tmp"), E_DATA, "/tmp", "directory");
    assert_ok(options_read_file(options, write_file("empty.ini", "")));
    end();
}

TEST(test_a_fault_in_a_file_does_not_stick) {
    begin();
    assert_fails(options_read_file(options, write_file("bad.ini", "layers = 0\n")), E_USAGE, "bad.ini:1");
    assert_fails(parse("--layers 0"), E_USAGE, "--layers 0 is out of range"); /* the error has no file:line */
    assert_ok(options_read_file(options, write_file("good.ini", "layers = 7\n")));
    assert_int_equal(target.layers, 7);
    end();
}

/* ---- tables, listing, help ---- */

TEST(test_tables_that_contradict_themselves) {
    struct options *none = NULL;
    const struct option_table twice[] = {{MODEL, 2}, {MODEL, 1}};
    assert_fails(options_create(twice, 2, &target, &none), E_INTERNAL, "two options are called --layers");
    assert_null(none);
    struct option wrong = MODEL[0];
    wrong.initial = "0";
    const struct option_table table = {&wrong, 1};
    assert_fails(options_create(&table, 1, &target, &none), E_INTERNAL, "default of --layers", "from 1 to 1000");
    assert_null(none);
    options_destroy(&none);
}

struct listing { char text[4096]; };
static void list(void *self, const struct option *option, const char *text, enum option_source source) {
    struct listing *listing = self;
    size_t used = strlen(listing->text);
    snprintf(listing->text + used, sizeof listing->text - used, "%s=%s/%d ", option->name, text, source);
}

TEST(test_each_visits_all_in_order_with_text_that_reads_back) {
    struct listing listing = {""};
    begin();
    assert_ok(parse("--lr 0.1 --recompute uniform:3 --sp --data x.bin --tokens 1e10"));
    options_each(options, list, &listing);
    assert_string_equal(listing.text,
                        "layers=4/0 tokens=10000000000/4 seed=1234/0 lr=0.1/4 sp=on/4 recompute=uniform:3/4 "
                        "schedule=1f1b/0 data=x.bin/4 order=one/0 micro=0/0 ");
    end();
}

static void set_again(void *self, const struct option *option, const char *text, enum option_source source) {
    (void)source;
    assert_ok(options_set(self, option->name, text, FROM_COMMAND_LINE));
}

TEST(test_listed_values_set_the_same_bits) {
    begin();
    assert_ok(parse("--lr 0.30000000000000004 --tokens 1.7976931348623157e308 --seed -9223372036854775808"));
    struct target before = target;
    options_each(options, set_again, options);
    assert_memory_equal(&before, &target, offsetof(struct target, data));
    assert_string_equal(before.data, target.data);
    end();
}

TEST(test_help_groups_and_explains) {
    begin();
    char text[8192] = "";
    FILE *memory = fmemopen(text, sizeof text, "w");
    options_help(options, memory);
    fclose(memory);
    end();
    static const char *const lines[] = {
        "  --config FILE                options from an ini file",
        "\nmodel:\n  --layers N                   transformer layers: an integer from 1 to 1000; default 4\n",
        "\ntraining:\n  --tokens X                   to train on: a number of at least 0 (tokens)\n  --seed N",
        "  --sp [on|off]                shard the sequence too; default off\n",
        "what to replay: one of none, selective, uniform:N; default none\n",
        "  --data TEXT                  file of tokens\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i])) fail_msg("--help does not say \"%s\" but:\n%s", lines[i], text);
    assert_null(strstr(strstr(text, "\ntraining:") + 1, "\ntraining:")); /* a group of two tables has one heading */
}

/* ---- before any table is read ---- */
/* The last occurrence wins, as in options_parse. A word that begins with "--" is no value. */
TEST(test_a_peek_finds_the_last_value_of_a_name) {
    char *const words[] = {"--a=1", "--ab", "2", "--a", "3", "--b", "--a", "--c=x=y", "--d"};
    assert_string_equal(options_peek(6, words, "a"), "3");
    assert_null(options_peek(9, words, "a"));
    assert_string_equal(options_peek(9, words, "ab"), "2");
    assert_string_equal(options_peek(9, words, "c"), "x=y");
    assert_null(options_peek(9, words, "d"));
    assert_null(options_peek(9, words, "absent"));
}

TESTS(unit_test(test_a_peek_finds_the_last_value_of_a_name),
      unit_test(test_defaults_fill_every_field), unit_test(test_command_line_takes_both_forms),
      unit_test(test_flags_take_a_word_or_none), unit_test(test_choice_with_a_number),
      unit_test(test_choice_with_a_path),
      unit_test(test_numbers_that_are_refused), unit_test(test_integers_keep_all_64_bits),
      unit_test(test_an_integer_may_be_a_word),
      unit_test(test_missing_values_and_stray_words), unit_test(test_unknown_options_get_the_nearest_name),
      unit_test(test_edit_distance), unit_test(test_text_that_does_not_fit_is_refused),
      unit_test(test_the_stronger_source_wins_in_any_order),
      unit_test(test_config_is_below_the_command_line_wherever_it_stands),
      unit_test(test_an_overruled_value_is_checked_all_the_same), unit_test(test_file_with_everything_that_is_allowed),
      unit_test(test_file_faults_name_file_and_line), unit_test(test_file_lines_are_never_cut),
      unit_test(test_a_line_without_end_is_refused), unit_test(test_files_that_are_no_text),
      unit_test(test_a_fault_in_a_file_does_not_stick), unit_test(test_tables_that_contradict_themselves),
      unit_test(test_each_visits_all_in_order_with_text_that_reads_back),
      unit_test(test_listed_values_set_the_same_bits), unit_test(test_help_groups_and_explains))

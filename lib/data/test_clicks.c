/* ranks: 1 */
#include "lib/data/clicks.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

static float dense_of(const int32_t *words, int k) {
    float x;
    memcpy(&x, words + 1 + k, sizeof x);
    return x;
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* ---- synthetic clicks ---- */
TEST(test_synthetic_clicks_are_read_back_and_split) {
    const struct clicks_layout c = {3, 4, 2, 50, 0};
    struct data_file *file;
    struct data_split train, val;
    double best;
    int64_t clicks = 0, first = 0, used = 0;
    assert_ok(clicks_synth(test_path("made"), &c, 2000, 3, &best));
    assert_true(best > 0.6 && best < 0.95);
    assert_ok(data_open(test_path("made"), &file));
    assert_int_equal(data_format_of(file), DATA_CLICKS);
    assert_int_equal(data_vocab(file), 50);
    assert_close(clicks_layout(file).best_auc, best, 0);
    assert_ok(clicks_split(file, 0.25, &train, &val));
    assert_int_equal(data_split_samples(&train), 1500);
    assert_int_equal(data_split_samples(&val), 500);
    int count[50] = {0};
    for (int64_t i = 0; i < 1500; i++) {
        const int32_t *words = clicks_sample(&train, i);
        clicks += words[0];
        first += words[1 + 3 + 1] >= 0;
        for (int m = 0; m < 2; m++) {
            int32_t id = words[1 + 3 + m];
            assert_true(id >= -1 && id < 50 && (m > 0 || id >= 0));
            if (id >= 0) count[id]++, used++;
        }
    }
    int most = 0;
    for (int v = 0; v < 50; v++) most = count[v] > most ? count[v] : most;
    assert_true(clicks > 300 && clicks < 900);
    assert_true(first > 600 && first < 900);                         /* half of 1500 bags have two ids */
    assert_true(most > 5 * used / 50);                               /* a power law: the top row is 5 times the mean */
    const int32_t *last = clicks_sample(&val, 499);
    assert_true(last[0] == 0 || last[0] == 1);
    data_close(&file);
}

TEST(test_damaged_clicks_are_refused) {
    const struct clicks_layout c = {1, 1, 1, 5, 0};
    struct data_file *file;
    double best;
    assert_ok(clicks_synth(test_path("cut"), &c, 20, 3, &best));
    FILE *f = fopen(test_path("cut"), "a");
    fputs("more", f);
    fclose(f);
    assert_fails(data_open(test_path("cut"), &file), E_FORMAT, "20 samples of 3 words", "copy it again");
}

/* ---- Criteo's ---- */
#define INTEGERS "1\t\t-3\t0\t7\t\t\t\t\t\t\t\t2"
#define WORDS "68fd1e64\t\t68fd1e64\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\tffffffff"

TEST(test_criteo_lines_become_samples) {
    struct data_file *file;
    struct data_split train, val;
    int64_t n;
    write_text(test_path("log"), "1\t" INTEGERS "\t" WORDS "\n0\t" INTEGERS "\t" WORDS "\r\n");
    assert_ok(criteo_convert(test_path("log"), test_path("log.bin"), 1000, &n));
    assert_int_equal(n, 2);
    assert_ok(data_open(test_path("log.bin"), &file));
    assert_ok(clicks_split(file, 0, &train, &val));
    const int32_t *words = clicks_sample(&train, 0), *ids = words + 1 + CRITEO_DENSE;
    assert_int_equal(words[0], 1);
    assert_int_equal(clicks_sample(&train, 1)[0], 0);
    assert_close((double)dense_of(words, 0), log(2), 1e-7);
    assert_close((double)dense_of(words, 1), 0, 0);                  /* empty */
    assert_close((double)dense_of(words, 2), 0, 0);                  /* below 0 */
    assert_close((double)dense_of(words, 12), log(3), 1e-7);
    assert_true(ids[0] >= 0 && ids[0] < 1000 && ids[0] == ids[2]);   /* equal words give equal rows */
    assert_int_equal(ids[1], -1);
    assert_true(ids[25] >= 0 && ids[25] != ids[0]);
    data_close(&file);
}

TEST(test_lines_that_are_not_criteo_are_refused) {
    int64_t n;
    write_text(test_path("short"), "1\t2\t3\n");
    assert_fails(criteo_convert(test_path("short"), test_path("x"), 10, &n), E_FORMAT, "line 1", "3 fields", "40");
    write_text(test_path("label"), "0\t" INTEGERS "\t" WORDS "\n2\t" INTEGERS "\t" WORDS "\n");
    assert_fails(criteo_convert(test_path("label"), test_path("x"), 10, &n), E_FORMAT, "line 2", "the label is \"2\"");
    write_text(test_path("word"), "0\tx\t\t\t\t\t\t\t\t\t\t\t\t\t" WORDS "\n");
    assert_fails(criteo_convert(test_path("word"), test_path("x"), 10, &n), E_FORMAT, "line 1", "field 2", "integer");
    assert_fails(criteo_convert(test_path("none"), test_path("x"), 10, &n), E_DATA, "the click logs ",
                 "none", "No such file");
    assert_fails(criteo_convert("/", test_path("x"), 10, &n), E_DATA, "/ is a directory");
    FILE *f = fopen(test_path("zero"), "w");
    fwrite("0\t" INTEGERS "\t" WORDS "\0ff\n", 1, sizeof "0\t" INTEGERS "\t" WORDS "\0ff\n" - 1, f);
    fclose(f);
    assert_fails(criteo_convert(test_path("zero"), test_path("x"), 10, &n), E_FORMAT, "line 1", "zero byte");
    f = fopen(test_path("x"), "r");
    assert_null(f);                                                  /* a refused conversion leaves no file */
}

/* `is`: whether the text is an integer of a click log. strtoll and strtod accept more forms. */
TEST(test_criteo_integers_are_digits) {
    static const struct { const char *text; bool is; } cases[] = {
        {"", true}, {"0", true}, {"-1", true}, {"-9223372036854775808", true}, {"9223372036854775807", true},
        {"007", true}, {"1.5", false}, {"1.0", false}, {"2e3", false}, {"0x10", false}, {"inf", false}, {"nan", false},
        {" 7", false}, {"7 ", false}, {"+7", false}, {"-", false}, {"--7", false}, {"- 7", false}, {"1_000", false},
        {"1,000", false}, {"9223372036854775808", false}, {"99999999999999999999", false}, {"7\v", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        int64_t n;
        snprintf(line, sizeof line, "1\t%s\t\t\t\t\t\t\t\t\t\t\t\t\t" WORDS "\n", cases[i].text);
        write_text(test_path("log"), line);
        if (cases[i].is) assert_ok(criteo_convert(test_path("log"), test_path("x"), 10, &n));
        else
            assert_fails(criteo_convert(test_path("log"), test_path("x"), 10, &n), E_FORMAT, "log, line 1", "field 2",
                         "integer of 64 bits");
    }
}

TESTS(unit_test(test_synthetic_clicks_are_read_back_and_split), unit_test(test_damaged_clicks_are_refused),
      unit_test(test_criteo_lines_become_samples), unit_test(test_lines_that_are_not_criteo_are_refused),
      unit_test(test_criteo_integers_are_digits))

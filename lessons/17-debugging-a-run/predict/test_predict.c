/* ranks: 1  device: cpu
 *
 * Predictions compared with docs/museum.json, the measurements of tools/museum. A check without a measurement for a bug
 * is not asked, except the oracle's: no measurement means that the oracle cannot check the bug. */
#include "lib/base/status.h"
#include "tests/test.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_BUGS = 6 };
enum { TYPES, BYTES, ORDER, NORM, LOSS, ORACLE, N_CHECKS };
static const char *const BUGS[N_BUGS] = {"01", "05", "06", "12", "30", "33"};        /* the museum's */
static const double NORM_SEEN = 1e-3, LOSS_SEEN = 1e-2;                               /* as in tools/museum */

static json_t *row_of(json_t *rows, const char *id) {
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
        if (!strcmp(json_string_value(json_object_get(row, "id")), id)) return row;
    return NULL;
}

static char yes_no(bool yes) { return yes ? 'y' : 'n'; }

static char measured(const json_t *row, const char *key, char otherwise) {
    const json_t *value = json_object_get(row, key);
    return json_is_boolean(value) ? yes_no(json_is_true(value)) : otherwise;
}

/* answer ' ': the check is not asked. */
static enum status right_answers(const char *id, char answer[N_CHECKS]) {
    json_error_t error;
    json_t *rows = json_load_file("docs/museum.json", 0, &error), *row = rows ? row_of(rows, id) : NULL;
    if (!row) return FAIL(E_IO, "docs/museum.json has no bug %s: %s", id, rows ? "" : error.text);
    answer[TYPES] = measured(row, "types", ' ');
    answer[BYTES] = measured(row, "bytes", ' ');
    answer[ORDER] = measured(row, "order", ' ');
    answer[NORM] = yes_no(json_number_value(json_object_get(row, "norm_1")) > NORM_SEEN);
    answer[LOSS] = yes_no(json_number_value(json_object_get(row, "loss_1")) > LOSS_SEEN);
    answer[ORACLE] = measured(row, "oracle", '-');
    json_decref(rows);
    return OK;
}

/* The answers in line "N:" of the file that SUBMISSION names. */
static enum status read_line(int number, char answer[N_CHECKS]) {
    const char *path = getenv("SUBMISSION");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    int n = -1;
    if (!file) return FAIL(E_IO, "cannot open the table %s", path ? path : "(SUBMISSION is not set)");
    while (fgets(line, sizeof line, file)) {
        if (line[0] != '0' + number || line[1] != ':') continue;
        n = 0;
        for (const char *c = strtok(line + 2, " \t\r\n"); c; c = strtok(NULL, " \t\r\n"), n++)
            if (n < N_CHECKS) answer[n] = c[1] ? 'x' : *c;
    }
    fclose(file);
    if (n != N_CHECKS) return FAIL(E_FORMAT, "line \"%d:\" has %d answers, and should have %d", number, n, N_CHECKS);
    if (memchr(answer, '?', N_CHECKS)) return FAIL(E_TODO, "bug %d is yours to predict", number);
    for (int i = 0; i < N_CHECKS; i++)
        if (!strchr("yn-", answer[i]))
            return FAIL(E_FORMAT, "answer %d of line \"%d:\" is none of y, n and -", i + 1, number);
    return OK;
}

static void predict(int number) {
    char said[N_CHECKS], right[N_CHECKS];
    int n_wrong = 0;
    assert_ok(read_line(number, said));
    assert_ok(right_answers(BUGS[number - 1], right));
    for (int i = 0; i < N_CHECKS; i++) n_wrong += right[i] != ' ' && said[i] != right[i];
    if (n_wrong) fail_msg("bug %d: %d of %d answers are not what was measured", number, n_wrong, N_CHECKS);
}

static void test_predict_1_a_sum_that_is_missing(void **state) { (void)state, predict(1); }
static void test_predict_2_a_sum_too_many(void **state) { (void)state, predict(2); }
static void test_predict_3_a_norm_that_counts_copies(void **state) { (void)state, predict(3); }
static void test_predict_4_a_small_sum(void **state) { (void)state, predict(4); }
static void test_predict_5_masks_alike(void **state) { (void)state, predict(5); }
static void test_predict_6_a_rate(void **state) { (void)state, predict(6); }

TESTS(unit_test(test_predict_1_a_sum_that_is_missing), unit_test(test_predict_2_a_sum_too_many),
      unit_test(test_predict_3_a_norm_that_counts_copies), unit_test(test_predict_4_a_small_sum),
      unit_test(test_predict_5_masks_alike), unit_test(test_predict_6_a_rate))

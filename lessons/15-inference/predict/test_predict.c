/* ranks: 1  device: cpu
 *
 * Predictions compared with the program's plan (decode_cache_bytes, parameters of a compiled model) and the lesson's
 * formulas. */
#include "driver/recipe.h"
#include "lib/run/run.h"
#include "models/decode/decode.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---- */
/* "1.5*1024*8" */
static bool read_product(const char *text, double *out) {
    *out = 1;
    for (;;) {
        char *end;
        *out *= strtod(text, &end);
        if (end == text) return false;
        text = end + strspn(end, " \t\r\n");
        if (*text != '*') return *text == '\0' && isfinite(*out);
        text++;
    }
}

static enum status read_answer(const char *name, double *out) {
    const char *path = getenv("SUBMISSION");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256], text[256] = "";
    size_t n = strlen(name);
    if (!file) return FAIL(E_IO, "cannot open the table %s", path ? path : "(SUBMISSION is not set)");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, n) && line[n] == ':') snprintf(text, sizeof text, "%s", line + n + 1);
    fclose(file);
    if (!text[0]) return FAIL(E_FORMAT, "there is no line \"%s: ...\"", name);
    if (strchr(text, '?')) return FAIL(E_TODO, "%s is yours to predict", name);
    return read_product(text, out) ? OK : FAIL(E_FORMAT, "%s: a number, or a product of numbers, has to stand there",
                                               name);
}

/* Check all names of a claim, and report the wrong ones in one sentence. */
struct answers { char wrong[512]; enum status status; };

static void compare(struct answers *a, const char *name, double right, double tolerance) {
    double said;
    if (a->status == OK) a->status = read_answer(name, &said);
    if (a->status != OK || fabs(said - right) <= tolerance * right) return;
    size_t at = strlen(a->wrong);
    snprintf(a->wrong + at, sizeof a->wrong - at, "%s%s is too %s", at ? ", " : "", name,
             said > right ? "large" : "small");
}
static void judge(const struct answers *a) {
    assert_ok(a->status);
    if (a->wrong[0]) fail_msg("%s", a->wrong);
}

/* ---- the program's numbers ---- */
static double planned_cache(const char *options, int n_ranks) {
    char text[256], *argv[32];
    int argc = 0;
    struct plan plan = {0};
    struct options *o = NULL;
    snprintf(text, sizeof text, "%s", options);
    for (char *word = strtok(text, " "); word && argc < 32; word = strtok(NULL, " ")) argv[argc++] = word;
    assert_ok(recipe_options_create(NULL, &plan, &o));
    enum status status = options_parse(o, argc, argv);
    if (status == OK) status = recipe_preset(&plan, o);
    options_destroy(&o);
    assert_ok(status);
    assert_ok(plan_settle(&plan, n_ranks));
    return (double)decode_cache_bytes(&plan);
}

static const double PARAMETERS = 8.03e9, FLOPS = 989e12, BANDWIDTH = 3.35e12, MEMORY = 80e9, WIDTH = 2;
#define LLAMA "--model llama3-8b --precision bf16"

TEST(test_predict_1_bytes_of_a_cache) {
    struct answers a = {.status = OK};
    compare(&a, "gpt2_cache", planned_cache("--model gpt2-124m --precision fp32", 1), 0);
    compare(&a, "llama_position", planned_cache(LLAMA " --seq 1", 1), 0);
    compare(&a, "llama_cache", planned_cache(LLAMA " --seq 8192", 1), 0);
    compare(&a, "llama_70b_position_of_8", planned_cache("--model llama3-70b --precision bf16 --seq 1 --tp 8", 8), 0);
    judge(&a);
}

TEST(test_predict_2_what_goes_through_the_layers) {
    struct answers a = {.status = OK};
    int64_t prompt = 512, written = 512, again = 0, products = 0;
    for (int64_t n = prompt; n < prompt + written; n++) again += n;        /* each next token takes a pass over n */
    for (int64_t t = 0; t < prompt + written - 1; t++) products += t + 1;  /* position t sees 0 .. t */
    compare(&a, "tokens_again", (double)again, 0);
    compare(&a, "tokens_with_cache", (double)(prompt + written - 1), 0);
    compare(&a, "products_with_cache", (double)products, 0);
    judge(&a);
}

TEST(test_predict_3_what_bounds_the_speed) {
    struct answers a = {.status = OK};
    double weights = PARAMETERS * WIDTH, cache = planned_cache(LLAMA " --seq 8192", 1);
    compare(&a, "compute_seconds", 2 * PARAMETERS / FLOPS, 0.02);
    compare(&a, "one_text_seconds", weights / BANDWIDTH, 0.02);
    compare(&a, "full_batch_seconds", (weights + 64 * cache) / BANDWIDTH, 0.02);
    compare(&a, "break_even_texts", weights / BANDWIDTH / (2 * PARAMETERS / FLOPS), 0.02);
    judge(&a);
}

TEST(test_predict_4_how_many_texts) {
    struct answers a = {.status = OK};
    double room = MEMORY - PARAMETERS * WIDTH;
    compare(&a, "texts_of_8192", floor(room / planned_cache(LLAMA " --seq 8192", 1)), 0);
    compare(&a, "texts_without_sharing", floor(room / planned_cache(LLAMA " --kv-heads 32 --seq 8192", 1)), 0);
    compare(&a, "texts_in_pages", floor(room / planned_cache(LLAMA " --seq 1008", 1)), 0);
    judge(&a);
}

TESTS(unit_test(test_predict_1_bytes_of_a_cache), unit_test(test_predict_2_what_goes_through_the_layers),
      unit_test(test_predict_3_what_bounds_the_speed), unit_test(test_predict_4_how_many_texts))

/* ranks: 1  device: cpu
 *
 * A cache compared with attention over the whole text, computed by its definition. */
#include "lessons/15-inference/cache/cache.h"
#include "models/decode/decode.h"
#include "driver/recipe.h"
#include "tests/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 24, MOST_HEADS = 6, MOST_CHANNELS = 5, MOST_NUMBERS = MOST * MOST_HEADS * MOST_CHANNELS };

/* A text of n tokens, and a cache with room for it. */
struct text {
    int64_t n;
    double q[MOST_NUMBERS], k[MOST_NUMBERS], v[MOST_NUMBERS], y[MOST_NUMBERS], right[MOST_NUMBERS];
    double keys[MOST_NUMBERS], values[MOST_NUMBERS];
    struct cache cache;
};

static double number(int64_t i) { return sin(1.7 * (double)i + 0.3 * (double)(i % 11)); }

/* y[t,h] over keys 0 .. t by the formula, with the largest score subtracted. */
static void whole_text(struct text *x) {
    int64_t H = x->cache.H, J = x->cache.J, D = x->cache.D;
    for (int64_t t = 0; t < x->n; t++)
        for (int64_t h = 0; h < H; h++) {
            double s[MOST], most = -INFINITY, sum = 0, *y = x->right + (t * H + h) * D;
            for (int64_t j = 0; j <= t; j++) {
                s[j] = 0;
                for (int64_t d = 0; d < D; d++) s[j] += x->q[(t * H + h) * D + d] * x->k[(j * J + h * J / H) * D + d];
                s[j] /= sqrt((double)D);
                most = fmax(most, s[j]);
            }
            for (int64_t j = 0; j <= t; j++) sum += s[j] = exp(s[j] - most);
            for (int64_t d = 0; d < D; d++) {
                y[d] = 0;
                for (int64_t j = 0; j <= t; j++) y[d] += s[j] / sum * x->v[(j * J + h * J / H) * D + d];
            }
        }
}

static void make(struct text *x, int64_t H, int64_t J, int64_t D, int64_t n, double scale) {
    assert_true(n * H * D <= MOST_NUMBERS);
    x->n = n;
    for (int64_t i = 0; i < MOST_NUMBERS; i++) {
        x->q[i] = scale * number(i), x->k[i] = scale * number(3 * i + 1), x->v[i] = number(5 * i + 2);
        x->y[i] = x->keys[i] = x->values[i] = NAN;
    }
    x->cache = (struct cache){H, J, D, n, 0, x->keys, x->values};
    whole_text(x);
}

static void read_parts(struct text *x, int64_t part) {
    int64_t H = x->cache.H, J = x->cache.J, D = x->cache.D;
    for (int64_t t = 0; t < x->n; t += part) {
        int64_t n = part < x->n - t ? part : x->n - t;
        assert_ok(cache_read(&x->cache, x->q + t * H * D, x->k + t * J * D, x->v + t * J * D, n, x->y + t * H * D));
        if (x->cache.length != t + n)
            fail_msg("%d tokens were read, and length is %d", (int)(t + n), (int)x->cache.length);
    }
}

/* The bound allows other rounding of sums in another order: n terms of about 1 in fp64. */
static void compare(const struct text *x, const char *how) {
    int64_t H = x->cache.H, D = x->cache.D;
    for (int64_t i = 0; i < x->n * H * D; i++)
        if (!(fabs(x->y[i] - x->right[i]) <= 1e-12))
            fail_msg("%s: y[%d,%d,%d] is %g, and should be %g", how, (int)(i / D / H), (int)(i / D % H), (int)(i % D),
                     x->y[i], x->right[i]);
}

TEST(test_cache_a_token_at_a_time_equals_the_whole_text) {
    struct text *x = malloc(sizeof *x);
    make(x, 2, 2, 4, 9, 1);
    read_parts(x, 1);
    compare(x, "token by token");
    free(x);
}

TEST(test_cache_a_prompt_at_once_equals_the_whole_text) {
    struct text *x = malloc(sizeof *x);
    for (int64_t part = 2; part <= 12; part++) {
        char how[64];
        snprintf(how, sizeof how, "%d tokens at once", (int)part);
        make(x, 2, 2, 3, 12, 1);
        read_parts(x, part);
        compare(x, how);
    }
    free(x);
}

TEST(test_cache_heads_share_keys) {
    static const int heads[][2] = {{6, 2}, {6, 3}, {4, 1}};
    struct text *x = malloc(sizeof *x);
    for (int i = 0; i < 3; i++) {
        char how[64];
        snprintf(how, sizeof how, "%d heads, %d of keys", heads[i][0], heads[i][1]);
        make(x, heads[i][0], heads[i][1], 3, 8, 1);
        read_parts(x, 3);
        compare(x, how);
    }
    free(x);
}

/* make() fills the cache with NaN; the cache has more room than the text needs. */
TEST(test_cache_reads_nothing_beyond_its_length) {
    struct text *x = malloc(sizeof *x);
    make(x, 2, 1, 4, 7, 1);
    x->cache.room = 16;
    read_parts(x, 2);
    compare(x, "with room for 16 positions");
    for (int64_t t = 7; t < 16; t++) assert_true(isnan(x->keys[t * 4]) && isnan(x->values[t * 4]));
    free(x);
}

TEST(test_cache_scores_may_be_large) {
    struct text *x = malloc(sizeof *x);
    make(x, 2, 2, 4, 6, 60);
    read_parts(x, 1);
    compare(x, "scores in the thousands");
    make(x, 1, 1, 1, 2, 1);
    x->q[0] = x->q[1] = 1, x->k[0] = x->k[1] = -4000;                    /* all scores far below 0 */
    whole_text(x);
    read_parts(x, 2);
    compare(x, "scores of -4000");
    free(x);
}

TEST(test_cache_refuses_what_does_not_fit) {
    struct text *x = malloc(sizeof *x), *before = malloc(sizeof *x);
    make(x, 2, 2, 3, 6, 1);
    x->cache.room = 5;
    assert_ok(cache_read(&x->cache, x->q, x->k, x->v, 3, x->y));
    *before = *x;
    assert_fails(cache_read(&x->cache, x->q + 18, x->k + 18, x->v + 18, 3, x->y + 18), E_CONFIG, "room");
    assert_memory_equal(x, before, sizeof *x);
    assert_ok(cache_read(&x->cache, x->q + 18, x->k + 18, x->v + 18, 2, x->y + 18));      /* up to the last position */
    x->n = 5;
    compare(x, "after a refusal");
    free(x);
    free(before);
}

/* ---- bytes ---- */
static int64_t planned(const char *options, int n_ranks) {
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
    return decode_cache_bytes(&plan);
}

TEST(test_cache_bytes_are_those_that_the_planner_plans) {
    static const struct { const char *options; int64_t layers, key_heads, channels, seq, bytes; int tp; } cases[] = {
        {"--model gpt2-124m --precision fp32", 12, 12, 64, 1024, 4, 1},
        {"--model gpt2-124m --precision bf16 --tp 4", 12, 12, 64, 1024, 2, 4},
        {"--arch llama --layers 5 --hidden 96 --heads 12 --kv-heads 4 --seq 48 --precision fp32 --tp 2", 5, 4, 8, 48, 4,
         2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t right = planned(cases[i].options, cases[i].tp);
        int64_t said = cache_bytes(cases[i].layers, cases[i].key_heads, cases[i].channels, cases[i].seq, 1,
                                   cases[i].bytes, cases[i].tp);
        if (said != right)
            fail_msg("%s: the planner has %lld bytes, and you %lld", cases[i].options, (long long)right,
                     (long long)said);
    }
    int64_t one = cache_bytes(3, 2, 8, 10, 1, 2, 1), five = cache_bytes(3, 2, 8, 10, 5, 2, 1);
    if (one <= 0 || five != 5 * one)
        fail_msg("one text takes %lld bytes, and five %lld", (long long)one, (long long)five);
}

TESTS(unit_test(test_cache_bytes_are_those_that_the_planner_plans),
      unit_test(test_cache_a_token_at_a_time_equals_the_whole_text),
      unit_test(test_cache_a_prompt_at_once_equals_the_whole_text), unit_test(test_cache_heads_share_keys),
      unit_test(test_cache_reads_nothing_beyond_its_length), unit_test(test_cache_scores_may_be_large),
      unit_test(test_cache_refuses_what_does_not_fit))

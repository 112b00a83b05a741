/* ranks: 1
 *
 * One layer of attention generates a text twice (lesson 15): once by running the whole text again for each token, as
 * the training program does, and once with the cache of exercise `cache`. A token's vectors are computed from the
 * output of the token before it, as in a model, so that a difference would grow. The program counts operations. */
#include "lessons/15-inference/cache/cache.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, KEY_HEADS = 2, CHANNELS = 8, PROMPT = 4, LONGEST = 256 };

struct counts { int64_t tokens, products; };
struct text {
    double q[LONGEST][HEADS * CHANNELS], k[LONGEST][KEY_HEADS * CHANNELS], v[LONGEST][KEY_HEADS * CHANNELS];
    double y[LONGEST][HEADS * CHANNELS], keys[LONGEST * KEY_HEADS * CHANNELS], values[LONGEST * KEY_HEADS * CHANNELS];
};

/* Compute position t's queries, keys and values from the output at position t - 1. */
static void embed(struct text *x, int64_t t) {
    for (int i = 0; i < HEADS * CHANNELS; i++) {
        double before = t < PROMPT ? 0 : x->y[t - 1][i];
        x->q[t][i] = sin(0.7 * (double)t + i) + before;
    }
    for (int i = 0; i < KEY_HEADS * CHANNELS; i++) {
        double before = t < PROMPT ? 0 : x->y[t - 1][i];
        x->k[t][i] = cos(1.1 * (double)t - i) + before;
        x->v[t][i] = sin(before + (double)(t * i));
    }
}

/* Run the next n tokens through the layer. */
static enum status pass(struct text *x, struct cache *c, int64_t n, struct counts *count) {
    int64_t t = c->length;
    for (int64_t i = t; i < t + n; i++) count->products += i + 1;
    count->tokens += n;
    return cache_read(c, x->q[t], x->k[t], x->v[t], n, x->y[t]);
}

static enum status write_text(struct text *x, int64_t n, int keep, struct counts *count) {
    struct cache c = {HEADS, KEY_HEADS, CHANNELS, LONGEST, 0, x->keys, x->values};
    *count = (struct counts){0};
    for (int64_t t = 0; t < PROMPT; t++) embed(x, t);
    TRY(pass(x, &c, PROMPT, count));
    for (int64_t t = PROMPT; t < n; t++) {
        embed(x, t);
        if (!keep) c.length = 0;                                     /* from the beginning, for every token */
        TRY(pass(x, &c, keep ? 1 : t + 1, count));
    }
    return OK;
}

static double distance(const struct text *a, const struct text *b, int64_t n) {
    double most = 0;
    for (int64_t t = 0; t < n; t++)
        for (int i = 0; i < HEADS * CHANNELS; i++) most = fmax(most, fabs(a->y[t][i] - b->y[t][i]));
    return most;
}

static enum status compare(struct text *again, struct text *kept) {
    printf("a text of    tokens through the layer    products of a head    as many times\n");
    printf("               again      with a cache     again      with      tokens    the same\n");
    for (int64_t n = 16; n <= LONGEST; n *= 4) {
        struct counts a, b;
        TRY(write_text(again, n, 0, &a));
        TRY(write_text(kept, n, 1, &b));
        printf("%9" PRId64 " %11" PRId64 " %17" PRId64 " %9" PRId64 " %9" PRId64 " %11.1f    %s\n", n, a.tokens,
               b.tokens, a.products, b.products, (double)a.tokens / (double)b.tokens,
               distance(again, kept, n) == 0 ? "yes" : "no");
    }
    return OK;
}

int main(void) {
    struct text *x = calloc(2, sizeof *x);
    enum status status = x ? compare(&x[0], &x[1]) : FAIL(E_MEMORY, "no memory for two texts");
    free(x);
    return status == OK ? 0 : 1;
}

/* A rope rule as a text: KIND:FACTOR:CONTEXT:SLOW:FAST:ATTENTION, of which the last ones may be left out. */
#include "lib/ops/rope.h"

#include "lib/base/option.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 5 };                       /* numbers */
/* required: how many numbers must be given; most: how many may be. usual: SLOW and FAST that are not. */
static const struct kind { const char *name, *form; int required, most; double usual[2]; } KINDS[] = {
    [ROPE_UNSCALED] = {"none", "none", 0, 0, {0, 0}},
    [ROPE_LINEAR] = {"linear", "linear:FACTOR", 1, 1, {0, 0}},
    [ROPE_LLAMA3] = {"llama3", "llama3:FACTOR:CONTEXT, and :LOW:HIGH", 2, 4, {1, 4}},
    [ROPE_YARN] = {"yarn", "yarn:FACTOR:CONTEXT, and :SLOW:FAST, and :ATTENTION", 2, 5, {1, 32}},
    [ROPE_YARN_UNTRUNCATED] = {"yarn-untruncated", "yarn-untruncated:FACTOR:CONTEXT, and :SLOW:FAST, and :ATTENTION", 2,
                               5, {1, 32}}};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

int rope_scaling_of(const char *name, size_t length) {
    for (int i = 0; i < N_KINDS; i++)
        if (strlen(KINDS[i].name) == length && !strncmp(name, KINDS[i].name, length)) return i;
    return -1;
}

/* The numbers after the kind; -1: there is something else. */
static int read_numbers(const char *text, double out[MOST]) {
    int n = 0;
    for (char *end; *text == ':' && n < MOST; text = end, n++) {
        out[n] = strtod(text + 1, &end);
        if (end == text + 1 || text[1] == ' ' || !(out[n] > 0 && out[n] <= 1e9)) return -1;
    }
    return *text ? -1 : n;
}

enum status rope_rule_read(const char *text, struct rope_rule *rule) {
    double x[MOST] = {0};
    size_t length = strcspn(text, ":");
    int kind = rope_scaling_of(text, length), n = read_numbers(text + length, x);
    if (kind < 0)
        return FAIL(E_CONFIG, "rope-scaling=%.80s; use none, linear:FACTOR, llama3:FACTOR:CONTEXT, yarn:FACTOR:CONTEXT "
                    "or yarn-untruncated:FACTOR:CONTEXT", text);
    const struct kind *k = &KINDS[kind];
    if (n < k->required || n > k->most || (n == 3 && k->most > 3))
        return FAIL(E_CONFIG, "rope-scaling=%.80s; use %s, numbers above 0", text, k->form);
    bool bounds = n >= 4;
    *rule = (struct rope_rule){rule->theta, (enum rope_scaling)kind, x[0], x[1], bounds ? x[2] : k->usual[0],
                               bounds ? x[3] : k->usual[1], x[4], 0, false};
    if (k->most == 5 && n < 5) rule->attention = rope_yarn_attention(rule->factor, 1);
    if (k->most > 3 && !(rule->slow < rule->fast))
        return FAIL(E_CONFIG, "rope-scaling=%.80s: pairs between %g and %g turns in a context are slowed in part; give "
                    "the smaller number first", text, rule->slow, rule->fast);
    return OK;
}

double rope_yarn_attention(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1; }

void rope_rule_write(const struct rope_rule *rule, char *text, size_t size) {
    const struct kind *k = &KINDS[rule->scaling];
    const double x[MOST] = {rule->factor, rule->context, rule->slow, rule->fast, rule->attention};
    const struct option real = {.type = OPTION_REAL};
    int n = k->required;
    if (k->most > 3 && (rule->slow != k->usual[0] || rule->fast != k->usual[1])) n = 4;
    if (k->most == 5 && rule->attention != rope_yarn_attention(rule->factor, 1)) n = 5;
    size_t used = (size_t)snprintf(text, size, "%s", k->name);
    for (int i = 0; i < n && used < size; i++) {
        char number[40];
        option_print_value(&real, &x[i], number, sizeof number);
        used += (size_t)snprintf(text + used, size - used, ":%s", number);
    }
}

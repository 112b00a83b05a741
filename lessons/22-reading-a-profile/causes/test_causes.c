/* ranks: 1  device: cpu
 *
 * Causes that a learner has read in traces, compared with what was planted (planted.h), by the learner's name. Numbers
 * that are counted are exact; times may be off. */
#include "lessons/22-reading-a-profile/planted.h"
#include "lib/base/status.h"
#include "tests/test.h"
#include <stdlib.h>

struct answer { char cause[32], rank[16], number[32]; };

static enum status read_answer(int trace, char learner[64], struct answer *a) {
    const char *path = getenv("SUBMISSION");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256], rest[16];
    int n = 0;
    learner[0] = 0;
    if (!file) return FAIL(E_IO, "cannot open the table %s", path ? path : "(SUBMISSION is not set)");
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "learner: %63s", learner) == 1) continue;
        if (line[0] == '0' + trace && line[1] == ':')
            n = sscanf(line + 2, "%31s %15s %31s %15s", a->cause, a->rank, a->number, rest);
    }
    fclose(file);
    if (!learner[0] || !strcmp(learner, "?")) return FAIL(E_TODO, "the line \"learner: NAME\" has no name");
    if (n > 0 && a->cause[0] == '?') return FAIL(E_TODO, "trace %d is yours to read", trace);
    if (n != 3)
        return FAIL(E_FORMAT, "line \"%d:\" has %d words; it needs a cause, a rank or -, and a number", trace,
                    n < 0 ? 0 : n);
    return OK;
}

static const struct cause_row *cause_said(const char *name) {
    for (int c = 0; c < N_CAUSES; c++)
        if (!strcmp(CAUSES[c].name, name)) return &CAUSES[c];
    return NULL;
}

static void check_cause(int trace, struct answer *a, struct planted *p) {
    char learner[64];
    assert_ok(read_answer(trace, learner, a));
    *p = planted_of(learner, trace);
    const struct cause_row *said = cause_said(a->cause);
    if (!said) fail_msg("trace %d: \"%s\" is none of the seven causes", trace, a->cause);
    if (said != &CAUSES[p->cause]) fail_msg("trace %d: not %s: %s", trace, a->cause, said->sign);
}

static void check_rank(int trace, const struct answer *a, const struct planted *p) {
    char *end;
    long rank = strtol(a->rank, &end, 10);
    if (p->rank < 0 && strcmp(a->rank, "-") != 0)
        fail_msg("trace %d: %s is of no single rank; write - for \"%s\"", trace, a->cause, a->rank);
    if (p->rank >= 0 && (*end || end == a->rank))
        fail_msg("trace %d: %s is of one rank; \"%s\" is none", trace, a->cause, a->rank);
    if (p->rank >= 0 && rank != p->rank)
        fail_msg("trace %d: it is %s, and not that of rank %ld: which ranks wait, and for which one?", trace, a->cause,
                 rank);
}

static void named(int trace) {
    struct answer a;
    struct planted p;
    check_cause(trace, &a, &p);
    check_rank(trace, &a, &p);
}

static void number(int trace) {
    struct answer a;
    struct planted p;
    char *end;
    check_cause(trace, &a, &p);
    double said = strtod(a.number, &end), off = CAUSES[p.cause].off;
    if (*end || end == a.number) fail_msg("trace %d: \"%s\" is no number", trace, a.number);
    if (!(fmax(said / p.number, p.number / said) <= 1 + off))
        fail_msg("trace %d: it is %s, and its number is not %g%s", trace, a.cause, said,
                 off > 0 ? " or near it" : "; it is counted, so it is exact");
}

TEST(test_causes_1_is_named) { named(1); }
TEST(test_causes_2_is_named) { named(2); }
TEST(test_causes_3_is_named) { named(3); }
TEST(test_causes_4_is_named) { named(4); }
TEST(test_causes_5_is_named) { named(5); }
TEST(test_causes_6_is_named) { named(6); }
TEST(test_causes_1_has_its_number) { number(1); }
TEST(test_causes_2_has_its_number) { number(2); }
TEST(test_causes_3_has_its_number) { number(3); }
TEST(test_causes_4_has_its_number) { number(4); }
TEST(test_causes_5_has_its_number) { number(5); }
TEST(test_causes_6_has_its_number) { number(6); }

TESTS(unit_test(test_causes_1_is_named), unit_test(test_causes_1_has_its_number), unit_test(test_causes_2_is_named),
      unit_test(test_causes_2_has_its_number), unit_test(test_causes_3_is_named),
      unit_test(test_causes_3_has_its_number), unit_test(test_causes_4_is_named),
      unit_test(test_causes_4_has_its_number), unit_test(test_causes_5_is_named),
      unit_test(test_causes_5_has_its_number), unit_test(test_causes_6_is_named),
      unit_test(test_causes_6_has_its_number))

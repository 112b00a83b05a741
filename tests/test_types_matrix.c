/* ranks: 1  device: cpu  threads: 1
 *
 * No layout that works is refused: the types of combinations of techniques (combinations.h) on 1, 2, 4 and 8 ranks
 * are compiled for some rank of each, without running a kernel. They are a sample by number (LONG=1: 20 times as many).
 * If a technique or an op's shape refuses with E_CONFIG, the combination is no layout. */
#include "driver/recipe.h"
#include "lib/types/types.h"
#include "tests/combinations.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CANDIDATES = 4000 };          /* per number of ranks */

static bool is_candidate(int k, int total) {
    double n = getenv("LONG") ? 20.0 * CANDIDATES : CANDIDATES;
    return (uint32_t)k * UINT32_C(2654435761) < UINT32_MAX * fmin(1, n / total);
}

enum verdict { ILLEGAL, TYPED, REFUSED };
static enum verdict verdict_on(const struct plan *p, int rank) {
    struct run r = {0};
    enum status status = run_compile(&r, &train_recipe, p, rank, NULL, NULL);
    run_destroy(&r);
    if (status == E_INTERNAL) dprintf(STDERR_FILENO, "%s\n", status_text());
    status_clear();
    return status == OK ? TYPED : status == E_INTERNAL ? REFUSED : ILLEGAL;
}

static void go_through(int ranks, int n[3]) {
    combinations_of_world(ranks);
    int total = combination_count(N_CHOICES);
    for (int k = 0; k < total; k++) {
        if (!is_candidate(k, total)) continue;
        struct combination c = combination_of(k);
        struct plan p;
        if (combination_plan(&c, &p)) n[verdict_on(&p, k / 7 % ranks)]++;
        else n[ILLEGAL]++;
        status_clear();
    }
}

TEST(test_types_refuse_no_legal_layout) {
    int n[] = {[ILLEGAL] = 0, [TYPED] = 0, [REFUSED] = 0};
    for (int ranks = 1; ranks <= 8; ranks *= 2) go_through(ranks, n);
    if (getenv("LONG"))
        dprintf(STDERR_FILENO, "%d layouts typed, %d refused; %d are none\n", n[TYPED], n[REFUSED], n[ILLEGAL]);
    assert_true(n[TYPED] > 1000);
    assert_int_equal(n[REFUSED], 0);
}

TESTS(unit_test(test_types_refuse_no_legal_layout))

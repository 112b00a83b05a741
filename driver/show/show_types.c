/* trivium show types. run_compile checks one rank's types after every rewrite. Compilation takes milliseconds, so the
 * command compiles all ranks. */
#include "driver/show/show_views.h"

#include "lib/types/types.h"
#include <stdio.h>

static enum status check_rank(const struct plan *plan, const struct recipe *recipe, int rank) {
    struct run r;
    enum status status = run_compile(&r, recipe, plan, rank, NULL, NULL);
    char place[64];
    if (status == E_INTERNAL)
        status = FAIL(E_INTERNAL, "on rank %d (%s): %s", rank, mesh_place_text(&r.plan.place, place, sizeof place),
                      status_message());
    run_destroy(&r);
    return status;
}

static enum status print_types(const struct program *p) {
    struct types t;
    enum status status = types_infer(p, "all rewrites", &t);
    if (status == OK && !t.factors.n) printf("one rank a stage: nothing is sharded\n");
    if (status == OK && t.factors.n) types_print(p, &t, stdout);
    types_fini(&t);
    return status;
}

static enum status print_rank(const struct plan *plan, const struct recipe *recipe, int rank) {
    struct run r;
    enum status status = run_compile(&r, recipe, plan, rank, NULL, NULL);
    if (status == OK) status = print_types(&r.program);
    run_destroy(&r);
    return status;
}

enum status show_types(const struct plan *plan, const struct recipe *recipe, int rank) {
    int n = plan_ranks(plan);
    if (!plan->check_types)
        return FAIL(E_CONFIG, "check-types=off, and show types prints what the check has found; leave it out");
    for (int i = 0; i < n; i++) TRY(check_rank(plan, recipe, i));
    if (n > 1) printf("types of all %d ranks fit together\n", n);
    printf("types on rank %d, by axis of the mesh: R replicated, S(t) sharded along axis t, P a partial sum, "
           "V varying;\nof a param, its gradient before it is summed (lib/types/types.h)\n", rank);
    return print_rank(plan, recipe, rank);
}

#include "driver/commands.h"

#include "driver/oracle/oracle_page.h"
#include "oracle/causes/causes.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *trivium_version = "(unknown)";

static void say_all_right(const struct check *k) {
    double worst = 0;
    const struct checked *at = k->row;
    for (int i = 0; i < k->n; i++)
        if (k->row[i].verdict == TENSOR_RIGHT && k->row[i].error / k->row[i].scale > worst)
            worst = k->row[i].error / k->row[i].scale, at = &k->row[i];
    printf("%s: %d tensors, each within what rounding explains; the nearest to its limit is %s of step %" PRId64
           ", at %.0f%%\n",
           k->calls.n_findings ? "no tensor is wrong" : "all right", k->n_compared, at->name, at->step,
           100 * worst / CHECK_FACTOR);
}

/* Print the communication calls in the recording, and findings about them. */
static void say_calls(const struct calls *c, const char *run) {
    enum { MOST_FINDINGS = 3, MOST_GROUPS = 12 };
    if (c->n_ranks == 0) return;
    for (int i = 0; i < c->n_findings && i < MOST_FINDINGS; i++) {
        char text[CALL_TEXT_MAX];
        call_finding_text(c, &c->finding[i], text, sizeof text);
        printf("%s\n", text);
    }
    if (c->n_findings == 0)
        printf("calls: %d, alike on all members of each of %d groups\n", c->n_calls, c->n_groups);
    for (int i = 0; i < c->n_groups && i < MOST_GROUPS; i++)
        printf("  %s: %" PRId64 " calls, %.0f bytes sent\n", c->group[i].label, c->group[i].calls, c->group[i].bytes);
    if (c->n_groups > MOST_GROUPS) printf("  %d groups more: --out DIR, check.json\n", c->n_groups - MOST_GROUPS);
    if (c->n_absent)
        printf("(of %d members of groups %s has no calls: they are not compared)\n", c->n_absent, run);
}

static enum status say(const struct check *k, const char *run, const char *dir) {
    struct suspicion suspect[MAX_SUSPECTS];
    int n = 0;
    if (k->first >= 0) TRY(finding_write(k, trivium_version, suspect, &n, stdout));
    else say_all_right(k);
    say_calls(&k->calls, run);
    if (k->n_compared < k->n)
        printf("(%d of the reference's %d tensors are not in %s)\n", k->n - k->n_compared, k->n, run);
    if (k->run.steps != k->reference.steps)
        printf("(%s has %" PRId64 " steps, and the reference %" PRId64 ": only those of both are compared)\n", run,
               k->run.steps, k->reference.steps);
    if (dir) TRY(oracle_page_write(dir, k, suspect, n));
    return OK;
}

int oracle_check_main(int argc, char **argv) {
    struct check k = {.first = -1};
    const char *dir = argc == 4 && !strcmp(argv[2], "--out") ? argv[3] : NULL;
    enum status status =
        argc == 2 || dir ? OK : FAIL(E_USAGE, "trivium oracle check RUN REFERENCE [--out DIR]; see oracle --help");
    if (status == OK) status = check_recordings(argv[0], argv[1], &k);
    if (status == OK) status = say(&k, argv[0], dir);
    bool wrong = k.first >= 0 || k.calls.n_findings > 0;
    check_close(&k);
    status_report();
    return status != OK ? status_exit_code(status) : wrong;
}

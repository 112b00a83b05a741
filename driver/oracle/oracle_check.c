#include "driver/commands.h"

#include "driver/report/report.h"
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

/* ---- the first wrong tensor ---- */
static void say_place(const struct checked *c) {
    int layer = finding_layer(c->name);
    printf("first wrong: step %" PRId64 ", %s", c->step, c->phase);
    if (layer >= 0) printf(", layer %d", layer);
    printf(": %s\n", c->name);
}

/* Do two ranks have the same values? In one place, or else in two places. */
static bool have_the_same(const struct kept *run, int first, int n, bool in_one_place, int ranks[2]) {
    for (int i = first; i < first + n; i++)
        for (int j = first; j < i; j++) {
            const struct kept_piece *a = &run->piece[j], *b = &run->piece[i];
            size_t bytes = (size_t)box_n(&a->box) * sizeof *run->values;
            if (a->rank == b->rank || memcmp(a->box.n, b->box.n, sizeof a->box.n)) continue;
            if (in_one_place == !!memcmp(a->box.first, b->box.first, sizeof a->box.first)) continue;
            if (memcmp(run->values + a->at, run->values + b->at, bytes)) continue;
            ranks[0] = a->rank, ranks[1] = b->rank;
            return true;
        }
    return false;
}

/* Activations differ in their number of samples. */
static void say_samples(const struct kept *run, int first, int n, int64_t theirs) {
    int64_t own = run->piece[first].box.of[0];
    int rank[2];
    if (own < theirs && have_the_same(run, first, n, true, rank))
        printf("  ranks %d and %d hold the same %" PRId64 " samples, and a step of the reference has %" PRId64
               ": give each rank its own part of the reference's batch\n", rank[0], rank[1], own, theirs);
    else if (own > theirs && have_the_same(run, first, n, false, rank))
        printf("  ranks %d and %d hold the same samples, and say that these are different parts of a batch of %" PRId64
               ": give ranks with the same samples the same share, record(share=(k, n))\n", rank[0], rank[1], own);
    else
        printf("  all ranks together have %" PRId64 " samples in this step, and the reference has %" PRId64
               ": train on the reference's batch, each rank on its own part\n", own, theirs);
}

static void say_shapes(const struct checked *c, struct kept *run, struct kept *reference) {
    int at, first, n = kept_find(run, c->name, &first);
    kept_find(reference, c->name, &at);
    struct box whole = box_whole(&run->piece[first].box), theirs = box_whole(&reference->piece[at].box), other = whole;
    char own[BOX_TEXT_MAX], text[BOX_TEXT_MAX];
    printf("  rank %d gives it another shape than the reference: %s, and not %s\n", run->piece[first].rank,
           box_text(&whole, own), box_text(&theirs, text));
    other.of[0] = other.n[0] = theirs.of[0];
    bool of_samples = suspect_ends_with(c->name, ".act") || suspect_ends_with(c->name, ".act_grad");
    if (of_samples && !memcmp(&other, &theirs, sizeof other)) say_samples(run, first, n, theirs.of[0]);
}

static enum status say_first(const struct check *k) {
    const struct checked *c = &k->row[k->first];
    struct kept run = {0}, reference = {0};
    say_place(c);
    if (c->verdict != TENSOR_OF_ANOTHER_SHAPE) return OK;
    enum status status = recording_read(&k->run, c->step, &run);
    if (status == OK) status = recording_read(&k->reference, c->step, &reference);
    if (status == OK) say_shapes(c, &run, &reference);
    kept_fini(&run);
    kept_fini(&reference);
    return status;
}

/* ---- the page ---- */
static json_t *calls_json(const struct calls *c) {
    json_t *groups = json_array(), *findings = json_array();
    char text[CALL_TEXT_MAX];
    for (int i = 0; i < c->n_groups; i++)
        json_array_append_new(groups, json_pack("{s:s,s:I,s:I}", "group", c->group[i].label, "calls",
                                                (json_int_t)c->group[i].calls, "bytes",
                                                (json_int_t)(c->group[i].bytes + 0.5)));
    for (int i = 0; i < c->n_findings; i++) {
        call_finding_text(c, &c->finding[i], text, sizeof text);
        json_array_append_new(findings, report_text(text));
    }
    return json_pack("{s:i,s:o,s:o}", "ranks", c->n_ranks, "groups", groups, "findings", findings);
}

static json_t *row_json(const struct checked *c) {
    static const char *const VERDICTS[] = {"right", "wrong", "apart", "in part", "another shape", "not recorded"};
    json_t *row = json_pack("{s:I,s:s,s:o,s:s,s:i}", "step", (json_int_t)c->step, "phase", c->phase, "name",
                            report_text(c->name), "verdict", VERDICTS[c->verdict], "layer", finding_layer(c->name));
    json_object_set_new(row, "error", report_number(c->error));
    json_object_set_new(row, "scale", report_number(c->scale));
    if (c->verdict == TENSOR_APART) json_object_set_new(row, "apart", report_number(c->apart));
    return row;
}

static json_t *page_json(const struct check *k, const struct suspicion *suspect, int n) {
    json_t *rows = json_array(), *suspects = json_array();
    for (int i = 0; i < k->n; i++) json_array_append_new(rows, row_json(&k->row[i]));
    for (int i = 0; i < n; i++) {
        const struct suspicion *x = &suspect[i];
        json_array_append_new(suspects, json_pack("{s:s,s:s,s:o,s:s}", "id", x->id, "what", x->what, "detail",
                                                  report_text(x->detail), "confirm", x->confirm));
    }
    return json_pack("{s:s,s:i,s:i,s:i,s:f,s:o,s:o,s:o}", "kind", "check", "compared", k->n_compared, "wrong",
                     k->n_wrong, "first", k->first, "factor", CHECK_FACTOR, "rows", rows, "suspects", suspects, "calls",
                     calls_json(&k->calls));
}

/* Make DIR if it does not exist, and write check.html and check.json, with all numbers. n: the number of suspects. */
static enum status write_page(const char *dir, const struct check *k, const struct suspicion *suspect, int n) {
    TRY(report_prepare(dir));
    TRY(report_write(dir, "check", page_json(k, suspect, n), JSON_INDENT(1) | JSON_REAL_PRECISION(4)));
    if (!report_has_pictures()) report_pictures(dir, "check");
    return OK;
}

/* ---- the command ---- */
static enum status say(const struct check *k, const char *run, const char *dir) {
    struct suspicion suspect[MAX_SUSPECTS];
    int n = 0;
    if (k->first >= 0) TRY(say_first(k));
    if (k->first >= 0) TRY(finding_write(k, trivium_version, suspect, &n, stdout));
    else say_all_right(k);
    say_calls(&k->calls, run);
    if (k->n_compared < k->n)
        printf("(%d of the reference's %d tensors are not in %s)\n", k->n - k->n_compared, k->n, run);
    if (k->run.steps != k->reference.steps)
        printf("(%s has %" PRId64 " steps, and the reference %" PRId64 ": only those of both are compared)\n", run,
               k->run.steps, k->reference.steps);
    if (dir) TRY(write_page(dir, k, suspect, n));
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

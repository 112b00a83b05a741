#include "driver/oracle/oracle_page.h"

#include "driver/report/report.h"
#include "oracle/causes/causes.h"
#include <stdio.h>
#include <string.h>

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

enum status oracle_page_write(const char *dir, const struct check *k, const struct suspicion *suspect, int n) {
    TRY(report_prepare(dir));
    TRY(report_write(dir, "check", page_json(k, suspect, n), JSON_INDENT(1) | JSON_REAL_PRECISION(4)));
    if (!report_has_pictures()) report_pictures(dir, "check");
    return OK;
}

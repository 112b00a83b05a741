/* The recorder's spans (lib/base/span.h) of a step nest, so an array of DEPTH spans is enough: a span that ends frees
 * its element for the next span. */
#include "lib/trace/trace_state.h"

#include "lib/base/nvtx.h"
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 16 };                     /* more than enough for step, phase, action and row */

struct trace_nvtx { struct run *run; struct spans spans; struct trace_rank names; };

static const char *range_name(const struct trace_nvtx *t, const struct span *s) {
    static char text[64];
    const char *name = trace_span_name(&t->names, s);
    if (s->kind != SPAN_STEP && s->kind != SPAN_ACTION) return name;
    snprintf(text, sizeof text, "%s %d", name, s->kind == SPAN_STEP ? s->step + 1 : s->microbatch);
    return text;
}

static void mark(void *self, int span, enum span_place place, void *stream) {
    struct trace_nvtx *t = self;
    (void)stream;
    if (place == SPAN_BEGINS) nvtx_push(range_name(t, &t->spans.span[span]));
    if (place != SPAN_ENDS) return;
    nvtx_pop();
    t->spans.n = span;
}

enum status trace_nvtx_begin(struct run *r, struct trace_nvtx **out) {
    struct trace_nvtx *t = *out = calloc(1, sizeof *t);
    if (!t) return FAIL(E_MEMORY, "no memory for the names of ranges");
    t->run = r;
    enum status status = spans_init(&t->spans, DEPTH);
    if (status == OK) status = trace_names_of(r, &t->names);
    if (status != OK) {
        trace_nvtx_end(out);
        return status;
    }
    t->spans.marker = (struct span_marker){t, mark};
    r->exec.spans = &t->spans;
    return OK;
}

void trace_nvtx_end(struct trace_nvtx **out) {
    struct trace_nvtx *t = *out;
    *out = NULL;
    if (!t) return;
    if (t->run->exec.spans == &t->spans) t->run->exec.spans = NULL;
    spans_fini(&t->spans);
    trace_names_fini(&t->names);
    free(t);
}

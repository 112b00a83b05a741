/* Signals of a running step: events, which techniques subscribe to, and spans of its phases. */
#include "lib/run/run_state.h"

#include "lib/base/grow.h"

enum status run_subscribe(struct run *r, enum event_kind kind, subscriber *fn, void *self) {
    r->subscriptions = table_grow(r->subscriptions, r->n_subscriptions, sizeof *r->subscriptions);
    r->subscriptions[r->n_subscriptions++] = (struct subscription){kind, fn, self};
    return OK;
}

static enum status emit(struct run *r, struct event event) {
    for (int i = 0; i < r->n_subscriptions; i++) {
        const struct subscription *s = &r->subscriptions[i];
        if (s->kind == event.kind) TRY(s->fn(r, s->self, &event));
    }
    return OK;
}
enum status run_emit(struct run *r, enum event_kind kind) { return emit(r, (struct event){.kind = kind, .param = -1}); }

enum status run_param_event(void *self, const struct param_event *e) {
    static const enum event_kind events[N_ROW_KINDS] = {
        [ROW_PARAM_AHEAD] = EVENT_PARAM_AHEAD, [ROW_PARAM_NEEDED] = EVENT_PARAM_NEEDED,
        [ROW_PARAM_DONE] = EVENT_PARAM_DONE, [ROW_GRAD_READY] = EVENT_GRAD_READY};
    return emit(self, (struct event){events[e->kind], e->param, e->buffer, e->final, e->forward});
}

/* ---- spans of a step and its phases ---- */
const char *run_phase_name(enum run_phase phase) {
    static const char *const names[N_PHASES] = {"clear gradients", "forward and backward", "sum loss",
                                                "end of backward", "combine gradients",
                                                "unscale", "norm", "update", "publish"};
    return names[phase];
}

void run_record_step(struct run *r) {
    struct spans *s = r->exec.spans;
    if (!s) return;
    s->now.step = (int32_t)r->n_step;
    s->open_step = span_open(s, SPAN_STEP, 0);
    s->open_phase = -1;
}

void run_enter(struct run *r, enum run_phase phase) {
    struct spans *s = r->exec.spans;
    if (!s || s->now.step < 0) return;                               /* settling may repeat an update after its step */
    span_close(s, s->open_phase);
    s->open_phase = span_open(s, SPAN_PHASE, (int)phase);
}

void run_record_end(struct run *r) {
    struct spans *s = r->exec.spans;
    if (!s) return;
    span_close(s, s->open_phase);
    span_close(s, s->open_step);
    s->now.step = -1;
}

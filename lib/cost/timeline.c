/* The simulator.
 *
 * Idea: a stage has a clock and a position in its schedule. The stages take turns: each runs until it must wait, and
 * the simulation ends when no stage can move. Each message goes to one receiver, in order, and a stage always waits for
 * a message instead of polling. So the result does not depend on the turns (Kahn 1974), and a deadlock occurs here if
 * and only if it occurs with real ranks of any speed.
 *
 * Wires: each stage has one incoming first-in-first-out wire per channel, like the executor's messages
 * (lib/program/exec_transfer.c: the tag is the channel). The schedule gives each message's receiver (schedule.h, hops).
 *
 * Formula: start = max(own clock, time of the awaited event); end = start + the duration of the action.
 * What breaks: a wrong schedule makes a run hang.
 *
 * Source: Kahn 1974, "The semantics of a simple language for parallel programming". */
#include "lib/cost/timeline.h"

#include "lib/base/grow.h"
#include <stdio.h>
#include <stdlib.h>

struct message { struct action read_by; double arrives, received; };
struct wire { struct message *messages; int n_sent, n_received; };

struct simulation {
    const struct schedule *stages;
    int n_stages, depth;
    action_time *time;
    const void *times;                 /* the argument `self` of time */
    struct timeline *line;
    /* in: wires from other stages by channel, then wires from the stage itself by channel */
    struct stage_state { int done; double clock; struct wire in[2 * N_CHANNELS]; } *state;
};

enum progress { WAITS, MOVED, BROKEN };

static bool is_backward(enum action_kind k) { return k == SEND_B || k == RECV_B; }
static double later(double a, double b) { return a > b ? a : b; }

const char *action_text(const struct action *a) {
    static char texts[2][64];
    static int turn;
    char *text = texts[turn ^= 1];
    snprintf(text, sizeof texts[0], "%s of chunk %d, microbatch %d", action_name(a->kind), a->chunk, a->microbatch);
    return text;
}

/* ---- one action ---- */
/* A message from a stage to itself is on a wire of its own. */
static struct wire *wire_of(const struct simulation *s, int stage, const struct action *a, bool sends) {
    int other = schedule_hop(&s->stages[stage], a).rank, channel = schedule_channel(&s->stages[stage], a);
    return &s->state[sends ? other : stage].in[channel + (other == stage ? N_CHANNELS : 0)];
}

/* The receive that reads this send's message: of the same microbatch in the neighbor's chunk. */
static struct action reader_of(const struct simulation *s, int stage, const struct action *send) {
    return action_of(is_backward(send->kind) ? RECV_B : RECV_F, schedule_hop(&s->stages[stage], send).chunk,
                     send->microbatch);
}

static enum progress send(struct simulation *s, int stage, const struct action *a, struct timeline_span *span) {
    struct wire *w = wire_of(s, stage, a, true);
    if (w->n_sent - w->n_received >= s->depth) return WAITS;
    if (w->n_sent >= s->depth) span->end = later(span->end, w->messages[w->n_sent - s->depth].received);
    w->messages = table_grow(w->messages, w->n_sent, sizeof *w->messages);
    w->messages[w->n_sent++] = (struct message){reader_of(s, stage, a), span->end + s->time(s->times, stage, a), 0};
    return MOVED;
}

static enum progress receive(struct simulation *s, int stage, const struct action *a, struct timeline_span *span) {
    struct wire *w = wire_of(s, stage, a, false);
    if (w->n_received == w->n_sent) return WAITS;
    struct message *m = &w->messages[w->n_received++];
    if (m->read_by.chunk != a->chunk || m->read_by.microbatch != a->microbatch) {
        FAIL(E_INTERNAL, "stage %d, action %d: %s meets the message for %s", stage, s->state[stage].done,
             action_text(a), action_text(&m->read_by));
        return BROKEN;
    }
    span->end = m->received = later(span->end, m->arrives);
    return MOVED;
}

static enum progress transfer(struct simulation *s, int stage, const struct action *a, struct timeline_span *span) {
    if (schedule_hop(&s->stages[stage], a).rank >= 0)
        return a->kind == SEND_F || a->kind == SEND_B ? send(s, stage, a, span) : receive(s, stage, a, span);
    FAIL(E_INTERNAL, "stage %d, action %d: %s goes beyond the end of the pipeline", stage, s->state[stage].done,
         action_text(a));
    return BROKEN;
}

static enum progress advance(struct simulation *s, int stage) {
    struct stage_state *me = &s->state[stage];
    const struct action *a = &s->stages[stage].actions[me->done];
    struct timeline_span span = {me->clock, me->clock};
    enum progress p = MOVED;
    if (action_is_compute(a->kind)) span.end += s->time(s->times, stage, a);
    else p = transfer(s, stage, a, &span);
    if (p != MOVED) return p;
    me->clock = span.end;
    s->line->span[stage][me->done++] = span;
    return MOVED;
}

/* ---- all stages ---- */
static enum progress take_turns(struct simulation *s) {
    enum progress all = MOVED;
    while (all == MOVED) {
        all = WAITS;
        for (int i = 0; i < s->n_stages; i++)
            for (enum progress p = MOVED; p == MOVED && s->state[i].done < s->stages[i].n;) {
                p = advance(s, i);
                if (p == BROKEN) return BROKEN;
                if (p == MOVED) all = MOVED;
            }
    }
    return all;
}

static enum status refuse_deadlock(const struct simulation *s, int stage) {
    const struct action *a = &s->stages[stage].actions[s->state[stage].done];
    bool sends = a->kind == SEND_F || a->kind == SEND_B;
    int other = schedule_hop(&s->stages[stage], a).rank;
    return FAIL(E_INTERNAL,
                "stage %d, action %d: %s waits forever for stage %d, which %s (%d staging buffer%s a direction)", stage,
                s->state[stage].done, action_text(a), other, sends ? "does not receive" : "does not send", s->depth,
                s->depth == 1 ? "" : "s");
}

static enum status refuse_leftover(const struct simulation *s, int stage, const struct wire *w) {
    return FAIL(E_INTERNAL, "stage %d, action %d (its end): the message for %s is left over", stage, s->stages[stage].n,
                action_text(&w->messages[w->n_received].read_by));
}

static enum status judge_end(struct simulation *s) {
    for (int i = 0; i < s->n_stages; i++)
        if (s->state[i].done < s->stages[i].n) return refuse_deadlock(s, i);
    for (int i = 0; i < s->n_stages; i++)
        for (int d = 0; d < 2 * N_CHANNELS; d++)
            if (s->state[i].in[d].n_received < s->state[i].in[d].n_sent)
                return refuse_leftover(s, i, &s->state[i].in[d]);
    for (int i = 0; i < s->n_stages; i++) s->line->makespan = later(s->line->makespan, s->state[i].clock);
    return OK;
}

static bool allocate(struct simulation *s) {
    size_t n = (size_t)s->n_stages;
    s->state = calloc(n + 1, sizeof *s->state);
    s->line->span = calloc(n + 1, sizeof *s->line->span);
    bool ok = s->state && s->line->span;
    for (size_t i = 0; ok && i < n; i++)
        ok = (s->line->span[i] = calloc((size_t)s->stages[i].n + 1, sizeof **s->line->span)) != NULL;
    return ok;
}

enum status timeline_make(const struct schedule *stages, int n_stages, int depth, action_time *time, const void *self,
                          struct timeline *out) {
    struct simulation s = {stages, n_stages, depth, time, self, out, NULL};
    enum status status = OK;
    *out = (struct timeline){.n_stages = n_stages};
    if (!allocate(&s)) status = FAIL(E_MEMORY, "no memory for the timeline of %d stages", n_stages);
    else if (take_turns(&s) == BROKEN) status = E_INTERNAL;          /* FAIL has set the message */
    else status = judge_end(&s);
    for (int i = 0; s.state && i < n_stages; i++)
        for (int d = 0; d < 2 * N_CHANNELS; d++) free(s.state[i].in[d].messages);
    free(s.state);
    return status;
}

void timeline_fini(struct timeline *t) {
    for (int i = 0; t->span && i < t->n_stages; i++) free(t->span[i]);
    free(t->span);
    *t = (struct timeline){0};
}

/* ---- idle times ---- */
struct stretch { double first, last, busy; };
static struct stretch stretch_of(const struct timeline *t, const struct schedule *s, int stage) {
    struct stretch x = {t->makespan, 0, 0};
    for (int i = 0; i < s->n; i++) {
        struct timeline_span span = t->span[stage][i];
        if (!action_is_compute(s->actions[i].kind)) continue;
        x.busy += span.end - span.start;
        if (span.start < x.first) x.first = span.start;
        if (span.end > x.last) x.last = span.end;
    }
    return x;
}

double timeline_idle(const struct timeline *t, const struct schedule *stages, int stage) {
    return t->makespan - stretch_of(t, &stages[stage], stage).busy;
}

double timeline_bubble(const struct timeline *t, const struct schedule *stages) {
    double most = 0;
    for (int i = 0; i < t->n_stages; i++) {
        struct stretch x = stretch_of(t, &stages[i], i);
        most = later(most, x.last - x.first - x.busy);
    }
    return most;
}

/* The simulator.
 *
 * Idea: a stage is a clock and a place in its schedule. Every stage goes on until it must wait, in turn, until nobody moves.
 * That each message goes to one receiver, in order, and that nobody looks whether a message is there without waiting for it,
 * makes the result independent of the turns (Kahn 1974): so what this finds without clocks holds for real ranks, however fast.
 *
 * Wires: one into each stage from each side, first in first out, as the executor's messages are (lib/program/exec.c: the tag is
 * the direction). The stages are a ring: forward from the last arrives at the first, one chunk further; backward the other way.
 *
 * Formula: start = max(own clock, when what it waits for happens); end = start + the time of its kind.
 * What breaks if it is wrong: a run that hangs. Source: Kahn, "The semantics of a simple language for parallel programming". */
#include "pp/pp_timeline.h"

#include "lib/base/grow.h"
#include <stdio.h>
#include <stdlib.h>

struct message { struct action read_by; double arrives, received; };
struct wire { struct message *messages; int n_sent, n_received; };

struct simulation {
    const struct schedule *stages;
    int n_stages, depth;
    const struct pp_times *times;
    struct pp_timeline *line;
    struct stage_state { int done; double clock; struct wire in[2]; } *state;   /* wires by direction: [1] backward */
};

enum progress { WAITS, MOVED, BROKEN };

static bool is_backward(enum action_kind k) { return k == SEND_B || k == RECV_B; }
static double later(double a, double b) { return a > b ? a : b; }

const char *pp_action_text(const struct action *a) {
    static char texts[2][64];
    static int turn;
    char *text = texts[turn ^= 1];
    snprintf(text, sizeof texts[0], "%s of chunk %d, microbatch %d", action_name(a->kind), a->chunk, a->microbatch);
    return text;
}

/* ---- one action ---- */
static int receiver_of(const struct simulation *s, int stage, bool backward) {
    return (stage + (backward ? s->n_stages - 1 : 1)) % s->n_stages;
}

/* Who reads it: the same chunk and microbatch, but for a message that goes around the end of the ring. */
static struct action reader_of(const struct simulation *s, int stage, const struct action *send) {
    bool backward = is_backward(send->kind);
    struct action a = {backward ? RECV_B : RECV_F, send->chunk, send->microbatch};
    if (!backward && stage == s->n_stages - 1) a.chunk++;
    if (backward && stage == 0) a.chunk--;
    return a;
}

static enum progress send(struct simulation *s, int stage, const struct action *a, struct pp_span *span) {
    bool backward = is_backward(a->kind);
    struct wire *w = &s->state[receiver_of(s, stage, backward)].in[backward];
    if (w->n_sent - w->n_received >= s->depth) return WAITS;
    if (w->n_sent >= s->depth) span->end = later(span->end, w->messages[w->n_sent - s->depth].received);
    w->messages = table_grow(w->messages, w->n_sent, sizeof *w->messages);
    w->messages[w->n_sent++] = (struct message){reader_of(s, stage, a), span->end + s->times->transfer, 0};
    return MOVED;
}

static enum progress receive(struct simulation *s, int stage, const struct action *a, struct pp_span *span) {
    struct wire *w = &s->state[stage].in[is_backward(a->kind)];
    if (w->n_received == w->n_sent) return WAITS;
    struct message *m = &w->messages[w->n_received++];
    if (m->read_by.chunk != a->chunk || m->read_by.microbatch != a->microbatch) {
        FAIL(E_INTERNAL, "stage %d, action %d: %s meets the message for %s", stage, s->state[stage].done, pp_action_text(a),
             pp_action_text(&m->read_by));
        return BROKEN;
    }
    span->end = m->received = later(span->end, m->arrives);
    return MOVED;
}

static enum progress advance(struct simulation *s, int stage) {
    struct stage_state *me = &s->state[stage];
    const struct action *a = &s->stages[stage].actions[me->done];
    struct pp_span span = {me->clock, me->clock};
    enum progress p = MOVED;
    if (a->kind == SEND_F || a->kind == SEND_B) p = send(s, stage, a, &span);
    else if (a->kind == RECV_F || a->kind == RECV_B) p = receive(s, stage, a, &span);
    else span.end += s->times->tape[a->kind];
    if (p != MOVED) return p;
    me->clock = span.end;
    s->line->span[stage][me->done++] = span;
    return MOVED;
}

/* ---- all of them ---- */
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
    int other = receiver_of(s, stage, sends == is_backward(a->kind));
    return FAIL(E_INTERNAL, "stage %d, action %d: %s waits for ever for stage %d, which %s (%d staging buffer%s a direction)", stage,
                s->state[stage].done, pp_action_text(a), other, sends ? "does not receive" : "does not send", s->depth,
                s->depth == 1 ? "" : "s");
}

static enum status refuse_leftover(const struct simulation *s, int stage, const struct wire *w) {
    return FAIL(E_INTERNAL, "stage %d, action %d (its end): the message for %s is left over", stage, s->stages[stage].n,
                pp_action_text(&w->messages[w->n_received].read_by));
}

static enum status judge_end(struct simulation *s) {
    for (int i = 0; i < s->n_stages; i++)
        if (s->state[i].done < s->stages[i].n) return refuse_deadlock(s, i);
    for (int i = 0; i < s->n_stages; i++)
        for (int d = 0; d < 2; d++)
            if (s->state[i].in[d].n_received < s->state[i].in[d].n_sent) return refuse_leftover(s, i, &s->state[i].in[d]);
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

enum status pp_timeline_make(const struct schedule *stages, int n_stages, int depth, const struct pp_times *times,
                             struct pp_timeline *out) {
    struct simulation s = {.stages = stages, .n_stages = n_stages, .depth = depth, .times = times, .line = out};
    enum status status = OK;
    *out = (struct pp_timeline){.n_stages = n_stages};
    if (!allocate(&s)) status = FAIL(E_MEMORY, "no memory for the timeline of %d stages", n_stages);
    else if (take_turns(&s) == BROKEN) status = E_INTERNAL;          /* its sentence has been said */
    else status = judge_end(&s);
    for (int i = 0; s.state && i < n_stages; i++)
        for (int d = 0; d < 2; d++) free(s.state[i].in[d].messages);
    free(s.state);
    return status;
}

void pp_timeline_fini(struct pp_timeline *t) {
    for (int i = 0; t->span && i < t->n_stages; i++) free(t->span[i]);
    free(t->span);
    *t = (struct pp_timeline){0};
}

double pp_timeline_idle(const struct pp_timeline *t, const struct schedule *stages, int stage) {
    double busy = 0;
    for (int i = 0; i < stages[stage].n; i++)
        if (action_is_compute(stages[stage].actions[i].kind)) busy += t->span[stage][i].end - t->span[stage][i].start;
    return t->makespan - busy;
}

/* The model of test_membership.c, and sentences for the events between two of its states. They explain a violation
 * better than the state does. */
#pragma once

#include "lib/comm/membership/membership.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SLOTS = 4, EPOCHS = 6, STEPS = 2, DEATHS = 2 };

struct rank {
    bool alive, failed, joined, ends;                /* failed: the rank has died; ends: it sees that the epoch ends */
    int8_t state, epoch, step;                       /* steps done */
    int8_t left_of[2][2];                            /* the epoch of each copy in the rank's store */
    struct membership_store store;
};
struct model {
    struct rank rank[SLOTS];
    int8_t n_epochs, deaths, started, step_committed;     /* started: processes started in place of dead ones */
    int8_t asked, leaver;                            /* the epoch asked to end; the slot asked to leave; -1: none */
    int8_t n[EPOCHS], from[EPOCHS], slot[EPOCHS][SLOTS];
    int8_t said[EPOCHS][SLOTS];                      /* the reported step to go back to; -2: not reported yet */
    /* a bit per slot: it has sent its shards; has committed; has drained */
    uint8_t moved[EPOCHS], committed[EPOCHS], drained[EPOCHS];
    bool ends[EPOCHS][STEPS + 1];                    /* a rank in the step's sums had seen that the epoch must end */
    uint8_t joined[EPOCHS][STEPS + 1], sent[EPOCHS][STEPS + 1];   /* a bit per slot: in the sums; copy is in flight */
};
struct world { int members, slots, most, late; bool leaves; };   /* late: slots whose processes start later */

/* A growing text, in lines of about 100 columns. */
struct words { int n, line; char text[2048]; };

static inline void say(struct words *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (w->n > 0) w->n += snprintf(w->text + w->n, sizeof w->text - (size_t)w->n, w->n - w->line > 80 ? ";\n" : "; ");
    if (w->n > 0 && w->text[w->n - 1] == '\n') w->line = w->n;
    w->n += vsnprintf(w->text + w->n, sizeof w->text - (size_t)w->n, format, arguments);
    va_end(arguments);
    if (w->n >= (int)sizeof w->text) w->n = (int)sizeof w->text - 1;
}

static inline void say_of_rank(struct words *w, int slot, const struct model *before, const struct model *after) {
    const struct rank *a = &before->rank[slot], *b = &after->rank[slot];
    if (a->alive && !b->alive) say(w, "%d %s", slot, b->failed ? "dies" : "ends");
    if (!a->alive && b->alive) say(w, "%d starts", slot);
    if (a->state != b->state || a->epoch != b->epoch) {
        int said = b->state == MEMBER_REPORT ? after->said[b->epoch][slot] : -2;
        if (said >= 0) say(w, "%d has step %d of epoch %d", slot, said, after->from[b->epoch]);
        else if (said == -1) say(w, "%d has nothing of epoch %d", slot, after->from[b->epoch]);
        else say(w, "%d: %s", slot, member_state_name((enum member_state)b->state));
    } else if (a->step != b->step) {
        say(w, "%d keeps its shard of step %d", slot, b->step);
    } else if (!a->joined && b->joined) {
        say(w, "%d joins the sums of step %d", slot, b->step + 1);
    } else if (memcmp(a->left_of, b->left_of, sizeof a->left_of) != 0) {
        say(w, "%d gets its copy of step %d", slot, b->step);
    }
}

static inline void say_what_happens(struct words *w, const struct model *before, const struct model *after) {
    for (int slot = 0; slot < SLOTS; slot++) say_of_rank(w, slot, before, after);
    if (after->leaver != before->leaver) say(w, "%d must leave", after->leaver);
    if (after->asked >= 0 && after->asked != before->asked) say(w, "epoch %d must end", after->asked);
    for (int e = before->n_epochs; e < after->n_epochs; e++) {
        char members[4 * SLOTS + 1] = "";
        for (int i = 0; i < after->n[e]; i++) sprintf(members + strlen(members), " %d", after->slot[e][i]);
        say(w, "epoch %d opens:%s, back to epoch %d", e, members, after->from[e]);
    }
}

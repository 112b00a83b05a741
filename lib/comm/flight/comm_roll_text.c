/* The result of a roll call as a sentence: the silent ranks, and the ranks that wait in another operation. */
#include "lib/comm/flight/comm_roll.h"

#include "lib/base/say.h"

enum { MAX_NAMED = 6 };

static bool same_operation(const struct mail_state *a, const struct mail_state *b) {
    return a->waiting && b->waiting && a->op == b->op && a->sequence == b->sequence && a->leader == b->leader &&
           a->size == b->size && a->peer == b->peer && strncmp(a->group, b->group, sizeof a->group) == 0;
}

void roll_describe(char *text, size_t text_bytes, const struct mail_state *state) {
    struct line line = {text, text_bytes, 0};
    say(&line, "%s #%lld of group %.*s (%d rank%s)", comm_op_name((enum comm_op)state->op), (long long)state->sequence,
        GROUP_NAME_BYTES, state->group, state->size, state->size == 1 ? "" : "s");
    if (state->peer >= 0) say(&line, " %s rank %d", state->op == COMM_SEND ? "to" : "from", state->peer);
}

static void say_state(struct line *line, int rank, const struct mail_state *state) {
    char operation[128];
    roll_describe(operation, sizeof operation, state);
    if (state->waiting) say(line, "rank %d waits in %s", rank, operation);
    else say(line, "rank %d is computing", rank);
}

/* Members of the group come first, because among hundreds of silent ranks the cause is most likely one of them. */
static int say_silent(struct line *line, const struct roll_entry *entry, int n_ranks, int my_rank) {
    int n_silent = 0;
    for (int members = 1; members >= 0; members--)
        for (int r = 0; r < n_ranks; r++) {
            if (r == my_rank || entry[r].answered || entry[r].member != members) continue;
            if (n_silent < MAX_NAMED) say(line, "%s %d", n_silent ? "," : "no answer from rank", r);
            n_silent++;
        }
    if (n_silent > MAX_NAMED) say(line, " and %d more", n_silent - MAX_NAMED);
    if (n_silent) say(line, " (stopped, dead or computing)");
    return n_silent;
}

static int say_elsewhere(struct line *line, const struct roll_entry *entry, int n_ranks, int my_rank,
                         const struct mail_state *mine) {
    int n_elsewhere = 0;
    for (int members = 1; members >= 0; members--)
        for (int r = 0; r < n_ranks; r++) {
            const struct roll_entry *e = &entry[r];
            if (r == my_rank || !e->answered || e->member != members || same_operation(&e->state, mine)) continue;
            if (n_elsewhere < MAX_NAMED) {
                if (line->used) say(line, "; ");
                say_state(line, r, &e->state);
            }
            n_elsewhere++;
        }
    if (n_elsewhere > MAX_NAMED) say(line, "; %d more ranks are elsewhere", n_elsewhere - MAX_NAMED);
    return n_elsewhere;
}

void roll_text(char *text, size_t text_bytes, const struct roll_entry *entry, int n_ranks, int my_rank,
               const struct mail_state *mine) {
    struct line line = {text, text_bytes, 0};
    *text = 0;
    int n = say_silent(&line, entry, n_ranks, my_rank);
    n += say_elsewhere(&line, entry, n_ranks, my_rank, mine);
    if (n == 0) say(&line, "every other rank answered that it waits in it too");
}

/* The roll call: it finds the missing ranks, and the operations in which other ranks wait. Private to this folder. */
#pragma once

#include "lib/comm/transport/comm_mail.h"

/* The result of a roll call for one rank. */
struct roll_entry {
    bool member;             /* is the rank in the group that the caller waits in? */
    bool answered;
    struct mail_state state; /* what it answered */
};

/** The answer of a rank that waits in this request; NULL: it computes. */
struct mail_state roll_state(const struct comm_request *);

/** Answer the pings that have arrived. Never blocks. @collective{none} */
void roll_answer(void);

/** Ask every rank of the world, collect answers for about a second, and write the result into `text`. Other ranks
 *  answer inside their waits. @collective{none} */
void roll_call(const struct comm_request *, char *text, size_t text_bytes);

/** The result of a roll call as a sentence, from entry[0..n_ranks), by world rank. Pure. It first names members of the
 *  group, then other ranks, and only a few of each kind. entry[my_rank] is not used. */
void roll_text(char *text, size_t text_bytes, const struct roll_entry *entry, int n_ranks, int my_rank,
               const struct mail_state *mine);

/** The operation as text, "all_reduce #12 of group dp (2 ranks)"; for a message also the peer. Pure. */
void roll_describe(char *text, size_t text_bytes, const struct mail_state *);

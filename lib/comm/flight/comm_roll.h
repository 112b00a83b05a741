/* The roll call: it finds the missing ranks, and the operations that the others wait for. Private to this folder. */
#pragma once

#include "lib/comm/transport/comm_mail.h"

/* The result of a roll call for one rank. */
struct roll_entry {
    bool member;             /* of the group that the caller waits in */
    bool answered;
    struct mail_state state; /* what it answered */
};

/** What a rank in this request answers; NULL: it computes. */
struct mail_state roll_state(const struct comm_request *);

/** Answer the pings that have arrived. Never blocks. @collective{none} */
void roll_answer(void);

/** Ask every rank of the world, collect answers for about a second, and write the result into `text`. The others answer
 *  inside their waits. @collective{none} */
void roll_call(const struct comm_request *, char *text, size_t text_bytes);

/** The sentence of a roll call, of entry[0..n_ranks) by world rank; pure. Members of the group are named before others,
 *  and only a few ranks of each kind. entry[my_rank] does not matter. */
void roll_text(char *text, size_t text_bytes, const struct roll_entry *entry, int n_ranks, int my_rank,
               const struct mail_state *mine);

/** "all_reduce #12 of group dp (2 ranks)"; a message also says from or to which rank. Pure. */
void roll_describe(char *text, size_t text_bytes, const struct mail_state *);

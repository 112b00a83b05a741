/* Finds the rank that blocks a job, and why, from the flight records of all ranks. Pure functions over rings.
 *
 * Collectives are merged by (group, sequence). The causes are tried in this order:
 *   1 mismatch   members make different calls in the same collective; the earliest such collective counts
 *   2 missing    ranks wait in a call that a rank has not made. Of several missing ranks, blame one that is silent or
 *                waits for no other: if A waits for B and B for C, blame C
 *   3 circle     ranks wait for each other in a circle: one left its step early, a message is lost, or orders differ
 *   4 stuck      all members have called it, and it does not end: blame the silent rank, or that with the fewest hops
 * A rank is silent if it has given no sign of life for a second while others have: it is stopped, dead or computing.
 *
 * What breaks: rows that were overwritten cannot be compared (a mismatch more than 4096 calls ago); on a GPU with NCCL
 * the host continues before the collective is done, so that a mismatch is found, but a wait only at its deadline. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/comm/flight/flight.h"

enum postmortem_kind { POSTMORTEM_NONE, POSTMORTEM_MISMATCH, POSTMORTEM_MISSING, POSTMORTEM_CIRCLE, POSTMORTEM_STUCK };
/* The kind of a mismatch, found from the next calls of both ranks. */
enum postmortem_mismatch { MISMATCH_DIFFERS, MISMATCH_SWAPPED, MISMATCH_LEFT_OUT, MISMATCH_ONE_MORE };

struct postmortem_rank {
    const struct flight_row *last;     /* the last call; NULL: none */
    const struct flight_row *waits;    /* the call in which the rank waits; NULL: it does not wait */
    double waited_s, silent_s;         /* seconds of this wait; seconds since its last sign of life */
    int waits_for;                     /* the world rank for which it waits; -1: none is known */
    int64_t behind;                    /* the most calls by which it is behind other members of a group */
};

struct postmortem {
    enum postmortem_kind kind;
    enum postmortem_mismatch mismatch;
    int rank, other;                   /* the rank to blame, and a rank to compare it with, which waits or calls
                                        * otherwise; -1: none */
    const struct flight_row *row, *other_row;   /* the calls of the two ranks; row NULL: `rank` has not called */
    int n_waiting;                     /* ranks that wait in other_row */
    double waited_s;                   /* the longest of these waits */
    int64_t behind;                    /* calls by which `rank` is behind, in the group of other_row */
    int n_unknown;                     /* ranks without a record */
    struct postmortem_rank *of;        /* [set->size]; owned */
};

static inline bool flight_is_message(const struct flight_row *r) { return r->op == COMM_SEND || r->op == COMM_RECV; }
/** The rows of *out point into the set. @errors E_MEMORY @collective{none} */
enum status postmortem_find(const struct flight_set *, struct postmortem *out);
void postmortem_fini(struct postmortem *);
/** "mismatch" */
const char *postmortem_kind_name(enum postmortem_kind);

/** The result as a sentence: the rank to blame, its last call, and for how long others have waited. */
void postmortem_text(const struct flight_set *, const struct postmortem *, char *text, size_t bytes);
/** The last call of one rank: "waits in all_reduce of 100 fp32, #12 of dp (4 ranks), for 3.0 s, for rank 1". */
void postmortem_rank_text(const struct flight_set *, const struct postmortem *, int rank, char *text, size_t bytes);

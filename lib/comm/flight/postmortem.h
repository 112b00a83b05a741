/* Finds the rank that holds up a job, and why, by the flight records of all ranks. Pure functions over rings.
 *
 * Collectives are merged by (group, sequence). In this order:
 *   1 mismatch   members make different calls as the same collective: the first one, by time
 *   2 missing    others wait in a call that a rank has not made. Of several such ranks, blame the one that is silent or
 *                waits for no other: if A waits for B and B for C, blame C
 *   3 circle     each of them waits for another: their order differs
 *   4 stuck      all have called it, and it does not end: blame the silent rank, or the one with the fewest hops
 * Silent is a rank that has given no sign of life for a second, while others have: stopped, dead or computing.
 *
 * What breaks: rows that were overwritten cannot be compared (a mismatch more than 4096 calls ago); on a GPU with NCCL
 * the host goes on before the collective is done, so that a mismatch is found, and a wait only at its deadline. */
#pragma once

#include "lib/comm/flight/flight.h"

enum postmortem_kind { POSTMORTEM_NONE, POSTMORTEM_MISMATCH, POSTMORTEM_MISSING, POSTMORTEM_CIRCLE, POSTMORTEM_STUCK };
/* The kind of a mismatch, by the next calls of both ranks. */
enum postmortem_mismatch { MISMATCH_DIFFERS, MISMATCH_SWAPPED, MISMATCH_LEFT_OUT, MISMATCH_ONE_MORE };

struct postmortem_rank {
    const struct flight_row *last;     /* called last; NULL: nothing */
    const struct flight_row *waits;    /* the call in which it waits; NULL: it does not */
    double waited_s, silent_s;         /* for so long; since its last sign of life */
    int waits_for;                     /* world rank; -1: none that is known */
    int64_t behind;                    /* collectives of a group that others have called and it has not: the most */
};

struct postmortem {
    enum postmortem_kind kind;
    enum postmortem_mismatch mismatch;
    int rank, other;                   /* to blame; and the rank to compare with: another caller, one that
                                          waits. -1: none */
    const struct flight_row *row, *other_row;   /* what each of them calls; row NULL: it has not called */
    int n_waiting;                     /* ranks in other_row */
    double waited_s;                   /* the longest of these */
    int64_t behind;                    /* of rank, in the group of other_row */
    int n_unknown;                     /* ranks without a record */
    struct postmortem_rank *of;        /* [set->size]; owned */
};

/** Rows point into the set. @errors E_MEMORY  @collective{none} */
enum status postmortem_find(const struct flight_set *, struct postmortem *out);
void postmortem_fini(struct postmortem *);
/** "mismatch" */
const char *postmortem_kind_name(enum postmortem_kind);

/** The verdict, as a sentence: the rank, what it did, for how long. */
void postmortem_text(const struct flight_set *, const struct postmortem *, char *text, size_t bytes);
/** What one rank did last: "waits in all_reduce of 100 fp32, #12 of dp (4 ranks), for 3.0 s, for rank 1". */
void postmortem_rank_text(const struct flight_set *, const struct postmortem *, int rank, char *text, size_t bytes);

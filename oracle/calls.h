/* The ranks' communication calls, a line each, in DIR/collectives-RANK.jsonl (docs/oracle-format.md).
 *
 *   {"rank":0,"step":1,"sequence":7,"op":"all_reduce","group":[0,1],"name":"dp","count":96,"dtype":"fp32","bytes":384}
 *
 * In any run, members of a group must make the same calls: op, count and dtype, in the same order. A message also has
 * "peer" and "tag"; messages from one rank to another with one tag must be received in the order in which they were
 * sent. */
#pragma once

#include "lib/comm/comm.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* ---- writing ---- */
/* Lines of a step, in memory. All zero initially. */
struct call_log { FILE *to; char *text; size_t n; int64_t step, sequence; };

/** @errors E_MEMORY  @collective{none} */
enum status call_log_init(struct call_log *);
/** Drop the last step's lines; from now until call_log_stop, this rank's calls are logged as calls of `step`. */
void call_log_start(struct call_log *, int64_t step);
void call_log_stop(struct call_log *);
/** Append the step's lines to the rank's file. @errors E_IO  @collective{none} */
enum status call_log_write(const struct call_log *, const char *folder);
void call_log_fini(struct call_log *);

/* ---- reading ---- */
enum { CALL_TEXT_MAX = 1024, CALL_OP_MAX = 32, CALL_DTYPE_MAX = 16, CALL_GROUP_MAX = 4096, CALL_RANKS_MAX = 65536 };

/* label: "dp (ranks 0, 1)". calls, bytes: sums over all members, with messages. */
struct call_group { char *label; int *member, n_members; int64_t calls; double bytes; };
/* Calls of one channel must have the same order on its ranks. peer -1: a collective. order: place in the files. */
struct called {
    int rank, peer, group, channel, order;
    int64_t step, sequence, count;
    char op[CALL_OP_MAX], dtype[CALL_DTYPE_MAX];
};

/* `rank` and `other` make different calls at the same place of a channel. call or others NULL: that rank makes no
 * further call. sure: more members agree with `other`; if false, either of the two may be wrong. */
enum call_fault { CALL_DIFFERS, CALL_SWAPPED, CALL_MISSING, CALL_MORE };
struct call_finding {
    enum call_fault fault;
    bool sure;
    int group, rank, other;
    const struct called *call, *others;
};

struct calls {
    struct called *call;
    struct call_group *group;
    json_t *groups, *channels;           /* number of each label; number of each channel */
    bool no_memory;                      /* an allocation failed */
    bool *read;                          /* [n_ranks] is there a file? */
    int n_calls, n_groups, n_ranks;          /* n_ranks 0: no file */
    struct call_finding *finding;        /* the first of each channel, the earliest first */
    int n_findings, n_absent;            /* absent: members of groups that have no file; they are not compared */
};

/** Read a recording's files of calls, if any, and compare each group. The caller closes *out in any case.
 *  @errors E_FORMAT: a line that is no call; E_IO, E_MEMORY  @collective{none} */
enum status calls_check(const char *folder, struct calls *out);
void calls_close(struct calls *);
/** "rank 1 calls all_reduce of 96 fp32 and rank 0 ...": one line, without its end. @collective{none} */
void call_finding_text(const struct calls *, const struct call_finding *, char *text, size_t bytes);

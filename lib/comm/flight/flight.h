/* The flight record: each rank's last communication, in a file of shared memory that remains after the rank's death.
 *
 * A rank that hangs or is killed prints nothing. So every rank always records each collective and message of more than
 * one rank while it happens, in a ring of the last 4096 rows of 64 bytes: trivium.JOB.RANK in the user's own folder
 * /dev/shm/trivium-UID (lib/base/shared.h: other users may write to /dev/shm). The kernel keeps the pages when a signal
 * kills the process, and any process of this user may read them while the rank hangs. lib/comm/flight/postmortem.h
 * compares the rings of all ranks.
 *
 *   what is stored      where                                   when
 *   a row               row[number % 4096], one 64-byte store   a call; its state, hop and end when they change
 *   calls of a group    group[].called                          a collective's call; kept longer than its rows
 *   the wait            wait_row, wait_since_ns                 comm_wait begins and ends
 *   a sign of life      seen_ns, gap_*_ns                       between rows, and every millisecond of a wait
 *
 * All are stores into mapped memory: no system call, no lock. Times are nanoseconds of wall time, taken from one
 * reading of both clocks at the start and the monotonic clock since. The group is identified by a hash of its name,
 * members and number of creation, which is the same on every member. The layout is this machine's; `version` guards it.
 *
 * What breaks. A row may be read while it is written: then its `number` is that of another round, or one field is newer
 * than the rest; for a rank that hangs neither happens. On a GPU with NCCL a collective is QUEUED, not done, when the
 * host continues. Clocks on several hosts are only as exact as NTP. A clean end removes the file; of the files of
 * crashed jobs, a starting rank removes all but the newest 64 whose processes are gone.
 *
 * Source: PyTorch's flight recorder; its users ask for a version and the number of dropped rows (pytorch #117883,
 * #125173). */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLIGHT_VERSION = 1, FLIGHT_ROWS = 4096, FLIGHT_GROUPS = 96, FLIGHT_MOST_DEAD = 64, FLIGHT_PATH_MAX = 4096 };
enum flight_state { FLIGHT_CALLED = 1, FLIGHT_STARTED, FLIGHT_QUEUED, FLIGHT_DONE };

/* One collective or message; its size is a multiple of a cache line. */
struct flight_row {
    int64_t number;                /* number of this row since the start, from 1; 0: never written */
    int64_t called_ns, done_ns;    /* done_ns 0: not yet */
    int64_t sequence;              /* number, from 0, among the group's collectives or this rank's messages in it */
    int64_t count;                 /* elements, as passed to the call */
    uint32_t group;                /* hash */
    int32_t step;                  /* the training step, from 1; 0: none */
    int32_t peer;                  /* world rank: the root, or a message's other end; -1: none */
    int32_t tag;
    uint16_t hop, hops;            /* hop k of n is running; n 0: a collective of the library, or a message */
    uint8_t op, dtype, reduction, state;   /* enum comm_op, dtype, comm_reduction, flight_state */
};

/* A group of more than one rank that this rank is in. Its members are first, first + stride, ...; stride 0: members
 * without a fixed stride. */
struct flight_group {
    char name[16];
    uint32_t hash;
    int32_t size, rank, first, stride;
    int32_t open;                  /* 0: it has been destroyed */
    int64_t called;                /* collectives */
};

/* A training rank's last step. bytes: sent inside the node [0], and to other nodes [1]. */
struct flight_step { int64_t step; double own_s, wait_s, bytes[2]; };

struct flight {
    char magic[8];
    uint32_t version, n_rows, n_groups;    /* rows of the ring; used entries of group[] */
    int32_t rank, size, pid;
    char host[64], job[64];
    int64_t start_ns, end_ns;   /* end_ns: when the rank gave up or its ring was taken away; 0: it runs or was killed */
    int64_t written;               /* rows written since the start; the last min(written, n_rows) are in the ring */
    int64_t seen_ns;
    int64_t gap_from_ns, gap_to_ns;        /* the last gap of a second or more between two signs of life */
    int64_t wait_row, wait_since_ns;       /* the number of the awaited row; 0: the rank does not wait */
    struct flight_step step;
    struct flight_group group[FLIGHT_GROUPS];
    struct flight_row row[FLIGHT_ROWS] __attribute__((aligned(64)));
};

/* ---- writing: only lib/comm may write, except for flight_step_is ---- */

/** Open this process's ring, trivium.JOB.PROCESS in flight_folder(). If that fails, nothing is recorded, the other
 *  functions do nothing, and a rank with `speaks` prints one warning. */
void flight_open(const char *job, int process, int rank, int size, const char *host, bool speaks);
/** In a new epoch: empty the ring, whose old rows name ranks of the old epoch, and use it for this rank from now on. */
void flight_rank_is(int rank, int size);
/** Close the ring, and remove its file unless `keep`. */
void flight_close(bool keep);
/** This process's ring, or NULL. */
const struct flight *flight_mine(void);

/** Add a new group of `size` ranks; members: world ranks; made: a number that is the same on all members, and different
 *  for each group. @return its index in group[], for the other functions; -1: group[] is full */
int flight_group_open(const char *name, int size, int rank, const int *members, int made);
void flight_group_close(int group);

/** Record a call, whose sequence, count, op and other known fields the caller has set. @return its number; 0: not
 *  recorded */
int64_t flight_called(int group, bool collective, const struct flight_row *call);
void flight_state_is(int64_t number, enum flight_state);
void flight_hop_is(int64_t number, int hop, int hops);
/** Record that this rank waits for row `number` since since_s (clock_s); number 0: it no longer waits. */
void flight_waits(int64_t number, double since_s);
void flight_seen(double now_s);
/** Record the running step's number, and the last step's times and bytes. */
void flight_step_is(const struct flight_step *);

/* ---- reading: flight_read.c ---- */

/** The parent of this user's folder of rings: $TRIVIUM_FLIGHT, or else /dev/shm. */
const char *flight_parent(void);
/** This user's folder of rings, which only this user can read and write; it may not exist. Borrowed until the next
 *  call. */
const char *flight_folder(void);
/** A ring of zeros, aligned as its rows need; the caller frees it with `free`. NULL: no memory. */
struct flight *flight_blank(void);
/** A copy of the ring in a file. The caller frees *out with `free`. @errors E_DATA: no such file; E_FORMAT: it is not a
 *  ring, or of another version; E_MEMORY */
enum status flight_read(const char *path, struct flight **out);

/** Restore the ring's state at a time: remove later rows and ends. When launch kills a job, a rank that was stopped
 *  continues for a moment and adds rows; its state at the time when the first rank gave up explains the failure. Pure.
 */
void flight_cut(struct flight *, int64_t at_ns);

/* The rings of one job: ring[size], by rank; NULL: not found. now_ns: when the first rank gave up, and the rings are
 * cut there. If no rank gave up, it is the wall time while a rank runs, or else the last sign of life of any rank. */
struct flight_set { int size, n_found; struct flight **ring; int64_t now_ns; bool alive; char job[64]; };
/** Read a job's rings in `folder`; job "": the job that started last. Only rings with the world size of the newest one
 *  are read. @errors E_DATA: no rings, and the message lists the jobs that have some; E_MEMORY */
enum status flight_set_read(const char *folder, const char *job, struct flight_set *out);
void flight_set_fini(struct flight_set *);
/** Remove the rings of a job on this host. */
void flight_remove(const char *job);
/** Remove the rings of ended processes, except for the newest `most`. */
void flight_prune(int most);

/** Row `number`; NULL: it is overwritten, or not written yet. */
const struct flight_row *flight_row_at(const struct flight *, int64_t number);
/** The group with this hash, or NULL. */
const struct flight_group *flight_group_find(const struct flight *, uint32_t hash);
/** Rows that were overwritten. */
static inline int64_t flight_dropped(const struct flight *f) {
    return f->written > FLIGHT_ROWS ? f->written - FLIGHT_ROWS : 0;
}

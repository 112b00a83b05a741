/* Groups of ranks and the collectives over them.
 *
 * Every operation is asynchronous: it starts here and ends in comm_wait, where every wait has a deadline. The blocking
 * forms are start + wait. Backends: `self` (one rank: nothing to do, nothing sent) and `mpi`; for memory of a GPU,
 * `nccl` or `staged` (comm_use_device). Only this folder looks at a group's size; no other code asks whether it is one.
 *
 * Waiting. Ranks may outnumber cores, and MPI makes no progress by itself, so a wait is MPI_Test + sched_yield until
 * done or until the deadline. At the deadline the rank calls the roll: every waiting rank answers with the operation
 * that it waits for; the silent ones are named. (Measured alternatives: docs/architecture.md, "Waiting".)
 *
 * Counting. Each group keeps a ledger: calls, algorithm bytes, seconds, by operation. With n ranks and a buffer of S
 * bytes (the whole one, not the shard) the algorithm bytes that one rank sends are
 *   all_reduce 2 S (n-1)/n | all_gather, reduce_scatter, all_to_all S (n-1)/n | broadcast, reduce, send S | recv,
 *   barrier 0
 * which is what a ring moves, and what "bus bandwidth" divides by time (nccl-tests, PERFORMANCE.md). */
#ifndef TRIVIUM_COMM_COMM_H
#define TRIVIUM_COMM_COMM_H

#include "lib/base/span.h"
#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/comm/nodes.h"
#include "lib/device/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum comm_op {
    COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_BROADCAST, COMM_REDUCE, COMM_ALL_TO_ALL,
    COMM_SEND, COMM_RECV, COMM_BARRIER, N_COMM_OPS
};
/* With floating types a NaN on any rank is the result of all three. */
enum comm_reduction { COMM_SUM, COMM_MAX, COMM_MIN };
/** "all_reduce" */
const char *comm_op_name(enum comm_op);

/* messages, sent: this rank's real messages and their bytes, inside its node [0] and between nodes [1], also those of
 * collectives by hops. The library's messages are unknown: library_calls counts its calls. */
struct ledger_entry { int64_t calls, library_calls, messages[2]; double bytes, sent[2], wait_s; };
struct ledger { struct ledger_entry entry[N_COMM_OPS]; int64_t hop_bytes; /* most memory of hops at once */ };

struct group;        /* opaque; made by the mesh */
struct comm_algorithm; /* hops.h */
struct comm_request; /* an operation for comm_wait; the caller has the storage (comm_request.h) */

/* ---- the world: one per process ---- */
/* The algorithm of the collectives of one axis of the mesh (mesh.h; 0: of groups outside it) on host memory. By
 * default, and for operations that the algorithm does not have: large sums and gathers pairwise, the others by the
 * library. */
struct comm_rule { bool library; const struct comm_algorithm *algorithm; };
enum { COMM_MAX_AXES = 24 };
struct comm_settings {
    double timeout_s;          /* the deadline of every wait */
    bool check_collectives;    /* compare op, count, dtype and root across the group before each collective */
    bool time_work;            /* add up comm_work_s: two system calls more for each operation and each wait */
    struct comm_rule rule[COMM_MAX_AXES];   /* how collectives on host memory go, by the group's axis */
    struct nodes nodes;
};
/** Start MPI (asks for MPI_THREAD_FUNNELED; warns if it gets less). Without mpirun this is a world of one. Sets the
 *  process identity to "rank r/n @host". @collective{every process of the job} @errors E_COMM */
enum status comm_start(int *argc, char ***argv);
/** Ranks of a job may change (`launch --elastic`): then a wait returns E_EPOCH. First leave: operations in flight are
 *  dropped, their requests and buffers are the caller's again, and only groups may be destroyed. Then enter: rank, size
 *  and the world's group are new; all other groups must have been destroyed. A process that is no member waits here
 *  until it is one. @collective{the members of the new epoch} @errors E_EPOCH: they have changed again; E_INTERNAL: a
 *  group is left, or the transport is MPI; E_COMM, E_MEMORY */
void comm_epoch_leave(void);
enum status comm_epoch_enter(void);
/** Rank 0 reports the number of finished steps, for launch --chaos. @collective{none} */
void comm_epoch_done(int64_t step);
/** The number of the epoch, 0 at first. @collective{none} */
int comm_epoch(void);
/** Its members, and those of the epoch whose snapshots it goes back to (from->number -1: there is none, and n is 0).
 *  Ranks are places; slots identify processes in both. Under MPI there is one epoch, and none before it.
 *  @collective{none} */
struct membership;
void comm_epoch_members(struct membership *now, struct membership *from);
/** Say that this rank is committed: from here on its death loses nothing (membership/membership.h).
 *  @collective{none} */
void comm_epoch_commit(void);
/** Have all members of this epoch committed? @collective{none} */
bool comm_epoch_is_committed(void);
/** Was this epoch asked to end at the edge of a step, for a planned one (membership/membership.h)? Ranks see it at
 *  different times, and have to agree. @collective{none} */
bool comm_epoch_ends(void);
/** Wait for the next epoch, after ranks have agreed and kept their state of the last step. @return E_EPOCH
 *  @collective{members} @errors E_INTERNAL: the transport is MPI */
enum status comm_epoch_drain(void);
/** Ask for this rank to be replaced, or no more; a SIGUSR2 to its process asks to leave, and that stays so.
 *  @collective{none} */
void comm_epoch_ask_relief(bool wanted);
/** How the job may shrink (membership/membership.h); until this call, no rank can be left out. Rank 0's call counts.
 *  @collective{none} */
struct membership_shape;
void comm_epoch_shape(const struct membership_shape *);
/** A number that outlives ranks: the last one that any process kept as rank 0; 0 at first. @collective{none} */
void comm_epoch_keep(int64_t number);
int64_t comm_epoch_kept(void);
/** Change the settings of the world, the same on every rank; while no operation is in flight. */
void comm_configure(const struct comm_settings *);
/** From here on every sum of host memory over a power of two of ranks, of any size and under any rule, is a binary tree
 *  over them, neighbors first (hops_halving.c). No operation may be in flight during the call.
 *  @collective{world} */
void comm_fix_sums(bool on);
/** Under time_work, this thread's processor seconds in operations so far: starting, advancing and awaiting them. The
 *  rest of a rank's processor time is its own work. @collective{none} */
double comm_work_s(void);
/** Leave MPI. Unless `clean`, and when an operation that ran into its deadline is still in flight, kills the job with
 *  exit code `code` (MPI_Abort). In a world of one there is no peer to kill: it returns, and the caller exits.
 *  @collective{every process of the job, when clean} */
void comm_finish(bool clean, int code);
int comm_world_rank(void);
int comm_world_size(void);
/** Is this rank 0 of the world, which speaks for all? */
static inline bool comm_is_rank_0(void) { return comm_world_rank() == 0; }
int comm_local_rank(void);     /* place among the ranks of this host, and how many there are */
int comm_local_size(void);
/** Cores that the ranks of this host may use together: those of all their affinity masks, no more than the cgroup's
 *  quota. */
double comm_local_cores(void);
/** "node03": this machine, without its domain. */
void comm_host_name(char *host, size_t bytes);
/** Has the transport of host memory collectives of its own, as MPI has? Otherwise all go by tables (hops.h). Before
 *  comm_start: MPI. @collective{none} */
bool comm_has_library(void);
/** Was this program built with MPI? Without (make MPI=0) ranks are launch's own. @collective{none} */
bool comm_has_mpi(void);
/** "Open MPI v4.1.4", and "NCCL 2.21.5" after it in builds for GPUs. Static storage. */
const char *comm_library(void);

/* ---- device memory ---- */
/* The transport of a GPU's memory. */
enum comm_transport {
    COMM_NCCL,     /* NCCL, on streams of its own: a GPU for each rank, or shared ones if comm_nccl_fits */
    COMM_STAGED,   /* through pinned host memory and MPI: ranks may share a GPU */
    COMM_ALONE     /* none: only groups of one rank will be used. This call is not collective */
};
/** From here on, operations on memory of `device` go through the transport, in old and new groups. An operation's
 *  buffers are all the device's or all the host's. A second call with the same arguments does nothing; another
 *  transport replaces the first. The CPU: nothing to do.
 *
 *  Order: start puts the operation after all work issued so far on the compute stream; comm_wait puts all later work
 *  after the operation. With NCCL neither waits: the data may still be in flight when comm_wait returns; later work on
 *  the GPU waits for them. STAGED waits until the copy back to the GPU is queued.
 *  @collective{world, but COMM_ALONE} @errors E_CONFIG: NCCL, and ranks share a GPU; E_COMM, E_DEVICE, E_MEMORY */
enum status comm_use_device(const struct device *device, enum comm_transport);
/** Do two ranks compute on one GPU? Compares the GPUs' identities; their numbers may differ between ranks.
 *  @collective{world} @errors E_COMM, E_DEVICE */
enum status comm_device_shared(const struct device *device, bool *shared);
/** Can NCCL move memory of these GPUs? Where ranks share one: with NCCL 2.30 and newer, if all ranks have
 *  NCCL_MULTI_RANK_GPU_ENABLE=1. @collective{world} @errors E_COMM, E_DEVICE */
enum status comm_nccl_fits(const struct device *device, bool *fits);
/** Has an operation on the device failed since it was started? Does not wait. comm_wait_device checks, too.
 *  @errors E_COMM, E_DEVICE */
enum status comm_device_check(void);
/** Wait for work on the device, named `what`, until the deadline; other operations advance meanwhile. At the deadline
 *  the roll is called, as in comm_wait, for the oldest unfinished operation on the device; then NCCL's communicators
 *  are aborted, and no more device memory is moved. @errors E_TIMEOUT, E_COMM, E_DEVICE  @collective{none} */
enum status comm_wait_device(const struct device_mark *, const char *what);
/** The same for all work queued by now. Call it before a call that waits for the device itself and would not notice a
 *  lost peer: upload, download, finish. @errors as comm_wait_device  @collective{none} */
enum status comm_wait_queued(const struct device *, const char *what);

/* ---- groups ---- */
/** Split the world: ranks of one colour form a group, ordered by key (ties by world rank). colour < 0: *out is a group
 *  of one; GROUP_ALL_ALONE: every rank gets a group of one, without communication. `name` ("tp") is copied and appears
 *  in errors and ledgers. @collective{world} @errors E_COMM, E_MEMORY */
enum { GROUP_ALL_ALONE = -2 };
enum status group_create(const char *name, int colour, int key, struct group **out);
/** The whole world; owned by comm, never destroyed. */
struct group *group_world(void);
/** This rank alone; owned by comm, never destroyed. */
struct group *group_self(void);
void group_destroy(struct group **); /* @collective{group} */
/** Prepare the group for messages between device buffers of neighbors in the ring of its ranks, with tags 0 to
 *  n_tags - 1 (at most 4), before the first of them (comm_lanes_nccl.c). Tags 0 and 3 go to the next rank, 1 and 2 to
 *  the one before. @collective{group} @errors as group_create */
enum status group_carry_messages(struct group *, int n_tags);
int group_size(const struct group *);
int group_rank(const struct group *);
const char *group_name(const struct group *);
const struct ledger *group_ledger(const struct group *);
void group_ledger_reset(struct group *);
/** Algorithm bytes of one operation, as the ledger counts them. n: size of the group; bytes: of the whole buffer. */
double comm_algorithm_bytes(enum comm_op, int n, double bytes);

/** From here on record a span for each collective of more than one rank (the schedule records messages): from its start
 *  until comm_wait finds it done. Borrowed; NULL: stop. No collective may be in flight during the call.
 *  @collective{none} */
void comm_record(struct spans *);

/* An operation that this rank calls in a group of more than one. members, peer: world ranks; bytes: as the ledger
 * counts them. Valid only during the call of comm_watch. */
struct comm_seen {
    enum comm_op op;
    enum dtype dtype;
    int64_t count;
    double bytes;
    int peer, tag;                 /* of a message; else -1, 0 */
    const char *group;
    const int *members;
    int size;
};
struct comm_watch { void *self; void (*call)(void *self, const struct comm_seen *); };
/** From here on `call` gets every such operation when it starts, in order. call NULL: stop.
 *  @collective{none} */
void comm_watch_calls(struct comm_watch);

/* ---- operations ---- All are @collective{group} but send and recv. Buffers stay the caller's and must not be touched
 * between start and wait. `count` is in elements, at most 2^31 - 1 in the whole buffer; buffers are host memory, or all
 * of them memory of the device in use (comm_use_device), where also MAX and MIN are of fp32, fp64 and integers only.
 * Sums of bf16 and fp16 are taken in fp32 per pair and rounded once. Results are the same bits on every rank, and the
 * same bits every time for the same group.
 * @errors E_COMM (also: more elements than MPI takes, or members that disagree under check_collectives); E_INTERNAL for
 * a rank or tag that does not exist; in comm_wait E_TIMEOUT (rank, operation, sequence number, group, the missing
 * ranks) */

/** x[0..count) = reduction over the group, in place. */
enum status comm_all_reduce_start(const struct group *, void *x, int64_t count, enum dtype, enum comm_reduction,
                                  struct comm_request *);
/** full[r * count + i] = shard of rank r. shard may be its own place inside full. */
enum status comm_all_gather_start(const struct group *, const void *shard, void *full, int64_t count, enum dtype,
                                  struct comm_request *);
/** shard[i] = sum over ranks of full[rank * count + i]. shard may be its own place inside full only when the group has
 *  one rank; otherwise the two must not overlap. */
enum status comm_reduce_scatter_start(const struct group *, const void *full, void *shard, int64_t count, enum dtype,
                                      struct comm_request *);
enum status comm_broadcast_start(const struct group *, void *x, int64_t count, enum dtype, int root,
                                 struct comm_request *);
/** At root x becomes the reduction; elsewhere x is unchanged. */
enum status comm_reduce_start(const struct group *, void *x, int64_t count, enum dtype, enum comm_reduction, int root,
                              struct comm_request *);
/** to[r * count + i] = rank r's from[my rank * count + i]. */
enum status comm_all_to_all_start(const struct group *, const void *from, void *to, int64_t count, enum dtype,
                                  struct comm_request *);
/** Point to point; messages between two ranks with one tag arrive in the order sent. 0 <= tag <= 16383. A rank may send
 *  to itself. */
enum status comm_send_start(const struct group *, const void *x, int64_t count, enum dtype, int to, int tag,
                            struct comm_request *);
enum status comm_recv_start(const struct group *, void *x, int64_t count, enum dtype, int from, int tag,
                            struct comm_request *);
enum status comm_barrier(const struct group *);
/** A barrier for an idle rank; the others, which call comm_barrier, may come hours later. It checks every few
 *  milliseconds and sleeps in between, so that it costs them no time, and has no deadline (theirs end the job). */
enum status comm_idle(const struct group *);

/** Wait until done or deadline; OK at once for a request that is not in flight. Afterwards it is not in flight.
 *  After E_TIMEOUT the operation cannot be taken back: MPI may touch its buffers until the process ends, so report and
 *  leave through comm_finish(false, 1). */
enum status comm_wait(struct comm_request *);
/** Is it done, and so no longer in flight? Never blocks, has no deadline.
 *  @collective{none} @errors E_COMM, E_DEVICE */
enum status comm_test(struct comm_request *, bool *done);
/** From here on comm_progress and the loop of comm_wait call `call`, with which this rank serves others while it
 *  computes or waits. It may test, start and compute, and must not wait; calls do not nest. If it fails in a wait, the
 *  wait fails; comm_progress ignores the failure, so `call` must fail again next time. call NULL: stop.
 *  @collective{none} */
struct comm_service { void *self; enum status (*call)(void *self); };
void comm_serve(struct comm_service);
/** Nudge everything in flight forward (MPI makes no progress by itself) and answer roll calls; call between rows. Never
 *  blocks. */
void comm_progress(void);

/* The blocking forms: start and wait. */
enum status comm_all_reduce(const struct group *, void *x, int64_t count, enum dtype, enum comm_reduction);
enum status comm_all_gather(const struct group *, const void *shard, void *full, int64_t count, enum dtype);
enum status comm_reduce_scatter(const struct group *, const void *full, void *shard, int64_t count, enum dtype);
enum status comm_all_to_all(const struct group *, const void *from, void *to, int64_t count, enum dtype);
enum status comm_broadcast(const struct group *, void *x, int64_t count, enum dtype, int root);

/** Agree on a status. Every rank passes its own; if any failed, the lowest failing rank reports its line
 *  (status_report), and every rank gets that rank's code. OK only if all are OK. A rank that passes E_TIMEOUT asks no
 *  peer: it reports and gets E_TIMEOUT back. If the agreement itself fails, its line is recorded, not reported.
 *  @collective{group; every rank must reach it, failed or not} @errors any code; E_TIMEOUT, E_COMM of its own */
enum status fail_agree(const struct group *, enum status mine);
/** The same for failures that do not end the job: that rank's sentence is a warning, with "training continues".
 *  @collective{group; every rank must reach it, failed or not} @errors as fail_agree */
enum status fail_warn(const struct group *, enum status mine);
/** One of these two. */
typedef enum status fail_agreement(const struct group *, enum status mine);

/** The same agreement for a driver that continues after a failure: no rank reports; every rank gets the first failing
 *  rank's sentence (status_message) in text, "" when all are OK, and its own recorded line is forgotten.
 *  @collective{group; every rank must reach it, failed or not} @errors as fail_agree */
enum status fail_share(const struct group *, enum status mine, char *text, int64_t text_bytes);

#ifdef __cplusplus
}
#endif
#endif

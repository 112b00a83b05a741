/* What `launch` and the ranks of a job without MPI have in common: memory that all processes of a host map, and a line
 * of the environment that says where it is and which slot this process has.
 *
 * A *slot* is a process that an agent has started; its rank is its place in the epoch (membership.h), and a slot
 * without a place is a spare. The memory is a file without a name (memfd_create): the agent makes it, the processes
 * inherit it, and it is gone with the last of them, however that ends. Untouched pages take no room. A job of
 * several hosts has an agent on each, and as many memories; what is written in one the agents carry to the others, by
 * way of the lighthouse (launch/host_link.h). In it lie
 *
 *   a line per slot      how far it is; the agent reads it, since an exit code alone may lie
 *   words                for emulated links (shared_make)
 *   secret, encrypts, addresses     for connections between hosts (network.h)
 *   hosts                which of them has a slot
 *   epochs               written by the agent, and then the number of the newest: a process that reads that has the
 *   epoch
 *   boards               what each member says in an epoch, each in its own words
 *   rings                of each epoch its own: a stream of bytes for each ordered pair of ranks (ring.h). A process
 *                        that was stopped, and does not know yet that it is no member, writes to the old ones */
#ifndef TRIVIUM_COMM_DIRECT_JOB_H
#define TRIVIUM_COMM_DIRECT_JOB_H

#include "lib/base/status.h"
#include "lib/comm/direct/greeting.h"
#include "lib/comm/direct/ring.h"
#include "lib/comm/membership/membership.h"

#define OWN_JOB_VARIABLE "TRIVIUM_OWN_JOB"
/* OWN_CLOSED: a rank says that all have done everything, or the agent opens an epoch: one atomic word decides which of
 * the two was first; of several hosts, the lighthouse's. OWN_EPOCHS: number of epochs whose members are kept; a
 * process that slept longer finds that it is none */
enum { OWN_MOST_RANKS = MEMBERSHIP_MOST_RANKS, OWN_WORDS = 8192, OWN_EPOCHS = 8, OWN_CLOSED = 1 << 30 };
/* The most epochs of a job: own_slot_word and own_done have room for no more. */
enum { OWN_MOST_EPOCHS = 1 << 20 };

enum own_state { OWN_STARTING, OWN_RUNNING, OWN_FINISHED, OWN_WITHDRAWN };     /* WITHDRAWN: comm_withdraw */
/* state: enum own_state; beat: it changes as long as the rank moves. pid, sample, mark: whose memory it is, where a
 * random word lies in it, and that word (lent.h); reads: can it read the memory of the others of this host (enum
 * own_reads)? request: enum member_request; lost: the rank it cannot reach, cut: the rank to cut off (--chaos), both
 * own_slot_word; closes: the epoch that it asks to close, counted from 1, where there are several hosts. A cache
 * line. */
enum own_reads { OWN_UNKNOWN, OWN_READS, OWN_CANNOT_READ };
struct own_line {
    atomic_int state;
    atomic_uint beat;
    atomic_int pid, reads;
    atomic_uint_least64_t sample, mark;
    atomic_int request, lost, cut, closes;
    char alone[16];
};
struct own_board { atomic_int committed, drained; };           /* a member has said so */

struct own_memory {
    struct own_line line[OWN_MOST_RANKS];
    atomic_uint_least64_t word[OWN_WORDS];
    unsigned char secret[GREETING_SECRET];   /* of this job */
    bool encrypts;                           /* what goes between hosts (sealed.h) */
    int16_t host[OWN_MOST_RANKS];            /* of a slot, numbered from 0; written before any rank is started */
    atomic_uint_least64_t address[OWN_MOST_RANKS];   /* where a slot listens: ip << 16 | port; 0: it does not */
    struct membership_shape shape;     /* rank 0 writes it, of an elastic job; zeros: not yet */
    atomic_int_least64_t kept;         /* comm_epoch_keep */
    atomic_int_least64_t done;         /* comm_epoch_done: own_done */
    atomic_int epoch;                  /* number of the newest; with OWN_CLOSED: there will be no other */
    atomic_int ends;                   /* of the one that the agent has asked to end at the edge of a step; or -1 */
    struct membership of[OWN_EPOCHS];  /* by number modulo OWN_EPOCHS */
    struct own_board board[OWN_EPOCHS][OWN_MOST_RANKS];
};

/* n_nodes: slots that follow each other are taken for one of n_nodes hosts, with TCP between them (0 is 1); those from
 * n_first on are dealt round them (0: there are none). ip: where this host's ranks listen, IPv4 in the host's byte
 * order; 0: there is no other host. */
struct own_job { int slot, n_slots, fd, n_nodes, n_first; uint32_t ip; };
/** The emulated host of a slot. Pure. @collective{none} */
int own_node(const struct own_job *, int slot);

/** Make the memory of n_slots slots, of which the first n are the members of epoch 0. *fd stays open in programs that
 *  this process starts. @errors E_CONFIG: more than OWN_MOST_RANKS; E_IO, E_MEMORY  @collective{none} */
enum status own_memory_make(int n_slots, int n, int *fd);
/** Map that of the job, and the n_slots^2 rings of an epoch. @errors E_MEMORY  @collective{none} */
enum status own_memory_map(const struct own_job *, struct own_memory **out);
void own_memory_unmap(struct own_memory *);
enum status own_rings_map(const struct own_job *, int32_t epoch, struct ring **out);
void own_rings_unmap(const struct own_job *, struct ring *);

/* A connection of an epoch, by the slot at its other end. Read late, in a later epoch, it is none. */
static inline int own_slot_word(int32_t epoch, int slot) { return epoch << 10 | (slot + 1); }
static inline int own_word_slot(int word, int32_t epoch) {
    return word >> 10 == epoch ? (word & 1023) - 1 : -1;
}

/* A step that an epoch has done, as one number. */
static inline int64_t own_done(int32_t epoch, int64_t step) { return (int64_t)epoch << 40 | step; }
static inline int32_t own_done_epoch(int64_t done) { return (int32_t)(done >> 40); }
static inline int64_t own_done_step(int64_t done) { return done & (((int64_t)1 << 40) - 1); }

/** The newest epoch, as all slots see it. @collective{none} */
struct membership own_membership_now(const struct own_memory *);
/** Open the next one, for all to see. The agent's alone; rings of epochs before the last committed one are given back.
 *  opened, if not NULL: false if the one before is closed, and then there is no other one.
 *  @errors E_IO, E_MEMORY: there is no room for its rings, or it is OWN_MOST_EPOCHS  @collective{none} */
enum status own_membership_open(struct own_memory *, const struct own_job *, const struct membership *next,
                                bool *opened);
/** Close this epoch, if it is still the newest. @return whether it is closed  @collective{none} */
bool own_membership_close(struct own_memory *, int32_t number);
bool own_membership_is_closed(const struct own_memory *);
/** Have all members committed? Have all drained? @collective{none} */
bool own_membership_is_committed(const struct own_memory *, const struct membership *);
bool own_membership_is_drained(const struct own_memory *, const struct membership *);

/** Write the job into the environment of a process that is started next. */
void own_job_tell(const struct own_job *);
/** What own_job_tell has written, in this process's environment. is_one: is it one of such a job?
 *  @errors E_CONFIG: the line is not one that own_job_tell has written */
enum status own_job_find(struct own_job *out, bool *is_one);
/** Say in the job's memory that this process, which ends now, counts as dead. */
void own_job_withdraw(const struct own_job *);

#endif

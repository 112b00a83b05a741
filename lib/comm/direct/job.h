/* What `launch` and the ranks of a job without MPI share: memory that all processes of a host map, and a line of the
 * environment with its file descriptor and this process's slot.
 *
 * A *slot* is a process that an agent has started; its rank is its place in the epoch (membership.h), and a slot
 * without a place is a spare. The memory is a file without a name (memfd_create): the agent makes it, the processes
 * inherit it, and it is freed when the last process ends, in any way. Untouched pages take no memory. A job of several
 * hosts has an agent and such a memory on each; the agents copy changes to the other hosts' memories, by way of the
 * lighthouse (launch/host_link.h). The memory has
 *
 *   a line per slot      the state of its process, which the agent reads, since an exit code alone may be wrong
 *   words                for emulated links (shared_make)
 *   secret, encrypts, addresses     for connections between hosts (network.h)
 *   hosts                the host of each slot
 *   epochs               the agent writes an epoch, and then its number: a process that reads the number also sees the
 *   epoch
 *   boards               what each member reports in an epoch, each in its own words of memory
 *   rings                for each epoch: a stream of bytes for each ordered pair of ranks (ring.h). A process
 *                        that was stopped, and has not yet seen a newer epoch, writes to the old rings */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/direct/greeting.h"
#include "lib/comm/direct/ring.h"
#include "lib/comm/membership/membership.h"

#define OWN_JOB_VARIABLE "TRIVIUM_OWN_JOB"
/* OWN_CLOSED: a bit of the word `epoch`. A rank sets it to close the job when all work is done. The agent opens epochs
 * in the same word, so the word decides which comes first (with several hosts, the lighthouse's word). OWN_EPOCHS:
 * number of epochs whose members are kept. A process that slept through more epochs finds that it is not a member */
enum { OWN_MOST_RANKS = MEMBERSHIP_MOST_RANKS, OWN_WORDS = 8192, OWN_EPOCHS = 8, OWN_CLOSED = 1 << 30 };
/* The most epochs of a job: own_slot_word and own_done have room for no more. */
enum { OWN_MOST_EPOCHS = 1 << 20 };

enum own_state { OWN_STARTING, OWN_RUNNING, OWN_FINISHED, OWN_WITHDRAWN };     /* WITHDRAWN: comm_withdraw */
/* state: enum own_state; beat: changes as long as the rank makes progress. pid, sample, mark: the process, the address
 * of a random word in its memory, and that word (lent.h). reads: can it read the memory of the other ranks of this host
 * (enum own_reads)? request: enum member_request. lost: the rank that it cannot reach, cut: the rank to disconnect
 * (--chaos), both as own_slot_word. closes: with several hosts, 1 + the epoch that it asks to close. One cache line. */
enum own_reads { OWN_UNKNOWN, OWN_READS, OWN_CANNOT_READ };
struct own_line {
    atomic_int state;
    atomic_uint beat;
    atomic_int pid, reads;
    atomic_uint_least64_t sample, mark;
    atomic_int request, lost, cut, closes;
    char alone[16];
};
struct own_board { atomic_int committed, drained; };           /* the member has committed; has drained */

struct own_memory {
    struct own_line line[OWN_MOST_RANKS];
    atomic_uint_least64_t word[OWN_WORDS];
    unsigned char secret[GREETING_SECRET];   /* of this job */
    bool encrypts;                           /* are connections between hosts encrypted (sealed.h)? */
    int16_t host[OWN_MOST_RANKS];            /* the host of a slot, from 0; written before any rank is started */
    atomic_uint_least64_t address[OWN_MOST_RANKS];   /* where a slot listens: ip << 16 | port; 0: it does not listen */
    struct membership_shape shape;     /* rank 0 of an elastic job writes it; zeros: not written yet */
    atomic_int_least64_t kept;         /* comm_epoch_keep */
    atomic_int_least64_t done;         /* comm_epoch_done: own_done */
    atomic_int epoch;                  /* number of the newest epoch; with OWN_CLOSED: it is the last one */
    atomic_int ends;                   /* the epoch that the agent has asked to end between two steps, or -1 */
    struct membership of[OWN_EPOCHS];  /* by number modulo OWN_EPOCHS */
    struct own_board board[OWN_EPOCHS][OWN_MOST_RANKS];
};

/* n_nodes: emulated hosts, with TCP between them (0 counts as 1). The first n_first slots (0: all) are split into
 * consecutive blocks, one per host; the later slots are dealt to the hosts in turn. ip: where this host's ranks listen,
 * IPv4 in the host's byte order; 0: there is no other host. */
struct own_job { int slot, n_slots, fd, n_nodes, n_first; uint32_t ip; };
/** The emulated host of a slot. Pure. @collective{none} */
int own_node(const struct own_job *, int slot);

/** Make the memory of n_slots slots, of which the first n are the members of epoch 0. *fd stays open in child
 *  processes. @errors E_CONFIG: more than OWN_MOST_RANKS; E_IO, E_MEMORY @collective{none} */
enum status own_memory_make(int n_slots, int n, int *fd);
/** Map the memory of the job; map the n_slots^2 rings of an epoch. @errors E_MEMORY @collective{none} */
enum status own_memory_map(const struct own_job *, struct own_memory **out);
void own_memory_unmap(struct own_memory *);
enum status own_rings_map(const struct own_job *, int32_t epoch, struct ring **out);
void own_rings_unmap(const struct own_job *, struct ring *);

/* A connection: its epoch, and the slot at its other end. A reader in a later epoch sees that the word is old, and
 * ignores it. */
static inline int own_slot_word(int32_t epoch, int slot) { return epoch << 10 | (slot + 1); }
static inline int own_word_slot(int word, int32_t epoch) {
    return word >> 10 == epoch ? (word & 1023) - 1 : -1;
}

/* An epoch and its last finished step, in one number. */
static inline int64_t own_done(int32_t epoch, int64_t step) { return (int64_t)epoch << 40 | step; }
static inline int32_t own_done_epoch(int64_t done) { return (int32_t)(done >> 40); }
static inline int64_t own_done_step(int64_t done) { return done & (((int64_t)1 << 40) - 1); }

/** The newest epoch, the same for all slots. @collective{none} */
struct membership own_membership_now(const struct own_memory *);
/** Open the next epoch, for all slots to see. Only the agent may call it; the memory of rings of the epochs before the
 *  last one is freed. *opened (may be NULL): false if the epoch before is closed, so that there is no other one.
 *  @errors E_IO, E_MEMORY: there is no memory for its rings, or it is OWN_MOST_EPOCHS @collective{none} */
enum status own_membership_open(struct own_memory *, const struct own_job *, const struct membership *next,
                                bool *opened);
/** Close this epoch, if it is still the newest. @return is it closed? @collective{none} */
bool own_membership_close(struct own_memory *, int32_t number);
bool own_membership_is_closed(const struct own_memory *);
/** Have all members committed? Have all drained? @collective{none} */
bool own_membership_is_committed(const struct own_memory *, const struct membership *);
bool own_membership_is_drained(const struct own_memory *, const struct membership *);

/** Write the job into the environment, for a process that is started next. */
void own_job_tell(const struct own_job *);
/** The job that own_job_tell has written into this process's environment. is_one: is there such a job? @errors
 *  E_CONFIG: the line is not one that own_job_tell has written */
enum status own_job_find(struct own_job *out, bool *is_one);
/** Write into the job's memory that this process, which ends now, counts as dead. */
void own_job_withdraw(const struct own_job *);

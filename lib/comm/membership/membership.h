/* Epochs: how the surviving ranks continue when a rank dies, and the snapshots that they must keep. See
 * membership.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* ---- the state machine of a rank ---- */
enum member_state {
    MEMBER_RUN,      /* has committed, and trains */
    MEMBER_REPORT,   /* has dropped its operations in flight, and has reported the newest step that it can go back to */
    MEMBER_MOVE,     /* has the step that all go back to, and receives its shard of this step */
    MEMBER_COPY,     /* has its shard, and receives a copy of its left neighbor's */
    MEMBER_DRAINED,  /* has its shard and copy of the last step, and waits for a planned epoch */
    MEMBER_SPARE,    /* is no member */
    MEMBER_DISK,     /* some shard is not in memory: all read the last checkpoint; each job begins here */
    N_MEMBER_STATES
};
enum member_event {
    EVENT_MEMBER,    /* the lighthouse has opened a new epoch, of which this rank is a member */
    EVENT_NO_MEMBER, /* the lighthouse has opened a new epoch, of which this rank is not a member */
    EVENT_REPORTED,  /* all members that have a step to go back to have reported it */
    EVENT_GONE,      /* all have reported, but some shard's owner and its copy are both gone */
    EVENT_MOVED,     /* its shard is here */
    EVENT_COPIED,    /* the copy of the left neighbor's shard has come, too */
    EVENT_ASKED,     /* all members agree to end this epoch, and have their shards and copies of this step */
    N_MEMBER_EVENTS
};
enum member_action { DO_NOTHING, DO_REPORT, DO_MOVE, DO_KEEP, DO_COMMIT, DO_DRAIN, DO_READ_DISK };

/* A member's request to the lighthouse. WANTS_RELIEF: replace it if there is a spare; LEAVES: let it leave in any
 * case. */
enum member_request { MEMBER_STAYS, MEMBER_WANTS_RELIEF, MEMBER_LEAVES };

struct member_row {
    enum member_state state;
    enum member_event event;
    enum member_state next;
    enum member_action action;
    const char *what;
};
extern const struct member_row member_rows[];
extern const int n_member_rows;
/** The row of a state and an event; NULL: the event has no effect in this state. Pure. @collective{none} */
const struct member_row *member_row(enum member_state, enum member_event);
/** "RUN" */
const char *member_state_name(enum member_state);

/* ---- what an epoch is ---- */
enum { MEMBERSHIP_MOST_RANKS = 256 };
/* The lighthouse writes an epoch before it publishes its number, and never changes it after that. slot[i]: the process
 * of place i. */
struct membership {
    int32_t number, n;
    int32_t from;                        /* the last committed epoch, to whose snapshots this one goes back; -1: none */
    int32_t slot[MEMBERSHIP_MOST_RANKS];
    int16_t host[MEMBERSHIP_MOST_RANKS]; /* the host of place i; all zeros: there is one host */
};
/** The place of a process in the epoch; -1: it is not a member. Pure. @collective{none} */
int membership_place(const struct membership *, int slot);
/* The shape of a job: an epoch may leave out whole replicas. A rank's place is inner + n_inner (replica + n_replicas
 * outer), where n_replicas = ranks / (n_inner n_outer); tp and cp are inner, pp is outer. The number of replicas must
 * divide batch samples, and micro must divide the quotient; 0: no such condition. {1, 1}: every rank is a replica.
 * most: the largest number of ranks, which is that at the job's start; 0: the present number. Bit n of refused: n
 * replicas are impossible for another reason. */
struct membership_shape { int32_t n_inner, n_outer; int64_t batch, micro; int32_t most; uint64_t refused[4]; };
static inline bool membership_refuses(const struct membership_shape *s, int n) {
    return n < 256 && s->refused[n / 64] >> n % 64 & 1;
}
/** The epoch after `now` if only the processes with alive[] are left. Living processes that are not members are spares,
 *  and take the places of dead ones. If there are too few, as many replicas as needed are left out, those with the most
 *  dead first, and their living ranks become spares. If there are enough for more replicas, these are appended.
 *  committed: is `now` committed? n 0: no replica is left. Pure. @collective{none} */
struct membership membership_after(const struct membership *now, bool committed, const bool *alive, int n_slots,
                                   const struct membership_shape *);

/* ---- a rank's snapshots: membership_store.c ---- */
/* The steps of a snapshot: of this rank's own shard, and of the copy of its left neighbor's; -1: none. */
struct membership_snapshot { int64_t own_step, left_step; };
/* The last two steps of an epoch and of the epoch before it: four snapshots in memory. epoch -1: unused. */
struct membership_store { struct { int32_t epoch; struct membership_snapshot of[2]; } kept[2]; };

/** The epoch to whose snapshots the epoch after `now` goes back: `now` itself if it is committed, else now->from. Pure.
 *  @collective{none} */
int32_t membership_from(const struct membership *now, bool committed);
/** Empty the store. Pure. @collective{none} */
void membership_store_clear(struct membership_store *);
/** The newest step of an epoch whose shard and copy are both in the store; -1: none. Pure. @collective{none} */
int64_t membership_newest(const struct membership_store *, int32_t epoch);
/** The snapshot of a step of an epoch; NULL: the store does not have it. Pure. @collective{none} */
const struct membership_snapshot *membership_find(const struct membership_store *, int32_t epoch, int64_t step);
/** Make room for another snapshot of `epoch`, an epoch that began from the state of epoch `from`. The room is that of
 *  the older snapshot of `epoch`, which it overwrites. The first snapshot of an epoch drops both snapshots of another
 *  epoch, but never those of `from`. Pure.
 *  @collective{none} */
struct membership_snapshot *membership_room(struct membership_store *, int32_t epoch, int32_t from);

/** The right neighbor of place i, which keeps a copy of its shard: the same place of another replica, so that no shard
 *  is lost with a replica that is left out. It is the next replica, or with several hosts a replica on another host, so
 *  that no shard is lost with a host. (If one host has more than half of the ranks, as many copies as possible are on
 *  other hosts.) With one replica it is another place. membership_left: the place whose right neighbor is i. Pure.
 *  @collective{none} */
int membership_right(const struct membership_shape *, const struct membership *, int i);
int membership_left(const struct membership_shape *, const struct membership *, int i);
/** The process that has the shard of place i of epoch `from`: its owner if it is a member of `now`, else its right
 *  neighbor if it is one. @return the slot, *copy: it is the neighbor; -1: neither is. Pure. @collective{none} */
int membership_holder(const struct membership *from, const struct membership_shape *, int i,
                      const struct membership *now, bool *copy);

/** The step that all go back to: the smallest that members of both `from` and `now` have reported. said[i]: the
 *  report of place i of `now`; -1: none. @return -1: there is no such step, or a shard of it is lost. Pure.
 *  @collective{none} */
int64_t membership_back(const int64_t *said, const struct membership_shape *, const struct membership *now,
                        const struct membership *from);

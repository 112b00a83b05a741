/* Epochs: how the survivors go on when a rank dies, and the snapshots that they must keep. See membership.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* ---- the state machine of a rank ---- */
enum member_state {
    MEMBER_RUN,      /* has committed, and trains */
    MEMBER_REPORT,   /* has dropped what was in flight, and has said the newest step that it can go back to */
    MEMBER_MOVE,     /* has the step that all go back to, and gets its shard of it */
    MEMBER_COPY,     /* has its shard, and gets a copy of its left neighbor's */
    MEMBER_DRAINED,  /* has its shard and the copy of the last step, and waits for an epoch that is planned */
    MEMBER_SPARE,    /* is no member */
    MEMBER_DISK,     /* some shard is gone from memory: back to the last checkpoint; so does every job begin */
    N_MEMBER_STATES
};
enum member_event {
    EVENT_MEMBER,    /* the lighthouse has opened a new epoch, and this rank is one of its members */
    EVENT_NO_MEMBER, /* a new epoch is open, and this rank is no member */
    EVENT_REPORTED,  /* all members with a step to go back to have reported it */
    EVENT_GONE,      /* the same, and of some shard neither owner nor copy is left */
    EVENT_MOVED,     /* its shard is here */
    EVENT_COPIED,    /* its left neighbor's shard is here, too */
    EVENT_ASKED,     /* all members agree that this epoch ends, and their shards and copies of this step are here */
    N_MEMBER_EVENTS
};
enum member_action { DO_NOTHING, DO_REPORT, DO_MOVE, DO_KEEP, DO_COMMIT, DO_DRAIN, DO_READ_DISK };

/* A member's request to the lighthouse: a spare in its place, if there is one; or to leave in any case. */
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
/** The row of a state and an event; NULL: the event does not concern that state. Pure. @collective{none} */
const struct member_row *member_row(enum member_state, enum member_event);
/** "RUN" */
const char *member_state_name(enum member_state);

/* ---- what an epoch is ---- */
enum { MEMBERSHIP_MOST_RANKS = 256 };
/* The lighthouse writes an epoch before it publishes the number, and never changes it. slot[i]: the process of
 * place i. */
struct membership {
    int32_t number, n;
    int32_t from;                        /* the epoch whose snapshots it goes back to: the last committed; -1: none */
    int32_t slot[MEMBERSHIP_MOST_RANKS];
    int16_t host[MEMBERSHIP_MOST_RANKS]; /* of place i; zeros: one has all */
};
/** The place of a process; -1: it is no member. Pure. @collective{none} */
int membership_place(const struct membership *, int slot);
/* The shape of a job: an epoch may leave out whole replicas. A rank's place is inner + n_inner (replica + n_replicas
 * outer), where n_replicas = ranks / (n_inner n_outer); tp and cp are inner, pp is outer. The replicas must divide
 * batch samples, and micro the quotient; 0: they need not. {1, 1}: every rank is a replica. most: the largest number of
 * ranks, that at the job's start; 0: as many as now. Bit n of refused: n replicas are impossible for another reason. */
struct membership_shape { int32_t n_inner, n_outer; int64_t batch, micro; int32_t most; uint64_t refused[4]; };
static inline bool membership_refuses(const struct membership_shape *s, int n) {
    return n < 256 && s->refused[n / 64] >> n % 64 & 1;
}
/** The epoch after `now` when only the processes with alive[] are left. Living processes that are no members are
 *  spares, and take the places of the dead. If there are too few, as many replicas as needed are left out, those with
 *  most dead first; their living ranks become spares, too. If there are enough for more replicas, these come after the
 *  others. committed: is `now` committed? n 0: no replica is left. Pure. @collective{none} */
struct membership membership_after(const struct membership *now, bool committed, const bool *alive, int n_slots,
                                   const struct membership_shape *);

/* ---- a rank's snapshots: membership_store.c ---- */
/* A step's snapshot: of its own shard, and the copy of its left neighbor's. -1: there is none. */
struct membership_snapshot { int64_t own_step, left_step; };
/* The last two steps of one epoch, and of the one before it: four of each in memory. epoch -1: unused. */
struct membership_store { struct { int32_t epoch; struct membership_snapshot of[2]; } kept[2]; };

/** The epoch whose snapshots the epoch after `now` goes back to: `now` itself if it is committed, else now->from. Pure.
 *  @collective{none} */
int32_t membership_from(const struct membership *now, bool committed);
/** Empty the store. Pure. @collective{none} */
void membership_store_clear(struct membership_store *);
/** The newest step whose shard and copy are both there, in the snapshots of an epoch; -1: none. Pure.
 *  @collective{none} */
int64_t membership_newest(const struct membership_store *, int32_t epoch);
/** The snapshot of a step in an epoch, one of four in the store; NULL: it is not there. Pure. @collective{none} */
const struct membership_snapshot *membership_find(const struct membership_store *, int32_t epoch, int64_t step);
/** Room for another snapshot in `epoch`, which goes back to `from`: in place of the epoch's older snapshot. An epoch's
 *  first snapshot drops both snapshots of another epoch, but never those of `from`. Pure. @collective{none} */
struct membership_snapshot *membership_room(struct membership_store *, int32_t epoch, int32_t from);

/** The right neighbor of place i, which has a copy of its shard: the same place of another replica, so that no shard is
 *  lost with a replica that is left out; the next replica, or with several hosts one on another host, so that no shard
 *  is lost with a host. (If one host holds more than half of the ranks, as many copies as possible go to other hosts.)
 *  With one replica: another place. membership_left: the place whose right neighbor is i. Pure. @collective{none} */
int membership_right(const struct membership_shape *, const struct membership *, int i);
int membership_left(const struct membership_shape *, const struct membership *, int i);
/** The process that has the shard of place i of epoch `from`: its owner if that is a member now, else the right
 *  neighbor if that is one. @return the slot, *copy: it has the copy; -1: none. Pure. @collective{none} */
int membership_holder(const struct membership *from, const struct membership_shape *, int i,
                      const struct membership *now, bool *copy);

/** The step that all go back to: the least that members of both `from` and `now` have reported. said[i]: the report of
 *  place i of `now`; -1: none. @return -1: there is no such step, or a shard of it is gone. Pure. @collective{none} */
int64_t membership_back(const int64_t *said, const struct membership_shape *, const struct membership *now,
                        const struct membership *from);

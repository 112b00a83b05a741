/* What the files of the lighthouse share. Private to it: lighthouse.c is the loop, lighthouse_members.c says who is a
 * member, lighthouse_start.c how agents are started. */
#ifndef TRIVIUM_LAUNCH_LIGHTHOUSE_JOB_H
#define TRIVIUM_LAUNCH_LIGHTHOUSE_JOB_H

#include "launch/chaos_wreak.h"
#include "launch/host_door.h"
#include "launch/hosts.h"
#include "launch/launch.h"
#include "launch/reconnect.h"
#include "lib/comm/direct/job.h"
#include <signal.h>
#include <sys/types.h>

enum host_state { HOST_AWAITED, HOST_IS_HERE, HOST_SILENT, HOST_GONE };
/* starter: the process that starts its agent, 0: none; status: how it has ended. */
/* lost: processes of it that have died; others take their places (--respawn). again_s: when its agent is started again,
 * 0: it is not; is_again: it was. */
struct a_host {
    enum host_state state;
    struct host_link link;
    pid_t starter;
    int status, lost;
    bool has_ended, is_again;
    double again_s;
};

struct lighthouse {
    const struct launch_request *request;
    struct host_list names;
    struct a_host host[MOST_HOSTS];
    struct host_link unnamed[MOST_HOSTS];    /* proven, but have not said yet which host they are */
    struct host_door door;
    struct own_job job;                      /* slot: unused */
    struct own_memory *memory;
    int16_t host_of[OWN_MOST_RANKS];
    bool alive[OWN_MOST_RANKS], told[OWN_MOST_RANKS], left[OWN_MOST_RANKS];    /* as in plan_view */
    int n_started, n_left, code;             /* slots from n_started on are not anywhere yet */
    char meet[DOOR_TEXT];                    /* where agents find it */
    sigset_t unblocked;                      /* what they are to find unblocked */
    struct reconnect reconnect;
    struct wreak chaos;
    int32_t whole_of;                        /* the newest epoch that all hosts know to be whole */
    char who[256];                           /* has died in this turn; "": nobody */
    double ending_s, looked_s;               /* 0: not yet; the last turn */
    bool has_begun;
};

/** Is host h here? Pure. */
bool lighthouse_has(const struct lighthouse *, int h);
/** To all hosts but one. @collective{none} */
void lighthouse_say(struct lighthouse *, int but, enum host_kind, int slot, int epoch, int64_t value);
/** Tell all ranks to end. */
void lighthouse_end_all(struct lighthouse *);
/** The same, with the line of why, which has been recorded. */
void lighthouse_give_up(struct lighthouse *);
/** A host and its ranks are gone: HOST_GONE, HOST_SILENT. */
void lighthouse_lose(struct lighthouse *, int h, enum host_state how, const char *why);
/** What host h has to say now. */
void lighthouse_hear(struct lighthouse *, int h, double now_s);
/** At the end of a turn in which somebody has died. */
void lighthouse_go_on(struct lighthouse *);
/** Processes in place of those that have died, on hosts that are here (--respawn). */
void lighthouse_place(struct lighthouse *);
/** At the end of one in which nobody has: two that live may have lost each other, and a better epoch may be had. And
 *  chaos, if it was asked for. */
void lighthouse_look_ahead(struct lighthouse *);

#endif

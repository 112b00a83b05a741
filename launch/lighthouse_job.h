/* State shared by the files of the lighthouse, and private to them. lighthouse.c is the loop, lighthouse_members.c
 * decides the members, lighthouse_start.c starts agents. */
#pragma once

#include "launch/chaos_wreak.h"
#include "launch/host_door.h"
#include "launch/hosts.h"
#include "launch/launch.h"
#include "launch/reconnect.h"
#include "lib/comm/direct/job.h"
#include <signal.h>
#include <sys/types.h>

enum host_state { HOST_AWAITED, HOST_IS_HERE, HOST_SILENT, HOST_GONE };
/* starter: the process that starts the host's agent, 0: none; has_ended, status: whether it has ended, and how. */
/* lost: the host's dead processes that have no replacement yet (--respawn). again_s: the time to start its agent again,
 * 0: not planned; is_again: the agent was started again. */
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
    struct host_link unnamed[MOST_HOSTS];    /* admitted agents that have not sent their host's name */
    struct host_door door;
    struct own_job job;                      /* slot: unused */
    struct own_memory *memory;
    int16_t host_of[OWN_MOST_RANKS];
    bool alive[OWN_MOST_RANKS], told[OWN_MOST_RANKS], left[OWN_MOST_RANKS];    /* as in struct members */
    int n_started, n_left, code;             /* slots from n_started on have no host yet */
    char meet[DOOR_TEXT];                    /* the address where agents find the lighthouse */
    sigset_t unblocked;                      /* signals that agents start with */
    struct reconnect reconnect;
    struct wreak chaos;
    int32_t committed_of;                    /* the newest epoch that all hosts received as committed */
    char who[256];                           /* this turn's deaths, for a message; "": none */
    double ending_s, looked_s;               /* ending_s 0: not ending; looked_s: the last turn */
    bool has_begun;
};

/** Is host h connected? Pure. */
bool lighthouse_has(const struct lighthouse *, int h);
/** Send to all hosts except `but`; -1: to all. @collective{none} */
void lighthouse_say(struct lighthouse *, int but, enum host_kind, int slot, int epoch, int64_t value);
/** Send TERM to all ranks, once. */
void lighthouse_end_all(struct lighthouse *);
/** Print the recorded failure, then send TERM to all ranks. */
void lighthouse_give_up(struct lighthouse *);
/** Give up host h and its ranks. how: HOST_GONE or HOST_SILENT. */
void lighthouse_lose(struct lighthouse *, int h, enum host_state how, const char *why);
/** Handle the messages that host h has sent. */
void lighthouse_hear(struct lighthouse *, int h, double now_s);
/** At the end of a turn with deaths: open the next epoch, or end the job. */
void lighthouse_go_on(struct lighthouse *);
/** Start processes in place of dead ones, on connected hosts (--respawn). */
void lighthouse_place(struct lighthouse *);
/** At the end of a turn without deaths: mend lost connections; open a better epoch; act for --chaos. */
void lighthouse_look_ahead(struct lighthouse *);

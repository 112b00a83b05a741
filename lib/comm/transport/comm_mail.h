/* Small control messages between any two ranks, apart from all groups: the roll call's pings and answers.
 *
 * They travel on a communicator of their own, so that they never match a message of the program. Sending never blocks
 * (a peer may be dead); receiving takes only what has already arrived. Private to this folder. */
#pragma once

#include "lib/comm/comm_backend.h"

enum mail_kind { MAIL_PING, MAIL_ANSWER, N_MAIL_KINDS };

/* A rank's present activity. Sent as bytes: a job runs one binary on one kind of machine. */
struct mail_state {
    int32_t waiting;       /* 0: computing; the rest is then zero */
    int32_t op, size;      /* operation, and size of its group */
    int32_t leader, peer;  /* world ranks: of the group's rank 0; of the other side of a message, else -1 */
    int64_t sequence;
    char group[GROUP_NAME_BYTES];
};
struct mail { int32_t kind, roll; struct mail_state state; };

/* host_transport.h sends it: mail_send to a world rank, dropped if an earlier one of this kind to it has not left;
 * mail_receive takes one that has arrived, *from its sender's world rank; false if there is none. It also moves
 * everything in flight forward. Neither waits. @collective{none} */

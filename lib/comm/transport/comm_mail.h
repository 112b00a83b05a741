/* Small control messages between any two ranks, apart from all groups: the roll call's pings and answers.
 *
 * They use a communicator of their own, so that they never match a message of the program. A send never blocks, because
 * a peer may be dead; a receive takes only a message that has arrived. Private to this folder. */
#pragma once

#include "lib/comm/comm_backend.h"

enum mail_kind { MAIL_PING, MAIL_ANSWER, N_MAIL_KINDS };

/* What a rank does now. It is sent as bytes, since all ranks of a job run the same binary on the same kind of
 * machine. */
struct mail_state {
    int32_t waiting;       /* 0: the rank computes, and the other fields are zero */
    int32_t op, size;      /* operation, and size of its group */
    int32_t leader, peer;  /* world ranks: rank 0 of the group; the peer of a message, or -1 */
    int64_t sequence;
    char group[GROUP_NAME_BYTES];
};
struct mail { int32_t kind, roll; struct mail_state state; };

/* host_transport.h sends mail: mail_send drops it if an earlier mail of this kind to this rank is still being sent.
 * mail_receive takes a mail that has arrived, and *from, its sender's world rank; false: there is none. It also
 * advances all operations in flight. Neither blocks. @collective{none} */

/* The messages between the agents of hosts and the lighthouse, on one connection per host.
 *
 *   message   way   body            when
 *   here      up    text            at first: the name of the agent's host
 *   job       down  host_job        when all hosts are here: which ranks to start, and how
 *   state     up    word            a rank runs, or has finished (own_state)
 *   address   up    word            a rank listens at this address
 *   address   down  word            forwarded to all other hosts
 *   request   up    word            a rank asks to leave, or asks for relief (member_request)
 *   lost      up    word            a rank has no connection to another one (own_slot_word)
 *   committed up    word            a rank has committed in an epoch
 *   committed down  word            all members have committed: no rank goes back to an earlier epoch
 *   ends      down  word            an epoch ends at the next edge of a step (planned.c)
 *   drained   up    word            a rank waits at that edge for the next epoch
 *   closes    up    word            a rank asks to close an epoch after all ranks have finished, and waits
 *   closed    down  word            no further epoch will be opened
 *   shape     up    shape           rank 0: how the job may shrink
 *   kept      both  word            rank 0: comm_epoch_keep; forwarded to all other hosts
 *   done      up    word            rank 0: comm_epoch_done
 *   ended     up    word            a process has ended: its wait status, after all its other messages
 *   epoch     down  epoch           the members from now on
 *   place     down  word            a new process: its slot, and the host that starts it
 *   signal    down  word            for all ranks (slot -1): USR1, or TERM to end them; for one rank: KILL
 *                                   if it has left or cannot be reached; KILL, STOP or CONT for chaos
 *   cut       down  word            chaos: a rank cuts its connection of this epoch to another one
 *   over      down  word            the job is over: the agent ends with this code
 *   alive     both  -               half a second has passed without another message
 *
 * Each message is a header (kind, bytes) and a body of the table's size; a text has at most that size. A peer that
 * sends anything else loses its connection, and its ranks end; other hosts are not affected. Both ends run the same
 * program. A host of another byte order or another build fails at the greeting or at the first message's size.
 *
 * The connection is sealed and encrypted (lib/comm/direct/sealed.h), because a job is a command that runs as the
 * agent's user. A message that was changed, replayed or dropped ends the connection; no part of it is obeyed.
 *
 * No function here waits, except host_link_flush. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/direct/job.h"
#include "lib/comm/direct/sealed.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum host_kind {
    HOST_HERE, HOST_JOB, HOST_STATE, HOST_ADDRESS, HOST_REQUEST, HOST_LOST, HOST_COMMITTED, HOST_ENDS, HOST_DRAINED,
    HOST_CLOSES, HOST_CLOSED, HOST_SHAPE, HOST_KEPT, HOST_DONE, HOST_ENDED, HOST_EPOCH, HOST_PLACE, HOST_SIGNAL,
    HOST_CUT, HOST_OVER, HOST_ALIVE, N_HOST_KINDS
};
enum { HOST_MOST_TEXT = 1 << 20, HOST_MOST_NAME = 255 };

struct host_row { const char *name; bool up, down; uint32_t least, most; };    /* bytes of the body */
extern const struct host_row host_rows[N_HOST_KINDS];

struct host_word { int32_t slot, epoch; int64_t value; };      /* fields that a message does not need are 0 */
/* me: the receiving host; n: the ranks at first. host[slot]: the slot's host; -1: not placed yet. This host starts its
 * slots from mine_from on; earlier ones ended with its previous agent. encrypts: encrypt traffic between hosts. n_texts
 * NUL-terminated strings follow: the working folder, n_settings NAME=VALUE for the environment, a rank's command. */
struct host_job {
    int32_t me, n_slots, n, n_settings, n_texts, mine_from;
    int64_t encrypts;
    double hang_s, lost_s;
    int16_t host[OWN_MOST_RANKS];
};

struct host_link {
    int fd;                          /* of wire; -1: not connected */
    struct sealed wire;
    bool at_lighthouse;
    const char *broken;              /* why the connection has ended; NULL: it is open */
    double heard_s, said_s;          /* when bytes last came; when a message was last queued */
    char *in, *out;
    size_t in_bytes, in_at, out_bytes, out_room;     /* in_at: bytes of `in` that are consumed */
};

struct host_message { enum host_kind kind; const char *body; uint32_t bytes; };

/** Take ownership of the connection, even on failure. @errors E_MEMORY  @collective{none} */
enum status host_link_open(struct host_link *, struct sealed *, bool at_lighthouse);
void host_link_close(struct host_link *);

/** Queue a message; the body is copied. @collective{none} */
void host_link_say(struct host_link *, enum host_kind, const void *body, size_t bytes);
void host_link_say_word(struct host_link *, enum host_kind, int slot, int epoch, int64_t value);
/** Send and read as many bytes as possible without waiting; queue `alive` when it is due. @collective{none} */
void host_link_step(struct host_link *, double now_s);
/** *out: the next whole message, if any; its body is valid until host_link_step. @collective{none} */
bool host_link_next(struct host_link *, struct host_message *out);
/** The body as a word. @collective{none} */
struct host_word host_link_word(const struct host_message *);
/** Are there bytes that are not sent yet? @collective{none} */
bool host_link_has_more(const struct host_link *);
/** Send all queued bytes, for at most this number of seconds. @collective{none} */
void host_link_flush(struct host_link *, double seconds);

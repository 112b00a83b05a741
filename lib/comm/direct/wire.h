/* Connections between processes of a job over TCP, from the first byte until both are admitted and the stream is sealed
 * (sealed.h): the handshake of greeting.h, over sockets. Ranks use it with ranks of other hosts (network.h), agents
 * with the lighthouse (launch/host_door.h).
 *
 *   called    accept -> hello? -> answer -> proof? -> proven; its owner gives it a place -> welcome -> in
 *   calling   connect -> hello -> answer? -> proof -> welcome? -> in
 *
 * A *door* has places for callers that have not proven anything yet: at most WIRE_STRANGERS, from one address at most
 * WIRE_OF_ONE_ADDRESS, each for at most WIRE_GREETING_S seconds. If no place is free, the next caller replaces the
 * oldest, or the oldest of its own address if that address has used up its places. A caller that is slow, sends
 * nonsense or lacks the secret is "shown out": rejected, and its connection closed.
 *
 * A crowd of silent callers keeps no member out, and costs little. After a replacement the door accepts no calls for a
 * moment, so that each accepted caller has the time to send its proof. New calls wait in the kernel's queue meanwhile.
 * A caller that is shown out calls again; a caller that waits keeps its connection, as a new one would be at the end of
 * the queue.
 *
 * No function blocks. Private to lib/comm and the driver. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/direct/greeting.h"
#include "lib/comm/direct/sealed.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_STRANGERS = 256, WIRE_OF_ONE_ADDRESS = WIRE_STRANGERS / 2, WIRE_GREETING_S = 5 };

/* Where a process listens: IPv4, in the host's byte order. port 0: it does not listen yet. */
struct network_address { uint32_t ip; uint16_t port; };

/* ---- being called ---- */
/* A caller at the door. stage: the message that it must send next. */
struct wire_caller {
    enum { WIRE_NOBODY, WIRE_HELLO, WIRE_PROOF, WIRE_PROVEN } stage;
    int fd;
    uint32_t ip;
    double until_s;
    size_t moved;                            /* bytes received of the awaited message */
    struct greeting_hello hello;
    struct greeting_answer answer;
    struct greeting_proof proof;
};

struct wire_door {
    int listening;                           /* the socket; -1: closed, no caller can connect */
    const unsigned char *secret;             /* borrowed */
    int32_t slot, epoch;                     /* this process, which callers must name, and its epoch */
    struct wire_caller caller[WIRE_STRANGERS];
    int64_t shown_out;                       /* so far */
    double again_s;                          /* until when no calls are accepted; 0: no pause */
};

/** Listen at this address; port 0: the system chooses a port, which is then in *at. *listening: the socket, which the
 *  caller closes. remedy: text for the error message. @errors E_COMM @collective{none} */
enum status wire_listen(struct network_address *at, const char *remedy, int *listening);
/** The caller owns listening and secret. @collective{none} */
void wire_door_open(struct wire_door *, int listening, const unsigned char *secret, int32_t slot, int32_t epoch);
/** Read the messages of all callers. @collective{none} */
void wire_door_hear(struct wire_door *);
/** A caller at the door that has proven that it has the secret; NULL: none. Pure. @collective{none} */
struct wire_caller *wire_door_proven(struct wire_door *);
/** Accept new calls, after wire_door_hear. @collective{none} */
void wire_door_take_calls(struct wire_door *);
/** Send the welcome to a proven caller. *out: its connection; close it with sealed_close. @return false:
 *  the caller is gone, or there is no memory @collective{none} */
bool wire_door_welcome(struct wire_door *, struct wire_caller *, bool encrypts, struct sealed *out);
void wire_door_show_out(struct wire_door *, struct wire_caller *);
/** Close the connections of all callers. @collective{none} */
void wire_door_close(struct wire_door *);

/* ---- calling ---- */
enum wire_answer { WIRE_WAITS, WIRE_FAILED, WIRE_STRANGER, WIRE_IN };
struct wire_call {
    enum { WIRE_CONNECTING, WIRE_ANSWER, WIRE_WELCOME } stage;
    int fd, error;                           /* error: errno of a failure; 0: the peer has closed the connection */
    bool connected;
    size_t moved;
    struct greeting_hello hello;
    struct greeting_answer answer;
    struct greeting_proof proof;
    struct greeting_welcome welcome;
};

/** Begin to call. from: the local address to use; 0: any. @return has the call begun? @collective{none} */
bool wire_call_begin(struct wire_call *, struct network_address to, uint32_t from, struct greeting_hello);
/** Advance the call. After WIRE_IN *out is its connection, to be closed with sealed_close. After WIRE_FAILED, and
 *  after WIRE_STRANGER (the peer's answer does not prove that it has the secret), the connection is closed.
 *  @collective{none} */
enum wire_answer wire_call_step(struct wire_call *, const unsigned char *secret, bool encrypts, struct sealed *out);
/** Hang up. @collective{none} */
void wire_call_end(struct wire_call *);

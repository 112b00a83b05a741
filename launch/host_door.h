/* The door of the lighthouse: it admits only agents that prove the job's secret. The greeting is the one between ranks
 * (lib/comm/direct/wire.h), with negative numbers in place of slots. All later bytes are encrypted. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/direct/wire.h"
#include <poll.h>
#include <stdbool.h>

enum { DOOR_TEXT = 32 };

struct host_door {
    struct network_address at;
    unsigned char secret[GREETING_SECRET];
    struct wire_door wire;
};

/** Listen at `at`. If its port is 0, choose one and store it in door->at. The secret is copied. @errors E_COMM
 *  @collective{none} */
enum status host_door_open(struct host_door *, struct network_address at, const unsigned char *secret);
/** Read from all callers at the door, and accept new calls. @collective{none} */
void host_door_step(struct host_door *);
/** *out: the connection to an agent that has proven the secret; the caller closes it.
 *  @return whether there is one  @collective{none} */
bool host_door_let_in(struct host_door *, struct sealed *out);
/** Write at most 1 + WIRE_STRANGERS entries for poll: one for each caller, and one for new calls unless the door
 *  pauses. @return the number of entries  @collective{none} */
int host_door_polls(const struct host_door *, struct pollfd *);
void host_door_close(struct host_door *);

/** Connect to the lighthouse, and try again until it admits this agent or `seconds` have passed. from: the local
 *  address; 0: any. *out: the connection; the caller closes it.
 *  @errors E_COMM: no lighthouse is there, it does not answer, or it has another secret  @collective{none} */
enum status host_door_knock(struct network_address at, uint32_t from, const unsigned char *secret, double seconds,
                            struct sealed *out);

/** Read "n01:7070" or "10.0.0.1:7070". least_port: the smallest valid port. @errors E_CONFIG  @collective{none} */
enum status host_address_read(const char *text, int least_port, struct network_address *out);
/** The ip of a name or an address, in the host's byte order. @errors E_CONFIG  @collective{none} */
enum status host_address_find(const char *name, uint32_t *ip);
/** Write "10.0.0.1:7070". */
void host_address_text(const struct network_address *, char text[DOOR_TEXT]);

/* The door of the lighthouse: it admits only agents that prove the job's secret. The greeting is that of ranks
 * (lib/comm/direct/wire.h), with a number for the callee that no rank has. Everything after the greeting is
 * encrypted. */
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

/** Listen there; port 0: any, which is then in door->at. The secret is copied. @errors E_COMM  @collective{none} */
enum status host_door_open(struct host_door *, struct network_address at, const unsigned char *secret);
/** Read from all callers at the door, and accept new calls. @collective{none} */
void host_door_step(struct host_door *);
/** *out: the connection to an agent that has proven the secret; the caller closes it.
 *  @return whether there is one  @collective{none} */
bool host_door_let_in(struct host_door *, struct sealed *out);
/** Entries for poll, at most 1 + WIRE_STRANGERS: the callers, and new calls unless the door pauses. @return how many
 *  @collective{none} */
int host_door_polls(const struct host_door *, struct pollfd *);
void host_door_close(struct host_door *);

/** Call until a lighthouse answers, and again after it hangs up. seconds limits all calls together. from: the address
 *  to speak from; 0: any. *out: the connection; the caller closes it.
 *  @errors E_COMM: no lighthouse is there, it does not answer, or it has another secret  @collective{none} */
enum status host_door_knock(struct network_address at, uint32_t from, const unsigned char *secret, double seconds,
                            struct sealed *out);

/** "n01:7070", "10.0.0.1:7070": by name or address. least_port: 0 or 1. @errors E_CONFIG  @collective{none} */
enum status host_address_read(const char *text, int least_port, struct network_address *out);
/** The ip of a name or an address, in the host's byte order. @errors E_CONFIG  @collective{none} */
enum status host_address_find(const char *name, uint32_t *ip);
/** "10.0.0.1:7070" */
void host_address_text(const struct network_address *, char text[DOOR_TEXT]);

/* The door of the lighthouse: agents knock, and only those who know the job's secret come in. The greeting is that of
 * ranks among themselves (lib/comm/direct/wire.h), with a number for "whom" that no rank has. What follows is
 * encrypted. */
#ifndef TRIVIUM_LAUNCH_HOST_DOOR_H
#define TRIVIUM_LAUNCH_HOST_DOOR_H

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
/** Hear all at the door, and take new calls. @collective{none} */
void host_door_step(struct host_door *);
/** *out: the connection to an agent that has proven by now that it knows the secret, to be closed.
 *  @return whether there is one  @collective{none} */
bool host_door_let_in(struct host_door *, struct sealed *out);
/** Whom to wait for: at most 1 + WIRE_STRANGERS entries; not for new calls while the door pauses. @return how many
 *  @collective{none} */
int host_door_polls(const struct host_door *, struct pollfd *);
void host_door_close(struct host_door *);

/** Call until a lighthouse answers, also after it hangs up. The limit is in seconds and covers all calls.
 *  from: the address to speak from; 0: any. *out: the connection, to be closed.
 *  @errors E_COMM: no lighthouse is there, or it does not answer or does not know the secret  @collective{none} */
enum status host_door_knock(struct network_address at, uint32_t from, const unsigned char *secret, double seconds,
                            struct sealed *out);

/** "n01:7070", "10.0.0.1:7070": by name or address. least_port: 0 or 1. @errors E_CONFIG  @collective{none} */
enum status host_address_read(const char *text, int least_port, struct network_address *out);
/** The ip of a name or an address, in the host's byte order. @errors E_CONFIG  @collective{none} */
enum status host_address_find(const char *name, uint32_t *ip);
/** "10.0.0.1:7070" */
void host_address_text(const struct network_address *, char text[DOOR_TEXT]);

#endif

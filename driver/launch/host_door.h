/* The door of the lighthouse: agents knock, and only those who know the job's secret come in. The greeting is that of
 * ranks among themselves (lib/comm/own/greeting.h), with a number for "whom" that no rank has. Whoever is slow, says
 * nonsense or does not know the secret is shown out, and nobody else notices: there are at most DOOR_STRANGERS at the
 * door at a time, each for DOOR_GREETING_S seconds. */
#ifndef TRIVIUM_DRIVER_LAUNCH_HOST_DOOR_H
#define TRIVIUM_DRIVER_LAUNCH_HOST_DOOR_H

#include "lib/base/status.h"
#include "lib/comm/own/greeting.h"
#include "lib/comm/own/network.h"
#include <poll.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DOOR_STRANGERS = 64, DOOR_GREETING_S = 5, DOOR_TEXT = 32 };

/* One who has not proven anything yet. stage: what it has still to say. */
struct door_stranger {
    enum { DOOR_NOBODY, DOOR_HELLO, DOOR_PROOF } stage;
    int fd;
    double until_s;
    size_t moved;                    /* bytes of it that are here */
    struct greeting_hello hello;
    struct greeting_answer answer;
    struct greeting_proof proof;
};
struct host_door {
    int listening;
    struct network_address at;
    unsigned char secret[GREETING_SECRET];
    struct door_stranger stranger[DOOR_STRANGERS];
    int64_t shown_out;
};

/** Listen there; port 0: any, which is then in door->at. The secret is copied. @errors E_COMM  @collective{none} */
enum status host_door_open(struct host_door *, struct network_address at, const unsigned char *secret);
/** What can be done now. @return a connection to one who knows the secret, which is the caller's; -1: nobody
 *  @collective{none} */
int host_door_step(struct host_door *);
/** Whom to wait for: at most 1 + DOOR_STRANGERS entries. @return how many  @collective{none} */
int host_door_polls(const struct host_door *, struct pollfd *);
void host_door_close(struct host_door *);

/** Knock, for as long as nobody is at home or answers, at most so many seconds. from: the address to speak from; 0:
 *  any. *fd does not block. @errors E_COMM: nobody is there, or answers, or knows the secret  @collective{none} */
enum status host_door_knock(struct network_address at, uint32_t from, const unsigned char *secret, double seconds,
                            int *fd);

/** "n01:7070", "10.0.0.1:7070": by name or address. least_port: 0 or 1. @errors E_CONFIG  @collective{none} */
enum status host_address_read(const char *text, int least_port, struct network_address *out);
/** The ip of a name or an address, in the host's byte order. @errors E_CONFIG  @collective{none} */
enum status host_address_find(const char *name, uint32_t *ip);
/** "10.0.0.1:7070" */
void host_address_text(const struct network_address *, char text[DOOR_TEXT]);

#ifdef __cplusplus
}
#endif
#endif

#include "launch/host_door.h"

#include "lib/base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { AGENT = -1, LIGHTHOUSE = -2 };        /* the two sides of a greeting; ranks have slots from 0 */
enum { TURN_MS = 100 };
static const bool encrypts = true;           /* because the message `job` holds settings and paths */

/* ---- addresses ---- */
enum status host_address_find(const char *name, uint32_t *ip) {
    const struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int code = getaddrinfo(name, NULL, &wanted, &found);
    if (code != 0) return FAIL(E_CONFIG, "host %s has no address: %s; give one of IPv4, or this host's "
                                "to --meet", name, gai_strerror(code));
    *ip = ntohl(((struct sockaddr_in *)found->ai_addr)->sin_addr.s_addr);
    freeaddrinfo(found);
    return OK;
}

enum status host_address_read(const char *text, int least_port, struct network_address *out) {
    char name[256], *end;
    const char *colon = strrchr(text, ':');
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    if (!colon || colon == text || colon - text >= (long)sizeof name || !colon[1] || *end || port < least_port ||
        port > UINT16_MAX)
        return FAIL(E_CONFIG, "%.64s is no address; use HOST:PORT, as in 10.0.0.1:7070", text);
    snprintf(name, sizeof name, "%.*s", (int)(colon - text), text);
    out->port = (uint16_t)port;
    return host_address_find(name, &out->ip);
}

void host_address_text(const struct network_address *a, char text[DOOR_TEXT]) {
    snprintf(text, DOOR_TEXT, "%u.%u.%u.%u:%u", a->ip >> 24, a->ip >> 16 & 255, a->ip >> 8 & 255, a->ip & 255, a->port);
}

/* ---- the lighthouse's side ---- */
enum status host_door_open(struct host_door *door, struct network_address at, const unsigned char *secret) {
    int listening;
    *door = (struct host_door){.at = at, .wire.listening = -1};
    memcpy(door->secret, secret, GREETING_SECRET);
    TRY(wire_listen(&door->at, "give another address of this host to --meet", &listening));
    wire_door_open(&door->wire, listening, door->secret, LIGHTHOUSE, 0);
    return OK;
}

void host_door_step(struct host_door *door) {
    wire_door_hear(&door->wire);
    wire_door_take_calls(&door->wire);
}

bool host_door_let_in(struct host_door *door, struct sealed *out) {
    for (struct wire_caller *c; (c = wire_door_proven(&door->wire));)
        if (wire_door_welcome(&door->wire, c, encrypts, out)) return true;
    return false;
}

int host_door_polls(const struct host_door *door, struct pollfd *out) {
    const struct wire_door *wire = &door->wire;
    int n = 0;
    if (wire->listening >= 0 && wire->again_s == 0) out[n++] = (struct pollfd){wire->listening, POLLIN, 0};
    for (int i = 0; i < WIRE_STRANGERS && wire->listening >= 0; i++)
        if (wire->caller[i].stage != WIRE_NOBODY) out[n++] = (struct pollfd){wire->caller[i].fd, POLLIN, 0};
    return n;
}

void host_door_close(struct host_door *door) {
    if (door->wire.listening < 0) return;
    wire_door_close(&door->wire);
    close(door->wire.listening);
    *door = (struct host_door){.wire.listening = -1};
}

/* ---- the agent's side: it waits ---- */
/* Make one call, and step it until it ends or until_s has passed. */
static enum wire_answer call(struct wire_call *c, struct network_address at, uint32_t from, const unsigned char *secret,
                             double until_s, struct sealed *out) {
    enum wire_answer answer = WIRE_WAITS;
    if (!wire_call_begin(c, at, from, greeting_say_hello(AGENT, LIGHTHOUSE, 0))) return WIRE_FAILED;
    for (;;) {
        struct pollfd p = {c->fd, c->stage == WIRE_CONNECTING ? POLLOUT : POLLIN, 0};
        poll(&p, 1, TURN_MS);
        answer = wire_call_step(c, secret, encrypts, out);
        if (answer != WIRE_WAITS || clock_s() > until_s) break;
    }
    if (answer == WIRE_WAITS) wire_call_end(c);
    return answer;
}

enum status host_door_knock(struct network_address at, uint32_t from, const unsigned char *secret, double seconds,
                            struct sealed *out) {
    const struct timespec nap = {0, 200000000};
    double until_s = clock_s() + seconds;
    char text[DOOR_TEXT];
    struct wire_call c;
    host_address_text(&at, text);
    for (;; nanosleep(&nap, NULL)) {
        enum wire_answer answer = call(&c, at, from, secret, until_s, out);
        if (answer == WIRE_IN) return OK;
        if (answer == WIRE_STRANGER)
            return FAIL(E_COMM, "the lighthouse at %s does not know this secret; give all of the job the same "
                        "TRIVIUM_SECRET", text);
        if (clock_s() <= until_s) continue;
        if (!c.connected)
            return FAIL(E_COMM, "no lighthouse at %s within %g s: %s; does trivium launch run there, with this --meet?",
                        text, seconds, strerror(c.error ? c.error : ETIMEDOUT));
        return FAIL(E_COMM, "the lighthouse at %s does not answer within %g s; is it stopped, or is something else "
                    "there?", text, seconds);            /* or too many callers wait at its door */
    }
}

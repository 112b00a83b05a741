#include "driver/launch/host_door.h"

#include "lib/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

enum { AGENT = -1, LIGHTHOUSE = -2 };        /* who is who in a greeting: ranks have slots from 0 */

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

static struct sockaddr_in socket_of(uint32_t ip, uint16_t port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(ip)}};
}

/* ---- the lighthouse's side ---- */
enum status host_door_open(struct host_door *door, struct network_address at, const unsigned char *secret) {
    struct sockaddr_in address = socket_of(at.ip, at.port);
    socklen_t n = sizeof address;
    int yes = 1;
    char text[DOOR_TEXT];
    *door = (struct host_door){.at = at};
    memcpy(door->secret, secret, GREETING_SECRET);
    int fd = door->listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, n) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &n) == 0) {
        door->at.port = ntohs(address.sin_port);
        return OK;
    }
    int error = errno;
    if (fd >= 0) close(fd);
    door->listening = -1;
    host_address_text(&at, text);
    return FAIL(E_COMM, "cannot listen on %s: %s; give another address of this host to --meet", text, strerror(error));
}

static void leave(struct door_stranger *s) { *s = (struct door_stranger){.stage = DOOR_NOBODY, .fd = -1}; }

static void take_calls(struct host_door *door) {
    for (int i = 0; i < DOOR_STRANGERS; i++) {
        struct door_stranger *s = &door->stranger[i];
        if (s->stage != DOOR_NOBODY) continue;
        int fd = accept(door->listening, NULL, NULL);
        if (fd < 0) return;
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, O_NONBLOCK);
        *s = (struct door_stranger){.stage = DOOR_HELLO, .fd = fd, .until_s = clock_s() + DOOR_GREETING_S};
    }
}

/* Messages of a greeting are small: into an empty socket they go at once, or not at all. */
static bool say(int fd, const void *what, size_t bytes) {
    return send(fd, what, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

/* @return whether all of it is here; *failed: and never will be */
static bool hear(struct door_stranger *s, void *what, size_t bytes, bool *failed) {
    ssize_t k = recv(s->fd, (char *)what + s->moved, bytes - s->moved, MSG_DONTWAIT);
    *failed = k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR);
    if (k > 0) s->moved += (size_t)k;
    if (s->moved < bytes) return false;
    s->moved = 0;
    return true;
}

/* @return whether it has proven that it knows the secret */
static bool greet(struct host_door *door, struct door_stranger *s) {
    bool failed = false;
    if (s->stage == DOOR_HELLO && hear(s, &s->hello, sizeof s->hello, &failed)) {
        failed = !greeting_hears(&s->hello, LIGHTHOUSE, 0);
        if (!failed) s->answer = greeting_answer_it(door->secret, &s->hello);
        failed = failed || !say(s->fd, &s->answer, sizeof s->answer);
        s->stage = DOOR_PROOF;
    }
    if (!failed && s->stage == DOOR_PROOF && hear(s, &s->proof, sizeof s->proof, &failed)) {
        if (greeting_is_proven(door->secret, &s->hello, &s->answer, &s->proof)) return true;
        failed = true;
    }
    if (failed || clock_s() > s->until_s) {
        close(s->fd);
        leave(s);
        door->shown_out++;
    }
    return false;
}

int host_door_step(struct host_door *door) {
    int yes = 1;
    if (door->listening < 0) return -1;
    take_calls(door);
    for (int i = 0; i < DOOR_STRANGERS; i++) {
        struct door_stranger *s = &door->stranger[i];
        if (s->stage == DOOR_NOBODY || !greet(door, s)) continue;
        int fd = s->fd;
        leave(s);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        return fd;
    }
    return -1;
}

int host_door_polls(const struct host_door *door, struct pollfd *out) {
    int n = 0;
    if (door->listening >= 0) out[n++] = (struct pollfd){door->listening, POLLIN, 0};
    for (int i = 0; i < DOOR_STRANGERS; i++)
        if (door->stranger[i].stage != DOOR_NOBODY) out[n++] = (struct pollfd){door->stranger[i].fd, POLLIN, 0};
    return n;
}

void host_door_close(struct host_door *door) {
    if (door->listening >= 0) close(door->listening);
    for (int i = 0; i < DOOR_STRANGERS; i++)
        if (door->stranger[i].stage != DOOR_NOBODY) close(door->stranger[i].fd);
    *door = (struct host_door){.listening = -1};
}

/* ---- the agent's side: it has nothing else to do, and waits ---- */
static int connect_to(struct network_address at, uint32_t from) {
    struct sockaddr_in to = socket_of(at.ip, at.port), own = socket_of(from, 0);
    const struct timeval patience = {DOOR_GREETING_S, 0};
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if ((!from || bind(fd, (struct sockaddr *)&own, sizeof own) == 0) &&
        connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

enum answer { NOTHING, WRONG, RIGHT };

static enum answer says_who_it_is(int fd, const unsigned char *secret) {
    const struct greeting_hello hello = greeting_say_hello(AGENT, LIGHTHOUSE, 0);
    struct greeting_answer answer;
    struct greeting_proof proof;
    if (!say(fd, &hello, sizeof hello) || recv(fd, &answer, sizeof answer, MSG_WAITALL) != (ssize_t)sizeof answer)
        return NOTHING;
    if (!greeting_trusts(secret, &hello, &answer, &proof)) return WRONG;
    return say(fd, &proof, sizeof proof) ? RIGHT : NOTHING;
}

enum status host_door_knock(struct network_address at, uint32_t from, const unsigned char *secret, double seconds,
                            int *fd) {
    const struct timespec nap = {0, 200000000};
    double until_s = clock_s() + seconds;
    char text[DOOR_TEXT];
    host_address_text(&at, text);
    for (;; nanosleep(&nap, NULL)) {
        *fd = connect_to(at, from);
        if (*fd < 0 && clock_s() > until_s)
            return FAIL(E_COMM, "no lighthouse at %s within %g s: %s; does trivium launch run there, with this --meet?",
                        text, seconds, strerror(errno));
        if (*fd < 0) continue;
        enum answer answer = says_who_it_is(*fd, secret);
        fcntl(*fd, F_SETFL, O_NONBLOCK);
        if (answer == RIGHT) return OK;
        close(*fd);
        if (answer == WRONG)
            return FAIL(E_COMM, "the lighthouse at %s does not know this secret; give all of the job the same "
                        "TRIVIUM_SECRET", text);
        if (clock_s() > until_s)                         /* it is stopped, or has too many strangers at its door */
            return FAIL(E_COMM, "the lighthouse at %s does not answer within %g s; is it stopped, or is something else "
                        "there?", text, seconds);
    }
}

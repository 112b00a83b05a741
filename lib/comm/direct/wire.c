#define _GNU_SOURCE /* accept4 */
#include "lib/comm/direct/wire.h"

#include "lib/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const double pause_s = 0.05;          /* during this pause admitted callers cannot be replaced */

/* ---- sockets ---- */
static struct sockaddr_in socket_of(uint32_t ip, uint16_t port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(ip)}};
}

static void send_at_once(int fd) {
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

enum status wire_listen(struct network_address *at, const char *remedy, int *listening) {
    struct sockaddr_in address = socket_of(at->ip, at->port);
    socklen_t n = sizeof address;
    char text[INET_ADDRSTRLEN];
    int yes = 1, fd = *listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && at->port) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, n) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &n) == 0) {
        at->port = ntohs(address.sin_port);
        return OK;
    }
    int error = errno;
    if (fd >= 0) close(fd);
    *listening = -1;
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    return FAIL(E_COMM, "cannot listen on %s:%u: %s; %s", text, at->port, strerror(error), remedy);
}

/* Messages of a greeting are small: an empty socket takes a whole one at once, or the send has failed. */
static bool say(int fd, const void *what, size_t bytes) {
    return send(fd, what, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

/* @return true when complete; *failed: the peer closed or the read failed */
static bool hear(int fd, void *what, size_t bytes, size_t *moved, bool *failed) {
    ssize_t k = recv(fd, (char *)what + *moved, bytes - *moved, MSG_DONTWAIT);
    *failed = k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR);
    if (k > 0) *moved += (size_t)k;
    if (*moved < bytes) return false;
    *moved = 0;
    return true;
}

/* ---- being called ---- */
static void leave(struct wire_caller *c) { *c = (struct wire_caller){.stage = WIRE_NOBODY, .fd = -1}; }

void wire_door_open(struct wire_door *d, int listening, const unsigned char *secret, int32_t slot, int32_t epoch) {
    *d = (struct wire_door){.listening = listening, .secret = secret, .slot = slot, .epoch = epoch};
    for (int i = 0; i < WIRE_STRANGERS; i++) leave(&d->caller[i]);
}

void wire_door_show_out(struct wire_door *d, struct wire_caller *c) {
    close(c->fd);
    leave(c);
    d->shown_out++;
}

void wire_door_close(struct wire_door *d) {
    for (int i = 0; i < WIRE_STRANGERS; i++) {
        if (d->caller[i].stage != WIRE_NOBODY) close(d->caller[i].fd);
        leave(&d->caller[i]);
    }
}

static void greet(struct wire_door *d, struct wire_caller *c) {
    bool failed = false;
    if (c->stage == WIRE_HELLO && hear(c->fd, &c->hello, sizeof c->hello, &c->moved, &failed)) {
        failed = !greeting_hears(&c->hello, d->slot, d->epoch);
        if (!failed) c->answer = greeting_answer_it(d->secret, &c->hello);
        failed = failed || !say(c->fd, &c->answer, sizeof c->answer);
        c->stage = WIRE_PROOF;
    }
    if (!failed && c->stage == WIRE_PROOF && hear(c->fd, &c->proof, sizeof c->proof, &c->moved, &failed)) {
        failed = !greeting_is_proven(d->secret, &c->hello, &c->answer, &c->proof);
        c->stage = WIRE_PROVEN;
    }
    if (failed || (c->stage != WIRE_PROVEN && clock_s() > c->until_s)) wire_door_show_out(d, c);
}

void wire_door_hear(struct wire_door *d) {
    for (int i = 0; i < WIRE_STRANGERS; i++)
        if (d->caller[i].stage != WIRE_NOBODY) greet(d, &d->caller[i]);
}

struct wire_caller *wire_door_proven(struct wire_door *d) {
    int i = 0;
    while (i < WIRE_STRANGERS && d->caller[i].stage != WIRE_PROVEN) i++;
    return i < WIRE_STRANGERS ? &d->caller[i] : NULL;
}

bool wire_door_welcome(struct wire_door *d, struct wire_caller *c, bool encrypts, struct sealed *out) {
    const struct greeting_welcome welcome = greeting_welcome_it(d->secret, &c->hello, &c->answer);
    const struct greeting_keys keys = greeting_keys_of(d->secret, &c->hello, &c->answer);
    const int fd = c->fd;
    if (!say(fd, &welcome, sizeof welcome)) {
        wire_door_show_out(d, c);
        return false;
    }
    leave(c);
    if (sealed_open(out, fd, &keys, false, encrypts) == OK) return true;
    status_report();
    return false;
}

static struct wire_caller *older(struct wire_caller *a, struct wire_caller *b) {
    return !a || b->until_s < a->until_s ? b : a;
}

/* Find a place for a caller from this address. If no place is free, reject the oldest caller and take its place. */
static struct wire_caller *place_for(struct wire_door *d, uint32_t ip) {
    struct wire_caller *free = NULL, *oldest = NULL, *its_oldest = NULL;
    int n_its = 0;
    for (int i = 0; i < WIRE_STRANGERS; i++) {
        struct wire_caller *c = &d->caller[i];
        if (c->stage == WIRE_NOBODY) {
            free = c;
            continue;
        }
        oldest = older(oldest, c);
        if (c->ip == ip) its_oldest = older(its_oldest, c), n_its++;
    }
    if (n_its < WIRE_OF_ONE_ADDRESS && free) return free;
    struct wire_caller *goes = n_its < WIRE_OF_ONE_ADDRESS ? oldest : its_oldest;
    wire_door_show_out(d, goes);
    d->again_s = clock_s() + pause_s;
    return goes;
}

/* The process has too many open files: reject the oldest caller, so that the next turn has a file for a new call. The
 * kernel reports too many files even where no call waits, so check that one does. */
static void is_short_of_files(struct wire_door *d) {
    struct pollfd calls = {d->listening, POLLIN, 0};
    struct wire_caller *oldest = NULL;
    if (poll(&calls, 1, 0) != 1) return;
    for (int i = 0; i < WIRE_STRANGERS; i++)
        if (d->caller[i].stage != WIRE_NOBODY) oldest = older(oldest, &d->caller[i]);
    if (oldest) wire_door_show_out(d, oldest);
    d->again_s = clock_s() + pause_s;
}

/* Accept at most WIRE_OF_ONE_ADDRESS calls a turn, so that all have places even if they come from one address. */
void wire_door_take_calls(struct wire_door *d) {
    if (d->listening < 0 || clock_s() < d->again_s) return;
    d->again_s = 0;
    for (int i = 0; i < WIRE_OF_ONE_ADDRESS; i++) {
        struct sockaddr_in from = {0};
        socklen_t n = sizeof from;
        int fd = accept4(d->listening, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) is_short_of_files(d);
        if (fd < 0) return;
        uint32_t ip = ntohl(from.sin_addr.s_addr);
        send_at_once(fd);
        struct wire_caller *c = place_for(d, ip);
        *c = (struct wire_caller){.stage = WIRE_HELLO, .fd = fd, .ip = ip, .until_s = clock_s() + WIRE_GREETING_S};
    }
}

/* ---- calling ---- */
bool wire_call_begin(struct wire_call *c, struct network_address at, uint32_t from, struct greeting_hello hello) {
    struct sockaddr_in to = socket_of(at.ip, at.port), own = socket_of(from, 0);
    *c = (struct wire_call){.stage = WIRE_CONNECTING, .hello = hello,
                            .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    bool begun = c->fd >= 0 && (!from || bind(c->fd, (struct sockaddr *)&own, sizeof own) == 0) &&
                 (connect(c->fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
    if (begun) {
        send_at_once(c->fd);
        return true;
    }
    c->error = errno;
    wire_call_end(c);
    return false;
}

void wire_call_end(struct wire_call *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

/* @return true when connected; *failed: the connection failed */
static bool is_connected(struct wire_call *c, bool *failed) {
    struct sockaddr_in peer;
    socklen_t n = sizeof peer, m = sizeof c->error;
    *failed = getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &c->error, &m) != 0 || c->error;
    if (*failed) return false;
    c->connected = getpeername(c->fd, (struct sockaddr *)&peer, &n) == 0;
    *failed = !c->connected && errno != ENOTCONN;
    return c->connected;
}

static enum wire_answer come_in(struct wire_call *c, const unsigned char *secret, bool encrypts, struct sealed *out) {
    const struct greeting_keys keys = greeting_keys_of(secret, &c->hello, &c->answer);
    const int fd = c->fd;
    c->fd = -1;
    if (sealed_open(out, fd, &keys, true, encrypts) == OK) return WIRE_IN;
    status_report();
    return WIRE_FAILED;
}

/* After its proof a caller does not close the connection by itself: the peer may have admitted it, and would not admit
 * it twice. */
enum wire_answer wire_call_step(struct wire_call *c, const unsigned char *secret, bool encrypts, struct sealed *out) {
    bool failed = false, trusted = true, in = false;
    if (c->stage == WIRE_CONNECTING && is_connected(c, &failed)) {
        failed = !say(c->fd, &c->hello, sizeof c->hello);
        c->stage = WIRE_ANSWER;
    }
    if (!failed && c->stage == WIRE_ANSWER && hear(c->fd, &c->answer, sizeof c->answer, &c->moved, &failed)) {
        trusted = greeting_trusts(secret, &c->hello, &c->answer, &c->proof);
        failed = !trusted || !say(c->fd, &c->proof, sizeof c->proof);
        c->stage = WIRE_WELCOME;
    }
    if (!failed && c->stage == WIRE_WELCOME && hear(c->fd, &c->welcome, sizeof c->welcome, &c->moved, &failed)) {
        in = greeting_is_welcome(secret, &c->hello, &c->answer, &c->welcome);
        failed = !in;
    }
    if (!failed) return in ? come_in(c, secret, encrypts, out) : WIRE_WAITS;
    wire_call_end(c);
    return trusted ? WIRE_FAILED : WIRE_STRANGER;
}

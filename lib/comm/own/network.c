#define _GNU_SOURCE /* accept4 */
#include "lib/comm/own/network.h"

#include "lib/base/clock.h"
#include "lib/comm/own/greeting.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a connection waits for. */
enum stage { NOBODY, CONNECTING, HELLO, ANSWER, PROOF, WELCOME, THERE };

struct connection {
    enum stage stage;
    int fd;
    bool ended;                     /* its stream has */
    double until_s;                 /* the end of its greeting */
    struct greeting_hello hello;
    struct greeting_answer answer;
    struct greeting_proof proof;
    unsigned char welcome;
    size_t moved;                   /* bytes of what it waits for */
};

struct network {
    const struct epoch *epoch;
    int32_t slot;
    const bool *far;
    const struct network_address *address;
    const unsigned char *secret;
    int listening;
    struct connection *member;      /* [epoch->n] */
    double again_s[EPOCH_MOST_RANKS];   /* when a member is called again */
    struct connection stranger[NETWORK_STRANGERS];
    int64_t shown_out;
};

static const double again_after_s = 0.02;

/* ---- sockets ---- */
static struct sockaddr_in socket_of(const struct network_address *a) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(a->port), .sin_addr = {htonl(a->ip)}};
}

enum status own_network_listen(struct network_address *at, int *listening) {
    struct sockaddr_in address = socket_of(&(struct network_address){at->ip, 0});
    socklen_t n = sizeof address;
    *listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool ok = *listening >= 0 && bind(*listening, (struct sockaddr *)&address, n) == 0 &&
              listen(*listening, SOMAXCONN) == 0 && getsockname(*listening, (struct sockaddr *)&address, &n) == 0;
    if (!ok) {
        int error = errno;
        char text[INET_ADDRSTRLEN];
        if (*listening >= 0) close(*listening);
        *listening = -1;
        return FAIL(E_COMM, "cannot listen on %s: %s; is that an address of this host?",
                    inet_ntop(AF_INET, &address.sin_addr, text, sizeof text), strerror(error));
    }
    at->port = ntohs(address.sin_port);
    return OK;
}

static void hang_up(struct connection *c) {
    if (c->stage != NOBODY) close(c->fd);
    *c = (struct connection){.stage = NOBODY, .fd = -1};
}

static void show_out(struct network *n, struct connection *c) {
    n->shown_out++;
    hang_up(c);
}

/* Messages of a greeting are small: into an empty socket they go at once, or not at all. */
static bool say(struct connection *c, const void *what, size_t bytes) {
    return send(c->fd, what, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

/* @return whether all of it is here; *failed: and never will be */
static bool hear(struct connection *c, void *what, size_t bytes, bool *failed) {
    ssize_t k = recv(c->fd, (char *)what + c->moved, bytes - c->moved, MSG_DONTWAIT);
    *failed = k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR);
    if (k > 0) c->moved += (size_t)k;
    if (c->moved < bytes) return false;
    c->moved = 0;
    return true;
}

/* ---- being called ---- */
/* A free place; where there is none, that of who has been greeting the longest, and is shown out: who says nothing, and
 * calls many times, keeps no member out. */
static struct connection *place_for_one(struct network *n) {
    struct connection *oldest = &n->stranger[0];
    for (int i = 0; i < NETWORK_STRANGERS; i++) {
        struct connection *c = &n->stranger[i];
        if (c->stage == NOBODY) return c;
        if (c->until_s < oldest->until_s) oldest = c;
    }
    show_out(n, oldest);
    return oldest;
}

static void take_calls(struct network *n) {
    for (int i = 0; i < NETWORK_STRANGERS; i++) {
        int fd = accept4(n->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), yes = 1;
        if (fd < 0) return;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct connection *c = place_for_one(n);
        *c = (struct connection){.stage = HELLO, .fd = fd, .until_s = clock_s() + NETWORK_GREETING_S};
    }
}

/* Who has proven to be a member takes its place, and is told; a second one who says so is shown out. */
static void seat(struct network *n, struct connection *c) {
    int r = epoch_place(n->epoch, c->hello.from_slot);
    struct connection *place = r >= 0 && n->far[r] && c->hello.from_slot < n->slot ? &n->member[r] : NULL;
    const unsigned char welcome = GREETING_WELCOME;
    if (!place || place->stage != NOBODY || !say(c, &welcome, sizeof welcome)) {
        show_out(n, c);
        return;
    }
    c->stage = THERE;
    *place = *c;
    *c = (struct connection){.stage = NOBODY, .fd = -1};
}

static void greet(struct network *n, struct connection *c) {
    bool failed = false;
    if (c->stage == HELLO && hear(c, &c->hello, sizeof c->hello, &failed)) {
        failed = !greeting_hears(&c->hello, n->slot, n->epoch->number);
        if (!failed) c->answer = greeting_answer_it(n->secret, &c->hello);
        failed = failed || !say(c, &c->answer, sizeof c->answer);
        c->stage = PROOF;
    }
    if (!failed && c->stage == PROOF && hear(c, &c->proof, sizeof c->proof, &failed)) {
        if (greeting_is_proven(n->secret, &c->hello, &c->answer, &c->proof)) {
            seat(n, c);
            return;
        }
        failed = true;
    }
    if (failed || clock_s() > c->until_s) show_out(n, c);
}

/* ---- calling ---- */
static void call(struct network *n, int r) {
    int32_t slot = n->epoch->slot[r];
    struct connection *c = &n->member[r];
    const struct network_address *address = &n->address[slot];
    struct sockaddr_in to = socket_of(address);
    int yes = 1;
    if (address->port == 0 || clock_s() < n->again_s[r]) return;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    *c = (struct connection){.stage = CONNECTING, .fd = fd, .until_s = clock_s() + NETWORK_GREETING_S,
                             .hello = greeting_say_hello(n->slot, slot, n->epoch->number)};
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS) return;
    hang_up(c);
    n->again_s[r] = clock_s() + again_after_s;
}

/* 0: not yet; 1: yes; -1: it never will be. */
static int is_connected(const struct connection *c) {
    struct sockaddr_in peer;
    socklen_t n = sizeof peer, m = sizeof(int);
    int error = 0;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &m) != 0 || error) return -1;
    if (getpeername(c->fd, (struct sockaddr *)&peer, &n) == 0) return 1;
    return errno == ENOTCONN ? 0 : -1;
}

/* It may have closed on us because it is still in another epoch, or has too many callers, and so we try again. After
 * our proof we do not hang up ourselves: it may have given us our place, and would not give it twice. */
static void go_on_calling(struct network *n, int r) {
    struct connection *c = &n->member[r];
    bool failed = false;
    int connected = c->stage == CONNECTING ? is_connected(c) : 1;
    if (c->stage == CONNECTING && connected > 0) {
        failed = !say(c, &c->hello, sizeof c->hello);
        c->stage = ANSWER;
    }
    if (!failed && c->stage == ANSWER && hear(c, &c->answer, sizeof c->answer, &failed)) {
        failed = !greeting_trusts(n->secret, &c->hello, &c->answer, &c->proof) ||
                 !say(c, &c->proof, sizeof c->proof);
        c->stage = WELCOME;
    }
    if (!failed && c->stage == WELCOME && hear(c, &c->welcome, sizeof c->welcome, &failed)) {
        failed = c->welcome != GREETING_WELCOME;
        c->stage = THERE;
    }
    if (!failed && connected >= 0 && (c->stage >= WELCOME || clock_s() <= c->until_s)) return;
    hang_up(c);
    n->again_s[r] = clock_s() + again_after_s;
}

/* ---- together ---- */
enum status own_network_open(const struct epoch *epoch, int32_t slot, const bool *far,
                         const struct network_address *address, const unsigned char *secret, int listening,
                         struct network **out) {
    struct network *n = *out = calloc(1, sizeof *n);
    if (n) n->member = calloc((size_t)epoch->n, sizeof *n->member);
    if (!n || !n->member) {
        free(n);
        *out = NULL;
        return FAIL(E_MEMORY, "no memory for connections to %d processes", epoch->n);
    }
    n->epoch = epoch, n->slot = slot, n->far = far, n->address = address, n->secret = secret, n->listening = listening;
    for (int r = 0; r < epoch->n; r++) n->member[r].fd = -1;
    for (int i = 0; i < NETWORK_STRANGERS; i++) n->stranger[i].fd = -1;
    return OK;
}

static bool step_member(struct network *n, int r) {
    struct connection *c = &n->member[r];
    if (c->stage == THERE) return true;
    if (n->epoch->slot[r] < n->slot) return false;           /* it calls us */
    if (c->stage == NOBODY) call(n, r);
    else go_on_calling(n, r);
    return c->stage == THERE;
}

bool own_network_step(struct network *n) {
    bool done = true;
    for (int i = 0; i < NETWORK_STRANGERS; i++)
        if (n->stranger[i].stage != NOBODY) greet(n, &n->stranger[i]);
    take_calls(n);                           /* who is shown out for them has had its say */
    for (int r = 0; r < n->epoch->n; r++)
        if (n->far[r]) done = step_member(n, r) && done;
    return done;
}

static int64_t put(void *out, const void *from, size_t bytes) {
    struct connection *c = out;
    ssize_t k = send(c->fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (k >= 0 || errno == EAGAIN || errno == EINTR) return k < 0 ? 0 : k;
    c->ended = true;
    return -1;
}

static int64_t take(void *in, void *to, size_t bytes) {
    struct connection *c = in;
    if (bytes == 0) return 0;
    ssize_t k = recv(c->fd, to, bytes, MSG_DONTWAIT);
    if (k > 0) return k;
    if (k < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    c->ended = true;
    return -1;
}

struct own_wire own_network_wire(struct network *n, int r) {
    return (struct own_wire){&n->member[r], &n->member[r], put, take, NULL, NULL};
}

int own_network_missing(const struct network *n) {
    for (int r = 0; r < n->epoch->n; r++)
        if (n->far[r] && n->member[r].stage != THERE && n->address[n->epoch->slot[r]].port != 0) return r;
    return -1;
}

int own_network_lost(const struct network *n) {
    for (int r = 0; r < n->epoch->n; r++)
        if (n->member[r].ended) return r;
    return -1;
}

void own_network_cut(struct network *n, int r) {
    if (n->far[r] && n->member[r].stage == THERE) shutdown(n->member[r].fd, SHUT_RDWR);
}

int64_t own_network_shown_out(const struct network *n) { return n->shown_out; }

void own_network_close(struct network **network) {
    struct network *n = *network;
    if (!n) return;
    for (int r = 0; r < n->epoch->n; r++) hang_up(&n->member[r]);
    for (int i = 0; i < NETWORK_STRANGERS; i++) hang_up(&n->stranger[i]);
    free(n->member);
    free(n);
    *network = NULL;
}

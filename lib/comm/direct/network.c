#include "lib/comm/direct/network.h"

#include "lib/base/clock.h"

#include <stdlib.h>
#include <sys/socket.h>

/* A member that connects to us goes from AWAY to THERE; a member that we call goes from AWAY through CALLED to
 * THERE. */
struct member {
    enum { AWAY, CALLED, THERE } stage;
    struct sealed stream;           /* in stage THERE */
    double until_s, again_s;        /* deadline of its greeting; the time of the next call */
    struct wire_call call;
};

struct network {
    const struct membership *epoch;
    int32_t slot;
    const bool *far;
    const struct network_address *address;
    const unsigned char *secret;
    bool encrypts;
    struct member *member;          /* [epoch->n] */
    struct wire_door door;
};

static const double again_after_s = 0.02;

/* ---- being called ---- */
/* A proven caller becomes a connected member, and gets a welcome. A second caller for the same member is rejected. */
static void seat(struct network *n, struct wire_caller *c) {
    int r = membership_place(n->epoch, c->hello.from_slot);
    struct member *m = r >= 0 && n->far[r] && c->hello.from_slot < n->slot ? &n->member[r] : NULL;
    if (!m || m->stage != AWAY) {
        wire_door_show_out(&n->door, c);
        return;
    }
    if (wire_door_welcome(&n->door, c, n->encrypts, &m->stream)) m->stage = THERE;
}

/* ---- calling ---- */
static void call(struct network *n, int r) {
    int32_t slot = n->epoch->slot[r];
    struct member *m = &n->member[r];
    if (n->address[slot].port == 0 || clock_s() < m->again_s) return;
    m->until_s = clock_s() + WIRE_GREETING_S;
    m->again_s = clock_s() + again_after_s;
    if (wire_call_begin(&m->call, n->address[slot], 0, greeting_say_hello(n->slot, slot, n->epoch->number)))
        m->stage = CALLED;
}

/* If the member has closed the connection, because it is still in another epoch or has too many callers, call it
 * again. */
static void go_on_calling(struct network *n, struct member *m) {
    enum wire_answer answer = wire_call_step(&m->call, n->secret, n->encrypts, &m->stream);
    if (answer == WIRE_IN) {
        m->stage = THERE;
    } else if (answer != WIRE_WAITS || (m->call.stage != WIRE_WELCOME && clock_s() > m->until_s)) {
        wire_call_end(&m->call);
        m->stage = AWAY;
        m->again_s = clock_s() + again_after_s;
    }
}

/* ---- together ---- */
enum status own_network_open(const struct membership *epoch, int32_t slot, const bool *far,
                         const struct network_address *address, const unsigned char *secret, bool encrypts,
                         int listening, struct network **out) {
    struct network *n = *out = calloc(1, sizeof *n);
    if (n) n->member = calloc((size_t)epoch->n, sizeof *n->member);
    if (!n || !n->member) {
        free(n);
        *out = NULL;
        return FAIL(E_MEMORY, "no memory for connections to %d processes", epoch->n);
    }
    n->epoch = epoch, n->slot = slot, n->far = far, n->address = address, n->secret = secret;
    n->encrypts = encrypts;
    wire_door_open(&n->door, listening, secret, slot, epoch->number);
    return OK;
}

static bool step_member(struct network *n, int r) {
    struct member *m = &n->member[r];
    if (m->stage == THERE) return true;
    if (n->epoch->slot[r] < n->slot) return false;           /* the member calls us */
    if (m->stage == AWAY) call(n, r);
    else go_on_calling(n, m);
    return m->stage == THERE;
}

bool own_network_step(struct network *n) {
    bool done = true;
    wire_door_hear(&n->door);
    for (struct wire_caller *c; (c = wire_door_proven(&n->door));) seat(n, c);
    wire_door_take_calls(&n->door);          /* last, because it may replace callers, which are read above */
    for (int r = 0; r < n->epoch->n; r++)
        if (n->far[r]) done = step_member(n, r) && done;
    return done;
}

struct own_wire own_network_wire(struct network *n, int r) {
    return (struct own_wire){&n->member[r].stream, &n->member[r].stream, sealed_put, sealed_take, NULL, NULL};
}

int own_network_missing(const struct network *n) {
    for (int r = 0; r < n->epoch->n; r++)
        if (n->far[r] && n->member[r].stage != THERE && n->address[n->epoch->slot[r]].port != 0) return r;
    return -1;
}

int own_network_lost(const struct network *n) {
    for (int r = 0; r < n->epoch->n; r++)
        if (n->member[r].stream.ended) return r;
    return -1;
}

void own_network_cut(struct network *n, int r) {
    if (n->far[r] && n->member[r].stage == THERE) shutdown(n->member[r].stream.fd, SHUT_RDWR);
}

int64_t own_network_shown_out(const struct network *n) { return n->door.shown_out; }

void own_network_close(struct network **network) {
    struct network *n = *network;
    if (!n) return;
    for (int r = 0; r < n->epoch->n; r++) {
        struct member *m = &n->member[r];
        if (m->stage == CALLED) wire_call_end(&m->call);
        if (m->stage == THERE) sealed_close(&m->stream);
    }
    wire_door_close(&n->door);
    free(n->member);
    free(n);
    *network = NULL;
}

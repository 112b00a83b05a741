#include "launch/host_link.h"

#include "lib/base/clock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define WORD sizeof(struct host_word), sizeof(struct host_word)
const struct host_row host_rows[N_HOST_KINDS] = {
    [HOST_HERE] = {"here", true, false, 1, HOST_MOST_NAME},
    [HOST_JOB] = {"job", false, true, sizeof(struct host_job), HOST_MOST_TEXT},
    [HOST_STATE] = {"state", true, false, WORD},
    [HOST_ADDRESS] = {"address", true, true, WORD},
    [HOST_REQUEST] = {"request", true, false, WORD},
    [HOST_LOST] = {"lost", true, false, WORD},
    [HOST_COMMITTED] = {"committed", true, true, WORD},
    [HOST_ENDS] = {"ends", false, true, WORD},
    [HOST_DRAINED] = {"drained", true, false, WORD},
    [HOST_CLOSES] = {"closes", true, false, WORD},
    [HOST_CLOSED] = {"closed", false, true, WORD},
    [HOST_SHAPE] = {"shape", true, false, sizeof(struct membership_shape), sizeof(struct membership_shape)},
    [HOST_KEPT] = {"kept", true, true, WORD},
    [HOST_DONE] = {"done", true, false, WORD},
    [HOST_ENDED] = {"ended", true, false, WORD},
    [HOST_EPOCH] = {"epoch", false, true, sizeof(struct membership), sizeof(struct membership)},
    [HOST_PLACE] = {"place", false, true, WORD},
    [HOST_SIGNAL] = {"signal", false, true, WORD},
    [HOST_CUT] = {"cut", false, true, WORD},
    [HOST_OVER] = {"over", false, true, WORD},
    [HOST_ALIVE] = {"alive", true, true, 0, 0},
};

struct header { uint32_t kind, bytes; };
/* MOST_WAITING: if more bytes than this wait for a peer, it counts as lost. */
enum { IN_ROOM = sizeof(struct header) + HOST_MOST_TEXT, MOST_WAITING = 8 * HOST_MOST_TEXT };
static const double alive_s = 0.5;

enum status host_link_open(struct host_link *l, struct sealed *wire, bool at_lighthouse) {
    *l = (struct host_link){.fd = wire->fd, .wire = *wire, .at_lighthouse = at_lighthouse, .heard_s = clock_s(),
                            .in = malloc(IN_ROOM)};
    return l->in ? OK : FAIL(E_MEMORY, "no memory for the messages of a host");
}

void host_link_close(struct host_link *l) {
    if (l->fd >= 0) sealed_close(&l->wire);
    free(l->in);
    free(l->out);
    *l = (struct host_link){.fd = -1, .broken = "closed"};
}

static void break_it(struct host_link *l, const char *why) {
    if (!l->broken) l->broken = why;
}

/* ---- saying ---- */
static bool make_room(struct host_link *l, size_t bytes) {
    if (l->out_bytes + bytes <= l->out_room) return true;
    size_t room = 2 * (l->out_bytes + bytes);
    char *larger = room <= MOST_WAITING ? realloc(l->out, room) : NULL;
    if (!larger) return false;
    l->out = larger;
    l->out_room = room;
    return true;
}

static void put(struct host_link *l, const void *what, size_t bytes) {
    if (bytes) memcpy(l->out + l->out_bytes, what, bytes);
    l->out_bytes += bytes;
}

void host_link_say(struct host_link *l, enum host_kind kind, const void *body, size_t bytes) {
    if (l->broken) return;
    if (!make_room(l, sizeof(struct header) + bytes)) {
        break_it(l, "it reads nothing");
        return;
    }
    put(l, &(struct header){kind, (uint32_t)bytes}, sizeof(struct header));
    put(l, body, bytes);
    l->said_s = clock_s();
}

void host_link_say_word(struct host_link *l, enum host_kind kind, int slot, int epoch, int64_t value) {
    const struct host_word word = {slot, epoch, value};
    host_link_say(l, kind, &word, sizeof word);
}

bool host_link_has_more(const struct host_link *l) { return !l->broken && l->out_bytes > 0; }

static void send_some(struct host_link *l) {
    size_t sent = 0;
    int64_t k = 0;
    while (sent < l->out_bytes && (k = sealed_put(&l->wire, l->out + sent, l->out_bytes - sent)) > 0) sent += (size_t)k;
    if (k < 0) break_it(l, sealed_why(&l->wire));
    memmove(l->out, l->out + sent, l->out_bytes -= sent);
}

void host_link_flush(struct host_link *l, double seconds) {
    double until_s = clock_s() + seconds;
    for (struct pollfd p = {l->fd, POLLOUT, 0}; host_link_has_more(l) && clock_s() < until_s; poll(&p, 1, 10))
        send_some(l);
}

/* ---- hearing ---- */
static void read_some(struct host_link *l, double now_s) {
    memmove(l->in, l->in + l->in_at, l->in_bytes -= l->in_at);
    l->in_at = 0;
    int64_t k = sealed_take(&l->wire, l->in + l->in_bytes, IN_ROOM - l->in_bytes);
    if (k > 0) {
        l->in_bytes += (size_t)k;
        l->heard_s = now_s;
    }
    if (k < 0) break_it(l, sealed_why(&l->wire));
}

void host_link_step(struct host_link *l, double now_s) {
    if (l->broken) return;
    if (now_s > l->said_s + alive_s) host_link_say(l, HOST_ALIVE, NULL, 0);
    if (l->out_bytes) send_some(l);
    if (!l->broken) read_some(l, now_s);
}

static bool is_right(const struct host_link *l, const struct header *h) {
    if (h->kind >= N_HOST_KINDS) return false;
    const struct host_row *row = &host_rows[h->kind];
    return (l->at_lighthouse ? row->up : row->down) && h->bytes >= row->least && h->bytes <= row->most;
}

bool host_link_next(struct host_link *l, struct host_message *out) {
    struct header header;
    size_t there = l->in_bytes - l->in_at;
    if (!l->in || there < sizeof header) return false;
    memcpy(&header, l->in + l->in_at, sizeof header);
    if (!is_right(l, &header)) {
        break_it(l, "it has said what is no message");
        l->in_at = l->in_bytes;
        return false;
    }
    if (there < sizeof header + header.bytes) return false;
    *out = (struct host_message){(enum host_kind)header.kind, l->in + l->in_at + sizeof header, header.bytes};
    l->in_at += sizeof header + header.bytes;
    return true;
}

struct host_word host_link_word(const struct host_message *m) {
    struct host_word word;
    memcpy(&word, m->body, sizeof word);
    return word;
}

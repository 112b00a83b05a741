#include "lib/comm/direct/messages.h"

#include "lib/comm/direct/message.h"
#include "lib/comm/direct/sealed.h"

#include <stdlib.h>
#include <string.h>

struct peer {
    struct own_wire wire;
    int code;                       /* not OWN_OK: the streams to this peer have failed */
    struct list sends;              /* in the order of their starts; the first one is being written */
    struct list lent;               /* sends whose header is written and whose body the peer reads */
    struct list receives;           /* receives that wait for a header */
    struct list unreceived;         /* messages that came, and wait for a receive */
    struct header header;           /* of the message that is being read */
    size_t header_moved;
    struct own_message *coming;     /* the receive, or one of `unreceived`, whose body is read; NULL: a header is */
    struct { struct own_message message; char bytes[OWN_MAIL_BYTES]; bool leaving; } mail[OWN_MAIL_SLOTS];
};

enum { INBOX = 64, LOOKS_AT_ONE = 16, FIRST_ROOM = 64 << 10 };
struct letter { int from; char bytes[OWN_MAIL_BYTES]; };

struct own_messages {
    int size, rank;
    struct peer *peer;              /* [size] */
    struct letter inbox[INBOX];
    uint64_t arrived, read;         /* letters */
    struct own_message *newest;     /* the newest CALLERS message */
    int64_t unreceived;
    unsigned looks;                 /* own_test calls that found nothing done */
};

const char *own_code_text(int code) {
    static const char *const text[] = {
        [OWN_OK] = "no failure", [OWN_NO_MEMORY] = "there is no memory for a message that came early",
        [OWN_ENDED] = "the peer has ended",
        [OWN_FORGED] = "what came from the peer was changed on its way, and is not taken",
        [OWN_NO_MESSAGE] = "what comes from the peer is no message",
        [OWN_OTHER_LENGTH] = "the message has another length than its receive"};
    return code >= 0 && code <= OWN_OTHER_LENGTH ? text[code] : "unknown failure";
}

static void free_early(struct own_message *m) {
    free(m->at);
    free(m);
}

static void end(struct own_message *m, int code) {
    m->code = code;
    m->done = true;
}

/* ---- failure of a peer ---- */
static void end_all(struct list *l, int code) {
    for (struct own_message *m; (m = l->first);) {
        list_remove(l, m);
        if (m->kind == NOTE) free(m);
        else end(m, code);
    }
}

static void fail(struct peer *p, int code) {
    p->code = code;
    struct own_message *m = p->coming;
    if (m) end(m, code);
    if (m && m->header.context == MAIL) free_early(m);
    end_all(&p->sends, code);
    end_all(&p->lent, code);
    end_all(&p->receives, code);
    p->coming = NULL;
}

static int code_of_end(int64_t k) { return k == SEALED_FORGED ? OWN_FORGED : OWN_ENDED; }

/* ---- what comes ---- */
/* The body of m has come in full. */
static void arrived(struct own_messages *o, struct peer *p, struct own_message *m) {
    end(m, OWN_OK);
    p->coming = NULL;
    p->header_moved = 0;
    if (m->header.context != MAIL) return;
    struct letter *letter = &o->inbox[o->arrived++ % INBOX];
    *letter = (struct letter){.from = m->peer};
    memcpy(letter->bytes, m->at, (size_t)m->header.bytes);
    if (o->arrived - o->read > INBOX) o->read = o->arrived - INBOX;
    free_early(m);
}

/* Keep a message that comes before its receive. At first allocate only a part of the bytes in the header; make_room
 * adds more as the body comes. A lent body needs no memory. */
static struct own_message *keep_early(struct own_messages *o, struct peer *p, const struct header *header, int from) {
    struct own_message *m = calloc(1, sizeof *m);
    size_t bytes = header->magic == LENT ? 0 : (size_t)header->bytes;
    size_t room = from == o->rank || bytes < FIRST_ROOM ? bytes : FIRST_ROOM;
    char *body = malloc(room + 1);
    if (!m || !body) {
        free(m);
        free(body);
        return NULL;
    }
    *m = (struct own_message){.header = *header, .kind = EARLY, .peer = from, .at = body, .room = room};
    if (header->context == MAIL) return m;
    list_add(&p->unreceived, m);
    o->unreceived += header->bytes;
    return m;
}

/* Copy a lent body from the peer's memory, and send the peer a note. */
static void read_lent(struct peer *p, struct own_message *receive, const struct header *header) {
    struct own_message *note = calloc(1, sizeof *note);
    int code = !note ? OWN_NO_MEMORY : OWN_OK;
    if (note && !p->wire.fetch(p->wire.in, receive->at, header->at, (size_t)header->bytes)) code = OWN_ENDED;
    end(receive, code);
    if (code != OWN_OK) {
        free(note);
        fail(p, code);
        return;
    }
    *note = (struct own_message){.header = {header->context, 0, 0, header->tag, READ}, .kind = NOTE};
    list_add(&p->sends, note);
}

/* The peer has read a lent body: the oldest one of this context and tag, since receives take them in that order. */
static void was_read(struct peer *p, const struct header *header) {
    struct own_message *m = list_find(&p->lent, header->context, header->tag);
    p->header_moved = 0;
    if (m) list_remove(&p->lent, m), end(m, OWN_OK);
    else fail(p, OWN_NO_MESSAGE);
}

static bool is_sound(const struct peer *p, const struct header *h) {
    if (h->magic == READ) return p->wire.lend;
    if (h->magic == LENT && !p->wire.fetch) return false;
    return (h->magic == MAGIC || h->magic == LENT) && h->bytes >= 0 && h->bytes <= MOST_BYTES &&
           (h->context != MAIL || (h->magic == MAGIC && h->bytes <= OWN_MAIL_BYTES));
}

/* A header announces a message: find where its body goes. */
static void take_message(struct own_messages *o, struct peer *p, int from) {
    const struct header *header = &p->header;
    struct own_message *m = list_find(&p->receives, header->context, header->tag);
    if (m && m->header.bytes != header->bytes) {
        fail(p, OWN_OTHER_LENGTH);
        return;
    }
    if (m) list_remove(&p->receives, m);
    else m = keep_early(o, p, header, from);
    if (!m) {
        fail(p, OWN_NO_MEMORY);
    } else if (header->magic == LENT) {
        p->header_moved = 0;
        if (m->kind == CALLERS) read_lent(p, m, header);
    } else {
        p->coming = m;
        if (header->bytes == 0) arrived(o, p, m);
    }
}

static void take_header(struct own_messages *o, struct peer *p, int from) {
    if (!is_sound(p, &p->header)) fail(p, OWN_NO_MESSAGE);
    else if (p->header.magic == READ) was_read(p, &p->header);
    else take_message(o, p, from);
}

/* Read up to n bytes of the stream. @return were there n? */
static bool take(struct peer *p, void *to, size_t n, size_t *moved) {
    int64_t k = p->wire.take(p->wire.in, to, n);
    if (k < 0) fail(p, code_of_end(k));
    else *moved += (size_t)k;
    return k == (int64_t)n;
}

/* The memory of an early body doubles when it is full. @return false: there is no memory */
static bool make_room(struct own_message *m) {
    size_t bytes = (size_t)m->header.bytes, room = 2 * m->room < bytes ? 2 * m->room : bytes;
    if (m->moved < m->room || m->room == bytes) return true;
    char *at = realloc(m->at, room + 1);
    if (at) m->at = at, m->room = room;
    return at;
}

static void pull(struct own_messages *o, struct peer *p, int from) {
    while (p->code == OWN_OK) {
        struct own_message *m = p->coming;
        if (m && m->kind == EARLY && !make_room(m)) {
            fail(p, OWN_NO_MEMORY);
        } else if (m) {
            size_t room = m->kind == EARLY ? m->room : (size_t)m->header.bytes;
            if (!take(p, m->at + m->moved, room - m->moved, &m->moved)) return;
            if (m->moved == (size_t)m->header.bytes) arrived(o, p, m);
        } else {
            if (!take(p, (char *)&p->header + p->header_moved, sizeof p->header - p->header_moved, &p->header_moved))
                return;
            take_header(o, p, from);
        }
    }
}

/* ---- what leaves ---- */
static bool put(struct peer *p, struct own_message *m) {
    const size_t head = sizeof m->header, all = head + (m->header.magic == MAGIC ? (size_t)m->header.bytes : 0);
    while (m->moved < all) {
        bool in_head = m->moved < head;
        const char *from = in_head ? (const char *)&m->header + m->moved : m->at + (m->moved - head);
        size_t n = (in_head ? head : all) - m->moved;
        int64_t k = p->wire.put(p->wire.out, from, n);
        if (k < 0) fail(p, code_of_end(k));
        if (k <= 0) return false;
        m->moved += (size_t)k;
    }
    return true;
}

static void push(struct peer *p) {
    for (struct own_message *m; p->code == OWN_OK && (m = p->sends.first) && put(p, m);) {
        list_remove(&p->sends, m);
        if (m->kind == NOTE) free(m);
        else if (m->header.magic == LENT) list_add(&p->lent, m);
        else end(m, OWN_OK);
    }
}

static void push_and_pull(struct own_messages *o, int r) {
    struct peer *p = &o->peer[r];
    if (r == o->rank || p->code != OWN_OK) return;
    if (p->sends.first) push(p);
    pull(o, p, r);
    if (p->sends.first) push(p);             /* send the notes for the bodies that pull has read */
}

void own_push(struct own_messages *o) {
    for (int r = 0; r < o->size; r++) push_and_pull(o, r);
}

/* ---- start and end ---- */
static void free_callers(struct own_messages *o, struct own_message *m) {
    if (m->newer) m->newer->older = m->older;
    else o->newest = m->older;
    if (m->older) m->older->newer = m->newer;
    free(m);
}

struct own_messages *own_messages_open(int size, int rank, const struct own_wire *wire) {
    struct own_messages *o = calloc(1, sizeof *o);
    if (o) o->peer = calloc((size_t)size, sizeof *o->peer);
    if (!o || !o->peer) {
        free(o);
        return NULL;
    }
    o->size = size;
    o->rank = rank;
    for (int r = 0; r < size; r++) {
        o->peer[r].wire = wire[r];
        list_clear(&o->peer[r].sends);
        list_clear(&o->peer[r].lent);
        list_clear(&o->peer[r].receives);
        list_clear(&o->peer[r].unreceived);
    }
    return o;
}


void own_messages_close(struct own_messages **messages) {
    struct own_messages *o = *messages;
    if (!o) return;
    for (int r = 0; r < o->size; r++) {
        struct peer *p = &o->peer[r];
        if (p->coming && p->coming->header.context == MAIL) free_early(p->coming);    /* it is in no list */
        end_all(&p->sends, OWN_ENDED);                                                /* notes have no receiver */
        for (struct own_message *m; (m = p->unreceived.first);) {
            list_remove(&p->unreceived, m);
            free_early(m);
        }
    }
    while (o->newest) free_callers(o, o->newest);
    free(o->peer);
    free(o);
    *messages = NULL;
}

static struct own_message *new_message(struct own_messages *o, uint64_t context, int peer, int tag, void *at,
                                       int64_t bytes) {
    struct own_message *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    *m = (struct own_message){.older = o->newest, .header = {context, bytes, 0, tag, MAGIC}, .peer = peer, .at = at};
    if (m->older) m->older->newer = m;
    return o->newest = m;
}

/* Give a receive the message that came before it, in whole or in part. */
static void adopt(struct own_messages *o, struct peer *p, struct own_message *receive, struct own_message *early) {
    list_remove(&p->unreceived, early);
    o->unreceived -= early->header.bytes;
    if (early->header.bytes != receive->header.bytes) {
        end(receive, OWN_OTHER_LENGTH);
        if (p->coming == early || early->header.magic == LENT) fail(p, OWN_OTHER_LENGTH);
    } else if (early->header.magic == LENT && p->code != OWN_OK) {
        end(receive, p->code);
    } else if (early->header.magic == LENT) {
        read_lent(p, receive, &early->header);
        push(p);
    } else {
        bool whole = early->done && early->code == OWN_OK;           /* else only `moved` bytes are allocated */
        memcpy(receive->at, early->at, whole ? (size_t)early->header.bytes : early->moved);
        receive->moved = early->moved;
        if (p->coming == early) p->coming = receive;
        else end(receive, early->code);
    }
    free_early(early);
}

int own_receive(struct own_messages *o, uint64_t context, int from, int tag, void *at, int64_t bytes,
                struct own_message **out) {
    struct peer *p = &o->peer[from];
    struct own_message *m = *out = new_message(o, context, from, tag, at, bytes);
    if (!m) return OWN_NO_MEMORY;
    struct own_message *early = list_find(&p->unreceived, context, tag);
    if (early) adopt(o, p, m, early);
    else if (p->code != OWN_OK) end(m, p->code);
    else list_add(&p->receives, m);
    return OWN_OK;
}

/* Deliver a message of this rank to itself, as if it had come from a stream. */
static int deliver(struct own_messages *o, struct own_message *send) {
    struct peer *p = &o->peer[o->rank];
    p->header = send->header;
    take_header(o, p, o->rank);
    struct own_message *m = p->coming;
    if (m) {
        memcpy(m->at, send->at, (size_t)send->header.bytes);
        arrived(o, p, m);
    }
    end(send, p->code);
    p->code = OWN_OK;
    return OWN_OK;
}

int own_send(struct own_messages *o, uint64_t context, int to, int tag, const void *at, int64_t bytes,
             struct own_message **out) {
    struct peer *p = &o->peer[to];
    struct own_message *m = *out = new_message(o, context, to, tag, (char *)(uintptr_t)at, bytes);
    if (!m) return OWN_NO_MEMORY;
    if (to == o->rank) return deliver(o, m);
    if (p->code != OWN_OK) {
        end(m, p->code);
        return OWN_OK;
    }
    if (p->wire.lend && p->wire.lend(p->wire.out, at, (size_t)bytes)) {
        m->header.magic = LENT;
        m->header.at = (uintptr_t)at;
    }
    list_add(&p->sends, m);
    push(p);
    return OWN_OK;
}

int own_test(struct own_messages *o, struct own_message **message, bool *done) {
    struct own_message *m = *message;
    if (!m->done) push_and_pull(o, m->peer);
    if (!m->done && ++o->looks % LOOKS_AT_ONE == 0) own_push(o);
    *done = m->done && m->code == OWN_OK;
    if (!m->done) return OWN_OK;
    int code = m->code;
    free_callers(o, m);
    *message = NULL;
    return code;
}

/* ---- mail ---- */
void own_mail_send(struct own_messages *o, int to, int slot, const void *at, int n) {
    struct peer *p = &o->peer[to];
    struct own_message *m = &p->mail[slot].message;
    if (to == o->rank || p->code != OWN_OK || n > OWN_MAIL_BYTES) return;
    if (p->mail[slot].leaving && !m->done) return;
    memcpy(p->mail[slot].bytes, at, (size_t)n);
    p->mail[slot].leaving = true;
    *m = (struct own_message){.header = {MAIL, n, 0, 0, MAGIC}, .kind = LETTER, .peer = to, .at = p->mail[slot].bytes};
    list_add(&p->sends, m);
    push(p);
}

bool own_mail_receive(struct own_messages *o, int *from, void *at, int n) {
    if (o->read == o->arrived) own_push(o);
    if (o->read == o->arrived) return false;
    const struct letter *letter = &o->inbox[o->read++ % INBOX];
    *from = letter->from;
    memcpy(at, letter->bytes, (size_t)n);
    return true;
}

int64_t own_unreceived(const struct own_messages *o) { return o->unreceived; }

/* The data of messages.c: a message in flight, and lists of them. Private to messages.c. */
#pragma once

#include "lib/comm/direct/messages.h"

#include <stdbool.h>

/* The last word of a header. MAGIC "trvm": the body follows; LENT "trvl": the body is lent; READ "trvr": the receiver
 * has read the oldest lent body of this context and tag. */
enum { MAGIC = 0x7472766d, LENT = 0x7472766c, READ = 0x74727672 };
static const uint64_t MAIL = UINT64_MAX;
static const int64_t MOST_BYTES = (int64_t)1 << 40;

struct header { uint64_t context; int64_t bytes; uint64_t at; int32_t tag; uint32_t magic; };   /* at: of a lent body */

/* CALLERS: an operation of a caller, which own_test frees. EARLY: it came before its receive, and owns its body.
 * LETTER: mail to the peer, on its way out. NOTE: it tells the peer that its lent body is read, and is freed once it is
 * sent. */
enum kind { CALLERS, EARLY, LETTER, NOTE };

struct own_message {
    struct own_message *next;
    struct own_message *older, *newer;   /* in the list of all CALLERS messages */
    struct header header;
    enum kind kind;
    int peer, code;
    char *at;
    size_t room;                    /* bytes allocated so far for the body of an EARLY message */
    size_t moved;                   /* bytes moved so far: of a send's header and body, or of a receive's body */
    bool done;
};

struct list { struct own_message *first, **last; };

static inline void list_clear(struct list *l) { *l = (struct list){NULL, &l->first}; }

static inline void list_add(struct list *l, struct own_message *m) {
    m->next = NULL;
    *l->last = m;
    l->last = &m->next;
}

static inline void list_remove(struct list *l, struct own_message *m) {
    struct own_message **at = &l->first;
    while (*at && *at != m) at = &(*at)->next;
    if (!*at) return;
    *at = m->next;
    if (l->last == &m->next) l->last = at;
}

static inline struct own_message *list_find(const struct list *l, uint64_t context, int tag) {
    struct own_message *m = l->first;
    while (m && (m->header.context != context || m->header.tag != tag)) m = m->next;
    return m;
}

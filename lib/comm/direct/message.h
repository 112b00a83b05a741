/* The data of messages.c: a message in flight, and lists of them. Private to messages.c. */
#ifndef TRIVIUM_COMM_DIRECT_MESSAGE_H
#define TRIVIUM_COMM_DIRECT_MESSAGE_H

#include "lib/comm/direct/messages.h"

#include <stdbool.h>

/* A header's last word, "trvm": its body follows; "trvl": its body is lent; "trvr": the oldest lent one of this context
 * and tag is read. */
enum { MAGIC = 0x7472766d, LENT = 0x7472766c, READ = 0x74727672 };
static const uint64_t MAIL = UINT64_MAX;
static const int64_t MOST_BYTES = (int64_t)1 << 40;

struct header { uint64_t context; int64_t bytes; uint64_t at; int32_t tag; uint32_t magic; };   /* at: of a lent body */

/* A CALLERS is freed by own_test. An EARLY one has come before its receive, and its body is its own. A LETTER is one of
 * the peer's mail, on its way out. A NOTE says that a body is read, and is freed when it has left. */
enum kind { CALLERS, EARLY, LETTER, NOTE };

struct own_message {
    struct own_message *next;
    struct own_message *older, *newer;   /* of those that are callers' */
    struct header header;
    enum kind kind;
    int peer, code;
    char *at;
    size_t room;                    /* of an EARLY one's body, so far */
    size_t moved;                   /* of a send: of header and body together; else of the body */
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

#endif

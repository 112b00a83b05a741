/* Messages over streams of bytes, in flight to and from each peer.
 *
 * On a stream the messages follow each other in the order sent, each as a header (context, tag, bytes) and its body.
 * The receiver reads the header and looks for the oldest waiting receive of that context and tag:
 *
 *   there is one       the body goes to its buffer, piece by piece
 *   there is none      the body goes to the heap, until one comes. It must not stay in the stream: messages of another
 *                      context behind it may be what this process waits for
 *
 *   peer ->  | header body | header body | he        put and take as much as there is room for, never wait
 *
 * A stream copies each byte twice, into it and out of it. If a process can read the memory of its peer, a large body is
 * *lent*: it stays where it is, and the header has its address. The receiver copies it from there as soon as it has a
 * buffer, and sends a note (it is read); then the send is done.
 *
 *   sender   | lent, at |  ....................  | done        the body is the sender's again when the note has come
 *   receiver             copies it | read |
 *
 * A message to itself takes the same way, without a stream. Mail is a message of a context without receives: the
 * newest few are kept.
 *
 * A stream whose bytes are no message, or that has ended, has failed, and with it all later messages of that peer, but
 * no others. Not thread-safe. Private to lib/comm. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The two streams of a peer. put, take: move up to n bytes, and return how many; -1: the stream has ended; -2: the
 * bytes are not the peer's (sealed.h). lend: may the peer read this body in place? fetch: copy n bytes from the peer's
 * memory; false: it can no longer be read. Both NULL: nothing is lent. */
struct own_wire {
    void *out, *in;
    int64_t (*put)(void *out, const void *from, size_t n);
    int64_t (*take)(void *in, void *to, size_t n);
    bool (*lend)(void *out, const void *body, size_t n);
    bool (*fetch)(void *in, void *to, uint64_t from, size_t n);
};

enum own_code { OWN_OK, OWN_NO_MEMORY, OWN_ENDED, OWN_FORGED, OWN_NO_MESSAGE, OWN_OTHER_LENGTH };
/** "it has ended" */
const char *own_code_text(int code);

struct own_messages;   /* opaque */
struct own_message;    /* opaque: one in flight */

enum { OWN_MAIL_BYTES = 64 };

/** wire[size]: borrowed; that of `rank` itself is not used. @return NULL: no memory  @collective{none} */
struct own_messages *own_messages_open(int size, int rank, const struct own_wire *wire);
/** Drop messages in flight; callers' buffers are not touched any more. A peer may still read a lent body; it then
 *  notices that the message is void (streams.c). @collective{none} */
void own_messages_close(struct own_messages **);

/** Start one of `bytes` bytes, which stay the caller's until it is done. @return enum own_code  @collective{none} */
int own_send(struct own_messages *, uint64_t context, int to, int tag, const void *at, int64_t bytes,
             struct own_message **out);
int own_receive(struct own_messages *, uint64_t context, int from, int tag, void *at, int64_t bytes,
                struct own_message **out);
/** Advance all messages as far as possible. Never waits. @collective{none} */
void own_push(struct own_messages *);
/** Is it done? Then, and when it has failed, it is freed and NULL. Advances its peer's messages, and now and then those
 *  of all peers, since others may wait for room: with many messages in flight, checking all peers' streams for each
 *  would cost more than the copies. @return enum own_code  @collective{none} */
int own_test(struct own_messages *, struct own_message **, bool *done);

/** Mail of n <= OWN_MAIL_BYTES bytes; slot: of several to one peer, the newest is dropped while the last of its slot
 *  has not left. @collective{none} */
enum { OWN_MAIL_SLOTS = 2 };
void own_mail_send(struct own_messages *, int to, int slot, const void *at, int n);
/** The oldest that has come: its sender, and its first n bytes, at. @collective{none} */
bool own_mail_receive(struct own_messages *, int *from, void *at, int n);

/** Bytes of messages that have come and are not received yet. @collective{none} */
int64_t own_unreceived(const struct own_messages *);

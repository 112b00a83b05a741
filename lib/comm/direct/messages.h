/* Messages over streams of bytes, in flight to and from each peer.
 *
 * On a stream messages follow each other in the order in which they were sent, each as a header (context, tag, bytes)
 * and its body. The receiver reads the header and looks for the oldest waiting receive of this context and tag:
 *
 *   found              the body goes to the receive's buffer, piece by piece
 *   not found          the body goes to the heap until the receive starts. It must not stay in the stream, because this
 *                      process may be waiting for a message of another context behind it
 *
 *   peer ->  | header body | header body | he        put and take move as many bytes as fit, and never wait
 *
 * A stream copies each byte twice, into it and out of it. If a process can read the memory of its peer, a large body is
 * *lent*: it stays where it is, and the header has its address. The receiver copies it from there as soon as it has a
 * buffer, and then sends a note that the body is read, which ends the send.
 *
 *   sender   | lent, at |  ....................  | done        the sender may reuse the body when the note has come
 *   receiver             copies it | read |
 *
 * A message of a rank to itself is handled in the same way, without a stream. Mail is a message of a context without
 * receives; only the newest few are kept.
 *
 * If a stream ends, or its bytes are not a message, all later messages of this peer fail; messages of other peers do
 * not. Not thread-safe. Private to lib/comm. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The two streams of a peer. put, take: move up to n bytes, and return their number; -1: the stream has ended; -2: the
 * bytes do not come from the peer (sealed.h). lend: may the peer read this body in place? fetch: copy n bytes from the
 * peer's memory; false: it can no longer be read. lend and fetch are both NULL if nothing is lent. */
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

/** wire[size]: borrowed; wire[rank] is not used. @return NULL: no memory @collective{none} */
struct own_messages *own_messages_open(int size, int rank, const struct own_wire *wire);
/** Drop all messages in flight, and do not touch the callers' buffers any more. A peer may still read a lent body; it
 *  then finds that the message is void (streams.c). @collective{none} */
void own_messages_close(struct own_messages **);

/** Start a message of `bytes` bytes. The caller must not change or free them until it is done. @return enum own_code
 *  @collective{none} */
int own_send(struct own_messages *, uint64_t context, int to, int tag, const void *at, int64_t bytes,
             struct own_message **out);
int own_receive(struct own_messages *, uint64_t context, int from, int tag, void *at, int64_t bytes,
                struct own_message **out);
/** Advance all messages as far as possible. Never blocks. @collective{none} */
void own_push(struct own_messages *);
/** Is the message done? When it is done or has failed, it is freed and set to NULL. Each call advances the messages of
 *  its peer. Only some calls advance those of all peers, because checking all streams for each of many messages would
 *  cost more than the copies. @return enum own_code @collective{none} */
int own_test(struct own_messages *, struct own_message **, bool *done);

/** Send mail of n <= OWN_MAIL_BYTES bytes. While the last mail of the same slot to the same peer is still being sent,
 *  new mail is dropped. @collective{none} */
enum { OWN_MAIL_SLOTS = 2 };
void own_mail_send(struct own_messages *, int to, int slot, const void *at, int n);
/** Receive the oldest mail: its sender, and its first n bytes at `at`. @return false: no mail has come
 *  @collective{none} */
bool own_mail_receive(struct own_messages *, int *from, void *at, int n);

/** The bytes of messages that have come before their receives. @collective{none} */
int64_t own_unreceived(const struct own_messages *);

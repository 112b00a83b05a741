/* A stream of bytes over a connection whose two ends have greeted each other (greeting.h). It delivers only bytes that
 * the peer has sent. It consists of frames:
 *
 *   | n, 4 bytes | body, n bytes | tag, 16 bytes |       tag = code(key of the direction, number of the frame, n, body)
 *
 * Both ends derive the two keys from the secret and the numbers of their greeting, so each connection has its own keys.
 * The frames of a direction are numbered 0, 1, 2 ..., and the number is not sent. If a frame was changed, left out,
 * sent twice, moved, or taken from another connection or direction, its tag is wrong: then the stream ends as forged,
 * and no byte of the frame is delivered. If the connection is cut, the stream ends after a whole frame, and a message
 * that is still incomplete is dropped (messages.h, host_link.h).
 *
 * encrypts: the body is encrypted, too. Otherwise the network can read it, and the tag costs half as much.
 *
 * The tag and the cipher are ChaCha20-Poly1305 (RFC 8439; libsodium, crypto_aead_chacha20poly1305_ietf). The body is
 * its text, or its additional data if the body is not encrypted. Source: records of TLS 1.3, RFC 8446 section 5.
 *
 * Not thread-safe. Private to lib/comm and the driver. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/direct/greeting.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SEALED_OVER: bytes of a frame besides its body. SEALED_ENDED, SEALED_FORGED: returned in place of a number of
 * bytes. */
enum { SEALED_FRAME = 32 << 10, SEALED_TAG = 16, SEALED_OVER = 4 + SEALED_TAG, SEALED_ENDED = -1, SEALED_FORGED = -2 };

struct sealed {
    int fd;
    bool encrypts, forged;
    int error;                       /* of the connection; 0 */
    bool ended;
    struct greeting_keys key;        /* mine, theirs */
    uint64_t n_out, n_in;            /* the numbers of the next frames to send and to receive */
    uint32_t leaving;                /* bytes of the body that is being sent; 0: none is */
    size_t moved;                    /* of its frame */
    unsigned char tag[SEALED_TAG];
    unsigned char *cipher;           /* [SEALED_FRAME], if it encrypts */
    unsigned char *in;               /* received bytes, from in_at to in_bytes */
    size_t in_at, in_bytes, proven;  /* proven: bytes at in_at that belong to a frame whose tag is right */
};

/** Takes ownership of the non-blocking connection fd, even if the call fails. key: the caller's keys; calls: this end
 *  is the caller. @errors E_MEMORY @collective{none} */
enum status sealed_open(struct sealed *, int fd, const struct greeting_keys *key, bool calls, bool encrypts);
void sealed_close(struct sealed *);

/** Send up to n bytes, without blocking. If fewer than n were sent, the next call must pass the rest, unchanged.
 *  @return the number of bytes; SEALED_ENDED, SEALED_FORGED @collective{none} */
int64_t sealed_put(void *sealed, const void *from, size_t n);
/** Receive up to n bytes from the peer, without blocking. @return the number of bytes; after the last byte SEALED_ENDED
 *  or SEALED_FORGED @collective{none} */
int64_t sealed_take(void *sealed, void *to, size_t n);
/** Why the stream has ended, such as "what it sent was changed on its way". Pure. */
const char *sealed_why(const struct sealed *);

#include "lib/comm/direct/sealed.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { IN_ROOM = 2 * (SEALED_FRAME + SEALED_OVER), NONCE = crypto_aead_chacha20poly1305_ietf_NPUBBYTES };
_Static_assert(SEALED_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES &&
               GREETING_KEY == crypto_aead_chacha20poly1305_ietf_KEYBYTES && NONCE == 12, "sizes are libsodium's");

enum status sealed_open(struct sealed *s, int fd, const struct greeting_keys *key, bool calls, bool encrypts) {
    *s = (struct sealed){.fd = fd, .encrypts = encrypts, .key = *key, .in = malloc(IN_ROOM)};
    if (encrypts) s->cipher = malloc(SEALED_FRAME);
    if (!calls) memcpy(s->key.mine, key->theirs, GREETING_KEY), memcpy(s->key.theirs, key->mine, GREETING_KEY);
    bool ready = sodium_init() >= 0;         /* selects the fastest code for this processor */
    if (ready && s->in && (s->cipher || !encrypts)) return OK;
    sealed_close(s);
    return FAIL(E_MEMORY, "no memory for a connection (%d bytes)", IN_ROOM + SEALED_FRAME);
}

void sealed_close(struct sealed *s) {
    close(s->fd);
    free(s->in);
    free(s->cipher);
    sodium_memzero(s, sizeof *s);
    s->fd = -1;
    s->ended = true;
}

const char *sealed_why(const struct sealed *s) {
    if (s->forged) return "what it sent was changed on its way";
    return s->error ? strerror(s->error) : "its connection has ended";
}

/* Two frames under one key never have the same nonce. The length is part of it, so that the tag covers the length. */
static void make_nonce(uint64_t number, uint32_t bytes, unsigned char nonce[NONCE]) {
    memcpy(nonce, &bytes, sizeof bytes);
    memcpy(nonce + sizeof bytes, &number, sizeof number);
}

static int64_t end(struct sealed *s, int error) {
    s->ended = true;
    s->error = error;
    return SEALED_ENDED;
}

/* ---- out ---- */
static void seal(struct sealed *s, const void *body, uint32_t n) {
    unsigned char nonce[NONCE];
    const uint32_t text = s->encrypts ? n : 0;                     /* the other bytes of the body are additional data */
    make_nonce(s->n_out++, n, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(text ? s->cipher : nonce, s->tag, NULL, body, text, body,
                                                       n - text, NULL, nonce, s->key.mine);
    s->leaving = n;
    s->moved = 0;
}

/* rest: the parts of a frame that are not sent yet. @return their number */
static int find_rest(const struct iovec frame[3], size_t moved, struct iovec rest[3]) {
    int n = 0;
    for (int i = 0; i < 3; i++) {
        size_t gone = moved < frame[i].iov_len ? moved : frame[i].iov_len;
        moved -= gone;
        if (gone == frame[i].iov_len) continue;
        rest[n++] = (struct iovec){(char *)frame[i].iov_base + gone, frame[i].iov_len - gone};
    }
    return n;
}

int64_t sealed_put(void *sealed, const void *from, size_t n) {
    struct sealed *s = sealed;
    if (s->ended) return s->forged ? SEALED_FORGED : SEALED_ENDED;
    if (n == 0) return 0;
    if (!s->leaving) seal(s, from, (uint32_t)(n < SEALED_FRAME ? n : SEALED_FRAME));
    void *body = s->encrypts ? s->cipher : (void *)(uintptr_t)from;
    const struct iovec frame[3] = {{&s->leaving, sizeof s->leaving}, {body, s->leaving}, {s->tag, SEALED_TAG}};
    struct iovec rest[3];
    struct msghdr message = {.msg_iov = rest, .msg_iovlen = (size_t)find_rest(frame, s->moved, rest)};
    ssize_t k = sendmsg(s->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (k < 0) return errno == EAGAIN || errno == EINTR ? 0 : end(s, errno);
    s->moved += (size_t)k;
    if (s->moved < s->leaving + SEALED_OVER) return 0;
    k = s->leaving;
    s->leaving = 0;
    return k;
}

/* ---- in ---- */
static bool is_right(const struct sealed *s, unsigned char *body, uint32_t n) {
    unsigned char nonce[NONCE];
    const uint32_t text = s->encrypts ? n : 0;                     /* the other bytes of the body are additional data */
    make_nonce(s->n_in, n, nonce);
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(body, NULL, body, text, body + n, body, n - text, nonce,
                                                              s->key.theirs) == 0;
}

/* @return was a whole frame received? If so, its tag is right, or the stream has ended as forged */
static bool open_frame(struct sealed *s) {
    size_t there = s->in_bytes - s->in_at;
    uint32_t n;
    if (there < sizeof n) return false;
    memcpy(&n, s->in + s->in_at, sizeof n);
    bool sound = n > 0 && n <= SEALED_FRAME;
    if (sound && there < n + SEALED_OVER) return false;
    s->in_at += sizeof n;
    if (sound && is_right(s, s->in + s->in_at, n)) s->n_in++, s->proven = n;
    else s->ended = s->forged = true;
    return true;
}

/* @return has any byte come? */
static bool read_more(struct sealed *s) {
    memmove(s->in, s->in + s->in_at, s->in_bytes -= s->in_at);       /* less than a frame */
    s->in_at = 0;
    ssize_t k = recv(s->fd, s->in + s->in_bytes, IN_ROOM - s->in_bytes, MSG_DONTWAIT);
    if (k > 0) s->in_bytes += (size_t)k;
    if (k == 0) end(s, 0);
    if (k < 0 && errno != EAGAIN && errno != EINTR) end(s, errno);
    return k > 0;
}

/* A frame is checked only after the frames before it are taken, so that data before an end is still delivered. */
int64_t sealed_take(void *sealed, void *to, size_t n) {
    struct sealed *s = sealed;
    size_t moved = 0;
    while (moved < n) {
        if (s->proven == 0 && (s->ended || (!open_frame(s) && !read_more(s)))) break;
        size_t k = s->proven < n - moved ? s->proven : n - moved;
        memcpy((char *)to + moved, s->in + s->in_at, k);
        moved += k;
        s->in_at += k;
        s->proven -= k;
        if (k > 0 && s->proven == 0) s->in_at += SEALED_TAG;
    }
    if (moved > 0 || n == 0 || !s->ended) return (int64_t)moved;
    return s->forged ? SEALED_FORGED : SEALED_ENDED;
}

/* parses: lib/base lib/comm/direct/sealed.c */
/* The bytes on a sealed connection. The input is a list of acts of a stranger on the way, without the keys: pass a
 * frame on, change, cut, replay or leave it out, put in other bytes. What must hold:
 * delivered bytes are the beginning of the sent bytes, up to the last frame that came whole and in order; and
 * after any other frame the stream has ended. */
#include "lib/comm/direct/sealed.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

enum { MOST_FRAMES = 16, MOST_BODY = 255, MOST_PUT_IN = 40 };
enum act { PASS, CHANGE, CUT, REPLAY, LEAVE_OUT, PUT_IN, N_ACTS };

static unsigned char said[MOST_FRAMES * MOST_BODY], frame[MOST_FRAMES][MOST_BODY + SEALED_OVER];
static size_t n_said, bytes_of[MOST_FRAMES];
static int n_frames;
static unsigned char came[MOST_FRAMES * (sizeof frame[0] + MOST_PUT_IN)];            /* bytes passed on to the end */
static size_t n_came;

static void put(int fd, const void *what, size_t bytes) {
    ssize_t k = send(fd, what, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    MUST(k == (ssize_t)bytes || bytes == 0);
    memcpy(came + n_came, what, bytes);
    n_came += bytes;
}

/* Send the next frame, and take it off the way. */
static void say(struct sealed *from, int way, struct fuzz_bytes *b) {
    size_t bytes = 1 + fuzz_number(b, 1) % MOST_BODY;
    unsigned char *body = said + n_said;
    for (size_t i = 0; i < bytes; i++) body[i] = (unsigned char)(n_said + i * i);
    MUST(sealed_put(from, body, bytes) == (int64_t)bytes);
    bytes_of[n_frames] = bytes + SEALED_OVER;
    MUST(recv(way, frame[n_frames], bytes_of[n_frames], 0) == (ssize_t)bytes_of[n_frames]);
    n_said += bytes;
    n_frames++;
}

static void act_on(int way, int f, struct fuzz_bytes *b) {
    enum act act = (enum act)(fuzz_number(b, 1) % N_ACTS);
    size_t at = fuzz_number(b, 1), bytes = bytes_of[f], most = 1 + at % MOST_PUT_IN;
    unsigned char other[sizeof frame[0]];
    memcpy(other, frame[f], bytes);
    other[at % bytes] ^= (unsigned char)(at | 1);
    if (act == CHANGE) put(way, other, bytes);
    if (act == CUT) put(way, frame[f], bytes - 1 - at % bytes);
    if (act == PUT_IN) put(way, b->at, most < b->left ? most : b->left);
    if (act == REPLAY && f > 0) put(way, frame[f - 1], bytes_of[f - 1]);
    if (act == PASS || act == PUT_IN) put(way, frame[f], bytes);
}

/* Bytes of the bodies of the frames that came whole and in order. Other pieces may make up a frame by chance: the byte
 * that a cut removes can equal the first byte that follows. */
static size_t right_bytes(void) {
    size_t right = 0, at = 0;
    for (int f = 0; f < n_frames && bytes_of[f] <= n_came - at; at += bytes_of[f++]) {
        if (memcmp(came + at, frame[f], bytes_of[f]) != 0) break;
        right += bytes_of[f] - SEALED_OVER;
    }
    return right;
}

/* The other end must have taken the first `right` bytes that were said. */
static void must_hold(struct sealed *to, size_t right, size_t piece) {
    unsigned char taken[sizeof said];
    size_t n = 0;
    int64_t k;
    while ((k = sealed_take(to, taken + n, piece < sizeof taken - n ? piece : sizeof taken - n)) > 0) n += (size_t)k;
    MUST(n == right && memcmp(taken, said, n) == 0);
    MUST(k == SEALED_ENDED || k == SEALED_FORGED || n == sizeof taken);
}

/* Each input has its own keys. With equal keys libFuzzer, which sees a target's comparisons, puts a frame of an earlier
 * input, with its right tag, into a later input. */
static struct greeting_keys keys_of(const uint8_t *data, size_t size) {
    struct greeting_keys keys = {"", ""};
    XXH64_hash_t mine = XXH3_64bits_withSeed(data, size, 1), theirs = XXH3_64bits_withSeed(data, size, 2);
    memcpy(keys.mine, &mine, sizeof mine);
    memcpy(keys.theirs, &theirs, sizeof theirs);
    return keys;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct greeting_keys keys = keys_of(data, size);
    struct fuzz_bytes b = {data, size};
    struct sealed from, to;
    int near[2], far[2];
    uint8_t how = (uint8_t)fuzz_number(&b, 1);
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, near) == 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, far) == 0);
    MUST(sealed_open(&from, near[0], &keys, true, how & 1) == OK);
    MUST(sealed_open(&to, far[1], &keys, false, how & 1) == OK);
    n_said = 0;
    n_came = 0;
    n_frames = 0;
    while (b.left > 0 && n_frames < MOST_FRAMES) {
        say(&from, near[1], &b);
        act_on(far[0], n_frames - 1, &b);
    }
    close(near[1]), close(far[0]);
    must_hold(&to, right_bytes(), 1 + how / 2);
    sealed_close(&from);
    sealed_close(&to);
    return 0;
}

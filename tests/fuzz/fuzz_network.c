/* parses: lib/base lib/comm/direct/network.c lib/comm/direct/wire.c lib/comm/direct/greeting.c
 *         lib/comm/direct/sealed.c lib/comm/direct/messages.c lib/comm/membership/membership.c */
/* The bytes on a connection to a rank of the direct transport: a greeting, and more. The input is a caller's bytes, or,
 * so that a mutation gets further, changes to the words of a caller that has the secret. What must hold: a caller is
 * let in only with a sound greeting and the secret, for this process and epoch, and as a member that may call; and a
 * caller that is let in can end only its own connection.
 *
 * Sockets of this host (AF_UNIX) instead of TCP: the same calls, faster. */
#define _GNU_SOURCE
#include "lib/comm/direct/greeting.h"
#include "lib/comm/direct/network.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { N = 3, ME = 2, EPOCH = 5, WANTED = 4 };
static const unsigned char secret[GREETING_SECRET] = "this one cannot be guessed";
static const struct membership epoch = {.number = EPOCH, .n = N, .from = -1, .slot = {0, 7, ME}}; /* slot 7 is called */
static const bool far[N] = {true, true, false};
static struct network_address address[8];        /* none listens yet */

/* ---- sockets ---- */
static struct sockaddr_un here;
static socklen_t n_here;

static int listen_here(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    here = (struct sockaddr_un){.sun_family = AF_UNIX};              /* no name: the system finds one */
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&here, sizeof(sa_family_t)) == 0 && listen(fd, 8) == 0);
    n_here = sizeof here;
    MUST(getsockname(fd, (struct sockaddr *)&here, &n_here) == 0);
    return fd;
}

static int call(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(fd >= 0 && connect(fd, (struct sockaddr *)&here, n_here) == 0);
    return fd;
}

static void say(int fd, const void *what, size_t bytes) {
    ssize_t k = send(fd, what, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);  /* the other side may have hung up */
    (void)k;
}

/* Has the other side hung up? Bytes that it sent before are dropped. */
static bool is_over(int fd) {
    char bytes[256];
    ssize_t k;
    do k = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    while (k > 0);
    return k == 0 || errno == ECONNRESET;
}

/* ---- a caller ---- */
/* Change a few bytes of `what`, as the input says. @return whether any byte differs */
static bool change(struct fuzz_bytes *b, void *what, size_t bytes) {
    int n = (int)fuzz_number(b, 1) % 4;
    unsigned char before[128];
    MUST(bytes <= sizeof before);
    memcpy(before, what, bytes);
    for (int i = 0; i < n; i++) {
        size_t at = fuzz_number(b, 1) % bytes;
        ((unsigned char *)what)[at] ^= (unsigned char)fuzz_number(b, 1);
    }
    return memcmp(before, what, bytes) != 0;
}

/* Say hello and proof. @return whether the caller must be let in; then *out is its end of the stream */
static bool greet(struct network *n, int fd, struct fuzz_bytes *b, uint8_t how, struct sealed *out) {
    struct greeting_hello hello = greeting_say_hello(how & 1 ? 0 : (int32_t)(int8_t)fuzz_number(b, 1), ME, EPOCH);
    struct greeting_answer answer;
    struct greeting_proof proof;
    struct greeting_welcome welcome;
    bool sound = greeting_hears(&hello, ME, EPOCH), member = false;
    change(b, &hello, sizeof hello);
    sound = sound && greeting_hears(&hello, ME, EPOCH);
    member = hello.from_slot == 0;
    say(fd, &hello, 11);
    own_network_step(n);
    say(fd, (char *)&hello + 11, sizeof hello - 11);
    own_network_step(n);
    bool answered = recv(fd, &answer, sizeof answer, MSG_DONTWAIT) == (ssize_t)sizeof answer;
    MUST(answered == sound);
    if (!answered) return false;
    bool trusts = greeting_trusts(secret, &hello, &answer, &proof);
    MUST(trusts);
    bool changed = change(b, &proof, sizeof proof);
    say(fd, &proof, sizeof proof);
    own_network_step(n);
    bool in = recv(fd, &welcome, sizeof welcome, MSG_DONTWAIT) == (ssize_t)sizeof welcome &&
              greeting_is_welcome(secret, &hello, &answer, &welcome);
    MUST(in == (member && !changed));
    const struct greeting_keys keys = greeting_keys_of(secret, &hello, &answer);
    MUST(!in || sealed_open(out, fd, &keys, true, false) == OK);
    return in;
}

/* ---- which callers are let in ---- */
/* A caller's messages, or a stranger's bytes on its connection: in every case own_test waits, or ends with a code. */
static void listen_to(struct network *n, struct sealed *its, struct fuzz_bytes *b, bool forged) {
    struct own_wire wire[N] = {own_network_wire(n, 0), own_network_wire(n, 1), {0}};
    struct own_messages *o = own_messages_open(N, ME, wire);
    struct own_message *message[WANTED];
    unsigned char at[WANTED][16];
    bool done;
    MUST(o);
    for (int i = 0; i < WANTED; i++)
        MUST(own_receive(o, (uint64_t)(i % 2), 0, i / 2, at[i], i * 5, &message[i]) == OWN_OK);
    if (forged) say(its->fd, b->at, b->left);
    else sealed_put(its, b->at, b->left);
    MUST(shutdown(its->fd, SHUT_WR) == 0);
    for (int i = 0; i < WANTED; i++) {
        for (int k = 0; k < 100 && message[i]; k++) {
            int code = own_test(o, &message[i], &done);
            MUST(code >= OWN_OK && code <= OWN_OTHER_LENGTH);
            MUST(!forged || code == OWN_OK || code == OWN_ENDED || code == OWN_FORGED);
            MUST(!forged || !done);
        }
        MUST(!message[i]);                                           /* the stream has ended */
    }
    own_messages_close(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int listening = -1;
    if (listening < 0) listening = listen_here();
    struct fuzz_bytes b = {data, size};
    uint8_t how = (uint8_t)fuzz_number(&b, 1);
    struct network *n;
    MUST(own_network_open(&epoch, ME, far, address, secret, false, listening, &n) == OK);
    int fd = call();
    if (how & 2) {
        struct sealed its = {.fd = -1};
        bool in = greet(n, fd, &b, how, &its);
        MUST(in || own_network_shown_out(n) == 1);
        MUST(!in || (own_network_shown_out(n) == 0 && !is_over(fd)));
        if (in) listen_to(n, &its, &b, how & 4);
        if (in) fd = -1, sealed_close(&its);
    } else {                                                         /* a stranger's own bytes */
        say(fd, b.at, b.left);
        for (int k = 0; k < 3; k++) MUST(!own_network_step(n));
        MUST(is_over(fd) || b.left < sizeof(struct greeting_hello) + sizeof(struct greeting_proof));
    }
    if (fd >= 0) close(fd);
    own_network_close(&n);
    return 0;
}

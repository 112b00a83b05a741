/* ranks: 1
 *
 * The cost of a seal: a message over a TCP connection of this host, plain, authenticated and encrypted.
 *
 *   build/example_sealed [ROUNDS]            default: 20
 *
 * One thread sends and receives, so a number is the processor time of both ends for one message, in microseconds. It is
 * the median of ROUNDS rounds, each of which sends all three kinds. */
#include "lib/base/clock.h"
#include "lib/comm/direct/wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PLAIN, AUTHENTICATED, ENCRYPTED, N_KINDS, MOST_ROUNDS = 1000, MIB = 1 << 20 };
struct ends { struct sealed from, to; };

static bool connect_both(int fd[2]) {
    struct network_address at = {INADDR_LOOPBACK, 0};
    struct sockaddr_in to = {.sin_family = AF_INET};
    int listening, yes = 1;
    if (wire_listen(&at, "", &listening) != OK) return false;
    to.sin_port = htons(at.port), to.sin_addr.s_addr = htonl(at.ip);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    bool ok = connect(fd[0], (struct sockaddr *)&to, sizeof to) == 0 && (fd[1] = accept(listening, NULL, NULL)) >= 0;
    for (int i = 0; i < 2 && ok; i++) {
        setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        fcntl(fd[i], F_SETFL, O_NONBLOCK);
    }
    close(listening);
    return ok;
}

static int64_t put(struct ends *e, int kind, const char *at, size_t n) {
    if (kind != PLAIN) return sealed_put(&e->from, at, n);
    ssize_t k = send(e->from.fd, at, n, MSG_NOSIGNAL);
    return k > 0 ? k : 0;
}

static int64_t take(struct ends *e, int kind, char *at, size_t n) {
    if (kind != PLAIN) return sealed_take(&e->to, at, n);
    ssize_t k = recv(e->to.fd, at, n, 0);
    return k > 0 ? k : 0;
}

static void pass(struct ends *e, int kind, const char *from, char *to, size_t bytes) {
    for (size_t sent = 0, got = 0; got < bytes;) {
        if (sent < bytes) sent += (size_t)put(e, kind, from + sent, bytes - sent);
        got += (size_t)take(e, kind, to + got, bytes - got);
    }
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct ends *e, size_t bytes, int n_messages, int n_rounds) {
    static char from[MIB], to[MIB];
    static double us[N_KINDS][MOST_ROUNDS];
    for (int round = 0; round < n_rounds; round++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            double from_s = processor_s();
            for (int i = 0; i < n_messages; i++) pass(&e[kind], kind, from, to, bytes);
            us[kind][round] = 1e6 * (processor_s() - from_s) / n_messages;
        }
    printf("%9zu", bytes);
    for (int kind = 0; kind < N_KINDS; kind++) {
        qsort(us[kind], (size_t)n_rounds, sizeof(double), compare);
        printf(" %14.2f", us[kind][n_rounds / 2]);
    }
    printf("\n");
}

int main(int argc, char **argv) {
    const struct greeting_keys keys = {"one way", "the other way"};
    const int asked = argc > 1 ? atoi(argv[1]) : 20;
    const int n_rounds = asked < 1 ? 1 : asked < MOST_ROUNDS ? asked : MOST_ROUNDS;
    struct ends ends[N_KINDS];
    for (int kind = 0; kind < N_KINDS; kind++) {
        int fd[2];
        if (!connect_both(fd) || sealed_open(&ends[kind].from, fd[0], &keys, true, kind == ENCRYPTED) != OK ||
            sealed_open(&ends[kind].to, fd[1], &keys, false, kind == ENCRYPTED) != OK) {
            status_report();
            return 1;
        }
    }
    printf("%9s %14s %14s %14s   us a message, both ends\n", "bytes", "as it is", "authenticated", "encrypted");
    measure(ends, 64, 200, n_rounds);
    measure(ends, 4096, 100, n_rounds);
    measure(ends, 64 << 10, 20, n_rounds);
    measure(ends, MIB, 2, n_rounds);
    for (int kind = 0; kind < N_KINDS; kind++) sealed_close(&ends[kind].from), sealed_close(&ends[kind].to);
    return 0;
}

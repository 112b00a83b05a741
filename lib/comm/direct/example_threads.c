/* ranks: 1
 *
 * Four ranks of the direct transport as threads of one process, so that ThreadSanitizer can check them.
 *
 *   build/example_threads [ROUNDS [SECONDS]]
 *
 * Ranks are processes, but a sanitizer sees only the threads of one process. Two ranks share only the rings (ring.h)
 * and lent message bodies, and neither depends on processes. So each thread here is a rank with its own messages over
 * shared rings, as in direct.c, and ThreadSanitizer checks every byte that two ranks exchange. It does not check the
 * job's memory (job.h), whose words that change while other ranks read them are all atomic, and it does not check
 * sockets.
 *
 * Round k: each rank sends every rank a few messages of random context, tag and size (a function of k and the pair),
 * and receives theirs, in its own order. Large messages are lent, so a thread reads another's buffer. A buffer is
 * written again as soon as its message is done, so that a late read would be a race. */
#include "lib/base/clock.h"
#include "lib/base/rng.h"
#include "lib/comm/direct/messages.h"
#include "lib/comm/direct/ring.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 4, MESSAGES = 3, SLOTS = 2 * N * MESSAGES, MOST_BYTES = 400 << 10, LENT_BYTES = 2000 };

static struct ring *rings;                   /* [N * N] */
static pthread_barrier_t all;
static int64_t n_rounds = 200;
static double seconds, started_s;
static bool stop;                            /* rank 0 writes it between two barriers */
static atomic_int n_wrong;

/* One of a rank's messages in a round: a send or a receive. */
struct slot { struct own_message *message; unsigned char *at; int64_t bytes; uint64_t salt; bool sending, open; };
struct rank { int me; struct own_messages *messages; struct slot slot[SLOTS]; uint64_t n_drawn; };

static uint32_t draw(uint64_t stream, uint64_t at, uint32_t below) {
    return (uint32_t)(rng_uniform(3, stream, at) * below);
}

static int64_t put(void *out, const void *from, size_t n) { return (int64_t)ring_put(out, from, n); }
static int64_t take(void *in, void *to, size_t n) { return (int64_t)ring_take(in, to, n); }
static bool lend(void *out, const void *body, size_t n) { return (void)out, (void)body, n >= LENT_BYTES; }
static bool fetch(void *in, void *to, uint64_t from, size_t n) {
    (void)in;
    memcpy(to, (const void *)(uintptr_t)from, n);
    return true;
}

static void check(bool good) {
    if (!good) atomic_fetch_add(&n_wrong, 1);
}

/* ---- message i of a round, from one rank to another ---- */
static uint64_t number_of(int64_t round, int from, int to, int i) {
    return ((uint64_t)round * MESSAGES + (uint64_t)i) * N * N + (uint64_t)(from * N + to);
}
static int64_t bytes_of(uint64_t number) {
    return draw(1, number, 20) ? draw(2, number, 3000) : draw(2, number, MOST_BYTES);
}
static unsigned char byte_of(uint64_t salt, int64_t i) { return (unsigned char)(salt * 31 + (uint64_t)i * 7); }

/* Start the send or receive of message i. Each message of a pair has its own tag, so no order is tested here. */
static void start(struct rank *r, struct slot *s, int64_t round, int peer, int i) {
    const uint64_t number = number_of(round, s->sending ? r->me : peer, s->sending ? peer : r->me, i);
    const uint64_t context = 1 + draw(4, number, 3);
    s->bytes = bytes_of(number);
    s->salt = number;
    s->open = true;
    for (int64_t k = 0; k < s->bytes; k++) s->at[k] = s->sending ? byte_of(number, k) : 0;
    check((s->sending ? own_send(r->messages, context, peer, i, s->at, s->bytes, &s->message)
                      : own_receive(r->messages, context, peer, i, s->at, s->bytes, &s->message)) == OWN_OK);
}

static void look(struct rank *r, struct slot *s) {
    bool done;
    if (!s->open) return;
    check(own_test(r->messages, &s->message, &done) == OWN_OK);
    if (!done) return;
    for (int64_t k = 0; k < s->bytes && !s->sending; k++) check(s->at[k] == byte_of(s->salt, k));
    for (int64_t k = 0; k < s->bytes; k++) s->at[k] = 255;
    s->open = false;
}

/* Start all slots, from a random one on, and test a random slot after each start. Then wait for all. */
static void do_round(struct rank *r, int64_t round) {
    int first = (int)draw(10 + (uint64_t)r->me, r->n_drawn++, SLOTS), left = 1;
    for (int k = 0; k < SLOTS; k++) {
        int j = (first + 5 * k) % SLOTS, peer = j / MESSAGES % N;        /* 5 and SLOTS have no common divisor */
        r->slot[j].sending = j >= N * MESSAGES;
        start(r, &r->slot[j], round, peer, j % MESSAGES);
        look(r, &r->slot[draw(10 + (uint64_t)r->me, r->n_drawn++, SLOTS)]);
    }
    for (; left; sched_yield()) {
        left = 0;
        for (int j = 0; j < SLOTS; j++) {
            look(r, &r->slot[j]);
            left += r->slot[j].open;
        }
    }
}

static void *live(void *self) {
    struct rank *r = self;
    struct own_wire wire[N];
    for (int q = 0; q < N; q++)
        wire[q] = (struct own_wire){&rings[r->me * N + q], &rings[q * N + r->me], put, take, lend, fetch};
    r->messages = own_messages_open(N, r->me, wire);
    for (int j = 0; j < SLOTS; j++) r->slot[j].at = malloc(MOST_BYTES);
    for (int64_t round = 0;;) {
        do_round(r, round++);
        if (round % 16) continue;
        pthread_barrier_wait(&all);
        if (r->me == 0) stop = round >= n_rounds || (seconds > 0 && clock_s() > started_s + seconds);
        pthread_barrier_wait(&all);
        if (stop) break;
    }
    check(own_unreceived(r->messages) == 0);
    own_messages_close(&r->messages);
    for (int j = 0; j < SLOTS; j++) free(r->slot[j].at);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread[N];
    static struct rank rank[N];
    if (argc > 1) n_rounds = strtoll(argv[1], NULL, 10);
    if (argc > 2) seconds = strtod(argv[2], NULL);
    started_s = clock_s();
    rings = aligned_alloc(64, N * N * sizeof *rings);
    memset(rings, 0, N * N * sizeof *rings);
    pthread_barrier_init(&all, NULL, N);
    for (int r = 0; r < N; r++) {
        rank[r].me = r;
        pthread_create(&thread[r], NULL, live, &rank[r]);
    }
    for (int r = 0; r < N; r++) pthread_join(thread[r], NULL);
    free(rings);
    printf("%d ranks, %.1f s, %d wrong\n", N, clock_s() - started_s, (int)n_wrong);
    return n_wrong ? 1 : 0;
}

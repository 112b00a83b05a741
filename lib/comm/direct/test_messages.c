/* ranks: 1  device: cpu */
/* Messages of several ranks in one process, over rings that move random numbers of bytes at a time. */
#include "lib/base/rng.h"
#include "lib/comm/direct/message.h"
#include "lib/comm/direct/messages.h"
#include "lib/comm/direct/ring.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

enum { N = 3, CONTEXTS = 3, TAGS = 2, MOST = 400 };

static uint64_t drawn;
static uint32_t draw(uint32_t below) { return (uint32_t)(rng_uniform(7, 0, drawn++) * below); }

/* ---- a world: every ordered pair has a ring; some streams end, or carry invalid bytes ---- */
struct world {
    struct ring *ring;                       /* [N * N] */
    struct own_wire wire[N][N];
    struct own_messages *of[N];
    bool whole;                              /* wires move as many bytes as possible */
};
static struct world *world_now;

static int64_t wire_put(void *out, const void *from, size_t n) {
    return (int64_t)ring_put(out, from, world_now->whole ? n : draw((uint32_t)(n < 5000 ? n : 5000) + 1));
}
static int64_t wire_take(void *in, void *to, size_t n) {
    return (int64_t)ring_take(in, to, world_now->whole ? n : draw((uint32_t)(n < 5000 ? n : 5000) + 1));
}
static bool lends;                           /* large bodies are lent */
static bool wire_lend(void *out, const void *body, size_t n) { return (void)out, (void)body, lends && n >= 500; }
static bool wire_fetch(void *in, void *to, uint64_t from, size_t n) {
    (void)in;
    memcpy(to, (const void *)(uintptr_t)from, n);
    return true;
}
static bool wire_fetch_fails(void *in, void *to, uint64_t from, size_t n) {
    return (void)in, (void)to, (void)from, (void)n, false;
}
static int64_t wire_ended(void *in, void *to, size_t n) { return (void)in, (void)to, (void)n, -1; }

static void world_open(struct world *w, bool whole) {
    *w = (struct world){.ring = aligned_alloc(64, N * N * sizeof(struct ring)), .whole = whole};
    memset(w->ring, 0, N * N * sizeof(struct ring));
    world_now = w;
    for (int r = 0; r < N; r++) {
        for (int q = 0; q < N; q++)
            w->wire[r][q] = (struct own_wire){&w->ring[r * N + q], &w->ring[q * N + r], wire_put, wire_take, wire_lend,
                                              wire_fetch};
        w->of[r] = own_messages_open(N, r, w->wire[r]);
    }
}
static void world_close(struct world *w) {
    for (int r = 0; r < N; r++) own_messages_close(&w->of[r]);
    free(w->ring);
}
static void push_all(struct world *w) {
    for (int r = 0; r < N; r++) own_push(w->of[r]);
}

/* ---- random traffic ---- */
struct traffic {
    int from, to, context, tag;
    int64_t bytes;
    unsigned char *sent, *got;
    struct own_message *send, *receive;
    bool send_started, receive_started, send_done, receive_done;
};

static void make(struct traffic *m, int k) {
    *m = (struct traffic){.from = (int)draw(N), .to = (int)draw(N), .context = (int)draw(CONTEXTS),
                          .tag = (int)draw(TAGS)};
    m->bytes = draw(4) == 0 ? 0 : draw(draw(10) == 0 ? 700000 : 3000);
    m->sent = malloc((size_t)m->bytes + 1);
    m->got = calloc(1, (size_t)m->bytes + 1);
    for (int64_t i = 0; i < m->bytes; i++) m->sent[i] = (unsigned char)(k * 31 + i * 7 + i / 251);
}

static bool same_lane(const struct traffic *a, const struct traffic *b) {
    return a->from == b->from && a->to == b->to && a->context == b->context && a->tag == b->tag;
}

/* The first message of message k's lane that has not started. It is the next one to start. */
static int turn(const struct traffic *m, int k, bool receiving) {
    for (int j = 0; j < k; j++)
        if (same_lane(&m[j], &m[k]) && !(receiving ? m[j].receive_started : m[j].send_started)) return j;
    return k;
}

static void start(struct world *w, struct traffic *m, int k, bool receiving) {
    struct traffic *x = &m[turn(m, k, receiving)];
    bool *started = receiving ? &x->receive_started : &x->send_started;
    if (*started) return;
    *started = true;
    uint64_t context = (uint64_t)x->context;
    if (receiving)
        assert_int_equal(own_receive(w->of[x->to], context, x->from, x->tag, x->got, x->bytes, &x->receive), OWN_OK);
    else assert_int_equal(own_send(w->of[x->from], context, x->to, x->tag, x->sent, x->bytes, &x->send), OWN_OK);
}

static void look(struct world *w, struct traffic *x) {
    if (x->send_started && !x->send_done)
        assert_int_equal(own_test(w->of[x->from], &x->send, &x->send_done), OWN_OK);
    if (x->receive_started && !x->receive_done)
        assert_int_equal(own_test(w->of[x->to], &x->receive, &x->receive_done), OWN_OK);
}

static void run_traffic(bool whole) {
    struct world w;
    static struct traffic m[MOST];
    world_open(&w, whole);
    for (int k = 0; k < MOST; k++) make(&m[k], k);
    for (int i = 0; i < 20 * MOST; i++) {
        int k = (int)draw(MOST);
        if (draw(2)) start(&w, m, k, draw(2));
        else look(&w, &m[draw(MOST)]);
    }
    for (int k = 0; k < MOST; k++) {
        start(&w, m, k, false);
        start(&w, m, k, true);
    }
    for (int left = 1, turns = 0; left && turns < 100000; turns++) {
        left = 0;
        for (int k = 0; k < MOST; k++) {
            look(&w, &m[k]);
            left += !m[k].send_done || !m[k].receive_done;
        }
        if (turns == 99999) assert_int_equal(left, 0);
    }
    for (int k = 0; k < MOST; k++) {
        assert_memory_equal(m[k].got, m[k].sent, (size_t)m[k].bytes);
        free(m[k].got);
        free(m[k].sent);
    }
    for (int r = 0; r < N; r++) assert_int_equal(own_unreceived(w.of[r]), 0);
    world_close(&w);
}

TEST(test_whatever_order_they_come_in) {
    for (int i = 0; i < 6; i++) {
        lends = i % 2;
        run_traffic(i < 2);
    }
    lends = false;
}

/* A message of another context that was sent first, and is larger than the ring, does not block a later message. */
TEST(test_one_context_does_not_block_another) {
    struct world w;
    static char large[4 * RING_BYTES], got[4 * RING_BYTES];
    struct own_message *a, *b, *c;
    char x = 7, y = 0;
    bool done = false;
    world_open(&w, true);
    memset(large, 3, sizeof large);
    assert_int_equal(own_send(w.of[0], 1, 1, 0, large, sizeof large, &a), OWN_OK);
    assert_int_equal(own_send(w.of[0], 2, 1, 0, &x, 1, &b), OWN_OK);
    assert_int_equal(own_receive(w.of[1], 2, 0, 0, &y, 1, &c), OWN_OK);
    for (int i = 0; i < 100 && !done; i++) {
        push_all(&w);
        assert_int_equal(own_test(w.of[1], &c, &done), OWN_OK);
    }
    assert_true(done && y == 7);
    assert_int_equal(own_unreceived(w.of[1]), sizeof large);
    assert_int_equal(own_receive(w.of[1], 1, 0, 0, got, sizeof got, &c), OWN_OK);
    assert_int_equal(own_test(w.of[1], &c, &done), OWN_OK);
    assert_true(done && memcmp(got, large, sizeof got) == 0);
    bool sent[2];
    assert_true(own_test(w.of[0], &a, &sent[0]) == OWN_OK && own_test(w.of[0], &b, &sent[1]) == OWN_OK);
    assert_true(sent[0] && sent[1]);
    world_close(&w);
}

/* ---- lent bodies ---- */
/* A lent body takes no memory of the receiver. It is copied when its receive starts; its send is not done before. */
TEST(test_what_is_lent_is_copied_once) {
    static char a[8 << 20], b[1000], got_a[8 << 20], got_b[1000];
    struct own_message *send_a, *send_b, *receive;
    struct world w;
    bool done;
    lends = true;
    world_open(&w, true);
    memset(a, 1, sizeof a), memset(b, 3, sizeof b);
    own_send(w.of[0], 1, 1, 0, a, sizeof a, &send_a);                /* two messages of one tag, in two contexts */
    own_send(w.of[0], 2, 1, 0, b, sizeof b, &send_b);
    for (int i = 0; i < 3; i++) push_all(&w);
    assert_int_equal(own_unreceived(w.of[1]), sizeof a + sizeof b);
    assert_true(own_test(w.of[0], &send_a, &done) == OWN_OK && !done);
    memset(a, 2, sizeof a);                                          /* a has not been read yet */
    own_receive(w.of[1], 2, 0, 0, got_b, sizeof got_b, &receive);    /* receive the second message first */
    assert_true(own_test(w.of[1], &receive, &done) == OWN_OK && done && memcmp(got_b, b, sizeof b) == 0);
    assert_true(own_test(w.of[0], &send_a, &done) == OWN_OK && !done);
    assert_true(own_test(w.of[0], &send_b, &done) == OWN_OK && done);
    own_receive(w.of[1], 1, 0, 0, got_a, sizeof got_a, &receive);
    assert_true(own_test(w.of[1], &receive, &done) == OWN_OK && done && memcmp(got_a, a, sizeof a) == 0);
    assert_true(own_test(w.of[0], &send_a, &done) == OWN_OK && done);
    assert_int_equal(own_unreceived(w.of[1]), 0);
    own_send(w.of[0], 1, 1, 0, a, sizeof a, &send_a);                /* closing does not wait for a message without a
                                                                        receive */
    push_all(&w);
    world_close(&w);
    lends = false;
}

/* In each case all messages of the peer fail: its body cannot be read (0), or has another length and comes before (1)
 * or after (2) the receive; a note names no lent body (3); a body is lent without a fetch (4). */
TEST(test_what_is_lent_and_is_not_there) {
    static char body[1000], got[1000];
    static const int codes[] = {OWN_ENDED, OWN_OTHER_LENGTH, OWN_OTHER_LENGTH, OWN_NO_MESSAGE, OWN_NO_MESSAGE};
    const struct { uint64_t context; int64_t bytes; uint64_t at; int32_t tag; uint32_t magic; } note = {0, 0, 0, 0,
                                                                                                     0x74727672};
    for (int way = 0; way < 5; way++) {
        struct world w;
        struct own_message *send, *receive;
        bool done;
        lends = true;
        world_open(&w, true);
        struct own_wire wire[N];
        memcpy(wire, w.wire[0], sizeof wire);
        if (way == 0) wire[1].fetch = wire_fetch_fails;
        if (way == 4) wire[1].fetch = NULL;
        own_messages_close(&w.of[0]);
        w.of[0] = own_messages_open(N, 0, wire);
        if (way == 3) ring_put(&w.ring[1 * N + 0], &note, sizeof note);
        else own_send(w.of[1], 0, 0, 0, body, sizeof body, &send);
        if (way == 1) own_push(w.of[0]);
        own_receive(w.of[0], 0, 1, 0, got, way == 1 || way == 2 ? 999 : 1000, &receive);
        own_push(w.of[0]);
        assert_int_equal(own_test(w.of[0], &receive, &done), codes[way]);
        own_receive(w.of[0], 0, 1, 0, got, 1000, &receive);
        assert_int_equal(own_test(w.of[0], &receive, &done), codes[way]);
        world_close(&w);
    }
    lends = false;
}

/* ---- failures ---- */
/* When a peer's stream ends, its messages in flight and all its later messages fail; other peers' messages do not. */
TEST(test_an_ended_peer_fails_alone) {
    struct world w;
    struct own_message *from_1, *to_1, *late, *from_2, *to_0;
    char x = 1, y = 0, z = 0;
    bool done;
    world_open(&w, true);
    struct own_wire wire[N];
    memcpy(wire, w.wire[0], sizeof wire);
    wire[1].take = wire_ended;
    own_messages_close(&w.of[0]);
    w.of[0] = own_messages_open(N, 0, wire);
    own_receive(w.of[0], 0, 1, 0, &y, 1, &from_1);
    own_receive(w.of[0], 0, 2, 0, &z, 1, &from_2);
    own_push(w.of[0]);
    assert_int_equal(own_test(w.of[0], &from_1, &done), OWN_ENDED);
    assert_true(!done && !from_1);
    assert_int_equal(own_send(w.of[0], 0, 1, 0, &x, 1, &to_1), OWN_OK);
    assert_int_equal(own_test(w.of[0], &to_1, &done), OWN_ENDED);
    assert_int_equal(own_receive(w.of[0], 0, 1, 0, &y, 1, &late), OWN_OK);
    assert_int_equal(own_test(w.of[0], &late, &done), OWN_ENDED);
    own_send(w.of[2], 0, 0, 0, &x, 1, &to_0);
    assert_int_equal(own_test(w.of[0], &from_2, &done), OWN_OK);
    assert_true(done && z == 1);
    assert_int_equal(own_test(w.of[2], &to_0, &done), OWN_OK);
    world_close(&w);
}

/* Invalid bytes, or a body of another length than the receive: the receive fails, without a write beyond its buffer. */
TEST(test_what_is_no_message) {
    char wanted[8] = "", sent[16] = "0123456789abcde";
    const int64_t nonsense[] = {0, 8, 0, 0, 0x6f6e};                  /* a header with a wrong last word, and a body */
    struct own_message *a, *b;
    bool done;
    for (int way = 0; way < 4; way++) {
        struct world w;
        world_open(&w, true);
        if (way == 0) ring_put(&w.ring[1 * N + 0], nonsense, sizeof nonsense);
        else own_send(w.of[1], 0, 0, 0, sent, way == 1 ? 4 : 16, &b);
        if (way == 3) own_push(w.of[0]);
        own_receive(w.of[0], 0, 1, 0, wanted, 8, &a);
        own_push(w.of[0]);
        assert_int_equal(own_test(w.of[0], &a, &done), way == 0 ? OWN_NO_MESSAGE : OWN_OTHER_LENGTH);
        if (way) own_test(w.of[1], &b, &done);
        world_close(&w);
    }
    assert_string_equal(own_code_text(OWN_ENDED), "the peer has ended");
}

/* If a header announces a terabyte, memory is taken only for bytes that come. The peer's other messages continue. */
TEST(test_memory_is_not_taken_at_a_headers_word) {
    const struct { uint64_t context; int64_t bytes; uint64_t at; int32_t tag; uint32_t magic; } header = {
        5, (int64_t)1 << 40, 0, 0, 0x7472766d};
    struct world w;
    struct own_message *a, *b;
    char x = 1, y = 0;
    bool done;
    world_open(&w, true);
    own_send(w.of[1], 0, 0, 0, &x, 1, &b);
    own_receive(w.of[0], 0, 1, 0, &y, 1, &a);
    own_push(w.of[0]);
    ring_put(&w.ring[1 * N + 0], &header, sizeof header);
    ring_put(&w.ring[1 * N + 0], "a few bytes", 11);
    own_push(w.of[0]);
    assert_true(own_test(w.of[0], &a, &done) == OWN_OK && done && y == 1);
    assert_int_equal(own_unreceived(w.of[0]), (int64_t)1 << 40);
    own_receive(w.of[0], 0, 1, 0, &y, 1, &a);                        /* this receive waits, and has not failed */
    assert_true(own_test(w.of[0], &a, &done) == OWN_OK && !done);
    assert_true(own_test(w.of[1], &b, &done) == OWN_OK && done);
    world_close(&w);
    assert_string_equal(own_code_text(77), "unknown failure");
}

/* ---- mail ---- */
TEST(test_mail_is_beside_messages) {
    struct world w;
    static char large[2 * RING_BYTES];
    struct own_message *a, *b;
    char text[OWN_MAIL_BYTES];
    int from;
    bool done = false;
    world_open(&w, true);
    own_send(w.of[0], 0, 1, 0, large, sizeof large, &a);             /* fills the stream */
    for (int i = 0; i < 3; i++) own_mail_send(w.of[0], 1, 0, (char[]){(char)('a' + i)}, 1);
    own_mail_send(w.of[0], 1, 1, "x", 1);
    own_mail_send(w.of[2], 1, 0, "z", 1);
    assert_true(own_mail_receive(w.of[1], &from, text, 1) && from == 2 && text[0] == 'z');
    own_receive(w.of[1], 0, 0, 0, large, sizeof large, &b);
    for (int i = 0; i < 10; i++) push_all(&w);
    assert_true(own_mail_receive(w.of[1], &from, text, 1) && from == 0 && text[0] == 'a');   /* the first of its slot */
    assert_true(own_mail_receive(w.of[1], &from, text, 1) && text[0] == 'x');
    assert_false(own_mail_receive(w.of[1], &from, text, 1));
    own_mail_send(w.of[0], 1, 0, "d", 1);                            /* the slot is free, as its mail has left */
    assert_true(own_mail_receive(w.of[1], &from, text, 1) && text[0] == 'd');
    for (int i = 0; i < 100; i++) {                                  /* without a reader, the newest 64 are kept */
        own_mail_send(w.of[0], 1, 0, (char[]){(char)i}, 1);
        push_all(&w);
    }
    assert_true(own_mail_receive(w.of[1], &from, text, 1) && text[0] == 100 - 64);
    for (int i = 0; i < 100; i++) {
        own_mail_send(w.of[0], 1, 0, i < 99 ? "longer" : "z", i < 99 ? 6 : 1);
        push_all(&w);
    }
    for (int i = 0; i < 64; i++) assert_true(own_mail_receive(w.of[1], &from, text, 6));
    assert_memory_equal(text, "z\0\0\0\0\0", 6);                    /* and no byte of an earlier mail */
    assert_true(own_test(w.of[0], &a, &done) == OWN_OK && done && own_test(w.of[1], &b, &done) == OWN_OK && done);
    world_close(&w);
}

/* A ring whose memory was freed between the reads of its counters: one counter has its old value, the other is 0. */
TEST(test_a_ring_that_is_given_back) {
    struct ring *r = aligned_alloc(64, sizeof *r);
    char byte = 0;
    memset(r, 0, sizeof *r);
    atomic_store(&r->tail, 5);
    assert_int_equal(ring_take(r, &byte, 1), 0);
    atomic_store(&r->tail, 0);
    atomic_store(&r->head, 2 * RING_BYTES);
    assert_int_equal(ring_put(r, &byte, 1), 0);
    assert_int_equal(ring_take(r, &byte, 1), 0);
    free(r);
}

/* ---- a peer that ends in the middle of a message that has no receive yet ---- */
enum { LONG_BODY = 8 << 20, CAME = 1000 };
static char came[sizeof(struct header) + CAME];
static size_t n_taken;
static int64_t take_what_came(void *in, void *to, size_t n) {
    static bool paused;
    size_t left = sizeof came - n_taken;
    (void)in;
    if (left == 0 && !paused) return paused = true, 0;
    if (left == 0) return -1;
    if (n > left) n = left;
    memcpy(to, came + n_taken, n);
    n_taken += n;
    return (int64_t)n;
}
static int64_t put_all(void *out, const void *from, size_t n) { return (void)out, (void)from, (int64_t)n; }

TEST(test_a_peer_ends_within_an_early_message) {
    const struct header header = {7, LONG_BODY, 0, 5, MAGIC};
    const struct own_wire wire[2] = {{0}, {NULL, NULL, put_all, take_what_came, NULL, NULL}};
    struct own_messages *o = own_messages_open(2, 0, wire);
    struct own_message *m;
    bool done = false;
    char *body = calloc(1, LONG_BODY);
    memcpy(came, &header, sizeof header);
    memset(came + sizeof header, 'x', CAME);
    for (int i = 0; i < 3; i++) own_push(o);                         /* take returns the bytes, then 0, then the end */
    assert_int_equal(own_receive(o, 7, 1, 5, body, LONG_BODY, &m), OWN_OK);
    assert_int_equal(own_test(o, &m, &done), OWN_ENDED);
    assert_true(body[CAME - 1] == 'x' && body[CAME] == 0);
    own_messages_close(&o);
    free(body);
}

TESTS(unit_test(test_whatever_order_they_come_in), unit_test(test_one_context_does_not_block_another),
      unit_test(test_what_is_lent_is_copied_once), unit_test(test_what_is_lent_and_is_not_there),
      unit_test(test_an_ended_peer_fails_alone), unit_test(test_what_is_no_message),
      unit_test(test_memory_is_not_taken_at_a_headers_word), unit_test(test_a_peer_ends_within_an_early_message),
      unit_test(test_a_ring_that_is_given_back), unit_test(test_mail_is_beside_messages))

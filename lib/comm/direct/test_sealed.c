/* ranks: 1  device: cpu */
/* Sealed streams deliver exactly the bytes that the peer sent, and reject changed frames. The test stands between the
 * two ends: it reads frames from one pair of sockets, and writes these or other bytes to the other pair. */
#define _GNU_SOURCE /* memmem */
#include "lib/base/clock.h"
#include "lib/comm/direct/sealed.h"
#include "lib/comm/direct/wire.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_FRAMES = 8, BODY = 100, FRAME = BODY + SEALED_OVER };
struct way {
    struct sealed from, to;
    int near, far;                           /* the test's ends: near reads from `from`, far writes to `to` */
    unsigned char frame[MOST_FRAMES][FRAME];
};

static void pair_of(int fd[2]) { assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0); }

static void open_way(struct way *w, bool encrypts) {
    const struct greeting_keys keys = {"what the caller says", "what it hears"};
    int near[2], far[2];
    pair_of(near);
    pair_of(far);
    assert_ok(sealed_open(&w->from, near[0], &keys, true, encrypts));
    assert_ok(sealed_open(&w->to, far[1], &keys, false, encrypts));
    w->near = near[1];
    w->far = far[0];
}

static void close_way(struct way *w) {
    sealed_close(&w->from);
    sealed_close(&w->to);
    close(w->near), close(w->far);
}

static unsigned char body_byte(int frame, int i) { return (unsigned char)(31 * frame + 7 * i); }

/* Send n frames, and take them from the stream into w->frame. */
static void say(struct way *w, int n) {
    for (int f = 0; f < n; f++) {
        unsigned char body[BODY];
        for (int i = 0; i < BODY; i++) body[i] = body_byte(f, i);
        assert_int_equal(sealed_put(&w->from, body, BODY), BODY);
        assert_int_equal(recv(w->near, w->frame[f], FRAME, MSG_WAITALL), FRAME);
    }
}

static void pass(struct way *w, const void *frame, size_t bytes) {
    assert_int_equal(send(w->far, frame, bytes, 0), bytes);
}

/* Frame f must arrive unchanged. */
static void arrives(struct way *w, int f) {
    unsigned char body[BODY];
    assert_int_equal(sealed_take(&w->to, body, BODY), BODY);
    for (int i = 0; i < BODY; i++) assert_int_equal(body[i], body_byte(f, i));
}

static void is_forged(struct way *w) {
    unsigned char body[BODY] = {0}, none[BODY] = {0};
    assert_int_equal(sealed_take(&w->to, body, BODY), SEALED_FORGED);
    assert_memory_equal(body, none, BODY);
    assert_int_equal(sealed_take(&w->to, body, BODY), SEALED_FORGED);        /* the stream stays forged, */
    assert_int_equal(sealed_put(&w->to, body, BODY), SEALED_FORGED);         /* in both directions */
    assert_string_equal(sealed_why(&w->to), "what it sent was changed on its way");
}

TEST(test_what_is_said_arrives) {
    for (int encrypts = 0; encrypts < 2; encrypts++) {
        struct way w;
        open_way(&w, encrypts);
        say(&w, 4);
        for (int f = 0; f < 4; f++) pass(&w, w.frame[f], FRAME);
        for (int f = 0; f < 4; f++) arrives(&w, f);
        unsigned char byte;
        assert_int_equal(sealed_take(&w.to, &byte, 1), 0);
        const unsigned char body[] = {body_byte(1, 0), body_byte(1, 1), body_byte(1, 2), body_byte(1, 3)};
        bool readable = memmem(w.frame[1], FRAME, body, sizeof body);
        assert_true(readable == !encrypts);
        close(w.far);
        w.far = -1;
        assert_int_equal(sealed_take(&w.to, &byte, 1), SEALED_ENDED);
        close_way(&w);
    }
}

/* A change of any byte of a frame, in its length, body or tag, is found. */
TEST(test_a_changed_frame_is_none) {
    for (int i = 0; i < 2 * FRAME; i++) {
        struct way w;
        open_way(&w, i % 2);
        say(&w, 2);
        pass(&w, w.frame[0], FRAME);
        w.frame[1][i / 2] ^= (unsigned char)(1 << i % 7);
        pass(&w, w.frame[1], FRAME);
        char more[SEALED_FRAME] = "";                                /* enough bytes if the length was increased */
        pass(&w, more, sizeof more);
        arrives(&w, 0);
        is_forged(&w);
        close_way(&w);
    }
}

TEST(test_a_frame_counts_once_and_in_its_place) {
    const int orders[][3] = {{0, 0, 1}, {0, 2, 1}, {1, 0, 2}, {0, 1, 1}, {0, 1, 3}};   /* replayed, swapped, left out */
    const int right[] = {1, 1, 0, 2, 2};                             /* the number of frames that arrive */
    for (int k = 0; k < 5; k++) {
        struct way w;
        open_way(&w, k % 2);
        say(&w, 4);
        for (int f = 0; f < 3; f++) pass(&w, w.frame[orders[k][f]], FRAME);
        for (int f = 0; f < right[k]; f++) arrives(&w, f);
        is_forged(&w);
        close_way(&w);
    }
}

/* If a connection ends within a frame, the frames before it arrive, and then the stream ends. */
TEST(test_a_frame_that_is_cut_off_is_an_end) {
    for (int bytes = 0; bytes < FRAME; bytes++) {
        unsigned char body[BODY];
        struct way w;
        open_way(&w, false);
        say(&w, 2);
        pass(&w, w.frame[0], FRAME);
        if (bytes) pass(&w, w.frame[1], (size_t)bytes);
        arrives(&w, 0);
        assert_int_equal(sealed_take(&w.to, body, BODY), 0);
        close(w.far);
        w.far = -1;
        assert_int_equal(sealed_take(&w.to, body, BODY), SEALED_ENDED);
        close_way(&w);
    }
}

/* A frame of another connection, or of the other direction, is rejected. */
TEST(test_a_frame_of_another_stream_is_none) {
    struct way w, other;
    open_way(&w, false);
    open_way(&other, false);
    say(&w, 1);
    const struct greeting_keys keys = {"of another connection", "of its other side"};
    other.to.key = keys;
    pass(&other, w.frame[0], FRAME);
    is_forged(&other);
    close_way(&other);
    unsigned char back[FRAME], body[BODY] = {1};                     /* a frame that is sent back to its sender */
    assert_int_equal(sealed_put(&w.to, body, BODY), BODY);
    assert_int_equal(recv(w.far, back, FRAME, MSG_WAITALL), FRAME);
    pass(&w, back, FRAME);
    is_forged(&w);
    close_way(&w);
}

/* Each connection and each direction has its own key, and no key equals a code of the greeting. */
TEST(test_keys_are_of_one_connection_and_direction) {
    unsigned char secret[GREETING_SECRET], other[GREETING_SECRET];
    assert_true(greeting_secret(secret) && greeting_secret(other));
    const struct greeting_hello hello = greeting_say_hello(1, 2, 7), next = greeting_say_hello(1, 2, 7);
    const struct greeting_answer answer = greeting_answer_it(secret, &hello);
    const struct greeting_answer again = greeting_answer_it(secret, &hello);
    const struct greeting_keys k[] = {
        greeting_keys_of(secret, &hello, &answer), greeting_keys_of(secret, &next, &answer),
        greeting_keys_of(secret, &hello, &again), greeting_keys_of(other, &hello, &answer)};
    struct greeting_proof proof;
    assert_true(greeting_trusts(secret, &hello, &answer, &proof));
    const struct greeting_welcome welcome = greeting_welcome_it(secret, &hello, &answer);
    const unsigned char *all[] = {k[0].mine, k[0].theirs, k[1].mine, k[1].theirs, k[2].mine, k[2].theirs, k[3].mine,
                                  k[3].theirs, answer.code, proof.code, welcome.code};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(all[i], all[j], GREETING_KEY);
    const struct greeting_keys same = greeting_keys_of(secret, &hello, &answer);
    assert_memory_equal(&same, &k[0], sizeof same);
}

/* More bytes than a socket takes at once are sent in several calls, and taken in pieces of other sizes. */
TEST(test_a_long_stream) {
    enum { BYTES = 3 << 20 };
    unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
    for (int encrypts = 0; encrypts < 2; encrypts++) {
        const struct greeting_keys keys = {"a", "b"};
        struct sealed from, to;
        int fd[2];
        size_t sent = 0, got = 0;
        pair_of(fd);
        assert_ok(sealed_open(&from, fd[0], &keys, true, encrypts));
        assert_ok(sealed_open(&to, fd[1], &keys, false, encrypts));
        for (int i = 0; i < BYTES; i++) out[i] = (unsigned char)(i * 2654435761u >> 24);
        memset(in, 0, BYTES);
        while (got < BYTES) {
            int64_t k = sealed_put(&from, out + sent, BYTES - sent);
            assert_true(k >= 0);
            sent += (size_t)k;
            const size_t left = BYTES - got, piece = left % 70001 + 1;
            k = sealed_take(&to, in + got, piece < left ? piece : left);
            assert_true(k >= 0);
            got += (size_t)k;
        }
        assert_true(sent == BYTES && memcmp(in, out, BYTES) == 0);
        sealed_close(&from);
        sealed_close(&to);
    }
    free(out);
    free(in);
}

/* A door and its callers: which caller is rejected when places are short, and does each have time for its proof? All
 * are in one process, because no function blocks. test_network.c tests the messages of callers and members. */

enum { MOST_CALLERS = 600 };
static struct wire_door door;
static struct network_address at;
static unsigned char secret[GREETING_SECRET];
static int idle[MOST_CALLERS], n_idle;

static void open_door(void) {
    int listening;
    at = (struct network_address){INADDR_LOOPBACK, 0};
    assert_true(greeting_secret(secret));
    assert_ok(wire_listen(&at, "", &listening));
    wire_door_open(&door, listening, secret, 7, 0);
    n_idle = 0;
}

static void close_door(void) {
    wire_door_close(&door);
    close(door.listening);
    for (int i = 0; i < n_idle; i++) close(idle[i]);
}

static int call_from(uint32_t ip) {
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(ip)}};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(at.port), .sin_addr = {htonl(at.ip)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void call_and_say_nothing(int n, uint32_t ip) {
    while (n-- > 0) idle[n_idle++] = call_from(ip);
}

static bool is_shown_out(int fd) {
    char byte;
    ssize_t k = recv(fd, &byte, 1, MSG_DONTWAIT);
    return k == 0 || (k < 0 && errno == ECONNRESET);
}

static int n_shown_out(int from, int n) {
    int out = 0;
    for (int i = from; i < from + n; i++) out += is_shown_out(idle[i]);
    return out;
}

/* Step the door for so long that all calls are accepted, even after pauses. */
static void step_for(double seconds) {
    for (double until_s = clock_s() + seconds; clock_s() < until_s; usleep(1000)) {
        wire_door_hear(&door);
        wire_door_take_calls(&door);
    }
}

TEST(test_one_address_has_half_of_the_places) {
    open_door();
    call_and_say_nothing(1, 0x7f000006);
    call_and_say_nothing(500, 0x7f000005);
    step_for(0.5);
    assert_int_equal(n_shown_out(0, 1), 0);                          /* the oldest caller has another address */
    assert_int_equal(n_shown_out(1, 500), 500 - WIRE_OF_ONE_ADDRESS);
    assert_int_equal(n_shown_out(1, 500 - WIRE_OF_ONE_ADDRESS), 500 - WIRE_OF_ONE_ADDRESS);  /* the oldest go */
    assert_int_equal(door.shown_out, 500 - WIRE_OF_ONE_ADDRESS);
    close_door();
}

TEST(test_the_oldest_of_all_goes_where_all_places_are_taken) {
    open_door();
    call_and_say_nothing(WIRE_OF_ONE_ADDRESS, 0x7f000005);
    step_for(0.05);
    call_and_say_nothing(WIRE_OF_ONE_ADDRESS, 0x7f000006);
    step_for(0.05);
    assert_int_equal(door.shown_out, 0);
    call_and_say_nothing(10, 0x7f000007);
    step_for(0.1);
    assert_int_equal(door.shown_out, 10);
    assert_int_equal(n_shown_out(0, 10), 10);
    close_door();
}

/* A member calls in the middle of a crowd from its own address, and sends its proof 20 ms after the answer. */
TEST(test_each_has_the_time_to_say_its_proof) {
    struct greeting_hello hello = greeting_say_hello(3, 7, 0);
    struct greeting_answer answer;
    struct greeting_proof proof;
    bool said = false, proven = false;
    open_door();
    call_and_say_nothing(200, INADDR_LOOPBACK);
    int member = call_from(INADDR_LOOPBACK);
    assert_int_equal(send(member, &hello, sizeof hello, 0), sizeof hello);
    call_and_say_nothing(300, INADDR_LOOPBACK);
    for (double until_s = clock_s() + 3; !proven && clock_s() < until_s; usleep(100)) {
        wire_door_hear(&door);
        proven = wire_door_proven(&door);
        wire_door_take_calls(&door);
        if (said || recv(member, &answer, sizeof answer, MSG_DONTWAIT) != (ssize_t)sizeof answer) continue;
        said = greeting_trusts(secret, &hello, &answer, &proof);
        assert_true(said);
        for (double then_s = clock_s() + 0.02; clock_s() < then_s;) wire_door_take_calls(&door);
        (void)send(member, &proof, sizeof proof, MSG_NOSIGNAL);
    }
    assert_true(proven);
    struct sealed stream;
    assert_true(wire_door_welcome(&door, wire_door_proven(&door), false, &stream));
    assert_null(wire_door_proven(&door));
    sealed_close(&stream);
    close(member);
    close_door();
}

/* If no more files may be open, the oldest caller is rejected for the next one, and the door pauses. */
TEST(test_a_process_without_files_shows_the_oldest_out) {
    struct rlimit limit, less;
    open_door();
    call_and_say_nothing(4, 0x7f000005);
    step_for(0.02);
    call_and_say_nothing(1, 0x7f000006);
    int next = dup(0);                                               /* the number of the next file */
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    less = (struct rlimit){(rlim_t)next, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    wire_door_take_calls(&door);
    bool pauses = door.again_s > clock_s();
    int64_t out = door.shown_out;
    step_for(0.2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(pauses && out == 1);
    assert_int_equal(door.shown_out, 1);                             /* one place was enough */
    assert_int_equal(n_shown_out(0, 4), 1);
    assert_false(is_shown_out(idle[4]));
    close_door();
}

TESTS(unit_test(test_what_is_said_arrives), unit_test(test_a_changed_frame_is_none),
      unit_test(test_a_frame_counts_once_and_in_its_place), unit_test(test_a_frame_that_is_cut_off_is_an_end),
      unit_test(test_a_frame_of_another_stream_is_none), unit_test(test_keys_are_of_one_connection_and_direction),
      unit_test(test_a_long_stream), unit_test(test_one_address_has_half_of_the_places),
      unit_test(test_the_oldest_of_all_goes_where_all_places_are_taken),
      unit_test(test_each_has_the_time_to_say_its_proof), unit_test(test_a_process_without_files_shows_the_oldest_out))

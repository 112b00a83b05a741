/* ranks: 1  device: cpu */
/* The callers that a rank admits: the greeting, and connections of members among strangers. All ranks are in one
 * process, because no function of the network blocks. */
#include "lib/base/clock.h"
#include "lib/comm/direct/greeting.h"
#include "lib/comm/direct/network.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the greeting ---- */
TEST(test_both_prove_that_they_know_the_secret) {
    unsigned char secret[GREETING_SECRET], other[GREETING_SECRET];
    struct greeting_proof proof;
    assert_true(greeting_secret(secret) && greeting_secret(other));
    struct greeting_hello hello = greeting_say_hello(1, 2, 7);
    assert_true(greeting_hears(&hello, 2, 7));
    assert_false(greeting_hears(&hello, 3, 7));                      /* hello is for slot 2 */
    assert_false(greeting_hears(&hello, 2, 6));                      /* hello is for epoch 7 */
    struct greeting_answer answer = greeting_answer_it(secret, &hello), wrong = greeting_answer_it(other, &hello);
    assert_true(greeting_trusts(secret, &hello, &answer, &proof));
    assert_true(greeting_is_proven(secret, &hello, &answer, &proof));
    assert_false(greeting_trusts(secret, &hello, &wrong, &proof));
    assert_false(greeting_is_proven(other, &hello, &answer, &proof));
    assert_true(memcmp(answer.code, proof.code, GREETING_CODE) != 0);
    struct greeting_proof reflected;                                 /* an answer that is sent back is no proof */
    memcpy(reflected.code, answer.code, GREETING_CODE);
    assert_false(greeting_is_proven(secret, &hello, &answer, &reflected));
}

/* If any byte of the greeting is changed, a code is wrong. */
TEST(test_nothing_can_be_changed_on_the_way) {
    unsigned char secret[GREETING_SECRET];
    struct greeting_proof proof, none;
    assert_true(greeting_secret(secret));
    struct greeting_hello hello = greeting_say_hello(1, 2, 7);
    struct greeting_answer answer = greeting_answer_it(secret, &hello);
    assert_true(greeting_trusts(secret, &hello, &answer, &proof));
    for (size_t i = 0; i < sizeof hello; i++) {
        struct greeting_hello x = hello;
        ((unsigned char *)&x)[i] ^= 1;
        assert_false(greeting_trusts(secret, &x, &answer, &none));
        assert_false(greeting_is_proven(secret, &x, &answer, &proof));
    }
    for (size_t i = 0; i < sizeof answer; i++) {
        struct greeting_answer x = answer;
        ((unsigned char *)&x)[i] ^= 128;
        assert_false(greeting_trusts(secret, &hello, &x, &none));
    }
    for (size_t i = 0; i < sizeof proof; i++) {
        struct greeting_proof x = proof;
        x.code[i] ^= 4;
        assert_false(greeting_is_proven(secret, &hello, &answer, &x));
    }
}

TEST(test_what_was_recorded_proves_nothing_later) {
    unsigned char secret[GREETING_SECRET];
    struct greeting_proof proof, none;
    assert_true(greeting_secret(secret));
    struct greeting_hello hello = greeting_say_hello(1, 2, 7), next = greeting_say_hello(1, 2, 7);
    struct greeting_answer answer = greeting_answer_it(secret, &hello), again = greeting_answer_it(secret, &hello);
    assert_true(greeting_trusts(secret, &hello, &answer, &proof));
    assert_false(greeting_is_proven(secret, &hello, &again, &proof));    /* a replay of the caller's messages */
    assert_false(greeting_trusts(secret, &next, &answer, &none));        /* a replay of the called process's answer */
}

/* ---- members meet ---- */
enum { N = 4 };
struct party {
    struct membership epoch;
    bool far[N][N];
    struct network_address address[N];
    int listening[N];
    unsigned char secret[N][GREETING_SECRET];
    struct network *network[N];
    bool encrypts;
};

static void begin(struct party *p) {
    *p = (struct party){.epoch = {.number = 3, .from = 2, .n = N}};
    assert_true(greeting_secret(p->secret[0]));
    for (int r = 0; r < N; r++) {
        p->epoch.slot[r] = r;
        memcpy(p->secret[r], p->secret[0], GREETING_SECRET);
        for (int q = 0; q < N; q++) p->far[r][q] = q != r;
        p->address[r].ip = INADDR_LOOPBACK;
        assert_ok(wire_listen(&p->address[r], "", &p->listening[r]));
        assert_true(p->address[r].port != 0);
        assert_ok(own_network_open(&p->epoch, r, p->far[r], p->address, p->secret[r], p->encrypts, p->listening[r],
                                   &p->network[r]));
    }
}

static void end(struct party *p) {
    for (int r = 0; r < N; r++) {
        own_network_close(&p->network[r]);
        close(p->listening[r]);
    }
}

/* @return whether all ranks except `without` (-1: none) are connected within `seconds` */
static bool meet(struct party *p, int without, double seconds) {
    double until_s = clock_s() + seconds;
    for (bool all = false; !all; usleep(500)) {
        all = true;
        for (int r = 0; r < N; r++) all &= r == without || own_network_step(p->network[r]);
        if (!all && clock_s() > until_s) return false;
    }
    return true;
}

/* Each rank sends every other rank a word. @return whether all words arrive */
static bool talk(struct party *p) {
    bool ok = true;
    for (int r = 0; r < N; r++)
        for (int q = 0; q < N; q++) {
            struct own_wire w = own_network_wire(p->network[r], q);
            int32_t word = 100 * r + q;
            if (q != r) ok &= w.put(w.out, &word, sizeof word) == (int64_t)sizeof word;
        }
    for (int r = 0; r < N; r++)
        for (int q = 0; q < N; q++) {
            int32_t word = -1;
            size_t got = 0;
            double until_s = clock_s() + 5;
            while (q != r && got < sizeof word && clock_s() < until_s) {
                struct own_wire w = own_network_wire(p->network[r], q);
                int64_t k = w.take(w.in, (char *)&word + got, sizeof word - got);
                if (k < 0) return false;
                got += (size_t)k;
            }
            ok &= q == r || word == 100 * q + r;
        }
    return ok;
}

TEST(test_members_meet) {
    struct party p;
    begin(&p);
    assert_true(meet(&p, -1, 10));
    assert_true(talk(&p));
    own_network_close(&p.network[2]);                                    /* the others see that rank 2 leaves */
    struct own_wire w = own_network_wire(p.network[0], 2);
    char byte;
    int64_t k = 0;
    for (double until_s = clock_s() + 5; k == 0 && clock_s() < until_s;) k = w.take(w.in, &byte, 1);
    assert_int_equal(k, -1);
    end(&p);
}

TEST(test_who_is_cut_off_is_named_by_both) {
    struct party p;
    begin(&p);
    assert_true(meet(&p, -1, 10));
    for (int r = 0; r < N; r++) assert_int_equal(own_network_lost(p.network[r]), -1);
    own_network_cut(p.network[1], 3);
    for (double until_s = clock_s() + 5; clock_s() < until_s && own_network_lost(p.network[3]) < 0;)
        for (int r = 0; r < N; r++)
            for (int q = 0; q < N; q++) {
                char byte;
                struct own_wire w = own_network_wire(p.network[r], q);
                int64_t k = q == r ? 0 : w.take(w.in, &byte, 1);
                assert_true(k == 0 || (k == -1 && r + q == 4 && r != q));
            }
    const int lost[N] = {-1, 3, -1, 1};
    for (int r = 0; r < N; r++) assert_int_equal(own_network_lost(p.network[r]), lost[r]);
    end(&p);
}

/* ---- strangers ---- */
static int call(const struct network_address *a) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(a->port), .sin_addr = {htonl(a->ip)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    close(fd);
    return -1;
}

/* Does rank r close the connection within `seconds`? The rank is stepped meanwhile. */
static bool is_shown_out(struct party *p, int r, int fd, double seconds) {
    char bytes[256];
    for (double until_s = clock_s() + seconds; clock_s() < until_s; usleep(1000)) {
        own_network_step(p->network[r]);
        ssize_t k = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno == ECONNRESET)) return true;
    }
    return false;
}

TEST(test_strangers_are_shown_out) {
    struct party p;
    unsigned char other[GREETING_SECRET];
    struct greeting_proof proof;
    struct greeting_answer answer;
    char nonsense[4096];
    begin(&p);
    assert_true(greeting_secret(other));
    memset(nonsense, 'x', sizeof nonsense);

    int fd = call(&p.address[3]);                                    /* this caller sends many invalid bytes */
    assert_true(send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL) > 0);
    assert_true(is_shown_out(&p, 3, fd, 3));
    close(fd);

    struct greeting_hello hello = greeting_say_hello(1, 3, 3);       /* this caller does not have the secret */
    fd = call(&p.address[3]);
    assert_int_equal(send(fd, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    const ssize_t whole = sizeof answer;
    for (double until_s = clock_s() + 3; clock_s() < until_s;) {
        own_network_step(p.network[3]);
        if (recv(fd, &answer, sizeof answer, MSG_DONTWAIT | MSG_PEEK) == whole) break;
    }
    assert_int_equal(recv(fd, &answer, sizeof answer, MSG_DONTWAIT), sizeof answer);
    assert_false(greeting_trusts(other, &hello, &answer, &proof));
    memset(&proof, 7, sizeof proof);
    assert_int_equal(send(fd, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    assert_true(is_shown_out(&p, 3, fd, 3));
    close(fd);

    int idle[8];                                                     /* these callers send no byte */
    for (int i = 0; i < 8; i++) idle[i] = call(&p.address[3]);
    assert_true(meet(&p, -1, 10));                                   /* no rank waits for the idle callers */
    assert_true(talk(&p));
    assert_true(own_network_shown_out(p.network[3]) >= 2);
    for (int i = 0; i < 8; i++) close(idle[i]);
    end(&p);
}

TEST(test_who_is_slow_is_shown_out) {
    struct party p;
    begin(&p);
    struct greeting_hello hello = greeting_say_hello(1, 3, 3);
    int fd = call(&p.address[3]);
    double from_s = clock_s();
    assert_int_equal(send(fd, &hello, 5, MSG_NOSIGNAL), 5);          /* five bytes, and then one every 0.4 s */
    bool out = false;
    for (int i = 5; i < 40 && !out; i++) {
        out = is_shown_out(&p, 3, fd, 0.4);
        if (!out) (void)send(fd, (char *)&hello + i, 1, MSG_NOSIGNAL);
    }
    assert_true(out && clock_s() - from_s < WIRE_GREETING_S + 3);
    close(fd);
    end(&p);
}

/* More idle callers than places come before any member calls. All members are still admitted. */
TEST(test_a_crowd_of_idle_callers_keeps_nobody_out) {
    enum { CROWD = WIRE_STRANGERS + 128 };
    struct party p;
    int idle[CROWD];
    begin(&p);
    for (int i = 0; i < CROWD; i++) idle[i] = call(&p.address[3]);
    assert_true(meet(&p, -1, WIRE_GREETING_S - 1));
    assert_true(talk(&p));
    assert_true(own_network_shown_out(p.network[3]) >= CROWD - WIRE_OF_ONE_ADDRESS);
    for (int i = 0; i < CROWD; i++) close(idle[i]);
    end(&p);
}

/* ---- the calling side ---- */
/* Does rank r send `bytes` bytes on the connection within `seconds`? The rank is stepped meanwhile. */
static bool is_said(struct party *p, int r, int fd, void *what, size_t bytes, double seconds) {
    for (double until_s = clock_s() + seconds; clock_s() < until_s; usleep(1000)) {
        own_network_step(p->network[r]);
        if (recv(fd, what, bytes, MSG_DONTWAIT | MSG_PEEK) == (ssize_t)bytes) return recv(fd, what, bytes, 0) > 0;
    }
    return false;
}

/* In place of rank 3, accept rank 2's next call, and exchange the greeting up to the proof. secret: for the answer.
 * welcome: the next message for rank 2. @return the connection; -1: the answer was not trusted, or no call came */
static int is_called(struct party *p, const unsigned char *secret, double seconds, struct greeting_welcome *welcome) {
    struct greeting_hello hello;
    struct greeting_proof proof;
    int fd = -1;
    for (double until_s = clock_s() + seconds; fd < 0 && clock_s() < until_s; usleep(1000)) {
        own_network_step(p->network[2]);
        fd = accept(p->listening[3], NULL, NULL);
    }
    if (fd < 0 || !is_said(p, 2, fd, &hello, sizeof hello, seconds)) return -1;
    struct greeting_answer answer = greeting_answer_it(secret, &hello);
    assert_int_equal(send(fd, &answer, sizeof answer, MSG_NOSIGNAL), sizeof answer);
    *welcome = greeting_welcome_it(secret, &hello, &answer);
    bool is_proven = is_said(p, 2, fd, &proof, sizeof proof, 0.5);
    if (is_proven) assert_true(greeting_is_proven(p->secret[3], &hello, &answer, &proof));
    else close(fd);
    return is_proven ? fd : -1;
}

/* A caller counts as connected only after the welcome, for which it waits on the connection that has its proof. */
TEST(test_who_calls_is_in_when_it_is_welcome) {
    const struct greeting_welcome nonsense = {"x"};
    struct greeting_welcome welcome;
    unsigned char other[GREETING_SECRET];
    struct party p;
    begin(&p);
    assert_true(greeting_secret(other));
    bool only_3[N] = {false, false, false, true};
    memcpy(p.far[2], only_3, sizeof only_3);
    assert_int_equal(is_called(&p, other, 5, &welcome), -1);                   /* the answer has another secret */
    int fd = is_called(&p, p.secret[3], 5, &welcome);
    assert_true(fd >= 0 && !own_network_step(p.network[2]));
    close(fd);                                                       /* reject the caller after its proof */
    fd = is_called(&p, p.secret[3], 5, &welcome);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, &nonsense, sizeof nonsense, MSG_NOSIGNAL), sizeof nonsense);
    assert_true(is_shown_out(&p, 2, fd, 3));
    close(fd);
    fd = is_called(&p, p.secret[3], 5, &welcome);
    assert_true(fd >= 0 && !is_shown_out(&p, 2, fd, WIRE_GREETING_S + 0.3));
    assert_int_equal(send(fd, &welcome, sizeof welcome, MSG_NOSIGNAL), sizeof welcome);
    for (double until_s = clock_s() + 3; !own_network_step(p.network[2]) && clock_s() < until_s;) usleep(1000);
    assert_true(own_network_step(p.network[2]));
    close(fd);
    end(&p);
}

/* In a job of the most ranks possible, all ranks call the last one before it runs, and then a crowd of strangers calls
 * it. So some members that already have an answer are shown out. They call again, and all are admitted. */
TEST(test_who_is_shown_out_for_others_calls_again) {
    enum { MOST = MEMBERSHIP_MOST_RANKS, LAST = MOST - 1, CROWD = 100 };
    static struct network *network[MOST];
    static bool of_last[MOST], of_others[MOST] = {[LAST] = true};
    static struct network_address address[MOST];
    struct membership epoch = {.number = 3, .from = 2, .n = MOST};
    unsigned char secret[GREETING_SECRET];
    int listening, idle[CROWD];
    assert_true(greeting_secret(secret));
    address[LAST].ip = INADDR_LOOPBACK;
    assert_ok(wire_listen(&address[LAST], "", &listening));
    for (int r = 0; r < MOST; r++) epoch.slot[r] = r, of_last[r] = r != LAST;
    for (int r = 0; r < MOST; r++)
        assert_ok(own_network_open(&epoch, r, r == LAST ? of_last : of_others, address, secret, false,
                                   r == LAST ? listening : -1, &network[r]));
    for (int k = 0; k < 3; k++)
        for (int r = 0; r < LAST; r++) own_network_step(network[r]);
    for (int i = 0; i < CROWD; i++) assert_true((idle[i] = call(&address[LAST])) >= 0);
    for (int k = 0; k < 3; k++) own_network_step(network[LAST]);
    assert_int_equal(own_network_shown_out(network[LAST]), WIRE_OF_ONE_ADDRESS);
    bool all = false;
    for (double until_s = clock_s() + WIRE_GREETING_S - 1; !all && clock_s() < until_s;) {
        all = true;
        for (int r = 0; r < MOST; r++) all = own_network_step(network[r]) && all;
    }
    assert_true(all);
    for (int r = 0; r < LAST; r++) {
        char byte;
        struct own_wire w = own_network_wire(network[r], LAST), back = own_network_wire(network[LAST], r);
        assert_int_equal(w.take(w.in, &byte, 1), 0);                 /* no connection has ended */
        assert_int_equal(back.take(back.in, &byte, 1), 0);
    }
    for (int r = 0; r < MOST; r++) own_network_close(&network[r]);
    for (int i = 0; i < CROWD; i++) close(idle[i]);
    close(listening);
}

/* A caller that has sent its proof is admitted, even if many calls come before the proof is read. */
TEST(test_a_proof_that_is_here_counts) {
    enum { CROWD = WIRE_STRANGERS + 1 };
    struct party p;
    int idle[CROWD];
    begin(&p);
    memset(p.far[3], 0, sizeof p.far[3]);
    p.far[3][2] = true;
    for (int k = 0; k < 3; k++) own_network_step(p.network[2]);      /* rank 2 sends its hello */
    own_network_step(p.network[3]);
    own_network_step(p.network[3]);
    for (int k = 0; k < 3; k++) own_network_step(p.network[2]);      /* rank 2 sends its proof */
    for (int i = 0; i < CROWD; i++) idle[i] = call(&p.address[3]);
    assert_true(own_network_step(p.network[3]));
    for (int i = 0; i < CROWD; i++) close(idle[i]);
    end(&p);
}

/* ---- other jobs, other epochs ---- */
/* A rank with another secret is not admitted. A rank in an older epoch is admitted after it enters the newer one. */
TEST(test_members_of_another_job_or_epoch_do_not_meet) {
    struct party p;
    begin(&p);
    p.secret[1][5] ^= 1;
    assert_false(meet(&p, -1, 0.5));
    p.secret[1][5] ^= 1;
    assert_true(meet(&p, -1, 10));
    end(&p);
    begin(&p);
    struct membership old = p.epoch;
    old.number = 2;
    own_network_close(&p.network[0]);
    assert_ok(own_network_open(&old, 0, p.far[0], p.address, p.secret[0], false, p.listening[0], &p.network[0]));
    assert_false(meet(&p, -1, 0.5));
    own_network_close(&p.network[0]);
    assert_ok(own_network_open(&p.epoch, 0, p.far[0], p.address, p.secret[0], false, p.listening[0], &p.network[0]));
    assert_true(meet(&p, -1, 10));
    assert_true(talk(&p));
    end(&p);
}

TEST(test_addresses_that_are_not_here) {
    struct network_address far = {0x08080808, 0};
    int listening;
    assert_fails(wire_listen(&far, "is that one of this host?", &listening), E_COMM, "8.8.8.8:0", "is that one of");
    assert_int_equal(listening, -1);
}

TESTS(unit_test(test_both_prove_that_they_know_the_secret), unit_test(test_nothing_can_be_changed_on_the_way),
      unit_test(test_what_was_recorded_proves_nothing_later), unit_test(test_members_meet),
      unit_test(test_who_is_cut_off_is_named_by_both), unit_test(test_strangers_are_shown_out),
      unit_test(test_who_is_slow_is_shown_out), unit_test(test_a_crowd_of_idle_callers_keeps_nobody_out),
      unit_test(test_who_calls_is_in_when_it_is_welcome), unit_test(test_who_is_shown_out_for_others_calls_again),
      unit_test(test_a_proof_that_is_here_counts),
      unit_test(test_members_of_another_job_or_epoch_do_not_meet), unit_test(test_addresses_that_are_not_here))

/* ranks: 1  device: cpu */
/* Messages between an agent and the lighthouse, over a pair of sockets. */
#define _GNU_SOURCE /* memmem */
#include "launch/host_job.h"
#include "launch/host_link.h"
#include "lib/base/clock.h"
#include "tests/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct ends { struct host_link agent, lighthouse; };

static struct ends open_ends(void) {
    const struct greeting_keys keys = {"an agent's", "the lighthouse's"};
    struct sealed wire[2];
    struct ends e;
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    for (int i = 0; i < 2; i++) assert_ok(sealed_open(&wire[i], fd[i], &keys, i == 0, true));
    assert_ok(host_link_open(&e.agent, &wire[0], false));
    assert_ok(host_link_open(&e.lighthouse, &wire[1], true));
    return e;
}
static void close_ends(struct ends *e) {
    host_link_close(&e->agent);
    host_link_close(&e->lighthouse);
}

/* The next message at `to`, after some turns of both ends. */
static bool next(struct host_link *from, struct host_link *to, struct host_message *m) {
    for (int i = 0; i < 2000; i++) {
        if (host_link_next(to, m)) return true;
        host_link_step(from, from->said_s);      /* the time never reaches the next `alive` */
        host_link_step(to, to->said_s);
    }
    return false;
}

TEST(test_messages_arrive_in_order) {
    struct ends e = open_ends();
    struct host_message m;
    struct membership epoch = {.number = 3, .n = 2, .slot = {5, 4}, .host = {1, 0}}, got;
    host_link_say(&e.agent, HOST_HERE, "n01", 3);
    for (int i = 0; i < 500; i++) host_link_say_word(&e.agent, HOST_STATE, i, 2 * i, -i);
    assert_true(next(&e.agent, &e.lighthouse, &m));
    assert_true(m.kind == HOST_HERE && m.bytes == 3 && memcmp(m.body, "n01", 3) == 0);
    for (int i = 0; i < 500; i++) {
        assert_true(next(&e.agent, &e.lighthouse, &m));
        struct host_word word = host_link_word(&m);
        assert_true(m.kind == HOST_STATE && word.slot == i && word.epoch == 2 * i && word.value == -i);
    }
    host_link_say(&e.lighthouse, HOST_EPOCH, &epoch, sizeof epoch);
    assert_true(next(&e.lighthouse, &e.agent, &m));
    memcpy(&got, m.body, sizeof got);
    assert_true(m.kind == HOST_EPOCH && memcmp(&got, &epoch, sizeof got) == 0);
    assert_null(e.agent.broken);
    assert_null(e.lighthouse.broken);
    close_ends(&e);
}

/* A message that arrives byte by byte is complete only after its last byte. */
TEST(test_a_message_is_whole_or_none) {
    struct ends e = open_ends();
    struct host_message m;
    uint32_t bytes[6] = {HOST_COMMITTED, sizeof(struct host_word), 7, 9, 0, 0};
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_int_equal(sealed_put(&e.agent.wire, (char *)bytes + i, 1), 1);
        host_link_step(&e.lighthouse, e.lighthouse.said_s);
        assert_true(host_link_next(&e.lighthouse, &m) == (i == sizeof bytes - 1));
    }
    assert_true(host_link_word(&m).slot == 7 && host_link_word(&m).epoch == 9);
    close_ends(&e);
}

/* The largest message fills an end's buffer, and is more than a socket takes at once. */
TEST(test_a_long_message) {
    struct ends e = open_ends();
    struct host_message m;
    char *body = malloc(HOST_MOST_TEXT);
    for (int i = 0; i < HOST_MOST_TEXT; i++) body[i] = (char)(i % 251);
    host_link_say(&e.lighthouse, HOST_JOB, body, HOST_MOST_TEXT);
    host_link_say(&e.lighthouse, HOST_JOB, body, HOST_MOST_TEXT);
    for (int k = 0; k < 2; k++) {
        assert_true(next(&e.lighthouse, &e.agent, &m));
        assert_true(m.bytes == HOST_MOST_TEXT && memcmp(m.body, body, HOST_MOST_TEXT) == 0);
    }
    free(body);
    close_ends(&e);
}

static const char *after(uint32_t kind, uint32_t bytes, bool at_lighthouse) {
    struct ends e = open_ends();
    struct host_link *to = at_lighthouse ? &e.lighthouse : &e.agent, *from = at_lighthouse ? &e.agent : &e.lighthouse;
    struct host_message m;
    const uint32_t header[2] = {kind, bytes};
    assert_int_equal(sealed_put(&from->wire, header, sizeof header), sizeof header);
    host_link_step(to, to->said_s);
    bool any = host_link_next(to, &m);
    const char *broken = to->broken;
    close_ends(&e);
    return broken ? broken : any ? "a message" : "waits";
}

TEST(test_what_is_no_message_ends_the_connection) {
    const char *no = "it has said what is no message";
    assert_string_equal(after(HOST_ALIVE, 0, true), "a message");
    assert_string_equal(after(HOST_STATE, sizeof(struct host_word), true), "waits");
    assert_string_equal(after(HOST_STATE, sizeof(struct host_word), false), no);     /* goes only up */
    assert_string_equal(after(HOST_EPOCH, sizeof(struct membership), true), no);     /* goes only down */
    assert_string_equal(after(HOST_STATE, sizeof(struct host_word) - 1, true), no);
    assert_string_equal(after(HOST_STATE, sizeof(struct host_word) + 1, true), no);
    assert_string_equal(after(HOST_HERE, HOST_MOST_NAME + 1, true), no);
    assert_string_equal(after(HOST_HERE, 0, true), no);
    assert_string_equal(after(HOST_JOB, HOST_MOST_TEXT + 1, false), no);
    assert_string_equal(after(HOST_JOB, UINT32_MAX, false), no);
    assert_string_equal(after(N_HOST_KINDS, 0, true), no);
    assert_string_equal(after(UINT32_MAX, 0, true), no);
}

/* Messages that came before the end of a connection are still delivered. */
TEST(test_the_end_comes_after_what_was_said) {
    struct ends e = open_ends();
    struct host_message m;
    host_link_say_word(&e.agent, HOST_ENDED, 1, 0, 9);
    host_link_flush(&e.agent, 1);
    host_link_close(&e.agent);
    for (int i = 0; i < 3; i++) host_link_step(&e.lighthouse, e.lighthouse.said_s);
    assert_non_null(e.lighthouse.broken);
    assert_true(host_link_next(&e.lighthouse, &m) && m.kind == HOST_ENDED && host_link_word(&m).value == 9);
    assert_false(host_link_next(&e.lighthouse, &m));
    host_link_close(&e.lighthouse);
}

TEST(test_a_sign_of_life_each_half_second) {
    struct ends e = open_ends();
    struct host_message m;
    double now_s = clock_s();
    host_link_say_word(&e.agent, HOST_DONE, 0, 0, 1);
    assert_true(next(&e.agent, &e.lighthouse, &m) && m.kind == HOST_DONE);
    host_link_step(&e.agent, e.agent.said_s + 0.4);
    assert_false(next(&e.agent, &e.lighthouse, &m));
    host_link_step(&e.agent, e.agent.said_s + 0.6);
    assert_true(next(&e.agent, &e.lighthouse, &m) && m.kind == HOST_ALIVE);
    host_link_say(&e.agent, HOST_ALIVE, NULL, 0);
    host_link_flush(&e.agent, 1);
    host_link_step(&e.lighthouse, now_s + 77);
    assert_true(e.lighthouse.heard_s == now_s + 77);
    close_ends(&e);
}

/* Neither end obeys bytes that a stranger puts into the connection. */
TEST(test_what_was_changed_on_its_way_is_no_message) {
    const char *no = "what it sent was changed on its way";
    for (int way = 0; way < 2; way++) {
        struct ends e = open_ends();
        struct host_link *to = way ? &e.lighthouse : &e.agent, *from = way ? &e.agent : &e.lighthouse;
        const uint32_t over[6] = {HOST_OVER, sizeof(struct host_word)}, alive[2] = {HOST_ALIVE, 0};
        struct host_message m;
        host_link_say(from, HOST_ALIVE, NULL, 0);
        assert_true(next(from, to, &m) && m.kind == HOST_ALIVE);
        const void *forged = way ? (const void *)alive : over;       /* a valid message without a seal */
        const size_t bytes = way ? sizeof alive : sizeof over;
        assert_int_equal(send(from->fd, forged, bytes, 0), bytes);
        for (int i = 0; i < 3; i++) host_link_say(from, HOST_ALIVE, NULL, 0);
        for (int i = 0; i < 5; i++) host_link_step(from, from->said_s), host_link_step(to, to->said_s);
        assert_false(host_link_next(to, &m));
        assert_non_null(to->broken);
        assert_string_equal(to->broken, no);
        close_ends(&e);
    }
}

/* If a peer reads nothing, this end gives it up before the queue fills the memory. */
TEST(test_who_reads_nothing_is_given_up) {
    struct ends e = open_ends();
    char *body = calloc(1, HOST_MOST_TEXT);
    for (int i = 0; i < 16 && !e.lighthouse.broken; i++) {
        host_link_say(&e.lighthouse, HOST_JOB, body, HOST_MOST_TEXT);
        host_link_step(&e.lighthouse, e.lighthouse.said_s);
    }
    assert_string_equal(e.lighthouse.broken, "it reads nothing");
    free(body);
    close_ends(&e);
}

/* ---- the job ---- */
TEST(test_a_job_is_written_and_read) {
    const struct host_job job = {.me = 1, .n_slots = 3, .n = 2, .encrypts = 1, .hang_s = 60, .lost_s = 3,
                                 .host = {0, 1, 1}};
    char *words[] = {"trivium", "train", "--data", "a b", "", NULL}, *body, folder[4096];
    size_t bytes;
    struct host_texts t;
    setenv("TRIVIUM_TEST_OF_HOSTS", "x=y", 1);
    setenv("TRIVIUM_SECRET", "no one reads this", 1);
    assert_ok(host_job_write(&job, words, &body, &bytes));
    unsetenv("TRIVIUM_SECRET");
    assert_null(memmem(body, bytes, "no one reads", 12));
    const struct host_message m = {HOST_JOB, body, (uint32_t)bytes};
    assert_ok(host_job_read(&m, &t));
    assert_true(t.job.me == 1 && t.job.n_slots == 3 && t.job.n == 2 && t.job.host[2] == 1 && t.job.hang_s == 60);
    assert_int_equal(t.job.encrypts, 1);
    assert_string_equal(t.texts[0], getcwd(folder, sizeof folder));
    bool found = false;
    for (int i = 0; i < t.job.n_settings; i++) found |= strcmp(t.settings[i], "TRIVIUM_TEST_OF_HOSTS=x=y") == 0;
    assert_true(found);
    for (int i = 0; words[i]; i++) assert_string_equal(t.words[i], words[i]);
    assert_null(t.words[5]);
    host_texts_free(&t);
    /* a message that is cut short, or has a wrong number of texts, is no job */
    for (size_t cut = sizeof(struct host_job); cut < bytes; cut++)
        assert_fails(host_job_read(&(struct host_message){HOST_JOB, body, (uint32_t)cut}, &t), E_FORMAT, "this build");
    ((struct host_job *)(void *)body)->n_texts++;
    assert_fails(host_job_read(&m, &t), E_FORMAT, "cut short");
    ((struct host_job *)(void *)body)->n_texts -= 2;
    assert_fails(host_job_read(&m, &t), E_FORMAT, "cut short");
    /* a job with other settings is refused */
    ((struct host_job *)(void *)body)->n_texts++;
    ((struct host_job *)(void *)body)->n_settings++;
    assert_fails(host_job_read(&m, &t), E_FORMAT, "the setting trivium, which ranks do not get");
    ((struct host_job *)(void *)body)->n_slots = OWN_MOST_RANKS + 1;
    assert_fails(host_job_read(&m, &t), E_FORMAT, "starts no ranks");
    free(body);
    unsetenv("TRIVIUM_TEST_OF_HOSTS");
}

TESTS(unit_test(test_messages_arrive_in_order), unit_test(test_a_message_is_whole_or_none),
      unit_test(test_a_long_message), unit_test(test_what_is_no_message_ends_the_connection),
      unit_test(test_the_end_comes_after_what_was_said), unit_test(test_a_sign_of_life_each_half_second),
      unit_test(test_what_was_changed_on_its_way_is_no_message),
      unit_test(test_who_reads_nothing_is_given_up), unit_test(test_a_job_is_written_and_read))

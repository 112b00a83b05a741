/* ranks: 1  device: cpu */
/* Names of hosts, the lighthouse's door, and the start of an agent. */
#define _GNU_SOURCE /* memmem */
#include "launch/host_door.h"
#include "launch/host_job.h"
#include "launch/host_link.h"
#include "launch/hosts.h"
#include "lib/base/clock.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- names ---- */
TEST(test_a_host_is_removed) {
    struct host_list list;
    char text[HOST_LIST_TEXT];
    assert_ok(host_list_read("n01:8,me@n02:2,n03", &list));
    host_list_remove(&list, 0, text);
    assert_string_equal(text, "me@n02:2,n03:1");
    host_list_remove(&list, 1, text);
    assert_string_equal(text, "me@n02:2");
    assert_int_equal(host_list_room(&list), 2);
}

TEST(test_hosts_are_read) {
    struct host_list list;
    assert_ok(host_list_read("n01:8,127.0.0.2,n-3.local:2", &list));
    assert_int_equal(list.n, 3);
    assert_true(list.of[0].n == 8 && list.of[1].n == 1 && list.of[2].n == 2 && host_list_room(&list) == 11);
    assert_string_equal(list.of[1].name, "127.0.0.2");
    assert_int_equal(host_list_find(&list, "n-3.local"), 2);
    assert_int_equal(host_list_find(&list, "n-3"), -1);
    assert_fails(host_list_read("a:2,a:2", &list), E_USAGE, "a twice");
    assert_fails(host_list_read("a:0", &list), E_USAGE, "--host a", "\"0\"", "1 to 256");
    assert_fails(host_list_read("a:2x", &list), E_USAGE, "--host a", "\"2x\"");
    assert_fails(host_list_read("a:", &list), E_USAGE, "--host a", "1 to 256");
    assert_ok(host_list_read("me@a:2,b", &list));
    char login[HOST_LOGIN];
    host_login(&list.of[0], login);
    assert_string_equal(login, "me@a");
    assert_string_equal(list.of[0].name, "a");
    host_login(&list.of[1], login);
    assert_string_equal(login, "b");
    assert_fails(host_list_read("a@b@c", &list), E_USAGE, "a@b@c", "no name");
    assert_fails(host_list_read("@b", &list), E_USAGE, "@b", "no name");
    assert_fails(host_list_read("-l@b", &list), E_USAGE, "no name");
    assert_fails(host_list_read("me@a,you@a", &list), E_USAGE, "a twice");
    assert_fails(host_list_read("a:999", &list), E_USAGE, "256");
    assert_fails(host_list_read("", &list), E_USAGE, "no name");
    assert_fails(host_list_read("a,,b", &list), E_USAGE, "no name");
    assert_fails(host_list_read("-G", &list), E_USAGE, "no name");       /* ssh would take it for an option */
    assert_fails(host_list_read("a;b", &list), E_USAGE, "no name");
}

TEST(test_a_hostfile_is_read) {
    struct host_list list;
    const char *path = test_path("hosts");
    FILE *f = fopen(path, "w");
    fputs("# two of them\nn01 slots=4\n\n  n02   slots = 2 # the small one\nn03\nme@n04:3\nn05 max_slots=8 slots=5\n"
          "n06\tcpu=6 max-slots= 6\nn07 count =7\r\n", f);
    fclose(f);
    assert_ok(host_list_read_file(path, &list));
    const int wanted[] = {4, 2, 1, 3, 5, 6, 7};
    assert_int_equal(list.n, 7);
    for (int h = 0; h < 7; h++) assert_int_equal(list.of[h].n, wanted[h]);
    assert_string_equal(list.of[3].user, "me");
    static const struct { const char *text, *words; } wrong[] = {
        {"SLOTS=4", "\"SLOTS\" is not understood"}, {"4", "\"4\" is not understood"}, {"lots=4", "\"lots\""},
        {"max_slots=8", "max_slots=8, and slots are not said"},
        {"slots=4 max_slots=2", "max_slots=2, and slots are more"},
        {"slots=4 slots=4", "twice"}, {"slots=0", "1 to 256"}, {"slots=4x", "\"4x\""}, {"slots=", "1 to 256"},
        {"slots", "\"slots\" is not understood"}, {"slots=999999999999", "1 to 256"}, {"rank=1", "\"rank\""},
        {"slots=-1", "\"-1\""}, {"slots=4 username=me", "\"username\""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        f = fopen(path, "w");
        fprintf(f, "a slots=1\nb %s\n", wrong[i].text);
        fclose(f);
        assert_fails(host_list_read_file(path, &list), E_USAGE, path, "line 2", wrong[i].words);
    }
    f = fopen(path, "w");
    fputs("a:2 slots=3\n", f);
    fclose(f);
    assert_fails(host_list_read_file(path, &list), E_USAGE, path, "line 1", "twice");
    f = fopen(path, "w");
    fputs("# none\n", f);
    fclose(f);
    assert_fails(host_list_read_file(path, &list), E_USAGE, "names no host");
    unlink(path);
    assert_fails(host_list_read_file(path, &list), E_DATA, path);
}

TEST(test_ranks_are_dealt_to_hosts) {
    struct host_list list;
    int16_t host[8];
    assert_ok(host_list_read("a:2,b:3,c:2", &list));
    assert_fails(host_list_deal(&list, 8, host), E_USAGE, "8 ranks", "hosts with 7");
    assert_ok(host_list_deal(&list, 4, host));
    assert_true(host[0] == 0 && host[1] == 0 && host[2] == 1 && host[3] == 1);
    assert_true(list.n == 2 && list.of[1].n == 2);           /* c gets none, and is removed */
    assert_ok(host_list_read("a:2,b:1", &list));
    assert_ok(host_list_deal(&list, 3, host));
    assert_true(host[1] == 0 && host[2] == 1 && list.n == 2);
}

TEST(test_addresses) {
    struct network_address at;
    char text[DOOR_TEXT];
    uint32_t own;
    assert_ok(host_address_read("127.0.0.3:7070", 1, &at));
    assert_true(at.ip == 0x7f000003 && at.port == 7070);
    host_address_text(&at, text);
    assert_string_equal(text, "127.0.0.3:7070");
    assert_fails(host_address_read("127.0.0.3", 1, &at), E_CONFIG, "HOST:PORT");
    assert_fails(host_address_read("127.0.0.3:0", 1, &at), E_CONFIG, "HOST:PORT");
    assert_ok(host_address_read("127.0.0.3:0", 0, &at));
    assert_fails(host_address_read("127.0.0.3:70000", 1, &at), E_CONFIG, "HOST:PORT");
    assert_fails(host_address_read(":7070", 1, &at), E_CONFIG, "HOST:PORT");
    assert_true(host_is_here(0x7f000005));                   /* every address of 127/8 is this host's */
    assert_false(host_is_here(0xc6336401));                  /* 198.51.100.1 is reserved for documentation */
    assert_ok(host_seen_from(0x7f000001, &own));
    assert_true(own >> 24 == 127);
}

TEST(test_secrets) {
    unsigned char secret[GREETING_SECRET], again[GREETING_SECRET];
    char text[SECRET_TEXT];
    assert_true(greeting_secret(secret));
    host_secret_text(secret, text);
    assert_ok(host_secret_read(text, again));
    assert_memory_equal(secret, again, sizeof secret);
    text[5] = 'g';
    assert_fails(host_secret_read(text, again), E_USAGE, "64 hexadecimal");
    assert_fails(host_secret_read("abc", again), E_USAGE, "64 hexadecimal");
}

/* ---- the start command ---- */
TEST(test_a_start_command) {
    char text[4096], *words[START_MOST_WORDS], many[512] = "x";
    assert_ok(start_words("ssh  -l %h-user %h", "/t/trivium", "10.0.0.1:7", "n02", text, words));
    const char *const wanted[] = {"ssh",    "-l",         "n02-user", "n02", "/t/trivium", "agent",
                                  "--meet", "10.0.0.1:7", "--host",   "n02"};
    for (int i = 0; i < 10; i++) assert_string_equal(words[i], wanted[i]);
    assert_null(words[10]);
    assert_ok(start_words("ssh %h", "/t", "a:7", "me@n02", text, words));
    assert_string_equal(words[1], "me@n02");
    assert_string_equal(words[7], "n02");
    assert_ok(start_words("", "/t/%h", "a:7", "n02", text, words));
    assert_string_equal(words[0], "/t/%h");
    for (int i = 0; i < 100; i++) strcat(many, " x");
    assert_fails(start_words(many, "t", "a:7", "n", text, words), E_USAGE, "script");
}

TEST(test_the_secret_is_on_standard_input) {
    unsigned char secret[GREETING_SECRET];
    char text[SECRET_TEXT], script[256];
    sigset_t none;
    pid_t pid;
    int status;
    sigemptyset(&none);
    assert_true(greeting_secret(secret));
    host_secret_text(secret, text);
    snprintf(script, sizeof script, "read line; test $line = %s && ! read more && ! env | grep -q $line", text);
    char *const words[] = {"/bin/sh", "-c", script, NULL};
    assert_ok(start_agent(words, secret, &none, &pid));
    assert_true(waitpid(pid, &status, 0) == pid && status == 0);
}

/* ---- the door ---- */
static struct host_door door;
static unsigned char secret[GREETING_SECRET];

static void open_door(void) {
    assert_true(greeting_secret(secret));
    assert_ok(host_door_open(&door, (struct network_address){0x7f000001, 0}, secret));
}

/* Start a process that calls the door with this secret; its exit code is 0 if it is admitted. @return its pid */
static pid_t knock(const unsigned char *with) {
    pid_t pid = fork();
    if (pid) return pid;
    struct sealed wire;
    alarm(20);
    _exit(host_door_knock(door.at, 0x7f000004, with, 1, &wire) == OK ? 0 : 7);
}
static int ends(pid_t pid) {
    int status;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
/* The connection of the next caller that is admitted within this number of seconds; -1: none. */
static int comes(double seconds) {
    struct sealed wire;
    bool in = false;
    for (double until_s = clock_s() + seconds; !in && clock_s() < until_s; usleep(1000)) {
        host_door_step(&door);
        in = host_door_let_in(&door, &wire);
    }
    if (!in) return -1;
    int fd = dup(wire.fd);
    sealed_close(&wire);
    return fd;
}
static int call(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(door.at.port), .sin_addr = {htonl(door.at.ip)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

TEST(test_who_knows_the_secret_comes_in) {
    struct sockaddr_in from;
    socklen_t n = sizeof from;
    open_door();
    pid_t pid = knock(secret);
    int fd = comes(5);
    assert_true(fd >= 0);
    assert_int_equal(getpeername(fd, (struct sockaddr *)&from, &n), 0);
    assert_true(ntohl(from.sin_addr.s_addr) == 0x7f000004);      /* the local address that knock gave */
    assert_int_equal(ends(pid), 0);
    assert_true(door.wire.shown_out == 0);
    close(fd);
    host_door_close(&door);
}

TEST(test_nobody_else_comes_in) {
    unsigned char other[GREETING_SECRET];
    open_door();
    memcpy(other, secret, sizeof other);
    other[GREETING_SECRET - 1] ^= 1;
    pid_t pid = knock(other);
    assert_int_equal(comes(1), -1);
    assert_int_equal(ends(pid), 7);
    int silent = call(), noise = call();
    struct greeting_hello hello = greeting_say_hello(-1, -2, 0), rank = greeting_say_hello(0, 1, 0);
    char zeros[512] = "";
    assert_int_equal(send(noise, zeros, sizeof zeros, 0), sizeof zeros);
    assert_int_equal(comes(0.2), -1);
    int unproven = call();                       /* a hello, and then an invalid proof */
    assert_int_equal(send(unproven, &hello, sizeof hello, 0), sizeof hello);
    assert_int_equal(comes(0.2), -1);
    assert_int_equal(send(unproven, zeros, sizeof(struct greeting_proof), 0), sizeof(struct greeting_proof));
    int to_a_rank = call();                      /* a greeting for a rank */
    assert_int_equal(send(to_a_rank, &rank, sizeof rank, 0), sizeof rank);
    assert_int_equal(comes(0.2), -1);
    assert_int_equal(door.wire.shown_out, 4);         /* the silent caller still has time */
    pid = knock(secret);                         /* meanwhile other callers are admitted */
    int fd = comes(5);
    assert_true(fd >= 0 && ends(pid) == 0);
    assert_int_equal(comes(WIRE_GREETING_S), -1);
    assert_int_equal(door.wire.shown_out, 5);
    close(fd), close(silent), close(noise), close(unproven), close(to_a_rank);
    host_door_close(&door);
}

TEST(test_nobody_at_home) {
    struct sealed wire;
    open_door();
    struct network_address at = door.at;
    host_door_close(&door);
    assert_fails(host_door_knock(at, 0, secret, 0.3, &wire), E_COMM, "no lighthouse at 127.0.0.1:", "--meet");
}

/* The lighthouse hangs up, as with too many callers at its door; the second call is admitted. */
TEST(test_who_gets_no_answer_knocks_again) {
    struct sealed wire;
    int fd;
    open_door();
    pid_t pid = knock(secret);
    for (double until_s = clock_s() + 5; (fd = accept(door.wire.listening, NULL, NULL)) < 0 && clock_s() < until_s;)
        usleep(1000);
    assert_true(fd >= 0);
    close(fd);
    fd = comes(5);
    assert_true(fd >= 0);
    assert_int_equal(ends(pid), 0);
    close(fd);
    assert_fails(host_door_knock(door.at, 0, secret, 0.1, &wire), E_COMM, "does not answer within 0.1 s", "stopped");
    host_door_close(&door);
}

/* There are more silent callers than places at the door. An agent from the same address comes after them and is
 * admitted. While the places of one address are taken, the lighthouse does not poll for new calls. */
TEST(test_a_crowd_at_the_door_keeps_no_agent_out) {
    enum { CROWD = 600 };
    struct pollfd p[1 + WIRE_STRANGERS];
    int idle[CROWD];
    open_door();
    for (int i = 0; i < CROWD; i++) idle[i] = call();
    pid_t pid = fork();
    if (pid == 0) {
        struct sealed wire;
        alarm(20);
        _exit(host_door_knock(door.at, 0, secret, 10, &wire) == OK ? 0 : 7);
    }
    for (int k = 0; k < 3; k++) host_door_step(&door);
    int n = host_door_polls(&door, p);
    assert_true(n == WIRE_OF_ONE_ADDRESS && p[0].fd != door.wire.listening);
    int fd = comes(WIRE_GREETING_S - 1);
    assert_true(fd >= 0);
    assert_int_equal(ends(pid), 0);
    for (int i = 0; i < CROWD; i++) close(idle[i]);
    close(fd);
    host_door_close(&door);
}

/* Messages between an agent and the lighthouse, over a pair of sockets. */

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

TESTS(unit_test(test_a_host_is_removed), unit_test(test_hosts_are_read), unit_test(test_a_hostfile_is_read),
      unit_test(test_ranks_are_dealt_to_hosts),
      unit_test(test_addresses), unit_test(test_secrets), unit_test(test_a_start_command),
      unit_test(test_the_secret_is_on_standard_input), unit_test(test_who_knows_the_secret_comes_in),
      unit_test(test_nobody_else_comes_in), unit_test(test_nobody_at_home),
      unit_test(test_who_gets_no_answer_knocks_again), unit_test(test_a_crowd_at_the_door_keeps_no_agent_out),
      unit_test(test_messages_arrive_in_order), unit_test(test_a_message_is_whole_or_none),
      unit_test(test_a_long_message), unit_test(test_what_is_no_message_ends_the_connection),
      unit_test(test_the_end_comes_after_what_was_said), unit_test(test_a_sign_of_life_each_half_second),
      unit_test(test_what_was_changed_on_its_way_is_no_message), unit_test(test_who_reads_nothing_is_given_up),
      unit_test(test_a_job_is_written_and_read))

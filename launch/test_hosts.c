/* ranks: 1  device: cpu */
/* Names of hosts, the lighthouse's door, and the start of an agent. */
#include "launch/host_door.h"
#include "launch/hosts.h"
#include "launch/lighthouse_start.h"
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

TESTS(unit_test(test_hosts_are_read), unit_test(test_a_hostfile_is_read), unit_test(test_ranks_are_dealt_to_hosts),
      unit_test(test_addresses), unit_test(test_secrets), unit_test(test_a_start_command),
      unit_test(test_the_secret_is_on_standard_input), unit_test(test_who_knows_the_secret_comes_in),
      unit_test(test_nobody_else_comes_in), unit_test(test_nobody_at_home),
      unit_test(test_who_gets_no_answer_knocks_again), unit_test(test_a_crowd_at_the_door_keeps_no_agent_out))

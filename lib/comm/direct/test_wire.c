/* ranks: 1  device: cpu */
/* A door and its callers: which caller is rejected when places are short, and does each have time for its proof? All
 * are in one process, because no function blocks. test_network.c tests the messages of callers and members. */
#include "lib/base/clock.h"
#include "lib/comm/direct/wire.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

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

TESTS(unit_test(test_one_address_has_half_of_the_places),
      unit_test(test_the_oldest_of_all_goes_where_all_places_are_taken),
      unit_test(test_each_has_the_time_to_say_its_proof), unit_test(test_a_process_without_files_shows_the_oldest_out))

/* ranks: 2 4  device: cpu */
/* The flight record of this process, read as another process reads it: its rows, groups and waits. */
#include "tests/test.h"

#include "lib/comm/comm_backend.h"
#include "lib/comm/flight/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static float x[40000];

/* Read this process's record from its file. If that fails, print a message and return NULL. */
static struct flight *read_mine(void) {
    char path[FLIGHT_PATH_MAX];
    struct flight *f = NULL;
    snprintf(path, sizeof path, "%s/trivium.%s.%d", flight_folder(), flight_mine() ? flight_mine()->job : "",
             comm_world_rank());
    if (flight_read(path, &f) != OK) {
        print_message("%s\n", status_text());
        status_clear();
    }
    return f;
}
static const struct flight_row *last_row(const struct flight *f) { return flight_row_at(f, f->written); }

static bool is_call(const struct flight *f, const struct flight_row *row, enum comm_op op, int64_t count,
                    enum dtype dtype) {
    const struct flight_group *group = row ? flight_group_find(f, row->group) : NULL;
    return group && row->op == op && row->count == count && row->dtype == dtype && strcmp(group->name, "world") == 0;
}

TEST(test_header_says_who_it_is) {
    struct flight *f = read_mine();
    char host[64];
    comm_host_name(host, sizeof host);
    bool good = f && f->version == FLIGHT_VERSION && f->rank == comm_world_rank() && f->size == comm_world_size() &&
                f->pid == (int)getpid() && strcmp(f->host, host) == 0 && f->end_ns == 0;
    const struct flight_group *world = f && good ? &f->group[0] : NULL;
    good &= world && strcmp(world->name, "world") == 0 && world->size == comm_world_size() && world->first == 0 &&
            world->stride == 1 && world->open;
    free(f);
    assert_true(agree_all(good));
}

TEST(test_collective_is_a_row_until_it_is_done) {
    struct comm_request request;
    enum status status = comm_all_reduce_start(group_world(), x, 40000, FP32, COMM_MAX, &request);
    struct flight *before = read_mine();
    if (status == OK) status = comm_wait(&request);
    struct flight *after = read_mine();
    bool good = status == OK && before && after;
    const struct flight_row *row = good ? last_row(before) : NULL;
    good &= row && is_call(before, row, COMM_ALL_REDUCE, 40000, FP32) && row->reduction == COMM_MAX;
    /* for the last rank to call, the operation may be done at once */
    good &= row && (row->state == FLIGHT_STARTED || row->state == FLIGHT_DONE);
    const struct flight_row *done = good ? flight_row_at(after, row->number) : NULL;
    good &= done && done->state == FLIGHT_DONE && done->done_ns >= done->called_ns && done->hops > 0 &&
            done->called_ns == row->called_ns && after->wait_row == 0;
    good &= done && flight_group_find(after, done->group)->called == done->sequence + 1;
    free(before);
    free(after);
    assert_true(agree_all(good));
}

TEST(test_message_names_the_other_end) {
    int me = comm_world_rank(), n = comm_world_size(), next = (me + 1) % n, before = (me + n - 1) % n;
    struct comm_request send, recv;
    enum status status = comm_send_start(group_world(), x, 7, FP64, next, 3, &send);
    struct flight *sent = read_mine();
    if (status == OK) status = comm_recv_start(group_world(), x + 100, 7, FP64, before, 3, &recv);
    struct flight *received = read_mine();
    if (status == OK) status = comm_wait(&send);
    if (status == OK) status = comm_wait(&recv);
    bool good = status == OK && sent && received && is_call(sent, last_row(sent), COMM_SEND, 7, FP64) &&
                last_row(sent)->peer == next && last_row(sent)->tag == 3 &&
                is_call(received, last_row(received), COMM_RECV, 7, FP64) && last_row(received)->peer == before;
    free(sent);
    free(received);
    assert_true(agree_all(good));
}

TEST(test_old_rows_are_dropped_and_counted) {
    struct flight *f = read_mine();
    int64_t from = f ? f->written : 0;
    enum status status = OK;
    for (int i = 0; i < FLIGHT_ROWS + 10 && status == OK; i++) status = comm_barrier(group_world());
    free(f);
    f = read_mine();
    bool good = status == OK && f && f->written == from + FLIGHT_ROWS + 10 && flight_dropped(f) == from + 10;
    good &= f && !flight_row_at(f, from + 10) && flight_row_at(f, from + 11) && !flight_row_at(f, f->written + 1);
    for (int64_t i = from + 11; good && i <= f->written; i++) {
        const struct flight_row *row = flight_row_at(f, i), *next = i < f->written ? flight_row_at(f, i + 1) : NULL;
        good = row && row->state == FLIGHT_DONE && (i == f->written || (next && next->sequence == row->sequence + 1));
    }
    free(f);
    assert_true(agree_all(good));
}

/* All members have the same hash of a group; a second group of the same name and members has another hash. */
TEST(test_hash_tells_groups_apart) {
    struct group *one = NULL, *two = NULL;
    int me = comm_world_rank(), n = comm_world_size(), colour = me % 2, key = -me;
    enum status status = group_create("half", n == 2 ? 0 : colour, key, &one);
    if (status == OK) status = group_create("half", n == 2 ? 0 : colour, key, &two);
    struct flight *f = status == OK ? read_mine() : NULL;
    bool good = f && f->n_groups > 2 && one->flight > 0 && two->flight > 0;
    int32_t hash[2] = {good ? (int32_t)f->group[one->flight].hash : 0, good ? (int32_t)f->group[two->flight].hash : 0};
    int32_t least[2] = {hash[0], hash[1]};
    good &= hash[0] != hash[1] && f->group[one->flight].stride == (n == 2 ? -1 : -2);
    if (status == OK) status = comm_all_reduce(one, least, 2, INT32, COMM_MIN);
    good &= status == OK && least[0] == hash[0] && least[1] == hash[1];
    /* the two halves of four ranks have different hashes */
    int32_t most = hash[0], all_least = hash[0];
    if (status == OK) status = comm_all_reduce(group_world(), &most, 1, INT32, COMM_MAX);
    if (status == OK) status = comm_all_reduce(group_world(), &all_least, 1, INT32, COMM_MIN);
    good &= status == OK && (n == 2) == (most == all_least);
    free(f);
    group_destroy(&two);
    group_destroy(&one);
    assert_true(agree_all(good));
}

TEST(test_table_of_groups_is_used_again) {
    bool good = true;
    for (int i = 0; i < FLIGHT_GROUPS + 5; i++) {
        struct group *group = NULL;
        good &= group_create("short", 0, comm_world_rank(), &group) == OK && group && group->flight >= 0;
        group_destroy(&group);
    }
    assert_true(agree_all(good));
}

static void write_as(const char *path, const struct flight *f, size_t n) {
    FILE *file = fopen(path, "w");
    if (!file) return;
    fwrite(f, 1, n, file);
    fclose(file);
}
TEST(test_damaged_files_are_refused) {
    struct flight *f = read_mine(), *other;
    const char *path = test_path("ring");
    assert_non_null(f);
    write_as(path, f, sizeof *f - 1);
    assert_fails(flight_read(path, &other), E_FORMAT, "damaged", "bytes of");
    f->row[5].op = N_COMM_OPS;
    write_as(path, f, sizeof *f);
    assert_fails(flight_read(path, &other), E_FORMAT, "damaged");
    f->row[5].op = COMM_BARRIER;
    f->rank = f->size;
    write_as(path, f, sizeof *f);
    assert_fails(flight_read(path, &other), E_FORMAT, "damaged");
    f->version = FLIGHT_VERSION + 1;
    write_as(path, f, sizeof *f);
    assert_fails(flight_read(path, &other), E_FORMAT, "version 2", "use the program");
    f->magic[0] = 'x';
    write_as(path, f, sizeof *f);
    assert_fails(flight_read(path, &other), E_FORMAT, "no flight record");
    free(f);
}

TESTS(unit_test(test_header_says_who_it_is), unit_test(test_collective_is_a_row_until_it_is_done),
      unit_test(test_message_names_the_other_end), unit_test(test_old_rows_are_dropped_and_counted),
      unit_test(test_hash_tells_groups_apart), unit_test(test_table_of_groups_is_used_again),
      unit_test(test_damaged_files_are_refused))

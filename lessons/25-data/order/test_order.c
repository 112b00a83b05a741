/* ranks: 1  device: cpu
 *
 * The order compared with the library's (lib/data); rows compared with a plain search, and counted. */
#include "lessons/25-data/order/order.h"

#include "lib/data/data.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

/* Steps, batches and samples that are drawn in each run. */
static struct order drawn_order(void) {
    return (struct order){.seed = (uint64_t)test_drawn(0, 1 << 20), .n_samples = test_drawn(50, 400),
                          .global_batch = 12 * test_drawn(1, 6), .first = test_drawn(0, 3000)};
}

/* Number s of the run, by the library. */
static int64_t library(const struct order *o, int64_t s) {
    const struct data_split split = {.n_tokens = o->n_samples * 4 + 1, .T = 4};
    return data_shuffled(&split, o->seed, s);
}

static void check_sample(const struct order *o, int64_t step, int64_t i) {
    int64_t index = -1, s = o->first + step * o->global_batch + i;
    assert_ok(order_sample(o, step, i, &index));
    if (index != library(o, s))
        fail_msg("%lld samples, first %lld, batch %lld: step %lld's number %lld is number %lld of the run, epoch %lld: "
                 "you say index %lld, right is %lld", (long long)o->n_samples, (long long)o->first,
                 (long long)o->global_batch, (long long)step, (long long)i, (long long)s,
                 (long long)(s / o->n_samples), (long long)index, (long long)library(o, s));
}

TEST(test_order_of_the_first_epoch_is_the_librarys) {
    for (int trial = 0; trial < 50; trial++) {
        struct order o = drawn_order();
        o.first = 0;
        for (int64_t step = 0; (step + 1) * o.global_batch <= o.n_samples; step++)
            for (int64_t i = 0; i < o.global_batch; i++) check_sample(&o, step, i);
    }
}

TEST(test_order_of_later_epochs_is_the_librarys) {
    for (int trial = 0; trial < 50; trial++) {
        const struct order o = drawn_order();
        for (int64_t step = 0; step < 40; step++)
            for (int64_t i = 0; i < o.global_batch; i += 5) check_sample(&o, step, i);
    }
}

/* On any number of ranks and with any microbatch: which index has which place of the batch? */
static void check_replicas(const struct order *o, int64_t step, int64_t n_ranks, int64_t micro) {
    int64_t n_micro = o->global_batch / n_ranks / micro, at = 0;
    for (int64_t m = 0; m < n_micro; m++)
        for (int64_t rank = 0; rank < n_ranks; rank++)
            for (int64_t b = 0; b < micro; b++, at++) {
                int64_t index = -1, right = library(o, o->first + step * o->global_batch + at);
                assert_ok(order_of_replica(o, step, (struct replica){rank, n_ranks, micro}, m, b, &index));
                if (index != right)
                    fail_msg("%lld ranks, microbatches of %lld: rank %lld's microbatch %lld, sample %lld: you say "
                             "index %lld, right is %lld", (long long)n_ranks, (long long)micro, (long long)rank,
                             (long long)m, (long long)b, (long long)index, (long long)right);
            }
}

TEST(test_order_is_that_of_one_rank_on_any_number) {
    static const int64_t ranks[] = {1, 2, 3, 4, 6, 12};
    for (int trial = 0; trial < 20; trial++) {
        const struct order o = drawn_order();
        for (int k = 0; k < 6; k++)
            for (int64_t micro = 1; micro <= o.global_batch / ranks[k]; micro++)
                if (o.global_batch % (ranks[k] * micro) == 0) check_replicas(&o, test_drawn(0, 50), ranks[k], micro);
    }
}

/* A run that is interrupted and resized a few times takes samples 0, 1, 2, ... of the run. */
TEST(test_order_resized_leaves_nothing_out_and_takes_nothing_twice) {
    for (int trial = 0; trial < 50; trial++) {
        struct order o = drawn_order();
        const struct order whole = o;
        int64_t s = o.first;
        for (int attempt = 0; attempt < 5; attempt++) {
            int64_t steps = test_drawn(0, 9), batch = test_drawn(1, 80);
            for (int64_t step = 0; step < steps; step++)
                for (int64_t i = 0; i < o.global_batch; i++, s++) {
                    int64_t index = -1;
                    assert_ok(order_sample(&o, step, i, &index));
                    if (index != library(&whole, s))
                        fail_msg("attempt %d, with a batch of %lld: step %lld's number %lld is index %lld, and the run "
                                 "without interruption goes on with index %lld", attempt + 1, (long long)o.global_batch,
                                 (long long)step, (long long)i, (long long)index, (long long)library(&whole, s));
                }
            struct order after = {0};
            assert_ok(order_resized(&o, steps, batch, &after));
            expect_number("the batch after a resize", after.global_batch, batch);
            o = after;
        }
    }
}

/* ---- packing ---- */
enum { MOST = 60 };
struct documents { int64_t T, n, length[MOST]; };

static struct documents drawn_documents(void) {
    struct documents d = {.T = test_drawn(8, 64), .n = test_drawn(1, MOST)};
    for (int64_t i = 0; i < d.n; i++) d.length[i] = test_drawn(1, test_drawn(0, 2) ? d.T / 2 : d.T);
    return d;
}

/* Pack into arrays of exactly n places. */
static struct packed *pack(const struct documents *d, int64_t *n_rows) {
    struct packed *place = test_block((size_t)d->n * sizeof *place);
    *n_rows = -1;
    assert_ok(order_pack(test_block_of(d->length, (size_t)d->n * sizeof *d->length), d->n, d->T, place, n_rows));
    return place;
}

TEST(test_order_pack_overlaps_nothing) {
    for (int trial = 0; trial < 100; trial++) {
        const struct documents d = drawn_documents();
        int64_t n_rows;
        const struct packed *p = pack(&d, &n_rows);
        static int taken[MOST][64];
        memset(taken, 0, sizeof taken);
        assert_in_range(n_rows, 1, d.n);
        for (int64_t i = 0; i < d.n; i++) {
            assert_in_range(p[i].row, 0, n_rows - 1);
            assert_in_range(p[i].at, 0, d.T - d.length[i]);
            for (int64_t t = 0; t < d.length[i]; t++)
                if (taken[p[i].row][p[i].at + t]++)
                    fail_msg("rows of %lld: document %lld of %lld tokens lies on another one, in row %lld at %lld",
                             (long long)d.T, (long long)i, (long long)d.length[i], (long long)p[i].row,
                             (long long)(p[i].at + t));
        }
    }
}

/* The room of a row before document i, from the documents before it. */
static int64_t room_of(const struct documents *d, const struct packed *p, int64_t row, int64_t i) {
    int64_t room = d->T;
    for (int64_t k = 0; k < i; k++) room -= p[k].row == row ? d->length[k] : 0;
    return room;
}

TEST(test_order_pack_takes_the_row_with_the_least_room) {
    for (int trial = 0; trial < 100; trial++) {
        const struct documents d = drawn_documents();
        int64_t n_rows, open = 0;
        const struct packed *p = pack(&d, &n_rows);
        for (int64_t i = 0; i < d.n; i++) {
            int64_t best = open;
            for (int64_t row = open - 1; row >= 0; row--)
                if (room_of(&d, p, row, i) >= d.length[i] &&
                    (best == open || room_of(&d, p, row, i) <= room_of(&d, p, best, i)))
                    best = row;
            if (p[i].row != best)
                fail_msg("rows of %lld: document %lld of %lld tokens is in row %lld, and row %lld has %lld left, the "
                         "least that is enough", (long long)d.T, (long long)i, (long long)d.length[i],
                         (long long)p[i].row, (long long)best, (long long)room_of(&d, p, best, i));
            if (best == open) open++;
        }
        expect_number("rows", n_rows, open);
    }
}

TEST(test_order_pack_refuses_what_fits_into_no_row) {
    static const int64_t lengths[] = {3, 9}, none[] = {3, 0};
    struct packed place[2];
    int64_t n_rows;
    assert_fails(order_pack(lengths, 2, 8, place, &n_rows), E_DATA, "");
    assert_fails(order_pack(none, 2, 8, place, &n_rows), E_DATA, "");
}

/* ---- a row ---- */
enum { ROW = 16 };
static const int32_t A[] = {11, 12, 13, 14, 15}, B[] = {21}, C[] = {31, 32, 33, 34};
static const int32_t *const DOCUMENTS[] = {A, B, C};
static const int64_t LENGTHS[] = {5, 1, 4};

static struct row filled(void) {
    struct row r = {test_block(ROW * 4), test_block(ROW * 4), test_block(ROW * 4), test_block(ROW * 4)};
    assert_ok(order_row(DOCUMENTS, LENGTHS, 3, ROW, r));
    return r;
}

static void compare(const char *what, const int32_t *yours, const int32_t *right) {
    for (int t = 0; t < ROW; t++)
        if (yours[t] != right[t])
            fail_msg("documents of 5, 1 and 4 tokens, at %d: you say %s %d, right is %d", t, what, yours[t], right[t]);
}

TEST(test_order_row_has_its_documents) {
    static const int32_t token[ROW] = {11, 12, 13, 14, 15, 21, 31, 32, 33, 34};
    static const int32_t segment[ROW] = {1, 1, 1, 1, 1, 2, 3, 3, 3, 3};
    static const int32_t position[ROW] = {0, 1, 2, 3, 4, 0, 0, 1, 2, 3};
    struct row r = filled();
    compare("token", r.token, token);
    compare("segment", r.segment, segment);
    compare("position", r.position, position);
}

TEST(test_order_row_has_no_target_in_another_document) {
    static const int32_t target[ROW] = {12, 13, 14, 15, -1, -1, 32, 33, 34, -1, -1, -1, -1, -1, -1, -1};
    compare("target", filled().target, target);
}

TEST(test_order_sees_the_own_document_only) {
    static const int32_t segment[] = {1, 1, 1, 2, 3, 3, 0, 0};
    static const char *const right[] = {"1.......", "11......", "111.....", "...1....",
                                        "....1...", "....11..", "........", "........"};
    for (int q = 0; q < 8; q++)
        for (int k = 0; k < 8; k++) {
            int sees = -1;
            assert_ok(order_sees(segment, q, k, &sees));
            if (sees != (right[q][k] == '1'))
                fail_msg("segments 1 1 1 2 3 3 0 0: query %d, key %d: you say %d, right is %d", q, k, sees,
                         right[q][k] == '1');
        }
}

TESTS(unit_test(test_order_of_the_first_epoch_is_the_librarys), unit_test(test_order_of_later_epochs_is_the_librarys),
      unit_test(test_order_is_that_of_one_rank_on_any_number),
      unit_test(test_order_resized_leaves_nothing_out_and_takes_nothing_twice),
      unit_test(test_order_pack_overlaps_nothing), unit_test(test_order_pack_takes_the_row_with_the_least_room),
      unit_test(test_order_pack_refuses_what_fits_into_no_row), unit_test(test_order_row_has_its_documents),
      unit_test(test_order_row_has_no_target_in_another_document), unit_test(test_order_sees_the_own_document_only))

/* ranks: 1  device: cpu
 *
 * Rates of links over time: known messages, by hand and by brute force; and the links that groups of ranks send over,
 * on nodes of eight, with and without rails. */
#include "lib/trace/trace_state.h"
#include "tests/test.h"
#include <stdlib.h>

/* The integral of a link's rates over time. */
static double bytes_of(const struct link_rate *r, int n, int link) {
    double bytes = 0;
    for (int i = 0, last = -1; i < n; i++) {
        if (r[i].link != link) continue;
        if (last >= 0) bytes += r[last].bytes_per_s * 1e-9 * (double)(r[i].at_ns - r[last].at_ns);
        last = i;
    }
    return bytes;
}

/* Link 0 has 100 bytes in [0, 100) and 300 in [50, 150): 1, 4, 3 and 0 bytes per nanosecond. Link 1 has 80 in
 * [100, 140) and 40 in [140, 150): 2, 4 and 0. */
TEST(test_rates_of_overlapping_messages_add) {
    static const struct link_message m[] = {{0, 100, 100, 0}, {100, 140, 80, 1}, {50, 150, 300, 0}, {140, 150, 40, 1}};
    static const struct link_rate expected[] = {{0, 0, 1e9}, {50, 0, 4e9}, {100, 0, 3e9}, {100, 1, 2e9},
                                                {140, 1, 4e9}, {150, 0, 0}, {150, 1, 0}};
    int n;
    struct link_rate *r = link_rates(m, 4, &n);
    assert_int_equal(n, 7);
    for (int i = 0; i < n; i++) {
        assert_int_equal(r[i].at_ns, expected[i].at_ns);
        assert_int_equal(r[i].link, expected[i].link);
        assert_close(r[i].bytes_per_s, expected[i].bytes_per_s, 0);
    }
    free(r);
}

/* Two messages of no time at the same moment are one pulse of a nanosecond. One that ends before it starts, as clocks
 * of two hosts may say, is a pulse, too. Where one message ends as an equal one starts, the rate stays. */
TEST(test_messages_without_a_duration_lose_nothing) {
    static const struct link_message m[] = {{10, 10, 7, 0}, {10, 10, 5, 0}, {50, 30, 3, 0}, {100, 110, 20, 0},
                                            {110, 120, 20, 0}};
    int n;
    struct link_rate *r = link_rates(m, 5, &n);
    assert_int_equal(n, 6);
    assert_close(r[0].bytes_per_s, 12e9, 0);
    assert_int_equal(r[1].at_ns, 11);
    assert_close(r[1].bytes_per_s, 0, 0);
    assert_int_equal(r[2].at_ns, 50);
    assert_close(r[2].bytes_per_s, 3e9, 0);
    assert_int_equal(r[5].at_ns, 120);
    assert_close(bytes_of(r, n, 0), 55, 1e-12);
    free(r);
    r = link_rates(m, 0, &n);
    assert_int_equal(n, 0);
    free(r);
}

/* Thousands of messages in flight at once, pulses of terabytes per second among them: the rate at every moment is the
 * sum over the messages, to a rounding of each, and afterwards it is 0. */
TEST(test_many_overlapping_messages) {
    enum { N = 3000, LINKS = 3 };
    static struct link_message m[N];
    double sent[LINKS] = {0};
    uint64_t seed = 1;
    for (int i = 0; i < N; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t start = (int64_t)(seed >> 40), length = i % 7 ? (int64_t)(seed >> 20 & 0xffffff) : 0;
        m[i] = (struct link_message){start, start + length, (double)(1 + (seed >> 12 & 0xfffff)), i % LINKS};
        sent[i % LINKS] += m[i].bytes;
    }
    int n;
    struct link_rate *r = link_rates(m, N, &n);
    for (int link = 0; link < LINKS; link++) assert_close(bytes_of(r, n, link), sent[link], 1e-12 * sent[link]);
    for (int i = 0; i < n; i += 97) {
        double sum = 0;
        for (int k = 0; k < N; k++) {
            int64_t end = m[k].end_ns > m[k].start_ns ? m[k].end_ns : m[k].start_ns + 1;
            if (m[k].link == r[i].link && m[k].start_ns <= r[i].at_ns && r[i].at_ns < end)
                sum += m[k].bytes * 1e9 / (double)(end - m[k].start_ns);
        }
        assert_close(r[i].bytes_per_s, sum, 1e-12 * sum);
    }
    for (int link = 0; link < LINKS; link++)
        for (int i = n - 1, seen = 0; i >= 0 && !seen; i--)
            if (r[i].link == link) assert_close(r[i].bytes_per_s, 0, 0), seen = 1;
    free(r);
}

/* ---- links of groups: 16 ranks on two nodes of eight ---- */
enum { RANKS = 16 };
struct world { struct trace_rank ranks[RANKS]; struct trace_data data; struct plan plan; struct span span[4]; };

static struct world *world_of(struct mesh_sizes sizes, bool known) {
    static struct world w;
    w = (struct world){.data = {.n_ranks = RANKS, .ranks = w.ranks, .n_chunks = 1}};
    w.plan.mesh = sizes, w.plan.n_microbatches = 1;
    for (int r = 0; r < RANKS; r++)
        w.ranks[r] = (struct trace_rank){.place = mesh_place_of(&sizes, r), .node = r / 8, .spans = w.span};
    if (known)
        w.data.links = (struct trace_links){
            .n = 3, .host_bytes_per_s = 5,
            .level = {{"nvlink", 8, 100}, {"rail", RANKS, 20}, {"spine", INT64_MAX, 10}}};
    return &w;
}

static void expect_sent(struct world *w, int rank, double a, double b, double c) {
    double sent[MAX_TRACE_LEVELS + 2] = {0};
    int n;
    struct trace_sent *x = trace_sent_create(&w->data, &w->plan);
    struct link_message *m = trace_sent_by(x, rank, &n);
    for (int i = 0; i < n; i++) sent[m[i].link] += m[i].bytes;
    free(m);
    trace_sent_destroy(&x);
    assert_close(sent[0], a, 1e-12);
    assert_close(sent[1], b, 1e-12);
    assert_close(sent[2], c, 1e-12);
}

static void collective(struct world *w, int rank, enum mesh_axis axis, enum comm_op op, double bytes) {
    w->span[0] = (struct span){.kind = SPAN_COMM, .what = (uint8_t)op, .axis = (uint8_t)axis, .bytes = bytes,
                               .end_s = 1};
    w->ranks[rank].n_spans = 1;
}

/* The group has 15 edges, and 14 lie inside of nodes. Without a file, nodes are the ranks' own. */
TEST(test_a_group_over_two_nodes) {
    for (int known = 0; known < 2; known++) {
        struct world *w = world_of((struct mesh_sizes){.dp = RANKS}, known);
        collective(w, 5, AXIS_DP, COMM_ALL_REDUCE, 150);
        expect_sent(w, 5, 140, 10, 0);
        collective(w, 5, AXIS_SELF, COMM_ALL_REDUCE, 150);           /* the world */
        expect_sent(w, 5, 140, 10, 0);
        collective(w, 5, AXIS_DP, COMM_ALL_TO_ALL, 150);             /* 7 peers of 15 are near */
        expect_sent(w, 5, 70, 80, 0);
        expect_sent(w, 6, 0, 0, 0);
    }
    struct world *w = world_of((struct mesh_sizes){.tp = 8, .dp = 2}, true);
    collective(w, 3, AXIS_TP, COMM_ALL_GATHER, 70);
    expect_sent(w, 3, 70, 0, 0);
    collective(w, 3, AXIS_DP, COMM_ALL_GATHER, 70);
    expect_sent(w, 3, 0, 70, 0);
}

/* Rank 3 reaches rank 11 on its rail, and rank 12 over the spine: 1 and 7 of its 15 peers. */
TEST(test_rails_join_a_rank_of_each_node) {
    struct world *w = world_of((struct mesh_sizes){.dp = RANKS}, true);
    w->data.links.rails = true;
    assert_int_equal(trace_link_between(&w->data, 3, 4), 0);
    assert_int_equal(trace_link_between(&w->data, 3, 11), 1);
    assert_int_equal(trace_link_between(&w->data, 3, 12), 2);
    collective(w, 3, AXIS_DP, COMM_ALL_REDUCE, 150);
    expect_sent(w, 3, 140, 10, 0);
    collective(w, 3, AXIS_DP, COMM_ALL_TO_ALL, 150);
    expect_sent(w, 3, 70, 10, 70);
    assert_string_equal(trace_link_name(&w->data, 2), "spine");
    assert_string_equal(trace_link_name(&w->data, 4), "from host");
    assert_close(trace_link_bytes_per_s(&w->data, 1), 20, 0);
    assert_close(trace_link_bytes_per_s(&w->data, 3), 5, 0);
}

/* A message lasts from its send to its receive; without a receive, as long as the send. One to the rank itself is a
 * copy in memory. */
TEST(test_a_message_lasts_until_it_is_received) {
    struct world *w = world_of((struct mesh_sizes){.pp = 2, .tp = 8}, true);
    int n;
    w->span[0] = (struct span){.kind = SPAN_ACTION, .what = SEND_F, .id = 1, .bytes = 64, .start_s = 1, .end_s = 2};
    w->span[1] = (struct span){.kind = SPAN_ACTION, .what = SEND_F, .id = 0, .bytes = 32, .start_s = 1, .end_s = 2};
    w->span[2] = (struct span){.kind = SPAN_ACTION, .what = RECV_F, .id = 0, .bytes = 64, .start_s = 3, .end_s = 4};
    w->ranks[2].n_spans = 2;
    for (int received = 0; received < 2; received++) {
        w->ranks[10].spans = &w->span[2], w->ranks[10].n_spans = received;
        struct trace_sent *x = trace_sent_create(&w->data, &w->plan);
        struct link_message *m = trace_sent_by(x, 2, &n);
        assert_int_equal(n, 1);
        assert_int_equal(m->link, 1);
        assert_int_equal(m->start_ns, 1000000000);
        assert_int_equal(m->end_ns, received ? 4000000000 : 2000000000);
        free(m);
        assert_null(trace_sent_by(x, 10, &n));
        assert_int_equal(n, 0);
        trace_sent_destroy(&x);
    }
}

/* A copy lasts until the row that awaits it; each way is a link of its own. */
TEST(test_parked_values_go_to_the_host_and_back) {
    struct world *w = world_of((struct mesh_sizes){.dp = RANKS}, true);
    int n;
    w->span[0] = (struct span){.kind = SPAN_ROW, .what = ROW_PARK, .id = 4, .bytes = 10, .start_s = 0, .end_s = 1};
    w->span[1] = (struct span){.kind = SPAN_ROW, .what = ROW_COPIED, .id = 3, .start_s = 2, .end_s = 3};
    w->span[2] = (struct span){.kind = SPAN_ROW, .what = ROW_COPIED, .id = 4, .start_s = 3, .end_s = 5};
    w->span[3] = (struct span){.kind = SPAN_ROW, .what = ROW_UNPARK, .id = 4, .action = 1, .bytes = 20, .start_s = 6,
                               .end_s = 7};
    w->ranks[0].n_spans = 4;
    struct trace_sent *x = trace_sent_create(&w->data, &w->plan);
    struct link_message *m = trace_sent_by(x, 0, &n);
    assert_int_equal(n, 2);
    assert_true(m[0].link == 3 && m[0].end_ns == 5000000000 && m[0].bytes == 10);
    assert_true(m[1].link == 4 && m[1].end_ns == 7000000000 && m[1].bytes == 20);
    free(m);
    trace_sent_destroy(&x);
}

TESTS(unit_test(test_rates_of_overlapping_messages_add), unit_test(test_messages_without_a_duration_lose_nothing),
      unit_test(test_many_overlapping_messages), unit_test(test_a_group_over_two_nodes),
      unit_test(test_rails_join_a_rank_of_each_node), unit_test(test_a_message_lasts_until_it_is_received),
      unit_test(test_parked_values_go_to_the_host_and_back))

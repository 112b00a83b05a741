/* ranks: 1  device: cpu */
/* Emulated links must take the time of the simulation, except for rounding. All ranks' walks run in this process, with
 * their own links. The time is not the machine's: it jumps to the next message that leaves or arrives. All algorithms
 * are tested, with the walk's few buffers for terms. */
#include "lib/comm/hops/hop_simulate.h"
#include "lib/comm/hops/link_clock.h"
#include "lib/comm/hops/comm_rules.h"
#include "lib/comm/hops/test_hop_world.h"
#include "tests/test.h"

#include <math.h>

struct timed {
    struct world world;                       /* moves the bytes (test_hop_world.h) */
    struct link_clock clock[MAX_RANKS];
    _Atomic(uint64_t) nic[MAX_RANKS * LINK_WAYS];
    const struct hop_shape *shape;
    struct hop_ticket *sent[MAX_RANKS][MAX_RANKS][MAX_MESSAGES];
    int n_sent[MAX_RANKS][MAX_RANKS], n_expected[MAX_RANKS][MAX_RANKS];
    struct { struct hop_ticket *ticket, **sent; } known[MAX_RANKS * MAX_MESSAGES];   /* sent: its sender's ticket */
    int n_known;
    double now;
};
static struct timed *timed_of(struct at *at) { return (struct timed *)at->world; }

static enum status timed_expect(void *self, int peer, int64_t bytes, struct hop_ticket *ticket) {
    struct at *at = self;
    struct timed *t = timed_of(at);
    link_describe(&t->clock[at->rank], hop_node(t->shape, at->rank), hop_node(t->shape, peer), bytes, ticket);
    t->known[t->n_known].ticket = ticket;
    t->known[t->n_known++].sent = &t->sent[peer][at->rank][t->n_expected[peer][at->rank]++];
    return link_expect(&t->clock[at->rank], ticket);
}

/* test_hop_world.h gets a ticket of its own, so that `ticket` keeps the fields of link_clock.h. */
static enum status timed_send(void *self, int peer, const void *from, int64_t bytes, struct hop_ticket *ticket) {
    struct at *at = self;
    struct timed *t = timed_of(at);
    struct hop_ticket message = {0};
    TRY(world_send(self, peer, from, bytes, &message));
    link_describe(&t->clock[at->rank], hop_node(t->shape, at->rank), hop_node(t->shape, peer), bytes, ticket);
    ticket->sending = true; ticket->there = t->n_known;
    ticket->handle[0] = message.handle[0];
    link_send(&t->clock[at->rank], t->now, ticket);
    t->known[t->n_known++].ticket = ticket;
    t->sent[at->rank][peer][t->n_sent[at->rank][peer]++] = ticket;
    return OK;
}

static enum status timed_receive(void *self, int peer, void *to, int64_t bytes, struct hop_ticket *ticket) {
    struct hop_ticket message = {0};
    TRY(world_receive(self, peer, to, bytes, &message));
    ticket->handle[0] = message.handle[0], ticket->handle[1] = message.handle[1];
    return OK;
}

static enum status timed_done(void *self, struct hop_ticket *ticket, bool *done) {
    double now = timed_of(self)->now;
    *done = ticket->sending ? now >= ticket->stamp : ticket->landed && now >= ticket->there;
    if (!*done || ticket->sending) return OK;
    struct hop_ticket message = {.handle = {ticket->handle[0], ticket->handle[1]},
                                 .stamp = (double)((struct message *)ticket->handle[0])->bytes};
    return world_done(self, &message, done);
}

static const struct hop_transport on_links = {timed_expect, timed_send, timed_receive, timed_done, world_union};

/* The stamp of a sent message arrives at once, as it does for comm_hops.c on one host. */
static void land(struct timed *t) {
    for (int i = 0; i < t->n_known; i++) {
        struct hop_ticket *ticket = t->known[i].ticket, **sent = t->known[i].sent;
        if (!sent || !*sent || ticket->stamped) continue;
        ticket->stamp = (*sent)->stamp + 1e-15 * (double)(sent == 0 ? 0 : (*sent)->there);
        ticket->stamped = true;
    }
    for (int r = 0; r < t->shape->n; r++) link_land_all(&t->clock[r], t->now);
}

/* The time of the next event: a message leaves or arrives. */
static double next_time(const struct timed *t) {
    double next = INFINITY;
    for (int i = 0; i < t->n_known; i++) {
        const struct hop_ticket *ticket = t->known[i].ticket;
        if ((ticket->sending || ticket->stamped) && ticket->stamp > t->now) next = fmin(next, ticket->stamp);
        if (!ticket->sending && ticket->landed && ticket->there > t->now) next = fmin(next, ticket->there);
    }
    return next;
}

/* Run every rank's walk as far as possible at this time. @return whether all are done */
static bool all_are_done(struct timed *t, struct rank rank[]) {
    bool done = true;
    for (int before = -1, now = 0; now != before;) {
        before = now;
        now = 0;
        for (int r = 0; r < t->shape->n; r++) {
            int of;
            land(t);
            assert_ok(hop_walk_push(rank[r].walk, &rank[r].done));
            now += hop_walk_done(rank[r].walk, &of) - t->clock[r].n_expected;
        }
        now += t->n_known;
    }
    for (int r = 0; r < t->shape->n; r++) done &= rank[r].done;
    return done;
}

static double seconds_of(const struct comm_algorithm *algorithm, const struct hop_shape *shape,
                         const struct hop_links *links) {
    struct timed *t = calloc(1, sizeof *t);
    struct rank rank[MAX_RANKS];
    t->shape = shape;
    t->world.n = shape->n;
    t->world.pair = calloc((size_t)(shape->n * shape->n), sizeof *t->world.pair);
    for (int r = 0; r < shape->n; r++) {
        t->clock[r] = (struct link_clock){.links = links, .nic = t->nic};
        t->world.at[r].world = &t->world, t->world.at[r].rank = r;
        open_rank(algorithm, shape, &t->world, &on_links, r, &rank[r]);
    }
    while (!all_are_done(t, rank)) {
        t->now = next_time(t);
        assert_true(isfinite(t->now));
    }
    double seconds = t->now;
    for (int r = 0; r < shape->n; r++) {
        const char *wrong = rank_is_wrong(shape, r, &rank[r]);
        if (wrong) fail_msg("%s: %s", algorithm->name, wrong);
        close_rank(&rank[r]);
        link_clock_free(&t->clock[r]);
    }
    free(t->world.pair);
    free(t);
    return seconds;
}

/* n ranks on nodes of of_a_node ranks, in blocks or in turn, with a NIC per rank or per node. The links' seconds have
 * no common divisor, because if two messages are ready at the same time, either may go first. Two trees have many such
 * pairs, so their tolerance is a twentieth. */
static void check(const struct comm_algorithm *algorithm, int n, int of_a_node, bool cyclic, bool shared) {
    int node[MAX_RANKS];
    for (int r = 0; r < n; r++) node[r] = cyclic ? r % (n / of_a_node) : r / of_a_node;
    const struct hop_links links = {{1.2345678e-3, 4.3217891e-3}, {1.0317e-6, 0.97345e-5}, 0, shared};
    const struct hop_shape shape = {COMM_ALL_REDUCE, n, 0, 64 * (int64_t)n, 48, 1, node};
    if (!comm_algorithm_fits(algorithm, &shape)) return;
    double simulated, seconds = seconds_of(algorithm, &shape, &links);
    assert_ok(hop_simulate(algorithm, &shape, 8, &links, NULL, NULL, &simulated));
    double bound = algorithm == comm_algorithm_find("double-tree") ? 0.05 : 1e-9;
    if (fabs(seconds - simulated) > bound * simulated)
        fail_msg("%s on %d ranks, %d a node%s, a NIC a %s: %.9f s, simulated %.9f", algorithm->name, n, of_a_node,
                 cyclic ? ", cyclic" : "", shared ? "node" : "rank", seconds, simulated);
}

TEST(test_emulated_links_take_what_is_simulated) {
    static const int shape[][2] = {{2, 1}, {3, 1}, {4, 2}, {5, 5}, {7, 7}, {8, 4}};
    for (int a = 0; comm_algorithms[a]; a++)
        for (int s = 0; s < 6; s++)
            for (int which = 0; which < 4; which++)
                check(comm_algorithms[a], shape[s][0], shape[s][1], which & 1, which & 2);
}

/* A rank that has computed for long finds two messages. The one that it announced first left last, and lands last. */
TEST(test_what_left_first_lands_first) {
    const struct hop_links links = {{1e-3, 0}, {1e-6, 0}, 0, false};
    struct link_clock clock = {.links = &links};
    struct hop_ticket late = {0}, early = {0};
    link_describe(&clock, 0, 0, 1000, &late), link_describe(&clock, 0, 0, 1000, &early);
    assert_ok(link_expect(&clock, &late));
    assert_ok(link_expect(&clock, &early));
    late.stamp = 5.5e-3, early.stamp = 5e-3;
    late.stamped = early.stamped = true;
    link_land_all(&clock, 5.2e-3);
    assert_true(early.landed && !late.landed);
    link_land_all(&clock, 1);
    assert_close(early.there, 6e-3, 1e-15);
    assert_close(late.there, 7e-3, 1e-15);                 /* the receiver's link is busy until 6 ms */
    late.landed = early.landed = false;
    clock.own[0][LINK_IN] = 0;
    assert_ok(link_expect(&clock, &late));
    assert_ok(link_expect(&clock, &early));
    link_land_all(&clock, 1);
    assert_close(early.there, 6e-3, 1e-15);
    link_clock_free(&clock);
}

/* ---- --comm-algorithm: the rules that it sets, and the texts that it refuses. ---- */

static struct comm_rule rule[COMM_MAX_AXES];

TEST(test_one_for_all_or_by_axis) {
    assert_ok(comm_rules_parse("ring", rule));
    for (int a = 0; a < COMM_MAX_AXES; a++) assert_string_equal(comm_rule_name(&rule[a]), "ring");
    assert_ok(comm_rules_parse("dp=hierarchical,tp=library", rule));
    for (int a = 0; a < COMM_MAX_AXES; a++)
        assert_string_equal(comm_rule_name(&rule[a]), a == AXIS_DP   ? "hierarchical"
                                                      : a == AXIS_TP ? "library"
                                                                     : "auto");
    assert_fails(comm_rules_parse("rings", rule), E_CONFIG, "\"rings\"", "halving-near");
    assert_fails(comm_rules_parse("dp=ring,tp", rule), E_CONFIG, "\"tp\"", "dp=tp");
    assert_fails(comm_rules_parse("dq=ring", rule), E_CONFIG, "\"dq\"", "dp", "tie");
    assert_fails(comm_rules_parse("dp=", rule), E_CONFIG, "\"\"");
}

/* The rule chooses the algorithm. Without a rule, or if the rule's algorithm does not have the operation, large
 * operations go pairwise. On emulated links no operation uses the library. */
TEST(test_who_carries_an_operation) {
    const struct comm_algorithm *chosen;
    struct hop_shape shape = {COMM_ALL_REDUCE, 6, 0, 1 << 20, 0, 1, NULL};
    const struct comm_rule none = {0}, library = {.library = true}, halving = {false, comm_algorithm_find("halving")};
    assert_ok(comm_rule_choose(&none, &shape, FP32, false, NULL, "dp", &chosen));
    assert_string_equal(chosen->name, "pairwise");
    assert_ok(comm_rule_choose(&library, &shape, FP32, false, NULL, "dp", &chosen));
    assert_null(chosen);
    assert_ok(comm_rule_choose(&halving, &shape, FP32, false, NULL, "dp", &chosen));
    assert_string_equal(chosen->name, "halving");
    shape.op = COMM_REDUCE_SCATTER;
    assert_fails(comm_rule_choose(&halving, &shape, FP32, false, NULL, "dp", &chosen), E_CONFIG, "6 ranks",
                 "power of two", "ring");
    shape.op = COMM_BROADCAST;
    assert_ok(comm_rule_choose(&halving, &shape, FP32, false, NULL, "dp", &chosen));
    assert_null(chosen);
    assert_ok(comm_rule_choose(&library, &shape, FP32, true, NULL, "dp", &chosen));
    assert_string_equal(chosen->name, "tree");
    shape.op = COMM_SEND;
    assert_ok(comm_rule_choose(&none, &shape, FP32, true, NULL, "pp", &chosen));
    assert_string_equal(chosen->name, "message");
}

/* auto chooses the fastest algorithm on known links. Small sums take the fewest messages. Large sums of 6 ranks on
 * nodes of 3 send the fewest bytes between nodes. On equal links pairwise is the fastest. */
TEST(test_auto_is_the_fastest_on_known_links) {
    const int node[] = {0, 0, 0, 1, 1, 1};
    const struct hop_links slow = {{1e-5, 1e-3}, {1e-10, 1e-7}, 0, false};
    const struct hop_links equal = {{1e-5, 1e-5}, {1e-9, 1e-9}, 0, false};
    const struct comm_rule none = {0}, ring = {false, comm_algorithm_find("ring")};
    struct hop_shape shape = {COMM_ALL_REDUCE, 6, 0, 1 << 20, 1 << 16, 16, node};
    const struct comm_algorithm *chosen;
    for (int twice = 0; twice < 2; twice++) {
        shape.count = 1 << 20;
        assert_ok(comm_rule_choose(&none, &shape, FP32, true, &slow, "dp", &chosen));
        assert_string_equal(chosen->name, "hierarchical");
        assert_ok(comm_rule_choose(&none, &shape, FP32, true, &equal, "dp", &chosen));
        assert_string_equal(chosen->name, "pairwise");
        shape.count = 1;
        assert_ok(comm_rule_choose(&none, &shape, FP32, true, &slow, "dp", &chosen));
        for (int i = 0; comm_algorithms[i]; i++) {
            double seconds, least;
            if (!comm_algorithm_fits(comm_algorithms[i], &shape)) continue;
            assert_ok(hop_simulate(comm_algorithms[i], &shape, 4, &slow, NULL, NULL, &seconds));
            assert_ok(hop_simulate(chosen, &shape, 4, &slow, NULL, NULL, &least));
            assert_true(least <= seconds);
        }
    }
    assert_ok(comm_rule_choose(&ring, &shape, FP32, true, &slow, "dp", &chosen));
    assert_string_equal(chosen->name, "ring");
    shape.op = COMM_SEND;
    assert_ok(comm_rule_choose(&none, &shape, FP32, true, &slow, "pp", &chosen));
    assert_string_equal(chosen->name, "message");
}

TESTS(unit_test(test_emulated_links_take_what_is_simulated), unit_test(test_what_left_first_lands_first),
      unit_test(test_one_for_all_or_by_axis), unit_test(test_who_carries_an_operation),
      unit_test(test_auto_is_the_fastest_on_known_links))

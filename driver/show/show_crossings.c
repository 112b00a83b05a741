/* trivium show comm --crossings: the bandwidths between nodes at which an algorithm, codec or technique beats a ring.
 *
 * All times are simulated, with the given latencies and links inside nodes. A codec takes a pairwise all-to-all and
 * all-gather of codes (dp/dp_coded.c), and three passes over the gradients in memory (encode, decode and add, decode),
 * which are a lower bound of its arithmetic. Codecs change the sums; algorithms do not.
 *
 * The time of a technique is that of its exchanges by rings, with these bytes of weights and as many of gradients, in a
 * step of one microbatch. zero 3 reduce-scatters gradients and all-gathers weights twice, as weights or as codes (each
 * rank encodes its shard and decodes all). With shards over a node these exchanges stay in the node, and gradients are
 * all-reduced between nodes; with a second shard, the gather of backward stays in the node (zero/). Local steps average
 * replicas once in H steps (dp_variants/local/). Groups that send at the same time share a node's NIC, if any. */
#include "driver/show/show_comm.h"

#include "driver/command.h"
#include "lib/base/integer.h"
#include "lib/comm/hops/hop_simulate.h"
#include "lib/ops/codec.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The simulated bandwidths, in powers of ten of bytes per second; and the number of bisections of a crossing. */
enum { FIRST_POWER = 6, LAST_POWER = 12, PER_POWER = 2, N_POINTS = (LAST_POWER - FIRST_POWER) * PER_POWER + 1 };
enum { N_HALVINGS = 8, MAX_RANGES = 4, PASSES = 3 };
static const double shown[] = {1.25e8, 1.25e9, 1.25e10};   /* 1, 10 and 100 Gbit/s */
enum { N_SHOWN = 3 };

enum among { ALL_RANKS, RANKS_OF_A_NODE, ONE_OF_EACH_NODE };
struct part { enum comm_op op; enum among among; };
enum { MAX_PARTS = 3, LOCAL_STEPS = 10 };
/* Either an all-reduce by an algorithm, or an all-reduce of codes, or a technique: n_parts exchanges by rings, once in
 * `every` steps, whose gathers carry codes if it has a codec. */
struct contender {
    const char *name;
    const struct comm_algorithm *algorithm;
    struct codec codec;
    int n_parts, every;
    struct part part[MAX_PARTS];
};
static const struct contender techniques[] = {
    {.name = "zero 3", .n_parts = 3, .every = 1,
     .part = {{COMM_REDUCE_SCATTER, ALL_RANKS}, {COMM_ALL_GATHER, ALL_RANKS}, {COMM_ALL_GATHER, ALL_RANKS}}},
    {.name = "zero 3, weight-codec int8", .n_parts = 3, .every = 1, .codec = {CODEC_INT8, 0},
     .part = {{COMM_REDUCE_SCATTER, ALL_RANKS}, {COMM_ALL_GATHER, ALL_RANKS}, {COMM_ALL_GATHER, ALL_RANKS}}},
    {.name = "zero 3, zero-secondary node", .n_parts = 3, .every = 1,
     .part = {{COMM_REDUCE_SCATTER, ALL_RANKS}, {COMM_ALL_GATHER, ALL_RANKS}, {COMM_ALL_GATHER, RANKS_OF_A_NODE}}},
    {.name = "zero 2, shard node", .n_parts = 3, .every = 1,
     .part = {{COMM_REDUCE_SCATTER, RANKS_OF_A_NODE}, {COMM_ALL_REDUCE, ONE_OF_EACH_NODE},
              {COMM_ALL_GATHER, RANKS_OF_A_NODE}}},
    {.name = "local-steps 10", .n_parts = 1, .every = LOCAL_STEPS, .part = {{COMM_ALL_REDUCE, ALL_RANKS}}},
};
enum { N_TECHNIQUES = sizeof techniques / sizeof *techniques };
struct range { double from, to; };      /* bandwidths; from 0: the slowest; to INFINITY: the fastest */
struct verdict { struct range range[MAX_RANGES]; int n_ranges; double seconds[N_SHOWN]; };

static double bandwidth_of(int point) { return pow(10, FIRST_POWER + (double)point / PER_POWER); }

/* ---- seconds ---- */

static enum status coded_seconds(const struct network *net, const struct codec *codec, const struct hop_links *links,
                                 double *seconds) {
    static const enum comm_op ops[] = {COMM_ALL_TO_ALL, COMM_ALL_GATHER};
    int n = net->shape.n;
    *seconds = PASSES * (double)(net->shape.count * NETWORK_ELEMENT) * links->s_per_byte_added;
    for (int i = 0; i < 2; i++) {
        int64_t bytes = codec_bytes(codec, ceil_div(net->shape.count, n));
        const struct hop_shape shape = {ops[i], n, 0, bytes, 0, 1, net->node};
        double phase;
        TRY(hop_simulate(comm_algorithm_find("pairwise"), &shape, 1, links, NULL, NULL, &phase));
        *seconds += phase;
    }
    return OK;
}

/* Simulate one part among all ranks, the ranks of a node, or one rank of each node. All nodes are equal. */
static enum status part_seconds(const struct network *net, const struct part *part, const struct codec *codec,
                                const struct hop_links *links, double *seconds) {
    const int n = net->shape.n, per_node = n / net->n_nodes;
    const bool inside = part->among == RANKS_OF_A_NODE, across = part->among == ONE_OF_EACH_NODE;
    struct hop_shape shape = net->shape;
    struct hop_links here = *links;
    int *node = calloc((size_t)n, sizeof *node);
    if (!node) return FAIL(E_MEMORY, "no memory for the nodes of %d ranks", n);
    for (int r = 0; r < n; r++) node[r] = inside ? 0 : across ? r : net->node[r];
    shape.op = part->op, shape.node = node;
    shape.n = inside ? per_node : across ? net->n_nodes : n;
    if (across) shape.count = ceil_div(shape.count, per_node);
    if (part->op != COMM_ALL_REDUCE) shape.count = ceil_div(shape.count, shape.n);
    if (across && here.nic_per_node) here.s_per_byte[1] *= per_node;
    const bool coded = codec->kind != CODEC_NONE && part->op == COMM_ALL_GATHER;
    const double work = coded ? (double)((shape.n + 1) * shape.count * NETWORK_ELEMENT) : 0;
    if (coded) shape.count = codec_bytes(codec, shape.count);
    *seconds = 0;
    enum status status = shape.n == 1 ? OK : hop_simulate(comm_algorithm_find("ring"), &shape,
                                                          coded ? 1 : NETWORK_ELEMENT, &here, NULL, NULL, seconds);
    *seconds += work * links->s_per_byte_added;
    free(node);
    return status;
}

static enum status parts_seconds(const struct network *net, const struct contender *c, const struct hop_links *links,
                                 double *seconds) {
    *seconds = 0;
    for (int i = 0; i < c->n_parts; i++) {
        double one;
        TRY(part_seconds(net, &c->part[i], &c->codec, links, &one));
        *seconds += one / c->every;
    }
    return OK;
}

static enum status seconds_of(const struct network *net, const struct contender *c, double bandwidth, double *seconds) {
    struct hop_links links = net->links;
    links.s_per_byte[1] = 1 / bandwidth;
    if (c->n_parts) return parts_seconds(net, c, &links, seconds);
    if (!c->algorithm) return coded_seconds(net, &c->codec, &links, seconds);
    return hop_simulate(c->algorithm, &net->shape, NETWORK_ELEMENT, &links, NULL, NULL, seconds);
}

static enum status beats_ring(const struct network *net, const struct contender *c, double bandwidth, bool *beats) {
    const struct contender ring = {.name = "ring", .algorithm = comm_algorithm_find("ring")};
    double own, rings;
    TRY(seconds_of(net, c, bandwidth, &own));
    TRY(seconds_of(net, &ring, bandwidth, &rings));
    *beats = own < rings * (1 - 1e-9);                               /* the margin ignores rounding */
    return OK;
}

/* ---- crossings ---- */

/* Bisect between two bandwidths; at one of them the contender beats the ring. */
static enum status find_crossing(const struct network *net, const struct contender *c, double low, double high,
                                 bool low_beats, double *at) {
    for (int i = 0; i < N_HALVINGS; i++) {
        double middle = sqrt(low * high);
        bool beats;
        TRY(beats_ring(net, c, middle, &beats));
        if (beats == low_beats) low = middle;
        else high = middle;
    }
    *at = sqrt(low * high);
    return OK;
}

static enum status judge(const struct network *net, const struct contender *c, struct verdict *v) {
    bool before = false;
    *v = (struct verdict){0};
    for (int i = 0; i < N_SHOWN; i++) TRY(seconds_of(net, c, shown[i], &v->seconds[i]));
    for (int p = 0; p < N_POINTS; p++) {
        bool beats;
        double at = 0;
        TRY(beats_ring(net, c, bandwidth_of(p), &beats));
        if (p > 0 && beats != before)
            TRY(find_crossing(net, c, bandwidth_of(p - 1), bandwidth_of(p), before, &at));
        if (beats && !before && v->n_ranges < MAX_RANGES) v->range[v->n_ranges++] = (struct range){at, INFINITY};
        if (!beats && before) v->range[v->n_ranges - 1].to = at;
        before = beats;
    }
    return OK;
}

/* ---- output ---- */

/* Two significant digits: 4.1 GB/s, 180 GB/s. */
static void print_bandwidth(double bytes_per_s) {
    bool large = bytes_per_s >= 0.95e9;
    double x = bytes_per_s / (large ? 1e9 : 1e6), unit = pow(10, floor(log10(x)) - 1);
    printf("%.3g %s", round(x / unit) * unit, large ? "GB/s" : "MB/s");
}

static void print_verdict(const struct contender *c, const struct verdict *v) {
    printf("%-28s", c->name);
    for (int i = 0; i < N_SHOWN; i++) printf(" %12.3f", 1e3 * v->seconds[i]);
    printf("   ");
    if (c->algorithm == comm_algorithm_find("ring")) printf("is what others are compared with");
    else if (v->n_ranges == 0)
        printf("at no bandwidth: %s", c->n_parts ? "memory is all that it saves" : "do not use it here");
    for (int i = 0; i < v->n_ranges; i++) {
        const struct range *r = &v->range[i];
        if (i) printf(", and ");
        if (r->from == 0 && isinf(r->to)) printf("at any bandwidth");
        else if (r->from == 0) printf("below "), print_bandwidth(r->to);
        else if (isinf(r->to)) printf("above "), print_bandwidth(r->from);
        else print_bandwidth(r->from), printf(" to "), print_bandwidth(r->to);
    }
    putchar('\n');
}

static json_t *end_of(double bandwidth) {
    return bandwidth == 0 || isinf(bandwidth) ? json_null() : json_real(bandwidth);
}
static json_t *verdict_json(const struct contender *c, const struct verdict *v) {
    json_t *ranges = json_array(), *seconds = json_array();
    for (int i = 0; i < v->n_ranges; i++)
        json_array_append_new(ranges, json_pack("[o, o]", end_of(v->range[i].from), end_of(v->range[i].to)));
    for (int i = 0; i < N_SHOWN; i++) json_array_append_new(seconds, json_real(v->seconds[i]));
    return json_pack("{s:s, s:o, s:o}", "name", c->name, "faster_than_ring", ranges, "seconds", seconds);
}

static enum status say(const struct network *net, const struct contender *c, json_t *all) {
    struct verdict verdict;
    TRY(judge(net, c, &verdict));
    if (all) json_array_append_new(all, verdict_json(c, &verdict));
    else print_verdict(c, &verdict);
    return OK;
}

static enum status compare(const struct network *net, json_t *all) {
    for (int i = 0; comm_algorithms[i]; i++)
        if (comm_algorithm_fits(comm_algorithms[i], &net->shape))
            TRY(say(net, &(struct contender){.name = comm_algorithms[i]->name, .algorithm = comm_algorithms[i]}, all));
    for (enum codec_kind k = CODEC_NONE + 1; k < N_CODECS; k++)
        TRY(say(net, &(struct contender){.name = codec_name(k), .codec = {k, 1}}, all));
    for (int i = 0; i < N_TECHNIQUES && net->shape.n % net->n_nodes == 0; i++) TRY(say(net, &techniques[i], all));
    return OK;
}

enum status show_comm_crossings(const struct plan *plan, const struct comm_question *q) {
    struct network net;
    char source[64];
    TRY(plan_settle_comm(plan));
    json_t *all = q->json ? json_array() : NULL;
    enum status status = network_open(plan, COMM_ALL_REDUCE, q->n_ranks, q->bytes, &net, source, sizeof source);
    if (status == OK && net.n_nodes < 2)
        status = FAIL(E_CONFIG, "crossings: ranks=%d on one node send nothing between nodes; give --ranks-per-node %d",
                      q->n_ranks, q->n_ranks > 2 ? q->n_ranks / 2 : 1);
    if (status == OK && !q->json) {
        network_print(plan, &net, q->bytes, source);
        printf("%28s     ms with a bandwidth between nodes of         faster than a ring\n"
               "%28s 0.125 GB/s    1.25 GB/s    12.5 GB/s\n", "", "");
    }
    if (status == OK) status = compare(&net, all);
    free(net.node);
    if (status == OK && q->json) return command_print(all, JSON_INDENT(1));
    json_decref(all);
    return status;
}

/* trivium show comm: count and simulate tables of hops, without sending (lib/comm/hops/hops.h, hop_simulate.h). */
#include "driver/show/show_comm.h"

#include "driver/command.h"
#include "driver/recipe.h"
#include "driver/report/report.h"
#include "driver/setup.h"
#include "lib/comm/hops/comm_rules.h"
#include "lib/comm/hops/hop_simulate.h"
#include "lib/cost/cluster.h"
#include "lib/run/sent.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENT = NETWORK_ELEMENT, SEGMENT = HOP_SEGMENT_BYTES / ELEMENT, LINE = HOP_LINE_BYTES / ELEMENT };

/* ---- nodes and links ---- */

/* An addition of one byte costs three bytes of memory traffic: two read and one written. */
static enum status links_of(const struct plan *plan, struct hop_links *links, char *source, size_t bytes) {
    const struct comm_options *c = comm_options(plan);
    struct cluster cluster;
    TRY(setup_cluster(plan, &cluster));
    const struct level *in = &cluster.level[LEVEL_NODE], *out = &cluster.level[cluster.n_levels - 1];
    *links = (struct hop_links){{in->alpha_s, out->alpha_s}, {1 / in->bytes_per_s, 1 / out->bytes_per_s},
                                3 / (cluster.memory_bytes_per_s * cluster.stream_part), false};
    snprintf(source, bytes, "%s", c->link_inside[0] && c->link_between[0] ? "as given" : cluster.name);
    return plan_links(plan, links);
}

enum status network_open(const struct plan *plan, enum comm_op op, int n, double bytes, struct network *net,
                         char *source, size_t source_bytes) {
    int64_t whole = (int64_t)(bytes / ELEMENT);
    bool parts = op == COMM_ALL_GATHER || op == COMM_REDUCE_SCATTER || op == COMM_ALL_TO_ALL;
    const struct nodes nodes = plan_nodes(plan);
    *net = (struct network){.shape = {op, n, 0, parts ? whole / n : whole, SEGMENT, LINE, NULL}};
    TRY(links_of(plan, &net->links, source, source_bytes));
    net->node = calloc((size_t)n, sizeof *net->node);
    if (!net->node) return FAIL(E_MEMORY, "no memory for the nodes of %d ranks", n);
    for (int r = 0; r < n && nodes.ranks_per_node; r++) net->node[r] = node_emulated(&nodes, r, n);
    for (int r = 0; r < n; r++)
        if (net->node[r] >= net->n_nodes) net->n_nodes = net->node[r] + 1;
    net->shape.node = net->node;
    return OK;
}

/* ---- one operation, by every algorithm ---- */

struct answer { struct hop_count most, all; double seconds; };

static enum status answer_of(const struct comm_algorithm *algorithm, const struct network *net, struct answer *a) {
    *a = (struct answer){0};
    for (int r = 0; r < net->shape.n; r++) {
        struct hop_table table;
        TRY(hops_make(algorithm, &net->shape, r, &table));
        struct hop_count sent = hops_count(&table, &net->shape, r, FP32);
        hop_table_free(&table);
        for (int b = 0; b < 2; b++) {
            a->all.messages[b] += sent.messages[b], a->all.bytes[b] += sent.bytes[b];
            if (sent.messages[b] > a->most.messages[b]) a->most.messages[b] = sent.messages[b];
            if (sent.bytes[b] > a->most.bytes[b]) a->most.bytes[b] = sent.bytes[b];
        }
    }
    return hop_simulate(algorithm, &net->shape, ELEMENT, &net->links, NULL, NULL, &a->seconds);
}

void network_print(const struct plan *plan, const struct network *net, double bytes, const char *source) {
    printf("%s of %.6g MiB (fp32) among %d ranks on %d node%s", comm_op_name(net->shape.op), bytes / 1048576,
           net->shape.n, net->n_nodes, net->n_nodes == 1 ? "" : "s");
    bool cyclic = comm_options(plan)->placement == PLACEMENT_CYCLIC;
    if (net->n_nodes > 1) printf(", %s", cyclic ? "dealt round the nodes" : "in blocks");
    printf("\nlinks (%s): inside a node %.3g us and %.3g GB/s", source, 1e6 * net->links.latency_s[0],
           1e-9 / net->links.s_per_byte[0]);
    if (net->n_nodes > 1)
        printf("; between nodes %.3g us and %.3g GB/s, a NIC a %s", 1e6 * net->links.latency_s[1],
               1e-9 / net->links.s_per_byte[1], net->links.nic_per_node ? "node" : "rank");
    putchar('\n');
}

static void print_answer(const struct comm_algorithm *algorithm, const struct answer *a) {
    printf("%-13s %8" PRId64 " %8" PRId64 " %14" PRId64 " %14" PRId64 " %14" PRId64 " %12.4f   %s\n", algorithm->name,
           a->most.messages[0], a->most.messages[1], a->most.bytes[0], a->most.bytes[1], a->all.bytes[1],
           1e3 * a->seconds, algorithm->seconds);
}

static json_t *answer_json(const struct comm_algorithm *algorithm, const struct answer *a) {
    return json_pack("{s:s, s:[I, I], s:[I, I], s:[I, I], s:f}", "algorithm", algorithm->name, "messages",
                     (json_int_t)a->most.messages[0], (json_int_t)a->most.messages[1], "bytes",
                     (json_int_t)a->most.bytes[0], (json_int_t)a->most.bytes[1], "bytes_of_all",
                     (json_int_t)a->all.bytes[0], (json_int_t)a->all.bytes[1], "seconds", a->seconds);
}

static enum status compare_algorithms(const struct plan *plan, const struct network *net, double bytes,
                                      const char *source, bool json) {
    json_t *all = json_array();
    enum status status = OK;
    if (!json) {
        network_print(plan, net, bytes, source);
        printf("                messages of a rank              bytes of a rank       bytes of all\n"
               "algorithm       inside  between         inside        between        between           ms   "
               "closed form, without segments, on equal links\n");
    }
    for (int i = 0; comm_algorithms[i] && status == OK; i++) {
        struct answer answer;
        if (!comm_algorithm_fits(comm_algorithms[i], &net->shape)) continue;
        status = answer_of(comm_algorithms[i], net, &answer);
        if (status == OK && json) json_array_append_new(all, answer_json(comm_algorithms[i], &answer));
        if (status == OK && !json) print_answer(comm_algorithms[i], &answer);
    }
    if (status == OK && json) return command_print(all, JSON_INDENT(1));
    if (status == OK)
        printf("messages and bytes: of the rank that sends most; in segments of %d KiB. n ranks, S bytes, L ranks a "
               "node, N "
               "nodes;\na latency and b seconds a byte of a link (0 inside, 1 between), g seconds a byte added\n",
               SEGMENT * ELEMENT >> 10);
    json_decref(all);
    return status;
}

/* ---- one algorithm ---- */

static void print_row(void *self, int rank, const struct hop_row *hop, double from_s, double to_s) {
    static const char *const kinds[] = {"send to", "receive from", "add from", "copy"};
    static const char *const spaces[] = {"source", "result", "scratch"};
    if (rank != *(int *)self) return;
    printf("%10.4f %10.4f  %-12s", 1e3 * from_s, 1e3 * to_s, kinds[hop->kind]);
    if (hop->kind == HOP_COPY) printf(" %s[%" PRId64 "] to", spaces[hop->source], hop->source_first);
    else printf(" %4d  ", hop->peer);
    printf("  %s[%" PRId64 ", %" PRId64 ")\n", spaces[hop->space], hop->first, hop->first + hop->count);
}

static void add_event(void *self, int rank, const struct hop_row *hop, double from_s, double to_s) {
    static const char *const kinds[] = {"send", "receive", "add"};
    if (hop->kind == HOP_COPY) return;
    json_array_append_new(self, json_pack("[s, i, i, f, f]", kinds[hop->kind], rank, hop->peer, 1e3 * from_s,
                                          1e3 * to_s));
}

static enum status write_page(const struct network *net, const struct comm_question *q,
                              const struct comm_algorithm *algorithm) {
    json_t *events = json_array(), *nodes = json_array();
    double seconds;
    enum status status = hop_simulate(algorithm, &net->shape, ELEMENT, &net->links, add_event, events, &seconds);
    for (int r = 0; r < net->shape.n; r++) json_array_append_new(nodes, json_integer(hop_node(&net->shape, r)));
    json_t *page = json_pack("{s:s, s:s, s:s, s:f, s:o, s:o}", "kind", "comm", "op", comm_op_name(net->shape.op),
                             "algorithm", algorithm->name, "ms", 1e3 * seconds, "nodes", nodes, "events", events);
    if (status == OK) return report_page(q->out, "comm", page, false);
    json_decref(page);
    return status;
}

static enum status show_rows(const struct plan *plan, const struct network *net, const struct comm_question *q,
                             const struct comm_algorithm *algorithm, const char *source) {
    int rank = q->rank;
    double seconds;
    if (!comm_algorithm_fits(algorithm, &net->shape))
        return FAIL(E_CONFIG,
                    "comm-algorithm: %s cannot do %s of %d ranks on these nodes%s%s; leave the option out to see "
                    "those that can",
                    algorithm->name, comm_op_name(net->shape.op), net->shape.n, algorithm->needs ? ": it needs " : "",
                    algorithm->needs ? algorithm->needs : "");
    network_print(plan, net, q->bytes, source);
    printf("%s: %s\nmessages %s; bytes %s; seconds %s\n\nrank %d:\n   from ms      to ms  what, peers, elements\n",
           algorithm->name, algorithm->what, algorithm->messages, algorithm->bytes, algorithm->seconds, rank);
    TRY(hop_simulate(algorithm, &net->shape, ELEMENT, &net->links, print_row, &rank, &seconds));
    printf("all ranks are done after %.4f ms\n", 1e3 * seconds);
    return q->out[0] ? write_page(net, q, algorithm) : OK;
}

enum status show_comm_operation(const struct plan *plan, const struct comm_question *q) {
    struct network net;
    struct comm_rule rule[COMM_MAX_AXES];
    char source[64];
    TRY(plan_settle_comm(plan));
    TRY(comm_rules_parse(comm_options(plan)->algorithm, rule));
    if (q->rank >= q->n_ranks)
        return FAIL(E_CONFIG, "rank=%d is not one of the %d ranks; use 0 to %d", q->rank, q->n_ranks, q->n_ranks - 1);
    enum status status = network_open(plan, q->op, q->n_ranks, q->bytes, &net, source, sizeof source);
    if (status == OK)
        status = rule[0].algorithm ? show_rows(plan, &net, q, rule[0].algorithm, source)
                                   : compare_algorithms(plan, &net, q->bytes, source, q->json);
    free(net.node);
    return status;
}

/* ---- a step of a model ---- */

static bool same_line(const struct exchange *a, const struct exchange *b) {
    return a->axis == b->axis && a->op == b->op && a->count == b->count && a->dtype == b->dtype &&
           a->pieces == b->pieces && a->every == b->every;
}

/* Exchanges that differ only in their root are printed as one line. */
static bool is_first(const struct bill *bill, int i) {
    for (int j = 0; j < i; j++)
        if (same_line(&bill->exchanges[j], &bill->exchanges[i])) return false;
    return true;
}

/* The sum of all exchanges on the line of exchange `first`. */
static enum status line_sent(const struct sent_rules *rules, const struct mesh_sizes *sizes, int rank,
                             const struct bill *bill, int first, struct sent *sum) {
    *sum = (struct sent){0};
    for (int i = first; i < bill->n_exchanges; i++) {
        struct sent one;
        if (!same_line(&bill->exchanges[i], &bill->exchanges[first])) continue;
        TRY(sent_by_exchange(rules, sizes, rank, &bill->exchanges[i], &one));
        sent_add(sum, &one, 1);
    }
    return OK;
}

static int name_width(const struct bill *bill) {
    int width = 5;
    for (int i = 0; i < bill->n_exchanges; i++) {
        int n = (int)strlen(mesh_axis_name(bill->exchanges[i].axis));
        if (n > width) width = n;
    }
    return width;
}

static void print_sent(const struct exchange *x, int n, const struct sent *s, int width) {
    printf("%-*s %5d  %-14s %12" PRId64 " %-5s %8" PRId64 "  %-12s", width, mesh_axis_name(x->axis), n,
           comm_op_name(x->op), x->count, dtype_name(x->dtype), s->operations, s->algorithm);
    if (s->library_bytes > 0) printf("  the library does not say; algorithm bytes %.0f", s->library_bytes);
    else
        printf(" %8" PRId64 " %8" PRId64 " %14" PRId64 " %14" PRId64, s->count.messages[0], s->count.messages[1],
               s->count.bytes[0], s->count.bytes[1]);
    if (x->every > 1) printf("  in one step of %" PRId64, x->every);
    putchar('\n');
}

enum status show_comm_step(const struct plan *plan, int rank, bool json) {
    struct run r;
    struct mesh_place place = mesh_place_of(&plan->mesh, rank);
    struct sent_rules rules;
    json_t *lines = json_array();
    enum status status = run_compile(&r, &train_recipe, plan, rank, NULL, NULL);
    if (status == OK) status = sent_rules_of(plan, &rules);
    if (status == OK && !json)
        printf("what rank %d exchanges in a step, and what of it leaves the rank: messages and bytes within its node "
               "and to other nodes\n%-*s ranks  operation          elements dtype    times  algorithm      inside  "
               "between         inside        between\n", rank, name_width(&r.bill), "axis");
    for (int i = 0; i < r.bill.n_exchanges && status == OK; i++) {
        const struct exchange x = r.bill.exchanges[i];
        struct sent sent;
        int n = mesh_size(x.axis, &place);
        if (n < 2 || !is_first(&r.bill, i)) continue;
        status = line_sent(&rules, &plan->mesh, rank, &r.bill, i, &sent);
        if (status != OK) break;
        if (!json) print_sent(&x, n, &sent, name_width(&r.bill));
        else
            json_array_append_new(
                lines, json_pack("{s:s, s:i, s:s, s:I, s:s, s:I, s:I, s:s, s:[I, I], s:[I, I], s:f}", "axis",
                                 mesh_axis_name(x.axis), "ranks", n, "op", comm_op_name(x.op), "count",
                                 (json_int_t)x.count, "dtype", dtype_name(x.dtype), "operations",
                                 (json_int_t)sent.operations, "every", (json_int_t)(x.every > 0 ? x.every : 1),
                                 "algorithm", sent.algorithm, "messages",
                                 (json_int_t)sent.count.messages[0], (json_int_t)sent.count.messages[1], "bytes",
                                 (json_int_t)sent.count.bytes[0], (json_int_t)sent.count.bytes[1], "library_bytes",
                                 sent.library_bytes));
    }
    run_destroy(&r);
    if (status == OK && json) return command_print(lines, JSON_INDENT(1));
    json_decref(lines);
    return status;
}

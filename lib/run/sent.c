/* Count the exchanges of a step with the tables of lib/comm/hops/. See sent.h. */
#include "lib/run/sent.h"

#include "lib/base/integer.h"
#include "lib/comm/hops/comm_rules.h"
#include "lib/comm/hops/hop_walk.h"
#include <stdlib.h>
#include <string.h>

enum status sent_rules_of(const struct plan *plan, struct sent_rules *out) {
    *out = (struct sent_rules){.nodes = plan_nodes(plan),
                               .links_known = plan_emulates_links(plan)};
    TRY(plan_links(plan, &out->links));
    return comm_rules_parse(comm_options(plan)->algorithm, out->rule);
}

static bool is_message(const struct exchange *x) { return x->op == COMM_SEND || x->op == COMM_RECV; }

/* ---- one exchange ---- */

/* Find a rank's group along an axis: its size (shape->n) and its ranks' nodes. @return the rank's index in the group */
static int find_group(const struct sent_rules *rules, const struct mesh_sizes *sizes, enum mesh_axis axis, int rank,
                      struct hop_shape *shape, int *node) {
    const struct mesh_place mine = mesh_place_of(sizes, rank);
    int n = (int)mesh_n_ranks(sizes), me = 0;
    shape->n = 0;
    for (int r = 0; r < n; r++) {
        const struct mesh_place place = mesh_place_of(sizes, r);
        if (mesh_colour(axis, &place) != mesh_colour(axis, &mine)) continue;
        if (r == rank) me = shape->n;
        node[shape->n++] = rules->nodes.ranks_per_node ? node_emulated(&rules->nodes, r, n) : 0;
    }
    shape->node = node;
    return me;
}

/* Add `times` operations of shape.count elements, from the view of rank `me` of the group. */
static enum status add_operations(const struct sent_rules *rules, const struct exchange *x, struct hop_shape shape,
                                  int me, int64_t times, struct sent *out) {
    const struct comm_algorithm *algorithm;
    bool message = is_message(x);
    shape.root = message ? (me + 1) % shape.n : x->root;
    out->operations += times;
    TRY(comm_rule_choose(&rules->rule[x->axis], &shape, x->dtype, message || rules->links_known || !comm_has_library(),
                         rules->links_known ? &rules->links : NULL, mesh_axis_name(x->axis), &algorithm));
    out->algorithm = algorithm ? algorithm->name : "library";
    if (!algorithm) {
        double bytes = (double)(hop_shape_whole(&shape) * (int64_t)dtype_size(x->dtype));
        out->library_bytes += (double)times * comm_algorithm_bytes(x->op, shape.n, bytes);
        return OK;
    }
    struct hop_table table;
    enum status made = hops_make(algorithm, &shape, me, &table);
    struct hop_count count = hops_count(&table, &shape, me, x->dtype);
    out->memory = max64(out->memory, hop_walk_bytes(&table, (int64_t)dtype_size(x->dtype)));
    hop_table_free(&table);
    for (int b = 0; b < 2; b++) {
        out->count.messages[b] += times * count.messages[b];
        out->count.bytes[b] += times * count.bytes[b];
    }
    return made;
}

static enum status count_pieces(const struct sent_rules *rules, const struct exchange *x, struct hop_shape shape,
                                int me, struct sent *out) {
    bool parts = x->op == COMM_ALL_GATHER || x->op == COMM_REDUCE_SCATTER || x->op == COMM_ALL_TO_ALL;
    int64_t whole = x->count / (parts ? shape.n : 1), pieces = max64(x->pieces, 1), times = max64(x->times, 1);
    shape.count = whole / pieces;
    TRY(add_operations(rules, x, shape, me, times * (pieces - whole % pieces), out));
    shape.count++;
    return whole % pieces ? add_operations(rules, x, shape, me, times * (whole % pieces), out) : OK;
}

enum status sent_by_exchange(const struct sent_rules *rules, const struct mesh_sizes *sizes, int rank,
                             const struct exchange *x, struct sent *out) {
    const int64_t size = (int64_t)dtype_size(x->dtype);
    struct hop_shape shape = {.op = x->op, .segment = HOP_SEGMENT_BYTES / size, .line = HOP_LINE_BYTES / size};
    int *node = calloc((size_t)mesh_n_ranks(sizes), sizeof *node);
    *out = (struct sent){.algorithm = "library"};
    if (!node) return FAIL(E_MEMORY, "no memory for the nodes of %.0f ranks", mesh_n_ranks(sizes));
    int me = find_group(rules, sizes, x->axis, rank, &shape, node);
    enum status status = shape.n > 1 ? count_pieces(rules, x, shape, me, out) : OK;
    free(node);
    return status;
}

/* ---- a bill ---- */

void sent_add(struct sent *sum, const struct sent *one, int64_t times) {
    sum->algorithm = one->algorithm;
    sum->operations += times * one->operations;
    sum->library_bytes += (double)times * one->library_bytes;
    for (int b = 0; b < 2; b++) {
        sum->count.messages[b] += times * one->count.messages[b];
        sum->count.bytes[b] += times * one->count.bytes[b];
    }
}

enum status sent_by_axis(const struct sent_rules *rules, const struct mesh_sizes *sizes, int rank,
                         const struct bill *bill, enum mesh_axis axis, int64_t n_steps, struct sent sum[2]) {
    memset(sum, 0, 2 * sizeof *sum);
    for (int i = 0; i < bill->n_exchanges; i++) {
        const struct exchange *x = &bill->exchanges[i];
        struct sent one;
        if (x->axis != axis) continue;
        TRY(sent_by_exchange(rules, sizes, rank, x, &one));
        sent_add(&sum[is_message(x)], &one, n_steps / max64(x->every, 1));
    }
    return OK;
}

enum status sent_memory(const struct sent_rules *rules, const struct mesh_sizes *sizes, int rank,
                        const struct bill *bill, int64_t bytes[N_MESH_AXES]) {
    int64_t largest[N_MESH_AXES] = {0}, all[N_MESH_AXES] = {0};
    for (int i = 0; i < bill->n_exchanges; i++) {
        const enum mesh_axis axis = bill->exchanges[i].axis;
        struct sent one;
        TRY(sent_by_exchange(rules, sizes, rank, &bill->exchanges[i], &one));
        largest[axis] = max64(largest[axis], one.memory);
        all[axis] += one.operations * one.memory;
    }
    for (int a = 0; a < N_MESH_AXES; a++) bytes[a] = min64(all[a], max64(largest[a], HOP_MEMORY_BYTES));
    return OK;
}

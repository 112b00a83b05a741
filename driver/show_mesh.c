/* trivium show mesh.
 *
 * A group along an axis holds the ranks that differ in that coordinate only (lib/comm/mesh.c), so there are (ranks / size) of
 * them. The bytes are the bill's: what run_compile adds up from the rows that will run. Ranks of one stage send the same, but for a
 * padded row, so one rank a stage is compiled. */
#include "driver/show_mesh.h"

#include "driver/recipe.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

/* One axis; members of a group: first, first + stride, ... `size` of them. */
struct lines { enum mesh_axis axis; int size, stride, n; double bytes; };

static int axis_rank(const struct mesh_place *p, enum mesh_axis axis) {
    return axis == AXIS_TP ? p->tp_rank : axis == AXIS_DP ? p->dp_rank : p->pp_rank;
}

static struct lines lines_of(const struct plan *plan, enum mesh_axis axis, double bytes) {
    int tp = (int)plan->tp, dp = (int)plan->dp, pp = (int)plan->pp;
    struct lines l = {.axis = axis, .bytes = bytes};
    l.size = axis == AXIS_TP ? tp : axis == AXIS_DP ? dp : axis == AXIS_PP ? pp : pp > 1 ? 2 : 1;
    l.stride = axis == AXIS_TP ? 1 : axis == AXIS_DP ? tp : axis == AXIS_PP ? tp * dp : tp * dp * (pp > 1 ? pp - 1 : 1);
    l.n = axis == AXIS_TIE ? tp * dp : plan_ranks(plan) / l.size;
    return l;
}

/* Calls visit with the first rank of every group of an axis: those whose coordinate along it is 0. */
static void each_group(const struct plan *plan, const struct lines *l, void (*visit)(void *, const struct lines *, int first), void *self) {
    for (int rank = 0; rank < plan_ranks(plan); rank++) {
        struct mesh_place p = mesh_place_of((int)plan->dp, (int)plan->tp, (int)plan->pp, rank);
        if (axis_rank(&p, l->axis == AXIS_TIE ? AXIS_PP : l->axis) == 0) visit(self, l, rank);
    }
}

/* The most nodes that a group of the axis spreads over. */
struct spread { int node, most; };
static void count_nodes(void *self, const struct lines *l, int first) {
    struct spread *s = self;
    int n = 0;
    for (int i = 0, last = -1; i < l->size; i++) {
        int node = (first + i * l->stride) / s->node;
        n += node != last;
        last = node;
    }
    if (n > s->most) s->most = n;
}
static int nodes_of(const struct plan *plan, const struct lines *l, int node) {
    struct spread s = {node, 0};
    each_group(plan, l, count_nodes, &s);
    return s.most;
}

/* ---- bytes ---- */
static enum status add_up(const struct plan *plan, double most[N_MESH_AXES]) {
    for (int stage = 0; stage < plan->pp; stage++) {
        struct run r;
        struct mesh_place place = {.dp = (int)plan->dp, .tp = (int)plan->tp, .pp = (int)plan->pp, .pp_rank = stage};
        enum status status = run_compile(&r, &gpt_recipe, plan, mesh_rank_of(&place), NULL, NULL);
        for (enum mesh_axis a = AXIS_TP; status == OK && a < N_MESH_AXES; a++)
            if (r.bill.wire_bytes[a] > most[a]) most[a] = r.bill.wire_bytes[a];
        run_destroy(&r);
        TRY(status);
    }
    return OK;
}

/* ---- text ---- */
enum { MOST_MEMBERS = 8 };
static void print_group(const struct lines *l, int first) {
    putchar('{');
    for (int i = 0; i < l->size; i++) {
        if (i == MOST_MEMBERS - 2 && l->size > MOST_MEMBERS) printf(" ..."), i = l->size - 1;
        printf("%s%d", i ? " " : "", first + i * l->stride);
    }
    putchar('}');
}

struct listing { int seen; };
static void print_some(void *self, const struct lines *l, int first) {
    struct listing *s = self;
    int at = s->seen++;
    if (at > 1 && at < l->n - 1) return;
    if (at == l->n - 1 && l->n > 3) printf(" ...");
    putchar(' ');
    print_group(l, first);
}

static void print_lines(const struct plan *plan, const struct lines *l, int node) {
    struct listing s = {0};
    printf("%-4s %6d %6d %7d %6d %16.0f  ", mesh_axis_name(l->axis), l->n, l->size, l->stride, nodes_of(plan, l, node), l->bytes);
    each_group(plan, l, print_some, &s);
    putchar('\n');
}

/* ---- json ---- */
static void append_group(void *self, const struct lines *l, int first) {
    json_t *group = json_array();
    for (int i = 0; i < l->size; i++) json_array_append_new(group, json_integer(first + i * l->stride));
    json_array_append_new(self, group);
}
static json_t *lines_json(const struct plan *plan, const struct lines *l, int node) {
    json_t *groups = json_array();
    each_group(plan, l, append_group, groups);
    return json_pack("{s:s, s:i, s:i, s:f, s:o}", "axis", mesh_axis_name(l->axis), "size", l->size, "nodes", nodes_of(plan, l, node),
                     "bytes", l->bytes, "groups", groups);
}

static enum status dump_axes(const struct plan *plan, const double bytes[N_MESH_AXES], int node) {
    json_t *axes = json_array();
    int failed = !axes;
    for (enum mesh_axis a = AXIS_TP; a <= AXIS_TIE; a++) {
        struct lines l = lines_of(plan, a, bytes[a]);
        failed |= json_array_append_new(axes, lines_json(plan, &l, node));
    }
    enum status status = failed ? FAIL(E_MEMORY, "no memory for the groups of %d ranks", plan_ranks(plan)) : OK;
    if (status == OK && (json_dumpf(axes, stdout, JSON_INDENT(1)) || putchar('\n') == EOF)) status = FAIL(E_IO, "cannot write the groups of the mesh");
    json_decref(axes);
    return status;
}

enum status show_mesh(const struct plan *plan, int node, bool json) {
    double bytes[N_MESH_AXES] = {0};
    TRY(add_up(plan, bytes));
    if (json) return dump_axes(plan, bytes, node);
    if (plan_ranks(plan) == 1) printf("one rank: no groups\n");
    else
        printf("%d ranks = pp %" PRId64 " x dp %" PRId64 " x tp %" PRId64 "; rank = (pp_rank dp + dp_rank) tp + tp_rank; nodes of %d ranks\n"
               "axis groups  ranks  stride  nodes   bytes a step   which ranks (nodes: that a group spreads over; bytes: sent by a rank)\n",
               plan_ranks(plan), plan->pp, plan->dp, plan->tp, node);
    for (enum mesh_axis a = AXIS_TP; a <= AXIS_TIE; a++) {
        struct lines l = lines_of(plan, a, bytes[a]);
        if (l.size > 1) print_lines(plan, &l, node);
    }
    return OK;
}

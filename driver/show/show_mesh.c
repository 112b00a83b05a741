/* trivium show mesh.
 *
 * A group is the ranks of one colour (lib/comm/mesh.h). The bytes are from the bill, which run_compile sums over a
 * rank's rows. Ranks of one stage send the same bytes, except for a padded row, so one rank per stage is compiled. */
#include "driver/show/show_views.h"

#include "driver/command.h"
#include "driver/recipe.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The n groups along one axis. Each has `size` ranks; the ranks of group g begin at member[g size]. nodes: the largest
 * number of nodes in a group. */
struct lines { enum mesh_axis axis; int size, n, nodes, *member; double bytes; };

static const int *members_of(const struct lines *l, int group) { return l->member + (ptrdiff_t)group * l->size; }

/* Number the groups in order of their first ranks; a group's colour is its first rank. work: 3 zeros per rank. */
static void fill(struct lines *l, const struct plan *plan, int *work) {
    int n = plan_ranks(plan), n_members = 0, *colour = work, *number = work + n, *filled = work + 2 * (ptrdiff_t)n;
    for (int rank = 0; rank < n; rank++) {
        struct mesh_place p = mesh_place_of(&plan->mesh, rank);
        colour[rank] = mesh_colour(l->axis, &p);
        n_members += colour[rank] >= 0;
        if (colour[rank] == rank) number[rank] = l->n++;
    }
    if (l->n) l->size = n_members / l->n;
    for (int rank = 0; rank < n; rank++) {
        if (colour[rank] < 0) continue;
        int group = number[colour[rank]];
        l->member[(ptrdiff_t)group * l->size + filled[group]++] = rank;
    }
}

static struct nodes nodes_of(const struct plan *plan) {
    struct nodes nodes = plan_nodes(plan);
    if (!nodes.ranks_per_node) nodes.ranks_per_node = 8;
    return nodes;
}

/* work: a number per rank, used per node: the last group that has a rank on the node. */
static void count_nodes(struct lines *l, const struct plan *plan, int *work) {
    const struct nodes nodes = nodes_of(plan);
    int n = plan_ranks(plan);
    memset(work, -1, (size_t)n * sizeof *work);
    for (int g = 0; g < l->n; g++) {
        int spread = 0;
        for (int i = 0; i < l->size; i++) {
            int *last = &work[node_emulated(&nodes, members_of(l, g)[i], n)];
            spread += *last != g;
            *last = g;
        }
        if (spread > l->nodes) l->nodes = spread;
    }
}

static enum status lines_init(struct lines *l, const struct plan *plan, enum mesh_axis axis, double bytes) {
    size_t n = (size_t)plan_ranks(plan);
    int *work = calloc(3 * n, sizeof *work);
    *l = (struct lines){.axis = axis, .size = 1, .member = calloc(n, sizeof *l->member), .bytes = bytes};
    enum status status = work && l->member ? OK : FAIL(E_MEMORY, "no memory for the groups of %zu ranks", n);
    if (status == OK) {
        fill(l, plan, work);
        count_nodes(l, plan, work);
    }
    free(work);
    return status;
}

/* ---- bytes ---- */
static enum status add_up(const struct plan *plan, double most[N_MESH_AXES]) {
    struct mesh_place place = mesh_place_of(&plan->mesh, 0);
    for (place.rank.pp = 0; place.rank.pp < place.n.pp; place.rank.pp++) {
        struct run r;
        enum status status = run_compile(&r, &train_recipe, plan, mesh_rank_of(&place), NULL, NULL);
        for (enum mesh_axis a = AXIS_SELF + 1; status == OK && a < N_MESH_AXES; a++)
            if (r.bill.wire_bytes[a] > most[a]) most[a] = r.bill.wire_bytes[a];
        run_destroy(&r);
        TRY(status);
    }
    return OK;
}

/* ---- text ---- */
enum { MOST_MEMBERS = 8 };
static void print_group(const struct lines *l, int group) {
    printf(" {");
    for (int i = 0; i < l->size; i++) {
        if (i == MOST_MEMBERS - 2 && l->size > MOST_MEMBERS) printf(" ..."), i = l->size - 1;
        printf("%s%d", i ? " " : "", members_of(l, group)[i]);
    }
    putchar('}');
}

/* Width of the longest printed name. */
static int name_width(const struct plan *plan) {
    const struct mesh_place first = mesh_place_of(&plan->mesh, 0);
    int width = 5;
    for (enum mesh_axis a = AXIS_SELF + 1; a < AXIS_MESH; a++) {
        int n = (int)strlen(mesh_axis_name(a)) + 1;
        if (mesh_size(a, &first) > 1 && n > width) width = n;
    }
    return width;
}

static void print_lines(const struct plan *plan, const struct lines *l) {
    int stride = members_of(l, 0)[1] - members_of(l, 0)[0];
    printf("%-*s%6d %6d %7d %6d %16.0f  ", name_width(plan), mesh_axis_name(l->axis), l->n, l->size, stride, l->nodes,
           l->bytes);
    for (int g = 0; g < l->n; g++) {
        if (g == 2 && l->n > 3) printf(" ..."), g = l->n - 1;
        print_group(l, g);
    }
    putchar('\n');
}

static void print_head(const struct plan *plan) {
    if (plan_ranks(plan) == 1) {
        printf("one rank: no groups\n");
        return;
    }
    printf("%d ranks =", plan_ranks(plan));
    for (int d = N_DIMS; d-- > 0;)
        if (mesh_dim_is_shown((enum mesh_dim)d, plan->mesh.at[d]))
            printf(" %s %" PRId64 "%s", mesh_dim_name(d), plan->mesh.at[d], d ? " x" : "");
    printf(", the last innermost; nodes of %d ranks\n"
           "%-*sgroups  ranks  stride  nodes     bytes/step   which ranks (nodes: that a group spreads over; bytes: "
           "sent by a rank)\n", nodes_of(plan).ranks_per_node, name_width(plan), "axis");
}

/* ---- json ---- */
static json_t *lines_json(const struct lines *l) {
    json_t *groups = json_array();
    for (int g = 0; g < l->n; g++) {
        json_t *group = json_array();
        for (int i = 0; i < l->size; i++) json_array_append_new(group, json_integer(members_of(l, g)[i]));
        json_array_append_new(groups, group);
    }
    return json_pack("{s:s, s:i, s:i, s:f, s:o}", "axis", mesh_axis_name(l->axis), "size", l->size, "nodes",
                     l->nodes, "bytes", l->bytes, "groups", groups);
}

enum status show_mesh(const struct plan *plan, bool json) {
    double bytes[N_MESH_AXES] = {0};
    TRY(add_up(plan, bytes));
    json_t *axes = json_array();
    enum status status = OK;
    if (!json) print_head(plan);
    for (enum mesh_axis a = AXIS_SELF + 1; a < AXIS_MESH && status == OK; a++) {
        struct lines l;
        status = lines_init(&l, plan, a, bytes[a]);
        if (status == OK && json && json_array_append_new(axes, lines_json(&l)))
            status = FAIL(E_MEMORY, "no memory for the groups of %d ranks", plan_ranks(plan));
        if (status == OK && !json && l.size > 1) print_lines(plan, &l);
        free(l.member);
    }
    if (status == OK && json) return command_print(axes, JSON_INDENT(1));
    json_decref(axes);
    return status;
}

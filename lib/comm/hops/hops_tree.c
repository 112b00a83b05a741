/* Binary trees in which sums go up and the result comes down, segment by segment.
 *
 * The tree is in order: the subtree of place x has consecutive places, odd places are leaves, and place 0 is the root
 * with one child (Sanders, Speck and Traff 2009, section 3):
 *
 *      0              x's lowest set bit is b; its parent is (x ^ b) | 2b, or x ^ b if that place is beyond n
 *       \
 *        4            With K segments in flight at once the last arrives after (2h + K) steps, h = floor(log2 n); with
 *      /   \          one segment, a rank waits for its whole subtree
 *     2     6
 *    / \   / \
 *   1   3 5   7
 *
 * In broadcast and reduce, places are counted from the root of the call.
 *
 * In one tree half of the ranks are leaves and send S bytes, while inner ranks send 3 S: to a parent and to two
 * children. So two trees carry half of the elements each. They have the same root; in the second tree all other ranks
 * move up by one place, so that a rank at an even place, which has children, gets an odd place, a leaf. So no rank
 * sends more than 2 S. */
#include "lib/comm/hops/hop_rows.h"

#include "lib/base/integer.h"

#include <math.h>

#define OP(op) (1u << COMM_##op)
enum { NO_PLACE = -1, MAX_CHILDREN = 32 };

static int parent_of(int place, int n) {
    if (place == 0) return NO_PLACE;
    int bit = place & -place, parent = (place ^ bit) | bit << 1;
    return parent < n ? parent : place ^ bit;
}

/* Ranks are counted from the root of the call. place_of: the place of a rank in a tree; rank_at: the rank at a
 * place. */
static int place_of(int rank, int tree, int n) { return tree == 0 || rank == 0 ? rank : rank % (n - 1) + 1; }
static int rank_at(int place, int tree, int n) {
    if (tree == 0 || place == 0) return place;
    return place == 1 ? n - 1 : place - 1;
}

struct node { int parent, child[MAX_CHILDREN], n_children; };
static struct node node_at(const struct team *team, int root, int tree) {
    int n = team->n, place = place_of((team->me - root + n) % n, tree, n), parent = parent_of(place, n);
    struct node node = {parent == NO_PLACE ? NO_PLACE : team_rank(team, rank_at(parent, tree, n) + root), {0}, 0};
    for (int c = 1; c < n && node.n_children < MAX_CHILDREN; c++)
        if (parent_of(c, n) == place) node.child[node.n_children++] = team_rank(team, rank_at(c, tree, n) + root);
    return node;
}

static void up(const struct team *team, const struct node *node, struct range x) {
    for (int c = 0; c < node->n_children; c++) hop_add(team, node->child[c], x);
    if (node->parent != NO_PLACE) hop_send(team, node->parent, x);
}
static void down(const struct team *team, const struct node *node, struct range x) {
    if (node->parent != NO_PLACE) hop_recv(team, node->parent, x);
    for (int c = 0; c < node->n_children; c++) hop_send(team, node->child[c], x);
}

/* All segments go up before the first comes down, so that no row for the way down delays a row for the way up. */
static void rows_of(const struct hop_shape *shape, int rank, int n_trees, struct hop_table *table) {
    struct team team = team_of_all(shape, rank, table);
    int root = shape->op == COMM_ALL_REDUCE ? 0 : shape->root;
    team.piece = round_up(ceil_div(team.whole.end, n_trees), max64(shape->line, 1));
    struct node node[2];
    struct range x[2];
    for (int t = 0; t < n_trees; t++) node[t] = node_at(&team, root, t), x[t] = team_pieces(&team, t, t + 1);
    int64_t segments = hop_segments(&team, x[0]);
    hop_copy_in(shape, &team);
    for (int64_t i = 0; i < segments && shape->op != COMM_BROADCAST; i++)
        for (int t = 0; t < n_trees; t++) up(&team, &node[t], hop_segment(&team, x[t], i));
    for (int64_t i = 0; i < segments && shape->op != COMM_REDUCE; i++)
        for (int t = 0; t < n_trees; t++) down(&team, &node[t], hop_segment(&team, x[t], i));
}

static void tree_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    rows_of(shape, rank, 1, table);
}
static void double_tree_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    rows_of(shape, rank, 2, table);
}

/* The seconds depend on the segments, so they have no closed form and are simulated. */
static struct hop_form form_of(const struct hop_shape *shape, double bytes, int n_trees) {
    struct team team = {.n = shape->n};
    int most = 0;
    for (team.me = 0; team.me < shape->n; team.me++) {
        int sent = 0;
        for (int t = 0; t < n_trees; t++) {
            struct node node = node_at(&team, 0, t);
            sent += shape->op != COMM_BROADCAST && node.parent != NO_PLACE;
            sent += shape->op != COMM_REDUCE ? node.n_children : 0;
        }
        if (sent > most) most = sent;
    }
    return (struct hop_form){most, most * bytes / n_trees, NAN};
}
static struct hop_form tree_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    (void)links;
    return form_of(shape, bytes, 1);
}
static struct hop_form double_tree_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    (void)links;
    return form_of(shape, bytes, 2);
}

const struct comm_algorithm hops_tree = {
    "tree", "sums go up a binary tree and the result comes down, segment by segment",
    "children + 1", "S (children + 1)", "none: see the simulation",
    OP(ALL_REDUCE) | OP(REDUCE) | OP(BROADCAST), NULL, NULL, tree_rows, tree_form,
};

const struct comm_algorithm hops_double_tree = {
    "double-tree", "two binary trees with half of the elements each: an inner node of one is a leaf of the other",
    "2 trees: children + 1", "at most 2 S", "none: see the simulation",
    OP(ALL_REDUCE) | OP(REDUCE) | OP(BROADCAST), NULL, NULL, double_tree_rows, double_tree_form,
};

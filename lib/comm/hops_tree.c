/* A binary tree in which sums go up and the result comes down, segment by segment.
 *
 * The tree is in order: the ranks below place x are a run of neighbors, odd places are leaves, and place 0 is the root
 * with one child (Sanders, Speck and Traff 2009, section 3):
 *
 *      0              x's lowest bit is b; its parent is (x xor b) or 2b, and if that place is beyond n: x xor b
 *       \
 *        4            With K segments under way at once the last arrives after (2h + K) steps, h = floor(log2 n); with
 *      /   \          one, a rank waits for all that are below it
 *     2     6
 *    / \   / \
 *   1   3 5   7
 *
 * broadcast and reduce count places from their root. */
#include "lib/comm/hop_rows.h"

#include <math.h>

#define OP(op) (1u << COMM_##op)
enum { NO_PLACE = -1, MAX_CHILDREN = 32 };

static int parent_of(int place, int n) {
    if (place == 0) return NO_PLACE;
    int bit = place & -place, parent = (place ^ bit) | bit << 1;
    return parent < n ? parent : place ^ bit;
}

struct node { int parent, child[MAX_CHILDREN], n_children; };
static struct node node_at(const struct team *team, int root) {
    int n = team->n, place = (team->me - root + n) % n, parent = parent_of(place, n);
    struct node node = {parent == NO_PLACE ? NO_PLACE : team_rank(team, parent + root), {0}, 0};
    for (int c = 1; c < n && node.n_children < MAX_CHILDREN; c++)
        if (parent_of(c, n) == place) node.child[node.n_children++] = team_rank(team, c + root);
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

static void tree_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    struct team team = team_of_all(shape, rank, table);
    const struct node node = node_at(&team, shape->op == COMM_ALL_REDUCE ? 0 : shape->root);
    int64_t segments = hop_segments(&team, team.whole);
    hop_copy_in(shape, &team);
    for (int64_t i = 0; i < segments && shape->op != COMM_BROADCAST; i++)
        up(&team, &node, hop_segment(&team, team.whole, i));
    for (int64_t i = 0; i < segments && shape->op != COMM_REDUCE; i++)
        down(&team, &node, hop_segment(&team, team.whole, i));
}

/* A rank in the middle sends all to its parent and to two children. Seconds depend on the segments: simulated. */
static struct hop_form tree_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    (void)links;
    const struct team all = {.n = shape->n};
    int most = 0;
    for (int place = 0; place < shape->n; place++) {
        struct team team = all;
        team.me = place;
        struct node node = node_at(&team, 0);
        int up_n = shape->op != COMM_BROADCAST && place > 0, down_n = shape->op != COMM_REDUCE ? node.n_children : 0;
        if (up_n + down_n > most) most = up_n + down_n;
    }
    return (struct hop_form){most, most * bytes, NAN};
}

const struct comm_algorithm hops_tree = {
    "tree", "sums go up a binary tree and the result comes down, segment by segment",
    "children + 1", "S (children + 1)", "(2 h + K) a + 2 S (1 + h/K) b in K segments, h = floor(log2 n)",
    OP(ALL_REDUCE) | OP(REDUCE) | OP(BROADCAST), NULL, NULL, tree_rows, tree_form,
};

/* Tables of hops: their rows, messages and bytes, and the waits between rows. See hops.h. */
#include "lib/comm/hops/hops.h"

#include "lib/base/integer.h"
#include "lib/comm/hops/hop_rows.h"

#include <stdlib.h>
#include <string.h>

const struct comm_algorithm *const comm_algorithms[] = {
    &hops_pairwise, &hops_ring, &hops_halving, &hops_halving_near, &hops_doubling, &hops_tree, &hops_double_tree,
    &hops_hierarchical, &hops_main, NULL,   /* hops_message cannot be chosen */
};

const struct comm_algorithm *comm_algorithm_find(const char *name) {
    for (int i = 0; comm_algorithms[i]; i++)
        if (strcmp(comm_algorithms[i]->name, name) == 0) return comm_algorithms[i];
    return NULL;
}

bool comm_algorithm_fits(const struct comm_algorithm *algorithm, const struct hop_shape *shape) {
    return (algorithm->ops & 1u << shape->op) && (!algorithm->fits || algorithm->fits(shape));
}

/* ---- shapes ---- */

static bool in_parts(enum comm_op op) {
    return op == COMM_ALL_GATHER || op == COMM_REDUCE_SCATTER || op == COMM_ALL_TO_ALL;
}
int64_t hop_shape_whole(const struct hop_shape *shape) { return shape->count * (in_parts(shape->op) ? shape->n : 1); }

int hop_node(const struct hop_shape *shape, int rank) { return shape->node ? shape->node[rank] : 0; }

static int64_t line_of(const struct hop_shape *shape) { return max64(shape->line, 1); }

/* ---- teams ---- */

struct team team_of_all(const struct hop_shape *shape, int rank, struct hop_table *table) {
    int64_t whole = hop_shape_whole(shape);
    int64_t piece = in_parts(shape->op) ? shape->count : round_up(ceil_div(whole, shape->n), line_of(shape));
    enum hop_space space = hop_space_of(shape, rank);
    return (struct team){NULL, shape->n, rank, {0, whole}, piece, shape->segment, space, table, false};
}

struct team team_of(const struct hop_shape *shape, const int *rank, int n, int me, struct range whole,
                    const struct team *like) {
    struct team team = *like;
    team.rank = rank, team.n = n, team.me = me, team.whole = whole;
    team.piece = round_up(ceil_div(whole.end - whole.first, n), line_of(shape));
    return team;
}

static int wrap(const struct team *team, int i) { return (i % team->n + team->n) % team->n; }

int team_rank(const struct team *team, int i) { return team->rank ? team->rank[wrap(team, i)] : wrap(team, i); }

struct range team_pieces(const struct team *team, int i, int j) {
    int64_t first = team->whole.first, end = team->whole.end;
    return (struct range){min64(first + i * team->piece, end), min64(first + j * team->piece, end)};
}
struct range team_piece(const struct team *team, int i) {
    return team_pieces(team, wrap(team, i), wrap(team, i) + 1);
}

/* ---- two levels: the row of hops_levels.c ---- */
int hop_on_node_before(const struct hop_shape *shape, int node, int rank) {
    int n = 0;
    for (int r = 0; r < rank; r++) n += hop_node(shape, r) == node;
    return n;
}
static int on_node(const struct hop_shape *shape, int node) { return hop_on_node_before(shape, node, shape->n); }
static int ranks_a_node(const struct hop_shape *shape) { return on_node(shape, hop_node(shape, 0)); }
static bool equal_nodes(const struct hop_shape *shape) {
    for (int r = 0; r < shape->n; r++)
        if (on_node(shape, hop_node(shape, r)) != ranks_a_node(shape)) return false;
    return true;
}
static struct hop_form levels_form(const struct hop_shape *shape, double S, const struct hop_links *links) {
    int L = ranks_a_node(shape), N = shape->n / L;
    return (struct hop_form){2 * (L - 1) + 2 * (N - 1), levels_bytes(L, N, S), levels_seconds(L, N, S, links)};
}
const struct comm_algorithm hops_hierarchical = {
    "hierarchical",
    "a reduce-scatter within each node, an all-reduce of each part between nodes, a gather within nodes",
    "2 (L-1) + 2 (N-1)", "2 S (L-1)/L + 2 (S/L) (N-1)/N",
    "2 (L-1) (a0 + S/L b0) + (L-1) S/L g + 2 (N-1) (a1 + S/(L N) b1) + (N-1) S/(L N) g",
    1u << COMM_ALL_REDUCE, equal_nodes, "equally many ranks on each node", levels_rows, levels_form};

/* ---- rows ---- */

static void append(struct hop_table *table, const struct hop_row *row) {
    if (table->n == table->room) {
        int room = 2 * table->room + 16;
        struct hop_row *more = realloc(table->hop, (size_t)room * sizeof *more);
        if (!more) {
            table->no_memory = true;
            return;
        }
        table->hop = more;
        table->room = room;
    }
    table->hop[table->n++] = *row;
    if (row->kind == HOP_ADD) table->most_added = max64(table->most_added, row->count);
}

int64_t hop_segments(const struct team *team, struct range x) {
    return team->segment > 0 ? ceil_div(x.end - x.first, team->segment) : x.end > x.first;
}
struct range hop_segment(const struct team *team, struct range x, int64_t i) {
    if (team->segment <= 0) return x;
    return (struct range){x.first + i * team->segment, min64(x.first + (i + 1) * team->segment, x.end)};
}

static void append_cut(const struct team *team, enum hop_kind kind, enum hop_space space, int peer, struct range x) {
    for (int64_t i = 0; i < hop_segments(team, x); i++) {
        struct range s = hop_segment(team, x, i);
        append(team->table, &(struct hop_row){.kind = kind, .space = space, .peer = peer, .first = s.first,
                                          .count = s.end - s.first,
                                          .after_sums = kind == HOP_RECV && team->after_sums});
    }
}
void hop_send(const struct team *team, int to, struct range x) { append_cut(team, HOP_SEND, team->space, to, x); }
void hop_recv(const struct team *team, int from, struct range x) { append_cut(team, HOP_RECV, team->space, from, x); }
void hop_add(const struct team *team, int from, struct range x) { append_cut(team, HOP_ADD, team->space, from, x); }
void hop_send_from(const struct team *team, enum hop_space space, int to, struct range x) {
    append_cut(team, HOP_SEND, space, to, x);
}

void hop_copy(const struct team *team, enum hop_space to, int64_t first, enum hop_space from, struct range x) {
    if (x.end <= x.first) return;
    append(team->table,
           &(struct hop_row){HOP_COPY, to, from, team_rank(team, team->me), first, x.end - x.first, x.first, false});
}

/* ---- spaces ---- */

enum hop_space hop_space_of(const struct hop_shape *shape, int rank) {
    bool only_the_root_has_the_result = shape->op == COMM_REDUCE && rank != shape->root;
    return shape->op == COMM_REDUCE_SCATTER || only_the_root_has_the_result ? HOP_SCRATCH : HOP_TO;
}

void hop_copy_in(const struct hop_shape *shape, const struct team *team) {
    struct range own = team_piece(team, team->me);
    if (shape->op == COMM_ALL_GATHER) hop_copy(team, HOP_TO, own.first, HOP_FROM, (struct range){0, shape->count});
    if (shape->op == COMM_ALL_TO_ALL) hop_copy(team, HOP_TO, own.first, HOP_FROM, own);
    if (team->space != HOP_SCRATCH) return;
    team->table->scratch = hop_shape_whole(shape);
    hop_copy(team, HOP_SCRATCH, 0, HOP_FROM, team->whole);
}

void hop_copy_out(const struct hop_shape *shape, const struct team *team) {
    if (shape->op == COMM_REDUCE_SCATTER) hop_copy(team, HOP_TO, 0, HOP_SCRATCH, team_piece(team, team->me));
}

/* ---- tables ---- */

void hop_table_free(struct hop_table *table) {
    free(table->hop);
    *table = (struct hop_table){0};
}

enum status hops_make(const struct comm_algorithm *algorithm, const struct hop_shape *shape, int rank,
                      struct hop_table *out) {
    *out = (struct hop_table){0};
    if (shape->n > 1) algorithm->rows(shape, rank, out);
    if (out->no_memory)
        return FAIL(E_MEMORY, "no memory for the hops of %s by %s", comm_op_name(shape->op), algorithm->name);
    return OK;
}

struct hop_count hops_count(const struct hop_table *table, const struct hop_shape *shape, int rank, enum dtype dtype) {
    struct hop_count count = {0};
    for (int i = 0; i < table->n; i++) {
        const struct hop_row *row = &table->hop[i];
        if (row->kind != HOP_SEND) continue;
        bool between = hop_node(shape, rank) != hop_node(shape, row->peer);
        count.messages[between]++;
        count.bytes[between] += row->count * (int64_t)dtype_size(dtype);
    }
    return count;
}

static bool overlap(enum hop_space a, int64_t a_first, enum hop_space b, int64_t b_first, int64_t a_n, int64_t b_n) {
    return a == b && a_first < b_first + b_n && b_first < a_first + a_n;
}
static bool writes(const struct hop_row *row) { return row->kind != HOP_SEND; }

bool hops_conflict(const struct hop_row *a, const struct hop_row *b) {
    bool one_writes = writes(a) || writes(b);
    if (b->after_sums && a->kind == HOP_ADD) return true;
    if (one_writes && overlap(a->space, a->first, b->space, b->first, a->count, b->count)) return true;
    if (a->kind == HOP_COPY && writes(b) && overlap(a->source, a->source_first, b->space, b->first, a->count, b->count))
        return true;
    return b->kind == HOP_COPY && writes(a) &&
           overlap(a->space, a->first, b->source, b->source_first, a->count, b->count);
}

bool hops_same_lane(const struct hop_row *a, const struct hop_row *b) {
    if (a->kind == HOP_COPY || b->kind == HOP_COPY) return a->kind == b->kind;
    return a->peer == b->peer && (a->kind == HOP_SEND) == (b->kind == HOP_SEND);
}

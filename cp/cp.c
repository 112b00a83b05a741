/* Context parallelism.
 *
 * Idea: everything except attention treats each token by itself. So a rank that has T/cp tokens of every sample needs
 * nothing from other ranks for data, for the loss (a sum over tokens, divided by the global count) and for weights,
 * which are whole. Only attention looks at other tokens.
 *
 *   ring      keys and values go round the ranks (cp_ring.c); shards are zig-zag, so that all ranks have equal work
 *   gather    every rank gathers all keys and values (cp_gather.c)
 *   ulysses   before attention the sharded axis changes from tokens to heads, and back after it
 *             (lib/comm/reshard.h): each rank has the whole sequence for 1/cp of the heads
 *   both      cp-heads neighbors shard heads, and their parts of the sequence meet in a ring (USP)
 *
 * Stored where: activations 1/cp each; weights whole. dp x cp ranks hold the same weights and see other tokens: they
 * are replicas, over which dp/ sums gradients and zero/ shards (AXIS_DP).
 *
 * Sent when: at every attention, forward and backward. ring: 2 (cp-1)/cp B T C elements forward; the same backward,
 * plus 2 B T C reals. ulysses: 4 (cp-1)/cp^2 B T C each way, the least of all, but it needs heads that cp divides.
 *
 * What breaks: positions counted locally (the position table, dropout, the causal mask).
 *
 * Source: see cp_ring.c and lib/comm/reshard.h. */
#include "cp/cp.h"

#include "cp/cp_block.h"
#include "lib/base/integer.h"
#include "lib/ops/attention/attention.h"
#include "lib/comm/reshard.h"
#include <inttypes.h>
#include <string.h>

static const struct option OPTIONS[] = {
    {"cp-by", OPTION_CHOICE, "ring", 0, 0, "ring|ulysses|gather", "",
     "how attention sees the whole sequence: keys go round in a ring, or are gathered (2 cp must divide seq), or heads "
     "are sharded instead of tokens (cp must divide heads / tp)",
     "parallelism", offsetof(struct cp_options, by)},
};

static bool cp_wanted(const struct plan *plan) { return plan->mesh.cp > 1 || plan->mesh.cp_heads > 1; }

/* With ulysses, all cp ranks shard heads. */
static void cp_prefer(struct plan *plan) {
    if (cp_options(plan)->by == CP_BY_ULYSSES && plan->mesh.cp_heads <= 1) plan->mesh.cp_heads = plan->mesh.cp;
}

/* A ring gives each rank two pieces of the sequence, one from each end, so that all have the same work. */
static int64_t pieces_of(int64_t cp, int64_t heads) { return cp > heads ? 2 * cp : cp; }

/* A single rank shards no heads, and tp/ checks its own sharding. */
static bool heads_divide(const struct plan *plan, int64_t heads) {
    return heads == 1 || plan_kv_heads(plan) % (heads * plan->mesh.tp) == 0;
}

/* "1, 2, 4": the sizes of cp that check_sizes accepts. Static storage. */
static const char *sizes_that_divide(const struct plan *plan, int64_t heads_given) {
    static char text[256];
    bool ulysses = cp_options(plan)->by == CP_BY_ULYSSES;
    size_t used = 0;
    for (int64_t cp = 1; cp <= 64 && used + 8 < sizeof text; cp++) {
        int64_t heads = ulysses ? cp : heads_given;
        if (cp % heads == 0 && plan->seq % pieces_of(cp, heads) == 0 && heads_divide(plan, heads))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, used ? ", " : "", cp);
    }
    return used ? text : "none";
}

static enum status check_sizes(const struct plan *plan, int64_t in_ring, int64_t heads) {
    int64_t pieces = pieces_of(plan->mesh.cp, heads);
    if (in_ring * heads != plan->mesh.cp)
        return FAIL(E_CONFIG, "cp-heads=%" PRId64 " does not divide cp=%" PRId64 "; use one of %s", heads,
                    plan->mesh.cp, plan_divisors(plan->mesh.cp, plan->mesh.cp));
    if (plan->seq % pieces)
        return FAIL(E_CONFIG,
                    "cp=%" PRId64 " makes %" PRId64 " pieces of the sequence, which do not divide seq=%" PRId64
                    "; use seq=%" PRId64 ", or one of cp=%s",
                    plan->mesh.cp, pieces, plan->seq, round_up(plan->seq, pieces), sizes_that_divide(plan, heads));
    if (!heads_divide(plan, heads))
        return FAIL(E_CONFIG,
                    "%" PRId64 " ranks of cp shard the heads, and tp=%" PRId64 ", which together do not divide "
                    "%sheads=%" PRId64 "; use %s",
                    heads, plan->mesh.tp, model_options(plan)->kv_heads ? "kv-" : "", plan_kv_heads(plan),
                    cp_options(plan)->by == CP_BY_ULYSSES ? "cp-by ring" : "cp-heads 1");
    return OK;
}

static enum status cp_check(const struct plan *plan) {
    int64_t heads = plan->mesh.cp_heads ? plan->mesh.cp_heads : 1, in_ring = plan->mesh.cp / heads;
    int by = cp_options(plan)->by;
    if (by == CP_BY_ULYSSES && heads != plan->mesh.cp)
        return FAIL(E_CONFIG,
                    "cp-by=ulysses shards heads over all of cp=%" PRId64 ", and cp-heads=%" PRId64
                    "; leave cp-by out, or cp-heads",
                    plan->mesh.cp, heads);
    TRY(check_sizes(plan, in_ring, heads));
    if (in_ring > 1 && model_options(plan)->attention != ATTENTION_BLOCKED)
        return FAIL(E_CONFIG,
                    "cp-by=%s never has all probabilities of a query; use attention=blocked, or cp-by ulysses",
                    by == CP_BY_RING ? "ring" : "gather");
    if (in_ring > 1 && plan->attention_core == ATTENTION_CORE_CUDNN)
        return FAIL(E_CONFIG,
                    "cp-by=%s adds gradients to sums in fp32, which cuDNN does not; use attention-core auto, which "
                    "leaves forward to it, or cp-by ulysses",
                    by == CP_BY_RING ? "ring" : "gather");
    return OK;
}

/* ---- rewrite ---- */
/* The ring's shard of the sequence, over AXIS_CP. The ranks that shard heads together divide it (shard_tokens). */
static struct axis ring_shard(const struct plan *plan) {
    int n = mesh_size(AXIS_CP, &plan->place);
    struct axis t =
        n > 1 ? axis_zigzag('T', plan->seq, n, mesh_index(AXIS_CP, &plan->place)) : axis_whole('T', plan->seq);
    t.cut = n > 1 ? 1u << AXIS_DP : 0;
    return t;
}
static void shard_tokens(const struct plan *plan, struct type *data) {
    struct axis ring = ring_shard(plan), *t = &data->shape.axis[1];
    *t = axis_part(&ring, mesh_size(AXIS_CP_HEADS, &plan->place), mesh_index(AXIS_CP_HEADS, &plan->place));
    t->cut |= 1u << AXIS_DP;
}

static void over(const struct plan *plan, enum mesh_axis axis, struct step *s) {
    s->mesh_axis = axis;
    s->parts = mesh_size(axis, &plan->place);
    s->part = mesh_index(axis, &plan->place);
}

/* "h0.qkv" -> "h0.qkv.heads" */
static int slot_beside(struct program *p, int slot) {
    char name[NAME_MAX_LEN];
    snprintf(name, sizeof name, "%.30s.heads", p->slots[slot].name);
    int made = program_add_slot(p, "", "");
    memcpy(p->slots[made].name, name, sizeof name);
    return made;
}

static struct step reshard_step(const struct plan *plan, int block, int from, int to, struct reshard_rule rule) {
    struct step s = {
        .op = &op_reshard, .n_in = 1, .n_out = 1, .in = {from}, .out = {to}, .block = block, .reshard = rule};
    s.reshard.moves = 1u << AXIS_DP;
    over(plan, AXIS_CP_HEADS, &s);
    return s;
}

/* y = attention(x)  ->  x.heads = reshard(x); y.heads = attention(x.heads); y = reshard(y.heads)
 * Queries (in[0]) and keys (in[1]) may be separate tensors: then each is resharded alone, over its own heads. */
static enum status surround(const struct plan *plan, struct program *p, int at) {
    const struct step attention = p->steps[at];
    if (attention.attention.view.sinks)
        return FAIL(E_CONFIG, "cp-heads=%" PRId64 " shards the heads of attention alone, and attention-sinks=on has a "
                    "weight for each head; use cp-by ring without cp-heads", plan->mesh.cp_heads);
    int y = attention.out[0], y_heads = slot_beside(p, y);
    struct reshard_rule to_tokens = {.gathers = 'H', .cuts = 'T'};
    struct step after = reshard_step(plan, attention.block, y_heads, y, to_tokens);
    p->steps[at].out[0] = y_heads;
    program_insert(p, at + 1, &after);
    for (int i = attention.n_in - 1; i >= 0; i--) {
        struct reshard_rule to_heads = {.gathers = 'T', .cuts = i ? 'J' : 'H', .whole = ring_shard(plan)};
        int x = attention.in[i], x_heads = slot_beside(p, x);
        struct step before = reshard_step(plan, attention.block, x, x_heads, to_heads);
        p->steps[at].in[i] = x_heads;
        program_insert(p, at++, &before);
    }
    return OK;
}

static enum status cp_rewrite(const struct plan *plan, struct program *p) {
    for (int i = p->n_steps - 1; i >= 0; i--) {
        struct step *s = &p->steps[i];
        if (s->op != &op_attention_blocked && s->op != &op_attention_materialised) continue;
        if (mesh_size(AXIS_CP, &plan->place) > 1) {
            s->op = cp_options(plan)->by == CP_BY_RING ? &op_cp_ring : &op_cp_gather;
            over(plan, AXIS_CP, s);
        }
        if (mesh_size(AXIS_CP_HEADS, &plan->place) > 1) TRY(surround(plan, p, i));
    }
    for (int d = 0; d < N_DATA; d++)
        if (p->data[d] >= 0) shard_tokens(plan, &p->slots[p->data[d]].type);
    return OK;
}

const struct technique technique_cp = {
    .name = "cp", .options = {OPTIONS, 1, sizeof(struct cp_options)}, .wanted = cp_wanted, .prefer = cp_prefer,
    .check = cp_check, .rewrite = cp_rewrite};

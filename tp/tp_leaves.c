/* Leaves of the axes that tp may cut.
 *
 * With --sums fixed (lib/program/sums.h) every layout adds the same parts, or leaves, in the same order. An axis has
 * MOST_LEAVES leaves, or the largest smaller power of two that divides the axis. Leaves depend on the model alone, so
 * one rank has the leaves of many. A vocabulary always has MOST_LEAVES; its last leaves may be short or empty, and
 * ranks pad them.
 *
 * Tokens have leaves, too, because sp shards them. All activations get this axis from the token ids. */

#include "lib/base/integer.h"
#include "tp/tp.h"
#include <inttypes.h>
#include <string.h>

enum { MOST_LEAVES = 8 };

static int n_leaves(char tag, int64_t n) {
    int leaves = 1;
    while (leaves < MOST_LEAVES && (tag == 'V' || n % (2 * leaves) == 0)) leaves *= 2;
    return leaves;
}

static void mark(struct shape *s, const char *tags) {
    for (int i = 0; i < s->n_axes; i++)
        if (strchr(tags, s->axis[i].tag)) s->axis[i].leaves = n_leaves(s->axis[i].tag, s->axis[i].global);
}

void tp_leaves_mark(struct program *p) {
    for (int i = 0; i < p->n_params; i++) mark(&p->params[i].type.shape, "HJKV");
    for (int i = 0; i < p->n_slots; i++) mark(&p->slots[i].type.shape, "T");
}

int64_t tp_leaves_part(const struct axis *a, int64_t ranks) {
    return ranks > 1 ? a->leaves / ranks * axis_leaf(a) : a->n;
}

enum status tp_leaves_check(const struct plan *plan) {
    int64_t n = min64(n_leaves('J', plan_kv_heads(plan)), n_leaves('K', plan_ffn(plan)));   /* J divides H */
    if (tp_options(plan)->sp) n = min64(n, n_leaves('T', plan->seq));
    if (plan->mesh.tp <= n) return OK;
    return FAIL(E_CONFIG,
                "sums=fixed sums over %skv-heads=%" PRId64 " and ffn=%" PRId64 " in at most %" PRId64
                " equal parts, and tp=%" PRId64 "; use tp=%" PRId64 " or less, or sums=fast",
                tp_options(plan)->sp ? "seq, " : "", plan_kv_heads(plan), plan_ffn(plan), n, plan->mesh.tp, n);
}

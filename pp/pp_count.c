/* Orders by counting.
 *
 * One rule: a stage runs a forward if forwards are then at most `warm` + 1 ahead of backwards; otherwise a backward.
 * With several chunks, `group` microbatches pass a chunk before the next chunk gets any; backwards take the chunks from
 * the last to the first.
 *
 * If weight gradients are actions of their own (split_weight), W follows its B at a distance of `late` microbatches
 * while there are forwards to run. After the last forward one W follows each B, in the time in which 1F1B waits for the
 * next gradient. The remaining Ws come last. */
#include "pp/pp_orders.h"

/* The k-th forward (or backward, or weight gradient) of a stage. */
static struct action nth(enum action_kind kind, const struct pp_shape *x, int group, int k) {
    int round = group * x->n_chunks, chunk = k % round / group, microbatch = k / round * group + k % group;
    return action_of(kind, kind == ACTION_F ? chunk : x->n_chunks - 1 - chunk, microbatch);
}

void pp_count(const struct pp_shape *x, struct pp_count c, struct schedule *out) {
    int n = x->n_microbatches * x->n_chunks, f = 0, b = 0, w = out->split_weight ? 0 : n;
    while (b < n) {
        if (f < n && f - b <= c.warm) {
            pp_add(out, nth(ACTION_F, x, c.group, f++));
            continue;
        }
        pp_add(out, nth(ACTION_B, x, c.group, b++));
        if (b - w > (f < n ? c.late : 0)) pp_add(out, nth(ACTION_W, x, c.group, w++));
    }
    while (w < n) pp_add(out, nth(ACTION_W, x, c.group, w++));
}

/* The fastest algorithm of a collective, by simulation. See comm_rules.h.
 *
 * The same shapes come in every step, so each is simulated once, and the last ROOM answers are kept. */
#include "lib/comm/hops/comm_rules.h"

#include "lib/comm/hops/hop_simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 };
static struct answer {
    struct hop_shape shape;      /* node: a copy, owned */
    struct hop_links links;
    int64_t element_bytes;
    const struct comm_algorithm *fastest;
} answer[ROOM];
static int n_answers;

static bool same_nodes(const struct hop_shape *a, const struct hop_shape *b) {
    if (!a->node || !b->node) return a->node == b->node;
    return memcmp(a->node, b->node, (size_t)a->n * sizeof *a->node) == 0;
}
static bool same_links(const struct hop_links *a, const struct hop_links *b) {
    bool same = a->nic_per_node == b->nic_per_node && a->s_per_byte_added == b->s_per_byte_added;
    for (int i = 0; i < 2; i++) same &= a->latency_s[i] == b->latency_s[i] && a->s_per_byte[i] == b->s_per_byte[i];
    return same;
}
static bool same_shape(const struct hop_shape *a, const struct hop_shape *b) {
    return a->op == b->op && a->n == b->n && a->root == b->root && a->count == b->count && a->segment == b->segment &&
           a->line == b->line && same_nodes(a, b);
}

static enum status keep(const struct answer *x) {
    struct answer *at = &answer[n_answers++ % ROOM];
    int *node = x->shape.node ? malloc((size_t)x->shape.n * sizeof *node) : NULL;
    if (x->shape.node && !node) return FAIL(E_MEMORY, "no memory for the nodes of %d ranks", x->shape.n);
    if (node) memcpy(node, x->shape.node, (size_t)x->shape.n * sizeof *node);
    free((void *)(uintptr_t)at->shape.node);
    *at = *x;
    at->shape.node = node;
    return OK;
}

enum status comm_fastest(const struct hop_shape *shape, int64_t element_bytes, const struct hop_links *links,
                         const struct comm_algorithm **out) {
    for (int i = 0; i < n_answers && i < ROOM; i++) {
        const struct answer *x = &answer[i];
        if (x->element_bytes != element_bytes || !same_shape(&x->shape, shape) || !same_links(&x->links, links))
            continue;
        *out = x->fastest;
        return OK;
    }
    double least = INFINITY;
    *out = NULL;
    for (int i = 0; comm_algorithms[i]; i++) {
        double seconds;
        if (!comm_algorithm_fits(comm_algorithms[i], shape)) continue;
        TRY(hop_simulate(comm_algorithms[i], shape, element_bytes, links, NULL, NULL, &seconds));
        if (seconds < least) least = seconds, *out = comm_algorithms[i];
    }
    return keep(&(struct answer){*shape, *links, element_bytes, *out});
}

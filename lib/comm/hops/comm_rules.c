#include "lib/comm/hops/comm_rules.h"

#include "lib/base/say.h"
#include "lib/comm/hops/hop_rows.h"

#include <string.h>

_Static_assert((int)N_MESH_AXES <= (int)COMM_MAX_AXES, "a rule for each axis");

enum { LEAST_BYTES = 64 << 10 };  /* of the whole buffer; below, latency dominates, and trees and doubling are faster */

static const struct comm_algorithm *auto_algorithm(const struct hop_shape *shape, enum dtype dtype, bool hops_only) {
    static const struct comm_algorithm *const in_turn[] = {&hops_pairwise, &hops_tree, &hops_message};
    bool large = hop_shape_whole(shape) * (int64_t)dtype_size(dtype) >= LEAST_BYTES;
    bool sums_or_gathers = shape->op == COMM_ALL_REDUCE || shape->op == COMM_REDUCE_SCATTER ||
                           shape->op == COMM_ALL_GATHER;
    if (!hops_only) return large && sums_or_gathers ? &hops_pairwise : NULL;
    if (!large && shape->op == COMM_ALL_REDUCE) return &hops_doubling;
    for (int i = 0; i < 3; i++)
        if (comm_algorithm_fits(in_turn[i], shape)) return in_turn[i];
    return NULL;
}

enum status comm_rule_choose(const struct comm_rule *rule, const struct hop_shape *shape, enum dtype dtype,
                             bool hops_only, const struct hop_links *links, const char *group,
                             const struct comm_algorithm **out) {
    *out = NULL;
    if (rule->library && !hops_only) return OK;
    bool has_it = rule->algorithm && rule->algorithm->ops & 1u << shape->op;
    if (has_it) *out = rule->algorithm;
    else if (links && shape->n > 1) TRY(comm_fastest(shape, (int64_t)dtype_size(dtype), links, out));
    if (!*out) *out = auto_algorithm(shape, dtype, hops_only);
    if (!*out || comm_algorithm_fits(*out, shape)) return OK;
    return FAIL(E_CONFIG, "--comm-algorithm: %s cannot do %s of the %d ranks of group %s: it needs %s; use ring or "
                "pairwise", (*out)->name, comm_op_name(shape->op), shape->n, group, (*out)->needs);
}

const char *comm_rule_name(const struct comm_rule *rule) {
    return rule->library ? "library" : rule->algorithm ? rule->algorithm->name : "auto";
}

static enum status unknown_algorithm(const char *name) {
    char names[256] = "";
    struct line line = {names, sizeof names, 0};
    for (int i = 0; comm_algorithms[i]; i++) say(&line, ", %s", comm_algorithms[i]->name);
    return FAIL(E_CONFIG, "comm-algorithm: there is no algorithm \"%s\"; use auto, library%s", name, names);
}

static enum status rule_of(const char *name, struct comm_rule *rule) {
    *rule = (struct comm_rule){.library = strcmp(name, "library") == 0, .algorithm = comm_algorithm_find(name)};
    if (rule->library || rule->algorithm || strcmp(name, "auto") == 0) return OK;
    return unknown_algorithm(name);
}

static enum status axis_of(const char *name, enum mesh_axis *axis) {
    char names[256] = "";
    struct line line = {names, sizeof names, 0};
    for (*axis = AXIS_SELF + 1; *axis < N_MESH_AXES; ++*axis) {
        if (strcmp(name, mesh_axis_name(*axis)) == 0) return OK;
        say(&line, "%s%s", line.used ? ", " : "", mesh_axis_name(*axis));
    }
    return FAIL(E_CONFIG, "comm-algorithm: there is no axis \"%s\"; use %s", name, names);
}

enum status comm_rules_parse(const char *text, struct comm_rule rule[COMM_MAX_AXES]) {
    char list[1024], *rest = list;
    struct comm_rule all = {0};
    snprintf(list, sizeof list, "%s", text);
    if (!strchr(list, '=')) TRY(rule_of(list, &all));
    for (int a = 0; a < COMM_MAX_AXES; a++) rule[a] = all;
    if (!strchr(list, '=')) return OK;
    for (char *item; (item = strsep(&rest, ","));) {
        enum mesh_axis axis;
        char *name = strchr(item, '=');
        if (!name) return FAIL(E_CONFIG, "comm-algorithm: \"%s\" names no axis; write dp=%s", item, item);
        *name++ = 0;
        TRY(axis_of(item, &axis));
        TRY(rule_of(name, &rule[axis]));
    }
    return OK;
}

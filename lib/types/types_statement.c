/* Checks an op's statement of its exchanges and views, in addition to the rule of its types. */
#include "lib/types/types_rules.h"

#include "lib/comm/exchange.h"

static int first_exchange(const struct program *p, const struct step *s, enum row_kind kind) {
    struct exchange out[MAX_EXCHANGES] = {{0}};
    const struct call c = program_call(p, s);
    return s->op->exchanges && s->op->exchanges(&c, kind, out) > 0 ? (int)out[0].op : NOTHING;
}

static enum status refuse_statement(const struct program *p, const struct step *s, const char *rewrite,
                                    const char *what) {
    return FAIL(E_INTERNAL, "types after %s: %s is made by %s, whose rule is '%s', and %s", rewrite,
                p->slots[s->out[0]].name, s->op->name, typing_rules[s->op->typing].name, what);
}

enum status types_check_statement(const struct program *p, const struct step *s, const char *rewrite) {
    const struct op *op = s->op;
    const struct typing_rules *rules = &typing_rules[op->typing];
    if (!rules->forward)
        return FAIL(E_INTERNAL, "types after %s: %s is made by %s, which states no rule; add its typing "
                    "(lib/ops/op.h)", rewrite, p->slots[s->out[0]].name, op->name);
    int out = op->exchanges ? first_exchange(p, s, ROW_FORWARD) : NOTHING;
    int back = op->exchanges && op->has_backward_input ? first_exchange(p, s, ROW_BACKWARD_INPUT) : NOTHING;
    if (rules->out != ANYTHING && rules->out != out)
        return refuse_statement(p, s, rewrite, "forward it exchanges something else");
    if (rules->back != ANYTHING && rules->back != back && op->has_backward_input)
        return refuse_statement(p, s, rewrite, "backward it exchanges something else");
    if ((out != NOTHING && op->forward_alias == ALIAS_VIEW) || (back != NOTHING && op->backward_alias == ALIAS_VIEW))
        return refuse_statement(p, s, rewrite, "what it exchanges is a view, so no row would do it");
    return OK;
}

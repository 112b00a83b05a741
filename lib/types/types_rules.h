/* The rules of types.h: one step, over one factor of the mesh. Private to lib/types/types*.c. */
#pragma once

#include "lib/types/types.h"

/* forward fills `out` from `in` and `weight`; backward fills `din` and `dweight` from these and `dout`. An entry that a
 * rule does not set is SPREAD_NONE. over: the step communicates over this factor. */
struct typing_at {
    const struct program *p;
    const struct step *s;
    const char *rewrite, *factor;
    bool over;
    struct spread in[MAX_IN], out[MAX_OUT], weight[MAX_WEIGHTS], din[MAX_IN], dout[MAX_OUT], dweight[MAX_WEIGHTS];
};

typedef enum status typing_rule(struct typing_at *);
/* name: for errors. forward NULL: there is no rule. out, back: the op's exchange, forward and backward: an enum
 * comm_op, NOTHING or ANYTHING. */
enum { NOTHING = -1, ANYTHING = -2 };
struct typing_rules { const char *name; typing_rule *forward, *backward; int out, back; };
extern const struct typing_rules typing_rules[N_TYPINGS];

/** Do the op's stated exchanges and views fit its rule? @errors E_INTERNAL @collective{none} */
enum status types_check_statement(const struct program *, const struct step *, const char *rewrite);
/** Will the run sum the gradients that are partial, and count each element and the loss once? @errors E_INTERNAL
 *  @collective{none} */
enum status types_check_run(const struct program *, const struct types *, const char *rewrite);

static inline struct spread spread_of(enum spread_kind kind, char tag) { return (struct spread){kind, tag}; }
static inline bool spread_is(struct spread x, enum spread_kind kind) { return x.kind == kind; }
/* Key heads are those of the queries, or fewer that are shared. So a shard of key heads counts as a shard of the
 * queries' heads. */
static inline bool spread_alike(struct spread a, struct spread b) {
    char ta = a.tag == 'J' ? 'H' : a.tag, tb = b.tag == 'J' ? 'H' : b.tag;
    return a.kind == b.kind && (a.kind != SHARDED || ta == tb);
}

/* ---- The type of a tensor as its shape alone declares it.c. ---- */

/** The type of a tensor that no step makes: data, params, and slots from another stage. Axis B takes the factors of its
 *  cut that no other axis has. @errors E_INTERNAL: a shard whose size or place does not fit this rank's coordinates
 *  @collective{none} */
enum status types_declared(const struct program *, const struct factors *, const struct shape *, const char *name,
                           const char *rewrite, struct typed *);
/** Does the type that the rules gave fit the shape, in its sharded axes, their numbers of ranks, and the bits of their
 *  cuts? @errors E_INTERNAL @collective{none} */
enum status types_agree(const struct program *, const struct factors *, const struct shape *, const char *name,
                        const char *rewrite, const struct typed *);

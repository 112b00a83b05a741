/* Functions with which a model writes its list of steps (struct model, build). Params and steps have names, and belong
 * to the block that was opened last. Axes have letters, so that a technique finds "heads" and not "dimension 1 of qkv".
 *
 *   B sequences   T positions   C channels   H heads   J heads of keys and values   D channels of a head
 *   K hidden units of the MLP   F those of an expert   E experts   V vocabulary   R relative positions, in buckets
 *   1 to 9: of that length */
#pragma once

#include "lib/run/plan.h"
#include "lib/program/program.h"

struct builder { const struct plan *plan; struct program *p; };

/** The whole tensor over these axes: "BTC". The vocabulary is padded as plan_vocab_rows says. @collective{none} */
struct type build_type(const struct plan *, const char *axes, enum dtype);

/** A param of the block, learned from normal values with this deviation, decaying; or from a constant, not decaying.
 *  @return its index */
int build_matrix(struct builder *, const char *name, const char *axes, double std);
int build_vector(struct builder *, const char *name, const char *axes, double constant);

/* The inputs of a step: slots `x` and `second`, params `weight` and `bias`; NONE: it has no such input. */
enum { NONE = -1 };
struct inputs { int x, second, weight, bias; };

/** Append a step that makes slot `name` and the op's other outputs: `name`.stat, `name`.mask. Its rule is the plan's,
 *  with dropout off.
 *  @return its first output */
int build_step(struct builder *, const struct op *, const char *name, struct inputs);
/** Let the last step, whose op drops, do so with the plan's probability. @return slot */
int build_dropout(struct builder *, int slot);

/** The slot of one kind of data (B,T). */
int build_data(struct builder *, enum data_kind, const char *name);
/** Open the first block and read tokens (B,T); the slot of the data. */
int build_tokens(struct builder *, const char *block);
/** Append the head of a language model, and its loss: cross entropy of x (B,T,C), normalised, with `table` (V,C) and
 *  `bias` (V), or NONE. With loss-chunk one step, so that logits exist only for a chunk of tokens at a time. In the
 *  block of that name. */
void build_head(struct builder *, int x, int table, int bias);

/** Append a mixture of experts in place of an MLP (build_moe.c): each token of h (B,T,C) goes through some of the
 *  experts. gated: an expert's hidden units are swiglu's, else gelu's. down_std: initial deviation of what leads back
 *  to the residual. @return the slot of the experts' weighted sum (B,T,C) */
int build_experts(struct builder *, int h, bool gated, double down_std);

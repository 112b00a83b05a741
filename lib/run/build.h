/* Functions with which a model writes its list of steps (struct model, build). Each param and step has a name, and
 * belongs to the block that was opened last. Each axis has a letter, so that a technique can find the axis of the heads
 * without the dimensions of qkv.
 *
 *   B sequences   T positions   C channels   H heads   J heads of keys and values   D channels of a head
 *   K hidden units of the MLP   F hidden units of an expert   E experts   V vocabulary
 *   R buckets of relative positions
 *   1 to 9: an axis of that length */
#pragma once

#include "lib/ops/activation.h"
#include "lib/run/plan.h"
#include "lib/program/program.h"

struct builder { const struct plan *plan; struct program *p; enum activation act; };

/** The type of a whole tensor with these axes, as in "BTC". V is padded (plan_vocab_rows). @collective{none} */
struct type build_type(const struct plan *, const char *axes, enum dtype);

/** Add a param to the block. build_matrix: initial values are normal with deviation std, and weight decay applies.
 *  build_vector: the initial value is constant, and weight decay does not apply. @return the param's index */
int build_matrix(struct builder *, const char *name, const char *axes, double std);
int build_vector(struct builder *, const char *name, const char *axes, double constant);
/** Give the axis of a param another length than the plan's. */
void build_set_axis(struct builder *, int param, char tag, int64_t n);

/* The inputs of a step: slots `x` and `second`, params `weight` and `bias`; NONE: the step has no such input. */
enum { NONE = -1 };
struct inputs { int x, second, weight, bias; };

/** Append a step. Its outputs are the slot `name` and the op's other outputs, as in `name`.stat and `name`.mask. Its
 *  settings are the plan's, without dropout.
 *  @return the slot of its first output */
int build_step(struct builder *, const struct op *, const char *name, struct inputs);
/** Switch on dropout, with the plan's probability, in the last step, whose op supports it. @return slot */
int build_dropout(struct builder *, int slot);

/** @return a new slot (B,T) for one kind of data */
int build_data(struct builder *, enum data_kind, const char *name);
/** Open the first block. @return the slot of its tokens (B,T) */
int build_tokens(struct builder *, const char *block);
/** Append the block "head" of a language model, with its loss: logits are the normalised x (B,T,C) times `table` (V,C)
 *  plus `bias` (V) or NONE, and the loss is their cross entropy. With --loss-chunk head and loss are one step, in which
 *  logits exist for one chunk of tokens at a time. */
void build_head(struct builder *, int x, int table, int bias);

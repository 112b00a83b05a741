/* Other projects' names of a model's tensors, and how their tensors lie in ours: the names of Hugging Face's
 * transformers, for comparing recordings (oracle/), and for import and export of weights (hf_weights.h).
 *
 *   ours                  theirs                              axes       ours has      theirs
 *   h%d.qkv.w             transformer.h.%d.attn.c_attn.weight  "C 3HD"   (3,H,D,C)     (C, 3 x H x D): transposed
 *   h%d.kv.w              ...k_proj.weight, ...v_proj.weight   "JD C"    (2,J,D,C)     two of (J x D, C)
 *   h%d.experts.down.w    ...experts.%e.w2.weight              "C F"     (E,C,F)       E of (C, F)
 *
 * A row is of a param or of a slot. %d: the layer. axes: theirs in order, each made of ours. Axes of ours that are not
 * among them choose the tensor: E is its %e, another which of the names. */
#pragma once

#include "lib/device/tensor.h"

enum { PUBLISHED_PARTS = 3, PUBLISHED_AXES = 4, PUBLISHED_NAME_MAX = 128 };
struct published { const char *ours, *theirs[PUBLISHED_PARTS], *axes; };

/** A name with its layer in place of %d, and its expert in place of %e. @collective{none} */
void published_name(const char *pattern, int64_t layer, int64_t expert, char out[PUBLISHED_NAME_MAX]);
/** The row of the table for one of our names, and its layer (-1: it is in none). NULL: others have no such tensor.
 *  @collective{none} */
const struct published *published_find(const struct published *table, const char *ours, int *layer);
/** The shape of one tensor of theirs, of a whole tensor of ours that has the row's axes.
 *  @return the number of axes  @collective{none} */
int published_shape(const struct published *, const struct shape *ours, int64_t theirs[PUBLISHED_AXES]);
/** Is theirs the transpose of ours: a matrix that ends with another axis? As in GPT-2's Conv1D. @collective{none} */
bool published_is_transposed(const struct published *, const struct shape *ours);

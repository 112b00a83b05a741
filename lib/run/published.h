/* The mapping of a model's tensors to those of Hugging Face's transformers: names and axes. It serves to compare
 * recordings (oracle/), and to import and export weights (hf_weights.h).
 *
 *   ours                  theirs                              axes       ours has      theirs
 *   h%d.qkv.w             transformer.h.%d.attn.c_attn.weight  "C 3HD"   (3,H,D,C)     (C, 3 x H x D): transposed
 *   h%d.kv.w              ...k_proj.weight, ...v_proj.weight   "JD C"    (2,J,D,C)     two of (J x D, C)
 *   h%d.experts.down.w    ...experts.%e.w2.weight              "C F"     (E,C,F)       E of (C, F)
 *   h%d.experts.up.w      ...experts.gate_up_proj              "E C F2"  (E,2,F,C)     (E, C, F x 2): permuted
 *
 * A row maps a param or a slot. %d: the layer. axes: their tensor's axes in order; each word lists the axes of ours
 * that it merges. An axis of ours in no word selects one of several tensors: E by its %e, another by the name. */
#pragma once

#include "lib/device/tensor.h"

enum { PUBLISHED_PARTS = 3, PUBLISHED_AXES = 4, PUBLISHED_NAME_MAX = 128 };
struct published { const char *ours, *theirs[PUBLISHED_PARTS], *axes; };

/** Write the name with the layer in place of %d, and the expert in place of %e. @collective{none} */
void published_name(const char *pattern, int64_t layer, int64_t expert, char out[PUBLISHED_NAME_MAX]);
/** Find the row for one of our names. @param layer written: its layer; -1 outside the layers  @return NULL: the other
 *  project has no such tensor  @collective{none} */
const struct published *published_find(const struct published *table, const char *ours, int *layer);
/** Compute `theirs`, the shape of one of their tensors, from the shape of our whole tensor.
 *  @return the number of axes  @collective{none} */
int published_shape(const struct published *, const struct shape *ours, int64_t theirs[PUBLISHED_AXES]);
/** Write to axis[i] the number of our axis that is i-th in the order of their memory. Our first axes that no word has,
 *  which select a tensor, are left out.
 *  @return the number of axes; 0: their order is ours  @collective{none} */
int published_order(const struct published *, const struct shape *ours, int axis[MAX_AXES]);
/** Copy one of their tensors, of elements of `bytes` bytes, between their order and ours. theirs: `from` is in their
 *  order, and `to` in ours; otherwise the other way around. They do not overlap. @collective{none} */
void published_permute(const struct published *, const struct shape *ours, bool theirs, void *to, const void *from,
                       int64_t bytes);

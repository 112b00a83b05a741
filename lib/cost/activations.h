/* What a microbatch keeps from its forward to its backward, by block: the activation memory of the literature.
 *
 * A tensor belongs to the block whose backward reads it. So the residual stream that enters a layer, which the block
 * before has made, is the layer's own (its first layernorm's backward reads it), as in Korthikanti et al. 2022,
 * "Reducing Activation Recomputation in Large Transformer Models", section 4. With s = seq, b = micro-batch, h =
 * hidden, a = heads, t = tp and e bytes per element, materialised attention and stored masks, a layer saves, exactly:
 *
 *   layer input, ln1, res1, ln2            4e sbh        whole on every rank of tp; with sp a t-th part
 *   masks of the two residuals              2 sbh        the same
 *   qkv, attention output, fc, gelu       12e sbh / t    (3 + 1 + 4 + 4) e
 *   probabilities, mask, dropped      (2e + 1) as^2b / t
 *
 *                                    bytes                                      at e = 2
 *   tp                               sbh (4e+2 + 12e/t + (2e+1) as/(ht))        sbh (10 + 24/t + 5as/(ht))
 *   tp, sp                           sbh/t (16e+2 + (2e+1) as/h)                sbh/t (34 + 5as/h)
 *   tp, selective recomputation      sbh (4e+2 + 12e/t)                         sbh (10 + 24/t)
 *   tp, sp, selective                sbh/t (16e+2)                              34 sbh/t
 *   full recomputation               e sbh          (with sp: /t)               2 sbh
 *
 * Masks that are drawn again take away the 2, and of the 2e + 1 all but e. Blocked attention has nothing of size as^2b
 * from the start: with masks redrawn, sbh (4e + 12e/t), which at t = 1 and e = 2 is 32 sbh. Selective recomputation
 * then makes ln1, ln2 and gelu again: sbh (2e + 8e/t).
 *
 * Statistics are a number or two for each position or head, and left out of the paper's formulas. They are counted
 * apart, in numbers of the accumulator's size: 2 x 2 sb of the layernorms (with sp: /t), abs/t of blocked attention. */
#pragma once

#include "lib/program/lower.h"

struct activations { int64_t bytes, statistics, parked; };   /* parked: in host memory; the others, on the device */

/** Bytes of a microbatch that the chunk's blocks save from tape F for tapes B and W, each tensor once, without the
 *  padding that aligns them in their frame. Adds to blocks[0 .. p->n_blocks). @errors E_MEMORY  @collective{none} */
enum status activations_count(const struct program *, const struct chunk *, struct activations *blocks);

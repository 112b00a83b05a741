/* Activation memory: the bytes that a microbatch keeps from its forward to its backward, by block.
 *
 * A tensor belongs to the block whose backward reads it. So a layer's input, which the previous block computes, belongs
 * to the layer, because the backward of its first layernorm reads it. This is the rule of Korthikanti et al. 2022,
 * "Reducing Activation Recomputation in Large Transformer Models", section 4. With s = seq, b = micro-batch, h =
 * hidden, a = heads, t = tp and e bytes per element, materialized attention and stored masks, a layer saves exactly:
 *
 *   layer input, ln1, res1, ln2            4e sbh        whole on every rank of tp; 1/t of it with sp
 *   masks of the two residuals              2 sbh        whole on every rank of tp; 1/t of it with sp
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
 * If backward draws the masks again instead of storing them, the term 2 becomes 0, and 2e + 1 becomes e. Blocked
 * attention saves no tensor of size as^2b: with redrawn masks a layer saves sbh (4e + 12e/t), which at t = 1 and e = 2
 * is 32 sbh. Selective recomputation then recomputes ln1, ln2 and gelu: sbh (2e + 8e/t).
 *
 * Statistics are one or two numbers for each position or head. The paper's formulas leave them out; activations_count
 * has them apart. There are 2 x 2 sb of layernorms (with sp: /t) and abs/t of attention, of the accumulator's size. */
#pragma once

#include "lib/program/lower.h"

struct activations { int64_t bytes, statistics, parked; };   /* parked is in host memory, the others on the device */

/** Add to blocks[0 .. p->n_blocks) the bytes of a microbatch that the chunk's blocks save from tape F for tapes B, W.
 *  Each tensor counts once, without alignment padding. @errors E_MEMORY; E_INTERNAL  @collective{none} */
enum status activations_count(const struct program *, const struct chunk *, struct activations *blocks);

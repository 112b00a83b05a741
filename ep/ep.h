/* Expert parallelism: the experts of a layer are sharded over ranks that have different tokens. See ep.c. */
#pragma once

#include "lib/comm/reshard.h"
#include "lib/ops/moe/moe_pack.h"
#include "lib/run/technique.h"
#include <stdio.h>
#include <string.h>

extern const struct technique technique_ep;

/** ep_edit.c. ep_over: set the step's mesh_axis, parts and part: this rank's share of axis P. ep_shard_experts: keep
 *  this rank's part of a weight's axis 0, and set the bit of AXIS_EP in its `cut`. @errors none */
enum status ep_over(const struct plan *, struct step *);
enum status ep_shard_experts(const struct plan *, struct program *, int param);
/** ep_send, step `at` is a dispatch (out 0) or a pack (out 1): sent = dispatch(..) -> sent.out = dispatch(..); sent =
 *  reshard(sent.out). ep_bring_back, step `at` is a combine: combine(y, ..) -> y.back = reshard(y); combine(y.back, ..)
 *  @errors none */
enum status ep_send(const struct plan *, struct program *, int at, int out);
enum status ep_bring_back(const struct plan *, struct program *, int at);

/** A new slot, "h0.sent" -> "h0.sent.suffix". @return its number */
static inline int ep_slot_beside(struct program *p, int slot, const char *suffix) {
    char name[NAME_MAX_LEN];
    snprintf(name, sizeof name, "%.30s.%s", p->slots[slot].name, suffix);
    int made = program_add_slot(p, "", "");
    memcpy(p->slots[made].name, name, sizeof name);
    return made;
}
/** A reshard from slot `from` to slot `to`, before step `at`, over ep: the axis `gathers` becomes whole, the axis
 *  `cuts` is sharded instead. @errors those of ep_over */
static inline enum status ep_insert_reshard(const struct plan *plan, struct program *p, int at, int from, int to,
                                            char gathers, char cuts) {
    bool counts = p->steps[at - 1].op == &op_moe_pack;
    struct step s = {.op = counts ? &op_reshard_counts : &op_reshard, .n_in = 1, .n_out = 1, .in = {from}, .out = {to},
                     .block = p->steps[at - 1].block, .mesh_axis = AXIS_EP,
                     .reshard = {.gathers = gathers, .cuts = cuts, .moves = 1u << AXIS_EP}};
    TRY(ep_over(plan, &s));
    program_insert(p, at, &s);
    return OK;
}

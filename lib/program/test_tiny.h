/* Tiny programs for the tests of this folder. Every slot and every param is a vector of TINY_N doubles: 88 bytes, so
 * that nothing is aligned by accident. Ops are plain tables, so a test declares those it needs:
 *
 *   static const struct op op_square = {.name = "square", .shape = tiny_shape, .needs = {.bi_in = IN(0)},
 *                                       .has_backward_input = true};
 *   program_init(&p);
 *   int x = tiny_block(&p, "a"), y = tiny_add(&p, &op_square, "y", x, NONE, NONE); */
#pragma once

#include "lib/program/program.h"
#include "tests/test.h"

enum { TINY_N = 11, TINY_BYTES = 8 * TINY_N, NONE = -1 };

static inline struct type tiny_type(void) { return (struct type){FP64, {1, {axis_whole('C', TINY_N)}}}; }

/* Every output has the type of the first input. */
static inline enum status tiny_shape(const struct call *c, struct type out[MAX_OUT]) {
    for (int i = 0; i < c->step->n_out; i++) out[i] = *c->in[0].type;
    return OK;
}

/** Open a block. Its input is the last block's output; the first block's is a new slot "x", which no step fills.
 *  @return the input */
static inline int tiny_block(struct program *p, const char *name) {
    int in = p->n_blocks ? p->blocks[p->n_blocks - 1].out[0] : program_add_slot(p, "data", "x");
    if (p->n_blocks == 0) p->slots[in].type = tiny_type();
    program_add_block(p, name, in, true);
    return in;
}

static inline int tiny_param(struct program *p, const char *name) {
    return program_add_param(p, p->blocks[p->n_blocks - 1].name, name, tiny_type(), 0, 1, true);
}

/** Append a step with one output, which becomes the output of the block. second, weight: NONE, or a slot, a param.
 *  @return the output slot */
static inline int tiny_add(struct program *p, const struct op *op, const char *name, int in, int second, int weight) {
    struct block *b = &p->blocks[p->n_blocks - 1];
    struct step s = {.op = op, .block = p->n_blocks - 1, .parts = 1, .n_out = 1, .n_in = 1, .in = {in, second},
                     .weight = {weight}};
    if (second != NONE) s.n_in = 2;
    if (weight != NONE) s.n_weight = 1;
    b->out[0] = s.out[0] = program_add_slot(p, b->name, name);
    program_insert(p, p->n_steps, &s);
    return s.out[0];
}

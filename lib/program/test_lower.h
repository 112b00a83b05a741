/* A test bench for lowering: a program, its only chunk, and functions that inspect the result. */
#pragma once

#include "lib/program/lower.h"
#include "lib/program/test_tiny.h"
#include <string.h>

/* ---- ops that differ in one declaration each ---- */
#define TINY(op_name) .name = op_name, .shape = tiny_shape, .has_backward_input = true

static const struct op op_plain = {TINY("plain")};
static const struct op op_reads_in = {TINY("reads_in"), .needs = {.bi_in = IN(0)}};
static const struct op op_reads_out = {TINY("reads_out"), .needs = {.bi_out = OUT(0)}};
static const struct op op_reads_second = {TINY("reads_second"), .needs = {.bi_in = IN(1)}};
static const struct op op_matrix = {TINY("matrix"), .needs = {.bi_weight = WEIGHT(0), .bw_in = IN(0)},
                                    .has_backward_weight = true, .defer_weight = true};
static const struct op op_bias = {TINY("bias"), .has_backward_weight = true};
static const struct op op_over = {TINY("over"), .forward_alias = ALIAS_IN_PLACE, .backward_alias = ALIAS_IN_PLACE};
static const struct op op_over_reads_in = {TINY("over_reads_in"), .needs = {.bi_in = IN(0)},
                                           .forward_alias = ALIAS_IN_PLACE, .backward_alias = ALIAS_IN_PLACE};
static const struct op op_over_in = {TINY("over_in"), .needs = {.bi_in = IN(0)}, .backward_over_in = true};
static const struct op op_enter = {TINY("enter"), .forward_alias = ALIAS_VIEW, .backward_alias = ALIAS_IN_PLACE,
                                   .async_backward = true};
static const struct op op_exit = {TINY("exit"), .forward_alias = ALIAS_IN_PLACE, .backward_alias = ALIAS_VIEW};

/* ---- inspecting the result ---- */
static struct program p;
static struct chunk k;
static int x;            /* the first block's input */

static inline int begin(void **state) {
    (void)state;
    program_init(&p);
    x = tiny_block(&p, "a");
    return 0;
}
static inline int end(void **state) {
    (void)state;
    chunk_fini(&k);
    program_fini(&p);
    return 0;
}
#define lower_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

static inline int add(const struct op *op, const char *name, int in) { return tiny_add(&p, op, name, in, NONE, NONE); }
static inline int add_weighted(const struct op *op, const char *name, int in, int weight) {
    return tiny_add(&p, op, name, in, NONE, weight);
}
static inline void lower(bool split_weight) {
    assert_ok(program_infer(&p));
    assert_ok(chunk_lower(&p, 0, split_weight, &k));
}

static inline int step_named(const char *slot) {
    for (int i = 0; i < p.n_steps; i++)
        if (!strcmp(p.slots[p.steps[i].out[0]].name, slot)) return i;
    fail_msg("no step makes %s", slot);
    return -1;
}

/* The row's index in its tape; -1: there is no such row. */
static inline int find(enum tape_kind tape, enum row_kind kind, int id) {
    for (int i = 0; i < k.tapes[tape].n; i++)
        if (k.tapes[tape].rows[i].kind == kind && k.tapes[tape].rows[i].id == id) return i;
    return -1;
}
static inline const struct row *row(enum tape_kind tape, enum row_kind kind, int id) {
    int i = find(tape, kind, id);
    if (i < 0) fail_msg("tape %d has no row of kind %d for %d", tape, kind, id);
    return &k.tapes[tape].rows[i];
}
static inline const struct row *forward_of(const char *slot) { return row(TAPE_F, ROW_FORWARD, step_named(slot)); }
static inline const struct row *input_of(const char *slot) { return row(TAPE_B, ROW_BACKWARD_INPUT, step_named(slot)); }

/* A tape in letters: f forward, r replay, i backward input, w backward weight, . wait, A ahead, N needed, D done, G
 * grad ready; each followed by the last letter of the slot's or the param's name. */
static inline const char *letters(enum tape_kind tape) {
    static char text[512];
    int n = 0;
    for (int i = 0; i < k.tapes[tape].n; i++) {
        const struct row *r = &k.tapes[tape].rows[i];
        const char *name = r->kind >= ROW_PARAM_AHEAD ? p.params[r->id].name : p.slots[p.steps[r->id].out[0]].name;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%c%c", i ? " " : "", "friw.ANDG"[r->kind],
                      name[strlen(name) - 1]);
    }
    text[n] = 0;
    return text;
}

static inline const struct storage *storage_of(int v) { return &k.storages[k.values[v].storage]; }
static inline bool crosses(int v) { return storage_class(storage_of(v)) != SCRATCH; }
static inline bool share(int v, int w) { return k.values[v].storage == k.values[w].storage; }

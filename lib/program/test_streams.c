/* ranks: 1  device: cpu
 *
 * Two streams of different lengths go from block to block; the middle block only passes one of them on. The blocks are
 * three chunks of one rank, which sends messages to itself:
 *
 *   a   y = w t    q = v s         gives y (TINY_N) and q (SHORT)
 *   b   z = w y                    gives z and q
 *   c   u = z sum q, loss = sum u = w^2 t sum(v s), over TINY_N
 *
 *   d loss / d w[i] = 2 w[i] t[i] sum(v s)     d loss / d v[j] = s[j] sum_i w[i]^2 t[i] */
#include "lib/comm/comm.h"
#include "lib/device/arena.h"
#include "lib/program/bill.h"
#include "lib/program/exec.h"
#include "lib/program/gradients.h"
#include "lib/program/test_tiny.h"
#include <stdlib.h>
#include <string.h>

enum { SHORT = 5, N_CHUNKS = 3, N_MICROBATCHES = 2 };

/* ---- the ops ---- */
static int64_t n_of(const struct tensor *t) { return type_n(t->type); }

static enum status source_shape(const struct call *c, struct type out[MAX_OUT]) {
    out[0] = *c->weight[0].type;
    return OK;
}
static enum status source_forward(const struct call *c) {
    for (int64_t i = 0; i < n_of(&c->out[0]); i++)
        ((double *)c->out[0].data)[i] = ((double *)c->weight[0].data)[i] * ((int32_t *)c->in[0].data)[i];
    return OK;
}
static enum status source_weight(const struct call *c) {
    for (int64_t i = 0; i < n_of(&c->dweight[0]); i++)
        ((double *)c->dweight[0].data)[i] += ((double *)c->dout[0].data)[i] * ((int32_t *)c->in[0].data)[i];
    return OK;
}
static enum status scale_forward(const struct call *c) {
    for (int i = 0; i < TINY_N; i++)
        ((double *)c->out[0].data)[i] = ((double *)c->weight[0].data)[i] * ((double *)c->in[0].data)[i];
    return OK;
}
static enum status scale_input(const struct call *c) {
    for (int i = 0; i < TINY_N; i++)
        ((double *)c->din[0].data)[i] = ((double *)c->weight[0].data)[i] * ((double *)c->dout[0].data)[i];
    return OK;
}
static enum status scale_weight(const struct call *c) {
    for (int i = 0; i < TINY_N; i++)
        ((double *)c->dweight[0].data)[i] += ((double *)c->in[0].data)[i] * ((double *)c->dout[0].data)[i];
    return OK;
}
static double sum_of(const struct tensor *t) {
    double sum = 0;
    for (int64_t i = 0; i < n_of(t); i++) sum += ((double *)t->data)[i];
    return sum;
}
static enum status loss_shape(const struct call *c, struct type out[MAX_OUT]) {
    out[0] = (struct type){c->in[0].type->dtype, {1, {axis_whole('1', 1)}}};
    return OK;
}
static enum status loss_forward(const struct call *c) {
    *(double *)c->out[0].data = sum_of(&c->in[0]) * sum_of(&c->in[1]);
    return OK;
}
/* Adds to din[k] if accumulate has bit k: then another reader has already left a gradient there. */
static enum status loss_input(const struct call *c) {
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < n_of(&c->din[k]); i++) {
            double *to = (double *)c->din[k].data + i;
            *to = (c->accumulate >> k & 1 ? *to : 0) + sum_of(&c->in[1 - k]);
        }
    return OK;
}

#define KERNELS(...) .kernels = {[DEVICE_CPU] = {[FP64] = {__VA_ARGS__}}}
static const struct op op_source = {.name = "source", .shape = source_shape, .needs = {.bw_in = IN(0)},
                                    .no_grad_in = IN(0), .has_backward_weight = true,
                                    KERNELS(source_forward, NULL, source_weight)};
static const struct op op_scale = {.name = "scale", .shape = tiny_shape,
                                   .needs = {.bi_weight = WEIGHT(0), .bw_in = IN(0)}, .has_backward_input = true,
                                   .has_backward_weight = true, KERNELS(scale_forward, scale_input, scale_weight)};
static const struct op op_loss = {.name = "loss", .shape = loss_shape, .needs = {.bi_in = IN(0) | IN(1)},
                                  .no_grad_out = OUT(0), .has_backward_input = true,
                                  KERNELS(loss_forward, loss_input, NULL)};

/* ---- a test bench of one rank ---- */
static struct bench {
    struct program program;
    struct chunk chunks[N_CHUNKS];
    struct schedule schedule;
    struct memory_plan memory;
    struct arena arenas[N_ROLES];
    struct mesh mesh;
    struct exec exec;
    int y, q;
} b;

static int32_t token(int microbatch, int i) { return (microbatch + 2 * i) % 5 + 1; }
static int32_t other(int microbatch, int i) { return (3 * microbatch + i) % 4 + 1; }

static enum status fetch(void *self, int microbatch, int32_t *const data[N_DATA]) {
    (void)self;
    for (int i = 0; i < TINY_N && data[DATA_TOKENS]; i++) data[DATA_TOKENS][i] = token(microbatch, i);
    for (int i = 0; i < SHORT && data[DATA_SEGMENTS]; i++) data[DATA_SEGMENTS][i] = other(microbatch, i);
    return OK;
}
static enum status param_event(void *self, const struct param_event *e) {
    (void)self, (void)e;
    return OK;
}

static struct type vector(int64_t n, enum dtype dtype) { return (struct type){dtype, {1, {axis_whole('C', n)}}}; }

static int data_slot(enum data_kind kind, int64_t n) {
    int slot = b.program.data[kind] = program_add_slot(&b.program, "data", "tokens");
    b.program.slots[slot].type = vector(n, INT32);
    return slot;
}

static void open_block(const char *name, const struct block *before) {
    int block = program_add_block(&b.program, name, before ? before->out[0] : NONE, true);
    if (before) b.program.blocks[block].in[1] = b.program.blocks[block - 1].out[1];
    b.program.blocks[block].chunk = block;
}

static void build(void) {
    struct program *p = &b.program;
    program_init(p);
    p->n_chunks = N_CHUNKS;
    open_block("a", NULL);
    int w = tiny_param(p, "w"), v = program_add_param(p, "a", "v", vector(SHORT, FP64), 0, 1, true);
    b.q = tiny_add(p, &op_source, "q", data_slot(DATA_SEGMENTS, SHORT), NONE, v);
    b.y = tiny_add(p, &op_source, "y", data_slot(DATA_TOKENS, TINY_N), NONE, w);
    p->blocks[0].out[1] = b.q;
    open_block("b", &p->blocks[0]);
    tiny_add(p, &op_scale, "z", b.y, NONE, w);
    p->blocks[1].out[1] = b.q;
    open_block("c", &p->blocks[1]);
    p->loss = tiny_add(p, &op_loss, "loss", p->blocks[1].out[0], b.q, NONE);
    p->blocks[2].out[0] = NONE;
}

/* Each microbatch runs forward through chunks 0, 1, 2 and then back, all on this rank. */
static void make_schedule(void) {
    struct schedule *s = &b.schedule;
    *s = (struct schedule){.n_microbatches = N_MICROBATCHES, .n_ways = 1, .send_depth = 1};
    s->hops = calloc(N_CHUNKS, sizeof *s->hops);
    for (int i = 0; i < N_CHUNKS; i++) {
        s->hops[i][HOP_NEXT] = (struct hop){i + 1 < N_CHUNKS ? 0 : -1, i + 1, 0};
        s->hops[i][HOP_BEFORE] = (struct hop){i > 0 ? 0 : -1, i - 1, 0};
    }
    for (int m = 0; m < N_MICROBATCHES; m++) {
        for (int i = 0; i < N_CHUNKS; i++) {
            if (i > 0) schedule_add(s, RECV_F, i, m);
            schedule_add(s, ACTION_F, i, m);
            if (i + 1 < N_CHUNKS) schedule_add(s, SEND_F, i, m);
        }
        for (int i = N_CHUNKS; i-- > 0;) {
            if (i + 1 < N_CHUNKS) schedule_add(s, RECV_B, i, m);
            schedule_add(s, ACTION_B, i, m);
            if (i > 0) schedule_add(s, SEND_B, i, m);
        }
    }
}

static double weight(int i) { return 0.5 + i / 8.0; }

static void place_params(void) {
    for (int k = 0; k < b.program.n_params; k++) {
        struct param *w = &b.program.params[k];
        w->weight = arena_at(&b.arenas[ROLE_PARAM], w->arrays[ARRAY_WEIGHT].offset);
        w->grad = arena_at(&b.arenas[ROLE_GRAD], param_grad_offset(w));
        for (int64_t i = 0; i < type_n(&w->type); i++) ((double *)w->weight)[i] = weight((int)i);
    }
}

static int start(void **state) {
    (void)state;
    memset(&b, 0, sizeof b);
    build();
    make_schedule();
    assert_ok(program_infer(&b.program));
    for (int i = 0; i < N_CHUNKS; i++) assert_ok(chunk_lower(&b.program, i, false, &b.chunks[i]));
    assert_ok(gradients_mark(&b.program, b.chunks, &b.schedule));
    memory_plan_params(&b.program, &b.schedule, &b.memory);
    assert_ok(memory_plan_rest(&b.program, b.chunks, &b.schedule, 0, 0, &b.memory));
    for (enum role r = 0; r < N_ROLES; r++)
        assert_ok(arena_init(&b.arenas[r], device_cpu(), r, b.memory.bytes[TIER_DEVICE][r], true));
    place_params();
    b.mesh.place = mesh_place_of(&(struct mesh_sizes){.dp = 1}, 0);
    for (int a = 0; a < N_MESH_AXES; a++) b.mesh.group[a] = group_self();
    b.exec = (struct exec){.program = &b.program, .chunks = b.chunks, .memory = &b.memory, .mesh = &b.mesh,
                           .arenas = b.arenas, .device = device_cpu(), .hooks = {NULL, fetch, param_event},
                           .workers = 1, .loss_weight = 1, .loss_scale = 1, .micro = 1, .paint = true};
    assert_ok(exec_init(&b.exec));
    return 0;
}

static int finish(void **state) {
    (void)state;
    exec_fini(&b.exec);
    for (enum role r = 0; r < N_ROLES; r++)
        if (b.arenas[r].base) arena_fini(&b.arenas[r]);
    memory_plan_fini(&b.memory);
    schedule_fini(&b.schedule);
    for (int i = 0; i < N_CHUNKS; i++) chunk_fini(&b.chunks[i]);
    program_fini(&b.program);
    return 0;
}

/* ---- numbers: eighths of small integers, so no tolerance ---- */
static double sum_short(int m) {
    double sum = 0;
    for (int j = 0; j < SHORT; j++) sum += weight(j) * other(m, j);
    return sum;
}
static double sum_long(int m) {
    double sum = 0;
    for (int i = 0; i < TINY_N; i++) sum += weight(i) * weight(i) * token(m, i);
    return sum;
}

TEST(test_both_streams_arrive_and_their_gradients_come_back) {
    const double *dw = b.program.params[0].grad, *dv = b.program.params[1].grad;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    double loss = 0;
    for (int m = 0; m < N_MICROBATCHES; m++) loss += sum_long(m) * sum_short(m);
    assert_close(b.exec.sums[SUM_LOSS], loss, 0);
    for (int i = 0; i < TINY_N; i++) {
        double sum = 0;
        for (int m = 0; m < N_MICROBATCHES; m++) sum += 2 * weight(i) * token(m, i) * sum_short(m);
        assert_close(dw[i], sum, 0);
    }
    for (int j = 0; j < SHORT; j++) {
        double sum = 0;
        for (int m = 0; m < N_MICROBATCHES; m++) sum += other(m, j) * sum_long(m);
        assert_close(dv[j], sum, 0);
    }
}

/* ---- tables ---- */
TEST(test_what_is_passed_on_is_one_value_from_edge_to_edge) {
    const struct chunk *k = &b.chunks[1];
    assert_int_equal(k->in[1], k->out[1]);
    assert_int_equal(k->dout[1], k->din[1]);
    assert_int_equal(k->values[k->in[1]].birth.row, -1);
    assert_int_equal(k->values[k->in[1]].death.row, k->tapes[TAPE_F].n);
    assert_int_equal(k->values[k->din[1]].birth.row, -1);
    assert_int_equal(k->values[k->din[1]].death.row, k->tapes[TAPE_B].n);
    assert_true(b.chunks[0].in[1] == NO_VALUE && b.chunks[2].out[1] == NO_VALUE);
}

TEST(test_a_buffer_of_the_ring_has_a_place_for_each_stream) {
    const struct stage_ring *forward = &b.memory.ring[0], *backward = &b.memory.ring[1];
    assert_int_equal(forward->stream[0], 0);
    assert_int_equal(forward->stream[1], arena_align(TINY_BYTES));
    assert_int_equal(forward->bytes, arena_align(TINY_BYTES) + 8 * SHORT);
    assert_int_equal(backward->bytes, forward->bytes);
    assert_int_equal(chunk_moved_bytes(&b.chunks[1], SEND_F), TINY_BYTES + 8 * SHORT);
}

/* Each stream is a message of its own. */
TEST(test_both_streams_are_billed) {
    struct bill bill = {0};
    b.program.place.n.pp = 2;
    b.schedule.rank = 1;                                             /* so that the neighbors are other ranks */
    bill_sends(&b.program, &b.schedule, &bill);
    b.schedule.rank = 0;
    assert_int_equal(bill.n_exchanges, 4 * 2);
    for (int i = 0; i < bill.n_exchanges; i++) {
        assert_int_equal(bill.exchanges[i].count, i % 2 ? SHORT : TINY_N);
        assert_int_equal(bill.exchanges[i].along, i % 2);
        assert_int_equal(bill.exchanges[i].times, N_MICROBATCHES);
    }
    assert_close(bill.wire_bytes[AXIS_PP], 4 * N_MICROBATCHES * (TINY_BYTES + 8 * SHORT), 0);
    bill_fini(&bill);
}

/* As on a stage that has only the middle block. */
TEST(test_what_no_step_reads_but_a_block_passes_on_stays) {
    struct program *p = &b.program;
    struct step middle = p->steps[2];
    assert_true(middle.op == &op_scale);
    p->steps[0] = middle;
    p->n_steps = 1, p->loss = NONE;
    p->blocks[0].chunk = p->blocks[2].chunk = -1, p->blocks[1].chunk = 0;
    program_drop_unused(p);
    assert_int_equal(p->n_slots, 3);
    assert_string_equal(p->slots[p->blocks[1].in[1]].name, "a.q");
    assert_int_equal(p->blocks[1].in[1], p->blocks[1].out[1]);
    p->blocks[1].chunk = -1;                                         /* no block: the slots are dropped */
    program_drop_unused(p);
    assert_int_equal(p->n_slots, 2);
    assert_int_equal(p->blocks[1].in[1], -1);
}

#define streams_test(f) cmocka_unit_test_setup_teardown(f, start, finish)
TESTS(streams_test(test_both_streams_arrive_and_their_gradients_come_back),
      streams_test(test_what_is_passed_on_is_one_value_from_edge_to_edge),
      streams_test(test_a_buffer_of_the_ring_has_a_place_for_each_stream),
      streams_test(test_both_streams_are_billed),
      streams_test(test_what_no_step_reads_but_a_block_passes_on_stays))

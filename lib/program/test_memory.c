/* ranks: 1  device: cpu
 *
 * The memory plan against brute force. The test computes the bytes in use from the rows alone: a value is in use from
 * the first row that names it to the last, in the actions of its microbatch. From lowering it takes only the offset of
 * each value, and not lifetimes, storages or frames. */
#include "driver/recipe.h"
#include "lib/run/run.h"
#include "pp/pp.h"
#include "pp/pp_schedule.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

/* ---- the time when a value is in use: moments of the tapes F, B, W in sequence; -1: no row has named it ---- */
enum { MAX_ROWS = 10000 };   /* of a tape */
static int row_time_of(enum tape_kind tape, int row) { return tape * MAX_ROWS + row + 1; }

struct use { int first, last; };

static void use_at(struct use *u, int v, int moment) {
    if (v < 0) return;
    if (u[v].first < 0 || moment < u[v].first) u[v].first = moment;
    if (moment > u[v].last) u[v].last = moment;
}

static void use_row(struct use *u, const struct row *r, int moment) {
    for (int j = 0; j < MAX_IN; j++) use_at(u, r->in[j], moment), use_at(u, r->din[j], moment);
    for (int j = 0; j < MAX_OUT; j++) use_at(u, r->out[j], moment), use_at(u, r->dout[j], moment);
    for (int j = 0; j < MAX_WEIGHTS; j++) use_at(u, r->weight[j], moment), use_at(u, r->dweight[j], moment);
    use_at(u, r->work, moment);
}

/* An exchange uses din, and dout unless both are the same bytes, until its wait. */
static void use_until_wait(struct use *u, const struct chunk *k, const struct row *r, enum tape_kind tape) {
    if (r->wait < 0) return;
    bool in_place = k->values[r->dout[0]].storage == k->values[r->din[0]].storage;
    use_at(u, r->din[0], row_time_of(tape, r->wait));
    if (!in_place) use_at(u, r->dout[0], row_time_of(tape, r->wait));
}

/* The chunk's inputs are written before the first row, and its outputs are read after the last row. */
static struct use *uses_of(const struct chunk *k) {
    struct use *u = malloc((size_t)k->n_values * sizeof *u);
    for (int v = 0; v < k->n_values; v++) u[v] = (struct use){-1, -1};
    for (enum tape_kind t = 0; t < N_TAPES; t++)
        for (int i = 0; i < k->tapes[t].n; i++) {
            use_row(u, &k->tapes[t].rows[i], row_time_of(t, i));
            use_until_wait(u, k, &k->tapes[t].rows[i], t);
        }
    for (int i = 0; i < MAX_STREAMS; i++) {
        use_at(u, k->in[i], row_time_of(TAPE_F, -1)), use_at(u, k->out[i], row_time_of(TAPE_F, k->tapes[TAPE_F].n));
        use_at(u, k->dout[i], row_time_of(TAPE_B, -1)), use_at(u, k->din[i], row_time_of(TAPE_B, k->tapes[TAPE_B].n));
    }
    for (int d = 0; d < N_DATA; d++) use_at(u, k->data[d], row_time_of(TAPE_F, -1));
    use_at(u, k->loss, row_time_of(TAPE_F, k->tapes[TAPE_F].n));
    return u;
}

/* ---- the bytes of every value of every microbatch, over the time of the whole schedule ---- */
struct bytes { int64_t from_byte, to_byte; long from, to; int value, microbatch; enum role role; };

static int action_at(const struct schedule *s, enum tape_kind tape, int microbatch) {
    for (int t = 0; t < s->n; t++)
        if (s->actions[t].kind == (enum action_kind)tape && s->actions[t].microbatch == microbatch) return t;
    return -1;
}

/* Row -1 takes place at the receive, one action earlier. */
static long time_of(const struct schedule *s, int moment, int microbatch) {
    int tape = moment / MAX_ROWS, action = action_at(s, (enum tape_kind)tape, microbatch);
    bool received = moment % MAX_ROWS == 0 && action > 0 && !action_is_compute(s->actions[action - 1].kind);
    return (long)(action - received) * MAX_ROWS + moment % MAX_ROWS;
}

static int64_t address_of(const struct chunk *k, const struct memory_plan *m, int v, int microbatch) {
    const struct storage *s = &k->storages[k->values[v].storage];
    enum frame_class c = storage_class(s);
    return s->offset + (c == SCRATCH ? m->scratch_offset[s->role] : memory_frame(m, c, 0, microbatch));
}

static struct bytes *bytes_of(const struct chunk *k, const struct schedule *s, const struct memory_plan *m, int *n) {
    struct use *u = uses_of(k);
    struct bytes *b = malloc((size_t)(k->n_values * s->n_microbatches) * sizeof *b);
    *n = 0;
    for (int mb = 0; mb < s->n_microbatches; mb++)
        for (int v = 0; v < k->n_values; v++) {
            if (u[v].first < 0) continue;
            int64_t at = address_of(k, m, v, mb);
            b[(*n)++] = (struct bytes){at, at + k->values[v].bytes, time_of(s, u[v].first, mb),
                                       time_of(s, u[v].last, mb), v, mb, k->values[v].role};
        }
    free(u);
    return b;
}

static bool meet(const struct bytes *a, const struct bytes *b) {
    return a->role == b->role && a->from <= b->to && b->from <= a->to && a->from_byte < b->to_byte &&
           b->from_byte < a->to_byte;
}

/* Is one the operand, and the other the result written over it, which begins where the operand ends? */
static bool handed_over(const struct bytes *a, const struct bytes *b) {
    return a->microbatch == b->microbatch && a->from_byte == b->from_byte && a->to_byte == b->to_byte &&
           (a->to == b->from || b->to == a->from);
}

static int count_clashes(const struct bytes *b, int n) {
    int clashes = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (meet(&b[i], &b[j]) && !handed_over(&b[i], &b[j])) clashes++;
    return clashes;
}

static int64_t highest(const struct bytes *b, int n, enum role role) {
    int64_t end = 0;
    for (int i = 0; i < n; i++)
        if (b[i].role == role && b[i].to_byte > end) end = b[i].to_byte;
    return end;
}

/* ---- the plans that are checked ---- */
static struct plan layout(int dp, int tp, int pp, int schedule, int micro) {
    struct plan p = parity_plan();
    p.mesh.dp = dp;
    p.mesh.tp = tp;
    p.mesh.pp = pp;
    pp_options(&p)->schedule = schedule;
    p.micro_batch = micro;
    assert_ok(plan_settle(&p, plan_ranks(&p)));
    return p;
}

static void check_chunk(const struct chunk *k, const struct schedule *s, const struct memory_plan *m) {
    int n;
    struct bytes *b = bytes_of(k, s, m, &n);
    int clashes = count_clashes(b, n);
    int64_t act = highest(b, n, ROLE_ACT), work = highest(b, n, ROLE_WORK);
    free(b);
    assert_true(n > 50);
    assert_int_equal(clashes, 0);
    assert_int_equal(m->bytes[TIER_DEVICE][ROLE_ACT], act);          /* the peak is reached, so that no byte is
                                                                      * wasted */
    assert_int_equal(m->bytes[TIER_DEVICE][ROLE_WORK], work);                     /* scratch comes last */
    assert_int_equal(m->bytes[TIER_DEVICE][ROLE_WORK], arena_align(m->run_bytes) + m->scratch_bytes[ROLE_WORK]);
}

TEST(test_bytes_in_use_at_one_time_never_meet) {
    for (int schedule = SCHEDULE_GPIPE; schedule <= SCHEDULE_1F1B; schedule++)
        for (int tp = 1; tp <= 2; tp++)
            for (int stage = 0; stage < 3; stage++) {
                struct run r;
                struct plan p = layout(1, tp, 3, schedule, 4);
                assert_ok(run_compile(&r, &train_recipe, &p, stage * tp, NULL, NULL));
                check_chunk(&r.chunks[0], &r.schedule, &r.memory);
                run_destroy(&r);
            }
}

/* A schedule with separate weight gradients: each W runs two actions after its B. */
static void split_schedule(int m, struct schedule *s) {
    *s = (struct schedule){.n_microbatches = m, .split_weight = true};
    for (int i = 0; i < m + 2; i++) {
        if (i < m) schedule_add(s, ACTION_F, 0, i);
        if (i < m) schedule_add(s, ACTION_B, 0, i);
        if (i >= 2) schedule_add(s, ACTION_W, 0, i - 2);
    }
}

static void replay_every_second_slot(struct program *p) {
    for (int i = 0; i < p->n_steps; i++)
        for (int o = 0; o < p->steps[i].n_out; o++) p->slots[p->steps[i].out[o]].replay = i % 2;
}

static void check_split(bool replay) {
    struct run r;
    struct chunk k;
    struct schedule s;
    struct memory_plan m;
    struct plan p = layout(1, 2, 1, SCHEDULE_1F1B, 4);
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    if (replay) replay_every_second_slot(&r.program);
    assert_ok(chunk_lower(&r.program, 0, true, &k));
    split_schedule(p.n_microbatches, &s);
    memory_plan_params(&r.program, &r.schedule, &m);
    assert_ok(memory_plan_rest(&r.program, &k, &s, 0, 0, &m));
    check_chunk(&k, &s, &m);
    assert_true(k.frame_bytes[FRAME_FW] > 0 && k.frame_bytes[FRAME_BW] > 0);
    memory_plan_fini(&m);
    schedule_fini(&s);
    chunk_fini(&k);
    run_destroy(&r);
}

TEST(test_bytes_never_meet_with_split_weight_gradients) {
    check_split(false);
    check_split(true);
}

/* ---- frames ---- */
static int distinct_frames(const struct memory_plan *m) {
    int n = 0;
    for (int i = 0; i < m->n_microbatches; i++) {
        bool seen = false;
        for (int j = 0; j < i; j++) seen |= memory_frame(m, FRAME_FB, 0, i) == memory_frame(m, FRAME_FB, 0, j);
        n += !seen;
    }
    return n;
}

/* GPipe keeps frames of all m microbatches, 1F1B of those in flight: min(p - i, m) on stage i of p. The activation
 * arena holds only scratch and these frames. */
static void check_frames(int schedule, int pp, int m) {
    for (int stage = 0; stage < pp; stage++) {
        struct run r;
        struct plan p = layout(1, 1, pp, schedule, 16 / m);
        assert_ok(run_compile(&r, &train_recipe, &p, stage, NULL, NULL));
        int depth = pp - stage < m ? pp - stage : m, kept = schedule == SCHEDULE_GPIPE ? m : depth;
        int64_t frame = r.chunks[0].frame_bytes[FRAME_FB];
        assert_int_equal(r.memory.n_microbatches, m);
        assert_int_equal(distinct_frames(&r.memory), kept);
        assert_int_equal(r.memory.frames_floor, kept * frame);
        assert_int_equal(r.memory.bytes[TIER_DEVICE][ROLE_ACT],
                         arena_align(r.memory.scratch_bytes[ROLE_ACT]) + (kept - 1) * arena_align(frame) + frame);
        run_destroy(&r);
    }
}

TEST(test_gpipe_keeps_every_microbatch) {
    check_frames(SCHEDULE_GPIPE, 4, 8);
    check_frames(SCHEDULE_GPIPE, 4, 2);
}

TEST(test_1f1b_keeps_as_many_as_are_on_their_way) {
    check_frames(SCHEDULE_1F1B, 4, 8);
    check_frames(SCHEDULE_1F1B, 4, 2);
    check_frames(SCHEDULE_1F1B, 1, 8);
}

TEST(test_accumulation_keeps_one_frame) {
    struct schedule s;
    assert_ok(schedule_accumulate(3, &s));
    const enum action_kind expected[] = {ACTION_F, ACTION_B, ACTION_F, ACTION_B, ACTION_F, ACTION_B};
    assert_int_equal(s.n, 6);
    for (int i = 0; i < 6; i++) assert_true(s.actions[i].kind == expected[i] && s.actions[i].microbatch == i / 2);
    assert_int_equal(pp_peak_in_flight(&s), 1);
    schedule_fini(&s);
}

/* ---- params ---- */
struct stretch { int64_t from, to; };

static struct stretch stretch_of(int64_t offset, int64_t n, enum dtype type) {
    return (struct stretch){offset, offset + n * (int64_t)dtype_size(type)};
}

static int by_start(const void *a, const void *b) {
    const struct stretch *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* The stretches must be adjacent and aligned, and the last one must end at the peak. */
static void check_stretches(struct stretch *x, int n, int64_t peak) {
    qsort(x, (size_t)n, sizeof *x, by_start);
    for (int i = 0; i < n; i++) {
        assert_int_equal(x[i].from % ARENA_ALIGN, 0);
        if (i) assert_in_range(x[i].from - x[i - 1].to, 0, ARENA_ALIGN - 1);
    }
    assert_int_equal(x[0].from, 0);
    assert_int_equal(x[n - 1].to, peak);
}

static void check_params(const struct program *p, const struct memory_plan *m) {
    struct stretch weight[MAX_PARAMS], grad[MAX_PARAMS], optim[3 * MAX_PARAMS];
    int n = 0, n_optim = 0;
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        if (!w->present) continue;
        weight[n] = stretch_of(w->arrays[ARRAY_WEIGHT].offset, type_n(&w->type), w->type.dtype);
        grad[n++] = stretch_of(param_grad_offset(w), type_n(&w->type), w->grad_type.dtype);
        optim[n_optim++] = stretch_of(w->arrays[ARRAY_STATE].offset, w->own_n, w->state_dtype);
        optim[n_optim++] = stretch_of(w->arrays[ARRAY_STATE + 1].offset, w->own_n, w->state_dtype);
        if (w->master) optim[n_optim++] = stretch_of(w->arrays[ARRAY_MASTER].offset, w->own_n, w->state_dtype);
    }
    check_stretches(weight, n, m->bytes[TIER_DEVICE][ROLE_PARAM]);
    check_stretches(grad, n, m->bytes[TIER_DEVICE][ROLE_GRAD]);
    check_stretches(optim, n_optim, m->bytes[TIER_DEVICE][ROLE_OPTIM]);
}

TEST(test_params_gradients_and_states_lie_side_by_side) {
    struct run r;
    struct plan p = layout(1, 2, 2, SCHEDULE_1F1B, 4);
    for (int rank = 0; rank < 4; rank++) {
        assert_ok(run_compile(&r, &train_recipe, &p, rank, NULL, NULL));
        check_params(&r.program, &r.memory);
        run_destroy(&r);
    }
}

/* As with mixed precision: less precise weights, and a master copy of some params. */
TEST(test_master_weights_have_a_place_of_their_own) {
    struct run r;
    struct memory_plan m;
    struct plan p = layout(1, 1, 1, SCHEDULE_1F1B, 4);
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    for (int i = 0; i < r.program.n_params; i++) {
        r.program.params[i].type.dtype = BF16;
        r.program.params[i].state_dtype = FP32;
        r.program.params[i].master = i % 2;
    }
    memory_plan_params(&r.program, &r.schedule, &m);
    check_params(&r.program, &m);
    run_destroy(&r);
}

/* A rank keeps one shard of a sharded param; all shards have the same size. */
TEST(test_own_params_take_a_shard) {
    struct param w[2] = {{.type = {FP32, {1, {axis_whole('C', 10)}}}, .grad_type = {FP32, {1, {axis_whole('C', 10)}}},
                          .state_dtype = FP32, .present = true,
                           .weight_residence = RESIDENT_OWN, .grad_residence = RESIDENT_WHOLE,
                          .own_first = 8, .own_n = 2, .shard_n = 4, .padded_n = 12, .n_arrays = N_FIXED_ARRAYS}};
    w[1] = w[0];
    struct program p = {.n_params = 2, .params = w, .optimizer = &optimizer_adamw};
    struct memory_plan m;
    memory_plan_params(&p, &(struct schedule){0}, &m);
    assert_int_equal(m.bytes[TIER_DEVICE][ROLE_PARAM], ARENA_ALIGN + 4 * 4);
    assert_int_equal(m.bytes[TIER_DEVICE][ROLE_GRAD], ARENA_ALIGN + 12 * 4);
    assert_int_equal(m.bytes[TIER_DEVICE][ROLE_OPTIM], 3 * ARENA_ALIGN + 4 * 4);
}

/* An owner's array of five numbers in two copies. The second copy begins at the next cache line. */
TEST(test_an_owner_adds_an_array_once) {
    struct program p;
    struct memory_plan m;
    struct param_array a = {.name = "own", .n = 5, .dtype = FP32, .role = ROLE_OPTIM, .copies = 1, .place = LAST};
    program_init(&p);
    int w = program_add_param(&p, "b", "w", (struct type){FP32, {1, {axis_whole('C', 10)}}}, 0, 0, false);
    p.params[w].present = true, p.params[w].own_n = 10;
    assert_ok(program_add_array(&p, w, &a));
    a.copies = 2;
    assert_ok(program_add_array(&p, w, &a));                         /* changes the same array */
    assert_int_equal(p.params[w].n_arrays, N_FIXED_ARRAYS + 1);
    memory_plan_params(&p, &(struct schedule){0}, &m);
    const struct param_array *own = param_array(&p.params[w], "own");
    assert_int_equal(own->offset, 2 * ARENA_ALIGN);                  /* after two moments of 40 bytes */
    assert_int_equal(own->stride, ARENA_ALIGN);
    assert_int_equal(m.bytes[TIER_DEVICE][ROLE_OPTIM], 3 * ARENA_ALIGN + 5 * 4);
    static char name[MAX_ARRAYS][8];
    for (int i = N_FIXED_ARRAYS + 1; i < MAX_ARRAYS; i++) {
        snprintf(name[i], sizeof name[i], "a%d", i);
        a.name = name[i];
        assert_ok(program_add_array(&p, w, &a));
    }
    a.name = "more";
    assert_fails(program_add_array(&p, w, &a), E_INTERNAL, "more of b.w", "MAX_ARRAYS=14");
    assert_null(param_array(&p.params[w], "more"));
    program_fini(&p);
}

/* ---- comm: two rings, then the techniques' bytes ---- */
TEST(test_comm_holds_rings_and_then_techniques) {
    struct run r;
    struct memory_plan m;
    struct plan p = layout(1, 1, 3, SCHEDULE_1F1B, 4);
    assert_ok(run_compile(&r, &train_recipe, &p, 1, NULL, NULL));
    int64_t boundary = 4 * p.seq * p.hidden * 8;                     /* (B,T,C) in fp64 */
    const struct stage_ring *forward = &r.memory.ring[0], *backward = &r.memory.ring[1];
    assert_int_equal(forward->slots, r.schedule.send_depth);
    assert_int_equal(forward->bytes, boundary);
    assert_int_equal(backward->bytes, boundary);
    assert_int_equal(forward->offset, 0);
    assert_int_equal(backward->offset, forward->slots * arena_align(boundary));
    int64_t rings = backward->offset + (backward->slots - 1) * arena_align(boundary) + boundary;
    assert_int_equal(r.memory.bytes[TIER_DEVICE][ROLE_COMM], rings);
    memory_plan_params(&r.program, &r.schedule, &m);
    assert_ok(memory_plan_rest(&r.program, r.chunks, &r.schedule, 100, 0, &m));
    assert_int_equal(m.technique_offset, arena_align(rings));
    assert_int_equal(m.bytes[TIER_DEVICE][ROLE_COMM], m.technique_offset + 100);
    memory_plan_fini(&m);
    run_destroy(&r);
}

/* cuBLASLt requires this alignment of its workspace, and warps then read whole cache lines. */
TEST(test_on_cuda_everything_begins_at_256_bytes) {
    struct run r;
    struct plan p = layout(1, 1, 3, SCHEDULE_1F1B, 4);
    p.device = PLAN_DEVICE_CUDA;
    p.loss_chunk = 0;
    p.heads = p.layers = 3, p.hidden = 27;                           /* sizes that break any alignment */
    assert_ok(run_compile(&r, &train_recipe, &p, 1, NULL, NULL));
    int64_t begin = r.memory.scratch_offset[ROLE_WORK] | r.memory.technique_offset | r.memory.ring[0].offset |
                    r.memory.ring[1].offset;
    for (int i = 0; i < r.program.n_params; i++) {
        const struct param *w = &r.program.params[i];
        for (int k = 0; w->present && k < w->n_arrays; k++) begin |= w->arrays[k].offset;
    }
    for (int i = 0; i < r.chunks[0].n_storages; i++) begin |= r.chunks[0].storages[i].offset;
    for (int m = 0; m < p.n_microbatches; m++) begin |= memory_frame(&r.memory, FRAME_FB, 0, m);
    assert_int_equal(begin % ARENA_ALIGN_CUDA, 0);
    run_destroy(&r);
}

TESTS(unit_test(test_bytes_in_use_at_one_time_never_meet), unit_test(test_bytes_never_meet_with_split_weight_gradients),
      unit_test(test_gpipe_keeps_every_microbatch), unit_test(test_1f1b_keeps_as_many_as_are_on_their_way),
      unit_test(test_accumulation_keeps_one_frame), unit_test(test_params_gradients_and_states_lie_side_by_side),
      unit_test(test_master_weights_have_a_place_of_their_own), unit_test(test_own_params_take_a_shard),
      unit_test(test_an_owner_adds_an_array_once),
      unit_test(test_comm_holds_rings_and_then_techniques),
      unit_test(test_on_cuda_everything_begins_at_256_bytes))

/* ranks: 1  device: cpu
 *
 * The memory time line of whole models, on every rank of layouts that use every feature. The tests compare it with the
 * plan, and with a slower count over the births and deaths of every value of every microbatch. test_exec.c compares
 * values with real memory. */
#include "driver/recipe.h"
#include "lib/trace/memory_timeline.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <limits.h>
#include <stdlib.h>

/* ---- the slower count ---- */
/* The index of the action of this kind, chunk and microbatch; -1: none. */
static int find_action(const struct schedule *s, enum action_kind kind, int chunk, int microbatch) {
    for (int i = 0; i < s->n; i++)
        if (s->actions[i].kind == kind && s->actions[i].chunk == chunk && s->actions[i].microbatch == microbatch)
            return i;
    return -1;
}

/* The point of a row_time. A value that crosses chunks is born at its receive (before the first row), and dies at its
 * send (after the last row). */
static int point_at(const struct run *r, const struct memory_timeline *t, const struct row_time *m, int chunk,
                    int microbatch, bool crosses) {
    static const enum action_kind received[] = {RECV_F, RECV_B}, sent[] = {SEND_F, SEND_B};
    int action = find_action(&r->schedule, (enum action_kind)m->tape, chunk, microbatch),
        n = r->chunks[chunk].tapes[m->tape].n, transfer = -1;
    if (crosses && m->tape != TAPE_W && m->row < 0)
        transfer = find_action(&r->schedule, received[m->tape], chunk, microbatch);
    if (crosses && m->tape != TAPE_W && m->row == n)
        transfer = find_action(&r->schedule, sent[m->tape], chunk, microbatch);
    if (transfer >= 0) return t->first[transfer];
    return t->first[action] + (m->row < 0 ? 0 : m->row < n ? m->row : n - 1);
}

static bool is_boundary(const struct chunk *k, int storage) {
    for (int i = 0; i < MAX_STREAMS; i++) {
        const int v[] = {k->in[i], k->out[i], k->din[i], k->dout[i]};
        for (int j = 0; j < 4; j++)
            if (v[j] >= 0 && k->values[v[j]].storage == storage) return true;
    }
    return false;
}

static void count_slowly(const struct run *r, const struct memory_timeline *t, int64_t (*alive)[N_ROLES]) {
    for (int c = 0; c < r->program.n_chunks; c++)
        for (int m = 0; m < r->schedule.n_microbatches; m++)
            for (int i = 0; i < r->chunks[c].n_storages; i++) {
                const struct storage *s = &r->chunks[c].storages[i];
                bool crosses = is_boundary(&r->chunks[c], i);
                if (!s->bytes) continue;
                int from = point_at(r, t, &s->birth, c, m, crosses), to = point_at(r, t, &s->death, c, m, crosses);
                for (int k = from; k <= to; k++) alive[k][s->role] += s->bytes;
            }
}

struct errors { int wrong, above_plan, above_floor; };

static void check_points(const struct run *r, const struct memory_timeline *t, int64_t (*slow)[N_ROLES],
                         struct errors *e) {
    for (int i = 0; i < t->n; i++)
        for (enum role role = 0; role < N_ROLES; role++) {
            e->wrong += t->points[i].alive[role] - t->resident[role] != slow[i][role];
            e->above_plan += t->points[i].alive[role] > r->memory.bytes[TIER_DEVICE][role];
        }
    int64_t floor = 0;
    for (int c = 0; c < r->program.n_chunks; c++)
        for (enum tape_kind k = 0; k < N_TAPES; k++)
            if (r->chunks[c].scratch_floor[k][ROLE_ACT] > floor) floor = r->chunks[c].scratch_floor[k][ROLE_ACT];
    e->above_floor += memory_timeline_peak(t, ROLE_ACT) > floor + r->memory.frames_floor;
}

static struct errors errors_of(struct plan p, int rank) {
    struct run r = {0};
    struct memory_timeline t = {0};
    struct errors e = {0};
    assert_ok(plan_settle(&p, plan_ranks(&p)));
    assert_ok(run_compile(&r, &train_recipe, &p, rank, NULL, NULL));
    assert_ok(memory_timeline_make(&r.program, r.chunks, &r.schedule, &r.memory, &t));
    int64_t (*slow)[N_ROLES] = calloc((size_t)t.n, sizeof *slow);
    assert_non_null(slow);
    count_slowly(&r, &t, slow);
    check_points(&r, &t, slow, &e);
    free(slow);
    memory_timeline_fini(&t);
    run_destroy(&r);
    return e;
}

static void check_layout(struct plan p) {
    for (int rank = 0; rank < plan_ranks(&p); rank++) {
        struct errors e = errors_of(p, rank);
        if (e.wrong + e.above_plan + e.above_floor) print_error("%s, rank %d\n", layout_name(&p), rank);
        assert_int_equal(e.wrong, 0);
        assert_int_equal(e.above_plan, 0);
        assert_int_equal(e.above_floor, 0);
    }
}

TEST(test_time_line_equals_a_count_of_every_value) {
    struct plan p = parity_plan();
    p.micro_batch = 4;
    check_layout(p);
    for (int company = 0; company < N_COMPANIES; company++) {
        p = parity_plan();
        p.mesh.dp = p.mesh.tp = p.mesh.pp = 2;
        p.micro_batch = 2;
        plan_set_number(&p, "zero", company % 4);
        plan_set_number(&p, "sp", company / 2 % 2);
        recompute_options(&p)->kind = company % 3 == 0   ? RECOMPUTE_NONE
                                      : company % 3 == 1 ? RECOMPUTE_SELECTIVE
                                                         : RECOMPUTE_FULL;
        pp_options(&p)->schedule = company % 5 == 0  ? SCHEDULE_GPIPE
                                   : company % 5 < 3 ? SCHEDULE_1F1B
                                                     : SCHEDULE_INTERLEAVED;
        pp_options(&p)->chunks = pp_options(&p)->schedule == SCHEDULE_INTERLEAVED ? 2 : 1;
        p.loss_chunk = company % 2 ? 5 : 0;
        check_layout(p);
    }
}

/* The resident memory, by hand: two moments and a gradient for every weight. */
TEST(test_time_line_counts_what_is_always_there) {
    struct plan p = parity_plan();
    struct run r = {0};
    struct memory_timeline t;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    assert_ok(memory_timeline_make(&r.program, r.chunks, &r.schedule, &r.memory, &t));
    int64_t n = 0;
    for (int i = 0; i < r.program.n_params; i++) n += type_n(&r.program.params[i].type);
    assert_int_equal(t.resident[ROLE_PARAM], 8 * n);
    assert_int_equal(t.resident[ROLE_GRAD], 8 * n);
    assert_int_equal(t.resident[ROLE_OPTIM], 16 * n);
    assert_int_equal(t.resident[ROLE_ACT], 0);
    assert_int_equal(memory_timeline_peak(&t, ROLE_PARAM), 8 * n);
    memory_timeline_fini(&t);
    run_destroy(&r);
}

/* The rows are counted before any allocation. Three times 2^31 - 1 rows also overflow an int. */
TEST(test_a_time_line_too_long_is_refused) {
    struct program p = {.n_chunks = 1};
    struct chunk k = {.tapes[TAPE_F].n = INT_MAX};
    struct action actions[] = {{.kind = ACTION_F}, {.kind = ACTION_F, .microbatch = 1},
                               {.kind = ACTION_F, .microbatch = 2}};
    struct schedule s = {.n = 3, .n_microbatches = 3, .actions = actions};
    struct memory_plan m = {0};
    struct memory_timeline t;
    assert_fails(memory_timeline_make(&p, &k, &s, &m, &t), E_CONFIG, "3 microbatches has 6442450941 rows",
                 "limit is 4000000", "larger micro-batch or a smaller global-batch");
    memory_timeline_fini(&t);
    k.tapes[TAPE_F].n = MEMORY_TIMELINE_POINTS / 2;
    assert_fails(memory_timeline_make(&p, &k, &s, &m, &t), E_CONFIG, "6000000 rows");
    memory_timeline_fini(&t);
}

TESTS(unit_test(test_time_line_equals_a_count_of_every_value), unit_test(test_time_line_counts_what_is_always_there),
      unit_test(test_a_time_line_too_long_is_refused))

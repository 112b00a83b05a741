/* ranks: 1 2  more: 4  device: cpu  threads: 1
 *
 * Marked slots, the places of their rows, and their bytes. Parking changes no bit of any layout. All bytes are the
 * planned ones: on the device, in host memory, and copied. */
#include "park/park.h"
#include "cp/cp.h"
#include "driver/recipe.h"
#include "lib/cost/activations.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

enum { LAYERS = 8, MICRO = 2 };

static struct plan plan_of(int park, int n, int recompute) {
    struct plan plan = parity_plan();
    plan.layers = LAYERS;
    plan.micro_batch = MICRO;
    park_options(&plan)->kind = park;
    park_options(&plan)->n = n;
    recompute_options(&plan)->kind = recompute;
    return plan;
}

static void compile(struct run *r, struct plan plan, int rank) {
    assert_ok(plan_settle(&plan, plan_ranks(&plan)));
    assert_ok(run_compile(r, &train_recipe, &plan, rank, NULL, NULL));
}

/* ---- which slots ---- */
static void list_marked(const struct program *p, const char *block, char text[512]) {
    size_t n = strlen(block);
    text[0] = 0;
    for (int i = 0; i < p->n_slots; i++) {
        const struct slot *s = &p->slots[i];
        if (!s->park || strncmp(s->name, block, n) || s->name[n] != '.') continue;
        snprintf(text + strlen(text), 512 - strlen(text), "%s%s", text[0] ? " " : "", s->name + n + 1);
    }
}

static void check_marked(struct plan plan, const char *embed, const char *first, const char *last) {
    static const char *const blocks[] = {"embed", "h0", "h7", "head"};
    const char *expected[] = {embed, first, last, ""};
    struct run r;
    char text[512];
    compile(&r, plan, 0);
    for (int i = 0; i < 4; i++) {
        list_marked(&r.program, blocks[i], text);
        assert_string_equal(text, expected[i]);
    }
    run_destroy(&r);
}

TEST(test_park_marks_what_it_says) {
    const char *all = "ln1 qkv att proj res1 ln2 fc gelu fc2 res2", *last = "ln1 qkv att proj res1 ln2 fc gelu fc2";
    check_marked(plan_of(PARK_NONE, 0, RECOMPUTE_NONE), "", "", "");
    check_marked(plan_of(PARK_ATTENTION, 0, RECOMPUTE_NONE), "", "qkv att", "qkv att");
    check_marked(plan_of(PARK_ALL, 0, RECOMPUTE_NONE), "pos", all, last);
    check_marked(plan_of(PARK_BLOCK, 3, RECOMPUTE_NONE), "pos", all, "");
}

/* A slot that is replayed is not parked. */
TEST(test_park_leaves_what_is_replayed) {
    check_marked(plan_of(PARK_ALL, 0, RECOMPUTE_SELECTIVE), "pos", "qkv att proj res1 fc fc2 res2",
                 "qkv att proj res1 fc fc2");
    check_marked(plan_of(PARK_ALL, 0, RECOMPUTE_FULL), "pos", "res2", "");
    check_marked(plan_of(PARK_ATTENTION, 0, RECOMPUTE_FULL), "", "", "");
}

/* ---- rows ---- */
static int find(const struct tape *t, enum row_kind kind, int slot) {
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].kind == kind && t->rows[i].id == slot) return i;
    return -1;
}

static bool reads(const struct row *r, int value) {
    for (int i = 0; i < MAX_IN && row_kind_is_step(r->kind); i++)
        if (r->in[i] == value) return true;
    for (int i = 0; i < MAX_OUT && row_kind_is_step(r->kind); i++)
        if (r->out[i] == value) return true;
    return false;
}
static int first_use(const struct tape *t, int value) {
    for (int i = 0; i < t->n; i++)
        if (reads(&t->rows[i], value)) return i;
    return t->n;
}
static int last_use(const struct tape *t, int value) {
    for (int i = t->n - 1; i >= 0; i--)
        if (reads(&t->rows[i], value)) return i;
    return -1;
}

/* The number of blocks that compute between two rows. */
static int blocks_between(const struct program *p, const struct tape *t, int from, int to) {
    int n = 0, current = -1;
    for (int i = from; i < to; i++) {
        if (!row_kind_is_step(t->rows[i].kind) || p->steps[t->rows[i].id].block == current) continue;
        current = p->steps[t->rows[i].id].block;
        n++;
    }
    return n;
}

static void lives_until(const struct chunk *k, int value, enum tape_kind tape, int row) {
    const struct storage *s = &k->storages[k->values[value].storage];
    assert_true(s->death.tape > tape || (s->death.tape == tape && s->death.row >= row));
}

/* Add to hidden[] the blocks that compute during the copy out and the copy in. @return bytes of both copies */
static int64_t check_slot(const struct program *p, const struct chunk *k, int slot, int hidden[2]) {
    const struct tape *f = &k->tapes[TAPE_F], *b = &k->tapes[TAPE_B];
    int park = find(f, ROW_PARK, slot), parked = find(f, ROW_COPIED, slot), unpark = find(b, ROW_UNPARK, slot),
        back = find(b, ROW_COPIED, slot);
    if (park < 0) return 0;
    int here = f->rows[park].in[0], host = f->rows[park].out[0], again = b->rows[unpark].out[0];
    assert_true(last_use(f, here) < park && park < parked && unpark >= 0 && unpark < back);
    assert_true(back < first_use(b, again) && first_use(b, again) < b->n);
    assert_int_equal(b->rows[unpark].in[0], host);
    assert_int_equal(k->values[host].tier, TIER_HOST);
    assert_int_equal(storage_class(&k->storages[k->values[here].storage]), SCRATCH);
    assert_int_equal(storage_class(&k->storages[k->values[again].storage]), SCRATCH);
    assert_false(p->slots[slot].replay);
    lives_until(k, here, TAPE_F, parked);
    lives_until(k, host, TAPE_B, back);
    int out = blocks_between(p, f, park, parked), in = blocks_between(p, b, unpark, back);
    assert_true(out <= 1 && in <= 2);                                /* in: the block before, and part of its own */
    hidden[0] += out;
    hidden[1] += in;
    return 2 * k->values[host].bytes;
}

static void check_rows(struct plan plan, int n_slots) {
    struct run r;
    int64_t bytes = 0, n = 0, parked = 0;
    int hidden[2] = {0};
    struct activations blocks[LAYERS + 2] = {{0}};
    compile(&r, plan, 0);
    for (int i = 0; i < r.program.n_slots; i++) {
        int64_t both = check_slot(&r.program, &r.chunks[0], i, hidden);
        bytes += both;
        n += both > 0;
    }
    assert_int_equal(n, n_slots);
    assert_true(hidden[0] >= n_slots * (LAYERS - 1) / LAYERS - 1 && hidden[1] >= n_slots * (LAYERS - 1) / LAYERS - 1);
    assert_int_equal(r.bill.parked_bytes, bytes * r.plan.n_microbatches);
    assert_ok(activations_count(&r.program, &r.chunks[0], blocks));
    for (int i = 0; i < r.program.n_blocks; i++) parked += blocks[i].parked;
    assert_int_equal(2 * parked, bytes);
    run_destroy(&r);
}

/* All of a layer: its input, ln1, qkv, att, res1, ln2, fc, gelu. */
TEST(test_park_copies_a_block_ahead) {
    check_rows(plan_of(PARK_ALL, 0, RECOMPUTE_NONE), 8 * LAYERS);
    check_rows(plan_of(PARK_ATTENTION, 0, RECOMPUTE_NONE), 2 * LAYERS);
    check_rows(plan_of(PARK_ALL, 0, RECOMPUTE_FULL), LAYERS);
    check_rows(plan_of(PARK_ALL, 0, RECOMPUTE_SELECTIVE), 5 * LAYERS);
}

/* ---- bytes ---- */
/* With several microbatches in flight the device keeps two blocks, host memory one frame per microbatch. */
TEST(test_park_moves_frames_to_the_host) {
    struct plan stays = plan_of(PARK_NONE, 0, RECOMPUTE_NONE), moves = plan_of(PARK_ALL, 0, RECOMPUTE_NONE);
    stays.mesh.pp = moves.mesh.pp = 4;
    pp_options(&stays)->schedule = pp_options(&moves)->schedule = SCHEDULE_GPIPE;
    for (int rank = 0; rank < 4; rank++) {
        struct run a, b;
        compile(&a, stays, rank);
        compile(&b, moves, rank);
        int64_t frame = b.chunks[0].frame_bytes[PARKED_FB];
        assert_true(frame > 0);
        assert_int_equal(a.memory.bytes[TIER_HOST][ROLE_ACT], 0);
        assert_int_equal(b.memory.bytes[TIER_HOST][ROLE_ACT], frame * b.plan.n_microbatches);
        assert_int_equal(b.bill.parked_bytes, 2 * frame * b.plan.n_microbatches);
        assert_true(b.memory.bytes[TIER_DEVICE][ROLE_ACT] < a.memory.bytes[TIER_DEVICE][ROLE_ACT] / 2);
        for (enum role role = 0; role < N_ROLES; role++)
            if (role != ROLE_ACT)
                assert_int_equal(a.memory.bytes[TIER_DEVICE][role], b.memory.bytes[TIER_DEVICE][role]);
        run_destroy(&a);
        run_destroy(&b);
    }
}

/* ---- a run ---- */
static bool same_bits(struct plan plan, const struct reference *ref) {
    static const int kinds[] = {PARK_ALL, PARK_ATTENTION, PARK_BLOCK};
    struct difference without, with;
    if (!agree_all(plan_settle(&plan, comm_world_size()) == OK)) {
        status_report();
        return true;                                                 /* no layout of this number of ranks */
    }
    enum status status = layout_compare(&plan, ref, &without);
    park_options(&plan)->kind = kinds[(plan.mesh.dp + recompute_options(&plan)->kind + plan.mesh.pp) % 3];
    park_options(&plan)->n = 1;
    if (status == OK) status = layout_compare(&plan, ref, &with);
    bool same = agree_all(status == OK && with.bits == without.bits && with.memory == 0 && with.wire < 1e-12);
    if (!same && comm_is_rank_0())
        fprintf(stderr, "%s: %s, memory %g B wire %.1e\n", layout_name(&plan), status_name(status), with.memory,
                with.wire);
    status_report();
    return same;
}

TEST(test_park_changes_no_bit_of_any_layout) {
    struct plan plan = parity_plan();
    plan.precision = PRECISION_FP32;
    struct reference ref;
    int wrong = 0;
    assert_ok(reference_init(&ref, &plan));
    for (int i = 0; i < N_COMPANIES; i++) wrong += !same_bits(layout_in_company(plan, i), &ref);
    plan.mesh.cp = comm_world_size();
    plan.micro_batch = MICRO;
    for (int by = CP_BY_RING; by <= CP_BY_GATHER && comm_world_size() > 1; by++) {
        cp_options(&plan)->by = by;
        wrong += !same_bits(plan, &ref);
    }
    reference_fini(&ref);
    assert_int_equal(wrong, 0);
}

/* The copied bytes are the billed bytes; an evaluation copies nothing. */
TEST(test_park_copies_what_is_billed) {
    struct plan plan = plan_of(PARK_ALL, 0, RECOMPUTE_NONE);
    struct run r;
    double loss;
    plan.mesh.pp = comm_world_size();
    assert_ok(plan_settle(&plan, comm_world_size()));
    enum status status = run_create(&r, &train_recipe, &plan, WATCH_NOTHING);
    if (status == OK) status = layout_use_demo(&r);
    for (int i = 0; i < 2 && status == OK; i++) status = run_step(&r);
    if (status == OK) status = run_evaluate(&r, 1, &loss);
    int64_t copied = r.exec.parked_bytes, billed = 2 * r.bill.parked_bytes;
    run_destroy(&r);
    assert_ok(status);
    assert_true(billed > 0);
    assert_int_equal(copied, billed);
}

TEST(test_park_refuses_more_layers_than_there_are) {
    struct plan plan = plan_of(PARK_BLOCK, LAYERS + 1, RECOMPUTE_NONE);
    assert_fails(technique_park.check(&plan), E_CONFIG, "park=block:9", "layers=8", "use park block:8");
    park_options(&plan)->n = LAYERS;
    assert_ok(technique_park.check(&plan));
}

TESTS(unit_test(test_park_marks_what_it_says), unit_test(test_park_leaves_what_is_replayed),
      unit_test(test_park_copies_a_block_ahead), unit_test(test_park_moves_frames_to_the_host),
      unit_test(test_park_changes_no_bit_of_any_layout), unit_test(test_park_copies_what_is_billed),
      unit_test(test_park_refuses_more_layers_than_there_are))

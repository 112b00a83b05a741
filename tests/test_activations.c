/* ranks: 1  device: cpu
 *
 * Activation memory to the byte: the bytes that a layer saves from forward to backward, as compiled, equal the formulas
 * of Korthikanti et al. 2022 (section 4 and table 2), and the same count for other element sizes, attention and
 * masks. Nothing runs here; the parity tests measure that a run uses the compiled bytes. */
#include "driver/recipe.h"
#include "lib/cost/activations.h"
#include "mixed_precision/mixed_precision.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

/* s, b, h, a: a small shape, one in which nothing divides by accident, and the paper's 22B, 175B and 530B. */
static const struct shape_of { int64_t seq, micro_batch, hidden, heads; } SHAPES[] = {
    {8, 2, 32, 8}, {24, 3, 120, 24}, {2048, 4, 6144, 64}, {2048, 1, 12288, 96}, {2048, 1, 20480, 128}};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES, LAYERS = 4, MAX_BLOCKS = LAYERS + 2 };

static struct plan plan_of(const struct shape_of *shape, int tp) {
    struct plan p = parity_plan();
    p.layers = LAYERS;
    p.vocab = 51200;
    p.seq = shape->seq;
    p.micro_batch = shape->micro_batch;
    p.global_batch = 4 * shape->micro_batch;
    p.hidden = shape->hidden;
    p.heads = shape->heads;
    p.mesh.tp = tp;
    p.precision = PRECISION_BF16;
    model_options(&p)->attention = ATTENTION_MATERIALISED;
    model_options(&p)->dropout_masks = MASKS_STORE;
    return p;
}

/* The bytes that a compiled rank saves; frame: their sum, found without blocks. */
struct saved { struct activations block[MAX_BLOCKS]; bool is_layer[MAX_BLOCKS], is_mine[MAX_BLOCKS]; int64_t frame; };

static int64_t frame_of(const struct chunk *k) {
    int64_t bytes = 0;
    for (int i = 0; i < k->n_storages; i++)
        if (k->storages[i].birth.tape == TAPE_F && storage_class(&k->storages[i]) != SCRATCH)
            bytes += k->storages[i].bytes;
    return bytes;
}

static enum status count_run(const struct run *r, struct saved *saved) {
    for (int k = 0; k < r->program.n_chunks; k++) {
        TRY(activations_count(&r->program, &r->chunks[k], saved->block));
        saved->frame += frame_of(&r->chunks[k]);
    }
    for (int i = 0; i < r->program.n_blocks; i++) {
        saved->is_layer[i] = r->program.blocks[i].is_layer;
        saved->is_mine[i] = r->program.blocks[i].chunk >= 0;
    }
    return OK;
}

static enum status count_rank(const struct plan *plan, int rank, struct saved *saved) {
    struct plan p = *plan;
    struct run r;
    *saved = (struct saved){0};
    TRY(plan_settle(&p, plan_ranks(&p)));
    TRY(run_compile(&r, &train_recipe, &p, rank, NULL, NULL));
    enum status status = count_run(&r, saved);
    run_destroy(&r);
    return status;
}

static void assert_layers(const struct plan *p, int64_t bytes, int64_t statistics) {
    struct saved saved;
    int64_t sum = 0;
    assert_ok(count_rank(p, (int)p->mesh.tp - 1, &saved));
    for (int i = 0; i < MAX_BLOCKS; i++) {
        sum += saved.block[i].bytes + saved.block[i].statistics;
        if (!saved.is_layer[i]) continue;
        assert_int_equal(saved.block[i].bytes, bytes);
        assert_int_equal(saved.block[i].statistics, statistics);
    }
    assert_int_equal(sum, saved.frame);
}

/* ---- the paper, with its 2 bytes per element ---- */

/* Table 2, as printed there; its first row is tp's with t = 1. */
static int64_t paper_bytes(const struct plan *p) {
    int64_t sbh = p->seq * p->micro_batch * p->hidden, asbs = p->heads * p->seq * p->micro_batch * p->seq,
            t = p->mesh.tp;
    if (recompute_options(p)->kind == RECOMPUTE_FULL) return 2 * sbh / (plan_number(p, "sp") ? t : 1);
    if (recompute_options(p)->kind == RECOMPUTE_SELECTIVE)
        return plan_number(p, "sp") ? 34 * sbh / t : 10 * sbh + 24 * sbh / t;
    return plan_number(p, "sp") ? (34 * sbh + 5 * asbs) / t : 10 * sbh + 24 * sbh / t + 5 * asbs / t;
}

/* Mean and rstd of two layernorms in fp32; no bytes if the layer is recomputed. */
static int64_t layernorm_bytes(const struct plan *p) {
    int64_t size = p->precision == PRECISION_FP64 ? 8 : 4;
    return recompute_options(p)->kind == RECOMPUTE_FULL
               ? 0
               : 2 * 2 * p->seq * p->micro_batch * size / (plan_number(p, "sp") ? p->mesh.tp : 1);
}

TEST(test_a_layer_saves_what_korthikanti_et_al_print) {
    for (int i = 0; i < N_SHAPES; i++)
        for (int tp = 1; tp <= 8; tp *= 2)
            for (int sp = 0; sp <= (tp > 1); sp++)
                for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
                    struct plan p = plan_of(&SHAPES[i], tp);
                    plan_set_number(&p, "sp", sp);
                    recompute_options(&p)->kind = recompute;
                    assert_layers(&p, paper_bytes(&p), layernorm_bytes(&p));
                }
}

/* Section 4.1 for 175B, written out: 5as/h = 80, so 34 + 80 times sbh, and selective recomputation keeps 34 of 114. */
TEST(test_a_layer_of_175b_in_numbers) {
    struct plan p = plan_of(&SHAPES[3], 1);
    assert_layers(&p, 114 * 25165824LL, 32768);
    recompute_options(&p)->kind = RECOMPUTE_SELECTIVE;
    assert_layers(&p, 34 * 25165824LL, 32768);
}

/* ---- any element size, either attention, masks stored or not ---- */
static int64_t element_size(const struct plan *p) {
    return p->precision == PRECISION_FP64 ? 8 : p->precision == PRECISION_FP32 ? 4 : 2;
}

/* Elements and mask bytes of a layer, over tp. materialised: p, mask, m p. blocked: never a mask, never T x T. */
static int64_t counted_bytes(const struct plan *p) {
    const struct model_options *m = model_options(p);
    int64_t e = element_size(p), sbh = p->seq * p->micro_batch * p->hidden, t = p->mesh.tp;
    int64_t mask = m->dropout > 0 && m->dropout_masks == MASKS_STORE, square = e + mask * (1 + e);
    if (m->attention == ATTENTION_BLOCKED) square = 0;
    return sbh * (4 * e + 2 * mask) + sbh * 12 * e / t + p->heads * p->seq * p->seq * p->micro_batch * square / t;
}

static int64_t statistics_bytes(const struct plan *p) {
    int64_t size = p->precision == PRECISION_FP64 ? 8 : 4;
    int64_t lse = p->heads * p->seq * p->micro_batch * size / p->mesh.tp;
    return layernorm_bytes(p) + (model_options(p)->attention == ATTENTION_BLOCKED ? lse : 0);
}

static void check_every_kind(struct plan *p) {
    struct model_options *m = model_options(p);
    for (m->attention = ATTENTION_BLOCKED; m->attention <= ATTENTION_MATERIALISED; m->attention++)
        for (m->dropout_masks = MASKS_REDRAW; m->dropout_masks <= MASKS_STORE; m->dropout_masks++)
            for (m->dropout = 0; m->dropout < 0.2; m->dropout += 0.1)
                assert_layers(p, counted_bytes(p), statistics_bytes(p));
}

TEST(test_a_layer_saves_by_element_size_attention_and_masks) {
    for (int i = 0; i < N_SHAPES; i++)
        for (int precision = PRECISION_FP32; precision <= PRECISION_FP16; precision++)
            for (int tp = 1; tp <= 8; tp *= 8) {
                struct plan p = plan_of(&SHAPES[i], tp);
                p.precision = precision;
                mixed_precision_options(&p)->init = mixed_precision_options(&p)->min = 1;
                check_every_kind(&p);
            }
}

/* Without a T x T tensor selective recomputes something else: ln1, ln2 and gelu, 1 + 1 + 4 of the 16 elements. */
TEST(test_selective_with_blocked_attention_saves_ten_elements) {
    for (int i = 0; i < N_SHAPES; i++) {
        struct plan p = plan_of(&SHAPES[i], 1);
        model_options(&p)->attention = ATTENTION_BLOCKED;
        model_options(&p)->dropout_masks = MASKS_REDRAW;
        recompute_options(&p)->kind = RECOMPUTE_SELECTIVE;
        assert_layers(&p, 10 * 2 * p.seq * p.micro_batch * p.hidden, statistics_bytes(&p));
    }
}

/* ---- blocks ---- */

/* The embedding saves the tokens and one mask; its output counts for the first layer. */
TEST(test_the_embedding_saves_tokens_and_a_mask) {
    struct plan p = plan_of(&SHAPES[1], 1);
    struct saved saved;
    assert_ok(count_rank(&p, 0, &saved));
    assert_int_equal(saved.block[0].bytes, p.seq * p.micro_batch * (4 + p.hidden));
    assert_int_equal(saved.block[0].statistics, 0);
}

/* A stage's first layer saves as much as any layer, though its input comes from another rank; blocks of other stages
 * save nothing on this rank. */
TEST(test_stages_save_what_their_blocks_save) {
    struct plan p = plan_of(&SHAPES[1], 2), whole = p;
    struct saved serial, stage;
    p.mesh.pp = 2;
    assert_ok(count_rank(&whole, 0, &serial));
    for (int rank = 0; rank < 4; rank++) {
        assert_ok(count_rank(&p, rank, &stage));
        for (int i = 0; i < MAX_BLOCKS; i++) {
            assert_int_equal(stage.block[i].bytes, stage.is_mine[i] ? serial.block[i].bytes : 0);
            assert_int_equal(stage.block[i].statistics, stage.is_mine[i] ? serial.block[i].statistics : 0);
        }
    }
}

/* uniform:2 keeps the input of every other layer; block:1 keeps all of every layer except the first. */
TEST(test_groups_save_what_their_first_layer_needs) {
    struct plan p = plan_of(&SHAPES[1], 1);
    struct saved saved;
    int64_t all = paper_bytes(&p), input = 2 * p.seq * p.micro_batch * p.hidden;
    recompute_options(&p)->kind = RECOMPUTE_UNIFORM;
    recompute_options(&p)->n = 2;
    assert_ok(count_rank(&p, 0, &saved));
    for (int i = 0; i < LAYERS; i++) assert_int_equal(saved.block[1 + i].bytes, i % 2 ? 0 : input);
    recompute_options(&p)->kind = RECOMPUTE_BLOCK;
    recompute_options(&p)->n = 1;
    assert_ok(count_rank(&p, 0, &saved));
    for (int i = 0; i < LAYERS; i++) assert_int_equal(saved.block[1 + i].bytes, i ? all : input);
}

TESTS(unit_test(test_a_layer_saves_what_korthikanti_et_al_print), unit_test(test_a_layer_of_175b_in_numbers),
      unit_test(test_a_layer_saves_by_element_size_attention_and_masks),
      unit_test(test_selective_with_blocked_attention_saves_ten_elements),
      unit_test(test_the_embedding_saves_tokens_and_a_mask), unit_test(test_stages_save_what_their_blocks_save),
      unit_test(test_groups_save_what_their_first_layer_needs))

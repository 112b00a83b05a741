/* ranks: 1 2 4  device: cpu
 *
 * A token at a time with a cache against the training program's forward pass over the whole sequence: the same scores
 * at every position. Both load the same checkpoint, which a layout of all ranks has saved. */
#include "decode/decode.h"
#include "decode/decode_step.h"
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 131 tokens: prime, so that with tp the last rank has a padding row. */
enum { T = 10, V = 131, LAYERS = 2, CHANNELS = 16, HEADS = 4 };

static const char *arch = "gpt";
/* Experts of the models that follow; 0: dense. A token at a time drops none, so training may not either. */
static int n_experts;

static struct plan plan_of(int precision) {
    struct plan p = parity_plan();
    p.experts = n_experts, p.capacity = 0, p.moe_group = 5;
    p.layers = LAYERS;
    p.heads = HEADS;
    p.seq = T;
    p.precision = precision;
    p.loss_chunk = 0;
    assert_ok(recipe_arch(&p, arch));
    if (!strcmp(arch, "llama")) p.hidden = 32, p.heads = 8, p.kv_heads = 4, p.ffn = 24, p.tie = 0;
    return p;
}

/* ---- a checkpoint ---- */

/* Larger weights than fresh ones: positions, tokens and layers all show in the scores. */
static void enlarge(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->present && w->decay && k < w->own_n; k++) ((double *)param_own_weight(w))[k] *= 6;
    }
}

static void set(struct run *r, const char *name, double value) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->present && !strcmp(w->name, name) && k < w->own_n; k++)
            ((double *)param_own_weight(w))[k] = value;
    }
}

/* Every token's score is far below 0, and a padding row, which is zero, scores 0: a read of it would win. */
static void shun_all_tokens(struct run *r) {
    set(r, "head.lnf.g", 0);
    set(r, "head.lnf.b", 1);
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->present && !strcmp(w->name, "embed.wte") && k < w->own_n; k++)
            if (shape_global_index(&w->type.shape, w->own_first + k) >= 0) ((double *)param_own_weight(w))[k] -= 1;
    }
}

/* `steps` of training by all ranks (dp 2 if there are 4, tp 2, zero 1), a change, a checkpoint. step: its folder, the
 * same on all ranks. @collective{world} */
static enum status make_checkpoint(int steps, void (*change)(struct run *), char step[CHECKPOINT_PATH_MAX]) {
    static int n;
    char folder[CHECKPOINT_PATH_MAX], name[32];
    struct run r;
    struct plan p = plan_of(PRECISION_FP64);
    snprintf(name, sizeof name, "decode-%d", n++);
    snprintf(folder, sizeof folder, "%s", test_path(name));
    TRY(comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0));
    p.mesh.dp = comm_world_size() == 4 ? 2 : 1;
    p.mesh.tp = comm_world_size() == 1 ? 1 : 2;
    zero_options(&p)->stage = 1;
    p.micro_batch = 2;
    memset(&r, 0, sizeof r);
    TRY(plan_settle(&p, comm_world_size()));
    enum status status = run_create(&r, &train_recipe, &p, WATCH_NOTHING);
    if (status == OK) status = layout_use_demo(&r);
    for (int i = 0; i < steps && status == OK; i++) status = run_step(&r);
    if (status == OK && change) change(&r);
    if (status == OK) status = checkpoint_save(&r, folder, 1);
    if (status == OK) status = checkpoint_resolve(folder, step);
    run_destroy(&r);
    return status;
}

/* ---- the oracle: the training program, forward, alone in each process ---- */

static enum status fetch_sequence(void *self, int microbatch, int32_t *tokens, int32_t *targets) {
    (void)microbatch;
    memcpy(tokens, self, T * sizeof *tokens);
    for (int t = 0; t < T; t++) targets[t] = 0;
    return OK;
}

static enum status no_event(void *self, const struct param_event *event) {
    (void)self, (void)event;
    return OK;
}

/* The logits are in the microbatch's frame until its backward. */
static const void *logits_of(const struct run *r) {
    const struct chunk *k = &r->chunks[0];
    for (int v = 0; v < k->n_values; v++) {
        if (strcmp(k->values[v].name, "head.logits") || k->values[v].birth.tape != TAPE_F) continue;
        const struct storage *s = &k->storages[k->values[v].storage];
        enum frame_class c = storage_class(s);
        return arena_at(&r->arenas[TIER_DEVICE][s->role], (c == SCRATCH ? 0 : memory_frame(&r->memory, c, 0, 0)) + s->offset);
    }
    fail_msg("no value is called head.logits");
    return NULL;
}

static enum status forward(struct run *r, const char *step, int32_t *tokens, double logits[T][V]) {
    struct schedule s = {.n_microbatches = 1};
    TRY(checkpoint_load(r, step, CHECKPOINT_WEIGHTS));
    r->exec.hooks = (struct exec_hooks){.self = tokens, .fetch = fetch_sequence, .param_event = no_event};
    schedule_add(&s, ACTION_F, 0, 0);
    enum status status = exec_run(&r->exec, &s, false);
    schedule_fini(&s);
    for (int i = 0; i < T * V && status == OK; i++)
        logits[i / V][i % V] = dtype_get(logits_of(r), plan_dtype(&r->plan), i);
    return status;
}

static enum status whole_logits(const char *step, int precision, int32_t *tokens, double logits[T][V]) {
    struct run r;
    struct plan p = plan_of(precision);
    p.global_batch = p.micro_batch = 1;
    memset(&r, 0, sizeof r);
    TRY(plan_settle(&p, 1));
    enum status status = run_create(&r, &train_recipe, &p, WATCH_NOTHING);
    if (status == OK) status = forward(&r, step, tokens, logits);
    run_destroy(&r);
    return status;
}

/* ---- decoding ---- */

/* Fill keys and values with NaN: a read before the write shows, and written elements can be counted. */
static void poison(const struct run *r) {
    for (int i = 0; i < r->program.n_params; i++)
        if (r->program.params[i].cache)
            memset(r->program.params[i].weight, 0xff, (size_t)type_bytes(&r->program.params[i].type));
}

static int64_t written_bytes(const struct run *r) {
    int64_t bytes = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->cache && k < type_n(&w->type); k++)
            if (!isnan(dtype_get(w->weight, w->type.dtype, k))) bytes += (int64_t)dtype_size(w->type.dtype);
    }
    return bytes;
}

/* tp 1: each process by itself. at_once: tokens of so many sequences. @collective{world} */
static enum status open_decoder_of(struct run *r, struct decoder *d, const char *step, int precision, int tp,
                                   int sequences, int at_once) {
    struct plan p = plan_of(precision);
    p.global_batch = p.micro_batch = sequences;
    p.prefill = at_once;
    p.mesh.tp = tp;
    memset(r, 0, sizeof *r);
    memset(d, 0, sizeof *d);
    TRY(plan_settle(&p, tp));
    TRY(run_create(r, &generate_recipe, &p, WATCH_LIFETIMES));
    TRY(checkpoint_load(r, step, CHECKPOINT_WEIGHTS));
    poison(r);
    return decoder_init(d, r);
}

static enum status open_decoder(struct run *r, struct decoder *d, const char *step, int precision, int tp) {
    return open_decoder_of(r, d, step, precision, tp, 1, 1);
}

static void close_decoder(struct run *r, struct decoder *d) {
    decoder_fini(d);
    run_destroy(r);
}

static enum status decoded_logits(const char *step, int precision, int tp, const int32_t *tokens, double logits[T][V]) {
    struct run r;
    struct decoder d;
    const double *row = NULL;
    enum status status = open_decoder(&r, &d, step, precision, tp);
    for (int t = 0; t < T && status == OK; t++) {
        status = decoder_read(&d, &tokens[t], 1, &row);
        if (status == OK) memcpy(logits[t], row, sizeof logits[t]);
    }
    close_decoder(&r, &d);
    return status;
}

struct text { int n; int32_t token[T]; };
static enum status collect(void *self, int64_t sequence, int32_t token) {
    (void)sequence;
    struct text *text = self;
    text->token[text->n++] = token;
    return OK;
}

static enum status write_text(const char *step, int precision, int tp, struct sampling s, struct text *text) {
    static const int32_t prompt[] = {7, 100};
    struct run r;
    struct decoder d;
    *text = (struct text){0};
    enum status status = open_decoder(&r, &d, step, precision, tp);
    if (status == OK) status = decoder_write(&d, &s, prompt, 2, T - 2, collect, text);
    close_decoder(&r, &d);
    return status;
}

/* NaN is the worst: fmax would ignore it. */
static double worse(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }

static double worst(double a[T][V], double b[T][V]) {
    double most = 0;
    for (int i = 0; i < T * V; i++) most = worse(most, fabs(a[i / V][i % V] - b[i / V][i % V]));
    return most;
}

static void prompt_of(int n, int32_t tokens[T]) {
    for (int t = 0; t < T; t++) tokens[t] = (int32_t)((n * 53 + t * (n + 31)) % V);
}

/* Untrained; trained for a few steps. Made once, of each arch. */
static enum status nth_checkpoint(int n, char step[CHECKPOINT_PATH_MAX]) {
    static char made[2][2][CHECKPOINT_PATH_MAX];
    char *path = made[!strcmp(arch, "llama")][n];
    if (!path[0]) TRY(make_checkpoint(n == 0 ? 0 : 3, n == 0 ? NULL : enlarge, path));
    memcpy(step, path, CHECKPOINT_PATH_MAX);
    return OK;
}

/* ---- the tests ---- */

/* fp64: the same few thousand operations in two ways, scores below 100: far below 1e-12 on a single rank. Sums over
 * ranks are in another order: the promise is 1e-10. */
static void check_scores(void) {
    static double whole[T][V], one[T][V], all[T][V];
    double alone = 0, together = 0, apart[2] = {0};
    enum status status = OK;
    for (int i = 0; i < 4 && agree_all(status == OK); i++) {         /* two checkpoints, two sequences */
        char step[CHECKPOINT_PATH_MAX];
        int32_t tokens[T];
        prompt_of(i / 2, tokens);
        status = nth_checkpoint(i % 2, step);
        if (agree_all(status == OK)) status = whole_logits(step, PRECISION_FP64, tokens, whole);
        if (status == OK) status = decoded_logits(step, PRECISION_FP64, 1, tokens, one);
        if (agree_all(status == OK)) status = decoded_logits(step, PRECISION_FP64, comm_world_size(), tokens, all);
        alone = worse(alone, worst(one, whole));
        together = worse(together, worst(all, whole));
        for (int v = 0; v < V; v++) apart[i % 2] = fmax(apart[i % 2], fabs(whole[T - 1][v] - whole[0][v]));
    }
    alone = agree_max(alone), together = agree_max(together);
    assert_ok(status);
    assert_close(alone, 0, 1e-12);
    assert_close(together, 0, 1e-10);
    assert_true(apart[0] > 1e-3 && apart[1] > 0.1);                  /* positions have scores of their own */
}

static void test_decode_has_the_scores_of_the_whole_forward_pass(void **state) {
    (void)state;
    check_scores();
}

/* Its positions turn keys and queries, and heads share keys. */
static void test_decode_of_llama_has_the_scores_of_the_whole_forward_pass(void **state) {
    (void)state;
    arch = "llama";
    check_scores();
    arch = "gpt";
}

/* Two sequences, read 4 + 4 + 1 + 1 tokens at a time: after each the scores are those of the whole pass over either. */
enum { SEQUENCES = 2, AT_ONCE = 4 };

static enum status read_at_once(const char *step, int tp, int32_t tokens[SEQUENCES][T], double whole[SEQUENCES][T][V],
                                double *off) {
    static const int sizes[] = {4, 4, 1, 1};
    struct run r;
    struct decoder d;
    enum status status = open_decoder_of(&r, &d, step, PRECISION_FP64, tp, SEQUENCES, AT_ONCE);
    for (int i = 0, t = 0; i < 4 && status == OK; t += sizes[i++]) {
        int32_t now[SEQUENCES * AT_ONCE];
        const double *logits;
        for (int b = 0; b < SEQUENCES; b++) memcpy(now + b * sizes[i], tokens[b] + t, (size_t)sizes[i] * sizeof *now);
        status = decoder_read(&d, now, sizes[i], &logits);
        for (int k = 0; k < SEQUENCES * V && status == OK; k++)
            *off = worse(*off, fabs(logits[k / V * decoder_row(&d) + k % V] - whole[k / V][t + sizes[i] - 1][k % V]));
    }
    int64_t measured[N_TIERS][N_ROLES];
    if (status == OK) status = run_measure(&r, measured);
    for (enum role role = 0; role < N_ROLES && status == OK; role++)
        *off = worse(*off, fabs((double)(measured[TIER_DEVICE][role] - r.memory.bytes[TIER_DEVICE][role])));
    close_decoder(&r, &d);
    return status;
}

static void test_sequences_and_tokens_together_have_the_scores_of_each(void **state) {
    (void)state;
    static double whole[SEQUENCES][T][V];
    for (int i = 0; i < 2; i++) {
        char step[CHECKPOINT_PATH_MAX];
        int32_t tokens[SEQUENCES][T];
        double alone = 0, together = 0;
        arch = i ? "llama" : "gpt";
        enum status status = nth_checkpoint(1, step);
        for (int b = 0; b < SEQUENCES; b++) {
            prompt_of(b, tokens[b]);
            if (agree_all(status == OK)) status = whole_logits(step, PRECISION_FP64, tokens[b], whole[b]);
        }
        if (status == OK) status = read_at_once(step, 1, tokens, whole, &alone);
        if (agree_all(status == OK)) status = read_at_once(step, comm_world_size(), tokens, whole, &together);
        alone = agree_max(alone), together = agree_max(together);
        arch = "gpt";
        assert_ok(status);
        assert_close(alone, 0, 1e-12);
        assert_close(together, 0, 1e-10);
    }
}

/* Sequences of one prompt draw by themselves; the first draws what it would alone. */
struct texts { int n[2]; int32_t token[2][T]; };
static enum status collect_both(void *self, int64_t sequence, int32_t token) {
    struct texts *texts = self;
    texts->token[sequence][texts->n[sequence]++] = token;
    return OK;
}

static void test_sequences_draw_by_themselves(void **state) {
    (void)state;
    static const int32_t prompt[] = {7, 100, 3};
    const struct sampling sampling = {1, 0, 5};
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    struct decoder d;
    struct texts both = {.n = {0}}, alone = {.n = {0}};
    enum status status = nth_checkpoint(1, step);
    for (int sequences = 1; sequences <= 2 && agree_all(status == OK); sequences++) {
        status = open_decoder_of(&r, &d, step, PRECISION_FP64, comm_world_size(), sequences, 2);
        if (status == OK)
            status = decoder_write(&d, &sampling, prompt, 3, T - 3, collect_both, sequences == 1 ? &alone : &both);
        close_decoder(&r, &d);
    }
    assert_ok(status);
    assert_int_equal(both.n[0], T - 3);
    assert_int_equal(both.n[1], T - 3);
    assert_memory_equal(both.token[0], alone.token[0], sizeof alone.token[0]);
    assert_memory_not_equal(both.token[0], both.token[1], sizeof both.token[0]);
}

static void test_decode_of_experts_has_the_scores_of_the_whole_forward_pass(void **state) {
    (void)state;
    static double whole[T][V], all[T][V];
    char step[CHECKPOINT_PATH_MAX];
    int32_t tokens[T];
    n_experts = 4;
    prompt_of(1, tokens);
    enum status status = make_checkpoint(4, enlarge, step);
    if (agree_all(status == OK)) status = whole_logits(step, PRECISION_FP64, tokens, whole);
    if (agree_all(status == OK)) status = decoded_logits(step, PRECISION_FP64, comm_world_size(), tokens, all);
    n_experts = 0;
    double error = agree_max(worst(all, whole));
    assert_ok(status);
    assert_close(error, 0, 1e-10);
}

/* Scores of size 1 to 10: fp32 to 24 bits and bf16 to 8, some 50 roundings on the way. */
static void test_decode_in_less_precise_numbers(void **state) {
    (void)state;
    static double whole[T][V], all[T][V];
    const struct { int precision; double bound; } cases[] = {{PRECISION_FP32, 1e-4}, {PRECISION_BF16, 1}};
    char step[CHECKPOINT_PATH_MAX];
    int32_t tokens[T];
    double error[2] = {0};
    enum status status = nth_checkpoint(1, step);
    prompt_of(1, tokens);
    if (status == OK) status = whole_logits(step, PRECISION_FP64, tokens, whole);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        status = decoded_logits(step, cases[i].precision, comm_world_size(), tokens, all);
        error[i] = worst(all, whole);
    }
    for (int i = 0; i < 2; i++) error[i] = agree_max(error[i]);
    assert_ok(status);
    for (int i = 0; i < 2; i++) assert_close(error[i], 0, cases[i].bound);
}

static int highest(const double *row) {
    int best = 0;
    for (int v = 1; v < V; v++)
        if (row[v] > row[best]) best = v;
    return best;
}

/* Each token is the most likely one by the whole forward pass in the same precision. */
static void test_decode_writes_what_the_whole_forward_pass_says(void **state) {
    (void)state;
    static double whole[T][V];
    const int precisions[] = {PRECISION_FP64, PRECISION_FP32};
    char step[CHECKPOINT_PATH_MAX];
    int n = 0, differ = 0;
    enum status status = nth_checkpoint(1, step);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        struct text text = {0};
        int32_t tokens[T] = {7, 100};
        status = write_text(step, precisions[i], comm_world_size(), (struct sampling){0, 0, 1}, &text);
        for (int t = 0; t < text.n; t++) tokens[2 + t] = text.token[t];
        if (status == OK) status = whole_logits(step, precisions[i], tokens, whole);
        for (int t = 1; t < T - 1; t++) differ += tokens[t + 1] != highest(whole[t]);
        n += text.n;
    }
    differ = (int)agree_max(differ);
    assert_ok(status);
    assert_int_equal(n, 2 * (T - 2));
    assert_int_equal(differ, 0);
}

/* On every rank, the text of a single rank. */
static void test_decode_draws_the_same_text_on_any_number_of_ranks(void **state) {
    (void)state;
    const struct { int precision; struct sampling sampling; } cases[] = {
        {PRECISION_FP64, {1, 0, 1}}, {PRECISION_FP64, {1, 0, 2}}, {PRECISION_FP32, {0.7, 5, 1}}};
    struct text alone[3] = {0}, together[3] = {0};
    char step[CHECKPOINT_PATH_MAX];
    int differ = 0;
    enum status status = nth_checkpoint(1, step);
    for (int i = 0; i < 3 && agree_all(status == OK); i++) {
        status = write_text(step, cases[i].precision, 1, cases[i].sampling, &alone[i]);
        if (agree_all(status == OK))
            status = write_text(step, cases[i].precision, comm_world_size(), cases[i].sampling, &together[i]);
        differ += status != OK || memcmp(&alone[i], &together[i], sizeof alone[i]) != 0;
    }
    differ = (int)agree_max(differ);
    assert_ok(status);
    assert_int_equal(differ, 0);
    assert_memory_not_equal(&alone[0], &alone[1], sizeof alone[0]);  /* seeds matter */
}

static void test_decode_never_writes_what_is_no_token(void **state) {
    (void)state;
    const struct sampling samplings[] = {{0, 0, 1}, {1, 0, 1}};
    char step[CHECKPOINT_PATH_MAX];
    int beyond = 0;
    enum status status = make_checkpoint(0, shun_all_tokens, step);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        struct text text = {0};
        status = write_text(step, PRECISION_FP64, comm_world_size(), samplings[i], &text);
        for (int t = 0; t < text.n; t++) beyond += text.token[t] >= V;
    }
    beyond = (int)agree_max(beyond);
    assert_ok(status);
    assert_int_equal(beyond, 0);
}

/* n tokens fill n / T of the cache's bytes; all roles are as planned; the bytes sent equal the formula and the bill. */
struct books { double cache, planned, wire, bill, roles; };

static enum status keep_books(const char *step, int precision, int n, struct books *off) {
    struct run r;
    struct decoder d;
    const double *row;
    int64_t measured[N_TIERS][N_ROLES],
        size = precision == PRECISION_BF16   ? 2
               : precision == PRECISION_FP32 ? 4
                                             : 8,
        tp = comm_world_size();
    int64_t formula = 2 * LAYERS * (HEADS / tp) * T * (CHANNELS / HEADS) * size;
    double bytes = 0, shares = (double)(tp - 1) / (double)tp, padded = (double)((V + tp - 1) / tp * tp);
    enum status status = open_decoder(&r, &d, step, precision, (int)tp);
    const struct ledger *l = status == OK ? group_ledger(r.mesh.group[AXIS_TP]) : NULL;
    for (int op = 0; op < N_COMM_OPS && l; op++) bytes -= l->entry[op].bytes;
    for (int t = 0; t < n && status == OK; t++) status = decoder_read(&d, &(int32_t){t}, 1, &row);
    for (int op = 0; op < N_COMM_OPS && l; op++) bytes += l->entry[op].bytes;
    if (status == OK) status = run_measure(&r, measured);
    if (status == OK) {
        *off = (struct books){(double)(written_bytes(&r) - formula * n / T),
                              (double)(decode_cache_bytes(&r.plan) - formula),
                              bytes - n * shares * (double)size * (2 * (2 * LAYERS + 1) * CHANNELS + padded),
                              fabs(bytes - n * r.bill.wire_bytes[AXIS_TP]), 0};
        for (enum role role = 0; role < N_ROLES; role++)
            off->roles += fabs((double)(measured[TIER_DEVICE][role] - r.memory.bytes[TIER_DEVICE][role]));
        off->roles += (double)(r.memory.bytes[TIER_DEVICE][ROLE_GRAD] + r.memory.bytes[TIER_DEVICE][ROLE_OPTIM]);
    }
    close_decoder(&r, &d);
    return status;
}

static void test_decode_keeps_to_its_formulas(void **state) {
    (void)state;
    const int precisions[] = {PRECISION_FP32, PRECISION_BF16};
    char step[CHECKPOINT_PATH_MAX];
    double cache = 0, planned = 0, wire = 0, roles = 0;
    enum status status = nth_checkpoint(0, step);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        struct books off = {0};
        status = keep_books(step, precisions[i], i == 0 ? T : 4, &off);
        cache += fabs(off.cache), planned += fabs(off.planned), wire += fabs(off.wire) + off.bill, roles += off.roles;
    }
    cache = agree_max(cache), planned = agree_max(planned), wire = agree_max(wire), roles = agree_max(roles);
    assert_ok(status);
    assert_close(cache, 0, 0);
    assert_close(planned, 0, 0);
    assert_close(wire, 0, 1e-6);
    assert_close(roles, 0, 0);
}

static void test_decode_refuses_tokens_it_cannot_read(void **state) {
    (void)state;
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    struct decoder d;
    enum status made = nth_checkpoint(0, step), status = open_decoder(&r, &d, step, PRECISION_FP64, comm_world_size());
    if (made != OK) status = made;
    for (int t = 0; t < T && status == OK; t++) status = decoder_read(&d, &(int32_t){t}, 1, NULL);
    status = agree_all(status == OK) ? OK : FAIL(E_INTERNAL, "no decoder to ask");
    enum status full = status == OK ? decoder_read(&d, &(int32_t){1}, 1, NULL) : OK;
    char text[2][256] = {"", ""};
    snprintf(text[0], sizeof text[0], "%s", status_message());
    d.position = 0;
    enum status beyond = status == OK ? decoder_read(&d, &(int32_t){V}, 1, NULL) : OK;
    snprintf(text[1], sizeof text[1], "%s", status_message());
    if (status == OK) status_clear();
    close_decoder(&r, &d);
    assert_ok(status);
    assert_int_equal(full, E_CONFIG);
    assert_non_null(strstr(text[0], "seq=10"));
    assert_int_equal(beyond, E_CONFIG);
    assert_non_null(strstr(text[1], "token 131"));
}

static enum status compile(struct plan p) {
    struct run r;
    enum status status = run_compile(&r, &generate_recipe, &p, 0, NULL, NULL);
    run_destroy(&r);
    return status;
}

static void test_decode_refuses_other_layouts(void **state) {
    (void)state;
    struct plan p = plan_of(PRECISION_FP64);
    p.global_batch = p.micro_batch = 1;
    assert_ok(plan_settle(&p, 1));
    assert_ok(compile(p));
    struct plan q = p;
    q.mesh.dp = 2;
    assert_fails(compile(q), E_CONFIG, "dp is requested");
    q = p, q.mesh.pp = 2;
    assert_fails(compile(q), E_CONFIG, "pp is requested");
    q = p, q.mesh.tp = 2, tp_options(&q)->sp = 1;
    assert_fails(compile(q), E_CONFIG, "the sequence is sharded", "leave sp out");
    q = p, zero_options(&q)->stage = 3;
    assert_fails(compile(q), E_CONFIG, "zero is requested", "leave its options out");
    q = p, q.loss_chunk = 4;
    assert_fails(compile(q), E_CONFIG, "loss-chunk=4");
    q = p, q.device = PLAN_DEVICE_CUDA;
    assert_fails(compile(q), E_CONFIG, "device=cuda", "use device cpu");
    q = p, q.layers = 10000, q.seq = 1000000000;
    assert_fails(compile(q), E_CONFIG, "seq=1000000000", "cache of 3e+15 bytes");
    q = p, q.mesh.tp = 3;
    assert_fails(compile(q), E_CONFIG, "tp=3");
}

/* Rows of one token are too short to share among threads, and cores may be busy. */
static int usual_threads;
static int one_thread(void **state) {
    (void)state;
    usual_threads = omp_get_max_threads();
    omp_set_num_threads(1);
    return 0;
}
static int all_threads(void **state) {
    (void)state;
    omp_set_num_threads(usual_threads);
    return 0;
}
#define alone_test(function) cmocka_unit_test_setup_teardown(function, one_thread, all_threads)

TESTS(unit_test(test_decode_of_llama_has_the_scores_of_the_whole_forward_pass),
      unit_test(test_sequences_and_tokens_together_have_the_scores_of_each),
      unit_test(test_sequences_draw_by_themselves), alone_test(test_decode_has_the_scores_of_the_whole_forward_pass),
      alone_test(test_decode_of_experts_has_the_scores_of_the_whole_forward_pass),
      alone_test(test_decode_in_less_precise_numbers), alone_test(test_decode_writes_what_the_whole_forward_pass_says),
      alone_test(test_decode_draws_the_same_text_on_any_number_of_ranks),
      alone_test(test_decode_never_writes_what_is_no_token), alone_test(test_decode_keeps_to_its_formulas),
      alone_test(test_decode_refuses_tokens_it_cannot_read), alone_test(test_decode_refuses_other_layouts))

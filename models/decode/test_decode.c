/* ranks: 1 2 4  device: cpu
 *
 * Decoding one token at a time with a cache gives the scores of the training program's forward pass over the whole
 * sequence, at every position. Both load the same checkpoint, which a layout of all ranks saves. */
#include "models/decode/test_decode.h"

const char *decode_arch = "gpt";
int decode_experts, decode_latents;
static const char *qk_norm;              /* of a llama; with "all" its norms come late; NULL: none */

static void set_limit(struct plan *p, double limit) {
    void *value;
    assert_non_null(plan_option(p, "swiglu-limit", &value));
    *(double *)value = limit;
}

/* DeepSeek-V3's experts behind a layer without any; or GPT-OSS's, with a limit that clamps. */
static void set_experts(struct plan *p) {
    struct model_options *m = model_options(p);
    bool gpt_oss = !strcmp(decode_arch, "gpt_oss");
    m->experts = 8, m->experts_per_token = 3, m->capacity = 0, m->moe_group = 5;
    plan_set_number(p, "expert-ffn", 20);
    if (gpt_oss) {
        plan_set_word(p, "attention-bias", "all", 0);
        plan_set_number(p, "expert-bias", 1), plan_set_number(p, "router-bias", 1);
        set_limit(p, 0.3);
        return;
    }
    plan_set_word(p, "expert-layers", "de", 0), plan_set_word(p, "router-scores", "sigmoid", 0);
    plan_set_number(p, "shared-experts", 2), plan_set_number(p, "rope-interleave", 1);
    plan_set_number(p, "router-groups", 4), plan_set_number(p, "router-groups-per-token", 2);
}

struct plan decode_plan(int precision) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    m->experts = decode_experts, m->capacity = 0, m->moe_group = 5;
    p.layers = LAYERS;
    p.heads = HEADS;
    p.seq = T;
    p.precision = precision;
    p.loss_chunk = 0;
    assert_ok(recipe_arch(&p, decode_arch));
    if (!strcmp(decode_arch, "gpt")) return p;
    p.hidden = 32, p.heads = 8, m->kv_heads = 4, m->ffn = 24, m->tie = 0;
    if (decode_latents) {
        bool plain = decode_latents % 2;
        m->kv_heads = 8, m->head_dim = 6;
        plan_set_number(&p, "rope-head-dim", 2), plan_set_number(&p, "v-head-dim", plain ? 6 : 5);
        plan_set_number(&p, "kv-lora-rank", decode_latents), plan_set_number(&p, "q-lora-rank", plain ? 0 : 10);
        if (plain) plan_set_word(&p, "rope-scaling", "yarn:4:16", 0), plan_set_number(&p, "mscale-all-dim", 1);
    }
    if (qk_norm) plan_set_word(&p, "qk-norm", qk_norm, 0), plan_set_number(&p, "post-norm", !strcmp(qk_norm, "all"));
    plan_set_number(&p, "window", 3);
    plan_set_word(&p, "window-layers", "fs", 0);
    plan_set_number(&p, "attention-cap", strcmp(decode_arch, "gpt_oss") != 0);
    plan_set_number(&p, "attention-sinks", 1);
    if (strcmp(decode_arch, "llama") != 0) set_experts(&p);
    return p;
}

/* ---- a checkpoint ---- */

/* Enlarge the fresh weights, so that positions, tokens and layers all change the scores; of experts, also the biases,
 * which are zero. */
void decode_enlarge(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        double *own = w->present ? param_own_weight(w) : NULL;
        bool of_experts = strstr(w->name, "experts.") || strstr(w->name, "router.");
        for (int64_t k = 0; own && k < w->own_n; k++) {
            if (w->decay) own[k] *= 6;
            else if (of_experts) own[k] += 0.2 * (double)((w->own_first + k) * 7 % 11 - 5) / 5;
        }
    }
}

/* Train `steps` steps on all ranks (dp 2 if there are 4, tp 2, zero 1), apply `change`, write a checkpoint.
 * step: the checkpoint's folder, the same on all ranks. @collective{world} */
enum status decode_make_checkpoint(int steps, void (*change)(struct run *), char step[CHECKPOINT_PATH_MAX]) {
    static int n;
    char folder[CHECKPOINT_PATH_MAX], name[32];
    struct run r;
    struct plan p = decode_plan(PRECISION_FP64);
    snprintf(name, sizeof name, "decode-%d", n++);
    snprintf(folder, sizeof folder, "%s", test_path(name));
    TRY(comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0));
    p.mesh.dp = comm_world_size() == 4 ? 2 : 1;
    p.mesh.tp = comm_world_size() == 1 ? 1 : 2;
    plan_set_number(&p, "zero", 1);
    p.micro_batch = 2;
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    for (int i = 0; i < steps && status == OK; i++) status = run_step(&r);
    if (status == OK && change) change(&r);
    if (status == OK) status = checkpoint_save(&r, folder, 1);
    if (status == OK) status = checkpoint_resolve(folder, step);
    run_destroy(&r);
    return status;
}

/* ---- the oracle: the training program, forward, alone in each process ---- */

static enum status fetch_sequence(void *self, int microbatch, int32_t *const data[N_DATA]) {
    (void)microbatch;
    memcpy(data[DATA_TOKENS], self, T * sizeof **data);
    for (int t = 0; t < T; t++) data[DATA_TARGETS][t] = 0;
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
        int64_t frame = c == SCRATCH ? 0 : memory_frame(&r->memory, c, 0, 0);
        return arena_at(&r->arenas[TIER_DEVICE][s->role], frame + s->offset);
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

enum status decode_whole_logits(const char *step, int precision, int32_t *tokens, double logits[T][V]) {
    struct run r;
    struct plan p = decode_plan(precision);
    p.global_batch = p.micro_batch = 1;
    memset(&r, 0, sizeof r);
    TRY(plan_settle(&p, 1));
    enum status status = run_create(&r, &train_recipe, &p, WATCH_NOTHING);
    if (status == OK) status = forward(&r, step, tokens, logits);
    run_destroy(&r);
    return status;
}

/* ---- decoding ---- */

/* Fill keys and values with NaN: a read before the write becomes visible, and written elements can be counted. */
static void poison(const struct run *r) {
    for (int i = 0; i < r->program.n_params; i++)
        if (r->program.params[i].cache)
            memset(r->program.params[i].weight, 0xff, (size_t)type_bytes(&r->program.params[i].type));
}

/* tp 1: each process decodes alone. at_once: most tokens of a sequence in one read. @collective{world} */
enum status decode_open_of(struct run *r, struct decoder *d, const char *step, int precision, int tp,
                                   int sequences, int at_once) {
    struct plan p = decode_plan(precision);
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

enum status decode_open(struct run *r, struct decoder *d, const char *step, int precision, int tp) {
    return decode_open_of(r, d, step, precision, tp, 1, 1);
}

void decode_close(struct run *r, struct decoder *d) {
    decoder_fini(d);
    run_destroy(r);
}

static enum status decoded_logits(const char *step, int precision, int tp, const int32_t *tokens, double logits[T][V]) {
    struct run r;
    struct decoder d;
    const double *row = NULL;
    enum status status = decode_open(&r, &d, step, precision, tp);
    for (int t = 0; t < T && status == OK; t++) {
        status = decoder_read(&d, &tokens[t], 1, &row);
        if (status == OK) memcpy(logits[t], row, sizeof logits[t]);
    }
    decode_close(&r, &d);
    return status;
}

/* NaN counts as the worst: fmax would ignore it. */
static double worse(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }

static double worst(double a[T][V], double b[T][V]) {
    double most = 0;
    for (int i = 0; i < T * V; i++) most = worse(most, fabs(a[i / V][i % V] - b[i / V][i % V]));
    return most;
}

static void prompt_of(int n, int32_t tokens[T]) {
    for (int t = 0; t < T; t++) tokens[t] = (int32_t)((n * 53 + t * (n + 31)) % V);
}

/* Checkpoint 0 is untrained, 1 is trained for a few steps. Each is made once per suite and arch. */
enum status decode_checkpoint(int n, char step[CHECKPOINT_PATH_MAX]) {
    static struct { int clearing; char path[CHECKPOINT_PATH_MAX]; } made[6][2];
    int llama = !strcmp(decode_arch, "gpt") ? 0 : !strcmp(decode_arch, "moe") ? 4 : !strcmp(decode_arch, "gpt_oss") ? 5
                : decode_latents ? 2 + decode_latents % 2 : 1;
    if (made[llama][n].clearing != test_paths_clearings())
        TRY(decode_make_checkpoint(n == 0 ? 0 : 3, n == 0 ? NULL : decode_enlarge, made[llama][n].path));
    made[llama][n].clearing = test_paths_clearings();
    memcpy(step, made[llama][n].path, CHECKPOINT_PATH_MAX);
    return OK;
}

static int usual_threads;
int decode_one_thread(void **state) {
    (void)state;
    usual_threads = omp_get_max_threads();
    omp_set_num_threads(1);
    return 0;
}
int decode_all_threads(void **state) {
    (void)state;
    omp_set_num_threads(usual_threads);
    return 0;
}

/* ---- the tests ---- */

/* In fp64 the same few thousand operations run in two ways, and scores are below 100: on one rank the difference is far
 * below 1e-12. Several ranks sum in another order, for which 1e-10 is allowed. */
static void check_scores(void) {
    static double whole[T][V], one[T][V], all[T][V];
    double alone = 0, together = 0, apart[2] = {0};
    enum status status = OK;
    for (int i = 0; i < 4 && agree_all(status == OK); i++) {         /* two checkpoints, two sequences */
        char step[CHECKPOINT_PATH_MAX];
        int32_t tokens[T];
        prompt_of(i / 2, tokens);
        status = decode_checkpoint(i % 2, step);
        if (agree_all(status == OK)) status = decode_whole_logits(step, PRECISION_FP64, tokens, whole);
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
    assert_true(apart[0] > 1e-3 && apart[1] > 0.1);                  /* scores differ from position to position */
}

TEST(test_decode_has_the_scores_of_the_whole_forward_pass) {
    check_scores();
}

/* In a llama positions turn keys and queries, and heads share keys; this one has windows, capped scores and sinks. */
TEST(test_decode_of_llama_has_the_scores_of_the_whole_forward_pass) {
    decode_arch = "llama";
    check_scores();
    decode_arch = "gpt";
}

/* The cache has latents, from which the whole pass makes the heads' keys and values. */
TEST(test_decode_of_latents_has_the_scores_of_the_whole_forward_pass) {
    decode_arch = "llama";
    for (decode_latents = 12; decode_latents < 14; decode_latents++) check_scores();
    decode_arch = "gpt", decode_latents = 0;
}

/* Read two sequences by 4 + 4 + 1 + 1 tokens. After each read the scores equal those of a whole pass per sequence. */
enum { SEQUENCES = 2, AT_ONCE = 4 };

static enum status read_at_once(const char *step, int tp, int32_t tokens[SEQUENCES][T], double whole[SEQUENCES][T][V],
                                double *off) {
    static const int sizes[] = {4, 4, 1, 1};
    struct run r;
    struct decoder d;
    enum status status = decode_open_of(&r, &d, step, PRECISION_FP64, tp, SEQUENCES, AT_ONCE);
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
    decode_close(&r, &d);
    return status;
}

TEST(test_sequences_and_tokens_together_have_the_scores_of_each) {
    static double whole[SEQUENCES][T][V];
    for (int i = 0; i < 4; i++) {
        char step[CHECKPOINT_PATH_MAX];
        int32_t tokens[SEQUENCES][T];
        double alone = 0, together = 0;
        decode_arch = i ? "llama" : "gpt", decode_latents = i < 2 ? 0 : 10 + i;
        enum status status = decode_checkpoint(1, step);
        for (int b = 0; b < SEQUENCES; b++) {
            prompt_of(b, tokens[b]);
            if (agree_all(status == OK)) status = decode_whole_logits(step, PRECISION_FP64, tokens[b], whole[b]);
        }
        if (status == OK) status = read_at_once(step, 1, tokens, whole, &alone);
        if (agree_all(status == OK)) status = read_at_once(step, comm_world_size(), tokens, whole, &together);
        alone = agree_max(alone), together = agree_max(together);
        decode_arch = "gpt", decode_latents = 0;
        assert_ok(status);
        assert_close(alone, 0, 1e-12);
        assert_close(together, 0, 1e-10);
    }
}

TEST(test_decode_of_experts_has_the_scores_of_the_whole_forward_pass) {
    static double whole[T][V], all[T][V];
    char step[CHECKPOINT_PATH_MAX];
    int32_t tokens[T];
    decode_experts = 4;
    prompt_of(1, tokens);
    enum status status = decode_make_checkpoint(4, decode_enlarge, step);
    if (agree_all(status == OK)) status = decode_whole_logits(step, PRECISION_FP64, tokens, whole);
    if (agree_all(status == OK)) status = decoded_logits(step, PRECISION_FP64, comm_world_size(), tokens, all);
    decode_experts = 0;
    double error = agree_max(worst(all, whole));
    assert_ok(status);
    assert_close(error, 0, 1e-10);
}

/* DeepSeek-V3: latents, and shared experts, sigmoids, a bias and groups. GPT-OSS: experts with biases and a clamped
 * gate, a router's bias, sinks and windows. */
TEST(test_decode_of_deepseek_and_gpt_oss_has_the_scores_of_the_whole_forward_pass) {
    decode_arch = "moe", decode_latents = 12;
    check_scores();
    decode_arch = "gpt_oss", decode_latents = 0;
    check_scores();
    decode_arch = "gpt";
}

/* The cache has keys that are normed and turned. */
TEST(test_decode_of_normed_keys_has_the_scores_of_the_whole_forward_pass) {
    static double whole[T][V], all[T][V];
    for (int i = 0; i < 2; i++) {
        char step[CHECKPOINT_PATH_MAX];
        int32_t tokens[T];
        decode_arch = "llama", qk_norm = i ? "all" : "head";
        prompt_of(1, tokens);
        enum status status = decode_make_checkpoint(4, decode_enlarge, step);
        if (agree_all(status == OK)) status = decode_whole_logits(step, PRECISION_FP64, tokens, whole);
        if (agree_all(status == OK)) status = decoded_logits(step, PRECISION_FP64, comm_world_size(), tokens, all);
        decode_arch = "gpt", qk_norm = NULL;
        double error = agree_max(worst(all, whole));
        assert_ok(status);
        assert_close(error, 0, 1e-10);
    }
}

/* Scores are of size 1 to 10 and pass some 50 roundings: to 24 bits in fp32, to 8 bits in bf16. */
TEST(test_decode_in_less_precise_numbers) {
    static double whole[T][V], all[T][V];
    const struct { int precision; double bound; } cases[] = {{PRECISION_FP32, 1e-4}, {PRECISION_BF16, 1}};
    char step[CHECKPOINT_PATH_MAX];
    int32_t tokens[T];
    double error[2] = {0};
    enum status status = decode_checkpoint(1, step);
    prompt_of(1, tokens);
    if (status == OK) status = decode_whole_logits(step, PRECISION_FP64, tokens, whole);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        status = decoded_logits(step, cases[i].precision, comm_world_size(), tokens, all);
        error[i] = worst(all, whole);
    }
    for (int i = 0; i < 2; i++) error[i] = agree_max(error[i]);
    assert_ok(status);
    for (int i = 0; i < 2; i++) assert_close(error[i], 0, cases[i].bound);
}

TESTS(unit_test(test_decode_of_llama_has_the_scores_of_the_whole_forward_pass),
      unit_test(test_sequences_and_tokens_together_have_the_scores_of_each),
      alone_test(test_decode_has_the_scores_of_the_whole_forward_pass),
      alone_test(test_decode_of_normed_keys_has_the_scores_of_the_whole_forward_pass),
      alone_test(test_decode_of_latents_has_the_scores_of_the_whole_forward_pass),
      alone_test(test_decode_of_experts_has_the_scores_of_the_whole_forward_pass),
      alone_test(test_decode_of_deepseek_and_gpt_oss_has_the_scores_of_the_whole_forward_pass),
      alone_test(test_decode_in_less_precise_numbers))

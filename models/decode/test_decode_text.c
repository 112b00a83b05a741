/* ranks: 1 2 4  device: cpu
 *
 * Generated tokens are those that the whole forward pass predicts; the text is equal on any number of ranks. */
#include "models/decode/test_decode.h"
#include "lib/ops/attention/attention_cached.h"

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
    enum status status = decode_open(&r, &d, step, precision, tp);
    if (status == OK) status = decoder_write(&d, &s, prompt, 2, T - 2, collect, text);
    decode_close(&r, &d);
    return status;
}

static void set(struct run *r, const char *name, double value) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->present && !strcmp(w->name, name) && k < w->own_n; k++)
            ((double *)param_own_weight(w))[k] = value;
    }
}

/* Every token scores far below 0. A padding row is zero and scores 0, so it would win if it were read. */
static void shun_all_tokens(struct run *r) {
    set(r, "head.lnf.g", 0);
    set(r, "head.lnf.b", 1);
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->present && !strcmp(w->name, "embed.wte") && k < w->own_n; k++)
            if (shape_global_index(&w->type.shape, w->own_first + k) >= 0) ((double *)param_own_weight(w))[k] -= 1;
    }
}

/* Sequences of one prompt draw independently; the first draws the same tokens as it does alone. */
struct texts { int n[2]; int32_t token[2][T]; };
static enum status collect_both(void *self, int64_t sequence, int32_t token) {
    struct texts *texts = self;
    texts->token[sequence][texts->n[sequence]++] = token;
    return OK;
}

TEST(test_sequences_draw_by_themselves) {
    static const int32_t prompt[] = {7, 100, 3};
    const struct sampling sampling = {1, 0, 5};
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    struct decoder d;
    struct texts both = {.n = {0}}, alone = {.n = {0}};
    enum status status = decode_checkpoint(1, step);
    for (int sequences = 1; sequences <= 2 && agree_all(status == OK); sequences++) {
        status = decode_open_of(&r, &d, step, PRECISION_FP64, comm_world_size(), sequences, 2);
        if (status == OK)
            status = decoder_write(&d, &sampling, prompt, 3, T - 3, collect_both, sequences == 1 ? &alone : &both);
        decode_close(&r, &d);
    }
    assert_ok(status);
    assert_int_equal(both.n[0], T - 3);
    assert_int_equal(both.n[1], T - 3);
    assert_memory_equal(both.token[0], alone.token[0], sizeof alone.token[0]);
    assert_memory_not_equal(both.token[0], both.token[1], sizeof both.token[0]);
}

static int highest(const double *row) {
    int best = 0;
    for (int v = 1; v < V; v++)
        if (row[v] > row[best]) best = v;
    return best;
}

/* Each token is the most likely one of the whole forward pass in the same precision. */
TEST(test_decode_writes_what_the_whole_forward_pass_says) {
    static double whole[T][V];
    const int precisions[] = {PRECISION_FP64, PRECISION_FP32};
    char step[CHECKPOINT_PATH_MAX];
    int n = 0, differ = 0;
    enum status status = decode_checkpoint(1, step);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        struct text text = {0};
        int32_t tokens[T] = {7, 100};
        status = write_text(step, precisions[i], comm_world_size(), (struct sampling){0, 0, 1}, &text);
        for (int t = 0; t < text.n; t++) tokens[2 + t] = text.token[t];
        if (status == OK) status = decode_whole_logits(step, precisions[i], tokens, whole);
        for (int t = 1; t < T - 1; t++) differ += tokens[t + 1] != highest(whole[t]);
        n += text.n;
    }
    differ = (int)agree_max(differ);
    assert_ok(status);
    assert_int_equal(n, 2 * (T - 2));
    assert_int_equal(differ, 0);
}

/* Every rank writes the text that a single rank writes. */
TEST(test_decode_draws_the_same_text_on_any_number_of_ranks) {
    const struct { int precision; struct sampling sampling; } cases[] = {
        {PRECISION_FP64, {1, 0, 1}}, {PRECISION_FP64, {1, 0, 2}}, {PRECISION_FP32, {0.7, 5, 1}}};
    struct text alone[3] = {0}, together[3] = {0};
    char step[CHECKPOINT_PATH_MAX];
    int differ = 0;
    enum status status = decode_checkpoint(1, step);
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

TEST(test_decode_never_writes_what_is_no_token) {
    const struct sampling samplings[] = {{0, 0, 1}, {1, 0, 1}};
    char step[CHECKPOINT_PATH_MAX];
    int beyond = 0;
    enum status status = decode_make_checkpoint(0, shun_all_tokens, step);
    for (int i = 0; i < 2 && agree_all(status == OK); i++) {
        struct text text = {0};
        status = write_text(step, PRECISION_FP64, comm_world_size(), samplings[i], &text);
        for (int t = 0; t < text.n; t++) beyond += text.token[t] >= V;
    }
    beyond = (int)agree_max(beyond);
    assert_ok(status);
    assert_int_equal(beyond, 0);
}

/* Bytes of the cache, of memory and of the wire, and flops, equal their formulas; and what decoding refuses. */

static int64_t written_bytes(const struct run *r) {
    int64_t bytes = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->cache && k < type_n(&w->type); k++)
            if (!isnan(dtype_get(w->weight, w->type.dtype, k))) bytes += (int64_t)dtype_size(w->type.dtype);
    }
    return bytes;
}

/* n tokens fill n / T of the cache's bytes, which tp divides if they are keys and values of heads. All roles have their
 * planned bytes; bytes sent equal formula and bill. */
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
    int64_t formula = LAYERS * T * size * (decode_latents ? decode_latents + 2 : 2 * CHANNELS / tp);
    double bytes = 0, shares = (double)(tp - 1) / (double)tp, sent = (double)((V + tp - 1) / tp * tp);
    enum status status = decode_open(&r, &d, step, precision, (int)tp);
    const struct ledger *l = status == OK ? group_ledger(r.mesh.group[AXIS_TP]) : NULL;
    for (int op = 0; op < N_COMM_OPS && l; op++) bytes -= l->entry[op].bytes;
    for (int t = 0; t < n && status == OK; t++) status = decoder_read(&d, &(int32_t){t}, 1, &row);
    for (int op = 0; op < N_COMM_OPS && l; op++) bytes += l->entry[op].bytes;
    if (status == OK) status = run_measure(&r, measured);
    int in_a_layer = strcmp(r.plan.arch->name, "gpt_oss") ? 2 : 1;   /* tp cuts shared experts, and no others */
    sent += (double)(2 * (in_a_layer * LAYERS + 1) * r.plan.hidden);
    if (status == OK) {
        *off = (struct books){(double)(written_bytes(&r) - formula * n / T),
                              (double)(decode_cache_bytes(&r.plan) - formula),
                              bytes - n * shares * (double)size * sent,
                              fabs(bytes - n * r.bill.wire_bytes[AXIS_TP]), 0};
        for (enum role role = 0; role < N_ROLES; role++)
            off->roles += fabs((double)(measured[TIER_DEVICE][role] - r.memory.bytes[TIER_DEVICE][role]));
        off->roles += (double)(r.memory.bytes[TIER_DEVICE][ROLE_GRAD] + r.memory.bytes[TIER_DEVICE][ROLE_OPTIM]);
    }
    decode_close(&r, &d);
    return status;
}

TEST(test_decode_keeps_to_its_formulas) {
    const int precisions[] = {PRECISION_FP32, PRECISION_BF16};
    char step[CHECKPOINT_PATH_MAX];
    double cache = 0, planned = 0, wire = 0, roles = 0;
    enum status status = OK;
    for (int i = 0; i < 10 && agree_all(status == OK); i++) {
        static const struct { const char *arch; int latents; } models[] = {
            {"gpt", 0}, {"llama", 12}, {"llama", 13}, {"moe", 12}, {"gpt_oss", 0}};
        struct books off = {0};
        decode_latents = models[i / 2].latents, decode_arch = models[i / 2].arch;
        status = decode_checkpoint(0, step);
        if (agree_all(status == OK)) status = keep_books(step, precisions[i % 2], i % 2 ? 4 : T, &off);
        cache += fabs(off.cache), planned += fabs(off.planned), wire += fabs(off.wire) + off.bill, roles += off.roles;
    }
    decode_latents = 0, decode_arch = "gpt";
    cache = agree_max(cache), planned = agree_max(planned), wire = agree_max(wire), roles = agree_max(roles);
    assert_ok(status);
    assert_close(cache, 0, 0);
    assert_close(planned, 0, 0);
    assert_close(wire, 0, 1e-6);
    assert_close(roles, 0, 0);
}

TEST(test_decode_refuses_tokens_it_cannot_read) {
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    struct decoder d;
    enum status made = decode_checkpoint(0, step);
    enum status status = decode_open(&r, &d, step, PRECISION_FP64, comm_world_size());
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
    decode_close(&r, &d);
    assert_ok(status);
    assert_int_equal(full, E_CONFIG);
    assert_non_null(strstr(text[0], "seq=10"));
    assert_int_equal(beyond, E_CONFIG);
    assert_non_null(strstr(text[1], "token 131"));
}

/* Flops of reading n tokens from `position` on: of attention, and of all else. */
static enum status count_flops(struct program *p, int64_t position, int64_t n, double *attention, double *rest) {
    *attention = *rest = 0;
    TRY(decode_move(p, position, n));
    for (int i = 0; i < p->n_steps; i++) {
        struct call types = program_call(p, &p->steps[i]);
        const struct op *op = p->steps[i].op;
        *(op == &op_attention_cached || op == &op_attention_latent ? attention : rest) +=
            op_cost(&types, ROW_FORWARD).flops;
    }
    return OK;
}

/* Training does 6 N + 12 L C T per token, with N the parameters in products; a generated token 2 N + 4 L C (t + 1). */
TEST(test_decode_does_2n_flops_a_token) {
    const struct { int64_t sequences, position, n; double keys; } reads[] = {
        {1, 0, 1, 1}, {1, 7, 1, 8}, {3, 4, 1, 3 * 5}, {1, 0, 4, 1 + 2 + 3 + 4}};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        struct run r;
        struct plan p = decode_plan(PRECISION_FP32);
        double attention, rest, attention_in_training = 12. * LAYERS * (double)p.hidden * T;
        p.global_batch = p.micro_batch = reads[i].sequences, p.prefill = reads[i].n;
        assert_ok(plan_settle(&p, 1));
        assert_ok(run_compile(&r, &generate_recipe, &p, 0, NULL, NULL));
        assert_ok(count_flops(&r.program, reads[i].position, reads[i].n, &attention, &rest));
        double products = (p.arch->flops_per_token(&p) - attention_in_training) / 6;
        assert_close(rest, 2 * products * (double)(reads[i].sequences * reads[i].n), 0);
        assert_close(attention, 4. * LAYERS * (double)p.hidden * reads[i].keys, 0);
        run_destroy(&r);
    }
}

/* Over latents a key costs 2 (A + L) flops for each head, and the products that are absorbed as many as those of keys
 * and values: a token costs 2 N + 2 H (A + L) (t + 1) for each layer. A = 12 + 2, L = 12; 8 heads of 6 + 5 channels. */
TEST(test_decode_of_latents_does_2n_flops_a_token) {
    struct run r;
    double attention, rest;
    decode_arch = "llama", decode_latents = 12;
    struct plan p = decode_plan(PRECISION_FP32);
    decode_arch = "gpt", decode_latents = 0;
    plan_set_number(&p, "window", 0), plan_set_word(&p, "window-layers", "s", 0);
    p.global_batch = p.micro_batch = 3, p.prefill = 2;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &generate_recipe, &p, 0, NULL, NULL));
    assert_ok(count_flops(&r.program, 4, 2, &attention, &rest));
    double products = (p.arch->flops_per_token(&p) - 6. * LAYERS * 8 * (6 + 5) * T) / 6;
    assert_close(rest, 2 * products * 3 * 2, 0);
    assert_close(attention, 2. * LAYERS * 8 * (14 + 12) * 3 * (5 + 6), 0);
    run_destroy(&r);
}

/* A token of a mixture costs the products of its k experts: N has these alone. A router's product is billed as what it
 * reads and writes, without flops. */
TEST(test_decode_of_experts_does_2n_flops_a_token) {
    static const struct { const char *arch; int experts, latents, routers; } MODELS[] = {
        {"gpt", 4, 0, LAYERS}, {"moe", 0, 12, LAYERS - 1}, {"gpt_oss", 0, 0, LAYERS}};
    for (int i = 0; i < 3; i++) {
        struct run r;
        double attention, rest;
        decode_arch = MODELS[i].arch, decode_experts = MODELS[i].experts, decode_latents = MODELS[i].latents;
        struct plan p = decode_plan(PRECISION_FP32);
        decode_arch = "gpt", decode_experts = decode_latents = 0;
        if (i) plan_set_number(&p, "window", 0), plan_set_word(&p, "window-layers", "s", 0);
        double width = i == 1 ? 8 * (6 + 5) : 2. * (double)(p.heads * plan_head_dim(&p));
        p.global_batch = p.micro_batch = 3, p.prefill = 2;
        assert_ok(plan_settle(&p, 1));
        assert_ok(run_compile(&r, &generate_recipe, &p, 0, NULL, NULL));
        assert_ok(count_flops(&r.program, 4, 2, &attention, &rest));
        double products = (p.arch->flops_per_token(&p) - 6. * LAYERS * width * T) / 6;
        double routers = (double)(MODELS[i].routers * p.hidden * model_options(&p)->experts);
        assert_close(rest, 2 * (products - routers) * 3 * 2, 0);
        run_destroy(&r);
    }
}

/* DeepSeek-V2: 576 numbers of a token and layer, on any number of ranks, not 2 x 128 x 192 / tp. */
TEST(test_decode_of_deepseek_v2_keeps_576_numbers) {
    static const struct { const char *option; int64_t value; } SIZES[] = {
        {"rope-head-dim", 64}, {"v-head-dim", 128}, {"kv-lora-rank", 512}, {"q-lora-rank", 1536}};
    for (int tp = 1; tp <= 8; tp *= 8) {
        struct run r;
        decode_arch = "llama", decode_latents = 12;
        struct plan p = decode_plan(PRECISION_BF16);
        decode_arch = "gpt", decode_latents = 0;
        model_options(&p)->head_dim = 192, model_options(&p)->kv_heads = 128;
        p.hidden = 5120, p.heads = 128, p.layers = 60, p.seq = 1000, p.mesh.tp = tp;
        p.global_batch = p.micro_batch = 1;
        for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) plan_set_number(&p, SIZES[i].option, SIZES[i].value);
        assert_ok(plan_settle(&p, tp));
        assert_ok(run_compile(&r, &generate_recipe, &p, 0, NULL, NULL));
        int64_t bytes = 0;
        for (int i = 0; i < r.program.n_params; i++)
            if (r.program.params[i].cache) bytes += type_bytes(&r.program.params[i].type);
        assert_int_equal(bytes, 60 * 1000 * 576 * 2);
        assert_int_equal(decode_cache_bytes(&p), bytes);
        run_destroy(&r);
    }
}

static enum status compile(struct plan p) {
    struct run r;
    enum status status = run_compile(&r, &generate_recipe, &p, 0, NULL, NULL);
    run_destroy(&r);
    return status;
}

TEST(test_decode_refuses_other_layouts) {
    struct plan p = decode_plan(PRECISION_FP64);
    p.global_batch = p.micro_batch = 1;
    assert_ok(plan_settle(&p, 1));
    assert_ok(compile(p));
    struct plan q = p;
    q.mesh.dp = 2;
    assert_fails(compile(q), E_CONFIG, "dp is requested");
    q = p, q.mesh.pp = 2;
    assert_fails(compile(q), E_CONFIG, "pp is requested");
    q = p, q.mesh.tp = 2, plan_set_number(&q, "sp", 1);
    assert_fails(compile(q), E_CONFIG, "the sequence is sharded", "leave sp out");
    q = p, plan_set_number(&q, "zero", 3);
    assert_fails(compile(q), E_CONFIG, "zero is requested", "leave out what is given of");
    q = p, q.loss_chunk = 4;
    assert_fails(compile(q), E_CONFIG, "loss-chunk=4");
    q = p, q.device = PLAN_DEVICE_CUDA;
    assert_fails(compile(q), E_CONFIG, "device=cuda", "use device cpu");
    q = p, q.layers = 10000, q.seq = 1000000000;
    assert_fails(compile(q), E_CONFIG, "seq=1000000000", "cache of 3e+15 bytes");
    q = p, q.mesh.tp = 3;
    assert_fails(compile(q), E_CONFIG, "tp=3");
}

TESTS(unit_test(test_sequences_draw_by_themselves), alone_test(test_decode_writes_what_the_whole_forward_pass_says),
      alone_test(test_decode_draws_the_same_text_on_any_number_of_ranks),
      alone_test(test_decode_never_writes_what_is_no_token), alone_test(test_decode_keeps_to_its_formulas),
      alone_test(test_decode_refuses_tokens_it_cannot_read), alone_test(test_decode_does_2n_flops_a_token),
      alone_test(test_decode_of_latents_does_2n_flops_a_token),
      alone_test(test_decode_of_experts_does_2n_flops_a_token),
      alone_test(test_decode_of_deepseek_v2_keeps_576_numbers),
      alone_test(test_decode_refuses_other_layouts))

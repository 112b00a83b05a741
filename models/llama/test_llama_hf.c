/* ranks: 1  device: cpu
 *
 * A Llama exported, imported and exported again, in one or more files; and refusals. Against PyTorch: tests/hf.sh. */
#include "models/llama/llama_hf.h"
#include "driver/recipe.h"
#include "lib/checkpoint/hf_weights.h"
#include "models/llama/llama.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct plan plan_of(int precision) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    assert_ok(recipe_arch(&p, "llama"));
    p.precision = precision;
    p.layers = 2, p.hidden = 16, p.heads = 4, m->kv_heads = 2, m->ffn = 24, m->tie = 0;
    plan_set_number(&p, "rope-theta", 500);
    m->norm_eps = 0.003;
    return p;
}

/* Write a checkpoint of the plan after one step. */
static void make_checkpoint(struct plan p, const char *save) {
    struct run r;
    memset(&r, 0, sizeof r);
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_create(&r, &train_recipe, &p, WATCH_NOTHING));
    assert_ok(layout_use_demo(&r));
    assert_ok(run_step(&r));
    assert_ok(checkpoint_save(&r, save, 1));
    run_destroy(&r);
}

static void path_in(char out[CHECKPOINT_PATH_MAX], const char *folder, const char *name) {
    mkdir(test_path(folder), 0777);
    snprintf(out, CHECKPOINT_PATH_MAX, "%s/%s", test_path(folder), name);
}

static void export_to(const char *save, const char *path, int64_t shard_bytes) {
    struct checkpoint_reader *r;
    assert_ok(checkpoint_open(save, &r));
    if (!strcmp(checkpoint_model_of(r).arch, "moe")) assert_ok(moe_hf_export(r, N_DTYPES, path));
    else assert_ok(llama_hf_export_sharded(r, N_DTYPES, path, shard_bytes));
    checkpoint_close(&r);
}

static char save[CHECKPOINT_PATH_MAX];
static const char *checkpoint(void) {
    if (!save[0]) {
        snprintf(save, sizeof save, "%s", test_path("trained"));
        make_checkpoint(plan_of(PRECISION_FP64), save);
    }
    return save;
}

TEST(test_out_in_and_out_again_is_the_same_to_the_byte) {
    char first[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX], imported[CHECKPOINT_PATH_MAX];
    struct checkpoint_model m;
    path_in(first, "one", "model.safetensors");
    path_in(again, "again", "model.safetensors");
    snprintf(imported, sizeof imported, "%s", test_path("imported"));
    export_to(checkpoint(), first, 0);
    assert_ok(llama_hf_import(test_path("one"), 0, imported, &m));   /* the folder */
    export_to(imported, again, 0);
    assert_true(test_same_files(first, again));
    assert_string_equal(m.arch, "llama");
    const struct checkpoint_model wanted = {.arch = "llama", .layers = 2, .hidden = 16, .heads = 4, .seq = 8,
                                            .vocab = 131, .untied = 1, .kv_heads = 2, .ffn = 24, .rope_theta = 500,
                                            .more = "norm-eps=0.003"};
    assert_memory_equal(&m.layers, &wanted.layers, sizeof m - offsetof(struct checkpoint_model, layers));
}

static bool has_text(const char *path, const char *text) {
    static char all[1 << 14];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    all[fread(all, 1, sizeof all - 1, f)] = 0;
    fclose(f);
    return strstr(all, text) != NULL;
}

/* Keys have the first half of kv.b. */
static void check_bias_halves(const char *from, const char *path) {
    struct shape kv = {3, {axis_whole('2', 2), axis_whole('J', 2), axis_whole('D', 6)}};
    double whole[24], part[12];
    struct checkpoint_reader *r;
    struct hf_files *f;
    assert_ok(checkpoint_open(from, &r));
    assert_ok(checkpoint_read_weight(r, "h1.kv.b", &kv, FP64, whole));
    assert_ok(hf_files_open(path, &f));
    struct hf_tensor t = hf_files_find(f, "model.layers.1.self_attn.k_proj.bias");
    assert_non_null(t.entry);
    assert_ok(safetensors_read(t.file, t.entry, 0, sizeof part, part));
    assert_memory_equal(part, whole, sizeof part);
    assert_memory_not_equal(part, whole + 12, sizeof part);
    hf_files_close(&f);
    checkpoint_close(&r);
}

/* Each kind of biases, heads of 6 channels, slowed positions: what config.json says is the model again. */
static void check_today(const char *bias, bool mlp_bias, const char *scaling, const char *type, const char *more) {
    char first[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX], config[CHECKPOINT_PATH_MAX], save_to[64];
    struct plan p = plan_of(PRECISION_FP64);
    struct checkpoint_model m;
    static int n;
    model_options(&p)->head_dim = 6;
    plan_set_word(&p, "attention-bias", bias, 0);
    plan_set_number(&p, "mlp-bias", mlp_bias);
    plan_set_word(&p, "rope-scaling", scaling, 0);
    snprintf(save_to, sizeof save_to, "today-%d", n++);
    make_checkpoint(p, test_path(save_to));
    strcat(save_to, "-out"), path_in(first, save_to, "model.safetensors");
    path_in(config, save_to, "config.json");
    strcat(save_to, "-again"), path_in(again, save_to, "model.safetensors");
    snprintf(save_to, sizeof save_to, "today-%d", n - 1);
    export_to(test_path(save_to), first, 0);
    strcat(save_to, "-in");
    assert_ok(llama_hf_import(first, 0, test_path(save_to), &m));
    assert_string_equal(m.arch, "llama");
    assert_int_equal(m.head_dim, 6);
    assert_string_equal(m.more, more);
    export_to(test_path(save_to), again, 0);
    assert_true(test_same_files(first, again));
    assert_true(has_text(config, type));
    if (strcmp(bias, "none") != 0) check_bias_halves(test_path(save_to), first);   /* what was imported */
    struct checkpoint_model of_plan = checkpoint_model_of_plan(&p);
    model_options(&p)->norm_eps = 0.01;
    assert_fails(checkpoint_model_compare(&of_plan, &p, "here"), E_FORMAT, "norm-eps is 0.003 there and 0.01 here");
}

/* Norms of queries and keys: what each model_type has, again. */
static void check_norms(const char *qk, bool post, const char *bias, const char *type, const char *more) {
    char first[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX], config[CHECKPOINT_PATH_MAX];
    struct plan p = plan_of(PRECISION_FP64);
    struct checkpoint_model m;
    plan_set_word(&p, "qk-norm", qk, 0);
    plan_set_number(&p, "post-norm", post);
    plan_set_word(&p, "attention-bias", bias, 0);
    make_checkpoint(p, test_path(qk));
    path_in(first, post ? "post-out" : "pre-out", "model.safetensors");
    path_in(again, post ? "post-again" : "pre-again", "model.safetensors");
    path_in(config, post ? "post-out" : "pre-out", "config.json");
    export_to(test_path(qk), first, 0);
    assert_ok(llama_hf_import(first, 0, test_path(type), &m));
    assert_string_equal(m.more, more);
    export_to(test_path(type), again, 0);
    assert_true(test_same_files(first, again));
    assert_true(has_text(config, type));
    assert_true(has_text(config, post ? "\"attention_bias\": false" : "\"attention_bias\": true"));
}

TEST(test_norms_of_queries_and_keys_go_out_and_in) {
    check_norms("head", false, "all", "qwen3", "norm-eps=0.003 attention-bias=all qk-norm=head");
    check_norms("all", true, "none", "olmo2", "norm-eps=0.003 qk-norm=all post-norm=on");
}

TEST(test_norms_that_no_file_has_are_refused) {
    static const char *const none[] = {"qk-norm=all", "post-norm=on", "qk-norm=head post-norm=on",
                                       "attention-bias=qkv qk-norm=head", "mlp-bias=on qk-norm=head",
                                       "attention-bias=qkv qk-norm=all post-norm=on"};
    struct checkpoint_model m = {.arch = "mixtral", .more = "qk-norm=head"};
    assert_fails(llama_hf_check(&m), E_CONFIG, "qk-norm=head with arch mixtral", "--qk-norm all --post-norm on");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        m = (struct checkpoint_model){.arch = "llama"};
        strcpy(m.more, none[i]);
        assert_fails(llama_hf_check(&m), E_CONFIG, none[i], "--qk-norm head");
    }
}

TEST(test_llamas_of_today_go_out_and_in) {
    check_today("all", true, "llama3:8:16", "\"model_type\": \"llama\"",
                "norm-eps=0.003 rope-scaling=llama3:8:16 attention-bias=all mlp-bias=on");
    check_today("qkv", false, "yarn:4:16:0.5:8:1.2", "\"model_type\": \"qwen2\"",
                "norm-eps=0.003 rope-scaling=yarn:4:16:0.5:8:1.2 attention-bias=qkv");
    check_today("qkv", true, "none", "\"model_type\": \"seed_oss\"", "norm-eps=0.003 attention-bias=qkv mlp-bias=on");
    check_today("none", true, "linear:2.5", "\"rope_type\": \"linear\"",
                "norm-eps=0.003 rope-scaling=linear:2.5 mlp-bias=on");
}

/* A model with a window in all layers is a Mistral's file, and one with it in some a Qwen 2's. */
static void check_windows(const char *arch, const char *bias, const char *layers, const char *type, const char *more) {
    static char first[CHECKPOINT_PATH_MAX], config[CHECKPOINT_PATH_MAX], from[CHECKPOINT_PATH_MAX];
    struct plan p = plan_of(PRECISION_FP64);
    struct checkpoint_model m;
    char folder[32];
    static int n;
    assert_ok(recipe_arch(&p, arch));
    if (!strcmp(arch, "mixtral")) model_options(&p)->experts = 4, model_options(&p)->capacity = 0;
    plan_set_word(&p, "attention-bias", bias, 0);
    plan_set_number(&p, "window", 3);
    plan_set_word(&p, "window-layers", layers, 0);
    snprintf(folder, sizeof folder, "windows-%d", n++);
    snprintf(from, sizeof from, "%s", test_path(folder));
    make_checkpoint(p, from);
    strcat(folder, "-out"), path_in(first, folder, "model.safetensors"), path_in(config, folder, "config.json");
    export_to(from, first, 0);
    strcat(folder, "-in");
    assert_ok(llama_hf_import(first, 0, test_path(folder), &m));
    assert_true(has_text(config, type));
    assert_string_equal(m.arch, arch);
    assert_string_equal(m.more, more);
}

TEST(test_windows_go_out_and_in) {
    check_windows("llama", "none", "s", "\"model_type\": \"mistral\"", "norm-eps=0.003 window=3");
    check_windows("mixtral", "none", "s", "\"model_type\": \"mixtral\"", "norm-eps=0.003 window=3");
    check_windows("llama", "qkv", "s", "\"model_type\": \"qwen2\"", "norm-eps=0.003 attention-bias=qkv window=3");
    check_windows("llama", "qkv", "fs", "\"max_window_layers\": 1",
                  "norm-eps=0.003 attention-bias=qkv window=3 window-layers=fs");
    check_windows("llama", "qkv", "sf", "\"layer_types\"",
                  "norm-eps=0.003 attention-bias=qkv window=3 window-layers=sf");
}

TEST(test_windows_that_no_file_has_are_refused) {
    static const char *const no_file[] = {"window=3 window-layers=sf", "attention-bias=all window=3",
                                          "mlp-bias=on window=3", "qk-norm=all post-norm=on window=3"};
    for (size_t i = 0; i < sizeof no_file / sizeof *no_file; i++) {
        struct checkpoint_model m = {.arch = "llama"};
        snprintf(m.more, sizeof m.more, "%s", no_file[i]);
        assert_fails(llama_hf_check(&m), E_CONFIG, no_file[i], "use --window 0 --window-layers s");
    }
    struct checkpoint_model m = {.arch = "mixtral", .more = "window=3 window-layers=sf"};
    assert_fails(llama_hf_check(&m), E_CONFIG, "use --window 0 --window-layers s");
    m = (struct checkpoint_model){.arch = "mixtral", .experts = 4, .more = "expert-ffn=12"};
    assert_fails(llama_hf_check(&m), E_CONFIG, "expert-ffn=12 with arch mixtral", "use --arch moe");
    m = (struct checkpoint_model){.arch = "moe", .experts = 4, .experts_per_token = 1, .more = "qk-norm=head"};
    assert_fails(llama_hf_check(&m), E_CONFIG, "experts-per-token=1", "have experts-per-token=2");
    m = (struct checkpoint_model){.arch = "llama", .more = "attention-cap=5"};
    assert_fails(llama_hf_check(&m), E_CONFIG, "attention-cap=5", "--attention-cap 0");
    m = (struct checkpoint_model){.arch = "llama", .more = "attention-sinks=on"};
    assert_fails(llama_hf_check(&m), E_CONFIG, "attention-sinks=on", "--attention-sinks off");
}

TEST(test_biases_that_no_file_has_are_refused) {
    struct checkpoint_model m = {.arch = "llama", .more = "attention-bias=qkv mlp-bias=on"};
    assert_ok(llama_hf_check(&m));
    m = (struct checkpoint_model){.arch = "mixtral", .more = "attention-bias=all"};
    assert_fails(llama_hf_check(&m), E_CONFIG, "attention-bias=all with arch mixtral", "--attention-bias none");
}

/* Qwen3-MoE's, in every second layer. */
static void with_narrow_experts(struct plan *p, int64_t units) {
    plan_set_number(p, "expert-ffn", units);
    plan_set_word(p, "expert-layers", "de", 0);
    plan_set_number(p, "router-norm", 0);
    plan_set_word(p, "qk-norm", "head", 0);
}

/* Half `half` of our weight equals their tensor. A round trip would hide exchanged halves. */
static void check_half(const struct hf_files *f, const char *ours, struct shape shape, int half, const char *theirs) {
    struct checkpoint_reader *r;
    struct hf_tensor t = hf_files_find(f, theirs);
    int64_t n = shape_n(&shape) / 2;
    double *whole = malloc((size_t)n * 2 * sizeof *whole), *part = malloc((size_t)n * sizeof *part);
    assert_non_null(t.entry);
    assert_ok(checkpoint_open(checkpoint(), &r));
    assert_ok(checkpoint_read_weight(r, ours, &shape, FP64, whole));
    assert_ok(safetensors_read(t.file, t.entry, 0, n * (int64_t)sizeof *part, part));
    assert_memory_equal(part, whole + half * n, (size_t)n * sizeof *part);
    checkpoint_close(&r);
    free(whole);
    free(part);
}

TEST(test_halves_have_their_names) {
    char path[CHECKPOINT_PATH_MAX];
    struct hf_files *f;
    struct shape kv = {4, {axis_whole('2', 2), axis_whole('J', 2), axis_whole('D', 4), axis_whole('C', 16)}};
    struct shape up = {3, {axis_whole('2', 2), axis_whole('K', 24), axis_whole('C', 16)}};
    path_in(path, "halves", "model.safetensors");
    export_to(checkpoint(), path, 0);
    assert_ok(hf_files_open(path, &f));
    check_half(f, "h1.kv.w", kv, 0, "model.layers.1.self_attn.k_proj.weight");   /* keys, then values */
    check_half(f, "h1.kv.w", kv, 1, "model.layers.1.self_attn.v_proj.weight");
    check_half(f, "h0.up.w", up, 0, "model.layers.0.mlp.gate_proj.weight");      /* SiLU's half, then the other */
    check_half(f, "h0.up.w", up, 1, "model.layers.0.mlp.up_proj.weight");
    hf_files_close(&f);
}

/* halves: of the gate, and of the other half of up. */
static void check_experts(const char *arch, const char *halves[2], const char *more) {
    char path[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX], name[PUBLISHED_NAME_MAX], folder[32];
    struct plan p = plan_of(PRECISION_FP64);
    struct hf_files *f;
    struct checkpoint_reader *r;
    struct checkpoint_model m;
    enum { E = 4, F = 12, C = 16 };
    struct shape up = {4, {axis_whole('E', E), axis_whole('2', 2), axis_whole('F', F), axis_whole('C', C)}};
    static double all[E * 2 * F * C], one[F * C];
    assert_ok(recipe_arch(&p, arch));
    model_options(&p)->experts = E, model_options(&p)->experts_per_token = 2, model_options(&p)->capacity = 0;
    if (strcmp(arch, "moe")) model_options(&p)->ffn = F;
    else with_narrow_experts(&p, F);
    snprintf(folder, sizeof folder, "%s-experts", arch);
    make_checkpoint(p, test_path(folder));
    path_in(path, arch, "model.safetensors");
    export_to(test_path(folder), path, 0);
    assert_ok(checkpoint_open(test_path(folder), &r));
    strcat(folder, "-in"), path_in(again, folder, "model.safetensors"), strcat(folder, "ed");
    assert_ok((strcmp(arch, "moe") ? llama_hf_import : moe_hf_import)(path, 0, test_path(folder), &m));
    assert_string_equal(m.arch, arch);
    assert_string_equal(m.more, more);
    export_to(test_path(folder), again, 0);
    assert_true(test_same_files(path, again));
    assert_ok(checkpoint_read_weight(r, "h1.experts.up.w", &up, FP64, all));
    assert_ok(hf_files_open(path, &f));
    for (int i = 0; i < 2 * E; i++) {
        published_name(halves[i % 2], 1, i / 2, name);
        struct hf_tensor t = hf_files_find(f, name);
        assert_non_null(t.entry);
        assert_ok(safetensors_read(t.file, t.entry, 0, sizeof one, one));
        assert_memory_equal(one, all + i * F * C, sizeof one);
    }
    hf_files_close(&f);
    checkpoint_close(&r);
}

TEST(test_experts_have_their_names) {
#define MLP "model.layers.1.mlp.experts.%e"
    check_experts("mixtral", (const char *[]){"model.layers.1.block_sparse_moe.experts.%e.w1.weight",
                                              "model.layers.1.block_sparse_moe.experts.%e.w3.weight"},
                  "norm-eps=0.003");
    check_experts("moe", (const char *[]){MLP ".gate_proj.weight", MLP ".up_proj.weight"},
                  "norm-eps=0.003 qk-norm=head expert-ffn=12 expert-layers=de router-norm=off");
}

/* transformers 5 keeps the experts of a layer in one tensor, and may write it so. */
TEST(test_experts_in_one_tensor_are_read) {
    static struct published fused[128];
    char whole[CHECKPOINT_PATH_MAX], first[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX];
    struct plan p = plan_of(PRECISION_FP64);
    struct checkpoint_reader *r;
    struct checkpoint_model m;
    struct hf_files *f;
    int n = 0;
    for (const struct published *row = llama_fused; row->ours; row++) fused[n++] = *row;
    for (const struct published *row = moe_published; row->ours; row++) fused[n++] = *row;
    const struct hf_weights kind = {.names = fused, .model = &model_llama, .config_write = llama_hf_config_write,
                                    .check = llama_hf_check};
    assert_ok(recipe_arch(&p, "moe"));
    model_options(&p)->experts = 4, model_options(&p)->capacity = 0;
    with_narrow_experts(&p, 12);
    make_checkpoint(p, test_path("fused"));
    path_in(whole, "fused-whole", "model.safetensors");
    path_in(first, "fused-first", "model.safetensors");
    path_in(again, "fused-again", "model.safetensors");
    assert_ok(checkpoint_open(test_path("fused"), &r));
    assert_ok(hf_weights_export(&kind, r, N_DTYPES, whole, 0));
    checkpoint_close(&r);
    export_to(test_path("fused"), first, 0);
    assert_ok(hf_files_open(whole, &f));
    const struct safetensors_entry *e = hf_files_find(f, "model.layers.1.mlp.experts.gate_up_proj").entry;
    assert_true(e && e->n_axes == 3 && e->shape[0] == 4 && e->shape[1] == 2 * 12 && e->shape[2] == 16);
    hf_files_close(&f);
    assert_ok(moe_hf_import(whole, 0, test_path("fused-imported"), &m));
    export_to(test_path("fused-imported"), again, 0);
    assert_true(test_same_files(first, again));
}

/* With at most 20000 bytes per file: the table alone, 131 x 16 doubles, has nearly that. */
TEST(test_several_files_hold_the_same) {
    char several[CHECKPOINT_PATH_MAX], first[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX];
    struct checkpoint_model m;
    struct hf_files *f;
    path_in(first, "single", "model.safetensors");
    path_in(several, "several", "model.safetensors");
    path_in(again, "joined", "model.safetensors");
    export_to(checkpoint(), first, 0);
    export_to(checkpoint(), several, 20000);
    assert_int_equal(access(several, F_OK), -1);
    strcat(several, ".index.json");
    assert_ok(hf_files_open(several, &f));
    assert_int_equal(hf_files_n(f), 2 * 9 + 3);
    assert_non_null(hf_files_find(f, "model.layers.1.self_attn.v_proj.weight").entry);
    assert_ptr_not_equal(hf_files_find(f, "model.embed_tokens.weight").file, hf_files_find(f, "lm_head.weight").file);
    hf_files_close(&f);
    assert_ok(llama_hf_import(test_path("several"), 0, test_path("from-several"), &m));
    export_to(test_path("from-several"), again, 0);
    assert_true(test_same_files(first, again));
}

/* ---- what is refused ---- */

static void write_config(const char *folder, const char *more) {
    char path[CHECKPOINT_PATH_MAX];
    path_in(path, folder, "config.json");
    FILE *f = fopen(path, "w");
    fprintf(f, "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
               "\"max_position_embeddings\": 8, \"vocab_size\": 131, %s}", more);
    fclose(f);
}

static enum status import_with(const char *config) {
    char path[CHECKPOINT_PATH_MAX];
    static int n;
    char folder[32];
    struct checkpoint_model m;
    path_in(path, "refused", "model.safetensors");
    if (access(path, F_OK) != 0) export_to(checkpoint(), path, 0);
    write_config("refused", config);
    snprintf(folder, sizeof folder, "refused-%d", n++);
    return llama_hf_import(path, 0, test_path(folder), &m);
}

TEST(test_other_functions_are_refused) {
#define GOOD "\"rms_norm_eps\": 1e-5, \"rope_theta\": 500, \"num_key_value_heads\": 2, \"intermediate_size\": 24"
    assert_ok(import_with(GOOD));
    assert_ok(import_with("\"rms_norm_eps\": 1e-5, "
                          "\"rope_parameters\": {\"rope_theta\": 500, \"rope_type\": \"default\"},"
                          " \"num_key_value_heads\": 2, \"intermediate_size\": 24"));
    assert_fails(import_with(GOOD ", \"rope_scaling\": {\"factor\": 8}"), E_FORMAT, "config.json", "rope_scaling");
    assert_fails(import_with(GOOD ", \"rope_parameters\": {\"rope_type\": \"longrope\"}"), E_FORMAT,
                 "rope_type is \"longrope\"", "linear, llama3 or yarn");
    assert_fails(import_with(GOOD ", \"attention_bias\": true"), E_FORMAT, "0.self_attn.q_proj.bias is missing");
    assert_fails(import_with(GOOD ", \"mlp_bias\": true"), E_FORMAT, "0.mlp.gate_proj.bias is missing");
    assert_fails(import_with(GOOD ", \"hidden_act\": \"gelu\""), E_FORMAT, "gelu", "silu");
    assert_fails(import_with(GOOD ", \"head_dim\": 8"), E_FORMAT, "q_proj.weight is 16, not 32");
    assert_fails(import_with("\"rope_theta\": 500, \"intermediate_size\": 24, \"rms_norm_eps\": 0"), E_FORMAT,
                 "rms_norm_eps is 0", "above 0");
    assert_fails(import_with("\"rms_norm_eps\": 1e-5, \"intermediate_size\": 25, \"num_key_value_heads\": 2"), E_FORMAT,
                 "gate_proj", "24, not 25");
    assert_fails(import_with("\"rms_norm_eps\": 1e-5, \"num_key_value_heads\": 3, \"intermediate_size\": 24"), E_FORMAT,
                 "kv-heads=3", "heads=4");
    assert_fails(import_with("\"rms_norm_eps\": 1e-5"), E_FORMAT, "does not say intermediate_size");
    assert_fails(import_with(GOOD ", \"tie_word_embeddings\": true"), E_FORMAT, "lm_head.weight is not",
                 "tie_word_embeddings");
}

TEST(test_files_that_are_not_there_are_named) {
    char path[CHECKPOINT_PATH_MAX];
    struct checkpoint_model m;
    path_in(path, "empty", "model.safetensors");
    assert_fails(llama_hf_import(path, 0, test_path("never"), &m), E_DATA, "empty/model.safetensors");
    export_to(checkpoint(), path, 0);
    unlink((strcpy(strrchr(path, '/'), "/config.json"), path));
    assert_fails(llama_hf_import(test_path("empty"), 0, test_path("never"), &m), E_DATA, "empty/config.json");
    assert_fails(llama_hf_import(path, 4, test_path("never"), &m), E_USAGE, "heads=4");
    FILE *f = fopen((strcpy(strrchr(path, '/'), "/x.index.json"), path), "w");
    fprintf(f, "{\"weight_map\": {\"a\": \"../outside.safetensors\"}}");
    fclose(f);
    assert_fails(llama_hf_import(path, 0, test_path("never"), &m), E_FORMAT, "../outside", "own folder");
}

TEST(test_a_checkpoint_of_gpt_is_no_llama) {
    struct run r;
    struct plan p = parity_plan();
    struct checkpoint_reader *reader;
    memset(&r, 0, sizeof r);
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_create(&r, &train_recipe, &p, WATCH_NOTHING));
    assert_ok(checkpoint_save(&r, test_path("gpt"), 1));
    run_destroy(&r);
    assert_ok(checkpoint_open(test_path("gpt"), &reader));
    assert_fails(llama_hf_export(reader, N_DTYPES, test_path("gpt.safetensors")), E_CONFIG, "is of gpt");
    checkpoint_close(&reader);
    char step[CHECKPOINT_PATH_MAX];
    struct checkpoint_model m;
    assert_ok(checkpoint_resolve(test_path("gpt"), step));
    assert_ok(checkpoint_model(step, &m));
    p = plan_of(PRECISION_FP64);
    assert_fails(checkpoint_model_compare(&m, &p, step), E_FORMAT, "arch is gpt there and llama here");
}

TESTS(unit_test(test_out_in_and_out_again_is_the_same_to_the_byte), unit_test(test_llamas_of_today_go_out_and_in),
      unit_test(test_norms_of_queries_and_keys_go_out_and_in), unit_test(test_norms_that_no_file_has_are_refused),
      unit_test(test_windows_go_out_and_in),
      unit_test(test_windows_that_no_file_has_are_refused),
      unit_test(test_biases_that_no_file_has_are_refused), unit_test(test_several_files_hold_the_same),
      unit_test(test_halves_have_their_names), unit_test(test_experts_have_their_names),
      unit_test(test_experts_in_one_tensor_are_read),
      unit_test(test_other_functions_are_refused), unit_test(test_files_that_are_not_there_are_named),
      unit_test(test_a_checkpoint_of_gpt_is_no_llama))

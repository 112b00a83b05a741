/* ranks: 1  device: cpu
 *
 * config.json, read by a table for each model: whole published files, and keys that change the numbers.
 * tests/hf_variants.sh compares every key with transformers. And the meaning of a folder. */
#include "lib/checkpoint/hf_files.h"
#include "models/bert/bert_hf.h"
#include "models/gpt/gpt_hf.h"
#include "models/llama/llama.h"
#include "models/llama/llama_hf.h"
#include "models/t5/t5_hf.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum status read_config(const char *path, struct checkpoint_model *out);

static enum status read_text(read_config *read, const char *text, struct checkpoint_model *out) {
    const char *path = test_path("config.json");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return read(path, out);
}

/* ---- published ---- */

static void check_published(read_config *read, const char *text, struct checkpoint_model wanted) {
    struct checkpoint_model m;
    test_stderr_keep();
    enum status status = read_text(read, text, &m);
    const char *said = test_stderr_text();
    assert_ok(status);
    assert_null(strstr(said, "not read"));
    assert_string_equal(m.arch, wanted.arch);
    assert_memory_equal(&m.layers, &wanted.layers, sizeof m - offsetof(struct checkpoint_model, layers));
}

#define LLAMA "\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"hidden_act\": \"silu\", " \
    "\"initializer_range\": 0.02, \"model_type\": \"llama\", \"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05, " \
    "\"rope_scaling\": null, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", \"use_cache\": true, "

#define LLAMA_3_2 "\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"attention_dropout\": 0.0, " \
    "\"bos_token_id\": 128000, \"eos_token_id\": 128001, \"head_dim\": 64, \"hidden_act\": \"silu\", " \
    "\"hidden_size\": 2048, \"initializer_range\": 0.02, \"intermediate_size\": 8192, " \
    "\"max_position_embeddings\": 131072, \"mlp_bias\": false, \"model_type\": \"llama\", " \
    "\"num_attention_heads\": 32, \"num_hidden_layers\": 16, \"num_key_value_heads\": 8, \"pretraining_tp\": 1, " \
    "\"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"factor\": 32.0, \"high_freq_factor\": 4.0, " \
    "\"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}, " \
    "\"rope_theta\": 500000.0, \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", " \
    "\"transformers_version\": \"4.45.0.dev0\", \"use_cache\": true, \"vocab_size\": 128256"

/* What a key's absence means in one family, and not in another. */
#define SIZES_OF(type) "{\"model_type\": \"" type "\", \"num_hidden_layers\": 2, \"hidden_size\": 1024, " \
    "\"num_attention_heads\": 16, \"num_key_value_heads\": 8, \"intermediate_size\": 96, " \
    "\"max_position_embeddings\": 32, \"vocab_size\": 250"

TEST(test_families_of_llama_differ) {
    struct checkpoint_model m;
    assert_ok(read_text(llama_hf_config_read, SIZES_OF("qwen3") "}", &m));
    assert_int_equal(m.head_dim, 128);
    assert_ok(read_text(llama_hf_config_read, SIZES_OF("qwen2") "}", &m));
    assert_int_equal(m.head_dim, 0);
    assert_ok(read_text(llama_hf_config_read, SIZES_OF("llama") ", \"head_dim\": null}", &m));
    assert_int_equal(m.head_dim, 0);
    assert_fails(read_text(llama_hf_config_read, SIZES_OF("qwen2") ", \"head_dim\": null}", &m), E_FORMAT,
                 "head_dim is null");
    assert_fails(read_text(llama_hf_config_read, SIZES_OF("olmo2") ", \"head_dim\": null}", &m), E_FORMAT,
                 "head_dim is null");
    assert_fails(read_text(llama_hf_config_read, SIZES_OF("olmo2") ", \"attention_bias\": true}", &m), E_FORMAT,
                 "attention_bias is true", "has false");
    assert_fails(read_text(llama_hf_config_read, SIZES_OF("olmo2") ", \"sliding_window\": 4}", &m), E_FORMAT,
                 "sliding_window is 4", "olmo2 has none");
    assert_ok(read_text(llama_hf_config_read, SIZES_OF("seed_oss") "}", &m));
    assert_int_equal(m.head_dim, 128);
    assert_string_equal(m.more, "norm-eps=1e-06 attention-bias=qkv");
    assert_ok(read_text(llama_hf_config_read, SIZES_OF("seed_oss") ", \"attention_bias\": false, \"mlp_bias\": true}",
                        &m));
    assert_string_equal(m.more, "norm-eps=1e-06 mlp-bias=on");
    assert_fails(read_text(llama_hf_config_read, SIZES_OF("seed_oss") ", \"attention_out_bias\": true}", &m), E_FORMAT,
                 "attention_out_bias is true", "seed_oss has false");
}

TEST(test_published_files_are_read_whole) {
    check_published(gpt_hf_config_read, "{\"activation_function\": \"gelu_new\", \"architectures\": "
        "[\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1, \"bos_token_id\": 50256, \"embd_pdrop\": 0.1, \"eos_token_id\": "
        "50256, \"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\", \"n_ctx\": 1024, "
        "\"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_positions\": 1024, \"resid_pdrop\": 0.1, "
        "\"summary_activation\": null, \"summary_first_dropout\": 0.1, \"summary_proj_to_labels\": true, "
        "\"summary_type\": \"cls_index\", \"summary_use_proj\": true, \"task_specific_params\": "
        "{\"text-generation\": {\"do_sample\": true, \"max_length\": 50}}, \"vocab_size\": 50257}",
        (struct checkpoint_model){.layers = 12, .hidden = 768, .heads = 12, .seq = 1024, .vocab = 50257});
    check_published(llama_hf_config_read, "{" LLAMA "\"attention_dropout\": 0.0, \"bos_token_id\": 128000, "
        "\"eos_token_id\": 128001, \"hidden_size\": 4096, \"intermediate_size\": 14336, \"max_position_embeddings\": "
        "8192, \"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, \"rope_theta\": "
        "500000.0, \"transformers_version\": \"4.40.0.dev0\", \"vocab_size\": 128256}",    /* Llama 3 8B */
        (struct checkpoint_model){.arch = "llama", .layers = 32, .hidden = 4096, .heads = 32, .seq = 8192,
                                  .vocab = 128256, .untied = 1, .kv_heads = 8, .ffn = 14336, .rope_theta = 500000});
    check_published(llama_hf_config_read, "{" LLAMA "\"bos_token_id\": 1, \"eos_token_id\": 2, \"hidden_size\": 2048, "
        "\"intermediate_size\": 5632, \"max_position_embeddings\": 2048, \"num_attention_heads\": 32, "
        "\"num_hidden_layers\": 22, \"num_key_value_heads\": 4, \"rope_theta\": 10000.0, \"transformers_version\": "
        "\"4.35.0\", \"vocab_size\": 32000}",                                                /* TinyLlama */
        (struct checkpoint_model){.arch = "llama", .layers = 22, .hidden = 2048, .heads = 32, .seq = 2048,
                                  .vocab = 32000, .untied = 1, .kv_heads = 4, .ffn = 5632});
    check_published(llama_hf_config_read, "{" LLAMA_3_2 "}",
        (struct checkpoint_model){.arch = "llama", .layers = 16, .hidden = 2048, .heads = 32, .seq = 131072,
                                  .vocab = 128256, .kv_heads = 8, .ffn = 0, .rope_theta = 500000,
                                  .more = "rope-scaling=llama3:32:8192"});
    check_published(llama_hf_config_read, "{\"architectures\": [\"Qwen2ForCausalLM\"], \"attention_dropout\": 0.0, "
        "\"bos_token_id\": 151643, \"eos_token_id\": 151643, \"hidden_act\": \"silu\", \"hidden_size\": 896, "
        "\"initializer_range\": 0.02, \"intermediate_size\": 4864, \"max_position_embeddings\": 32768, "
        "\"max_window_layers\": 24, \"model_type\": \"qwen2\", \"num_attention_heads\": 14, \"num_hidden_layers\": 24, "
        "\"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, \"sliding_window\": 32768, "
        "\"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", \"transformers_version\": \"4.40.1\", "
        "\"use_cache\": true, \"use_sliding_window\": false, \"vocab_size\": 151936}",
        (struct checkpoint_model){.arch = "llama", .layers = 24, .hidden = 896, .heads = 14, .seq = 32768,
                                  .vocab = 151936, .kv_heads = 2, .ffn = 4864, .rope_theta = 1000000,
                                  .more = "norm-eps=1e-06 attention-bias=qkv"});
    check_published(llama_hf_config_read, "{\"architectures\": [\"Qwen3ForCausalLM\"], \"attention_bias\": false, "
        "\"attention_dropout\": 0.0, \"bos_token_id\": 151643, \"eos_token_id\": 151645, \"head_dim\": 128, "
        "\"hidden_act\": \"silu\", \"hidden_size\": 1024, \"initializer_range\": 0.02, \"intermediate_size\": 3072, "
        "\"max_position_embeddings\": 40960, \"max_window_layers\": 28, \"model_type\": \"qwen3\", "
        "\"num_attention_heads\": 16, \"num_hidden_layers\": 28, \"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-06, "
        "\"rope_scaling\": null, \"rope_theta\": 1000000, \"sliding_window\": null, \"tie_word_embeddings\": true, "
        "\"torch_dtype\": \"bfloat16\", \"transformers_version\": \"4.51.0\", \"use_cache\": true, "
        "\"use_sliding_window\": false, \"vocab_size\": 151936}",                        /* Qwen3-0.6B */
        (struct checkpoint_model){.arch = "llama", .layers = 28, .hidden = 1024, .heads = 16, .seq = 40960,
                                  .vocab = 151936, .kv_heads = 8, .ffn = 3072, .rope_theta = 1000000, .head_dim = 128,
                                  .more = "norm-eps=1e-06 qk-norm=head"});
    check_published(llama_hf_config_read, "{\"architectures\": [\"Olmo2ForCausalLM\"], \"attention_bias\": false, "
        "\"attention_dropout\": 0.0, \"eos_token_id\": 100257, \"hidden_act\": \"silu\", \"hidden_size\": 4096, "
        "\"initializer_range\": 0.02, \"intermediate_size\": 11008, \"max_position_embeddings\": 4096, "
        "\"model_type\": \"olmo2\", \"num_attention_heads\": 32, \"num_hidden_layers\": 32, "
        "\"num_key_value_heads\": 32, \"pad_token_id\": 100277, \"rms_norm_eps\": 1e-06, \"rope_scaling\": null, "
        "\"rope_theta\": 500000, \"tie_word_embeddings\": false, \"torch_dtype\": \"float32\", "
        "\"transformers_version\": \"4.47.0\", \"use_cache\": false, \"vocab_size\": 100352}",    /* OLMo 2 7B */
        (struct checkpoint_model){.arch = "llama", .layers = 32, .hidden = 4096, .heads = 32, .seq = 4096,
                                  .vocab = 100352, .untied = 1, .ffn = 11008, .rope_theta = 500000,
                                  .more = "norm-eps=1e-06 qk-norm=all post-norm=on"});
    check_published(llama_hf_config_read, "{\"architectures\": [\"SeedOssForCausalLM\"], \"attention_bias\": true, "
        "\"attention_dropout\": 0.1, \"attention_out_bias\": false, \"bos_token_id\": 0, \"eos_token_id\": 2, "
        "\"head_dim\": 128, \"hidden_act\": \"silu\", \"hidden_size\": 5120, \"initializer_range\": 0.02, "
        "\"intermediate_size\": 27648, \"max_position_embeddings\": 524288, \"mlp_bias\": false, \"model_type\": "
        "\"seed_oss\", \"num_attention_heads\": 80, \"num_hidden_layers\": 64, \"num_key_value_heads\": 8, "
        "\"pad_token_id\": 1, \"residual_dropout\": 0.1, \"rms_norm_eps\": 1e-06, \"rope_scaling\": {\"rope_type\": "
        "\"default\"}, \"rope_theta\": 10000000.0, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", "
        "\"transformers_version\": \"4.55.0\", \"use_cache\": true, \"vocab_size\": 155136}", /* Seed-OSS 36B */
        (struct checkpoint_model){.arch = "llama", .layers = 64, .hidden = 5120, .heads = 80, .seq = 524288,
                                  .vocab = 155136, .untied = 1, .kv_heads = 8, .ffn = 27648, .rope_theta = 10000000,
                                  .head_dim = 128, .more = "norm-eps=1e-06 attention-bias=qkv"});
    check_published(llama_hf_config_read, "{\"architectures\": [\"MistralForCausalLM\"], \"attention_dropout\": 0.0, "
        "\"bos_token_id\": 1, \"eos_token_id\": 2, \"head_dim\": 128, \"hidden_act\": \"silu\", \"hidden_size\": 5120, "
        "\"initializer_range\": 0.02, \"intermediate_size\": 14336, \"max_position_embeddings\": 131072, "
        "\"model_type\": \"mistral\", \"num_attention_heads\": 32, \"num_hidden_layers\": 40, "
        "\"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000.0, \"sliding_window\": null, "
        "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", \"transformers_version\": \"4.43.0.dev0\", "
        "\"use_cache\": true, \"vocab_size\": 131072}",                                    /* Mistral NeMo */
        (struct checkpoint_model){.arch = "llama", .layers = 40, .hidden = 5120, .heads = 32, .seq = 131072,
                                  .vocab = 131072, .untied = 1, .kv_heads = 8, .ffn = 14336, .rope_theta = 1000000,
                                  .head_dim = 128});
    check_published(llama_hf_config_read, "{\"architectures\": [\"MixtralForCausalLM\"], \"attention_dropout\": 0.0, "
        "\"bos_token_id\": 1, \"eos_token_id\": 2, \"hidden_act\": \"silu\", \"hidden_size\": 4096, "
        "\"initializer_range\": 0.02, \"intermediate_size\": 14336, \"max_position_embeddings\": 32768, "
        "\"model_type\": \"mixtral\", \"num_attention_heads\": 32, \"num_experts_per_tok\": 2, "
        "\"num_hidden_layers\": 32, \"num_key_value_heads\": 8, \"num_local_experts\": 8, \"output_router_logits\": "
        "false, \"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000.0, \"router_aux_loss_coef\": 0.02, "
        "\"sliding_window\": null, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", "
        "\"transformers_version\": \"4.36.0.dev0\", \"use_cache\": true, \"vocab_size\": 32000}",
        (struct checkpoint_model){.arch = "mixtral", .layers = 32, .hidden = 4096, .heads = 32, .seq = 32768,
                                  .vocab = 32000, .untied = 1, .kv_heads = 8, .ffn = 14336, .rope_theta = 1000000,
                                  .experts = 8, .experts_per_token = 2, .dropless = 1});
    check_published(llama_hf_config_read, "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"attention_bias\": false, "
        "\"attention_dropout\": 0.0, \"bos_token_id\": 151643, \"decoder_sparse_step\": 1, \"eos_token_id\": 151645, "
        "\"head_dim\": 128, \"hidden_act\": \"silu\", \"hidden_size\": 2048, \"initializer_range\": 0.02, "
        "\"intermediate_size\": 6144, \"max_position_embeddings\": 40960, \"max_window_layers\": 48, "
        "\"mlp_only_layers\": [], \"model_type\": \"qwen3_moe\", \"moe_intermediate_size\": 768, "
        "\"norm_topk_prob\": true, \"num_attention_heads\": 32, \"num_experts\": 128, \"num_experts_per_tok\": 8, "
        "\"num_hidden_layers\": 48, \"num_key_value_heads\": 4, \"output_router_logits\": false, "
        "\"rms_norm_eps\": 1e-06, \"rope_scaling\": null, \"rope_theta\": 1000000.0, \"router_aux_loss_coef\": 0.001, "
        "\"sliding_window\": null, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", "
        "\"transformers_version\": \"4.51.0\", \"use_cache\": true, \"use_sliding_window\": false, "
        "\"vocab_size\": 151936}",                                                     /* Qwen3-30B-A3B */
        (struct checkpoint_model){.arch = "moe", .layers = 48, .hidden = 2048, .heads = 32, .seq = 40960,
                                  .vocab = 151936, .untied = 1, .kv_heads = 4, .ffn = 6144, .rope_theta = 1000000,
                                  .experts = 128, .experts_per_token = 8, .dropless = 1, .head_dim = 128,
                                  .more = "norm-eps=1e-06 qk-norm=head expert-ffn=768"});
    check_published(bert_hf_config_read, "{\"architectures\": [\"BertForMaskedLM\"], \"attention_probs_dropout_prob\": "
        "0.1, \"gradient_checkpointing\": false, \"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.1, "
        "\"hidden_size\": 768, \"initializer_range\": 0.02, \"intermediate_size\": 3072, \"layer_norm_eps\": 1e-12, "
        "\"max_position_embeddings\": 512, \"model_type\": \"bert\", \"num_attention_heads\": 12, "
        "\"num_hidden_layers\": 12, \"pad_token_id\": 0, \"position_embedding_type\": \"absolute\", "
        "\"transformers_version\": \"4.6.0.dev0\", \"type_vocab_size\": 2, \"use_cache\": true, \"vocab_size\": 30522}",
        (struct checkpoint_model){.arch = "bert", .layers = 12, .hidden = 768, .heads = 12, .seq = 512,
                                  .vocab = 30522});
    check_published(t5_hf_config_read, "{\"architectures\": [\"T5ForConditionalGeneration\"], \"d_ff\": 2048, "
        "\"d_kv\": 64, \"d_model\": 512, \"decoder_start_token_id\": 0, \"dropout_rate\": 0.1, \"eos_token_id\": 1, "
        "\"initializer_factor\": 1.0, \"is_encoder_decoder\": true, \"layer_norm_epsilon\": 1e-06, \"model_type\": "
        "\"t5\", \"n_positions\": 512, \"num_heads\": 8, \"num_layers\": 6, \"output_past\": true, "
        "\"pad_token_id\": 0, \"relative_attention_num_buckets\": 32, \"task_specific_params\": "
        "{\"summarization\": {\"max_length\": 200, "
        "\"prefix\": \"summarize: \"}}, \"vocab_size\": 32128}",
        (struct checkpoint_model){.arch = "t5", .layers = 12, .hidden = 512, .heads = 8, .seq = 512, .vocab = 32128});
}

/* ---- keys that change the numbers ---- */

#define SIZES "{\"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 131, " \
    "\"max_position_embeddings\": 8, \"intermediate_size\": 24, "
#define OF_LLAMA SIZES "\"model_type\": \"llama\", \"rms_norm_eps\": 1e-5"
#define OF_MIXTRAL SIZES "\"model_type\": \"mixtral\", \"num_key_value_heads\": 2, \"num_local_experts\": 4"
#define OF_QWEN3_MOE SIZES "\"model_type\": \"qwen3_moe\", \"num_key_value_heads\": 2, \"num_experts\": 4"
#define OF_WIDTH ", \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 12"
#define OF_MISTRAL SIZES "\"model_type\": \"mistral\", \"num_key_value_heads\": 2"
#define OF_QWEN2 SIZES "\"model_type\": \"qwen2\", \"num_key_value_heads\": 2"
#define OF_GPT_OSS SIZES "\"model_type\": \"gpt_oss\", \"num_key_value_heads\": 2"
#define OF_BERT SIZES "\"model_type\": \"bert\""
#define OF_T5 "{\"model_type\": \"t5\", \"d_model\": 16, \"num_heads\": 4, \"d_kv\": 4, \"d_ff\": 24, \"vocab_size\": 9"
#define T5_OF_2 OF_T5 ", \"num_layers\": 2"
#define OF_GPT2 "{\"n_layer\": 2, \"n_embd\": 24, \"n_positions\": 8, \"vocab_size\": 131"

static struct checkpoint_model model_of(read_config *read, const char *text) {
    struct checkpoint_model m;
    assert_ok(read_text(read, text, &m));
    return m;
}

/* Latents: channels of a key are its two kinds together; the queries' own latent may be null. */
#define DENSE "\"first_k_dense_replace\": 2, \"num_key_value_heads\": 4"
#define OF_V3 SIZES "\"model_type\": \"deepseek_v3\", \"num_key_value_heads\": 4"
TEST(test_latents_are_those_of_the_reference) {
    const struct { const char *text, *more; int64_t head_dim; } cases[] = {
        {SIZES "\"model_type\": \"deepseek_v2\", " DENSE "}", "norm-eps=1e-06 kv-lora-rank=512 q-lora-rank=1536 "
         "rope-head-dim=64 v-head-dim=128 rope-interleave=on", 192},
        {SIZES "\"model_type\": \"deepseek_v2\", \"q_lora_rank\": null, \"kv_lora_rank\": 8, \"v_head_dim\": 6, "
         "\"qk_nope_head_dim\": 5, \"qk_rope_head_dim\": 4, \"head_dim\": 4, \"mlp_bias\": true, " DENSE "}",
         "norm-eps=1e-06 mlp-bias=on kv-lora-rank=8 rope-head-dim=4 v-head-dim=6 rope-interleave=on", 9},
        {OF_V3 ", \"first_k_dense_replace\": 3, \"rope_interleave\": false, \"rope_scaling\": {\"type\": \"yarn\", "
         "\"factor\": 40, \"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 4096}}",
         "norm-eps=1e-06 rope-scaling=yarn:40:4096:1:32:1 kv-lora-rank=512 q-lora-rank=1536 rope-head-dim=64 "
         "v-head-dim=128 mscale-all-dim=1", 192}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkpoint_model m = model_of(llama_hf_config_read, cases[i].text);
        assert_string_equal(m.more, cases[i].more);
        assert_int_equal(m.head_dim, cases[i].head_dim);
        assert_int_equal(m.kv_heads, 0);
    }
    const struct { const char *more, *says; } refused[] = {
        {", \"num_experts_per_tok\": 300}", "num_experts_per_tok=300"},
        {", \"first_k_dense_replace\": null}", "it must be a whole"},
        {", \"first_k_dense_replace\": 4, \"head_dim\": 8}", "head_dim is 8"},
        {", \"first_k_dense_replace\": 4, \"v_head_dim\": 193}", "more than the 192 channels"},
        {", \"first_k_dense_replace\": 4, \"attention_bias\": true}", "attention_bias is true"},
        {", \"first_k_dense_replace\": 4, \"q_lora_rank\": 0}", "q_lora_rank is 0"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char text[1024];
        struct checkpoint_model m;
        snprintf(text, sizeof text, OF_V3 "%s", refused[i].more);
        *(strstr(text, "layers\": 2") + 9) = '4';
        assert_fails(read_text(llama_hf_config_read, text, &m), E_FORMAT, refused[i].says);
    }
    struct checkpoint_model m;
    assert_fails(read_text(llama_hf_config_read, SIZES "\"model_type\": \"deepseek_v3\", \"num_key_value_heads\": 2, "
                           "\"first_k_dense_replace\": 2}", &m), E_FORMAT, "num_key_value_heads is 2 of 4 heads");
}

/* A model of latents goes out as one of V3, or of V2 if its MLP has biases; and only without windows. */
TEST(test_models_of_latents_that_no_file_has_are_refused) {
    const struct { const char *more, *type; } cases[] = {
        {"kv-lora-rank=8 rope-head-dim=4 v-head-dim=6 rope-interleave=on", "\"deepseek_v3\""},
        {"kv-lora-rank=8 rope-head-dim=4 v-head-dim=6", "\"deepseek_v3\""},
        {"rope-scaling=yarn:4:16 kv-lora-rank=8 rope-head-dim=4 mscale-all-dim=0.5", "\"mscale_all_dim\": 0.5"},
        {"mlp-bias=on kv-lora-rank=8 rope-head-dim=4 rope-interleave=on", "\"deepseek_v2\""}};
    static const char *const none[] = {"window=3 kv-lora-rank=8 rope-head-dim=4", "rope-interleave=on",
                                       "mlp-bias=on kv-lora-rank=8 rope-head-dim=4",
                                       "attention-sinks=on kv-lora-rank=8"};
    struct checkpoint_model m = {.arch = "llama", .layers = 2, .hidden = 16, .heads = 4, .seq = 8, .vocab = 9,
                                 .head_dim = 10, .untied = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096];
        snprintf(m.more, sizeof m.more, "%s", cases[i].more);
        assert_ok(llama_hf_check(&m));
        assert_ok(llama_hf_config_write(test_path("config.json"), &m, FP32));
        FILE *f = fopen(test_path("config.json"), "r");
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        fclose(f);
        assert_non_null(strstr(text, cases[i].type));
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        snprintf(m.more, sizeof m.more, "%s", none[i]);
        assert_fails(llama_hf_check(&m), E_CONFIG, i == 3 ? "attention-sinks" : "latent attention");
    }
}

/* Windows of all layers, of those from one on, of those that layer_types names; and of none. */
TEST(test_windows_are_those_of_the_reference) {
    const struct { const char *text, *more; } cases[] = {
        {OF_MISTRAL "}", "window=4096"},
        {OF_MISTRAL ", \"sliding_window\": 4}", "window=4"},
        {OF_MISTRAL ", \"sliding_window\": null}", ""},
        {OF_MIXTRAL ", \"sliding_window\": 4}", "window=4"},
        {OF_MIXTRAL "}", ""},
        {OF_QWEN2 ", \"use_sliding_window\": true, \"max_window_layers\": 1}", "window=4096 window-layers=fs"},
        {OF_QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": 4, \"max_window_layers\": 0}", "window=4"},
        {OF_QWEN2 ", \"use_sliding_window\": true}", ""},              /* from layer 28 on */
        {OF_QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": null, \"max_window_layers\": 0}", ""},
        {OF_QWEN2 ", \"sliding_window\": 4, \"max_window_layers\": 0}", ""},
        {OF_QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": 4, \"max_window_layers\": 0, \"layer_types\": "
         "[\"sliding_attention\", \"full_attention\"]}", "window=4 window-layers=sf"},
        {OF_QWEN2 ", \"use_sliding_window\": true, \"sliding_window\": 4, \"layer_types\": "
         "[\"full_attention\", \"full_attention\"]}", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[MODEL_MORE_MAX];
        snprintf(more, sizeof more, "%s", model_of(llama_hf_config_read, cases[i].text).more);
        const char *found = strstr(more, "window");
        assert_string_equal(found ? found : "", cases[i].more);
    }
}

/* Layers with experts: every n-th, but for those that are listed; their gates, and their experts' width. */
TEST(test_experts_are_those_of_the_reference) {
    const struct { const char *text, *more; } cases[] = {
        {OF_WIDTH, "expert-ffn=12 router-norm=off"}, {OF_WIDTH ", \"norm_topk_prob\": true", "expert-ffn=12"},
        {", \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24", "router-norm=off"},
        {OF_WIDTH ", \"decoder_sparse_step\": 2", "expert-ffn=12 expert-layers=de router-norm=off"},
        {OF_WIDTH ", \"mlp_only_layers\": [1]", "expert-ffn=12 expert-layers=ed router-norm=off"},
        {OF_WIDTH ", \"mlp_only_layers\": [7, -1]", "expert-ffn=12 router-norm=off"},
        {OF_WIDTH ", \"norm_topk_prob\": true, \"mlp_only_layers\": [0]", "expert-ffn=12 expert-layers=de"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024], wanted[MODEL_MORE_MAX];
        snprintf(text, sizeof text, OF_QWEN3_MOE "%s}", cases[i].text);
        snprintf(wanted, sizeof wanted, "norm-eps=1e-06 qk-norm=head %s", cases[i].more);
        struct checkpoint_model m = model_of(llama_hf_config_read, text);
        assert_string_equal(m.more, wanted);
        assert_string_equal(m.arch, "moe");
        assert_true(m.experts == 4 && m.experts_per_token == 2 && m.dropless && m.ffn == 24);
    }
}

/* DeepSeek's experts: layers behind the first, groups of the method that has some, a bias in V3. */
TEST(test_experts_of_deepseek_are_those_of_the_reference) {
#define OF_V2 SIZES "\"model_type\": \"deepseek_v2\", \"num_experts_per_tok\": 3"
#define OF_DOTS SIZES "\"model_type\": \"dots1\", \"num_key_value_heads\": 2, \"head_dim\": 4, " \
    "\"n_shared_experts\": 2, \"n_routed_experts\": 8, \"num_experts_per_tok\": 3"
#define LATENTS "kv-lora-rank=512 q-lora-rank=1536 rope-head-dim=64 v-head-dim=128 rope-interleave=on"
    const struct { const char *text, *more; int64_t experts; } cases[] = {
        {OF_V3 ", \"first_k_dense_replace\": 1}", "norm-eps=1e-06 expert-ffn=2048 expert-layers=de " LATENTS
         " router-scores=sigmoid router-groups=8 router-groups-per-token=4 router-scale=2.5 shared-experts=1", 256},
        {OF_V2 "}", "norm-eps=1e-06 expert-ffn=1407 router-norm=off " LATENTS " shared-experts=2", 64},
        {OF_V2 ", \"n_group\": 4, \"topk_group\": 2}",
         "norm-eps=1e-06 expert-ffn=1407 router-norm=off " LATENTS " shared-experts=2", 64},
        {OF_V2 ", \"topk_method\": \"group_limited_greedy\", \"n_group\": 4, \"topk_group\": 2}",
         "norm-eps=1e-06 expert-ffn=1407 router-norm=off " LATENTS " router-groups=4 router-groups-per-token=2 "
         "shared-experts=2", 64},
        {OF_DOTS ", \"max_window_layers\": 1, \"first_k_dense_replace\": 1}",
         "norm-eps=1e-06 qk-norm=head window=4096 window-layers=fs expert-ffn=1408 expert-layers=de router-norm=off "
         "router-scores=sigmoid shared-experts=2", 8},
        {OF_DOTS ", \"norm_topk_prob\": true, \"moe_intermediate_size\": 24, \"routed_scaling_factor\": 0.5}",
         "norm-eps=1e-06 qk-norm=head router-scores=sigmoid router-scale=0.5 shared-experts=2", 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkpoint_model m = model_of(llama_hf_config_read, cases[i].text), again;
        assert_string_equal(m.more, cases[i].more);
        assert_string_equal(m.arch, "moe");
        assert_int_equal(m.experts, cases[i].experts);
        assert_ok(llama_hf_check(&m));
        assert_ok(llama_hf_config_write(test_path("config.json"), &m, FP32));
        assert_ok(llama_hf_config_read(test_path("config.json"), &again));
        assert_memory_equal(&again, &m, sizeof m);
    }
    const struct { const char *text, *says; } refused[] = {
        {SIZES "\"model_type\": \"deepseek_v2\"}", "num_experts_per_tok is null"},
        {OF_V2 ", \"topk_method\": \"group_limited_greedy\"}", "n_group and topk_group are null"},
        {OF_V2 ", \"topk_method\": \"noaux_tc\"}", "topk_method is \"noaux_tc\""},
        {OF_DOTS ", \"topk_group\": 2}", "topk_group is 2, and n_group is 1"},
        {OF_DOTS ", \"n_group\": 4}", "topk_group is 1; n_group must divide the 8 experts"},
        {OF_DOTS ", \"n_group\": 3, \"topk_group\": 2}", "n_group is 3 and topk_group is 2; n_group must divide"},
        {OF_DOTS ", \"first_k_dense_replace\": 2}", "none of 2 layers has experts"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct checkpoint_model m;
        assert_fails(read_text(llama_hf_config_read, refused[i].text, &m), E_FORMAT, refused[i].says);
    }
    /* transformers scores a group of sigmoids by two experts */
    struct checkpoint_model m = model_of(llama_hf_config_read, OF_V3 ", \"first_k_dense_replace\": 1}");
    m.experts = 16;
    assert_ok(llama_hf_check(&m));
    m.experts = 8;
    assert_fails(llama_hf_check(&m), E_CONFIG, "router-groups=8 of experts=8", "its two best experts");
    /* layers without experts behind some that have them are no DeepSeek's */
    m = model_of(llama_hf_config_read, cases[4].text);
    *strstr(m.more, "=de") = '=', memcpy(strstr(m.more, "=de"), "=ed", 3);
    assert_fails(llama_hf_check(&m), E_CONFIG, "expert-layers=ed", "dots1");
}

/* Each family's model with the defaults of most keys is written, and read again: as one of its own, or of an earlier
 * family that has its options. `more`: further keys. */
static void check_families(const struct model_format *format, const char *more) {
    for (; format->name; format++) {
        char text[1024];
        bool latents = strstr(format->model_type, "deepseek") != NULL;
        snprintf(text, sizeof text, SIZES "\"model_type\": \"%s\"%s, %s}", format->model_type, more,
                 latents ? DENSE : "\"num_key_value_heads\": 2, \"head_dim\": 4, \"n_routed_experts\": 4, "
                 "\"num_experts_per_tok\": 2, \"n_shared_experts\": 1");
        struct checkpoint_model m = model_of(llama_hf_config_read, text), again;
        assert_ok(llama_hf_check(&m));
        assert_ok(llama_hf_config_write(test_path("config.json"), &m, FP32));
        assert_ok(llama_hf_config_read(test_path("config.json"), &again));
        assert_memory_equal(&again, &m, sizeof m);
    }
}

TEST(test_each_family_goes_out_and_in) {
    static const char *const unscaled[] = {"", ", \"rope_parameters\": {\"rope_type\": \"default\"}"};
    for (int i = 0; i < 2; i++) {
        check_families(llama_formats, unscaled[i]);
        check_families(mixtral_formats, unscaled[i]);
        check_families(moe_formats, unscaled[i]);
        check_families(gpt_oss_formats, unscaled[i]);
    }
}

TEST(test_what_is_not_said_is_the_references) {
    assert_int_equal(model_of(llama_hf_config_read, OF_GPT_OSS "}").experts, 128);
    assert_int_equal(model_of(llama_hf_config_read, OF_GPT_OSS ", \"num_local_experts\": 8, \"quantization_config\": "
                              "{\"quant_method\": \"mxfp4\", \"modules_to_not_convert\": []}}").experts, 8);
    assert_int_equal(model_of(gpt_hf_config_read, OF_GPT2 "}").heads, 12);
    assert_int_equal(model_of(gpt_hf_config_read, OF_GPT2 ", \"num_attention_heads\": 4}").heads, 4);
    assert_int_equal(model_of(gpt_hf_config_read, OF_GPT2 ", \"num_attention_heads\": 4, \"n_head\": 4}").heads, 4);
    assert_int_equal(model_of(llama_hf_config_read, OF_LLAMA "}").untied, 1);
    assert_int_equal(model_of(llama_hf_config_read, OF_MIXTRAL "}").rope_theta, 1000000);
    assert_int_equal(model_of(llama_hf_config_read, OF_MIXTRAL "}").experts_per_token, 2);
    assert_int_equal(model_of(bert_hf_config_read, OF_BERT "}").untied, 0);
    assert_int_equal(model_of(t5_hf_config_read, OF_T5 ", \"num_layers\": 2}").layers, 4);
}

static int64_t theta_of(const char *more) {
    char text[1024];
    snprintf(text, sizeof text, "%s%s}", OF_LLAMA, more);
    int64_t theta = model_of(llama_hf_config_read, text).rope_theta;
    return theta ? theta : 10000;
}

TEST(test_rope_theta_is_read_where_it_is) {
    assert_int_equal(theta_of(""), 10000);
    assert_int_equal(theta_of(", \"rope_theta\": 500"), 500);
    assert_int_equal(theta_of(", \"rope_theta\": 500, \"rope_parameters\": {}"), 500);
    assert_int_equal(theta_of(", \"rope_theta\": 500, \"rope_parameters\": {\"rope_type\": \"default\"}"), 500);
    assert_int_equal(theta_of(", \"rope_parameters\": {\"rope_theta\": 500, \"type\": \"default\"}"), 500);
    assert_int_equal(theta_of(", \"rope_theta\": 500, \"rope_scaling\": {\"rope_type\": \"default\"}"), 500);
    assert_int_equal(theta_of(", \"rope_scaling\": {}, \"rope_parameters\": {\"rope_theta\": 500}"), 500);
}

/* An untied T5 head, as transformers 4 and 5 write it. */
TEST(test_an_unscaled_head_is_its_own) {
    assert_int_equal(model_of(t5_hf_config_read, T5_OF_2 ", \"tie_word_embeddings\": false}").untied, 1);
    assert_int_equal(model_of(t5_hf_config_read, T5_OF_2 ", \"tie_word_embeddings\": true, "
                                                         "\"scale_decoder_outputs\": false}").untied, 1);
    assert_int_equal(model_of(t5_hf_config_read, T5_OF_2 ", \"scale_decoder_outputs\": true}").untied, 0);
}

TEST(test_other_functions_are_refused_by_name) {
    static const struct { read_config *read; const char *text, *key, *value; } cases[] = {
        {gpt_hf_config_read, OF_GPT2 ", \"n_head\": 4, \"num_attention_heads\": 2}", "num_attention_heads is 2",
         "n_head"},
        {gpt_hf_config_read, OF_GPT2 ", \"n_head\": null}", "n_head is null", "whole number"},
        {gpt_hf_config_read, OF_GPT2 ", \"n_head\": \"4\"}", "n_head is \"4\"", "whole number"},
        {gpt_hf_config_read, OF_GPT2 ", \"is_causal\": false}", "is_causal is false", "true"},
        {gpt_hf_config_read, OF_GPT2 ", \"n_head\": 4, \"layer_norm_epsilon\": NaN}", "not JSON", "line 1"},
        {llama_hf_config_read, SIZES "\"model_type\": \"llama\", \"rms_norm_eps\": null}", "rms_norm_eps is null",
         "above 0"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_parameters\": {\"type\": \"dynamic\", \"factor\": 2.0}}",
         "type is \"dynamic\"", "default"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"yarn\"}}",
         "rope_type is \"yarn\"", "leave one out"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}", "does not say factor", "model"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"truncate\": 1}}",
         "truncate is 1", "true or false"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_scaling\": {\"type\": \"yarn-untruncated\", \"factor\": 2}}",
         "type is \"yarn-untruncated\"", "llama3 or yarn"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"finetuned\": true}}",
         "finetuned is true", "none"},
        {llama_hf_config_read, OF_LLAMA ", \"original_max_position_embeddings\": 9, \"rope_scaling\": {\"type\": "
                                        "\"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 4}}",
         "original_max_position_embeddings is 4, and 9", "leave one out"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"beta_fast\": 0.5}}",
         "beta_slow is 1", "beta_fast 0.5"},
        {llama_hf_config_read, OF_MISTRAL ", \"sliding_window\": 0}", "sliding_window is 0", "from 1"},
        {llama_hf_config_read, OF_MISTRAL ", \"sliding_window\": 4.5}", "sliding_window is 4.5", "from 1"},
        {llama_hf_config_read, OF_MISTRAL ", \"sliding_window\": 2000000000}", "sliding_window is 2", "to 1000000000"},
        {llama_hf_config_read, OF_LLAMA ", \"sliding_window\": 4}", "sliding_window is 4", "llama has none"},
        {llama_hf_config_read, OF_QWEN2 ", \"use_sliding_window\": true, \"max_window_layers\": -1}",
         "max_window_layers is -1", "from 0"},
        {llama_hf_config_read, OF_QWEN2 ", \"max_window_layers\": null}", "max_window_layers is null", "from 0"},
        {llama_hf_config_read, "{\"model_type\": \"qwen2\", \"hidden_size\": 16, \"num_hidden_layers\": 130, "
         "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 131, \"intermediate_size\": 24, "
         "\"max_position_embeddings\": 8, \"use_sliding_window\": true, \"max_window_layers\": 129}",
         "repeat after 130 layers", "at most 128 letters; set sliding_window and layer_types to null"},
        {llama_hf_config_read, OF_QWEN2 ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
         "layer_types has \"sliding_attention\", and there is no window", "use_sliding_window must be true"},
        {llama_hf_config_read, OF_QWEN2 ", \"layer_types\": [\"full_attention\", \"chunked_attention\"]}",
         "layer_types has \"chunked_attention\"", "sliding_attention"},
        {llama_hf_config_read, OF_QWEN2 ", \"layer_types\": [\"full_attention\"]}", "no list of 2 layers",
         "layer_types"},
        {llama_hf_config_read, SIZES "\"model_type\": \"gemma2\"}", "model_type is \"gemma2\"", "qwen2"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_parameters\": {\"rope_type\": \"default\", \"factor\": 2.0}}",
         "factor is 2.0", "none"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_theta\": 500, \"rope_parameters\": {\"rope_theta\": 1e4}}",
         "rope_theta is 500", "leave one out"},
        {llama_hf_config_read, OF_LLAMA ", \"rope_scaling\": {\"type\": \"default\"}, \"rope_parameters\": "
                                        "{\"rope_theta\": 500}}", "rope_scaling and rope_parameters", "leave one out"},
        {llama_hf_config_read, OF_LLAMA ", \"partial_rotary_factor\": 0.5}", "partial_rotary_factor is 0.5", "has 1"},
        {llama_hf_config_read, OF_LLAMA ", \"quantization_config\": {\"bits\": 4}}", "quantization_config", "none"},
        {llama_hf_config_read, OF_GPT_OSS ", \"quantization_config\": {\"quant_method\": \"fp8\"}}",
         "quantization_config is {\"quant_method\": \"fp8\"}", "quant_method must be mxfp4"},
        {llama_hf_config_read, OF_GPT_OSS ", \"quantization_config\": \"mxfp4\"}", "quantization_config is \"mxfp4\"",
         "quantization_config null"},
        {llama_hf_config_read, OF_LLAMA ", \"transformers_weights\": \"a.safetensors\"}", "transformers_weights",
         "none"},
        {llama_hf_config_read, OF_LLAMA ", \"per_layer_config\": {\"1\": {\"head_dim\": 8}}}", "per_layer_config",
         "null"},
        {llama_hf_config_read, OF_LLAMA ", \"is_causal\": false}", "is_causal is false", "true"},
        {llama_hf_config_read, OF_LLAMA ", \"tie_word_embeddings\": \"true\"}", "tie_word_embeddings",
         "true or false"},
        {llama_hf_config_read, OF_MIXTRAL ", \"num_experts_per_tok\": 1}", "num_experts_per_tok is 1",
         "weight 1"},
        {llama_hf_config_read, OF_QWEN3_MOE ", \"num_experts_per_tok\": 1, \"norm_topk_prob\": true}",
         "num_experts_per_tok is 1", "weight 1"},
        {llama_hf_config_read, OF_QWEN3_MOE OF_WIDTH ", \"decoder_sparse_step\": 3}", "decoder_sparse_step is 3",
         "none of 2 layers has experts"},
        {llama_hf_config_read, OF_QWEN3_MOE OF_WIDTH ", \"mlp_only_layers\": 1}", "mlp_only_layers is 1",
         "list of layers"},
        {llama_hf_config_read, OF_QWEN3_MOE OF_WIDTH ", \"mlp_only_layers\": [0.5]}", "mlp_only_layers has 0.5",
         "numbers of layers"},
        {llama_hf_config_read, OF_QWEN3_MOE OF_WIDTH ", \"n_shared_experts\": 1, \"norm_topk_prob\": 1}",
         "norm_topk_prob is 1", "true or false"},
        {llama_hf_config_read, "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 16, \"num_hidden_layers\": 130, "
         "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 131, \"intermediate_size\": 24, "
         "\"max_position_embeddings\": 8, \"mlp_only_layers\": [0]}", "repeat after 130 layers",
         "at most 128 letters; set mlp_only_layers to null"},
        {llama_hf_config_read, OF_MIXTRAL ", \"num_experts_per_tok\": 5}", "num_experts_per_tok=5", "experts=4"},
        {llama_hf_config_read, OF_MIXTRAL ", \"router_jitter_noise\": 0.1}", "router_jitter_noise is 0.1", "has 0"},
        {bert_hf_config_read, OF_BERT ", \"type_vocab_size\": 0}", "type_vocab_size is 0", "has 2"},
        {bert_hf_config_read, OF_BERT ", \"pruned_heads\": {\"0\": [1]}}", "pruned_heads", "null"},
        {t5_hf_config_read, T5_OF_2 ", \"dense_act_fn\": \"silu\"}", "dense_act_fn is \"silu\"", "relu"},
        {t5_hf_config_read, T5_OF_2 ", \"dense_act_fn\": null}", "dense_act_fn is null", "relu"},
        {t5_hf_config_read, T5_OF_2 ", \"is_gated_act\": 0}", "is_gated_act is 0", "relu"},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": \"gated-relu\"}", "gated-relu", "gated-silu"},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": \"gated-gelu\", \"dense_act_fn\": \"gelu\"}",
         "dense_act_fn is \"gelu\"", "gelu_new"},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": \"gated-a-b\", \"dense_act_fn\": \"silu\"}", "gated-a-b",
         "relu"},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": \"a-b\", \"dense_act_fn\": \"relu\"}", "a-b", "relu"},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": null}", "feed_forward_proj is null", "relu"},
        {gpt_hf_config_read, OF_GPT2 ", \"n_head\": 4, \"activation_function\": \"gelu_fast\"}", "gelu_fast",
         "gelu_new"},
        {bert_hf_config_read, OF_BERT ", \"hidden_act\": \"gelu_python\"}", "gelu_python", "relu"},
        {llama_hf_config_read, OF_LLAMA ", \"hidden_act\": \"gelu\"}", "hidden_act is \"gelu\"", "silu"},
        {t5_hf_config_read, T5_OF_2 ", \"is_gated_act\": true}", "is_gated_act is true", "relu"},
        {t5_hf_config_read, T5_OF_2 ", \"is_encoder_decoder\": false}", "is_encoder_decoder is false", "has true"},
        {t5_hf_config_read, T5_OF_2 ", \"tie_encoder_decoder\": true}", "tie_encoder_decoder", "false"},
        {t5_hf_config_read, T5_OF_2 ", \"tie_word_embeddings\": false, \"scale_decoder_outputs\": true}",
         "scale_decoder_outputs is true", "false"},
        {t5_hf_config_read, OF_T5 ", \"num_hidden_layers\": 2}", "num_decoder_layers", "say both"}};
    struct checkpoint_model m;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(read_text(cases[i].read, cases[i].text, &m), E_FORMAT, cases[i].key, cases[i].value);
}

static const char *more_of(const char *text) {
    static struct checkpoint_model m;
    m = model_of(llama_hf_config_read, text);
    return m.more;
}

/* In both spellings; what is not said is as in transformers. */
TEST(test_slowed_positions_are_read) {
#define SCALING(text) OF_LLAMA ", \"rope_scaling\": {" text "}}"
#define NEW(text) OF_LLAMA ", \"rope_parameters\": {\"rope_theta\": 500, " text "}}"
    assert_string_equal(more_of(SCALING("\"type\": \"linear\", \"factor\": 2.5")), "rope-scaling=linear:2.5");
    assert_string_equal(more_of(NEW("\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
                                    "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 64")),
                        "rope-scaling=llama3:8:64");
    assert_string_equal(more_of(NEW("\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 2, "
                                    "\"high_freq_factor\": 3")), "rope-scaling=llama3:8:8:2:3");
    assert_string_equal(more_of(SCALING("\"type\": \"yarn\", \"factor\": 4")), "rope-scaling=yarn:4:8");
    assert_string_equal(more_of(SCALING("\"type\": \"yarn\", \"factor\": 4, \"attention_factor\": 1.5, "
                                        "\"beta_slow\": 2")), "rope-scaling=yarn:4:8:2:32:1.5");
    assert_string_equal(more_of(SCALING("\"type\": \"yarn\", \"factor\": 4, \"mscale\": 0.5, \"mscale_all_dim\": "
                                        "0.5")), "rope-scaling=yarn:4:8:1:32:1");
    assert_string_equal(more_of(OF_LLAMA ", \"original_max_position_embeddings\": 5, \"rope_scaling\": {\"type\": "
                                         "\"yarn\", \"factor\": 4}}"), "rope-scaling=yarn:4:5");
    assert_string_equal(more_of(SCALING("\"type\": \"yarn\", \"factor\": 4, \"truncate\": false")),
                        "rope-scaling=yarn-untruncated:4:8");
    /* GPT-OSS's own, unless the file says another: an empty rope_scaling is none, empty rope_parameters are there */
    static const char own[] = "rope-scaling=yarn-untruncated:32:4096";
    assert_non_null(strstr(more_of(OF_GPT_OSS "}"), own));
    assert_non_null(strstr(more_of(OF_GPT_OSS ", \"rope_scaling\": {}}"), own));
    assert_null(strstr(more_of(OF_GPT_OSS ", \"rope_parameters\": {}}"), "rope-scaling"));
    assert_null(strstr(more_of(OF_GPT_OSS ", \"rope_scaling\": {\"rope_type\": \"default\"}}"), "rope-scaling"));
}

/* A file that does not say it has the reference's, which is another than the option's in Llama alone. */
TEST(test_epsilons_are_read) {
    assert_string_equal(model_of(llama_hf_config_read, OF_LLAMA "}").more, "");
    assert_string_equal(model_of(llama_hf_config_read, SIZES "\"model_type\": \"llama\"}").more, "norm-eps=1e-06");
    assert_string_equal(model_of(llama_hf_config_read, OF_MIXTRAL ", \"rms_norm_eps\": 3e-7}").more,
                        "norm-eps=3e-07");
    assert_string_equal(model_of(gpt_hf_config_read, OF_GPT2 ", \"layer_norm_epsilon\": 0.0123}").more,
                        "norm-eps=0.0123");
    assert_string_equal(model_of(bert_hf_config_read, OF_BERT ", \"layer_norm_eps\": 1e-5}").more, "norm-eps=1e-05");
    assert_string_equal(model_of(t5_hf_config_read, T5_OF_2 ", \"layer_norm_epsilon\": 1e-5}").more, "norm-eps=1e-05");
}

/* The activation that config.json says, as an option; "": the arch's usual one. */
TEST(test_activations_are_read) {
#define GATED T5_OF_2 ", \"feed_forward_proj\": \"gated-gelu\""
    const struct { read_config *read; const char *text, *more; } cases[] = {
        {t5_hf_config_read, T5_OF_2 "}", ""},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": \"gelu\"}", "activation=gelu"},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": \"gelu_new\"}", "activation=gelu-tanh"},
        {t5_hf_config_read, T5_OF_2 ", \"dense_act_fn\": \"gelu_pytorch_tanh\"}", "activation=gelu-tanh"},
        {t5_hf_config_read, GATED "}", "activation=geglu"},
        {t5_hf_config_read, GATED ", \"dense_act_fn\": \"gelu_new\", \"is_gated_act\": true}", "activation=geglu"},
        {t5_hf_config_read, GATED ", \"is_gated_act\": false}", "activation=gelu-tanh"},
        {t5_hf_config_read, GATED ", \"dense_act_fn\": \"silu\"}", "activation=swiglu"},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": \"gated-silu\"}", "activation=swiglu"},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": \"gated-gelu_new\"}", "activation=geglu"},
        {t5_hf_config_read, T5_OF_2 ", \"feed_forward_proj\": \"gated\", \"dense_act_fn\": \"gelu_new\"}",
         "activation=geglu"},
        {gpt_hf_config_read, OF_GPT2 ", \"activation_function\": \"gelu_pytorch_tanh\"}", ""},
        {gpt_hf_config_read, OF_GPT2 ", \"activation_function\": \"gelu\"}", "activation=gelu"},
        {gpt_hf_config_read, OF_GPT2 ", \"activation_function\": \"relu\"}", "activation=relu"},
        {bert_hf_config_read, OF_BERT ", \"hidden_act\": \"gelu\"}", ""},
        {bert_hf_config_read, OF_BERT ", \"hidden_act\": \"gelu_new\"}", "activation=gelu-tanh"},
        {bert_hf_config_read, OF_BERT ", \"hidden_act\": \"relu\"}", "activation=relu"},
        {llama_hf_config_read, OF_LLAMA ", \"hidden_act\": \"swish\"}", ""},
        {llama_hf_config_read, OF_LLAMA ", \"hidden_act\": \"gelu_pytorch_tanh\"}", "activation=geglu"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(model_of(cases[i].read, cases[i].text).more, cases[i].more);
}

TEST(test_a_key_that_nothing_reads_is_said) {
    test_stderr_keep();
    model_of(llama_hf_config_read, OF_LLAMA ", \"logit_scale\": 0.5, \"pretraining_tp\": 2, \"my_note\": 1}");
    const char *said = test_stderr_text();
    assert_non_null(strstr(said, "not read, as transformers' llama does not: logit_scale, my_note\n"));
}

/* ---- folders ---- */

static void make_file(const char *folder, const char *name, const char *text) {
    char path[CHECKPOINT_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

TEST(test_a_folder_is_what_transformers_reads) {
    char type[HF_MODEL_TYPE_MAX], folder[512];
    struct hf_files *files;
    snprintf(folder, sizeof folder, "%s", test_path("folder"));
    mkdir(folder, 0777);
    assert_ok(hf_model_type(folder, type));
    assert_string_equal(type, "");
    make_file(folder, "pytorch_model.bin", "");
    assert_fails(hf_model_type(folder, type), E_DATA, "pytorch_model.bin", "safetensors");
    make_file(folder, "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"old.safetensors\"}}");
    assert_fails(hf_files_open(folder, &files), E_DATA, "old.safetensors");
    make_file(folder, "model.safetensors", "");
    test_stderr_keep();
    enum status status = hf_files_open(folder, &files);
    assert_non_null(strstr(test_stderr_text(), "model.safetensors is read, and the index next to it is not"));
    assert_fails(status, E_FORMAT, "folder/model.safetensors");
    make_file(folder, "config.json", "{\"model_type\": \"mistral\"}");
    assert_ok(hf_model_type(folder, type));
    assert_string_equal(type, "mistral");
    make_file(folder, "config.json", "{\"model_type\": 5}");
    assert_fails(hf_model_type(folder, type), E_FORMAT, "model_type is no name");
    make_file(folder, "config.json", "{\"router_aux_loss_coef\": NaN}");
    assert_fails(hf_model_type(folder, type), E_FORMAT, "config.json is not JSON", "line 1");
    make_file(folder, "adapter_config.json", "{}");
    assert_fails(hf_model_type(folder, type), E_FORMAT, "adapter_config.json", "merge_and_unload");
    assert_fails(hf_files_open(folder, &files), E_FORMAT, "adapter_config.json", "merge_and_unload");
}

TESTS(unit_test(test_latents_are_those_of_the_reference),
      unit_test(test_models_of_latents_that_no_file_has_are_refused), unit_test(test_families_of_llama_differ),
      unit_test(test_windows_are_those_of_the_reference),
      unit_test(test_published_files_are_read_whole),
      unit_test(test_what_is_not_said_is_the_references), unit_test(test_experts_are_those_of_the_reference),
      unit_test(test_experts_of_deepseek_are_those_of_the_reference),
      unit_test(test_each_family_goes_out_and_in),
      unit_test(test_rope_theta_is_read_where_it_is), unit_test(test_an_unscaled_head_is_its_own),
      unit_test(test_epsilons_are_read), unit_test(test_activations_are_read),
      unit_test(test_slowed_positions_are_read),
      unit_test(test_other_functions_are_refused_by_name), unit_test(test_a_key_that_nothing_reads_is_said),
      unit_test(test_a_folder_is_what_transformers_reads))

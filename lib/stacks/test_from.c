/* ranks: 1  device: cpu
 *
 * --from FILE: what becomes of the keys of other programs' files. Sizes and values are those that these programs' own
 * documents give. */
#include "lib/stacks/from.h"

#include "driver/recipe.h"
#include "driver/train/train_options.h"
#include "lib/cost/stack.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

static struct plan plan;
static struct options *options;

/* Read a text as a file with this name; typed: "--tp 2 ...", from the command line. What the table says: table. */
static char *table;
static bool trains;
static enum status read_text(const char *name, const char *text, const char *ignored, const char *typed) {
    const char *path = test_path(name);
    char *words[16], line[256];
    size_t size;
    int n = 0;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    options_destroy(&options);
    free(table);
    assert_ok(recipe_options_create(NULL, &plan, &options));
    snprintf(line, sizeof line, "%s", typed);
    for (char *w = strtok(line, " "); w; w = strtok(NULL, " ")) words[n++] = w;
    assert_ok(options_parse(options, n, words));
    FILE *out = open_memstream(&table, &size);
    enum status status = from_read(path, ignored, trains, &train_recipe, options, out);
    fclose(out);
    return status;
}

static char seen[OPTION_TEXT_MAX + 64];
static void see(void *self, const struct option *o, const char *text, enum option_source source) {
    const char *by = source == FROM_FILE ? "" : " (not the file's)";
    if (!strcmp(o->name, self)) snprintf(seen, sizeof seen, "%s%s", text, by);
}
/* The option's value, which the file must have said. */
static const char *value(const char *name) {
    strcpy(seen, "no such option");
    options_each(options, see, (char *)name);
    return seen;
}
/* "tp=2 pp=4": each option has this value, by the file. */
static void assert_options(const char *wanted) {
    char name[40], text[64];
    for (int n = 0; sscanf(wanted, " %39[^=]=%63s%n", name, text, &n) == 2; wanted += n) {
        if (strcmp(value(name), text)) fail_msg("%s is %s, not %s", name, value(name), text);
    }
}
/* The row of a key ends with this. */
static void assert_row(const char *key, const char *became) {
    char begin[80];
    snprintf(begin, sizeof begin, "\n  %s ", key);
    const char *row = strstr(table, begin), *end = row ? strchr(row + 1, '\n') : NULL;
    if (!end) fail_msg("the table has no %s:\n%s", key, table);
    if ((size_t)(end - row) < strlen(became) || strncmp(end - strlen(became), became, strlen(became)))
        fail_msg("not \"%s\":%.*s", became, (int)(end - row), row);
}

/* ---- config.json ---- */

#define LLAMA \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 30, \"hidden_size\": 576, \"num_attention_heads\": 9, " \
    "\"num_key_value_heads\": 3, \"intermediate_size\": 1536, \"max_position_embeddings\": 8192, " \
    "\"vocab_size\": 49152, \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", "
#define MISTRAL \
    "{\"model_type\": \"mistral\", \"num_hidden_layers\": 32, \"hidden_size\": 4096, \"num_attention_heads\": 32, " \
    "\"intermediate_size\": 14336, \"max_position_embeddings\": 32768, \"vocab_size\": 32000, "
#define SEED_OSS \
    "{\"model_type\": \"seed_oss\", \"num_hidden_layers\": 2, \"hidden_size\": 5120, \"num_attention_heads\": 80, " \
    "\"intermediate_size\": 27648, \"max_position_embeddings\": 4096, \"vocab_size\": 155136"
#define QWEN3_MOE \
    "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 8, " \
    "\"intermediate_size\": 1024, \"max_position_embeddings\": 64, \"vocab_size\": 300, \"num_experts\": 16, " \
    "\"num_experts_per_tok\": 4"
#define GPT2 \
    "{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, \"n_head\": 12, \"n_positions\": 1024, " \
    "\"vocab_size\": 50257"

#define GPT_OSS "{\"model_type\": \"gpt_oss\", \"hidden_size\": 64, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, \"intermediate_size\": 24, " \
    "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"vocab_size\": 256, \"max_position_embeddings\": 32, "
TEST(test_a_config_json_is_options) {
    assert_ok(read_text("config.json", LLAMA "\"rms_norm_eps\": 1e-05, \"rope_theta\": 100000}", "", ""));
    assert_options("arch=llama layers=30 hidden=576 heads=9 kv-heads=3 ffn=1536 seq=8192 vocab=49152 tie=on "
                   "rope-theta=100000");
    assert_row("hidden_size", "read");
    assert_row("rms_norm_eps", "read");
    assert_row("torch_dtype", "does not matter here");
    assert_ok(read_text("config.json", LLAMA "\"rms_norm_eps\": 1e-06, \"mlp_bias\": true, \"head_dim\": 80, "
                        "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
                        "\"original_max_position_embeddings\": 2048}}", "", ""));
    assert_options("arch=llama head-dim=80 norm-eps=1e-06 mlp-bias=on rope-scaling=yarn:4:2048");
    /* the defaults of options that the preset tiny of gpt_oss sets */
    assert_ok(read_text("config.json", GPT_OSS "\"attention_bias\": false, \"layer_types\": [\"full_attention\", "
                        "\"full_attention\"]}", "", ""));
    assert_options("arch=gpt_oss attention-bias=none window=0 window-layers=s attention-sinks=on swiglu-limit=7");
    assert_ok(read_text("config.json", MISTRAL "\"sliding_window\": 2048}", "", ""));
    assert_options("arch=llama window=2048");
    assert_row("sliding_window", "read");
    assert_ok(read_text("config.json", GPT2 "}", "", ""));
    assert_options("arch=gpt layers=12 hidden=768 heads=12 seq=1024 vocab=50257 tie=on dropout=0.1");
    assert_ok(read_text("config.json", GPT2 ", \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0.0}", "", ""));
    assert_options("dropout=0");
    assert_ok(read_text("config.json", QWEN3_MOE ", \"norm_topk_prob\": false, \"output_router_logits\": false}", "",
                        ""));
    assert_options("arch=moe experts=16 experts-per-token=4 expert-ffn=768 router-norm=off aux-loss=0 z-loss=0 "
                   "capacity=0");
    assert_row("norm_topk_prob", "read");
    assert_ok(read_text("config.json", SEED_OSS ", \"attention_dropout\": 0.0, \"residual_dropout\": 0}", "", ""));
    assert_options("arch=llama head-dim=128 kv-heads=8 attention-bias=qkv tie=off");
    assert_row("residual_dropout", "0: Trivium drops nothing there");
}

/* transformers ignores a key with a typo, and so must we: but the table asks. */
TEST(test_a_key_that_transformers_does_not_read) {
    assert_ok(read_text("config.json", LLAMA "\"rms_norm_epsilon\": 0.001, \"rms_norm_eps\": 1e-05}", "", ""));
    assert_options("arch=llama tie=on");
    assert_row("rms_norm_epsilon", "is it a typo?");
}

/* Keys that change the numbers and have no option are refused by name, all of them in the table, unless ignored. */
TEST(test_a_config_json_that_cannot_be_said) {
    static const char other[] = LLAMA "\"partial_rotary_factor\": 0.5, \"is_causal\": false}";
    assert_fails(read_text("config.json", other, "", ""), E_FORMAT, "partial_rotary_factor is 0.5",
                 "2 keys cannot be said: partial_rotary_factor, is_causal; --ignore KEY");
    assert_row("is_causal", "cannot be said: is_causal is false; Trivium's llama has true");
    assert_fails(read_text("config.json", other, "is_causal", ""), E_FORMAT,
                 "--ignore partial_rotary_factor leaves the key out");
    assert_ok(read_text("config.json", other, "is_causal,partial_rotary_factor", ""));
    assert_row("is_causal", "ignored");
    assert_fails(read_text("config.json", LLAMA "\"rms_norm_eps\": 1e-05}", "mlp_biass", ""), E_USAGE,
                 "ignore=mlp_biass", "no such key");
    assert_fails(read_text("config.json", other, "is_causal,partial_rotary_facto", ""), E_USAGE,
                 "ignore=partial_rotary_facto", "no such key");
    assert_fails(read_text("config.json", GPT2 ", \"attn_pdrop\": 0.2}", "", ""), E_FORMAT, "another dropout",
                 "--ignore attn_pdrop");
    assert_fails(read_text("config.json", LLAMA "\"rms_norm_eps\": 1e-05, \"attention_dropout\": 0.1}", "", ""),
                 E_FORMAT, "dropout of attention alone");
    assert_fails(read_text("config.json", SEED_OSS ", \"attention_dropout\": 0}", "", ""), E_FORMAT,
                 "residual_dropout is 0.1 by default: dropout of attention and residuals",
                 "--ignore residual_dropout leaves the key out");
    assert_ok(read_text("config.json", SEED_OSS "}", "attention_dropout,residual_dropout", ""));
    assert_row("residual_dropout", "ignored");
    assert_fails(read_text("config.json", SEED_OSS ", \"attention_out_bias\": true}", "", ""), E_FORMAT,
                 "attention_out_bias is true", "3 keys cannot be said");
    assert_fails(read_text("config.json", GPT2 ", \"resid_pdrop\": 0.2}", "", ""), E_FORMAT,
                 "embd_pdrop is 0.1 by default: another dropout");
    assert_ok(read_text("config.json", GPT2 ", \"resid_pdrop\": 0.2}", "embd_pdrop,attn_pdrop", ""));
    assert_options("dropout=0.2");
    assert_fails(read_text("config.json", "{\"model_type\": \"mamba\"}", "", ""), E_FORMAT, "model_type is mamba",
                 "reads gpt2, llama, mistral, qwen2, qwen3, olmo2, seed_oss, ",
                 ", mixtral, qwen3_moe, dots1, deepseek_v3, deepseek_v2, gpt_oss, bert, t5");
}

/* A refusal of another kind of file lists the kinds; a value that the table cuts ends with dots. */
TEST(test_a_folder_or_another_text) {
    char path[4096];
    assert_fails(read_text("README.md", "# A title\n\nSome *text*, and: more: colons\n", "", ""), E_FORMAT,
                 "--from reads config.json");
    snprintf(path, sizeof path, "%s", test_path("README.md"));
    *strrchr(path, '/') = 0;
    assert_fails(from_read(path, "", false, &train_recipe, options, NULL), E_DATA, "is a folder", "config.json");
    assert_ok(read_text("config.json", LLAMA "\"_name_or_path\": \"a/name/with/more/characters/than/the/table/has/in/"
                        "its/column/of/values\"}", "", ""));
    assert_non_null(strstr(table, "a/name/with/more/characters/than/the/table/has/in/its/co... does not"));
}

/* The command line wins; two files that differ, or a preset and a file of sizes, are refused. */
TEST(test_what_is_typed_wins_over_the_file) {
    assert_ok(read_text("config.json", GPT2 "}", "", "--seq 512"));
    assert_string_equal(value("seq"), "512 (not the file's)");
    assert_non_null(strstr(table, "typed, in place of the file's: --seq 512"));
    assert_fails(read_text("config.json", GPT2 "}", "", "--model gpt2-350m"), E_USAGE, "--model and",
                 "leave one out");
    assert_ok(read_text("config.json", GPT2 "}", "", ""));
    assert_ok(from_read(test_path("config.json"), "", false, &train_recipe, options, NULL));      /* the same again */
    assert_ok(recipe_options_create(NULL, &plan, &options));
    assert_ok(options_set(options, "layers", "24", FROM_FILE));
    assert_fails(from_read(test_path("config.json"), "", false, &train_recipe, options, NULL), E_USAGE,
                 "layers is 24 in --config and 12 in", "type --layers");
}

/* ---- arguments of Megatron-LM ---- */

#define SIZES "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 " \
    "--max-position-embeddings 2048 --micro-batch-size 2 --global-batch-size 16 --hidden-dropout 0 " \
    "--attention-dropout 0 "
#define LLAMA_KEYS "--swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope "

/* The shell's words: variables, arrays, continued lines, comments, and defaults; two nodes of 8. */
TEST(test_a_launch_script_is_options) {
    assert_ok(read_text("run.sh", "#!/bin/bash\nGPUS=8 # of a node\nNODES=2\nTP=${TP:-4}\nMODEL=(\n  " SIZES "# text\n"
        "  --untie-embeddings-and-output-weights\n)\nARGS=\"--bf16 --lr 3e-4 \\\n --use-distributed-optimizer\"\n"
        "if [ -n \"$DEBUG\" ]; then\n  set -x\nfi\n"
        "ARGS=\"$ARGS --vocab-size 50257\"\ntorchrun --nproc_per_node $GPUS --nnodes ${NODES} pretrain_gpt.py "
        "${MODEL[@]} $ARGS --tensor-model-parallel-size $TP --sequence-parallel --data-path \"$1\" 2>&1 | "
        "tee log\n", "", ""));
    assert_options("arch=gpt layers=24 hidden=1024 heads=16 seq=2048 micro-batch=2 global-batch=16 tp=4 dp=4 sp=on "
                   "zero=1 precision=bf16 grad-fp32=on tie=off lr=0.0003 vocab=50688 beta2=0.999 weight-decay=0.01 "
                   "dropout=0");
    assert_row("data-path", "does not matter here");
}

/* What only the shell has is no value: its arguments, what is assigned or added under a condition, two values. */
TEST(test_what_only_the_shell_knows) {
    static const char typed[] = "--vocab 50304";
    assert_fails(read_text("run.sh", "pretrain " SIZES "--tensor-model-parallel-size $1", "", typed), E_FORMAT,
                 "tensor-model-parallel-size");
    assert_ok(read_text("run.sh", "pretrain " SIZES "--tensor-model-parallel-size $1", "", "--vocab 50304 --tp 2"));
    assert_row("tensor-model-parallel-size", "typed");
    assert_fails(read_text("run.sh", "if x; then\n A=(--sequence-parallel)\nfi\np " SIZES "${A[@]}", "", typed),
                 E_FORMAT, "sequence-parallel is $A");
    assert_fails(read_text("run.sh", "if x; then\n A=\"--swiglu\"\nelse\n A=\"--bf16\"\nfi\np " SIZES "$A", "", typed),
                 E_FORMAT, "2 keys cannot be said: bf16, swiglu");
    assert_ok(read_text("run.sh", "D=()\nif [ $1 = x ]; then\n D+=(--mock-data --split 9,1)\nelse\n "
                        "D+=(--data-path $2)\nfi\np " SIZES "${D[@]} $@ > log 2>&1", "", "--vocab 50304 --dp 2"));
    assert_row("data-path", "does not matter here");
    assert_ok(read_text("run.sh", "srun --container-image x --output=$D/l sh -c \"python -u $D/pretrain_gpt.py $@ "
                        SIZES "\"\n", "", "--vocab 50304 --dp 2"));
    assert_fails(read_text("run.sh", "TP=1\nif x; then\n TP=2\nfi\np " SIZES "--tensor-model-parallel-size $TP", "",
                           typed), E_FORMAT, "tensor-model-parallel-size");
    assert_fails(read_text("run.sh", "A=\"" SIZES "\"\n[ $X = 1 ] && A=\"$A --sequence-parallel\"\np $A", "", typed),
                 E_FORMAT, "$A");
    assert_fails(read_text("run.sh", "p " SIZES "--num-layers 32", "", typed), E_FORMAT, "num-layers");
    assert_ok(read_text("run.sh", "p " SIZES "--num-layers 24", "", typed));
    assert_fails(read_text("run.sh", "python a/pretrain_vlm.py " SIZES, "", typed), E_FORMAT,
                 "program is pretrain_vlm.py", "--ignore program");
    assert_fails(read_text("run.sh", "p " SIZES "\nq " SIZES, "", typed), E_FORMAT, "several programs");
    assert_ok(read_text("run.sh", "echo p " SIZES "--num-layers 5\np " SIZES, "", typed));
}

/* That program's defaults hold for what a file does not say; keys of which only all together are a model. */
TEST(test_keys_that_belong_together) {
    static const char typed[] = "--vocab 50304 --dp 8";
    assert_ok(read_text("run.sh", "p " SIZES LLAMA_KEYS "--rotary-base 500000 --group-query-attention "
                        "--num-query-groups 4 --ffn-hidden-size 2816", "", typed));
    assert_options("arch=llama rope-theta=500000 kv-heads=4 ffn=2816 tie=on precision=fp32");
    assert_ok(read_text("run.sh", "p " SIZES LLAMA_KEYS, "", typed));
    assert_options("ffn=2688");                                    /* 4 x 1024 x 2/3, in multiples of 64 */
    assert_ok(read_text("run.sh", "p " SIZES LLAMA_KEYS "--window-size 4095,0 --window-attn-skip-freq 3", "", typed));
    assert_options("window=4096 window-layers=ssf");               /* keys before a query, and none after it */
    assert_ok(read_text("run.sh", "p " SIZES LLAMA_KEYS "--window-size '(127,0)'", "", typed));
    assert_options("window=128");
    assert_fails(read_text("run.sh", "p " SIZES LLAMA_KEYS "--window-size 127,127", "", typed), E_FORMAT,
                 "window-size", "windows are N,0");
    assert_fails(read_text("run.sh", "p " SIZES LLAMA_KEYS "--window-size 127", "", typed), E_FORMAT, "window-size");
    assert_fails(read_text("run.sh", "p " SIZES LLAMA_KEYS "--window-size 127,0,0", "", typed), E_FORMAT,
                 "window-size");
}

#define ALTERNATING "1,0,1,0,1,0,1, 0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1"

/* Layers with a window as plan --stack writes them, a number for each of the 24; -1,0 is none. */
TEST(test_windows_of_layers_by_a_list) {
    static const char *const refused[] = {"'[1,0]*12'", "'[1,0]'", "'[" ALTERNATING ",0,1]'", "'[" ALTERNATING ",2]'",
                                          "'[" ALTERNATING ",0'", "'[]'", "'['", "1", "129", "2x"};
    char text[1024];
    assert_ok(read_text("run.sh", "p " SIZES LLAMA_KEYS "--window-size 127,0 --window-attn-skip-freq '[" ALTERNATING
                        ",0]'", "", "--dp 8 --vocab 50304"));
    assert_options("window=128 window-layers=sf");
    assert_ok(read_text("run.sh", "p " SIZES LLAMA_KEYS "--window-size 127,0 --window-attn-skip-freq '[" ALTERNATING
                        ",1]'", "", "--dp 8 --vocab 50304"));
    assert_options("window=128 window-layers=sfsfsfsfsfsfsfsfsfsfsfss");
    assert_ok(read_text("run.sh", "p " SIZES LLAMA_KEYS "--window-size -1,0 --window-attn-skip-freq 2 "
                        "--tp-comm-overlap", "", "--dp 8 --vocab 50304"));
    assert_row("tp-comm-overlap", "does not matter here");
    assert_string_equal(value("window"), "0 (not the file's)");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(text, sizeof text, "p " SIZES LLAMA_KEYS "--window-size 127,0 --window-attn-skip-freq %s", refused[i]);
        assert_fails(read_text("run.sh", text, "", "--dp 8 --vocab 50304"), E_FORMAT, "window-attn-skip-freq is ",
                     "N from 2 to 128");
    }
}

TEST(test_some_of_the_keys_that_belong_together) {
    static const char typed[] = "--vocab 50304 --dp 8";
    assert_fails(read_text("run.sh", "p " SIZES "--swiglu --disable-bias-linear --normalization RMSNorm", "", typed),
                 E_FORMAT, "position-embedding-type", "make a Llama");
    assert_fails(read_text("run.sh", "p --num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 64 "
                           "--max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 8 "
                           "--hidden-dropout 0", "", typed), E_FORMAT, "attention-dropout", "by default");
    assert_fails(read_text("run.sh", "p " SIZES "--qk-clip", "", typed), E_FORMAT, "qk-clip is there",
                 "no option for it");
    assert_ok(read_text("run.sh", "p " SIZES "--layernorm-epsilon 1e-6 --loss-scale 4096", "", typed));
    assert_options("norm-eps=1e-06 loss-scale=4096");
    assert_ok(read_text("run.sh", "p " SIZES LLAMA_KEYS "--use-rope-scaling --rope-scaling-factor 32 --kv-channels 80 "
                        "--add-qkv-bias --bf16 --grad-reduce-in-bf16", "", typed));
    assert_options("rope-scaling=llama3:32:8192:1:4 head-dim=80 attention-bias=qkv grad-fp32=off");
    assert_row("use-rope-scaling", "--rope-scaling");
    assert_ok(read_text("run.sh", "p " SIZES LLAMA_KEYS "--num-experts 4 --ffn-hidden-size 2816 "
                        "--moe-ffn-hidden-size 704 --kv-channels 64", "", typed));
    assert_options("arch=mixtral experts=4 ffn=704");
    assert_ok(read_text("run.sh", "p " SIZES "--checkpoint-activations --activations-checkpoint-method block "
                        "--activations-checkpoint-num-layers 2", "", typed));
    assert_options("recompute=block:2");
    assert_ok(read_text("run.sh", "p " SIZES "--checkpoint-activations", "", typed));
    assert_options("recompute=full");
    assert_fails(read_text("run.sh", "p " SIZES, "", ""), E_FORMAT, "vocab-size", "type --vocab");
    assert_ok(read_text("run.sh", "p " SIZES "--recompute-granularity full --recompute-method block "
                        "--recompute-num-layers 1 --pipeline-model-parallel-size 4 "
                        "--num-layers-per-virtual-pipeline-stage 3", "", typed));
    assert_options("recompute=block:1 pp=4 chunks=2 schedule=interleaved");
}

/* BERT and T5 of Megatron-LM: their sizes are read, and a training refuses them. --noise makes T5's two lengths. */
TEST(test_bert_and_t5_of_megatron) {
    static const char t5[] = "python pretrain_t5.py --encoder-num-layers 12 --decoder-num-layers 12 --hidden-size 768 "
        "--num-attention-heads 12 --kv-channels 64 --ffn-hidden-size 3072 --encoder-seq-length 512 "
        "--decoder-seq-length 128 --max-position-embeddings 512 --micro-batch-size 4 --global-batch-size 32 "
        "--vocab-size 28996 --vocab-extra-ids 100 --bf16 --lr-decay-style cosine ";
    assert_ok(read_text("run.sh", "python pretrain_bert.py " SIZES "--bert-no-binary-head", "",
                        "--vocab 30522 --dp 8"));
    assert_options("arch=bert layers=24 hidden=1024 heads=16 seq=2048 norm-eps=1e-05");
    assert_ok(read_text("run.sh", t5, "", "--dp 8"));
    assert_options("arch=t5 layers=24 ffn=3072 seq=576 noise=0.16666667 vocab=29184");   /* 96 + 32 spans of 576 */
    trains = true;
    assert_fails(read_text("run.sh", t5, "", "--dp 8"), E_FORMAT, "program is pretrain_t5.py", "plan, show and budget");
    trains = false;
}

/* The files of Megatron-LM's own tests: arguments by name, true is a flag. */
TEST(test_a_yaml_of_megatron_is_options) {
    static const char sizes[] = "ENV_VARS:\n  NCCL_ALGO: Ring\nMODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 512\n"
        "  --num-attention-heads: 8\n  --seq-length: 1024\n  --max-position-embeddings: 1024\n  --bf16: true\n"
        "  --micro-batch-size: 4\n  --global-batch-size: 32\n  --fp16: false\n  --data-path: ${DATA_PATH}/";
    assert_ok(read_text("model_config.yaml", sizes, "", "--vocab 50304 --dp 8"));
    assert_options("arch=gpt layers=12 hidden=512 seq=1024 precision=bf16 dropout=0.1");
    char bert[1024];
    snprintf(bert, sizeof bert, "%smy-bert_text\n", sizes);
    assert_fails(read_text("model_config.yaml", bert, "", "--vocab 30522 --dp 8"), E_FORMAT, "--arch bert");
    assert_ok(read_text("model_config.yaml", bert, "", "--vocab 30522 --dp 8 --arch bert"));
    assert_options("norm-eps=1e-05 layers=12");
}

/* Two keys say a recipe: of gradients in E5M2, or in E4M3, with scales of blocks or without. */
TEST(test_recipes_of_fp8_are_options) {
    static const char typed[] = "--vocab 50304 --dp 8";
    static const struct { const char *keys, *options; } recipes[] = {
        {"--fp8-format hybrid", "fp8=on fp8-recipe=delayed"},
        {"--fp8-format hybrid --fp8-recipe delayed", "fp8=on fp8-recipe=delayed"},
        {"--fp8-format e4m3 --fp8-recipe mxfp8", "fp8=on fp8-recipe=mxfp8"},
        {"--fp8-recipe mxfp8 --fp8-format hybrid", "fp8=on fp8-recipe=mxfp8-e5m2"},
        {"--fp4-format e2m1", "fp8=on fp8-recipe=nvfp4 fp8-hadamard=on"},
        {"--fp4-format e2m1 --fp4-recipe nvfp4", "fp8=on fp8-recipe=nvfp4 fp8-hadamard=on"}};
    char text[1024];
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        snprintf(text, sizeof text, "p " SIZES "--bf16 %s\n", recipes[i].keys);
        assert_ok(read_text("run.sh", text, "", typed));
        assert_options(recipes[i].options);
    }
    assert_ok(read_text("run.sh", "p " SIZES "--fp8-recipe mxfp8", "", typed));      /* no format: off there, too */
    assert_string_equal(value("fp8"), "off (not the file's)");
    assert_fails(read_text("run.sh", "p " SIZES "--fp8-format e4m3", "", typed), E_FORMAT, "fp8-format is e4m3",
                 "no recipe of this program", "--ignore fp8-format");
    assert_fails(read_text("run.sh", "p " SIZES "--fp8-format hybrid --fp8-recipe blockwise", "", typed), E_FORMAT,
                 "fp8-recipe is blockwise");
    assert_fails(read_text("run.sh", "p " SIZES "--fp4-format e2m1 --fp8-recipe mxfp8", "", typed), E_FORMAT, "fp8");
}

/* ---- files of DeepSpeed, torchtitan, nanotron ---- */

TEST(test_a_ds_config_is_options) {
    assert_ok(read_text("ds.json", "{\"train_batch_size\": 256, \"train_micro_batch_size_per_gpu\": 4, "
        "\"gradient_accumulation_steps\": 8, \"zero_optimization\": {\"stage\": 2, \"overlap_comm\": true}, "
        "\"bf16\": {\"enabled\": true}, \"steps_per_print\": 10}", "", ""));
    assert_options("global-batch=256 micro-batch=4 dp=8 zero=2 precision=bf16");
    assert_fails(read_text("ds.json", "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3, "
        "\"offload_param\": {\"device\": \"nvme\"}}}", "", ""), E_FORMAT, "zero_optimization.offload_param.device");
    assert_fails(read_text("ds.json", "{\"train_batch_size\": \"auto\"}", "", ""), E_FORMAT, "train_batch_size");
    assert_ok(read_text("ds.json", "{\"train_batch_size\": \"auto\"}", "", "--global-batch 8"));
    assert_ok(read_text("ds.json", "{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"Adam\"}}", "", ""));
    assert_options("beta2=0.999 weight-decay=0 lr=0.001 precision=fp32");
    assert_fails(read_text("ds.json", "{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"Adam\", \"params\": "
        "{\"bias_correction\": false}}}", "", ""), E_FORMAT, "bias_correction is false");
    assert_ok(read_text("ds.json", "{\"train_batch_size\": 8, \"gradient_accumulation_steps\": \"auto\", "
        "\"gradient_clipping\": \"auto\", \"bf16\": {\"enabled\": \"auto\"}, \"optimizer\": {\"type\": \"AdamW\", "
        "\"params\": {\"lr\": \"auto\"}}, \"x\": {\"shared_parameters\": {\"enabled\": false}, \"y\": {\"z\": 1}}}",
        "", "--precision bf16"));
    assert_row("gradient_accumulation_steps", "follows from --global-batch");
    assert_row("x.y.z", "does not matter here");
    assert_fails(read_text("ds.json", "{\"train_batch_size\": 8, \"x\": {\"enabled\": true, \"y\": 1}}", "", ""),
                 E_FORMAT, "2 keys cannot be said: x.enabled, x.y");
    assert_ok(read_text("ds.json", "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3, "
        "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/tmp\"}, "
        "\"offload_param\": {\"device\": \"nvme\"}}}", "", ""));
    assert_options("zero=3 offload=params offload-to=disk offload-path=/tmp");
    assert_ok(read_text("ds.json", "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 2, "
        "\"cpu_offload\": true}}", "", ""));
    assert_options("zero=2 offload=optimizer");
    assert_fails(read_text("ds.json", "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3, "
        "\"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"nvme\"}}}", "", ""), E_FORMAT,
        "offload_param.device is nvme", "another place");
    assert_fails(read_text("ds.json", "{\"x\": 1}", "", ""), E_FORMAT, "no model_type", "zero_optimization");
}

#define TITAN "[job]\nname = \"x\"\n[model]\nname = \"llama3\"\nflavor = \"8B\" # Llama 3 8B\n[lr_scheduler]\n" \
    "decay_type = \"cosine\"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n[compile]\ncomponents = [\"model\",\n" \
    "  \"loss\"]\n"

TEST(test_mxfp8_of_torchtitan_is_a_recipe) {
#define MX "[quantize.linear.mx]\nrecipe_name = \"mxfp8_cublas\"\n"
#define CONVERTED "[job]\n[model]\nconverters = [\"quantize.linear.mx\"]\nname = \"llama3\"\nflavor = \"8B\"\n" \
    "[lr_scheduler]\ndecay_type = \"cosine\"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n"
    assert_ok(read_text("a.toml", CONVERTED MX, "", "--dp 8"));
    assert_options("fp8=on fp8-recipe=mxfp8 fp8-block-scale=down");
    assert_ok(read_text("a.toml", TITAN MX, "", "--dp 8"));        /* a recipe, and no converter that reads it */
    assert_string_equal(value("fp8"), "off (not the file's)");
    assert_fails(read_text("a.toml", CONVERTED, "", "--dp 8"), E_FORMAT, "--ignore model.converters");
    assert_ok(read_text("a.toml", CONVERTED, "model.converters", "--dp 8"));
}

TEST(test_a_toml_of_torchtitan_is_options) {
    assert_ok(read_text("a.toml", TITAN "[parallelism]\ntensor_parallel_degree = 2\n[activation_checkpoint]\n"
                        "mode = \"full\"\n", "", "--dp 8 --vocab 128256"));
    assert_options("model=llama3-8b seq=8192 tp=2 sp=on zero=3 micro-batch=2 global-batch=16 recompute=full "
                   "precision=bf16 grad-fp32=on");
    assert_fails(read_text("a.toml", TITAN "[activation_checkpoint]\nmode = \"full\"\n", "", ""), E_FORMAT,
                 "type --dp or --global-batch");
    assert_ok(read_text("a.toml", TITAN, "", "--dp 8"));           /* every second layer, by default */
    assert_options("recompute=block:16 rope-scaling=llama3:8:8192:1:4");
    assert_ok(read_text("a.toml", "[model]\nname = \"llama3\"\nflavor = \"405B\"\ntokenizer_path = \"x\"\n"
                        "norm_type = \"rmsnorm\"\n[lr_scheduler]\ndecay_type = \"cosine\"\n[training]\nbatch_size = 1\n"
                        "seq_len = 8192\ntensor_parallel_degree = 8\ncompile = true\nwarmup_steps = 600\n"
                        "[experimental]\npipeline_parallel_degree = 2\n[activation_checkpoint]\nmode = \"selective\"\n"
                        "selective_ac_option = \"9\"\n", "", "--dp 8 --vocab 128256"));   /* v0.1.0's names */
    assert_options("arch=llama layers=126 hidden=16384 heads=128 kv-heads=8 ffn=53248 tie=off rope-theta=500000 tp=8 "
                   "pp=2 warmup=600 recompute=block:7");
    assert_string_equal(value("rope-scaling"), "none (not the file's)");
    assert_ok(read_text("a.toml", "[model]\nname = \"qwen3\"\nflavor = \"8B\"\n[training]\nseq_len = 4096\n"
                        "local_batch_size = 1\n[parallelism]\ndata_parallel_replicate_degree = 2\n"
                        "data_parallel_shard_degree = 8\n", "", ""));
    assert_options("model=qwen3-8b seq=4096 dp=16 zero=3 shard=8 recompute=block:18 global-batch=16");
    assert_string_equal(value("rope-scaling"), "none (not the file's)");
    assert_ok(read_text("a.toml", "[model]\nname = \"qwen3\"\nflavor = \"32B\"\n[training]\nseq_len = 4096\n"
                        "local_batch_size = 1\n", "", "--dp 8"));
    assert_options("layers=64 hidden=5120 heads=64 kv-heads=8 head-dim=128 ffn=25600 qk-norm=head norm-eps=1e-06 "
                   "rope-theta=1000000 vocab=151936 tie=off");
    assert_fails(read_text("a.toml", TITAN "[parallelism]\ndata_parallel_replicate_degree = 2\n", "", "--dp 8"),
                 E_FORMAT, "data_parallel_shard_degree", "-1");
    assert_fails(read_text("a.toml", "[model]\nname = \"llama3\"\nflavor = \"9B\"\n", "", "--dp 8"), E_FORMAT,
                 "model.flavor is 9B", "8B, 70B, 405B and debugmodel");
    assert_ok(read_text("a.toml", TITAN "[lr_scheduler]\nwarmup_steps = 2_000\n[activation_checkpoint]\nmode = 'none'\n"
                        "[parallelism]\nfsdp_reshard_after_forward = \"default\"\npipeline_parallel_degree = 2\n", "",
                        "--dp 8"));
    assert_options("warmup=2000 recompute=none zero=2 pp=2");
    assert_fails(read_text("a.toml", "[model]\nflavor = \n", "", ""), E_FORMAT, ":2: flavor is");
}

#define NANOTRON "parallelism:\n  dp: 2\n  tp: 4\n  pp: 2\n  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\ntokens:\n" \
    "  micro_batch_size: 4\n  batch_accumulation_per_replica: 8\n  sequence_length: 1024\noptimizer:\n  " \
    "zero_stage: 1\n  accumulate_grad_in_fp32: true\nmodel:\n  dtype: bfloat16\n  model_config:\n    " \
    "num_hidden_layers: 16\n    hidden_size: 512\n    num_attention_heads: 8\n    num_key_value_heads: 4\n    " \
    "intermediate_size: 1536\n    max_position_embeddings: 1024\n    tie_word_embeddings: False\n    " \
    "vocab_size: 32000\n    is_llama_config: yes\n"

TEST(test_a_yaml_of_nanotron_is_options) {
    assert_ok(read_text("a.yaml", NANOTRON "    rms_norm_eps: 1.0e-05\n    rope_scaling: null\n", "", ""));
    assert_options("arch=llama layers=16 hidden=512 heads=8 kv-heads=4 ffn=1536 seq=1024 vocab=32000 tie=off dp=2 tp=4 "
                   "pp=2 sp=on zero=1 micro-batch=4 global-batch=64 grad-fp32=on precision=bf16");
    assert_ok(read_text("a.yaml", NANOTRON "    rms_norm_eps: 2e-06\n    rope_theta: 500000.0\n", "", ""));
    assert_options("norm-eps=2e-06 rope-theta=500000");
    assert_ok(read_text("a.yaml", NANOTRON "general:\n  seed: 70_000\n", "", ""));    /* YAML's digits in groups */
    assert_options("seed=70000");
    assert_ok(read_text("a.yaml", NANOTRON, "", ""));              /* its default */
    assert_options("norm-eps=1e-06");
    assert_ok(read_text("a.yaml", NANOTRON "    is_qwen2_config: true\n    attention_bias: true\n    rope_scaling:\n"
                        "      factor: 32.0\n", "", ""));
    assert_options("arch=llama attention-bias=qkv");
    assert_row("model.model_config.rope_scaling.factor", "does not matter here");
    assert_fails(read_text("a.yaml", "a: [1\nb: }", "", ""), E_FORMAT, "not YAML");
    assert_fails(read_text("a.yaml", "a: 1\n", "", ""), E_FORMAT, "no kind that --from reads");
}

/* ---- both ways: what plan --stack writes is read back to the same layout ---- */

/* Cut the n-th part out of what stack_write_command has written: arguments, or a file's text. */
static char *part_of(const char *text, const char *title) {
    const char *at = strstr(text, title), *end, *arguments = strchr(title, ':') ? NULL : at;
    assert_non_null(at);
    if (!arguments) at = strchr(at, '\n') + 1;
    end = strstr(at, arguments ? "\n  ds_config.json" : "\n  without a key");
    const char *rest = strstr(at, "\n  without a key");
    if (!end || (rest && rest < end)) end = rest;
    return strndup(at, end ? (size_t)(end - at) : strlen(at));
}

static void there_and_back(enum stack_command command, const char *title, const char *typed, const char *again,
                           const char *names) {
    char *words[40], line[512], wanted[1024] = "", name[40], *text;
    size_t size;
    int n = 0;
    struct options *o;
    static struct plan p;
    const struct stack stack = {.name = "theirs", .command = command};
    assert_ok(recipe_options_create(NULL, &p, &o));
    snprintf(line, sizeof line, "%s", typed);
    for (char *w = strtok(line, " "); w; w = strtok(NULL, " ")) words[n++] = w;
    assert_ok(options_parse(o, n, words));
    assert_ok(recipe_preset(&p, o));
    FILE *out = open_memstream(&text, &size);
    stack_write_command(&stack, o, p.arch->name, "", out);
    fclose(out);
    struct options *kept = options;
    options = o;
    for (int used = 0; sscanf(names, " %39s%n", name, &used) == 1; names += used) {
        (void)value(name);
        seen[strcspn(seen, " ")] = 0;                              /* without its source */
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), " %s=%.60s", name, seen);
    }
    options = kept;
    char *part = part_of(text, title);
    enum status status = read_text("back", part, "", again);
    if (status != OK) fail_msg("%s\n%s", part, table);
    assert_options(wanted);
    free(part);
    free(text);
    options_destroy(&o);
}

#define LAYOUT " --tp 4 --pp 2 --dp 4 --micro-batch 2 --global-batch 64 --sp on "
#define SIZED " layers hidden heads kv-heads ffn seq tie rope-theta"
#define LAID " tp pp micro-batch global-batch precision"

TEST(test_what_plan_writes_is_read_back) {
    static const char llama[] = "--model llama3-70b --precision bf16 --vocab 128256" LAYOUT;
    char typed[512];
    there_and_back(STACK_MEGATRON_CORE, "pretrain_gpt.py", "--model qwen3-0.6b --precision bf16" LAYOUT,
                   "--vocab 151936", SIZED LAID " qk-norm head-dim norm-eps");
    snprintf(typed, sizeof typed, "%s --zero 1 --cp 2 --schedule interleaved --chunks 5 --recompute full", llama);
    there_and_back(STACK_MEGATRON_CORE, "pretrain_gpt.py", typed, "--vocab 128256", SIZED LAID " sp zero cp chunks "
                   "schedule recompute");
    snprintf(typed, sizeof typed, "%s --zero 3 --recompute block:3", llama);
    there_and_back(STACK_MEGATRON_CORE, "pretrain_gpt.py", typed, "--vocab 128256", SIZED LAID " sp zero recompute");
    snprintf(typed, sizeof typed, "%s --window 4096 --window-layers ssf", llama);
    there_and_back(STACK_MEGATRON_CORE, "pretrain_gpt.py", typed, "--vocab 128256", SIZED LAID " window window-layers");
    assert_row("window-size", "--window");
    assert_row("window-attn-skip-freq", "--window-layers");
    static const char *const recipes[] = {"delayed", "mxfp8", "mxfp8-e5m2", "nvfp4 --fp8-hadamard on"};
    for (int i = 0; i < 4; i++) {
        snprintf(typed, sizeof typed, "%s --fp8 on --fp8-recipe %s", llama, recipes[i]);
        there_and_back(STACK_MEGATRON_CORE, "pretrain_gpt.py", typed, "--vocab 128256",
                       SIZED LAID " fp8 fp8-recipe fp8-hadamard");
    }
    snprintf(typed, sizeof typed, "%s --pp-split 39,41 --recompute selective", llama);
    there_and_back(STACK_MEGATRON_CORE, "pretrain_gpt.py", typed, "--vocab 128256", SIZED LAID " sp recompute");
    there_and_back(STACK_MEGATRON_2021, "pretrain_gpt.py", "--model gpt2-1558m --precision fp16 --tp 5 --dp 4 "
                   "--micro-batch 2 --global-batch 64 --dropout 0.1", "--vocab 50257", " layers hidden heads seq "
                   "dropout" LAID);
    snprintf(typed, sizeof typed, "%s --zero 1 --recompute full", llama);
    there_and_back(STACK_DEEPSPEED, "pretrain_gpt.py", typed, "--vocab 128256", " layers hidden heads kv-heads ffn seq "
                   "tie recompute zero sp" LAID);
    there_and_back(STACK_DEEPSPEED, "ds_config.json:", typed, "", " dp micro-batch global-batch zero precision");
    snprintf(typed, sizeof typed, "%s --zero 3 --recompute selective --grad-fp32 on", llama);
    there_and_back(STACK_TORCHTITAN, "train.toml:", typed, "", " model dp zero sp recompute seq grad-fp32" LAID);
    snprintf(typed, sizeof typed, "%s --zero 1 --recompute full --grad-fp32 on", llama);
    there_and_back(STACK_NANOTRON, "config.yaml:", typed, "", SIZED LAID " vocab sp zero recompute grad-fp32 dp");
    assert_string_equal(value("norm-eps"), "0 (not the file's)");  /* 1e-5, which is not its default */
}

/* What the table of keys shows is an option, or several. */
TEST(test_keys_are_shown_as_options) {
    assert_ok(read_text("config.json", GPT2 "}", "", ""));
    for (int i = 0; i < N_STACK_COMMANDS * STACK_MOST_FILES; i++)
        for (const struct stack_key *k = stack_files[i / 2][i % 2].keys; k && k->theirs; k++) {
            char name[40];
            const char *at = *k->theirs && *k->ours ? stack_key_shown(k->ours) : "";
            for (int n; sscanf(at, "%39[a-z0-9-]%n", name, &n) == 1; at += n + strspn(at + n, ", ")) {
                if (!strcmp(value(name), "no such option") && strcmp(name, "tp-overlap") != 0)   /* which is free */
                    fail_msg("%s is shown as %s", k->theirs, name);
                if (!strcmp(name, "arch")) break;                  /* "arch llama" */
            }
        }
}

/* Norms that a stack has no key for are listed. */
TEST(test_norms_without_a_key_are_named) {
    const struct { enum stack_command command; const char *model, *rest; } cases[] = {
        {STACK_NANOTRON, "qwen3-8b", " --qk-norm head"}, {STACK_TORCHTITAN, "qwen3-8b", " --qk-norm head"},
        {STACK_DEEPSPEED, "qwen3-8b", " --qk-norm head"}, {STACK_MEGATRON_CORE, "olmo2-7b", " --qk-norm all"},
        {STACK_MEGATRON_CORE, "olmo2-7b", " --post-norm on"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text, line[64], *words[8];
        size_t size;
        int n = 0;
        struct options *o;
        static struct plan p;
        const struct stack stack = {.name = "theirs", .command = cases[i].command};
        assert_ok(recipe_options_create(NULL, &p, &o));
        snprintf(line, sizeof line, "--model %s --dp 1 --micro-batch 1", cases[i].model);
        for (char *w = strtok(line, " "); w; w = strtok(NULL, " ")) words[n++] = w;
        assert_ok(options_parse(o, n, words));
        assert_ok(recipe_preset(&p, o));
        FILE *out = open_memstream(&text, &size);
        stack_write_command(&stack, o, p.arch->name, "", out);
        fclose(out);
        const char *rest = strstr(text, "without a key there:");
        if (!rest || !strstr(rest, cases[i].rest)) fail_msg("no %s in\n%s", cases[i].rest, text);
        free(text);
        options_destroy(&o);
    }
}

TESTS(unit_test(test_a_folder_or_another_text), unit_test(test_bert_and_t5_of_megatron),
      unit_test(test_a_yaml_of_megatron_is_options), unit_test(test_what_plan_writes_is_read_back),
      unit_test(test_norms_without_a_key_are_named), unit_test(test_a_launch_script_is_options),
      unit_test(test_keys_are_shown_as_options), unit_test(test_what_only_the_shell_knows),
      unit_test(test_keys_that_belong_together),
      unit_test(test_windows_of_layers_by_a_list), unit_test(test_some_of_the_keys_that_belong_together),
      unit_test(test_recipes_of_fp8_are_options), unit_test(test_mxfp8_of_torchtitan_is_a_recipe),
      unit_test(test_a_ds_config_is_options), unit_test(test_a_toml_of_torchtitan_is_options),
      unit_test(test_a_yaml_of_nanotron_is_options), unit_test(test_a_key_that_transformers_does_not_read),
      unit_test(test_a_config_json_is_options), unit_test(test_a_config_json_that_cannot_be_said),
      unit_test(test_what_is_typed_wins_over_the_file))

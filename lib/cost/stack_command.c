/* How the stack's own program is started with a layout, from one table of keys: theirs, ours, and when a key is
 * written. */
#include "lib/cost/stack.h"

#include "lib/base/stage_notation.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ARGUMENTS: "--key value". JSON, TOML, YAML: sections with keys; a section of YAML may be nested by a dot. */
enum form { ARGUMENTS, JSON, TOML, YAML };
/* A key is written if the option has any value; a value above 1; one that is not off, 0 or empty; off; or is the word
 * `is`. there: what is written in place of the value, as its form spells it; "": an argument without a value.
 * theirs "": the program does so without a key. */
enum when { ALWAYS, ABOVE_1, ON, OFF, IS };
struct key { const char *section, *theirs, *ours; enum when when; const char *is, *there; };

/* NVIDIA/Megatron-LM d98e8a6, megatron/training/arguments.py, and the dataclasses that it makes arguments of; of 2021
 * and 2022: fc7f4f0, megatron/arguments.py */
#define MEGATRON                                                                                                      \
    {"", "num-layers", "layers", ALWAYS, NULL, NULL}, {"", "hidden-size", "hidden", ALWAYS, NULL, NULL},              \
        {"", "num-attention-heads", "heads", ALWAYS, NULL, NULL}, {"", "ffn-hidden-size", "ffn", ON, NULL, NULL},     \
        {"", "seq-length", "seq", ALWAYS, NULL, NULL}, {"", "max-position-embeddings", "seq", ALWAYS, NULL, NULL},    \
        {"", "hidden-dropout", "dropout", ALWAYS, NULL, NULL},                                                        \
        {"", "attention-dropout", "dropout", ALWAYS, NULL, NULL},                                                     \
        {"", "micro-batch-size", "micro-batch", ALWAYS, NULL, NULL},                                                  \
        {"", "global-batch-size", "global-batch", ALWAYS, NULL, NULL},                                                \
        {"", "tensor-model-parallel-size", "tp", ALWAYS, NULL, NULL},                                                 \
        {"", "pipeline-model-parallel-size", "pp", ALWAYS, NULL, NULL}, {"", "bf16", "precision", IS, "bf16", ""},    \
        {"", "fp16", "precision", IS, "fp16", ""}, {"", "sequence-parallel", "sp", ON, NULL, ""}
#define MEGATRON_RECOMPUTE                                                                                            \
    {"", "recompute-granularity", "recompute", IS, "full", NULL},                                                     \
        {"", "recompute-method", "recompute", IS, "full", "uniform"},                                                 \
        {"", "recompute-num-layers", "recompute", IS, "full", "1"},                                                   \
        {"", "recompute-granularity", "recompute", IS, "selective", NULL},                                            \
        {"", "recompute-granularity", "recompute-blocks", ON, NULL, "full"},                                          \
        {"", "recompute-method", "recompute-blocks", ON, NULL, "block"},                                              \
        {"", "recompute-num-layers", "recompute-blocks", ON, NULL, NULL}
#define MEGATRON_CHUNKS {"", "num-layers-per-virtual-pipeline-stage", "layers-of-a-chunk", ON, NULL, NULL}
#define MEGATRON_LLAMA                                                                                                \
    {"", "swiglu", "llama", ON, NULL, ""}, {"", "disable-bias-linear", "llama", ON, NULL, ""},                    \
        {"", "untie-embeddings-and-output-weights", "tie", OFF, NULL, ""}

static const struct key MEGATRON_2021[] = {
    MEGATRON, MEGATRON_RECOMPUTE, MEGATRON_CHUNKS, {"", "use-distributed-optimizer", "zero", ON, NULL, ""}, {0}};
static const struct key MEGATRON_CORE[] = {
    MEGATRON,
    MEGATRON_RECOMPUTE,
    MEGATRON_CHUNKS,
    MEGATRON_LLAMA,
    {"", "normalization", "llama", ON, NULL, "RMSNorm"},
    {"", "position-embedding-type", "llama", ON, NULL, "rope"},
    {"", "rotary-base", "rope", ON, NULL, NULL},
    {"", "group-query-attention", "kv-heads", ON, NULL, ""},
    {"", "num-query-groups", "kv-heads", ON, NULL, NULL},
    {"", "context-parallel-size", "cp", ABOVE_1, NULL, NULL},
    {"", "num-experts", "experts", ON, NULL, NULL},
    {"", "moe-router-topk", "choices", ON, NULL, NULL},
    {"", "expert-model-parallel-size", "ep", ABOVE_1, NULL, NULL},
    {"", "use-distributed-optimizer", "zero", ON, NULL, ""},
    {"", "overlap-grad-reduce", "dp", ABOVE_1, NULL, ""},
    {"", "overlap-param-gather", "zero", ON, NULL, ""},
    {"", "pipeline-model-parallel-layout", "notation", ON, NULL, NULL},
    {"", "use-megatron-fsdp", "zero", IS, "2", ""},
    {"", "data-parallel-sharding-strategy", "zero", IS, "2", "optim_grads"},
    {"", "use-megatron-fsdp", "zero", IS, "3", ""},
    {"", "data-parallel-sharding-strategy", "zero", IS, "3", "optim_grads_params"},
    {"", "accumulate-allreduce-grads-in-fp32", "grad-fp32", ON, NULL, ""},
    {"", "tp-comm-overlap", "tp-overlap", ON, NULL, ""},
    {"", "fp8-format", "fp8", ON, NULL, "hybrid"},
    {0}};

/* deepspeedai/Megatron-DeepSpeed 4efb479, megatron/arguments.py; deepspeedai/DeepSpeed 0.19, runtime/config.py */
static const struct key MEGATRON_DEEPSPEED[] = {
    MEGATRON,
    MEGATRON_LLAMA,
    {"", "normalization", "llama", ON, NULL, "rmsnorm"},
    {"", "use-rotary-position-embeddings", "llama", ON, NULL, ""},
    {"", "num-key-value-heads", "kv-heads", ON, NULL, NULL},
    {"", "checkpoint-activations", "recompute", IS, "full", ""},
    {"", "deepspeed-activation-checkpointing", "recompute", IS, "full", ""},
    {"", "no-pipeline-parallel", "pp", IS, "1", ""},
    {"", "zero-stage", "zero", ALWAYS, NULL, NULL},
    {"", "deepspeed", "tp", ALWAYS, NULL, ""},
    {"", "deepspeed_config", "tp", ALWAYS, NULL, "ds_config.json"},
    {0}};
static const struct key DS_CONFIG[] = {
    {"", "train_batch_size", "global-batch", ALWAYS, NULL, NULL},
    {"", "train_micro_batch_size_per_gpu", "micro-batch", ALWAYS, NULL, NULL},
    {"", "gradient_accumulation_steps", "microbatches", ALWAYS, NULL, NULL},
    {"zero_optimization", "stage", "zero", ALWAYS, NULL, NULL},
    {"bf16", "enabled", "precision", IS, "bf16", "true"},
    {"fp16", "enabled", "precision", IS, "fp16", "true"},
    {"data_types", "grad_accum_dtype", "grad-fp32", ON, NULL, "\"fp32\""},
    {0}};

/* pytorch/torchtitan v0.2.2, torchtitan/config/job_config.py: later versions have no TOML. FSDP's shards take what
 * ZeRO-1 and 2 shard as well, and weights stay whole between the passes. */
static const struct key TITAN[] = {
    {"model", "name", "llama", ON, NULL, "\"llama3\""},
    {"model", "flavor", "model", IS, "llama3-8b", "\"8B\""},
    {"model", "flavor", "model", IS, "llama3-70b", "\"70B\""},
    {"training", "local_batch_size", "batch-of-a-replica", ALWAYS, NULL, NULL},
    {"training", "global_batch_size", "global-batch", ALWAYS, NULL, NULL},
    {"training", "seq_len", "seq", ALWAYS, NULL, NULL},
    {"parallelism", "data_parallel_replicate_degree", "replicas", ALWAYS, NULL, NULL},
    {"parallelism", "data_parallel_shard_degree", "shards", ALWAYS, NULL, NULL},
    {"parallelism", "fsdp_reshard_after_forward", "zero", IS, "3", "\"always\""},
    {"parallelism", "fsdp_reshard_after_forward", "zero", IS, "2", "\"never\""},
    {"parallelism", "fsdp_reshard_after_forward", "zero", IS, "1", "\"never\""},
    {"parallelism", "tensor_parallel_degree", "tp", ALWAYS, NULL, NULL},
    {"parallelism", "context_parallel_degree", "cp", ABOVE_1, NULL, NULL},
    {"parallelism", "expert_parallel_degree", "ep", ABOVE_1, NULL, NULL},
    {"parallelism", "pipeline_parallel_degree", "pp", ALWAYS, NULL, NULL},
    {"parallelism", "pipeline_parallel_schedule", "schedule", IS, "1f1b", "\"1F1B\""},
    {"parallelism", "pipeline_parallel_schedule", "schedule", IS, "interleaved", "\"Interleaved1F1B\""},
    {"parallelism", "pipeline_parallel_layers_per_stage", "layers-of-a-chunk", ON, NULL, NULL},
    {"parallelism", "pipeline_parallel_microbatch_size", "micro-batch", ALWAYS, NULL, NULL},
    {"activation_checkpoint", "mode", "recompute", IS, "none", "\"none\""},
    {"activation_checkpoint", "mode", "recompute", IS, "selective", "\"selective\""},
    {"activation_checkpoint", "mode", "recompute", IS, "full", "\"full\""},
    {"", "", "sp", ON, NULL, NULL},                            /* wherever there is tp: models/llama3/infra */
    {0}};

/* huggingface/nanotron 2411b02, src/nanotron/config: parallelism_config.py, config.py, models_config.py */
static const struct key NANOTRON[] = {
    {"parallelism", "dp", "dp", ALWAYS, NULL, NULL},
    {"parallelism", "tp", "tp", ALWAYS, NULL, NULL},
    {"parallelism", "pp", "pp", ALWAYS, NULL, NULL},
    {"parallelism", "pp_engine", "pp", ALWAYS, NULL, "1f1b"},
    {"parallelism", "tp_mode", "sp", ON, NULL, "REDUCE_SCATTER"},
    {"parallelism", "tp_mode", "sp", OFF, NULL, "ALL_REDUCE"},
    {"parallelism", "context_parallel_size", "cp", ABOVE_1, NULL, NULL},
    {"parallelism", "expert_parallel_size", "ep", ABOVE_1, NULL, NULL},
    {"parallelism", "recompute_layer", "recompute", IS, "full", "true"},
    {"tokens", "micro_batch_size", "micro-batch", ALWAYS, NULL, NULL},
    {"tokens", "batch_accumulation_per_replica", "microbatches", ALWAYS, NULL, NULL},
    {"tokens", "sequence_length", "seq", ALWAYS, NULL, NULL},
    {"optimizer", "zero_stage", "zero", ALWAYS, NULL, NULL},
    {"optimizer", "accumulate_grad_in_fp32", "grad-fp32", ON, NULL, "true"},
    {"model.model_config", "num_hidden_layers", "layers", ALWAYS, NULL, NULL},
    {"model.model_config", "hidden_size", "hidden", ALWAYS, NULL, NULL},
    {"model.model_config", "num_attention_heads", "heads", ALWAYS, NULL, NULL},
    {"model.model_config", "num_key_value_heads", "kv-heads", ON, NULL, NULL},
    {"model.model_config", "intermediate_size", "ffn", ON, NULL, NULL},
    {"model.model_config", "max_position_embeddings", "seq", ALWAYS, NULL, NULL},
    {"model.model_config", "rope_theta", "rope", ON, NULL, NULL},
    {"model.model_config", "tie_word_embeddings", "tie", ON, NULL, "true"},
    {"model.model_config", "tie_word_embeddings", "tie", OFF, NULL, "false"},
    {"model.model_config", "vocab_size", "vocab", ALWAYS, NULL, NULL},
    {"", "", "llama", ON, NULL, NULL},                         /* the model_config is LlamaConfig */
    {0}};

static const struct { const char *title; enum form form; const struct key *keys; } FILES[N_STACK_COMMANDS][2] = {
    [STACK_MEGATRON_2021] = {{"pretrain_gpt.py", ARGUMENTS, MEGATRON_2021}},
    [STACK_MEGATRON_CORE] = {{"pretrain_gpt.py", ARGUMENTS, MEGATRON_CORE}},
    [STACK_DEEPSPEED] = {{"pretrain_gpt.py", ARGUMENTS, MEGATRON_DEEPSPEED}, {"ds_config.json", JSON, DS_CONFIG}},
    [STACK_TORCHTITAN] = {{"train.toml", TOML, TITAN}},
    [STACK_NANOTRON] = {{"config.yaml", YAML, NANOTRON}}};

/* ---- values, by the names of options and a few that follow from them ---- */
enum { MOST_VALUES = 256, LONGEST = 256 };
enum asked { NOT_ASKED, OF_MODEL, ASKED };                     /* by the model's preset; by the user or the layout */
struct values { int n; struct { char name[40], text[LONGEST]; enum asked asked; } at[MOST_VALUES]; };

static const char *value(const struct values *v, const char *name) {
    for (int i = v->n - 1; i >= 0; i--)                        /* the last one counts */
        if (!strcmp(v->at[i].name, name)) return v->at[i].text;
    return "";
}
static int64_t number(const struct values *v, const char *name) { return atoll(value(v, name)); }

static void add(struct values *v, const char *name, const char *text, enum asked asked) {
    if (v->n == MOST_VALUES) return;
    snprintf(v->at[v->n].name, sizeof v->at[v->n].name, "%s", name);
    memcpy(v->at[v->n].text, text, strnlen(text, LONGEST - 1));   /* it may be another one's, and the rest is zeros */
    v->at[v->n++].asked = asked;
}
static void add_number(struct values *v, const char *name, int64_t n) {
    char text[LONGEST];
    snprintf(text, sizeof text, "%" PRId64, n);
    add(v, name, text, NOT_ASKED);
}

static void add_option(void *self, const struct option *o, const char *text, enum option_source source) {
    bool of_plan = !strcmp(o->group, "plan") || !strcmp(o->name, "cluster") || !strcmp(o->name, "device"),
         of_model = source == FROM_PRESET && !strcmp(o->group, "model");
    if (!of_plan) add(self, o->name, text, of_model ? OF_MODEL : source >= FROM_FILE ? ASKED : NOT_ASKED);
}

/* "--tp 4 --sp on": a layout. */
static void add_layout(struct values *v, const char *layout) {
    char name[40], text[LONGEST];
    int used = 0;
    for (; sscanf(layout, " --%39s %255s%n", name, text, &used) == 2; layout += used) add(v, name, text, ASKED);
}

/* Stages that are not alike, "15,17", as Megatron's "Et*15|t*17L". */
static void add_notation(struct values *v) {
    char text[LONGEST];
    const char *split = value(v, "pp-split");
    if (strchr(split, 't')) add(v, "notation", split, NOT_ASKED);
    else if (stage_notation_write(split, text, sizeof text)) add(v, "notation", text, NOT_ASKED);
    add_number(v, "layers-of-a-chunk", 0);
}

static void add_what_follows(struct values *v) {
    int64_t dp = number(v, "dp"), chunks = number(v, "chunks") > 1 ? number(v, "chunks") : 0;
    const char *recompute = value(v, "recompute");
    bool sharded = number(v, "zero") > 0,
         llama = !strcmp(value(v, "arch"), "llama") || !strcmp(value(v, "arch"), "mixtral");
    add_number(v, "microbatches", number(v, "global-batch") / (dp * number(v, "micro-batch")));
    add_number(v, "batch-of-a-replica", number(v, "global-batch") / dp);
    add_number(v, "layers-of-a-chunk", chunks ? number(v, "layers") / (number(v, "pp") * chunks) : 0);
    add_number(v, "replicas", sharded ? 1 : dp);
    add_number(v, "shards", sharded ? dp : 1);
    if (llama) add(v, "llama", "on", NOT_ASKED), add(v, "rope", value(v, "rope-theta"), NOT_ASKED);
    if (number(v, "experts") > 0) add(v, "choices", value(v, "experts-per-token"), NOT_ASKED);
    if (*value(v, "pp-split")) add_notation(v);
    if (!strncmp(recompute, "block:", 6)) add(v, "recompute-blocks", recompute + 6, NOT_ASKED);
}

/* ---- writing ---- */
static bool is_on(const char *text) { return *text && strcmp(text, "off") != 0 && strcmp(text, "0") != 0; }

static bool is_written(const struct key *k, const struct values *v) {
    const char *text = value(v, k->ours);
    switch (k->when) {
    case ABOVE_1: return number(v, k->ours) > 1;
    case ON: return is_on(text);
    case OFF: return !is_on(text);
    case IS: return !strcmp(text, k->is);
    default: return true;
    }
}
static const char *written(const struct key *k, const struct values *v) {
    return k->there ? k->there : value(v, k->ours);
}

static void write_arguments(FILE *f, const char *program, const struct key *k, const struct values *v) {
    int column = fprintf(f, "  %s", program);
    for (; k->theirs; k++) {
        if (!*k->theirs || !is_written(k, v)) continue;
        const char *text = written(k, v), *quote = strpbrk(text, "|*()") ? "'" : "";
        int length = (int)(strlen(k->theirs) + strlen(text) + 2 * strlen(quote)) + 4;
        if (column + length > 116) column = fprintf(f, " \\\n     ") - 3;
        column += fprintf(f, " --%s%s%s%s%s", k->theirs, *text ? " " : "", quote, text, quote);
    }
    fprintf(f, "\n");
}

static void write_json(FILE *f, const struct key *k, const struct values *v) {
    json_t *all = json_object();
    for (; k->theirs; k++) {
        if (!*k->theirs || !is_written(k, v)) continue;
        json_t *section = *k->section ? json_object_get(all, k->section) : all;
        if (!section) json_object_set_new(all, k->section, section = json_object());
        json_object_set_new(section, k->theirs, json_loads(written(k, v), JSON_DECODE_ANY, NULL));
    }
    json_dumpf(all, f, JSON_INDENT(2));
    fprintf(f, "\n");
    json_decref(all);
}

/* Lines "key = value" under "[section]", or "key: value" under "section:", two blanks deeper for each dot. */
static void write_lines(FILE *f, enum form form, const struct key *k, const struct values *v) {
    const char *section = "", *dot;
    for (; k->theirs; k++) {
        if (!*k->theirs || !is_written(k, v)) continue;
        dot = strchr(k->section, '.');
        if (strcmp(section, k->section) != 0) {
            if (form == TOML) fprintf(f, "[%s]\n", k->section);
            else if (dot) fprintf(f, "%.*s:\n  %s:\n", (int)(dot - k->section), k->section, dot + 1);
            else fprintf(f, "%s:\n", k->section);
        }
        section = k->section;
        if (form == TOML) fprintf(f, "%s = %s\n", k->theirs, written(k, v));
        else fprintf(f, "%s%s: %s\n", dot ? "    " : "  ", k->theirs, written(k, v));
    }
}

static bool has_written(int command, const struct values *v, const char *ours) {
    for (int i = 0; i < 2; i++)
        for (const struct key *k = FILES[command][i].keys; k && k->theirs; k++)
            if (!strcmp(k->ours, ours) && is_written(k, v)) return true;
    return false;
}

/* Does a key say the option's value, or is it what there is without a key? */
static bool is_said(int command, const struct values *v, const char *name) {
    /* said by others, or by how many processes are started */
    static const char *const follow[] = {"model",  "dp",         "global-batch",      "schedule",
                                         "chunks", "rope-theta", "experts-per-token"};
    const char *text = value(v, name);
    bool said = !is_on(text) || !strcmp(text, "none") || !strcmp(text, "gpt");
    for (size_t i = 0; i < sizeof follow / sizeof *follow; i++) said |= !strcmp(follow[i], name);
    said |= number(v, name) == 1 && (!strcmp(name, "cp") || !strcmp(name, "ep"));
    if (!strcmp(name, "arch")) name = "llama";
    if (!strcmp(name, "pp-split")) name = "notation";
    if (!strncmp(text, "block:", 6)) name = "recompute-blocks";
    return said || has_written(command, v, name);
}

/* What was asked for, or is the model's or the layout's, and no key says. A name of the model says its sizes. */
static void write_rest(FILE *f, const struct stack *s, const struct values *v) {
    bool named = has_written(s->command, v, "model");
    int n = 0;
    for (int i = 0; i < v->n; i++) {
        const char *name = v->at[i].name;
        bool counts = v->at[i].asked > (named ? OF_MODEL : NOT_ASKED) && value(v, name) == v->at[i].text;
        if (counts && !is_said(s->command, v, name) && !strstr(s->options, name))
            fprintf(f, "%s --%s %s", n++ ? "" : "  without a key there:", name, v->at[i].text);
    }
    if (n) fprintf(f, "\n");
}

void stack_write_command(const struct stack *s, const struct options *o, const char *arch, const char *layout,
                         FILE *f) {
    struct values v = {0};
    options_each(o, add_option, &v);
    add(&v, "arch", arch, ASKED);
    add_layout(&v, layout);
    add_what_follows(&v);
    if (s->command == STACK_NONE)
        fprintf(f, "  a layout of %s, as options of this program: %s\n", s->name, layout);
    if (s->tp_hidden_part > 0) add(&v, "tp-overlap", "on", NOT_ASKED);
    for (int i = 0; i < 2 && FILES[s->command][i].title; i++) {
        enum form form = FILES[s->command][i].form;
        const struct key *keys = FILES[s->command][i].keys;
        if (form == ARGUMENTS) {
            write_arguments(f, FILES[s->command][i].title, keys, &v);
            continue;
        }
        fprintf(f, "  %s:\n", FILES[s->command][i].title);
        if (form == JSON) write_json(f, keys, &v);
        else write_lines(f, form, keys, &v);
    }
    write_rest(f, s, &v);
}

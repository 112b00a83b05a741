/* The tables of keys: theirs, ours, when a key is written, and what it becomes when it is read. */
#include "lib/cost/stack.h"

#include <string.h>

/* Short names, so that a row is a line. */
#define ALWAYS KEY_ALWAYS
#define ABOVE_1 KEY_ABOVE_1
#define ON KEY_ON
#define OFF KEY_OFF
#define IS KEY_IS
#define READ KEY_READ
#define MUST KEY_MUST
#define TRAINS KEY_TRAINS

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
/* Their names before 2022: v2.5's megatron/arguments.py */
#define MEGATRON_CHECKPOINTS                                                                                          \
    {"", "checkpoint-activations", "recompute", READ, NULL, "full"},                                                  \
        {"", "activations-checkpoint-method", "replay-method", READ, NULL, NULL},                                     \
        {"", "activations-checkpoint-num-layers", "replay-layers", READ, NULL, NULL}
#define MEGATRON_CHUNKS {"", "num-layers-per-virtual-pipeline-stage", "layers-of-a-chunk", ON, NULL, NULL}
#define MEGATRON_LLAMA                                                                                                \
    {"", "swiglu", "llama", ON, NULL, ""}, {"", "disable-bias-linear", "llama", ON, NULL, ""},                    \
        {"", "untie-embeddings-and-output-weights", "tie", OFF, NULL, ""}

#define MEGATRON_READ                                                                                                 \
    {"", "vocab-size", "vocab", READ, NULL, NULL}, {"", "make-vocab-size-divisible-by", "pad", READ, "128", NULL}, \
        {"", "lr", "lr", READ, NULL, NULL},                                \
        {"", "min-lr", "min-lr", READ, "0", NULL}, {"", "train-iters", "steps", READ, NULL, NULL},                    \
        {"", "lr-warmup-iters", "warmup", READ, "0", NULL}, {"", "weight-decay", "weight-decay", READ, "0.01", NULL}, \
        {"", "adam-beta1", "beta1", READ, "0.9", NULL}, {"", "adam-beta2", "beta2", READ, "0.999", NULL},             \
        {"", "adam-eps", "eps", READ, "1e-8", NULL}, {"", "clip-grad", "clip", READ, "1", NULL},                      \
        {"", "seed", "seed", READ, "1234", NULL}, {"", "optimizer", "", MUST, "adam", "adam"},                        \
        {"", "hidden-dropout", "dropout", READ, "0.1", NULL}, {"", "attention-dropout", "dropout", READ, "0.1", NULL},\
        {"", "recompute-activations", "recompute", READ, NULL, "selective"},                                          \
        {"", "nproc_per_node", "processes", READ, NULL, NULL}, {"", "nproc-per-node", "processes", READ, NULL, NULL}, \
        {"", "nnodes", "nodes", READ, NULL, NULL}, {"", "lr-decay-style", "", TRAINS, "linear", "cosine"},            \
        {"", "lr-decay-iters", "", TRAINS, "=train-iters", "=train-iters"}, {"", "train-samples", "", TRAINS, "", ""},\
        {"", "lr-warmup-samples", "", TRAINS, "0", "0"}, {"", "lr-decay-samples", "", TRAINS, "", ""},                \
        {"", "lr-warmup-fraction", "", TRAINS, "", ""}, {"", "rampup-batch-size", "", TRAINS, "", ""},                \
        {"", "layernorm-epsilon", "norm-eps", READ, NULL, NULL}, {"", "norm-epsilon", "norm-eps", READ, NULL, NULL},  \
        {"", "loss-scale", "loss-scale", READ, NULL, NULL},                                                           \
        {"", "min-loss-scale", "loss-scale-min", READ, NULL, NULL},                                                   \
        {"", "loss-scale-window", "loss-scale-window", READ, NULL, NULL},                                             \
        {"", "hysteresis", "loss-scale-hysteresis", READ, NULL, NULL},                                                \
        {"", "normalization", "", MUST, "LayerNorm", "LayerNorm|layernorm"},                                          \
        {"", "position-embedding-type", "", MUST, "learned_absolute", "learned_absolute"},                            \
        {"", "program", "", MUST, "pretrain_gpt.py", "pretrain_gpt.py|pretrain_bert.py|pretrain_t5.py"},              \
        {"", "vocab-extra-ids", "extra-ids", READ, NULL, NULL},                                                       \
        {"", "encoder-num-layers", "layers", READ, NULL, NULL},                                                       \
        {"", "encoder-seq-length", "seq", READ, NULL, NULL},                                                          \
        {"", "decoder-num-layers", "decoder-layers", READ, NULL, NULL},                                               \
        {"", "decoder-seq-length", "decoder-seq", READ, NULL, NULL}, {"", "spec", "", MUST, NULL, "local"},           \
        {"", "step-batch-size-schedule", "", TRAINS, "", ""},                                                         \
        {"", "rotary-percent", "", MUST, "1", "1"}, {"", "kv-channels", "", MUST, "=head", "=head"}
#define MEGATRON_EXPERTS                                                                                              \
    {"", "use-rotary-position-embeddings", "rotary", READ, NULL, "on"},                                               \
        {"", "moe-aux-loss-coeff", "aux-loss", READ, "0", NULL}, {"", "moe-z-loss-coeff", "z-loss", READ, "0", NULL}, \
        {"", "moe-expert-capacity-factor", "capacity", READ, "0", NULL},                                              \
        {"", "moe-router-load-balancing-type", "", MUST, "aux_loss", "aux_loss"},                                     \
        {"", "moe-ffn-hidden-size", "expert-ffn", READ, NULL, NULL},                                                  \
        {"", "expert-tensor-parallel-size", "", MUST, "=tensor-model-parallel-size", "=tensor-model-parallel-size"},  \
        {"", "add-qkv-bias", "attention-bias", READ, NULL, "qkv"}, \
        {"", "use-rope-scaling", "rope-scaled", READ, NULL, "on"},                                                    \
        {"", "rope-scaling-factor", "rope-factor", READ, NULL, NULL},                                                 \
        {"", "grad-reduce-in-bf16", "grad-fp32", READ, NULL, "off"},                                                  \
        {"", "fp8-recipe", "", MUST, "delayed", "delayed"}, {"", "lr-warmup-init", "", TRAINS, "0", "0"},             \
        {"", "decoupled-lr", "", TRAINS, "", ""}, {"", "decoupled-min-lr", "", TRAINS, "", ""},                       \
        {"", "fp8-amax-history-len", "fp8-history", READ, "1", NULL},                                                 \
        {"", "fp8-amax-compute-algo", "", MUST, "max", "max|most_recent"},                                            \
        {"", "fp8-margin", "fp8-margin", READ, "0", NULL}

static const struct stack_key MEGATRON_2021[] = {
    MEGATRON, MEGATRON_RECOMPUTE, MEGATRON_CHUNKS, MEGATRON_READ,
    {"", "use-distributed-optimizer", "zero", ON, NULL, ""}, {0}};
static const struct stack_key MEGATRON_CORE[] = {
    MEGATRON,
    MEGATRON_RECOMPUTE,
    MEGATRON_CHUNKS,
    MEGATRON_LLAMA,
    {"", "normalization", "llama", ON, NULL, "RMSNorm"},
    {"", "position-embedding-type", "llama", ON, NULL, "rope"},
    {"", "rotary-base", "rope", ON, NULL, NULL},
    {"", "group-query-attention", "kv-heads", ON, NULL, ""},
    {"", "num-query-groups", "kv-heads", ON, NULL, NULL},
    {"", "qk-layernorm", "qk-norm", IS, "head", ""},
    {"", "window-size", "window-before", ON, NULL, NULL},
    {"", "window-attn-skip-freq", "window-freq", ON, NULL, NULL},
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
    {"", "fp8-format", "fp8-format", IS, "hybrid", NULL},
    {"", "fp8-format", "fp8-format", IS, "e4m3", NULL},
    {"", "fp8-recipe", "blocks", IS, "mxfp8", NULL},
    {"", "fp8-recipe", "blocks", IS, "mxfp8-e5m2", "mxfp8"},
    {"", "fp4-format", "blocks", IS, "nvfp4", "e2m1"},
    {"", "fp4-recipe", "", MUST, "nvfp4", "nvfp4"},
    MEGATRON_READ,
    MEGATRON_CHECKPOINTS,
    MEGATRON_EXPERTS,
    {"", "kv-channels", "head-dim", ON, NULL, NULL},
    {"", "norm-epsilon", "norm-eps", ON, NULL, NULL},
    {0}};

/* deepspeedai/Megatron-DeepSpeed 4efb479, megatron/arguments.py; deepspeedai/DeepSpeed 0.19, runtime/config.py */
static const struct stack_key MEGATRON_DEEPSPEED[] = {
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
    MEGATRON_READ,
    {"", "ds-sequence-parallel-size", "", MUST, "1", "1"},
    {"", "train-tokens", "", TRAINS, "", ""},
    {"", "lr-decay-tokens", "", TRAINS, "", ""},
    {"", "lr-warmup-tokens", "", TRAINS, "", ""},
    {0}};
static const struct stack_key DS_CONFIG[] = {
    {"", "train_batch_size", "global-batch", ALWAYS, NULL, NULL},
    {"", "train_micro_batch_size_per_gpu", "micro-batch", ALWAYS, NULL, NULL},
    {"", "gradient_accumulation_steps", "microbatches", ALWAYS, NULL, NULL},
    {"zero_optimization", "stage", "zero", ALWAYS, NULL, NULL},
    {"bf16", "enabled", "precision", IS, "bf16", "true"},
    {"fp16", "enabled", "precision", IS, "fp16", "true"},
    {"data_types", "grad_accum_dtype", "grad-fp32", ON, NULL, "\"fp32\""},
    {"", "gradient_clipping", "clip", READ, "0", NULL},
    {"optimizer.params", "lr", "lr", READ, NULL, NULL},
    {"optimizer.params", "weight_decay", "weight-decay", READ, NULL, NULL},
    {"optimizer.params", "eps", "eps", READ, NULL, NULL},
    {"optimizer.params", "betas", "betas", READ, NULL, NULL},
    {"optimizer", "type", "", MUST, "AdamW", "AdamW|Adam"},
    {"", "sequence_parallel_size", "", MUST, "1", "1"},
    {"tensor_parallel", "autotp_size", "", MUST, "1", "1|0"},
    {"optimizer.params", "bias_correction", "", MUST, "true", "true"},
    {"optimizer.params", "adam_w_mode", "", MUST, "true", "true"},
    {"autotuning", "enabled", "", MUST, "false", "false"},
    {"scheduler", "type", "", TRAINS, "", ""},
    {"fp16", "loss_scale", "loss-scale", READ, NULL, NULL},
    {"fp16", "enabled", "", MUST, "false", "true|false"},
    {"bf16", "enabled", "", MUST, "false", "true|false"},
    {"zero_optimization.offload_optimizer", "device", "offload-states", READ, NULL, NULL},
    {"zero_optimization.offload_param", "device", "offload-weights", READ, NULL, NULL},
    {"zero_optimization.offload_optimizer", "nvme_path", "offload-path", READ, NULL, NULL},
    {"zero_optimization.offload_param", "nvme_path", "offload-path", READ, NULL, NULL},
    {"zero_optimization.offload_optimizer", "ratio", "", MUST, "1", "1"},
    {"zero_optimization", "cpu_offload", "", MUST, "false", "false"},
    {"zero_optimization", "cpu_offload", "offload-states", READ, NULL, "cpu"},
    {"zero_optimization", "cpu_offload_params", "", MUST, "false", "false"},
    {"zero_optimization", "cpu_offload_params", "offload-weights", READ, NULL, "cpu"},
    {"fp16", "loss_scale_window", "loss-scale-window", READ, NULL, NULL},
    {"fp16", "hysteresis", "loss-scale-hysteresis", READ, NULL, NULL},
    {"fp16", "min_loss_scale", "loss-scale-min", READ, NULL, NULL},
    {0}};

/* pytorch/torchtitan v0.2.2, torchtitan/config/job_config.py: later versions have no TOML. FSDP's shards take what
 * ZeRO-1 and 2 shard as well, and weights stay whole between the passes. */
static const struct stack_key TITAN[] = {
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
    {"parallelism", "fsdp_reshard_after_forward", "", MUST, "default", "default"},
    {"activation_checkpoint", "selective_ac_option", "recompute", IS, "selective", "\"op\""},
    {"activation_checkpoint", "selective_ac_option", "every-nth-layer", READ, NULL, NULL},
    {"model", "flavor", "flavor", READ, NULL, NULL},
    {"model", "name", "", MUST, "llama3", "llama3|qwen3"},
    {"training", "batch_size", "batch-of-a-replica", READ, NULL, NULL},   /* of v0.1.0 and before, as the next nine */
    {"training", "tensor_parallel_degree", "tp", READ, NULL, NULL},
    {"training", "data_parallel_replicate_degree", "replicas", READ, NULL, NULL},
    {"training", "data_parallel_shard_degree", "shards", READ, NULL, NULL},
    {"experimental", "pipeline_parallel_degree", "pp", READ, NULL, NULL},
    {"experimental", "context_parallel_degree", "cp", READ, NULL, NULL},
    {"training", "warmup_steps", "warmup", READ, NULL, NULL},
    {"lr_scheduler", "lr_min", "min-lr-factor", READ, NULL, NULL},
    {"model", "norm_type", "", MUST, "rmsnorm", "rmsnorm"},
    {"float8", "enable_float8_linear", "", MUST, "false", "false"},
    {"optimizer", "name", "", MUST, "AdamW", "AdamW"},
    {"optimizer", "lr", "lr", READ, "8e-4", NULL},
    {"optimizer", "eps", "eps", READ, "1e-8", NULL},
    {"optimizer", "beta1", "beta1", READ, "0.9", NULL},
    {"optimizer", "beta2", "beta2", READ, "0.95", NULL},
    {"optimizer", "weight_decay", "weight-decay", READ, "0.1", NULL},
    {"lr_scheduler", "warmup_steps", "warmup", READ, "200", NULL},
    {"lr_scheduler", "decay_type", "", TRAINS, "linear", "cosine"},
    {"lr_scheduler", "decay_ratio", "", TRAINS, "1", "1"},
    {"lr_scheduler", "min_lr_factor", "min-lr-factor", READ, "0", NULL},
    {"training", "steps", "steps", READ, "10000", NULL},
    {"training", "max_norm", "clip", READ, "1.0", NULL},
    {"training", "mixed_precision_param", "precision", READ, "bfloat16", NULL},
    {"training", "mixed_precision_reduce", "grad-reduce", READ, "float32", NULL},
    {"training", "dtype", "", MUST, "float32", "float32"},
    {"training", "enable_cpu_offload", "", MUST, "false", "false"},
    {"model", "converters", "fp8-format", IS, "e4m3", "[\"quantize.linear.mx\"]"},
    {"quantize.linear.mx", "recipe_name", "blocks", IS, "mxfp8", "\"mxfp8_cublas\""},
    {"model", "converters", "", MUST, "[]", "[]"},
    {"parallelism", "expert_tensor_parallel_degree", "", MUST, "1", "1"},
    {"parallelism", "enable_async_tensor_parallel", "", MUST, "false", "true|false"},
    {"parallelism", "disable_loss_parallel", "", MUST, "false", "false"},
    {0}};

/* huggingface/nanotron 2411b02, src/nanotron/config: parallelism_config.py, config.py, models_config.py */
static const struct stack_key NANOTRON[] = {
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
    {"model.model_config", "rms_norm_eps", "llama", ON, NULL, "1.0e-05"},
    {"model.model_config", "rms_norm_eps", "norm-eps", READ, "1e-6", NULL},
    {"model.model_config", "tie_word_embeddings", "tie", ON, NULL, "true"},
    {"model.model_config", "tie_word_embeddings", "tie", OFF, NULL, "false"},
    {"model.model_config", "vocab_size", "vocab", ALWAYS, NULL, NULL},
    {"", "", "llama", ON, NULL, NULL},                         /* the model_config is LlamaConfig */
    {"parallelism", "recompute_layer", "recompute", IS, "none", "false"},
    {"optimizer", "accumulate_grad_in_fp32", "grad-fp32", OFF, NULL, "false"},
    {"optimizer", "clip_grad", "clip", READ, NULL, NULL},
    {"optimizer", "weight_decay", "weight-decay", READ, NULL, NULL},
    {"optimizer.optimizer_factory", "adam_beta1", "beta1", READ, NULL, NULL},
    {"optimizer.optimizer_factory", "adam_beta2", "beta2", READ, NULL, NULL},
    {"optimizer.optimizer_factory", "adam_eps", "eps", READ, NULL, NULL},
    {"optimizer.optimizer_factory", "name", "", MUST, "adamW", "adamW"},
    {"optimizer", "adam_beta1", "beta1", READ, NULL, NULL},
    {"optimizer", "adam_beta2", "beta2", READ, NULL, NULL},
    {"optimizer", "adam_eps", "eps", READ, NULL, NULL},
    {"optimizer.learning_rate_scheduler", "learning_rate", "lr", READ, NULL, NULL},
    {"optimizer.learning_rate_scheduler", "min_decay_lr", "min-lr", READ, NULL, NULL},
    {"optimizer.learning_rate_scheduler", "lr_warmup_steps", "warmup", READ, NULL, NULL},
    {"optimizer.learning_rate_scheduler", "lr_decay_style", "", TRAINS, "linear", "cosine"},
    {"optimizer.learning_rate_scheduler", "lr_warmup_style", "", TRAINS, "linear", "linear"},
    {"optimizer.learning_rate_scheduler", "lr_decay_starting_step", "", TRAINS, "null", "null"},
    {"optimizer.learning_rate_scheduler", "lr_decay_steps", "", TRAINS, "", ""},
    {"tokens", "train_steps", "steps", READ, NULL, NULL},
    {"general", "seed", "seed", READ, NULL, NULL},
    {"model", "dtype", "precision", READ, "bfloat16", NULL},
    {"model.model_config", "is_llama_config", "", MUST, "true", "true"},
    {"model.model_config", "is_qwen2_config", "", MUST, "true", "true"},   /* but for its biases, a Llama */
    {"model.model_config", "hidden_act", "", MUST, "silu", "silu"},
    {"model.model_config", "rope_scaling", "", MUST, "null", "null"},
    {"model.model_config", "rope_interleaved", "", MUST, "false", "false"},
    {"model.model_config", "interleaved_rotary", "", MUST, "false", "false"},
    {"model.model_config", "attention_bias", "", MUST, "false", "false"},
    {"model.model_config", "attention_bias", "attention-bias", READ, NULL, "qkv"},
    {"model.model_config", "sliding_window_size", "", MUST, "null", "null"},
    {"model.model_config", "no_rope_layer", "", MUST, "null", "null"},
    {"model.model_config", "moe_config", "", MUST, "null", "null"},
    {"model.model_config", "z_loss_enabled", "", MUST, "false", "false"},
    {"model", "make_vocab_size_divisible_by", "", MUST, "1", "1"},
    {0}};

/* Data, logs, checkpoints, launchers, kernels that compute the same, and initial values. */
static const char FREE_MEGATRON[] =
    "data-path split vocab-file merge-file tokenizer-type tokenizer-model tiktoken-pattern data-cache-path data-impl "
    "mock-data num-workers no-create-attention-mask-in-dataloader no-mmap-bin-files dataloader-type "
    "log-interval save-interval eval-interval eval-iters save load tensorboard-dir log-throughput log-params-norm "
    "log-num-zeros-in-grad log-validation-ppl-to-tensorboard wandb-project wandb-exp-name wandb-save-dir "
    "logging-level ckpt-format dist-ckpt-strictness no-load-optim no-load-rng no-save-optim no-save-rng exit-interval "
    "exit-duration-in-mins timing-log-level timing-log-option log-timers-to-tensorboard log-memory-to-tensorboard "
    "log-batch-size-to-tensorboard tensorboard-queue-size tensorboard-log-interval checkpoint-path "
    "master_addr master_port master-addr master-port node_rank node-rank rdzv_id rdzv_backend rdzv_endpoint "
    "rdzv-backend rdzv-endpoint rdzv-id tee log_dir redirects max_restarts distributed-backend "
    "distributed-timeout-minutes local_rank use-mcore-models use-legacy-models transformer-impl use-flash-attn "
    "attention-backend attention-softmax-in-fp32 no-masked-softmax-fusion no-bias-gelu-fusion no-bias-swiglu-fusion "
    "no-bias-dropout-fusion no-rope-fusion no-gradient-accumulation-fusion cross-entropy-loss-fusion "
    "no-persist-layer-norm no-position-embedding moe-token-dispatcher-type moe-grouped-gemm moe-permute-fusion "
    "moe-router-fusion "
    "init-method-std manual-gc manual-gc-interval empty-unused-memory-level profile profile-step-start "
    "profile-step-end profile-ranks no-check-for-nan-in-loss-and-grad "
    "initial-loss-scale use-te eod-mask-loss DDP-impl override-opt_param-scheduler "
    "no-async-tensor-model-parallel-allreduce no-contiguous-buffers-in-local-ddp use-cpu-initialization "
    "ckpt-fully-parallel-save async-save use-dist-ckpt overlap-p2p-communication-warmup-flush moe-per-layer-logging "
    "hostfile include num_gpus num_nodes zero-allgather-bucket-size zero-reduce-bucket-size "
    "deepspeed-activation-checkpointing inference-batch-times-seqlen-threshold no-query-key-layer-scaling "
    "apply-query-key-layer-scaling apply-layernorm-1p calculate-per-token-loss deterministic-mode "
    "override-lr-scheduler auto-detect-ckpt-format use-persistent-ckpt-worker save-retain-interval wandb-entity "
    "use-checkpoint-opt_param-scheduler dist-ckpt-optim-fully-reshardable ckpt-fully-parallel-load "
    "ckpt-assume-constant-structure no-ckpt-fully-parallel-save rerun-mode cross-entropy-fusion-impl "
    "use-flash-attn-v2 use-flash-attn-triton deepspeed_mpi no-load-lr-state reset-iteration universal-checkpoint "
    "log-optimizer-states-to-tensorboard tokenizer-name-or-path finetune bert-no-binary-head ENV_VARS.* TEST_TYPE "
    "LAUNCHER METRICS MODE BEFORE_SCRIPT AFTER_SCRIPT";
static const char FREE_DS_CONFIG[] =
    "steps_per_print wall_clock_breakdown prescale_gradients gradient_predivide_factor dump_state "
    "zero_allow_untested_optimizer memory_breakdown aio.* tensorboard.* wandb.* csv_monitor.* "
    "comms_logger.* flops_profiler.* autotuning.* activation_checkpointing.* scheduler.params.* "
    "fp16.initial_scale_power fp16.consecutive_hysteresis fp16.auto_cast "
    "optimizer.params.torch_adam "
    "zero_optimization.contiguous_gradients zero_optimization.overlap_comm zero_optimization.reduce_bucket_size "
    "zero_optimization.allgather_bucket_size zero_optimization.allgather_partitions zero_optimization.reduce_scatter "
    "zero_optimization.sub_group_size zero_optimization.round_robin_gradients "
    "zero_optimization.ignore_unused_parameters "
    "zero_optimization.stage3_prefetch_bucket_size zero_optimization.stage3_param_persistence_threshold "
    "zero_optimization.stage3_max_live_parameters zero_optimization.stage3_max_reuse_distance "
    "zero_optimization.stage3_gather_16bit_weights_on_model_save "
    "zero_optimization.stage3_gather_fp16_weights_on_model_save zero_optimization.gather_16bit_weights_on_model_save "
    "zero_optimization.load_from_fp32_weights zero_optimization.offload_param.* "
    "zero_optimization.offload_optimizer.pin_memory zero_optimization.offload_optimizer.buffer_count "
    "zero_optimization.offload_optimizer.buffer_size zero_optimization.offload_optimizer.fast_init "
    "zero_optimization.offload_optimizer.pipeline_read zero_optimization.offload_optimizer.pipeline_write "
    "zero_optimization.max_live_parameters zero_optimization.max_reuse_distance zero_force_ds_cpu_optimizer "
    "compile.disable compile.backend comms_config.* monitor_config.* _comment cuda_visible_devices";
static const char FREE_TITAN[] =
    "job.* metrics.* profiling.* checkpoint.* validation.* compile.* comm.* model.hf_assets_path model.tokenizer_path "
    "training.dataset training.dataset_path training.gc_freq training.gc_debug training.seed training.deterministic "
    "optimizer.implementation activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns "
    "activation_checkpoint.early_stop quantize.* debug.* training.compile float8.* training.data_parallel_type "
    "experimental.enable_async_tensor_parallel experimental.custom_import experimental.custom_args_module";
static const char FREE_NANOTRON[] =
    "checkpoints.* data.* data_stages general.* lighteval lighteval.* logging.* profiler profiler.* s3_upload "
    "s3_upload.* metrics_logging metrics_logging.* tokenizer.* model.ddp_bucket_cap_mb model.init_method.* "
    "model.model_config._attn_implementation model.model_config._fused_rms_norm model.model_config._fused_rotary_emb "
    "model.model_config._use_doc_masking model.model_config._use_qkv_packed model.model_config.bos_token_id "
    "model.model_config.eos_token_id model.model_config.pad_token_id model.model_config.use_cache "
    "model.model_config.initializer_range model.model_config.pretraining_tp model.model_config.flex_attention_mask "
    "model.model_config.z_loss_coefficient model.model_config.rope_scaling.* "   /* its models read none */
    "doremi.domain_names doremi.domain_weights "
    "optimizer.torch_adam_is_fused optimizer.optimizer_factory.torch_adam_is_fused "
    "optimizer.weight_decay_exclude_named_params "
    "parallelism.tp_linear_async_communication parallelism.tp_recompute_allgather parallelism.moe_layer_recompute "
    "tokens.limit_test_batches tokens.limit_val_batches tokens.val_check_interval";

const struct stack_file stack_files[N_STACK_COMMANDS][STACK_MOST_FILES] = {
    [STACK_MEGATRON_2021] = {{"pretrain_gpt.py", FORM_ARGUMENTS, MEGATRON_2021, FREE_MEGATRON}},
    [STACK_MEGATRON_CORE] = {{"pretrain_gpt.py", FORM_ARGUMENTS, MEGATRON_CORE, FREE_MEGATRON}},
    [STACK_DEEPSPEED] = {{"pretrain_gpt.py", FORM_ARGUMENTS, MEGATRON_DEEPSPEED, FREE_MEGATRON},
                         {"ds_config.json", FORM_JSON, DS_CONFIG, FREE_DS_CONFIG}},
    [STACK_TORCHTITAN] = {{"train.toml", FORM_TOML, TITAN, FREE_TITAN}},
    [STACK_NANOTRON] = {{"config.yaml", FORM_YAML, NANOTRON, FREE_NANOTRON}}};

const char *stack_key_shown(const char *name) {
    static const char *const within[][2] = {
        {"llama", "arch llama"}, {"rotary", "arch llama"}, {"flavor", "layers, hidden, heads, ffn"}, {"pad", "vocab"},
        {"extra-ids", "vocab"}, {"choices", "experts-per-token"}, {"rope", "rope-theta"}, {"notation", "pp-split"},
        {"layers-of-a-chunk", "chunks"}, {"processes", "dp"}, {"nodes", "dp"}, {"shards", "dp, zero"},
        {"replicas", "dp, zero"}, {"batch-of-a-replica", "micro-batch, global-batch"}, {"betas", "beta1, beta2"},
        {"microbatches", "global-batch"}, {"grad-reduce", "grad-fp32"}, {"min-lr-factor", "min-lr"},
        {"recompute-blocks", "recompute"}, {"replay-method", "recompute"}, {"replay-layers", "recompute"},
        {"every-nth-layer", "recompute"}, {"offload-states", "offload, offload-to"},
        {"offload-weights", "offload, offload-to"}, {"expert-ffn", "ffn"}, {"decoder-layers", "layers"},
        {"decoder-seq", "seq, noise"}, {"rope-scaled", "rope-scaling"}, {"rope-factor", "rope-scaling"},
        {"positions", "seq"}, {"fp8-format", "fp8"}, {"blocks", "fp8-recipe"}, {"window-before", "window"},
        {"window-freq", "window-layers"}};
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (!strcmp(name, within[i][0])) return within[i][1];
    return name;
}

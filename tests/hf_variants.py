"""Variants of config.json: each is imported, and then has transformers' loss, or is refused by name; for
tests/hf_variants.sh.

    hf_variants.py TRIVIUM EVERY FAMILY...     of each FAMILY (gpt2, llama, mixtral, ...) every EVERY-th variant

The variants come from the tables that import reads config.json by (tests/hf_tables.py): every key missing, null, by its
other names, with other values and of other types, over small models with random weights. All is fp64
(tests/hf_transformers.py says how): what means the same has the same loss."""
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch

import hf_masks
import hf_tables
import hf_transformers as reference
from hf_reference import TOLERANCE, rows
import hf_spans
import transformers

transformers.logging.set_verbosity(transformers.logging.CRITICAL)
transformers.logging.disable_progress_bar()
TEXT, V, SEED = 256, reference.V, reference.SEED                 # tokens of all samples; vocabulary; --seed's default
COMMON = dict(use_cache=False, initializer_range=0.15)
DECODER = dict(vocab_size=V, hidden_size=64, num_hidden_layers=2, num_attention_heads=8,
               max_position_embeddings=32, **COMMON)
ROPE = {"rope_theta": 500.0, "rope_type": "default"}
LATENTS = dict(intermediate_size=96, num_key_value_heads=8, kv_lora_rank=20, qk_nope_head_dim=6, qk_rope_head_dim=4,
               v_head_dim=7, first_k_dense_replace=2)
GPT2 = dict(vocab_size=V, n_embd=48, n_layer=2, n_positions=32, **COMMON)
BERT = {**reference.BERT_SIZES, "max_position_embeddings": 32, **COMMON}
T5 = {**reference.T5_SIZES, "n_positions": 32}
# Two models of each family or more; what the second file says besides is as other versions of transformers write it
BASES = {"gpt2": [(dict(GPT2, n_head=12), {}), (dict(GPT2, n_head=4), {"n_ctx": 32}),
                  (dict(GPT2, n_head=4, n_inner=96, tie_word_embeddings=False), {})],
         "llama": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, rms_norm_eps=1e-5, rope_parameters=ROPE),
                    {}),
                   (dict(DECODER, intermediate_size=256, tie_word_embeddings=True, rms_norm_eps=1e-5),
{"rope_parameters": None, "rope_theta": 10000.0, "rope_scaling": None, "pretraining_tp": 1}),
                   (dict(DECODER, intermediate_size=96, num_key_value_heads=2, head_dim=12, attention_bias=True,
                         mlp_bias=True, rope_parameters=dict(ROPE, rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                                             high_freq_factor=4.0,
                                                             original_max_position_embeddings=16)), {})],
         "mistral": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, head_dim=12, sliding_window=None,
                           rope_parameters=ROPE), {}),
                     (dict(DECODER, intermediate_size=96, num_key_value_heads=8, sliding_window=6,
                           rope_parameters=dict(ROPE, rope_type="linear", factor=2.0)), {})],
         "qwen2": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, rope_parameters=ROPE), {}),
                   (dict(DECODER, intermediate_size=96, num_key_value_heads=4, tie_word_embeddings=True,
                         rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0,
                                              original_max_position_embeddings=16)), {}),
                   (dict(DECODER, intermediate_size=96, num_key_value_heads=2, use_sliding_window=True,
                         sliding_window=6, max_window_layers=1, rope_parameters=ROPE), {})],
         "qwen3": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, head_dim=12, rope_parameters=ROPE), {}),
                   (dict(DECODER, intermediate_size=96, num_key_value_heads=4, head_dim=8, tie_word_embeddings=True,
                         attention_bias=True, use_sliding_window=True, sliding_window=6, max_window_layers=0,
                         rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0,
                                              original_max_position_embeddings=16)), {})],
         "olmo2": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, pad_token_id=None, eos_token_id=None,
                         rope_parameters=ROPE), {}),
                   (dict(DECODER, intermediate_size=96, num_key_value_heads=8, rms_norm_eps=1e-6, pad_token_id=None,
                         eos_token_id=None, rope_parameters=dict(ROPE, rope_type="linear", factor=2.0)), {})],
         "seed_oss": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, head_dim=12, rope_parameters=ROPE),
                       {}),
                      (dict(DECODER, intermediate_size=96, num_key_value_heads=8, head_dim=8, attention_bias=False,
                            mlp_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-5,
                            rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0,
                                                 original_max_position_embeddings=16)), {})],
         "deepseek_v2": [(dict(DECODER, **LATENTS, q_lora_rank=None, num_experts_per_tok=2, rope_parameters=ROPE), {}),
                         (dict(DECODER, **LATENTS, q_lora_rank=16, num_experts_per_tok=2, mlp_bias=True,
                               tie_word_embeddings=True,
                               rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0, mscale=0.7, mscale_all_dim=1.2,
                                                    original_max_position_embeddings=16)), {})],
         "deepseek_v3": [(dict(DECODER, **LATENTS, q_lora_rank=16, rope_parameters=ROPE), {}),
                         (dict(DECODER, **LATENTS, q_lora_rank=None, rope_interleave=False, tie_word_embeddings=True,
                               rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0, mscale_all_dim=0.7,
                                                    original_max_position_embeddings=16)), {})],
         "mixtral": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, head_dim=8, num_local_experts=4,
                           rope_parameters=ROPE), {}),
                     (dict(DECODER, intermediate_size=64, num_key_value_heads=8, num_local_experts=8, head_dim=8),
                      {"rope_parameters": None})],
         "qwen3_moe": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, num_experts=8, num_experts_per_tok=3,
                             moe_intermediate_size=40, rope_parameters=ROPE), {}),
                       (dict(DECODER, intermediate_size=96, num_key_value_heads=4, num_experts=4, num_experts_per_tok=2,
                             moe_intermediate_size=24, norm_topk_prob=True, mlp_only_layers=[0], attention_bias=True,
                             tie_word_embeddings=True, rms_norm_eps=1e-5, use_sliding_window=True, sliding_window=6,
                             rope_parameters=dict(ROPE, rope_type="linear", factor=2.0)), {}),
                       (dict(DECODER, intermediate_size=96, num_key_value_heads=8, num_experts=4, num_experts_per_tok=1,
                             moe_intermediate_size=96, decoder_sparse_step=2, rope_parameters=ROPE),
                        {"head_dim": 8, "max_window_layers": 2})],
         "gpt_oss": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, head_dim=12, num_local_experts=8,
                           num_experts_per_tok=3, sliding_window=6, rope_parameters=ROPE), {}),
                     (dict(DECODER, intermediate_size=64, num_key_value_heads=8, head_dim=8, num_local_experts=4,
                           num_experts_per_tok=2, sliding_window=9, attention_bias=False, swiglu_limit=0.5,
                           layer_types=["full_attention", "sliding_attention"], tie_word_embeddings=True,
                           rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0, truncate=False,
                                                original_max_position_embeddings=16)), {})],
         "dots1": [(dict(DECODER, intermediate_size=96, num_key_value_heads=2, head_dim=12, n_routed_experts=8,
                         num_experts_per_tok=3, moe_intermediate_size=40, n_shared_experts=2, first_k_dense_replace=1,
                         n_group=4, topk_group=2, norm_topk_prob=True, routed_scaling_factor=1.7, sliding_window=None,
                         rope_parameters=ROPE), {}),
                   (dict(DECODER, intermediate_size=64, num_key_value_heads=8, head_dim=8, n_routed_experts=4,
                         num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1, attention_bias=True,
                         tie_word_embeddings=True, rms_norm_eps=1e-5, sliding_window=6, max_window_layers=1,
                         rope_parameters=dict(ROPE, rope_type="linear", factor=2.0)), {})],
         "bert": [(BERT, {}), (dict(BERT, tie_word_embeddings=False), {"position_embedding_type": "absolute"})],
         "t5": [(T5, {}), (dict(T5, tie_word_embeddings=False), {"tie_word_embeddings": False}),
                (dict(T5, tie_word_embeddings=False, d_kv=12, feed_forward_proj="gated-gelu"),
                 {"tie_word_embeddings": False, "dense_act_fn": "gelu_new", "is_gated_act": True})]}
ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu", "swish", "tanh", "quick_gelu"]
SCALED = [{"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2.0},
          {"rope_type": "dynamic", "factor": 2.0},
          {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 16},
          {"type": "llama3", "factor": 4, "low_freq_factor": 0.5, "high_freq_factor": 2},
          {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
          {"type": "yarn", "factor": 4.0}, {"rope_type": "yarn", "factor": 2, "beta_fast": 4, "beta_slow": 0.25},
          {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5},
          {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 1.2},
          {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7}]
TURNS = SCALED + [{}, {"rope_type": "default"}, {"type": "default"}, {"rope_type": None}, {"rope_theta": None},
                  {"rope_theta": 200.0},
                  {"rope_type": "longrope", "factor": 2.0, "short_factor": [1.0], "long_factor": [2.0]},
                  {"rope_type": "yarn", "factor": 4.0, "truncate": False}, {"rope_type": "yarn", "factor": None},
                  {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0},
                  {"rope_type": "linear", "type": "yarn", "factor": 2.0}, {"rope_type": "linear"},
                  {"rope_type": "linear", "factor": "2"}, {"rope_type": "linear", "factor": 0.5},
                  {"rope_theta": 200.0, "type": "linear", "factor": 4.0}, {"rope_theta": 200.5}, {"rope_theta": "200"},
                  {"rope_type": "default", "factor": 4.0}, {"rope_type": "default", "partial_rotary_factor": 0.5},
                  {"full_attention": {"rope_theta": 200.0, "rope_type": "default"}}, "default", 4.0]
OTHERS = {"model_type": ["mistral", "qwen2", "gpt_neo", "roberta", "mt5", "Llama", "", 5],
          "activation_function": ACTIVATIONS, "hidden_act": ACTIVATIONS, "dense_act_fn": ACTIVATIONS,
          "is_gated_act": [True, False, 0, "true"],
          "feed_forward_proj": ACTIVATIONS + ["gated-gelu", "gated-silu", "gated-relu", "gated-gelu_new", "gated-",
                                              "gated", "gated-gelu-new"],
          "position_embedding_type": ["relative_key", "relative_key_query"],
          "rope_theta": [10000, 10000.0, 1e6, 200.5, "500", -1.0, 1, True], "rope_parameters": TURNS,
          "rope_scaling": TURNS,
          "partial_rotary_factor": [0.5, 1, 1.0, 0, "1"], "scale_decoder_outputs": [True, False, 0, "false"],
          "type_vocab_size": [1, 3, 0, 2.0], "decoder_start_token_id": [1, 5], "num_experts_per_tok": [1, 2, 3, 5, 8],
          "router_jitter_noise": [0.0, 0.1, 1e-9], "decoder_sparse_step": [1, 2, 3, 0, -1, 1.5, "2"],
          "mlp_only_layers": [[], [0], [1], [0, 1], [7], [-1], ["0"], [0.5], 1, "0"],
          "per_layer_config": [{}, {"0": {"head_dim": 4}}, {"1": {"n_head": 2}}],
          "pruned_heads": [{}, {"0": [1]}], "auto_map": [{}, {"AutoModelForCausalLM": "modeling_other.Other"}],
          "first_k_dense_replace": [0, 1, 2, 3, -1, "2"], "q_lora_rank": [8, 16, 0, -1, "16", 2.5],
          "num_mtp_layers": [0, 1, 2], "topk_method": ["greedy", "group_limited_greedy", "noaux_tc", 5],
          "quantization_config": [{"quant_method": "mxfp4"}, {"quant_method": "mxfp4", "dequantize": True}, {},
                                  {"quant_method": "bitsandbytes", "load_in_8bit": True}, "mxfp4"],
          "head_dim": [4, 8, 16], "d_kv": [4, 8, 16], "sliding_window": [1, 3, 8, 4096, 0, -1, 2.5, "8", True],
          "max_window_layers": [0, 1, 2, 28, -1, 1.5, "1"],
          "layer_types": [["full_attention"] * 2, ["full_attention", "sliding_attention"], ["sliding_attention"] * 2,
                          ["sliding_attention", "full_attention"], ["chunked_attention"] * 2, [], "full_attention"]}
NONE = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True},
        "transformers_weights": "other.safetensors", "sliding_window": 8,
        "layer_types": ["sliding_attention", "sliding_attention"], "attention_chunk_size": 8}
FREE = {"attention_dropout": 0.5, "resid_pdrop": 0.5, "embd_pdrop": 0.5, "attn_pdrop": 0.5, "hidden_dropout_prob": 0.5,
        "dropout_rate": 0.5, "residual_dropout": 0.5,
        "attention_probs_dropout_prob": 0.5, "initializer_range": 1.0, "initializer_factor": 3.0,
        "reorder_and_upcast_attn": True, "n_ctx": 7, "head_dim": 12, "n_group": 2, "topk_group": 2,
        "topk_method": "group_limited_greedy", "norm_topk_prob": True, "routed_scaling_factor": 2.0,
        "n_shared_experts": 3,
        "num_experts_per_tok": 3, "moe_intermediate_size": 40, "scoring_func": "softmax", "aux_loss_alpha": 0.5,
        "seq_aux": True, "moe_layer_freq": 2, "ep_size": 2, "num_nextn_predict_layers": 2,
        "summary_type": "mean", "output_router_logits": True, "router_aux_loss_coef": 0.5, "pretraining_tp": 2,
        "dtype": "bfloat16", "torch_dtype": "float16",
        "max_window_layers": 1, "sliding_window": 8,
        "use_cache": True, "bos_token_id": 3, "eos_token_id": 4, "pad_token_id": 5, "architectures": ["Other"],
        "is_encoder_decoder": True,
        "chunk_size_feed_forward": 8, "transformers_version": "4.0.0", "classifier_dropout": 0.5,
        "id2label": {"0": "A"}, "temperature": 0.1, "top_k": 3,
        "output_past": True, "original_max_position_embeddings": 16, "is_decoder": True, "tie_last_hidden_states": True,
        "gradient_checkpointing": True}
STRANGE = {"logit_scale": 0.5, "embedding_multiplier": 12.0}     # of other models: read by neither


# ---- variants: what changes, and the config.json ----

def others(key, value):
    """Values of the wrong kind or of another function."""
    if key.names[0] in OTHERS:
        return OTHERS[key.names[0]]
    if key.use == "HF_FLAG" or key.wanted in ("true", "false"):
        return [True, False, 0, 1, "false", "true"]
    if key.use == "HF_REAL":
        return [float(key.missing), 10 * float(key.missing), 0.03, 1.0, 0, -1.0, 1e7, key.missing, True]
    if key.use == "HF_SIZE":
        return [0, -1, 2.5, str(value), True] + ([2 * value, value // 2, float(value)] if value else [4, 24])
    number = float(key.wanted.split("|")[0])
    return [number, 10 * number, 0, number + 1, str(number)] if number else [1, 0.0, "0"]


def of_key(key, config):
    first = key.names[0]
    value = next((config[name] for name in key.names if name in config), None)
    bare = {name: x for name, x in config.items() if name not in key.names}
    yield "missing", bare
    for name in key.names:
        yield f"{name} null", {**bare, name: None}
        if value is not None and name != first:
            yield f"{name} alone", {**bare, name: value}
            yield f"{first} and {name}", {**bare, first: value, name: value}
            for other in others(key, value)[:3]:
                yield f"{first} and {name} {other}", {**bare, first: value, name: other}
                yield f"{name} {other}", {**bare, name: other}
    for other in others(key, value):
        yield f"{first} {json.dumps(other)}", {**bare, first: other}


def together(config):
    """Keys that mean something in company."""
    if "rms_norm_eps" in config:
        plain = {name: x for name, x in config.items() if not name.startswith("rope_")}
        for inner in ({}, None, {"rope_type": "default"}, {"type": "linear", "factor": 2.0}, {"rope_theta": 500.0},
                      {"rope_theta": 500.0, "type": "default"}):
            for outer in (500.0, 1e6):
                yield "rope_theta and rope_parameters", {**plain, "rope_theta": outer, "rope_parameters": inner}
                yield "rope_theta and rope_scaling", {**plain, "rope_theta": outer, "rope_scaling": inner}
        for inner in SCALED[3:6]:
            for own in (16, 24):
                yield "original_max_position_embeddings", {**plain, "rope_scaling": inner,
                                                           "original_max_position_embeddings": own}
        for inner in ({}, None, {"rope_type": "default"}, {"type": "linear", "factor": 2.0}, {"rope_theta": 500.0}):
            yield "rope_scaling and rope_parameters", {**plain, "rope_scaling": {"rope_type": "default"},
                                                       "rope_parameters": inner}
    if "feed_forward_proj" in config:
        for tied in (True, False):
            for scaled in (True, False):
                yield "tie_word_embeddings and scale_decoder_outputs", {**config, "tie_word_embeddings": tied,
                                                                        "scale_decoder_outputs": scaled}
            yield "tie_word_embeddings", {**{k: x for k, x in config.items() if k != "scale_decoder_outputs"},
                                          "tie_word_embeddings": tied}
        yield "num_layers num_decoder_layers", {k: x for k, x in config.items()
                                                if k not in ("num_layers",
                                                             "num_decoder_layers")} | {"num_hidden_layers": 2}
        for act in ("relu", "gelu_new", "silu"):
            for gated in (True, False):
                yield "dense_act_fn is_gated_act feed_forward_proj", {**config, "dense_act_fn": act,
                                                                      "is_gated_act": gated}


def variants(table, config):
    yield "nothing", config
    for key in table.rows:
        for what, variant in of_key(key, config):
            yield f"{key.names[0]}: {what}", variant
    for key in sorted(set(table.none) - {"configuration_files"}):  # transformers does not take null either
        for value in [NONE[key], None] if key in NONE else [None]:
            yield f"{key}: {json.dumps(value)}", {**config, key: value}
    free = [(key, value) for key in table.free if key in FREE
            for value in ([True, False] if FREE[key] is True else [FREE[key]])]
    for key, value in free + list(STRANGE.items()):
        yield f"{key}: {json.dumps(value)}", {**config, key: value}
    yield from ((f"{what}: together", variant) for what, variant in together(config))


# ---- the reference ----

def classes(family):
    return reference.model_class(family)


def make(family, base, folder):
    """The model with random weights, and config.json as save_pretrained writes it and as the base needs it."""
    sizes, more = base
    config, model = classes(family)
    torch.manual_seed(7)
    m = model._from_config(config(**sizes), attn_implementation="eager", experts_implementation="eager").double()
    with torch.no_grad():
        for _, w in m.named_parameters():
            if reference.is_vector(_, w):
                w += torch.randn(w.shape, dtype=torch.float64) * 0.15
    if family == "t5" and more:
        reference.own_head(m)
    m.save_pretrained(folder)
    with open(f"{folder}/config.json") as f:
        written = json.load(f)
    for key, value in more.items():
        if value is None and key == "rope_parameters":
            del written[key]
        else:
            written[key] = value
    return written


def samples_of(seq):
    return max(TEXT // seq, 1)


def samples(family, data, seq):
    n = samples_of(seq)
    data = data[:n * seq + 1]
    text = data[:-1].view(n, seq)
    if family not in ("bert", "t5"):
        return dict(input_ids=text), data[1:].view(-1, seq)
    order = [hf_masks.permute(SEED, "data.shuffle", 0, n, b) for b in range(n)]
    return (reference.masked if family == "bert" else reference.with_spans)(text[order], list(range(n)))


def loss_of(family, folder, data, seq):
    """None: transformers does not load it whole."""
    try:
        m, report = classes(family)[1].from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                       experts_implementation="eager",
                                                       output_loading_info=True)
    except Exception as e:
        return None, f"{type(e).__name__}: {e}"
    if any(report[key] for key in report if key != "unexpected_keys"):
        return None, str({key: value for key, value in report.items() if value})[:200]
    with torch.no_grad():
        try:
            return float(reference.loss_of(m.eval(), *samples(family, data, seq))), ""
        except Exception as e:
            return None, f"{type(e).__name__}: {e}"


# ---- Trivium ----

def run(*words):
    return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def imported(trivium, folder, save):
    """The options to train with; None: refused. And what was said."""
    shutil.rmtree(save, ignore_errors=True)
    done = run(trivium, "checkpoint", "import", "--from", "hf", folder, "--to", save)
    said = done.stdout + done.stderr
    if done.returncode not in (0, 2):
        raise SystemExit(f"not ok hf_variants import ended with code {done.returncode}: {said}")
    return (re.search(r"^train with: (.*)$", said, re.M).group(1).split() if done.returncode == 0 else None), said


def trained(trivium, family, words, seq, data, work):
    tokens, metrics = f"{work}/tokens", f"{work}/metrics.jsonl"
    data[:samples_of(seq) * seq + 1].numpy().astype(np.uint8).tofile(tokens)
    more = ["--seq", str(seq)] if "--seq" not in words else []
    # what the model has by default; and of experts, which in transformers drop no token
    plain = {"--tie": "on", "--kv-heads": "0", "--ffn": "0"} if family in hf_tables.families() else {}
    if family == "gpt_oss":
        plain |= {"--attention-bias": "none", "--window": "0", "--window-layers": "s"}
    if "--experts" in words:
        plain |= {"--capacity": "0", "--aux-loss": "0", "--z-loss": "0"}
    more += [x for option, value in plain.items()
             if option not in words
             for x in (option, value)]
    if os.path.exists(metrics):
        os.remove(metrics)
    done = run(trivium, "train", "--device", "cpu", "--threads", "1", "--precision", "fp64", "--vocab", str(V),
               "--data", tokens, "--data-format", "text", "--val-fraction", "0",
               "--global-batch", str(samples_of(seq)), "--steps", "1", "--dropout", "0", "--log", "quiet", "--metrics",
               metrics, *words, *more)
    return rows(metrics, "loss")[0] if done.returncode == 0 else f"train ended with code {done.returncode}: " \
           f"{done.stderr.strip()}"


# ---- comparing ----

def is_named(what, said):
    """A refusal says a key that the variant is about, or a tensor of another shape. Of another model_type, layer_types
    may be what does not fit."""
    keys = re.findall(r"\w+", what) + ["layer_types"] * what.startswith("model_type")
    return re.search(r"\bE_(FORMAT|CONFIG|DATA) ",
                     said) and ("tensor" in said or any(re.search(r"\b%s\b" % re.escape(key), said) for key in keys))


def judge(trivium, family, what, work, data):
    """Why it is wrong, or "imported" or "refused"."""
    words, said = imported(trivium, f"{work}/model", f"{work}/imported")
    if words is None:
        return "refused" if is_named(what, said) else f"the refusal names no key: {said.strip()}"
    seq = int(words[words.index("--seq") + 1]) if "--seq" in words else 32
    ours = trained(trivium, family, words, seq, data, work)
    theirs, why = loss_of(family, f"{work}/model", data, seq)
    if theirs is None:
        return f"imported, and transformers does not load it: {why}"
    if not isinstance(ours, str) and abs(ours / theirs - 1) <= TOLERANCE:
        return "imported"
    return f"imported: loss {ours} against {theirs}"


def main(trivium, family, every):
    table, work = hf_tables.read(family), tempfile.mkdtemp()
    count, seen = {"imported": 0, "refused": 0, "wrong": 0}, 0
    data = torch.tensor(np.random.default_rng(8).integers(0, V, 2 * TEXT + 1, np.uint8).astype(np.int64))
    for n, base in enumerate(BASES[family]):
        config = make(family, base, f"{work}/model")
        for i, (what, variant) in enumerate(variants(table, config)):
            if (i + n) % every and i:
                continue
            with open(f"{work}/model/config.json", "w") as f:
                json.dump(copy.deepcopy(variant), f)
            verdict = judge(trivium, family, what, work, data)
            count[verdict if verdict in count else "wrong"] += 1
            if verdict not in count:
                print(f"not ok {family}_variant {n} {what}: {verdict}")
            elif os.environ.get("SAY"):
                print(f"     {n} {what}: {verdict}")
        shutil.rmtree(f"{work}/model")
    shutil.rmtree(work)
    if not count["wrong"]:
        print(f"ok {family}_variants_are_imported_or_refused ({count['imported']} and {count['refused']})")


if __name__ == "__main__":
    for name in sys.argv[3:]:
        main(sys.argv[1], name, int(sys.argv[2]))

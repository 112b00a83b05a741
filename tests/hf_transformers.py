"""The models of Hugging Face's transformers, trained next to Trivium's; for tests/hf.sh.

    hf_transformers.py make MODEL DIR     DIR/model: a small MODEL (gpt2, llama, llama3, ...) with random weights, as
                                          save_pretrained leaves it, in several files with an index; DIR/tokens
    hf_transformers.py check MODEL DIR    train it on the same tokens, and compare with what Trivium left in DIR:
                                          serial.jsonl, layout.jsonl, of some other.jsonl (metrics), trained/ (an
                                          export of the layout's last step)

    hf_transformers.py scores MODEL DIR   a Mistral with the attention of Gemma 2 (capped) or of GPT-OSS (sinks), by
                                          their own functions: from the weights in DIR/start, Trivium's checkpoint of
                                          one rank, trained on DIR/tokens as Trivium has: serial.jsonl, layout.jsonl,
                                          other.jsonl, end (the checkpoint of serial's last step)

All is fp64. transformers computes norms, the softmax of attention and the angles of positions in fp32 whatever the
model's type: the names of that type are turned to fp64 before it is loaded. Numbers that mean the same then differ by
rounding."""
import json
import os
import sys

import numpy as np
import torch

torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

import hf_masks  # noqa: E402
import hf_spans  # noqa: E402
from hf_reference import (BATCH, BETAS, CLIP, DECAY, EPS, STEPS, T, V, WEIGHTS_TOLERANCE,  # noqa: E402
                          distance, learning_rate, rows, say)

SIZES = dict(vocab_size=V, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=8,
             num_key_value_heads=2,
             max_position_embeddings=T, rms_norm_eps=1e-3, tie_word_embeddings=False, use_cache=False,
             attention_dropout=0.0,
             rope_parameters={"rope_theta": 500.0, "rope_type": "default"}, initializer_range=0.15)
BERT_SIZES = dict(vocab_size=V, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=8,
                  max_position_embeddings=T,
                  type_vocab_size=2, layer_norm_eps=1e-3, hidden_act="gelu", hidden_dropout_prob=0.0,
                  attention_probs_dropout_prob=0.0,
                  # with one, PyTorch's embedding does not train that token's row
                  initializer_range=0.15, pad_token_id=None)
T5_SIZES = dict(vocab_size=V, d_model=64, d_kv=8, d_ff=96, num_layers=2, num_decoder_layers=2, num_heads=8,
                n_positions=T, dropout_rate=0.0,
                layer_norm_epsilon=1e-3, feed_forward_proj="relu", relative_attention_num_buckets=32,
                relative_attention_max_distance=128,
                tie_word_embeddings=True, decoder_start_token_id=0, pad_token_id=0, use_cache=False)
# T5 1.1: a gated MLP, heads of another width, a head of its own
T5_1_1_SIZES = dict(T5_SIZES, d_kv=12, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
GPT2_SIZES = dict(vocab_size=V, n_embd=64, n_inner=96, n_layer=2, n_head=8, n_positions=T, resid_pdrop=0.0,
                  embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=1e-3, tie_word_embeddings=False, use_cache=False,
                  activation_function="gelu",
                  initializer_range=0.15, bos_token_id=None, eos_token_id=None)
ROPE = {"rope_theta": 500.0, "original_max_position_embeddings": 16}
TODAY = {"llama3": dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5,
                        rope_parameters=dict(ROPE, rope_type="llama3", factor=8.0, low_freq_factor=0.5,
                                             high_freq_factor=4.0)),
         "mistral": dict(head_dim=12, sliding_window=None,
                         rope_parameters=dict(rope_theta=500.0, rope_type="linear", factor=2.5)),
         "qwen2": dict(tie_word_embeddings=True, rms_norm_eps=1e-6,
                       rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0, beta_fast=4.0)),
         "qwen3": dict(head_dim=12, attention_bias=True),
         "olmo2": dict(tie_word_embeddings=True, pad_token_id=None, eos_token_id=None,
                       rope_parameters=dict(ROPE, rope_type="llama3", factor=8.0, low_freq_factor=0.5,
                                            high_freq_factor=4.0)),
         "seed_oss": dict(head_dim=12, mlp_bias=True, residual_dropout=0.0, pad_token_id=None),
         "mistral_window": dict(sliding_window=5),
         "qwen2_window": dict(use_sliding_window=True, sliding_window=11, max_window_layers=1),
         "qwen3_window": dict(use_sliding_window=True, sliding_window=7,
                              layer_types=["sliding_attention", "full_attention"]),
         # latents' norms of another eps than the others, values that are padded, and one more factor of scores
         "deepseek_v2": dict(num_key_value_heads=8, kv_lora_rank=20, q_lora_rank=None, qk_nope_head_dim=6,
                             qk_rope_head_dim=4, v_head_dim=7, first_k_dense_replace=2),
         "deepseek_v3": dict(num_key_value_heads=8, kv_lora_rank=20, q_lora_rank=12, qk_nope_head_dim=6,
                             qk_rope_head_dim=4, v_head_dim=7, first_k_dense_replace=2,
                             rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0, beta_fast=4.0, mscale=0.7,
                                                  mscale_all_dim=1.2)),
         # groups of experts, a bias that moves tokens, gates that are scaled, a layer without experts
         "dots1": dict(head_dim=12, attention_bias=True, sliding_window=5, max_window_layers=1, n_routed_experts=8,
                       num_experts_per_tok=3, moe_intermediate_size=40, n_shared_experts=2, first_k_dense_replace=1,
                       n_group=4, topk_group=2, norm_topk_prob=True, routed_scaling_factor=1.7),
         "deepseek_v2_experts": dict(num_key_value_heads=8, kv_lora_rank=20, q_lora_rank=12, qk_nope_head_dim=6,
                                     qk_rope_head_dim=4, v_head_dim=7, first_k_dense_replace=1, n_routed_experts=8,
                                     num_experts_per_tok=3, moe_intermediate_size=40, n_shared_experts=2,
                                     topk_method="group_limited_greedy", n_group=4, topk_group=2,
                                     routed_scaling_factor=1.7),
         "deepseek_v3_experts": dict(num_key_value_heads=8, kv_lora_rank=20, q_lora_rank=12, qk_nope_head_dim=6,
                                     qk_rope_head_dim=4, v_head_dim=7, first_k_dense_replace=1, n_routed_experts=8,
                                     num_experts_per_tok=3, moe_intermediate_size=40, n_shared_experts=1, n_group=4,
                                     topk_group=2, routed_scaling_factor=1.7,
                                     rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0, beta_fast=4.0, mscale=0.7,
                                                          mscale_all_dim=1.2)),
         # the bias moves by the load of each step
         "dots1_moved": dict(head_dim=12, attention_bias=True, n_routed_experts=8, num_experts_per_tok=3,
                             moe_intermediate_size=40, n_shared_experts=1, first_k_dense_replace=0, n_group=2,
                             topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.7),
         # the limit is so small that it clamps; YaRN's bounds are no whole pairs
         "gpt_oss": dict(head_dim=12, num_local_experts=8, num_experts_per_tok=3, sliding_window=5, swiglu_limit=0.6,
                         layer_types=["sliding_attention", "full_attention"],
                         rope_parameters=dict(ROPE, rope_type="yarn", factor=4.0, beta_fast=4.0, truncate=False)),
         "qwen3_moe": dict(head_dim=12, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=40,
                           norm_topk_prob=True),
         "qwen3_moe_dense": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=40, num_hidden_layers=4,
                                 mlp_only_layers=[1], attention_bias=True, tie_word_embeddings=True),
         "mixtral": dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=None, output_router_logits=False)}
TODAY["gpt_oss_mxfp4"] = TODAY["gpt_oss"]
SEED = 1234                                                      # --seed's default


def model_class(name):
    import transformers
    others = {"bert": (transformers.BertConfig, transformers.BertForMaskedLM),
              "t5": (transformers.T5Config, transformers.T5ForConditionalGeneration),
              "t5_1_1": (transformers.T5Config, transformers.T5ForConditionalGeneration)}
    if name in others:
        return others[name]
    config = transformers.CONFIG_MAPPING["llama" if name == "llama3" else
                                         name.removesuffix("_window").removesuffix("_dense")
                                             .removesuffix("_experts").removesuffix("_mxfp4").removesuffix("_moved")]
    return config, transformers.MODEL_FOR_CAUSAL_LM_MAPPING[config]


def sizes(name):
    others = {"gpt2": GPT2_SIZES, "bert": BERT_SIZES, "t5": T5_SIZES, "t5_1_1": T5_1_1_SIZES}
    return others[name] if name in others else {**SIZES, **TODAY.get(name, {})}


# The biases of routers, which have no gradient
def biases(m):
    return {key: x for key, x in m.named_buffers() if key.endswith("e_score_correction_bias")}


# A gain or a bias; experts have a row of biases each
def is_vector(key, w):
    return w.dim() == 1 or key.endswith("_bias")


def new_model(name):
    config, model = model_class(name)
    torch.manual_seed(7)
    m = model._from_config(config(**sizes(name)), attn_implementation="eager", experts_implementation="eager").double()
    with torch.no_grad():                                        # gains that are not all one
        for key, w in m.named_parameters():
            if is_vector(key, w):
                w += torch.randn(w.shape, dtype=torch.float64) * 0.15
        for w in biases(m).values():                             # of the size of the scores' differences
            w += torch.randn(w.shape, dtype=torch.float64) * 0.15
    if name == "t5_1_1":
        own_head(m)
    if name == "gpt_oss_mxfp4":
        of_blocks(m)
    return m


# ---- experts in MXFP4: random codes and scales, and the numbers that transformers makes of them ----

# name -> codes (E, rows, groups, 32) of 0 to 15, scales (E, rows, groups) as bytes: 2^-6 to 2^-2
def blocks(m):
    random, found = np.random.default_rng(9), {}
    for key, w in m.named_parameters():
        if key.endswith(("gate_up_proj", "down_proj")):
            experts, columns, n = w.shape                        # the blocks are along a product's sum
            shape = experts, n, columns // 32
            found[key] = random.integers(0, 16, (*shape, 32), np.uint8), random.integers(121, 126, shape, np.uint8)
    return found


def packed(codes):
    return codes[..., ::2] | codes[..., 1::2] << 4


def of_blocks(m):
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    named = dict(m.named_parameters())
    with torch.no_grad():
        for key, (codes, scales) in blocks(m).items():
            named[key].copy_(convert_moe_packed_tensors(torch.tensor(packed(codes)), torch.tensor(scales),
                                                        dtype=torch.float64))


# Put the blocks into the saved files, as OpenAI's have them; codes and scales of one may lie in two files
def save_blocks(m, folder):
    from safetensors.torch import load_file, save_file
    with open(f"{folder}/model.safetensors.index.json") as f:
        index = json.load(f)
    files = {file: load_file(f"{folder}/{file}") for file in sorted(set(index["weight_map"].values()))}
    last = list(files)[-1]
    for key, (codes, scales) in blocks(m).items():
        file = index["weight_map"].pop(key)
        del files[file][key]
        for into, name, x in ((file, f"{key}_blocks", packed(codes)), (last, f"{key}_scales", scales)):
            files[into][name], index["weight_map"][name] = torch.tensor(x), into
    for file, tensors in files.items():
        save_file(tensors, f"{folder}/{file}", metadata={"format": "pt"})
    with open(f"{folder}/model.safetensors.index.json", "w") as f:
        json.dump(index, f)
    with open(f"{folder}/config.json") as f:
        config = json.load(f)
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    with open(f"{folder}/config.json", "w") as f:
        json.dump(config, f)


# transformers 5 ties the head of a new T5, and leaves one untied that was loaded so
def own_head(m):
    m.lm_head.weight = torch.nn.Parameter(torch.randn(m.lm_head.weight.shape, dtype=torch.float64) * 0.15)


def make(name, folder):
    # with the experts of a layer in one tensor, as transformers 5 keeps them
    fused = dict(save_original_format=False) if name.endswith("_dense") else {}
    new_model(name).save_pretrained(f"{folder}/model", max_shard_size="100KB", **fused)
    if name == "gpt_oss_mxfp4":
        save_blocks(new_model(name), f"{folder}/model")
    if name == "t5_1_1":  # transformers 5 writes that its head is tied
        with open(f"{folder}/model/config.json") as f:
            config = json.load(f)
        with open(f"{folder}/model/config.json", "w") as f:
            json.dump({**config, "tie_word_embeddings": False}, f)
    assert os.path.exists(f"{folder}/model/model.safetensors.index.json")
    # exactly one batch of samples: each step sees all of them, in whatever order
    np.random.default_rng(8).integers(0, V, BATCH * T + 1, np.uint8).tofile(f"{folder}/tokens")


def masked(text, numbers):
    tokens, segments, targets = zip(*(hf_masks.sample(SEED, n, x.tolist(), V, V - 1) for n, x in zip(numbers, text)))
    return dict(input_ids=torch.tensor(tokens), token_type_ids=torch.tensor(segments)), torch.tensor(targets)


def with_spans(text, numbers):
    encoder, decoder, targets = zip(*(hf_spans.sample(SEED, n, x.tolist(), V) for n, x in zip(numbers, text)))
    return dict(input_ids=torch.tensor(encoder), decoder_input_ids=torch.tensor(decoder)), torch.tensor(targets)


# Inputs and targets of step n; None: of evaluation, whose samples are numbered from -1 down.
def batch(name, data, n):
    text = data[:-1].view(BATCH, T)
    if name not in ("bert", "t5", "t5_1_1"):
        return dict(input_ids=text), data[1:].view(BATCH, T)
    made = masked if name == "bert" else with_spans
    if n is None:
        return made(text, [-1 - i for i in range(BATCH)])
    order = [hf_masks.permute(SEED, "data.shuffle", n, BATCH, b) for b in range(BATCH)]
    return made(text[order], [BATCH * n + b for b in range(BATCH)])


# Algorithm 1 of arXiv 2408.15664, for each layer with experts; transformers does not have it
RATE = 0.02                                                      # --router-bias-rate of tests/hf.sh


class Loads:
    def __init__(self, m):
        self.counts = {x: 0 for x in m.modules() if hasattr(x, "e_score_correction_bias")}
        for router in self.counts:
            router.register_forward_hook(self.count)

    def count(self, router, _, routed):
        self.counts[router] = self.counts[router] + torch.bincount(routed[-1].flatten(), minlength=len(router.weight))

    @torch.no_grad()
    def move(self):
        for router, count in self.counts.items():
            router.e_score_correction_bias += RATE * torch.sign(count.sum() - count * len(count))
            self.counts[router] = 0


def loss_of(m, inputs, targets):
    return torch.nn.functional.cross_entropy(m(**inputs).logits.view(-1, V), targets.reshape(-1), ignore_index=-1)


def train(m, name, data):
    vectors = {key: is_vector(key, x) for key, x in m.named_parameters()}
    groups = [{"params": [x for key, x in m.named_parameters() if vectors[key] == v], "weight_decay": 0 if v else DECAY}
              for v in (False, True)]
    adamw = torch.optim.AdamW(groups, lr=1, betas=BETAS, eps=EPS)
    losses, norms, loads = [], [], Loads(m) if name.endswith("_moved") else None
    for n in range(STEPS):
        adamw.zero_grad()
        loss = loss_of(m, *batch(name, data, n))
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(m.parameters(), CLIP)))
        losses.append(float(loss.detach()))
        for group in adamw.param_groups:
            group["lr"] = learning_rate(n)
        adamw.step()
        if loads:
            loads.move()
    return losses, norms


def check(name, folder):
    data = torch.tensor(np.fromfile(f"{folder}/tokens", np.uint8).astype(np.int64))
    m = new_model(name)
    losses, norms = train(m, name, data)
    inputs, targets = batch(name, data, None)
    for run in ("serial", "layout", "other"):
        path = f"{folder}/{run}.jsonl"
        if run == "other" and not os.path.exists(path):
            continue
        say(f"{name}_trains_as_in_transformers_{run}",
            max(distance(rows(path, "loss"), losses), distance(rows(path, "grad_norm"), norms)))

    # a Mistral without a window is exported as the Llama that it is
    exported, report = model_class("llama" if name == "mistral" else name)[1].from_pretrained(
        f"{folder}/trained", dtype=torch.float64, attn_implementation="eager", experts_implementation="eager",
        output_loading_info=True)
    wrong = {key: value for key, value in report.items() if value}
    print(f"not ok {name}_export_is_read_by_transformers {wrong}" if wrong
          else f"ok {name}_export_is_read_by_transformers")
    ours, theirs = ({**dict(x.named_parameters()), **biases(x)} for x in (exported, m))
    say(f"{name}_exported_weights_are_those_of_transformers",
        max(distance(ours[key].detach(), theirs[key].detach()) for key in theirs), WEIGHTS_TOLERANCE)
    with torch.no_grad():
        say(f"{name}_exported_model_has_the_same_logits", distance(exported(**inputs).logits, m(**inputs).logits),
            WEIGHTS_TOLERANCE)
        say(f"{name}_has_the_same_validation_loss",
            distance(rows(f"{folder}/layout.jsonl", "val_loss"), [float(loss_of(exported, inputs, targets))]))
    with open(f"{folder}/trained/config.json") as f:
        config = json.load(f)
    wanted = sizes(name)
    wrong = {key: config.get(key) for key in wanted if key in config and config[key] != wanted[key]}
    print(f"not ok {name}_exported_config {wrong}" if wrong else f"ok {name}_exported_config")


# ---- attention's scores, of models that Trivium does not import ----

CAP = 0.5


def weights_of(folder):
    """A checkpoint of one rank, by Hugging Face's names."""
    import safetensors.torch
    with open(f"{folder}/latest") as f:
        ours = safetensors.torch.load_file(f"{folder}/{f.read().strip()}/rank-00000.safetensors")
    found = {"model.embed_tokens.weight": ours["embed.table"], "model.norm.weight": ours["head.norm.g"],
             "lm_head.weight": ours["head.w"]}
    for n in range(SIZES["num_hidden_layers"]):
        k, v = ours[f"h{n}.kv.w"]
        gate, up = ours[f"h{n}.up.w"]
        layer = {"input_layernorm.weight": ours[f"h{n}.norm1.g"], "self_attn.q_proj.weight": ours[f"h{n}.q.w"],
                 "self_attn.k_proj.weight": k, "self_attn.v_proj.weight": v,
                 "post_attention_layernorm.weight": ours[f"h{n}.norm2.g"], "mlp.gate_proj.weight": gate,
                 "mlp.up_proj.weight": up, "mlp.down_proj.weight": ours[f"h{n}.down.w"],
                 "self_attn.o_proj.weight": ours[f"h{n}.proj.w"].flatten(1)}
        if f"h{n}.sinks" in ours:
            layer["self_attn.sinks"] = ours[f"h{n}.sinks"]
        found.update({f"model.layers.{n}.{key}": x for key, x in layer.items()})
    return {key: x if x.dim() < 3 else x.flatten(0, -2) for key, x in found.items()}


def model_of_scores(name, weights):
    import transformers.models.gemma2.modeling_gemma2 as gemma2
    import transformers.models.gpt_oss.modeling_gpt_oss as gpt_oss
    import transformers.models.mistral.modeling_mistral as mistral
    theirs = {"capped": lambda *words, **more: gemma2.eager_attention_forward(*words, softcap=CAP, **more),
              "sinks": gpt_oss.eager_attention_forward}
    mistral.eager_attention_forward = theirs[name]
    config, model = model_class("mistral")
    m = model._from_config(config(**SIZES, sliding_window=5), attn_implementation="eager").double()
    for layer in m.model.layers:
        if name == "sinks":
            layer.self_attn.sinks = torch.nn.Parameter(torch.zeros(SIZES["num_attention_heads"]))
    m.load_state_dict(weights)
    return m


def scores(name, folder):
    data = torch.tensor(np.fromfile(f"{folder}/tokens", np.uint8).astype(np.int64))
    m = model_of_scores(name, weights_of(f"{folder}/start"))
    losses, norms = train(m, name, data)
    for run in ("serial", "layout", "other"):
        path = f"{folder}/{run}.jsonl"
        say(f"attention_{name}_trains_as_in_transformers_{run}",
            max(distance(rows(path, "loss"), losses), distance(rows(path, "grad_norm"), norms)))
    ours, theirs = weights_of(f"{folder}/end"), m.state_dict()
    say(f"attention_{name}_has_the_weights_of_transformers", max(distance(ours[key], theirs[key]) for key in theirs),
        WEIGHTS_TOLERANCE)


if __name__ == "__main__":
    if not os.path.isdir(sys.argv[3]):
        sys.exit(f"{sys.argv[3]} is no folder")
    {"make": make, "check": check, "scores": scores}[sys.argv[1]](sys.argv[2], sys.argv[3])

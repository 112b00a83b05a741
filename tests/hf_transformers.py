"""The models of Hugging Face's transformers, trained beside Trivium's; for tests/hf.sh.

    hf_transformers.py make MODEL DIR     DIR/model: a small MODEL (llama, mixtral) with random weights, as save_pretrained leaves it, in several
                                          files with an index; DIR/tokens
    hf_transformers.py check MODEL DIR    train it on the same tokens, and compare with what Trivium left in DIR: serial.jsonl,
                                          layout.jsonl (metrics), trained/ (an export of the layout's last step)

All is fp64. transformers computes norms, the softmax of attention and the angles of positions in fp32 whatever the model's type: the
names of that type are turned to fp64 before it is loaded. Numbers that mean the same then differ by rounding."""
import json
import os
import sys

import numpy as np
import torch

torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

from hf_reference import BATCH, BETAS, CLIP, DECAY, EPS, STEPS, T, V, WEIGHTS_TOLERANCE, distance, learning_rate, rows, say  # noqa: E402

SIZES = dict(vocab_size=V, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2,
             max_position_embeddings=T, rms_norm_eps=1e-5, tie_word_embeddings=False, use_cache=False, attention_dropout=0.0,
             rope_parameters={"rope_theta": 500.0, "rope_type": "default"}, initializer_range=0.15)


def model_class(name):
    import transformers
    return {"llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
            "mixtral": (transformers.MixtralConfig, transformers.MixtralForCausalLM)}[name]


def sizes(name):
    return SIZES if name == "llama" else {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None,
                                          "output_router_logits": False}


def new_model(name):
    config, model = model_class(name)
    torch.manual_seed(7)
    m = model._from_config(config(**sizes(name)), attn_implementation="eager", experts_implementation="eager").double()
    with torch.no_grad():                                        # gains that are not all one
        for key, w in m.named_parameters():
            if w.dim() == 1:
                w += torch.randn(w.shape, dtype=torch.float64) * 0.15
    return m


def make(name, folder):
    new_model(name).save_pretrained(f"{folder}/model", max_shard_size="100KB")
    assert os.path.exists(f"{folder}/model/model.safetensors.index.json")
    # exactly one batch of samples: each step sees all of them, in whatever order
    np.random.default_rng(8).integers(0, V, BATCH * T + 1, np.uint8).tofile(f"{folder}/tokens")


def loss_of(m, tokens, targets):
    return torch.nn.functional.cross_entropy(m(tokens).logits.view(-1, V), targets.reshape(-1))


def train(m, tokens, targets):
    groups = [{"params": [x for x in m.parameters() if x.dim() > 1], "weight_decay": DECAY},
              {"params": [x for x in m.parameters() if x.dim() == 1], "weight_decay": 0}]
    adamw = torch.optim.AdamW(groups, lr=1, betas=BETAS, eps=EPS)
    losses, norms = [], []
    for n in range(STEPS):
        adamw.zero_grad()
        loss = loss_of(m, tokens, targets)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(m.parameters(), CLIP)))
        losses.append(float(loss.detach()))
        for group in adamw.param_groups:
            group["lr"] = learning_rate(n)
        adamw.step()
    return losses, norms


def check(name, folder):
    data = torch.tensor(np.fromfile(f"{folder}/tokens", np.uint8).astype(np.int64))
    tokens, targets = data[:-1].view(BATCH, T), data[1:].view(BATCH, T)
    m = new_model(name)
    losses, norms = train(m, tokens, targets)
    for run in ("serial", "layout"):
        path = f"{folder}/{run}.jsonl"
        say(f"{name}_trains_as_in_transformers_{run}", max(distance(rows(path, "loss"), losses), distance(rows(path, "grad_norm"), norms)))

    exported, report = model_class(name)[1].from_pretrained(f"{folder}/trained", dtype=torch.float64, attn_implementation="eager", experts_implementation="eager",
                                                            output_loading_info=True)
    wrong = {key: value for key, value in report.items() if value}
    print(f"not ok {name}_export_is_read_by_transformers {wrong}" if wrong else f"ok {name}_export_is_read_by_transformers")
    ours, theirs = dict(exported.named_parameters()), dict(m.named_parameters())
    say(f"{name}_exported_weights_are_those_of_transformers",
        max(distance(ours[key].detach(), theirs[key].detach()) for key in theirs), WEIGHTS_TOLERANCE)
    with torch.no_grad():
        say(f"{name}_exported_model_has_the_same_logits", distance(exported(tokens).logits, m(tokens).logits), WEIGHTS_TOLERANCE)
        say(f"{name}_has_the_same_validation_loss", distance(rows(f"{folder}/layout.jsonl", "val_loss"), [float(loss_of(exported, tokens, targets))]))
    with open(f"{folder}/trained/config.json") as f:
        config = json.load(f)
    wanted = sizes(name)
    wrong = {key: config.get(key) for key in wanted if key in config and config[key] != wanted[key]}
    print(f"not ok {name}_exported_config {wrong}" if wrong else f"ok {name}_exported_config")


if __name__ == "__main__":
    if not os.path.isdir(sys.argv[3]):
        sys.exit(f"{sys.argv[3]} is no folder")
    {"make": make, "check": check}[sys.argv[1]](sys.argv[2], sys.argv[3])

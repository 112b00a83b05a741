"""GPT-2 in PyTorch, written from its description and from nothing of Trivium's; for tests/hf.sh.

    hf_reference.py make DIR     DIR/model.safetensors (F64, Hugging Face's names, random weights), DIR/config.json,
                                 DIR/tokens
    hf_reference.py check DIR    train the same model on the same tokens, and compare with what Trivium left in DIR:
                                 serial.jsonl, layout.jsonl (metrics), trained/model.safetensors and trained.bin
                                 (exports of the layout's last step)

Everything is fp64: numbers that mean the same differ by rounding, and a transposed matrix, another order of heads,
another GELU or a step of AdamW with another epsilon differ by far more than TOLERANCE. Weights: the gradient of the
keys' bias is zero, and AdamW makes steps of its rounding noise, some 1e-17 over an epsilon of 1e-8, at the learning
rate."""
import json
import math
import os
import struct
import sys

import numpy as np

L, C, H, T, V, PADDED_V = 2, 64, 4, 32, 250, 256
BATCH, STEPS, WARMUP, LR, MIN_LR = 8, 5, 2, 1e-2, 1e-3
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 0.5
TOLERANCE, WEIGHTS_TOLERANCE = 1e-10, 1e-8
DTYPES = {"F64": np.float64, "F32": np.float32}


# ---- files ----

def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": "F64", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for x in tensors.values():
            f.write(np.ascontiguousarray(x).tobytes())


def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    assert header.pop("__metadata__") == {"format": "pt"}
    tensors = {}
    for name, row in header.items():
        begin, end = (8 + n + x for x in row["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], DTYPES[row["dtype"]]).reshape(row["shape"])
    return tensors


def rows(path, key):
    with open(path) as f:
        return [row[key] for row in map(json.loads, f) if key in row]


# ---- the model, by Hugging Face's names ----

def random_weights():
    rng = np.random.default_rng(7)

    def matrix(*shape):
        return rng.normal(0, 0.15, shape)

    w = {"wte.weight": matrix(V, C), "wpe.weight": matrix(T, C)}
    for layer in range(L):
        h = f"h.{layer}."
        w[h + "ln_1.weight"], w[h + "ln_1.bias"] = 1 + matrix(C), matrix(C)
        w[h + "attn.c_attn.weight"], w[h + "attn.c_attn.bias"] = matrix(C, 3 * C), matrix(3 * C)
        w[h + "attn.c_proj.weight"], w[h + "attn.c_proj.bias"] = matrix(C, C), matrix(C)
        w[h + "ln_2.weight"], w[h + "ln_2.bias"] = 1 + matrix(C), matrix(C)
        w[h + "mlp.c_fc.weight"], w[h + "mlp.c_fc.bias"] = matrix(C, 4 * C), matrix(4 * C)
        w[h + "mlp.c_proj.weight"], w[h + "mlp.c_proj.bias"] = matrix(4 * C, C), matrix(C)
    w["ln_f.weight"], w["ln_f.bias"] = 1 + matrix(C), matrix(C)
    return w


def make(folder):
    write_safetensors(f"{folder}/model.safetensors", {"transformer." + name: x for name, x in random_weights().items()})
    with open(f"{folder}/config.json", "w") as f:
        json.dump({"model_type": "gpt2", "n_layer": L, "n_embd": C, "n_head": H, "n_positions": T, "vocab_size": V,
                   "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}, f)
    # exactly one batch of samples: each step sees all of them, in whatever order
    np.random.default_rng(8).integers(0, V, BATCH * T + 1, np.uint8).tofile(f"{folder}/tokens")


def logits(w, tokens):
    import torch
    from torch.nn.functional import layer_norm

    def norm(x, name):
        return layer_norm(x, (C,), w[name + ".weight"], w[name + ".bias"], 1e-5)

    def conv1d(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def gelu_new(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))

    n = tokens.shape[0]
    future = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
    x = w["wte.weight"][tokens] + w["wpe.weight"]
    for layer in range(L):
        h = f"h.{layer}."
        q, k, v = (part.view(n, T, H, C // H).transpose(1, 2)
                   for part in conv1d(norm(x, h + "ln_1"), h + "attn.c_attn").split(C, 2))
        scores = (q @ k.transpose(2, 3) / math.sqrt(C // H)).masked_fill(future, -math.inf)
        x = x + conv1d((scores.softmax(3) @ v).transpose(1, 2).reshape(n, T, C), h + "attn.c_proj")
        x = x + conv1d(gelu_new(conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def loss_of(w, tokens, targets):
    from torch.nn.functional import cross_entropy
    return cross_entropy(logits(w, tokens).view(-1, V), targets.reshape(-1))


# ---- training ----

def learning_rate(n):
    if n < WARMUP:
        return LR * (n + 1) / WARMUP
    return MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * (n - WARMUP) / (STEPS - 1 - WARMUP)))


def train(tokens, targets):
    import torch
    w = {name: torch.tensor(x, requires_grad=True) for name, x in random_weights().items()}
    groups = [{"params": [x for x in w.values() if x.dim() == 2], "weight_decay": DECAY},
              {"params": [x for x in w.values() if x.dim() == 1], "weight_decay": 0}]
    adamw = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    losses, norms = [], []
    for n in range(STEPS):
        loss = loss_of(w, tokens, targets)
        adamw.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(w.values(), CLIP)))
        losses.append(float(loss))
        for group in adamw.param_groups:
            group["lr"] = learning_rate(n)
        adamw.step()
    return {name: x.detach() for name, x in w.items()}, losses, norms


# ---- comparing ----

def distance(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        return math.inf
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def say(name, worst, tolerance=TOLERANCE):
    print(f"ok {name}" if worst <= tolerance else f"not ok {name} they differ by {worst:.3g}, and the limit is "
          f"{tolerance:g}")


def llmc_tensors(path):
    """The header, wte and fcw, whose places follow from the sizes."""
    with open(path, "rb") as f:
        data = f.read()
    header = struct.unpack("<256i", data[:1024])
    _, _, t, _, layers, _, c, padded = header[:8]
    body = np.frombuffer(data[1024:], np.float32)
    before_fcw = padded * c + t * c + layers * (2 * c + 3 * c * c + 3 * c + c * c + c + 2 * c)
    fcw = body[before_fcw:before_fcw + layers * 4 * c * c].reshape(layers, 4 * c, c)
    return header, body[:padded * c].reshape(padded, c), fcw


def check(folder):
    import torch
    torch.set_num_threads(1)
    data = torch.tensor(np.fromfile(f"{folder}/tokens", np.uint8).astype(np.int64))
    tokens, targets = data[:-1].view(BATCH, T), data[1:].view(BATCH, T)
    trained, losses, norms = train(tokens, targets)
    for run in ("serial", "layout"):
        path = f"{folder}/{run}.jsonl"
        say(f"imported_model_trains_as_in_pytorch_{run}",
            max(distance(rows(path, "loss"), losses), distance(rows(path, "grad_norm"), norms)))

    exported = read_safetensors(f"{folder}/trained/model.safetensors")
    exported = {name[len("transformer."):]: torch.tensor(x) for name, x in exported.items()}
    if exported.keys() != trained.keys():
        print("not ok exported_weights_are_pytorchs other names:", sorted(exported.keys() ^ trained.keys()))
        return
    say("exported_weights_are_pytorchs", max(distance(exported[name], trained[name]) for name in trained),
        WEIGHTS_TOLERANCE)
    say("exported_model_has_the_same_logits", distance(logits(exported, tokens), logits(trained, tokens)))
    say("exported_model_has_the_same_validation_loss",
        distance(rows(f"{folder}/layout.jsonl", "val_loss"), [float(loss_of(exported, tokens, targets))]))
    with open(f"{folder}/trained/config.json") as f:
        config = json.load(f)
    wanted = {"n_layer": L, "n_embd": C, "n_head": H, "n_positions": T, "n_ctx": T, "vocab_size": V,
              "activation_function": "gelu_new",
              "layer_norm_epsilon": 1e-5, "model_type": "gpt2", "tie_word_embeddings": True}
    wrong = {key: config.get(key) for key in wanted if config.get(key) != wanted[key]}
    print(f"not ok exported_config {wrong}" if wrong else "ok exported_config")

    header, wte, fcw = llmc_tensors(f"{folder}/trained.bin")
    if header[:8] != (20240326, 3, T, V, L, H, C, PADDED_V):
        print("not ok exported_llmc_file header", header[:8])
        return
    say("exported_llmc_file", max(distance(wte[:V], exported["wte.weight"].float()), float(np.abs(wte[V:]).max()),
                                  distance(fcw[1], exported["h.1.mlp.c_fc.weight"].T.float())), 0)


if __name__ == "__main__":
    if not os.path.isdir(sys.argv[2]):
        sys.exit(f"{sys.argv[2]} is no folder")
    {"make": make, "check": check}[sys.argv[1]](sys.argv[2])

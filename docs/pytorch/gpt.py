"""A GPT-2 as functions of its weights, and the loop that trains it. The other files of this folder each change one
thing.

    build/trivium oracle record --out ref --layers 2 --hidden 32 --heads 4 --seq 16 --steps 4
    torchrun --nproc-per-node 2 docs/pytorch/dp.py ref

A reference (docs/oracle-format.md) has weights to start from, the samples of each step and AdamW's numbers. So what is
printed can be held against the project's own runs. B sequences, T positions, C channels; all is fp64."""
import json
import sys

import safetensors.torch
import torch
import torch.distributed as dist
import torch.nn.functional as F


class Reference:
    def __init__(self, folder, dtype=torch.float64):
        self.folder, self.dtype = folder, dtype
        with open(f"{folder}/recording.json") as f:
            self.head = json.load(f)
        self.layers, self.heads = self.head["model"]["layers"], self.head["model"]["heads"]
        self.adamw, self.batch = self.head["optimizer"], self.head["global_batch"]

    def weights(self, own=lambda name, x: x):
        """{name: weight}. own: what this rank keeps of each; None: nothing."""
        whole = safetensors.torch.load_file(f"{self.folder}/model/model.safetensors")
        short = {name.removeprefix("transformer."): x for name, x in whole.items()}
        kept = {name: own(name, x) for name, x in short.items()}
        return {name: x.to(self.dtype, copy=True).contiguous().requires_grad_()
                for name, x in kept.items() if x is not None}

    def batches(self):
        """Yield each step's tokens and targets, (samples, positions)."""
        with open(f"{self.folder}/tokens.json") as f:
            both = json.load(f)
        return [(torch.tensor(t), torch.tensor(u)) for t, u in zip(both["tokens"], both["targets"])]

    def optimizer(self, weights):
        """AdamW. Matrices decay; by their names, for a shard of one may be a vector."""
        def is_matrix(name):
            return name.endswith("weight") and "ln_" not in name and "norm" not in name
        groups = [{"params": [w for name, w in weights.items() if is_matrix(name) == decays],
                   "weight_decay": self.adamw["weight_decay"] * decays} for decays in (True, False)]
        return torch.optim.AdamW([g for g in groups if g["params"]], betas=self.adamw["betas"], eps=self.adamw["eps"])

    def update(self, optimizer, n, norm, step=None):
        """The update of step n, from 0, with gradients clipped by their norm over all ranks."""
        for group in optimizer.param_groups:
            group["lr"] = self.adamw["lr"][n]
            for w in group["params"]:
                w.grad *= min(1.0, self.adamw["clip"] / (norm + 1e-6))
        (step or optimizer.step)()


class layer:
    """The weights of layer i, by their short names. A weight is looked up in w when it is used, and no earlier."""
    def __init__(self, w, i, layers="h"):
        self.w, self.prefix = w, f"{layers}.{i}."

    def __getitem__(self, name):
        return self.w[self.prefix + name]


def norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:]) * w[name + ".weight"] + w[name + ".bias"]


def attend(q, k, v):
    """Causal attention of (B, heads, T, channels of a head)."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def same(x):
    return x


def block(w, x, heads, attend=attend, f=same, g=same):
    """f stands before and g after each pair of matrices; what tensor parallelism does there is in tp.py."""
    qkv = f(norm(w, "ln_1", x)) @ w["attn.c_attn.weight"] + w["attn.c_attn.bias"]
    q, k, v = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in qkv.chunk(3, 2))
    x = x + g(attend(q, k, v).transpose(1, 2).flatten(2) @ w["attn.c_proj.weight"]) + w["attn.c_proj.bias"]
    hidden = F.gelu(f(norm(w, "ln_2", x)) @ w["mlp.c_fc.weight"] + w["mlp.c_fc.bias"], approximate="tanh")
    return x + g(hidden @ w["mlp.c_proj.weight"]) + w["mlp.c_proj.bias"]


def embed(w, tokens, first=0):
    """first: the position of tokens[:, 0] in its sequence."""
    return w["wte.weight"][tokens] + w["wpe.weight"][first:first + tokens.shape[1]]


def head(w, x, targets):
    """The mean cross entropy. The last matrix is the embedding's."""
    logits = F.linear(norm(w, "ln_f", x), w["wte.weight"]).flatten(0, 1)
    return F.cross_entropy(logits.float() if logits.dtype == torch.float16 else logits, targets.flatten())


def loss_of(ref, w, tokens, targets, attend=attend, first=0):
    x = embed(w, tokens, first)
    for i in range(ref.layers):
        x = block(layer(w, i), x, ref.heads, attend)
    return head(w, x, targets)


def own_rows(x, rank, n):
    """The samples of replica `rank` of n."""
    return x.chunk(n)[rank]


def squares(weights):
    return sum((w.grad ** 2).sum() for w in weights)


def all_sum(x):
    """The sum over all ranks of a number."""
    x = torch.as_tensor(x).detach().clone()
    dist.all_reduce(x)
    return x


def main(train, dtype=torch.float64):
    """train(reference, rank, ranks) yields the loss and the norm of the gradients of each step."""
    dist.init_process_group("gloo")
    for loss, norm_of_all, *_ in train(Reference(sys.argv[1], dtype), dist.get_rank(), dist.get_world_size()):
        if dist.get_rank() == 0:
            print(f"loss {loss:.12f}  grad_norm {norm_of_all:.12f}")
    dist.destroy_process_group()

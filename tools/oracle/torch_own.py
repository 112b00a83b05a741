"""A model of your own, which is none of transformers: a GPT-2 in plain PyTorch, whose gradients are averaged by hand.

    torchrun --nproc-per-node 2 torch_own.py REFERENCE RUN [--dtype fp64|fp32|bf16] [--plant BUG]

NAMES says what its modules are called in the reference. Each rank trains on its own share of the batch."""
import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from adapter import DTYPES, autocast, cross_entropy, finish_step, norm_of, own_microbatches, start
from recorder import Recorder

BUGS = {
    "biases": "the biases of queries, keys and values are left out of the averages",
    "mask": "a position sees the next one, too",
    "gelu": "the exact GELU, and not GPT-2's",
    "stale": "the forward pass of a rank has its own part of the rows new, and others of the step before",
    "group": "gradients are averaged over pairs of ranks, and not over all (needs four)",
}
NAMES = {"tokens": "transformer.wte", "positions": "transformer.wpe", "embedded": "transformer.drop",
         "blocks.*": "transformer.h.*", "blocks.*.norm1": "transformer.h.*.ln_1",
         "blocks.*.norm2": "transformer.h.*.ln_2",
         "blocks.*.qkv": "transformer.h.*.attn.c_attn", "blocks.*.out": "transformer.h.*.attn.c_proj",
         "blocks.*.up": "transformer.h.*.mlp.c_fc", "blocks.*.down": "transformer.h.*.mlp.c_proj",
         "norm": "transformer.ln_f"}


class Block(nn.Module):
    def __init__(self, channels, heads, bug):
        super().__init__()
        self.heads, self.bug = heads, bug
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, 2))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(1 if self.bug == "mask" else 0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="none" if self.bug == "gelu" else "tanh"))


class GPT(nn.Module):
    def __init__(self, sizes, bug):
        super().__init__()
        channels = sizes["hidden"]
        self.tokens, self.positions = nn.Embedding(sizes["vocab"], channels), nn.Embedding(sizes["seq"], channels)
        self.embedded = nn.Identity()       # gives the sum of both, which the reference has
        self.blocks = nn.ModuleList(Block(channels, sizes["heads"], bug) for _ in range(sizes["layers"]))
        self.norm = nn.LayerNorm(channels)

    def forward(self, tokens):
        x = self.embedded(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1])))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def average(a, model, group):
    for name, p in model.named_parameters():
        if a.ranks > 1 and not (a.plant == "biases" and name.endswith("qkv.bias")):
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)


@contextlib.contextmanager
def gathered_early(a, model, before):
    """before: the weights of the step before, which become those of this step."""
    now = [p.detach().clone() for p in model.parameters()]
    for p, old, new in zip(model.parameters(), before, now):
        own = slice(a.rank * len(p) // a.ranks, (a.rank + 1) * len(p) // a.ranks)
        p.data.copy_(old)
        p.data[own] = new[own]
    yield
    for p, old, new in zip(model.parameters(), before, now):
        p.data.copy_(new)
        old.copy_(new)


def main():
    a = start(__doc__, BUGS)
    reference = a.reference
    model = GPT(reference.head["model"], a.plant).to(DTYPES[a.dtype])
    reference.copy_into(model, NAMES)
    recorder = Recorder(a.run, reference, model, names=NAMES, dtype=a.dtype, rank=a.rank, by="own model, torch")
    optimizer = reference.optimizer(model.parameters())
    group = None
    if a.plant == "group":
        group = [dist.new_group([first, first + 1]) for first in range(0, a.ranks, 2)][a.rank // 2]
    before = [p.detach().clone() for p in model.parameters()]
    for n, (tokens, targets) in enumerate(reference.batches()):
        optimizer.zero_grad()
        mean = torch.zeros((), dtype=torch.float64)
        with gathered_early(a, model, before) if a.plant == "stale" else contextlib.nullcontext():
            for x, y, _, parts in own_microbatches(a, recorder, tokens, targets):
                with autocast(a):
                    loss = cross_entropy(model(x), y) / parts
                loss.backward()
                mean += loss.detach() / a.ranks
        average(a, model, group)
        recorder.gradients()
        if a.ranks > 1:
            dist.all_reduce(mean)
        finish_step(a, recorder, optimizer, n, mean, norm_of([p.grad for p in model.parameters()]))


if __name__ == "__main__":
    main()

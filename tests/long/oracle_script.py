"""A small GPT with a tied head, as strangers write them, for tests/long/oracle.sh. HOW: ddp, named (the input is
given by name), strided (samples are dealt one by one), accumulate (two microbatches), fsdp, padded (samples end with
targets that are ignored). SEED. BUG: one of those below."""
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from trivium.oracle import record

rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
how, seed, bug = os.environ.get("HOW", "ddp"), int(os.environ.get("SEED", 0)), os.environ.get("BUG", "")


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(c), nn.RMSNorm(c)
        self.qkv, self.out = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (4, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, 2))
        scale = q.shape[3] ** (-1 if bug == "scale" else -0.5)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, c=32, vocabulary=64, layers=3):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, c), nn.Embedding(16, c)
        self.blocks, self.norm = nn.ModuleList(Block(c) for _ in range(layers)), nn.LayerNorm(c)
        self.head = nn.Linear(c, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def wrapped(model):
    if ranks == 1:
        return model
    if how == "fsdp":
        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)
    ignored = ["blocks.1.up.bias"] if bug == "unsynced" else []
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)
    return DistributedDataParallel(model)


if ranks > 1:
    dist.init_process_group("gloo")
torch.manual_seed(seed)
torch.set_num_threads(1)
inner = GPT()
model = wrapped(inner)
optimizer = torch.optim.AdamW(inner.parameters(), 1e-2, weight_decay=0 if bug == "decay" else 0.1)
late, early = bug == "late", bug == "rate"
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1, (max(n, 1) if late else n + 1 + early) / 4))
data, parts = torch.Generator().manual_seed(seed), 2 if how == "accumulate" else 1
with record("run", steps=3, strided=how == "strided"):
    for step in range(4):
        batch = torch.randint(64, (8, 17), generator=data)
        if how == "padded":
            batch[:, 1:][torch.arange(16) >= 16 - 2 * torch.arange(8)[:, None]] = -100
        own = batch[rank::ranks] if how == "strided" and bug != "neighbors" else batch.chunk(ranks)[rank]
        optimizer.zero_grad()
        for i, part in enumerate(own.chunk(parts)):
            with model.no_sync() if i < parts - 1 and ranks > 1 else contextlib.nullcontext():
                inputs, targets = part[:, :-1].clamp(min=0), part[:, 1:]
                logits = model(tokens=inputs) if how == "named" else model(inputs)
                loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
                if how == "padded" and bug != "means":
                    n = torch.tensor([(targets >= 0).sum(), (batch[:, 1:] >= 0).sum()])
                    loss = loss * ranks * n[0] / (batch[:, 1:].numel() if bug == "padding" else n[1])
                (loss if bug == "accumulated" else loss / parts).backward()
        if bug == "thousandth":
            inner.blocks[1].up.weight.grad *= 1.001
        nn.utils.clip_grad_norm_(inner.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            model(batch[:, :-1].clamp(min=0))                        # an evaluation is no part of a step
if ranks > 1:
    dist.destroy_process_group()

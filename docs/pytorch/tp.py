"""Tensor parallelism, as tp/tp_region.c and Megatron-LM do it; lesson 05.

Each pair of matrices is sharded, the first by columns and the second by rows. f before the pair is the identity and
sums gradients in backward; g after it sums in forward and is the identity in backward. So a layer has two all-reduces
of (B, T, C) each way. The embedding is sharded by rows, and no rank ever has the logits of the whole vocabulary."""
import torch
import torch.distributed as dist

from gpt import attend, block, layer, main, norm, squares


def all_reduce(x, op=dist.ReduceOp.SUM):
    x = x.detach().clone().contiguous()
    dist.all_reduce(x, op)
    return x


class Before(torch.autograd.Function):         # f
    forward = staticmethod(lambda ctx, x: x.view_as(x))
    backward = staticmethod(lambda ctx, gradient: all_reduce(gradient))


class After(torch.autograd.Function):          # g
    forward = staticmethod(lambda ctx, x: all_reduce(x))
    backward = staticmethod(lambda ctx, gradient: gradient)


f, g = Before.apply, After.apply
BY_COLUMNS, BY_ROWS = ("c_fc.weight", "c_fc.bias"), ("c_proj.weight", "wte.weight")


def shard_of(name, x, rank, n):
    if "c_attn" in name:                       # of queries, keys and values each this rank's heads
        return torch.cat([part.chunk(n, -1)[rank] for part in x.chunk(3, -1)], -1)
    return x.chunk(n, -1)[rank] if name.endswith(BY_COLUMNS) else x.chunk(n)[rank] if name.endswith(BY_ROWS) else x


def is_sharded(name):
    return "c_attn" in name or name.endswith(BY_COLUMNS + BY_ROWS)


def own_ids(ids, rows, rank):
    """Which are in this rank's rows of the embedding, and where."""
    at = ids - rank * rows
    mine = (at >= 0) & (at < rows)
    return mine, at.clamp(0, rows - 1)


def embed(w, tokens, rank, g=g):
    mine, at = own_ids(tokens, len(w["wte.weight"]), rank)
    return g(w["wte.weight"][at] * mine.unsqueeze(-1))


def cross_entropy(w, x, targets, rank):
    """-log softmax over logits of which this rank has its columns: a maximum and two sums, of (B, T) each."""
    logits = x @ w["wte.weight"].T
    largest = all_reduce(logits.max(-1).values, dist.ReduceOp.MAX)
    mine, at = own_ids(targets, logits.shape[-1], rank)
    of_target = g(logits.gather(-1, at.unsqueeze(-1)).squeeze(-1) * mine)
    total = g((logits - largest.unsqueeze(-1)).exp().sum(-1))
    return (total.log() + largest - of_target).mean()


def train(ref, rank, n):
    w = ref.weights(lambda name, x: shard_of(name, x, rank, n))
    optimizer = ref.optimizer(w)
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        x = embed(w, tokens, rank) + w["wpe.weight"]
        for i in range(ref.layers):
            x = block(layer(w, i), x, ref.heads // n, attend, f, g)
        loss = cross_entropy(w, f(norm(w, "ln_f", x)), targets, rank)
        loss.backward()
        sharded = squares(x for name, x in w.items() if is_sharded(name))
        total = (all_reduce(sharded) + squares(x for name, x in w.items() if not is_sharded(name))) ** 0.5
        ref.update(optimizer, step, total)
        yield loss, total


if __name__ == "__main__":
    main(train)

"""ZeRO 1, as zero/zero.c at stage 1 and ZeroRedundancyOptimizer do it; lesson 04.

Adam's moments are sharded: rank r updates the r-th n-th of each weight, then the weights are gathered. A reduce-scatter
of S bytes and an all-gather, S (n-1)/n each: together an all-reduce, so the memory is saved for nothing."""
import torch
import torch.distributed as dist

from gpt import all_sum, loss_of, main, own_rows, squares


def shard_of(name, x, rank, n):
    return x.flatten().chunk(n)[rank]      # here n divides every weight; else the last shard is padded


def scatter(w, shard):
    """The owner gets the sum over replicas of its part of the gradient."""
    shard.grad = torch.empty_like(shard)
    dist.reduce_scatter_tensor(shard.grad, w.grad.flatten())
    w.grad = None


def gather(w, shard):
    whole = torch.empty(w.numel(), dtype=w.dtype)
    dist.all_gather_into_tensor(whole, shard.detach())
    w.data = whole.view_as(w)


def train(ref, rank, n):
    w, shards = ref.weights(), ref.weights(lambda name, x: shard_of(name, x, rank, n))
    optimizer = ref.optimizer(shards)
    for step, (tokens, targets) in enumerate(ref.batches()):
        loss = loss_of(ref, w, own_rows(tokens, rank, n), own_rows(targets, rank, n)) / n
        loss.backward()
        for name in w:
            scatter(w[name], shards[name])
        norm = all_sum(squares(shards.values())) ** 0.5       # each rank counts what it owns
        ref.update(optimizer, step, norm)
        for name in w:
            gather(w[name], shards[name])
        yield all_sum(loss), norm


if __name__ == "__main__":
    main(train)

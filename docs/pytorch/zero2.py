"""ZeRO 2, as zero/zero_bucket.c does it; lesson 04.

Gradients are sharded, too: backward gives each to its owner when it is made, and the whole one is freed at once. With m
microbatches that is m reduce-scatters: (m + 1) S (n-1)/n bytes per rank and step. (A weight that is used twice, as the
embedding is, is reduce-scattered twice.)"""
import torch
import torch.distributed as dist

from gpt import all_sum, loss_of, main, own_rows, squares
from zero1 import gather, shard_of

MICROBATCH = 2


class Use(torch.autograd.Function):
    """Forward: the whole weight. Backward: the gradient goes to its owners, as one of the shard."""
    @staticmethod
    def forward(ctx, shard, whole):
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx, gradient):
        own = gradient.new_empty(gradient.numel() // dist.get_world_size())
        dist.reduce_scatter_tensor(own, gradient.flatten())
        return own, None


class Weights:
    def __init__(self, whole, shards):
        self.whole, self.shards = whole, shards

    def __getitem__(self, name):
        return Use.apply(self.shards[name], self.whole[name].detach())


def train(ref, rank, n):
    whole, shards = ref.weights(), ref.weights(lambda name, x: shard_of(name, x, rank, n))
    w = Weights(whole, shards)
    optimizer = ref.optimizer(shards)
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(own_rows(tokens, rank, n).split(MICROBATCH), own_rows(targets, rank, n).split(MICROBATCH)):
            loss = loss_of(ref, w, x, y) * len(x) / len(tokens)
            loss.backward()
            total += loss.detach()
        norm = all_sum(squares(shards.values())) ** 0.5
        ref.update(optimizer, step, norm)
        for name in whole:
            gather(whole[name], shards[name])
        yield all_sum(total), norm


if __name__ == "__main__":
    main(train)

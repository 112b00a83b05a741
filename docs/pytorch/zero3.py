"""ZeRO 3, as zero/zero_gather.c and FSDP do it; lesson 04.

Weights are sharded, too. A look-up gathers the whole weight; backward gathers it again where it is read, and gives the
gradient to its owners. What autograd would save of a whole weight is its shard instead (pack, unpack). About 3 S
(n-1)/n bytes: biases are read by forward alone, the embedding by forward twice."""
import weakref

import torch
import torch.distributed as dist

from gpt import all_sum, loss_of, main, own_rows, squares
from zero1 import shard_of


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, shape):
        whole = torch.empty(shape.numel(), dtype=shard.dtype)
        dist.all_gather_into_tensor(whole, shard.detach())
        return whole.view(shape)

    @staticmethod
    def backward(ctx, gradient):
        own = gradient.new_empty(gradient.numel() // dist.get_world_size())
        dist.reduce_scatter_tensor(own, gradient.flatten())
        return own, None


class Sharded:
    """Weights by name, whole for as long as somebody holds them."""
    def __init__(self, shards, shapes):
        self.shards, self.shapes, self.name_at = shards, shapes, {}

    def __getitem__(self, name):
        whole = Gather.apply(self.shards[name], self.shapes[name])
        at = whole.untyped_storage().data_ptr()
        self.name_at[at] = name
        weakref.finalize(whole, self.name_at.pop, at, None)
        return whole

    def pack(self, x):
        name = self.name_at.get(x.untyped_storage().data_ptr())
        return (name, x.size(), x.stride()) if name else x

    def unpack(self, kept):
        if isinstance(kept, torch.Tensor):
            return kept
        name, size, stride = kept
        return Gather.apply(self.shards[name].detach(), self.shapes[name]).as_strided(size, stride)


def train(ref, rank, n):
    shards = ref.weights(lambda name, x: shard_of(name, x, rank, n))
    optimizer, w = ref.optimizer(shards), Sharded(shards, {name: x.shape for name, x in ref.weights().items()})
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(w.pack, w.unpack):
            loss = loss_of(ref, w, own_rows(tokens, rank, n), own_rows(targets, rank, n)) / n
        loss.backward()
        norm = all_sum(squares(shards.values())) ** 0.5
        ref.update(optimizer, step, norm)
        yield all_sum(loss), norm


if __name__ == "__main__":
    main(train)

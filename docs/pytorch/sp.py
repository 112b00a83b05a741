"""Sequence parallelism, as tp/tp_sequence.c and Megatron-LM do it; lesson 06.

Between tensor parallelism's pairs each rank has T/n positions. Entering a pair gathers positions, leaving it
reduce-scatters them: together the bytes of the all-reduce. Backward does the other of the two. Of what was gathered
only the own positions are kept, so backward gathers once more. What is replicated (norms, biases after a sum) has seen
a rank's positions only; its gradients are summed once per step."""
import weakref

import torch
import torch.distributed as dist

from gpt import attend, block, layer, main, norm, squares
from tp import all_reduce, cross_entropy, embed, is_sharded, shard_of


def gather(x):
    """(B, T/n, C) -> (B, T, C)"""
    x = x.detach().transpose(0, 1).contiguous()
    whole = x.new_empty(x.shape[0] * dist.get_world_size(), *x.shape[1:])
    dist.all_gather_into_tensor(whole, x)
    return whole.transpose(0, 1).contiguous()


def scatter(x):
    """(B, T, C), summed over ranks -> (B, T/n, C)"""
    x = x.detach().transpose(0, 1).contiguous()
    own = x.new_empty(x.shape[0] // dist.get_world_size(), *x.shape[1:])
    dist.reduce_scatter_tensor(own, x)
    return own.transpose(0, 1)


class Before(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: gather(x))
    backward = staticmethod(lambda ctx, gradient: scatter(gradient))


class After(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: scatter(x))
    backward = staticmethod(lambda ctx, gradient: gather(gradient))


class Entering:
    """f. Backward gathers the positions again (pack, unpack)."""
    def __init__(self):
        self.own_at = {}

    def __call__(self, x):
        whole = Before.apply(x)
        at = whole.untyped_storage().data_ptr()
        self.own_at[at] = x.detach()
        weakref.finalize(whole, self.own_at.pop, at, None)
        return whole

    def pack(self, x):
        own = self.own_at.get(x.untyped_storage().data_ptr())
        return x if own is None else (own, x.size(), x.stride())

    def unpack(self, kept):
        return kept if isinstance(kept, torch.Tensor) else gather(kept[0]).as_strided(*kept[1:])


def train(ref, rank, n):
    w = ref.weights(lambda name, x: shard_of(name, x, rank, n))
    optimizer, f, g = ref.optimizer(w), Entering(), After.apply
    replicated = [x for name, x in w.items() if not is_sharded(name)]
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(f.pack, f.unpack):
            x = embed(w, tokens, rank, g) + w["wpe.weight"].chunk(n)[rank]
            for i in range(ref.layers):
                x = block(layer(w, i), x, ref.heads // n, attend, f, g)
            loss = cross_entropy(w, f(norm(w, "ln_f", x)), targets, rank)
        loss.backward()
        together = all_reduce(torch.cat([x.grad.flatten() for x in replicated]))
        for x, total in zip(replicated, together.split([x.numel() for x in replicated])):
            x.grad = total.view_as(x)
        sharded = squares(x for name, x in w.items() if is_sharded(name))
        total = (all_reduce(sharded) + squares(replicated)) ** 0.5
        ref.update(optimizer, step, total)
        yield loss, total


if __name__ == "__main__":
    main(train)

"""Context parallelism by heads (Ulysses), as cp/ does it with --cp-heads; lesson 13.

Outside of attention each rank has T/n positions. An all-to-all before attention gives it all positions of H/n heads,
and one after it gives the positions back: four tensors forward, four backward, each sends (n-1)/n of itself."""
import torch
import torch.distributed as dist

import ring
from gpt import attend, main


def exchange(x, cut, join):
    """Each rank's part along `cut` goes to its rank; what comes is joined along `join`."""
    n = dist.get_world_size()
    sent = torch.stack(x.chunk(n, cut)).contiguous()
    got = torch.empty_like(sent)
    dist.all_to_all_single(got, sent)
    return torch.cat(list(got), join)


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cut, join):
        ctx.back = join, cut
        return exchange(x, cut, join)

    @staticmethod
    def backward(ctx, gradient):
        return exchange(gradient, *ctx.back), None, None


HEADS, POSITIONS = 1, 2                 # of (B, H, T, D)


def by_heads(q, k, v):
    q, k, v = (Exchange.apply(x, HEADS, POSITIONS) for x in (q, k, v))
    return Exchange.apply(attend(q, k, v), POSITIONS, HEADS)


def train(ref, rank, n):
    return ring.train(ref, rank, n, by_heads)


if __name__ == "__main__":
    main(train)

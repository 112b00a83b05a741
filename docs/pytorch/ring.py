"""Context parallelism by a ring, as cp/cp_ring.c does it; lesson 13.

Each rank has T/n positions, everywhere. In attention keys and values go round: at hop s a rank works with those of rank
r - s, and merges what they give by the logarithm of its softmax's denominator. Backward goes round once more; the sums
of dk and dv travel with their block, and one hop further, home. (This leaves the positions in order, so that the last
rank has most to do. Trivium gives each rank an early and a late piece: the bytes are the same.)"""
import torch
import torch.distributed as dist

from gpt import all_sum, loss_of, main, squares


def turn(x):
    """Sends x to the next rank; what comes from the one before, once it is waited for."""
    rank, n = dist.get_rank(), dist.get_world_size()
    got = torch.empty_like(x)
    send, receive = dist.isend(x, (rank + 1) % n), dist.irecv(got, (rank - 1) % n)
    return lambda: (send.wait(), receive.wait(), got)[2]


def scores(q, k, source):
    """The mask of local queries and keys of rank `source`; causal by global positions."""
    at = torch.arange(q.shape[2])
    ahead = (source * len(at) + at)[None, :] > (dist.get_rank() * len(at) + at)[:, None]
    return (q @ k.transpose(2, 3) / q.shape[3] ** 0.5).masked_fill(ahead, float("-inf"))


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        rank, n = dist.get_rank(), dist.get_world_size()
        kv, out, lse = torch.stack((k, v)), torch.zeros_like(q), q.new_full(q.shape[:3], float("-inf"))
        for hop in range(n):
            coming = turn(kv) if hop < n - 1 else None
            if rank >= hop:                                        # else its keys are all later than these queries
                s = scores(q, kv[0], rank - hop)
                merged = torch.logaddexp(lse, s.logsumexp(-1))
                out = out * (lse - merged).exp()[..., None] + (s - merged[..., None]).exp() @ kv[1]
                lse = merged
            kv = coming() if coming else kv
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        rank, n = dist.get_rank(), dist.get_world_size()
        kv, dq, sums = torch.stack((k, v)), torch.zeros_like(q), torch.zeros_like(torch.stack((k, v)))
        for hop in range(n):
            coming = turn(kv) if hop < n - 1 else None
            if rank >= hop:
                p = (scores(q, kv[0], rank - hop) - lse[..., None]).exp()
                ds = p * (dout @ kv[1].transpose(2, 3) - (dout * out).sum(-1, keepdim=True)) / q.shape[3] ** 0.5
                dq += ds @ kv[0]
                sums += torch.stack((ds.transpose(2, 3) @ q, p.transpose(2, 3) @ dout))
            kv = coming() if coming else kv
            sums = turn(sums)()
        return dq, sums[0], sums[1]


def train(ref, rank, n, attend=Ring.apply):
    w = ref.weights()
    optimizer = ref.optimizer(w)
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        x, y = tokens.chunk(n, 1)[rank], targets.chunk(n, 1)[rank]
        loss = loss_of(ref, w, x, y, attend, first=rank * x.shape[1]) / n
        loss.backward()
        for v in w.values():
            dist.all_reduce(v.grad)
        norm = squares(w.values()) ** 0.5
        ref.update(optimizer, step, norm)
        yield all_sum(loss), norm


if __name__ == "__main__":
    main(train)

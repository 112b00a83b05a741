"""Gradients as signs with error feedback, as dp/dp_coded.c and lib/comm/coded.c do it; lesson 18.

A code is a bit per element and one scale, the mean magnitude. Each rank encodes its gradient plus what it has rounded
away so far (its residual), part by part, and sends part r to rank r. That one adds in rank order, encodes the sum with
a residual of its own, and sends it to all. So 2 (n-1) b bytes, b of a part's code: a 32nd of an all-reduce. In fp32."""
import numpy
import torch
import torch.distributed as dist

from gpt import all_sum, loss_of, main, own_rows, squares

DTYPE = torch.float32


def encode(x):
    bits = torch.from_numpy(numpy.packbits((x < 0).numpy(), bitorder="little"))
    return torch.cat((x.abs().double().mean().float().view(1).view(torch.uint8), bits))


def decode(code, count):
    scale = code[:4].clone().view(torch.float32)
    bits = torch.from_numpy(numpy.unpackbits(code[4:].numpy(), count=count, bitorder="little"))
    return torch.where(bits.bool(), -scale, scale)


class CodedSum:
    """n divides the elements here."""
    def __init__(self, count, rank, n):
        self.rank, self.n = rank, n
        self.residual, self.sum_residual = torch.zeros(count), torch.zeros(count // n)

    def all_reduce(self, x):
        x = x + self.residual
        parts = x.chunk(self.n)
        sent = torch.stack([encode(part) for part in parts])
        self.residual = torch.cat([part - decode(code, len(part)) for part, code in zip(parts, sent)])
        got = torch.empty_like(sent)
        dist.all_to_all_single(got, sent)
        total = sum(decode(code, len(parts[0])) for code in got) + self.sum_residual
        own = encode(total)
        self.sum_residual = total - decode(own, len(total))
        everyone = own.new_empty(self.n * len(own))
        dist.all_gather_into_tensor(everyone, own)
        return torch.cat([decode(code, len(total)) for code in everyone.chunk(self.n)])


def in_order(w):
    """As they lie in memory here, for that says which part of the sum an element is in: layer by layer."""
    def place(name):
        return int(name.split(".")[1]) if name.startswith("h.") else -1 if name.startswith("w") else len(w)
    return {name: w[name] for name in sorted(w, key=place)}


def turned(name, x):
    """A layer's matrices lie as (out, in) here."""
    return x.T if x.dim() == 2 and name.startswith("h.") else x


def train(ref, rank, n):
    w = in_order(ref.weights())
    optimizer, coded = ref.optimizer(w), CodedSum(sum(x.numel() for x in w.values()), rank, n)
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        loss = loss_of(ref, w, own_rows(tokens, rank, n), own_rows(targets, rank, n)) / n
        loss.backward()
        total = coded.all_reduce(torch.cat([turned(name, x.grad).flatten() for name, x in w.items()]))
        for (name, x), gradient in zip(w.items(), total.split([x.numel() for x in w.values()])):
            x.grad = turned(name, gradient.view(turned(name, x).shape)).contiguous()
        norm = squares(w.values()) ** 0.5
        ref.update(optimizer, step, norm)
        yield all_sum(loss), norm


if __name__ == "__main__":
    main(train, DTYPE)

"""A pipeline with the schedule 1F1B, as pp/pp_schedule.c and Megatron-LM do it; lesson 07.

Stage s has L/p consecutive layers. It runs p - 1 - s forwards, then a forward and a backward in turn, then the
backwards that are left: so it keeps p - s microbatches in flight, and never m. Neighbors send (B, T, C) each way per
microbatch. The first and the last stage both have the embedding, and sum its gradient."""
import torch
import torch.distributed as dist

from gpt import all_sum, block, embed, head, layer, main

MICROBATCH = 2


def own(name, x, rank, n, layers):
    if name.startswith("h."):
        stages = [int(name.split(".")[1]) * n // layers]
    else:
        stages = {"wte.weight": [0, n - 1], "wpe.weight": [0]}.get(name, [n - 1])
    return x if rank in stages else None


class Stage:
    def __init__(self, ref, w, rank, n):
        self.ref, self.w, self.rank, self.n = ref, w, rank, n
        self.waiting, self.sends, self.total = [], [], torch.zeros((), dtype=torch.float64)

    def send(self, x, to):
        self.sends.append((dist.isend(x.detach().contiguous(), to), x))      # x lives until it has left

    def receive(self, like, source):
        x = torch.empty(like, dtype=torch.float64)
        dist.recv(x, source)
        return x

    def forward(self, tokens, targets, samples):
        shape = (*tokens.shape, self.ref.head["model"]["hidden"])
        start = x = None if self.rank == 0 else self.receive(shape, self.rank - 1).requires_grad_()
        x = embed(self.w, tokens) if self.rank == 0 else x
        for i in range(self.rank * self.ref.layers // self.n, (self.rank + 1) * self.ref.layers // self.n):
            x = block(layer(self.w, i), x, self.ref.heads)
        if self.rank == self.n - 1:
            x = head(self.w, x, targets) * len(tokens) / samples
            self.total += x.detach()
        else:
            self.send(x, self.rank + 1)
        self.waiting.append((start, x))

    def backward(self):
        start, x = self.waiting.pop(0)
        x.backward(None if self.rank == self.n - 1 else self.receive(x.shape, self.rank + 1))
        if start is not None:
            self.send(start.grad, self.rank - 1)

    def run(self, tokens, targets):
        microbatches = list(zip(tokens.split(MICROBATCH), targets.split(MICROBATCH)))
        ahead = min(self.n - 1 - self.rank, len(microbatches))
        for i, (x, y) in enumerate(microbatches):
            self.forward(x, y, len(tokens))
            if i >= ahead:
                self.backward()
        while self.waiting:
            self.backward()
        for work, _ in self.sends:
            work.wait()


def train(ref, rank, n):
    w = ref.weights(lambda name, x: own(name, x, rank, n, ref.layers))
    optimizer, tie = ref.optimizer(w), dist.new_group([0, n - 1])
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        stage = Stage(ref, w, rank, n)
        stage.run(tokens, targets)
        if rank in (0, n - 1):
            dist.all_reduce(w["wte.weight"].grad, group=tie)
        counted = [x for name, x in w.items() if not (name == "wte.weight" and rank == n - 1 > 0)]
        norm = all_sum(sum((x.grad ** 2).sum() for x in counted)) ** 0.5
        ref.update(optimizer, step, norm)
        yield all_sum(stage.total), norm


if __name__ == "__main__":
    main(train)

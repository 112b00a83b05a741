"""Data parallelism in buckets, as dp/dp_bucket.c and DistributedDataParallel do it; lesson 03.

Each replica has all weights and its share of the samples. A bucket's all-reduce starts when backward has made the last
of its gradients, and is in flight during the rest of backward. Sent per rank and step: 2 S (n-1)/n bytes."""
import torch
import torch.distributed as dist

from gpt import all_sum, loss_of, main, own_rows, squares


class Buckets:
    def __init__(self, weights, limit):
        self.limit, self.open, self.in_flight = limit, [], []
        for w in weights:
            w.register_post_accumulate_grad_hook(self.ready)

    def ready(self, w):
        self.open.append(w)
        if sum(w.nbytes for w in self.open) >= self.limit:
            self.start()

    def start(self):
        flat = torch.cat([w.grad.flatten() for w in self.open])
        self.in_flight.append((dist.all_reduce(flat, async_op=True), flat, self.open))
        self.open = []

    def finish(self):
        if self.open:
            self.start()
        for work, flat, weights in self.in_flight:
            work.wait()
            for w, total in zip(weights, flat.split([w.numel() for w in weights])):
                w.grad = total.view_as(w)
        self.in_flight = []


def train(ref, rank, n):
    w = ref.weights()
    optimizer, buckets = ref.optimizer(w), Buckets(w.values(), limit=64 << 10)
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        loss = loss_of(ref, w, own_rows(tokens, rank, n), own_rows(targets, rank, n)) / n     # a mean of equal shares
        loss.backward()
        buckets.finish()
        norm = squares(w.values()) ** 0.5
        ref.update(optimizer, step, norm)
        yield all_sum(loss), norm


if __name__ == "__main__":
    main(train)

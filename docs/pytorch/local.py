"""Local SGD, as dp_variants/local/local.c does it; lesson 27.

Each replica takes EVERY steps on the gradient of its own samples, clipped by that gradient's norm, then replicas
average their weights. The moments of Adam stay each replica's own. One all-reduce of S bytes in EVERY steps. With RATE
0.7 and MOMENTUM 0.9 it is DiLoCo: a step of Nesterov's from the old weights towards the average."""
import torch
import torch.distributed as dist

from gpt import all_sum, loss_of, main, own_rows, squares

EVERY, RATE, MOMENTUM = 2, 0.7, 0.9


def outer_step(w, agreed, momentum, n):
    for name in w:
        went = agreed[name] - w[name].detach()             # minus an outer gradient
        dist.all_reduce(went)
        momentum[name] = MOMENTUM * momentum[name] + went / n
        agreed[name] -= RATE * (went / n + MOMENTUM * momentum[name])
        w[name].data.copy_(agreed[name])


def train(ref, rank, n):
    w = ref.weights()
    agreed = {name: x.detach().clone() for name, x in w.items()}
    momentum = {name: torch.zeros_like(x) for name, x in agreed.items()}
    optimizer = ref.optimizer(w)
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        loss = loss_of(ref, w, own_rows(tokens, rank, n), own_rows(targets, rank, n))
        loss.backward()
        norm = squares(w.values()) ** 0.5
        ref.update(optimizer, step, norm)
        if (step + 1) % EVERY == 0:
            outer_step(w, agreed, momentum, n)
        yield all_sum(loss) / n, norm


if __name__ == "__main__":
    main(train)

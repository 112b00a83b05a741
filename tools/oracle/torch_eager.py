"""PyTorch on one process: torch_eager.py REFERENCE RUN [--dtype fp64|fp32|bf16] [--micro-batch N] [--plant BUG]

BUG: one of those below, to see it named."""
import argparse

import torch

from recorder import Recorder, Reference

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.float32}   # bf16: autocast over fp32 weights
BUGS = {
    "sum": "microbatches' losses are added, not averaged",
    "clip-after": "gradients are clipped by a norm that was taken before the last microbatch",
    "decay-all": "biases and norms decay too",
    "no-warmup": "the rate of the next step",
    "eps": "Adam's epsilon 1e-6",
}


def loss_of(model, tokens, targets):
    logits = model(tokens).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).to(torch.float64 if logits.dtype == torch.float64 else torch.float32),
                                             targets.flatten())


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("reference")
    a.add_argument("run")
    a.add_argument("--dtype", choices=DTYPES, default="fp32")
    a.add_argument("--micro-batch", type=int, default=4)
    a.add_argument("--plant", choices=BUGS)
    a = a.parse_args()
    if a.dtype == "fp64":
        torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    reference = Reference(a.reference)
    model = reference.load(DTYPES[a.dtype])
    recorder = Recorder(a.run, reference, model, dtype=a.dtype, by="torch eager")
    optimizer = reference.optimizer(model.parameters())
    if a.plant == "decay-all":
        optimizer.param_groups[1]["weight_decay"] = reference.adamw["weight_decay"]
    for group in optimizer.param_groups if a.plant == "eps" else []:
        group["eps"] = 1e-6
    for n, (tokens, targets) in enumerate(reference.batches()):
        parts = len(tokens) // a.micro_batch
        optimizer.zero_grad()
        total, norm = 0.0, None
        for i in range(parts):
            rows = slice(i * a.micro_batch, (i + 1) * a.micro_batch)
            recorder.samples(rows.start, a.micro_batch)
            if a.plant == "clip-after" and i == parts - 1:
                norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
            with torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16"):
                loss = loss_of(model, tokens[rows], targets[rows]) / (1 if a.plant == "sum" else parts)
            loss.backward()
            total += loss.detach()
        recorder.gradients()
        if norm is None:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), reference.clip)
        else:
            torch.nn.utils.clip_grads_with_norm_(model.parameters(), reference.clip, norm)
        reference.set_rate(optimizer, min(n + (a.plant == "no-warmup"), len(reference.adamw["lr"]) - 1))
        optimizer.step()
        recorder.step(optimizer, loss=total, grad_norm=norm)


if __name__ == "__main__":
    main()

"""PyTorch on one process:

    torch_eager.py REFERENCE RUN [--dtype fp64|fp32|bf16|fp16] [--micro-batch N] [--plant BUG]"""
import torch

from adapter import DTYPES, autocast, finish_step, loss_of, norm_of, start
from recorder import Recorder

BUGS = {
    "sum": "microbatches' losses are added, not averaged",
    "clip-after": "gradients are clipped by a norm that was taken before the last microbatch",
    "decay-all": "biases and norms decay too",
    "no-warmup": "the rate of the next step",
    "eps": "Adam's epsilon 1e-6",
    "scaled": "fp16: gradients are clipped before they are divided by the loss scale",
    "thousandth": "one matrix of layer 1 has a gradient that is a thousandth too large",
}


def main():
    a = start(__doc__, BUGS, micro_batch=4, dtypes=DTYPES)
    reference = a.reference
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
            recorder.samples(rows.start, a.micro_batch, 1 / a.loss_scale)
            if a.plant == "clip-after" and i == parts - 1:
                norm = norm_of([p.grad for p in model.parameters()])
            with autocast(a):
                loss = loss_of(model, tokens[rows], targets[rows]) / (1 if a.plant == "sum" else parts)
            (loss * a.loss_scale).backward()
            total += loss.detach()
        for p in model.parameters() if a.plant != "scaled" else []:
            p.grad /= a.loss_scale
        if a.plant == "thousandth":
            next(p for name, p in model.named_parameters() if ".1.mlp." in name and p.dim() > 1).grad *= 1.001
        recorder.gradients()
        if norm is None:
            norm = norm_of([p.grad for p in model.parameters()])
        late = a.plant == "no-warmup" and n + 1 < len(reference.adamw["lr"])
        finish_step(a, recorder, optimizer, n + late, total, norm)


if __name__ == "__main__":
    main()

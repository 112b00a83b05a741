"""PyTorch's DistributedDataParallel over gloo:

    torchrun --nproc-per-node 2 torch_ddp.py REFERENCE RUN [--dtype fp64|fp32|bf16] [--micro-batch N] [--plant BUG]

Each rank trains on its own share of the batch: rank r of n has samples r B/n and on."""
import contextlib

import torch
from torch.nn.parallel import DistributedDataParallel

from adapter import (DTYPES, autocast, finish_step, loss_of, norm_of, own_microbatches, start,
                     sum_over_ranks)
from recorder import Recorder

BUGS = {
    "sum": "gradients are added over ranks, not averaged",
    "divided-twice": "the loss is divided by the number of ranks, and DDP divides again",
    "unsynced": "gradients of one layer are not reduced: each rank has its own",
    "no-sync-last": "the last microbatch is not synchronised either",
    "tied": "the head has its own copy of the embedding, which is not updated with it",
    "norm-per-rank": "one rank clips by the norm of a part of its gradients",
    "same-samples": "all ranks train on the first rank's samples",
}


def main():
    a = start(__doc__, BUGS)
    reference = a.reference
    model = reference.load(DTYPES[a.dtype])
    if a.plant == "tied":
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    recorder = Recorder(a.run, reference, model, dtype=a.dtype, rank=a.rank, by="torch ddp")
    ignored = [name for name, _ in model.named_parameters() if ".h.1." in name] if a.plant == "unsynced" else []
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)
    ddp = DistributedDataParallel(model)
    optimizer = reference.optimizer(model.parameters())
    for n, (tokens, targets) in enumerate(reference.batches()):
        optimizer.zero_grad()
        total = 0.0
        for x, y, left, parts in own_microbatches(a, recorder, tokens, targets):
            quiet = left or a.plant == "no-sync-last"
            with ddp.no_sync() if quiet else contextlib.nullcontext():
                with autocast(a):
                    loss = loss_of(ddp, x, y) / parts
                (loss / a.ranks if a.plant == "divided-twice" else loss).backward()
            total += loss.detach()
        if a.plant == "sum":
            for p in model.parameters():
                p.grad *= a.ranks
        recorder.gradients()
        parameters = list(model.parameters())
        clipped = parameters[:len(parameters) // 2] if a.plant == "norm-per-rank" and a.rank == 1 else parameters
        norm = norm_of([p.grad for p in clipped])
        finish_step(a, recorder, optimizer, n, sum_over_ranks(total) / a.ranks, norm)


if __name__ == "__main__":
    main()

"""PyTorch's DistributedDataParallel over gloo: torchrun --nproc-per-node 2 torch_ddp.py REFERENCE RUN [--dtype ...] [--micro-batch N] [--plant BUG]

Each rank trains on its own share of the batch: rank r of n has samples r B/n and on."""
import argparse
import contextlib

import torch
import torch.distributed as dist

from recorder import Recorder, Reference
from torch_eager import DTYPES, loss_of

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
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("reference")
    a.add_argument("run")
    a.add_argument("--dtype", choices=DTYPES, default="fp32")
    a.add_argument("--micro-batch", type=int, default=2)
    a.add_argument("--plant", choices=BUGS)
    a = a.parse_args()
    if a.dtype == "fp64":
        torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    reference = Reference(a.reference)
    model = reference.load(DTYPES[a.dtype])
    if a.plant == "tied":
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    recorder = Recorder(a.run, reference, model, dtype=a.dtype, rank=rank, by="torch ddp")
    ignored = [name for name, _ in model.named_parameters() if ".h.1." in name] if a.plant == "unsynced" else []
    torch.nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = reference.optimizer(model.parameters())
    own = reference.global_batch // ranks
    parts = own // a.micro_batch
    for n, (tokens, targets) in enumerate(reference.batches()):
        optimizer.zero_grad()
        total = torch.zeros(())
        for i in range(parts):
            first = (0 if a.plant == "same-samples" else rank * own) + i * a.micro_batch
            recorder.samples(rank * own + i * a.micro_batch, a.micro_batch, 1 / ranks)
            quiet = i < parts - 1 or a.plant == "no-sync-last"
            with ddp.no_sync() if quiet else contextlib.nullcontext():
                with torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16"):
                    loss = loss_of(ddp, tokens[first:first + a.micro_batch], targets[first:first + a.micro_batch]) / parts
                (loss / ranks if a.plant == "divided-twice" else loss).backward()
            total = total + loss.detach()
        if a.plant == "sum":
            for p in model.parameters():
                p.grad *= ranks
        recorder.gradients()
        parameters = list(model.parameters())
        clipped = parameters[:len(parameters) // 2] if a.plant == "norm-per-rank" and rank == 1 else parameters
        norm = torch.nn.utils.get_total_norm([p.grad for p in clipped])
        torch.nn.utils.clip_grads_with_norm_(parameters, reference.clip, norm)
        reference.set_rate(optimizer, n)
        optimizer.step()
        dist.all_reduce(total)
        recorder.step(optimizer, loss=total / ranks, grad_norm=norm)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

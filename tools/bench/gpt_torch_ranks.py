"""gpt_torch.py's model on several ranks of one machine, by gloo: PyTorch's own DDP, FSDP2 and tensor parallel.

    python3 -m torch.distributed.run --standalone --nproc-per-node 2 tools/bench/gpt_torch_ranks.py --by ddp \\
        --device cpu --precision fp32 --threads 1 --layers 6 --hidden 384 --heads 6 --vocab 256 --seq 256 --batch 8

    ddp    DistributedDataParallel: every rank has all weights, and its share of the batch
    fsdp   fully_shard of each block, and of the rest: ZeRO stage 3
    tp     columns of qkv and fc, rows of proj and fc2 (heads are divided); embedding and head are whole on each rank

--batch is the global one. Rank 0 prints what gpt_torch.py prints. Eager, fp32.
"""

import json
import statistics

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from gpt_torch import GPT, IMPORT_BYTES, Update, arguments, random_tokens, steps


class DividedUpdate(Update):
    """Tensor parallel: whole and divided parameters (DTensor) cannot be in one norm, nor in one group of AdamW."""

    def __init__(self, parameters, device):
        parameters = list(parameters)
        kinds = [[p for p in parameters if isinstance(p, DTensor) is divided] for divided in (False, True)]
        self.parts = [Update(kind, device) for kind in kinds]

    @torch.no_grad()
    def step(self):
        norms = [get_total_norm([p.grad for p in part.parameters]) for part in self.parts]
        total = torch.linalg.vector_norm(torch.stack([n.full_tensor() if isinstance(n, DTensor) else n for n in norms]))
        for part in self.parts:
            clip_grads_with_norm_(part.parameters, 1.0, total)
            part.optimizer.step()
            part.optimizer.zero_grad(set_to_none=True)


def by_ddp(model, mesh):
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    return model, Update(model.parameters(), "cpu")


def by_fsdp(model, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, Update(model.parameters(), "cpu")


def by_tp(model, mesh):
    plan = {"qkv": ColwiseParallel(), "fc": ColwiseParallel(), "proj": RowwiseParallel(), "fc2": RowwiseParallel()}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model, DividedUpdate(model.parameters(), "cpu")


WAYS = {"ddp": by_ddp, "fsdp": by_fsdp, "tp": by_tp}


def main():
    p = arguments()
    p.add_argument("--by", required=True, choices=WAYS)
    o = p.parse_args()
    torch.set_num_threads(o.threads or 1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model, update = WAYS[o.by](GPT(o), init_device_mesh("cpu", (dist.get_world_size(),)))
    torch.manual_seed(1 if o.by == "tp" else dist.get_rank())  # tensor parallel ranks see the same tokens
    data = random_tokens(o, int(o.batch) // (1 if o.by == "tp" else dist.get_world_size()))
    _, first_loss = steps(o, model, update, data, 1)
    steps(o, model, update, data, o.warm - 1)
    samples = [steps(o, model, update, data, o.steps) for _ in range(o.series)]
    if dist.get_rank() == 0:
        print(
            json.dumps(
                dict(
                    by=o.by,
                    step_ms=1e3 * statistics.median(s for s, _ in samples),
                    first_loss=first_loss,
                    loss=samples[-1][1],
                    torch=torch.__version__,
                    import_bytes=IMPORT_BYTES,
                ),
                indent=1,
            )
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""PyTorch's FSDP2 (fully_shard) over gloo, each block a group of its own:

    torchrun --nproc-per-node 2 torch_fsdp.py REFERENCE RUN [--replicas N] [--dtype ...] [--plant BUG]

--replicas 2: HSDP, two copies of the shards, whose gradients are summed over both after they are reduced. Each rank
trains on its own share of the batch: rank r of n has samples r B/n and on. Parameters, gradients and moments are
DTensors: a rank records the rows that it has. bf16: blocks compute in bf16, gradients are reduced in fp32."""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from adapter import DTYPES, blocks_of, finish_step, loss_of, norm_of, own_microbatches, start, sum_over_ranks
from recorder import Recorder

BUGS = {
    "sum": "gradients are added over ranks, not averaged",
    "divided-twice": "the loss is divided by the number of ranks, and FSDP divides again",
    "unsynced": "the norms of one layer are not sharded, and no step reduces their gradients",
    "local-norm": "each rank clips by the norm of its own shards",
    "early-optimizer": "the optimizer is made before sharding, so it has parameters that the model no longer has",
    "tied": "the head has its own copy of the embedding, which is not updated with it",
    "same-samples": "all ranks train on the first rank's samples",
    "replicas-apart": "HSDP's mesh has shards alone: replicas never sum their gradients (needs --replicas 2)",
}


def shard(model, a):
    """Blocks, and what is left over."""
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if a.dtype == "bf16" else MixedPrecisionPolicy()
    mesh = init_device_mesh("cpu", (a.replicas, a.ranks // a.replicas), mesh_dim_names=("replicas", "shards"))
    mesh = mesh if a.replicas > 1 and a.plant != "replicas-apart" else mesh["shards"]
    for number, block in enumerate(blocks_of(model)):
        norms = {p for p in block.parameters() if p.dim() == 1} if a.plant == "unsynced" and number == 1 else set()
        fully_shard(block, mesh=mesh, mp_policy=policy, ignored_params=norms)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    if a.plant == "sum":
        for module in model.modules():
            if hasattr(module, "set_gradient_divide_factor"):
                module.set_gradient_divide_factor(1)
                module.set_force_sum_reduction_for_comms(True)      # gloo cannot multiply on its way


def main():
    a = start(__doc__, BUGS, replicas=[1, 2])
    reference = a.reference
    model = reference.load(DTYPES[a.dtype])
    if a.plant == "tied":
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    # foreach=False: a bug below mixes tensors and DTensors
    early = reference.optimizer(model.parameters(), foreach=False)
    shard(model, a)
    recorder = Recorder(a.run, reference, model, dtype=a.dtype, rank=a.rank, by="torch fsdp2")
    optimizer = early if a.plant == "early-optimizer" else reference.optimizer(model.parameters(), foreach=False)
    for n, (tokens, targets) in enumerate(reference.batches()):
        optimizer.zero_grad()
        total = 0.0
        for x, y, left, parts in own_microbatches(a, recorder, tokens, targets):
            model.set_requires_gradient_sync(left == 0)
            loss = loss_of(model, x, y) / parts
            (loss / a.ranks if a.plant == "divided-twice" else loss).backward()
            total += loss.detach()
        recorder.gradients()
        norm = norm_of([p.grad.to_local() if a.plant == "local-norm" else p.grad for p in model.parameters()])
        finish_step(a, recorder, optimizer, n, sum_over_ranks(total) / a.ranks, norm)


if __name__ == "__main__":
    main()

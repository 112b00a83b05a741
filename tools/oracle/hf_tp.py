"""transformers' own tensor parallelism (tp_plan="auto") over gloo, of a Llama (pip install accelerate):

    torchrun --nproc-per-node 2 hf_tp.py REFERENCE RUN [--dtype fp64|fp32|bf16] [--plant BUG]

Parameters are DTensors, and norms plain tensors; what modules between two sums give is local, and is put in its place
here. The heads of keys and values must be a multiple of the ranks."""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from adapter import (DTYPES, TENSOR_BUGS, backward_of, finish_step, loss_of, norm_of, plant_shards, start, steps,
                     sum_over_ranks)
from recorder import Recorder

SHARDED = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")      # along channels, between their hooks
BUGS = TENSOR_BUGS | {
    "norms-drift": "one rank updates a norm of layer 1 with a gradient of its own",
    "world": "gradients are divided by the ranks, which all have the whole batch",
}


def plant(bug, model, mesh):
    plant_shards(bug, model, mesh)
    if bug == "no-reduce":
        down = model.model.layers[1].mlp.down_proj
        down.forward = lambda x: torch.nn.functional.linear(x, down.weight.to_local())


def total_norm(bug, gradients):
    """Shards are summed over ranks; what all of them have counts once."""
    local, is_shard = [], []
    for g in gradients:                                 # of the embedding it is a DTensor that is not sharded
        local.append(g.to_local() if isinstance(g, DTensor) else g)
        is_shard.append(isinstance(g, DTensor) and g.placements[0].is_shard())
    square = norm_of([g for g, shard in zip(local, is_shard) if shard]) ** 2
    whole = norm_of([g for g, shard in zip(local, is_shard) if not shard]) ** 2
    if bug == "local-norm":
        return (square + whole) ** 0.5
    once = 0 if bug == "norm-twice" else whole
    return (sum_over_ranks(square + whole - once) + once) ** 0.5


def main():
    a = start(__doc__, BUGS)
    reference = a.reference
    mesh = init_device_mesh("cpu", (a.ranks,), mesh_dim_names=("tp",))
    model = reference.load(DTYPES[a.dtype], tp_plan="auto", device_mesh=mesh)
    recorder = Recorder(a.run, reference, model, dtype=a.dtype, rank=a.rank, by="transformers tp, torch")
    recorder.place = lambda name, x: (DTensor.from_local(x, mesh, [Shard(2)], run_check=False)
                                      if name.endswith(SHARDED) else x)
    plant(a.plant, model, mesh)
    optimizer = reference.optimizer(model.parameters(), foreach=False)
    for n, loss in steps(a, recorder, optimizer, backward_of(a, model, loss_of), 0, 1):
        for p in model.parameters() if a.plant == "world" else []:
            p.grad /= a.ranks
        recorder.gradients()
        norm = total_norm(a.plant, [p.grad for p in model.parameters()])
        if a.plant == "norms-drift" and a.rank == 1:
            model.model.layers[1].input_layernorm.weight.grad *= -1
        finish_step(a, recorder, optimizer, n, sum_over_ranks(loss) / a.ranks, norm)


if __name__ == "__main__":
    main()

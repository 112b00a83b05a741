"""PyTorch's tensor parallelism (parallelize_module, DTensor) over gloo, of a Llama:

    torchrun --nproc-per-node 2 torch_tp.py REFERENCE RUN [--dp N] [--sequence on|off] [--dtype ...] [--plant BUG]

Heads, hidden units and the vocabulary are sharded. --sequence on: between them, positions are (SequenceParallel).
--dp 2: two such groups, each with half of the batch, and FSDP2 over them (two axes of a mesh). The heads of keys and
values must be a multiple of the ranks of a group. The recorder comes first: so it sees DTensors, before the styles'
hooks make local tensors of them."""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

from adapter import (DTYPES, TENSOR_BUGS, backward_of, finish_step, loss_of, norm_of, plant_shards, start, steps,
                     sum_over_ranks)
from recorder import Recorder

BUGS = TENSOR_BUGS | {
    "no-reduce-back": "layer 1's MLP does not sum over ranks the gradient of what its first matrices are given",
    "norms-apart": "of layer 1's norms, a rank's summand is taken for the gradient (needs --sequence on)",
    "world": "gradients are divided by the number of all ranks, and not of those with other samples (needs --dp 2)",
}


def styles(sequence):
    """The names of the model, and of a block."""
    between = Shard(1) if sequence else Replicate()
    into = PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(Replicate(),))
    attention = PrepareModuleInput(input_kwarg_layouts={"hidden_states": between},
                                   desired_input_kwarg_layouts={"hidden_states": Replicate()})
    out = RowwiseParallel(output_layouts=between, use_local_output=not sequence)
    model = {"model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=between,
                                                   use_local_output=not sequence),
             "lm_head": ColwiseParallel(input_layouts=between, output_layouts=Replicate())}
    block = {"self_attn": attention, "mlp": into, "self_attn.o_proj": out, "mlp.down_proj": out}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
        block[name] = ColwiseParallel()
    if sequence:
        model["model.norm"] = block["input_layernorm"] = block["post_attention_layernorm"] = SequenceParallel()
    return model, block


def parallelize(model, a, mesh):
    whole, of_block = styles(a.sequence == "on")
    parallelize_module(model, mesh, whole)
    for number, block in enumerate(model.model.layers):
        plan = dict(of_block)
        if a.plant == "no-reduce" and number == 1:
            plan["mlp.down_proj"] = RowwiseParallel(output_layouts=Partial())
        if a.plant == "no-reduce-back" and number == 1:
            plan.pop("mlp")
        parallelize_module(block, mesh, plan)
    plant_shards(a.plant, model, mesh)
    if a.plant == "no-reduce-back":
        model.model.layers[1].mlp.register_forward_pre_hook(lambda module, inputs: DTensor.from_local(
            inputs[0], mesh, [Replicate()], run_check=False, grad_placements=[Partial()]))


def forget_summands(module):
    """With positions sharded, the gradients of norms are Partial: sums over ranks that are still to be made."""
    for p in module.parameters():
        if any(x.is_partial() for x in p.grad.placements):
            p.grad = DTensor.from_local(p.grad.to_local(), p.device_mesh, p.placements, run_check=False)


def total_norm(bug, gradients):
    if bug not in ("local-norm", "norm-twice"):
        return norm_of(gradients)
    local = norm_of([g.to_local() if isinstance(g, DTensor) else g for g in gradients])
    return local if bug == "local-norm" else sum_over_ranks(local ** 2) ** 0.5


def main():
    a = start(__doc__, BUGS, dp=[1, 2], sequence=["off", "on"])
    reference = a.reference
    mesh = init_device_mesh("cpu", (a.dp, a.ranks // a.dp), mesh_dim_names=("dp", "tp"))
    model = reference.load(DTYPES[a.dtype])
    recorder = Recorder(a.run, reference, model, dtype=a.dtype, rank=a.rank, by="torch tp")
    parallelize(model, a, mesh["tp"])
    recorder.watch("model.embed_tokens", model.model.embed_tokens)      # as its sum over ranks
    for module in [*model.model.layers, model] if a.dp > 1 else []:
        fully_shard(module, mesh=mesh["dp"])
        if a.plant == "world":
            module.set_gradient_divide_factor(a.ranks)
            module.set_force_sum_reduction_for_comms(True)          # gloo cannot multiply on its way
    optimizer = reference.optimizer(model.parameters(), foreach=False)
    for n, loss in steps(a, recorder, optimizer, backward_of(a, model, loss_of), mesh.get_local_rank("dp"), a.dp):
        if a.plant == "norms-apart":
            forget_summands(model.model.layers[1])
        recorder.gradients()
        norm = total_norm(a.plant, [p.grad for p in model.parameters()])
        finish_step(a, recorder, optimizer, n, sum_over_ranks(loss) / a.ranks, norm)


if __name__ == "__main__":
    main()

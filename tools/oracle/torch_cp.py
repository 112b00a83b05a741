"""PyTorch's context parallelism (torch.distributed.tensor.experimental.context_parallel) over gloo:

    torchrun --nproc-per-node 2 torch_cp.py REFERENCE RUN [--dp N] [--balance none] [--rotate alltoall] [--plant BUG]

Each rank of a group has a part of the positions; keys and values go round. Positions are balanced: a part is one piece
from each end, so that all have as much to do. --dp 2: two groups, each with half of the batch. FSDP2 shards over all
ranks, and averages: each takes the mean over its own positions. PyTorch's ring has a table of CUDA's kernels; this
file enters a CPU's (_scaled_dot_product_flash_attention_for_cpu), which the same functions then call."""
import functools
import unittest.mock

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._context_parallel import _attention as ring

from adapter import DTYPES, autocast, blocks_of, cross_entropy, finish_step, norm_of, start, steps, sum_over_ranks
from recorder import Recorder

BUGS = {
    "positions": "each rank numbers its positions from 0",
    "own-shift": "each rank shifts its own tokens to get targets, so the last of a part has none of the next",
    "targets-in-order": "tokens are balanced, targets are cut in order",
    "one-layer": "layer 1's attention is not replaced: each part sees itself alone",
    "not-causal": "attention is not causal, as without a mask and its flag (needs --balance none)",
    "keys-cut": "keys and values of other ranks get no gradient, as by an all-gather that autograd does not know",
    "unsynced": "gradients are averaged over data parallel replicas, not over parts of the sequence",
    "sum": "gradients are divided by the replicas alone, as if a rank's loss was a part of the mean",
    "own-loss": "the loss that is printed is that of one rank's positions",
    "local-norm": "each rank clips by the norm of its own shards",
}
FLASH, FLASH_BACKWARD = (getattr(torch.ops.aten, f"_scaled_dot_product_flash_attention_for_cpu{back}").default
                         for back in ("", "_backward"))


def forward(group, query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    return ring._templated_ring_attention(group, 2, FLASH, query, key, value, is_causal, scale=scale)


def backward(group, grad_out, *saved, attn_mask=None, scale=None, op=FLASH_BACKWARD):
    *tensors, dropout_p, is_causal = saved
    return ring._templated_ring_attention_backward(group, 2, op, grad_out, "grad_out", *tensors, is_causal,
                                                   dropout_p=dropout_p, scale=scale)


def cut(query, key, value, is_causal, **more):
    dq, dk, dv = FLASH_BACKWARD(query=query, key=key, value=value, is_causal=is_causal, **more)
    return (dq, dk * is_causal, dv * is_causal)     # of all blocks, only that of a rank's own keys is causal


def on_cpu(function, **more):
    def handle(op, args, kwargs):
        mesh = args[0].device_mesh
        local = [x.to_local() if isinstance(x, DTensor) else x for x in args]
        return tuple(DTensor.from_local(x, mesh, [Shard(2)], run_check=False)
                     for x in function(mesh.get_group(), *local, **kwargs, **more))
    return handle


def without_ring(own, forward, *args, **kwargs):
    with unittest.mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", own):
        return forward(*args, **kwargs)


def use_ring(a, model):
    ring._cp_options.enable_load_balance = a.balance == "head-tail"
    ring.set_rotate_method(a.rotate)
    ring.custom_ops[FLASH] = on_cpu(forward)
    ring.custom_ops[FLASH_BACKWARD] = on_cpu(backward, **({"op": cut} if a.plant == "keys-cut" else {}))

    def causal(module, inputs, kwargs):
        """transformers would make a mask of positions that are not in order."""
        return inputs, {**kwargs, "attention_mask": None, "is_causal": a.plant != "not-causal"}
    for number, module in enumerate(m for m in model.modules() if hasattr(m, "is_causal")):
        module.register_forward_pre_hook(causal, with_kwargs=True)
        if a.plant == "one-layer" and number == 1:
            own = torch.nn.functional.scaled_dot_product_attention
            module.forward = functools.partial(without_ring, own, module.forward)


class PartsRecorder(Recorder):
    def set_parts(self, a, mesh):
        n, index, self.positions = mesh.size(), mesh.get_local_rank(), self.reference.head["model"]["seq"]
        parts = [index / n] if a.balance == "none" else [index / (2 * n), 1 - (index + 1) / (2 * n)]
        self.parts = [round(x * self.positions) for x in parts]       # the first positions of what this rank has

    def keep(self, name, x, first=None, of=None, part=None):
        if not name.endswith((".act", ".act_grad")):
            return super().keep(name, x, first, of, part)
        for at, piece in zip(self.parts, x.chunk(len(self.parts), dim=1)):
            super().keep(name, piece, [first[0], at, 0], [of[0], self.positions, of[2]])


def train(a, model, mesh, tokens, targets, part):
    """Forward, and backward, which needs the ring, too."""
    positions = torch.arange(tokens.shape[1]).expand_as(tokens).clone()
    tokens, y = tokens.clone(), targets.clone()
    buffers = [tokens, y, positions]                    # are made into parts, in place
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[1] * 3, no_restore_buffers=set(buffers)):
        if a.plant == "positions":
            positions = torch.arange(tokens.shape[1]).expand_as(tokens)
        if a.plant == "own-shift":
            y = torch.cat([tokens[:, 1:], tokens[:, :1]], 1)
        if a.plant == "targets-in-order":
            y = targets.chunk(mesh.size(), 1)[mesh.get_local_rank()]
        with autocast(a):
            loss = cross_entropy(model(input_ids=tokens, position_ids=positions, use_cache=False).logits, y) * part
        loss.backward()
    return loss.detach()


def shard(a, model, mesh):
    shards = mesh["dp"] if a.plant == "unsynced" else mesh["dp", "cp"]._flatten("dp_cp")
    for module in [*blocks_of(model), model]:
        fully_shard(module, mesh=shards)


def main():
    a = start(__doc__, BUGS, dp=[1, 2], balance=["head-tail", "none"], rotate=["allgather", "alltoall"])
    reference = a.reference
    mesh = init_device_mesh("cpu", (a.dp, a.ranks // a.dp), mesh_dim_names=("dp", "cp"))
    cp = mesh["cp"]
    model = reference.load(DTYPES[a.dtype])
    model.set_attn_implementation("sdpa")
    recorder = PartsRecorder(a.run, reference, model, dtype=a.dtype, rank=a.rank, by="torch cp")
    recorder.set_parts(a, cp)
    use_ring(a, model)
    shard(a, model, mesh)
    optimizer = reference.optimizer(model.parameters(), foreach=False)
    replica = mesh.get_local_rank("dp")
    for n, loss in steps(a, recorder, optimizer, functools.partial(train, a, model, cp), replica, a.dp, 1 / a.ranks):
        for p in model.parameters() if a.plant == "sum" else []:
            p.grad *= cp.size()
        recorder.gradients()
        gradients = [p.grad.to_local() if a.plant == "local-norm" else p.grad for p in model.parameters()]
        loss = loss if a.plant == "own-loss" else sum_over_ranks(loss) / a.ranks
        finish_step(a, recorder, optimizer, n, loss, norm_of(gradients))


if __name__ == "__main__":
    main()

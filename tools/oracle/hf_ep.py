"""transformers' expert parallelism (DistributedConfig) over gloo, of a Mixtral:

    torchrun --nproc-per-node 2 hf_ep.py REFERENCE RUN [--ep N] [--tp N] [--how all_to_all|all_reduce] [--plant BUG]

Each rank has some of the experts, whole; --ep ranks together have all of them, and more such groups are replicas, whose
experts FSDP shards again. --tp 2: two ranks share a batch and the rest of the model; all_reduce needs --ep to be the
same. transformers stacks the experts, and gate and up above each other: they are taken apart here."""
import functools
import types

import torch
import transformers.distributed.expert_parallel as ep
from torch.distributed.tensor import DTensor, Shard
from transformers.distributed import DistributedConfig

from adapter import DTYPES, backward_of, cross_entropy, finish_step, norm_of, start, steps, sum_over_ranks
from recorder import Recorder, piece_of

SHARDED = ("q_proj", "k_proj", "v_proj")                # by --tp, along channels
BUGS = {
    "no-reduce-back": "the gradient of what experts are given is not summed over ranks (needs --how all_reduce)",
    "router-partial": "the gradient of the weights that the router gives experts is not (needs --how all_reduce)",
    "swapped": "layer 1's experts lie on each other's ranks",
    "interleaved": "gate and up of layer 1 are taken row by row, not one above the other",
    "unsorted": "results of experts are not put back in the order of tokens",
    "unnormalised": "the weights of a token's experts are not divided by their sum",
    "router-bf16": "the router computes in bf16",
    "divisor": "gradients of experts are divided by the replicas that have them, not by all batches",
    "aux-loss": "the loss that balances experts is added, as output_router_logits does",
    "own-norm": "the norm counts the experts of one rank",
    "stacked": "only what has two dimensions decays: stacked experts have three",
}


class ExpertsRecorder(Recorder):
    def _keep_if_any(self, name, x, transposed=False):
        name = name.replace(".mlp.", ".block_sparse_moe.")
        if ".experts." not in name or x is None:
            return super()._keep_if_any(name, x, transposed)
        local, first, _, _ = piece_of(x)
        stem, which, suffix = name.rsplit(".", 2)
        for i, expert in enumerate(local, first[0]):
            parts = {"w2": expert} if which == "down_proj" else dict(zip(("w1", "w3"), expert.chunk(2)))
            for part, matrix in parts.items():
                self.keep(f"{stem}.{i}.{part}.weight.{suffix}", matrix)


def plant(bug, model, copies):
    layer = model.model.layers[1].mlp
    stacked, router, own = layer.experts.gate_up_proj, layer.gate, ep._AllReduceBackward.apply
    if bug in ("no-reduce-back", "router-partial"):
        router_only = bug == "router-partial"
        ep._AllReduceBackward = types.SimpleNamespace(
            apply=lambda x, group: x if (x.shape[-1] == router.top_k) == router_only else own(x, group))
    with torch.no_grad():
        local = stacked.to_local()
        if bug == "swapped":
            local.copy_(stacked.full_tensor().roll(len(local), 0)[piece_of(stacked)[1][0]:][:len(local)])
        if bug == "interleaved":
            local.copy_(torch.stack(local.chunk(2, 1), 2).flatten(1, 2))
    for block in model.model.layers if bug == "divisor" else []:
        block.mlp.experts.set_gradient_divide_factor(copies)
    if bug == "unsorted":
        combine = ep.AllToAllEP._combine_tokens
        ep.AllToAllEP._combine_tokens = lambda self, x, state: combine(
            self, x, state._replace(order=torch.arange(len(state.order))))
    if bug == "unnormalised":
        router.forward = lambda x: routed(router, x, torch.float32, 1)
    if bug == "router-bf16":
        router.forward = lambda x: routed(router, x, torch.bfloat16)


def routed(router, x, dtype, total=None):
    logits = torch.nn.functional.linear(x.to(dtype), router.weight.to(dtype)).to(x.dtype)
    best, index = logits.softmax(-1).topk(router.top_k)
    return logits, best / (total or best.sum(-1, keepdim=True)), index


def load(a, replicas):
    config = DistributedConfig(tp_size=a.tp, fsdp_size=replicas, ep_size=a.ep, ep_implementation=a.how)
    kernel = {"experts_implementation": "eager"} if a.dtype == "fp64" else {}      # grouped_mm has no fp64
    model = a.reference.load(DTYPES[a.dtype], distributed_config=config, **kernel)
    recorder = ExpertsRecorder(a.run, a.reference, model, dtype=a.dtype, rank=a.rank, by="transformers ep, torch")
    recorder.place = lambda name, x: (DTensor.from_local(x, model._mesh_manager.get_mesh("tp"), [Shard(2)],
                                                         run_check=False) if name.endswith(SHARDED) else x)
    plant(a.plant, model, config.efsdp_size)
    return model, recorder


def optimizer_of(a, model):
    if a.plant != "stacked":
        return a.reference.optimizer(model.parameters(), foreach=False)
    optimizer = a.reference.optimizer([p for p in model.parameters() if p.dim() < 3], foreach=False)
    optimizer.add_param_group({"params": [p for p in model.parameters() if p.dim() == 3], "weight_decay": 0})
    return optimizer


def loss_of(a, model, tokens, targets):
    extra = a.plant == "aux-loss"
    out = model(input_ids=tokens, use_cache=False, output_router_logits=extra)
    loss = cross_entropy(out.logits, targets)
    return loss + out.aux_loss * model.config.router_aux_loss_coef if extra else loss


def main():
    a = start(__doc__, BUGS, ep=[2, 4], tp=[1, 2], how=["all_to_all", "all_reduce"])
    replicas = a.ranks // a.tp
    model, recorder = load(a, replicas)
    optimizer = optimizer_of(a, model)
    train = backward_of(a, model, functools.partial(loss_of, a))
    for n, loss in steps(a, recorder, optimizer, train, a.rank // a.tp, replicas):
        recorder.gradients()
        norm = norm_of([p.grad.to_local() if a.plant == "own-norm" and p.dim() == 3 else p.grad
                        for p in model.parameters()])
        finish_step(a, recorder, optimizer, n, sum_over_ranks(loss) / a.ranks, norm)


if __name__ == "__main__":
    main()

"""Megatron-Core's GPTModel with experts (a Mixtral), expert and context parallel, over gloo; its own DDP averages:

    torchrun --nproc-per-node 4 megatron_moe.py REFERENCE RUN [--ep 1|2|4] [--cp 1|2|4] [--dtype fp32|bf16]
                                                              [--plant BUG]

Ranks that are no parts of a sequence are replicas, and ep divides all ranks (megatron_parts.py: what needs a GPU)."""
import functools
import re

import torch
import torch.distributed as dist
from megatron_parts import Attention, DdpRecorder, stand_in, train
from megatron.core import parallel_state
from megatron.core.distributed import finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_submodules
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.transformer.transformer_layer import TransformerLayer

from adapter import start, sum_over_ranks

BUGS = {
    "experts-apart": "gradients of experts are not averaged over their replicas (more ranks than ep)",
    "experts-mixed": "gradients of experts are averaged over all ranks, which have other experts",
    "experts-local": "gradients of experts are divided by their replicas, not by all ranks, whose samples they are of",
    "swapped": "a rank has the next one's experts",
    "router-apart": "gradients of the router of layer 1 are not averaged",
    "softmax-first": "gates are of the softmax over all experts, and their sum is not 1",
    "gates-cut": "gates have no gradient in layer 1",
    "norm-local": "the norm counts a rank's own experts alone",
    "norm-twice": "the norm counts what all ranks have once for each",
    "positions": "each part of the sequence has the first positions",
    "zigzag": "the zigzag is taken for neighbors, in attention's mask",
    "keys-kept": "gradients of keys and values of other ranks do not come home",
    "cp-apart": "gradients are averaged over replicas, and not over parts of the sequence",
}


def new_model(a):
    m, half = a.reference.head["model"], a.dtype == "bf16"
    parallel_state.initialize_model_parallel(context_parallel_size=a.cp, expert_model_parallel_size=a.ep)
    stand_in(a.plant)
    c = TransformerConfig(
        num_layers=m["layers"], hidden_size=m["hidden"], num_attention_heads=m["heads"], gated_linear_unit=True,
        num_query_groups=m["kv-heads"], ffn_hidden_size=m["ffn"], activation_func=torch.nn.functional.silu,
        add_bias_linear=False, normalization="RMSNorm", hidden_dropout=0, attention_dropout=0, bf16=half,
        params_dtype=torch.bfloat16 if half else torch.float32, use_cpu_initialization=True,
        context_parallel_size=a.cp, expert_model_parallel_size=a.ep, num_moe_experts=m["experts"],
        moe_router_topk=m["experts-per-token"], moe_router_load_balancing_type="none", moe_router_dtype="fp32",
        moe_router_pre_softmax=a.plant == "softmax-first", moe_token_dispatcher_type="alltoall",
        bias_activation_fusion=False, masked_softmax_fusion=False)
    layer = get_gpt_layer_local_submodules(num_experts=m["experts"], normalization="RMSNorm")
    layer.self_attention.submodules.core_attention = Attention
    model = GPTModel(c, ModuleSpec(TransformerLayer, submodules=layer), m["vocab"], m["seq"],
                     position_embedding_type="rope", share_embeddings_and_output_weights=False, rotary_base=10000)
    if a.plant == "gates-cut":
        router = model.decoder.layers[1].mlp.router
        route = router.routing
        router.routing = lambda *x, **y: (lambda gates, chosen: (gates.detach(), chosen))(*route(*x, **y))
    return c, model.bfloat16() if half else model


def average(a, model):
    """Megatron-Core's: then p.main_grad is the mean over all ranks."""
    own = {p: p.main_grad.clone() for p in model.parameters()}
    finalize_model_grads([model])
    for name, p in model.module.named_parameters():
        expert = "experts" in name
        if a.plant == "router-apart" and "layers.1.mlp.router" in name or a.plant == "experts-apart" and expert:
            p.main_grad.copy_(own[p] / (a.ep if expert else 1))
        if a.plant == "experts-local" and expert:
            p.main_grad *= a.ep
        if a.plant == "experts-mixed" and expert or a.plant == "cp-apart" and not expert:
            group = None if expert else parallel_state.get_data_parallel_group()
            p.main_grad.copy_(own[p] / dist.get_world_size(group))
            dist.all_reduce(p.main_grad, group=group)


def norm_of(a, model):
    """Each expert counts once, and what all ranks have."""
    squares = [0.0, 0.0]
    for name, p in model.named_parameters():
        squares["experts" in name] += float((p.main_grad.double() ** 2).sum())
    others, experts = squares
    if a.plant != "norm-local":
        experts = sum_over_ranks(experts) * a.ep / a.ranks
    return torch.as_tensor(experts + others * (a.ep if a.plant == "norm-twice" else 1)) ** 0.5


def main():
    a = start(__doc__, BUGS, dtypes=("fp32", "bf16"), ep=(1, 2, 4), cp=(1, 2, 4))
    c, model = new_model(a)
    n = c.num_moe_experts

    def expert_of(name, weights):
        if a.plant == "swapped":
            name = re.sub(r"experts\.(\d+)", lambda m: f"experts.{(int(m[1]) + n // a.ep) % n}", name)
        return weights[name]
    recorder = DdpRecorder(a.run, a.reference, model, dtype=a.dtype, rank=a.rank, by="megatron-core")
    recorder.at(c, model)
    recorder.load(model, expert_of)
    train(a, c, recorder, model, functools.partial(average, a), functools.partial(norm_of, a))


if __name__ == "__main__":
    main()

"""The cases of oracle_published.py: of a rank of all ranks, a model, and what a step's loss is of it.

Modules of Megatron-Core, Megatron-Bridge and transformers are as they are published, and what is wrong in a case is
theirs, unless the case says that it is planted. on: what triggers it."""
import contextlib
import os
import re
import sys
import types

import megatron.core
import torch
import torch.distributed as dist
import torch.nn.functional as F
import transformers
from torch import nn
from transformers.distributed import DistributedConfig, expert_parallel
from transformers.integrations import moe

torch.cuda.current_device = lambda: "cpu"
for part in ("", ".peft", ".utils"):                    # without what the package imports for its recipes
    sys.modules["megatron.bridge" + part] = types.ModuleType("megatron.bridge" + part)
    sys.modules["megatron.bridge" + part].__path__ = [f"{at}/bridge/{part[1:]}" for at in megatron.__path__]
from megatron.bridge.peft.utils import ParallelLinearAdapter  # noqa: E402
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import (  # noqa: E402
    get_gpt_layer_local_submodules, get_gpt_mtp_block_spec)
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.process_groups_config import ProcessGroupCollection  # noqa: E402
from megatron.core.transformer.moe.moe_utils import MoEAuxLossAutoScaler  # noqa: E402
from megatron.core.transformer.moe.router import TopKRouter  # noqa: E402
from megatron.core.transformer.multi_token_prediction import MTPLossAutoScaler  # noqa: E402
from megatron.core.transformer.spec_utils import ModuleSpec  # noqa: E402
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402
from megatron.core.transformer.transformer_layer import TransformerLayer  # noqa: E402

VOCABULARY, POSITIONS, SAMPLES = 64, 16, 4


def tokens_of(step):
    both = torch.randint(VOCABULARY, (SAMPLES, POSITIONS + 1), generator=torch.Generator().manual_seed(step))
    return both[:, :-1], both[:, 1:]


# ---- Megatron-Core ----
class Norm(nn.RMSNorm):
    """Megatron-Core's own refuses sequence parallelism without a GPU's kernels."""

    def __init__(self, config, hidden_size, eps=1e-5):
        super().__init__(hidden_size, eps)
        self.weight.sequence_parallel = config.sequence_parallel


def start_megatron(tp):
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp)
    tensor_parallel.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()


def config_of(tp, **more):
    return TransformerConfig(**{**dict(
        num_layers=2, hidden_size=32, num_attention_heads=4, ffn_hidden_size=64, normalization="RMSNorm",
        add_bias_linear=False, hidden_dropout=0, attention_dropout=0, tensor_model_parallel_size=tp,
        use_cpu_initialization=True, bias_activation_fusion=False, masked_softmax_fusion=False), **more})


def block_spec(**more):
    layer = get_gpt_layer_local_submodules(normalization="RMSNorm", **more)
    layer.input_layernorm = layer.pre_mlp_layernorm = Norm
    return TransformerBlockSubmodules([ModuleSpec(TransformerLayer, submodules=layer)] * 2, Norm)


def gpt(tp, groups=None, experts=None, mtp=0, parallel_output=True, **more):
    c = config_of(tp, num_moe_experts=experts, mtp_num_layers=mtp or None, **more)
    spec = block_spec(num_experts=experts, qk_layernorm=more.get("qk_layernorm", False))
    return GPTModel(c, spec, VOCABULARY, POSITIONS, position_embedding_type="rope", parallel_output=parallel_output,
                    share_embeddings_and_output_weights=False, pg_collection=groups,
                    mtp_block_spec=get_gpt_mtp_block_spec(c, spec, False) if mtp else None)


def summed(loss):
    """The value of all ranks' sum; the gradient is this rank's."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return loss + (total - loss.detach())


def given(tokens, **more):
    at = torch.arange(tokens.shape[1])
    return {"input_ids": tokens, "position_ids": at.expand_as(tokens),
            "attention_mask": at[None, None, :, None] < at, **more}


# ---- cases ----
def smoothing(rank, ranks, on):
    start_megatron(ranks)
    model = gpt(ranks)

    def loss(tokens, targets):
        logits = model(**given(tokens)).transpose(0, 1).contiguous()
        return tensor_parallel.vocab_parallel_cross_entropy(logits, targets.T.contiguous(), on / 10).mean()
    return model, loss


def gathered(rank, ranks, on):
    start_megatron(ranks)
    model = gpt(ranks, parallel_output=ranks == 1 or not on)        # on one rank it ends: a view is changed in place
    return model, lambda tokens, targets: model(**given(tokens, labels=targets)).mean()


def per_token(rank, ranks, on):
    """Ranks are replicas; the last samples have few tokens that count."""
    start_megatron(1)
    model = gpt(1, mtp=1, calculate_per_token_loss=True)

    def loss(tokens, targets):
        mask = (torch.arange(POSITIONS) < torch.tensor([[16], [16], [3], [5]] if on else [[9]] * 4)).float()
        own, n = slice(rank * SAMPLES // ranks, (rank + 1) * SAMPLES // ranks), mask.sum()
        MTPLossAutoScaler.main_loss_backward_scale = ranks / n
        return (model(**given(tokens[own], labels=targets[own], loss_mask=mask[own])) * mask[own]).sum() / n * ranks
    return model, loss


def sinks(rank, ranks, on):
    start_megatron(ranks)
    model = gpt(ranks, softmax_type="learnable")
    for layer in () if on else model.decoder.layers:
        tensor_parallel.set_tensor_model_parallel_attributes(layer.self_attention.core_attention.softmax_offset, True,
                                                             0, 1)
    return model, lambda tokens, targets: model(**given(tokens, labels=targets)).mean()


class Routed(nn.Module):
    """A router after an embedding; ranks have parts of the positions, as with sequence parallelism."""

    def __init__(self, ranks):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 32)
        self.tokens.weight.sequence_parallel = True
        self.router = TopKRouter(config_of(
            ranks, num_moe_experts=4, moe_router_topk=2, moe_aux_loss_coeff=0.1, calculate_per_token_loss=True,
            moe_router_load_balancing_type="aux_loss", sequence_parallel=ranks > 1, moe_router_dtype="fp64"),
            ProcessGroupCollection.use_mpu_process_groups())

    def forward(self, tokens, rank, ranks, padding):
        own = slice(rank * POSITIONS // ranks, (rank + 1) * POSITIONS // ranks)
        x = self.tokens(tokens[:, own].T.contiguous())
        gates, _ = self.router(x, padding_mask=padding and (tokens[:, own].T < VOCABULARY // 4))
        return (gates * torch.arange(4)).sum() / tokens.numel()


def router(rank, ranks, on):
    start_megatron(ranks)
    model = Routed(ranks)

    def loss(tokens, targets):
        n = (tokens >= VOCABULARY // 4).sum() if on else torch.tensor(tokens.numel())
        MoEAuxLossAutoScaler.main_loss_backward_scale = 1 / n
        return summed(model(tokens, rank, ranks, on or None) * tokens.numel() / n)
    return model, loss


def padding(rank, ranks, on):
    """Two replicas of two ranks. on: they are ranks 0 and 2, 1 and 3, and the model is given these groups."""
    start_megatron(min(ranks, 2))
    groups = ProcessGroupCollection.use_mpu_process_groups()
    if on and ranks == 4:
        tp, dp = (next(g for g in [dist.new_group(x) for x in both] if dist.get_rank(g) >= 0)
                  for both in ([[0, 2], [1, 3]], [[0, 1], [2, 3]]))
        groups.tp = groups.tp_cp = groups.expt_tp = groups.tp_ep = groups.mp = tp
        groups.dp = groups.dp_cp = groups.expt_dp = dp
    model = gpt(groups.tp.size(), groups, 4, moe_router_topk=2, moe_aux_loss_coeff=0.1, sequence_parallel=ranks > 1,
                moe_router_load_balancing_type="aux_loss", moe_token_dispatcher_type="allgather")
    MoEAuxLossAutoScaler.main_loss_backward_scale = torch.tensor(0.5 if ranks == 1 else 1.0)

    def loss(tokens, targets):
        for half in (0, 1) if ranks == 1 else [groups.dp.rank()]:
            own = slice(2 * half, 2 * half + 2)
            mask = torch.arange(POSITIONS) >= torch.tensor([[16], [9], [13], [3]])
            losses = model(**given(tokens[own], labels=targets[own], padding_mask=mask[own]))
            yield losses.mean() * MoEAuxLossAutoScaler.main_loss_backward_scale
    return model, loss


class Adapted(nn.Module):
    """An expert whose second matrix has a LoRA adapter, as Megatron-Bridge makes it, between the sums that the
    dispatcher of tokens does. not on: the adapter is that of a layer that is no expert, after the sum."""

    def __init__(self, ranks, on):
        super().__init__()
        c, expert = config_of(ranks), dict(is_expert=True, bias=False, init_method=nn.init.normal_)
        self.on, self.tokens = on, nn.Embedding(VOCABULARY, 32)
        self.linear_fc1 = tensor_parallel.ColumnParallelLinear(32, 64, config=c, gather_output=False, **expert)
        self.experts = nn.ModuleList([tensor_parallel.RowParallelLinear(64, 32, config=c, input_is_parallel=True,
                                                                        skip_bias_add=True, **expert)])
        self.adapter = ParallelLinearAdapter(64, 32, 4, "mlp.experts.local_experts.0.linear_fc2", "identity",
                                             input_is_parallel=True, model_parallel_config=c, is_expert=on)

    def forward(self, tokens):
        x = tensor_parallel.copy_to_tensor_model_parallel_region(self.tokens(tokens))
        x = F.gelu(self.linear_fc1(x)[0])
        y, delta = self.experts[0](x)[0], self.adapter(x)
        return tensor_parallel.reduce_from_tensor_model_parallel_region(y + self.on * delta) + (not self.on) * delta


def lora(rank, ranks, on):
    start_megatron(ranks)
    model = Adapted(ranks, bool(on))
    return model, lambda tokens, targets: (model(tokens) ** 2).mean()


class Denoiser(nn.Module):
    """Parts of the positions, gathered for a head that all ranks have. on: the gather of Megatron-Core as
    Megatron-Bridge's WanModel calls it, whose backward adds what is alike."""

    def __init__(self, on):
        super().__init__()
        self.on, self.tokens, self.norm, self.head = on, nn.Embedding(VOCABULARY, 32), nn.RMSNorm(32), nn.Linear(32, 1)
        self.norm.weight.sequence_parallel = True

    def forward(self, tokens):
        x = tensor_parallel.scatter_to_sequence_parallel_region(self.tokens(tokens.T.contiguous()))
        return self.head(tensor_parallel.gather_from_sequence_parallel_region(self.norm(x), bool(self.on)))


def wan(rank, ranks, on):
    start_megatron(ranks)
    model = Denoiser(on)
    return model, lambda tokens, targets: (model(tokens) ** 2).mean()


def mixtral(rank, ranks, on):
    """transformers' experts; planted: what its pull request 48205 added is taken out. on 1: the sum of the gradients of
    gates; 2: what hides the rows of experts elsewhere, whose gradients grouped_mm leaves as the memory was."""
    start_megatron(ranks)
    if not os.path.exists("mixtral"):
        transformers.MixtralForCausalLM(transformers.MixtralConfig(
            vocab_size=VOCABULARY, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=4, num_local_experts=4, initializer_range=0.2)).save_pretrained("mixtral")
    transformers.MixtralConfig.base_model_tp_plan = {}      # attention is on all ranks
    layout = DistributedConfig(tp_size=ranks, ep_size=ranks, ep_implementation="all_reduce")
    model = transformers.MixtralForCausalLM.from_pretrained(
        "mixtral", dtype=torch.float32, attn_implementation="eager", experts_implementation="grouped_mm",
        **(dict(distributed_config=layout) if ranks > 1 else {}))
    summed_back, product = expert_parallel._AllReduceBackward.apply, moe._grouped_mm
    if on == 1:
        expert_parallel._AllReduceBackward = types.SimpleNamespace(
            apply=lambda x, group: summed_back(x, group) if x.shape[-1] == 32 else x)
    if on == 2:
        for layer in model.model.layers:
            layer.mlp.experts._is_expert_parallel = False

        def left_as_it_was(x, w, offs):
            elsewhere = torch.arange(int(offs[-1]), len(x))
            x = x.clone()
            x.register_hook(lambda g: g.index_fill(0, elsewhere, torch.inf))
            return product(x, w, offs=offs).index_fill(0, elsewhere, 0)
        moe._grouped_mm = left_as_it_was

    def loss(tokens, targets):
        return F.cross_entropy(model(input_ids=tokens, use_cache=False).logits.flatten(0, 1), targets.flatten())
    return model, loss


def head_norms(rank, ranks, on):
    """All ranks have the norms of queries and keys, and the gradients of their own heads. on, planted: no sum of these.
    The report's are those of GatedDeltaNet, which needs kernels of a GPU."""
    start_megatron(ranks)
    model = gpt(ranks, qk_layernorm=True)
    for name, p in model.named_parameters():
        p.sequence_parallel = not on and re.search("[qk]_layernorm", name) is not None
    return model, lambda tokens, targets: model(**given(tokens, labels=targets)).mean()


def means(rank, ranks, on):
    """Parts of a batch with unequal numbers of tokens that count. on, planted: the mean of their means."""
    start_megatron(1)
    model = gpt(1)

    def loss(tokens, targets):
        mask = (torch.arange(POSITIONS) < torch.tensor([[16], [16], [3], [5]])).float()
        own = slice(rank * SAMPLES // ranks, (rank + 1) * SAMPLES // ranks)
        n = mask[own].sum() if on else mask.sum() / ranks
        return (model(**given(tokens[own], labels=targets[own])) * mask[own]).sum() / n
    return model, loss

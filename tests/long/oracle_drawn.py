"""Bugs drawn by readers who had not seen the detector: each is planted in a framework from outside, its adapter
(tools/oracle) trains with it, and `trivium oracle check` must name the tensor that was predicted.

    python oracle_drawn.py TRIVIUM [DOC]        ONLY=WORD: rows with that word; JOBS: runs at a time, 2; SHOW=1: reports
                                                KEEP=FOLDER: references are made there once

Rows `ok`, `not ok` or `skip`, then a table. DOC: the page whose table must say the same. A bug is a function below (or
in oracle_drawn_frameworks.py) that takes the adapter's module and changes what it, PyTorch or transformers does:

    @bug("torch_fsdp", "what", first="1 backward *.weight.grad", suspect="unaveraged", arguments="--dtype bf16")

first: step, phase and tensor that a right report names first, with the stars of a shell; `A | B`: either. suspect: what
a right suspect's line matches, a regular expression; "": no suspect is right. missed: why a report is known to say
another thing. reference: one of REFERENCES; else the adapter's own of DEFAULTS."""
import atexit
import contextlib
import fnmatch
import importlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Callable, NamedTuple

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA = "--arch llama --hidden 64 --heads 8 --kv-heads 4 --ffn 128 --tie off --steps 3"
REFERENCES = {      # as in tests/long/oracle.sh
    "gpt": "--steps 3",
    "llama": f"{LLAMA} --layers 4",
    "experts": "--arch mixtral --experts 4 --experts-per-token 2 --capacity 0 --aux-loss 0 --z-loss 0 --hidden 64 "
               "--heads 8 --kv-heads 4 --ffn 64 --tie off --steps 3 --layers 2 --depth ops",
    "modules": f"{LLAMA} --layers 2 --depth ops",
    "narrow": f"{LLAMA} --layers 2 --depth ops --vocab 128"}    # tokens are ASCII: both halves of 128 occur, not of 256
DEFAULTS = {"torch_tp": "modules", "torch_fsdp": "llama", "torch_cp": "modules", "hf_tp": "modules",
            "hf_ep": "experts", "torchtitan_llama": "modules", "deepspeed_zero": "gpt", "megatron_core": "modules",
            "megatron_moe": "experts"}
NEEDS = {"hf_tp": "accelerate", "hf_ep": "accelerate", "torchtitan_llama": "torchtitan", "deepspeed_zero": "deepspeed",
         "megatron_core": "megatron.core", "megatron_moe": "megatron.core"}
LIMIT_S = 900


class Bug(NamedTuple):
    adapter: str
    name: str
    text: str
    plant: Callable
    first: str
    ranks: int = 2
    arguments: str = ""
    suspect: str = ""
    missed: str = ""
    reference: str = ""


BUGS = {}       # adapter: bugs


def bug(adapter, text, first, **more):
    def enter(plant):
        BUGS.setdefault(adapter, []).append(Bug(adapter, plant.__name__, text, plant, first, **more))
        return plant
    return enter


# ---- what bugs are made of ----
def rank():
    return int(os.environ["RANK"])


def ranks():
    return int(os.environ["WORLD_SIZE"])


def wrap(owner, name, around):
    """owner.name(...) becomes around(what it was, ...)."""
    was = getattr(owner, name)
    setattr(owner, name, lambda *a, **k: around(was, *a, **k))


def when_loaded(change):
    """change(model), with the reference's weights, before the recorder and the wrappers."""
    def around(was, *a, **k):
        model = was(*a, **k)
        change(model)
        return model
    wrap(importlib.import_module("recorder").Reference, "load", around)


def before_gradients_are_recorded(change):
    """change(model), after backward and what the framework sums, before clipping."""
    def around(was, recorder):
        change(recorder.models[0])
        was(recorder)
    wrap(importlib.import_module("recorder").Recorder, "gradients", around)


def after_gradients_are_recorded(change):
    def around(was, recorder):
        was(recorder)
        change(recorder.models[0])
    wrap(importlib.import_module("recorder").Recorder, "gradients", around)


def when_updated(number, change):
    """change(optimizer) before the update of step number, from 1."""
    def around(was, reference, optimizer, n):
        was(reference, optimizer, n)
        if n + 1 == number:
            change(optimizer)
    wrap(importlib.import_module("recorder").Reference, "set_rate", around)


def with_batches(change):
    """change(tokens or targets, (samples, positions)) is what this rank reads."""
    def around(was, reference):
        return [(change(tokens), change(targets)) for tokens, targets in was(reference)]
    wrap(importlib.import_module("recorder").Reference, "batches", around)


def optimizer_of(make):
    """make(reference, parameters, more) in place of Reference.optimizer, which it gets first."""
    wrap(importlib.import_module("recorder").Reference, "optimizer",
         lambda was, reference, parameters, **more: make(was, reference, list(parameters), more))


def swap_halves(x):
    with torch.no_grad():
        x.copy_(x.roll(len(x) // 2, 0))


def take_the_others(shard):
    """On two ranks: each gets what the other has of this DTensor."""
    with torch.no_grad():
        shard.to_local().copy_(shard.full_tensor().chunk(2)[1 - rank()])


def all_reduce(x):
    torch.distributed.all_reduce(x)


# ---- PyTorch, tensor parallel ----
@bug("torch_tp", "norms' gradients, which all ranks have whole, are summed over ranks by hand",
     first="1 backward model.norm.weight.grad", suspect="ratio")
def norms_summed_by_hand(adapter):
    def change(model):
        for p in (p for p in model.parameters() if p.dim() == 1):
            all_reduce(p.grad)
    before_gradients_are_recorded(change)


@bug("torch_tp", "the gradient of the head's input stays a summand of each rank",
     first="1 backward model.norm.act_grad", suspect="unsummed")
def head_keeps_summands(adapter):
    from torch.distributed.tensor import DTensor, Partial

    class Head(adapter.ColwiseParallel):
        @staticmethod
        def _prepare_input_fn(layouts, desired, module, inputs, mesh):
            return DTensor.from_local(inputs[0], mesh, layouts, run_check=False, grad_placements=[Partial()])
    wrap(adapter, "ColwiseParallel", lambda was, **more: Head(**more) if more else was())


@bug("torch_tp", "heads of keys are repeated as 0 1 0 1, not as 0 0 1 1",
     first="1 forward model.layers.0.post_attention_layernorm.act")
def heads_tiled(adapter):
    from transformers.models.llama import modeling_llama
    modeling_llama.repeat_kv = lambda x, times: x.repeat(1, times, 1, 1)


@bug("torch_tp", "in block 1 each rank has loaded the gate's rows of the other",
     first="1 forward model.layers.1.mlp.gate_proj.act", suspect="permuted")
def gate_of_the_other_rank(adapter):
    when_loaded(lambda model: swap_halves(model.model.layers[1].mlp.gate_proj.weight))


@bug("torch_tp", "a norm of block 1 starts with other weights on rank 1",
     first="1 forward model.layers.1.post_attention_layernorm.act", suspect="one rank")
def norm_starts_apart(adapter):
    def change(model):
        with torch.no_grad():
            model.model.layers[1].post_attention_layernorm.weight.mul_(1 + 0.01 * rank())
    when_loaded(change)


@bug("torch_tp", "targets, which are shifted already, are shifted again", first="1 loss loss")
def targets_shifted_twice(adapter):
    def around(was, model, tokens, targets):
        logits = model(input_ids=tokens, use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())
    wrap(adapter, "loss_of", around)


@bug("torch_tp", "the embedding is left out of clipping", first="1 update model.embed_tokens.weight.moment1",
     suspect="unclipped")
def embedding_not_clipped(adapter):
    wrap(torch.nn.utils, "clip_grads_with_norm_", lambda was, p, *a, **k: was(p[1:], *a, **k))


@bug("torch_tp", "the learning rate of norms stays that of the first step",
     first="2 update model.layers.0.input_layernorm.weight.param", suspect="rate.*that of the step before")
def norms_keep_their_rate(adapter):
    def around(was, reference, optimizer, n):
        optimizer.param_groups[0]["lr"] = reference.adamw["lr"][n]
    wrap(importlib.import_module("recorder").Reference, "set_rate", around)


@bug("torch_tp", "both data-parallel groups read the first half of the batch", ranks=4, arguments="--dp 2",
     first="1 forward model.embed_tokens.act", suspect="other samples")
def groups_read_the_same(adapter):
    with_batches(lambda x: x[:len(x) // 2].repeat(2, 1))


@bug("torch_tp", "outputs of rowwise products are summed over ranks in bf16",
     first="1 forward model.layers.0.post_attention_layernorm.act")
def sums_in_bf16(adapter):
    class Rowwise(adapter.RowwiseParallel):
        @staticmethod
        def _prepare_output_fn(layouts, local, module, outputs, mesh):
            if isinstance(module, torch.nn.Linear):
                outputs = outputs.bfloat16()
            outputs = outputs.redistribute(placements=layouts).to(torch.float32)
            return outputs.to_local() if local else outputs
    adapter.RowwiseParallel = Rowwise


# ---- PyTorch, FSDP2: its default reference is a Llama that keeps what blocks give, none of the head ----
@bug("torch_fsdp", "gradients are reduced after the first microbatch, not after the last",
     first="1 backward lm_head.weight.grad")
def reduced_too_early(adapter):
    from torch.distributed.fsdp import FSDPModule
    wrap(FSDPModule, "set_requires_gradient_sync", lambda was, module, last: was(module, not last))


@bug("torch_fsdp", "gradients are reduced in bf16 in a run of fp32", first="1 backward lm_head.weight.grad",
     suspect="rounded")
def reduced_in_bf16(adapter):
    wrap(adapter, "MixedPrecisionPolicy", lambda was, *a: was(reduce_dtype=torch.bfloat16))


@bug("torch_fsdp", "the loss that goes backward is not divided by the number of microbatches",
     first="1 backward lm_head.weight.grad", suspect="ratio")
def microbatches_summed(adapter):
    wrap(torch.Tensor, "backward", lambda was, loss: was(loss * 2))


@bug("torch_fsdp", "norms decay, too: all parameters are in one group",
     first="1 update model.layers.0.input_layernorm.weight.param", suspect="decay")
def norms_decay(adapter):
    def make(was, reference, parameters, more):
        optimizer = was(reference, parameters, **more)
        optimizer.param_groups[1]["weight_decay"] = optimizer.param_groups[0]["weight_decay"]
        return optimizer
    optimizer_of(make)


@bug("torch_fsdp", "rank 1's samples begin one too early: one is read twice, and one never",
     first="1 forward model.embed_tokens.act", suspect="other samples")
def samples_overlap(adapter):
    with_batches(lambda x: x.roll(rank(), 0))


@bug("torch_fsdp", "the optimizer has not got the head", first="1 update lm_head.weight.param", suspect="stale")
def head_not_in_optimizer(adapter):
    optimizer_of(lambda was, reference, parameters, more: was(reference, parameters[:-1], **more))


@bug("torch_fsdp", "block 2 is wrapped with the mesh of shards alone: its two replicas are not averaged", ranks=4,
     arguments="--replicas 2", first="1 backward model.layers.2.mlp.down_proj.weight.grad", suspect="unaveraged")
def block_without_replicas(adapter):
    calls = []

    def around(was, module, mesh, **more):
        calls.append(module)
        return was(module, mesh=mesh["shards"] if len(calls) == 3 else mesh, **more)
    wrap(adapter, "fully_shard", around)


@bug("torch_fsdp", "the frequencies of rotary angles are rounded to bf16", arguments="--dtype fp64",
     first="1 forward model.layers.0.act", suspect="positions|scores")
def frequencies_in_bf16(adapter):
    def change(model):
        rotary = model.model.rotary_emb
        rotary.inv_freq = rotary.inv_freq.bfloat16().to(rotary.inv_freq.dtype)
    when_loaded(change)


@bug("torch_fsdp", "moments are lost between steps 1 and 2, as by a resume without the optimizer",
     first="2 update model.embed_tokens.weight.moment1", suspect="begun again")
def moments_lost(adapter):
    when_updated(2, lambda optimizer: optimizer.state.clear())


@bug("torch_fsdp", "down_proj of block 1 computes with the weights of step 1 ever after",
     first="2 forward model.layers.1.act")
def stale_weights(adapter):
    def change(model):
        linear = model.model.layers[1].mlp.down_proj
        kept = []

        def forward(x):
            kept.append(linear.weight.detach().clone())
            return torch.nn.functional.linear(x, linear.weight + (kept[0] - linear.weight).detach())
        linear.forward = forward
    when_loaded(change)


# ---- PyTorch, context parallel ----
@bug("torch_cp", "rank 1 counts its positions from one too many",
     first="1 forward model.layers.0.post_attention_layernorm.act", suspect="positions|scores")
def positions_off_by_one(adapter):
    def change(module, inputs, more):
        return inputs, {**more, "position_ids": more["position_ids"] + rank()}
    when_loaded(lambda model: model.register_forward_pre_hook(change, with_kwargs=True))


@bug("torch_cp", "parts of the attention are averaged, not weighted by their sums of exponentials",
     first="1 forward model.layers.0.post_attention_layernorm.act", suspect="positions: .* parts")
def parts_weigh_the_same(adapter):
    wrap(adapter.ring._SDPAMerger, "_merge_one",
         lambda was, merger, out, lse, partial: was(merger, out, torch.zeros_like(lse), partial))


@bug("torch_cp", "without balancing, a rank sees the keys of later ranks", arguments="--balance none",
     first="1 forward model.layers.0.post_attention_layernorm.act", suspect="positions|scores")
def later_keys_seen(adapter):
    behavior = adapter.ring._CausalBehavior

    def around(was, *a, **k):
        said = was(*a, **k)
        return behavior.NOT_IS_CAUSAL if said == behavior.SKIP else said
    wrap(adapter.ring, "_is_causal_behavior", around)


@bug("torch_cp", "backward gets the logsumexp of the rank's own keys, not of all",
     first="1 backward model.layers.1.self_attn.k_proj.act_grad")
def own_logsumexp(adapter):
    def step(was, merger, out, lse, partial):
        merger.own = getattr(merger, "own", lse)
        was(merger, out, lse, partial)
    wrap(adapter.ring._SDPAMerger, "step", step)
    wrap(adapter.ring._SDPAMerger, "results", lambda was, merger: (was(merger)[0], merger.own))


@bug("torch_cp", "the last position of each part is left out of the loss, as if its target were on the next rank",
     first="1 loss loss")
def ends_of_parts_ignored(adapter):
    def around(was, logits, targets):
        parts = targets.clone().unflatten(1, (2, -1))
        parts[:, :, -1] = -100
        return was(logits, parts.flatten(1))
    wrap(adapter, "cross_entropy", around)


@bug("torch_cp", "gradients are summed over ranks, not averaged", first="1 backward lm_head.weight.grad",
     suspect="ratio")
def summed_over_ranks(adapter):
    def around(was, module, **more):
        module = was(module, **more)
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
    wrap(adapter, "fully_shard", around)


@bug("torch_cp", "the sampler counts ranks of a sequence as data parallel: rank 1 reads other samples",
     first="1 forward model.embed_tokens.act", suspect="other samples")
def parts_of_other_samples(adapter):
    with_batches(lambda x: x.roll(4 * rank(), 0))


@bug("torch_cp", "gradients are averaged over ranks of a sequence, and not over data-parallel groups", ranks=4,
     arguments="--dp 2", first="1 backward lm_head.weight.grad", suspect="unaveraged")
def averaged_in_a_sequence_only(adapter):
    kept = []

    def around(was, *a, **k):
        kept.append(was(*a, **k))
        return kept[0]
    wrap(adapter, "init_device_mesh", around)
    wrap(adapter, "fully_shard", lambda was, module, mesh: was(module, mesh=kept[0]["cp"]))


@bug("torch_cp", "of gathered keys, those of the next ranks are taken where those before are due", ranks=4,
     first="1 forward model.layers.0.post_attention_layernorm.act")
def keys_in_wrong_order(adapter):
    def next_buffer(was, rotater):
        me, n = torch.distributed.get_rank(rotater._pg), torch.distributed.get_world_size(rotater._pg)
        rotater._aggregated_buffer = adapter.ring._maybe_wait(rotater._aggregated_buffer)
        return rotater._aggregated_buffer.chunk(n)[(me + rotater._idx) % n]
    wrap(adapter.ring._AllGatherRotater, "next_buffer", next_buffer)


@bug("torch_cp", "rank 1 skips the update of step 2, as if it alone had seen an overflow",
     first="2 update model.embed_tokens.weight.param", suspect="region.*of the step before")
def one_rank_skips(adapter):
    """The drawer's prediction was .moment1, and wrong: rank 1 has the rows of bytes from 128 on. None occurs, so their
    gradients and moments are 0, with the update and without; the weights decay."""
    steps = []

    def around(was, optimizer):
        steps.append(rank())
        if steps != [1, 1]:
            was(optimizer)
    wrap(torch.optim.AdamW, "step", around)


# ---- transformers, tensor parallel ----
@bug("hf_tp", "the base of rotary angles is 500000, not the model's",
     first="1 forward model.layers.0.post_attention_layernorm.act", suspect="positions|scores")
def another_theta(adapter):
    def change(model):
        frequency = model.model.rotary_emb.inv_freq
        frequency.copy_(5e5 ** -(torch.arange(len(frequency)) / len(frequency)))
    when_loaded(change)


@bug("hf_tp", "norms have the epsilon 1e-6 of the default", ranks=4,
     first="1 forward model.layers.0.input_layernorm.act", suspect="token by token")
def another_epsilon(adapter):
    def change(model):
        for module in (m for m in model.modules() if hasattr(m, "variance_epsilon")):
            module.variance_epsilon = 1e-6
    when_loaded(change)


@bug("hf_tp", "in block 1 each rank has loaded the queries' heads of the other",
     first="1 forward model.layers.1.self_attn.q_proj.act", suspect="permuted")
def queries_of_the_other_rank(adapter):
    when_loaded(lambda model: take_the_others(model.model.layers[1].self_attn.q_proj.weight))


@bug("hf_tp", "the head starts as the embedding: loading has tied them", first="1 forward lm_head.act")
def head_tied_by_loading(adapter):
    def change(model):
        with torch.no_grad():
            model.lm_head.weight.copy_(model.model.embed_tokens.weight)
    when_loaded(change)


@bug("hf_tp", "the causal mask is off by one: each position sees the next",
     first="1 forward model.layers.0.post_attention_layernorm.act", suspect="positions|scores")
def next_position_seen(adapter):
    from transformers.models.llama import modeling_llama

    def mask(config, inputs_embeds, **more):
        n = inputs_embeds.shape[1]
        return torch.full((1, 1, n, n), torch.finfo(inputs_embeds.dtype).min, dtype=inputs_embeds.dtype).triu(2)
    modeling_llama.create_causal_mask = mask


@bug("hf_tp", "gradients are set to zero before each microbatch, not before each step",
     first="1 backward lm_head.weight.grad")
def last_microbatch_only(adapter):
    def around(was, model, *a):
        model.zero_grad()
        return was(model, *a)
    wrap(adapter, "loss_of", around)


@bug("hf_tp", "the optimizer believes itself at step 1000: moments are not corrected for their start",
     first="1 update model.embed_tokens.weight.param", suspect="bias correction")
def no_correction(adapter):
    def make(was, reference, parameters, more):
        optimizer = was(reference, parameters, **more)
        for p in parameters:
            optimizer.state[p] = {"step": torch.tensor(1000.0), "exp_avg": torch.zeros_like(p),
                                  "exp_avg_sq": torch.zeros_like(p)}
        return optimizer
    optimizer_of(make)


@bug("hf_tp", "the learning rate is that of the step before", first="2 update lr",
     suspect="rate.*that of the step before")
def rate_late(adapter):
    wrap(importlib.import_module("recorder").Reference, "set_rate",
         lambda was, reference, optimizer, n: was(reference, optimizer, max(0, n - 1)))


@bug("hf_tp", "the token that pads is one that occurs, the space: as a target it does not count", first="1 loss loss")
def a_token_is_padding(adapter):
    wrap(adapter, "loss_of", lambda was, model, tokens, targets:
         was(model, tokens, targets.masked_fill(targets == ord(" "), -100)))


@bug("hf_tp", "the halves of the vocabulary are gathered in the wrong order", first="1 forward lm_head.act",
     suspect="permuted")
def halves_of_the_vocabulary(adapter):
    when_loaded(lambda model: model.lm_head.register_forward_hook(
        lambda module, inputs, logits: logits.roll(logits.shape[-1] // 2, -1)))


# ---- transformers, expert parallel ----
def route_by(scores_of):
    """scores_of(logits, top_k): scores and experts of each token."""
    from transformers.models.mixtral import modeling_mixtral

    def forward(was, router, x):
        logits = torch.nn.functional.linear(x.reshape(-1, router.hidden_dim), router.weight)
        return logits, *scores_of(logits, router.top_k)
    wrap(modeling_mixtral.MixtralTopKRouter, "forward", forward)


@bug("hf_ep", "the router's scores are sigmoids, not a softmax", first="1 forward model.layers.0.act")
def sigmoid_scores(adapter):
    def scores(logits, top_k):
        best, index = logits.sigmoid().topk(top_k)
        return best / best.sum(-1, keepdim=True), index
    route_by(scores)


@bug("hf_ep", "what experts send back is put in place by the inverse of the order",
     first="1 forward model.layers.0.act")
def put_back_in_wrong_order(adapter):
    wrap(adapter.ep.AllToAllEP, "_combine_tokens", lambda was, experts, output, state:
         was(experts, output, state._replace(order=state.order.argsort())))


@bug("hf_ep", "in block 1 each rank has loaded the experts of the other", first="1 forward model.layers.1.act")
def experts_of_the_other_rank(adapter):
    def change(model):
        for p in model.model.layers[1].mlp.experts.parameters():
            take_the_others(p)
    when_loaded(change)


@bug("hf_ep", "an expert takes no more than its even share of a rank's tokens, and drops the rest",
     first="1 forward model.layers.0.act")
def tokens_dropped(adapter):
    def around(was, experts, x, index, weights):
        flat = torch.nn.functional.one_hot(index.flatten(), 4)
        place = (flat.cumsum(0) * flat).sum(-1).view_as(index)
        return was(experts, x, index, weights * (place <= index.numel() // 4))
    wrap(adapter.ep.AllToAllEP, "_dispatch_tokens", around)


@bug("hf_ep", "experts' gradients are not divided by the number of ranks", ranks=4,
     first="1 backward model.layers.1.block_sparse_moe.experts.0.w2.weight.grad", suspect="ratio")
def experts_summed(adapter):
    def change(model):
        for p in (p for p in model.parameters() if p.dim() == 3):
            p.grad *= ranks()
    before_gradients_are_recorded(change)


@bug("hf_ep", "the sum that scores are divided by is a constant for backward",
     first="1 backward model.layers.1.block_sparse_moe.gate.weight.grad")
def sum_of_scores_detached(adapter):
    def scores(logits, top_k):
        best, index = logits.float().softmax(-1).topk(top_k)
        return best / best.sum(-1, keepdim=True).detach(), index
    route_by(scores)


@bug("hf_ep", "gradients of routing weights are not summed over ranks that share a batch",
     arguments="--tp 2 --how all_reduce", first="1 backward model.layers.1.block_sparse_moe.gate.weight.grad",
     suspect="unsummed")
def scores_not_summed(adapter):
    wrap(adapter.ep._AllReduceBackward, "apply", lambda was, x, group: x if x.shape[-1] == 2 else was(x, group))


@bug("hf_ep", "the norm of gradients is that of all but the experts'", first="1 norm grad_norm", suspect="norm counts")
def norm_without_experts(adapter):
    wrap(adapter, "norm_of", lambda was, gradients: was([g for g in gradients if g.dim() < 3]))


@bug("hf_ep", "experts of both blocks share a state in the optimizer, kept by a name without the block's number",
     first="1 update model.layers.0.block_sparse_moe.experts.0.w1.weight.moment1")
def moments_shared(adapter):
    def make(was, reference, parameters, more):
        optimizer = was(reference, parameters, **more)
        first, second = [p for p in parameters if p.dim() == 3 and p.shape[1] > p.shape[2]]
        optimizer.state[first] = optimizer.state[second] = {}
        return optimizer
    optimizer_of(make)


@bug("hf_ep", "the router of block 1 starts with other weights on rank 1, which shares its batch with rank 0",
     arguments="--tp 2", first="1 forward model.layers.1.act")
def router_starts_apart(adapter):
    def change(model):
        weight = model.model.layers[1].mlp.gate.weight
        with torch.no_grad():
            weight.add_(0.02 * rank() * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    when_loaded(change)


# ---- running them ----
def rank_of(case, index, port, reference, run):
    """In a process of its own: rank index trains."""
    log = os.open(f"{run}.log-{index}", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(RANK=str(index), LOCAL_RANK=str(index), WORLD_SIZE=str(case.ranks), MASTER_ADDR="127.0.0.1",
                      LOCAL_WORLD_SIZE=str(case.ranks), MASTER_PORT=str(port), GROUP_RANK="0")
    atexit._clear()         # what the parent has left to do is not this process's
    status = 1
    try:
        module = importlib.import_module(case.adapter)
        case.plant(module)
        sys.argv = [case.adapter, reference, run, *case.arguments.split()]
        module.main()
        status = 0
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def train(case, reference, run):
    """All ranks; None, or what went wrong."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    left, failed, began = {}, None, time.monotonic()
    for index in range(case.ranks):
        pid = os.fork()
        if not pid:
            rank_of(case, index, port, reference, run)
        left[pid] = index
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            time.sleep(0.1)
        late = time.monotonic() - began > LIMIT_S
        index = left.pop(pid, None)
        if late or status:
            with open(f"{run}.log-{index or 0}") as f:
                last = (f.read().strip() or "nothing said").splitlines()[-1]
            failed = failed or (f"no end in {LIMIT_S} s" if late else f"rank {index} ended with {status}: {last}")
            for other in left:
                os.kill(other, signal.SIGKILL)
    return failed


def found(first, report):
    """Step, phase and tensor of the report's first line, and whether they are those of `first`."""
    line = re.search(r"first wrong: step (\d+), (\w+)(?:, layer \d+)?: (\S+)", report)
    said = line and " ".join(line.groups())
    return said, bool(said) and any(fnmatch.fnmatchcase(said, x.strip()) for x in first.split("|"))


def judge(case, trivium, work):
    """Train and check: the row, and what the table counts of it (found, named, suspect)."""
    run, reference = f"{work}/{case.adapter}-{case.name}", f"{work}/{case.reference or DEFAULTS[case.adapter]}"
    row = f"oracle_drawn_{case.adapter}_{case.name}"
    failed = train(case, reference, run)
    if failed:
        return f"not ok {row} {failed}", (0, 0, 0)
    check = subprocess.run([trivium, "oracle", "check", run, reference], capture_output=True, text=True)
    shutil.rmtree(run)
    said, named = found(case.first, check.stdout)
    suspect = re.search(r"suspect: (.*)", check.stdout)
    right = bool(suspect and case.suspect and re.search(case.suspect, suspect[1]))
    text = "right" if right else "FALSE: " + suspect[1] if suspect else "none"
    ok = said and named != bool(case.missed)
    row = f"{'ok' if ok or case.missed and not said else 'not ok'} {row} {said or check.stderr or 'all right'}"
    row += f"; predicted: {case.first}" if not named else ""
    row += f"; known to be missed: {case.missed}" if case.missed else ""
    report = "".join(f"\n    {line}" for line in check.stdout.splitlines()) if os.environ.get("SHOW") or not ok else ""
    return f"{row}; suspect {text}{report}", (int(bool(said)), int(named), int(right))


def references(trivium, work, names):
    for name in sorted(x for x in names if not os.path.exists(f"{work}/{x}/recording.json")):
        subprocess.run([trivium, "oracle", "record", "--out", f"{work}/{name}", *REFERENCES[name].split(), "--log",
                        "warn"], check=True, stdout=subprocess.DEVNULL)


def there(adapter):
    try:
        return adapter not in NEEDS or importlib.util.find_spec(NEEDS[adapter]) is not None
    except ModuleNotFoundError:
        return False


def run_all(cases, trivium, work, jobs):
    """Yield each case with its row and counts, in the order in which they end."""
    waiting, running = list(cases), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            case = waiting.pop(0)
            out, into = os.pipe()
            pid = os.fork()
            if not pid:
                try:
                    answer = judge(case, trivium, work)
                except BaseException as e:
                    answer = f"not ok oracle_drawn_{case.adapter}_{case.name} {e!r}", (0, 0, 0)
                os.write(into, repr(answer).encode())
                os._exit(0)
            os.close(into)
            running[pid] = case, out
        pid, _ = os.wait()
        case, out = running.pop(pid)
        with os.fdopen(out) as f:
            yield case, *eval(f.read())


def table(counts):
    lines = ["| Adapter | Drawn | Found | Named rightly | With a right suspect |", "|---|---|---|---|---|"]
    return lines + [f"| `{adapter}.py` | {' | '.join(str(n) for n in row)} |" for adapter, row in counts.items()]


def main():
    trivium, *pages = sys.argv[1:]
    only = os.environ.get("ONLY", "")
    cases = [c for row in BUGS.values() for c in row if only in f"oracle_drawn_{c.adapter}_{c.name}"]
    for case in [c for c in cases if not there(c.adapter)]:
        print(f"skip oracle_drawn_{case.adapter}_{case.name} no {NEEDS[case.adapter]} in this Python")
        cases.remove(case)
    counts = {c.adapter: [0] * 4 for c in cases}
    models = ["transformers.models.llama.modeling_llama", "transformers.models.mixtral.modeling_mixtral"]
    for module in [*models, *(x for x in counts if x.startswith(("torch_", "hf_")))]:    # once, for all that are forked
        importlib.import_module(module)
    keep = os.environ.get("KEEP")
    with contextlib.nullcontext(keep) if keep else tempfile.TemporaryDirectory() as work:
        references(os.path.abspath(trivium), work, {c.reference or DEFAULTS[c.adapter] for c in cases})
        for case, row, (*each,) in run_all(cases, os.path.abspath(trivium), work, int(os.environ.get("JOBS", 2))):
            print(row, flush=True)
            counts[case.adapter] = [a + b for a, b in zip(counts[case.adapter], [1, *each])]
    lines = table(counts)
    print("\n".join(f"# {line}" for line in lines))
    for page in pages:
        with open(page) as f:
            text = f.read()
        for (adapter, (drawn, *_)), line in zip(counts.items(), lines[2:]):
            if drawn == len(BUGS[adapter]):
                print(f"{'ok' if line in text else 'not ok'} oracle_drawn_page_{adapter} {line}")


if __name__ == "__main__":
    sys.modules["oracle_drawn"] = sys.modules["__main__"]
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tools", "oracle")]
    os.environ.update(OMP_NUM_THREADS="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1",
                      DS_ACCELERATOR="cpu")
    if os.path.exists(f"{HERE}/oracle_drawn_frameworks.py"):
        import oracle_drawn_frameworks  # noqa: F401
    main()

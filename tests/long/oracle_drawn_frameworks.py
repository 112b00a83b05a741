"""Bugs drawn for torchtitan, DeepSpeed and Megatron-Core by a reader who had not seen the detector; oracle_drawn.py
plants, runs and judges them."""
import functools
import importlib
import types

from oracle_drawn import bug, rank, when_loaded, wrap


def of(module, name=None):
    """A module, or what it has: imported where a bug is planted, after the adapter."""
    module = importlib.import_module(module)
    return getattr(module, name) if name else module


def config_with(adapter, name, **more):
    """The configuration that adapter.name(...) makes has these values in place of those that it is given."""
    make = getattr(adapter, name)
    setattr(adapter, name, lambda *a, **k: make(*a, **{**k, **more}))


def when_made(adapter, change):
    """change(model) of what the adapter's new_model gives."""
    def around(was, *a):
        given = was(*a)
        change(given[1])
        return given
    wrap(adapter, "new_model", around)


def batches_of(change):
    """change(tokens, targets) gives a step's batch."""
    wrap(of("recorder", "Reference"), "batches", lambda was, self: [change(*both) for both in was(self)])


def optimizer_of(change):
    """change(optimizer) of what the reference gives, or another."""
    wrap(of("recorder", "Reference"), "optimizer", lambda was, self, *a, **k: change(was(self, *a, **k)))


# ---- torchtitan ----
@bug("torchtitan_llama", "positions sharded, and a block's norms do not sum their gradients over ranks",
     first="1 backward model.layers.1.post_attention_layernorm.weight.grad", arguments="--tp 2",
     suspect="unsummed")
def norms_not_reduced(adapter):
    sharding = of("torchtitan.models.llama3.sharding")

    def around(was, enable_sp):
        made = was(enable_sp=enable_sp)
        made.state_shardings = was(enable_sp=False).state_shardings
        return made
    wrap(sharding, "norm_config", around)


@bug("torchtitan_llama", "targets, which are the next tokens already, are shifted again; the last position is masked",
     first="1 loss loss")
def shifted_again(adapter):
    def around(was, self, pred, labels, *more):
        labels = labels.roll(-1, 1)
        labels[:, -1] = -100
        return was(self, pred, labels, *more)
    wrap(adapter.CrossEntropyLoss, "__call__", around)


@bug("torchtitan_llama", "heads of keys and values are repeated as a b a b, not as a a b b",
     first="1 forward model.layers.0.post_attention_layernorm.act")
def heads_tiled(adapter):
    def around(was, q, k, v, enable_gqa=False, **more):
        n = q.shape[1] // k.shape[1]
        return was(q, k.repeat(1, n, 1, 1), v.repeat(1, n, 1, 1), **more)
    wrap(of("torch.nn.functional"), "scaled_dot_product_attention", around)


@bug("torchtitan_llama", "rotary angles have Llama 3's base, 500000",
     first="1 forward model.layers.0.post_attention_layernorm.act", suspect="scores")
def rotary_base(adapter):
    adapter.ComplexRoPE = types.SimpleNamespace(Config=functools.partial(adapter.ComplexRoPE.Config, theta=500000.0))


@bug("torchtitan_llama", "the loss of a divided vocabulary has each rank's own greatest logit", first="1 loss loss",
     arguments="--tp 2")
def own_greatest(adapter):
    loss, funcol = of("torchtitan.components.loss"), of("torch.distributed._functional_collectives")
    loss.funcol = types.SimpleNamespace(
        all_reduce=lambda x, reduceOp, group: x if reduceOp == "MAX" else funcol.all_reduce(x, reduceOp, group))


@bug("torchtitan_llama", "gradients are reduced in bf16", first="1 backward lm_head.weight.grad",
     suspect="rounded")
def reduced_in_bf16(adapter):
    config_with(adapter, "TrainingConfig", mixed_precision_reduce="bfloat16")


@bug("torchtitan_llama", "replicas of shards: block 1 has the mean of its own shards only",
     first="1 backward model.layers.1.mlp.down_proj.weight.grad", ranks=4, arguments="--replicas 2",
     suspect="unsummed")
def replicas_apart(adapter):
    def around(was, parameters, *more, **others):
        more = list(more)
        if "layers.1." in parameters[0]._param_fqn:
            more[7] = None      # all_reduce_group
        return was(parameters, *more, **others)
    wrap(of("torch.distributed.fsdp._fully_shard._fsdp_param_group"), "foreach_reduce", around)


# First drawn with the reference `modules`, where it changes no number: rank 1 has rows 128 to 255 of the vocabulary,
# the tokens are bytes of ASCII, so what rank 1 loads is never read.
@bug("torchtitan_llama", "each rank of a tensor parallel pair loads other samples",
     first="1 forward model.embed_tokens.act", arguments="--tp 2", reference="narrow")
def loader_by_rank(adapter):
    batches_of(lambda tokens, targets: (tokens.roll(2 * rank(), 0), targets.roll(2 * rank(), 0)))


@bug("torchtitan_llama", "AdamW's eps is that of the norms, 1e-5",
     first="1 update model.embed_tokens.weight.param", suspect="epsilon")
def eps_of_norms(adapter):
    def change(optimizer):
        for group in optimizer.param_groups:
            group["eps"] = 1e-5
        return optimizer
    optimizer_of(change)


@bug("torchtitan_llama", "gradients are set to none before each microbatch", first="1 backward lm_head.weight.grad")
def zeroed_each_microbatch(adapter):
    def around(was, recorder, *a):
        for p in recorder.models[0].parameters():
            p.grad = None
        was(recorder, *a)
    wrap(of("recorder", "Recorder"), "samples", around)


# ---- DeepSpeed ----
def zero():
    return of("deepspeed.runtime.zero.stage_1_and_2")


@bug("deepspeed_zero", "gradients are sent in bf16", first="1 backward transformer.ln_f.weight.grad",
     arguments="--stage 2", suspect="rounded")
def sent_in_bf16(adapter):
    wrap(adapter, "settings", lambda was, *a: {**was(*a), "communication_data_type": "bf16"})


@bug("deepspeed_zero", "the last bucket of a backward pass, flushed at its end, is summed, not averaged",
     first="1 backward transformer.wte.weight.grad", arguments="--stage 2", suspect="ratio")
def last_bucket_summed(adapter):
    wrap(adapter, "settings", lambda was, *a: {**was(*a), "zero_optimization": {"stage": 2,
                                                                               "reduce_bucket_size": 30000}})

    def around(was, self):
        self.gradient_average = False
        was(self)
        self.gradient_average = True
    wrap(zero().DeepSpeedZeroOptimizer, "independent_gradient_partition_epilogue", around)


@bug("deepspeed_zero", "the gradients' norm is that of the first parameter group", first="1 norm grad_norm",
     suspect="norm counts")
def norm_of_first_group(adapter):
    wrap(zero(), "combine_grad_norm_groups", lambda was, norms, **more: was(norms[:1], **more))


@bug("deepspeed_zero", "weights of the second group (norms, biases) are gathered as they were before the update",
     first="2 forward transformer.h.0.act")
def stale_group(adapter):
    before = []

    def step(was, self, *a):
        before[:] = [self.parallel_partitioned_bit16_groups[1][rank()].clone()]
        was(self, *a)

    def gather(was, **more):
        more["partitioned_param_groups"][1][rank()].copy_(before[0])
        was(**more)
    wrap(zero().DeepSpeedZeroOptimizer, "step", step)
    wrap(zero(), "all_gather_dp_groups", gather)


@bug("deepspeed_zero", "weights decay by their gradients (Adam with L2), not apart from them (AdamW)",
     first="1 update transformer.wte.weight.moment1", suspect="decay")
def decay_in_gradients(adapter):
    import torch

    def change(optimizer):
        group = optimizer.param_groups[0]
        return torch.optim.Adam([{"params": g["params"], "weight_decay": g["weight_decay"]}
                                 for g in optimizer.param_groups], lr=group["lr"], betas=group["betas"],
                                eps=group["eps"])
    optimizer_of(change)


@bug("deepspeed_zero", "norms and biases have the gradients of the last microbatch only",
     first="1 backward transformer.ln_f.weight.grad", arguments="--stage 2")
def microbatch_lost(adapter):
    def around(was, self):
        self.all_grad_tensors[1] = None
        was(self)
    wrap(zero().DeepSpeedZeroOptimizer, "independent_gradient_partition_epilogue", around)


# In place of "small weights, which stay whole, are not gathered after the update": that changes no number, for all
# weights are parted in a step, and the next forward pass gathers them.
@bug("deepspeed_zero", "ZeRO 3: each rank clips by the norm of its own parts", first="1 norm grad_norm",
     arguments="--stage 3", suspect="own norms")
def norm_of_own_parts(adapter):
    stage3 = of("deepspeed.runtime.zero.stage3")

    def around(was, *a, **k):
        reduce, stage3.dist.all_reduce = stage3.dist.all_reduce, lambda *a, **k: None
        norm = was(*a, **k)
        stage3.dist.all_reduce = reduce
        return norm
    wrap(stage3.DeepSpeedZeroOptimizer_Stage3, "get_grad_norm_direct", around)


@bug("deepspeed_zero", "ZeRO 3: gradients of a step are added to those of the step before",
     first="2 backward transformer.ln_f.weight.grad", arguments="--stage 3", suspect="accumulated")
def not_reset(adapter):
    stage3, steps = of("deepspeed.runtime.zero.stage3").DeepSpeedZeroOptimizer_Stage3, []

    def around(was, self, *a):
        at, self.micro_step_id = self.micro_step_id, self.micro_step_id or len(steps)
        buffers = was(self, *a)
        self.micro_step_id = at
        return buffers
    wrap(stage3, "partition_grads", around)
    wrap(stage3, "step", lambda was, self, *a: (was(self, *a), steps.append(1))[0])


# Predicted: transformer.wte.weight.param, of which rounding to bf16 changes less than gradients of bf16 may. Weights of
# a norm, near 1, lose their whole update.
@bug("deepspeed_zero", "bf16: the optimizer's fp32 weights are made of the bf16 ones after each update",
     first="1 update transformer.h.*.ln_*.weight.param", arguments="--stage 2 --dtype bf16", suspect="rounded")
def masters_rounded(adapter):
    def around(was, self, *a):
        was(self, *a)
        for x in self.single_partition_of_fp32_groups:
            x.data.copy_(x.data.bfloat16())
    wrap(zero().DeepSpeedZeroOptimizer, "step", around)


@bug("deepspeed_zero", "scores are divided by the block's number, an option of GPT-2's configuration",
     first="1 forward transformer.h.1.act", suspect="scores")
def scores_by_block(adapter):
    def change(model):
        for i, block in enumerate(model.transformer.h):
            block.attn.scaling /= i + 1
    when_loaded(change)


# ---- Megatron-Core, tensor parallel ----
@bug("megatron_core", "block 1's fc1 gives back its own part of the gradient of what went in",
     first="1 backward model.layers.1.post_attention_layernorm.weight.grad",
     suspect="unsummed")
def input_gradient_not_reduced(adapter):
    when_made(adapter, lambda model: wrap(model.decoder.layers[1].mlp.linear_fc1, "_forward_impl",
                                          lambda was, **more: was(**{**more, "allreduce_dgrad": False})))


@bug("megatron_core", "the softmax over a divided vocabulary has each rank's own sum", first="1 loss loss")
def own_denominator(adapter):
    loss = of("megatron.core.tensor_parallel.cross_entropy").VocabParallelCrossEntropy
    wrap(loss, "calculate_cross_entropy_loss", lambda was, e, predicted, total: was(e, predicted, e.sum(-1)))
    loss.calculate_cross_entropy_loss = staticmethod(loss.calculate_cross_entropy_loss)


@bug("megatron_core", "rotary embeddings turn pairs of neighbors; the weights are for halves",
     first="1 forward model.layers.0.act", suspect="scores")
def rotary_interleaved(adapter):
    config_with(adapter, "TransformerConfig", rotary_interleaved=True)


@bug("megatron_core", "scores are divided by the layer's number, and the softmax does not multiply by it again",
     first="1 forward model.layers.1.act", suspect="scores")
def layer_scaling(adapter):
    def change(model):
        for i, layer in enumerate(model.decoder.layers):
            layer.self_attention.core_attention.softmax_scale /= i + 1
    when_made(adapter, change)


# Predicted: model.embed_tokens.weight.moment1. But rank 1's rows of it are 128 to 255, no byte of ASCII: their moments
# are zero anyway.
@bug("megatron_core", "rank 1 goes on without its moments after step 1, as from a checkpoint that lacks them",
     first="2 update model.layers.0.input_layernorm.weight.moment1", suspect="one rank")
def moments_lost(adapter):
    def around(was, a, recorder, optimizer, n, *more):
        if n == 1 and rank() == 1:
            optimizer.state.clear()
        was(a, recorder, optimizer, n, *more)
    wrap(adapter, "finish_step", around)


@bug("megatron_core", "what a row-parallel layer sums forward is summed backward, too",
     first="1 backward model.layers.1.mlp.down_proj.weight.grad", suspect="ratio")
def reduced_backward_too(adapter):
    mappings = of("megatron.core.tensor_parallel.mappings")
    mappings._ReduceFromModelParallelRegion.forward = staticmethod(
        lambda ctx, x, group: (setattr(ctx, "group", group), mappings._reduce(x, group))[1])
    mappings._ReduceFromModelParallelRegion.backward = staticmethod(
        lambda ctx, g: (mappings._reduce(g.clone(), ctx.group), None))


@bug("megatron_core", "a rank's rows of query, key and value lie one after another, not by group of heads",
     first="1 forward model.layers.0.act")
def not_by_group(adapter):
    import torch

    def around(was, a, c, model, weights):
        was(a, c, model, weights)
        for name, p in model.named_parameters():
            if "linear_qkv" in name:
                size, queries = c.hidden_size // c.num_attention_heads, c.num_attention_heads // c.num_query_groups
                groups = p.data.unflatten(0, (-1, (queries + 2) * size))
                parts = [x.flatten(0, 1) for x in groups.split([queries * size, size, size], 1)]
                p.data.copy_(torch.cat(parts))
    wrap(adapter, "load", around)


@bug("megatron_core", "the last position's loss is masked, and still counts in the mean", first="1 loss loss")
def last_position(adapter):
    def around(was, self, *a):
        loss = was(self, *a).clone()
        loss[:, -1] = 0
        return loss
    wrap(of("megatron.core.models.gpt.gpt_model").GPTModel, "compute_language_model_loss", around)


@bug("megatron_core", "the embedding's matrix does not decay", first="1 update model.embed_tokens.weight.param",
     suspect="decay")
def embedding_does_not_decay(adapter):
    def change(optimizer):
        decays, others = optimizer.param_groups
        others["params"].append(decays["params"].pop(0))
        return optimizer
    optimizer_of(change)


@bug("megatron_core", "the embedding of a rank gives its first row for tokens of the other rank",
     first="1 forward model.embed_tokens.act", suspect="unmasked rows")
def rows_not_masked(adapter):
    import torch
    layers = of("megatron.core.tensor_parallel.layers")

    def forward(self, tokens):
        away = (tokens < self.vocab_start_index) | (tokens >= self.vocab_end_index)
        rows = torch.nn.functional.embedding((tokens - self.vocab_start_index).masked_fill(away, 0), self.weight)
        return layers.reduce_from_tensor_model_parallel_region(rows, group=self.tp_group)
    layers.VocabParallelEmbedding.forward = forward


# ---- Megatron-Core, experts and context parallel ----
@bug("megatron_moe", "an expert's output is multiplied by the router's probability twice",
     first="1 forward model.layers.0.act", arguments="--ep 2")
def probabilities_twice(adapter):
    wrap(of("megatron.core.transformer.moe.experts").SequentialMLP, "forward",
         lambda was, self, x, counts, p: was(self, x, counts, p * p))


@bug("megatron_moe", "experts have a capacity, and drop tokens above it", first="1 forward model.layers.0.act",
     ranks=4, arguments="--ep 4")
def tokens_dropped(adapter):
    config_with(adapter, "TransformerConfig", moe_expert_capacity_factor=1.0)


@bug("megatron_moe", "tokens that come from several ranks are not sorted by expert", arguments="--ep 2",
     first="1 forward model.layers.0.act")
def not_sorted(adapter):
    of("megatron.core.transformer.moe.token_dispatcher").sort_chunks_by_idxs = \
        lambda x, sizes, order, probs=None, fused=False: (x, probs)


@bug("megatron_moe", "the router's product is in bf16", first="1 forward model.layers.0.act", suspect="rounded")
def router_in_bf16(adapter):
    import torch
    wrap(of("megatron.core.transformer.moe.router"), "router_gating_linear",
         lambda was, x, weight, bias, dtype: was(x, weight, bias, torch.bfloat16).float())


@bug("megatron_moe", "a rank's two parts of the targets lie the other way round", first="1 loss loss",
     arguments="--cp 2")
def targets_turned(adapter):
    wrap(of("megatron.core.models.gpt.gpt_model").GPTModel, "forward", lambda was, self, *a, labels, **more:
         was(self, *a, labels=labels.roll(labels.shape[1] // 2, 1), **more))


@bug("megatron_moe", "the router has a loss for balance, which the reference does not have",
     first="1 backward model.layers.1.block_sparse_moe.gate.weight.grad", ranks=4, arguments="--ep 2 --cp 2")
def balance_loss(adapter):
    config_with(adapter, "TransformerConfig", moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=0.01)


def ddp():
    return of("megatron.core.distributed").DistributedDataParallel


@bug("megatron_moe", "gradients of experts are not zeroed before a step", ranks=4, arguments="--ep 2 --cp 2",
     first="2 backward model.layers.1.block_sparse_moe.experts.0.w2.weight.grad", suspect="accumulated")
def experts_not_zeroed(adapter):
    def around(was, self):
        kept = [x.grad_data.clone() for x in self.expert_parallel_buffers]
        was(self)
        for x, y in zip(self.expert_parallel_buffers, kept):
            x.grad_data.copy_(y)
    wrap(ddp(), "zero_grad_buffer", around)


@bug("megatron_moe", "experts' weights are never copied from the optimizer's", arguments="--ep 2",
     first="2 forward model.layers.0.act")
def experts_stale(adapter):
    kept = {}

    def around(was, self):
        was(self)
        for name, p in self.module.named_parameters():
            if "experts" in name:
                p.data.copy_(kept.setdefault(name, p.data.clone()))
    wrap(ddp(), "zero_grad_buffer", around)


@bug("megatron_moe", "the optimizer's betas are swapped", first="1 update model.embed_tokens.weight.moment1",
     arguments="--ep 2", suspect="betas")
def betas_swapped(adapter):
    def change(optimizer):
        for group in optimizer.param_groups:
            group["betas"] = group["betas"][::-1]
        return optimizer
    optimizer_of(change)


@bug("megatron_moe", "the norm is taken of a rank's own gradients, before they are averaged", arguments="--ep 2",
     first="1 norm grad_norm")
def norm_too_early(adapter):
    early, norm_of = [], adapter.norm_of
    wrap(adapter, "average", lambda was, a, model: (early.append(norm_of(a, model.module)), was(a, model))[1])
    adapter.norm_of = lambda a, model: early[-1]

"""Megatron-Core's multi-head latent attention (a dense DeepSeek-V3) over gloo: tensor and context parallel, and
replicas, which its own DDP averages:

    torchrun --nproc-per-node 2 megatron_mla.py REFERENCE RUN [--tp 1|2|4] [--cp 1|2|4] [--dtype fp32|bf16]
                                                              [--plant BUG]

Three things of the release are mended here, and each is left as it is by a bug to plant: norms of latents have the
model's eps (`latents-eps`; published models have 1e-6). With tp, the key that all heads share has the gradient of one
rank's heads (`shared-key`, Megatron-LM#1699), and the gradient of the norm of queries' latent, which is whole on each
rank, is summed over them, since its name is that of a norm of heads (`summed-twice`)."""
import functools

import torch
from megatron_parts import Attention, DdpRecorder, stand_in, train
from megatron.core import parallel_state
from megatron.core.distributed import finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_submodules
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.tensor_parallel import copy_to_tensor_model_parallel_region
from megatron.core.transformer import multi_latent_attention
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.transformer_config import MLATransformerConfig
from megatron.core.transformer.transformer_layer import TransformerLayer

from adapter import start, sum_over_ranks

BUGS = {
    "shared-key": "the gradient of the key that all heads share is of one rank's heads, as released (needs --tp)",
    "latents-eps": "norms of latents have the model's eps, as released",
    "summed-twice": "the gradient of the norm of the latent of queries is summed again, as released (needs --tp)",
    "latent-apart": "the gradient of layer 1's latent of keys and values is not summed over ranks (needs --tp)",
    "mscale": "scores lack the factor of slowed positions",
    "narrow": "scores are divided by the root of a key's channels without positions",
    "halves": "rotary positions turn channels that are half apart, not neighbors",
    "first": "of a query's channels the first have positions, not the last",
    "values-first": "values are taken for keys without positions, and these for values",
    "positions": "each part of the sequence has the first positions (needs --cp)",
    "keys-kept": "gradients of keys and values of other ranks do not come home (needs --cp)",
    "norm-twice": "the norm counts what all ranks of tp have once for each (needs --tp)",
}


def config_of(a):
    m, half = a.reference.head["model"], a.dtype == "bf16"
    theirs = dict(word.split("=") for word in m["options"].split())
    latent, queries, turned, value = (int(theirs[x]) for x in ("kv-lora-rank", "q-lora-rank", "rope-head-dim",
                                                               "v-head-dim"))
    slower, context, slow, fast, _ = (float(x) for x in theirs["rope-scaling"].split(":")[1:])
    mscale = float(theirs["mscale-all-dim"])
    return MLATransformerConfig(
        num_layers=m["layers"], hidden_size=m["hidden"], num_attention_heads=m["heads"], ffn_hidden_size=m["ffn"],
        q_lora_rank=queries, kv_lora_rank=latent, qk_head_dim=m["head-dim"] - turned, qk_pos_emb_head_dim=turned,
        v_head_dim=value, kv_channels=value, rotary_scaling_factor=slower, beta_slow=slow, beta_fast=fast,
        original_max_position_embeddings=int(context), mscale=mscale, mscale_all_dim=mscale, qk_layernorm=True,
        gated_linear_unit=True, activation_func=torch.nn.functional.silu, add_bias_linear=False, hidden_dropout=0,
        attention_dropout=0, bf16=half, params_dtype=torch.bfloat16 if half else torch.float32,
        use_cpu_initialization=True, tensor_model_parallel_size=a.tp, context_parallel_size=a.cp,
        bias_activation_fusion=False, masked_softmax_fusion=False)


def turn(a, own):
    """Megatron-Core's rotary positions, in front of which the shared key's gradient is summed over ranks."""
    def apply(t, freqs, mla_rotary_interleaved, **more):
        if t.shape[2] == 1 and a.plant != "shared-key":
            t = copy_to_tensor_model_parallel_region(t)
        return own(t, freqs, mla_rotary_interleaved=a.plant != "halves", **more)
    return apply


def new_model(a):
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=a.tp, context_parallel_size=a.cp)
    stand_in(a.plant)
    multi_latent_attention.apply_rotary_pos_emb = turn(a, multi_latent_attention.apply_rotary_pos_emb)
    c, m = config_of(a), a.reference.head["model"]
    layer = get_gpt_layer_local_submodules(normalization="RMSNorm", qk_layernorm=True, multi_latent_attention=True)
    layer.self_attention.submodules.core_attention = Attention
    model = GPTModel(c, ModuleSpec(TransformerLayer, submodules=layer), m["vocab"], m["seq"],
                     position_embedding_type="rope", share_embeddings_and_output_weights=False)
    for number, block in enumerate(model.decoder.layers):
        mla = block.self_attention
        if a.plant != "latents-eps":
            mla.q_layernorm.eps = mla.kv_layernorm.eps = 1e-6
        if a.plant == "latent-apart" and number == 1:
            mla.linear_kv_up_proj.allreduce_dgrad, mla.linear_kv_up_proj.disable_grad_reduce = False, True
        if a.plant in ("mscale", "narrow"):
            width = c.qk_head_dim + c.qk_pos_emb_head_dim * (a.plant == "mscale")
            mla.core_attention.softmax_scale *= width ** -0.5 / mla.softmax_scale
    c.qk_layernorm = a.plant == "summed-twice"              # finalize_model_grads reads it
    return c, model.bfloat16() if c.bf16 else model


def norm_of(a, model):
    """Each shard counts once, and what all ranks of tp have."""
    squares = [0.0, 0.0]
    for p in model.parameters():
        squares[getattr(p, "tensor_model_parallel", False)] += float((p.main_grad.double() ** 2).sum())
    shards = sum_over_ranks(squares[1]) * a.tp / a.ranks
    return torch.as_tensor(shards + squares[0] * (a.tp if a.plant == "norm-twice" else 1)) ** 0.5


def main():
    a = start(__doc__, BUGS, dtypes=("fp32", "bf16"), tp=(1, 2, 4), cp=(1, 2, 4))
    c, model = new_model(a)
    by, which = c.qk_head_dim, {"first": "q_b_proj", "values-first": "kv_b_proj"}.get(a.plant, "none")

    def rolled(name, weights):
        """The rows from `by` on of each head come first."""
        x = weights[name]
        return x.unflatten(0, (c.num_attention_heads, -1)).roll(-by, 1).flatten(0, 1) if which in name else x
    recorder = DdpRecorder(a.run, a.reference, model, dtype=a.dtype, rank=a.rank, by="megatron-core")
    recorder.at(c, model)
    recorder.load(model, rolled)
    train(a, c, recorder, model, lambda ddp: finalize_model_grads([ddp]), functools.partial(norm_of, a))


if __name__ == "__main__":
    main()

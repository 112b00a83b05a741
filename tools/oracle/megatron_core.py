"""Megatron-Core's GPTModel on the CPU, over gloo, of a Llama, tensor parallel (pip install --no-deps megatron-core):

    torchrun --nproc-per-node 2 megatron_core.py REFERENCE RUN [--dtype fp32|bf16] [--plant BUG]

Two calls that need a GPU are replaced: current_device, and the random state of dropout, which is 0. Its matrices hold
others' side by side: `pieces` says which rows are whose, to load and to record."""
import contextlib

import torch
torch.cuda.current_device = lambda: "cpu"
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

from adapter import DTYPES, finish_step, norm_of, start, sum_over_ranks  # noqa: E402
from recorder import Recorder  # noqa: E402

BUGS = {
    "norm-twice": "squares are summed over ranks, also of what all ranks have",
    "local-norm": "each rank clips by the norm of what it has",
    "gate-up": "gate and up are put together first, and sharded then",
    "vocabulary": "a rank's rows of the embedding are shifted by one",
}
NAMES = {"embedding.word_embeddings": "model.embed_tokens", "decoder.final_layernorm": "model.norm",
         "output_layer": "lm_head", "decoder.layers": "model.layers", "self_attention.linear_proj": "self_attn.o_proj",
         "pre_mlp_layernorm": "post_attention_layernorm", "mlp.linear_fc2": "mlp.down_proj",
         "self_attention.linear_q_down_proj": "self_attn.q_a_proj",
         "self_attention.linear_q_up_proj": "self_attn.q_b_proj",
         "self_attention.linear_kv_down_proj": "self_attn.kv_a_proj_with_mqa",
         "self_attention.linear_kv_up_proj": "self_attn.kv_b_proj",
         "self_attention.q_layernorm": "self_attn.q_a_layernorm",
         "self_attention.kv_layernorm": "self_attn.kv_a_layernorm"}


def pieces(a, c, name, x):
    """For a parameter, or a tensor of its shape: others' names, the part of x, its first element, the whole's shape."""
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    if "linear_fc1" in name:
        n = x.shape[0] // 2
        for i, part in enumerate(("gate_proj", "up_proj")):
            yield name.replace("linear_fc1", part), x[i * n:(i + 1) * n], [a.rank * n, 0], [n * a.ranks, x.shape[1]]
    elif "linear_qkv" in name:
        heads, groups, size = c.num_attention_heads, c.num_query_groups, c.hidden_size // c.num_attention_heads
        at, whole, own = 0, groups * size, groups // a.ranks
        for group in range(a.rank * own, (a.rank + 1) * own):
            for part, n in (("q", heads // groups), ("k", 1), ("v", 1)):
                yield (name.replace("self_attention.linear_qkv", f"self_attn.{part}_proj"), x[at:at + n * size],
                       [group * n * size, 0], [n * whole, x.shape[1]])
                at += n * size
    else:
        axis, first, of = 1 if "o_proj" in name or "down_proj" in name else 0, [0] * x.dim(), list(x.shape)
        if x.dim() > 1:
            first[axis], of[axis] = a.rank * x.shape[axis], x.shape[axis] * a.ranks
        yield name, x, first, of


class MegatronRecorder(Recorder):
    def _keep_if_any(self, name, x, transposed=False):
        name, suffix = name.rsplit(".", 1)
        for theirs, part, first, of in pieces(*self.more, name, x):
            self.keep(f"{theirs}.{suffix}", part, first, of)

    def gradient_of(self, p):
        return self.master[p].grad

    def weight_of(self, p):
        return self.master[p]

    def moments_of(self, p, optimizer):
        return super().moments_of(self.master[p], optimizer)


def load(a, c, model, weights):
    with torch.no_grad():
        for name, p in model.named_parameters():
            for theirs, part, first, _ in pieces(a, c, name, p):
                part.copy_(weights[theirs][tuple(slice(f, f + n) for f, n in zip(first, part.shape))])
            if a.plant == "vocabulary" and "word_embeddings" in name:
                p.copy_(p.roll(1, 0))
            if a.plant == "gate-up" and "linear_fc1" in name:
                both = [weights[next(iter(pieces(a, c, name, p)))[0].replace("gate", x)] for x in ("gate", "up")]
                p.copy_(torch.cat(both).chunk(a.ranks)[a.rank])


def new_model(a, theirs):
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=a.ranks)
    tensor_parallel.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()
    c = TransformerConfig(
        num_layers=theirs.num_hidden_layers, hidden_size=theirs.hidden_size, gated_linear_unit=True,
        num_attention_heads=theirs.num_attention_heads, num_query_groups=theirs.num_key_value_heads,
        ffn_hidden_size=theirs.intermediate_size, activation_func=torch.nn.functional.silu, add_bias_linear=False,
        normalization="RMSNorm", layernorm_epsilon=theirs.rms_norm_eps, hidden_dropout=0, attention_dropout=0,
        tensor_model_parallel_size=a.ranks, use_cpu_initialization=True, params_dtype=DTYPES[a.dtype],
        bf16=a.dtype == "bf16", bias_activation_fusion=False, masked_softmax_fusion=False)
    return c, GPTModel(c, get_gpt_layer_local_spec(normalization="RMSNorm"), theirs.vocab_size,
                       theirs.max_position_embeddings, position_embedding_type="rope",
                       share_embeddings_and_output_weights=False, rotary_base=10000)


def main():
    a = start(__doc__, BUGS)
    reference = a.reference
    theirs = reference.load(DTYPES[a.dtype])
    c, model = new_model(a, theirs.config)
    load(a, c, model, theirs.state_dict())
    recorder = MegatronRecorder(a.run, reference, model, dtype=a.dtype, rank=a.rank, by="megatron-core")
    recorder.more = a, c
    recorder.place = lambda name, x: x.transpose(0, 1)      # they are [positions, samples, channels]
    recorder.watch("model.embed_tokens", model.embedding)
    recorder.watch("model.norm", model.decoder.final_layernorm)
    for i, layer in enumerate(model.decoder.layers):
        recorder.watch(f"model.layers.{i}", layer)
    # in bf16 the optimizer has weights, and sums of gradients, of its own in fp32
    recorder.master = {p: p.detach().clone() if c.bf16 else p for p in model.parameters()}
    if c.bf16:
        model.bfloat16()
    optimizer = reference.optimizer(recorder.master.values())
    for n, (tokens, targets) in enumerate(reference.batches()):
        optimizer.zero_grad()
        total, positions = 0.0, torch.arange(tokens.shape[1])
        for first in range(0, len(tokens), a.micro_batch):
            rows = slice(first, first + a.micro_batch)
            recorder.samples(first, a.micro_batch)
            losses = model(tokens[rows], positions.expand_as(tokens[rows]),
                           positions[None, None, :, None] < positions, labels=targets[rows])
            loss = losses.float().sum() / targets.numel() if c.bf16 else losses.sum() / targets.numel()
            loss.backward()
            total += loss.detach()
            for p, master in recorder.master.items() if c.bf16 else ():
                master.grad = p.grad.float() + (0 if master.grad is None else master.grad)
                p.grad = None
        recorder.gradients()
        once = 1 if a.plant in ("norm-twice", "local-norm") else 1 / a.ranks       # what all ranks have
        square = sum(norm_of([p.grad]) ** 2 * (1 if p.dim() > 1 else once) for p in recorder.master.values())
        norm = (square if a.plant == "local-norm" else sum_over_ranks(square)) ** 0.5
        finish_step(a, recorder, optimizer, n, total, norm)
        with torch.no_grad():
            for p, master in recorder.master.items() if c.bf16 else ():
                p.copy_(master)


if __name__ == "__main__":
    main()

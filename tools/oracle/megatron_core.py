"""Megatron-Core's GPTModel on the CPU, over gloo, of a Llama, tensor parallel (pip install --no-deps megatron-core):

    torchrun --nproc-per-node 2 megatron_core.py REFERENCE RUN [--sequence on|off] [--dtype fp32] [--plant BUG]

Without a GPU two of its calls are replaced: torch.cuda.current_device, and the random state of attention's dropout,
which is 0. Its matrices hold others' side by side: `pieces` says which rows are whose, to load and to record."""
import contextlib
import warnings

import torch
import torch.distributed as dist

torch.cuda.current_device = lambda: "cpu"
warnings.simplefilter("ignore")
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Shard  # noqa: E402

from adapter import DTYPES, autocast, finish_step, norm_of, start, sum_over_ranks  # noqa: E402
from recorder import Recorder  # noqa: E402

BUGS = {
    "norms-apart": "gradients of norms, each of a rank's positions, are not summed over ranks (--sequence on)",
    "norm-twice": "squares are summed over ranks, also of what all ranks have",
    "local-norm": "each rank clips by the norm of what it has",
    "gate-up": "gate and up are put together first, and sharded then",
    "vocabulary": "a rank's rows of the embedding are shifted by one",
}
NAMES = {"embedding.word_embeddings": "model.embed_tokens", "decoder.final_layernorm": "model.norm",
         "output_layer": "lm_head", "decoder.layers": "model.layers", "self_attention.linear_proj": "self_attn.o_proj",
         "pre_mlp_layernorm": "post_attention_layernorm", "mlp.linear_fc2": "mlp.down_proj"}


def pieces(a, c, name, x):
    """Of a parameter, or what has its shape: others' names, the part of x, its first element, the shape of the whole."""
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    if "linear_fc1" in name:
        n = x.shape[0] // 2
        for i, part in enumerate(("gate_proj", "up_proj")):
            yield name.replace("linear_fc1", part), x[i * n:(i + 1) * n], [a.rank * n, 0], [n * a.ranks, x.shape[1]]
    elif "linear_qkv" in name:
        heads, groups, size = c.num_attention_heads, c.num_query_groups, c.hidden_size // c.num_attention_heads
        at = 0
        for group in range(a.rank * groups // a.ranks, (a.rank + 1) * groups // a.ranks):
            for part, n in (("q", heads // groups), ("k", 1), ("v", 1)):
                yield (name.replace("self_attention.linear_qkv", f"self_attn.{part}_proj"), x[at:at + n * size],
                       [group * n * size, 0], [n * groups * size, x.shape[1]])
                at += n * size
    else:
        axis = 1 if "o_proj" in name or "down_proj" in name else 0
        ranks = 1 if x.dim() == 1 else a.ranks
        first, of = [0] * x.dim(), list(x.shape)
        first[axis], of[axis] = (a.rank if ranks > 1 else 0) * x.shape[axis], x.shape[axis] * ranks
        yield name, x, first, of


class MegatronRecorder(Recorder):
    def _keep_if_any(self, name, x):
        name, suffix = name.rsplit(".", 1)
        for theirs, part, first, of in pieces(*self.more, name, x):
            self.keep(f"{theirs}.{suffix}", part, first, of)


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
        tensor_model_parallel_size=a.ranks, sequence_parallel=a.sequence == "on", use_cpu_initialization=True,
        params_dtype=DTYPES[a.dtype], bias_activation_fusion=False, masked_softmax_fusion=False)
    return c, GPTModel(c, get_gpt_layer_local_spec(normalization="RMSNorm"), theirs.vocab_size,
                       theirs.max_position_embeddings, position_embedding_type="rope",
                       share_embeddings_and_output_weights=False, rotary_base=10000)


def watch(a, recorder, model):
    """Activations are [positions, samples, channels], and with --sequence on a rank's positions."""
    mesh = init_device_mesh("cpu", (a.ranks,))
    recorder.place = lambda name, x: DTensor.from_local(x.transpose(0, 1), mesh, [Shard(1)], run_check=False) \
        if a.sequence == "on" else x.transpose(0, 1)
    recorder.watch("model.embed_tokens", model.embedding)
    recorder.watch("model.norm", model.decoder.final_layernorm)
    for i, layer in enumerate(model.decoder.layers):
        recorder.watch(f"model.layers.{i}", layer)


def total_norm(bug, parameters):
    shared = norm_of([p.grad for p in parameters if p.dim() == 1])
    local = norm_of([p.grad for p in parameters if p.dim() > 1 or bug == "norm-twice"])
    if bug == "local-norm":
        return (local ** 2 + shared ** 2) ** 0.5
    return (sum_over_ranks(local ** 2) + (0 if bug == "norm-twice" else shared ** 2)) ** 0.5


def main():
    a = start(__doc__, BUGS, sequence=["off", "on"])
    reference = a.reference
    theirs = reference.load(DTYPES[a.dtype])
    c, model = new_model(a, theirs.config)
    load(a, c, model, theirs.state_dict())
    recorder = MegatronRecorder(a.run, reference, model, dtype=a.dtype, rank=a.rank, by="megatron-core")
    recorder.more = a, c
    watch(a, recorder, model)
    parameters = list(model.parameters())
    optimizer = reference.optimizer(parameters)
    parts = reference.global_batch // a.micro_batch
    for n, (tokens, targets) in enumerate(reference.batches()):
        optimizer.zero_grad()
        total = 0.0
        positions = torch.arange(tokens.shape[1])
        mask = positions[None, None, :, None] < positions
        for i in range(parts):
            rows = slice(i * a.micro_batch, (i + 1) * a.micro_batch)
            recorder.samples(rows.start, a.micro_batch)
            with autocast(a):
                loss = model(tokens[rows], positions.expand_as(tokens[rows]), mask, labels=targets[rows]).mean() / parts
            loss.backward()
            total += loss.detach()
        for p in parameters if a.sequence == "on" and a.plant != "norms-apart" else []:
            if getattr(p, "sequence_parallel", False):
                dist.all_reduce(p.grad)
        recorder.gradients()
        finish_step(a, recorder, optimizer, n, total, total_norm(a.plant, parameters))


if __name__ == "__main__":
    main()

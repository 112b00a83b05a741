"""torchtitan's Llama 3 (pip install torchtitan) on the CPU, over gloo, by its own parallelize_llama:

    torchrun --nproc-per-node 2 torchtitan_llama.py REFERENCE RUN [--tp N] [--replicas N] [--sequence off] [--plant BUG]

FSDP2 has the ranks that --tp and --replicas leave. By torchtitan's default backend (spmd_types) activations are plain
local tensors. Its loss is a sum over the tokens of all ranks, and FSDP adds. Three lines below replace what needs a
GPU: the device ("cuda" where none is found), FlexAttention, which torchtitan compiles, and a reduction that gloo lacks.
Rows of q and k are in another order there (pairs lie side by side); `in_halves` puts back those of whole heads."""
import types

import torch
import torchtitan.tools.utils
from torch.distributed.tensor import DTensor, Partial, Shard
torchtitan.tools.utils.device_type, torchtitan.tools.utils.device_module = "cpu", torch.cpu
from torchtitan.components.loss import CrossEntropyLoss  # noqa: E402
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.distributed import ParallelDims, utils  # noqa: E402
from torchtitan.models import llama3  # noqa: E402
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402

from adapter import DTYPES, finish_step, norm_of, start, sum_over_ranks  # noqa: E402
from recorder import Recorder, piece_of  # noqa: E402

llama3.get_attention_config = lambda backend: ScaledDotProductAttention.Config()
BUGS = {
    "averaged": "FSDP averages what is a part of the mean already",
    "own-tokens": "the loss is divided by the tokens of one rank",
    "scaled-rope": "the angles of positions are scaled, as Llama 3.1's are",
    "epsilon": "norms have the epsilon of another model",
    "halves": "q and k are loaded as transformers has them, not in pairs",
    "gate-up": "w1 and w3 are exchanged",
    "documents": "positions begin again in the middle, as of two documents, and attention sees both",
    "local-norm": "each rank clips by the norm of its own shards",
    "norms-decay": "norms decay too",
    "vocabulary": "a rank's rows of the embedding are shifted by one",
    "same-samples": "all ranks train on the first rank's samples",
}
NAMES = {"tok_embeddings": "model.embed_tokens", "layers.*": "model.layers.*", "norm": "model.norm"}
NAMES.update({f"layers.*.{ours}": f"model.layers.*.{theirs}" for ours, theirs in {
    "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj", "feed_forward.w3": "mlp.up_proj",
    **{f"attention.qkv_linear.w{x}": f"self_attn.{x}_proj" for x in "qkv"}}.items()}, lm_head="lm_head")


def in_halves(x, axis, head):
    return x.unflatten(axis, (-1, head // 2, 2)).transpose(axis + 1, axis + 2).flatten(axis, axis + 2)


class TitanRecorder(Recorder):
    def _keep_if_any(self, name, x, transposed=False):
        local, first, of, part = piece_of(x)
        turned = "q_proj" in name or "k_proj" in name
        self.keep(name, in_halves(local, 0, self.head_size) if turned else local, first, of, part)

    def lie(self, sequence, mesh):
        """Where local outputs of modules lie: along positions between blocks, along channels within."""
        def place(name, x):
            if "q_proj" in name or "k_proj" in name:
                x = in_halves(x, 2, self.head_size)
            within = name.endswith(("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head"))
            last = name == "model.norm"     # given to lm_head whole; the gradient is then each rank's summand
            if mesh is None or last and x.grad_fn or not (within or sequence or last):
                return x
            return DTensor.from_local(x, mesh, [Partial() if last else Shard(2 if within else 1)], run_check=False)
        self.place = place


def new_model(a, parallelism):
    size = a.reference.head["model"]
    hidden, head, none = size["hidden"], size["hidden"] // size["heads"], {"weight": torch.nn.init.zeros_}
    rope = ComplexRoPE.Config(dim=head, max_seq_len=size["seq"] + 1,
                              scaling="llama" if a.plant == "scaled-rope" else "none")
    epsilon = 1e-6 if a.plant == "epsilon" else 1e-5
    layers = llama3._build_llama3_layers(n_layers=size["layers"], dim=hidden, n_heads=size["heads"], rope=rope,
                                         n_kv_heads=size["kv-heads"], hidden_dim=size["ffn"], fuse_qkv=False,
                                         attn_backend="sdpa")
    for layer in layers:
        layer.attention_norm.eps = layer.ffn_norm.eps = epsilon
    config = llama3.Llama3Model.Config(
        dim=hidden, vocab_size=size["vocab"], layers=layers,
        tok_embeddings=Embedding.Config(num_embeddings=size["vocab"], embedding_dim=hidden, param_init=none),
        norm=RMSNorm.Config(normalized_shape=hidden, eps=epsilon, param_init=none),
        lm_head=Linear.Config(in_features=hidden, out_features=size["vocab"], param_init=none))
    config.update_from_config(config=types.SimpleNamespace(parallelism=parallelism))
    model = config.build()
    weights = a.reference.load(torch.float32).state_dict()
    mapped = llama3.Llama3StateDictAdapter(config, None).from_hf(weights)
    if a.plant == "halves":
        mapped.update({k: in_halves(x, 0, head) for k, x in mapped.items() if k.endswith(("wq.weight", "wk.weight"))})
    if a.plant == "gate-up":
        mapped = {k.replace("w1", "w9").replace("w3", "w1").replace("w9", "w3"): x for k, x in mapped.items()}
    model.load_state_dict(mapped)
    return model


def parallelize(a, model, parallelism, dims):
    precision = TrainingConfig(mixed_precision_param="bfloat16" if a.dtype == "bf16" else "float32")
    llama3.parallelize_llama(model, parallel_dims=dims, training=precision, parallelism=parallelism,
                             compile_config=CompileConfig(), ac_config=None, dump_folder="")
    for module in model.modules():
        if hasattr(module, "set_force_sum_reduction_for_comms"):
            module.set_force_sum_reduction_for_comms(True)
            if a.plant == "averaged":
                module.set_gradient_divide_factor(a.ranks // a.tp)
    if a.plant == "vocabulary":
        with torch.no_grad():
            rows = model.tok_embeddings.weight.to_local()
            rows.copy_(rows.roll(1, 0))


def main():
    a = start(__doc__, BUGS, dtypes=("fp32", "bf16"), tp=[1, 2], replicas=[1, 2], sequence=["on", "off"])
    parallelism = ParallelismConfig(tensor_parallel_degree=a.tp, data_parallel_replicate_degree=a.replicas,
                                    enable_sequence_parallel=a.sequence == "on")
    dims = ParallelDims.from_config(parallelism, a.ranks)
    dims.build_mesh()
    utils.set_spmd_backend(parallelism.spmd_backend)
    model = new_model(a, parallelism)
    recorder = TitanRecorder(a.run, a.reference, model, names=NAMES, dtype=a.dtype, rank=a.rank, by="torchtitan, torch")
    size = a.reference.head["model"]
    recorder.head_size = size["hidden"] // size["heads"]
    recorder.lie(a.sequence == "on", dims.get_optional_mesh("tp"))
    parallelize(a, model, parallelism, dims)
    loss_of = CrossEntropyLoss(CrossEntropyLoss.Config(global_vocab_size=size["vocab"]), compile_config=None)
    optimizer = a.reference.optimizer(model.parameters(), foreach=False)
    if a.plant == "norms-decay":
        optimizer.param_groups[1]["weight_decay"] = a.reference.adamw["weight_decay"]
    own = a.reference.global_batch * a.tp // a.ranks
    start_at = a.rank // a.tp * own
    for n, (tokens, targets) in enumerate(a.reference.batches()):
        optimizer.zero_grad()
        total, valid = 0.0, targets.numel() if a.plant != "own-tokens" else targets[:own].numel()
        for first in range(start_at, start_at + own, a.micro_batch):
            recorder.samples(first, a.micro_batch)
            at = first - start_at if a.plant == "same-samples" else first
            x, y = (z[at:at + a.micro_batch] for z in (tokens, targets))
            again = x.shape[1] // 2 if a.plant == "documents" else x.shape[1]
            positions = torch.arange(x.shape[1]).expand_as(x) % again
            with utils.get_spmd_context(parallel_dims=dims)():
                loss = loss_of(model(x, positions=positions), y, torch.tensor(valid))[0]
                loss.backward()
            total += loss.detach()
        recorder.gradients()
        norm = norm_of([p.grad.to_local() if a.plant == "local-norm" else p.grad for p in model.parameters()])
        finish_step(a, recorder, optimizer, n, sum_over_ranks(total) / a.tp, norm)


if __name__ == "__main__":
    main()

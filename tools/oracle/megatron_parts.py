"""What megatron_moe.py and megatron_mla.py need besides Megatron-Core: stand-ins for what needs a GPU, where its
tensors lie in those of transformers, and the training loop.

Stand-ins: streams, which are none; numbers that are moved to the host; positions, whose choice pins memory; and
attention with context parallel, which is Transformer Engine's, and gathers keys and values here. Ranks of a sequence
have its zigzag parts, r and 2 cp - 1 - r of 2 cp."""
import contextlib
import re
import types

import safetensors.torch
import torch
STREAM = types.SimpleNamespace(wait_stream=lambda other: None, record_event=lambda: STREAM, synchronize=lambda: None)
torch.cuda.current_device, torch.cuda.stream = lambda: "cpu", lambda stream: contextlib.nullcontext()
torch.cuda.Stream = torch.cuda.current_stream = lambda *_, **__: STREAM
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.models.common.embeddings import rotary_pos_embedding, yarn_rotary_pos_embedding  # noqa: E402
from megatron.core.transformer.moe import token_dispatcher  # noqa: E402

from adapter import finish_step, sum_over_ranks  # noqa: E402
from megatron_core import pieces  # noqa: E402
from recorder import Recorder  # noqa: E402


def zigzag(rank, ranks, n):
    part = n // (2 * ranks)
    return torch.cat([torch.arange(i * part, (i + 1) * part) for i in (rank, 2 * ranks - 1 - rank)])


def positions(x, axis, group):
    return x.index_select(axis, zigzag(group.rank(), group.size(), x.shape[axis]))


def first_positions(x, axis, group):
    return x.narrow(axis, 0, x.shape[axis] // group.size())


def stand_in(bug):
    for module in (rotary_pos_embedding, yarn_rotary_pos_embedding):
        module.get_pos_emb_on_this_cp_rank = first_positions if bug == "positions" else positions
    token_dispatcher.maybe_move_tensor_to_cpu = lambda x, as_numpy=False, **_: \
        x.tolist() if as_numpy and x is not None else x
    tensor_parallel.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()
    Attention.bug = bug


class Attention(torch.nn.Module):
    bug = None

    def __init__(self, config, pg_collection, softmax_scale=None, **more):
        super().__init__()
        self.group, self.repeat = pg_collection.cp, config.num_attention_heads // config.num_query_groups
        self.softmax_scale = softmax_scale

    def forward(self, query, key, value, mask, **more):
        n, ranks, rank = len(query), self.group.size(), self.group.rank()
        whole = torch.cat([zigzag(r, ranks, n * ranks) for r in range(ranks)])
        if self.bug == "zigzag":
            whole = torch.arange(n * ranks)
        own, home = whole[rank * n:(rank + 1) * n], self.bug != "keys-kept"
        key, value = (tensor_parallel.gather_from_sequence_parallel_region(x.contiguous(), home, self.group).
                      repeat_interleave(self.repeat, 2) for x in (key, value))
        scores = torch.einsum("qbhd,kbhd->bhqk", query, key).float() * (self.softmax_scale or query.shape[-1] ** -0.5)
        weights = scores.masked_fill(own[:, None] < whole, -torch.inf).softmax(-1).to(value.dtype)
        return torch.einsum("bhqk,kbhd->qbhd", weights, value).flatten(2)


class DdpRecorder(Recorder):
    """Weights and moments are those of the optimizer, which has them in fp32 (master); gradients are DDP's."""

    def at(self, config, model):
        self.config, self.master, self.cp_rank = config, {}, parallel_state.get_context_parallel_rank()
        ep_rank = parallel_state.get_expert_model_parallel_rank()
        self.tp = types.SimpleNamespace(rank=parallel_state.get_tensor_model_parallel_rank(),
                                        ranks=config.tensor_model_parallel_size)
        self.first_expert = ep_rank * ((config.num_moe_experts or 0) // config.expert_model_parallel_size)
        self.place = lambda name, x: x.transpose(0, 1)  # they are (positions, samples, channels)
        for name, module in (("embed_tokens", model.embedding), ("norm", model.decoder.final_layernorm),
                             *((f"layers.{i}", layer) for i, layer in enumerate(model.decoder.layers))):
            self.watch("model." + name, module)

    def gradient_of(self, p):
        return p.main_grad

    def weight_of(self, p):
        return self.master[p]

    def moments_of(self, p, optimizer):
        return super().moments_of(self.master[p], optimizer)

    def named(self, name, x):
        """As pieces, of megatron_core.py."""
        name = re.sub(r"local_experts\.(\d+)", lambda m: f"experts.{self.first_expert + int(m[1])}", name)
        for theirs, part, first, of in pieces(self.tp, self.config, name, x):
            for old, new in (("mlp.router", "block_sparse_moe.gate"), ("mlp.experts.", "block_sparse_moe."),
                             ("gate_proj", "w1"), ("up_proj", "w3"), ("linear_fc2", "w2")):
                theirs = theirs.replace(old, new) if self.config.num_moe_experts else theirs
            yield theirs, part, first, of

    def load(self, model, change=lambda name, x: x):
        """The reference's weights into the model, after change(name, x), which gives what to take for x."""
        weights = safetensors.torch.load_file(f"{self.reference.folder}/model/model.safetensors")
        with torch.no_grad():
            for name, p in model.named_parameters():
                for theirs, part, first, _ in self.named(name, p):
                    x = change(theirs, weights)
                    part.copy_(x[tuple(slice(f, f + n) for f, n in zip(first, part.shape))])

    def _keep_if_any(self, name, x, transposed=False):
        name, suffix = name.rsplit(".", 1)
        for theirs, part, first, of in self.named(name, x):
            super().keep(f"{theirs}.{suffix}", part, first, of)

    def keep(self, name, x, first=None, of=None, part=None):
        """A rank has two parts of an activation's positions."""
        if not name.endswith(("act", "act_grad")):
            return super().keep(name, x, first, of, part)
        parts = 2 * self.config.context_parallel_size
        for i, piece in zip((self.cp_rank, parts - 1 - self.cp_rank), x.chunk(2, 1)):
            n = piece.shape[1]
            super().keep(name, piece, [first[0], i * n, *first[2:]], [of[0], parts * n, *of[2:]], part)


def train(a, c, recorder, model, average, norm_of):
    """All steps. average: of the model that DDP wraps: makes p.main_grad the mean over all ranks; norm_of: of the
    model."""
    recorder.master.update((p, p.detach().float().clone()) for p in model.parameters())
    ddp = DistributedDataParallel(c, DistributedDataParallelConfig(grad_reduce_in_fp32=True), model)
    optimizer, replica = a.reference.optimizer(recorder.master.values()), parallel_state.get_data_parallel_rank()
    own, parts = zigzag(recorder.cp_rank, a.cp, a.reference.head["model"]["seq"]), a.ranks // recorder.tp.ranks
    share = a.reference.global_batch * a.cp // parts
    for n, (tokens, targets) in enumerate(a.reference.batches()):
        ddp.zero_grad_buffer()
        total = 0.0
        for first in range(replica * share, (replica + 1) * share, a.micro_batch):
            rows = slice(first, first + a.micro_batch)
            recorder.samples(first, a.micro_batch, 1 / parts)
            losses = ddp(tokens[rows][:, own], own.expand(a.micro_batch, -1), None, labels=targets[rows][:, own])
            loss = losses.float().sum() / (share * len(own))
            loss.backward()
            total += loss.detach()
        average(ddp)
        recorder.gradients()
        for p, master in recorder.master.items():
            master.grad = p.main_grad
        finish_step(a, recorder, optimizer, n, sum_over_ranks(total) / a.ranks, norm_of(model))
        with torch.no_grad():
            for p, master in recorder.master.items():
                p.copy_(master)

"""The yardstick: the same GPT in PyTorch, with torch.compile, scaled_dot_product_attention, bf16 and fused AdamW, each
where this PyTorch and this device have it (1.13 on a CPU has autocast alone: there the scores are written out).

    python3 tools/bench/gpt_torch.py --layers 12 --hidden 768 --heads 12 --batch 64,32 --json out.json
    python3 tools/bench/gpt_torch.py --device cpu --eager --precision fp32 --threads 2 --seq 256 --batch 4

Same sizes and same work as `trivium train`: learned positions, biases everywhere, tanh GELU, tied head, no
dropout, gradients clipped to norm 1, decay on matrices only. Tokens are random. bf16 is autocast of fp32 weights, or
with --weights bf16 what Trivium does: bf16 weights and gradients, AdamW on fp32 masters. Of the batches given, those
that do not fit are left out (exit code 3 if none fits); the fastest of the others is the result. The GPU is waited for
at both ends of a series of steps, not at each step; the figure is the median of several series. gpt_torch_ranks.py
trains it on several ranks. With --kv-heads it is a Llama (llama_torch.py). Nothing here is part of Trivium.
"""

import argparse
import contextlib
import gc
import json
import math
import resource
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from llama_torch import LlamaBlock

OutOfMemory = getattr(torch, "OutOfMemoryError", MemoryError)


def most_resident():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


IMPORT_BYTES = most_resident()  # what the library takes before it has done anything


def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    T = q.shape[2]
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[3])
    later = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(later, float("-inf")).softmax(-1) @ v


def gelu(x):
    return F.gelu(x, approximate="tanh")


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        B, T, C = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, -1, 3, C // self.heads)  # of tensor parallel ranks each has some heads
        y = attention(*qkv.permute(3, 0, 2, 1, 4))
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, -1))
        return x + self.fc2(gelu(self.fc(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.token = nn.Embedding(o.vocab, o.hidden)
        self.head = nn.Linear(o.hidden, o.vocab, bias=False)
        if getattr(o, "kv_heads", 0):
            self.position, self.norm = None, nn.RMSNorm(o.hidden, eps=1e-5)
            self.blocks = nn.ModuleList(LlamaBlock(o) for _ in range(o.layers))
        else:
            self.position, self.norm = nn.Embedding(o.seq, o.hidden), nn.LayerNorm(o.hidden)
            self.blocks = nn.ModuleList(Block(o.hidden, o.heads) for _ in range(o.layers))
            self.head.weight = self.token.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.token(tokens)
        if self.position:
            x = x + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def has_fused(device):
    return device == "cuda" or tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 4)


class Update:
    """Clip, AdamW, zero the gradients. Parameters in bf16 have fp32 masters, which are what is updated."""

    def __init__(self, parameters, device):
        self.parameters = list(parameters)
        self.masters = self.parameters
        if self.parameters[0].dtype == torch.bfloat16:
            self.masters = [p.detach().float() for p in self.parameters]
        matrices = [p for p in self.masters if p.dim() > 1]
        others = [p for p in self.masters if p.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        fused = {"fused": True} if has_fused(device) else {}
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, **fused)

    @torch.no_grad()
    def step(self):
        copied = self.masters is not self.parameters
        if copied:
            for master, p in zip(self.masters, self.parameters):
                master.grad, p.grad = p.grad.float(), None
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if copied:
            torch._foreach_copy_(self.parameters, self.masters)


def make(o):
    torch.manual_seed(1)
    model = GPT(o).to(o.device)
    if o.weights == "bf16":
        model.to(torch.bfloat16)
    return model, Update(model.parameters(), o.device)


def finish(o):
    if o.device == "cuda":
        torch.cuda.synchronize()


def steps(o, model, update, data, n):
    """Queue n steps, wait once; seconds a step, and the last loss."""
    autocast = o.precision == "bf16" and o.weights == "fp32"
    finish(o)
    start = time.perf_counter()
    for i in range(n):
        tokens, targets = data[i % len(data)]
        with torch.autocast(o.device, dtype=torch.bfloat16) if autocast else contextlib.nullcontext():
            loss = model(tokens, targets)
        loss.backward()
        update.step()
    finish(o)
    return (time.perf_counter() - start) / n, loss.item()


def random_tokens(o, batch):
    return [torch.randint(o.vocab, (2, batch, o.seq), device=o.device).unbind() for _ in range(4)]


def measure(o, batch, series):
    """One batch size, from nothing: its median seconds a step. Raises OutOfMemory."""
    if not o.eager:
        torch._dynamo.reset()
    model, update = make(o)
    compiled = model if o.eager else torch.compile(model, dynamic=False)
    data = random_tokens(o, batch)
    start = time.perf_counter()
    _, first_loss = steps(o, compiled, update, data, 1)
    steps(o, compiled, update, data[1:], o.warm - 1)
    compile_s = time.perf_counter() - start
    samples = [steps(o, compiled, update, data, o.steps) for _ in range(series)]
    return {
        "batch": batch,
        "step_ms": 1e3 * statistics.median(s for s, _ in samples),
        "best_ms": 1e3 * min(s for s, _ in samples),
        "worst_ms": 1e3 * max(s for s, _ in samples),
        "first_loss": first_loss,
        "loss": samples[-1][1],
        "first_steps_s": compile_s,
        "peak_bytes": torch.cuda.max_memory_allocated() if o.device == "cuda" else most_resident(),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def release(o):
    gc.collect()
    if o.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def fastest(o):
    """The best of the batches, which of them fit, and which do not."""
    tried, refused = [], []
    batches = [int(b) for b in o.batch.split(",")]
    for batch in batches:
        try:
            tried.append(measure(o, batch, o.series))
        except OutOfMemory:
            refused.append(batch)
        release(o)
    if not tried:
        print(f"none of the batches {o.batch} fits")
        raise SystemExit(3)
    best = max(tried, key=lambda r: r["batch"] / r["step_ms"])
    return best, [r["batch"] for r in tried], refused


def arguments():
    p = argparse.ArgumentParser()
    for name, value in (
        ("layers", 12),
        ("hidden", 768),
        ("heads", 12),
        ("seq", 1024),
        ("vocab", 50304),
        ("kv-heads", 0),
        ("ffn", 0),
        ("steps", 8),
        ("series", 3),
        ("warm", 3),
    ):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--batch", default="32", help="one, or several with commas")
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    p.add_argument("--precision", default="bf16", choices=["bf16", "fp32"])
    p.add_argument(
        "--weights", default="fp32", choices=["bf16", "fp32"], help="bf16: with fp32 masters, instead of autocast"
    )
    p.add_argument("--threads", type=int, default=0, help="cpu: OpenMP threads; 0: its own choice")
    p.add_argument("--eager", action="store_true", help="without torch.compile")
    p.add_argument("--json")
    return p


def main():
    o = arguments().parse_args()
    if o.device == "cuda":
        torch.set_float32_matmul_precision("high")
    elif o.threads:
        torch.set_num_threads(o.threads)
    best, fitting, refused = fastest(o)
    name = torch.cuda.get_device_name() if o.device == "cuda" else "cpu"
    best.update(
        torch=torch.__version__,
        cuda=torch.version.cuda,
        device=name,
        compiled=not o.eager,
        import_bytes=IMPORT_BYTES,
        tokens_per_s=best["batch"] * o.seq / best["step_ms"] * 1e3,
        batches_that_fit=fitting,
        batches_that_do_not=refused,
    )
    text = json.dumps(best, indent=1)
    if o.json:
        with open(o.json, "w") as f:
            f.write(text + "\n")
    print(text)


if __name__ == "__main__":
    main()

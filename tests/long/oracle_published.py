"""Published silent bugs, in the frameworks that have them or planted again, as `trivium oracle` sees them:

    oracle_published.py TRIVIUM PAGE [CASE...]      in a folder of its own; prints "ok CASE", or "not ok CASE: ..."

Each case trains on one process, which is its reference (python -m trivium.oracle reference), and on ranks; and the same
without what triggers the bug, which must be right. Megatron-Core's and Megatron-Bridge's modules run unchanged, over
gloo: what is wrong there is theirs. PAGE has a table of what check must say. Needs megatron-core 0.19.2 and
megatron-bridge 0.6.2 (python3.12 tools/oracle/venv.py --frameworks)."""
import contextlib
import gc
import os
import re
import shutil
import subprocess
import sys
import types

import torch
import torch.distributed as dist
import transformers
from torch.distributed.tensor import DTensor
from trivium.oracle import record, reference

import oracle_published_cases as cases
from oracle_published_cases import POSITIONS, SAMPLES, VOCABULARY, ProcessGroupCollection, tensor_parallel
from oracle_rows import run_ranks

# name: function, ranks, on
CASES = {
    "label-smoothing": (cases.smoothing, 2, 1),
    "gathered-logits": (cases.gathered, 2, 1),
    "tokens-of-mtp": (cases.per_token, 2, 1),
    "padding-mask": (cases.padding, 4, 1),
    "attention-sinks": (cases.sinks, 2, 1),
    "tokens-of-router": (cases.router, 2, 1),
    "norms-of-heads": (cases.head_norms, 2, 1),
    "gathered-twice": (cases.wan, 2, 1),
    "lora-of-experts": (cases.lora, 2, 1),
    "gates": (cases.mixtral, 2, 1),
    "rows-elsewhere": (cases.mixtral, 2, 2),
    "mean-of-means": (cases.means, 2, 1),
}
WIDTHS = {"linear_qkv": 96, "linear_fc1": 64, "core_attention": 32, "dropout": 64, "output_layer": VOCABULARY,
          "output": VOCABULARY}


def placer(model, rank, ranks):
    """Where a shard of Megatron's lies; activations are (positions, samples, channels)."""
    parameters = dict(model.named_parameters())

    def place(name, x):
        label = name.rpartition(".")[0]
        p, shape, first = parameters.get(label), list(x.shape), [0] * x.dim()
        if p is None and "experts." in label:           # as many rows as tokens came
            return ()
        if ranks == 1:
            return None
        axis = getattr(p, "partition_dim", None) if getattr(p, "tensor_model_parallel", False) else None
        if label.endswith("softmax_offset"):
            axis = 0
        if p is None and len(x) * ranks in (POSITIONS, POSITIONS * SAMPLES):
            axis = 0
        if p is None and x.dim() == 4 and x.shape[2] == POSITIONS:    # scores: (samples, heads, positions, positions)
            axis = 1
        if p is None and x.dim() == 4 and re.search("[qk]_layernorm$", label):
            axis = 2
        if p is None and x.dim() == 3 and x.shape[-1] != WIDTHS.get(label.rpartition(".")[2], x.shape[-1]):
            axis = 2
        if axis is None:
            return None
        first[axis], shape[axis] = rank * shape[axis], ranks * shape[axis]
        return first, shape
    return place


def draw(model, place):
    """Weights that are the same in all layouts."""
    if isinstance(model, transformers.PreTrainedModel):
        return
    for i, (name, p) in enumerate(model.named_parameters()):
        first, whole = place(name + ".param", p) or ([0] * p.dim(), list(p.shape))
        x = torch.randn(whole, generator=torch.Generator().manual_seed(i)) / 4 + (p.dim() == 1)
        p.data.copy_(x[tuple(slice(f, f + n) for f, n in zip(first, p.shape))])


def train(case, on):
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if ranks > 1:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model, loss_of = CASES[case][0](rank, ranks, int(on))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    groups = getattr(model, "pg_collection", None) or ProcessGroupCollection.use_mpu_process_groups()
    place = placer(model, groups.tp.rank(), groups.tp.size())
    draw(model, place)
    with record("run", steps=2, place=place):
        for step in range(3):
            optimizer.zero_grad()
            losses = loss_of(*cases.tokens_of(step))
            for loss in [losses] if isinstance(losses, torch.Tensor) else losses:
                loss.backward()
            for p in model.parameters():
                if getattr(p, "sequence_parallel", False):
                    dist.all_reduce(p.grad, group=groups.tp)
                if groups.dp.size() > 1:
                    dist.all_reduce(p.grad, group=groups.dp)
                    p.grad /= groups.dp.size()
            square = torch.zeros((), dtype=torch.double)
            for p in model.parameters():
                if isinstance(p, DTensor) or tensor_parallel.param_is_not_tensor_parallel_duplicate(p):
                    square += ((p.grad.to_local() if isinstance(p, DTensor) else p.grad).double() ** 2).sum()
            dist.all_reduce(square, group=groups.tp)
            torch.nn.utils.clip_grad._clip_grads_with_norm_(list(model.parameters()), 1.0, square ** 0.5,
                                                               foreach=False)
            optimizer.step()


# ---- the reference, the run and the verdict ----
def forked(command, env):
    """In place of a new Python: one that has imported all of this already."""
    os.environ.update(env)
    ended = run_ranks(1, "log", train, *command)
    for name in ("TRIVIUM_ORACLE_OUT", "TRIVIUM_ORACLE_SHAKE"):
        del os.environ[name]
    return types.SimpleNamespace(returncode=0 if ended else 1)


def verdict(trivium, case, on):
    """What check says: "right", or the first wrong tensor and the suspect, "-" if there is none."""
    for old in ("ref", "run"):
        shutil.rmtree(old, ignore_errors=True)
    with contextlib.redirect_stdout(sys.stderr):
        reference.main(["ref", case, on])
    if not run_ranks(CASES[case][1], "log", train, case, on):
        return "a rank ended with an error", "-"
    said = subprocess.run([trivium, "oracle", "check", "run", "ref"], capture_output=True, text=True)
    print(said.stdout + said.stderr, file=sys.stderr)
    first = (said.stdout + said.stderr).split("\n")[0]
    suspect = re.search(r"^ +suspect: ([\w ]+):", said.stdout, re.M)
    return ("right" if first.startswith("all right: ") else first.removeprefix("first wrong: "),
            suspect[1] if suspect else "-")


def rows_of(page):
    """case: the first wrong tensor and the suspect, the last two columns of its row."""
    with open(page) as f:
        rows = [[cell.strip(" `\n") for cell in line.split("|")[1:-1]] for line in f if line.startswith("|")]
    return {row[1]: (row[-2], row[-1]) for row in rows if len(row) > 3 and row[1] in CASES}


def main():
    trivium, wanted, chosen = os.path.abspath(sys.argv[1]), rows_of(sys.argv[2]), sys.argv[3:] or list(CASES)
    reference.subprocess = types.SimpleNamespace(run=forked)
    gc.freeze()
    for case in chosen:
        for on in ("0", str(CASES[case][2])):
            said, right = verdict(trivium, case, on), wanted.get(case, "no row") if int(on) else ("right", "-")
            name = f"oracle_{case}" + ("" if int(on) else "_without_it")
            print(f"ok {name}" if said == right else f"not ok {name}: check says {said}, not {right}", flush=True)


if __name__ == "__main__":
    main()

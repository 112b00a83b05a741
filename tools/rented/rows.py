"""The rows of tools/gpu-rented there: what each runs, and, at the end, the table of them.

A row's function gets the machine (there.Here), runs its commands, puts its numbers into here.data, and returns the line
for the summary. land.py compares data with predictions by these keys:

    ms, tokens_per_s, mfu     of a step, the mean after the first five
    bytes                     {"measured", "predicted"}, the arenas' peak: any difference is a surprise
    ms_of                     the model whose predictions the row is compared with
"""

import glob
import json
import os
import re
import sys
from dataclasses import dataclass
from functools import partial
from typing import Callable

from . import common
from .common import BUILD, PACK, ROOT
from .there import Failed, NotRun


# ---- stages of tools/gpu-check ----
def stage(name, here):
    here.run(["tools/gpu-check", name], env={"GPU_CHECK_LIMIT": str(max(here.row.limit - 5, 1))})
    with open(here.path(f"{name}.result"), encoding="utf-8") as f:
        said = dict(line.split(" ", 1) for line in f.read().splitlines() if " " in line)
    data = here.path(f"{name}.data.json")
    if os.path.exists(data):
        here.data["stage"] = common.read_json(data)
    note = said.get("note", "")
    if said["result"] == "not run":
        raise NotRun(note)
    if said["result"] != "passed":
        raise Failed(note or said["result"])
    return note


# ---- the programs ----
def find_libraries(here):
    """CUDA's libraries may be Python's packages, in no folder that the loader looks into."""
    folders = [os.path.join(p, "nvidia") for p in sys.path if p.endswith("-packages")]
    folders += ["/usr/local/cuda/lib64", "/usr/local/nvidia/lib64"]
    found = []
    for name in ("libcudart.so*", "libcublasLt.so*", "libcudnn.so*", "libnccl.so*"):
        hits = [hit for f in folders for hit in sorted(glob.glob(os.path.join(f, "**", name), recursive=True))]
        found += [os.path.dirname(hit) for hit in hits[:1]]
    here.data["libraries"] = found
    here.env["LD_LIBRARY_PATH"] = ":".join([*found, here.env.get("LD_LIBRARY_PATH", "")]).strip(":")


def programs(here):
    """Those of the pack; or new ones, if they do not load here or are of other sources."""
    if here.device == "cuda":
        find_libraries(here)
    why = "" if here.pack["sources"] == common.hash_of_sources() else "the sources are others than the pack's"
    if not why and here.run(here.trivium("show", "types", "--device", "cuda", "--log", "warn")) != 0:
        why = f"the pack's do not run here: {here.last_line()}"
    if not why:
        return f"the pack's, commit {here.pack['commit']}"
    here.env.pop("GPU_CHECK_BUILD", None)
    note = stage("build", here)
    here.bin = here.env["BUILD"] = os.path.join(ROOT, BUILD if here.device == "cuda" else BUILD + "-simt")
    return f"built here, {note}; {why}"


# ---- right? ----
def tests(name, here):
    """Unit tests for the device whose file or name contains `name`, on one rank."""
    wanted = {"DEVICE": here.device, "TEST_RANKS": "1", "TEST_PARTS": "units"}
    limit = str(here.row.limit - 5)  # cuDNN compiles kernels for half a minute
    here.run(["tests/run", name], env={**wanted, "TEST_LIMIT": limit, "TEST_FILE_LIMIT": limit})
    said = here.said()
    counts = re.findall(r"^(\d+) passed, (\d+) failed", said, re.M)
    if not counts:
        raise Failed("came to no end")
    passed, failed = map(int, counts[-1])
    here.data["tests"] = {"passed": passed, "failed": failed}
    if failed or not passed:
        first = next((line for line in said.splitlines() if line.startswith("FAILED")), "")
        raise Failed(f"{passed} passed, {failed} failed: {first}")
    return f"{passed} passed"


# ---- how fast ----
TRAINS = "--device cuda --precision bf16 --lr 1e-4 --data configs/demo.txt --val-fraction 0".split()


def train(model, here, *more):
    sizes, batch = common.shape(model, here.device)
    options = [*sizes, *common.batch_options(batch), *more]
    steps, warm = (25, 5) if here.device == "cuda" else (3, 1)
    rows = [r for r in here.metrics("train", *options, *TRAINS, "--steps", str(steps)) if "step_ms" in r][warm:]
    ms = sum(r["step_ms"] for r in rows) / len(rows)
    mfu = [r["mfu"] for r in rows if r.get("mfu")]
    measured = rows[-1]["mem_peak_bytes"]
    predicted = predicted_bytes(here, options) if more else here.predictions[model]["bytes"]
    here.data.update(
        ms=ms,
        tokens_per_s=rows[-1]["tokens_per_s"] * rows[-1]["step_ms"] / ms,
        mfu=sum(mfu) / len(mfu) if mfu else None,
        loss=rows[-1]["loss"],
        bytes={"measured": measured, "predicted": predicted},
        ms_of=model,
    )
    if measured != predicted:
        raise Failed(f"{measured} bytes, predicted {predicted}")
    if here.device != "cuda":
        return f"loss {here.data['loss']:.4f}, bytes as predicted (tiny, emulated: no times)"
    rate, share = here.data["tokens_per_s"], 100 * (here.data["mfu"] or 0)
    return f"{ms:.1f} ms, {rate:.0f} tokens/s, mfu {share:.1f}%, loss {here.data['loss']:.3f}, bytes as predicted"


def train_with(*more):
    return lambda here: train("124m", here, *more)


def blocks(here):
    """Products with a scale for each block. The first GPUs that have them are of compute capability 10.0."""
    if here.device == "cuda":
        here.must(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
        capability = here.last_line().strip()
        if float(capability) < 10:
            raise NotRun(f"compute capability {capability}; scales of blocks begin with 10.0")
    notes, data = [tests("block", here)], {}
    for recipe in ("mxfp8", "mxfp8-e5m2", "nvfp4"):
        notes.append(f"{recipe}: " + train("124m", here, "--fp8", "on", "--fp8-recipe", recipe))
        data[recipe] = {k: here.data.pop(k) for k in ("ms", "tokens_per_s", "mfu", "loss", "bytes", "ms_of")}
    here.data["recipes"] = data
    return "; ".join(notes)


def timed(here):
    """Each product by the fastest of cuBLASLt's candidates; the file comes back, and is good for this kind of GPU."""
    table = here.path("gemm-algorithms.json")
    note = train("124m", here, "--gemm-algorithms", table)
    with open(table, encoding="utf-8") as f:
        here.data["algorithms"] = f.read().splitlines()
    return note


def predicted_bytes(here, options):
    """True if the results are of another program than the pack's predictions."""
    before = len(here.said())
    here.must(here.trivium("show", "memory", *options, "--device", "cuda", "--precision", "bf16", "--json"))
    said = here.said()[before:]
    return json.loads(said[said.index("\n{") + 1 :])["ranks"][0]["total"]


def profile(here):
    note = train("124m", here, "--profile", "on")
    said = here.said()
    here.data["table"] = said[said.index("ms per step") :].split("\n$ ")[0].splitlines()[:60]
    return note


def calibrate(here):
    """A cluster file of this GPU, by which plan predicts; last what it says of it."""
    to = here.path("this-gpu.ini")
    sizes = ["--model", "gpt2-124m", "--micro-batch", "32"] if here.device == "cuda" else ["--widest", "64"]
    here.must(here.trivium("calibrate", "--device", "cuda", "--precision", "bf16", *sizes, "--out", to))
    with open(to, encoding="utf-8") as f:
        here.data["cluster"] = f.read().splitlines()
    return next(line for line in here.said().splitlines() if line.startswith("of ")).partition(";")[0]


def curve(here):
    """A small model in bf16 against the CPU's losses in fp32: the same weights, the same data."""
    cpu = common.read_json(os.path.join(PACK, "curve.json"))
    options = ["--device", "cuda", "--precision", "bf16", *common.CURVE, "--steps", str(len(cpu))]
    gpu = [r["loss"] for r in here.metrics("train", *options) if "loss" in r]
    tail = max(len(cpu) // 10, 1)  # single losses scatter; the mean of the last tenth does not
    a, b = sum(cpu[-tail:]) / tail, sum(gpu[-tail:]) / tail
    here.data.update(cpu=cpu, gpu=gpu)
    if len(gpu) != len(cpu) or not abs(b - a) < 0.02 * a:
        raise Failed(f"the last tenth's mean loss is {b:.4f}, on the CPU {a:.4f}")
    return f"mean loss of the last tenth {b:.4f}, on the CPU {a:.4f}"


def torch(here):
    """PyTorch, compiled, at the same batch."""
    sizes, batch = common.shape("124m", here.device)
    sizes = [{"50257": "50304"}.get(word, word) for word in sizes]  # the padded vocabulary, which Trivium has by itself
    out = here.path("torch.json")
    tiny = [] if here.device == "cuda" else "--device cpu --eager --steps 2 --series 1".split()
    env = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}  # it brings its own libraries
    if here.run([sys.executable, "-c", "import torch"], env=env) != 0:
        raise NotRun("no PyTorch")
    script = [sys.executable, "-B", "tools/bench/gpt_torch.py", *sizes, "--batch", str(batch), "--json", out]
    here.must([*script, *tiny], env=env)
    here.data["stage"] = common.read_json(out)
    if here.device != "cuda":
        return "ran (tiny, emulated: no times)"
    return f"{here.data['stage']['tokens_per_s']:.0f} tokens/s"


# ---- strategies on the device ----
KEPT = "strategy status error step_ms predicted_step_ms loss predicted_total_bytes measured_total_bytes".split()


def compare(ranks, strategies, here):
    """trivium compare: losses alike, and the bytes of each strategy as predicted. M: a small micro-batch."""
    sizes, batch = common.shape("124m", here.device)
    out = here.path(here.row.name)
    steps, small = ("8", "8") if here.device == "cuda" else ("2", "1")
    options = [*sizes, "--global-batch", str(batch), *TRAINS, "--steps", steps, "--cluster", "dgx-h100"]
    command = ["compare", *options, "--out", out, "--strategies", strategies.replace("=M", "=" + small)]
    if ranks > 1:  # through the host: they share a GPU
        command = ["launch", "--comm-transport", "direct", "-n", str(ranks), *command, "--comm", "mpi"]
    here.must(here.trivium(*command))
    rows = common.read_json(os.path.join(out, "compare.json"))["strategies"]
    here.data["strategies"] = [{k: r[k] for k in KEPT} for r in rows]
    ran = [r for r in rows if r["status"] == "ran"]
    wrong = [f"{r['strategy']}: {r['error'] or r['status']}" for r in rows if r["status"] != "ran"]
    for r in ran:
        if r["predicted_total_bytes"] != r["measured_total_bytes"]:
            wrong.append(f"{r['strategy']}: {r['measured_total_bytes']} bytes, predicted {r['predicted_total_bytes']}")
        if not abs(r["loss"] - ran[0]["loss"]) < 0.01 * ran[0]["loss"]:
            wrong.append(f"{r['strategy']}: loss {r['loss']:.4f}, of the first {ran[0]['loss']:.4f}")
    if wrong:
        raise Failed("; ".join(wrong))
    times = ", ".join(f"{r['strategy'] or 'default'} {r['step_ms']:.1f}" for r in rows)
    return f"{len(rows)} strategies, losses alike, bytes as predicted" + (
        f"; ms: {times}" if here.device == "cuda" else ""
    )


# ---- a second call ----
def ncu(here):
    """A step's kernels as Nsight Compute sees them. The clocks stay as they are."""
    if here.device != "cuda" or here.run(["bash", "-c", "command -v ncu"]) != 0:
        raise NotRun("no ncu" if here.device == "cuda" else "no GPU (rehearsal)")
    sizes, batch = common.shape("124m", here.device)
    csv = here.path("ncu.csv")
    asked = ["--clock-control", "none", "--metrics", "gpu__time_duration.sum,dram__bytes.sum", "--csv"]
    some = ["--launch-skip", "900", "--launch-count", "450", "--log-file", csv]
    train_it = here.trivium("train", *sizes, *common.batch_options(batch), *TRAINS, "--steps", "4", "--metrics", "")
    here.must(["ncu", *asked, *some, *train_it])
    with open(csv, encoding="utf-8") as f:
        return f"{sum(1 for _ in f) - 1} lines"


# ---- the table ----
@dataclass
class Row:
    name: str
    call: int  # the first, second or third time that a machine is rented
    limit: int  # seconds
    what: str
    do: Callable


# What the first minutes on a GPU should show comes first.
ONE = "recompute=none | recompute=full | recompute=selective | zero=1 offload=optimizer | fp8=on | micro-batch=M"
TWO = "dp=2 micro-batch=M | dp=2 zero=3 micro-batch=M | tp=2 micro-batch=M | pp=2 micro-batch=M"
FOUR = "dp=4 micro-batch=M | dp=2 tp=2 sp micro-batch=M | dp=2 pp=2 zero=1 micro-batch=M"
EIGHT = "dp=2 tp=2 pp=2 micro-batch=M | dp=4 tp=2 zero=2 micro-batch=M"
SMOKE = "five steps' losses, by each attention and unfused, against the CPU's"
BESIDE = "against PyTorch, each at its best batch"
ROWS = [
    Row("machine", 1, 20, "what is here: GPU, driver, toolkit, libraries", partial(stage, "machine")),
    Row("programs", 1, 140, "the pack's, or new ones if they do not load or are of other sources", programs),
    Row("cudnn", 1, 60, "cuDNN's attention, both ways, against our kernels", partial(tests, "test_attention_cudnn")),
    Row("smoke", 1, 45, SMOKE, partial(stage, "smoke")),
    Row("nccl-1", 1, 40, "NCCL with one rank: every operation, type, abort", partial(tests, "test_comm_nccl")),
    Row("124m", 1, 60, "GPT-2 124M as it is by default", train_with()),
    Row("124m-own", 1, 60, "with our own attention", train_with("--attention-core", "own")),
    Row("124m-unfused", 1, 60, "without fused kernels", train_with("--fuse", "off")),
    Row("124m-fp8", 1, 60, "with products in fp8", train_with("--fp8", "on")),
    Row("124m-blocks", 1, 120, "with scales of blocks: mxfp8, nvfp4 (from sm_100 on)", blocks),
    Row("124m-timed", 1, 60, "with the products' algorithms timed first", timed),
    Row("compare", 1, 120, "recomputation, offload, fp8, microbatches", partial(compare, 1, ONE)),
    Row("ranks-2", 1, 90, "trivium compare of 2 ranks on the GPU", partial(compare, 2, TWO)),
    Row("ranks-4", 1, 90, "of 4 ranks", partial(compare, 4, FOUR)),
    Row("ranks-8", 1, 120, "of 8 ranks", partial(compare, 8, EIGHT)),
    Row("units-1", 1, 170, "every test for the device, 1 rank", partial(stage, "units-1")),
    Row("step", 1, 40, "the host never waits inside a step", partial(stage, "step")),
    Row("profile", 1, 60, "where a step's time goes, by step of a layer", profile),
    Row("calibrate", 1, 120, "a cluster file of this GPU, for the planner", calibrate),
    Row("kernels", 1, 80, "ops as a share of the copy bandwidth", partial(stage, "bench-kernels")),
    Row("torch-124m", 1, 120, "PyTorch, compiled, at the same batch", torch),
    Row("350m", 1, 60, "GPT-2 350M", partial(train, "350m")),
    Row("774m", 1, 60, "774M", partial(train, "774m")),
    Row("1558m", 1, 80, "1558M", partial(train, "1558m")),
    Row("curve", 1, 90, "300 steps in bf16 against the CPU's in fp32", curve),
    Row("ncu", 2, 150, "a step's kernels, their time and bytes", ncu),
    Row("memcheck", 2, 200, "compute-sanitizer on the kernels' tests: addresses", partial(stage, "memcheck")),
    Row("racecheck", 2, 200, "the same: races in shared memory", partial(stage, "racecheck")),
    Row("units-2", 2, 200, "every test for the device, 2 ranks on the GPU", partial(stage, "units-2")),
    Row("units-4", 2, 200, "4 ranks", partial(stage, "units-4")),
    Row("units-8", 2, 240, "8 ranks", partial(stage, "units-8")),
    Row("bench-124m", 3, 280, f"124M {BESIDE}", partial(stage, "bench-124m")),
    Row("bench-1558m", 3, 400, "1558M", partial(stage, "bench-1558m")),
    Row("bench-350m", 3, 280, "350M", partial(stage, "bench-350m")),
    Row("bench-774m", 3, 280, "774M", partial(stage, "bench-774m")),
]

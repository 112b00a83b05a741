"""How near do correct runs come to the limit? False alarms of `trivium oracle check`, over layouts, precisions and
seeds.

    python3 tools/oracle/false_alarms.py [N [FIRST]]              N runs (default 50); BUILD: where the program is
    PYTHON tools/oracle/false_alarms.py N FIRST ADAPTER...        N of each adapter, by a Python with what they import

FIRST: the number of the first run (default 1). KEEP: a folder where references stay.
A number stands for one run, so that it can be repeated. Layouts of this project are drawn by it. Of an adapter no two
numbers have the same layout, precision and seed. Prints each run's worst tensor as a share of its limit, and a
histogram; of adapters a table. Then a tensor of each run is spoiled by noise, a tenth of each element: no signature may
fit. Exit code 1 if any run is called wrong, or any noise has a suspect."""
import array
import collections
import glob
import importlib
import itertools
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.append(os.path.join(HERE, "tests", "long"))
TRIVIUM = os.path.abspath(os.path.join(os.environ.get("BUILD", "build"), "trivium"))
MODELS = {"gpt": [], "llama": ["--arch", "llama", "--kv-heads", "2", "--ffn", "64", "--tie", "off"],
          "mixtral": ["--arch", "mixtral", "--experts", "4", "--experts-per-token", "2", "--kv-heads", "2", "--ffn",
                      "32", "--tie", "off",
                      "--capacity", "0", "--aux-loss", "0", "--z-loss", "0"]}
OF_ADAPTERS = {**MODELS, "latents": (
    "--arch llama --kv-heads 4 --ffn 64 --tie off --head-dim 12 --kv-lora-rank 12 --q-lora-rank 16 --rope-head-dim 4 "
    "--v-head-dim 6 --rope-interleave on --rope-scaling yarn:4:16:1:32:1 --mscale-all-dim 0.7").split(),
    "heads": "--arch llama --kv-heads 4 --ffn 64 --tie off".split()}        # a head of keys for each of four ranks
SMALL = ["--layers", "4", "--hidden", "32", "--heads", "4", "--seq", "16", "--steps", "3", "--log", "warn"]
LAYOUTS = ["--dp 2", "--tp 2", "--tp 2 --sp", "--pp 2", "--cp 2", "--cp 2 --cp-by ulysses", "--cp 2 --cp-by gather",
           "--dp 4 --zero 1",
           "--dp 2 --zero 2", "--dp 4 --zero 3", "--dp 2 --tp 2 --zero 1", "--dp 2 --pp 2", "--tp 2 --pp 2 --sp",
           "--cp 2 --tp 2", "--pp 4",
           "--pp 2 --schedule zb-h1", "--pp 2 --schedule gpipe --dp 2", "--pp 2 --schedule interleaved --chunks 2",
           "--dp 2 --recompute full",
           "--tp 4", "--dp 2 --cp 2 --zero 3", "--recompute selective", "--tp 2 --recompute full --sp"]

# models, ranks, adapter, arguments
ADAPTERS = [words.split() for words in (
    "gpt,llama 2 torch_fsdp", "gpt,llama 4 torch_fsdp --replicas 2", "llama 2 torch_tp", "llama 2 hf_tp",
    "heads 4 hf_tp", "heads 2 megatron_core", "heads 4 megatron_core",
    "llama 4 torch_tp --sequence on --dp 2", "gpt,llama 2 torch_cp", "gpt,llama 4 torch_cp --balance none",
    "gpt,llama 2 torch_cp --balance none --rotate alltoall", "gpt,llama 4 torch_cp --dp 2 --rotate alltoall",
    "mixtral 2 hf_ep", "mixtral 4 hf_ep", "mixtral 4 hf_ep --tp 2", "mixtral 2 hf_ep --tp 2 --how all_reduce",
    "gpt,llama 2 deepspeed_zero --stage 1", "gpt,llama 2 deepspeed_zero --stage 2",
    "gpt,llama 4 deepspeed_zero --stage 3", "llama 2 torchtitan_llama", "llama 2 torchtitan_llama --tp 2",
    "llama 4 torchtitan_llama --replicas 2", "mixtral 2 megatron_moe --ep 2", "mixtral 4 megatron_moe --ep 2",
    "mixtral 2 megatron_moe --cp 2", "mixtral 4 megatron_moe --ep 2 --cp 2", "latents 2 megatron_mla --tp 2",
    "latents 2 megatron_mla --cp 2", "latents 4 megatron_mla --tp 2", "latents 4 megatron_mla --tp 2 --cp 2")]
SHARED = ["torch.distributed.fsdp", *(f"transformers.models.{x}.modeling_{x}" for x in ("gpt2", "llama", "mixtral"))]
MEGATRON = ["megatron.core.recompute", "megatron.core.models.gpt.gpt_model"]
IMPORTS = {"deepspeed_zero": ["deepspeed"], "hf_ep": ["transformers.distributed.expert_parallel"],
           "torchtitan_llama": ["spmd_types"], "megatron_core": MEGATRON, "megatron_moe": MEGATRON,
           "megatron_mla": MEGATRON}


def run(*words):
    return subprocess.run(words, capture_output=True, text=True)


def reference_of(work, name, seed, words):
    folder = f"{work}/{name}-{seed}"
    if not os.path.isdir(folder):
        made = f"{folder}.{os.getpid()}"
        done = run(TRIVIUM, "oracle", "record", "--out", made, *SMALL, *words, "--seed", str(seed))
        assert done.returncode == 0, done.stderr
        os.rename(made, folder)
    return folder


def spoil(folder, draw):
    """Noise in a tensor of the last step, the same on all ranks. Returns its name."""
    files = sorted(glob.glob(f"{folder}/step-3/rank-*.safetensors"))
    name = None
    for path in files:
        with open(path, "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            header, body = json.loads(f.read(n)), bytearray(f.read())
        tensors = [x for x in header if x != "__metadata__"]
        name = name or draw.choice(sorted({x.split("#")[0] for x in tensors if header[x]["shape"] != [1]}))
        noise = random.Random(name)
        for key in (x for x in tensors if x.split("#")[0] == name):
            begin, end = header[key]["data_offsets"]
            x = array.array("d" if header[key]["dtype"] == "F64" else "f", bytes(body[begin:end]))
            body[begin:end] = array.array(x.typecode, [v * (1 + noise.gauss(0, 0.1)) for v in x]).tobytes()
        text = json.dumps(header).encode()
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + body)
    return name


def checked(what, folder, reference, draw):
    """What was run, its worst share of a limit and that tensor, check's exit code, and suspects of noise."""
    done = run(TRIVIUM, "oracle", "check", folder, reference, "--out", f"{folder}/page")
    with open(f"{folder}/page/check.json") as f:
        rows = json.load(f)
    share = [(r["error"] / r["scale"] / rows["factor"], r["name"], r["step"]) for r in rows["rows"]
             if r["error"] is not None and r["scale"]]
    spoiled = spoil(folder, draw)
    said = run(TRIVIUM, "oracle", "check", folder, reference).stdout
    suspects = [(spoiled, x) for x in re.findall("^  suspect: (.*)", said, re.M)]
    subprocess.run(["rm", "-rf", folder], check=True)
    return what, max(share), done.returncode, suspects


def of_adapter(work, number, adapter):
    """Run `number` of this adapter: layouts take turns, then precisions, then seeds."""
    from oracle_rows import run_adapter, run_ranks
    draw, layouts = random.Random(number), [row for row in ADAPTERS if row[2] == adapter]
    turn, layout = divmod(number - 1, len(layouts))
    models, ranks, _, *words = layouts[layout]
    model, seed, micro = draw.choice(models.split(",")), turn // 2 + 1, str(draw.choice([4, 8]) // int(ranks))
    precision, folder, log = ["fp32", "bf16"][turn % 2], f"{work}/run-{adapter}-{number}", f"{work}/log-{adapter}"
    reference = reference_of(work, f"short-{model}", seed, [*OF_ADAPTERS[model], "--layers", "2"])
    what = f"{model} seed {seed} {adapter} {ranks} {' '.join(words)}"
    shutil.rmtree(folder, ignore_errors=True)           # of a run that was stopped
    words = [adapter, reference, folder, "--dtype", precision, "--micro-batch", micro, *words]
    if not run_ranks(int(ranks), log, run_adapter, os.path.join(HERE, "tools", "oracle"), *words):
        sys.exit(f"{what} ends with an error; {log} says: {open(log).read()[-2000:]}")
    return checked(f"{what} {precision} micro {micro}", folder, reference, draw)


def worst_of(work, number):
    """Run `number`: its layout, the worst share of a limit, that tensor, check's exit code, and the suspects of noise;
    None: the layout is refused."""
    draw = random.Random(number)
    model, seed, layout = draw.choice(list(MODELS)), draw.randrange(1, 6), draw.choice(LAYOUTS)
    precision, micro = draw.choice(["fp64", "fp32", "bf16"]), draw.choice([1, 2])
    ranks = 1
    words = layout.split()
    for axis in ("--dp", "--tp", "--pp", "--cp"):
        ranks *= int(words[words.index(axis) + 1]) if axis in words else 1
    folder = f"{work}/run-{number}"
    done = run(TRIVIUM, "launch", "-n", str(ranks), "oracle", "record", "--out", folder, *SMALL, *MODELS[model],
               "--seed", str(seed),
               "--precision", precision, "--micro-batch", str(micro), *words)
    if done.returncode == 2:
        return None
    assert done.returncode == 0, done.stderr
    what = f"{model} seed {seed} {precision} micro {micro} {layout}"
    return checked(what, folder, reference_of(work, model, seed, MODELS[model]), draw)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    adapters = sys.argv[3:]
    for module in [x for a in adapters for x in [*IMPORTS.get(a, []), *SHARED]]:
        importlib.import_module(module)                 # once; ranks are forked from here
    histogram, wrong, seen, noise, table = collections.Counter(), 0, 0, [], {}
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    work = os.environ.get("KEEP") or tempfile.mkdtemp()     # a TemporaryDirectory goes when the first forked rank ends
    numbers = ((None, i) for i in itertools.count(first))
    if adapters:
        numbers = ((adapter, i) for i in range(first, first + n) for adapter in adapters)
    try:
        for adapter, number in numbers:
            result = of_adapter(work, number, adapter) if adapter else worst_of(work, number)
            if result is None:
                continue
            what, (share, name, step), code, suspects = result
            seen += 1
            noise += [f"{number}: noise in {spoiled}: {text}" for spoiled, text in suspects]
            wrong += code != 0
            histogram[min(int(share * 10), 10)] += 1
            table.setdefault(adapter, []).append((code != 0, share))
            print(f"{number}: {what}: {100 * share:.0f}% of the limit, {name}, step {step}{'  WRONG' if code else ''}",
                  flush=True)
            if not adapter and seen == n:
                break
    finally:
        if "KEEP" not in os.environ:
            shutil.rmtree(work)
    for adapter, runs in table.items() if adapters else ():
        print(f"| `{adapter}.py` | {len(runs)} | {sum(w for w, _ in runs)} | {100 * max(x for _, x in runs):.0f}% |")
    for tenth in range(11):
        print(f"{10 * tenth:3d}% {'and more' if tenth == 10 else f'to {10 * tenth + 10}%'}: {histogram[tenth]}")
    print(*noise, sep="\n", end="\n" if noise else "")
    print(f"{seen} correct runs, {wrong} of them called wrong; {len(noise)} suspects of noise")
    return wrong > 0 or len(noise) > 0


if __name__ == "__main__":
    sys.exit(main())

"""What cpu.py times: Trivium, PyTorch, llm.c. A case has a name; measure() runs it in a process of its own."""

import json
import os
import re
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WARM = 2  # steps left out: they compile kernels and touch memory first

SHAPES = {
    "small-b8-t256": dict(layers=6, hidden=384, heads=6, vocab=256, batch=8, seq=256, steps=7),
    "gpt2-124m-b4-t256": dict(layers=12, hidden=768, heads=12, vocab=50257, batch=4, seq=256, steps=4),
    "gpt2-124m-b2-t512": dict(layers=12, hidden=768, heads=12, vocab=50257, batch=2, seq=512, steps=4),
    "gpt2-124m-b16-t256": dict(layers=12, hidden=768, heads=12, vocab=50257, batch=16, seq=256, steps=4),
    "small-b1-t2048": dict(layers=6, hidden=384, heads=6, vocab=256, batch=1, seq=2048, steps=5),
    "llama-b8-t256": dict(
        layers=6, hidden=384, heads=6, vocab=256, batch=8, seq=256, steps=7, kv_heads=2, ffn=1024, arch="llama"
    ),
}
SIZES = ("layers", "hidden", "heads", "vocab", "seq", "kv_heads", "ffn")

# Unless an option makes malloc keep large blocks, PyTorch returns them to the system in each step and asks for them
# again.
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}
# What holds PyTorch's own kernels, oneDNN, MKL and compiled code to what a build for x86-64-v3 may use.
ONLY_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3",
}
# As Intel recommends it: a thread a core, and no long spinning.
INTELS_OPENMP = {"KMP_BLOCKTIME": "1", "KMP_AFFINITY": "granularity=fine,compact,1,0"}
# The ways to use PyTorch, of which the fastest counts. bf16 weights have fp32 masters, as Trivium's have; iomp: with
# Intel's OpenMP instead of GNU's, which is preloaded.
WAYS = {
    "fp32": {"eager": ["--eager"], "eager iomp": ["--eager"], "compiled": []},
    "bf16": {
        "eager autocast": ["--eager"],
        "eager": ["--eager", "--weights", "bf16"],
        "eager iomp": ["--eager", "--weights", "bf16"],
        "compiled autocast": [],
        "compiled": ["--weights", "bf16"],
    },
}


def clean_environment(**more):
    """The libraries' own choices: what a user's shell says of kernels, threads and memory is left out."""
    dropped = re.compile("(OPENBLAS|OMP|GOMP|MKL|KMP|MALLOC|ATEN|ONEDNN|DNNL|TORCHINDUCTOR)_|LD_PRELOAD$")
    e = {k: v for k, v in os.environ.items() if not dropped.match(k)}
    return dict(e, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)


def run(command, env, cwd=ROOT):
    """Output, and the largest resident set of any process of it (MiB)."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=cwd)
        _, code, usage = os.wait4(child.pid, 0)
        out.seek(0)
        text = out.read()
    if code != 0:
        raise RuntimeError(f"{' '.join(command)}\n{text[-2000:]}")
    return text, usage.ru_maxrss / 1024


def intels_openmp(python):
    """Where PyPI's package intel-openmp has put the library, if it is there."""
    path = os.path.join(os.path.dirname(os.path.dirname(python)), "lib", "libiomp5.so")
    return path if os.path.exists(path) else None


def arguments_of(shape):
    return [word for key in SIZES if key in shape for word in ("--" + key.replace("_", "-"), str(shape[key]))]


def n_threads(n):
    return f"{n} thread{'s' * (n > 1)}"


def shares(text):
    """What --profile printed: operation, without the lines of its steps -> percent of rank 0's step."""
    table = text.partition("ms per step ")[2]
    return {m.group(1): float(m.group(2)) for m in re.finditer(r"^(\S.*?)  .* ([0-9.]+)%", table, re.M)}


class Trivium:
    def __init__(self, build, shape, precision, threads, ranks=1, layout=""):
        self.program, self.shape, self.precision, self.threads = (
            os.path.join(ROOT, build, "trivium"),
            shape,
            precision,
            threads,
        )
        self.ranks, self.layout = ranks, [w for w in layout.split() if w]
        where = n_threads(threads) if ranks == 1 else f"{ranks} ranks"
        self.name = f"trivium {precision}, {where}" + (" " + layout.replace("--", "") if layout else "")

    def command(self, metrics):
        s = self.shape
        words = (
            [self.program]
            + (["launch", "-n", str(self.ranks)] if self.ranks > 1 else [])
            + ["train", "--device", "cpu"]
        )
        words += [
            "--precision",
            self.precision,
            "--threads",
            str(self.threads),
            "--steps",
            str(s["steps"]),
        ] + arguments_of(s)
        words += [
            "--global-batch",
            str(s["batch"]),
            "--val-fraction",
            "0",
            "--lr",
            "1e-4",
            "--log",
            "info",
            "--profile",
        ]
        if "arch" in s:
            words += ["--arch", s["arch"], "--tie", "off"]
        return words + ["--metrics", metrics] + self.layout

    def measure(self):
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as metrics:
            text, rss = run(self.command(metrics.name), clean_environment())
            rows = [json.loads(line) for line in metrics.read().decode().splitlines()]
        rows = [r for r in rows if "step_ms" in r]
        last, found = rows[-1], re.search(r"resident ([0-9.]+) MiB", text)
        peak = last["flops_per_token"] * last["tokens_per_s"] / last["mfu"] if last.get("mfu") else None
        return dict(
            step_ms=statistics.median(r["step_ms"] for r in rows[WARM:]),
            first_loss=rows[0]["loss"],
            by_op=shares(text),
            rss_mib=float(found.group(1)) if found else rss,
            planned_mib=last["mem_peak_bytes"] / 2**20,
            flops=last["flops_per_token"] * self.shape["batch"] * self.shape["seq"],
            peak_flops=peak,
        )


class Torch:
    """way: a name in WAYS, or of gpt_torch_ranks.py."""

    def __init__(self, python, shape, precision, threads, way, isa, ranks=1):
        self.python, self.shape, self.precision, self.threads, self.way, self.ranks = (
            python,
            shape,
            precision,
            threads,
            way,
            ranks,
        )
        self.settings = dict(KEEP_MEMORY, OMP_NUM_THREADS=str(threads), **(ONLY_AVX2 if isa == "x86-64-v3" else {}))
        if way.endswith("iomp"):
            self.settings.update(INTELS_OPENMP, LD_PRELOAD=intels_openmp(python))
        cache = "native" if isa == "native" else "v3"
        self.settings["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(ROOT, "build-bench-venv", "inductor-" + cache)
        self.name = f"torch {precision} {way}, " + (n_threads(threads) if ranks == 1 else f"{ranks} ranks")

    def command(self):
        if self.ranks > 1:
            words = [self.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.ranks)]
            words += [os.path.join(HERE, "gpt_torch_ranks.py"), "--by", self.way]
        else:
            words = [self.python, "-B", os.path.join(HERE, "gpt_torch.py")] + WAYS[self.precision][self.way]
        words += ["--device", "cpu", "--precision", self.precision, "--threads", str(self.threads)] + arguments_of(
            self.shape
        )
        steps = str(max(1, self.shape["steps"] - WARM))
        return words + ["--batch", str(self.shape["batch"]), "--steps", "1", "--series", steps, "--warm", str(WARM)]

    def measure(self):
        text, rss = run(self.command(), clean_environment(GLOO_SOCKET_IFNAME="lo", **self.settings))
        row = json.loads(text[text.index("{\n") : text.rindex("}") + 1])
        return dict(
            step_ms=row["step_ms"],
            first_loss=row["first_loss"],
            rss_mib=rss,
            import_mib=row["import_bytes"] / 2**20,
            version=row["torch"],
        )


class LlmC:
    """DIR/train_gpt2, built by hand, with its model file and tokens. Batch and length are in its source, the rest is in
    the model file. Its weights are whatever that file has, so that its loss is not compared."""

    def __init__(self, folder, shape, threads):
        self.folder, self.shape, self.threads, self.precision, self.ranks = folder, shape, threads, "fp32", 1
        self.name = f"llm.c fp32, {n_threads(threads)}"

    @staticmethod
    def fits(folder, shape):
        """Its source's batch and length; which model it loads is seen in what it prints."""
        with open(os.path.join(folder, "train_gpt2.c")) as f:
            text = f.read()
        sizes = [re.search(rf"\bint {name} = (\d+);", text) for name in "BT"]
        return all(sizes) and [int(m.group(1)) for m in sizes] == [shape["batch"], shape["seq"]]

    @staticmethod
    def uses_avx512(folder):
        code = subprocess.run(
            ["objdump", "-d", os.path.join(folder, "train_gpt2")], capture_output=True, text=True, check=True
        )
        return re.search(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|%k[1-7]", code.stdout) is not None

    def some_steps(self, n):
        """It has no option for the number of steps: stopped after n of them."""
        env = clean_environment(OMP_NUM_THREADS=str(self.threads))
        child = subprocess.Popen(
            ["stdbuf", "-oL", "./train_gpt2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=env,
            cwd=self.folder,
        )
        text = ""
        for line in child.stdout:
            text += line
            if len(re.findall(r"took [0-9.]+ ms", text)) == n:
                child.kill()
                break
        _, _, usage = os.wait4(child.pid, 0)
        return text, usage.ru_maxrss / 1024

    def measure(self):
        text, rss = self.some_steps(3)
        took = [float(ms) for ms in re.findall(r"took ([0-9.]+) ms", text)]
        if len(took) < 3:
            raise RuntimeError(f"{self.folder}/train_gpt2 ended early:\n{text[-500:]}")
        sizes = dict(re.findall(r"^(\w+): (\d+)$", text, re.M))
        for key, ours in (("num_layers", "layers"), ("channels", "hidden"), ("vocab_size", "vocab")):
            if key in sizes and int(sizes[key]) != self.shape[ours]:
                raise RuntimeError(
                    f"{self.folder}: its model has {key}={sizes[key]}, and {self.shape[ours]} is compared"
                )
        return dict(step_ms=statistics.median(took[1:]), rss_mib=rss)

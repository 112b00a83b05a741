"""make bench: how fast Trivium trains on this machine's CPU, beside PyTorch and llm.c where they are there.

    python3 tools/bench/cpu.py [--quick] [--rounds N] [--only TEXT] [--llmc DIR] [--out FILE]

Every subject is a process of its own. All subjects of one shape take turns, round after round, so that whatever the machine does
meanwhile happens to all of them; a figure is the median of the rounds, with smallest and largest beside it, and ratios are
medians of the rounds' ratios. The first steps of a run are left out (they compile kernels and touch memory first).

    trivium   build/trivium train, milliseconds a step from its metrics, peak resident memory from the kernel
    torch     tools/bench/gpt_torch.py, when `import torch` works: SDPA and compile if this PyTorch has them; `tuned`: large
              thresholds of malloc, so that it does not return memory to the system and ask for it again
    llm.c     DIR/train_gpt2, built by you with the batch and length that are compared (its source sets them); its "took ... ms"

Ranks of Trivium are compared with one rank of as many threads as they have together. Nothing is built here.
"""
import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TRIVIUM = os.path.join(ROOT, os.environ.get("BUILD", "build"), "trivium")
WARM = 2  # steps left out

SHAPES = {
    "gpt2-124m-b4-t64": dict(layers=12, hidden=768, heads=12, vocab=50257, batch=4, seq=64, steps=6),
    "gpt2-124m-b4-t256": dict(layers=12, hidden=768, heads=12, vocab=50257, batch=4, seq=256, steps=5),
    "gpt2-124m-b2-t512": dict(layers=12, hidden=768, heads=12, vocab=50257, batch=2, seq=512, steps=5),
    "gpt2-124m-b16-t256-pipeline": dict(layers=12, hidden=768, heads=12, vocab=50257, batch=16, seq=256, steps=4),
    "small-b8-t256": dict(layers=6, hidden=384, heads=6, vocab=256, batch=8, seq=256, steps=8),
}


def clean_environment():
    """The libraries' own choices: what a user's shell says of BLAS kernels and threads is left out."""
    dropped = re.compile("OPENBLAS|OMP_|GOMP_|MKL_|KMP_|MALLOC_")
    e = {k: v for k, v in os.environ.items() if not dropped.match(k)}
    return dict(e, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


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


def shares(text):
    """What --profile printed: operation -> percent of rank 0's step."""
    table = text.partition("ms a step ")[2]
    return {m.group(1): float(m.group(2)) for m in re.finditer(r"^(\S.*?)  .* ([0-9.]+)%$", table, re.M)}


class Trivium:
    def __init__(self, shape, precision, threads, ranks=1, layout=()):
        self.shape, self.precision, self.threads, self.ranks, self.layout = shape, precision, threads, ranks, list(layout)
        self.name = f"trivium {precision}, " + (
            f"{threads} thread{'s' * (threads > 1)}" if ranks == 1 else f"{ranks} ranks") + "".join(" " + w.replace("--", "") for w in layout)

    def measure(self):
        s = self.shape
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as metrics:
            command = [TRIVIUM] + (["launch", "-n", str(self.ranks)] if self.ranks > 1 else []) + [
                "train", "--device", "cpu", "--precision", self.precision, "--threads", str(self.threads)]
            for key in ("layers", "hidden", "heads", "vocab", "seq", "steps"):
                command += ["--" + key, str(s[key])]
            command += ["--global-batch", str(s["batch"]), "--val-fraction", "0", "--lr", "1e-4", "--log", "info", "--profile", "--metrics", metrics.name]
            if "--micro-batch" not in self.layout and self.ranks == 1:
                command += ["--micro-batch", str(s["batch"])]
            text, rss = run(command + self.layout, clean_environment())
            rows = [json.loads(line) for line in metrics.read().decode().splitlines()]
        steps = [r for r in rows if "step_ms" in r][WARM:]
        last, ms = steps[-1], statistics.median(r["step_ms"] for r in steps)
        found = re.search(r"resident ([0-9.]+) MiB", text)
        return dict(step_ms=ms, by_op=shares(text), rss_mib=float(found.group(1)) if found else rss, planned_mib=last["mem_peak_bytes"] / 2**20,
                    flops=last["flops_per_token"] * s["batch"] * s["seq"],
                    peak_flops=last["flops_per_token"] * last["tokens_per_s"] / last["mfu"] if last.get("mfu") else None)


class Torch:
    def __init__(self, python, shape, precision, threads, tuned):
        self.python, self.shape, self.precision, self.threads, self.tuned = python, shape, precision, threads, tuned
        self.ranks = 1
        self.name = f"torch {precision}{' tuned' if tuned else ''}, {threads} thread{'s' * (threads > 1)}"

    def measure(self):
        s = self.shape
        command = [self.python, "-B", os.path.join(HERE, "gpt_torch.py"), "--device", "cpu", "--precision", self.precision, "--threads",
                   str(self.threads), "--batch", str(s["batch"]), "--steps", str(max(2, s["steps"] - WARM)), "--series", "1", "--eager"]
        for key in ("layers", "hidden", "heads", "vocab", "seq"):
            command += ["--" + key, str(s[key])]
        env = clean_environment()
        if self.tuned:
            env.update(MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="8589934592", MALLOC_TOP_PAD_="268435456")
        text, rss = run(command, env)
        row = json.loads(text[text.index("{"):])
        return dict(step_ms=row["step_ms"], rss_mib=rss, version=row["torch"])


class LlmC:
    def __init__(self, folder, shape, threads):
        self.folder, self.shape, self.threads, self.precision, self.ranks = folder, shape, threads, "fp32", 1
        self.name = f"llm.c fp32, {threads} thread{'s' * (threads > 1)}"

    def some_steps(self, n):
        """It has no option for the number of steps: stopped after n of them."""
        env = dict(clean_environment(), OMP_NUM_THREADS=str(self.threads))
        child = subprocess.Popen(["stdbuf", "-oL", "./train_gpt2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=self.folder)
        text = ""
        for line in child.stdout:
            text += line
            if len(re.findall("took ", text)) == n:
                child.kill()
                break
        _, _, usage = os.wait4(child.pid, 0)
        return text, usage.ru_maxrss / 1024

    def measure(self):
        text, rss = self.some_steps(3)
        took = [float(ms) for ms in re.findall(r"took ([0-9.]+) ms", text)]
        sizes = dict(re.findall(r"^\s*(\w+): (\d+)$", text, re.M))
        for key, ours in (("batch_size", "batch"), ("seq_len", "seq")):
            if key in sizes and int(sizes[key]) != self.shape[ours]:
                raise RuntimeError(f"{self.folder}/train_gpt2 has {key}={sizes[key]}, and {self.shape[ours]} is compared; change its source")
        return dict(step_ms=statistics.median(took[1:]), rss_mib=rss)


def torch_python():
    for python in filter(None, (os.environ.get("TORCH_PYTHON"), sys.executable, "/usr/bin/python3")):
        if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


def subjects(name, shape, options, python):
    if name == "gpt2-124m-b16-t256-pipeline":
        yield Trivium(shape, "fp32", 2, layout=["--micro-batch", "4"])
        yield Trivium(shape, "fp32", 1, 2, ["--pp", "2", "--pp-split", options.pp_split, "--micro-batch", "1"])
        return
    precisions = ("fp32",) if options.fp32 else ("fp32", "bf16")
    for precision in precisions:
        for threads in (2,) if options.quick else (1, 2):
            yield Trivium(shape, precision, threads)
            if python:
                yield Torch(python, shape, precision, threads, tuned=True)
                if threads == 2 and not options.quick:
                    yield Torch(python, shape, precision, threads, tuned=False)
    if options.llmc and shape["vocab"] == 50257 and name == options.llmc_shape:
        yield LlmC(options.llmc, shape, 2)
    if name == "gpt2-124m-b4-t256":
        yield Trivium(shape, "fp32", 1, 2, ["--dp", "2", "--zero", "1"])
        yield Trivium(shape, "fp32", 1, 2, ["--tp", "2"])
    if name == "small-b8-t256":
        yield Trivium(shape, "fp32", 1, 8, ["--dp", "2", "--tp", "2", "--pp", "2"])


def machine():
    text = open("/proc/cpuinfo").read()
    model = re.search(r"model name\s*: (.*)", text)
    flags = re.search(r"flags\s*: (.*)", text)
    wanted = [f for f in (flags.group(1).split() if flags else []) if f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16")]
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout.splitlines()
    return dict(cpu=model.group(1) if model else platform.processor(), cores=os.cpu_count(), flags=wanted, system=f"{platform.system()} {platform.machine()}",
                compiler=compiler[0] if compiler else "")


def over_floor(result):
    """A step's time over what its products and attention would take at the measured peak of the precision they are made in."""
    return result["step_ms"] / 1e3 * result["peak_flops"] / result["flops"] if result.get("peak_flops") else None


def summarise(rounds):
    """rounds: subject's name -> list of results, one a round."""
    rows = {}
    for name, results in rounds.items():
        ms, over = [r["step_ms"] for r in results], [over_floor(r) for r in results]
        rows[name] = dict(results[-1], step_ms=statistics.median(ms), low_ms=min(ms), high_ms=max(ms), runs_ms=ms,
                          rss_mib=statistics.median(r["rss_mib"] for r in results), over_floor=statistics.median(over) if all(over) else None)
    return rows


def cores(subject):
    return min(subject.threads * subject.ranks, os.cpu_count())


def compare(chosen, rounds):
    """Trivium on one rank beside all others at its precision on as many cores: medians over rounds. A job of several ranks says the
    memory of one only, which is not compared."""
    def median(s, o, quotient):
        return statistics.median(quotient(ours, theirs) for ours, theirs in zip(rounds[s.name], rounds[o.name]))

    pairs = [(s, o) for s in chosen for o in chosen
             if isinstance(s, Trivium) and s.ranks == 1 and s is not o and s.precision == o.precision and cores(s) == cores(o)]
    return [dict(subject=s.name, other=o.name, times=median(s, o, lambda ours, theirs: theirs["step_ms"] / ours["step_ms"]),
                 memory=median(s, o, lambda ours, theirs: ours["rss_mib"] / theirs["rss_mib"]) if o.ranks == 1 else None)
            for s, o in pairs]


def print_table(name, rows):
    print(f"\n### {name}\n\n| | ms a step | lowest to highest | GFLOP/s | time over the floor | resident MiB |\n|---|---:|---:|---:|---:|---:|")
    flops = next((r["flops"] for r in rows.values() if "flops" in r), None)
    for subject, r in rows.items():
        print(f"| {subject} | {r['step_ms']:.1f} | {r['low_ms']:.1f} to {r['high_ms']:.1f} | {flops / r['step_ms'] / 1e6:.0f} | "
              f"{'%.2f' % r['over_floor'] if r['over_floor'] else ''} | {r['rss_mib']:.0f} |")


def print_ratios(ratios):
    if ratios:
        print("\n| | beside | times as fast | memory, of the other's |\n|---|---|---:|---:|")
    for r in ratios:
        print(f"| {r['subject']} | {r['other']} | {r['times']:.2f} | {'%.2f' % r['memory'] if r['memory'] else ''} |")


def print_shares(rows):
    """Time by operation, of the subjects that say it."""
    known = {name: r["by_op"] for name, r in rows.items() if r.get("by_op")}
    ops = sorted({op for by_op in known.values() for op in by_op}, key=lambda op: -max(b.get(op, 0) for b in known.values()))
    print("\n| percent of a step | " + " | ".join(known) + " |\n|---|" + "---:|" * len(known))
    for op in ops:
        if max(b.get(op, 0) for b in known.values()) >= 0.5:
            print(f"| {op} | " + " | ".join(f"{b[op]:.1f}" if op in b else "" for b in known.values()) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rounds", type=int, help="default: 3, or 1 if --quick")
    p.add_argument("--quick", action="store_true", help="two threads only, and PyTorch only as it is fastest")
    p.add_argument("--fp32", action="store_true", help="no bf16")
    p.add_argument("--only", default="", help="shapes with this in their name")
    p.add_argument("--subjects", default="", help="only subjects with this in their name")
    p.add_argument("--pp-split", default="9,3", help="layers of the two stages; the head costs as much as five layers")
    p.add_argument("--llmc", help="a built llm.c tree with its train_gpt2, checkpoint and tokens")
    p.add_argument("--llmc-shape", default="gpt2-124m-b4-t256", help="the shape its source was built for")
    p.add_argument("--out", help="JSON")
    o = p.parse_args()
    python, result = torch_python(), dict(machine=machine(), date=datetime.date.today().isoformat(), shapes={}, ratios={})
    if not python:
        print("no PyTorch: `import torch` fails (TORCH_PYTHON=path names another python)")
    print(f"{result['machine']['cpu']}, {result['machine']['cores']} cores, {' '.join(result['machine']['flags'])}; {result['date']}")
    for name, shape in SHAPES.items():
        if o.only not in name:
            continue
        chosen = [s for s in subjects(name, shape, o, python) if o.subjects in s.name]
        rounds = {s.name: [] for s in chosen}
        for _ in range(o.rounds or (1 if o.quick else 3)):
            for s in chosen:
                rounds[s.name].append(s.measure())
                print(f"  {name}: {s.name}: {rounds[s.name][-1]['step_ms']:.1f} ms", file=sys.stderr, flush=True)
        if chosen:
            result["shapes"][name], result["ratios"][name] = summarise(rounds), compare(chosen, rounds)
            print_table(name, result["shapes"][name])
            print_ratios(result["ratios"][name])
            print_shares(result["shapes"][name])
    if o.out:
        with open(o.out, "w") as f:
            json.dump(result, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()

"""make bench: how fast Trivium trains on this machine's CPU, against PyTorch and llm.c.

    python3 tools/bench/cpu.py [--quick] [--rounds N] [--only REGEX] [--v3 BUILD] [--llmc DIR]... [--out FILE]

A table is a shape, an instruction set (native: what this machine has; x86-64-v3: AVX2, a build by
`make ARCH=x86-64-v3 BUILD_NAME=build-v3`), a precision and a number of threads; or a comparison of jobs of several
ranks. Every case (cpu_cases.py) is a process of its own. The cases of a table take turns, round after round,
so that whatever the machine does meanwhile happens to all; a figure is the median of the rounds, with smallest and
largest, and a ratio is the quotient of two medians of one table. The first steps of a process are left out.

    trivium   BUILD/trivium train: milliseconds a step from its metrics, peak resident memory from the kernel
    torch     gpt_torch.py, by the newest PyTorch of PyPI (torch_venv.py): eager and compiled, in bf16 each by autocast
              and with bf16 weights and fp32 masters, eager with GNU's and Intel's OpenMP. The fastest
              counts; a way that is 15% slower in the first round is not run again. For AVX2 it has no bf16 worth the
              name: there its fp32 counts.
    llm.c     DIR/train_gpt2, built by you; its source says for which batch and length. One that uses AVX-512 is
              compared with the native build, one that does not with x86-64-v3.

Checked: all first losses are about the same; the products of the layers nowhere exceed 1.02 of the measured peak.
Exit code 1 if not. --out keeps what the file has of other tables, so that they can be measured in parts.
"""

import argparse
import datetime
import itertools
import json
import os
import platform
import re
import sys

import records
from cpu_cases import ROOT, SHAPES, WAYS, LlmC, Torch, Trivium, intels_openmp
from cpu_tables import (
    PRODUCT_LIMIT,
    beside_others,
    different_losses,
    median,
    print_pairs,
    print_ratios,
    print_shares,
    print_table,
    product_rate,
    summarise,
    worth_another_round,
)
from torch_venv import said_by, torch_python

NATIVE = os.environ.get("BUILD", "build")

# Jobs of ranks: shape; cases, of Trivium as (threads, ranks, layout) and of PyTorch as its way; pairs to compare.
ONE = (2, 1, "")
RANKS = {
    "torchrun-small": (
        "small-b8-t256",
        [(1, 2, "--dp 2"), "ddp", (1, 2, "--dp 2 --zero 3"), "fsdp", (1, 2, "--tp 2"), "tp"],
        [(0, 1), (2, 3), (4, 5)],
    ),
    "ranks-124m": ("gpt2-124m-b4-t256", [ONE, (1, 2, "--dp 2 --zero 1"), (1, 2, "--tp 2")], [(1, 0), (2, 0)]),
    # the head costs as much as five layers
    "ranks-124m-pipeline": (
        "gpt2-124m-b16-t256",
        [(2, 1, "--micro-batch 4"), (1, 2, "--pp 2 --pp-split 9,3 --micro-batch 1")],
        [(1, 0)],
    ),
    "ranks-cp-2048": (
        "small-b1-t2048",
        [ONE, (1, 2, "--cp 2"), (1, 2, "--cp 2 --cp-by gather"), (1, 2, "--cp 2 --cp-by ulysses")],
        [(1, 0), (2, 0), (3, 0)],
    ),
    # two of eight experts, each half as wide as the MLP: the flops of a dense layer
    "experts-small": (
        "small-b8-t256",
        [
            ONE,
            (2, 1, "--ffn 768 --experts 8 --capacity 0 --moe-packed on"),
            (2, 1, "--ffn 768 --experts 8 --capacity 1.25"),
        ],
        [(1, 0), (2, 0)],
    ),
    "ranks-small-8": ("small-b8-t256", [ONE, (1, 8, "--dp 2 --tp 2 --pp 2")], [(1, 0)]),
}


class Table:
    def __init__(self, name, shape, cases, pairs=()):
        self.name, self.shape, self.cases = name, shape, {s.name: s for s in cases}
        names = list(self.cases)
        self.pairs = [(names[a], names[b]) for a, b in pairs if max(a, b) < len(names)]

    def measure(self, n_rounds):
        runs, names = {}, list(self.cases)
        for i in range(n_rounds):
            for n in names:
                runs.setdefault(n, []).append(self.cases[n].measure())
                print(f"  {self.name}: {n}: {runs[n][-1]['step_ms']:.1f} ms", file=sys.stderr, flush=True)
            if i == 0 and not self.pairs:
                names = worth_another_round(names, runs)
        return {n: summarise(r) for n, r in runs.items()}


def torch_ways(python, isa, shape, precision, threads):
    """(precision, way) of each. Without AVX-512 PyTorch makes bf16 products by plain loops, far slower than fp32's:
    bf16 is compared with its fp32, and one way of bf16 where the model is small, to show it."""
    if precision == "bf16" and (isa == "x86-64-v3" or not has_avx512()):
        ways = [("fp32", way) for way in WAYS["fp32"]]
        ways += [("bf16", "eager autocast")] if shape.startswith("small") else []
    else:
        ways = [(precision, way) for way in WAYS[precision]]
    has_iomp = threads > 1 and intels_openmp(python)
    return [(of, way) for of, way in ways if has_iomp or not way.endswith("iomp")]


def beside_table(o, python, isa, shape, precision, threads):
    s = SHAPES[shape]
    cases = [Trivium(NATIVE if isa == "native" else o.v3, s, precision, threads)]
    if python:
        cases += [
            Torch(python, s, of, threads, way, isa) for of, way in torch_ways(python, isa, shape, precision, threads)
        ]
    if precision == "fp32":
        cases += [
            LlmC(d, s, threads) for d in o.llmc if LlmC.fits(d, s) and LlmC.uses_avx512(d) == (isa == "native")
        ]
    return Table(f"{shape}-{isa}-{precision}-{threads}t", s, cases)


def ranks_table(python, name):
    shape, wanted, pairs = RANKS[name]
    s = SHAPES[shape]
    cases = [
        (
            Trivium(NATIVE, s, "fp32", *w)
            if isinstance(w, tuple)
            else python and Torch(python, s, "fp32", 1, w, "native", 2)
        )
        for w in wanted
    ]
    if not all(cases):
        cases, pairs = [x for x in cases if x], []
    return Table(name, s, cases, pairs)


def tables(o, python):
    isas = ["native"] + (["x86-64-v3"] if has_avx512() and os.path.exists(os.path.join(ROOT, o.v3, "trivium")) else [])
    sizes = ["small-b8-t256", "llama-b8-t256", "gpt2-124m-b4-t256", "gpt2-124m-b2-t512"]
    if o.quick:
        isas, sizes = isas[:1], sizes[:1]
    cases = itertools.product(isas, sizes, ("fp32", "bf16"), (2,) if o.quick else (2, 1))
    chosen = [beside_table(o, python, *case) for case in cases] + [ranks_table(python, n) for n in RANKS if not o.quick]
    return [t for t in chosen if re.search(o.only, t.name)]


def flags():
    found = re.search(r"flags\s*: (.*)", open("/proc/cpuinfo").read())
    return found.group(1).split() if found else []


def has_avx512():
    return "avx512f" in flags()


def machine():
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    compiler = said_by("gcc", "--version").splitlines()
    return dict(
        cpu=model.group(1) if model else platform.processor(),
        cores=os.cpu_count(),
        flags=[f for f in flags() if f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16")],
        system=f"{platform.system()} {platform.machine()}",
        compiler=compiler[0] if compiler else "",
    )


def broken_claims(table, rows):
    """A sentence for each; and what was found of the products is printed."""
    broken = [
        f"{table.name}: the first loss of {n} is {loss:.4f}: not the same work"
        for n, loss in different_losses(rows).items()
    ]
    rates = {
        n: median(rows[n]["runs"], lambda r: product_rate(r, table.shape))
        for n, s in table.cases.items()
        if s.ranks == 1
    }
    for n, rate in rates.items():
        if rate:
            print(f"\n{n}: products of the layers at {rate:.2f} of the measured peak, at most {PRODUCT_LIMIT} wanted")
            broken += [f"{table.name}: {n}: products at {rate:.2f} of the peak: it was measured wrongly"] * (
                rate > PRODUCT_LIMIT
            )
    return broken


def load(path):
    """What --out has from earlier parts, if that was this machine."""
    new = dict(machine=machine(), date=datetime.date.today().isoformat(), tables={}, ratios={})
    if not path or not os.path.exists(path):
        return new
    with open(path) as f:
        old = json.load(f)
    return dict(new, tables=old["tables"], ratios=old["ratios"]) if old["machine"] == new["machine"] else new


def save(result, path):
    if path:
        with open(path + ".new", "w") as f:
            records.dump(result, f)
            f.write("\n")
        os.replace(path + ".new", path)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rounds", type=int, help="default: 5, or 1 if --quick")
    p.add_argument("--quick", action="store_true", help="the small GPT on two threads")
    p.add_argument("--only", default="", help="tables with this in their name (a regular expression)")
    p.add_argument("--list", action="store_true", help="only say which tables and cases there are")
    p.add_argument("--v3", default="build-v3", help="the build for x86-64-v3")
    p.add_argument("--no-torch", action="store_true")
    p.add_argument("--update", action="store_true", help="look for a newer PyTorch than the one that is installed")
    p.add_argument(
        "--llmc", action="append", default=[], help="a built llm.c tree with train_gpt2, its source, model and tokens"
    )
    p.add_argument("--out", help="JSON, with all runs")
    return p.parse_args()


def main():
    o = arguments()
    python = None if o.no_torch else torch_python(o.update)
    result, broken = load(o.out), []
    here = result["machine"]
    print(f"{here['cpu']}, {here['cores']} cores, {' '.join(here['flags'])}; {result['date']}")
    if python:
        result["torch"] = said_by(python, "-c", "import torch; print(torch.__version__)").strip()
        print(f"PyTorch {result['torch']}")
    for table in tables(o, python):
        if o.list:
            print(f"{table.name}: " + "; ".join(table.cases))
            continue
        rows = table.measure(o.rounds or (1 if o.quick else 5))
        result["tables"][table.name] = rows
        if table.name not in RANKS:
            result["ratios"][table.name] = beside_others(rows)
        print_table(table.name, rows)
        print_pairs(rows, table.pairs)
        print_shares(rows)
        broken += broken_claims(table, rows)
        save(result, o.out)
    print_ratios(result["ratios"])
    for sentence in broken:
        print(f"claim broken: {sentence}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

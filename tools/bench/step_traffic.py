"""What a training step on a GPU launches and moves, counted on the emulated device (docs/simt.md), and what 124M's
would.

    make SIMT=check build-simt/trivium-check && python3 tools/bench/step_traffic.py [--seq T] [-- OPTION...]

Two models of GPT-2's width, of one layer and of two, train one step; the difference is a layer. Kernels' bytes are
those that warps ask for, products' are each operand once. Both are a multiple of the rows R = B T, but for weights: a
product's part is taken from its sizes. So a layer at 64 x 1024 rows follows from one at a few hundred. Attention is
left out: a GPU has cuDNN's. Options after -- go to train: --dropout 0.1, --fuse off, --grad-fp32 on.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter

C, BATCH, FULL = 768, 2, 64 * 1024  # channels; samples of a counted step; rows of the step that is asked for
COPY = 2.7e12  # bytes a second of an H100's copies, 80% of 3.35 TB/s: what the milliseconds below are for


def count(layers, seq, options):
    """{name: (launches, bytes)} of one step."""
    command = [
        "build-simt/trivium-check", "train", "--model", "gpt2-124m", "--layers", str(layers), "--seq", str(seq),
        "--vocab", "512",
        "--data", "configs/demo.txt", "--val-fraction", "0", "--global-batch", str(BATCH), "--micro-batch", str(BATCH),
        "--steps", "1",
        "--device", "cuda", "--precision", "bf16", "--metrics", "", *options,
    ]  # fmt: skip
    with tempfile.TemporaryFile("w+") as errors:
        env = dict(os.environ, SIMT_COUNT="1", OMP_NUM_THREADS="1")
        subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL, stderr=errors)
        errors.seek(0)
        text = errors.read()
    launches, moved, name = Counter(), Counter(), None
    for line in text.splitlines():
        if begin := re.match(r"simt: (\S+) (\d+ x \d+ x \d+)?.*?(epilogue \d+)?$", line):
            name = " ".join(filter(None, (begin[1].rstrip(","), *begin.groups()[1:])))
            launches[name] += 1
        elif bytes_ := re.match(r"simt:   (?:load|store).* (\d+) bytes$", line):
            moved[name] += int(bytes_[1])
    return {name: (n, moved[name]) for name, n in launches.items()}


def at_full_size(name, moved, rows):
    """Bytes at FULL rows. Of a product the operand that has no rows stays as it is."""
    if not name.startswith("cublasLt"):
        return moved * FULL / rows
    m, n, k = (int(x) for x in re.findall(r"\d+", name)[:3])
    weight = [2 * x * y for x, y, other in ((m, n, k), (m, k, n), (n, k, m)) if other == rows][0]
    return (moved - weight) * FULL / rows + weight


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seq", type=int, default=160)
    parser.add_argument("options", nargs="*")
    asked = parser.parse_args()
    rows = BATCH * asked.seq
    if rows in (C, 3 * C, 4 * C):
        sys.exit(f"step_traffic: {rows} rows are a width of the model too; another --seq")
    one, two = (count(layers, asked.seq, asked.options) for layers in (1, 2))
    totals = Counter()
    print(f"{'of a layer':<52} {'launches':>8} {'bytes / (2 R C)':>15} {'ms of 12 layers at B 64, T 1024':>33}")
    for name in two:
        launches, moved = (x - y for x, y in zip(two[name], one.get(name, (0, 0))))
        if not launches or "flash" in name:
            continue
        full = at_full_size(name, moved, rows)
        kind = "products" if name.startswith("cublasLt") else "kernels"
        totals[kind, "launches"] += launches
        totals[kind, "bytes"] += full
        print(f"{name:<52} {launches:8} {full / (2 * FULL * C):15.2f} {12e3 * full / COPY:33.2f}")
    for kind in ("kernels", "products"):
        full = totals[kind, "bytes"]
        print(f"{kind:<52} {totals[kind, 'launches']:8} {full / (2 * FULL * C):15.2f} {12e3 * full / COPY:33.2f}")
    print(f"launches of a step of one layer: {sum(n for n, _ in one.values())}")


main()

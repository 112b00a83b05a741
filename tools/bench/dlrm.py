#!/usr/bin/env python3
"""A DLRM against PyTorch's EmbeddingBag: steps per second on this machine's CPU, by runs in turn.

    python3 tools/bench/dlrm.py [--rounds N] [--steps N] [--batch N] [--threads N] [--rows N] [--features N] [--bag N]

Both train the preset `tiny` (vectors of 16 numbers, MLPs 64-32 and 64-32) in fp32 on the same clicks, with AdamW for
the dense part and rowwise Adagrad for the tables. PyTorch (tests/dlrm_torch.py, by torch_venv.py) has embedding_bag
with sparse gradients, coalesced before they are squared. A step of either is from reading its samples to the updated
weights. The two take turns, round after round; a figure is the median of the rounds, each of them the median of its
steps but the first five. The last line has the ratio of the two medians, and the smallest and largest of the rounds.
Exit code 1 if either fails.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from torch_venv import ROOT, torch_python

WARM_UP = 5  # steps that do not count, as in tests/dlrm_torch.py


def said_by(command, env):
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{(done.stderr or done.stdout).strip()}")
    return done.stdout


def trivium(folder, a, env):
    metrics = os.path.join(folder, "metrics.jsonl")
    said_by(
        [a.trivium, "train", "--arch", "dlrm", "--data", os.path.join(folder, "clicks.bin"), "--steps", str(a.steps)]
        + ["--global-batch", str(a.batch), "--threads", str(a.threads), "--eval-every", "0", "--log", "quiet"]
        + ["--metrics", metrics],
        env,
    )
    with open(metrics, encoding="utf-8") as file:
        ms = [row["step_ms"] for row in map(json.loads, file) if "loss" in row]
    os.remove(metrics)
    return 1000 / statistics.median(ms[WARM_UP:])


def pytorch(folder, a, env):
    reference = os.path.join(ROOT, "tests", "dlrm_torch.py")
    clicks = os.path.join(folder, "clicks.bin")
    said = said_by([a.python, reference, "train", clicks, str(a.steps), str(a.batch), str(a.threads)], env)
    return float(re.search(r"PyTorch: (\d+) steps", said).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"rounds": 7, "steps": 300, "batch": 512, "threads": 1, "rows": 20000, "features": 26, "bag": 1}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    a.trivium = os.path.join(ROOT, os.environ.get("BUILD", "build"), "trivium")
    a.python = torch_python() or sys.exit(1)
    env = dict(os.environ, OMP_NUM_THREADS=str(a.threads), MKL_NUM_THREADS=str(a.threads))
    rates = {"trivium": [], "PyTorch": []}
    with tempfile.TemporaryDirectory() as folder:
        said_by(
            [a.trivium, "data", "synth-clicks", "--to", os.path.join(folder, "clicks.bin"), "--samples", "100000"]
            + ["--rows", str(a.rows), "--features", str(a.features), "--bag", str(a.bag), "--dense", "13"],
            env,
        )
        for k in range(a.rounds):
            rates["trivium"].append(trivium(folder, a, env))
            rates["PyTorch"].append(pytorch(folder, a, env))
            last = ", ".join(f"{who} {each[-1]:.0f}" for who, each in rates.items())
            print(f"round {k + 1}: {last} steps per second", flush=True)
    middle = {who: statistics.median(each) for who, each in rates.items()}
    spread = ", ".join(f"{who} {middle[who]:.0f} ({min(each):.0f} to {max(each):.0f})" for who, each in rates.items())
    print(f"{spread} steps per second; ratio {middle['trivium'] / middle['PyTorch']:.2f}")


if __name__ == "__main__":
    main()

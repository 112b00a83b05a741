#!/usr/bin/env python3
"""What do fewer bytes cost in loss? nanoGPT's CPU configuration on four ranks, its gradients sent in twelve ways.

    python3 tools/bench/curves.py --data tinyshakespeare.txt [--steps N] [--only REGEX] [--out FOLDER]

configs/shakespeare.ini (4 layers, 4 heads, 128 channels, blocks of 64, batch 12, dropout 0) as dp=4, three sequences a
rank: plain, gradients as bf16, int8, signs and the largest 1 percent, those two with and without feedback, and replicas
that train apart (local SGD, post-local SGD, DiLoCo). The cases run one after the other. Each keeps its metrics in
FOLDER and is not run again, so a run that was stopped goes on where it was (--again: all are run). Made of them:

    FOLDER/curves.md     a table: bytes that a rank sent, validation losses, and how far the last is from plain dp's
    FOLDER/curves.svg    training loss (mean of a 50th of the steps) by step, and by bytes sent

Bytes are rank 0's algorithm bytes (comm_bytes), those of losses and norms among them. Nothing is timed. 2000 steps take
some 10 minutes a case on two quiet cores. The full run's numbers go into docs/results.md.
"""

import argparse
import html
import json
import math
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKS, BATCH, WINDOWS = 4, 12, 50
TOP_K, DILOCO = "--grad-codec topk --topk 1", "--outer-lr 0.7 --outer-momentum 0.9"


def cases(steps):
    """Name -> options. H of 10, and of 50 where that divides the steps: replicas must average after the last."""
    long = 50 if steps % 50 == 0 else 10
    after = max(steps // 10 // long, 1) * long
    return {
        "dp, fp32": "",
        "bf16": "--grad-codec bf16",
        "int8": "--grad-codec int8",
        "sign": "--grad-codec sign --grad-feedback off",
        "sign, feedback": "--grad-codec sign --grad-feedback on",
        "top 1%": f"{TOP_K} --grad-feedback off",
        "top 1%, feedback": f"{TOP_K} --grad-feedback on",
        "local SGD, H=10": "--local-steps 10",
        f"local SGD, H={long}": f"--local-steps {long}",
        "post-local SGD, H=10": f"--local-steps 10 --local-from {steps // 20 * 10}",
        f"DiLoCo, H={long}": f"--local-steps {long} {DILOCO}",
        f"DiLoCo after dp, H={long}": f"--local-steps {long} --local-from {after} {DILOCO}",
    }


# ---- running ----
def metrics_path(folder, name):
    return os.path.join(folder, re.sub(r"\W+", "-", name) + ".jsonl")


def finished(path, steps):
    """A file that ends with the evaluation after the last step; of another number of steps it is none."""
    if not os.path.exists(path):
        return False
    last = [row for row in rows_of(path) if "val_loss" in row][-1:]
    return bool(last) and last[0]["step"] == steps


def run(name, options, args):
    path = metrics_path(args.out, name)
    if finished(path, args.steps) and not args.again:
        return
    command = [f"{args.build}/trivium", "launch", "-n", str(RANKS), "train", "--config",
               f"{ROOT}/configs/shakespeare.ini"]
    command += ["--data", args.data, "--dp", str(RANKS), "--steps", str(args.steps), "--global-batch", str(BATCH)]
    command += ["--device", "cpu", "--threads", "1", "--eval-every", str(max(args.steps // 8, 1)), "--log", "warn"]
    command += ["--eval-batches", args.eval_batches]
    command += ["--warmup", str(min(100, args.steps // 2)), "--metrics", path] + options.split()
    print(f"{name}: {' '.join(command)}", flush=True)
    if subprocess.run(command).returncode:
        sys.exit(f"curves.py: {name} failed")


# ---- what was measured ----
def rows_of(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


class Curve:
    def __init__(self, name, path, steps):
        rows = rows_of(path)
        train = [r for r in rows if "loss" in r]
        if [r["step"] for r in train] != list(range(1, steps + 1)):
            sys.exit(f"curves.py: {path} has {len(train)} steps, not 1 to {steps}; remove it, or give --again")
        self.name, self.val = name, {r["step"]: r["val_loss"] for r in rows if "val_loss" in r}
        self.loss = [r["loss"] for r in train]
        self.sent, total = [], 0
        for r in train:
            total += r["comm_bytes"]
            self.sent.append(total)

    def windows(self):
        """(last step, bytes until then, mean loss) of each 50th."""
        n, size = len(self.loss), max(len(self.loss) // WINDOWS, 1)
        ends = range(size, n + 1, size)
        return [(end, self.sent[end - 1], sum(self.loss[end - size : end]) / size) for end in ends]


# ---- the table ----
def table(curves):
    first, at = curves[0], sorted(curves[0].val)
    shown = [s for i, s in enumerate(at) if i % 2 or s == at[-1]]
    lines = ["| gradients | MB sent per rank | of dp | " + " | ".join(f"{s} steps" for s in shown) + " | from dp |"]
    lines += ["|---" * (len(shown) + 4) + "|"]
    for c in curves:
        loss = " | ".join(f"{c.val[s]:.4f}" for s in shown)
        lines.append(f"| {c.name} | {c.sent[-1] / 1e6:.1f} | {c.sent[-1] / first.sent[-1]:.4f} | {loss} | "
                     f"{c.val[at[-1]] - first.val[at[-1]]:+.4f} |")
    return "\n".join(lines) + "\n"


# ---- the picture ----
COLOURS = ["#222222", "#0072b2", "#56b4e9", "#b22222", "#e69f00", "#7a5195", "#cc79a7", "#009e73", "#66a61e",
           "#8c6d31", "#d55e00",
           "#999999"]
WIDTH, HEIGHT, LEFT, TOP, GAP, KEY = 460, 340, 60, 40, 70, 200

LEAST_BYTES = 1e6    # below: replicas that have not averaged yet


def nice(low, high):
    step = 10 ** math.floor(math.log10((high - low) / 3))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (m * step) <= 6)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


class Panel:
    """x, y: from data to pixels; x may be logarithmic."""

    def __init__(self, left, title, xs, ys, log):
        self.left, self.title, self.log = left, title, log
        self.x0, self.x1, self.y0, self.y1 = min(xs), max(xs), min(ys), max(ys)

    def x(self, v):
        f = math.log if self.log else float
        return self.left + WIDTH * (f(v) - f(self.x0)) / ((f(self.x1) - f(self.x0)) or 1)

    def y(self, v):
        return TOP + HEIGHT * (self.y1 - v) / ((self.y1 - self.y0) or 1)

    def frame(self):
        ticks = nice(self.x0, self.x1)
        if self.log:
            ticks = [10**k for k in range(math.ceil(math.log10(self.x0)), math.floor(math.log10(self.x1)) + 1)]
        out = [f'<text x="{self.left + WIDTH / 2}" y="{TOP - 14}" text-anchor="middle">{self.title}</text>']
        for v in nice(self.y0, self.y1):
            out.append(f'<path d="M{self.left} {self.y(v):.1f}h{WIDTH}" stroke="#e2e2e2"/>')
            out.append(f'<text x="{self.left - 6}" y="{self.y(v) + 4:.1f}" text-anchor="end">{v:.4g}</text>')
        for v in ticks:
            out.append(f'<text x="{self.x(v):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{v:g}</text>')
        return out + [f'<path d="M{self.left} {TOP}v{HEIGHT}h{WIDTH}" fill="none" stroke="#4a4a4a"/>']

    def line(self, points, colour):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def picture(curves, steps):
    all_points = [c.windows() for c in curves]
    flat = [p for points in all_points for p in points]
    losses = [p[2] for p in flat]
    by_step = Panel(LEFT, "training loss by step", [p[0] for p in flat], losses, False)
    by_bytes = Panel(LEFT + WIDTH + GAP, "by MB that a rank has sent",
                     [p[1] / 1e6 for p in flat if p[1] >= LEAST_BYTES], losses, True)
    out = by_step.frame() + by_bytes.frame()
    for i, (curve, points) in enumerate(zip(curves, all_points)):
        colour = COLOURS[i % len(COLOURS)]
        out.append(by_step.line([(p[0], p[2]) for p in points], colour))
        out.append(by_bytes.line([(p[1] / 1e6, p[2]) for p in points if p[1] >= LEAST_BYTES], colour))
        x, y = LEFT + 2 * WIDTH + GAP + 20, TOP + 20 * i + 10
        out.append(f'<path d="M{x} {y}h22" stroke="{colour}" stroke-width="3"/>')
        out.append(f'<text x="{x + 28}" y="{y + 4}">{html.escape(curve.name)}</text>')
    width, height = LEFT + 2 * WIDTH + GAP + KEY, TOP + HEIGHT + 40
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = 'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222222"'
    background = f'<rect width="{width}" height="{height}" fill="#fdfdfb"/>'
    title = f"<title>Training loss of {steps} steps on {RANKS} ranks, by step and by bytes sent</title>"
    return "\n".join([f"{head} {style}>", title, background, *out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("DATA"), help="tinyshakespeare.txt (default: DATA)")
    parser.add_argument("--steps", type=int, default=2000, help="a multiple of 10")
    parser.add_argument("--only", default="", help="cases whose name this is found in")
    parser.add_argument("--out", default="curves", help="folder of metrics, table and picture")
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--eval-batches", default="0", help="of the held-out text; 0: all of it")
    parser.add_argument("--again", action="store_true", help="run what is finished, too")
    args = parser.parse_args()
    if not args.data or not os.path.exists(args.data):
        sys.exit("curves.py: give --data, the path of tinyshakespeare.txt (docs/results.md says where it is from)")
    if args.steps < 20 or args.steps % 10:
        sys.exit(f"curves.py: steps={args.steps}, and replicas average every 10; use a multiple of 10 from 20 on")
    os.makedirs(args.out, exist_ok=True)
    chosen = {n: o for i, (n, o) in enumerate(cases(args.steps).items()) if i == 0 or re.search(args.only, n)}
    for name, options in chosen.items():
        run(name, options, args)
    curves = [Curve(n, metrics_path(args.out, n), args.steps) for n in chosen]
    for name, text in (("curves.md", table(curves)), ("curves.svg", picture(curves, args.steps))):
        with open(os.path.join(args.out, name), "w") as f:
            f.write(text)
    print(table(curves))


if __name__ == "__main__":
    main()

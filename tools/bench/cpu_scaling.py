"""How the cost of a step grows with tokens, layers and sequence length, against the FLOP count.

    python3 tools/bench/cpu_scaling.py [--rounds N] [--threads N] [--precision fp32] [--out FILE.json] [--svg FILE.svg]
    [--from FILE.json]

Three lines of points, one model (384 channels, 6 heads, vocabulary 256), all else fixed:

    tokens   batches of 1 to 16 sequences of 256, 6 layers: time proportional to tokens
    layers   1 to 12 layers, batch 8 x 256: time = a + b layers
    T        sequences of 64 to 2048, 2048 tokens a batch, 6 layers: flops a token 6 N + 12 L C T, of which half of the
             T part is computed (attention is causal)

All points take turns, round after round; a point is the median. For each line: a straight line is fitted, and the
largest relative distance of a point from it is printed. The plot needs gnuplot; --from draws one from an earlier --out.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

import records
from cpu import NATIVE, machine
from cpu_cases import Trivium

HIDDEN, HEADS, VOCAB, STEPS = 384, 6, 256, 7
LINES = {
    "tokens": [dict(layers=6, seq=256, batch=b) for b in (1, 2, 4, 8, 16)],
    "layers": [dict(layers=n, seq=256, batch=8) for n in (1, 2, 4, 8, 12)],
    "T": [dict(layers=6, seq=t, batch=2048 // t) for t in (64, 128, 256, 512, 1024, 2048)],
}


def flops(p, computed):
    """FLOPs of a step: 6 N + 12 L C T per token; computed: with the causal half of attention, and its scores once more
    in backward."""
    n = p["layers"] * 12 * HIDDEN**2 + VOCAB * HIDDEN
    attention = 12 * p["layers"] * HIDDEN * p["seq"] * (7 / 6 / 2 if computed else 1)
    return (6 * n + attention) * p["seq"] * p["batch"]


def x_of(line, p):
    return {"tokens": p["batch"] * p["seq"], "layers": p["layers"], "T": flops(p, True) / 1e9}[line]


def measure(p, o):
    shape = dict(p, hidden=HIDDEN, heads=HEADS, vocab=VOCAB, steps=STEPS)
    return Trivium(NATIVE, shape, o.precision, o.threads).measure()["step_ms"]


def fit(points):
    """Least squares of relative distances: a, b of a + b x, and the largest relative distance."""
    w = [1 / y**2 for _, y in points]
    sw, sx, sy = sum(w), sum(v * x for v, (x, _) in zip(w, points)), sum(v * y for v, (_, y) in zip(w, points))
    sxx, sxy = sum(v * x * x for v, (x, _) in zip(w, points)), sum(v * x * y for v, (x, y) in zip(w, points))
    b = (sw * sxy - sx * sy) / (sw * sxx - sx * sx)
    a = (sy - b * sx) / sw
    return a, b, max(abs(a + b * x - y) / y for x, y in points)


def plot(result, path):
    """By gnuplot (tools/install-deps docs): points, and the fitted lines."""
    if not shutil.which("gnuplot"):
        print("no gnuplot: no plot", file=sys.stderr)
        return
    names = {"tokens": "tokens a step", "layers": "layers", "T": "GFLOP a step, at T = 64, 128 ... 2048"}
    script = [
        f'set terminal svg size 1080,320 font "sans,11"; set output "{path}"',
        "set multiplot layout 1,3",
        'set ylabel "ms per step"',
        "set xrange [0:*]; set yrange [0:*]",
        "set key top left",
    ]
    for line, r in result["lines"].items():
        script.append(f"$points{line} << END")
        script += [f"{p['x']} {p['ms']}" for p in r["points"]]
        script += [
            "END",
            f'set xlabel "{names[line]}"',
            f"plot $points{line} with points pointtype 7 title 'measured', {r['a_ms']} + {r['b_ms']} * x title "
            f"'{r['a_ms']:.1f} + {r['b_ms']:.4g} x'",
        ]
    subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    p.add_argument("--out")
    p.add_argument("--svg")
    p.add_argument("--from", dest="earlier", help="measure nothing: draw what --out has written")
    o = p.parse_args()
    if o.earlier:
        with open(o.earlier) as f:
            plot(json.load(f), o.svg or "scaling.svg")
        return
    times = {line: [[] for _ in points] for line, points in LINES.items()}
    for _ in range(o.rounds):
        for line, points in LINES.items():
            for i, point in enumerate(points):
                times[line][i].append(measure(point, o))
                print(f"  {line}: {point}: {times[line][i][-1]:.1f} ms", file=sys.stderr, flush=True)
    result = dict(machine=machine(), precision=o.precision, threads=o.threads, lines={})
    for line, points in LINES.items():
        rows = [
            dict(q, x=x_of(line, q), ms=statistics.median(t), runs_ms=t, flops=flops(q, False))
            for q, t in zip(points, times[line])
        ]
        a, b, worst = fit([(r["x"], r["ms"]) for r in rows])
        result["lines"][line] = dict(a_ms=a, b_ms=b, largest_relative_distance=worst, points=rows)
        print(f"{line}: ms = {a:.2f} + {b:.5g} x, no point farther from it than {100 * worst:.1f}%")
        for r in rows:
            print(
                f"    x {r['x']:10.1f}   {r['ms']:8.1f} ms   (batch {r['batch']}, T {r['seq']}, {r['layers']} layers)"
            )
    if o.out:
        with open(o.out, "w") as f:
            records.dump(result, f)
            f.write("\n")
    if o.svg:
        plot(result, o.svg)


if __name__ == "__main__":
    main()

"""How near do correct runs come to the limit? False alarms of `trivium oracle check`, over layouts, precisions and
seeds.

    python3 tools/oracle/false_alarms.py [N]        N runs (default 50); BUILD: where the program is

Layouts are drawn by number, so that a run can be repeated. Prints each run's worst tensor as a share of its limit, and
a histogram. Then a tensor of each run is spoiled by noise, a tenth of each element: no signature may fit. Exit code 1
if any run is called wrong, or any noise has a suspect."""
import array
import collections
import glob
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

TRIVIUM = os.path.abspath(os.path.join(os.environ.get("BUILD", "build"), "trivium"))
MODELS = {"gpt": [], "llama": ["--arch", "llama", "--kv-heads", "2", "--ffn", "64", "--tie", "off"],
          "mixtral": ["--arch", "mixtral", "--experts", "4", "--experts-per-token", "2", "--kv-heads", "2", "--ffn",
                      "32", "--tie", "off",
                      "--capacity", "0", "--aux-loss", "0", "--z-loss", "0"]}
SMALL = ["--layers", "4", "--hidden", "32", "--heads", "4", "--seq", "16", "--steps", "3", "--log", "warn"]
LAYOUTS = ["--dp 2", "--tp 2", "--tp 2 --sp", "--pp 2", "--cp 2", "--cp 2 --cp-by ulysses", "--cp 2 --cp-by gather",
           "--dp 4 --zero 1",
           "--dp 2 --zero 2", "--dp 4 --zero 3", "--dp 2 --tp 2 --zero 1", "--dp 2 --pp 2", "--tp 2 --pp 2 --sp",
           "--cp 2 --tp 2", "--pp 4",
           "--pp 2 --schedule zb-h1", "--pp 2 --schedule gpipe --dp 2", "--pp 2 --schedule interleaved --chunks 2",
           "--dp 2 --recompute full",
           "--tp 4", "--dp 2 --cp 2 --zero 3", "--recompute selective", "--tp 2 --recompute full --sp"]


def run(*words):
    return subprocess.run(words, capture_output=True, text=True)


def reference_of(work, model, seed):
    folder = f"{work}/{model}-{seed}"
    if not os.path.isdir(folder):
        done = run(TRIVIUM, "oracle", "record", "--out", folder, *SMALL, *MODELS[model], "--seed", str(seed))
        assert done.returncode == 0, done.stderr
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
    checked = run(TRIVIUM, "oracle", "check", folder, reference_of(work, model, seed), "--out", f"{folder}/page")
    with open(f"{folder}/page/check.json") as f:
        rows = json.load(f)
    share = [(r["error"] / r["scale"] / rows["factor"], r["name"], r["step"]) for r in rows["rows"]
             if r["error"] is not None and r["scale"]]
    spoiled = spoil(folder, draw)
    said = run(TRIVIUM, "oracle", "check", folder, reference_of(work, model, seed)).stdout
    suspects = [(spoiled, x) for x in re.findall("^  suspect: (.*)", said, re.M)]
    subprocess.run(["rm", "-rf", folder], check=True)
    return f"{model} seed {seed} {precision} micro {micro} {layout}", max(share), checked.returncode, suspects


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    histogram, wrong, number, seen, noise = collections.Counter(), 0, 0, 0, []
    with tempfile.TemporaryDirectory() as work:
        while seen < n:
            number += 1
            result = worst_of(work, number)
            if result is None:
                continue
            what, (share, name, step), code, suspects = result
            seen += 1
            noise += [f"{number}: noise in {spoiled}: {text}" for spoiled, text in suspects]
            wrong += code != 0
            histogram[min(int(share * 10), 10)] += 1
            print(f"{number}: {what}: {100 * share:.0f}% of the limit, {name}, step {step}{'  WRONG' if code else ''}",
                  flush=True)
    for tenth in range(11):
        print(f"{10 * tenth:3d}% {'and more' if tenth == 10 else f'to {10 * tenth + 10}%'}: {histogram[tenth]}")
    print(*noise, sep="\n", end="\n" if noise else "")
    print(f"{seen} correct runs, {wrong} of them called wrong; {len(noise)} suspects of noise")
    return wrong > 0 or len(noise) > 0


if __name__ == "__main__":
    sys.exit(main())

"""The smallest layout that shows a mistake, and the hash of a recorded reference. Needs no PyTorch.

    python -m trivium.oracle smallest RUN REFERENCE AXIS=N... -- COMMAND...
        The command trains and writes the folder RUN; in its words {AXIS} and {ranks} stand for numbers. It runs in each
        layout whose numbers divide those given, fewest ranks first, until `trivium oracle check` finds a wrong tensor.
    python -m trivium.oracle hash FOLDER [SHA256]
        The hash of all files, as `cd FOLDER && find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum` has it; if
        it is another than SHA256, an error.

In a checkout, `python3 tools/oracle/smallest.py`. Exit code of smallest: 1 a layout is wrong or could
not run, 0 none is."""
import hashlib
import itertools
import math
import os
import re
import shutil
import subprocess
import sys

try:
    from .. import path as TRIVIUM
except ImportError:                                     # in a checkout
    TRIVIUM = os.path.join(os.environ.get("BUILD", "build"), "trivium")


def layouts(axes):
    """All layouts whose numbers divide these, fewest ranks first; of as many, fewest axes that are divided."""
    divisors = [[d for d in range(1, n + 1) if n % d == 0] for n in axes.values()]
    return sorted(itertools.product(*divisors), key=lambda x: (math.prod(x), sum(d > 1 for d in x), x[::-1]))


def named(axes, numbers):
    return " ".join(f"{axis}={n}" for axis, n in zip(axes, numbers))


def smallest(words):
    at = words.index("--") if "--" in words else len(words)
    axes = dict(re.fullmatch(r"(\w+)=([1-9]\d*)", x).groups() if re.fullmatch(r"\w+=[1-9]\d*", x) else
                sys.exit(f"smallest: {x} is no AXIS=N; give the layout that is wrong, as dp=2 tp=2")
                for x in words[2:at])
    if not axes or not words[at + 1:]:
        sys.exit("smallest RUN REFERENCE AXIS=N... -- COMMAND...: an axis or the command is missing")
    run, reference, command = words[0], words[1], words[at + 1:]
    if os.path.exists(run):
        sys.exit(f"smallest: {run} is there, and the command makes it for each layout; remove it")
    right, failed = [], 0
    for numbers in layouts({axis: int(n) for axis, n in axes.items()}):
        values = {**dict(zip(axes, numbers)), "ranks": math.prod(numbers)}
        filled = [re.sub(r"\{(\w+)\}", lambda m: str(values.get(m[1], m[0])), word) for word in command]
        done = subprocess.run(filled, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        layout = f"{named(axes, numbers)}, {values['ranks']} rank{'s' * (values['ranks'] > 1)}"
        if done.returncode or not os.path.isdir(run):
            last = (done.stderr.strip() or "it wrote nothing").split("\n")[-1]
            print(f"{layout}: the command ended with {done.returncode}: {last}", flush=True)
            shutil.rmtree(run, ignore_errors=True)
            failed += 1
            continue
        said = subprocess.run([TRIVIUM, "oracle", "check", run, reference], capture_output=True, text=True)
        if said.returncode > 1:
            sys.exit(f"smallest: {said.stderr.strip()}")
        if said.returncode:
            print(f"smallest layout that is wrong: {layout}; right are {'; '.join(right) or 'none that are smaller'}")
            print(said.stdout, end="")
            return 1
        shutil.rmtree(run)
        right.append(named(axes, numbers))
        print(f"{layout}: right", flush=True)
    if failed:
        sys.exit(f"smallest: the command failed in {failed} layouts, and {len(right)} are right; run one by hand")
    print("no layout is wrong")
    return 0


def hash_of(folder):
    lines = []
    for where, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb") as f:
                path = os.path.relpath(os.path.join(where, name), folder)
                lines.append((f"./{path}".encode(), hashlib.sha256(f.read()).hexdigest()))
    text = b"".join(digest.encode() + b"  " + path + b"\n" for path, digest in sorted(lines))
    return hashlib.sha256(text).hexdigest()


def check_hash(words):
    found = hash_of(words[0]) if os.path.isdir(words[0]) else sys.exit(f"hash: there is no folder {words[0]}")
    if len(words) > 1 and words[1] != found:
        sys.exit(f"hash: {words[0]} has {found}, and not {words[1]}; fetch the reference again, or record it again and "
                 "give its hash")
    print(found)
    return 0


def main(words):
    if len(words) > 2 and words[0] == "smallest":
        return smallest(words[1:])
    if len(words) in (2, 3) and words[0] == "hash":
        return check_hash(words[1:])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

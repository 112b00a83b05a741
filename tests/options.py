#!/usr/bin/env python3
"""No option of `trivium train` is accepted and read by no part of it: two values of each change what a run computes,
prints or writes, or its exit code.

    options.py PROGRAM [REGEX]        a line "ok option_NAME" or "not ok option_NAME ..." each; REGEX: of the options
                                      whose names it fits
    JOBS                              cases at a time (default: 2)

The program lists its options (`show options --json`). tests/data/options/train.txt has two values of each, and what is
given with them so that they matter; an option without a line there fails. exceptions.txt next to it has the options
whose effect no such pair shows, each with its reason: 20 at most, and one that has an effect after all fails.

Three runs a case: the first value, the second, and the first again, which must repeat what it did: a difference that
any two runs have (times, places) is none. Nor is an echo: lines that only announce the configuration, and its copy in a
manifest, are left out.

The views of the same configuration (show, plan, budget, score, ...) accept all options of train, and are not tried
here. That is an exception by class: a configuration describes a run, and each command reads of it what concerns it.
Options of their own are another test's.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

PROGRAM, WANTED = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data", "options")
LIMIT_S, MOST_EXCEPTIONS = 120, 20
# --peak-tflops: else each run measures it, and another one.
RUN = (
    "--device cpu --layers 2 --hidden 16 --heads 2 --seq 16 --global-batch 4 --steps 3 --threads 1 --eval-batches 1 "
    "--eval-every 2 "
    "--peak-tflops 1 --data $F/a.txt"
)
CLICKS = (
    "--device cpu --arch dlrm --features 2 --bag 2 --dense 2 --mlp-bottom 8 --mlp-top 8 --hidden 4 --vocab 50 "
    "--global-batch 4 --steps 3 "
    "--threads 1 --eval-batches 1 --eval-every 2 --peak-tflops 1 --data $F/clicks"
)


class Case:
    def __init__(self, line):
        self.name, first, second, *self.words = shlex.split(line)
        self.values = (first, second)
        launch = self.words.pop(0) if self.words and self.words[0].startswith("@") else "@1"
        self.ranks, self.spares = (launch[1:].split("+") + [""])[:2]
        self.only = self.words.pop()[1:] if self.words and self.words[-1].startswith("=") else None


def lines_of(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


# ---- what is compared ----
ANNOUNCES = re.compile(r"(model|layout|data|mask|sentinels|preflight|slow rank) ?\S*:? |.*\bwarning: ")
UNSTEADY = [
    (r"resident [0-9.]+ MiB, unaccounted -?[0-9.]+ MiB", "resident"),
    (r"mfu [0-9.]+%", "mfu"),
    (r", [0-9]+ spans \(", ", spans ("),
    (r"-?\b[0-9][0-9.e+-]*( ?)(ms|us|s|tok/s|%)(?![a-z0-9])", r"N\2"),
]


def printed(text, place, fixtures):
    for pattern, instead in UNSTEADY:
        text = re.sub(pattern, instead, text)
    text = text.replace(place, "PLACE").replace(fixtures, "FIXTURES")
    return "\n".join(line for line in text.split("\n") if not ANNOUNCES.match(line))


def metrics(text):
    """Without times; of the mfu, which divides by one, the peak that it was computed for."""
    rows = [json.loads(line) for line in text.split("\n") if line]
    for row in rows:
        if row.get("mfu"):
            row["peak"] = float(f"{row['tokens_per_s'] * row['flops_per_token'] / row['mfu']:.3g}")
        for key in [key for key in row if key == "mfu" or re.search(r"_(s|ms|per_s)$", key)]:
            del row[key]
    return json.dumps(rows)


def manifest(text):
    return json.dumps(
        {
            k: v
            for k, v in json.loads(text).items()
            if k not in ("model", "layout", "adamw", "techniques", "seed", "xxh3")
        }
    )


def trace(text):
    """Which actions and collectives each step has, and how many."""
    spans = re.findall(r'"name":"([^"]*)"[^{}]*"cat":"(?:action|comm)"[^{}]*\{"step":(\d+)', text)
    return str(sorted(collections.Counter(spans).items()))


def record(text):
    """Without seconds, and in no order."""
    return str(sorted(re.findall(r"^(\d+ \d+ \d+) \S+ (.*)", text, re.M)))


def contents(path):
    with open(path, "rb") as file:
        raw = file.read()
    for start, end, reader in (
        (b'{"step"', b"", metrics),
        (b"{", b"manifest.json", manifest),
        (b"{", b"t.json", trace),
        (b"# ", b"", record),
    ):
        if raw.startswith(start) and path.encode().endswith(end):
            return reader(raw.decode())
    return hashlib.sha1(raw).hexdigest()


# ---- a run ----
def both(streams):
    """One after the other: the launcher passes each on in order, and in no order between them."""
    return "".join(stream.decode(errors="replace") for stream in streams)


def place_for_run(fixtures):
    place = tempfile.mkdtemp(dir=fixtures)
    for folder in ("d1", "d2"):
        os.mkdir(os.path.join(place, folder))
    with open(os.path.join(place, "m0"), "w", encoding="utf-8") as file:
        file.write('{"step": 0}\n')
    return place


def start(words, place):
    with subprocess.Popen(
        [PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place,
        start_new_session=True,
    ) as child:
        try:
            return both(child.communicate(timeout=LIMIT_S)), child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return both(child.communicate()) + f"\nno end in {LIMIT_S} s", -1


def files_of(place, only):
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names]
    names = {os.path.relpath(path, place): path for path in paths}
    return {name: contents(path) for name, path in sorted(names.items()) if only in (None, name)}


def run(case, value, fixtures):
    """(exit code, what it printed, {file: contents}); of a run that failed only its code and the kind of its error. And
    all that it printed."""
    launch = ["launch", "-n", case.ranks, "--comm-transport", "direct"]
    launch += ["--elastic", case.ranks, "--spares", case.spares] if case.spares else []
    words = (
        launch
        + ["train"]
        + shlex.split(CLICKS if "dlrm" in case.words else RUN)
        + case.words
        + [f"--{case.name}", value]
    )
    place = place_for_run(fixtures)
    said, code = start([word.replace("$F", fixtures) for word in words], place)
    if code:
        result = code, (re.findall(r"\bE_[A-Z]+", said) or [""])[-1], {}
    else:
        result = code, "" if case.only else printed(said, place, fixtures), files_of(place, case.only)
    shutil.rmtree(place)
    return result, said


def difference(a, b):
    if a[0] != b[0]:
        return f"code {a[0]} and {b[0]}"
    lines = [(x, y) for x, y in zip(a[1].split("\n"), b[1].split("\n")) if x != y]
    if lines or a[1] != b[1]:
        return " and ".join(lines[0]) if lines else "one printed more"
    return "files " + ", ".join(sorted(name for name in {*a[2], *b[2]} if a[2].get(name) != b[2].get(name)))


def judge(case, fixtures):
    """What the two values change; and what is wrong with the case, if something is."""
    (first, said), (second, _), (again, _) = (run(case, value, fixtures) for value in (*case.values, case.values[0]))
    if first[0] and second[0]:
        return "", f"both values fail: {(re.findall('E_.*', said) or [said[-200:]])[-1]}"
    if first != again:
        return "", f"two runs with {case.values[0]!r} differ: {difference(first, again)}"
    return difference(first, second) if first != second else "", ""


# ---- all ----
def make_fixtures(folder):
    def do(line):
        done = subprocess.run(
            [PROGRAM, *shlex.split(line.replace("$F", folder))], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"not ok options: {line}: {done.stderr}")

    configs = os.path.join(HERE, "..", "configs")
    with open(os.path.join(configs, "demo.txt"), "rb") as file:
        text = file.read(9000)
    for name, part in (("a.txt", text[:4000]), ("b.txt", text[5000:])):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(part)
    with open(os.path.join(configs, "clusters", "cpu-2core.ini"), encoding="utf-8") as file, open(
        os.path.join(folder, "narrow.ini"), "w", encoding="utf-8"
    ) as narrow:
        narrow.write(
            re.sub(
                "(?m)^memory-gib = .*",
                "memory-gib = 0.00035",
                re.sub("(?m)^reserve-gib = .*", "reserve-gib = 0", file.read()),
            )
        )
    for name, dropout in (("gpt2.json", "0"), ("gpt2b.json", "0.1"), ("gpt2c.json", "0.2")):
        with open(os.path.join(folder, name), "w") as f:
            f.write('{"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 16, "vocab_size": '
                    f'256, "resid_pdrop": {dropout}, "embd_pdrop": {dropout}, '
                    f'"attn_pdrop": {"0.1" if dropout == "0.2" else dropout}}}')
    shutil.copytree(os.path.join(HERE, "data", "bpe"), os.path.join(folder, "bpe"))
    do("data synth-clicks --to clicks --samples 400 --features 2 --bag 2 --dense 2 --rows 50")
    do(f"train {RUN} --steps 1 --save gpt")
    for first in (0, 1):  # which worker is: one gradient after the other
        rows = [
            f"0 {worker} {clock} 0 {max(0, 2 * clock - 1 + (worker != first))}"
            for clock in range(3)
            for worker in (first, 1 - first)
        ]
        with open(os.path.join(folder, f"order{first}"), "w", encoding="utf-8") as file:
            file.write("\n".join(["# 1 servers, 2 workers", "server worker clock seconds version0", *rows, ""]))


def options_of_train():
    """All that `show` accepts, without its own."""

    def ask(*words):
        return subprocess.run([PROGRAM, "show", *words], capture_output=True, text=True, check=True).stdout

    own = re.findall(r"^  --([a-z0-9-]+)", ask("--help").partition("\nshow:\n")[2], re.M)
    return [option["name"] for option in json.loads(ask("options", "--json")) if option["name"] not in own]


def verdict(case, excepted, found):
    changes, wrong = found
    first, second = case.values
    if wrong:
        return wrong
    if changes and excepted:
        return f"{first!r} and {second!r} differ ({changes}); take it out of exceptions.txt"
    return "" if changes or excepted else f"{first!r} and {second!r} give the same"


def main():
    cases = {case.name: case for case in map(Case, lines_of("train.txt"))}
    exceptions = dict(line.split(None, 1) for line in lines_of("exceptions.txt"))
    options = options_of_train()
    bad = {name: "no such option, and it has a line in train.txt" for name in cases if name not in options}
    bad |= {name: "no such option, and it is in exceptions.txt" for name in exceptions if name not in options}
    bad |= {name: "it has no line in train.txt" for name in options if name not in cases}
    if len(exceptions) > MOST_EXCEPTIONS:
        bad["exceptions"] = f"{len(exceptions)} are more than {MOST_EXCEPTIONS}"
    tried = [name for name in options if name not in bad and re.search(WANTED, name)]
    with tempfile.TemporaryDirectory() as fixtures, concurrent.futures.ThreadPoolExecutor(
        int(os.environ.get("JOBS", "2"))
    ) as pool:
        make_fixtures(fixtures)
        found = {name: pool.submit(judge, cases[name], fixtures) for name in tried}
        for name, future in found.items():
            wrong = verdict(cases[name], name in exceptions, future.result())
            if os.environ.get("SAY"):
                print(f"# {name}: {future.result()[0]}")
            print(f"not ok option_{name}: {wrong}" if wrong else f"ok option_{name}", flush=True)
    for name, wrong in sorted(bad.items()):
        print(f"not ok option_{name}: {wrong}")


main()

#!/usr/bin/env python3
"""Is each option of a command's own read, train's aside? Two values of it change what the command prints, the files
that it writes or its exit code; or the command refuses the option by name. tests/data/options/own.txt has the cases,
one a line:

    COMMAND WORDS... | OPTION V1 V2         $F: what make_fixtures has made; $O: a new folder of this run, which is its
                                            place, too

The option follows the words, or stands where they have an @. {a,b} in the words makes a case for a and one for b.
"absent" is a run without the option, and "given" the option without a value. With a ! first, both runs fail, and what
they print differs. Of several cases of an option one has to show an effect. What a command's help lists, and has
neither a case nor a line in own-exceptions.txt (COMMAND OPTION | WHY), fails.

And plan, which takes all options of train, uses or refuses each (train.txt has two values): its seconds or bytes
differ; or it refuses, and names the option or what is given with it; or the option changes neither program nor device
memory (show), and the command that plan --gpus prints has it.

    options_own.py PROGRAM [FILTER]         a line "ok NAME" or "not ok NAME: ..." an option; FILTER: a part of "COMMAND
                                            OPTION"
    JOBS                                    runs at a time (default: 2)
"""

import concurrent.futures
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

PROGRAM, FILTER = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "options")
DEMO = os.path.join(DATA, "..", "..", "..", "configs", "demo.txt")
SUB = {
    "show": "program types memory mesh comm options",
    "oracle": "record check show",
    "checkpoint": "inspect export import",
    "data": "tokenize synth-clicks criteo inspect",
}
MOST_EXCEPTIONS, LIMIT_S = 10, 60
SMALL = "--layers 2 --hidden 16 --heads 2 --seq 16 --global-batch 4 --threads 1 --steps 2 --metrics= --data a.txt"


# ---- what there is ----
def help_of(command):
    return subprocess.run([PROGRAM, *command.split(), "--help"], capture_output=True, text=True, check=True).stdout


def commands():
    names = [*dict.fromkeys(re.findall(r"^  trivium ([a-z]+) ", help_of(""), re.M)), "agent"]
    return [f"{name} {sub}".strip() for name in names if name != "train" for sub in SUB.get(name, "").split() or [""]]


def own_options(command, of_train):
    """What the help lists that is no option of a training run; and what the command's line of use names."""
    text = help_of(command)
    listed = re.findall(r"^ +(--?[a-z][a-z0-9-]*)", text, re.M)
    listed = [name for name in listed if name != "--config" and not ("--global-batch" in listed and name in of_train)]
    uses = re.findall(rf"^trivium (?:.* )?{command} (.*)", text, re.M)
    return list(
        dict.fromkeys(listed + [name for use in uses for name in re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", use)])
    )


# ---- the cases ----
class Case:
    def __init__(self, words, option, values):
        self.may_fail = words[0] == "!"
        words = words[self.may_fail :]
        self.measures = "compare" in words or "calibrate" in words
        at = words.index("@") if "@" in words else len(words)
        self.before, self.after = words[:at], words[at + 1 :]
        self.option, self.values = option, values
        places = [i for i, word in enumerate(self.before) if word in COMMANDS or word in SUB]
        self.command = self.before[places[-1]]
        if self.command in SUB:
            self.command += " " + self.before[places[-1] + 1]

    def words(self, value):
        given = [] if value == "absent" else [self.option] if value == "given" else [self.option, value]
        return self.before + given + self.after


def unfold(words):
    braces = re.search(r"\{([^}]*)\}", words)
    if not braces:
        return [words]
    return [
        one
        for word in braces.group(1).split(",")
        for one in unfold(words[: braces.start()] + word + words[braces.end() :])
    ]


def lines_of(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def read_cases():
    for line in lines_of("own.txt"):
        words, option = line.split(" | ", 1)
        name, *values = shlex.split(option)
        for one in unfold(words):
            yield Case(shlex.split(one), name, values)


# ---- a run ----
def unify(text, measures=False):
    """What differs from run to run has the same letters in all."""
    if measures:
        return re.sub(r" +", " ", re.sub(r"-?[0-9][0-9.e+-]*", "N", text))
    text = re.sub(r"(has room for|resident|unaccounted) -?[0-9.]+ MiB|(mfu|goodput) [0-9.]+%", "N", text)
    text = re.sub(r"-?[0-9][0-9.e+-]*( ?)(ms|us|s|tok/s|tokens/s|MB/s|GB/s|GiB/s|TFLOP/s)(?![a-z0-9])", r"N\2", text)
    return re.sub(r"\b[0-9a-f]{16}\b|\bpid [0-9]+|trivium\.[0-9]+", "N", text)


def of_file(path, place, measures):
    if measures and not path.endswith(".json"):
        return "measured"
    with open(path, "rb") as file:
        raw = file.read()
    try:
        return unify(raw.decode().replace(place, "PLACE"), measures)
    except UnicodeDecodeError:
        return hashlib.sha1(raw).hexdigest()


def run(words, fixtures, measures):
    """(exit code, what was printed, {file: contents})"""
    place = tempfile.mkdtemp(dir=fixtures)
    words = [word.replace("$F", fixtures).replace("$O", place) for word in words]
    with subprocess.Popen(
        [PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=place,
        env={**os.environ, "TRIVIUM_SECRET": "a" * 64},
        start_new_session=True,
    ) as child:
        try:
            out = child.communicate(timeout=LIMIT_S)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out = "TIMEOUT " + child.communicate()[0].decode(errors="replace")
    files = {}
    for folder, _, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            files[os.path.relpath(path, place)] = of_file(path, place, measures)
    shutil.rmtree(place)
    out = unify(out.replace(place, "PLACE").replace(fixtures, "FIXTURES"), measures)
    if "launch" in words:  # it passes on two pipes of each rank: which line comes first is chance
        out = "\n".join(sorted(out.splitlines()))
    return child.returncode, out, files


def error_of(result):
    error = re.search(r"E_[A-Z]+ .*", result[1])
    return error.group(0) if error else result[1][-200:]


def judge(case, fixtures):
    """None: the option is read, or refused by name. Else what is wrong."""
    first, second = (run(case.words(value), fixtures, case.measures) for value in case.values)
    values = " and ".join(repr(value) for value in case.values)
    for result in (first, second):
        if result[0] and re.search(
            rf"{re.escape(case.option)}\b.*(does not read it|has no use for it|leave it out)", error_of(result)
        ):
            return None
    if first[0] and second[0] and not case.may_fail:
        return f"{values} both fail: {error_of(first)}"
    if first == second:
        return f"{values} give the same"
    if run(case.words(case.values[0]), fixtures, case.measures) != first:
        return f"two runs of {case.values[0]!r} differ"
    return None


# ---- plan and the options of train ----
CLICKS = (
    "--arch dlrm --features 2 --bag 2 --dense 2 --mlp-bottom 8 --mlp-top 8 --hidden 4 --vocab 50 --global-batch 4"
).split()
TEXT = "--layers 2 --hidden 16 --heads 2 --seq 16 --global-batch 4".split()
NOT_OF_THE_DEVICE = r'"(host|collectives)": [0-9]+'  # what saves and collectives hold in host memory
SEARCHED = ("--dp", "--sp", "--schedule", "--pp-split", "--cluster")  # plan --gpus decides these, or was given them


def judge_plan(line, fixtures):
    name, *values_and_words = shlex.split(line)
    values, words = values_and_words[:2], values_and_words[2:]
    ranks = words.pop(0)[1:].split("+")[0] if words and words[0].startswith("@") else "1"
    words = words[:-1] if words and words[-1].startswith("=") else words
    words = [*(CLICKS if "dlrm" in words else TEXT), *words]
    given = [name, *(word[2:] for word in words if word.startswith("--"))]
    cluster = [] if name == "cluster" else ["--cluster", "$F/any.ini"]

    def both(*command):
        runs = [run([*command, *words, f"--{name}", value, "--json"], fixtures, False) for value in values]
        return [(code, re.sub(NOT_OF_THE_DEVICE, "", text)) for code, text, _ in runs]

    def refused(result):
        return any(re.search(rf"\b{re.escape(option)}\b", error_of(result)) for option in given)

    plans = both("plan", *cluster)
    if plans[0] != plans[1]:
        return None
    if plans[0][0]:
        return None if refused(plans[0]) else f"both fail: {error_of(plans[0])}"
    for view in ("program", "memory"):
        shown = both("show", view)
        if not shown[0][0] and not shown[1][0] and shown[0] != shown[1]:
            return f"{values[0]!r} and {values[1]!r} differ in show {view}, and plan says the same of both"
    open_words = [w for i, w in enumerate(words) if w not in SEARCHED and (i == 0 or words[i - 1] not in SEARCHED)]
    asked = ["plan", *cluster, "--gpus", ranks, *open_words, f"--{name}", values[1]]
    code, text, _ = run(asked, fixtures, False)
    if code:
        return None if refused((code, text)) else f"a search fails: {error_of((code, text))}"
    return None if f"--{name} " in text else "it is in no command that a search prints"


def report_plan(fixtures, pool):
    lines = {line.split()[0]: line for line in lines_of("train.txt") if FILTER in f"plan --{line.split()[0]}"}
    found = {name: pool.submit(judge_plan, line, fixtures) for name, line in lines.items()}
    for name, future in found.items():
        wrong = future.result()
        print(f"not ok options of plan: --{name}: {wrong}" if wrong else f"ok options of plan: --{name}")


# ---- what the runs begin with, in $F ----
def make_fixtures(folder):
    def do(*words):
        done = subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"options_own.py: {' '.join(words)}: {done.stderr}")

    def write(name, text):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    with open(DEMO, encoding="utf-8") as file:
        demo = file.read()
    write("a.txt", demo[:4000])
    write("b.txt", demo[5000:9000])
    for name, dropout, other in ("gpt2", "0", "0"), ("gpt2b", "0.1", "0.1"), ("gpt2c", "0.2", "0.1"):
        write(f"{name}.json", '{"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 16, '
              f'"vocab_size": 256, "resid_pdrop": {dropout}, "embd_pdrop": {dropout}, "attn_pdrop": {other}}}')
    write("criteo.txt", "\t".join(["1"] + [str(i) for i in range(13)] + [f"{i:08x}" for i in range(26)]) + "\n")
    write("metrics", '{"step": 1, "loss": 2.5, "step_ms": 3.0}\n')
    write("products", "bf16: m n k TFLOP/s\n512 512 512 99\n1024 1024 1024 150\n2048 2048 2048 180\n")
    write("hosts1", "localhost slots=1\n")
    write("hosts2", "localhost slots=2\n")
    shutil.copytree(os.path.join(DATA, "..", "bpe"), os.path.join(folder, "bpe"))
    with open(os.path.join(DATA, "..", "..", "..", "configs", "clusters", "cpu-2core.ini"), encoding="utf-8") as file:
        write("any.ini", file.read() + "tflops-bf16 = 0.1\ntflops-fp16 = 0.1\n")
    small = SMALL.split()
    do("data", "tokenize", "a.txt", "--to", "a.bin")
    do(
        "data",
        "synth-clicks",
        "--to",
        "clicks",
        "--samples",
        "400",
        "--features",
        "2",
        "--bag",
        "2",
        "--dense",
        "2",
        "--rows",
        "50",
    )
    do("train", *small, "--save", "gpt")
    do("train", *small, "--arch", "llama", "--save", "llama")
    do("checkpoint", "export", "gpt", "--to", "hf", "hf.safetensors")
    do("checkpoint", "export", "gpt", "--to", "llmc", "llmc.bin")
    do(
        "train",
        "--arch",
        "dlrm",
        *(
            "--features 2 --bag 2 --dense 2 --mlp-bottom 8 --mlp-top 8 --hidden 4 --vocab 50 --global-batch 4 --steps "
            "2 "
            "--threads 1 --metrics= --data clicks --save dlrm"
        ).split(),
    )
    do("train", *small, "--arch", "mixtral", "--experts", "4", "--save", "moe")
    do("oracle", "record", *small, "--steps", "1", "--out", "record")


# ---- all of them ----
def report(found, exceptions):
    of_train, failed = own_options("train", []), 0
    for command in COMMANDS:
        for option in own_options(command, of_train):
            name = f"{command} {option}"
            whys = found.pop(name, None)
            wrong = "it has no case in own.txt, and no exception" if whys is None else None if None in whys else whys[0]
            if FILTER not in name or (name in exceptions and whys is None):
                exceptions.pop(name, None)
            elif wrong:
                print(f"not ok options of commands: {name}: {wrong}")
            else:
                print(f"ok options of commands: {name}")
    for name in [*found, *exceptions]:
        print(f"not ok options of commands: {name}: no help lists it")


def main():
    exceptions = dict(line.split(" | ") for line in lines_of("own-exceptions.txt"))
    if len(exceptions) > MOST_EXCEPTIONS:
        print(f"not ok options of commands: {len(exceptions)} exceptions, and at most {MOST_EXCEPTIONS} are allowed")
    with tempfile.TemporaryDirectory() as fixtures, concurrent.futures.ThreadPoolExecutor(
        int(os.environ.get("JOBS", "2"))
    ) as pool:
        make_fixtures(fixtures)
        found = {}
        for case in read_cases():
            name = f"{case.command} {case.option}"
            if FILTER in name:
                found.setdefault(name, []).append(pool.submit(judge, case, fixtures))
        report_plan(fixtures, pool)
        report({name: [future.result() for future in futures] for name, futures in found.items()}, exceptions)


COMMANDS = commands()
main()

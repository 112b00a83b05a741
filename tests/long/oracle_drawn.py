"""Bugs drawn by readers who had not seen the detector: each is planted in a framework from outside, its adapter
(tools/oracle) trains with it, and `trivium oracle check` must name the tensor that was predicted.

    python oracle_drawn.py TRIVIUM [DOC]        ONLY=WORD: rows with that word; JOBS: runs at a time, 2; SHOW=1: reports
                                                KEEP=FOLDER: references are made there once

Rows `ok`, `not ok` or `skip`, then a table. DOC: the page whose table must say the same. A bug is a function below (or
in oracle_drawn_frameworks.py) that takes the adapter's module and changes what it, PyTorch or transformers does:

    @bug("torch_fsdp", "what", first="1 backward *.weight.grad", suspect="unaveraged", arguments="--dtype bf16")

first: step, phase and tensor that a right report names first, with the stars of a shell; `A | B`: either. suspect: what
a right suspect's line matches, a regular expression; "": no suspect is right. missed: why a report is known to say
another thing. reference: one of REFERENCES; else the adapter's own of DEFAULTS."""
import atexit
import contextlib
import fnmatch
import importlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Callable, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA = "--arch llama --hidden 64 --heads 8 --kv-heads 4 --ffn 128 --tie off --steps 3"
REFERENCES = {      # as in tests/long/oracle.sh
    "gpt": "--steps 3",
    "llama": f"{LLAMA} --layers 4",
    "experts": "--arch mixtral --experts 4 --experts-per-token 2 --capacity 0 --aux-loss 0 --z-loss 0 --hidden 64 "
               "--heads 8 --kv-heads 4 --ffn 64 --tie off --steps 3 --layers 2 --depth ops",
    "modules": f"{LLAMA} --layers 2 --depth ops"}
DEFAULTS = {"torch_tp": "modules", "torch_fsdp": "llama", "torch_cp": "modules", "hf_tp": "modules",
            "hf_ep": "experts", "torchtitan_llama": "modules", "deepspeed_zero": "gpt", "megatron_core": "modules",
            "megatron_moe": "experts"}
NEEDS = {"torchtitan_llama": "torchtitan", "deepspeed_zero": "deepspeed", "megatron_core": "megatron.core",
         "megatron_moe": "megatron.core"}
LIMIT_S = 900


class Bug(NamedTuple):
    adapter: str
    name: str
    text: str
    plant: Callable
    first: str
    ranks: int = 2
    arguments: str = ""
    suspect: str = ""
    missed: str = ""
    reference: str = ""


BUGS = {}       # adapter: bugs


def bug(adapter, text, first, **more):
    def enter(plant):
        BUGS.setdefault(adapter, []).append(Bug(adapter, plant.__name__, text, plant, first, **more))
        return plant
    return enter


# ---- what bugs are made of ----
def rank():
    return int(os.environ["RANK"])


def ranks():
    return int(os.environ["WORLD_SIZE"])


def wrap(owner, name, around):
    """owner.name(...) becomes around(what it was, ...)."""
    was = getattr(owner, name)
    setattr(owner, name, lambda *a, **k: around(was, *a, **k))


def when_loaded(change):
    """change(model), with the reference's weights, before the recorder and the wrappers."""
    def around(was, *a, **k):
        model = was(*a, **k)
        change(model)
        return model
    wrap(importlib.import_module("recorder").Reference, "load", around)


def before_gradients_are_recorded(change):
    """change(model), after backward and what the framework sums, before clipping."""
    def around(was, recorder):
        change(recorder.models[0])
        was(recorder)
    wrap(importlib.import_module("recorder").Recorder, "gradients", around)


def after_gradients_are_recorded(change):
    def around(was, recorder):
        was(recorder)
        change(recorder.models[0])
    wrap(importlib.import_module("recorder").Recorder, "gradients", around)


# ---- PyTorch, tensor parallel ----
@bug("torch_tp", "o_proj of block 1 has its gradients twice: it is reduced by hand, too",
     first="1 backward model.layers.1.self_attn.o_proj.weight.grad", suspect="ratio")
def o_proj_twice(adapter):
    def change(model):
        model.model.layers[1].self_attn.o_proj.weight.grad *= 2
    before_gradients_are_recorded(change)


# ---- running them ----
def rank_of(case, index, port, reference, run):
    """In a process of its own: rank index trains."""
    log = os.open(f"{run}.log-{index}", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(RANK=str(index), LOCAL_RANK=str(index), WORLD_SIZE=str(case.ranks), MASTER_ADDR="127.0.0.1",
                      LOCAL_WORLD_SIZE=str(case.ranks), MASTER_PORT=str(port), GROUP_RANK="0")
    atexit._clear()         # what the parent has left to do is not this process's
    status = 1
    try:
        module = importlib.import_module(case.adapter)
        case.plant(module)
        sys.argv = [case.adapter, reference, run, *case.arguments.split()]
        module.main()
        status = 0
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def train(case, reference, run):
    """All ranks; None, or what went wrong."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    left, failed, began = {}, None, time.monotonic()
    for index in range(case.ranks):
        pid = os.fork()
        if not pid:
            rank_of(case, index, port, reference, run)
        left[pid] = index
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            time.sleep(0.1)
        late = time.monotonic() - began > LIMIT_S
        index = left.pop(pid, None)
        if late or status:
            with open(f"{run}.log-{index or 0}") as f:
                last = (f.read().strip() or "nothing said").splitlines()[-1]
            failed = failed or (f"no end in {LIMIT_S} s" if late else f"rank {index} ended with {status}: {last}")
            for other in left:
                os.kill(other, signal.SIGKILL)
    return failed


def found(first, report):
    """Step, phase and tensor of the report's first line, and whether they are those of `first`."""
    line = re.search(r"first wrong: step (\d+), (\w+)(?:, layer \d+)?: (\S+)", report)
    said = line and " ".join(line.groups())
    return said, bool(said) and any(fnmatch.fnmatchcase(said, x.strip()) for x in first.split("|"))


def judge(case, trivium, work):
    """Train and check: the row, and what the table counts of it (found, named, suspect)."""
    run, reference = f"{work}/{case.adapter}-{case.name}", f"{work}/{case.reference or DEFAULTS[case.adapter]}"
    row = f"oracle_drawn_{case.adapter}_{case.name}"
    failed = train(case, reference, run)
    if failed:
        return f"not ok {row} {failed}", (0, 0, 0)
    check = subprocess.run([trivium, "oracle", "check", run, reference], capture_output=True, text=True)
    shutil.rmtree(run)
    said, named = found(case.first, check.stdout)
    suspect = re.search(r"suspect: (.*)", check.stdout)
    right = bool(suspect and case.suspect and re.search(case.suspect, suspect[1]))
    text = "right" if right else "FALSE: " + suspect[1] if suspect else "none"
    ok = said and named != bool(case.missed)
    row = f"{'ok' if ok or case.missed and not said else 'not ok'} {row} {said or check.stderr or 'all right'}"
    row += f"; predicted: {case.first}" if not named else ""
    row += f"; known to be missed: {case.missed}" if case.missed else ""
    report = "".join(f"\n    {line}" for line in check.stdout.splitlines()) if os.environ.get("SHOW") or not ok else ""
    return f"{row}; suspect {text}{report}", (int(bool(said)), int(named), int(right))


def references(trivium, work, names):
    for name in sorted(x for x in names if not os.path.exists(f"{work}/{x}/recording.json")):
        subprocess.run([trivium, "oracle", "record", "--out", f"{work}/{name}", *REFERENCES[name].split(), "--log",
                        "warn"], check=True, stdout=subprocess.DEVNULL)


def there(adapter):
    try:
        return adapter not in NEEDS or importlib.util.find_spec(NEEDS[adapter]) is not None
    except ModuleNotFoundError:
        return False


def run_all(cases, trivium, work, jobs):
    """Yield each case with its row and counts, in the order in which they end."""
    waiting, running = list(cases), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            case = waiting.pop(0)
            out, into = os.pipe()
            pid = os.fork()
            if not pid:
                try:
                    answer = judge(case, trivium, work)
                except BaseException as e:
                    answer = f"not ok oracle_drawn_{case.adapter}_{case.name} {e!r}", (0, 0, 0)
                os.write(into, repr(answer).encode())
                os._exit(0)
            os.close(into)
            running[pid] = case, out
        pid, _ = os.wait()
        case, out = running.pop(pid)
        with os.fdopen(out) as f:
            yield case, *eval(f.read())


def table(counts):
    lines = ["| Adapter | Drawn | Found | Named rightly | With a right suspect |", "|---|---|---|---|---|"]
    return lines + [f"| `{adapter}.py` | {' | '.join(str(n) for n in row)} |" for adapter, row in counts.items()]


def main():
    trivium, *pages = sys.argv[1:]
    only = os.environ.get("ONLY", "")
    cases = [c for row in BUGS.values() for c in row if only in f"oracle_drawn_{c.adapter}_{c.name}"]
    for case in [c for c in cases if not there(c.adapter)]:
        print(f"skip oracle_drawn_{case.adapter}_{case.name} no {NEEDS[case.adapter]} in this Python")
        cases.remove(case)
    counts = {c.adapter: [0] * 4 for c in cases}
    keep = os.environ.get("KEEP")
    with contextlib.nullcontext(keep) if keep else tempfile.TemporaryDirectory() as work:
        references(os.path.abspath(trivium), work, {c.reference or DEFAULTS[c.adapter] for c in cases})
        for case, row, (*each,) in run_all(cases, os.path.abspath(trivium), work, int(os.environ.get("JOBS", 2))):
            print(row, flush=True)
            counts[case.adapter] = [a + b for a, b in zip(counts[case.adapter], [1, *each])]
    lines = table(counts)
    print("\n".join(f"# {line}" for line in lines))
    for page in pages if not only else []:
        with open(page) as f:
            text = f.read()
        for line in lines[2:]:
            print(f"{'ok' if line in text else 'not ok'} oracle_drawn_page {line}")


if __name__ == "__main__":
    sys.modules["oracle_drawn"] = sys.modules["__main__"]
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tools", "oracle")]
    os.environ.update(OMP_NUM_THREADS="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1",
                      DS_ACCELERATOR="cpu")
    if os.path.exists(f"{HERE}/oracle_drawn_frameworks.py"):
        import oracle_drawn_frameworks  # noqa: F401
    import torch  # noqa: F401   once, for all that are forked
    import transformers  # noqa: F401
    main()

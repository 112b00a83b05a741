"""there: on the machine with the GPU, one command with a limit. After each row it rewrites, into the folder --out:

    summary.txt    a line a row
    results.json   every number
    results.tgz    both, and the logs

A row begins only if its limit fits into what is left. What is killed has lost the row that ran, and no other.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time

from . import common
from .common import PACK, ROOT, TREE, Trouble


class NotRun(Exception):
    """The row cannot run here; why."""


class Failed(Exception):
    """What it shows is wrong; what."""


class OutOfTime(Exception):
    pass


class Here:
    """The machine, and one row after the other."""

    def __init__(self, device, out, seconds):
        self.device, self.out, self.started = device, out, time.monotonic()
        self.end = self.started + seconds - 5  # for the last archive
        self.bin = os.path.join(PACK, "bin")
        self.env = dict(os.environ)
        self.pack = self.predictions = None
        self.row = self.row_end = self.log = None
        self.data = {}
        os.makedirs(os.path.join(out, "logs"), exist_ok=True)

    def left(self):
        return self.end - time.monotonic()

    # ---- what rows use ----
    def path(self, name):
        return os.path.join(self.out, "logs", name)

    def run(self, argv, env=None):
        """@return its exit code. Raises OutOfTime at the row's limit."""
        code = common.run(argv, self.log, self.row_end - time.monotonic(), env={**self.env, **(env or {})})
        if code is None:
            raise OutOfTime
        return code

    def must(self, argv, env=None):
        code = self.run(argv, env)
        if code != 0:
            raise Failed(
                f"{os.path.basename(argv[0])} {' '.join(argv[1:3])} ended with code {code}: {self.last_line()}"
            )

    def last_line(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            lines = [line.strip() for line in f if line.strip()]
        errors = [line for line in lines if "E_" in line]
        return (errors or lines or ["no output"])[-1][:200]

    def trivium(self, *words):
        return [os.path.join(self.bin, "trivium"), *words]

    def metrics(self, *words):
        """Runs it; the rows of its metrics file, which is named after the row."""
        path = self.path(f"{self.row.name}.jsonl")
        if os.path.exists(path):
            os.remove(path)
        self.must(self.trivium(*words, "--metrics", path))
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()


# ---- the pack ----
def open_pack(here):
    path = os.path.join(PACK, "pack.json")
    if os.path.exists(common.ARCHIVE):  # each time: a folder of an earlier call may be another pack's
        shutil.rmtree(PACK, ignore_errors=True)  # a program that still runs from it stays as it is; none writes over it
        common.unpack(common.ARCHIVE, os.path.dirname(PACK))
    if not os.path.exists(path):
        raise Trouble(
            f"there is no {os.path.relpath(PACK, ROOT)}; make it where there is a network: tools/gpu-rented prepare"
        )
    here.pack = common.read_json(path)
    if here.pack["device"] != here.device:
        raise Trouble(
            f"{os.path.relpath(PACK, ROOT)} is for --device {here.pack['device']}; give that, or prepare "
            f"--device {here.device}"
        )
    here.predictions = common.read_json(os.path.join(PACK, "predictions.json"))
    env = os.path.join(TREE, "env.sh")
    if os.path.exists(env):
        said = subprocess.run(["bash", "-c", f'. "{env}" && env -0'], capture_output=True, check=True).stdout.decode()
        here.env.update(line.split("=", 1) for line in said.split("\0") if "=" in line)
    here.env.update(
        BUILD=here.bin,
        GPU_TREE=TREE,
        TEST_LAUNCH="own",
        GPU_CHECK_COMMIT=here.pack["commit"],
        GPU_CHECK_DEVICE=here.device,
        GPU_CHECK_DIR=os.path.join(here.out, "logs"),
        GPU_CHECK_OUT=here.out,
        GPU_CHECK_BUILD=here.bin,
        GPU_CHECK_MODEL="gpt2-124m",
    )
    if here.device != "cuda":
        here.env.setdefault("GPU_CHECK_FILTER", "gelu")  # the emulator is slow


# ---- what is kept ----
def keep(here, rows, gpu):
    common.write_json(
        os.path.join(here.out, "results.json"),
        {
            "device": here.device,
            "rehearsal": here.device != "cuda",
            "gpu": gpu,
            "commit": here.pack["commit"],
            "date": common.now(),
            "predictions": here.predictions,
            "rows": rows,
        },
    )
    head = f"{gpu or 'no GPU'}, commit {here.pack['commit']}, {common.now()}\n"
    if here.device != "cuda":
        head += "REHEARSAL on the emulated device, tiny sizes: says that the rows work, and nothing of any GPU\n"
    common.write_whole(
        os.path.join(here.out, "summary.txt"),
        head + "".join(f"{r['row']:14} {r['result']:12} {r['seconds']:6.1f} s  {r['note']}\n" for r in rows),
    )
    archive = os.path.join(here.out, "results.tgz")
    with tarfile.open(archive + ".new", "w:gz", compresslevel=1) as tar:
        for name in ("results.json", "summary.txt", "logs"):
            tar.add(os.path.join(here.out, name), name, filter=lambda m: None if m.size > 4 << 20 else m)
    os.replace(archive + ".new", archive)


def run_row(here, row):
    here.row, here.log, here.data = row, here.path(f"{row.name}.log"), {}
    open(here.log, "w", encoding="utf-8").close()
    started = time.monotonic()
    here.row_end = started + row.limit
    result, note = "passed", ""
    try:
        note = row.do(here)
    except NotRun as e:
        result, note = "not run", str(e)
    except Failed as e:
        result, note = "failed", str(e)
    except OutOfTime:
        result, note = "out of time", f"ended at its limit, {row.limit} s"
    except (OSError, KeyError, ValueError, TypeError, IndexError) as e:  # a file that is not as it should be
        result, note = "failed", f"{type(e).__name__}: {e}"
    return {
        "row": row.name,
        "what": row.what,
        "result": result,
        "note": note or "",
        "limit_s": row.limit,
        "seconds": round(time.monotonic() - started, 1),
        "date": common.now(),
        "data": here.data,
    }


def gpu_name(device):
    if device != "cuda":
        return ""
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=True
        )
        return said.stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return ""


def there(device, out, seconds, chosen):
    """@return the exit code: 0 all passed, 1 something failed, 3 something was not run"""
    here = Here(device, os.path.abspath(out), seconds)
    open_pack(here)
    rows, gpu = [], gpu_name(device)
    for row in chosen:
        if here.left() < row.limit:
            done = {
                "row": row.name,
                "what": row.what,
                "result": "no time",
                "seconds": 0.0,
                "limit_s": row.limit,
                "data": {},
                "note": f"its limit is {row.limit} s, and {max(here.left(), 0):.0f} s are left",
                "date": common.now(),
            }
        else:
            done = run_row(here, row)
        rows.append(done)
        keep(here, rows, gpu)
        print(f"{done['row']:14} {done['result']:12} {done['seconds']:6.1f} s  {done['note']}", flush=True)
        if row.name == "programs" and done["result"] != "passed":
            break  # without them nothing else can run
    print(f"written: {here.out}/summary.txt, results.json, results.tgz", file=sys.stderr)
    results = {r["result"] for r in rows}
    return 1 if results & {"failed", "out of time"} else 3 if results - {"passed"} else 0

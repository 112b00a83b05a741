"""What all three share: paths, shapes, the sources' hash, and processes that end with the one that started them."""

import ctypes
import hashlib
import json
import os
import signal
import subprocess
import tarfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD_NAME", "build")
# what prepare makes, and there reads
PACK = os.environ.get("GPU_RENTED_PACK") or os.path.join(ROOT, BUILD, "gpu-rented")
ARCHIVE = PACK + ".txz"
TREE = os.path.join(PACK, "tree")  # libraries (tools/gpu-pack)
PROGRAMS = ("trivium", "trivium-tests", "bench-kernels", "bench-step")
SUFFIXES = (".c", ".h", ".cu", ".cpp", "Makefile")


class Trouble(Exception):
    """A request that cannot be met: one line."""


def write_whole(path, text):
    """A reader sees the old file or the new one, never half of it."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def write_json(path, value):
    write_whole(path, json.dumps(value, indent=1) + "\n")


def unpack(path, folder, members=None):
    """tarfile filters what it unpacks from 3.11.4 on; an older one unpacks as it always has."""
    filtered = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(path) as tar:
        tar.extractall(folder, members=members and [tar.getmember(m) for m in members], **filtered)


def sources():
    """Every file that a program is made of, in order; build folders aside."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(d for d in folders if not d.startswith((".", "build")))
        yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(SUFFIXES))


def hash_of_sources():
    """A copy of the tree has no .git; programs are of these sources if their hash is the same."""
    h = hashlib.sha256()
    for path in sources():
        with open(path, "rb") as f:
            h.update(os.path.relpath(path, ROOT).encode() + b"\0" + f.read() + b"\0")
    return h.hexdigest()


def _end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run(argv, log, seconds, env=None, cwd=ROOT):
    """Runs argv with its output appended to the file `log`, in a group of its own, which is killed after `seconds`.
    @return its exit code; None: out of time"""
    with open(log, "ab") as out:
        out.write(("$ " + " ".join(argv) + "\n").encode())
        out.flush()
        process = subprocess.Popen(
            argv,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        try:
            return process.wait(max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


# ---- shapes ----
# The models that are trained, by name: options, batch, and milliseconds of a step that docs/gpu.md expects of an H100.
# They are trained on one token a byte of configs/demo.txt, with GPT-2's vocabulary: the work is that of any text.
MODELS = {
    "124m": ("--layers 12 --hidden 768 --heads 12", 64, 110),
    "350m": ("--layers 24 --hidden 1024 --heads 16", 32, 160),
    "774m": ("--layers 36 --hidden 1280 --heads 20", 24, 246),
    "1558m": ("--layers 48 --hidden 1600 --heads 25", 12, 242),
}
TINY = ("--layers 2 --hidden 64 --heads 2", 4, None)


def shape(model, device):
    """Options of a model's sizes, and its batch. On the emulated device every model is a tiny one."""
    sizes, batch, _ = MODELS[model] if device == "cuda" else TINY
    seq, vocab = (1024, 50257) if device == "cuda" else (32, 512)
    return sizes.split() + ["--seq", str(seq), "--vocab", str(vocab)], batch


def batch_options(batch):
    return ["--global-batch", str(batch), "--micro-batch", str(batch)]


# A curve that the CPU computes in fp32 when the pack is made, and the GPU in bf16: the same weights, the same data.
CURVE = (
    "--layers 4 --hidden 128 --heads 4 --seq 64 --vocab 256 --global-batch 12 --micro-batch 12 --lr 1e-3 "
    "--warmup 20 --data configs/demo.txt --val-fraction 0 --log warn"
).split()
CURVE_STEPS = {"cuda": 300, "simt": 6}

"""prepare: everything that needs no GPU, before one is paid for.

The pack, build/gpu-rented, and the archive of it, build/gpu-rented.txz, which travels:

    bin/              the programs, stripped, without MPI, for one kind of GPU and any x86-64-v3 processor
    tree/             the libraries that they need and a machine may lack (tools/gpu-pack)
    pack.json         commit, hash of the sources, device, when
    predictions.json  what `show memory` and `plan` say of each row
    curve.json        losses of a small model on this CPU, in fp32
"""

import json
import os
import shutil
import subprocess
import tarfile
import time

from . import common
from .common import BUILD, PACK, PROGRAMS, ROOT, TREE, Trouble

MOST_MB = 64  # the archive of the pack, and the sources


def say(text):
    print(f"tools/gpu-rented: {text}", flush=True)


def must(argv, what, env=None):
    log = os.path.join(PACK, "prepare.log")
    if common.run(argv, log, 3600, env=env) != 0:
        tail = open(log, encoding="utf-8", errors="replace").read().splitlines()[-8:]
        raise Trouble(f"{what} failed; the end of {os.path.relpath(log, ROOT)}:\n    " + "\n    ".join(tail))


def commit():
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)

    at = git("rev-parse", "--short", "HEAD")
    if at.returncode != 0:
        return "unknown"
    return at.stdout.strip() + ("" if git("diff", "--quiet", "HEAD").returncode == 0 else "-changed")


def environment_of_tree():
    """As env.sh of the tree leaves it: what is compiled here is linked to what is packed."""
    said = subprocess.run(["bash", "-c", f'. "{TREE}/env.sh" && env -0'], capture_output=True, check=True).stdout
    return dict(line.split("=", 1) for line in said.decode().split("\0") if "=" in line)


def build(device, arch):
    """@return the folder that the programs are in"""
    jobs = f"-j{os.cpu_count()}"
    if device == "simt":
        folder = BUILD + "-simt"
        must(
            ["make", jobs, "SIMT=1", f"{folder}/trivium", f"{folder}/trivium-tests", "bench-kernels", "bench-step"],
            "the emulated build",
        )
        return os.path.join(ROOT, folder)
    must(["tools/gpu-pack", TREE], "tools/gpu-pack", env={**os.environ, "MPI": "0"})
    folder = os.path.join(BUILD, "gpu-rented-make")
    settings = [
        "CUDA=1",
        "CUDNN=1",
        f"CUDA_ARCH={arch}",
        "MPI=0",
        "URING=",
        "SENTENCEPIECE=",
        "WERROR=",
        "ARCH=x86-64-v3",
        f"BUILD_NAME={folder}",
    ]
    must(
        ["make", jobs, *settings, f"{folder}/trivium", f"{folder}/trivium-tests", "bench-kernels", "bench-step"],
        f"the build for sm_{arch}",
        env=environment_of_tree(),
    )
    return os.path.join(ROOT, folder)


def take_programs(folder):
    os.makedirs(os.path.join(PACK, "bin"), exist_ok=True)
    for name in PROGRAMS:
        path = os.path.join(PACK, "bin", name)
        if subprocess.run(["strip", "-o", path, os.path.join(folder, name)], check=False).returncode != 0:
            raise Trouble(f"strip of {folder}/{name} failed")


# ---- what is expected ----
# Predictions are this CPU's business: the build that is here may be of another machine's kind, so that any will do that
# runs here. Those of the pack are for x86-64-v3.
def here(argv):
    program = os.path.join(PACK, "bin", "trivium")
    done = subprocess.run(
        [program, *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LD_LIBRARY_PATH": library_path()},
    )
    if done.returncode != 0:
        raise Trouble(f"trivium {' '.join(argv[:2])}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return done.stdout


def library_path():
    lib = os.path.join(TREE, "usr", "lib", "x86_64-linux-gnu")
    return ":".join([lib, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])


def predict(model, device):
    sizes, batch = common.shape(model, device)
    options = [*sizes, *common.batch_options(batch), "--precision", "bf16"]
    memory = json.loads(here(["show", "memory", *options, "--device", "cuda", "--json"]))
    plan = json.loads(here(["plan", *options, "--cluster", "dgx-h100", "--gpus", "1", "--json"]))
    best = plan["search"]["best"][0]
    return {
        "batch": batch,
        "bytes": memory["ranks"][0]["total"],
        "planned_ms": 1e3 * best["step_s"],
        "expected_ms": common.MODELS[model][2] if device == "cuda" else None,
    }


def record(device):
    steps = str(common.CURVE_STEPS[device])
    metrics = os.path.join(PACK, "curve.jsonl")
    here(["train", "--device", "cpu", "--precision", "fp32", *common.CURVE, "--steps", steps, "--metrics", metrics])
    with open(metrics, encoding="utf-8") as f:
        common.write_json(os.path.join(PACK, "curve.json"), [r["loss"] for r in map(json.loads, f) if "loss" in r])
    os.remove(metrics)


# ---- the end ----
def archive(device):
    """One file: programs that have the same kernels cost their size once in xz's window. @return its megabytes"""
    path = common.ARCHIVE
    with tarfile.open(path, "w:xz", preset=9 if device == "cuda" else 1) as tar:
        tar.add(PACK, os.path.basename(PACK))
    return os.path.getsize(path) / 1e6


def megabytes_of_sources():
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return sum(os.path.getsize(os.path.join(ROOT, f)) for f in files.split("\0") if f) / 1e6


def call(device):
    there = "tools/gpu-rented there --out results" + ("" if device == "cuda" else " --device simt")
    land = "tools/gpu-rented land results" + ("" if device == "cuda" else " --into landed")
    archive = os.path.relpath(common.ARCHIVE, ROOT)
    return f"""on the machine with the GPU, from a copy of the sources with {archive} in it:

    tar czf rented.tgz $(git ls-files) {archive}        # here
    tar xzf rented.tgz && {there}        # there
    {land}        # here, with the folder results of there
"""


def prepare(device, arch):
    started = time.time()
    say("builds the programs; this takes minutes")
    shutil.rmtree(PACK, ignore_errors=True)
    os.makedirs(PACK)
    take_programs(build(device, arch))
    built = time.time()
    common.write_json(os.path.join(PACK, "predictions.json"), {m: predict(m, device) for m in common.MODELS})
    record(device)
    common.write_json(
        os.path.join(PACK, "pack.json"),
        {"device": device, "arch": arch, "commit": commit(), "sources": common.hash_of_sources(), "date": common.now()},
    )
    pack, tree = archive(device), megabytes_of_sources()
    os.remove(os.path.join(PACK, "prepare.log"))
    say(
        f"{os.path.relpath(common.ARCHIVE, ROOT)}: {pack:.1f} MB, with the sources {pack + tree:.1f} MB; "
        f"{time.time() - started:.0f} s, {built - started:.0f} of them to build"
    )
    if pack + tree > MOST_MB:
        raise Trouble(f"that is more than {MOST_MB} MB")
    print(call(device))

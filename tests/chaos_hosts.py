"""Elastic jobs on three hosts, all of them this one, whose agents and ranks are killed and stopped at random: one line
a run, "ok NAME" or "not ok NAME: why".

  python3 tests/chaos_hosts.py BUILD WORK FIRST_SEED RUNS

Of every second run the agents are no children of launch, which cannot end them: a stopped agent's ranks live on, as
behind a cut network. The seed says which layout a run has, which rank or host is hurt, how and when: also before the
job has begun, and during the recovery from the act before. Then
  the job has come to its end: every step is in the metrics, and the loss of each row is within 1e-10 (fp64) of that of
    a run without kills
  or it has ended with the line that says why it must not go on: too few are left, or half of the ranks may live out of
    sight
  and no process is left.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time

TRAIN = ("train --data DEMO --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 12 --dropout 0.1 --val-fraction 0 "
         "--threads 1 "
         "--precision fp64 --steps 40 --save-every 10 --log info --inject slow=0,15").split()
LAYOUTS = ["--dp 4", "--dp 4 --zero 1", "--dp 4 --zero 2", "--dp 4 --zero 3", "--dp 2 --tp 2 --zero 1",
           "--dp 2 --pp 2 --zero 3"]
HOSTS = ["--host 127.0.0.2:2,127.0.0.3:2,127.0.0.4:2 --spares 2", "--host 127.0.0.2:2,127.0.0.3:1,127.0.0.4:1"]
MUST_END = ["so none does", "are left, and --elastic", "before the job began", "what should start its agent"]
FAR = '#!/bin/sh\nexec 3<&0\nsetsid "$@" <&3 &\nexec sleep 300\n'
MARK = "TRIVIUM_CHAOS_TEST"


def losses(path):
    with open(path) as file:
        rows = [json.loads(line) for line in file if '"loss"' in line and line.endswith("}\n")]
    return [(row["step"], row["loss"]) for row in rows]


def processes(mark, word=None, rank=None):
    """Those of the job: all, the agent with this word among its own, or a rank."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read().decode(errors="replace").split("\0")
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if mark in environment and (word is None or word in words) \
                and (rank is None or f"OMPI_COMM_WORLD_RANK={rank}" in environment):
            found.append(int(pid))
    return found


def hurt(draw, mark):
    """One act. @return what it was"""
    what, host, rank = draw.choice(
        ["agent", "agent", "stop", "rank"]), f"127.0.0.{draw.randrange(2, 5)}", draw.randrange(6)
    for pid in (processes(mark, rank=rank) if what == "rank" else processes(mark, word=host))[:1]:
        try:
            os.kill(pid, signal.SIGSTOP if what == "stop" else signal.SIGKILL)
        except ProcessLookupError:
            pass
    return f"rank {rank}" if what == "rank" else f"{what} {host}"


def one_run(exe, train, work, seed, whole):
    """@return why it is wrong, or None; and what was done"""
    draw, mark, acts = random.Random(seed), f"{MARK}={os.getpid()}.{seed}", []
    rows, saved = os.path.join(work, f"rows.{seed}"), os.path.join(work, f"saved.{seed}")
    words = [exe, "launch", "--comm-transport", "direct"] + draw.choice(HOSTS).split()
    words += ["--elastic", "1", "--heartbeat-timeout", "2"]
    words += ["--agent-command", os.path.join(work, "far")] if seed % 2 else []
    layout = draw.choice(LAYOUTS)
    words += train + layout.split() + ["--replicate-every", "1", "--save", saved, "--metrics", rows]
    environment = dict(os.environ, **{MARK: mark.split("=")[1]})
    job = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    for _ in range(draw.choice([1, 1, 2])):
        time.sleep(draw.uniform(0.05, 3))
        acts.append(hurt(draw, mark))
    try:
        said = job.communicate(timeout=240)[1]
    except subprocess.TimeoutExpired:
        job.kill()
        return "does not end", f"{layout}; {acts}"
    done = f"{layout}; {', '.join(acts)}; {said.count('goes on with')} epochs"
    time.sleep(0.5)
    left = processes(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    if left:
        return f"leaves {len(left)} processes", done
    if job.returncode != 0:
        ended = job.returncode == 1 and any(text in said for text in MUST_END)
        return (None if ended else f"code {job.returncode}: {said[-2000:]}"), done + ", and the end"
    got = losses(rows)
    worst = max(abs(loss / whole[step] - 1) for step, loss in got)
    return (None if {step for step, _ in got} == set(whole) and worst <= 1e-10 else f"other losses: {worst}"), done


def main():
    build, work, first, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    exe = os.path.join(os.path.abspath(build), "trivium")
    train = [os.path.abspath("configs/demo.txt") if word == "DEMO" else word for word in TRAIN]
    rows = os.path.join(work, "rows")
    subprocess.run([exe] + train + ["--save", os.path.join(work, "saved"), "--metrics", rows], check=True,
                   stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    whole = dict(losses(rows))
    with open(os.path.join(work, "far"), "w") as file:
        file.write(FAR)
    os.chmod(file.name, 0o755)
    for seed in range(first, first + runs):
        why, done = one_run(exe, train, work, seed, whole)
        print(f"{'not ok' if why else 'ok'} chaos_hosts_{seed}{': ' + why if why else ''}  # {done}", flush=True)


main()

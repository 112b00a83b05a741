"""Elastic jobs under chaos, and what came of them: one line a run, "ok NAME" or "not ok NAME: why".

  python3 tests/chaos_runs.py BUILD WORK FIRST_SEED RUNS [cuda]

Each run takes a layout, spares, an algorithm and a distance of snapshots by its seed; `launch --chaos` kills, stops and
slows its ranks, and cuts connections where there are several hosts, emulated or with an agent each; dead ranks are
started again in two of three. Then
  every step is in the metrics, and the loss of each row, also of those that were done again, is that of a run without
    kills: to the bit as long as the number of ranks stayed (a spare took each dead one's place), else within 1e-10
    (fp64)
  no process and no shared memory is left
With `cuda` the ranks have GPUs, which may be emulated (a build with SIMT=1, docs/simt.md), and sums go through NCCL or
the host. The last line says how long it took from a death to the next step, over all runs.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

TRAIN = ("train --data DEMO --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 12 --dropout 0.1 --val-fraction 0 "
         "--threads 1 "
         "--precision fp64 --steps 120 --micro-batch 1 --log info").split()
CUDA = "--device cuda --layers 2 --hidden 32 --heads 2 --seq 16 --steps 40".split()      # emulated kernels are slow
LAYOUTS = [(4, 1, "--dp 4"), (4, 1, "--dp 4 --zero 1"), (4, 1, "--dp 4 --zero 2"), (4, 1, "--dp 4 --zero 3"),
           (6, 1, "--dp 6 --zero 3"),
           (4, 2, "--dp 2 --tp 2 --zero 1"), (4, 2, "--dp 2 --pp 2 --zero 3"), (8, 2, "--dp 4 --tp 2 --zero 2"),
           (8, 4, "--dp 2 --tp 2 --pp 2"), (6, 2, "--dp 3 --pp 2 --zero 1"),
           (4, 2, "--dp 2 --cp 2 --cp-by ring --zero 3")]
ALGORITHMS = ["auto", "pairwise", "ring"]     # of those that take any number of ranks
MARK = "TRIVIUM_CHAOS_TEST"


def losses(path):
    with open(path) as file:
        rows = [json.loads(line) for line in file if '"loss"' in line and line.endswith("}\n")]
    return [(row["step"], row["loss"]) for row in rows]


class Runs:
    def __init__(self, build, work, cuda):
        self.exe = os.path.join(os.path.abspath(build), "trivium")
        self.train = [os.path.abspath("configs/demo.txt") if word == "DEMO" else word for word in TRAIN]
        self.train += CUDA if cuda else []
        self.work, self.cuda, self.whole, self.seconds = work, cuda, {}, []

    def emulator(self, seed):
        """What tests/simt/fake*.h read: the order of a GPU's streams, whether NCCL sees that a peer has died, and how
        long it takes to begin."""
        wire = os.path.join(self.work, "wire")
        shutil.rmtree(wire, ignore_errors=True)
        os.mkdir(wire)
        return {"SIMT_WIRE": wire, "SIMT_STREAMS": ["late", "random"][seed % 2], "SIMT_SEED": str(seed),
                "SIMT_DEATHS": ["", "seen"][seed // 2 % 2],
                "SIMT_MEETING": ["0", "0.1"][seed // 4 % 2]}

    def launch(self, words, name, seconds, seed=0):
        """@return exit code, the job's standard error, its rows of metrics"""
        metrics = os.path.join(self.work, name + ".rows")
        env = dict(os.environ, OMP_NUM_THREADS="1", **{MARK: name}, **(self.emulator(seed) if self.cuda else {}))
        if os.path.exists(metrics):
            os.remove(metrics)
        try:
            done = subprocess.run([self.exe, "launch", "--comm-transport", "direct"] + words + ["--metrics", metrics],
                                  env=env, cwd=self.work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=seconds)
        except subprocess.TimeoutExpired as late:
            return None, (late.stderr or b"").decode(), []
        return done.returncode, done.stderr.decode(), losses(metrics)

    def of_nobody_killed(self, ranks, options):
        key = (ranks, options)
        if key not in self.whole:
            code, err, rows = self.launch(["-n", str(ranks)] + self.train + options.split(), "whole", 300)
            if code != 0:
                raise SystemExit("chaos: a run without chaos ends with %s: %s" % (code, err))
            self.whole[key] = dict(rows)
        return self.whole[key]

    def left(self, name):
        """Processes of the run that are still there."""
        mark, there = ("%s=%s" % (MARK, name)).encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as file:
                    if mark in file.read().split(b"\0"):
                        there.append(pid)
            except OSError:
                pass
        return there

    def compare(self, rows, whole, stayed):
        worst, steps = 0.0, {step for step, _ in rows}
        if steps != set(whole):
            return "%d of %d steps are in the metrics" % (len(steps), len(whole))
        for step, loss in rows:
            worst = max(worst, abs(loss / whole[step] - 1))
        return None if worst <= (0 if stayed else 1e-10) else "a loss is off by " \
               "%.3g%s" % (worst, ", and the ranks stayed" if stayed else "")

    def hosts(self, ranks, spares, n, by_name):
        """One agent, with n emulated hosts; or an agent on each of n, which are all this one."""
        if n == 1 or not by_name:
            return ["-n", str(ranks), "--nodes", str(n)]
        each = [(ranks + spares + h) // n for h in range(n)]
        return ["--host", ",".join("127.0.0.%d:%d" % (2 + h, k) for h, k in enumerate(each))]

    def one(self, seed):
        ranks, each, options = LAYOUTS[seed % len(LAYOUTS)]
        spares, every = seed // 3 % 3, 1 + seed // 2 % 3
        nccl = self.cuda and seed % 3 < 2
        options += " --comm-algorithm " + ALGORITHMS[seed % len(ALGORITHMS)]
        options += " --comm " + ("nccl" if nccl else "mpi") if self.cuda else ""
        name = "chaos_%d" % seed
        hosts = 1 if nccl else 1 + seed // 5 % 3  # on one machine two hosts' ranks share its GPUs, which NCCL refuses
        words = self.hosts(ranks, spares, hosts, seed % 4 > 1)
        words += ["--elastic", str(each * (1 + seed % 2)), "--spares", str(spares), "--respawn", str(seed // 7 % 3 * 4),
                  "--hang-timeout", "1.5"]
        words += ["--chaos", str(seed), "--chaos-every", "0.35"]
        whole = self.of_nobody_killed(ranks, options)
        code, err, rows = self.launch(words + self.train + options.split() + ["--replicate-every", str(every)],
                                      name, 120, seed)
        if code != 0:
            return name, "%s after %s" % ("no end within 120 s" if code is None else "code %d" % code,
                                          err.strip().replace("\n", " | "))
        stayed = all(int(n) == ranks for n in re.findall(r"goes on with (\d+) ranks", err))
        why = self.compare(rows, whole, stayed)
        if why:
            return name, "%s (%s, %d spares, every %d): %s" % (why, options, spares, every,
                                                               err.strip().replace("\n", " | "))
        time.sleep(0.2)
        if self.left(name):
            return name, "processes are left: %s" % self.left(name)
        said = re.search(r"to the next step ([\d.]+) s at the median, ([\d.]+) s at most", err)
        self.seconds += [tuple(map(float, said.groups()))] if said else []
        return name, None


def main(build, work, first, n, device="cpu"):
    runs = Runs(build, work, device == "cuda")
    for seed in range(first, first + n):
        name, why = runs.one(seed)
        print("ok " + name if why is None else "not ok %s: %s" % (name, why), flush=True)
    if runs.seconds:
        medians = sorted(median for median, _ in runs.seconds)
        print("# from a death to the next step, found out late or at once: median of medians %.2f s, at most %.2f s" %
              (medians[len(medians) // 2], max(most for _, most in runs.seconds)))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])

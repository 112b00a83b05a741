"""Strangers at an elastic job of three hosts, all of them this one (127.0.0.2 to 4): they reach its ports, and do not know its secret. One line a
case: "ok NAME", or "not ok NAME: why".

  python3 tests/strangers.py BUILD WORK [CASE...]
"""
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time

SECRET = os.urandom(32).hex()
HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
TRAIN = ("train --data DEMO --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 12 --val-fraction 0 --threads 1 --precision fp64 "
         "--micro-batch 1 --dp 4 --zero 1 --replicate-every 1 --log info").split()
CROWD = 1000


class Job:
    """launch, and agents that come by themselves: to where launch listens, or to what stands before it."""

    def __init__(self, build, work, name, steps, more=(), started=False):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.at = free.getsockname()
        self.exe, self.work, self.name, self.agents = os.path.join(os.path.abspath(build), "trivium"), work, name, []
        self.rows, self.said = os.path.join(work, name + ".rows"), os.path.join(work, name + ".err")
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", TRIVIUM_SECRET=SECRET)
        words = [self.exe, "launch", "--comm-transport", "own", "--host", ",".join(h + ":2" for h in HOSTS), "--spares", "2", "--elastic", "2"]
        words += ["--meet", f"127.0.0.1:{self.at[1]}"] + ([] if started else ["--agent-command", "none"]) + list(more)
        words += [os.path.abspath("configs/demo.txt") if word == "DEMO" else word for word in TRAIN] + ["--steps", str(steps), "--metrics", self.rows]
        with open(self.said, "w") as file:
            self.launch = subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file)

    def add_agents(self, port=None, hosts=None):
        for host in hosts or HOSTS:
            with open(os.path.join(self.work, f"{self.name}.{host}.err"), "w") as file:
                words = [self.exe, "agent", "--meet", f"127.0.0.1:{port or self.at[1]}", "--host", host]
                self.agents.append(subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file))

    def losses(self):
        try:
            with open(self.rows) as file:
                rows = [json.loads(line) for line in file if '"loss"' in line and line.endswith("}\n")]
        except OSError:
            return {}
        return {row["step"]: row["loss"] for row in rows}

    def says(self, text, seconds=0.0):
        until = time.time() + seconds
        while True:
            with open(self.said) as file:
                if text in file.read():
                    return True
            if time.time() > until or self.launch.poll() is not None and seconds == 0:
                return False
            time.sleep(0.05)

    def wait_for_step(self, step, seconds=60):
        until = time.time() + seconds
        while time.time() < until and self.launch.poll() is None and max(self.losses(), default=0) < step:
            time.sleep(0.05)
        return max(self.losses(), default=0) >= step

    def lighthouse(self):
        return next(pid for pid in children(self.launch.pid) if b"agent" in command(pid).split(b"\0")[:2])

    def end(self, seconds=120):
        """@return launch's exit code; None: it does not end"""
        try:
            code = self.launch.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        for process in [self.launch] + self.agents:
            if process.poll() is None:
                process.kill()
            process.wait()
        return code


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def stat_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def children(parent):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(stat_of(pid)[1]) == parent:
                found.append(int(pid))
        except OSError:
            continue
    return found


def processor_s(pid):
    return (int(stat_of(pid)[11]) + int(stat_of(pid)[12])) / os.sysconf("SC_CLK_TCK")


def call(n, at):
    """So many connections that say nothing."""
    calls = []
    for _ in range(n):
        try:
            calls.append(socket.create_connection(at, 2))
        except OSError:
            break
    return calls


# ---- cases: each returns why it is wrong, or None ----
def crowd_before_the_start(build, work, whole):
    """1000 connections hold the door before any agent comes, and all through the run."""
    job = Job(build, work, "before", 60)
    if not wait_until(lambda: call(1, job.at)):
        return "launch does not listen"
    crowd = call(CROWD, job.at)
    job.add_agents()
    light, from_s = processor_s(job.lighthouse()), time.time()
    begun = job.wait_for_step(1, 30)
    light = (processor_s(job.lighthouse()) - light) / (time.time() - from_s)
    code = job.end()
    for connection in crowd:
        connection.close()
    if not begun:
        return "the job does not begin"
    if light > 0.3:
        return f"the lighthouse takes {light:.0%} of a core"
    return wrong_end(job, code, whole)


def crowd_while_a_host_is_lost(build, work, _):
    """A lost host's agent comes again behind 1000 connections, and more as they are shown out."""
    job = Job(build, work, "lost", 100000, ["--respawn", "4"], started=True)
    crowd = []
    try:
        if not job.wait_for_step(5):
            return "does not begin"
        crowd = call(CROWD, job.at)
        os.kill(children(job.lighthouse())[0], signal.SIGKILL)
        if not job.says("is lost", 10):
            return "the host is not lost"
        crowd += call(CROWD, job.at)
        if not job.says("is here again", 20):
            return "the host does not come again"
        return None if job.says("are spares for more", 20) or job.says("is started as a spare", 1) else "its ranks do not come again"
    finally:
        job.launch.send_signal(signal.SIGINT)
        job.end(20)
        for connection in crowd:
            connection.close()


def wait_until(what, seconds=10):
    until = time.time() + seconds
    while time.time() < until:
        if what():
            return True
        time.sleep(0.05)
    return False


def wrong_end(job, code, whole):
    if code != 0:
        with open(job.said) as file:
            return f"code {code}: {file.read()[-500:]!r}"
    return None if job.losses() == whole else "other losses"


CASES = [crowd_before_the_start, crowd_while_a_host_is_lost]


def main():
    build, work, chosen = sys.argv[1], sys.argv[2], sys.argv[3:]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= most < 2 * CROWD + 100:
        print(f"skip strangers: `ulimit -Hn` is {most}, and {2 * CROWD + 100} files are opened")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * CROWD + 100, most))
    unhurt = Job(build, work, "unhurt", 60)
    unhurt.add_agents()
    if unhurt.end() != 0:
        print("not ok strangers: the job fails without any")
        return
    for case in CASES:
        if not chosen or case.__name__ in chosen:
            why = case(build, work, unhurt.losses())
            print(f"{'not ok' if why else 'ok'} strangers_{case.__name__}{': ' + why if why else ''}", flush=True)


main()

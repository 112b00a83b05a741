"""Strangers at an elastic job of three hosts, all of them this one (127.0.0.2 to 4): they reach its ports, and do not
know its secret. One line a case: "ok NAME", or "not ok NAME: why".

  python3 tests/strangers.py BUILD WORK [CASE...]
"""
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

SECRET = os.urandom(32).hex()
HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
TRAIN = ("train --data DEMO --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 12 --val-fraction 0 --threads 1 "
         "--precision fp64 "
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
        words = [self.exe, "launch", "--comm-transport", "direct", "--host", ",".join(h + ":2" for h in HOSTS)]
        words += ["--spares", "2", "--elastic", "2"]
        words += ["--meet", f"127.0.0.1:{self.at[1]}"] + ([] if started else ["--agent-command", "none"]) + list(more)
        words += [os.path.abspath("configs/demo.txt") if word == "DEMO" else word
                  for word in TRAIN] + ["--steps", str(steps), "--metrics", self.rows]
        with open(self.said, "w") as file:
            self.launch = subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=file)

    def add_agents(self, port=None, hosts=None):
        for host in hosts or HOSTS:
            with open(os.path.join(self.work, f"{self.name}.{host}.err"), "w") as file:
                words = [self.exe, "agent", "--meet", f"127.0.0.1:{port or self.at[1]}", "--host", host]
                self.agents.append(subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL,
                                                    stdout=subprocess.DEVNULL, stderr=file))

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
    """Connections that send nothing."""
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
        return None if job.says("are spares for more", 20) or job.says("is started as a spare", 1) \
               else "its ranks do not come again"
    finally:
        job.launch.send_signal(signal.SIGINT)
        job.end(20)
        for connection in crowd:
            connection.close()


# ---- on the way between an agent and the lighthouse ----
class Way:
    """A proxy that passes the greeting on, and then frames, until it is asked to act on the next one of a direction."""

    def __init__(self, to):
        self.to, self.act, self.direction, self.put_in, self.calls = to, None, None, None, []
        self.readable = False
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            agent = self.door.accept()[0]
            lighthouse = socket.create_connection(self.to)
            self.calls.append((agent, lighthouse))
            try:
                hello = self.move(agent, lighthouse, 56)
                self.sealed = struct.unpack("<II", hello[:8])[1] >= 3            # before that nothing was
                self.move(lighthouse, agent, 64)
                self.move(agent, lighthouse, 32)
                if self.sealed:
                    self.move(lighthouse, agent, 32)
                if self.put_in:
                    agent.sendall(self.put_in)
            except OSError:
                self.cut()
                continue
            for pair in ((agent, lighthouse, "up"), (lighthouse, agent, "down")):
                threading.Thread(target=self.pass_frames, args=pair, daemon=True).start()

    def cut(self):
        for connection in self.calls.pop():
            connection.close()

    @staticmethod
    def read(from_, n):
        got = b""
        while len(got) < n:
            more = from_.recv(n - len(got))
            if not more:
                raise OSError("it has ended")
            got += more
        return got

    def move(self, from_, to, n):
        got = self.read(from_, n)
        to.sendall(got)
        return got

    def frame(self, from_):
        head = self.read(from_, 4 if self.sealed else 8)
        return head + self.read(from_, struct.unpack("<I", head[-4:])[0] + (16 if self.sealed else 0))

    def pass_frames(self, from_, to, direction):
        try:
            while True:
                frame = self.frame(from_)
                self.readable |= b"--layers" in frame
                if self.act and self.direction == direction:
                    act, self.act = self.act, None
                    act(self, from_, to, frame)
                else:
                    to.sendall(frame)
        except OSError:
            for connection in (from_, to):                           # an end is passed on, too
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


def change(_, __, to, frame):
    at = len(frame) // 2
    to.sendall(frame[:at] + bytes([frame[at] ^ 4]) + frame[at + 1:])


def replay(_, __, to, frame):
    to.sendall(frame + frame)


def swap(way, from_, to, frame):
    to.sendall(way.frame(from_) + frame)


def leave_out(*_):
    pass


def cut_short(_, __, to, frame):
    to.sendall(frame[:len(frame) // 2])
    raise OSError("cut")


def forged_job(path):
    """A job of one rank that makes a file, as launch/host_job.c writes it."""
    texts = b"".join(word.encode() + b"\0" for word in ["/", "/bin/sh", "-c", f"touch {path}"])
    body = struct.pack("<6i2d", 0, 1, 1, 0, 4, 0, 60, 3) + bytes(2 * 256) + texts
    return struct.pack("<II", 1, len(body)) + body


def command_put_in(build, work, _):
    """The job is replaced on its way to an agent: that runs nothing, and both ends say why the job does not begin."""
    path = os.path.join(work, "owned")
    job = Job(build, work, "put_in", 60)
    if not wait_until(lambda: call(1, job.at)):
        return "launch does not listen"
    way = Way(job.at)
    way.put_in = forged_job(path)
    job.add_agents(way.port, HOSTS[2:])
    taken = job.agents[0].wait(20)
    if os.path.exists(path):
        return "the agent has run a stranger's command"
    with open(os.path.join(work, f"put_in.{HOSTS[2]}.err")) as file:
        said = file.read()
    if taken == 0 or "was changed on its way" not in said:
        return f"the agent says {said[:200]!r}"
    if job.end(20) != 1 or not job.says(f"host {HOSTS[2]} is lost"):
        return "launch does not say that the host is lost"
    return None


def hurt_on_the_way(name, direction, act, why):
    """In the middle of a job something is done to the connection of a host with ranks: only that host is lost, and
    spares go on with the same losses."""

    def case(build, work, whole):
        job = Job(build, work, name, 60)
        if not wait_until(lambda: call(1, job.at)):
            return "launch does not listen"
        way = Way(job.at)
        job.add_agents(way.port, HOSTS[1:2])
        job.add_agents(None, [HOSTS[0], HOSTS[2]])
        if not job.wait_for_step(5):
            return "does not begin"
        way.direction, way.act = direction, act
        lost = job.says(f"host {HOSTS[1]} is lost", 10)
        wrong = wrong_end(job, job.end(), whole)
        with open(os.path.join(work, f"{name}.{HOSTS[1]}.err")) as file:
            said = file.read()
        with open(job.said) as file:
            said += file.read()
        if way.readable:
            return "the job's command can be read"
        if not lost:
            return "it is not noticed" + ("" if not wrong else ", and " + wrong)
        return wrong or (None if why in said else f"it says {said[-300:]!r}")

    case.__name__ = name
    return case


FORGED, ENDED = "what it sent was changed on its way", "its connection has ended"

SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
static size_t sent, after;                   /* bytes of this process; 0: it is not the one */
static ssize_t pass(int fd, char *all, size_t n, int flags) {
    static ssize_t (*real)(int, const void *, size_t, int);
    if (!real) real = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    ssize_t k = real(fd, all, n, flags);
    const char *path = getenv("SPY");        /* all that goes to other processes, as one on the network reads it */
    FILE *f = k > 0 && path && getenv("TRIVIUM_OWN_JOB") ? fopen(path, "ab") : NULL;
    if (f) fwrite(all, 1, (size_t)k, f), fclose(f);
    if (k > 0) sent += (size_t)k;
    return k;
}
static int is_time(size_t n) {
    const char *job = getenv("TRIVIUM_OWN_JOB"), *text = getenv("HURT_AFTER");
    if (!after) after = text && job && strncmp(job, "slot=2 ", 7) == 0 ? (size_t)atol(text) : (size_t)-1;
    int is = n > 600 && sent > after;
    if (is) after = (size_t)-1;
    return is;
}
ssize_t send(int fd, const void *what, size_t n, int flags) {
    char *all = malloc(n + 1);
    memcpy(all, what, n);
    if (is_time(n)) all[n / 2] ^= 4;
    ssize_t k = pass(fd, all, n, flags);
    free(all);
    return k;
}
ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
    size_t n = 0;
    for (size_t i = 0; i < m->msg_iovlen; i++) n += m->msg_iov[i].iov_len;
    char *all = malloc(n + 1), *at = all;
    for (size_t i = 0; i < m->msg_iovlen; at += m->msg_iov[i++].iov_len)
        memcpy(at, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
    ssize_t k = send(fd, all, n, flags);
    free(all);
    return k;
}
"""


def compile_shim(work):
    shim = os.path.join(work, "hurt.so")
    words = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", shim, "-ldl"]
    return shim if subprocess.run(words, input=SHIM, text=True, check=False).returncode == 0 else None


def gradient_changed(build, work, whole):
    """A bit of a gradient is changed between two hosts: it is in no sum, and both ranks go on over a new connection."""
    shim = compile_shim(work)
    if not shim:
        return "there is no compiler"
    job = Job(build, work, "gradient", 60)
    job.environment.update(LD_PRELOAD=shim, HURT_AFTER="3000000")
    job.add_agents()
    code = job.end()
    with open(job.said) as file:
        said = file.read()
    with open(os.path.join(work, f"gradient.{HOSTS[0]}.err")) as file:
        said += file.read()
    with open(os.path.join(work, f"gradient.{HOSTS[1]}.err")) as file:
        said += file.read()
    wrong = wrong_end(job, code, whole)
    return wrong or (None if "sent was changed on its way" in said and "have lost each other; epoch 1" in said
                     else f"it says {said[-300:]!r}")


def ranks_that_encrypt(build, work, _):
    """What ranks say to those of other hosts can be read on the network, the headers of messages to begin with;
    encrypted it cannot."""
    shim, magic, seen = compile_shim(work), struct.pack("<I", 0x7472766D), {}
    if not shim:
        return "there is no compiler"
    for how in ("authenticated", "encrypted"):
        spy = os.path.join(work, how)
        job = Job(build, work, "spy_" + how, 3, ["--between-hosts", how])
        job.environment.update(LD_PRELOAD=shim, SPY=spy)
        job.add_agents()
        if job.end() != 0:
            return f"{how}: fails"
        with open(spy, "rb") as file:
            seen[how] = magic in file.read()
    return None if seen == {"authenticated": True, "encrypted": False} else f"readable: {seen}"


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


CASES = [crowd_before_the_start, crowd_while_a_host_is_lost, command_put_in,
         hurt_on_the_way("changed", "up", change, FORGED), hurt_on_the_way("replayed", "down", replay, FORGED),
         hurt_on_the_way("swapped", "up", swap, FORGED), hurt_on_the_way("left_out", "down", leave_out, FORGED),
         hurt_on_the_way("cut_short", "up", cut_short, ENDED), gradient_changed, ranks_that_encrypt]


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

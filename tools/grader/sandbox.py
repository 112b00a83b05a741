"""Untrusted commands: bubblewrap around each, limits on what it may use, and a process that watches.

A command sees the system's programs and libraries and a tree without the answers, all read-only; a /tmp and a /dev/shm
of its own, small and in memory; and one folder, which it may write while it compiles and not while it runs. It has no
network, no other process than its own, no keyring, no environment but what is given here. Where the grader is root it
runs as a user of its own that owns nothing: limits on the number of processes do not hold for root."""
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import Trouble, launch, seccomp

MEMORY_KB = 4 << 20          # of a process (addresses) and of all together (resident)
PROCESSES = 256              # threads count
FILE_KB = 256 << 10
SCRATCH = 512 << 20          # bytes of /tmp, and of /dev/shm
USER = 64017                 # nobody, the user


def accounts(folder):
    """The files of /etc that name the user and the machine."""
    files = {"passwd": "grade:x:1000:1000::/tmp:/bin/sh\n", "group": "grade:x:1000:\n",
             "hosts": "127.0.0.1 localhost grade\n",
             "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n"}
    os.makedirs(folder)
    for name, text in files.items():
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    return [word for name in files for word in ("--ro-bind", os.path.join(folder, name), f"/etc/{name}")]


def system():
    """Programs and libraries, where this system has them."""
    words = ["--ro-bind", "/usr", "/usr"]
    for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for path in ("/opt", "/etc/alternatives", "/etc/ld.so.cache", "/etc/openmpi", "/sys/devices/system"):
        if os.path.isdir(path) or os.path.isfile(path):
            words += ["--ro-bind", path, path]
    return words


def piped(data):
    """A descriptor to read this from; it has to fit into a pipe."""
    end, start = os.pipe()
    with open(start, "wb") as f:
        f.write(data)
    return end


def n_processes(user):
    """Threads of this user: where the kernel counts them for all namespaces together, the limit is above them."""
    n = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
                said = dict(line.split(":", 1) for line in f if ":" in line)
            n += int(said["Threads"]) if int(said["Uid"].split()[0]) == user else 0
        except (OSError, KeyError):
            pass
    return n


def descendants(pid):
    """(processes below this one, their resident bytes)"""
    children, resident, page = {}, {}, resource.getpagesize()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                words = f.read().rpartition(b")")[2].split()
            children.setdefault(int(words[1]), []).append(int(name))
            resident[int(name)] = int(words[21]) * page
        except (OSError, IndexError):
            pass
    found, new = [], [pid]
    while new:
        found += new
        new = [c for p in new for c in children.get(p, [])]
    return found, sum(resident.get(p, 0) for p in found)


class Watch:
    """Asked every now and then; a sentence ends the command."""

    def __init__(self, child):
        self.child, self.next = child, 0.0

    def __call__(self):
        if time.monotonic() < self.next:
            return ""
        found, resident = descendants(self.child.pid)
        self.next = time.monotonic() + 0.2
        if resident > MEMORY_KB << 10:
            return f"it used more than {MEMORY_KB >> 20} GiB of memory"
        return f"it had {len(found)} processes" if len(found) > 2 * PROCESSES else ""


class Box:
    """Shared by all submissions: the bare tree, the linked rests, the user that commands run as. folder: the grader's
    own, kept until the end."""

    def __init__(self, folder, tree):
        self.folder, self.tree = folder, tree
        os.chmod(folder, 0o755)
        self.fixed = [*system(), *accounts(os.path.join(folder, "etc"))]
        self.user = USER if os.geteuid() == 0 else None
        self.limit = PROCESSES + n_processes(USER if os.geteuid() == 0 else os.geteuid())
        said = subprocess.run(["bwrap", "--help"], capture_output=True,
                              text=True).stdout if shutil.which("bwrap") else ""
        if not said:
            raise Trouble("there is no bubblewrap here (tools/install-deps teach). Submissions that you trust: "
                          "TRUSTED=1, without any sandbox")
        self.userns = ["--disable-userns"] if "--disable-userns" in said else []
        self.try_it()
        if not seccomp.program():
            print(f"on {platform.machine()} there is no filter of system calls (docs/grading.md, \"What a submission "
                  "can do\")", file=sys.stderr)

    def try_it(self):
        place = self.place()
        ended = place.run(["true"], 20)
        if ended.code != 0 or ended.why:
            raise Trouble("bubblewrap does not work here: " + (ended.why or ended.text.strip() or f"code {ended.code}")
                          +
                          "\nIt needs user namespaces (in a container often not allowed). Submissions that you trust: "
                          "TRUSTED=1, without any sandbox")

    def place(self):
        folder = tempfile.mkdtemp(prefix="job-", dir=self.folder)
        if self.user is not None:
            os.chown(folder, self.user, self.user)
        return Sandbox(self, folder)


class Sandbox:
    """Where the commands of one submission run; as launch.Plain, without trust."""

    def __init__(self, box, host_work):
        self.box, self.host_work, self.work, self.given = box, host_work, "/work", {}

    def give(self, path):
        """A copy, because the project may lie where only its owner comes."""
        inside = "/given/" + os.path.basename(path)
        copy = os.path.join(self.box.folder, "given-" + re.sub(r"\W", "-", path))
        if not os.path.isfile(copy):
            shutil.copyfile(path, f"{copy}.{os.getpid()}")
            os.replace(f"{copy}.{os.getpid()}", copy)         # whole, also for those that are graded at the same time
        self.given[inside] = copy
        return inside

    def share(self, path):
        os.chmod(os.path.dirname(path), 0o755)
        if self.box.user is not None:
            os.chown(path, self.box.user, self.box.user)

    def command(self, argv, env, writable, report, seccomp_fd):
        words = ["bwrap", *(["--seccomp", str(seccomp_fd)] if seccomp_fd is not None else []),
                 "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
                 "--unshare-cgroup-try",
                 *self.box.userns, "--uid", "1000", "--gid", "1000", "--hostname", "grade", "--die-with-parent",
                 "--new-session", "--clearenv",
                 *self.box.fixed, "--proc", "/proc", "--dev", "/dev", "--size", str(SCRATCH), "--tmpfs", "/dev/shm",
                 "--size", str(SCRATCH),
                 "--tmpfs", "/tmp", "--ro-bind", self.box.tree, "/tree", "--bind" if writable else "--ro-bind",
                 self.host_work, "/work"]
        for inside, path in self.given.items():
            words += ["--ro-bind", path, inside]
        if report:
            words += ["--bind", report, "/report"]
        for key, value in env.items():
            words += ["--setenv", key, value]
        return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tree", "--", *argv]

    def start(self, argv, seconds, env=None, writable=False, report=None, talk=False, wide=False):
        """wide: as in launch.Plain."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8",
                       "CCACHE_DISABLE": "1", "TEST_LOCKDOWN": "1",
                       "OMPI_MCA_btl_vader_single_copy_mechanism": "none", **(env or {})}
        for key in ("PATH", "LD_LIBRARY_PATH"):               # where modules of a cluster have put MPI
            if key in os.environ:
                environment[key] = os.environ[key]
        environment.pop("TEST_LOCKDOWN" if wide else "", None)
        if report:
            environment["TEST_REPORT"] = "/report"
        inner = launch.limited(argv, c=0, f=FILE_KB, t=seconds + 5, u=self.box.limit, n=1024,
                               **({} if wide else {"v": MEMORY_KB}))
        who = {"user": self.box.user, "group": self.box.user, "extra_groups": []} if self.box.user is not None else {}
        filtered = seccomp.program()
        fd = piped(filtered) if filtered else None
        child = subprocess.Popen(self.command(inner, environment, writable, report, fd), cwd="/",
                                 env={"PATH": os.environ.get("PATH", os.defpath)}, pass_fds=[fd] if filtered else [],
                                 stdin=subprocess.PIPE if talk else subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT,
                                 start_new_session=True, **who)
        if filtered:
            os.close(fd)
        child.watch = Watch(child)
        return child

    def watch(self, child):
        return child.watch()

    def run(self, argv, seconds, env=None, writable=False, report=None, wide=False):
        started = time.monotonic()
        child = self.start(argv, seconds, env, writable, report, wide=wide)
        said, why = launch.follow(child, seconds, child.watch)
        try:
            child.wait(0 if why else 3)
        except subprocess.TimeoutExpired:
            why = why or "it closed its output and went on"
        self.stop(child)
        return launch.Ended(child.returncode, said.decode("utf-8", "replace"), why, time.monotonic() - started)

    def stop(self, child, why=""):
        self.end(child)
        launch.close(child)

    @staticmethod
    def end(child):
        """The end of bubblewrap's own process ends the namespace, and everything in it."""
        below = descendants(child.pid)[0][1:] if child.poll() is None else []
        for pid in below[:1]:  # the namespace's first process: it goes when all others have gone
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        launch.end_group(child)
        child.wait()
        until = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{pid}") for pid in below[:1]) and time.monotonic() < until:
            time.sleep(0.01)

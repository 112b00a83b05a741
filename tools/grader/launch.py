"""One launch of a command: its limits, its output, the runner's report; and what is left of it is ended."""
import ctypes
import os
import re
import secrets
import selectors
import signal
import subprocess
import tempfile
import time

from . import ROOT, Trouble, library

OUTPUT_MAX = 1 << 20
LINE_MAX = 1000              # letters of a line of output that are read
FILE_MAX_KB = 1 << 20


class Ended:
    """why: "" or the sentence that says what stopped it. text: its output, each line up to LINE_MAX. Every expression
    that searches it, or anything else of a submission, takes time in proportion to its length
    (tests/data/grade/slow.py)."""

    def __init__(self, code, text, why, seconds):
        self.code, self.why, self.seconds = code, why, seconds
        self.text = "\n".join(line[:LINE_MAX] for line in text.split("\n"))


def limited(argv, **limits):
    """The command under limits of the shell's ulimit, which every system has: c=0, t=60, ..."""
    words = " ".join(f"-{key} {value}" for key, value in limits.items())
    return ["bash", "-c", f"ulimit {words} && exec \"$@\"", "limited", *argv]


def mpirun(ranks, argv):
    if ranks == 1:
        return argv
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca",
            "pml", "ob1",
            "--mca", "btl", "self,vader", "-n", str(ranks), *argv]


def threads(ranks):
    return "1" if ranks > 1 else str(min(4, os.cpu_count() or 1))


def end_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_marked(marker):
    """mpirun puts ranks into groups of their own; what was started with this word in its environment is ended."""
    for pid in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if not pid.isdigit():
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if marker.encode() in f.read().split(b"\0"):
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass


def close(child):
    """Wait for what has been ended."""
    child.wait()
    for pipe in filter(None, (child.stdin, child.stdout)):
        try:
            pipe.close()
        except OSError:                                       # what was still to be written
            pass


def follow(child, seconds, watch=None):
    """Read what it says until it ends. watch(): called every now and then, a sentence ends the command."""
    started, said, size = time.monotonic(), [], 0
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            left = started + seconds - time.monotonic()
            if left <= 0:
                return b"".join(said), f"it did not end within {seconds} s"
            why = watch() if watch else ""
            if why:
                return b"".join(said), why
            over = child.poll() is not None                   # asked before reading: its last words are read first
            if not selector.select(0 if over else min(left, 0.1)):
                if over:                                      # a process left behind may hold the pipe
                    return b"".join(said), ""
                continue
            data = os.read(child.stdout.fileno(), 65536)
            if not data:
                return b"".join(said), ""
            said.append(data)
            size += len(data)
            if size > OUTPUT_MAX:
                return b"".join(said), f"it wrote more than {OUTPUT_MAX >> 20} MiB of output"


class Plain:
    """Commands run as this user, from the project's root. For code that is trusted."""

    def __init__(self, work):
        self.work = self.host_work = work
        self.environment = {k: v for k, v in os.environ.items()
                            if not re.match(r"TEST_|MAKE|MFLAGS|OMP_|DEVICE$|SIMT_|SUBMISSION$", k)}
        self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.who = {}            # as which user commands run: Popen's words

    def give(self, path):
        """The path by which commands find this file of the project."""
        return path

    def share(self, path):
        """Commands may write this file."""

    def scratch(self, report):
        """Where MPI keeps its files. Ranks that are alone in their world all have the same name; in one folder for all,
        the end of one takes away another's."""
        return os.path.dirname(report)

    def end_left_behind(self, marker):
        """What a command that went wrong has started."""
        if marker:
            end_marked(marker)

    def start(self, argv, seconds, env=None, writable=False, report=None, talk=False, wide=False):
        """The command, begun. talk: with a pipe to its input, for stop() to end it; else for run(). wide: it runs under
        AddressSanitizer, which needs any number of addresses and no lockdown (tests/lockdown.h)."""
        marker = "TRIVIUM_GRADE=" + secrets.token_hex(8)
        environment = dict(self.environment, **(env or {}), TRIVIUM_GRADE=marker.partition("=")[2])
        environment.pop("TEST_LOCKDOWN" if wide else "", None)
        if report:
            environment.update(TEST_REPORT=report, OMPI_MCA_orte_tmpdir_base=self.scratch(report))
        child = subprocess.Popen(limited(argv, c=0, f=FILE_MAX_KB), cwd=ROOT, env=environment,
                                 stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **self.who)
        child.marker = marker
        return child

    def watch(self, child):
        """A sentence when it uses more than it may."""
        return ""

    def stop(self, child, why=""):
        """Ends the command and all of its processes. why: the reason that the report gives."""
        end_group(child)
        self.end_left_behind(child.marker if why or child.returncode != 0 else "")
        close(child)

    def run(self, argv, seconds, env=None, writable=False, report=None, wide=False):
        started = time.monotonic()
        child = self.start(argv, seconds, env, writable, report, wide=wide)
        said, why = follow(child, seconds)
        if why:
            child.terminate()                                 # mpirun then ends its ranks itself
            try:
                child.wait(2)
            except subprocess.TimeoutExpired:
                pass
        else:
            try:
                child.wait(2)
            except subprocess.TimeoutExpired:
                why = "it closed its output and went on"
        self.stop(child, why)
        return Ended(child.returncode, said.decode("utf-8", "replace"), why, time.monotonic() - started)


class OtherUser(Plain):
    """The same as another user, without files of its own: files that only this user (root) can read are hidden, and
    what is not writable now belongs to root. No sandbox: for a machine that is thrown away afterwards."""

    def __init__(self, work, user):
        super().__init__(work)
        if os.geteuid() != 0:
            raise Trouble("only root can run submissions as another user")
        self.user = user
        self.who = {"user": user, "group": user, "extra_groups": []}
        self.temporary = work + ".tmp"
        os.makedirs(self.temporary, exist_ok=True)
        os.chown(self.temporary, user, user)
        os.chmod(work, 0o755)
        keys = ("PATH", "LD_LIBRARY_PATH", "LANG")
        self.environment = {k: os.environ[k] for k in keys if k in os.environ}
        self.environment.update(HOME=self.temporary, TMPDIR=self.temporary, CCACHE_DISABLE="1", TEST_LOCKDOWN="1")

    def share(self, path):
        os.chmod(os.path.dirname(path), 0o755)
        os.chown(path, self.user, self.user)

    def scratch(self, report):
        return self.temporary

    def end_left_behind(self, marker):
        """Whatever this user still runs: one submission at a time."""
        subprocess.run(["bash", "-c", "kill -9 -1"], **self.who)

    def start(self, argv, seconds, env=None, writable=False, report=None, talk=False, wide=False):
        owner = self.user if writable else 0
        for path in (self.host_work, *(entry.path for entry in os.scandir(self.host_work))):
            os.chown(path, owner, owner, follow_symlinks=False)
        return super().start(argv, seconds, env, writable, report, talk, wide)


# ---- the runner ----

def seal(token, lines):
    """The last line of a report with these lines (tests/report.h)."""
    try:
        xxh3 = library("xxhash", "libxxhash.so.0").XXH3_64bits_withSecret
    except OSError as e:
        raise Trouble(f"a report cannot be verified without libxxhash: {e}") from None
    xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t] * 2
    text = "".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape")
    return f"end {xxh3(text, len(text), token.encode(), len(token)):016x}"


class Run:
    """complete: the report's last line came, and fits the others. verdicts: of (file, name). running: the test that did
    not come back. not_started: the report is untouched."""

    def __init__(self, ended, lines, token):
        self.ended, self.verdicts, self.running = ended, {}, None
        self.complete, self.forged, self.not_started = False, False, False
        for i, line in enumerate(lines):
            words = line.split(" ")
            if self.complete:
                self.forged = True
            elif words[0] == "run" and len(words) == 3 and not self.running:
                self.running = tuple(words[1:])
            elif words[0] in ("pass", "fail", "skip") and tuple(words[1:]) == self.running \
                    and self.running not in self.verdicts:
                self.verdicts[self.running], self.running = words[0], None
            elif words[0] == "end" and not self.running and line == seal(token, lines[:i]):
                self.complete = True
            else:
                self.forged = True
        if self.forged:
            self.complete = False

    def began(self):
        """A test has begun; else nothing of a submission has run, unless it has thrown the report away."""
        return bool(self.complete or self.forged or self.verdicts or self.running)


def cpu_limit(seconds, ranks):
    """Seconds of CPU time of a rank, in one test: of all its threads, which wait for each other where the machine is
    busy."""
    return max(5, seconds // 6) * (int(threads(ranks)) if ranks == 1 else 1)


def run_tests(base, place, ranks, env):
    """The test program once, on `ranks` ranks; once more if it did not come to its first test: where much else runs,
    MPI may not start."""
    run = run_once(base, place, ranks, env)
    return run if run.began() else run_once(base, place, ranks, env)


def run_once(base, place, ranks, env, program="program", wide=False):
    token = secrets.token_hex(96)
    with tempfile.TemporaryDirectory(prefix="trivium-report-", ignore_cleanup_errors=True) as folder:
        path = os.path.join(folder, "report")
        with open(path, "w+", encoding="utf-8", errors="surrogateescape") as f:
            f.write(token + "\n")
            f.flush()
            place.share(path)
            seconds = base.exercise.limit
            # one rank needs no daemon: it starts at once
            alone = {"OMPI_MCA_ess_singleton_isolated": "1"} if ranks == 1 else {}
            env = dict({**alone, "TEST_COLLECTIVES": "1", "TEST_STRICT": "1",
                        "TEST_SEED": str(secrets.randbelow(1 << 31)), "TEST_CPU": str(cpu_limit(seconds, ranks)),
                        "TEST_WALL": str(max(1, seconds - 2)), "TEST_FILES": " ".join(base.exercise.tests),
                        "TEST_TIMEOUT": str(max(2, min(20, seconds * 2 // 3))), "DEVICE": base.device,
                        "OMP_NUM_THREADS": threads(ranks)}, **env)
            ended = place.run(mpirun(ranks, [f"{place.work}/{program}"]), seconds, env=env, report=path, wide=wide)
            f.seek(0)
            lines = f.read(OUTPUT_MAX).splitlines()
    untouched = lines == [token]                                     # the token is still there: no test can have begun
    run = Run(ended, [] if untouched else lines, token)
    run.not_started = untouched
    return run


def signal_of(ended):
    signals = re.findall(r"exited on signal (\d{1,3})\b", ended.text)
    return int(signals[0]) if signals else -ended.code if ended.code < 0 else ended.code - 128 \
           if 128 < ended.code < 160 else 0


def left_by_itself(ended):
    """It called exit: no signal, no limit, and neither MPI nor the runner nor CMocka (code 255) gave up."""
    if ended.code == 255:
        return False
    gave_up = r"waits for the others in vain|MPI_ABORT was invoked|An error occurred in MPI|^libgomp: "
    return not (ended.why or signal_of(ended) or re.search(gave_up, ended.text, re.M))


def last_line(ended):
    """The last line of its output that says something: not MPI's frame around its messages."""
    return next((line.strip()[:200] for line in reversed(ended.text.splitlines()) if re.search(r"[A-Za-z]", line)), "")


# What lib/comm/comm_check.c says when ranks are about to call different collectives
DIFFERENT_CALLS = re.compile(r"rank (\d{1,6}) calls ([^,\n]{1,100}), rank (\d{1,6}) ([^,\n]{1,100}?) \(operation "
                             r"#\d{1,19} of group ")


def how_it_ended(ended, where=" in the middle of it"):
    """One sentence about a launch whose report has no end."""
    if ended.why:
        return ended.why
    if DIFFERENT_CALLS.search(ended.text):
        return "the ranks of a group do not make the same collective calls in the same order"
    if "waits for the others in vain" in ended.text:
        return "some ranks came back from it, and others did not"
    number = signal_of(ended)
    if number:
        name = {6: "abort", 7: "bus error", 8: "division by zero", 9: "killed",
                11: "segmentation fault: an address that is not its own",
                24: "no CPU time left", 25: "a file too large"}.get(number, "")
        return f"it crashed (signal {number}{', ' + name if name else ''})"
    if ended.code == 255:
        return "it crashed, and has overwritten the memory of its test"
    return f"the program ended{where} (exit code {ended.code})"


def line_of_crash(place, ended, program, file):
    """What AddressSanitizer says, with the submission's line: "scale.c:12, in scale_step: a WRITE of size 8 (...)"."""
    kind = re.search(r"ERROR: AddressSanitizer: (.*?)(?: on (?:unknown )?address (0x\w+)| on 0x| \(pc|$)", ended.text,
                     re.M)
    if not kind:
        return []
    access = re.search(r"(READ|WRITE) (of size \d+)|caused by a (READ|WRITE) memory", ended.text)
    at = f" at {int(kind[2], 16):#x}" if kind[2] and access and access[3] else ""
    did = f"a {access[1]} {access[2]}" if access and access[1] else f"a {access[3]}{at}" if access else ""
    frame = re.search(rf"#\d+ 0x\w+ in (\S+) (?:\S*/)?{re.escape(file)}:(\d+)", ended.text)
    pc = re.search(r"\(pc (0x\w+)", ended.text)
    if not frame and pc:  # where the stack itself is overwritten there are no frames
        found = place.run(["addr2line", "-f", "-e", f"{place.work}/{program}", pc[1]], 30).text
        frame = re.search(rf"^(\S{{1,100}})\n(?:\S*/)?{re.escape(file)}:(\d{{1,7}})", found, re.M)
    where = f"{file}:{frame[2]}, in {frame[1]}: " if frame else ""
    return [where + (f"{did} ({kind[1]})" if did else kind[1])]


def own_line(place, file, addresses):
    """The first of these addresses of place.work/program that lies in the submission's file: "scale.c:12, in sum"; else
    ""."""
    ended = place.run(["addr2line", "-f", "-e", f"{place.work}/program", *addresses], 30)
    found = re.search(rf"^(\S{{1,100}})\n(?:\S*/)?{re.escape(file)}:(\d{{1,7}})", ended.text, re.M)
    return f"{file}:{found[2]}, in {found[1]}" if found else ""


def failures(text):
    """What the runner said of each failed test: name -> [(rank, lines)]. Another rank's lines may follow at once."""
    found, current = {}, None
    for line in text.splitlines():
        match = re.match(r"FAILED (\S+) (\S+?)(?: on rank (\d{1,6}) of \d{1,6})?$", line)
        if match:
            current = []
            found.setdefault(match[2], []).append((int(match[3] or 0), current))
        elif line.startswith("    ") and current is not None:
            current.append(line[4:])
        else:
            current = None
    return found

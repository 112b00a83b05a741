"""Submissions in Python. Each rank is a process of its own that runs the learner's functions; the tests run here, and
judge what comes back.

    a test of test_scale.py               here                                 a rank (rank.py, in the sandbox)
    yours.on_all("step", arguments)  ->   {"name": "step", "calls": [...]}  -> runs it
                                          sums, when all have asked         <- group.all_reduce(...)
    close("loss", value, right, ...) <-   values                            <- {"values": [...]}

What crosses is JSON. The tests, and what is right, are never in the process of a submission: it can give wrong values
or none, and nothing else. Every test has new processes. Ranks go from one all_reduce to the next in step, so a rank
that does not come is found without a clock.
"""
import collections
import json
import math
import os
import re
import runpy
import selectors
import subprocess
import sys
import time
import traceback

from . import ROOT, build, launch

HOST = os.path.join(ROOT, "tools/grader/rank.py")
SHOWN = 100                  # letters of a value, or of a call, in a message
PRINTED = 4                  # lines of what a failed test's functions have printed


class Wrong(Exception):
    """A claim does not hold: a sentence."""


class Base:
    """The part that all submissions of an exercise share: here nothing is built."""
    device, watched, sanitized = "cpu", False, False

    def __init__(self, exercise):
        self.exercise = exercise
        self.folder = os.path.join(build.build_folder(), "grade", f"{exercise.number}-{exercise.name}-python")
        os.makedirs(os.path.join(ROOT, self.folder), exist_ok=True)


# ---- what tests say ----

def short(value):
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + " ..."


def number(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong(f"{name}: you say {short(value)}, and a number is wanted")
    return value


def whole(name, value, right):
    """A whole number, as an int."""
    if isinstance(number(name, value), float) and value == right:
        raise Wrong(f"{name}: you say {value!r}, which is a float; a whole number is wanted, and // divides those")
    same(name, value, right)


def same(name, value, right):
    """Equal values; tuples have come as lists."""
    if type(value) is not type(right) or value != right:
        raise Wrong(f"{name}: you say {short(value)}, right is {short(right)}")


def close(name, value, right, bound):
    if not math.isfinite(number(name, value)) or abs(value - right) > bound:
        raise Wrong(f"{name}: you say {value:.10g}, right is {right:.10g}" if value == value
                    else f"{name}: you say nan, right is {right:.10g}")


# ---- a rank ----

class Rank:
    """The process of one rank."""

    def __init__(self, base, place, name):
        seconds = base.exercise.limit
        self.until, self.left, self.lines, self.printed, self.size = time.monotonic() \
            + seconds, b"", collections.deque(), [], 0
        self.place, self.limit = place, seconds
        host = place.give(HOST)
        argv = ["python3", "-I", "-S", "-B", "-X", "utf8", host, f"{place.work}/{name}",
                str(launch.cpu_limit(seconds, 2))]
        self.child = place.start(argv, seconds, talk=True)
        os.set_blocking(self.child.stdin.fileno(), False)

    def say(self, message):
        """It may not read: then this takes no longer than a test may."""
        data, to = json.dumps(message).encode() + b"\n", self.child.stdin.fileno()
        try:
            while data:
                self.wait(to, selectors.EVENT_WRITE)
                data = data[os.write(to, data):]
        except OSError:
            pass                                              # it has ended: hear() says how

    def wait(self, pipe, event):
        """Until the pipe is ready; or the time, or what it may use, is over."""
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            while not selector.select(0.1):
                why = self.place.watch(self.child)
                if time.monotonic() > self.until or why:
                    raise Wrong(why or f"it did not end within {self.limit} s")

    def line(self):
        """The next line; None at the end."""
        pipe = self.child.stdout.fileno()
        while not self.lines:
            self.wait(pipe, selectors.EVENT_READ)
            data = os.read(pipe, 65536)
            if not data:
                return None
            *whole_ones, self.left = (self.left + data).split(b"\n")
            self.lines.extend(whole_ones)
            self.size += len(data)
            if self.size > launch.OUTPUT_MAX:
                raise Wrong(f"it wrote more than {launch.OUTPUT_MAX >> 20} MiB of output")
        return self.lines.popleft()

    def hear(self):
        """Its next message."""
        for line in iter(self.line, None):
            if line.startswith(b"\0"):
                return self.message(line[1:])
            self.printed = [*self.printed, line.decode("utf-8", "replace")[:launch.LINE_MAX]][-PRINTED:]
        raise Wrong(self.how_it_ended())

    def message(self, text):
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise Wrong("what its process says cannot be read")
        if "stuck" in said:
            raise Wrong(f"it did not end within {launch.cpu_limit(self.limit, 2)} s of CPU time: "
                        f"{str(said['stuck'])[:SHOWN]}")
        return said

    def how_it_ended(self):
        try:
            code = self.child.wait(2)
        except subprocess.TimeoutExpired:
            return "it closed its output and went on"
        if code < 0 or code > 128:
            return launch.how_it_ended(launch.Ended(code, "", "", 0))
        return f"the process ended in the middle of it (exit code {code}): a function returns its result, or raises " \
               "an error"


# ---- all ranks ----

def argument_text(value):
    """As the learner's function gets it: fields by their names."""
    if not isinstance(value, dict):
        return repr(value)
    return "group" if "group" in value else ", ".join(f"{key}={field!r}" for key, field in value.items())


def call_text(name, arguments):
    text = f"{name}({', '.join(map(argument_text, arguments))})"
    return text if len(text) <= SHOWN else text[:SHOWN] + " ...)"


class Yours:
    """The learner's functions on n ranks. sent: of each rank, the lengths of its all_reduces."""

    def __init__(self, base, place, name, n):
        self.file, self.n, self.ranks = name, n, []
        self.sent = [[] for _ in range(n)]
        self.groups = {}
        try:
            self.ranks = [Rank(base, place, name) for _ in range(n)]
            for rank in self.ranks:
                said = rank.hear()
                if "loaded" not in said:
                    raise build.Refused("does not load", load_error(said))
        except BaseException:
            self.end()
            raise

    def end(self):
        for rank in self.ranks:                               # one that has done its work ends by itself
            rank.child.stdin.close()
        for rank in self.ranks:
            try:
                rank.child.wait(0.5)
            except subprocess.TimeoutExpired:
                pass
            rank.place.stop(rank.child)

    def group(self, members, rank):
        """The group of these ranks, as an argument for one of them."""
        members = tuple(members)
        at = self.groups.setdefault(members, len(self.groups))
        return {"group": [at, members.index(rank), len(members)]}

    def world(self, rank):
        return self.group(range(self.n), rank)

    def __getattr__(self, name):
        """yours.step(...): on one rank."""
        return lambda *arguments: self.many(name, [arguments])[0]

    def many(self, name, calls):
        """The values of these calls, on rank 0."""
        calls = [list(arguments) for arguments in calls]
        self.ranks[0].say({"name": name, "calls": calls})
        return self.values(self.ranks[0].hear(), name, calls)

    def on_all(self, name, arguments_of):
        """The value of each rank's call; arguments_of(rank) are its arguments."""
        calls = [[list(arguments_of(r))] for r in range(self.n)]
        for rank, call in zip(self.ranks, calls):
            rank.say({"name": name, "calls": call})
        said = self.in_step()
        return [self.values(said[r], name, calls[r])[0] for r in range(self.n)]

    def refuses(self, name, arguments, *words):
        """The call has to raise ValueError, with these words."""
        arguments = list(arguments)
        self.ranks[0].say({"name": name, "calls": [arguments]})
        said, call = self.ranks[0].hear(), call_text(name, arguments)
        if "raised" not in said:
            raise Wrong(f"{call} has to raise ValueError; it gave {short(self.values(said, name, [arguments])[0])}")
        if said["raised"] != "ValueError":
            raise Wrong(self.error_of(said, call))
        missing = [word for word in words if word not in str(said.get("text"))]
        if missing:
            raise Wrong(f"{call} failed as it should, but does not say \"{missing[0]}\": {str(said.get('text'))[:300]}")

    def values(self, said, name, calls):
        if "raised" in said:
            at = said.get("call")
            raise Wrong(self.error_of(said,
                                      call_text(name,
                                                calls[at] if isinstance(at, int) and 0 <= at < len(calls) else [])))
        values = said.get("values")
        if not isinstance(values, list) or len(values) != len(calls):
            raise Wrong("what its process says cannot be read")
        return values

    @staticmethod
    def error_of(said, call):
        kind, text, at = (str(said.get(key))[:300] for key in ("raised", "text", "at"))
        if kind == "NotImplementedError":
            return text
        return f"{at + ': ' if at else ''}{call} raises {kind}: {text}"

    # ---- the network ----

    def in_step(self):
        """Let all ranks run to their ends, through their all_reduces; what each said at the end."""
        waiting, done, running = {}, {}, set(range(self.n))
        while running:
            for r in sorted(running):
                said = self.ranks[r].hear()
                if "all_reduce" in said:
                    waiting[r] = self.request(r, said["all_reduce"])
                else:
                    done[r] = said
            running = set()
            for members, at in self.groups.items():
                if all(waiting.get(r, (None,))[0] == at for r in members):
                    self.reduce(members, {r: waiting.pop(r)[1] for r in members})
                    running |= set(members)
        if waiting:
            self.explain(waiting, done)
        return done

    def request(self, rank, said):
        """(group, numbers) of an all_reduce."""
        fine = isinstance(said, list) and len(said) == 2 and isinstance(said[1], list)
        if not fine or not all(isinstance(x, float) or isinstance(x, int) and abs(x) < 1 << 60 for x in said[1]):
            raise Wrong(f"rank {rank} calls all_reduce with {short(said[1] if fine else said)}: a list of numbers is "
                        "wanted")
        if said[0] not in self.groups.values():
            raise Wrong("what its process says cannot be read")
        return said

    def reduce(self, members, numbers):
        first = members[0]
        for r in members:
            if len(numbers[r]) != len(numbers[first]):
                raise Wrong(f"rank {r} calls all_reduce of {len(numbers[r])} numbers, rank {first} of "
                            f"{len(numbers[first])}")
        sums = [sum(column) for column in zip(*(numbers[r] for r in members))]
        for r in members:
            self.sent[r].append(len(sums))
            self.ranks[r].say({"sums": sums})

    def explain(self, waiting, done):
        for r, said in sorted(done.items()):
            if "raised" in said:
                raise Wrong(f"rank {r}: {self.error_of(said, 'it')}")
        r = min(waiting)
        raise Wrong(f"some ranks came back from it, and others did not: rank {min(done)} has returned, and rank {r} "
                    "waits in all_reduce of "
                    f"{len(waiting[r][1])} numbers" if done
                    else "ranks wait for each other in all_reduces of different groups")


def load_error(said):
    at, kind, text = (str(said.get(key))[:300] for key in ("at", "raised", "text"))
    help_ = "\nhelp: Python's standard library is all that there is" if kind == "ModuleNotFoundError" else ""
    return f"{at + ': ' if at else ''}{kind}: {text}{help_}"


# ---- tests ----

def load(path):
    """The functions of a test file, which is the project's own, and may import another one of its folder."""
    sys.path.insert(0, os.path.join(ROOT, os.path.dirname(path)))
    try:
        return runpy.run_path(os.path.join(ROOT, path))
    finally:
        sys.path.pop(0)


def tests_of(exercise):
    """(file, name, function) of each test, in their order."""
    for path in exercise.tests:
        for name, function in load(path).items():
            if re.match(r"test_\w+$", name) and callable(function):
                yield path, name, function


def place_in(path, error):
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == os.path.join(ROOT, path)]
    return [f"{path}:{lines[-1]}"] if lines else []


def try_one(base, place, name, ranks, path, test):
    """None where the test holds; else the lines that say why not."""
    yours = None
    try:
        yours = Yours(base, place, name, ranks)
        test(yours)
        return None
    except Wrong as wrong:
        printed = [line for rank in yours.ranks for line in rank.printed][-PRINTED:] if yours else []
        said = str(wrong)[:1000].split("\n")
        return [*said, *place_in(path, wrong), *(f"it printed: {line[:200]}" for line in printed)]
    except build.Refused:
        raise
    except Exception as error:                                # a value that no one has thought of
        return [f"the test cannot use what it gave: {type(error).__name__}: {str(error)[:200]}", *place_in(path, error)]
    finally:
        if yours:
            yours.end()

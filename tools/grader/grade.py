"""A submission's claims over all world sizes, and how they are shown."""
import os
import re
import time

from . import Trouble, build, causes, judge, launch

REST_SHOWN = 2               # of the tests that no claim names
TIMEOUTS = 2                 # launches that may run out of time before the rest is given up
STUCK = 5                    # tests that may use up their CPU time before it is
AGREEMENT = "all_reduce (max) of 2 fp64"     # agree_max of tests/test.h
NO_FILTER = "this kernel or container refuses a filter of system calls (seccomp), without which a submission could " \
            "change its tests. " \
            "Allow seccomp(2) there; what you trust needs none (TRUSTED=1, or no --user)"
BUDGET = 4                   # how many times the limit of one launch all of them may take


class Outcome:
    """One test's result: the sizes on which it held; the first size on which it did not, and why."""

    def __init__(self):
        self.held, self.skipped, self.failed_on, self.why = [], [], None, []


class Grade:
    """claims: (Claim, Outcome); rest: the outcomes of the tests that no claim names. status: "graded", or why there is
    nothing to show."""

    def __init__(self, exercise, status="graded", message=""):
        self.exercise, self.status, self.message, self.warnings, self.n_lines = exercise, status, message, "", 0
        self.claims, self.rest, self.after = [], {}, ""
        self.figure = None  # of an exercise that has one, when its tests have found it
        self.remark, self.days_late = "", None                # on how it was handed in: costs nothing here

    def handed_in(self, remark, days_late):
        self.days_late = days_late
        late = f"late: {days_late} day{'s' * (days_late != 1)}" if days_late else ""
        self.remark = "; ".join(filter(None, [self.remark, remark, late]))

    def holds(self, outcome):
        return outcome.failed_on is None and bool(outcome.held)

    def rest_holds(self):
        return not self.after and all(self.holds(o) or (o.skipped and o.failed_on is None) for o in self.rest.values())

    def rest_counts(self):
        """What a starter has not broken earns nothing: one claim at least has to hold, too."""
        return self.rest_holds() and any(self.holds(o) for _, o in self.claims)

    def counts(self):
        """Claims that hold, and all; a weight multiplies a claim. All are the same number for everybody, whatever
        became of the submission."""
        further = bool(self.exercise.further)
        total = sum(c.weight for c in self.exercise.claims) + further
        held = sum(c.weight for c, o in self.claims if self.holds(o))
        return (held + (further and self.rest_counts()) if self.status == "graded" else 0), total

    def score(self):
        held, total = self.counts()
        return 100 * held // total

    def full(self):
        held, total = self.counts()
        return self.status == "graded" and held == total


# ---- running ----

class Runner:
    """Settles one test after the other. A pass counts only when its launch came to its end; after a crash the others
    run again."""

    def __init__(self, base, place, name, only=(), timeout=None):
        self.base, self.place, self.name, self.only = base, place, name, set(only)
        self.outcomes, self.timeouts, self.stuck, self.after, self.stop, self.void = {}, 0, 0, "", "", ""
        self.figure = None
        self.until = time.monotonic() + BUDGET * base.exercise.limit
        self.environment = {"SUBMISSION": f"{place.work}/{name}"} if base.exercise.kind == "table" else {}
        self.checked = base.exercise.kind == "c" and not base.sanitized
        self.program = ""                                     # the one of self.checked, when it is there
        if only:
            self.environment["TEST_NAMES"] = " ".join(only)
        if timeout:
            self.environment["TEST_TIMEOUT"] = str(timeout)

    def fail(self, test, ranks, why):
        outcome = self.outcomes.setdefault(test, Outcome())
        if outcome.failed_on is None:
            crashed = any(re.match(r"it crashed|Test failed with exception", line) for line in why)
            outcome.failed_on, outcome.why = ranks, [*(self.line_of_crash(test, ranks) if crashed else []), *why]

    def run_checked(self, ranks, env):
        """A launch with every access of the submission's checked. It can only take points: so it needs no lockdown,
        under which AddressSanitizer gets no memory."""
        if not self.program:
            objects, _ = build.compile_submission(self.base, self.place, self.name, checked=True)
            self.program = "program-checked"
            build.link(self.base, self.place, objects, self.program, build.CHECKED)
        handle = ":".join(f"handle_{s}=2" for s in ("segv", "sigbus", "sigfpe", "abort"))     # 2: before CMocka and MPI
        env = dict(self.environment, **env, ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=1:" + handle)
        return launch.run_once(self.base, self.place, ranks, env, self.program, wide=True)

    def line_of_crash(self, test, ranks):
        if not self.checked:
            return []
        ended = self.run_checked(ranks, {"TEST_NAMES": test[1]}).ended
        return launch.line_of_crash(self.place, ended, self.program, self.name)

    def check_accesses(self):
        """Where all tests hold: once more, on two ranks if the exercise has them, with every access checked."""
        if not self.checked or self.stop or self.after or self.failed() or self.timed_out():
            return
        ranks = min(self.base.exercise.ranks, key=lambda n: (n != 2, n))
        run = self.run_checked(ranks, {"TEST_CPU": "0", "TEST_WALL": "0"})
        if run.running and not run.complete and not run.forged and "ERROR: AddressSanitizer" in run.ended.text:
            line = launch.line_of_crash(self.place, run.ended, self.program, self.name)
            if line and line[0].startswith(self.name + ":"):
                self.fail(run.running, ranks, line)

    def timed_out(self):
        return time.monotonic() > self.until

    def located(self, line):
        """A line of the runner's with the submission's own place for "(@ADDRESS)"."""
        found = re.search(r" \(@([0-9a-f]{1,16})\)", line)
        if not found:
            return line
        place = launch.own_line(self.place, self.name, [found[1]])
        return line.replace(found[0], f": {place}" if place else "")

    def stuck_at(self, text):
        """"it did not end within 10 s of CPU time: scale.c:12, in sum", of a rank that has said where it was."""
        found = re.search(r"^GRADED stuck ([0-9.]{1,8})((?: @[0-9a-f]{1,16})+)$", text, re.M)
        if not found:
            return ""
        place = launch.own_line(self.place, self.name,
                                [f"{int(a, 16) - 1:x}" for a in found[2].replace("@", "").split()])
        return f"it did not end within {found[1]} s{': ' + place if place else ''}"

    def failed(self):
        return {name for (_, name), o in self.outcomes.items() if o.failed_on is not None}

    def once(self, ranks):
        """One launch without the tests that have failed. True: this size is done."""
        failed = self.failed()
        env = dict(self.environment, **({"TEST_NAMES_NOT": " ".join(sorted(failed))} if failed else {}))
        run = launch.run_tests(self.base, self.place, ranks, env)
        said = launch.failures(run.ended.text)
        new = [t for t, verdict in run.verdicts.items() if verdict == "fail"]
        for figure in re.findall(r"^figure (\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d\d)?)$", run.ended.text,
                                 re.M) if self.base.exercise.figure else []:
            self.figure = float(figure)
        for test in new:
            rank, lines = telling(said.get(test[1], [(0, [])]))
            self.fail(test, ranks,
                      [*map(self.located, brief(lines)), *([f"(on rank {rank} of {ranks})"] if ranks > 1 else [])])
        if run.complete:
            for test, verdict in run.verdicts.items():
                outcome = self.outcomes.setdefault(test, Outcome())
                if verdict != "fail":
                    (outcome.held if verdict == "pass" else outcome.skipped).append(ranks)
            if run.ended.why or (run.ended.code != 0 and not new):
                self.after = f"after the tests, on {ranks} rank{'s' * (ranks > 1)}: " + launch.how_it_ended(run.ended)
            return True
        return self.interrupted(run, ranks, said)

    def interrupted(self, run, ranks, said):
        """No end of the report. A crash or a wait without end is one test's; a program that leaves by itself is not
        believed at all."""
        if run.forged:
            self.void = "something else than the test runner has written the report of the tests"
        elif not run.not_started and launch.left_by_itself(run.ended):
            name = run.running[1] if run.running else "the tests"
            self.void = f"the program left in the middle of {name}, on {ranks} rank{'s' * (ranks > 1)} (exit code " \
                f"{run.ended.code}): " \
                        "a function returns its error to its caller; it never ends the process"
        if self.void:
            self.stop = self.void
            return True
        if not run.began():
            if run.not_started and "TEST_LOCKDOWN: no filter" in run.ended.text:
                raise Trouble(NO_FILTER)
            words = [launch.how_it_ended(run.ended, ""), launch.last_line(run.ended)]
            self.stop = f"before its first test, on {ranks} rank{'s' * (ranks > 1)}: " + ": ".join(filter(None, words))
            return True
        stuck = self.stuck_at(run.ended.text)
        why = stuck or launch.how_it_ended(run.ended)
        self.timeouts += bool(run.ended.why)
        self.stuck += bool(stuck)
        if run.running and self.timeouts < TIMEOUTS and self.stuck < STUCK:
            self.fail(run.running, ranks, [why, *last_words(run.ended.text)])
            return False
        for test in [*run.verdicts, *([run.running] if run.running else [])]:
            self.fail(test, ranks, [why])
        self.stop = why
        return True

    def settled(self):
        if self.timed_out():
            self.stop = f"its launches took more than {BUDGET * self.base.exercise.limit} s together"
        return bool(self.stop) or (self.only and self.only <= self.failed())

    def run(self):
        """All sizes; or until the only tests that are asked for have failed, or launches do not come to their end."""
        sizes = self.base.exercise.ranks
        if self.only:                                         # where most mistakes show
            sizes = sorted(sizes, key=lambda n: (n != 2, n))
        for ranks in sizes:
            while not self.settled() and not self.once(ranks):
                pass
        return self


class PythonRunner(Runner):
    """The same for a submission in Python: a test has processes of its own (judge.py)."""

    def once(self, ranks):
        for path, test, function in judge.tests_of(self.base.exercise):
            if (self.only and test not in self.only) or test in self.failed() or self.settled():
                continue
            outcome = self.outcomes.setdefault((path, test), Outcome())
            why = judge.try_one(self.base, self.place, self.name, ranks, path, function)
            if why is None:
                outcome.held.append(ranks)
                continue
            self.fail((path, test), ranks, why)
            self.stuck += why[0].startswith("it did not end")
            if self.stuck == STUCK:
                self.stop = why[0]
        return True


def base_of(exercise, built=False):
    """What all submissions of an exercise share."""
    return judge.Base(exercise) if exercise.kind == "python" else build.Base(exercise, built)


def not_written(line):
    return re.search(r"E_TODO|is not written yet|is still to be written", line)


def telling(said):
    """(rank, lines) of the first rank that names a function which is not written yet; else of the first that tells more
    than that another rank fails."""
    return min(said, key=lambda one: (not any(map(not_written, one[1])),
                                      any("another rank" in line for line in one[1]), one[0]))


def brief(lines):
    """What a failed test said; of a function that is not written yet only that."""
    todo = next(filter(not_written, lines), None)
    return [what_is_to_do(todo)] if todo else [line[:300].replace(": error: Failure!", "") for line in lines[:12]]


def what_is_to_do(line):
    """The place and the text in "... E_TODO FILE:LINE FUNCTION: text"."""
    where, function, text = [*line.rpartition("E_TODO ")[2].split(" ", 2), "", ""][:3]
    return f"{where}: {text}" if function.endswith(":") else line


def last_words(text):
    """The lines of an interrupted launch that a person would read, without mpirun's frames. The last error line, if
    any."""
    lines = [line.rstrip()[:300] for line in text.splitlines()]
    errors = [line for line in lines if re.match(r"(\[rank [^]]*\] )?E_[A-Z]+ ", line)]
    if not errors:
        return [line for line in lines if re.match(r"lib/|==|SUMMARY|.*(Assertion|free\(\))", line)][:3]
    told = next(filter(launch.DIFFERENT_CALLS.search, errors), errors[-1])  # what follows that is only its consequence
    calls = launch.DIFFERENT_CALLS.search(told)
    back = [calls[i] for i in (1, 3) if calls[i + 1] == AGREEMENT] if calls else []
    return [told, *(f"({AGREEMENT} is the test's: rank {rank} has come back to it)" for rank in back)]


def grade_file(base, place, path, links=False):
    """The file at `path`, copied to the place and graded; what cannot be taken is graded, too: as refused."""
    e = base.exercise
    try:
        n_lines = build.take(path, os.path.join(place.host_work, e.file), links)
    except build.Refused as refused:
        return Grade(e, refused.status, refused.text)
    result = grade(base, place, e.file)
    result.n_lines = n_lines
    return result


def grade(base, place, name, only=(), timeout=None):
    """Compile, link, run. name: the submission's file, in place.work. only: these tests, until each has failed;
    timeout: of a rank's waits, in seconds."""
    exercise, result = base.exercise, Grade(base.exercise)
    try:
        if exercise.kind == "python":
            runner = PythonRunner(base, place, name, only, timeout).run()
        else:
            objects, result.warnings = ([], "") if exercise.kind == "table" \
                else build.compile_submission(base, place, name)
            build.link(base, place, objects)
            runner = Runner(base, place, name, only, timeout).run()
    except build.Refused as e:
        result.status, result.message = e.status, e.text
        return result
    runner.check_accesses()
    if runner.void:
        result.status, result.message = "no score", runner.void
        return result
    by_name = {}
    for (_, test), outcome in runner.outcomes.items():
        by_name[test] = worse(by_name.get(test), outcome)
    for claim in exercise.claims:
        outcome = by_name.pop(claim.test, None)
        if outcome is None:
            outcome = Outcome()
            outcome.why = [f"it did not run{': ' + runner.stop if runner.stop else ''}"]
        result.claims.append((claim, outcome))
    result.rest, result.after, result.figure = by_name, runner.after, runner.figure
    if runner.stop and not result.after:
        result.after = runner.stop
    if not exercise.further and not only:
        after_all(result)
    return result


def after_all(result):
    """What goes wrong after the tests fails the claim on all other tests. Where there are none, the last of those that
    held."""
    held = [o for _, o in result.claims if result.holds(o)]
    if held and result.after:
        held[-1].failed_on, held[-1].why = max(held[-1].held), [result.after]
    result.after = ""


def worse(a, b):
    """Two files may have tests of one name."""
    return b if a is None or (a.failed_on is None and b.failed_on is not None) else a


# ---- showing ----

def on_ranks(sizes):
    return "on " + " ".join(map(str, sizes)) + " rank" + "s" * (list(sizes) != [1])


def told(claim, outcome):
    """What a report may say of it: of a hidden test only whether it holds."""
    if not claim.hidden:
        return outcome
    bare = Outcome()
    bare.held = outcome.held if outcome.failed_on is None else []
    return bare


def causes_of(result):
    """Why claims fail, the cause of the most claims first."""
    failed = [(c.text, told(c, o), c.hint) for c, o in result.claims if not result.holds(o)]
    rest = [(f"everything else still holds: {name}", o, "") for name, o in result.rest.items()
            if o.failed_on is not None]
    if result.after and not any(o.why for _, o, _ in failed + rest):
        last = Outcome()
        last.why = [result.after]
        rest.append(("everything else still holds", last, ""))
    return causes.all_of(failed + rest)


def show_causes(found):
    """On top of a report: the first cause, how many claims it fails, what its first claim said, and its hint."""
    if not found:
        return []
    first, others = found[0], found[1:]
    n = len(first.claims)
    sizes = [] if first.failed_on in (None, 1) else [on_ranks([first.failed_on])
                                                     + (f"; it holds {on_ranks(first.held)}" if first.held else "")]
    lines = [f"  cause  {first.name} ({', '.join([f'{n} claim' + 's' * (n != 1), *sizes])}): "
             f"{causes.telling(first.lines)}"]
    lines += [f"           look: {first.hint}"] * bool(first.hint)
    lines += [f"  then   {c.name} ({len(c.claims)} claim{'s' * (len(c.claims) != 1)})" for c in others]
    return [*lines, ""]


def short_of(line):
    return line if len(line) <= 90 else line[:86] + " ..."


def show_claim(text, holds, outcome, hint, known=None):
    """known: the cause on top of the report, when it is this claim's, too, and was said with another claim."""
    lines = [f"  {'holds' if holds else 'FAILS'}  {text}"]
    if not holds and known:
        lines += [f"           the same cause: {short_of(causes.telling(outcome.why))}"]
    elif not holds:
        if outcome.failed_on is not None:
            written = not any(map(not_written, outcome.why))  # else it held only where the function was not needed
            held = f" (it holds {on_ranks(outcome.held)})" if outcome.held and written else ""
            lines.append(f"           {on_ranks([outcome.failed_on])}{held}:")
        lines += ["             " + line for line in outcome.why or (["it was skipped"] if outcome.skipped else [])]
        if hint:
            lines.append("           look: " + hint)
    return lines


def show(result, shown):
    """The report for the learner, as text."""
    e = result.exercise
    length = f": {result.n_lines} lines" if result.n_lines else ""
    lines = [f"lesson {e.number}, {e.name}: {e.title}", shown + length, *([result.remark] if result.remark else [])]
    if result.status != "graded":
        return "\n".join([*lines, "", f"  {result.status}:", *("    " + t for t in result.message.splitlines()), "",
                          "score 0 of 100"])
    if result.warnings:
        lines += ["", "  the compiler warns:", *("    " + t for t in result.warnings.splitlines())]
    lines.append("")
    found = causes_of(result)
    lines += show_causes(found)
    top = found[0] if found and found[0].name != causes.WRONG else None
    for claim, outcome in result.claims:
        weight = f"  (counts {claim.weight} times)" if claim.weight > 1 else ""
        known = top and claim.text in top.claims and top
        hint = claim.hint if not known else ""
        lines += show_claim(claim.text + weight, result.holds(outcome), told(claim, outcome), hint,
                            known if known and claim.text != top.claims[0] else None)
    if e.further:
        n = len(e.further)
        lines.append(f"  {'holds' if result.rest_holds() else 'FAILS'}  everything else still holds ({n} "
                     f"test{'s' * (n != 1)})" + "; it counts once a claim holds"
                     * (result.rest_holds() and not result.rest_counts()))
        failed = [(name, o) for name, o in result.rest.items() if o.failed_on is not None]
        for i, (name, outcome) in enumerate(failed):
            if i == REST_SHOWN:
                lines.append(f"           and {len(failed) - i} more")
            elif i < REST_SHOWN:
                lines += [f"           {name}, {on_ranks([outcome.failed_on])}:",
                          *("             " + w for w in outcome.why)]
        if result.after:
            lines.append("           " + result.after)
    held, total = result.counts()
    figure = [] if result.figure is None else [f"{e.figure} {result.figure:g}"]
    step = [f"next: {c.text}" for c, o in result.claims if not c.hidden and not result.holds(o)][:1]
    return "\n".join([*lines, "", *figure, f"score {result.score()} of 100   ({held} of {total})", *step])


def by_hand(base, place, result):
    """How to run the first failed test alone, under a debugger for instance. In Python the report has the call
    itself."""
    if base.exercise.kind == "python":
        return ""
    for name, outcome in [(c.test, o) for c, o in result.claims if not c.hidden] + list(result.rest.items()):
        if outcome.failed_on is not None:
            variables = f"DEVICE={base.device} " if base.device != "cpu" else ""
            if outcome.failed_on > 1:
                root = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " if os.geteuid() == 0 else ""
                variables += "TEST_COLLECTIVES=1 " + root
            variables += f"SUBMISSION={place.work}/{base.exercise.file} " if base.exercise.kind == "table" else ""
            mpirun = f"mpirun --oversubscribe -n {outcome.failed_on} " if outcome.failed_on > 1 else ""
            return f"alone: {variables}{mpirun}{os.path.relpath(place.host_work, build.ROOT)}/program {name}"
    return ""

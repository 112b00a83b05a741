"""What the grader's own code does with the longest texts that a submission can make it read: each in a time that grows
as the text does. python3 tests/data/grade/slow.py FOLDER [LETTERS]. A line for each: ok, or not ok and what was seen.
(A time that grows with the square of 1 MiB is an hour.)"""
import os
import signal
import struct
import sys
import time
from types import SimpleNamespace

sys.path.insert(0, "tools")
from grader import (Trouble, build, elf, examine, exercise, grade, launch, sheet, similar,  # noqa: E402
                    statuses, which, worksheet)

MOST_S = 8           # of CPU time, for one text of 1 MiB
folder, N = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else launch.OUTPUT_MAX
SCALE = exercise.choose("03", "scale.c")
LESSON = exercise.lesson_named("04")


def text(what):
    return what * (N // len(what))


def says(output, code=1):
    """A place whose commands say this."""
    return SimpleNamespace(work="/work", host_work=folder, given={}, give=lambda path: path,
                           run=lambda *_, **__: launch.Ended(code, output, "", 0))


def refused(function):
    try:
        function()
    except (build.Refused, Trouble) as why:
        return str(why)
    raise AssertionError("it is taken")


def compiled(output):
    base = SimpleNamespace(variants=[("", [])], compiler=lambda name: ["cc"], sanitized=False)
    return refused(lambda: build.compile_submission(base, says(output), "my.c"))


def linked(output):
    settings = SimpleNamespace(word={"CC": ["cc"], "LIBS": []})
    base = SimpleNamespace(rest="rest.o", settings=settings, watched=False, names={"": {"scale_step"}}, exercise=SCALE)
    return refused(lambda: build.link(base, says(output), []))


def ended(output):
    run = launch.Ended(1, output, "", 0)
    launch.left_by_itself(run)
    launch.last_line(run)
    launch.line_of_crash(says(output), run, "program", "my.c")
    for lines in launch.failures(run.text).values():
        grade.brief(lines[0][1])
    grade.last_words(run.text)
    return launch.how_it_ended(run)


def seen(name, line):
    source = os.path.join(folder, "slow.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write(line)
    return examine.seen_by_others(SimpleNamespace(name=name, type=elf.FUNC), {"scale_step"}, source)


def tokens(source, in_python=False):
    return str(len(similar.shingles(source, in_python)))


def on_sheet(written):
    number, words = next(sheet.written(written, r"[\w-]+", "=:"))
    which.meant(which.answers(written).get(1, ""), SCALE.claims)
    return f"{number} {worksheet.value(words)} {len(words)}"


def view(statement):
    """What the compiler would say of a function with N letters of such statements; %d: another number in each."""
    lines = "".join(f"  [my.c:{i}:1] {statement}\n".replace("%d", str(i)) for i in range(N // (len(statement) + 16)))
    head = ";; Function f (f)\nstatus fD.1 (intD.6 nD.2)\n{\n  status sD.3;\n  status _1;\n\n"
    return str(statuses.unread(f"{head};;   basic block 2, loop depth 0\n{lines};;    succ:       2\n", "my.c"))


def long_names(n):
    """An object in whose table of names each of n symbols has almost all of it: what is left out after the first
    letters is the next one's."""
    strings = b"a" * n + b"\0"
    table = b"".join(struct.pack("<IBBHQQ", i, 0, 0, 1, 0, 0) for i in range(n))
    sections = b"\0.names\0"
    at, headers = 64, []
    for name, kind, data, link in ((0, 0, b"", 0), (1, 3, sections, 0), (1, 3, strings, 0), (1, elf.SYMTAB, table, 2)):
        headers.append((at, struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, at, len(data), link, 0, 0, 0), data))
        at += len(data)
    head = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<Q", at) + b"\0" * 10 \
           + struct.pack("<HHH", 64, len(headers), 1)
    path = os.path.join(folder, "slow.o")
    with open(path, "wb") as f:
        f.write(head + b"".join(data for _, _, data in headers) + b"".join(h for _, h, _ in headers))
    return refused(lambda: elf.read(path))


CASES = {
    "different calls": lambda: ended("rank 1 calls " + text(", rank 2 ")),
    "different calls, in short lines": lambda: ended(text("rank 1 calls , rank 2 " * 40 + "\n")),
    "a test that says much about what to do": lambda: ended("FAILED a b\n    E_TODO" + text("x")),
    "and says it often": lambda: ended("FAILED a b\n" + text("    " + "E_TODO " * 120 + "\n")),
    "errors of ranks": lambda: ended(text("[rank ")),
    "a failed test's line": lambda: ended(text("FAILED a b ")),
    "a rank's number": lambda: ended("FAILED a b on rank " + text("9") + " of 2"),
    "a signal's number": lambda: ended("exited on signal " + text("9")),
    "a crash": lambda: ended("ERROR: AddressSanitizer: " + text("#1 0x1 in x ")),
    "a compiler's message": lambda: compiled("my.c:1:1: error: " + text("expected ")),
    "a compiler's message, in many lines": lambda: compiled("my.c:1:1: error: x\n" + text("expected " * 100 + "\n")),
    "places of messages": lambda: compiled(text("a:1:")),
    "what the linker misses": lambda: linked(text("undefined reference to `")),
    "what the linker misses, in lines": lambda: linked(text("undefined reference to `\n")),
    "a name that is blank": lambda: seen(" ", "x" + text(" ")),
    "a name's digits": lambda: seen("_Z" + "9" * (N >> 4) + "a", "x"),
    "a long name": lambda: seen("a" * (N >> 1), text("a")),
    "blanks behind a name": lambda: seen("a", text("a   ")),
    "a comment without an end": lambda: tokens(text("/*")),
    "empty lines": lambda: tokens(text("\n")),
    "a text without an end": lambda: tokens('"' + text('\\"')),
    "a letter without an end": lambda: tokens("'" + text("\\'")),
    "texts without an end": lambda: tokens(text('"\n')),
    "directives": lambda: tokens(text(" #")),
    "three quotes": lambda: tokens(text('"""'), True),
    "two quotes of three": lambda: tokens(text("'''\"\""), True),
    "a letter of Python without an end": lambda: tokens("'" + text("\\'"), True),
    "names": lambda: tokens(text("a1 b2 if ")),
    "names in an object that share their letters": lambda: long_names(N >> 3),
    "blanks in an answer": lambda: on_sheet("1 = 3" + text(" ") + "y"),
    "many blank answers": lambda: on_sheet("1 = 3\n" + text("1 \t = " + " \t" * 300 + "y\n")),
    "statuses that overwrite each other": lambda: view("s_%d = gD.9 (1);"),
    "a value that is made of all statuses": lambda: view("_%d0 = gD.9 (_%d1);"),
    "names of values": lambda: view("s" + "_1" * (N >> 2) + " = x;"),
    "places of a value": lambda: view("[a] " * (N >> 3) + "x"),
    "a product": lambda: on_sheet("1 = 1" + text("*1")),
    "an answer of letters": lambda: on_sheet("1 = 3\n" + text("a")),
}


def late(*_):
    raise TimeoutError


signal.signal(signal.SIGVTALRM, late)
n_bad = 0
for name, case in CASES.items():
    began = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_S)
    try:
        said = case()
        wrong = "" if len(said) <= 4096 else f"it says {len(said)} letters"
    except TimeoutError:
        wrong = f"more than {MOST_S} s"
    except Exception as failure:                              # what is the student's is no error of the grader
        wrong = f"{type(failure).__name__}: {failure}"[:200]
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    n_bad += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {name}: {wrong or f'{time.process_time() - began:.1f} s'}")
sys.exit(bool(n_bad))

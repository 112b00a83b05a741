"""Hand-ins that mean harm (hostile.txt), graded together: python3 tests/data/grade/hostile.py FOLDER [KIND...]. A line
for each: ok, or not ok and what its report says. Among them are students who mean no harm, whose scores no other
changes. Where there is no sandbox: a line that begins with "skip".
"""

import csv
import ctypes
import os
import re
import subprocess
import sys

sys.path.insert(0, "tools")
from grader import exercise, library  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
folder, kinds = os.path.abspath(sys.argv[1]), sys.argv[2:]
FAIR = ("ann", "050-ann", "zoe")
LONG = {
    "MANYNAMES": "a_long_name_that_makes_the_table_of_names_long_" * 3,
    "EXPECTED": "expected " * 100000,
    "COMMENTS": "/*" * 500000,
    "QUOTES": '"' + '\\"' * 400000,
    "BLANKLINES": "\n" * 1000000,
}
AT_ONCE, LIMIT = 3, 4


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def cases():
    """(kind, what, status, words)"""
    for line in read(os.path.join(HERE, "hostile.txt")).splitlines():
        if line and not line.startswith("#"):
            kind, rest = line.split("|", 1)
            what, status, words = rest.rsplit("|", 2)
            if not kinds or kind.strip() in kinds:
                yield kind.strip(), what.strip(), status.strip(), words.strip()


def near(text):
    """The text, in which NEAR(f) is a function of the C library by its distance from rand: that is the same in every
    process."""
    c = library("c", "libc.so.6")
    at = {
        name: ctypes.cast(getattr(c, name), ctypes.c_void_p).value
        for name in {"rand", *re.findall(r"NEAR\((\w\w+)\)", text)}
    }
    lines = [f"#define DISTANCE_{name} {value - at['rand']}" for name, value in at.items()]
    return "\n".join(
        [
            "#define _GNU_SOURCE",
            "#include <stdlib.h>",
            "static char *volatile from_rand = (char *)rand;",
            "#define NEAR(f) ((__typeof__(&f))(from_rand + DISTANCE_##f))",
            *lines,
            text,
        ]
    )


def attacking(solution, what, source):
    """Every function of the solution begins with the attack."""
    begins = re.sub(r"^(enum status .*(?:\n .*)?\) \{)$", r"\1\n    if (attack()) return 0;", solution, flags=re.M)
    return f"#define ATTACK_{what}\n#define OTHERS \"{folder}/in\"\n{near(source)}{begins}"


def submission(what, source):
    """(exercise, text)"""
    lesson, name, whole, code = re.fullmatch(r"(?:(\d\d) (\w+) )?(?:(?:C|(F)): (.*)|\w+)", what).groups()
    e = next(e for e in exercise.exercises(lesson or "02") if e.name == (name or "cost"))
    solution = read(e.reference)
    if code is None:
        return e, attacking(solution, what.split()[-1], source)
    for key, text in {"\\n": "\n", **LONG}.items():
        code = code.replace(key, text)
    before = "" if whole else solution if lesson else solution.replace("return OK;", "return E_INTERNAL;")
    return e, before + code + "\n"


def hand_in(student, e, text):
    path = os.path.join(folder, "in", student, e.number, e.file)
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def grade():
    """Rows of the table: student -> row."""
    out = os.path.join(folder, "scores.csv")
    done = subprocess.run(
        [
            "tools/grade-all",
            "--built",
            "--jobs",
            str(AT_ONCE),
            "--limit",
            str(LIMIT),
            "--lessons",
            "",
            "--out",
            out,
            "--reports",
            os.path.join(folder, "reports"),
            os.path.join(folder, "in"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if "bubblewrap" in done.stdout and not os.path.exists(out):
        sys.exit(f"skip hostile: {done.stdout.splitlines()[0]}")
    if done.returncode != 0:
        sys.exit(f"tools/grade-all ended with code {done.returncode}:\n{done.stdout[-2000:]}")
    with open(out, newline="", encoding="utf-8") as f:
        return {row["student"]: row for row in csv.DictReader(f)}


def main():
    source, n_bad = read(os.path.join(HERE, "hostile.c")), 0
    students = {f"{i:03d}": case for i, case in enumerate(cases(), 1)}
    for student, (_, what, _, _) in students.items():
        hand_in(student, *submission(what, source))
    cost = next(e for e in exercise.exercises("02") if e.name == "cost")
    for fair in FAIR:
        hand_in(fair, cost, read(cost.reference))
        students[fair] = ("fair", f"{fair}, among all these", "graded", "")
    rows = grade()
    for student, (kind, what, status, words) in students.items():
        row, report = rows[student], read(os.path.join(folder, "reports", f"{student}.txt"))
        good = (
            row["score"] == ("100" if kind == "fair" else "0")
            and row["status"] in status.split(" or ")
            and words in report
        )
        n_bad += not good
        print(
            f"{'ok' if good else 'not ok'} {kind}: {what[:110]}"
            + ("" if good else f"\n    {row['score']} points, {row['status']}: {report[:600]}")
        )
    return min(n_bad, 1)


if __name__ == "__main__":
    sys.exit(print(near(read(sys.argv[2]))) if sys.argv[1] == "--near" else main())

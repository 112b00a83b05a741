"""Wrong solutions (wrong.txt), each graded as make grade does: python3 tests/data/grade/wrong.py [WORD...]. None has
full marks, and the first line of its report names the cause. A line for each: ok, or not ok and what the report says.
WORDs: those whose heading has one of them.
"""

import concurrent.futures
import os
import re
import shutil
import sys

sys.path.insert(0, "tools")
from grader import ROOT, Trouble, build, exercise, grade, launch, mutant  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
AT_ONCE = 2


class Case:
    """what: the heading. changes: (old, new) texts of the reference; patch: or a planted mistake's name. words: of the
    first line."""

    def __init__(self, label, what):
        self.label, self.what, self.changes, self.patch, self.words = label, what, [], "", ""

    def take(self, mark, text):
        if mark == "patch":
            self.patch = text
        elif mark == "=":
            self.words = text
        elif mark == "-":
            if not self.changes or self.changes[-1][1] is not None:
                self.changes.append(["", None])
            self.changes[-1][0] += text + "\n"
        else:
            self.changes[-1][1] = (self.changes[-1][1] or "") + text + "\n"


def cases():
    found = []
    with open(os.path.join(HERE, "wrong.txt"), encoding="utf-8") as f:
        for line in f.read().splitlines():
            heading = re.fullmatch(r"\[(\d\d \w[\w-]*)\] (.+)", line)
            if heading:
                found.append(Case(*heading.groups()))
            elif line and not line.startswith("#"):
                mark, _, text = line.partition(" ")
                found[-1].take(mark, text)
    return [c for c in found if len(sys.argv) < 2 or any(w in f"{c.label} {c.what}" for w in sys.argv[1:])]


def write(case, e, path):
    """The reference with the mistake. A text has to be there exactly once; its lines are whole."""
    if case.patch:
        mutant.apply(
            os.path.join(ROOT, "tests/mutants/lessons", e.lesson, case.patch + ".patch"), e, path
        )
        return
    with open(e.reference, encoding="utf-8") as f:
        text = f.read()
    for old, new in case.changes:
        if text.count(old) != 1:
            raise Trouble(f"STALE: the reference has {text.count(old)} times: {old}")
        text = text.replace(old, new or "")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def first_line(result):
    """What a report begins with."""
    if result.status != "graded":
        return f"{result.status}: {result.message.splitlines()[0]}"
    found = grade.show_causes(grade.causes_of(result))
    return found[0].strip() if found else ""


def check(base, case, number):
    """A line for the test."""
    e = base.exercise
    folder = os.path.join(ROOT, base.folder, f"wrong-{number}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        write(case, e, os.path.join(folder, e.file))
        result = grade.grade(base, launch.Plain(folder), e.file)
    except Trouble as trouble:
        return f"not ok {case.label}, {case.what}: {trouble}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    said, what = first_line(result), f"{case.label}, {case.what}: {result.score()}"
    if not result.full() and case.words and case.words in said:
        return f"ok {what}"
    return f"not ok {what}\n    it should begin with: {case.words}\n    {grade.show(result, e.file)}"


def main():
    by_label = {e.label: e for e in exercise.exercises("")}
    n_bad, wrong = 0, cases()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for label in dict.fromkeys(c.label for c in wrong):
            e = by_label[label]
            if e.kind == "cu" and not os.path.isfile(os.path.join(ROOT, build.simt_folder(), "settings-check")):
                print(f"skip {label}: the emulator is not built (make kernels-build)", flush=True)
                continue
            try:
                base = build.Base(e, True)
            except Trouble as trouble:
                print(f"not ok {label}: {str(trouble).splitlines()[0]}", flush=True)
                n_bad += 1
                continue
            here = [(i, c) for i, c in enumerate(wrong) if c.label == label]
            for line in pool.map(lambda one, base=base: check(base, one[1], one[0]), here):
                n_bad += line.startswith("not ok")
                print(line, flush=True)
    return min(n_bad, 1)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())

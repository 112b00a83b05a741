"""Filled-in sheets, graded as exercises are: "which claim fails?" (which.py), and numbers of one's own (worksheet.py).

A kind of sheet is a module: NAME of the exercise, TITLE, SHEET the file's name; there(lesson): has the lesson one;
questions(lesson, student): how they are called; graded(lesson, student, text, built): the answers, each with number,
text, right, `told` (what to say if it is wrong) and understood."""
import re
from types import SimpleNamespace

from . import exercise, grade

LINE_MAX = 1000              # letters of a line that are read


def written(text, key, signs):
    """(key, words) for each line of a filled-in sheet that begins with a key, and one of the signs behind it."""
    for line in text.splitlines():
        match = re.match(rf"[ \t]*({key})[ \t]*[{signs}]", line[:LINE_MAX])
        if match:
            yield match[1], line[match.end():LINE_MAX].strip()


def as_exercise(kind, lesson, questions):
    """A claim for each question."""
    number = lesson.split("-")[0]
    return SimpleNamespace(lesson=lesson, number=number, name=kind.NAME, label=f"{number} {kind.NAME}",
                           title=kind.TITLE, file=kind.SHEET, figure="", further=set(),
                           claims=[exercise.Claim("", text, "", 1) for text in questions])


def as_grade(kind, lesson, student, answered):
    result = grade.Grade(as_exercise(kind, lesson, kind.questions(lesson, student)))
    for claim, a in zip(result.exercise.claims, answered):
        outcome = grade.Outcome()
        outcome.held, outcome.failed_on = ([1], None) if a.right else ([], 1)
        outcome.why = [] if a.right else [a.told]
        result.claims.append((claim, outcome))
    lost = [str(a.number) for a in answered if a.text and not a.understood]
    result.remark = f"not understood: {' '.join(lost)}" if lost else ""
    return result


def report(answered):
    """For people: a line for each answer, and how many are right."""
    n_right = sum(a.right for a in answered)
    return "\n".join([*(f"{a.number}  {'right' if a.right else a.told}" for a in answered),
                      f"{n_right} of {len(answered)}"]), n_right == len(answered)

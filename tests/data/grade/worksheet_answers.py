"""worksheet_answers.py LESSON NAME: a sheet filled in by the lessons' formulas, from the words of the questions alone."""
import re
import sys

sys.path.insert(0, "tools")
from grader import exercise, worksheet  # noqa: E402


def zero(words):
    """Lesson 04, "Who keeps what" and "What is on the wire"."""
    stage, ranks = (int(re.search(pattern, words)[1]) for pattern in (r"stage (\d)", r"on (\d+) ranks"))
    if "gpt3" in words:
        microbatches = int(re.search(r"(\d+) sequences", words)[1]) // ranks
        once = 2 * 6658.4e6 * (ranks - 1) / ranks
        return once * {1: 2, 3: 3 * microbatches}[stage]
    weights, grads, states = (4, 4, 8) if "fp32 without" in words else (2, 2, 12)
    states, grads, weights = (b / (ranks if stage >= n else 1) for n, b in ((1, states), (2, grads), (3, weights)))
    if "Of these bytes" in words:
        grads = weights = 0
    return float(words.split()[0]) * (weights + grads + states)


def pipeline(words):
    """Lesson 07: (p - 1)(F + B), over the chunks; of a step m (F + B) more."""
    stages, microbatches = int(re.search(r"(\d+) stages", words)[1]), int(re.search(r"(\d+) microbatches", words)[1])
    both = 1 + float((re.search(r"backward (?:of )?([\d.]+?)[.:,]?(?= |$)", words) or [0, 2])[1])
    if "GPipe" in words:
        return microbatches
    idle = (stages - 1) * both / int((re.search(r"(\d+) chunks", words) or [0, 1])[1])
    return idle / (idle + microbatches * both) if "share" in words else idle


lesson = exercise.lesson_named(sys.argv[1])
for name, q in worksheet.drawn(lesson, sys.argv[2]).items():
    print(f"{name} = {(zero if sys.argv[1] == '04' else pipeline)(q['ask'])!r} # by the formula")

"""worksheet_answers.py LESSON NAME: a sheet filled in by the lessons' formulas, from the words of the questions
alone."""
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
    if "states alone" in words:
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


def mesh(words):
    """Lesson 10, "On one page": bytes over tp and over dp."""
    t, d = (int(re.search(rf"{axis}=(\d+)", words)[1]) for axis in ("tp", "dp"))
    if "over dp" in words:
        return 2 * (d - 1) / d * 6658.4e6 / t * 2
    microbatches = int(re.search(r"(\d+) sequences", words)[1]) / d
    return microbatches * 4 * 32 * 2 * (t - 1) / t * 2048 * 4096 * 2


def attention(words):
    """Lesson 23, "Attention by tiles": what a layer saves, with and without the scores, and flops of 32 layers."""
    width, heads, positions = 4096, 32, int(re.search(r"T=(\d+)", words)[1])
    if "Flops" in words:
        return 32 * positions * (24 * width * width + 4 * positions * width)
    return 2 * (16 * positions * width + ("three kernels" in words) * heads * positions ** 2)


lesson = exercise.lesson_named(sys.argv[1])
formula = {"04": zero, "07": pipeline, "10": mesh, "23": attention}[sys.argv[1]]
for name, q in worksheet.drawn(lesson, sys.argv[2]).items():
    print(f"{name} = {formula(q['ask'])!r} # by the formula")

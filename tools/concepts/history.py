"""docs/history.md: what did not fit, and what was invented. docs/why.md: when a silent bug is seen."""
import json
import math
import re

from canvas import BLUE, GREY, INK, LINE, ORANGE, PALE, RED, SOFT, Canvas

# A card's memory in GB, from the year in which it was sold: data sheets.
CARDS = [(2010.9, 3, "GTX 580"), (2013.8, 12, "K40"), (2016.3, 16, "P100"), (2018.2, 32, "V100"), (2020.9, 80, "A100"),
         (2023.9, 141, "H200"), (2024.9, 192, "B200")]
# A model's parameters, in billions, by the year of its paper.
MODELS = [(2012.9, 0.06, "AlexNet"), (2018.5, 0.117, "GPT"), (2019.1, 1.5, "GPT-2"), (2019.7, 8.3, "Megatron-LM"),
          (2020.1, 17, "Turing-NLG"), (2020.4, 175, "GPT-3"),
          (2022.1, 530, "MT-NLG"), (2024.6, 405, "Llama 3"), (2024.95, 671, "DeepSeek-V3")]
# What was invented, by the year of its paper; the line of words that it stands in, and on which side of the year.
INVENTED = [(2012.9, "a net on two cards", 0, "start"), (2014.8, "parameter server", 1, "start"),
            (2017.8, "ring all-reduce (Horovod)", 0, "start"), (2018.9, "GPipe", 3, "start"),
            (2019.5, "PipeDream, Megatron-LM, ZeRO", 1, "start"), (2021.6, "3D", 0, "start"),
            (2022.4, "sequence parallel, FlashAttention", 2, "end"), (2023.8, "ring attention", 3, "start"),
            (2024.95, "fp8, DualPipe", 0, "end"), (2025.7, "elastic", 2, "end")]
FIRST, LAST, LEAST, MOST = 2012.0, 2026.0, 1.0, 20000.0                  # years; GB


def fits():
    c = Canvas("What did not fit, and what was invented, 2012 to 2026",
               "A chart over years, logarithmic in GB. Memory of the largest card goes from 3 to 192 GB. Sixteen bytes "
               "for each parameter of a model go from 1 to more than 10000 GB.", 516)
    left, right, top, bottom = 76, 840, 150, 410
    def x(year): return left + (right - left) * (year - FIRST) / (LAST - FIRST)
    def y(gb): return bottom - (bottom - top) * math.log(gb / LEAST) / math.log(MOST / LEAST)
    for year in range(2012, 2027, 2):
        c.line([(x(year), top), (x(year), bottom)], "#e4e4e0")
        c.text(x(year), bottom + 18, str(year), size=12, anchor="middle", colour=SOFT)
    for gb in (1, 10, 100, 1000, 10000):
        c.line([(left, y(gb)), (right, y(gb))], "#e4e4e0")
        c.text(left - 8, y(gb) + 4, f"{gb} GB", size=12, anchor="end", colour=SOFT)
    steps = []
    for (year, gb, _), after in zip(CARDS, [*(card[0] for card in CARDS[1:]), LAST]):
        steps += [(x(max(year, FIRST)), y(gb)), (x(after), y(gb))]
    c.line(steps, INK, 2.4)
    for year, gb, name in CARDS:
        c.text(x(max(year, FIRST)) + 4, y(gb) + (-6 if name in ("V100", "B200") else 16), f"{name} {gb}", size=12)
    side = {"GPT": ("start", 8, 4), "Turing-NLG": ("start", 8, 12), "DeepSeek-V3": ("middle", 0, -10),
            "Llama 3": ("end", -8, 16), "GPT-2": ("start", 9, 12), "AlexNet": ("start", 9, 0),
            "Megatron-LM": ("end", -8, 0)}
    for year, billions, name in MODELS:
        anchor, dx, dy = side.get(name, ("end", -8, -4))
        c.dot(x(year), y(16 * billions), 5, RED)
        c.text(x(year) + dx, y(16 * billions) + dy, f"{name}, {billions:g}e9", size=12, anchor=anchor, colour=RED)
    for year, words, lane, anchor in INVENTED:
        at = 52 + lane * 22
        c.line([(x(year), at + 4), (x(year), top)], LINE, 0.8, dashed=True)
        c.text(x(year) + (4 if anchor == "start" else -4), at, words, size=12, bold=True, anchor=anchor)
    c.dot(78, 446, 5, RED)
    c.text(90, 450, "16 bytes for each parameter: weight, gradient, states", size=12, colour=RED)
    c.line([(470, 446), (496, 446)], INK, 2.4)
    c.text(504, 450, "memory of one card, GB", size=12)
    c.note("From 2019 on the states of the largest models are more than one card holds, and activations come on top. "
           "What else did not fit was time, bytes on a network, and patience with failures: docs/history.md has the "
           "sources.")
    return c


# ---- of docs/museum.json, which tools/museum has measured ----
STEPS = 1000


def stairs(c, steps, x, y, colour):
    """How many of these steps are at most x."""
    points = [(x(1), y(0))]
    for i, step in enumerate(steps, 1):
        points += [(x(step), points[-1][1]), (x(step), y(i))]
    c.line([*points, (x(STEPS), points[-1][1])], colour, 2.4)


def seen():
    with open("docs/museum.json", encoding="utf-8") as file:
        bugs = json.load(file)
    by_loss = sorted(bug["first_seen"] for bug in bugs if bug["first_seen"])
    by_oracle = sorted(int(re.match(r"step (\d+),", bug["oracle_says"])[1]) for bug in bugs if bug["oracle"])
    n, middle = len(bugs), by_loss[len(by_loss) // 2]
    half = sum(step <= middle for step in by_loss)
    c = Canvas(f"{n} published bugs of parallel training: how many are seen by which step",
               f"Two staircases over steps, logarithmic. The loss shows {sum(s == 1 for s in by_loss)} bugs in step 1 "
               f"and {len(by_loss)} by step {STEPS}. The oracle names {by_oracle.count(1)} in step 1 and "
               f"{len(by_oracle)} by step {by_oracle[-1]}.", 408)
    left, right, top, bottom = 60, 820, 52, 314
    def x(step): return left + (right - left) * math.log(step) / math.log(STEPS)
    def y(count): return bottom - (bottom - top) * count / n
    for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        c.line([(x(step), top), (x(step), bottom)], "#e4e4e0")
        c.text(x(step), bottom + 18, str(step), size=12, anchor="middle", colour=SOFT)
    for count in (0, 20, 40, n):
        c.line([(left, y(count)), (right, y(count))], "#e4e4e0")
        c.text(left - 8, y(count) + 4, str(count), size=12, anchor="end", colour=SOFT)
    c.text((left + right) / 2, bottom + 38, "step of training", size=12, anchor="middle", colour=SOFT)
    stairs(c, by_loss, x, y, RED)
    stairs(c, by_oracle, x, y, INK)
    c.text(x(2) + 10, y(len(by_oracle)) + 18, "the oracle names the first wrong number", bold=True)
    c.dot(x(middle), y(half), 4, RED)
    c.text(x(middle) - 10, y(half) - 4, f"the loss is off by 1 %: {half} bugs by step {middle}", anchor="end",
           bold=True, colour=RED)
    c.note("Each bug was planted alone, in a model of two layers, and trained next to the same run without it. For "
           f"{n - len(by_oracle)} of them the oracle has no reference. Measured by tools/museum: docs/museum.md")
    return c


PICTURES = {"what-did-not-fit": fits, "why": seen}

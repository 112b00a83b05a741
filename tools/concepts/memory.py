"""Lesson 09: what is kept from forward to backward when layers are recomputed in groups. Lesson 12: a save, and where
it may be cut; the wasted share of time by the interval between saves."""
import math

from canvas import BLUE, GREEN, GREY, INK, LINE, ORANGE, PALE, RED, SOFT, Canvas, trivium


def square_root():
    layers, group = 16, 4
    c = Canvas("Keep one input per group, recompute the group: memory like the square root of the depth",
               "Sixteen layers in groups of four; and bars of the planned activations for groups of 1, 2, 4, 8 and 16 "
               "layers.", 452)
    c.text(16, 58, "forward keeps the input of each group", size=13)
    c.text(16, 148, "backward of the third group: its four layers run again, and only they are there", size=13)
    for layer in range(layers):
        x, kept, third = 16 + layer * 52, layer % group == 0, layer // group == 2
        c.box(x, 68, 46, 40, BLUE if kept else "none", f"{layer}", edge=LINE if kept else GREY)
        done = layer // group > 2
        c.box(x, 158, 46, 40, ORANGE if third and not kept else BLUE if kept and not done else "none",
              "" if done else f"{layer}",
              edge=LINE if (third or kept) and not done else GREY, dashed=done)
    c.arrow([(16 + 12 * 52 - 10, 210), (16 + 8 * 52 + 4, 210)])
    c.legend(500, 58, [(BLUE, "kept"), (ORANGE, "recomputed, in scratch"), ("none", "gone")])
    sizes = []
    for n in (1, 2, 4, 8, 16):
        kind = "full" if n == 1 else f"uniform:{n}"
        text = trivium("show memory --config configs/demo.ini --layers 64 --global-batch 16 --micro-batch 1 --pp 2 "
                       f"--schedule gpipe --recompute {kind}")
        sizes.append((n, int(next(line for line in text.splitlines() if line.split()[:2] == ["0", "0"]).split()[7])))
    c.text(16, 246, "planned bytes of activations, 32 layers with 16 microbatches in flight (lesson 09):", size=13)
    least = min(size for _, size in sizes)
    for i, (n, size) in enumerate(sizes):
        y = 258 + i * 24
        c.text(96, y + 14, f"groups of {n}", size=12, anchor="end")
        c.box(104, y, size / sizes[0][1] * 560, 18, GREEN if size == least else GREY)
        c.text(112 + size / sizes[0][1] * 560, y + 14, f"{size / 1e6:.1f} MB", size=12)
    c.note("Small groups keep many inputs, large groups recompute much at once. Best: N = sqrt(f L i / a) = sqrt(16 · "
           "32 / 16) = 5.7.",
           "trivium show memory --layers 64 --global-batch 16 --micro-batch 1 --pp 2 --schedule gpipe --recompute "
           "uniform:4")
    return c


SAVE = [  # a step of a save, what a power cut right after it leaves, the checkpoint that a reader then gets
    ("every rank writes .step-120/rank-R and flushes it", "a folder with a dot", "step 60"),
    ("one all-reduce: all files are there", "a folder with a dot", "step 60"),
    ("rank 0 writes manifest.json and flushes it", "a folder with a dot", "step 60"),
    ("rank 0 renames .step-120 to step-120, flushes the folder", "step-120, which nothing names yet", "step 60"),
    ("rank 0 writes .latest and flushes it", "a file with a dot", "step 60"),
    ("rank 0 renames .latest to latest, flushes the folder", "latest names step-120", "step 120"),
]


def save():
    c = Canvas("A save of step 120, cut at any point: a reader finds a whole checkpoint",
               "Six steps of a save from top to bottom; after each, what a crash leaves and what a reader gets.", 358)
    c.text(44, 60, "what is done", bold=True)
    c.text(438, 60, "a crash here leaves", bold=True)
    c.text(702, 60, "a reader gets", bold=True)
    for i, (does, leaves, gets) in enumerate(SAVE):
        y = 74 + i * 36
        c.box(44, y, 366, 28, PALE, does, size=12)
        if i:
            c.arrow([(30, y - 16), (30, y + 8)], LINE)
        c.text(30, y + 19, str(i + 1), anchor="middle", size=12, bold=True)
        c.line([(414, y + 32), (434, y + 32)], RED, 2)
        c.text(424, y + 25, "✗", anchor="middle", colour=RED, bold=True)
        c.text(444, y + 19, leaves, size=12)
        c.box(702, y, 140, 28, GREEN if gets == "step 120" else BLUE, gets, size=12, bold=True)
    c.note("Step 60 is the checkpoint before. No reader opens a name with a dot, and latest changes last, in one "
           "rename. A flush stands before",
           "every name that leads to what was flushed, or a power cut could leave the name without the content.")
    return c


# ---- lesson 12: its worked problem ----
FAILS, RESTART = 54 * 24 * 3600 / 419, 600  # seconds between two failures, and of a restart


def waste():
    """w = C / tau + tau / 2M + R / M, least at sqrt(2 C M): the formulas of "How often"."""
    stalls = [(60, ORANGE), (2, BLUE)]
    def w(stall, tau): return stall / tau + tau / (2 * FAILS) + RESTART / FAILS
    best = {stall: math.sqrt(2 * stall * FAILS) for stall, _ in stalls}
    said = ", ".join(f"{100 * w(stall, best[stall]):.1f} % with saves of {stall} s" for stall, _ in stalls)
    c = Canvas("The wasted share of time, by the interval between saves", "Two curves with a flat bottom over an "
               f"interval that doubles from mark to mark. The least is {said}. Restarts alone "
               f"waste {100 * RESTART / FAILS:.1f} %.", 424)
    left, right, top, bottom, least, most = 76, 836, 72, 342, 30.0, 8000.0
    def x(tau): return left + (right - left) * math.log(tau / least) / math.log(most / least)
    def y(share): return bottom - (bottom - top) * share / 0.45
    for percent in range(0, 46, 10):
        c.line([(left, y(percent / 100)), (right, y(percent / 100))], "#e4e4e0")
        c.text(left - 8, y(percent / 100) + 4, f"{percent} %", size=12, anchor="end", colour=SOFT)
    for minutes in (0.5, 1, 2, 4, 8, 16, 32, 64, 128):
        c.line([(x(60 * minutes), bottom), (x(60 * minutes), bottom + 5)], LINE)
        c.text(x(60 * minutes), bottom + 19, f"{minutes:g} min", size=12, anchor="middle", colour=SOFT)
    floor = RESTART / FAILS
    c.box(left, y(floor), right - left, bottom - y(floor), GREY, edge="none")
    c.text(left + 10, y(floor) + 18, f"restarts: R / M = {100 * floor:.1f} %, whatever the interval", size=12)
    steps = [least * (most / least) ** (i / 240) for i in range(241)]
    for name, part in (("saving, C / tau", lambda tau: 60 / tau),
                       ("lost work, tau / 2M", lambda tau: tau / (2 * FAILS))):
        inside = [tau for tau in steps if part(tau) + floor <= 0.45]
        c.line([(x(tau), y(part(tau) + floor)) for tau in inside], LINE, 1.4, dashed=True)
        first = name.startswith("saving")
        c.text(x(150) + 8 if first else x(2900) + 12, y(part(150 if first else 2900) + floor) + (0 if first else 12),
               name + (" for C = 60 s" if first else ""), size=12, colour=SOFT)
    for stall, fill in stalls:
        inside = [tau for tau in steps if w(stall, tau) <= 0.45]
        c.line([(x(tau), y(w(stall, tau))) for tau in inside], INK, 4)
        c.line([(x(tau), y(w(stall, tau))) for tau in inside], fill, 2.4)
        for factor in (0.5, 1, 2):
            c.dot(x(factor * best[stall]), y(w(stall, factor * best[stall])), 5 if factor == 1 else 4,
                  RED if factor == 1 else fill, INK)
        tau = best[stall]
        c.text(x(tau), y(w(stall, tau)) - (20 if stall == 60 else 12),
               f"C = {stall} s: {tau:.0f} s, {100 * w(stall, tau):.1f} %", size=12, anchor="middle", bold=True)
    far = 2 * best[60]
    c.note(f"The worked problem of lesson 12: a failure every {FAILS:.0f} s, a restart of {RESTART} s. Red: Young's "
           "interval, sqrt(2 C M). The other dots are half of it and twice: "
           f"with C = 60 s both waste {100 * w(60, far):.1f} %. The first order in C / M; exercise interval has the "
           "exact curve.")
    return c


PICTURES = {"recompute-groups": square_root, "save-protocol": save, "waste-of-an-interval": waste}

"""Lesson 08: where the bits of three formats are, and which powers of two they reach."""
import csv
import math
import os

from canvas import BLUE, ORANGE, PALE, PINK, RED, SOFT, Canvas

FORMATS = [("fp32", 8, 23), ("bf16", 8, 7), ("fp16", 5, 10)]  # exponent bits, mantissa bits


def formats():
    c = Canvas("Three formats: which bits, and which numbers", "Rows of 32, 16 and 16 bits: sign, exponent, mantissa. "
               "Below, a line of powers of two with the range of each format, and values of a training step.", 512)
    for row, (name, exponent, mantissa) in enumerate(FORMATS):
        y = 56 + row * 50
        c.text(16, y + 21, name, bold=True, size=14)
        for bit in range(1 + exponent + mantissa):
            c.box(70 + bit * 19, y, 19, 32, PINK if bit == 0 else ORANGE if bit <= exponent else BLUE)
        end = 70 + (1 + exponent + mantissa) * 19 + 12
        c.text(end, y + 14, f"1 + {exponent} + {mantissa}", size=12)
        c.text(end, y + 30, f"spacing at 1: 2^-{mantissa}", size=12, colour=SOFT)
    c.legend(70, 222, [(PINK, "sign"), (ORANGE, "exponent: the range"), (BLUE, "mantissa: the digits")])

    low, high, left, wide = -152, 130, 70, 770
    def x(power): return left + (power - low) / (high - low) * wide
    base = 300
    for power in range(-144, 129, 24):
        c.line([(x(power), base - 34), (x(power), base + 82)], "#e4e4e0")
        c.text(x(power), base - 42, f"2^{power}", size=12, anchor="middle", colour=SOFT)
    for row, (name, exponent, mantissa) in enumerate(FORMATS):
        y, bias = base - 26 + row * 36, 2 ** (exponent - 1) - 1
        c.text(16, y + 17, name, bold=True, size=14)
        c.box(x(1 - bias - mantissa), y, x(1 - bias) - x(1 - bias - mantissa), 24, "#f6dfc8")
        c.box(x(1 - bias), y, x(bias + 1) - x(1 - bias), 24, BLUE)
    c.legend(520, base + 106, [(BLUE, "normal numbers"), ("#f6dfc8", "subnormal: fewer digits")])

    y = base + 128
    for words, value, to in (("a gradient, 4e-11", 4e-11, None),
                             ("the same, times S = 2^16", 4e-11 * 2 ** 16, "scaled"), ("a weight, 0.02", 0.02, None)):
        at = x(math.log2(value))
        c.line([(at, base - 30), (at, y)], RED if to is None else "#0072b2", 1.6, dashed=True)
    at, scaled, weight = (x(math.log2(v)) for v in (4e-11, 4e-11 * 2 ** 16, 0.02))
    c.arrow([(at, y - 4), (scaled, y - 4)], "#0072b2", 2)
    c.text(at - 6, y + 2, "a gradient, 4e-11", size=12, anchor="end")
    c.text((at + scaled) / 2 + 10, y + 18, "times S = 2^16", size=12, anchor="middle", colour="#0072b2")
    c.text(weight + 8, y + 2, "a weight, 0.02", size=12)
    c.note("fp32 and bf16 have the same exponent, so the same range; fp16 ends at 2^-24 and 2^16. A gradient below "
           "2^-24 is zero in fp16;",
           "the loss scale moves all gradients to the right by as many powers of two, and costs no digit.")
    return c


# ---- the gradients of a step, by their size ----
HERE = os.path.dirname(os.path.abspath(__file__))
LEAST, MOST, SCALED = -36, 20, 16            # powers of two that are drawn; the loss scale of the second row


def counted():
    """[(n, gradients of parameters, of layers between 2^n and 2^(n+1))], from tools/concepts/gradients."""
    with open(os.path.join(HERE, "..", "..", "docs", "figures", "gradients.csv"), encoding="utf-8") as file:
        return [(int(row["power"]), int(row["parameters"]), int(row["layers"])) for row in csv.DictReader(file)]


def histogram():
    rows = counted()
    totals = [sum(row[k] for row in rows) for k in (1, 2)]
    def share(k, low, high): return 100 * sum(row[k] for row in rows if low <= row[0] < high) / totals[k - 1]
    c = Canvas("The gradients of one step on the number line of fp16", "Two histograms over powers of two, as they are "
               "and times 2^16, before bands where fp16 has zero, subnormal numbers, normal numbers and infinity.", 520)
    left, wide, tall = 16, 828, 150
    def x(power): return left + (power - LEAST) / (MOST - LEAST) * wide
    for scale, base, words in ((0, 236, "as they are"), (SCALED, 418, f"times S = 2^{SCALED}")):
        for low, high, fill, name in ((LEAST, -25, "#f8e0e0", "0 in fp16"),
                                      (-25, -14, "#f6ecdc", "subnormal: fewer digits"),
                                      (-14, 16, PALE, "normal"), (16, MOST, "#f8e0e0", "infinite")):
            c.box(x(low), base - tall, x(high) - x(low), tall, fill, edge="none")
            c.text(x(low) + 6, base - tall + 16, name, size=12, colour=SOFT)
        most = max(max(row[1] / totals[0], row[2] / totals[1]) for row in rows)
        for n, *counts in rows:
            for k, colour in ((0, BLUE), (1, ORANGE)):
                height = counts[k] / totals[k] / most * (tall - 26)
                if LEAST <= n + scale < MOST and height >= 0.05:
                    c.box(x(n + scale) + 0.5 + k * 7, base - height, 6.5, height, colour, edge="none")
        c.line([(left, base), (left + wide, base)], "#5a5a5a")
        c.text(x(MOST) - 6, base - tall + 34, words, anchor="end", bold=True)
        for power in range(LEAST + 4, MOST, 8):
            c.text(x(power), base + 16, f"2^{power}", size=12, anchor="middle", colour=SOFT)
    c.legend(16, 52, [(BLUE, "gradients of parameters"), (ORANGE, "gradients of what layers give")])
    c.note(f"Lesson 08's model, its first step, in fp64. As they are, {share(1, -25, -14):.0f} % (parameters) and "
           f"{share(2, -25, -14):.0f} % (layers) are subnormal in fp16.",
           f"{share(1, -99, -25):.1f} % and {share(2, -99, -25):.2f} % are zero. Larger batches move all to the left: "
           "4096 times as many tokens by 12.",
           "Not drawn: gradients of 128 biases of keys, which are zero but for rounding (2^-70).")
    return c


PICTURES = {"number-formats": formats, "gradient-histogram": histogram}

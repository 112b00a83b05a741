"""Lesson 08: where the bits of three formats are, and which powers of two they reach."""
import math

from canvas import BLUE, ORANGE, PINK, RED, SOFT, Canvas

FORMATS = [("fp32", 8, 23), ("bf16", 8, 7), ("fp16", 5, 10)]  # exponent bits, mantissa bits


def formats():
    c = Canvas("Three formats: which bits, and which numbers", "Rows of 32, 16 and 16 bits: sign, exponent, mantissa. Below, a line of powers of two with the range of each format, and values of a training step.", 512)
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
    for words, value, to in (("a gradient, 4e-11", 4e-11, None), ("the same, times S = 2^16", 4e-11 * 2 ** 16, "scaled"), ("a weight, 0.02", 0.02, None)):
        at = x(math.log2(value))
        c.line([(at, base - 30), (at, y)], RED if to is None else "#0072b2", 1.6, dashed=True)
    at, scaled, weight = (x(math.log2(v)) for v in (4e-11, 4e-11 * 2 ** 16, 0.02))
    c.arrow([(at, y - 4), (scaled, y - 4)], "#0072b2", 2)
    c.text(at - 6, y + 2, "a gradient, 4e-11", size=12, anchor="end")
    c.text((at + scaled) / 2 + 10, y + 18, "times S = 2^16", size=12, anchor="middle", colour="#0072b2")
    c.text(weight + 8, y + 2, "a weight, 0.02", size=12)
    c.note("fp32 and bf16 have the same exponent, so the same range; fp16 ends at 2^-24 and 2^16. A gradient below 2^-24 is zero in fp16;",
           "the loss scale moves all gradients to the right by as many powers of two, and costs no digit.")
    return c


PICTURES = {"number-formats": formats}

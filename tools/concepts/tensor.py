"""Lessons 05, 06 and 10: cuts of a layer, the pair of its ends, a loss over a sharded vocabulary, and the mesh."""
import math
import re

from canvas import BLUE, GREEN, GREY, INK, LINE, ORANGE, PALE, RANKS, RED, SOFT, Canvas, trivium


def axes_of(program, slot):
    """The axes that `show program` prints for a slot, of the program after tp: "K 256/512@0" -> K, 256, 512."""
    after = program[program.index("after tp"):]
    line = re.search(rf"-> {re.escape(slot)} .*?\(([^)]*)\)", after).group(1)
    return {axis.split()[0]: axis.split()[1].split("@")[0] for axis in line.split(", ") if " " in axis}


def cut_layer():
    program = trivium("show program --tp 2 --layers 1")
    heads, hidden = axes_of(program, "h0.qkv")["H"], axes_of(program, "h0.fc")["K"]
    c = Canvas("Two ranks cut a layer: columns first, rows second, one all-reduce",
               "The MLP and attention on two ranks: input whole, first matrix cut by columns, second by rows, partial "
               "outputs summed.", 510)
    for row, (name, first, middle, second, axis) in enumerate([
            ("MLP", "fc", "gelu, element\nby element", "fc2", f"K {hidden}"),
            ("Attention", "qkv", "softmax,\nhead by head", "proj", f"H {heads}")]):
        y = 66 + row * 200
        c.text(16, y - 8, name, bold=True, size=14)
        c.box(16, y + 30, 66, 84, GREY, "x\nwhole,\n(B,T,C)")
        c.box(104, y + 48, 42, 48, GREEN, "f", size=16, round_by=8, bold=True)
        c.line([(82, y + 72), (104, y + 72)])
        for rank in range(2):
            top = y + rank * 88
            c.arrow([(146, y + 72), (176, top + 30)])
            c.text(182, top - 2, f"rank {rank}", size=12, colour=SOFT)
            c.box(180, top + 4, 122, 56, PALE)
            for part in range(2):
                c.box(188 + part * 24, top + 10, 24, 44, RANKS[rank] if part == rank else "none",
                      edge=LINE if part == rank else GREY)
            c.text(246, top + 27, first, bold=True)
            c.text(246, top + 45, "columns", size=12)
            c.arrow([(302, top + 32), (322, top + 32)])
            c.box(324, top + 8, 108, 48, RANKS[rank], middle, size=12)
            c.arrow([(432, top + 32), (454, top + 32)])
            c.box(456, top + 4, 122, 56, PALE)
            for part in range(2):
                c.box(464, top + 10 + part * 22, 44, 22, RANKS[rank] if part == rank else "none",
                      edge=LINE if part == rank else GREY)
            c.text(516, top + 27, second, bold=True)
            c.text(516, top + 45, "rows", size=12)
            c.arrow([(578, top + 32), (598, top + 32)])
            c.box(600, top + 8, 88, 48, PALE, "part of a sum\n(B,T,C)", size=12, dashed=True)
            c.arrow([(688, top + 32), (714, y + 68 + rank * 10)])
        c.box(716, y + 48, 42, 48, GREEN, "g", size=16, round_by=8, bold=True)
        c.arrow([(758, y + 72), (776, y + 72)])
        c.box(778, y + 30, 66, 84, GREY, "y\nwhole,\n(B,T,C)")
        c.text(324, y + 164, f"rank 0 has {axis.replace('/', ' of ')}", size=12, colour=SOFT)
    c.box(16, 446, 20, 20, GREEN, "f", bold=True)
    c.text(42, 461, "forward: nothing. backward: all-reduce of dx.")
    c.box(430, 446, 20, 20, GREEN, "g", bold=True)
    c.text(456, 461, "forward: all-reduce of y. backward: nothing.")
    c.note("Shapes from: trivium show program --tp 2 --layers 1")
    return c


def sp_pair():
    c = Canvas("Sequence parallelism: the all-reduce in two halves", "Two bands. Above, tensor parallelism: whole "
               "sequences between regions. Below: tokens are sharded there.", 408)
    parts = [("layernorm", 150, "out"), ("region: heads or\nhidden units are sharded", 210, "in"),
             ("bias, dropout,\nresidual, layernorm", 170, "out")]
    for row, (name, first, last, inside) in enumerate([("tp", "f", "g", False),
                                                       ("tp and sp", "sp_enter", "sp_exit", True)]):
        y = 78 + row * 130
        c.text(16, y - 14, name, bold=True, size=14)
        x = 66
        for k, (words, width, where) in enumerate(parts):
            for rank in range(2):
                top = y + rank * 38
                if k == 0:
                    c.text(x - 8, top + 22, f"rank {rank}", size=12, anchor="end")
                if where == "in":
                    c.box(x, top, width, 34, RANKS[rank])
                elif inside:
                    c.box(x, top, width, 34, "none", edge=GREY)
                    c.box(x + rank * width / 2, top, width / 2, 34, RANKS[rank])
                    c.text(x + rank * width / 2 + width / 4, top + 22, ("first half", "second half")[rank], size=12,
                           anchor="middle")
                else:
                    c.box(x, top, width, 34, GREY, "all T tokens", size=12)
            lines = words.split("\n") if row == 0 else []
            for i, line in enumerate(lines):
                c.text(x + width / 2, y - 17 - 15 * (len(lines) - 1 - i), line, size=12, anchor="middle", colour=SOFT)
            x += width
            if k < 2:
                c.box(x + 6, y, 108, 72, GREEN,
                      ([f"{first}\nnothing", f"{last}\nall-reduce"] if not inside
                       else [f"{first}\nall-gather", f"{last}\nreduce-scatter"])[k], size=12, round_by=8, bold=False)
                x += 120
    for i, (what, tp, both) in enumerate([("", "tp", "tp and sp"),
                                          ("saved per layer, in units of (B,T,C)", "4 + 12/t", "16/t"),
                                          ("sent by both ends, forward", "2 S (t - 1)/t",
                                           "S (t - 1)/t + S (t - 1)/t")]):
        for x, words in ((66, what), (340, tp), (520, both)):
            c.text(x, 312 + i * 20, words, bold=i == 0)
    c.note("Forward, on t = 2 ranks. Between regions each rank has half of the tokens of every sequence, and works on "
           "those alone.",
           "Backward, each end does the transpose: sp_enter reduce-scatters, sp_exit all-gathers.")
    return c


def cut_vocabulary():
    logits, target = [[1.0, 3.0], [2.0, 0.0], [5.0, 1.0]], 2
    m = max(max(own) for own in logits)
    sums = [sum(math.exp(v - m) for v in own) for own in logits]
    loss = m + math.log(sum(sums)) - logits[target // 2][target % 2]
    check = math.log(sum(math.exp(v) for own in logits for v in own)) - logits[target // 2][target % 2]
    assert abs(loss - check) < 1e-12
    c = Canvas("A loss over a sharded vocabulary: three numbers per token instead of V",
               "Three ranks with two logits each; a maximum, a sum of exponentials and the target's logit are "
               "all-reduced.", 380)
    for x, words in ((66, "one token, V = 6"), (228, "1. largest"), (372, "2. sum of exp(x - max)"),
                     (548, "2. target's logit")):
        c.text(x, 62, words, bold=True)
    for rank, own in enumerate(logits):
        y = 76 + rank * 62
        for k, value in enumerate(own):
            number = rank * 2 + k
            c.box(66 + k * 62, y, 60, 44, RANKS[rank], f"{value:.1f}\ntoken {number}", size=12,
                  edge=RED if number == target else LINE, thick=2.4 if number == target else 1)
        c.text(16, y + 27, f"rank {rank}", size=12)
        c.box(228, y, 90, 44, PALE, f"{max(own):.1f}")
        c.box(372, y, 130, 44, PALE, f"{sums[rank]:.4f}")
        c.box(548, y, 110, 44, PALE, f"{own[target % 2]:.1f}" if target // 2 == rank else "0")
        for x, to in ((188, 228), (318, 372), (502, 548)):
            c.line([(x, y + 22), (to, y + 22)], GREY)
    y = 276
    for x, width, words in ((218, 110, f"max = {m:.1f}"), (372, 130, f"sum = {sum(sums):.4f}"),
                            (548, 110, f"hit = {logits[target // 2][target % 2]:.1f}")):
        c.box(x, y, width, 36, GREEN, words, bold=True, round_by=8)
    c.text(16, y + 23, "all-reduce", bold=True)
    c.box(690, 150, 156, 66, GREY, f"loss =\nmax + log sum - hit\n= {loss:.4f}", bold=True)
    c.line([(674, 76), (674, 312)], LINE, dashed=True)
    c.note("The maximum goes first: exponentials can only be added when relative to the same maximum. Then sum and hit "
           "share one all-reduce.",
           "The red frame is the target. A rank that does not have it contributes 0 to hit.")
    return c


def mesh():
    text = trivium("show mesh --dp 2 --tp 2 --pp 2")
    strides = {axis: int(stride) for axis, stride in re.findall(r"^(tp|dp|pp) +\d+ +\d+ +(\d+)", text, re.M)}
    groups = {axis: [tuple(sorted((r, r + strides[axis]))) for r in range(8) if r // strides[axis] % 2 == 0]
              for axis in strides}
    shown = {axis: re.findall(r"\{([\d ]+)\}", line) for axis, line in re.findall(r"^(tp|dp|pp)(.*)$", text, re.M)}
    for axis, some in shown.items():  # those that the program spells out are among them
        assert all(tuple(map(int, group.split())) in groups[axis] for group in some)
    colours = {"tp": "#0072b2", "dp": "#d55e00", "pp": "#009e73"}
    c = Canvas("Eight ranks as a mesh: dp 2 x tp 2 x pp 2",
               "A cube whose corners are ranks 0 to 7; edges of three colours are the groups of tp, dp and pp.", 372)
    def place(r):
        tp, dp, pp = r // strides["tp"] % 2, r // strides["dp"] % 2, r // strides["pp"] % 2
        return 56 + tp * 112 + dp * 46 + pp * 250, 262 - dp * 74 - pp * 56
    for axis, some in groups.items():
        for a, b in some:
            c.line([place(a), place(b)], colours[axis], 4 if axis == "tp" else 3, dashed=axis == "pp")
    for r in range(8):
        x, y = place(r)
        c.dot(x, y, 17, PAPER_FILL[r // 4], INK)
        c.text(x, y + 5, str(r), anchor="middle", bold=True, size=14)
    for i, (axis, *lines) in enumerate([("tp", "innermost, neighbors", "each layer, so the fastest links"),
                                        ("dp", "once per step, during backward"),
                                        ("pp", "one activation per microbatch", "may cross nodes")]):
        y = 84 + i * 76
        c.line([(540, y - 5), (580, y - 5)], colours[axis], 4 if axis == "tp" else 3, dashed=axis == "pp")
        c.text(590, y, axis, bold=True, size=14)
        for k, line in enumerate(lines):
            c.text(540, y + 20 + 16 * k, line, size=12, colour=SOFT)
        c.text(620, y, " ".join("{" + f"{a} {b}" + "}" for a, b in groups[axis]), mono=True, size=12)
    c.legend(540, 318, [(PAPER_FILL[0], "stage 0"), (PAPER_FILL[1], "stage 1")])
    c.note("rank = (pp_rank · dp + dp_rank) · tp + tp_rank. A group holds the ranks that differ in one coordinate.",
           "Strides and groups from: trivium show mesh --dp 2 --tp 2 --pp 2")
    return c


PAPER_FILL = [BLUE, ORANGE]
PICTURES = {"cut-layer": cut_layer, "sequence-pair": sp_pair, "cut-vocabulary": cut_vocabulary, "mesh-cube": mesh}

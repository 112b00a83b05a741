"""README: one GPT on eight ranks; senders and receivers, the same losses as one rank, bytes planned and measured."""

import json
import os
import re
import tempfile

from canvas import BLUE, GREY, ORANGE, PALE, PINK, RANKS, SOFT, Canvas, trivium

CONFIG = "--config configs/demo.ini --precision fp64 --steps 3 --val-fraction 0 --log quiet"
LAYOUT = "--dp 2 --tp 2 --pp 2"
AXES = {"tp": "#0072b2", "dp": "#d55e00", "pp": "#009e73"}


def losses(path):
    with open(path, encoding="utf-8") as f:
        return [row["loss"] for row in map(json.loads, f) if "loss" in row]


def runs():
    """(losses of 8 ranks, losses of 1 rank, [(planned, measured) bytes of a rank])"""
    with tempfile.TemporaryDirectory() as folder:
        eight, one = os.path.join(folder, "8.jsonl"), os.path.join(folder, "1.jsonl")
        launch = "launch --comm-transport direct -n 8"
        trivium(f"{launch} train {CONFIG} {LAYOUT} --metrics {eight}")
        trivium(f"train {CONFIG} --metrics {one}")
        trivium(f"{launch} compare {CONFIG} --out {folder} --metrics '' --strategies 'dp=2 tp=2 pp=2'")
        with open(os.path.join(folder, "compare.json"), encoding="utf-8") as f:
            ranks = json.load(f)["strategies"][0]["per_rank"]
        return losses(eight), losses(one), [(r["predicted_total_bytes"], r["measured_total_bytes"]) for r in ranks]


def sent():
    """{axis: bytes that a rank sends in a step}, from show mesh"""
    text = trivium(f"show mesh {CONFIG} {LAYOUT}")
    return {m[1]: int(m[2]) for m in re.finditer(r"^(tp|dp|pp) +\d+ +\d+ +\d+ +\d+ +(\d+)", text, re.M)}


def both_ways(c, a, b, colour):
    middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
    c.arrow([middle, a], colour, 2)
    c.arrow([middle, b], colour, 2)


def eight_ranks():
    eight, one, ranks = runs()
    bytes_of = sent()
    c = Canvas(
        "One GPT on eight ranks, and on one: the same losses",
        "Eight boxes in two columns, by layers. Arrows of three colours join the ranks "
        "that send to each other. On the right, losses of three steps on eight ranks and on one, and bytes of each "
        "rank.",
        418,
    )
    for stage, head in enumerate(("layers 0 and 1", "layers 2 and 3")):
        c.text(92 + 210 * stage, 58, head, anchor="middle", size=13, bold=True)
    place = {}
    for rank in range(8):
        stage, replica, half = rank // 4, rank // 2 % 2, rank % 2
        x, y = 30 + 210 * stage, 70 + 132 * replica + 62 * half
        place[rank] = (x, y)
        c.box(x, y, 124, 44, (BLUE, ORANGE)[replica], f"rank {rank}\nhalf {'AB'[half]} of each layer", size=12)
    for rank in (0, 2, 4, 6):
        x, y = place[rank]
        both_ways(c, (x + 62, y + 44), (x + 62, y + 62), AXES["tp"])
    for rank in (0, 1, 2, 3):
        x, y = place[rank]
        both_ways(c, (x + 124, y + 22), (x + 210, y + 22), AXES["pp"])
    for rank in (0, 1, 4, 5):
        x, y = place[rank]
        side = x - 8 - 8 * (rank % 2) if rank < 4 else x + 132 + 8 * (rank % 2)
        edge = x if rank < 4 else x + 124
        c.arrow([(side, y + 88), (side, y + 22), (edge, y + 22)], AXES["dp"], 2)
        c.arrow([(side, y + 88), (side, y + 154), (edge, y + 154)], AXES["dp"], 2)
    for i, (axis, words) in enumerate(
        (
            ("tp", "sums over the halves of each layer, forward and backward"),
            ("pp", "activations to the next layers, gradients back"),
            ("dp", "the sum of both replicas' gradients"),
        )
    ):
        y = 358 + 17 * i
        c.line([(16, y - 4), (40, y - 4)], AXES[axis], 3)
        c.text(48, y, f"{axis}: {words}; a rank sends {bytes_of[axis]:,} bytes a step", size=12)
    c.text(430, 58, "loss of step", bold=True)
    c.text(560, 58, "8 ranks", bold=True)
    c.text(710, 58, "1 rank", bold=True)
    for i, (a, b) in enumerate(zip(eight, one)):
        y = 80 + 20 * i
        c.text(430, y, str(i + 1))
        c.text(560, y, f"{a:.12f}", mono=True, size=12)
        c.text(710, y, f"{b:.12f}", mono=True, size=12)
    c.text(430, 160, "bytes of", bold=True)
    c.text(560, 160, "planned", bold=True)
    c.text(710, 160, "measured", bold=True)
    for rank, (planned, measured) in enumerate(ranks):
        y = 180 + 17 * rank
        c.box(428, y - 12, 58, 15, (BLUE, ORANGE)[rank // 2 % 2], f"rank {rank}", size=12)
        c.text(560, y, f"{planned:,}", mono=True, size=12)
        c.text(710, y, f"{measured:,}", mono=True, size=12)
    c.legend(16, 358 + 17 * 3, [(BLUE, "one replica of the model, and half of the batch"), (ORANGE, "the other")])
    c.text(430, 334, "Ranks 0 to 3 hold two microbatches at once, the others one.", size=12)
    return c


# ---- lesson 29: nano's three ideas ----
def layer_on_two(c, x):
    c.text(x, 58, "A layer on two ranks, forward", bold=True)
    rows = [("layernorm", True), ("qkv: own heads", False), ("attention", False), ("proj: a term", False), ("+", True),
            ("layernorm", True), ("fc: own channels", False), ("gelu", False), ("fc2: a term", False), ("+", True)]
    y = 74
    for words, whole in rows:
        if words == "+":
            c.box(x + 25, y, 200, 22, PINK, "tp_sum, then bias and input", size=12)
        else:
            for rank in range(2):
                c.box(x + rank * 130, y, 120, 22, GREY if whole else RANKS[rank], words, size=12)
        y += 27
    c.text(x, y + 14, "Backward: a sum before each layernorm.", size=12, colour=SOFT)


def loop_on_two(c, x):
    stages, batches, cell = 2, 4, 25
    c.text(x, 58, "1F1B on two stages", bold=True)
    for stage in range(stages):
        warm, turns = stages - 1 - stage, []
        for k in range(batches + warm):
            turns += [("F", k)] if k < batches else []
            turns += [("B", k - warm)] if k >= warm else []
        c.text(x, 92 + stage * 44, f"stage {stage}", size=12)
        for place, (what, k) in enumerate(turns):
            c.box(x + 54 + place * cell, 76 + stage * 44, cell, 24, BLUE if what == "F" else ORANGE, f"{what}{k}",
                  size=12)
        c.text(x + 54, 112 + stage * 44, f"keeps {warm + 1}", size=12, colour=SOFT)


def shards_of_two(c, x):
    c.text(x, 194, "The end of a step, two replicas", bold=True)
    for row, (words, owned) in enumerate((("gradients", None), ("reduce-scatter", 1), ("AdamW", 1), ("all-gather", 2))):
        y = 208 + row * 32
        c.text(x, y + 16, words, size=12)
        for replica in range(2):
            for shard in range(2):
                mine = replica == shard
                fill = PALE if owned is None else RANKS[shard] if mine or owned == 2 else "none"
                c.box(x + 96 + replica * 86 + shard * 38, y, 38, 22, fill, "own" if owned is None else
                      {0: "sum", 1: "new"}[min(row - 1, 1)] if mine or owned == 2 else "-", size=12)


def nano_ideas():
    c = Canvas("nano's three ideas",
               "Three panels. Two ranks compute a layer in parts, with a sum at the end of each of its halves. Two "
               "stages run four microbatches, one forward and one backward in turn. Two replicas sum their gradients "
               "by shard, update a shard each, and gather the new weights.", 416)
    layer_on_two(c, 24)
    loop_on_two(c, 330)
    shards_of_two(c, 330)
    c.box(640, 76, 196, 250, PALE, "What you write\n\nlayer_forward\nlayer_backward\n4 sums a layer\n\n"
          "forward_backward\n1 loop\n\nupdate\n3 lines", size=13)
    c.note("Grey: whole, and equal on both ranks. Colour: the part of one rank. The three functions are the exercises "
           "of lesson 29; the rest of nano stays as it is.")
    return c


PICTURES = {"eight-ranks": eight_ranks, "nano-ideas": nano_ideas}

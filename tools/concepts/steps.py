"""Lesson 01: which query sees which key, a GPT with its shapes, frames on a time line. Lesson 03: a mean of means.
Lesson 04: what each rank holds after each event of a step. Lesson 11: a tree of sums, and what happens without its
barrier."""
import json
import math
import re

from canvas import BLUE, GREEN, GREY, INK, LINE, ORANGE, PALE, PINK, RANKS, RED, SOFT, Canvas, number, trivium


# ---- lesson 01: attention ----
WORDS, SCORES = ["the", "cat", "sat", "on", "the", "mat"], [1.2, 0.3, 2.0, 0.7]


def attention():
    n, cell, left, top = len(WORDS), 38, 96, 88
    query = len(SCORES) - 1
    c = Canvas("Which query sees which key", "A grid of six queries by six keys. A query sees the keys of its own "
               "position and of those before it. One row is computed to its end: scores, "
               "softmax, a weighted sum of values.", 428)
    c.text(left, 56, "keys and values, by position", size=12, colour=SOFT)
    c.text(16, top - 12, "queries", size=12, colour=SOFT)
    for i, word in enumerate(WORDS):
        c.text(left + (i + 0.5) * cell, top - 12, word, size=12, anchor="middle")
        c.text(left - 10, top + (i + 0.5) * cell + 4, f"{word} {i}", size=12, anchor="end")
        for j in range(n):
            seen = j <= i
            c.box(left + j * cell, top + i * cell, cell, cell, BLUE if seen else PALE, "" if seen else "-inf", size=12,
                  edge="#ffffff", colour=INK if seen else LINE)
    c.box(left - 2, top + query * cell - 2, n * cell + 4, cell + 4, "none", edge=RED, thick=2.4)
    c.legend(left, top + n * cell + 26, [(BLUE, f"seen: {n * (n + 1) // 2} of {n * n} scores")])
    c.legend(left, top + n * cell + 48, [(PALE, "later: masked, of weight 0")])
    powers = [math.exp(s) for s in SCORES]
    weights = [p / sum(powers) for p in powers]
    x = 420
    c.text(x, 56, f"The row of query {query}, \"{WORDS[query]}\", of one head:", bold=True)
    for row, (name, said) in enumerate((("score  q·k / sqrt(D)", SCORES), ("e to it", powers),
                                        ("weight, sum 1", weights))):
        y = top + row * 44
        c.text(x, y + 20, name, size=12)
        for j, value in enumerate(said):
            c.box(x + 150 + j * 66, y, 60, 30, ORANGE if row == 2 else PALE, f"{value:.2f}", size=12)
    y = top + 3 * 44 + 4
    c.text(x, y + 40, "times values", size=12)
    for j, weight in enumerate(weights):
        high = 70 * weight
        c.box(x + 150 + j * 66, y + 70 - high, 60, high, ORANGE)
        c.text(x + 180 + j * 66, y + 88, f"v{j}", size=12, anchor="middle")
    c.text(x, y + 120, "output = " + " + ".join(f"{w:.2f} v{j}" for j, w in enumerate(weights)), mono=True, size=12)
    c.note("Keys after the query are masked, so a position never reads what it should predict. Each head does this "
           "with D numbers of its own. "
           "A row needs its largest score and its sum: a rank that has only some of the keys can finish neither alone "
           "(lesson 13).")
    return c


# ---- lesson 01: shapes ----
LAYERS = 4                                                               # of tiny


def shapes():
    said = trivium(f"show program --model tiny --layers {LAYERS}")
    found = re.findall(r"^ +\d+ +(\w+) +.*-> (\S+) +\w+ \((.*)\)$", said, re.M)
    steps = [(op, name, [int(word.split()[-1]) for word in axes.split(", ")]) for op, name, axes in found
             if not re.match(r"h[1-9]", name)]
    total = int(re.search(r"the model: (\d+) parameters", said)[1])
    sizes = dict(re.findall(r"\b([BTCHDKV]) (\d+)", said))
    B, T, C, K = (int(sizes[letter]) for letter in "BTCK")
    V = 256
    weights = {"embed.tok": ("wte V x C", V * C), "embed.pos": ("wpe T x C", T * C), "h0.ln1": ("gain, bias", 2 * C),
               "h0.qkv": ("3C x C, bias", 3 * C * C + 3 * C),
               "h0.proj": ("C x C", C * C), "h0.res1": ("bias", C), "h0.ln2": ("gain, bias", 2 * C),
               "h0.fc": ("K x C, bias", K * C + K), "h0.fc2": ("C x K", K * C), "h0.res2": ("bias", C),
               "head.lnf": ("gain, bias", 2 * C), "head.loss": ("wte again", 0)}
    assert sum(n * (LAYERS if name.startswith("h0") else 1) for name, (_, n) in weights.items()) == total
    c = Canvas(f"A GPT with the shapes of tiny: B {B}, T {T}, C {C}, {LAYERS} layers",
               "Fourteen steps from token numbers to a loss, each with the shape of what it makes and the parameters "
               "that it reads.", 432)
    plain = {"bias_dropout_residual": "+", "linear_cross_entropy": "head, loss", "attention_blocked": "attention",
             "add_position": "+ position"}
    rows = [steps[:7], steps[7:]]
    for row, these in enumerate(rows):
        y = 84 + row * 166
        for k, (op, name, shape) in enumerate(these):
            x = 24 + k * 118
            what, n = weights.get(name, ("", 0))
            wide = shape[-1] if len(shape) < 4 else math.prod(shape[2:])
            c.box(x, y, 98, 58, BLUE if what else PALE, f"{plain.get(op, op)}\n{name.split('.')[1]}", size=12)
            c.text(x + 49, y + 76, "·".join(map(str, shape)) if name != "head.loss" else "1 number", size=12,
                   anchor="middle", bold=True)
            c.text(x + 49, y + 93, what, size=12, anchor="middle", colour=SOFT)
            c.text(x + 49, y + 109, f"{n} parameters" if n else "", size=12, anchor="middle", colour=SOFT)
            if len(shape) > 1:
                c.box(x, y - 14, 98 * wide / K, 8, ORANGE, edge="none")
            if k:
                c.arrow([(x - 20, y + 29), (x - 2, y + 29)])
    c.box(24 + 2 * 118 - 12, 62, 5 * 118 + 4, 140, "none", edge=RED, thick=1.6, dashed=True)
    c.box(12, 228, 5 * 118 + 4, 140, "none", edge=RED, thick=1.6, dashed=True)
    c.text(24 + 2 * 118, 56, f"a layer, {LAYERS} times", size=12, colour=RED)
    c.text(24, 56, f"tokens {B} x {T}", size=12)
    c.arrow([(24 + 6 * 118 + 98, 113), (852, 113), (852, 215), (6, 215), (6, 279), (22, 279)])
    c.note(f"Orange: how wide a position is, C = {C} to K = {K}. Blue: steps with parameters, {total} in all. The "
           f"product of the head and the logits (V = {V} a position) are one step with the loss. "
           "From: trivium show program --model tiny")
    return c


# ---- lesson 01: frames ----
def packed(schedule):
    """[(first, last, microbatch, frame)] of stage 0, and the end of the step: a frame is taken at a forward and free
    after its backward."""
    plan = json.loads(trivium(f"schedule --schedule {schedule} --pp 4 --microbatches 8 --json"))
    actions = [(a["start"], a["end"], a["kind"], a["microbatch"]) for a in plan["stages"][0]["actions"]]
    frame_of, free, first, kept = {}, list(range(8)), {}, []
    for start, end, kind, m in sorted(actions):
        if kind == "F":
            frame_of[m], first[m] = min(free), start
            free.remove(frame_of[m])
        else:
            kept.append((first[m], end, m, frame_of[m]))
            free.append(frame_of[m])
    return kept, actions, plan["makespan"]


def frames():
    c = Canvas("Frames on a time line: how many microbatches a stage keeps", "Stage 0 of four, eight microbatches. In "
               "GPipe eight frames are taken before the first is free. In 1F1B four are, and each is used twice.", 520)
    left, scale, y = 110, 22.0, 76
    for schedule, words in (("gpipe", "GPipe: all forwards first, so eight frames"),
                            ("1f1b", "1F1B: a backward as soon as there is one, so four frames")):
        kept, actions, end = packed(schedule)
        n = 1 + max(frame for *_, frame in kept)
        c.text(16, y - 12, words, bold=True)
        c.text(left - 10, y + 15, "stage 0", size=12, anchor="end")
        for start, stop, kind, m in actions:
            c.box(left + start * scale, y, (stop - start) * scale, 22, BLUE if kind == "F" else GREEN, f"{kind}{m}",
                  size=12, edge="#ffffff")
        for frame in range(n):
            c.text(left - 10, y + 44 + frame * 20, f"frame {frame}", size=12, anchor="end", colour=SOFT)
        for first, last, m, frame in kept:
            c.box(left + first * scale, y + 31 + frame * 20, (last - first) * scale, 17, RANKS[m % 4],
                  f"microbatch {m}", size=12, edge="#ffffff")
        y += 31 + n * 20 + 52
    c.text(left, y - 18, "time", size=12, colour=SOFT)
    c.arrow([(left + 34, y - 22), (left + end * scale, y - 22)], LINE)
    c.note("A frame has the bytes that one microbatch keeps from its forward to its backward. Intervals that overlap "
           "need frames of their own; others share one. "
           "From: trivium schedule --schedule gpipe (and 1f1b) --pp 4 --microbatches 8 --json")
    return c


# ---- lesson 03 ----
def means():
    tokens, means_of = [6, 2], [-2, -6]
    n, total = len(tokens), sum(tokens)
    c = Canvas("The mean of two means is not the mean", "Rank 0 has six tokens with a mean gradient of -2, rank 1 two "
               "tokens with -6. The mean of means is -4, the mean of all tokens is -3.", 330)
    for row, (title, weight, result) in enumerate((
            ("each rank divides by its own tokens, then the ranks average", [1 / (n * t) for t in tokens],
             sum(means_of) / n),
            ("every rank divides by the tokens of all, then the ranks add", [1 / total] * n,
             sum(t * m for t, m in zip(tokens, means_of)) / total))):
        y = 62 + row * 122
        c.text(16, y, title, bold=True)
        x = 16
        for rank, t in enumerate(tokens):
            for i in range(t):
                c.box(x, y + 12, 52, 44, RANKS[rank], f"1/{number(1 / weight[rank])}", size=12, edge="#ffffff")
                x += 54
            c.text(x - 27 * t, y + 74, f"rank {rank}: {t} tokens, mean {means_of[rank]}", size=12, anchor="middle")
            x += 26
        sums = " + ".join(f"{t} · 1/{number(1 / w)} · ({m})" for t, w, m in zip(tokens, weight, means_of))
        c.text(x + 10, y + 32, sums, size=12)
        c.text(x + 10, y + 52, f"= {number(result)}", size=14, bold=True, colour=RED if row == 0 else INK)
    c.note("In a square: what one token counts. In the first row a token of rank 1 counts three times as much as one "
           "of rank 0. The wrong row needs no bug: it is what a mean of losses "
           "and an average of gradients come to. They agree when all ranks have as many tokens.")
    return c


# ---- lesson 04 ----
OLD, PART, NEW = GREY, "#fae3cc", GREEN


def events():
    n = 4
    c = Canvas("A step of ZeRO-1: what each rank holds after each event", "Four ranks, five moments. Weights are whole "
               "on all ranks, gradients become sums at their owners, states never leave their owner.", 496)
    moments = [("before the step", "w0"), ("forward, backward", "g"), ("reduce-scatter", "s"), ("update", "u"),
               ("all-gather", "w1")]
    for k, (words, _) in enumerate(moments):
        c.text(86 + k * 156, 58, f"{k}. {words}" if k else words, size=12, bold=True)
    for rank in range(n):
        y = 76 + rank * 86
        c.text(16, y + 38, f"rank {rank}", size=12, bold=True)
        for k in range(len(moments)):
            x = 86 + k * 156
            for row, (name, kind) in enumerate((("w", "weights"), ("g", "gradients"), ("s", "states"))):
                c.text(x - 12, y + 15 + row * 24, name, size=12, colour=SOFT)
                for p in range(n):
                    own = p == rank
                    if kind == "weights":
                        fill, words = (NEW, "new") if k == 4 or (k == 3 and own) else (OLD, "old")
                    elif kind == "gradients":
                        fill, words = ("none", "") if k in (0, 4) else (ORANGE, "sum") if k >= 2 and own \
                            else (PART, "part") if k == 1 else ("none", "")
                    else:
                        fill, words = ((BLUE if k < 3 else PINK), "old" if k < 3 else "new") if own else ("none", "")
                    c.box(x + p * 32, y + row * 24, 31, 21, fill, words, size=12,
                          edge=GREY if fill == "none" else "#ffffff")
    c.legend(86, 434, [(OLD, "old weights"), (PART, "a part of a gradient"), (ORANGE, "its sum"), (BLUE, "states"),
                       (PINK, "new states"), (NEW, "new weights")])
    c.note("1 to 2 sends U, 3 to 4 sends U again: an all-reduce with the update in its middle. States are a quarter on "
           "each rank, at every moment.")
    return c


# ---- lesson 11 ----
PARTS = [3, 1, 4, 1, 5, 9, 2, 6]


def tree_rounds():
    rounds, stride = [list(PARTS)], len(PARTS) // 2
    while stride:
        rounds.append([v + rounds[-1][i + stride] if i < stride else v for i, v in enumerate(rounds[-1])])
        stride //= 2
    return rounds


def race():
    rounds = tree_rounds()
    late = list(rounds[1])
    late[2] = rounds[0][2]  # thread 2 has not written yet when thread 0 reads
    wrong = late[0] + late[2] + rounds[1][1] + rounds[1][3]
    c = Canvas("A tree of sums, and what one missing barrier makes of it",
               "Eight partial sums become one in three rounds. Without a barrier a thread reads a cell before its new "
               f"value is there: {wrong} in place of {sum(PARTS)}.", 396)
    x0, cell = 96, 44
    for k, row in enumerate(rounds):
        y = 66 + k * 76
        stride = len(PARTS) >> k
        c.text(16, y + 20, "start" if k == 0 else f"round {k}", size=12, bold=True)
        for i, v in enumerate(row):
            c.box(x0 + i * cell, y, cell - 6, 30, (ORANGE if k == 3 else BLUE) if i < stride else PALE, str(v), size=13)
        half = stride // 2
        for i in range(half):
            c.arrow([(x0 + (i + half) * cell + 19, y + 31), (x0 + i * cell + 22, y + 75)], SOFT, 1.2)
        if k < 3:
            c.line([(x0 - 6, y + 60), (x0 + 8 * cell, y + 60)], RED, 1.2, dashed=True)
    c.text(x0 + 8 * cell + 4, 66 + 64, "barrier", size=12, colour=RED)
    x = 540
    for k, (title, order, result, colour) in enumerate((
            ("with the barrier", [("thread 2", f"writes s[2] = {rounds[1][2]}"),
                                  ("thread 0", f"reads s[2]: {rounds[1][2]}")], sum(PARTS), INK),
            ("without, on a bad day", [("thread 0", f"reads s[2]: {rounds[0][2]}, too early"),
                                       ("thread 2", f"writes s[2] = {rounds[1][2]}")], wrong, RED))):
        y = 76 + k * 136
        c.text(x, y - 10, title, bold=True)
        for i, (who, what) in enumerate(order):
            c.box(x, y + i * 42, 300, 30, RANKS[int(who[-1]) % 4], f"{who} {what}", size=12)
            if i == 0:
                c.arrow([(x + 150, y + 31), (x + 150, y + 41)], LINE)
        c.text(x, y + 94, f"sum: {result}", bold=True, colour=colour)
    c.note("In each round the left half adds the right half. Thread 0 reads in round 2 what thread 2 wrote in round 1: "
           "two threads, one cell, one of them writes. Between the two lies a barrier, "
           "or the result depends on which comes first.")
    return c


PICTURES = {"attention-mask": attention, "gpt-shapes": shapes, "frames": frames, "mean-of-means": means,
            "zero1-events": events, "tree-and-race": race}

"""Lesson 00: a global batch, split. Lessons 03 and 04: buckets against a clock, owners under ZeRO, and how long a
gathered weight lives."""
import re

from canvas import BLUE, GREY, LINE, ORANGE, PALE, RANKS, SOFT, Canvas, number, trivium


# ---- lesson 00 ----
def batch():
    """Its demonstration: a global batch of 16 sequences, in microbatches of 2."""
    sequences, size = 16, 2
    def colour(i): return RANKS[i // size % 2]                           # by its replica, where there are two
    c = Canvas("A global batch of 16 sequences, split in two ways",
               "One replica has eight microbatches of two sequences, one after the other. Two replicas have four each, "
               "at the same time, and sum their gradients. "
               "Then the weights are updated.", 376)
    c.text(16, 56, "the global batch", size=13, bold=True)
    for i in range(sequences):
        c.box(150 + i * 40, 42, 36, 24, colour(i), str(i), size=12)
    for replicas, y in ((1, 104), (2, 194)):
        mine = sequences // replicas
        c.text(16, y, f"d = {replicas} replica{'s' * (replicas > 1)}, m = {mine // size} microbatches of B = {size}",
               size=13, bold=True)
        for rank in range(replicas):
            top = y + 14 + rank * 50
            c.text(16, top + 25, f"replica {rank}", size=12)
            for k in range(mine // size):
                left = 90 + k * 68
                c.box(left, top, 62, 40, PALE)
                for s in range(size):
                    i = (k * replicas + rank) * size + s                 # lib/program/schedule.h: schedule_first_sample
                    c.box(left + 5 + s * 27, top + 8, 25, 24, colour(i), str(i), size=12)
        end = 90 + mine // size * 68
        if replicas > 1:
            c.box(end + 4, y + 14, 130, 90, GREY, "sum of the\ngradients of both", size=12)
            end += 138
        c.box(end + 4, y + 14, 80, 50 * replicas - 10, PALE, "update", size=12)
    c.text(90, 320, "time", size=12, colour=SOFT)
    c.arrow([(122, 316), (760, 316)], LINE)
    c.note("In a frame: a microbatch goes forward and backward, and adds its gradient to those before it. Both ways "
           "add the same 16 gradients, so they update alike, but for rounding.")
    return c


# ---- lesson 03: its worked problem ----
def all_reduces(ready, latency, all_bytes):
    """[(start, end)] of equal buckets that are ready at these times, one at a time on the network: lesson 03,
    "Buckets"."""
    end, spans = 0.0, []
    for at in ready:
        start = max(at, end)
        end = start + latency + all_bytes / len(ready)
        spans.append((start, end))
    return spans


def buckets():
    layer, layers, tensors, latency, all_bytes = 3.0, 4, 12, 0.5, 8.0
    backward = layer * layers
    ways = [("one bucket", all_reduces([backward], latency, all_bytes)),
            ("one per layer", all_reduces([layer * (i + 1) for i in range(layers)], latency, all_bytes)),
            ("one per tensor", all_reduces([layer * (i // tensors + 1) for i in range(layers * tensors)], latency,
                                           all_bytes))]
    waits = [spans[-1][1] - backward for _, spans in ways]
    c = Canvas("Three ways to send the same gradients", "A clock in milliseconds. Backward takes 12 ms. One bucket is "
               "sent from 12 ms on, four buckets from 3, 6, 9 and 12 ms, 48 buckets from 3 ms on. "
               f"A rank waits {', '.join(number(w) for w in waits)} ms.", 352)
    left, scale = 128, 19.6
    def x(ms): return left + ms * scale
    c.legend(16, 54, [(GREY, "backward"), (ORANGE, "latency of an all-reduce"), (BLUE, "bytes on the wire"),
                      ("#f8e0e0", "the rank waits")])
    for ms in range(0, 36, 5):
        c.line([(x(ms), 72), (x(ms), 300)], "#e4e4e0")
        c.text(x(ms), 316, f"{ms} ms" if ms == 0 else str(ms), size=12, anchor="middle", colour=SOFT)
    c.text(left - 10, 100, "backward", anchor="end")
    for i in range(layers):
        c.box(x(i * layer), 82, layer * scale, 28, GREY, f"layer {layers - 1 - i}", edge="#ffffff")
    for row, ((name, spans), wait) in enumerate(zip(ways, waits)):
        y = 128 + row * 60
        c.text(left - 10, y + 26, name, anchor="end")
        c.box(x(backward), y, wait * scale, 46, "#f8e0e0", edge="none")
        for start, end in spans:
            c.box(x(start), y + 7, latency * scale, 32, ORANGE, edge="#ffffff", thick=0.5)
            c.box(x(start + latency), y + 7, (end - start - latency) * scale, 32, BLUE, edge="#ffffff", thick=0.5)
        last = x(spans[-1][1])
        if last < 700:
            c.text(last + 8, y + 27, f"waits {number(wait)} ms", bold=True)
        else:
            c.text(last - 4, y - 5, f"waits {number(wait)} ms", anchor="end", bold=True)
    c.note("The worked problem of lesson 03: 64 ranks, four layers of 12 tensors, 100 MB of gradients. All three ways "
           "send the same bytes.")
    return c


# ---- lesson 04 ----
STAGES = ["0: nothing is sharded", "1: states", "2: and gradients", "3: and weights"]


def zero_grid():
    n, kinds = 4, ["weights", "gradients", "states"]
    c = Canvas("ZeRO on four ranks: the shards that each keeps",
               "For each stage four ranks with their weights, gradients and states, of which each is sharded in four.",
               462)
    for stage, name in enumerate(STAGES):
        said = trivium(f"show memory --params 1e9 --dp {n} --zero {stage} --precision bf16")
        total, *roles = re.search(r"keeps ([\d.]+) GB .*: ([\d.]+) param \+ ([\d.]+) grad \+ ([\d.]+) optim",
                                  said).groups()
        x0, y0 = 16 + (stage % 2) * 424, 62 + (stage // 2) * 184
        c.text(x0, y0, f"stage {name}", bold=True, size=14)
        c.text(x0 + 404, y0, f"{total} GB per rank", anchor="end", bold=True)
        for rank in range(n):
            c.text(x0 + 100 + rank * 80, y0 + 22, f"rank {rank}", size=12, anchor="middle")
        for k, words in enumerate(kinds):
            y, sharded = y0 + 30 + k * 38, stage >= 3 - k
            c.text(x0, y + 20, words, size=12)
            for rank in range(n):
                for shard in range(n):
                    kept = shard == rank or not sharded
                    c.box(x0 + 64 + rank * 80 + shard * 18, y, 18, 30, RANKS[shard] if kept else "none",
                          str(shard) if kept else "", size=12, edge=LINE if kept else GREY)
            c.text(x0 + 404, y + 20, roles[k], size=12, anchor="end")
    c.note("A number is a shard; its owner has the same number. GB for 10^9 parameters in bf16, from:",
           "trivium show memory --params 1e9 --dp 4 --precision bf16 --zero 0 (to 3)",
           "At stage 1 the states, three quarters of everything, are kept once, by their owner; that owner updates its "
           "shard of the weights.")
    return c


def gather_window():
    """From the rows of a program: of each block, from the row that starts its gather to the row that lets it go."""
    text = trivium("show program --config configs/demo.ini --dp 2 --zero 3 --layers 4 --rows")
    lives, needs, lengths = {}, {}, {}
    for tape, row, kind, block in re.findall(r"^([FB]) +(\d+) +(\S+) +(\w*)", text, re.M):
        lengths[tape] = max(lengths.get(tape, 0), int(row) + 1)
        if kind in ("PARAM_AHEAD", "PARAM_NEEDED", "PARAM_DONE"):
            life = lives.setdefault((tape, block), [])
            if kind == "PARAM_AHEAD" and (not life or life[-1][2]):
                life.append([int(row), None, None])
            if kind == "PARAM_NEEDED" and life[-1][1] is None:
                life[-1][1] = int(row)
            if kind == "PARAM_DONE":
                life[-1][2] = int(row)
    blocks = ["embed", "h0", "h1", "h2", "h3", "head"]
    c = Canvas("Stage 3: a block's weights are gathered, used and let go", "Bars of six blocks along the rows of "
               "forward and of backward. At no row more than two layers are gathered.", 372)
    left, wide, gap = 86, 760, 20
    scale = (wide - gap) / (lengths["F"] + lengths["B"])
    def x(tape, row): return left + row * scale + (0 if tape == "F" else lengths["F"] * scale + gap)
    for tape, name in (("F", "forward"), ("B", "backward")):
        c.box(x(tape, 0), 66, lengths[tape] * scale, 20, PALE, f"{name}: its rows, in order")
    for i, block in enumerate(blocks):
        y = 98 + i * 34
        c.text(left - 10, y + 18, block, anchor="end", mono=True)
        c.line([(left, y + 30), (left + wide, y + 30)], "#ecece8")
        for tape in "FB":
            for ahead, needed, done in uses(lives.get((tape, block), [])):
                c.box(x(tape, ahead), y, (needed - ahead) * scale, 24, ORANGE, edge=LINE, thick=0.6)
                c.box(x(tape, needed), y, (done + 1 - needed) * scale, 24, BLUE, edge=LINE, thick=0.6)
    c.legend(left, 322, [(ORANGE, "being gathered, during the block before"), (BLUE, "whole on every rank, in use")])
    c.note("A bar ends at PARAM_DONE: the memory is free for the next block. The tied embedding is used at both ends.",
           "Rows of: trivium show program --config configs/demo.ini --dp 2 --zero 3 --layers 4 --rows")
    return c


def uses(life):
    """Gathers of a block's tensors that overlap are one bar."""
    bars = []
    for ahead, needed, done in life:
        if bars and ahead <= bars[-1][2] + 1:
            bars[-1] = [bars[-1][0], bars[-1][1], max(done, bars[-1][2])]
        else:
            bars.append([ahead, needed, done])
    return bars


def critical_batch():
    """Steps against samples of lesson 24's three runs to one loss, and the hyperbola through the first and the last."""
    c = Canvas("Steps against samples: three runs to one loss",
               "A falling curve with three points: batches of 4, 16 and 64 take 131, 59 and 42 steps, and 524, 944 and "
               "2688 samples. No batch takes fewer than 36 steps or 380 samples.", 400)
    runs = [(4, 131), (16, 59), (64, 42)]
    product = (131 - 42) / (1 / 4 - 1 / 64)
    least = 131 - product / 4
    critical = product / least

    def at(batch):
        steps = least + product / batch
        return 90 + steps * batch * 0.23, 330 - 1.9 * steps
    c.arrow([(90, 330), (830, 330)])
    c.arrow([(90, 330), (90, 44)])
    c.text(830, 350, "samples", 13, "end")
    c.text(98, 56, "steps", 13)
    left, low = 90 + product * 0.23, 330 - 1.9 * least
    c.line([(left, 330), (left, 50)], dashed=True)
    c.line([(90, low), (820, low)], dashed=True)
    c.text(left + 6, 322, f"{product:.0f} samples at least", 12)
    c.text(818, low + 16, f"{least:.0f} steps at least", 12, "end")
    c.line([at(3.4 * 1.055 ** i) for i in range(57)], "#1f5f99", 2)
    for batch, steps in runs:
        x, y = 90 + steps * batch * 0.23, 330 - 1.9 * steps
        c.dot(x, y, 5)
        c.text(*((x, y - 14) if batch == 64 else (x + 12, y - 8)),
               f"batch {batch}: {steps} steps, {steps * batch} samples", 13, "middle" if batch == 64 else "start")
    x, y = at(critical)
    c.box(x - 5, y - 5, 10, 10, ORANGE)
    c.text(x + 24, y - 26, f"critical batch {critical:.1f}: twice the least of both", 13, bold=True)
    c.line([(x + 4, y - 5), (x + 22, y - 26)])
    c.note("The curve goes through the first point and the last, and the second lies on it. Numbers: as lesson 24 "
           "printed them.")
    return c


def packed_rows():
    """Lesson 25's worked problem: documents of 5, 3, 6, 2 and 4 tokens in rows of 8, and the mask of the first packed
    row."""
    c = Canvas("Documents in rows: padded, packed, and the mask of a packed row",
               "Five documents in five padded rows of 8, or in three packed rows. A packed row of documents "
               "of 5 and 3 tokens has a mask of two triangles.", 330)
    lengths, T, size = [5, 3, 6, 2, 4], 8, 24
    fills = [BLUE, ORANGE, RANKS[2], RANKS[3], "#c9c3e6"]

    def row(x, y, documents):
        at = 0
        for d in documents:
            for k in range(lengths[d]):
                c.box(x + size * at, y, size, size, fills[d], "abcde"[d] + str(k), 12)
                at += 1
        for t in range(at, T):
            c.box(x + size * t, y, size, size, PALE, dashed=True)

    c.text(16, 60, "padded: 20 of 40 positions", 13)
    for d in range(5):
        row(16, 72 + 34 * d, [d])
    rows, room = [], []
    for d, n in enumerate(lengths):
        fits = [i for i in range(len(rows)) if room[i] >= n]
        best = min(fits, key=lambda i: room[i]) if fits else len(rows)
        if best == len(rows):
            rows.append([])
            room.append(T)
        rows[best].append(d)
        room[best] -= n
    c.text(280, 60, "packed, best fit: 20 of 24", 13)
    for i, documents in enumerate(rows):
        row(280, 72 + 34 * i, documents)
    c.text(560, 60, "row a b: query down, key across", 13)
    owner = [d for d in rows[0] for _ in range(lengths[d])]
    for q in range(T):
        for k in range(T):
            sees = owner[q] == owner[k] and k <= q
            c.box(560 + size * k, 72 + size * q, size, size, fills[owner[q]] if sees else PALE if k <= q else "none",
                  "" if sees or k > q else "x", 12)
    scores = sum(lengths[d] * (lengths[d] + 1) // 2 for d in rows[0])
    c.note(f"x: a causal mask alone lets the second document see the first. Of {T * (T + 1) // 2} causal scores of "
           f"this row {scores} are within a document. Positions "
           "begin at 0 in each, and the last token of each has no target.")
    return c


PICTURES = {"packed-rows": packed_rows, "critical-batch": critical_batch, "global-batch": batch,
            "bucket-timeline": buckets, "zero-grid": zero_grid, "gather-window": gather_window}

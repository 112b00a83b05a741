"""Lesson 01: a layer of a GPT. Lesson 15: a text that is read at once and written token by token. Lesson 20: from ids
to vectors, and from gradients back to rows."""
import re

from canvas import BLUE, GREEN, GREY, INK, LINE, ORANGE, PALE, PAPER, PINK, RANKS, RED, SOFT, Canvas, trivium

# ---- lesson 01 ----
HALVES = [(60, "attention: positions see those before them",
           [("ln1", "C", "layer norm"), ("qkv", "3C", "q, k and v"), ("att", "C", "H heads"),
            ("proj", "C", "mixes heads")], "res1"),
          (478, "MLP: each position by itself", [("ln2", "C", "layer norm"), ("fc", "4C", "to K units"),
                                                 ("gelu", "4C", "a curve"), ("fc2", "C", "and back")], "res2")]


def layer():
    said = trivium("show program --layers 1")
    kept = {name: int(size) for name, size in re.findall(r"^  (\S+) +(\d+) bytes", said, re.M)}
    unit = kept["embed.pos"]                                             # B T C numbers: what comes into the layer
    units = {name[3:]: size // unit for name, size in kept.items() if name.startswith("h0.") and name != "h0.res2"}
    c = Canvas("One layer of a GPT: two sums onto the residual stream", "A line of C numbers per position passes two "
               "branches. Attention and MLP read it through a layer norm, and add what they make.", 300)
    stream = 84
    c.text(16, stream - 20, "x, C numbers per position: kept, 1 unit", size=12)
    c.line([(16, stream), (848, stream)], INK, 2.2)
    for left, words, boxes, result in HALVES:
        c.text(left, 136, words, size=13, bold=True)
        c.dot(left - 26, stream, 4)
        c.arrow([(left - 26, stream), (left - 26, 170), (left - 2, 170)])
        for k, (name, shape, what) in enumerate(boxes):
            x, n = left + k * 88, units.get(name, 0)
            c.box(x, 148, 70, 44, BLUE if n else PALE, f"{name}\n{shape}", size=12)
            c.text(x + 35, 208, what, size=12, anchor="middle", colour=SOFT)
            c.text(x + 35, 226, f"kept: {n}" if n else "not kept", size=12, anchor="middle", bold=n > 0)
            if k:
                c.arrow([(x - 18, 170), (x - 2, 170)])
        end = left + 4 * 88 - 4
        c.arrow([(end - 14, 170), (end, 170), (end, stream + 10)])
        c.dot(end, stream, 9, PAPER, INK)
        c.text(end, stream + 5, "+", size=14, anchor="middle", bold=True)
        c.text(848 if result == "res2" else end, stream - 20, "res2: x of the next layer" if result == "res2"
               else "res1: kept, 1", size=12, anchor="end" if result == "res2" else "middle")
    c.note("Names as in the program. In a box: numbers per position. Below it: what waits for backward, in units of B "
           "T C numbers; with the layer's input "
           f"and res1 that is {1 + sum(units.values())} units. What proj and fc2 make is only added, so no backward "
           "reads it.")
    return c


# ---- lesson 15 ----
FLOPS, BANDWIDTH, MEMORY = 989e12, 3.35e12, 80e9                         # the data sheet of an H100
PROMPT, TEXT = 1000, 8192                                                # positions
ROWS, FIRST = 8, 5  # of the small picture: positions; those of the prompt


def scores(c, x, y, cell):
    """Rows are queries, columns keys; each pass has its colour."""
    c.text(x, y - 26, "keys and values, by position", size=12, colour=SOFT)
    for j in range(ROWS):
        c.text(x + (j + 0.5) * cell, y - 8, str(j), size=12, anchor="middle")
    for i in range(ROWS):
        c.text(x - 8, y + (i + 0.5) * cell + 4, str(i), size=12, anchor="end")
        for j in range(ROWS):
            colour = "none" if j > i else BLUE if i < FIRST else ORANGE
            c.box(x + j * cell, y + i * cell, cell, cell, colour, "new" if colour == ORANGE and j == i else "", size=12,
                  edge="#ffffff" if j <= i else "#ecece8")
    right = x + ROWS * cell + 10
    c.line([(right, y + 2), (right + 6, y + 2), (right + 6, y + FIRST * cell - 2), (right, y + FIRST * cell - 2)], INK)
    c.text(right + 14, y + FIRST * cell / 2 - 4, "pass 1: prefill,", bold=True)
    c.text(right + 14, y + FIRST * cell / 2 + 13, f"{FIRST} tokens at once")
    for i in range(FIRST, ROWS):
        c.text(right + 14, y + (i + 0.5) * cell + 4, f"pass {i - FIRST + 2}: one token", bold=i == FIRST)


def bars(c, x, y, rows, scale):
    """[(what, seconds of arithmetic, seconds of memory)] in milliseconds; the longer one is the time of the pass."""
    for i, (name, arithmetic, memory) in enumerate(rows):
        top = y + i * 66
        c.text(x, top, name, bold=True)
        for k, (words, ms, colour) in enumerate((("arithmetic", arithmetic, BLUE), ("memory", memory, ORANGE))):
            c.box(x, top + 8 + k * 20, max(ms * scale, 1), 16, colour, edge=INK if ms == max(arithmetic, memory)
                  else LINE, thick=1.6 if ms == max(arithmetic, memory) else 0.6)
            c.text(x + max(ms * scale, 1) + 6, top + 20 + k * 20, f"{words} {ms:.3f} ms" if ms < 0.1
                   else f"{words} {ms:.1f} ms", size=12, bold=ms == max(arithmetic, memory))


def prefill_decode():
    parameters = int(trivium("show memory --model llama3-8b --precision bf16 --global-batch 1 --micro-batch "
                             "1").split()[0])
    weights, cache = 2 * parameters, 2 * 32 * 8 * 128 * 2 * TEXT         # 2 L J D b for each position
    texts = int((MEMORY - weights) // cache)
    def passing(tokens, caches): return 2e3 * parameters * tokens / FLOPS, 1e3 * (weights + caches * cache) / BANDWIDTH
    c = Canvas("Prefill reads a prompt at once; decoding writes one token per pass",
               "Left: which query meets which key, a prompt of five tokens in one pass and then one row per pass. "
               "Right: seconds of arithmetic and "
               "of memory in three passes. Below: weights and caches in 80 GB.", 470)
    c.text(16, 58, "which query (row) meets which key (column)", size=13, bold=True)
    scores(c, 44, 108, 30)
    c.text(456, 58, "a pass of Llama 3 8B, bf16, on an H100", size=13, bold=True)
    bars(c, 456, 90,
         [(f"prefill, {PROMPT} tokens of one text", *passing(PROMPT, 0)), ("decoding, one text", *passing(1, 0)),
          (f"decoding, {texts} texts of {TEXT} positions", *passing(texts, texts))], 10)
    c.text(456, 292, f"One text: {1e3 / passing(1, 0)[1]:.0f} tokens per second, arithmetic idle.", size=12)
    c.text(456, 310, "Together: weights are read once for all texts.", size=12)
    left, scale = 16, 828 / MEMORY
    caches = f"{texts} caches of {cache / 1e9:.2f} GB (128 KiB per position)"
    c.text(left, 376, f"80 GB: weights {weights / 1e9:.1f} GB, and {caches}", size=13, bold=True)
    c.box(left, 386, weights * scale, 30, GREEN, "weights", size=12)
    for i in range(texts):
        c.box(left + (weights + i * cache) * scale, 386, cache * scale, 30, PINK, edge="#ffffff", thick=0.7)
    c.box(left, 386, 828, 30, "none")
    c.note("A key and a value are kept when their position is read, and never change: no earlier row sees a later one. "
           "The time of a pass is the longer of "
           "arithmetic, 2 P flops per token, and memory, all weights and all caches.")
    return c


# ---- lesson 20 ----
BAGS = [[[1, 3], [3], [0, 3], [4]], [[2], [0, 2], [1], [2, 4]]]          # of table A and B, for each of four samples
ROW, TABLE = 5, "AB"


def vector(owner, sample):
    return " + ".join(f"{TABLE[owner]}{v}" for v in BAGS[owner][sample])


def lookup(c, y, owner):
    """One owner: its table, the bags of all samples, their sums; and where each sum goes."""
    name, edge = TABLE[owner], 16
    c.text(edge, y - 8, f"rank {owner} owns table {name}", size=12, bold=True)
    for v in range(ROW):
        c.box(edge, y + v * 24, 96, 24, RANKS[owner] if any(v in bag for bag in BAGS[owner]) else PALE,
              f"row {v}", size=12)
    for s, bag in enumerate(BAGS[owner]):
        top = y - 4 + s * 33
        c.box(134, top, 112, 25, PALE, f"sample {s}: " + ", ".join(map(str, bag)), size=12)
        c.arrow([(246, top + 12.5), (276, top + 12.5)], LINE)
        c.box(276, top, 92, 25, RANKS[owner], vector(owner, s), size=12)
        stays = s // 2 == owner
        c.arrow([(368, top + 12.5), (556, vector_at(s, owner) + 12.5)], LINE if stays else INK, 1.1 if stays else 1.4,
                dashed=stays)


def vector_at(sample, owner):
    """Its box at the replica: the samples one below the other, of each the vector of A and that of B."""
    return 78 + sample // 2 * 178 + (sample % 2) * 68 + owner * 29


def sparse_tables():
    c = Canvas("Tables are divided, samples are not: vectors travel", "Two ranks, a table each, four samples. Owners "
               "add up the rows of each bag; an all-to-all gives each replica the vectors of its samples. "
               "Below: the gradients of table A by row, added up and then squared.", 592)
    for x, words in ((16, "tables"), (134, "bags of ids"), (276, "owners add up"), (424, "all-to-all"),
                     (560, "replicas: their own samples")):
        c.text(x, 52, words, size=13, bold=True)
    for owner in range(2):
        lookup(c, 82 + owner * 178, owner)
    for sample in range(4):
        for owner in range(2):
            c.box(560, vector_at(sample, owner), 92, 25, RANKS[owner], vector(owner, sample), size=12)
        c.text(662, vector_at(sample, 0) + 31, f"sample {sample}", size=12)
    for replica in range(2):
        y = vector_at(2 * replica, 0)
        c.line([(722, y + 2), (728, y + 2), (728, y + 120), (722, y + 120)], INK)
        c.text(736, y + 57, f"rank {replica}: its MLP", size=12)
        c.text(736, y + 73, "reads these", size=12)
    coalesce(c, 424)
    c.note("Solid arrows leave their rank, dashed ones stay. Backward sends gradients of vectors the same way back, so "
           "an owner has all gradients of its rows. "
           "It adds a row's in the order of samples, and squares the sum: the same bits on any number of ranks.")
    return c


def coalesce(c, y):
    """The record of table A: one gradient per bag, and every row that the bag names."""
    named = [(v, s) for s, bag in enumerate(BAGS[0]) for v in bag]
    c.text(16, y, "backward, at the owner of A: g0 to g3 are the gradients of its four vectors", size=13, bold=True)
    c.text(16, y + 28, "as they come", size=12)
    for i, (v, s) in enumerate(named):
        c.box(150 + i * 92, y + 12, 84, 24, GREY, f"row {v}: g{s}", size=12)
    c.text(16, y + 66, "sorted by row", size=12)
    for i, (v, s) in enumerate(sorted(named)):
        c.box(150 + i * 92, y + 50, 84, 24, RANKS[0] if v == 3 else GREY, f"row {v}: g{s}", size=12)
    c.text(16, y + 104, "added, then squared", size=12)
    threes = [s for v, s in sorted(named) if v == 3]
    first = [v for v, _ in sorted(named)].index(3)
    c.box(150 + first * 92, y + 88, len(threes) * 92 - 8, 24, RANKS[0],
          "row 3: (" + " + ".join(f"g{s}" for s in threes) + ")²", size=12, bold=True)
    c.text(150 + (first + len(threes)) * 92 + 6, y + 104, "not " + " + ".join(f"g{s}²" for s in threes),
           size=12, colour=RED)


PICTURES = {"gpt-layer": layer, "prefill-decode": prefill_decode, "sparse-tables": sparse_tables}

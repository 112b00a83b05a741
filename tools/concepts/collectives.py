"""Lesson 02: what each collective does, and three ways to an all-reduce. Lesson 18: below which bandwidth a code is
faster than a ring.

Ring and halving come from the tables that lib/comm runs (trivium show comm --rank R): the picture replays their rows.
"""
import json
import math
import re

from canvas import BLUE, GREEN, GREY, INK, LINE, ORANGE, PALE, PINK, RANKS, RED, SOFT, Canvas, trivium

N = 4
# of an element, by how many ranks' terms it has; all of them: orange
SHADES = [PALE, "#e3eef8", "#c3daf0", BLUE, ORANGE]


# ---- tables of rows, replayed ----
def rows_of(algorithm, rank):
    """[(send?, add?, peer, first, last)] in the order of the table, and the elements."""
    text = trivium(f"show comm --mib 1 --ranks {N} --link-inside 1ms,100MB/s --comm-algorithm {algorithm} --rank "
                   f"{rank}")
    found = re.findall(r"^ +[\d.]+ +[\d.]+  (send to|add from|receive from) +(\d+) +result\[(\d+), (\d+)\)", text, re.M)
    return [(what == "send to", what == "add from", int(peer), int(first), int(last))
            for what, peer, first, last in found]


def replay(algorithm, shares):
    """States after each round, [rank][part] -> the ranks whose terms are in it; and per round its messages (from, to,
    part).

    A round ends when a rank has sent its share of the buffer: shares sums to what it sends in all.
    """
    tables = [rows_of(algorithm, rank) for rank in range(N)]
    count = max(last for table in tables for *_, last in table)
    part, bounds = count // N, [sum(shares[:k + 1]) for k in range(len(shares))]
    messages = [[] for _ in shares]
    for rank, table in enumerate(tables):
        sent, takes = 0, {}
        for send, _, peer, first, last in table:
            if send:
                nth = sum(1 for m in (m for r in messages for m in r) if m[0] == rank and m[1] == peer)
                adds = [add for s, add, p, *_ in tables[peer] if not s and p == rank][nth]
                messages[next(k for k, b in enumerate(bounds)
                              if sent < b * count)].append((rank, peer, first, last, adds))
                sent += last - first
    state, states = [[{rank} for _ in range(N)] for rank in range(N)], []
    states.append(state)
    for these in messages:
        new = [list(map(set, row)) for row in state]
        for source, target, first, last, adds in these:
            for p in range(first // part, last // part):
                new[target][p] = state[source][p] | (state[target][p] if adds else set())
        state = new
        states.append(state)
    return states, [[(a, b, p) for a, b, first, last, _ in these for p in range(first // part, last // part)]
                    for these in messages]


def grid(c, x, y, state, sends, cell=30):
    """One row a rank, one cell a part; a frame around what is sent next."""
    for rank in range(N):
        for p in range(N):
            has, leaves = state[rank][p], any(a == rank and q == p for a, _, q in sends)
            words = "sum" if len(has) == N else "".join(str(r) for r in sorted(has))
            c.box(x + p * cell * 1.28, y + rank * (cell + 6), cell * 1.28, cell, SHADES[len(has)], words, size=12)
            if leaves:
                c.box(x + p * cell * 1.28 + 2, y + rank * (cell + 6) + 2, cell * 1.28 - 4, cell - 4, "none",
                      edge=RED, thick=2.4)


def replayed(title, description, algorithm, shares, names, note):
    states, messages = replay(algorithm, shares)
    half, panel = len(shares) // 2, 198
    c = Canvas(title, description, 500)
    for k, state in enumerate(states):
        row, column = (0, k) if k < half else (1, k - half)
        x, y = 70 + column * panel, 74 + row * 190
        sends = messages[k] if k < len(messages) else []
        c.text(x, y - 12, names[k], bold=True, size=12)
        if column == 0:
            for rank in range(N):
                c.text(x - 10, y + rank * 36 + 20, f"rank {rank}", size=12, anchor="end")
        grid(c, x, y, state, sends)
    c.legend(70, 442, [(SHADES[1], "its own term"), (SHADES[3], "a sum of several: 023 of ranks 0, 2 and 3"),
                       (SHADES[4], "the whole sum")])
    c.box(664, 430, 16, 16, "none", edge=RED, thick=2.4)
    c.text(688, 442, "sent next", size=12)
    c.note(*note)
    return c


def ring():
    return replayed("A ring all-reduce of four ranks: six hops of a quarter each", "Grids of four ranks by four parts. "
                    "In three hops each part goes round and collects the terms of all "
                    "ranks; in three more its sum goes round.", "ring", [1 / 4] * 6,
                    ["start", "after hop 1: added", "after hop 2: added", "hop 3: one part is whole",
                     "after hop 4: copied", "after hop 5: copied", "after hop 6: all is whole"],
                    ["Each rank sends to the next rank only, and each part is added up while it travels: n - 1 hops. "
                     "Its sum travels n - 1 hops more.",
                     "Replayed from: trivium show comm --mib 1 --ranks 4 --comm-algorithm ring --rank 0 (and 1, 2, 3)"])


def halving():
    return replayed("Halving and doubling, four ranks: S/2, S/4, S/4, S/2", "Grids of four ranks by four parts. "
                    "Partners at distance 2 exchange halves, partners at distance 1 quarters, and back.",
                    "halving", [1 / 2, 1 / 4, 1 / 4, 1 / 2],
                    ["start: halves, distance 2", "next: quarters, distance 1", "one part is whole; back",
                     "next: halves, distance 2", "all is whole"],
                    ["2 log2 n messages instead of the ring's 2 (n - 1), and as many bytes: S/2 + S/4 + S/4 + S/2 = 2 "
                     "S (n - 1)/n.",
                     "Replayed from: trivium show comm --mib 1 --ranks 4 --comm-algorithm halving --rank 0 (and 1, 2, "
                     "3)"])


# ---- the tree of lesson 02 ----
def tree():
    n, rounds, d = 8, [], 1
    while d < n:
        rounds.append([(r, r - d) for r in range(n) if r & d and r % d == 0])
        d *= 2
    c = Canvas("A tree all-reduce of eight ranks: three rounds up, three down", "Arrows from rank to rank in six "
               "rounds. Rank 0 has the sum after three; the same edges carry it back.", 410)
    x, y, step = 90, 76, 100
    for r in range(n):
        c.text(x + r * step, y - 16, f"rank {r}", anchor="middle", bold=True)
        c.line([(x + r * step, y - 6), (x + r * step, y + 6 * 44)], GREY)
    for k, edges in enumerate(rounds + [[(b, a) for a, b in edges] for edges in reversed(rounds)]):
        level = y + 16 + k * 44
        up = k < len(rounds)
        c.text(16, level + 5, f"round {k + 1}", size=12)
        for a, b in edges:
            c.dot(x + a * step, level, fill=INK)
            c.arrow([(x + a * step, level), (x + b * step + (6 if b < a else -6), level)],
                    colour="#0072b2" if up else RED, thick=2)
            c.text(x + (a + b) * step / 2, level - 6, "adds" if up else "copies", size=12, anchor="middle", colour=SOFT)
    c.line([(20, y + 3 * 44 - 6), (840, y + 3 * 44 - 6)], LINE, dashed=True)
    c.note("Each arrow is the whole buffer, S bytes. In a round most ranks idle. 7 edges, each used once up and once "
           "down, are",
           "2 (n - 1) S bytes in all, as many as the ring sends. After round 3 rank 0 has the sum.",
           "The tree of lib/comm is another one, with several segments in flight at once.")
    return c


# ---- what each collective does ----
def what_each_does():
    def own(r, p): return (RANKS[r], f"{r}{'abcd'[p]}")
    total, empty = (lambda p: (GREY, f"Σ{'abcd'[p]}")), ("none", "")
    everyone = [[own(r, p) for p in range(N)] for r in range(N)]
    kinds = [
        ("broadcast", [[own(0, p) if r == 0 else empty for p in range(N)] for r in range(N)],
         [[own(0, p) for p in range(N)] for r in range(N)]),
        ("reduce", everyone, [[total(p) if r == 0 else empty for p in range(N)] for r in range(N)]),
        ("all-reduce", everyone, [[total(p) for p in range(N)] for r in range(N)]),
        ("reduce-scatter", everyone, [[total(p) if p == r else empty for p in range(N)] for r in range(N)]),
        ("all-gather", [[own(r, p) if p == r else empty for p in range(N)] for r in range(N)],
         [[own(p, p) for p in range(N)] for r in range(N)]),
        ("all-to-all", everyone, [[own(p, r) for p in range(N)] for r in range(N)]),
    ]
    c = Canvas("What each collective does: four ranks, a buffer of four parts each",
               "Six pairs of grids, before and after, of four ranks by four parts.", 456)
    for k, (name, before, after) in enumerate(kinds):
        x, y = 62 + (k % 3) * 270, 76 + (k // 3) * 180
        c.text(x, y - 12, name, bold=True, size=14)
        for r in range(N):
            if k % 3 == 0:
                c.text(x - 8, y + r * 32 + 19, f"rank {r}", size=12, anchor="end")
            for side, cells in ((0, before), (1, after)):
                for p in range(N):
                    fill, words = cells[r][p]
                    c.box(x + side * 130 + p * 26, y + r * 32, 26, 27, fill, words, size=12,
                          edge=GREY if fill == "none" else LINE)
        c.arrow([(x + 108, y + 62), (x + 127, y + 62)])
    c.note("0a: part a of rank 0's buffer; Σa: the sum of part a over all ranks. A reduce-scatter and then an "
           "all-gather is an all-reduce;",
           "backward of an all-gather is a reduce-scatter, and the other way round.")
    return c


# ---- lesson 18 ----
def crossing():
    """Seconds of a ring and of four codes at three bandwidths, and where each code is as fast as the ring: trivium show
    comm --crossings. A code's time is A + B / bandwidth, so two of its points say all others; the ring's curve goes
    through what is known of it."""
    command = "show comm --crossings --mib 25 --ranks 8 --ranks-per-node 1 --link-inside 5us,20GB/s --link-between " \
              "20us,1GB/s --json"
    said = {row["name"]: row for row in json.loads(trivium(command))}
    shown, codes = [0.125, 1.25, 12.5], [("bf16", ORANGE), ("int8", BLUE), ("sign", GREEN), ("topk", PINK)]

    def code(name, bandwidth):
        slow, middle, _ = said[name]["seconds"]
        per = (slow - middle) / (1 / shown[0] - 1 / shown[1])
        return middle + per * (1 / bandwidth - 1 / shown[1])
    at = {name: said[name]["faster_than_ring"][0][1] / 1e9 for name, _ in codes}
    ring = sorted([*zip(shown, said["ring"]["seconds"]), *((at[name], code(name, at[name])) for name, _ in codes)])
    c = Canvas("The crossing: below which bandwidth a code is faster than a ring",
               "Curves of milliseconds over bandwidth between nodes, both logarithmic. The ring's falls all the way; "
               "those of codes become flat. "
               + ", ".join(f"{name} crosses it at {at[name]:.1f} GB/s" for name, _ in codes) + ".", 440)
    left, right, top, bottom = 76, 700, 52, 352
    def x(bandwidth): return left + (right - left) * math.log(bandwidth / shown[0]) / math.log(shown[-1] / shown[0])
    def y(seconds): return bottom - (bottom - top) * math.log(1e3 * seconds / 4) / math.log(100)
    for ms in (4, 10, 40, 100, 400):
        c.line([(left, y(ms / 1e3)), (right, y(ms / 1e3))], "#e4e4e0")
        c.text(left - 8, y(ms / 1e3) + 4, f"{ms} ms", size=12, anchor="end", colour=SOFT)
    for bandwidth in (0.125, 0.25, 0.5, 1.25, 2.5, 5, 12.5):
        c.line([(x(bandwidth), top), (x(bandwidth), bottom)], "#e4e4e0")
        c.text(x(bandwidth), bottom + 18, f"{bandwidth:g}", size=12, anchor="middle", colour=SOFT)
    c.text(right + 28, bottom + 18, "GB/s between nodes", size=12, colour=SOFT)
    c.line([(x(b), y(s)) for b, s in ring], INK, 3)
    points = [shown[0] * (shown[-1] / shown[0]) ** (i / 120) for i in range(121)]
    places = sorted(codes, key=lambda it: -said[it[0]]["seconds"][-1])
    for place, (name, fill) in enumerate(places):
        curve = [(x(b), y(code(name, b))) for b in points]
        c.line(curve, INK, 4)
        c.line(curve, fill, 2.4)
        c.dot(x(at[name]), y(code(name, at[name])), 5, fill, INK)
        c.box(right + 16, 224 + 21 * place, 14, 14, fill)
        c.text(right + 36, 236 + 21 * place, f"{name}: {at[name]:.1f} GB/s", size=12)
    c.text(right + 16, y(ring[-1][1]) + 4, "ring, without a code", size=12, bold=True)
    c.text(x(0.14), y(0.0078), "left of its dot a code is faster than the ring", size=12)
    c.text(x(4.6), y(0.0045), "right of it the ring is faster", size=12, anchor="end")
    c.note("25 MiB among eight nodes of one rank, 20 us a message: " + "trivium " + command.replace(" --json", "")
           + ". The flat ends are encoding, adding and decoding; all codes pay them alike, so fewer bits "
           "than int8's move the crossing little.")
    return c


PICTURES = {"crossing": crossing, "collectives": what_each_does, "ring-all-reduce": ring, "tree-all-reduce": tree,
            "halving-doubling": halving}

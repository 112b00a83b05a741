"""What moves: a ring of four ranks (lesson 02), the naive pipeline and 1F1B (lesson 07), keys and values in a ring
(lesson 13)."""
import json

from canvas import BLUE, GREEN, GREY, INK, LINE, ORANGE, PALE, PAPER, RANKS, RED, SOFT, Canvas, trivium
from collectives import N, SHADES, replay

HOP = 2.0                                                                # seconds of a hop; as long again at the end
CORNERS = [(90, 90), (520, 90), (520, 270), (90, 270)]                   # of ranks 0 to 3, in the order of the ring


def ring():
    states, messages = replay("ring", [1 / 4] * 6)
    c = Canvas("A ring all-reduce, moving: one part a hop, from each rank to the next",
               "Four ranks in a square, each with four parts. In three hops each part goes round and is added up; in "
               "three more its sum goes round.", 420)
    c.period, wide, high = HOP * (len(messages) + 2), 58, 34
    def words(has): return "sum" if len(has) == N else "".join(map(str, sorted(has)))
    def cell(rank, p): return CORNERS[rank][0] + p * wide, CORNERS[rank][1] + 14
    for rank, (x, y) in enumerate(CORNERS):
        c.text(x, y + 4, f"rank {rank}", bold=True)
        for p in range(N):
            c.box(*cell(rank, p), wide - 3, high, SHADES[1], words(states[0][rank][p]), size=12)
    for (a, b) in (((328, 121), (512, 121)), ((632, 146), (632, 262)), ((512, 301), (328, 301)),
                   ((202, 262), (202, 146))):
        c.arrow([a, b], LINE)
    for hop, these in enumerate(messages):
        at = hop * HOP
        for rank, target, p in these:
            (x, y), (tx, ty) = cell(rank, p), cell(target, p)
            c.begin_way(tx - x, ty - y, at, at + 0.7 * HOP)
            c.box(x, y, wide - 3, high, SHADES[len(states[hop][rank][p])], words(states[hop][rank][p]), size=12,
                  edge=RED, thick=2.4)
            c.end()
        for rank, target, p in these:
            c.begin_from(at + 0.7 * HOP, hidden=True)
            c.box(*cell(target, p), wide - 3, high, SHADES[len(states[hop + 1][target][p])],
                  words(states[hop + 1][target][p]), size=12)
            c.end()
        c.begin_from(at, at + HOP, hidden=True)
        c.text(420, 66, f"hop {hop + 1}: " + ("added where it arrives" if hop < N - 1 else "the whole sum is copied"),
               bold=True, anchor="middle")
        c.end()
    c.legend(90, 362, [(SHADES[1], "its own term"), (SHADES[3], "a sum of several: 023 of ranks 0, 2 and 3"),
                       (SHADES[4], "the whole sum")])
    c.note("Every rank sends and receives at every hop, a quarter of the buffer each: 2 (n - 1) hops, and no link is "
           "idle. Standing still, the picture is the start.")
    return c


# ---- lesson 07 ----
def naive_and_1f1b():
    stages, microbatches = 4, 4
    c = Canvas("Naive pipeline and 1F1B: the same work, four stages, four microbatches",
               "Two time lines. In the naive pipeline one stage works at a time and a step takes 48. In 1F1B stages "
               "work at the same time, and it takes 21.", 446)
    plans = [(name, words,
              json.loads(trivium(f"schedule --schedule {name} --pp {stages} --microbatches {microbatches} --json")))
             for name, words in
             (("naive", "naive: a microbatch goes through all stages and back before the next begins"),
              ("1f1b", "1F1B: the next forward begins before the last backward is home"))]
    longest = max(plan["makespan"] for *_, plan in plans)
    left, scale = 80, 740 / longest
    second = 12.0 / longest                                              # of a unit of time
    c.period = 12.0 + 3.0
    y = 74
    for name, words, plan in plans:
        c.text(16, y - 12, words, bold=True)
        for stage in plan["stages"]:
            top = y + stage["stage"] * 34
            c.text(left - 8, top + 19, f"stage {stage['stage']}", size=12, anchor="end")
            c.box(left, top, plan["makespan"] * scale, 30, PALE, edge="none")
            for a in stage["actions"]:
                c.begin_from(a["start"] * second)
                c.box(left + a["start"] * scale, top, (a["end"] - a["start"]) * scale, 30, BLUE if a["kind"] == "F"
                      else GREEN, f"{a['kind']}{a['microbatch']}" if scale > 14 else "", size=12, edge="#ffffff")
                c.end()
        idle = plan["bubble_fraction"]
        c.begin_from(plan["makespan"] * second)
        c.text(left + plan["makespan"] * scale + (8 if plan["makespan"] < longest else -4),
               y + (82 if plan["makespan"] < longest else 158),
               f"a step takes {plan['makespan']:.0f}; a stage is idle {100 * idle:.0f} % of it", size=12, bold=True,
               anchor="start" if plan["makespan"] < longest else "end")
        c.end()
        y += 4 * 34 + 48
    c.note("A forward (blue) takes 1, a backward (green) 2. Moving, both begin at the same time. From: trivium "
           "schedule --schedule naive (and 1f1b) --pp 4 --microbatches 4 --json")
    return c


# ---- lesson 13 ----
def ring_attention():
    c = Canvas("Ring attention, moving: queries stay, keys and values go round",
               "Four ranks in a ring, each with a block of queries. Blocks of keys and values move on by one rank a "
               "hop. A grid of query blocks by key blocks fills up, a diagonal a hop.", 430)
    c.period, wide, high = HOP * (N + 1), 92, 34
    place = [(40, 84), (330, 84), (330, 250), (40, 250)]
    for rank, (x, y) in enumerate(place):
        c.text(x, y - 8, f"rank {rank}", bold=True)
        c.box(x, y, wide, high, PALE, f"queries {rank}", size=12)
    for (a, b) in (((236, 101), (322, 101)), ((427, 124), (427, 228)), ((322, 267), (236, 267)),
                   ((137, 228), (137, 124))):
        c.arrow([a, b], LINE)
    left, top, cell = 600, 112, 48
    c.text(left, top - 44, "scores, by blocks", bold=True)
    for k in range(N):
        c.text(left + (k + 0.5) * cell, top - 8, f"kv {k}", size=12, anchor="middle")
        c.text(left - 8, top + (k + 0.5) * cell + 4, f"q {k}", size=12, anchor="end")
        for r in range(N):
            hop = (r - k) % N
            c.begin_from(hop * HOP + 0.2 * HOP, faint=0.2)
            c.box(left + k * cell, top + r * cell, cell, cell, RANKS[k], f"hop {hop}", size=12, edge="#ffffff")
            c.end()
    for hop in range(N):
        at = hop * HOP
        for rank, (x, y) in enumerate(place):
            block = (rank - hop) % N
            nx, ny = place[(rank + 1) % N]
            c.begin_from(at, at + 0.6 * HOP if hop < N - 1 else None, hidden=hop > 0)
            c.box(x + wide + 4, y, wide, high, RANKS[block], f"keys, values {block}", size=12)
            c.end()
            if hop < N - 1:
                c.begin_way(nx - x, ny - y, at + 0.6 * HOP, at + HOP)
                c.box(x + wide + 4, y, wide, high, RANKS[block], f"keys, values {block}", size=12, edge=RED, thick=2.4)
                c.end()
    c.note("At hop h rank r has the keys and values of rank r - h. While it computes their scores, the block travels "
           "on. After n hops each query has met each key, and no rank ever had "
           "more than two blocks. A causal mask leaves out the cells above the diagonal: zig-zag shards them evenly.")
    return c


PICTURES = {"ring-moving": ring, "naive-and-1f1b": naive_and_1f1b, "ring-attention-moving": ring_attention}

"""Pictures of waiting: for the busiest link (lesson 14), for exchanges that nothing hides (16), for a shard and its
copy (19), for a rank (21, 22)."""
import re

from canvas import BLUE, GREEN, GREY, INK, LINE, ORANGE, PALE, RED, SOFT, Canvas


# ---- lesson 14 ----
def busiest_link():
    """The three tables of "Balanced, many to one, one to many", and the time of each rank's links by its formula,
    without latency."""
    n, tokens, k, row_bytes, gbs = 8, 4096, 2, 8192, 50.0
    even = tokens * k // n                                               # rows for each rank
    hot = tokens + tokens // n  # of one rank: every first choice, and an eighth of the second ones
    cases = [("balanced", [[even] * n for _ in range(n)]),
             ("many to one: rank 0's experts", [[hot] + [tokens // n] * (n - 1) for _ in range(n)])]
    cases.append(("one to many: the way back", [[cases[1][1][q][r] for q in range(n)] for r in range(n)]))
    def ms(rows): return rows * row_bytes / gbs / 1e6
    times = []
    for _, table in cases:
        times.append([(ms(sum(table[r][q] for q in range(n) if q != r)),
                       ms(sum(table[q][r] for q in range(n) if q != r))) for r in range(n)])
    most = [max(max(pair) for pair in ranks) for ranks in times]
    c = Canvas("The busiest link decides: three all-to-alls of nearly the same bytes per sender",
               "Three tables of rows from rank to rank, and two bars for each rank, of its link out and its link in. "
               + ", ".join(f"{name.split(':')[0]} takes {t:.2f} ms" for (name, _), t in zip(cases, most)) + ".", 502)
    cell, scale = 26, 100 / max(most)
    for i, ((name, table), ranks) in enumerate(zip(cases, times)):
        left = 60 + i * 270
        c.text(left - 20, 58, name, size=12, bold=True)
        for r in range(n):
            c.text(left - 6, 96 + r * cell + 4, str(r), size=12, anchor="end", colour=SOFT)
            c.text(left + r * cell + cell / 2, 78, str(r), size=12, anchor="middle", colour=SOFT)
            for q in range(n):
                fill = GREY if q == r else ORANGE if table[r][q] > even else BLUE if table[r][q] == even else PALE
                c.box(left + q * cell, 82 + r * cell, cell, cell, fill, edge="#ffffff")
        base = 436
        c.line([(left, base), (left + n * cell, base)], INK)
        for r, (out, into) in enumerate(ranks):
            for side, value in ((0, out), (1, into)):
                c.box(left + r * cell + 2 + side * 11, base - value * scale, 11, value * scale,
                      (ORANGE if side else BLUE), edge=RED if value > 2 * most[0] else LINE,
                      thick=2 if value > 2 * most[0] else 1)
            c.text(left + r * cell + cell / 2, base + 15, str(r), size=12, anchor="middle", colour=SOFT)
        c.text(left + n * cell, base - most[i] * scale - 8 if i == 0 else base - 90, f"{most[i]:.2f} ms",
               anchor="end", bold=True)
    c.legend(60, 314, [(PALE, f"{tokens // n} rows"), (BLUE, f"{even}"), (ORANGE, f"{hot}"), (GREY, "its own: stays")])
    c.legend(470, 314, [(BLUE, "below: the link out"), (ORANGE, "the link in")])
    c.note(f"Senders down, receivers across: {n} ranks of {tokens} tokens, k = {k}, rows of {row_bytes} bytes, links "
           f"of {gbs:g} GB/s. A rank sends "
           f"{(n - 1) * even} rows when balanced, {hot + (n - 2) * tokens // n} of rank 1 when not: hardly more, and "
           f"it takes {most[1] / most[0]:.1f} times as long.")
    return c


# ---- lesson 16: its worked problem ----
def what_hides():
    """Two layouts of the worked problem on a time line: what each exchange takes, by its steps 1 to 4."""
    ranks, reach, inside, beyond, slowed = 16, 200e12, 200e9, 20e9, 0.2
    parameters, layers, width, sequences, positions = 1e10, 48, 4096, 64, 4096
    weights = 2 * parameters
    work = 6 * parameters * sequences * positions / (ranks * reach)
    tp = 2 * 7 / 8 * (layers * 4 * (sequences // 2 * positions) * width * 2) / inside
    dp = 2 * 1 / 2 * (weights / 8) / beyond
    gather = 7 / 8 * weights / inside + 1 / 2 * (weights / 8) / beyond
    microbatches, gathers = 4, 2 * 4 + 1
    ends = (work + tp + slowed * dp, work + slowed * gathers * gather)
    c = Canvas("A step of two layouts: what hides behind the work, and what does not",
               f"Two time lines. With tp 8 and dp 2 a step takes {ends[0]:.2f} s, of which {tp:.2f} are exchanges that "
               "the next row waits for. With ZeRO-3 over 16 ranks "
               f"it takes {ends[1]:.2f} s: {gathers} exchanges of {gather:.2f} s are in flight while the rank works.",
               396)
    left, scale = 96, 726 / max(ends)
    def x(s): return left + s * scale
    for s in range(8):
        if x(s) <= 840:
            c.line([(x(s), 74), (x(s), 326)], "#e4e4e0")
            c.text(x(s), 342, f"{s} s", size=12, anchor="middle", colour=SOFT)
    c.legend(16, 54, [(PALE, "F: a microbatch forward"), (GREEN, "B: backward"),
                      (ORANGE, "an exchange that is waited for"), (BLUE, "one that is hidden")])

    def lanes(y, name, said, end):
        c.text(16, y - 10, name, bold=True)
        c.text(840, y - 10, said, anchor="end")
        c.text(left - 8, y + 22, "work", size=12, anchor="end")
        c.text(left - 8, y + 58, "in flight", size=12, anchor="end")
        c.line([(x(end), y - 4), (x(end), y + 72)], RED, 2)
        c.text(x(end) - 6, y + 62, f"{end:.2f} s", size=13, anchor="end", bold=True)

    def action(at, y, kind, seconds):
        c.box(x(at), y, seconds * scale, 34, PALE if kind == "F" else GREEN, kind, size=12)
        return at + seconds
    y, at = 106, 0.0
    lanes(y, "(a) tp 8, dp 2",
          f"work {work:.2f} + tp {tp:.2f} + {slowed * dp:.3f} by which dp's sum slows the last backward", ends[0])
    for m in range(microbatches):
        for kind, part in (("F", 1 / 3), ("B", 2 / 3)):
            begin, last = at, m == microbatches - 1 and kind == "B"
            at = action(at, y, kind, work / microbatches * part + (slowed * dp if last else 0))
            c.box(x(at), y, tp / microbatches / 2 * scale, 34, ORANGE, "tp", size=12)
            if last:
                c.box(x(begin) + 6, y + 40, dp * scale, 26, BLUE)
                c.text(x(begin) + 2, y + 58, "dp", size=12, anchor="end")
            at += tp / microbatches / 2
    y, at = 238, 0.0
    lanes(y, "(b) dp 16 with ZeRO-3", f"work {work:.2f} + {slowed * gathers * gather:.2f}: {gathers} exchanges of "
          f"{gather:.2f} slow it by a fifth of theirs", ends[1])
    for m in range(microbatches):
        for kind, part in (("F", 1 / 3), ("B", 2 / 3)):
            begin, these = at, 1 + (m == microbatches - 1 and kind == "B")
            at = action(at, y, kind, work / microbatches * part + these * slowed * gather)
            for i in range(these):
                c.box(x(begin) + 3 + i * (gather * scale + 3), y + 40, gather * scale, 26, BLUE,
                      "gs"[i] if kind == "B" else "g", size=12)
    assert abs(at - ends[1]) < 1e-9
    c.note("The worked problem of lesson 16. tp's exchanges come after every two products; here those of an action are "
           "drawn as one. g: a gather of all weights, s: the scatter of gradients. "
           "Actions of (b) are longer than those of (a) by what their exchange slows them.")
    return c


# ---- lesson 19 ----
STATES = {"RUN": (60, 190), "REPORT": (250, 190), "MOVE": (440, 190), "COPY": (640, 190), "DISK": (440, 320),
          "DRAINED": (60, 64), "SPARE": (250, 320)}
MEMBERS = "lib/comm/membership/membership.c"


def member_states():
    """The table of the program, read from its file: an arrow for each pair of states, but those that all states have in
    common."""
    rows = re.findall(r"\{MEMBER_(\w+), EVENT_(\w+), MEMBER_(\w+), DO_\w+, \"[^\"]*\"\}",
                      open(MEMBERS, encoding="utf-8").read())
    again = {state for state, event, to in rows if (event, to) == ("MEMBER", "REPORT")}
    out = {state for state, event, to in rows if (event, to) == ("NO_MEMBER", "SPARE")}
    if again != set(STATES) or out != set(STATES):
        raise SystemExit(f"{MEMBERS}: a new epoch no longer leads from every state to REPORT or SPARE")
    own = [row for row in rows if row[1] not in ("MEMBER", "NO_MEMBER")]
    c = Canvas("A rank's states from a death until training goes on", "Seven states. A new epoch leads from each to "
               "REPORT, or to SPARE for a rank that is no member. From REPORT, MOVE and COPY lead back to RUN. "
               + "; ".join(f"{state} to {to} when {event}" for state, event, to in own) + ".", 452)
    wide, high = 120, 52
    says = {"REPORTED": "all have reported:\nback = the least", "GONE": "a shard is gone:\nread the disk",
            "MOVED": "its shard is here:\nsnapshot, send copy",
            "COPIED": "the neighbor's copy is here: the snapshot counts", "ASKED": "all agree\nto end\nthe epoch"}
    for state, (x, y) in STATES.items():
        c.box(x, y, wide, high, GREEN if state == "RUN" else GREY if state in ("SPARE", "DISK") else BLUE, state,
              bold=True, round_by=8)

    def label(x, y, words, anchor="middle"):
        for i, line in enumerate(words.split("\n")):
            c.text(x, y + 15 * i, line, size=12, anchor=anchor)
    for state, event, to in own:
        (x, y), (tx, ty) = STATES[state], STATES[to]
        if (state, to) == ("COPY", "RUN"):
            c.line([(x + wide / 2, y), (x + wide / 2, 116), (x - 100, 116)], INK, 1.6)
            c.arrow([(x - 100, 116), (tx + 90, 116), (tx + 90, ty)])
            label(440, 106, says[event])
        elif y == ty:
            c.arrow([(x + wide, y + 26), (tx, ty + 26)])
            label((x + wide + tx) / 2, y - 26, says[event])
        elif (state, to) == ("REPORT", "DISK"):
            c.arrow([(x + 100, y + high), (tx, ty + 20)])
            label(400, 268, says[event], "start")
        elif (state, to) == ("DISK", "COPY"):
            c.arrow([(x + wide, y + 26), (tx + 60, y + 26), (tx + 60, ty + high)])
            label(tx + 72, 290, "the checkpoint\nis read", "start")
        else:
            c.arrow([(x + 30, y), (tx + 30, ty + high)])
            label(x + 22, y - 46, says[event], "end")
    (x, y), (tx, ty) = STATES["RUN"], STATES["REPORT"]
    c.arrow([(x + wide, y + 26), (tx, ty + 26)], RED, 2.2)
    c.text((x + wide + tx) / 2, y + 18, "a death", size=12, anchor="middle", colour=RED)
    c.arrow([(190, 346), (250, 346)], LINE, dashed=True)
    label(184, 342, "from every state:\nno member now", "end")
    c.arrow([(310, 320), (310, 242)], RED, 2.2)
    c.text(302, 286, "needed", size=12, anchor="end", colour=RED)
    c.note(f"{len(rows)} rows of the table in {MEMBERS}: a state, an event, the next state. Red: the agent opens a new "
           "epoch of which the rank is a member. That leads to REPORT from all "
           f"{len(again)} states, from MOVE and COPY too: what had moved so far does not count. A spare is no member "
           "until it is needed.")
    return c


# ---- lessons 21 and 22 ----


def hang_circle():
    """Two tp groups and two tie groups of a 2 x 2 mesh; ranks 1 and 2 begin with tie."""
    c = Canvas("Two groups in two orders: a circle without a mismatch",
               "Four ranks in a square. Rank 0 waits in tp for rank 1, which waits in tie for "
               "rank 3, which waits in tp for rank 2, which waits in tie for rank 0.", 300)
    place = {0: (190, 60), 1: (490, 60), 2: (190, 190), 3: (490, 190)}
    order = {0: "tp, then tie", 1: "tie, then tp", 2: "tie, then tp", 3: "tp, then tie"}
    for rank, (x, y) in place.items():
        c.box(x, y, 150, 52, BLUE if order[rank].startswith("tp") else ORANGE, f"rank {rank}\n{order[rank]}")
    c.arrow([(340, 80), (490, 80)])
    c.text(415, 72, "waits in tp #88", 12, "middle")
    c.arrow([(565, 112), (565, 190)])
    c.text(575, 155, "waits in tie #0", 12)
    c.arrow([(490, 222), (340, 222)])
    c.text(415, 240, "waits in tp #100", 12, "middle")
    c.arrow([(265, 190), (265, 112)])
    c.text(255, 155, "waits in tie #0", 12, "end")
    c.note("Members of each group agree on what they call: rank 0's tp #88 is what rank 1 will call, too. No group "
           "sees the circle.")
    return c


def shadow_of_a_rank():
    """Four replicas; rank 2 begins its step late, and the others wait for it in the first collective."""
    c = Canvas("The rank that waits least is the one that all wait for",
               "Four ranks on a time line. Ranks 0, 1 and 3 compute and wait for long; rank 2 "
               "is in no lane for as long, computes, and waits for no one.", 260)
    for rank in range(4):
        y = 52 + 40 * rank
        c.text(16, y + 19, f"rank {rank}", 13)
        if rank == 2:
            c.box(90, y, 480, 28, "none", "between steps: in no lane", 12, dashed=True)
            c.box(570, y, 150, 28, BLUE, "own", 12)
        else:
            c.box(90, y, 150, 28, BLUE, "own", 12)
            c.box(240, y, 480, 28, GREY, "wait: the shadow of rank 2", 12)
        c.box(720, y, 60, 28, ORANGE, "sum", 12)
    c.note("All four steps end at the same moment, so step times are equal. The column that is not equal is the wait.")
    return c


PICTURES = {"busiest-link": busiest_link, "what-hides": what_hides, "member-states": member_states,
            "hang-circle": hang_circle, "shadow-of-a-rank": shadow_of_a_rank}

"""The claims of pp/test_pp_*.c for pp_schedule.py: tables are made, checked and played against a clock."""
from grader.judge import Wrong, close, same, whole

F, B = 1, 2
SIZES = [(p, m) for p in range(1, 9) for m in (1, 2, 3, 4, 7, 8, 16)]
LARGE = [(1, 64), (2, 64), (5, 16), (16, 3), (16, 64), (64, 1), (64, 3), (64, 16)]
CHUNKED = [(p, v, m) for p in (2, 3, 4, 8) for v in (1, 2, 3, 4) for m in (p, 2 * p, 4 * p)]
KINDS = ("F", "B", "RECV_F", "SEND_F", "RECV_B", "SEND_B")
DRAWN = (4, 1, 8)  # stages, chunks and microbatches of a schedule that is drawn, at most


# ---- tables ----

def where(name, p, v, m, stage):
    return f"{name} p={p}{f' v={v}' if v > 1 else ''} m={m} stage {stage}"


def read(actions, head, v, m):
    """A stage's actions as tuples, each one possible."""
    if not isinstance(actions, list):
        raise Wrong(f"{head}: you say {actions!r:.60}; a list of actions is wanted")
    for a in actions:
        if not (isinstance(a, list) and len(a) == 3 and a[0] in KINDS and type(a[1]) is int and type(a[2]) is int
                and 0 <= a[1] < v and 0 <= a[2] < m):
            raise Wrong(f"{head}: {a!r:.60} is no action of {v} chunk{'s' * (v > 1)} and {m} microbatches, such as "
                        "(\"F\", 0, 0)")
    return [tuple(a) for a in actions]


def tables(yours, name, shapes):
    """(p, v, m, [the actions of each stage]) of each shape."""
    calls = [(name, p, v, m, stage) for p, v, m in shapes for stage in range(p)]
    values = iter(yours.many("schedule", calls))
    for p, v, m in shapes:
        yield p, v, m, [read(next(values), where(name, p, v, m, stage), v, m) for stage in range(p)]


def plain(shapes):
    return [(p, 1, m) for p, m in shapes]


def computes(actions):
    return [a for a in actions if a[0] in "FB"]


def wanted_transfers(action, p, v, stage):
    """(the receive before it or None, the send after it or None)"""
    kind, chunk, microbatch = action
    at, last = chunk * p + stage, p * v - 1
    begins, ends = (at == 0, at == last) if kind == "F" else (at == last, at == 0)
    return None if begins else ("RECV_" + kind, chunk, microbatch), None if ends \
           else ("SEND_" + kind, chunk, microbatch)


def text(action):
    return f"{action[0]} of chunk {action[1]}, microbatch {action[2]}"


def check_stage(actions, head, p, v, m, stage):
    """Each forward and backward once, forward first; transfers where they belong, and no other ones."""
    seen, n_transfers = set(), 0
    for i, a in enumerate(actions):
        if a[0] not in "FB":
            continue
        if a in seen:
            raise Wrong(f"{head}, action {i}: {text(a)} comes a second time")
        if a[0] == "B" and ("F", *a[1:]) not in seen:
            raise Wrong(f"{head}, action {i}: {text(a)} comes before its forward")
        seen.add(a)
        before, after = wanted_transfers(a, p, v, stage)
        there = actions[i - 1] if i > 0 and actions[i - 1][0].startswith("RECV") else None
        if there != before:
            what = "no receive directly before it" if before else f"{there[0]} before it, and no neighbor there"
            raise Wrong(f"{head}, action {i}: {text(a)} has {what}")
        there = actions[i + 1] if i + 1 < len(actions) and actions[i + 1][0].startswith("SEND") else None
        if there != after:
            raise Wrong(f"{head}, action {i}: {text(a)} has "
                        f"{'no send directly after it' if after else f'{there[0]} after it, and no neighbor there'}")
        n_transfers += bool(before) + bool(after)
    missing = {(kind, c, k) for kind in "FB" for c in range(v) for k in range(m)} - seen
    if missing:
        raise Wrong(f"{head}: {text(min(missing))} is missing")
    if len(actions) != len(seen) + n_transfers:
        raise Wrong(f"{head}: it has {len(actions) - len(seen)} transfers; {n_transfers} belong to something")


# ---- all stages against a clock ----

def message(action, p, v, stage):
    """The (virtual stage, microbatch) that it is about: the sender's stage."""
    kind, chunk, microbatch = action
    at = chunk * p + stage
    if kind.startswith("RECV"):
        at += -1 if kind == "RECV_F" else 1
    return at, microbatch


def play(stages, head, p, v, f=F, b=B):
    """(the time of a step, the idle time of each stage, its picture), with one staging buffer a direction. A message
    takes no time; a send waits until the one before it was received."""
    next_, time, work, rows = [0] * p, [0.0] * p, [0.0] * p, [[] for _ in range(p)]
    sent, received = {}, {}  # of each channel (from, to, kind): [(message, time)], [time]
    moved = True
    while moved:
        moved = False
        for i, actions in enumerate(stages):
            while next_[i] < len(actions):
                a = actions[next_[i]]
                kind = a[0][-1]
                if len(a[0]) == 1:
                    rows[i].append((time[i], (f if kind == "F" else b) / v, f"{kind}{a[2]}"))
                    time[i] += (f if kind == "F" else b) / v
                    work[i] += (f if kind == "F" else b) / v
                else:
                    other = (i + (1 if a[0] in ("SEND_F", "RECV_B") else -1)) % p
                    channel = (i, other, kind) if a[0].startswith("SEND") else (other, i, kind)
                    out, came = sent.setdefault(channel, []), received.setdefault(channel, [])
                    if a[0].startswith("SEND"):
                        if len(out) > len(came):
                            break
                        time[i] = max([time[i], *came[-1:]])
                        out.append((message(a, p, v, i), time[i]))
                    else:
                        if len(out) == len(came):
                            break
                        there, at = out[len(came)]
                        if there != message(a, p, v, i):
                            raise Wrong(f"{head} stage {i}, action {next_[i]}: {text(a)} meets the message of virtual "
                                        f"stage {there[0]}, microbatch {there[1]}")
                        time[i] = max(time[i], at)
                        came.append(time[i])
                next_[i] += 1
                moved = True
    for i, actions in enumerate(stages):
        if next_[i] < len(actions):
            raise Wrong(f"{head} stage {i}, action {next_[i]}: {text(actions[next_[i]])} waits forever, with 1 staging "
                        f"buffer a direction{picture(rows, v)}")
    return max(time), [max(time) - w for w in work], picture(rows, v)


def picture(rows, v):
    """Below a small schedule that is wrong: what has run, as trivium schedule draws it. A column is a unit of time."""
    if len(rows) > DRAWN[0] or v > DRAWN[1] or max(map(len, rows)) > 2 * DRAWN[2]:
        return ""
    longest = max((begin + long for row in rows for begin, long, _ in row), default=0)
    lines = []
    for stage, row in enumerate(rows):
        cells = ["."] * round(longest)
        for begin, long, name in row:
            cells[round(begin):round(begin + long)] = [name] + ["--"] * (round(long) - 1)
        lines.append(f"stage {stage}  " + " ".join(f"{cell:2}" for cell in cells).rstrip())
    return "\n" + "\n".join(lines)


def drawing_of(stages, p, v):
    try:
        return play(stages, "", p, v)[2]
    except Wrong:
        return ""


def drawn(drawing, check, *values):
    """A check of numbers of a schedule; where it fails, the schedule is below the sentence."""
    try:
        check(*values)
    except Wrong as wrong:
        raise Wrong(f"{wrong}{drawing}") from None


def check_closed_form(yours, name, shapes):
    for p, v, m, stages in tables(yours, name, shapes):
        head = f"{name} p={p} v={v} m={m}"
        step, idle, drawing = play(stages, head, p, v)
        right = (p - 1) * (F + B) / v
        drawn(drawing, close, f"{head}: the time of a step", step, m * (F + B) + right, 1e-9)
        for stage in range(p):
            drawn(drawing, close, f"{head}: the idle time of stage {stage}", idle[stage], right, 1e-9)
    for (p, v, m), said in zip(shapes, yours.many("bubble", [(name, p, v, F, B) for p, v, m in shapes])):
        close(f"bubble({name}, {p}, {v}, {F}, {B})", said, (p - 1) * (F + B) / v, 1e-9)
    check_peak_formula(yours, name, shapes)


def right_peak(name, p, v, m, stage):
    if name == "gpipe":
        return m
    return min(p - stage, m) if v == 1 else min(m * v, 2 * (p - stage - 1) + (v - 1) * p + 1)


def check_peak_formula(yours, name, shapes):
    calls = [(name, p, v, m, stage) for p, v, m in shapes for stage in range(p)]
    for call, said in zip(calls, yours.many("peak", calls)):
        whole(f"peak of {where(*call)}", said, right_peak(*call))


# ---- the claims ----

def test_pp_schedule_1f1b_of_two_stages_is_the_textbooks(yours):
    (_, _, _, stages), = tables(yours, "1f1b", [(2, 1, 4)])
    for stage, right in enumerate(["F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"]):
        order = " ".join(f"{kind}{k}" for kind, _, k in computes(stages[stage]))
        drawn(drawing_of(stages, 2, 1), same, f"1f1b p=2 m=4 stage {stage}", order, right)


def test_pp_schedule_runs_every_microbatch_in_order(yours):
    for name in ("gpipe", "1f1b"):
        for p, v, m, stages in tables(yours, name, plain(SIZES)):
            for stage, actions in enumerate(stages):
                head = where(name, p, v, m, stage)
                check_stage(actions, head, p, v, m, stage)
                for kind in "FB":
                    same(f"{head}: the order of {kind}", [k for it, _, k in computes(actions) if it == kind],
                         list(range(m)))


def test_pp_schedule_depth_is_the_least_that_does_not_deadlock(yours):
    for name in ("gpipe", "1f1b"):
        for p, v, m, stages in tables(yours, name, plain(SIZES)):
            play(stages, f"{name} p={p} m={m}", p, v)


def test_pp_schedule_peak_is_its_closed_form(yours):
    for name in ("gpipe", "1f1b"):
        made = [(name, p, v, m, stage, stages) for p, v, m, stages in tables(yours, name, plain(SIZES))
                for stage in range(p)]
        counted = yours.many("peak_in_flight", [[stages[stage]] for *_, stage, stages in made])
        for (*call, stages), said in zip(made, counted):
            if said != right_peak(*call):
                drawing = drawing_of(stages, *call[1:3])
                drawn(drawing, whole, f"peak_in_flight of your {where(*call)}", said, right_peak(*call))
        check_peak_formula(yours, name, plain(SIZES))


def test_pp_schedule_bubble_is_its_closed_form(yours):
    for name in ("gpipe", "1f1b"):
        check_closed_form(yours, name, plain([(p, m) for p, m in SIZES if m <= 8]))


def test_gpipe_and_1f1b_are_their_closed_forms(yours):
    for name in ("gpipe", "1f1b"):
        check_closed_form(yours, name, plain(LARGE))


def test_interleaved_order_is_the_papers(yours):
    """By hand: chunk a is the first; capitals are backwards."""
    right = {(2, 2, 4, 0): "a0 a1 b0 b1 a2 B0 a3 B1 b2 A0 b3 A1 B2 B3 A2 A3",
             (2, 2, 4, 1): "a0 a1 b0 B0 b1 B1 a2 A0 a3 A1 b2 B2 b3 B3 A2 A3",
             (2, 3, 2, 1): "a0 a1 b0 b1 c0 C0 c1 C1 B0 B1 A0 A1"}
    for (p, v, m, stage), order in right.items():
        (_, _, _, stages), = tables(yours, "interleaved", [(p, v, m)])
        same(where("interleaved", p, v, m, stage), " ".join(("ABC" if kind == "B" else "abc")[c] + str(k)
                                                            for kind, c, k in computes(stages[stage])), order)


def test_interleaved_is_its_closed_form(yours):
    check_closed_form(yours, "interleaved", CHUNKED)


def test_every_schedule_is_sound_with_one_buffer(yours):
    for name, shapes in (("gpipe", plain(SIZES)), ("1f1b", plain(SIZES)), ("interleaved", CHUNKED)):
        for p, v, m, stages in tables(yours, name, shapes):
            for stage, actions in enumerate(stages):
                check_stage(actions, where(name, p, v, m, stage), p, v, m, stage)
            play(stages, f"{name} p={p} v={v} m={m}", p, v)


# ---- everything else ----

def test_interleaved_with_one_chunk_is_1f1b(yours):
    shapes = [(p, 1, m) for p in range(1, 9) for m in (p, 2 * p, 4 * p)]
    for one, other in zip(tables(yours, "interleaved", shapes), tables(yours, "1f1b", shapes)):
        for stage, (mine, right) in enumerate(zip(one[3], other[3])):
            same(f"{where('interleaved', *one[:3], stage)}: compared with 1f1b", mine, right)


def test_peak_in_flight_counts_any_list(yours):
    by_hand = "F0 F1 B0 F2 F3 B1 B2 F4 B3 B4"
    actions = [(cell[0], 0, int(cell[1])) for cell in by_hand.split()]
    whole(f"peak_in_flight of {by_hand}", yours.peak_in_flight(actions), 3)
    whole("peak_in_flight of nothing", yours.peak_in_flight([]), 0)

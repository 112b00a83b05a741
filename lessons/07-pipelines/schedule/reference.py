"""Three schedules of one rule: forwards are at most `warm` + 1 ahead of backwards. See pp_schedule.py."""


def warm_up(name, p, v, m, stage):
    if name == "gpipe":
        return m
    after = p - 1 - stage
    return after if v == 1 else 2 * after + (v - 1) * p


def nth(k, p, v, forward):
    """(chunk, microbatch) of the k-th forward or backward: groups of p microbatches pass all chunks."""
    group, inside = divmod(k, p * v)
    chunk, place = divmod(inside, p)
    return (chunk if forward else v - 1 - chunk), group * p + place


def with_transfers(kind, chunk, microbatch, p, v, stage):
    at, last = chunk * p + stage, p * v - 1
    first_of, last_of = (0, last) if kind == "F" else (last, 0)
    out = [] if at == first_of else [("RECV_" + kind, chunk, microbatch)]
    out.append((kind, chunk, microbatch))
    return out if at == last_of else [*out, ("SEND_" + kind, chunk, microbatch)]


def schedule(name, p, v, m, stage):
    warm, forwards, backwards, out = warm_up(name, p, v, m, stage), 0, 0, []
    while backwards < m * v:
        forward = forwards < m * v and forwards <= warm + backwards
        kind, k = ("F", forwards) if forward else ("B", backwards)
        chunk, microbatch = nth(k, p, v, forward) if v > 1 else (0, k)
        out += with_transfers(kind, chunk, microbatch, p, v, stage)
        forwards, backwards = forwards + forward, backwards + (not forward)
    return out


def peak_in_flight(actions):
    now = most = 0
    for kind, _, _ in actions:
        now += (kind == "F") - (kind == "B")
        most = max(most, now)
    return most


def peak(name, p, v, m, stage):
    return min(warm_up(name, p, v, m, stage) + 1, m * v)


def bubble(name, p, v, f, b):
    return (p - 1) * (f + b) / v

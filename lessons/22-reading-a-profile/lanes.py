#!/usr/bin/env python3
"""A trace of trivium train --trace as a table: where each rank's milliseconds went, means over the traced steps.

    python3 lessons/22-reading-a-profile/lanes.py TRACE.json

    own        in actions F and B, without what is waited for in them
    replay     part of own: rows that recomputation runs again
    receive    in receives of the pipeline
    wait tp    standing still for a collective of this group; wait others: of the step's small sums
    between    from the end of a step to the next one's begin: in no lane at all
"""
import collections
import json
import sys


def spans(trace):
    lane = {(e["pid"], e["tid"]): e["args"]["name"].split()[0] for e in trace["traceEvents"]
            if e["name"] == "thread_name"}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            yield e["pid"], lane[e["pid"], e["tid"]], e


def main(path):
    with open(path, encoding="utf-8") as f:
        trace = json.load(f)
    about = trace["otherData"]
    ranks, steps = len(about["ranks"]), about["steps"]
    ms = collections.defaultdict(float)
    calls, sizes, edges = collections.Counter(), {}, collections.defaultdict(list)
    actions = collections.defaultdict(list)
    first = {}
    for rank, lane, e in spans(trace):
        name, took = e["name"], e["dur"] / 1000 / steps
        if lane == "step" and name.startswith("step "):
            ms[rank, "step"] += took
            edges[rank].append((e["ts"], e["ts"] + e["dur"]))
        elif lane == "compute" and e["cat"] == "action":
            ms[rank, "action"] += took
            actions[rank].append((e["ts"], e["ts"] + e["dur"]))
            calls[rank, name[0]] += 1
        elif lane == "compute" and "replay" in name:
            ms[rank, "replay"] += took
            calls[rank, "replay"] += 1
        elif lane == "pipeline" and name.startswith("recv"):
            ms[rank, "receive"] += took
        elif e["cat"] == "wait":
            group = lane if lane in ("tp", "dp") else "others"
            ms[rank, "wait " + group] += took
            if any(a <= e["ts"] < b for a, b in actions[rank]):
                ms[rank, "inside"] += took
        elif e["cat"] == "comm" and lane in ("tp", "dp"):
            calls[rank, lane] += 1
            ms[rank, lane] += took
            first[rank, lane, e["args"]["step"]] = min(e["ts"], first.get((rank, lane, e["args"]["step"]), e["ts"]))
            least, most = sizes.get(lane, (1 << 62, 0))
            sizes[lane] = min(least, e["args"]["count"]), max(most, e["args"]["count"])
    layout = ", ".join(f"{axis} {about[axis]}" for axis in ("dp", "tp", "pp"))
    print(f"{layout}; {about['microbatches']} microbatches; steps {about['first_step']} to "
          f"{about['first_step'] + steps - 1}; ms of a step:")
    columns = ["step", "own", "replay", "receive", "wait tp", "wait dp", "wait others", "between"]
    print("rank" + "".join(f"{c:>13}" for c in columns))
    for rank in range(ranks):
        ms[rank, "own"] = ms[rank, "action"] - ms[rank, "inside"]
        gaps = [b[0] - a[1] for a, b in zip(sorted(edges[rank]), sorted(edges[rank])[1:])]
        ms[rank, "between"] = sum(gaps) / max(1, len(gaps)) / 1000
        print(f"{rank:4}" + "".join(f"{ms[rank, c]:13.1f}" for c in columns))
    for lane, (least, most) in sorted(sizes.items()):
        took, waited = ms[0, lane], ms[0, "wait " + lane]
        print(f"{lane}: {calls[0, lane] // steps} collectives a step of {least} to {most} elements; rank 0 has them in "
              f"flight for {took:.1f} ms, and waits {waited:.1f} ms")
    if ms[0, "dp"]:
        step = about["first_step"]
        actions_0 = sorted(a for a in actions[0] if a[0] >= edges[0][0][0])
        begin, end = actions_0[0][0], max(b for a, b in actions_0 if a < edges[0][0][1])
        print(f"dp: the first begins after {100 * (first[0, 'dp', step] - begin) / (end - begin):.0f} % of forward and "
              "backward")
    if calls[0, "replay"]:
        print(f"replay: {calls[0, 'replay'] // steps} rows a step on rank 0")


main(sys.argv[1])

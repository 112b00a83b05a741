#!/usr/bin/env python3
"""What a restart in the middle of an epoch does to the samples, for lesson 25.

    loader.py resize SAMPLES BATCH RANKS RANKS_AFTER    a loader in which each rank shuffles a shard of its own
    loader.py pack T                                    documents of Pareto-distributed lengths in rows of T
"""
import random
import sys


def shards(samples, ranks, seed):
    """Each rank's part of the data, shuffled by a generator of the rank."""
    parts = [list(range(samples * r // ranks, samples * (r + 1) // ranks)) for r in range(ranks)]
    for rank, part in enumerate(parts):
        random.Random(seed * 1000 + rank).shuffle(part)
    return parts


def resize(samples, batch, before, after):
    """Stop after half an epoch, and skip as many steps on the other number of ranks."""
    steps, seen = samples // batch // 2, [0] * samples
    for part in shards(samples, before, 1):
        for sample in part[:steps * batch // before]:
            seen[sample] += 1
    for part in shards(samples, after, 1):
        for sample in part[steps * batch // after:]:
            seen[sample] += 1
    never, twice = seen.count(0), seen.count(2)
    print(f"{before} ranks, then {after}: of {samples} samples {never} are never read ({100 * never / samples:.0f}%), "
          f"{twice} twice")


def pack(T):
    """Three ways to make rows of documents, and the share of attention's scores that lie within a document."""
    draw = random.Random(1)
    lengths = [min(T, int(T / 16 * draw.paretovariate(1.2))) for _ in range(4000)]
    tokens, pairs = sum(lengths), sum(n * (n + 1) // 2 for n in lengths)
    rows = []
    for n in lengths:
        best = min((i for i, room in enumerate(rows) if room >= n), key=lambda i: rows[i], default=None)
        if best is None:
            rows.append(T - n)
        else:
            rows[best] -= n
    for name, count in (("padded", len(lengths)), ("packed", len(rows)), ("a stream", -(-tokens // T))):
        print(f"{name}: {count} rows of {T}, {100 * tokens / count / T:.1f}% of positions are tokens", end="")
        print("" if name == "a stream" else f", {100 * pairs / (count * T * (T + 1) // 2):.1f}% of causal scores "
              "within a document")


{"resize": resize, "pack": pack}[sys.argv[1]](*map(int, sys.argv[2:]))

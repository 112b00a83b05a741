"""The arithmetic of cpu.py's tables, and the tables. A run: what measure() of cpu_cases.py returned. A row: a
case's runs and their medians."""

import statistics

LOSS_DISTANCE = 0.02  # of first losses: other random weights and tokens, the same distribution
PRODUCT_LIMIT = 1.02  # of the measured peak
STILL_RUN = 1.15  # times the fastest way of PyTorch; a slower one is not run after the first round


def floor_ms(run):
    """What a step's products and attention would take at the measured peak of the precision they are made in."""
    return 1e3 * run["flops"] / run["peak_flops"] if run.get("peak_flops") else None


def over_floor(run):
    floor = floor_ms(run)
    return run["step_ms"] / floor if floor else None


def layer_parameters(shape):
    """In matrix products: attention's four (keys may have fewer heads), and the MLP's two, or a gate more."""
    C = shape["hidden"]
    if "kv_heads" not in shape:
        return 12 * C * C
    return 2 * C * C + 2 * C * C * shape["kv_heads"] // shape["heads"] + 3 * C * shape["ffn"]


def product_rate(run, shape):
    """How fast the products of the layers ran, of the peak: forward, dx and dW, 6 flops per parameter and token.
    None: it is not known, or some of them are experts'."""
    by_op = run.get("by_op", {})
    if not run.get("peak_flops") or "linear" not in by_op or "expert_linear" in by_op:
        return None
    flops = 6 * shape["layers"] * layer_parameters(shape) * shape["batch"] * shape["seq"]
    return flops / (run["by_op"]["linear"] / 100 * run["step_ms"] / 1e3) / run["peak_flops"]


def median(runs, of):
    values = [of(r) for r in runs]
    return None if any(v is None for v in values) else statistics.median(values)


def summarise(runs):
    ms = [r["step_ms"] for r in runs]
    return dict(
        step_ms=statistics.median(ms),
        low_ms=min(ms),
        high_ms=max(ms),
        rss_mib=median(runs, lambda r: r["rss_mib"]),
        over_floor=median(runs, over_floor),
        floor_ms=median(runs, floor_ms),
        runs=runs,
    )


def fastest(rows, beginning):
    """The name of the fastest of the cases whose names begin so; None where there is none."""
    return min((n for n in rows if n.startswith(beginning)), key=lambda n: rows[n]["step_ms"], default=None)


def worth_another_round(names, runs):
    """Without the ways of PyTorch that lost the first round by much. runs: name -> runs so far."""
    ways = {n: runs[n][0]["step_ms"] for n in names if n.startswith("torch")}
    best = min(ways.values(), default=0)
    return [n for n in names if n not in ways or ways[n] <= STILL_RUN * best]


def times(rows, ours, theirs):
    return rows[theirs]["step_ms"] / rows[ours]["step_ms"]


def memory(rows, ours, theirs):
    """Resident memory, of theirs; and of what theirs has beyond its library as it is after import."""
    own = rows[theirs]["rss_mib"] - median(rows[theirs]["runs"], lambda r: r.get("import_mib", 0))
    return rows[ours]["rss_mib"] / rows[theirs]["rss_mib"], rows[ours]["rss_mib"] / own


def beside_others(rows):
    """One line of the table of ratios: Trivium, PyTorch at its fastest, llm.c."""
    ours, torch, llmc = fastest(rows, "trivium"), fastest(rows, "torch"), fastest(rows, "llm.c")
    line = dict(trivium_ms=rows[ours]["step_ms"], over_floor=rows[ours]["over_floor"])
    if torch:
        floor, eager = rows[ours]["floor_ms"], next(n for n in rows if n.startswith("torch") and " eager" in n)
        line.update(
            torch=torch,
            torch_ms=rows[torch]["step_ms"],
            times_torch=times(rows, ours, torch),
            floor_allows=rows[torch]["step_ms"] / floor if floor else None,
        )
        line["memory_of_eager"], line["memory_of_eager_less_import"] = memory(rows, ours, eager)
    if llmc:
        line.update(llmc_ms=rows[llmc]["step_ms"], times_llmc=times(rows, ours, llmc))
    return line


def different_losses(rows):
    """Subjects whose first loss is not about that of Trivium."""
    ours = rows[fastest(rows, "trivium")]["runs"][0]["first_loss"]
    firsts = {n: r["runs"][0]["first_loss"] for n, r in rows.items() if "first_loss" in r["runs"][0]}
    return {n: loss for n, loss in firsts.items() if not abs(loss - ours) <= LOSS_DISTANCE * ours}


# ---- printed ----
def cell(value, form):
    return "" if value is None else form % value


def print_table(name, rows):
    print(f"\n### {name}\n\n| | ms per step | lowest to highest | GFLOP/s | time over the floor | resident MiB | runs "
          "|")
    print("|---|---:|---:|---:|---:|---:|---:|")
    flops = next((r["runs"][0]["flops"] for r in rows.values() if "flops" in r["runs"][0]), 0)
    for case, r in rows.items():
        cells = [
            case,
            f"{r['step_ms']:.1f}",
            f"{r['low_ms']:.1f} to {r['high_ms']:.1f}",
            f"{flops / r['step_ms'] / 1e6:.0f}",
        ]
        cells += [cell(r["over_floor"], "%.2f"), f"{r['rss_mib']:.0f}", str(len(r["runs"]))]
        print("| " + " | ".join(cells) + " |")


def print_pairs(rows, pairs):
    if pairs:
        print("\n| | against | times as fast |\n|---|---|---:|")
    for ours, theirs in pairs:
        print(f"| {ours} | {theirs} | {times(rows, ours, theirs):.2f} |")


def print_shares(rows):
    """Time by operation, of the cases that say it, in their last run."""
    known = {name: r["runs"][-1]["by_op"] for name, r in rows.items() if r["runs"][-1].get("by_op")}
    ops = sorted(
        {op for by_op in known.values() for op in by_op}, key=lambda op: -max(b.get(op, 0) for b in known.values())
    )
    print("\n| percent of a step | " + " | ".join(known) + " |\n|---|" + "---:|" * len(known))
    for op in ops:
        if max(b.get(op, 0) for b in known.values()) >= 0.5:
            print(f"| {op} | " + " | ".join(cell(b.get(op), "%.1f") for b in known.values()) + " |")


RATIOS = (
    ("trivium ms", "trivium_ms", "%.0f"),
    ("best PyTorch ms", "torch_ms", "%.0f"),
    ("times PyTorch", "times_torch", "%.2f"),
    ("the floor allows", "floor_allows", "%.2f"),
    ("times llm.c", "times_llmc", "%.2f"),
    ("time over the floor", "over_floor", "%.2f"),
    ("memory of eager's", "memory_of_eager", "%.2f"),
    ("less its import", "memory_of_eager_less_import", "%.2f"),
)


def print_ratios(ratios):
    """ratios: name -> beside_others(rows)"""
    if ratios:
        print("\n### Ratios\n\n| | " + " | ".join(title for title, _, _ in RATIOS) + " | fastest PyTorch |")
        print("|---|" + "---:|" * len(RATIOS) + "---|")
    for name, line in ratios.items():
        print(
            f"| {name} | "
            + " | ".join(cell(line.get(key), form) for _, key, form in RATIOS)
            + f" | {line.get('torch', '')} |"
        )

"""land: the results of there, measured against predicted, into docs/benchmarks and docs/gpu.md."""

import os
import re

from . import common
from .common import ROOT, Trouble

FAST, SLOW = 0.67, 1.5  # of what is expected; beyond either the estimate, or the program, is not understood
BEGIN, END = "<!-- measured: tools/gpu-rented land writes what follows -->", "<!-- measured: end -->"


def read(folder):
    path = os.path.join(folder, "results.json")
    if os.path.exists(path):
        return common.read_json(path)
    archive = os.path.join(folder, "results.tgz")
    if not os.path.exists(archive):
        raise Trouble(f"{folder} has no results.json and no results.tgz; give the folder that there wrote (--out)")
    common.unpack(archive, folder, ("results.json", "summary.txt"))
    return common.read_json(path)


def expected_of(results, row):
    """(expected, planned) milliseconds; None where nothing is said of this row"""
    data = row["data"]
    if "ms" not in data or results["rehearsal"] or row["row"] != data["ms_of"]:
        return None, None
    p = results["predictions"][data["ms_of"]]
    return p["expected_ms"], p["planned_ms"]


def surprises(results):
    found = []
    for row in results["rows"]:
        data, name = row["data"], row["row"]
        if row["result"] in ("failed", "out of time"):
            found.append(f"{name} {row['result']}: {row['note']}")
        expected, _ = expected_of(results, row)
        if expected and not FAST * expected <= data["ms"] <= SLOW * expected:
            found.append(f"{name} takes {data['ms']:.1f} ms, expected {expected}")
        if "bytes" in data and data["bytes"]["measured"] != data["bytes"]["predicted"]:
            found.append(f"{name}: {data['bytes']['measured']} bytes, predicted {data['bytes']['predicted']}")
    return found


def number(value, form):
    return form.format(value) if value is not None else ""


def table(results):
    lines = [
        "| row | result | expected ms | planned ms | measured ms | tokens/s | mfu | what it says |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    timed = not results["rehearsal"]
    for row in results["rows"]:
        data, (expected, planned) = row["data"] if timed else {}, expected_of(results, row)
        mfu = data.get("mfu")
        lines.append(
            "| "
            + " | ".join(
                [
                    row["row"],
                    row["result"],
                    number(expected, "{:.0f}"),
                    number(planned, "{:.1f}"),
                    number(data.get("ms"), "{:.1f}"),
                    number(data.get("tokens_per_s"), "{:.0f}"),
                    number(mfu and 100 * mfu, "{:.1f}%"),
                    row["note"].replace("|", "\\|"),
                ]
            )
            + " |"
        )
    return lines


def page(results, found):
    what = results["gpu"] or "the emulated device"
    lines = [
        f"# {what}, {results['date'][:10]}",
        "",
        f"`tools/gpu-rented`, commit {results['commit']}. Expected: docs/gpu.md; planned: `trivium plan --cluster "
        "dgx-h100` of that commit.",
        "",
    ]
    if results["rehearsal"]:
        lines += [
            "**A rehearsal** on the emulated device, with tiny sizes: it says that the rows work, and nothing of any "
            "GPU.",
            "",
        ]
    lines += table(results) + [""]
    for row in results["rows"]:
        for key, head in (
            ("table", "Where the time of a step goes (row profile)"),
            ("cluster", "The cluster file (`calibrate`)"),
        ):
            if key in row["data"]:
                lines += [f"## {head}", "", *("    " + line for line in row["data"][key]), ""]
    lines += ["## Surprises", "", *(f"* {f}" for f in found or ["none"]), ""]
    return "\n".join(lines)


def into_gpu_md(results, base, path):
    """The table of what was measured, in place of the last one."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if BEGIN not in text or END not in text:
        raise Trouble(f"{path} has no lines {BEGIN} and {END}; put them where the table belongs")
    head = (
        f"{results['gpu']}, {results['date'][:10]}, commit {results['commit']} ([all of it](benchmarks/{base}.md)):\n"
    )
    new = "\n".join([BEGIN, head, *table(results), END])
    common.write_whole(path, re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: new, text, flags=re.S))


def land(folder, into, gpu_md):
    """@return 1 if there is a surprise"""
    results = read(folder)
    if results["rehearsal"] and os.path.realpath(into) == os.path.realpath(os.path.join(ROOT, "docs", "benchmarks")):
        raise Trouble("these are of a rehearsal, and docs/benchmarks is for GPUs; give --into FOLDER")
    found = surprises(results)
    name = re.sub(r"[^a-z0-9-]", "", results["gpu"].lower().replace(" ", "-")) or "rehearsal"
    base = f"{results['date'][:10]}-{name}"
    os.makedirs(into, exist_ok=True)
    common.write_json(os.path.join(into, base + ".json"), results)
    common.write_whole(os.path.join(into, base + ".md"), page(results, found))
    if gpu_md:
        into_gpu_md(results, base, gpu_md)
    print(f"written: {os.path.join(into, base)}.md, .json{', ' + gpu_md if gpu_md else ''}")
    for f in found:
        print(f"surprise: {f}")
    return 1 if found else 0

"""Opens pages in a headless Chromium and compares what stands in them with their JSON: check.py FOLDER."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../planner/explorer"))
import browser  # noqa: E402

MIB, GIB = 2**20, 2**30
folder = sys.argv[1]


def read(name):
    with open(f"{folder}/{name}.json", encoding="utf-8") as file:
        return json.load(file)


def report(name, failures):
    print(
        f"ok {name}"
        if not failures
        else f"not ok {name}: {failures[0]}" + (f" (and {len(failures) - 1} more)" if len(failures) > 1 else "")
    )


def count(page, figure, marks):
    """Marks of a kind in each picture of a figure."""
    return page.run(
        f"return [...document.querySelectorAll('#{figure} ~ figure')].slice(0, 1).flatMap(f =>"
        f" [...f.querySelectorAll('svg')].map(s => s.querySelectorAll('.{marks} > path').length))"
    )


def texts(page, figure, marks):
    return page.run(
        f"return [...document.querySelector('#{figure} ~ figure').querySelectorAll('.{marks} text')].map(t =>"
        " t.textContent)"
    )


def short(x):
    return f"{x:.0f}" if 99.95 <= abs(x) < 1e7 else f"{x:.3g}"


def check_any(page, name, pictures):
    """What every page has: its pictures, with words and numbers, in both colours, and no complaint."""
    failures, seen = [], []
    for dark in (False, True):
        page.looks(1100, 900, dark)
        page.open(f"{folder}/{name}.html")
        seen.append(
            page.run(
                "return getComputedStyle(document.body).backgroundColor + ' ' + (document.querySelector('.role-title"
                " text')?.getAttribute('fill') ?? '')"
            )
        )
        if page.errors:
            failures.append(f"the console says: {page.errors[0]}")
    if seen[0] == seen[1] or (pictures and seen[0].split()[-1] == seen[1].split()[-1]):
        failures.append(f"dark is as light: {seen}")
    page.looks(1100, 900)
    page.open(f"{folder}/{name}.html")
    shown = page.run(
        "return [document.querySelectorAll('figure svg').length, document.querySelectorAll('figure"
        " [role=img][aria-label]').length, [...document.querySelectorAll('figure')].every(f =>"
        " f.previousElementSibling.textContent && f.querySelector('details')),"
        " performance.getEntriesByType('resource').length]"
    )
    if shown != [pictures, pictures, True, 0]:
        failures.append(
            f"{name}: pictures, words for each, heading and numbers, other files: {shown}, not {pictures}"
        )
    rows = page.run(
        "for (const d of document.querySelectorAll('details')) d.open = true; await new Promise(f => setTimeout(f,"
        " 300)); return [...document.querySelectorAll('details')].map(d => d.querySelectorAll('tbody tr').length)"
    )
    if not all(rows):
        failures.append(f"{name}: a table of numbers is empty: {rows}")
    if "undefined" in page.run("return document.querySelector('main').textContent") or "NaN" in page.run(
        "return document.querySelector('main').innerHTML"
    ):
        failures.append(f"{name}: undefined, or NaN")
    return failures


def check_compare(page):
    data = read("report")
    ran = [row for row in data["compare"]["strategies"] if row["status"] == "ran"]
    failures = check_any(page, "report", 4 + len(data["pipelines"]) + len(data["timelines"]))
    roles = ("param", "grad", "optim", "act", "comm", "work", "save")

    def expect(what, found, wanted):
        if found != wanted:
            failures.append(f"{what}: {found}, not {wanted}")

    full = [max(row["per_rank"], key=lambda rank: rank["predicted_total_bytes"]) for row in ran]
    boxes = sum(
        rank[f"{which}_{role}_bytes"] > 0 for rank in full for which in ("predicted", "measured") for role in roles
    )
    boxes += sum(
        len(rank[f"{which}_{tier}_roles"])
        for rank in full
        for which in ("predicted", "measured")
        for tier in ("host", "disk")
    )
    expect("boxes of memory", count(page, "memory", "box"), [boxes])
    wanted = [
        short(rank[f"{which}_{tier}_bytes"] / MIB)
        for rank in full
        for tier in ("total", "host", "disk")
        for which in ("predicted", "measured")
        if rank[f"predicted_{tier}_bytes"]
    ]
    expect("totals of memory", texts(page, "memory", "totals-text"), wanted)
    expect("throughput", texts(page, "throughput", "totals-text"), [short(row["tokens_per_s"]) for row in ran])
    expect(
        "time of a step",
        texts(page, "time", "totals-text"),
        [short(sum(r["step_ms"] for r in row["per_rank"]) / row["ranks"]) for row in ran],
    )
    sent = [
        max(
            sum(v for k, v in rank.items() if k.startswith("comm_") and k.endswith("_bytes"))
            for rank in row["per_rank"]
        )
        / MIB
        for row in ran
    ]
    expect("bytes on the wire", texts(page, "wire", "totals-text"), [short(x) for x in sent])
    expect(
        "boxes of pipelines", count(page, "pipeline", "box"), [sum(map(len, p["stages"])) for p in data["pipelines"]]
    )
    piles = page.run(
        "return [...document.querySelector('#timeline ~ figure').querySelectorAll('svg')].map(s =>"
        " s.querySelectorAll('.pile path').length)"
    )
    expect(
        "areas of roles", piles, [sum(any(alive) for alive in t["alive_bytes"].values()) for t in data["timelines"]]
    )
    refused = page.run("return [...document.querySelectorAll('#memory-table .reason')].map(c => c.textContent)")
    expect(
        "refusals",
        refused,
        [f"{row['status']}: {row['error']}" for row in data["compare"]["strategies"] if row["status"] != "ran"],
    )
    saved = page.run("return (await views.memory[0].toSVG()).slice(0, 4)")
    expect("a picture as a file", saved, "<svg")
    first, *others = ran
    told = page.run("return [...document.querySelectorAll('#sentences li')].map(l => l.textContent)")
    expect("sentences", len(told), len(ran))
    for row, sentence in zip(others, told[1:]):
        change = row["predicted_total_bytes"] - first["predicted_total_bytes"]
        whole = f"{short(abs(change) / MIB)} MiB {'less' if change < 0 else 'more'} in all"
        if whole not in sentence and "about the same memory" not in sentence:
            failures.append(f"{sentence!r} has no {whole!r}")
        ratio = row["step_ms"] / first["step_ms"] - 1
        time = f"A step takes {short(abs(100 * ratio))} % {'less' if ratio < 0 else 'more'} time"
        if not sentence.startswith(row["strategy"]) or time not in sentence:
            failures.append(f"{sentence!r} has no {time!r}")
    page.looks(1200, 900)
    cut = page.run(
        "return [...document.querySelectorAll('#memory-table, #speed-table')].filter(t => t.scrollWidth >"
        " t.parentElement.clientWidth).map(t => t.id)"
    )
    expect("tables cut off in 1200 pixels", cut, [])
    report("pages_of_compare", failures)


def check_plan(page):
    data, failures = read("plan"), []
    failures += check_any(page, "plan", 3)
    dots, best = data["dots"], data["search"]["best"]

    def expect(what, found, wanted):
        if found != wanted:
            failures.append(f"{what}: {found}, not {wanted}")

    expect("dots", count(page, "memory-time", "dot"), [len(dots["fit"]) + len(dots["no_fit"])])
    expect("the wall", count(page, "memory-time", "wall"), [1])
    # right of it lies what does not fit
    edge = page.run("return document.querySelector('.wall path').getBoundingClientRect().left")
    right = page.run(
        "return [...document.querySelectorAll('.dot path')].filter(d => (d.getBoundingClientRect().left +"
        f" d.getBoundingClientRect().right) / 2 > {edge}).length"
    )
    expect("dots beyond the wall", right, len(dots["no_fit"]))
    expect("seconds of a step", texts(page, "phases", "totals-text"), [short(b["step_s"]) for b in best])
    expect("parts of a step", count(page, "phases", "box"), [sum(s > 0 for parts in data["parts_s"] for s in parts)])
    expect("boxes of the pipeline", count(page, "pipeline", "box"), [sum(map(len, data["pipeline"]["stages"]))])
    rows = page.run(
        "return [...document.querySelectorAll('#layouts-table tbody tr')].map(r => [r.firstChild.textContent,"
        " r.lastChild.textContent])"
    )
    expect("layouts", rows, [["=" if b["tied"] else "", b["layout"]] for b in best])
    expect(
        "families",
        page.run("return document.querySelectorAll('#families-table tbody tr').length"),
        len(data["families"]),
    )
    report("pages_of_plan", failures)


def check_budget(page):
    data = read("budget")
    failures = check_any(page, "budget", 3)
    curves, fit = data["curves"], [line for curve in data["curves"] for line in curve if line["fits"]]

    def expect(what, found, wanted):
        if found != wanted:
            failures.append(f"{what}: {found}, not {wanted}")

    expect("parts of steps", count(page, "shares", "box"), [sum(s > 0 for line in fit for s in line["parts_s"])])
    expect("whole steps", texts(page, "shares", "totals-text"), len(fit) * ["100"])
    expect("dots of mfu", count(page, "mfu", "dot"), [2 * len(fit)])
    expect(
        "curves of mfu",
        page.run("return document.querySelector('#mfu ~ figure').querySelectorAll('.curve path').length"),
        2 * sum(map(bool, curves)),
    )
    expect("intervals", count(page, "goodput", "dot"), [2 * len(data["goodput"])])
    expect(
        "curves of goodput",
        page.run("return document.querySelector('#goodput ~ figure').querySelectorAll('.curve path').length"),
        len(data["goodput"]),
    )
    expect(
        "lines",
        page.run("return document.querySelectorAll('#lines-table tbody tr').length"),
        len(data["budget"]["lines"]),
    )
    report("pages_of_budget", failures)


def check_walls(page):
    data = read("walls")
    failures = check_any(page, "walls", 1)
    if count(page, "walls", "box") != [len(data["walls"])]:
        failures.append(f"cells: {count(page, 'walls', 'box')}, not {len(data['walls'])}")
    words = texts(page, "walls", "words-text")
    if words[::2] != [c["first"] for c in data["cells"]]:
        failures.append(f"words: {words}")
    report("pages_of_walls", failures)


def check_check(page):
    data = read("check")
    failures = check_any(page, "check", 1)
    first = data["rows"][data["first"]]
    cells = {
        (r["layer"], r["step"], r["phase"] if r["phase"] in ("backward", "norm", "update") else "forward")
        for r in data["rows"]
        if r["verdict"] != "not recorded" and r["step"] <= 5
    }
    if count(page, "map", "box") != [len(cells)]:
        failures.append(f"cells: {count(page, 'map', 'box')}, not {len(cells)}")
    if texts(page, "map", "words-text").count("first") != 1:
        failures.append("the finding is not marked once")
    if first["name"] not in page.run("return document.getElementById('first').textContent"):
        failures.append(f"the first is not {first['name']}")
    shown = page.run(
        "return [document.querySelectorAll('#wrong-table tbody tr').length, document.querySelectorAll('main"
        " li').length, document.querySelectorAll('#calls-table tbody tr').length]"
    )
    wrong = [r for r in data["rows"] if r["verdict"] not in ("right", "not recorded")]
    if shown != [
        min(20, len(wrong)),
        len(data["suspects"]),
        len(data["calls"]["groups"]) if data["calls"]["ranks"] else 0,
    ]:
        failures.append(f"wrong ones, suspects, groups: {shown}")
    report("pages_of_check", failures)


def check_show(page):
    data, failures = read("shown/memory")["timeline"], check_any(page, "shown/memory", 1)
    piles = page.run("return document.querySelectorAll('#timeline ~ figure .pile path').length")
    if piles != sum(any(alive) for alive in data["alive_bytes"].values()):
        failures.append(f"areas of roles: {piles}")
    if texts(page, "timeline", "words-text")[0] != data["marks"][0][1]:
        failures.append(f"marks: {texts(page, 'timeline', 'words-text')}")
    report("pages_of_show_memory", failures)
    failures = check_any(page, "states/memory", 1)
    if texts(page, "states", "totals-text") != ["120", "31.4", "16.6", "1.88"]:
        failures.append(f"the ZeRO paper's stages: {texts(page, 'states', 'totals-text')}")
    if count(page, "states", "box") != [12]:
        failures.append(f"boxes: {count(page, 'states', 'box')}, not a param, grad and optim of each stage")
    report("pages_of_show_params", failures)
    data, failures = read("shown/comm"), check_any(page, "shown/comm", 1)
    kinds = [e[0] for e in data["events"]]
    lines = page.run("return document.querySelectorAll('#hops ~ figure .message line').length")
    if lines != kinds.count("send"):
        failures.append(f"messages: {lines}, not {kinds.count('send')}")
    boxes = sum(e[0] != "receive" and e[4] > e[3] for e in data["events"])
    if count(page, "hops", "box") != [boxes]:
        failures.append(f"boxes: {count(page, 'hops', 'box')}, not {boxes}")
    names = ["sends within its node", "sends to another node", "adds"]
    if texts(page, "hops", "role-legend-label") != names:
        failures.append(f"legend: {texts(page, 'hops', 'role-legend-label')}")
    report("pages_of_show_comm", failures)


def check_parts(page):
    """Pictures of made-up numbers: axes, hostile names, zeros, what is not a number; [figure, what of it, wanted]."""
    page.open(f"{folder}/report.html")
    with open(os.path.join(os.path.dirname(__file__), "check_drawn.js"), encoding="utf-8") as script:
        drawn = page.run(script.read())
    wanted = {
        "names": ["a & b", "tiny", "zero", "unknown", "no", "refused: <E_CONFIG>"],
        "totals": ["3000000", "1000000", "0.001", "0", "not known"],
        "boxes": 4,
        "twice": 2,
        "broken": False,
        "dots": 3,
        "lines": 1,
        "half": True,
        "wall": True,
        "wallName": ["74 GiB"],
        "legend": ["line", "dots"],
        "doubles": True,
        "capped": True,
        "empty": 3 * ["1,0"],
        "cells": 3,
        "words": ["memory", "2 > 1", "compute", "", "compute", "57%"],
        "sides": ["a & b", "c", "a & b", "c"],
        "piles": 2,
        "marks": ["F0", "B0"],
        "under": True,
        "short": ["0", "1234", "100", "12.3", "0.00123", "123456", "not known", "not known"],
        "colours": 16,
        "many": True,
    }
    drawn["many"] = 250 <= drawn["many"] <= 278  # a line each three pixels
    for name, keys in (
        ("bars_show_every_group", "names totals boxes twice"),
        ("plot_draws_every_point_where_it_lies", "dots lines half wall wallName legend"),
        ("plot_doubles", "doubles"),
        ("plot_keeps_what_is_above_its_cap", "capped"),
        ("plot_of_no_point_is_a_picture", "empty broken"),
        ("grid_has_a_box_a_cell", "cells words sides"),
        ("areas_stand_on_each_other", "piles marks under"),
        ("areas_leave_out_marks_that_stand_too_close", "many"),
        ("numbers_are_short_and_without_exponents", "short"),
        ("colours_differ", "colours"),
    ):
        report(
            "pages_" + name,
            [f"{key}: {drawn[key]}, not {wanted[key]}" for key in keys.split() if drawn[key] != wanted[key]],
        )


def check_plain(page):
    """Without Vega: no picture, all tables open, and the package's name."""
    with open(f"{folder}/plain", encoding="utf-8") as file:
        template = file.read()
    with open(f"{folder}/plain.html", "w", encoding="utf-8") as file:
        file.write(template.replace("@@data@@", json.dumps(read("report")).replace("<", "\\u003c"), 1))
    page.open(f"{folder}/plain.html")
    shown = page.run(
        "return [document.querySelectorAll('svg').length, [...document.querySelectorAll('details')].every(d => d.open"
        " && d.querySelector('tbody tr')), document.body.textContent.includes('tools/install-deps pictures')]"
    )
    report("pages_without_vega_have_tables", [*page.errors, *([] if shown == [0, True, True] else [str(shown)])])


def main():
    with browser.Browser() as page:
        check_compare(page)
        check_plan(page)
        check_budget(page)
        check_walls(page)
        check_check(page)
        check_show(page)
        check_parts(page)
        check_plain(page)


main()

"""Opens pages in a headless Chromium and holds what stands in them to their JSON: check.py FOLDER (tests/more/pages.sh)."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../planner/explorer"))
import browser                                              # noqa: E402

MIB, GIB = 2**20, 2**30
folder = sys.argv[1]


def read(name):
    with open(f"{folder}/{name}.json", encoding="utf-8") as file:
        return json.load(file)


def report(name, failures):
    print(f"ok {name}" if not failures else f"not ok {name}: {failures[0]}" + (f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""))


def count(page, figure, marks):
    """Marks of a kind in each picture of a figure."""
    return page.run(f"return [...document.querySelectorAll('#{figure} ~ figure')].slice(0, 1).flatMap(f => [...f.querySelectorAll('svg')]"
                    f".map(s => s.querySelectorAll('.{marks} > path').length))")


def texts(page, figure, marks):
    return page.run(f"return [...document.querySelector('#{figure} ~ figure').querySelectorAll('.{marks} text')].map(t => t.textContent)")


def short(x):
    return f"{x:.0f}" if 99.95 <= abs(x) < 1e7 else f"{x:.3g}"


def check_any(page, name, pictures):
    """What every page has: its pictures, with words and numbers, in both colours, and no complaint."""
    failures, seen = [], []
    for dark in (False, True):
        page.looks(1100, 900, dark)
        page.open(f"{folder}/{name}.html")
        seen.append(page.run("return getComputedStyle(document.body).backgroundColor + ' ' + (document.querySelector('.role-title text')?.getAttribute('fill') ?? '')"))
        if page.errors:
            failures.append(f"the console says: {page.errors[0]}")
    if seen[0] == seen[1] or (pictures and seen[0].split()[-1] == seen[1].split()[-1]):
        failures.append(f"dark is as light: {seen}")
    page.looks(1100, 900)
    page.open(f"{folder}/{name}.html")
    shown = page.run("return [document.querySelectorAll('figure svg').length, document.querySelectorAll('figure [role=img][aria-label]').length, "
                     "[...document.querySelectorAll('figure')].every(f => f.previousElementSibling.textContent && f.querySelector('details')), performance.getEntriesByType('resource').length]")
    if shown != [pictures, pictures, True, 0]:
        failures.append(f"{name}: pictures, words for each, heading and numbers, other files: {shown}, not {pictures}")
    rows = page.run("for (const d of document.querySelectorAll('details')) d.open = true; await new Promise(f => setTimeout(f, 300)); "
                    "return [...document.querySelectorAll('details')].map(d => d.querySelectorAll('tbody tr').length)")
    if not all(rows):
        failures.append(f"{name}: a table of numbers is empty: {rows}")
    if "undefined" in page.run("return document.querySelector('main').textContent") or "NaN" in page.run("return document.querySelector('main').innerHTML"):
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
    boxes = sum(rank[f"{which}_{role}_bytes"] > 0 for rank in full for which in ("predicted", "measured") for role in roles)
    boxes += sum(len(rank[f"{which}_{tier}_roles"]) for rank in full for which in ("predicted", "measured") for tier in ("host", "disk"))
    expect("boxes of memory", count(page, "memory", "box"), [boxes])
    wanted = [short(rank[f"{which}_{tier}_bytes"] / MIB) for rank in full for tier in ("total", "host", "disk") for which in ("predicted", "measured") if rank[f"predicted_{tier}_bytes"]]
    expect("totals of memory", texts(page, "memory", "totals-text"), wanted)
    expect("throughput", texts(page, "throughput", "totals-text"), [short(row["tokens_per_s"]) for row in ran])
    expect("time of a step", texts(page, "time", "totals-text"), [short(sum(r["step_ms"] for r in row["per_rank"]) / row["ranks"]) for row in ran])
    sent = [max(sum(v for k, v in rank.items() if k.startswith("comm_") and k.endswith("_bytes")) for rank in row["per_rank"]) / MIB for row in ran]
    expect("bytes on the wire", texts(page, "wire", "totals-text"), [short(x) for x in sent])
    expect("boxes of pipelines", count(page, "pipeline", "box"), [sum(map(len, p["stages"])) for p in data["pipelines"]])
    piles = page.run("return [...document.querySelector('#timeline ~ figure').querySelectorAll('svg')].map(s => s.querySelectorAll('.pile path').length)")
    expect("areas of roles", piles, [sum(any(alive) for alive in t["alive_bytes"].values()) for t in data["timelines"]])
    refused = page.run("return [...document.querySelectorAll('#memory-table .reason')].map(c => c.textContent)")
    expect("refusals", refused, [f"{row['status']}: {row['error']}" for row in data["compare"]["strategies"] if row["status"] != "ran"])
    saved = page.run("return (await views.memory[0].toSVG()).slice(0, 4)")
    expect("a picture as a file", saved, "<svg")
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
    right = page.run(f"return [...document.querySelectorAll('.dot path')].filter(d => (d.getBoundingClientRect().left + d.getBoundingClientRect().right) / 2 > {edge}).length")
    expect("dots beyond the wall", right, len(dots["no_fit"]))
    expect("seconds of a step", texts(page, "phases", "totals-text"), [short(b["step_s"]) for b in best])
    expect("parts of a step", count(page, "phases", "box"), [sum(s > 0 for parts in data["parts_s"] for s in parts)])
    expect("boxes of the pipeline", count(page, "pipeline", "box"), [sum(map(len, data["pipeline"]["stages"]))])
    rows = page.run("return [...document.querySelectorAll('#layouts-table tbody tr')].map(r => [r.firstChild.textContent, r.lastChild.textContent])")
    expect("layouts", rows, [["=" if b["tied"] else "", b["layout"]] for b in best])
    expect("families", page.run("return document.querySelectorAll('#families-table tbody tr').length"), len(data["families"]))
    report("pages_of_plan", failures)


def check_plain(page):
    """Without Vega: no picture, all tables open, and the package's name."""
    with open(f"{folder}/plain", encoding="utf-8") as file:
        template = file.read()
    with open(f"{folder}/plain.html", "w", encoding="utf-8") as file:
        file.write(template.replace("@@data@@", json.dumps(read("report")).replace("<", "\\u003c"), 1))
    page.open(f"{folder}/plain.html")
    shown = page.run("return [document.querySelectorAll('svg').length, [...document.querySelectorAll('details')].every(d => d.open && d.querySelector('tbody tr')), "
                     "document.body.textContent.includes('tools/install-deps pictures')]")
    report("pages_without_vega_have_tables", [*page.errors, *([] if shown == [0, True, True] else [str(shown)])])


def main():
    with browser.Browser() as page:
        check_compare(page)
        check_plan(page)
        check_plain(page)


main()

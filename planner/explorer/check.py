#!/usr/bin/env python3
"""Does the page say what the command line says? planner/explorer/check.py PAGE TRIVIUM [N]: N random configurations (300), a line each test.

One page in a headless Chromium gets all configurations and answers with what its commands print; build/trivium prints the same natively. Bytes,
wire bytes, flops and refusals must be the same text. Times are sums of powers and logarithms, whose last digit is the C library's: 1e-12.
On a CPU, `work` is scratch that depends on the machine's instructions (lib/ops/gemm): it is compared for layouts of GPUs, whose is a formula.
"""
import concurrent.futures
import glob
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import browser  # noqa: E402

BASE = {"device": ["cuda", "cuda", "cpu"], "precision": ["auto", "bf16", "fp16", "fp32"], "global-batch": [8, 16, 32, 48, 64, 96],
        "micro-batch": [0, 1, 2, 3], "dp": [1, 2, 4, 8], "tp": [1, 1, 2, 3, 4], "pp": [1, 1, 2, 4], "cp": [1, 1, 1, 2], "sp": ["off", "on"],
        "zero": [0, 0, 1, 2, 3], "recompute": ["none", "selective", "full", "uniform:2", "block:1"], "seq": [64, 128, 60],
        "schedule": ["1f1b", "1f1b", "gpipe", "interleaved", "naive", "zb-h1", "zb-v", "chimera", "dualpipe-v", "breadth-first", "pipedream"],
        "chunks": [1, 1, 2], "offload": ["none", "none", "none", "optimizer"], "attention": ["blocked", "blocked", "materialised"], "fp8": ["off", "off", "off", "on"],
        "grad-fp32": ["off", "on"], "tie": ["on", "on", "off"], "grad-codec": ["none", "none", "none", "int8"], "dropout": [0, 0.1],
        "replicate-every": [0, 0, 1, 4]}
MODELS = [["--model", "tiny"], ["--model", "tiny", "--layers", "8"], ["--model", "tiny", "--arch", "llama"], ["--model", "gpt2-124m"],
          ["--model", "tiny", "--experts", "4", "--ep", "2"], ["--model", "tinyllama-1.1b"], ["--model", "gpt3-6.7b"]]


def configurations(n):
    draw = random.Random(26)
    for _ in range(n):
        words = list(draw.choice(MODELS))
        for name in draw.sample(sorted(BASE), draw.randint(5, 12)):
            words += ["--" + name, str(draw.choice(BASE[name]))]
        if "--device" not in words:
            words += ["--device", "cuda"]                   # auto asks the machine
        yield words


def native(program, args):
    done = subprocess.run([program, *args], capture_output=True, text=True)
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def ask(page, commands):
    """What the page prints for each, in one run; and how long it took, in ms."""
    return page.run(f"const all = []; await session.run({json.dumps(commands)}.map(args => ({{name: 'x', args}})), r => all.push("
                    "{code: r.code, out: r.out, err: r.err, ms: r.ms, written: r.written}));"
                    "return all;")


def same(a, b, path=""):
    """None, or where two JSON values differ; seconds may differ in the last digits."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return next((d for d in (same(a[k], b[k], f"{path}.{k}") for k in a) if d), None)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((d for d in (same(x, y, f"{path}[{i}]") for i, (x, y) in enumerate(zip(a, b))) if d), None)
    if isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12):
        return None
    return None if a == b else f"{path}: {a} in the page, {b} natively"


def without_scratch(text):
    found = json.loads(text)
    for rank in found.get("ranks", []):
        rank["total"] -= rank["bytes"].pop("work")
    if "plan" in found:
        found["plan"]["memory_bytes"] -= found["plan"]["bytes"].pop("work")
    return found


def without_line(err):
    """A call over several lines has the number of its first with gcc, of its last with clang."""
    return re.sub(r"^(E_[A-Z]+ \w+\.c):\d+ ", r"\1 ", err)


def compare(command, page, ours):
    if (page["code"], without_line(page["err"])) != (ours["code"], without_line(ours["err"])):
        return f"{page['code']} {page['err']!r} in the page, {ours['code']} {ours['err']!r} natively"
    if page["code"] or page["out"] == ours["out"]:
        return None
    if "--json" not in command:
        return "other text"
    on_cpu = command[command.index("--device") + 1] == "cpu"
    if command[0] == "plan" or on_cpu:
        read = without_scratch if on_cpu else json.loads
        return same(read(page["out"]), read(ours["out"]))
    return "other text"


def report(name, failures, remark=""):
    for failure in failures[:5]:
        print(f"#   {failure}")
    print(f"not ok {name}: {len(failures)} of them differ" if failures else f"ok {name}{': ' + remark if remark else ''}")
    sys.stdout.flush()


def check_random(page, program, n):
    words = list(configurations(n))
    memory, plan = [["show", "memory", *w, "--json"] for w in words], [["plan", *w, "--json"] for w in words]
    program_text = [["show", "program", *w] for w in words[::10]]
    commands = memory + plan + program_text
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        theirs = pool.map(lambda c: native(program, c), commands)
        ours = ask(page, commands)
        theirs = list(theirs)
    failures = [[] for _ in range(3)]
    legal = sum(t["code"] == 0 for t in theirs[:n])
    for command, a, b in zip(commands, ours, theirs):
        difference = compare(command, a, b)
        if difference:
            failures[0 if command[1] == "memory" else 1 if command[0] == "plan" else 2].append(" ".join(command) + ": " + difference)
    report("explorer_bytes_wire_flops_refusals", failures[0], f"{n} configurations, {legal} of them legal")
    report("explorer_times", failures[1])
    report("explorer_programs", failures[2])
    if legal < n // 4 or legal > n * 9 // 10:
        print(f"not ok explorer_draws_both_kinds: {legal} of {n} are legal")


LARGE = ["--model", "gpt3-175b", "--device", "cuda", "--cluster", "dgx-a100", "--dp", "8", "--tp", "8", "--pp", "16", "--sp", "on", "--global-batch", "1536",
         "--micro-batch", "1"]


def check_time(page, program):
    """A move of the largest layout: at most 5 times what the same commands take natively. The best of three, of both."""
    commands = [["show", "memory", *LARGE, "--json", "--rank", "0"], ["plan", *LARGE, "--json"]]
    best = [math.inf, math.inf]
    for _ in range(3):
        best[0] = min(best[0], sum(a["ms"] for a in ask(page, commands)))
        started = time.monotonic()
        for command in commands:
            native(program, command)
        best[1] = min(best[1], 1000 * (time.monotonic() - started))
    ratio = best[0] / best[1]
    report("explorer_time_of_a_move", [] if ratio <= 5 else [f"{best[0]:.0f} ms in the page, {best[1]:.0f} ms natively"],
           f"{best[0]:.0f} ms in the page, {best[1]:.0f} ms natively")


def check_page(page, program, path):
    """The page itself: what stands in it after a fragment, a change and a refusal."""
    failures = []

    def expect(what, holds):
        if not holds:
            failures.append(what)
    page.open(path, "model=tiny&dp=2&tp=2&pp=2&zero=1&global-batch=8")
    # a row for each stage, whose ranks are alike; each number as it stands there is the native one
    ranks = json.loads(native(program, ["show", "memory", *"--device cuda --model tiny --dp 2 --tp 2 --pp 2 --zero 1 --global-batch 8 --json".split()])["out"])["ranks"]
    shown = page.run("return [...document.querySelectorAll('#memory tr')].slice(1).map(r => [...r.children].slice(2).map(c => Number(c.textContent.replace(/\\D/g, ''))))")
    expect("bytes by role and in all", shown == [[*r["bytes"].values(), r["total"]] for r in ranks if r["rank"] in (0, 4)])
    lengths = page.run("return [...document.querySelectorAll('#memory .bar')].map(b => [...b.querySelectorAll('i')].map(i => i.getBoundingClientRect().width))")
    most = max(r["total"] for r in ranks)
    expect("bars as long as their bytes", all(abs(sum(bar) / max(map(sum, lengths)) - r["total"] / most) < 0.01 for bar, r in zip(lengths, (ranks[0], ranks[4]))))
    wire = page.run("return Object.fromEntries([...document.querySelectorAll('#wire .row')].map(r => [r.firstChild.textContent, Number(r.title.replace(/\\D/g, ''))]))")
    expect("bytes by axis", wire == {axis: n for axis, n in ranks[0]["wire_bytes"].items() if n})
    expect("a picture of memory and of the pipeline", page.run("return !!document.querySelector('#over-step svg') && !!document.querySelector('#pipeline svg')"))
    words = "--device cuda --model tiny --dp 2 --tp 2 --pp 2 --zero 1 --global-batch 8 --json --rank 0".split()
    alive = json.loads(native(program, ["show", "memory", *words])["out"])["timeline"]["alive_bytes"]
    drawn = page.run("return [...document.querySelectorAll('#over-step polygon title')].map(t => t.textContent)")
    expect("an area for each role of the step", drawn == [role for role, bytes in alive.items() if any(bytes)])
    expect("no refusal", page.run("return document.getElementById('refusal').hidden"))
    expect("controls from the fragment", page.run("return document.getElementById('option-tp').value") == "2")
    page.run("change('tp', '3'); await new Promise(f => setTimeout(f, 50)); while (document.getElementById('results').getAttribute('aria-busy') === 'true') await new Promise(f => setTimeout(f, 20));")
    expect("a refusal in the command's words", "does not divide heads=4" in page.run("return document.getElementById('refusal').textContent"))
    expect("its remedies as buttons", page.run("return [...document.querySelectorAll('#refusal button')].map(b => b.textContent).join()") == "tp 1,tp 2,tp 4")
    expect("the change in the fragment", "tp=3" in page.run("return location.hash"))
    expect("each control has a name", page.run("return [...document.querySelectorAll('input,select,button')].every(e => e.labels?.length || e.getAttribute('aria-label') || e.textContent)"))
    page.looks(360, 700)
    expect("no sideways scrolling on a narrow screen", page.run("return document.documentElement.scrollWidth") <= 360)
    report("explorer_page", failures)


def check_presets(page, path):
    """Every link of a lesson: a question, then a layout that can be; or a puzzle."""
    failures, links = [], []
    for lesson in sorted(glob.glob("lessons/*/README.md")):
        with open(lesson, encoding="utf-8") as file:
            links += [(lesson, preset) for preset in re.findall(r"explorer\.html#([^)]*)\)", file.read())]
    for lesson, preset in links:
        page.open(path, preset)
        asked, refusal, rows = page.run("return [!document.getElementById('question').hidden || document.getElementById('puzzles').open, "
                                        "document.getElementById('refusal').textContent, "
                                        "document.querySelectorAll('#memory button.row').length]")
        if not asked or refusal or rows < 1:
            failures.append(f"{lesson}: {refusal or 'no question, no puzzle, or no bars'}")
    report("explorer_links_of_lessons", failures if links else ["no lesson has any"], f"{len(links)} of them")


def tables():
    """(what, text of each puzzle, the claim that must fail or None): lesson 07's reference, and each mistake planted in it."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, TABLE)
        os.makedirs(os.path.dirname(table))
        for patch in [None, *sorted(glob.glob("tests/mutants/lessons/07-pipelines/table-*.patch"))]:
            shutil.copy(TABLE, table)
            claim = None
            if patch:
                subprocess.run(["patch", "-s", "-p1", "-d", folder, "-i", os.path.abspath(patch)], check=True, stdout=subprocess.DEVNULL)
                with open(patch, encoding="utf-8") as file:
                    claim = re.search(r"^# claim: (\S+)", file.read(), re.M)[1]
            with open(table, encoding="utf-8") as file:
                yield patch or "reference", re.split(r"^puzzle \d+\n", re.sub(r"#.*", "", file.read()), flags=re.M)[1:], claim


TABLE = "lessons/07-pipelines/table/reference.txt"


def check_puzzles(page):
    """Judged as make grade judges: a reference solves its puzzle, a planted mistake loses the one that it spoils."""
    def judge(puzzle, text):
        return page.run(f"return (await puzzles.judgeBesidePar({json.dumps(puzzle)}, {json.dumps(text)})).claims")
    failures = []
    if not os.path.exists(TABLE):
        print("skip explorer_puzzles a handout has no references")
        return
    for what, texts, claim in tables():
        for number, text in enumerate(texts, 1):
            claims = judge(f"schedule-{number}", text)
            solved = all(c["holds"] for c in claims)
            if solved == bool(claim and f"_{number}_" in claim):
                failures.append(f"{what}, schedule {number}: {claims}")
    with open("lessons/16-choosing-a-layout/puzzle/reference.txt", encoding="utf-8") as file:
        layouts = re.findall(r"^\d: (.*)$", file.read(), flags=re.M)
    for number, text in ((1, layouts[0]), (3, layouts[2])):                        # the second's search takes longest
        claims = judge(f"layout-{number}", text)
        if not all(c["holds"] for c in claims) or len(claims) != 4:
            failures.append(f"the reference of layout {number}: {claims}")
    if all(c["holds"] for c in judge("layout-1", "--dp 8 --zero 1 --micro-batch 2 --recompute full")):
        failures.append("full recomputation solves layout 1")
    dropped = judge("recompute", "--recompute selective --micro-batch 1")
    if len(dropped) != 4 or [c["holds"] for c in dropped] != [True, True, True, False]:
        failures.append(f"selective recomputation of a microbatch of one: {dropped}")
    if judge("recompute", "--recompute auto")[0]["holds"]:
        failures.append("auto solves what to recompute")
    report("explorer_puzzles", failures)


def main():
    path, program = sys.argv[1:3]
    with browser.Browser() as page:
        page.open(path)
        check_random(page, program, int(sys.argv[3]) if len(sys.argv) > 3 else 300)
        check_time(page, program)
        check_page(page, program, path)
        check_presets(page, path)
        check_puzzles(page)
    size = os.path.getsize(path)
    report("explorer_size", [] if size < 1000000 else [f"{size} bytes"], f"{size} bytes")


main()

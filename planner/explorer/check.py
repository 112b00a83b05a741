#!/usr/bin/env python3
"""Does the page say what the command line says? planner/explorer/check.py PAGE TRIVIUM [N]: N random configurations
(300), a line each test.

One page in a headless Chromium gets all configurations and answers with what its commands print; build/trivium prints
the same natively. Bytes, wire bytes, flops and refusals must be the same text. Times are sums of powers and logarithms,
whose last digit is the C library's: 1e-12. On a CPU, `work` is scratch that depends on the machine's instructions
(lib/ops/gemm): it is compared for layouts of GPUs, whose is a formula.
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

BASE = {"device": ["cuda", "cuda", "cpu"], "precision": ["auto", "bf16", "fp16", "fp32"],
        "global-batch": [8, 16, 32, 48, 64, 96],
        "micro-batch": [0, 1, 2, 3], "dp": [1, 2, 4, 8], "tp": [1, 1, 2, 3, 4], "pp": [1, 1, 2, 4], "cp": [1, 1, 1, 2],
        "sp": ["off", "on"],
        "zero": [0, 0, 1, 2, 3], "recompute": ["none", "selective", "full", "uniform:2", "block:1"],
        "seq": [64, 128, 60],
        "schedule": ["1f1b", "1f1b", "gpipe", "interleaved", "naive", "zb-h1", "zb-v", "chimera", "dualpipe-v",
                     "breadth-first", "pipedream"],
        "chunks": [1, 1, 2], "offload": ["none", "none", "none", "optimizer"],
        "attention": ["blocked", "blocked", "materialised"], "fp8": ["off", "off", "off", "on"],
        "grad-fp32": ["off", "on"], "tie": ["on", "on", "off"], "grad-codec": ["none", "none", "none", "int8"],
        "dropout": [0, 0.1],
        "replicate-every": [0, 0, 1, 4]}
MODELS = [["--model", "tiny"], ["--model", "tiny", "--layers", "8"], ["--model", "tiny", "--arch", "llama"],
          ["--model", "gpt2-124m"],
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
    return page.run(f"const all = []; await session.run({json.dumps(commands)}.map(args => ({{name: 'x', args}})), r "
                    "=> all.push("
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
    print(f"not ok {name}: {len(failures)} of them differ" if failures
          else f"ok {name}{': ' + remark if remark else ''}")
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
            failures[0 if command[1] == "memory" else 1 if command[0] == "plan"
                     else 2].append(" ".join(command) + ": " + difference)
    report("explorer_bytes_wire_flops_refusals", failures[0], f"{n} configurations, {legal} of them legal")
    report("explorer_times", failures[1])
    report("explorer_programs", failures[2])
    if legal < n // 4 or legal > n * 9 // 10:
        print(f"not ok explorer_draws_both_kinds: {legal} of {n} are legal")


LARGE = ["--model", "gpt3-175b", "--device", "cuda", "--cluster", "dgx-a100", "--dp", "8", "--tp", "8", "--pp", "16",
         "--sp", "on", "--global-batch", "1536",
         "--micro-batch", "1"]


def check_time(page, program):
    """A move of the largest layout: at most 5 times what the same commands take natively. The best of three, of
    both."""
    commands = [["show", "memory", *LARGE, "--json", "--rank", "0"], ["plan", *LARGE, "--json"]]
    best = [math.inf, math.inf]
    for _ in range(3):
        best[0] = min(best[0], sum(a["ms"] for a in ask(page, commands)))
        started = time.monotonic()
        for command in commands:
            native(program, command)
        best[1] = min(best[1], 1000 * (time.monotonic() - started))
    ratio = best[0] / best[1]
    report("explorer_time_of_a_move",
           [] if ratio <= 5 else [f"{best[0]:.0f} ms in the page, {best[1]:.0f} ms natively"],
           f"{best[0]:.0f} ms in the page, {best[1]:.0f} ms natively")


def check_page(page, program, path):
    """The page itself: what stands in it after a fragment, a change and a refusal."""
    failures = []

    def expect(what, holds):
        if not holds:
            failures.append(what)
    page.open(path, "model=tiny&dp=2&tp=2&pp=2&zero=1&global-batch=8")
    # a row for each stage, whose ranks are alike; each number as it stands there is the native one
    ranks = json.loads(native(program, ["show", "memory", *"--device cuda --model tiny --dp 2 --tp 2 --pp 2 --zero 1 "
                                        "--global-batch 8 --json".split()])["out"])["ranks"]
    shown = page.run("return [...document.querySelectorAll('#memory tr')].slice(1).map(r => "
                     "[...r.children].slice(2).map(c => Number(c.textContent.replace(/\\D/g, ''))))")
    expect("bytes by role and in all",
           shown == [[*r["bytes"].values(), r["total"]] for r in ranks if r["rank"] in (0, 4)])
    lengths = page.run("return [...document.querySelectorAll('#memory .bar')].map(b => "
                       "[...b.querySelectorAll('i')].map(i => i.getBoundingClientRect().width))")
    most = max(r["total"] for r in ranks)
    expect("bars as long as their bytes", all(abs(sum(bar) / max(map(sum, lengths)) - r["total"] / most) < 0.01
                                              for bar, r in zip(lengths, (ranks[0], ranks[4]))))
    wire = page.run("return Object.fromEntries([...document.querySelectorAll('#wire .row')].map(r => "
                    "[r.firstChild.textContent, Number(r.title.replace(/\\D/g, ''))]))")
    expect("bytes by axis", wire == {axis: n for axis, n in ranks[0]["wire_bytes"].items() if n})
    expect("a picture of memory and of the pipeline",
           page.run("return !!document.querySelector('#over-step svg') && !!document.querySelector('#pipeline svg')"))
    words = "--device cuda --model tiny --dp 2 --tp 2 --pp 2 --zero 1 --global-batch 8 --json --rank 0".split()
    alive = json.loads(native(program, ["show", "memory", *words])["out"])["timeline"]["alive_bytes"]
    drawn = page.run("return [...document.querySelectorAll('#over-step g title')].map(t => t.textContent)")
    expect("an area for each role of the step", drawn == [role for role, bytes in alive.items() if any(bytes)])
    expect("no refusal", page.run("return document.getElementById('refusal').hidden"))
    expect("controls from the fragment", page.run("return document.getElementById('option-tp').value") == "2")
    page.run("change('tp', '3');" + SETTLED)
    expect("a refusal in the command's words",
           "does not divide heads=4" in page.run("return document.getElementById('refusal').textContent"))
    expect("its remedies as buttons",
           page.run("return [...document.querySelectorAll('#refusal button')].map(b => b.textContent).join()")
           == "tp 1,tp 2,tp 4")
    expect("no word of loading any more", page.run("return document.getElementById('loading').hidden"))
    with open(path, encoding="utf-8") as file:
        expect("a word of loading before anything has run", '<p id="loading">Loading' in file.read())
    expect("the change in the fragment", "tp=3" in page.run("return location.hash"))
    expect("each control has a name",
           page.run("return [...document.querySelectorAll('input,select,button')].every(e => e.labels?.length || "
                    "e.getAttribute('aria-label') || e.textContent)"))
    page.looks(360, 700)
    expect("no sideways scrolling on a narrow screen", page.run("return document.documentElement.scrollWidth") <= 360)
    report("explorer_page", failures)


SETTLED = """await new Promise(f => setTimeout(f, 50));
    while (at('results').getAttribute('aria-busy') === 'true') await new Promise(f => setTimeout(f, 20));"""


def native_memory(program, words):
    """The fullest rank of a layout, and the microbatches of its step."""
    found = json.loads(native(program, ["show", "memory", "--device", "cuda", "--cluster", "dgx-a100", *words.split(),
                                        "--json"])["out"])
    return max(found["ranks"], key=lambda rank: rank["total"]), found["microbatches"]


def check_predictions(page, program, path):
    """What the reader says is held against what the program prints, in the reader's unit."""
    failures = []

    def say(text, then, expected):
        page.run(f"at('predict-text').value = {json.dumps(text)}; at('predict-text').dispatchEvent(new "
                 f"Event('input')); {then};" + SETTLED)
        said = page.run("return at('said').textContent")
        if said != expected:
            failures.append(f"{said!r}, expected {expected!r}")
    words = "--model gpt3-6.7b --dp 8 --global-batch 8"
    page.open(path, "model=gpt3-6.7b&dp=8&global-batch=8&ask=Does+it+fit%3F&answer=memory")
    if page.run("return [...document.querySelectorAll('section')].filter(s => s.offsetParent).map(s => "
                "s.id).join()") != "question":
        failures.append("the answer shows before the reader asks for it")
    total, click = native_memory(program, words)[0]["total"], "document.querySelector('.predict button').click()"
    say("60 GB", click,
        f"You said 60 GB; memory of the fullest rank is {total / 1e9:.4g} GB: {100 - 6e12 / total:.2g} % too little.")
    say("25 GiB", "change('zero', '3')", "You said 25 GiB; memory of the fullest rank is "
        f"{native_memory(program, words + ' --zero 3')[0]['total'] / 2**30:.4g} GiB: "
        f"{100 * (25 * 2**30 / native_memory(program, words + ' --zero 3')[0]['total'] - 1):.2g} % too much.")
    say("", "change('dp', '4')", "")
    page.run("at('predict-what').value = 'wire-dp'")
    wire = int(native_memory(program, "--model gpt3-6.7b --dp 4 --global-batch 8")[0]["wire_bytes"]["dp"])
    say(f"{wire:,}", "change('zero', '0')", f"You said {wire:,}; bytes that a rank sends along dp is {wire:,} bytes: "
        "right.".replace(f"is {wire:,}", "is " + f"{wire:,}".replace(",", " ")))
    say("much", "change('zero', '1')",
        "“much” is no number of bytes that a rank sends along dp; write it as 60 GB, 1.5 MiB or 1668608.")
    page.open(path, "model=tiny&ask=Which+role+grows%3F")
    say("act", click, "You said: “act”. The answer is below: is it so?")
    report("explorer_predictions", failures)


def check_pinned(page, program, path):
    """Two layouts: each difference is that of the program's bytes; the address keeps both."""
    failures = []
    page.open(path, "model=gpt3-6.7b&pp=4&global-batch=64&micro-batch=1&schedule=gpipe")
    page.run("at('pin').click();" + SETTLED + "change('schedule', '1f1b');" + SETTLED)
    words = "--model gpt3-6.7b --pp 4 --global-batch 64 --micro-batch 1 --schedule "
    a, b = (native_memory(program, words + schedule)[0] for schedule in ("gpipe", "1f1b"))
    wanted = {**{role: b["bytes"][role] - a["bytes"][role] for role in a["bytes"]},
              "all of the device": b["total"] - a["total"]}
    read = """return Object.fromEntries([...document.querySelectorAll('#compared tr')].slice(1).map(r => [
        r.cells[0].textContent, r.cells[3].textContent.startsWith('the same') ? 0 :
        Number(r.cells[3].textContent.replace('−', '-').replace(/[^-\\d.]/g, ''))]))"""
    shown = page.run(read)
    for what, difference in wanted.items():
        if shown.get(what, 0) != difference:
            failures.append(f"{what}: {shown.get(what)}, natively {difference}")
    names = page.run("return [...document.querySelectorAll('#compared .name')].map(e => e.textContent).join('; ')")
    if names != "A: schedule gpipe; B: schedule 1f1b":
        failures.append(f"the layouts are called {names}")
    fragment = page.run("return location.hash.slice(1)")
    page.open(path, fragment)
    if page.run(read) != shown:
        failures.append(f"the link {fragment} shows others")
    if page.run("return [at('over-step'), at('pipeline')].map(e => e.querySelectorAll('svg').length).join()") != "2,2":
        failures.append("no pictures of both")
    page.run("at('swap').click();" + SETTLED)
    if page.run(read)["all of the device"] != a["total"] - b["total"]:
        failures.append("swapped, the difference is not the opposite")
    page.run("at('unpin').click();" + SETTLED)
    if not page.run("return at('compared').hidden && !location.hash.includes('pin=') && "
                    "document.querySelectorAll('#over-step svg').length === 1"):
        failures.append("A is still there after it was unpinned")
    report("explorer_two_layouts", failures)


def check_many_microbatches(page, path):
    """The first 8 and the last 4 of 64 microbatches are drawn, each with its number; a button draws all."""
    failures = []
    page.open(path, "model=gpt3-6.7b&pp=4&global-batch=64&micro-batch=1")
    read = """const y = document.querySelector('#pipeline .number')?.getAttribute('y');
        return [[...new Set([...document.querySelectorAll('#pipeline .number')]
                    .filter(t => t.getAttribute('y') === y).map(t => Number(t.textContent)))],
                [...new Set([...document.querySelectorAll('#over-step svg text')].map(t => t.textContent)
                    .filter(t => /^F\\d+$/.test(t)))]]"""
    numbers, forwards = page.run(read)
    if not {*range(8), *range(60, 64)} <= {*numbers} or len(numbers) > 20:
        failures.append(f"stage 0 has numbers of {numbers}")
    if not {f"F{i}" for i in range(8)} <= {*forwards}:
        failures.append(f"memory names {forwards}")
    boxes = "return document.querySelectorAll('#pipeline svg rect > title').length"
    few = page.run(boxes)
    page.run("document.querySelector('#pipeline button').click()")
    if page.run(boxes) != 4 * 2 * 64 or few > 200:
        failures.append(f"{few} boxes, then {page.run(boxes)}")
    page.open(path, "model=gpt3-6.7b&pp=4&global-batch=8&micro-batch=1")
    if page.run(boxes) != 4 * 2 * 8 or page.run("return !!document.querySelector('#pipeline button')"):
        failures.append("8 microbatches are not drawn whole")
    report("explorer_many_microbatches", failures)


def check_controls(page, path):
    """What lessons send the reader to is in sight: nothing to scroll, in a window of 900 pixels."""
    page.looks(1440, 900)
    page.open(path, "model=tiny&experts=4")
    hidden = page.run("""const form = at('controls');
        const below = e => e.getBoundingClientRect().bottom >
            Math.min(innerHeight, form.getBoundingClientRect().bottom);
        return ['model', 'cluster', 'experts', 'attention', 'dropout', 'dp', 'ep']
            .map(n => 'option-' + n).concat('more', 'pin').filter(id => !at(id)?.offsetParent || below(at(id)))""")
    page.open(path, "model=tiny")
    hidden += page.run("return at('controls').scrollHeight > at('controls').clientHeight ? ['the end of the controls'] "
                       ": []")
    report("explorer_controls_in_sight", hidden)


def check_presets(page, path):
    """Every link of a lesson: a question, then a layout that can be; or a puzzle, alone on the page."""
    failures, links = [], []
    for lesson in sorted(glob.glob("lessons/*/README.md")):
        with open(lesson, encoding="utf-8") as file:
            links += [(lesson, preset) for preset in re.findall(r"explorer\.html#([^)]*)\)", file.read())]
    for lesson, preset in links:
        page.open(path, preset)
        asked, refusal, rows, seen = page.run("return [prediction.asked(), at('refusal').textContent, "
                                              "document.querySelectorAll('#memory button.row').length, "
                                              "[...document.querySelectorAll('section, #controls')].filter(e => "
                                              "e.offsetParent).map(e => e.id).join()]")
        if preset.startswith("puzzle="):
            if seen != "puzzle-section":
                failures.append(f"{lesson}: the puzzle is not alone: {seen}")
        elif not asked or refusal or rows < 1:
            failures.append(f"{lesson}: {refusal or 'no question, or no bars'}")
    report("explorer_links_of_lessons", failures if links else ["no lesson has any"], f"{len(links)} of them")


def tables():
    """(what, text of each puzzle, the claim that must fail or None): lesson 07's reference, and each mistake planted in
    it."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, TABLE)
        os.makedirs(os.path.dirname(table))
        for patch in [None, *sorted(glob.glob("tests/mutants/lessons/07-pipelines/table-*.patch"))]:
            shutil.copy(TABLE, table)
            claim = None
            if patch:
                subprocess.run(["patch", "-s", "-p1", "-d", folder, "-i", os.path.abspath(patch)], check=True,
                               stdout=subprocess.DEVNULL)
                with open(patch, encoding="utf-8") as file:
                    claim = re.search(r"^# claim: (\S+)", file.read(), re.M)[1]
            with open(table, encoding="utf-8") as file:
                yield patch or "reference", re.split(r"^puzzle \d+\n", re.sub(r"#.*", "", file.read()),
                                                     flags=re.M)[1:], claim


LLAMA = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
         "num_key_value_heads": 2, "max_position_embeddings": 2048, "vocab_size": 32000, "intermediate_size": 1376,
         "rms_norm_eps": 1e-6, "rope_theta": 500000.0, "tie_word_embeddings": True, "attention_dropout": 0.0,
         "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 512}, "my_note": "\u00e9\n"}
# (what, file, what is typed): kinds of files that --from reads
FILES = [("config.json", json.dumps(LLAMA), ""),
         ("config.json of a BERT", json.dumps({
             "model_type": "bert", "num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "vocab_size":
             30522, "intermediate_size": 512, "max_position_embeddings": 512}, indent=2), ""),
         ("Megatron's arguments", "python pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
          "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 2 --global-batch-size 32 "
          "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --bf16 --lr 1e-4 --vocab-size 50257\n", ""),
         ("torchtitan's TOML", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
          "seq_len = 8192\n[parallelism]\ntensor_parallel_degree = 8\n", "dp=4"),
         ("ds_config.json", json.dumps({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
                                        "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}), ""),
         ("config.json of 5000 labels",
          json.dumps({**LLAMA, "id2label": {str(i): f"\\{i}, " * 30 for i in range(5000)}}), "")]
# (what, file, the keys that can be left out, what is the page's own in the refusal)
REFUSED = [("two keys", json.dumps({**LLAMA, "hidden_act": "relu", "attention_bias": "yes"}),
            ["hidden_act", "attention_bias"], None),
           ("a type that nothing reads", '{"model_type": "mamba"}', [], None),
           ("no JSON", '{"model_type": "llama",\n "hidden_size": 01}', [], r" is not JSON: .* at line 2$"),
           ("YAML", "tokens:\n  sequence_length: 64\n", [],
            r" is no JSON, TOML or script, and the page reads no YAML; ")]


def check_pasted(page, program, path):
    """A pasted file has the keys, options and bytes that --from has natively. A refused one changes nothing, until the
    keys that are refused are left out."""
    failures = []

    def ask(text, *words):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            found = native(program, ["show", *words, "--device", "cuda", "--cluster", "dgx-a100", "--from", file.name,
                                     "--json"])
        return found["out"], without_place(found["err"].replace(file.name, "pasted"))

    def without_place(err):
        return re.sub(r"^(E_[A-Z]+ \w+\.c):\d+ ", r"\1 ", err, flags=re.M)

    def settle():
        page.run("await new Promise(f => setTimeout(f, 50)); while (aside.busy) await new Promise(f => setTimeout(f, "
                 "20));" + SETTLED)

    def paste(text):
        page.run(f"at('paste-text').value = {json.dumps(text)}; at('paste-read').click();")
        settle()
        said, buttons = page.run("return [at('keys').querySelector('pre').textContent, [...document."
                                 "querySelectorAll('#keys button')].map(b => b.textContent)]")
        return without_place(said), buttons

    for what, text, typed in FILES:
        page.open(path, typed)
        said, buttons = paste(text)
        words = ["--" + typed] if typed else []
        table, memory = ask(text, "options", *words)[1], ask(text, "memory", *words, "--rank", "0")[0]
        if said != table or table.count("\n") < 4 or buttons:
            failures.append(f"{what}: {said!r} {buttons}, natively {table!r}")
        if page.run("return shown.memory") != json.loads(memory):
            failures.append(f"{what}: another memory than --from has natively")
    page.open(path, "model=gpt2-124m&tp=2&heads=8")
    for what, text, keys, own in REFUSED:
        said, buttons = paste(text)
        right = re.search(own, said, re.M) if own else said == ask(text, "options")[1]
        if not right or buttons != ["Leave out " + key for key in keys]:
            failures.append(f"{what}: {said!r} {buttons}")
    if page.run("return location.hash") != "#model=gpt2-124m&tp=2&heads=8":
        failures.append("a refused file changes what is set")
    paste(REFUSED[0][1])
    for _ in REFUSED[0][2]:
        page.run("document.querySelector('#keys button').click();")
        settle()
    values = page.run("return state.values")
    if values.get("layers") != "4" or values.get("tp") != "2" or "model" in values or values.get("heads") != "8":
        failures.append(f"keys that are left out: {values}")
    paste(FILES[1][1])
    if "rope-theta" in page.run("return state.values"):
        failures.append("options of the file before stay")
    report("explorer_pasted_files", failures, f"{len(FILES)} kinds")


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
    failures = []
    for puzzle, text, told in AS_TYPED:
        answer = page.run(f"return await puzzles.judgeBesidePar({json.dumps(puzzle)}, {json.dumps(text)})")
        found = [c["text"] for c in answer["claims"] if not c["holds"]]
        if told not in found or "score" in answer:
            failures.append(f"{puzzle}, {text!r}: {found} {answer.get('score')}")
    report("explorer_puzzles_speak_as_the_learner_types", failures)


# A refusal names line and cell as typed, with no stage before an action. What breaks a rule has no score.
AS_TYPED = [
    ("schedule-1", "?\n?\n?", "write a line of actions for each of the 3 stages, as in F0 B0, in place of each ?"),
    ("schedule-1", "F0 B0\n. X0 B0\n. . F0 B0", 'line 2, cell 2: "X0" is no action; write one as F3 or B3'),
    ("schedule-3", "F0 B0 W0\nF0 X0 W0", 'line 2, cell 2: "X0" is no action; write one as F3, B3 or W3'),
    ("schedule-1", "# mine\nF0 . F0\nF0", "F0 (line 2, cell 3) is there a second time, after cell 1; leave one out"),
    ("schedule-1", "F0, B0, F1\nF0 B0", "line 1: B1 is missing; there are 2 microbatches"),
    ("schedule-3", "W0 F0 B0", "W0 (line 1, cell 1) comes before its B, or has none"),
    ("schedule-1", ".", "your table has no action; write one line for each rank, as in F0, B0"),
    ("schedule-1", "F0 B0\n. F0 B0\n. . F0 B0", "3 stages and 4 microbatches (yours: 3 and 1)"),
    ("layout-1", "--dp 8 --micro-batch 8", "it fits 22.0 GiB per rank (yours: 45.7 GiB)"),
]


def main():
    path, program = sys.argv[1:3]
    with browser.Browser() as page:
        page.open(path)
        check_random(page, program, int(sys.argv[3]) if len(sys.argv) > 3 else 300)
        check_time(page, program)
        check_page(page, program, path)
        check_pasted(page, program, path)
        check_controls(page, path)
        check_predictions(page, program, path)
        check_pinned(page, program, path)
        check_many_microbatches(page, path)
        check_presets(page, path)
        check_puzzles(page)
    size = os.path.getsize(path)
    report("explorer_size", [] if size < 1000000 else [f"{size} bytes"], f"{size} bytes")


main()

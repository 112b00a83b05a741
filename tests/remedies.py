#!/usr/bin/env python3
"""Are the remedies that refusals print remedies? Random options, most of which cannot be together, go to `trivium show
types`. Each remedy of a refusal is applied and tried. It must not be the refused value itself, nor bring the same
refusal again, and from every refusal a chain of remedies must lead to a plan that is accepted.

    remedies.py PROGRAM CASES SEED        a line "ok NAME" or "not ok NAME ..." each claim
    MET=FILE                              into it a line of each place that refuses (remedies_table.py --met reads them)
"""
import collections
import json
import os
import random
import re
import subprocess
import sys

PROGRAM, CASES, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
OPTIONS = {o["name"]: [c for c in o["choices"].split("|") if c]
           for o in json.loads(subprocess.run([PROGRAM, "show", "options", "--json"], capture_output=True, text=True,
                                              check=True).stdout)}
# Values that are right alone, and wrong in company. An option with choices has those
VALUES = {"layers": "1 2 4 8", "hidden": "8 30 32", "heads": "1 2 4 5 8", "kv-heads": "1 2 3", "ffn": "30 64",
          "head-dim": "2 3 4", "window": "1 5",
          "experts": "2 4 6", "experts-per-token": "1 2 7", "expert-ffn": "6 30", "expert-layers": "de d ex",
          "shared-experts": "1 2", "router-groups": "2 3", "router-groups-per-token": "2 5", "router-scale": "2",
          "seq": "15 16 64", "vocab": "1 7 256", "global-batch": "1 4 6 8", "micro-batch": "1 2 3", "tp": "2 3 4",
          "pp": "2 3 4 8", "cp": "2 3 4",
          "cp-heads": "2 3", "ep": "2 3", "dp": "2 3 4", "zero": "1 2 3", "chunks": "2 3", "shard": "1 2 3",
          "servers": "1 2 5", "staleness": "1 3",
          "local-steps": "2 3", "steps": "1 5 10", "emb-cache": "10", "loss-scale": "2 1024", "mask-token": "5 300",
          "loss-chunk": "0 16",
          "replicate-every": "1 2", "clip": "0", "save-every": "3", "time-limit": "10", "spike-guard": "2",
          "lr": "0.001 0.00001", "min-lr": "0.0001",
          "warmup": "3", "trace-first": "2 200", "ranks-per-node": "2 3", "memory-limit": "1 1000", "topk": "5",
          "offload-window": "0.001 4", "keep": "2",
          "dropout": "0.1", "capacity": "0 1.25", "moe-group": "3 8", "bucket-mb": "0.01"}
ARCHITECTURES = ["gpt", "llama", "mixtral", "moe", "bert", "t5"]
PATHS = {"save", "offload-path", "trace"}
# Those of show itself, those that a machine or a file answers, and the two that print
LEFT_ALONE = {"rows", "json", "op", "crossings", "check-types", "device", "data", "config", "from", "ignore", "log",
              "threads", "model"}


def draw(rng):
    options = {}
    if rng.random() < 0.5:
        options["arch"] = rng.choice(ARCHITECTURES)
    drawn = [k for k in sorted(OPTIONS) if k not in LEFT_ALONE and (k in VALUES or OPTIONS[k])]
    for name in rng.sample(drawn, rng.randint(1, 5)):
        value = rng.choice(VALUES[name].split() if name in VALUES else OPTIONS[name])
        if ":PATH" not in value:
            options[name] = value.replace(":N", ":2")
    return options


def run(options):
    words = [word for name, value in options.items() for word in ("--" + name, value)]
    done = subprocess.run([PROGRAM, "show", "types", "--threads", "1", *words], capture_output=True, text=True)
    line = re.search(r"^E_\w+ .*", done.stderr, re.M)
    return done.returncode, line.group(0) if line else done.stderr[:200]


def place(message):
    found = re.match(r"E_\w+ (\S+ \w+):", message)
    return found.group(1) if found else message[:60]


def some_value(name):
    return "/nowhere" if name in PATHS else VALUES.get(name, "2").split()[0]


def phrases(what):
    """"use tp 1, or leave sp out" -> its two parts"""
    for part in re.split(r",? or (?=use|leave|give|one of|less|more|[a-z-]+[ =])|, (?=or |use |leave |give )", what):
        yield part.strip().removeprefix("or ").strip()


def of_phrase(part, says, subjects, given):
    """What a phrase of a remedy changes: a list of {option: value, or None to leave it out}."""
    both = re.match(r"(?:use )?([a-z-]+) (\w+) and ([a-z-]+) (\w+)$", part)
    if both and both.group(1) in OPTIONS and both.group(3) in OPTIONS:
        return [{both.group(1): both.group(2), both.group(3): both.group(4)}]
    least = re.search(r"use a number from ([0-9.e+-]+)", part)
    if least:
        return [{re.search(r"--([a-z0-9-]+)", says).group(1): least.group(1)}]
    number = re.search(r"-*([a-z][a-z0-9-]+)[ =]+(-?[0-9][0-9.e+]*(?:(?:, | or )[0-9]+)*)(?![a-z0-9])", part)
    if number and number.group(1) in OPTIONS:
        return [{number.group(1): value} for value in re.findall(r"[0-9][0-9.e+-]*", number.group(2))]
    for name, word in re.findall(r"(?=\b-*([a-z][a-z0-9-]+)[ =]([a-z0-9_-]+))", part):
        if word in [c.split(":")[0] for c in OPTIONS.get(name, [])] + ["on", "off", "auto", "gpt", "llama"] \
                and name in OPTIONS:
            return [{name: word}]
    give = re.search(r"give -*([a-z0-9-]+)(?: and -*([a-z0-9-]+))?", part)
    if give and give.group(1) in OPTIONS:
        return [{name: some_value(name) for name in give.groups() if name in OPTIONS}]
    choice = re.match(r"use one of ([a-z].*)", part)
    refused = re.match(r"--([a-z0-9-]+) ", says.split(": ")[-1].strip())
    if choice and refused:
        return [{refused.group(1): value} for value in choice.group(1).split(", ") if ":" not in value]
    another = re.match(r"another ([a-z-]+)", part)
    if another and OPTIONS.get(another.group(1)):
        return [{another.group(1): value} for value in OPTIONS[another.group(1)]
                if value != given.get(another.group(1))]
    alone = re.match(r"(?:use|give)? ?(?:one of |at most |at least )?([0-9][0-9, ]*)", part)
    if alone and subjects:
        return [{subjects[0]: value} for value in re.findall(r"[0-9]+", alone.group(1))]
    left = re.search(r"leave -*([a-z0-9-]+) out", part)
    if left and left.group(1) in OPTIONS:
        return [{left.group(1): None}]
    if re.search(r"leave (it|them|both) out", part):
        named = [w for w in re.findall(r"[a-z][a-z0-9-]*", says) if w in given and w != "arch"]
        if "it" in part.split() and len(named) > 1:
            named = [w for w in subjects if w in given][:1]
        return [{name: None for name in named}] if named else []
    return []


def remedies(message, given):
    body = re.sub(r"^E_\w+ \S+ \w+: ", "", message)
    if ";" not in body:
        return []
    says, what = body.split(";", 1)
    subjects = [w for w in re.findall(r"\b([a-z][a-z0-9-]*)=", says) if w in OPTIONS]
    subjects = subjects or [w for w in re.findall(r"[a-z][a-z0-9-]*", says) if w in OPTIONS]
    found = []
    for name, own in re.findall(r"(?:given|or) of ([a-z0-9_-]+)(?: \(([a-z0-9, -]+)\))?", what):
        found.append({option: None for option in [name, *own.split(", ")] if option in OPTIONS})
    what = re.sub(r"(or )?leave out what is given of .*", "", what)
    several = re.search(r"leave ([a-z, -]+) and ([a-z-]+) out", what)
    if several:
        found.append({name: None for name in several.group(1).split(", ") + [several.group(2)]})
        what = what.replace(several.group(0), "")
    either = re.search(r"leave ([a-z-]+) out, or ([a-z-]+)$", what)
    if either and either.group(2) in OPTIONS:
        found += [{either.group(1): None}, {either.group(2): None}]
        what = what.replace(either.group(0), "")
    for part in phrases(what):
        found += of_phrase(part, says, subjects, given)
    return found


def apply(options, change):
    return {name: value for name, value in {**options, **change}.items() if value is not None}


faults = {"a refusal is no internal error": {}, "a refusal has a remedy": {}, "a remedy is not the refused value": {},
          "a remedy does not bring its refusal again": {},
          "from each refusal its remedies lead to a plan that is accepted": {}}
internal, without, same_value, same_line, no_way = faults.values()
met = collections.Counter()
lines = {}                                                    # of each place that refuses the first line
tried = 0


def follow(options, limit=500):
    """Breadth first over remedies, until a plan is accepted."""
    global tried
    first, queue, seen = options, [options], {tuple(sorted(options.items()))}
    while queue and limit:
        options, limit = queue.pop(0), limit - 1
        code, message = run(options)
        if code == 0:
            return
        met[place(message)] += 1
        lines.setdefault(place(message), message)
        if code < 0 or message.startswith("E_INTERNAL"):
            internal.setdefault(place(message), (message, options))
            continue
        changes = remedies(message, options)
        if not changes:
            without.setdefault(place(message), (message, options))
            return
        for change in changes[:8]:
            next_options = apply(options, change)
            tried += 1
            if next_options == options:
                same_value.setdefault(place(message), (message, change, options))
                continue
            code, again = run(next_options)
            if code == 0:
                return
            if again == message:
                same_line.setdefault(place(message), (message, change, options))
            key = tuple(sorted(next_options.items()))
            if key not in seen and again != message:
                seen.add(key)
                queue.append(next_options)
    no_way.setdefault(place(run(first)[1]), (run(first)[1], first))


rng = random.Random(SEED)
for _ in range(CASES):
    follow(draw(rng))
print(f"# {CASES} plans, {len(met)} places that refuse, {tried} remedies tried")
if os.environ.get("MET"):
    with open(os.environ["MET"], "w") as file:
        file.writelines(line + "\n" for line in lines.values())
for claim, found in faults.items():
    print("ok" if not found else "not ok", claim.replace(" ", "_"))
    for value in found.values():
        print("#", *value)
sys.exit(any(faults.values()))

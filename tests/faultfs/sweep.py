#!/usr/bin/env python3
"""Each file call of a save or a resume fails, once or from there on, or the process dies at it (faultfs.c).

sweep.py TRIVIUM DEMO FAULTFS.SO WORK EVERY MODE...    MODE is KIND:HOW; of the calls, every EVERY-th is tried

KIND: save, async, resume, noexchange (steps saved once more, as on NFS), two (two ranks with ZeRO), elastic (rank 1 may
go on alone) HOW: kill, eio, enospc, edquot, short, and sticky-eio and so on

What has to hold: code 0 only with the last step saved, to the same bits; another code with one line; nothing that was
saved is lost; a healthy job goes on with what is there, to the same bits, and leaves nothing hidden. Prints a line of a
test for each mode."""
import json, os, re, shutil, subprocess, sys, time

EXE, DEMO, SO, WORK, EVERY = *sys.argv[1:5], int(sys.argv[5])
STEPS = 6
TRAIN = f"""train --device cpu --data {DEMO} --layers 1 --hidden 16 --heads 2 --seq 16 --global-batch 4 --micro-batch 2
    --threads 1 --val-fraction 0 --precision fp64 --lr 1e-3 --min-lr 1e-3 --warmup 0 --log info
    --save-every 2 --keep 1""".split()
KINDS = {  # ranks, launch's words, train's words, the steps of a run that goes before, steps
    "save": (1, [], [], 0, STEPS), "async": (1, [], ["--save-async"], 0, STEPS),
    "resume": (1, [], ["--resume"], 4, STEPS),
    "noexchange": (1, [], ["--resume-first"], 4, 4), "two": (2, [], ["--dp", "2", "--zero", "1"], 0, STEPS),
    "elastic": (2, ["--elastic", "1"], ["--dp", "2"], 0, STEPS)}


def run(home, kind, words, env=None):
    n, launch, more, _, _ = KINDS[kind]
    save = home + "/save"
    more = [w for w in more if not w.startswith("--resume")]
    words = [EXE, "launch", "-n", str(n), "--comm-transport", "direct", *launch, *TRAIN, "--save", save,
             "--metrics", home + "/metrics.jsonl", *more, *words]
    env = dict(os.environ, OMP_NUM_THREADS="1", TMPDIR=WORK, **(env or {}))
    try: p = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired: return None, ""
    return p.returncode, p.stderr


def files(home):
    try:
        step = open(home + "/save/latest").read().strip()
        shards = json.load(open(f"{home}/save/{step}/manifest.json"))["shards"]
        return step, {s["file"]: open(f"{home}/save/{step}/{s['file']}", "rb").read() for s in shards}
    except (OSError, ValueError): return None, {}


def faults(kind, home, code, err, before, want):
    """Errors after the run, and after the healthy one that follows."""
    step, have = files(home)
    last = f"step-{KINDS[kind][4]:08d}"
    if code is None: yield "it hangs"
    if code == 0 and step != last: yield f"SILENT: code 0, and latest is {step}"
    if code == 0 and step == last == f"step-{STEPS:08d}" and kind != "elastic" and have != want:
        yield "other bits, code 0"
    if code not in (0, 1, None): yield f"code {code}"
    if code == 1 and not re.search(r"(^|\] )E_[A-Z]+ ", err, re.M): yield "no line"
    resume = ["--resume", home + "/save"] if step or before else []
    code, err = run(home, kind, ["--steps", str(STEPS), *resume])
    if code != 0: yield f"LOST: a healthy job ends with code {code}: {(err.strip().splitlines() or [''])[-1][:200]}"
    elif kind != "elastic" and files(home)[1] != want: yield "a healthy job comes to other bits"
    hidden = [x for x in os.listdir(home + "/save") if x.startswith(".") and x != ".lock"]
    if hidden: yield f"{hidden} are left"


def sweep(mode):
    kind, how = mode.split(":")
    began, home = time.time(), f"{WORK}/{kind}"
    first = KINDS[kind][3]
    shutil.rmtree(home + ".ref", ignore_errors=True)
    os.mkdir(home + ".ref")
    code, err = run(home + ".ref", kind, ["--steps", str(STEPS)])
    want = files(home + ".ref")[1]
    if code != 0 or not want:
        return print(f"not ok {mode}: without a fault it ends with code {code}: {err}", flush=True)
    env = {"LD_PRELOAD": SO, "FAULT_UNDER": home + "/", "FAULT_HOW": how.replace("sticky-", ""), "FAULT_RANK": "0"}
    if how.startswith("sticky-"): env["FAULT_STICKY"] = "1"
    if kind == "noexchange": env["FAULT_NOEXCHANGE"] = "1"
    words = ["--steps", str(KINDS[kind][4])]
    if kind == "resume": words += ["--resume", home + "/save"]
    if kind == "noexchange": words += ["--resume", home + "/save/step-00000002"]
    if first:
        shutil.rmtree(home + ".first", ignore_errors=True)
        os.mkdir(home + ".first")
        run(home + ".first", kind, ["--steps", str(first), "--keep", "0"])

    def fresh():
        shutil.rmtree(home, ignore_errors=True)
        if first: shutil.copytree(home + ".first", home)
        else: os.mkdir(home)

    fresh()
    log = home + ".log"
    if os.path.exists(log): os.remove(log)
    run(home, kind, words, dict(env, FAULT_LOG=log, FAULT_AT="0"))
    calls = [line.strip() for line in open(log)] if os.path.exists(log) else []
    wrong, n = [], 0
    for at in range(1 + EVERY // 5, len(calls) + 1, EVERY):   # of 20, the fifth: the first write of --save
        fresh()
        before = files(home)[0]
        code, err = run(home, kind, words, dict(env, FAULT_AT=str(at)))
        n += 1
        wrong += [f"{calls[at - 1]}: {f}" for f in faults(kind, home, code, err, before, want)]
    words = f"{mode}: {n} of {len(calls)} calls, {time.time() - began:.0f} s"
    if n == 0: wrong = ["no call was seen"]
    print(f"not ok {words}: {len(wrong)} faults" if wrong else f"ok faultfs_{words}", flush=True)
    for w in wrong[:12]: print("#   " + w, flush=True)
    found["cases"] += n
    for w in wrong: found["lost" if "LOST" in w else "silent" if "SILENT" in w or "other bits, code 0" in w else
                          "half" if "are left" in w or "other bits" in w else "other"] += 1


found, started = dict(cases=0, lost=0, half=0, silent=0, other=0), time.time()
for mode in sys.argv[6:]: sweep(mode)
print("# " + ", ".join(f"{n} {what}" for what, n in found.items()) + f", {time.time() - started:.0f} s", flush=True)

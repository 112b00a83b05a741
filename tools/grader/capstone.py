"""All of a learner's files at once: each is graded, those that hold every claim take their places in the program, and
this trains on 8 ranks. Its losses have to be those of the project's program, in the demonstration and in every layout
that a file is for (trains = ..., in exercise.ini)."""
import collections
import glob
import hashlib
import json
import os
import re
import shlex
import subprocess

from . import ROOT, Trouble, build, causes, exercise, grade, handed_in, launch, program

CONFIG = "configs/demo.ini"
DEMONSTRATION = "--dp 2 --tp 2 --pp 2"       # as trivium demo trains it; all its steps, in fp32
SHORT = ["--steps", "10", "--eval-every", "0"]
ROUNDING, DRIFT = 1e-10, 1e-2                # relative: another order of sums, in fp64; in other types, over many steps
LIMIT_S = 1800
# what need not be done again: losses of the project's program
KEPT = os.path.join(build.build_folder(), "grade", "capstone")

Mine = collections.namedtuple("Mine", "exercise path words")         # words: "" of full marks, else what is wrong


# ---- which files there are, and which hold ----

def places(my, exercises):
    """(exercise, path or None) for each, and sentences on files that are for none."""
    names = collections.Counter(door.file for e in exercises for door in e.doors)
    found = [handed_in.find_door(my, e, lambda door: names[door.file] == 1)[:2] for e in exercises]
    taken, said = {path for _, path in found}, []
    files = [p for pattern in ("*", "[0-9][0-9]*/*") for p in sorted(glob.glob(os.path.join(my, pattern)))
             if p.endswith((".c", ".cu", ".py")) or
             os.path.basename(p) in names]
    for path in (p for p in files if p not in taken):
        of = [e.number for e in exercises for door in e.doors if door.file == os.path.basename(path)]
        why = "no exercise has a file of this name" if not of else "another file of its exercise is graded" \
              if len(of) == 1 else \
              f"lessons {' '.join(of)} have a file of this name, so put it into {my}/{of[0]} or another"
        said.append(f"{path} is left out: {why}")
    return found, said


def what_is_wrong(result):
    """"" of full marks; else in one line."""
    if result.full():
        return ""
    if result.status != "graded":
        return f"{result.status}: {result.message.splitlines()[0]}"
    first = grade.causes_of(result)[0]
    return f"{result.score()} of 100, {first.claims[0]}: {first.name}, {grade.short_of(causes.telling(first.lines))}"


def stamp(e, base, path):
    """A grade holds for these: the file, its tests, and what is linked to it."""
    rest = os.stat(os.path.join(ROOT, getattr(base, "rest", e.own_tests()[0] if e.own_tests() else e.folder)))
    with open(path, "rb") as f, open(os.path.join(ROOT, e.folder, "exercise.ini"), "rb") as ini:
        return hashlib.sha256(f.read() + ini.read() + f"{rest.st_size} {rest.st_mtime_ns}".encode()).hexdigest()


def graded(e, path):
    """Grade the file, and say what is wrong. One with full marks is graded again when it, or what is linked to it, has
    changed."""
    base = grade.base_of(e)
    place = launch.Plain(os.path.join(ROOT, build.build_folder(), "grade", f"{e.number}-{e.name}", "mine"))
    os.makedirs(place.host_work, exist_ok=True)
    full, key = os.path.join(place.host_work, "full"), stamp(e, base, path) if os.path.isfile(path) else ""
    if key and os.path.isfile(full):
        with open(full) as f:
            if f.read() == key:
                return ""
    words = what_is_wrong(grade.grade_file(base, place, path))
    if not words:
        with open(full, "w") as f:
            f.write(key)
    return words


def badge(number, here):
    """One lesson: a star for each exercise with full marks."""
    full = [m.exercise.name for m in here if m.path and not m.words]
    wrong = [m.exercise.name for m in here if m.path and m.words]
    missing = [m.exercise.name for m in here if not m.path]
    said = [" ".join(full), *([f"refused: {' '.join(wrong)}"] if wrong else []),
            *([f"not there: {' '.join(missing)}"] if missing else [])]
    return f"  {number}  {'*' * len(full) + '.' * (len(here) - len(full)):<7} {len(full)} of {len(here)}   " \
           f"{'; '.join(filter(None, said))}"


def grade_all(my, exercises):
    found, said = places(my, exercises)
    if not any(path for _, path in found):
        raise Trouble("\n".join([f"MY={my}: there is no file of an exercise. Files are {my}/03/scale.c, or "
                                 f"{my}/scale.c", *said]))
    print(f"{my}: full marks by lesson\n", flush=True)
    mine = []
    for number in sorted({e.number for e in exercises}):
        here = [Mine(e, path, graded(e, path) if path else "") for e, path in found if e.number == number]
        print(badge(number, here), flush=True)
        mine += [m for m in here if m.path]
    wrong = [f"refused: {m.path}, {m.exercise.label}: {m.words}" for m in mine if m.words]
    print("\n".join(["", *wrong, *said, *([""] if wrong or said else [])]), end="", flush=True)
    return [m for m in mine if not m.words], not wrong


# ---- training ----

class Ended(Exception):
    """A run that did not come to its end: its last words."""


def words_of(layout):
    """The options of a short run; in fp64 unless the layout has a precision of its own."""
    return [*shlex.split(layout), *([] if "--precision" in layout else ["--precision", "fp64"]), *SHORT]


def train(trivium, words, metrics):
    """The losses of a run on 8 ranks."""
    command = [trivium, "launch", "-n", "8", "train", "--config", CONFIG, *words, "--log", "quiet",
               "--metrics", metrics]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace",
                              timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Ended([f"it did not end within {LIMIT_S} s"]) from None
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        raise Ended([line for line in lines if re.search(r"\bE_[A-Z]+ ", line)][:3] or lines[-3:])
    with open(metrics, encoding="utf-8") as f:
        return [row["loss"] for row in map(json.loads, f) if "step" in row and "loss" in row]


def reference(words):
    """Losses of the project's program, kept until it is built again."""
    trivium = os.path.join(build.build_folder(), "trivium")
    build.bring([], [trivium])
    metrics = os.path.join(KEPT, hashlib.sha256(" ".join(words).encode()).hexdigest()[:16] + ".jsonl")
    if os.path.isfile(metrics) and os.path.getmtime(metrics) >= os.path.getmtime(trivium):
        with open(metrics, encoding="utf-8") as f:
            return json.load(f)
    os.makedirs(KEPT, exist_ok=True)
    try:
        losses = train(trivium, words, metrics + ".run")
    except Ended as ended:
        raise Trouble("\n".join([f"the project's program does not train with {' '.join(words)}:",
                                 *ended.args[0]])) from None
    with open(metrics, "w", encoding="utf-8") as f:
        json.dump(losses, f)
    return losses


def off(mine, right):
    """Relative differences; infinite where a loss is missing or no number."""
    each = [abs(a - b) / abs(b) for a, b in zip(mine, right)] + [float("inf")] * abs(len(mine) - len(right))
    return [d if d == d else float("inf") for d in each]


def losses_of(words):
    """(losses with the learner's files, losses of the project, what went wrong)"""
    right = reference(words)
    try:
        return train(program.TRIVIUM, words, os.path.join(program.FOLDER, "metrics.jsonl")), right, []
    except Ended as ended:
        return [], right, ended.args[0]


def limit_of(words):
    return ROUNDING if "fp64" in words else DRIFT


def is_same(mine, right, words):
    return bool(right) and max(off(mine, right)) <= limit_of(words)


def to_blame(files, words):
    """Those that change the losses when they are alone in the program."""
    found = []
    for m in files:
        program.link([program.take(m.exercise, m.path)])
        mine, right, _ = losses_of(words)
        found += [] if is_same(mine, right, words) else [m]
    return found


def other_losses(files, words, mine, right, ended):
    """Say how a run differs from the project's, and which of the files does it."""
    if ended:
        print("\n".join(["  it does not come to its end:", *("    " + line[:300] for line in ended)]))
    else:
        step = next(i for i, d in enumerate(off(mine, right)) if d > limit_of(words))
        here = f"{mine[step]:.12g}" if step < len(mine) else "missing"
        print(f"  the losses differ, first at step {step + 1}: {here}, and {right[step]:.12g} with the project's files")
    alone = to_blame(files, words)
    names = ", ".join(f"{m.path} ({m.exercise.label})" for m in alone)
    print(f"  it is {names}: alone in the program {'it does' if len(alone) == 1 else 'each does'} the same. Its claims "
          "hold, "
          "so look at what a run has and its tests have not: sizes, ranks, more steps" if alone else
          f"  none does it alone; these run here: {', '.join(m.path for m in files)}", flush=True)


def demonstrate(files, steps):
    """The demonstration, whole or its first steps; True: the project's losses."""
    words = [*shlex.split(DEMONSTRATION), *(["--steps", str(steps), "--eval-every", "0"] if steps else [])]
    print(f"$ {program.TRIVIUM} launch -n 8 train --config {CONFIG} {' '.join(words)}", flush=True)
    mine, right, ended = losses_of(words)
    if not is_same(mine, right, words):
        other_losses(files, words, mine, right, ended)
        return False
    print(f"{'step':>8}  {'with your files':<18}  {'with none':<18}  relative difference")
    for i, d in enumerate(off(mine, right)):
        if i == 0 or (i + 1) % 50 == 0 or i + 1 == len(mine):
            print(f"{i + 1:8d}  {mine[i]:<18.12f}  {right[i]:<18.12f}  {d:.1e}", flush=True)
    return True


def compare(layout, files):
    """Some steps in one layout; True: the project's losses."""
    words, short = words_of(layout), " ".join(m.exercise.label for m in files)
    print(f"$ {program.TRIVIUM} launch -n 8 train --config {CONFIG} {' '.join(words)}", flush=True)
    mine, right, ended = losses_of(words)
    if is_same(mine, right, words):
        print(f"  the same {len(right)} losses, to {max(off(mine, right)):.0e}: {short}", flush=True)
        return True
    other_losses(files, words, mine, right, ended)
    return False


def all_of(my, steps=0):
    """make mine MY=my. steps: of the demonstration; 0: all. True: no file was refused, and the losses are the
    project's."""
    if not os.path.isdir(my):
        raise Trouble(f"MY={my} is no folder; it is the one with your files, {my}/03/scale.c or {my}/scale.c")
    right, clean = grade_all(my, exercise.exercises())
    inside = [m for m in right if m.exercise.replaces.endswith(".c")]
    trained = [m for m in inside if m.exercise.trains]
    if not trained:
        print("None of these files is one that a training run calls; lesson 01, gelu, is the first that is.")
        return clean
    program.link([program.take(m.exercise, m.path) for m in inside])
    idle = [m.exercise.label for m in inside if not m.exercise.trains]
    print(f"{program.TRIVIUM}: the program with {len(inside)} of your files" +
          (f"; of these no training run calls {', '.join(idle)}" if idle else ""), flush=True)
    layouts = list(dict.fromkeys(m.exercise.trains for m in trained))
    print(flush=True)
    same = demonstrate(trained, steps) \
           and all([compare(layout, [m for m in trained if m.exercise.trains == layout]) for layout in layouts])
    if same:
        print(f"\n{len(trained)} of your files, the same losses.")
    return clean and same

"""An examination by a seed, and the bank that it is drawn from: a paper, its key, and folders that are graded as
exercises are.

    questions     of "Check yourself" in the lessons, with their folded answers
    numbers       of the lessons' worksheet.ini, drawn again; the program computes the key
    claims        planted mistakes (tests/mutants/lessons): which claim fails?
    hunts         published bugs (tests/museum) that no lesson shows; the key is what the museum measured
    puzzle        a layout for a cluster that is drawn; the key is the planner's best

The folders of hunts and puzzle are exercises of lessons 17 and 16: copy them into the lesson, and tools/grade,
grade-all and handout take them as any other (git ignores lessons/*/unseen*)."""
import glob
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import tempfile

from . import ROOT, Trouble, build, exercise, mutant, plant, which, worksheet

HUNTS, PUZZLES = "17-debugging-a-run", "16-choosing-a-layout"
LAYOUT = re.compile(r"(--(dp|tp|pp|cp|zero) \d|--micro-batch 2|--sp| )+")        # what hunts.h can say
# how many, and points of each
PARTS = (("questions", 8, 3), ("numbers", 4, 4), ("claims", 4, 5), ("hunts", 2, 12), ("puzzle", 1, 16))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def spread(dice, found, n, lesson_of):
    """n of them, of as many different lessons as there are."""
    found = dice.sample(found, len(found))
    seen, first, rest = set(), [], []
    for one in found:
        (rest if lesson_of(one) in seen else first).append(one)
        seen.add(lesson_of(one))
    return sorted((first + rest)[:n], key=lesson_of)


# ---- questions of the lessons ----

def questions(lesson):
    """(lesson, its title, question, answer) of each "Check yourself"."""
    text = read(f"lessons/{lesson}/README.md")
    found = []
    for section in re.split(r"^(?=#{2,3} )", text, flags=re.M):
        if section.startswith("### Check yourself"):
            pairs = re.findall(r"^\*\*\d+\.\*\*\s+(.*?)\n\n<details><summary>Answers?</summary>\n\n(.*?)\n\n</details>",
                               section, re.S | re.M)
            if len(pairs) != section.count("<details>"):
                raise Trouble(f"lessons/{lesson}/README.md: \"{section.splitlines()[0]}\" has a question that is not "
                              "\"**1.** ...\" with a folded answer")
            found += [(lesson, question, answer) for question, answer in pairs]
    return found


# A question that cannot be answered without what stands next to it in its lesson.
NEEDS_LESSON = re.compile(r"the (worked problem|opening|procedure|figure|table|example)\b|same (card|job)", re.I)


def needs_lesson(question):
    return bool(NEEDS_LESSON.search(" ".join(question.split())))


# ---- numbers ----

def numbers(lesson, seed):
    """(lesson, name, the question with its numbers) of a lesson's worksheet."""
    return [(lesson, name, q) for name, q in worksheet.drawn(lesson, f"exam {seed}").items()] \
           if worksheet.there(lesson) else []


def decimal(value):
    return f"{value:,.0f}".replace(",", " ") if value >= 10000 else f"{value:.6g}"


def known(q):
    return f"{decimal(worksheet.known(q))} {q['unit']}"


# ---- hunts ----

def shown():
    """Numbers of the museum's bugs that learners have met: those of hunts, and what lesson 17 and its exercises
    name."""
    pages = [f"lessons/{HUNTS}/README.md",
             *(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, f"lessons/{HUNTS}/*/exercise.ini"))
               if "/unseen" not in p)]
    return set(re.findall(r"(?:tests/museum/|museum )(\d\d)\b", "\n".join(map(read, pages))))


def hunts():
    """Rows of the museum that can be hunted: a bug in one file of C, in a layout of hunts.h, which the oracle sees in
    fp64, and which spoils norm, gradients, weights and losses: all claims have to fail at the start."""
    known, found = shown(), []
    for row in json.loads(read("docs/museum.json")):
        patch = next(iter(glob.glob(os.path.join(ROOT, f"tests/museum/{row['id']}-*.patch"))), None)
        if patch is None or "layout" not in row:
            continue
        files = plant.touched(os.path.relpath(patch, ROOT))
        if (row["id"] not in known and row["oracle"] is True and not row["model"] and LAYOUT.fullmatch(row["layout"])
                and row["ranks"] in (2, 4) and row["norm_1"] > 1e-6 and row["loss_10"] > 1e-9
                and len(files) == 1 and next(iter(files)).endswith(".c")):
            found.append({**row, "patch": os.path.relpath(patch, ROOT), "file": next(iter(files))})
    return found


def kind_of(layout):
    return next((kind for kind in ("zero", "pp", "tp") if f"--{kind}" in layout), "dp")


def layouts(row):
    """LAYOUTS of a hunt: the bug's own layout, and those of the lesson's hunt of that kind."""
    sizes = dict(re.findall(r"--(dp|tp|pp|cp|zero) (\d)", row["layout"]))
    own = [f".{axis} = {n}" for axis, n in sizes.items()] + [".sp = 1"] * ("--sp" in row["layout"]) \
          + [".micro = 2"] * ("--micro-batch" in row["layout"])
    kind = kind_of(row["layout"])
    theirs = re.search(r"#define LAYOUTS \\\n(.*?)\n#include", read(f"lessons/{HUNTS}/hunt-{kind}/test_hunt_{kind}.c"),
                       re.S)[1]
    return "{" + ", ".join(own) + "}, \\\n" + theirs


HUNT_INI = """[exercise]
title    = Unseen hunt {n}
file     = {file}
replaces = {replaces}
tests    = test_unseen_{n}.c
ranks    = 2 4
limit    = 60

[claims]
test_hunt_weights = 2 * weights after three steps are the serial run's | only the first alarm counts: weights come last
test_hunt_gradients = 2 * gradients of three steps are the serial run's | record a run, and hold it against a reference
test_hunt_norm = 2 * their norm is the serial run's | is it wrong because of the gradients, or by itself?
test_hunt_loss = 2 * losses of three steps are the serial run's | which step's loss is the first that is wrong?
"""


def write_hunt(row, n, folder):
    os.makedirs(folder)
    scratch = os.path.join(build.build_folder(), "grade", f"exam.{os.getpid()}")
    try:
        plant.plant(row["patch"], scratch)
        shutil.copyfile(os.path.join(ROOT, scratch, row["file"]), os.path.join(folder, os.path.basename(row["file"])))
    finally:
        shutil.rmtree(os.path.join(ROOT, scratch), ignore_errors=True)
    write(os.path.join(folder, "exercise.ini"),
          HUNT_INI.format(n=n, file=os.path.basename(row["file"]), replaces=row["file"]))
    write(os.path.join(folder, f"test_unseen_{n}.c"),
          f"/* ranks: 2 4  device: cpu */\n#define LAYOUTS \\\n    {layouts(row)}\n"
          f"#include \"lessons/{HUNTS}/hunts.h\"\n\nTESTS(HUNT_TESTS)\n")


# ---- a puzzle ----

CLUSTER = """# A cluster of an examination. All else is as in {base}.
{rest}
memory-gib = {memory}
node-ranks = {node}
node-gbs = {inside}
net-gbs = {between}
"""
PUZZLE_INI = """[exercise]
title     = An unseen layout
file      = layouts.txt
reference = reference.txt
tests     = test_unseen_puzzle.c
ranks     = 1
kind      = table
limit     = 120

[claims]
test_unseen_fits_and_is_fair = the layout fits, and takes at most 1.25 times as long as the planner's best | \
which axis sends most over the slowest link?
test_unseen_is_as_good_as_the_planners = the layout is within the model's error of the planner's best | \
name the phase in which it loses
"""
PUZZLE_TEST = """/* ranks: 1  device: cpu */
#define THE_PUZZLES {{"--model {model} --global-batch {batch}", "lessons/{lesson}/unseen/cluster.ini", {ranks}}}
#include "lessons/{lesson}/puzzles.h"

TEST(test_unseen_fits_and_is_fair) {{ fair(1); }}
TEST(test_unseen_is_as_good_as_the_planners) {{ good(1); }}

TESTS(unit_test(test_unseen_fits_and_is_fair), unit_test(test_unseen_is_as_good_as_the_planners))
"""
SHEET = """\
# One layout: replace the ? by options, of dp, tp, pp, cp, sp, zero, recompute, micro-batch, schedule, chunks, pp-split.
# {ask}
1: ?
"""
BASE = f"lessons/{PUZZLES}/puzzle/pcie.ini"


def draw_puzzle(dice):
    """Numbers of a cluster and a model. What does not fit, or is solved by data parallelism alone, is no puzzle."""
    p = {"model": dice.choice(["gpt3-1.3b", "gpt3-6.7b", "llama2-7b", "llama2-13b"]), "ranks": dice.choice([8, 16, 32]),
         "batch": dice.choice([64, 128, 256]),
         "memory": dice.choice([24, 32, 40, 48]), "node": dice.choice([2, 4, 8]), "inside": dice.choice([12, 50, 200]),
         "between": dice.choice([1.5, 2.5, 6])}
    p["rest"] = "\n".join(re.findall(r"^(?!memory-gib|node-ranks|node-gbs|net-gbs|name|#).+$", read(BASE), re.M))
    p["cluster"] = CLUSTER.format(base=BASE, **p).replace("\n\n", "\n")
    p["ask"] = (f"{p['model']}, global batch {p['batch']}, bf16, on {p['ranks']} ranks: nodes of {p['node']}, "
                f"{p['memory']} GiB a rank (2 are reserved), "
                f"{p['inside']} GB/s inside a node and {p['between']} GB/s beyond.")
    return p


def planners(p, folder):
    """The planner's layouts, the fastest first; none if nothing fits."""
    path = os.path.join(folder, "cluster.ini")
    write(path, p["cluster"])
    command = f"plan --gpus {p['ranks']} --model {p['model']} --global-batch {p['batch']} --precision bf16 --device " \
              "cuda --json --cluster"
    done = subprocess.run([program(), *shlex.split(command), path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)["search"]["best"] if done.returncode == 0 else []
    return sorted((b for b in found if b["fits"]), key=lambda b: b["step_s"])


def write_puzzle(dice, folder):
    """(puzzle, the planner's best)"""
    os.makedirs(folder)
    for _ in range(100):
        p = draw_puzzle(dice)
        best = planners(p, folder)
        if best and (" --tp 1 --pp 1" not in best[0]["options"] or "--zero 3" in best[0]["options"]
                     or "recompute" in best[0]["options"]):
            break
    else:
        raise Trouble("no puzzle fits in a hundred draws; is the planner right? Try another SEED")
    write(os.path.join(folder, "exercise.ini"), PUZZLE_INI)
    write(os.path.join(folder, "test_unseen_puzzle.c"), PUZZLE_TEST.format(lesson=PUZZLES, **p))
    write(os.path.join(folder, "layouts.txt"), SHEET.format(**p))
    write(os.path.join(folder, "reference.txt"), f"1: {best[0]['options']}\n")
    return p, best[0]


# ---- paper and key ----

def program():
    return os.path.join(ROOT, build.build_folder(), "trivium")


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def claims_of(lesson):
    return [(lesson, path, e) for path, e in which.candidates(lesson)]


def fenced(text, kind=""):
    return f"```{kind}\n{text.rstrip()}\n```"


class Pair:
    """A part of the paper and of its key, number by number."""

    def __init__(self):
        self.paper, self.key, self.n, self.points = [], [], 0, 0

    def head(self, title, words, n, points):
        self.points += n * points
        self.paper += [f"## {title} ({n} times {points} points)", words]
        self.key += [f"## {title}"]

    def add(self, ask, answer):
        self.n += 1
        self.paper.append(f"**{self.n}.** {ask}")
        self.key.append(f"**{self.n}.** {answer}")


def number_of(lesson):
    return lesson.split("-")[0]


def add_questions(pair, dice, lessons, n, points):
    asked = [q for name in lessons for q in questions(name) if not needs_lesson(q[1])]
    chosen = spread(dice, asked, n, lambda q: q[0])
    if chosen:
        pair.head("Questions", "In one to three sentences, or a short calculation.", len(chosen), points)
    for lesson, ask, answer in chosen:
        pair.add(ask, f"(lesson {number_of(lesson)}) {answer}")


def add_numbers(pair, dice, lessons, seed, n, points):
    chosen = spread(dice, [q for name in lessons for q in numbers(name, seed)], n, lambda q: q[0])
    if chosen:
        pair.head("Numbers", "Write the formula, then the number.", len(chosen), points)
    for lesson, name, q in chosen:
        pair.add(f"{q['ask']} (In {q['unit']}.)", f"{known(q)}, within {q['within']} % (lesson {number_of(lesson)}, "
                 f"{name}: `trivium {q['command']}`)")


def add_claims(pair, dice, lessons, n, points, built):
    chosen = spread(dice, [c for name in lessons for c in claims_of(name)], n, lambda c: c[0])
    if chosen:
        pair.head("Which claim fails?", "Each patch plants one mistake. Name a claim that fails with it, and say why "
                  "in one sentence. Any claim that fails is right.",
                  len(chosen), points)
    for lesson, path, e in chosen:
        offered = "\n".join(f"* {c.text}" for c in e.claims)
        fails = which.broken(path, e, built)
        failing = "; ".join(c.text for c in e.claims if c.test in fails)
        pair.add(f"{e.title} (lesson {number_of(lesson)}):\n\n{fenced(which.bare(path), 'diff')}\n\n{offered}",
                 f"{failing}. {mutant.head(path, 'what')} (`{os.path.relpath(path, ROOT)}`)")


def add_hunts(pair, dice, folder, n, points):
    found = dice.sample(hunts(), len(hunts()))
    chosen, files = [], set()
    for row in found:  # of two files: what is handed in is told apart by its name
        if row["file"] not in files and len(chosen) < n:
            chosen.append(row)
            files.add(row["file"])
    pair.head("Hunts", "Half of the points are for the four lines of `notes-N.txt` (`make notes OUT=my/notes-1.txt`), "
              "written before the repair, from runs that `oracle record ... --depth ops` records; "
              f"half for the repair. Both are exercises of lesson {number_of(HUNTS)}.", len(chosen), points)
    for i, row in enumerate(chosen, 1):
        write_hunt(row, i, os.path.join(folder, "17", f"unseen-{i}"))
        name = os.path.basename(row["file"])
        layout = row["layout"].strip()
        words = f"LESSON=17 EXERCISE=unseen-{i} FILE=my/{name}"
        pair.add(f"`{row['file']}` has a bug, which shows with `{layout}`.\n\n"
                 + fenced(f"make starter {words}\nmake mine {words}\nmake grade {words}"),
                 f"{plant_head(row['patch'], 'here')}.\n{plant_head(row['patch'], 'what')}\n\n"
                 f"The first alarm, with `--depth ops`: {row['oracle_says']}\n\nWithout that option another "
                 "tensor comes first, of those that are recorded then: it is right, too.\n\n"
                 f"Published as {plant_head(row['patch'], 'source')} "
                 f"(`{row['patch']}`).\n\n"
                 f"{fenced(read(row['patch']).split(chr(10) * 2, 1)[1], 'diff')}\n\nGrade the notes as "
                 "docs/teaching.md has it (\"Hunt notes\").")


def plant_head(patch, word):
    """A word of the patch's head, with the lines that continue it."""
    return " ".join(re.search(rf"^{word}: (.*(?:\n {{4}}.*)*)", read(patch), re.M)[1].split())


def add_puzzle(pair, dice, folder, n, points):
    pair.head("A layout", f"An exercise of lesson {number_of(PUZZLES)}: the first claim is worth half of the points. "
              "Add two sentences: "
              "what each axis sends over which link, and what your layout loses most by.", n, points)
    p, best = write_puzzle(dice, os.path.join(folder, "16", "unseen"))
    phases = sorted(best["phases_s"].items(), key=lambda f: -f[1])
    words = "LESSON=16 EXERCISE=unseen FILE=my/layouts.txt"
    pair.add(f"{p['ask']}\n\n" + fenced(f"make starter {words}\nmake grade {words}"),
             f"The planner's best: `{best['options']}`, {best['step_s']:.3f} s a step. Most goes into "
             + ", ".join(f"{name} {s:.3f} s" for name, s in phases[:4])
             + ". Right is what takes at most 3.3 % longer, fair what takes at most 25 % longer.")


def make(seed, lessons, out, built=False):
    """The folder of an examination; points of its paper."""
    if os.path.lexists(out):
        raise Trouble(f"OUT={out} is there already; choose another")
    parent, name = os.path.split(out)
    os.makedirs(parent, exist_ok=True)
    made = tempfile.mkdtemp(prefix=f".{name}.", dir=parent)  # what is half made is never seen under OUT
    try:
        pair = write_all(seed, lessons, made, built)
        os.chmod(made, os.stat(os.path.join(made, "unseen")).st_mode)
        os.rename(made, out)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return pair


def write_all(seed, lessons, out, built):
    """All files of it, in an empty folder."""
    dice = {name: random.Random(f"exam {seed} {name}") for name, _, _ in PARTS}
    sizes = {name: (n, points) for name, n, points in PARTS}
    pair, folder = Pair(), os.path.join(out, "unseen")
    os.makedirs(folder)
    add_questions(pair, dice["questions"], lessons, *sizes["questions"])
    add_numbers(pair, dice["numbers"], lessons, seed, *sizes["numbers"])
    add_claims(pair, dice["claims"], lessons, *sizes["claims"], built)
    if HUNTS in lessons:
        add_hunts(pair, dice["hunts"], folder, *sizes["hunts"])
    if PUZZLES in lessons:
        add_puzzle(pair, dice["puzzle"], folder, *sizes["puzzle"])
    of = f"seed {seed}, lessons {' '.join(map(number_of, lessons))}"
    write(os.path.join(out, "paper.md"),
          "\n\n".join([f"# Examination ({of})", f"{pair.points} points.", *pair.paper]) + "\n")
    write(os.path.join(out, "key.md"), "\n\n".join([f"# Key ({of})", "For the examiner.", *pair.key]) + "\n")
    return pair


def bank(lessons):
    """All that an examination is drawn from, with keys; how many of each."""
    lines, n = ["# Question bank", "For the examiner: questions with their keys, lesson by lesson. `make exam "
                "SEED=2026 OUT=dir` draws from it."], [0, 0, 0]
    for lesson in lessons:
        asked, sums, planted = questions(lesson), numbers(lesson, "bank"), claims_of(lesson)
        n = [a + len(b) for a, b in zip(n, (asked, sums, planted))]
        lines += [f"## {lesson}",
                  *(f"**{i}.** {'*(With the lesson at hand.)* ' * needs_lesson(ask)}{ask}\n\n*Key.* {answer}"
                    for i, (_, ask, answer) in enumerate(asked, 1)),
                  *(f"**{name}.** {q['ask']}\n\n*Key.* {known(q)}: `trivium {q['command']}`"
                    for _, name, q in sums)]
        if planted:
            lines.append("\n".join(["| planted mistake | what it does | the claim that fails |", "|---|---|---|", *(
                f"| `{os.path.basename(path)[:-6]}` | {mutant.head(path, 'what')} | "
                f"{next(c.text for c in e.claims if c.test == mutant.head(path, 'claim'))} |"
                for _, path, e in planted)]))
    unseen = hunts()
    lines += ["## Hunts", "\n".join(["| museum | file | layout | first alarm |", "|---|---|---|---|",
                                    *(f"| {row['id']} | `{row['file']}` | `{row['layout'].strip()}` | "
                                      f"{row['oracle_says'].split(';')[0]} |" for row in unseen)])]
    return "\n\n".join(lines) + "\n", [*n, len(unseen)]

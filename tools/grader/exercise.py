"""Lessons and exercises: where they are, and what exercise.ini says."""
import configparser
import glob
import os
import re

from . import ROOT, Trouble, handed_in, plant

KINDS = ("c", "cu", "table", "python")
DOOR = {"file", "reference", "tests", "hidden", "limit"}     # words of [python]; the others are those of [exercise]
KEYS = {"title", "file", "replaces", "reference", "tests", "ranks", "kind", "limit", "figure", "starter_patch",
        "secret", "hidden", "withheld",
        "trains", "guarded"}


class Claim:
    """hidden: of a test that learners do not have; a report says its name and nothing else."""

    def __init__(self, test, text, hint, weight, hidden=False):
        self.test, self.text, self.hint, self.weight, self.hidden = test, text, hint, weight, hidden


class Exercise:
    """Paths are relative to the project's root."""

    def __init__(self, lesson, folder, claims, words):
        self.lesson, self.folder, self.claims = lesson, folder, claims          # "03-data-parallelism"
        self.number, self.name = lesson.split("-")[0], os.path.basename(folder)
        self.label = f"{self.number} {self.name}"
        self.title, self.file, self.kind, self.limit = words["title"], words["file"], words["kind"], words["limit"]
        self.replaces, self.tests, self.ranks = words["replaces"], words["tests"], words["ranks"]
        self.figure = words["figure"]  # what a leaderboard sorts by, the smallest first; "": there is none
        self.starter_patch, self.secret = words["starter_patch"], words["secret"]
        self.hidden, self.for_staff = words["hidden"], False
        # functions of the program that a submission may not call: they are the answer
        self.withheld = words["withheld"]
        self.guarded = words["guarded"]  # (file, macro): what the submission stands in for, a part of a file
        self.trains = words["trains"]  # options of train on 8 ranks with which the file runs; "": no training calls it
        self.reference = self.replaces or os.path.join(folder, words["reference"])
        self.further = words["further"]  # tests that no claim names; together they are one claim more, of everybody
        self.doors = [self]  # itself, or itself in C and in Python: one of them is handed in

    def with_hidden(self, root=ROOT):
        """The exercise as graded with the hidden tests: each of them is a claim, too."""
        for door in self.doors:
            door.add_hidden(root)
        if len({tuple(c.test for c in door.claims) for door in self.doors}) > 1:
            raise Trouble(f"{self.folder}/exercise.ini: the hidden tests of its two doors have not the same names")
        return self

    def add_hidden(self, root):
        self.for_staff = True
        for path in self.hidden:
            tests = tests_in(path, root)
            if not tests:
                raise Trouble(f"{path} has no unit_test(...)")
            self.claims = self.claims + [Claim(test, "hidden: " + test, "", 1, hidden=True) for test in sorted(tests)]
        self.tests = self.tests + self.hidden

    def door_of(self, file):
        """Itself, or the other door, by how the file's name ends."""
        ending = os.path.splitext(handed_in.plain(os.path.basename(file)))[1]
        return next((d for d in self.doors if os.path.splitext(d.file)[1] == ending), self.doors[0])

    @property
    def starter(self):
        """The file that learners begin with: of the folder, or what is replaced with a published bug planted in it."""
        if not self.starter_patch:
            return os.path.join(self.folder, self.file)
        made = os.path.join(os.environ.get("BUILD", "build"), "grade", "starters",
                            f"{self.number}-{self.name}", self.file)
        return plant.one_file(self.starter_patch, self.replaces, made)

    def own_tests(self):
        return [t for t in self.tests if t.startswith(self.folder + "/")]


# ---- exercise.ini ----

def tests_in(path, root):
    """Names of the tests of a file, and of the lesson's headers that it includes (hunts.h)."""
    with open(os.path.join(root, path), encoding="utf-8") as f:
        text = f.read()
    if path.endswith(".py"):
        return set(re.findall(r"^def (test_\w+)\(", text, re.M))
    headers = [h for h in re.findall(r'^#include "(lessons/[^"]+\.h)"', text, re.M)
               if os.path.isfile(os.path.join(root, h))]
    return set(re.findall(r"\bunit_test\(\s*(\w+)\)", text)).union(*(tests_in(h, root) for h in headers))


def positive(text, what, ini):
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) == 0:
        raise Trouble(f"{ini}: {what} is \"{text}\"; it has to be a whole number above 0")
    return int(text)


def read_claim(test, value, ini):
    """[3 *] test = [3 *] text | hint"""
    before, test = re.fullmatch(r"(?:(\d+)\s*\*\s*)?(.*)", test, re.S).groups()
    weight, text, hint = re.fullmatch(r"(?:(\d+)\s*\*\s*)?(.*?)(?:\s*\|\s*(.*))?", value, re.S).groups()
    weight = weight or before
    if not text:
        raise Trouble(f"{ini}: the claim of {test} has no text")
    return Claim(test, text, hint or "", positive(weight, f"the weight of {test}", ini) if weight else 1)


def patch_named(words, root, ini):
    """"museum 28": the museum's patch of this number, which does not tell a hunter what it is; else a path."""
    number = re.fullmatch(r"museum (\d{1,4})", words)
    if not number:
        return words
    found = sorted(glob.glob(os.path.join(root, "tests/museum", f"{number[1]}-*.patch")))
    if len(found) != 1:
        raise Trouble(f"{ini}: starter_patch = {words}: tests/museum has {len(found)} patches of this number")
    return os.path.relpath(found[0], root)


def guarded_part(words, root, ini):
    """FILE MACRO: what lies between #ifndef MACRO and the next #endif of FILE."""
    if not words:
        return None
    path, _, macro = words.partition(" ")
    if not os.path.isfile(os.path.join(root, path)):
        raise Trouble(f"{ini}: guarded = {words}: {path} is not there")
    with open(os.path.join(root, path), encoding="utf-8") as f:
        text = f.read()
    # a handout has the file without the part
    if len(re.findall(rf"^#ifndef {re.escape(macro)}\n", text, re.M)) != 1:
        raise Trouble(f"{ini}: guarded = {words}: {path} has not one line #ifndef {macro}; say guarded = FILE MACRO")
    return path, macro


def beside(folder, root, name, ini, what):
    """A file of the exercise's folder, or of the tree."""
    for path in (os.path.join(folder, name), name):
        if os.path.isfile(os.path.join(root, path)):
            return path
    raise Trouble(f"{ini}: {what} = {name}, but there is no {folder}/{name} and no {name}")


def read(lesson, folder, root=ROOT):
    ini = os.path.join(folder, "exercise.ini")
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=(";",), strict=True)
    parser.optionxform = str
    try:
        with open(os.path.join(root, ini), encoding="utf-8") as f:
            parser.read_file(f, source=ini)
    except (configparser.Error, UnicodeDecodeError) as e:
        raise Trouble(f"{ini}: {e}") from None
    if not parser.has_section("exercise") or not parser.has_section("claims"):
        raise Trouble(f"{ini}: it needs the sections [exercise] and [claims]")
    said = dict(parser["exercise"])
    unknown = set(said) - KEYS
    if unknown:
        raise Trouble(f"{ini}: {', '.join(sorted(unknown))} is no word of [exercise]; they are "
                      f"{', '.join(sorted(KEYS))}")
    claims = [read_claim(test, value, ini) for test, value in parser["claims"].items()]
    if not claims:
        raise Trouble(f"{ini}: [claims] is empty; nothing could be scored")
    exercise = made_of(lesson, folder, root, ini, said, claims)
    if parser.has_section("python"):
        exercise.doors.append(second_door(exercise, root, ini, said, dict(parser["python"])))
        exercise.doors[1].doors = exercise.doors
    return exercise


def second_door(first, root, ini, said, python):
    """The same exercise in Python: the same claims, by tests of the same names."""
    unknown = set(python) - DOOR
    if unknown:
        raise Trouble(f"{ini}: {', '.join(sorted(unknown))} is no word of [python]; they are {', '.join(sorted(DOOR))}")
    words = {"title": said["title"], "ranks": said.get("ranks", "1"), "limit": said.get("limit", "60"),
             "kind": "python", **python}
    door = made_of(first.lesson, first.folder, root, ini, words, first.claims)
    without = {c.test for c in first.claims} - set().union(*(tests_in(t, root) for t in door.tests))
    if without:
        raise Trouble(f"{ini}: in Python there is no test {' '.join(sorted(without))}")
    if bool(door.further) != bool(first.further) or bool(door.hidden) != bool(first.hidden):
        raise Trouble(f"{ini}: both doors need further tests and hidden ones, or neither: else they have other numbers "
                      "of claims")
    return door


def made_of(lesson, folder, root, ini, said, claims):
    """The exercise, or one door of it, that these words tell of."""
    for key in ("title", "file", "tests"):
        if not said.get(key):
            raise Trouble(f"{ini}: [{'python' if said.get('kind') == 'python' else 'exercise'}] does not say {key}")
    kind = said.get("kind", "c")
    if kind not in KINDS:
        raise Trouble(f"{ini}: kind = {kind}; it is one of {', '.join(KINDS)}")
    if os.path.basename(said["file"]) != said["file"]:
        raise Trouble(f"{ini}: file = {said['file']} is a path; it is the name of the starter in this folder")
    words = {
        "title": said["title"], "file": said["file"], "kind": kind, "replaces": said.get("replaces", ""),
        "reference": said.get("reference", "reference.py" if kind == "python" else "reference.c"),
        "limit": positive(said.get("limit", "60"), "limit", ini),
        "tests": [beside(folder, root, t, ini, "tests") for t in said["tests"].split()],
        "ranks": [positive(n, "ranks", ini) for n in said.get("ranks", "1").split()], "figure": said.get("figure", ""),
        "starter_patch": patch_named(said.get("starter_patch", ""), root, ini),
        "secret": said.get("secret", "").split(),
        "withheld": said.get("withheld", "").split(), "trains": said.get("trains", ""),
        "guarded": guarded_part(said.get("guarded", ""), root, ini),
        "hidden": [os.path.join(folder, t) for t in said.get("hidden", "").split()],
    }
    for path in [*words["secret"], *words["hidden"], *filter(None, [words["starter_patch"]])]:
        if not os.path.isfile(os.path.join(root, path)):
            raise Trouble(f"{ini}: {path} is not there")
    if words["starter_patch"] and plant.touched(words["starter_patch"]) != {words["replaces"]}:
        raise Trouble(f"{ini}: starter_patch = {words['starter_patch']} has to change replaces = "
                      f"{words['replaces'] or 'none'}, and nothing else")
    if words["trains"] and not (kind == "c" and words["replaces"]):
        raise Trouble(f"{ini}: trains = {words['trains']}; only what replaces a file of C is in the program that "
                      "trains")
    if words["figure"] and kind != "table":
        raise Trouble(f"{ini}: figure = {words['figure']}; a submission that runs could print any, so it is for kind = "
                      "table")
    if set(words["ranks"]) - {1, 2, 4, 8}:
        raise Trouble(f"{ini}: ranks = {said['ranks']}; the runner has 1, 2, 4 and 8")
    words["further"] = set().union(*(tests_in(t, root) for t in words["tests"])) - {c.test for c in claims}
    exercise = Exercise(lesson, folder, claims, words)
    if not words["starter_patch"] and not os.path.isfile(os.path.join(root, folder, said["file"])):
        raise Trouble(f"{ini}: there is no starter {os.path.join(folder, said['file'])}")
    if exercise.replaces and not os.path.isfile(os.path.join(root, exercise.replaces)):
        raise Trouble(f"{ini}: replaces = {exercise.replaces}, which is not there")
    return exercise


# ---- which ----

def lessons(root=ROOT):
    folder = os.path.join(root, "lessons")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(n for n in names if re.match(r"\d\d-", n) and os.path.isdir(os.path.join(folder, n)))


def lesson_named(word, root=ROOT):
    """03, 3, 03-data or 03-data-parallelism"""
    word = word.strip().rstrip("/").split("/")[-1]
    if re.fullmatch(r"\d", word):
        word = "0" + word
    found = [n for n in lessons(root) if n == word or n.startswith(word)] if word else []
    if len(found) != 1:
        known = ", ".join(lessons(root)) or "none"
        raise Trouble(f"LESSON={word}: there is {'more than one' if found else 'no'} such lesson; the lessons are: "
                      f"{known}")
    return found[0]


def exercises_of(lesson, root=ROOT):
    folder = os.path.join("lessons", lesson)
    return [read(lesson, os.path.join(folder, name), root) for name in sorted(os.listdir(os.path.join(root, folder)))
            if os.path.isfile(os.path.join(root, folder, name, "exercise.ini"))]


def exercises(words="", staff=False, root=ROOT):
    """Exercises of these lessons ("03 05"), or of all ("" and "all"). staff: with the hidden tests."""
    names = lessons(root) if words.strip() in ("", "all") else [lesson_named(w, root) for w in words.split()]
    return [e.with_hidden(root) if staff else e for name in names for e in exercises_of(name, root)]


def choose(lesson, file, name="", root=ROOT):
    """The exercise that a file is for, in the door that it takes: by its name, else by the file's name, else the only
    one."""
    lesson = lesson_named(lesson, root)
    here = exercises_of(lesson, root)
    if not here:
        raise Trouble(f"lesson {lesson} has no exercise that is graded here (a handout has those of its week)")
    for found in ([e for e in here if e.name == name],
                  [e for e in here if not name and e.door_of(file).file == handed_in.plain(os.path.basename(file))],
                  here if not name else []):
        if len(found) == 1:
            return found[0].door_of(file)
    raise Trouble("\n".join([
        f"lesson {lesson} has no exercise {name}; its exercises are:" if name
        else f"which exercise of lesson {lesson} is {os.path.basename(file)} for? Say EXERCISE=name, or name the file "
        "as its starter:",
        *(f"    EXERCISE={e.name:<16} {e.file:<24} {e.title}" for e in here)]))

"""Which claim fails? Each student gets other planted mistakes of a lesson, and says for each which claim it breaks: by
the test's name, or in the claim's words.

The patches are those of tests/mutants/lessons/NN-name, drawn by the student's name, so that what was given out need not
be kept. An answer is right when the claim that it names fails for the reference with that mistake: the tests say so,
not a list of answers."""
import hashlib
import json
import os
import random
import re

from . import ROOT, Trouble, build, exercise, grade, launch, mutant, sheet

NAME, TITLE, SHEET = "which", "Which claim fails?", "which.txt"
MOST = 6             # patches of a student
SHORTEST = 12        # letters of an answer that is only a part of a claim
WAIT_S = 3           # that a rank of a wrong solution waits for others


def candidates(lesson):
    """(patch, exercise): mistakes that compile, in C, whose claim a student can name."""
    here = exercise.exercises_of(lesson)
    names = [e.name for e in here]
    found = []
    for e in here:
        known = {c.test for c in e.claims}
        found += [(path, e) for path in mutant.of(e, names) if e.kind == "c" and mutant.head(path, "claim") in known]
    return found


def drawn(lesson, name):
    """The patches of this student, in order: as many different claims as there are."""
    left = candidates(lesson)
    if not left:
        raise Trouble(f"lesson {lesson} has no planted mistakes that this can be asked about (a handout has none at "
                      "all)")
    random.Random(f"{lesson} {name}").shuffle(left)
    seen, first, rest = set(), [], []
    for one in left:
        claim = mutant.head(one[0], "claim")
        (rest if claim in seen else first).append(one)
        seen.add(claim)
    return (first + rest)[:MOST]


def there(lesson):
    return bool(candidates(lesson))


def questions(lesson, name):
    return [f"patch {i}" for i, _ in enumerate(drawn(lesson, name), 1)]


# ---- giving out ----

def bare(patch):
    """Without the lines that tell."""
    with open(patch, encoding="utf-8") as f:
        return "".join(line for line in f if not line.startswith("# "))


def text_for(lesson, name):
    """The sheet to fill in."""
    chosen = drawn(lesson, name)
    lines = [f"# Lesson {lesson}, for {name}: each of the patches next to this file plants one mistake. "
             "Which claim fails then?",
             "# Write a claim behind each number:  1 = test_name, or its words, or enough of them to fit no other "
             "claim.",
             "# Any claim that fails with that patch is right."]
    for e in {e.name: e for _, e in chosen}.values():
        lines += ["#", f"# claims of {e.name}:", *(f"#   {c.test}: {c.text}" for c in e.claims)]
    return "\n".join([*lines, "", *(f"{i} = " for i in range(1, len(chosen) + 1))]) + "\n"


def give_out(lesson, name, out):
    """The patches and the sheet, in a new folder."""
    texts = {f"{i}.patch": bare(patch) for i, (patch, _) in enumerate(drawn(lesson, name), 1)}
    try:
        os.makedirs(out)
    except FileExistsError:
        raise Trouble(f"OUT={out} is there already; choose another") from None
    for file, text in {**texts, SHEET: text_for(lesson, name)}.items():
        with open(os.path.join(out, file), "w", encoding="utf-8", errors="backslashreplace") as f:
            f.write(text)
    return len(texts)


# ---- grading ----

def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def broken(patch, e, built):
    """Names of the claims that fail with this patch. Kept in build/grade/, as long as patch, reference and tests are
    the same."""
    made_of = "\0".join([bare(patch), read(e.reference), *map(read, e.tests),
                         *map(read, [os.path.join(e.folder, "exercise.ini")])])
    folder = os.path.join(ROOT, build.build_folder(), "grade", "which",
                          hashlib.sha256(made_of.encode()).hexdigest()[:16])
    kept = os.path.join(folder, "fails.json")
    if os.path.isfile(kept):
        with open(kept, encoding="utf-8") as f:
            return json.load(f)
    os.makedirs(folder, exist_ok=True)
    mutant.apply(patch, e, os.path.join(folder, e.file))
    result = grade.grade(grade.base_of(e, built), launch.Plain(folder), e.file, timeout=WAIT_S)
    fails = [c.test for c, o in result.claims if o.failed_on is not None]
    if not fails:
        raise Trouble(f"{patch}: no claim fails ({result.status} {result.message or result.after}); see make "
                      "check-exercises")
    with open(kept + ".new", "w", encoding="utf-8") as f:
        json.dump(fails, f)
    os.replace(kept + ".new", kept)
    return fails


def answers(text):
    """number -> what is written behind it; the first line of a number that says something counts."""
    said = {}
    for number, words in sheet.written(text, r"\d{1,3}", "=:.)"):
        said[int(number)] = said.get(int(number)) or words
    return said


def spoken(text):
    """Letters and digits in words, to be compared."""
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def meant(answer, claims):
    """The tests whose claim this answer can be: one, if it is understood. A test's name, then a claim's text, then a
    part of one of them."""
    first, words = answer.split()[0].rstrip(":,.;") if answer else "", spoken(answer)
    for fits in (lambda c: c.test == first, lambda c: words in (spoken(c.text), spoken(c.test)),
                 lambda c: len(words) >= SHORTEST
                 and (words in spoken(c.text) or words in spoken(c.test) or spoken(c.text) in words)):
        found = sorted({c.test for c in claims if words and fits(c)})
        if found:
            return found
    return []


class Answer:
    """To one patch. test: what was understood; any of `fails` is right."""

    def __init__(self, number, text, understood, fails):
        self.number, self.text = number, text
        self.test = understood[0] if len(understood) == 1 else ""
        self.understood, self.right = bool(self.test), self.test in fails
        what = ("nothing said" if not text else f"wrong: {self.test} holds" if self.test else
                f"not understood: \"{text[:60]}\" "
                + (f"fits {' and '.join(understood)}" if understood else "is no claim's name or words"))
        self.told = f"{what}; what fails: {' '.join(fails)}"


def graded(lesson, name, text, built=False):
    """The answers of a student's sheet, without running what is not needed."""
    said, chosen = answers(text), drawn(lesson, name)
    claims = [c for e in {e.name: e for _, e in chosen}.values() for c in e.claims]
    return [Answer(i, said.get(i, ""), meant(said.get(i, ""), claims), broken(patch, e, built))
            for i, (patch, e) in enumerate(chosen, 1)]

"""The tree without the answers: starters in place of what they replace, no references, no mistakes that quote them.

Of every lesson, whichever are given out: one week's handout must not hold the next week's answers. An exercise is

    given out    its starter is in the tree, and exercise.ini, by which it is graded
    over         as in the project, reference and all (OVER); only what is the staff's is gone
    later        the starter's code in the tree, no reference; and exercise.ini is called later.ini, a name that only
                 the Makefile reads

Hidden tests, planted mistakes and answers are the staff's, and in no handout. The program that learners run has to work
all the same: the replaced files are packed into references/, and the Makefile compiles those."""
import filecmp
import functools
import glob
import gzip
import json
import os
import re
import shutil
import subprocess

from . import ROOT, Trouble, exercise
from .plant import touched


FOR_TEACHERS = {"docs/answers.md": "answers for teachers",
                "tests/data/grade": "submissions of the grader's tests, some of them right",
                ".github": "the project's own checks, which students need not wait for"}


def files_of(root):
    """What belongs to the project: what git tracks, or everything but what is built."""
    try:
        top = subprocess.run(["git", "-C", root, "rev-parse", "--show-toplevel"], capture_output=True,
                             text=True).stdout.strip()
        if top and os.path.realpath(top) == os.path.realpath(root):
            listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True,
                                    check=True).stdout
            return sorted(f for f in listed.split("\0") if f and os.path.lexists(os.path.join(root, f)))
    except FileNotFoundError:
        pass
    found = []
    for folder, below, names in os.walk(root):
        inside = os.path.relpath(folder, root)
        below[:] = [d for d in below if d not in (".git", "__pycache__")
                    and not (inside == "." and re.match(r"build(-|$)", d))]
        found += [os.path.normpath(os.path.join(inside, n)) for n in names]
    return sorted(found)


def made(e, path, text):
    """A file that the handout has instead of `path`."""
    instead = os.path.join(os.environ.get("BUILD", "build"), "grade", "handout", f"{e.number}-{e.name}",
                           os.path.basename(path))
    os.makedirs(os.path.dirname(os.path.join(ROOT, instead)), exist_ok=True)
    with open(os.path.join(ROOT, instead), "w", encoding="utf-8") as f:
        f.write(text)
    return instead


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def without_words(text):
    """The columns of a table of rows: ids, numbers, yes and no."""
    rows = [{k: v for k, v in row.items() if k == "id" or isinstance(v, (bool, int, float))}
            for row in json.loads(text)]
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def untold(e, path):
    """What stands in place of a file that tells: the numbers of a table; of a page the title, so that links to it lead
    somewhere."""
    why = f"Not in a handout with lesson {e.number}: it has the answers to an exercise."
    if path.endswith(".json"):
        return without_words(read(path))
    if path.endswith(".svg"):
        return ('<svg xmlns="http://www.w3.org/2000/svg" width="600" height="40"><title>Not in a '
                f'handout</title><desc>{why}</desc>'
                f'<rect width="100%" height="100%" fill="#fff"/><text x="8" y="25">{why}</text></svg>\n')
    return read(path).split("\n", 1)[0] + f"\n\n{why}\n"


def keep_secrets(e, chosen):
    """Leave out what gives the answer away."""
    for path in set(e.secret) & set(chosen):
        chosen[path] = made(e, path, untold(e, path))


def without_part(e, chosen):
    """The file whose part the exercise asks for, with the starter in place of that part, which the compiler refuses."""
    path, macro = e.guarded
    if path not in chosen:
        return
    instead = f'#ifndef {macro}\n#error "compile with -D{macro}, and your {e.file} of lesson {e.number}"\n' \
              f"{read(e.starter)}#endif\n"
    text = re.sub(rf"(?ms)^#ifndef {macro}\n.*?^#endif\n", lambda _: instead, read(chosen[path]))
    chosen[path] = made(e, path, text)


def ini_without(e, keys):
    """exercise.ini, without naming what is not there."""
    ini = os.path.join(e.folder, "exercise.ini")
    text = read(ini)
    told = re.sub(rf"^({'|'.join(keys)})\s*=.*\n", "", text, flags=re.M) if keys else text
    return ini if told == text else made(e, ini, told)


def bare(e, path):
    """The parts of a hidden test that the runner reads: its first line, and the names."""
    lines = read(path).splitlines(keepends=True)
    return made(e, path,
                lines[0] + "".join(lines[next(i for i, line in enumerate(lines) if line.startswith("TESTS(")):]))


class Parts:
    """Which exercises a handout has, and in which way. over: names of lessons."""

    def __init__(self, given, over=()):
        labels = {e.label for e in given}
        self.every, self.given = exercise.exercises(), given
        self.over = [e for e in self.every if e.lesson in over]
        self.later = [e for e in self.every if e.label not in labels and e.lesson not in over]
        both = sorted({e.number for e in given if e.lesson in over})
        if both:
            raise Trouble(f"lesson {' '.join(both)} is in LESSON and in OVER; it is one or the other")
        # The file of a later bug hunt stays the right one: no one has to read code with a bug in it for weeks.
        self.replaced = {e.replaces: e.starter for e in [*(e for e in self.later if not e.starter_patch), *given]
                         if e.replaces}                # of two the one that is given out
        self.references = {d.reference for e in [*given, *self.later] for d in e.doors}
        self.not_graded = {os.path.join(e.folder, "exercise.ini") for e in self.later}

    def why_not(self, path):
        """Why a file is not in the handout; "" if it is."""
        for name, what in FOR_TEACHERS.items():
            if path == name or path.startswith(name + "/"):
                return what
        if path.startswith("references/") or (path in self.references and path.startswith("lessons/")):
            return "a reference"
        if path.startswith("tests/mutants/lessons/"):
            return "mistakes of the lesson"
        if path.endswith(".patch") and touched(path) & self.references:
            return "quotes what is replaced"
        if path in self.not_graded:
            return "a later exercise"
        return ""


def contents(parts, hidden=""):
    """The handout's files: path in it -> path of the file to copy; and what is left out, with the reason. hidden tests:
    "" none of them, "whole", or "bare", what a program that has been built needs: of those in Python nothing."""
    tests = {path: d for e in parts.every for d in e.doors for path in d.hidden}
    chosen, left_out = {}, {}
    for path in files_of(ROOT):
        unseen = path in tests and (not hidden or hidden == "bare" and path.endswith(".py"))
        why = parts.why_not(path) or ("a hidden test" if unseen else "")
        if why:
            left_out[path] = why
        else:
            chosen[path] = bare(tests[path], path) if path in tests and hidden == "bare" \
                else parts.replaced.get(path, path)
    gone = [] if hidden else ["hidden"]
    for e in [*parts.given, *parts.later]:
        keep_secrets(e, chosen)
    for e in filter(lambda e: e.guarded, parts.given):        # before its week the file is read, whole
        without_part(e, chosen)
    for e in parts.given:
        chosen[os.path.join(e.folder, e.file)] = e.starter    # one that is made from a patch is an ordinary one
        if e.name.startswith("unseen"):                       # of an examination: git does not list its files
            chosen.update({path: path
                           for path in (*e.tests, *glob.glob(os.path.join(e.folder, "*.ini"), root_dir=ROOT))})
    for these, name, keys in ((parts.given, "exercise.ini", ["starter_patch", "secret", *gone]),
                              (parts.over, "exercise.ini", gone),
                              (parts.later, "later.ini", ["starter_patch", "secret", *gone])):
        chosen.update((os.path.join(e.folder, name), ini_without(e, keys)) for e in these)
    return chosen, left_out


def pack(path, out):
    """references/PATH.gz, as old as the file itself: objects that were made from that are current."""
    packed = os.path.join(out, "references", path + ".gz")
    os.makedirs(os.path.dirname(packed), exist_ok=True)
    with open(os.path.join(ROOT, path), "rb") as source, open(packed, "wb") as f:
        f.write(gzip.compress(source.read(), mtime=0))
    shutil.copystat(os.path.join(ROOT, path), packed)


def renew(out, previous):
    """Give what differs from the handout before the present time: its objects were made from that, later perhaps than
    the file was changed here."""
    for folder, _, names in os.walk(out):
        for path in (os.path.join(folder, n) for n in names):
            before = os.path.join(previous, os.path.relpath(path, out))
            if not (os.path.islink(path) or os.path.isfile(before) and filecmp.cmp(path, before, shallow=False)):
                os.utime(path)


def write(exercises, out, packed=False, hidden="", over=(), previous=""):
    """The tree at `out`, a folder that is not there yet or empty. packed: with what makes its program work; hidden: see
    contents; over: see Parts; previous: the handout before, whose objects students bring along."""
    if os.path.lexists(out) and (not os.path.isdir(out) or os.listdir(out)):
        raise Trouble(f"OUT={out} is there already and not an empty folder; choose another")
    parts = Parts(exercises, over)
    chosen, left_out = contents(parts, hidden)
    os.makedirs(out, exist_ok=True)
    for path, source in chosen.items():
        destination = os.path.join(out, path)
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, source), destination, follow_symlinks=False)
    for path in parts.replaced if packed else ():
        pack(path, out)
    if previous:
        renew(out, previous)
    return chosen, left_out


# ---- what else might tell ----

@functools.lru_cache(maxsize=None)
def telling_lines(path):
    """Lines of a source that say something: no comments, no includes, no lone braces."""
    comment, rest = (r'""".*?"""', r"#.*") if path.endswith(".py") else (r"/\*.*?\*/", r"//.*")
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        text = re.sub(comment, lambda m: "\n" * m[0].count("\n"), f.read(), flags=re.S)
    lines = (re.sub(r"\s+", "", re.sub(rest, "", line)) for line in text.splitlines())
    return {line for line in lines if len(line) >= 24 and not line.startswith("#")}


def elsewhere(e, chosen, enough=3):
    """Files of the handout with lines of the reference that the starter has not: (path, how many)."""
    if not e.reference.endswith((".c", ".cu", ".py")):
        return []
    secret = telling_lines(e.reference) - telling_lines(e.starter)
    found = []
    for path, source in chosen.items():
        if source == e.starter or not path.endswith((".c", ".h", ".cu", ".md", ".py")):
            continue
        n = len(secret & telling_lines(source))
        if n >= enough:
            found.append((path, n))
    return sorted(found, key=lambda f: -f[1])


def lessons_named(words):
    chosen = exercise.exercises(words)
    if not chosen:
        raise Trouble(f"LESSON={words} has no exercise; there is nothing to take out")
    return chosen

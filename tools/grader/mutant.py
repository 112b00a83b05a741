"""Planted mistakes of the exercises: tests/mutants/lessons/NN-name/EXERCISE-mistake.patch
(docs/how-to/add-a-lesson.md)."""
import glob
import os
import re
import subprocess

from . import ROOT, Trouble


def of(e, names):
    """The patches of an exercise, in the language of this door: of those whose name begins with its own, not with a
    longer one's."""
    others = {d.reference for d in e.doors if d is not e}
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/mutants/lessons", e.lesson, "*.patch"))):
        stem = os.path.basename(path)
        if e.name != max((n for n in names if stem.startswith(n + "-")), key=len, default=None):
            continue
        changes = set(touched(path))
        if e.reference in changes or (e is e.doors[0] and not changes & others):
            yield path


def touched(patch):
    with open(patch, encoding="utf-8") as f:
        return re.findall(r"^\+\+\+ (?:b/)?(\S+)", f.read(), re.M)


def head(path, word):
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith(f"# {word}:"):
                return line.split(":", 1)[1].strip()
    return ""


def apply(patch, e, destination):
    """The reference with the mistake. The patch has to name the reference, and apply without guessing."""
    changes = touched(patch)
    if changes != [e.reference]:
        raise Trouble(f"it changes {' '.join(changes) or 'nothing'}, not {e.reference}")
    done = subprocess.run(["patch", "--fuzz=0", "-s", "-r", "-", "-o", destination,
                           os.path.join(ROOT, e.reference), patch],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, cwd=ROOT)
    if done.returncode != 0 or not os.path.isfile(destination):
        raise Trouble(f"STALE, the patch does not apply: {done.stdout.strip().splitlines()[:1]}")

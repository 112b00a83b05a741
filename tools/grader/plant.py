"""Files of the tree with a patch applied to them: a bug that was published (tests/museum), planted."""
import os
import re
import shutil
import subprocess

from . import ROOT, Trouble


def touched(patch):
    """The files that it changes, from the project's root."""
    with open(os.path.join(ROOT, patch), encoding="utf-8", errors="replace") as f:
        return set(re.findall(r"^(?:---|\+\+\+) (?:[ab]/)?(\S+)", f.read(), re.M)) - {"/dev/null"}


def plant(patch, folder):
    """Copies of what the patch touches, below `folder` and patched there; their paths from the root. It has to apply
    without guessing."""
    paths = sorted(touched(patch))
    for path in paths:
        if not os.path.isfile(os.path.join(ROOT, path)):
            raise Trouble(f"{patch} changes {path}, which is not there")
        copy = os.path.join(ROOT, folder, path)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, path), copy)
    if not paths:
        raise Trouble(f"{patch} changes nothing; give a patch, as those of tests/museum")
    done = subprocess.run(["patch", "-p1", "--fuzz=0", "-s", "-r", "-", "-d", folder, "-i", os.path.join(ROOT, patch)],
                          cwd=ROOT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Trouble(f"STALE, {patch} does not apply: {' '.join(done.stdout.split())[:200]}")
    return paths


def one_file(patch, path, out):
    """`path` with the patch, at `out`; made again when one of the two is newer."""
    made = os.path.join(ROOT, out)
    newest = max(os.path.getmtime(os.path.join(ROOT, p)) for p in (patch, path))
    if os.path.isfile(made) and os.path.getmtime(made) >= newest:
        return out
    scratch = os.path.dirname(out) + f".{os.getpid()}"
    try:
        plant(patch, scratch)
        os.makedirs(os.path.dirname(made), exist_ok=True)
        os.replace(os.path.join(ROOT, scratch, path), made)
    finally:
        shutil.rmtree(os.path.join(ROOT, scratch), ignore_errors=True)
    return out

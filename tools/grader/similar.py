"""Which submissions are nearly equal? Names, comments, layout and the order of functions do not count; what the starter
has does not count either.

A text becomes tokens: keywords, numbers and signs as they are, every other name the same one. Each run of LENGTH tokens
is a shingle, and a file is the set of its shingles without the starter's (by their hashes, as a file may have many).
Two files are as similar as the smaller set is contained in the other (Schleimer, Wilkerson, Aiken 2003, without the
winnowing: files are short). Where there is one right answer, all right answers are equal: tables are not compared."""
import itertools
import keyword
import os
import re

from . import ROOT, handed_in

LENGTH = 12          # tokens; the head of a usual loop has 14
ENOUGH = 25          # shingles of its own that a file needs to be compared: a shorter one is like too many others
ALIKE = 0.6          # solutions written apart from each other had 0.08 to 0.13 in common
MOST = 200_000       # tokens of a file that are compared
KEYWORDS = set("break case char const continue default do double else enum float for goto if int long return short "
               "signed sizeof static struct "
               "switch typedef union unsigned void while bool true false NULL".split())
# Comments and directives first. No alternative fails after its first letters, so every text takes the time of
# one walk over it.
TOKEN = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*|^[ \t]*#[^\n]*|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*"
                   r"|\"(?:\\[^\n]|[^\"\\\n])*\"?|'(?:\\[^\n]|[^'\\\n])*'?"
                   r"|<<=|>>=|[-+*/%&|^!=<>]=|&&|\|\||\+\+|--|->|<<|>>|\S", re.S | re.M)


def tokens(text):
    for match in TOKEN.finditer(text):
        token = match[0]
        if token.startswith(("/*", "//")) or token.lstrip(" \t").startswith("#"):
            continue
        yield "name" if re.match(r"[A-Za-z_]", token) and token not in KEYWORDS else "text" \
            if token[0] == '"' else token


# The same of Python: strings of three quotes are its comments, too.
PYTHON = re.compile(r"#[^\n]*|\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)|[A-Za-z_]\w*|\.?\d(?:[eE][+-]|[\w.])*"
                    r"|\"(?:\\[^\n]|[^\"\\\n])*\"?|'(?:\\[^\n]|[^'\\\n])*'?|\*\*|//|<<|>>|[-+*/%&|^!=<>:]=|->|\S", re.S)


def tokens_of_python(text):
    for match in PYTHON.finditer(text):
        token = match[0]
        if token.startswith(("#", '"""', "'''")):
            continue
        yield "name" if re.match(r"[A-Za-z_]", token) and not keyword.iskeyword(token) else "text" \
            if token[0] in "\"'" else token


def shingles(text, in_python=False):
    words = list(itertools.islice((tokens_of_python if in_python else tokens)(text), MOST))
    return {hash(tuple(words[i:i + LENGTH])) for i in range(len(words) - LENGTH + 1)}


def likeness(a, b):
    """0 to 1 for two sets of shingles."""
    return len(a & b) / min(len(a), len(b)) if min(len(a), len(b)) >= ENOUGH else 0.0


def pairs(e, files):
    """From {student: path}: (likeness, student, student) of the pairs that are alike, the most alike first."""
    if e.kind == "table":
        return []
    in_python = e.kind == "python"
    with open(os.path.join(ROOT, e.starter), encoding="utf-8") as f:
        given = shingles(f.read(), in_python)
    of = {student: shingles(handed_in.text_of(path), in_python) - given for student, path in files.items()}
    found = [(likeness(of[a], of[b]), a, b) for a, b in itertools.combinations(sorted(of), 2)]
    return sorted((p for p in found if p[0] >= ALIKE), key=lambda p: (-p[0], p[1:]))


def alike(directory, students, e):
    """The pairs of a folder of submissions, each in one language."""
    found = {s: handed_in.find_door(os.path.join(directory, s), e) for s in students}
    return [pair for door in e.doors
            for pair in pairs(door, {s: path for s, (its, path, _) in found.items() if path and its is door})]

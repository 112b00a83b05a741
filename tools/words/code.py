"""The words of comments, help texts, messages and `# what:` lines, for tools/check-words."""

import os
import re
import subprocess

# PATH-START | TEXT: what stays, with the reason. At most 20.
ALLOWED = [
    ("", "to be told apart", "the idiom"),
    ("", "is to nearest", "rounding's own phrase, and no obligation"),
    ("", "Who keeps what", "a heading of lesson 04"),
    ("", "Who has what", "a heading of lesson 19"),
    ("tests/fuzz/make-seeds", "", "the name of a seed"),
    ("tests/test_checkpoint_async.c", "", "the name of a folder"),
    ("tests/check", "beside", "the word of a stage's row"),
    ("tools/grader/sandbox.py", "nobody, the user", "a user's name"),
    ("tools/check-style", 'split("for ever;anew', "the list of phrases itself"),
]
SUBJECTS = "ranks|they|programs|both|all|hosts|techniques|kernels|processes|others"
PERSONS = "one|someone|somebody|users?|readers?|students?|teachers?|those|learners?|people|authors?"
PHRASES = [  # what is not said in code, what is said instead
    (r"nobody", "no rank, no step, no one"),
    (r"whoever", "the rank that, a caller that"),
    (r"so many(?! that)", "N, or the number's name"),
    (r"(?:is|are|was|were) (?:not |also |only )?to(?= [a-z])", "must, or the plain verb"),
    (r"beside", "next to, with, against, during, besides"),
    (r"told(?! apart)", "gets, receives, says"),
    (r"who", "the rank that, which ranks"),
    (r"whom", "which rank"),
    (r"wants", "needs, requires"),
    (r"knows", "has, finds, computes"),
    (rf"(?:{SUBJECTS}) (?:want|know)", "need, have"),
    (r"foresight|foretell|foretold", "lookahead, predict"),
    (r"for ever", "forever"),
    (r"anew", "again"),
]
WORDS = re.compile(
    rf"(?<![\w'-])(?:{'|'.join(f'(?P<p{i}>{phrase})' for i, (phrase, _) in enumerate(PHRASES))})(?![\w-])",
    re.IGNORECASE,
)
FIRST = re.compile(r"\W*(?:@return\W+)?(Of|Who|What is)\b(?!:)")
C = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
PYTHON = re.compile(r'#[^\n]*|""".*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
SHELL = re.compile(r'(?:^|(?<=\s))#[^\n]*|"(?:\\.|[^"\\])*"|\'[^\']*\'', re.S)
WHAT = re.compile(r"^# what:[^\n]*(?:\n#  [^\n]*)*", re.M)


def language(path, text):
    if path.endswith(".patch"):
        return WHAT
    if path.endswith((".c", ".h", ".cu", ".cpp", ".cuh")):
        return C
    return PYTHON if path.endswith(".py") or text.startswith("#!/usr/bin/env python") else SHELL


def texts(path, source):
    """[from, to]: comments, with those of the next lines that go on, and strings, with those that follow at once."""
    found, last = language(path, source), None
    for match in found.finditer(source):
        kind = source[match.start()]
        if kind == "'" and found is C:
            continue
        gap = source[last[1] : match.start()] if last and kind == source[last[0]] else "no"
        if (kind == '"' and found is C and not gap.strip()) or (
            kind in "#/" and found is not WHAT and re.fullmatch(r"\n[ \t]*", gap)
        ):
            last[1] = match.end()
            continue
        if last:
            yield last
        last = [match.start(), match.end()]
    if last:
        yield last


def plain(path, text):
    """One line of words: no signs of comments, line breaks, quoted names, variables or formats."""
    if path.endswith(".patch"):
        text = text[len("# what:") :]
    elif text[0] == '"':
        text = re.sub(r'"\s*\n\s*"', "", text.replace(r"\n", "  "))
    text = re.sub(r"\n[ \t]*(?:\*(?!/)|//|#)?[ \t]*|\s+", " ", text)
    if not path.endswith((".c", ".h", ".cu", ".cpp", ".cuh", ".patch")):
        text = re.sub(r"\$\{[^}]*\}|\$\w+|\{[^{}]*\}", "X", text)
    return re.sub(r"`[^`]*`", "X", text)


def covers(words, text, match):
    """Is this word part of an allowed text?"""
    return not words or any(
        found.start() <= match.start() < found.end() for found in re.finditer(re.escape(words), text)
    )


def hits(path, source):
    """(line, what is wrong) of each word that is not said here."""
    for start, end in texts(path, source):
        text = plain(path, source[start:end])
        line = source.count("\n", 0, start) + 1
        for match in WORDS.finditer(text):
            number = next(i for i in range(len(PHRASES)) if match.group(f"p{i}"))
            if match.group(0).lower() == "who" and re.search(
                rf"\b(?:{PERSONS}) $", text[: match.start()], re.IGNORECASE
            ):
                continue
            if not any(path.startswith(where) and covers(words, text, match) for where, words, _ in ALLOWED):
                yield line, f'"{match.group(0)}"; say: {PHRASES[number][1]}'
        begins = FIRST.match(text) if source[start] in "/#" or text.startswith('"""') else None
        if begins:
            yield line, f'begins with "{begins.group(1)}"; begin with a subject and a verb'


def names(root):
    """The sources below a folder: those in git, or where there is no git all that are there."""
    found = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=False)
    if found.returncode == 0 and os.path.exists(os.path.join(root, ".git")):
        paths = found.stdout.split("\n")
    else:
        paths = [
            os.path.relpath(os.path.join(folder, file), root) for folder, _, files in os.walk(root) for file in files
        ]
    lists_of_words = ("tools/words/", "tools/check-words", "tests/more/words.sh")
    for path in sorted(paths):
        if not path or path.startswith(("build", "docs/benchmarks/", "tests/fuzz/seeds") + lists_of_words):
            continue
        name, full = os.path.basename(path), os.path.join(root, path)
        if os.path.islink(full) or not os.path.isfile(full):
            continue
        if (
            name.endswith((".c", ".h", ".cu", ".cpp", ".cuh", ".py", ".sh", ".bash", ".patch", ".mk"))
            or name == "Makefile"
        ):
            yield path
        elif "." not in name and open(full, "rb").read(2) == b"#!":
            yield path


def check(root, chosen):
    """(number of files, [(path, line, what is wrong)])."""
    paths, found = chosen or list(names(root)), []
    for path in paths:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            source = file.read()
        found += [(path, line, what) for line, what in hits(path, source)]
    return len(paths), found
